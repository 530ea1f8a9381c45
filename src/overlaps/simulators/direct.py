"""Direct SGD: explicit weights in the space of the inputs, which are drawn one by one."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ..models.start import overlap_factor
from ..models.state import block_overlaps, gram
from . import _sgd
from .mixed import ClassDraws, Samples
from .steps import Chunks, Rates, finite_weights, follow, stacked


class DirectOptions(NamedTuple):
    """Tunable numbers of direct runs."""

    # Singular values of the class means below this, relative to the largest, count as zero: rounding is 1e-16, so that
    # halving or doubling changes nothing unless the means are nearly dependent.
    rank_tol: float = 1e-10
    # Normal numbers drawn at once. With half as many calls of the generator take more time, with twice as many the
    # array leaves the cache. Results depend on it as on a seed.
    chunk_normals: int = 2**16


DIRECT = DirectOptions()


def direct_run(
    model, start, N, steps, rng, tick=None, dtype="float64", evaluator=None, keep=False, rows=None, stride=1
):
    """Run SGD from weights whose overlaps are exactly ``start``; record the overlaps at ``steps``.

    Parameters
    ----------
    model, start : Model, State
        The learning problem and its start.
    N : int
        Input dimension.
    steps : ndarray of int
        Increasing step counts at which overlaps are recorded.
    rng : numpy.random.Generator
        Source of the weights' orientation, the inputs and the noise.
    tick : callable, optional
        Called with the number of steps done.
    dtype : {"float64", "float32"}
        Precision of weights and inputs. Single precision changes the overlaps by rounding errors of about 1e-6, far
        below the fluctuations at any N. It saves memory but little time, because drawing normals takes most of it.
    evaluator : ScheduleEvaluator, optional
        Factors on the numbers of the model; step n happens at alpha = n / N, the first one at ``start.alpha``.
    keep : bool
        Whether to return the students of the last record.
    rows : Rows, optional
        Inputs that are drawn in place of Gaussian ones.
    stride : int
        Steps of 1/N by which a step advances alpha.

    Returns
    -------
    q, r, v : ndarray, shape (n, L, K, K), (n, L, K, M + C), (n, K)
        Kernel arrays, the last C columns of r for the centroids of inputs in classes; shorter than ``steps`` when the
        run was interrupted, and ending with nan when it diverged.
    test_error, test_error_se : ndarray, shape (n,)
        Only with test rows.
    W : ndarray, shape (1, K, N)
        Only with ``keep``: in the coordinates of the inputs.
    """
    sizes = model.block_sizes(N)
    K, M = model.K, model.M
    joint = model.plain_overlaps(start)
    means, basis = model.means_at(N) if model.n_classes and model.means is not None else None, model.spectrum.basis
    means = means if means is None or basis is None else means @ basis  # weights are in eigenvector coordinates
    if rows is None or rows.weights is None:
        W, static = weights_with_overlaps(start, sizes, rng, joint, means)
    else:
        W, static = (x.copy() for x in rows.weights)
    coordinates = W.shape[1]  # N and those of constant inputs
    W, W_star = W.astype(dtype), np.ascontiguousarray(static[:M], dtype)
    factor, v, _static_factors = np.ones(1), np.array(start.v), model._static_factors
    norms = kept_norms(model, W)
    v, functions = step_arguments(model, v, np.repeat(model.spectrum.s, sizes), start.T)
    rates = Rates(model, N, np.rint(start.alpha * N), evaluator, stride)
    rates.rows *= coordinates / N  # because the steps divide by the number of coordinates
    if rows is not None:
        rows.check_supply(Rates(model, N, rates.step, evaluator, stride), steps[-1])
    source = _Inputs if rows is None else partial(_RowInputs, rows)
    inputs = source(model, sizes, rng, dtype, static[M:] / np.sqrt(coordinates))
    drift = _TeacherDrift(model, start, sizes, rng, dtype) if model.drift else None
    samples = Samples(model, rng, N, rates.step, evaluator, stride)
    inputs.noise = 1.0 if samples.mixed else inputs.noise

    def step(limit):
        limit, changed = rates.left(limit)
        X, xi, labels = inputs.take(limit, changed, rates.batch)
        numbers, which, scales, noises = samples.step_inputs(rates, xi, labels, X.shape[1])
        if scales is not None:
            X = X * np.repeat(scales, sizes, axis=2).astype(dtype)
        if samples.has_own_steps:
            samples.direct(W, factor, W_star, v, X, noises, which, numbers)
            return len(X)
        for i, j in samples.segments(len(X), scales, functions[0], inputs.block):
            common = W, factor, W_star, v, model.v_star, X[i:j], noises[i:j], *functions, numbers[i:j], norms
            if drift is None:
                _sgd.direct_steps(*common)
            else:
                _sgd.drifting_steps(*common, drift.persistence, drift.take(j - i))
        return len(X)

    last = np.zeros((0, *W.shape))

    def record():
        nonlocal last
        last, static[:M] = finite_weights(W, factor, v)[None], W_star  # teachers may drift
        q, r, _ = block_overlaps(last[0], static, sizes)
        tested = () if rows is None else rows.error(model, last[0], static[:M], v)
        return q, _static_factors[:, None] * r, v.copy(), *tested

    records, L = follow(steps, step, record, tick), len(sizes)
    tested = () if rows is None or rows.test is None else ((), ())
    curves = stacked(records, (L, K, K), (L, K, len(static)), start.v.shape, *tested)
    last = last[: len(records)] * (np.nan if np.isnan(curves[2][-1:]).any() else np.sqrt(N / coordinates))
    last = last[..., np.repeat(model.spectrum.block_sizes(N) > 0, sizes)]  # without those of constant inputs
    return (*curves, last if basis is None else last @ basis.T) if keep else curves


class _Inputs(Chunks):
    """Inputs x (., batch T, N) with T tokens for each sample; label noise and labels (., batch)."""

    def __init__(self, model, sizes, rng, dtype, centroids):
        self.rng, self.noise_rng, *rest = rng.spawn(3 if model.n_classes else 2)
        self.block = block = np.repeat(np.arange(len(sizes)), sizes)
        self.classes = ClassDraws(model, rest[0], centroids, block) if rest else None
        self.noise, self.rule, self.tokens = model.noise, model.rule, tokens_of(model)
        self.root = np.repeat(np.sqrt(model.spectrum.s), sizes).astype(dtype)
        self.scaled = bool(np.any(self.root != 1))

    def draw(self, batch):
        """A chunk of about ``DIRECT.chunk_normals`` normals."""
        rows = batch * self.tokens.shape[-1]
        X = self.sample(max(1, DIRECT.chunk_normals // (len(self.root) * rows)), rows)
        shape = len(X), batch
        labels = np.zeros(shape) if self.classes is None else self.classes.enter(X)
        if self.rule is not None:
            return X, self.rule.draw(self.noise_rng, shape), labels
        return X, self.noise * self.noise_rng.standard_normal(shape), labels

    def sample(self, length, rows):
        """Inputs (length, rows, N) without class means."""
        X = self.rng.standard_normal((length, rows, len(self.root)), dtype=self.root.dtype)
        if self.tokens.ndim == 3:
            for i, root in enumerate(self.tokens):
                X[..., self.block == i] = correlated(X[..., self.block == i], root)
        else:
            X = correlated(X, self.tokens)
        if self.scaled:
            X *= self.root
        return X


class _RowInputs(_Inputs):
    """Rows of a data set, drawn with replacement, or each once in random order."""

    def __init__(self, rows, *arguments):
        super().__init__(*arguments)
        self.X, self.taken = rows.X.astype(self.root.dtype), 0
        self.order = None if rows.replace else self.rng.permutation(len(self.X))

    def sample(self, length, rows):
        """The next rows; those of the last chunk that no step took come again."""
        if self.order is None:
            return self.X[self.rng.integers(len(self.X), size=(length, rows))]
        self.taken -= math.prod(self.left[0].shape[:2]) if self.left else 0
        length = min(length, (len(self.X) - self.taken) // rows)
        first, self.taken = self.taken, self.taken + length * rows
        return self.X[self.order[first : self.taken].reshape(length, rows)]


class _TeacherDrift:
    """Gaussian increments of drifting teachers, with the overlaps of the teachers in each eigenspace."""

    def __init__(self, model, start, sizes, rng, dtype):
        N = int(np.sum(sizes))
        if 2 * model.drift > N:
            raise ValueError(
                f"drift = {model.drift:g} at N = {N}; expected at most N / 2, at which each step draws w* anew."
            )
        self.rng, self.sizes, self.dtype = rng.spawn(1)[0], sizes, dtype
        self.persistence = np.sqrt(1 - 2 * model.drift / N)
        self.roots = []
        for t, n in zip(start.plain[2], sizes, strict=True):
            values, vectors = np.linalg.eigh(t)
            self.roots.append(vectors * np.sqrt(2 * model.drift * np.maximum(values, 0.0) / max(n, 1)))

    def take(self, steps):
        """Increments (steps, M, N) of the teachers' weights in the next steps."""
        M, N = len(self.roots[0]), int(np.sum(self.sizes))
        normals = np.split(self.rng.standard_normal((steps, M, N)), np.cumsum(self.sizes)[:-1], axis=2)
        blocks = [root @ normal for root, normal in zip(self.roots, normals, strict=True)]
        return np.ascontiguousarray(np.concatenate(blocks, axis=2), dtype=self.dtype)


