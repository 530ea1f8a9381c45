"""Gradients by the schedule against differences and an independent code; optima against closed forms."""

import dataclasses
import itertools

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.protocols import control, optimal

PLATEAU = ov.committee_machine(2, 2, eta=1.0, noise=0.1)
SYMMETRIC = ov.State.from_overlaps(PLATEAU, Q=np.eye(2) / 2, R=1e-3 * np.eye(2), T=np.eye(2))
LINEAR = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
BEGIN = ov.State.from_overlaps(LINEAR, Q=[[0.1]], R=[[0.1]], T=[[1.0]])  # m0 = 0.9


# an adjoint of other closures, order-8 steps, checked there against sixth-order differences
@pytest.mark.parametrize(
    "objective, value, gradient",
    [
        ("final", 0.01715657992, [2.843532097e-4, 3.872740992e-5, 8.525940870e-3]),
        ("mean", 0.03334139859, [2.481703571e-3, 1.786618686e-3, 3.645627020e-4]),
    ],
)
def test_golden_gradients(objective, value, gradient):
    schedule = ov.Schedule(np.linspace(0, 60, 11), np.linspace(1.2, 0.5, 11))
    found, slopes = ov.schedule_gradient(PLATEAU, SYMMETRIC, schedule, 60.0, objective=objective)
    assert found == pytest.approx(value, rel=1e-8)  # what the grid leaves, at order 8
    np.testing.assert_allclose(slopes[[0, 5, 10]], gradient, rtol=0, atol=1e-6 * np.abs(slopes).max())


RICH = dict(eta=0.7, eta_v=0.4, noise=0.3, weight_decay=(0.05, 0.1), batch_size=2, v=[1.0, 0.6, 0.3])


@pytest.mark.parametrize("objective", ["final", "mean"])
@pytest.mark.parametrize(
    "activation, options",
    [
        (ov.erf, RICH | {"spectrum": ov.power_law(beta=1.0, L=3)}),
        (ov.erf, {"eta": 0.7, "gradient_flow": True}),
        pytest.param(ov.relu, {"eta": 0.3, "noise": 0.2}, marks=pytest.mark.slow),  # compiles for a minute
        (ov.quadratic, {"eta": 0.05, "eta_v": 0.02}),
    ],
)
def test_gradients_against_differences(activation, options, objective):
    """Central differences of sixth order in each knot, at knots of unequal distances, from a start at alpha = 2."""
    model = ov.committee_machine(3, 2, activation=activation, **options)
    start = dataclasses.replace(model.random_start(N=30_000, rng=3, student_scale=0.5), alpha=2.0)
    knots, values = 2.0 + np.array([0.0, 0.7, 2.0, 3.0]), np.array([1.0, 1.6, 0.4, 0.0])

    def value(u):
        return ov.schedule_gradient(model, start, ov.Schedule(knots, u), 3.0, objective=objective)[0]

    found, gradient = ov.schedule_gradient(model, start, ov.Schedule(knots, values), 3.0, objective=objective)
    differences = []
    h = 0.01
    for unit in np.eye(4)[:3]:  # the last rate is zero, and its neighbours below are no rates
        terms = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
        total = sum(c * (value(values + j * h * unit) - value(values - j * h * unit)) for j, c in terms)
        differences.append(total / h / model.eta)
    # the grid follows the largest factor, whose number of steps does not change here; rounding 1e-16 / h
    np.testing.assert_allclose(gradient[:3], differences, rtol=0, atol=1e-9 * np.abs(gradient).max())
    solved = ov.solve(model, start, [5.0], schedule=ov.Schedule(knots, values), rtol=1e-10)
    if objective == "final":
        assert found == pytest.approx(solved.eps_g[0], rel=1e-6)


