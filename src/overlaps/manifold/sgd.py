"""SGD on inputs whose teacher sees latents: features of them, or samples of both; one matrix product per block."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._base import check
from ..models.state import gram
from ..simulators.direct import advance, kept_norms
from ..simulators.dispatch import SimulationSpec, ensemble, specify, starts_of
from ..simulators.reduced import reduced_run
from ..simulators.steps import Chunks, Rates, follow, largest, sound, stacked
from .covariates import gaussian as joint_gaussian
from .gaussian_covariates import GaussianCovariates, drawn_weights
from .latents import gaussian
from .model import HiddenManifold
from .realisation import second_moments
from .test_error import feature_samples, field_deviation, paired_samples, sample_error, warn_of_errors, warn_of_moments
from .weights import Weights, check_inputs, given_weights, random_weights

__all__ = ["manifold_run"]

TEST = 4096  # fresh samples for a test error, and for the moments of the fields


class FeatureLaw(NamedTuple):
    """Inputs that are features of latents: what is drawn, and the second moments that the record of a run takes."""

    latents: Any
    center: bool
    moments: str

    def second_moments(self, model, weights):
        """Omega, Phi of Gaussian latents, whatever the latents of the run."""
        return second_moments(model.features, weights.F, self.moments)

    def teacher_covariance(self, model, W_star):
        """T of the same."""
        return model.latent_scale**2 * (W_star @ W_star.T) / W_star.shape[1]

    def samples(self, model, weights, dtype="float64"):
        """Samples for a run on these weights."""
        return feature_samples(model, weights, self.latents, self.center, dtype)


class DataLaw(NamedTuple):
    """Inputs and latents that come from one sampler."""

    sampler: Any

    def second_moments(self, model, weights):
        """Omega, Phi of the model, whatever the samples of the run."""
        return model.Omega, model.Phi

    def teacher_covariance(self, model, W_star):
        """T of the same."""
        return W_star @ model.Psi @ W_star.T / W_star.shape[1]

    def samples(self, model, weights, dtype="float64"):
        """Samples for a run on these weights."""
        return paired_samples(self.sampler, weights, dtype)


@specify.register
def manifold_plan(
    model: HiddenManifold, N, children, start, method, student_scale, dtype, evaluator=None, *, weights=None,
    latents=None,
    center=True, chunk=1024, moments="ge", normalise_rows=True, share_features=False, test=None, keep_weights=False,
):  # fmt: skip
    """The Plan of a hidden manifold: each run has weights, hence a spectrum, of its own.

    "reduced" is the Gaussian law with the eigenvalues of the limit, from States: no weights, and no features.
    """
    if method == "reduced":
        given = {"weights": weights, "latents": latents, "test": test or None}
        for name in (name for name, value in given.items() if value is not None):
            raise ValueError(f"{name} with method = 'reduced', which knows Gaussian fields only; expected 'direct'.")
        starts = starts_of(model, start, N, children, student_scale)
        return SimulationSpec(method, partial(reduced_run, evaluator=evaluator), starts, ensemble)
    check.flag("normalise_rows", normalise_rows)
    if check.flag("share_features", share_features) and weights is not None:
        raise ValueError("share_features=True with weights=, which set them; runs share an F that is one array in all.")
    if start is not None:
        raise ValueError(
            "start= gives overlaps on the nodes of a limit, which no weights have one by one; expected "
            "weights=(W, W_star, F), or neither: runs.realisation(i) is then the start of the theory of run i. "
            "method='reduced' takes a start, without weights."
        )
    if weights is None:
        draw = partial(random_weights, model, N=N, student_scale=student_scale)
        starts = [draw(rng=children[0])]
        starts += [draw(rng=child, F=starts[0].F if share_features else None) for child in children[1:]]
    else:
        starts = given_weights(model, N, weights, len(children), normalise_rows)
    law = gaussian(model.latent_scale) if latents is None else latents
    check_inputs(model, starts[0].F.shape[1], law, center, chunk)
    named = None if latents is None else f"the latents {latents!r}"
    options = {"chunk": chunk, "dtype": dtype or "float32", "evaluator": evaluator, "keep": keep_weights}
    return _planned(model, starts, FeatureLaw(law, center, moments), named, test, options, moments=moments)


@specify.register
def covariates_plan(
    model: GaussianCovariates, N, children, start, method, student_scale, dtype, evaluator=None, *, weights=None,
    samples=None, chunk=1024, test=None, keep_weights=False,
):  # fmt: skip
    """The Plan of given covariances: weights of each run, and one sampler for all."""
    if start is not None:
        raise ValueError("start= gives overlaps without the weights; expected weights=(W, W_star), or neither.")
    if method not in ("auto", "direct"):
        raise check.refused("method", method, "'auto' or 'direct' for given covariances.")
    model.spectrum.block_sizes(N)  # refuses another N
    check.count("chunk", chunk)
    if weights is None:
        starts = [Weights(*drawn_weights(model, N, child, student_scale)) for child in children]
    else:
        starts = given_weights(model, N, weights, len(children))
    if samples is not None and not callable(samples):
        raise check.refused("samples", samples, "a callable (rng, n) -> (X, C) such as covariates.rows(X, C).")
    law = DataLaw(joint_gaussian(model.Omega, model.Phi, model.Psi) if samples is None else samples)
    named = None if samples is None else f"the samples {samples!r}"
    options = {"chunk": chunk, "dtype": dtype or "float64", "evaluator": evaluator, "keep": keep_weights}
    return _planned(model, starts, law, named, test, options)


def _planned(model, starts, law, named, test, options, **recorded):
    """The Plan of runs from these weights on this law; ``named`` is how messages call a law that the user gave."""
    if test is None:
        test = 0 if named is None else TEST
    if check.count("test", test, least=0) == 1:
        raise ValueError("test = 1; expected at least 2 fresh samples, for a standard error, or 0 for no test.")
    if named:  # how far the fields at the start of a run are from having the model's moments; no run has this stream
        first, rng = starts[0], np.random.default_rng(0)
        Q, R = _overlaps(first.W[None], first.W_star, *law.second_moments(model, first))
        S = gram(Q[0], R[0], law.teacher_covariance(model, first.W_star))
        warn_of_moments(field_deviation(law.samples(model, first), first.W, S, TEST, options["chunk"], rng), named)
    run = partial(manifold_run, law=law, test=test, **options)
    return SimulationSpec("direct", run, starts, partial(_gathered, law=law, **recorded))


def _gathered(records, starts, *, law, model, **common):
    """The record of all runs, with their weights and teacher covariances T."""
    Q, R, v, *rest = records
    final = rest.pop() if len(rest) % 2 else None
    T = np.stack([law.teacher_covariance(model, w.W_star) for w in starts])
    stack = {x: [getattr(w, x) for w in starts] for x in Weights._fields if getattr(starts[0], x) is not None}
    # runs that share weights share their memory: one copy here, which the record broadcasts
    common |= {x: np.stack(parts[:1] if all(w is parts[0] for w in parts) else parts) for x, parts in stack.items()}
    common |= dict(zip(("test_error", "test_error_se"), rest, strict=False))
    runs = model.record(model=model, Q=Q, R=R, v=v, T=T, final_W=None if final is None else final[:, 0], **common)
    if rest:
        warn_of_errors(runs.alpha, runs.eps_g, *rest)
    return runs


def manifold_run(model, weights, N, steps, rng, tick=None, *, law, chunk, dtype, test, keep=False, evaluator=None):
    """Run SGD from explicit weights; record the overlaps at ``steps``.

    Parameters
    ----------
    model, weights : HiddenManifold or GaussianCovariates, Weights
        The learning problem, its start and its features.
    N : int
        Input dimension.
    steps : ndarray of int
        Increasing step counts at which overlaps are recorded.
    rng : numpy.random.Generator
        Source of samples and noise.
    tick : callable, optional
        Called with the number of steps done.
    law : FeatureLaw or DataLaw
        The law of the inputs, and the second moments of the record.
    block, dtype, test, pace
        As in :func:`overlaps.simulate`.
    keep : bool
        Whether to hand on the students of the last record.

    Returns
    -------
    Q, R, v : ndarray, shape (n, K, K), (n, K, M), (n, K)
        Shorter than ``steps`` when the run was interrupted, and ending with nan when it diverged.
    test_error, test_error_se : ndarray, shape (n,)
        With ``test`` only.
    W : ndarray, shape (1, K, N)
        With ``keep`` only.
    """
    Omega, Phi = law.second_moments(model, weights)  # first: it refuses what does not fit
    W, factor, v = weights.W.astype(dtype), np.ones(1), np.array(model.v)
    norms = kept_norms(model, W)
    samples = law.samples(model, weights, dtype)
    rates = Rates(model, N, 0, evaluator)
    inputs = _Taught(samples, rng, chunk, model.noise)

    def step(limit):
        limit, changed = rates.left(limit)
        X, nu, xi = inputs.take(limit, changed, rates.batch)
        rows, noise = rates.take(len(X))
        advance(model, W, factor, v, X, nu, xi if noise is None else noise[:, None] * xi, rows, norms)
        return len(X)

    def size(record):
        return largest((np.mean(np.square(record[0]), axis=1), record[1]))

    records = follow(steps, step, lambda: (sound(W, factor, v), v.copy()), tick, size)
    students, v = stacked(records, W.shape, v.shape)
    curves = *_overlaps(students, weights.W_star, Omega, Phi), v
    if test:  # the next child of the run's generator: the stream of the run does not know of the test
        curves += sample_error(model, samples, students, v, test, chunk, rng.spawn(1)[0])
    return (*curves, students[-1:].copy()) if keep else curves


def _overlaps(W, W_star, Omega, Phi):
    """Q = W Omega W^T / N and R = W Phi W_star^T / sqrt(N D) of students W (n, K, N): one product for all records."""
    N, D = Phi.shape
    Q = (W.reshape(-1, N) @ Omega).reshape(W.shape) @ W.swapaxes(1, 2) / N
    return (Q + Q.swapaxes(1, 2)) / 2, W @ (Phi @ W_star.T) / np.sqrt(N * D)


class _Taught(Chunks):
    """Inputs X (., batch, N), teacher fields nu (., batch, M) and label noise (., batch) in blocks of given size."""

    def __init__(self, samples, rng, chunk, noise):
        self.rng, self.noise_rng = rng.spawn(2)
        self.samples, self.chunk, self.noise = samples, chunk, noise

    def draw(self, batch):
        """A block of samples."""
        shape = max(1, self.chunk // batch), batch
        X, nu = self.samples(self.rng, shape[0] * batch)
        X = np.ascontiguousarray(X.reshape(*shape, -1))  # data may come by columns, which kernels read slowly
        return X, nu.reshape(*shape, -1), self.noise * self.noise_rng.standard_normal(shape)
