"""Moments over the orthants where two or three students are positive, for polynomial teachers.

This module computes E[theta(a) theta(b) (2 G Y + Y^2)], with G = sum_i v_i (slope z_i + kink relu(z_i)) of
piecewise-linear students and Y = sum_m w_m p(z_m).  Without a third relu it is the integral of a polynomial over a
sector of the plane (a, b).  For E[theta(a) theta(b) c_+ q(d)] Stein's lemma on d lowers the degree of q: with the
linear map L d^r = d^(r-1) + (r - 1) S_dd L d^(r-2), for which E[q(d) F] = E[q] E[F] + sum_j S_dj E[(L q)(d) dF/dz_j],

    E[theta(a) theta(b) c_+ q] = E[q] E[theta(a) theta(b) c_+] + S_dc E[theta(a) theta(b) theta(c) L q]
                                 + S_da E[delta(a) theta(b) c_+ L q] + S_db E[theta(a) delta(b) c_+ L q],
    E[theta(a) theta(b) theta(c) q] = E[q] P3 + sum_j S_dj E[delta(j) theta theta L q],     j in {a, b, c}.

A delta function restricts the average to a face of the orthant, the plane sector between two of its three edges.  Edges
are computed once for all faces, so that faces agree to rounding also where students are parallel.

Gaussian averages over sectors of a plane are exact for polynomials.  Two unit fields x, y with correlation cos(omega)
are x = rho sin(t), y = rho sin(t + omega) in polar coordinates of their plane, so a product of functions with kinks at
zero is a polynomial in each of the sectors that end at t = 0, pi - omega, pi, 2 pi - omega.  Gauss nodes along the
radius are exact there; in the angle the integrand is a trigonometric polynomial, for which Gauss-Legendre nodes reach
rounding for sectors of any width.  Nothing is singular where the fields align.
"""

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.polynomial import polynomial as poly

from ..gaussian.orthants import ORTHANTS
from ..gaussian.quadrature import gauss_hermite, legendre
from ..gaussian.two_point import SQRT_2PI
from ._pairs import conditional_modes, conditional_product, residual_correlations
from .polynomials import Polynomial


class SectorOptions(NamedTuple):
    """Tunable numbers of averages over sectors."""

    extra_nodes: int = 14  # beyond the degree: (pi degree / 4)^(2n) / (2n)! is below rounding for an angle of pi
    parallel_sine: float = 1e-8  # sine of the angle of two fields below which their difference is a rounding error


SECTORS = SectorOptions()


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
        moments = _orthant_moments(S, w, K, p, to_student, unit, triples)
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


def _orthant_moments(S, w, K, p, to_student, unit, triples):
    """E[theta(k) theta(j) c_+ Y] of unit fields for c first, second, last in each of the ``triples`` (T, 3); (T, 3)."""
    sigma = np.sqrt(np.maximum(np.diag(S)[K:], 0.0))
    quadrature = gauss_hermite(p.degree + 1)
    q = np.multiply.outer(np.array(p.coefficients), np.ones_like(sigma))
    lower = _lower(q, sigma**2)
    lowest = _lower(lower, sigma**2)
    q_mean, lower_mean = (_mean(c, np.zeros_like(sigma), sigma, quadrature) for c in (q, lower))
    r, to_d = unit[triples[:, :, None], triples[:, None]], to_student[triples, K:]
    normals, edges, y = _orthant_geometry(r, np.divide(to_d, sigma, out=np.zeros_like(to_d), where=sigma > 0.0))
    u, weight, lengths = _faces(normals, edges, len(q))
    d = sigma * (u @ y[:, None])
    rest = sigma * np.sqrt(np.maximum(1.0 - np.sum(y * y, axis=1), 0.0))[:, None, None]
    steps = np.einsum("tjm,tjp,tjpm->tm", to_d, weight, _mean(lowest, d, rest, quadrature))
    heights = u @ normals.swapaxes(1, 2)[:, None]  # the three fields on each face
    lower_means = _mean(lower, d, rest, quadrature)
    ramps = np.einsum("tjm,tjp,tjpc,tjpm->tcm", to_d, weight, heights, lower_means, optimize=True)
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
    scale = 1.0 / SQRT_2PI
    return u, scale * p, scale * opening / (2 * np.pi)


