"""Matrix C of relu students whose fields have means.

On the quadrant z_k, z_l > 0 the integrand g'_k g'_l Delta^2 has no kink in z_k and z_l, and given these two the other
fields are Gaussian with means affine in them, so that E[Delta^2 | z_k, z_l] is a sum of one- and two-point functions:

    z_k = mu_k + L11 x,   z_l = mu_l + L21 x + L22 y,   x > -mu_k / L11,   y > -(mu_l + L21 x) / L22,

with L the Cholesky factor of their covariance and x, y ~ N(0, 1): Gauss-Legendre in both, whatever K and M.
"""

import math

import numpy as np

from .._base.jit import jit
from ..gaussian.shifted import FAR, W12, W20, X12, X20, Phi, one_point, phi, product
from ..gaussian.two_point import RELU

REACH = 8.5  # standard deviations of x and y
STEEP = 0.35  # spread of a kink, relative to its slope along x or y, below which the coordinate gets panels about it


@jit(bare=True)
def _condition(mu, S, w, pair, others, a, b, V):
    """Fill what the other fields know of z_k, z_l: means a, b per unit of x, y and covariance V; return the factor."""
    k, l = pair
    L11 = math.sqrt(S[k, k])
    L21 = S[k, l] / L11
    L22 = math.sqrt(max(S[l, l] - L21 * L21, 0.0)) if k != l else 0.0
    for i in range(others.size):
        o = others[i]
        a[i] = S[o, k] / L11
        b[i] = (S[o, l] - L21 * a[i]) / L22 if L22 > 1e-9 * L11 else 0.0
    for i in range(others.size):
        for j in range(i + 1):
            V[i, j] = V[j, i] = S[others[i], others[j]] - a[i] * a[j] - b[i] * b[j]
        V[i, i] = max(V[i, i], 0.0)
    return L11, L21, L22


@jit(bare=True)
def _prepare(V, students, sine, inverse):
    """Rules for the covariance of theta theta of the students among the other fields, (pairs, 20); their correlations.

    Correlations do not depend on x and y: per node of the quadrant an exponential per node of these is left.
    """
    pair = 0
    for i in range(students):
        for j in range(i):
            scale = math.sqrt(V[i, i] * V[j, j])
            r = V[i, j] / scale if scale > 0.0 else 1.0
            top = math.asin(r) if abs(r) <= FAR else 0.0
            short = abs(r) < 0.6
            for t in range(20):
                x = X12[t] if short and t < 12 else X20[t]
                s = math.sin(0.5 * top * (1.0 + x))
                sine[pair, t], inverse[pair, t] = s, 1.0 / (1.0 - s * s)
            # number of nodes, and the factor of their sum; none where the general function has to do
            sine[pair, 20] = 12.0 if short else (20.0 if abs(r) <= FAR else 0.0)
            inverse[pair, 20] = 0.25 * top / math.pi
            pair += 1


@jit(bare=True)
def _product_of_relu(ma, mb, root_a, root_b, c, ha, hb, da, db, Pa, Pb, sine, inverse):
    """E[a_+ b_+] of two fields whose rule is ready; d = standard deviation times density at zero."""
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
    left = hb * P + db * Qa + r * da * Qb  # in units of the standard deviations
    return root_a * root_b * (ha * left + da * rest * (ub * Qb + phi(ub)) + r * P)


@jit(bare=True)
def _square(D, m, w, V, root, others, K, teacher, sine, inverse, h, d, P):
    """E[(D + sum_o w_o g_o)^2] of the other fields with means m and covariance V."""
    total = D * D
    pair = 0
    for i in range(others.size):
        student = others[i] < K
        f, wi = (RELU if student else teacher), w[others[i]]
        if student and root[i] > 0.0:
            h[i] = m[i] / root[i]
            d[i], P[i] = phi(h[i]), Phi(h[i])
            mean = root[i] * (h[i] * P[i] + d[i])
            own = V[i, i] * ((h[i] * h[i] + 1.0) * P[i] + h[i] * d[i])
        elif student:
            mean = max(m[i], 0.0)
            own = mean * mean
        else:
            mean = one_point(f, m[i], V[i, i])[0]
            own = product(f, f, m[i], m[i], V[i, i], V[i, i], V[i, i])
            if f == RELU:
                s = math.sqrt(V[i, i])
                x = m[i] / s if s > 0.0 else 0.0
                own = V[i, i] * ((x * x + 1.0) * Phi(x) + x * phi(x)) if s > 0.0 else max(m[i], 0.0) ** 2
        total += wi * (2.0 * D * mean + wi * own)
        for j in range(i):
            code = RELU if others[j] < K else teacher
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


