"""SGD with a teacher on latents; inputs are features of the latents, or a sampler draws both."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._base import check
from ..models.state import gram
from ..simulators.direct import advance, kept_norms
from ..simulators.dispatch import SimulationSpec, ensemble, specify, starts_of
from ..simulators.reduced import reduced_run
from ..simulators.steps import Chunks, Rates, finite_weights, follow, largest, stacked
from .covariates import gaussian as joint_gaussian
from .gaussian_covariates import GaussianCovariates, drawn_weights
from .latents import gaussian
from .model import HiddenManifold
from .realisation import second_moments
from .test_error import feature_samples, field_deviation, paired_samples, sample_error, warn_of_errors, warn_of_moments
from .weights import Weights, check_inputs, given_weights, random_weights

__all__ = ["manifold_run"]

# Default number of fresh samples for a test error, and for the moments of the fields. Standard errors fall as its root.
TEST_SAMPLES = 4096


class FeatureLaw(NamedTuple):
    """Inputs that are features of latents: the sampler, and the second moments in Q and R of a run."""

    latents: Any
    center: bool
    moments: str

    def second_moments(self, model, weights):
        """Omega, Phi of Gaussian latents, for any latents of the run."""
        return second_moments(model.features, weights.F, self.moments)

    def teacher_covariance(self, model, W_star):
        """T of Gaussian latents."""
        return model.latent_scale**2 * (W_star @ W_star.T) / W_star.shape[1]

    def samples(self, model, weights, dtype="float64"):
        """Sampler for a run with these weights."""
        return feature_samples(model, weights, self.latents, self.center, dtype)


class DataLaw(NamedTuple):
    """Inputs and latents that come from one sampler."""

    sampler: Any

    def second_moments(self, model, weights):
        """Omega, Phi of the model, for any samples of the run."""
        return model.Omega, model.Phi

    def teacher_covariance(self, model, W_star):
        """T of the model."""
        return W_star @ model.Psi @ W_star.T / W_star.shape[1]

    def samples(self, model, weights, dtype="float64"):
        """Sampler for a run with these weights."""
        return paired_samples(self.sampler, weights, dtype)


@specify.register
def specify_manifold(
    model: HiddenManifold, N, children, start, method, student_scale, dtype, evaluator=None, *, weights=None,
    latents=None, center=True, chunk=1024, moments="ge", normalise_rows=True, share_features=False, test=None,
    keep_weights=False, stride=1,
):  # fmt: skip
    """The SimulationSpec of a hidden manifold: each run has its own weights, hence its own spectrum.

    "reduced" is the Gaussian law with the eigenvalues of the limit, from States: no weights, and no features.
    """
    if method == "reduced":
        given = {"weights": weights, "latents": latents, "test": test or None}
        for name in (name for name, value in given.items() if value is not None):
            raise ValueError(f"{name} with method = 'reduced', which has Gaussian fields only; expected 'direct'.")
        starts = starts_of(model, start, N, children, student_scale)
        return SimulationSpec(method, partial(reduced_run, evaluator=evaluator), starts, ensemble)
    check.flag("normalise_rows", normalise_rows)
    if check.flag("share_features", share_features) and weights is not None:
        raise ValueError("share_features=True with weights=, which set F; put one array F into all tuples to share it.")
    if start is not None:
        raise ValueError(
            "start= gives overlaps on the nodes of the limit spectrum, which is not the spectrum of a run; expected "
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
    options["stride"] = stride
    return _specification(model, starts, FeatureLaw(law, center, moments), named, test, options, moments=moments)


@specify.register
def specify_covariates(
    model: GaussianCovariates, N, children, start, method, student_scale, dtype, evaluator=None, *, weights=None,
    samples=None, chunk=1024, test=None, keep_weights=False, stride=1,
):  # fmt: skip
    """The SimulationSpec of given covariances: weights of each run, and one sampler for all."""
    if start is not None:
        raise ValueError("start= gives overlaps without the weights; expected weights=(W, W_star), or neither.")
    if method not in ("auto", "direct"):
        raise check.refused("method", method, "'auto' or 'direct' for given covariances.")
    model.spectrum.block_sizes(N)  # raises an error for another N than the size of Omega
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
    options["stride"] = stride
    return _specification(model, starts, law, named, test, options)


def _specification(model, starts, law, named, test, options, **recorded):
    """The SimulationSpec of runs from these weights on this law; ``named`` is the name of a user's law in messages."""
    if test is None:
        test = 0 if named is None else TEST_SAMPLES
    if check.count("test", test, least=0) == 1:
        raise ValueError("test = 1; expected at least 2 fresh samples, for a standard error, or 0 for no test.")
    if named:  # compare the moments of the fields at the start of the first run with the model, on a separate stream
        first, rng = starts[0], np.random.default_rng(0)
        Q, R = _overlaps(first.W[None], first.W_star, *law.second_moments(model, first))
        S = gram(Q[0], R[0], law.teacher_covariance(model, first.W_star))
        deviation = field_deviation(law.samples(model, first), first.W, S, TEST_SAMPLES, options["chunk"], rng)
        warn_of_moments(deviation, named)
    run = partial(manifold_run, law=law, test=test, **options)
    return SimulationSpec("direct", run, starts, partial(_collect, law=law, **recorded))


