"""Two one-dimensional integrals for the probability that four Gaussian fields are all positive.

Plackett (1954): dP4/dr_ij = p_ij / (2 pi sqrt(1 - r_ij^2)), where p_ij is the probability that the other two fields are
positive given z_i = z_j = 0.  This is integrated along a path of correlation matrices that ends at the given one:

* row path: the three correlations of one field, the pivot, are scaled by t in [0, 1];
* block path: the four correlations between two pairs of fields are scaled by t.

Substitute t = 2u / ((1 + u^2) Rm), where 1 / Rm is the singularity of the path nearest to t = 1.  Then
sqrt(1 - t^2 Rm^2) = (1 - u^2) / (1 + u^2) is rational in u: this branch point is removed.  Exactly singular matrices
need no special case, because 1 - t^2 r^2 = (1 - t^2 Rm^2) + t^2 (Rm^2 - r^2) is a sum of positive terms.  The integral
over u is Gauss-Legendre; the number of nodes follows from the distance of the next singularity.
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from .elementary import arctan2
from .quadrature import legendre


class MinRho(NamedTuple):
    """Bernstein parameters rho above which n Gauss-Legendre nodes give full precision: errors fall as rho^(-2n)."""

    nodes_8: float = 8.0
    nodes_16: float = 3.0
    nodes_40: float = 1.5


class Quadratures(NamedTuple):
    """Nodes and weights on [0, 1]."""

    nodes_8: tuple[np.ndarray, np.ndarray]
    nodes_16: tuple[np.ndarray, np.ndarray]
    nodes_40: tuple[np.ndarray, np.ndarray]
    graded: tuple[np.ndarray, np.ndarray]  # panels that are graded towards the end of the path, u = u1


def _graded(x, w):
    """Nodes and weights of panels with nodes x and weights w each."""
    edges = np.array([*(1 - 0.2**k for k in range(9)), 1.0])[:, None]
    return (edges[:-1] + np.diff(edges, axis=0) * x).ravel(), (np.diff(edges, axis=0) * w).ravel()


MIN_RHO = MinRho()
QUADRATURES = Quadratures(*map(legendre, (8, 16, 40)), _graded(*legendre(16)))


@jit
def _nodes(rho):
    """Nodes and weights for the parameter rho; multiples of 8 leave no remainder in vectorised loops."""
    if rho > MIN_RHO.nodes_8:
        return QUADRATURES.nodes_8
    if rho > MIN_RHO.nodes_16:
        return QUADRATURES.nodes_16
    if rho > MIN_RHO.nodes_40:
        return QUADRATURES.nodes_40
    return QUADRATURES.graded


@jit(inline=True)
def bernstein(Rm2, S2):
    """Parameter rho of the largest ellipse around [0, u1] without singularity; S2 is the next squared singularity."""
    u1 = math.sqrt(Rm2) / (1.0 + math.sqrt(1.0 - Rm2))
    ratio2 = min(S2 / Rm2, 1.0)
    real = 2.0 * math.sqrt(ratio2) / u1 - 1.0
    imaginary2 = 4.0 * (1.0 - ratio2) / (u1 * u1)
    a = 0.5 * (math.sqrt((real - 1.0) ** 2 + imaginary2) + math.sqrt((real + 1.0) ** 2 + imaginary2))
    return a + math.sqrt(max(a * a - 1.0, 0.0))


@jit(fast=True)
def row_integral(rho, r0, r1, r2, a0, a1, a2, b0, b1, b2, R2, root):
    """int_0^1 dt sum_j r_j / sqrt(1 - t^2 r_j^2) atan(n_j / k_j) over the three fields j beside the pivot.

    n_j = a_j (1 - t^2 r_j^2) - t^2 b_j, k_j = root sqrt(1 - t^2 R2) sqrt(1 - t^2 r_j^2); R2 is the squared multiple
    correlation of the pivot on the others, root the square root of the determinant of their correlations.
    """
    x, weight = _nodes(rho)
    Rm = math.sqrt(R2)
    u1 = Rm / (1.0 + math.sqrt(1.0 - R2))
    scale = 1.0 / Rm
    gap0, gap1, gap2 = max(R2 - r0 * r0, 0.0), max(R2 - r1 * r1, 0.0), max(R2 - r2 * r2, 0.0)
    total = 0.0
    for i in range(x.size):
        u = u1 * x[i]
        g = 1.0 / (1.0 + u * u)
        cosine = (1.0 - u * u) * g
        t = 2.0 * u * g * scale
        t2 = t * t
        k = cosine * root
        o0 = cosine * cosine + t2 * gap0
        o1 = cosine * cosine + t2 * gap1
        o2 = cosine * cosine + t2 * gap2
        e0, e1, e2 = math.sqrt(o0), math.sqrt(o1), math.sqrt(o2)
        rate = r0 / e0 * arctan2(a0 * o0 - t2 * b0, k * e0)
        rate += r1 / e1 * arctan2(a1 * o1 - t2 * b1, k * e1)
        rate += r2 / e2 * arctan2(a2 * o2 - t2 * b2, k * e2)
        total += weight[i] * cosine * g * rate
    return total * u1 * 2.0 * scale


@jit(fast=True)
def block_integral(rho, c00, c01, c10, c11, n00, n01, n10, n11, det, L1, L2):
    """int_0^1 dt sum_xy c_xy / sqrt(1 - t^2 c_xy^2) (pi/2 + atan(t (n_xy -+ t^2 det c_xy) / k_xy)) over cross pairs xy.

    k_xy = sqrt((1 - t^2 L1)(1 - t^2 L2)(1 - t^2 c_xy^2)); L1 >= L2 are the squared canonical correlations and det the
    signed root of L1 L2; the sign is - for xy = 00, 11.
    """
    x, weight = _nodes(rho)
    Rm = math.sqrt(L1)
    u1 = Rm / (1.0 + math.sqrt(1.0 - L1))
    scale = 1.0 / Rm
    gap, gap00, gap01 = max(L1 - L2, 0.0), max(L1 - c00 * c00, 0.0), max(L1 - c01 * c01, 0.0)
    gap10, gap11 = max(L1 - c10 * c10, 0.0), max(L1 - c11 * c11, 0.0)
    total = 0.0
    for i in range(x.size):
        u = u1 * x[i]
        g = 1.0 / (1.0 + u * u)
        cosine = (1.0 - u * u) * g
        t = 2.0 * u * g * scale
        t2 = t * t
        cosine2 = cosine * cosine
        k = cosine * math.sqrt(cosine2 + t2 * gap)
        td = t2 * det
        e00 = math.sqrt(cosine2 + t2 * gap00)
        e01 = math.sqrt(cosine2 + t2 * gap01)
        e10 = math.sqrt(cosine2 + t2 * gap10)
        e11 = math.sqrt(cosine2 + t2 * gap11)
        rate = c00 / e00 * (0.5 * math.pi + arctan2(t * (n00 - td * c00), k * e00))
        rate += c01 / e01 * (0.5 * math.pi + arctan2(t * (n01 + td * c01), k * e01))
        rate += c10 / e10 * (0.5 * math.pi + arctan2(t * (n10 + td * c10), k * e10))
        rate += c11 / e11 * (0.5 * math.pi + arctan2(t * (n11 - td * c11), k * e11))
        total += weight[i] * cosine * g * rate
    return total * u1 * 2.0 * scale
