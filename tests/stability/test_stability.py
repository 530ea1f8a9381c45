"""Jacobian, fixed points, escape rates and critical learning rates against finite differences, theory, trajectories."""

import copy
import dataclasses
import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import few
from scipy.optimize import brentq

import overlaps as ov
from overlaps.flow.jacobian import Jacobian, jacobian
from overlaps.flow.system import System
from overlaps.stability import critical, linear
from overlaps.stability.critical import _Branch

UNEQUAL = ov.Spectrum(s=[4.0, 0.8, 0.32], p=[0.1, 0.65, 0.25])  # of mean one
EMPTY = ov.Spectrum(s=[2.0, 0.5, 0.25], p=[0.4, 0.0, 0.6])  # with an eigenvalue that no input has
ACTIVATIONS = {"erf": ov.erf, "linear": ov.linear, "quadratic": ov.quadratic, "relu": ov.relu}


def equal_students(model, t, c):
    """State from blocks in which every student is sum_n c_n w*_n."""
    ones = np.ones((model.K, 1))
    q = np.einsum("n,lnm,m->l", c, t, c)[:, None, None] * (ones @ ones.T)
    return ov.State.from_blocks(model, q=q, r=np.einsum("lnm,m->ln", t, c)[:, None] * ones, t=t)


def perfect(model):
    """Student = teacher, t^l = p_l times identity."""
    t = model.spectrum.p[:, None, None] * np.eye(model.M)
    return ov.State.from_blocks(model, q=t, r=t, t=t)


def two_blocks(T1, T2, s=(4.0, 0.5)):
    """Plain teacher overlaps t (2, M, M) with sum_l s_l t^l = T1 and sum_l s_l^2 t^l = T2."""
    a, b = s
    return np.stack([(T2 - b * T1) / (a * (a - b)), (a * T1 - T2) / (b * (a - b))])


def contains(values, expected, tolerance):
    """Whether every expected number is among the values, with multiplicity."""
    values = list(values)
    for x in expected:
        nearest = int(np.argmin(np.abs(np.array(values) - x)))
        if abs(values.pop(nearest) - x) > tolerance:
            return False
    return True


# the Jacobian ---------------------------------------------------------------------------------------------------------


def differences(system, y, h):
    """Jacobian of the right-hand side by central differences of sixth order."""
    J = np.zeros((y.size, y.size))
    for i, (m, c) in itertools.product(range(y.size), ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))):
        e = np.zeros(y.size)
        e[i] = m * h
        J[:, i] += c / h * (system.rhs(0.0, y + e) - system.rhs(0.0, y - e))
    return J


def random_system(activation, spectrum, rng, **options):
    given = dict(eta=0.4, eta_v=0.3, noise=0.2, weight_decay=(0.1, 0.2), batch_size=2) | options
    model = ov.committee_machine(2, 3, activation=activation, spectrum=spectrum, **given)
    system = System(model, model.random_start(N=100 if spectrum.L > 1 else 30, rng=rng))
    return system, system.pack(system.start)


