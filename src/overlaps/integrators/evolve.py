"""The engine of ``solve``: order parameters at the output times, as arrays."""

from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from .._base import bar, check
from ..flow.differences import DifferenceSystem
from ..flow.late_transition import can_transition, unfit
from ..flow.mixed import MixedSystem, is_mixed
from ..flow.psd import PSD, PSDProjection
from ..flow.system import System
from ..gaussian.two_point import LINEAR
from ..models.schedule import ScheduleEvaluator, teachers_at
from ..models.start import checked_start, duplicate_units, output_times
from .failure import LOST_POSITIVITY
from .finite_steps import FiniteSteps
from .methods import METHOD_OPTIONS, check_model, check_options, choose_method, solver_class
from .monitors import ANGLES
from .run import integrate
from .solver import traits_of
from .stop import check_level


class SecondRunOptions(NamedTuple):
    """Limits on the difference of two runs whose starts differ by rounding or by rtol."""

    max_change: float = 1e-5  # relative change of eps_g above which the rounding of a singular start decides the curve
    # Changes of eps_g below this many roundings are ignored. Smaller: correct runs of structured steps, which leave
    # 200, would fail; larger: errors would be missed where eps_g is 1e-7.
    rounding_factor: float = 1000.0
    # Two runs may differ by this many estimated errors besides. Smaller: correct runs would fail, because errors
    # sometimes exceed their estimates; larger: curves that are all rounding would pass.
    error_factor: float = 10.0
    # Change of the overlaps, in units of rtol, above which the tolerance is missed; plateaus of smooth units stay
    # below.
    max_overlap_change: float = 1e3
    # atol where integrals are by Sobol points, in units of the least rtol, because overlaps that cross zero have jumps,
    # too.
    sobol_atol: float = 1e-2


class NoOverlapOptions(NamedTuple):
    """When a run has stayed where students have no overlap with the teachers."""

    # Overlap, relative to the largest norms, that counts as none: that of random weights at N = 10^12. Larger: random
    # weights of ordinary N count as none; smaller: rounding of quadrature counts as an overlap.
    max_overlap: float = 1e-6
    # Share of the interval from which on a run has stayed. Smaller: also runs that learn after a long plateau.
    least_share: float = 0.99


SECOND_RUN = SecondRunOptions()
NO_OVERLAP = NoOverlapOptions()


def evolve(
    model, start, alpha, system=None, /, *, method="auto", rtol=1e-8, atol=None, progress=False, stop=None, late=False,
    blocks=True, schedule=None, every_step=False, step=None, **options,
):  # fmt: skip
    """Integrate the order parameters; parameters as in :func:`overlaps.solve`, and the ``system`` if it is another.

    A function given as ``progress`` is called with the time after each step. Returns the fields of a Trajectory.
    """
    start = model.enter(start) if hasattr(model, "enter") else checked_start(model, start)
    equal = duplicate_units(model, start) if system is None and start.v.ndim == 1 else None
    # before anything else, because duplicates that differ by rounding would be treated as two students
    start = start if equal is None else equal.equalised(model, start)
    if step is not None:
        method, options = FiniteSteps, {"step": step}
    times = output_times(alpha, start.alpha, every_step, step)
    evaluator = (
        ScheduleEvaluator(model, schedule) if schedule is not None or getattr(model, "schedules", False) else None
    )
    largest_eta = 1.0 if evaluator is None else evaluator.probe(times[0], times[-1])[0]
    if system is None and is_mixed(model, evaluator):
        system = MixedSystem(model, start, evaluator, equal, keep_psd=True)
    elif system is None:
        system = System(model, start, evaluator, equal, keep_psd=True)
    given_atol, (rtol, atol, stop) = atol, checked_controls(rtol, atol, stop)
    check_level(stop, system.model.tasks)
    automatic = isinstance(method, str) and method == "auto"
    if not automatic:
        check_model(solver_class(method), system.model, schedule=schedule)
    # the last check before the first step, so that nothing is computed for a refused problem
    system.closure.check(system.S, system.w)
    if given_atol is None:
        atol = max(atol, system.closure.accuracy)
    if system.closure.chance:
        least = METHOD_OPTIONS.min_sobol_rtol
        rtol, atol = max(rtol, least), max(atol, SECOND_RUN.sobol_atol * least)
    if step is not None:  # there are no tolerances
        rtol = atol = 0.0
    span, chosen, reason = times[-1] - times[0], method, ""
    if automatic:
        chosen, reason = choose_method(system, span, rtol, fastest=largest_eta)
    solver = solver_class(chosen)
    check_options(solver, options, span or np.inf)
    if system.explicit and traits_of(solver).by_blocks:  # tasks whose eigenvalues differ
        raise check.refused(
            "method", method, "'DOP853', or SciPy's 'LSODA'.", after=f", but {system.no_jacobian_reason()}"
        )
    common = {"every_step": every_step, "stop": stop, "options": {"rtol": rtol, "atol": atol, **options}}
    keep, close, unpack = np.array, system.close, system.unpack
    if not blocks:
        keep, close, unpack = system.sums, system.close_sums, system.unpack_sums
    with bar(progress, times[-1], "alpha") as tick:
        leave = _nearly_learned(system) if late else None
        begun = partial(integrate, system, system.pack(start), times, leave=leave, tick=tick, keep=keep, **common)
        run = begun(method=solver)
        # positivity lost from a start inside the PSD matrices: run again with a projection onto them at every step
        plain = type(system) is System or step is not None  # finite steps lose it by rounding, whatever the system
        if LOST_POSITIVITY in run.message and system.psd is None and plain:
            system.psd, spent = PSDProjection(system, flat=False), run.nfev
            run = begun(method=solver)
            run.nfev += spent
        if run.parallel[0] < ANGLES.parallel_sine2 and step is None:
            _check_parallel(system, run, solver, common["options"], close)
        if system.psd is not None and run.success:
            _check_singular_start(system, run, solver, common["options"], close)
        if run.left:
            _follow_differences(system, run, solver, tick, common)
    # the start is a record only if it was requested, or if nothing else was reached
    first = int(not every_step and np.ravel(alpha)[0] != start.alpha and len(run.alpha) > 1)
    q, r, v = unpack(np.array(run.y[first:]))
    if system.duplicate_units is not None:
        q, r, v = system.duplicate_units.copied(q, r, v)
        run.message += system.duplicate_units.message
    eps_late, floor_late = np.array(run.late[first:]).T if run.late else (None, None)
    reached = np.array(run.alpha[first:])
    run.message += closure_note(system.closure, system.C)
    if run.success:
        run.message += no_overlap_note(model, start, reached, r)
    return SimpleNamespace(
        model=model, schedule=schedule, alpha=reached, q=q, v=v, **{"m": None} | model.split_rows(r),
        tau=start.tau, T=teachers_at(model, start.tau, start.T, schedule, reached), h=start.h, nu=start.nu,
        success=run.success, stopped=bool(run.success and reached[-1] < times[-1]), nfev=run.nfev,
        message=run.message,
        method=solver.__name__ + reason if step is None else f"finite steps of {step:g}", step=step,
        solver=solver if step is None else None, rtol=rtol, atol=atol, eps_late=eps_late,
        floor_late=floor_late, eps_error=np.array(run.error[first:]) + system.closure.averaging_error,
    )  # fmt: skip


