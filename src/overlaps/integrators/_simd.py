"""Steps of DOP853 of many trajectories together: the steps of ``_dop853``, each SIMD lane at its own time.

A lane whose trajectory ends takes the next one of its chunk.  Results do not depend on the composition of the batch,
its order or the number of threads, to the last bit.  If eps_g falls below the level, Newton's method finds the end of
the step.  If an output time lies inside the step of any lane, all lanes evaluate the stages of the interpolant.  A
trajectory whose step may be a failure is left to Python.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..activations.bound import BATCHED, SIMD_WIDTH
from ..flow import clear, copy
from ..flow.simd import N_LEARNING_NUMBERS, SimdWork, change_of_eps_g, flow, gather, terms_of_eps_g
from ..flow.velocity import CompiledSchedule
from ..models import factors, reached
from ._batch import STATUS, Outcome, add_up
from ._dop853 import INTERPOLANT, K_ROW, before_knot, bound_of_step, reach, rounding_error_of_sums, scaled_error
from ._steps import Control
from ._tableau import N_VELOCITIES, TABLEAU


class LocationOptions(NamedTuple):
    """Numbers of the search for the time at which eps_g meets the level."""

    alpha_tol: float = 1e-12  # relative above alpha = 1, absolute below
    first_try: int = 2  # ``INT_ROW.n_tries`` of the first try of this search; 1 is a step that was rejected
    max_tries: int = 60


class IntRow(NamedTuple):
    """Rows of ``int_state``; the second index is the SIMD lane."""

    trajectory: int = 0  # -1 for none
    next_output: int = 1
    evaluations: int = 2
    n_tries: int = 3
    status: int = 4  # after the try, see ``STATUS``


class Row(NamedTuple):
    """Rows of ``real_state``; the second index is the SIMD lane."""

    t: int = 0  # first time of the step
    proposed: int = 1  # length of the step as proposed
    h: int = 2  # length of the step as tried
    t_new: int = 3  # last time of the step
    t_stage: int = 4  # time of a stage
    h_above: int = 5  # length at which eps_g is above the level
    h_below: int = 6  # length at which eps_g is below the level
    accumulated_error: int = 7  # accumulated error of eps_g
    step_error: int = 8  # error of eps_g that the step leaves
    # after a try:
    error5: int = 9  # sums of squares of the error estimates of order 5 and 3
    error3: int = 10
    eps_g_error5: int = 11  # changes of eps_g by the same errors
    eps_g_error3: int = 12
    slope: int = 13  # time derivative of eps_g
    rate: int = 14  # sums of |H| and of the terms of eps_g, see ``terms_of_eps_g``
    terms: int = 15
    valid: int = 16  # 1 if the overlaps are bounded and the covariance of the fields is positive
    max_overlap: int = 17
    bound: int = 18  # where the step ends at the latest
    reach: int = 19  # see ``DOP853Real``
    next_length: int = 20  # length of the next step that the errors allow
    eps_g: int = 21  # at the end of the step
    rounding: int = 22  # rounding error of eps_g
    change: int = 23  # change of eps_g by the last coefficient of the interpolant


LOCATION, ROW, INT_ROW = LocationOptions(), Row(), IntRow()


@typed_namedtuple
class Queue(NamedTuple):
    """The b trajectories, each a row of numbers that a lane reads: see ``simd_work``."""

    K: INT
    M: INT
    L: INT
    trains_v: BOOL
    second_order: BOOL  # whether any of them has terms of second order
    rows: MATRIX
    slopes: MATRIX  # workspace: velocities at the start
    lengths: VECTOR  # workspace: lengths of the first step


@typed_namedtuple
class SimdState(NamedTuple):
    """Arrays of all SIMD lanes."""

    rows: MATRIX  # the rows of the trajectories, with ``model`` and y as views
    y: MATRIX  # packed overlaps (n, SIMD_WIDTH) at the first time of the step
    y_new: MATRIX  # packed overlaps at a stage, and at the end of the step
    y_stage: MATRIX  # packed overlaps at a stage of the interpolant
    k: CUBE  # velocities, as in ``_dop853``
    model: MATRIX  # numbers of the flow, as in the models
    now: MATRIX  # numbers of the flow under the schedule
    factors: VECTOR
    int_state: types.Array(INT, 2, "C")
    real_state: MATRIX
    y_lane: VECTOR  # workspace: y of one lane


ADVANCE_SIMD_SIGNATURE = types.void(
    types.FunctionType(BATCHED), Queue.type, SimdWork.type, SimdState.type, CompiledSchedule.type, Control.type, REAL,
    BOOL, VECTOR, VECTOR, INT, INTS, Outcome.type, MATRIX,
)  # fmt: skip


@jit(no_reference_counting=True)
def under_schedule(pieces, x):
    """Fill the numbers of the flow at the times of a stage."""
    for l in range(SIMD_WIDTH):
        factors(x.real_state[ROW.t_stage, l], pieces.channels, pieces.codes, pieces.edges, pieces.data, x.factors)
        u, u_v, noise, decay, batch = x.factors[0], x.factors[1], x.factors[2], x.factors[3], x.factors[4]
        scales = u, u_v, noise * noise, u * decay, u_v * decay, u * u / batch, 1.0
        for i in range(N_LEARNING_NUMBERS):
            x.now[i, l] = scales[i] * x.model[i, l]


@jit(no_reference_counting=True)
def velocity(closure, queue, pieces, work, x, y, dy):
    """Fill dy/dalpha at y."""
    if pieces.channels.size > 0:
        under_schedule(pieces, x)
    gather(y, work.s, queue.K, queue.trains_v, work.S, work.w)
    noise2 = x.now[2]
    closure(
        work.S, work.w, queue.K, noise2, queue.second_order, work.H, work.gradient, work.C, work.eps_g, work.workspace
    )
    flow(y, queue.K, queue.trains_v, work, x.now, dy)


@jit(fast=True, no_reference_counting=True)
def add_stages(a, k, count, new):
    """Fill ``new`` = sum_j a_j k_j, j < count."""
    total = new.reshape(new.size)
    clear(total)
    for j in range(count):
        if a[j] != 0.0:
            c, stage = a[j], k[j].reshape(total.size)
            for i in range(total.size):
                total[i] += c * stage[i]


@jit(fast=True, no_reference_counting=True)
def add_increment(x, new):
    """Fill ``new`` = y + h new."""
    h = x.real_state[ROW.h]
    for i in range(len(x.y)):
        for l in range(SIMD_WIDTH):
            new[i, l] = x.y[i, l] + h[l] * new[i, l]


@jit(fast=True, no_reference_counting=True)
def squares(z, less, y, new, control, out):
    """Sums of the squares of z - less in units of the tolerances at y and new."""
    clear(out)
    for i in range(len(y)):
        for l in range(SIMD_WIDTH):
            scale = control.atol + control.rtol * max(abs(y[i, l]), abs(new[i, l]))
            out[l] += ((z[i, l] - less[i, l]) / scale) ** 2


@jit(fast=True, no_reference_counting=True)
def positive(S, slack, c, valid):
    """Set ``valid`` to 0 where S + slack tr(S) is not positive definite, by Cholesky's decomposition c."""
    n, shift = len(S), c[0, -1]  # entries of c above the diagonal are free
    clear(shift)
    for i in range(n):
        for l in range(SIMD_WIDTH):
            shift[l] += slack * S[i, i, l]
    for i in range(n):
        for j in range(i + 1):
            total = c[i, j]
            for l in range(SIMD_WIDTH):
                total[l] = S[i, j, l] + (shift[l] if i == j else 0.0)
            for k in range(j):
                for l in range(SIMD_WIDTH):
                    total[l] -= c[i, k, l] * c[j, k, l]
            for l in range(SIMD_WIDTH):
                if i == j:
                    valid[l] = valid[l] if total[l] > 0.0 else 0.0
                total[l] = 1.0 / sqrt(total[l]) if i == j else total[l] * c[j, j, l]


