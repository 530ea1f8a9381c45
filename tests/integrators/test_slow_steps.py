"""Runs whose steps stay tiny say so, and rules at starts of equal or vanishing overlaps do not make them tiny."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import overlaps as ov
from overlaps.flow.binding import bind
from overlaps.integrators import monitors
from overlaps.integrators.evolve import closure_note


def interrupted_after(steps):
    seen = []

    def progress(alpha):
        seen.append(alpha)
        if len(seen) > steps:
            raise KeyboardInterrupt

    return progress


def test_a_run_of_tiny_steps_says_so(recwarn, monkeypatch):
    """Steps held at 1e-3 of an interval of 1e7: one warning, before the one about the interruption."""
    warnings.simplefilter("always")
    monkeypatch.setattr(monitors, "SLOW", monitors.SLOW._replace(min_seconds=0.0))
    model = ov.committee_machine(1, 1, eta=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    ov.solve(model, start, [0, 1e7], method="RK45", max_step=1e-3, progress=interrupted_after(400))
    first, second = (str(x.message) for x in recwarn)
    assert "shorter than 1e-06 of the interval and do not grow" in first and "interrupted" in second


def test_a_long_run_whose_steps_grow_does_not(recwarn, monkeypatch):
    monkeypatch.setattr(monitors, "SLOW", monitors.SLOW._replace(min_seconds=0.0))
    model = ov.committee_machine(1, 1, eta=0.3, spectrum=ov.power_law(beta=1.0, L=30))
    start = model.random_start(N=999990, rng=1)
    assert ov.solve(model, start, [0, 1e6]).success
    assert not [x for x in recwarn if "do not grow" in str(x.message)]


def test_errors_of_integrals_are_smooth_where_overlaps_vanish():
    """Integrals over four fields to 1e-6: equal teachers turn the eigenvectors of S at random, and errors with them.

    Overlaps that change by 1e-11 change averages by as much, up to rounding of sums over a million nodes.
    """
    bound = bind(ov.learner(ov.rules.logistic_committee(1, 3, beta=2.0), eta=1.0))
    S, w, rng = np.eye(4), np.zeros(4), np.random.default_rng(1)
    S[0] = S[:, 0] = 0.5, 0.1, 0.02, 0.05
    bound.check(S, w)
    found = []
    for _ in range(3):
        moved = S.copy()
        moved[0, 1:] += 1e-11 * rng.normal(size=3)
        moved[1:, 0] = moved[0, 1:]
        found.append(np.concatenate([x.ravel() for x in bound.arrays(moved, w)]))
    np.testing.assert_allclose(found[1:], found[:1] * 2, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_a_diagonal_start_of_a_rule_of_four_fields_ends():
    """A start with R_13 = 0 exactly, as against R_13 = 1e-3 and 2e-3 carried to zero."""
    model = ov.learner(ov.rules.logistic_committee(1, 3, beta=2.0), eta=1.0)

    def end(R3):
        start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.1, 0.05, R3]], T=np.eye(3))
        traj = ov.solve(model, start, [0, 1.0])
        assert traj.success and traj.nfev < 200
        return traj.R[-1, 0]

    np.testing.assert_allclose(end(0.0), 2 * end(1e-3) - end(2e-3), rtol=0, atol=1e-5)  # second differences: 1e-6


def test_the_error_of_C_is_told_relative_to_its_largest_entry():
    closure = SimpleNamespace(message="", chance=0.0, error=2e-9)
    note = closure_note(closure, np.array([[1e-3, -4e-3], [-4e-3, 2e-3]]))
    assert note == " Estimated error of C at the end: 2.0e-09, 5.0e-07 of its largest entry."
