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
from ..gaussian.rules import gauss_hermite
from ._pairs import conditional_modes, conditional_product, residual_correlations
from .polynomials import Polynomial
from .sectors import angle, loadings, sector, wedge

PER_SQRT_2PI = 1 / np.sqrt(2 * np.pi)


def positive_moments(S, w, K, slope, kink, p):
    """E[theta(k) theta(l) (2 G Y + Y^2)] (K, K) for students slope x + kink relu(x) and teachers p."""
    sigma = np.sqrt(np.diag(S)[:K])
    to_student = S[:K] / sigma[:, None]  # covariances of the unit fields of the students with all fields
    unit = np.clip(S[:K, :K] / np.sqrt(np.outer(np.diag(S)[:K], np.diag(S)[:K])), -1.0, 1.0)
    square, single = _wedge_moments(S, w, K, slope, p, to_student, unit)
    u = 2 * kink * w[:K] * sigma
    off = single - np.diag(np.diag(single))
    square += u[:, None] * off + (u[:, None] * off).T + np.diag(u * np.diag(single) + u @ off)
    if K > 2:
        triples = np.array(list(combinations(range(K), 3)))
        moments = _cone_moments(S, w, K, p, to_student, unit, triples)
        for c in range(3):
            k, j = triples[:, c - 1], triples[:, c - 2]
            np.add.at(square, (k, j), u[triples[:, c]] * moments[:, c])
            np.add.at(square, (j, k), u[triples[:, c]] * moments[:, c])
    return square


def _wedge_moments(S, w, K, slope, p, to_student, unit):
    """E[theta(k) theta(j) (Y^2 + 2 slope Y sum_i v_i z_i)] and E[theta(k) theta(j) z_k Y] (K, K), z_k a unit field."""
    k, j = np.tril_indices(K)
    x, y, across, weight = wedge(unit[k, j], 2 * max(p.degree, 1))
    alpha, beta = loadings(to_student[k], to_student[j], unit[k, j, None])
    residual = S - alpha[:, :, None] * alpha[:, None] - beta[:, :, None] * beta[:, None]
    mean = x[..., None] * alpha[:, None] + across[..., None] * beta[:, None]
    s, rho = residual_correlations(residual)
    modes = conditional_modes(mean, s, w, K, Polynomial((0.0, slope)), p, gauss_hermite(p.degree + 1), p.degree + 1)
    Y, twice = modes.copy(), 2 * modes
    Y[..., :K, :] = 0.0
    twice[..., K:, :] *= 0.5
    mean_Y = np.sum(Y[..., 0], axis=-1)
    square, single = np.empty((K, K)), np.empty((K, K))
    square[k, j] = square[j, k] = np.sum(weight * conditional_product(Y, twice, rho), axis=-1)
    single[k, j], single[j, k] = np.sum(weight * x * mean_Y, axis=-1), np.sum(weight * y * mean_Y, axis=-1)
    return square, single


def _cone_moments(S, w, K, p, to_student, unit, triples):
    """E[theta(k) theta(j) c_+ Y] of unit fields for c first, second, last in each of the ``triples`` (T, 3); (T, 3)."""
    sigma = np.sqrt(np.maximum(np.diag(S)[K:], 0.0))
    rule = gauss_hermite(p.degree + 1)
    q = np.multiply.outer(np.array(p.coefficients), np.ones_like(sigma))
    lower = _lower(q, sigma**2)
    lowest = _lower(lower, sigma**2)
    q_mean, lower_mean = (_mean(c, np.zeros_like(sigma), sigma, rule) for c in (q, lower))
    r, to_d = unit[triples[:, :, None], triples[:, None]], to_student[triples, K:]
    normals, edges, y = _cone(r, np.divide(to_d, sigma, out=np.zeros_like(to_d), where=sigma > 0.0))
    u, weight, lengths = _faces(normals, edges, len(q))
    d = sigma * (u @ y[:, None])
    rest = sigma * np.sqrt(np.maximum(1.0 - np.sum(y * y, axis=1), 0.0))[:, None, None]
    steps = np.einsum("tjm,tjp,tjpm->tm", to_d, weight, _mean(lowest, d, rest, rule))
    heights = u @ normals.swapaxes(1, 2)[:, None]  # the three fields on each face
    ramps = np.einsum("tjm,tjp,tjpc,tjpm->tcm", to_d, weight, heights, _mean(lower, d, rest, rule), optimize=True)
    P3 = 0.125 + (1.5 * np.pi - np.sum(angle(r[:, (0, 0, 1), (1, 2, 2)]), axis=1)) / (4 * np.pi)
    moments = q_mean * (r @ lengths[..., None]) + ramps + to_d * (lower_mean * P3[:, None] + steps)[:, None]
    return moments @ w[K:]


def _faces(normals, edges, degree):
    """Points u (T, 3, points, 3) of the faces, weights of E[delta(normal . u) f(u)] and E[delta] (T, 3) there."""
    first, last = np.roll(edges, -1, axis=1), np.roll(edges, -2, axis=1)
    across = np.cross(normals, first)
    opening = np.arctan2(np.sum(across * last, axis=-1), np.sum(first * last, axis=-1))
    rho, t, p = sector(np.zeros_like(opening), opening, degree)
    u = (rho * np.cos(t))[..., None] * first[:, :, None] + (rho * np.sin(t))[..., None] * across[:, :, None]
    return u, PER_SQRT_2PI * p, PER_SQRT_2PI * opening / (2 * np.pi)


def _cone(r, to_fields):
    """Normals (T, 3, 3) of the planes where three fields vanish, edges (T, 3, 3), loadings (T, 3, M) of other fields.

    The normals are a Cholesky factor of the correlations r; edge i lies on the two planes other than i, on the positive
    side of i.  Differences of correlations are exact near alignment, and pivots are never below ``FLOOR``.
    """
    r01 = r[:, 0, 1, None]
    sign = np.where(r01 >= 0.0, 1.0, -1.0)
    s = np.maximum(np.sqrt((1.0 - r01) * (1.0 + r01)), FLOOR)
    correlations = np.concatenate([r[:, :, 2:], to_fields], axis=2)
    first = correlations[:, 0]
    rest = np.sqrt(np.maximum((1.0 - first) * (1.0 + first), 0.0))
    second = np.clip(((correlations[:, 1] - sign * first) + (sign - r01) * first) / s, -rest, rest)
    rest = np.sqrt(np.maximum((rest - second) * (rest + second), 0.0))
    p, q, g = first[:, :1], second[:, :1], np.maximum(rest[:, :1], FLOOR)
    third = np.clip((correlations[:, 2] - p * first - q * second) / g, -rest, rest)
    sign = np.where(r[:, 1, 2, None] >= 0.0, 1.0, -1.0)
    height = r01 * (q - sign * s) - s * (p - sign * r01)  # r01 q - s p
    nothing, one = np.zeros_like(s), np.ones_like(s)

    def rows(*entries):
        return np.concatenate(entries, axis=1).reshape(-1, 3, 3)

    normals = rows(one, nothing, nothing, r01, s, nothing, p, q, g)
    edges = rows(s * g, -r01 * g, height, nothing, g, -q, nothing, nothing, one)
    edges /= np.linalg.norm(edges, axis=2, keepdims=True)
    return normals, edges, np.stack([first, second, third], axis=1)[..., 1:]


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
