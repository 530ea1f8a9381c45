"""Steps of the structured BDF in one compiled function, until something is worth a look from Python.

Differentiation formulas, step size and order are those of SciPy's BDF: Shampine and Reichelt's (1997) NDF of order 1 to
5 with quasi-constant steps.  A new Jacobian, wanted a few times per run, is left to Python.
"""

from math import inf, sqrt

import numpy as np
from numba import types

from .._base.jit import jit
from ..flow import clear, copy, correct, factorise, mix, tightening
from ..models import factors
from ._steps import (
    BOOL,
    CUBE,
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
    close,
    largest,
    notable,
    velocity,
)

FROZEN = types.Tuple([VECTOR, MATRIX, MATRIX, CUBE, CUBE, CUBE, CUBE, CUBE, MATRIX])
SPECTRUM = types.Tuple([VECTOR, VECTOR, CUBE, REAL, REAL, REAL])
NEWTON = types.Tuple([MATRIX, INTS, MATRIX, MATRIX])
TOLERANCES = types.UniTuple(REAL, 7)
BLOCKS = types.Tuple([CUBE, CUBE])
ITERATE = INT(*FIRST[:4], PACED, SPECTRUM, FROZEN, NEWTON, TOLERANCES, REAL, REAL, INT, MATRIX, BLOCKS, VECTOR, INTS)
SIGNATURE = INT(
    types.FunctionType(ITERATE), *FIRST, PACED, SPECTRUM, FROZEN, NEWTON, TOLERANCES, VECTOR, BOOL, INT, MATRIX, MATRIX,
    BLOCKS, VECTOR, MATRIX, INTS,
)  # fmt: skip

NEW_JACOBIAN = 3  # comes back for one, beside VANISHED, PLAIN, LOOK
MOST, ITERATIONS = 5, 4  # order, of Newton's method
SMALLEST, LARGEST, SAFETY = 0.2, 10.0, 0.9
STALE = 0.2  # relative change of a factor on the rates at which a new Jacobian is cheaper than more iterations
KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
GAMMA = np.array([0.0, *np.cumsum(1 / np.arange(1, MOST + 1))])
ALPHA = (1 - KAPPA) * GAMMA
ERROR = KAPPA * GAMMA + 1 / np.arange(1, MOST + 2)
TILE = 512  # numbers of a row of differences that are changed at once, so that they stay in the nearest memory
T, H, ACCOUNT, BEFORE, SHARE, TRIED, END, C, BOUND, EDGE, U, U_V = range(12)  # of ``clock``
OUTPUT, RECORDED, EVALUATIONS, ORDER, EQUAL, FACTORISED, ASKED, FACTORISATIONS = range(8)  # of ``place``
Y, OLD, NEW, D0, PSI, SCALE, F, X, SHARES = range(9)  # of the rows of ``rows``


@jit
def change_of_step(order, factor, R):
    """Fill R (order + 1, order + 1): the differences at a step ``factor`` times as long are R D."""
    first, second = np.ones((order + 1, order + 1)), np.ones((order + 1, order + 1))
    for i in range(1, order + 1):
        first[i, 0] = second[i, 0] = 0.0
        for j in range(1, order + 1):
            first[i, j] = first[i - 1, j] * (i - 1 - factor * j) / i
            second[i, j] = second[i - 1, j] * (i - 1 - j) / i
    for i in range(order + 1):
        for j in range(order + 1):
            R[j, i] = 0.0
            for k in range(order + 1):
                R[j, i] += first[i, k] * second[k, j]


@jit(fast=True)
def rescale(D, order, factor):
    """Change the differences D to a step ``factor`` times as long; the first of them is y."""
    R, kept = np.empty((order + 1, order + 1)), np.empty((order + 1, TILE))
    change_of_step(order, factor, R)
    whole, at = kept.reshape(kept.size), np.empty(order + 1, np.int64)
    for first in range(0, D.shape[1], TILE):
        size = min(TILE, D.shape[1] - first)
        for i in range(order + 1):
            at[i] = i * TILE
            copy(D[i, first : first + size], kept[i, :size])
        for i in range(order + 1):
            row = D[i, first : first + size]
            clear(row)
            mix(R[i], whole, at, row)


@jit(fast=True)
def predict(D, order, atol, rtol, rows):
    """Fill the prediction for the end of a step, psi, and one over the tolerances."""
    n, whole = D.shape[1], D.reshape(D.size)
    each, along, at = np.empty(order + 1), np.empty(order + 1), np.empty(order + 1, np.int64)
    for i in range(order + 1):
        each[i], along[i] = 1.0, GAMMA[i] / ALPHA[order]
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        for i in range(order + 1):
            at[i] = i * n + first
        new, psi, scale = rows[NEW, first:last], rows[PSI, first:last], rows[SCALE, first:last]
        share = rows[SHARES, first:last]
        clear(new)
        clear(psi)
        mix(each, whole, at, new)
        mix(along, whole, at, psi)
        for l in range(last - first):
            scale[l] = 1.0 / (atol * share[l] + rtol * abs(new[l]))


