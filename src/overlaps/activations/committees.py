"""Rules for several units, and rates that see the state: forces made of numbers, closures of the library if any."""

import math
from typing import Any

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

__all__ = [
    "adagrad_norm", "dropout", "feedback_alignment", "line_search", "logistic_committee", "offsets", "sign_committee",
]  # fmt: skip

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


def dropout(K: int, M: int, keep: float) -> Rule:
    r"""Soft committee of error functions with dropout: every sample sees each unit with probability ``keep``.

    .. math:: F_k = -\frac{\xi_k}{p}\,g'(\lambda_k)\Big(\sum_j \frac{\xi_j}{p}\, g(\lambda_j) - \sum_m g(\nu_m)\Big)

    Parameters
    ----------
    K, M : int
        Students and teachers, at most four together, where integrals are to 1e-8.
    keep : float
        The probability p.

    Returns
    -------
    Rule
        Its noise are the 2^K masks; eps_g is the error of the network without dropout.

    Raises
    ------
    ValueError
        A probability outside (0, 1].

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.dropout(2, 1, keep=0.8)
    dropout
    """
    K, M, p = check.count("K", K), check.count("M", M), check.number("keep", keep, above=0)
    if p > 1:
        raise ValueError(f"keep = {keep}; expected a probability in (0, 1].")
    masks = np.arange(2**K)
    kept = np.array([bin(i).count("1") for i in masks])

    def force(lam, nu, xi, theta, S, F, G):
        mask, delta = int(xi), 0.0
        for k in range(K):
            delta += (mask >> k & 1) / p * math.erf(lam[k] / math.sqrt(2))
        for m in range(M):
            delta -= math.erf(nu[m] / math.sqrt(2))
        for k in range(K):
            F[k] = -(mask >> k & 1) / p * math.sqrt(2 / math.pi) * math.exp(-lam[k] * lam[k] / 2) * delta

    def error(lam, nu, theta):
        delta = 0.0
        for k in range(K):
            delta += math.erf(lam[k] / math.sqrt(2))
        for m in range(M):
            delta -= math.erf(nu[m] / math.sqrt(2))
        return delta * delta / 2

    noise = masks.astype(float), p**kept * (1 - p) ** (K - kept)
    return Rule(force, K=K, M=M, error=error, noise=noise, name="dropout", recipe=("dropout", K, M, p))


def sign_committee(K: int) -> Rule:
    r"""Committee of K sign units that votes, and a perceptron as teacher: when the vote is wrong, its voters move.

    .. math:: F_k = \sigma\,[\sigma o < 0]\,[\sigma\lambda_k < 0], \quad o = \sum_k \mathrm{sgn}\,\lambda_k, \quad
              \sigma = \mathrm{sgn}\,\nu

    Parameters
    ----------
    K : int
        Units; a tie moves nobody. Two units by iterated quadrature, more by Sobol points, to 1e-3.

    Returns
    -------
    Rule
        eps_g is the probability of a wrong vote.

    Raises
    ------
    ValueError
        More than seven units.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.sign_committee(2)
    committee of signs
    """
    K = check.count("K", K)

    def force(lam, nu, xi, theta, S, F, G):
        vote, y = 0.0, np.sign(nu[0])
        for k in range(K):
            vote += np.sign(lam[k])
        for k in range(K):
            F[k] = y if y * vote < 0 and y * lam[k] < 0 else 0.0

    def error(lam, nu, theta):
        vote = 0.0
        for k in range(K):
            vote += np.sign(lam[k])
        return 1.0 if vote * nu[0] < 0 else 0.0

    breaks = np.eye(K + 1, K + 2)
    return Rule(force, K=K, M=1, error=error, breaks=breaks, name="committee of signs", recipe=("sign_committee", K))


