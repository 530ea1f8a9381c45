"""A model on a start as an ordinary differential equation in one packed vector."""

import numpy as np

from ._flow import flow, gather
from .closure import bind
from .state import State


class System:
    """dy/dalpha = rhs(alpha, y) for the packed order parameters of ``_flow``; keeps all work arrays."""

    def __init__(self, model, start):
        self.model, self.start = model, start
        K, M, L = model.K, model.M, model.spectrum.L
        self.shape = L, K, M
        self.upper = np.triu_indices(K)
        self.S = np.array(start.S)
        self.w = np.concatenate([start.v, -model.v_star])
        self.A, self.B, self.C, self.dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
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

    def state(self, y):
        """Y -> State, with the constants of the start."""
        q, r, v = self.unpack(y)
        return State(q=q, r=r, tau=self.start.tau, T=self.start.T, v=v, s=self.start.s)

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        L, K, M = self.shape
        gather(y, self.model.spectrum.s, K, M, self.model.trains_v, self.S, self.w)
        return self.closure(self.S, self.w, self.A, self.B, self.C, self.dv)

    def rhs(self, _, y):
        """dy/dalpha; the flow is autonomous."""
        self.close(y)
        dy = np.empty_like(y)
        spectrum = self.model.spectrum
        flow(
            y, spectrum.s, spectrum.p, self.start.tau, self.A, self.B, self.C, self.dv,
            self.decay, self.decay_v, self.second_order, self.model.trains_v, dy,
        )  # fmt: skip
        return dy
