"""Terms that teachers other than relu add to E[theta(a) theta(b) Delta^2] of relu students.

With y the teachers' contribution to Delta (signs included), the two terms 2 sum_c u_c E[theta(a) theta(b) c_+ y] and
E[theta(a) theta(b) y^2] are orthant moments, all from Stein's lemma; units as in ``_relu``.  Polynomial teachers enter
through a few K x K matrices for any number of teachers.  Only erf, a step function of the field plus an independent
N(0, 1), requires orthant probabilities.  Every formula covers repeated indices, as a limit that a shift of the
variances and the conditions s > 0 select.
"""

import math
from math import pi

import numpy as np

from .._base.jit import jit
from ..gaussian.elementary import arctan2
from ..gaussian.orthants import ORTHANTS, arcsine, orthants
from ..gaussian.two_point import SQRT_2PI


@jit
def partial_arcsines(rij, rik, rjk):
    """Arcsines of the partial correlations (jk|i), (ik|j), (ij|k), and the root of the determinant of the three fields.

    The three angles share one determinant: its rounding error, O(1e-8) in the root when the fields are coplanar, then
    cancels to first order in the moments built from them.
    """
    ni, nj, nk = rjk - rij * rik, rik - rij * rjk, rij - rik * rjk
    ij, ik, jk = (1.0 - rij) * (1.0 + rij), (1.0 - rik) * (1.0 + rik), (1.0 - rjk) * (1.0 + rjk)
    # det = s_ij^2 s_ik^2 - n_i^2 and cyclic; the field with the two smallest s has the smallest rounding error.
    if jk >= max(ij, ik):
        outer, inner = ij * ik, ni
    elif ik >= ij:
        outer, inner = ij * jk, nj
    else:
        outer, inner = ik * jk, nk
    root = math.sqrt(max(outer, 0.0))
    det = max((root - inner) * (root + inner), 0.0)
    # Added to the variances of three fields, so that parallel ones have partial correlations.
    shift = ORTHANTS.min_residual_std * ORTHANTS.min_residual_std
    root = math.sqrt(det + shift * (ij + ik + jk + 3.0 * shift))
    ai = arctan2(ni + shift * rjk, root)
    aj = arctan2(nj + shift * rik, root)
    ak = arctan2(nk + shift * rij, root)
    return ai, aj, ak, root


@jit(inline=True)
def _wedge(xaa, xbb, xab, r, s):
    """2 pi E[theta(a) theta(b) : y :] for y of second order with covariances x with (a, b); : y : has no mean."""
    return (2.0 * xab - r * (xaa + xbb)) / s if s > 0.0 else 0.0


@jit(no_reference_counting=True)
def add_linear(cov, variance, K, n, r, s, arcsin, u, square):
    """Add a Gaussian field y with this variance and covariances ``cov`` (n,) with the unit fields.

    E[theta(a) theta(b) c_+ y] = y_c P3 + (y_a D_ab + y_b D_ba) / 4pi,  D_ab = s_ac + (r_bc - r_ab r_ac) / s_ab,
    E[theta(a) theta(b) y^2] = var P2 + (2 y_a y_b - r_ab (y_a^2 + y_b^2)) / (2 pi s_ab).
    """
    for a in range(K):
        for b in range(a + 1):
            rab = r[a, b]
            per_sab = 1.0 / s[a, b] if s[a, b] > 0.0 else 0.0
            cross = 0.0
            for c in range(n):
                P3 = 0.125 + (arcsin[a, b] + arcsin[a, c] + arcsin[b, c]) / (4 * pi)
                Dab = s[a, c] + (r[b, c] - rab * r[a, c]) * per_sab
                Dba = s[b, c] + (r[a, c] - rab * r[b, c]) * per_sab
                cross += u[c] * (cov[c] * P3 + (cov[a] * Dab + cov[b] * Dba) / (4 * pi))
            P2 = 0.25 + arcsin[a, b] / (2 * pi)
            wedge = _wedge(cov[a] * cov[a], cov[b] * cov[b], cov[a] * cov[b], rab, s[a, b])
            square[a, b] += 2.0 * cross + variance * P2 + wedge / (2 * pi)


