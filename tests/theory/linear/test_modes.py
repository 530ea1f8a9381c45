"""Linear students: modes and errors against exponentials, many digits, integrated equations and SGD."""

import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import overlaps as ov
from overlaps.theory import linear

GOLDEN = ov.power_law(beta=0.5, L=6)  # with eta = 0.8, sigma_J^2 = 0.25


def generator(spectrum, eta):
    """dm/dalpha = G m + g sigma^2, written out."""
    s, p = spectrum.s, spectrum.p
    return -2 * eta * np.diag(s) + eta**2 * np.outer(s * p, s), eta**2 * s * p


def by_expm(spectrum, eta, alpha, m0, noise=0.0):
    """eps_g by the exponential of the generator, the constant source as one more component."""
    G, g = generator(spectrum, eta)
    L = len(g)
    whole = np.zeros((L + 1, L + 1))
    whole[:L, :L], whole[:L, L] = G, noise**2 * g
    return np.array([0.5 * spectrum.s @ (expm(whole * t) @ np.append(m0, 1.0))[:L] for t in alpha])


def quiet(function, *args, **kwargs):
    """Call without the warning of a coarse step, where that is the regime to be tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


# published digits ----------------------------------------------------------------------------------------------------


def test_golden_modes():
    mu, c = linear.modes(GOLDEN, 0.8)
    expected = [2.619074031432193, 1.04406877378965, 0.591553003188478, 0.391554786120593]
    np.testing.assert_allclose(mu, [*expected, 0.283043978291274, 0.21626732887016], rtol=2e-14)
    expected = [0.339048427619973, 0.205191702386542, 0.145205994326405, 0.11345958736391, 0.097073220691753]
    np.testing.assert_allclose(c, [*expected, 0.100021067611418], rtol=1e-13)


def test_golden_curves():
    alpha = [0, 0.5, 2, 10, 50]
    exact = [0.625, 0.2910386040396264, 0.09433096992432456, 0.002761064243210548, 1.923480367551201e-09]
    np.testing.assert_allclose(linear.error(GOLDEN, 0.8, alpha, student_scale=0.5), exact, rtol=1e-10)
    noisy = linear.error(GOLDEN, 0.8, [0, 2, 50], student_scale=0.5, noise=np.sqrt(0.1))
    np.testing.assert_allclose(noisy, [0.625, 0.122633318195027, 0.033333335154228], rtol=1e-10)
    steps = linear.sgd_mean(GOLDEN, 0.8, [0, 30, 120, 600], N=60, student_scale=0.5)
    np.testing.assert_allclose(steps, [0.625, 0.297962955023785, 0.097436702584778, 0.002877811205256], rtol=1e-10)


@pytest.mark.parametrize("beta, N, expected", [(1.0, 128, 1.0013), (0.75, 256, 1.1327), (0.3, 1024, 1.5695)])
def test_golden_critical_learning_rates_at_finite_N(beta, N, expected):
    spectrum = ov.power_law(beta=beta, L=N)
    assert linear.eta_critical(spectrum) == pytest.approx(2, rel=1e-14)
    assert linear.eta_critical(spectrum, N=N) == pytest.approx(expected, abs=5e-5)  # digits given


def test_golden_gap_between_sgd_and_the_ode():
    spectrum = ov.power_law(beta=1.0, L=128)
    with pytest.warns(RuntimeWarning, match="eta max"):
        sgd = linear.sgd_mean(spectrum, 1.0, np.array([1, 10, 100]) * 128, N=128)
    np.testing.assert_allclose(sgd, [1.62, 1.43, 0.575], rtol=3e-3)  # digits given
    np.testing.assert_allclose(linear.error(spectrum, 1.0, [1, 10, 100]), [0.0775, 0.0184, 0.0015], rtol=0.015)


# modes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta, L", [(0.01, 128), (0.5, 1), (0.5, 2), (1.0, 6), (1.0, 400), (2.0, 128)])
@pytest.mark.parametrize("eta", [1e-3, 0.5, 1.9, 2.0, 2.5, 20.0])
def test_modes_against_dense_eigenvalues(beta, L, eta):
    spectrum = ov.power_law(beta=beta, L=L)
    s, p = spectrum.s, spectrum.p
    mu, c = linear.modes(spectrum, eta)
    z = s * np.sqrt(p)
    values, vectors = np.linalg.eigh(np.diag(s) - eta / 2 * np.outer(z, z))
    order = np.argsort(-values)
    scale = s[0] + eta / 2 * z @ z  # what eigh is accurate to
    np.testing.assert_allclose(mu, values[order], rtol=0, atol=1e-14 * scale)
    # the amplitudes of eigh suffer from eps * scale / gap; below the critical learning rate ours keep the sum rule
    np.testing.assert_allclose(c, ((z @ vectors) * (np.sqrt(p) @ vectors))[order], rtol=0, atol=2e-10)
    assert abs(c.sum() - 1) < 1e-10
    assert np.all(mu < s) and np.all(mu[:-1] > s[1:])  # interlacing
    if eta < 2:
        assert np.all(c > 0) and mu[-1] > 0
    else:
        assert mu[-1] < 1e-14 * scale


@pytest.mark.slow
@pytest.mark.parametrize("L", [4, 10, 16])
def test_modes_against_the_companion_matrix_in_many_digits(L):
    """Moments m^(j) = sum_l s_l^j m_l, closed by the characteristic polynomial: c_k = 2 b_k mu_k / (2 - eta)."""
    eta = 0.9
    spectrum = ov.power_law(beta=0.7, L=L)
    with mp.workdps(80):
        s = [mp.mpf(x) for x in spectrum.s]
        moments = [sum(x**j for x in s) / L for j in range(L + 1)]
        polynomial = [mp.mpf(1)]  # prod (x - s_l), lowest power first
        for x in s:
            polynomial = [a - x * b for a, b in zip([0, *polynomial], [*polynomial, 0], strict=True)]
        B = mp.zeros(L, L)
        for j in range(L):  # d m^(j) = -2 eta m^(j+1) + eta^2 <s^(j+1)> m^(1)
            if j + 1 < L:
                B[j, j + 1] -= 2 * eta
            else:
                for i in range(L):
                    B[j, i] += 2 * eta * polynomial[i]
            B[j, 1] += mp.mpf(eta) ** 2 * moments[j + 1]
        values, vectors = mp.eig(B)
        for k in range(L):
            vectors[:, k] /= vectors[0, k]
        b = mp.lu_solve(vectors, mp.matrix(moments[:L]))
        rate = [-mp.re(x) / (2 * mp.mpf(eta)) for x in values]
        found = sorted(((r, 2 * mp.re(b[k]) * r / (2 - mp.mpf(eta))) for k, r in enumerate(rate)), reverse=True)
    mu, c = linear.modes(spectrum, eta)
    np.testing.assert_allclose(mu, [float(r) for r, _ in found], rtol=1e-13)
    np.testing.assert_allclose(c, [float(x) for _, x in found], rtol=1e-12)


def test_distant_poles_are_interpolated_without_loss():
    """At L = 10^4 most poles enter through Chebyshev series; sum rules of the exact derivatives at alpha = 0."""
    for beta in (0.3, 1.0):
        spectrum = ov.power_law(beta=beta, L=10_000)
        s, p, eta = spectrum.s, spectrum.p, 1.3
        mu, c = linear.modes(spectrum, eta)
        assert abs(c.sum() - 1) < 1e-13
        second, third = p @ s**2, p @ s**3
        assert mu @ c == pytest.approx(second * (1 - eta / 2), rel=1e-12)
        assert mu**2 @ c == pytest.approx(third * (1 - eta / 2) - eta / 2 * second**2 * (1 - eta / 2), rel=1e-12)
        # and the trace of the matrix itself, which weighs all modes alike
        assert mu.sum() == pytest.approx(s.sum() - eta / 2 * second, rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.01, 3.0))
def test_modes_of_any_spectrum(seed, L, eta):
    """Empty blocks, zero and equal eigenvalues, eigenvalues one rounding apart, weights over 12 decades."""
    rng = np.random.default_rng(seed)
    s = rng.choice([0.0, 1.0, np.nextafter(1.0, 2), 0.3, *rng.exponential(1, 3)], L)
    p = rng.choice([0.0, 1.0, 1e-12, *rng.random(3)], L)
    s[0], p[0] = 0.7, 1.0
    spectrum = ov.Spectrum(s, p / p.sum())
    m0 = spectrum.p * rng.random(L)
    alpha = np.array([0.0, 0.3, 2.0])
    found = linear.error(spectrum, eta, alpha, m0=m0, noise=0.4)
    # expm is accurate relative to the largest component on the way
    np.testing.assert_allclose(found, by_expm(spectrum, eta, alpha, m0, 0.4), rtol=1e-10)
    mu, _ = linear.modes(spectrum, eta)
    assert mu.size == np.unique(s[(s > 0) & (spectrum.p > 0)]).size


# the exact curve -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.1, 1.0, 1.99, 2.0, 2.2])
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_error_against_the_matrix_exponential(eta, noise, rng):
    spectrum = ov.power_law(beta=0.8, L=20)
    m0 = spectrum.p * rng.chisquare(1, 20)
    alpha = [0.0, 0.1, 1.0, 7.0, 30.0]
    found = linear.error(spectrum, eta, alpha, m0=m0, noise=noise)
    np.testing.assert_allclose(found, by_expm(spectrum, eta, alpha, m0, noise), rtol=1e-11)


def test_error_takes_any_shape_and_infinite_times():
    grid = np.array([[0.0, 1.0], [2.0, np.inf]])
    values = linear.error(GOLDEN, 0.5, grid, noise=0.3)
    assert values.shape == (2, 2) and np.ndim(linear.error(GOLDEN, 0.5, 1.0)) == 0
    assert values[1, 1] == pytest.approx(linear.limit_error(GOLDEN, 0.5, noise=0.3), rel=1e-13)
    assert linear.error(GOLDEN, 2.5, np.inf) == np.inf


@pytest.mark.parametrize("K, M, normalised", [(1, 1, False), (3, 2, True), (2, 3, False)])
@pytest.mark.parametrize("flow", [False, True])
def test_error_against_solve(K, M, normalised, flow):
    """The integrated equations of all overlaps, from one random start and any K, M."""
    eta = 0.9 / (1 if normalised else K)
    model = ov.committee_machine(
        K, M, activation=ov.linear, spectrum=GOLDEN, normalised=normalised, eta=eta, noise=0.2, gradient_flow=flow
    )
    start = model.random_start(N=600, rng=3, student_scale=0.7)
    alpha = np.array([0.0, 0.5, 3.0, 20.0])
    traj = ov.solve(model, start, alpha, rtol=1e-11)
    eta_eff, m0 = linear.reduce(model, start)
    assert eta_eff == pytest.approx(eta * (M / K if normalised else K))
    if flow:
        found = linear.flow_error(GOLDEN, eta_eff, alpha, m0=m0)
    else:
        found = linear.error(GOLDEN, eta_eff, alpha, m0=m0, noise=0.2)
    np.testing.assert_allclose(traj.eps_g, found, rtol=1e-9, atol=1e-14)  # 100 rtol: a difference of overlaps


def test_reduce_averages_to_the_random_start():
    model = ov.committee_machine(4, 2, activation=ov.linear, spectrum=GOLDEN, normalised=True, eta=0.5)
    draws = [linear.reduce(model, model.random_start(N=600, rng=i, student_scale=0.5))[1] for i in range(200)]
    expected = (0.5**2 * 2 / 4 + 1) * GOLDEN.p
    # relative fluctuations sqrt(2 / 100) of 100 components, over 200 draws: 1 %; five of them
    np.testing.assert_allclose(np.mean(draws, axis=0), expected, rtol=0.05)


# stability and large learning rates ----------------------------------------------------------------------------------


def test_critical_learning_rate_of_the_linearised_equations():
    spectrum = ov.Spectrum([2.0, 0.5, 0.1], [0.2, 0.3, 0.5])
    model = ov.committee_machine(2, 1, activation=ov.linear, spectrum=spectrum, v=[1.0, 0.5], eta=0.1)
    t = spectrum.p[:, None, None] * np.ones((1, 1, 1))
    r = t * np.array([[1.0], [0.0]])
    start = ov.State.from_blocks(model, q=r @ r.swapaxes(1, 2) / spectrum.p[:, None, None], r=r, t=t)
    effective = linear.eta_critical(spectrum) / 1.25  # sum v^2
    assert ov.critical_eta(model, start) == pytest.approx(effective, rel=1e-6)


def test_last_mode_vanishes_at_the_threshold():
    """Close to 2 the last rate is first order in 2 - eta: mu_L = (1/eta - 1/2) / (p_l / s_l summed / 2 ...) by hand."""
    spectrum = ov.power_law(beta=1.0, L=50)
    for gap in (1e-3, 1e-6, 1e-9):
        mu = linear.modes(spectrum, 2 - gap).mu[-1]
        # F(mu) = (eta/2) sum p s^2/(s - mu) = eta/2 (1 + mu + mu^2 <1/s> ...) = 1
        first = 2 / (2 - gap) - 1
        expected = first - first**2 * np.mean(1 / spectrum.s)
        # next order in mu / s_L; the input 2 - eta is itself rounded
        assert mu == pytest.approx(expected, rel=3 * (first / spectrum.s[-1]) ** 2 + 1e-15 / gap)


def test_last_mode_keeps_its_digits_at_the_threshold():
    """Weights 1/8 and eta = 2 - 2^-40 make 1 - eta/2 exact: what is left are 8 roundings and the third order."""
    spectrum = ov.Spectrum(s=[3.0, 2.0, 1.0, 0.75, 0.5, 0.375, 0.25, 0.125], p=np.full(8, 0.125))
    gap = 2.0**-40
    mu = linear.modes(spectrum, 2 - gap).mu[-1]
    first = 2 / (2 - gap) - spectrum.mean  # eta/2 (<s> + mu + mu^2 <1/s> ...) = 1
    assert mu == pytest.approx(first, rel=10 * first)
    assert linear.modes(spectrum, 2.0).mu[-1] == 0.0


def test_noise_feeds_a_marginal_mode_for_ever():
    """At the critical learning rate dm/dalpha = eta^2 sigma^2, isotropic: eps_g = 1 + 2 alpha sigma^2."""
    np.testing.assert_allclose(linear.error(ov.isotropic(), 2, [0, 1, 5], noise=1), [1, 3, 11], rtol=1e-14)
    spectrum, alpha = ov.Spectrum([1.5, 0.5], [0.5, 0.5]), np.array([0.0, 0.7, 40.0])
    m0 = np.array([0.3, 1.1])
    np.testing.assert_allclose(
        linear.error(spectrum, 2.0, alpha, m0=m0, noise=0.6), by_expm(spectrum, 2.0, alpha, m0, 0.6), rtol=1e-11
    )


@pytest.mark.parametrize("eta, measured", [(0.1, 1.05266), (0.5, 1.33358), (1.0, 2.00106), (1.5, 4.0052)])
def test_large_learning_rates_raise_the_power_law(eta, measured):
    spectrum = ov.power_law(beta=1.0, L=2048)
    alpha = 1e4 / (2 * eta * spectrum.s[0])
    ratio = linear.error(spectrum, eta, alpha) / linear.flow_error(spectrum, eta, alpha)
    assert ratio == pytest.approx(measured, abs=6e-6 if eta < 1.5 else 6e-5)  # digits given
    assert linear.amplitude(spectrum, eta) == pytest.approx(ratio, rel=2e-3)  # corrections of the window


# finite N ------------------------------------------------------------------------------------------------------------


def second_moments(spectrum, N, eta, steps, M, noise):
    """E[d d^T] of the weight differences after every step, all N x N entries, by Isserlis' theorem."""
    s = np.repeat(spectrum.s, spectrum.block_sizes(N))
    S, result = np.diag(s), []
    for _ in range(steps + 1):
        result.append(0.5 * np.sum(s * np.diag(M)) / N)
        drift = S @ M + M @ S
        pairings = 2 * S @ M @ S + S * np.trace(S @ M)
        M = M - eta / N * drift + eta**2 / N**2 * pairings + eta**2 * noise**2 / N * S
    return np.array(result)