def _orthant_geometry(r, to_fields):
    """Normals (T, 3, 3) of the planes where three fields vanish, edges (T, 3, 3), loadings (T, 3, M) of other fields.

    The normals are a Cholesky factor of the correlations r; edge i lies on the two planes other than i, on the positive
    side of i.  Differences of correlations are exact near alignment, and pivots are never below
    ``ORTHANTS.min_residual_std``.
    """
    r01 = r[:, 0, 1, None]
    sign = np.where(r01 >= 0.0, 1.0, -1.0)
    s = np.maximum(np.sqrt((1.0 - r01) * (1.0 + r01)), ORTHANTS.min_residual_std)
    correlations = np.concatenate([r[:, :, 2:], to_fields], axis=2)
    first = correlations[:, 0]
    rest = np.sqrt(np.maximum((1.0 - first) * (1.0 + first), 0.0))
    second = np.clip(((correlations[:, 1] - sign * first) + (sign - r01) * first) / s, -rest, rest)
    rest = np.sqrt(np.maximum((rest - second) * (rest + second), 0.0))
    p, q, g = first[:, :1], second[:, :1], np.maximum(rest[:, :1], ORTHANTS.min_residual_std)
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


def _mean(c, x, s, quadrature):
    """E[q(x + s xi)] for polynomials q of coefficients c (degree + 1, M), at points x (..., M)."""
    return sum(p * poly.polyval(x + s * xi, c, tensor=False) for xi, p in zip(*quadrature, strict=True))


@cache
def radial(degree):
    """Nodes and weights of int_0^inf f(r) r exp(-r^2 / 2) dr, exact for polynomials of this degree.

    Recurrence coefficients from 400 Gauss-Legendre nodes (Stieltjes), then the eigenvalues of the Jacobi matrix.
    """
    n = degree // 2 + 1
    x, p = legendre(400)
    r = 20.0 * x
    p = 20.0 * p * r * np.exp(-0.5 * r * r)
    before, now = np.zeros_like(r), np.full_like(r, 1 / np.sqrt(p.sum()))
    diagonal, off_diagonal = np.empty(n), np.empty(n)
    for k in range(n):
        diagonal[k] = p @ (r * now * now)
        rest = (r - diagonal[k]) * now - (off_diagonal[k - 1] * before if k else 0.0)
        off_diagonal[k] = np.sqrt(p @ (rest * rest))
        before, now = now, rest / off_diagonal[k]
    side = off_diagonal[:-1]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    return nodes, p.sum() * vectors[0] ** 2


def sector(start, end, degree):
    """Radius, angle and weights (..., points) with sum p f = E[f(u) 1(start < angle < end)], u ~ N(0, 1)."""
    rho, q = radial(degree)
    x, p = legendre(degree + SECTORS.extra_nodes)
    width = np.asarray(end - start)[..., None]
    t = np.asarray(start)[..., None] + width * np.repeat(x, len(rho))
    return np.broadcast_to(np.tile(rho, len(x)), t.shape), t, width * np.outer(p, q).ravel() / (2 * np.pi)


def angle(correlation):
    """Angle between two unit fields."""
    return np.arctan2(np.sqrt(np.maximum((1.0 - correlation) * (1.0 + correlation), 0.0)), correlation)


def wedge(correlation, degree):
    """Points and weights of E[theta(x) theta(y) f]: unit fields x, y, the component of y orthogonal to x, weights."""
    omega = angle(correlation)
    rho, t, p = sector(np.zeros_like(omega), np.pi - omega, degree)
    return rho * np.sin(t), rho * np.sin(t + omega[..., None]), rho * np.cos(t), p


def plane(correlation, degree):
    """Points and weights as of ``wedge``, in all four sectors: E[f] for f with kinks at x = 0 and y = 0."""
    omega, zero = angle(correlation), np.zeros_like(correlation)
    ends = (zero, np.pi - omega, zero + np.pi, 2 * np.pi - omega, zero + 2 * np.pi)
    sectors = [sector(*pair, degree) for pair in zip(ends[:-1], ends[1:], strict=True)]
    rho, t, p = (np.concatenate(column, axis=-1) for column in zip(*sectors, strict=True))
    return rho * np.sin(t), rho * np.sin(t + omega[..., None]), rho * np.cos(t), p


def loadings(first, second, correlation):
    """Loadings of fields on x and on the direction orthogonal to x, from covariances with the unit fields x and y."""
    s = np.sin(angle(correlation))
    return first, np.divide(second - correlation * first, s, out=np.zeros_like(first), where=s > SECTORS.parallel_sine)
