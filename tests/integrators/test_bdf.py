"""The structured BDF: against dense algebra, exact solutions and DOP853."""

import dataclasses

import numpy as np
import pytest
from helpers import few
from scipy.integrate import BDF
from scipy.optimize import brentq

import overlaps as ov
from overlaps.flow._flow import flow
from overlaps.flow.jacobian import Jacobian
from overlaps.flow.system import System
from overlaps.integrators import methods
from overlaps.integrators.bdf import StructuredBDF

ACTIVATIONS = {"erf": ov.erf, "linear": ov.linear, "quadratic": ov.quadratic, "relu": ov.relu}
each_activation = pytest.mark.parametrize("name", ACTIVATIONS)


def random_setting(rng, name, *, K, M, L, both_layers, eta=None):
    """Model with every term of the flow, and a random start that is not small."""
    if eta is None:
        eta = rng.uniform(0.1, 0.5) * {"erf": 1, "linear": 1 / K, "relu": 1 / K, "quadratic": 0.2 / K}[name]
    model = ov.committee_machine(
        K,
        M,
        activation=ACTIVATIONS[name],
        spectrum=ov.power_law(beta=rng.uniform(0.3, 1.2), L=L),
        v=rng.uniform(0.5, 1.5, K),
        eta=eta,
        eta_v=eta if both_layers else 0.0,
        noise=rng.choice([0.0, 0.3]),
        weight_decay=(rng.choice([0.0, 0.1]), rng.choice([0.0, 0.05])),
        batch_size=int(rng.integers(1, 4)),
    )
    return model, model.random_start(N=400 * L, rng=rng, student_scale=0.3)


def distance(traj, reference):
    """Largest error of Q, R, v at all output times, relative to the largest of them where that exceeds one."""
    pairs = [(traj.Q, reference.Q), (traj.R, reference.R), (traj.v, reference.v)]
    return max(np.abs(x - y).max() for x, y in pairs) / max(1.0, *(np.abs(y).max() for _, y in pairs))


# the Newton solve -----------------------------------------------------------------------------------------------------


def dense_jacobian(system, y):
    """J assembled column by column from the right-hand side's own kernel, which is linear in (y, tau) and (A, B, C)."""
    system.close(y)
    L, K, M = system.shape
    s, p, tau = system.s, system.p, system.source
    trains_v, rest = system.model.trains_v, (system.decay, system.decay_v, system.second_order)
    dA, dB, dC, ddv = system.derivatives(exact=False)
    J = np.empty((y.size, y.size))
    zero, none = np.zeros((K, K)), np.zeros(K)
    for i, unit in enumerate(np.eye(y.size)):
        frozen, response = np.empty_like(y), np.empty_like(y)
        flow(unit, s, p, 0 * tau, system.A, system.B, zero, none, *rest, trains_v, frozen, 0.0)
        q, r, v = system.unpack(unit)
        g = np.concatenate(
            [np.tensordot(s, q, axes=1)[system.packing.upper], r.sum(axis=0).ravel(), v if trains_v else []]
        )
        change = [np.ascontiguousarray(np.tensordot(g, x, axes=1)) for x in (dA, dB, dC, ddv)]
        flow(y, s, p, tau, *change, 0.0, 0.0, system.second_order, trains_v, response, 0.0)
        J[:, i] = frozen + response
    return J


@each_activation
@pytest.mark.parametrize("both_layers", [False, True])
@few(("K", "M", "L"), [(1, 1, 1), (2, 2, 2), (3, 2, 6), (2, 3, 4), (4, 1, 3)], quick=3)
def test_structured_solve_is_the_dense_solve(name, both_layers, K, M, L, rng):
    for c in (1e-3, 0.3, 30.0):
        model, start = random_setting(rng, name, K=K, M=M, L=L, both_layers=both_layers)
        system = System(model, start)
        y = system.pack(start)
        b = rng.standard_normal(y.size)
        x = (1.0 - np.float64(c) * Jacobian(system, y, exact=False)).solve(b)
        matrix = np.eye(y.size) - c * dense_jacobian(system, y)
        # rounding, times the condition number of order 100 of matrices at c = 30
        np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=0, atol=1e-10 * np.abs(x).max())


