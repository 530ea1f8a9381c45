"""Two-point integrals of fields with means, against bivariate tables, quadrature and Stein's lemma."""

import numpy as np
import pytest
from scipy.special import erf, owens_t
from scipy.stats import norm

from overlaps.gaussian.shifted import both, one_point, shifted_pair, shifted_self
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU

CODES = LINEAR, QUADRATIC, RELU, ERF
MU, S = (0.5, -0.3), np.array([[0.9, 0.2], [0.2, 0.7]])


def by_owen(h, k, r):
    c = np.sqrt((1 - r) * (1 + r))
    return (
        norm.cdf(h) / 2
        + norm.cdf(k) / 2
        - owens_t(h, (k - r * h) / (h * c))
        - owens_t(k, (h - r * k) / (k * c))
        - 0.5 * (h * k < 0)
    )


def test_bivariate_distribution_is_owens():
    rng = np.random.default_rng(1)
    for h, k, x in rng.normal(size=(400, 3)):
        r = np.tanh(2.5 * x)  # up to 1 - 1e-6
        assert abs(both(h, k, r)[0] - by_owen(h, k, r)) < 1e-14, (h, k, r)  # Owen's T adds a few roundings
        assert abs(both(h, k, r)[1] - (by_owen(h, k, r) - norm.cdf(h) * norm.cdf(k))) < 1e-14


def function(code, order, x):
    """G, g' of a code at x."""
    if code == ERF:
        return erf(x / np.sqrt(2)) if order == 0 else 2 * norm.pdf(x)
    if code == RELU:
        return np.maximum(x, 0) if order == 0 else np.where(x > 0, 1.0, 0.5 * (x == 0))
    if code == QUADRATIC:
        return x**2 if order == 0 else 2 * x
    return x if order == 0 else np.ones_like(x)


def grid(steps):
    """Trapezoid rule for N(MU, S) in the plane, with a node at the kinks: errors of order 1 / steps^2 from them."""
    x = np.linspace(-9, 9, steps)
    a, b = np.meshgrid(x, x, indexing="ij")
    z = np.stack([a - MU[0], b - MU[1]])
    density = np.exp(-0.5 * np.einsum("iab,ij,jab->ab", z, np.linalg.inv(S), z)) / (
        2 * np.pi * np.sqrt(np.linalg.det(S))
    )
    return a, b, density * (x[1] - x[0]) ** 2


@pytest.fixture(scope="module")
def plane():
    return grid(721)


@pytest.mark.parametrize("f", CODES)
@pytest.mark.parametrize("h", CODES)
def test_pairs_against_the_plane(f, h, plane):
    a, b, p = plane
    gg, dd, hg, gh, dg, gd = shifted_pair(f, h, *MU, S[0, 0], S[1, 1], S[0, 1])
    kinked = RELU in (f, h)
    tolerance = 3e-5 if kinked else 1e-12  # width 1/40 of a cell: its square times the jump of the slope, over 12
    orders = {(0, 0): gg, (1, 1): dd, (1, 0): dg, (0, 1): gd}
    for (i, j), found in orders.items():
        assert found == pytest.approx(np.sum(p * function(f, i, a) * function(h, j, b)), abs=tolerance)
    # Stein: E[a g h] = mu E[g h] + S_aa E[g' h] + S_ab E[g h'], with g' in the place of g
    stein = np.sum(p * (a - MU[0]) * function(f, 1, a) * function(h, 0, b))
    assert S[0, 0] * hg + S[0, 1] * dd == pytest.approx(stein, abs=4 * tolerance)
    stein = np.sum(p * (b - MU[1]) * function(f, 0, a) * function(h, 1, b))
    assert S[1, 1] * gh + S[0, 1] * dd == pytest.approx(stein, abs=4 * tolerance)


@pytest.mark.parametrize("f", CODES)
def test_one_field(f):
    mu, s = 0.4, 0.8
    x = np.linspace(-10, 10, 20001)
    p = norm.pdf(x, mu, np.sqrt(s)) * (x[1] - x[0])
    g, dg, d2g, d3g, d4g = one_point(f, mu, s)
    gg, dd, hg, own = shifted_self(f, mu, s)
    values = [np.sum(p * u) for u in (function(f, 0, x), function(f, 1, x))]
    assert (g, dg) == pytest.approx(values, abs=1e-6)  # the kink of relu, width 1e-3
    squares = [np.sum(p * function(f, i, x) * function(f, j, x)) for i, j in ((0, 0), (1, 1), (1, 0))]
    if f == RELU:
        squares[1] = norm.cdf(mu / np.sqrt(s))  # the half at zero, squared, is a quarter
    assert (gg, dd, own) == pytest.approx(squares, abs=1e-6)
    # derivatives by the mean: E[g^(j + 1)] = d/dmu E[g^(j)]
    step = 1e-4
    up, down = (np.array(one_point(f, mu + sign * step, s)) for sign in (1, -1))
    assert (dg, d2g, d3g, d4g) == pytest.approx(((up - down) / (2 * step))[:4], abs=1e-6)
    assert dd + hg == pytest.approx(
        (shifted_self(f, mu + step, s)[3] - shifted_self(f, mu - step, s)[3]) / (2 * step), abs=1e-6
    )


@pytest.mark.parametrize("c", [0.7, 0.3, 1.9, -0.6])
@pytest.mark.parametrize("f, h", [(RELU, RELU), (RELU, ERF), (ERF, RELU), (ERF, ERF)])
def test_a_field_and_its_multiple(f, h, c):
    """B = c a, where rounding decides what one leaves of the other: integrals over one field."""
    mu, s = 0.37, 0.83
    x = 1e-3 * (np.arange(-9000, 10000) + 0.5)  # midpoints, the kink at an edge: the square of their width
    p = 1e-3 * norm.pdf(x, mu, np.sqrt(s))
    found = shifted_pair(f, h, mu, c * mu, s, c * c * s, c * s)
    a, b = ([function(code, i, y) for i in (0, 1)] for code, y in ((f, x), (h, c * x)))
    assert found[0] == pytest.approx(p @ (a[0] * b[0]), abs=1e-7)
    assert found[1] == pytest.approx(p @ (a[1] * b[1]), abs=1e-7)
    assert found[4] == pytest.approx(p @ (a[1] * b[0]), abs=1e-7)
    assert found[5] == pytest.approx(p @ (a[0] * b[1]), abs=1e-7)


@pytest.mark.parametrize("c", [0.7, 0.3, 1.9, -0.6])
@pytest.mark.parametrize("less", [0.0, 2.0**-53, 1e-14])
def test_no_digits_are_lost_between_parallel_fields(c, less):
    """E[a_+ (c a)_+] = c E[a_+^2], or 0: correlations that are less than 1 by ``less`` change it by as much."""
    mu, s = 0.37, 0.83
    found = shifted_pair(RELU, RELU, mu, c * mu, s, c * c * s, c * s * (1 - less))[0]
    assert found == pytest.approx(max(c, 0.0) * shifted_self(RELU, mu, s)[0], abs=1e-15 + 2 * less)  # roundings
