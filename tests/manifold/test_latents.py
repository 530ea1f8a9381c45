"""Latent samplers against the moments they promise, and divergences against integrals and samples of densities."""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from overlaps.manifold import latents

D, SAMPLES = 20, 20_000
MEANS, WEIGHTS = np.array([-1.5, 0.5, 2.0]), np.array([0.5, 0.3, 0.2])
VECTORS = np.random.default_rng(3).uniform(-2, 2, (3, D))
KINDS = {"elementwise": MEANS, "shared": MEANS, "shared_vector": VECTORS}


def draw(kind, standardise="none", n=SAMPLES):
    law = latents.mixture(kind=kind, means=KINDS[kind], weights=WEIGHTS, standardise=standardise)
    return law(np.random.default_rng(1), n, D)


def component_moments(kind):
    """Mean (D,) and covariance (D, D) of the mixture, from the components: between them, and the unit within."""
    centres = np.broadcast_to(KINDS[kind].reshape(3, -1), (3, D))
    mean = WEIGHTS @ centres
    between = (centres - mean).T @ np.diag(WEIGHTS) @ (centres - mean)
    if kind == "elementwise":  # coordinates draw on their own
        between = np.diag(np.diag(between))
    return mean, between + np.eye(D)


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_have_the_moments_of_their_components(kind):
    c = draw(kind)
    mean, covariance = component_moments(kind)
    # standard errors sqrt(var / n) and about var / sqrt(n / 2); the largest of 20 and of 400 entries: 5 of them
    np.testing.assert_allclose(c.mean(axis=0), mean, atol=5 * np.sqrt(covariance.max() / SAMPLES))
    np.testing.assert_allclose(np.cov(c.T), covariance, atol=5 * covariance.max() * np.sqrt(2 / SAMPLES))


