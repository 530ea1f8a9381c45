"""Plateau, escape, learning-rate bounds and last descent against the integrated and linearised equations."""

import numpy as np
import pytest
from helpers import few, library

import overlaps as ov
from overlaps.theory import quadratic

SIZES = [(6, 3), (3, 3), (2, 1), (5, 2)]


def jacobian(model, Q, R, step=1e-6):
    """Central differences of the flow in the upper triangle of Q and in R; T = 1."""
    K, M = R.shape
    i, j = np.triu_indices(K)

    def velocity(y):
        q = np.zeros((K, K))
        q[i, j] = q[j, i] = y[: i.size]
        # the equations are polynomials: no state is refused for being slightly out of the physical domain
        c = _raw_closure(model, q, y[i.size :].reshape(K, M))
        half = c[0] @ q + c[1] @ y[i.size :].reshape(K, M).T
        dQ = half + half.T + (0 if model.gradient_flow else c[2])
        return np.concatenate([dQ[i, j], (c[0] @ y[i.size :].reshape(K, M) + c[1]).ravel()])

    y = np.concatenate([Q[i, j], R.ravel()])
    return np.array([(velocity(y + step * e) - velocity(y - step * e)) / (2 * step) for e in np.eye(y.size)]).T


def _raw_closure(model, Q, R):
    from overlaps.flow.binding import bind

    K, M = R.shape
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
    bind(model, True)(np.block([[Q, R], [R.T, np.eye(M)]]), np.concatenate([model.v, -model.v_star]), A, B, C, dv)
    return A, B, C


