"""Steps of DOP853 of many trajectories side by side: the steps of ``_dop853``, each lane at its own time.

A lane that is done takes the next trajectory of its chunk, and none feels another: neither company nor order nor
threads change a bit.  A lane whose eps_g fell below the level ends its step where Newton's method finds it.  A step
that may be a failure leaves its trajectory to Python.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..activations.bound import BATCHED, SIMD_WIDTH
from ..flow import clear, copy
from ..flow.simd import NUMBERS, SimdWork, change_of_eps_g, flow, gather, terms_of_eps_g
from ..flow.velocity import CompiledSchedule
from ..models import factors, reached
from ._batch import BY_PYTHON, FINISHED, Outcome, add_up
from ._dop853 import E3, E5, NODES, STAGES, VELOCITIES, before_knot, least_error, weighed
from ._steps import Control

# a trajectory at the level, or beyond all bounds; of a step: taken, to be tried again
STOPPED, DIVERGENT, TAKEN, AGAIN = 3, 4, 5, 6
LOCATED, LOCATING, TRIES = 1e-12, 2, 60  # precision of the time at which the level is met, tries from and up to
ONE = np.ones(1)
# rows of ``place``: trajectory (-1 for none), next stop, evaluations, number of the try, what became of it
WHO, DUE, SPENT, TRY, CODE = range(5)
# of ``clock``: first time of the step, its length as proposed and as tried, its last time, a stage's time; lengths
# above and below the level; account of the error of eps_g, and the share of the step; and what is known after a try
T, PROPOSED, STEP, LATER, AT, LOW, HIGH, ACCOUNT, SHARE = range(9)
FIFTH, THIRD, FIFTH_EPS, THIRD_EPS, SLOPE, RATE, TERMS, SOUND, MOST = range(9, 18)
ROWS = 5, 18  # of both


@typed_namedtuple
class Queue(NamedTuple):
    """The b trajectories, each a row of numbers that a lane takes: see ``simd_work``."""

    K: INT
    M: INT
    L: INT
    trains_v: BOOL
    second_order: BOOL  # of any of them
    rows: MATRIX
    slopes: MATRIX  # of y at the start, and
    lengths: VECTOR  # of the first step: room


@typed_namedtuple
class SimdState(NamedTuple):
    """Arrays of lanes."""

    rows: MATRIX  # what trajectories have brought, ``model`` and y among them
    y: MATRIX  # packed overlaps (n, SIMD_WIDTH) at the first time of the step
    new: MATRIX  # at a stage, and at its end
    k: CUBE  # as in ``_dop853``
    model: MATRIX  # numbers of the flow: of the models,
    now: MATRIX  # and under the schedule
    factors: VECTOR
    int_state: types.Array(INT, 2, "C")
    real_state: MATRIX
    row: VECTOR  # room for one y


ADVANCE_SIMD = types.void(
    types.FunctionType(BATCHED), Queue.type, SimdWork.type, SimdState.type, CompiledSchedule.type, Control.type, REAL,
    BOOL,
    VECTOR, INTS, INTS, Outcome.type, MATRIX,
)  # fmt: skip


@jit(no_reference_counting=True)
def under_schedule(pieces, x):
    """Fill the numbers of the flow at the times of a stage."""
    for l in range(SIMD_WIDTH):
        factors(x.real_state[AT, l], pieces.channels, pieces.codes, pieces.edges, pieces.data, x.factors)
        u, u_v, noise, decay, batch = x.factors[0], x.factors[1], x.factors[2], x.factors[3], x.factors[4]
        scales = u, u_v, noise * noise, u * decay, u_v * decay, u * u / batch, 1.0
        for i in range(NUMBERS):
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
def add_increment(x):
    """Fill ``new`` = y + h new."""
    h = x.real_state[STEP]
    for i in range(len(x.y)):
        for l in range(SIMD_WIDTH):
            x.new[i, l] = x.y[i, l] + h[l] * x.new[i, l]


@jit(fast=True, no_reference_counting=True)
def squares(z, less, y, new, control, out):
    """Sums of the squares of z - less in units of the tolerances at y and new."""
    clear(out)
    for i in range(len(y)):
        for l in range(SIMD_WIDTH):
            scale = control.atol + control.rtol * max(abs(y[i, l]), abs(new[i, l]))
            out[l] += ((z[i, l] - less[i, l]) / scale) ** 2


@jit(fast=True, no_reference_counting=True)
def positive(S, slack, c, sound):
    """Clear ``sound`` where S + slack tr(S) is not positive definite, by Cholesky's decomposition c."""
    n, shift = len(S), c[0, -1]  # above the diagonal there is room
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
                    sound[l] = sound[l] if total[l] > 0.0 else 0.0
                total[l] = 1.0 / sqrt(total[l]) if i == j else total[l] * c[j, j, l]