@pytest.mark.slow
def test_closures_that_are_not_compiled_take_the_same_steps():
    """Tanh is a sum of error functions, in Python: its value is that of solve, its gradient that of differences."""
    model = ov.committee_machine(2, 1, activation=ov.tanh, eta=0.6, noise=0.2)
    start = ov.State.from_overlaps(model, Q=[[0.4, 0.1], [0.1, 0.3]], R=[[0.2], [0.1]], T=[[1.0]])
    schedule = ov.Schedule([0.0, 1.0, 2.0], [1.0, 0.5, 0.7])
    value, gradient = ov.schedule_gradient(model, start, schedule, 2.0)
    assert value == pytest.approx(ov.solve(model, start, [2.0], schedule=schedule, rtol=1e-10).eps_g[0], rel=1e-7)
    h = 0.01
    plus, minus = (
        ov.schedule_gradient(model, start, ov.Schedule([0, 1, 2], [1.0, 0.5 + d, 0.7]), 2.0)[0] for d in (h, -h)
    )
    # central differences of second order, h^2 times a third derivative of order one
    assert gradient[1] == pytest.approx((plus - minus) / (2 * h) / 0.6, rel=1e-4)


def test_linear_closed_form():
    """Golden numbers of the equation x + ln x = c, the ODE along eta*, and the limits."""
    linear = ov.theory.linear
    alpha = np.array([1.0, 10.0, 1000.0])
    np.testing.assert_allclose(
        2 * linear.optimal_error(alpha, m0=0.9, noise=0.5), [0.4416946653, 0.03548825225, 2.519914829e-4], rtol=1e-9
    )
    np.testing.assert_allclose(
        linear.optimal_eta(alpha, m0=0.9, noise=0.5), [0.6385688476, 0.1243072244, 1.006950959e-3], rtol=1e-9
    )
    for batch in (1, 4):
        model = dataclasses.replace(LINEAR, batch_size=batch)
        f = ov.Schedule.from_function(
            lambda a, b=batch: float(linear.optimal_eta(a, m0=0.9, noise=0.5, batch_size=b)) / 0.5
        )
        traj = ov.solve(model, BEGIN, [3.0, 10.0], schedule=f, rtol=1e-11)
        expected = linear.optimal_error([3.0, 10.0], m0=0.9, noise=0.5, batch_size=batch)
        np.testing.assert_allclose(traj.eps_g, expected, rtol=1e-9)
    assert linear.optimal_error(1e9, m0=0.9, noise=0.5) == pytest.approx(0.25 / 2e9, rel=1e-6)  # sigma^2 / (2 alpha)
    assert linear.optimal_error(3.0, m0=0.9, noise=0.0) == pytest.approx(0.45 * np.exp(-3.0), rel=1e-14)
    assert linear.optimal_eta(3.0, m0=0.9, noise=0.0, batch_size=2) == 2.0
    assert linear.optimal_error(3.0, m0=0.9, noise=0.0, batch_size=2) == pytest.approx(0.45 * np.exp(-6.0), rel=1e-14)
    tiny = linear.optimal_error([0.0, 5.0], m0=1e-9, noise=10.0)  # x0 = 1e11
    assert tiny[0] == pytest.approx(5e-10, rel=1e-12) and 0 < tiny[1] < tiny[0]


@pytest.mark.slow
def test_the_search_finds_the_linear_optimum():
    exact = ov.theory.linear.optimal_error(10.0, m0=0.9, noise=0.5)
    gaps = []
    for n in (11, 21):
        best = ov.optimal_schedule(LINEAR, BEGIN, 10.0, knots=n)
        assert best.success and best.stationarity < 1e-4
        gaps.append(best.value / exact - 1)
    assert 0 < gaps[1] < 1e-6  # nothing lies below the optimum over all rates
    assert 12 < gaps[0] / gaps[1] < 20  # n^-4: straight lines err by n^-2 where the objective is flat
    # minimised over eta alone, m(10) = exp(-a 10) m0 + (1 - exp(-a 10)) eta sigma^2 / (2 - eta), a = eta (2 - eta)
    assert best.constant == pytest.approx((0.250686, 0.0232967), rel=1e-5)
    assert best.value == pytest.approx(best.trajectory.eps_g[-1], rel=1e-6)
    inner = slice(2, -2)  # first and last knots carry little weight
    expected = ov.theory.linear.optimal_eta(best.knots, m0=0.9, noise=0.5)
    np.testing.assert_allclose(best.eta[inner], expected[inner], rtol=0.02)
    np.testing.assert_allclose(best.eta, LINEAR.eta * best.schedule(best.knots), rtol=1e-14)
    greedy = ov.greedy_schedule(LINEAR, BEGIN, 10.0)  # one mode: what is best now is best for ever
    expected = ov.theory.linear.optimal_eta(greedy.knots, m0=0.9, noise=0.5)
    np.testing.assert_allclose(LINEAR.eta * greedy(greedy.knots), expected, rtol=1e-6)


