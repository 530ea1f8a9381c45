"""Steps of DOP853 in one compiled function, until a step needs a check in Python.

The method is the explicit Runge-Kutta formula of order 8 of Dormand and Prince, as in SciPy: twelve stages, the last of
which becomes the first of the next step, and two estimates of the error, of order 5 and 3.  SciPy's step control takes
the root mean square of the estimates over all entries.  Here a second criterion is added: the change of eps_g by the
errors, in units of its own tolerance (``eps_g_error``).  The larger of the two decides whether the step is accepted,
and sets the next length.  eps_g is a small difference of large overlaps, so accurate entries do not make it accurate.

Output times inside a step are read from Hairer's interpolant of order 7, at three more evaluations.  Its error is
known: 0.13 to 0.15 of max x^4 (1 - x)^3 |F6|, with F6 the last of its seven coefficients, in the overlaps and in eps_g
alike (323 steps; larger ratios only where both are rounding).  It is a second error of the step, in units of the same
tolerances (``interpolation_error``).  Where it is too large, the step is made again, shorter.  As both errors are of
order 8 in h, the ratio of the lengths that they allow changes slowly: later steps over output times take no more than
that (``reach``).  A step ends at a single output time where that costs less.

A step never evaluates beyond a knot of a schedule: a stage at the knot itself reads the rates of the last float before
it (``before_knot``), and the step from the knot evaluates its first stage again.

The closure and the flow are first-class functions: one integrator serves every kernel of their signatures, is compiled
once and is cached on the disk.

Python makes the arrays of ``Steps`` (``compiled_steps.RungeKutta``; ``_batch`` for a thread of a batch).  ``k[0]``
always holds the velocity at ``y``: code that changes ``y`` between two calls must fill it anew.  The first call of a
run starts with ``evaluations`` = 0 and evaluates it; if ``h`` = 0 it chooses the first step, too.  S, w, A, B in
``Work`` belong to the last evaluation, the end of the last step that was tried.  After an accepted step S and w belong
to ``y``; A and B may be those of a stage of the interpolant, and Python evaluates them anew.
"""

from math import hypot, inf, sqrt
from typing import NamedTuple

import numpy as np

from .._base.jit import BOOL, INT, MATRIX, VECTOR, jit, typed_namedtuple
from .._base.lazy_compilation import small
from ..flow import copy, gather_groups
from ..flow.velocity import SYSTEM, change_of_eps_g, difference_of_eps_g, velocity
from ..models import reached
from ._steps import RETURN, Control, needs_check, parallel, state_type
from ._tableau import N_VELOCITIES, TABLEAU

STATE, STATE_TYPE = state_type(
    {
        # length of a step up to which the interpolant is accurate, over the length that errors allow; at most 1
        "reach": float,
        "unfinished": int,  # ``RETURN`` code of the last step, until its output times are recorded; then 0
    }
)


@typed_namedtuple
class Steps(NamedTuple):
    """The arrays of a run that ``advance`` changes."""

    y: VECTOR  # packed overlaps after the last accepted step
    y_before: VECTOR  # packed overlaps before that step
    y_new: VECTOR  # workspace: the argument of a stage, and the end of the step that is tried
    k: MATRIX  # (K_ROW.n_rows, n): velocities of the stages, of which k[0] is that at y; see ``StageRow`` for the rest
    state: STATE_TYPE  # of one entry
    out: MATRIX  # recorded points


ADVANCE_SIGNATURE = INT(*SYSTEM, Control.type, VECTOR, VECTOR, BOOL, INT, Steps.type)


class ErrorOptions(NamedTuple):
    """Tunable numbers of the error control of eps_g.  Smaller ones make steps shrink on rounding."""

    # Rounding of the overlaps, which are of order one. Smaller errors of eps_g are rounding, which no shorter step
    # removes.
    rounding: float = 1e-16
    # Weight of the rounding of the velocities in the error estimate. Doubled: errors that a shorter step would remove
    # are taken for rounding.
    velocity_noise: float = 3.0
    # Rounding of a difference of two eps_g, in units of the size of the terms that cancel in them.
    difference_rounding: float = 4e-15
    # Errors up to this many ``rounding`` are allowed where eps_g itself is hardly more than rounding of its terms.
    max_hidden: float = 1e4
    # Least error, in units of the tolerance, where rounding dominates. Without it an estimate that vanishes by accident
    # would lengthen the step tenfold.
    min_error: float = (0.9 / 1.2) ** 8


