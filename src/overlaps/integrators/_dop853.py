"""Steps of DOP853 in one compiled function, until something is worth a look from Python.

The method is the explicit Runge-Kutta formula of order 8 of Dormand and Prince, as in SciPy: twelve stages, the last of
which becomes the first of the next step, and two estimates of the error, of order 5 and 3.  SciPy's step control takes
the root mean square of the estimates over all entries.  Here one number stands beside them: the change of eps_g that
the errors make, in units of its own tolerance (``judge``); the larger of the two accepts, rejects and sets the length.
eps_g is a small difference of large overlaps, so entries that are accurate one by one do not make it so.

A step lands on each output time, and may not look beyond a knot of a schedule: a stage at the knot itself reads the
rates of the last float before it (``before_knot``), and the step from the knot evaluates its first stage again.

The closure and the flow come as first-class functions: one integrator serves every kernel of their signatures, is
compiled once and lies on the disk.

Python (``burst.RungeKutta``) makes and keeps the arrays of ``Steps``; ``_many`` keeps them for a thread of a batch.
``k[0]`` always holds the velocity at ``y``: whoever changes ``y`` between two calls fills it anew.  The first call of a
run comes with no evaluations in ``place``, and evaluates it.  S, w, A, B in ``Work`` are those of the last evaluation,
the end of the last step that was tried: after an accepted step they belong to ``y``, and Python reads them.
"""

from math import hypot, inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.integrate import DOP853

from .._base.jit import BOOL, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from .._base.lazy_compilation import small
from ..flow import copy, gather_groups
from ..flow.velocity import SYSTEM, change_of_eps_g, difference_of_eps_g, velocity
from ..models import reached
from ._steps import (
    ACCOUNT,
    BEFORE,
    LOOK,
    OUTPUT,
    PLAIN,
    RECORDED,
    SPENT,
    VANISHED,
    Control,
    H,
    T,
    needs_check,
    parallel,
)


@typed_namedtuple
class Steps(NamedTuple):
    """The arrays of a run that a march changes."""

    y: VECTOR  # packed overlaps after the last accepted step
    before: VECTOR  # the same before it
    new: VECTOR  # room: the argument of a stage, and the end of the step that is tried
    k: MATRIX  # (ROWS, n): velocities of the stages, of which k[0] is that at y, and what estimates the error
    real_state: VECTOR  # T, H, ACCOUNT, BEFORE
    int_state: INTS  # OUTPUT, RECORDED, SPENT
    out: MATRIX  # records


BEGIN = REAL(*SYSTEM, Control.type, REAL, Steps.type)
SIGNATURE = INT(*SYSTEM, Control.type, VECTOR, BOOL, INT, Steps.type)

# Of the overlaps, which are of order one.  Errors of eps_g below are rounding, which no shorter step removes.
ROUNDING = 1e-16
# Of the error estimate, in units of the rounding of the velocities.  Below, steps shrink on rounding; above, errors
# that a shorter step would remove pass for rounding.
NOISE = 3.0
# Rounding of a difference of two eps_g, in units of the size of what cancels in them.  Below, steps shrink on rounding.
DIFFERENCE = 4e-15
# In units of ROUNDING: errors of eps_g up to here pass where eps_g itself is hardly more than rounding of its terms.
INVISIBLE = 1e4
# Least error where rounding rules.  Without it an estimate that vanishes by accident would lengthen the step tenfold.
QUIET = (0.9 / 1.2) ** 8
VELOCITIES = np.int64(13)  # an int64, not a literal: numba would compile again for each literal
FIFTH, THIRD, ZERO, ROWS = 13, 14, 15, 16  # rows of k behind the velocities: two estimates of the error, zeros
STAGES = np.vstack([DOP853.A, DOP853.B])  # the last one is the step itself
NODES, E3, E5 = (np.ascontiguousarray(getattr(DOP853, x)) for x in ("C", "E3", "E5"))


