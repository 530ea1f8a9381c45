"""The closure by quadrature as one kernel, whose tables and nodes are its parameters.

``parameters`` = (number of arrays, their ends, arrays): see ``NumericClosure.parameters``.  Four-point integrals with
kinks are computed at scrambled Sobol points, common to all entries of C.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.quadrature import sobol
from ..gaussian.tables import read, read_both
from ._first_order import assemble, assemble_square
from ._pairs import fill_pairs
from ._quadrature import MODES, factor, fill_tables, fill_tensor


class SquareMethod(NamedTuple):
    """Codes of the methods for E[g_k' g_l' Delta^2]."""

    none: int = 0
    tensor: int = 1
    pairs: int = 2
    sobol: int = 3


class SobolOptions(NamedTuple):
    """Tunable numbers of averages over Sobol points."""

    log2_points: int = 13  # in each scramble; one more doubles the cost
    scrambles: int = 4  # with two, estimates of the error are often much too small


SQUARE = SquareMethod()
SOBOL = SobolOptions()


def packed(*arrays):
    """One array (number of arrays, their ends, their entries)."""
    flat = [np.ravel(np.asarray(x, dtype=float)) for x in arrays]
    ends = 1 + len(flat) + np.cumsum([x.size for x in flat])
    return np.concatenate([[len(flat)], ends, *flat])


@jit(inline=True)
def unpacked(data, i):
    """The i-th of the packed arrays."""
    return data[1 + int(data[0]) if i == 0 else int(data[i]) : int(data[i + 1])]


@jit(fast=True)
def fill_sobol(S, w, K, student, teacher, u, square):
    """Fill E[g_k' g_l' Delta^2] (K, K), the mean over z = L u.

    It is smooth in S, positive semi-definite, and vanishes with Delta.
    """
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
    """The points of all scrambles, stacked, for n fields."""
    return np.concatenate([sobol(n, SOBOL.log2_points, seed) for seed in range(SOBOL.scrambles)])


class SobolMean:
    """Mean over scrambles; ``error`` is the standard error of its worst entry, relative to the largest one."""

    size = SOBOL.scrambles * 2**SOBOL.log2_points  # number of points of all scrambles

    def __init__(self, student, teacher, K, *, limit, refusal):
        self.student, self.teacher, self.K, self.limit, self.refusal = student, teacher, K, limit, refusal
        self.error = 0.0

    def __call__(self, S, w):
        self.points = all_points(len(w))
        scrambles = np.split(self.points, SOBOL.scrambles)
        squares = [sobol_square(S, w, self.K, self.student, self.teacher, u) for u in scrambles]
        mean = np.mean(squares, axis=0)
        scale = np.max(np.abs(mean)) + 1e-12 * np.sum(np.abs(w)) ** 2
        self.error = np.max(np.std(squares, axis=0, ddof=1)) / np.sqrt(SOBOL.scrambles) / scale
        if not self.error <= self.limit:
            size = f"{SOBOL.scrambles} x 2^{SOBOL.log2_points}"
            raise ValueError(self.refusal.format(error=self.error, size=size, limit=self.limit))
        return (mean,)


@jit
def numeric_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B, C, dv; return eps_g.  All are nan where the quadrature is untested: integrators reject the step."""
    n = S.shape[0]
    if parameters.size == 0:
        return np.nan
    sizes, tested = unpacked(parameters, 0), unpacked(parameters, 1)
    for i in range(n):
        if not S[i, i] <= MODES.max_compiled_growth * tested[i]:
            A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
            return np.nan
    f, h, u, p = unpacked(parameters, 2), unpacked(parameters, 3), unpacked(parameters, 8), unpacked(parameters, 9)
    gg, dd, hh = np.empty((n, n)), np.empty((K, n)), np.empty((K, n))
    fill_tables(
        S,
        K,
        f,
        h,
        unpacked(parameters, 4),
        unpacked(parameters, 5),
        int(sizes[0]),
        unpacked(parameters, 6),
        unpacked(parameters, 7),
        gg,
        dd,
        hh,
    )
    eps_g = assemble(w, K, gg, dd, hh, eta, eta_v, A, B, dv)
    if second_order:
        square = np.empty((K, K))
        if sizes[1] == SQUARE.tensor:
            fill_tensor(S, w, K, f, h, factor(S), u, p, square)
        elif sizes[1] == SQUARE.pairs:
            fill_pairs(
                S,
                w,
                K,
                f,
                h,
                u,
                p,
                unpacked(parameters, 10),
                unpacked(parameters, 11),
                int(sizes[2]),
                sizes[1] == SQUARE.pairs,
                square,
            )
        else:
            fill_sobol(S, w, K, f, h, u.reshape(-1, n), square)
        assemble_square(w, K, square, dd, eta, noise, C)
    return eps_g