def logistic_committee(K: int, M: int, beta: float) -> Rule:
    r"""Soft committee of error functions that predicts labels: logistic loss, P(y = 1) = s(beta y*).

    .. math:: F_k = y\,s(-y\hat y)\,g'(\lambda_k), \quad \hat y = \sum_k g(\lambda_k), \quad y^* = \sum_m g(\nu_m)

    Parameters
    ----------
    K, M : int
        Students and teachers, at most four together, where integrals are to 1e-6.
    beta : float
        How sharply labels follow the teacher.

    Returns
    -------
    Rule
        eps_g is the mean loss.

    Raises
    ------
    ValueError
        A beta that is no number > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.logistic_committee(2, 1, beta=2.0)
    logistic committee
    """
    K, M, beta = check.count("K", K), check.count("M", M), check.number("beta", beta, above=0)

    @njit
    def total(x):
        result = 0.0
        for i in range(x.size):
            result += math.erf(x[i] / math.sqrt(2))
        return result

    def chance(nu, theta, p):
        p[0] = 1 / (1 + math.exp(-beta * total(nu)))
        p[1] = 1 - p[0]

    def force(lam, nu, xi, theta, S, F, G):
        pull = xi / (1 + math.exp(xi * total(lam)))
        for k in range(K):
            F[k] = pull * math.sqrt(2 / math.pi) * math.exp(-lam[k] * lam[k] / 2)

    def error(lam, nu, theta):
        out = total(lam)
        return math.log1p(math.exp(-out)) + out / (1 + math.exp(beta * total(nu)))

    noise = [1.0, -1.0], chance
    return Rule(force, K=K, M=M, error=error, noise=noise, tolerance=1e-6, name="logistic committee",
        recipe=("logistic_committee", K, M, beta),
    )  # fmt: skip


def offsets(K: int, offset: ArrayLike) -> Rule:
    r"""Soft committee of error functions whose units learn offsets theta; the teacher's are given.

    .. math:: \Delta = \sum_k g(\lambda_k + \theta_k) - \sum_m g(\nu_m + c_m), \quad
              F_k = G_k = -g'(\lambda_k + \theta_k)\,\Delta

    Parameters
    ----------
    K : int
        Students.
    offset : array_like, shape (M,)
        Offsets c of the teachers.

    Returns
    -------
    Rule
        eps_g is E[Delta^2]/2.

    Raises
    ------
    ValueError
        Offsets that are no numbers.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.offsets(1, [0.7])
    offsets
    """
    K, c = check.count("K", K), check.array("offset", offset, ("M",))
    M = len(c)

    @njit
    def deviation(lam, nu, theta):
        delta = 0.0
        for k in range(K):
            delta += math.erf((lam[k] + theta[k]) / math.sqrt(2))
        for m in range(M):
            delta -= math.erf((nu[m] + c[m]) / math.sqrt(2))
        return delta

    def force(lam, nu, xi, theta, S, F, G):
        delta = deviation(lam, nu, theta)
        for k in range(K):
            x = lam[k] + theta[k]
            F[k] = G[k] = -math.sqrt(2 / math.pi) * math.exp(-x * x / 2) * delta

    def error(lam, nu, theta):
        return deviation(lam, nu, theta) ** 2 / 2

    return Rule(force, K=K, M=M, error=error, name="offsets", recipe=("offsets", K, tuple(c.tolist())))