@jit(no_reference_counting=True)
def floor(h, eps_g, S, A, B, eta):
    """Size of the errors of eps_g that a step h should not try to avoid; A, B are those at its end.

    ROUNDING is what Q and R resolve.  That of the velocities, h |A| of it with an error estimate's weights, moves the
    estimate whatever h does.  Where eps_g itself is hardly more than rounding of its terms, nothing sees smaller ones.
    """
    K, n = A.shape[1], S.shape[1]
    terms = rate = 0.0
    for row in range(A.shape[0]):  # of all groups of blocks
        i = row // K * n + row % K
        for j in range(K):
            rate += abs(A[row, j])
            terms += abs(A[row, j] * S[i, j]) / (2 * eta)
        for m in range(B.shape[1]):
            terms += abs(B[row, m] * S[i, K + m]) / eta
    return least_error(h, eps_g, rate, terms)


@jit(no_reference_counting=True)
def least_error(h, eps_g, rate, terms):
    """The same from the sums |A| and of what A and B contribute to eps_g."""
    hidden = INVISIBLE * min(1.0, 10 * ROUNDING * terms / max(eps_g, 1e-300)) ** 2
    return ROUNDING * max(1.0, NOISE * h * rate * terms, hidden)


@jit(no_reference_counting=True, cost=small)
def judge(fifth, third, h, u, rtol, eps_g, S, A, B, eta):
    """Error of eps_g in units of its tolerance, and relative to it, from two estimates of its change per unit time.

    The two are combined as for the overlaps, for one number; u scales A and B under a schedule.
    """
    if fifth == 0.0 or not np.isfinite(fifth):
        return 0.0, 0.0
    return weighed(fifth, third, h, floor(abs(h) * u, eps_g, S, A, B, eta), rtol, eps_g)


@jit(no_reference_counting=True)
def weighed(fifth, third, h, least, rtol, eps_g):
    """The same, given the errors that a step should not try to avoid."""
    error = abs(h) * fifth * fifth / hypot(fifth, 0.1 * third)
    judged = error / (rtol * eps_g + least)
    return max(judged, QUIET if least > rtol * eps_g else 0.0), error / max(eps_g, least)


@jit(no_reference_counting=True)
def judge_change(change, rtol, eps_g, size, noise):
    """The same where the change of eps_g is a difference of numbers of this size, with this relative noise."""
    if change == 0.0 or not np.isfinite(change):
        return 0.0, 0.0
    return weighed(change, 0.0, 1.0, DIFFERENCE * size, max(rtol, noise), eps_g)


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
    """The last time before the first knot after t: a stage at a knot must not see the value after a jump."""
    following = reached(knots, t)
    return np.nextafter(knots[following], -inf) if following < knots.size else inf


