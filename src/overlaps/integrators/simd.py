"""Choice of batches whose states are stepped together in vector registers, and the call of their compiled steps."""

import numpy as np

from .._base import check
from .._base.jit import compile_once
from ..activations.bound import BATCHED, SIMD_WIDTH
from ..flow.simd import learning_numbers, simd_work
from ..gaussian.two_point import ERF
from ._dop853 import K_ROW
from ._simd import ADVANCE_SIMD_SIGNATURE, INT_ROW, ROW, Queue, SimdState, advance_simd

__all__ = ["simd_closure", "run_simd"]


def simd_closure(requested, models, bound, times, *, max_eigenvalues=8, max_fields=12, max_polynomial_overlaps=128):
    """The closure of several states where a batch is stepped in SIMD lanes, or None; it depends on the shape only.

    Its kernels are compiled, or read from the disk. ``requested`` is True for batches of any size, False for none.
    Up to the sizes ``max_...`` stepping several states together is faster; larger working sets leave the caches.
    ``max_fields`` counts students and teachers, ``max_polynomial_overlaps`` the overlaps of all blocks for linear and
    quadratic units, whose closures cost less than the memory traffic of the flow.
    """
    first, L = models[0], models[0].spectrum.L
    if requested is not None and not check.flag("simd", requested):
        return None
    n_overlaps = L * first.K * (first.K + 2 * first.M + 1) // 2
    is_small = first.activation.code == ERF or n_overlaps <= max_polynomial_overlaps
    few = L <= max_eigenvalues and first.K + first.M <= max_fields
    fits = bound.simd is not None and few and is_small
    if requested and not fits:
        raise ValueError(
            f"simd = True with {first.K} {first.activation.name} students, {first.M} {first.teacher_activation.name} "
            f"teachers and {L} eigenvalues; expected erf, linear or quadratic units of one kind, at most "
            f"{max_fields} of them and {max_eigenvalues} eigenvalues, of linear and quadratic ones "
            f"{max_polynomial_overlaps} overlaps in all. Leave it out: other batches go one by one."
        )
    if not fits or bound.compiled is None or times.size < 2 or (requested is None and len(models) < 2 * SIMD_WIDTH):
        return None
    compile_once(advance_simd, ADVANCE_SIMD_SIGNATURE)
    bound.simd.compile(BATCHED.args)  # without a return type, for which numba would compile it once more
    return bound.simd


def run_simd(closure, problems, pieces, control, first_step, blocks, times, stops, skipped, halt, outcome):
    """Step a batch with the arguments of ``advance_batch``; return the array ``last`` that ``advance_simd`` fills."""
    b, K, M, L = len(problems.S), problems.K, problems.tau.shape[1], problems.s.shape[1]
    constants = problems.S, problems.w, problems.s, problems.p, problems.tau, learning_numbers(problems.rates)
    rows = np.concatenate([x.reshape(b, -1) for x in (*constants, problems.y)], axis=1)
    size, second_order = problems.y.shape[1], bool(np.any(problems.rates[:, 5] > 0))
    work, simd_rows, model, y = simd_work(K, M, L, size)
    stages = np.zeros((K_ROW.n_rows + 2, size, SIMD_WIDTH))
    int_state, real_state = np.zeros((len(INT_ROW), SIMD_WIDTH), np.int64), np.ones((len(ROW), SIMD_WIDTH))
    x = SimdState(
        simd_rows, y, stages[0], stages[1], stages[2:], model, np.zeros_like(model), np.ones(5), int_state, real_state,
        np.zeros(size),
    )  # fmt: skip
    last = np.empty((b, outcome.records.shape[2] + 3))
    queue = Queue(K, M, L, problems.trains_v, second_order, rows, np.empty((b, size)), np.empty(b))
    advance_simd(
        closure, queue, work, x, pieces, control, first_step, blocks, times, stops, skipped, halt, outcome, last
    )
    return last
