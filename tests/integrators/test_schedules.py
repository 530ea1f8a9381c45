"""Solutions under schedules: golden numbers, identities of the flow, chains of runs at constant numbers."""

import dataclasses

import numpy as np
import pytest
import scipy.integrate

import overlaps as ov
from overlaps.integrators import bdf

S = ov.Schedule
BASE = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
START = ov.State.from_overlaps(BASE, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
RICH = ov.committee_machine(
    3, 2, eta=0.8, eta_v=0.5, noise=0.3, weight_decay=(0.05, 0.1), batch_size=2, v=[1.0, 0.7, 0.4],
    spectrum=ov.power_law(beta=1.0, L=3),
)  # fmt: skip
METHODS = ["auto", "DOP853", "structured", "RK45", "LSODA", "Radau", scipy.integrate.DOP853]


# an integration of the tilted-covariance closures, written independently of this library (rtol 1e-12)
@pytest.mark.parametrize("method", ["auto", "DOP853", "structured"])
@pytest.mark.parametrize(
    "schedule, alpha, eps_g",
    [
        (S.step([0.0, 4.0, 8.0], [1.5, 0.6, 0.1]), [4, 8, 12], [0.09809742511, 0.04223861763, 0.03400721405]),
        (S.cosine(20.0), [10, 20], [0.03354356472, 0.02123761743]),
        ({"eta": S([0, 20], [1, 0]), "noise": S([0, 20], [2, 0]), "batch_size": S([0, 10], [1, 3])}, [10],
         [0.02185748810]),
    ],
)  # fmt: skip
def test_golden_numbers(method, schedule, alpha, eps_g):
    traj = ov.solve(BASE, START, alpha, schedule=schedule, method=method, rtol=1e-9)
    np.testing.assert_array_equal(traj.alpha, alpha)
    # ten digits are printed; the structured solver leaves about rtol in the overlaps
    np.testing.assert_allclose(traj.eps_g, eps_g, rtol=1e-6 if method == "structured" else 1e-7)
    if len(alpha) == 2:
        assert traj.R[-1, 0, 0] == pytest.approx(0.6096145314, rel=1e-7)


def chained(model, start, alpha, changes, **options):
    """One run after the other, each with the numbers of ``changes`` = [(until, {name: number})]."""
    for until, numbers in changes:
        variant = dataclasses.replace(model, **numbers)
        start = ov.solve(variant, start, [min(until, alpha)], **options)[0]
        if until >= alpha:
            return start
    raise AssertionError


@pytest.mark.parametrize("method", METHODS)
def test_knots_are_landed_on(method):
    """A pulse that every method would step across if it did not know of it."""
    pulse = S([0.0, 15.0, 15.2], [0.01, 1.3, 0.01], "constant")
    traj = ov.solve(BASE, START, [20.0], schedule=pulse, method=method, rtol=1e-9)
    changes = [(15.0, {"eta": 0.01}), (15.2, {"eta": 1.3}), (20.0, {"eta": 0.01})]
    expected = chained(BASE, START, 20.0, changes, rtol=1e-11)
    eps_g = ov.closure(BASE, expected.Q, expected.R, expected.T).eps_g
    assert traj.eps_g[0] == pytest.approx(eps_g, rel=1e-6)


@pytest.mark.parametrize("method", ["DOP853", "structured", scipy.integrate.DOP853])
def test_all_five_factors_against_runs_one_after_the_other(method):
    """Both layers, three eigenvalues, decay, batches: each number changes at times of its own."""
    schedule = {
        "eta": S.step([2.0], [0.5]), "eta_v": S.step([3.0], [2.0]), "noise": S.step([1.0, 4.0], [2.0, 0.0]),
        "weight_decay": S.step([3.5], [3.0]), "batch_size": S.step([2.5], [1.5]),
    }  # fmt: skip
    changes = []
    for begin, end in zip([0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 4.0], [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 6.0], strict=True):
        f = {name: schedule[name](begin) for name in schedule}
        decay = tuple(f["weight_decay"] * x for x in RICH.weight_decay)
        numbers = {"eta": 0.8 * f["eta"], "eta_v": 0.5 * f["eta_v"], "noise": 0.3 * f["noise"], "weight_decay": decay}
        changes.append((end, numbers | {"batch_size": round(2 * f["batch_size"])}))
    start = RICH.random_start(N=30_000, rng=1)
    traj = ov.solve(RICH, start, [6.0], schedule=schedule, method=method, rtol=1e-9)
    expected = chained(RICH, start, 6.0, changes, rtol=1e-11, method="DOP853")
    np.testing.assert_allclose(traj.q[0], expected.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(traj.v[0], expected.v, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["DOP853", "RK45"])
def test_jumps_cost_nothing_but_new_starts(method):
    """No stage of a step that ends at a jump sees the rate after it, none after it the velocity before."""
    schedule, edges, rates = S.step([1.7, 4.1], [0.3, 1.6]), [1.7, 4.1, 6.0], [1.0, 0.3, 1.6]
    traj = ov.solve(BASE, START, [6.0], schedule=schedule, method=method)
    state, nfev = START, 0
    for end, rate in zip(edges, rates, strict=True):
        part = ov.solve(dataclasses.replace(BASE, eta=rate), state, [end], method=method)
        state, nfev = part[0], nfev + part.nfev
    exact = chained(BASE, START, 6.0, [(t, {"eta": f}) for t, f in zip(edges, rates, strict=True)], rtol=1e-12)
    error, own = (abs(ov.closure(BASE, x.Q, x.R, x.T).eps_g - traj.eps_g[0]) for x in (exact, state))
    assert traj.nfev < 1.15 * nfev + 20  # first steps are chosen anew, or go on from before the jump
    # both err by a few of the tolerance; RK45 controls Q and R alone
    assert max(error, own) < (3e-9 if method == "DOP853" else 1e-7)


@pytest.mark.parametrize("method", ["DOP853", "structured"])
def test_gradient_flow_under_a_schedule_is_a_change_of_time(method):
    model = dataclasses.replace(RICH, gradient_flow=True, eta_v=0.5)
    start = model.random_start(N=30_000, rng=2)
    falling = ov.solve(model, start, [20.0], schedule=S.cosine(20.0), method=method, rtol=1e-10)
    constant = ov.solve(model, start, [10.0], method=method, rtol=1e-10)  # the integral of the factor
    np.testing.assert_allclose(falling.q[0], constant.q[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(falling.v[0], constant.v[0], rtol=0, atol=1e-8)


def test_smaller_steps_are_larger_batches():
    """In tau = int u only eta / b is left: 1/(1 + alpha) at batch 1 is a constant rate at batch e^tau."""
    falling = ov.solve(BASE, START, [12.0], schedule=S.power(1.0, scale=1.0), rtol=1e-10)
    tau = np.log(13.0)
    growing = {"batch_size": S.from_function(np.exp)}
    batches = ov.solve(BASE, START, [tau], schedule=growing, rtol=1e-10)
    np.testing.assert_allclose(batches.Q, falling.Q, rtol=1e-8)


@pytest.mark.parametrize("method", ["DOP853", "structured", "RK45"])
def test_a_factor_of_one_changes_no_digit(method):
    plain = ov.solve(RICH, RICH.random_start(N=3000, rng=1), (0.0, 3.0), method=method, rtol=1e-6)
    for schedule in (S.power(0.0, scale=1.0), {"noise": S.power(0.0, scale=2.0)}):
        scheduled = ov.solve(
            RICH, RICH.random_start(N=3000, rng=1), (0.0, 3.0), method=method, rtol=1e-6, schedule=schedule
        )
        # rounding: sums are fused differently in compiled code, products taken in another order
        np.testing.assert_allclose(scheduled.q, plain.q, rtol=0, atol=1e-13)
        assert len(plain) == len(scheduled)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["DOP853", "structured", "LSODA"])
def test_a_rate_of_zero_freezes_the_state(method):
    stop = S.step([2.0], [0.0])
    traj = ov.solve(RICH, RICH.random_start(N=3000, rng=1), [2.0, 3.0, 50.0], schedule=stop, method=method, rtol=1e-6)
    assert traj.success
    np.testing.assert_array_equal(traj.q[1], traj.q[0])
    np.testing.assert_array_equal(traj.v[2], traj.v[0])
    np.testing.assert_array_equal(traj.eta, [0.0, 0.0, 0.0])


def test_user_functions_agree_with_the_shapes():
    cosine = S.from_function(lambda a: (1 + np.cos(np.pi * min(a, 20.0) / 20)) / 2, knots=[20.0])
    one, other = (ov.solve(BASE, START, [10.0, 25.0], schedule=f, rtol=1e-9) for f in (cosine, S.cosine(20.0)))
    np.testing.assert_allclose(one.eps_g, other.eps_g, rtol=1e-8)
    gap = S.from_function(lambda a: -1.0 if 9.86 < a < 10.04 else 1.0)  # between two times that are looked at before
    with pytest.warns(RuntimeWarning, match="schedule gives the factors"):
        traj = ov.solve(BASE, START, [9.0, 9.95, 40.0], schedule={"eta": gap})
    assert not traj.success and traj.alpha[-1] < 9.9


@pytest.mark.parametrize("activation", [ov.tanh, ov.polynomial([0.0, 1.0, 0.3]), ov.leaky_relu(0.3), ov.relu])
def test_noise_reaches_every_kind_of_closure(activation):
    model = ov.committee_machine(2, 1, activation=activation, teacher_activation=ov.linear, eta=0.3, noise=0.4)
    start = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=[[0.3], [0.1]], T=[[1.0]])
    traj = ov.solve(model, start, [3.0], schedule={"noise": S.step([1.0], [0.5])}, rtol=1e-9)
    expected = chained(model, start, 3.0, [(1.0, {}), (3.0, {"noise": 0.2})], rtol=1e-9)
    np.testing.assert_allclose(traj[0].Q, expected.Q, rtol=1e-7)


def test_stop_conditions_records_and_times_between_them():
    schedule = S.step([3.0, 6.0], [0.5, 0.2]) * S.warmup(2.0)
    for method in ("DOP853", "structured"):
        every = ov.solve(BASE, START, (0.0, 12.0), schedule=schedule, method=method, rtol=1e-9, every_step=True)
        assert np.all(np.diff(every.alpha) > 0) and {2.0, 3.0, 6.0} <= {*every.alpha}
        exact = ov.solve(BASE, START, [7.3], schedule=schedule, rtol=1e-11)
        np.testing.assert_allclose(every.at(7.3).Q, exact.Q[0], rtol=1e-7)
        level = float(exact.eps_g[0])
        found = ov.solve(BASE, START, (0.0, 12.0), schedule=schedule, stop=level, method=method, rtol=1e-9)
        assert found.alpha[-1] == pytest.approx(7.3, abs=1e-4)
        onward = ov.solve(BASE, every.at(4.0), [7.3], schedule=schedule, rtol=1e-10)
        np.testing.assert_allclose(onward.Q, exact.Q, rtol=1e-7)
    assert every.schedule is schedule
    np.testing.assert_allclose(every.eta, schedule(every.alpha))


def test_late_times_under_a_schedule():
    model = ov.committee_machine(2, 2, eta=1.0)
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.9, 0.1], [0.05, 0.85]], T=np.eye(2))
    schedule = S.step([30.0], [0.5])
    late = ov.solve(model, start, [60.0, 200.0], schedule=schedule, late=True)
    middle = ov.solve(model, start, [30.0], late=True, rtol=1e-10)[0]
    slower = dataclasses.replace(model, eta=0.5)
    expected = ov.solve(slower, middle, [60.0, 200.0], late=True)
    # the state between the two is known to rounding, 1e-16 of the overlaps; eps_g is 1e-4 there
    np.testing.assert_allclose(late.eps_g, expected.eps_g, rtol=1e-6)
    with pytest.raises(ValueError, match="late=True with"):
        ov.solve(BASE, START, [1.0], late=True, schedule={"noise": schedule})


