"""Kernels of the law of a label: what its density on a grid of y says of one feature, and how much is unknown of it."""

import math

from ..._base.jit import jit

FLOOR = 1e-11  # of the largest p, below which p and its derivative are rounding


@jit
def fisher(p, dp, out):
    """Sum of dp^2 / p over each row."""
    for c in range(p.shape[0]):
        floor = 0.0
        for n in range(p.shape[1]):
            floor = max(floor, p[c, n])
        floor *= FLOOR
        total = 0.0
        for n in range(p.shape[1]):
            if p[c, n] > floor:
                total += dp[c, n] * dp[c, n] / p[c, n]
        out[c] = total


@jit
def entropy(p, out):
    """Sum of -p ln p over each row."""
    for c in range(p.shape[0]):
        total = 0.0
        for n in range(p.shape[1]):
            if p[c, n] > 0:
                total -= p[c, n] * math.log(p[c, n])
        out[c] = total