def test_the_greedy_rate_knows_the_drift():
    """Linear unit: m / (m + noise^2) with m = Q - 2 R + T along the solution that drifts under the schedule found."""
    model = dataclasses.replace(LINEAR, drift=0.13)
    greedy = ov.greedy_schedule(model, BEGIN, 8.0, knots=81)
    traj = ov.solve(model, BEGIN, greedy.knots, schedule=greedy)
    m = 2 * traj.eps_g
    # lines between knots 0.1 apart miss the path of the greedy rate itself by the square of that
    np.testing.assert_allclose(0.5 * greedy(greedy.knots), m / (m + 0.25), rtol=1e-3)


def test_the_greedy_rate_knows_what_moves_with_eta():
    """Least slope a u + b u^2 of eps_g at the start, from solutions at two rates; both layers learn and decay."""
    model = ov.committee_machine(2, 2, v=[1.0, 0.6], **{x: y for x, y in RICH.items() if x != "v"})
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
    slopes, h = [], 1e-3
    for u in (0.5, 1.5):
        faster = dataclasses.replace(model, eta=u * model.eta, eta_v=u * model.eta_v)
        before, soon, later = ov.solve(faster, start, [0.0, h, 2 * h], rtol=1e-12, atol=1e-14).eps_g
        slopes.append((4 * soon - 3 * before - later) / (2 * h) / u)
    b = slopes[1] - slopes[0]
    # one-sided differences of second order: h^2 times third derivatives
    assert ov.greedy_schedule(model, start, 1.0, knots=2)(0.0) == pytest.approx((b / 2 - slopes[0]) / (2 * b), rel=1e-4)


def test_the_upper_bound_is_one_of_eta():
    """Gradient flow, where faster is better: eta is 0.7 throughout, and no gradient at a bound counts."""
    flow = dataclasses.replace(LINEAR, gradient_flow=True)
    fastest = ov.optimal_schedule(flow, BEGIN, 2.0, knots=3, bounds=(0.0, 0.7))
    np.testing.assert_allclose(fastest.eta, 0.7, rtol=1e-6)
    assert fastest.value == pytest.approx(0.45 * np.exp(-2 * 0.7 * 2.0), rel=1e-6)
    assert fastest.success and fastest.stationarity < 1e-6
    assert fastest.constant == pytest.approx((0.7, fastest.value), rel=1e-6)


def test_the_lower_bound_is_one_of_eta():
    """Rates below 0.9 would be better from the start on: dm/dalpha = -2 eta m + eta^2 (m + noise^2) at eta = 0.9."""
    slowest = ov.optimal_schedule(LINEAR, BEGIN, 3.0, knots=3, bounds=(0.9, 1.2))
    np.testing.assert_allclose(slowest.eta, 0.9, rtol=1e-6)
    rest = 0.9 * 0.25 / (2 - 0.9)
    value = (rest + (0.9 - rest) * np.exp(-0.9 * (2 - 0.9) * 3.0)) / 2
    assert slowest.value == pytest.approx(value, rel=1e-6)
    assert slowest.success and slowest.stationarity < 1e-6


def test_the_best_constant_knows_the_unit_of_the_inputs():
    """Inputs seven times as long, weights a seventh: the rate is 49 times smaller, the error the same."""
    found = []
    for unit in (1.0, 7.0):
        model = dataclasses.replace(LINEAR, eta=0.5 / unit**2, spectrum=ov.Spectrum([unit**2]))
        start = ov.State.from_overlaps(model, Q=[[0.1]], R=[[0.1]], T=[[1.0]])  # of the fields
        found.append(ov.optimal_schedule(model, start, 0.7, knots=2).constant)
    (eta, value), (slow, same) = found
    assert slow * 49 == pytest.approx(eta, rel=1e-5) and same == pytest.approx(value, rel=1e-8)