@pytest.mark.parametrize("spectrum", [ov.isotropic(), UNEQUAL, EMPTY], ids=["isotropic", "unequal", "empty block"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_jacobian_is_the_derivative_of_the_flow(name, spectrum, rng):
    system, y = random_system(ACTIVATIONS[name], spectrum, rng)
    h = 3e-3  # truncation h^6 times a seventh derivative of order 10^3, rounding 1e-16 / h: both near 1e-12
    J = jacobian(system, y)
    np.testing.assert_allclose(J, differences(system, y, h), atol=1e-11 * np.max(np.abs(J)))
    dy = rng.standard_normal(y.size)
    np.testing.assert_allclose(Jacobian(system, y).operator() @ dy, J @ dy, atol=1e-13 * np.max(np.abs(J)))


@pytest.mark.parametrize("options", [dict(eta_v=0.0), dict(gradient_flow=True), dict(weight_decay=0.0)])
def test_jacobian_of_variants(options, rng):
    system, y = random_system(ov.erf, UNEQUAL, rng, **options)
    np.testing.assert_allclose(jacobian(system, y), differences(system, y, 3e-3), atol=1e-11)


def test_jacobian_of_other_activations(rng):
    """Tanh is a sum of four error functions; a user function is integrated by quadrature (1e-8)."""

    def softplus(x):
        return np.logaddexp(0.0, x)

    def logistic(x):
        return 1 / (1 + np.exp(-x))

    for activation, tolerance in ((ov.tanh, 1e-10), (ov.Activation.from_function(softplus, logistic), 1e-6)):
        system, y = random_system(activation, UNEQUAL, rng, gradient_flow=True)
        np.testing.assert_allclose(jacobian(system, y), differences(system, y, 3e-3), atol=tolerance)


def test_modes_are_eigenvectors_in_matrix_form(rng):
    """A small step along a mode changes the velocity by the eigenvalue times the step, in the arrays of State."""
    model = ov.committee_machine(2, 2, eta=0.4, eta_v=0.3, spectrum=ov.power_law(beta=1.0, L=3))
    state = model.random_start(N=60, rng=rng)
    lin = ov.linearise(model, state)
    n = 3 * (4 + 3) + 2
    assert lin.eigenvalues.shape == (n,) and lin.dq.shape == (n, 3, 2, 2) and lin.dr.shape == (n, 3, 2, 2)
    assert lin.dv.shape == (n, 2) and lin.dimension == n
    assert np.all(np.diff(lin.eigenvalues.real) <= 0) and lin.rate == lin.eigenvalues[0].real
    np.testing.assert_array_equal(lin.dq, lin.dq.swapaxes(2, 3))
    system = System(model, lin.state)
    assert lin.residual == np.max(np.abs(system.rhs(0.0, system.pack(state))))

    def velocity(h, i):
        moved = ov.State(
            q=state.q + h * lin.dq[i].real, r=state.r + h * lin.dr[i].real, tau=state.tau, T=state.T,
            v=state.v + h * lin.dv[i].real, s=model.spectrum.s,
        )  # fmt: skip
        return np.concatenate([x.ravel() for x in system.unpack(system.rhs(0.0, system.pack(moved)))])

    h = 1e-4  # central differences: error h^2
    for i in (0, n // 2, n - 1):
        slope = (velocity(h, i) - velocity(-h, i)) / (2 * h)
        mode = np.concatenate([x.ravel() for x in (lin.dq[i], lin.dr[i], lin.dv[i])])
        np.testing.assert_allclose(slope, (lin.eigenvalues[i] * mode).real, atol=1e-7)
    np.testing.assert_allclose(lin.dQ, np.einsum("l,nlij->nij", model.spectrum.s, lin.dq))
    np.testing.assert_allclose(lin.dR, lin.dr.sum(axis=1))


def test_leading_eigenvalues_of_many_blocks_are_those_of_the_dense_matrix(monkeypatch):
    """Above ``max_dense`` order parameters the Arnoldi method is used; growing modes stand out and are all found."""
    p = np.linspace(0.0, 2.0, 20)[::-1] / 20  # unequal, the last one 0
    model = ov.committee_machine(3, 3, eta=0.1, spectrum=ov.Spectrum(s=ov.power_law(beta=1.0, L=20).s, p=p))
    t = model.spectrum.p[:, None, None] * (
        np.eye(3) + 0.3 * np.sin(np.arange(20))[:, None, None] * np.diag([1, -1, 0.5])
    )
    state = equal_students(model, t, np.full(3, 0.26))
    dense = ov.linearise(model, state)
    monkeypatch.setattr(linear, "EIGENVALUES", linear.EIGENVALUES._replace(max_dense=10))
    few = ov.linearise(model, state)
    assert few.dimension == dense.dimension and 4 <= few.eigenvalues.size <= 6
    np.testing.assert_allclose(few.eigenvalues.real, dense.eigenvalues.real[: few.eigenvalues.size], rtol=1e-10)
    assert dense.eigenvalues.real[0] == pytest.approx(dense.eigenvalues.real[1], rel=1e-10)  # (K - 1)-fold


# fixed points and escape rates in closed form -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "eta, q, rate", [(0.1, 0.6454092488061, 0.0787979447), (0.3, 0.7680749452886, 0.1546167031)], ids=str
)
def test_quadratic_plateau_published_numbers(eta, q, rate):
    """K = M = 3; the learning rate of Bocchi et al. (2026) is half of the library's."""
    model = ov.quadratic_network(3, 3, eta=2 * eta)
    point = ov.fixed_point(model, ov.State.from_overlaps(model, Q=0.6 * np.eye(3), R=np.zeros((3, 3)), T=np.eye(3)))
    assert point.converged and "converged" in repr(point) and point.residual < 1e-14
    np.testing.assert_allclose(point.state.Q, q * np.eye(3), atol=1e-12)
    lin = ov.linearise(model, point.state)
    assert lin.rate == pytest.approx(rate, abs=1e-10)  # ten digits are given
    assert lin.unstable == 9 and lin.residual < 1e-14  # all of R


@pytest.mark.parametrize("K, M, eta", [(1, 1, 0.05), (2, 1, 0.1), (6, 3, 0.5), (4, 5, 0.3)])
def test_quadratic_plateau_at_finite_eta(K, M, eta):
    """The plateau is the root of a quadratic equation, the escape rate linear in it (paper's eta)."""
    h, c0, c2 = eta / K, 1 + 2 / M, (K + 4) / (K + 2)
    u = 2 * (1 + 2 * h * c0) / (1 + 4 * h + np.sqrt((1 + 4 * h) ** 2 - 8 * h * c2 * (1 + 2 * h * c0)))
    model = ov.quadratic_network(K, M, eta=2 * eta)
    guess = ov.State.from_overlaps(model, Q=K / (K + 2) * np.eye(K), R=np.zeros((K, M)), T=np.eye(M))
    point = ov.fixed_point(model, guess)
    np.testing.assert_allclose(point.state.Q, u * K / (K + 2) * np.eye(K), atol=1e-12)
    lin = ov.linearise(model, point.state)
    np.testing.assert_allclose(lin.eigenvalues[: K * M].real, 4 * h * (c0 - u), rtol=1e-10)
    assert lin.unstable == K * M


@pytest.mark.parametrize(
    "T1, D1, T2, D2, Q, R, eps_g, tau",
    [
        (1.0, 0.0, 3.0, 0.0, 1 / 9, 0.149071198499986, 0.007245264520367076, 573.0716241851871),
        (1.1, 0.2, 3.0, 0.1, 0.141304347826087, 0.191674543001266, 0.008251831509516517, 499.3516385589019),
    ],
)
def test_erf_plateau_and_escape_time_published_numbers(T1, D1, T2, D2, Q, R, eps_g, tau):
    """Worschech and Rosenow (2024), M = 5, gradient flow; D1, D2 are row sums off the diagonal."""
    M = 5
    first, second = (x * np.eye(M) + d / (M - 1) * (1 - np.eye(M)) for x, d in ((T1, D1), (T2, D2)))
    spectrum = ov.Spectrum(s=[4.0, 0.5], p=[0.3, 0.7])  # gradient flow does not see p
    model = ov.committee_machine(M, M, normalised=True, eta=0.1, gradient_flow=True, spectrum=spectrum)
    point = ov.fixed_point(model, equal_students(model, two_blocks(first, second), np.full(M, 0.2)))
    assert point.converged
    np.testing.assert_allclose(point.state.Q, Q, rtol=1e-10)
    np.testing.assert_allclose(point.state.R, R, rtol=1e-10)
    assert ov.closure(model, point.state.Q, point.state.R, first).eps_g == pytest.approx(eps_g, rel=1e-10)
    lin = ov.linearise(model, point.state)
    np.testing.assert_allclose(1 / lin.eigenvalues.real[: (M - 1) ** 2], tau, rtol=1e-10)
    assert lin.unstable == (M - 1) ** 2  # M - 1 rates that coincide, each (K - 1)-fold


def test_erf_plateau_of_a_general_teacher():
    """Three different heights, two different escape rates, each (K - 1)-fold; the third rate is negative."""
    T = np.array([[1.1, 0.1, 0.05], [0.1, 0.9, -0.1], [0.05, -0.1, 1.2]])
    T2 = np.array([[2, 0.3, 0.1], [0.3, 1.5, -0.4], [0.1, -0.4, 2.5]])
    spectrum = ov.Spectrum(s=[4.0, 0.5], p=[0.3, 0.7])
    model = ov.committee_machine(3, 3, normalised=True, eta=0.1, gradient_flow=True, spectrum=spectrum)
    point = ov.fixed_point(model, equal_students(model, two_blocks(T, T2), np.full(3, 0.25)))
    assert point.converged
    np.testing.assert_allclose(point.state.Q, 0.215109042709037, rtol=1e-12)
    R = np.array([0.319101660879651, 0.239833184201882, 0.283235093204362])
    np.testing.assert_allclose(point.state.R, np.tile(R, (3, 1)), rtol=1e-12)
    rates = ov.linearise(model, point.state).eigenvalues.real / model.eta
    gamma = [0.038171029928676, 0.02428022951211, -0.000194565802311]
    assert contains(rates, np.repeat(gamma, 2), 1e-13)
    np.testing.assert_allclose(rates[:4], np.repeat(gamma[:2], 2), rtol=1e-11)


@pytest.mark.parametrize("M", [2, 3, 5])
def test_erf_relaxation_to_perfect_learning(M):
    """The symmetric part of the spectrum at student = teacher is that of a G + p s^T (a H + F), 4 L numbers."""
    L, eta, w = 3, 0.7, np.sqrt(3)
    model = ov.committee_machine(M, M, normalised=True, eta=eta, spectrum=ov.power_law(beta=1.0, L=L))
    s, p = model.spectrum.s, model.spectrum.p
    a = 2 * eta / (w * np.pi * M)
    G = [
        [1, (M - 1) * w / 2, 0, 0],
        [w / 2, 1 + (M - 2) * w / 2, 0, 0],
        [-2, -(M - 1) * w, 2, (M - 1) * w],
        [-w, -2 - (M - 2) * w, w, 2 + (M - 2) * w],
    ]
    H = [
        [-1 / 3, -(M - 1) * w / 4, 1 / 2, (M - 1) * w / 4],
        [0, 0, w / 8, 0],
        [-2 / 3, -(M - 1) * w / 2, 1, (M - 1) * w / 2],
        [0, 0, w / 4, 0],
    ]
    f1, f2 = 1 / np.sqrt(5) + (M - 1) / 3, (M - 1) / np.sqrt(2) + (M - 1) * (M - 2) / (2 * w)
    f3, f4 = 1 / np.sqrt(2) + (M - 2) / (2 * w), 2 / 3 + 2 * (M - 2) / w + (M - 2) * (M - 3) / 4
    F = np.zeros((4, 4))
    F[2:] = 4 * eta**2 / (np.pi * M) ** 2 * np.array([[-2 * f1, -2 * f2, f1, f2], [-2 * f3, -2 * f4, f3, f4]])
    generator = np.kron(np.outer(s * p, s), a * np.array(H) + F) - np.kron(np.diag(s), a * np.array(G))
    lin = ov.linearise(model, perfect(model))
    assert lin.residual < 1e-15 and lin.unstable == 0
    assert contains(lin.eigenvalues, np.linalg.eigvals(generator), 1e-12)


def test_linear_spectrum_is_the_secular_one():
    """R decays at eta s_l, eps_g at 2 eta mu_j with the mu_j of Worschech and Rosenow (2024), eta = 0.8."""
    mu = [
        2.619074031432193, 1.04406877378965, 0.591553003188478,
        0.391554786120593, 0.283043978291274, 0.21626732887016,
    ]  # fmt: skip
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.8, spectrum=ov.power_law(beta=0.5, L=6))
    rates = ov.linearise(model, perfect(model)).eigenvalues
    assert contains(rates, [*(-2 * 0.8 * np.array(mu)), *(-0.8 * model.spectrum.s)], 1e-12)


def test_slow_modes_of_quadratic_networks_are_the_orbit():
    """At zero error K M - M (M + 1)/2 rotations of the student are free and show in R and Q as zero eigenvalues."""
    model = ov.quadratic_network(3, 3, eta=0.2)
    lin = ov.linearise(model, perfect_quadratic(model, np.random.default_rng(0)))
    assert np.sum(np.abs(lin.eigenvalues) < 1e-13) == 3 and lin.unstable == 0


# escape of trajectories -----------------------------------------------------------------------------------------------


def erf_case(K, eta, L):
    model = ov.committee_machine(K, K, eta=eta, spectrum=ov.power_law(beta=1.0, L=L))
    p, c2 = model.spectrum.p[:, None, None], 1 / (K * (2 * K - 1))
    q = p * (K * c2 + 0.03 * K**2 * eta * np.eye(K))
    return model, ov.State.from_blocks(model, q=q, r=p * np.full((K, K), c2**0.5), t=p * np.eye(K))


def quadratic_case(K, eta, L):
    model = ov.quadratic_network(K, K, eta=eta)
    return model, ov.State.from_overlaps(model, Q=0.6 * np.eye(K), R=np.zeros((K, K)), T=np.eye(K))


@pytest.mark.parametrize(
    "case, K, eta, L, growing",
    [
        (erf_case, 2, 0.3, 1, 1),
        (erf_case, 2, 1.0, 1, 1),
        (erf_case, 3, 0.5, 1, 4),
        (erf_case, 4, 0.3, 1, 9),  # (K - 1)^2 modes of merely equivalent students
        (erf_case, 2, 0.5, 4, 1),
        (quadratic_case, 3, 0.2, 1, 9),
    ],
)
def test_escape_rate_is_that_of_the_trajectory(case, K, eta, L, growing, rng):
    model, guess = case(K, eta, L)
    point = ov.fixed_point(model, guess)
    lin = ov.linearise(model, point.state)
    assert point.converged and lin.unstable == growing
    kick = 1e-6 * rng.standard_normal(point.state.r.shape)
    start = dataclasses.replace(point.state, r=point.state.r + kick)
    # growth from 1e-6 to 1e-3, where terms of second order are 1e-3 relative; decaying modes are gone after e^3
    alpha = np.linspace(3 / lin.rate, 7 / lin.rate, 30)
    traj = ov.solve(model, start, alpha, rtol=1e-11)
    distance = np.linalg.norm(traj.R - point.state.R, axis=(1, 2))
    fitted = np.polyfit(alpha, np.log(distance), 1)[0]
    assert 20 < distance[-1] / distance[0] < 1e2 and distance[-1] < 1e-2
    assert fitted == pytest.approx(lin.rate, rel=0.01)


# Newton's method ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [ov.erf, ov.linear, ov.quadratic], ids=str)
@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_specialised_fixed_point_is_the_end_of_a_trajectory(activation, L, noise, rng):
    model = ov.committee_machine(
        2, 2, activation=activation, eta=0.05, noise=noise, spectrum=ov.power_law(beta=1.0, L=L)
    )
    W_star = rng.standard_normal((2, 60))
    W = W_star + 0.02 * rng.standard_normal((2, 60))
    start = ov.State.from_weights(model, W=W, W_star=W_star)
    point = ov.fixed_point(model, start)
    assert point.converged and point.iterations < 8
    state = point.state
    eps_g = ov.closure(model, state.Q, state.R, state.T).eps_g
    if noise:
        end = ov.solve(model, point.state, [2000.0], rtol=1e-10)
        np.testing.assert_allclose(end.Q[0], state.Q, atol=1e-8)  # 100 rtol: errors accumulate along slow directions
        # a kicked trajectory comes back to the same error, though linear students share their sum in many ways
        back = ov.solve(model, start, [4000.0], rtol=1e-10)
        assert eps_g > 1e-5 and back.eps_g[0] == pytest.approx(eps_g, rel=1e-4)
    else:
        assert abs(eps_g) < 1e-12  # a cancellation of terms of order one


def test_linear_noise_floor_is_exact():
    """Eps_inf = eta <s> sigma^2 / (2 (2 - eta <s>)), m_l = (eta/2) p_l sigma^2 / (1 - eta <s>/2)."""
    model = ov.committee_machine(
        1, 1, activation=ov.linear, eta=0.6, noise=0.5, spectrum=ov.Spectrum(s=[3.0, 1.0, 0.2], p=[0.2, 0.3, 0.5])
    )
    mean, p = model.spectrum.mean, model.spectrum.p
    point = ov.fixed_point(model, perfect(model))
    m = 0.3 * p * 0.25 / (1 - 0.3 * mean)
    np.testing.assert_allclose(point.state.q[:, 0, 0], p + m, rtol=1e-12)  # w - w* is independent of w*
    eps = ov.closure(model, point.state.Q, point.state.R, point.state.T).eps_g
    assert eps == pytest.approx(0.6 * mean * 0.25 / (2 * (2 - 0.6 * mean)), rel=1e-12)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_growing_modes_of_merely_equivalent_students(K):
    """(K - 1)^2: each way to tell students apart with each way to tell teachers apart."""
    model = ov.committee_machine(K, K, eta=0.5)
    start = dict(R=np.full((K, K), 0.56 / K), T=np.eye(K))
    guess = ov.State.from_overlaps(model, Q=0.2 * np.eye(K) + 0.55 / K, **start)
    point = ov.fixed_point(model, guess)
    assert point.converged and point.state.Q[0, 0] > point.state.Q[0, 1] + 0.03
    np.testing.assert_allclose(point.state.R, point.state.R[0, 0], rtol=1e-12)
    assert ov.linearise(model, point.state).unstable == (K - 1) ** 2


def test_plateaus_with_and_without_distinct_students():
    """At finite eta equal students (never separated by their common noise) sit at another fixed point than others."""
    model = ov.committee_machine(2, 2, eta=0.5)
    start = dict(R=np.full((2, 2), 0.4), T=np.eye(2))
    equal = ov.fixed_point(model, ov.State.from_overlaps(model, Q=np.full((2, 2), 0.4), **start))
    apart = ov.fixed_point(model, ov.State.from_overlaps(model, Q=np.full((2, 2), 0.33) + 0.05 * np.eye(2), **start))
    assert np.ptp(equal.state.Q) < 1e-15 and apart.state.Q[0, 0] - apart.state.Q[0, 1] > 0.03
    for point in (equal, apart):
        assert point.converged
        np.testing.assert_allclose(point.state.Q, point.state.Q.T[::-1, ::-1], atol=1e-14)
    # separating equal students is a growing mode of the first and a decaying one of the second
    assert ov.linearise(model, equal.state).unstable == 3 and ov.linearise(model, apart.state).unstable == 1
    settled = ov.solve(model, ov.State.from_overlaps(model, Q=np.full((2, 2), 0.4), **start), [3000.0], rtol=1e-11)
    np.testing.assert_allclose(settled.Q[0], equal.state.Q, atol=1e-9)


def test_trained_second_layer_and_weight_decay():
    model = ov.committee_machine(2, 2, eta=0.3, eta_v=0.2, weight_decay=(0.01, 0.02))
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=0.95 * np.eye(2), T=np.eye(2))
    point = ov.fixed_point(model, start)
    assert point.converged and ov.linearise(model, point.state).unstable == 0
    end = ov.solve(model, start, [20000.0], rtol=1e-10)
    np.testing.assert_allclose(end.v[0], point.state.v, rtol=1e-7)
    assert abs(point.state.v[0] - 1) > 1e-3


