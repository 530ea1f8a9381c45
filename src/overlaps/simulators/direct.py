"""Direct SGD: explicit weights in x-space, inputs drawn one by one."""

import numpy as np

from ..models.start import overlap_factor
from ..models.state import block_overlaps, gram
from . import _sgd
from .mixed import Draws, Samples
from .steps import Chunks, Rates, follow, sound, stacked

RANK = 1e-10  # of class means: singular values, relative to the largest, that are rounding
CHUNK = 2**16  # normals drawn at once: long enough to amortise the call, short enough to stay in cache


def direct_run(model, start, N, steps, rng, tick=None, dtype="float64", evaluator=None, keep=False):
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
        Precision of weights and inputs. Single precision moves the overlaps by rounding, about 1e-6, far below the
        fluctuations of any N; it saves memory and a little time, most of which goes into drawing normals.
    pace : Pace, optional
        Factors on the numbers of the model; step n happens at alpha = n / N, and the first at the start's.
    keep : bool
        Whether to hand on the students of the last record.

    Returns
    -------
    q, r, v : ndarray, shape (n, L, K, K), (n, L, K, M + C), (n, K)
        Kernel arrays, the last C columns of r for the centroids of inputs in classes; shorter than ``steps`` when the
        run was interrupted, and ending with nan when it diverged.
    W : ndarray, shape (1, K, N)
        With ``keep`` only, in the coordinates of the inputs.
    """
    sizes = model.spectrum.block_sizes(N)
    K, M = model.K, model.M
    joint = model.plain_overlaps(start)
    means, basis = model.means_at(N) if model.n_classes and model.means is not None else None, model.spectrum.basis
    means = means if means is None or basis is None else means @ basis  # kept weights lie as they should beside them
    W, static = weights_with_overlaps(start, sizes, rng, joint, means)
    W, W_star = W.astype(dtype), np.ascontiguousarray(static[:M], dtype)
    factor, v, _static_factors = np.ones(1), np.array(start.v), model._static_factors
    norms = kept_norms(model, W)
    v, functions = in_steps(model, v, np.repeat(model.spectrum.s, sizes), start.T)
    rates = Rates(model, N, np.rint(start.alpha * N), evaluator)
    inputs = _Inputs(model, sizes, rng, dtype, static[M:] / np.sqrt(N))
    wanderings = _Wanderings(model, start, sizes, rng, dtype) if model.drift else None
    samples = Samples(model, rng, N, rates.step, evaluator)
    inputs.noise = 1.0 if samples.mixed else inputs.noise

    def step(limit):
        limit, changed = rates.left(limit)
        X, xi, labels = inputs.take(limit, changed, rates.batch)
        rows, which, scales, noises = samples.of_steps(rates, xi, labels, X.shape[1])
        if scales is not None:
            X = X * np.repeat(scales, sizes, axis=2).astype(dtype)
        if samples.steps_of_their_own:
            samples.direct(W, factor, W_star, v, X, noises, which, rows)
            return len(X)
        for i, j in samples.pieces(len(X), scales, functions[0], inputs.block):
            common = W, factor, W_star, v, model.v_star, X[i:j], noises[i:j], *functions, rows[i:j], norms
            if wanderings is None:
                _sgd.direct_steps(*common)
            else:
                _sgd.drifting_steps(*common, wanderings.keep, wanderings.take(j - i))
        return len(X)

    last = np.zeros((0, *W.shape))

    def record():
        nonlocal last
        last, static[:M] = sound(W, factor, v)[None], W_star  # teachers may drift
        q, r, _ = block_overlaps(last[0], static, sizes)
        return q, _static_factors[:, None] * r, v.copy()

    records, L = follow(steps, step, record, tick), len(sizes)
    overlaps = stacked(records, (L, K, K), (L, K, len(static)), start.v.shape)
    last = last[: len(records)] * (np.nan if np.isnan(overlaps[2][-1:]).any() else 1.0)
    return (*overlaps, last if basis is None else last @ basis.T) if keep else overlaps


class _Inputs(Chunks):
    """Inputs x (., batch T, N), T tokens of each sample; label noise and labels (., batch)."""

    def __init__(self, model, sizes, rng, dtype, centroids):
        self.rng, self.noise_rng, *rest = rng.spawn(3 if model.n_classes else 2)
        self.block = block = np.repeat(np.arange(len(sizes)), sizes)
        self.draws = Draws(model, rest[0], centroids, block) if rest else None
        self.noise, self.rule, self.tokens = model.noise, model.rule, tokens_of(model)
        self.root = np.repeat(np.sqrt(model.spectrum.s), sizes).astype(dtype)

    def draw(self, batch):
        """A block of about as many normals as the cache holds."""
        N, rows = len(self.root), batch * self.tokens.shape[-1]
        length = max(1, CHUNK // (N * rows))
        X = self.rng.standard_normal((length, rows, N), dtype=self.root.dtype)
        if self.tokens.ndim == 3:
            for i, root in enumerate(self.tokens):
                X[..., self.block == i] = correlated(X[..., self.block == i], root)
        else:
            X = correlated(X, self.tokens)
        if np.any(self.root != 1):
            X *= self.root
        labels = np.zeros((length, batch)) if self.draws is None else self.draws.enter(X)
        if self.rule is not None:
            return X, self.rule.draw(self.noise_rng, (length, batch)), labels
        return X, self.noise * self.noise_rng.standard_normal((length, batch)), labels


class _Wanderings:
    """Gain of the teachers in each step of their drift: Gaussian, with their own overlaps in each eigenspace."""

    def __init__(self, model, start, sizes, rng, dtype):
        N = int(np.sum(sizes))
        if 2 * model.drift > N:
            raise ValueError(
                f"drift = {model.drift:g} at N = {N}; expected at most N / 2, where w* is new at each step."
            )
        self.rng, self.sizes, self.dtype = rng.spawn(1)[0], sizes, dtype
        self.keep = np.sqrt(1 - 2 * model.drift / N)
        self.roots = []
        for t, n in zip(start.plain[2], sizes, strict=True):
            values, vectors = np.linalg.eigh(t)
            self.roots.append(vectors * np.sqrt(2 * model.drift * np.maximum(values, 0.0) / max(n, 1)))

    def take(self, steps):
        """Weights of the teachers at the next steps (steps, M, N)."""
        M, N = len(self.roots[0]), int(np.sum(self.sizes))
        normals = np.split(self.rng.standard_normal((steps, M, N)), np.cumsum(self.sizes)[:-1], axis=2)
        parts = [root @ normal for root, normal in zip(self.roots, normals, strict=True)]
        return np.ascontiguousarray(np.concatenate(parts, axis=2), dtype=self.dtype)


def tokens_of(model):
    """The root (T, T) of the covariance of the T inputs in a sample, or (L, T, T): 1, but for some rules."""
    return np.ones((1, 1)) if model.rule is None else model.rule.token_root


def correlated(x, root):
    """Rows (..., b T, n) of b samples, each T independent ones times this root (T, T): a triangle remains one.

    A root (L, T, T) of each eigenspace takes x (..., L, b T, n).
    """
    if root.ndim == 2 and np.array_equal(root, np.eye(len(root))):
        return x
    root = root if root.ndim == 2 else root[:, None]
    return (root.astype(x.dtype) @ x.reshape(*x.shape[:-2], -1, root.shape[-1], x.shape[-1])).reshape(x.shape)


def kept_norms(model, W):
    """Squared lengths (K,) of the students' weights that the model keeps: none, (0,), where they are free."""
    return np.sum(W.astype(float) ** 2, axis=1) if model.spherical else np.zeros(0)


