"""Trainable features against matrix exponentials, sampled rotations, direct sums, and the integrated equations."""

import warnings

import numpy as np
import pytest
from helpers import few
from scipy.linalg import expm

import overlaps as ov
from overlaps.theory import features, linear


def quiet(function, *args, **kwargs):
    """Call without the warning of a coarse step: the small sizes of these tests are gradient flow by definition."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


def random_covariance(rng, s):
    rotation, _ = np.linalg.qr(rng.standard_normal((s.size, s.size)))
    return rotation * s @ rotation.T


def by_expm(Sigma, eta, alpha, N_l, student_scale):
    """D = w - w* obeys dD/dalpha = -eta P Sigma D with P the projector on trained weights; average over D(0)."""
    N = len(Sigma)
    P = np.diag((np.arange(N) < N_l).astype(float))
    result = []
    for t in alpha:
        flow = expm(-eta * t * P @ Sigma)
        result.append((1 + student_scale**2) / (2 * N) * np.trace(flow.T @ Sigma @ flow))
    return np.array(result)


# published digits ----------------------------------------------------------------------------------------------------


def test_golden_numbers():
    spectrum = ov.power_law(beta=1.0, L=64)
    with pytest.warns(RuntimeWarning, match="eta max"):  # eta s_1 / N = 0.061
        found = features.error(spectrum, 0.1, [0, 100, np.inf], N_l=16, student_scale=0.1)
    np.testing.assert_allclose(found, [0.505, 0.014131690397965, 0.013972614236743], rtol=1e-10)
    haar = features.error_haar(spectrum, N_l=16, student_scale=0.1)
    assert haar == pytest.approx(0.03512165146705272, rel=1e-10)


@pytest.mark.parametrize("N_l, asymptote", [(50, 4.846e-3), (100, 1.844e-3), (150, 8.37e-4), (200, 3.32e-4)])
def test_asymptotes_of_the_figure(N_l, asymptote):
    """N = L = 256, beta = 1, student_scale = 0.01; the Haar basis is 2.5 to 2.9 times higher."""
    spectrum = ov.power_law(beta=1.0, L=256)
    exact = features.error(spectrum, 0.05, np.inf, N_l=N_l, student_scale=0.01)
    assert exact == pytest.approx(asymptote, rel=6e-4)  # digits given
    assert 2.5 < features.error_haar(spectrum, N_l=N_l, student_scale=0.01) / exact < 2.9
    printed = features.asymptote(1.0, 256, N_l, student_scale=0.01, half_integer=False)
    assert 0.004 < printed / exact - 1 < 0.0125
    # midpoint rule: minus (f'(N) - f'(N_l)) / 24 over the sum, 4e-5 at N_l = 50
    half, full = N_l + 0.5, 256.5
    predicted = (half**-3 - full**-3) / 12 / (1 / half - 1 / full)
    improved = features.asymptote(1.0, 256, N_l, student_scale=0.01)
    assert improved / exact - 1 == pytest.approx(predicted, rel=0.01)


# eigenbasis ----------------------------------------------------------------------------------------------------------


def test_error_against_the_matrix_exponential(rng):
    spectrum = ov.Spectrum(rng.permutation(ov.power_law(beta=0.6, L=7).s))  # any order of the eigenvalues
    s = np.sort(np.repeat(spectrum.s, 2))[::-1]
    alpha = [0.0, 0.3, 4.0, 50.0]
    for N_l in (1, 5, 14):
        found = quiet(features.error, spectrum, 0.4, alpha, N_l=N_l, N=14, student_scale=0.6)
        np.testing.assert_allclose(found, by_expm(np.diag(s), 0.4, alpha, N_l, 0.6), rtol=1e-12)


def test_trained_components_of_blocks_of_different_size():
    """2, 6 and 4 components, in no order of s: the largest ones are trained first, across blocks."""
    spectrum = ov.Spectrum([0.5, 1.2, 2.2], [1 / 6, 1 / 2, 1 / 3])
    s = np.array([2.2] * 4 + [1.2] * 6 + [0.5] * 2)
    alpha = [0.0, 0.4, 3.0]
    for N_l in (3, 4, 5, 11):
        found = quiet(features.error, spectrum, 0.3, alpha, N_l=N_l, N=12, student_scale=0.5)
        np.testing.assert_allclose(found, by_expm(np.diag(s), 0.3, alpha, N_l, 0.5), rtol=1e-12)


def test_all_features_are_the_linear_student():
    spectrum = ov.power_law(beta=1.0, L=200)
    alpha = [0.0, 1.0, 1e3]
    found = features.error(spectrum, 0.05, alpha, N_l=200, student_scale=0.3)
    np.testing.assert_allclose(found, linear.flow_error(spectrum, 0.05, alpha, student_scale=0.3), rtol=1e-13)
    assert features.error(spectrum, 0.05, np.inf, N_l=200) == 0.0


@pytest.mark.parametrize("beta", [0.3, 1.0, 1.5])
def test_integrals_in_time_and_features(beta):
    """Errors of the integral: 0.5 % where the trained modes decay, with end terms 0.2 % beyond zeta = 10."""
    N, N_l, eta = 2000, 300, 0.01
    spectrum = ov.power_law(beta=beta, L=N)
    zeta = np.array([0.0, 10.0, 100.0, 1e4, 1e12])
    alpha = zeta / (2 * eta * spectrum.s[0])
    exact = quiet(features.error, spectrum, eta, alpha, N_l=N_l)
    plain = features.power_law_error(beta, N, eta, alpha, N_l=N_l)
    ends = features.power_law_error(beta, N, eta, alpha, N_l=N_l, end_terms=True)
    assert np.all(np.abs(plain / exact - 1)[1:] < (0.005 if beta < 1.5 else 0.01))
    assert np.all(np.abs(ends / exact - 1)[1:] < (0.002 if beta < 1.5 else 0.01))
    assert abs(plain / exact - 1)[-1] < 1e-5  # nothing decays any more
    # at alpha = 0 all of <s> = 1 is left, up to the error of the integral at its first term
    assert abs(ends[0] - exact[0]) < linear.integral_bound(beta, N)


def test_exponent_in_the_number_of_features():
    spectrum = ov.power_law(beta=0.75, L=100_000)
    N_l = np.array([50, 100, 200])
    errors = [quiet(features.error, spectrum, 0.01, np.inf, N_l=n) for n in N_l]
    rest = features.asymptote(0.75, 100_000, 50) - np.array(errors)  # differences do not contain N^-beta
    expected = 50.5 ** -features.exponent(0.75) - (N_l + 0.5) ** -features.exponent(0.75)
    np.testing.assert_allclose(rest[1:] / rest[-1], (expected / expected[-1])[1:], rtol=1e-3)
    np.testing.assert_allclose(features.asymptote(0.75, 100_000, N_l), errors, rtol=1e-4)


# any covariance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N_l", [1, 5, 13, 14])
def test_error_covariance_against_the_matrix_exponential(N_l, rng):
    X = rng.standard_normal((14, 30))
    Sigma = X @ X.T / 30
    alpha = np.array([0.0, 0.1, 1.0, 10.0, 100.0])
    found = quiet(features.error_covariance, Sigma, 0.3, alpha, N_l=N_l, student_scale=0.4)
    np.testing.assert_allclose(found, by_expm(Sigma, 0.3, alpha, N_l, 0.4), rtol=1e-11)
    final = quiet(features.error_covariance, Sigma, 0.3, np.inf, N_l=N_l, student_scale=0.4)
    A, X_, F = Sigma[:N_l, :N_l], Sigma[:N_l, N_l:], Sigma[N_l:, N_l:]
    printed = 1 - np.trace(A) / 14 + 0.16 * np.trace(F) / 14 - 1.16 / 14 * np.trace(X_.T @ np.linalg.solve(A, X_))
    # the printed asymptote assumes trace N
    assert final == pytest.approx(0.5 * (printed - 1 + np.trace(Sigma) / 14), rel=1e-11, abs=1e-15)


def test_error_covariance_reduces_to_the_eigenbasis():
    spectrum = ov.power_law(beta=1.0, L=40)
    for alpha in (0.0, 3.0, np.inf):
        found = quiet(features.error_covariance, np.diag(spectrum.s), 0.1, alpha, N_l=9)
        assert found == pytest.approx(quiet(features.error, spectrum, 0.1, alpha, N_l=9), rel=1e-13)


def test_error_covariance_without_full_rank(rng):
    """Trained inputs that are copies of each other, and one that is constant."""
    X = rng.standard_normal((6, 40))
    X[1], X[2] = X[0], 0.0
    Sigma = X @ X.T / 40
    alpha = np.array([0.0, 1.0, 20.0])
    found = quiet(features.error_covariance, Sigma, 0.2, alpha, N_l=4)
    np.testing.assert_allclose(found, by_expm(Sigma, 0.2, alpha, 4, 1.0), rtol=1e-11)


def test_error_covariance_against_sgd(rng):
    """Explicit SGD on half of the weights, small eta; 400 runs, and 5 % for the order eta and the finite step."""
    N, N_l, eta, steps, runs = 8, 4, 0.05, 160, 400
    X = rng.standard_normal((N, 12))
    Sigma = X @ X.T / 12
    root = np.linalg.cholesky(Sigma)
    d = rng.standard_normal((runs, N)) - rng.standard_normal((runs, N))
    for _ in range(steps):
        x = rng.standard_normal((runs, N)) @ root.T
        d[:, :N_l] -= eta / N * np.sum(d * x, axis=1, keepdims=True) * x[:, :N_l]
    errors = 0.5 / N * np.einsum("ri,ij,rj->r", d, Sigma, d)
    expected = features.error_covariance(Sigma, eta, steps / N, N_l=N_l)
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(runs) + 0.05 * expected


# random basis --------------------------------------------------------------------------------------------------------


@few("beta, N_l", [(0.3, 60), (1.0, 60), (1.0, 150), (1.5, 100)], quick=1)
def test_haar_limit_against_rotations(beta, N_l, rng):
    spectrum = ov.power_law(beta=beta, L=256)
    draws = [
        quiet(features.error_covariance, random_covariance(rng, spectrum.s), 0.01, np.inf, N_l=N_l) for _ in range(8)
    ]
    error = np.std(draws) / np.sqrt(8)
    # corrections of order 1/N_l
    assert np.mean(draws) == pytest.approx(features.error_haar(spectrum, N_l=N_l), rel=1 / N_l, abs=4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("beta, N_l, below", [(1.0, 50, 0.013), (1.5, 50, 0.018), (2.0, 50, 0.022), (1.5, 100, 0.008)])
def test_correction_to_the_haar_limit(beta, N_l, below, rng):
    """N = 256: the percentages that the docstring quotes, within four standard errors of 0.2 to 0.3 %."""
    spectrum = ov.power_law(beta=beta, L=256)
    draws = [
        quiet(features.error_covariance, random_covariance(rng, spectrum.s), 0.01, np.inf, N_l=N_l) for _ in range(200)
    ]
    mean, error = np.mean(draws), np.std(draws) / np.sqrt(200)
    assert 0 < 4 * error / mean < 0.015
    assert 1 - features.error_haar(spectrum, N_l=N_l) / mean == pytest.approx(below, abs=4 * error / mean)


def test_haar_limit_in_solvable_cases():
    assert features.error_haar(ov.isotropic(), N_l=30, N=100) == pytest.approx(0.7, rel=1e-13)
    two = ov.Spectrum([1.5, 0.5])  # 1.5/(1.5 + x) + 0.5/(0.5 + x) = 1: x^2 = 0.75
    assert features.error_haar(two, N_l=1) == pytest.approx(0.5 * np.sqrt(0.75), rel=1e-13)
    assert features.error_haar(two, N_l=2) == 0.0
    assert features.error_haar(ov.Spectrum([2.0, 0.0]), N_l=50, N=100) == 0.0  # as many features as directions
    almost = ov.power_law(beta=2.0, L=1000)
    assert 0 < features.error_haar(almost, N_l=999) < 0.5 * almost.s[-1] * 1.1


@few("beta, ratio", [(0.3, 1.61), (0.75, 2.18), (1.0, 2.47), (1.5, 3.01)], quick=1)
def test_haar_ratio(beta, ratio):
    assert features.haar_ratio(beta) == pytest.approx(ratio, abs=5e-3)
    N = 10**6
    found = features.error_haar(ov.power_law(beta=beta, L=N), N_l=200) / features.asymptote(beta, N, 200)
    # corrections 1/N_l, and (N_l/N)^beta of the finite sum, large for beta = 0.3
    assert found == pytest.approx(features.haar_ratio(beta), rel=0.005 + 0.4 * (200 / N) ** beta)


# bad input -----------------------------------------------------------------------------------------------------------

SPECTRUM = ov.power_law(beta=1.0, L=100)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: features.error(SPECTRUM, 0.05, 1.0, N_l=101), "N_l = 101; expected at most N = 100"),
        (lambda: features.error(SPECTRUM, 0.05, 1.0, N_l=0), "N_l = 0; expected an integer >= 1"),
        (lambda: features.error(SPECTRUM, 0.05, 1.0, N_l=10, N=150), "try N = 2?00"),
        (lambda: features.error(SPECTRUM, 0.05, -1.0, N_l=10), "alpha contains negative numbers"),
        (lambda: features.error(SPECTRUM, 0.0, 1.0, N_l=10), "eta = 0.0; expected"),
        (lambda: features.error(None, 0.1, 1.0, N_l=10), "spectrum = None; expected a Spectrum"),
        (lambda: features.error_covariance(np.ones((2, 3)), 0.1, 1.0, N_l=1), "expected a square matrix"),
        (lambda: features.error_covariance(np.diag([1.0, -1.0]), 0.1, 1.0, N_l=1), "not positive semi-definite"),
        (lambda: features.error_covariance(np.eye(2), 0.1, 1.0, N_l=3), "N_l = 3; expected at most N = 2"),
        (lambda: features.error_haar(SPECTRUM, N_l=200), "N_l = 200; expected at most N = 100"),
        (lambda: features.error_haar(SPECTRUM, N_l=2, student_scale=-1), "student_scale = -1"),
        (lambda: features.asymptote(0.0, 100, 10), "beta = 0.0; expected a finite number > 0"),
        (lambda: features.asymptote(1.0, 100, [10, 101]), "N_l = 101; expected at most N = 100"),
        (lambda: features.asymptote(1.0, 0, 1), "N = 0; expected an integer >= 1"),
        (lambda: features.power_law_error(1.0, 100, 0.1, 1.0, N_l=101), "N_l = 101"),
        (lambda: features.haar_ratio(-0.5), "beta = -0.5"),
        (lambda: features.exponent(np.nan), "beta = nan"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
