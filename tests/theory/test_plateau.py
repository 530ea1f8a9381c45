"""Heights of the erf plateau and rates of escape against the flow, its Jacobian, explicit weights, trajectories."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.theory import plateau

GENERAL = (
    np.array([[1.1, 0.1, 0.05], [0.1, 0.9, -0.1], [0.05, -0.1, 1.2]]),
    np.array([[2, 0.3, 0.1], [0.3, 1.5, -0.4], [0.1, -0.4, 2.5]]),
)


def symmetric(M, diagonal, row):
    return (diagonal - row / (M - 1)) * np.eye(M) + row / (M - 1)


def random_teacher(rng, L, M, strength=0.4):
    """Plain blocks t^l of a teacher that is orthonormal up to fluctuations, (L, M, M)."""
    X = rng.standard_normal((L, M, 12))
    t = np.eye(M) + strength * (X @ X.swapaxes(1, 2) / 12 - np.eye(M))
    return t / L


def start_with(model, t):
    """State of small independent students and the teacher t."""
    q = np.broadcast_to(1e-3 * np.eye(model.K), (len(t), model.K, model.K))
    return ov.State.from_blocks(model, q=q, r=np.zeros((len(t), model.K, model.M)), t=t)


# published numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "T1, D1, T2, D2, Q, R, eps_g, tau",
    [  # Worschech and Rosenow (2024), M = 5, eta = 0.1; the last digits are from 40-digit arithmetic
        (1.0, 0.0, 3.0, 0.0, 1 / 9, 0.149071198499986, 0.007245264520367076, 573.0716241851871),
        (1.1, 0.2, 3.0, 0.1, 0.141304347826087, 0.191674543001266, 0.008251831509616523, 499.3516385519010),
    ],
)
def test_symmetric_teacher_golden_numbers(T1, D1, T2, D2, Q, R, eps_g, tau):
    T, second = symmetric(5, T1, D1), symmetric(5, T2, D2)
    for point in (plateau.symmetric_plateau(5, T1=T1, D1=D1), plateau.plateau(T)):
        assert point.Q == pytest.approx(Q, rel=1e-12) and point.eps_g == pytest.approx(eps_g, rel=1e-12)
        np.testing.assert_allclose(point.R, R, rtol=1e-12)
        np.testing.assert_allclose(T @ point.c, point.R, rtol=1e-14)
    assert plateau.escape_time(5, T1=T1, D1=D1, T2=T2, D2=D2, eta=0.1) == pytest.approx(tau, rel=1e-12)
    rates = plateau.escape_rates(T, second, eta=0.1)
    np.testing.assert_allclose(1 / rates[:4], tau, rtol=1e-11)  # M - 1 of them coincide
    assert plateau.row_averages(T) == pytest.approx((T1, D1), abs=1e-15)


def test_general_teacher_golden_numbers():
    T, T2 = GENERAL
    point = plateau.plateau(T)
    np.testing.assert_allclose(point.c, [0.254686205284917, 0.265689303459888, 0.247558094405088], rtol=1e-13)
    np.testing.assert_allclose(point.R, [0.319101660879651, 0.239833184201882, 0.283235093204362], rtol=1e-13)
    assert point.Q == pytest.approx(0.215109042709037, rel=1e-13)
    assert point.eps_g == pytest.approx(0.007413062538160152, rel=1e-12)
    gamma = np.array([0.038171029928676, 0.02428022951211, -0.000194565802311])
    np.testing.assert_allclose(plateau.escape_rates(T, T2, eta=1.0), gamma, rtol=1e-10)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(plateau.escape_matrix(T, T2, eta=0.2)))[::-1], 0.2 * gamma)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_isotropic_inputs_are_the_textbook_case(K):
    """Saad and Solla (1995), small eta: escape rate 2K / (pi sqrt(2K - 1) (2K + 1)^{3/2}) of the soft committee."""
    rate = 2 * K / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)
    assert plateau.escape_time(K, T2=1.0, eta=0.3, v=1.0, v_star=1.0) == pytest.approx(1 / (0.3 * rate), rel=1e-13)
    rates = plateau.escape_rates(np.eye(K), np.eye(K), eta=0.3, v=1.0, v_star=1.0)
    np.testing.assert_allclose(rates[:-1], 0.3 * rate, rtol=1e-12)
    assert abs(rates[-1]) < 1e-15
    ones = plateau.symmetric_plateau(K, v=1.0, v_star=1.0)
    assert ones.Q == pytest.approx(1 / (2 * K - 1)) and ones.R[0] == pytest.approx(1 / np.sqrt(K * (2 * K - 1)))
    assert ones.eps_g == pytest.approx(K * plateau.symmetric_plateau(K).eps_g, rel=1e-13)


# against the library --------------------------------------------------------------------------------------------------

SIZES = [(4, 4), (3, 2), (2, 3), (5, 4)]


@pytest.mark.parametrize("K, M", SIZES)
@pytest.mark.parametrize("weights", ["normalised", "any"])
def test_heights_and_rates_are_those_of_the_flow(K, M, weights, rng):
    """The velocity vanishes; every rate is (K - 1)-fold in the full Jacobian, which has no other growing modes."""
    layers = {}
    if weights == "any":
        layers = {"v": 0.7, "v_star": rng.uniform(0.4, 0.9, M)}
    options = dict(v=np.full(K, 0.7), v_star=layers["v_star"]) if layers else dict(normalised=True)
    spectrum = ov.power_law(beta=0.5, L=4)
    model = ov.committee_machine(K, M, eta=0.2, gradient_flow=True, spectrum=spectrum, **options)
    start = start_with(model, random_teacher(rng, 4, M))
    state = plateau.plateau_state(model, start)
    T, T2 = plateau.teacher_moments(start, [1, 2])
    point = plateau.plateau(T, K=K, **layers)
    np.testing.assert_allclose(state.R, np.tile(point.R, (K, 1)), rtol=1e-12)
    np.testing.assert_allclose(state.Q, point.Q, rtol=1e-12)
    assert ov.closure(model, state.Q, state.R, T).eps_g == pytest.approx(point.eps_g, rel=1e-10)  # difference of O(1)
    lin = ov.linearise(model, state)
    assert lin.residual < 3e-16 * 10 * model.eta
    rates = plateau.escape_rates(T, T2, eta=0.2, K=K, **layers)
    growing = rates[rates > 1e-9]
    assert lin.unstable == (K - 1) * growing.size
    np.testing.assert_allclose(lin.eigenvalues.real[: lin.unstable], np.repeat(growing, K - 1), rtol=1e-9)
    # the others are there too
    for rate in rates:
        assert np.sum(np.abs(lin.eigenvalues - rate) < 1e-9) >= K - 1


def test_closed_forms_hold_for_any_balanced_weights():
    """K v = M v* is all that (13), (97), (99) and (116) need."""
    T, T2 = symmetric(3, 0.8, -0.3), symmetric(3, 2.0, 0.4)
    layers = dict(K=5, v=0.6, v_star=1.0)
    exact, closed = plateau.plateau(T, **layers), plateau.symmetric_plateau(3, T1=0.8, D1=-0.3, **layers)
    for a, b in zip(exact, closed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)
    tau = plateau.escape_time(3, T1=0.8, D1=-0.3, T2=2.0, D2=0.4, eta=0.1, **layers)
    np.testing.assert_allclose(plateau.escape_rates(T, T2, eta=0.1, **layers)[:2], 1 / tau, rtol=1e-11)
    # one teacher: T is a number and the rates have nothing to break towards
    one = plateau.symmetric_plateau(1, T1=0.5, K=2)
    np.testing.assert_allclose(one.eps_g, plateau.plateau([[0.5]], K=2).eps_g, atol=1e-16)
    assert one.c[0] == 1.0 and plateau.escape_rates([[0.5]], [[0.5]], eta=0.1, K=2)[0] < 1e-16


def test_heights_of_the_hierarchy(rng):
    """R^(j) = T^(j) c and Q^(j) from the blocks of the plateau; for symmetric teachers the corrected (98)."""
    model = ov.committee_machine(3, 3, eta=0.1, normalised=True, spectrum=ov.power_law(beta=0.25, L=5))
    start = start_with(model, random_teacher(rng, 5, 3))
    state = plateau.plateau_state(model, start)
    T = plateau.teacher_moments(start, range(5))
    Q, R = plateau.moments(plateau.plateau(T[1]).c, T)
    q, r, t = state.plain
    for j in range(5):
        weight = model.spectrum.s**j
        np.testing.assert_allclose(np.tensordot(weight, t, 1), T[j], rtol=1e-12)
        np.testing.assert_allclose(np.tensordot(weight, q, 1), np.full((3, 3), Q[j]), rtol=1e-12)
        np.testing.assert_allclose(np.tensordot(weight, r, 1), np.tile(R[j], (3, 1)), rtol=1e-12)
    point = plateau.symmetric_plateau(4, T1=1.1, D1=0.3)
    np.testing.assert_allclose(plateau.moments(point.c, symmetric(4, 2.0, 0.5))[1], point.R * 2.5 / 1.4, rtol=1e-13)


def test_permutations_and_split_blocks(rng):
    t = random_teacher(rng, 3, 3)
    T, T2 = (np.tensordot(np.array([2.0, 0.7, 0.3]) ** j, t, 1) for j in (1, 2))
    order = [2, 0, 1]
    point, moved = plateau.plateau(T), plateau.plateau(T[np.ix_(order, order)])
    np.testing.assert_allclose(moved.c, point.c[order], rtol=1e-12)
    rates = plateau.escape_rates(T, T2, eta=0.1)
    turned = plateau.escape_rates(T[np.ix_(order, order)], T2[np.ix_(order, order)], eta=0.1)
    np.testing.assert_allclose(turned, rates, rtol=1e-11)
    # one eigenvalue as two blocks
    for s, blocks in (([2.0, 0.7, 0.3], t), ([2.0, 0.7, 0.7, 0.3], np.stack([t[0], 0.4 * t[1], 0.6 * t[1], t[2]]))):
        model = ov.committee_machine(3, 3, eta=0.1, spectrum=ov.Spectrum(s=s))
        first, second = plateau.teacher_moments(start_with(model, blocks), [1, 2])
        np.testing.assert_allclose(plateau.escape_rates(first, second, eta=0.1), rates, rtol=1e-11)


# curvature with explicit weights --------------------------------------------------------------------------------------


def weights_around_plateau(model, W_star, delta):
    state = ov.State.from_weights(model, W=np.zeros((model.K, W_star.shape[1])), W_star=W_star)
    T = state.T
    c = plateau.plateau(T, K=model.K, v=float(model.v[0]), v_star=model.v_star).c
    W = c @ W_star + delta
    at = ov.State.from_weights(model, W=W, W_star=W_star)
    return T, ov.closure(model, at.Q, at.R, T).eps_g


@pytest.mark.parametrize("K", [2, 3])
def test_curvature_of_explicit_weights(K, rng):
    """N = 40, M = 3; the error of a central second difference with step h is h^2 relative, and rounding 1e-16/h^2."""
    N, M, h = 40, 3, 1e-3
    model = ov.committee_machine(K, M, eta=0.1, normalised=True, spectrum=ov.power_law(beta=0.5, L=4))
    W_star = rng.standard_normal((M, N))
    delta = rng.standard_normal((K, N))
    delta -= delta.mean(axis=0)
    (T, above), (_, below) = (weights_around_plateau(model, W_star, sign * h * delta) for sign in (1, -1))
    S = plateau.curvature(T, K=K)
    rho = h * (delta * np.repeat(model.spectrum.s, N // 4)) @ W_star.T / N
    expected = np.einsum("km,mn,kn->", rho, S, rho) / 2
    assert (above + below) / 2 - plateau.plateau(T, K=K).eps_g == pytest.approx(expected, rel=2e-4)


def test_error_and_norm_of_a_growing_mode(rng):
    """eps* - eps = gamma sum_k |delta_k|^2 / (2 eta N) for a mode of the flow; (g/2) sum rho^2 if symmetric (115)."""
    N, M, K, h = 40, 3, 3, 1e-3
    model = ov.committee_machine(K, M, eta=0.1, normalised=True, spectrum=ov.power_law(beta=0.5, L=4))
    W_star = rng.standard_normal((M, N))
    sigma = np.repeat(model.spectrum.s, N // 4)
    T, T2 = (W_star * sigma**j @ W_star.T / N for j in (1, 2))
    # real, as of a product of symmetric matrices of which one is positive; NumPy may call them complex
    rates, vectors = (x.real for x in np.linalg.eig(plateau.curvature(T) @ T2 * -0.1))
    top = np.argmax(rates)
    delta = h * np.outer([1.0, 0.5, -1.5], vectors[:, top] @ W_star * sigma)
    (_, above), (_, below) = (weights_around_plateau(model, W_star, sign * delta) for sign in (1, -1))
    gain = plateau.plateau(T).eps_g - (above + below) / 2
    assert gain == pytest.approx(rates[top] * np.sum(delta**2) / (2 * 0.1 * N), rel=2e-4)
    assert rates[top] == pytest.approx(plateau.escape_rates(T, T2, eta=0.1)[0], rel=1e-9)
    S = plateau.curvature(symmetric(4, 1.1, 0.2))
    g = 1 / (0.1 * plateau.escape_time(4, T1=1.1, D1=0.2, T2=1.0, eta=0.1))
    np.testing.assert_allclose(S, -g * (np.eye(4) - 1 / 4), atol=1e-13)


# trajectories ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waiting():
    """Trajectory of the figure with four heights: K = M = 4, L = 10, N = 7000, random teacher and small students."""
    spectrum = ov.power_law(beta=0.25, L=10)
    model = ov.committee_machine(4, 4, eta=0.1, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=7000, rng=1, student_scale=0.01)
    return model, start, ov.solve(model, start, np.linspace(0, 4000, 201), rtol=1e-10)


def test_a_random_start_waits_at_these_heights_and_leaves_at_this_rate(waiting):
    model, start, traj = waiting
    T, T2 = plateau.teacher_moments(start, [1, 2])
    point, rates = plateau.plateau(T), plateau.escape_rates(T, T2, eta=0.1)
    wait = np.searchsorted(traj.alpha, 400)
    # differences of students have grown to 1e-3 by then; the four heights spread over 3 %
    np.testing.assert_allclose(traj.R[wait], np.tile(point.R, (4, 1)), rtol=5e-3)
    assert np.ptp(point.R) > 0.02 * point.R.mean()
    assert traj.eps_g[traj.alpha == 600] == pytest.approx(point.eps_g, rel=1e-5)  # quadratic in the differences
    # a sum of three exponentials, whose rates are within 15 %; eps_g leaves twice as fast
    grow = (traj.alpha >= 800) & (traj.alpha <= 1800)
    apart = np.linalg.norm(traj.R - traj.R.mean(axis=1, keepdims=True), axis=(1, 2))
    fitted = np.polyfit(traj.alpha[grow], np.log(apart[grow]), 1)[0]
    fall = np.polyfit(traj.alpha[grow], np.log(point.eps_g - traj.eps_g[grow]), 1)[0]
    assert rates[2] < fitted < rates[0] and 2 * rates[2] < fall < 2 * rates[0]


def test_length_of_the_plateau(waiting):
    """Alpha at 0.9 of the height times gamma: 7.2 to 7.7 was measured in this setting, (1/2) ln(N / sigma^2) = 9.0."""
    _, start, traj = waiting
    T, T2 = plateau.teacher_moments(start, [1, 2])
    rate = plateau.escape_rates(T, T2, eta=0.1)[0]
    left = traj.alpha[np.argmax((traj.eps_g < 0.9 * plateau.plateau(T).eps_g) & (traj.alpha > 500))]
    D = rate * left - rate * plateau.length(rate, N=7000, student_scale=0.01)
    assert 7.0 < rate * left < 7.9 and D == pytest.approx(-1.4, abs=0.3)
    assert rate * plateau.length(rate, N=7000, student_scale=0.01, D=D) == pytest.approx(rate * left)


def test_descent_of_equal_students(rng):
    """Integrated equations of K = 3 equal small students, L = N; first fast modes are nonlinear: 5 % of the time."""
    spectrum = ov.power_law(beta=0.25, L=48)
    model = ov.committee_machine(3, 2, eta=0.2, normalised=True, gradient_flow=True, spectrum=spectrum)
    W_star = rng.standard_normal((2, 48))
    start = ov.State.from_weights(model, W=np.zeros((3, 48)) + 1e-4 * rng.standard_normal(48), W_star=W_star)
    height = plateau.plateau(start.T, K=3).eps_g
    for excess in (0.3, 0.05):
        expected = plateau.descent_time(start, eta=0.2, K=3, excess=excess)
        traj = ov.solve(model, start, (0.0, 3 * expected), stop=(1 + excess) * height)
        assert traj.alpha[-1] == pytest.approx(expected, rel=0.05)
    assert plateau.descent_time(start, eta=0.2, K=3, excess=1e3) == 0.0
    half = plateau.descent_time(start, eta=0.4, K=3, excess=0.05)
    assert half == pytest.approx(expected / 2, rel=1e-10)


def wide_start(seed):
    """M = 4, L = N = 512, beta = 0.25: start, largest escape rate, descent."""
    spectrum = ov.power_law(beta=0.25, L=512)
    model = ov.committee_machine(4, 4, eta=0.01, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=512, rng=seed, student_scale=1e-6)
    T, T2 = plateau.teacher_moments(start, [1, 2])
    return model, start, plateau.escape_rates(T, T2, eta=0.01)[0], plateau.descent_time(start, eta=0.01)


def test_length_warns_where_the_descent_merges_with_the_escape():
    for seed in range(5):
        _, _, rate, descent = wide_start(seed)
        if seed == 0:  # the one draw of five with a plateau: no warning, which would be an error
            plateau.length(rate, N=512, student_scale=1e-6, descent=descent)
            continue
        with pytest.warns(RuntimeWarning, match="merges with the escape, and no plateau forms"):
            warned = plateau.length(rate, N=512, student_scale=1e-6, descent=descent)
        assert warned == plateau.length(rate, N=512, student_scale=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed, flattest", [(0, 0.03), (1, 0.35), (3, 0.2)])
def test_no_plateau_forms_where_length_warns(seed, flattest):
    """Least |d ln eps_g / d ln alpha| between one escape time and the end, and an end far behind D = 1."""
    model, start, rate, descent = wide_start(seed)
    traj = ov.solve(model, start, np.geomspace(1, 32, 160) / rate, method="structured", rtol=1e-6)
    height = plateau.plateau(start.T).eps_g
    left = np.argmax(traj.eps_g < 0.9 * height)
    slopes = -np.gradient(np.log(traj.eps_g), np.log(traj.alpha))[:left]
    assert (slopes.min() < flattest) == (seed == 0)
    D = rate * (traj.alpha[left] - plateau.length(rate, N=512, student_scale=1e-6))
    assert 4.5 < D < 11


def test_a_kick_off_the_plateau_grows_at_the_largest_rate(rng):
    """Students 1e-6 off the plateau: fit over exp(5), where smaller rates have fallen behind."""
    N, K = 60, 3
    spectrum = ov.power_law(beta=1.0, L=3)
    model = ov.committee_machine(K, K, eta=0.3, normalised=True, gradient_flow=True, spectrum=spectrum)
    W_star = rng.standard_normal((K, N)) * np.array([[0.8], [1.0], [1.3]])
    state = ov.State.from_weights(model, W=W_star, W_star=W_star)
    T, T2 = plateau.teacher_moments(state, [1, 2])
    point, rates = plateau.plateau(T), plateau.escape_rates(T, T2, eta=0.3)
    kicked = ov.State.from_weights(model, W=point.c @ W_star + 1e-6 * rng.standard_normal((K, N)), W_star=W_star)
    traj = ov.solve(model, kicked, np.linspace(5, 10, 20) / rates[0], rtol=1e-11)
    apart = np.linalg.norm(traj.R - traj.R.mean(axis=1, keepdims=True), axis=(1, 2))
    assert np.polyfit(traj.alpha, np.log(apart), 1)[0] == pytest.approx(rates[0], rel=0.01)
    assert rates[1] < 0.7 * rates[0] and apart[-1] < 0.02


def test_mean_escape_time_of_random_teachers():
    """Averaged T1, D1, T2, D2 in (116) give the mean of the M - 1 rates, to 0.1 % at N = 7000."""
    model = ov.committee_machine(4, 4, eta=0.1, normalised=True, spectrum=ov.power_law(beta=0.25, L=10))
    for seed in range(5):
        T, T2 = plateau.teacher_moments(model.random_start(N=7000, rng=seed), [1, 2])
        (T1, D1), (second, D2) = plateau.row_averages(T), plateau.row_averages(T2)
        mean = plateau.escape_rates(T, T2, eta=0.1)[:-1].mean()
        assert plateau.escape_time(4, T1=T1, D1=D1, T2=second, D2=D2, eta=0.1) * mean == pytest.approx(1, abs=3e-3)


def test_rates_spread_when_L_is_of_the_order_of_N():
    """M = 6, L = 100, N = 500, beta = 0.25: the largest rate is 1.7 to 4 times the mean formula; narrow at N = 1e6."""
    model = ov.committee_machine(6, 6, eta=0.01, normalised=True, spectrum=ov.power_law(beta=0.25, L=100))
    spread = {}
    for N in (500, 10**6):
        ratio = []
        for seed in range(10):
            T, T2 = plateau.teacher_moments(model.random_start(N=N, rng=seed), [1, 2])
            rates = plateau.escape_rates(T, T2, eta=0.01)[:5]
            (T1, D1), (second, D2) = plateau.row_averages(T), plateau.row_averages(T2)
            ratio.append(rates * plateau.escape_time(6, T1=T1, D1=D1, T2=second, D2=D2, eta=0.01))
        spread[N] = np.array(ratio)
    assert 1.5 < spread[500][:, 0].mean() < 2.5 and np.all(spread[500][:, 4] < 0.6)
    assert np.max(np.abs(spread[10**6] - 1)) < 0.1


@pytest.mark.slow
def test_variance_of_the_moments_of_random_teachers():
    """Var T^(j)_mn = (1 + delta_mn) <s^2j> / N, j = 0, 1, 2, over the draws of the random start."""
    N, M, draws = 32, 3, 3000
    model = ov.committee_machine(1, M, eta=0.01, spectrum=ov.power_law(beta=1.0, L=8))
    s, p = model.spectrum.s, model.spectrum.p
    rng = np.random.default_rng(4)
    T = np.array([plateau.teacher_moments(model.random_start(N=N, rng=rng), [0, 1, 2]) for _ in range(draws)])
    variance = T.var(axis=0)
    on, off = np.eye(M, dtype=bool), ~np.eye(M, dtype=bool)
    for j in range(3):
        # sampling: kurtosis up to 6 (the top block has 4 coordinates), 3 entries: sqrt(5 / 9000) = 2.4 %, 4 of them
        expected = (p @ s ** (2 * j)) / N
        assert variance[j][on].mean() == pytest.approx(2 * expected, rel=0.1)
        assert variance[j][off].mean() == pytest.approx(expected, rel=0.1)


# scaling --------------------------------------------------------------------------------------------------------------


def test_wide_committees_and_long_spectra():
    for M, ratio in ((8, 1.06), (40, 1.012)):
        exact, wide = (f(M, T2=2.0, eta=0.1) for f in (plateau.escape_time, plateau.wide_escape_time))
        assert exact / wide == pytest.approx(ratio, abs=6e-3)
    for beta in (0.25, 0.5, 1.0):
        s = ov.power_law(beta=beta, L=10**5).s
        # the sum of l^-(1 + beta) misses a tail of L^-beta / beta: squared, 2 / (beta zeta) of it
        tail = 1.1 * 2 * (10.0**5) ** -beta / beta
        assert plateau.second_moment(beta=beta, L=10**5) / np.mean(s**2) == pytest.approx(1, abs=tail)


def test_escape_times_for_orthonormal_teachers():
    """K = M = 4, beta = 0.25, eta = 0.1, L = 2, 4, ..., 12 (three digits are given)."""
    for L, tau in zip(range(2, 13, 2), (962, 755, 628, 542, 478, 429), strict=True):
        s = ov.power_law(beta=0.25, L=L).s
        assert plateau.escape_time(4, T2=float(np.mean(s**2)), eta=0.1) == pytest.approx(tau, abs=0.5)
    assert plateau.symmetric_plateau(4).eps_g == pytest.approx(0.00709432, abs=5e-9)


# bad input ------------------------------------------------------------------------------------------------------------


NAMED_ERF = dataclasses.replace(ov.tanh, name="erf")


def model_with(**options):
    return ov.committee_machine(2, 2, eta=0.1, **options)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: plateau.plateau([[1.0, 2.0], [2.0, 1.0]]), "T is not positive semi-definite"),
        (lambda: plateau.plateau([[1.0, 0.2], [0.1, 1.0]]), "T is not symmetric"),
        # lengths of 0.01 and 1000: Newton's method ends at c with a residual of 1e-7
        (lambda: plateau.plateau([[1e-4, 9.0], [9.0, 1e6]], v=1.0, v_star=[1.0, 0.7]), "no plateau of equal students"),
        (lambda: plateau.plateau(np.ones((2, 3))), r"T has shape \(2, 3\); expected \(M, M\)"),
        (lambda: plateau.plateau([1.0, 2.0]), r"T has shape \(2,\)"),
        (lambda: plateau.plateau(np.eye(2), v=[1.0, 1.0]), "all v_k are equal"),
        (lambda: plateau.plateau(np.eye(2), v_star=[1.0, 1.0, 1.0]), r"v_star has shape \(3,\); expected \(2,\)"),
        (lambda: plateau.plateau(np.eye(2), v_star=0.0), "v_star is zero"),
        (lambda: plateau.plateau(np.eye(2), K=0), "K = 0"),
        (lambda: plateau.curvature(np.eye(2), K=1), "K = 1; expected at least 2 students"),
        (lambda: plateau.escape_rates(np.eye(2), np.eye(3), eta=0.1), r"T2 has shape \(3, 3\); expected \(2, 2\)"),
        (lambda: plateau.escape_rates(np.eye(2), -np.eye(2), eta=0.1), "T2 is not positive semi-definite"),
        (lambda: plateau.escape_rates(np.eye(2), np.eye(2), eta=0.0), "eta = 0.0"),
        (lambda: plateau.escape_matrix(np.eye(2), np.eye(2), eta=-1.0), "eta = -1.0"),
        (lambda: plateau.symmetric_plateau(3, v=1.0), "K v = 3 and M v"),
        (lambda: plateau.symmetric_plateau(3, T1=1.0, D1=2.5), "D1 = 2.5; expected -T1 < D1"),
        (lambda: plateau.symmetric_plateau(1, D1=0.1), "0 for M = 1"),
        (lambda: plateau.symmetric_plateau(2, v=[1.0, 1.0], v_star=[1.0, 1.0]), "v = "),
        (lambda: plateau.escape_time(1, T2=1.0, eta=0.1), "M = 1; expected an integer >= 2"),
        (lambda: plateau.escape_time(2, K=1, T2=1.0, eta=0.1), "K = 1; expected at least 2 students"),
        (lambda: plateau.escape_time(2, T2=1.0, D2=1.5, eta=0.1), "expected a larger T2"),
        (lambda: plateau.length(-1.0, N=10, student_scale=1.0), "rate = -1.0"),
        (lambda: plateau.length(1.0, N=10, student_scale=0.0), "Equal students never leave"),
        (lambda: plateau.second_moment(beta=0.0, L=3), "beta = 0.0"),
        (lambda: plateau.wide_escape_time(2, eta=0.1, T2=0.0), "T2 = 0.0"),
        (lambda: plateau.length(1.0, N=10, student_scale=1.0, descent=-1.0), "descent = -1.0"),
        (lambda: plateau.descent_time(None, eta=0.1), "state"),
        (lambda: plateau.descent_time(model_with().random_start(N=10, rng=0), eta=0.1, excess=0), "excess = 0"),
        (
            lambda: plateau.descent_time(ov.committee_machine(2, 1, eta=0.1).random_start(N=10, rng=0), eta=0.1, K=2),
            "has no height",
        ),
        (lambda: plateau.plateau_state(model_with(activation=NAMED_ERF), None), "overlaps.erf itself"),
        (lambda: plateau.plateau_state(model_with(v=[1.0, 2.0]), None), "expected erf students"),
        (lambda: plateau.plateau_state(model_with(activation=ov.relu), None), "expected erf students"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
