"""Stepping a SciPy ODE solver: exact output times, stop conditions, divergence, interruption."""

from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate
from scipy.integrate import BDF, LSODA, RK23, RK45, Radau

from .._base import check, warn
from ._steps import STEP_CHECKS
from .stop import _Crossing


class RunOptions(NamedTuple):
    """Tunable numbers of a run."""

    # Growth of the largest overlap, relative to the larger one of the start and 1, that ends a run as diverged.
    # Smaller: networks that would still return to a plateau are stopped.
    divergence_factor: float = 1e10
    # Relative progress of time after which a multistep formula whose step became too small may restart. Smaller: it
    # restarts for ever if the flow cannot be continued.
    restart_progress: float = 1e-6
    # Sine^2 of the angle of two kinked students below which a run is repeated with norms perturbed by rtol, and a start
    # takes a short first step. Larger angles are resolved by steps of the usual length.
    parallel_sine2: float = 1e-5
    # Q_kk of a kinked student, relative to teachers, below which it explains why the step size became too small; and
    # the same for a student whose norm falls, because implicit methods stop at up to a thousandth of the teachers'
    # norm. Larger: students that are small for other reasons are taken for the cause.
    lost_norm: float = 1e-8
    lost_falling_norm: float = 1e-6
    # Relative time ahead of a step that became too small at which the closure is evaluated for its failure reason.
    # Halved: rounding may hide the reason; much larger: the state there is far from the run.
    ahead: float = 1e-6
    # A run is slow if its steps are shorter than this fraction of the interval, on average over ``window`` evaluations,
    # and it has taken ``min_seconds``, in which most runs end. Larger: runs that are not slow cause a warning; smaller:
    # runs of a million steps cause none.
    slow_step: float = 1e-6
    window: int = 600
    evaluations_per_step: int = 12  # evaluations in a step of DOP853
    min_seconds: float = 10.0


RUN_OPTIONS = RunOptions()
LOST_POSITIVITY = "the field covariance lost positivity"  # message of a run that ``evolve`` repeats with a projection
ONE_STEP = (RK23, RK45, scipy.integrate.DOP853)  # SciPy's methods that may change h_abs between any two steps