@pytest.mark.parametrize("N", [3, 6, 12])
def test_sgd_mean_against_all_second_moments(N, rng):
    """Also where a step is too large (eta s > N) and where two rates coincide (s_1 + s_2 = N / eta)."""
    spectrum = ov.Spectrum([2.2, 0.8, 0.0])
    for eta in (0.5, N / 3.0, N / 2.0):
        d0 = rng.standard_normal(N)
        m0 = np.sum(d0.reshape(3, -1) ** 2, axis=1) / N
        brute = second_moments(spectrum, N, eta, 25, np.outer(d0, d0), 0.3)
        found = quiet(linear.sgd_mean, spectrum, eta, np.arange(26), N=N, m0=m0, noise=0.3)
        np.testing.assert_allclose(found, brute, rtol=1e-11)


def test_sgd_mean_and_threshold_of_blocks_of_different_size(rng):
    """Weights 1/6, 1/2, 1/3, s in no order: all second moments, and the spectral radius of one step."""
    spectrum, N, eta = ov.Spectrum([0.5, 1.2, 2.2], [1 / 6, 1 / 2, 1 / 3]), 12, 0.7
    d0 = rng.standard_normal(N)
    m0 = np.array([np.sum(d**2) for d in np.split(d0, [2, 8])]) / N
    brute = second_moments(spectrum, N, eta, 25, np.outer(d0, d0), 0.3)
    found = quiet(linear.sgd_mean, spectrum, eta, np.arange(26), N=N, m0=m0, noise=0.3)
    np.testing.assert_allclose(found, brute, rtol=1e-11)
    s, p, eta = spectrum.s, spectrum.p, linear.eta_critical(spectrum, N=N)
    step = np.diag(1 - 2 * eta * s / N + 2 * eta**2 * s**2 / N**2) + eta**2 / N * np.outer(s * p, s)
    assert np.max(np.abs(np.linalg.eigvals(step))) == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.5, 1.0])