def _collect(records, starts, *, law, model, **common):
    """The result of all runs, with their weights and teacher covariances T."""
    Q, R, v, *rest = records
    final = rest.pop() if len(rest) % 2 else None
    T = np.stack([law.teacher_covariance(model, w.W_star) for w in starts])
    stack = {x: [getattr(w, x) for w in starts] for x in Weights._fields if getattr(starts[0], x) is not None}
    # one copy of an array that all runs share; the result broadcasts it
    common |= {x: np.stack(each[:1] if all(w is each[0] for w in each) else each) for x, each in stack.items()}
    common |= dict(zip(("test_error", "test_error_se"), rest, strict=False))
    runs = model.record(model=model, Q=Q, R=R, v=v, T=T, final_W=None if final is None else final[:, 0], **common)
    if rest:
        warn_of_errors(runs.alpha, runs.eps_g, *rest)
    return runs


def manifold_run(
    model, weights, N, steps, rng, tick=None, *, law, chunk, dtype, test, keep=False, evaluator=None, stride=1
):
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
        The law of the inputs, and the second moments in Q and R.
    chunk, dtype, test, evaluator
        As in :func:`overlaps.simulate`; ``evaluator`` is that of its schedule.
    keep : bool
        Whether to return the students of the last record.
    stride : int
        Steps of 1/N by which a step advances alpha.

    Returns
    -------
    Q, R, v : ndarray, shape (n, K, K), (n, K, M), (n, K)
        Shorter than ``steps`` when the run was interrupted, and ending with nan when it diverged.
    test_error, test_error_se : ndarray, shape (n,)
        Only with ``test``.
    W : ndarray, shape (1, K, N)
        Only with ``keep``.
    """
    Omega, Phi = law.second_moments(model, weights)  # first, because it checks its arguments
    W, factor, v = weights.W.astype(dtype), np.ones(1), np.array(model.v)
    norms = kept_norms(model, W)
    samples = law.samples(model, weights, dtype)
    rates = Rates(model, N, 0, evaluator, stride)
    inputs = _SamplerChunks(samples, rng, chunk, model.noise)

    def step(limit):
        limit, changed = rates.left(limit)
        X, nu, xi = inputs.take(limit, changed, rates.batch)
        rows, noise = rates.take(len(X))
        advance(model, W, factor, v, X, nu, xi if noise is None else noise[:, None] * xi, rows, norms)
        return len(X)

    def size(record):
        return largest((np.mean(np.square(record[0]), axis=1), record[1]))

    records = follow(steps, step, lambda: (finite_weights(W, factor, v), v.copy()), tick, size)
    students, v = stacked(records, W.shape, v.shape)
    curves = *_overlaps(students, weights.W_star, Omega, Phi), v
    if test:  # on the next child of the generator, so that the run does not depend on the test
        curves += sample_error(model, samples, students, v, test, chunk, rng.spawn(1)[0])
    return (*curves, students[-1:].copy()) if keep else curves


def _overlaps(W, W_star, Omega, Phi):
    """Q = W Omega W^T / N and R = W Phi W_star^T / sqrt(N D) of students W (n, K, N): one product for all records."""
    N, D = Phi.shape
    Q = (W.reshape(-1, N) @ Omega).reshape(W.shape) @ W.swapaxes(1, 2) / N
    return (Q + Q.swapaxes(1, 2)) / 2, W @ (Phi @ W_star.T) / np.sqrt(N * D)


class _SamplerChunks(Chunks):
    """Inputs X (., batch, N), teacher fields nu (., batch, M) and label noise (., batch) in chunks of given size."""

    def __init__(self, samples, rng, chunk, noise):
        self.rng, self.noise_rng = rng.spawn(2)
        self.samples, self.chunk, self.noise = samples, chunk, noise

    def draw(self, batch):
        """A chunk of samples."""
        shape = max(1, self.chunk // batch), batch
        X, nu = self.samples(self.rng, shape[0] * batch)
        X = np.ascontiguousarray(X.reshape(*shape, -1))  # user data may be stored by columns, which is slow in kernels
        return X, nu.reshape(*shape, -1), self.noise * self.noise_rng.standard_normal(shape)
