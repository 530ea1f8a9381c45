"""The best learning rate as a function of time: a search along exact gradients, and the greedy rule."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from .._base import check
from .._base.progress import bar
from .._base.quiet import warn
from .._base.record import Record
from .._base.search import minimum
from .._base.types import ArrayLike
from ..integrators.evolve import evolve
from ..models import Mixed, Stages
from ..models.model import Model
from ..models.schedule import Schedule
from ..models.state import State
from ..results.staged import StagedTrajectory, shown
from ..results.trajectory import Trajectory
from .control import MOST_STEPS, OBJECTIVES, STIFFNESS, ControlProblem, checked_knots
from .shares import OptimalShares, optimal_shares

SCAN = 40  # constant rates, log-spaced
# eps_g of a trial. Above, it counts as this, with no slope, so that the line search turns back.
DIVERGED = 1e6
# Relative difference of the objective on the grid and by an adaptive integration. Below, the grid is fine enough;
# above, it is made finer and the search goes on.
AGREEMENT = 1e-6
ROOM = 1.5  # steps of the grid suit factors up to this multiple of the first ones; beyond it the grid is made anew
# Stationarity, in units of tol, that still counts as found where the iterations ended; above, the result says that it
# was not.
LOOSE = 100


@dataclass(frozen=True, eq=False, repr=False)
class OptimalSchedule(Record):
    """The schedule that was found, and what it beats; made by :func:`overlaps.optimal_schedule`.

    Attributes
    ----------
    schedule : Schedule
        Factor on eta and eta_v, for ``solve`` and ``simulate``.
    knots, eta : ndarray, shape (n,)
        Times, counted from the start, and the learning rate there.
    value, gradient, stationarity : float, ndarray, float
        The objective, its gradient by eta at the knots, and the largest component of the gradient that no bound
        excuses, relative to the value.
    trajectory : Trajectory or StagedTrajectory
        The solution along the schedule, recorded at the knots.
    history : ndarray, shape (iterations,)
        The objective after each iteration of the better search.
    constant : tuple of two floats
        The best constant learning rate and its objective.
    success, message
        Whether a stationary point was found that is not above the best constant, and a sentence.
    """

    schedule: Schedule
    knots: np.ndarray
    eta: np.ndarray
    value: float
    gradient: np.ndarray
    stationarity: float
    trajectory: Trajectory | StagedTrajectory
    history: np.ndarray
    constant: tuple
    success: bool
    message: str

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw eta against the learning time; see :func:`overlaps.results.plotting.schedule`."""
        from ..results.plotting import schedule

        return schedule(self, ax=ax, **style)

    def __repr__(self):
        state = "success" if self.success else "FAILED"
        return f"OptimalSchedule({self.value:.6g}, best constant {self.constant[1]:.6g}, n={self.eta.size}, {state})"


def _bounds(control, bounds):
    """Bounds of eta as factors."""
    model = control.model
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds = {check.shown(bounds)}; expected a pair (lowest eta, highest eta or None)."
        ) from None
    low = check.number("bounds[0]", low, least=0)
    if high is None:
        if any(leg.model.gradient_flow for leg in control.legs):
            raise ValueError(
                "in gradient flow a larger rate is always faster: there is no optimum without an upper bound; expected "
                "bounds=(low, high)."
            )
        return low / model.eta, np.inf
    if not check.number("bounds[1]", high, above=0) > low:
        raise ValueError(f"bounds = {check.shown(bounds)}; expected lowest < highest.")
    return low / model.eta, high / model.eta


