"""One-dimensional quadratures for E[f(z)], z ~ N(0, 1).

Polynomials: ``gauss_hermite``. Functions analytic in a strip: ``trapezoid`` and ``midpoint`` (no node at the origin;
``widening`` for few nodes). Kinks and jumps at known points: ``panels``, ``piecewise``, and ``graded`` about 0.
"""

import math
from functools import cache, lru_cache

import numpy as np
import scipy

from .._base.jit import jit
from .two_point import SQRT_2PI

RANGE = 10.0  # default half width in standard deviations; the probability outside is 1.5e-23


@cache
def gauss_hermite(n):
    """Nodes and weights with sum_i p_i f(u_i) = E[f(u)], u ~ N(0, 1), exact for polynomials of degree 2n - 1."""
    u, p = np.polynomial.hermite_e.hermegauss(n)
    return u, p / p.sum()


def tensor(quadrature, d):
    """Nodes (d, P) and weights (P,) of the tensor product in d dimensions of a quadrature (nodes, weights)."""
    nodes, weights = (np.array(np.meshgrid(*[x] * d, indexing="ij")).reshape(d, -1) for x in quadrature)
    return nodes, np.prod(weights, axis=0)


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


@cache
def widening(n):
    """Midpoint rule on a range that grows with n from [-7, 7] to [-9, 9].

    With few nodes a narrow range is best.  Because it grows, the difference of two sizes includes the truncation error.
    """
    return midpoint(n, min(9.0, 7.0 + (n - 24) / 16))


@lru_cache(maxsize=64)
def trapezoid(step, half_width=RANGE):
    """Trapezoid rule on [-half_width, half_width], with steps of at most ``step`` and weights of sum one."""
    n = math.ceil(half_width / step)
    z = half_width / n * np.arange(-n, n + 1)
    weight = np.exp(-0.5 * z * z)
    weight /= weight.sum()
    for x in (z, weight):
        x.setflags(write=False)
    return z, weight


def sobol(d, log2, seed):
    """Scrambled Sobol points (2^log2, d) of N(0, 1), from a seed or a Generator."""
    from scipy.stats import qmc  # imported here because it takes half a second

    return scipy.special.ndtri(qmc.Sobol(d, seed=np.random.default_rng(seed)).random_base2(log2))


@cache
def legendre(n):
    """Gauss-Legendre nodes and weights for the integral over [0, 1]."""
    x, p = np.polynomial.legendre.leggauss(n)
    return 0.5 * (1 + x), 0.5 * p


def panels(edges, pieces):
    """Gauss-Legendre rules, weights of sum one, between ascending edges (n, m), each interval cut into equal pieces."""
    x, p = legendre(16)
    x = (np.arange(pieces)[:, None] + x).ravel() / pieces
    p = np.tile(p, pieces) / pieces
    width = np.diff(edges)[..., None]
    z = (edges[:, :-1, None] + width * x).reshape(len(edges), -1)
    weight = (width * p).reshape(len(edges), -1) * np.exp(-0.5 * z * z)
    return z, weight / weight.sum(axis=1, keepdims=True)


def piecewise(kinks, step):
    """Quadrature for a function with jumps or kinks at ``kinks``: panels, or the trapezoid rule if there are none."""
    if kinks:
        return tuple(x[0] for x in panels(np.array([[-RANGE, *kinks, RANGE]]), 16))
    return trapezoid(step)


@cache
def graded(n, half_width=9.0):
    """Gauss-Legendre panels that shrink towards 0, where the other function of a pair has its kink."""
    edges = np.linspace(0.0, half_width, n // 8 + 1)
    edges = np.concatenate([[0.0], edges[1] * 0.15 ** np.arange(12, 0, -1), edges[1:]])
    x, p = legendre(12)
    width = np.diff(edges)[:, None]
    u = (edges[:-1, None] + width * x).ravel()
    p = (width * p).ravel() * np.exp(-0.5 * u * u) / SQRT_2PI
    return np.concatenate([-u[::-1], u]), np.concatenate([p[::-1], p])


def adaptive(f, kinks, half_width, *, relative, absolute=0.0):
    """E[f(z)] of a function with values in any vector space, by adaptive quadrature; and the reason of failure, or "".

    ``kinks`` are points at which f is not smooth, ``absolute`` is the rounding error of f.
    """
    value, _, info = scipy.integrate.quad_vec(
        lambda z: f(z) * math.exp(-0.5 * z * z) / SQRT_2PI, -half_width, half_width, epsabs=max(absolute, 1e-200),
        epsrel=relative, norm="max", points=[0.0, *(k for k in kinks if abs(k) < half_width)], limit=500,
        full_output=True,
    )  # fmt: skip
    return value, "" if info.success and np.all(np.isfinite(value)) else info.message


@jit
def factor(S):
    """Lower triangular L with L L^T = S; a linearly dependent field has a zero column."""
    n = S.shape[0]
    L = np.zeros((n, n))
    for j in range(n):
        pivot = S[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if pivot > 4e-16 * n * S[j, j]:
            L[j, j] = math.sqrt(pivot)
            for i in range(j + 1, n):
                L[i, j] = S[i, j]
                for k in range(j):
                    L[i, j] -= L[i, k] * L[j, k]
                L[i, j] /= L[j, j]
    return L
