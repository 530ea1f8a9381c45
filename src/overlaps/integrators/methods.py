"""Integration methods: their names and options, the choice of "auto", and its reason."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._base import check
from ..flow.binding import bind
from ..flow.system import System, fastest_rate
from ..models.features import check_features
from .bdf import StructuredBDF
from .dop853 import DOP853
from .solver import FlowSolver, Traits, traits_of, with_scipy

DEFAULT_STEPS = {"max_step": np.inf, "first_step": None, "min_step": 0.0}  # the solvers' own step control
OPTION_HINTS = {
    "t_eval": "Output times go in alpha, as an array.",
    "events": "stop= ends the integration where a function changes sign.",
    "dense_output": "Trajectory.at gives the state at any time.",
    "tol": "Tolerances are rtol= and atol=.",
}
# these names come before those of SciPy, whose DOP853 has no eps_g in its error control
METHODS = {"DOP853": DOP853, "structured": StructuredBDF}
NOT_STIFF = " (auto: not stiff over this interval)"  # the reason for an explicit method, for one run and for batches


class MethodOptions(NamedTuple):
    """Tunable numbers of the choice of a method, and of the second run of certify=True."""

    max_derivative_bytes: float = 1e9  # size of the derivatives of the closure up to which "auto" takes structured BDF
    # Least rtol where integrals are by Sobol points. Smaller: the step size becomes too small at the jumps of these
    # integrals; larger: errors of the steps come near those of the integrals, 1e-3.
    min_sobol_rtol: float = 1e-4
    tolerance_ratio: float = 100.0  # ratio of the tolerances of the two runs
    # Least ratio: two tolerances of one method that differ by less give runs with a common error, which their
    # difference does not show.
    min_tolerance_ratio: float = 10.0
    max_second_run: float = 3e8  # evaluations times overlaps of an explicit second run, about ten seconds


METHOD_OPTIONS = MethodOptions()


def check_options(method, options, span=np.inf):
    """Refuse options that a solver of SciPy or of this library would ignore; replace numbers by checked ones."""
    if not options or method.__module__.partition(".")[0] not in ("scipy", __package__.partition(".")[0]):
        return  # classes of the user check their options
    solvers = [cls for cls in with_scipy(method).__mro__ if issubclass(cls, scipy.integrate.OdeSolver)]
    inits = [inspect.signature(cls.__init__).parameters for cls in solvers]
    fixed = {"self", "fun", "t0", "y0", "t_bound", "rtol", "atol", "vectorized", "options", "extraneous"}
    fixed |= {"support_complex", *traits_of(method).internal}
    known = sorted({name for init in inits for name in init} - fixed)
    wrong = [name for name in options if name not in known]
    if wrong:
        hints = "".join(f" {OPTION_HINTS[name]}" for name in wrong if name in OPTION_HINTS)
        raise ValueError(
            f"{method.__name__} has no option {', '.join(wrong)}; expected some of {', '.join(known)}, or one of the "
            f"named parameters.{hints}"
        )
    for name, default in DEFAULT_STEPS.items():
        value = options.get(name, default)
        if value is not default and not (check.axes(name, value) == 0 and value == default):
            options[name] = check.number(name, value, above=0)
    if options.get("first_step") is not None and options["first_step"] > span:
        raise ValueError(f"first_step = {options['first_step']:g}; expected at most the interval, {span:g}.")


def check_model(method, model, name="model", schedule=None):
    """Refuse a model that a solver of this library does not support."""
    for method_name, cls in METHODS.items():
        if issubclass(method, cls):
            check_features(f"method = {method_name!r}", model, schedule, name=name)


def solver_class(method):
    """OdeSolver subclass for a name of ``solve_ivp`` or a class."""
    if isinstance(method, str):
        for name, cls in METHODS.items():
            if method in (name, cls.__name__):
                return cls
        named = getattr(scipy.integrate, method, None)
        base = scipy.integrate.OdeSolver
        if isinstance(named, type) and issubclass(named, base) and named is not base:
            return named
    elif isinstance(method, type) and issubclass(method, (FlowSolver, scipy.integrate.OdeSolver)):
        return method
    raise ValueError(
        f"method = {check.shown(method)}; expected 'auto', 'structured', a solve_ivp name (RK45, RK23, DOP853, "
        "Radau, BDF, LSODA) or a subclass of scipy.integrate.OdeSolver."
    )


def choose_method(system, span, rtol, rate=None, fastest=1.0):
    """Name of a method for the System over an interval of alpha, and the reason in parentheses; ``rate`` if known.

    The costs are estimates, in evaluations of the right-hand side: DOP853 makes steps of 12 evaluations not longer
    than 6 / (fastest rate); BDF, of order 5, needs about 500 rtol^(-1/5) at any length (its solves counted).
    ``fastest`` is the largest factor of a schedule on eta.
    """
    rate = max(fastest, 1e-300) * (fastest_rate(system) if rate is None else rate)
    if not stiff(span, rtol, rate):
        return "DOP853", NOT_STIFF
    needed = f"DOP853 would need {2 * span * rate:.1g} evaluations for stability alone"
    no_jacobian_reason = _no_jacobian_reason(system)
    if system.model.spherical:
        return "DOP853", f" (auto: {needed}, but the implicit methods do not support constraint='sphere')"
    if no_jacobian_reason is None:
        return "structured", f" (auto: {needed})"
    return "DOP853", f" (auto: stiff, but no structured BDF because {no_jacobian_reason})"


def stiff(span, rtol, rate):
    """Whether DOP853 makes more evaluations than BDF, by the estimates of ``choose_method``."""
    return not 2 * span * rate < 500 * rtol**-0.2


def _no_jacobian_reason(system):
    """Why the structured BDF cannot run, or None."""
    _, K, M = system.shape
    size = 8 * (K * (K + 1) // 2 + K * M + K) * (2 * K * K + K * M + K)
    if size > METHOD_OPTIONS.max_derivative_bytes:
        return f"the closure has derivatives of {size / 1e9:.1f} GB"
    return system.no_jacobian_reason() or None


def second_run(traj, start, options, solve):
    """(Solution by ``solve(method=, ...)`` with other errors, ""); or None and the reason why there is none.

    Its tolerances are smaller by ``tolerance_ratio``; it uses another method if these would repeat the first run.
    """
    ratio, min_ratio = METHOD_OPTIONS.tolerance_ratio, METHOD_OPTIONS.min_tolerance_ratio
    sobol = METHOD_OPTIONS.min_sobol_rtol if bind(traj.model).by_chance else 0.0
    least = max(traits_of(traj.solver).least_rtol, sobol)
    tolerances = {"rtol": max(traj.rtol / ratio, least), "atol": traj.atol / ratio}
    if min_ratio * tolerances["rtol"] <= traj.rtol:
        other = solve(method=traj.solver, **tolerances, **options)
        n = len(other)
        repeated = all(np.array_equal(getattr(traj, x)[:n], getattr(other, x)) for x in ("Q", "R", "v"))
        if not repeated and min_ratio * other.rtol <= traj.rtol:
            return other, ""
    method: Any = scipy.integrate.RK45 if issubclass(traj.solver, DOP853) else DOP853
    system = System(traj.model, start.on(traj.model))
    evaluations = 2 * (traj.alpha[-1] - start.alpha) * fastest_rate(system)
    if not evaluations * system.packing.size < METHOD_OPTIONS.max_second_run:
        return None, (
            f"{traj.solver.__name__} becomes no more accurate below rtol = {least:.1g}, and another method, "
            f"{method.__name__}, would need {evaluations:.1g} evaluations; expected rtol >= {min_ratio * least:.1g}"
        )
    tolerances["rtol"] = max(traj.rtol / ratio, Traits().least_rtol)
    options = {name: value for name, value in options.items() if name in ("max_step", "first_step")}
    return solve(method=method, **tolerances, **options), ""
