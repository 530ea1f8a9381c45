r"""Four-point integrals pair by pair: condition on the fields of the two slopes, expand the rest in Hermite modes.

Given z_k and z_l, the other fields are Gaussian with means m_c and a covariance that does not depend on z_k, z_l.
With residual standard deviations s_c, residual correlations rho_cd and orthonormal Hermite polynomials he_r (Mehler's
formula),

    E[Delta^2 | z_k, z_l] = sum_r sum_cd rho_cd^r y_cr y_dr,      y_cr = w_c E_xi[he_r(xi) g_c(m_c + s_c xi)],

so that two outer and one inner dimension are integrated for any number of units.  For polynomials all sums are
finite and Gauss-Hermite nodes make the result exact.  Each term is positive semi-definite and vanishes with Delta.
"""

import math

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import hermite, widening
from ..gaussian.tables import read
from ..gaussian.two_point import SQRT_2PI

# Outer nodes, inner nodes and Hermite modes of the quadratures that are tried one after the other.
PAIR_SIZES = ((24, 32, 16), (32, 40, 24), (48, 48, 32), (64, 64, 40), (96, 96, 64))


@jit(fast=True)
def fill_pairs(S, w, K, student, teacher, u, p, xi, q, R, regular, square):
    """Fill E[g_k' g_l' Delta^2] (K, K) with outer nodes (u, p), inner nodes (xi, q) and R Hermite modes.

    If ``regular``, the nodes are equidistant.  The inner integrals at all alpha u_a + beta u_b then sample a field on
    one lattice for each b, and points (u_a, u_b) outside a circle are left out because their weights are below the
    truncation error.
    """
    n, one_node, one_weight = w.size, np.zeros(1), np.ones(1)
    alpha, beta, spread, rho = np.empty(n), np.empty(n), np.empty(n), np.empty((n, n))
    for k in range(K):
        for j in range(k + 1):
            split(S, k, j, alpha, beta, spread, rho)
            power = powers(rho, R)
            v, r = (u, p) if np.any(beta != 0.0) else (one_node, one_weight)
            modes, known = np.zeros((n, u.size, v.size, R)), np.zeros((u.size, v.size))
            for c in range(n):
                f = student if c < K else teacher
                if spread[c] == 0.0:
                    for a in range(u.size):
                        for b in range(v.size):
                            known[a, b] += w[c] * read(f, 0, alpha[c] * u[a] + beta[c] * v[b])
                elif regular and v.size > 1 and abs(alpha[c]) * (u[1] - u[0]) < xi.size * spread[c] * (xi[1] - xi[0]):
                    lattice_modes(f, w[c], alpha[c], beta[c], spread[c], u, v, xi, modes[c])
                else:
                    point_modes(f, w[c], alpha[c], beta[c], spread[c], u, v, xi, q, modes[c])
            total = 0.0
            for a in range(u.size):
                for b in range(v.size):
                    if regular and u[a] * u[a] + v[b] * v[b] > u[0] * u[0]:
                        continue
                    weight = p[a] * r[b] * read(student, 1, alpha[k] * u[a] + beta[k] * v[b])
                    weight *= read(student, 1, alpha[j] * u[a] + beta[j] * v[b])
                    total += weight * mehler_square(known[a, b], modes[:, a, b], spread, power)
            square[k, j] = square[j, k] = total


@jit(fast=True)
def point_modes(f, w, alpha, beta, spread, u, v, xi, q, modes):
    """Fill modes[a, b, r] = w sum_i q_i he_r(xi_i) f(alpha u_a + beta v_b + spread xi_i)."""
    values, weights = np.empty((v.size, xi.size)), np.empty((modes.shape[2], xi.size))
    hermite_weights(xi, q, weights)
    for a in range(u.size):
        for b in range(v.size):
            for i in range(xi.size):
                values[b, i] = w * read(f, 0, alpha * u[a] + beta * v[b] + spread * xi[i])
        np.dot(values, weights.T, modes[a])


@jit(fast=True)
def lattice_modes(f, w, alpha, beta, spread, u, v, xi, modes):
    """The integrals of ``point_modes`` from samples on one lattice for each b.

    The position of the lattice relative to the nodes depends on u_a, and so do the weights.  The sum extends one
    standard deviation beyond xi on both sides, so that points which enter or leave have negligible weight.
    """
    step = xi[1] - xi[0]
    wide = xi.size + math.ceil(2 / step) + 2
    half, ratio = 0.5 * (wide - 1) * step, abs(alpha) * (u[1] - u[0]) / (spread * step)
    lowest = min(alpha * u[0], alpha * u[u.size - 1]) - spread * half
    samples = np.empty((v.size, wide + int(ratio * (u.size - 1)) + 1))
    for b in range(v.size):
        for i in range(samples.shape[1]):
            samples[b, i] = w * read(f, 0, lowest + beta * v[b] + i * spread * step)
    values, weights = np.empty((v.size, wide)), np.empty((modes.shape[2], wide))
    x, q = np.empty(wide), np.empty(wide)
    for a in range(u.size):
        at = ratio * (a if alpha > 0.0 else u.size - 1 - a)
        start = int(at)
        for i in range(wide):
            x[i] = i * step - half - (at - start) * step
            q[i] = step * math.exp(-0.5 * x[i] * x[i]) / SQRT_2PI
        for b in range(v.size):
            for i in range(wide):
                values[b, i] = samples[b, start + i]
        hermite_weights(x, q, weights)
        np.dot(values, weights.T, modes[a])


