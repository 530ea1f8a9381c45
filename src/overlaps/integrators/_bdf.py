"""Steps of the structured BDF in one compiled function, until a step needs a check in Python.

The method is SciPy's BDF: the differentiation formulas (NDF) of Shampine and Reichelt (1997), order 1 to 5, on steps
that stay equal for a while.  A run keeps the backward differences D^j y of the last steps, D^0 y = y.  A step of order
k and length h predicts the sum of D^0 y to D^k y and solves

    d = c f(t + h, prediction + d) - psi,    c = h / alpha[k],    psi = sum_(j = 1..k) gamma[j] D^j y / alpha[k]

for the correction d, with the coefficients ``NDF``.  This d is D^(k + 1) at the new time, and error[k] d estimates the
error of the step.
After k + 1 equal steps, orders k - 1, k, k + 1 are compared by the length that each would allow.  Another length needs
other differences: ``rescale`` evaluates the same polynomial at other points.

Newton's iteration solves for d with 1 - c J.  The Jacobian J serves many steps, and 1 - c J, factorised, serves while c
hardly changes.  If four iterations do not converge, ``advance`` returns to Python for a new J and tries the same step
again; if they do not converge with a new J, it halves the step.  Tolerances fall with eps_g, see ``Tolerances``.

Python (``compiled_steps.Backward``) makes all arrays.  ``advance`` changes ``Steps`` and ``equations.newton``.  It
returns to Python for the reasons of all compiled steps (``_steps``), at ``bound``, and for a new Jacobian
(``RETURN.new_jacobian``).  The last happens a few times in a run, because Newton's iteration failed or a schedule has
changed the rates (``stale``).
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, INT, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..flow import clear, copy, correct, factorise, mix, tightening
from ..flow.jacobian import Equations
from ..flow.velocity import SYSTEM, change_of_eps_g, close, difference_of_eps_g, velocity
from ..models import factors
from ._steps import RETURN, Control, largest, needs_check, state_type


class BDFOptions(NamedTuple):
    """Tunable numbers of the steps."""

    max_order: int = 5  # above, these formulas are unstable
    max_iterations: int = 4  # Newton iterations; a fifth gains less than a shorter step
    # Factors on the length of a step, as in SciPy: the least and the largest change at once, and a factor that makes
    # rejections rare.
    min_factor: float = 0.2
    max_factor: float = 10.0
    safety: float = 0.9
    # Relative change of the rates by a schedule above which J is computed anew. Halved: more Jacobians; doubled: more
    # Newton iterations.
    stale_rate: float = 0.2
    # Entries of a row that are changed at once. Above some thousand the rows of D leave the first-level cache between
    # uses; below a hundred the loops are too short for vector instructions.
    tile: int = 512


STATE, STATE_TYPE = state_type(
    {
        "step_error": float,  # error of eps_g that the last step left
        "corrected": float,  # end of the step whose first Newton correction is known
        "t_new": float,  # end of the step that is tried
        "c": float,  # c of the factorised matrix
        # Python sets these four before each call:
        "bound": float,  # a knot of a schedule or the end, where steps must end
        "last_time": float,  # last time at which rates may be evaluated
        "u": float,  # factor on eta in J
        "u_v": float,  # factor on eta_v in J
        "order": int,
        "equal_steps": int,  # steps since length or order changed
        "factorised": int,  # 1 while ``equations.newton`` belongs to the present J, and to a c close enough
        "requested": int,  # 1 while a Jacobian for the step that is tried is requested from Python
        "factorisations": int,  # number of factorisations so far
    }
)


class Row(NamedTuple):
    """Indices of ``rows``."""

    y: int = 0  # packed overlaps after the last accepted step
    y_before: int = 1  # packed overlaps before that step
    y_new: int = 2  # the prediction, which becomes the end of the step
    d: int = 3  # the correction
    psi: int = 4
    scale: int = 5  # one over the tolerance of each entry
    residual: int = 6  # the velocity, then the residual of the equation
    x: int = 7  # the last Newton correction
    fractions: int = 8  # the fraction of atol for each entry, which Python sets


BDF_OPTIONS, ROW = BDFOptions(), Row()


class Formulas(NamedTuple):
    """Coefficients of the formulas, by their order."""

    # It turns BDF into NDF, which have smaller errors at order 1 to 4 for some of the stability.
    kappa: np.ndarray = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
    gamma: np.ndarray = np.array([0.0, *np.cumsum(1 / np.arange(1, BDF_OPTIONS.max_order + 1))])
    alpha: np.ndarray = (1 - kappa) * gamma
    error: np.ndarray = kappa * gamma + 1 / np.arange(1, BDF_OPTIONS.max_order + 2)


NDF = Formulas()


@typed_namedtuple
class Tolerances(NamedTuple):
    """Measure of errors; the tolerances of a step follow eps_g between the first two and the least ones."""

    rtol: REAL
    atol: REAL
    least_factor: REAL  # on both, however small eps_g is
    least_atol: REAL
    newton: REAL  # tolerance of Newton's iteration, in units of the tolerance of a step
    rounding: REAL  # rounding of its solution, relative to the largest overlap
    sensitive: REAL  # level of eps_g, in units of its gradient times the overlaps, below which steps are smaller


@typed_namedtuple
class Steps(NamedTuple):
    """The arrays of a run that ``advance`` changes."""

    rows: MATRIX  # (9, n): see ``ROW``
    D: MATRIX  # (8, n): differences of the packed overlaps at equal steps; D[0] is y
    state: STATE_TYPE  # of one entry
    out: MATRIX  # recorded points


ITERATION_SIGNATURE = INT(*SYSTEM, Equations.type, Tolerances.type, REAL, REAL, Steps.type)
ADVANCE_SIGNATURE = INT(
    types.FunctionType(ITERATION_SIGNATURE), *SYSTEM, Control.type, Equations.type, Tolerances.type, VECTOR, BOOL, INT,
    Steps.type,
)  # fmt: skip


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

    Tile by tile: a tile of all rows is copied and mixed while it lies in the first-level cache.
    """
    R, tile = np.empty((order + 1, order + 1)), np.empty((order + 1, BDF_OPTIONS.tile))
    change_of_step(order, factor, R)
    entries, at = tile.reshape(tile.size), np.empty(order + 1, np.int64)
    for first in range(0, D.shape[1], BDF_OPTIONS.tile):
        size = min(BDF_OPTIONS.tile, D.shape[1] - first)
        for i in range(order + 1):
            at[i] = i * BDF_OPTIONS.tile
            copy(D[i, first : first + size], tile[i, :size])
        for i in range(order + 1):
            row = D[i, first : first + size]
            clear(row)
            mix(R[i], entries, at, row)