class InterpolantOptions(NamedTuple):
    """Tunable numbers of the records inside a step."""

    # Error of the interpolant in units of max x^4 (1 - x)^3 |F6|. Smaller: records miss rtol, because A and B in the
    # estimate are those of a stage; larger: more steps are made again.
    safety: float = 0.2
    peak: float = 4**4 * 3**3 / 7**7  # max x^4 (1 - x)^3
    # Part of a step that three evaluations cost. A step ends at a single output time if that wastes less.
    cost: float = 3 / 12
    # Growth of ``reach`` at each landing. Larger: the interpolant is tried more often in vain; smaller: a flow that has
    # become smoother is noticed later.
    recovery: float = 1.02
    # ``reach`` before the interpolant was tried. Larger: the first steps are made again more often.
    first_reach: float = 0.7


class StageRow(NamedTuple):
    """Rows of k behind the velocities of a step, of which the last three belong to the interpolant."""

    n_velocities: int = 13  # without those of the interpolant
    error5: int = N_VELOCITIES  # error estimate of order 5
    error3: int = N_VELOCITIES + 1  # error estimate of order 3
    zero: int = N_VELOCITIES + 2
    coefficients: int = N_VELOCITIES + 3  # seven of the interpolant
    last: int = N_VELOCITIES + 9  # F6, the last of them
    n_rows: int = N_VELOCITIES + 10


ERROR_OPTIONS, INTERPOLANT, K_ROW = ErrorOptions(), InterpolantOptions(), StageRow()


@jit(no_reference_counting=True, cost=small)
def rounding_error(h, eps_g, S, A, B, eta):
    """Size of the errors of eps_g that a shorter step than h cannot reduce; A, B are those at its end.

    ``rounding`` is the resolution of Q and R.  The rounding of the velocities, h |A| of it with an error estimate's
    weights, changes the estimate at any h.  Smaller errors are invisible where eps_g itself is hardly more than
    rounding of its terms.
    """
    K, n = A.shape[1], S.shape[1]
    terms = rate = 0.0
    for row in range(A.shape[0]):  # rows of all groups of blocks
        i = row // K * n + row % K
        for j in range(K):
            rate += abs(A[row, j])
            terms += abs(A[row, j] * S[i, j]) / (2 * eta)
        for m in range(B.shape[1]):
            terms += abs(B[row, m] * S[i, K + m]) / eta
    return rounding_error_of_sums(h, eps_g, rate, terms)


@jit(no_reference_counting=True)
def rounding_error_of_sums(h, eps_g, rate, terms):
    """``rounding_error`` from the sum of |A| and from the sum of the terms by which A and B contribute to eps_g."""
    rounding = ERROR_OPTIONS.rounding
    hidden = ERROR_OPTIONS.max_hidden * min(1.0, 10 * rounding * terms / max(eps_g, 1e-300)) ** 2
    return rounding * max(1.0, ERROR_OPTIONS.velocity_noise * h * rate * terms, hidden)


@jit(no_reference_counting=True, cost=small)
def eps_g_error(fifth, third, h, u, rtol, eps_g, S, A, B, eta):
    """(Error of eps_g in units of its tolerance, error relative to eps_g) from two estimates of its change per time.

    The two are combined as for the overlaps, for one number; u scales A and B under a schedule.
    """
    if fifth == 0.0 or not np.isfinite(fifth):
        return 0.0, 0.0
    return scaled_error(fifth, third, h, rounding_error(abs(h) * u, eps_g, S, A, B, eta), rtol, eps_g)


@jit(no_reference_counting=True)
def scaled_error(fifth, third, h, rounding, rtol, eps_g):
    """``eps_g_error`` with a given rounding error of eps_g."""
    error = abs(h) * fifth * fifth / hypot(fifth, 0.1 * third)
    scaled = error / (rtol * eps_g + rounding)
    return max(scaled, ERROR_OPTIONS.min_error if rounding > rtol * eps_g else 0.0), error / max(eps_g, rounding)


@jit(no_reference_counting=True)
def difference_error(change, rtol, eps_g, size, noise):
    """``eps_g_error`` where the change of eps_g is a difference of numbers of this size, with this relative noise."""
    if change == 0.0 or not np.isfinite(change):
        return 0.0, 0.0
    return scaled_error(change, 0.0, 1.0, ERROR_OPTIONS.difference_rounding * size, max(rtol, noise), eps_g)


