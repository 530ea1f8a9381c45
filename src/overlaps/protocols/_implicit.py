"""Linear students on any spectrum under a piecewise-linear factor u: implicit steps, and the adjoint of these steps.

With the overlaps m_l of the difference between student and teacher, eta times the squared norm of v, and noise s2,

    dm_l = -2 u eta s_l m_l + (u eta)^2 s_l p_l (sum_k s_k m_k + s2) / b,        eps_g = sum_l s_l m_l / 2,

whose Jacobian is diagonal plus rank one.  Each step of the L-stable SDIRK2, gamma = 1 - 1/sqrt 2, is two
Sherman-Morrison solves, O(L), for any ratio of the eigenvalues; its adjoint is two transposed solves.
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..flow import copy


class StageCoefficients(NamedTuple):
    """Coefficients of the two stages of a step."""

    gamma: float = 1 - 1 / math.sqrt(2)
    stage_weight: float = (1 - gamma) / gamma  # the second stage starts from (1 - stage_weight) m + stage_weight Y_1


SDIRK2 = StageCoefficients()


@jit
def solve(s, p, rate, second, h, transposed, x, scratch):
    """Solve (1 - gamma h J) y = x in place, or with the transpose of J; second = (u eta)^2 / b."""
    top, bottom, c = 0.0, 1.0, SDIRK2.gamma * h * second
    for l in range(s.size):
        inverse = 1.0 / (1.0 + 2 * SDIRK2.gamma * h * rate * s[l])
        scratch[l] = inverse * (s[l] if transposed else s[l] * p[l])
        x[l] *= inverse
        top += x[l] * (s[l] * p[l] if transposed else s[l])
        bottom -= c * s[l] * s[l] * p[l] * inverse
    multiple = c * top / bottom
    for l in range(s.size):
        x[l] += multiple * scratch[l]


@jit
def stage(step, i, per, first, last, eta):
    """(Relative position of stage i of a step in its interval, the rate there)."""
    position = (step + (SDIRK2.gamma if i == 0 else 1.0)) / per
    return position, eta * (first + position * (last - first))


@jit
def advance(s, p, rate, second, noise2, h, i, m, y, scratch):
    """Stage i of a step from m, in place of y; for the second stage y is the first stage."""
    for l in range(s.size):
        y[l] = m[l] if i == 0 else (1 - SDIRK2.stage_weight) * m[l] + SDIRK2.stage_weight * y[l]
        y[l] += SDIRK2.gamma * h * second * noise2 * s[l] * p[l]
    solve(s, p, rate, second, h, False, y, scratch)


@jit
def forward(constants, knots, u, per, states, values):
    """Fill ``states`` (knots, L) from the first row on, and values = (eps_g at the end, its integral)."""
    s, p, eta, weight, noise2 = constants
    m, y, scratch = states[0].copy(), np.empty(s.size), np.empty(s.size)
    values[1] = 0.0
    for k in range(knots.size - 1):
        h = (knots[k + 1] - knots[k]) / per[k]
        for step in range(per[k]):
            for i in range(2):
                position, rate = stage(step, i, per[k], u[k], u[k + 1], eta)
                advance(s, p, rate, weight * rate**2, noise2, h, i, m, y, scratch)
                values[1] += h * ((1 - SDIRK2.gamma) if i == 0 else SDIRK2.gamma) * np.sum(s * y) / 2
            copy(y, m)
        copy(m, states[k + 1])
    values[0] = np.sum(s * m) / 2


@jit
def backward(constants, knots, u, per, states, final, mean, gradient):
    """Fill the gradient by u at the knots: of ``mean`` times the integral of eps_g, plus its end value if ``final``."""
    s, p, eta, weight, noise2 = constants
    lam, mu, scratch, gradient[:] = np.zeros(s.size), np.empty(s.size), np.empty(s.size), 0.0
    if final:
        lam += s / 2
    for k in range(knots.size - 2, -1, -1):
        h, m = (knots[k + 1] - knots[k]) / per[k], states[k].copy()
        Y = np.empty((per[k], 2, s.size))
        for step in range(per[k]):
            for i in range(2):
                position, rate = stage(step, i, per[k], u[k], u[k + 1], eta)
                if i == 1:
                    copy(Y[step, 0], Y[step, 1])
                advance(s, p, rate, weight * rate**2, noise2, h, i, m, Y[step, i], scratch)
            m = Y[step, 1].copy()
        for step in range(per[k] - 1, -1, -1):
            before = np.zeros(s.size)
            for i in range(1, -1, -1):
                position, rate = stage(step, i, per[k], u[k], u[k + 1], eta)
                weight_of_eps = mean * h * ((1 - SDIRK2.gamma) if i == 0 else SDIRK2.gamma) / 2
                for l in range(s.size):
                    mu[l] = (lam[l] if i == 1 else SDIRK2.stage_weight * mu[l]) + weight_of_eps * s[l]
                solve(s, p, rate, weight * rate**2, h, True, mu, scratch)
                before += (1 - SDIRK2.stage_weight) * mu if i == 1 else mu
                y = Y[step, i]
                slope = -2 * np.sum(mu * s * y) + 2 * weight * rate * np.sum(mu * s * p) * (np.sum(s * y) + noise2)
                gradient[k] += (1 - position) * eta * SDIRK2.gamma * h * slope
                gradient[k + 1] += position * eta * SDIRK2.gamma * h * slope
            lam = before