@jit(no_reference_counting=True)
def take(i, b, queue, x):
    """Put trajectory b into lane i."""
    for a in range(len(x.rows)):
        x.rows[a, i] = queue.rows[b, a]
    for a in range(NUMBERS):
        x.now[a, i] = x.model[a, i]


@jit(no_reference_counting=True)
def begin(closure, queue, pieces, work, x, control, first, times):
    """Fill ``slopes`` and ``lengths`` of the queue, as ``_dop853.begin``.

    A length is nan where eps_g is at the level at once.
    """
    n, zero, start, span, real_state = len(x.y), x.k[15], times[0], times[-1] - times[0], x.real_state
    slopes, lengths = queue.slopes, queue.lengths
    for at in range(0, len(lengths), SIMD_WIDTH):
        count = min(SIMD_WIDTH, len(lengths) - at)
        for i in range(SIMD_WIDTH):
            take(i, at + min(i, count - 1), queue, x)
            real_state[AT, i] = start
        velocity(closure, queue, pieces, work, x, x.y, x.k[0])
        squares(x.y, zero, x.y, x.y, control, real_state[FIFTH])
        squares(x.k[0], zero, x.y, x.y, control, real_state[THIRD])
        for i in range(SIMD_WIDTH):
            d0, d1 = sqrt(real_state[FIFTH, i] / n), sqrt(real_state[THIRD, i] / n)
            real_state[STEP, i] = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
            real_state[AT, i] = min(start + real_state[STEP, i], before_knot(pieces.knots, start))
            if i < count:
                lengths[at + i] = 1.0 if work.eps_g[i] > control.level else np.nan
                for a in range(n):
                    slopes[at + i, a] = x.k[0, a, i]
        add_stages(ONE, x.k, 1, x.new)
        add_increment(x)
        velocity(closure, queue, pieces, work, x, x.new, x.k[1])
        squares(x.k[1], x.k[0], x.y, x.y, control, real_state[FIFTH])
        for i in range(count):
            h, most = (
                real_state[STEP, i],
                sqrt(max(real_state[THIRD, i], real_state[FIFTH, i] / real_state[STEP, i] ** 2) / n),
            )
            later = max(1e-6, h * 1e-3) if most <= 1e-15 else (0.01 / most) ** 0.125
            lengths[at + i] *= first if first > 0.0 else min(100 * h, later, span)


@jit(no_reference_counting=True)
def propose(i, stops, control, x):
    """The length of the next step of lane i; whether there is none, because steps have vanished."""
    t, again = x.real_state[T, i], x.int_state[TRY, i]
    least = 10 * (np.nextafter(t, inf) - t)
    if again == 0:
        x.real_state[STEP, i] = max(min(x.real_state[PROPOSED, i], control.max_step), least)
    if not x.real_state[STEP, i] >= least and again < LOCATING:  # nan, too, from velocities that overflow
        return True
    x.real_state[LATER, i] = min(t + x.real_state[STEP, i], stops[x.int_state[DUE, i]])
    x.real_state[STEP, i] = x.real_state[LATER, i] - t
    return False


@jit(no_reference_counting=True)
def leave_knots(closure, queue, pieces, work, x):
    """Evaluate the velocities of lanes at a knot once more: they may have jumped."""
    knots, anywhere = pieces.knots, False
    for i in range(SIMD_WIDTH):
        t = x.real_state[AT, i] = x.real_state[T, i]
        passed = reached(knots, t)
        begins = x.int_state[WHO, i] >= 0 and x.int_state[TRY, i] == 0 and passed > 0 and knots[passed - 1] == t
        x.int_state[CODE, i], anywhere = begins, anywhere or begins
    if anywhere:
        velocity(closure, queue, pieces, work, x, x.y, x.k[12])
        for i in range(SIMD_WIDTH):
            x.int_state[SPENT, i] += x.int_state[CODE, i]
            for a in range(len(x.y)):
                x.k[0, a, i] = x.k[12, a, i] if x.int_state[CODE, i] else x.k[0, a, i]


