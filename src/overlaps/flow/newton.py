"""J = D + F G of the flow and the factorised Newton matrix 1 - c J, at a cost linear in L."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from ..activations._erf import erf_derivatives
from ..activations._linear import linear_derivatives
from ..activations._quadratic import quadratic_derivatives
from ..activations._relu_derivatives import relu_alignment, relu_derivatives
from ..gaussian.two_point import ERF, LINEAR, NUMERIC, QUADRATIC, RELU
from ._newton import add_coupling, moments, rotate, rotate_back, solve_blocks
from .differences import DifferenceSystem

DERIVATIVES = {
    LINEAR: linear_derivatives,
    QUADRATIC: quadratic_derivatives,
    RELU: relu_derivatives,
    ERF: erf_derivatives,
}
DIFFERENCE = 1e-4  # step of the differences: closures by quadrature have an error of about 1e-8
ALIGNED = 1e-5  # sine of the angle between a relu student and another unit below which derivatives are not taken


class Jacobian:
    """J = D + F G of the flow at y, in units of the overlaps' size and in the frame where A is diagonal."""

    __array_ufunc__ = None  # a NumPy number c leaves c * J to __rmul__

    def __init__(self, system, y):
        self.system = system
        system.close(y)
        self.a, self.V = np.linalg.eigh(system.A)
        self.B = self.V.T @ system.B
        L, K, M = system.shape
        self.unit = system.unit(y)
        self.r, self.q = np.empty((L, K, M)), np.empty((L, K, K))
        rotate(y / self.unit, self.V, L, K, M, self.r, self.q)
        dA, dB, dC, self.ddv = closure_derivatives(system)
        self.dA = self.V.T @ dA @ self.V
        self.dB = self.V.T @ dB
        self.dC = system.second_order * (self.V.T @ dC @ self.V)
        spectrum = system.model.spectrum
        self.blocks = spectrum.s, spectrum.p, system.tau, self.a, self.B

    def __rmul__(self, c):
        return _Scaled(float(c), self)

    def read(self, dQ, dR, dv):
        """G: rotated dQ (..., K, K) and dR (..., K, M), and dv (..., K), to the vector g (..., d_g)."""
        i, j = self.system.upper
        dQ, dR = (self.V @ dQ @ self.V.T)[..., i, j], self.V @ dR
        parts = [dQ, dR.reshape(*dR.shape[:-2], -1)]
        return np.concatenate(parts + [dv] * self.system.model.trains_v, axis=-1)


@dataclass(frozen=True)
class _Scaled:
    """The product c J, an intermediate of the expression I - c J."""

    c: float
    jacobian: Jacobian

    def __rsub__(self, identity):
        return NewtonMatrix(self.jacobian, self.c)


