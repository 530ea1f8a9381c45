"""Schedules of a linear student against LSODA, the library's own integrators, exact sums, and their exponents."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar
from scipy.special import gamma

import overlaps as ov
from overlaps.theory.scaling import Law
from overlaps.theory.scaling.schedules import integrate

LAW = Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)


def lsoda(law, end, factor, N_l):
    s, m, F = law.spectrum.s[:N_l], law.m0[:N_l], law.frozen(N_l)

    def rhs(t, m):
        eta = law.eta * factor(t)
        return -2 * eta * s * m + eta**2 / law.batch_size * s / law.L * (s @ m + law.noise**2 + 2 * F)

    found = solve_ivp(rhs, (0, end), m, method="LSODA", rtol=1e-11, atol=1e-16)
    return F + 0.5 * s @ found.y[:, -1]


def test_golden_numbers():
    """Given to 1e-6."""
    np.testing.assert_allclose(LAW.decayed([1, 10], power=0.4, tau=1), [0.01783786859, 0.00368358388], rtol=1e-6)
    np.testing.assert_allclose(LAW.annealed([1, 10], power=1), [0.02327951055, 0.00331206092], rtol=1e-6)


@pytest.mark.parametrize("N_l, batch_size", [(64, 1), (20, 3)])
def test_against_another_integrator(N_l, batch_size):
    law = dataclasses.replace(LAW, batch_size=batch_size)
    for T in (0.7, 6.0):
        found = law.annealed(T, power=0.5, N_l=N_l), law.decayed(T, power=0.6, tau=0.3, N_l=N_l)
        other = (
            lsoda(law, T, lambda t, T=T: max(1 - t / T, 0) ** 0.5, N_l),
            lsoda(law, T, lambda t: (1 + t / 0.3) ** -0.6, N_l),
        )
        np.testing.assert_allclose(found, other, rtol=1e-7)


def test_series_of_slow_modes_meet_exponentials():
    """One step on either side of where 2 h s = 1e-3: it moves by no more than the rate does."""
    ends = []
    for side in (-1e-9, 1e-9):
        s, y = np.array([0.4, 1e-3 / 2.6 * (1 + side)]), np.array([0.7, 0.3])
        s.flags.writeable = False  # as the eigenvalues of a law: another type is another kernel
        args = np.array([0.9, 0.6]), y, np.array([1.3]), np.array([0.8, 0.5]), np.array([0.4, 0.6]), 0.2
        ends.append([integrate(s, *args)[-1], *y])
    np.testing.assert_allclose(*ends, rtol=1e-9)


def test_any_schedule_is_that_of_solve():
    """Steps, warm-up, product: the order-parameter flow with the same schedule."""
    law = Law(1.0, 0.3, L=6, eta=0.9, noise=0.3)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.9, noise=0.3, spectrum=law.spectrum)
    zero = np.zeros((6, 1, 1))
    start = ov.State.from_blocks(model, q=zero, r=zero, t=law.m0[:, None, None])
    for schedule in (
        ov.Schedule.step([1.0, 2.5], [0.2, 0.5]),
        ov.Schedule.warmup(1.5) * ov.Schedule.cosine(4.0, last=0.1),
    ):
        traj = ov.solve(model, start, [0.0, 1.0, 2.5, 3.0, 6.0], schedule=schedule)
        np.testing.assert_allclose(law.scheduled(traj.alpha, schedule), traj.eps_g, rtol=1e-7)


def test_a_constant_rate_is_the_exact_sum():
    law, alpha = Law(0.8, -0.1, L=500, eta=0.8, noise=0.2, student_scale=0.5), np.array([[0.0, 0.01], [1.0, 100.0]])
    found = law.scheduled(alpha, ov.Schedule.constant(0.5), N_l=120)
    np.testing.assert_allclose(found, dataclasses.replace(law, eta=0.4).error(alpha, 120), rtol=1e-7)
    np.testing.assert_allclose(law.annealed(3.0, power=0.0, N_l=120), law.error(3.0, 120), rtol=1e-7)
    np.testing.assert_allclose(law.decayed(alpha, power=0.0, tau=1.0), law.error(alpha), rtol=1e-7)


def local_exponent(curve, law, low=1e5, high=1e6):
    """Of curve(alpha) between two values of zeta at the full rate."""
    ends = np.array([low, high]) / (2 * law.eta * law.spectrum.s[0])
    values = [float(curve(t)) for t in ends]
    return -np.log(values[1] / values[0]) / np.log(high / low)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source, power, expected",
    [(0.25, 3 / 7, 3 / 7), (0.5, 0.25, 0.25), (0.5, 0.5, 0.5), (0.5, 0.75, 0.25), (0.0, 1 / 3, 1 / 3)],
)
def test_exponents_of_decays(source, power, expected):
    """Label noise: min(w, g (1 - w)), best g/(1 + g)."""
    law = Law(1.0, source, L=3000, eta=0.5, noise=0.5)
    found = local_exponent(lambda t: law.decayed(t, power=power, tau=1 / law.spectrum.s[0]), law)
    assert found == pytest.approx(expected, abs=0.02)
    if power == pytest.approx(law.exponents.decayed):
        assert law.exponents.decayed == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("power, expected", [(3.0, 0.5), pytest.param(0.5, 1 / 3, marks=pytest.mark.slow)])
def test_exponents_of_annealing_at_a_fixed_rate(power, expected):
    """min(g, b, w/(1 + w)), beta = 1, source = 1/2."""
    law = Law(1.0, 0.5, L=3000, eta=0.5, noise=0.5)
    assert local_exponent(lambda t: law.annealed(t, power=power), law) == pytest.approx(expected, abs=0.02)


def test_annealing_without_noise_sheds_the_amplitude_and_decay_only_slows_down():
    law = Law(1.0, 0.3, L=1000, eta=1.0)
    alpha = 1e5 / (2 * law.spectrum.s[0])
    flow = 0.5 * np.sum(law.spectrum.s * law.m0 * np.exp(-law.spectrum.s * alpha))  # theta = alpha/2 at w = 1
    # P = 2 at the start of the annealing, 1 at its end; what is left of it are the latest steps
    assert law.annealed(alpha, power=1.0) / flow == pytest.approx(1.0, abs=0.1)
    assert law.error(alpha / 2) / flow == pytest.approx(2.0, abs=0.05)
    assert law.decayed(alpha, power=0.3, tau=0.01) > law.error(alpha)


@pytest.mark.slow
@pytest.mark.parametrize("source, expected", [(0.25, 0.6), (0.5, 2 / 3)])
def test_annealing_from_the_best_rate(source, expected):
    """gamma/(1 + gamma), with the rate tuned to each horizon."""
    law = Law(1.0, source, L=1500, eta=0.5, noise=0.5)
    assert law.exponents.annealed == pytest.approx(expected)

    def tuned(T):
        def end(ln_eta):
            return dataclasses.replace(law, eta=np.exp(ln_eta)).annealed(T, power=3.0)

        return minimize_scalar(end, bounds=(-6.0, 0.5), method="bounded", options=dict(xatol=0.03)).fun

    assert local_exponent(tuned, law, 1e4, 1e5) == pytest.approx(expected, abs=0.02)


def test_annealing_gains_nothing_from_the_best_rate_where_there_is_no_source():
    """Exponent g for source < 0, where the bias falls more slowly than the noise of a constant rate."""
    law = Law(1.0, -0.2, L=1000, eta=0.5, noise=0.1)

    def tuned(T):
        return min(dataclasses.replace(law, eta=eta).annealed(T, power=3.0) for eta in (0.5, 0.9))

    # the constant that a finite L subtracts, L^-0.6 of zeta^-0.3, makes it 0.32
    assert law.exponents.annealed == pytest.approx(local_exponent(tuned, law, 30, 300), abs=0.05)


def test_leading_term_of_annealed_label_noise():
    """e0 + (sigma^2/2) eta (u/2) Gamma(1 + b) zeta_T^-b / (a (W - b)), W = w/(1 + w), small eta; above at finite L."""
    law, w, a, b = Law(1.0, 0.25, L=3000, eta=0.02, noise=0.5), 3.0, 2.0, 0.5
    T = 1e3 * (1 + w) / (2 * law.spectrum.s[0] * law.eta)
    e0 = 0.5 * np.sum(law.spectrum.s * law.m0 * np.exp(-1e3 * law.spectrum.s / law.spectrum.s[0]))
    u = law.spectrum.s[0] / law.L
    leading = 0.125 * law.eta * u / 2 * gamma(1 + b) / (a * (w / (1 + w) - b)) * 1e3**-b
    assert 1.0 < (e0 + leading) / law.annealed(T, power=w) < 1.01
    assert leading > 0.03 * e0


def test_what_is_refused():
    for call, name in [
        (lambda: LAW.decayed(1.0, power=-0.1, tau=1.0), "power"),
        (lambda: LAW.decayed(1.0, power=0.1, tau=0.0), "tau"),
        (lambda: LAW.annealed(1.0, power=-1.0), "power"),
        (lambda: LAW.annealed([1.0, 0.0], power=1.0), "horizon"),
        (lambda: LAW.decayed(np.inf, power=1.0, tau=1.0), "alpha"),
        (lambda: LAW.scheduled(1.0, 0.5), "schedule"),
    ]:
        with pytest.raises(ValueError, match=f"^{name}"):
            call()
    with pytest.raises(ValueError, match="takes eta to 2.5; expected rates below 2"):
        LAW.scheduled(1.0, ov.Schedule.constant(5.0))
