"""Late times of erf networks: the library's Jacobian, explicit weights, trajectories; golden erf trajectories."""

import dataclasses

import numpy as np
import pytest
from helpers import few
from scipy.linalg import expm

import overlaps as ov
from overlaps.flow.jacobian import jacobian
from overlaps.flow.system import System
from overlaps.theory import late_time


def perfect(model):
    """Student = teacher, t^l = p_l times identity."""
    t = model.spectrum.p[:, None, None] * np.eye(model.M)
    return ov.State.from_blocks(model, q=t, r=t, t=t)


def weighted_sums(spectrum, M, x, y):
    """Error of the differences (x, y), Eq. (121), straight from eps_2 without rho."""
    X, Y = spectrum.s @ x, spectrum.s @ y
    return (X / np.sqrt(3) + (M - 1) * Y / 2) / np.pi


# golden numbers of the erf closure and trajectory ---------------------------------------------------------------------


def golden_setting(gradient_flow):
    spectrum = ov.power_law(beta=1.0, L=3)
    model = ov.committee_machine(2, 2, eta=0.5, normalised=True, spectrum=spectrum, gradient_flow=gradient_flow)
    a, p = np.array([[0.3, 0.1], [0.05, 0.2]]), np.full((3, 1, 1), 1 / 3)
    return model, ov.State.from_blocks(model, q=p * (a @ a.T + 0.1 * np.eye(2)), r=p * a, t=p * np.eye(2))


def test_golden_closure():
    model, start = golden_setting(gradient_flow=False)
    c = ov.closure(model, start.Q, start.R, start.T)
    off = -0.135986411619941
    np.testing.assert_allclose(c.A, [[-0.142883924774511, off], [off, -0.141927776269732]], rtol=1e-12)
    B = [[0.104716264568538, 0.102948774503598], [0.10534519673726, 0.106221384797194]]
    np.testing.assert_allclose(c.B, B, rtol=1e-12)
    off = 0.012045714824567
    np.testing.assert_allclose(c.C, [[0.011890580487503, off], [off, 0.012432626392228]], rtol=1e-12)


@pytest.mark.parametrize(
    "gradient_flow, eps_g",
    [
        (False, [0.0873727302873, 0.046655286979198, 0.016113901649088, 0.006715511550827, 0.001948564342982]),
        (True, [0.0873727302873, 0.042003064364062, 0.013850616375569, 0.005990513874708, 0.001803797098388]),
    ],
)
@pytest.mark.parametrize("method, rtol, limit", [("DOP853", 1e-12, 1e-9), ("structured", 1e-9, 5e-7)])
def test_golden_trajectory(gradient_flow, eps_g, method, rtol, limit):
    """Published to rtol 1e-9, atol 1e-13; BDF keeps Q and R to a few rtol, and eps_g is 100 times smaller."""
    model, start = golden_setting(gradient_flow)
    traj = ov.solve(model, start, [0, 1, 5, 20, 100], method=method, rtol=rtol)
    np.testing.assert_allclose(traj.eps_g, eps_g, rtol=limit, atol=1e-13)


# linear equations -----------------------------------------------------------------------------------------------------


def symmetric_directions(system):
    """Packed unit vectors of the deviations (r, g, q, c) of every block (n, 4 L), from plain overlaps."""
    state, M = system.start, system.model.M
    columns = []
    for block in range(state.L):
        for name, shape in (("r", np.eye(M)), ("r", 1 - np.eye(M)), ("q", np.eye(M)), ("q", 1 - np.eye(M))):
            change = np.zeros((state.L, M, M))
            change[block] = shape * (state.s[block] if name == "r" else 1.0)
            moved = dataclasses.replace(state, **{name: getattr(state, name) + change})
            columns.append(system.pack(moved) - system.pack(state))
    return np.array(columns).T