@jit(bare=True)
def _panels(low, high, at, width, count, edges):
    """Edges of panels from low to high, about the places ``at`` where the integrand bends within ``width``."""
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


@jit(bare=True)
def _bends(mu, slope, spread, others, K, teacher, at, width, count):
    """Append where other units have their kinks along a coordinate: those it determines up to a small spread."""
    for i in range(others.size):
        if (others[i] < K or teacher == RELU) and spread[i] < STEEP * abs(slope[i]):
            at[count], width[count] = -mu[i] / slope[i], REACH * spread[i] / abs(slope[i])
            count += 1
    return count


@jit
def relu_class_C(mu, S, w, y, K, teacher, eta, noise, nodes, weights, C):
    """Fill C_kl = eta^2 v_k v_l E[g'_k g'_l (Delta_0^2 + noise^2)]; nodes and weights are those of [0, 1]."""
    n = mu.size
    a, b, m, root, V = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty((n, n))
    h, d, P, spread = np.zeros(n), np.zeros(n), np.zeros(n), np.empty(n)
    at, width, edges, inner = np.empty(n + 1), np.empty(n + 1), np.empty(3 * n + 5), np.empty(3 * n + 5)
    sine, inverse = np.empty((n * n, 21)), np.empty((n * n, 21))
    for k in range(K):
        for l in range(k + 1):
            others = np.empty(n - 2 if k != l else n - 1, np.int64)
            place = students = 0
            for o in range(n):
                if o != k and o != l:
                    others[place] = o
                    place += 1
                    students += o < K
            L11, L21, L22 = _condition(mu, S, w, (k, l), others, a, b, V)
            for i in range(others.size):
                root[i] = math.sqrt(V[i, i])
                spread[i] = math.hypot(b[i], root[i]) if k != l else root[i]
                m[i] = mu[others[i]]
            _prepare(V, students, sine, inverse)
            low = min(max(-mu[k] / L11, -REACH), REACH)
            count = _bends(m, a, spread, others, K, teacher, at, width, 0)
            if k != l and L22 < STEEP * abs(L21):
                at[count], width[count] = -mu[l] / L21, REACH * L22 / abs(L21)
                count += 1
            panels, total = _panels(low, REACH, at, width, count, edges), 0.0
            for panel in range(panels):
                length = edges[panel + 1] - edges[panel]
                for i in range(nodes.size):
                    x = edges[panel] + length * nodes[i]
                    zk, ml = mu[k] + L11 * x, mu[l] + L21 * x
                    factor = length * weights[i] * phi(x)
                    for o in range(others.size):
                        m[o] = mu[others[o]] + a[o] * x
                    if k == l:
                        D = w[k] * zk - y
                        square = _square(D, m, w, V, root, others, K, teacher, sine, inverse, h, d, P)
                        total += factor * (square + noise * noise)
                        continue
                    bottom = -ml / L22 if L22 > 0.0 else (-REACH if ml > 0.0 else REACH)
                    bottom = min(max(bottom, -REACH), REACH)
                    at[0] = width[0] = 0.0  # a whole Gaussian in halves
                    count = _bends(m, b, root, others, K, teacher, at, width, 1 if bottom < -0.5 * REACH else 0)
                    for part in range(_panels(bottom, REACH, at, width, count, inner)):
                        height = inner[part + 1] - inner[part]
                        for j in range(nodes.size):
                            t = inner[part] + height * nodes[j]
                            for o in range(others.size):
                                m[o] = mu[others[o]] + a[o] * x + b[o] * t
                            D = w[k] * zk + w[l] * (ml + L22 * t) - y
                            square = _square(D, m, w, V, root, others, K, teacher, sine, inverse, h, d, P)
                            total += factor * height * weights[j] * phi(t) * (square + noise * noise)
            C[k, l] = C[l, k] = eta * eta * w[k] * w[l] * total