class _Search:
    """Searches of one problem on one grid."""

    def __init__(self, control, bounds, fine):
        self.control, self.bounds, self.fine = control, bounds, fine

    def constant(self):
        """(factor, objective) of the best constant rate: a scan, refined; steps are as short as each rate asks for."""
        control, (low, high) = self.control, self.bounds
        # steps diverge, about, where a mode of the mean eigenvalue does: the largest ones have few dimensions
        spectra = [leg.model.spectrum for leg in control.legs]
        limit = min(4 * x.s.max() / (control.fastest_rate * (x.p @ x.s)) for x in spectra)
        most = MOST_STEPS * STIFFNESS / (2 * self.fine * control.knots[-1] * control.fastest_rate)
        high = min(high, 2 * limit, max(most, low))
        low = min(max(low, 1e-3 * high), high)

        def objective(x):
            u = np.full(self.control.knots.size, np.exp(x))
            value = self.control.value(u, self.control.steps(u[0], self.fine))[0]
            return np.log(value) if 0 < value < DIVERGED else np.log(DIVERGED)

        grid = np.linspace(np.log(low), np.log(high), SCAN)
        x, value, _ = minimum(objective, grid, xatol=1e-7)
        return float(np.exp(x)), float(np.exp(value))

    def descend(self, u, tol, maxiter, tick):
        """(objective, factors, gradient, history) of the descent from u, or None where it begins in divergence."""
        control = self.control
        per = control.steps(ROOM * max(u.max(), 1e-300), self.fine)
        history = []

        def logarithm(x):
            value, gradient = control.gradient(x, per)
            if not (0 < value < DIVERGED and np.all(np.isfinite(gradient))):
                return np.log(DIVERGED), np.zeros_like(x)
            return np.log(value), gradient / value

        if logarithm(u)[0] >= np.log(DIVERGED):
            return None

        def callback(intermediate_result):
            history.append(np.exp(intermediate_result.fun))
            if tick is not None:
                tick(min(len(history), maxiter))

        low, high = self.bounds
        limits = [(low, None if np.isinf(high) else high)] * u.size
        options = {"maxcor": 30, "maxiter": maxiter, "maxfun": 20 * maxiter, "ftol": 1e-14}
        options["gtol"] = tol * control.model.eta
        end = minimize(logarithm, u, jac=True, method="L-BFGS-B", bounds=limits, callback=callback, options=options)
        value, gradient = control.gradient(end.x, per)
        return value, end.x, gradient, np.array(history)


def optimal_schedule(
    model: Model | Stages | Mixed,
    start: State,
    horizon: float,
    *,
    control: Literal["eta", "shares"] = "eta",
    knots: int | ArrayLike = 41,
    bounds: tuple[float, float | None] = (0.0, None),
    objective: Literal["final", "mean"] = "final",
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    maxiter: int = 500,
    progress: bool = False,
) -> "OptimalSchedule | OptimalShares":
    r"""Learning rate eta(alpha), piecewise linear on knots, that minimises the generalisation error.

    Minimised is eps_g at the horizon ("final") or its mean up to there ("mean"), by L-BFGS-B on its logarithm with the
    exact gradient of :func:`schedule_gradient`, from the best constant rate and from ``initial``. At an optimum inside
    the bounds, with the adjoint p,

    .. math:: u = - \frac{p \cdot f_1}{2\, p \cdot f_2}

    Parameters
    ----------
    model : Model or Stages
        The learning problem; its eta is the unit of the schedule, and eta_v moves with it. Stages have one eta, and one
        schedule over all of them (piecewise linear: put knots beside a switch for a jump); the error is that on the
        task of the moment.
    start : State
        Where it begins, at ``start.alpha``.
    horizon : float
        Length of the learning time, from start.alpha.
    control : {"eta", "shares"}
        Sought: the learning rate, or the shares of tasks that are :class:`Mixed`, between 0 and 1. The flow is
        linear in them: optima are pieces of 0 and 1, and arcs between on which exchanging samples gains nothing.
    knots : int or array_like
        Number of equidistant knots, or increasing times from 0 to the horizon.
    bounds : (float, float or None)
        Of eta.
    objective : {"final", "mean"}
        eps_g at the end, or its mean over the horizon.
    initial : float or array_like, optional
        Another start of the search, eta at the knots; the model's eta by default. Of shares, (knots, tasks).
    weights : array_like, shape (tasks,), optional
        With shares, of the tasks' errors in the objective; their mean by default.
    tol : float
        Stationarity at which the search ends.
    maxiter : int
        Iterations of each search.
    progress : bool
        Show a progress bar, in iterations.

    Returns
    -------
    OptimalSchedule, or OptimalShares of :class:`Mixed` tasks

    Raises
    ------
    ValueError
        Bad input; a ``control`` other than the model's; a gradient flow without upper bound; what
        :func:`schedule_gradient` refuses.

    Warns
    -----
    RuntimeWarning
        Once, with the message, where ``success`` is False: the iterations ended far from stationarity, every start
        diverged, or nothing better than the best constant was found (which is then returned).

    Notes
    -----
    A *local* optimum: the problem is not convex and no certificate is given; the result says what it beats. The value
    agrees to 1e-6 with an adaptive integration along the schedule, otherwise the grid is refined. The first and the
    last knots carry little weight: their eta is uncertain. The error of piecewise-linear rates is of order n^-4 in the
    value and n^-2 in eta.

    References
    ----------
    Saad and Rattray (1997), Phys. Rev. Lett. 79, 2578; Rattray and Saad (1998), Phys. Rev. E 58, 6379.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.1]], R=[[0.1]], T=[[1.0]])
    >>> best = ov.optimal_schedule(model, start, 10.0, knots=21)
    >>> exact = ov.theory.linear.optimal_error(10.0, m0=0.9, noise=0.5)
    >>> bool(abs(best.value / exact - 1) < 1e-6), best.constant[1] / best.value > 1.3
    (True, True)
    """
    tol, maxiter = check.number("tol", tol, above=0), check.count("maxiter", maxiter)
    sought = check.choice("control", control, ("eta", "shares"))
    if (sought == "shares") != isinstance(model, Mixed):
        raise ValueError(
            f"control = {control!r} with a {type(model).__name__}; expected 'shares' for ov.Mixed, 'eta' otherwise."
        )
    if sought == "shares":
        check.choice("objective", objective, OBJECTIVES)
        horizon, times = checked_knots(horizon, knots)
        return optimal_shares(model, check.state(start), times, objective, initial, weights, tol, maxiter, progress)
    return _optimal_rate(model, start, horizon, knots, bounds, objective, initial, tol, maxiter, progress)


