"""Factors of schedules at a time, for compiled integrators and simulators.

A schedule is a product of pieces; piece i multiplies the number ``channels[i]`` by a function with the code
``codes[i]`` and the numbers x = ``data[edges[i] : edges[i + 1]]``: knots, then as many values; of a power, (begin,
exponent, scale); of a polynomial, (begin, end, exponent, first, last).
"""

import math

from .._base.jit import jit

CONSTANT, LINEAR, COSINE, POWER, POLYNOMIAL = range(5)


@jit(no_reference_counting=True)
def reached(knots, t):
    """Number of knots up to and with t, as ``np.searchsorted``, which takes longer to compile than all of this."""
    low, high = 0, knots.size
    while low < high:
        middle = (low + high) // 2
        if knots[middle] <= t:
            low = middle + 1
        else:
            high = middle
    return low


@jit(no_reference_counting=True)
def factor(code, x, t):
    """Value at time t of one piece; constant outside its knots, and right-continuous."""
    if code == POWER:
        return (1.0 + max(t - x[0], 0.0) / x[2]) ** -x[1]
    if code == POLYNOMIAL:
        left = min(max((x[1] - t) / (x[1] - x[0]), 0.0), 1.0)
        return x[4] + (x[3] - x[4]) * left ** x[2]
    n = x.size // 2
    knots, values = x[:n], x[n:]
    if t < knots[0] or t >= knots[n - 1]:
        return values[0] if t < knots[0] else values[n - 1]
    i = reached(knots, t) - 1
    if code == CONSTANT:
        return values[i]
    fraction = (t - knots[i]) / (knots[i + 1] - knots[i])
    if code == COSINE:
        fraction = (1.0 - math.cos(math.pi * fraction)) / 2
    return values[i] + fraction * (values[i + 1] - values[i])


@jit(no_reference_counting=True)
def factors(t, channels, codes, edges, data, out):
    """Fill ``out`` with the product of the pieces of each channel at time t."""
    for i in range(out.size):
        out[i] = 1.0
    for i in range(channels.size):
        out[channels[i]] *= factor(codes[i], data[edges[i] : edges[i + 1]], t)


@jit(no_reference_counting=True)
def table(times, channels, codes, edges, data, out):
    """Fill column n of ``out`` with the factors at ``times[n]``."""
    out[:] = 1.0
    for i in range(channels.size):
        row, code, x = out[channels[i]], codes[i], data[edges[i] : edges[i + 1]]
        for n in range(row.size):
            row[n] *= factor(code, x, times[n])
