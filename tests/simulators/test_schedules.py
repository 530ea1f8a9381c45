"""SGD under schedules: the same random numbers, the right factor at each step, agreement with the ODE."""

import dataclasses

import numpy as np
import pytest
from helpers import few

import overlaps as ov

S = ov.Schedule
MODEL = ov.committee_machine(2, 1, eta=0.7, eta_v=0.2, v=[1.0, 0.5], noise=0.2, weight_decay=0.1, batch_size=2)
START = MODEL.random_start(N=60, rng=5)
OPTIONS = {"N": 60, "alpha": [0.0, 1.0, 2.0, 3.0], "rng": 1, "runs": 2, "start": START}


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_a_factor_of_one_keeps_every_random_number(method):
    plain = ov.simulate(MODEL, method=method, **OPTIONS)
    one = {name: S.constant() for name in ("eta", "eta_v", "noise", "weight_decay", "batch_size")}
    for schedule in (S.power(0.0, scale=1.0), one):
        scheduled = ov.simulate(MODEL, method=method, schedule=schedule, **OPTIONS)
        np.testing.assert_array_equal(scheduled.q, plain.q)
        np.testing.assert_array_equal(scheduled.v, plain.v)
    assert scheduled.schedule is one and scheduled.eta.tolist() == [0.7] * 4


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_numbers_at_each_step_are_those_of_a_model_with_them(method):
    """Constant factors are another model on the same random numbers; N = 60 has knots between and at steps."""
    factors = {"eta": 0.5, "eta_v": 2.0, "noise": 3.0, "weight_decay": 0.25, "batch_size": 2.0}
    schedule = {name: S.constant(f) for name, f in factors.items()}
    numbers = {"eta": 0.35, "eta_v": 0.4, "noise": 0.6, "weight_decay": 0.025, "batch_size": 4}
    scheduled = ov.simulate(MODEL, method=method, schedule=schedule, **OPTIONS)
    other = ov.simulate(dataclasses.replace(MODEL, **numbers), method=method, **OPTIONS)
    np.testing.assert_allclose(scheduled.q, other.q, rtol=1e-12)
    np.testing.assert_allclose(scheduled.v, other.v, rtol=1e-12)


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_a_jump_acts_from_its_step_on(method):
    """With the rate at zero before a knot, nothing moves before the first step that does not lie before it."""
    for knot, first in ((1.0, 60), (1.01, 61), (np.nextafter(1.0, 2.0), 61)):
        schedule = S([0.0, knot], [0.0, 1.0], "constant")
        options = OPTIONS | {"alpha": np.arange(59, 64) / 60}
        model = dataclasses.replace(MODEL, weight_decay=0.0)
        runs = ov.simulate(model, method=method, schedule=schedule, **options)
        moved = np.any(runs.v[0] != START.v, axis=1)  # the record at n / N is that before step n
        np.testing.assert_array_equal(moved, np.arange(59, 64) > first)


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_batches_change_at_knots_and_records_do_not_matter(method):
    schedule = {"batch_size": S.step([1.0, 2.0], [3.0, 0.5])}
    runs = ov.simulate(MODEL, method=method, schedule=schedule, **OPTIONS)
    finer = ov.simulate(MODEL, method=method, schedule=schedule, **OPTIONS | {"alpha": np.linspace(0, 3, 46)})
    np.testing.assert_array_equal(finer.q[:, -1], runs.q[:, -1])
    plain = ov.simulate(MODEL, method=method, **OPTIONS)
    np.testing.assert_array_equal(runs.q[:, 1], plain.q[:, 1])
    assert not np.array_equal(runs.q[:, 2], plain.q[:, 2])


@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_a_run_goes_on_in_its_schedule(method):
    """A start at alpha_0 begins with step alpha_0 N: here the second half of a schedule."""
    schedule, start = S.step([1.0, 2.0], [0.0, 1.0]), dataclasses.replace(START, alpha=1.0)
    later = ov.simulate(MODEL, N=60, alpha=[1.0, 2.0, 3.0], rng=1, start=start, schedule=schedule, method=method)
    np.testing.assert_allclose(later.v[0, :2], np.tile(START.v, (2, 1)), rtol=0, atol=0)
    assert np.all(later.v[0, 2] != START.v)
    np.testing.assert_array_equal(later.eta, [0.0, 0.7, 0.7])


@pytest.mark.parametrize(
    "schedule, words",
    [
        ({"batch_size": S.warmup(1.0, first=0.5)}, ["kind 'constant'", "whole number"]),
        ({"batch_size": S.step([1.0], [0.75])}, ["the batch 1.5 from alpha = 1 on", "integer >= 1"]),
        ({"batch_size": S.step([1.0], [0.25])}, ["the batch 0.5"]),
        (S.from_function(lambda a: 1 - a), ["factor of eta", ">= 0"]),
        (0.5, ["schedule = 0.5", "expected a Schedule"]),
    ],
)
def test_bad_schedules_are_refused_before_any_step(schedule, words):
    with pytest.raises(ValueError) as error:
        ov.simulate(MODEL, schedule=schedule, **OPTIONS)
    assert all(word in str(error.value) for word in words), error.value


@few("method, N, runs", [("reduced", 800, 60), ("direct", 200, 24)], quick=1)
def test_mean_over_runs_agrees_with_the_flow(method, N, runs):
    model = ov.committee_machine(2, 2, eta=1.5, noise=0.3)
    start = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
    schedule = {"eta": S.power(1.0, scale=2.0), "noise": S([0, 24], [1, 0]), "batch_size": S.step([3.0], [2.0])}
    theory = ov.solve(model, start, [2.0, 4.0, 6.0], schedule=schedule)
    found = ov.simulate(model, N=N, alpha=theory.alpha, rng=3, runs=runs, start=start, method=method, schedule=schedule)
    for name in ("Q", "R"):
        gap = np.abs(found.mean(name) - getattr(theory, name))
        # norms are above by about .5 / N (1600 runs at N = 200), a third of an error here
        assert np.all(gap < 3 * found.standard_error(name))


def test_hidden_manifold_under_a_schedule():
    model = ov.hidden_manifold(2, 2, ratio=0.5, eta=0.4, noise=0.2)
    options = {"N": 100, "alpha": [0.0, 1.0, 2.0], "rng": 1}
    plain = ov.simulate(model, **options)
    scheduled = ov.simulate(model, schedule=S.step([1.0], [0.0]), **options)
    np.testing.assert_array_equal(scheduled.Q[:, 1], plain.Q[:, 1])
    np.testing.assert_array_equal(scheduled.Q[:, 2], scheduled.Q[:, 1])
    constants = {"eta": S.constant(0.5), "noise": S.constant(2.0), "batch_size": S.constant(3.0)}
    other = dataclasses.replace(model, eta=0.2, noise=0.4, batch_size=3)
    two = ov.simulate(model, schedule=constants, **options), ov.simulate(other, **options)
    np.testing.assert_allclose(two[0].Q, two[1].Q, rtol=1e-5)  # single precision
