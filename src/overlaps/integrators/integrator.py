"""The numerics of a run: steps of a solver through all knots of a schedule, by its own methods or in compiled code."""

from typing import Any, NamedTuple

import numpy as np

from .compiled_steps import Position
from .solver import traits_of


class RestartOptions(NamedTuple):
    """Tunable numbers of the restart of a multistep formula."""

    # Relative progress of time after which a multistep formula whose step became too small may restart. Smaller: it
    # restarts for ever if the flow cannot be continued.
    min_progress: float = 1e-6


RESTART = RestartOptions()


class Integrator:
    """Steps from the first to the last of ``times``; monitors look at their results.

    After ``step``, ``t``, ``y``, ``error`` and ``nfev`` belong to the end of the last step and ``before`` to its
    beginning; ``failure`` is a message if it failed.  Compiled steps append arrays of rows (y, error, t) to ``rows``.
    """

    def __init__(self, system, method, y, times, every_step, options, rows):
        self.system, self.method, self.times, self.every_step = system, method, times, every_step
        self.options, self.traits = options, traits_of(method)
        self.kernel = method.kernel_of(system) if self.traits.compiled_steps else None
        self.account: Any = None  # of steps in Python, until compiling pays
        self._compiles = False  # whether compiling pays
        # a projection changes the ends of steps of an explicit method, and nothing inside
        self.interpolates = self.traits.interpolates and not (self.traits.one_step and system.psd is not None)
        self.solver: Any
        kind = self.traits.compiled_steps
        # angles of kinked students may shorten SciPy's first step, and SciPy changes a smaller rtol
        plain = not system.closure.kinked and options["rtol"] >= 100 * np.finfo(float).eps
        if self.kernel is not None and kind.passes_knots and plain and self._pays():
            system.enter(times[0])
            self.solver = Position(system, times[0], y, options)
        else:
            self.solver = self._new_solver(times[0], y, times[-1], times)
        self.before, self.failure, self.rows = (times[0], y), None, rows
        self.compiled: Any = None
        self._earlier_nfev, self._restarted, self._bound = 0, times[0], times[0]

    def begin(self, max_overlap, level):
        """Fix the limits of compiled steps: the largest overlap, and the eps_g at or below which a step is checked."""
        times, evaluator = self.times, self.system.evaluator
        stops = times[-1:] if self.interpolates else times
        if evaluator is not None:
            # steps land on knots, because the error estimate of a step across one would miss the change there
            stops = np.union1d(evaluator.inside(times[0], times[-1]), stops)
        self._bounds, self.limits = stops, (max_overlap, level, stops)
        self._compile()

    def shorten_first_step(self, factor):
        """Multiply the first step by a factor; 1 leaves it to the solver, which then chooses it anew at each start."""
        if factor < 1.0:
            self.solver.h_abs *= factor
            self.options = self.options | {"first_step": self.solver.h_abs}

    @property
    def t(self):
        """Time at the end of the last step."""
        return self.solver.t

    @property
    def y(self):
        """Packed state at the end of the last step."""
        return self.solver.y

    @property
    def error(self):
        """Sum of the solver's estimated errors of eps_g, relative to eps_g; 0 for solvers without such an estimate."""
        return self.solver.error if self.traits.estimates_error else 0.0

    @property
    def nfev(self):
        """Evaluations of the right-hand side."""
        return self._earlier_nfev + self.solver.nfev

    def step(self):
        """Make a step, or in compiled code many, up to one that needs a check."""
        if self.t >= self._bound:
            self._begin_segment()
        kind = self.traits.compiled_steps
        if self.compiled is None and self.kernel is not None and kind.due(self):
            self._compiles = True
            self._compile()
        solver = self.solver
        if self.compiled:
            self.failure = self.compiled.step()
            if self.failure:
                self.before = solver.t, solver.y
        else:
            self.before, h = (solver.t, solver.y), solver.h_abs if self.traits.one_step else None
            self.failure = self._step(solver)
            if self.traits.one_step and not self.interpolates and solver.t >= self._bound:
                # landing on an output time shortened the step, so the error control may try the longer one again
                solver.h_abs = max(solver.h_abs, h)
        if self.failure and self.traits.multistep and solver.t - self._restarted > RESTART.min_progress * solver.t:
            # after many shortened steps, BDF of high order amplifies the rounding in its differences; first order
            # has none, and a failure there is due to the flow
            self._restarted = solver.t
            self._renew()
            self.step()

    def put(self, y):
        """Continue from y in place of the state after the last step, if the solver can."""
        solver = self.solver
        self.system.enter(solver.t)  # compiled steps pass knots by themselves
        solver.y = y
        if self.traits.multistep:
            solver.D[0] = y  # the polynomial of earlier steps ends there
        if self.compiled:
            self.compiled.put(y)
        elif self.traits.adjustable and not self.traits.multistep:
            solver.f = solver.fun(solver.t, y)

    def at(self, t):
        """State at a time in the last step, for a record."""
        return self.y if t == self.t else self.solver.dense_output()(t)

    def inside(self):
        """State in the last step as a function of time: the polynomial of the solver, or the step integrated again."""
        return self.solver.dense_output() if self.traits.interpolates and not self.traits.one_step else self._again

    def _again(self, t):
        solver = self._new_solver(*self.before, t)
        while solver.status == "running":
            self._step(solver)
        return solver.y

    def _begin_segment(self):
        """Continue to the next bound: with the same solver if it can, because its history of steps is still valid."""
        solver, self._bound = self.solver, self._bounds[np.searchsorted(self._bounds, self.t, side="right")]
        jumped = self.system.enter(solver.t)
        if self.traits.adjustable and not (jumped and solver.t > self.times[0]):
            solver.t_bound, solver.status = self._bound, "running"
        else:
            self._renew()

    def _renew(self):
        """Continue with a solver without history, with the accumulated error of the old one."""
        old, error = self.solver, self.error
        self._earlier_nfev += old.nfev
        self.solver = self._new_solver(old.t, old.y, self._bound, self.times)
        self.solver.error = error
        self._compile()

    def _compile(self):
        """Make compiled steps of the solver, if there are any and compiling them pays."""
        solver, kind = self.solver, self.traits.compiled_steps
        self.compiled = None
        if self._pays():
            at_start = solver.t == self.times[0]
            self.compiled = kind(self, self.options.get("first_step") if at_start else solver.h_abs)
            if kind.passes_knots:
                self._bound = self.times[-1]

    def _pays(self):
        """Whether steps can be made in compiled code, and compiling it pays."""
        self._compiles = self._compiles or (self.kernel is not None and self.traits.compiled_steps.pays(self))
        return self._compiles

    def _new_solver(self, t, y, target, outputs=()):
        """Solver at (t, y); ``atol`` is stored to be scaled at each step, or scaled here if the solver hides it."""
        system, options = self.system, self.options
        system.enter(t)
        if options.get("first_step"):  # given for the whole run, of which this segment may be shorter
            options = options | {"first_step": min(options["first_step"], target - t) or None}
        if not self.traits.adjustable:
            options = options | {"atol": options["atol"] * system.unit(y)}
        solver = self.method(system.rhs, t, y, target, **options)
        if self.traits.adjustable:
            solver.base_atol = solver.atol
        if self.interpolates:
            solver.outputs = np.array(outputs, dtype=float)  # kernels are compiled for writable arrays
        return solver

    def _step(self, solver):
        """One step, with the absolute tolerance in units of the size that the overlaps have now."""
        if self.traits.adjustable:
            solver.atol = solver.base_atol * self.system.unit(solver.y)
        return solver.step()
