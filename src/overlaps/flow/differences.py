r"""Late times of perfectly learnable problems: the same flow in the differences of students and teachers.

Near the specialised fixed point eps_g is a small difference of overlaps of order one, and Q, R in float64 stop holding
it at about 1e-16.  The overlaps of :math:`u_k = w_k - (F w^*)_k`, each student minus the teacher it has learned, hold
any value of it.  With :math:`\tau_F = F \tau F^T` and

.. math:: D^l = U P_l U^T/N, \qquad e^l = s_l\, U P_l (F W^*)^T/N, \qquad G = A + B F^{-1}

the flow keeps its form, (q, r, B) -> (D, e, G):

.. math::
    de^l/d\alpha &= s_l A e^l + G \tau_F^l \\
    dD^l/d\alpha &= s_l (A D^l + D^l A^T) + G e^{lT} + e^l G^T + s_l p_l C
"""

from bisect import bisect
from math import factorial, sqrt

import numpy as np

from .._base import check
from ..activations.bound import SECOND_ORDER, central_differences
from ..gaussian.quadrature import gauss_hermite, legendre
from ..gaussian.two_point import QUADRATIC
from ..models.state import reciprocal
from ._flow import gather
from .closure import bind
from .late_transition import can_transition, quadratic_frame, reproduces, unfit
from .packing import Packing
from .system import System, blocks_last, weights_of

__all__ = ["DifferenceSystem", "path_nodes"]

# Largest difference of a student and its teacher, relative to it, at which differences may take over. Above, eight
# nodes leave more than rounding of the path integrals.
FARTHEST = 0.3
ROUNDING = 1e-16  # aimed at by the number of nodes of the path integrals
MOST_NODES = 8
# Size x of the differences below which they count as this: D is of order x^2, and its square would leave the range of
# float64.
SMALLEST = 1e-100
DIFFERENCE = 1e-4  # step of the differences of the closure, in units of x
# Differences below are not turned into a new frame, which is known to 1e-16 and would add more than it takes away.
LEAST_TURN = 1e-12
# Fall of eps_g relative to x^2 that calls for a new frame. Above, at most two digits have cancelled; below, eps_g would
# lose more of them until the next.
AWAY = 0.01


def path_nodes(sigma):
    r"""Gauss-Legendre rule on [0, 1] for path integrals along differences of standard deviation sigma.

    For erf the integrand g'(a + t d) d has the 2n-th derivative :math:`d^{2n+1} He_{2n}(a) g'(a)`, whose mean size is
    :math:`((2n - 1)!!)^2 \sigma^{2n}` relative to the result, so that n nodes leave the relative error

    .. math:: \frac{(n!)^4}{(2n + 1)\,((2n)!)^3}\, ((2n - 1)!!)^2\, \sigma^{2n}

    and the smallest n that takes it below 1e-16 is chosen: 1 node below 5e-8, 2 to 5e-4, 3 to 0.01, 5 to 0.1.

    Parameters
    ----------
    sigma : float
        Largest standard deviation of a difference, relative to its teacher.

    Returns
    -------
    t, weight : ndarray, shape (n,)
        Nodes and weights; at most 8, which serve sigma up to 0.3.

    Notes
    -----
    Exact to rounding for erf, and for the polynomial integrands of linear and quadratic units.

    Examples
    --------
    >>> from overlaps.flow.differences import path_nodes
    >>> [path_nodes(sigma)[0].size for sigma in (1e-9, 1e-3, 0.1)]
    [1, 3, 5]
    """
    return legendre(bisect(_LARGEST_SIGMA, sigma) + 1)


def _path_error(n):
    double = factorial(2 * n) // (2**n * factorial(n))
    return factorial(n) ** 4 / ((2 * n + 1) * factorial(2 * n) ** 3) * double**2


_LARGEST_SIGMA = [(ROUNDING / _path_error(n)) ** (0.5 / n) for n in range(1, MOST_NODES)]