@jit(no_reference_counting=True)
def take(i, b, queue, x):
    """Put trajectory b into lane i."""
    for a in range(len(x.rows)):
        x.rows[a, i] = queue.rows[b, a]
    for a in range(N_LEARNING_NUMBERS):
        x.now[a, i] = x.model[a, i]


@jit(no_reference_counting=True)
def begin(closure, queue, pieces, work, x, control, first_step, times):
    """Fill ``slopes`` and ``lengths`` of the queue, as ``_dop853.begin``.

    A length is nan if eps_g is at the level at the start.
    """
    n, zero, start, span, real_state = len(x.y), x.k[K_ROW.zero], times[0], times[-1] - times[0], x.real_state
    slopes, lengths = queue.slopes, queue.lengths
    for at in range(0, len(lengths), SIMD_WIDTH):
        count = min(SIMD_WIDTH, len(lengths) - at)
        for i in range(SIMD_WIDTH):
            take(i, at + min(i, count - 1), queue, x)
            real_state[ROW.t_stage, i] = start
        velocity(closure, queue, pieces, work, x, x.y, x.k[0])
        squares(x.y, zero, x.y, x.y, control, real_state[ROW.error5])
        squares(x.k[0], zero, x.y, x.y, control, real_state[ROW.error3])
        for i in range(SIMD_WIDTH):
            d0, d1 = sqrt(real_state[ROW.error5, i] / n), sqrt(real_state[ROW.error3, i] / n)
            real_state[ROW.h, i] = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
            real_state[ROW.t_stage, i] = min(start + real_state[ROW.h, i], before_knot(pieces.knots, start))
            if i < count:
                lengths[at + i] = 1.0 if work.eps_g[i] > control.level else np.nan
                for a in range(n):
                    slopes[at + i, a] = x.k[0, a, i]
        for a in range(n):
            copy(x.k[0, a], x.y_new[a])
        add_increment(x, x.y_new)
        velocity(closure, queue, pieces, work, x, x.y_new, x.k[1])
        squares(x.k[1], x.k[0], x.y, x.y, control, real_state[ROW.error5])
        for i in range(count):
            h = real_state[ROW.h, i]
            rate = sqrt(max(real_state[ROW.error3, i], real_state[ROW.error5, i] / h**2) / n)
            later = max(1e-6, h * 1e-3) if rate <= 1e-15 else (0.01 / rate) ** 0.125
            lengths[at + i] *= first_step if first_step > 0.0 else min(100 * h, later, span)


