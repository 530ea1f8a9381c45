"""Records inside the steps of DOP853: the interpolant and its error, and that no road to a record changes it."""

import numpy as np
import pytest
import scipy.integrate

import overlaps as ov
from overlaps.flow.system import System
from overlaps.integrators import compiled_steps
from overlaps.integrators._dop853 import INTERPOLANT, bound_of_step, reach
from overlaps.integrators._tableau import TABLEAU
from overlaps.integrators.dop853 import DOP853

MODEL = ov.committee_machine(2, 2, eta=0.2)
START = MODEL.random_start(N=1000, rng=1)
NOISY = ov.Schedule([0.0, 4.0, 9.0, 40.0], [1.0, 0.4, 0.8, 0.5])


class InPython(DOP853):
    """The same steps, made by SciPy's class."""


def test_coefficients_are_those_of_scipy():
    scipys = scipy.integrate.DOP853
    np.testing.assert_array_equal(TABLEAU.stages[:13, :12], np.vstack([scipys.A, scipys.B]))
    np.testing.assert_array_equal(TABLEAU.stages[13:], scipys.A_EXTRA)
    np.testing.assert_array_equal(TABLEAU.nodes, [*scipys.C, 1.0, *scipys.C_EXTRA])
    np.testing.assert_array_equal([TABLEAU.e3[:13], TABLEAU.e5[:13]], [scipys.E3, scipys.E5])
    np.testing.assert_array_equal(TABLEAU.dense, scipys.D)


@pytest.mark.parametrize("schedule", [None, NOISY], ids=["constant", "knots"])
def test_records_in_compiled_steps_are_the_dense_output_of_scipy(schedule):
    """Both read one polynomial; sums are in another order, and schedules have knots on which both end a step."""
    alpha = np.linspace(0.0, 40.0, 161)
    compiled, python = (ov.solve(MODEL, START, alpha, schedule=schedule, method=m) for m in ("DOP853", InPython))
    # compiled steps evaluate the velocity anew at a knot, once for each try
    assert abs(compiled.nfev - python.nfev) <= (0 if schedule is None else 4)
    for name in ("q", "r"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(python, name), rtol=0, atol=1e-12)


def test_the_error_of_the_interpolant_is_known_beforehand():
    """Against the step integrated again: the estimate bounds the largest error, and is less than twice as large."""
    system = System(MODEL, START)
    y = system.pack(ov.solve(MODEL, START, [20.0])[0])
    ratios = []
    for h in (1.0, 2.0, 4.0):
        solver = scipy.integrate.DOP853(system.rhs, 20.0, y, 20.0 + h, first_step=h, rtol=1.0, atol=1.0)
        solver.step()
        assert solver.t == 20.0 + h
        polynomial, x = solver.dense_output(), np.linspace(0.1, 0.9, 17)
        exact = scipy.integrate.solve_ivp(
            system.rhs, (20.0, 20.0 + h), y, "DOP853", 20.0 + h * x, rtol=1e-13, atol=1e-15, max_step=h / 20
        )
        error = np.abs(polynomial(20.0 + h * x) - exact.y).max()
        ratios.append(error / (INTERPOLANT.peak * np.abs(polynomial.F[-1]).max()))
    assert max(ratios) < INTERPOLANT.safety < 2 * max(ratios)


@pytest.mark.parametrize("end, records, most", [(100.0, 1000, 700), (1000.0, 1000, 4600)])
def test_records_cost_few_evaluations_and_keep_the_tolerance(end, records, most):
    """12,000 if every step ended at an output time; errors in units of rtol = 1e-8, those of eps_g above rounding."""
    alpha = np.linspace(0.0, end, records + 1)
    traj = ov.solve(MODEL, START, alpha)
    exact = ov.solve(MODEL, START, alpha, rtol=1e-12, atol=1e-15)
    assert traj.nfev <= most
    for name in ("Q", "R"):
        assert np.abs(getattr(traj, name) - getattr(exact, name)).max() < 1e-8
    seen = exact.eps_g > 10 * exact.eps_floor
    assert np.abs(traj.eps_g / exact.eps_g - 1)[seen].max() < 2e-8


