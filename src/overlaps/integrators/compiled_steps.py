"""Steps in bursts of compiled code, with Python's eyes on the steps that are worth a look.

``run._drive`` steps any solver: step, look for trouble, watch, stop, record.  A ``CompiledSteps`` makes many steps of
that loop
in one call of a compiled ``advance`` and hands over the last one only.  The loop then treats it like a step of SciPy's:
it reads ``solver.t``, ``solver.y``, ``solver.nfev`` and ``solver.error``, which the burst has brought up to date.

Who owns what: the burst makes the arrays of the steps (``clock``, ``place``, ``y``, ``out``, and those of its solver)
and keeps them for the run; ``advance`` changes them; the system owns the work arrays (``System.work``), which hold the
last evaluation, whoever made it.  ``step`` empties ``out`` into the run's records, also when Ctrl-C ends it.

When Python is asked: ``_steps`` says for which steps.  The budget of evaluations between two looks begins at FIRST and
then follows the speed of the run, PATIENCE seconds apart.

When a burst begins: ``pays`` says whether its kernels are at hand, or whether the run is long enough to wait for them;
``due`` asks again before every step that was made without (``docs/design.md``, 'The first second').
"""

from time import perf_counter
from typing import Any

import numpy as np

from .._base.lazy_compilation import is_compiled, is_lazy, time_spent
from .._base.signatures import undisturbed
from ..activations.bound import CLOSURE
from ..flow import FLOW
from ..flow.jacobian import Equations
from ..flow.velocity import schedule_factors
from . import _bdf, _dop853
from ._steps import ACCOUNT, BEFORE, LARGEST, RECORDED, SPENT, VANISHED, Control, H, T, ready
from .run import allowed_negative_eigenvalue

# Evaluations to the first look, and seconds to any other.  Fewer cost time in Python, more let Ctrl-C wait.
FIRST, PATIENCE = 120, 0.1
ROOM = 250_000  # numbers in ``out``, 2 MB: with more records leave the caches, with fewer Python is asked more often
LEAST = 30  # evaluations: every run has as many, two steps of DOP853, so that dear kernels are compiled at the start