@jit(no_reference_counting=True)
def propose(i, times, stops, control, x):
    """Set the length of the next step of lane i; return whether there is none because the step is too small."""
    t, n_tries = x.real_state[ROW.t, i], x.int_state[INT_ROW.n_tries, i]
    least = 10 * (np.nextafter(t, inf) - t)
    if n_tries == 0:
        h = x.real_state[ROW.h, i] = max(min(x.real_state[ROW.proposed, i], control.max_step), least)
        following, bound = x.int_state[INT_ROW.next_output, i], stops[reached(stops, t)]
        x.real_state[ROW.bound, i] = bound_of_step(times, following, t, h, x.real_state[ROW.reach, i], bound)
    # also true for nan, from velocities that overflow
    if not x.real_state[ROW.h, i] >= least and n_tries < LOCATION.first_try:
        return True
    x.real_state[ROW.t_new, i] = min(t + x.real_state[ROW.h, i], x.real_state[ROW.bound, i])
    x.real_state[ROW.h, i] = x.real_state[ROW.t_new, i] - t
    return False


@jit(no_reference_counting=True)
def leave_knots(closure, queue, pieces, work, x):
    """Evaluate the velocities of lanes at a knot once more, because they may have jumped."""
    knots, any_begins = pieces.knots, False
    for i in range(SIMD_WIDTH):
        t = x.real_state[ROW.t_stage, i] = x.real_state[ROW.t, i]
        passed = reached(knots, t)
        is_first_try = x.int_state[INT_ROW.trajectory, i] >= 0 and x.int_state[INT_ROW.n_tries, i] == 0
        begins = is_first_try and passed > 0 and knots[passed - 1] == t
        x.int_state[INT_ROW.status, i], any_begins = begins, any_begins or begins
    if any_begins:
        velocity(closure, queue, pieces, work, x, x.y, x.k[12])
        for i in range(SIMD_WIDTH):
            x.int_state[INT_ROW.evaluations, i] += x.int_state[INT_ROW.status, i]
            for a in range(len(x.y)):
                x.k[0, a, i] = x.k[12, a, i] if x.int_state[INT_ROW.status, i] else x.k[0, a, i]