def advance(model, W, factor, v, X, nu, xi, rates, norms):
    """One step per input in X (steps, batch, N), with teacher fields nu (steps, batch, M), noise xi (steps, batch).

    ``rates`` (steps, 4) are those of :class:`Rates`, ``norms`` those of ``kept_norms``. The students' weights are
    ``factor[0] W``; W, factor (1,) and v change in place.
    """
    _sgd.taught_steps(W, factor, v, model.v_star, X, nu, xi, *in_steps(model)[1], rates, norms)


def in_steps(model, v=None, s=None, T=None):
    """How steps take v and the functions of a model: a rule finds its numbers behind v, and itself keeps the rest."""
    if model.rule is not None:
        return model.rule.simulated(v, s, T)
    return v, (model.activation.compiled, model.teacher_activation.compiled)


def weights_with_overlaps(start, sizes, rng, joint=None, means=None):
    """Weights W (K, N), W_star (M, N) whose block overlaps are exactly those of ``start``, randomly oriented.

    ``joint`` (L, K + M, K + M) are these plain overlaps, where there are more static rows than teachers; ``means``
    (C, N) are the last of these rows over sqrt(N), where they are given.

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
        frame = frame[values > RANK * values.max(initial=1e-300)]  # an orthonormal basis of the means
        in_frame = overlap[:free, free:] @ np.linalg.pinv(centroids @ frame.T).T
        factor = overlap_factor(overlap[:free, :free] - in_frame @ in_frame.T, n - len(frame), block)
        beside = rng.standard_normal((n, factor.shape[1]))
        beside = np.linalg.qr(beside - frame.T @ (frame @ beside))[0]
        rows[:, edge : edge + n] = np.sqrt(N) * factor @ beside.T + np.sqrt(N) * in_frame @ frame
        edge += n
    return np.ascontiguousarray(rows[:K]), np.concatenate([rows[K:], np.sqrt(N) * means])
