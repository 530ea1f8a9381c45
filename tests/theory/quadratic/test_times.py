"""Learning times of quadratic networks, and the learning rate that makes them short."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import overlaps as ov
from overlaps.theory import quadratic


@pytest.mark.slow
def test_half_loss_times():
    """K = M = 3, eps = 0.01, 20 random starts. Other starts than the table's: the spread of ln|R(0)| / rate is 5 %."""
    R = 0.01 * np.random.default_rng(5).standard_normal((20, 3, 3))
    table = {0.02: 241.9, 0.10: 54.5, 0.20: 33.3, 0.24: 30.9, 0.28: 30.40, 0.36: 36.7, 0.40: 49.5}
    times = []
    for eta in table:
        model = ov.quadratic_network(3, 3, eta=quadratic.eta_from_paper(eta))
        starts = [ov.State.from_overlaps(model, Q=np.eye(3), R=r, T=np.eye(3)) for r in R]
        times.append(np.mean([quadratic.half_loss_time(model, s) for s in starts]))
    np.testing.assert_allclose(times, list(table.values()), rtol=0.05)
    assert np.argmin(times) == 4  # 0.28
    eta, best = quadratic.eta_fastest(3, 3, eps=0.01, rng=5, rtol=0.01)
    assert best <= min(times) * (1 + 1e-4) and 0.26 < eta / 2 < 0.29
    assert 0.85 < eta / quadratic.eta_escape(3, 3) < 0.97


def test_half_loss_time_of_a_diverging_run_is_infinite():
    model = ov.quadratic_network(1, 1, eta=2 * quadratic.eta_plateau(1, 1))
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.01]], T=[[1.0]])
    assert quadratic.half_loss_time(model, start, alpha_max=200.0) == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadratic.eta_fastest(2, 3, eps=0.1, rng=0), "no zero-error solution"),
        (lambda: quadratic.eta_fastest(2, 1, eps=5.0, rng=0), "not positive semi-definite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_time_of_half_the_loss_is_that_of_the_trajectory():
    """On a dense grid; a network whose loss at rest is above one half never gets there."""
    model = ov.quadratic_network(2, 1, eta=0.1, noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.4, 0.1], [0.1, 0.3]], R=[[0.2], [0.05]], T=[[1.0]])
    alpha = np.linspace(0, 60, 6001)
    eps_g = ov.solve(model, start, alpha).eps_g
    first = alpha[np.argmax(eps_g <= eps_g[0] / 2)]
    assert first - 0.01 < quadratic.half_loss_time(model, start) <= first  # the spacing of the grid
    assert quadratic.half_loss_time(model, start, alpha_max=first / 2) == np.inf


def on_the_axes(K, M, eta, R):
    """Half-loss time from Q(0) = 1 in the singular basis of R, where Q stays diagonal: 2 M + 1 numbers at any K."""

    def parts(y):
        r, q = y[:M], np.r_[y[M : 2 * M], np.full(K - M, y[-1])]
        return r, q, np.r_[r * r, np.zeros(K - M)], 1 - q.sum() / K

    def risk(y):
        r, q, P, delta = parts(y)
        return delta**2 + 2 * (q @ q) / K**2 - 4 * P.sum() / (K * M) + 2 / M

    def slope(_, y):
        r, q, P, delta = parts(y)
        noise = risk(y) * q + 4 * delta * (P / M - q * q / K) + 8 * q**3 / K**2 - 16 * q * P / (K * M) + 8 * P / M**2
        dq = 4 * eta / K * (delta * q + 2 / M * P - 2 / K * q * q) + 4 * eta**2 / K**2 * noise
        return np.r_[2 * eta / K * ((delta + 2 / M) * r - 2 / K * q[:M] * r), dq[:M], dq[-1]]

    start = np.r_[np.linalg.svd(R, compute_uv=False), np.ones(M + 1)]
    halved = lambda _, y: risk(y) - risk(start) / 2  # noqa: E731
    halved.terminal = True
    return solve_ivp(slope, (0, 1e3), start, method="LSODA", rtol=1e-9, atol=1e-12, events=halved).t[-1]