@jit(no_reference_counting=True)
def set_times(stage, pieces, x):
    """Set the times at which a stage reads the schedules."""
    for i in range(SIMD_WIDTH):
        t = x.real_state[ROW.t, i]
        at = x.real_state[ROW.t_new, i] if stage == 12 else t + TABLEAU.nodes[stage] * x.real_state[ROW.h, i]
        x.real_state[ROW.t_stage, i] = min(at, before_knot(pieces.knots, t))


@jit(no_reference_counting=True)
def step(closure, queue, pieces, work, x, control):
    """Try a step of all lanes; fill the rows of ``real_state`` from ``ROW.error5`` on."""
    new, k, real_state, K, trains_v = x.y_new, x.k, x.real_state, queue.K, queue.trains_v
    for stage in range(1, 13):
        add_stages(TABLEAU.stages[stage], k, stage, new)
        add_increment(x, new)
        if pieces.channels.size > 0:
            set_times(stage, pieces, x)
        velocity(closure, queue, pieces, work, x, new, k[stage])
    add_stages(TABLEAU.e5, k, K_ROW.n_velocities, k[K_ROW.error5])
    add_stages(TABLEAU.e3, k, K_ROW.n_velocities, k[K_ROW.error3])
    squares(k[K_ROW.error5], k[K_ROW.zero], x.y, new, control, real_state[ROW.error5])
    squares(k[K_ROW.error3], k[K_ROW.zero], x.y, new, control, real_state[ROW.error3])
    change_of_eps_g(k[K_ROW.error5], K, trains_v, work, real_state[ROW.eps_g_error5])
    change_of_eps_g(k[K_ROW.error3], K, trains_v, work, real_state[ROW.eps_g_error3])
    change_of_eps_g(k[12], K, trains_v, work, real_state[ROW.slope])
    terms_of_eps_g(K, work, real_state[ROW.rate], real_state[ROW.terms])
    for l in range(SIMD_WIDTH):
        real_state[ROW.valid, l] = 1.0
    for a in range(len(new)):
        for l in range(SIMD_WIDTH):
            bounded = abs(new[a, l]) <= real_state[ROW.max_overlap, l]
            real_state[ROW.valid, l] = real_state[ROW.valid, l] if bounded else 0.0
    positive(work.S, control.slack, work.dS, real_state[ROW.valid])


@jit(no_reference_counting=True)
def decide(i, control, work, x):
    """The ``STATUS`` of lane i after the step that it has tried."""
    real_state, level, eps_g, n_tries = x.real_state, control.level, work.eps_g[i], x.int_state[INT_ROW.n_tries, i]
    h = real_state[ROW.h, i]
    x.int_state[INT_ROW.evaluations, i] += 12
    if n_tries < LOCATION.first_try:
        fifth, third, e5 = real_state[ROW.error5, i], real_state[ROW.error3, i], real_state[ROW.eps_g_error5, i]
        error = h * fifth / sqrt((fifth + 0.01 * third) * len(x.y)) if fifth > 0.0 or third > 0.0 else fifth
        scaled = real_state[ROW.step_error, i] = 0.0
        real_state[ROW.eps_g, i], real_state[ROW.rounding, i] = eps_g, 0.0
        if e5 != 0.0 and np.isfinite(e5):
            rate, e3 = x.now[0, i] * real_state[ROW.rate, i], real_state[ROW.eps_g_error3, i]
            rounding = rounding_error_of_sums(h, eps_g, rate, real_state[ROW.terms, i])
            real_state[ROW.rounding, i] = rounding
            scaled, real_state[ROW.step_error, i] = scaled_error(e5, e3, h, rounding, control.rtol, eps_g)
        error = max(error, scaled)
        if not error < 1.0:
            real_state[ROW.h, i] = h * (max(0.2, 0.9 * error**-0.125) if error == error else 0.2)
            x.int_state[INT_ROW.n_tries, i] = 1
            return STATUS.try_again
        if real_state[ROW.valid, i] == 0.0 or eps_g != eps_g:
            return STATUS.needs_python
        if eps_g > level:
            factor = min(10.0, 0.9 * error**-0.125) if error > 0.0 else 10.0
            real_state[ROW.next_length, i] = h * (min(1.0, factor) if n_tries else factor)
            return STATUS.step_taken
        real_state[ROW.h_above, i], real_state[ROW.h_below, i], n_tries = 0.0, h, LOCATION.first_try
    real_state[ROW.h_above if eps_g > level else ROW.h_below, i] = h
    low, high = real_state[ROW.h_above, i], real_state[ROW.h_below, i]
    newton = h - (eps_g - level) / real_state[ROW.slope, i]
    found = min(abs(newton - h), high - low) <= LOCATION.alpha_tol * max(1.0, real_state[ROW.t_new, i])
    if found or n_tries == LOCATION.max_tries:
        return STATUS.stopped
    real_state[ROW.h, i] = newton if low < newton < high else 0.5 * (low + high)
    x.int_state[INT_ROW.n_tries, i] = n_tries + 1
    return STATUS.try_again