@jit(no_reference_counting=True)
def begin(flow, closure, constants, schedule, work, control, span, steps):
    """Fill k[0] = dy/dalpha; return the length of the first step, by SciPy's rule.  S is left as of y.

    Two evaluations: one at y, one after a small Euler step, whose difference says how fast the velocity turns.
    """
    y, k, t = steps.y, steps.k, steps.real_state[T]
    zero, now, later, h, d0, d1 = k[ZERO], k[0], k[1], 0.0, 0.0, 0.0
    for i in range(2):
        at = min(t + h, before_knot(schedule.pieces.knots, t)) if i else t
        velocity(flow, closure, constants, schedule, work, at, later if i else y, steps.new if i else now)
        if i == 0:
            d0, d1 = size(y, zero, y, control), size(now, zero, y, control)
            h = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
            for a in range(y.size):
                later[a] = y[a] + h * now[a]
    M = work.B.shape[1]
    gather_groups(y, constants.s, constants.p, constants.K, M, constants.trains_v, work.S, work.w)
    largest = max(d1, size(steps.new, now, y, control) / h)
    return min(100 * h, max(1e-6, h * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** 0.125, span)


@jit(fast=True, no_reference_counting=True)
def advance(flow, closure, constants, schedule, work, control, times, every_step, budget, steps):
    """Step until ``budget`` evaluations are spent or the last step is worth a look; say which.

    k[0] is evaluated where there were no evaluations before, and again at a knot, where rates may jump.  Output times
    are stepped onto; the step after them may be as long as the one that they cut short.  A step is VANISHED below ten
    times the distance of floats at t.
    """
    y, new, k, real_state, int_state, out = steps.y, steps.new, steps.k, steps.real_state, steps.int_state, steps.out
    rtol, atol, knots = control.rtol, control.atol, schedule.pieces.knots
    n, end, err5, err3, zero = y.size, int_state[SPENT] + budget, k[FIFTH], k[THIRD], k[ZERO]
    near = control.kinks and parallel(work.S, constants.K)
    while True:
        t, proposed, bound = real_state[T], real_state[H], times[int_state[OUTPUT]]
        least = 10 * (np.nextafter(t, inf) - t)
        h_abs = max(min(proposed, control.max_step), least)
        rejected = False
        edge, first = inf, 1 if int_state[SPENT] > 0 else 0
        if knots.size > 0:
            edge = before_knot(knots, t)
            passed = reached(knots, t)
            if passed > 0 and knots[passed - 1] == t:
                first = 0  # the velocity may have jumped
        while True:
            if not h_abs >= least:  # nan, too, from velocities that overflow
                return VANISHED
            later = min(t + h_abs, bound)
            h = h_abs = later - t
            eps_g = 0.0
            for i in range(first, 13):
                at = t + NODES[i] * h if i < 12 else later
                combine(y, h, STAGES[i], k, i, new)
                eps_g = velocity(flow, closure, constants, schedule, work, min(at, edge), new, k[i])
            int_state[SPENT] += 13 - first
            first = 1
            combine(zero, 1.0, E5, k, VELOCITIES, err5)
            combine(zero, 1.0, E3, k, VELOCITIES, err3)
            fifth = third = 0.0
            for a in range(n):
                scale = atol + rtol * max(abs(y[a]), abs(new[a]))
                fifth += (err5[a] / scale) ** 2
                third += (err3[a] / scale) ** 2
            error = h * fifth / sqrt((fifth + 0.01 * third) * n) if fifth > 0.0 or third > 0.0 else fifth
            if constants.error_size > 0.0:
                part = h * sqrt(fifth / (fifth + 0.01 * third)) if fifth > 0.0 else 0.0
                change = difference_of_eps_g(closure, constants, schedule, work, new, eps_g, part, err5)
                judged, left = judge_change(change, rtol, eps_g, constants.error_size, constants.error_noise)
            else:
                e5, e3 = change_of_eps_g(constants, work, err5), change_of_eps_g(constants, work, err3)
                judged, left = judge(e5, e3, h, schedule.factors[0], rtol, eps_g, work.S, work.A, work.B, constants.eta)
            error = max(error, judged)
            if error < 1.0:
                factor = min(10.0, 0.9 * error**-0.125) if error > 0.0 else 10.0
                h_abs *= min(1.0, factor) if rejected else factor
                break
            h_abs *= max(0.2, 0.9 * error**-0.125) if error == error else 0.2
            rejected = True
        copy(y, steps.before)
        copy(new, y)
        copy(k[12], k[0])
        landed = later == bound
        real_state[T], real_state[H], real_state[BEFORE] = later, (max(h_abs, proposed) if landed else h_abs), t
        real_state[ACCOUNT] += left
        int_state[OUTPUT] += landed
        was = near
        unusual, near = needs_check(constants, work, control, y, eps_g)
        if unusual or was or near:
            return LOOK
        if int_state[OUTPUT] == times.size or int_state[SPENT] >= end or int_state[RECORDED] == len(out):
            return PLAIN
        if landed or every_step:
            row = out[int_state[RECORDED]]
            copy(y, row[:n])
            row[n], row[n + 1] = real_state[ACCOUNT], later
            int_state[RECORDED] += 1