@jit(fast=True, bare=True)
def norm(x, scale):
    """Root mean square of x, times ``scale`` entry by entry."""
    result = 0.0
    for l in range(x.size):
        result += (x[l] * scale[l]) * (x[l] * scale[l])
    return sqrt(result / x.size)


@jit(fast=True, bare=True)
def negligible(x, y, share, atol, rtol, least):
    """Whether all |x| <= max(atol + rtol |y|, least), with atol and least in units of ``share``; False for nan."""
    for first in range(0, x.size, TILE):  # without an exit inside, so that a tile becomes vector instructions
        beyond = 0
        for l in range(first, min(first + TILE, x.size)):
            bound, floor = atol * share[l] + rtol * abs(y[l]), least * share[l]
            beyond += 0 if abs(x[l]) <= (bound if bound > floor else floor) else 1
        if beyond > 0:
            return False
    return True


@jit
def newton_iteration(flow, closure, constants, work, pace, spectrum, frozen, newton, tolerances, rtol, atol, order,
                     rows, blocks, clock, place):  # fmt: skip
    """Solve d = c f(y + d) - psi from the prediction y; the number of iterations, negative if it did not converge."""
    tolerance, rounding = tolerances[4:6]
    t_new, n, before = clock[END], rows.shape[1], 0.0
    c = (t_new - clock[T]) / ALPHA[order]
    new, d, psi, scale, b, x = rows[NEW], rows[D0], rows[PSI], rows[SCALE], rows[F], rows[X]
    y, share = rows[Y], rows[SHARES]
    clear(d)
    for l in range(n):
        x[l] = y[l] / share[l]
    rounded = rounding * largest(x)
    for k in range(ITERATIONS):
        velocity(flow, closure, constants, pace, work, min(t_new, clock[EDGE]), new, b)
        place[EVALUATIONS] += 1
        bad = 0.0
        for l in range(n):
            bad += 0.0 * b[l]
            b[l] = c * b[l] - psi[l] - d[l]
        if bad != 0.0:
            return -(k + 1)
        correct(frozen, spectrum, clock[C], newton, b, blocks[0], blocks[1], x)
        # what is rounding has no rate of convergence; the first correction, of which the error estimate is made, counts
        least = rounded if clock[TRIED] == t_new else 0.0
        clock[TRIED] = t_new
        if negligible(x, y, share, 0.1 * tolerance * atol, 0.1 * tolerance * rtol, least):
            return k + 1
        size = norm(x, scale)
        rate = size / before if k > 0 else 0.0
        if k > 0 and (rate >= 1.0 or rate ** (ITERATIONS - k) / (1.0 - rate) * size > tolerance):
            return -(k + 1)
        for l in range(n):
            new[l] += x[l]
            d[l] += x[l]
        if k > 0 and rate / (1.0 - rate) * size < tolerance:
            return k + 1
        before = size
    return -ITERATIONS


@jit(bare=True)
def interpolate(D, order, t, h, at, y):
    """Fill y with the polynomial through the last order + 1 steps at the time ``at``."""
    copy(D[0], y)
    p = 1.0
    for i in range(order):
        p *= (at - (t - h * i)) / (h * (1 + i))
        for l in range(y.size):
            y[l] += p * D[i + 1, l]


@jit(bare=True)
def next_order(D, order, error, scale):
    """(change of the order, factor on the step size) after order + 1 equal steps."""
    change, best = 0, error ** (-1.0 / (order + 1)) if error > 0.0 else inf
    if order > 1:
        size = abs(ERROR[order - 1]) * norm(D[order], scale)
        lower = size ** (-1.0 / order) if size > 0.0 else inf
        if lower >= best:
            change, best = -1, lower
    if order < MOST:
        size = abs(ERROR[order + 1]) * norm(D[order + 2], scale)
        higher = size ** (-1.0 / (order + 2)) if size > 0.0 else inf
        if higher > best:
            change, best = 1, higher
    return change, best


@jit(bare=True)
def stale(pace, clock):
    """Whether the rates have moved away from those of the last Jacobian, clock[U] and clock[U_V], by a share STALE."""
    channels, codes, edges, data = pace[:4]
    if channels.size == 0:
        return False
    now, u, u_v = pace[7][0], clock[U], clock[U_V]
    factors(min(clock[T], clock[EDGE]), channels, codes, edges, data, now)
    return abs(now[0] - u) > STALE * u or abs(now[1] - u_v) > STALE * u_v