@jit(no_reference_counting=True)
def record(i, queue, blocks, x, error, out):
    """Write the overlaps ``y_lane`` of lane i, or their sums over blocks, and the error of eps_g into ``out``."""
    row, size = x.y_lane, len(x.y_lane)
    if blocks:
        copy(row, out[:size])
    else:
        K, L, n = queue.K, queue.L, queue.K + queue.M
        size, at = (size - K * queue.trains_v) // L + K * queue.trains_v, n * n + n
        add_up(row, queue.rows[x.int_state[INT_ROW.trajectory, i], at : at + L], K, queue.M, queue.trains_v, out)
    out[size] = error


@jit(no_reference_counting=True)
def record_end(i, queue, blocks, x, out):
    """Record the last state of lane i."""
    for a in range(len(x.y_lane)):
        x.y_lane[a] = x.y[a, i]
    record(i, queue, blocks, x, x.real_state[ROW.accumulated_error, i], out)


@jit(fast=True, no_reference_counting=True)
def interpolant(closure, queue, pieces, work, x):
    """Fill the coefficients of the polynomials over the steps, and the changes of eps_g by the last ones."""
    k, h, first = x.k, x.real_state[ROW.h], K_ROW.coefficients
    for stage in range(K_ROW.n_velocities, N_VELOCITIES):
        add_stages(TABLEAU.stages[stage], k, stage, x.y_stage)
        add_increment(x, x.y_stage)
        if pieces.channels.size > 0:
            set_times(stage, pieces, x)
        velocity(closure, queue, pieces, work, x, x.y_stage, k[stage])
    for i in range(4):
        add_stages(TABLEAU.dense[i], k, N_VELOCITIES, k[first + 3 + i])
    for a in range(len(x.y)):
        for l in range(SIMD_WIDTH):
            change = x.y_new[a, l] - x.y[a, l]
            k[first, a, l] = change
            k[first + 1, a, l] = h[l] * k[0, a, l] - change
            k[first + 2, a, l] = 2 * change - h[l] * (k[12, a, l] + k[0, a, l])
            for i in range(3, 7):
                k[first + i, a, l] *= h[l]
    change_of_eps_g(k[K_ROW.last], queue.K, queue.trains_v, work, x.real_state[ROW.change])


@jit(no_reference_counting=True)
def record_inside(i, queue, blocks, times, skipped, control, x, outcome):
    """Record the output times inside the step of lane i, which ends as ``status``; return the status afterwards.

    The step is tried again if its interpolant is too inaccurate, as in ``_dop853``; the end at a level is left to
    Python then.
    """
    int_state, real_state, y, b = x.int_state, x.real_state, x.y_lane, x.int_state[INT_ROW.trajectory, i]
    t, h, error, status = real_state[ROW.t, i], real_state[ROW.h, i], 0.0, int_state[INT_ROW.status, i]
    int_state[INT_ROW.evaluations, i] += 3
    for a in range(y.size):
        scale = control.atol + control.rtol * max(abs(x.y[a, i]), abs(x.y_new[a, i]))
        error = max(error, abs(x.k[K_ROW.last, a, i]) / scale)
    tolerance = control.rtol * real_state[ROW.eps_g, i] + real_state[ROW.rounding, i]
    error = INTERPOLANT.safety * INTERPOLANT.peak * max(error, abs(real_state[ROW.change, i]) / tolerance)
    if status == STATUS.step_taken:
        real_state[ROW.reach, i] = reach(error, h, min(real_state[ROW.next_length, i], control.max_step))
    if not error <= 1.0:
        real_state[ROW.proposed, i], int_state[INT_ROW.n_tries, i] = real_state[ROW.next_length, i], 0
        return STATUS.try_again if status == STATUS.step_taken else STATUS.needs_python
    while times[int_state[INT_ROW.next_output, i]] < real_state[ROW.t_new, i]:
        following = int_state[INT_ROW.next_output, i]
        at = (times[following] - t) / h
        for a in range(y.size):
            y[a] = 0.0
            for j in range(7):
                y[a] = (y[a] + x.k[K_ROW.last - j, a, i]) * (at if j % 2 == 0 else 1.0 - at)
            y[a] += x.y[a, i]
        accumulated = real_state[ROW.accumulated_error, i] + real_state[ROW.step_error, i]
        record(i, queue, blocks, x, accumulated, outcome.records[b, following - skipped])
        int_state[INT_ROW.next_output, i] = following + 1
    return status


