"""Minima by gradient flow from many starts: known bad minima, explicit weights, symmetries, bad input."""

from dataclasses import replace

import numpy as np
import pytest

import overlaps as ov
from overlaps.analysis import minima as module


def aligned(diagonal, rest, last, away):
    """R (6, 6) of the bad minimum of six units: five learn a teacher each, the last none."""
    R = np.full((6, 6), rest)
    R[:5, :5] += (diagonal - rest) * np.eye(5)
    R[:5, 5], R[5, :5], R[5, 5] = away, last, -0.602
    return R


def test_the_bad_minimum_of_six_relu_units():
    """From three digits of its overlaps: error and curvature of Safran and Shamir's minimum, and its symmetry."""
    model = ov.committee_machine(6, 6, activation="relu", eta=1.0, gradient_flow=True)
    R = aligned(0.987, -0.05, 0.225, 0.308)
    guess = ov.State.from_overlaps(model, Q=R @ R.T + 1e-3 * np.eye(6), R=R, T=np.eye(6))
    found = module._minimum(model, guess, 3.9)
    assert found.eps_g == pytest.approx(0.02508058100246, abs=1e-13)
    assert found.least_curvature == pytest.approx(0.0047, abs=1e-5) and found.symmetry == "S5"
    order = np.random.default_rng(1).permutation(6)
    turned = replace(guess, q=guess.q[:, order][:, :, order], r=guess.r[:, order][:, :, order[::-1]])
    assert module._minimum(model, turned, 3.9).symmetry == "S5"
    # in explicit weights small random steps raise the error, by the least curvature or more
    rng, teachers_first = np.random.default_rng(2), np.roll(found.state.S, 6, (0, 1))
    weights = np.roll(np.linalg.cholesky(teachers_first + 1e-13 * np.eye(12)), 6, 0)
    for _ in range(5):
        step = np.zeros((12, 12))
        step[:6] = rng.standard_normal((6, 12))
        W = weights + 1e-3 * step / np.linalg.norm(step)
        S = W @ W.T
        rise = ov.closure(model, S[:6, :6], S[:6, 6:], np.eye(6)).eps_g - found.eps_g
        assert rise > 0.9 * 0.0047 * 1e-6 / 2


@pytest.mark.slow
def test_300_starts_find_it():
    """Two seeds; about one start in 300 ends there."""
    model = ov.committee_machine(6, 6, activation="relu", eta=0.7, noise=0.1, batch_size=2)
    solution, bad = ov.theory.minima(model, starts=300, rng=1)
    assert solution.eps_g < 1e-9 and solution.symmetry == "S6" and solution.share > 0.98
    assert bad.eps_g == pytest.approx(0.02508058100246, abs=1e-12) and bad.symmetry == "S5"
    assert 0 < bad.share < 0.02 and solution.share + bad.share <= 1


@pytest.mark.slow
def test_minima_of_three_erf_students_are_the_stationary_points_without_descent():
    model = ov.committee_machine(3, 2, eta=1.0)
    solution, bad = ov.theory.minima(model, starts=60, rng=2)
    assert solution.eps_g < 1e-12 and bad.eps_g == pytest.approx(0.00149551, abs=1e-8)
    point = ov.fixed_point(replace(model, gradient_flow=True), bad.state)
    assert point.residual < 1e-12
    spectrum = ov.hessian(model, bad.state)
    assert bad.least_curvature == pytest.approx(min(spectrum.outliers.min(), spectrum.bulk.min()), rel=1e-6)
    assert bad.share == pytest.approx(2 / 60)


def test_symmetries_have_names():
    """Units on their teachers: all are equivalent, unless teachers differ in their norm or in v*."""
    model = ov.committee_machine(3, 3, eta=1.0, v=[1.0, 1.0, 0.5], v_star=[1.0, 1.0, 0.5])
    for v, T, name in (
        ([1, 1, 1], [1, 1, 1], "S3"),
        ([1, 1, 0.5], [1, 1, 1], "S2"),
        ([1, 0.7, 0.5], [1, 1, 1], "none"),
    ):
        state = ov.State.from_overlaps(model, Q=np.diag(T), R=np.diag(T), T=np.diag(T), v=v)
        assert module._symmetry(state) == name
    state = ov.State.from_overlaps(model, Q=np.diag([1, 1, 2]), R=np.diag([1, 1, 2]), T=np.diag([1, 1, 2]), v=[1, 1, 1])
    assert module._symmetry(state) == "S2"


def test_one_unit_has_one_minimum():
    found = ov.theory.minima(ov.committee_machine(1, 1, eta=1.0), starts=2)
    assert len(found) == 1 and found[0].share == 1 and "symmetry=none" in repr(found[0])


def test_bad_input_is_refused():
    model = ov.committee_machine(2, 2, eta=0.5)
    with pytest.raises(ValueError, match=r"T has shape \(3, 3\)"):
        ov.theory.minima(model, T=np.eye(3))
    with pytest.raises(ValueError, match="expected weight_decay = 0"):
        ov.theory.minima(replace(model, weight_decay=0.1))
    with pytest.raises(ValueError, match="theory.minima does not support students of fixed norm"):
        ov.theory.minima(replace(model, constraint="sphere"))
