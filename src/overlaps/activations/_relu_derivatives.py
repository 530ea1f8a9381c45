"""Exact derivatives of the closure of relu students with respect to (Q, R, v), for any teacher.

C_ab = eta^2 v_a v_b X_ab, X_ab = E[theta(a) theta(b) (Delta^2 + noise^2)], theta the step function.  Price's theorem
(``_first_order``) turns each dX_ab/dS_ij into moments of fewer fields.  With c, d not in {a, b},
E[delta(p) f] = E[f | z_p = 0] / sqrt(2 pi S_pp) and kink_pxy = E[delta(p) theta(x) g_y' Delta] (kink_px without g_y'),

    dX/dS_cd = 2 w_c w_d E[theta(a) theta(b) g_c' g_d']          (2 w_c w_d P4 if all four are relu)
    dX/dS_cc = w_c (w_c E[theta(a) theta(b) theta(c)] + kink_cab)          (c a student)
    dX/dS_ac = 2 w_c (kink_abc + w_a E[theta(a) theta(b) g_c'])
    dX/dS_ab = E[delta(a) delta(b) (Delta^2 + noise^2)] + 2 (w_b kink_ab + w_a kink_ba + w_a w_b E[theta(a) theta(b)]).

If a = b the factor theta(b) is absent (index ABSENT).  The other derivatives follow from homogeneity, because rescaling
a student's field is equivalent to rescaling its weight,

    w_k dX/dw_k = 2 S_kk dX/dS_kk + sum_{j != k} S_kj dX/dS_kj,

which gives dX/dw_k for k outside {a, b} and, with Stein's lemma for dX/dw_a, also dX/dS_aa.  At alignment only the two
delta functions in dX/dS_ab diverge, like 1/s.
"""

import math
from math import pi

import numpy as np

from .._base.jit import jit
from ..gaussian.elementary import arctan2
from ..gaussian.orthants import orthants
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU, SQRT_2PI, known, two_point
from ._first_order import derivatives_cost, first_order_derivatives, mean_hessian, readout_product, unknown_S, unknown_v
from ._relu import geometry, relu_C
from ._relu_teachers import partial_arcsines

ABSENT = np.int64(-1)  # index of an absent factor; an int64, because numba would compile again for each literal


@jit(cost=lambda S, K: 1.3e-6 * len(S) ** 2)
def relu_alignment(S, K):
    """Smallest s / sqrt(S_kk S_jj) = sqrt(1 - correlation^2) between a student and any other unit."""
    s = geometry(S)[2]
    smallest = 1.0
    for k in range(K):
        for j in range(S.shape[0]):
            if j != k:
                smallest = min(smallest, s[k, j])
    return smallest


@jit(no_reference_counting=True)
def _arcsine(saa, sbb, sab):
    return arctan2(sab, math.sqrt(max(saa * sbb - sab * sab, 0.0)))


@jit(no_reference_counting=True)
def _correlation(S, x, y):
    return min(max(S[x, y] / math.sqrt(S[x, x] * S[y, y]), -1.0), 1.0)


@jit(no_reference_counting=True)
def _P2(S, x, y):
    return 0.25 + _arcsine(S[x, x], S[y, y], S[x, y]) / (2 * pi)


@jit(no_reference_counting=True)
def _P2_given(S, x, y, p, variance):
    """P2 with the covariance of x and y reduced by S_xp S_yp / variance."""
    ax, ay = S[x, p] / variance, S[y, p] / variance
    saa, sbb, sab = S[x, x] - ax * S[x, p], S[y, y] - ay * S[y, p], S[x, y] - ax * S[y, p]
    return 0.25 + _arcsine(max(saa, 0.0), max(sbb, 0.0), sab) / (2 * pi)


@jit(no_reference_counting=True)
def _reduce(S, p, variance, out):
    """Fill out = S - S_p S_p^T / variance: given z_p = 0 (variance S_pp), or tilted by exp(-z_p^2 / 2) (1 + S_pp)."""
    n = S.shape[0]
    for i in range(n):
        for j in range(n):
            out[i, j] = S[i, j] - S[i, p] * S[j, p] / variance
    if variance == S[p, p]:
        for i in range(n):
            out[p, i] = out[i, p] = 0.0


