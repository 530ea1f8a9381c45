"""SGD on the hidden manifold: inputs x = f(F c / sqrt(D)) - a, one matrix product per block of samples."""

import warnings
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import _check
from .direct import advance, follow, sound, stacked
from .latents import gaussian
from .realisation import input_means, normalise_feature_rows, second_moments

__all__ = ["Weights", "manifold_run", "random_weights"]


class Weights(NamedTuple):
    """Where a run begins: students W (K, N), teachers on the latents W_star (M, D), features F (N, D)."""

    W: Any
    W_star: Any
    F: Any


def random_weights(model, *, N, rng, student_scale=1.0):
    """Independent weights of a hidden manifold: W of N(0, student_scale^2), W_star of N(0, 1), F with normalised rows.

    Parameters
    ----------
    model : HiddenManifold
        Gives K, M and D = ratio N.
    N : int
        Input dimension.
    rng : int or numpy.random.Generator
        Seed or generator.
    student_scale : float
        Standard deviation of the students' weights, >= 0.

    Returns
    -------
    Weights
        ``model.realisation(**weights._asdict())`` are its overlaps, ``simulate(..., weights=weights)`` its runs.

    Raises
    ------
    ValueError
        ratio N is not an integer; the message names the nearest N for which it is.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.manifold_sgd import random_weights
    >>> weights = random_weights(ov.hidden_manifold(2, 1, ratio=0.5, eta=0.2), N=100, rng=1)
    >>> weights.W.shape, weights.W_star.shape, weights.F.shape
    ((2, 100), (1, 50), (100, 50))
    """
    N, scale = _check.count("N", N), _check.number("student_scale", student_scale, least=0)
    if not getattr(model, "latent_teacher", False):
        raise ValueError(f"model = {_check.shown(model)}; expected one made by ov.hidden_manifold.")
    rng = _check.generator(rng)
    D = _latent_dimension(N, model.ratio)
    return Weights(
        scale * rng.standard_normal((model.K, N)),
        rng.standard_normal((model.M, D)),
        normalise_feature_rows(rng.standard_normal((N, D))),
    )


def _latent_dimension(N, ratio):
    D = round(N * ratio)
    if D < 1 or abs(D - N * ratio) > 1e-6 * D:
        unit = Fraction(ratio).limit_denominator(10**6).denominator
        raise ValueError(
            f"N = {N} with ratio = {ratio:g} gives D = {N * ratio:g} latents; expected an integer. "
            f"Try N = {max(1, round(N / unit)) * unit}, or pass weights=, which set D."
        )
    return D


def manifold_plan(
    model, N, children, start, method, student_scale, dtype, *, weights, latents, center, block, moments, normalise_rows
):
    """(method, simulator, weights of each run), after every check that can be made before the runs."""
    _check.flag("normalise_rows", normalise_rows)
    if start is not None:
        raise ValueError(
            "start= gives overlaps on the nodes of a limit, which no weights have one by one; expected "
            "weights=(W, W_star, F), or neither: runs.realisation(i) is then the start of the theory of run i."
        )
    if method not in ("auto", "direct"):
        raise ValueError(f"method = {_check.shown(method)}; expected 'auto' or 'direct' for the hidden manifold.")
    if weights is None:
        starts = [random_weights(model, N=N, rng=child, student_scale=student_scale) for child in children]
    else:
        starts = _given_weights(model, N, weights, len(children), normalise_rows)
    latents = gaussian(model.latent_scale) if latents is None else latents
    _check_inputs(model, starts[0].F.shape[1], latents, center, block)
    options = dict(latents=latents, center=center, block=block, dtype=dtype or "float32", moments=moments)
    return "direct", partial(manifold_run, **options), starts


def manifold_constants(model, starts):
    """Weights of all runs, stacked, and their teacher covariances T."""
    T = [model.latent_scale**2 * (w.W_star @ w.W_star.T) / w.W_star.shape[1] for w in starts]
    one = all(w is starts[0] for w in starts)
    stack = {x: [getattr(w, x) for w in starts] for x in Weights._fields}
    # F is large: runs that share it share its memory
    return {"T": np.stack(T)} | {
        x: np.broadcast_to(arrays[0], (len(starts), *arrays[0].shape)) if one else np.stack(arrays)
        for x, arrays in stack.items()
    }


def _given_weights(model, N, weights, runs, normalise_rows):
    """One checked triple per run."""
    sequence = isinstance(weights, tuple | list) and len(weights) > 0
    if sequence and all(isinstance(w, tuple | list) and len(w) == 3 and np.ndim(w[0]) == 2 for w in weights):
        if len(weights) != runs:
            raise ValueError(
                f"weights has {len(weights)} tuples (W, W_star, F); expected one, or runs = {runs} of them."
            )
        checked = [_checked_weights(model, N, w, normalise_rows) for w in weights]
        if len({w.F.shape for w in checked}) > 1:
            raise ValueError(f"the F in weights differ in shape: {[w.F.shape for w in checked]}; expected one D.")
        return checked
    if not sequence or len(weights) != 3:
        raise ValueError(
            f"weights = {_check.shown(weights)}; expected (W, W_star, F), or a list of one such tuple per run."
        )
    return [_checked_weights(model, N, weights, normalise_rows)] * runs


