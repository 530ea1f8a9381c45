"""Kernels of the law of a label: what its density on a grid of y says of one feature, and how much is unknown of it."""

import math

from ..._base.jit import jit
from ._adam import polynomial

FLOOR = 1e-11  # below this share of the largest p, p and its derivative are rounding and left out


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
def label_entropy(p, out):
    """Sum of -p ln p over each row."""
    for c in range(p.shape[0]):
        total = 0.0
        for n in range(p.shape[1]):
            if p[c, n] > 0:
                total -= p[c, n] * math.log(p[c, n])
        out[c] = total


@jit
def spread(known, x, weight, rest, v, c, dy, out):
    """Bins of the labels v.sigma(known + rest xi) of two features, weighted, and the same times each xi."""
    middle = out.shape[2] // 2
    for n in range(known.shape[0]):
        for a in range(x.size):
            for b in range(x.size):
                w = weight[a] * weight[b]
                y = v[0] * polynomial(c, known[n, 0] + rest[0, 0] * x[a] + rest[0, 1] * x[b])[0]
                y += v[1] * polynomial(c, known[n, 1] + rest[1, 0] * x[a] + rest[1, 1] * x[b])[0]
                y = y / dy + middle
                i = int(math.floor(y))
                if w > 1e-14 and 0 <= i < out.shape[2] - 1:
                    above = w * (y - i)
                    out[0, n, i] += w - above
                    out[0, n, i + 1] += above
                    out[1, n, i] += x[a] * (w - above)
                    out[1, n, i + 1] += x[a] * above
                    out[2, n, i] += x[b] * (w - above)
                    out[2, n, i + 1] += x[b] * above
