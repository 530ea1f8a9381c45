"""The table of two-point integrals over all pairs of pre-activations."""

import numpy as np

from .._base.jit import jit
from ..gaussian.two_point import LINEAR, QUADRATIC, two_point


@jit
def table(code, S):
    """E[f(U_i) f(U_j)] (N, N), E[f(U_i)], E[f'(U_i)] (N,), E[f'(U_i) f'(U_j)] for U ~ N(0, S) and the f of a code."""
    N = len(S)
    ff, mean, slope, dd = np.empty((N, N)), np.empty(N), np.empty(N), np.empty((N, N))
    for i in range(N):
        for j in range(i + 1):
            ff[i, j], dd[i, j], _, _ = two_point(code, code, S[i, i], S[j, j], S[i, j])
            ff[j, i], dd[j, i] = ff[i, j], dd[i, j]
        mean[i] = 0.5 * two_point(code, QUADRATIC, S[i, i], 1.0, 0.0)[3]  # the second derivative of x^2 is 2
        slope[i] = two_point(code, LINEAR, S[i, i], 1.0, 0.0)[1]
    return ff, mean, slope, dd