@pytest.mark.parametrize("M", [2, 3, 4])
@pytest.mark.parametrize("gradient_flow", [False, True])
@pytest.mark.parametrize("v", [None, 1.0])
def test_matrices_are_the_jacobian_of_the_library(M, gradient_flow, v):
    """J E = E generator, E the embedding of the symmetric deviations: matrix elements, not only eigenvalues."""
    eta = 0.7
    spectrum = ov.Spectrum(s=[2.0, 0.8, 0.4], p=[0.25, 0.5, 0.25])
    layers = dict(normalised=True) if v is None else {}
    model = ov.committee_machine(M, M, eta=eta, spectrum=spectrum, gradient_flow=gradient_flow, **layers)
    system = System(model, perfect(model))
    E = symmetric_directions(system)
    J = jacobian(system, system.pack(system.start))
    expected = late_time.generator(spectrum, M, eta=eta, v=v, v_star=v, gradient_flow=gradient_flow)
    np.testing.assert_allclose(J @ E, E @ expected, atol=1e-13)
    lin = ov.linearise(model, perfect(model)).eigenvalues
    for value in np.linalg.eigvals(expected):  # eigenvalues of a non-normal matrix: 1e-16 times its condition
        assert np.min(np.abs(lin - value)) < 1e-11


@pytest.mark.parametrize("M", [2, 3, 7])
def test_eigenvalues_of_the_groups(M):
    _, G, H, _ = late_time.matrices(M, eta=0.3)
    # pairs of eigenvalues of H vanish in a Jordan block: rounding moves them by its square root
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(G).real), np.sort(late_time.relaxation_rates(M)), atol=1e-13)
    root = np.sqrt(27 * M - 11) / 12
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(H).real), [1 / 3 - root, 0, 0, 1 / 3 + root], atol=1e-7)


@pytest.mark.parametrize("M", [2, 3, 6])
def test_closed_form_solves_the_linear_equations(M, rng):
    """Exponential of the 4 L generator on any deviation; H feeds x and y only through sums that cancel in q - 2 r."""
    spectrum, eta = ov.power_law(beta=1.0, L=4), 0.4
    z = rng.standard_normal((4, 4))  # block, (r, g, q, c)
    flow = late_time.generator(spectrum, M, eta=eta, gradient_flow=True)
    alpha = np.array([0.0, 0.5, 3.0, 20.0])
    expected = []
    for t in alpha:
        r, g, q, c = (expm(t * flow) @ z.ravel()).reshape(4, 4).T
        expected.append(weighted_sums(spectrum, M, q - 2 * r, c - 2 * g))
    r, g, q, c = z.T
    result = late_time.first_order(alpha, spectrum, M, eta=eta, x=q - 2 * r, y=c - 2 * g)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-13)
    # soft committee machine: the same with eta/M, M times the error
    ones = late_time.first_order(alpha, spectrum, M, eta=eta / M, x=q - 2 * r, y=c - 2 * g, v=1.0, v_star=1.0)
    np.testing.assert_allclose(ones, M * result, rtol=1e-12)


def test_one_student_and_split_blocks():
    """M = 1: x decays as exp(-2 a s alpha); a block in two parts; L = 1 is one exponential per group."""
    alpha = np.array([0.0, 1.0, 10.0])
    spectrum = ov.power_law(beta=0.5, L=3)
    a = 2 * 0.3 / (np.sqrt(3) * np.pi)
    direct = np.exp(-2 * a * np.outer(alpha, spectrum.s)) @ (spectrum.s * spectrum.p) / (np.sqrt(3) * np.pi)
    np.testing.assert_allclose(late_time.first_order(alpha, spectrum, 1, eta=0.3), direct, rtol=1e-13)
    whole, split = ov.Spectrum(s=[1.6, 0.4]), ov.Spectrum(s=[1.6, 1.6, 0.4], p=[0.2, 0.3, 0.5])
    np.testing.assert_allclose(*(late_time.first_order(alpha, s, 3, eta=0.3) for s in (whole, split)), rtol=1e-13)
    two = late_time.first_order(alpha, ov.isotropic(), 2, eta=0.3)
    rates = 0.3 / (np.sqrt(3) * np.pi) * np.array([2 + np.sqrt(3), 2 - np.sqrt(3)])
    share = np.array([2 * np.sqrt(3) + 3, 2 * np.sqrt(3) - 3]) / (12 * np.pi)
    np.testing.assert_allclose(two, np.exp(-np.outer(alpha, rates)) @ share, rtol=1e-13)
    assert share[0] / share.sum() > 0.78  # of the amplitude of unlearned modes, M = 2


