"""Steps of DOP853 in bursts of compiled code, with Python's eyes on the steps that are worth a look."""

from time import perf_counter

import numpy as np

from ..flow.system import rates
from ._dop853 import LARGEST, march, ready

FIRST, PATIENCE = 120, 0.1  # evaluations to the first look, seconds to any other
ROOM = 10**6  # numbers in the records between two looks


def _paced(system):
    """Pieces of the schedules of a system, as ``march`` takes them: none where nothing changes."""
    whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    pace = system.pace
    if pace is None:
        return whole, whole, whole, real, real, 0.0, 0.0
    model = system.model
    return *pace.program.arrays, np.array(pace.knots), *(float(x) for x in model.weight_decay)


class Burst:
    """Steps of a solver ``DOP853`` onto all ``stops``, the output times of ``run`` and knots, by its method ``step``.

    Worth a look are the last step, a step that may be a reason to stop, such as eps_g at or below ``level`` (every step
    if it is nan), and one in a while: for a key that was pressed, and for a progress bar.
    """

    def __init__(self, solver, run, largest, level, stops, first_step=None):
        self.solver, self.run, self.budget = solver, run, FIRST
        system, model = solver.system, solver.system.model
        constants = (
            model.K, model.teacher_activation.code, model.eta, model.eta_v, model.noise, np.array(model.spectrum.s),
            np.array(model.spectrum.p), np.array(system.source), system.decay, system.decay_v,
            rates(model)[-1], model.trains_v,
        )  # fmt: skip
        work = system.S, system.w, system.A, system.B, system.C, system.dv, system.dS, system.dw
        kinked = bool(model.activation.kinks)
        control = solver.rtol, float(solver.base_atol), float(solver.max_step), largest, kinked, level
        k = np.zeros((solver.n_stages + 1, solver.n))
        self.clock = np.array([solver.t, first_step or 0.0, 0.0, solver.t])
        self.place = np.array([1, 0, 0])
        self.y, self.y_old = np.array(solver.y), np.array(solver.y)
        self.wanted = None if run.every_step or len(stops) == len(run.times) else {*run.times.tolist()}
        self.out = np.empty((min(ROOM // solver.n, 1000), solver.n + 2))
        self.fixed = ready(system.kernel), constants, work, control, stops, run.every_step, _paced(system)
        self.moving = self.y, self.y_old, np.empty(solver.n), k, self.clock, self.out, self.place

    def step(self):
        """Steps up to one that is worth a look, all but this one recorded; a sentence on failure."""
        solver, began, spent = self.solver, perf_counter(), self.place[2]
        try:
            stepped = march(*self.fixed, self.budget, *self.moving)
        finally:  # an interruption arrives here
            for row in self.out[: self.place[1]]:
                if self.wanted is None or row[-1] in self.wanted:
                    self.run.record(row[-1], row[:-2], row[-2])
            self.place[1] = 0
            solver.t, solver.error, solver.nfev = float(self.clock[0]), float(self.clock[2]), int(self.place[2])
            solver.y = self.y.copy()
        speed = (solver.nfev - spent) / max(perf_counter() - began, 1e-9)
        self.budget = int(np.clip(PATIENCE * speed, 12, LARGEST))
        return None if stepped else solver.TOO_SMALL_STEP

    @property
    def before(self):
        """Time and state before the last step."""
        return float(self.clock[3]), self.y_old.copy()
