"""Many trajectories of one closure, one after another, in one compiled function without the GIL.

``advance_batch`` does for each trajectory what ``burst.RungeKutta`` does for one: it fills the named parts, asks
``begin``
for the first step and calls ``advance`` until the last stop.  Work arrays that hold nothing between trajectories (A, B,
C, dv, velocities, records) are made once for the call, so once for a thread; ``Problems`` has what is each one's own.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..flow import copy
from ..flow.velocity import FUNCTIONS, CompiledSchedule, Constants, ScheduleFactors, Work
from ._dop853 import BEGIN, ROWS, SIGNATURE, Steps, advance, begin
from ._steps import ACCOUNT, BEFORE, LARGEST, LOOK, OUTPUT, PLAIN, RECORDED, SPENT, Control, H, T, largest, ready


@typed_namedtuple
class Problems(NamedTuple):
    """The b trajectories: what ``Constants`` and ``ScheduleFactors`` name for one, and where they start."""

    K: INT
    teacher: INT
    trains_v: BOOL
    # (b, 12): eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient_rate, error_size, _noise
    rates: MATRIX
    s: MATRIX
    p: MATRIX
    tau: types.Array(REAL, 4, "C")
    S: CUBE  # and w: work arrays, each its own, since their constant parts differ
    w: MATRIX
    y: MATRIX  # packed overlaps: at the start, and at the end after it


@typed_namedtuple
class Outcome(NamedTuple):
    """Returned arrays."""

    records: CUBE  # (b, n, kept + 1): packed overlaps, or their sums over blocks, and the account of the error of eps_g
    nfev: INTS
    state: INTS  # FINISHED, or BY_PYTHON where Python is to do it; 0 where the work was halted


FINISHED, BY_PYTHON = 1, 2
ALL = types.void(
    types.FunctionType(BEGIN), types.FunctionType(SIGNATURE), *FUNCTIONS, Problems.type, CompiledSchedule.type,
    Control.type,
    REAL, BOOL, VECTOR, INTS, INTS, Outcome.type,
)  # fmt: skip


@jit
def advance_batch(
    begin, advance, flow, closure, problems, pieces, control, first, blocks, stops, places, halt, outcome
):
    """March every trajectory from its first to its last time, and leave to Python what is worth a look.

    ``control.most`` is the growth that is divergence, ``first`` the first step or 0, ``blocks`` whether those of the
    overlaps are kept.  ``pieces`` are those of one schedule for all, with its knots, which are among the ``stops``;
    records are taken at the ``places`` (n,) among the stops.  ``halt[0] != 0`` ends the work.
    """
    K, S, y, trains_v = problems.K, problems.S, problems.y, problems.trains_v
    n, M, groups = y.shape[1], S.shape[2] - K, S.shape[1] // S.shape[2]
    kept = outcome.records.shape[2] - 1
    A, B, C, dv = np.zeros((groups * K, K)), np.zeros((groups * K, M)), np.zeros((groups * K, K)), np.zeros(K)
    factors, A_u, B_u, dv_u = np.ones(5), np.empty_like(A), np.empty_like(B), np.empty_like(dv)
    dS, dw = np.zeros((S.shape[1], S.shape[2])), np.zeros(problems.w.shape[1])
    before, new, k, out = np.empty(n), np.empty(n), np.zeros((ROWS, n)), np.empty((stops.size, n + 2))
    real_state, int_state = np.empty(4), np.empty(3, np.int64)
    for b in range(len(y)):
        eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient = problems.rates[b, :10]
        constants = Constants(
            K, problems.teacher, eta, eta_v, noise, problems.s[b], problems.p[b], problems.tau[b], decay, decay_v,
            second_order, trains_v, drift, gradient, problems.rates[b, 10], problems.rates[b, 11],
        )  # fmt: skip
        schedule = ScheduleFactors(pieces, kappa, kappa_v, factors, A_u, B_u, dv_u)
        work = Work(S[b], problems.w[b], A, B, C, dv, dS, dw)
        steps = Steps(y[b], before, new, k, real_state, int_state, out)
        most = control.most * max(1.0, largest(y[b]))
        limits = Control(
            control.rtol, control.atol, control.max_step, most, control.kinks, control.level, control.slack
        )
        real_state[T], real_state[H], real_state[ACCOUNT], real_state[BEFORE] = stops[0], first, 0.0, stops[0]
        int_state[OUTPUT], int_state[RECORDED], int_state[SPENT] = 1, 1, 0
        copy(y[b], out[0, :n])
        out[0, n] = 0.0
        eps_g = closure(work.S, work.w, K, problems.teacher, eta, eta_v, noise, False, A, B, C, dv)
        code = PLAIN if eps_g > control.level else LOOK
        if code == PLAIN and first == 0.0:
            real_state[H] = begin(flow, closure, constants, schedule, work, limits, stops[-1] - stops[0], steps)
            int_state[SPENT] = 2
        while code == PLAIN and int_state[OUTPUT] < stops.size and halt[0] == 0:
            code = advance(flow, closure, constants, schedule, work, limits, stops, False, LARGEST, steps)
        outcome.nfev[b] = int_state[SPENT]
        if code != PLAIN:
            outcome.state[b] = BY_PYTHON
        elif int_state[OUTPUT] == stops.size:
            outcome.state[b] = FINISHED
            # where the start is all that is asked for, it is the last record, too
            last = min(int_state[RECORDED], stops.size - 1)
            copy(y[b], out[last, :n])
            out[last, n] = real_state[ACCOUNT]
            for j in range(places.size):
                row, to = out[places[j]], outcome.records[b, j]
                to[kept] = row[n]
                if blocks:
                    copy(row, to[:kept])
                else:
                    add_up(row[:n], constants.s, K, M, trains_v, to)
        if halt[0] != 0:
            return


@jit(no_reference_counting=True)
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
    """``advance`` and the kernels of a flow and a closure, with ``advance_batch`` compiled, or read from the disk."""
    ready(flow, kernel, begin, BEGIN)
    ready(flow, kernel, advance, SIGNATURE)
    return begin, advance, *ready(flow, kernel, advance_batch, ALL)
