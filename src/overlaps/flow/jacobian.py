"""The Jacobian of the flow: dense, as an operator, or factorised for Newton's iteration.

The flow is linear in the overlaps at frozen closure, and linear in the closure at frozen overlaps.  Its Jacobian is
therefore made of calls of the flow itself: J = D + F G.  D is the flow at frozen closure without its sources, G maps
the packed vector to g = (Q, R, v), and column u of F is the flow with dA/du, dB/du, dC/du, d(dv)/du as its closure.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from ..models.features import STRUCTURED, check_features
from ._newton import Eigenspaces, Equations, Factorised, Frozen, correct, factorise, rotate

__all__ = ["Equations", "Jacobian", "jacobian", "jacobian_of"]


class Rotated:
    """J in the frame where A is diagonal, as arrays for the kernels of ``_newton``."""

    def __init__(self, system, y, A, B, changes):
        L, K, M = self.shape = system.shape
        a, V = np.linalg.eigh(A)
        V = np.ascontiguousarray(V)
        r, q = np.empty((K, M, L)), np.empty((K, K, L))
        rotate(y, V, r, q)
        dA, dB, dC, ddv = changes
        turned = V.T @ dA @ V, V.T @ dB, system.second_order * (V.T @ dC @ V)
        ddv = np.ascontiguousarray(ddv[:, : system.dv.size * system.model.trains_v])
        self.frozen = Frozen(a, V, V.T @ B, r, q, *turned, ddv)
        self.spaces = Eigenspaces(
            system.s, system.p, np.array(system.source), system.decay, system.decay_v, system.model.drift
        )

    def workspace(self):
        """Arrays for a factorised 1 - c J, and for a right-hand side in this frame."""
        (L, K, M), d = self.shape, len(self.frozen.ddv)
        pairs = np.empty((K * (K + 1) // 2, L))
        newton = Factorised(np.empty((d, d)), np.empty(d, np.int64), np.empty((K, L)), pairs)
        return newton, np.empty((K, M, L)), np.empty((K, K, L))


class NewtonMatrix:
    """1 - c J, factorised, in units of the overlaps' size."""

    def __init__(self, rotated, unit, c):
        self.unit, self.c = unit, float(c)
        self.equations = Equations(rotated.frozen, rotated.spaces, *rotated.workspace())
        factorise(self.equations, self.c)

    def solve(self, b):
        """Solve (1 - c J) x = b for packed b."""
        b = np.ascontiguousarray(b / self.unit)
        x = np.empty_like(b)
        correct(self.equations, self.c, b, x)
        return x * self.unit


class Jacobian:
    """J = D + F G of the packed right-hand side at y, in units of ``system.unit`` (1, except for differences).

    ``exact`` requires derivatives of the closure to rounding and raises ``ValueError`` if they do not exist
    (:func:`overlaps.linearise`); an implicit integrator accepts approximate ones.
    """

    __array_ufunc__ = None  # makes NumPy numbers c use __rmul__ for c * J

    def __init__(self, system, y, *, exact=True):
        self.system = system
        system.close(y)
        self.A, self.B, *_ = system.scaled(system.A.copy(), system.B.copy(), system.C, system.dv)
        self.changes = system.scaled(*system.derivatives(exact))
        self.unit = system.unit(y)
        self.y = y / self.unit
        self.sphere = None if system.decay >= 0 else _Sphere(self, system)

    @cached_property
    def F(self):
        """Velocities (n, d_g) due to the response of the closure."""
        return np.array([self.system.velocity(self.y, *change) for change in zip(*self.changes, strict=True)]).T

    @cached_property
    def G(self):
        """Matrix (d_g, n) from the packed vector to the closure's arguments."""
        return self.system.packing.reading(self.system.model.spectrum.s)

    def frozen(self, dy):
        """D dy: the flow without its sources."""
        system, K = self.system, len(self.A)
        closure = self.A, self.B, np.zeros((K, K)), np.zeros_like(system.dv)
        decays = max(system.decay, 0.0), system.decay_v, system.model.drift
        return system.velocity(
            np.ascontiguousarray(dy, float), *closure, decays, second_order=0.0, source=np.zeros_like(system.source)
        )

    @property
    def scale(self):
        """Size of the Jacobian: the fastest rate, up to a factor of order one."""
        system = self.system
        frozen = system.model.spectrum.s.max() * np.linalg.norm(self.A) + np.linalg.norm(self.B)
        response = np.sqrt(np.sum((self.F.T @ self.F) * (self.G @ self.G.T)))  # |F G|
        return 2 * (frozen + max(system.decay, 0.0) + system.model.drift) + system.decay_v + response

    def dense(self):
        """The matrix (n, n)."""
        J = self.free()
        return J if self.sphere is None else self.sphere.projected(J, np.eye(len(J)))

    def free(self):
        """The matrix (n, n) without the constraint of spheres."""
        J = self.F @ self.G
        L, entries = self.system.shape[0], self.system.packing.entries
        blocks = np.arange(entries * L).reshape(entries, L)
        for entry in blocks:  # D does not couple blocks: one entry in all of them at once
            unit = np.zeros(len(J))
            unit[entry] = 1.0
            J[blocks, entry] += self.frozen(unit)[blocks]
        v = np.arange(entries * L, len(J))
        J[v, v] -= self.system.decay_v
        return J

    def operator(self):
        """The same as a LinearOperator, O(L) per product."""

        def product(dy):
            dy = dy.ravel()
            change = self.frozen(dy) + self.F @ (self.G @ dy)
            return change if self.sphere is None else self.sphere.projected(change[:, None], dy[:, None])[:, 0]

        return scipy.sparse.linalg.LinearOperator((self.y.size,) * 2, matvec=product, dtype=float)

    @cached_property
    def rotated(self):
        """J in the frame where A is diagonal, in which D is diagonal, too."""
        return Rotated(self.system, self.y, self.A, self.B, self.changes)

    def factorised(self, c):
        """1 - c J, with a method ``solve``; O(L) in time and memory."""
        # refuses spheres, because no frame makes the Jacobian diagonal there
        check_features(STRUCTURED, self.system.model)
        return NewtonMatrix(self.rotated, self.unit, c)

    def __rmul__(self, c):
        return _Scaled(float(c), self)