@each_activation
@pytest.mark.parametrize("c", [0.3, 30.0])
def test_structured_solve_knows_the_sizes_of_the_blocks(name, c, rng):
    """Unequal p_l, and a block without coordinates: C enters with s_l p_l, in the Newton matrix as in the flow."""
    model = ov.committee_machine(
        3,
        2,
        activation=ACTIVATIONS[name],
        spectrum=ov.Spectrum([2.0, 1.2, 0.7, 0.3], [0.5, 0.0, 0.375, 0.125]),
        v=[1.0, 0.6, -0.4],
        eta=0.1,
        eta_v=0.05,
    )
    start = model.random_start(N=80, rng=rng, student_scale=0.3)
    system = System(model, start)
    y = system.pack(start)
    b = rng.standard_normal(y.size)
    x = (1.0 - np.float64(c) * Jacobian(system, y)).solve(b)
    matrix = np.eye(y.size) - c * dense_jacobian(system, y)
    # rounding, times the condition number of order 100 of matrices at c = 30
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=0, atol=1e-10 * np.abs(x).max())


@each_activation
def test_dense_jacobian_is_the_derivative_of_the_flow(name, rng):
    model, start = random_setting(rng, name, K=3, M=2, L=3, both_layers=True)
    for case in (model, dataclasses.replace(model, gradient_flow=True)):
        system = System(case, start)
        y = system.pack(start)
        direction = rng.standard_normal(y.size) * np.abs(y)

        def central(h, system=system, y=y, direction=direction):
            return (system.rhs(0.0, y + h * direction) - system.rhs(0.0, y - h * direction)) / (2 * h)

        difference = (4 * central(1e-4) - central(2e-4)) / 3
        # fourth order: (1e-4)^4 times higher derivatives, and rounding 1e-16 / 1e-4 of velocities of order one
        scale = np.abs(difference).max()
        np.testing.assert_allclose(dense_jacobian(system, y) @ direction, difference, rtol=0, atol=1e-9 * scale)


def test_differences_serve_where_there_are_no_derivatives(rng):
    """The differences taken for numeric activations, tried on one with derivatives in closed form."""
    model, start = random_setting(rng, "erf", K=2, M=2, L=3, both_layers=True)
    numeric = ov.Activation.from_function(ov.erf.g, ov.erf.dg)
    exact, approximate = (System(m, start) for m in (model, dataclasses.replace(model, activation=numeric)))
    assert approximate.model.activation.code != exact.model.activation.code
    for system in (exact, approximate):
        system.close(system.pack(start))
    for x, y in zip(exact.derivatives(exact=False), approximate.derivatives(exact=False), strict=True):
        # one-sided differences with a step of 1e-4, of functions known to 1e-8
        np.testing.assert_allclose(y, x, atol=2e-3 * max(np.abs(x).max(), 1e-3))


def coplanar(seed=15):
    """Three relu students and three quadratic teachers in one plane: any three fields have a singular covariance."""
    rng = np.random.default_rng(seed)
    model = ov.committee_machine(3, 3, activation=ov.relu, teacher_activation=ov.quadratic, eta=0.3)
    W, W_star = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    return model, ov.State.from_weights(model, W=W, W_star=W_star)


def test_derivatives_that_diverge_are_those_of_a_nearby_state():
    """At singular overlaps the closure of relu units is Hoelder-1/2 only: no nan reaches Newton's iteration."""
    for seed in range(20):
        system = System(*coplanar(seed))
        system.close(system.pack(system.start))
        assert all(np.all(np.isfinite(x)) for x in system.derivatives(exact=False))


@pytest.mark.slow
def test_singular_overlaps_are_integrated_as_accurately():
    model, start = coplanar()
    alpha = [0.5, 2.0, 10.0]
    reference = ov.solve(model, start, alpha, method="DOP853", rtol=1e-12)
    traj = ov.solve(model, start, alpha, method="structured")
    assert traj.success and distance(traj, reference) < 1e-8  # rtol; 6e-10 at most in 20 draws


def test_a_newton_matrix_of_nan_is_no_convergence():
    """A correction of nan is neither below nor above what is negligible: it must not count as 0, which converges."""
    model, start, _ = linear_network(3, eta=0.5)
    system = System(model, start)
    solver = StructuredBDF(system.rhs, 0.0, system.pack(start), 1.0)
    correction = solver._correction(1.0 - np.float64(np.nan) * solver.jac(0.0, solver.y), np.ones(solver.n))
    assert np.all(np.isnan(correction))


def test_solver_refuses_other_equations():
    with pytest.raises(ValueError, match="flow of the overlaps"):
        StructuredBDF(lambda t, y: -y, 0.0, np.ones(3), 1.0)


