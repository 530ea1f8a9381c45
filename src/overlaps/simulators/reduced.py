"""Finite-N SGD, exact in law, at a cost per step that does not depend on N.

A step of one-pass SGD depends on a Gaussian input x only through its projection on the space V of the weights and its
length.  In any orthonormal frame of V fixed by the past, these are d independent normals and a chi-square with N - d
degrees of freedom. The overlaps are therefore a Markov chain that can be drawn without the weights, for every N,
without approximation.  Inputs with a covariance spectrum have one frame per eigenspace.
"""

from typing import NamedTuple

import numpy as np

from ..models.start import overlap_factor
from ..models.state import gram
from . import _reduced
from .direct import correlated, step_arguments, tokens_of
from .mixed import ClassDraws, Samples
from .steps import Rates, follow, stacked


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
        Input dimension; block l has ``model.spectrum.block_sizes(N)[l]`` coordinates. If the teacher acts on latents,
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
    rates = Rates(model, N, np.rint(start.alpha * N), evaluator)
    samples = Samples(model, rng, N, rates.step, evaluator)
    unit = float(model.noise > 0) if samples.mixed else model.noise
    x, noise, labels, position = np.empty(0), np.empty(0), np.empty(0), 0

    def step(limit):
        nonlocal x, noise, labels, position
        if not np.isfinite(students).all():
            return limit  # the run has diverged
        limit, changed = rates.left(limit)
        if position == len(x) or changed:
            normal, dof = _random_coordinates(sizes, model.K, static, rates.batch * tokens.shape[-1])
            x, noise = draw(rng, max(1, REDUCED.chunk_normals // normal.size), normal, dof, unit)
            if model.rule is not None:
                x, noise = correlated(x, tokens), model.rule.draw(rng, (len(x), rates.batch))
            labels, position = (0.0 * noise if classes is None else classes.enter_frame(x, s)), 0
        first, position = position, min(len(x), position + limit)
        taken = slice(first, position)
        rows, which, scales, noise[taken] = samples.step_inputs(rates, noise[taken], labels[taken], x.shape[2])
        if scales is not None:
            x[taken] *= scales.swapaxes(1, 2)[..., None]
        if samples.has_own_steps:
            samples.reduced((teachers, students), v, np.sqrt(s), x, noise, which, rows, first)
        else:
            for i, j in samples.segments(position - first, scales, functions[0], slice(None)):
                advance(x, noise, first + i, first + j, rows[i:j])
        return position - first

    def record():
        arrays = *frame_overlaps(teachers[:L], students[:L], _static_factors), v.copy()
        return arrays if all(np.isfinite(x).all() for x in arrays) else tuple(x * np.nan for x in arrays)

    with np.errstate(over="ignore", invalid="ignore"):  # the records of a diverging run are nan
        records = follow(steps, step, record, tick)
    K = start.K
    return stacked(records, (L, K, K), (L, K, static), start.v.shape)


def _sizes(model, N):
    """Number n_l of coordinates of each block; not rounded if the nodes represent a limit and n_l is large."""
    if not model.latent_teacher:
        return model.spectrum.block_sizes(N)
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


def draw(rng, length, normal, dof, noise):
    """All random numbers of ``length`` steps: coordinates x (length, L, b, M + K + b) and label noise (length, b).

    ``normal`` (L, b, M + K + b) marks the coordinates that are N(0, 1); the diagonal of the last b columns is the root
    of a chi-square with ``dof`` (L, b) degrees of freedom, and the rest is zero.
    """
    L, b, width = normal.shape
    x = np.zeros((length, normal.size))
    x[:, np.flatnonzero(normal)] = rng.standard_normal((length, np.count_nonzero(normal)))
    x = x.reshape(length, L, b, width)
    # chi-square = 2 gamma(dof / 2), which unlike rng.chisquare allows dof = 0; a scalar is faster than an array of one
    shape = dof / 2 if dof.size > 1 else dof.item() / 2
    i = np.arange(b)
    x[:, :, i, width - b + i] = np.sqrt(2 * rng.standard_gamma(shape, (length, L, b)))
    return x, noise * rng.standard_normal((length, b)) if noise > 0 else np.zeros((length, b))


def _random_coordinates(sizes, K, M, b):
    """The masks ``normal`` and the ``dof`` of :func:`draw`.

    A block of n_l coordinates has min(M, n_l) frame vectors for the teachers, up to K more for the students, and a
    space of ``rest`` dimensions orthogonal to the frame.  The b samples form a triangle there (Bartlett 1933).
    """
    normal = np.zeros((len(sizes), b, M + K + b), dtype=bool)
    dof = np.zeros((len(sizes), b))
    for block, n in enumerate(sizes):
        teachers = int(min(M, n))
        students = int(min(K, n - teachers))
        rest = n - teachers - students
        normal[block, :, :teachers] = True
        normal[block, :, M : M + students] = True
        for i in range(b):
            normal[block, i, M + K : M + K + int(min(i, rest))] = True
            dof[block, i] = max(rest - i, 0)
    return normal, dof


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
    """q^l (L, K, K) and r^l = s_l W P_l W*^T / N (L, K, M) from frame coordinates; s (L,), or (L, M) by static row."""
    transposed = students.swapaxes(1, 2)
    return transposed @ students, np.reshape(s, (len(s), 1, -1)) * (transposed[:, :, : teachers.shape[1]] @ teachers)


def _stepper(model, N, s, teachers, students, v, functions):
    """Return the function (x, noise, first, last, rates) that makes these steps of a drawn chunk, in place."""
    norms = np.einsum("ejk,ejk->k", students, students) if model.spherical else np.zeros(0)
    root_s, v_star = np.sqrt(s), np.array(model.v_star, dtype=float)

    def advance(x, noise, first, last, rates):
        _reduced.run(teachers, students, v, root_s, v_star, *functions, rates, norms, N, x, noise, first, last)

    return advance