@jit(fast=True, bare=True)
def march(iterate, flow, closure, constants, work, control, pace, spectrum, frozen, newton, tolerances, times,
          every_step, budget, rows, D, blocks, clock, out, place):  # fmt: skip
    """Step until ``budget`` evaluations are spent or the last step is worth a look; or steps vanish.

    ``iterate`` is ``newton_iteration``.  NEW_JACOBIAN asks for one at (clock[END], rows[NEW]), in the middle of a step,
    or before one under a schedule.  Steps end at clock[BOUND], a knot or the end; clock[EDGE] is the last time whose
    rates they may see.  ``clock`` and ``place`` are kept between calls, ``pace`` is that of ``velocity``.
    ``control`` is that of DOP853, ``tolerances`` = (rtol, atol per step, least factor on both, least atol, that of
    Newton's iteration, rounding of its solution, level of eps_g below which steps are smaller).
    """
    K, teacher, eta, eta_v, noise, s, p, tau, decay, decay_v, second_order, trains_v, drift, gradient = constants
    base_rtol, base_atol, least_factor, least_atol, _, _, sensitive = tolerances
    max_step = control[2]
    n, finish, bound = rows.shape[1], place[EVALUATIONS] + budget, clock[BOUND]
    y, new, d, scale, share = rows[Y], rows[NEW], rows[D0], rows[SCALE], rows[SHARES]
    eps_g = close(closure, constants, work, 1.0, y)
    near = notable(constants, work, control, y, eps_g)[1]
    while True:
        t, h, order = clock[T], clock[H], place[ORDER]
        least = 10 * (np.nextafter(t, inf) - t)
        factor = max(tightening(eps_g, work[0], work[2], work[3], gradient, sensitive), least_factor)
        rtol, atol = factor * base_rtol, max(factor * base_atol, least_atol)
        current, again = place[ASKED] == 1, place[ASKED] == 1
        place[ASKED] = 0
        if not current and stale(pace, clock):
            clock[END], clock[H], place[FACTORISED] = t, h, 0
            copy(y, new)
            return NEW_JACOBIAN
        if not current and (h > max_step or h < least):
            allowed = max_step if h > max_step else least
            rescale(D, order, allowed / h)
            h, place[EQUAL] = allowed, 0
        while True:
            if not (h >= least or again):  # nan, too, from velocities that overflow
                return VANISHED
            if not again:
                clock[END] = t + h
                if clock[END] > bound:
                    clock[END] = bound
                    rescale(D, order, (bound - t) / h)
                    place[EQUAL] = place[FACTORISED] = 0
            again = False
            h = clock[END] - t
            predict(D, order, atol, rtol, rows)
            if place[FACTORISED] == 0:
                clock[C] = h / ALPHA[order]
                factorise(frozen, spectrum, clock[C], newton)
                place[FACTORISED] = 1
                place[FACTORISATIONS] += 1
            iterations = iterate(
                flow, closure, constants, work, pace, spectrum, frozen, newton, tolerances, rtol, atol, order, rows,
                blocks, clock, place,
            )  # fmt: skip
            if iterations < 0:
                place[FACTORISED] = 0
                if not current:
                    clock[H], place[ASKED] = h, 1
                    predict(D, order, atol, rtol, rows)
                    return NEW_JACOBIAN
                h *= 0.5
                rescale(D, order, 0.5)
                place[EQUAL] = 0
                continue
            safety = SAFETY * (2 * ITERATIONS + 1) / (2 * ITERATIONS + iterations)
            for l in range(n):
                scale[l] = 1.0 / (atol * share[l] + rtol * abs(new[l]))
            error = abs(ERROR[order]) * norm(d, scale)
            if not error > 1.0:
                break
            factor = max(SMALLEST, safety * error ** (-1.0 / (order + 1)))
            h *= factor
            rescale(D, order, factor)
            place[EQUAL] = 0
        place[EQUAL] += 1
        copy(y, rows[OLD])
        copy(new, y)
        clock[BEFORE], clock[T], clock[H] = t, clock[END], h
        for l in range(n):
            D[order + 2, l] = d[l] - D[order + 1, l]
            D[order + 1, l] = d[l]
        for i in range(order, -1, -1):
            for l in range(n):
                D[i, l] += D[i + 1, l]
        eps_g = close(closure, constants, work, 1.0, y)
        if place[EQUAL] > order:
            change, factor = next_order(D, order, error, scale)
            order += change
            factor = min(LARGEST, safety * factor)
            place[ORDER], clock[H] = order, h * factor
            rescale(D, order, factor)
            place[EQUAL] = place[FACTORISED] = 0
        else:
            # a change of step or order rescales D: the last share is taken again
            left = abs(ERROR[order] * change_of_eps_g(constants, work, d))
            clock[SHARE] = left / max(eps_g, least_atol)
        clock[ACCOUNT] += clock[SHARE]
        was = near
        unusual, near = notable(constants, work, control, y, eps_g)
        later, due = clock[T], place[OUTPUT]
        while due < times.size and times[due] <= later:
            due += 1
        on_time = due > 0 and times[due - 1] == later
        needed = due - place[OUTPUT] + (every_step and not on_time)
        pause = later >= bound or place[EVALUATIONS] >= finish or place[RECORDED] + needed > len(out)
        if pause or unusual or was or near:
            place[OUTPUT] = due
            return LOOK if unusual or was or near else PLAIN
        for at in range(place[OUTPUT], due + (every_step and not on_time)):
            time = times[at] if at < due else later
            row = out[place[RECORDED]]
            if time == later:
                copy(y, row[:n])
            else:
                interpolate(D, order, later, clock[H], time, row[:n])
            row[n], row[n + 1] = clock[ACCOUNT], time
            place[RECORDED] += 1
        place[OUTPUT] = due
