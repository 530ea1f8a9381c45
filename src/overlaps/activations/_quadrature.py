"""Gaussian integrals of functions without closed forms: two fields by product rules, up to four by a tensor rule.

Fields are whitened, z = L u with S = L L^T, and u is integrated by the midpoint rule.  For a function analytic in a
strip around the real axis (tanh, gelu, softplus) it converges geometrically, and faster than Gauss-Hermite, whose
nodes spread over ranges where the weight is nothing.  A kink makes any of these rules converge like 1/n^2;
:class:`Ladder` compares sizes and refuses what does not settle.
"""

import numpy as np
from scipy.special import erf, ndtr

from ..gaussian.rules import factor, graded, midpoint, widening
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU, SQRT_2PI, two_point

PLANE_NODES = (64, 96, 128, 192, 256, 384, 512)  # the largest settle tanh at a variance of 60
TENSOR_NODES = {2: (64, 96, 128, 192), 3: (32, 48, 64, 96), 4: (24, 32, 48)}  # by number of fields


def _values(f, z):
    """g, g' and g'' at z; without g'', z g' stands in for it and Stein's lemma repairs the integral."""
    dg = f.dg(z)
    return f.g(z), dg, z * dg if f.d2g is None else f.d2g(z)


def _stein(f, integral, variance, covariance, slopes):
    """E[g''(a) h] = (E[a g'(a) h(b)] - S_ab E[g'(a) h'(b)]) / S_aa for an activation without g''."""
    if f.d2g is not None:
        return integral
    return (integral - covariance * slopes) / variance if variance > 0.0 else np.nan


def _plane(f, h, saa, sbb, sab, n):
    """E[f h], E[f' h'], E[f'' h], E[f h''] for two functions without closed forms."""
    if saa < sbb:
        gg, dd, g_d2g, d2g_g = _plane(h, f, sbb, saa, sab, n)
        return gg, dd, d2g_g, g_d2g
    u, p = midpoint(n)
    slope = sab / saa if saa > 0.0 else 0.0
    spread = np.sqrt(max(sbb - slope * sab, 0.0))
    x, q = (u, p) if spread > 0.0 else (np.zeros(1), np.ones(1))
    a = np.sqrt(saa) * u
    fa = [p * value for value in _values(f, a)]
    hb = [value @ q for value in _values(h, slope * a[:, None] + spread * x)]
    dd = fa[1] @ hb[1]
    return fa[0] @ hb[0], dd, _stein(f, fa[2] @ hb[0], saa, sab, dd), _stein(h, fa[0] @ hb[2], sbb, sab, dd)


def _conditional(code, m, s):
    """E[h(b)], E[h'(b)], E[h''(b)] of a closed-form function of b ~ N(m, s^2)."""
    if code == LINEAR:
        return m, np.ones_like(m), np.zeros_like(m)
    if code == QUADRATIC:
        return m * m + s * s, 2 * m, np.full_like(m, 2.0)
    if code == ERF:
        t = 1 / (1 + s * s)
        slope = np.sqrt(2 * t / np.pi) * np.exp(-0.5 * t * m * m)
        return erf(m * np.sqrt(0.5 * t)), slope, -m * t * slope
    if code != RELU:
        raise ValueError(f"code = {code}; expected {LINEAR}, {QUADRATIC}, {RELU} or {ERF}.")
    density = np.exp(-0.5 * (m / s) ** 2) / SQRT_2PI
    return m * ndtr(m / s) + s * density, ndtr(m / s), density / s


def _line(f, mixture, saa, sbb, sab, n):
    """The same four integrals when the partner has closed-form conditional expectations: one dimension is left."""
    u, p = graded(n)
    a = np.sqrt(saa) * u
    slope = sab / saa if saa > 0.0 else 0.0
    # at least 1e-8 wide, so that relu'' is resolved by the graded rule; the value changes by less than rounding
    spread = max(np.sqrt(max(sbb - slope * sab, 0.0)), 1e-8 * np.sqrt(sbb), 1e-150)
    fa = [p * value for value in _values(f, a)]
    hb = [0.0, 0.0, 0.0]
    for amplitude, scale in zip(mixture.amplitudes, mixture.scales, strict=True):
        values = _conditional(mixture.code, scale * slope * a, abs(scale) * spread)
        for order, value in enumerate(values):
            hb[order] = hb[order] + amplitude * scale**order * value
    dd = fa[1] @ hb[1]
    return fa[0] @ hb[0], dd, _stein(f, fa[2] @ hb[0], saa, sab, dd), fa[0] @ hb[2]


def _closed(f, h, saa, sbb, sab):
    """The same four integrals of two mixtures of closed forms."""
    total = np.zeros(4)
    for a, b in zip(f.amplitudes, f.scales, strict=True):
        for c, d in zip(h.amplitudes, h.scales, strict=True):
            integrals = two_point(f.code, h.code, b * b * saa, d * d * sbb, b * d * sab)
            total += a * c * np.array([1.0, b * d, b * b, d * d]) * integrals
    return total


