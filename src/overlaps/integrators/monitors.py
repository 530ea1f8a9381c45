"""Monitors of a run: small objects that look at the end of every step, in the order in which ``run`` lists them.

``after_step(integrator)`` returns None to continue, a packed state to continue from in place of the last one, or a
``Stop``.  A step in compiled code that no monitor needs to see is not shown to them (``_steps.needs_check``): they see
the last step before each return to Python.
"""

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._base import check, warn
from ._steps import STEP_CHECKS


class Stop(NamedTuple):
    """The end of a run: a message, and the time up to which records are kept, with the state there if it is one."""

    message: str
    success: bool = False
    until: float = np.inf
    state_at: Any = None  # function of time in the last step, for records up to ``until`` and there
    left: bool = False  # the problem is to be continued in other variables


class Monitor(ABC):
    """Something that looks at the end of each step."""

    @abstractmethod
    def after_step(self, integrator) -> "np.ndarray | Stop | None":
        """Continue (None), continue from another state, or stop."""


class SlowOptions(NamedTuple):
    """Tunable numbers of the warning about a slow run."""

    # A run is slow if its steps are shorter than this fraction of the interval, on average over ``window`` evaluations,
    # and it has taken ``min_seconds``, in which most runs end. Larger: runs that are not slow cause a warning; smaller:
    # runs of a million steps cause none.
    slow_step: float = 1e-6
    window: int = 600
    evaluations_per_step: int = 12  # evaluations in a step of DOP853
    min_seconds: float = 10.0


SLOW = SlowOptions()


class Slow(Monitor):
    """Warns, once, of a run of some fifty steps that do not grow, and of which a million would reach the end."""

    def __init__(self, times):
        self.span, self.began = times[-1] - times[0], perf_counter()
        self.marks: Any = ()  # (evaluations, alpha) every ``window`` evaluations; None after the warning

    def after_step(self, integrator):
        """Warn if two windows in turn are short."""
        alpha, nfev = integrator.t, integrator.nfev
        if self.marks is None or (self.marks and nfev - self.marks[-1][0] < SLOW.window):
            return
        self.marks = [*self.marks[-2:], (nfev, alpha)]
        if len(self.marks) < 3 or perf_counter() - self.began < SLOW.min_seconds:
            return
        before, now = np.diff([at for _, at in self.marks])
        slow = SLOW.slow_step * SLOW.window / SLOW.evaluations_per_step * self.span
        if now <= min(2 * before, slow):
            self.marks = None
            warn(
                f"steps at alpha = {alpha:.6g} are shorter than {SLOW.slow_step:g} of the interval and do not grow: "
                f"{SLOW.window} evaluations brought {now:.1g}." + check.see("integration", "Failed runs")
            )


class Projection(Monitor):
    """Projects the overlaps of a singular start onto the positive semi-definite matrices."""

    def __init__(self, psd):
        self.psd = psd

    def after_step(self, integrator):
        """The projected state, if the last one may need it."""
        return self.psd.project(integrator.y) if self.psd.needs_projection() else None


class AngleOptions(NamedTuple):
    """Tunable numbers of the angles of kinked students."""

    # Sine^2 of the angle of two kinked students below which a run is repeated with norms perturbed by rtol, and a start
    # takes a short first step. Larger angles are resolved by steps of the usual length.
    parallel_sine2: float = STEP_CHECKS.parallel_sine2


ANGLES = AngleOptions()


class Angles(Monitor):
    """Stores the state in which two kinked students are most nearly parallel."""

    def __init__(self, system):
        self.system = system
        self.last: Any = ()  # sine^2 of all angles at the last step, alpha, packed state
        self.nearest: Any = (np.inf, 0.0, None)  # smallest sine^2, alpha, packed state
        K, _ = system.unit_fields(system.S)
        self.watches = K > 1 and system.closure.kinked
        self.pairs = np.triu_indices(K, 1) if self.watches else ((), ())

    def after_step(self, integrator):
        """Compare the angles at the last evaluation of the closure with the smallest ones so far."""
        if not self.watches:
            return
        (_, Q), (i, j) = self.system.unit_fields(self.system.S), self.pairs
        sines = np.abs(1 - Q[i, j] ** 2 / np.maximum(Q[i, i] * Q[j, j], np.finfo(float).tiny))
        units = self.system.duplicate_units
        if units is not None:  # they stay parallel, up to rounding
            sines[units.first[i] == units.first[j]] = 0.0
        # students whose overlaps are equal to the last bit may stay so, unless rounding separates them
        before, self.last = self.last, (sines, float(integrator.t), integrator.y.copy())
        if before and np.any((before[0] == 0) & (sines > 0)):
            self.nearest = (0.0, *before[1:])
        elif np.any(sines > 0) and sines[sines > 0].min() < self.nearest[0]:
            self.nearest = (float(sines[sines > 0].min()), *self.last[1:])

    def first_step_factor(self, rtol):
        """Factor on the first step, below 1 if kinked students are parallel at the start.

        The flow is as smooth as their angle, which grows like the root of time; error estimates from longer steps miss
        this. The error of a step h is of order h^(3/2) there, so steps shorter than rtol^(2/3) gain nothing.
        """
        if not self.watches:
            return 1.0
        sines = self.last[0] if self.system.duplicate_units is None else self.last[0][self.last[0] > 0]
        smallest = np.min(sines, initial=1.0)
        return 1.0 if smallest > ANGLES.parallel_sine2 else max(smallest, rtol ** (2 / 3))


class Leave(Monitor):
    """Ends a run after the first step at which a function of the state is true."""

    def __init__(self, leave):
        self.leave = leave

    def after_step(self, integrator):
        """Stop where the problem can be continued in other variables."""
        if self.leave(integrator.y):
            return Stop("", success=True, until=integrator.t, state_at=integrator.at, left=True)
        return None


class Output(Monitor):
    """Records a run: the rows of compiled steps, and the output times in the last step."""

    def __init__(self, run):
        self.run, self.rows = run, []  # arrays of rows (y, error, t) that compiled steps have passed

    def after_step(self, integrator):
        """Record what the steps have passed."""
        self.flush()
        self.run.record_until(integrator.t, integrator.at, integrator.error)

    def finish(self, integrator, stop):
        """Record up to the end of the run."""
        self.flush(stop.until)
        if stop.state_at is not None:
            self.run.record_until(stop.until, stop.state_at, integrator.error, end=True)

    def flush(self, until=np.inf):
        """Record the rows up to a time, and forget all."""
        for rows in self.rows:
            self.run.record_rows(rows if until >= rows[-1, -1] else rows[rows[:, -1] <= until])
        self.rows.clear()


class Progress(Monitor):
    """Calls a function with the time after each step."""

    def __init__(self, tick):
        self.tick = tick

    def after_step(self, integrator):
        """Call it."""
        self.tick(integrator.t)