def _optimal_rate(model, start, horizon, knots, bounds, objective, initial, tol, maxiter, progress):
    control = ControlProblem(model, start, horizon, knots, objective)
    limits, model = _bounds(control, bounds), control.model
    initial = check.floats("initial", model.eta if initial is None else initial, "learning rates >= 0")
    initial = np.full(control.knots.size, initial) if initial.ndim == 0 else initial
    initial = check.array("initial", initial, (control.knots.size,)) / model.eta
    if initial.min() < 0:
        raise ValueError(f"initial = {check.shown((initial * model.eta).tolist())}; expected learning rates >= 0.")
    control.steps(np.clip(ROOM * initial, *limits).max())  # too many steps are refused before the first one
    starts: list[Any] = []
    gap = 0.0
    with bar(progress, 2 * maxiter, "iterations") as tick:
        for fine in (1, 2, 4):
            search = _Search(control, limits, fine)
            constant = search.constant()
            starts = starts or [np.clip(np.full(initial.size, constant[0]), *limits), np.clip(initial, *limits)]
            ends = [search.descend(u, tol, maxiter, tick) for u in starts]
            optimum = min((end for end in ends if end is not None), key=lambda end: end[0], default=None)
            if optimum is None:
                break
            traj = _adaptive_solution(control, _schedule(control, optimum[1]))
            reached = (
                traj.eps_g[-1] if not control.mean else control.value(optimum[1], control.steps(optimum[1].max(), 4))[0]
            )
            gap, starts = abs(reached / optimum[0] - 1), [optimum[1]]
            if gap < AGREEMENT:
                break
    return _result(control, limits, optimum, constant, tol, maxiter, gap)


def _schedule(control, u):
    return Schedule(control.start.alpha + control.knots, np.maximum(u, 0.0))


def _adaptive_solution(control, schedule):
    """The adaptive solution along a schedule, recorded at the knots."""
    times = schedule.knots
    if control.stages is None:
        return Trajectory(**vars(evolve(control.model, control.start, times, schedule=schedule)))
    parts: list[Any] = []
    for model, start, alpha, paced in control.stages.in_turn(control.start, times, times, schedule, parts):
        parts.append(Trajectory(**vars(evolve(model, start, alpha, schedule=paced))))
    return StagedTrajectory(model=control.stages, alpha=shown(parts, times), parts=tuple(parts))


def _result(control, limits, end, constant, tol, maxiter, gap):
    model, trouble = control.model, ""
    # where a constant is best, both are the same up to their grids
    if end is None or not end[0] <= (1 + AGREEMENT) * constant[1]:
        trouble = "every start of the search diverged" if end is None else "nothing better than a constant was found"
        trouble += "; the best constant rate is returned. Try initial=, bounds=, or a shorter horizon."
        u = np.full(control.knots.size, constant[0])
        end = (*control.gradient(u, control.steps(u[0])), np.array([]))
        end = end[0], u, *end[1:]
    value, u, gradient, history = end
    gradient = gradient / model.eta
    at_low, at_high = u <= limits[0], u >= limits[1]
    free = np.where((at_low & (gradient > 0)) | (at_high & (gradient < 0)), 0.0, gradient)
    stationarity = float(np.max(np.abs(free)) / value)
    if not trouble and stationarity > LOOSE * tol:
        trouble = f"the search ended after {history.size} iterations at stationarity {stationarity:.1e}, above "
        trouble += f"{LOOSE} tol: an upper bound of the optimum. Try a larger maxiter than {maxiter}."
    if not trouble and gap > LOOSE * AGREEMENT:
        trouble = f"the value on the finest grid differs by {gap:.1e} from an adaptive integration. Take more knots."
    message = trouble or f"stationary to {stationarity:.1e} after {history.size} iterations."
    if trouble:
        warn(message + check.see("protocols", "The best schedule"))
    schedule = _schedule(control, u)
    traj = _adaptive_solution(control, schedule)
    best = constant[0] * model.eta, constant[1]
    return OptimalSchedule(
        schedule, control.knots, model.eta * u, value, gradient, stationarity, traj, history, best, not trouble,
        message,
    )  # fmt: skip


