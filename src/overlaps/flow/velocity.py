"""A system for compiled code: named tuples of its numbers, its arrays and its schedules; and the velocity.

The annotations of these named tuples are the types that numba compiles for.  Python makes the tuples once for a run
(``System.constants``, ``System.work``, ``schedule_factors``).  Kernels pass them on, and access entries by name.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..activations.bound import CLOSURE
from ..models import factors
from ._flow import FLOW, gather_groups

# eps_g, relative to the terms that cancel in it, below which it is rounding: machine precision.
ERROR_ROUNDING = 1e-16


@typed_namedtuple
class Constants(NamedTuple):
    """The numbers of one flow, constant during a run."""

    K: INT
    teacher: INT  # code of its activation
    eta: REAL
    eta_v: REAL
    noise: REAL  # a standard deviation
    s: VECTOR  # eigenvalues (L,)
    p: VECTOR  # weights (L,); with several groups of blocks followed by the group of each block
    source: CUBE  # tau (M, M, L), the source of r
    decay: REAL  # rate of decay of r, half that of q; SPHERE keeps the norms instead
    decay_v: REAL
    second_order: REAL  # weight of C: 0 for gradient flow, else 1 / batch size
    trains_v: BOOL
    drift: REAL
    gradient_rate: REAL  # -A / gradient_rate and -B / gradient_rate are the gradient of eps_g; inf if they are none
    error_size: REAL  # size of the terms that cancel in eps_g, if A, B are no gradient; otherwise 0
    error_noise: REAL  # relative error of eps_g due to averages by quadrature


@typed_namedtuple
class Work(NamedTuple):
    """Arrays of one thread: arguments (S, w) and results (A, B, C, dv) of the closure, and changes of S and w."""

    S: MATRIX  # covariance of the fields, (K + M, K + M) for each group of blocks, one below the other
    w: VECTOR  # second layers (v, -v*)
    parameters: VECTOR  # of the closure
    A: MATRIX
    B: MATRIX
    C: MATRIX
    dv: VECTOR
    dS: MATRIX
    dw: VECTOR


@typed_namedtuple
class CompiledSchedule(NamedTuple):
    """The pieces of which schedules are products; empty arrays without a schedule."""

    channels: INTS  # the factor to which a piece belongs: 0 to 4 for eta, eta_v, noise, weight_decay, batch_size
    codes: INTS  # the kind of the piece
    edges: INTS  # where its numbers begin in ``data``
    data: VECTOR
    knots: VECTOR


@typed_namedtuple
class ScheduleFactors(NamedTuple):
    """Factors of schedules on the flow, and scaled copies of A, B, dv.

    A, B, dv of ``Work`` are not scaled, because factors may be zero and the error control divides by eta.
    """

    pieces: CompiledSchedule.type
    kappa: REAL
    kappa_v: REAL
    factors: VECTOR  # (5,) at the last evaluation, by the channels of the pieces
    A: MATRIX
    B: MATRIX
    dv: VECTOR


FUNCTIONS = types.FunctionType(FLOW), types.FunctionType(CLOSURE)
SYSTEM = *FUNCTIONS, Constants.type, ScheduleFactors.type, Work.type  # types of the first arguments of compiled steps


@jit(inline=True)
def close(closure, constants, work, noise_factor, y):
    """Evaluate the closure at y into the work arrays, with ``noise_factor`` times the noise; return eps_g."""
    K, M = constants.K, work.B.shape[1]
    gather_groups(y, constants.s, constants.p, K, M, constants.trains_v, work.S, work.w)
    return closure(
        work.S, work.w, work.parameters, K, constants.teacher, constants.eta, constants.eta_v,
        constants.noise * noise_factor, constants.second_order > 0, work.A, work.B, work.C, work.dv,
    )  # fmt: skip


@jit(inline=True)
def velocity(flow, closure, constants, schedule, work, t, y, dy):
    """Fill dy/dalpha at time t; return eps_g."""
    A, B, dv, u = work.A, work.B, work.dv, schedule.factors
    decay, decay_v, second_order = constants.decay, constants.decay_v, constants.second_order
    pieces = schedule.pieces
    scheduled = pieces.channels.size > 0
    if scheduled:
        factors(t, pieces.channels, pieces.codes, pieces.edges, pieces.data, u)
    eps_g = close(closure, constants, work, u[2], y)
    if scheduled:
        for i in range(len(A)):
            for j in range(A.shape[1]):
                schedule.A[i, j] = u[0] * A[i, j]
            for m in range(B.shape[1]):
                schedule.B[i, m] = u[0] * B[i, m]
        for i in range(dv.size):
            schedule.dv[i] = u[1] * dv[i]
        A, B, dv = schedule.A, schedule.B, schedule.dv
        if decay >= 0.0:
            decay = constants.eta * schedule.kappa * u[0] * u[3]
        decay_v = constants.eta_v * schedule.kappa_v * u[1] * u[3]
        second_order = u[0] * u[0] * second_order / u[4]
    flow(
        y, constants.s, constants.p, constants.source, A, B, work.C, dv, decay, decay_v, second_order,
        constants.trains_v, dy, constants.drift,
    )  # fmt: skip
    return eps_g


@jit(no_reference_counting=True)
def change_of_eps_g(constants, work, dy):
    """First-order change of eps_g by a change dy of the overlaps, at the last evaluation."""
    K, M, rate, change = constants.K, work.B.shape[1], constants.gradient_rate, 0.0
    A, B, dS = work.A, work.B, work.dS
    if rate == inf:
        return change
    gather_groups(dy, constants.s, constants.p, K, M, constants.trains_v, dS, work.dw)
    for i in range(len(A)):
        row = i + i // K * M  # the row in S of row i of A
        for j in range(K):
            change -= A[i, j] * dS[row, j] / (2 * rate)
        for m in range(M):
            change -= B[i, m] * dS[row, K + m] / rate
    if constants.trains_v:
        for i in range(K):
            change -= work.dv[i] * work.dw[i] / constants.eta_v
    return change


@jit(no_reference_counting=True)
def difference_of_eps_g(closure, constants, schedule, work, y, eps_g, factor, dy):
    """Change of eps_g from its value at y by a change factor * dy of the overlaps, if A and B are no gradient.

    This takes one more evaluation. S, w, A, B, dv remain those at y, and C is overwritten. If both values of eps_g are
    rounding, S is singular; the result is then the size of eps_g times the change of S relative to S.
    """
    K, M = constants.K, work.B.shape[1]
    S, dS, w, dw, largest, largest_change = work.S, work.dS, work.w, work.dw, 0.0, 0.0
    gather_groups(dy, constants.s, constants.p, K, M, constants.trains_v, dS, dw)
    for i in range(len(S)):
        for j in range(S.shape[1]):
            largest = max(largest, abs(S[i, j]))
            if i % (K + M) < K or j < K:  # teachers do not change: their entries of dS may contain anything
                S[i, j] += factor * dS[i, j]
                largest_change = max(largest_change, abs(factor * dS[i, j]))
    if constants.trains_v:
        for i in range(K):
            w[i] += factor * dw[i]
    changed = closure(
        S, w, work.parameters, K, constants.teacher, constants.eta, constants.eta_v, constants.noise, False, schedule.A,
        schedule.B, work.C, schedule.dv,
    )  # fmt: skip
    gather_groups(y, constants.s, constants.p, K, M, constants.trains_v, S, w)
    if max(abs(changed), abs(eps_g)) < ERROR_ROUNDING * constants.error_size:
        return constants.error_size * largest_change / largest
    return changed - eps_g


def schedule_factors(system):
    """The schedules of a system, for ``velocity``."""
    evaluator = system.evaluator
    copies = np.ones(5), np.empty_like(system.A), np.empty_like(system.B), np.empty_like(system.dv)
    return ScheduleFactors(compiled_schedule(evaluator), *(float(x) for x in system.model.weight_decay), *copies)


def compiled_schedule(evaluator):
    """Segments of schedules and their knots for compiled steps; empty arrays without a schedule."""
    integers, reals = np.zeros(0, dtype=np.int64), np.zeros(0)
    arrays = (
        (integers, integers, integers, reals, reals)
        if evaluator is None
        else (*evaluator.program.arrays, np.array(evaluator.knots))
    )
    return CompiledSchedule(*arrays)
