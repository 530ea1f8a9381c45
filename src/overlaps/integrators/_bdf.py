"""Steps of the structured BDF in one compiled function, until something is worth a look from Python.

The method is SciPy's BDF: the differentiation formulas (NDF) of Shampine and Reichelt (1997), order 1 to 5, on steps
that stay equal for a while.  A run keeps the backward differences D^j y of the last steps, D^0 y = y.  A step of order
k and length h predicts the sum of D^0 y to D^k y and solves

    d = c f(t + h, prediction + d) - psi,    c = h / ALPHA[k],    psi = sum_(j = 1..k) GAMMA[j] D^j y / ALPHA[k]

for the correction d.  This d is D^(k + 1) at the new time, and ERROR[k] d estimates the error of the step.  After k + 1
equal steps, orders k - 1, k, k + 1 are compared by the length that each would allow.  Another length means other
differences: ``rescale`` reads the same polynomial at other points.

Newton's iteration solves for d with 1 - c J.  The Jacobian J serves many steps, and 1 - c J, factorised, serves while c
stays what it was.  Where four iterations do not converge, the march asks Python for a new J and tries the same step
again; where they do not with a new J, it halves the step.  Tolerances fall with eps_g, see ``Tolerances``.

Python (``burst.Backward``) makes and keeps all arrays.  A march changes ``Steps`` and ``equations.newton``.

``rows``: Y, the packed overlaps after the last accepted step; OLD, before it; NEW, the prediction, which becomes the
end of the step; D0, the correction d; PSI; SCALE, one over the tolerance of each entry; F, the velocity, then what is
left of the equation; X, the last correction of Newton's; SHARES, the part of atol for each entry, which Python sets.
``clock``, behind the slots of ``_steps``: SHARE, the error of eps_g that the last step left; TRIED, the end of the step
whose first Newton correction is known; END, the end of the step that is tried; C, the c of the factorised matrix.
Python sets, before each call: BOUND, a knot of a schedule or the end, where steps must end; EDGE, the last time whose
rates they may see; U and U_V, the factors on eta and eta_v that J was made with.
``place``, behind the entries of ``_steps``: ORDER; EQUAL, steps since length or order changed; FACTORISED, 1 while
``equations.newton`` belongs to the present J, and to a c close enough; ASKED, 1 while a Jacobian for the step that is
tried is on its way; FACTORISATIONS so far.

Python is asked for what it is asked for by all compiled steps (``_steps``), at BOUND, and for NEW_JACOBIAN: a few times
in a run, because Newton's iteration failed, or a schedule has moved the rates (STALE).
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..flow import clear, copy, correct, factorise, mix, tightening
from ..flow.jacobian import Equations
from ..flow.velocity import SYSTEM, change_of_eps_g, close, difference_of_eps_g, velocity
from ..models import factors
from ._steps import ACCOUNT, BEFORE, LOOK, OUTPUT, PLAIN, RECORDED, SPENT, VANISHED, Control, H, T, largest, needs_check

NEW_JACOBIAN, ACCEPTED = 3, 4  # how a trial ends, beside VANISHED; a march returns the first of them
# The order: above 5 these formulas are unstable.  Newton's iterations: a fifth gains less than a shorter step.
MOST, ITERATIONS = 5, 4
# Factors on the length of a step, as in SciPy: no step shrinks or grows more at once; SAFETY makes rejections rare.
SMALLEST, LARGEST, SAFETY = 0.2, 10.0, 0.9
# Relative change of a factor on the rates.  Below, the old Jacobian costs some iterations; above, a new one is cheaper.
STALE = 0.2
# The formulas: KAPPA turns BDF into NDF, which have smaller errors at order 1 to 4 for some of the stability.
KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
GAMMA = np.array([0.0, *np.cumsum(1 / np.arange(1, MOST + 1))])
ALPHA = (1 - KAPPA) * GAMMA
ERROR = KAPPA * GAMMA + 1 / np.arange(1, MOST + 2)
# Numbers of a row that are changed at once: above some thousand the rows of D leave the nearest memory between uses,
# below a hundred the loops are too short to become vector instructions.
TILE = 512
SHARE, TRIED, END, C, BOUND, EDGE, U, U_V = range(4, 12)  # of ``clock``
ORDER, EQUAL, FACTORISED, ASKED, FACTORISATIONS = range(3, 8)  # of ``place``
Y, OLD, NEW, D0, PSI, SCALE, F, X, SHARES = range(9)  # of the rows of ``rows``


@typed_namedtuple
class Tolerances(NamedTuple):
    """Measure of errors; the tolerances of a step follow eps_g between the first two and the least ones."""

    rtol: REAL
    atol: REAL
    least_factor: REAL  # on both, however small eps_g is
    least_atol: REAL
    newton: REAL  # of Newton's iteration, in units of the tolerance of a step
    rounding: REAL  # of its solution, relative to the largest overlap
    sensitive: REAL  # level of eps_g, in units of its gradient times the overlaps, below which steps are smaller


@typed_namedtuple
class Steps(NamedTuple):
    """The arrays of a run that a march changes."""

    rows: MATRIX  # (9, n): see the top
    D: MATRIX  # (8, n): differences of the packed overlaps at equal steps; D[0] is y
    real_state: VECTOR
    int_state: INTS
    out: MATRIX  # records


ITERATE = INT(*SYSTEM, Equations.type, Tolerances.type, REAL, REAL, Steps.type)
SIGNATURE = INT(
    types.FunctionType(ITERATE), *SYSTEM, Control.type, Equations.type, Tolerances.type, VECTOR, BOOL, INT, Steps.type
)


@jit
def change_of_step(order, factor, R):
    """Fill R (order + 1, order + 1): the differences at a step ``factor`` times as long are R D.

    The polynomial through the last points is the same; the products of ``first`` are its values at the new points, in
    the basis of the old differences, and columns of ``second`` turn values into differences again (Shampine and
    Reichelt 1997, section 2.2).
    """
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
    """Change the differences D to a step ``factor`` times as long; the first of them is y and stays.

    Tile by tile: a tile of all rows is copied and mixed while it lies in the nearest memory.
    """
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
    """Fill the prediction NEW for the end of a step, PSI, and SCALE, one over the tolerances at the prediction."""
    n, whole = D.shape[1], D.reshape(D.size)
    each, weights, at = np.empty(order + 1), np.empty(order + 1), np.empty(order + 1, np.int64)
    for i in range(order + 1):
        each[i], weights[i] = 1.0, GAMMA[i] / ALPHA[order]
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        for i in range(order + 1):
            at[i] = i * n + first
        new, psi, scale = rows[NEW, first:last], rows[PSI, first:last], rows[SCALE, first:last]
        share = rows[SHARES, first:last]
        clear(new)
        clear(psi)
        mix(each, whole, at, new)
        mix(weights, whole, at, psi)
        for l in range(last - first):
            scale[l] = 1.0 / (atol * share[l] + rtol * abs(new[l]))


@jit(fast=True, no_reference_counting=True)
def norm(x, scale):
    """Root mean square of x, times ``scale`` entry by entry: an error or a correction in units of the tolerance."""
    result = 0.0
    for l in range(x.size):
        result += (x[l] * scale[l]) * (x[l] * scale[l])
    return sqrt(result / x.size)


@jit(fast=True, no_reference_counting=True)
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
def newton_iteration(flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps):
    """Solve d = c f(y + d) - psi from the prediction y; the number of iterations, negative if it did not converge.

    NEW and D0 are left at the solution.  A correction far below the tolerance, or at rounding level, ends the iteration
    as converged.  The rate of two corrections foretells how many more it takes: where these are too many, or where the
    velocity is not finite, it ends as failed at once.
    """
    rows, real_state = steps.rows, steps.real_state
    tolerance, t_new, n, before = tolerances.newton, real_state[END], rows.shape[1], 0.0
    c = (t_new - real_state[T]) / ALPHA[steps.int_state[ORDER]]
    new, d, psi, scale, b, x = rows[NEW], rows[D0], rows[PSI], rows[SCALE], rows[F], rows[X]
    y, share = rows[Y], rows[SHARES]
    clear(d)
    for l in range(n):
        x[l] = y[l] / share[l]
    rounded = tolerances.rounding * largest(x)
    for k in range(ITERATIONS):
        velocity(flow, closure, constants, schedule, work, min(t_new, real_state[EDGE]), new, b)
        steps.int_state[SPENT] += 1
        bad = 0.0
        for l in range(n):
            # 0 for finite numbers, nan else: a test without a branch, so that the loop stays vector instructions
            bad += 0.0 * b[l]
            b[l] = c * b[l] - psi[l] - d[l]
        if bad != 0.0:
            return -(k + 1)
        correct(equations, real_state[C], b, x)
        # Ignore corrections at rounding level, except the first one: the error estimate uses it.
        least = rounded if real_state[TRIED] == t_new else 0.0
        real_state[TRIED] = t_new
        if negligible(x, y, share, 0.1 * tolerance * atol, 0.1 * tolerance * rtol, least):
            return k + 1
        size = norm(x, scale)
        rate = size / before if k > 0 else 0.0
        # a geometric series: the corrections to come add up to rate^(left) / (1 - rate) of this one
        if k > 0 and (rate >= 1.0 or rate ** (ITERATIONS - k) / (1.0 - rate) * size > tolerance):
            return -(k + 1)
        for l in range(n):
            new[l] += x[l]
            d[l] += x[l]
        if k > 0 and rate / (1.0 - rate) * size < tolerance:
            return k + 1
        before = size
    return -ITERATIONS


@jit(no_reference_counting=True)
def interpolate(D, order, t, h, at, y):
    """Fill y with the polynomial through the last order + 1 steps at the time ``at``, by Newton's form in D."""
    copy(D[0], y)
    p = 1.0
    for i in range(order):
        p *= (at - (t - h * i)) / (h * (1 + i))
        for l in range(y.size):
            y[l] += p * D[i + 1, l]


