"""Compiled steps: many steps in one call of compiled code, which returns to Python for steps that need a check.

``CompiledSteps`` makes many steps of a run in one call of a compiled ``advance`` and returns the last one only.  The
monitors of the run (``monitors``) see it like a step of SciPy's: ``solver.t``, ``solver.y``, ``solver.nfev`` and
``solver.error`` have been updated.

Ownership: ``CompiledSteps`` makes the arrays of the steps (``state``, ``y``, ``out``, and those of
its solver) once for the run; ``advance`` changes them; the system owns the work arrays (``System.work``), which hold
the last evaluation by any caller.  ``step`` moves ``out`` into the rows of the run, also when Ctrl-C ends it.

Return to Python: ``_steps`` lists the steps that need a check.  The budget of evaluations between two returns starts at
``first_budget`` and then follows the speed of the run, ``seconds`` apart.

Start: ``pays`` is true if the kernels are compiled or if compiling them pays (``_base/accounts``); ``due`` is tested
again before every step that was made without.
"""

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._base.accounts import Account
from .._base.lazy_compilation import is_lazy
from .._base.signatures import undisturbed
from ..activations.bound import CLOSURE
from ..flow import FLOW
from ..flow.jacobian import Equations
from ..flow.velocity import schedule_factors
from . import _bdf, _dop853
from ._steps import RETURN, STEP_CHECKS, Control, compile_steps
from .failure import allowed_negative_eigenvalue


class CallOptions(NamedTuple):
    """Tunable numbers of the calls of compiled steps."""

    # Evaluations before the first return to Python, and seconds before any other. Halved: more time in Python; doubled:
    # Ctrl-C waits longer.
    first_budget: int = 120
    seconds: float = 0.1
    # Numbers in ``out``, 1 MB, of which each return makes a copy. Doubled: they leave the caches; halved: more returns.
    out_size: int = 125_000
    # Evaluations that every run makes, two steps of DOP853: expensive kernels are compiled before the first step.
    min_evaluations: int = 30


CALL_OPTIONS = CallOptions()


