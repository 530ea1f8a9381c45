"""Matrix C of relu students, for any teacher, from orthant probabilities.

In units of the standard deviations (r_ij correlations, s_ij = sqrt(1 - r_ij^2), theta the step function), Stein's lemma
on c and then on d (Tallis 1961) gives for four different fields

    E[theta(a) theta(b) c_+ d_+] = r_cd P4 + (1/2pi) (s_cd p_cd + r_ad s_ac p_ac + r_ac s_ad p_ad
                                   + r_bd s_bc p_bc + r_bc s_bd p_bd + kappa_ab p_ab / s_ab),
    kappa_ab = (r_ac - r_ab r_bc) r_bd + (r_bc - r_ab r_ac) r_ad,

with P4 = P(a, b, c, d > 0) and p_ij = P(the other two > 0 | z_i = z_j = 0).  These seven numbers are symmetric in the
four fields (``orthants``): one evaluation per unordered set serves every choice of the pair (a, b) of students in it.
Repeated indices are closed forms with P2 = 1/4 + asin(r) / 2pi and P3 = 1/8 + (sum of three asin) / 4pi.
Other teachers add the terms of ``_relu_teachers``.
"""

import math
from math import pi

import numpy as np

from .._base.jit import jit
from ..gaussian.elementary import arctan2
from ..gaussian.orthants import complement, orthants
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU
from ._first_order import first_order
from ._relu_teachers import add_erf, add_linear_teacher, add_quadratic


@jit
def geometry(S):
    """Standard deviations (n,), correlations r, sqrt(1 - r^2) and asin(r) (n, n).

    A field of zero variance counts as independent of all others.  Correlations are clipped to [-1, 1]: an integrator
    may overshoot.
    """
    n = S.shape[0]
    sigma, r, s, arcsin = np.empty(n), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        sigma[i] = math.sqrt(max(S[i, i], 0.0))
        r[i, i], s[i, i], arcsin[i, i] = 1.0, 0.0, 0.5 * pi
        for j in range(i):
            scale = math.sqrt(max(S[i, i] * S[j, j], 0.0))  # not sigma_i sigma_j: equal fields must have r = 1 exactly
            # Clipped because rounding or a trial step of the integrator may give |r| > 1, and nan for the roots.
            rij = min(max(S[i, j] / scale, -1.0), 1.0) if scale > 0.0 else 0.0
            r[i, j] = r[j, i] = rij
            s[i, j] = s[j, i] = complement(rij)
            arcsin[i, j] = arcsin[j, i] = arctan2(rij, s[i, j])
    return sigma, r, s, arcsin


@jit(no_reference_counting=True)
def _four(a, b, c, d, r, s, P4, q):
    """E[theta(a) theta(b) c_+ d_+] of four different fields; q holds p_ij / 2pi."""
    kappa = (r[a, c] - r[a, b] * r[b, c]) * r[b, d] + (r[b, c] - r[a, b] * r[a, c]) * r[a, d]
    total = r[c, d] * P4 + s[c, d] * q[c, d]
    total += r[a, d] * s[a, c] * q[a, c] + r[a, c] * s[a, d] * q[a, d]
    total += r[b, d] * s[b, c] * q[b, c] + r[b, c] * s[b, d] * q[b, d]
    return total + (kappa / s[a, b] * q[a, b] if s[a, b] > 0.0 else 0.0)


@jit(no_reference_counting=True)
def _add_set(i, j, k, l, K, r, s, u, q, square):
    """Add the set i < j < k < l of different fields to every pair of students in it."""
    # The expensive call is made once for a set of four fields, for all pairs of students in it.
    P4, pij, pik, pil, pjk, pjl, pkl = orthants(r[i, j], r[i, k], r[i, l], r[j, k], r[j, l], r[k, l])
    c = 1.0 / (2 * pi)
    q[i, j] = q[j, i] = c * pij
    q[i, k] = q[k, i] = c * pik
    q[i, l] = q[l, i] = c * pil
    q[j, k] = q[k, j] = c * pjk
    q[j, l] = q[l, j] = c * pjl
    q[k, l] = q[l, k] = c * pkl
    square[j, i] += 2 * u[k] * u[l] * _four(i, j, k, l, r, s, P4, q)
    # Pairs with a teacher at k or l have no entry of C.
    if k < K:
        square[k, i] += 2 * u[j] * u[l] * _four(i, k, j, l, r, s, P4, q)
        square[k, j] += 2 * u[i] * u[l] * _four(j, k, i, l, r, s, P4, q)
    if l < K:
        square[l, i] += 2 * u[j] * u[k] * _four(i, l, j, k, r, s, P4, q)
        square[l, j] += 2 * u[i] * u[k] * _four(j, l, i, k, r, s, P4, q)
        square[l, k] += 2 * u[i] * u[j] * _four(k, l, i, j, r, s, P4, q)