class CompiledSteps:
    """Steps of a solver through all ``stops``, the output times of ``run`` and knots, by its method ``step``.

    Worth a look are the last step, a step that may be a reason to stop, such as eps_g at or below ``level`` (every step
    if it is nan), and one in a while: for a key that was pressed, and for a progress bar.  A subclass for each solver
    prepares its arrays (``clock``, ``place``, ``y``, ``y_old``, ``out``) and calls its ``advance``.
    """

    threshold: float  # seconds that a process spends without compilation before steps of this kind are compiled
    compiled_functions: tuple  # compiled functions of the steps, with their signatures
    begun: set  # pairs of flow and closure with which such steps were made
    real_state: np.ndarray
    int_state: np.ndarray
    y: np.ndarray
    y_old: np.ndarray
    steps: Any  # the arrays of a run

    def __init__(self, solver, run, largest, level, stops, first_step=None):
        self.solver, self.run, self.first_step = solver, run, first_step or 0.0
        self.budget = self.pause(FIRST)
        system, (rtol, atol) = solver.system, solver.asked
        slack = allowed_negative_eigenvalue(rtol) if system.psd is None else system.psd.slack
        self.control = Control(rtol, atol, float(solver.max_step), largest, system.closure.kinked, level, slack)
        self.system = system.flow, solver.kernel, system.constants, schedule_factors(system)
        self.wanted = None if run.every_step or len(stops) == len(run.times) else {*run.times.tolist()}
        self.out, self.stops = np.empty((min(ROOM // solver.n, 1000), solver.n + 2)), (stops, run.every_step)
        self.prepare()
        self.begun.add(self.system[:2])

    @classmethod
    def pays(cls, solver):
        """Whether compiled steps are at hand, or worth compiling: for what was spent, or will be in the first steps."""
        if (solver.system.flow, solver.kernel) in cls.begun:
            return True
        kernels = (solver.system.flow, FLOW.args), (solver.kernel, CLOSURE.args), *cls.compiled_functions
        dear = LEAST * getattr(solver.kernel, "last", 0.0) > cls.threshold
        return cls.due() or dear or all(is_compiled(*kernel) for kernel in kernels)

    @classmethod
    def due(cls):
        """Whether so much was spent without compiled steps that they are worth compiling."""
        return not is_lazy() or time_spent.seconds > cls.threshold

    def step(self):
        """Steps up to one that is worth a look, all but this one recorded; a sentence on failure."""
        solver, real_state, int_state = self.solver, self.real_state, self.int_state
        began, time_spent = perf_counter(), int_state[SPENT]
        try:
            code = undisturbed(self.advance)
        finally:  # an interruption arrives here
            for row in self.out[: int_state[RECORDED]]:
                if self.wanted is None or row[-1] in self.wanted:
                    self.run.record(row[-1], row[:-2], row[-2])
            int_state[RECORDED] = 0
            solver.t, solver.t_old = float(real_state[T]), float(real_state[BEFORE])
            solver.error, solver.nfev = float(real_state[ACCOUNT]), int(int_state[SPENT])
            solver.y = self.y.copy()
        speed = (solver.nfev - time_spent) / max(perf_counter() - began, 1e-9)
        self.budget = self.pause(int(np.clip(PATIENCE * speed, 12, LARGEST)))
        return solver.TOO_SMALL_STEP if code == VANISHED else None

    def pause(self, budget):
        """Evaluations to the next look: rules of quadrature are tested in Python, after every step or now and then."""
        closure = self.solver.system.closure
        return 1 if closure.by_quadrature else min(budget, closure.period or budget)

    def prepare(self):
        """Arrays that are kept between calls."""
        raise NotImplementedError

    def advance(self):
        """Steps until one is worth a look; how they came back."""
        raise NotImplementedError

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        raise NotImplementedError

    @property
    def before(self):
        """Time and state before the last step."""
        return float(self.real_state[BEFORE]), self.y_old.copy()


class RungeKutta(CompiledSteps):
    """Steps of ``DOP853``, onto all stops."""

    threshold = 1.3
    compiled_functions = (_dop853.advance, _dop853.SIGNATURE), (_dop853.begin, _dop853.BEGIN)
    begun = set()

    def prepare(self):
        """Arrays that are kept between calls."""
        n, solver, kernels = self.solver.n, self.solver, self.system[:2]
        ready(*kernels, _dop853.advance, _dop853.SIGNATURE)
        begun = solver.t > self.run.times[0]  # steps were made without compilation
        self.real_state = np.array([solver.t, self.first_step, solver.error, solver.t])
        due = np.searchsorted(self.stops[0], solver.t, side="right")
        self.int_state = np.array([due, 0, solver.nfev if begun else 0])
        self.y, self.y_old = np.array(solver.y), np.array(solver.y)
        k = np.zeros((_dop853.ROWS, n))
        self.steps = _dop853.Steps(self.y, self.y_old, np.empty(n), k, self.real_state, self.int_state, self.out)
        if begun:
            k[0] = solver.f
        elif not self.first_step:
            ready(*kernels, _dop853.begin, _dop853.BEGIN)
            span = self.run.times[-1] - solver.t
            self.real_state[H] = _dop853.begin(*self.system, solver.system.work, self.control, span, self.steps)
            self.int_state[SPENT] = 2

    def advance(self):
        """Steps until one is worth a look; how they came back."""
        return _dop853.advance(
            *self.system, self.solver.system.work, self.control, *self.stops, self.budget, self.steps
        )

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        self.y[:], self.steps.k[0] = y, self.solver.system.rhs(self.solver.t, y)


class Backward(CompiledSteps):
    """Steps of ``StructuredBDF``; stops are interpolated."""

    threshold = 4.0
    compiled_functions = (_bdf.advance, _bdf.SIGNATURE), (_bdf.newton_iteration, _bdf.ITERATE)
    begun = set()

    def prepare(self):
        """Arrays that are kept between calls."""
        solver, kernels = self.solver, self.system[:2]
        ready(*kernels, _bdf.newton_iteration, _bdf.ITERATE)
        ready(*kernels, _bdf.advance, _bdf.SIGNATURE)
        rows = np.zeros((9, solver.n))
        self.y, self.y_old, self.new = rows[:3]
        self.y[:], rows[_bdf.SHARES] = solver.y, solver.tolerance_fractions
        self.real_state = np.array(
            [solver.t, solver.h_abs, solver.error, solver.t, 0.0, solver.t, solver.t, *np.zeros(5)]
        )
        due = np.searchsorted(self.stops[0], solver.t, side="right")
        self.int_state = np.array([due, 0, solver.nfev, solver.order, solver.n_equal_steps, 0, 0, solver.nlu])
        self.steps = _bdf.Steps(rows, np.array(solver.D), self.real_state, self.int_state, self.out)
        self.workspace, self.tolerances = solver.J.rotated.workspace(), _bdf.Tolerances(*solver.tolerances)

    def advance(self):
        """Steps until one is worth a look; how they came back."""
        solver, real_state, int_state, D = self.solver, self.real_state, self.int_state, self.steps.D
        while True:
            rotated, real_state[_bdf.BOUND :] = (
                solver.J.rotated,
                (solver.t_bound, solver.system.edge, *solver.scheduled),
            )
            code = _bdf.advance(
                _bdf.newton_iteration, *self.system, solver.system.work, self.control,
                Equations(rotated.frozen, rotated.spaces, *self.workspace), self.tolerances, *self.stops, self.budget,
                self.steps,
            )  # fmt: skip
            solver.h_abs, solver.order = float(real_state[H]), int(int_state[_bdf.ORDER])
            solver.nlu = int(int_state[_bdf.FACTORISATIONS])
            solver.D[:] = D
            if code != _bdf.NEW_JACOBIAN:
                return code
            solver.y = self.y
            solver.J = solver.jac(real_state[_bdf.END], self.new)

    def put(self, y):
        """Go on from y in place of the state after the last step."""
        self.y[:] = self.steps.D[0] = y
