"""Many trajectories of one closure, one after another, in one compiled function without the GIL.

``advance_batch`` does for each trajectory what ``compiled_steps.RungeKutta`` does for one: it fills the named tuples
and calls ``advance`` until the last stop.  Work arrays that contain nothing between trajectories (A, B, C, dv,
velocities, recorded points) are made once for the call, so once for a thread; ``Problems`` has the arrays that each
trajectory needs for itself.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..flow import copy
from ..flow.velocity import FUNCTIONS, CompiledSchedule, Constants, ScheduleFactors, Work
from . import _dop853
from ._dop853 import ADVANCE_SIGNATURE, INTERPOLANT, K_ROW, STATE_TYPE, Steps
from ._steps import RETURN, STEP_CHECKS, Control, compile_steps, largest


@typed_namedtuple
class Problems(NamedTuple):
    """The b trajectories: the entries of ``Constants`` and ``ScheduleFactors`` for each, and the starts."""

    K: INT
    teacher: INT
    trains_v: BOOL
    # (b, 12): eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient_rate, error_size, _noise
    rates: MATRIX
    s: MATRIX
    p: MATRIX
    tau: types.Array(REAL, 4, "C")
    S: CUBE  # work arrays S and w, separate for each trajectory because their constant entries differ
    w: MATRIX
    parameters: MATRIX  # of the closures
    y: MATRIX  # packed overlaps: at the start, and at the end afterwards


@typed_namedtuple
class Outcome(NamedTuple):
    """Returned arrays."""

    records: CUBE  # (b, n, size + 1): packed overlaps, or their sums over blocks, and the accumulated error of eps_g
    nfev: INTS
    status: INTS  # see ``STATUS``


class Status(NamedTuple):
    """How far a trajectory is; from ``stopped`` on only where several states are stepped together (``_simd``)."""

    unfinished: int = 0  # not begun, or halted
    finished: int = 1
    needs_python: int = 2  # ``evolve`` must integrate it from the start
    stopped: int = 3  # eps_g is at the level
    diverged: int = 4
    step_taken: int = 5
    try_again: int = 6  # the step is to be tried again


STATUS = Status()
BATCH_SIGNATURE = types.void(
    types.FunctionType(ADVANCE_SIGNATURE), *FUNCTIONS, Problems.type, CompiledSchedule.type, Control.type, REAL, BOOL,
    VECTOR, VECTOR, INT, INTS, Outcome.type, STATE_TYPE,
)  # fmt: skip


@jit
def advance_batch(
    advance,
    flow,
    closure,
    problems,
    pieces,
    control,
    first_step,
    blocks,
    times,
    stops,
    skipped,
    halt,
    outcome,
    states,
):  # fmt: skip
    """Advance every trajectory from its first to its last time; leave those that need a check to Python.

    ``control.max_overlap`` is the growth that counts as divergence, ``first_step`` its length or 0, ``blocks`` whether
    the overlaps of all blocks are recorded.  ``pieces`` are those of one schedule for all.  Steps end at its knots and
    at the last time, the ``stops``; ``times`` are the start, not recorded if ``skipped`` is 1, and the output times.
    ``halt[0] != 0`` ends the work.  ``states`` is a workspace of one entry.
    """
    K, S, y, trains_v = problems.K, problems.S, problems.y, problems.trains_v
    n, M, groups = y.shape[1], S.shape[2] - K, S.shape[1] // S.shape[2]
    size = outcome.records.shape[2] - 1
    A, B, C, dv = np.zeros((groups * K, K)), np.zeros((groups * K, M)), np.zeros((groups * K, K)), np.zeros(K)
    factors, A_u, B_u, dv_u = np.ones(5), np.empty_like(A), np.empty_like(B), np.empty_like(dv)
    dS, dw = np.zeros((S.shape[1], S.shape[2])), np.zeros(problems.w.shape[1])
    y_before, y_new, k, out = np.empty(n), np.empty(n), np.zeros((K_ROW.n_rows, n)), np.empty((times.size, n + 2))
    state = states[0]
    for b in range(len(y)):
        eta, eta_v, noise, decay, decay_v, second_order, drift, kappa, kappa_v, gradient = problems.rates[b, :10]
        constants = Constants(
            K, problems.teacher, eta, eta_v, noise, problems.s[b], problems.p[b], problems.tau[b], decay, decay_v,
            second_order, trains_v, drift, gradient, problems.rates[b, 10], problems.rates[b, 11],
        )  # fmt: skip
        schedule = ScheduleFactors(pieces, kappa, kappa_v, factors, A_u, B_u, dv_u)
        work = Work(S[b], problems.w[b], problems.parameters[b], A, B, C, dv, dS, dw)
        steps = Steps(y[b], y_before, y_new, k, states, out)
        max_overlap = control.max_overlap * max(1.0, largest(y[b]))
        limits = Control(
            control.rtol, control.atol, control.max_step, max_overlap, control.kinked, control.level, control.slack
        )
        state.t, state.t_before = times[0], times[0]
        state.h, state.accumulated_error = first_step, 0.0
        state.next_output, state.n_recorded, state.evaluations = 1, 1, 0
        state.unfinished, state.reach = 0, INTERPOLANT.first_reach
        copy(y[b], out[0, :n])
        out[0, n] = 0.0
        eps_g = closure(work.S, work.w, work.parameters, K, problems.teacher, eta, eta_v, noise, False, A, B, C, dv)
        code = RETURN.pause if eps_g > control.level else RETURN.check_in_python
        while code == RETURN.pause and state.next_output < times.size and halt[0] == 0:
            budget = STEP_CHECKS.max_evaluations
            code = advance(flow, closure, constants, schedule, work, limits, times, stops, False, budget, steps)
        outcome.nfev[b] = state.evaluations
        if code != RETURN.pause:
            outcome.status[b] = STATUS.needs_python
        elif state.next_output == times.size:
            outcome.status[b] = STATUS.finished
            for j in range(skipped, times.size):
                row, to = out[j], outcome.records[b, j - skipped]
                to[size] = row[n]
                if blocks:
                    copy(row, to[:size])
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


def compile_batch(flow, kernel):
    """``advance`` and the kernels of a flow and a closure, with ``advance_batch`` compiled, or read from the disk."""
    compile_steps(flow, kernel, _dop853.advance, ADVANCE_SIGNATURE)
    return _dop853.advance, *compile_steps(flow, kernel, advance_batch, BATCH_SIGNATURE)
