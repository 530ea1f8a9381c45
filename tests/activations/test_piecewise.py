"""Piecewise-linear units, such as leaky relu and |x|, against sampling and pairs of relu units."""

import numpy as np
import pytest
from helpers import assert_sampled, closure, covariance, samples

from overlaps.activations import _piecewise, _relu
from overlaps.gaussian.two_point import RELU


def piecewise(S, w, K, a, b, noise=0.0):
    return closure(_piecewise.piecewise_linear_closure, S, w, K, -1, noise=noise, parameters=np.concatenate([a, b]))


def test_piecewise_linear_closure_against_sampling():
    rng = np.random.default_rng(16)
    K, noise = 2, 0.4
    S, w, a, b = covariance(rng, 4, 6), rng.normal(size=4), rng.normal(size=4), rng.normal(size=4)

    def g(z):
        return a * z + b * np.maximum(z, 0)

    z, F = samples(S, w, K, lambda x: a[:K] + b[:K] * (x > 0), lambda z: g(z) @ w, noise, 300_000, rng)
    A, B, C, dv, eps_g = piecewise(S, w, K, a, b, noise)
    assert_sampled(C, F[:, :, None] * F[:, None, :])
    assert_sampled(A @ S[:K] + B @ S[K:], F[:, :, None] * z[:, None, :])
    assert_sampled(dv, -g(z)[:, :K] * (g(z) @ w)[:, None])
    assert_sampled(eps_g, 0.5 * (g(z) @ w) ** 2)


@pytest.mark.parametrize("slope", [0.0, 0.1, -1.0, 1.0])
def test_leaky_relu_is_two_relu_units(slope):
    """relu(x) - slope relu(-x): a network of 2 K + 2 M relu units with opposite fields; slope -1 is |x|, 1 is x."""
    rng = np.random.default_rng(17)
    S, w = covariance(rng, 4, 6), rng.normal(size=4)
    A, B, C, dv, eps_g = piecewise(S, w, 2, np.full(4, slope), np.full(4, 1.0 - slope), noise=0.3)
    unit, sign = np.repeat(np.arange(4), 2), np.tile([1.0, -1.0], 4)
    amplitude = np.tile([1.0, -slope], 4)
    relu = closure(
        _relu.relu_closure, S[np.ix_(unit, unit)] * np.outer(sign, sign), amplitude * w[unit], 4, RELU, noise=0.3
    )

    def contract(X):
        return (X * np.outer(sign[: len(X)], sign[: X.shape[1]])).reshape(2, 2, 2, 2).sum(axis=(1, 3))

    for found, expected in zip((A, B, C), relu[:3], strict=True):
        np.testing.assert_allclose(found, contract(expected), atol=1e-13)
    np.testing.assert_allclose(dv, (amplitude[:4] * relu[3]).reshape(2, 2).sum(axis=1), atol=1e-14)
    assert eps_g == pytest.approx(relu[4], rel=1e-13)


def test_leaky_students_equal_to_teachers_feel_nothing():
    rng = np.random.default_rng(18)
    S, v = covariance(rng, 3, 4), rng.normal(size=3)
    a, b = np.full(6, 0.2), np.full(6, 0.8)
    _, _, C, dv, eps_g = piecewise(np.block([[S, S], [S, S]]), np.concatenate([v, -v]), 3, a, b)
    np.testing.assert_allclose(np.concatenate([C.ravel(), dv, [eps_g]]), 0.0, atol=1e-14)
