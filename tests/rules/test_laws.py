"""Continuous noises of any law: averages against moments that scipy knows, and against integrals over quantiles."""

import numpy as np
import pytest
from helpers import few
from scipy import stats
from scipy.integrate import quad

import overlaps as ov
from overlaps.rules.laws import law_of


class Tent(stats.rv_continuous):
    """A law that scipy knows by its density only."""

    def _pdf(self, x):
        return 1 - np.abs(x)


class Halved(stats.rv_continuous):
    """A density that does not sum to 1."""

    def _pdf(self, x):
        return np.exp(-x * x / 2) / np.sqrt(8 * np.pi)

    def _cdf(self, x):
        return stats.norm.cdf(x)


TENT = Tent(a=-1, b=1)()
LAWS = {
    "beta": stats.beta(0.1, 0.1),
    "beta, moved": stats.beta(0.3, 2.0, loc=0.7, scale=1.3),
    "arcsine": stats.arcsine(loc=-0.4),
    "power": stats.powerlaw(0.2),
    "triangle": stats.triang(0.3),
    "uniform": stats.uniform(-1, 2),
    "gamma": stats.gamma(0.05, loc=1.0),
    "normal": stats.norm(0.1, 0.6),
    "Student": stats.t(3, loc=0.2),
    "Pareto": stats.pareto(2.6),
    "tent": TENT,
}


def linear(lam, nu, xi, theta, S, F, G):
    F[0] = nu[0] - lam[0] + xi


def gated(lam, nu, xi, theta, S, F, G):
    F[0] = (nu[0] - lam[0]) * (1.0 if xi > 0.3 else 0.0)


def deviations(lam, nu, xi, theta, S, F, G):
    F[0] = -1.0 if lam[0] > nu[0] + xi else 1.0


def numbers(force, law, **options):
    model = ov.learner(ov.Rule(force, K=1, M=1, noise=law, **options), eta=1.0)
    c = ov.closure(model, Q=[[0.5]], R=[[0.1]], T=[[1.0]])
    return np.array([c.A[0, 0], c.B[0, 0], c.C[0, 0]])


@pytest.mark.parametrize("name", LAWS)
def test_a_linear_force_has_the_moments_of_the_law(name):
    """A = -1, B = 1, C = E(nu - lam)^2 + E xi^2, to the tolerance of rules."""
    law = LAWS[name]
    square = 1 / 6 if name == "tent" else law.var() + law.mean() ** 2
    np.testing.assert_allclose(numbers(linear, law), [-1, 1, 1.3 + square], rtol=1e-8)


@few("name", ["uniform", "normal", "beta", "Student"], quick=1)
def test_a_jump_in_the_noise_is_refused_until_it_is_declared(name):
    with pytest.raises(ValueError, match="do not converge"):
        numbers(gated, LAWS[name])
    p = LAWS[name].sf(0.3)
    np.testing.assert_allclose(numbers(gated, LAWS[name], breaks=[[0, 0, 1, 0.3]]), [-p, p, 1.3 * p], rtol=1e-8)


@pytest.mark.parametrize("name", ["uniform", pytest.param("arcsine", marks=pytest.mark.slow)])
def test_an_end_of_the_law_is_a_break_of_the_average(name):
    """Least absolute deviations, B = E[2 phi(xi / s)/s], over quantiles: the average over xi kinks where it ends."""
    s, law = np.sqrt(1.3), LAWS[name]
    B, _ = quad(lambda u: 2 * stats.norm.pdf(law.ppf(u) / s) / s, 0, 1, epsabs=1e-12)
    np.testing.assert_allclose(numbers(deviations, law, breaks=[[1, -1, -1, 0]]), [-B, B, 1], rtol=1e-8)


def test_probabilities_that_do_not_sum_to_1_are_refused():
    with pytest.raises(ValueError, match=r"noise = halved\(\): the probabilities sum to 0.5; expected a law"):
        numbers(linear, Halved(name="halved")())


def test_a_law_with_many_kinks_is_refused_with_a_remedy():
    steps = stats.rv_histogram(np.histogram(np.random.default_rng(1).normal(size=1000), bins=50))
    with pytest.raises(ValueError, match=r"not smooth on panels.* Give the noise as \(values, probabilities\)"):
        numbers(linear, steps)


def test_two_sizes_share_no_node():
    """Else their difference would not see what lies between nodes."""
    law = law_of(stats.norm())
    values = [law.nodes(size)[0] for size in range(4)]
    for one, other in zip(values, values[1:], strict=False):
        assert not np.intersect1d(one, other).size
