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
from functools import cache
from math import exp, factorial, sqrt

import numpy as np
from scipy.optimize import linear_sum_assignment

from . import _check
from ._differences import erf_differences, linear_differences, quadratic_differences
from ._flow import flow, gather
from ._integrals import ERF, LINEAR, QUADRATIC
from .state import State

__all__ = ["DifferenceSystem", "can_hand_over", "handover_error", "nodes", "unfit"]

KERNELS = {LINEAR: linear_differences, QUADRATIC: quadratic_differences, ERF: erf_differences}
NEAR = 0.1  # standard deviation of lambda_k - a_k, relative to min(1, that of a_k), at which differences take over
FARTHEST = 0.3  # the same, beyond which the path integrals do not reach rounding
ROUNDING = 1e-16  # aimed at by the number of nodes of the path integrals
MOST_NODES = 8
WORST_HANDOVER = 0.01  # relative error above which nothing worth following is left
LEAST_TURN = 1e-12  # differences below which a new frame, known to 1e-16, would add more than it takes away


def can_hand_over(model, state, *, near=NEAR):
    """Frame F (K, M) in which every student has nearly learned its teacher, and a sentence; (None, reason) without one.

    The fields of the teachers in this frame are a = F nu, and sum_k v_k g(a_k) is the teacher's output.  F is a
    permutation with signs, from the assignment that maximises the correlations of students and teachers; quadratic
    networks only learn W^T diag(v) W, and F is the orthogonal frame closest to the students.

    Parameters
    ----------
    model : Model
        The learning problem.
    state : State
        Order parameters; bound to the model or not.
    near : float
        Largest standard deviation of lambda_k - a_k, relative to min(1, that of a_k), that counts as learned.

    Returns
    -------
    (ndarray or None, str)

    Notes
    -----
    Exact requirements: K = M, one activation (erf, linear or quadratic) on both sides, student output weights fixed and
    equal to the teacher's, no label noise, no weight decay, a teacher that acts on x.  relu is refused: its closure is
    not smooth where students and teachers are aligned, so path integrals do not converge there.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.differences import can_hand_over
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> swap = 0.999 * np.eye(2)[::-1]
    >>> can_hand_over(model, ov.State.from_overlaps(model, Q=np.eye(2), R=swap, T=np.eye(2)))[0]
    array([[0., 1.],
           [1., 0.]])
    >>> can_hand_over(model, ov.State.from_overlaps(model, Q=np.eye(2), R=0 * swap, T=np.eye(2)))[0] is None
    True
    """
    state = state.on(model) if state.s is None else state  # checking it again would take most of the time
    reason = unfit(model, state)
    if reason:
        return None, reason
    frame, reason = _frame(model, state)
    if frame is None:
        return None, reason
    variances = _variances(state, frame)
    T = np.diag(frame @ state.T @ frame.T)
    largest = np.sqrt(np.max(variances / np.maximum(np.minimum(T, 1.0), 1e-300)))
    if largest > near:
        return None, f"not every student has specialised: the largest relative difference is {largest:.2g} > {near}."
    if handover_error(state, frame) > WORST_HANDOVER:
        return None, "students and teachers are equal up to the rounding of Q and R."
    return frame, f"students and teachers differ by {largest:.2g} at most."


def handover_error(state, frame):
    """Relative error of x^2 = sum_k E[(lambda_k - a_k)^2] that float64 overlaps leave: about 1e-16 tr(Q + T) / x^2.

    The integration of Q and R adds its own: the error that it has made in them, over x^2.  Both fall with the size of
    the differences, so that an early handover is the accurate one.
    """
    rounded = np.trace(state.Q) + 2 * np.abs(np.sum(frame * state.R)) + np.trace(frame @ state.T @ frame.T)
    x2 = np.sum(_variances(state, frame))
    return float(np.finfo(float).eps / 2 * rounded / x2) if x2 > 0 else np.inf


def _variances(state, frame):
    """E[(lambda_k - a_k)^2] (K,), a = F nu; zero where rounding makes it negative."""
    crossed = state.R @ frame.T
    return np.maximum(np.diag(state.Q - crossed - crossed.T + frame @ state.T @ frame.T), 0.0)


