"""The closure by quadrature as one kernel, whose tables and nodes are its parameters.

Four-point integrals with kinks are computed at scrambled Sobol points, common to all entries of C.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from ..gaussian.packed import vector
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


class NumericArrays(NamedTuple):
    """Numbers of the arrays in ``NumericClosure.parameters``."""

    sizes: int = 0  # nodes of two-point integrals, method for C, its number of modes
    tested: int = 1  # variances (n,) up to which the sizes were tested
    student: int = 2  # table
    teacher: int = 3
    student_sum: int = 4  # the same function as a sum of closed forms, or empty
    teacher_sum: int = 5
    u: int = 6  # graded nodes of two-point integrals
    p: int = 7
    square_u: int = 8  # nodes of C, or Sobol points (., n)
    square_p: int = 9
    inner_u: int = 10
    inner_p: int = 11


SQUARE = SquareMethod()
ARRAY = NumericArrays()
SOBOL = SobolOptions()


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
    sizes, tested = vector(parameters, ARRAY.sizes), vector(parameters, ARRAY.tested)
    for i in range(n):
        if not S[i, i] <= MODES.max_compiled_growth * tested[i]:
            A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
            return np.nan
    f, h = vector(parameters, ARRAY.student), vector(parameters, ARRAY.teacher)
    gg, dd, hh = np.empty((n, n)), np.empty((K, n)), np.empty((K, n))
    fill_tables(
        S, K, f, h, vector(parameters, ARRAY.student_sum), vector(parameters, ARRAY.teacher_sum), int(sizes[0]),
        vector(parameters, ARRAY.u), vector(parameters, ARRAY.p), gg, dd, hh,
    )  # fmt: skip
    eps_g = assemble(w, K, gg, dd, hh, eta, eta_v, A, B, dv)
    if second_order:
        square, u = np.empty((K, K)), vector(parameters, ARRAY.square_u)
        if sizes[1] == SQUARE.tensor:
            fill_tensor(S, w, K, f, h, factor(S), u, vector(parameters, ARRAY.square_p), square)
        elif sizes[1] == SQUARE.pairs:
            fill_pairs(
                S, w, K, f, h, u, vector(parameters, ARRAY.square_p), vector(parameters, ARRAY.inner_u),
                vector(parameters, ARRAY.inner_p), int(sizes[2]), True, square,
            )  # fmt: skip
        else:
            fill_sobol(S, w, K, f, h, u.reshape(-1, n), square)
        assemble_square(w, K, square, dd, eta, noise, C)
    return eps_g