@jit
def add_linear_teacher(S, w, K, sigma, r, s, arcsin, u, square):
    """Add y = sum_m w_m z_m."""
    n = S.shape[0]
    cov = np.zeros(K)
    variance = 0.0
    for m in range(K, n):
        for k in range(K):
            cov[k] += w[m] * S[k, m] / sigma[k]
        for i in range(K, n):
            variance += w[m] * w[i] * S[m, i]
    add_linear(cov, variance, K, K, r, s, arcsin, u, square)


@jit
def _quadratic_moments(S, w, K, sigma):
    """For D = diag(w) on the teachers: (S D S)_KK, (S D S D S)_KK in unit student fields, tr(D S), tr(D S D S)."""
    n = S.shape[0]
    first, second = np.zeros((K, K)), np.zeros((K, K))
    trace, trace2 = 0.0, 0.0
    for m in range(K, n):
        trace += w[m] * S[m, m]
        for i in range(K, n):
            trace2 += w[m] * w[i] * S[m, i] * S[m, i]
    loading = np.zeros(n)
    for k in range(K):
        for m in range(K, n):
            loading[m] = 0.0
            for i in range(K, n):
                loading[m] += w[m] * S[m, i] * w[i] * S[i, k] / sigma[k]
        for j in range(K):
            for m in range(K, n):
                first[k, j] += S[k, m] / sigma[k] * w[m] * S[m, j] / sigma[j]
                second[k, j] += loading[m] * S[m, j] / sigma[j]
    return first, second, trace, trace2


@jit
def add_quadratic(S, w, K, sigma, r, s, arcsin, u, square):
    """Add y = sum_m w_m z_m^2.

    With x = S D S, t = tr(D S) and f_i = E[delta(i) theta(j) theta(k)] = (1/4 + asin(r_jk.i) / 2pi) / sqrt(2 pi),

        E[theta(a) theta(b) c_+ y] = f_c (t + x_cc) + f_a ((t - x_aa) r_ac + 2 x_ac) + f_b ((t - x_bb) r_bc + 2 x_bc)
                                     + sqrt(det_abc) (2 x_ab - r_ab (x_aa + x_bb)) / (s_ab^2 (2 pi)^(3/2)).

    E[theta(a) theta(b) y^2] sums the moments of order 0, 2, 4 of two fields over the wedge a, b > 0; its axes are the
    unit fields along a + b and a - b, because odd moments across the wedge vanish.
    """
    x, x2, t, t2 = _quadratic_moments(S, w, K, sigma)
    for a in range(K):
        for b in range(a + 1):
            rab, sab = r[a, b], s[a, b]
            wedge = _wedge(x[a, a], x[b, b], x[a, b], rab, sab)
            cross = 0.0
            for c in range(K):
                arc_a, arc_b, arc_c, root = partial_arcsines(rab, r[a, c], r[b, c])
                f = 0.25 * (t + x[c, c] + (t - x[a, a]) * r[a, c] + 2 * x[a, c] + (t - x[b, b]) * r[b, c] + 2 * x[b, c])
                f += arc_c * (t + x[c, c]) / (2 * pi)
                f += arc_a * ((t - x[a, a]) * r[a, c] + 2 * x[a, c]) / (2 * pi)
                f += arc_b * ((t - x[b, b]) * r[b, c] + 2 * x[b, c]) / (2 * pi)
                if sab > 0.0:
                    f += root / sab * wedge / (2 * pi)
                cross += u[c] * f * (1.0 / SQRT_2PI)
            even = (t * t + 2 * t2) * (0.25 + arcsin[a, b] / (2 * pi))
            if sab > 0.0:
                plus = (x[a, a] + x[b, b] + 2 * x[a, b]) / (2 * (1 + rab))
                minus = (x[a, a] + x[b, b] - 2 * x[a, b]) / (2 * (1 - rab))
                mixed = (x[a, a] - x[b, b]) / (2 * sab)
                fourth = (2 - rab) * minus * minus - (2 + rab) * plus * plus
                fourth += rab * (2 * plus * minus + 4 * mixed * mixed)
                even += (2 * t * wedge + 4 * _wedge(x2[a, a], x2[b, b], x2[a, b], rab, sab) + sab * fourth) / (2 * pi)
            square[a, b] += 2.0 * cross + even


