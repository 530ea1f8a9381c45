"""The protocol of differential equations in one packed vector, which integrators and the stability analysis call."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ..models.state import State
from ._flow import flow_for
from .packing import Packing


class DifferentialEquation(ABC):
    """dy/dalpha = rhs(alpha, y) of order parameters that are packed into a vector y (n,), under a schedule.

    At the y of the last ``close`` the work arrays hold the arguments of the closure, S (groups (K + M), K + M) and
    w (K + M,), and its results A, C (groups K, K), B (groups K, M), dv (V,), with V second layers of students.

    Attributes
    ----------
    model, start : Model, State
        The learning problem.
    evaluator : ScheduleEvaluator or None
        Its schedule.
    shape : tuple
        (L, K, M).
    packing : Packing
        Layout of y.
    closure : Bound
        The closure of the model.
    eps_g : float
        Generalisation error at the last ``rhs``.
    s, p, source : ndarray, shape (L,), (L,), (M, M, L)
        Eigenvalues, weights and tau: arguments of the kernels of the flow besides the closure.
    groups : int
        Number of groups of blocks with A, B, C of their own.
    decay, decay_v, second_order : float
        Rates of decay of r and v, and the weight of C, at the last ``at``.
    kernel : callable or None
        The compiled closure, if the equation can be integrated in compiled code.
    error_size : float
        Size of the terms that cancel in eps_g, if A and B are not its gradient; otherwise 0.
    explicit, polynomial : bool
        Whether there is no structured Jacobian; whether rounding does not accumulate, because the closure is a
        polynomial of few overlaps.
    psd : PSDProjection or None
        The projection after every step, if the start is singular.
    refusal : str
        Why the schedule is invalid at a time, if it is.
    """

    evaluator: Any = None
    edge: float = np.inf  # end of the current segment between knots
    u = u_v = 1.0  # factors of the schedule on A, B and on dv
    groups = 1
    psd: Any = None
    duplicate_units: Any = None
    kernel: Any = None
    refusal = ""
    error_size: Any = 0.0
    explicit: Any = False
    polynomial: Any = False
    eps_g = np.nan
    model: Any
    start: Any
    closure: Any
    packing: Packing
    shape: Any
    s: np.ndarray
    p: np.ndarray
    source: np.ndarray
    decay: float
    decay_v: float
    second_order: float

    @abstractmethod
    def pack(self, state):
        """State -> y (n,)."""

    @abstractmethod
    def unpack(self, y):
        """Arrays q (..., L, K, K), r (..., L, K, M), v (..., V) of y (..., n)."""

    @abstractmethod
    def close(self, y):
        """Evaluate the closure at y (n,) into the work arrays; return eps_g."""

    @abstractmethod
    def derivatives(self, exact):
        """Derivatives dA, dB, dC, ddv of the closure by its arguments, at the y of the last ``close``."""

    @abstractmethod
    def rhs(self, alpha, y):
        """dy/dalpha (n,); sets ``eps_g``."""

    def no_jacobian_reason(self):
        """Why the closure has no derivatives at the y of the last ``close``, or an empty string."""
        return ""

    def unit_fields(self, S):
        """(K, covariance of the fields of K units and static rows), from arguments S of the closure, or a change."""
        return self.shape[1], S.reshape(-1, *2 * S.shape[1:]).sum(axis=0)

    def change_of_eps_g(self, dy):
        """First-order change of eps_g by an error dy (n,) of y at the last ``close``, for the error control."""
        return 0.0

    def unit(self, y):
        """Scale of the entries of y, to which tolerances are relative."""
        return 1.0

    def tightening(self, y):
        """Factor <= 1 on the tolerances that keeps eps_g as accurate as the overlaps."""
        return 1.0

    @property
    def tolerance_fractions(self):
        """Factors (n,) on the absolute tolerance for the entries of y."""
        return np.ones(self.packing.size)

    def state(self, y, alpha=0.0):
        """Y -> State at time alpha, with the constants of the start."""
        q, r, v = self.unpack(y)
        start = self.start
        constant = {"tau": start.tau, "T": start.T, "s": start.s, "h": start.h, "nu": start.nu, "model": start.model}
        return State(q=q, v=v, alpha=alpha, **self.model.split_rows(r), **constant)

    def enter(self, alpha):
        """Begin the segment between knots of the schedule that contains alpha; return whether the flow jumps there."""
        if self.evaluator is None:
            return False
        later = self.evaluator.knots[self.evaluator.knots > alpha]
        # stages at the end of a segment must be evaluated before the jump
        self.edge = np.nextafter(later[0], -np.inf) if later.size else np.inf
        return alpha in self.evaluator.jumps

    def at(self, alpha):
        """Set the numbers of the flow at alpha: factors u of A, B and u_v of dv, decays and the weight of C."""
        if self.evaluator is None:
            return
        model = self.model
        self.u, self.u_v, noise, decay, batch = factors = self.evaluator.factors(min(alpha, self.edge)).tolist()
        if not all(0 <= x < np.inf for x in factors):
            self.refusal = f"the schedule gives the factors {factors} at alpha = {alpha:g}; expected finite ones >= 0."
            self.u = self.u_v = np.nan
        self.decay = self.decay if model.spherical else model.eta * model.weight_decay[0] * self.u * decay
        self.decay_v = model.eta_v * model.weight_decay[1] * self.u_v * decay
        self.second_order = 0.0 if model.gradient_flow else self.u**2 / (model.batch_size * batch)
        if self.evaluator.noisy:
            self._set_noise(noise)

    def scaled(self, A, B, C, dv):
        """Closure, or a change of it, times the factors of the schedule; C is scaled by ``second_order`` instead."""
        return (A, B, C, dv) if self.evaluator is None else (self.u * A, self.u * B, C, self.u_v * dv)

    @cached_property
    def flow(self):
        """The kernel that turns closure matrices into velocities."""
        L, K, _ = self.shape
        return flow_for(L, K, self.groups)

    def velocity(self, y, A, B, C, dv, decays=(0.0, 0.0, 0.0), *, second_order=None, source=None):
        """Velocity (n,) of the packed y (n,) for given A, B, C, dv.

        ``decays`` are those of students and of v, and the drift; ``second_order`` and ``source`` are the system's by
        default.
        """
        second_order = self.second_order if second_order is None else second_order
        source, dy = self.source if source is None else source, np.empty(y.size)
        (decay, decay_v, drift), trains_v = decays, self.model.trains_v
        self.flow(y, self.s, self.p, source, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift)
        return dy

    def _set_noise(self, factor):
        self.closure.change(noise=self.model.noise * factor)
