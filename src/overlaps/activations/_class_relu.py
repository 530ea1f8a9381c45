"""Matrix C of students a z + b relu(z) whose fields have means.

On the quadrant z_k, z_l > 0 the integrand g'_k g'_l Delta^2 has no kink in z_k and z_l, and given these two the other
fields are Gaussian with means affine in them, so that E[Delta^2 | z_k, z_l] is a sum of one- and two-point functions:

    z_k = mu_k + L11 x,   z_l = mu_l + L21 x + L22 y,   x > -mu_k / L11,   y > -(mu_l + L21 x) / L22,

with L the Cholesky factor of their covariance and x, y ~ N(0, 1): Gauss-Legendre in both, whatever K and M.  The other
quadrants, where relu is zero, follow from fields of the other sign; g' is a + b or a there.  The linear terms of the
other units are one more Gaussian field Y, and E[Y f(z)] = E[Y] E[f] + Cov(Y, z) E[f'].
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.shifted import MAX_CORRELATION, W12, W20, X12, X20, Phi, one_point, phi, product
from ..gaussian.two_point import RELU


class QuadrantOptions(NamedTuple):
    """Tunable numbers of the integral over a quadrant."""

    half_width: float = 8.5  # range of the integrals over x and y, in standard deviations
    # Conditional variance of a field, relative to its variance, below which it is a rounding error: the field is then a
    # function of x and y.
    zero_variance: float = 1e-14
    # Spread of a kink, relative to its slope along x or y, below which panels end at the kink. Halved, more kinks lie
    # inside panels.
    steep_kink: float = 0.35


QUADRANT = QuadrantOptions()


@jit(no_reference_counting=True)
def _condition(mu, S, w, pair, others, a, b, V):
    """Fill conditional means a, b per unit of x, y and covariance V of the other fields; return the factor L."""
    k, l = pair
    L11 = math.sqrt(S[k, k])
    L21 = S[k, l] / L11
    L22 = math.sqrt(max(S[l, l] - L21 * L21, 0.0)) if k != l else 0.0
    for i in range(others.size):
        o = others[i]
        a[i] = S[o, k] / L11
        # For parallel students, y has no variance, and the quotient would be a rounding error.
        b[i] = (S[o, l] - L21 * a[i]) / L22 if L22 > 1e-9 * L11 else 0.0
    for i in range(others.size):
        for j in range(i + 1):
            V[i, j] = V[j, i] = S[others[i], others[j]] - a[i] * a[j] - b[i] * b[j]
        V[i, i] = max(V[i, i], 0.0)
        if V[i, i] < QUADRANT.zero_variance * S[others[i], others[i]]:
            V[i, i] = 0.0
        for j in range(i):
            # Impose the Cauchy-Schwarz inequality, which rounding violates for coplanar fields: roots of negative
            # numbers would follow.
            bound = math.sqrt(V[i, i] * V[j, j])
            V[i, j] = V[j, i] = min(max(V[i, j], -bound), bound)
    return L11, L21, L22


@jit(no_reference_counting=True)
def _prepare(V, students, sine, inverse):
    """Fill nodes of the angle integral of E[theta theta] for pairs of students among the other fields, (pairs, 20).

    The correlations do not depend on x and y, so that each node of the quadrant needs one exponential per node of
    angle.
    """
    pair = 0
    for i in range(students):
        for j in range(i):
            scale = math.sqrt(V[i, i] * V[j, j])
            r = V[i, j] / scale if scale > 0.0 else 1.0
            top = math.asin(r) if abs(r) <= MAX_CORRELATION.nodes_20 else 0.0
            # Twelve nodes are exact to rounding up to 0.6, and twenty up to ``nodes_20``; beyond, ``product`` is used.
            short = abs(r) < 0.6
            for t in range(20):
                x = X12[t] if short and t < 12 else X20[t]
                s = math.sin(0.5 * top * (1.0 + x))
                sine[pair, t], inverse[pair, t] = s, 1.0 / (1.0 - s * s)
            # Number of nodes, or 0 where ``product`` is used, and the factor of their sum.
            sine[pair, 20] = 12.0 if short else (20.0 if abs(r) <= MAX_CORRELATION.nodes_20 else 0.0)
            inverse[pair, 20] = 0.25 * top / math.pi
            pair += 1


@jit(no_reference_counting=True)
def _product_of_relu(ma, mb, root_a, root_b, c, ha, hb, da, db, Pa, Pb, sine, inverse):
    """E[a_+ b_+] of two fields with nodes from ``_prepare``; d = standard deviation times density at zero."""
    n, hk, hs, total = int(sine[20]), ha * hb, 0.5 * (ha * ha + hb * hb), 0.0
    if n == 12:
        for t in range(12):
            total += W12[t] * math.exp((sine[t] * hk - hs) * inverse[t])
    else:
        for t in range(20):
            total += W20[t] * math.exp((sine[t] * hk - hs) * inverse[t])
    P = Pa * Pb + inverse[20] * total
    r = c / (root_a * root_b)
    rest = math.sqrt(1.0 - r * r)
    ua, ub = (ha - r * hb) / rest, (hb - r * ha) / rest
    Qa, Qb = Phi(ua), Phi(ub)
    # Stein's lemma for a_+; the other terms are densities at zero times conditional probabilities.
    mean_b = hb * P + db * Qa + r * da * Qb  # in units of the standard deviations
    return root_a * root_b * (ha * mean_b + da * rest * (ub * Qb + phi(ub)) + r * P)


@jit(no_reference_counting=True)
def _square(D, m, units, given, nodes, scratch):
    """E[(D + sum_o linear_o z_o + w_o f_o)^2] of the other fields, with means m."""
    w, linear, others, K, teacher = units
    V, root, cov, variance = given
    sine, inverse = nodes
    h, d, P = scratch
    for i in range(others.size):
        D += linear[others[i]] * m[i]
    total = D * D + variance
    pair = 0
    for i in range(others.size):
        student = others[i] < K
        f, wi = (RELU if student else teacher), w[others[i]]
        if student and root[i] > 0.0:
            h[i] = m[i] / root[i]
            d[i], P[i] = phi(h[i]), Phi(h[i])
            mean, slope = root[i] * (h[i] * P[i] + d[i]), P[i]
            second = V[i, i] * ((h[i] * h[i] + 1.0) * P[i] + h[i] * d[i])
        # without variance, the field equals its mean
        elif student:
            mean, slope = max(m[i], 0.0), 0.0
            second = mean * mean
        else:
            mean, slope, _, _, _ = one_point(f, m[i], V[i, i])
            second = product(f, f, m[i], m[i], V[i, i], V[i, i], V[i, i])
            if f == RELU:
                s = math.sqrt(V[i, i])
                x = m[i] / s if s > 0.0 else 0.0
                second = V[i, i] * ((x * x + 1.0) * Phi(x) + x * phi(x)) if s > 0.0 else max(m[i], 0.0) ** 2
        total += wi * (2.0 * (D * mean + cov[i] * slope) + wi * second)
        for j in range(i):
            code = RELU if others[j] < K else teacher
            # Nodes from ``_prepare`` exist for pairs of students only.
            if student and sine[pair, 20] > 0.0:
                gg = _product_of_relu(
                    m[i], m[j], root[i], root[j], V[i, j], h[i], h[j], d[i], d[j], P[i], P[j], sine[pair], inverse[pair]
                )
            else:
                gg = product(f, code, m[i], m[j], V[i, i], V[j, j], V[i, j])
            if student:
                pair += 1
            total += 2.0 * wi * w[others[j]] * gg
    return total


@jit(no_reference_counting=True)
def _panels(low, high, at, width, count, edges):
    """Fill edges of panels from low to high, with edges at ``at`` and ``at`` +- ``width``; return their number."""
    edges[0], n = low, 1
    for c in range(count):
        for side in (-1.0, 0.0, 1.0):
            x = at[c] + side * width[c]
            if low < x < high and (side == 0.0 or width[c] > 0.0):
                i = n
                while edges[i - 1] > x:
                    edges[i] = edges[i - 1]
                    i -= 1
                edges[i] = x
                n += 1
    edges[n] = high
    return n


@jit(no_reference_counting=True)
def _bends(mu, slope, spread, others, K, teacher, at, width, count):
    """Append positions and widths of the kinks of other units along a coordinate; return the new count."""
    for i in range(others.size):
        if (others[i] < K or teacher == RELU) and spread[i] < QUADRANT.steep_kink * abs(slope[i]):
            at[count], width[count] = -mu[i] / slope[i], QUADRANT.half_width * spread[i] / abs(slope[i])
            count += 1
    return count


@jit(no_reference_counting=True)
def _quadrant(pair, L, y, noise, mu, others_along, quadrature, units, given, angle_nodes, scratch, panels):
    """E[theta(z_k) theta(z_l) (Delta_0^2 + noise^2)], where the output of k and l is gk z_k + gl z_l.

    ``pair`` is (mk, ml, gk, gl, whether k = l); ``others_along`` are slopes of the means of the other fields along x
    and y, and their spread.
    """
    (mk, ml, gk, gl, equal), (L11, L21, L22), (a, b, spread) = pair, L, others_along
    _, _, others, K, teacher = units
    root, (nodes, weights), end = given[1], quadrature, QUADRANT.half_width
    m, at, width, edges, inner = panels
    for o in range(others.size):
        m[o] = mu[others[o]]
    low = min(max(-mk / L11, -end), end)
    count = _bends(m, a, spread, others, K, teacher, at, width, 0)
    if not equal and L22 < QUADRANT.steep_kink * abs(L21):
        at[count], width[count] = -ml / L21, end * L22 / abs(L21)
        count += 1
    total = 0.0
    for panel in range(_panels(low, end, at, width, count, edges)):
        length = edges[panel + 1] - edges[panel]
        for i in range(nodes.size):
            x = edges[panel] + length * nodes[i]
            zk, shifted = mk + L11 * x, ml + L21 * x
            factor = length * weights[i] * phi(x)
            for o in range(others.size):
                m[o] = mu[others[o]] + a[o] * x
            if equal:
                total += factor * (_square(gk * zk - y, m, units, given, angle_nodes, scratch) + noise * noise)
                continue
            bottom = -shifted / L22 if L22 > 0.0 else (-end if shifted > 0.0 else end)
            bottom = min(max(bottom, -end), end)
            at[0] = width[0] = 0.0  # a full Gaussian is split at its centre
            count = _bends(m, b, root, others, K, teacher, at, width, 1 if bottom < -0.5 * end else 0)
            for i_y in range(_panels(bottom, end, at, width, count, inner)):
                height = inner[i_y + 1] - inner[i_y]
                for j in range(nodes.size):
                    t = inner[i_y] + height * nodes[j]
                    for o in range(others.size):
                        m[o] = mu[others[o]] + a[o] * x + b[o] * t
                    D = gk * zk + gl * (shifted + L22 * t) - y
                    square = _square(D, m, units, given, angle_nodes, scratch)
                    total += factor * height * weights[j] * phi(t) * (square + noise * noise)
    return total


@jit
def relu_class_C(mu, S, w, linear, y, K, teacher, eta, noise, nodes, weights, C):
    """Fill C_kl = eta^2 v_k v_l E[g'_k g'_l (Delta_0^2 + noise^2)] of units v g = linear z + w relu(z).

    Nodes and weights are those of [0, 1]; ``teacher`` is the code of the function that has weights w in teachers.
    """
    n = mu.size
    a, b, root, V = np.empty(n), np.empty(n), np.empty(n), np.empty((n, n))
    a_signed, b_signed = np.empty(n), np.empty(n)
    scratch, spread = (np.zeros(n), np.zeros(n), np.zeros(n)), np.empty(n)
    panels = np.empty(n), np.empty(n + 1), np.empty(n + 1), np.empty(3 * n + 5), np.empty(3 * n + 5)
    angle_nodes, cov = (np.empty((n * n, 21)), np.empty((n * n, 21))), np.empty(n)
    for k in range(K):
        for l in range(k + 1):
            others = np.empty(n - 2 if k != l else n - 1, np.int64)
            count = students = 0
            for o in range(n):
                if o != k and o != l:
                    others[count] = o
                    count += 1
                    students += o < K
            L11, L21, L22 = _condition(mu, S, w, (k, l), others, a, b, V)
            variance = 0.0
            for i in range(others.size):
                root[i] = math.sqrt(V[i, i])
                spread[i] = math.hypot(b[i], root[i]) if k != l else root[i]
                cov[i] = 0.0
                for j in range(others.size):
                    cov[i] += V[i, j] * linear[others[j]]
                variance += linear[others[i]] * cov[i]
            _prepare(V, students, angle_nodes[0], angle_nodes[1])
            total = 0.0
            for s in (1.0, -1.0):
                for t in (1.0, -1.0):
                    gk, gl = linear[k] + (w[k] if s > 0.0 else 0.0), linear[l] + (w[l] if t > 0.0 else 0.0)
                    if gk * gl == 0.0 or (k == l and s != t):
                        continue
                    for i in range(others.size):
                        a_signed[i], b_signed[i] = s * a[i], t * b[i]
                    total += (gk * gl) * _quadrant(
                        (s * mu[k], t * mu[l], s * gk, t * gl, k == l), (L11, s * t * L21, L22), y, noise, mu,
                        (a_signed, b_signed, spread), (nodes, weights), (w, linear, others, K, teacher),
                        (V, root, cov, variance), angle_nodes, scratch, panels,
                    )  # fmt: skip
            C[k, l] = C[l, k] = eta * eta * total