# trajectories ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 20))])
def test_bdf_agrees_with_dop853_on_random_settings(seed):
    rng = np.random.default_rng([7, seed])
    K, M, L = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 13))
    name = list(ACTIVATIONS)[seed % 4]
    model, start = random_setting(rng, name, K=K, M=M, L=L, both_layers=seed % 3 == 0)
    alpha = [1.0, 10.0, 50.0, 200.0]
    reference = ov.solve(model, start, alpha, method="DOP853", rtol=1e-12, atol=1e-15)
    assert reference.success
    for rtol in (1e-5, 1e-8):
        traj = ov.solve(model, start, alpha, method="structured", rtol=rtol)
        assert traj.success and traj.method == "StructuredBDF"
        assert distance(traj, reference) < rtol


@pytest.mark.slow
@pytest.mark.parametrize("L, seed", [(1, 0), (8, 3), (16, 2)])
def test_eps_g_keeps_rtol_as_it_falls(L, seed):
    """Down to 1e-9, a small difference of overlaps; the reference follows the differences of students and teachers."""
    model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=L))
    start = model.random_start(N=100 * L, rng=seed)
    alpha = np.geomspace(10, 6000, 12)
    exact = ov.solve(model, start, alpha, method="DOP853", rtol=1e-9, late=True).eps_g  # 1e-12: 7e-10 less or more
    traj = ov.solve(model, start, alpha, method="structured", rtol=1e-6)
    seen = exact > 5e-10
    assert exact[seen][-1] < 1e-6
    # 3 rtol, as behind a plateau; with the same tolerance throughout it would be 100 to 1000 rtol, 6e-14 and more at
    # the last record. Overlaps of order one round to 1e-16, and some thousand steps leave 1e-15 to 4e-15 of it in
    # eps_g, by the order of their sums
    np.testing.assert_allclose(traj.eps_g[seen], exact[seen], rtol=3e-6, atol=5e-15)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def late_linear_unit(beta, L):
    """(Solution of a linear unit from zero overlap at the times at which eps_g is 1e-4, 1e-6, 1e-8, exact eps_g)."""
    spectrum = ov.power_law(beta=beta, L=L)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=spectrum)
    p = spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=0 * p, r=0 * p, t=p)
    mu, c = ov.theory.linear.modes(spectrum, 0.5)

    def exact(log_alpha):
        return float(c @ np.exp(-mu * np.exp(log_alpha))) / 2

    times = [brentq(lambda x, level=level: exact(x) - level, -9.0, 40.0, rtol=1e-14) for level in (1e-4, 1e-6, 1e-8)]
    return ov.solve(model, start, np.exp(times), method="structured"), np.array([exact(x) for x in times])


@pytest.mark.parametrize(
    ("L", "beta"), [(16, 0.1), (256, 0.1), (256, 2.0), *(slow(L, b) for L in (16, 256, 1024) for b in (0.1, 0.5, 2.0))]
)
def test_linear_units_keep_rtol_at_any_number_of_eigenvalues(L, beta, monkeypatch):
    """eps_g = (1/2) sum_l s_l m_l adds L errors: each block has its share of atol. Against the secular solution."""
    traj, exact = late_linear_unit(beta, L)
    error = np.abs(traj.eps_g - exact)
    # rtol 1e-8 in the overlaps, of which eps_g is a difference: 3.4e-8 at most, at L = 16
    assert np.all(error[:2] < 6e-8 * exact[:2])
    assert error[2] < 1e-14  # at 1e-8, where overlaps of order one round to 1e-16: 5e-15 at most
    assert np.all(traj.eps_floor > 0.7 * error)
    monkeypatch.setattr(System, "polynomial", False)  # one tolerance for all blocks
    before, _ = late_linear_unit(beta, L)
    assert traj.nfev < 1.5 * before.nfev
    if beta < 1:  # where the eigenvalues are much alike, the errors of the blocks add up
        assert np.max(np.abs(before.eps_g - exact) / error) > 3


@pytest.mark.parametrize("name, L, beta", [("erf", 256, 0.1), slow("erf", 256, 2.0), slow("relu", 64, 1.0)])
def test_erf_and_relu_keep_one_tolerance_and_come_to_the_end(name, L, beta, monkeypatch):
    """At the tightest tolerance: their errors are rounding, which shares do not lower; they would only cost."""
    model = ov.committee_machine(
        2, 2, activation=getattr(ov, name), eta=0.2, normalised=True, spectrum=ov.power_law(beta=beta, L=L)
    )
    start = model.random_start(N=100 * L, rng=1, student_scale=0.1, teacher="ideal")
    alpha = np.geomspace(1, 1e4, 9)
    traj = ov.solve(model, start, alpha, method="structured", rtol=1e-11)
    assert traj.success and np.all(System(model, start).tolerance_fractions == 1)
    monkeypatch.setattr(System, "polynomial", True)
    shared = ov.solve(model, start, alpha, method="structured", rtol=1e-11)
    assert shared.nfev > 1.2 * traj.nfev
    seen = traj.eps_g > 1e-9  # where rounding is small: the same solution
    np.testing.assert_allclose(shared.eps_g[seen], traj.eps_g[seen], rtol=1e-4)