# plateau --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K, M", SIZES)
@pytest.mark.parametrize("gradient_flow, noise", [(True, 0.0), (False, 0.0), (False, 0.3)])
def test_plateau_and_its_rates(K, M, gradient_flow, noise):
    """Eigenvalues of the Jacobian: escape K M times, trace once, shape K(K+1)/2 - 1 times (it decays)."""
    eta = 0.4 * quadratic.eta_solution(K, M)
    model = ov.quadratic_network(K, M, eta=eta, noise=noise, gradient_flow=gradient_flow)
    p = quadratic.plateau(K, M, eta=eta, noise=noise, gradient_flow=gradient_flow)
    dQ, _, risk = library(model, p.q * np.eye(K), np.zeros((K, M)), np.eye(M))
    assert np.max(np.abs(dQ)) < 1e-14 and risk / 2 == pytest.approx(p.eps_g, rel=1e-13)
    found = np.sort(np.linalg.eigvals(jacobian(model, p.q * np.eye(K), np.zeros((K, M)))).real)
    expected = np.sort([p.trace] + [p.shape] * (K * (K + 1) // 2 - 1) + [p.escape] * (K * M))
    np.testing.assert_allclose(found, expected, atol=1e-8)  # finite differences of a cubic
    assert p.shape < 0 < p.escape and p.trace < 0
    if gradient_flow:  # [B] (9)-(12) at t = eta_paper alpha, omega_Q with its sign corrected
        t = eta / 2
        assert p.q == K / (K + 2)
        assert p.trace == pytest.approx(-8 / K * t) and p.escape == pytest.approx(8 / (K * M) * t)
        assert p.shape == pytest.approx(-16 / (K * (K + 2)) * t)


def test_finite_eta_plateau_golden_numbers():
    for eta, q, rate in [(0.1, 0.6454092488061, 0.0787979447), (0.3, 0.7680749452886, 0.1546167031)]:
        p = quadratic.plateau(3, 3, eta=quadratic.eta_from_paper(eta))
        assert p.q == pytest.approx(q, abs=1e-12) and p.escape == pytest.approx(rate, abs=1e-10)
        model = ov.quadratic_network(3, 3, eta=2 * eta)
        start = ov.State.from_overlaps(model, Q=np.eye(3), R=1e-14 * np.eye(3), T=np.eye(3))
        traj = ov.solve(model, start, [80.0, 85.0], rtol=1e-11, atol=1e-27)
        assert traj.Q[0, 0, 0] == pytest.approx(q, abs=1e-7)  # what is left of the transient
        assert np.log(traj.R[1, 0, 0] / traj.R[0, 0, 0]) / 5 == pytest.approx(rate, abs=1e-7)


# escape ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient_flow", [True, False])
@pytest.mark.parametrize("K, M, q0", [(3, 3, 1.0), (6, 3, 0.5), (2, 1, 1.0)])
def test_escape_amplitude(K, M, q0, gradient_flow):
    eta = 0.5 * quadratic.eta_solution(K, M)
    model = ov.quadratic_network(K, M, eta=eta, gradient_flow=gradient_flow)
    p = quadratic.plateau(K, M, eta=eta, gradient_flow=gradient_flow)
    start = ov.State.from_overlaps(model, Q=q0 * np.eye(K), R=1e-15 * np.eye(K, M), T=np.eye(M))
    alpha = 18 / -p.trace  # the norm has relaxed to exp(-18) = 1.5e-8
    traj = ov.solve(model, start, [alpha], rtol=1e-12, atol=1e-27)
    measured = traj.R[0, 0, 0] / 1e-15 * np.exp(-p.escape * alpha)
    assert quadratic.escape_amplitude(K, M, eta=eta, q0=q0, gradient_flow=gradient_flow) == pytest.approx(
        measured, rel=1e-6
    )


def test_amplitude_follows_the_norm_in_gradient_flow():
    """R(t) = R(0) sqrt(q(t)/q(0)) exp(8 t/(K M)) at all times, with t = eta alpha / 2."""
    model = ov.quadratic_network(3, 2, eta=0.2, gradient_flow=True)
    start = ov.State.from_overlaps(model, Q=np.eye(3), R=1e-7 * np.eye(3, 2), T=np.eye(2))
    traj = ov.solve(model, start, np.linspace(0, 20, 9), rtol=1e-12, atol=1e-20)
    law = 1e-7 * np.sqrt(traj.Q[:, 0, 0]) * np.exp(8 / 6 * 0.1 * traj.alpha)
    np.testing.assert_allclose(traj.R[:, 0, 0], law, rtol=5e-10)


@pytest.mark.parametrize("gradient_flow", [True, False])
@few("q0", [None, 1.0], quick=1)
def test_escape_law_averaged_over_starts(gradient_flow, q0):
    """[B] (13) from the plateau, with the factor q/q0 from Q = q0: mean over 20 starts with sum R^2 at its mean."""
    K, M, eta, eps = 3, 2, 0.3, 1e-4
    model = ov.quadratic_network(K, M, eta=eta, gradient_flow=gradient_flow)
    p = quadratic.plateau(K, M, eta=eta, gradient_flow=gradient_flow)
    alpha = np.array([0.9, 1.0]) * np.log(1e-3 / eps**2) / (2 * p.escape)  # gain eps^2 exp() = 1e-3
    rng, change = np.random.default_rng(0), 0
    for _ in range(20):
        R = rng.standard_normal((K, M))
        R *= eps * np.sqrt(R.size / np.sum(R**2))  # eps_g depends on R(0) through sum R^2 only, at this order
        start = ov.State.from_overlaps(model, Q=(q0 or p.q) * np.eye(K), R=R, T=np.eye(M))
        change = change + (ov.solve(model, start, alpha, rtol=1e-11, atol=1e-16).eps_g - p.eps_g) / 20
    law = quadratic.escape_law(alpha, K, M, eta=eta, eps=eps, q0=q0, gradient_flow=gradient_flow) - p.eps_g
    np.testing.assert_allclose(change, law, rtol=1e-2)  # next order: R^2 ~ 1e-3 relative, times a few
    if gradient_flow and q0 is None:
        t = eta / 2 * alpha
        printed = -4 / (K * M) * K * M * eps**2 * np.exp(16 * t / (K * M)) / 2
        np.testing.assert_allclose(law, printed, rtol=1e-7)  # a difference of numbers 1e3 larger


# learning rates -------------------------------------------------------------------------------------------------------

TABLE = [  # K, M, eta_plat, eta_sol, eta_opt, escape rate, in the paper's eta
    (1, 1, 0.0900949025, 0.0833333333, 0.07618446353, 0.4142135624),
    (2, 1, 0.2052130962, 0.1666666667, 0.1725464468, 0.4638501094),
    (3, 3, 0.4623863542, 0.45, 0.2946152423, 0.1547005384),
    (6, 3, 1.1359883745, 0.9, 0.7226341086, 0.1875421720),
    (10, 3, 2.1688587278, 1.5, 1.3778407172, 0.2126781252),
    (20, 3, 5.0, 3.0, 3.1712244069, 0.2422599875),
]


@pytest.mark.parametrize("K, M, eta_plat, eta_sol, eta_opt, rate", TABLE)
def test_learning_rate_table(K, M, eta_plat, eta_sol, eta_opt, rate):
    convert = quadratic.eta_from_paper
    assert quadratic.eta_plateau(K, M) == pytest.approx(convert(eta_plat), abs=3e-10)
    assert quadratic.eta_solution(K, M) == pytest.approx(convert(eta_sol), abs=3e-10)
    assert quadratic.eta_escape(K, M) == pytest.approx(convert(eta_opt), abs=3e-10)
    assert quadratic.plateau(K, M, eta=quadratic.eta_escape(K, M)).escape == pytest.approx(rate, abs=1e-10)


@pytest.mark.parametrize("K, M, noise", [(3, 3, 0.0), (6, 3, 0.4), (1, 2, 1.0)])
def test_escape_rate_is_largest_at_eta_escape(K, M, noise):
    best, limit = quadratic.eta_escape(K, M, noise=noise), quadratic.eta_plateau(K, M, noise=noise)
    rates = [quadratic.plateau(K, M, eta=e, noise=noise).escape for e in np.linspace(0.01, 1, 400) * limit]
    top = quadratic.plateau(K, M, eta=best, noise=noise).escape
    assert 0 < top - max(rates) < 1e-3 * top  # above every point of the grid, and close to its maximum
    for step in (0.999, 1.001):
        assert quadratic.plateau(K, M, eta=step * best, noise=noise).escape < top


def test_escape_optimum_of_wide_students():
    """K -> infinity: c2 = 1, w = 1/4 and eta_paper / K -> 1/(4 sqrt(c0))."""
    assert quadratic.eta_escape(10**7, 3) / 2e7 == pytest.approx(1 / (4 * np.sqrt(5 / 3)), rel=1e-6)


@pytest.mark.parametrize("K, M", [(1, 1), (2, 1), (3, 3), (6, 3)])
def test_solution_stability_limit(K, M):
    """Largest moving eigenvalue of the Jacobian at zero error crosses 0 at eta_solution, with the slope claimed."""
    rng = np.random.default_rng(0)
    Q, R = quadratic.closest_solution(rng.standard_normal((K, M)))
    for ratio in (0.2, 0.9, 1.0, 1.1):
        eta = ratio * quadratic.eta_solution(K, M)
        found = np.linalg.eigvals(jacobian(ov.quadratic_network(K, M, eta=eta), Q, R)).real
        expected = quadratic.solution_rate(K, M, eta=eta)
        assert np.min(np.abs(found - expected)) < 1e-7  # finite differences
        assert np.max(found) < max(expected, 0.0) + 1e-5  # others decay or are flat (square roots of rounding)


@pytest.mark.parametrize(
    "K, M, alpha", [pytest.param(20, 3, 1000.0, marks=pytest.mark.slow), (7, 2, 500.0), (3, 3, 150.0)]
)
def test_learning_at_eta_optimal_ends(K, M, alpha):
    """Where eta_escape is the larger: the least error at late times, far below that of the marginal eta_solution."""
    best, limit = quadratic.eta_optimal(K, M), quadratic.eta_solution(K, M)
    assert best == quadratic.eta_descent(K, M) < quadratic.eta_escape(K, M)
    R = 0.01 * np.random.default_rng(2).standard_normal((K, M))
    errors = []
    for eta in (0.8 * best, best, 1.2 * best, limit):
        model = ov.quadratic_network(K, M, eta=eta)
        start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
        errors.append(ov.solve(model, start, [alpha]).eps_g[0])
    assert errors[1] < min(errors[0], errors[2]) and errors[1] < 0.01 * errors[3]


@few("K, M", [(3, 3), (6, 3)], quick=1)
def test_learning_at_eta_optimal_is_nearly_the_fastest(K, M):
    """Time to eps_g = 1e-3 from overlaps of 0.01: within 5 % of the shortest of a scan around it."""
    best, times = quadratic.eta_optimal(K, M), []
    R = 0.01 * np.random.default_rng(2).standard_normal((K, M))
    for factor in (1.0, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3):
        model = ov.quadratic_network(K, M, eta=factor * best)
        start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
        times.append(ov.solve(model, start, (0.0, 1e3), stop=1e-3).alpha[-1])
    assert min(times) <= times[0] < 1.05 * min(times)


def test_eta_optimal_is_that_of_the_escape_where_the_end_is_faster():
    for K, M, noise in ((11, 10, 0.0), (3, 3, 1.0)):  # many teachers, much noise
        assert quadratic.eta_escape(K, M, noise=noise) < 0.9 * quadratic.eta_descent(K, M)
        assert quadratic.eta_optimal(K, M, noise=noise) == quadratic.eta_escape(K, M, noise=noise)


def test_stability_limit_agrees_with_the_general_linearisation():
    model = ov.quadratic_network(3, 3, eta=0.1)
    Q, R = quadratic.closest_solution(np.eye(3))
    state = ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(3))
    assert ov.critical_eta(model, state) == pytest.approx(quadratic.eta_solution(3, 3), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("K, M", [(1, 1), (2, 1), (3, 3), (6, 3)])
def test_divergence_threshold_is_eta_solution(K, M):
    R = 0.01 * np.random.default_rng(2).standard_normal((K, M))
    reached = []
    for factor in (0.97, 1.03):
        model = ov.quadratic_network(K, M, eta=factor * quadratic.eta_solution(K, M))
        start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *a, **k: None)  # a divergence is expected above the limit
            traj = ov.solve(model, start, (0.0, 1500.0), stop=5e-4)
        reached.append(traj.success and traj.eps_g[-1] < 5.1e-4)
    assert reached == [True, False]


# end of learning ------------------------------------------------------------------------------------------------------


def test_exponential_end_at_equal_widths():
    model = ov.quadratic_network(2, 2, eta=0.2)
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.4, 0.1], [-0.1, 0.3]], T=np.eye(2))
    traj = ov.solve(model, start, [80.0, 100.0], rtol=1e-12, atol=1e-18)
    rate = np.log(traj.eps_g[1] / traj.eps_g[0]) / 20
    assert rate == pytest.approx(quadratic.solution_rate(2, 2, eta=0.2), rel=2e-3)  # faster modes at alpha = 80


