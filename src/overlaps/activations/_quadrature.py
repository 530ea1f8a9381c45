"""Gaussian integrals of functions without closed forms: product quadratures of two fields, tensor ones of up to four.

Functions are tables (``gaussian.tables``).  Fields are whitened, z = L u with S = L L^T, and u is integrated by the
midpoint rule.  For a function analytic in a strip around the real axis (tanh, gelu, softplus) it converges
geometrically, and faster than Gauss-Hermite, many of whose nodes have negligible weight.  With a kink, any of these
quadratures converges like 1/n^2; :class:`Ladder` compares sizes and refuses integrals that do not converge.

Averages of two fields are sums over Hermite modes (Mehler), E[f(a) h(b)] = sum_r rho^r E[he_r(u) f(sigma_a u)]
E[he_r(u) h(sigma_b u)].  Where the sum does not converge, because wide fields are nearly parallel, the plane is
integrated.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from .._base.lazy_compilation import small
from ..gaussian.quadrature import factor, graded, hermite, midpoint, widening
from ..gaussian.tables import NO_TABLE, read, read_array, read_both
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, SQRT_2PI, two_point


class ModeOptions(NamedTuple):
    """Tunable numbers of sums over Hermite modes and over nodes, and of the tests of their size."""

    # Half-width of the nodes in standard deviations. Smaller ones truncate high modes, because he_r grows like
    # exp(u^2 / 4).
    half_width: float = 12.0
    tail_tol: float = 1e-14  # size of the last four modes, relative to the sum, above which the sum is not converged
    # Factors on the variances and on the scale of the last test beyond which sizes are tested again. Closer to 1,
    # tests, which evaluate a larger size, are more frequent.
    max_growth: float = 1.1
    min_scale: float = 0.1
    # Factor on the tested variances beyond which the compiled closure returns nan, so that the integrator rejects the
    # step. Larger factors accept untested integrals.
    max_compiled_growth: float = 1.5
    plane_nodes: tuple = (64, 96, 128, 192, 256, 384, 512)  # with 512, tanh converges up to a variance of 60
    tensor_nodes: tuple = ((64, 96, 128, 192), (32, 48, 64, 96), (24, 32, 48))  # for two, three and four fields


MODES = ModeOptions()


@jit
def third(table, x, dg):
    """g''(x), or x g'(x) if the table has no g'': ``stein`` then corrects the integral."""
    return read(table, 2, x) if table[2] > 2 else x * dg


@jit
def stein(table, integral, variance, covariance, slopes):
    """E[g''(a) h] = (E[a g'(a) h(b)] - S_ab E[g'(a) h'(b)]) / S_aa for an activation without g''."""
    if table[2] > 2:
        return integral
    return (integral - covariance * slopes) / variance if variance > 0.0 else np.nan


@cache
def _mode_nodes(n):
    """Nodes (2 n,), their weights, and the orthonormal he_r at the nodes (n, 2 n)."""
    u, p = midpoint(2 * n, MODES.half_width)
    return u, p, np.ascontiguousarray(hermite(u, n).T)


def _fill_modes(table, sigma, n, values, modes):
    u, p, he = _mode_nodes(n)
    values[:] = p * read_array(table, sigma * u, 3)
    modes[:] = values @ he.T


@jit(fast=True, python=_fill_modes)
def fill_modes(table, sigma, n, values, modes):
    """Fill values (3, 2 n) = p (g, g', g'') on 2 n nodes, and modes (3, n) = E[he_r(u) g(sigma u)] and so on."""
    N = 2 * n
    step = 2 * MODES.half_width / N
    he, before, u = np.ones(N), np.zeros(N), np.empty(N)
    for i in range(N):
        u[i] = MODES.half_width * ((2 * i + 1) / N - 1)
        p = step * math.exp(-0.5 * u[i] * u[i]) / SQRT_2PI
        g, dg = read_both(table, sigma * u[i])
        values[0, i], values[1, i], values[2, i] = p * g, p * dg, p * third(table, sigma * u[i], dg)
    for r in range(n):
        a = b = c = 0.0
        for i in range(N):
            a += he[i] * values[0, i]
            b += he[i] * values[1, i]
            c += he[i] * values[2, i]
        modes[0, r], modes[1, r], modes[2, r] = a, b, c
        root, next_root = math.sqrt(r), math.sqrt(r + 1)
        for i in range(N):
            following = (u[i] * he[i] - root * before[i]) / next_root
            before[i] = he[i]
            he[i] = following