def test_blocks_without_speed_or_coordinates_have_shares():
    """s_l = 0 never moves, p_l = 0 holds nothing: every share is a positive number all the same."""
    spectrum = ov.Spectrum([2.0, 1.0, 0.0, 0.5], [0.3, 0.3, 0.4, 0.0])
    model = ov.committee_machine(2, 1, activation=ov.linear, eta=0.2, eta_v=0.1, spectrum=spectrum)
    system = System(model, model.random_start(N=100, rng=1))
    assert (
        system.tolerance_fractions.shape == (system.packing.size,)
        and np.all(system.tolerance_fractions > 0)
        and np.all(system.tolerance_fractions < 2)
    )
    traj = ov.solve(model, system.start, [1.0, 30.0], method="structured")
    reference = ov.solve(model, system.start, [1.0, 30.0], method="DOP853", rtol=1e-12)
    assert distance(traj, reference) < 1e-8  # rtol


@pytest.mark.slow
@pytest.mark.parametrize("L, beta", [(16, 0.1), (64, 0.5)])
def test_quadratic_units_gain_by_shares(L, beta, monkeypatch):
    """The reference follows the differences of students and teachers, which lose nothing."""
    spectrum = ov.power_law(beta=beta, L=L)
    model = ov.committee_machine(1, 1, activation=ov.quadratic, eta=0.1, spectrum=spectrum)
    start = model.random_start(N=100 * L, rng=1, teacher="ideal", student_scale=0.5)
    alpha = np.geomspace(1, 30 / spectrum.s[-1], 12)
    exact = ov.solve(model, start, alpha, method="structured", rtol=1e-11, late=True).eps_g
    seen = exact > 1e-7
    assert 3 < seen.sum() < len(alpha)  # the run ends far below

    def error():
        traj = ov.solve(model, start, alpha, method="structured")
        return np.max(np.abs(traj.eps_g / exact - 1)[seen])

    shared = error()
    assert ov.solve(model, start, alpha, method="structured", rtol=1e-11).success
    monkeypatch.setattr(System, "polynomial", False)
    # at most 100 rtol at 1e-7, which multiplies by 1e7 what it is a difference of; 5 to 7 times less than before
    assert shared < 1e-6 and error() > 3 * shared


def test_stiff_problem_to_the_requested_tolerance():
    """L = 128: output times between the steps, and eps_g, which amplifies errors by 1 / eps_g = 10^3."""
    model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=128))
    start = model.random_start(N=128000, rng=1, student_scale=0.1)
    alpha = np.geomspace(1, 1000, 300)
    reference = ov.solve(model, start, alpha[::50], method="DOP853", rtol=1e-12, atol=1e-15)
    for rtol in (1e-5, 1e-8):
        traj = ov.solve(model, start, alpha, method="structured", rtol=rtol)
        np.testing.assert_allclose(traj.Q[::50], reference.Q, atol=rtol)
        np.testing.assert_allclose(traj.R[::50], reference.R, atol=rtol)
        # the errors of Q and R along the slow directions largely compensate in eps_g; DOP853 itself is 1e-9 off
        np.testing.assert_allclose(traj.eps_g[::50], reference.eps_g, rtol=2 * rtol)
        np.testing.assert_array_equal(traj.q, traj.q.swapaxes(2, 3))
        joint = np.concatenate(
            [
                np.concatenate([traj.q, traj.r], axis=3),
                np.concatenate([traj.r.swapaxes(2, 3), np.broadcast_to(traj.tau, traj.r.shape)], axis=3),
            ],
            axis=2,
        )
        # covariances of real weights stay so, block by block; a block is of size 1/128, tau of size s^2/128
        assert np.min(np.linalg.eigvalsh(joint)[..., 0] / np.trace(joint, axis1=2, axis2=3)) > -10 * rtol


