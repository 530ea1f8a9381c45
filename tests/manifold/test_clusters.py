"""Mixture latents as inputs in classes: moments against integrals, errors against fresh samples of the mixture."""

import numpy as np
import pytest
from helpers import few
from manifolds import manifold, random_weights
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import overlaps as ov
from overlaps.manifold.clusters import class_moments

LAW = ov.latents.mixture(kind="shared", means=[7.975, 0.204], standardise="population")


def test_moments_of_signs_are_orthants(rng):
    h, s, root = np.array([0.7, -1.2, 0.3]), 0.8, rng.standard_normal((3, 5))
    r = np.corrcoef(root)
    mean, slope, Omega = class_moments(manifold().features, s * h, s, r)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = r[np.ix_([i, j], [i, j])]
        both, one, other = (multivariate_normal(cov=pair).cdf(x) for x in (h[[i, j]], [h[i], 99], [99, h[j]]))
        moment = 4 * both - 2 * one - 2 * other + 1
        assert Omega[i, j] == pytest.approx(moment - (2 * one - 1) * (2 * other - 1), abs=1e-6)  # of the cdf
        assert mean[i] == pytest.approx(2 * one - 1, abs=1e-7)
    np.testing.assert_allclose(np.diag(Omega), 1 - mean**2, rtol=1e-12)
    np.testing.assert_allclose(slope, 2 * np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi) / s, rtol=1e-12)  # jump x density


def steps(u):
    """Odd, with two jumps and a kink between them."""
    return np.sign(u - 0.5) + np.sign(u + 0.5) + np.abs(u) * u


@pytest.mark.parametrize("f, kinks, r", [(np.tanh, (), -0.85), (steps, (-0.5, 0.0, 0.5), 0.85)], ids=["tanh", "steps"])
def test_moments_of_any_features_are_integrals(f, kinks, r):
    """A plane integral of two fields whose correlation is strong, one dimension after the other."""
    beta, s = np.array([0.9, -0.4]), 0.7
    features = manifold(features=f, kinks=kinks).features
    mean, slope, Omega = class_moments(features, beta, s, np.array([[1, r], [r, 1]]))

    def expected(g, center, scale):
        edges = [-9.0, *sorted((k - center) / scale for k in kinks if abs(k - center) < 9 * scale), 9.0]
        density = [quad(lambda u: g(center + scale * u) * np.exp(-u * u / 2), *ab, epsabs=1e-13)[0]
                   for ab in zip(edges[:-1], edges[1:], strict=True)]  # fmt: skip
        return sum(density) / np.sqrt(2 * np.pi)

    for i in range(2):
        assert mean[i] == pytest.approx(expected(f, beta[i], s), abs=1e-11)
        h = 1e-4  # the slope is the change of the mean with its argument: 1e-8 by central differences
        change = expected(f, beta[i] + h, s) - expected(f, beta[i] - h, s)
        assert slope[i] == pytest.approx(change / (2 * h), abs=1e-7)

    def inner(z):  # E[f(beta_1 + s u_1) | first field = z]
        u = (z - beta[0]) / s
        return expected(f, beta[1] + s * r * u, s * np.sqrt(1 - r * r))

    both = expected(lambda z: f(z) * inner(z), beta[0], s)
    assert Omega[0, 1] == pytest.approx(both - mean[0] * mean[1], abs=1e-9)


@few("student, f", [(ov.erf, np.sign), (ov.relu, np.sign), (ov.erf, np.tanh)], quick=1, ids=str)
def test_the_error_of_given_weights_is_that_on_fresh_samples(student, f, rng):
    features = {"features": f} if f is not np.sign else {}
    model, weights = manifold(student, **features), random_weights(rng, 100, 50)
    mixture, start = model.cluster_realisation(**weights, latents=LAW)
    W, W_star, F = weights.values()
    c = LAW(rng, 40_000, 50)
    x, nu = f(c @ F.T / np.sqrt(50)), c @ W_star.T / np.sqrt(50)
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


@pytest.mark.slow
def test_the_same_of_features_without_jumps():
    model = manifold(features=np.tanh)
    weights = random_weights(np.random.default_rng(3), 400, 200)
    theory = ov.solve(*ov.compress(*model.cluster_realisation(**weights, latents=LAW), 80), [1, 10], rtol=1e-6)
    with pytest.warns(RuntimeWarning, match="fresh samples|moments"):
        runs = ov.simulate(model, N=400, alpha=[1, 10], rng=7, runs=3, weights=tuple(weights.values()), latents=LAW)
    np.testing.assert_allclose(theory.eps_g, runs.mean("test_error"), rtol=0.1)  # as above
    assert runs.mean("eps_g")[-1] > 5 * theory.eps_g[-1]


def test_overlaps_with_latents_are_not_simulated(rng):
    """Neither the part of the teachers that is not linear in the inputs nor their means are overlaps with inputs."""
    mixture, start = manifold().cluster_realisation(**random_weights(rng, 20, 10), latents=LAW)
    with pytest.raises(ValueError, match="acts on latents, whose law .* latents="):
        ov.simulate(mixture, N=20, alpha=[0, 1], rng=1, start=start)


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
    for features in ("relu", lambda u: u + 0.1 * u**2):
        with pytest.raises(ValueError, match="differ by .* an odd feature map"):
            manifold(features=features).cluster_realisation(**weights, latents=LAW)
    twice = weights | {"F": weights["F"][[0, 0, *range(2, 20)]]}
    with pytest.raises(ValueError, match="two rows of F have a correlation of 1;"):
        manifold().cluster_realisation(**twice, latents=LAW)
