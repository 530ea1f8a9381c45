"""Matrix C of erf students, for any teacher, by tilting the Gaussian measure.

For g(x) = erf(x / sqrt 2), g'(a) g'(b) = (2/pi) exp(-(a^2 + b^2)/2) turns N(0, S) into a narrower Gaussian N(0, St):

    E[g'(a) g'(b) f(z)] = (2/pi) det^(-1/2) E_{z ~ N(0, St)}[f(z)],      det = (1 + S_aa)(1 + S_bb) - S_ab^2,
    St_cd = S_cd - e_c e_d - f_c f_d,   e_c = S_ac / sqrt(1 + S_aa),
    f_c = (S_bc - S_ab S_ac / (1 + S_aa)) sqrt((1 + S_aa) / det),

also for a = b, with det = 1 + 2 S_aa.  With f = Delta^2 a table of two-point integrals remains.  For an erf teacher
this is I_4 of Saad and Solla (1995), one arcsine per pair (c, d) instead of three square roots and an arcsine.
"""

import math
from functools import cache
from math import pi
from typing import NamedTuple

import numpy as np

from .._base.jit import jit, unsigned_index
from .._base.lazy_compilation import small
from ..gaussian.elementary import arctan2, p
from ..gaussian.two_point import ERF, two_point
from ._first_order import (
    derivatives_cost,
    fill_first_order,
    first_order_derivatives,
    mean_hessian,
    readout_product,
    unknown_S,
    unknown_v,
)


class WorkspaceRows(NamedTuple):
    """Rows of the workspace (5, n (n + 1) / 2): tilting vectors, norms, then the packed triangle of pairs (c, d)."""

    e: int = 0
    f: int = 1
    norm: int = 2
    x: int = 3
    weight: int = 4


ROW = WorkspaceRows()


@jit(inline=True)
def tilted_covariance(S, a, b, work, St):
    """Fill the covariance St of the fields under the measure g'_a g'_b N(0, S); return det^(-1/2)."""
    inverse = tilt(S, a, b, work)
    for c in range(S.shape[0]):
        for d in range(S.shape[0]):
            St[c, d] = S[c, d] - work[ROW.e, c] * work[ROW.e, d] - work[ROW.f, c] * work[ROW.f, d]
    return inverse


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
            c = 2 / pi * tilted_covariance(S, a, b, work, St)
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


@jit(cost=derivatives_cost)
def erf_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    first_order_derivatives(S, w, K, ERF, teacher, eta, eta_v, dA, dB, ddv)
    if second_order:
        erf_C_derivatives(S, w, K, teacher, eta, noise, dC)


@jit(fast=True, no_reference_counting=True)
def _sum_asin_half(work, size):
    """sum_i weight_i asin(x_i) for |x_i| <= 1/2."""
    total = 0.0
    for i in range(size):
        x = work[ROW.x, i]
        total += work[ROW.weight, i] * (x * p(x * x))
    return total


@jit(fast=True, no_reference_counting=True)
def _sum_asin(work, size):
    """sum_i weight_i asin(x_i) for |x_i| <= 1; beyond 1/2 asin x = pi/2 - 2 asin sqrt((1 - x)/2)."""
    total = 0.0
    for i in range(size):
        x = work[ROW.x, i]
        a = abs(x)
        large = a > 0.5
        # Both cases use one polynomial, whose argument is selected without a branch, so that the loop is vectorised.
        z = 0.5 * (1.0 - a) if large else a * a
        y = math.sqrt(z) if large else a
        angle = y * p(z)
        angle = 0.5 * pi - 2.0 * angle if large else angle
        total += work[ROW.weight, i] * math.copysign(angle, x)
    return total


@jit(inline=True)
def tilt(S, a, b, work):
    """Fill the tilting vectors e, f of the pair (a, b) in the workspace; return det^(-1/2)."""
    saa = 1.0 + S[a, a]
    if a == b:
        det = 1.0 + 2.0 * S[a, a]
    else:
        # The brackets preserve the digits of the difference for two nearly equal fields.
        det = 1.0 + S[a, a] + S[b, b] + (S[a, a] * S[b, b] - S[a, b] * S[a, b])
    ia, inverse = 1.0 / math.sqrt(saa), 1.0 / math.sqrt(det)
    slope, ib = S[a, b] * ia * ia, saa * ia * inverse
    for c in range(S.shape[0]):
        work[ROW.e, c] = S[a, c] * ia
        work[ROW.f, c] = (S[b, c] - slope * S[a, c]) * ib
    return inverse