@pytest.mark.slow
def test_a_jacobian_of_rates_that_have_changed_is_made_again(monkeypatch):
    """It costs no accuracy to keep it, but iterations: a rate that goes up and down by a factor of 19."""
    swinging = S.from_function(lambda alpha: 1 + 0.9 * np.sin(alpha / 5))
    model = dataclasses.replace(BASE, spectrum=ov.power_law(beta=1.0, L=16))
    start = model.random_start(N=1600, rng=1)
    fresh = ov.solve(model, start, [150.0], schedule=swinging, method="structured", rtol=1e-7)
    monkeypatch.setattr(bdf, "BDF_OPTIONS", bdf.BDF_OPTIONS._replace(stale_rate=np.inf))
    stale = ov.solve(model, start, [150.0], schedule=swinging, method="structured", rtol=1e-7)
    assert fresh.nfev < stale.nfev
    assert fresh.eps_g[0] == pytest.approx(stale.eps_g[0], rel=1e-5)


def test_a_projected_run_has_the_rates_behind_a_knot():
    """Every step of a singular start in a gradient flow is projected, and its velocity evaluated anew; against RK45."""
    model = ov.committee_machine(3, 2, eta=0.5, gradient_flow=True)
    W = np.array([[0.5, 0.3], [0.2, 0.6], [0.7, 0.9]])
    start = ov.State.from_overlaps(model, Q=W @ W.T, R=W, T=np.eye(2))
    schedule = ov.Schedule([0.0, 4.0, 4.5, 40.0], [1.0, 1.0, 0.1, 0.1])
    runs = [ov.solve(model, start, [3.0, 20.0], schedule=schedule, method=m, stop=1e-9) for m in ("DOP853", "RK45")]
    np.testing.assert_allclose(runs[0].eps_g, runs[1].eps_g, rtol=1e-6)
    assert runs[0].nfev < 1000  # with rates of the time before the knot, steps become smaller without end
