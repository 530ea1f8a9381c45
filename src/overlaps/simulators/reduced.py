"""Finite-N SGD, exact in law, at a cost per step that does not depend on N.

A step of one-pass SGD depends on a Gaussian input x only through its projection on the space V of the weights and its
length.  In any orthonormal frame of V fixed by the past, these are d independent normals and a chi-square with N - d
degrees of freedom. The overlaps are therefore a Markov chain that can be drawn without the weights, for every N,
without approximation.  Inputs with a covariance spectrum have one frame per eigenspace, and a batch reaches
the students by K vectors outside of it (``_reduced``).
"""

from typing import NamedTuple

import numpy as np

from ..models.start import overlap_factor
from ..models.state import gram
from . import _reduced
from .direct import correlated, step_arguments, tokens_of
from .mixed import ClassDraws, Samples
from .steps import STEPS_PER_CALL, Rates, follow, largest, stacked


class ReducedOptions(NamedTuple):
    """Tunable numbers of reduced runs."""

    # Eigenvalue of the extra block of latents that are not linear in the inputs. Its square root, 1e-10, is the size of
    # its effect on the students; halved or doubled, this stays far below the fluctuations of any N.
    hidden_eigenvalue: float = 1e-20
    # Random numbers drawn at once. With half as many calls of the generator take more time, with twice as many the
    # array leaves the cache before it is used. Results depend on it as on a seed.
    chunk_normals: int = 2**14


REDUCED = ReducedOptions()


def reduced_run(model, start, N, steps, rng, tick=None, evaluator=None):
    r"""Overlaps of one-pass SGD at size N, exact in law at every N: no approximation is made.

    .. math:: w_k \leftarrow (1 - \eta\kappa/N)\, w_k + \frac{1}{b\sqrt N} \sum_{i \le b} F_k^i x^i

    Parameters
    ----------
    model, start : Model, State
        The learning problem and its start.
    N : int
        Input dimension; block l has ``model.block_sizes(N)[l]`` coordinates. If the teacher acts on latents,
        p_l N need not be an integer: chi-squares then have p_l N - K - M degrees of freedom.
    steps : array of int
        Increasing step counts at which overlaps are recorded.
    rng : numpy.random.Generator
        Source of all randomness; the process does not depend on which steps are recorded.
    tick : callable, optional
        Called at intervals with the number of steps done.
    evaluator : ScheduleEvaluator, optional
        Factors on the numbers of the model; step n happens at alpha = n / N, the first one at ``start.alpha``.

    Returns
    -------
    q, r, v : ndarray, shape (n, L, K, K), (n, L, K, M + C), (n, K)
        Kernel arrays, the last C columns of r for the centroids of inputs in classes; shorter than ``steps`` when the
        run was interrupted, and ending with nan when it diverged.

    Raises
    ------
    ValueError
        No weights in this dimension have the overlaps of ``start``.
    """
    s = np.array(model.spectrum.s, dtype=float)
    sizes, joint, _static_factors, M = _sizes(model, N), model.plain_overlaps(start), model._static_factors, model.M
    static, L = _static_factors.shape[1], len(s)
    if model.latent_teacher:
        s, sizes, joint = _with_unseen(start, s, sizes, joint)
    teachers, students = frames(start, s, sizes, joint)
    v, classes = np.array(start.v, dtype=float), None
    v, functions = step_arguments(model, v, s, start.T)
    tokens = tokens_of(model)
    if model.n_classes:  # x then holds inputs, otherwise Gaussian numbers of unit variance
        centroids = np.moveaxis(teachers[:, :, M:], 2, 0).reshape(-1, len(s) * static)
        classes = ClassDraws(model, rng.spawn(1)[0], centroids, np.repeat(np.arange(len(s)), static))
    advance = _stepper(model, N, s if classes is None else np.ones_like(s), teachers, students, v, functions)
    rates, spaces = Rates(model, N, np.rint(start.alpha * N), evaluator), _spaces(sizes, model.K, static)
    samples = Samples(model, rng, N, rates.step, evaluator)
    unit = float(model.noise > 0) if samples.mixed else model.noise
    chunk, position, end = (), 0, 0

    def draw_chunk():
        left, _ = rates.left(STEPS_PER_CALL)
        x, outside, noise = draw(rng, rates.batch * tokens.shape[-1], spaces, unit, tokens.shape[-1])
        if model.rule is not None:
            x[..., :-1] = correlated(x[..., :-1], tokens)
            noise = model.rule.draw(rng, noise.shape)
        labels = 0.0 * noise if classes is None else classes.enter_frame(x, s)
        n = min(left, len(x))
        rows, which, scales, noise[:n] = samples.step_inputs(rates, noise[:n], labels[:n], x.shape[2])
        if scales is not None:
            x[:n] *= scales.swapaxes(1, 2)[..., None]
        return (x, outside, tokens.reshape(-1, *tokens.shape[-2:])), noise, rows, which, scales

    def step(limit):
        nonlocal chunk, position, end
        if position == end:
            if not np.isfinite(students).all():
                return limit  # the run has diverged
            chunk = draw_chunk()
            position, end = 0, len(chunk[2])
        inputs, noise, rows, which, scales = chunk
        first, position = position, min(end, position + limit)
        taken = slice(first, position)
        if samples.has_own_steps:
            samples.reduced((teachers, students), v, np.sqrt(s), inputs, noise, which[taken], rows[taken], first)
        else:
            scales = None if scales is None else scales[taken]
            for i, j in samples.segments(position - first, scales, functions[0], slice(None)):
                advance(inputs, noise, first + i, first + j, rows[first + i : first + j])
        return position - first

    def size(record):
        return largest((record[0] ** 2, record[1]))  # overlaps are products of coordinates

    with np.errstate(over="ignore", invalid="ignore"):  # the records of a diverging run are nan
        records = follow(steps, step, lambda: (students[:L].copy(), v.copy()), tick, size)
    coordinates, v = stacked(records, students[:L].shape, start.v.shape)
    return *frame_overlaps(teachers[:L], coordinates, _static_factors), v


