"""Closures of SIMD_WIDTH states at once: the last index of every array is the state, and loops over it are vectorised.

``closure(S, w, K, noise2, second_order, H, gradient, C, eps_g, scratch)`` reads covariances S (n, n, SIMD_WIDTH) of the
fields, second layers w (n, SIMD_WIDTH) and squared noises (SIMD_WIDTH,).  It fills the mean Hessian H
(n, n, SIMD_WIDTH), E[g_i Delta] in ``gradient`` (n, SIMD_WIDTH), eps_g (SIMD_WIDTH,) and, if ``second_order``,
C (K, K, SIMD_WIDTH), all at learning rate one; the flow multiplies by the rates.  ``scratch`` has (n + 3)^2 rows.
Results of a state do not depend on the other states, to the last bit.
"""

import math

from .._base.jit import jit
from ..gaussian.elementary import arctan2, p
from .bound import SIMD_WIDTH

TWO_OVER_PI = 2 / math.pi


@jit(fast=True, no_reference_counting=True)
def error_of(w, gradient, eps_g):
    """Fill eps_g = (1/2) sum_i w_i gradient_i."""
    for l in range(SIMD_WIDTH):
        eps_g[l] = 0.0
    for i in range(len(w)):
        for l in range(SIMD_WIDTH):
            eps_g[l] += 0.5 * w[i, l] * gradient[i, l]


@jit(fast=True, no_reference_counting=True)
def _erf_first_order(S, w, H, gradient, scratch):
    """``mean_hessian`` of erf units."""
    n, angle, density, inverse = len(w), scratch[0], scratch[1], scratch[2:]
    for i in range(n):
        for l in range(SIMD_WIDTH):
            inverse[i, l] = 1.0 / (1.0 + S[i, i, l])
            gradient[i, l] = H[i, i, l] = 0.0
    for i in range(n):
        for j in range(i + 1):
            for l in range(SIMD_WIDTH):
                si, sj, sij = S[i, i, l], S[j, j, l], S[i, j, l]
                root = math.sqrt(1.0 + si + sj + (si * sj - sij * sij))
                angle[l] = TWO_OVER_PI * arctan2(sij, root)
                density[l] = TWO_OVER_PI / root * (w[i, l] * w[j, l])
            for a, b in ((i, j), (j, i)):
                for l in range(SIMD_WIDTH):
                    gradient[a, l] += w[b, l] * angle[l]
                for l in range(SIMD_WIDTH):
                    H[a, a, l] -= density[l] * S[i, j, l] * inverse[a, l]
                if a == b:
                    break
                for l in range(SIMD_WIDTH):
                    H[a, b, l] = density[l]
            if i == j:
                for l in range(SIMD_WIDTH):
                    H[i, i, l] += density[l]


@jit(inline=True)
def _arcsine(x):
    """Asin x = pi/2 - 2 asin sqrt((1 - x)/2) beyond 1/2."""
    a = abs(x)
    large = a > 0.5
    z = 0.5 * (1.0 - a) if large else a * a
    angle = (math.sqrt(z) if large else a) * p(z)
    return math.copysign(0.5 * math.pi - 2.0 * angle if large else angle, x)


