"""What all compiled steps have in common: the flow behind a first-class closure, and which steps are worth a look."""

from functools import cache
from math import inf, sqrt

import numpy as np
from numba import types

from .._base.jit import compile_once, jit
from ..activations.bound import CLOSURE
from ..flow import FLOW, gather_groups
from ..models import factors

REAL, INT, BOOL = types.float64, types.int64, types.boolean
VECTOR, MATRIX, CUBE, INTS = (types.Array(t, n, "C") for t, n in ((REAL, 1), (REAL, 2), (REAL, 3), (INT, 1)))
CONSTANTS = types.Tuple([INT, INT, REAL, REAL, REAL, VECTOR, VECTOR, CUBE, REAL, REAL, REAL, BOOL, REAL, REAL])
WORK = types.Tuple([MATRIX, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR, MATRIX, VECTOR])
CONTROL = types.Tuple([REAL, REAL, REAL, REAL, BOOL, REAL, REAL])
PACED = types.Tuple([INTS, INTS, INTS, VECTOR, VECTOR, REAL, REAL, types.Tuple([VECTOR, MATRIX, MATRIX, VECTOR])])
FIRST = types.FunctionType(FLOW), types.FunctionType(CLOSURE), CONSTANTS, WORK, CONTROL  # arguments of every march

VANISHED, PLAIN, LOOK = 0, 1, 2  # how a march comes back: no step is small enough, a pause, a step worth a look
LARGEST = 10_000  # evaluations between two looks, at most
UNRESOLVED = 1e-2  # atol: squared norm of a student that learns by a rule below which its angle is lost
NEAR = 1e-5  # sine^2 of the angle of two kinked students below which every step is watched


@jit(inline=True)
def close(closure, constants, work, louder, y):
    """Evaluate the closure at y into the work arrays, with ``louder`` times the noise; return eps_g."""
    K, teacher, eta, eta_v, noise, s, p, tau, decay, decay_v, second_order, trains_v, drift, gradient = constants
    S, w, A, B, C, dv = work[:6]
    gather_groups(y, s, p, K, B.shape[1], trains_v, S, w)
    return closure(S, w, K, teacher, eta, eta_v, noise * louder, second_order > 0, A, B, C, dv)


@jit(inline=True)
def velocity(flow, closure, constants, pace, work, t, y, dy):
    """Fill dy/dalpha at time t; return eps_g.

    ``pace`` = (channels, codes, edges, data, knots, kappa, kappa_v, (factors, A, B, dv)) are the pieces of schedules,
    if there are any, and room: they scale copies of A, B, dv, which keep the numbers of the model, as a factor may be
    zero, and the error control divides.
    """
    K, teacher, eta, eta_v, noise, s, p, tau, decay, decay_v, second_order, trains_v, drift, gradient = constants
    channels, codes, edges, data, knots, kappa, kappa_v, driving = pace
    S, w, Am, Bm, C, dv = work[:6]
    scale, Au, Bu, dvu = driving
    paced = channels.size > 0
    if paced:
        factors(t, channels, codes, edges, data, scale)
    eps_g = close(closure, constants, work, scale[2], y)
    if paced:
        u, u_v = scale[0], scale[1]
        for i in range(len(Am)):
            for j in range(K):
                Au[i, j] = u * Am[i, j]
            for m in range(Bm.shape[1]):
                Bu[i, m] = u * Bm[i, m]
        for i in range(K):
            dvu[i] = u_v * dv[i]
        Am, Bm, dv = Au, Bu, dvu
        if decay >= 0.0:
            decay = eta * kappa * u * scale[3]
        decay_v, second_order = eta_v * kappa_v * u_v * scale[3], u * u * second_order / scale[4]
    flow(y, s, p, tau, Am, Bm, C, dv, decay, decay_v, second_order, trains_v, dy, drift)
    return eps_g


@jit(bare=True)
def change_of_eps_g(constants, work, dy):
    """First-order change of eps_g by a change dy of the overlaps, at the last evaluation."""
    K, teacher, eta, eta_v, noise, s, p, tau, decay, decay_v, second_order, trains_v, drift, gradient = constants
    S, w, Am, Bm, C, dv, dS, dw = work
    M, change = Bm.shape[1], 0.0
    if gradient == inf:
        return change
    gather_groups(dy, s, p, K, M, trains_v, dS, dw)
    for i in range(len(Am)):
        row = i + i // K * M  # of the group of A, in S
        for j in range(K):
            change -= Am[i, j] * dS[row, j] / (2 * gradient)
        for m in range(M):
            change -= Bm[i, m] * dS[row, K + m] / gradient
    if trains_v:
        for i in range(K):
            change -= dv[i] * dw[i] / eta_v
    return change


@jit(fast=True)
def positive(S, shift):
    """Whether S + shift is positive definite, by Cholesky's decomposition; False for nan."""
    n = S.shape[1]
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = S[i, j] + (shift if i == j else 0.0)
            for k in range(j):
                total -= c[i, k] * c[j, k]
            if i > j:
                c[i, j] = total / c[j, j]
            elif total > 0.0:
                c[i, i] = sqrt(total)
            else:
                return False
    return True


@jit(bare=True)
def nearly_parallel(S, K):
    """Whether two students are parallel up to an angle whose sine^2 is NEAR, in some group of blocks."""
    for at in range(0, S.shape[0], S.shape[1]):
        for i in range(K):
            for j in range(i):
                if abs(1.0 - S[at + i, j] * S[at + i, j] / max(S[at + i, i] * S[at + j, j], 1e-300)) < NEAR:
                    return True
    return False


@jit(bare=True)
def largest(x):
    """Largest |x_l|; inf where one is nan."""
    a = b = c = d = bad = 0.0  # four chains: a comparison waits for the one before
    for l in range(0, x.size - 3, 4):
        a, b, c, d = max(a, abs(x[l])), max(b, abs(x[l + 1])), max(c, abs(x[l + 2])), max(d, abs(x[l + 3]))
        bad += 0.0 * (x[l] + x[l + 1]) + 0.0 * (x[l + 2] + x[l + 3])
    for l in range(x.size - x.size % 4, x.size):
        a, bad = max(a, abs(x[l])), bad + 0.0 * x[l]
    return max(max(a, b), max(c, d)) if bad == 0.0 else inf


@jit
def notable(constants, work, control, y, eps_g):
    """(Whether y may be a reason to stop, whether two kinked students are nearly parallel) at the last evaluation."""
    rtol, atol, _, most, kinks, level, slack = control
    K, ruled, S = constants[0], constants[13] == inf, work[0]
    n, stop = S.shape[1], not largest(y) <= most or not eps_g > level
    for at in range(0, len(S), n):
        part, trace = S[at : at + n], 0.0
        for i in range(n):
            trace += part[i, i]
            stop = stop or (kinks and i < K and part[i, i] < 2 * atol)
            stop = stop or (ruled and i < K and part[i, i] < UNRESOLVED * atol)
        stop = stop or not positive(part, slack * trace)
    return stop, kinks and nearly_parallel(S, K)


@cache
def ready(flow, kernel, march, signature):
    """The kernels of a flow and a closure; ``march`` is compiled for the one signature, or read from the disk."""
    compile_once(march, signature)
    flow.compile(FLOW.args)  # with a return type numba would compile what Python calls once more
    kernel.compile(CLOSURE.args)
    return flow, kernel
