"""The exact Jacobian of the flow, dense or as an operator.

The flow is linear in the overlaps at frozen closure, and linear in the closure at frozen overlaps.  Its Jacobian is
therefore the flow itself, called twice: J = D + F G, where D is the flow at frozen closure without its sources, G reads
(R, Q, v) off the packed vector, and column u of F is the flow driven by dA/du, dB/du, dC/du, d(dv)/du.

``structured`` solves with the same J; what a solver may approximate (differenced closures, aligned relu units) is
computed accurately here, or refused.
"""

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse.linalg import LinearOperator

from ..activations._relu_derivatives import relu_alignment
from ..activations.numeric import NumericClosure
from ..gaussian.two_point import NUMERIC, RELU
from ._flow import flow
from .newton import DERIVATIVES

__all__ = ["Derivative", "jacobian"]

ALIGNED = 1e-6  # sine of the angle between relu units below which their closure has no usable derivative
STEP = 2e-3  # of finite differences, for closures in closed form without derivatives
STEP_NUMERIC = 2e-2  # the same for closures by quadrature
AGREEMENT = 1e-5  # of finite differences with two steps, relative; worse is refused
SIXTH_ORDER = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))


class Derivative:
    """Jacobian of the packed right-hand side at y, in its parts: dy -> D dy is ``frozen``, the rest is F @ G."""

    def __init__(self, system, y):
        self.system = system
        L, K, M = system.shape
        spectrum, trains_v = system.model.spectrum, system.model.trains_v
        system.close(y)
        self.A, self.B = system.A.copy(), system.B.copy()
        triangle, n_r = K * (K + 1) // 2, K * M
        changes = closure_derivatives(system)
        order = np.r_[triangle : triangle + n_r, :triangle, triangle + n_r : triangle + n_r + K * trains_v]
        self.F = np.empty((order.size, y.size))
        for row, u in zip(self.F, order, strict=True):
            flow(y, spectrum.s, spectrum.p, system.start.tau, *(change[u] for change in changes),
                 0.0, 0.0, system.second_order, trains_v, row)  # fmt: skip
        self.F = self.F.T
        self.G = block_diag(np.tile(np.eye(n_r), L), np.kron(spectrum.s, np.eye(triangle)), np.eye(K * trains_v))
        self.where = np.concatenate(  # positions of block l in the packed vector
            [np.arange(L * n_r).reshape(L, -1), L * n_r + np.arange(L * triangle).reshape(L, -1)], axis=1
        )

    def frozen(self, dy):
        """D dy: the flow without its sources."""
        system = self.system
        L, K, M = system.shape
        spectrum, out = system.model.spectrum, np.empty(dy.size)
        flow(np.ascontiguousarray(dy, float), spectrum.s, spectrum.p, np.zeros((L, M, M)), self.A, self.B,
             np.zeros((K, K)), np.zeros(K), system.decay, system.decay_v, 0.0, system.model.trains_v, out)  # fmt: skip
        return out

    @property
    def scale(self):
        """Size of the Jacobian: the fastest rate, up to a factor of order one."""
        system = self.system
        frozen = system.model.spectrum.s.max() * np.linalg.norm(self.A) + np.linalg.norm(self.B)
        response = np.sqrt(np.sum((self.F.T @ self.F) * (self.G @ self.G.T)))  # |F G|
        return 2 * (frozen + system.decay) + system.decay_v + response

    def dense(self):
        """The whole matrix (n, n)."""
        J = self.F @ self.G
        for column in self.where.T:  # blocks do not mix: one entry in all of them at once
            unit = np.zeros(len(J))
            unit[column] = 1.0
            J[self.where, column[:, None]] += self.frozen(unit)[self.where]
        v = np.arange(self.where.size, len(J))
        J[v, v] -= self.system.decay_v
        return J

    def operator(self):
        """The same as a LinearOperator, O(L) per product."""

        def product(dy):
            dy = dy.ravel()
            return self.frozen(dy) + self.F @ (self.G @ dy)

        return LinearOperator((len(self.F),) * 2, matvec=product, dtype=float)


