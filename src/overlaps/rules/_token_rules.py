"""Closures of rules over tokens: covariances that differ between eigenspaces, and tokens that interact through a sum.

If the covariance of tokens differs between eigenspaces, the fields of a sample are treated as those of one token with T
times as many units. S stacks a block S^g for each group of eigenspaces with the same c^g;
Cov(z^a, z^b) = sum_g c^g_ab S^g. With D^ab = E[dF^a/dz^b] and E[F^a F^b] of all fields, group g is driven by
sum_ab c^g_ab of these.

If independent tokens interact only through a sum, averages factorise into averages of one token. The sum over the other
T - 1 tokens is independent of a token's fields. It is binomial if each token adds 0 or 1. If the force is linear in the
sum, only its mean and variance matter, and two values have the same.
"""

import math

import numpy as np

from .._base.jit import compile_once, jit, jit_user
from ..gaussian.packed import vector
from . import _rule


def force_on_all_tokens(token_functions, T, K, M):
    """The force on all tokens of a sample, lam (T K,), nu (T M,), from the force and ``others`` of one token."""
    force, others = token_functions

    @jit_user
    def all_tokens(lam, nu, xi, theta, S, F, G):
        total, G_of_all = 0.0, G.copy()
        for a in range(T):
            total += others(lam[a * K : (a + 1) * K], nu[a * M : (a + 1) * M], theta)
        for a in range(T):
            lam_a, nu_a = lam[a * K : (a + 1) * K], nu[a * M : (a + 1) * M]
            G[:] = 0.0
            force(lam_a, nu_a, total - others(lam_a, nu_a, theta), theta, S, F[a * K : (a + 1) * K], G)
            G_of_all += G
        for i in range(len(G)):
            G[i] = G_of_all[i]

    return all_tokens


@jit
def fill_law(parameters, T, counts, mean, square):
    """Fill the values of the noise with those of the sum over T - 1 tokens, and their probabilities."""
    values, chances = vector(parameters, _rule.ARRAY.values), vector(parameters, _rule.ARRAY.chances)
    if counts:
        chances[:] = 0.0
        chances[0] = 1.0
        for token in range(1, T):
            for s in range(token, 0, -1):
                chances[s] += mean * (chances[s - 1] - chances[s])
            chances[0] *= 1 - mean
        return
    spread = math.sqrt((T - 1) * max(square - mean * mean, 0.0))
    values[0], values[1] = (T - 1) * mean - spread, (T - 1) * mean + spread
    chances[:2] = 0.5


def closure_of_one(token_functions, error, T, counts):
    """The closure of a force on each of T independent tokens, ``xi`` being the sum of ``others`` over the rest."""
    force, others = token_functions
    average = _rule.pointer(_rule.rule_closure, _rule.AVERAGE_SIGNATURE)
    idle, chance = _rule.no_force, _rule.no_chance
    compile_once(idle, _rule.SIGNATURES.force)
    compile_once(chance, _rule.SIGNATURES.chance)

    @jit_user
    def squared(lam, nu, theta):
        return others(lam, nu, theta) ** 2

    @_rule.kernel
    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        filled, square = parameters.copy(), 0.0
        if filled[0] >= 0.0:
            mean = average(idle, others, chance, S, w, parameters, K, eta, eta_v, 0.0, False, A, B, C, dv)
            if not counts:
                square = average(idle, squared, chance, S, w, parameters, K, eta, eta_v, 0.0, False, A, B, C, dv)
            fill_law(filled, T, counts, mean, square)
        eps_g = average(force, error, chance, S, w, filled, K, eta, eta_v, 0.0, second_order, A, B, C, dv)
        dv *= T  # all tokens move the weights
        for x in (A, B, C):
            x *= T
        return eps_g

    return closure


@jit
def fields_of_all(S, c, K):
    """Covariance of the fields lam (T K,), nu (T M,) of all tokens, from S (groups n, n) and c (groups, T, T)."""
    n, T = S.shape[1], c.shape[1]
    full = np.zeros((T * n, T * n))
    for a in range(T):
        for i in range(n):
            row = a * K + i if i < K else T * K + a * (n - K) + i - K
            for b in range(T):
                for j in range(n):
                    column = b * K + j if j < K else T * K + b * (n - K) + j - K
                    for g in range(len(c)):
                        full[row, column] += c[g, a, b] * S[g * n + i, j]
    return full


@jit
def weigh_tokens(c, blocks, K, out):
    """Fill out (groups K, m) = sum_ab c_ab X^ab of the ``blocks`` X^ab (K, m) of an array (T K, T m)."""
    T, m = c.shape[1], out.shape[1]
    out[:] = 0.0
    for g in range(len(c)):
        for a in range(T):
            for b in range(T):
                for k in range(K):
                    for j in range(m):
                        out[g * K + k, j] += c[g, a, b] * blocks[a * K + k, b * m + j]


def closure_of_groups(force, error, chance, c):
    """The closure of a force on tokens with a covariance c (groups, T, T) in each group of eigenspaces."""
    average = _rule.pointer(_rule.rule_closure, _rule.AVERAGE_SIGNATURE)
    T = c.shape[1]

    @_rule.kernel
    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        size = T * S.shape[1]
        a, b = np.zeros((T * K, T * K)), np.zeros((T * K, size - T * K))
        squares, g = np.zeros((T * K, T * K)), np.zeros(T * K)
        S_of_all = fields_of_all(S, c, K)
        eps_g = average(
            force, error, chance, S_of_all, w, parameters, T * K, eta, eta_v, 0.0, second_order, a, b, squares, g
        )
        weigh_tokens(c, a, K, A)
        weigh_tokens(c, b, K, B)
        weigh_tokens(c, squares, K, C)
        for k in range(K):
            dv[k] = g[k]
        return eps_g

    return closure
