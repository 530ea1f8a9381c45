"""Steps of DOP853 in one compiled function, until something is worth a look from Python.

The closure comes as a first-class function: one integrator serves every kernel of that signature, is compiled once and
lies on disk.  Step control is SciPy's, with one more entry in the error norm: see ``dop853``.
"""

from math import hypot, inf, sqrt

import numpy as np
from scipy.integrate import DOP853

from .._base.jit import jit
from .._base.tiers import small
from ..flow import copy, gather_groups
from ..models import reached
from ._steps import (
    BOOL,
    FIRST,
    INT,
    INTS,
    LOOK,
    MATRIX,
    PACED,
    PLAIN,
    REAL,
    VANISHED,
    VECTOR,
    change_of_eps_g,
    nearly_parallel,
    notable,
    velocity,
)

BEGIN = REAL(*FIRST, PACED, REAL, REAL, VECTOR, VECTOR, MATRIX)
SIGNATURE = INT(*FIRST, VECTOR, BOOL, PACED, INT, VECTOR, VECTOR, VECTOR, MATRIX, VECTOR, MATRIX, INTS)

ROUNDING = 1e-16  # of the overlaps: eps_g, a difference of numbers of order one, resolves nothing below
NOISE = 3.0  # of the error estimate, in units of the rounding of the velocities
INVISIBLE = 1e4  # ROUNDING: errors of eps_g that do not matter where it is no more than rounding
QUIET = (0.9 / 1.2) ** 8  # least error where rounding rules: an estimate that vanishes by accident lengthens little
VELOCITIES = np.int64(13)  # no literal: numba compiles anew for each
ROWS = 16  # of k: the velocities of thirteen stages, two estimates of the error, zeros
STAGES = np.vstack([DOP853.A, DOP853.B])  # the last one is the step itself
NODES, E3, E5 = (np.ascontiguousarray(getattr(DOP853, x)) for x in ("C", "E3", "E5"))