@pytest.mark.slow
def test_the_best_constant_on_a_wide_spectrum():
    """Rates stay stable far beyond the time scale of the largest eigenvalue, which has few dimensions."""
    model = dataclasses.replace(LINEAR, eta=0.1, noise=1.0, spectrum=ov.power_law(beta=1.0, L=64))
    p = model.spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=p, r=0 * p, t=p)
    best = ov.optimal_schedule(model, start, 3.0, knots=6, tol=1e-3)
    eta, value = best.constant
    around = [ov.theory.linear.error(model.spectrum, x, [3.0], noise=1.0)[0] for x in (0.9 * eta, eta, 1.1 * eta)]
    assert value == pytest.approx(around[1], rel=1e-6) and min(around) == around[1]
    assert eta > 4 / model.spectrum.s.max()
    assert best.value < 0.9 * value  # annealing gains an exponent


@pytest.mark.slow
def test_bounds_objectives_and_starts():
    kept = ov.optimal_schedule(LINEAR, BEGIN, 10.0, knots=9, bounds=(0.1, 0.4))
    free = ov.optimal_schedule(LINEAR, BEGIN, 10.0, knots=9)
    assert kept.eta.min() >= 0.1 and kept.eta.max() == pytest.approx(0.4) and kept.success
    assert free.value < kept.value < kept.constant[1]
    later = dataclasses.replace(BEGIN, alpha=3.0)
    shifted = ov.optimal_schedule(LINEAR, later, 10.0, knots=9)
    assert shifted.value == pytest.approx(free.value, rel=1e-9) and shifted.schedule.knots[0] == 3.0
    mean = ov.optimal_schedule(LINEAR, BEGIN, 10.0, knots=9, objective="mean")
    # each is best at what it minimises
    along = [
        [ov.schedule_gradient(LINEAR, BEGIN, b.schedule, 10.0, objective=o)[0] for o in ("final", "mean")]
        for b in (free, mean)
    ]
    assert along[0][0] < along[1][0] and along[1][1] < along[0][1]
    flow = dataclasses.replace(LINEAR, gradient_flow=True)
    fastest = ov.optimal_schedule(flow, BEGIN, 2.0, knots=5, bounds=(0.0, 0.7))
    np.testing.assert_allclose(fastest.eta, 0.7, rtol=1e-6)
    assert fastest.value == pytest.approx(0.45 * np.exp(-2 * 0.7 * 2.0), rel=1e-6)


def test_a_search_cut_short_says_so_and_is_not_above_the_best_constant():
    with pytest.warns(RuntimeWarning, match="1 iterations.*maxiter"):
        best = ov.optimal_schedule(PLATEAU, SYMMETRIC, 30.0, knots=11, maxiter=1)
    assert not best.success and best.value <= best.constant[1]
    assert "upper bound" in best.message


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 0.0), ["horizon = 0", "> 0"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, knots=0), ["knots = 0", ">= 2"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, knots=[0.0, 2.0]), ["knots", "from 0 to horizon = 1"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, bounds=(1.0, 0.5)), ["bounds", "lowest < highest"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, bounds=(-1.0, 0.5)), ["bounds[0] = -1"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, bounds=0.5), ["bounds = 0.5", "pair"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, objective="worst"), ["objective = 'worst'", "'mean'"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, initial=-1.0), ["initial", ">= 0"]),
        (lambda: ov.optimal_schedule(dataclasses.replace(LINEAR, gradient_flow=True), BEGIN, 1.0), ["upper bound"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, tol=-1.0), ["tol = -1", "> 0"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, tol=0.0), ["tol = 0", "> 0"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1.0, maxiter=0), ["maxiter = 0", ">= 1"]),
        (lambda: ov.optimal_schedule(LINEAR, BEGIN, 1e9), ["steps", "ov.compress"]),
        (lambda: ov.schedule_gradient(LINEAR, BEGIN, ov.Schedule.cosine(1.0), 1.0), ["kind 'linear'"]),
        (lambda: ov.schedule_gradient(LINEAR, BEGIN, 0.5, 1.0), ["schedule = 0.5"]),
        (lambda: ov.theory.linear.optimal_error(1.0, m0=0.0, noise=0.1), ["m0 = 0", "> 0"]),
        (lambda: ov.theory.linear.optimal_eta(-1.0, m0=1.0, noise=0.1), ["alpha", ">= 0"]),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.slow
