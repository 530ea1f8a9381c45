"""Four-point integrals with kinks or many fields by scrambled Sobol points, common to all entries of C."""

import numpy as np

from .._base.jit import jit
from ..gaussian.rules import factor, sobol
from ..gaussian.tables import read, read_both

LOG2_POINTS = 13  # in each of the scrambles
SCRAMBLES = 4  # two would do for an estimate of the error, but often by chance a much too small one


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


class SobolRule:
    """Mean over scrambles; ``error`` is the standard error of its worst entry, relative to the largest one."""

    def __init__(self, student, teacher, K, *, limit, refusal):
        self.student, self.teacher, self.K, self.limit, self.refusal = student, teacher, K, limit, refusal
        self.error = 0.0
        self.points = np.zeros((0, 0))

    @property
    def size(self):
        """Number of points in all; 0 before the first call."""
        return len(self.points)

    def __call__(self, S, w):
        n = len(w)
        if self.points.shape[1] != n:
            self.points = np.concatenate([sobol(n, LOG2_POINTS, seed) for seed in range(SCRAMBLES)])
        parts = np.split(self.points, SCRAMBLES)
        squares = [sobol_square(S, w, self.K, self.student, self.teacher, u) for u in parts]
        mean = np.mean(squares, axis=0)
        scale = np.max(np.abs(mean)) + 1e-12 * np.sum(np.abs(w)) ** 2
        self.error = np.max(np.std(squares, axis=0, ddof=1)) / np.sqrt(SCRAMBLES) / scale
        if not self.error <= self.limit:
            size = f"{SCRAMBLES} x 2^{LOG2_POINTS}"
            raise ValueError(self.refusal.format(error=self.error, size=size, limit=self.limit))
        return (mean,)