class CompiledSteps(ABC):
    """Steps of the solver of an ``Integrator`` through all its output times and knots, by the method ``step``.

    It returns after the last step, after a step that may be a reason to stop, such as eps_g at or below the level
    (every step if it is nan), and after a budget of evaluations, for pressed keys and for a progress bar.  A subclass
    for each solver prepares its arrays (``state``, ``y``, ``y_before``, ``out``) and calls its
    ``advance``.
    """

    step_seconds: float  # that a step in Python takes beside its kernels
    compiled_functions: tuple  # compiled functions of the steps, with their signatures
    begun: set  # pairs of flow and closure with which such steps were made
    state: Any  # the entry of ``steps.state``
    y: np.ndarray
    y_before: np.ndarray
    steps: Any  # the arrays of a run
    passes_knots = False  # whether the steps end at knots, and begin anew there, without Python

    def __init__(self, integrator, first_step=None):
        self.integrator, self.solver, self.rows = integrator, integrator.solver, integrator.rows
        self.times = np.array(integrator.times)  # kernels are compiled for writable arrays
        solver, self.first_step, (max_overlap, level, stops) = self.solver, first_step or 0.0, integrator.limits
        self.budget = self.limited(CALL_OPTIONS.first_budget)
        system, (rtol, atol) = solver.system, solver.requested_tolerances
        slack = allowed_negative_eigenvalue(rtol) if system.psd is None else system.psd.slack
        self.control = Control(rtol, atol, float(solver.max_step), max_overlap, system.closure.kinked, level, slack)
        self.system = system.flow, integrator.kernel, system.constants, schedule_factors(system)
        n_rows = min(CALL_OPTIONS.out_size // solver.n, 1000 if integrator.every_step else len(self.times))
        self.out, self.stops = np.empty((n_rows, solver.n + 2)), np.array(stops)
        self.every_step = integrator.every_step
        self.prepare()
        self.begun.add(self.system[:2])

    @classmethod
    def pays(cls, integrator):
        """Whether the kernels are compiled, or compiling them pays for the runs so far and the first steps."""
        flow, kernel = integrator.system.flow, integrator.kernel
        if (flow, kernel) in cls.begun or not is_lazy():
            return True
        integrator.account = Account([*cls.compiled_functions, (flow, FLOW.args), (kernel, CLOSURE.args)])
        return integrator.account.pays(CALL_OPTIONS.min_evaluations * getattr(kernel, "last", 0.0))

    @classmethod
    def due(cls, integrator):
        """Whether compiling the steps pays after one more step was made without."""
        integrator.account.add(cls.step_seconds)
        return not is_lazy() or integrator.account.pays()

    def step(self):
        """Make steps until one needs a check, and record all but this one; return a message on failure."""
        solver, state = self.solver, self.state
        began, nfev_before, code = perf_counter(), state.evaluations, RETURN.out_full
        try:
            while code == RETURN.out_full:
                code = undisturbed(self.advance)
                self._collect()
        finally:  # also after Ctrl-C
            self._collect()
            numbers = dict(zip(state.dtype.names, state.item(), strict=True))
            solver.t, solver.t_old = numbers["t"], numbers["t_before"]
            solver.error, solver.nfev = numbers["accumulated_error"], numbers["evaluations"]
            self.integrator.before, solver.y = (solver.t_old, self.y_before.copy()), self.y.copy()
        speed = (solver.nfev - nfev_before) / max(perf_counter() - began, 1e-9)
        self.budget = self.limited(max(12, min(int(CALL_OPTIONS.seconds * speed), STEP_CHECKS.max_evaluations)))
        return scipy.integrate.OdeSolver.TOO_SMALL_STEP if code == RETURN.step_too_small else None

    def _collect(self):
        """Move ``out`` into the rows of the run."""
        if self.state.n_recorded > 0:
            self.rows.append(self.out[: self.state.n_recorded].copy())
            self.state.n_recorded = 0

    def limited(self, budget):
        """Evaluations before the next return, at most ``budget``; quadratures are tested in Python."""
        closure = self.solver.system.closure
        return 1 if closure.by_quadrature else min(budget, closure.period or budget)

    @abstractmethod
    def prepare(self):
        """Make the arrays that hold the state between calls."""

    @abstractmethod
    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""

    @abstractmethod
    def put(self, y):
        """Continue from y in place of the state after the last step."""


class Position:
    """The part of a ``DOP853`` that compiled steps use, for runs that begin with them, without SciPy's first steps."""

    def __init__(self, system, t, y, options):
        self.system, self.t, self.y, self.n = system, t, y, y.size
        self.max_step = options.get("max_step", np.inf)
        self.requested_tolerances = options["rtol"], options["atol"]
        self.nfev, self.error, self.reach = 0, 0.0, _dop853.INTERPOLANT.first_reach


class RungeKutta(CompiledSteps):
    """Steps of ``DOP853``."""

    passes_knots = True
    step_seconds = 4e-4
    compiled_functions = ((_dop853.advance, _dop853.ADVANCE_SIGNATURE),)
    begun = set()

    def prepare(self):
        """Make the arrays that hold the state between calls."""
        n, solver, kernels = self.solver.n, self.solver, self.system[:2]
        compile_steps(*kernels, _dop853.advance, _dop853.ADVANCE_SIGNATURE)
        begun = solver.t > self.times[0]  # steps were made without compilation
        next_output = np.searchsorted(self.times, solver.t, side="right")
        numbers = solver.t, self.first_step, solver.error, solver.t, next_output, 0, solver.nfev if begun else 0
        state = np.array([(*numbers, solver.reach, 0)], _dop853.STATE)
        self.state = state[0]
        self.y, self.y_before = np.array(solver.y), np.array(solver.y)
        k = np.zeros((_dop853.K_ROW.n_rows, n))
        self.steps = _dop853.Steps(self.y, self.y_before, np.empty(n), k, state, self.out)
        if begun:
            k[0] = solver.f

    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""
        return _dop853.advance(
            *self.system, self.solver.system.work, self.control, self.times, self.stops, self.every_step, self.budget,
            self.steps,
        )  # fmt: skip

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
        next_output = np.searchsorted(self.times, t, side="right")
        numbers = t, solver.h_abs, solver.error, t, next_output, 0, solver.nfev, 0.0, t, t, *np.zeros(5)
        state = np.array([(*numbers, solver.order, solver.n_equal_steps, 0, 0, solver.nlu)], _bdf.STATE)
        self.state = state[0]
        self.steps = _bdf.Steps(rows, np.array(solver.D), state, self.out)
        self.workspace, self.tolerances = solver.J.rotated.workspace(), _bdf.Tolerances(*solver.tolerances)

    def advance(self):
        """Make steps until one needs a check; return a ``RETURN`` code."""
        solver, state, D = self.solver, self.state, self.steps.D
        while True:
            rotated = solver.J.rotated
            state.bound, state.last_time = solver.t_bound, solver.system.edge
            state.u, state.u_v = solver.scheduled
            code = _bdf.advance(
                _bdf.newton_iteration, *self.system, solver.system.work, self.control,
                Equations(rotated.frozen, rotated.spaces, *self.workspace), self.tolerances, self.times,
                self.every_step, self.budget, self.steps,
            )  # fmt: skip
            solver.h_abs, solver.order = float(state.h), int(state.order)
            solver.nlu = int(state.factorisations)
            solver.D[:] = D
            if code != RETURN.new_jacobian:
                return code
            solver.y = self.y
            solver.J = solver.jac(state.t_new, self.y_new)

    def put(self, y):
        """Continue from y in place of the state after the last step."""
        self.y[:] = self.steps.D[0] = y