def test_across_a_plateau():
    """erf, K = M = 2: a moderate rate on the plateau, annealing at the end; the greedy rate falls on the plateau."""
    best = ov.optimal_schedule(PLATEAU, SYMMETRIC, 200.0)
    assert best.value <= 2.7257e-4 and best.success  # found by an independent code: 2.725638e-4
    assert best.constant == pytest.approx((0.876956, 2.873372e-3), rel=1e-5)
    assert best.trajectory.eps_g[-1] == pytest.approx(best.value, rel=1e-6)
    middle = best.eta[4:15]  # alpha = 20 to 70: the plateau and the escape
    np.testing.assert_allclose(middle, 1.576, atol=0.01)
    greedy = ov.greedy_schedule(PLATEAU, SYMMETRIC, 200.0)
    np.testing.assert_allclose(greedy([0.0, 20.0, 40.0, 100.0]), [1.27, 0.108, 0.056, 0.030], atol=0.006)
    stuck = ov.solve(PLATEAU, SYMMETRIC, [200.0], schedule=greedy).eps_g[0]
    assert stuck == pytest.approx(0.0146, abs=3e-4)  # straight lines between knots move it a little


WIDE = ov.committee_machine(
    2, 3, activation=ov.linear, eta=0.5, noise=0.7, v=[1.0, 0.6], v_star=[0.9, 0.5, -0.4], batch_size=2,
    spectrum=ov.power_law(beta=1.0, L=96),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["final", "mean"])
def test_implicit_steps_of_wide_spectra_against_explicit_ones(objective, monkeypatch):
    """Linear students, rates that spread over a factor of 10^4: one variable for each eigenvalue, third order."""
    start = WIDE.random_start(N=96_000, rng=3, student_scale=0.5)
    schedule = ov.Schedule([0.0, 0.7, 2.0, 3.0], [1.0, 1.6, 0.4, 0.2])
    value, gradient = ov.schedule_gradient(WIDE, start, schedule, 3.0, objective=objective)
    monkeypatch.setattr(control, "GRID", control.GRID._replace(max_explicit_steps=np.inf))  # order 8
    exact, slopes = ov.schedule_gradient(WIDE, start, schedule, 3.0, objective=objective)
    # 48 steps in each of three intervals; with four times as many both gaps are 1/64
    assert value == pytest.approx(exact, rel=2e-6) and value != exact
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-4 * np.abs(slopes).max())


@pytest.mark.parametrize("option", [{}, {"drift": 0.13}, {"weight_decay": (0.2, 0.0)}, {"eta_v": 0.3}])
def test_values_on_wide_spectra_are_those_of_the_solution(option):
    """By implicit steps, and with what they leave out: teachers that drift, decay, readouts that learn."""
    model = dataclasses.replace(WIDE, **option)
    start = model.random_start(N=96_000, rng=3, student_scale=0.5)
    schedule = ov.Schedule([0.0, 0.3, 0.7], [1.0, 1.6, 0.4])
    value, _ = ov.schedule_gradient(model, start, schedule, 0.7)
    assert value == pytest.approx(ov.solve(model, start, [0.7], schedule=schedule).eps_g[0], rel=2e-6)


@pytest.mark.slow
def test_the_gradient_of_implicit_steps_is_that_of_their_value():
    start = WIDE.random_start(N=96_000, rng=3, student_scale=0.5)
    values, h = np.array([1.0, 1.6, 0.4, 0.2]), 0.01

    def at(u):
        return ov.schedule_gradient(WIDE, start, ov.Schedule([0.0, 0.7, 2.0, 3.0], u), 3.0)

    terms = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
    differences = [
        sum(c * (at(values + j * h * e)[0] - at(values - j * h * e)[0]) for j, c in terms) for e in np.eye(4)
    ]
    gradient = at(values)[1]
    # central differences of sixth order; rounding 1e-16 / h
    np.testing.assert_allclose(
        gradient, np.array(differences) / h / WIDE.eta, atol=1e-8 * np.abs(gradient).max(), rtol=0
    )