@jit(fast=True)
def predict(D, order, atol, rtol, rows):
    """Fill the prediction for the end of a step, psi, and one over the tolerances at the prediction."""
    n, entries = D.shape[1], D.reshape(D.size)
    ones, weights, at = np.empty(order + 1), np.empty(order + 1), np.empty(order + 1, np.int64)
    for i in range(order + 1):
        ones[i], weights[i] = 1.0, NDF.gamma[i] / NDF.alpha[order]
    for first in range(0, n, BDF_OPTIONS.tile):
        last = min(first + BDF_OPTIONS.tile, n)
        for i in range(order + 1):
            at[i] = i * n + first
        new, psi, scale = rows[ROW.y_new, first:last], rows[ROW.psi, first:last], rows[ROW.scale, first:last]
        fraction = rows[ROW.fractions, first:last]
        clear(new)
        clear(psi)
        mix(ones, entries, at, new)
        mix(weights, entries, at, psi)
        for l in range(last - first):
            scale[l] = 1.0 / (atol * fraction[l] + rtol * abs(new[l]))


@jit(fast=True, no_reference_counting=True)
def norm(x, scale):
    """Root mean square of x, times ``scale`` entry by entry: an error or a correction in units of the tolerance."""
    result = 0.0
    for l in range(x.size):
        result += (x[l] * scale[l]) * (x[l] * scale[l])
    return sqrt(result / x.size)


