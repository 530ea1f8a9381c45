"""Moments over the cones where two or three students are positive: piecewise-linear students, polynomial teachers.

Wanted is E[theta(a) theta(b) (2 G Y + Y^2)], with G = sum_i v_i (slope z_i + kink relu(z_i)) of the students and
Y = sum_m w_m p(z_m).  Without a third relu it is the integral of a polynomial over a sector of the plane (a, b).  For
E[theta(a) theta(b) c_+ q(d)] Stein's lemma on d lowers the degree of q: with the linear map L d^r = d^(r-1) +
(r - 1) S_dd L d^(r-2), for which E[q(d) F] = E[q] E[F] + sum_j S_dj E[(L q)(d) dF/dz_j],

    E[theta(a) theta(b) c_+ q] = E[q] E[theta(a) theta(b) c_+] + S_dc E[theta(a) theta(b) theta(c) L q]
                                 + S_da E[delta(a) theta(b) c_+ L q] + S_db E[theta(a) delta(b) c_+ L q],
    E[theta(a) theta(b) theta(c) q] = E[q] P3 + sum_j S_dj E[delta(j) theta theta L q],     j in {a, b, c}.

A delta function restricts the average to a face of the cone, the plane sector between two of its three edges.  Edges
are computed once for all faces, so that these fit together to rounding also where students are parallel.
"""

from itertools import combinations

import numpy as np
from numpy.polynomial import polynomial as poly

from ..gaussian.orthants import FLOOR
from ..gaussian.rules import gauss_hermite, hermite
from ._pairs import conditional_error, residual_correlations
from ._sectors import angle, loadings, sector, wedge
from .polynomials import Polynomial

PER_SQRT_2PI = 1 / np.sqrt(2 * np.pi)


def positive_moments(S, w, K, slope, kink, p):
    """E[theta(k) theta(l) (2 G Y + Y^2)] (K, K) for students slope x + kink relu(x) and teachers p(x)."""
    sigma = np.sqrt(np.diag(S)[:K])
    to_student = S[:K] / sigma[:, None]  # covariances of the unit fields of the students with all fields
    unit = np.clip(S[:K, :K] / np.sqrt(np.outer(np.diag(S)[:K], np.diag(S)[:K])), -1.0, 1.0)
    rule = gauss_hermite(len(p.coefficients))
    square, single = np.empty((K, K)), np.empty((K, K))  # single_kj = E[theta(k) theta(j) z_k Y]
    for k in range(K):
        for j in range(k + 1):
            moments = _wedge_moments(S, w, K, slope, p, to_student[k], to_student[j], unit[k, j], rule)
            square[k, j], single[k, j], single[j, k] = moments
            square[j, k] = square[k, j]
    u = 2 * kink * w[:K] * sigma
    off = single - np.diag(np.diag(single))
    square += u[:, None] * off + (u[:, None] * off).T + np.diag(u * np.diag(single) + u @ off)
    for c, k, j, value in _cone_moments(S, w, K, p, to_student, unit, rule):
        square[k, j] += u[c] * value
        square[j, k] += u[c] * value
    return square


def _wedge_moments(S, w, K, slope, p, to_x, to_y, correlation, rule):
    """E[theta(x) theta(y) f] for f = Y^2 + 2 slope Y sum_i v_i z_i, x Y and y Y."""
    x, y, across, weight = wedge(correlation, 2 * max(len(p.coefficients) - 1, 1))
    alpha, beta = loadings(to_x, to_y, correlation)
    residual = S - np.outer(alpha, alpha) - np.outer(beta, beta)
    mean = np.outer(x, alpha) + np.outer(across, beta)
    xi, q = rule
    projector = hermite(xi, len(xi)) * q[:, None]
    line, silent = Polynomial((0.0, slope)), np.where(np.arange(len(w)) < K, w, 0.0)
    square = conditional_error(mean, residual, w, K, line, p, xi, projector)
    square -= conditional_error(mean, residual, silent, K, line, p, xi, projector)
    s, _ = residual_correlations(residual)
    Y = (p(mean[:, K:, None] + s[K:, None] * xi) @ q) @ w[K:]
    return weight @ square, (weight * x) @ Y, (weight * y) @ Y