@jit(fast=True, no_reference_counting=True)
def _pack(S, work):
    """Fill row x with the tilted correlations St_cd / sqrt((1 + St_cc)(1 + St_dd)), triangle row by row.

    Returns whether any may exceed 1/2 in size, which requires a tilted variance above 1.
    """
    large, i = False, unsigned_index(0)
    for c in range(unsigned_index(len(S))):
        e, f = work[ROW.e, c], work[ROW.f, c]
        variance = S[c, c] - e * e - f * f
        norm = 1.0 / math.sqrt(1.0 + variance)
        e, f = e * norm, f * norm
        work[ROW.norm, c], work[ROW.e, c], work[ROW.f, c] = norm, e, f
        # |x_cd| <= variance / (1 + variance): no correlation above 1/2 while all tilted variances are below 1
        large |= variance > 1.0
        for d in range(c + unsigned_index(1)):
            work[ROW.x, i] = S[c, d] * norm * work[ROW.norm, d] - e * work[ROW.e, d] - f * work[ROW.f, d]
            i += unsigned_index(1)
    return large


@jit(no_reference_counting=True)
def _tilted_error(S, w, K, teacher, work):
    """E_St[Delta^2] for any teacher."""
    total = 0.0
    for c in range(S.shape[0]):
        code_c = ERF if c < K else teacher
        ec, fc = work[ROW.e, c], work[ROW.f, c]
        for d in range(c + 1):
            code_d = ERF if d < K else teacher
            ed, fd = work[ROW.e, d], work[ROW.f, d]
            scc, sdd = S[c, c] - ec * ec - fc * fc, S[d, d] - ed * ed - fd * fd
            scd = scc if c == d else S[c, d] - ec * ed - fc * fd  # equal arguments give E[sign^2] = 1 exactly
            gg = two_point(code_c, code_d, scc, sdd, scd)[0]
            total += (1.0 if c == d else 2.0) * w[c] * w[d] * gg
    return total


@jit(inline=True)
def _weigh(w, n, work):
    """Fill row weight with the products of second layers of pairs (c, d)."""
    i = 0
    for c in range(n):
        for d in range(c + 1):
            work[ROW.weight, i] = w[c] * w[d] * (1.0 if c == d else 2.0)
            i += 1


@jit(inline=True)
def _entry(S, w, K, a, b, teacher, eta, noise, work, size):
    """C_ab; inlined because at K = 2 a call costs as much as the entry."""
    inverse = tilt(S, a, b, work)
    if teacher != ERF:
        square = _tilted_error(S, w, K, teacher, work)
    elif _pack(S, work):
        square = 2 / pi * _sum_asin(work, size)
    else:
        square = 2 / pi * _sum_asin_half(work, size)
    return eta * eta * w[a] * w[b] * (square + noise * noise) * (2 / pi) * inverse


@jit(no_reference_counting=True)
def erf_C(S, w, K, teacher, eta, noise, C, work):
    """Fill C_kl = eta^2 v_k v_l E[g'_k g'_l Delta^2]."""
    n = S.shape[0]
    size = n * (n + 1) // 2
    _weigh(w, n, work)
    for a in range(K):
        for b in range(a + 1):
            C[a, b] = C[b, a] = _entry(S, w, K, a, b, teacher, eta, noise, work, size)


@jit
def erf_C_chunk(S, w, K, teacher, eta, noise, C, chunk, chunks):
    """Fill one of ``chunks`` interleaved chunks of C, for one thread; entries do not depend on each other."""
    n = S.shape[0]
    size, i = n * (n + 1) // 2, 0
    work = np.empty((5, size))
    _weigh(w, n, work)
    for a in range(K):
        for b in range(a + 1):
            # Interleaved because all entries cost the same, so that threads finish together.
            if i % chunks == chunk:
                C[a, b] = C[b, a] = _entry(S, w, K, a, b, teacher, eta, noise, work, size)
            i += 1


@jit(fast=True, no_reference_counting=True)
def _angles(x, det):
    """Overwrite S_ij and (1 + S_ii)(1 + S_jj) - S_ij^2 by E[g_i g_j] and E[g_i' g_j'] in one vectorised loop."""
    for l in range(x.size):
        root = math.sqrt(det[l])
        x[l] = 2 / pi * arctan2(x[l], root)
        det[l] = 2 / pi / root