@jit(fast=True, no_reference_counting=True)
def negligible(x, y, fraction, atol, rtol, least):
    """Whether all |x| <= max(atol + rtol |y|, least), with atol and least in units of ``fraction``; False for nan."""
    # no exit inside a tile, so that it becomes vector instructions
    for first in range(0, x.size, BDF_OPTIONS.tile):
        n_larger = 0
        for l in range(first, min(first + BDF_OPTIONS.tile, x.size)):
            bound, smallest = atol * fraction[l] + rtol * abs(y[l]), least * fraction[l]
            n_larger += 0 if abs(x[l]) <= (bound if bound > smallest else smallest) else 1
        if n_larger > 0:
            return False
    return True


@jit
def newton_iteration(flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps):
    """Solve d = c f(y + d) - psi from the prediction y; the number of iterations, negative if it did not converge.

    ``y_new`` and ``d`` of ``ROW`` are left at the solution.  A correction far below the tolerance, or at rounding
    level, ends the iteration as converged.  The ratio of two corrections predicts how many more are needed: if these
    are too many, or if the velocity is not finite, the iteration fails at once.
    """
    rows, state = steps.rows, steps.state[0]
    tolerance, t_new, n, size_before = tolerances.newton, state.t_new, rows.shape[1], 0.0
    c = (t_new - state.t) / NDF.alpha[steps.state[0].order]
    new, d, psi, scale = rows[ROW.y_new], rows[ROW.d], rows[ROW.psi], rows[ROW.scale]
    b, x, y, fraction = rows[ROW.residual], rows[ROW.x], rows[ROW.y], rows[ROW.fractions]
    clear(d)
    for l in range(n):
        x[l] = y[l] / fraction[l]
    rounding = tolerances.rounding * largest(x)
    for k in range(BDF_OPTIONS.max_iterations):
        velocity(flow, closure, constants, schedule, work, min(t_new, state.last_time), new, b)
        steps.state[0].evaluations += 1
        bad = 0.0
        for l in range(n):
            # 0 for finite numbers, nan otherwise: a test without a branch, so that the loop stays vector instructions
            bad += 0.0 * b[l]
            b[l] = c * b[l] - psi[l] - d[l]
        if bad != 0.0:
            return -(k + 1)
        correct(equations, state.c, b, x)
        # Ignore corrections at rounding level, except the first one: the error estimate uses it.
        least = rounding if state.corrected == t_new else 0.0
        state.corrected = t_new
        if negligible(x, y, fraction, 0.1 * tolerance * atol, 0.1 * tolerance * rtol, least):
            return k + 1
        size = norm(x, scale)
        rate = size / size_before if k > 0 else 0.0
        # geometric series: the remaining corrections add up to rate^(number left) / (1 - rate) of this one
        if k > 0 and (rate >= 1.0 or rate ** (BDF_OPTIONS.max_iterations - k) / (1.0 - rate) * size > tolerance):
            return -(k + 1)
        for l in range(n):
            new[l] += x[l]
            d[l] += x[l]
        if k > 0 and rate / (1.0 - rate) * size < tolerance:
            return k + 1
        size_before = size
    return -BDF_OPTIONS.max_iterations


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
        size = abs(NDF.error[order - 1]) * norm(D[order], scale)
        lower = size ** (-1.0 / order) if size > 0.0 else inf
        if lower >= best:
            change, best = -1, lower
    if order < BDF_OPTIONS.max_order:
        size = abs(NDF.error[order + 1]) * norm(D[order + 2], scale)
        higher = size ** (-1.0 / (order + 2)) if size > 0.0 else inf
        if higher > best:
            change, best = 1, higher
    return change, best


@jit(no_reference_counting=True)
def stale(schedule, state):
    """Whether the rates differ from those in the last Jacobian by a fraction ``stale_rate``."""
    pieces, now, u, u_v = schedule.pieces, schedule.factors, state.u, state.u_v
    if pieces.channels.size == 0:
        return False
    t = min(state.t, state.last_time)
    factors(t, pieces.channels, pieces.codes, pieces.edges, pieces.data, now)
    return abs(now[0] - u) > BDF_OPTIONS.stale_rate * u or abs(now[1] - u_v) > BDF_OPTIONS.stale_rate * u_v


