"""The flow where classes of inputs differ in their variances, and not in all eigenspaces alike.

Eigenspaces with the same ratios of variances are a group: the one right-hand side drives each with its own A, B, C, and
Q, R, m are gathered group by group, because a class weighs them differently.
"""

import numpy as np

from ._flow import flow_for, gather, tightening
from .jacobian import Jacobian
from .system import System

__all__ = ["GroupedSystem", "jacobian_of", "system_of_model"]

STEP = 1e-3  # of differences of sixth order, in units of the largest overlap


def system_of_model(model, start, pace=None):
    """The System of a model on a start."""
    grouped = model.classes is not None and len(model.groups) > 1
    return (GroupedSystem if grouped else System)(model, start, pace)


def jacobian_of(system, y):
    """The Jacobian of a system at y: structured, or by differences where groups have no structured one."""
    return DifferencedJacobian(system, y) if isinstance(system, GroupedSystem) else Jacobian(system, y)


class DifferencedJacobian:
    """The Jacobian of the right-hand side by differences of sixth order."""

    sphere = None

    def __init__(self, system, y):
        h, unit = STEP * max(np.max(np.abs(y)), 1e-300), np.eye(y.size)
        stencil = [(j * sign, c * sign / h) for j, c in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)) for sign in (1, -1)]
        columns = [sum(c * system.rhs(0.0, y + j * h * e) for j, c in stencil) for e in unit]
        self.matrix = np.array(columns).T
        system.close(y)

    def dense(self):
        """The whole matrix (n, n)."""
        return self.matrix

    @property
    def scale(self):
        """Size of the Jacobian."""
        return np.linalg.norm(self.matrix)


class GroupedSystem(System):
    """System whose closure matrices are those of groups of blocks, one below the other."""

    def __init__(self, model, start, pace=None):
        super().__init__(model, start, pace)
        spectrum = model.spectrum
        self.groups = [(g, np.array(spectrum.s[g]), np.array(spectrum.p[g])) for g in model.groups]
        self.sources = [np.ascontiguousarray(self.source[..., g]) for g in model.groups]

    def _parts(self, y):
        """(packed vector of each group, its place in the stacked matrices)."""
        L, K, M = self.shape
        rows, v = y[: L * self.packing.entries].reshape(-1, L), y[L * self.packing.entries :]
        for i, (blocks, *_) in enumerate(self.groups):
            yield np.concatenate([rows[:, blocks].ravel(), v]), slice(i * (K + M), (i + 1) * (K + M))

    def _gather(self, y, S, w):
        for (_, s, _), (part, at) in zip(self.groups, self._parts(y), strict=True):
            gather(part, s, *self.shape[1:], self.model.trains_v, S[at], w)

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        self._gather(y, self.S, self.w)
        eps_g = self._evaluate(self.S, self.w, self.A, self.B, self.C, self.dv)
        if self.twins is not None:
            K = self.model.K
            for i in range(0, len(self.A), K):
                here = slice(i, i + K)
                *found, self.dv[:] = self.twins.average(self.A[here], self.B[here], self.C[here], self.dv)
                self.A[here], self.B[here], self.C[here] = found
        return eps_g

    def derivatives(self, exact):
        """Refused: no integrator that needs them knows groups."""
        raise ValueError(f"the flow has no structured Jacobian here: {self.closure.obstacle(self.S)}.")

    def change_of_eps_g(self, dy):
        """First-order change of eps_g by a change dy of the packed overlaps, at the last evaluation."""
        model, (_, K, M) = self.model, self.shape
        self._gather(dy, self.dS, self.dw)
        dS = self.dS.reshape(-1, K + M, K + M)[:, :K]
        change = -(np.sum(self.A.reshape(-1, K, K) * dS[..., :K]) / 2 + np.sum(self.B.reshape(-1, K, M) * dS[..., K:]))
        change /= model.eta
        return change - self.dv @ self.dw[:K] / model.eta_v if model.trains_v else change

    def tightening(self, y):
        """Factor on the tolerances that keeps eps_g as accurate as the overlaps."""
        eps_g, (_, K, M) = self.close(y), self.shape
        S, A, B = self.S.reshape(-1, K + M, K + M), self.A.reshape(-1, K, K), self.B.reshape(-1, K, M)
        return min(tightening(eps_g, *parts, self.model.eta, self.sensitive) for parts in zip(S, A, B, strict=True))

    @property
    def kernel(self):
        """None: compiled steps know one group."""
        return None

    def rhs(self, alpha, y):
        """dy/dalpha."""
        self.at(alpha)
        y = np.ascontiguousarray(y)
        self.eps_g = self.close(y)
        dy, K, (L, entries) = np.empty_like(y), self.model.K, (self.shape[0], self.packing.entries)
        rows, driven = dy[: L * entries].reshape(entries, L), self.drive(self.A, self.B, self.C, self.dv)
        for i, ((blocks, s, p), (part, _)) in enumerate(zip(self.groups, self._parts(y), strict=True)):
            out, (A, B, C) = np.empty_like(part), (x[i * K : (i + 1) * K] for x in driven[:3])
            flow_for(s.size, K)(
                part, s, p, self.sources[i], A, B, C, driven[3], self.decay, self.decay_v, self.second_order,
                self.model.trains_v, out, 0.0,
            )  # fmt: skip
            rows[:, blocks] = out[: blocks.size * entries].reshape(entries, -1)
            dy[L * entries :] = out[blocks.size * entries :]
        return dy