@jit(no_reference_counting=True)
def next_order(D, order, error, scale):
    """(change of the order, factor on the step size) after order + 1 equal steps.

    The error of the order below is in D^k, of the one above in D^(k + 2); a step may grow by error^(-1 / (order + 1)).
    """
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


@jit(no_reference_counting=True)
def stale(schedule, real_state):
    """Whether the rates differ from the last Jacobian's, clock[U] and clock[U_V], by a share STALE."""
    pieces, now, u, u_v = schedule.pieces, schedule.factors, real_state[U], real_state[U_V]
    if pieces.channels.size == 0:
        return False
    factors(min(real_state[T], real_state[EDGE]), pieces.channels, pieces.codes, pieces.edges, pieces.data, now)
    return abs(now[0] - u) > STALE * u or abs(now[1] - u_v) > STALE * u_v


@jit(no_reference_counting=True)
def change_step(steps, factor):
    """Go on with steps ``factor`` times as long.

    The count of equal steps begins anew: the order is compared only where the differences belong to one length.
    """
    rescale(steps.D, steps.int_state[ORDER], factor)
    steps.int_state[EQUAL] = 0


@jit(fast=True, no_reference_counting=True)
def attempt(iterate, flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps):
    """Try steps until the error of one is acceptable; return (how it ended, that error, the safety factor).

    A step whose Newton iteration fails asks for a new Jacobian once, by ``place[ASKED]``, and is then tried again as it
    was; with that Jacobian it becomes shorter.  A step whose error is too large becomes shorter by what the error says;
    the factorised matrix stays, as c changes little.
    """
    rows, D, real_state, int_state = steps.rows, steps.D, steps.real_state, steps.int_state
    t, h, order, bound = real_state[T], real_state[H], int_state[ORDER], real_state[BOUND]
    new, d, scale, share = rows[NEW], rows[D0], rows[SCALE], rows[SHARES]
    least = 10 * (np.nextafter(t, inf) - t)
    current = again = int_state[ASKED] == 1
    int_state[ASKED] = 0
    while True:
        # a step may be tried again at the same length with a new Jacobian, even where it is the least
        if not (h >= least or again):  # nan, too, from velocities that overflow
            return VANISHED, 0.0, 0.0
        if not again:
            real_state[END] = t + h
            if real_state[END] > bound:
                real_state[END] = bound
                # landing on a knot: no formula may use values from behind it
                change_step(steps, (bound - t) / h)
                int_state[FACTORISED] = 0
        again = False
        h = real_state[END] - t
        predict(D, order, atol, rtol, rows)
        if int_state[FACTORISED] == 0:
            real_state[C] = h / ALPHA[order]
            factorise(equations, real_state[C])
            int_state[FACTORISED] = 1
            int_state[FACTORISATIONS] += 1
        iterations = iterate(flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps)
        if iterations < 0:
            int_state[FACTORISED] = 0
            # the old Jacobian may be at fault: ask for one here before the step is made shorter
            if not current:
                real_state[H], int_state[ASKED] = h, 1
                predict(D, order, atol, rtol, rows)
                return NEW_JACOBIAN, 0.0, 0.0
            h *= 0.5
            change_step(steps, 0.5)
            continue
        # a solution that took many iterations will take more at a longer step: grow less
        safety = SAFETY * (2 * ITERATIONS + 1) / (2 * ITERATIONS + iterations)
        for l in range(new.size):
            scale[l] = 1.0 / (atol * share[l] + rtol * abs(new[l]))
        error = abs(ERROR[order]) * norm(d, scale)
        if not error > 1.0:
            real_state[H] = h
            return ACCEPTED, error, safety
        # the factorised matrix is kept although c changes: Newton converges with a c of the same size
        factor = max(SMALLEST, safety * error ** (-1.0 / (order + 1)))
        h *= factor
        change_step(steps, factor)


