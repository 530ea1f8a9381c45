"""Compiled steps: many steps in one call of compiled code, which returns to Python for steps that need a check.

``run._drive`` steps any solver: step, look for a reason of failure, watch, stop, record.  ``CompiledSteps`` makes many
steps of that loop in one call of a compiled ``advance`` and returns the last one only.  The loop then treats it like a
step of SciPy's: it reads ``solver.t``, ``solver.y``, ``solver.nfev`` and ``solver.error``, which have been updated.

Ownership: ``CompiledSteps`` makes the arrays of the steps (``real_state``, ``int_state``, ``y``, ``out``, and those of
its solver) once for the run; ``advance`` changes them; the system owns the work arrays (``System.work``), which hold
the last evaluation by any caller.  ``step`` moves ``out`` into the records of the run, also when Ctrl-C ends it.

Return to Python: ``_steps`` lists the steps that need a check.  The budget of evaluations between two returns starts at
``first_budget`` and then follows the speed of the run, ``seconds`` apart.

Start: ``pays`` is true if the kernels are compiled or if compiling them pays (``_base/accounts``); ``due`` is tested
again before every step that was made without.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._base.accounts import Account
from .._base.lazy_compilation import is_lazy
from .._base.signatures import undisturbed
from ..activations.bound import CLOSURE
from ..flow import FLOW
from ..flow.jacobian import Equations
from ..flow.velocity import schedule_factors
from . import _bdf, _dop853
from ._steps import RETURN, STEP_CHECKS, STEP_INT, STEP_REAL, Control, compile_steps
from .run import allowed_negative_eigenvalue


class CallOptions(NamedTuple):
    """Tunable numbers of the calls of compiled steps."""

    # Evaluations before the first return to Python, and seconds before any other. Halved: more time in Python; doubled:
    # Ctrl-C waits longer.
    first_budget: int = 120
    seconds: float = 0.1
    # Numbers in ``out``, 2 MB. Doubled: they leave the caches; halved: more returns to Python.
    out_size: int = 250_000
    # Evaluations that every run makes, two steps of DOP853: expensive kernels are compiled before the first step.
    min_evaluations: int = 30


CALL_OPTIONS = CallOptions()


class CompiledSteps:
    """Steps of a solver through all ``stops``, the output times of ``run`` and knots, by its method ``step``.

    It returns after the last step, after a step that may be a reason to stop, such as eps_g at or below ``level``
    (every step if it is nan), and after a budget of evaluations, for pressed keys and for a progress bar.  A subclass
    for each solver prepares its arrays (``real_state``, ``int_state``, ``y``, ``y_before``, ``out``) and calls its
    ``advance``.
    """

    step_seconds: float  # that a step in Python takes beside its kernels
    compiled_functions: tuple  # compiled functions of the steps, with their signatures
    begun: set  # pairs of flow and closure with which such steps were made
    real_state: np.ndarray
    int_state: np.ndarray
    y: np.ndarray
    y_before: np.ndarray
    steps: Any  # the arrays of a run

    def __init__(self, solver, run, max_overlap, level, stops, first_step=None):
        self.solver, self.run, self.first_step = solver, run, first_step or 0.0
        self.budget = self.limited(CALL_OPTIONS.first_budget)
        system, (rtol, atol) = solver.system, solver.requested_tolerances
        slack = allowed_negative_eigenvalue(rtol) if system.psd is None else system.psd.slack
        self.control = Control(rtol, atol, float(solver.max_step), max_overlap, system.closure.kinked, level, slack)
        self.system = system.flow, solver.kernel, system.constants, schedule_factors(system)
        all_recorded = run.every_step or len(stops) == len(run.times)
        self.recorded_times = None if all_recorded else {*run.times.tolist()}
        n_rows = min(CALL_OPTIONS.out_size // solver.n, 1000)
        self.out, self.stops = np.empty((n_rows, solver.n + 2)), (stops, run.every_step)
        self.prepare()
        self.begun.add(self.system[:2])

    @classmethod
    def pays(cls, solver):
        """Whether the kernels are compiled, or compiling them pays for the runs so far and the first steps."""
        flow, kernel = solver.system.flow, solver.kernel
        if (flow, kernel) in cls.begun or not is_lazy():
            return True
        solver.account = Account([*cls.compiled_functions, (flow, FLOW.args), (kernel, CLOSURE.args)])
        return solver.account.pays(CALL_OPTIONS.min_evaluations * getattr(solver.kernel, "last", 0.0))

    @classmethod
    def due(cls, solver):
        """Whether compiling the steps pays after one more step was made without; the kernels of users have none."""
        if solver.kernel is None:
            return False
        solver.account.add(cls.step_seconds)
        return not is_lazy() or solver.account.pays()

    def step(self):
        """Make steps until one needs a check, and record all but this one; return a message on failure."""
        solver, real_state, int_state = self.solver, self.real_state, self.int_state
        began, nfev_before = perf_counter(), int_state[STEP_INT.evaluations]
        try:
            code = undisturbed(self.advance)
        finally:  # also after Ctrl-C
            for row in self.out[: int_state[STEP_INT.n_recorded]]:
                if self.recorded_times is None or row[-1] in self.recorded_times:
                    self.run.record(row[-1], row[:-2], row[-2])
            int_state[STEP_INT.n_recorded] = 0
            solver.t, solver.t_old = float(real_state[STEP_REAL.t]), float(real_state[STEP_REAL.t_before])
            solver.error = float(real_state[STEP_REAL.accumulated_error])
            solver.nfev = int(int_state[STEP_INT.evaluations])
            solver.y = self.y.copy()
        speed = (solver.nfev - nfev_before) / max(perf_counter() - began, 1e-9)
        self.budget = self.limited(int(np.clip(CALL_OPTIONS.seconds * speed, 12, STEP_CHECKS.max_evaluations)))
        return solver.TOO_SMALL_STEP if code == RETURN.step_too_small else None

    def limited(self, budget):
        """Evaluations before the next return, at most ``budget``; quadratures are tested in Python."""
        closure = self.solver.system.closure
        return 1 if closure.by_quadrature else min(budget, closure.period or budget)

    def prepare(self):
        """Make the arrays that hold the state between calls."""
        raise NotImplementedError

    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""
        raise NotImplementedError

    def put(self, y):
        """Continue from y in place of the state after the last step."""
        raise NotImplementedError

    @property
    def before(self):
        """Time and state before the last step."""
        return float(self.real_state[STEP_REAL.t_before]), self.y_before.copy()


class RungeKutta(CompiledSteps):
    """Steps of ``DOP853``, onto all stops."""

    step_seconds = 4e-4
    compiled_functions = (_dop853.advance, _dop853.ADVANCE_SIGNATURE), (_dop853.begin, _dop853.BEGIN_SIGNATURE)
    begun = set()

    def prepare(self):
        """Make the arrays that hold the state between calls."""
        n, solver, kernels = self.solver.n, self.solver, self.system[:2]
        compile_steps(*kernels, _dop853.advance, _dop853.ADVANCE_SIGNATURE)
        begun = solver.t > self.run.times[0]  # steps were made without compilation
        self.real_state = np.array([solver.t, self.first_step, solver.error, solver.t])
        next_output = np.searchsorted(self.stops[0], solver.t, side="right")
        self.int_state = np.array([next_output, 0, solver.nfev if begun else 0])
        self.y, self.y_before = np.array(solver.y), np.array(solver.y)
        k = np.zeros((_dop853.K_ROW.n_rows, n))
        self.steps = _dop853.Steps(self.y, self.y_before, np.empty(n), k, self.real_state, self.int_state, self.out)
        if begun:
            k[0] = solver.f
        elif not self.first_step:
            compile_steps(*kernels, _dop853.begin, _dop853.BEGIN_SIGNATURE)
            span = self.run.times[-1] - solver.t
            h = _dop853.begin(*self.system, solver.system.work, self.control, span, self.steps)
            self.real_state[STEP_REAL.h], self.int_state[STEP_INT.evaluations] = h, 2

    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""
        return _dop853.advance(
            *self.system, self.solver.system.work, self.control, *self.stops, self.budget, self.steps
        )

    def put(self, y):
        """Continue from y in place of the state after the last step."""
        self.y[:], self.steps.k[0] = y, self.solver.system.rhs(self.solver.t, y)


class Backward(CompiledSteps):
    """Steps of ``StructuredBDF``; stops are interpolated."""

    step_seconds = 6e-4
    compiled_functions = (
        (_bdf.advance, _bdf.ADVANCE_SIGNATURE),
        (_bdf.newton_iteration, _bdf.ITERATION_SIGNATURE),
    )
    begun = set()

    def prepare(self):
        """Make the arrays that hold the state between calls."""
        solver, kernels = self.solver, self.system[:2]
        compile_steps(*kernels, _bdf.newton_iteration, _bdf.ITERATION_SIGNATURE)
        compile_steps(*kernels, _bdf.advance, _bdf.ADVANCE_SIGNATURE)
        rows = np.zeros((9, solver.n))
        self.y, self.y_before, self.y_new = rows[:3]
        self.y[:], rows[_bdf.ROW.fractions] = solver.y, solver.tolerance_fractions
        t = solver.t
        self.real_state = np.array([t, solver.h_abs, solver.error, t, 0.0, t, t, *np.zeros(5)])
        next_output = np.searchsorted(self.stops[0], t, side="right")
        self.int_state = np.array([next_output, 0, solver.nfev, solver.order, solver.n_equal_steps, 0, 0, solver.nlu])
        self.steps = _bdf.Steps(rows, np.array(solver.D), self.real_state, self.int_state, self.out)
        self.workspace, self.tolerances = solver.J.rotated.workspace(), _bdf.Tolerances(*solver.tolerances)

    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""
        solver, real_state, int_state, D = self.solver, self.real_state, self.int_state, self.steps.D
        while True:
            rotated = solver.J.rotated
            real_state[_bdf.BDF_REAL.bound :] = solver.t_bound, solver.system.edge, *solver.scheduled
            code = _bdf.advance(
                _bdf.newton_iteration, *self.system, solver.system.work, self.control,
                Equations(rotated.frozen, rotated.spaces, *self.workspace), self.tolerances, *self.stops, self.budget,
                self.steps,
            )  # fmt: skip
            solver.h_abs, solver.order = float(real_state[STEP_REAL.h]), int(int_state[_bdf.BDF_INT.order])
            solver.nlu = int(int_state[_bdf.BDF_INT.factorisations])
            solver.D[:] = D
            if code != RETURN.new_jacobian:
                return code
            solver.y = self.y
            solver.J = solver.jac(real_state[_bdf.BDF_REAL.t_new], self.y_new)

    def put(self, y):
        """Continue from y in place of the state after the last step."""
        self.y[:] = self.steps.D[0] = y
