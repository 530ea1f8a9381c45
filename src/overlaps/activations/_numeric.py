"""The closure by quadrature as one kernel: what ``numeric`` has chosen and tested, in one array behind w.

``parameters`` = (number of parts, their ends, parts): see ``NumericClosure.parameters``.  Four-point integrals with
kinks or many fields are taken at scrambled Sobol points, common to all entries of C.
"""

from functools import cache

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import sobol
from ..gaussian.tables import read, read_both
from ._first_order import assemble, assemble_square
from ._pairs import fill_pairs
from ._quadrature import factor, fill_tables, fill_tensor

NO_SQUARE, TENSOR, PAIRS, SOBOL = range(4)
# Growth of a variance since the last test of the rules. Beyond, nothing is known: the kernel answers nan, and the
# integrator turns back.
LEAP = 1.5
LOG2_POINTS = 13  # in each of the scrambles
SCRAMBLES = 4  # two would do for an estimate of the error, but often by chance a much too small one


def packed(*parts):
    """Arrays as one."""
    flat = [np.ravel(np.asarray(x, dtype=float)) for x in parts]
    ends = 1 + len(flat) + np.cumsum([x.size for x in flat])
    return np.concatenate([[len(flat)], ends, *flat])


@jit(inline=True)
def part(data, i):
    """The i-th of the packed arrays."""
    return data[1 + int(data[0]) if i == 0 else int(data[i]) : int(data[i + 1])]


@jit(fast=True)
def fill_sobol(S, w, K, student, teacher, u, square):
    """Fill E[g_k' g_l' Delta^2] (K, K), the mean over z = L u: smooth in S, positive semi-definite, zero with Delta."""
    n, L, slope = w.size, factor(S), np.empty(K)
    square[:] = 0.0
    for t in range(u.shape[0]):
        delta = 0.0
        for i in range(n):
            z = 0.0
            for j in range(i + 1):
                z += L[i, j] * u[t, j]
            if i < K:
                g, slope[i] = read_both(student, z)
            else:
                g = read(teacher, 0, z)
            delta += w[i] * g
        for k in range(K):
            for j in range(k + 1):
                square[k, j] += slope[k] * slope[j] * delta * delta / u.shape[0]
    for k in range(K):
        for j in range(k):
            square[j, k] = square[k, j]


def sobol_square(S, w, K, student, teacher, u):
    """E[g_k' g_l' Delta^2] (K, K) at the points u."""
    square = np.empty((K, K))
    fill_sobol(S, w, K, student.table.data, teacher.table.data, u, square)
    return square


@cache
def all_points(n):
    """The points of all scrambles, one below the other, for n fields."""
    return np.concatenate([sobol(n, LOG2_POINTS, seed) for seed in range(SCRAMBLES)])


class SobolRule:
    """Mean over scrambles; ``error`` is the standard error of its worst entry, relative to the largest one."""

    size = SCRAMBLES * 2**LOG2_POINTS  # number of points in all

    def __init__(self, student, teacher, K, *, limit, refusal):
        self.student, self.teacher, self.K, self.limit, self.refusal = student, teacher, K, limit, refusal
        self.error = 0.0

    def __call__(self, S, w):
        self.points = all_points(len(w))
        parts = np.split(self.points, SCRAMBLES)
        squares = [sobol_square(S, w, self.K, self.student, self.teacher, u) for u in parts]
        mean = np.mean(squares, axis=0)
        scale = np.max(np.abs(mean)) + 1e-12 * np.sum(np.abs(w)) ** 2
        self.error = np.max(np.std(squares, axis=0, ddof=1)) / np.sqrt(SCRAMBLES) / scale
        if not self.error <= self.limit:
            size = f"{SCRAMBLES} x 2^{LOG2_POINTS}"
            raise ValueError(self.refusal.format(error=self.error, size=size, limit=self.limit))
        return (mean,)


@jit
def numeric_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B, C, dv; return eps_g.  Nan where the rules are not tested, which makes an integrator turn back."""
    n = S.shape[0]
    if w.size == n:
        return np.nan
    w, data = w[:n], w[n:]
    sizes, tested = part(data, 0), part(data, 1)
    for i in range(n):
        if not S[i, i] <= LEAP * tested[i]:
            A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
            return np.nan
    f, h, u, p = part(data, 2), part(data, 3), part(data, 8), part(data, 9)
    gg, dd, hh = np.empty((n, n)), np.empty((K, n)), np.empty((K, n))
    fill_tables(S, K, f, h, part(data, 4), part(data, 5), int(sizes[0]), part(data, 6), part(data, 7), gg, dd, hh)
    eps_g = assemble(w, K, gg, dd, hh, eta, eta_v, A, B, dv)
    if second_order:
        square = np.empty((K, K))
        if sizes[1] == TENSOR:
            fill_tensor(S, w, K, f, h, factor(S), u, p, square)
        elif sizes[1] == PAIRS:
            fill_pairs(S, w, K, f, h, u, p, part(data, 10), part(data, 11), int(sizes[2]), sizes[1] == PAIRS, square)
        else:
            fill_sobol(S, w, K, f, h, u.reshape(-1, n), square)
        assemble_square(w, K, square, dd, eta, noise, C)
    return eps_g