def jacobian(system, y):
    """Dense Jacobian (n, n) of ``system.rhs`` at the packed order parameters y.

    Exact for erf, linear, quadratic and relu students; by finite differences of the closure for other activations.
    Raises ``ValueError`` where the closure has no derivative (aligned relu units, see :func:`overlaps.linearise`).
    """
    return Derivative(system, y).dense()


def closure_derivatives(system):
    """Derivatives (dA, dB, dC, d(dv)) with respect to the upper triangle of Q, R and v, at the fields of ``system``."""
    model, S, w = system.model, system.S, system.w
    _, K, M = system.shape
    d = K * (K + 1) // 2 + K * M + K
    student, teacher = model.activation.code, model.teacher_activation.code
    changes = [np.zeros((d, *x.shape)) for x in (system.A, system.B, system.C, system.dv)]
    if NUMERIC in (student, teacher):
        _finite_differences(system, changes)
        return changes
    if student == RELU and relu_alignment(S, K) < ALIGNED:
        raise ValueError(
            "a relu student is aligned with another unit: the closure has no derivative there (it behaves like the "
            "angle), so that the flow cannot be linearised. Expected students apart from each other and from the "
            "teachers; follow the trajectory with ov.solve instead."
        )
    dA, dB, dC, ddv = changes
    second_order = not model.gradient_flow
    DERIVATIVES[student](S, w, K, teacher, model.eta, model.eta_v, model.noise, second_order, dA, dB, dC, ddv)
    return changes


def _finite_differences(system, changes):
    """Fill ``changes`` by central differences of sixth order; a second step size tells whether they can be trusted."""
    S, w, K = system.S, system.w, system.model.K
    n = len(S)
    step = STEP_NUMERIC if isinstance(system.closure, NumericClosure) else STEP
    # what rounding of terms of the closure's natural size makes of a difference: no fault where the closure vanishes
    rounding = np.finfo(float).eps * max(system.model.eta, system.model.eta_v) * np.max(np.abs(w)) ** 2 / step
    unknowns = [(i, j) for i in range(K) for j in range(i, K)] + [(i, m) for i in range(K) for m in range(K, n)]
    for u, (i, j) in enumerate([*unknowns, *((k, None) for k in range(K))]):
        fine, coarse = (_slope(system, S, w, i, j, h) for h in (step, 2 * step))
        error = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(fine, coarse, strict=True))
        size = max(np.max(np.abs(x), initial=0.0) for x in (*fine, system.A, system.B))
        if not error <= AGREEMENT * size + rounding:
            raise ValueError(
                f"finite differences of the closure of {system.model.activation} and "
                f"{system.model.teacher_activation} do not settle: two steps differ by {error:.1e}, expected below "
                f"{AGREEMENT:.0e} of {size:.1e}. The state may lie on the boundary of possible overlaps (student = "
                "teacher); use an activation in closed form (ov.erf, ov.tanh, ov.polynomial) there."
            )
        for change, slope in zip(changes, fine, strict=True):
            change[u] = slope


def _slope(system, S, w, i, j, h):
    """Derivative of A, B, C, dv along S_ij (or w_i if j is None)."""
    total = [np.zeros(x.shape) for x in (system.A, system.B, system.C, system.dv)]
    for distance, coefficient in SIXTH_ORDER:
        for sign in (1, -1):
            Sh, wh = S.copy(), w.copy()
            if j is None:
                wh[i] += sign * distance * h
            else:
                Sh[i, j] = Sh[j, i] = S[i, j] + sign * distance * h
            values = [np.zeros(x.shape) for x in total]
            system.closure(Sh, wh, *values)
            for x, value in zip(total, values, strict=True):
                x += sign * coefficient / h * value
    return total