def tokens_of(model):
    """Square root (T, T) or (L, T, T) of the covariance of the T inputs in a sample: 1 unless a rule has tokens."""
    return np.ones((1, 1)) if model.rule is None else model.rule.token_root


def correlated(x, root):
    """Multiply the T rows of each of b samples in x (..., b T, n) by this root (T, T).

    A root (L, T, T), one for each eigenspace, takes x (..., L, b T, n).
    """
    if root.shape[-1] == 1 or root.ndim == 2 and np.array_equal(root, np.eye(len(root))):
        return x
    root = root if root.ndim == 2 else root[:, None]
    return (root.astype(x.dtype) @ x.reshape(*x.shape[:-2], -1, root.shape[-1], x.shape[-1])).reshape(x.shape)


def kept_norms(model, W):
    """Squared lengths (K,) of the students' weights under the constraint of spheres; (0,) without the constraint."""
    return np.sum(W.astype(float) ** 2, axis=1) if model.spherical else np.zeros(0)


def advance(model, W, factor, v, X, nu, xi, rates, norms):
    """One step per input in X (steps, batch, N), with teacher fields nu (steps, batch, M), noise xi (steps, batch).

    ``rates`` (steps, 4) are those of :class:`Rates`, ``norms`` those of ``kept_norms``. The students' weights are
    ``factor[0] W``; W, factor (1,) and v change in place.
    """
    _sgd.steps_with_teacher_fields(W, factor, v, model.v_star, X, nu, xi, *step_arguments(model)[1], rates, norms)