def _cone_moments(S, w, K, p, to_student, unit, rule):
    """Yield c, k, j and E[theta(k) theta(j) c_+ Y], unit fields, for any three different students."""
    sigma = np.sqrt(np.maximum(np.diag(S)[K:], 0.0))
    q = np.multiply.outer(np.array(p.coefficients), np.ones_like(sigma))
    lower = _lower(q, sigma**2)
    lowest = _lower(lower, sigma**2)
    q_mean, lower_mean = (_mean(c, np.zeros_like(sigma), sigma, rule) for c in (q, lower))
    for triple in combinations(range(K), 3):
        r, to_d = unit[np.ix_(triple, triple)], to_student[list(triple), K:]
        normals, edges, y = _cone(r, np.divide(to_d, sigma, out=np.zeros_like(to_d), where=sigma > 0.0))
        rest = sigma * np.sqrt(np.maximum(1.0 - np.sum(y * y, axis=0), 0.0))
        steps, ramps, lengths = np.zeros(len(sigma)), np.zeros((3, len(sigma))), np.empty(3)
        for j in range(3):
            u, weight, lengths[j] = _face(normals[j], edges[j - 2], edges[j - 1], len(q))
            d = sigma * (u @ y)
            steps += to_d[j] * (weight @ _mean(lowest, d, rest, rule))
            ramps += to_d[j] * ((u @ normals.T * weight[:, None]).T @ _mean(lower, d, rest, rule))
        P3 = 0.125 + (1.5 * np.pi - angle(r[0, 1]) - angle(r[0, 2]) - angle(r[1, 2])) / (4 * np.pi)
        for c in range(3):
            moments = q_mean * (r[c] @ lengths) + to_d[c] * (lower_mean * P3 + steps) + ramps[c]
            yield triple[c], triple[c - 1], triple[c - 2], moments @ w[K:]


def _face(normal, first, last, degree):
    """Points u (points, 3) of the face between two edges, weights of E[delta(normal . u) f(u)], and E[delta] there."""
    across = np.cross(normal, first)
    opening = np.arctan2(across @ last, first @ last)
    rho, t, p = sector(0.0, opening, degree)
    u = (rho * np.cos(t))[:, None] * first + (rho * np.sin(t))[:, None] * across
    return u, PER_SQRT_2PI * p, PER_SQRT_2PI * opening / (2 * np.pi)


def _cone(r, to_fields):
    """Normals (3, 3) of the planes where three fields vanish, edges (3, 3) between them, loadings (3, M) of others.

    The normals are a Cholesky factor of the correlations r; edge i lies on the two planes other than i, on the positive
    side of i.  Differences of correlations are exact near alignment, and pivots are never below ``FLOOR``.
    """
    r01 = r[0, 1]
    sign = 1.0 if r01 >= 0.0 else -1.0
    s = max(np.sqrt((1.0 - r01) * (1.0 + r01)), FLOOR)
    known = np.column_stack([r[:, 2], to_fields])
    first = known[0]
    room = np.sqrt(np.maximum((1.0 - first) * (1.0 + first), 0.0))
    second = np.clip(((known[1] - sign * first) + (sign - r01) * first) / s, -room, room)
    room = np.sqrt(np.maximum((room - second) * (room + second), 0.0))
    p, q, g = first[0], second[0], max(room[0], FLOOR)
    third = np.clip((known[2] - p * first - q * second) / g, -room, room)
    sign = 1.0 if r[1, 2] >= 0.0 else -1.0
    height = r01 * (q - sign * s) - s * (p - sign * r01)  # r01 q - s p
    edges = np.array([[s * g, -r01 * g, height], [0.0, g, -q], [0.0, 0.0, 1.0]])
    normals = np.array([[1.0, 0.0, 0.0], [r01, s, 0.0], [p, q, g]])
    return normals, edges / np.linalg.norm(edges, axis=1)[:, None], np.array([first, second, third])[:, 1:]


def _lower(c, variance):
    """Coefficients (degree, M) of L q, for q of coefficients c (degree + 1, M) and fields of these variances."""
    size = max(len(c) - 1, 1)
    total, images = np.zeros((size, c.shape[1])), [np.zeros((size, c.shape[1]))]
    for r in range(1, len(c)):
        images.append((r - 1) * variance * images[r - 2])
        images[r][r - 1] += 1.0
        total += c[r] * images[r]
    return total


def _mean(c, x, s, rule):
    """E[q(x + s xi)] for polynomials q of coefficients c (degree + 1, M), at points x (..., M)."""
    return sum(p * poly.polyval(x + s * xi, c, tensor=False) for xi, p in zip(*rule, strict=True))