def test_sgd_mean_against_sgd(eta, rng):
    """3000 runs from random weights, N = 64, L = 8; the ODE is 8 to 11 % low at eta = 1."""
    N, runs, steps = 64, 3000, 128
    spectrum = ov.power_law(beta=1.0, L=8)
    s = np.repeat(spectrum.s, 8)
    d = rng.standard_normal((runs, N)) - rng.standard_normal((runs, N))
    for _ in range(steps):
        x = rng.standard_normal((runs, N)) * np.sqrt(s)
        d -= eta * np.sum(d * x, axis=1, keepdims=True) * x / N
    errors = 0.5 * np.mean(s * d**2, axis=1)
    expected = quiet(linear.sgd_mean, spectrum, eta, steps, N=N)
    assert abs(errors.mean() - expected) < 5 * errors.std() / np.sqrt(runs)
    if eta == 1.0:
        assert 0.06 < 1 - linear.error(spectrum, eta, steps / N) / expected < 0.13


@pytest.mark.slow
def test_sgd_mean_against_simulate():
    """K = 2, M = 3 with noise, from one start, in both simulators."""
    spectrum = ov.power_law(beta=0.5, L=4)
    model = ov.committee_machine(2, 3, activation=ov.linear, spectrum=spectrum, eta=0.6, noise=0.5)
    start = model.random_start(N=64, rng=1)
    eta, m0 = linear.reduce(model, start)
    expected = linear.sgd_mean(spectrum, eta, [0, 64, 640], N=64, m0=m0, noise=0.5)
    for method in ("direct", "reduced"):
        runs = ov.simulate(model, N=64, alpha=[0, 1, 10], rng=2, start=start, runs=150, method=method)
        distance = np.abs(runs.mean("eps_g") - expected)
        assert np.all(distance < 5 * runs.standard_error("eps_g") + 1e-12)