def greedy_schedule(
    model: Model | Stages,
    start: State,
    horizon: float,
    *,
    knots: int | ArrayLike = 41,
    bounds: tuple[float, float | None] = (0.0, None),
) -> Schedule:
    r"""Learning rate that makes eps_g fall fastest at each moment, along its own trajectory.

    .. math:: u = - \frac{\nabla\epsilon_g \cdot f_1}{2\, \nabla\epsilon_g \cdot f_2}

    Parameters
    ----------
    model, start, horizon, knots, bounds
        As in :func:`optimal_schedule`.

    Returns
    -------
    Schedule
        Factor on eta and eta_v, linear between the greedy values at the knots; at a switch of Stages, of the stage
        that begins there.

    Raises
    ------
    ValueError
        Bad input; a gradient flow without upper bound.

    Notes
    -----
    Locally optimal: on a plateau it falls, because every step is noise there, and students may never escape, where
    :func:`optimal_schedule` keeps a large rate. For one linear unit the two agree (:mod:`overlaps.theory.linear`).
    Exact up to the integration (rtol 1e-8) and to the straight lines between knots.

    References
    ----------
    Saad and Rattray (1997), Phys. Rev. Lett. 79, 2578.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[0.1]], R=[[0.1]], T=[[1.0]])
    >>> f = ov.greedy_schedule(model, start, 10.0)
    >>> exact = ov.theory.linear.optimal_eta([0.0, 10.0], m0=0.9, noise=0.5)
    >>> bool(abs(model.eta * f([0.0, 10.0]) / exact - 1).max() < 1e-6)
    True
    """
    control = ControlProblem(model, start, horizon, knots, "final")
    limits, y = _bounds(control, bounds), control.y0
    factors: dict[float, float] = {}
    for k, leg in enumerate(control.legs):
        greedy = _Greedy(leg, limits)
        y = control.enter(k, y) if k else y
        grid, options = leg.grid, {"method": "DOP853", "rtol": 1e-8, "atol": 1e-12}
        states = solve_ivp(greedy.velocity, grid[[0, -1]], y, t_eval=grid, **options).y.T
        factors |= {t: greedy.terms(np.ascontiguousarray(x))[1] for t, x in zip(grid.tolist(), states, strict=True)}
        y = np.ascontiguousarray(states[-1])
    times = control.knots
    return Schedule(control.start.alpha + times, [factors[t] for t in times.tolist()])


class _Greedy:
    """The flow of one leg at the factor that lets eps_g fall fastest."""

    def __init__(self, leg, limits):
        self.model, self.system, self.limits = leg.model, leg.system, limits

    def terms(self, y):
        """(f1, f2), and u for y: both parts of the flow, and the factor at which eps_g falls fastest."""
        system, (low, high) = self.system, self.limits
        system.close(y)
        parts, nothing = [], (np.zeros_like(system.A), np.zeros_like(system.B), system.C, np.zeros_like(system.dv))
        for matrices, second in (((system.A, system.B, system.C, system.dv), 0.0), (nothing, 1.0)):
            decays = (system.decay, system.decay_v, 0.0) if second == 0 else (0.0, 0.0, 0.0)
            parts.append(system.velocity(y, *matrices, decays, second_order=second * system.second_order))
        slope, curvature = (system.change_of_eps_g(part) for part in parts)
        if curvature > 0:
            return parts, float(np.clip(-slope / (2 * curvature), low, high))
        u = high if slope < 0 else low
        if np.isinf(u):
            raise ValueError(
                "the greedy rate is unbounded at a state without noise of steps; expected bounds=(low, high)."
            )
        return parts, u

    def velocity(self, _, y):
        """dy/dalpha."""
        (f1, f2), u = self.terms(y)
        dy, crossed = u * f1 + u**2 * f2, self.system.source[0, 0].size * self.model.K * self.model.M
        dy[:crossed] -= self.model.drift * y[:crossed]
        return dy
