"""Steps in bursts of compiled code, with Python's eyes on the steps that are worth a look."""

from time import perf_counter

import numpy as np

from .._base.tiers import at_hand, spent
from ..activations.bound import CLOSURE
from ..flow import FLOW
from ..flow.system import rates
from . import _bdf, _dop853
from ._dop853 import ROWS
from ._steps import LARGEST, VANISHED, ready
from .run import excused

FIRST, PATIENCE = 120, 0.1  # evaluations to the first look, seconds to any other
ROOM = 250_000  # numbers in the records between two looks
LEAST = 30  # evaluations of the shortest run that is worth a thought: fewer are two steps of DOP853


def pieces(pace):
    """Pieces of schedules and their knots as compiled steps take them: none where nothing changes."""
    whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    return (whole, whole, whole, real, real) if pace is None else (*pace.program.arrays, np.array(pace.knots))


def _paced(system):
    """What ``march`` knows of the schedules of a system."""
    driving = np.ones(5), np.empty_like(system.A), np.empty_like(system.B), np.empty_like(system.dv)
    return *pieces(system.pace), *(float(x) for x in system.model.weight_decay), driving


class Burst:
    """Steps of a solver through all ``stops``, the output times of ``run`` and knots, by its method ``step``.

    Worth a look are the last step, a step that may be a reason to stop, such as eps_g at or below ``level`` (every step
    if it is nan), and one in a while: for a key that was pressed, and for a progress bar.  A subclass for each solver
    prepares its arrays (``clock``, ``place``, ``y``, ``y_old``, ``out``) and calls its ``march``.
    """

    patience: float  # seconds that a process spends without compilation before steps of this kind are compiled
    marches: tuple  # compiled functions of the steps, with their signatures
    begun: set  # pairs of flow and closure with which such steps were made
    clock: np.ndarray
    place: np.ndarray
    y: np.ndarray
    y_old: np.ndarray

    def __init__(self, solver, run, largest, level, stops, first_step=None):
        self.solver, self.run, self.first_step = solver, run, first_step or 0.0
        self.budget = self.pause(FIRST)
        system, model = solver.system, solver.system.model
        self.constants = (
            model.K, model.teacher_activation.code, model.eta, model.eta_v, model.noise, system.s, system.p,
            np.array(system.source), system.decay, system.decay_v, rates(model)[-1], model.trains_v, model.drift,
            system.closure.gradient_rate,
        )  # fmt: skip
        self.work = system.S, system.w, system.A, system.B, system.C, system.dv, system.dS, system.dw
        self.control = *solver.asked, float(solver.max_step), largest, bool(model.activation.kinks), level
        self.control += (excused(self.control[0]) if system.cone is None else system.cone.slack,)
        self.wanted = None if run.every_step or len(stops) == len(run.times) else {*run.times.tolist()}
        self.out, self.stops = np.empty((min(ROOM // solver.n, 1000), solver.n + 2)), (stops, run.every_step)
        self.kernels = system.flow, solver.kernel
        self.prepare()
        self.begun.add(self.kernels)

    @classmethod
    def pays(cls, solver):
        """Whether compiled steps are at hand, or worth compiling: for what was spent, or will be in the first steps."""
        if (solver.system.flow, solver.kernel) in cls.begun:
            return True
        kernels = (solver.system.flow, FLOW.args), (solver.kernel, CLOSURE.args), *cls.marches
        dear = LEAST * getattr(solver.kernel, "last", 0.0) > cls.patience
        return cls.due() or dear or all(at_hand(*kernel) for kernel in kernels)

    @classmethod
    def due(cls):
        """Whether so much was spent without compiled steps that they are worth compiling."""
        return not spent.patient or spent.seconds > cls.patience

    def step(self):
        """Steps up to one that is worth a look, all but this one recorded; a sentence on failure."""
        solver, began, spent = self.solver, perf_counter(), self.place[2]
        system, (S, _, *rest) = solver.system, self.work
        self.work = S, system.closure.extended(system.w), *rest
        try:
            code = self.march()
        finally:  # an interruption arrives here
            for row in self.out[: self.place[1]]:
                if self.wanted is None or row[-1] in self.wanted:
                    self.run.record(row[-1], row[:-2], row[-2])
            self.place[1] = 0
            solver.t, solver.t_old = float(self.clock[0]), float(self.clock[3])
            solver.error, solver.nfev = float(self.clock[2]), int(self.place[2])
            solver.y = self.y.copy()
        speed = (solver.nfev - spent) / max(perf_counter() - began, 1e-9)
        self.budget = self.pause(int(np.clip(PATIENCE * speed, 12, LARGEST)))
        return solver.TOO_SMALL_STEP if code == VANISHED else None

    def pause(self, budget):
        """Evaluations to the next look: rules of quadrature are tested in Python, after every step or now and then."""
        closure = self.solver.system.closure
        return 1 if closure.by_quadrature else min(budget, closure.period or budget)

    def prepare(self):
        """Arrays that are kept between calls."""
        raise NotImplementedError

    def march(self):
        """Steps until one is worth a look; how they came back."""
        raise NotImplementedError

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        raise NotImplementedError

    @property
    def before(self):
        """Time and state before the last step."""
        return float(self.clock[3]), self.y_old.copy()


class RungeKutta(Burst):
    """Steps of ``DOP853``, onto all stops."""

    patience = 1.3
    marches = (_dop853.march, _dop853.SIGNATURE), (_dop853.begin, _dop853.BEGIN)
    begun = set()

    def prepare(self):
        """Arrays that are kept between calls."""
        n, solver = self.solver.n, self.solver
        ready(*self.kernels, _dop853.march, _dop853.SIGNATURE)
        begun = solver.t > self.run.times[0]  # steps were made without compilation
        self.clock = np.array([solver.t, self.first_step, solver.error, solver.t])
        due = np.searchsorted(self.stops[0], solver.t, side="right")
        self.place = np.array([due, 0, solver.nfev if begun else 0])
        self.y, self.y_old = np.array(solver.y), np.array(solver.y)
        new, k, pace = np.empty(n), np.zeros((ROWS, n)), _paced(solver.system)
        self.fixed = self.control, *self.stops, pace
        self.moving = self.y, self.y_old, new, k, self.clock, self.out, self.place
        if begun:
            k[0] = solver.f
        elif not self.first_step:
            ready(*self.kernels, _dop853.begin, _dop853.BEGIN)
            system, (S, _, *rest), t, end = solver.system, self.work, solver.t, self.run.times[-1]
            work = S, system.closure.extended(system.w), *rest
            self.clock[1] = _dop853.begin(
                *self.kernels, self.constants, work, self.control, pace, end - t, t, self.y, new, k
            )
            self.place[2] = 2

    def march(self):
        """Steps until one is worth a look; how they came back."""
        return _dop853.march(*self.kernels, self.constants, self.work, *self.fixed, self.budget, *self.moving)

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        self.y[:], self.moving[3][0] = y, self.solver.system.rhs(self.solver.t, y)


class Backward(Burst):
    """Steps of ``StructuredBDF``; stops are interpolated."""

    patience = 4.0
    marches = (_bdf.march, _bdf.SIGNATURE), (_bdf.newton_iteration, _bdf.ITERATE)
    begun = set()

    def prepare(self):
        """Arrays that are kept between calls."""
        solver = self.solver
        L, K, M = solver.system.shape
        ready(*self.kernels, _bdf.newton_iteration, _bdf.ITERATE)
        ready(*self.kernels, _bdf.march, _bdf.SIGNATURE)
        self.rows, self.D = np.zeros((9, solver.n)), np.array(solver.D)
        self.y, self.y_old, self.new = self.rows[:3]
        self.y[:], self.rows[_bdf.SHARES] = solver.y, solver.shares
        self.clock = np.array([solver.t, solver.h_abs, solver.error, solver.t, 0.0, solver.t, solver.t, *np.zeros(5)])
        due = np.searchsorted(self.stops[0], solver.t, side="right")
        self.place = np.array([due, 0, solver.nfev, solver.order, solver.n_equal_steps, 0, 0, solver.nlu])
        self.newton, blocks = solver.J.rotated.room(), (np.empty((K, M, L)), np.empty((K, K, L)))
        self.pace = _paced(solver.system)
        self.moving = self.rows, self.D, blocks, self.clock, self.out, self.place

    def march(self):
        """Steps until one is worth a look; how they came back."""
        solver = self.solver
        while True:
            rotated, self.clock[_bdf.BOUND :] = solver.J.rotated, (solver.t_bound, solver.system.edge, *solver.paced)
            code = _bdf.march(
                _bdf.newton_iteration, *self.kernels, self.constants, self.work, self.control, self.pace,
                rotated.spectrum, rotated.frozen, self.newton, solver.tolerances, *self.stops, self.budget,
                *self.moving,
            )  # fmt: skip
            solver.h_abs, solver.order, solver.nlu = float(self.clock[1]), int(self.place[3]), int(self.place[7])
            solver.D[:] = self.D
            if code != _bdf.NEW_JACOBIAN:
                return code
            solver.y = self.y
            solver.J = solver.jac(self.clock[6], self.new)

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        self.y[:] = self.D[0] = y
