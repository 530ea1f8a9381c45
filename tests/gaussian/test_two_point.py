"""Two-point integrals against quadrature."""

import itertools

import numpy as np
import pytest
from helpers import workspace
from oracles import expectation

import overlaps as ov
from overlaps.activations import _erf
from overlaps.activations.kernels import KERNELS
from overlaps.gaussian.two_point import slope, two_point, two_point_derivatives, value

FUNCTIONS = [ov.linear, ov.quadratic, ov.relu, ov.erf]
COVARIANCES = [
    (1.0, 1.0, 0.3),
    (2.0, 0.5, -0.7),
    (0.3, 1.7, 0.0),
    (1.0, 1.0, 1.0 - 1e-6),
    (0.8, 1.25, -1.0),
    (9.0, 2.0, 4.2),  # unequal variances, correlation 0.99: the arcsine of erf leaves its polynomial
    (2.0, 9.0, -4.2),
    (0.5, 40.0, 4.4),
]


def by_quadrature(f, h, saa, sbb, sab):
    """E[f(a) h(b)] in polar coordinates of the whitened plane: the kinks of relu are rays, where the sectors end."""
    x, w = np.polynomial.legendre.leggauss(60)
    radius, weight_r = 6 * (x + 1), 6 * w
    along, across = sab / np.sqrt(saa), np.sqrt(max(sbb - sab**2 / saa, 0.0))
    kink_b = np.arctan2(-along, across)  # the ray along * cos + across * sin = 0
    edges = np.sort(np.mod([np.pi / 2, -np.pi / 2, kink_b, kink_b + np.pi], 2 * np.pi))
    total = 0.0
    for start, end in zip(edges, [*edges[1:], edges[0] + 2 * np.pi], strict=True):
        angle = start + (end - start) * (x + 1) / 2
        rho, phi = np.meshgrid(radius, angle)
        values = f(np.sqrt(saa) * rho * np.cos(phi)) * h(rho * (along * np.cos(phi) + across * np.sin(phi)))
        values *= rho * np.exp(-(rho**2) / 2) / (2 * np.pi)
        total += (end - start) / 2 * (w @ values @ weight_r)
    return total


@pytest.mark.parametrize("covariance", COVARIANCES, ids=str)
@pytest.mark.parametrize("f, h", list(itertools.combinations_with_replacement(FUNCTIONS, 2)), ids=str)
def test_values_and_slopes_match_quadrature(f, h, covariance):
    gg, dgdg, _, _ = two_point(f.code, h.code, *covariance)
    # 1e-12: the rule is accurate to 1e-14 of the integrand, which reaches 10 times the product of the variances
    limit = 1e-12 * max(1.0, covariance[0] * covariance[1])
    assert gg == pytest.approx(by_quadrature(f.g, h.g, *covariance), abs=limit)
    assert dgdg == pytest.approx(by_quadrature(f.dg, h.dg, *covariance), abs=limit)


@pytest.mark.parametrize("covariance", COVARIANCES[:3] + COVARIANCES[5:], ids=str)
@pytest.mark.parametrize("f, h", list(itertools.product(FUNCTIONS, repeat=2)), ids=str)
def test_second_derivatives_obey_prices_theorem(f, h, covariance):
    """dE[f h]/dsaa = E[f'' h]/2, which holds for the delta function of relu'' too."""
    saa, sbb, sab = covariance
    _, _, d2f_h, f_d2h = two_point(f.code, h.code, saa, sbb, sab)
    step = 1e-4

    def slope_of(da, db):
        ahead, back, far, behind = (
            two_point(f.code, h.code, saa + i * da, sbb + i * db, sab)[0] for i in (1, -1, 2, -2)
        )
        return (8 * (ahead - back) - far + behind) / (12 * step)

    # fourth-order differences: truncation 1e-16 x derivatives, rounding 1e-16 / 1e-4
    assert d2f_h == pytest.approx(2 * slope_of(step, 0.0), abs=1e-10)
    assert f_d2h == pytest.approx(2 * slope_of(0.0, step), abs=1e-10)


