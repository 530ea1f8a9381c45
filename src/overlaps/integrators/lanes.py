"""Which batches are stepped side by side in vector registers, and how their problems are handed over."""

import numpy as np

from .._base import check
from .._base.jit import compile_once
from ..activations.bound import LANES, SIDE_BY_SIDE
from ..flow.lanes import lane_work, numbers_of
from ..gaussian.two_point import ERF
from ._lanes import DIVERGENT, MARCH, ROWS, STOPPED, Lanes, Queue, march_lanes

__all__ = ["DIVERGENT", "STOPPED", "closure_in_lanes", "side_by_side"]

BLOCKS, FIELDS = 8, 12  # eigenvalues, and students and teachers, up to which all that a step needs stays near
FEW = 128  # overlaps of all blocks, the same for polynomials: their closures cost less than what the flow reads


def closure_in_lanes(asked, models, bound, times):
    """The closure of many states where a batch is stepped side by side, or None: its shape decides, and nothing else.

    With its kernels compiled, or read from the disk. ``asked`` is True for batches of any number, False for none.
    """
    first, L = models[0], models[0].spectrum.L
    if asked is not None and not check.flag("lanes", asked):
        return None
    small = first.activation.code == ERF or L * first.K * (first.K + 2 * first.M + 1) // 2 <= FEW
    fits = bound.lanes is not None and L <= BLOCKS and first.K + first.M <= FIELDS and small
    if asked and not fits:
        raise ValueError(
            f"lanes = True with {first.K} {first.activation.name} students, {first.M} {first.teacher_activation.name} "
            f"teachers and {L} eigenvalues; expected erf, linear or quadratic units of one kind, at most {FIELDS} of "
            f"them and {BLOCKS} eigenvalues, of linear and quadratic ones {FEW} overlaps in all. Leave it out: other "
            "batches go one by one."
        )
    if not fits or bound.compiled is None or times.size < 2 or (asked is None and len(models) < 2 * LANES):
        return None
    compile_once(march_lanes, MARCH)
    bound.lanes.compile(SIDE_BY_SIDE.args)  # with a return type numba would compile it once more
    return bound.lanes


def side_by_side(closure, problems, pieces, control, first, blocks, stops, places, halt, outcome):
    """As ``march_all``; returns ``last`` of ``march_lanes``."""
    b, n = problems.S.shape[:2]
    K, M, L = problems.K, problems.tau.shape[1], problems.s.shape[1]
    parts = problems.S, problems.w[:, :n], problems.s, problems.p, problems.tau, numbers_of(problems.rates), problems.y
    rows = np.concatenate([x.reshape(b, -1) for x in parts], axis=1)
    size, noisy = problems.y.shape[1], bool(np.any(problems.rates[:, 5] > 0))
    work, lane_rows, model, y = lane_work(K, M, L, size)
    stages, place, clock = np.zeros((17, size, LANES)), np.zeros((ROWS[0], LANES), np.int64), np.ones((ROWS[1], LANES))
    x = Lanes(
        lane_rows, y, stages[16], stages[:16], model, np.zeros_like(model), np.ones(5), place, clock, np.zeros(size)
    )
    to, last = np.full(stops.size, -1), np.empty((b, outcome.records.shape[2] + 3))
    to[places] = np.arange(places.size)
    queue = Queue(K, M, L, problems.trains_v, noisy, rows, np.empty((b, size)), np.empty(b))
    march_lanes(closure, queue, work, x, pieces, control, first, blocks, stops, to, halt, outcome, last)
    return last