def test_a_search_that_begins_at_its_answer_stays_there():
    """Its rates are those of the model, which here are no factors."""
    best = ov.optimal_schedule(LINEAR, BEGIN, 3.0, knots=5)
    again = ov.optimal_schedule(LINEAR, BEGIN, 3.0, knots=5, initial=best.eta, maxiter=5)
    assert again.value == pytest.approx(best.value, rel=1e-6) and len(again.history) < len(best.history)


@pytest.mark.slow
def test_annealing_on_a_power_law():
    """The optimum of an independent code, L = 512, whose own grid leaves 4e-5, in less than thirty iterations."""
    model = ov.committee_machine(
        1, 1, activation=ov.linear, eta=1.0, noise=1.0, spectrum=ov.power_law(beta=1.0, L=512)
    )  # fmt: skip
    p = model.spectrum.p[:, None, None]
    start, x = ov.State.from_blocks(model, q=p, r=0 * p, t=p), 1 - np.arange(32) / 31
    best = ov.optimal_schedule(model, start, 3.0, knots=3 * (1 - x**3), initial=0.8 * x**9, maxiter=30)
    assert best.success and best.constant[1] == pytest.approx(0.0646063, rel=4e-5)
    assert best.value == pytest.approx(0.0342150, rel=4e-5)


def test_one_knot_is_the_best_constant_rate():
    """Against a scan by the adaptive integrator, and the derivative that vanishes there."""
    model, start = LINEAR, BEGIN
    best = ov.optimal_schedule(model, start, 10.0, knots=1)
    assert best.success and best.eta[0] == best.eta[1] == best.constant[0]
    assert best.value == pytest.approx(best.constant[1], rel=1e-6)  # on two grids
    etas = best.eta[0] * np.array([0.3, 0.9, 0.99, 1.0, 1.01, 1.1, 2.0])
    scan = ov.solve_many([model.replace(eta=eta) for eta in etas], start, [10.0]).eps_g[:, 0]
    assert np.argmin(scan) == 3 and scan[3] == pytest.approx(best.value, rel=1e-6)  # the tolerance of its grid
    slope = (scan[4] - scan[2]) / (0.02 * best.eta[0])
    assert abs(best.gradient[0]) < 1e-5 * best.value and abs(slope) < 1e-2 * best.value / best.eta[0]


@few(
    "objective, horizon, sets",
    [("final", 15.0, [7, 13]), ("final", 60.0, [6, 11, 21, 41]), ("mean", 60.0, [8, 15, 29])],
    quick=1,
)
def test_a_search_from_coarse_to_fine_ends_where_a_search_on_all_knots_does(objective, horizon, sets):
    """With fewer gradients; values agree to 1e-9, because the gradient is below 1e-6 of them at both ends."""
    problem = control.ControlProblem(PLATEAU, SYMMETRIC, horizon, sets[-1], objective)
    search, calls = optimal._Search(problem, (0.0, np.inf), 1), []
    assert [level.size for level in optimal.nested(sets[-1])] == sets
    assert all(set(a) < set(b) for a, b in itertools.pairwise(optimal.nested(sets[-1])))
    gradient = problem.gradient
    problem.gradient = lambda *x: calls.append(1) or gradient(*x)
    starts = [np.full(sets[-1], search.constant()[0]), np.ones(sets[-1])]
    value, factors, slope, history = search.from_coarse_to_fine(starts, 1e-6, 500, None)
    fewer, known = len(calls), [search.from_coarse_to_fine([u], 1e-6, 500, None) for u in starts]
    assert np.max(np.abs(slope)) < 1e-6 * value and history[-1] == pytest.approx(value, rel=1e-12)
    assert value == pytest.approx(min(end[0] for end in known), rel=1e-9) and fewer < len(calls) - fewer
    np.testing.assert_allclose(factors[5:-5], min(known, key=lambda end: end[0])[1][5:-5], atol=0.02)