@jit(fast=True, no_reference_counting=True)
def accept_steps(x):
    """Continue from the ends of the steps that were taken or ended at the level."""
    taken = x.real_state[ROW.error5]
    for l in range(SIMD_WIDTH):
        status = x.int_state[INT_ROW.status, l]
        taken[l] = 1.0 if status == STATUS.step_taken or status == STATUS.stopped else 0.0
        x.real_state[ROW.accumulated_error, l] += taken[l] * x.real_state[ROW.step_error, l]
    for a in range(len(x.y)):
        for l in range(SIMD_WIDTH):
            x.y[a, l] = x.y_new[a, l] if taken[l] > 0.0 else x.y[a, l]
        for l in range(SIMD_WIDTH):
            x.k[0, a, l] = x.k[12, a, l] if taken[l] > 0.0 else x.k[0, a, l]


@jit(no_reference_counting=True)
def give_up(i, y, x, times, skipped, outcome, last):
    """Leave the trajectory of lane i to Python, unless it diverges at y by the test of ``failure.Failure``."""
    b, end, size = x.int_state[INT_ROW.trajectory, i], outcome.records.shape[2], 0.0
    for a in range(len(y)):
        size = max(size, abs(y[a, i]))
    outcome.status[b], outcome.nfev[b] = STATUS.needs_python, x.int_state[INT_ROW.evaluations, i]
    x.int_state[INT_ROW.trajectory, i] = -1
    if sqrt(x.real_state[ROW.max_overlap, i]) < size < inf:
        outcome.status[b], reached_output = STATUS.diverged, x.int_state[INT_ROW.next_output, i] - 1
        last[b, end], last[b, end + 1], last[b, end + 2] = times[reached_output], x.real_state[ROW.t, i], size
        if reached_output >= skipped:
            copy(outcome.records[b, reached_output - skipped], last[b, :end])


@jit(no_reference_counting=True)
def begin_trajectory(i, b, queue, blocks, x, control, first_step, times, skipped, outcome, last):
    """Put trajectory b into lane i, and record its start."""
    int_state, real_state = x.int_state, x.real_state
    take(i, b, queue, x)
    int_state[INT_ROW.trajectory, i], int_state[INT_ROW.next_output, i] = b, 1
    int_state[INT_ROW.n_tries, i], int_state[INT_ROW.evaluations, i] = 0, 1 if first_step > 0.0 else 2
    real_state[ROW.t, i], real_state[ROW.proposed, i] = times[0], queue.lengths[b]
    real_state[ROW.reach, i] = INTERPOLANT.first_reach
    real_state[ROW.accumulated_error, i], real_state[ROW.max_overlap, i] = 0.0, 1.0
    for a in range(len(x.y)):
        x.k[0, a, i] = queue.slopes[b, a]
        real_state[ROW.max_overlap, i] = max(real_state[ROW.max_overlap, i], abs(x.y[a, i]))
    real_state[ROW.max_overlap, i] *= control.max_overlap
    record_end(i, queue, blocks, x, last[b])
    if skipped == 0:
        copy(last[b, : outcome.records.shape[2]], outcome.records[b, 0])


@jit(no_reference_counting=True)
def has_inside(i, times, x):
    """Whether output times lie inside the step of lane i, which was taken or ended at the level."""
    status = x.int_state[INT_ROW.status, i]
    taken = status == STATUS.step_taken or status == STATUS.stopped
    return taken and times[x.int_state[INT_ROW.next_output, i]] < x.real_state[ROW.t_new, i]


