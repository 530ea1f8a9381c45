"""Runs that leave the order of magnitude of learning are stopped, as the equations are, and say so."""

import dataclasses
import warnings

import numpy as np
import pytest

import overlaps as ov


def machine(**options):
    return ov.committee_machine(2, 2, activation=ov.relu, eta=6.0, **options)


def mixture():
    gram = np.array([[[0.9, -0.4], [-0.4, 0.7]]])
    classes = {"weights": [0.3, 0.7], "labels": [1.0, -1.0], "gram": gram}
    return ov.gaussian_mixture(2, 2, activation=ov.relu, eta=6.0, **classes)


def manifold():
    return ov.hidden_manifold(2, 2, activation=ov.relu, features="sign", ratio=0.5, eta=6.0, nodes=4)


CASES = {
    "manifold": (manifold, {}),
    "direct": (machine, {"method": "direct"}),
    "single precision": (machine, {"method": "direct", "dtype": "float32"}),
    "reduced": (machine, {"method": "reduced"}),
    "mixture": (mixture, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_overlaps_that_grow_without_bound_are_no_success(name):
    make, options = CASES[name]
    model, N = make(), 40
    alpha = [0.5, 1.0, 5.0, 10.0, 20.0, 40.0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = ov.simulate(model, N=N, alpha=alpha, rng=1, runs=3, **options)
    told = [str(w.message) for w in caught if "diverged" in str(w.message)]
    assert len(told) == 1 and not runs.success
    assert "3 diverged (eta = 6 is probably above the stability limit" in runs.message
    there = np.isfinite(runs.Q).all(axis=(2, 3))
    # finite while they are of the size at which ``solve`` goes on, and nan from there on
    assert there[:, 0].all() and not there[:, -1].any() and np.all(np.diff(there.astype(int), axis=1) <= 0)
    assert np.nanmax(runs.Q) < 1e11
    calm = ov.simulate(dataclasses.replace(model, eta=0.1), N=N, alpha=alpha, rng=1, runs=3, **options)
    assert calm.success and np.all(np.isfinite(calm.Q))
