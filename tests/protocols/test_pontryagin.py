"""The optimum obeys the principle that its gradient was not made from: u = - p.f1 / (2 p.f2) along the way."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.flow.system import System


def along(model, best, k):
    """Rate at which the Hamiltonian is stationary at knot k; p = dV/dy of the remaining problem, by differences."""
    start, times = best.trajectory[k], best.trajectory.alpha[k:]
    schedule = ov.Schedule(times, best.eta[k:] / model.eta)
    system = System(model, start)
    y = system.pack(start)
    whole = system.rhs(0.0, y).copy()
    still = System(dataclasses.replace(model, gradient_flow=True), start)
    f1 = still.rhs(0.0, y).copy()
    f2 = whole - f1

    def slope(f):
        """Slope p . f, central differences of second and fourth order combined."""
        h = 1e-4 / np.max(np.abs(f))
        values = []
        for step in (h, -h, 2 * h, -2 * h):
            moved = system.state(y + step * f, start.alpha)
            values.append(ov.solve(model, moved, [times[-1]], schedule=schedule, rtol=1e-12).eps_g[0])
        return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h)

    one, two = slope(f1), slope(f2)
    assert two > 0  # a minimum of the Hamiltonian
    return -one / (2 * two)


@pytest.mark.slow
def test_stationary_rates_of_the_remaining_problem():
    model = ov.committee_machine(1, 1, eta=1.0, noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    gaps = {}
    for knots in (21, 41):
        best = ov.optimal_schedule(model, start, 40.0, knots=knots, tol=1e-8)
        inner = range(knots // 10, knots - knots // 10, knots // 5)
        found = np.array([along(model, best, k) for k in inner])
        gaps[knots] = np.abs(found / best.eta[list(inner)] - 1)
    # straight lines between knots miss the optimal rate by the square of their length
    assert gaps[21].max() < 1.5e-2 and gaps[41].max() < 4e-3
    assert np.median(gaps[41]) < 0.5 * np.median(gaps[21])
