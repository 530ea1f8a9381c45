"""Closures near the specialised fixed point, in the differences of students and teachers, without cancellation.

Students and teachers are paired, lambda_k = a_k + x d_k, with x the size of the differences (``scale``) and
``Z = E[(d, a) (d, a)^T]``, shape (2K, 2K), of order one.  Teacher and student share g and v, so that

    Delta / x = (1/x) sum_c v_c [g(a_c + x d_c) - g(a_c)] = sum_c v_c int_0^1 g'(a_c + x t d_c) d_c dt

and every quantity that vanishes with x is divided by a power of x, so that sums have terms of the size of the result:

    A_kj   = -eta v_k v_j E[g'_k g'_j] - [j = k] eta x v_k E[g''_k Delta / x]
    G_kj   = (A + B)_kj / x = -eta v_k v_j E[g'_k (g'(lambda_j) - g'(a_j)) / x] - [j = k] eta v_k E[g''_k Delta / x]
    C_kl   = eta^2 v_k v_l E[g'_k g'_l (Delta / x)^2]              E[F F^T] / x^2
    return   E[(Delta / x)^2] / 2                                  eps_g / x^2

At x = 0 this is the flow linearised at the fixed point.  ``t, weight`` are the nodes of the path in [0, 1].
"""

import math
from math import pi

import numpy as np

from .._base.jit import jit
from ._erf import tilted_covariance


@jit
def _path_fields(Z, K, scale, t, S):
    """Fill S, the covariance of the fields (a_c + scale t_i d_c at index c n + i, then all lambda_k, then all d_k)."""
    n = t.size
    size = S.shape[0]
    unit, shift = np.empty(size, dtype=np.int64), np.empty(size)
    for i in range(size):
        path = i < K * n
        unit[i] = i // n if path else (i - K * n) % K
        shift[i] = scale * (t[i % n] if path else 1.0)
    d0 = K * (n + 1)
    for i in range(size):
        c = unit[i]
        for j in range(i + 1):
            m = unit[j]
            if j >= d0:
                S[i, j] = Z[c, m]
            elif i >= d0:
                S[i, j] = Z[c, K + m] + shift[j] * Z[c, m]
            else:
                first = shift[i] * Z[c, K + m] + shift[j] * Z[m, K + c]
                S[i, j] = Z[K + c, K + m] + first + shift[i] * shift[j] * Z[c, m]
            S[j, i] = S[i, j]


@jit(fast=True)
def _mean_square(S, v, weight):
    """E[(Delta / x)^2] = (2/pi) sum over two points of the path of v_c v_d det^(-1/2) St_{d_c d_d}."""
    K, n = v.size, weight.size
    d0 = K * (n + 1)
    total = 0.0
    for i in range(K * n):
        c = i // n
        xx = 1.0 + S[i, i]
        ci = S[d0 + c, i]
        row = 0.0
        for j in range(i + 1):
            d = j // n
            xy, yy = S[i, j], 1.0 + S[j, j]
            cj, di, dj = S[d0 + c, j], S[d0 + d, i], S[d0 + d, j]
            det = xx * yy - xy * xy
            covariance = S[d0 + c, d0 + d] - (yy * ci * di - xy * (ci * dj + cj * di) + xx * cj * dj) / det
            row += (1.0 if i == j else 2.0) * v[d] * weight[j % n] * covariance / math.sqrt(det)
        total += v[c] * weight[i % n] * row
    return 2 / pi * total


@jit
def erf_differences(Z, v, scale, t, weight, eta, second_order, A, G, C):
    """g(x) = erf(x / sqrt 2): all averages along the path by tilting.

    With M = [[1 + S_xx, S_xy], [S_xy, 1 + S_yy]] and h = (E[d x], E[d y]) for two fields x, y and a difference d,
    E[g'(x) g''(y) d] = -(2/pi) det(M)^(-1/2) (M^-1 h)_y.
    """
    K, n = v.size, t.size
    S = np.empty((K * (n + 2), K * (n + 2)))
    _path_fields(Z, K, scale, t, S)
    d0 = K * (n + 1)
    for k in range(K):
        x = K * n + k
        xx = 1.0 + S[x, x]
        for j in range(K):
            y = K * n + j
            A[k, j] = -2 / pi * eta * v[k] * v[j] / math.sqrt(xx * (1.0 + S[y, y]) - S[x, y] * S[x, y])
        curvature = 0.0  # -E[g''(lambda_k) Delta / x]
        for c in range(K):
            G[k, c] = 0.0
            for i in range(n):
                y = c * n + i
                yy, xy, hx, hy = 1.0 + S[y, y], S[x, y], S[d0 + c, x], S[d0 + c, y]
                det = xx * yy - xy * xy
                factor = 2 / pi * weight[i] * v[c] / (det * math.sqrt(det))
                G[k, c] += eta * v[k] * factor * (xx * hy - xy * hx)
                curvature += factor * (yy * hx - xy * hy)
        G[k, k] += eta * v[k] * curvature
        A[k, k] += eta * scale * v[k] * curvature
    if second_order:
        work, St = np.empty((2, S.shape[0])), np.empty_like(S)
        for k in range(K):
            for j in range(k + 1):
                inverse = tilted_covariance(S, K * n + k, K * n + j, work, St)
                square = _mean_square(St, v, weight)
                C[k, j] = C[j, k] = eta * eta * v[k] * v[j] * square * 2 / pi * inverse
    return _mean_square(S, v, weight) / 2