@jit(no_reference_counting=True)
def _mean1(code, S, x, d):
    """E[theta(x) g(d)]."""
    if code == QUADRATIC:
        return 0.5 * S[d, d]
    if code == ERF:
        return _arcsine(S[x, x], 1.0 + S[d, d], S[x, d]) / pi
    linear = S[x, d] / (math.sqrt(S[x, x]) * SQRT_2PI)
    return linear if code == LINEAR else 0.5 * (linear + math.sqrt(S[d, d]) / SQRT_2PI)


@jit(no_reference_counting=True)
def _mean2(code, S, x, y, d):
    """E[theta(x) theta(y) g(d)], x != y."""
    if code == LINEAR or code == ERF:  # odd functions: E[sign(x) sign(y) g(d)] = 0
        return 0.5 * (_mean1(code, S, x, d) + _mean1(code, S, y, d))
    if code == QUADRATIC:
        inner = S[d, x] * (S[y, d] - S[x, y] * S[x, d] / S[x, x]) + S[d, y] * (S[x, d] - S[x, y] * S[y, d] / S[y, y])
        return S[d, d] * _P2(S, x, y) + inner / (2 * pi * math.sqrt(S[x, x] * S[y, y] - S[x, y] * S[x, y]))
    if d == x or d == y:
        return _mean1(code, S, x + y - d, d)
    # Stein's lemma on d; the three angles share a determinant, because coplanar fields lose all digits otherwise.
    rx, ry, rxy = _correlation(S, d, x), _correlation(S, d, y), _correlation(S, x, y)
    arc_d, arc_x, arc_y, _ = partial_arcsines(rx, ry, rxy)
    moment = 0.25 * (1.0 + rx + ry) + (arc_d + rx * arc_x + ry * arc_y) / (2 * pi)
    return math.sqrt(S[d, d]) * moment / SQRT_2PI


@jit(no_reference_counting=True)
def _mean_error(S, w, K, teacher, x, y):
    """E[theta(x) theta(y) Delta]; x or y may be ABSENT.  A field without variance contributes nothing."""
    if x == ABSENT:
        x, y = y, x
    total = 0.0
    for d in range(S.shape[0]):
        code = RELU if d < K else teacher
        if S[d, d] <= 0.0:
            continue
        if y != ABSENT:
            total += w[d] * _mean2(code, S, x, y, d)
        elif x != ABSENT:
            total += w[d] * _mean1(code, S, x, d)
        elif code == RELU:
            total += w[d] * math.sqrt(S[d, d]) / SQRT_2PI
        elif code == QUADRATIC:
            total += w[d] * S[d, d]
    return total


@jit(no_reference_counting=True)
def _slope_error(S, w, K, teacher, x, y, tilted):
    """E[theta(x) g_y' Delta]; x or y may be ABSENT; tilted: S tilted by the field y, used if g_y is erf."""
    code = LINEAR if y == ABSENT else (RELU if y < K else teacher)
    if code == LINEAR:
        return _mean_error(S, w, K, teacher, x, ABSENT)
    if S[y, y] <= 0.0:
        return _mean_error(S, w, K, teacher, x, ABSENT) * math.sqrt(2 / pi) if code == ERF else 0.0
    if code == RELU:
        return _mean_error(S, w, K, teacher, x, y)
    if code == ERF:
        return math.sqrt(2 / (pi * (1.0 + S[y, y]))) * _mean_error(tilted, w, K, teacher, x, ABSENT)
    total = 0.0  # quadratic: g_y' = 2 y, Stein's lemma on y
    for d in range(S.shape[0]):
        if x == ABSENT:
            total += w[d] * S[y, d] if d < K else 0.0
        elif S[d, d] > 0.0:
            _, slopes, delta, _ = two_point(RELU, RELU if d < K else teacher, S[x, x], S[d, d], S[x, d])
            total += 2 * w[d] * (S[y, x] * delta + S[y, d] * slopes)
    return total


@jit
def _kinks(S, w, K, n_first, teacher, kink):
    """Fill kink_pxy = E[delta(p) theta(x) g_y' Delta] (K, K + 1, n + 1), p < n_first; the last x and y are ABSENT."""
    n = S.shape[0]
    given, tilted = np.empty((n, n)), np.empty((n, n))
    for p in range(n_first):
        _reduce(S, p, S[p, p], given)
        per = 1.0 / (SQRT_2PI * math.sqrt(S[p, p]))
        for y in range(n + 1):
            if teacher == ERF and K <= y < n:
                _reduce(given, y, 1.0 + given[y, y], tilted)
            for x in range(K + 1):
                if x == p or y == p or (y < K and x <= y):  # symmetric in two students
                    continue
                theta, slope = (x if x < K else ABSENT), (y if y < n else ABSENT)
                kink[p, x, y] = per * _slope_error(given, w, K, teacher, theta, slope, tilted)
                if y < x < K:
                    kink[p, y, x] = kink[p, x, y]


