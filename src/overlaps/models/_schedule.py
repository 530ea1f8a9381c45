"""Factors of schedules at a time, for compiled integrators and simulators.

A schedule is a product of pieces. Piece i multiplies the number ``channels[i]`` by a function with the code
``codes[i]`` and the parameters x = ``data[edges[i] : edges[i + 1]]``. These are the knots followed by the values there.
For a power they are (begin, exponent, scale); for a polynomial (begin, end, exponent, first, last).
"""

import math
from typing import NamedTuple

from .._base.jit import jit


class Codes(NamedTuple):
    """Codes of the kinds of pieces."""

    constant: int = 0
    linear: int = 1
    cosine: int = 2
    power: int = 3
    polynomial: int = 4


CODES = Codes()


@jit(no_reference_counting=True)
def reached(knots, t):
    """Number of knots <= t; ``np.searchsorted`` takes longer to compile than this module."""
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
    if code == CODES.power:
        return (1.0 + max(t - x[0], 0.0) / x[2]) ** -x[1]
    if code == CODES.polynomial:
        left = min(max((x[1] - t) / (x[1] - x[0]), 0.0), 1.0)
        return x[4] + (x[3] - x[4]) * left ** x[2]
    n = x.size // 2
    knots, values = x[:n], x[n:]
    if t < knots[0] or t >= knots[n - 1]:
        return values[0] if t < knots[0] else values[n - 1]
    i = reached(knots, t) - 1
    if code == CODES.constant:
        return values[i]
    fraction = (t - knots[i]) / (knots[i + 1] - knots[i])
    if code == CODES.cosine:
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