@pytest.mark.slow
@pytest.mark.parametrize("paper_eta", [None, 0.1, 0.5])
def test_algebraic_tail(paper_eta):
    """K = 6, M = 3: risk t^2 / const -> 1, with t = eta_paper alpha; 1.080, 1.016, 1.0034, 1.0009 in gradient flow."""
    t = np.array([200.0, 1000.0, 5000.0, 20000.0])
    flow = paper_eta is None
    eta = quadratic.eta_from_paper(0.1 if flow else paper_eta)
    model = ov.quadratic_network(6, 3, eta=eta, gradient_flow=flow)
    R = 0.1 * np.random.default_rng(0).standard_normal((6, 3))
    start = ov.State.from_overlaps(model, Q=np.eye(6), R=R, T=np.eye(3))
    alpha = 2 * t / eta
    traj = ov.solve(model, start, alpha, rtol=1e-10, atol=1e-14)
    ratio = traj.eps_g / quadratic.final_descent(alpha, 6, 3, eta=eta, gradient_flow=flow)
    assert traj.success and np.all(np.diff(np.abs(ratio - 1)) < 0)
    assert abs(ratio[-1] - 1) < 2e-3 and abs(ratio[-2] - 1) < 6e-3
    if flow:
        # corrections are of relative order 1/t: 16/t in the table, from another start
        np.testing.assert_allclose(ratio - 1, [0.080, 0.016, 0.0034, 0.0009], rtol=0.25)


