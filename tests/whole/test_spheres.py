"""Students of fixed norm: the flow against closed forms and projected SGD, its Jacobian, what is refused."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import overlaps as ov
from overlaps.flow.jacobian import Jacobian
from overlaps.flow.system import System
from overlaps.theory import quadratic

SPECTRUM = ov.Spectrum(s=[2.0, 0.5], p=[1 / 3, 2 / 3])


def one(g, R, **options):
    """K = M = 1 with Q = T = 1 and overlap R."""
    model = ov.committee_machine(1, 1, activation=g, constraint="sphere", **options)
    return model, ov.State.from_overlaps(model, Q=[[1.0]], R=[[R]], T=[[1.0]])


def setting(**options):
    options = dict(spectrum=SPECTRUM, eta=0.8, eta_v=0.3, noise=0.2, batch_size=2) | options
    model = ov.committee_machine(3, 2, v=[1.0, 0.7, -0.4], constraint="sphere", **options)
    return model, model.random_start(N=300, rng=1)


def norms(result):
    return np.einsum("...lkk->...k", result.q)


def test_linear_unit_without_noise_is_a_hyperbolic_tangent():
    """dR/dalpha = eta (1 - R^2) on the unit sphere."""
    model, start = one(ov.linear, 0.2, eta=0.5, gradient_flow=True)
    traj = ov.solve(model, start, np.linspace(0, 5, 6))
    np.testing.assert_allclose(traj.R[:, 0, 0], np.tanh(0.5 * traj.alpha + np.arctanh(0.2)), rtol=0, atol=1e-8)


def test_linear_unit_with_label_noise():
    """E[Delta^2] = 2 (1 - R) + sigma^2 takes eta^2 R / 2 times it from the velocity; equation of one variable."""
    eta, sigma = 0.7, 0.6
    model, start = one(ov.linear, -0.3, eta=eta, noise=sigma)
    traj = ov.solve(model, start, np.linspace(0, 8, 9))
    by_hand = solve_ivp(
        lambda _, R: eta * (1 - R**2) - eta**2 * R * (1 - R + sigma**2 / 2),
        (0, 8), [-0.3], t_eval=traj.alpha, rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(traj.R[:, 0, 0], by_hand.y[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(traj.Q, 1.0, rtol=0, atol=1e-14)


def test_quadratic_unit_is_a_logistic_curve_at_every_learning_rate():
    """With Q = T = 1: mu = -4 eta (1 - R^2)(1 - 6 eta), the only force there is."""
    eta = 0.08
    model, start = one(ov.quadratic, 0.2, eta=eta)
    traj = ov.solve(model, start, np.linspace(0, 15, 7))
    odds = (1 / 0.2**2 - 1) * np.exp(-8 * eta * (1 - 6 * eta) * traj.alpha)
    np.testing.assert_allclose(traj.R[:, 0, 0] ** 2, 1 / (1 + odds), rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["reduced", "direct"])
def test_sgd_with_projections_follows_the_flow(method):
    """Unequal eigenvalues, batches, label noise, a trained second layer; without C the same curve is far away."""
    model, start = setting(eta=2.0)
    alpha, runs, N = [1.0, 2.0, 4.0], 24, 900
    found = ov.simulate(model, N=N, alpha=alpha, rng=3, start=start, runs=runs, method=method)
    np.testing.assert_allclose(norms(found), np.broadcast_to(norms(start), (runs, 3, 3)), rtol=1e-12)

    def gap(m):
        theory = ov.solve(m, start, alpha)
        return max(np.abs(getattr(found, x).mean(0) - getattr(theory, x)).max() for x in ("Q", "R", "v"))

    # fluctuations of order one in units of 1/sqrt(N), averaged over the runs
    bound = 3 / np.sqrt(N * runs)
    assert gap(model) < bound
    assert gap(dataclasses.replace(model, gradient_flow=True)) > 3 * bound
    assert gap(dataclasses.replace(model, constraint=None)) > 3 * bound


def test_single_precision_keeps_norms():
    model, start = setting(spectrum=None)
    start = model.random_start(N=300, rng=1)
    found = ov.simulate(model, N=300, alpha=[2.0], rng=3, start=start, runs=2, method="direct", dtype="float32")
    np.testing.assert_allclose(norms(found), np.broadcast_to(norms(start), (2, 1, 3)), rtol=1e-6)


def test_jacobian_is_the_derivative_of_the_flow():
    model, start = setting()
    system = System(model, start)
    y, h = system.pack(start), 1e-6
    jacobian = Jacobian(system, y)
    J = jacobian.dense()
    rows = [(system.rhs(0.0, y + h * e) - system.rhs(0.0, y - h * e)) / (2 * h) for e in np.eye(y.size)]
    np.testing.assert_allclose(J, np.transpose(rows), rtol=0, atol=1e-8)  # differences: rounding 1e-16 / h
    np.testing.assert_allclose(jacobian.operator() @ y, J @ y, rtol=0, atol=1e-13)
    np.testing.assert_allclose(jacobian.sphere.reads @ J, 0.0, atol=1e-13)  # norms stay


def test_all_ways_of_solving_agree():
    model, start = setting()
    alpha = np.linspace(0, 6, 7)
    eps_g = ov.solve(model, start, alpha).eps_g
    np.testing.assert_allclose(ov.solve(model, start, alpha, method="LSODA").eps_g, eps_g, rtol=1e-6)
    np.testing.assert_array_equal(ov.solve_many([model, model], start, alpha).eps_g[1], eps_g)
    half = ov.solve(model, start, alpha / 0.5, schedule={"eta": ov.Schedule([0, 12], [0.5, 0.5])})
    slower, _ = setting(eta=0.4)
    np.testing.assert_allclose(half.eps_g, ov.solve(slower, start, alpha / 0.5).eps_g, rtol=1e-6)


@pytest.mark.parametrize(("K", "M"), [(3, 3), (2, 3), (5, 2)])
def test_plateau_of_quadratic_students(K, M):
    """Closed rates against the eigenvalues of the flow: escape K M times, shape for overlaps between students."""
    for q, options in ((1.0, {"noise": 0.3}), (0.7, {"gradient_flow": True}), (1.3, {})):
        eta = 0.3
        model = ov.quadratic_network(K, M, eta=eta, constraint="sphere", **options)
        state = ov.State.from_overlaps(model, Q=q * np.eye(K), R=np.zeros((K, M)), T=np.eye(M))
        plateau = quadratic.sphere_plateau(K, M, eta=eta, q=q, **options)
        modes = ov.linearise(model, state)
        assert modes.residual < 1e-14
        expected = [plateau.escape] * (K * M) + [plateau.shape] * (K * (K - 1) // 2) + [0.0] * K
        np.testing.assert_allclose(np.sort(modes.eigenvalues.real), np.sort(expected), rtol=0, atol=1e-12)
        assert ov.closure(model, state.Q, state.R, state.T).eps_g == pytest.approx(plateau.eps_g, rel=1e-12)


def test_fastest_escape():
    for K, M, q, noise in ((3, 3, 1.0, 0.0), (10, 3, 0.8, 0.4)):
        best = quadratic.sphere_eta_escape(K, M, q=q, noise=noise)

        def rate(eta):
            return quadratic.sphere_plateau(K, M, eta=eta, q=q, noise=noise).escape  # noqa: B023

        assert rate(best) == pytest.approx(2 * best / (K * M), rel=1e-12)
        assert rate(best) > max(rate(0.99 * best), rate(1.01 * best)) and abs(rate(2 * best)) < 1e-12


def test_fixed_points_keep_norms():
    """Quadratic students on spheres lose their solution at the same learning rate as free ones."""
    model = ov.quadratic_network(3, 3, eta=0.2, constraint="sphere")
    R = 0.1 * np.random.default_rng(0).standard_normal((3, 3))
    start = ov.State.from_overlaps(model, Q=np.eye(3), R=R, T=np.eye(3))
    point = ov.fixed_point(model, ov.solve(model, start, [60.0])[-1])
    assert point.converged and point.iterations > 0
    np.testing.assert_allclose(np.diag(point.state.Q), 1.0, rtol=0, atol=1e-13)
    assert ov.critical_eta(model, point.state).eta == pytest.approx(quadratic.eta_solution(3, 3), rel=1e-8)


def test_a_file_keeps_the_constraint(tmp_path):
    model, start = setting()
    traj = ov.solve(model, start, [0.0, 1.0])
    traj.save(tmp_path / "a.npz")
    assert ov.load(tmp_path / "a.npz").model.spherical and "sphere" in repr(model)


def refusals():
    model, start = setting()
    linear, at = one(ov.linear, 0.2, eta=0.5)
    isotropic = ov.committee_machine(2, 2, eta=0.5, constraint="sphere")
    begin = isotropic.random_start(N=100, rng=1)
    empty = ov.State.from_overlaps(isotropic, Q=np.diag([1.0, 0.0]), R=np.zeros((2, 2)), T=np.eye(2))
    yield "structured", lambda: ov.solve(model, start, [1.0], method="structured")
    yield "late", lambda: ov.solve(isotropic, begin, [1.0], late=True)
    yield "norms", lambda: ov.solve(isotropic, empty, [1.0])
    yield "constraint", lambda: ov.committee_machine(1, 1, eta=1.0, constraint="ball")
    yield "weight_decay", lambda: ov.committee_machine(1, 1, eta=1.0, constraint="sphere", weight_decay=0.1)
    yield "constraint", lambda: ov.schedule_gradient(linear, at, ov.Schedule([0.0, 1.0], [1.0, 1.0]), 1.0)
    yield "constraint", lambda: ov.theory.linear.reduce(linear, at)
    yield "constraint", lambda: ov.theory.plateau.plateau_state(isotropic, begin)
    yield "constraint", lambda: ov.theory.cayley_hamilton.solve(isotropic, begin, [1.0])


@pytest.mark.parametrize("case", range(9))
def test_what_is_refused_is_refused_by_name(case):
    name, call = list(refusals())[case]
    with pytest.raises(ValueError, match=name):
        call()
