"""The optimal learning rate as a function of time: a search along exact gradients, and the greedy schedule."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from .._base import ArrayLike, bar, by_name, check, minimum, quietly, warn
from ..dynamics import solve
from ..models import Mixed, Model, Schedule, Stages, State
from ..results import StagedTrajectory, Trajectory, plotting
from .control import GRID, ControlProblem, Objective, checked_knots
from .shares import SHARES, OptimalShares, Optimum, optimal_shares


class SearchOptions(NamedTuple):
    """Tunable numbers of the search for a schedule."""

    # Number of constant rates of the scan, log-spaced over at most three decades. Half: a narrow minimum may be missed.
    scan_rates: int = 40
    # Largest eps_g of a trial. Larger values count as this one, with zero gradient, so that the line search backtracks.
    max_eps_g: float = 1e6
    # Relative difference between the objective on the grid and by an adaptive integration, above which the search
    # continues on a finer grid. It bounds the error of the value.
    grid_tol: float = 1e-6
    # The grid is stable for factors up to this multiple of the first ones. Half would be below them; double: twice as
    # many steps.
    grid_margin: float = 1.5
    # Most knots of the coarsest search. Half: starts are told apart by two or three rates; double: twice the gradients.
    coarsest: int = 8
    # Stationarity at which a search on fewer knots ends: their optimum is another one. Smaller: more gradients there.
    coarse_tol: float = 1e-2


SEARCH = SearchOptions()


class OptimalSchedule(Optimum, kw_only=True):
    """A locally optimal schedule beside the best constant; made by :func:`overlaps.optimal_schedule`.

    Attributes
    ----------
    schedule : Schedule
        Factor on eta and eta_v, for ``solve`` and ``simulate``.
    knots, eta : ndarray, shape (n,)
        Times, counted from the start, and the learning rate there.
    value, gradient, stationarity : float, ndarray, float
        The objective, its gradient by eta at the knots, and the largest component of the gradient relative to the
        value, without components that push against an active bound.
    trajectory : Trajectory or StagedTrajectory
        The solution along the schedule, recorded at the knots.
    history : ndarray, shape (iterations,)
        The objective after each iteration of the search on all knots.
    constant : tuple of two floats
        The best constant learning rate and its objective.
    success, message
        Whether the result is a stationary point and not worse than the best constant, and a sentence.
    """

    schedule: Schedule
    eta: np.ndarray
    trajectory: Trajectory | StagedTrajectory
    history: np.ndarray

    plot = plotting.schedule


def _bounds(control, bounds):
    """Bounds of eta as factors."""
    model = control.model
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise check.refused("bounds", bounds, "a pair (lowest eta, highest eta or None).") from None
    low = check.number("bounds[0]", low, least=0)
    if high is None:
        if any(segment.model.gradient_flow for segment in control.segments):
            raise ValueError(
                "in gradient flow a larger rate is always faster: there is no optimum without an upper bound; expected "
                "bounds=(low, high)."
            )
        return low / model.eta, np.inf
    if not check.number("bounds[1]", high, above=0) > low:
        raise check.refused("bounds", bounds, "lowest < highest.")
    return low / model.eta, high / model.eta


class _Search:
    """Searches of one problem on one grid."""

    def __init__(self, control, bounds, fine):
        self.control, self.bounds, self.fine = control, bounds, fine

    def constant(self):
        """(factor, objective) of the best constant rate: a scan, refined; each rate has its own length of steps."""
        control, (low, high) = self.control, self.bounds
        # estimate of the stability limit by a mode with the mean eigenvalue, because the largest ones have few
        # dimensions
        spectra = [segment.model.spectrum for segment in control.segments]
        limit = min(4 * x.s.max() / (control.fastest_rate * (x.p @ x.s)) for x in spectra)
        largest = GRID.max_steps * GRID.max_rate_step / (2 * self.fine * control.knots[-1] * control.fastest_rate)
        high = min(high, 2 * limit, max(largest, low))
        low = min(max(low, 1e-3 * high), high)

        def objective(x):
            u = np.full(self.control.knots.size, np.exp(x))
            value = self.control.value(u, self.control.steps(u[0], self.fine))[0]
            return np.log(value) if 0 < value < SEARCH.max_eps_g else np.log(SEARCH.max_eps_g)

        grid = np.linspace(np.log(low), np.log(high), SEARCH.scan_rates)
        x, value, _ = minimum(objective, grid, xatol=1e-7)
        return float(np.exp(x)), float(np.exp(value))

    def at(self, u):
        """(objective, factors, gradient, history) at a constant factor; the gradient is the derivative by it."""
        factors = np.full(self.control.knots.size, u)
        value, gradient = self.control.gradient(factors, self.control.steps(SEARCH.grid_margin * u, self.fine))
        return value, factors, np.full(factors.size, gradient.sum()), np.array([])

    def from_coarse_to_fine(self, starts, tol, maxiter, tick):
        """(objective, factors, gradient, history) of the best descent; None if the overlaps diverge at all starts.

        On nested sets of knots, with factors that are linear in between: from all starts on the coarsest set, from
        there on from the best end, in variables scaled by the curvatures found so far, which differ by powers of ten.
        """
        knots = self.control.knots
        levels = nested(knots.size) if len(starts) > 1 else [np.arange(knots.size)]
        scale = np.ones(knots.size)
        for level in levels:
            weights = np.array([np.interp(knots, knots[level], hat) for hat in np.eye(level.size)]).T
            last = level.size == knots.size
            tolerance = tol if last else max(tol, SEARCH.coarse_tol)
            tried = [self.descend(u[level], weights, scale[level], tolerance, maxiter, tick) for u in starts]
            found = [end for end in tried if end is not None]
            if not found:
                return None
            *best, scale = min(found, key=lambda end: end[0])
            starts = [best[1]]
        return best

    def descend(self, x, weights, scale, tol, maxiter, tick):
        """(objective, factors, gradient, history, scale) of the descent of the factors weights @ x from x (n,).

        The variables are x / scale; ``scale`` is returned on all knots. None if the overlaps diverge at the start.
        """
        control = self.control
        per = control.steps(SEARCH.grid_margin * max(x.max(), 1e-300), self.fine)
        history, slope = [], np.zeros(x.size)

        def logarithm(z):
            value, gradient = control.gradient(weights @ (z * scale), per)
            good = 0 < value < SEARCH.max_eps_g and np.all(np.isfinite(gradient))
            slope[:] = gradient @ weights / value if good else 0.0
            return np.log(value if good else SEARCH.max_eps_g), slope * scale

        if logarithm(x / scale)[0] >= np.log(SEARCH.max_eps_g):
            return None

        def callback(intermediate_result):
            history.append(np.exp(intermediate_result.fun))
            if tick is not None:
                tick(min(len(history), maxiter))
            # the last point that was evaluated
            if np.max(np.abs(_free(intermediate_result.x * scale, slope, self.bounds))) <= tol * control.model.eta:
                raise StopIteration

        low, high = self.bounds
        limits = [(low / a, None if np.isinf(high) else high / a) for a in scale]
        options = {"maxcor": 30, "maxiter": maxiter, "maxfun": 20 * maxiter, "ftol": 1e-14, "gtol": 0.0}
        end = minimize(
            logarithm, x / scale, jac=True, method="L-BFGS-B", bounds=limits, callback=callback, options=options
        )
        u = np.clip(weights @ (end.x * scale), low, high)
        value, gradient = control.gradient(u, per)
        curvature = np.diag(end.hess_inv.todense()) if history else np.ones(x.size)
        return value, u, gradient, np.array(history), weights @ (scale * np.sqrt(curvature))


def nested(n):
    """Indices of nested sets of n knots, the coarsest first: every second one of the next, and the last."""
    levels = [np.arange(n)]
    while levels[0].size > SEARCH.coarsest:
        levels.insert(0, np.unique(np.append(levels[0][::2], n - 1)))
    return levels


def _free(u, gradient, limits):
    """The gradient without components that push against a bound."""
    at_low, at_high = u <= limits[0], u >= limits[1]
    return np.where((at_low & (gradient > 0)) | (at_high & (gradient < 0)), 0.0, gradient)


@by_name("ov.optimal_schedule(model, start, 10.0)")
def optimal_schedule(
    model: Model | Stages | Mixed,
    start: State,
    horizon: float,
    *,
    control: Literal["eta", "shares"] = "eta",
    knots: int | ArrayLike = 41,
    bounds: tuple[float, float | None] = (0.0, None),
    objective: Objective = "final",
    initial: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    maxiter: int = 500,
    progress: bool = False,
) -> "OptimalSchedule | OptimalShares":
    r"""Learning rate eta(alpha), piecewise linear on knots, that minimises the generalisation error.

    The objective is eps_g at the horizon ("final") or its mean over the horizon ("mean"). L-BFGS-B minimises its
    logarithm with the exact gradient of :func:`schedule_gradient`, from the best constant rate and from ``initial``,
    first on few knots and then, from the better end, on more and more. At an optimum inside the bounds, with the
    adjoint p,

    .. math:: u = - \frac{p \cdot f_1}{2\, p \cdot f_2}

    Parameters
    ----------
    model : Model or Stages
        The learning problem; its eta is the unit of the schedule, which multiplies eta_v, too. Stages must have one
        eta; the schedule covers all of them (it is piecewise linear: two knots close to a switch allow a jump), and the
        error is that on the task of each stage.
    start : State
        The state at the beginning, at ``start.alpha``.
    horizon : float
        Length of the learning time, from start.alpha.
    control : {"eta", "shares"}
        The learning rate, or the shares of :class:`Mixed` tasks, between 0 and 1. The flow is linear in the shares, so
        optimal shares are 0 or 1 during some intervals, with singular arcs between them on which exchanging samples has
        no effect to first order.
    knots : int or array_like
        Number of equidistant knots, or increasing times from 0 to the horizon. ``knots=1`` is the best constant rate,
        with its derivative as ``gradient`` at both ends of the schedule.
    bounds : (float, float or None)
        Smallest and largest eta.
    objective : {"final", "mean"}
        eps_g at the end, or its mean over the horizon.
    initial : float or array_like, optional
        Another start of the search, eta at the knots; the model's eta by default. For shares, of shape (knots, tasks).
    weights : array_like, shape (tasks,), optional
        For shares: weights of the errors of the tasks in the objective; by default equal, with sum 1.
    tol : float
        Stationarity below which the search ends.
    maxiter : int
        Iterations of each search.
    progress : bool
        Show a progress bar, in iterations.

    Returns
    -------
    OptimalSchedule, or OptimalShares for :class:`Mixed` tasks

    Raises
    ------
    ValueError
        Bad input; a ``control`` that does not apply to the model; a gradient flow without upper bound; the errors of
        :func:`schedule_gradient`.

    Warns
    -----
    RuntimeWarning
        Once, with the message, if ``success`` is False: the iterations ended far from stationarity, every start
        diverged, or the search found nothing better than the best constant (which is then returned).

    Notes
    -----
    A *local* optimum: the problem is not convex, and there is no certificate; the result contains the best constant for
    comparison. The value agrees to 1e-6 with an adaptive integration along the schedule, otherwise the grid is refined.
    The first and the last knots have little influence, so their eta is uncertain. The error of piecewise-linear rates
    is of order n^-4 in the value and n^-2 in eta.

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
    check.choice("control", control, ("eta", "shares"))
    if (control == "shares") != isinstance(model, Mixed):
        raise ValueError(
            f"control = {control!r} with a {type(model).__name__}; expected 'shares' for ov.Mixed, 'eta' otherwise."
        )
    if control == "shares":
        check.choice("objective", objective, get_args(Objective))
        horizon, times = checked_knots(horizon, knots)
        return optimal_shares(model, check.state(start), times, objective, initial, weights, tol, maxiter, progress)
    single = isinstance(knots, int) and knots == 1
    problem = ControlProblem(model, start, horizon, 2 if single else knots, objective)
    limits, unit = _bounds(problem, bounds), problem.model.eta
    initial = check.floats("initial", unit if initial is None else initial, "learning rates >= 0")
    initial = np.full(problem.knots.size, initial) if initial.ndim == 0 else initial
    initial = check.array("initial", initial, (problem.knots.size,)) / unit
    if initial.min() < 0:
        raise check.refused("initial", (initial * unit).tolist(), "learning rates >= 0.")
    problem.steps(np.clip(SEARCH.grid_margin * initial, *limits).max())  # raises an error for too many steps
    starts: list[Any] = []
    gap = 0.0
    with bar(progress, maxiter, "iterations") as tick:
        for fine in (1, 2, 4):
            search = _Search(problem, limits, fine)
            constant = search.constant()
            starts = starts or [np.clip(np.full(initial.size, constant[0]), *limits), np.clip(initial, *limits)]
            optimum = search.at(constant[0]) if single else search.from_coarse_to_fine(starts, tol, maxiter, tick)
            if optimum is None:
                break
            if problem.mean:
                reached = problem.value(optimum[1], problem.steps(optimum[1].max(), 4))[0]
            else:
                reached = _solution(problem, optimum[1])[1].eps_g[-1]
            gap, starts = abs(reached / optimum[0] - 1), [optimum[1]]
            if gap < SEARCH.grid_tol:
                break
    return _result(problem, limits, optimum, constant, tol, maxiter, gap)