# second order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("teacher", ["orthonormal", "any"])
def test_second_order_of_explicit_weights(teacher, rng):
    """Random w near w*, N = 60, M = 3: corrections are of first order in |w - w*|, and removed by averaging +- dw."""
    N, M = 60, 3
    model = ov.committee_machine(M, M, eta=0.1, spectrum=ov.power_law(beta=1.0, L=3))
    W_star = rng.standard_normal((M, N)) * rng.uniform(0.7, 1.3, (M, 1))
    if teacher == "orthonormal":
        root = np.sqrt(np.repeat(model.spectrum.s, N // 3) / N)
        W_star = np.linalg.qr((W_star * root).T)[0].T / root  # T = identity
    dW = rng.standard_normal((M, N))

    def errors(h):
        state = ov.State.from_weights(model, W=W_star + h * dW, W_star=W_star)
        order2 = late_time.second_order(state.Q, state.R, state.T, v=1.0, v_star=1.0)
        return ov.closure(model, state.Q, state.R, state.T).eps_g, order2

    exact, order2 = np.array([errors(h) for h in (1e-3, -1e-3)]).T
    assert order2.mean() == pytest.approx(exact.mean(), rel=1e-5)
    far, near = (np.array([errors(h) for h in (size, -size)]) for size in (2e-3, 1e-3))
    relative = [np.abs(e[:, 1] / e[:, 0] - 1).max() for e in (far, near)]
    assert relative[1] < 2e-3 and relative[0] / relative[1] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("M", [2, 5])
def test_symmetric_reduction(M, rng):
    """eps_2 = eps_1 - (1/pi) [2 R^2/(3 w) + (M - 1) R G / 2] for permutation-symmetric deviations."""
    R, G, Q, C = 1e-3 * rng.standard_normal(4)
    one, off = np.eye(M), 1 - np.eye(M)
    exact = late_time.second_order(one + Q * one + C * off, one + R * one + G * off, one)
    first = weighted_sums(ov.isotropic(), M, np.array([Q - 2 * R]), np.array([C - 2 * G]))
    squares = 2 * R**2 / (3 * np.sqrt(3)) + (M - 1) * R * G / 2
    assert exact == pytest.approx(first - squares / np.pi, rel=1e-10)
    assert late_time.first_order(
        0.0, ov.isotropic(), M, eta=0.1, x=[Q - 2 * R], y=[C - 2 * G]
    ) == pytest.approx(first, rel=1e-12)  # fmt: skip


# trajectories ---------------------------------------------------------------------------------------------------------


def learned(L, alpha):
    """Gradient flow to late times, K = M = 2, beta = 1, eta = 0.25, with students in the order of their teachers."""
    spectrum = ov.power_law(beta=1.0, L=L)
    model = ov.committee_machine(2, 2, eta=0.25, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=9000, rng=2, student_scale=0.01, teacher="ideal")
    traj = ov.solve(model, start, alpha, method="DOP853", rtol=1e-11, atol=1e-14)
    order = np.argmax(traj.R[-1], axis=0)
    return traj, traj.Q[:, order][:, :, order], traj.R[:, order]


@pytest.mark.parametrize("L, end, gap, ratio", [(1, 2500, 2e-4, 2.61), (3, 4500, 3e-4, 1.12), (9, 5000, 2e-3, 1.045)])
def test_errors_of_a_trajectory(L, end, gap, ratio):
    """eps_2 / eps_g -> 1, eps_1 / eps_g -> 2.61, 1.12 for L = 1, 3 (L = 9 is still on its way)."""
    traj, Q, R = learned(L, np.array([0.8, 0.9, 1.0]) * end)
    gaps = np.abs(late_time.second_order(Q, R, traj.T) / traj.eps_g - 1)
    assert gaps[2] < gaps[0] and gaps[2] < gap
    order1 = late_time.first_order(0.0, traj.model.spectrum, 2, eta=0.25, **differences_of(traj, 2))
    assert order1 / traj.eps_g[2] == pytest.approx(ratio, rel=6e-3)
    # continued from the first time: squares of R - T feed x and y, which the closed form leaves out
    alpha = traj.alpha - traj.alpha[0]
    continued = late_time.first_order(alpha, traj.model.spectrum, 2, eta=0.25, **differences_of(traj, 0))
    assert {1: 0.15, 3: 0.85, 9: 0.95}[L] < continued[2] / order1 < {1: 0.3, 3: 0.9, 9: 0.99}[L]


LATE = [1e-4, 1e-6, 1e-8, 1e-12]


@pytest.mark.slow
@pytest.mark.parametrize(
    "L, flow, levels, expected",
    [
        (1, True, LATE[1:], [2.60, 2.61, 2.61]),
        (1, False, LATE[1:], [2.55, 2.55, 2.55]),
        (3, True, LATE[2:], [1.12, 1.12]),
        (9, True, LATE, [1.10, 1.03, 1.020, 1.013]),
    ],
)
def test_share_of_the_first_order_at_late_times(L, flow, levels, expected):
    """eps_1 / eps_g at these eps_g, as the docstring quotes them: to the digits given (0.005)."""
    spectrum = ov.power_law(beta=1.0, L=L)
    model = ov.committee_machine(2, 2, eta=0.1, normalised=True, gradient_flow=flow, spectrum=spectrum)
    start = model.random_start(N=9000, rng=1, student_scale=0.01, teacher="ideal")
    traj = ov.solve(model, start, np.r_[0.0, np.geomspace(1e3, {1: 9e3, 3: 2.4e4, 9: 6e4}[L], 120)], late=True)
    ratios = []
    for level in levels:
        i = np.argmax(traj.eps_g < level)
        x, y = late_time.differences(traj[i])
        ratios.append(late_time.first_order(0.0, spectrum, 2, eta=0.1, x=x, y=y) / traj.eps_g[i])
    np.testing.assert_allclose(ratios, expected, atol=0.006)


def differences_of(traj, i):
    return dict(zip("xy", late_time.differences(traj[i]), strict=True))


def test_last_rate_of_isotropic_inputs():
    """eps_g falls at twice the slowest rate of R - T, an eigenvalue of G - H, slower than the 2 - w of eps_1."""
    traj, _, _ = learned(1, np.array([2000.0, 2500.0]))
    a, G, H, _ = late_time.matrices(2, eta=0.25)
    slowest = np.linalg.eigvals(G - H).real.min()
    assert np.log(traj.eps_g[0] / traj.eps_g[1]) / 500 == pytest.approx(2 * a * slowest, rel=1e-3)
    assert 2 * slowest < 0.9 * late_time.relaxation_rates(2)[2]


def test_differences_do_not_depend_on_the_order_of_students(rng):
    model = ov.committee_machine(3, 3, eta=0.1, spectrum=ov.power_law(beta=1.0, L=2))
    W_star = rng.standard_normal((3, 40))
    dW = 0.05 * rng.standard_normal((3, 40))
    W = W_star + dW
    straight, turned = (ov.State.from_weights(model, W=w, W_star=W_star) for w in (W, W[[2, 0, 1]]))
    x, y = late_time.differences(straight)
    for block in range(2):
        part = dW[:, 20 * block : 20 * block + 20]
        overlaps = part @ part.T / 40
        assert x[block] == pytest.approx(np.trace(overlaps) / 3)
        assert y[block] == pytest.approx((overlaps.sum() - np.trace(overlaps)) / 6)
    np.testing.assert_allclose(late_time.differences(turned), (x, y), atol=1e-15)


# critical learning rate -----------------------------------------------------------------------------------------------


def test_critical_eta_golden_numbers():
    golden = {1: 4.055778675973611, 2: 4.613655392166706, 5: 5.0822415009885304}
    for M, eta_c in golden.items():
        assert late_time.critical_eta(M) == pytest.approx(eta_c, rel=1e-13)
    assert late_time.critical_eta(1) == pytest.approx(np.pi * np.sqrt(5 / 3), rel=1e-14)
    assert late_time.critical_eta(10**6) == pytest.approx(np.pi * np.sqrt(3), rel=1e-5)  # corrections of order 1/M
    assert [round(late_time.critical_eta(M), 4) for M in (3, 4, 6)] == [4.8620, 4.9976, 5.1400]


@pytest.mark.parametrize("M, L", [(2, 1), (3, 8), (2, 32)])
def test_critical_eta_is_where_an_eigenvalue_crosses_zero(M, L):
    spectrum, eta_c = ov.power_law(beta=0.5, L=L), late_time.critical_eta(M)
    slope = [
        np.linalg.eigvals(late_time.generator(spectrum, M, eta=f * eta_c)).real.max() for f in (1 - 1e-4, 1, 1 + 1e-4)
    ]
    assert slope[0] < 0 < slope[2] and abs(slope[1]) < 1e-7 * (slope[2] - slope[0])
    # the first order, which leaves out the noise of SGD, knows the product of time and rate only: beyond it, too
    slow, fast = (late_time.first_order(np.array([0.3, 2.0]) / eta, spectrum, M, eta=eta) for eta in (0.1, 1.3 * eta_c))
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


@pytest.mark.parametrize("M, L, normalised", [(1, 2, True), (2, 3, True), (3, 1, False), (2, 2, False)])
def test_critical_eta_of_the_library(M, L, normalised):
    model = ov.committee_machine(M, M, eta=0.5, normalised=normalised, spectrum=ov.power_law(beta=1.0, L=L))
    layers = {} if normalised else {"v": 1.0, "v_star": 1.0}
    assert ov.critical_eta(model, perfect(model)) == pytest.approx(late_time.critical_eta(M, **layers), rel=1e-9)


# power laws -----------------------------------------------------------------------------------------------------------


@few("M", [2, 40], quick=1)
@few("beta", [1.0, 1.5], quick=1)
def test_exponent_at_a_million_eigenvalues(M, beta):
    spectrum = ov.power_law(beta=beta, L=10**6)
    fast, slow = late_time.windows(spectrum, M, eta=0.25)
    assert slow.start / fast.start == pytest.approx((2 + (M - 1) * np.sqrt(3)) / (2 - np.sqrt(3)))
    times = slow.start * np.array([100.0, 1000.0])
    # the power-law sum is cut at l = 1 (exponentially small by then) and at L (1e-3 and less)
    slopes = late_time.local_slope(times, spectrum, M, eta=0.25)
    np.testing.assert_allclose(slopes, -late_time.exponent(beta), atol=1.5e-3)


def test_local_slope_is_the_derivative():
    spectrum = ov.power_law(beta=1.0, L=50)
    x, y = np.linspace(0.01, 0.03, 50), np.linspace(0.005, -0.001, 50)
    alpha, h = np.array([0.3, 7.0, 400.0]), 1e-5
    up, down = (
        late_time.first_order(alpha * np.exp(sign * h), spectrum, 3, eta=0.2, x=x, y=y) for sign in (1, -1)
    )  # fmt: skip
    slope = np.log(up / down) / (2 * h)  # error h^2 and rounding 1e-16 / h
    np.testing.assert_allclose(late_time.local_slope(alpha, spectrum, 3, eta=0.2, x=x, y=y), slope, rtol=1e-7)


def test_local_slope_where_the_error_underflows():
    """One eigenvalue: the slope of an exponential is -alpha times its slower rate, a (2 - w)."""
    a = late_time.matrices(2, eta=0.1).a
    slope = late_time.local_slope([1e6, 1e12], ov.isotropic(), 2, eta=0.1)
    np.testing.assert_allclose(slope, -a * (2 - np.sqrt(3)) * np.array([1e6, 1e12]), rtol=1e-12)


# label noise ----------------------------------------------------------------------------------------------------------


def test_noise_floor_golden_numbers():
    """Published to 14 digits."""
    found = [late_time.noise_floor(M, eta=0.5, noise=0.1) for M in (2, 3)]
    np.testing.assert_allclose(found, [0.00051487144712, 0.00051185329454], rtol=1e-10)


@pytest.mark.parametrize("M, eta, v, tolerance", [(1, 0.3, None, 1e-5), (2, 0.5, 1.0, 5e-5), (3, 2.0, None, 5e-4)])
def test_noise_floor_is_the_error_of_the_fixed_point(M, eta, v, tolerance):
    """First order in sigma^2: corrections of order sigma^2 = 1e-4, times what grows towards the critical rate."""
    weights = [M**-0.5 if v is None else v] * M
    model = ov.committee_machine(M, M, eta=eta, noise=0.01, v=weights, v_star=weights)
    point = ov.fixed_point(model, perfect(model)).state
    exact = ov.closure(model, point.Q, point.R, point.T).eps_g
    assert late_time.noise_floor(M, eta=eta, noise=0.01, v=v, v_star=v) == pytest.approx(exact, rel=tolerance)
    small = late_time.noise_floor(M, eta=1e-6, noise=0.3)
    assert small == pytest.approx(1e-6 * 0.09 / (2 * np.pi * np.sqrt(3)), rel=1e-5)  # any M; relative corrections ~ eta


@pytest.mark.parametrize("K, M, activation", [(2, 2, ov.erf), (3, 1, ov.erf), (2, 1, ov.quadratic)])
def test_fixed_points_know_the_spectrum_by_T_and_its_mean(K, M, activation, rng):
    """Unequal p_l, a mean that is not one, teachers that differ from block to block; superfluous students."""
    spectrum = ov.Spectrum([2.0, 1.0, 0.3], [0.2, 0.4, 0.4])
    a = rng.standard_normal((3, M, 1))
    t = spectrum.p[:, None, None] * (np.eye(M) + 0.2 * a @ a.swapaxes(1, 2))
    extra = ((0, 0), (0, K - M), (0, K - M))
    free = 0.01 * np.diag(np.arange(K) >= M) * spectrum.p[:, None, None]
    options = dict(activation=activation, noise=0.3)
    model = ov.committee_machine(K, M, eta=0.1, spectrum=spectrum, **options)
    start = ov.State.from_blocks(model, q=np.pad(t, extra) + free, r=np.pad(t, extra[:2] + ((0, 0),)), t=t)
    alike = ov.committee_machine(K, M, eta=0.1 * spectrum.mean, **options)
    begin = ov.State.from_overlaps(alike, Q=start.Q, R=start.R, T=start.T)
    many, one = (ov.fixed_point(*pair) for pair in ((model, start), (alike, begin)))
    assert many.converged and one.converged and np.max(np.abs(many.state.R[:M] - start.T)) > 1e-4  # noise moved it
    if activation is ov.erf:  # a quadratic student is known up to a rotation
        np.testing.assert_allclose(many.state.Q, one.state.Q, atol=1e-12)
        np.testing.assert_allclose(many.state.R, one.state.R, atol=1e-12)
    errors = [ov.closure(m, x.state.Q, x.state.R, start.T).eps_g for m, x in ((model, many), (alike, one))]
    assert errors[0] == pytest.approx(errors[1], rel=1e-11, abs=0)


@pytest.mark.parametrize("M, eta", [(2, 0.2), (3, 0.1)])
def test_the_floor_is_approached_as_errors_decay(M, eta):
    """From perfect learning; the closed form leaves out F, relative corrections of order eta/critical_eta."""
    spectrum = ov.power_law(beta=1.0, L=8)
    model = ov.committee_machine(M, M, eta=eta, normalised=True, noise=0.05, spectrum=spectrum)
    alpha = np.array([1.0, 10.0, 100.0, 1e4]) / eta
    none = np.zeros(8)
    closed = late_time.first_order(alpha, spectrum, M, eta=eta, noise=0.05, x=none, y=none)
    exact = ov.solve(model, perfect(model), alpha).eps_g
    floor = late_time.noise_floor(M, eta=eta, noise=0.05)
    assert closed[0] < 0.75 * floor  # it is on the way
    np.testing.assert_allclose(exact, closed, rtol=0.02)
    assert exact[-1] == pytest.approx(floor, rel=1e-3)  # sigma^2 = 0.0025


def test_superfluous_students_and_noise():
    """One stays switched off, at (eta sigma^2/2 pi)(K - M + M/sqrt 3); of two the noise makes a growing pair."""
    errors = {}
    for K in (2, 3):
        eta, noise = 0.2, 0.3
        model = ov.committee_machine(K, 1, eta=eta, noise=noise)
        off = np.arange(K) > 0
        Q = np.eye(K, K) * np.where(off, 1e-3, 1.0) + 1e-4 * np.outer(off, off)
        start = ov.State.from_overlaps(model, Q=Q, R=np.eye(K, 1), T=[[1.0]])
        traj = ov.solve(model, start, [1e3, 1e4, 1e5, 1e6])
        errors[K] = traj.eps_g / (eta * noise**2 / (2 * np.pi) * (K - 1 + 1 / np.sqrt(3)))
        point = ov.fixed_point(model, start)
        growing = np.sum(ov.linearise(model, point.state).eigenvalues.real > 1e-9)
        assert point.converged and growing == {2: 0, 3: 2}[K]
    np.testing.assert_allclose(errors[2][1:], errors[2][1], rtol=1e-7)  # at rest
    assert 1 < errors[2][0] < 1.15  # corrections of order eta
    np.testing.assert_allclose(errors[3], [1.2, 0.56, 0.37, 0.30], rtol=0.04)  # measured by another code, other starts
    assert traj.Q[-1, 1, 1] > 100 and traj.Q[-1, 1, 2] < -100


def test_windows_do_not_see_what_has_no_variance():
    """Two spectra of mean one with the same eigenvalues but zero."""
    whole, padded = ov.Spectrum([2.1, 0.5], [0.3125, 0.6875]), ov.Spectrum([2.1, 0.5, 0.0], [0.375, 0.425, 0.2])
    assert late_time.windows(padded, 3, eta=0.25) == late_time.windows(whole, 3, eta=0.25)


def test_shoulder_between_the_windows():
    """L = 512, M = 2: the end of the common modes is steep, about -1.2; M = 40 has a window of its own."""
    spectrum = ov.power_law(beta=1.0, L=512)
    alpha = np.geomspace(1, 1e5, 60)
    assert -1.4 < late_time.local_slope(alpha[alpha < 2e4], spectrum, 2, eta=0.25).min() < -1.1
    slopes = late_time.local_slope(np.geomspace(30, 450, 20), spectrum, 40, eta=0.25)
    assert np.all((slopes < -0.48) & (slopes > -0.57))


# bad input ------------------------------------------------------------------------------------------------------------

POWER = ov.power_law(beta=1.0, L=4)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: late_time.matrices(1, eta=0.1), "M = 1; expected an integer >= 2"),
        (lambda: late_time.matrices(2, eta=0.0), "eta = 0.0"),
        (lambda: late_time.matrices(2, eta=0.1, v=1.0), "expected equal output weights"),
        (lambda: late_time.generator(4, 2, eta=0.1), "expected a Spectrum"),
        (lambda: late_time.generator(ov.Spectrum(s=[2.0, 1.0]), 2, eta=0.1), "has mean 1.5; expected 1"),
        (lambda: late_time.critical_eta(0), "M = 0"),
        (lambda: late_time.critical_eta(2, v=0.0), "v = 0.0"),
        (lambda: late_time.first_order(1.0, POWER, 2, eta=-1.0), "eta = -1.0"),
        (lambda: late_time.noise_floor(2, eta=4.62, noise=0.1), "eta = 4.62 is not below critical_eta = 4.61"),
        (lambda: late_time.noise_floor(2, eta=2.31, noise=0.1, v=1.0, v_star=1.0), "critical_eta = 2.30"),
        (lambda: late_time.noise_floor(2, eta=0.1, noise=-0.1), "noise = -0.1"),
        (lambda: late_time.first_order(1.0, POWER, 2, eta=0.1, x=[0.1]), r"x has shape \(1,\); expected \(4,\)"),
        (lambda: late_time.local_slope(1.0, POWER, 2.5, eta=0.1), "M = 2.5"),
        (lambda: late_time.second_order(np.eye(2), np.eye(3), np.eye(2)), r"expected \(..., M, M\)"),
        (lambda: late_time.second_order(np.eye(2), np.eye(2), np.eye(2), v=1.0), "expected equal output weights"),
        (lambda: late_time.exponent(0.0), "beta = 0.0"),
        (lambda: late_time.windows(ov.Spectrum(s=[2.0]), 2, eta=0.1), "has mean 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_differences_need_as_many_students_as_teachers():
    model = ov.committee_machine(3, 2, eta=0.1)
    with pytest.raises(ValueError, match="expected K = M"):
        late_time.differences(model.random_start(N=20, rng=0))