@dataclass
class Run:
    """Request of an integration, and its result: times, packed states, and how it ended."""

    times: np.ndarray
    every_step: bool = False
    tick: Any = None  # called with the time after each step
    keep: Any = np.array  # function of a packed state that is recorded: a copy, or its sums over blocks
    alpha: list = field(default_factory=list)
    y: list = field(default_factory=list)
    error: list = field(default_factory=list)  # accumulated error of eps_g, relative to it, by the solver's estimates
    late: list = field(default_factory=list)  # eps_g and its floor in other variables, nan in these; or empty
    watched: tuple | None = None  # sine^2 of all angles of kinked students at the last step, alpha, packed state
    parallel: tuple = (np.inf, 0.0, None)  # smallest sine^2 of the angle of kinked students, alpha, packed state
    marks: Any = ()  # (evaluations, alpha) every ``window`` evaluations, see ``_warn_if_slow``; None after a warning
    began: float = field(default_factory=perf_counter)
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

    def record_until(self, t, at, error=0.0, *, end=False):
        """Record ``at(time)`` at the output times since the last record, and at t with ``end`` or ``every_step``."""
        times = self.times[(self.times > self.alpha[-1]) & (self.times <= t)].tolist()
        if (end or self.every_step) and t not in times:
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

    Steps land on output times, because interpolating a solver's dense output would limit eps_g to about 1e-8.  If the
    solver has ``interpolates = True``, its dense output is as good as its steps, and landing would force small ones.
    """
    run = Run(times, every_step, tick, keep)
    run.record(times[0], y0)
    crossing = None if stop is None else _Crossing(system, stop, times[0], y0)
    if crossing is not None and crossing.met:
        run.success, run.message = True, f"stop condition met at the start, alpha = {times[0]:g}."
        return run
    try:
        with np.errstate(all="ignore"):  # overflow is detected below, with a message
            _drive(run, system, y0.copy(), method, options, crossing, leave)
    except KeyboardInterrupt:
        run.interrupted = True
        run.message = f"interrupted; the last recorded point is alpha = {run.alpha[-1]:g}."
    return run


def _drive(run, system, y, method, options, crossing, leave):
    interpolates = getattr(method, "interpolates", False)
    one_step = issubclass(method, ONE_STEP)
    retargetable = issubclass(method, (*ONE_STEP, Radau, BDF))  # they read t_bound anew at each step
    times = run.times
    knots = np.array([]) if system.evaluator is None else system.evaluator.inside(times[0], times[-1])
    system.close(y)
    if system.psd is not None and system.psd.needs_projection():
        y = system.psd.project(y)
    solver = _solver(system, method, times[0], y, times[-1], options)
    system.close(y)
    _watch(run, system, times[0], y)
    options = _with_short_first_step(solver, run, system, options) if one_step else options
    # at least the factor itself, because small starts may grow by large factors without a divergence
    max_overlap = RUN_OPTIONS.divergence_factor * max(1.0, np.max(np.abs(y)))
    nfev_before, stops = 0, np.union1d(times, knots)
    # compiled steps compare eps_g with the level: nan makes every step need a check, -inf none
    level = np.nan if leave is not None else -np.inf if crossing is None else crossing.level
    common = run, options, (max_overlap, level, stops)
    compiled_steps, begun = _compiled_steps_of(solver, *common), times[0]
    # steps land on knots, because the error estimate of a step across one would miss the change there
    bounds = np.union1d(knots, times[-1:]) if interpolates else times[-1:] if compiled_steps else stops[1:]
    for bound in bounds if len(times) > 1 else ():
        if solver.t >= bound:  # compiled steps that started before it have passed it
            continue
        jumped = system.enter(solver.t)
        if retargetable and not (jumped and solver.t > times[0]):
            # the same solver continues: its history of steps is still valid, because nothing jumped
            solver.t_bound, solver.status = bound, "running"
        else:
            nfev_before += solver.nfev
            solver, compiled_steps = _renewed(system, method, solver, bound, *common)
        while solver.t < bound:
            before, y_before = solver.t, solver.y
            h = getattr(solver, "h_abs", None)
            if compiled_steps is None and hasattr(solver, "compiled_steps") and solver.compiled_steps.due(solver):
                compiled_steps = _compiled_steps_of(solver, *common)
                bound = times[-1] if compiled_steps and not interpolates else bound
            if compiled_steps:
                failure = compiled_steps.step()
                before, y_before = compiled_steps.before if failure is None else (solver.t, solver.y)
            else:
                failure = _step(system, solver)
            run.nfev = nfev_before + solver.nfev
            _warn_if_slow(run, solver.t)
            if failure and isinstance(solver, BDF) and solver.t - begun > RUN_OPTIONS.restart_progress * solver.t:
                # after many shortened steps, BDF of high order amplifies the rounding in its differences; first order
                # has none, and a failure there is due to the flow
                begun, nfev_before = solver.t, nfev_before + solver.nfev
                solver, compiled_steps = _renewed(system, method, solver, bound, *common)
                continue
            reason = _failure_reason(system, solver, failure, max_overlap, options)
            if reason:
                run.message = f"stopped at alpha = {before:.6g}: {reason}"
                return
            if system.psd is not None and system.psd.needs_projection():
                _put(solver, compiled_steps, system.psd.project(solver.y))
            _watch(run, system, solver.t, solver.y)
            if crossing is not None and crossing.passed(solver.t, solver.y):
                exact = partial(_advance, system, method, options, before, y_before)
                at_time = solver.dense_output() if interpolates else exact
                at = crossing.locate(before, solver.t, at_time)
                run.record_until(at, at_time, accumulated_error(solver), end=True)
                run.success, run.message = True, f"stop condition met at alpha = {at:.6g}."
                return

            def at_step(t, solver=solver):
                return solver.y if t == solver.t else solver.dense_output()(t)

            run.success = run.left = leave is not None and leave(solver.y)
            run.record_until(solver.t, at_step, accumulated_error(solver), end=run.left)
            if run.left:
                return
            if run.tick is not None:
                run.tick(solver.t)
        if one_step:
            # landing on an output time shortened the last step, so the error control may try the longer one again
            solver.h_abs = max(solver.h_abs, h)
    run.success, run.message = True, end_sentence(times)


def _warn_if_slow(run, alpha):
    """Warn, once, of a run of some fifty steps that do not grow, and of which a million would reach the end."""
    window, slow_step = RUN_OPTIONS.window, RUN_OPTIONS.slow_step
    if run.marks is None or (run.marks and run.nfev - run.marks[-1][0] < window):
        return
    run.marks = [*run.marks[-2:], (run.nfev, alpha)]
    if len(run.marks) < 3 or perf_counter() - run.began < RUN_OPTIONS.min_seconds:
        return
    before, now = np.diff([at for _, at in run.marks])
    slow = slow_step * window / RUN_OPTIONS.evaluations_per_step * (run.times[-1] - run.times[0])
    if now <= min(2 * before, slow):
        run.marks = None
        warn(
            f"steps at alpha = {alpha:.6g} are shorter than {slow_step:g} of the interval and do not grow: {window} "
            f"evaluations brought {now:.1g}." + check.see("integration", "When it does not end well")
        )


def _compiled_steps_of(solver, run, options, limits):
    """Compiled steps of a solver, or None if it has none or compiling them does not pay."""
    if getattr(solver, "kernel", None) is None or not solver.compiled_steps.pays(solver):
        return None
    return solver.compiled_steps(
        solver, run, *limits, options.get("first_step") if solver.t == run.times[0] else solver.h_abs
    )


def _renewed(system, method, old, bound, run, options, limits):
    """A solver without history at the state of the old one, with its accumulated error, and compiled steps or None."""
    solver = _solver(system, method, old.t, old.y, bound, options)
    solver.error = accumulated_error(old)
    return solver, _compiled_steps_of(solver, run, options, limits)


def end_sentence(times):
    """Message of a run that has reached its last time."""
    return f"reached alpha = {times[-1]:g}."


def accumulated_error(solver):
    """Sum of the solver's estimated errors of eps_g, relative to eps_g; 0 for solvers without such an estimate."""
    return getattr(solver, "error", 0.0)