@pytest.mark.parametrize("kind", KINDS)
def test_population_standardisation_uses_the_mixture_not_the_sample(kind):
    law = latents.mixture(kind=kind, means=KINDS[kind], weights=WEIGHTS)
    mean, covariance = component_moments(kind)
    np.testing.assert_allclose(np.broadcast_to(law.mean, D), mean, rtol=1e-13)
    np.testing.assert_allclose(np.broadcast_to(law.variance, D), np.diag(covariance), rtol=1e-13)
    c, raw = draw(kind, "population", 1000), draw(kind, "none", 1000)  # the same random numbers
    np.testing.assert_allclose(c, (raw - mean) / np.sqrt(np.diag(covariance)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_standardisation_is_exact_for_every_vector(kind):
    c = draw(kind, "sample", 1000)
    np.testing.assert_allclose(c.mean(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(np.mean(c**2, axis=1), 1, rtol=1e-13)


def test_sample_standardisation_removes_a_shared_shift_entirely():
    """The paper's preset does not know the means: the component moves all coordinates alike."""
    law = latents.paper(9 * MEANS, weights=WEIGHTS)
    assert law == latents.mixture(kind="shared", means=9 * MEANS, weights=WEIGHTS, standardise="sample")
    assert latents.paper(MEANS, standardised=False).standardise == "none"
    z = latents.mixture(kind="shared", means=[0.0], standardise="sample")
    np.testing.assert_allclose(*(x(np.random.default_rng(2), 50, D) for x in (law, z)), atol=1e-12)


def test_gaussian_latents_and_their_scale():
    c = latents.gaussian(1.7)(np.random.default_rng(1), 5000, 20)
    # 1e5 numbers: relative error of a variance sqrt(2 / 1e5) = 0.0045
    assert c.var() == pytest.approx(1.7**2, rel=0.02) and abs(c.mean()) < 0.03
    stream = np.random.default_rng(1).standard_normal((5000, 20))
    np.testing.assert_array_equal(latents.gaussian()(np.random.default_rng(1), 5000, 20), stream)


def test_means_are_uniform_and_samplers_travel():
    means = latents.uniform_means(3.0, 4000, rng=1)
    assert means.min() >= -3 and means.max() < 3
    assert means.var() == pytest.approx(3.0, rel=0.1)  # A^2/3, to 4 standard errors of 4000 uniform numbers
    assert latents.uniform_means(1.0, 2, rng=1, D=7).shape == (2, 7)
    for law in (latents.gaussian(2.0), latents.mixture(kind="shared_vector", means=VECTORS)):
        again = pickle.loads(pickle.dumps(law))
        assert again == law
        np.testing.assert_array_equal(again(np.random.default_rng(5), 3, D), law(np.random.default_rng(5), 3, D))


# divergence ----------------------------------------------------------------------------------------------------------


def test_divergence_of_known_values():
    assert latents.kl_divergence([1.5]) == pytest.approx(1.125, rel=1e-13)  # one component: |mu|^2 / 2
    # value given in the specification to seven digits
    assert latents.kl_divergence(np.array([0.4, -0.7]) * np.sqrt(20)) == pytest.approx(2.576063, abs=5e-7)


@pytest.mark.parametrize(
    "means, weights",
    [
        ([0.3, -0.2], None),
        ([4.0, -1.0, 0.5], [0.2, 0.3, 0.5]),
        ([-15.0, 14.0], [0.9, 0.1]),
        ([-9, 9.0], [1e-9, 1 - 1e-9]),
    ],
)
def test_divergence_is_the_integral_of_its_definition(means, weights):
    p = np.full(len(means), 1 / len(means)) if weights is None else np.array(weights)

    def integrand(x):  # p log(p / phi), from the densities
        density = p @ norm.pdf(x - np.array(means))
        return density * (np.log(density) - norm.logpdf(x)) if density > 0 else 0.0

    edges = np.linspace(min(means) - 10, max(means) + 10, 30)
    truth = sum(quad(integrand, a, b, epsabs=1e-13)[0] for a, b in zip(edges[:-1], edges[1:], strict=True))
    assert latents.kl_divergence(means, weights) == pytest.approx(truth, abs=2e-11)  # 30 integrals of 1e-13


def test_divergence_in_many_dimensions_against_samples_of_the_densities(rng):
    means = np.array([0.4, -0.7])
    n = 40_000
    # shared: log p(c) - log phi(c) of 20-dimensional samples
    centre = means[rng.integers(2, size=n)][:, None]
    c = centre + rng.standard_normal((n, 20))
    log_ratio = np.log(np.mean(np.exp(c.sum(axis=1)[:, None] * means - 10 * means**2), axis=1))
    error = log_ratio.std() / np.sqrt(n)
    assert latents.kl_divergence(means, kind="shared", D=20) == pytest.approx(log_ratio.mean(), abs=4 * error)
    # elementwise: a product of 20 equal densities
    c = means[rng.integers(2, size=(n, 20))] + rng.standard_normal((n, 20))
    log_ratio = np.log(np.mean(np.exp(c[..., None] * means - means**2 / 2), axis=2)).sum(axis=1)
    error = log_ratio.std() / np.sqrt(n)
    assert latents.kl_divergence(means, kind="elementwise", D=20) == pytest.approx(log_ratio.mean(), abs=4 * error)


def test_divergence_with_vectors_of_means(rng):
    means, weights = np.array([0.3, -0.5]), [0.4, 0.6]
    value, error = latents.kl_monte_carlo(np.outer(means, np.ones(6)), weights, rng=rng)
    exact = latents.kl_divergence(means, weights, kind="shared", D=6)  # equal entries: the shared shift
    assert 0 < error < 0.005 and value == pytest.approx(exact, abs=4 * error)
    # the same with a wrong weight is excluded
    assert abs(value - latents.kl_divergence(means, kind="shared", D=6)) > 4 * error
    vectors = latents.uniform_means(9.0, 3, rng=rng, D=50)
    value, error = latents.kl_monte_carlo(vectors, rng=rng)
    assert value == pytest.approx(np.mean(np.sum(vectors**2, axis=1)) / 2 - np.log(3), rel=1e-12)  # separated clusters
    assert error < 1e-12


def test_error_of_the_estimated_divergence():
    """The error given is the spread of repeated estimates; unequal weights, means of unequal length."""
    means, weights = np.array([[0.3, -0.4, 1.0], [1.5, 0.2, 0.0]]), [0.85, 0.15]
    runs = np.array([latents.kl_monte_carlo(means, weights, rng=seed, samples=50) for seed in range(400)])
    # the spread of 400 is known to 3.5 %, and the error of one estimate scatters by 15 %
    assert runs[:, 0].std() == pytest.approx(np.sqrt(np.mean(runs[:, 1] ** 2)), rel=0.12)


BAD = [
    (lambda: latents.mixture(kind="joint", means=[1.0]), "kind = 'joint'"),
    (lambda: latents.mixture(kind="shared", means=[1.0], standardise="both"), "standardise = 'both'"),
    (lambda: latents.mixture(kind="shared", means=[1.0, 2.0], weights=[0.5, 0.4]), "sum 0.9"),
    (lambda: latents.mixture(kind="shared", means=[1.0, 2.0], weights=[1.5, -0.5]), "probabilities >= 0"),
    (lambda: latents.mixture(kind="shared", means=[1.0, 2.0], weights=[1.0]), "weights has shape"),
    (lambda: latents.mixture(kind="shared", means=[]), "means is empty"),
    (lambda: latents.mixture(kind="shared_vector", means=[1.0, 2.0]), "means has shape"),
    (lambda: latents.mixture(kind="shared", means=[np.nan]), "means contains nan"),
    (lambda: latents.mixture(kind="shared_vector", means=[[1.0, 2.0]])(np.random.default_rng(1), 2, 3), "D = 3"),
    (
        lambda: latents.mixture(kind="shared", means=[1.0], standardise="sample")(np.random.default_rng(1), 2, 1),
        "D = 1",
    ),
    (lambda: latents.gaussian(0.0), "scale = 0"),
    (lambda: latents.uniform_means(-1.0, 2, rng=1), "A = -1"),
    (lambda: latents.kl_divergence([1.0], kind="shared_vector"), "kl_monte_carlo"),
    (lambda: latents.kl_divergence([1.0, 2.0], [0.5, 0.6]), "sum 1.1"),
    (lambda: latents.kl_monte_carlo([1.0, 2.0], rng=1), "means has shape"),
]


@pytest.mark.parametrize("call, words", BAD, ids=[words for _, words in BAD])
def test_bad_mixtures_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
