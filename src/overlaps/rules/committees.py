"""Rules for committees of error functions or signs."""

import math

import numpy as np

from .._base import ArrayLike, by_name, check
from .._base.jit import jit, jit_user
from ..activations.kernels import erf_closure, erf_workspace
from ..gaussian.two_point import ERF, slope, value
from .rule import Rule


@jit(no_reference_counting=True)
def total(x):
    """Output of a soft committee of error functions at fields x."""
    result = 0.0
    for i in range(x.size):
        result += value(ERF, x[i])
    return result


@jit(no_reference_counting=True)
def squared(lam, nu, theta):
    """Half the squared difference of two soft committees."""
    return (total(lam) - total(nu)) ** 2 / 2


@jit
def dropout_force(lam, nu, xi, theta, S, F, G):
    """Force of a committee in which unit k is active if bit k of the mask xi is set; p is stored behind theta."""
    delta = -total(nu)
    for k in range(lam.size):
        F[k] = (int(xi) >> k & 1) / theta[lam.size]
        delta += F[k] * value(ERF, lam[k])
    for k in range(lam.size):
        F[k] *= -slope(ERF, lam[k]) * delta


@jit
def dropout_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Mean over masks xi of the closure of the squared loss with second layers xi_k / p.

    The parameters are p and the probabilities of the masks.
    """
    layers, p, chances, workspace = -np.ones(len(S)), parameters[0], parameters[1:], np.empty(erf_workspace(len(S)))
    a, b, c = np.zeros(A.shape), np.zeros(B.shape), np.zeros(C.shape)
    A[:], B[:], C[:] = 0.0, 0.0, 0.0
    for mask in range(2**K):
        for k in range(K):
            layers[k] = (mask >> k & 1) / p
        erf_closure(S, layers, workspace, K, ERF, eta, 0.0, 0.0, second_order, a, b, c, dv)
        for mean, term in ((A, a), (B, b), (C, c)):
            mean += chances[mask] * term
    layers[:K] = 1.0
    return erf_closure(S, layers, workspace, K, ERF, eta, 0.0, 0.0, False, a, b, c, dv)


@by_name("ov.rules.dropout(2, 2, keep=0.5)")
def dropout(K: int, M: int, keep: float) -> Rule:
    r"""Soft committee of error functions with dropout: each unit is active with probability ``keep`` in a sample.

    .. math:: F_k = -\frac{\xi_k}{p}\,g'(\lambda_k)\Big(\sum_j \frac{\xi_j}{p}\, g(\lambda_j) - \sum_m g(\nu_m)\Big)

    Parameters
    ----------
    K, M : int
        Students and teachers, at most eight together.
    keep : float
        The probability p.

    Returns
    -------
    Rule
        With the 2^K masks as noise; eps_g is the error of the network without dropout. Exact: the closure is the mean
        over masks of the closure of the squared loss with the second layer xi / p.

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
    K, M = check.count("K", K), check.count("M", M)
    p = check.number("keep", keep, above=0, most=1, hint="It is a probability.")
    chances = np.array([np.prod([p if mask >> k & 1 else 1 - p for k in range(K)]) for mask in range(2**K)])
    return Rule(dropout_force, K=K, M=M, error=squared, noise=(np.arange(2.0**K), chances), name="dropout",
        numbers=np.append(p, chances), closed=dropout_closure, recipe=("dropout", K, M, p),
    )  # fmt: skip


@by_name("ov.rules.sign_committee(3)")
def sign_committee(K: int) -> Rule:
    r"""Committee of K sign units with a perceptron as teacher: if the vote is wrong, the units that caused it learn.

    .. math:: F_k = \sigma\,[\sigma o < 0]\,[\sigma\lambda_k < 0], \quad o = \sum_k \mathrm{sgn}\,\lambda_k, \quad
              \sigma = \mathrm{sgn}\,\nu

    Parameters
    ----------
    K : int
        Units; nothing is learned from a tie. Two units by iterated quadrature, more by Sobol points, to 1e-3.

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
        y, vote = np.sign(nu[0]), np.sum(np.sign(lam))
        for k in range(K):
            F[k] = y if y * vote < 0 and y * lam[k] < 0 else 0.0

    def error(lam, nu, theta):
        return 1.0 if np.sum(np.sign(lam)) * nu[0] < 0 else 0.0

    breaks = np.eye(K + 1, K + 2)
    return Rule(force, K=K, M=1, error=error, breaks=breaks, name="committee of signs", recipe=("sign_committee", K))


@by_name("ov.rules.logistic_committee(2, 2, beta=1.5)")
def logistic_committee(K: int, M: int, beta: float) -> Rule:
    r"""Soft committee of error functions that predicts labels: logistic loss, P(y = 1) = s(beta y*).

    .. math:: F_k = y\,s(-y\hat y)\,g'(\lambda_k), \quad \hat y = \sum_k g(\lambda_k), \quad y^* = \sum_m g(\nu_m)

    Parameters
    ----------
    K, M : int
        Students and teachers, with integrals to 1e-6 for at most four together.
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

    def chance(nu, theta, p):
        p[0] = 1 / (1 + math.exp(-beta * total(nu)))
        p[1] = 1 - p[0]

    def force(lam, nu, xi, theta, S, F, G):
        factor = xi / (1 + math.exp(xi * total(lam)))
        for k in range(K):
            F[k] = factor * slope(ERF, lam[k])

    def error(lam, nu, theta):
        out = total(lam)
        return math.log1p(math.exp(-out)) + out / (1 + math.exp(beta * total(nu)))

    return Rule(force, K=K, M=M, error=error, noise=([1.0, -1.0], chance), tolerance=1e-6 if K + M <= 4 else None,
        name="logistic committee", recipe=("logistic_committee", K, M, beta),
    )  # fmt: skip


@by_name("ov.rules.offsets(2, [0.5, -0.5])")
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
    K, c = check.count("K", K), check.array("offset", offset, ("M",), "One for each teacher unit.", filled=True)

    @jit_user
    def deviation(lam, nu, theta):
        return total(lam + theta[:K]) - total(nu + c)

    def force(lam, nu, xi, theta, S, F, G):
        delta = deviation(lam, nu, theta)
        for k in range(K):
            F[k] = G[k] = -slope(ERF, lam[k] + theta[k]) * delta

    def error(lam, nu, theta):
        return deviation(lam, nu, theta) ** 2 / 2

    return Rule(force, K=K, M=len(c), error=error, name="offsets", recipe=("offsets", K, tuple(c.tolist())))