def nodes(sigma):
    r"""Gauss-Legendre rule on [0, 1] for path integrals along differences of standard deviation sigma.

    For erf the integrand g'(a + t d) d has the 2n-th derivative :math:`d^{2n+1} He_{2n}(a) g'(a)`, whose mean size is
    :math:`((2n - 1)!!)^2 \sigma^{2n}` relative to the result, so that n nodes leave the relative error

    .. math:: \frac{(n!)^4}{(2n + 1)\,((2n)!)^3}\, ((2n - 1)!!)^2\, \sigma^{2n}

    and the smallest n that takes it below 1e-16 is chosen: 1 node below 5e-8, 2 to 5e-4, 3 to 0.01, 5 to 0.1.

    Returns
    -------
    t, weight : ndarray, shape (n,)
    """
    return _gauss(bisect(_LARGEST_SIGMA, sigma) + 1)


def _path_error(n):
    double = factorial(2 * n) // (2**n * factorial(n))
    return factorial(n) ** 4 / ((2 * n + 1) * factorial(2 * n) ** 3) * double**2


_LARGEST_SIGMA = [(ROUNDING / _path_error(n)) ** (0.5 / n) for n in range(1, MOST_NODES)]


@cache
def _gauss(n):
    x, weight = np.polynomial.legendre.leggauss(n)
    return (x + 1) / 2, weight / 2


def unfit(model, state):
    """Why the differences do not describe this problem, or an empty string."""
    code = model.activation.code
    s, tau = state.s, state.tau
    seen = s > 0
    T = np.tensordot(1 / s[seen], tau[seen], axes=1)
    scale = np.max(np.abs(state.T), initial=1e-300)
    reasons = {
        f"K = {model.K} students and M = {model.M} teachers; expected K = M": model.K != model.M,
        f"activation {model.activation.name}; expected erf, linear or quadratic, whose closures are smooth":
            code not in KERNELS,
        "student and teacher activations differ": model.activation != model.teacher_activation,
        f"eta_v = {model.eta_v:g}; expected a fixed second layer": model.trains_v,
        f"noise = {model.noise:g} keeps eps_g at a finite value; expected 0": model.noise > 0,
        f"weight_decay = {model.weight_decay[0]:g} moves the fixed point; expected 0": model.weight_decay[0] > 0,
        "the teacher does not act on x (T differs from sum_l tau^l/s_l)":
            np.max(np.abs(T - state.T)) > 1e-10 * scale or np.any(tau[~seen]),
    }  # fmt: skip
    return "; ".join(reason for reason, holds in reasons.items() if holds)


def _frame(model, state):
    """(F, sentence) or (None, reason): a frame in which the teacher is sum_k v_k g((F nu)_k)."""
    v, v_star, R = state.v, model.v_star, state.R
    if model.activation.code == QUADRATIC:
        frame = _quadratic_frame(v, v_star, R)
        if frame is not None:
            return frame, "quadratic: orthogonal frame."
    norms = np.sqrt(np.outer(np.diag(state.Q), np.diag(state.T)))
    k, m = linear_sum_assignment(np.abs(R) / np.maximum(norms, 1e-300), maximize=True)
    frame = np.zeros((model.K, model.M))
    frame[k, m] = np.where(R[k, m] < 0, -1.0, 1.0)
    if not _reproduces(model, v, frame):
        return None, f"students align to the teachers {m}; v = {v} does not reproduce v* = {v_star} in this order."
    return frame, f"students align to the teachers {m}."


def _reproduces(model, v, frame):
    """Whether sum_k v_k g((F nu)_k) is the teacher, up to rounding."""
    if model.activation.code == QUADRATIC:
        return np.allclose(frame.T * v @ frame, np.diag(model.v_star), rtol=0, atol=1e-14 * np.abs(v).max())
    linear = model.activation.code == LINEAR
    units = linear or (np.all(np.isin(frame, (-1, 0, 1))) and np.all(np.abs(frame).sum(axis=1) == 1))
    return units and np.allclose(v @ frame, model.v_star, rtol=1e-15, atol=0)