@jit(bare=True)
def floor(h, eps_g, S, A, B, eta):
    """Size of the errors of eps_g that a step h should not try to avoid.

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
    hidden = INVISIBLE * min(1.0, 10 * ROUNDING * terms / max(eps_g, 1e-300)) ** 2
    return ROUNDING * max(1.0, NOISE * h * rate * terms, hidden)


@jit(bare=True, cost=small)
def judge(fifth, third, h, u, rtol, eps_g, S, A, B, eta):
    """Error of eps_g in units of its tolerance, and relative to it, from two estimates of its change per unit time.

    The combination of the two is that of the overlaps, for one number; u scales A and B under a schedule.
    """
    if fifth == 0.0 or not np.isfinite(fifth):
        return 0.0, 0.0
    error, least = abs(h) * fifth * fifth / hypot(fifth, 0.1 * third), floor(abs(h) * u, eps_g, S, A, B, eta)
    judged = error / (rtol * eps_g + least)
    return max(judged, QUIET if least > rtol * eps_g else 0.0), error / max(eps_g, least)


@jit(bare=True)
def combine(y, h, a, k, count, new):
    """Fill ``new`` = y + h sum_j a_j k_j."""
    for l in range(y.size):
        new[l] = y[l]
    for j in range(count):
        if a[j] != 0.0:
            c = h * a[j]
            for l in range(y.size):
                new[l] += c * k[j, l]


@jit(bare=True)
def size(x, less, y, control):
    """Root mean square of x - less in units of the tolerances at y."""
    total = 0.0
    for a in range(x.size):
        total += ((x[a] - less[a]) / (control[1] + control[0] * abs(y[a]))) ** 2
    return sqrt(total / x.size)


@jit(bare=True)
def before_knot(knots, t):
    """The last time before the first knot after t: a stage at a knot must not see the value after a jump."""
    following = reached(knots, t)
    return np.nextafter(knots[following], -inf) if following < knots.size else inf


@jit(bare=True)
def begin(flow, closure, constants, work, control, pace, span, t, y, new, k):
    """Fill k[0] = dy/dalpha; return the length of the first step, by SciPy's rule.  S is left as that of y."""
    K, s, trains_v = constants[0], constants[5], constants[11]
    zero, now, later, h, d0, d1 = k[15], k[0], k[1], 0.0, 0.0, 0.0
    for i in range(2):
        at = min(t + h, before_knot(pace[4], t)) if i else t
        velocity(flow, closure, constants, pace, work, at, later if i else y, new if i else now)
        if i == 0:
            d0, d1 = size(y, zero, y, control), size(now, zero, y, control)
            h = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
            for a in range(y.size):
                later[a] = y[a] + h * now[a]
    gather_groups(y, s, constants[6], K, work[3].shape[1], trains_v, work[0], work[1])
    largest = max(d1, size(new, now, y, control) / h)
    return min(100 * h, max(1e-6, h * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** 0.125, span)


@jit(fast=True, bare=True)
def march(flow, closure, constants, work, control, times, every_step, pace, budget, y, y_old, new, k, clock, out,
          place):  # fmt: skip
    """Step until ``budget`` evaluations are spent or the last step is worth a look; say which.

    ``clock`` = (t, h, account of the error of eps_g, t before the last step) and ``place`` = (next output time, rows
    recorded, evaluations) are kept between calls, and k[0] = dy/dalpha; it is evaluated where there were no evaluations
    before.  Records, but for one of the last step, are rows of ``out``: y, the account, t.  ``control`` = (rtol, atol,
    max_step, largest overlap, whether students have kinks, level of eps_g,
    negative eigenvalue of the fields over their trace, that is excused).
    """
    rtol, atol, max_step, largest, kinks, level, slack = control
    K, teacher, eta, eta_v, noise, s, p, tau, decay, decay_v, second_order, trains_v, drift, gradient = constants
    S = work[0]
    n, end, knots = y.size, place[2] + budget, pace[4]
    err5, err3, zero = k[13], k[14], k[15]
    near = kinks and nearly_parallel(S, K)
    while True:
        t, proposed, bound = clock[0], clock[1], times[place[0]]
        least = 10 * (np.nextafter(t, inf) - t)
        h_abs = max(min(proposed, max_step), least)
        rejected = False
        edge, first = inf, 1 if place[2] > 0 else 0
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
                eps_g = velocity(flow, closure, constants, pace, work, min(at, edge), new, k[i])
            place[2] += 13 - first
            first = 1
            combine(zero, 1.0, E5, k, VELOCITIES, err5)
            combine(zero, 1.0, E3, k, VELOCITIES, err3)
            fifth = third = 0.0
            for a in range(n):
                scale = atol + rtol * max(abs(y[a]), abs(new[a]))
                fifth += (err5[a] / scale) ** 2
                third += (err3[a] / scale) ** 2
            error = h * fifth / sqrt((fifth + 0.01 * third) * n) if fifth > 0.0 or third > 0.0 else fifth
            e5, e3 = change_of_eps_g(constants, work, err5), change_of_eps_g(constants, work, err3)
            judged, share = judge(e5, e3, h, pace[7][0][0], rtol, eps_g, S, work[2], work[3], eta)
            error = max(error, judged)
            if error < 1.0:
                factor = min(10.0, 0.9 * error**-0.125) if error > 0.0 else 10.0
                h_abs *= min(1.0, factor) if rejected else factor
                break
            h_abs *= max(0.2, 0.9 * error**-0.125) if error == error else 0.2
            rejected = True
        copy(y, y_old)
        copy(new, y)
        copy(k[12], k[0])
        landed = later == bound
        clock[0], clock[1], clock[3] = later, (max(h_abs, proposed) if landed else h_abs), t
        clock[2] += share
        place[0] += landed
        was = near
        unusual, near = notable(constants, work, control, y, eps_g)
        if unusual or was or near:
            return LOOK
        if place[0] == times.size or place[2] >= end or place[1] == len(out):
            return PLAIN
        if landed or every_step:
            copy(y, out[place[1], :n])
            out[place[1], n], out[place[1], n + 1] = clock[2], later
            place[1] += 1