def _same(table, sigma, n, values):
    g, dg = read_array(table, sigma * _mode_nodes(n)[0], 2)
    gg, dd, hh = values[0] @ g, values[1] @ dg, values[2] @ g
    return gg, dd, stein(table, hh, sigma * sigma, sigma * sigma, dd)


@jit(fast=True, python=_same)
def same(table, sigma, n, values):
    """E[g g], E[g' g'], E[g'' g] of one field, from the values of ``fill_modes``."""
    gg = dd = hh = 0.0
    for i in range(2 * n):
        g, dg = read_both(table, sigma * MODES.half_width * ((2 * i + 1) / (2 * n) - 1))
        gg += values[0, i] * g
        dd += values[1, i] * dg
        hh += values[2, i] * g
    return gg, dd, stein(table, hh, sigma * sigma, sigma * sigma, dd)


def _mehler_pair(f, h, saa, sbb, sab, x, y):
    rho = sab / math.sqrt(saa * sbb) if saa > 0.0 and sbb > 0.0 else 0.0
    power = min(max(rho, -1.0), 1.0) ** np.arange(x.shape[1])
    terms = power * np.array([x[0] * y[0], x[1] * y[1], x[2] * y[0], x[0] * y[2]])
    gg, dd, hf, fh = terms.sum(axis=1).tolist()
    sizes = np.abs(terms).max(axis=0)
    converged = not sizes[-4:].max() > MODES.tail_tol * sizes.sum()
    return gg, dd, stein(f, hf, saa, sab, dd), stein(h, fh, sbb, sab, dd), converged


@jit(fast=True, python=_mehler_pair)
def mehler_pair(f, h, saa, sbb, sab, x, y):
    """E[f h], E[f' h'], E[f'' h], E[f h''] from modes x, y (3, n), and whether the sums converge."""
    rho = sab / math.sqrt(saa * sbb) if saa > 0.0 and sbb > 0.0 else 0.0
    rho, power = min(max(rho, -1.0), 1.0), 1.0
    gg = dd = hf = fh = size = last = 0.0
    for r in range(x.shape[1]):
        a, b = power * x[0, r] * y[0, r], power * x[1, r] * y[1, r]
        c, d = power * x[2, r] * y[0, r], power * x[0, r] * y[2, r]
        gg, dd, hf, fh = gg + a, dd + b, hf + c, fh + d
        term = max(max(abs(a), abs(b)), max(abs(c), abs(d)))
        size += term
        if r >= x.shape[1] - 4:
            last = max(last, term)
        power *= rho
    return gg, dd, stein(f, hf, saa, sab, dd), stein(h, fh, sbb, sab, dd), not last > MODES.tail_tol * size


def _plane_pair(f, h, saa, sbb, sab, n):
    slope = sab / saa if saa > 0.0 else 0.0
    spread = math.sqrt(max(sbb - slope * sab, 0.0))
    m = n if spread > 0.0 else 1
    u, p, _ = _mode_nodes(n)
    x, q = midpoint(n) if m > 1 else (np.zeros(1), np.ones(1))
    a = math.sqrt(saa) * u
    h0, h1, h2 = read_array(h, slope * a[:, None] + spread * x, 3) @ q
    g, dg, third = read_array(f, a, 3)
    gg, dd, hf, fh = (p * g) @ h0, (p * dg) @ h1, (p * third) @ h0, (p * g) @ h2
    return gg, dd, stein(f, hf, saa, sab, dd), stein(h, fh, sbb, sab, dd)


