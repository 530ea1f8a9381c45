"""Which batches are stepped side by side in vector registers, and how their problems are handed over."""

import numpy as np

from .._base import check
from .._base.jit import compile_once
from ..activations.bound import BATCHED, SIMD_WIDTH
from ..flow.simd import learning_numbers, simd_work
from ..gaussian.two_point import ERF
from ._simd import ADVANCE_SIMD, DIVERGENT, ROWS, STOPPED, Queue, SimdState, advance_simd

__all__ = ["DIVERGENT", "STOPPED", "simd_closure", "run_simd"]

BLOCKS, FIELDS = 8, 12  # eigenvalues, and students and teachers, up to which all that a step needs stays near
FEW = 128  # overlaps of all blocks, the same for polynomials: their closures cost less than what the flow reads


def simd_closure(asked, models, bound, times):
    """The closure of many states where a batch is stepped side by side, or None: its shape decides, and nothing else.

    With its kernels compiled, or read from the disk. ``asked`` is True for batches of any number, False for none.
    """
    first, L = models[0], models[0].spectrum.L
    if asked is not None and not check.flag("simd", asked):
        return None
    small = first.activation.code == ERF or L * first.K * (first.K + 2 * first.M + 1) // 2 <= FEW
    fits = bound.simd is not None and L <= BLOCKS and first.K + first.M <= FIELDS and small
    if asked and not fits:
        raise ValueError(
            f"simd = True with {first.K} {first.activation.name} students, {first.M} {first.teacher_activation.name} "
            f"teachers and {L} eigenvalues; expected erf, linear or quadratic units of one kind, at most {FIELDS} of "
            f"them and {BLOCKS} eigenvalues, of linear and quadratic ones {FEW} overlaps in all. Leave it out: other "
            "batches go one by one."
        )
    if not fits or bound.compiled is None or times.size < 2 or (asked is None and len(models) < 2 * SIMD_WIDTH):
        return None
    compile_once(advance_simd, ADVANCE_SIMD)
    bound.simd.compile(BATCHED.args)  # with a return type numba would compile it once more
    return bound.simd


def run_simd(closure, problems, pieces, control, first, blocks, stops, places, halt, outcome):
    """As ``advance_batch``; returns ``last`` of ``advance_simd``."""
    b, n = problems.S.shape[:2]
    K, M, L = problems.K, problems.tau.shape[1], problems.s.shape[1]
    parts = (
        problems.S,
        problems.w[:, :n],
        problems.s,
        problems.p,
        problems.tau,
        learning_numbers(problems.rates),
        problems.y,
    )
    rows = np.concatenate([x.reshape(b, -1) for x in parts], axis=1)
    size, noisy = problems.y.shape[1], bool(np.any(problems.rates[:, 5] > 0))
    work, simd_rows, model, y = simd_work(K, M, L, size)
    stages, int_state, real_state = (
        np.zeros((17, size, SIMD_WIDTH)),
        np.zeros((ROWS[0], SIMD_WIDTH), np.int64),
        np.ones((ROWS[1], SIMD_WIDTH)),
    )
    x = SimdState(
        simd_rows,
        y,
        stages[16],
        stages[:16],
        model,
        np.zeros_like(model),
        np.ones(5),
        int_state,
        real_state,
        np.zeros(size),
    )
    to, last = np.full(stops.size, -1), np.empty((b, outcome.records.shape[2] + 3))
    to[places] = np.arange(places.size)
    queue = Queue(K, M, L, problems.trains_v, noisy, rows, np.empty((b, size)), np.empty(b))
    advance_simd(closure, queue, work, x, pieces, control, first, blocks, stops, to, halt, outcome, last)
    return last