def linear_network(L, eta, noise=0.0):
    """Linear model, its start, and the exact eps_g(alpha) from the symmetrised generator of m_l = |P_l(w - w*)|^2/N.

    dm_l = -2 eta s_l m_l + eta^2 s_l p_l (sum_k s_k m_k + noise^2): with m_l = sqrt(p_l) y_l a symmetric matrix.
    """
    spectrum = ov.power_law(beta=1.0, L=L)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=eta, noise=noise, spectrum=spectrum)
    start = model.random_start(N=100 * L, rng=3)
    q, r, t = (x[:, 0, 0] for x in start.plain)
    s, p = spectrum.s, spectrum.p
    z = s * np.sqrt(p)
    rates, vectors = np.linalg.eigh(eta**2 * np.outer(z, z) - 2 * eta * np.diag(s))
    rest = eta / 2 * noise**2 / (1 - eta * spectrum.mean / 2) * p
    modes = vectors.T @ ((q - 2 * r + t - rest) / np.sqrt(p))
    weights = 0.5 * (z @ vectors) * modes
    return model, start, lambda alpha: np.exp(np.outer(alpha, rates)) @ weights + 0.5 * s @ rest


@pytest.mark.parametrize(("L", "end"), [(64, 1e4), pytest.param(512, 1e9, marks=pytest.mark.slow)])
def test_linear_network_at_long_times(L, end):
    model, start, exact = linear_network(L, eta=0.8, noise=0.3)
    alpha = np.geomspace(1e-3, end, 200)
    for rtol in (1e-6, 1e-9):
        traj = ov.solve(model, start, alpha, rtol=rtol)
        assert traj.success and traj.method.startswith("StructuredBDF (auto: ")
        assert traj.nfev < 8000
        # eps_g = (Q - 2 R + T)/2, each to rtol; the exact solution by eigh is good to 1e-12
        np.testing.assert_allclose(traj.eps_g, exact(alpha), rtol=0, atol=2 * rtol)


@pytest.mark.slow
def test_power_law_decay():
    """Small-eta linear learning: eps_g ~ alpha^(-beta / (1 + beta)) in the window of Worschech and Rosenow (2024)."""
    spectrum = ov.power_law(beta=1.0, L=4096)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.05, spectrum=spectrum)
    start = model.random_start(N=10**6 * 4096, rng=3)
    alpha = np.geomspace(10, 3e4, 20) / (2 * model.eta * spectrum.s[0])
    traj = ov.solve(model, start, alpha, method="structured", rtol=1e-7)
    slope = np.polyfit(np.log(alpha), np.log(traj.eps_g), 1)[0]
    # the window ends near 1e7 in these units; at 3e4 eps_g is 5 % below the power law, over 8 e-folds
    assert slope == pytest.approx(-0.5, abs=0.01)


@pytest.mark.slow
def test_erf_network_to_its_end():
    model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=512))
    start = model.random_start(N=512 * 2000, rng=1)
    traj = ov.solve(model, start, np.geomspace(1, 1e9, 100))
    assert traj.success and traj.nfev < 6000
    # realisable: it learns everything and stays there; Q and R, sums over 512 blocks, are rounded to 1e-15 or so
    assert traj.eps_g[-1] < 1e-14
    assert np.all(np.diff(traj.eps_g) < 1e-14)


def test_number_of_steps_does_not_grow_with_the_number_of_eigenvalues():
    steps = []
    for L in (32, 128, 512):
        model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=L))
        start = model.random_start(N=1000 * L, rng=1)
        steps.append(len(ov.solve(model, start, (0.0, 1e4), method="structured", rtol=1e-6)))
    assert max(steps) < 1.5 * min(steps)


def test_output_times_cost_nothing():
    model, start, exact = linear_network(16, eta=0.5)
    few = ov.solve(model, start, [100.0], method="structured")
    many = ov.solve(model, start, np.linspace(0, 100, 2001), method="structured")
    assert many.nfev == few.nfev
    np.testing.assert_array_equal(many.alpha, np.linspace(0, 100, 2001))
    np.testing.assert_allclose(many.eps_g, exact(many.alpha), rtol=0, atol=2e-8)  # 2 rtol, as at the steps


def test_second_order_term_and_newton_iteration_of_scipy_are_kept():
    """Fewer Jacobians than SciPy's BDF needs factorisations, and SciPy's own BDF gives the same solution."""
    model, start, _ = linear_network(6, eta=0.7, noise=0.4)
    system = System(model, start)
    rtol, y = 1e-6, system.pack(start)
    ours = StructuredBDF(system.rhs, 0.0, y, 30.0, rtol=rtol, atol=1e-10)
    theirs = BDF(system.rhs, 0.0, y, 30.0, rtol=ours.rtol, atol=ours.atol)
    for solver in (ours, theirs):
        while solver.status == "running":
            solver.step()
    np.testing.assert_allclose(ours.y, theirs.y, atol=rtol / 10)  # same method; Newton's tolerance differs
    assert ours.nlu < 1.1 * theirs.nlu and ours.njev <= 3


