"""Closure kernels: covariance S of all local fields z = (lambda, nu) -> A, B, C, dv and eps_g.

``w = (v, -v*)`` are the signed readout weights; the error of a sample is ``Delta = sum_c w_c g_c(z_c) - noise xi``.
The terms of first order in eta follow from the mean Hessian of the loss Delta^2 / 2 in the space of the fields,

    H_ij = E[d^2 loss / dz_i dz_j] = w_i w_j E[g_i' g_j'] + [i = j] w_i sum_c w_c E[g_i'' g_c],

because Stein's lemma gives A = E[dF/dlambda] = -eta H_KK and B = E[dF/dnu] = -eta H_KM.  Only C = E[F F^T] depends on
more than two fields at a time, so each student activation needs only a kernel for C.  ``teacher`` is the integer
code of the teacher's activation (``two_point``).
"""

import numpy as np

from .._base.jit import jit
from .._base.lazy_compilation import small
from ..gaussian.two_point import same_field, two_point, two_point_derivatives


def closure_cost(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, *_):
    """Seconds of a closure in closed form without compilation; C is a sum over pairs at most."""
    return 5e-6 + 1.2e-6 * len(S) ** 2 + (1e-6 * K**3 if second_order else 0.0)


def derivatives_cost(S, w, K, teacher, eta, eta_v, noise, second_order, *_):
    """Seconds of the derivatives of a closure without compilation."""
    return 1e-5 + 6e-6 * len(S) ** 2 + (1.5e-5 * K**4 if second_order else 0.0)


@jit(no_reference_counting=True)
def mean_hessian(S, w, K, student, teacher, H, gradient):
    """Fill H (n, n) and gradient_i = sum_c w_c E[g_i g_c] (n,); return eps_g = (1/2) sum_i w_i gradient_i."""
    n = S.shape[0]
    for i in range(n):
        gradient[i] = 0.0
        H[i, i] = 0.0
    for i in range(n):
        f = student if i < K else teacher
        # For a field with itself the entry is E[g' g'] + E[g'' g]; for pairs these terms belong to three entries.
        gg, dgdg, d2g_g, _ = two_point(f, f, S[i, i], S[i, i], S[i, i])
        H[i, i] += w[i] * w[i] * (dgdg + d2g_g)
        gradient[i] += w[i] * gg
        for j in range(i):
            h = student if j < K else teacher
            gg, dgdg, d2g_g, g_d2g = two_point(f, h, S[i, i], S[j, j], S[i, j])
            wij = w[i] * w[j]
            H[i, j] = H[j, i] = wij * dgdg
            # The pair also contributes its terms E[g_i'' g_j], E[g_i g_j''] to the diagonal entries.
            H[i, i] += wij * d2g_g
            H[j, j] += wij * g_d2g
            gradient[i] += w[j] * gg
            gradient[j] += w[i] * gg
    eps_g = 0.0
    for i in range(n):
        eps_g += 0.5 * w[i] * gradient[i]
    return eps_g


@jit(no_reference_counting=True)
def descend(H, gradient, K, eta, eta_v, A, B, dv):
    """Fill A = -eta H_KK, B = -eta H_KM, dv = -eta_v times the gradient."""
    for k in range(K):
        dv[k] = -eta_v * gradient[k]
        for j in range(K):
            A[k, j] = -eta * H[k, j]
        for j in range(K, H.shape[1]):
            B[k, j - K] = -eta * H[k, j]


@jit(no_reference_counting=True)
def fill_first_order(S, w, K, student, teacher, eta, eta_v, A, B, dv, H):
    """A = -eta H_KK, B = -eta H_KM, dv_k = -eta_v E[g_k Delta]; H (n + 1, n) with E[g_i Delta] last.  Returns eps_g."""
    eps_g = mean_hessian(S, w, K, student, teacher, H, H[-1])
    descend(H, H[-1], K, eta, eta_v, A, B, dv)
    return eps_g


@jit
def first_order(S, w, K, student, teacher, eta, eta_v, A, B, dv):
    """Fill A, B, dv as ``fill_first_order``.  Returns eps_g and the mean Hessian."""
    H = np.empty((S.shape[0] + 1, S.shape[0]))
    return fill_first_order(S, w, K, student, teacher, eta, eta_v, A, B, dv, H), H


@jit(no_reference_counting=True, cost=small)
def assemble(w, K, gg, dd, hh, eta, eta_v, A, B, dv):
    """Fill A, B, dv from E[g_i g_j] (n, n), E[g_k' g_j'] (K, n), E[g_k'' g_j] (K, n); return eps_g."""
    n, eps_g = w.size, 0.0
    for k in range(K):
        loss = curvature = 0.0
        for j in range(n):
            loss += gg[k, j] * w[j]
            curvature += hh[k, j] * w[j]
            if j < K:
                A[k, j] = -eta * w[k] * w[j] * dd[k, j]
            else:
                B[k, j - K] = -eta * w[k] * w[j] * dd[k, j]
        # The sum over j of E[g_k'' g_j] is E[g_k'' Delta], which enters the diagonal only.
        A[k, k] -= eta * w[k] * curvature
        dv[k] = -eta_v * loss
    for i in range(n):
        for j in range(n):
            eps_g += 0.5 * w[i] * gg[i, j] * w[j]
    return eps_g


@jit(no_reference_counting=True, cost=small)
def assemble_square(w, K, square, dd, eta, noise, C):
    """Fill C from E[g_k' g_l' Delta_0^2] and E[g_k' g_l']."""
    for k in range(K):
        for j in range(K):
            C[k, j] = eta * eta * w[k] * w[j] * (square[k, j] + noise * noise * dd[k, j])


