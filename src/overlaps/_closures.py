"""Closure kernels: covariance S of all local fields z = (lambda, nu) -> A, B, C, dv and eps_g.

``w = (v, -v*)`` are the signed readout weights; the error of a sample is ``Delta = sum_c w_c g_c(z_c) - noise xi``.
Everything of first order in eta is one object, the mean Hessian of the loss Delta^2 / 2 in the space of the fields,

    H_ij = E[d^2 loss / dz_i dz_j] = w_i w_j E[g_i' g_j'] + [i = j] w_i sum_c w_c E[g_i'' g_c],

because Stein's lemma gives A = E[dF/dlambda] = -eta H_KK and B = E[dF/dnu] = -eta H_KM.  Only C = E[F F^T] needs
more than two fields at a time, so each student activation brings a kernel for C and nothing else.  ``teacher`` is the
integer code of the teacher's activation (``_integrals``).
"""

import numpy as np

from ._erf import erf_C
from ._integrals import ERF, LINEAR, QUADRATIC, two_point
from ._jit import jit


@jit
def mean_hessian(S, w, K, student, teacher, H, gradient):
    """Fill H (n, n) and gradient_i = sum_c w_c E[g_i g_c] (n,); return eps_g = (1/2) sum_i w_i gradient_i."""
    n = S.shape[0]
    for i in range(n):
        gradient[i] = 0.0
        H[i, i] = 0.0
    for i in range(n):
        f = student if i < K else teacher
        gg, dgdg, d2g_g, _ = two_point(f, f, S[i, i], S[i, i], S[i, i])
        H[i, i] += w[i] * w[i] * (dgdg + d2g_g)
        gradient[i] += w[i] * gg
        for j in range(i):
            h = student if j < K else teacher
            gg, dgdg, d2g_g, g_d2g = two_point(f, h, S[i, i], S[j, j], S[i, j])
            wij = w[i] * w[j]
            H[i, j] = H[j, i] = wij * dgdg
            H[i, i] += wij * d2g_g
            H[j, j] += wij * g_d2g
            gradient[i] += w[j] * gg
            gradient[j] += w[i] * gg
    eps_g = 0.0
    for i in range(n):
        eps_g += 0.5 * w[i] * gradient[i]
    return eps_g


@jit
def first_order(S, w, K, student, teacher, eta, eta_v, A, B, dv, H):
    """A = -eta H_KK, B = -eta H_KM, dv_k = -eta_v E[g_k Delta].  Returns eps_g.

    H (n + 1, n) is workspace: the mean Hessian, with E[g_i Delta] in its last row (allocations are what costs here).
    """
    n = S.shape[0]
    gradient = H[n]
    eps_g = mean_hessian(S, w, K, student, teacher, H, gradient)
    for k in range(K):
        dv[k] = -eta_v * gradient[k]
        for j in range(K):
            A[k, j] = -eta * H[k, j]
        for j in range(K, n):
            B[k, j - K] = -eta * H[k, j]
    return eps_g


@jit
def linear_C(w, K, eta, noise, eps_g, C):
    """Since g' = 1, E[F_k F_l] = eta^2 v_k v_l E[Delta^2] for any teacher."""
    for k in range(K):
        for j in range(K):
            C[k, j] = eta * eta * w[k] * w[j] * (2 * eps_g + noise * noise)


@jit
def quadratic_C(S, w, K, H, eta, noise, eps_g, C):
    """C = 4 eta^2 diag(v) [ (2 eps_g + noise^2) S + 2 S H S ]_KK diag(v), for any teacher: Stein's lemma twice."""
    n = S.shape[0]
    SH = np.zeros((K, n))
    for k in range(K):
        for i in range(n):
            for j in range(n):
                SH[k, j] += S[k, i] * H[i, j]
    for k in range(K):
        for j in range(k + 1):
            total = (2 * eps_g + noise * noise) * S[k, j]
            for i in range(n):
                total += 2 * SH[k, i] * S[i, j]
            C[k, j] = C[j, k] = 4 * eta * eta * w[k] * w[j] * total


@jit
def linear_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    H = np.empty((S.shape[0] + 1, S.shape[0]))
    eps_g = first_order(S, w, K, LINEAR, teacher, eta, eta_v, A, B, dv, H)
    if second_order:
        linear_C(w, K, eta, noise, eps_g, C)
    return eps_g


@jit
def quadratic_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    H = np.empty((S.shape[0] + 1, S.shape[0]))
    eps_g = first_order(S, w, K, QUADRATIC, teacher, eta, eta_v, A, B, dv, H)
    if second_order:
        quadratic_C(S, w, K, H, eta, noise, eps_g, C)
    return eps_g


@jit
def erf_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    H = np.empty((S.shape[0] + 1, S.shape[0]))
    eps_g = first_order(S, w, K, ERF, teacher, eta, eta_v, A, B, dv, H)
    if second_order:
        erf_C(S, w, K, teacher, eta, noise, C)
    return eps_g