@jit(no_reference_counting=True)
def step(closure, queue, pieces, work, x, control):
    """Try a step of all lanes; what is known of it goes to ``clock``."""
    new, k, real_state, K, trains_v = x.new, x.k, x.real_state, queue.K, queue.trains_v
    for stage in range(1, 13):
        add_stages(STAGES[stage], k, stage, new)
        add_increment(x)
        if pieces.channels.size > 0:
            for i in range(SIMD_WIDTH):
                t = real_state[T, i]
                at = t + NODES[stage] * real_state[STEP, i] if stage < 12 else real_state[LATER, i]
                real_state[AT, i] = min(at, before_knot(pieces.knots, t))
        velocity(closure, queue, pieces, work, x, new, k[stage])
    add_stages(E5, k, VELOCITIES, k[13])
    add_stages(E3, k, VELOCITIES, k[14])
    squares(k[13], k[15], x.y, new, control, real_state[FIFTH])
    squares(k[14], k[15], x.y, new, control, real_state[THIRD])
    change_of_eps_g(k[13], K, trains_v, work, real_state[FIFTH_EPS])
    change_of_eps_g(k[14], K, trains_v, work, real_state[THIRD_EPS])
    change_of_eps_g(k[12], K, trains_v, work, real_state[SLOPE])
    terms_of_eps_g(K, work, real_state[RATE], real_state[TERMS])
    for l in range(SIMD_WIDTH):
        real_state[SOUND, l] = 1.0
    for a in range(len(new)):
        for l in range(SIMD_WIDTH):
            real_state[SOUND, l] = real_state[SOUND, l] if abs(new[a, l]) <= real_state[MOST, l] else 0.0
    positive(work.S, control.slack, work.dS, real_state[SOUND])


@jit(no_reference_counting=True)
def decide(i, bound, control, work, x):
    """Decide on the step that lane i has tried."""
    real_state, level, eps_g, again = x.real_state, control.level, work.eps_g[i], x.int_state[TRY, i]
    h = real_state[STEP, i]
    x.int_state[SPENT, i] += 12
    if again < LOCATING:
        fifth, third, e5 = real_state[FIFTH, i], real_state[THIRD, i], real_state[FIFTH_EPS, i]
        error = h * fifth / sqrt((fifth + 0.01 * third) * len(x.y)) if fifth > 0.0 or third > 0.0 else fifth
        judged = real_state[SHARE, i] = 0.0
        if e5 != 0.0 and np.isfinite(e5):
            least = least_error(h, eps_g, x.now[0, i] * real_state[RATE, i], real_state[TERMS, i])
            judged, real_state[SHARE, i] = weighed(e5, real_state[THIRD_EPS, i], h, least, control.rtol, eps_g)
        error = max(error, judged)
        if not error < 1.0:
            real_state[STEP, i], x.int_state[TRY, i] = h * (max(0.2, 0.9 * error**-0.125) if error == error else 0.2), 1
            return AGAIN
        if real_state[SOUND, i] == 0.0 or eps_g != eps_g:
            return BY_PYTHON
        if eps_g > level:
            factor = min(10.0, 0.9 * error**-0.125) if error > 0.0 else 10.0
            tried = h * (min(1.0, factor) if again else factor)
            real_state[PROPOSED, i] = max(tried, real_state[PROPOSED, i]) if real_state[LATER, i] == bound else tried
            return TAKEN
        real_state[LOW, i], real_state[HIGH, i], again = 0.0, h, LOCATING
    real_state[LOW, i], real_state[HIGH, i] = (h, real_state[HIGH, i]) if eps_g > level else (real_state[LOW, i], h)
    low, high, newton = real_state[LOW, i], real_state[HIGH, i], h - (eps_g - level) / real_state[SLOPE, i]
    if min(abs(newton - h), high - low) <= LOCATED * max(1.0, real_state[LATER, i]) or again == TRIES:
        return STOPPED
    real_state[STEP, i], x.int_state[TRY, i] = newton if low < newton < high else 0.5 * (low + high), again + 1
    return AGAIN


@jit(fast=True, no_reference_counting=True)
def accept_steps(x):
    """Go on from the ends of the steps that were taken, or ended at the level."""
    taken = x.real_state[FIFTH]
    for l in range(SIMD_WIDTH):
        taken[l] = 1.0 if x.int_state[CODE, l] == TAKEN or x.int_state[CODE, l] == STOPPED else 0.0
        x.real_state[ACCOUNT, l] += taken[l] * x.real_state[SHARE, l]
    for a in range(len(x.y)):
        for l in range(SIMD_WIDTH):
            x.y[a, l] = x.new[a, l] if taken[l] > 0.0 else x.y[a, l]
        for l in range(SIMD_WIDTH):
            x.k[0, a, l] = x.k[12, a, l] if taken[l] > 0.0 else x.k[0, a, l]


@jit(no_reference_counting=True)
def record(i, queue, blocks, x, out):
    """Keep the overlaps of lane i, or their sums over blocks, and the account of the error of eps_g."""
    row, kept = x.row, len(x.row)
    for a in range(kept):
        row[a] = x.y[a, i]
    if blocks:
        copy(row, out[:kept])
    else:
        K, L, n = queue.K, queue.L, queue.K + queue.M
        kept, at = (kept - K * queue.trains_v) // L + K * queue.trains_v, n * n + n
        add_up(row, queue.rows[x.int_state[WHO, i], at : at + L], K, queue.M, queue.trains_v, out)
    out[kept] = x.real_state[ACCOUNT, i]