def _watch(run, system, alpha, y):
    """Store the state in which two kinked students are most nearly parallel, at the last evaluation of the closure."""
    K = system.model.K
    if K < 2 or not system.closure.kinked:
        return
    Q, (i, j) = _field_covariance(system), np.triu_indices(K, 1)
    sines = np.abs(1 - Q[i, j] ** 2 / np.maximum(Q[i, i] * Q[j, j], np.finfo(float).tiny))
    if system.duplicate_units is not None:  # they stay parallel, up to rounding
        sines[system.duplicate_units.first[i] == system.duplicate_units.first[j]] = 0.0
    # students whose overlaps are equal to the last bit may stay so, unless rounding separates them
    before, run.watched = run.watched, (sines, float(alpha), y.copy())
    if before is not None and np.any((before[0] == 0) & (sines > 0)):
        run.parallel = (0.0, *before[1:])
    elif np.any(sines > 0) and sines[sines > 0].min() < run.parallel[0]:
        run.parallel = (float(sines[sines > 0].min()), *run.watched[1:])


def _with_short_first_step(solver, run, system, options):
    """Options with a short first step if kinked students are parallel at the start.

    The flow is as smooth as their angle, which grows like the root of time; error estimates from longer steps miss
    this. The error of a step h is of order h^(3/2) there, so steps shorter than rtol^(2/3) gain nothing.
    """
    if run.watched is None or options.get("first_step") is not None:
        return options
    sines = run.watched[0] if system.duplicate_units is None else run.watched[0][run.watched[0] > 0]
    smallest = np.min(sines, initial=1.0)
    if smallest > RUN_OPTIONS.parallel_sine2:
        return options
    solver.h_abs *= max(smallest, options["rtol"] ** (2 / 3))
    return options | {"first_step": solver.h_abs}


def _failure_reason(system, solver, failure, max_overlap, options):
    """A sentence if the step failed, else None."""
    eta, size = system.model.eta, np.max(np.abs(solver.y))
    # an invalid factor of the schedule: its own message is more specific than a step size that became too small
    if failure and system.refusal:
        return system.refusal
    # half of the decades to divergence: a step that fails there fails because of the growth
    growing = not size <= max_overlap**0.5  # also true for nan
    if not size <= max_overlap or (failure and growing):
        return diverged(size, eta)
    system.close(solver.y)
    lost, norm = _lost_direction(system, solver, failure, options.get("atol", np.inf))
    if failure and lost is None:
        vanished = f"{failure.rstrip('.')}: the step size vanished while the overlaps were finite (largest {size:.3g})."
        change = RUN_OPTIONS.ahead * max(abs(solver.t), 1.0) * system.rhs(solver.t, solver.y)
        system.rhs(solver.t, solver.y + change)  # the closure may have a reason there, which the run appends
        if getattr(system.closure, "message", ""):
            return vanished
        no_jacobian_reason = system.no_jacobian_reason()
        if no_jacobian_reason:
            return f"{vanished} Here {no_jacobian_reason}, which implicit methods need: try method='DOP853'."
        stiff = ", or the problem is stiff: try a smaller eta or method='structured'"
        advice = stiff if isinstance(solver, ONE_STEP) else ": try a smaller eta"
        return f"{vanished} They may blow up in finite time (eta = {eta:g} too large){advice}."
    if lost is not None:
        return (
            f"student {lost} has shrunk to norm zero ({norm}). The gradient of a unit "
            "with a kink at the origin has no direction there, so the flow cannot be continued. Leave this student out "
            "from here on, or take SGD, whose noise keeps norms positive (gradient_flow=False)."
        )
    if not np.isfinite(system.closure.gradient_rate):
        norms = np.diag(_field_covariance(system))[: system.model.K]
        k = int(np.argmin(norms))
        if norms[k] < STEP_CHECKS.unresolved_norm * options.get("atol", 0.0) and system.A[k, k] < 0:
            return (
                f"student {k} has shrunk to Q_kk = {norms[k]:.3g}: the norm fell below what atol resolves; lower eta, "
                "or constraint='sphere'."
            )
    rounding = allowed_negative_eigenvalue(options.get("rtol", 0.0))
    S = system.S.reshape(-1, *2 * system.S.shape[1:])
    lowest, trace = np.linalg.eigvalsh(S)[:, 0], np.trace(S, axis1=1, axis2=2)
    worst = np.argmax(-rounding * trace - lowest)
    lowest = lowest[worst]
    if lowest >= -rounding * trace[worst]:
        return None
    if growing:
        return diverged(size, eta)
    # the internal state of LSODA cannot be replaced by a projected one
    projected = system.psd is None or not isinstance(solver, LSODA)
    remedy = "Try smaller rtol and atol." if projected else "From a singular start try method='DOP853' or 'structured'."
    return f"{LOST_POSITIVITY} (lowest eigenvalue {lowest:.3g}), an integration error. {remedy}"