@pytest.mark.parametrize(("K", "share"), [(7, 0.2), (24, 0.29)])
def test_half_loss_times_of_wide_students(K, share):
    R = 0.05 * np.random.default_rng(K).standard_normal((K, 3))
    model = ov.quadratic_network(K, 3, eta=share * K)
    start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(3))
    assert quadratic.half_loss_time(model, start) == pytest.approx(on_the_axes(K, 3, share * K, R), rel=1e-5)


def test_half_loss_times_beyond_the_first_horizon():
    """A slow run, whose time is 1/eta at small rates."""
    times = []
    for eta in (4e-3, 2e-3):
        model = ov.quadratic_network(1, 1, eta=eta)
        start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.1]], T=[[1.0]])
        times.append(quadratic.half_loss_time(model, start))
    assert 100 < times[0] < 500 and times[1] == pytest.approx(2 * times[0], rel=0.02)  # the noise is of order eta
    assert quadratic.half_loss_time(model, start, alpha_max=0.9 * times[1]) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("K", [10, 24, 40])
def test_fastest_rate_of_wide_students(K):
    """It leaves the branch of the escape rate and comes to nine tenths of where solutions are unstable."""
    eta, time = quadratic.eta_fastest(K, 3, eps=0.01, rng=1, starts=2, rtol=0.03)
    R = 0.01 * np.random.default_rng(1).standard_normal((2, K, 3))
    assert time == pytest.approx(np.mean([on_the_axes(K, 3, eta, r) for r in R]), rel=1e-4)
    for other in (0.93, 1.05):  # the minimum is broad
        assert time < np.mean([on_the_axes(K, 3, min(other * eta, 0.999 * quadratic.eta_solution(K, 3)), r) for r in R])
    assert 0.78 < eta / quadratic.eta_solution(K, 3) < 0.92


@pytest.mark.parametrize("eta", [0.05, 0.6])
def test_half_loss_times_grow_with_the_logarithm_of_n(eta):
    """1/(2 omega) for each unit of log N: overlaps begin at 1/sqrt(N). The same directions at both sizes."""
    model = ov.quadratic_network(4, 2, eta=eta)
    sizes = 10**7, 10**10
    times = [
        quadratic.half_loss_time(model, model.random_start(N=N, rng=3, students="orthonormal", teacher="ideal"))
        for N in sizes
    ]
    slope = np.diff(times)[0] / np.log(sizes[1] / sizes[0])
    # overlaps of 3e-4 are linear up to their square
    assert slope == pytest.approx(1 / (2 * quadratic.plateau(4, 2, eta=eta).escape), rel=1e-3)


@pytest.mark.slow
def test_half_loss_times_of_sgd_grow_with_the_logarithm_of_n():
    """The same slope, from runs that are exact in law at each N; without the noise of the norm it would be 1.67."""
    model, sizes, runs, alpha = ov.quadratic_network(4, 2, eta=0.6), (400, 6400), 40, np.linspace(0, 34, 171)
    means, errors = [], []
    for N in sizes:
        rngs = np.random.default_rng(N).spawn(runs)
        starts = [model.random_start(N=N, rng=rng, students="orthonormal", teacher="ideal") for rng in rngs]
        eps_g = ov.simulate(model, N=N, alpha=alpha, rng=N, start=starts, runs=runs).eps_g
        assert np.all(eps_g[:, -1] < eps_g[:, 0] / 2)
        times = alpha[np.argmax(eps_g < eps_g[:, :1] / 2, axis=1)]
        means.append(times.mean())
        errors.append(times.std(ddof=1) / np.sqrt(runs))
    slope, error = np.diff(means)[0] / np.log(16), np.hypot(*errors) / np.log(16)
    law = 1 / (2 * quadratic.plateau(4, 2, eta=0.6).escape)
    small = 1 / (2 * quadratic.plateau(4, 2, eta=0.6, gradient_flow=True).escape)
    assert small < 0.8 * law
    assert abs(slope - law) < 3 * error < 0.2 * law