@each_activation
def test_accepted_steps_solve_the_implicit_equation(name, rng):
    """What is left of d = c f(y + d) - psi after a step, solved for once more, is a small part of the tolerance.

    Newton's iteration aims at 0.01 and is judged by its last correction, so a few times that may be left: 0.06 at most
    in 24 runs. A target of 1 would leave 0.3 to 1.3.
    """
    model, start = random_setting(rng, name, K=3, M=2, L=5, both_layers=True)
    system = System(model, start)
    solver = StructuredBDF(system.rhs, 0.0, system.pack(start), 100.0, rtol=1e-3)
    left = []
    while solver.status == "running":
        order, h, D, before = solver.order, solver.h_abs, np.array(solver.D), solver.t
        solver.step()
        if solver.t - before != h:
            continue  # a rejected step: another table of differences was used
        predicted = D[: order + 1].sum(axis=0)
        c, psi = h / solver.alpha[order], solver.gamma[1 : order + 1] @ D[1 : order + 1] / solver.alpha[order]
        residual = c * system.rhs(0.0, solver.y) - psi - (solver.y - predicted)
        error = (1.0 - np.float64(c) * Jacobian(system, solver.y)).solve(residual)
        left.append(np.sqrt(np.mean((error / (np.asarray(solver.atol) + solver.rtol * np.abs(predicted))) ** 2)))
    assert len(left) > 30 and max(left) < 0.1


def test_relu_at_alignment():
    """A student that becomes its teacher: the derivatives diverge there, the integration goes on."""
    model = ov.committee_machine(1, 1, activation=ov.relu, eta=0.3, spectrum=ov.power_law(beta=1.0, L=4))
    start = model.random_start(N=4000, rng=2)
    traj = ov.solve(model, start, [1.0, 10.0, 100.0, 1e4, 1e6], method="structured")
    reference = ov.solve(model, start, [1.0, 10.0, 100.0], method="DOP853", rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(traj.R[:3], reference.R, atol=1e-8)
    assert traj.success and traj.eps_g[-1] < 1e-14


# what "auto" chooses --------------------------------------------------------------------------------------------------


def chosen(model, start, span):
    return methods.choose_method(System(model, start), span, rtol=1e-8)


def test_automethodss_by_cost():
    easy = ov.committee_machine(2, 2, eta=0.2)
    stiff = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=128))
    easy_start, stiff_start = (model.random_start(N=12800, rng=1) for model in (easy, stiff))
    assert chosen(easy, easy_start, 1000.0)[0] == "DOP853"
    assert chosen(easy, easy_start, 1e9)[0] == "structured"
    assert chosen(stiff, stiff_start, 1.0)[0] == "DOP853"
    name, why = chosen(stiff, stiff_start, 1e4)
    assert name == "structured" and "DOP853 would need" in why
    traj = ov.solve(stiff, stiff_start, (0, 1e4), rtol=1e-5)
    assert traj.method == "StructuredBDF" + why
    assert ov.solve(easy, easy_start, (0, 10)).method == "DOP853 (auto: not stiff over this interval)"


def test_estimated_rate_is_the_stability_limit():
    """2 max(s) |A| against the largest eigenvalue of the Jacobian met along the trajectory: within a factor of two."""
    for name in ACTIVATIONS:
        model, start = random_setting(np.random.default_rng(1), name, K=2, M=2, L=8, both_layers=False)
        system = System(model, start)
        rate = methods.fastest_rate(system)
        traj = ov.solve(model, start, [0.0, 1.0, 10.0, 100.0])
        met = max(np.abs(np.linalg.eigvals(dense_jacobian(system, system.pack(state)))).max() for state in traj)
        assert 0.5 < rate / met < 2


def test_auto_falls_back_and_says_why(monkeypatch):
    stiff = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=128))
    start = stiff.random_start(N=12800, rng=1)
    monkeypatch.setattr(methods, "METHOD_OPTIONS", methods.METHOD_OPTIONS._replace(max_derivative_bytes=100.0))
    name, why = chosen(stiff, start, 1e9)
    assert name == "DOP853" and "stiff, but no structured BDF" in why and "GB" in why
    monkeypatch.undo()
    relu = ov.committee_machine(1, 1, activation=ov.relu, eta=0.5)
    aligned = ov.State.from_overlaps(relu, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    assert "aligned" in chosen(relu, aligned, 1e9)[1]
    assert chosen(relu, relu.random_start(N=100, rng=1), 1e9)[0] == "structured"


# stop, at, progress, interruption -------------------------------------------------------------------------------------


def single(**options):
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, **options)
    return model, ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.05]], T=[[1.0]])