@jit(fast=True)
def hermite_weights(x, q, weights):
    """Fill weights[r, i] = q_i he_r(x_i)."""
    for i in range(q.size):
        weights[0, i] = q[i]
    for r in range(1, weights.shape[0]):
        root, over = math.sqrt(r - 1), 1 / math.sqrt(r)
        now, before = weights[r - 1], weights[max(r - 2, 0)]
        for i in range(q.size):
            weights[r, i] = (x[i] * now[i] - root * before[i]) * over


@jit
def powers(rho, R):
    """2 rho_cd^r, c != d, and 1 for c = d, shape (n, n, R)."""
    n = rho.shape[0]
    power = np.ones((n, n, R))
    for c in range(n):
        for d in range(c):
            power[c, d, 0] = 2.0
            for r in range(1, R):
                power[c, d, r] = rho[c, d] * power[c, d, r - 1]
    return power


@jit(fast=True)
def mehler_square(known, y, spread, power):
    """sum_r sum_cd rho_cd^r y_cr y_dr; ``known`` is the sum of the outputs of fields without spread."""
    mean, total = known, 0.0
    for c in range(spread.size):
        if spread[c] > 0.0:
            mean += y[c, 0]
            for d in range(c + 1):
                if spread[d] > 0.0:
                    for r in range(1, y.shape[1]):
                        total += power[c, d, r] * y[c, r] * y[d, r]
    return mean * mean + total


@jit
def split(S, k, j, alpha, beta, spread, rho):
    """Fill loadings alpha, beta (n,) on whitened (z_k, z_j), and deviations (n,) and correlations of the residuals."""
    n = S.shape[0]
    for c in range(n):
        alpha[c] = S[c, k] / math.sqrt(S[k, k]) if S[k, k] > 0.0 else 0.0
    pivot = S[j, j] - alpha[j] * alpha[j]
    for c in range(n):
        beta[c] = (S[c, j] - alpha[j] * alpha[c]) / math.sqrt(pivot) if pivot > 4e-16 * n * S[j, j] else 0.0
    for c in range(n):
        spread[c] = math.sqrt(max(S[c, c] - alpha[c] * alpha[c] - beta[c] * beta[c], 0.0))
    spread[k] = spread[j] = 0.0
    for c in range(n):
        for d in range(n):
            rho[c, d] = 0.0
            if spread[c] > 0.0 and spread[d] > 0.0:
                left = S[c, d] - alpha[c] * alpha[d] - beta[c] * beta[d]
                rho[c, d] = 1.0 if c == d else min(max(left / (spread[c] * spread[d]), -1.0), 1.0)


def covariance(S):
    """S with negative eigenvalues set to zero, because conditioning on nearly dependent fields amplifies them."""
    values, vectors = np.linalg.eigh(S)
    return S if values[0] >= 0 else (vectors * np.maximum(values, 0.0)) @ vectors.T


def residual_correlations(residual):
    """Standard deviations (..., n) and correlations (..., n, n) of a covariance; 0 for a field without variance."""
    s = np.sqrt(np.maximum(np.diagonal(residual, axis1=-2, axis2=-1), 0.0))
    unit = np.where(s > 0.0, s, 1.0)
    rho = np.clip(residual / (unit[..., :, None] * unit[..., None, :]), -1.0, 1.0) * (s > 0.0)[..., None]
    n = np.arange(s.shape[-1])
    rho[..., n, n] = s > 0.0
    return s, rho


def conditional_modes(mean, s, w, K, g, h, quadrature, modes):
    """w_c E_xi[he_r(xi) g_c(mean_c + s_c xi)], shape (..., points, n, modes), for students g and teachers h."""
    xi, q = quadrature
    z = mean[..., None] + s[..., None, :, None] * xi
    outputs = np.concatenate([g(z[..., :K, :]), h(z[..., K:, :])], axis=-2)
    return (outputs * w[:, None]) @ (hermite(xi, modes) * q[:, None])


def conditional_product(left, right, rho):
    """sum_r sum_cd rho_cd^r left_cr right_dr at each point: E[X Y | point] of sums X, Y with these modes."""
    total, power = 0.0, np.ones_like(rho)
    for r in range(left.shape[-1]):
        total = total + np.sum((left[..., r] @ power) * right[..., r], axis=-1)
        power = power * rho
    return total


def midpoint_quadrature(size):
    """Arguments of ``fill_pairs`` for smooth functions."""
    outer, inner, modes = size
    return *widening(outer), *widening(inner), modes, True


def pair_square(S, w, K, student, teacher, size):
    """E[g_k' g_l' Delta^2] (K, K) of functions without closed forms."""
    square = np.empty((K, K))
    fill_pairs(S, w, K, student.table.data, teacher.table.data, *midpoint_quadrature(size), square)
    return square