@jit(no_reference_counting=True)
def finish_step(i, queue, blocks, times, skipped, x, outcome, last):
    """Go on from the end of the step of lane i: record an output time there, and free the lane at its end."""
    int_state, real_state = x.int_state, x.real_state
    b, status, t_new = int_state[INT_ROW.trajectory, i], int_state[INT_ROW.status, i], real_state[ROW.t_new, i]
    if status == STATUS.step_taken:
        following, next_length = int_state[INT_ROW.next_output, i], real_state[ROW.next_length, i]
        cut_short = t_new == real_state[ROW.bound, i]
        real_state[ROW.proposed, i] = max(next_length, real_state[ROW.proposed, i]) if cut_short else next_length
        real_state[ROW.t, i], int_state[INT_ROW.n_tries, i] = t_new, 0
        if t_new < times[following]:
            return
        record_end(i, queue, blocks, x, outcome.records[b, following - skipped])
        real_state[ROW.reach, i] = min(1.0, INTERPOLANT.recovery * real_state[ROW.reach, i])
        int_state[INT_ROW.next_output, i] = following + 1
        if following + 1 < times.size:
            return
        status = STATUS.finished
    if status == STATUS.needs_python:
        give_up(i, x.y_new, x, times, skipped, outcome, last)
        return
    record_end(i, queue, blocks, x, last[b])
    last[b, outcome.records.shape[2]] = t_new
    outcome.status[b], outcome.nfev[b] = status, int_state[INT_ROW.evaluations, i]
    int_state[INT_ROW.trajectory, i] = -1


@jit(no_reference_counting=True)
def advance_simd(
    closure, queue, work, x, pieces, control, first_step, blocks, times, stops, skipped, halt, outcome, last
):
    """Advance every trajectory from its first to its last time, or to the level; arguments as in ``advance_batch``.

    ``last`` (b, size + 4) takes the last record and its time; for a trajectory that diverges also the time before the
    step that diverged, and the largest overlap after it.  ``outcome.status`` becomes ``STATUS.stopped`` at the level,
    ``STATUS.diverged`` for a divergence.
    """
    int_state, real_state, lengths = x.int_state, x.real_state, queue.lengths
    begin(closure, queue, pieces, work, x, control, first_step, times)
    following = np.int64(0)  # no literal, for which numba would compile once more
    for i in range(SIMD_WIDTH):
        int_state[INT_ROW.trajectory, i] = -1
    while halt[0] == 0:
        busy = False
        for i in range(SIMD_WIDTH):
            while int_state[INT_ROW.trajectory, i] < 0 and following < len(queue.rows):
                b, following = following, following + 1
                outcome.status[b] = STATUS.unfinished if lengths[b] == lengths[b] else STATUS.needs_python
                if outcome.status[b] == STATUS.unfinished:
                    begin_trajectory(i, b, queue, blocks, x, control, first_step, times, skipped, outcome, last)
            if int_state[INT_ROW.trajectory, i] >= 0 and propose(i, times, stops, control, x):
                give_up(i, x.y, x, times, skipped, outcome, last)
            real_state[ROW.h, i] = real_state[ROW.h, i] if int_state[INT_ROW.trajectory, i] >= 0 else 0.0
            busy = busy or int_state[INT_ROW.trajectory, i] >= 0 or following < len(queue.rows)
        if not busy:
            return
        if pieces.knots.size > 0:
            leave_knots(closure, queue, pieces, work, x)
        step(closure, queue, pieces, work, x, control)
        any_inside = False
        for i in range(SIMD_WIDTH):
            active = int_state[INT_ROW.trajectory, i] >= 0
            int_state[INT_ROW.status, i] = decide(i, control, work, x) if active else STATUS.try_again
            any_inside = any_inside or has_inside(i, times, x)
        if any_inside:
            interpolant(closure, queue, pieces, work, x)
            for i in range(SIMD_WIDTH):
                if has_inside(i, times, x):
                    status = record_inside(i, queue, blocks, times, skipped, control, x, outcome)
                    int_state[INT_ROW.status, i] = status
        accept_steps(x)
        for i in range(SIMD_WIDTH):
            if int_state[INT_ROW.status, i] != STATUS.try_again:
                finish_step(i, queue, blocks, times, skipped, x, outcome, last)
