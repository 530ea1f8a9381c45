"""Gaussian averages over sectors of a plane, exact for polynomials: what kinks at zero leave of two fields.

Two unit fields x, y with correlation cos(omega) are x = rho sin(t), y = rho sin(t + omega) in polar coordinates of
their plane, so a product of functions with kinks at zero is a polynomial in each of the sectors that end at
t = 0, pi - omega, pi, 2 pi - omega.  Gauss nodes along the radius are exact there; in the angle the integrand is a
trigonometric polynomial, for which Gauss-Legendre nodes reach rounding however narrow the sector.  Nothing is singular
where the fields align.
"""

from functools import cache

import numpy as np

from ..gaussian.rules import legendre

EXTRA = 14  # nodes beyond the degree: (pi degree / 4)^(2n) / (2n)! is below rounding for an angle of pi
# Sine of the angle of two fields. Below, they count as one: their difference has no digits to divide by.
DEPENDENT = 1e-8


@cache
def radial(degree):
    """Nodes and weights of int_0^inf f(r) r exp(-r^2 / 2) dr, exact for polynomials of this degree.

    Recurrence coefficients from a fine rule (Stieltjes), then the eigenvalues of the Jacobi matrix.
    """
    n = degree // 2 + 1
    x, p = legendre(400)
    r = 20.0 * x
    p = 20.0 * p * r * np.exp(-0.5 * r * r)
    before, now = np.zeros_like(r), np.full_like(r, 1 / np.sqrt(p.sum()))
    diagonal, side = np.empty(n), np.empty(n)
    for k in range(n):
        diagonal[k] = p @ (r * now * now)
        rest = (r - diagonal[k]) * now - (side[k - 1] * before if k else 0.0)
        side[k] = np.sqrt(p @ (rest * rest))
        before, now = now, rest / side[k]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side[:-1], 1) + np.diag(side[:-1], -1))
    return nodes, p.sum() * vectors[0] ** 2


def sector(start, end, degree):
    """Radius, angle and weights (..., points) with sum p f = E[f(u) 1(start < angle < end)], u ~ N(0, 1)."""
    rho, q = radial(degree)
    x, p = legendre(degree + EXTRA)
    width = np.asarray(end - start)[..., None]
    t = np.asarray(start)[..., None] + width * np.repeat(x, len(rho))
    return np.broadcast_to(np.tile(rho, len(x)), t.shape), t, width * np.outer(p, q).ravel() / (2 * np.pi)


def angle(correlation):
    """Angle between two unit fields."""
    return np.arctan2(np.sqrt(np.maximum((1.0 - correlation) * (1.0 + correlation), 0.0)), correlation)


def wedge(correlation, degree):
    """Unit fields x, y > 0, the part of y across x, and weights: E[theta(x) theta(y) f] as a sum over points."""
    omega = angle(correlation)
    rho, t, p = sector(np.zeros_like(omega), np.pi - omega, degree)
    return rho * np.sin(t), rho * np.sin(t + omega[..., None]), rho * np.cos(t), p


def plane(correlation, degree):
    """The same for all four sectors: E[f] for f with kinks at x = 0 and y = 0."""
    omega, zero = angle(correlation), np.zeros_like(correlation)
    ends = (zero, np.pi - omega, zero + np.pi, 2 * np.pi - omega, zero + 2 * np.pi)
    sectors = [sector(*pair, degree) for pair in zip(ends[:-1], ends[1:], strict=True)]
    rho, t, p = (np.concatenate(column, axis=-1) for column in zip(*sectors, strict=True))
    return rho * np.sin(t), rho * np.sin(t + omega[..., None]), rho * np.cos(t), p


def loadings(first, second, correlation):
    """Loadings of fields on x and across it, from their covariances with the unit fields x and y."""
    s = np.sin(angle(correlation))
    across = np.divide(second - correlation * first, s, out=np.zeros_like(first), where=s > DEPENDENT)
    return first, across
