"""One-dimensional rules for E[f(z)], z ~ N(0, 1)."""

from functools import cache

import numpy as np

from .two_point import SQRT_2PI


@cache
def gauss_hermite(n):
    """Nodes and weights with sum_i p_i f(u_i) = E[f(u)], u ~ N(0, 1), exact for polynomials of degree 2n - 1."""
    u, p = np.polynomial.hermite_e.hermegauss(n)
    return u, p / p.sum()


def hermite(u, modes):
    """Orthonormal Hermite polynomials he_r(u), r < modes; shape (len(u), modes)."""
    he = np.ones((len(u), modes))
    for r in range(1, modes):
        he[:, r] = u * he[:, r - 1] - (np.sqrt(r - 1) * he[:, r - 2] if r > 1 else 0.0)
        he[:, r] /= np.sqrt(r)
    return he


def midpoint(n, half_width=9.0):
    """Nodes and weights with sum_i p_i f(u_i) ~ E[f(u)], u ~ N(0, 1)."""
    u = half_width * ((2 * np.arange(n) + 1) / n - 1)
    return u, 2 * half_width / n * np.exp(-0.5 * u * u) / SQRT_2PI


def widening(n):
    """Midpoint rule on a range that grows with n from [-7, 7] to [-9, 9].

    With few nodes a narrow range is best; since it grows, two sizes differ by the truncation error too.
    """
    return midpoint(n, min(9.0, 7.0 + (n - 24) / 16))


def graded(n, half_width=9.0):
    """Gauss-Legendre panels that shrink towards 0, where the kink of a closed-form partner sits; exact beside it."""
    edges = np.linspace(0.0, half_width, n // 8 + 1)
    edges = np.concatenate([[0.0], edges[1] * 0.15 ** np.arange(12, 0, -1), edges[1:]])
    x, p = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    u = (edges[:-1, None] + half * (1 + x)).ravel()
    p = (half * p).ravel() * np.exp(-0.5 * u * u) / SQRT_2PI
    return np.concatenate([-u[::-1], u]), np.concatenate([p[::-1], p])


def factor(S):
    """Lower triangular L with L L^T = S; exactly dependent fields get a zero column."""
    n = len(S)
    L = np.zeros((n, n))
    for j in range(n):
        pivot = S[j, j] - L[j, :j] @ L[j, :j]
        if pivot > 4e-16 * n * S[j, j]:
            L[j:, j] = (S[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(pivot)
    return L
