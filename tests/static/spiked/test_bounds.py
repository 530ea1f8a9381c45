"""Bounds of spiked random features: regression on sampled functions, limits of the fixed point, perfect learning."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import overlaps as ov
from overlaps.static import SpikedRandomFeatures, bounds_over_rate
from overlaps.static.spiked.bounds import SpikeScanOptions, bounds


def features(r, c, gamma, student=np.tanh, target=np.sin, beta=1.0, **options):
    return SpikedRandomFeatures(student, target, r=r, c=c, gamma=gamma, beta=beta, **options)


@pytest.mark.parametrize(
    "r, c, gamma, upper, lower", [(1.2, 1.0, 1.0, 0.01801106, 0.004806152), (1.2, 1.1, 0.9, 0.1073049, 0.01336972)]
)
def test_golden_numbers_and_the_limits_that_reach_them(r, c, gamma, upper, lower):
    model = features(r, c, gamma)
    found = model.bounds()
    assert_allclose(found.upper, upper, rtol=5e-7)  # digits printed
    assert_allclose(found.lower, lower, rtol=5e-7)
    assert_allclose(model.solve(alpha=2.0, lam=1e8).mse, found.upper, rtol=1e-7)  # the rest is O(1/lam)
    wide = dataclasses.replace(model, beta=300.0)
    printed = {1.0: 0.0049575, 0.9: 0.0135564}[gamma]
    assert_allclose(wide.solve(alpha=3e4, lam=0.1).mse, printed, rtol=1e-5)
    # reached like beta/alpha and 1/beta: ten times more of both leaves a tenth of the gap
    wider = dataclasses.replace(model, beta=3000.0)
    gaps = [wide.solve(alpha=3e4, lam=0.1).mse - found.lower, wider.solve(alpha=3e6, lam=0.1).mse - found.lower]
    assert 0 < gaps[1] < 0.15 * gaps[0]


@pytest.mark.parametrize("alpha, beta", [(0.3, 0.5), (2.0, 1.0), (30.0, 20.0)])
def test_errors_at_the_best_ridge_lie_between_the_bounds(alpha, beta):
    for target, gamma in ((np.sin, 0.9), (np.tanh, 1.0), (np.sign, 0.7)):
        model = features(1.5, 1.2, gamma, target=target, beta=beta, noise=0.3)
        low, best, high = model.bounds().lower, model.optimal_lam(alpha).mse, model.bounds().upper
        assert low < best <= high * (1 + 1e-12)
        assert low > 0.09  # the label noise cannot be predicted


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("d", [np.inf, 37])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_bounds_are_residuals_of_least_squares(gamma, d, bias):
    """Features mu0(k) and k mu1(k), mu1(k) s in closed form (sin), fitted to labels at the nodes of a product rule.

    Of p neurons mu0 is seen in a mean that keeps 1/p of what they do on their own: a ridge on mu0 alone.
    """
    r, c, noise, beta, shift = 1.3, 1.2, 0.2, 1.7, 0.3 * bias
    z, w = np.polynomial.hermite_e.hermegauss(60)
    k, s = (x.ravel() for x in np.meshgrid(z, z, indexing="ij"))
    root = np.sqrt(np.outer(w, w).ravel() / w.sum() ** 2)
    y = np.tanh(gamma * k + np.sqrt(1 - gamma**2) * s) + shift
    mu0, mu1 = np.exp(-c / 2) * np.sin(r * k), np.exp(-c / 2) * np.cos(r * k)
    variance = (1 - np.exp(-2 * c) * np.cos(2 * r * k)) / 2 - mu0**2
    cost, least = (x @ root**2 / (beta * d) for x in (variance, variance - c * mu1**2))
    model = features(r, c, gamma, np.sin, lambda x: np.tanh(x) + shift, beta, noise=noise, bias=bias)
    found, one = model.bounds(d=d), [np.ones_like(k)] * bias
    for bound, basis, own in [
        (found.upper, [mu0, *one], cost),
        (found.lower, [mu0, *one, k * mu1, mu1 * s], least),
        (found.linear, [gamma * k + np.sqrt(1 - gamma**2) * s, *one], 0.0),
    ]:
        F = np.transpose(basis) * root[:, None]
        G, b = F.T @ F, F.T @ (root * y)
        G[0, 0] += own
        rest = root @ (root * y**2) - b @ np.linalg.lstsq(G, b, rcond=None)[0]
        assert_allclose(bound, rest + noise**2, rtol=1e-6)  # 60 Gauss-Hermite nodes for tanh


def test_more_letters_span_more():
    two = features((0.7, 2.5), (1.0, 1.6), 0.9).bounds()
    for r, c in ((0.7, 1.0), (2.5, 1.6)):
        one = features(r, c, 0.9).bounds()
        assert two.upper < one.upper and two.lower < one.lower


def test_bias_enters_the_basis():
    shifted = {"target": lambda x: np.sin(x) + 0.3, "bias": True}
    assert_allclose(features(1.2, 1.1, 0.9, **shifted).bounds(), features(1.2, 1.1, 0.9).bounds(), rtol=1e-9)


@pytest.mark.parametrize("w, c", [(1.0, 1.0), (0.6, 1.3), (2.0, 1.0)])
def test_perfect_learning_of_error_functions(w, c):
    """E erf((r k + sqrt(c) z)/sqrt 2) = erf(r k / sqrt(2 (1 + c))): the target at r = w sqrt(1 + c)."""
    target = ov.Activation.from_function(lambda x: ov.erf(w * x), lambda x: w * ov.erf.dg(w * x))
    r = w * np.sqrt(1 + c)
    found = features(r, c, 1.0, ov.erf, target).bounds()
    assert found.upper < 1e-14 and found.lower < 1e-14
    for other in (0.9 * r, 1.1 * r):
        assert features(other, c, 1.0, ov.erf, target).bounds().upper > 1e-6
    weak = features(r, c, 1.0, ov.erf, target).solve(alpha=3.0, lam=1e6).mse
    assert weak < 1e-5


def test_best_learning_rates():
    best = bounds_over_rate(np.tanh, np.sin)
    assert_allclose(best.upper, 0.0084046, rtol=1e-3)  # of a grid in r, whose minimum lies a little higher
    assert_allclose([best.r_upper, best.r_lower], [1.95, 0.60], atol=0.03)
    assert_allclose(best.lower, 1.05e-5, rtol=0.1)
    for name, r, i in (("upper", best.r_upper, 0), ("lower", best.r_lower, 1)):
        here = bounds(features(r, 1.0, 1.0))[i]
        assert_allclose(getattr(best, name), here, rtol=1e-9, atol=1e-15)
        assert all(bounds(features(x * r, 1.0, 1.0))[i] > here for x in (0.97, 1.03))
    # tau is the rate of the step that makes this spike
    step = SpikedRandomFeatures.after_one_step(
        np.tanh, np.sin, eta_tilde=best.tau_upper, alpha0=np.inf, beta=1.0, scaling="p"
    )
    assert_allclose(step.r, best.r_upper, rtol=1e-12)
    assert_allclose(step.bounds().upper, best.upper, rtol=1e-9)


def test_best_rate_of_error_functions_is_perfect():
    best = bounds_over_rate(ov.erf, ov.erf, noise=0.1)
    assert_allclose([best.upper, best.lower], 0.01, atol=1e-12)
    assert_allclose(best.r_upper, np.sqrt(2), rtol=1e-4)  # the minimum is quadratic


@pytest.mark.slow
@pytest.mark.parametrize("w", [10.0, 0.02])
def test_best_spikes_outside_of_the_first_scan(w):
    """Perfect learning of erf(w x) at r = w sqrt(2), wherever that is."""
    best = bounds_over_rate(ov.erf, lambda x: ov.erf.g(w * x))
    assert_allclose(best.r_upper, w * np.sqrt(2), rtol=1e-3)  # flat to rounding, 1e-16 of the target's 1e-4 at w = 0.02
    assert best.upper < 1e-13 and best.lower < 1e-13 and best.message == "both are minima"


@pytest.mark.slow
def test_a_bound_without_minimum_is_flagged(monkeypatch):
    monkeypatch.setattr("overlaps.static.spiked.bounds.SpikeScanOptions", lambda: SpikeScanOptions(max_spike=9.0))
    jump = bounds_over_rate(ov.erf, np.sign)  # the larger the spike, the sharper the step
    assert "upper bound still falls at r = 19, the largest" in jump.message and "lower" in jump.message
    assert_allclose(jump.r_upper, 19.0, rtol=0.01)
    straight = bounds_over_rate(np.tanh, lambda x: 1.0 * x)
    assert "upper bound still falls at r = 0.0" in straight.message and straight.upper < 1e-12


def test_random_features_never_beat_the_linear_predictor():
    model = features(0.0, 1.1, 0.0, beta=50.0)
    found = model.bounds()
    assert_allclose(found.lower, found.linear, rtol=1e-12)
    assert_allclose(found.upper, 0.5 * (1 - np.exp(-2)), rtol=1e-12)  # E sin^2: lam -> infinity predicts nothing
    error = model.solve(alpha=5e3, lam=0.1).mse
    assert found.linear < error < 1.05 * found.linear


def test_bad_input():
    even = ov.polynomial([-1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no linear part"):
        bounds_over_rate(np.tanh, even)
    with pytest.raises(ValueError, match="is not odd"):
        bounds_over_rate(ov.relu, np.sin)
    with pytest.raises(ValueError, match="noise = -1"):
        bounds_over_rate(np.tanh, np.sin, noise=-1)


def test_bounds_scale_with_the_argument_of_the_student():
    """Rows times a, and a student of x / a: the same features, and the same price of their means at finite d."""
    found = []
    for a in (1.0, 1.6):
        student = lambda x, a=a: np.tanh(x / a)  # noqa: E731
        model = SpikedRandomFeatures(student, np.sin, r=1.3 * a, c=1.19 * a**2, gamma=0.8, beta=0.7)
        found.append(model.bounds(30))
    assert_allclose(found[1], found[0], rtol=1e-8)
