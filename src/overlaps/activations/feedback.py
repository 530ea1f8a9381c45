"""Rules in which errors reach the units by other ways than the gradient, with the closures of the library."""

import numpy as np
from numba import njit

from .._base import check
from .._base.types import ArrayLike
from ..gaussian.two_point import slope, value
from . import _rule
from .activation import Activation
from .bound import CLOSURE
from .library import erf, named
from .rule import Rule

__all__ = ["feedback_alignment"]

TINY = 1e-100  # second layer in place of 0: rows of the closure are divided by it, and its square is a number


def feedback_alignment(
    b: ArrayLike, v_star: ArrayLike, *, activation: Activation | str = erf, noise: float = 0.0
) -> Rule:
    r"""Direct feedback alignment: errors come back through fixed weights b; theta is the second layer.

    .. math:: F_k = -b_k\,g'(\lambda_k)\Delta, \qquad G_k = -g(\lambda_k)\Delta, \qquad
              \Delta = \sum_k \theta_k g(\lambda_k) - \sum_m v^*_m g(\nu_m) - \sigma\xi

    Parameters
    ----------
    b, v_star : array_like, shape (K,), (M,)
        Feedback weights, and the teacher's second layer.
    activation : Activation or str
        g of students and teachers: erf, relu, linear or quadratic.
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        Exact: rows of the closure of the squared loss times b_k / theta_k. eps_g is E[Delta_0^2]/2.

    Raises
    ------
    ValueError
        Arrays of a wrong shape, an activation without closed forms.

    Notes
    -----
    A is not symmetric, and theta_k b_k becomes positive: the forward weights align with the feedback.

    References
    ----------
    Refinetti et al. (2021), ICML, "Align, then memorise: the dynamics of learning with feedback alignment".

    Examples
    --------
    >>> import overlaps as ov
    >>> rule = ov.rules.feedback_alignment(b=[0.7, -0.5], v_star=[0.8, 0.6], noise=0.2)
    >>> model = ov.learner(rule, eta=0.8, eta_theta=0.4)
    >>> Q, R, T = [[0.5, 0.1], [0.1, 0.4]], [[0.2, 0.05], [0.1, 0.15]], [[1.0, 0.2], [0.2, 0.9]]
    >>> start = ov.State.from_overlaps(model, Q=Q, R=R, T=T)
    >>> ov.solve(model, start, [0, 6.0]).v[-1].round(3)
    array([ 0.397, -0.164])
    """
    b, v_star = check.array("b", b, ("K",)), check.array("v_star", v_star, ("M",))
    activation = named("activation", activation)
    sigma = check.number("noise", noise, least=0)
    forms, code, K, M = activation.closed_forms, activation.code, len(b), len(v_star)
    if forms is None or code < 0:
        raise ValueError(f"activation = {activation}; expected ov.erf, ov.relu, ov.linear or ov.quadratic.")
    descent = _rule.pointer(forms.closure, CLOSURE)
    room = 0 if forms.room is None else forms.room(K + M)

    def force(lam, nu, xi, theta, S, F, G):
        delta = -sigma * xi
        for k in range(K):
            delta += theta[k] * value(code, lam[k])
        for m in range(M):
            delta -= v_star[m] * value(code, nu[m])
        for k in range(K):
            F[k] = -b[k] * slope(code, lam[k]) * delta
            G[k] = -value(code, lam[k]) * delta

    def error(lam, nu, theta):
        delta = 0.0
        for k in range(K):
            delta += theta[k] * value(code, lam[k])
        for m in range(M):
            delta -= v_star[m] * value(code, nu[m])
        return delta * delta / 2

    @njit(error_model="numpy", nogil=True)
    def closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        own = np.zeros(K + M + room)
        for k in range(K):
            own[k] = w[k] if abs(w[k]) > TINY else TINY
        for m in range(M):
            own[K + m] = -v_star[m]
        eps_g = descent(S, own, K, code, eta, eta_v, sigma, second_order, A, B, C, dv)
        for k in range(K):
            for j in range(K):
                A[k, j] *= b[k] / own[k]
                C[k, j] = C[k, j] * (b[k] / own[k]) * (b[j] / own[j]) if second_order else 0.0
            for m in range(M):
                B[k, m] *= b[k] / own[k]
        return eps_g

    if hasattr(closure, "compile"):
        closure.compile(CLOSURE.args)
    return Rule(force, K=K, M=M, error=error, noise="normal", name="feedback alignment", closed=closure,
        recipe=("feedback_alignment", tuple(b.tolist()), tuple(v_star.tolist()), activation.name, sigma),
    )  # fmt: skip
