"""The flow under a piecewise-linear factor u on both rates, on a fixed grid, and the discrete adjoint of its steps.

Each interval between knots is divided into equal steps of the order-8 tableau of DOP853 (12 stages).  The discretised
flow is differentiated, so that the gradient is exact for the discretised objective, and the flow is not integrated
backwards in time.  With dy = u f1(y) + u^2 f2(y) (plus the drift of teachers, which does not depend on u), J the
Jacobian of dy and phi the hat functions, each step backwards is

    mu_i = h b_i lambda + h sum_{j > i} a_ji theta_j,     theta_i = J(Y_i)^T mu_i (+ h b_i grad eps_g(Y_i) / horizon),
    lambda <- lambda + sum_i theta_i,                      g_k += phi_k(t_i) mu_i . (f1 + 2 u f2)
"""

from functools import cache
from types import FunctionType
from typing import NamedTuple

import numpy as np
from numba import types
from scipy.integrate import DOP853

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, compile_once, jit
from ..activations.bound import CLOSURE
from ..flow import FLOW, add, clear, copy, dot
from ..flow.velocity import FUNCTIONS, Constants, Work, close


class Tableau(NamedTuple):
    """Butcher tableau of an explicit Runge-Kutta method."""

    stages: int
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


TABLEAU = Tableau(12, *(np.ascontiguousarray(x[:12]) for x in (DOP853.A, DOP853.B, DOP853.C)))


@jit(no_reference_counting=True)
def velocity(flow, closure, constants, work, second, y, dy):
    """Fill dy with f1 + ``second`` f2 at y; return eps_g."""
    eps_g = close(closure, constants, work, 1.0, y)
    flow(
        y, constants.s, constants.p, constants.source, work.A, work.B, work.C, work.dv, constants.decay,
        constants.decay_v, second * constants.second_order, constants.trains_v, dy, 0.0,
    )  # fmt: skip
    return eps_g


@jit(no_reference_counting=True)
def spread(s, K, M, trains_v, g, theta):
    """Add G^T g to theta; g is ordered as the derivatives of a closure: triangle of Q, R, v."""
    L, triangle, position = s.size, K * (K + 1) // 2, 0
    for i in range(K * M):
        for l in range(L):
            theta[position + l] += g[triangle + i]
        position += L
    for i in range(triangle):
        for l in range(L):
            theta[position + l] += g[i] * s[l]
        position += L
    if trains_v:
        for k in range(K):
            theta[position + k] += g[triangle + K * M + k]


@jit(no_reference_counting=True)
def add_gradient(constants, work, weight, g, theta):
    """Add ``weight`` times the gradient of eps_g, at the last evaluation, to theta; g is a work array."""
    K, eta, trains_v, A, B = constants.K, constants.eta, constants.trains_v, work.A, work.B
    M, at = B.shape[1], 0
    for i in range(K):
        for j in range(i, K):
            # A = -eta H: d eps_g = H dQ / 2 on the diagonal of Q, and H dQ for a pair of equal entries off it
            g[at] = -weight * A[i, j] / (2 * eta if i == j else eta)
            at += 1
    for i in range(K):
        for m in range(M):
            g[at] = -weight * B[i, m] / eta
            at += 1
    for i in range(K):
        g[at + i] = -weight * work.dv[i] / constants.eta_v if trains_v else 0.0
    spread(constants.s, K, M, trains_v, g, theta)


