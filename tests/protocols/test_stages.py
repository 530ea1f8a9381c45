"""Schedules over several tasks: gradients through the switches against differences, values against solutions."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov

# two tasks of three teachers: noise, eigenvalues, decay, batches and the teachers' activation change at the switch
COMMON = {"eta": 0.7, "eta_v": 0.4}
FIRST = ov.committee_machine(
    2, 3, v_star=[1.0, 0.0, 0.5], noise=0.3, spectrum=ov.Spectrum(s=[2.0, 0.6], p=[0.3, 0.7]), **COMMON
)
SECOND = ov.committee_machine(
    2, 3, v_star=[0.0, 1.0, -0.3], batch_size=2, weight_decay=(0.05, 0.1),
    spectrum=ov.Spectrum(s=[0.5, 1.1], p=[0.3, 0.7]), **COMMON,
)  # fmt: skip
THIRD = dataclasses.replace(FIRST, noise=0.0, drift=0.1)
UNTIL = [1.5, 2.5, 4.0]
HEADS = np.array([[1.0, 0.6], [0.7, -0.4], [0.5, 1.2]])
START = dataclasses.replace(FIRST.random_start(N=30_000, rng=3, student_scale=0.5), alpha=0.5)
KNOTS, VALUES = 0.5 + np.array([0.0, 0.7, 2.0, 3.0]), np.array([1.0, 1.6, 0.4, 0.6])


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["final", "mean"])
@pytest.mark.parametrize("heads", [None, HEADS], ids=["one readout", "heads"])
def test_gradients_through_switches_against_differences(heads, objective):
    """From inside the first stage to inside the third one; switches are no knots, rates and eigenvalues jump there."""
    stages = ov.Stages([FIRST, SECOND, THIRD], UNTIL, heads)

    def value(u):
        return ov.schedule_gradient(stages, START, ov.Schedule(KNOTS, u), 3.0, objective=objective)[0]

    found, gradient = ov.schedule_gradient(stages, START, ov.Schedule(KNOTS, VALUES), 3.0, objective=objective)
    differences, h = [], 0.01
    for unit in np.eye(4):
        terms = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
        total = sum(c * (value(VALUES + j * h * unit) - value(VALUES - j * h * unit)) for j, c in terms)
        differences.append(total / h / FIRST.eta)
    # sixth order; the number of steps does not change with these rates; rounding 1e-16 / h
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-9 * np.abs(gradient).max())
    times = np.linspace(0.5, 3.5, 3001) if objective == "mean" else [3.5]
    solved = ov.solve(stages, START, times, schedule=ov.Schedule(KNOTS, VALUES), rtol=1e-10)
    # the mean by the trapezoidal rule of step 1e-3; eps_g jumps at the two switches, where it is wrong by half a step
    wanted, rtol = (solved.eps_g[-1], 1e-6) if objective == "final" else (np.trapezoid(solved.eps_g, times) / 3, 1e-3)
    assert found == pytest.approx(wanted, rel=rtol)


def two_linear_tasks(eta_v):
    """Noise, task and eigenvalues differ, one is 0 in both; the student knows a little of both teachers."""
    common = {"activation": ov.linear, "eta": 0.6, "eta_v": eta_v}
    tasks = [
        ov.committee_machine(1, 2, noise=sigma, v_star=v_star, spectrum=ov.Spectrum(s, [0.3, 0.5, 0.2]), **common)
        for sigma, v_star, s in ((0.5, [0.9, 0.2], [2.0, 0.6, 0]), (0.2, [-0.3, 1.1], [0.5, 1.3, 0]))
    ]
    return tasks, ov.State.from_blocks(
        tasks[0],
        q=[[[0.3]], [[0.4]], [[0.2]]],
        r=[[[0.1, -0.2]], [[0.2, 0.3]], [[0.1, 0.05]]],
        t=[0.3 * np.eye(2), 0.8 * np.eye(2), 0.4 * np.eye(2)],
    )


@pytest.mark.parametrize("heads", [None, [[0.8], [-0.5]]], ids=["one readout", "heads"])
def test_values_and_slopes_of_two_linear_tasks(heads):
    """At a switch that is no knot."""
    tasks, start = two_linear_tasks(0.0 if heads is None else 0.3)
    stages, knots, u = ov.Stages(tasks, [1.3, 3.0], heads), np.array([0.0, 0.8, 2.1]), np.array([1.1, 0.5, 0.8])
    times = np.unique(np.r_[np.linspace(0.0, 2.1, 1501), 1.3 - 1e-12, 1.3])  # eps_g jumps there
    solved = ov.solve(stages, start, times, schedule=ov.Schedule(knots, u), rtol=1e-10).eps_g
    # the trapezoidal rule of step 1.4e-3 leaves its square
    for objective, wanted in (("final", solved[-1]), ("mean", np.trapezoid(solved, times) / 2.1)):
        value = lambda x: ov.schedule_gradient(stages, start, ov.Schedule(knots, x), 2.1, objective=objective)  # noqa: B023, E731
        assert value(u)[0] == pytest.approx(wanted, rel=1e-5)
        along, h = np.array([0.3, -0.7, 0.4]), 1e-3
        slope = (value(u + h * along)[0] - value(u - h * along)[0]) / (2 * h)
        # differences of second order, h^2 times third derivatives; rounding 1e-13
        assert 0.6 * value(u)[1] @ along == pytest.approx(slope, rel=1e-5)


@pytest.mark.slow
def test_the_best_rate_of_two_noisy_tasks_beats_every_constant():
    """Linear units, two teachers: the closed form of one task bounds what is possible at the end of the second."""
    tasks = [
        ov.committee_machine(1, 2, activation=ov.linear, eta=0.5, noise=0.5, v_star=v_star)
        for v_star in ([1.0, 0.0], [0.0, 1.0])
    ]
    start = ov.State.from_overlaps(tasks[0], Q=[[0.1]], R=[[0.1, 0.05]], T=np.eye(2))
    stages = ov.Stages(tasks, until=[5.0, 15.0])
    best = ov.optimal_schedule(stages, start, 15.0, knots=[0.0, 2.5, 5.0, 5.01, *np.linspace(6.0, 15.0, 10)])
    assert best.success and best.value < 0.9 * best.constant[1]
    assert best.value == pytest.approx(best.trajectory.eps_g[-1], rel=1e-6)
    # no more than from the first task's start to the second teacher at once, whose m0 is 1.0: rates of the first stage
    # do not help; and with m = Q - 2 R_2 + T_22 at the switch the closed form holds from there
    state = best.trajectory.at(5.0)
    m = state.Q[0, 0] - 2 * state.R[0, 1] + 1.0
    bound = ov.theory.linear.optimal_error(10.0, m0=m, noise=0.5)
    assert bound <= best.value < 1.001 * bound  # ten knots


def test_the_greedy_rate_of_each_task_is_that_of_its_own_error():
    """Linear units: m / (m + noise^2) with m = Q - 2 R_i + T_ii of the task of the moment, which jumps at a switch."""
    tasks = [
        ov.committee_machine(1, 2, activation=ov.linear, eta=0.5, noise=0.5, v_star=v_star)
        for v_star in ([1.0, 0.0], [0.0, 1.0])
    ]
    start = ov.State.from_overlaps(tasks[0], Q=[[0.1]], R=[[0.1, 0.05]], T=[[1.0, 0.2], [0.2, 0.8]], alpha=1.0)
    stages = ov.Stages(tasks, until=[5.0, 12.0])
    greedy = ov.greedy_schedule(stages, start, 9.0, knots=np.unique(np.r_[np.linspace(0, 9, 181), 4 - 1e-9]))
    traj = ov.solve(stages, start, greedy.knots, schedule=greedy)
    m = np.array([s.Q[0, 0] - 2 * s.R[0, i] + s.T[i, i] for s, i in zip(traj, traj.stage, strict=True)])
    # the lines between knots 0.05 apart miss the path of the greedy rate itself by the square of that
    np.testing.assert_allclose(0.5 * greedy(greedy.knots), m / (m + 0.25), rtol=1e-3)
    assert greedy(5.0) > 2 * greedy(5.0 - 1e-9)


def test_the_greedy_rate_after_a_switch_begins_where_the_new_stage_does():
    """With a head and eigenvalues of its own: the state that a solution under the schedule has there."""
    tasks, start = two_linear_tasks(0.3)
    stages = ov.Stages(tasks, [0.1, 3.0], [[0.8], [-0.5]])
    greedy = ov.greedy_schedule(stages, start, 0.11, knots=np.r_[np.linspace(0, 0.09, 10), 0.1 - 1e-9, 0.1, 0.11])
    state = ov.solve(stages, start, [0.1], schedule=greedy)[-1]
    assert state.v[0] == -0.5
    # lines between knots 0.01 apart miss the path of the greedy rate by the square of that
    expected = ov.greedy_schedule(stages.models[1], state, 0.01, knots=2)(0.1)
    assert greedy(0.1) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "models, heads, words",
    [
        ([FIRST, dataclasses.replace(FIRST, eta=0.5)], None, "the stages differ in eta"),
        ([FIRST, dataclasses.replace(FIRST, eta_v=0.0)], None, "v is trained in some stages only"),
    ],
)
def test_stages_that_one_factor_cannot_serve(models, heads, words):
    with pytest.raises(ValueError, match=words):
        ov.optimal_schedule(ov.Stages(models, [1.0, 2.0], heads), dataclasses.replace(START, alpha=0.0), 2.0)
