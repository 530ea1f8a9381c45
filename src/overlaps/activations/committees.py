"""Rules for several units of error functions or signs: forces made of numbers, whose closures are integrals."""

import math

import numpy as np

from .._base import check
from .._base.jit import jit, made
from .._base.types import ArrayLike
from ..gaussian.two_point import ERF, slope, value
from .rule import Rule


@jit(bare=True)
def total(x):
    """Output of a soft committee of error functions at fields x."""
    result = 0.0
    for i in range(x.size):
        result += value(ERF, x[i])
    return result


@jit(bare=True)
def squared(lam, nu, theta):
    """Half the squared difference of two soft committees."""
    return (total(lam) - total(nu)) ** 2 / 2


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
        mask, delta = int(xi), -total(nu)
        for k in range(K):
            delta += (mask >> k & 1) / p * value(ERF, lam[k])
        for k in range(K):
            F[k] = -(mask >> k & 1) / p * slope(ERF, lam[k]) * delta

    noise = masks.astype(float), p**kept * (1 - p) ** (K - kept)
    return Rule(force, K=K, M=M, error=squared, noise=noise, name="dropout", recipe=("dropout", K, M, p))


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
        y = np.sign(nu[0])
        wrong = y * np.sum(np.sign(lam)) < 0
        for k in range(K):
            F[k] = y if wrong and y * lam[k] < 0 else 0.0

    def error(lam, nu, theta):
        return 1.0 if np.sum(np.sign(lam)) * nu[0] < 0 else 0.0

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

    def chance(nu, theta, p):
        p[0] = 1 / (1 + math.exp(-beta * total(nu)))
        p[1] = 1 - p[0]

    def force(lam, nu, xi, theta, S, F, G):
        pull = xi / (1 + math.exp(xi * total(lam)))
        for k in range(K):
            F[k] = pull * slope(ERF, lam[k])

    def error(lam, nu, theta):
        out = total(lam)
        return math.log1p(math.exp(-out)) + out / (1 + math.exp(beta * total(nu)))

    noise = [1.0, -1.0], chance
    return Rule(force, K=K, M=M, error=error, noise=noise, tolerance=1e-6 if K + M <= 4 else None,
        name="logistic committee", recipe=("logistic_committee", K, M, beta),
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
    K, c = check.count("K", K), check.array("offset", offset, ("M",), "One for each teacher unit.", filled=True)
    M = len(c)

    @made
    def deviation(lam, nu, theta):
        return total(lam + theta[:K]) - total(nu + c)

    def force(lam, nu, xi, theta, S, F, G):
        delta = deviation(lam, nu, theta)
        for k in range(K):
            F[k] = G[k] = -slope(ERF, lam[k] + theta[k]) * delta

    def error(lam, nu, theta):
        return deviation(lam, nu, theta) ** 2 / 2

    return Rule(force, K=K, M=M, error=error, name="offsets", recipe=("offsets", K, tuple(c.tolist())))
