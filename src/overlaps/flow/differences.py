r"""Late times of perfectly learnable problems: the same flow in the differences of students and teachers.

Near the specialised fixed point eps_g is a small difference of overlaps of order one: below about 1e-16 Q, R in
float64 do not resolve it.  The overlaps of :math:`u_k = w_k - (F w^*)_k`, each student minus the teacher it has
learned, resolve any value of it.  With :math:`\tau_F = F \tau F^T` and

.. math:: D^l = U P_l U^T/N, \qquad e^l = s_l\, U P_l (F W^*)^T/N, \qquad G = A + B F^{-1}

the flow keeps its form, (q, r, B) -> (D, e, G):

.. math::
    de^l/d\alpha &= s_l A e^l + G \tau_F^l \\
    dD^l/d\alpha &= s_l (A D^l + D^l A^T) + G e^{lT} + e^l G^T + s_l p_l C
"""

from bisect import bisect
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np

from .._base import check
from ..activations.finite_differences import central_differences
from ..gaussian.quadrature import gauss_hermite, legendre
from ..gaussian.two_point import QUADRATIC
from ..models.state import reciprocal
from ._flow import gather
from .binding import bind
from .differential_equation import DifferentialEquation
from .late_transition import can_transition, quadratic_frame, reproduces, unfit
from .packing import Packing
from .system import blocks_last, weights_of

__all__ = ["DifferenceSystem", "path_nodes"]


class DifferenceOptions(NamedTuple):
    """Tunable numbers of the flow in differences of students and teachers."""

    # Largest difference of a student and its teacher, relative to the teacher, at the transition: up to it the largest
    # number of nodes gives path integrals to rounding.
    max_difference: float = 0.3
    # Relative error of the path integrals that sets their number of nodes, and the largest number.
    path_tol: float = 1e-16
    max_nodes: int = 8
    # Smaller sizes x of the differences are replaced by this: D is of order x^2, and its square would underflow.
    min_size: float = 1e-100
    # Step of the finite differences of the closure, in units of x: their error is its square, plus 1e-16 over it.
    step: float = 1e-4
    # Smaller differences are not rotated into a new frame: its own rounding, 1e-16, would change them.
    min_rotation_size: float = 1e-12
    # Decrease of eps_g relative to x^2 after which a new frame is chosen: eps_g loses two digits. A tenth: three.
    max_cancellation: float = 0.01


DIFFERENCES = DifferenceOptions()


def path_nodes(sigma):
    r"""Gauss-Legendre rule on [0, 1] for path integrals along differences of standard deviation sigma.

    For erf the integrand g'(a + t d) d has the 2n-th derivative :math:`d^{2n+1} He_{2n}(a) g'(a)`, whose mean size is
    :math:`((2n - 1)!!)^2 \sigma^{2n}` relative to the result, so that n nodes leave the relative error

    .. math:: \frac{(n!)^4}{(2n + 1)\,((2n)!)^3}\, ((2n - 1)!!)^2\, \sigma^{2n}

    The smallest n for which it is below 1e-16 is chosen: 1 node below 5e-8, 2 up to 5e-4, 3 up to 0.01, 5 up to 0.1.

    Parameters
    ----------
    sigma : float
        Largest standard deviation of a difference, relative to its teacher.

    Returns
    -------
    t, weight : ndarray, shape (n,)
        Nodes and weights; at most 8, which suffice for sigma up to 0.3.

    Notes
    -----
    Exact to rounding for erf, and for the polynomial integrands of linear and quadratic units.

    Examples
    --------
    >>> from overlaps.flow.differences import path_nodes
    >>> [path_nodes(sigma)[0].size for sigma in (1e-9, 1e-3, 0.1)]
    [1, 3, 5]
    """
    return legendre(bisect(_MAX_SIGMA, sigma) + 1)


def _path_error(n):
    double = factorial(2 * n) // (2**n * factorial(n))
    return factorial(n) ** 4 / ((2 * n + 1) * factorial(2 * n) ** 3) * double**2


# largest sigma for 1, 2, ... nodes
_MAX_SIGMA = [(DIFFERENCES.path_tol / _path_error(n)) ** (0.5 / n) for n in range(1, DIFFERENCES.max_nodes)]