def _nearly_learned(system):
    """Test whether every student has nearly learned its teacher, at a packed state."""
    reason = unfit(system.model, system.start)
    if not reason and system.model.activation.code == LINEAR and system.model.K > 1:
        reason = (
            "linear units learn their sum only, and their differences remain; expected K = M = 1, see theory.linear"
        )
    if reason:
        message = f"late=True cannot follow this problem to the end: {reason}. Leave late out."
        raise ValueError(message + check.see("integration", "Late times"))
    return lambda y: can_transition(system.model, system.state(y))[0] is not None


def _check_parallel(system, run, solver, options, close):
    """Measure the error where kinked students are nearly parallel: run again, with norms perturbed by rtol.

    The gradient depends on the angle between kinked students, the root of 1 - cos^2; overlaps determine only its
    cosine, so an error rtol of theirs is one of sqrt(rtol) of the angle, and the flow may drive such students apart at
    once.  The change of eps_g is added to its error; if the run changes too much, it has missed its tolerance.
    """
    sine2, at, y = run.parallel
    where = f"two students with a kink are nearly parallel at alpha = {at:.6g} (angle {np.sqrt(sine2):.1g})"
    if not run.success:
        run.message += f" Note that {where}, where the flow is not smooth; start from students that differ more."
        return
    q, r, v = system.unpack(y)
    q[:, *np.diag_indices(system.model.K)] *= 1 + max(options["rtol"], 4 * np.finfo(float).eps)
    worst, _ = _changes(system, run, solver, options, close, at, system.packing.pack(q, r, v))
    if worst > SECOND_RUN.max_overlap_change * options["rtol"]:
        run.success = run.left = False
        error = f"about {worst:.1g}" if np.isfinite(worst) else "any size"
        run.message += (
            f" But {where}: an error of rtol there grows to {error} of the largest overlap, so the tolerance is not "
            "met. Overlaps resolve an angle to sqrt(rtol), 1e-8 at best: try a smaller rtol, or start from students "
            "that differ more."
        )


def _check_singular_start(system, run, solver, options, close):
    """Measure the effect of rounding in a singular start: run again, with norms perturbed by some roundings."""
    psd, before = system.psd, run.error.copy()
    perturbed, system.psd = psd.perturb(system.pack(system.start)), PSDProjection(system, flat=False, reflect=True)
    _, worst = _changes(system, run, solver, options, close, run.alpha[0], perturbed)
    # errors of the steps lead off the boundary, too, but they fall with the tolerance, unless the closure limits it
    if worst > SECOND_RUN.max_change and not system.closure.chance:
        run.error = before
        options = options | {"rtol": max(options["rtol"] / 100, 1e-13), "atol": options["atol"] / 100}
        _, worst = _changes(system, run, solver, options, close, run.alpha[0], perturbed)
    system.psd = psd
    if worst > SECOND_RUN.max_change:
        run.success = run.left = False
        change = f"by {worst:.1g} of it" if np.isfinite(worst) else "by any factor"
        run.message += (
            " But the result depends on rounding of the start, where students are sums of other students or of "
            f"teachers: norms perturbed by {PSD.perturbation:.1g} change eps_g {change}. "
            "Start from students that differ more, or average over such starts."
        )