def test_stop():
    model, start = single(gradient_flow=True)
    exact = np.log(0.5 * (0.5 - 0.1 + 1) / 1e-3) / (2 * 0.5)  # eps_g = eps_0 exp(-2 eta alpha)
    traj = ov.solve(model, start, (0, 100), stop=1e-3, method="structured")
    assert traj.success and "stop" in traj.message
    assert traj.alpha[-1] == pytest.approx(exact, abs=2e-5)  # 2e3 rtol, because d alpha = d eps_g / eps_g
    assert traj.eps_g[-1] == pytest.approx(1e-3, rel=1e-9)
    grid = ov.solve(model, start, np.arange(0, 50.0), stop=1e-3, method="structured")
    np.testing.assert_array_equal(grid.alpha[:-1], np.arange(7.0))  # also those that share a step with the end
    assert grid.alpha[-1] == pytest.approx(exact, abs=2e-5)


def test_no_record_in_the_last_step_is_lost():
    """Steps are longer than the distance of output times, also the one in which the run stops or is handed over."""
    model, start = single(gradient_flow=True)
    alpha = np.linspace(0.0, 20.0, 2001)
    options = dict(method="structured", rtol=1e-4)
    traj = ov.solve(model, start, alpha, stop=1e-3, **options)
    assert len(ov.solve(model, start, (0.0, 20.0), stop=1e-3, **options)) < len(traj) / 4
    np.testing.assert_array_equal(traj.alpha[:-1], alpha[alpha < traj.alpha[-1]])
    late = ov.solve(model, start, alpha, late=True, **options)
    np.testing.assert_array_equal(late.alpha, alpha)
    # eps_g = (Q - 2 R + T)/2 decays at 2 eta = 1; 2 rtol log(1/x) with x = 1e-4 at the end
    np.testing.assert_allclose(late.eps_g, 0.7 * np.exp(-alpha), rtol=2e-3)


def test_at_and_names():
    model, start, exact = linear_network(4, eta=0.5)
    traj = ov.solve(model, start, [0.0, 2.0, 9.0], method="structured", rtol=1e-6)
    m = traj.at(5.0)
    assert 0.5 * (m.Q - 2 * m.R + m.T)[0, 0] == pytest.approx(exact([5.0])[0], abs=2e-5)
    again = ov.solve(model, start, [0.0, 2.0, 9.0], method=traj.method, rtol=1e-6)
    np.testing.assert_array_equal(again.Q, traj.Q)


def test_interruption_and_progress(capsys):
    model, start = single(noise=0.3)
    options = dict(method="structured", rtol=1e-5)

    def impatient(alpha, state):
        if alpha > 3:
            raise KeyboardInterrupt
        return 1.0

    with pytest.warns(RuntimeWarning, match="interrupted"):
        traj = ov.solve(model, start, np.linspace(0, 10, 101), stop=impatient, **options)
    assert not traj.success and 1 < traj.alpha[-1] <= 3.0
    ov.solve(model, start, np.linspace(0, 10, 11), progress=True, **options)
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize(("activation", "eta"), [(ov.linear, 2.5), (ov.quadratic, 2.0)])
def test_divergence_is_reported(activation, eta):
    model = ov.committee_machine(1, 1, activation=activation, eta=eta)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.05]], T=[[1.0]])
    with pytest.warns(RuntimeWarning, match="stability limit|blow up"):
        traj = ov.solve(model, start, (0, 200), method="structured", rtol=1e-5, every_step=True)
    assert not traj.success and 1 < len(traj) and traj.alpha[-1] < 200
    assert np.all(np.isfinite(traj.Q))


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("eta", [0.22, 0.33, 0.4, 0.47])
def test_a_network_that_has_learned_everything_rests(eta, rtol):
    """At the fixed point all that is left is rounding; steps must grow all the same, and the end be reached."""
    model = ov.committee_machine(2, 2, eta=eta)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
    traj = ov.solve(model, start, (0, 1e6), method="structured", rtol=rtol)
    assert traj.success and traj.nfev < 10_000
    np.testing.assert_allclose(traj.R[-1], np.eye(2), atol=10 * max(rtol, 1e-10))


# steps in compiled code -----------------------------------------------------------------------------------------------


class OneByOne(StructuredBDF):
    """The same steps, made by SciPy's class."""