def test_sgd_mean_approaches_the_ode_and_takes_many_steps():
    spectrum = ov.power_law(beta=0.5, L=4)
    ode = linear.error(spectrum, 1.0, 2.0)
    gaps = [quiet(linear.sgd_mean, spectrum, 1.0, 2 * N, N=N) / ode - 1 for N in (400, 4000, 40000)]
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 10, rtol=0.02)  # first order in 1/N
    late = linear.sgd_mean(ov.power_law(beta=1.0, L=100), 0.01, [10**6, 10**12], N=100, noise=0.1)
    assert np.all(np.isfinite(late)) and late[1] < late[0]


@pytest.mark.parametrize("beta, N", [(1.0, 32), (0.3, 60)])
def test_finite_N_threshold_is_a_spectral_radius(beta, N):
    spectrum = ov.power_law(beta=beta, L=N)
    s, p = spectrum.s, spectrum.p
    eta = linear.eta_critical(spectrum, N=N)
    for factor, side in ((0.999, -1), (1.0, 0), (1.001, 1)):
        e = factor * eta
        step = np.diag(1 - 2 * e * s / N + 2 * e**2 * s**2 / N**2) + e**2 / N * np.outer(s * p, s)
        radius = np.max(np.abs(np.linalg.eigvals(step)))
        assert np.sign(np.round(radius - 1, 12)) == side
    assert linear.eta_critical(ov.isotropic(), N=1) == pytest.approx(2 / 3)  # E (1 - eta x^2)^2 = 1 - 2 eta + 3 eta^2
    assert linear.eta_critical(spectrum, N=10**6 * N) == pytest.approx(2, rel=1e-5)