def test_equal_students_of_unequal_readouts_part():
    """Fixed readouts tell them apart: from equal students as a guess to the end of a trajectory of unequal ones."""
    model = ov.committee_machine(2, 1, eta=0.4, v=[1.3, 0.6], v_star=[0.9], weight_decay=0.07)
    guess = ov.State.from_overlaps(model, Q=0.3 * np.ones((2, 2)), R=0.4 * np.ones((2, 1)), T=[[1.2]])
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.3]], R=[[0.4], [0.3]], T=[[1.2]])
    point, end = ov.fixed_point(model, guess), ov.solve(model, start, [800.0], rtol=1e-11)[0]
    assert point.converged and abs(end.Q[0, 0] - end.Q[1, 1]) > 0.05
    np.testing.assert_allclose(point.state.Q, end.Q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(point.state.R, end.R, rtol=0, atol=1e-8)


def test_failure_is_reported():
    """Above eta = 2 a linear unit with noise has no fixed point: the root of its equations has negative norm."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=2.5, noise=0.4)
    with pytest.warns(RuntimeWarning, match="no fixed point was found"):
        point = ov.fixed_point(model, perfect(model))
    assert not point.converged and point.residual > 1e-3 and "NOT converged" in repr(point)
    model = dataclasses.replace(model, eta=1.9)
    with pytest.warns(RuntimeWarning, match="after 1 Newton steps"):
        assert not ov.fixed_point(model, perfect(model), tol=1e-300, max_iterations=1).converged


@pytest.mark.parametrize("Q, R, T, eta", [(2.0, 0.2, 1.0, 0.05), (1.5, 0.2, 0.8, 0.05), (4.0, 0.8, 0.8, 0.2)])
def test_newton_steps_are_damped(Q, R, T, eta):
    """From here whole steps run to Q = 1e15; the solution that damped ones find is known: student = teacher."""
    model = ov.committee_machine(1, 1, eta=eta, spectrum=UNEQUAL)
    p = model.spectrum.p[:, None, None]
    point = ov.fixed_point(model, ov.State.from_blocks(model, q=Q * p, r=R * p, t=T * p))
    assert point.converged
    np.testing.assert_allclose([point.state.Q, point.state.R], T, rtol=1e-9)


def test_saturated_students_are_named():
    """Newton's steps can end at norms of 1e8 and more, at which erf units hardly ever move: no plateau.

    How far they run depends on rounding; at this tolerance they rest wherever they end (40 of 40 starts 1e-9 apart).
    """
    model = ov.committee_machine(1, 1, eta=0.3, noise=0.2)
    guess = ov.State.from_overlaps(model, Q=[[2.0]], R=[[-0.5]], T=[[1.0]])
    with pytest.warns(RuntimeWarning, match="units saturate"):
        point = ov.fixed_point(model, guess, tol=1e-5)
    assert point.converged and point.state.Q[0, 0] > 1e6


@pytest.mark.parametrize("eta", [1.0, 1.5, 2.5, 6.0])
def test_trivial_fixed_point_is_named(eta):
    """Quadratic K = M = 3: no plateau above eta = 0.925, and Newton's steps end at students without weight."""
    assert eta > ov.theory.quadratic.eta_plateau(3, 3)
    model = ov.quadratic_network(3, 3, eta=eta)
    guess = ov.State.from_overlaps(model, Q=0.6 * np.eye(3), R=np.zeros((3, 3)), T=np.eye(3))
    with pytest.warns(RuntimeWarning, match="students of the guess have vanished"):
        point = ov.fixed_point(model, guess)
    assert "trivial fixed point" in point.message and np.max(point.state.Q) == 0
    nothing = ov.State.from_overlaps(model, Q=np.zeros((3, 3)), R=np.zeros((3, 3)), T=np.eye(3))
    assert ov.fixed_point(model, nothing).converged  # asked for, and no warning


# critical learning rates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spectrum",
    [
        ov.isotropic(),
        ov.power_law(beta=1.0, L=20),
        ov.Spectrum(s=[5.0, 0.3], p=[0.1, 0.9]),
        ov.Spectrum(s=[3.0, 1.0, 0.0], p=[0.2, 0.5, 0.3]),  # a conserved block
    ],
    ids=repr,
)
def test_critical_eta_of_a_linear_unit(spectrum):
    """2 / <s> for every spectrum, from either side."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.3, spectrum=spectrum)
    for eta in (0.1, 9.0):
        m = dataclasses.replace(model, eta=eta)
        assert ov.critical_eta(m, perfect(m)) == pytest.approx(2 / spectrum.mean, rel=1e-11)


@pytest.mark.parametrize(
    "M, eta_c, spectrum",
    [
        (1, 4.055778675973611, UNEQUAL),
        (2, 4.613655392166706, UNEQUAL),
        pytest.param(5, 5.0822415009885304, UNEQUAL, marks=pytest.mark.slow),  # 120 order parameters
        (5, 5.0822415009885304, ov.isotropic()),
    ],
    ids=str,
)
def test_critical_eta_of_erf_published_numbers(M, eta_c, spectrum):
    """Perfect learning, v = v* = 1/sqrt M, any spectrum of mean one: teachers orthonormal in every block."""
    model = ov.committee_machine(M, M, normalised=True, eta=1.0, spectrum=spectrum)
    assert ov.critical_eta(model, perfect(model)) == pytest.approx(eta_c, rel=1e-12)


def test_critical_eta_of_a_random_teacher():
    """Not that of orthonormal ones, 4.614: an eigenvalue of the differenced flow vanishes elsewhere."""
    model = ov.committee_machine(2, 2, normalised=True, eta=1.0, spectrum=ov.power_law(beta=1.0, L=4))
    t = model.random_start(N=400, rng=1).plain[2]
    state = ov.State.from_blocks(model, q=t, r=t, t=t)
    eta_c = ov.critical_eta(model, state)
    assert abs(eta_c - 4.614) > 0.01
    system = System(dataclasses.replace(model, eta=float(eta_c)), state)
    values = np.linalg.eigvals(differences(system, system.pack(state), 1e-3))
    # differences: h^6 and rounding 1e-16 / h, times eigenvectors that are far from orthogonal
    assert abs(np.max(values.real)) < 1e-9 and np.sum(np.abs(values.real) < 1e-3) == 1


def perfect_quadratic(model, rng):
    K, M = model.K, model.M
    S = np.linalg.qr(rng.standard_normal((K, M)))[0]
    return ov.State.from_overlaps(model, Q=K / M * S @ S.T, R=np.sqrt(K / M) * S, T=np.eye(M))


@pytest.mark.parametrize("K, M", [(1, 1), (2, 2), (3, 3), (6, 3)])
def test_critical_eta_of_quadratic_networks(K, M, rng):
    """Paper's eta_sol = K M / (4 (M + 2)); the zero modes of the solution manifold do not hide it."""
    model = ov.quadratic_network(K, M, eta=0.05)
    state = perfect_quadratic(model, rng)
    eta_c = ov.critical_eta(model, state)
    assert eta_c / 2 == pytest.approx(K * M / (4 * (M + 2)), rel=1e-11)
    # slope of the growth rate there: (16 eta / (K M)) (eta / eta_sol - 1), eta the paper's
    rate = ov.linearise(dataclasses.replace(model, eta=1.01 * eta_c), state).rate
    assert rate == pytest.approx(16 * 1.01 * eta_c / 2 / (K * M) * 0.01, rel=1e-9)