@jit(no_reference_counting=True)
def change_step(steps, factor):
    """Continue with steps ``factor`` times as long.

    The count of equal steps restarts, because orders are compared only if the differences belong to one length.
    """
    rescale(steps.D, steps.state[0].order, factor)
    steps.state[0].equal_steps = 0


@jit(fast=True, no_reference_counting=True)
def attempt(iterate, flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps):
    """Try steps until the error of one is acceptable; return (a ``RETURN`` code, that error, the safety factor).

    If its Newton iteration fails, a step requests a new Jacobian once (``requested``) and is then tried again
    at the same length; if it fails with that Jacobian, it becomes shorter.  If its error is too large, a step becomes
    shorter by a factor that follows from the error; the factorised matrix stays, because c changes little.
    """
    rows, D, state = steps.rows, steps.D, steps.state[0]
    t, h, bound = state.t, state.h, state.bound
    order = state.order
    new, d, scale, fraction = rows[ROW.y_new], rows[ROW.d], rows[ROW.scale], rows[ROW.fractions]
    least = 10 * (np.nextafter(t, inf) - t)
    new_jacobian = again = state.requested == 1
    state.requested = 0
    while True:
        # a step may be tried again at the same length with a new Jacobian, even if it is below the least length
        if not (h >= least or again):  # also true for nan, from velocities that overflow
            return RETURN.step_too_small, 0.0, 0.0
        if not again:
            state.t_new = t + h
            if state.t_new > bound:
                state.t_new = bound
                # land on the knot, because no formula may use values from behind it
                change_step(steps, (bound - t) / h)
                state.factorised = 0
        again = False
        h = state.t_new - t
        predict(D, order, atol, rtol, rows)
        if state.factorised == 0:
            state.c = h / NDF.alpha[order]
            factorise(equations, state.c)
            state.factorised = 1
            state.factorisations += 1
        iterations = iterate(flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps)
        if iterations < 0:
            state.factorised = 0
            # the old Jacobian may be the cause: request one here before the step is made shorter
            if not new_jacobian:
                state.h, state.requested = h, 1
                predict(D, order, atol, rtol, rows)
                return RETURN.new_jacobian, 0.0, 0.0
            h *= 0.5
            change_step(steps, 0.5)
            continue
        # grow less after many iterations, because a longer step needs more of them
        limit = BDF_OPTIONS.max_iterations
        safety = BDF_OPTIONS.safety * (2 * limit + 1) / (2 * limit + iterations)
        for l in range(new.size):
            scale[l] = 1.0 / (atol * fraction[l] + rtol * abs(new[l]))
        error = abs(NDF.error[order]) * norm(d, scale)
        if not error > 1.0:
            state.h = h
            return RETURN.step_accepted, error, safety
        # the factorised matrix stays although c changes: Newton converges with a c of the same size
        factor = max(BDF_OPTIONS.min_factor, safety * error ** (-1.0 / (order + 1)))
        h *= factor
        change_step(steps, factor)


@jit(fast=True, no_reference_counting=True)
def accept(steps):
    """Take the step that was tried: y, its differences, and the time.

    D^(k + 1) is d, D^(k + 2) the change of d from the last step; lower differences are running sums from the top.
    """
    rows, D, state, order = steps.rows, steps.D, steps.state[0], steps.state[0].order
    y, d = rows[ROW.y], rows[ROW.d]
    steps.state[0].equal_steps += 1
    copy(y, rows[ROW.y_before])
    copy(rows[ROW.y_new], y)
    state.t_before, state.t = state.t, state.t_new
    for l in range(y.size):
        D[order + 2, l] = d[l] - D[order + 1, l]
        D[order + 1, l] = d[l]
    for i in range(order, -1, -1):
        for l in range(y.size):
            D[i, l] += D[i + 1, l]


