"""Exact derivatives of the closure with respect to (Q, R, v) for erf, linear and quadratic students, any teacher.

C_kl = eta^2 v_k v_l X_kl with X_kl = E[g_k' g_l' (Delta^2 + noise^2)].  A kernel fills dX/du; the product rule for the
readout weights is common to all.  Numbering of the unknowns u and first-order part: ``_derivatives``.
"""

import math

import numpy as np

from ._closures import mean_hessian
from ._derivatives import eps_derivatives, first_order_derivatives, loss_derivatives, unknown_S, unknown_v
from ._erf import E, F, tilt
from ._integrals import ERF, LINEAR, PI, QUADRATIC
from ._jit import jit


@jit
def readout_product(X, w, K, n, scale, dX):
    """Turn dX/du (d_g, K, K), in place, into the derivatives of scale v_k v_l X_kl."""
    for u in range(dX.shape[0]):
        for k in range(K):
            for j in range(K):
                dX[u, k, j] *= scale * w[k] * w[j]
    for k in range(K):
        u = unknown_v(k, K, n)
        for j in range(K):
            dX[u, k, j] += scale * w[j] * X[k, j]
            dX[u, j, k] += scale * w[j] * X[j, k]


@jit
def linear_C_derivatives(S, w, K, teacher, eta, noise, dC):
    """X_kl = 2 eps_g + noise^2."""
    deps = np.empty(dC.shape[0])
    eps_g = eps_derivatives(S, w, K, LINEAR, teacher, deps)
    X = np.full((K, K), 2 * eps_g + noise * noise)
    for u in range(deps.size):
        dC[u] = 2 * deps[u]
    readout_product(X, w, K, S.shape[0], eta * eta, dC)


@jit
def _add_sandwich_derivatives(S, SH, K, where, value, count, dX):
    """Add the derivatives of (S H S)_KK, given SH (K, n) and the list of dH/du."""
    n = S.shape[0]
    for e in range(count):
        u, i, j = where[e, 0], where[e, 1], where[e, 2]
        x = value[e] if i != j else 0.5 * value[e]
        for k in range(K):
            for m in range(K):
                dX[u, k, m] += x * (S[k, i] * S[j, m] + S[k, j] * S[i, m])
    for i in range(K):
        for j in range(i, n):
            u = unknown_S(i, j, K, n)
            for k in range(K):
                dX[u, k, i] += SH[k, j]
                dX[u, i, k] += SH[k, j]
                if i < j < K:
                    dX[u, k, j] += SH[k, i]
                    dX[u, j, k] += SH[k, i]


@jit
def quadratic_C_derivatives(S, w, K, teacher, eta, noise, where, value, count, dC):
    """X = (2 eps_g + noise^2) S + 2 S H S, up to the factor g'' g'' = 4; where, value: the list of dH/du."""
    n = S.shape[0]
    H, gradient, deps = np.empty((n, n)), np.empty(n), np.empty(dC.shape[0])
    square = 2 * mean_hessian(S, w, K, QUADRATIC, teacher, H, gradient) + noise * noise
    loss_derivatives(H, gradient, K, deps)
    SH, X = np.zeros((K, n)), np.empty((K, K))
    for k in range(K):
        for i in range(n):
            for j in range(n):
                SH[k, j] += S[k, i] * H[i, j]
    dC[:] = 0.0
    _add_sandwich_derivatives(S, SH, K, where, value, count, dC)
    for k in range(K):
        for j in range(K):
            X[k, j] = square * S[k, j]
            for i in range(n):
                X[k, j] += 2 * SH[k, i] * S[i, j]
            for u in range(deps.size):
                dC[u, k, j] = 2 * (dC[u, k, j] + deps[u] * S[k, j])
            dC[unknown_S(min(k, j), max(k, j), K, n), k, j] += square
    readout_product(X, w, K, n, 4 * eta * eta, dC)


@jit(inline=True)
def _tilted_covariance(S, a, b, work, St):
    """Fill the covariance St of the fields under the measure g'_a g'_b N(0, S); return det (``_erf``)."""
    det = tilt(S, a, b, work)
    for c in range(S.shape[0]):
        for d in range(S.shape[0]):
            St[c, d] = S[c, d] - work[E, c] * work[E, d] - work[F, c] * work[F, d]
    return det


@jit(inline=True)
def _pull_back(St, H, a, b, square, p):
    """Overwrite H by (1 - U St) H (1 - St U) - square (U - U St U), U = e_a e_a^T + e_b e_b^T (twice that if a = b).

    With St = (1 + S U)^-1 S: tr(H dSt) = tr((1 - U St) H (1 - St U) dS) and d log det(1 + S U) = tr((U - U St U) dS).
    """
    n = St.shape[0]
    pair = (a, b)
    for m in range(2):
        for c in range(n):
            p[m, c] = 0.0
            for d in range(n):
                p[m, c] += H[c, d] * St[d, pair[m]]
    for m in range(2):
        c = pair[m]
        for d in range(n):
            H[c, d] -= p[m, d]
            H[d, c] -= p[m, d]
        H[c, c] -= square
    for m in range(2):
        for c in pair:
            d = pair[m]
            H[c, d] += square * St[c, d]
            for i in range(n):
                H[c, d] += St[c, i] * p[m, i]


@jit
def erf_C_derivatives(S, w, K, teacher, eta, noise, dC):
    """X_ab = (2 / pi) det^(-1/2) (2 eps_g(St) + noise^2): d eps_g = tr(H dSt) / 2; St, det are rational in S."""
    n = S.shape[0]
    work, gradient, p = np.empty((2, n)), np.empty(n), np.empty((2, n))
    St, H, X = np.empty((n, n)), np.empty((n, n)), np.empty((K, K))
    for a in range(K):
        for b in range(a + 1):
            c = 2 / (PI * math.sqrt(_tilted_covariance(S, a, b, work, St)))
            square = 2 * mean_hessian(St, w, K, ERF, teacher, H, gradient) + noise * noise
            _pull_back(St, H, a, b, 0.5 * square, p)
            X[a, b] = X[b, a] = c * square
            for i in range(K):
                u = unknown_v(i, K, n)
                dC[u, a, b] = dC[u, b, a] = 2 * c * gradient[i]
                for j in range(i, n):
                    u = unknown_S(i, j, K, n)
                    dC[u, a, b] = dC[u, b, a] = c * H[i, j] * (1.0 if i == j else 2.0)
    readout_product(X, w, K, n, eta * eta, dC)


@jit
def linear_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    size = 15 * K * S.shape[0]
    where, value = np.empty((size, 3), np.int64), np.empty(size)
    first_order_derivatives(S, w, K, LINEAR, teacher, eta, eta_v, dA, dB, ddv, where, value)
    if second_order:
        linear_C_derivatives(S, w, K, teacher, eta, noise, dC)


@jit
def quadratic_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    size = 15 * K * S.shape[0]
    where, value = np.empty((size, 3), np.int64), np.empty(size)
    count = first_order_derivatives(S, w, K, QUADRATIC, teacher, eta, eta_v, dA, dB, ddv, where, value)
    if second_order:
        quadratic_C_derivatives(S, w, K, teacher, eta, noise, where, value, count, dC)


@jit
def erf_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    size = 15 * K * S.shape[0]
    where, value = np.empty((size, 3), np.int64), np.empty(size)
    first_order_derivatives(S, w, K, ERF, teacher, eta, eta_v, dA, dB, ddv, where, value)
    if second_order:
        erf_C_derivatives(S, w, K, teacher, eta, noise, dC)
