"""Samples of independent tokens whose forces see each other through a sum: averages are products of one token's.

The sum over the other T - 1 tokens is independent of a token's own fields. Where each adds 0 or 1 it is binomial; a
force that is linear in it needs its mean and variance only, which two values have, too.
"""

import math

from .._base.jit import compile_once, jit, made
from . import _rule


def whole_force(force, others, T, K, M):
    """The force on all tokens of a sample, with fields in a row, made from that on one."""

    @made
    def whole(lam, nu, xi, theta, S, F, G):
        total, of_all = 0.0, G.copy()
        for a in range(T):
            total += others(lam[a * K : (a + 1) * K], nu[a * M : (a + 1) * M], theta)
        for a in range(T):
            own, seen = lam[a * K : (a + 1) * K], nu[a * M : (a + 1) * M]
            G[:] = 0.0
            force(own, seen, total - others(own, seen, theta), theta, S, F[a * K : (a + 1) * K], G)
            of_all += G
        G[:] = of_all

    return whole


@jit
def fill_law(w, n, T, counts, mean, square):
    """Fill the values of the noise behind w (n,) with the sum over T - 1 tokens, and their probabilities."""
    at = n + _rule.HEAD + 4 + int(w[n + _rule.HEAD + 1])  # of the values, behind the numbers; each has its shape before
    m = int(w[at - 1])
    chances = w[at + m + 2 : at + 2 * m + 2]
    if counts:
        chances[:] = 0.0
        chances[0] = 1.0
        for token in range(1, T):
            for s in range(token, 0, -1):
                chances[s] += mean * (chances[s - 1] - chances[s])
            chances[0] *= 1 - mean
        return
    spread = math.sqrt((T - 1) * max(square - mean * mean, 0.0))
    w[at], w[at + 1], chances[0], chances[1] = (T - 1) * mean - spread, (T - 1) * mean + spread, 0.5, 0.5


def closure_of_one(force, error, others, T, counts):
    """The closure of a force on each of T independent tokens, ``xi`` being the sum of ``others`` over the rest."""
    average = _rule.pointer(_rule.rule_closure, _rule.SIGNATURE)
    idle, chance = _rule.no_force, _rule.no_chance
    if hasattr(idle, "compile"):
        compile_once(idle, _rule.FORCE)
        compile_once(chance, _rule.CHANCE)

    @made
    def squared(lam, nu, theta):
        return others(lam, nu, theta) ** 2

    @_rule.kernel
    def closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        n, known, square = S.shape[0], w.copy(), 0.0
        if known[n] >= 0.0:
            mean = average(idle, others, chance, S, w, K, eta, eta_v, 0.0, False, A, B, C, dv)
            if not counts:
                square = average(idle, squared, chance, S, w, K, eta, eta_v, 0.0, False, A, B, C, dv)
            fill_law(known, n, T, counts, mean, square)
        eps_g = average(force, error, chance, S, known, K, eta, eta_v, 0.0, second_order, A, B, C, dv)
        for k in range(K):  # all tokens move the weights
            dv[k] *= T
            for j in range(K):
                A[k, j] *= T
                C[k, j] *= T
            for m in range(B.shape[1]):
                B[k, m] *= T
        return eps_g

    return closure