@jit(no_reference_counting=True)
def give_up(i, y, x, to, stops, outcome, last):
    """Leave the trajectory of lane i to Python, unless it diverges at y: as ``run._failure_reason`` says."""
    b, end, size = x.int_state[WHO, i], outcome.records.shape[2], 0.0
    for a in range(len(y)):
        size = max(size, abs(y[a, i]))
    outcome.state[b], outcome.nfev[b], x.int_state[WHO, i] = BY_PYTHON, x.int_state[SPENT, i], -1
    if sqrt(x.real_state[MOST, i]) < size < inf:
        outcome.state[b] = DIVERGENT
        last[b, end], last[b, end + 1], last[b, end + 2] = stops[0], x.real_state[T, i], size
        for j in range(x.int_state[DUE, i]):
            if to[j] >= 0:
                last[b, end] = stops[j]
                copy(outcome.records[b, to[j]], last[b, :end])


@jit(no_reference_counting=True)
def advance_simd(closure, queue, work, x, pieces, control, first, blocks, stops, to, halt, outcome, last):
    """March every trajectory from its first to its last time, or to the level; arguments as in ``advance_batch``.

    ``to`` (stops,) says which record is taken at a stop, -1 for none. ``last`` (b, kept + 4) takes the last record and
    its time, and of a trajectory that diverges the time before the step that did, and the largest overlap after it;
    ``outcome.state`` becomes STOPPED at the level, DIVERGENT there.
    """
    int_state, real_state, slopes, lengths, total = (
        x.int_state,
        x.real_state,
        queue.slopes,
        queue.lengths,
        len(queue.rows),
    )
    begin(closure, queue, pieces, work, x, control, first, stops)
    following = np.int64(0)  # no literal: numba compiles anew for it
    for i in range(SIMD_WIDTH):
        int_state[WHO, i] = -1
    while halt[0] == 0:
        busy = False
        for i in range(SIMD_WIDTH):
            while int_state[WHO, i] < 0 and following < total:
                b, following = following, following + 1
                outcome.state[b] = 0 if lengths[b] == lengths[b] else BY_PYTHON
                if outcome.state[b] == BY_PYTHON:
                    continue
                take(i, b, queue, x)
                int_state[WHO, i], int_state[DUE, i], int_state[TRY, i], int_state[SPENT, i] = (
                    b,
                    1,
                    0,
                    1 if first > 0.0 else 2,
                )
                real_state[T, i], real_state[PROPOSED, i], real_state[ACCOUNT, i], real_state[MOST, i] = (
                    stops[0],
                    lengths[b],
                    0.0,
                    1.0,
                )
                for a in range(len(x.y)):
                    x.k[0, a, i], real_state[MOST, i] = slopes[b, a], max(real_state[MOST, i], abs(x.y[a, i]))
                real_state[MOST, i] *= control.most
                record(i, queue, blocks, x, last[b])
                if to[0] >= 0:
                    record(i, queue, blocks, x, outcome.records[b, to[0]])
            if int_state[WHO, i] >= 0 and propose(i, stops, control, x):
                give_up(i, x.y, x, to, stops, outcome, last)
            real_state[STEP, i] = real_state[STEP, i] if int_state[WHO, i] >= 0 else 0.0
            busy = busy or int_state[WHO, i] >= 0 or following < total
        if not busy:
            return
        if pieces.knots.size > 0:
            leave_knots(closure, queue, pieces, work, x)
        step(closure, queue, pieces, work, x, control)
        for i in range(SIMD_WIDTH):
            taken = int_state[WHO, i] >= 0
            int_state[CODE, i] = decide(i, stops[int_state[DUE, i]], control, work, x) if taken else AGAIN
        accept_steps(x)
        for i in range(SIMD_WIDTH):
            b, due, code = int_state[WHO, i], int_state[DUE, i], int_state[CODE, i]
            if code == AGAIN:
                continue
            if code == TAKEN:
                real_state[T, i], int_state[TRY, i] = real_state[LATER, i], 0
                if real_state[LATER, i] < stops[due]:
                    continue
                if to[due] >= 0:
                    record(i, queue, blocks, x, outcome.records[b, to[due]])
                int_state[DUE, i] += 1
                if due + 1 < stops.size:
                    continue
                code = FINISHED
            if code == BY_PYTHON:
                give_up(i, x.new, x, to, stops, outcome, last)
                continue
            record(i, queue, blocks, x, last[b])
            last[b, outcome.records.shape[2]] = real_state[LATER, i]
            outcome.state[b], outcome.nfev[b], int_state[WHO, i] = code, int_state[SPENT, i], -1
