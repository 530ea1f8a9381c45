"""The best use of compute against searches over all numbers of features, and minimisation over learning rates."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from overlaps.theory.scaling import Law, best_eta
from overlaps.theory.scaling.terms import end_of_learning


def operations(law, C):
    """Compute c for 2 eta s_1 c = C."""
    return np.asarray(C, dtype=float) / (2 * law.eta * law.spectrum.s[0])


def test_golden_numbers():
    law, compute = Law(1.0, 0.3, L=400, eta=0.5), [4.106092973110158, 410.60929731101584]
    found, exact = law.frontier(compute), law.frontier(compute, exact=True)
    np.testing.assert_allclose(found.N_l, [10.80273466739, 51.96264702145], rtol=1e-10)
    np.testing.assert_allclose(found.alpha, [0.36328314288, 7.82669805325], rtol=1e-10)
    np.testing.assert_allclose(found.eps, [0.00969240414, 0.00082279513], rtol=1e-8)
    np.testing.assert_array_equal(exact.N_l, [11, 52])
    np.testing.assert_allclose(exact.eps, [0.00965404138, 0.00082297059], rtol=1e-8)
    np.testing.assert_allclose(exact.alpha * exact.N_l, compute, rtol=1e-14)
    roots = [end_of_learning(1, 0.8), end_of_learning(1, 0.5), end_of_learning(0.5, 1 / 3)]
    np.testing.assert_allclose(roots, [0.69254723877, 0.58296437606, 0.63352905591], rtol=1e-9)


@pytest.mark.parametrize("noise, scale, source", [(0.0, 0.0, 0.3), (0.2, 0.5, 1.4)])
def test_exact_search_misses_nothing(noise, scale, source):
    law = Law(1.0, source, L=60, eta=0.7, noise=noise, student_scale=scale, batch_size=2)
    compute = np.array([0.05, 3.0, 40.0, 1e5])
    found = law.frontier(compute, exact=True)
    for c, n, alpha, eps in zip(compute, *found, strict=True):
        all_of_them = [float(law.error(c / (2 * k), k)) for k in range(1, 61)]
        assert n == 1 + np.argmin(all_of_them) and eps == min(all_of_them)
        assert 2 * n * alpha == pytest.approx(c, rel=1e-14)
    assert found.N_l[-1] == 60 and found.N_l[0] < 3  # the ends are answers


@pytest.mark.parametrize("beta, source", [(1.0, 0.0), (1.0, 0.3), (0.5, 0.0)])
def test_closed_frontier_is_close(beta, source):
    """For g <= 1 and C >= 1e3 within 1 %; the error is flat in N_l, which is known less well."""
    law = Law(beta, source, L=3000, eta=0.5)
    compute = operations(law, [1e3, 1e5, 1e7])
    closed, exact = law.frontier(compute), law.frontier(compute, exact=True)
    np.testing.assert_allclose(closed.eps, exact.eps, rtol=0.01)
    np.testing.assert_allclose(closed.N_l, exact.N_l, rtol=0.07)
    slope = np.diff(np.log(exact.eps[1:]))[0] / np.log(100)
    if beta == 1.0:  # the subtracted constant of the finite L is small
        assert slope == pytest.approx(-law.exponents.compute, rel=0.05)


@pytest.mark.parametrize("exact", [False, True])
def test_a_batch_at_a_rate_is_one_sample_at_a_smaller_rate(exact):
    """B samples at rate eta in time alpha are one sample at rate eta/B in time B alpha: as much compute."""
    law = Law(0.8, 0.25, L=900, eta=1.3, batch_size=3)
    single, compute = dataclasses.replace(law, eta=1.3 / 3, batch_size=1), np.array([30.0, 700.0])
    one, many = single.frontier(compute, exact=exact), law.frontier(compute, exact=exact)
    np.testing.assert_allclose(many.N_l, one.N_l, rtol=1e-12)
    np.testing.assert_allclose(3 * many.alpha, one.alpha, rtol=1e-12)
    np.testing.assert_allclose(many.eps, one.eps, rtol=1e-10)


def test_two_power_laws_would_stop_elsewhere():
    """Balancing bias and floor as power laws has another optimum: wrong by a factor in N_l."""
    law = Law(1.0, L=3000, eta=0.5)
    exact = law.frontier(operations(law, 1e5), exact=True)
    n = np.geomspace(5, 500, 2000)
    # (Gamma(g)/a) zeta^-g + N^-gamma / gamma with zeta = C/N
    crude = n[np.argmin(np.sqrt(np.pi) / 2 * (1e5 / n) ** -0.5 + 1 / n)]
    assert crude / exact.N_l > 1.25
    assert law.frontier(operations(law, 1e5)).N_l == pytest.approx(exact.N_l, rel=0.01)


def test_outliving_the_noise_of_the_steps():
    """2 source > 1 + beta has no power-law optimum; the four terms have the right one."""
    law = Law(1.0, 1.5, L=2000, eta=0.2)
    compute = operations(law, [1e5, 1e7])
    with pytest.raises(ValueError, match="exact=True"):
        law.frontier(compute)
    exact = law.frontier(compute, exact=True)
    np.testing.assert_array_equal(exact.N_l, [36, 147])
    balance = (np.array([1e5, 1e7]) / end_of_learning(1.0, 2.0)) ** (1 / 3) - 0.5
    np.testing.assert_allclose(balance, [44, 206], atol=0.6)
    assert -np.diff(np.log(exact.eps))[0] / np.log(100) == pytest.approx(1.24, abs=0.01)  # on its way to 4/3
    for c, n, eps in zip(compute, exact.N_l, exact.eps, strict=True):
        near = np.arange(int(0.7 * n), int(1.4 * n))
        values = [float(law.asymptote(c / k, int(k))) for k in near]
        assert near[np.argmin(values)] == n and min(values) == pytest.approx(eps, rel=5e-3)


@pytest.mark.parametrize("beta, source, measured", [(1.0, 0.3, 0.88), (1.0, 0.0, 0.69), (0.5, 0.2, 0.79)])
def test_best_rate_at_a_given_time(beta, source, measured):
    """Minimum of the exact error over eta, at a moderate time, is somewhat above the asymptotic one or equal."""
    law = Law(beta, source, L=2000, eta=0.5)
    alpha = 1e3 / law.spectrum.s[0]
    found = minimize_scalar(
        lambda eta: dataclasses.replace(law, eta=eta).error(alpha), bounds=(0.1, 1.5), method="bounded"
    )
    assert found.x == pytest.approx(best_eta(law.exponents.time), abs=0.06)
    assert found.x == pytest.approx(measured, abs=0.03)


def test_best_rate_on_the_frontier():
    law = Law(1.0, 0.3, L=2000, eta=0.5)
    compute = operations(law, 1e5)

    def best(eta):
        return float(dataclasses.replace(law, eta=eta).frontier(compute, exact=True).eps)

    grid = np.linspace(0.5, 0.9, 9)
    assert abs(grid[np.argmin([best(eta) for eta in grid])] - best_eta(law.exponents.compute)) < 0.05
    assert best_eta(0.5, batch_size=4) == 4 * best_eta(0.5)


def test_what_the_closed_form_does_not_cover_is_refused():
    law = Law(1.0, 0.3, L=40, eta=0.5)
    for change in (dict(noise=0.1), dict(student_scale=0.1), dict(source=1.0)):
        with pytest.raises(ValueError, match="exact=True"):
            dataclasses.replace(law, **change).frontier(1.0)
    for compute in (1e-3, 1e9):
        with pytest.raises(ValueError, match="from 1 to L = 40"):
            law.frontier(compute)
    with pytest.raises(ValueError, match="compute = "):
        law.frontier([1.0, 0.0])
    assert law.frontier(1e9, exact=True).N_l == 40
    assert law.frontier(np.ones((2, 3))).eps.shape == (2, 3)