@jit(fast=True, no_reference_counting=True)
def accept(steps):
    """Take the step that was tried: y, its differences, and the time.

    D^(k + 1) is d, D^(k + 2) what d gained on the one before; lower differences are running sums from the top.
    """
    rows, D, real_state, order = steps.rows, steps.D, steps.real_state, steps.int_state[ORDER]
    y, d = rows[Y], rows[D0]
    steps.int_state[EQUAL] += 1
    copy(y, rows[OLD])
    copy(rows[NEW], y)
    real_state[BEFORE], real_state[T] = real_state[T], real_state[END]
    for l in range(y.size):
        D[order + 2, l] = d[l] - D[order + 1, l]
        D[order + 1, l] = d[l]
    for i in range(order, -1, -1):
        for l in range(y.size):
            D[i, l] += D[i + 1, l]


@jit(no_reference_counting=True)
def record(times, every_step, pause, steps):
    """Record the output times up to the last step's, and this one; False, and nothing, at a pause or for room."""
    y, real_state, int_state, out = steps.rows[Y], steps.real_state, steps.int_state, steps.out
    n, later, due = y.size, real_state[T], int_state[OUTPUT]
    while due < times.size and times[due] <= later:
        due += 1
    rows = due + every_step  # with every step recorded an output time that is a step's end is a bound: a pause
    if pause or int_state[RECORDED] + rows - int_state[OUTPUT] > len(out):
        int_state[OUTPUT] = due
        return False
    for at in range(int_state[OUTPUT], rows):
        time = times[at] if at < due else later
        row = out[int_state[RECORDED]]
        if time == later:
            copy(y, row[:n])
        else:
            interpolate(steps.D, int_state[ORDER], later, real_state[H], time, row[:n])
        row[n], row[n + 1] = real_state[ACCOUNT], time
        int_state[RECORDED] += 1
    int_state[OUTPUT] = due
    return True