class _Sphere:
    """Derivative of ``keep_norms`` at a point: dy -= (sum_k mu_k[f] W_k) y, mu_k[f] = n_k(f) / (2 n_k(y)).

    W_k counts how often student k enters an overlap; ``reads`` (K, n) maps a packed vector to the norms n_k.
    """

    def __init__(self, jacobian, system):
        L, K, M = system.shape
        A, B, S, spectrum = jacobian.A, jacobian.B, system.S, system.model.spectrum
        one, nothing, v = np.eye(K)[:, None, :], np.zeros((L, K, M)), np.zeros(K)
        pack = system.packing.pack
        self.reads = np.array([pack(np.tile(np.outer(x, x), (L, 1, 1)), nothing, v) for x in one[:, 0]])
        self.W = np.array([pack(np.tile(x + x.T, (L, 1, 1)), nothing + x.T, v) for x in one])
        self.y, self.norms = jacobian.y, self.reads @ jacobian.y
        noise = system.second_order * spectrum.mean * np.diag(system.C) / 2
        self.mu = (np.sum(A * S[:K, :K], axis=1) + np.sum(B * S[:K, K:], axis=1) + noise) / self.norms

    def multipliers(self, change, dy):
        """Changes (K, m) of mu along dy (n, m), from those of the velocity without the constraint, ``change``."""
        return (self.reads @ change / 2 - self.mu[:, None] * (self.reads @ dy)) / self.norms[:, None]

    def projected(self, change, dy):
        """Changes (n, m) of the velocity on spheres along dy (n, m), from those without the constraint, ``change``."""
        dmu = self.multipliers(change, dy)
        return change - self.W.T @ dmu * self.y[:, None] - (self.W.T @ self.mu)[:, None] * dy

    def back(self, y):
        """Y with every student scaled to its norm at the point of the Jacobian."""
        return y * np.exp(self.W.T @ np.log(self.norms / (self.reads @ y)) / 2)


@dataclass(frozen=True)
class _Scaled:
    """The product c J, an intermediate of the expression I - c J."""

    c: float
    jacobian: Jacobian

    def __rsub__(self, identity):
        return self.jacobian.factorised(self.c)


class DifferencedJacobian:
    """The Jacobian of the right-hand side by differences of sixth order, for two or more groups of blocks."""

    sphere = None

    def __init__(self, system, y, *, step=1e-3):
        # the step is relative to the largest overlap; rounding contributes 1e-16 / step, which doubles if it is halved,
        # and the truncation error is of order step^6
        h, unit = step * max(np.max(np.abs(y)), 1e-300), np.eye(y.size)
        stencil = [(j * sign, c * sign / h) for j, c in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)) for sign in (1, -1)]
        columns = [sum(c * system.rhs(0.0, y + j * h * e) for j, c in stencil) for e in unit]
        self.matrix = np.array(columns).T
        system.close(y)

    def dense(self):
        """The matrix (n, n)."""
        return self.matrix

    @property
    def scale(self):
        """Size of the Jacobian."""
        return np.linalg.norm(self.matrix)


def jacobian_of(system, y):
    """The Jacobian of a system at y: structured, or by differences if there are several groups of blocks."""
    return DifferencedJacobian(system, y) if system.groups > 1 else Jacobian(system, y)


def jacobian(system, y):
    """Dense Jacobian (n, n) of ``system.rhs`` at the packed order parameters y.

    Exact for erf, linear, quadratic and relu students; by finite differences of the closure for other activations.
    Raises ``ValueError`` if the closure has no derivative (aligned relu units, see :func:`overlaps.linearise`).
    """
    return Jacobian(system, y).dense()
