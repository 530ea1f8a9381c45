r"""Four-point integrals pair by pair: condition on the fields of the two slopes, expand the rest in Hermite modes.

Given z_k and z_l, the other fields are Gaussian with means m_c and a covariance that does not depend on z_k, z_l.
With residual standard deviations s_c, residual correlations rho_cd and orthonormal Hermite polynomials he_r (Mehler's
formula),

    E[Delta^2 | z_k, z_l] = sum_r sum_cd rho_cd^r y_cr y_dr,      y_cr = w_c E_xi[he_r(xi) g_c(m_c + s_c xi)],

so that two outer and one inner dimension are integrated whatever the number of units.  For polynomials all sums are
finite and Gauss-Hermite nodes make the result exact.  Each term is positive semi-definite and vanishes with Delta.
"""

import numpy as np

from ..gaussian.rules import hermite, widening

# outer nodes, inner nodes, Hermite modes
SIZES = ((24, 32, 16), (32, 40, 24), (48, 48, 32), (64, 64, 40), (96, 96, 64))


def pair_square(S, w, K, g, dg, h, outer, inner, modes):
    """E[g_k' g_l' Delta^2] (K, K), students g, teachers h; ``outer`` and ``inner`` are rules (nodes, weights)."""
    u, p = outer
    square = np.empty((K, K))
    for k in range(K):
        for j in range(k + 1):
            alpha, beta, residual = _condition(S, k, j)
            u1, u2 = u[:, None], (u if np.any(beta) else np.zeros(1))
            p2 = p if np.any(beta) else np.ones(1)
            weight = (p[:, None] * p2).ravel()
            mean = (alpha * u1[..., None] + beta * u2[:, None]).reshape(-1, len(w))
            s, rho = residual_correlations(residual)
            y = conditional_modes(mean, s, w, K, g, h, inner, modes)
            error2 = conditional_product(y, y, rho)
            square[k, j] = square[j, k] = (weight * dg(mean[:, k]) * dg(mean[:, j])) @ error2
    return square


def _condition(S, k, j):
    """Loadings alpha, beta (n,) of all fields on whitened (z_k, z_j), and the covariance that is left."""
    alpha = S[:, k] / np.sqrt(S[k, k]) if S[k, k] > 0.0 else np.zeros(len(S))
    pivot = S[j, j] - alpha[j] ** 2
    dependent = pivot <= 4e-16 * len(S) * S[j, j]
    beta = np.zeros(len(S)) if dependent else (S[:, j] - alpha[j] * alpha) / np.sqrt(pivot)
    return alpha, beta, S - np.outer(alpha, alpha) - np.outer(beta, beta)


def residual_correlations(residual):
    """Standard deviations (..., n) and correlations (..., n, n) of a covariance; none for a field without variance."""
    s = np.sqrt(np.maximum(np.diagonal(residual, axis1=-2, axis2=-1), 0.0))
    unit = np.where(s > 0.0, s, 1.0)
    rho = np.clip(residual / (unit[..., :, None] * unit[..., None, :]), -1.0, 1.0) * (s > 0.0)[..., None]
    n = np.arange(s.shape[-1])
    rho[..., n, n] = s > 0.0
    return s, rho


def conditional_modes(mean, s, w, K, g, h, rule, modes):
    """w_c E_xi[he_r(xi) g_c(mean_c + s_c xi)], shape (..., points, n, modes), for students g and teachers h."""
    xi, q = rule
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


def midpoint_pair_square(size, S, w, K, student, teacher):
    """The pair rule for smooth functions."""
    outer, inner, modes = size
    return pair_square(S, w, K, student.g, student.dg, teacher.g, widening(outer), widening(inner), modes)