def _checked_weights(model, N, weights, normalise_rows):
    """The arrays of one run, with shapes that fit the model and each other."""
    W = _check.array("W", weights[0], (model.K, N))
    F = _check.array("F", weights[2], (N, "D"))
    W_star = _check.array("W_star", weights[1], (model.M, F.shape[1]), f"F has shape {F.shape}.")
    if abs(F.shape[1] - model.ratio * N) >= 1:
        raise ValueError(
            f"F has shape (N, D) = {F.shape}; expected D near ratio N = {model.ratio * N:g}. "
            f"Use hidden_manifold(..., ratio={F.shape[1] / N:g})."
        )
    return Weights(W, W_star, normalise_feature_rows(F) if normalise_rows else F)


def _check_inputs(model, D, latents, center, block):
    """Refuse, before any run, what would end one."""
    _check.count("block", block)
    if not callable(latents):
        raise ValueError(
            f"latents = {_check.shown(latents)}; expected a callable (rng, n, D) such as overlaps.latents.gaussian()."
        )
    _drawn(latents, np.random.default_rng(0), 2, D)
    if not _check.flag("center", center) and model.features.a != 0:
        warnings.warn(
            f"center=False with features = {model.features}, whose mean is a = {model.features.a:.3g}: the inputs have "
            "a mean vector of squared norm a^2 N, so the mean of every student's field jumps by O(1) in each step. "
            "That noise never averages out, and no equation in alpha describes the run. Expected center=True.",
            RuntimeWarning,
            stacklevel=4,
        )


def manifold_run(model, weights, N, steps, rng, tick=None, *, latents, center, block, dtype, moments):
    """Run SGD from explicit weights; record the overlaps at ``steps``.

    Parameters
    ----------
    model, weights : HiddenManifold, Weights
        What is learned, from where, and with which features.
    N : int
        Input dimension.
    steps : ndarray of int
        Increasing step counts at which overlaps are recorded.
    rng : numpy.random.Generator
        Source of latents and noise.
    tick : callable, optional
        Called with the number of steps done.
    latents, center, block, dtype, moments
        As in :func:`overlaps.simulate`.

    Returns
    -------
    Q, R, v : ndarray, shape (n, K, K), (n, K, M), (n, K)
        Shorter than ``steps`` when the run was interrupted, and ending with nan when it diverged.
    """
    Omega, Phi = second_moments(model.features, weights.F, moments)  # first: it refuses what does not fit
    W, v = weights.W.astype(dtype), np.array(model.v)
    inputs = _Inputs(model, weights, rng, latents, center, block, dtype)

    def step(limit):
        X, nu, xi = inputs.take(limit)
        advance(model, W, v, X, nu, xi)
        return len(X)

    records = follow(steps, step, lambda: (sound(W, v), v.copy()), tick)
    students, v = stacked(records, W.shape, v.shape)
    return *_overlaps(students, weights.W_star, Omega, Phi), v


def _overlaps(W, W_star, Omega, Phi):
    """Q = W Omega W^T / N and R = W Phi W_star^T / sqrt(N D) of students W (n, K, N): one product for all records."""
    N, D = Phi.shape
    Q = (W.reshape(-1, N) @ Omega).reshape(W.shape) @ W.swapaxes(1, 2) / N
    return (Q + Q.swapaxes(1, 2)) / 2, W @ (Phi @ W_star.T) / np.sqrt(N * D)


class _Inputs:
    """Centred features, teacher fields and label noise in blocks; the stream does not depend on how it is cut."""

    def __init__(self, model, weights, rng, latents, center, block, dtype):
        self.rng, self.noise_rng = rng.spawn(2)
        self.features = model.features
        centred = center and model.features.a != 0
        self.mean = input_means(model.features, weights.F).astype(dtype) if centred else None
        self.batch, self.noise, self.latents = model.batch_size, model.noise, latents
        self.length = max(1, block // self.batch)
        root = np.sqrt(weights.F.shape[1])
        self.F, self.W_star = (weights.F / root).astype(dtype), weights.W_star / root
        self.X = np.empty((0, self.batch, len(self.F)), dtype=dtype)
        self.nu = self.xi = np.empty((0, self.batch))

    def take(self, steps):
        """At most ``steps`` further inputs X (., batch, N), teacher fields nu (., batch, M), noises xi (., batch)."""
        if len(self.X) == 0:
            self._draw()
        parts = self.X[:steps], self.nu[:steps], self.xi[:steps]
        self.X, self.nu, self.xi = self.X[steps:], self.nu[steps:], self.xi[steps:]
        return parts

    def _draw(self):
        N, D = self.F.shape
        shape, dtype = (self.length, self.batch), self.F.dtype
        c = _drawn(self.latents, self.rng, self.length * self.batch, D)
        self.nu = (c @ self.W_star.T).reshape(*shape, -1)
        X = np.asarray(self.features(c.astype(dtype) @ self.F.T), dtype=dtype)
        if self.mean is not None:
            X -= self.mean
        self.X = X.reshape(*shape, N)
        self.xi = self.noise * self.noise_rng.standard_normal(shape)


def _drawn(latents, rng, n, D):
    """Latents (n, D) in double precision, so that a seed gives one stream in either precision of the inputs."""
    c = np.asarray(latents(rng, n, D))
    if c.shape != (n, D) or c.dtype.kind not in "biuf":
        raise ValueError(f"latents(rng, {n}, {D}) has shape {c.shape}, type {c.dtype}; expected numbers ({n}, {D}).")
    if not np.isfinite(c.sum()):
        raise ValueError(f"latents(rng, {n}, {D}) contains nan or inf; expected finite numbers.")
    return c.astype(float, copy=False)