def _solution(control, u):
    """The schedule with the factors u at the knots, and the adaptive solution under it, recorded at the knots."""
    schedule = Schedule(control.start.alpha + control.knots, np.maximum(u, 0.0))
    with quietly():  # the value differs if a solution ends early
        return schedule, solve(control.stages or control.model, control.start, schedule.knots, schedule=schedule)


def _result(control, limits, end, constant, tol, maxiter, gap):
    model, failure_reason = control.model, ""
    # if a constant is optimal, both are equal up to the errors of their grids
    if end is None or not end[0] <= (1 + SEARCH.grid_tol) * constant[1]:
        failure_reason = "every start diverged" if end is None else "no schedule better than a constant was found"
        failure_reason += "; the best constant rate is returned. Try initial=, bounds=, or a shorter horizon."
        u = np.full(control.knots.size, constant[0])
        end = (*control.gradient(u, control.steps(u[0])), np.array([]))
        end = end[0], u, *end[1:]
    value, u, gradient, history = end
    gradient = gradient / model.eta
    stationarity = float(np.max(np.abs(_free(u, gradient, limits))) / value)
    if not failure_reason and stationarity > SHARES.accepted_tols * tol:
        failure_reason = f"the search ended after {history.size} iterations at stationarity {stationarity:.1e}, above "
        failure_reason += f"{SHARES.accepted_tols} tol: an upper bound of the optimum. "
        failure_reason += f"Try a larger maxiter than {maxiter}."
    if not failure_reason and gap > SHARES.accepted_tols * SEARCH.grid_tol:
        failure_reason = f"the value on the finest grid differs by {gap:.1e} from an adaptive integration. "
        failure_reason += "Take more knots."
    message = failure_reason or f"stationary to {stationarity:.1e} after {history.size} iterations."
    if failure_reason:
        warn(message + check.see("protocols", "The best schedule"))
    schedule, traj = _solution(control, u)
    best = constant[0] * model.eta, constant[1]
    return OptimalSchedule(
        schedule=schedule, knots=control.knots, eta=model.eta * u, value=value, gradient=gradient, history=history,
        stationarity=stationarity, trajectory=traj, constant=best, success=not failure_reason, message=message,
    )  # fmt: skip


