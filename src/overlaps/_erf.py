"""Matrix C of erf students, for any teacher, by tilting the Gaussian measure.

For g(x) = erf(x / sqrt 2), g'(a) g'(b) = (2/pi) exp(-(a^2 + b^2)/2) turns N(0, S) into a narrower Gaussian N(0, St):

    E[g'(a) g'(b) f(z)] = (2/pi) det^(-1/2) E_{z ~ N(0, St)}[f(z)],      det = (1 + S_aa)(1 + S_bb) - S_ab^2,
    St_cd = S_cd - e_c e_d - f_c f_d,   e_c = S_ac / sqrt(1 + S_aa),
    f_c = (S_bc - S_ab S_ac / (1 + S_aa)) sqrt((1 + S_aa) / det),

also for a = b, with det = 1 + 2 S_aa.  With f = Delta^2 a table of two-point integrals remains.  For an erf teacher
this is I_4 of Saad and Solla (1995), one arcsine per pair (c, d) instead of three square roots and an arcsine.
"""

import math

import numpy as np

from ._integrals import ERF, two_point
from ._jit import jit

# asin(x) = x p(x^2) on |x| <= 1/2; minimax polynomial of degree 12, error 1.7e-17.  A polynomial, because LLVM
# vectorises it and cannot vectorise a call to the C library.
_P = (
    1.0,
    0.16666666666664942,
    0.07500000000385201,
    0.044642856805998936,
    0.03038195969768514,
    0.022371749733164054,
    0.01735977964134998,
    0.01388484282640208,
    0.012170138592391726,
    0.0065293020047365695,
    0.019513468251252167,
    -0.016187392271599134,
    0.03187962140081284,
)
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10, _P11, _P12 = _P
HALF_PI = 0.5 * math.pi


@jit(inline=True)
def _p(z):
    # Estrin's scheme: short dependency chains
    z2 = z * z
    z4 = z2 * z2
    low = ((_P0 + _P1 * z) + z2 * (_P2 + _P3 * z)) + z4 * ((_P4 + _P5 * z) + z2 * (_P6 + _P7 * z))
    return low + z4 * z4 * (((_P8 + _P9 * z) + z2 * (_P10 + _P11 * z)) + z4 * _P12)


@jit(fast=True)
def _sum_asin_half(x, weight):
    """sum_i weight_i asin(x_i) for |x_i| <= 1/2."""
    total = 0.0
    for i in range(x.size):
        total += weight[i] * (x[i] * _p(x[i] * x[i]))
    return total


@jit(fast=True)
def _sum_asin(x, weight):
    """sum_i weight_i asin(x_i) for |x_i| <= 1; beyond 1/2 asin x = pi/2 - 2 asin sqrt((1 - x)/2)."""
    total = 0.0
    for i in range(x.size):
        a = abs(x[i])
        far = a > 0.5
        z = 0.5 * (1.0 - a) if far else a * a
        y = math.sqrt(z) if far else a
        angle = y * _p(z)
        angle = HALF_PI - 2.0 * angle if far else angle
        total += weight[i] * math.copysign(angle, x[i])
    return total


@jit(inline=True)
def _tilt(S, a, b, e, f):
    """Fill the tilting vectors e, f (n,) of the pair (a, b); return det."""
    saa = 1.0 + S[a, a]
    if a == b:
        det = 1.0 + 2.0 * S[a, a]
    else:
        det = 1.0 + S[a, a] + S[b, b] + max(S[a, a] * S[b, b] - S[a, b] * S[a, b], 0.0)
    slope = S[a, b] / saa
    ia = 1.0 / math.sqrt(saa)
    ib = math.sqrt(saa / det)
    for c in range(S.shape[0]):
        e[c] = S[a, c] * ia
        f[c] = (S[b, c] - slope * S[a, c]) * ib
    return det


@jit(fast=True)
def _pack(S, e, f, norm, x):
    """Lower triangle of the tilted correlations St_cd / sqrt((1 + St_cc)(1 + St_dd)), row by row; e, f scaled."""
    i = 0
    for c in range(S.shape[0]):
        ec, fc, nc = e[c], f[c], norm[c]
        for d in range(c + 1):
            x[i + d] = S[c, d] * nc * norm[d] - ec * e[d] - fc * f[d]
        i += c + 1


@jit(inline=True)
def _tilted_arcsines(S, e, f, norm, x, weight):
    """E_St[Delta^2] pi/2 for an erf teacher: sum_cd w_c w_d asin(...), as one long loop over the packed triangle."""
    largest = 0.0
    for c in range(S.shape[0]):
        variance = S[c, c] - e[c] * e[c] - f[c] * f[c]
        norm[c] = 1.0 / math.sqrt(1.0 + variance)
        e[c] *= norm[c]
        f[c] *= norm[c]
        largest = max(largest, variance * norm[c] * norm[c])
    _pack(S, e, f, norm, x)
    # |x_cd| <= largest: when it is below 1/2 (all variances below 1) the loop needs no square root
    return _sum_asin_half(x, weight) if largest <= 0.5 else _sum_asin(x, weight)


@jit
def _tilted_error(S, w, K, teacher, e, f):
    """E_St[Delta^2] for any teacher."""
    total = 0.0
    for c in range(S.shape[0]):
        code_c = ERF if c < K else teacher
        for d in range(c + 1):
            code_d = ERF if d < K else teacher
            scc = S[c, c] - e[c] * e[c] - f[c] * f[c]
            sdd = S[d, d] - e[d] * e[d] - f[d] * f[d]
            gg = two_point(code_c, code_d, scc, sdd, S[c, d] - e[c] * e[d] - f[c] * f[d])[0]
            total += (1.0 if c == d else 2.0) * w[c] * w[d] * gg
    return total


@jit
def erf_C(S, w, K, teacher, eta, noise, C):
    """Fill C_kl = eta^2 v_k v_l E[g'_k g'_l Delta^2]."""
    n = S.shape[0]
    e, f, norm = np.empty(n), np.empty(n), np.empty(n)
    x, weight = np.empty(n * (n + 1) // 2), np.empty(n * (n + 1) // 2)
    i = 0
    for c in range(n):
        for d in range(c + 1):
            weight[i] = w[c] * w[d] * (1.0 if c == d else 2.0)
            i += 1
    for a in range(K):
        for b in range(a + 1):
            det = _tilt(S, a, b, e, f)
            if teacher == ERF:
                square = 2 / math.pi * _tilted_arcsines(S, e, f, norm, x, weight)
            else:
                square = _tilted_error(S, w, K, teacher, e, f)
            C[a, b] = eta * eta * w[a] * w[b] * (square + noise * noise) * 2 / (math.pi * math.sqrt(det))
            C[b, a] = C[a, b]