@jit(no_reference_counting=True)
def combine(y, h, a, k, count, new):
    """Fill ``new`` = y + h sum_j a_j k_j."""
    for l in range(y.size):
        new[l] = y[l]
    for j in range(count):
        if a[j] != 0.0:
            c = h * a[j]
            for l in range(y.size):
                new[l] += c * k[j, l]


@jit(no_reference_counting=True)
def size(x, less, y, control):
    """Root mean square of x - less in units of the tolerances at y, as ``begin`` compares velocities."""
    total = 0.0
    for a in range(x.size):
        total += ((x[a] - less[a]) / (control.atol + control.rtol * abs(y[a]))) ** 2
    return sqrt(total / x.size)


@jit(no_reference_counting=True)
def before_knot(knots, t):
    """The last time before the first knot after t: a stage at a knot must not read the value after a jump."""
    following = reached(knots, t)
    return np.nextafter(knots[following], -inf) if following < knots.size else inf


@jit(no_reference_counting=True)
def begin(flow, closure, constants, schedule, work, control, span, steps):
    """Fill k[0] = dy/dalpha; return the length of the first step, by SciPy's formula.  S belongs to y afterwards.

    Two evaluations: one at y, one after a small Euler step.  Their difference estimates how fast the velocity changes.
    """
    y, k, t = steps.y, steps.k, steps.state[0].t
    zero, velocity_now, velocity_later, h, d0, d1 = k[K_ROW.zero], k[0], k[1], 0.0, 0.0, 0.0
    for i in range(2):
        at = min(t + h, before_knot(schedule.pieces.knots, t)) if i else t
        argument, result = velocity_later if i else y, steps.y_new if i else velocity_now
        velocity(flow, closure, constants, schedule, work, at, argument, result)
        if i == 0:
            d0, d1 = size(y, zero, y, control), size(velocity_now, zero, y, control)
            h = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
            for a in range(y.size):
                velocity_later[a] = y[a] + h * velocity_now[a]
    M = work.B.shape[1]
    gather_groups(y, constants.s, constants.p, constants.K, M, constants.trains_v, work.S, work.w)
    rate = max(d1, size(steps.y_new, velocity_now, y, control) / h)
    return min(100 * h, max(1e-6, h * 1e-3) if rate <= 1e-15 else (0.01 / rate) ** 0.125, span)


@jit(fast=True, no_reference_counting=True)
def step_error(closure, constants, schedule, work, control, h, eps_g, steps):
    """Error of a step in units of the tolerances, and that of eps_g relative to it; S, A, B are those at its end."""
    y, new, k = steps.y, steps.y_new, steps.k
    err5, err3, zero = k[K_ROW.error5], k[K_ROW.error3], k[K_ROW.zero]
    combine(zero, 1.0, TABLEAU.e5, k, K_ROW.n_velocities, err5)
    combine(zero, 1.0, TABLEAU.e3, k, K_ROW.n_velocities, err3)
    fifth = third = 0.0
    for a in range(y.size):
        scale = control.atol + control.rtol * max(abs(y[a]), abs(new[a]))
        fifth += (err5[a] / scale) ** 2
        third += (err3[a] / scale) ** 2
    error = h * fifth / sqrt((fifth + 0.01 * third) * y.size) if fifth > 0.0 or third > 0.0 else fifth
    if constants.error_size > 0.0:
        factor = h * sqrt(fifth / (fifth + 0.01 * third)) if fifth > 0.0 else 0.0
        change = difference_of_eps_g(closure, constants, schedule, work, new, eps_g, factor, err5)
        scaled, left = difference_error(change, control.rtol, eps_g, constants.error_size, constants.error_noise)
    else:
        e5, e3 = change_of_eps_g(constants, work, err5), change_of_eps_g(constants, work, err3)
        u, S, A, B, eta = schedule.factors[0], work.S, work.A, work.B, constants.eta
        scaled, left = eps_g_error(e5, e3, h, u, control.rtol, eps_g, S, A, B, eta)
    return max(error, scaled), left


