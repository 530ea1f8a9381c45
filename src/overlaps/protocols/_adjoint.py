"""The flow under a piecewise-linear factor u on both rates, on a fixed grid, and the discrete adjoint of its steps.

Each interval between knots is cut into equal steps of the order-8 tableau of DOP853 (12 stages).  Discretise, then
differentiate: the gradient is exact for the discretised objective, and nothing is integrated backwards in time.  With
dy = u f1(y) + u^2 f2(y), and teachers that drift, which no rate changes, J the Jacobian of dy and phi the hat
functions, per step backwards

    mu_i = h b_i lambda + h sum_{j > i} a_ji theta_j,     theta_i = J(Y_i)^T mu_i (+ h b_i grad eps_g(Y_i) / horizon),
    lambda <- lambda + sum_i theta_i,                      g_k += phi_k(t_i) mu_i . (f1 + 2 u f2)
"""

from functools import cache
from types import FunctionType

import numpy as np
from numba import types
from scipy.integrate import DOP853

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, compile_once, jit
from ..activations.bound import CLOSURE
from ..flow import FLOW, add, clear, copy, dot
from ..flow.velocity import FUNCTIONS, Constants, Work, close

DERIVATIVES = types.void(MATRIX, VECTOR, INT, INT, REAL, REAL, REAL, BOOL, CUBE, CUBE, CUBE, MATRIX)
FORWARD = types.void(*FUNCTIONS, Constants.type, Work.type, VECTOR, VECTOR, INTS, MATRIX, VECTOR)
BACKWARD = types.void(
    *FUNCTIONS, types.FunctionType(DERIVATIVES), Constants.type, Work.type, VECTOR, VECTOR, INTS, MATRIX, BOOL, REAL,
    VECTOR, VECTOR,
)  # fmt: skip

STAGES = 12
A, B, NODES = (np.ascontiguousarray(x[:STAGES]) for x in (DOP853.A, DOP853.B, DOP853.C))


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
    """Add G^T g to theta; g along the triangle of Q, then R, then v, as the derivatives of a closure."""
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
    """Add ``weight`` times the gradient of eps_g, at the last evaluation, to theta; g is room to work in."""
    K, eta, trains_v, A, B = constants.K, constants.eta, constants.trains_v, work.A, work.B
    M, at = B.shape[1], 0
    for i in range(K):
        for j in range(i, K):
            # A = -eta H: on the diagonal of Q, d eps_g = H dQ / 2, off it both entries move together
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
    """Add D^T mu to theta: the transpose of the flow at frozen closure, without its sources."""
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
                # q is symmetric and stored once: row i of A acts on column j, and row j on column i
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
    """One step: fill the stages Y (12, n) and their f (12, n), move y; u goes from ``first`` to ``last`` over [0, 1].

    t and h are in units of the interval between two knots, of this ``length``; return sum_i b_i eps_g(Y_i).
    """
    mean, drift, crossed = 0.0, constants.drift, work.B.size * constants.s.size
    for i in range(STAGES):
        copy(y, Y[i])
        for j in range(i):
            if A[i, j] != 0.0:
                add(h * length * A[i, j], f[j], Y[i])
        u = first + (t + NODES[i] * h) * (last - first)
        eps_g = velocity(flow, closure, constants, work, u, Y[i], f[i])
        for l in range(y.size):
            # ``velocity`` gives f1 + u f2: times u these are the terms of order u and u^2; drift belongs to r alone
            f[i, l] = u * f[i, l] - (drift * Y[i, l] if l < crossed else 0.0)
        mean += B[i] * eps_g
    for i in range(STAGES):
        add(h * length * B[i], f[i], y)
    return mean


@jit
def forward(flow, closure, constants, work, knots, u, per, states, values):
    """Fill ``states`` (knots, n) from the first row on, and values = (eps_g at the end, its integral)."""
    n = states.shape[1]
    y, Y, f = np.empty(n), np.empty((STAGES, n)), np.empty((STAGES, n))
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

    The objective is ``weight`` times the integral of eps_g, plus eps_g at the end if ``final``, plus what comes later,
    with the gradient ``lam`` by the last state; ``lam`` becomes the gradient by the first one.
    """
    K, s, trains_v = constants.K, constants.s, constants.trains_v
    drift, second_order = constants.drift, constants.second_order
    M, n = work.B.shape[1], states.shape[1]
    d = K * (K + 1) // 2 + K * M + K
    dA, dB, dC, ddv = np.empty((d, K, K)), np.empty((d, K, M)), np.empty((d, K, K)), np.empty((d, K))
    g, y, column, mu = np.zeros(d), np.empty(n), np.empty(n), np.empty(n)
    theta, f, crossed = np.empty((STAGES, n)), np.empty((STAGES, n)), K * M * s.size
    clear(gradient)
    if final:
        velocity(flow, closure, constants, work, 0.0, states[-1], column)
        add_gradient(constants, work, 1.0, g, lam)
    for k in range(knots.size - 2, -1, -1):
        length, h = knots[k + 1] - knots[k], 1.0 / per[k]
        # the stages of one interval at a time, made again from its first state: all of them would not fit into memory
        Y = np.empty((per[k], STAGES, n))
        copy(states[k], y)
        for step in range(per[k]):
            advance(flow, closure, constants, work, length, h, step * h, u[k], u[k + 1], y, Y[step], f)
        for step in range(per[k] - 1, -1, -1):
            for i in range(STAGES - 1, -1, -1):
                clear(mu)
                add(h * length * B[i], lam, mu)
                for j in range(i + 1, STAGES):
                    if A[j, i] != 0.0:
                        add(h * length * A[j, i], theta[j], mu)
                place = (step + NODES[i]) * h
                factor = u[k] + place * (u[k + 1] - u[k])
                # f1 + 2 u f2 is the derivative of u f1 + u^2 f2 by u
                velocity(flow, closure, constants, work, 2 * factor, Y[step, i], column)
                slope = dot(mu, column)
                # hat functions: a stage between two knots hears both, by its distance from the other one
                gradient[k] += (1 - place) * slope
                gradient[k + 1] += place * slope
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
                    add_gradient(constants, work, weight * h * length * B[i], g, theta[i])
            for i in range(STAGES):
                add(1.0, theta[i], lam)


@cache
def interpreted():
    """``forward`` and ``backward`` in plain Python, for closures that compiled code cannot call."""
    world = dict(globals(), close=getattr(close, "py_func", close))
    for function in (velocity, advance, forward, backward):
        python = getattr(function, "py_func", function)  # without compilation kernels are plain functions
        world[function.__name__] = FunctionType(python.__code__, world)
    return world["forward"], world["backward"]


@cache
def ready(flow, closure, derivatives):
    """Compile ``forward`` and ``backward`` for their signatures, or read them from the disk; and the three kernels."""
    for function, signature in ((forward, FORWARD), (backward, BACKWARD)):
        compile_once(function, signature)
    flow.compile(FLOW.args)
    closure.compile(CLOSURE.args)
    derivatives.compile(DERIVATIVES.args)
    return flow, closure, derivatives