# bad input -----------------------------------------------------------------------------------------------------------

MODEL = ov.committee_machine(2, 2, eta=0.1)
START = MODEL.random_start(N=100, rng=0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: linear.amplitude(GOLDEN, 2.0), r"critical value 2/<s> = 2: .* ov.solve, which accept any"),
        (lambda: linear.limit_error(GOLDEN, 2.5, noise=0.1), "eta = 2.5 is not below the critical value"),
        (lambda: linear.modes(GOLDEN, 0.0), "eta = 0.0; expected a finite number > 0"),
        (lambda: linear.modes("power law", 0.5), "expected a Spectrum"),
        (lambda: linear.modes(ov.Spectrum([0.0]), 0.5), "all eigenvalues with weight are zero"),
        (lambda: linear.error(GOLDEN, 0.5, [-1.0]), "alpha contains negative numbers"),
        (lambda: linear.error(GOLDEN, 0.5, np.nan), "alpha contains negative numbers or nan"),
        (lambda: linear.error(GOLDEN, 0.5, 1.0, student_scale=-1), "student_scale = -1; expected"),
        (lambda: linear.error(GOLDEN, 0.5, 1.0, noise=-0.1), "noise = -0.1; expected"),
        (lambda: linear.error(GOLDEN, 0.5, 1.0, m0=[1.0]), "m0 has shape"),
        (lambda: linear.error(GOLDEN, 0.5, 1.0, m0=-GOLDEN.p), "m0 = .*>= 0"),
        (lambda: linear.error(ov.Spectrum([1.0, 2.0], [1.0, 0.0]), 0.5, 1.0, m0=[1.0, 1.0]), "blocks without"),
        (lambda: linear.sgd_mean(GOLDEN, 0.1, 10, N=61), "try N = 60"),
        (lambda: linear.sgd_mean(GOLDEN, 0.1, 0.5, N=60), "steps contains fractions"),
        (lambda: linear.eta_critical(GOLDEN, N=7), "try N = 6"),
        (lambda: linear.reduce(MODEL, START), "is not linear"),
        (
            lambda: linear.reduce(ov.hidden_manifold(2, 2, activation=ov.linear, ratio=0.5, eta=0.1), START),
            "a teacher of latents",
        ),
        (
            lambda: linear.reduce(ov.committee_machine(2, 2, eta=0.1, activation=ov.linear, batch_size=2), START),
            "batch_size > 1",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
