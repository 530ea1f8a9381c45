"""A system for compiled code: its numbers, its arrays and its pace in named parts, and the velocity.

The parts are named tuples whose annotations are the types that numba compiles for.  Python makes them once for a run
(``System.constants``, ``System.work``, ``schedule_factors``) and kernels hand them on: a kernel names the entries it
reads.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, INT, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..activations.bound import CLOSURE
from ..models import factors
from ._flow import FLOW, gather_groups

VANISHED = 1e-16  # eps_g, in units of what cancels in it, below which it is rounding


@typed_namedtuple
class Constants(NamedTuple):
    """The numbers of one flow; nothing changes them while it runs."""

    K: INT
    teacher: INT  # code of its activation
    eta: REAL
    eta_v: REAL
    noise: REAL  # a standard deviation
    s: VECTOR  # eigenvalues (L,)
    p: VECTOR  # their weights (L,), and behind them the group of each block, where there are several
    source: CUBE  # tau (M, M, L): what drives r beside the students
    decay: REAL  # of r, twice this of q; SPHERE keeps the norms instead
    decay_v: REAL
    second_order: REAL  # weight of C: 0 for gradient flow, else 1 over the size of a batch
    trains_v: BOOL
    drift: REAL
    gradient_rate: REAL  # -A and -B divided by it are the gradient of eps_g; inf where they are none
    error_size: REAL  # size of what cancels in eps_g where they are none, so that differences serve; 0 elsewhere
    error_noise: REAL  # relative error of eps_g by the averages


@typed_namedtuple
class Work(NamedTuple):
    """Arrays of one thread that the closure reads (S, w) and fills (A, B, C, dv), and room for a change of S and w."""

    S: MATRIX  # covariance of the fields, (K + M, K + M) for each group of blocks, one below the other
    w: VECTOR  # second layers (v, -v*), and behind them the parameters of the closure
    A: MATRIX
    B: MATRIX
    C: MATRIX
    dv: VECTOR
    dS: MATRIX
    dw: VECTOR


@typed_namedtuple
class CompiledSchedule(NamedTuple):
    """The pieces of which schedules are products; no channel at all where nothing changes."""

    channels: INTS  # which factor a piece belongs to: eta, eta_v, noise, weight_decay, batch_size
    codes: INTS  # the kind of the piece
    edges: INTS  # where its numbers begin in data
    data: VECTOR
    knots: VECTOR


@typed_namedtuple
class ScheduleFactors(NamedTuple):
    """Factors of schedules on the flow, and copies of A, B, dv that they scale.

    A, B, dv themselves keep the numbers of the model: a factor may be zero, and the error control divides.
    """

    pieces: CompiledSchedule.type
    kappa: REAL
    kappa_v: REAL
    factors: VECTOR  # (5,) at the last evaluation, by the channels of the pieces
    A: MATRIX
    B: MATRIX
    dv: VECTOR


FUNCTIONS = types.FunctionType(FLOW), types.FunctionType(CLOSURE)
SYSTEM = *FUNCTIONS, Constants.type, ScheduleFactors.type, Work.type  # the first arguments of whatever makes steps


@jit(inline=True)
def close(closure, constants, work, noise_factor, y):
    """Evaluate the closure at y into the work arrays, with ``noise_factor`` times the noise; return eps_g."""
    K, M = constants.K, work.B.shape[1]
    gather_groups(y, constants.s, constants.p, K, M, constants.trains_v, work.S, work.w)
    return closure(
        work.S, work.w, K, constants.teacher, constants.eta, constants.eta_v, constants.noise * noise_factor,
        constants.second_order > 0, work.A, work.B, work.C, work.dv,
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
        row = i + i // K * M  # of the group of A, in S
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
    """Change of eps_g from its value at y by a change factor * dy of the overlaps, where A and B give no gradient.

    One more evaluation, which leaves S, w, A, B, dv as they are at y; C is lost. Where both eps_g are
    rounding, S is singular and hides the change: then the size of eps_g times that of the change, relative to S.
    """
    K, M = constants.K, work.B.shape[1]
    S, dS, w, dw, largest, most = work.S, work.dS, work.w, work.dw, 0.0, 0.0
    gather_groups(dy, constants.s, constants.p, K, M, constants.trains_v, dS, dw)
    for i in range(len(S)):
        for j in range(S.shape[1]):
            largest = max(largest, abs(S[i, j]))
            if i % (K + M) < K or j < K:  # teachers stay, and their part of dS is room for others
                S[i, j] += factor * dS[i, j]
                most = max(most, abs(factor * dS[i, j]))
    if constants.trains_v:
        for i in range(K):
            w[i] += factor * dw[i]
    changed = closure(
        S, w, K, constants.teacher, constants.eta, constants.eta_v, constants.noise, False, schedule.A, schedule.B,
        work.C,
        schedule.dv,
    )  # fmt: skip
    gather_groups(y, constants.s, constants.p, K, M, constants.trains_v, S, w)
    if max(abs(changed), abs(eps_g)) < VANISHED * constants.error_size:
        return constants.error_size * most / largest
    return changed - eps_g


def schedule_factors(system):
    """Schedules of a system for ``velocity``."""
    evaluator = system.evaluator
    copies = np.ones(5), np.empty_like(system.A), np.empty_like(system.B), np.empty_like(system.dv)
    return ScheduleFactors(compiled_schedule(evaluator), *(float(x) for x in system.model.weight_decay), *copies)


def compiled_schedule(evaluator):
    """Pieces of schedules and their knots as compiled steps take them: none where nothing changes."""
    whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    arrays = (
        (whole, whole, whole, real, real)
        if evaluator is None
        else (*evaluator.program.arrays, np.array(evaluator.knots))
    )
    return CompiledSchedule(*arrays)
