"""Linear students: closure, derivatives, differences."""

import numpy as np

from .._base.jit import jit
from ..gaussian.two_point import LINEAR
from ._first_order import closure_cost, eps_derivatives, first_order, first_order_derivatives, readout_product


@jit
def linear_C(w, K, eta, noise, eps_g, C):
    """Since g' = 1, E[F_k F_l] = eta^2 v_k v_l E[Delta^2] for any teacher."""
    for k in range(K):
        for j in range(K):
            C[k, j] = eta * eta * w[k] * w[j] * (2 * eps_g + noise * noise)


@jit(cost=closure_cost)
def linear_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    eps_g, _ = first_order(S, w, K, LINEAR, teacher, eta, eta_v, A, B, dv)
    if second_order:
        linear_C(w, K, eta, noise, eps_g, C)
    return eps_g


@jit
def linear_C_derivatives(S, w, K, teacher, eta, noise, dC):
    """X_kl = 2 eps_g + noise^2."""
    deps = np.empty(dC.shape[0])
    eps_g = eps_derivatives(S, w, K, LINEAR, teacher, deps)
    X = np.full((K, K), 2 * eps_g + noise * noise)
    for u in range(deps.size):
        dC[u] = 2 * deps[u]
    readout_product(X, w, K, S.shape[0], eta * eta, dC)


@jit(cost=lambda S, *_: 8e-6 * len(S) ** 2)
def linear_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    first_order_derivatives(S, w, K, LINEAR, teacher, eta, eta_v, dA, dB, ddv)
    if second_order:
        linear_C_derivatives(S, w, K, teacher, eta, noise, dC)


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