class NewtonMatrix:
    """1 - c J, factorised: x = P^-1 (b + c F g) with P = 1 - c D and (1 - c G P^-1 F) g = G P^-1 b."""

    def __init__(self, jacobian, c):
        self.jacobian, self.c = jacobian, c
        system = jacobian.system
        _, K, M = system.shape
        RA, RB, QC = np.empty((K, K, M)), np.empty((K, M, M)), np.empty((K, K))
        QA, QB = np.empty((K, K, K)), np.empty((K, K, M))
        moments(jacobian.r, jacobian.q, *jacobian.blocks, c, system.decay, RA, RB, QA, QB, QC)
        dA, dB = jacobian.dA, jacobian.dB
        dR = np.einsum("uij,ijm->uim", dA, RA) + np.einsum("uin,inm->uim", dB, RB)
        half = np.einsum("uik,ijk->uij", dA, QA) + np.einsum("uin,ijn->uij", dB, QB)
        dQ = half + half.swapaxes(1, 2) + jacobian.dC * QC
        self.v_factor = 1 / (1 + c * system.decay_v)
        columns = jacobian.read(dQ, dR, self.v_factor * jacobian.ddv).T
        self.small = lu_factor(np.eye(len(columns)) - c * columns, overwrite_a=True, check_finite=False)

    def solve(self, b):
        """Solve (1 - c J) x = b for packed b."""
        jacobian, c, system = self.jacobian, self.c, self.jacobian.system
        L, K, M = system.shape
        b = b / jacobian.unit
        x_r, x_q, dR, dQ = np.empty((L, K, M)), np.empty((L, K, K)), np.empty((K, M)), np.empty((K, K))
        rotate(b, jacobian.V, L, K, M, x_r, x_q)
        s, p, tau, a, B = jacobian.blocks
        solve_blocks(x_r, x_q, s, a, B, c, system.decay, dR, dQ)
        v = self.v_factor * b[-K:]
        g = lu_solve(self.small, jacobian.read(dQ, dR, v), overwrite_b=True, check_finite=False)
        dA, dB, dC = (np.tensordot(g, x, axes=1) for x in (jacobian.dA, jacobian.dB, jacobian.dC))
        add_coupling(jacobian.r, jacobian.q, *jacobian.blocks, c, system.decay, dA, dB, dC, x_r, x_q)
        x = np.empty_like(b)
        rotate_back(x_r, x_q, jacobian.V, x)
        if system.model.trains_v:
            x[-K:] = v + c * self.v_factor * (g @ jacobian.ddv)
        return x * jacobian.unit


def closure_derivatives(system):
    """Derivatives dA (d_g, K, K), dB (d_g, K, M), dC (d_g, K, K), ddv (d_g, K) where ``system.close`` was called last.

    Numbered as in ``_first_order``: upper triangle of Q, R, then v where it is trained.
    """
    if isinstance(system, DifferenceSystem):
        return system.derivatives()
    model = system.model
    K, M = model.K, model.M
    d = K * (K + 1) // 2 + K * M + K
    dA, dB, dC, ddv = np.zeros((d, K, K)), np.zeros((d, K, M)), np.zeros((d, K, K)), np.zeros((d, K))
    S, w = np.array(system.S), system.w
    second_order = system.second_order > 0
    student, teacher = model.activation.code, model.teacher_activation.code
    if NUMERIC in (student, teacher):
        _differences(system, S, dA, dB, dC, ddv)
    else:
        if student == RELU and relu_alignment(S, K) < ALIGNED:
            # the derivatives diverge there; those of a nearby state serve Newton's iteration as well
            S[np.diag_indices(K + M)] *= 1 + ALIGNED**2
        DERIVATIVES[student](S, w, K, teacher, model.eta, model.eta_v, model.noise, second_order, dA, dB, dC, ddv)
    d -= 0 if model.trains_v else K
    return dA[:d], dB[:d], dC[:d], ddv[:d]


def _differences(system, S, dA, dB, dC, ddv):
    """One-sided differences, for closures without analytic derivatives: Newton's iteration needs no more digits."""
    K, M, model = system.model.K, system.model.M, system.model

    def closure(S, w):
        A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
        system.closure(S, w, A, B, C, dv)
        return A, B, C, dv

    step = DIFFERENCE * np.trace(S) / (K + M)
    S = S + step * np.eye(K + M)  # keeps S positive under a change of one pair of entries
    base = closure(S, system.w)
    pairs = [*zip(*system.upper, strict=True), *((k, K + m) for k in range(K) for m in range(M))]
    for u in range(len(dA)):
        S_u, w_u, h = S.copy(), system.w.copy(), step
        if u < len(pairs):
            i, j = pairs[u]
            S_u[i, j] += h
            S_u[j, i] = S_u[i, j]
        else:
            h = DIFFERENCE * max(np.abs(model.v_star).max(), 1e-300)
            w_u[u - len(pairs)] += h
        for derivative, moved, still in zip((dA, dB, dC, ddv), closure(S_u, w_u), base, strict=True):
            derivative[u] = (moved - still) / h
