r"""Linear students under a schedule of the learning rate, by an exponential trapezoidal quadrature.

In :math:`\theta = \int \eta\,d\alpha` every block relaxes at its own constant rate, and only the noise of the steps
depends on the schedule,

.. math:: \frac{dm_l}{d\theta} = -2 s_l m_l + s_l p_l q, \qquad q = \frac{\eta}{B}(2\epsilon + \sigma^2) .

Over a step the decay is exact and q linear in theta; its value at the end solves a linear equation. The method is of
second order, with one extrapolation.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base import Floats, check
from ..._base.jit import jit
from ...models.schedule import Schedule


class StepOptions(NamedTuple):
    """Tunable numbers of the steps of the integration."""

    first_step: float = 1e-3  # Step beside a knot, as a fraction of the fastest time scale.
    steps_per_decade: int = 200  # Coarse steps in a decade of the time since a knot; more: smaller errors, more time.


STEPS = StepOptions()


def scheduled(law, alpha, schedule, N_l) -> Floats:
    """Error at checked times, with eta times the factors of the schedule."""
    check.kind("schedule", schedule, Schedule, "ov.Schedule.power(0.5, scale=1.0)")
    if not np.all(np.isfinite(alpha)):
        raise check.refused("alpha", alpha.tolist(), "finite times. Without a schedule: error.")
    nodes = _nodes(law, alpha, schedule)
    fine = np.sort(np.concatenate([nodes, (nodes[1:] + nodes[:-1]) / 2]))
    coarse, better = (_integrate(law, t, schedule, N_l) for t in (nodes, fine))
    values = better[::2] + (better[::2] - coarse) / 3
    return values[np.searchsorted(nodes, alpha)]


def _nodes(law, alpha, schedule):
    """Times of the coarse steps: geometric on both sides of each knot, and the times of the result."""
    end = float(np.max(alpha, initial=0.0))
    knots = np.concatenate([[0.0], schedule.knots[(schedule.knots > 0) & (schedule.knots < end)], [end]])
    last = np.isin(end, schedule.knots)
    short = STEPS.first_step / (2 * law.spectrum.s[0] * law.eta)
    nodes = [np.ravel(alpha), knots]
    for i, (begin, stop) in enumerate(zip(knots[:-1], knots[1:], strict=True)):
        both = i < len(knots) - 2 or last
        length = (stop - begin) / (2 if both else 1)
        if length > short:
            away = np.geomspace(short, length, int(np.ceil(STEPS.steps_per_decade * np.log10(length / short))) + 1)
            nodes += [begin + away[:-1], stop - away] if both else [begin + away[:-1]]
    return np.unique(np.concatenate(nodes))


def _integrate(law, t, schedule, N_l):
    """Error at all nodes."""
    s, p = law.spectrum.s[:N_l], law.spectrum.p[:N_l]
    right, left = law.eta * schedule(t), law.eta * schedule(t)
    jumps = np.isin(t, schedule.jumps)
    left[jumps] = law.eta * schedule(np.nextafter(t[jumps], -np.inf))
    steps = (right[:-1] + 4 * law.eta * schedule((t[1:] + t[:-1]) / 2) + left[1:]) / 6 * np.diff(t)
    if max(right.max(), left.max()) >= (limit := law.critical_eta(N_l)):
        raise ValueError(
            f"the schedule takes eta to {max(right.max(), left.max()):.6g}; expected rates below {limit:.6g}, above "
            "which errors grow."
        )
    frozen, B = law.frozen(N_l), law.batch_size
    extra = law.noise**2 + 2 * frozen
    return frozen + 0.5 * integrate(s, p * s**2, s * law.m0[:N_l], steps, right / B, left / B, extra)


@jit
def integrate(s, weight, y, steps, right, left, extra):
    """Sum of y_l at all nodes of dy_l/dtheta = -2 s_l y_l + weight_l q, q = rate (sum_l y_l + extra); y is overwritten.

    ``steps`` in theta; ``right`` and ``left`` are the rates just after and just before each node.
    """
    total, gain = np.empty(steps.size + 1), np.empty(s.size)
    total[0] = y.sum()
    for i in range(steps.size):
        h, new, feedback = steps[i], 0.0, 0.0
        old = h * right[i] * (total[i] + extra)
        for l in range(s.size):
            x = 2 * h * s[l]
            if x < 1e-3:
                phi1 = 1 - x / 2 + x**2 / 6 - x**3 / 24
                phi2 = 0.5 - x / 6 + x**2 / 24 - x**3 / 120
                decay = 1 - x * phi1
            else:
                decay = math.exp(-x)
                phi1 = (1 - decay) / x
                phi2 = (1 - phi1) / x
            y[l] = decay * y[l] + old * weight[l] * (phi1 - phi2)
            gain[l] = h * left[i + 1] * weight[l] * phi2
            new += y[l]
            feedback += gain[l]
        total[i + 1] = (new + feedback * extra) / (1 - feedback)
        for l in range(s.size):
            y[l] += gain[l] * (total[i + 1] + extra)
    return total