@jit
def _erf_arcsines(S, w, K, sigma, r):
    """Sums over erf teachers m, with r_jm = S_jm / (sigma_j sqrt(1 + S_mm)).

    cov_c = sum_m w_m r_cm (K,),  outer_jk = sum_m w_m asin(r_jm.k) (K, K),  inner_jkc = sum_m w_m asin(r_jk.m) r_cm.
    """
    cov, outer, inner = np.zeros(K), np.zeros((K, K)), np.zeros((K, K, K))
    correlation = np.empty(K)
    for m in range(K, S.shape[0]):
        for k in range(K):
            correlation[k] = S[k, m] / (sigma[k] * math.sqrt(1.0 + S[m, m]))
            cov[k] += w[m] * correlation[k]
        for j in range(K):
            for k in range(j + 1):
                arc_j, arc_k, arc_m, _ = partial_arcsines(r[j, k], correlation[j], correlation[k])
                outer[k, j] += w[m] * arc_j
                if j != k:
                    outer[j, k] += w[m] * arc_k
                for c in range(K):
                    inner[j, k, c] += w[m] * arc_m * correlation[c]
                    inner[k, j, c] = inner[j, k, c]
    return cov, outer, inner


@jit(no_reference_counting=True)
def _erf_pair(a, b, K, S, w, sigma, rab):
    """E[theta(a) theta(b) y^2], a != b: each pair of teachers is 4 P4 - 2 P3 - 2 P3' + P2."""
    n = S.shape[0]
    total = 0.0
    for m in range(K, n):
        sm = math.sqrt(1.0 + S[m, m])
        ram, rbm = S[a, m] / (sigma[a] * sm), S[b, m] / (sigma[b] * sm)
        first = arcsine(rab) + arcsine(ram) + arcsine(rbm)
        for i in range(K, m + 1):
            si = math.sqrt(1.0 + S[i, i])
            rai, rbi = S[a, i] / (sigma[a] * si), S[b, i] / (sigma[b] * si)
            P4 = orthants(rab, ram, rai, rbm, rbi, S[m, i] / (sm * si))[0]
            sign_sign = 4.0 * P4 - 0.25 - (first + arcsine(rai) + arcsine(rbi)) / (2 * pi)
            total += (2.0 if i < m else 1.0) * w[m] * w[i] * sign_sign
    return total


@jit
def add_erf(S, w, K, sigma, r, s, arcsin, u, square):
    """Add y = sum_m w_m erf(z_m / sqrt 2); erf(z / sqrt 2) = 2 E[theta(z + xi)] - 1, one independent xi per factor.

    E[theta(a) theta(b) c_+ erf(d)] = (1/sqrt(2 pi)) (r_cd / 4 + (T_ab + T_ac + T_bc) / 2pi),
    T_jk = r_cj asin(r_kd.j) + r_ck asin(r_jd.k) + r_cd asin(r_jk.d).
    """
    n = S.shape[0]
    cov, outer, inner = _erf_arcsines(S, w, K, sigma, r)
    half = 0.0  # E[theta(a) y^2] = E[y^2] / 2, by symmetry
    for m in range(K, n):
        for i in range(K, n):
            half += w[m] * w[i] * arcsine(S[m, i] / math.sqrt((1.0 + S[m, m]) * (1.0 + S[i, i]))) / pi
    for a in range(K):
        for b in range(a + 1):
            cross = 0.0
            for c in range(K):
                T = r[c, a] * outer[b, a] + r[c, b] * outer[a, b] + inner[a, b, c]
                T += r[c, a] * outer[c, a] + outer[a, c] + inner[a, c, c]
                T += r[c, b] * outer[c, b] + outer[b, c] + inner[b, c, c]
                cross += u[c] * (0.25 * cov[c] + T / (2 * pi)) * (1.0 / SQRT_2PI)
            square[a, b] += 2.0 * cross + (half if a == b else _erf_pair(a, b, K, S, w, sigma, r[a, b]))
