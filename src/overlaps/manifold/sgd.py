"""SGD on the hidden manifold: inputs x = f(F c / sqrt(D)) - a, one matrix product per block of samples."""

from functools import partial

import numpy as np

from .._base import check
from ..simulators.direct import advance
from ..simulators.records import follow, sound, stacked
from .latents import gaussian
from .realisation import input_means, second_moments
from .weights import Weights, _check_inputs, _drawn, _given_weights, random_weights

__all__ = ["manifold_run"]


def manifold_plan(
    model, N, children, start, method, student_scale, dtype, *, weights, latents, center, block, moments, normalise_rows
):
    """(method, simulator, weights of each run), after every check that can be made before the runs."""
    check.flag("normalise_rows", normalise_rows)
    if start is not None:
        raise ValueError(
            "start= gives overlaps on the nodes of a limit, which no weights have one by one; expected "
            "weights=(W, W_star, F), or neither: runs.realisation(i) is then the start of the theory of run i."
        )
    if method not in ("auto", "direct"):
        raise ValueError(f"method = {check.shown(method)}; expected 'auto' or 'direct' for the hidden manifold.")
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
    W, factor, v = weights.W.astype(dtype), np.ones(1), np.array(model.v)
    inputs = _Inputs(model, weights, rng, latents, center, block, dtype)

    def step(limit):
        X, nu, xi = inputs.take(limit)
        advance(model, W, factor, v, X, nu, xi)
        return len(X)

    records = follow(steps, step, lambda: (sound(W, factor, v), v.copy()), tick)
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
