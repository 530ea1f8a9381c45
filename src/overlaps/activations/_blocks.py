"""Tokens whose covariance differs between eigenspaces: the fields of a sample as those of one token of T times as many.

S has a part S^g for each group of eigenspaces with one c^g, one below the other; Cov(z^a, z^b) = sum_g c^g_ab S^g. With
D^ab = E[dF^a/dz^b] and E[F^a F^b] of all fields, group g is driven by sum_ab c^g_ab of these.
"""

import numpy as np

from .._base.jit import jit
from . import _rule


@jit
def fields_of_all(S, c, K):
    """Covariance of the fields of all tokens, lam (T K,) before nu (T M,), from parts of S and c (groups, T, T)."""
    n, T = S.shape[1], c.shape[1]
    whole = np.zeros((T * n, T * n))
    for a in range(T):
        for i in range(n):
            row = a * K + i if i < K else T * K + a * (n - K) + i - K
            for b in range(T):
                for j in range(n):
                    column = b * K + j if j < K else T * K + b * (n - K) + j - K
                    for g in range(len(c)):
                        whole[row, column] += c[g, a, b] * S[g * n + i, j]
    return whole


@jit
def weigh_tokens(c, parts, K, out):
    """Fill out (groups K, m) = sum_ab c_ab of the parts (K, m) of found (T K, T m)."""
    T, m = c.shape[1], out.shape[1]
    out[:] = 0.0
    for g in range(len(c)):
        for a in range(T):
            for b in range(T):
                for k in range(K):
                    for j in range(m):
                        out[g * K + k, j] += c[g, a, b] * parts[a * K + k, b * m + j]


def closure_of_groups(force, error, chance, c):
    """The closure of a force on tokens with a covariance c (groups, T, T) in each group of eigenspaces."""
    average = _rule.pointer(_rule.rule_closure, _rule.SIGNATURE)
    T = c.shape[1]

    @_rule.kernel
    def closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        n, size = S.shape[1], T * S.shape[1]
        known = np.zeros(size + w.size - n)
        for i in range(K):
            known[i] = w[i]
        known[size:] = w[n:]
        a, b = np.zeros((T * K, T * K)), np.zeros((T * K, size - T * K))
        squares, g = np.zeros((T * K, T * K)), np.zeros(T * K)
        whole = fields_of_all(S, c, K)
        eps_g = average(force, error, chance, whole, known, T * K, eta, eta_v, 0.0, second_order, a, b, squares, g)
        weigh_tokens(c, a, K, A)
        weigh_tokens(c, b, K, B)
        weigh_tokens(c, squares, K, C)
        dv[:] = g[:K]
        return eps_g

    return closure
