"""A model on a start as an ordinary differential equation in one packed vector."""

import numpy as np

from ..activations.closure import bind
from ..gaussian.two_point import NUMERIC
from ..models.state import State
from ._flow import flow, gather
from .differences import DifferenceSystem


class System:
    """dy/dalpha = rhs(alpha, y) for the packed order parameters of ``_flow``; keeps all work arrays."""

    def __init__(self, model, start):
        self.model, self.start = model, start
        K, M, L = model.K, model.M, model.spectrum.L
        self.shape = L, K, M
        self.upper, self.tau = np.triu_indices(K), start.tau
        self.S = np.array(start.S)
        self.w = np.concatenate([start.v, -model.v_star])
        self.A, self.B, self.C, self.dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
        self.dS, self.dw = np.zeros_like(self.S), np.zeros_like(self.w)
        self.eps_g = np.nan  # at the last evaluation
        self.closure = bind(model)
        self.second_order = 0.0 if model.gradient_flow else 1.0 / model.batch_size
        kappa, kappa_v = model.weight_decay
        self.decay, self.decay_v = model.eta * kappa, model.eta_v * kappa_v

    def pack(self, state):
        """State -> y."""
        upper = state.q[:, *self.upper]
        return np.concatenate([state.r.ravel(), upper.ravel(), state.v if self.model.trains_v else []])

    def unpack(self, y):
        """Arrays (q, r, v) of y, which may have leading axes: y (..., size)."""
        L, K, M = self.shape
        lead = y.shape[:-1]
        r, upper, v = np.split(y, [L * K * M, L * (K * M + K * (K + 1) // 2)], axis=-1)
        q = np.empty((*lead, L, K, K), dtype=y.dtype)
        i, j = self.upper
        q[..., i, j] = q[..., j, i] = upper.reshape(*lead, L, -1)
        if not self.model.trains_v:
            v = np.broadcast_to(self.start.v, (*lead, K))
        return q, r.reshape(*lead, L, K, M), v

    def unit(self, y):
        """Natural size of the entries of y: what tolerances are relative to."""
        return 1.0

    def state(self, y):
        """Y -> State, with the constants of the start."""
        q, r, v = self.unpack(y)
        return State(q=q, r=r, tau=self.start.tau, T=self.start.T, v=v, s=self.start.s)

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        L, K, M = self.shape
        gather(y, self.model.spectrum.s, K, M, self.model.trains_v, self.S, self.w)
        return self.closure(self.S, self.w, self.A, self.B, self.C, self.dv)

    def change_of_eps_g(self, dy):
        """First-order change of eps_g by a change dy of the packed overlaps, at the last evaluation.

        d eps_g = (1/2) tr H dS with the mean Hessian H = -(A, B) / eta; E[g Delta] = -dv / eta_v.
        """
        K, M, model = self.model.K, self.model.M, self.model
        gather(dy, model.spectrum.s, K, M, model.trains_v, self.dS, self.dw)
        change = -(np.sum(self.A * self.dS[:K, :K]) / 2 + np.sum(self.B * self.dS[:K, K:])) / model.eta
        return change - self.dv @ self.dw[:K] / model.eta_v if model.trains_v else change

    def rhs(self, _, y):
        """dy/dalpha; the flow is autonomous."""
        self.eps_g = self.close(y)
        dy = np.empty_like(y)
        spectrum = self.model.spectrum
        flow(
            y, spectrum.s, spectrum.p, self.tau, self.A, self.B, self.C, self.dv,
            self.decay, self.decay_v, self.second_order, self.model.trains_v, dy,
        )  # fmt: skip
        return dy


def fastest_rate(system):
    """Estimate of the largest relaxation rate, 2 (max(s) |A| + weight decay).

    A moves with the overlaps: the larger one of the start and of students that have become teachers is taken.
    """
    model, start = system.model, system.start
    system.close(system.pack(start))
    largest = np.abs(np.linalg.eigvalsh(system.A)).max()
    if NUMERIC not in (model.activation.code, model.teacher_activation.code):
        unit = np.concatenate([np.arange(model.K) % model.M, np.arange(model.M)])
        A, B, C, dv = np.zeros_like(system.A), np.zeros_like(system.B), np.zeros_like(system.C), np.zeros(model.K)
        S = np.ascontiguousarray(start.T[np.ix_(unit, unit)])
        bind(model, second_order=False)(S, system.w, A, B, C, dv)
        largest = max(largest, np.abs(np.linalg.eigvalsh(A)).max())
    return 2 * (model.spectrum.s.max() * largest + system.decay)


def system_of(fun):
    """The system whose right-hand side ``fun`` is; its structure is what the solvers of this library use."""
    system = getattr(fun, "__self__", None)
    if not isinstance(system, System | DifferenceSystem):
        raise ValueError(
            f"fun = {fun!r}; expected the flow of the overlaps. Call overlaps.solve(model, start, alpha, method=...), "
            "or take a solver of scipy.integrate for other equations."
        )
    return system
