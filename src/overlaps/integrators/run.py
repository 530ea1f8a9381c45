"""A run: the loop over the steps of an integrator, the monitors that look at each, and the records."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .failure import Failure
from .integrator import Integrator
from .monitors import Angles, Leave, Output, Progress, Projection, Slow, Stop
from .stop import Crossing


@dataclass
class Run:
    """Request of an integration, and its result: times, packed states, and how it ended."""

    times: np.ndarray
    every_step: bool = False
    keep: Any = np.array  # function of a packed state that is recorded: a copy, or its sums over blocks
    alpha: list = field(default_factory=list)
    y: list = field(default_factory=list)
    error: list = field(default_factory=list)  # accumulated error of eps_g, relative to it, by the solver's estimates
    late: list = field(default_factory=list)  # eps_g and its floor in other variables, nan in these; or empty
    parallel: tuple = (np.inf, 0.0, None)  # smallest sine^2 of the angle of kinked students, alpha, packed state
    success: bool = False
    interrupted: bool = False
    message: str = ""
    nfev: int = 0
    left: bool = False

    def record(self, alpha, y, error=0.0):
        """Record one point."""
        self.alpha.append(float(alpha))
        self.y.append(self.keep(y))
        self.error.append(float(error))

    def record_rows(self, rows):
        """Record rows (y, error, t) of an array that nobody will change."""
        self.alpha += rows[:, -1].tolist()
        self.y += [*rows[:, :-2]] if self.keep is np.array else map(self.keep, rows[:, :-2])
        self.error += rows[:, -2].tolist()

    def record_until(self, t, at, error=0.0, *, end=False):
        """Record ``at(time)`` at the output times since the last record, and at t with ``end`` or ``every_step``."""
        times = self.times[(self.times > self.alpha[-1]) & (self.times <= t)].tolist()
        if (end or self.every_step) and t not in times and t > self.alpha[-1]:
            times.append(t)
        for time in times:
            self.record(time, at(time), error)

    def join(self, other, y, late):
        """Append another run to the last record, which stays only if it was requested."""
        n = len(self.alpha) - (not self.every_step and self.alpha[-1] not in self.times)
        self.late = self.late or [(np.nan, np.nan)] * len(self.alpha)
        for values, new in ((self.alpha, other.alpha), (self.y, y), (self.error, other.error), (self.late, late)):
            values[n:] = new[1:]
        self.success, self.message, self.left = other.success, other.message, other.left
        self.nfev += other.nfev


def integrate(system, y0, times, *, every_step, method, options, stop=None, leave=None, tick=None, keep=np.array):
    """Integrate through ``times`` and record there, or at every step of the solver.

    ``leave(y)`` ends the run after the first step at which it is true: the problem is then continued in other
    variables.

    Steps end at output times unless the solver interpolates (``Traits``): SciPy's dense output would limit eps_g to
    about 1e-8.
    """
    run = Run(times, every_step, keep)
    run.record(times[0], y0)
    crossing = None if stop is None else Crossing(system, stop, times[0], y0)
    if crossing is not None and crossing.met:
        run.success, run.message = True, f"stop condition met at the start, alpha = {times[0]:g}."
        return run
    output, angles = Output(run), Angles(system)
    try:
        with np.errstate(all="ignore"):  # overflow is detected, with a message
            ended = _steps(system, y0.copy(), method, options, output, angles, crossing, leave, tick)
    except KeyboardInterrupt:
        run.interrupted = True
        ended = Stop(f"interrupted; the last recorded point is alpha = {run.alpha[-1]:g}.")
    run.success, run.message, run.left, run.parallel = ended.success, ended.message, ended.left, angles.nearest
    return run


def _steps(system, y, method, options, output, angles, crossing, leave, tick):
    """Make the integrator and the monitors, and step; return the ``Stop`` that ended the run."""
    run = output.run
    system.close(y)
    if system.psd is not None and system.psd.needs_projection():
        y = system.psd.project(y)
    integrator = Integrator(system, method, y, run.times, run.every_step, options, output.rows)
    system.close(y)
    angles.after_step(integrator)
    if integrator.traits.one_step and options.get("first_step") is None:
        integrator.shorten_first_step(angles.first_step_factor(options["rtol"]))
    failure = Failure(system, options, y)
    # compiled steps compare eps_g with the level: nan makes every step need a check, -inf none
    level = np.nan if leave is not None else -np.inf if crossing is None else crossing.level
    integrator.begin(failure.max_overlap, level)
    monitors: list[Any] = [Slow(run.times), failure, system.psd and Projection(system.psd), angles, crossing]
    monitors += [leave and Leave(leave), output, tick and Progress(tick)]
    monitors = [monitor for monitor in monitors if monitor is not None]
    try:
        return _end(integrator, monitors, output)
    except KeyboardInterrupt:
        output.flush(integrator.before[0])  # the monitors have not seen the last step
        raise


def _end(integrator, monitors, output):
    """Step to the last time, or until a monitor ends the run; return the ``Stop``."""
    run = output.run
    while integrator.t < run.times[-1]:
        integrator.step()
        run.nfev = integrator.nfev
        for monitor in monitors:
            answer = monitor.after_step(integrator)
            if isinstance(answer, Stop):
                output.finish(integrator, answer)
                return answer
            if answer is not None:
                integrator.put(answer)
    return Stop(end_sentence(run.times), success=True)


def end_sentence(times):
    """Message of a run that has reached its last time."""
    return f"reached alpha = {times[-1]:g}."
