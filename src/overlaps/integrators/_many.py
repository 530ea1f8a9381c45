"""Many trajectories of one closure, one after another, in one compiled function without the GIL."""

import numpy as np
from numba import types

from .._base.jit import jit
from ..flow import copy
from ._dop853 import BEGIN, ROWS, SIGNATURE, begin, march
from ._steps import BOOL, CUBE, FIRST, INT, INTS, LARGEST, LOOK, MATRIX, PLAIN, REAL, VECTOR, largest, ready

FOUR = types.Array(REAL, 4, "C")
CONTROLS = types.Tuple([REAL, REAL, REAL, REAL, BOOL, REAL, REAL, REAL, BOOL])
PIECES = types.Tuple([INTS, INTS, INTS, VECTOR, VECTOR])
ALL = types.void(
    types.FunctionType(BEGIN), types.FunctionType(SIGNATURE), *FIRST[:2], INT, INT, BOOL, MATRIX, MATRIX, MATRIX, FOUR,
    CONTROLS,
    PIECES, VECTOR, INTS, INTS, CUBE, MATRIX, MATRIX, CUBE, INTS, INTS,
)  # fmt: skip


@jit
def march_all(begin, march, flow, closure, K, teacher, trains_v, rates, s, p, tau, controls, pieces, stops, places,
              halt, S, w, y, records, nfev, state):  # fmt: skip
    """March every trajectory from its first to its last time, and leave to Python what is worth a look.

    ``rates`` (b, 10) = eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient_rate;
    ``controls`` = (rtol, atol, max_step, growth that is divergence, kinks, level of eps_g, slack, first step, whether
    blocks are kept); ``pieces`` are those of one schedule for all, with its knots, which are among the ``stops``.
    ``records`` (b, n, kept + 1), at the ``places`` (n,) among the stops, takes the packed overlaps, or their sums over
    blocks, and the account of the error of eps_g.
    ``state`` becomes 1 where a trajectory is finished, 2 where Python is to do it; ``halt[0] != 0`` ends the work.
    """
    rtol, atol, max_step, growth, kinks, level, slack, first, blocks = controls
    n, M, groups = y.shape[1], S.shape[2] - K, S.shape[1] // S.shape[2]
    kept = records.shape[2] - 1
    channels, codes, edges, data, knots = pieces
    A, B, C, dv = np.zeros((groups * K, K)), np.zeros((groups * K, M)), np.zeros((groups * K, K)), np.zeros(K)
    driving = np.ones(5), np.empty_like(A), np.empty_like(B), np.empty_like(dv)
    dS, dw = np.zeros((S.shape[1], S.shape[2])), np.zeros(w.shape[1])
    y_old, new, k, out = np.empty(n), np.empty(n), np.zeros((ROWS, n)), np.empty((stops.size, n + 2))
    clock, place = np.empty(4), np.empty(3, np.int64)
    for b in range(len(y)):
        eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient = rates[b]
        constants = (
            K, teacher, eta, eta_v, noise, s[b], p[b], tau[b], decay, decay_v, second_order, trains_v, drift,
            gradient,
        )  # fmt: skip
        pace = channels, codes, edges, data, knots, kappa, kappa_v, driving
        work = S[b], w[b], A, B, C, dv, dS, dw
        most = growth * max(1.0, largest(y[b]))
        control = rtol, atol, max_step, most, kinks, level, slack
        clock[0], clock[1], clock[2], clock[3] = stops[0], first, 0.0, stops[0]
        place[0], place[1], place[2] = 1, 1, 0
        copy(y[b], out[0, :n])
        out[0, n] = 0.0
        eps_g = closure(S[b], w[b], K, teacher, eta, eta_v, noise, False, A, B, C, dv)
        code = PLAIN if eps_g > level else LOOK
        if code == PLAIN and first == 0.0:
            span = stops[-1] - stops[0]
            clock[1] = begin(flow, closure, constants, work, control, pace, span, stops[0], y[b], new, k)
            place[2] = 2
        while code == PLAIN and place[0] < stops.size and halt[0] == 0:
            code = march(
                flow, closure, constants, work, control, stops, False, pace, LARGEST, y[b], y_old, new, k, clock, out,
                place,
            )  # fmt: skip
        nfev[b] = place[2]
        if code != PLAIN:
            state[b] = 2
        elif place[0] == stops.size:
            state[b] = 1
            last = min(place[1], stops.size - 1)  # where the start is all that is asked for, it is the last record, too
            copy(y[b], out[last, :n])
            out[last, n] = clock[2]
            for j in range(places.size):
                row, record = out[places[j]], records[b, j]
                record[kept] = row[n]
                if blocks:
                    copy(row, record[:kept])
                else:
                    add_up(row[:n], s[b], K, M, trains_v, record)
        if halt[0] != 0:
            return


@jit(bare=True)
def add_up(y, s, K, M, trains_v, out):
    """Fill ``out`` with R (K, M), the upper triangle of Q, and v where it is trained, as ``Packing.sums`` does."""
    L, entries = s.size, K * M + K * (K + 1) // 2
    for i in range(entries):
        out[i] = 0.0
        for l in range(L):
            out[i] += y[i * L + l] if i < K * M else s[l] * y[i * L + l]
    if trains_v:
        copy(y[entries * L :], out[entries : entries + K])


def ready_all(flow, kernel):
    """``march`` and the kernels of a flow and a closure, with ``march_all`` compiled, or read from the disk."""
    ready(flow, kernel, begin, BEGIN)
    ready(flow, kernel, march, SIGNATURE)
    return begin, march, *ready(flow, kernel, march_all, ALL)
