"""Monitors of a run, one by one, on steps that are given: what they answer, and what the run records of it."""

from types import SimpleNamespace

import numpy as np
import pytest

import overlaps as ov
from overlaps.flow.psd import PSDProjection
from overlaps.flow.system import System
from overlaps.integrators import monitors
from overlaps.integrators.dop853 import DOP853
from overlaps.integrators.failure import Failure
from overlaps.integrators.monitors import Angles, Leave, Output, Progress, Projection, Slow, Stop
from overlaps.integrators.run import Run, integrate
from overlaps.integrators.solver import Traits
from overlaps.integrators.stop import Crossing

TOLERANCES = {"rtol": 1e-8, "atol": 1e-12}


def system_of(Q, R, activation=ov.erf):
    model = ov.committee_machine(2, 2, activation=activation, eta=0.3)
    system = System(model, ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(2)))
    return system, system.pack(system.start)


def step(t, y=(), **other):
    usual = {"error": 0.0, "failure": None, "before": (0.0, None), "traits": Traits()}
    return SimpleNamespace(**{"t": t, "y": np.asarray(y)} | usual | other)


def test_failure_names_the_last_time_that_was_right():
    system, y = system_of(0.5 * np.eye(2), 0.1 * np.eye(2))
    failure = Failure(system, TOLERANCES, y)
    good, bad = (failure.after_step(step(3.0, c * y, before=(2.5, y))) for c in (1.0, 1e11))
    assert good is None
    assert (
        not bad.success and bad.until == 2.5 and bad.message.startswith("stopped at alpha = 2.5: the overlaps diverge")
    )


def test_projection_changes_only_what_is_outside():
    system, inside = system_of(0.5 * np.eye(2), 0.1 * np.eye(2))
    monitor = Projection(PSDProjection(system, flat=False))
    system.close(inside)
    assert monitor.after_step(step(1.0, inside)) is None
    outside = inside.copy()
    outside[: system.shape[1] * system.shape[2]] *= 10.0  # R_11^2 > Q_11 T_11
    system.close(outside)
    projected = monitor.after_step(step(1.0, outside))
    system.close(projected)
    assert np.linalg.eigvalsh(system.S)[0] > -1e-14


def test_angles_hold_the_smallest_one_and_where_it_was():
    angles = None
    for at, c in ((1.0, 0.3), (2.0, 0.45), (3.0, 0.4)):
        system, y = system_of([[0.5, c], [c, 0.5]], 0.1 * np.eye(2), ov.relu)
        angles = angles or Angles(system)
        angles.system = system
        system.close(y)
        assert angles.after_step(step(at, y)) is None
    assert angles.nearest[0] == pytest.approx(1 - 0.9**2, rel=1e-12) and angles.nearest[1] == 2.0
    assert not Angles(system_of(0.5 * np.eye(2), 0.1 * np.eye(2))[0]).watches  # smooth units


def test_crossing_is_located_in_the_last_step():
    system, y = system_of(0.5 * np.eye(2), 0.1 * np.eye(2))
    crossing = Crossing(system, lambda alpha, state: alpha**2 - 2.0, 0.0, y)
    assert crossing.after_step(step(1.0, y)) is None
    stop = crossing.after_step(step(2.0, y, before=(1.0, y), inside=lambda: lambda t: y))
    assert stop.success and stop.until == pytest.approx(np.sqrt(2), rel=1e-12) and stop.state_at is not None


def test_leave_keeps_the_state_at_which_it_leaves():
    leave = Leave(lambda y: y[0] > 1.0)
    assert leave.after_step(step(1.0, [0.5])) is None
    stop = leave.after_step(step(2.0, [1.5], at=lambda t: np.array([1.5])))
    assert stop.left and stop.success and stop.until == 2.0


def test_output_records_requested_times_in_order_and_nothing_behind_a_stop():
    run = Run(np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    run.record(0.0, np.zeros(1))
    output = Output(run)
    output.rows.append(np.array([[5.0, 0.1, 1.0]]))
    output.after_step(step(2.5, [2.5], at=lambda t: np.array([t])))
    assert run.alpha == [0.0, 1.0, 2.0] and run.error == [0.0, 0.1, 0.0]
    output.rows.append(np.array([[5.0, 0.1, 3.0], [5.0, 0.1, 4.0]]))
    output.finish(step(4.5), Stop("", until=3.5, state_at=lambda t: np.array([t])))
    assert run.alpha == [0.0, 1.0, 2.0, 3.0, 3.5] and not output.rows
    output.rows.append(np.array([[5.0, 0.1, 4.0]]))
    output.finish(step(4.5), Stop("", until=3.7))
    assert run.alpha[-1] == 3.5


def test_progress_is_called_with_the_time():
    seen = []
    Progress(seen.append).after_step(step(1.5))
    assert seen == [1.5]


def test_slow_warns_once_of_steps_that_do_not_grow(monkeypatch):
    monkeypatch.setattr(monitors, "SLOW", monitors.SLOW._replace(min_seconds=0.0))
    slow = Slow(np.array([0.0, 1e9]))
    with pytest.warns(RuntimeWarning, match="steps at alpha = 2 are shorter"):
        for n in range(6):
            slow.after_step(step(float(n), nfev=600 * n))
    growing = Slow(np.array([0.0, 1e9]))
    for n in range(6):
        growing.after_step(step(10.0**n, nfev=600 * n))  # warnings are errors in these tests


def test_a_run_continues_from_the_state_that_a_monitor_returns():
    """A projection that halves the state at its first step: the run goes on from there."""

    class Halved:
        slack = 1e-7

        def __init__(self):
            self.times = iter([True])

        def needs_projection(self):
            return next(self.times, False)

        def project(self, y):
            return y / 2

    system, y = system_of(0.5 * np.eye(2), 0.1 * np.eye(2))
    system.psd = Halved()
    times = np.array([0.0, 1.0])
    run = integrate(system, y, times, every_step=False, method=DOP853, options=TOLERANCES)
    system.psd = None
    plain = integrate(system, y / 2, times, every_step=False, method=DOP853, options=TOLERANCES)
    np.testing.assert_array_equal(run.y[-1], plain.y[-1])  # projected before the first step