@jit(no_reference_counting=True)
def _slope2(code, S, arcsin, x, y, m):
    """E[theta(x) theta(y) g'(m)], three different fields; y may be ABSENT."""
    if y == ABSENT:
        return two_point(RELU, code, S[x, x], S[m, m], S[x, m])[1]
    if code == RELU:
        return 0.125 + (arcsin[x, y] + arcsin[x, m] + arcsin[y, m]) / (4 * pi)
    if code == ERF:
        return math.sqrt(2 / (pi * (1.0 + S[m, m]))) * _P2_given(S, x, y, m, 1.0 + S[m, m])
    return 2 * _mean2(LINEAR, S, x, y, m) if code == QUADRATIC else 0.25 + arcsin[x, y] / (2 * pi)


@jit(no_reference_counting=True)
def _slope3(code, S, r, arcsin, x, y, z, m):
    """E[theta(x) theta(y) theta(z) g'(m)], four different fields."""
    if code == RELU:
        return orthants(r[x, y], r[x, z], r[x, m], r[y, z], r[y, m], r[z, m])[0]
    if code == ERF:
        al = 1.0 + S[m, m]
        P3 = 0.5 * (_P2_given(S, x, y, m, al) + _P2_given(S, x, z, m, al) + _P2_given(S, y, z, m, al)) - 0.25
        return math.sqrt(2 / (pi * al)) * P3
    if code == QUADRATIC:
        arc_x, arc_y, arc_z, _ = partial_arcsines(r[x, y], r[x, z], r[y, z])
        total = S[m, x] / math.sqrt(S[x, x]) * (0.25 + arc_x / (2 * pi))
        total += S[m, y] / math.sqrt(S[y, y]) * (0.25 + arc_y / (2 * pi))
        total += S[m, z] / math.sqrt(S[z, z]) * (0.25 + arc_z / (2 * pi))
        return 2 * total / SQRT_2PI
    return 0.125 + (arcsin[x, y] + arcsin[x, z] + arcsin[y, z]) / (4 * pi)


@jit(no_reference_counting=True)
def _four_fields(S, w, K, teacher, r, arcsin, dX):
    """dX_ab/dS_cd for four different fields, a > b; one orthant probability per set with three students."""
    n = S.shape[0]
    for i in range(K):
        for j in range(i + 1, K):
            for k in range(j + 1, K):
                for l in range(k + 1, n):
                    P4 = 2 * _slope3(RELU if l < K else teacher, S, r, arcsin, i, j, k, l)
                    dX[unknown_S(k, l, K, n), j, i] = w[k] * w[l] * P4
                    dX[unknown_S(j, l, K, n), k, i] = w[j] * w[l] * P4
                    dX[unknown_S(i, l, K, n), k, j] = w[i] * w[l] * P4
                    if l < K:
                        dX[unknown_S(j, k, K, n), l, i] = w[j] * w[k] * P4
                        dX[unknown_S(i, k, K, n), l, j] = w[i] * w[k] * P4
                        dX[unknown_S(i, j, K, n), l, k] = w[i] * w[j] * P4


@jit(no_reference_counting=True)
def _other_fields(a, b, S, w, K, teacher, arcsin, kink, slope, dX):
    """Fill dX_ab/dS_ij for up to three fields, not all in {a, b}; slope_c = E[theta(a) theta(b) g_c']."""
    n = S.shape[0]
    theta_b, x = (b, b) if a != b else (ABSENT, K)
    P2 = 0.25 + arcsin[a, b] / (2 * pi)
    for c in range(n):
        if c == a or c == b:
            slope[c] = P2
            continue
        slope[c] = _slope2(RELU if c < K else teacher, S, arcsin, a, theta_b, c)
        dX[unknown_S(min(a, c), max(a, c), K, n), a, b] = 2 * w[c] * (kink[a, x, c] + w[a] * slope[c])
        if a != b:
            dX[unknown_S(min(b, c), max(b, c), K, n), a, b] = 2 * w[c] * (kink[b, a, c] + w[b] * slope[c])
        if c < K:
            dX[unknown_S(c, c, K, n), a, b] = w[c] * (w[c] * slope[c] + kink[c, a, b if a != b else n])
            for d in range(c + 1, n):
                if a == b and d != a:
                    mixed = _slope2(RELU if d < K else teacher, S, arcsin, a, c, d)
                    dX[unknown_S(c, d, K, n), a, a] = 2 * w[c] * w[d] * mixed


