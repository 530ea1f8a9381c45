"""What tests of several modules share."""

import math

import numpy as np
import pytest

import overlaps as ov
from overlaps._base.jit import jit
from overlaps.activations._erf import erf_workspace


def agrees(values, theory, share=0.04):
    """Within four standard errors of the draws, or a share of the value: finite-size corrections are O(1/d)."""
    values = np.asarray(values)
    error = values.std(ddof=1) / math.sqrt(len(values))
    return abs(values.mean() - theory) < max(4 * error, share * abs(theory))


def library(model, Q, R, T):
    """(dQ, dR, risk) of the library's flow."""
    c = ov.closure(model, Q, R, T)
    half = c.A @ Q + c.B @ R.T
    return half + half.T + (0 if model.gradient_flow else c.C), c.A @ R + c.B @ T, 2 * c.eps_g


def workspace(S):
    """Room for the parameters of any closure of the library in closed form."""
    return np.zeros(erf_workspace(len(S)))


def closure(kernel, S, w, K, teacher, eta=1.0, eta_v=1.0, noise=0.0, parameters=None):
    """A, B, C, dv, eps_g of a closure kernel."""
    M = len(w) - K
    A, B, C, dv = np.empty((K, K)), np.empty((K, M)), np.empty((K, K)), np.empty(K)
    S, w = np.ascontiguousarray(S), np.asarray(w, dtype=float)
    parameters = workspace(S) if parameters is None else parameters
    eps_g = kernel(S, w, parameters, K, teacher, eta, eta_v, noise, True, A, B, C, dv)
    return A, B, C, dv, eps_g


def covariance(rng, n, dimension):
    """Of n fields of random weights in so many dimensions."""
    X = rng.normal(size=(n, dimension)) / np.sqrt(dimension)
    return X @ X.T


def samples(S, w, K, dg, delta, noise, n, rng):
    """F (n, K) for eta = 1, from fields z ~ N(0, S)."""
    z = rng.normal(size=(n, len(S))) @ np.linalg.cholesky(S).T
    error = delta(z) - noise * rng.normal(size=n)
    return z, -w[:K] * dg(z[:, :K]) * error[:, None]


def assert_sampled(found, terms):
    """``found`` against the mean of ``terms`` (n, ...), within 5 standard errors."""
    error = terms.std(axis=0) / np.sqrt(len(terms))
    assert np.all(np.abs(terms.mean(axis=0) - found) < 5 * error)


def few(names, values, quick=1, **options):
    """``parametrize`` of which the first values belong to the quick suite, the others to the long tests."""
    values, several = [*values], not isinstance(names, str) or "," in names
    others = [pytest.param(*(x if several else (x,)), marks=pytest.mark.slow) for x in values[quick:]]
    return pytest.mark.parametrize(names, [*values[:quick], *others], **options)


# One small kernel, compiled again by each dispatcher, and found where one before it has kept it.


def _shift(x):
    return 3.0 * x + 0.5


def answer():
    """(Value at 2, whether it was found on the disk) of a fresh kernel."""
    kernel = jit(_shift)
    value = kernel(2.0)
    return value, sum(kernel.stats.cache_hits.values()) == 1
