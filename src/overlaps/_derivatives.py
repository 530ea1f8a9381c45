"""Exact derivatives of A, B, dv and eps_g with respect to the order parameters (Q, R, v).

Everything of first order in eta is a derivative of the mean loss (``_closures``), so its derivatives are higher ones.
For a function of Gaussian fields with covariance S, Price's theorem reads dE[F]/dS_ab = E[d_a d_b F] for a != b (S_ab
and S_ba change together) and dE[F]/dS_aa = E[d_a^2 F]/2.  With F = Delta^2 / 2,

    d eps_g / dS_ab = H_ab,    d eps_g / dS_aa = H_aa / 2,    d H_ij / dS_ab = T_ijab,    d H_ij / dS_aa = T_ijaa / 2,
    T_ijab = E[d_i d_j d_a d_b Delta^2 / 2].

Delta^2 is a sum over pairs of fields, so T is zero unless at most two of its indices differ:

    T_iijj = w_i w_j E[g_i'' g_j''],    T_iiij = w_i w_j E[g_i''' g_j'],
    T_iiii = w_i sum_{c != i} w_c E[g_i'''' g_c] + w_i^2 (3 E[g_i''^2] + 4 E[g_i''' g_i'] + E[g_i'''' g_i]).

The unknowns are numbered: upper triangle of Q row by row (a unit change of Q_ij and Q_ji together), R row by row, v;
``T`` and ``v*`` are constants.  Derivatives of H are sparse: they are handed on as a list of entries (u, i, j), value,
each standing for dH_ij/du and dH_ji/du.  C has kernels of its own (``_derivatives_C``, ``_derivatives_relu``).

For relu these derivatives diverge like 1/s, s^2 = S_aa S_bb - S_ab^2, when a student aligns with another unit: the
closure is only Hoelder-1/2 there.  An implicit solver must not use them at s < 1e-6 sqrt(S_aa S_bb)
(``relu_alignment`` in ``_derivatives_relu``).
"""

import math

import numpy as np

from ._closures import mean_hessian
from ._integrals import ERF, LINEAR, PI, QUADRATIC, RELU, SQRT_2PI, two_point
from ._jit import jit


@jit(inline=True)
def _ordered(f, h, saa, sbb, sab):
    """The table of :func:`two_point_derivatives` for code f >= code h."""
    if f == ERF:
        al = 1.0 + saa
        if h == ERF:
            be = 1.0 + sbb
            lam = 1.0 + saa + sbb + (saa * sbb - sab * sab)
            c = 2 / (PI * lam * math.sqrt(lam))
            return c * sab, -c * be, -c * al, c * sab * (2 * lam / al + be) / al, c * sab * (2 * lam / be + al) / be
        if h == QUADRATIC:
            return 0.0, 0.0, 0.0, 0.0, 0.0
        c = (1.0 if h == LINEAR else 0.5) * math.sqrt(2 / (PI * al)) / al  # relu acts as half a linear function
        return 0.0, -c, 0.0, 3 * c * sab / al, 0.0
    if f == RELU and h == RELU:
        s = math.sqrt(max(saa * sbb - sab * sab, 0.0))
        c = 1 / (2 * PI * s)
        maa = c * (sbb - 2 * s * s / saa) / saa
        return c, -c * sab / saa, -c * sab / sbb, maa, c * (saa - 2 * s * s / sbb) / sbb
    if f == RELU and h == QUADRATIC and saa > 0.0:
        c = 1.0 / (SQRT_2PI * math.sqrt(saa))
        return 2 * c, -2 * c * sab / saa, 0.0, c * (3 * sab * sab / saa - sbb) / saa, 0.0
    return (4.0 if f == QUADRATIC and h == QUADRATIC else 0.0), 0.0, 0.0, 0.0, 0.0


@jit
def two_point_derivatives(f, h, saa, sbb, sab):
    """E[f'' h''], E[f''' h'], E[f' h'''], E[f'''' h], E[f h''''] of functions with codes f, h.

    By Price's theorem these are all derivatives of the table ``two_point``: p = E[f' h'] has dp/dsab = E[f'' h''],
    dp/dsaa = E[f''' h'] / 2; q = E[f'' h] has dq/dsab = E[f''' h'], dq/dsaa = E[f'''' h] / 2, dq/dsbb = E[f'' h''] / 2.
    """
    if f >= h:
        return _ordered(f, h, saa, sbb, sab)
    m22, m31, m13, m40, m04 = _ordered(h, f, sbb, saa, sab)
    return m22, m13, m31, m04, m40


@jit(inline=True)
def _same_field(f, s):
    """3 E[f''^2] + 4 E[f''' f'] + E[f'''' f] = 2 d^2 E[f^2] / ds^2 for one field of variance s."""
    if f == RELU:  # E[relu^2] = s / 2; the single terms are infinite
        return 0.0
    m22, m31, _, m40, _ = two_point_derivatives(f, f, s, s, s)
    return 3 * m22 + 4 * m31 + m40


@jit(inline=True)
def unknown_S(i, j, K, n):
    """Number of the unknown S_ij, i <= j; -1 for an overlap of two teachers."""
    if j < K:
        return i * K - i * (i - 1) // 2 + j - i
    if i < K:
        return K * (K + 1) // 2 + i * (n - K) + j - K
    return -1


@jit(inline=True)
def unknown_v(k, K, n):
    """Number of the unknown v_k; -1 for a teacher."""
    return K * (K + 1) // 2 + K * (n - K) + k if k < K else -1


@jit(inline=True)
def _gradient_pair(i, j, K, n, w, values, dG):
    """Add the pair i < j to dG, the derivatives of gradient_i = sum_c w_c E[g_i g_c]; values: its ``two_point``."""
    gg, p, qi, qj = values
    for k in range(2):
        a, b = (i, j) if k == 0 else (j, i)
        if a < K:
            dG[unknown_S(i, j, K, n), a] += w[b] * p
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
        value[count] = 0.5 * w[i] * w[i] * _same_field(student, S[i, i])
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
            for u, ij, ii, jj in columns:
                if u >= 0:
                    where[count, 0], where[count, 1], where[count, 2] = u, i, j
                    where[count + 1, 0], where[count + 1, 1], where[count + 1, 2] = u, i, i
                    where[count + 2, 0], where[count + 2, 1], where[count + 2, 2] = u, j, j
                    value[count], value[count + 1], value[count + 2] = ij, ii, jj
                    count += 3
    return count


@jit
def first_order_derivatives(S, w, K, student, teacher, eta, eta_v, dA, dB, ddv, where, value):
    """Derivatives of A = -eta H_KK, B = -eta H_KM, dv = -eta_v E[g Delta]; returns the length of the list of dH."""
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
    return count


@jit
def loss_derivatives(H, gradient, K, deps):
    """Fill deps (d_g,) with the derivatives of eps_g, which are H and the gradient themselves."""
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