@few("aside", [1.0, 1 + 1e-7, 1 - 1e-7, 1.004, 0.996], quick=2)
@pytest.mark.parametrize("name", ["quadratic", "wide quadratic", "linear", "erf"])
def test_critical_eta_at_and_beside_its_own_answer(name, aside, rng):
    """There the crossing mode is a zero mode; above it there is another crossing, which is not the answer."""
    if name == "linear":
        model, exact = ov.committee_machine(1, 1, activation=ov.linear, spectrum=UNEQUAL, eta=1.0), 2.0
    elif name == "erf":  # published for v = 1/sqrt 2
        model, exact = ov.committee_machine(2, 2, spectrum=UNEQUAL, eta=1.0), 4.613655392166706 / 2
    else:
        K, M = (3, 3) if name == "quadratic" else (6, 3)
        model, exact = ov.quadratic_network(K, M, eta=0.1), K * M / (2 * (M + 2))
    model = dataclasses.replace(model, eta=exact * aside)
    state = perfect_quadratic(model, rng) if "quadratic" in name else perfect(model)
    found = ov.critical_eta(model, state)
    assert found == pytest.approx(exact, rel=1e-11) and found.kind == "crossing"


def test_all_of_the_range_is_searched():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=2.0)
    for eta, search in ((2.0, (1.9, 2.1)), (1.0, (0.5, 2.01)), (2.5, (1.99, 3.0))):
        there = dataclasses.replace(model, eta=eta)
        assert ov.critical_eta(there, perfect(there), search=search) == pytest.approx(2.0, rel=1e-11)