@jit(fast=True, no_reference_counting=True)
def advance(iterate, flow, closure, constants, schedule, work, control, equations, tolerances, times, every_step,
budget,
          steps):  # fmt: skip
    """Step until ``budget`` evaluations are spent or the last step is worth a look; or steps vanish.

    ``iterate`` is ``newton_iteration``.  NEW_JACOBIAN asks for one at (clock[END], rows[NEW]), in the middle of a step,
    or before one under a schedule.  Output times are interpolated: landing on them would force the run to small steps.
    The account of eps_g takes ERROR[k] d through the gradient of eps_g, step by step.
    """
    rows, real_state, int_state = steps.rows, steps.real_state, steps.int_state
    y, d, scale = rows[Y], rows[D0], rows[SCALE]
    finish = int_state[SPENT] + budget
    eps_g = close(closure, constants, work, 1.0, y)
    # whether students are nearly parallel before the first step: leaving that state is worth a look, too
    near = needs_check(constants, work, control, y, eps_g)[1]
    while True:
        rate, size = constants.gradient_rate, constants.error_size
        factor = tightening(eps_g, work.S, work.A, work.B, rate, tolerances.sensitive, size)
        factor = max(factor, tolerances.least_factor)
        rtol, atol = factor * tolerances.rtol, max(factor * tolerances.atol, tolerances.least_atol)
        if int_state[ASKED] == 0:
            t, h = real_state[T], real_state[H]
            if stale(schedule, real_state):
                real_state[END], int_state[FACTORISED] = t, 0
                copy(y, rows[NEW])
                return NEW_JACOBIAN
            least = 10 * (np.nextafter(t, inf) - t)
            if h > control.max_step or h < least:
                real_state[H] = control.max_step if h > control.max_step else least
                change_step(steps, real_state[H] / h)
        ended, error, safety = attempt(
            iterate, flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps
        )
        if ended != ACCEPTED:
            return ended
        accept(steps)
        eps_g, order = close(closure, constants, work, 1.0, y), int_state[ORDER]
        if int_state[EQUAL] > order:
            change, factor = next_order(steps.D, order, error, scale)
            # lengths and orders change together and rarely: between changes differences are simple sums
            int_state[ORDER], factor = order + change, min(LARGEST, safety * factor)
            real_state[H] *= factor
            change_step(steps, factor)
            int_state[FACTORISED] = 0
        else:
            # a change of step or order rescales D: the last share is taken again
            if constants.error_size > 0.0:
                change = difference_of_eps_g(closure, constants, schedule, work, y, eps_g, ERROR[order], d)
            else:
                change = ERROR[order] * change_of_eps_g(constants, work, d)
            real_state[SHARE] = abs(change) / max(eps_g, tolerances.least_atol)
        real_state[ACCOUNT] += real_state[SHARE]
        was = near
        unusual, near = needs_check(constants, work, control, y, eps_g)
        look = unusual or was or near
        pause = look or real_state[T] >= real_state[BOUND] or int_state[SPENT] >= finish
        if not record(times, every_step, pause, steps):
            return LOOK if look else PLAIN
