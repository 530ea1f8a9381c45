"""Linear students in gradient flow: overlaps, power laws and their bounds, bad input."""

import numpy as np
import pytest
from scipy.special import gamma

import overlaps as ov
from overlaps.theory import linear

GOLDEN = ov.power_law(beta=0.5, L=6)  # with eta = 0.8, sigma_J^2 = 0.25


def test_golden_curves():
    alpha = [0, 0.5, 2, 10, 50]
    flow = [0.625, 0.1866227178231136, 0.04651393425055942, 0.0009955156629075359, 4.086954840576649e-10]
    integral = [0.1700567470245771, 0.04084915146532822, 0.0006336990052508310, 8.796746709548479e-11]
    np.testing.assert_allclose(linear.flow_error(GOLDEN, 0.8, alpha, student_scale=0.5), flow, rtol=1e-10)
    np.testing.assert_allclose(linear.integral_error(0.5, 6, 0.8, alpha[1:], student_scale=0.5), integral, rtol=1e-10)


def test_mean_overlaps_against_solve():
    model = ov.committee_machine(1, 1, activation=ov.linear, spectrum=GOLDEN, eta=0.4, gradient_flow=True)
    p = GOLDEN.p[:, None, None]
    start = ov.State.from_blocks(model, q=0.25 * p, r=0 * p, t=p)
    alpha = np.array([0.0, 1.0, 10.0])
    traj = ov.solve(model, start, alpha, rtol=1e-11)
    R, Q = linear.flow_overlaps(GOLDEN, 0.4, alpha, student_scale=0.5)
    np.testing.assert_allclose(traj.R[:, 0, 0], R, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(traj.Q[:, 0, 0], Q, rtol=1e-10, atol=1e-13)


ZETA = np.sort(np.append(np.geomspace(1e-3, 1e7, 121), [3.0]))  # 1 and 10 are among them


def curves(beta, L):
    """Sum, integral and integral with end terms at 2 eta s_1 alpha = ZETA, up to the end of the window."""
    spectrum = ov.power_law(beta=beta, L=L)
    end = gamma((2 * beta + 1) / (1 + beta)) ** ((1 + beta) / beta) * L ** (1 + beta)
    z = ZETA[end > ZETA]
    alpha = z / (2 * 0.1 * spectrum.s[0])
    total = linear.flow_error(spectrum, 0.1, alpha)
    plain = linear.integral_error(beta, L, 0.1, alpha)
    ends = linear.integral_error(beta, L, 0.1, alpha, end_terms=True)
    return z, alpha, total, plain, ends


@pytest.mark.parametrize("beta", [0.01, 0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("L", [16, 128, 1024])
def test_bounds_of_the_integral(beta, L):
    z, _, total, plain, _ = curves(beta, L)
    bound = linear.integral_bound(beta, L)
    assert np.all(total - plain <= bound * (1 + 1e-12))
    start = linear.flow_error(ov.power_law(beta=beta, L=L), 0.1, 0.0) - linear.integral_error(beta, L, 0.1, 0.0)
    unit = ov.power_law(beta=beta, L=L).s[0] / L  # (1 + sigma_J^2) s_1 / (2 L)
    # the next term of the Euler-Maclaurin formula; at most 3.2e-4 for L >= 16
    assert 0 <= bound - start < (1 + beta) / 12 * L ** -(2 + beta) * unit + 1e-15
    assert linear.integral_bound(beta, L, printed=True) - bound == pytest.approx(unit * L ** -(1 + beta) / 2)


@pytest.mark.parametrize("beta", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("L", [128, 1024])
def test_errors_of_the_integral(beta, L):
    """The percentages that the docstring quotes."""
    z, _, total, plain, ends = curves(beta, L)
    low, high = 1 - plain / total, ends / total - 1
    assert 0.07 < np.interp(1.0, z, low) < 0.21 and 0.006 < np.interp(3.0, z, low) < 0.013
    assert np.max(np.abs(low[z >= 10])) < 0.009
    assert abs(np.interp(1.0, z, high)) < 0.01 and 0.005 < np.interp(3.0, z, high) < 0.04
    assert np.max(np.abs(high[z >= 10])) < 0.002


def test_errors_of_the_integral_of_steep_spectra():
    z, _, total, plain, _ = curves(2.0, 1024)
    assert np.max(np.abs(1 - plain / total)[z >= 10]) == pytest.approx(0.02, abs=0.005)


def test_the_printed_late_bound_is_an_estimate_only():
    """Half of the first summand against sum minus integral: exceeded right at zeta = 1, by far at zeta = 10."""
    for beta, excess, later in ((0.3, 0.0156, 5), (1.0, 0.0422, 20), (2.0, 0.1072, 40)):
        z, _, total, plain, _ = curves(beta, 1024)
        half = 0.5 * ov.power_law(beta=beta, L=1024).s[0] / 1024 * np.exp(-z)
        difference = total - plain
        at = np.argmin(np.abs(z - 1))
        assert difference[at] / half[at] == pytest.approx(1 + excess, abs=1e-4)
        assert np.interp(10.0, z, difference) > later * np.interp(10.0, z, half)


@pytest.mark.parametrize("beta, L", [(0.01, 128), (0.5, 30), (1.0, 1000)])
def test_integral_against_quadrature(beta, L):
    from scipy.integrate import quad

    s = ov.power_law(beta=beta, L=L).s[0]
    alpha = np.array([0.0, 1e-6, 0.3, 10.0, 1e4]) / s
    for n in (L, L // 3):
        found = linear.integral_error(beta, L, 0.1, alpha, student_scale=0.5, last=n)
        for a, value in zip(alpha, found, strict=True):

            def summand(u, a=a):  # k = e^u
                decay = np.exp(-(1 + beta) * u)
                return np.exp(u) * 0.625 * s / L * decay * np.exp(-0.2 * s * a * decay)

            expected = quad(summand, 0, np.log(n), epsabs=0, epsrel=1e-11, limit=200)[0]
            assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("beta, L", [(1.0, 10_000), (1.5, 128)])
def test_share_of_the_end_in_the_power_law(beta, L):
    """The percentages that the docstring quotes: where finitely many eigenvalues are felt."""
    alpha = linear.window(beta, L, 0.1)[1] * np.array([0.01, 0.1, 1.0])
    ratio = linear.power_law_error(beta, L, 0.1, alpha) / linear.flow_error(ov.power_law(beta=beta, L=L), 0.1, alpha)
    assert 0.065 < ratio[0] - 1 < 0.115 and 0.3 < ratio[1] - 1 < 0.45 and 4 < ratio[2] < 5


def test_power_law_and_its_window():
    beta, L, eta = 1.0, 10_000, 0.1
    first, last = linear.window(beta, L, eta)
    spectrum = ov.power_law(beta=beta, L=L)
    assert first == pytest.approx(1 / (2 * eta * spectrum.s[0])) and last / first == pytest.approx(
        gamma(1.5) ** 2 * L**2
    )
    alpha = np.array([30 * first, last / 100, last / 10, last])
    ratio = linear.power_law_error(beta, L, eta, alpha) / linear.flow_error(spectrum, eta, alpha)
    # as quoted: clean, 10 % at a hundredth of the upper end, 30 to 45 % at a tenth, a factor 4 to 7 at the end
    assert abs(ratio[0] - 1) < 0.01
    assert 0.07 < ratio[1] - 1 < 0.13 and 0.3 < ratio[2] - 1 < 0.45 and 4 < ratio[3] < 7
    # at the upper end the first gamma function of the integral has lost its power law by half
    middle = np.geomspace(20 * first, 2000 * first, 20)
    slope = np.polyfit(np.log(middle), np.log(linear.error(spectrum, eta, middle)), 1)[0]
    assert slope == pytest.approx(-linear.exponent(beta), abs=0.01)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: linear.integral_error(0.0, 10, 0.1, 1.0), r"beta = 0.0; expected a finite number > 0"),
        (lambda: linear.power_law_error(1.0, 0, 0.1, 1.0), "L = 0; expected an integer >= 1"),
        (lambda: linear.integral_error(1.0, 10, 0.1, 1.0, last=11), "last = 11; expected at most L = 10"),
        (lambda: linear.integral_bound(-1.0, 10), "beta = -1.0"),
        (lambda: linear.window(1.0, 10, -0.1), "eta = -0.1"),
        (lambda: linear.exponent(0), "beta = 0; expected"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