@pytest.mark.parametrize("activation, rule", [(ov.erf, None), (None, ov.rules.perceptron())], ids=["erf", "rule"])
def test_errors_of_records_follow_rtol(activation, rule):
    """A record is as accurate as the tolerance asks, where eps_g is a difference, too."""
    model = ov.committee_machine(1, 1, eta=0.5) if rule is None else ov.learner(rule, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    alpha = np.linspace(0.0, 10.0, 501)
    exact = ov.solve(model, start, alpha, rtol=1e-11)
    for rtol in (1e-5, 1e-8):
        traj = ov.solve(model, start, alpha, rtol=rtol)
        assert traj.nfev < 700
        assert np.abs(traj.Q - exact.Q).max() < 2 * rtol  # errors of steps add up to about as much
        np.testing.assert_allclose(traj.eps_g, exact.eps_g, rtol=3 * rtol)


def test_a_small_table_of_rows_is_emptied_in_the_middle_of_a_step(monkeypatch):
    alpha = np.linspace(0.0, 100.0, 1001)
    expected = ov.solve(MODEL, START, alpha, stop=0.02)
    small = compiled_steps.CALL_OPTIONS._replace(out_size=7 * 4)  # four rows of 7 overlaps
    monkeypatch.setattr(compiled_steps, "CALL_OPTIONS", small)
    found = ov.solve(MODEL, START, alpha, stop=0.02)
    for name in ("alpha", "Q", "R", "eps_g", "eps_error"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("method", ["DOP853", InPython])
@pytest.mark.parametrize("stop", [0.02, lambda alpha, state: alpha - 33.33])
def test_nothing_is_recorded_behind_a_stop(method, stop):
    alpha = np.linspace(0.0, 200.0, 2001)
    traj = ov.solve(MODEL, START, alpha, stop=stop, method=method)
    n = len(traj) - 1
    assert traj.success and "stop condition met" in traj.message and 100 < n < 2000
    np.testing.assert_array_equal(traj.alpha[:-1], alpha[:n])  # none is missing
    assert alpha[n - 1] <= traj.alpha[-1] <= alpha[n]
    plain = ov.solve(MODEL, START, alpha[:n])
    np.testing.assert_allclose(traj.Q[:-1], plain.Q, rtol=0, atol=2e-8)  # other steps at the end, at rtol 1e-8


def test_a_batch_records_every_time_beyond_its_first_pause():
    """Compiled steps pause after 10,000 evaluations, maybe at a record: solve and solve_many agree bit by bit."""
    model = ov.committee_machine(1, 1, eta=0.3)
    start = model.random_start(N=500, rng=1)
    alpha = np.linspace(0.0, 40_000.0, 1501)
    one, batch = ov.solve(model, start, alpha, method="DOP853"), ov.solve_many([model], start, alpha, method="DOP853")
    assert one.nfev > 10_000
    np.testing.assert_array_equal(one.Q, batch[0].Q)
    np.testing.assert_array_equal(one.eps_g, batch[0].eps_g)


def test_where_a_step_over_output_times_ends():
    times = np.array([0.0, 1.0, 2.0, 9.0])
    assert bound_of_step(times, 1, 0.0, 0.5, 0.5, 9.0) == 9.0  # no output time inside
    assert bound_of_step(times, 1, 0.0, 4.0, 1.0, 9.0) == 9.0  # two inside, the interpolant is accurate
    assert bound_of_step(times, 1, 0.0, 4.0, 0.6, 9.0) == 2.4  # within its reach
    assert bound_of_step(times, 1, 0.0, 1.5, 1.0, 9.0) == 9.0  # one inside, three evaluations are less than a third
    assert bound_of_step(times, 1, 0.0, 1.1, 1.0, 9.0) == 1.0  # one near the end: the step ends there
    assert bound_of_step(times, 1, 0.0, 1.5, 0.6, 9.0) == 1.0  # one beyond the reach
    assert reach(1.0, 1.0, 1.8) == 0.5  # 0.9 of its length, and errors allow 1.8
    assert reach(1e-20, 1.0, 1.8) == 1.0
    assert reach(np.nan, 1.0, 1.0) == 0.2