@jit(no_reference_counting=True)
def erf_first_order(S, w, K, eta, eta_v, A, B, dv, scratch):
    """``fill_first_order`` of erf students of erf teachers; ``scratch`` has 2 n^2 numbers."""
    n, eps_g, at = unsigned_index(len(S)), 0.0, unsigned_index(0)
    angle, slope = scratch[: S.size], scratch[S.size : 2 * S.size]
    for i in range(n):
        for j in range(n):
            angle[at] = S[i, j]
            slope[at] = 1.0 + (S[i, i] + S[j, j]) + (S[i, i] * S[j, j] - S[i, j] * S[i, j])
            at += unsigned_index(1)
    _angles(angle, slope)
    at = unsigned_index(0)
    for i in range(n):
        gradient = curvature = 0.0
        for j in range(n):
            gradient += w[j] * angle[at]
            curvature += w[j] * slope[at] * S[i, j]
            if i < K:
                h = -eta * (w[i] * w[j] * slope[at])
                if j < K:
                    A[i, j] = h
                else:
                    B[i, j - K] = h
            at += unsigned_index(1)
        eps_g += 0.5 * w[i] * gradient
        if i < K:
            A[i, i] += eta * w[i] * curvature / (1.0 + S[i, i])
            dv[i] = -eta_v * gradient
    return eps_g


@jit(no_reference_counting=True, cost=small)
def erf_workspace(n):
    """Length of the workspace for n fields: seven triangles, two of which contain the mean Hessian."""
    return 7 * n * (n + 1) // 2


@jit(inline=True)
def _in_workspace(S, w, workspace, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    n = S.shape[0]
    both = n * (n + 1)
    if teacher == ERF:
        eps_g = erf_first_order(S, w, K, eta, eta_v, A, B, dv, workspace)
    else:
        eps_g = fill_first_order(S, w, K, ERF, teacher, eta, eta_v, A, B, dv, workspace[:both].reshape((n + 1, n)))
    if second_order:
        erf_C(S, w, K, teacher, eta, noise, C, workspace[both : both + 5 * both // 2].reshape((5, both // 2)))
    return eps_g


@cache
def _pairs_of(K):
    return np.tril_indices(K)


def _erf_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    if teacher != ERF:
        return _in_workspace(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv)
    n, s = len(S), S.diagonal()
    one, ww = 1.0 + s, np.multiply.outer(w, w)
    root = 1.0 / np.sqrt(np.add.outer(one, s) + (np.multiply.outer(s, s) - S * S))
    gradient = (2 / pi) * (np.arcsin(S / np.sqrt(np.multiply.outer(one, one))) @ w)
    H = (2 / pi) * (ww * root)
    H.ravel()[:: n + 1] -= (2 / pi) * w / one * ((S * root) @ w)
    A[:], B[:], dv[:] = -eta * H[:K, :K], -eta * H[:K, K:], -eta_v * gradient[:K]
    if second_order:
        a, b = _pairs_of(K)
        det = np.where(a == b, one[a] + s[a], one[a] + s[b] + (s[a] * s[b] - S[a, b] ** 2))
        first, inverse = 1.0 / one[a], 1.0 / np.sqrt(det)
        e = S[a] * np.sqrt(first)[:, None]
        f = (S[b] - (S[a, b] * first)[:, None] * S[a]) * (np.sqrt(one[a]) * inverse)[:, None]
        St = S - e[:, :, None] * e[:, None] - f[:, :, None] * f[:, None]
        norm = 1.0 / np.sqrt(1.0 + np.einsum("pii->pi", St))
        St *= norm[:, :, None] * norm[:, None]
        square = (2 / pi) * (np.arcsin(St).reshape(-1, n * n) @ ww.ravel())
        C[a, b] = C[b, a] = eta * eta * (2 / pi) * ww[a, b] * (square + noise * noise) * inverse
    return 0.5 * float(w @ gradient)


def _seconds(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, *_):
    n = len(S)
    if teacher != ERF:
        return 5e-6 + 1.2e-6 * n * n * (1 + (K * K if second_order else 0))
    return 2e-5 + 8e-9 * n * n + (3e-5 + 3e-9 * K * K * n * n if second_order else 0.0)


@jit(no_reference_counting=True, python=_erf_closure, cost=_seconds)
def erf_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """The closure of erf students; the parameters are a workspace. nan if it is too short."""
    if parameters.size < erf_workspace(len(S)):
        return math.nan
    return _in_workspace(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv)
