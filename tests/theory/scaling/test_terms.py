"""The four terms against exact sums, each of them and all together."""

import dataclasses

import numpy as np
import pytest
from helpers import few

from overlaps.theory.scaling import Law
from overlaps.theory.scaling.terms import upper


def times(law, zeta):
    return np.asarray(zeta, dtype=float) / (2 * law.eta * law.spectrum.s[0])


def test_golden_numbers():
    law = Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
    found = law.terms(1, 16)
    np.testing.assert_allclose(found, [0.0122867696969, 0.0031644414570, 0.0005860894761, 0.0014938110713], rtol=1e-9)
    assert law.asymptote(1, 16) == pytest.approx(0.0175311117, rel=1e-9)


@pytest.mark.parametrize("source", [0.0, 0.3, 0.7, 1.0])
def test_errors_of_the_asymptote(source):
    """L = 4000, beta = 1, eta = 1; the corrections fall as zeta^(-2 b) = 1/zeta."""
    law = Law(1.0, source, L=4000, eta=1.0)
    alpha = times(law, [10, 100, 1000])
    off = np.abs(law.asymptote(alpha) / law.error(alpha) - 1)
    assert np.all(off < [0.23, 0.024, 0.003])
    assert off[1] < 0.15 * off[0] and off[2] < 0.15 * off[1]


@pytest.mark.parametrize("source", [0.0, 0.3, 0.7, 1.5])
def test_smaller_rates_come_closer(source):
    law = Law(1.0, source, L=4000, eta=0.2)
    alpha = times(law, [10, 100, 1000])
    np.testing.assert_allclose(law.asymptote(alpha), law.error(alpha), rtol=0.015)


@few("N_l", [300, 4000], quick=1)
def test_no_source_is_special(N_l):
    """Two contributions have poles at 2 source = 1, one of them at 2 source = 2 + beta: no trace of them is left."""
    laws = [
        Law(1.0, source, L=4000, eta=1.0) for source in (0.47, 0.48, 0.4999, 0.5, 0.51, 0.53, 1.45, 1.49, 1.5, 1.51)
    ]
    for law in laws:
        alpha = times(law, [100, 1000])
        np.testing.assert_allclose(law.asymptote(alpha, N_l), law.error(alpha, N_l), rtol=0.015)


def test_label_noise():
    """Its own term: the difference of two exact sums."""
    noisy = Law(1.0, 0.3, L=4000, eta=0.5, noise=0.7)
    clean = dataclasses.replace(noisy, noise=0.0)
    alpha = times(noisy, [100, 1000])
    exact = noisy.error(alpha, 900) - clean.error(alpha, 900)
    np.testing.assert_allclose(noisy.terms(alpha, 900).noise, exact, rtol=2e-3)
    np.testing.assert_allclose(noisy.asymptote(alpha, 900), noisy.error(alpha, 900), rtol=2e-3)


def test_frozen_features_are_noise_to_the_others():
    """F answers like label noise of variance 2F: the floor P F is approached from below, 3 % low at this time."""
    law, N_l = Law(1.0, 0.3, L=4000, eta=1.0), 20
    alpha, F = times(law, 100), law.frozen(N_l)
    answer = dataclasses.replace(law, noise=np.sqrt(2 * F)).error(alpha, N_l) - law.error(alpha, N_l)
    assert F + answer == pytest.approx(0.973 * law.amplitude(N_l) * F, rel=2e-3)
    # 0.1 % of the whole error; 0.7 % without this part
    assert law.asymptote(alpha, N_l) == pytest.approx(law.error(alpha, N_l), rel=3e-3)


def test_random_students_are_a_component_without_source():
    """Linear in the start: the terms of both parts add up, and so do exact errors."""
    law = Law(1.0, 0.6, L=4000, eta=0.5, student_scale=0.3)
    teacher = dataclasses.replace(law, student_scale=0.0)
    alpha = times(law, [30, 3000])
    students = 0.3**2 * Law(1.0, L=4000, eta=0.5).asymptote(alpha, 700)
    np.testing.assert_allclose(law.asymptote(alpha, 700), teacher.asymptote(alpha, 700) + students, rtol=1e-12)
    np.testing.assert_allclose(law.asymptote(alpha, 700), law.error(alpha, 700), rtol=0.01)
    assert students[1] > teacher.asymptote(alpha, 700)[1] - teacher.terms(alpha, 700).floor[1]  # they take over


def test_bias_and_floor_are_gradient_flow():
    law, N_l = Law(0.7, 0.4, L=2000, eta=0.4), 500
    alpha, s = times(law, [20, 1e3, 1e4]), law.spectrum.s
    found, P = law.terms(alpha, N_l), law.amplitude(N_l)
    bias = [0.5 * np.sum((s * law.m0 * np.exp(-2 * law.eta * s * t))[:N_l]) for t in alpha]
    np.testing.assert_allclose(found.bias / P, bias, rtol=2e-3)  # midpoint rule: a sum as an integral
    np.testing.assert_allclose(found.floor / P, law.frozen(N_l), rtol=1e-5)


def test_kernel_and_its_tail():
    """They come in through label noise alone where everything else is zero; against sums of the kernel."""
    law = Law(1.0, 0.3, L=4000, eta=0.5, noise=1.0)
    alpha, s = times(law, [50, 5e3]), law.spectrum.s
    tail = [np.sum(0.25 * law.eta * s * np.exp(-2 * law.eta * s * t)) / 2000 for t in alpha]  # (eta/2) <s e^-2 eta s t>
    P = law.amplitude()
    mass = 1 - 1 / P
    np.testing.assert_allclose(law.terms(alpha).noise, 0.5 * (mass * P - P**2 * np.array(tail)), rtol=1e-5)


@pytest.mark.parametrize("source, slope", [(1.0, -1.500), (1.5, -1.541)])
def test_easy_teachers_end_in_the_noise_of_the_steps(source, slope):
    """2 source >= 1 + beta: exponent 1 + b = 3/2 whatever the source, instead of (1 + 2 source)/2."""
    law = Law(1.0, source, L=4000, eta=0.5)
    alpha = times(law, [1e3, 1e4])
    exact = np.diff(np.log(law.error(alpha)))[0] / np.log(10)
    assert exact == pytest.approx(slope, abs=0.005)
    found = law.terms(alpha)
    assert np.diff(np.log(law.asymptote(alpha)))[0] / np.log(10) == pytest.approx(exact, abs=0.005)
    if source > 1:
        assert found.sgd[1] > 10 * found.bias[1]


def test_incomplete_gamma_function():
    """Gamma(g, x) by its recursion, Gamma(g + 1, x) = g Gamma(g, x) + x^g e^-x, and Gamma(1, x) = e^-x."""
    x = np.array([0.01, 1.0, 20.0])
    np.testing.assert_allclose(upper(1.0, x), np.exp(-x), rtol=1e-13)
    np.testing.assert_allclose(upper(1.3, x), 0.3 * upper(0.3, x) + x**0.3 * np.exp(-x), rtol=1e-12)
