"""Tests of runs with a teacher on latents, on fresh samples: the moments of the fields, and the true error."""

from typing import NamedTuple

import numpy as np

from .._base import check, warn
from .realisation import input_means


class WarningThresholds(NamedTuple):
    """Deviations above which runs on non-Gaussian samples warn."""

    # Standard errors: with 5 a deviation is chance once in 10^6 numbers, with half as many once in 80.
    sigmas: float = 5
    # Relative deviation of a moment of the fields; empirical. eps_g changes by about as much.
    moment_fraction: float = 0.05
    # Difference between test_error and eps_g relative to test_error; empirical.
    error_fraction: float = 0.1


WARNINGS = WarningThresholds()


def feature_samples(model, weights, latents, center=True, dtype="float64"):
    """Sampler (rng, n) -> inputs X (n, N), x = f(F c / sqrt(D)) - a, and teacher fields nu = W* c / sqrt(D) (n, M)."""
    D = weights.F.shape[1]
    F, W_star = (weights.F / np.sqrt(D)).astype(dtype), weights.W_star / np.sqrt(D)
    mean = input_means(model.features, weights.F).astype(dtype) if center and model.features.a != 0 else None

    def draw(rng, n):
        c = drawn(latents, rng, n, D)
        X = np.asarray(model.features(c.astype(dtype) @ F.T), dtype=dtype)
        if mean is not None:
            X -= mean
        return X, c @ W_star.T

    return draw


def paired_samples(sampler, weights, dtype="float64"):
    """Sampler like that of ``feature_samples``, from a sampler (rng, n) -> (X, C) of inputs and latents."""
    N, D = weights.W.shape[1], weights.W_star.shape[1]
    W_star = weights.W_star / np.sqrt(D)

    def draw(rng, n):
        both = sampler(rng, n)
        if not isinstance(both, tuple) or len(both) != 2:
            raise ValueError(f"samples(rng, {n}) gave {check.shown(both)}; expected a pair (X, C) of arrays.")
        named = zip("XC", both, (N, D), strict=True)
        X, C = (_checked(f"{name} of samples(rng, {n})", x, (n, width)) for name, x, width in named)
        return X.astype(dtype, copy=False), C @ W_star.T

    return draw


def drawn(latents, rng, n, D):
    """Latents (n, D) in double precision, so that a seed gives the same latents in both precisions of the inputs."""
    return _checked(f"latents(rng, {n}, {D})", latents(rng, n, D), (n, D)).astype(float, copy=False)


def _checked(name, values, shape):
    """The array from a user's sampler, with checked shape, type and values."""
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "biuf":
        raise ValueError(f"{name} has shape {values.shape}, type {values.dtype}; expected numbers {shape}.")
    if not np.isfinite(values.sum()):
        raise ValueError(f"{name} contains nan or inf; expected finite numbers.")
    return values


def in_chunks(draw, rng, n, chunk):
    """Samples, n in all, in chunks of equal size, so that all calls of the sampler have the same arguments."""
    for done in range(0, n, chunk):
        X, nu = draw(rng, chunk)
        yield X[: n - done], nu[: n - done]


def sample_error(model, draw, W, v, n, chunk, rng):
    """Mean of Delta^2 / 2 over n fresh samples, without label noise, and its standard error, both (records,).

    Students W (records, K, N) and v (records, K); the samples are the same for all records.
    """
    total = squares = 0.0
    flat = W.reshape(-1, W.shape[-1]).T / np.sqrt(W.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):  # the error of a run that diverged is nan
        for X, nu in in_chunks(draw, rng, n, chunk):
            g = model.activation.g(X @ flat).reshape(len(X), *v.shape)
            delta = np.einsum("irk,rk->ir", g, v) - (model.teacher_activation.g(nu) @ model.v_star)[:, None]
            error = delta**2 / 2
            total, squares = total + error.sum(axis=0), squares + np.sum(error**2, axis=0)
        mean = total / n
        return mean, np.sqrt(np.maximum(squares / n - mean**2, 0.0) / (n - 1))


def field_deviation(draw, W, S, n, chunk, rng):
    """Largest relative deviation of the first two moments of the fields (lambda, nu) from N(0, S) on n fresh samples.

    Means are squared; zero if no deviation exceeds 5 standard errors and 5 %.
    """
    fields = [np.concatenate([X @ W.T / np.sqrt(W.shape[1]), nu], axis=1) for X, nu in in_chunks(draw, rng, n, chunk)]
    size = np.sqrt(np.diag(S))
    size[size == 0] = 1.0
    z = np.concatenate(fields) / size
    products = z[:, :, None] * z[:, None]
    first, second = z.mean(axis=0), products.mean(axis=0) - S / np.outer(size, size)
    moments = [(first, z, first**2), (second, products, np.abs(second))]
    significant = [d[np.abs(x) > WARNINGS.sigmas * sample.std(axis=0) / np.sqrt(n)] for x, sample, d in moments]
    worst = max(np.max(d, initial=0.0) for d in significant)
    return float(worst) if worst > WARNINGS.moment_fraction else 0.0


def warn_of_moments(deviation, law):
    """Warn if the fields do not have the moments on which Q, R, T and eps_g are based."""
    if deviation:
        warn(
            f"{law} change the moments of the fields by up to {100 * deviation:.0f} % from the model's: Q, R, T and "
            "eps_g belong to the model's Gaussian fields and do not describe these runs. Use test_error."
            + check.see("hidden_manifold", "Mixtures in place of Gaussian latents")
        )


def warn_of_errors(alpha, eps_g, error, se):
    """Warn if at the end eps_g (runs, n) of Gaussian fields differs from the error (runs, n) on fresh samples."""
    gap, scatter = np.mean(error[:, -1] - eps_g[:, -1]), np.sqrt(np.mean(se[:, -1] ** 2) / len(se))
    theory, measured = np.mean(eps_g[:, -1]), np.mean(error[:, -1])
    if abs(gap) > WARNINGS.sigmas * scatter and abs(gap) > WARNINGS.error_fraction * measured:
        warn(
            f"at alpha = {alpha[-1]:g} the error on fresh samples is test_error = {measured:.3g} +- {scatter:.1g}, but "
            f"eps_g = {theory:.3g}, which belongs to Gaussian fields with these overlaps. The fields of these samples "
            "(or latents, or of few of them) have another law, and only test_error is the error of the network."
            + check.see("limits", "Inputs are Gaussian")
        )