@jit(no_reference_counting=True)
def record(times, every_step, pause, steps):
    """Record the output times up to that of the last step, and this one.

    Return False, and record nothing, at a pause or if ``out`` is too small.
    """
    y, state, out = steps.rows[ROW.y], steps.state[0], steps.out
    n, later, first = y.size, state.t, state.next_output
    following = first
    while following < times.size and times[following] <= later:
        following += 1
    state.next_output = following
    # with every step recorded, an output time at the end of a step is a bound, so there is a pause
    last = following + every_step
    if pause or state.n_recorded + last - first > len(out):
        return False
    for at in range(first, last):
        time = times[at] if at < following else later
        row = out[state.n_recorded]
        if time == later:
            copy(y, row[:n])
        else:
            interpolate(steps.D, state.order, later, state.h, time, row[:n])
        row[n], row[n + 1] = state.accumulated_error, time
        state.n_recorded += 1
    return True


@jit(fast=True, no_reference_counting=True)
def advance(
    iterate, flow, closure, constants, schedule, work, control, equations, tolerances, times, every_step, budget, steps
):  # fmt: skip
    """Step until ``budget`` evaluations are spent or the last step needs a check in Python; return a ``RETURN`` code.

    ``iterate`` is ``newton_iteration``.  ``RETURN.new_jacobian`` requests a Jacobian at (``t_new``,
    ``ROW.y_new``), in the middle of a step, or before one under a schedule.  Output times are interpolated, because
    landing on them would force small steps.  The accumulated error of eps_g sums error[k] d times the gradient
    of eps_g over the steps.
    """
    rows, state = steps.rows, steps.state[0]
    y, d, scale = rows[ROW.y], rows[ROW.d], rows[ROW.scale]
    last_evaluation = state.evaluations + budget
    eps_g = close(closure, constants, work, 1.0, y)
    # whether students are nearly parallel before the first step: the step that leaves this state needs a check, too
    are_parallel = needs_check(constants, work, control, y, eps_g)[1]
    while True:
        rate, size = constants.gradient_rate, constants.error_size
        factor = tightening(eps_g, work.S, work.A, work.B, rate, tolerances.sensitive, size)
        factor = max(factor, tolerances.least_factor)
        rtol, atol = factor * tolerances.rtol, max(factor * tolerances.atol, tolerances.least_atol)
        if state.requested == 0:
            t, h = state.t, state.h
            if stale(schedule, state):
                state.t_new, state.factorised = t, 0
                copy(y, rows[ROW.y_new])
                return RETURN.new_jacobian
            least = 10 * (np.nextafter(t, inf) - t)
            if h > control.max_step or h < least:
                state.h = control.max_step if h > control.max_step else least
                change_step(steps, state.h / h)
        code, error, safety = attempt(
            iterate, flow, closure, constants, schedule, work, equations, tolerances, rtol, atol, steps
        )
        if code != RETURN.step_accepted:
            return code
        accept(steps)
        eps_g, order = close(closure, constants, work, 1.0, y), state.order
        if state.equal_steps > order:
            change, factor = next_order(steps.D, order, error, scale)
            # lengths and orders change together and rarely: between changes differences are simple sums
            state.order, factor = order + change, min(BDF_OPTIONS.max_factor, safety * factor)
            state.h *= factor
            change_step(steps, factor)
            state.factorised = 0
        else:
            # a change of step or order rescales D, and the error of the step before is taken again
            if constants.error_size > 0.0:
                change = difference_of_eps_g(closure, constants, schedule, work, y, eps_g, NDF.error[order], d)
            else:
                change = NDF.error[order] * change_of_eps_g(constants, work, d)
            state.step_error = abs(change) / max(eps_g, tolerances.least_atol)
        state.accumulated_error += state.step_error
        were_parallel = are_parallel
        unusual, are_parallel = needs_check(constants, work, control, y, eps_g)
        check = unusual or were_parallel or are_parallel
        at_bound = state.t >= state.bound
        pause = check or at_bound or state.evaluations >= last_evaluation
        if not record(times, every_step, pause, steps):
            return RETURN.check_in_python if check else RETURN.pause
