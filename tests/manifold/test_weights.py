"""Explicit weights on the hidden manifold: what is drawn, normalised, and refused."""

import numpy as np
import pytest
from manifolds import manifold

import overlaps as ov
from overlaps.manifold.weights import random_weights


def test_rows_of_features_are_normalised_unless_told_otherwise(rng):
    model = manifold(features="relu")
    W, W_star, F = random_weights(model, N=60, rng=rng)
    stretched = F * rng.uniform(0.5, 2, (60, 1))
    options = dict(N=60, alpha=[0, 1], rng=1)
    a = ov.simulate(model, weights=(W, W_star, F), **options)
    b = ov.simulate(model, weights=(W, W_star, stretched), **options)
    np.testing.assert_allclose(a.Q, b.Q, rtol=1e-6)  # single precision
    with pytest.raises(ValueError, match="expected rows normalised"):
        ov.simulate(model, weights=(W, W_star, stretched), normalise_rows=False, **options)
    own = ov.simulate(model, weights=(W, W_star, stretched), normalise_rows=False, moments="exact", **options)
    np.testing.assert_array_equal(own.F[0], stretched)
    assert own.Q[0, 0, 0, 0] == pytest.approx(own.realisation(0)[1].Q[0, 0], rel=1e-6)


def test_uncentred_features_warn():
    with pytest.warns(RuntimeWarning, match="mean vector of squared norm a\\^2 N"):
        ov.simulate(manifold(features="relu"), N=50, alpha=[0, 1], rng=1, center=False)
    ov.simulate(manifold(features="sign"), N=50, alpha=[0, 1], rng=1, center=False)  # a = 0: nothing to subtract


def test_runs_need_one_latent_dimension():
    model = manifold(ratio=0.495)  # 49.5 latents: 49 and 50 are both near
    weights = [(np.ones((2, 100)), np.ones((2, D)), np.ones((100, D))) for D in (49, 50)]
    with pytest.raises(ValueError, match="expected one D"):
        ov.simulate(model, N=100, alpha=(0, 1), rng=1, runs=2, weights=weights)