def allowed_negative_eigenvalue(rtol):
    """Negative eigenvalue of the fields, relative to their trace, that may be due to errors of the steps."""
    return max(check.LIMITS.psd_tol, 10 * rtol)


def _put(solver, compiled_steps, y):
    """Continue from y in place of the state after the last step, if the solver can."""
    solver.y = y
    if isinstance(solver, BDF):
        solver.D[0] = y  # the polynomial of earlier steps ends there
    if compiled_steps:
        compiled_steps.put(y)
    elif hasattr(solver, "f"):
        solver.f = solver.fun(solver.t, y)


def diverged(size, eta):
    """Message about overlaps that diverge."""
    return (
        f"the overlaps diverge (largest |overlap| = {size:.3g}); eta = {eta:g} is probably above the stability limit. "
        "Try a smaller eta, or gradient_flow=True for the small-eta limit."
    )


def _lost_direction(system, solver, failure, atol):
    """Index of a kinked student whose norm a gradient flow has driven to zero, or None; and a phrase about its norm.

    Its norm falls at a finite speed, |w|' = -c, and the direction of the force c turns with w: at |w| = 0 the velocity
    jumps, and any solver would shorten its steps without end.  SGD has no such point, because Q_kk' contains C_kk > 0.
    Without a ``failure``, norms below atol count as zero.
    """
    if system.second_order > 0 or not system.closure.kinked:
        return None, ""
    K, norms, fraction = system.model.K, np.diag(_field_covariance(system)), check.LIMITS.zero_norm
    k = int(np.argmin(norms[:K]))
    phrase = f"Q_kk = {norms[k]:.3g}"
    if failure:
        system._gather(system.rhs(solver.t, solver.y), system.dS, system.dw)
        speed = system.dS.reshape(-1, *2 * norms.shape)[:, k, k].sum()
        atol, fraction = np.inf, RUN_OPTIONS.lost_falling_norm if speed < 0 else RUN_OPTIONS.lost_norm
        phrase += f", 0 near alpha = {solver.t - 2 * norms[k] / speed:.6g}" if speed < 0 else ""
    return k if norms[k] <= min(atol, fraction * max(norms[K:].max(), 1.0)) else None, phrase


def _field_covariance(system):
    """Overlaps of the fields at the last evaluation, of all groups of blocks together."""
    return system.S.reshape(-1, *2 * system.S.shape[1:]).sum(axis=0)


def _advance(system, method, options, t, y, target):
    solver = _solver(system, method, t, y, target, options)
    while solver.status == "running":
        _step(system, solver)
    return solver.y


def _solver(system, method, t, y, target, options):
    """Solver at (t, y); ``atol`` is stored to be scaled at each step, or scaled here if the solver hides it."""
    system.enter(t)
    if options.get("first_step"):  # given for the whole run, of which this segment may be shorter
        options = options | {"first_step": min(options["first_step"], target - t) or None}
    solver = method(system.rhs, t, y, target, **options)
    if not hasattr(solver, "atol"):
        return method(system.rhs, t, y, target, **{**options, "atol": options["atol"] * system.unit(y)})
    solver.base_atol = solver.atol
    return solver


def _step(system, solver):
    """One step, with the absolute tolerance in units of the size that the overlaps have now."""
    if hasattr(solver, "atol"):
        solver.atol = solver.base_atol * system.unit(solver.y)
    return solver.step()