class DifferenceSystem(System):
    r"""Flow of the overlaps of the differences: what ``integrate`` takes in place of a System.

    Packed as a System, with e in the place of r and D in the place of q. With the size x of the differences,
    :math:`x^2 = \sum_l s_l\, \mathrm{tr} D^l`, e falls like x and D like x^2: tolerances are relative to these
    (:meth:`unit`), so that one pair of them serves down to any eps_g.

    Parameters
    ----------
    model : Model
        The learning problem.
    start : State
        Order parameters at the handover.
    frame : array_like, shape (K, M), optional
        F of :func:`~overlaps.flow.late_transition.can_transition`, which chooses it by default
        (up to relative differences of 0.3).

    Raises
    ------
    ValueError
        The setting has no specialised fixed point that can be followed
        (:func:`~overlaps.flow.late_transition.can_transition`).

    Notes
    -----
    Exact up to the path integrals, whose nodes are chosen for rounding accuracy (:func:`path_nodes`).  eps_g inherits
    the relative error that the handover left (:func:`~overlaps.flow.late_transition.transition_error`) and about
    2 rtol ``|log x|`` from the integration.

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
    kernel, polynomial = None, False

    def __init__(self, model, start, frame=None, evaluator=None):
        start = start.on(model)
        if frame is None:
            frame, reason = can_transition(model, start, near=FARTHEST)
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

    def no_jacobian_reason(self):
        """Never any: only smooth units are followed by their differences."""
        return ""

    def pack(self, state):
        """State -> y.  The only place where numbers of order one are subtracted."""
        s, inverse = self._eigenvalues()
        crossed = state.r @ self.frame.T
        # blocks without variance do not learn and are not seen: their differences are left out
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
        from the frame chosen at the handover: what is left of x cancels in eps_g, which has digits while it is far
        above rtol x^2.  A new frame every decade or two keeps it there.
        """
        if self.model.activation.code != QUADRATIC or self.size(y) < LEAST_TURN:
            return self, y
        K = self.model.K
        self.close(y)
        D, e = self.differences(y)
        rotation = quadratic_frame(self.start.v, self.start.v, self.Z[K:, K:] + self.x * self.Z[:K, K:])
        if rotation is None:
            return self, y
        turn = rotation - np.eye(K)  # u - turn a: small numbers minus small numbers
        _, inverse = self._eigenvalues()
        crossed = turn @ e.swapaxes(1, 2) * inverse
        D = D - crossed - crossed.swapaxes(1, 2) + turn @ self.tau @ turn.T * inverse**2
        system = DifferenceSystem(self.model, self.start, rotation @ self.frame, self.evaluator)
        return system, system._packed(D, (e - turn @ self.tau * inverse) @ rotation.T)

    def drifted(self, y):
        """Test whether later students stand so far from the frame that eps_g loses digits; None if no other serves."""
        least = AWAY * self.close(y) / max(self.size(y), SMALLEST) ** 2
        if self.model.K == 1 or least <= 0 or self.realigned(y)[0] is self:
            return None
        return lambda later: self.close(later) < least * self.size(later) ** 2

    def tightening(self, y):
        """1: eps_g is as large as its terms."""
        return 1.0

    def change_of_eps_g(self, dy):
        """0: the error of the differences, which are small themselves, is the error of eps_g already."""
        return 0.0

    def size(self, y):
        """Standard deviation x of all differences lambda_k - a_k together, at y (..., size)."""
        return np.sqrt(np.maximum(y @ self.variance, 0.0))

    def unit(self, y):
        """Natural size of the entries of y, x for e and x^2 for D: what tolerances are relative to."""
        return np.maximum(self.size(y), SMALLEST) ** self.power

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
        self.x = max(float(self.size(y)), SMALLEST)
        # in units of x all entries are of order one, whatever eps_g is: the closure never meets 1e-200
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

        In units of x, by central differences where ``close`` was called last: good to 1e-8, for Newton's iteration.
        """
        K = self.model.K
        pairs = [*zip(*map(list, self.packing.upper), strict=True), *((k, K + m) for k in range(K) for m in range(K))]

        def arrays(Z, _):
            values = np.zeros((3, K, K))
            self._closure(Z, *values)
            return values

        steps = DIFFERENCE, 0.0
        return *central_differences(arrays, self.Z, self.w, pairs, steps, SECOND_ORDER), np.zeros((len(pairs), K))

    @property
    def S(self):  # follows from Z, x and the frame
        """Covariance of (lambda, nu) at the last evaluation, as System.S."""
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
        """Size (...) below which ``eps_g`` at y (..., size) is rounding.

        Machine precision times ``(sum_k |v_k| sqrt(E[g'_k^2] E[d_k^2]))^2``, an estimate. It matters for quadratic
        units, which are learned up to a rotation: what is left of the differences cancels in eps_g.
        """
        D, _ = self.differences(y)
        x, weight = gauss_hermite(40)
        slopes = self.model.activation.dg(np.sqrt(np.diag(self.Z)[self.model.K :])[:, None] * x)
        gains = np.abs(self.start.v) * np.sqrt(np.square(slopes) @ weight)
        # each difference seen through the slope of its unit, as the output sees it
        variances = np.einsum("l,...lkk->...k", self.model.spectrum.s, D)
        size = np.sqrt(np.maximum(variances, SMALLEST**2 / np.finfo(float).eps)) @ gains
        return np.finfo(float).eps * size**2

    def rhs(self, alpha, y):
        """dy/dalpha."""
        self.at(alpha)
        self.eps_g = self.close(y)
        return self.velocity(y, *self.scaled(self.A, self.x * self.B, self.x**2 * self.C, self.dv))