@jit(no_reference_counting=True)
def add_frozen(constants, work, mu, theta):
    """Add D^T mu to theta, D the flow at constant A, B, C, without its sources."""
    K, s, decay, A, B = constants.K, constants.s, constants.decay, work.A, work.B
    L, M = s.size, B.shape[1]
    first = K * M * L
    for k in range(K):
        for m in range(M):
            km = (k * M + m) * L
            for l in range(L):
                theta[km + l] -= decay * mu[km + l]
            for j in range(K):
                for l in range(L):
                    theta[(j * M + m) * L + l] += s[l] * A[k, j] * mu[km + l]
    at = first
    for i in range(K):
        for j in range(i, K):
            for l in range(L):
                theta[at + l] -= 2 * decay * mu[at + l]
            for k in range(K):
                # q is symmetric and only its triangle is stored: row i of A acts on column j, and row j on column i
                for a, b in ((i, j), (j, i)):
                    low, high = min(k, b), max(k, b)
                    kb = first + (low * K - low * (low - 1) // 2 + high - low) * L
                    for l in range(L):
                        theta[kb + l] += s[l] * A[a, k] * mu[at + l]
            for m in range(M):
                for l in range(L):
                    theta[(j * M + m) * L + l] += B[i, m] * mu[at + l]
                    theta[(i * M + m) * L + l] += B[j, m] * mu[at + l]
            at += L
    if constants.trains_v:
        for k in range(K):
            theta[at + k] -= constants.decay_v * mu[at + k]


@jit(no_reference_counting=True)
def advance(flow, closure, constants, work, length, h, t, first, last, y, Y, f):
    """One step: fill the stages Y (12, n) and their f (12, n), advance y; return sum_i b_i eps_g(Y_i).

    t and h are in units of the interval between two knots, which has this ``length``; u is linear from ``first`` to
    ``last`` on it.
    """
    mean, drift, crossed = 0.0, constants.drift, work.B.size * constants.s.size
    for i in range(TABLEAU.stages):
        copy(y, Y[i])
        for j in range(i):
            if TABLEAU.a[i, j] != 0.0:
                add(h * length * TABLEAU.a[i, j], f[j], Y[i])
        u = first + (t + TABLEAU.c[i] * h) * (last - first)
        eps_g = velocity(flow, closure, constants, work, u, Y[i], f[i])
        for l in range(y.size):
            # ``velocity`` returns f1 + u f2, here multiplied by u; the drift changes r alone
            f[i, l] = u * f[i, l] - (drift * Y[i, l] if l < crossed else 0.0)
        mean += TABLEAU.b[i] * eps_g
    for i in range(TABLEAU.stages):
        add(h * length * TABLEAU.b[i], f[i], y)
    return mean


@jit
def forward(flow, closure, constants, work, knots, u, per, states, values):
    """Fill ``states`` (knots, n) from the first row on, and values = (eps_g at the end, its integral)."""
    n = states.shape[1]
    y, Y, f = np.empty(n), np.empty((TABLEAU.stages, n)), np.empty((TABLEAU.stages, n))
    copy(states[0], y)
    values[1] = 0.0
    for k in range(knots.size - 1):
        length, h = knots[k + 1] - knots[k], 1.0 / per[k]
        for step in range(per[k]):
            mean = advance(flow, closure, constants, work, length, h, step * h, u[k], u[k + 1], y, Y, f)
            values[1] += h * length * mean
        copy(y, states[k + 1])
    values[0] = velocity(flow, closure, constants, work, 0.0, y, Y[0])


@jit
def backward(flow, closure, derivatives, constants, work, knots, u, per, states, final, weight, lam, gradient):
    """Fill the gradient by u at the knots of the objective, along the ``states`` of ``forward``.

    The objective is ``weight`` times the integral of eps_g, plus eps_g at the end if ``final``, plus a function of the
    last state with gradient ``lam``, which is replaced by the gradient by the first state.
    """
    K, s, trains_v = constants.K, constants.s, constants.trains_v
    drift, second_order = constants.drift, constants.second_order
    M, n = work.B.shape[1], states.shape[1]
    d = K * (K + 1) // 2 + K * M + K
    dA, dB, dC, ddv = np.empty((d, K, K)), np.empty((d, K, M)), np.empty((d, K, K)), np.empty((d, K))
    g, y, column, mu = np.zeros(d), np.empty(n), np.empty(n), np.empty(n)
    theta, f, crossed = np.empty((TABLEAU.stages, n)), np.empty((TABLEAU.stages, n)), K * M * s.size
    clear(gradient)
    if final:
        velocity(flow, closure, constants, work, 0.0, states[-1], column)
        add_gradient(constants, work, 1.0, g, lam)
    for k in range(knots.size - 2, -1, -1):
        length, h = knots[k + 1] - knots[k], 1.0 / per[k]
        # compute the stages of one interval again from its first state, to save memory
        Y = np.empty((per[k], TABLEAU.stages, n))
        copy(states[k], y)
        for step in range(per[k]):
            advance(flow, closure, constants, work, length, h, step * h, u[k], u[k + 1], y, Y[step], f)
        for step in range(per[k] - 1, -1, -1):
            for i in range(TABLEAU.stages - 1, -1, -1):
                clear(mu)
                add(h * length * TABLEAU.b[i], lam, mu)
                for j in range(i + 1, TABLEAU.stages):
                    if TABLEAU.a[j, i] != 0.0:
                        add(h * length * TABLEAU.a[j, i], theta[j], mu)
                position = (step + TABLEAU.c[i]) * h
                factor = u[k] + position * (u[k + 1] - u[k])
                # f1 + 2 u f2 is the derivative of u f1 + u^2 f2 by u
                velocity(flow, closure, constants, work, 2 * factor, Y[step, i], column)
                slope = dot(mu, column)
                # hat functions: the slope at a stage contributes to both knots of the interval
                gradient[k] += (1 - position) * slope
                gradient[k + 1] += position * slope
                dA.fill(0.0)
                dB.fill(0.0)
                dC.fill(0.0)
                ddv.fill(0.0)
                derivatives(
                    work.S, work.w, K, constants.teacher, constants.eta, constants.eta_v, constants.noise,
                    second_order > 0, dA, dB, dC, ddv,
                )  # fmt: skip
                for a in range(d if trains_v else d - K):
                    flow(
                        Y[step, i], s, constants.p, constants.source, dA[a], dB[a], dC[a], ddv[a], 0.0, 0.0,
                        factor * second_order, trains_v, column, 0.0,
                    )  # fmt: skip
                    g[a] = dot(mu, column)
                clear(theta[i])
                add_frozen(constants, work, mu, theta[i])
                spread(s, K, M, trains_v, g, theta[i])
                for l in range(n):
                    theta[i, l] = factor * theta[i, l] - (drift * mu[l] if l < crossed else 0.0)
                if weight > 0.0:
                    add_gradient(constants, work, weight * h * length * TABLEAU.b[i], g, theta[i])
            for i in range(TABLEAU.stages):
                add(1.0, theta[i], lam)


@cache
def interpreted():
    """``forward`` and ``backward`` in plain Python, for closures that compiled code cannot call."""
    namespace = dict(globals(), close=getattr(close, "py_func", close))
    for function in (velocity, advance, forward, backward):
        python = getattr(function, "py_func", function)  # kernels are plain functions if compilation is disabled
        namespace[function.__name__] = FunctionType(python.__code__, namespace)
    return namespace["forward"], namespace["backward"]


@cache
def compiled_kernels(flow, closure, derivatives):
    """Compile ``forward``, ``backward`` and their three kernels, or load them from the cache; return the kernels."""
    slopes = types.void(MATRIX, VECTOR, INT, INT, REAL, REAL, REAL, BOOL, CUBE, CUBE, CUBE, MATRIX)
    fixed = Constants.type, Work.type, VECTOR, VECTOR, INTS, MATRIX
    compile_once(forward, types.void(*FUNCTIONS, *fixed, VECTOR))
    compile_once(backward, types.void(*FUNCTIONS, types.FunctionType(slopes), *fixed, BOOL, REAL, VECTOR, VECTOR))
    flow.compile(FLOW.args)
    closure.compile(CLOSURE.args)
    derivatives.compile(slopes.args)
    return flow, closure, derivatives
