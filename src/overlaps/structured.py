"""Backward differentiation for many eigenvalues: SciPy's BDF with an exact Newton solve in O(L)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import BDF
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import csc_matrix

from ._derivatives_C import erf_derivatives, linear_derivatives, quadratic_derivatives
from ._derivatives_relu import relu_alignment, relu_derivatives
from ._integrals import ERF, LINEAR, NUMERIC, QUADRATIC, RELU
from ._structured import add_coupling, moments, rotate, rotate_back, solve_blocks
from ._system import System
from .differences import DifferenceSystem

__all__ = ["StructuredBDF"]

DERIVATIVES = {
    LINEAR: linear_derivatives,
    QUADRATIC: quadratic_derivatives,
    RELU: relu_derivatives,
    ERF: erf_derivatives,
}
SHARE = 0.25  # of the tolerance, that the global error aims at where nothing amplifies it
ROUNDING = 1e-14  # of a solution of J x = f relative to the largest overlap, where f is rounding and J is slow
# below these Newton corrections, and overlaps that vanish, drown in the rounding of overlaps of order one
LEAST_RTOL, LEAST_ATOL = 2e-13, 1e-14
SENSITIVE = 1e-3  # eps_g, relative to the size of its gradient times the overlaps, below which it needs smaller steps
TIGHTEST = 1e-12  # relative tolerance per step that this may lead to
NEWTON_TOLERANCE = 0.01  # of the local error; SciPy's sqrt(rtol) gains nothing here, and at 1e-8 iterates on rounding
DIFFERENCE = 1e-4  # step of the differences: closures by quadrature have an error of about 1e-8
ALIGNED = 1e-5  # sine of the angle between a relu student and another unit below which derivatives are not taken


def system_of(fun):
    """The system whose right-hand side ``fun`` is; its structure is what the solvers of this library use."""
    system = getattr(fun, "__self__", None)
    if not isinstance(system, System | DifferenceSystem):
        raise ValueError(
            f"fun = {fun!r}; expected the flow of the overlaps. Call overlaps.solve(model, start, alpha, method=...), "
            "or take a solver of scipy.integrate for other equations."
        )
    return system


class StructuredBDF(BDF):
    r"""SciPy's BDF for the flow of the overlaps, with the Newton equations solved exactly at a cost linear in L.

    .. math:: (1 - c J)\, x = b, \qquad J = D + F G

    D, the flow at frozen closure, is block diagonal and becomes diagonal in the eigenbasis of A; F G, of rank
    K(K+1)/2 + KM (+ K), is the closure's response to dQ, dR (, dv) and is solved for by Woodbury's formula. A
    factorisation and a solve both cost O(L K^2 (K + M)), as much as the right-hand side: the sums over blocks that the
    small matrix needs are the same for all columns of F, which are never formed. Step control, order and error
    estimate are SciPy's.

    Parameters
    ----------
    fun : callable
        The method ``rhs`` of a ``System``; used through ``overlaps.solve(..., method="structured")``.
    t0, y0, t_bound, **options
        As in ``scipy.integrate.BDF``; ``rtol`` and ``atol`` are what the global error of Q and R should keep.

    Raises
    ------
    ValueError
        ``fun`` is not the flow of the overlaps.

    Notes
    -----
    A local error tol per step makes the global error of a method of order 5 proportional to tol^(5/6), so BDF runs with
    tol = (rtol/4)^(6/5). Measured: the errors of Q and R are then 0.1 to 1 times rtol for rtol from 1e-4 to 1e-9,
    whatever L; the escape from a plateau multiplies them by up to 40, as it multiplies any error. Rounding in Newton's
    iteration keeps them above 1e-10 or so. As eps_g falls far below the overlaps of which it is the difference, tol
    falls with it, to 1e-12: measured, eps_g keeps rtol relative to itself, up to an absolute error of about 1e-14 from
    that rounding. An interpolated output time is as accurate as a step.

    Not exact: a numerical integrator, whose error the tolerances control.

    References
    ----------
    Shampine and Reichelt (1997), SIAM J. Sci. Comput. 18, 1; Hairer and Wanner (1996), Solving Ordinary Differential
    Equations II.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=ov.power_law(beta=1.0, L=100))
    >>> traj = ov.solve(model, model.random_start(N=1000, rng=1), [0.0, 1e5], method="structured")
    >>> traj.method, traj.nfev < 5000  # an explicit method would need millions
    ('StructuredBDF', True)
    """

    newton_tol: float
    fun: Any
    D: np.ndarray
    rtol: float
    atol: Any

    def __init__(self, fun, t0, y0, t_bound, *, rtol=1e-8, atol=1e-12, **options):
        self.system = system_of(fun)
        # order 5 with a local error of tol per step has a global error of order tol^(5/6)
        rtol, atol = max((SHARE * rtol) ** 1.2, LEAST_RTOL), max(atol * rtol**0.2, LEAST_ATOL)
        # an empty sparse Jacobian keeps BDF from allocating a dense identity matrix; ours takes its place below
        empty = csc_matrix((len(y0), len(y0)))
        super().__init__(fun, t0, y0, t_bound, rtol=rtol, atol=atol, jac=empty, **options)
        self.newton_tol = max(self.newton_tol, NEWTON_TOLERANCE)
        # BDF's step passes ``I - c * J`` to ``lu``.  Jacobian answers to this expression, with the number 1 for I:
        # the alternative is a copy of SciPy's step method, which would not follow its corrections.
        self.jac, self.lu, self.solve_lu = self._jacobian, self._factorised, self._correction
        self.trial = self.corrected = t0
        self.fun = self._timed(self.fun)
        self.I, self.J = 1.0, self.jac(self.t, self.y)
        self.D, self.atol = self.D.view(_Serial), np.full(self.n, self.atol).view(_Serial)
        self.rtol_start = self.rtol

    def _step_impl(self):
        """One step, with tolerances that follow eps_g where it is a small difference of the overlaps."""
        factor = max(self._tightening(), min(TIGHTEST / self.rtol_start, 1.0))
        self.rtol = factor * self.rtol_start
        self.atol = np.maximum(factor * np.asarray(self.atol), LEAST_ATOL * self.system.unit(self.y)).view(_Serial)
        return super()._step_impl()

    def _tightening(self):
        """Factor on the tolerances: 1 down to eps_g = SENSITIVE in natural units, then falling with it."""
        system = self.system
        if isinstance(system, DifferenceSystem):  # where eps_g is as large as its terms
            return 1.0
        K, eps_g = len(system.A), system.close(self.y)
        Q, R = system.S[:K, :K], system.S[:K, K:]
        terms = (np.sum(np.abs(system.A * Q)) / 2 + np.sum(np.abs(system.B * R))) / system.model.eta
        return float(np.clip(max(eps_g, 0.0) / max(SENSITIVE * terms, 1e-300), 0.0, 1.0)) ** 1.2

    def _jacobian(self, t, y):
        """Jacobian at y; at the last accepted point where the closure is not finite at y."""
        self.njev += 1
        finite = np.isfinite(self.system.close(y)) and np.all(np.isfinite(self.system.A))
        return Jacobian(self.system, y if finite else self.y)

    def _factorised(self, newton_matrix):
        """Count a factorisation; the expression ``I - c * J`` made it."""
        self.nlu += 1
        return newton_matrix

    def _correction(self, newton_matrix, b):
        """Correction of a Newton iteration; exactly 0 once it is negligible: a tenth of what is accepted, or rounding.

        At a fixed point corrections are rounding, which has no rate of convergence: BDF would call it divergence and
        shorten its steps without end.  A correction of 0 it takes for converged.  The first correction of a step
        is kept whatever its size is above the tolerance: the error estimate is made of it.
        """
        x = newton_matrix.solve(b)
        y = np.abs(self.y)
        negligible = 0.1 * self.newton_tol * (np.asarray(self.atol) + self.rtol * y)
        if self.trial == self.corrected:
            unit = self.system.unit(self.y)
            negligible = np.maximum(negligible, ROUNDING * unit * np.max(y / unit))
        self.corrected = self.trial
        return x if np.any(np.abs(x) > negligible) else np.zeros_like(x)

    def _timed(self, fun):
        """The right-hand side, remembering the time of its last call: the end of the step that is tried."""

        def timed(t, y):
            self.trial = t
            return fun(t, y)

        return timed


class _Serial(np.ndarray):
    """Array whose products and norms do without BLAS; to other NumPy functions it is a plain array.

    BDF takes products with its table of differences D and norms relative to atol.  BLAS spreads such a product, of a
    few n numbers, over threads: where the cores are busy with other runs, the integration became ten times slower.
    """

    def __array_function__(self, function, types, args, kwargs):
        args = [np.asarray(x) if isinstance(x, _Serial) else x for x in args]
        if function is np.dot:
            return np.einsum("ij,j...->i...", *args)
        if function is np.linalg.norm:
            return np.sqrt(np.einsum("i,i->", *args, *args))
        return function(*args, **kwargs)


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

    Numbered as in ``_derivatives``: upper triangle of Q, R, then v where it is trained.
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