@jit(fast=True, python=_plane_pair)
def plane_pair(f, h, saa, sbb, sab, n):
    """The integrals of ``mehler_pair`` by the midpoint rule in the plane, for saa >= sbb."""
    slope = sab / saa if saa > 0.0 else 0.0
    spread = math.sqrt(max(sbb - slope * sab, 0.0))
    m = n if spread > 0.0 else 1
    gg = dd = hf = fh = 0.0
    for i in range(2 * n):
        u = MODES.half_width * ((2 * i + 1) / (2 * n) - 1)
        a = math.sqrt(saa) * u
        h0 = h1 = h2 = 0.0
        for j in range(m):
            x = 9.0 * ((2 * j + 1) / m - 1)
            q = 18.0 / m * math.exp(-0.5 * x * x) / SQRT_2PI if m > 1 else 1.0
            b = slope * a + spread * x
            g, dg = read_both(h, b)
            h0, h1, h2 = h0 + q * g, h1 + q * dg, h2 + q * third(h, b, dg)
        p = MODES.half_width / n * math.exp(-0.5 * u * u) / SQRT_2PI
        g, dg = read_both(f, a)
        gg, dd, hf, fh = gg + p * g * h0, dd + p * dg * h1, hf + p * third(f, a, dg) * h0, fh + p * g * h2
    return gg, dd, stein(f, hf, saa, sab, dd), stein(h, fh, sbb, sab, dd)


@jit
def conditional(code, m, s):
    """E[h(b)], E[h'(b)], E[h''(b)] of a closed-form function of b ~ N(m, s^2)."""
    if code == LINEAR:
        return m, 1.0, 0.0
    if code == QUADRATIC:
        return m * m + s * s, 2 * m, 2.0
    if code == ERF:
        t = 1 / (1 + s * s)
        slope = math.sqrt(2 * t / math.pi) * math.exp(-0.5 * t * m * m)
        return math.erf(m * math.sqrt(0.5 * t)), slope, -m * t * slope
    density = math.exp(-0.5 * (m / s) ** 2) / SQRT_2PI
    above = 0.5 * math.erfc(-m / s * math.sqrt(0.5))
    return m * above + s * density, above, density / s


@jit
def line_pair(f, mixture, saa, sbb, sab, u, p):
    """The integrals of ``mehler_pair`` in one dimension, where h has closed-form conditional expectations.

    ``mixture`` is (code, amplitudes, scales).
    """
    slope = sab / saa if saa > 0.0 else 0.0
    # At least 1e-8 wide, so that graded nodes resolve relu''; this changes the value by less than rounding.
    spread = max(math.sqrt(max(sbb - slope * sab, 0.0)), 1e-8 * math.sqrt(sbb), 1e-150)
    J = mixture.size // 2
    gg = dd = hf = fh = 0.0
    for i in range(u.size):
        a = math.sqrt(saa) * u[i]
        h0 = h1 = h2 = 0.0
        for j in range(J):
            amplitude, scale = mixture[1 + j], mixture[1 + J + j]
            c0, c1, c2 = conditional(int(mixture[0]), scale * slope * a, abs(scale) * spread)
            h0, h1, h2 = h0 + amplitude * c0, h1 + amplitude * scale * c1, h2 + amplitude * scale * scale * c2
        g, dg = read_both(f, a)
        gg, dd = gg + p[i] * g * h0, dd + p[i] * dg * h1
        hf, fh = hf + p[i] * third(f, a, dg) * h0, fh + p[i] * g * h2
    return gg, dd, stein(f, hf, saa, sab, dd), fh