@jit(fast=True, no_reference_counting=True)
def _erf_C(S, w, K, noise2, C, scratch):
    """C of erf units by tilting the Gaussian measure: see ``_erf``."""
    n = len(w)
    first, inverse, slope, second, total = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    e, f, norm = scratch[5 : 5 + n], scratch[5 + n : 5 + 2 * n], scratch[5 + 2 * n : 5 + 3 * n]
    for a in range(K):
        for b in range(a + 1):
            for l in range(SIMD_WIDTH):
                saa, sbb, sab = S[a, a, l], S[b, b, l], S[a, b, l]
                det = 1.0 + 2.0 * saa if a == b else 1.0 + saa + sbb + (saa * sbb - sab * sab)
                ia, ib = 1.0 / math.sqrt(1.0 + saa), 1.0 / math.sqrt(det)
                first[l], inverse[l], slope[l], second[l] = ia, ib, sab * ia * ia, (1.0 + saa) * ia * ib
                total[l] = noise2[l]
            for c in range(n):
                for l in range(SIMD_WIDTH):
                    x, y = S[a, c, l] * first[l], (S[b, c, l] - slope[l] * S[a, c, l]) * second[l]
                    unit = 1.0 / math.sqrt(1.0 + (S[c, c, l] - x * x - y * y))
                    norm[c, l], e[c, l], f[c, l] = unit, x * unit, y * unit
            for c in range(n):
                for d in range(c + 1):
                    twice = TWO_OVER_PI * (1.0 if c == d else 2.0)
                    for l in range(SIMD_WIDTH):
                        x = S[c, d, l] * norm[c, l] * norm[d, l] - e[c, l] * e[d, l] - f[c, l] * f[d, l]
                        total[l] += twice * (w[c, l] * w[d, l]) * _arcsine(x)
            for l in range(SIMD_WIDTH):
                C[a, b, l] = TWO_OVER_PI * (w[a, l] * w[b, l]) * total[l] * inverse[l]
            for l in range(SIMD_WIDTH):
                C[b, a, l] = C[a, b, l]


@jit(no_reference_counting=True)
def erf_simd(S, w, K, noise2, second_order, H, gradient, C, eps_g, scratch):
    """Erf students of erf teachers."""
    _erf_first_order(S, w, H, gradient, scratch)
    error_of(w, gradient, eps_g)
    if second_order:
        _erf_C(S, w, K, noise2, C, scratch)


@jit(fast=True, no_reference_counting=True)
def quadratic_simd(S, w, K, noise2, second_order, H, gradient, C, eps_g, scratch):
    """Quadratic students of quadratic teachers: ``quadratic_C``, and E[a^2 b^2] = S_aa S_bb + 2 S_ab^2."""
    n, mean, SH = len(w), scratch[0], scratch[1 : 1 + len(w)]
    for l in range(SIMD_WIDTH):
        mean[l] = 0.0
    for i in range(n):
        for l in range(SIMD_WIDTH):
            mean[l] += w[i, l] * S[i, i, l]
    for i in range(n):
        for l in range(SIMD_WIDTH):
            gradient[i, l] = S[i, i, l] * mean[l]
        for j in range(n):
            for l in range(SIMD_WIDTH):
                gradient[i, l] += 2.0 * w[j, l] * S[i, j, l] * S[i, j, l]
            for l in range(SIMD_WIDTH):
                H[i, j, l] = 4.0 * w[i, l] * w[j, l] * S[i, j, l]
        for l in range(SIMD_WIDTH):
            H[i, i, l] += 2.0 * w[i, l] * mean[l]
    error_of(w, gradient, eps_g)
    for k in range(K if second_order else 0):
        for j in range(n):
            for l in range(SIMD_WIDTH):
                SH[j, l] = 0.0
            for i in range(n):
                for l in range(SIMD_WIDTH):
                    SH[j, l] += S[k, i, l] * H[i, j, l]
        for j in range(K):
            for l in range(SIMD_WIDTH):
                C[k, j, l] = (2.0 * eps_g[l] + noise2[l]) * S[k, j, l]
            for i in range(n):
                for l in range(SIMD_WIDTH):
                    C[k, j, l] += 2.0 * SH[i, l] * S[i, j, l]
            for l in range(SIMD_WIDTH):
                C[k, j, l] *= 4.0 * w[k, l] * w[j, l]


@jit(fast=True, no_reference_counting=True)
def linear_simd(S, w, K, noise2, second_order, H, gradient, C, eps_g, scratch):
    """Linear students of linear teachers, with E[Delta^2] = w S w."""
    for i in range(len(w)):
        for l in range(SIMD_WIDTH):
            gradient[i, l] = 0.0
        for j in range(len(w)):
            for l in range(SIMD_WIDTH):
                gradient[i, l] += w[j, l] * S[i, j, l]
            for l in range(SIMD_WIDTH):
                H[i, j, l] = w[i, l] * w[j, l]
    error_of(w, gradient, eps_g)
    for k in range(K):
        for j in range(K):
            for l in range(SIMD_WIDTH):
                C[k, j, l] = w[k, l] * w[j, l] * (2.0 * eps_g[l] + noise2[l])