@jit(fast=True, no_reference_counting=True)
def stages(flow, closure, constants, schedule, work, t, h, last_time, y, first, last, steps):
    """Fill the velocities k[first:last] of a step of length h from y; return eps_g at the last one.

    ``y_new`` is left at its argument, and so are S, A, B.  No rates after ``last_time`` are read.
    """
    eps_g = 0.0
    for i in range(first, last):
        combine(y, h, TABLEAU.stages[i], steps.k, i, steps.y_new)
        at = min(t + TABLEAU.nodes[i] * h, last_time)
        eps_g = velocity(flow, closure, constants, schedule, work, at, steps.y_new, steps.k[i])
    return eps_g


@jit(fast=True, no_reference_counting=True)
def interpolant(flow, closure, constants, schedule, work, t, h, last_time, steps):
    """Fill the coefficients of the polynomial over the step from t to t + h, which has been accepted: 3 evaluations."""
    y, before, k, zero = steps.y, steps.y_before, steps.k, steps.k[K_ROW.zero]
    stages(flow, closure, constants, schedule, work, t, h, last_time, before, K_ROW.n_velocities, N_VELOCITIES, steps)
    for i in range(4):
        combine(zero, h, TABLEAU.dense[i], k, N_VELOCITIES, k[K_ROW.coefficients + 3 + i])
    for l in range(y.size):
        change = y[l] - before[l]
        k[K_ROW.coefficients, l] = change
        k[K_ROW.coefficients + 1, l] = h * k[0, l] - change
        k[K_ROW.coefficients + 2, l] = 2 * change - h * (k[12, l] + k[0, l])


@jit(fast=True, no_reference_counting=True)
def interpolate(x, before, k, y):
    """Fill y with the polynomial at the fraction x of the step."""
    for l in range(y.size):
        y[l] = 0.0
    for i in range(7):
        factor = x if i % 2 == 0 else 1.0 - x
        for l in range(y.size):
            y[l] = (y[l] + k[K_ROW.last - i, l]) * factor
    for l in range(y.size):
        y[l] += before[l]


@jit(no_reference_counting=True)
def interpolation_error(closure, constants, schedule, work, control, h, eps_g, steps):
    """Error of the interpolant in units of the tolerances; ``eps_g`` is that at y.  S and w belong to y afterwards."""
    y, before, last, error = steps.y, steps.y_before, steps.k[K_ROW.last], 0.0
    M, factor = work.B.shape[1], INTERPOLANT.safety * INTERPOLANT.peak
    for a in range(y.size):
        error = max(error, abs(last[a]) / (control.atol + control.rtol * max(abs(y[a]), abs(before[a]))))
    error *= factor
    differs = constants.error_size > 0.0
    if not differs:
        change, u = factor * abs(change_of_eps_g(constants, work, last)), schedule.factors[0]
        rounding = rounding_error(h * u, eps_g, work.S, work.A, work.B, constants.eta)
        error = max(error, change / (control.rtol * eps_g + rounding))
    gather_groups(y, constants.s, constants.p, constants.K, M, constants.trains_v, work.S, work.w)
    if differs:
        change = difference_of_eps_g(closure, constants, schedule, work, y, eps_g, factor, last)
        scaled, _ = difference_error(change, control.rtol, eps_g, constants.error_size, constants.error_noise)
        error = max(error, scaled)
    return error


@jit(no_reference_counting=True, cost=small)
def reach(error, h, h_next):
    """The next ``reach``, for a next step of length h_next: the interpolant over h has this error, of order h^8."""
    longest = h * (min(10.0, 0.9 * error**-0.125) if error > 0.0 else 0.2 if error != error else 10.0)
    return min(1.0, longest / h_next)


@jit(no_reference_counting=True, cost=small)
def bound_of_step(times, following, t, h, reach, bound):
    """Where a step of length h from t has to end if output times lie inside: at the first, or within the reach."""
    if following == times.size or times[following] >= min(t + h, bound):
        return bound
    longest = reach * h
    several = following + 1 < times.size and times[following + 1] < t + longest
    if not several and times[following] > t + longest - INTERPOLANT.cost * h:
        return times[following]
    return min(bound, t + longest) if reach < 1.0 else bound