@jit
def closed_pair(f, h, saa, sbb, sab):
    """The integrals of ``mehler_pair`` for two mixtures of closed forms."""
    I, J = f.size // 2, h.size // 2
    gg = dd = hf = fh = 0.0
    for i in range(I):
        for j in range(J):
            a, b, c, d = f[1 + i], f[1 + I + i], h[1 + j], h[1 + J + j]
            values = two_point(int(f[0]), int(h[0]), b * b * saa, d * d * sbb, b * d * sab)
            gg, dd = gg + a * c * values[0], dd + a * c * b * d * values[1]
            hf, fh = hf + a * c * b * b * values[2], fh + a * c * d * d * values[3]
    return gg, dd, hf, fh


def _tables_cost(S, K, student, teacher, student_mixture, teacher_mixture, n, u, *_):
    """Seconds without compilation; pairs in which one function is a sum of closed forms are the most expensive."""
    closed = (student_mixture.size > 0) + (teacher_mixture.size > 0)
    size = len(S)
    return size * size * (1e-4 + (2e-6 * u.size if closed == 1 else 0.0)) + size * 3e-4


@jit(cost=_tables_cost)
def fill_tables(S, K, student, teacher, student_mixture, teacher_mixture, n, u, p, gg, dd, hh):
    """Fill gg = E[g_i g_j] (n, n), dd = E[g_k' g_j'] (K, n), hh = E[g_k'' g_j] (K, n); (u, p) are graded nodes."""
    size = S.shape[0]
    values, modes = np.empty((size, 3, 2 * n)), np.empty((size, 3, n))
    for i in range(size):
        exact = student_mixture if i < K else teacher_mixture
        if exact.size == 0:
            fill_modes(student if i < K else teacher, math.sqrt(max(S[i, i], 0.0)), n, values[i], modes[i])
    for i in range(size):
        f, exact_f = (student, student_mixture) if i < K else (teacher, teacher_mixture)
        saa = max(S[i, i], 0.0)  # a trial step of an integrator may make a small norm negative
        for j in range(i + 1):
            h, exact_h = (student, student_mixture) if j < K else (teacher, teacher_mixture)
            sbb, sab = max(S[j, j], 0.0), saa if i == j else S[i, j]
            if exact_f.size and exact_h.size:
                a, b, c, d = closed_pair(exact_f, exact_h, saa, sbb, sab)
            elif exact_h.size:
                a, b, c, d = line_pair(f, exact_h, saa, sbb, sab, u, p)
            elif exact_f.size:
                a, b, d, c = line_pair(h, exact_f, sbb, saa, sab, u, p)
            elif i == j:
                a, b, c = same(f, math.sqrt(saa), n, values[i])
                d = c
            else:
                a, b, c, d, converged = mehler_pair(f, h, saa, sbb, sab, modes[i], modes[j])
                if not converged:
                    if saa >= sbb:
                        a, b, c, d = plane_pair(f, h, saa, sbb, sab, n)
                    else:
                        a, b, d, c = plane_pair(h, f, sbb, saa, sab, n)
            gg[i, j] = gg[j, i] = a
            if j < K:
                dd[j, i], hh[j, i] = b, d
            if i < K:
                dd[i, j], hh[i, j] = b, c


def mixture_array(mixture):
    """The array (code, amplitudes, scales) for kernels; an empty array for None."""
    return NO_TABLE if mixture is None else np.array([mixture.code, *mixture.amplitudes, *mixture.scales])


def tables(S, K, student, teacher, n):
    """E[g_i g_j] (n, n), E[g_k' g_j'] (K, n) and E[g_k'' g_j] (K, n), which determine A, B, dv and eps_g.

    ``student`` and ``teacher`` are pairs (activation, exact mixture or None); n is the size of the quadrature.
    """
    size = len(S)
    out = np.empty((size, size)), np.empty((K, size)), np.empty((K, size))
    functions = [NO_TABLE if exact else activation.table.data for activation, exact in (student, teacher)]
    mixtures = [mixture_array(exact) for _, exact in (student, teacher)]
    fill_tables(np.ascontiguousarray(S), K, *functions, *mixtures, n, *graded(n), *out)
    return out