@pytest.mark.parametrize("K, M, eta, tolerance", [(3, 3, 0.4, 1e-6), (6, 3, 0.2, 1e-3), (5, 2, 0.6, 0.03)])
def test_label_noise_leaves_a_floor(K, M, eta, tolerance):
    """The integrated equations, at rest; for K > M corrections are of the order of the floor itself."""
    model = ov.quadratic_network(K, M, eta=eta, noise=0.3)
    R = 0.1 * np.random.default_rng(0).standard_normal((K, M))
    start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
    alpha = np.array([500.0, 1000.0, 5000.0])
    traj = ov.solve(model, start, alpha)
    assert traj.eps_g[-1] == pytest.approx(quadratic.noise_floor(K, M, eta=eta, noise=0.3), rel=tolerance)
    if K > M:  # on the way; corrections 1/(eta alpha)
        law = quadratic.final_descent(alpha, K, M, eta=eta, noise=0.3)
        np.testing.assert_allclose(traj.eps_g, law, rtol=tolerance + 1 / (eta * alpha[0]))
        assert quadratic.final_descent(1e9, K, M, eta=eta, noise=0.3, gradient_flow=True) < 1e-12


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: quadratic.plateau(3, 3, eta=1.0), "above eta_plateau = 0.92"),
        (lambda: quadratic.plateau(0, 3, eta=0.1), "K = 0; expected an integer >= 1"),
        (lambda: quadratic.plateau(3, 3, eta=-0.1), "eta = -0.1; expected a finite number > 0"),
        (lambda: quadratic.escape_amplitude(3, 3, eta=0.8, q0=5.0), "beyond the unstable norm"),
        (lambda: quadratic.eta_solution(2, 3), "K = 2 < M = 3: no zero-error solution"),
        (lambda: quadratic.eta_optimal(2, 3), "no zero-error solution"),
        (lambda: quadratic.solution_rate(1, 2, eta=0.1), "no zero-error solution"),
        (lambda: quadratic.final_descent(1.0, 2, 3, eta=0.1), "no zero-error solution"),
        (lambda: quadratic.final_descent(1.0, 3, 3, eta=0.1), "ends exponentially"),
        (lambda: quadratic.final_descent(1.0, 6, 3, eta=1.9), "expected less than eta_solution = 1.8"),
        (lambda: quadratic.eta_descent(2, 3), "no zero-error solution"),
        (lambda: quadratic.noise_floor(2, 3, eta=0.1, noise=0.1), "no zero-error solution"),
        (lambda: quadratic.noise_floor(3, 3, eta=0.9, noise=0.1), "expected less than eta_solution = 0.9"),
        (lambda: quadratic.noise_floor(3, 3, eta=0.1, noise=-0.1), "noise = -0.1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