def _changes(system, run, solver, options, close, at, perturbed):
    """Run again from ``perturbed`` at the time ``at``, and add the changes of eps_g to its errors.

    Returns the largest changes of the overlaps and of eps_g, relative to the largest overlap and to eps_g; infinity
    if the other run did not reach the end. A change of eps_g counts as far as it exceeds rounding and the errors that
    both runs estimate.
    """
    later = [n for n, alpha in enumerate(run.alpha) if alpha > at]
    if not later:
        return 0.0, 0.0
    times = np.array([at, *(run.alpha[n] for n in later)])
    other = integrate(system, perturbed, times, every_step=False, method=solver, options=options, keep=run.keep)
    run.nfev += other.nfev
    if other.interrupted:
        run.message += f" The second run, which measures the growth of errors, was {other.message}"
        return 0.0, 0.0
    overlap_change = eps_g_change = 0.0 if other.success else np.inf
    for n, y, error in zip(later, other.y[1:], other.error[1:], strict=False):
        # errors are relative to eps_g, or to its rounding if that is larger
        eps_g_perturbed, eps_g = np.maximum([close(y), close(run.y[n])], system.rounding())
        step_errors, change = run.error[n] * eps_g + error * eps_g_perturbed, abs(eps_g_perturbed - eps_g)
        run.error[n] += change / eps_g
        allowed = SECOND_RUN.rounding_factor * system.rounding()
        eps_g_change = max(eps_g_change, (change - allowed - SECOND_RUN.error_factor * step_errors) / eps_g)
        overlap_change = max(overlap_change, np.max(np.abs(y - run.y[n])) / max(1.0, np.max(np.abs(run.y[n]))))
    return overlap_change, eps_g_change


def _follow_differences(system, run, solver, tick, common):
    """Continue from the end of ``run`` in the differences of students and teachers."""
    at, late = run.alpha[-1], DifferenceSystem(system.model, system.state(run.y[-1]), evaluator=system.evaluator)
    y = late.pack(late.start)
    while run.left:
        remaining = np.r_[run.alpha[-1], run.times[run.times > run.alpha[-1]]]
        other = integrate(late, y, remaining, method=solver, leave=late.drifted(y), tick=tick, **common)
        packed = np.array(other.y)
        overlaps = [system.packing.pack(*x) for x in zip(*late.unpack(packed), strict=True)]
        run.join(other, overlaps, [*zip(late.errors(packed), late.eps_floor(packed), strict=True)])
        late, y = late.realigned(packed[-1])
    run.message += f" From alpha = {at:.6g} on in the differences of students and teachers ({solver.__name__})."


def no_overlap_note(model, start, alpha, r):
    """Message about students that had no overlap with the teachers at nearly all times alpha (n,); r (n, ...)."""
    limit = NO_OVERLAP.max_overlap * np.sqrt(np.max(start.Q) * np.max(start.T, initial=0.0))
    if not np.max(np.abs(r[0]), initial=0.0) <= limit:
        return ""
    stays = int(np.argmin(np.append(np.max(np.abs(r.reshape(len(r), -1)), axis=1, initial=0.0) <= limit, False)))
    share = (alpha[stays - 1] - start.alpha) / max(alpha[-1] - start.alpha, 1e-300)
    teaches = np.any(start.T) and any(task.rule is not None or np.any(task.v_star) for task in model.tasks)
    if share < NO_OVERLAP.least_share or not teaches:
        return ""
    return (
        f" R stays at 0 up to alpha = {alpha[stays - 1]:.6g}, because overlaps with the teachers grow in proportion to "
        "themselves or not at all: start from random weights, R of order 1/sqrt(N), by model.random_start(N=, rng=)."
    )


def closure_note(closure, C):
    """Message about the accuracy of a numerically integrated closure, and of C in its last call."""
    note = f" {closure.message}" if closure.message else ""
    if closure.chance:
        least = METHOD_OPTIONS.min_sobol_rtol
        note += f" Integrals are by Sobol points, to {closure.chance:.0e}; rtol is {least:.0e} at least."
    if not closure.error > 0:
        return note
    relative = closure.error / np.max(np.abs(C))
    return f"{note} Estimated error of C at the end: {closure.error:.1e}, {relative:.1e} of its largest entry."


def checked_controls(rtol, atol, stop):
    """Tolerances and stop condition as ``integrate`` takes them."""
    rtol = check.number("rtol", rtol, above=0, below=1, hint="It is a relative error, such as 1e-8.")
    atol = min(1e-12, 1e-4 * rtol) if atol is None else check.number("atol", atol, above=0)
    if stop is not None and not callable(stop):
        stop = check.number("stop", stop, above=0, hint="A number means: stop where eps_g falls below it.")
    return rtol, atol, stop
