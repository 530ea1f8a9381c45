"""Four-point integrals with kinks or many fields by scrambled Sobol points, common to all entries of C."""

import numpy as np
from scipy.special import ndtri

from ..gaussian.rules import factor

LOG2_POINTS = 13  # in each of the scrambles
SCRAMBLES = 4  # two would do for an estimate of the error, but often by chance a much too small one


def normal_points(dimension, seed):
    """Scrambled Sobol points (2^13, dimension) mapped to the normal distribution; the same for the same seed."""
    from scipy.stats import qmc  # half a second that only this rule pays

    return ndtri(qmc.Sobol(dimension, seed=np.random.default_rng(seed)).random_base2(LOG2_POINTS))


def sobol_square(S, w, K, student, teacher, u):
    """E[g_k' g_l' Delta^2] (K, K) as the mean over z = L u: smooth in S, positive semi-definite, zero with Delta."""
    z = u @ factor(S).T
    delta = student.g(z[:, :K]) @ w[:K] + teacher.g(z[:, K:]) @ w[K:]
    force = student.dg(z[:, :K]) * delta[:, None]
    return force.T @ force / len(u)


class SobolRule:
    """Mean over scrambles; ``error`` is the standard error of its worst entry, relative to the largest one."""

    def __init__(self, student, teacher, K, *, limit, refusal):
        self.student, self.teacher, self.K, self.limit, self.refusal = student, teacher, K, limit, refusal
        self.error = 0.0
        self.points = {}

    def __call__(self, S, w):
        if len(w) not in self.points:
            self.points = {len(w): [normal_points(len(w), seed) for seed in range(SCRAMBLES)]}
        squares = [sobol_square(S, w, self.K, self.student, self.teacher, u) for u in self.points[len(w)]]
        mean = np.mean(squares, axis=0)
        scale = np.max(np.abs(mean)) + 1e-12 * np.sum(np.abs(w)) ** 2
        self.error = np.max(np.std(squares, axis=0, ddof=1)) / np.sqrt(SCRAMBLES) / scale
        if not self.error <= self.limit:
            size = f"{SCRAMBLES} x 2^{LOG2_POINTS}"
            raise ValueError(self.refusal.format(error=self.error, size=size, limit=self.limit))
        return (mean,)