def adagrad_norm(rule: Rule, b0: float = 1.0, *, mean_eigenvalue: float = 1.0) -> Rule:
    r"""AdaGrad-Norm on top of a rule: its rate falls with all squared gradients so far, theta.

    .. math:: F = F^0/\sqrt{\theta_1}, \qquad G_1 = \bar s \sum_k (F^0_k)^2

    Parameters
    ----------
    rule : Rule
        One that has no theta of its own.
    b0 : float
        theta_1 begins at b0^2, where ``ov.learner`` is given no other.
    mean_eigenvalue : float
        Mean eigenvalue s-bar of the inputs' covariance, ``spectrum.mean``.

    Returns
    -------
    Rule
        For ``ov.learner(..., eta_theta=1.0)``. With the closure of ``rule`` where that is a closed one.

    Raises
    ------
    ValueError
        Numbers that are not positive.

    References
    ----------
    Collins-Woodfin et al. (2024), arXiv:2405.19585.

    Examples
    --------
    >>> import overlaps as ov
    >>> rule = ov.rules.adagrad_norm(ov.rules.logistic(), b0=0.5)
    >>> model = ov.learner(rule, eta=1.0, eta_theta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    >>> bool(ov.solve(model, start, [0, 20.0]).v[-1, 0] > 0.25)
    True
    """
    check.kind("rule", rule, Rule, "ov.rules.logistic()")
    start = check.number("b0", b0, above=0) ** 2
    mean, K = check.number("mean_eigenvalue", mean_eigenvalue, above=0), rule.K
    base, error, chance = rule.functions
    inner = np.append(np.zeros(K), np.array(rule.numbers, float))

    def force(lam, nu, xi, theta, S, F, G):
        base(lam, nu, xi, inner.copy(), S, F, G)
        for k in range(K):
            G[k] = 0.0
        for k in range(K):
            G[0] += mean * F[k] * F[k]
        for k in range(K):
            F[k] /= math.sqrt(theta[0])

    own_error: Any = None
    noise, closed = rule.noise, None
    if rule.error is not None:

        def own_error(lam, nu, theta):
            return error(lam, nu, inner.copy())

    if isinstance(noise, tuple) and callable(noise[1]):

        def own_chance(nu, theta, p):
            chance(nu, inner.copy(), p)

        noise = noise[0], own_chance
    if rule.closed is not None:
        descent = _rule.pointer(rule.closed, CLOSURE)

        @njit(error_model="numpy", nogil=True)
        def scaled(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
            theta, n = w[0], S.shape[0]
            own = w.copy()
            for k in range(K):
                own[k] = 0.0
            eps_g = descent(S, own[: n + inner.size - K], K, teacher, 1.0, 1.0, noise, True, A, B, C, dv)
            rate = eta / math.sqrt(theta)
            for k in range(K):
                dv[k] = 0.0
            for k in range(K):
                dv[0] += eta_v * mean * C[k, k]
                for j in range(K):
                    A[k, j] *= rate
                    C[k, j] *= rate * rate
                for m in range(n - K):
                    B[k, m] *= rate
            return eps_g

        if hasattr(scaled, "compile"):
            scaled.compile(CLOSURE.args)
        closed = scaled
    return Rule(
        force, K=K, M=rule.M, error=own_error, noise=noise, breaks=_planes(rule), uses_overlaps=rule.uses_overlaps,
        tolerance=rule.tolerance, name=f"AdaGrad-Norm of {rule.name}", closed=closed, theta=(start, *[0.0] * (K - 1)),
        numbers=rule.numbers if closed is not None else (),
        recipe=("adagrad_norm", rule.recipe, b0, mean) if rule.recipe else (),
    )  # fmt: skip


def _planes(rule):
    return np.array(rule.breaks)


def line_search(noise: float = 0.0) -> Rule:
    r"""Linear regression at the rate of an exact line search, which knows the error; for isotropic inputs.

    .. math:: F = -\eta(S)\,(\lambda - \nu - \sigma\xi), \qquad \eta(S) = \frac{2\epsilon}{2\epsilon + \sigma^2}

    Parameters
    ----------
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        For ``ov.learner(..., eta=1.0)``, where it is Polyak's rate, too: the largest decrease of eps_g = s^2/2.

    Raises
    ------
    ValueError
        A negative standard deviation.

    References
    ----------
    Collins-Woodfin et al. (2024), arXiv:2405.19585.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.line_search(noise=0.3)
    line_search
    """
    sigma = check.number("noise", noise, least=0)

    def force(lam, nu, xi, theta, S, F, G):
        square = S[0, 0] - 2 * S[0, 1] + S[1, 1]
        F[0] = -square / (square + sigma * sigma + 1e-300) * (lam[0] - nu[0] - sigma * xi)

    def error(lam, nu, theta):
        return (lam[0] - nu[0]) ** 2 / 2

    return Rule(force, K=1, M=1, error=error, noise="normal", uses_overlaps=True, name="line_search",
        recipe=("line_search", sigma),
    )  # fmt: skip
