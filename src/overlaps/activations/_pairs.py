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
    xi, q = inner
    projector = hermite(xi, modes) * q[:, None]
    square = np.empty((K, K))
    for k in range(K):
        for j in range(k + 1):
            alpha, beta, residual = _condition(S, k, j)
            u1, u2 = u[:, None], (u if np.any(beta) else np.zeros(1))
            p2 = p if np.any(beta) else np.ones(1)
            weight = (p[:, None] * p2).ravel()
            mean = (alpha * u1[..., None] + beta * u2[:, None]).reshape(-1, len(w))
            error2 = conditional_error(mean, residual, w, K, g, h, xi, projector)
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


def conditional_error(mean, residual, w, K, g, h, xi, projector):
    """E[Delta^2 | point] at points with conditional means ``mean`` (points, n), students g and teachers h."""
    s, rho = residual_correlations(residual)
    total = np.zeros(len(mean))
    z = mean[..., None] + s[:, None] * xi
    outputs = np.concatenate([g(z[:, :K]), h(z[:, K:])], axis=1)
    y = (outputs * w[:, None]) @ projector
    power = np.ones_like(rho)
    for r in range(projector.shape[1]):
        total += np.einsum("pc,pc->p", y[:, :, r] @ power, y[:, :, r])
        power = power * rho
    return total


def midpoint_pair_square(size, S, w, K, student, teacher):
    """The pair rule for smooth functions."""
    outer, inner, modes = size
    return pair_square(S, w, K, student.g, student.dg, teacher.g, widening(outer), widening(inner), modes)