def tables(S, K, student, teacher, n):
    """E[g_i g_j] (n, n), E[g_k' g_j'] (K, n) and E[g_k'' g_j] (K, n), all that A, B, dv and eps_g need.

    ``student`` and ``teacher`` are pairs (activation, exact mixture or None); n is the size of the rules.
    """
    size = len(S)
    variance = np.maximum(np.diag(S), 0.0)  # an integrator may overshoot where a norm vanishes
    gg, dd, hh = np.empty((size, size)), np.empty((K, size)), np.empty((K, size))
    for i in range(size):
        f, exact_f = student if i < K else teacher
        for j in range(i + 1):
            h, exact_h = student if j < K else teacher
            args = variance[i], variance[j], S[i, j]
            if exact_f and exact_h:
                integrals = _closed(exact_f, exact_h, *args)
            elif exact_h:
                integrals = _line(f, exact_h, *args, n)
            elif exact_f:
                value, slopes, g_d2g, d2g_g = _line(h, exact_f, variance[j], variance[i], S[i, j], n)
                integrals = value, slopes, d2g_g, g_d2g
            else:
                integrals = _plane(f, h, *args, n)
            gg[i, j] = gg[j, i] = integrals[0]
            if j < K:
                dd[j, i], hh[j, i] = integrals[1], integrals[3]
            if i < K:
                dd[i, j], hh[i, j] = integrals[1], integrals[2]
    return gg, dd, hh


def tensor_square(S, w, K, student, teacher, n):
    """E[g_k' g_l' Delta^2] (K, K) by the tensor rule on all fields at once; n nodes in each dimension.

    z = L u with students first and L triangular: g'_k lives on the first k + 1 axes, so teachers are summed out first.
    """
    size = len(w)
    L = factor(S)
    axes = [widening(n) if L[j, j] > 0.0 else (np.zeros(1), np.ones(1)) for j in range(size)]
    u = [nodes.reshape([-1 if axis == j else 1 for axis in range(size)]) for j, (nodes, _) in enumerate(axes)]
    z = [sum(L[i, j] * u[j] for j in range(i + 1)) for i in range(size)]
    square = sum(w[i] * (student if i < K else teacher).g(z[i]) for i in range(size)) ** 2
    square = np.broadcast_to(square, [len(p) for _, p in axes])
    for _, p in axes[: K - 1 : -1]:
        square = square @ p
    for j, (_, p) in enumerate(axes[:K]):
        square = square * p.reshape([-1 if axis == j else 1 for axis in range(K)])
    slopes = [student.dg(z[k]).reshape(z[k].shape[:K]) for k in range(K)]
    return np.array([[np.sum(square * slopes[k] * slopes[j]) for j in range(K)] for k in range(K)])


class Ladder:
    """An integral at growing sizes of its rule: the first that agrees with the next one, never a smaller one later.

    ``evaluate(size, S, w)`` returns arrays, the first of which sets the scale.  The size is tested at the first call
    and again when a variance has grown by a tenth or the scale has dropped tenfold; in between the integral is one
    smooth function of S.  ``error`` is the relative difference from the next size; above ``limit`` a ``ValueError`` is
    raised.
    """

    def __init__(self, evaluate, sizes, *, goal, limit, refusal):
        self.evaluate, self.sizes, self.goal, self.limit, self.refusal = evaluate, sizes, goal, limit, refusal
        self.rung, self.error = 0, 0.0
        self.tested = None  # (variances, scale) of the last test

    def __call__(self, S, w):
        value = self.evaluate(self.sizes[self.rung], S, w)
        scale = np.max(np.abs(value[0]))
        if self.tested is not None:
            variances, tested_scale = self.tested
            if np.all(np.diag(S) <= 1.1 * variances) and scale >= 0.1 * tested_scale:
                return value
        value = self._climb(value, S, w)
        self.tested = np.diag(S).copy(), np.max(np.abs(value[0]))
        return value

    def _climb(self, value, S, w):
        # differences below the floor are rounding: Delta vanishes when the student has learned the teacher
        floor = 1e-12 * np.sum(np.abs(w)) ** 2
        rung, error, previous = self.rung, np.inf, 0.0
        if rung + 1 == len(self.sizes):  # the largest size has no finer one to agree with: test the step to it
            coarser = self.evaluate(self.sizes[rung - 1], S, w)
            scale = np.max(np.abs(value[0])) + floor
            error = max(np.max(np.abs(a - b)) for a, b in zip(value, coarser, strict=True)) / scale
        while rung + 1 < len(self.sizes):
            finer = self.evaluate(self.sizes[rung + 1], S, w)
            scale = np.max(np.abs(finer[0])) + floor
            previous = error if np.isfinite(error) else 0.0
            error = max(np.max(np.abs(a - b)) for a, b in zip(value, finer, strict=True)) / scale
            if error <= self.goal:
                break
            rung, value = rung + 1, finer
        if not error <= self.limit:
            raise ValueError(self.refusal.format(error=error, size=self.sizes[-1], limit=self.limit))
        # one difference may be small by chance; the one before bounds how much smaller it can honestly be
        self.rung, self.error = rung, max(error, 1e-2 * previous)
        return value