@jit(fast=True)
def fill_tensor(S, w, K, student, teacher, L, u, p, square):
    """Fill E[g_k' g_l' Delta^2] (K, K) with a tensor grid of all fields, nodes u and weights p for each.

    z = L u with students first and L triangular: g'_k depends on the first k + 1 axes, so teachers are summed first.
    """
    size, n = w.size, u.size
    index, start = np.zeros(size, np.int64), np.zeros(size, np.int64)
    g, slope, weight = np.zeros(size + 1), np.zeros(K), np.ones(size + 1)
    square[:] = 0.0
    changed, total = 0, 0.0
    while True:
        for i in range(changed, size):  # cumulative sums g and products weight over the axes
            z = 0.0
            for j in range(i + 1):
                z += L[i, j] * u[index[j]]
            if i < K:
                value, slope[i] = read_both(student, z)
            else:
                value = read(teacher, 0, z)
            g[i + 1] = g[i] + w[i] * value
            weight[i + 1] = weight[i] * (p[index[i]] if L[i, i] > 0.0 else 1.0)
        total += weight[size] * g[size] * g[size]
        changed = size - 1
        while changed >= 0:
            index[changed] += 1
            if index[changed] < n and L[changed, changed] > 0.0:
                break
            index[changed] = start[changed]
            changed -= 1
        if changed < K:  # the sum over all teachers is complete
            for k in range(K):
                for j in range(K):
                    square[k, j] += total * slope[k] * slope[j]
            total = 0.0
        if changed < 0:
            return


def tensor_square(S, w, K, student, teacher, n):
    """E[g_k' g_l' Delta^2] (K, K) on a tensor grid with n nodes in each dimension."""
    square = np.empty((K, K))
    fill_tensor(S, w, K, student.table.data, teacher.table.data, factor(S), *widening(n), square)
    return square


@jit(cost=small)
def changed(S, scale, tested):
    """Whether S (n, n) or the scale is too far from ``tested`` = (variances, scale) for the tested size."""
    for i in range(S.shape[0]):
        if not S[i, i] <= MODES.max_growth * tested[i]:
            return True
    return not scale >= MODES.min_scale * tested[S.shape[0]]


class Ladder:
    """An integral with the first size of quadrature that agrees with the next one; the size never decreases.

    ``evaluate(size, S, w)`` returns arrays, the first of which sets the scale.  The size is tested at the first call
    and again when a variance has grown by a tenth or the scale has dropped tenfold; in between the integral is one
    smooth function of S.  ``error`` is the relative difference from the next size.  If it exceeds ``limit``,
    ``ValueError`` is raised.
    """

    def __init__(self, evaluate, sizes, *, goal, limit, refusal):
        self.evaluate, self.sizes, self.goal, self.limit, self.refusal = evaluate, sizes, goal, limit, refusal
        self.rung, self.error = 0, 0.0
        self.tested = np.zeros(0)  # variances and scale at the last test

    @property
    def size(self):
        """The size in use."""
        return self.sizes[self.rung]

    def __call__(self, S, w):
        return self.tried(self.evaluate(self.size, S, w), S, w)

    def tried(self, value, S, w):
        """The value at S, w, given the value for the size in use."""
        if not self.tested.size or changed(S, np.max(np.abs(value[0])), self.tested):
            value = self._climb(value, S, w)
            self.tested = np.append(np.diag(S), np.max(np.abs(value[0])))
        return value

    def _climb(self, value, S, w):
        # Differences below the floor are rounding, because Delta vanishes when the student equals the teacher.
        floor = 1e-12 * np.sum(np.abs(w)) ** 2
        rung, error, previous = self.rung, np.inf, 0.0
        if rung + 1 == len(self.sizes):  # the largest size is compared with the one before
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
        # The estimate is at least a hundredth of the previous difference: one difference may be small by chance.
        self.rung, self.error = rung, max(error, 1e-2 * previous)
        return value