@jit(no_reference_counting=True)
def finish_step(times, every_step, steps):
    """Record the output times up to the end of the last step; return a ``RETURN`` code, ``step_accepted`` to go on.

    ``out`` may be too small for all: the next call continues.  The end of a step that needs a check is left to Python.
    """
    state, out, n = steps.state[0], steps.out, steps.y.size
    code, t, before = state.unfinished, state.t, state.t_before
    if code == 0:
        return RETURN.step_accepted
    following = state.next_output
    while following < times.size and times[following] < t:
        if state.n_recorded == len(out):
            return RETURN.out_full
        row = out[state.n_recorded]
        interpolate((times[following] - before) / (t - before), steps.y_before, steps.k, row[:n])
        row[n], row[n + 1] = state.accumulated_error, times[following]
        state.n_recorded += 1
        following = state.next_output = following + 1
    state.unfinished = 0
    at_output = following < times.size and times[following] == t
    if at_output:
        following = state.next_output = following + 1
        state.reach = min(1.0, INTERPOLANT.recovery * state.reach)
    if code == RETURN.check_in_python:
        return code
    if at_output or every_step:
        if state.n_recorded == len(out):
            return RETURN.pause  # Python records this one
        row = out[state.n_recorded]
        copy(steps.y, row[:n])
        row[n], row[n + 1] = state.accumulated_error, t
        state.n_recorded += 1
    return RETURN.pause if following == times.size else RETURN.step_accepted


@jit(fast=True, no_reference_counting=True)
def advance(flow, closure, constants, schedule, work, control, times, stops, every_step, budget, steps):
    """Step until ``budget`` evaluations are spent or the last step needs a check in Python; return a ``RETURN`` code.

    k[0] is evaluated where there were no evaluations before, and again at a knot, where rates may jump.  Steps end at
    ``stops``, or earlier (``bound_of_step``); the step after them may be as long as the one that they cut short.  A
    step is too small below ten times the distance of floats at t.
    """
    y, new, k, state = steps.y, steps.y_new, steps.k, steps.state[0]
    if state.evaluations == 0 and state.h == 0.0:
        state.h = begin(flow, closure, constants, schedule, work, control, times[-1] - state.t, steps)
        state.evaluations = 2
    knots, last_evaluation = schedule.pieces.knots, state.evaluations + budget
    are_parallel = control.kinked and parallel(work.S, constants.K)
    while True:
        stepped, code = state.unfinished > 0, finish_step(times, every_step, steps)
        if code != RETURN.step_accepted:
            return code
        if stepped and state.evaluations >= last_evaluation:
            return RETURN.pause
        t, proposed = state.t, state.h
        following, bound = state.next_output, stops[reached(stops, t)]
        least = 10 * (np.nextafter(t, inf) - t)
        h_abs = max(min(proposed, control.max_step), least)
        bound = bound_of_step(times, following, t, h_abs, state.reach, bound)
        rejected = False
        last_time, first = inf, 1 if state.evaluations > 0 else 0
        if knots.size > 0:
            last_time = before_knot(knots, t)
            passed = reached(knots, t)
            if passed > 0 and knots[passed - 1] == t:
                first = 0  # the velocity may have jumped
        while True:
            if not h_abs >= least:  # also true for nan, from velocities that overflow
                return RETURN.step_too_small
            later = min(t + h_abs, bound)
            h = h_abs = later - t
            last = min(later, last_time)
            eps_g = stages(flow, closure, constants, schedule, work, t, h, last, y, first, 13, steps)
            state.evaluations += 13 - first
            first = 1
            error, left = step_error(closure, constants, schedule, work, control, h, eps_g, steps)
            if error < 1.0:
                factor = min(10.0, 0.9 * error**-0.125) if error > 0.0 else 10.0
                h_abs *= min(1.0, factor) if rejected else factor
                break
            h_abs *= max(0.2, 0.9 * error**-0.125) if error == error else 0.2
            rejected = True
        landed, were_parallel = later == bound, are_parallel
        unusual, are_parallel = needs_check(constants, work, control, new, eps_g)
        copy(y, steps.y_before)
        copy(new, y)
        if times[following] < later:
            interpolant(flow, closure, constants, schedule, work, t, h, last_time, steps)
            state.evaluations += 3
            error = interpolation_error(closure, constants, schedule, work, control, h, eps_g, steps)
            state.reach = reach(error, h, min(h_abs, control.max_step))
            if not error <= 1.0:  # make the step again
                copy(steps.y_before, y)
                state.h = h_abs
                continue
        copy(k[12], k[0])
        state.t, state.t_before = later, t
        state.h = max(h_abs, proposed) if landed else h_abs
        state.accumulated_error += left
        check = unusual or were_parallel or are_parallel
        state.unfinished = RETURN.check_in_python if check else RETURN.step_accepted