def _quadratic_frame(v, v_star, R):
    """F with F^T diag(v) F = diag(v*) that minimises sum_k v_k E[(lambda_k - (F nu)_k)^2], or None.

    For output weights of one sign this is the orthogonal Procrustes problem.
    """
    sign = np.sign(v[0])
    if not (np.all(sign * v > 0) and np.all(sign * v_star > 0)):
        return None
    left, right = np.sqrt(sign * v), np.sqrt(sign * v_star)
    U, _, Vt = np.linalg.svd(left[:, None] * R * right)
    return (U @ Vt) * right / left[:, None]


class DifferenceSystem:
    r"""Flow of the overlaps of the differences, in units of their size: what ``integrate`` takes in place of a System.

    Packed state ``y``: e^l / x (L, K, K), the upper triangle of D^l / x^2, and log x / x(start).  The size x follows
    the flow so that :math:`\sum_l s_l\, \mathrm{tr} D^l = x^2`, hence y stays of order one while eps_g falls to any
    value, and one pair of tolerances serves throughout: relative to x.

    Parameters
    ----------
    model : Model
        The learning problem.
    start : State
        Order parameters at the handover.
    frame : array_like, shape (K, M), optional
        F of :func:`can_hand_over`, which chooses it by default (up to relative differences of 0.3).

    Raises
    ------
    ValueError
        The setting has no specialised fixed point that can be followed (the reasons of :func:`can_hand_over`).

    Notes
    -----
    Exact up to the path integrals, whose nodes are chosen for rounding accuracy (:func:`nodes`).  eps_g inherits the
    relative error that the handover left (:func:`handover_error`) and about 2 rtol |log x| from the integration.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> from overlaps.differences import DifferenceSystem
    >>> model = ov.committee_machine(1, 1, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.999]], T=[[1.0]])
    >>> system = DifferenceSystem(model, start)
    >>> bool(np.isclose(system.close(system.pack(start)), ov.closure(model, start.Q, start.R, start.T).eps_g))
    True
    """

    def __init__(self, model, start, frame=None):
        start = start.on(model)
        if frame is None:
            frame, reason = can_hand_over(model, start, near=FARTHEST)
        else:
            reason = unfit(model, start)
            frame = None if reason else _check.array("frame", frame, (model.K, model.M))
            if not reason and not _reproduces(model, start.v, frame):
                frame, reason = None, "sum_k v_k g((F nu)_k) is not the teacher's output for the frame F given."
        if frame is None:
            raise ValueError(f"the differences of students and teachers cannot be followed: {reason}")
        self.model, self.start, self.frame = model, start, frame
        L, K = model.spectrum.L, model.K
        self.shape = L, K, K
        self.upper = np.triu_indices(K)
        self.tau = np.ascontiguousarray(frame @ start.tau @ frame.T)
        self.inverse = np.linalg.inv(frame)
        self.Z = np.zeros((2 * K, 2 * K))  # covariance of (d, a), a = F nu, lambda = a + x d
        self.Z[K:, K:] = frame @ start.T @ frame.T
        self.w = np.concatenate([model.v, -model.v_star])
        self.A, self.G, self.C, self.dv = np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K)), np.zeros(K)
        self.second_order = 0.0 if model.gradient_flow else 1.0 / model.batch_size
        self.closure = KERNELS[model.activation.code]
        # sum_l s_l tr D^l = variance @ y
        diagonal = (self.upper[0] == self.upper[1]).astype(float)
        self.variance = np.concatenate([np.zeros(L * K * K), np.kron(model.spectrum.s, diagonal), [0.0]])
        self.power = np.concatenate([np.ones(L * K * K), np.full(L * K * (K + 1) // 2, 2.0), [0.0]])
        self.x = self.x0 = 1.0  # units of log x before the start has set them
        self.x0 = exp(self.pack(start)[-1])

    def pack(self, state):
        """State -> y.  The only place where numbers of order one are subtracted."""
        s = self.model.spectrum.s[:, None, None]
        inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
        crossed = state.r @ self.frame.T
        e = np.where(s > 0, crossed - self.tau * inverse, 0.0)
        D = np.where(s > 0, state.q - (crossed + crossed.swapaxes(1, 2)) * inverse + self.tau * inverse**2, 0.0)
        return self._packed(D, e)

    def _packed(self, D, e):
        y = np.concatenate([e.ravel(), D[:, *self.upper].ravel(), [0.0]])
        x = np.sqrt(max(self.variance @ y, 0.0))
        if not x > 0:
            raise ValueError("student and teacher are equal up to rounding: there is no difference to follow.")
        y /= x**self.power
        y[-1] = np.log(x / self.x0)
        return y

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
        lam_a = self.Z[K:, K:] + self.x * self.Z[:K, K:]
        rotation = _quadratic_frame(self.start.v, self.start.v, lam_a)
        if rotation is None:
            return self, y
        turn = rotation - np.eye(K)  # u - turn a: small numbers minus small numbers
        s = self.model.spectrum.s[:, None, None]
        inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
        crossed = turn @ e.swapaxes(1, 2) * inverse
        D = D - crossed - crossed.swapaxes(1, 2) + turn @ self.tau @ turn.T * inverse**2
        system = DifferenceSystem(self.model, self.start, rotation @ self.frame)
        return system, system._packed(D, (e - turn @ self.tau * inverse) @ rotation.T)

    def size(self, y):
        """Standard deviation x of all differences lambda_k - a_k together, at y (..., size)."""
        return self.x0 * np.exp(y[..., -1])

    def differences(self, y):
        """Overlaps of the differences at y (..., size): D (..., L, K, K), plain, and e (..., L, K, K), times s_l."""
        L, K, _ = self.shape
        lead = y.shape[:-1]
        y = y * self.size(y)[..., None] ** self.power
        e, upper = y[..., : L * K * K].reshape(*lead, L, K, K), y[..., L * K * K : -1]
        D = np.empty((*lead, L, K, K))
        i, j = self.upper
        D[..., i, j] = D[..., j, i] = upper.reshape(*lead, L, -1)
        return D, e

    def unpack(self, y):
        """Arrays (q, r, v) of y (..., size), as System.unpack: rounded to float64 at order one."""
        D, e = self.differences(y)
        s = self.model.spectrum.s[:, None, None]
        inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
        q = np.where(s > 0, D + (e + e.swapaxes(-1, -2)) * inverse + self.tau * inverse**2, self.start.q)
        r = np.where(s > 0, (e + self.tau * inverse) @ self.inverse.T, self.start.r)
        return q, r, np.broadcast_to(self.start.v, (*y.shape[:-1], self.model.K))

    def state(self, y):
        """Y -> State, with the constants of the start."""
        q, r, v = self.unpack(y)
        return State(q=q, r=r, tau=self.start.tau, T=self.start.T, v=v, s=self.start.s)

    def close(self, y):
        """Evaluate the closure at y into the work arrays; return eps_g."""
        K = self.model.K
        gather(y, self.model.spectrum.s, K, K, False, self.Z, self.w)
        self.x = self.x0 * exp(y[-1])
        t, weight = nodes(self.x * sqrt(self.Z.diagonal()[:K].max()))
        second_order = self.second_order > 0
        return self.x**2 * self.closure(
            self.Z, self.start.v, self.x, t, weight, self.model.eta, second_order, self.A, self.G, self.C
        )

    @property
    def S(self):
        """Covariance of (lambda, nu) at the last evaluation, as System.S."""
        K, x = self.model.K, self.x
        dd, da, aa = self.Z[:K, :K], self.Z[:K, K:], self.Z[K:, K:]
        R = (aa + x * da) @ self.inverse.T
        return np.block([[aa + x * (da + da.T) + x * x * dd, R], [R.T, self.start.T]])

    def eps_g(self, y):
        """Generalisation errors (...) of the packed states y (..., size)."""
        return np.maximum([self.close(row) for row in y.reshape(-1, y.shape[-1])], 0.0).reshape(y.shape[:-1])

    def rhs(self, _, y):
        """dy/dalpha; the flow is autonomous."""
        self.close(y)
        dy = np.empty_like(y)
        spectrum = self.model.spectrum
        flow(
            y, spectrum.s, spectrum.p, self.tau, self.A, self.G, self.C, self.dv,
            0.0, 0.0, self.second_order, False, dy,
        )  # fmt: skip
        dy[-1] = 0.0
        rate = (self.variance @ dy) / (2 * (self.variance @ y))  # d log x / dalpha: keeps the variance at one
        dy -= rate * self.power * y
        dy[-1] = rate
        return dy
