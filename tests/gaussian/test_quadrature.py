"""One-dimensional rules against moments and means known in closed form; each for the functions it is made for."""

import math

import numpy as np
import pytest

from overlaps.gaussian import quadrature

MEAN_COS = math.exp(-0.5 * 1.3**2)  # E[cos(1.3 z)]


def shifted(edge):
    """E[|z - edge|]."""
    density = math.exp(-0.5 * edge**2) / math.sqrt(2 * math.pi)
    return 2 * density + edge * math.erf(edge / math.sqrt(2))


def test_gauss_hermite_is_exact_to_its_degree():
    u, p = quadrature.gauss_hermite(5)
    double = [math.prod(range(n - 1, 0, -2)) * (n % 2 == 0) for n in range(10)]
    assert np.allclose([p @ u**n for n in range(10)], double, rtol=1e-13, atol=1e-12)
    assert abs(p @ u**10 - 945) > 100


@pytest.mark.parametrize(
    "rule, accuracy",
    [
        (quadrature.trapezoid(0.25), 1e-14),
        (quadrature.trapezoid(0.01, 18.0), 1e-14),
        (quadrature.piecewise((), 0.03), 1e-14),
        (quadrature.piecewise((-0.7,), 0.03), 1e-14),
        (quadrature.midpoint(20_000, 10), 1e-14),
        (quadrature.widening(40), 1e-13),  # on [-8, 8]: 1.3e-15 lies beyond
        (quadrature.graded(64), 1e-14),
    ],
    ids=["trapezoid", "wide trapezoid", "no kink", "kink", "midpoint", "widening", "graded"],
)
def test_smooth_functions(rule, accuracy):
    z, weight = rule
    assert weight @ np.cos(1.3 * z) == pytest.approx(MEAN_COS, abs=accuracy)
    assert np.all(np.diff(z) > 0)


def test_kinks():
    """Rules that are told of a kink do not see it; the trapezoid rule does."""
    z, weight = quadrature.piecewise((-0.7, 1.1), 0.03)
    for kink in (-0.7, 1.1):
        assert weight @ np.abs(z - kink) == pytest.approx(shifted(kink), abs=1e-14)
    z, weight = quadrature.graded(64)
    assert weight @ np.abs(z) == pytest.approx(shifted(0.0), abs=1e-14)
    z, weight = quadrature.trapezoid(0.03)
    assert abs(weight @ np.abs(z - 1.1) - shifted(1.1)) > 1e-6


def test_panels_of_many_rows():
    """Each row has its own edges; empty intervals do no harm."""
    kinks = np.array([[-0.3], [0.4], [10.0]])
    ends = np.full((3, 1), 10.0)
    z, weight = quadrature.panels(np.hstack([-ends, kinks, ends]), 8)
    found = np.sum(weight * np.abs(z - kinks), axis=1)
    assert np.allclose(found, [shifted(-0.3), shifted(0.4), shifted(10.0)], rtol=1e-13)


def test_rules_integrate_moments():
    for u, p in (quadrature.midpoint(64), quadrature.graded(64), quadrature.gauss_hermite(8)):
        # moments 1, 0, 1, 3, 15; truncation at 9 leaves exp(-40)
        found = [p @ u**k for k in (0, 1, 2, 4, 6)]
        np.testing.assert_allclose(found, [1, 0, 1, 3, 15], atol=2e-13)
    u, p = quadrature.gauss_hermite(12)
    he = quadrature.hermite(u, 10)
    np.testing.assert_allclose(he.T @ (p[:, None] * he), np.eye(10), atol=1e-12)


def test_factor_of_dependent_fields():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]])
    S = X @ X.T
    L = quadrature.factor(S)
    np.testing.assert_allclose(L @ L.T, S, atol=1e-15)
    assert np.all(L[0] == L[1])  # equal fields are equal at every node, so Delta vanishes exactly


def test_the_adaptive_rule_is_told_of_kinks_and_says_where_it_fails():
    def f(z):
        return np.array([abs(z - 1.1), math.cos(1.3 * z)])

    value, trouble = quadrature.adaptive(f, [1.1, 30.0], 10.0, relative=1e-12)
    assert trouble == "" and value == pytest.approx([shifted(1.1), MEAN_COS], abs=1e-12)
    assert quadrature.adaptive(lambda z: np.array([math.copysign(1.0, math.sin(1e3 * z))]), [], 10.0, relative=1e-12)[1]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_dependent_fields_are_found_at_any_scale(scale):
    """Whether a pivot vanishes depends on the variance of its field, not on the unit."""
    X = np.array([[1.0, 0.3], [0.4, 0.8], [0.5, 0.9]])
    S = scale * X @ X.T
    L = quadrature.factor(S)
    np.testing.assert_allclose(L @ L.T, S, rtol=1e-14)
    assert np.all(L[:, 2] == 0.0) and np.all(np.diag(L)[:2] > 0.1 * np.sqrt(scale))