@jit(no_reference_counting=True)
def unknown_S(i, j, K, n):
    """Index of the unknown S_ij, i <= j; -1 for an overlap of two teachers."""
    if j < K:
        return i * K - i * (i - 1) // 2 + j - i
    if i < K:
        return K * (K + 1) // 2 + i * (n - K) + j - K
    return -1


@jit(no_reference_counting=True)
def unknown_v(k, K, n):
    """Index of the unknown v_k; -1 for a teacher."""
    return K * (K + 1) // 2 + K * (n - K) + k if k < K else -1


@jit(no_reference_counting=True)
def _gradient_pair(i, j, K, n, w, values, dG):
    """Add the pair i < j to dG, the derivatives of gradient_i = sum_c w_c E[g_i g_c]; values: its ``two_point``."""
    gg, p, qi, qj = values
    for k in range(2):
        a, b = (i, j) if k == 0 else (j, i)
        if a < K:
            dG[unknown_S(i, j, K, n), a] += w[b] * p
            # The factor is 1/2 because dE[f(z_i)]/dS_ii = E[f''(z_i)] / 2 (the heat equation of Gaussians).
            dG[unknown_S(i, i, K, n), a] += 0.5 * w[b] * qi
            if b < K:
                dG[unknown_v(b, K, n), a] += gg
            if j < K:
                dG[unknown_S(j, j, K, n), a] += 0.5 * w[b] * qj


@jit
def hessian_derivatives(S, w, K, student, teacher, where, value, dG):
    """List dH/du in where (., 3), value (.) and fill dG (d_g, K), the derivatives of E[g_k Delta]; return the length.

    The list has at most 15 K n entries.
    """
    n = S.shape[0]
    dG[:] = 0.0
    count = 0
    for i in range(K):
        gg, p, q, _ = two_point(student, student, S[i, i], S[i, i], S[i, i])
        ui, vi = unknown_S(i, i, K, n), unknown_v(i, K, n)
        dG[ui, i] += w[i] * (p + q)
        dG[vi, i] += gg
        where[count, 0], where[count, 1], where[count, 2] = ui, i, i
        value[count] = 0.5 * w[i] * w[i] * same_field(student, S[i, i])
        where[count + 1, 0], where[count + 1, 1], where[count + 1, 2] = vi, i, i
        value[count + 1] = 2 * w[i] * (p + q)
        count += 2
        for j in range(i + 1, n):
            h = student if j < K else teacher
            first = two_point(student, h, S[i, i], S[j, j], S[i, j])
            _gradient_pair(i, j, K, n, w, first, dG)
            _, p, qi, qj = first
            m22, m31, m13, m40, m04 = two_point_derivatives(student, h, S[i, i], S[j, j], S[i, j])
            wi, wj, wij = w[i], w[j], w[i] * w[j]
            columns = (
                (unknown_S(i, j, K, n), wij * m22, wij * m31, wij * m13),
                (unknown_S(i, i, K, n), 0.5 * wij * m31, 0.5 * wij * m40, 0.5 * wij * m22),
                (unknown_S(j, j, K, n), 0.5 * wij * m13, 0.5 * wij * m22, 0.5 * wij * m04),
                (unknown_v(i, K, n), wj * p, wj * qi, wj * qj),
                (unknown_v(j, K, n), wi * p, wi * qi, wi * qj),
            )
            # Each of five unknowns of a pair changes three entries of H; u = -1 for overlaps of teachers.
            for u, ij, ii, jj in columns:
                if u >= 0:
                    where[count, 0], where[count, 1], where[count, 2] = u, i, j
                    where[count + 1, 0], where[count + 1, 1], where[count + 1, 2] = u, i, i
                    where[count + 2, 0], where[count + 2, 1], where[count + 2, 2] = u, j, j
                    value[count], value[count + 1], value[count + 2] = ij, ii, jj
                    count += 3
    return count


@jit
def first_order_derivatives(S, w, K, student, teacher, eta, eta_v, dA, dB, ddv):
    """Derivatives of A = -eta H_KK, B = -eta H_KM, dv = -eta_v E[g Delta]; returns the list of dH and its length."""
    size = 15 * K * S.shape[0]
    where, value = np.empty((size, 3), np.int64), np.empty(size)
    count = hessian_derivatives(S, w, K, student, teacher, where, value, ddv)
    ddv *= -eta_v
    dA[:] = 0.0
    dB[:] = 0.0
    for e in range(count):
        u, i, j = where[e, 0], where[e, 1], where[e, 2]
        if j < K:
            dA[u, i, j] -= eta * value[e]
            if i != j:
                dA[u, j, i] -= eta * value[e]
        elif i < K:
            dB[u, i, j - K] -= eta * value[e]
    return where, value, count


@jit(no_reference_counting=True)
def loss_derivatives(H, gradient, K, deps):
    """Fill deps (d_g,) with the derivatives of eps_g, which are entries of H and of the gradient."""
    n = H.shape[0]
    for i in range(K):
        deps[unknown_v(i, K, n)] = gradient[i]
        for j in range(i, n):
            deps[unknown_S(i, j, K, n)] = H[i, j] if i != j else 0.5 * H[i, i]


@jit
def eps_derivatives(S, w, K, student, teacher, deps):
    """Fill deps (d_g,) with d eps_g / d(Q, R, v); return eps_g."""
    H, gradient = np.empty(S.shape), np.empty(S.shape[0])
    eps_g = mean_hessian(S, w, K, student, teacher, H, gradient)
    loss_derivatives(H, gradient, K, deps)
    return eps_g


@jit(no_reference_counting=True)
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
