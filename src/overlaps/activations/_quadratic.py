"""Linear and quadratic students: closures, derivatives, differences."""

import numpy as np

from .._base.jit import jit
from ..gaussian.two_point import LINEAR, QUADRATIC
from ._first_order import (
    closure_cost,
    derivatives_cost,
    eps_derivatives,
    first_order,
    first_order_derivatives,
    loss_derivatives,
    mean_hessian,
    readout_product,
    unknown_S,
)


@jit(cost=closure_cost)
def linear_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    eps_g, _ = first_order(S, w, K, LINEAR, teacher, eta, eta_v, A, B, dv)
    if second_order:  # since g' = 1, E[F_k F_l] = eta^2 v_k v_l E[Delta^2] for any teacher
        for k in range(K):
            for j in range(K):
                C[k, j] = eta * eta * w[k] * w[j] * (2 * eps_g + noise * noise)
    return eps_g


@jit(cost=lambda S, *_: 8e-6 * len(S) ** 2)
def linear_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    first_order_derivatives(S, w, K, LINEAR, teacher, eta, eta_v, dA, dB, ddv)
    if second_order:  # C = eta^2 v_k v_l X, X_kl = 2 eps_g + noise^2
        deps = np.empty(dC.shape[0])
        X = np.full((K, K), 2 * eps_derivatives(S, w, K, LINEAR, teacher, deps) + noise * noise)
        for u in range(deps.size):
            dC[u] = 2 * deps[u]
        readout_product(X, w, K, S.shape[0], eta * eta, dC)


@jit
def linear_differences(Z, v, scale, t, weight, eta, second_order, A, G, C):
    """g(x) = x: Delta / x = sum_c v_c d_c."""
    K = v.size
    square = 0.0
    for k in range(K):
        for j in range(K):
            square += v[k] * v[j] * Z[k, j]
    for k in range(K):
        for j in range(K):
            A[k, j] = -eta * v[k] * v[j]
            G[k, j] = 0.0
            C[k, j] = eta * eta * v[k] * v[j] * square if second_order else 0.0
    return square / 2


@jit
def _half_sandwich(S, H, K):
    """(S H)_K, shape (K, n)."""
    SH = np.zeros((K, S.shape[0]))
    for k in range(K):
        for i in range(S.shape[0]):
            for j in range(S.shape[0]):
                SH[k, j] += S[k, i] * H[i, j]
    return SH


@jit
def quadratic_C(S, w, K, H, eta, noise, eps_g, C):
    """C = 4 eta^2 diag(v) [ (2 eps_g + noise^2) S + 2 S H S ]_KK diag(v), for any teacher: Stein's lemma twice."""
    n = S.shape[0]
    SH = _half_sandwich(S, H, K)
    for k in range(K):
        for j in range(k + 1):
            # E[z_k z_j Delta^2]: the two fields are paired with each other, or each with Delta, in two ways.
            total = (2 * eps_g + noise * noise) * S[k, j]
            for i in range(n):
                total += 2 * SH[k, i] * S[i, j]
            C[k, j] = C[j, k] = 4 * eta * eta * w[k] * w[j] * total


@jit(cost=closure_cost)
def quadratic_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    eps_g, H = first_order(S, w, K, QUADRATIC, teacher, eta, eta_v, A, B, dv)
    if second_order:
        quadratic_C(S, w, K, H, eta, noise, eps_g, C)
    return eps_g


@jit
def _add_sandwich_derivatives(S, SH, K, where, value, count, dX):
    """Add the derivatives of (S H S)_KK, given SH (K, n) and the list of dH/du."""
    n = S.shape[0]
    for e in range(count):
        u, i, j = where[e, 0], where[e, 1], where[e, 2]
        # The list contains H_ij, i <= j, once; the sum below counts diagonal entries twice.
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
    SH, X = _half_sandwich(S, H, K), np.empty((K, K))
    dC[:] = 0.0
    _add_sandwich_derivatives(S, SH, K, where, value, count, dC)
    for k in range(K):
        for j in range(K):
            X[k, j] = square * S[k, j]
            for i in range(n):
                X[k, j] += 2 * SH[k, i] * S[i, j]
            for u in range(deps.size):
                # The factor 2 of 2 eps_g S and of 2 S H S.
                dC[u, k, j] = 2 * (dC[u, k, j] + deps[u] * S[k, j])
            dC[unknown_S(min(k, j), max(k, j), K, n), k, j] += square
    readout_product(X, w, K, n, 4 * eta * eta, dC)


@jit(cost=derivatives_cost)
def quadratic_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    where, value, count = first_order_derivatives(S, w, K, QUADRATIC, teacher, eta, eta_v, dA, dB, ddv)
    if second_order:
        quadratic_C_derivatives(S, w, K, teacher, eta, noise, where, value, count, dC)


@jit
def quadratic_differences(Z, v, scale, t, weight, eta, second_order, A, G, C):
    """g(x) = x^2: Delta / x = sum_c v_c d_c b_c with b = lambda + a, a quadratic form in z = (d, b); Isserlis."""
    K = v.size
    S = np.empty((2 * K, 2 * K))  # covariance of z
    y = np.empty((K, 2 * K))  # E[lambda_k z]
    mean = 0.0
    for c in range(K):
        for j in range(K):
            dd, da, ad, aa = Z[c, j], Z[c, K + j], Z[j, K + c], Z[K + c, K + j]
            S[c, j] = dd
            S[c, K + j] = S[K + j, c] = 2 * da + scale * dd
            S[K + c, K + j] = 4 * aa + 2 * scale * (da + ad) + scale * scale * dd
            y[c, j] = ad + scale * dd
            y[c, K + j] = 2 * aa + scale * (ad + 2 * da) + scale * scale * dd
        mean += v[c] * S[c, K + c]
    square = mean * mean
    for c in range(K):
        for j in range(K):
            square += v[c] * v[j] * (S[c, j] * S[K + c, K + j] + S[c, K + j] * S[K + c, j])
    for k in range(K):
        for j in range(K):
            Skj = Z[K + k, K + j] + scale * (Z[k, K + j] + Z[j, K + k]) + scale * scale * Z[k, j]
            A[k, j] = -4 * eta * v[k] * v[j] * Skj
            G[k, j] = -4 * eta * v[k] * v[j] * y[k, j]
            if second_order:
                # E[z z^T (z^T N z)^2] with N coupling d_c and b_c by v_c / 2; 2 N y_k = (v y_b, v y_d)
                single, double = 0.0, 0.0
                for c in range(K):
                    single += v[c] * (y[k, c] * y[j, K + c] + y[k, K + c] * y[j, c])
                    for i in range(K):
                        vv = v[c] * v[i]
                        double += vv * y[k, K + c] * S[c, i] * y[j, K + i] + vv * y[k, c] * S[K + c, K + i] * y[j, i]
                        double += vv * (y[k, K + c] * S[c, K + i] * y[j, i] + y[k, c] * S[K + c, i] * y[j, K + i])
                C[k, j] = 4 * eta * eta * v[k] * v[j] * (square * Skj + 2 * mean * single + 2 * double)
        A[k, k] -= 2 * eta * scale * v[k] * mean
        G[k, k] -= 2 * eta * v[k] * mean
    return square / 2