def step_arguments(model, v=None, s=None, T=None):
    """Second layer and functions as the compiled steps take them: a rule appends its numbers to v."""
    if model.rule is not None:
        return model.rule.simulated(v, s, T)
    return v, (model.activation.compiled, model.teacher_activation.compiled)


def weights_with_overlaps(start, sizes, rng, joint=None, means=None):
    """Randomly oriented weights W (K, N), W_star (M, N) whose block overlaps are exactly those of ``start``.

    ``joint`` (L, K + M, K + M) are these plain overlaps, if there are more static rows than teachers; ``means`` (C, N)
    are the last of the static rows over sqrt(N), if given.

    Raises
    ------
    ValueError
        A block has fewer coordinates than its overlaps have independent directions.
    """
    K, N = start.K, int(np.sum(sizes))
    joint, means = gram(*start.plain) if joint is None else joint, np.zeros((0, N)) if means is None else means
    free, edge = joint.shape[1] - len(means), 0
    rows = np.empty((free, N))
    for block, (overlap, n) in enumerate(zip(joint, sizes, strict=True)):
        centroids = means[:, edge : edge + n]
        _, values, frame = np.linalg.svd(centroids, full_matrices=False)
        frame = frame[values > DIRECT.rank_tol * values.max(initial=1e-300)]  # an orthonormal basis of the means
        in_frame = overlap[:free, free:] @ np.linalg.pinv(centroids @ frame.T).T
        factor = overlap_factor(overlap[:free, :free] - in_frame @ in_frame.T, n - len(frame), block)
        orthogonal = rng.standard_normal((n, factor.shape[1]))
        orthogonal = np.linalg.qr(orthogonal - frame.T @ (frame @ orthogonal))[0]
        rows[:, edge : edge + n] = np.sqrt(N) * factor @ orthogonal.T + np.sqrt(N) * in_frame @ frame
        edge += n
    return np.ascontiguousarray(rows[:K]), np.concatenate([rows[K:], np.sqrt(N) * means])