def test_critical_eta_is_a_float_with_its_fixed_point(rng):
    model = ov.quadratic_network(6, 3, eta=0.3)
    state = perfect_quadratic(model, rng)
    found = ov.critical_eta(model, state)
    assert isinstance(found, float) and float(found) == found.eta and 0.5 < found < 2 and 2 * found / found == 2
    assert f"{found:.3f}" == "1.800" and round(found, 3) == 1.8 and np.array([found, 1.0]).dtype == float
    assert repr(found).startswith("CriticalEta(1.8, crossing, eps_g=") and "real eigenvalue" in found.message
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), dataclasses.replace(found)):
        assert twin == found and twin.kind == found.kind and twin.state == found.state and twin.mode == found.mode
    np.testing.assert_allclose(found.state.Q, state.Q, rtol=1e-12, atol=1e-14)  # it stays put
    assert abs(found.eps_g) < 1e-12
    # zero modes share its eigenvalue at eta_c: the mode is the one that grows above, at the rate (16 eta / (K M))
    # (eta / eta_sol - 1), eta the paper's
    system = System(dataclasses.replace(model, eta=1.01 * found), state)
    values, vectors = np.linalg.eig(differences(system, system.pack(state), 1e-3))
    top = np.argmax(values.real)
    assert values[top].real == pytest.approx(16 * 0.909 / 18 * 0.01, rel=1e-6)
    mode = np.concatenate([found.mode.dr.ravel(), found.mode.dq[0][:, *system.packing.upper].ravel()])
    assert np.isrealobj(mode) and -1e-5 < found.mode.rate < 0  # read a little below
    assert abs(mode @ vectors[:, top].real) > 0.999 * np.linalg.norm(mode)  # it turns by some 1 % between the two rates