@pytest.mark.parametrize("code", [-1, 7])
def test_unknown_codes_give_nan_everywhere(code):
    S, w = np.array([[1.0, 0.2, 0.4], [0.2, 0.7, 0.1], [0.4, 0.1, 1.3]]), np.array([1.0, 0.5, -1.0])
    assert np.isnan(value(code, 0.5)) and np.isnan(slope(code, 0.5))
    for f, h in [(code, 2), (2, code), (code, 3), (3, code), (0, code), (code, 1), (code, code)]:
        assert np.all(np.isnan(two_point(f, h, 1.0, 0.7, 0.2)))
        assert np.all(np.isnan(two_point_derivatives(f, h, 1.0, 0.7, 0.2)))
    for kernels in KERNELS.values():
        A, B, C, dv = np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((2, 2)), np.zeros(2)
        eps_g = kernels.closure(S, w, workspace(S), 2, code, 1.0, 1.0, 0.1, True, A, B, C, dv)
        for x in (B, C, dv, eps_g):
            assert np.all(np.isnan(x))
        dA, dB, dC, ddv = (np.zeros((7, *x.shape)) for x in (A, B, C, dv))
        kernels.derivatives(S, w, 2, code, 1.0, 1.0, 0.1, True, dA, dB, dC, ddv)
        # with respect to R_0 and R_1; B_0 does not depend on R_1
        assert np.all(np.isnan(dC[3:5])) and np.isnan(dB[3, 0, 0]) and np.isnan(dB[4, 1, 0])


def test_swapping_the_functions_swaps_the_table():
    for f, h in itertools.product(FUNCTIONS, repeat=2):
        gg, dgdg, d2f_h, f_d2h = two_point(f.code, h.code, 1.3, 0.6, 0.4)
        assert two_point(h.code, f.code, 0.6, 1.3, 0.4) == (gg, dgdg, f_d2h, d2f_h)


def test_fields_of_zero_variance_contribute_their_value_at_zero():
    for f, h in itertools.product(FUNCTIONS, repeat=2):
        gg = two_point(f.code, h.code, 0.0, 0.7, 0.0)[0]
        expected = float(f.g(0.0)) * expectation(lambda z, h=h: h.g(z), np.array([[0.7]]), n=80)[0]
        assert gg == pytest.approx(expected, abs=1e-12)


def test_kernel_functions_are_the_vectorised_ones():
    x = np.linspace(-3, 3, 41)
    for f in FUNCTIONS:
        # one library function against another: last-digit agreement
        np.testing.assert_allclose([value(f.code, t) for t in x], f.g(x), rtol=1e-15, atol=1e-16)
        np.testing.assert_allclose([slope(f.code, t) for t in x], f.dg(x), rtol=1e-15, atol=1e-16)


def test_polynomial_arcsine_is_accurate_to_rounding():
    x = np.concatenate([np.linspace(-1, 1, 2001), [1e-300, 0.5, np.nextafter(0.5, 1), 1 - 1e-16]])

    def one_by_one(kernel, values):
        work = np.zeros((5, 1))
        work[_erf.ROW.weight] = 1.0
        for t in values:
            work[_erf.ROW.x] = t
            yield kernel(work, 1)

    # three roundings beyond 1/2 (root, polynomial, subtraction), two below
    np.testing.assert_allclose(list(one_by_one(_erf._sum_asin, x)), np.arcsin(x), rtol=8e-16, atol=0)
    half = x[np.abs(x) <= 0.5]
    np.testing.assert_allclose(list(one_by_one(_erf._sum_asin_half, half)), np.arcsin(half), rtol=5e-16, atol=0)


@pytest.mark.parametrize("covariance", [(1.0, 1.0, 0.3), (2.0, 0.5, -0.7), (0.5, 40.0, 3.1)], ids=str)
@pytest.mark.parametrize("h", [ov.linear, ov.erf, ov.quadratic], ids=str)
def test_slopes_of_the_table_of_a_sign_obey_prices_theorem(h, covariance):
    """Fourth-order differences with steps of 1e-3 of the covariances; an even function leaves nothing of a sign."""
    saa, sbb, sab = covariance
    table = two_point(ov.sign.code, h.code, saa, sbb, sab)
    if h is ov.quadratic:
        assert table == two_point(h.code, ov.sign.code, sbb, saa, sab) == (0.0, 0.0, 0.0, 0.0)
        return
    step = 1e-3 * min(saa, sbb)

    def slope_of(entry, *direction):
        ahead, back, far, behind = (
            two_point(ov.sign.code, h.code, *(x + i * step * d for x, d in zip(covariance, direction, strict=True)))
            for i in (1, -1, 2, -2)
        )
        return (8 * (ahead[entry] - back[entry]) - far[entry] + behind[entry]) / (12 * step)

    # order of the derivatives: E[f'' h''], E[f''' h'], E[f' h'''], E[f'''' h], E[f h'''']
    p, q_a, q_b = 1, 2, 3
    expected = [
        slope_of(p, 0, 0, 1),
        *(2 * slope_of(*x) for x in ((p, 1, 0, 0), (p, 0, 1, 0), (q_a, 1, 0, 0), (q_b, 0, 1, 0))),
    ]
    found = two_point_derivatives(ov.sign.code, h.code, saa, sbb, sab)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.max(np.abs(expected)))
