"""Errors at many states, by a closure that comes as a first-class function."""

import numpy as np

from .._base.jit import jit


@jit
def errors_of(closure, K, teacher, S, w, eps_g):
    """Fill eps_g (n,) at S (n, K + M, K + M), w (n, K + M)."""
    M = w.shape[1] - K
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
    for i in range(len(eps_g)):
        eps_g[i] = closure(S[i], w[i], K, teacher, 1.0, 1.0, 0.0, False, A, B, C, dv)