class DifferenceSystem(DifferentialEquation):
    r"""Flow of the overlaps of the differences.

    The vector y is packed as that of a System, with e in place of r and D in place of q. With the size x of the
    differences, :math:`x^2 = \sum_l s_l\, \mathrm{tr} D^l`, e decreases like x and D like x^2. Tolerances are relative
    to these (:meth:`unit`), so that the same tolerances can be used down to any eps_g.

    Parameters
    ----------
    model : Model
        The learning problem.
    start : State
        Order parameters at the transition.
    frame : array_like, shape (K, M), optional
        F of :func:`~overlaps.flow.late_transition.can_transition`, which chooses it by default, for relative
        differences up to 0.3.

    Raises
    ------
    ValueError
        There is no specialised fixed point that can be followed
        (:func:`~overlaps.flow.late_transition.can_transition`).

    Notes
    -----
    Exact up to the path integrals, which are accurate to rounding (:func:`path_nodes`).  The relative error of eps_g is
    that of the transition (:func:`~overlaps.flow.late_transition.transition_error`) plus about 2 rtol ``|log x|`` from
    the integration.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.flow.differences import DifferenceSystem
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.999]], T=[[1.0]])
    >>> system = DifferenceSystem(model, start)
    >>> bool(np.isclose(system.close(system.pack(start)), ov.closure(model, start.Q, start.R, start.T).eps_g))
    True
    """

    decay = decay_v = 0.0

    def __init__(self, model, start, frame=None, evaluator=None):
        start = start.on(model)
        if frame is None:
            frame, reason = can_transition(model, start, max_difference=DIFFERENCES.max_difference)
        else:
            reason = unfit(model, start)
            frame = None if reason else check.array("frame", frame, (model.K, model.M))
            if not reason and not reproduces(model, start.v, frame):
                frame, reason = None, "sum_k v_k g((F nu)_k) is not the teacher's output for the frame F given."
        if frame is None:
            raise ValueError(f"the differences of students and teachers cannot be followed: {reason}")
        self.model, self.start, self.frame, self.evaluator = model, start, frame, evaluator
        L, K = model.spectrum.L, model.K
        self.shape = L, K, K
        self.packing = Packing(L, K, K, False)
        self.s, self.p = weights_of(model)
        self.tau = np.ascontiguousarray(frame @ start.tau @ frame.T)
        self.source = blocks_last(self.tau)
        self.inverse = np.linalg.inv(frame)
        self.Z = np.zeros((2 * K, 2 * K))  # covariance of (d, a), a = F nu, lambda = a + x d
        self.Z[K:, K:] = frame @ start.T @ frame.T
        self.w = np.concatenate([model.v, -model.v_star])
        self.x = 1.0
        # the closure in units of x: A, G / x, C / x^2
        self.A, self.B, self.C, self.dv = np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K)), np.zeros(K)
        self.second_order = 0.0 if model.gradient_flow else 1.0 / model.batch_size
        self.closure, self._differences = bind(model), model.activation.closed_forms.differences
        # sum_l s_l tr D^l = variance @ y
        diagonal = (self.packing.upper[0] == self.packing.upper[1]).astype(float)
        self.variance = np.concatenate([np.zeros(L * K * K), np.kron(diagonal, model.spectrum.s)])
        self.power = np.concatenate([np.ones(L * K * K), np.full(L * K * (K + 1) // 2, 2.0)])

    def pack(self, state):
        """State -> y: the only subtraction of numbers of order one."""
        s, inverse = self._eigenvalues()
        crossed = state.r @ self.frame.T
        # blocks without variance do not change and do not affect the fields: their differences are omitted
        e = np.where(s > 0, crossed - self.tau * inverse, 0.0)
        D = np.where(s > 0, state.q - (crossed + crossed.swapaxes(1, 2)) * inverse + self.tau * inverse**2, 0.0)
        return self._packed(D, e)

    def _packed(self, D, e):
        y = self.packing.pack(D, e)
        if not self.variance @ y > 0:
            raise ValueError("student and teacher are equal up to rounding: there is no difference to follow.")
        return y

    def _eigenvalues(self):
        """Arrays s_l and 1/s_l (0 where s_l = 0) that broadcast over blocks (L, 1, 1)."""
        s = self.model.spectrum.s[:, None, None]
        return s, reciprocal(s)

    def realigned(self, y):
        """(system, y) in the frame that is closest to the students at y; (self, y) unless the model is quadratic.

        With two or more units the fixed points of a quadratic network form a continuum, and learning ends at a distance
        from the frame that was chosen at the transition.  This distance x cancels in eps_g, which is accurate only far
        above rtol x^2.  A new frame every decade or two preserves its accuracy.
        """
        if self.model.activation.code != QUADRATIC or self.size(y) < DIFFERENCES.min_rotation_size:
            return self, y
        K = self.model.K
        self.close(y)
        D, e = self.differences(y)
        rotation = quadratic_frame(self.start.v, self.start.v, self.Z[K:, K:] + self.x * self.Z[:K, K:])
        if rotation is None:
            return self, y
        turn = rotation - np.eye(K)  # the new differences u - turn a: small numbers minus small numbers
        _, inverse = self._eigenvalues()
        crossed = turn @ e.swapaxes(1, 2) * inverse
        D = D - crossed - crossed.swapaxes(1, 2) + turn @ self.tau @ turn.T * inverse**2
        system = DifferenceSystem(self.model, self.start, rotation @ self.frame, self.evaluator)
        return system, system._packed(D, (e - turn @ self.tau * inverse) @ rotation.T)

    def drifted(self, y):
        """Function of a later y: whether students are so far from the frame that eps_g loses digits.

        None if there is no better frame.
        """
        least = DIFFERENCES.max_cancellation * self.close(y) / max(self.size(y), DIFFERENCES.min_size) ** 2
        if self.model.K == 1 or least <= 0 or self.realigned(y)[0] is self:
            return None
        return lambda later: self.close(later) < least * self.size(later) ** 2

    def size(self, y):
        """Standard deviation x of all differences lambda_k - a_k together, at y (..., size)."""
        return np.sqrt(np.maximum(y @ self.variance, 0.0))

    def unit(self, y):
        """Scale of the entries of y, to which tolerances are relative: x for e and x^2 for D."""
        return np.maximum(self.size(y), DIFFERENCES.min_size) ** self.power

    def differences(self, y):
        """Overlaps of the differences at y (..., size): D (..., L, K, K), plain, and e (..., L, K, K), times s_l."""
        D, e, _ = self.packing.unpack(y)
        return D, e

    def unpack(self, y):
        """Arrays (q, r, v) of y (..., size), as System.unpack: rounded to float64 at order one."""
        D, e = self.differences(y)
        s, inverse = self._eigenvalues()
        q = np.where(s > 0, D + (e + e.swapaxes(-1, -2)) * inverse + self.tau * inverse**2, self.start.q)
        r = np.where(s > 0, (e + self.tau * inverse) @ self.inverse.T, self.start.r)
        return q, r, np.broadcast_to(self.start.v, (*y.shape[:-1], self.model.K))

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        K = self.model.K
        gather(y, self.s, K, K, False, self.Z, self.w)
        self.x = max(float(self.size(y)), DIFFERENCES.min_size)
        # in units of x all entries of the closure are of order one, at any eps_g
        self.Z[:K, :K] /= self.x**2
        self.Z[:K, K:] /= self.x
        self.Z[K:, :K] /= self.x
        return self.x**2 * self._closure(self.Z, self.A, self.B, self.C)

    def _closure(self, Z, A, B, C):
        """Fill A, G / x, C / x^2 at the covariance Z; return eps_g / x^2."""
        t, weight = path_nodes(self.x * sqrt(max(Z.diagonal()[: self.model.K].max(), 0.0)))
        eta, second_order = self.model.eta, self.second_order > 0
        return self._differences(Z, self.start.v, self.x, t, weight, eta, second_order, A, B, C)

    def derivatives(self, exact=False):
        """Derivatives of A, G / x, C / x^2 and dv with respect to the upper triangle of E[d d^T], and to E[d a^T].

        In units of x, by central differences at the y of the last ``close``: accurate to 1e-8, enough for Newton's
        iteration.
        """
        K = self.model.K
        pairs = [*zip(*map(list, self.packing.upper), strict=True), *((k, K + m) for k in range(K) for m in range(K))]

        def arrays(Z, _):
            values = np.zeros((3, K, K))
            self._closure(Z, *values)
            return values

        steps = DIFFERENCES.step, 0.0
        return *central_differences(arrays, self.Z, self.w, pairs, steps), np.zeros((len(pairs), K))

    @property
    def S(self):
        """Covariance of (lambda, nu) at the last evaluation, as System.S; computed from Z, x and the frame."""
        K, x = self.model.K, self.x
        dd, da, aa = self.Z[:K, :K], self.Z[:K, K:], self.Z[K:, K:]
        R = (aa + x * da) @ self.inverse.T
        S = np.empty((K + self.start.M,) * 2)
        S[:K, :K], S[:K, K:], S[K:, :K], S[K:, K:] = aa + x * (da + da.T) + x * x * dd, R, R.T, self.start.T
        return S

    def errors(self, y):
        """Generalisation errors (...) of the packed states y (..., size)."""
        return np.maximum([self.close(row) for row in y.reshape(-1, y.shape[-1])], 0.0).reshape(y.shape[:-1])

    def eps_floor(self, y):
        """Estimated size (...) below which ``eps_g`` at y (..., size) is rounding.

        This is machine precision times ``(sum_k |v_k| sqrt(E[g'_k^2] E[d_k^2]))^2``. It matters for quadratic units,
        which are learned up to a rotation: differences that remain at late times cancel in eps_g.
        """
        D, _ = self.differences(y)
        x, weight = gauss_hermite(40)
        slopes = self.model.activation.dg(np.sqrt(np.diag(self.Z)[self.model.K :])[:, None] * x)
        gains = np.abs(self.start.v) * np.sqrt(np.square(slopes) @ weight)
        variances = np.einsum("l,...lkk->...k", self.model.spectrum.s, D)
        size = np.sqrt(np.maximum(variances, DIFFERENCES.min_size**2 / np.finfo(float).eps)) @ gains
        return np.finfo(float).eps * size**2

    def rhs(self, alpha, y):
        """dy/dalpha."""
        self.at(alpha)
        self.eps_g = self.close(y)
        return self.velocity(y, *self.scaled(self.A, self.x * self.B, self.x**2 * self.C, self.dv))