def test_critical_eta_separates_decay_from_growth():
    model = ov.committee_machine(2, 2, eta=0.5)
    eta_c = ov.critical_eta(model, perfect(model))
    start = ov.State.from_overlaps(model, Q=1.0002 * np.eye(2), R=np.eye(2), T=np.eye(2))
    below, above = (ov.solve(dataclasses.replace(model, eta=f * eta_c), start, [100.0]).eps_g[0] for f in (0.9, 1.1))
    first = ov.solve(model, start, [0.0]).eps_g[0]
    assert below < 0.1 * first and above > 10 * first


def test_both_learning_rates_are_scaled_together():
    model = ov.committee_machine(2, 2, eta=0.5, eta_v=0.1, v=[1.0, 0.8], v_star=[1.0, 0.8])
    branch = _Branch(model, perfect(model))
    for eta in (0.2, 1.0):
        scaled = dataclasses.replace(model, eta=eta, eta_v=0.2 * eta)
        assert branch.rate(eta) * eta == pytest.approx(ov.linearise(scaled, perfect(scaled)).rate, rel=1e-10)
    # a real eigenvalue vanishes where det J does, whatever the factor eta_v in front of the rows of v
    eta_c = ov.critical_eta(model, perfect(model))
    fixed = dataclasses.replace(model, eta_v=0.0)
    assert ov.critical_eta(fixed, perfect(fixed)) == pytest.approx(eta_c, rel=1e-11)


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_critical_eta_is_followed_through_a_hopf_bifurcation(noise):
    """Quadratic, K = M = 1: Q = 1, R^2 = 1 - e sigma^2/(1 - 12 e); a pair of eigenvalues crosses where the trace is 0.

    From the closed equations with the paper's e = eta/2: tr J = e (16 e (36 + sigma^2 - 24 R^2) - 40).
    """
    model = ov.quadratic_network(1, 1, eta=0.02, noise=noise)
    guess = ov.State.from_overlaps(model, Q=[[1.02]], R=[[1.0]], T=[[1.0]])
    point = ov.fixed_point(model, guess)

    def overlap(e):
        return 1 - e * noise**2 / (1 - 12 * e)

    np.testing.assert_allclose([point.state.Q[0, 0], point.state.R[0, 0] ** 2], [1, overlap(0.01)], rtol=1e-12)
    exact = brentq(lambda e: 16 * e * (36 + noise**2 - 24 * overlap(e)) - 40, 0.01, 1 / (12 + noise**2), xtol=1e-15)
    found = ov.critical_eta(model, point.state)
    assert found == pytest.approx(2 * exact, rel=1e-10) and found.kind == "Hopf"
    np.testing.assert_allclose([found.state.Q[0, 0], found.state.R[0, 0] ** 2], [1, overlap(exact)], rtol=1e-9)
    there = dataclasses.replace(model, eta=float(found))
    system = System(there, found.state)
    values = np.linalg.eigvals(differences(system, system.pack(found.state), 1e-3))
    # differences are exact for quadratic students; the mode is read at a relative distance of 1e-6
    assert abs(found.mode.eigenvalues[0].imag) == pytest.approx(np.max(values.imag), rel=1e-4)
    again = ov.critical_eta(there, found.state)
    assert again == pytest.approx(found, rel=1e-10) and again.kind == "Hopf"


def test_the_largest_student_tells_how_far_a_fixed_point_has_gone():
    """In the unit of the largest teacher, both with their second layers."""
    model = ov.committee_machine(2, 2, eta=0.5, v=[0.7, 0.3], v_star=[-0.9, 0.4])
    state = ov.State.from_overlaps(model, Q=[[2.0, 0.1], [0.1, 9.0]], R=np.zeros((2, 2)), T=np.diag([0.6, 3.0]))
    branch = SimpleNamespace(known={0.5: state}, model=model)
    assert _Branch.excess(branch, 0.5) == pytest.approx(max(0.49 * 2, 0.09 * 9) / max(0.81 * 0.6, 0.16 * 3))


