"""Mixture latents as inputs in classes: moments against integrals, errors against fresh samples of the mixture."""

import numpy as np
import pytest
from manifolds import manifold, random_weights
from scipy.stats import multivariate_normal

import overlaps as ov
from overlaps.manifold.clusters import class_moments

LAW = ov.latents.mixture(kind="shared", means=[7.975, 0.204], standardise="population")


def test_moments_of_signs_are_orthants(rng):
    h, root = np.array([0.7, -1.2, 0.3]), rng.standard_normal((3, 5))
    r = np.corrcoef(root)
    mean, Omega = class_moments(h, r)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = r[np.ix_([i, j], [i, j])]
        both, one, other = (multivariate_normal(cov=pair).cdf(x) for x in (h[[i, j]], [h[i], 99], [99, h[j]]))
        moment = 4 * both - 2 * one - 2 * other + 1
        assert Omega[i, j] == pytest.approx(moment - (2 * one - 1) * (2 * other - 1), abs=1e-6)  # of the cdf
        assert mean[i] == pytest.approx(2 * one - 1, abs=1e-7)
    np.testing.assert_allclose(np.diag(Omega), 1 - mean**2, rtol=1e-14)


@pytest.mark.parametrize("student", [ov.erf, ov.relu], ids=str)
def test_the_error_of_given_weights_is_that_on_fresh_samples(student, rng):
    model, weights = manifold(student), random_weights(rng, 100, 50)
    mixture, start = model.cluster_realisation(**weights, latents=LAW)
    W, W_star, F = weights.values()
    c = LAW(rng, 40_000, 50)
    x, nu = np.sign(c @ F.T / np.sqrt(50)), c @ W_star.T / np.sqrt(50)
    error = (student(x @ W.T / 10) @ model.v - student(nu) @ model.v_star) ** 2 / 2
    eps_g = ov.solve(mixture, start, [0, 0.1]).eps_g[0]
    # the fields of 100 features of 50 latents are Gaussian in each class up to O(1/N) of their variance, a percent
    assert eps_g == pytest.approx(error.mean(), abs=4 * error.std() / 200 + 0.02 * error.mean())
    lam = x @ W.T / 10
    first = lam.mean(0), nu.mean(0)
    np.testing.assert_allclose(start.m.sum(0) @ mixture.weights, first[0], atol=5 * lam.std() / 200)
    np.testing.assert_allclose(start.nu @ mixture.weights, first[1], atol=5 * nu.std() / 200)
    means = start.m.sum(0)
    covariance = start.Q + means @ np.diag(mixture.weights) @ means.T
    np.testing.assert_allclose(covariance, lam.T @ lam / 40_000, rtol=0, atol=0.03 * covariance.max())
    mixed = start.R + means @ np.diag(mixture.weights) @ start.nu.T
    np.testing.assert_allclose(mixed, lam.T @ nu / 40_000, rtol=0, atol=0.03 * np.abs(mixed).max())


@pytest.mark.slow
def test_the_cluster_equations_predict_what_is_learned():
    """Where the Gaussian theory reads failure: more than ten times the error of erf students at alpha = 30."""
    model = manifold()
    weights = random_weights(np.random.default_rng(2), 400, 200)
    theory = ov.solve(*ov.compress(*model.cluster_realisation(**weights, latents=LAW), 80), [1, 30], rtol=1e-6)
    with pytest.warns(RuntimeWarning, match="fresh samples|moments"):
        runs = ov.simulate(model, N=400, alpha=[1, 30], rng=7, runs=4, weights=tuple(weights.values()), latents=LAW)
    true = runs.mean("test_error")
    np.testing.assert_allclose(theory.eps_g, true, rtol=0.1)  # 4 runs at N = 400: 2 %, and one set of weights
    assert runs.mean("eps_g")[-1] > 10 * true[-1]


def test_what_has_no_common_covariance_is_refused(rng):
    weights = random_weights(rng, 20, 10)
    mixture = ov.latents.mixture
    for law, words in (
        (mixture(kind="shared", means=[-1, 0, 3], standardise="population"), "covariances of the classes differ by"),
        (mixture(kind="shared", means=[-1, 3]), "covariances of the classes differ by"),
        (mixture(kind="elementwise", means=[-1, 1]), "have no classes"),
        (mixture(kind="shared", means=[-1, 1], standardise="sample"), "have no classes"),
        (ov.latents.gaussian(), "expected a Mixture"),
    ):
        with pytest.raises(ValueError, match=words):
            manifold().cluster_realisation(**weights, latents=law)
    with pytest.raises(ValueError, match="features = relu; expected 'sign'"):
        manifold(features="relu").cluster_realisation(**weights, latents=LAW)