@jit(no_reference_counting=True)
def _pair(a, b, n, r, s, arcsin, u):
    """Terms of E[theta(a) theta(b) (sum_c u_c c_+)^2], a != b, in which at most three fields are different."""
    rab, sab = r[a, b], s[a, b]
    per_sab = 1.0 / sab if sab > 0.0 else 0.0
    P2 = 0.25 + arcsin[a, b] / (2 * pi)
    total = (u[a] * u[a] + u[b] * u[b]) * (P2 + rab * sab / (2 * pi)) + 2 * u[a] * u[b] * (rab * P2 + sab / (2 * pi))
    for c in range(n):
        if c == a or c == b:
            continue
        rac, rbc, sac, sbc = r[a, c], r[b, c], s[a, c], s[b, c]
        P3 = 0.125 + (arcsin[a, b] + arcsin[a, c] + arcsin[b, c]) / (4 * pi)
        kappa = ((rac - rab * rbc) * rbc + (rbc - rab * rac) * rac) * per_sab
        cc = P3 + (rac * sac + rbc * sbc + kappa) / (4 * pi)
        ac = rac * P3 + (sac + rbc * sab + rab * sbc) / (4 * pi)
        bc = rbc * P3 + (sbc + rac * sab + rab * sac) / (4 * pi)
        total += u[c] * (u[c] * cc + 2 * u[a] * ac + 2 * u[b] * bc)
    return total


@jit(no_reference_counting=True)
def _single(a, n, r, s, arcsin, u):
    """E[theta(a) (sum_c u_c c_+)^2]."""
    total = 0.5 * u[a] * u[a]
    for c in range(n):
        if c == a:
            continue
        rac, sac = r[a, c], s[a, c]
        P2 = 0.25 + arcsin[a, c] / (2 * pi)
        inner = u[c] * (P2 + rac * sac / (2 * pi)) + 2 * u[a] * (rac * P2 + sac / (2 * pi))
        for d in range(c):
            if d != a:
                P3 = 0.125 + (arcsin[a, c] + arcsin[a, d] + arcsin[c, d]) / (4 * pi)
                inner += 2 * u[d] * (r[c, d] * P3 + (s[c, d] + r[a, d] * sac + rac * s[a, d]) / (4 * pi))
        total += u[c] * inner
    return total


@jit
def relu_square(r, s, arcsin, u, K, n, square):
    """Lower triangle of E[theta(a) theta(b) (sum_c u_c c_+)^2], a, b < K, c < n, for fields of unit variance."""
    q = np.empty((n, n))
    for a in range(K):
        square[a, a] = _single(a, n, r, s, arcsin, u)
        for b in range(a):
            square[a, b] = _pair(a, b, n, r, s, arcsin, u)
    for i in range(K):
        for j in range(i + 1, K):
            for k in range(j + 1, n):
                for l in range(k + 1, n):
                    _add_set(i, j, k, l, K, r, s, u, q, square)


@jit
def relu_C(S, w, K, teacher, eta, noise, C):
    """Fill C_kl = eta^2 v_k v_l E[g'_k g'_l Delta^2]."""
    n = S.shape[0]
    sigma, r, s, arcsin = geometry(S)
    u = w * sigma
    square = np.empty((K, K))
    relu_square(r, s, arcsin, u, K, n if teacher == RELU else K, square)
    if teacher == LINEAR:
        add_linear_teacher(S, w, K, sigma, r, s, arcsin, u, square)
    elif teacher == QUADRATIC:
        add_quadratic(S, w, K, sigma, r, s, arcsin, u, square)
    elif teacher == ERF:
        add_erf(S, w, K, sigma, r, s, arcsin, u, square)
    # Unknown codes, which ``bind`` refuses, give nan.
    elif teacher != RELU:
        square[:] = math.nan
    for a in range(K):
        for b in range(a + 1):
            P2 = 0.25 + arcsin[a, b] / (2 * pi)
            C[a, b] = C[b, a] = eta * eta * w[a] * w[b] * (square[a, b] + noise * noise * P2)


def _seconds(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, *_):
    n = len(S)
    return 5e-6 + 1.2e-6 * n * n + (4e-6 * K * K * n * n if second_order else 0.0)


@jit(cost=_seconds)
def relu_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    eps_g, _ = first_order(S, w, K, RELU, teacher, eta, eta_v, A, B, dv)
    if second_order:
        relu_C(S, w, K, teacher, eta, noise, C)
    return eps_g