@pytest.mark.slow
def test_fixed_point_that_moves_to_infinity():
    """With noise the linear fixed point diverges at eta = 2: found as the end of the branch."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.99, noise=0.4)
    point = ov.fixed_point(model, perfect(model))
    found = ov.critical_eta(model, point.state)
    assert found == pytest.approx(2.0, rel=1e-5) and found.kind == "infinity" and found.eps_g > 1e3
    again = ov.critical_eta(dataclasses.replace(model, eta=float(found)), found.state)
    assert again == pytest.approx(found, rel=1e-8) and again.kind == "infinity"


def test_fixed_point_that_ends_in_a_fold():
    """Relu with noise: below, a trajectory stays; a little above, it passes where the fixed point was and leaves."""
    model = ov.committee_machine(1, 1, activation=ov.relu, eta=2.0, noise=0.5)
    guess = ov.State.from_overlaps(model, Q=[[5.0]], R=[[1.7]], T=[[1.0]])
    found = ov.critical_eta(model, ov.fixed_point(model, guess).state)
    assert found.kind == "fold" and abs(found.mode.rate) < 1e-4
    below, above = (
        ov.solve(dataclasses.replace(model, eta=f * found), guess, [200.0], rtol=1e-6).eps_g[0] for f in (0.99, 1.01)
    )
    assert below < found.eps_g and above > 10 * found.eps_g
    again = ov.critical_eta(dataclasses.replace(model, eta=float(found)), found.state)
    assert again == pytest.approx(found, rel=1e-8) and again.kind == "fold"


@few("v, v_star", [(0.01, 1.0), (30.0, 0.7), (1.3, 0.05)], quick=1)
def test_the_kind_does_not_hang_on_the_scale_of_a_unit(v, v_star):
    """Relu: weights by 1/v, eta by 1/v^2, the readout by v is the same network; so it is for a teacher."""
    kinds = []
    for scale, taught in ((1.0, 1.0), (v, v_star)):
        model = ov.committee_machine(
            1, 1, activation=ov.relu, eta=2.0 / scale**2, noise=0.5, v=[scale], v_star=[taught]
        )
        overlaps = {"Q": [[5.0 / scale**2]], "R": [[1.7 / scale / taught]], "T": [[1.0 / taught**2]]}
        guess = ov.State.from_overlaps(model, **overlaps)
        found = ov.critical_eta(model, ov.fixed_point(model, guess).state)
        kinds.append((found.kind, pytest.approx(found * scale**2, rel=1e-5)))
    assert kinds[0][0] == kinds[1][0] == "fold" and float(kinds[0][1].expected) == kinds[1][1]


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_the_least_noise_leaves_the_crossing(noise):
    model = ov.committee_machine(1, 1, eta=3.0, noise=noise)
    found = ov.critical_eta(model, ov.fixed_point(model, perfect(model)).state)
    assert found == pytest.approx(np.pi * np.sqrt(5 / 3), rel=1e-9) and found.kind == "crossing"


@pytest.mark.slow
@pytest.mark.parametrize("work", [250, (500)])
@pytest.mark.parametrize("K, noise", [(1, 1e-3), (2, 0.1)])
def test_fixed_point_that_runs_away(K, noise, work, monkeypatch):
    """More noise leaves no bifurcation: weights grow, the fixed point stays stable, and that is said after some work.

    One unit: students of infinite weight that point at the teacher balance drift and noise where 2 = eta (E + noise^2),
    E = (2 / pi) arcsin(1/3) their mean error; no fixed point is left above.
    """
    options = critical.CONTINUATION._replace(max_total_steps=work)  # 250: enough for a tenfold weight
    monkeypatch.setattr(critical, "CONTINUATION", options)
    model = ov.committee_machine(K, K, eta=2.0, noise=noise)
    found = ov.critical_eta(model, ov.fixed_point(model, perfect(model)).state)
    assert np.isnan(found) and found.kind.startswith("none below") and "diverges without a bifurcation" in found.message
    limit = float(found.kind.removeprefix("none below "))
    assert limit > {1: 6.0, 2: 3.5}[K]  # 4.06 and 2.31 without noise
    assert K == 2 or limit < 2 / (2 / np.pi * np.arcsin(1 / 3) + noise**2)
    assert found.state.Q[0, 0] > 10 and 0.05 < found.eps_g < 0.3 and found.mode.rate < 0
    there = dataclasses.replace(model, eta=limit)  # rounded to four digits
    assert ov.linearise(there, found.state).residual < 1e-2


# bad input ------------------------------------------------------------------------------------------------------------


def test_bad_input():
    model = ov.committee_machine(2, 2, eta=0.5)
    state = perfect(model)
    with pytest.raises(ValueError, match="expected a State"):
        ov.linearise(model, np.eye(2))
    with pytest.raises(ValueError, match="expected a Model"):
        ov.fixed_point(state, state)
    with pytest.raises(ValueError, match="the model expects"):
        ov.linearise(ov.committee_machine(3, 2, eta=0.5), state)
    with pytest.raises(ValueError, match="count = 8; the state has 7"):
        ov.linearise(model, state, count=8)
    with pytest.raises(ValueError, match="tol"):
        ov.fixed_point(model, state, tol=0.0)
    with pytest.raises(ValueError, match="gradient flow"):
        ov.critical_eta(dataclasses.replace(model, gradient_flow=True), state)
    elsewhere = ov.State.from_overlaps(model, Q=np.eye(2), R=0.5 * np.eye(2), T=np.eye(2))
    with pytest.raises(ValueError, match="no fixed point at eta = 0.5"):
        ov.critical_eta(model, elsewhere)
    for search in ((1.0, 2.0), (0.1, 0.2, 0.6), (0.0, 1.0)):
        with pytest.raises(ValueError, match="search"):
            ov.critical_eta(model, state, search=search)
    stable = ov.critical_eta(model, state, search=(0.4, 1.0))
    assert np.isnan(stable) and stable.kind == "none below 1"
    assert "stable for all eta tried in [0.5, 1], at the end of the range searched, (0.4, 1)" in stable.message


def test_a_plateau_is_unstable_at_every_eta():
    model = ov.quadratic_network(2, 2, eta=0.1)
    guess = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
    state = ov.fixed_point(model, guess).state
    with pytest.raises(ValueError, match="unstable for all eta tried"):
        ov.critical_eta(model, state, search=(0.01, 1.0))


def test_aligned_kinked_units_are_refused():
    """The closure of relu is not differentiable where a student meets a teacher or another student.

    Where all teachers have been learned the flow of the differences serves instead (``test_kinked.py``).
    """
    for activation in (ov.relu, ov.leaky_relu(0.1), ov.absolute):
        model = ov.committee_machine(3, 2, activation=activation, eta=0.1)
        Q, R = np.diag([1.0, 1.0, 0.5]), np.eye(3, 2)
        half = ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(2))
        for function in (ov.linearise, ov.critical_eta):
            with pytest.raises(ValueError, match="aligned"):
                function(model, half)
    model = ov.committee_machine(2, 2, activation=ov.relu, eta=0.1)
    apart = ov.State.from_overlaps(model, Q=np.eye(2), R=0.5 * np.eye(2), T=np.eye(2))
    assert np.all(np.isfinite(ov.linearise(model, apart).eigenvalues))


def test_large_states_are_refused_by_dense_methods(monkeypatch):
    monkeypatch.setattr(linear, "EIGENVALUES", linear.EIGENVALUES._replace(max_dense=10))
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=3))
    for function in (ov.fixed_point, ov.critical_eta):
        with pytest.raises(ValueError, match="21 order parameters; expected at most 10"):
            function(model, perfect(model))


def test_differences_of_a_closure_that_vanishes_are_rounding():
    """Found by random search: Newton's steps end at a student without output, where A and B are 0 up to rounding."""
    spectrum = ov.power_law(beta=0.6675607103790399, L=3)
    model = ov.committee_machine(
        1, 2, activation=ov.tanh, teacher_activation=ov.linear, spectrum=spectrum, gradient_flow=True,
        v=[-0.47677573], v_star=[-0.40301771, 0.62845148], eta=0.6675607103790399, eta_v=0.3,
    )  # fmt: skip
    r = [[[-3.4366674, -1.40668603]], [[-0.04784733, 0.28283744]], [[0.02106713, 0.08911981]]]
    tau = [
        [[0.97575419, 0.5474167], [0.5474167, 0.46743012]],
        [[0.01397818, 0.00658731], [0.00658731, 0.05701975]],
        [[0.00680004, 0.0114612], [0.0114612, 0.02658472]],
    ]
    T = np.array([[0.52241907, 0.3146082], [0.3146082, 0.40049182]])
    larger = 1.00001  # the digits above are rounded to the outside of what is possible
    q = [[[13.79956447]], [[1.89353678]], [[0.46077005]]]
    guess = ov.State(q=q, r=r, tau=larger * np.array(tau), T=larger * T, v=model.v)
    point = ov.fixed_point(model, guess, max_iterations=10)
    assert point.converged and abs(point.state.v[0]) < 1e-6
    # v relaxes with eta_v E[g^2], and g^2 = 1 where the unit is saturated; nothing else moves
    assert ov.linearise(model, point.state).eigenvalues.real.min() == pytest.approx(-model.eta_v, rel=1e-2)


