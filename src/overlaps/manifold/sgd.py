"""SGD on the hidden manifold: inputs x = f(F c / sqrt(D)) - a, one matrix product per block of samples."""

from functools import partial

import numpy as np

from .._base import check
from ..models.state import gram
from ..simulators.direct import advance, kept_norms
from ..simulators.plan import Plan, plan
from ..simulators.rates import Rates
from ..simulators.records import follow, sound, stacked
from .ensemble import ManifoldEnsemble
from .fresh import Samples, field_deviation, sample_error, warn_of_errors, warn_of_moments
from .latents import gaussian
from .model import HiddenManifold
from .realisation import second_moments
from .weights import Weights, _check_inputs, _given_weights, random_weights

__all__ = ["manifold_run"]

TEST = 4096  # fresh samples for a test error, and for the moments of the fields


@plan.register
def manifold_plan(
    model: HiddenManifold,
    N,
    children,
    start,
    method,
    student_scale,
    dtype,
    pace=None,
    *,
    weights=None,
    latents=None,
    center=True,
    block=1024,
    moments="ge",
    normalise_rows=True,
    test=None,
):
    """The Plan of a hidden manifold: each run has weights, hence a spectrum, of its own."""
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
    test = _test_size(test, latents)
    law = gaussian(model.latent_scale) if latents is None else latents
    _check_inputs(model, starts[0].F.shape[1], law, center, block)
    if latents is not None:
        warn_of_moments(_start_deviation(model, starts[0], law, center, block, moments), latents)
    options = dict(latents=law, center=center, block=block, dtype=dtype or "float32", moments=moments, test=test)
    options["pace"] = pace
    return Plan("direct", partial(manifold_run, **options), starts, partial(_gathered, moments=moments))


def _gathered(records, starts, *, model, **common):
    """The record of all runs, with their weights and teacher covariances T."""
    Q, R, v, *tested = records
    T = [model.latent_scale**2 * (w.W_star @ w.W_star.T) / w.W_star.shape[1] for w in starts]
    one = all(w is starts[0] for w in starts)
    stack = {x: [getattr(w, x) for w in starts] for x in Weights._fields}
    # F is large: runs that share it share its memory
    common |= {
        x: np.broadcast_to(arrays[0], (len(starts), *arrays[0].shape)) if one else np.stack(arrays)
        for x, arrays in stack.items()
    }
    common |= dict(zip(("test_error", "test_error_se"), tested, strict=False))
    found = ManifoldEnsemble(model=model, Q=Q, R=R, v=v, T=np.stack(T), **common)
    if tested:
        warn_of_errors(found.alpha, found.eps_g, *tested)
    return found


def _test_size(test, latents):
    """Fresh samples of each run."""
    if test is None:
        return 0 if latents is None else TEST
    test = check.count("test", test, least=0)
    if test == 1:
        raise ValueError("test = 1; expected at least 2 fresh samples, for a standard error, or 0 for no test.")
    return test


def _start_deviation(model, weights, latents, center, block, moments):
    """How far the fields at the start of a run are from having the model's moments; the stream is not that of a run."""
    Q, R = _overlaps(weights.W[None], weights.W_star, *second_moments(model.features, weights.F, moments))
    T = model.latent_scale**2 * weights.W_star @ weights.W_star.T / weights.F.shape[1]
    samples = Samples.of(model, weights, latents, center)
    return field_deviation(samples, weights.W, gram(Q[0], R[0], T), TEST, block, np.random.default_rng(0))


def manifold_run(model, weights, N, steps, rng, tick=None, *, latents, center, block, dtype, moments, test, pace=None):
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
    latents, center, block, dtype, moments, test, pace
        As in :func:`overlaps.simulate`.

    Returns
    -------
    Q, R, v : ndarray, shape (n, K, K), (n, K, M), (n, K)
        Shorter than ``steps`` when the run was interrupted, and ending with nan when it diverged.
    test_error, test_error_se : ndarray, shape (n,)
        With ``test`` only.
    """
    Omega, Phi = second_moments(model.features, weights.F, moments)  # first: it refuses what does not fit
    W, factor, v = weights.W.astype(dtype), np.ones(1), np.array(model.v)
    norms = kept_norms(model, W)
    samples = Samples.of(model, weights, latents, center, dtype)
    rates = Rates(model, N, 0, pace)
    inputs = _Inputs(model, samples, rng, block, rates.batch)

    def step(limit):
        limit, changed = rates.left(limit)
        X, nu, xi = inputs.take(limit, changed, rates.batch)
        rows, noise = rates.take(len(X))
        advance(model, W, factor, v, X, nu, xi if noise is None else noise[:, None] * xi, rows, norms)
        return len(X)

    records = follow(steps, step, lambda: (sound(W, factor, v), v.copy()), tick)
    students, v = stacked(records, W.shape, v.shape)
    found = *_overlaps(students, weights.W_star, Omega, Phi), v
    # the next child of the run's generator: the stream of the run does not know of the test
    return (*found, *sample_error(model, samples, students, v, test, block, rng.spawn(1)[0])) if test else found


def _overlaps(W, W_star, Omega, Phi):
    """Q = W Omega W^T / N and R = W Phi W_star^T / sqrt(N D) of students W (n, K, N): one product for all records."""
    N, D = Phi.shape
    Q = (W.reshape(-1, N) @ Omega).reshape(W.shape) @ W.swapaxes(1, 2) / N
    return (Q + Q.swapaxes(1, 2)) / 2, W @ (Phi @ W_star.T) / np.sqrt(N * D)


class _Inputs:
    """Centred features, teacher fields and label noise in blocks; the stream does not depend on how it is cut."""

    def __init__(self, model, samples, rng, block, batch):
        self.rng, self.noise_rng = rng.spawn(2)
        self.samples, self.block, self.noise = samples, block, model.noise
        self.X = np.empty((0, batch, len(samples.F)), dtype=samples.F.dtype)
        self.nu = self.xi = np.empty((0, batch))

    def take(self, steps, changed, batch):
        """At most ``steps`` further inputs X (., batch, N), teacher fields nu (., batch, M), noises xi (., batch).

        All of them are new if ``changed``.
        """
        if len(self.X) == 0 or changed:
            shape = max(1, self.block // batch), batch
            X, nu = self.samples.draw(self.rng, shape[0] * batch)
            self.X, self.nu = X.reshape(*shape, -1), nu.reshape(*shape, -1)
            self.xi = self.noise * self.noise_rng.standard_normal(shape)
        parts = self.X[:steps], self.nu[:steps], self.xi[:steps]
        self.X, self.nu, self.xi = self.X[steps:], self.nu[steps:], self.xi[steps:]
        return parts