@jit(no_reference_counting=True)
def _homogeneity(a, b, S, w, K, kink, slope, dX):
    """Complete the entry (a, b): dX/dw_k, and dX/dS_kk for k in {a, b}, from the homogeneity of each student."""
    n = S.shape[0]
    for k in range(K):
        outer, inner = 0.0, 0.0
        for j in range(n):
            if j != k:
                outer += S[k, j] * dX[unknown_S(min(k, j), max(k, j), K, n), a, b]
                inner += S[k, j] * w[j] * slope[j]
        u, v = unknown_S(k, k, K, n), unknown_v(k, K, n)
        if k != a and k != b:
            dX[v, a, b] = (2 * S[k, k] * dX[u, a, b] + outer) / w[k]
            continue
        # Stein's lemma: E[z_k theta(a) theta(b) Delta] with derivatives of Delta and of the steps.
        inner += S[k, k] * w[k] * slope[k]
        if a == b:
            inner += S[a, a] * kink[a, K, n]
        else:
            inner += S[k, a] * kink[a, b, n] + S[k, b] * kink[b, a, n]
        dX[v, a, b] = 2 * inner
        dX[u, a, b] = (2 * w[k] * inner - outer) / (2 * S[k, k])


@jit(cost=lambda S, w, K, n_first, *_: 1e-5 + 1.5e-5 * (n_first * K) ** 2)
def relu_square_derivatives(S, w, K, n_first, teacher, noise, X, dX):
    """Fill X (K, K) and, for entries of the first ``n_first`` students and with respect to theirs, dX (d_g, K, K)."""
    n = S.shape[0]
    weight = np.empty(n)
    for c in range(n):
        weight[c] = 1e-100 if w[c] == 0.0 else w[c]  # not zero: negligible in Delta, and one can divide by it
    kink = np.zeros((K, K + 1, n + 1))
    slope, gradient, H = np.empty(n), np.empty(n), np.empty((n, n))
    given, given2 = np.empty((n, n)), np.empty((n, n))
    _, r, _, arcsin = geometry(S)
    _kinks(S, weight, K, n_first, teacher, kink)
    _four_fields(S, weight, K, teacher, r, arcsin, dX)
    relu_C(S, weight, K, teacher, 1.0, noise, X)
    for a in range(n_first):
        _reduce(S, a, S[a, a], given)
        for b in range(a + 1):
            X[a, b] /= weight[a] * weight[b]
            X[b, a] = X[a, b]
            _other_fields(a, b, S, weight, K, teacher, arcsin, kink, slope, dX)
            if a != b:
                _reduce(given, b, given[b, b], given2)
                square = 2 * mean_hessian(given2, weight, K, RELU, teacher, H, gradient) + noise * noise
                steps = weight[b] * kink[a, b, n] + weight[a] * kink[b, a, n] + weight[a] * weight[b] * slope[a]
                dX[unknown_S(b, a, K, n), a, b] = square / (2 * pi * math.sqrt(S[a, a] * given[b, b])) + 2 * steps
            _homogeneity(a, b, S, weight, K, kink, slope, dX)
            for u in range(dX.shape[0]):
                dX[u, b, a] = dX[u, a, b]


@jit
def relu_C_derivatives(S, w, K, teacher, eta, noise, dC):
    """Fill dC (d_g, K, K)."""
    if not known(RELU, teacher):
        dC[:] = math.nan
        return
    X = np.empty((K, K))
    relu_square_derivatives(S, w, K, K, teacher, noise, X, dC)
    readout_product(X, w, K, S.shape[0], eta * eta, dC)


@jit(cost=derivatives_cost)
def relu_derivatives(S, w, K, teacher, eta, eta_v, noise, second_order, dA, dB, dC, ddv):
    """Fill dA (d_g, K, K), dB (d_g, K, M), ddv (d_g, K) and, if second_order, dC (d_g, K, K)."""
    first_order_derivatives(S, w, K, RELU, teacher, eta, eta_v, dA, dB, ddv)
    if second_order:
        relu_C_derivatives(S, w, K, teacher, eta, noise, dC)
