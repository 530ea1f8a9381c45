"""Optimal shares of mixed tasks as functions of time, by a search along exact gradients."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, minimize

from .._base import Immutable, bar, check, warn
from ..dynamics import solve
from ..flow.jacobian import jacobian_of
from ..flow.mixed import MixedSystem
from ..flow.system import fastest_rate
from ..models import Mixed, Schedule
from ..results.composite import MixedTrajectory
from ._adjoint import TABLEAU

__all__ = ["OptimalShares", "optimal_shares"]


class ShareOptions(NamedTuple):
    """Tunable numbers of the search for shares, and of the acceptance of any search."""

    # Largest step times the fastest rate. Double: the explicit method is unstable; half: twice as many steps.
    max_rate_step: float = 2.0
    # Number of constant shares in the scan for two tasks.
    scan_shares: int = 21
    # Stationarity at the end of the iterations, in units of tol, up to which a search is a success.
    accepted_tols: int = 100


SHARES = ShareOptions()


class Optimum(Immutable, kw_only=True):
    """The result of a search over schedules, and the best constant."""

    knots: np.ndarray
    value: float
    gradient: np.ndarray
    stationarity: float
    constant: tuple
    success: bool
    message: str

    def __repr__(self):
        state = "success" if self.success else "FAILED"
        numbers = f"{self.value:.6g}, best constant {self.constant[1]:.6g}, n={self.knots.size}"
        return f"{type(self).__name__}({numbers}, {state})"


class OptimalShares(Optimum, kw_only=True):
    """Locally optimal shares of mixed tasks; made by ``optimal_schedule(mixed, ..., control="shares")``.

    Attributes
    ----------
    schedule : Schedule, or tuple of them
        Share of the first of two tasks, or of each of more, as an argument of :class:`overlaps.Mixed`.
    knots, shares : ndarray, shape (n,), (n, tasks)
        Times, counted from the start, and the shares at these times.
    value, gradient, stationarity : float, ndarray, float
        The objective, its gradient by the shares at the knots, and the largest decrease of the objective, to first
        order and relative to the value, if the share of one task at a knot is moved to another task.
    trajectory : MixedTrajectory
        The solution along these shares, recorded at the knots.
    constant : tuple
        The best constant shares (of a scan, for two tasks; equal ones otherwise) and their objective.
    success, message
        Whether the result is a stationary point and not worse than the best constant, and a sentence.
    """

    schedule: Any
    shares: np.ndarray
    trajectory: MixedTrajectory


class Search:
    """Objective and gradient for shares (knots, n), by differentiation of the discrete steps."""

    def __init__(self, mixed, start, knots, weights, mean):
        start, n = mixed.enter(start), len(mixed)
        self.system, self.knots, self.mean, self.n = MixedSystem(mixed, start), knots, mean, n
        self.weights = check.array("weights", np.full(n, 1 / n) if weights is None else weights, (n,))
        self.y0, self.last = self.system.pack(start), np.zeros(0)
        self.per = np.maximum(1, np.ceil(np.diff(knots) * fastest_rate(self.system) / SHARES.max_rate_step)).astype(int)

    def tasks(self, y, slopes=False):
        """Velocities (n, size) and errors (n,) of the single tasks, and the gradient of their weighted error."""
        velocities, errors, gradients = [], [], []
        for pure in np.eye(self.n):
            self.system.held = pure
            velocities.append(self.system.rhs(0.0, y))
            errors.append(self.system.eps_g)
            if slopes:
                gradients.append([self.system.change_of_eps_g(e) for e in np.eye(y.size)])
        gradient: Any = self.weights @ gradients if slopes else None
        return np.array(velocities), np.array(errors), gradient

    def run(self, shares, steps=None):
        """The objective; the stages of each step, which the gradient needs, are appended to ``steps``."""
        y, area, (n_stages, a, b, c) = self.y0, 0.0, TABLEAU
        for k, per in enumerate(self.per):
            h = (self.knots[k + 1] - self.knots[k]) / per
            for step in range(per):
                stages, f = [], np.zeros((n_stages, y.size))
                for i in range(n_stages):
                    position = (step + c[i]) / per
                    pi, at = (1 - position) * shares[k] + position * shares[k + 1], y + h * a[i, :i] @ f[:i]
                    velocities, errors, gradient = self.tasks(at, self.mean and steps is not None)
                    f[i] = pi @ velocities
                    area += h * b[i] * self.weights @ errors
                    stages.append((k, position, pi, at, velocities, gradient))
                y = y + h * b @ f
                if steps is not None:
                    steps.append((h, stages))
        _, errors, self.last = self.tasks(y, steps is not None)
        return area / self.knots[-1] if self.mean else self.weights @ errors

    def gradient(self, shares):
        """(objective, its gradient (knots, n))."""
        steps: list = []
        n_stages, a, b, _ = TABLEAU
        value, gradient = self.run(shares, steps), np.zeros_like(shares)
        lam = np.zeros_like(self.y0) if self.mean else self.last
        for h, stages in reversed(steps):
            theta = np.zeros((n_stages, lam.size))
            for i in range(n_stages - 1, -1, -1):
                k, position, pi, y, velocities, slope = stages[i]
                mu = h * (b[i] * lam + a[i + 1 :, i] @ theta[i + 1 :])
                gradient[k] += (1 - position) * velocities @ mu
                gradient[k + 1] += position * velocities @ mu
                self.system.held = pi
                self.system.at(0.0)
                theta[i] = jacobian_of(self.system, y).dense().T @ mu
                theta[i] += h * b[i] / self.knots[-1] * slope if self.mean else 0.0
            lam = lam + theta.sum(axis=0)
        return value, gradient

    def constant(self):
        """(shares, objective) of the best constant shares of two tasks, by a scan; of equal shares of more tasks."""
        x = np.linspace(0, 1, SHARES.scan_shares)
        each = np.stack([x, 1 - x], axis=1) if self.n == 2 else np.full((1, self.n), 1 / self.n)
        values = [self.run(np.tile(shares, (self.knots.size, 1))) for shares in each]
        return each[int(np.argmin(values))], float(min(values))


def optimal_shares(mixed, start, knots, objective, initial, weights, tol, maxiter, progress):
    """The result of :func:`overlaps.optimal_schedule` with ``control="shares"``."""
    search, n = Search(mixed, start, knots, weights, objective == "mean"), len(mixed)
    begin, constant = start.alpha + knots, search.constant()
    given = mixed.at(begin).T if initial is None else check.array("initial", initial, (knots.size, n))

    def all_shares(x):
        x = np.reshape(x, (knots.size, n - 1))
        return np.c_[x, 1 - x.sum(axis=1)]

    def function(x):
        value, gradient = search.gradient(all_shares(x))
        return np.log(value), (gradient[:, :-1] - gradient[:, -1:]).ravel() / value

    simplex = LinearConstraint(np.kron(np.eye(knots.size), np.ones(n - 1)), -np.inf, 1.0)
    options: dict = {"method": "L-BFGS-B"} if n == 2 else {"method": "SLSQP", "constraints": simplex}
    options |= {"options": {"maxiter": maxiter, "ftol": 1e-14} | ({"gtol": tol} if n == 2 else {})}
    with bar(progress, 2 * maxiter, "iterations") as tick:
        ends = []
        for first in (given, np.tile(constant[0], (knots.size, 1))):
            x, limits = first[:, :-1].ravel(), [(0.0, 1.0)] * (knots.size * (n - 1))
            ends.append(minimize(function, x, jac=True, bounds=limits, **options))
            if tick is not None:
                tick(len(ends) * maxiter)
    best = min(ends, key=lambda end: end.fun)
    shares = np.clip(all_shares(best.x), 0.0, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    value, gradient = search.gradient(shares)
    stationarity = float(np.max(shares * (gradient - np.min(gradient, axis=1, keepdims=True))) / value)
    success = bool(stationarity <= SHARES.accepted_tols * tol and value <= (1 + 1e-6) * constant[1])
    message = f"stationary to {stationarity:.1e} after {best.nit} iterations, best constant {constant[1]:.6g}."
    if not success:
        message = f"{value:.6g} is {message} Expected {SHARES.accepted_tols} tol: "
        message += f"try a larger maxiter than {maxiter}, or initial=."
        warn(message + check.see("protocols", "Tasks mixed in one step"))
    each = tuple(Schedule(begin, x) for x in shares.T)
    schedule: Any = each[0] if n == 2 else each
    traj = solve(Mixed(mixed.models, schedule, mixed.heads), start, begin)
    return OptimalShares(
        schedule=schedule, knots=knots, shares=shares, value=value, gradient=gradient, stationarity=stationarity,
        trajectory=traj, constant=constant, success=success, message=message,
    )  # fmt: skip