def _sizes(model, N):
    """Number n_l of coordinates of each block; not rounded if the nodes represent a limit and n_l is large."""
    if not model.latent_teacher:
        return model.block_sizes(N)
    n = model.spectrum.p * N
    return np.where(n > model.K + model.M, n, np.maximum(1.0, np.rint(n)))


def _with_unseen(start, s, sizes, joint):
    """Append a block of M coordinates: the terms of the teachers' fields that are not linear in the inputs."""
    M, n, with_variance = start.M, joint.shape[-1], s > 0
    rest = start.T - np.tensordot(1 / s[with_variance], start.tau[with_variance], axes=1)
    values, vectors = np.linalg.eigh((rest + rest.T) / 2)
    rest = (vectors * np.where(values > 1e-12 * np.trace(start.T), values, 0.0)) @ vectors.T
    block = np.zeros((1, n, n))
    block[0, n - M :, n - M :] = rest / REDUCED.hidden_eigenvalue
    return np.append(s, REDUCED.hidden_eigenvalue), np.append(sizes, M), np.concatenate([joint, block])


def _spaces(sizes, K, M):
    """Masks (L, M + K) of the frame vectors of each block, K, and the dimensions (L,) of the space outside the frame.

    A block of n_l coordinates has min(M, n_l) frame vectors for the teachers, and up to K more for the students.
    """
    taught = np.minimum(M, sizes)
    learned = np.minimum(K, sizes - taught)
    j, trained = np.arange(M + K), np.arange(M + K) >= M
    frame = np.where(trained, j - M < learned[:, None], j < taught[:, None])
    return frame, K, sizes - taught - learned


def draw(rng, rows, spaces, noise, tokens=1):
    """All random numbers of a chunk of steps: x (., L, rows, M + K + 1), outside (., L, n, n), label noise (., b).

    They are those of ``_reduced``: n = min(rows, K) normal vectors in the ``rest`` dimensions outside the frame form a
    triangle (Bartlett 1933), with roots of chi-squares on its diagonal.
    """
    frame, K, rest = spaces
    (L, width), n = frame.shape, min(rows, K)
    length = max(1, REDUCED.chunk_normals // (L * rows * (width + 1)))
    x, outside, (i, j) = np.empty((length, L, rows, width + 1)), np.zeros((length, L, n, n)), np.tril_indices(n, -1)
    x[..., :-1] = rng.standard_normal((length, L, rows, width))
    if not frame.all():
        x[..., :-1] *= frame[:, None]
    outside[..., i, j] = rng.standard_normal((length, L, len(i))) * (j + 1 <= rest[:, None])
    # chi-square = 2 gamma(dof / 2), which unlike rng.chisquare allows dof = 0; a scalar is faster than an array of one
    shape = np.maximum(rest[:, None] - np.arange(n), 0) / 2
    shape = shape if shape.size > 1 else shape.item()
    outside[..., range(n), range(n)] = np.sqrt(2 * rng.standard_gamma(shape, (length, L, n)))
    x[..., -1] = 1.0 if rows > 1 else outside[..., 0]
    b = rows // tokens
    return x, outside, noise * rng.standard_normal((length, b)) if noise > 0 else np.zeros((length, b))


def frames(start, s, sizes, joint=None):
    """Coordinates of teachers (L, M, M) and students (L, M + K + 1, K) in the frames described in ``_reduced``.

    ``joint`` (L, K + M, K + M) are the plain overlaps, if there are more static rows than teachers.
    """
    joint = gram(*start.plain) if joint is None else joint
    (L, n, _), K = joint.shape, start.K
    order, H = np.roll(np.arange(n), -K), np.zeros((L, n + 1, n))  # static rows first
    for block, size in enumerate(sizes):
        factor = overlap_factor(joint[block][np.ix_(order, order)], int(size), block)
        H[block, : int(min(n, size))] = np.linalg.qr(factor.T, mode="r")
    return H[:, : n - K, : n - K].copy(), H[:, :, n - K :].copy()


def frame_overlaps(teachers, students, s):
    """q^l (., L, K, K) and r^l = s_l W P_l W*^T / N (., L, K, M) from frame coordinates; s (L,), or (L, M) by row."""
    transposed = students.swapaxes(-1, -2)
    return transposed @ students, np.reshape(s, (len(s), 1, -1)) * (transposed[..., : teachers.shape[1]] @ teachers)


def _stepper(model, N, s, teachers, students, v, functions):
    """Return the function (inputs, noise, first, last, rates) that makes these steps of a drawn chunk, in place."""
    norms = np.einsum("ejk,ejk->k", students, students) if model.spherical else np.zeros(0)
    root_s, v_star = np.sqrt(s), np.array(model.v_star, dtype=float)

    def advance(inputs, noise, first, last, rates):
        _reduced.run(teachers, students, v, root_s, v_star, *functions, rates, norms, N, inputs, noise, first, last)

    return advance