def test_newton_steps_that_leave_every_number_are_reported():
    """C of a cubic unit is of fifth order in Q: at 1e68 it is no number, and neither is the Jacobian."""
    model = ov.committee_machine(1, 1, activation=ov.polynomial([0, 0, 0, 1.0]), eta=0.3)
    guess = ov.State.from_overlaps(model, Q=[[1e68]], R=[[0.1]], T=[[1.0]])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="no fixed point was found.*leave the range"):
        point = ov.fixed_point(model, guess, max_iterations=10)
    assert not point.converged


def test_an_eigenspace_without_variance_holds_no_newton_step():
    """Steps in overlaps that cannot matter ended at overlaps of no real vectors, or of no numbers."""
    spectrum = ov.Spectrum(s=[0.0, 0.30845314], p=[1.0, 0.0])
    model = ov.committee_machine(
        1, 2, eta=1.9534043536590708, eta_v=0.3, noise=0.5, v=[0.02364325], v_star=[0.90092739, -0.71168077],
        spectrum=spectrum,
    )  # fmt: skip
    tau = [np.zeros((2, 2)), [[0.02160672, 0.00016002], [0.00016002, 0.14227274]]]
    r = [np.zeros((1, 2)), [[-0.12549409, 0.13698679]]]
    T = [[0.07004864, 0.00051877], [0.00051877, 0.46124588]]
    guess = ov.State(q=[[[3.38113918]], [[1.18924473]]], r=r, tau=tau, T=T, v=model.v)
    point = ov.fixed_point(model, guess)
    assert point.converged
    assert np.array_equal(point.state.q[0], guess.q[0]) and not point.state.r[0].any()


@pytest.mark.parametrize("activation", [ov.leaky_relu(0.3), ov.leaky_relu(-0.5), ov.absolute], ids=str)
def test_states_of_any_scale_have_the_derivatives_of_kinked_units(activation):
    """Units of degree one without noise: weights of any scale have the same rates."""
    rng, K, M = np.random.default_rng(3), 2, 2
    model = ov.committee_machine(K, M, activation=activation, eta=0.37, v=[0.8, -0.6], v_star=[0.7, 1.3])
    for _ in range(10):
        X = rng.normal(size=(K + M, 6)) / np.sqrt(6)
        rates = []
        for scale in (1.0, 0.21, 0.013):
            S = scale**2 * X @ X.T
            state = ov.State.from_overlaps(model, Q=S[:K, :K], R=S[:K, K:], T=S[K:, K:])
            rates.append(np.sort_complex(ov.linearise(model, state).eigenvalues))
        np.testing.assert_allclose(rates[1:], [rates[0]] * 2, rtol=0, atol=1e-6 * np.abs(rates[0]).max())


def test_a_leak_that_vanishes_leaves_relu():
    """Differences of one closed form against the derivatives of another."""
    rng, K, M = np.random.default_rng(4), 3, 2
    for _ in range(5):
        X, found = 0.3 * rng.normal(size=(K + M, 7)), []
        S = X @ X.T / 7
        for g in (ov.relu, ov.leaky_relu(1e-9)):
            model = ov.committee_machine(K, M, activation=g, eta=0.37, v=[0.8, -0.6, 1.2], noise=0.2)
            state = ov.State.from_overlaps(model, Q=S[:K, :K], R=S[:K, K:], T=S[K:, K:])
            found.append(np.sort_complex(ov.linearise(model, state).eigenvalues))
        np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6 * np.abs(found[0]).max())
