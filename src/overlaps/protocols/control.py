"""An objective as a function of the learning rate at knots, with its exact gradient."""

from functools import cached_property
from typing import Literal

import numpy as np

from .._base import check
from .._base.types import Floats
from ..flow.system import System, fastest_rate, rates
from ..integrators.evolve import checked_start
from ..models.model import Model
from ..models.schedule import Schedule
from ..models.state import State
from . import _adjoint

__all__ = ["schedule_gradient"]

OBJECTIVES = "final", "mean"
STIFFNESS = 1.5  # h times the fastest rate, at most
LEAST_STEPS = 3  # in each interval between knots
MOST_STEPS = 10**6


class Control:
    """Objective and gradient for factors u at knots, by :mod:`._adjoint`; compiled where the closure is.

    ``fastest`` is the largest factor that the grid is made for, ``fine`` multiplies its number of steps.
    """

    def __init__(self, model, start, horizon, knots, objective):
        check.free(check.model(model), "expected free students: gradients along schedules are those of the free flow")
        self.model, self.start = model, checked_start(model, start)
        self.mean = check.choice("objective", objective, OBJECTIVES) == "mean"
        horizon = check.number("horizon", horizon, above=0, hint="It counts from start.alpha.")
        if np.ndim(knots) == 0:
            knots = np.linspace(0.0, horizon, check.count("knots", knots, 2))
        self.knots = np.array(check.array("knots", knots, ("n",)))
        inside = self.knots.size > 1 and np.all(np.diff(self.knots) > 0)
        if not inside or self.knots[0] != 0 or abs(self.knots[-1] - horizon) > 1e-12 * horizon:
            raise ValueError(
                f"knots = {check.shown(self.knots.tolist())}; expected at least two increasing times from 0 to "
                f"horizon = {horizon:g}, or their number."
            )
        self.system = System(model, self.start)
        self.y0, self.fastest_rate = self.system.pack(self.start), fastest_rate(self.system)
        closure, S = self.system.closure, self.system.S
        if obstacle := closure.obstacle(S):
            raise ValueError(f"there is no gradient at the start: {obstacle}.")
        eta, eta_v, noise, decay, decay_v, second_order = rates(model)
        self.constants = (
            model.K, model.teacher_activation.code, eta, eta_v, noise, np.array(model.spectrum.s),
            np.array(model.spectrum.p), np.array(self.system.source), decay, decay_v, second_order, model.trains_v,
            model.drift,
        )  # fmt: skip
        K, M = model.K, model.M
        matrices = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
        self.work = np.array(S), np.array(self.system.w), *matrices

    @cached_property
    def _steps(self):
        """(forward, backward, their two kernels), compiled where they can be; when first needed, after all checks."""
        closure, forms = self.system.closure, self.model.activation.closed_forms
        if closure.compiled is not None and hasattr(getattr(forms, "derivatives", None), "compile"):
            return _adjoint.forward, _adjoint.backward, _adjoint.ready(closure.compiled, forms.derivatives)
        return *_adjoint.interpreted(), (self._closure, self._derivatives)

    def _closure(self, S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        return self.system.closure(S, w, A, B, C, dv)

    def _derivatives(self, S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
        for out, found in zip((dA, dB, dC, ddv), self.system.closure.derivatives(S, w, exact=True), strict=True):
            out[:] = found

    def steps(self, fastest, fine=1):
        """Steps in each interval for factors up to ``fastest``."""
        wanted = np.ceil(np.diff(self.knots) * self.fastest_rate * fastest / STIFFNESS)
        per = fine * np.maximum(wanted, LEAST_STEPS)
        if not per.sum() <= MOST_STEPS:
            raise ValueError(
                f"the grid would need {per.sum():.2g} steps, expected at most {MOST_STEPS:.0e}: the fastest rate is "
                f"{self.fastest_rate * fastest:.3g} over a horizon of {self.knots[-1]:g}. Compress the spectrum "
                "(ov.compress), or take a shorter horizon."
            )
        return per.astype(np.int64)

    def value(self, u, per):
        """(objective, states at the knots)."""
        states, values = np.empty((self.knots.size, self.y0.size)), np.empty(2)
        states[0] = self.y0
        forward, _, kernels = self._steps
        with np.errstate(all="ignore"):  # a diverging trial shows itself in the value
            forward(kernels[0], self.constants, self.work, self.knots, u, per, states, values)
        return float(values[int(self.mean)]), states

    def gradient(self, u, per):
        """(objective, gradient by the factors u at the knots)."""
        value, states = self.value(u, per)
        gradient = np.full(u.size, np.nan)
        if np.isfinite(value):
            _, backward, kernels = self._steps
            with np.errstate(all="ignore"):
                backward(*kernels, self.constants, self.work, self.knots, u, per, states, self.mean, gradient)
        return value, gradient


def schedule_gradient(
    model: Model, start: State, schedule: Schedule, horizon: float, *, objective: Literal["final", "mean"] = "final"
) -> tuple[float, Floats]:
    r"""Value and gradient of the generalisation error by the learning rate at the knots of a schedule.

    With :math:`dy/d\alpha = u f_1 + u^2 f_2`, hat functions :math:`\varphi_j` and the adjoint p,

    .. math::
        p' = -J^T p - \tfrac1{\alpha_f} \nabla\epsilon_g \;[\text{mean}], \qquad
        \frac{\partial}{\partial \eta_j} = \frac1\eta \int \varphi_j\, p \cdot (f_1 + 2 u f_2)\, d\alpha

    Parameters
    ----------
    model : Model
        What is learned; eta_v moves with eta.
    start : State
        Where it begins, at ``start.alpha``.
    schedule : Schedule
        Of kind "linear", with knots from start.alpha to start.alpha + horizon.
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
        A schedule of another kind or with other ends; an unknown objective; students without derivatives; a problem
        so stiff that the grid would need more than a million steps.

    Notes
    -----
    Exact for the discretised flow (order 8, steps below 1 / fastest rate): the steps are differentiated, not the
    equation. Measured against sixth-order differences: 1e-9 of the largest component.

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
    # test: tests/protocols/test_control.py::test_gradients_against_differences
    check.kind("schedule", schedule, Schedule, "ov.Schedule([0.0, 50.0, 100.0], [1.0, 0.8, 0.1])")
    check.state(start)
    if schedule.kind != "linear":
        raise ValueError(f"schedule = {schedule!r}; expected kind 'linear', with the unknowns at its knots.")
    control = Control(model, start, horizon, schedule.knots - start.alpha, objective)
    u = np.array(schedule.values)
    value, gradient = control.gradient(u, control.steps(max(u.max(), 1e-300), fine=2))
    return value, gradient / model.eta
