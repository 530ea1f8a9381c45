"""The law of the features' eigenvalues and its Gauss nodes."""

import numpy as np
import pytest
from scipy.integrate import quad

from overlaps.manifold.marchenko_pastur import feature_eigenvalues, mp_gauss


@pytest.mark.parametrize("y", [0.2, 0.5, 1.0])
def test_gauss_rule_integrates_against_the_density(y):
    low, high = (1 - np.sqrt(y)) ** 2, (1 + np.sqrt(y)) ** 2
    middle, half = (low + high) / 2, (high - low) / 2

    def integrand(t):  # x = middle + half sin(t) takes the roots at both edges away
        x = middle + half * np.sin(t)
        return np.exp(-x) * (half * np.cos(t)) ** 2 / (2 * np.pi * y * x)

    x, w = mp_gauss(y, 16)
    assert w @ np.exp(-x) == pytest.approx(quad(integrand, -np.pi / 2, np.pi / 2, epsabs=1e-13)[0], abs=1e-12)
    for n in (2, 3, 16):  # degree 3 needs two nodes
        x, w = mp_gauss(y, n)
        np.testing.assert_allclose([w @ x**j for j in range(4)], [1, 1, 1 + y, 1 + 3 * y + y * y], rtol=1e-13)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
def test_nodes_are_those_of_large_feature_matrices(rng, ratio):
    N = 800
    F = rng.standard_normal((N, int(ratio * N)))
    eigenvalues = np.linalg.eigvalsh(F @ F.T / F.shape[1])
    mu, p = feature_eigenvalues(ratio, 16)
    # linear statistics of eigenvalues fluctuate by O(1/N)
    for f in (lambda x: x, lambda x: x**2 / 4, lambda x: np.exp(-x)):
        assert np.mean(f(eigenvalues)) == pytest.approx(p @ f(mu), abs=15 / N)