@by_name("ov.greedy_schedule(model, start, 10.0)")
def greedy_schedule(
    model: Model | Stages,
    start: State,
    horizon: float,
    *,
    knots: int | ArrayLike = 41,
    bounds: tuple[float, float | None] = (0.0, None),
) -> Schedule:
    r"""Learning rate at which eps_g decreases fastest at each time, along the trajectory under this rate.

    .. math:: u = - \frac{\nabla\epsilon_g \cdot f_1}{2\, \nabla\epsilon_g \cdot f_2}

    Parameters
    ----------
    model, start, horizon, knots, bounds
        As in :func:`optimal_schedule`.

    Returns
    -------
    Schedule
        Factor on eta and eta_v, linear between the greedy values at the knots; at a switch of Stages, the value of the
        stage that begins there.

    Raises
    ------
    ValueError
        Bad input; a gradient flow without upper bound.

    Notes
    -----
    Optimal only at each time: on a plateau steps mainly add noise, so the rate decreases and students may never escape,
    while :func:`optimal_schedule` has a large rate there. For one linear unit the two agree
    (:mod:`overlaps.theory.linear`). Exact up to the integration (rtol 1e-8) and the interpolation between knots.

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
    for k, segment in enumerate(control.segments):
        greedy = _Greedy(segment, limits)
        y = control.enter(k, y) if k else y
        grid, options = segment.grid, {"method": "DOP853", "rtol": 1e-8, "atol": 1e-12}
        states = solve_ivp(greedy.velocity, grid[[0, -1]], y, t_eval=grid, **options).y.T
        factors |= {t: greedy.terms(np.ascontiguousarray(x))[1] for t, x in zip(grid.tolist(), states, strict=True)}
        y = np.ascontiguousarray(states[-1])
    times = control.knots
    return Schedule(control.start.alpha + times, [factors[t] for t in times.tolist()])


class _Greedy:
    """The flow of one segment at the factor at which eps_g decreases fastest."""

    def __init__(self, segment, limits):
        self.model, self.system, self.limits = segment.model, segment.system, limits

    def terms(self, y):
        """(f1, f2) and u at y: the terms of the flow of order u and u^2, and the factor for the fastest decrease."""
        system, (low, high) = self.system, self.limits
        system.close(y)
        terms, only_C = [], (np.zeros_like(system.A), np.zeros_like(system.B), system.C, np.zeros_like(system.dv))
        for matrices, second in (((system.A, system.B, system.C, system.dv), 0.0), (only_C, 1.0)):
            decays = (system.decay, system.decay_v, 0.0) if second == 0 else (0.0, 0.0, 0.0)
            terms.append(system.velocity(y, *matrices, decays, second_order=second * system.second_order))
        slope, curvature = (system.change_of_eps_g(term) for term in terms)
        if curvature > 0:
            return terms, float(np.clip(-slope / (2 * curvature), low, high))
        u = high if slope < 0 else low
        if np.isinf(u):
            raise ValueError(
                "the greedy rate is unbounded at a state without noise of steps; expected bounds=(low, high)."
            )
        return terms, u

    def velocity(self, _, y):
        """dy/dalpha."""
        (f1, f2), u = self.terms(y)
        dy, crossed = u * f1 + u**2 * f2, self.system.source[0, 0].size * self.model.K * self.model.M
        dy[:crossed] -= self.model.drift * y[:crossed]
        return dy