COMPILED = {
    "second layer, decay": dict(eta_v=0.2, weight_decay=(0.05, 0.02), noise=0.3),
    "relu on erf, gradient flow": dict(activation=ov.relu, teacher_activation=ov.erf, gradient_flow=True),
    "quadratic, batches": dict(activation=ov.quadratic, batch_size=4, eta=0.05),
    "linear, longest step": dict(activation=ov.linear),
}
SCHEDULES = {  # jumps, smooth factors and knots without a jump; a rate that returns from zero
    "second layer, decay": {
        "eta": ov.Schedule.step([0.0, 20.0, 90.0], [1.0, 0.4, 0.7]),
        "noise": ov.Schedule.cosine(200.0, last=0.1),
        "weight_decay": ov.Schedule.warmup(60.0, first=0.2),
    },
    "quadratic, batches": {
        "eta": ov.Schedule.step([0.0, 30.0, 50.0], [1.0, 0.0, 1.5]) * ov.Schedule.polynomial(250.0, last=0.2)
    },
}


@few("alpha", [(0.0, 300.0), np.geomspace(0.01, 300.0, 300)], quick=1, ids=["steps", "times"])
@pytest.mark.parametrize(
    "setting, schedule",
    [(name, None) for name in COMPILED] + [*SCHEDULES.items()],
    ids=[*COMPILED, *("schedule, " + x for x in SCHEDULES)],
)
def test_compiled_steps_are_those_of_scipy(setting, schedule, alpha):
    model = ov.committee_machine(2, 3, spectrum=ov.power_law(beta=1.0, L=6), **{"eta": 0.3} | COMPILED[setting])
    start = model.random_start(N=600, rng=5)
    options = dict(rtol=1e-6, max_step=7.0 if "longest" in setting else np.inf, schedule=schedule)
    expected, found = (ov.solve(model, start, alpha, method=method, **options) for method in (OneByOne, "structured"))
    assert found.success and found.message == expected.message
    # Error estimates are differences of overlaps, 1e-16 of numbers of order one in 1e-9: the factor of a step is known
    # to 1e-7, and the steps carry on what it was; 6e-5 at most after 600 steps.  Other last digits may change a choice
    # of the order late in a run.
    np.testing.assert_allclose(found.alpha[:150], expected.alpha[:150], rtol=1e-3)
    assert found.nfev == pytest.approx(expected.nfev, rel=0.01) and expected.nfev > 500
    if not isinstance(alpha, tuple):
        for name in ("q", "r", "v"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-9)
    if model.activation != ov.linear:  # which learns everything: the account is then rounding over rounding
        # a sum over steps, of which some are others
        assert found.eps_error[-1] == pytest.approx(expected.eps_error[-1], rel=0.05, abs=0)


class _Tired(StructuredBDF):
    """Whose steps vanish wherever it is of fourth order, as where rounding has filled its differences."""

    kernel = None  # steps in Python

    def _step_impl(self):
        return (False, self.TOO_SMALL_STEP) if self.order > 3 else super()._step_impl()


@pytest.mark.slow
def test_a_formula_of_many_steps_whose_step_vanished_begins_anew():
    model = ov.committee_machine(2, 1, activation=ov.relu, eta=0.6, v=[0.7, 1.2], noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.4, 0.1], [0.1, 0.3]], R=[[0.2], [0.05]], T=[[1.3]])
    found, exact = (ov.solve(model, start, [0, 3.7], method=method) for method in (_Tired, "DOP853"))
    assert found.success, found.message
    np.testing.assert_allclose(found.Q[-1], exact.Q[-1], rtol=1e-6)  # rtol 1e-8, and order 3 in place of 5


class _Stuck(StructuredBDF):
    """Whose steps vanish at a time, whatever its order."""

    kernel = None

    def _step_impl(self):
        return (False, self.TOO_SMALL_STEP) if self.t > 0.5 else super()._step_impl()


def test_a_step_that_vanishes_again_at_once_ends_the_run():
    model = ov.committee_machine(1, 1, eta=0.6)
    start = ov.State.from_overlaps(model, Q=[[0.4]], R=[[0.2]], T=[[1.3]])
    with pytest.warns(RuntimeWarning, match="the step size vanished"):
        found = ov.solve(model, start, [0, 0.3, 3.7], method=_Stuck)
    assert not found.success and len(found) == 2


def test_a_first_step_below_the_spacing_of_numbers_is_a_step():
    """At alpha = 1 numbers are 2.2e-16 apart: time would stand still."""
    model = ov.committee_machine(1, 1, eta=0.5)
    start = dataclasses.replace(ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.3]], T=[[1.0]]), alpha=1.0)
    traj = ov.solve(model, start, [1.0, 3.0, 51.0], method="structured", first_step=1e-16)
    known = ov.solve(model, start, [1.0, 3.0, 51.0], method="DOP853")
    assert traj.success
    np.testing.assert_allclose(traj.eps_g, known.eps_g, rtol=1e-6, atol=1e-12)  # structured leaves 5e-14
