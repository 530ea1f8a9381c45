"""An objective as a function of the learning rate at knots, with its exact gradient."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from .._base import Floats, by_name, check, warn
from ..flow.system import System, fastest_rate, rates
from ..gaussian.two_point import LINEAR
from ..models import Model, Schedule, Stages, State
from ..models.features import check_features
from ..models.start import checked_start
from . import _adjoint, _implicit

Objective: TypeAlias = Literal["final", "mean"]


class GridOptions(NamedTuple):
    """Tunable numbers of the grids of steps."""

    # Largest step times the fastest rate. Double: the explicit formula of order 8 is unstable; half: twice as many
    # steps.
    max_rate_step: float = 1.5
    # Steps in each interval between knots at least, to resolve a factor that changes within the interval.
    min_steps: int = 3
    # Steps of a grid at most: an error above. Half a million steps take about half the time.
    max_steps: int = 10**6
    # Implicit steps in each interval, for linear students. Double: an eighth of the error, in twice the time.
    implicit_steps: int = 24
    # Mean number of explicit steps in an interval above which linear students use implicit steps, which then take a
    # fourth of the time or less.
    max_explicit_steps: float = 12
    # Multiples of the number of implicit steps, and weights that cancel the second-order error.
    richardson: tuple[tuple[int, float], ...] = ((1, -1 / 3), (2, 4 / 3))


GRID = GridOptions()


class Segment:
    """The flow of one model on a fixed grid, and the adjoint of its steps, by ``_adjoint``."""

    def __init__(self, model, start, grid, weights):
        self.model, self.grid, self.weights = model, grid, weights  # weights @ u is the factor on the grid
        self.system = System(model, start)
        self.fastest_rate = fastest_rate(self.system)
        closure, S = self.system.closure, self.system.S
        if no_jacobian_reason := closure.no_jacobian_reason(S):
            raise ValueError(f"there is no gradient at the start: {no_jacobian_reason}.")
        self.constants, self.work = self.system.constants, self.system.work

    @cached_property
    def _steps(self):
        """(forward, backward, their three kernels), compiled if possible, at the first use after all checks."""
        flow, closure, forms = self.system.flow, self.system.closure, self.model.activation.closed_forms
        if closure.compiled is not None and hasattr(getattr(forms, "derivatives", None), "compile"):
            kernels = _adjoint.compiled_kernels(flow, closure.compiled, forms.derivatives)
            return _adjoint.forward, _adjoint.backward, kernels
        return *_adjoint.interpreted(), (flow, self._closure, self._derivatives)

    def _closure(self, S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        return self.system.closure(S, w, A, B, C, dv)

    def _derivatives(self, S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
        derivatives = self.system.closure.derivatives(S, w, exact=True)
        for out, values in zip((dA, dB, dC, ddv), derivatives, strict=True):
            out[:] = values

    def steps(self, fastest):
        """Steps in each interval for factors up to ``fastest``."""
        steps = np.ceil(np.diff(self.grid) * self.fastest_rate * fastest / GRID.max_rate_step)
        return np.maximum(steps, GRID.min_steps)

    def forward(self, y, u, per):
        """States on the grid from y on, and (eps_g at the end, its integral)."""
        states, values = np.empty((self.grid.size, y.size)), np.empty(2)
        states[0] = y
        forward, _, kernels = self._steps
        forward(*kernels[:2], self.constants, self.work, self.grid, self.weights @ u, per, states, values)
        return states, values

    def backward(self, states, u, per, final, weight, lam):
        """Gradient by u at the knots; ``lam``, the gradient of later terms by the last state, changes in place."""
        gradient, (_, backward, kernels) = np.empty(self.grid.size), self._steps
        backward(
            *kernels, self.constants, self.work, self.grid, self.weights @ u, per, states, final, weight, lam,
            gradient,
        )  # fmt: skip
        return gradient @ self.weights


class LinearSegment:
    """A :class:`Segment` for linear students with widely different eigenvalues, by ``_implicit``."""

    def __init__(self, segment):
        self.model, self.grid, self.system = segment.model, segment.grid, segment.system
        self.fastest_rate = segment.fastest_rate
        model, start = segment.model, segment.system.start
        v, v_star, (q, r, t) = start.v, model.v_star, start.plain
        self.m = v @ q @ v - 2 * (v @ r @ v_star) + v_star @ t @ v_star
        noise2, second_order = model.noise**2, rates(model)[-1]
        self.constants = self.system.s, self.system.p, float(model.eta * (v @ v)), second_order, float(noise2)

    @staticmethod
    def applies(segment):
        """Whether the students of a segment are linear and implicit steps are faster."""
        model = segment.model
        linear = model.activation.code == model.teacher_activation.code == LINEAR and segment.system.start.sees_inputs
        linear_modes = model.spectrum.L > 1 and not (model.trains_v or any(model.weight_decay) or model.drift)
        return linear and linear_modes and segment.steps(1.0).mean() > GRID.max_explicit_steps

    def steps(self, fastest):
        """Steps in each interval, for any factors."""
        return np.full(self.grid.size - 1, GRID.implicit_steps)

    def forward(self, y, u, per):
        """Overlaps m on the grid, with ``per`` and twice as many steps, and (eps_g at the end, its integral)."""
        runs = [np.empty((self.grid.size, self.m.size)) for _ in GRID.richardson]
        values = np.zeros(2)
        for (multiple, coefficient), states in zip(GRID.richardson, runs, strict=True):
            ends, states[0] = np.empty(2), self.m
            _implicit.forward(self.constants, self.grid, u, multiple * per, states, ends)
            values += coefficient * ends
        return runs, values

    def backward(self, states, u, per, final, weight, lam):
        """Gradient by u at the knots."""
        gradient = np.zeros(self.grid.size)
        for (multiple, coefficient), run in zip(GRID.richardson, states, strict=True):
            term = np.empty(self.grid.size)
            _implicit.backward(self.constants, self.grid, u, multiple * per, run, final, weight, term)
            gradient += coefficient * term
        return gradient


def checked_knots(horizon, knots):
    """The horizon, and increasing times from 0 to the horizon."""
    horizon = check.number("horizon", horizon, above=0, hint="It counts from start.alpha.")
    if check.axes("knots", knots) == 0:
        knots = np.linspace(0.0, horizon, check.count("knots", knots, 2))
    knots = np.array(check.array("knots", knots, ("n",)))
    inside = knots.size > 1 and np.all(np.diff(knots) > 0)
    if not inside or knots[0] != 0 or abs(knots[-1] - horizon) > 1e-12 * horizon:
        raise check.refused(
            "knots", knots.tolist(), f"at least two increasing times from 0 to horizon = {horizon:g}, or their number."
        )
    return horizon, knots


class ControlProblem:
    """Objective and gradient for factors u at knots, over one :class:`Segment`, or one for each of the stages.

    In ``steps``, ``fastest`` is the largest factor for which the grid is stable, and ``fine`` multiplies the number of
    steps.
    """

    def __init__(self, model, start, horizon, knots, objective):
        check_features("optimal_schedule", model)
        self.stages: Any = model if isinstance(model, Stages) else None
        self.model = model.models[0] if self.stages else model
        self.start = check.state(start)
        self.mean = check.choice("objective", objective, get_args(Objective)) == "mean"
        self.horizon, self.knots = checked_knots(horizon, knots)
        self.segments = self._segments()
        self.system, self.fastest_rate = self.segments[0].system, max(segment.fastest_rate for segment in self.segments)
        self.y0 = self.system.pack(self.start)

    def _segments(self):
        """One segment, or one for each of the stages within the horizon; the start is that of the first one."""
        if self.stages is None:
            self.start = checked_start(self.model, self.start)
            segment = Segment(self.model, self.start, self.knots, np.eye(self.knots.size))
            return [LinearSegment(segment) if LinearSegment.applies(segment) else segment]
        stages, begin = self.stages, self.start.alpha
        segments: list[Any] = []
        if len({model.eta for model in stages.models}) > 1:
            raise ValueError("the stages differ in eta, the unit of the schedule; expected equal rates.")
        if stages.heads is None and len({model.trains_v for model in stages.models}) > 1:
            raise ValueError("v is trained in some stages only; expected in all of them or in none, or heads=.")
        for i, first, last in stages.segments(begin, begin + self.horizon):
            state = segments[-1].system.start if segments else self.start
            if segments or first <= stages.begin(i):
                state = stages.enter(i, state)
            state = checked_start(stages.models[i], state)
            self.start = state if not segments else self.start
            edges = first - begin, min(last - begin, self.horizon)
            grid = np.unique(np.r_[edges, self.knots[(self.knots > edges[0]) & (self.knots < edges[1])]])
            weights = np.array([np.interp(grid, self.knots, hat) for hat in np.eye(self.knots.size)]).T
            segments.append(Segment(stages.models[i], state, grid, np.ascontiguousarray(weights)))
        self.first = stages.index(begin)
        return segments

    def enter(self, k, y):
        """State at the start of segment k for the state y at the end of segment k - 1."""
        return self.segments[k].system.pack(self.stages.enter(self.first + k, self.segments[k - 1].system.state(y)))

    def _enter_back(self, k, lam):
        """The transpose of ``enter``: the gradient by the end of segment k - 1 from that by the start of segment k."""
        before, segment = self.segments[k - 1], self.segments[k]
        old, new = (x.model.spectrum.s for x in (before, segment))
        q, r, v = segment.system.packing.unpack(lam)
        ratio = np.divide(new, old, out=np.ones_like(old), where=old > 0)[:, None, None]
        continued = self.stages.heads is None and segment.model.trains_v
        return before.system.packing.pack(q, ratio * r, v if continued else np.zeros(segment.model.K))

    def steps(self, fastest, fine=1):
        """Steps in each interval of each segment for factors up to ``fastest``."""
        per = [fine * segment.steps(fastest) for segment in self.segments]
        total = sum(x.sum() for x in per)
        if not total <= GRID.max_steps:
            raise ValueError(
                f"the grid would need {total:.2g} steps, expected at most {GRID.max_steps:.0e}: the fastest rate is "
                f"{self.fastest_rate * fastest:.3g} over a horizon of {self.knots[-1]:g}. Compress the spectrum "
                "(ov.compress), or take a shorter horizon."
            )
        return [x.astype(np.int64) for x in per]

    def value(self, u, per):
        """(objective, states on the grid of each segment)."""
        paths, integral, y = [], 0.0, self.y0
        with np.errstate(all="ignore"):  # the value of a diverging trial is nan
            for k, segment in enumerate(self.segments):
                states, (last, area) = segment.forward(self.enter(k, y) if k else y, u, per[k])
                paths.append(states)
                integral, y = integral + area, states[-1]
                if not np.all(np.isfinite(y)):
                    return np.nan, paths
        return float(integral / self.horizon if self.mean else last), paths

    def gradient(self, u, per):
        """(objective, gradient by the factors u at the knots)."""
        value, paths = self.value(u, per)
        gradient = np.full(u.size, np.nan)
        if np.isfinite(value):
            gradient, weight, lam = np.zeros(u.size), self.mean / self.horizon, np.zeros_like(paths[-1][-1])
            with np.errstate(all="ignore"):
                for k in reversed(range(len(self.segments))):
                    final = not self.mean and k + 1 == len(self.segments)
                    gradient += self.segments[k].backward(paths[k], u, per[k], final, weight, lam)
                    lam = self._enter_back(k, lam) if k else lam
        return value, gradient


@by_name("ov.schedule_gradient(model, start, schedule, 10.0)")
def schedule_gradient(
    model: Model | Stages, start: State, schedule: Schedule, horizon: float, *, objective: Objective = "final"
) -> tuple[float, Floats]:
    r"""Value and gradient of the generalisation error by the learning rate at the knots of a schedule.

    With :math:`dy/d\alpha = u f_1 + u^2 f_2`, hat functions :math:`\varphi_j` and the adjoint p,

    .. math::
        p' = -J^T p - \tfrac1{\alpha_f} \nabla\epsilon_g \;[\text{mean}], \qquad
        \frac{\partial}{\partial \eta_j} = \frac1\eta \int \varphi_j\, p \cdot (f_1 + 2 u f_2)\, d\alpha

    Parameters
    ----------
    model : Model or Stages
        The learning problem; the schedule multiplies eta_v, too. Stages must have one eta; the schedule covers all of
        them, and the error is that on the task of each stage.
    start : State
        The state at the beginning, at ``start.alpha``.
    schedule : Schedule
        A schedule of kind "linear", with knots from start.alpha to start.alpha + horizon.
    horizon : float
        Length of the learning time, from start.alpha.
    objective : {"final", "mean"}
        eps_g at the end, or its mean over the horizon.

    Returns
    -------
    value : float
        The objective.
    gradient : ndarray, shape (n,)
        Its derivatives by eta at the knots.

    Raises
    ------
    ValueError
        A schedule of another kind or with other ends; an unknown objective; students without derivatives; a grid of
        more than a million steps, for stiff problems.

    Notes
    -----
    Exact for the discretised flow (order 8, steps below 1 / fastest rate), because the steps are differentiated. The
    difference from sixth-order differences is 1e-9 of the largest component.

    References
    ----------
    Saad and Rattray (1997), Phys. Rev. Lett. 79, 2578, for the continuous problem.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=1.0, noise=0.1)
    >>> start = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=0.1 * np.eye(2), T=np.eye(2))
    >>> value, gradient = ov.schedule_gradient(model, start, ov.Schedule([0, 5, 10], [1.0, 0.8, 0.5]), 10.0)
    >>> gradient.shape, bool(abs(value - ov.solve(model, start, [10.0], schedule=ov.Schedule([0, 5, 10], [1, 0.8, 0.5]))
    ...     .eps_g[0]) < 1e-9)
    ((3,), True)
    """
    check.kind("schedule", schedule, Schedule, "ov.Schedule([0.0, 50.0, 100.0], [1.0, 0.8, 0.1])")
    check.state(start)
    if schedule.kind != "linear":
        raise ValueError(f"schedule = {schedule!r}; expected kind 'linear', with the unknowns at its knots.")
    control = ControlProblem(model, start, horizon, schedule.knots - start.alpha, objective)
    u = np.array(schedule.values)
    value, gradient = control.gradient(u, control.steps(max(u.max(), 1e-300), fine=2))
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        warn(
            "schedule_gradient: the overlaps diverge under this schedule, so that the value has no derivative; value "
            f"and gradient are nan. Try lower factors, or a smaller eta than {control.model.eta:g}."
            + check.see("protocols", "The best schedule")
        )
    return value, gradient / control.model.eta
