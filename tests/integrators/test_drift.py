"""Teachers that drift: golden numbers, exact limits, all solvers, Jacobian, batches, adjoint."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.flow.jacobian import Jacobian
from overlaps.flow.system import System

BASE = ov.committee_machine(2, 2, eta=1.0, noise=0.3, drift=0.05)
START = ov.State.from_overlaps(BASE, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
RICH = ov.committee_machine(
    3, 2, eta=0.8, eta_v=0.5, noise=0.3, weight_decay=(0.05, 0.1), batch_size=2, v=[1.0, 0.7, 0.4], drift=0.2,
    spectrum=ov.power_law(beta=1.0, L=5),
)  # fmt: skip
BEGIN = RICH.random_start(N=30_000, rng=1)
STEADY = ov.Schedule.constant()


@pytest.mark.parametrize("schedule", [None, STEADY], ids=["plain", "schedule"])
@pytest.mark.parametrize("method", ["auto", "DOP853", "structured", "RK45"])
def test_golden_numbers(method, schedule):
    """Of an independent integration of the same equations (rtol 1e-12)."""
    traj = ov.solve(BASE, START, [12.0, 400.0], method=method, rtol=1e-9, schedule=schedule)
    rtol = 1e-6 if method == "structured" else 1e-7
    np.testing.assert_allclose(traj.eps_g, [0.09229269298, 0.09853465385], rtol=rtol)


@pytest.mark.parametrize("method", ["DOP853", "structured"])
def test_students_that_rest_lose_their_teachers(method):
    """At rate zero q stays, and r falls as e^(-delta alpha): neither a schedule nor gradient flow touches the drift."""
    for model in (RICH, dataclasses.replace(RICH, gradient_flow=True)):
        traj = ov.solve(model, BEGIN, [3.0], schedule=ov.Schedule.constant(0.0), method=method, rtol=1e-8)
        np.testing.assert_allclose(traj.r[0], np.exp(-0.6) * BEGIN.r, rtol=0, atol=1e-8)
        np.testing.assert_allclose(traj.q[0], BEGIN.q, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["structured", "Radau"])
def test_implicit_steps_agree_with_explicit_ones(method):
    exact = ov.solve(RICH, BEGIN, [0.5, 4.0], method="DOP853", rtol=1e-11)
    traj = ov.solve(RICH, BEGIN, [0.5, 4.0], method=method, rtol=1e-9)
    for name in ("q", "r", "v"):  # overlaps of order one
        np.testing.assert_allclose(getattr(traj, name), getattr(exact, name), rtol=0, atol=1e-9)


def test_a_linear_unit_in_a_gradient_flow_against_its_exact_solution():
    """A = -eta and B = eta are constant."""
    model = ov.committee_machine(
        1, 1, activation=ov.linear, eta=0.7, drift=0.3, gradient_flow=True, spectrum=ov.power_law(beta=1.0, L=64)
    )
    start = model.random_start(N=6400, rng=2)
    s, (q, r, t) = model.spectrum.s, (x[:, 0, 0] for x in start.plain)
    alpha, a = 2.0, 0.7 * s
    r_inf = a * t / (a + 0.3)
    moving = r - r_inf
    # q' = -2 a q + 2 a r(alpha) in plain overlaps, by variation of constants
    expected_r = r_inf + moving * np.exp(-(a + 0.3) * alpha)
    expected_q = q * np.exp(-2 * a * alpha) + r_inf * -np.expm1(-2 * a * alpha)
    expected_q += 2 * a * moving * (np.exp(-(a + 0.3) * alpha) - np.exp(-2 * a * alpha)) / (a - 0.3)
    traj = ov.solve(model, start, [alpha], rtol=1e-10)
    np.testing.assert_allclose(traj.r[0, :, 0, 0] / s, expected_r, rtol=0, atol=1e-11)
    np.testing.assert_allclose(traj.q[0, :, 0, 0], expected_q, rtol=0, atol=1e-11)


def test_jacobian_and_newton_solve():
    system = System(RICH, BEGIN)
    y = system.pack(ov.solve(RICH, BEGIN, [1.0])[0])
    jacobian = Jacobian(system, y)
    J, h = jacobian.dense(), 1e-4
    rhs = [[system.rhs(0.0, y + j * h * e).copy() for j in (1, -1, 2, -2)] for e in np.eye(y.size)]
    differences = np.array([(8 * (a - b) - (c - d)) / (12 * h) for a, b, c, d in rhs]).T
    np.testing.assert_allclose(J, differences, rtol=0, atol=1e-9 * np.abs(J).max())  # rounding / h
    still = Jacobian(System(dataclasses.replace(RICH, drift=0.0), BEGIN), y).dense()
    change = np.zeros(y.size)
    change[: BEGIN.r.size] = -0.2
    np.testing.assert_allclose(J - still, np.diag(change), rtol=0, atol=1e-14)
    b = np.sin(np.arange(y.size))
    for c in (0.1, 50.0):
        found = jacobian.factorised(c).solve(b)
        np.testing.assert_allclose(found, np.linalg.solve(np.eye(y.size) - c * J, b), rtol=0, atol=1e-10)


def test_many_at_once():
    models = [dataclasses.replace(BASE, drift=delta) for delta in (0.0, 0.05, 0.2)]
    batch = ov.solve_many(models, START, [2.0, 12.0])
    for i, model in enumerate(models):
        np.testing.assert_array_equal(batch[i].Q, ov.solve(model, START, [2.0, 12.0]).Q)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["final", "mean"])
def test_gradient_by_the_schedule(objective):
    """Central differences of sixth order, and the solution itself."""
    model = dataclasses.replace(RICH, spectrum=ov.power_law(beta=1.0, L=3))
    start = model.random_start(N=30_000, rng=3, student_scale=0.5)
    knots, values = np.array([0.0, 0.7, 2.0]), np.array([1.0, 1.6, 0.4])

    def value(u):
        return ov.schedule_gradient(model, start, ov.Schedule(knots, u), 2.0, objective=objective)[0]

    found, gradient = ov.schedule_gradient(model, start, ov.Schedule(knots, values), 2.0, objective=objective)
    h, terms = 0.01, ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
    differences = [
        sum(c * (value(values + j * h * unit) - value(values - j * h * unit)) for j, c in terms) / h / model.eta
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-9 * np.abs(gradient).max())
    if objective == "final":
        solved = ov.solve(model, start, [2.0], schedule=ov.Schedule(knots, values), rtol=1e-10)
        assert found == pytest.approx(solved.eps_g[0], rel=1e-6)


def test_the_hierarchy_of_moments_drifts_too():
    model = dataclasses.replace(RICH, spectrum=ov.power_law(beta=1.0, L=3), eta_v=0.0, v=[1.0, 0.7, 0.4])
    start = model.random_start(N=30_000, rng=1)
    moments = ov.theory.cayley_hamilton.solve(model, start, [2.0], rtol=1e-9)
    np.testing.assert_allclose(moments.Q, ov.solve(model, start, [2.0], rtol=1e-10).Q, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: dataclasses.replace(BASE, drift=-0.1), ["drift = -0.1", ">= 0"]),
        (
            lambda: dataclasses.replace(ov.hidden_manifold(2, 2, ratio=0.5, eta=1.0), drift=0.1),
            ["drift=0.1", "latents"],
        ),
        (
            lambda: ov.solve(dataclasses.replace(BASE, noise=0.0), START, [1.0], late=True),
            ["late=True", "drift=0.05"],
        ),
        (
            lambda: ov.simulate(BASE, N=100, alpha=[1.0], rng=1, method="reduced"),
            ["'reduced'", "drift=0.05", "'direct'"],
        ),
        (lambda: ov.fluctuations(ov.solve(BASE, START, [1.0]), 100), ["teachers that drift", "drift=0.05"]),
        (lambda: ov.theory.linear.tracking_error(ov.isotropic(), 2.0, 0.1), ["eta = 2.0", "< 2"]),
        (lambda: ov.theory.linear.tracking_error(ov.isotropic(), 1.0, 0.0), ["drift = 0", "> 0"]),
    ],
)
def test_what_drift_cannot_do_is_refused_by_name(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("batch", [1, 3])
def test_tracking_error_is_where_the_flow_ends(batch):
    spectrum = ov.power_law(beta=1.0, L=6)
    model = ov.committee_machine(
        1, 1, activation=ov.linear, eta=0.6, noise=0.4, drift=0.1, batch_size=batch, spectrum=spectrum
    )
    start = model.random_start(N=30_000, rng=1)
    end = ov.solve(model, start, [400.0], rtol=1e-11).eps_g[0]
    t = start.plain[2][:, 0, 0]
    found = ov.theory.linear.tracking_error(spectrum, [0.6, 0.7], 0.1, noise=0.4, batch_size=batch, t=t)
    assert found[0] == pytest.approx(end, rel=1e-9)
    assert found.shape == (2,)


def test_drift_stays_in_files(tmp_path):
    traj = ov.solve(BASE, START, [1.0])
    traj.save(tmp_path / "run")
    assert ov.load(tmp_path / "run.npz") == traj and ov.load(tmp_path / "run.npz").model.drift == 0.05
    with pytest.raises(ValueError, match="drift"):
        ov.load(tmp_path / "run.npz", model=dataclasses.replace(BASE, drift=0.0))
    assert "drift=0.05" in repr(BASE)
