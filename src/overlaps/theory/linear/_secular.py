r"""Eigenvalues of a diagonal minus a rank-one matrix, diag(D) - z z^T, by the secular equation.

.. math:: 1 = \sum_l \frac{w_l}{D_l - x}, \qquad w_l = z_l^2, \qquad x_0 < D_0 < x_1 < D_1 < \dots

Each root is computed in its own gap as a distance to the nearer pole, so that no difference D_l - x is cancelled.
Gaps are treated in blocks: poles far from a block act on it as a smooth function, which is interpolated.  L roots cost
~ L^1.5 instead of L^2.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base.jit import jit


class SecularOptions(NamedTuple):
    """Tunable numbers of the roots of the secular equation."""

    # Length of Chebyshev series of poles a block length away, which converge like (3 + sqrt 8)^-n = 5e-16. Halved:
    # errors of 1e-8.
    n_chebyshev: int = 20
    min_far_poles: int = 64  # Fewest distant poles that are interpolated; fewer are summed, which is faster.
    eps: float = 2.0**-52  # Relative rounding error of a number; roots are accurate to it.
    max_iterations: int = 100  # Newton's method needs about 5, bisection more.


SECULAR = SecularOptions()


@jit
def near_sums(D, w, base, shift, first, last):
    """Sums of w/(D - x), w/(D - x)^2, |w/(D - x)| over poles first..last-1, at x = base + shift."""
    value, slope, size = 0.0, 0.0, 0.0
    for l in range(first, last):
        inverse = 1.0 / ((D[l] - base) - shift)  # this order: the first difference is exact near the pole
        term = w[l] * inverse
        value += term
        slope += term * inverse
        size += abs(term)
    return value, slope, size


@jit(fast=True)
def _far_sum(D, w, x, power, first, last):
    total = 0.0
    for l in range(first, last):
        inverse = 1.0 / (D[l] - x)
        total += w[l] * inverse if power == 1 else w[l] * inverse * inverse
    return total


@jit
def far_series(D, w, low, high, power, first, last):
    """Chebyshev coefficients on [low, high] of the sum of w/(D - x)^power over all poles but first..last-1."""
    values, coefficients = np.empty(SECULAR.n_chebyshev), np.empty(SECULAR.n_chebyshev)
    for i in range(SECULAR.n_chebyshev):
        x = 0.5 * (low + high) + 0.5 * (high - low) * math.cos(math.pi * (i + 0.5) / SECULAR.n_chebyshev)
        values[i] = _far_sum(D, w, x, power, 0, first) + _far_sum(D, w, x, power, last, D.size)
    for k in range(SECULAR.n_chebyshev):
        total = 0.0
        for i in range(SECULAR.n_chebyshev):
            total += values[i] * math.cos(math.pi * k * (i + 0.5) / SECULAR.n_chebyshev)
        coefficients[k] = total * (1.0 if k == 0 else 2.0) / SECULAR.n_chebyshev
    return coefficients


@jit
def evaluate(coefficients, u):
    """Chebyshev series at u in [-1, 1], by Clenshaw's recursion."""
    b, c = 0.0, 0.0
    for k in range(SECULAR.n_chebyshev - 1, 0, -1):
        b, c = 2 * u * b - c + coefficients[k], b
    return u * b - c + coefficients[0]


@jit
def _sums(D, w, base, shift, block, first, last, value_series, slope_series):
    """The sums over all poles, with those outside first..last-1 from their series on the interval ``block``."""
    value, slope, size = near_sums(D, w, base, shift, first, last)
    # differences first, as in near_sums: the position in the block is as accurate as ``shift``
    u = ((base - block[0]) + shift - 0.5 * (block[1] - block[0])) / (0.5 * (block[1] - block[0]))
    far = evaluate(value_series, u)
    return value + far, slope + evaluate(slope_series, u), size + abs(far)


@jit
def _gap_root(D, w, j, total, block, first, last, value_series, slope_series):
    """(pole, distance with its sign) of the root between D[j - 1] and D[j]; below D[0] for j = 0.

    Newton's method on the function without its poles, t (gap - t) (sum - 1), restricted to a bracket.
    """
    gap = np.inf if j == 0 else D[j] - D[j - 1]
    pole, sign = j, -1.0
    if j > 0:
        middle = _sums(D, w, D[j], -0.5 * gap, block, first, last, value_series, slope_series)[0]
        # measure from the nearer pole, because rounding of D would dominate the distance to it otherwise
        if middle > 1.0:  # the sum grows from -inf to inf, so that the root is below the middle
            pole, sign = j - 1, 1.0
        # lower bound: all other weight at the distance gap/2
        low, high = w[pole] / (1 + 2 * total / gap), 0.5 * gap
    else:
        low, high = w[0], total  # the first pole alone, and all weight in it
    low = min(low, high)
    # the geometric mean, because t spans many decades next to a pole of small weight
    t = math.sqrt(low * high)
    for _ in range(SECULAR.max_iterations):
        value, slope, size = _sums(D, w, D[pole], sign * t, block, first, last, value_series, slope_series)
        value -= 1.0
        # the rest is rounding of the terms, whose moduli sum to ``size``
        if abs(value) <= SECULAR.eps * (1 + size):
            break
        if (value > 0) == (sign > 0):
            high = t
        else:
            low = t
        rest = 1.0 if j == 0 else 1 - t / gap
        drest = 0.0 if j == 0 else -1 / gap
        new = t - t * rest * value / ((rest + t * drest) * value + t * rest * sign * slope)
        # Newton's step left the bracket: bisect in log t instead
        if not low < new < high:
            new = math.sqrt(low * high)
        done = abs(new - t) <= SECULAR.eps * t
        t = new
        if done:
            break
    return pole, sign * t


@jit
def _root_near_zero(D, w):
    """Lowest root where it is within D[0]/2 of 0, from x sum_l (w/D)/(D - x) = 1 - sum_l w/D.

    No cancellation at the threshold, x = 0. The left side is convex: Newton descends from D[0]/2 to the root.
    """
    ratio = w / D
    distance = 1.0 - np.sum(ratio)
    x = 0.5 * D[0]
    for _ in range(SECULAR.max_iterations):
        value, slope, _ = near_sums(D, ratio, 0.0, x, 0, D.size)
        new = x - (x * value - distance) / (value + x * slope)
        if not new < x:
            break
        x = new
    return x


@jit
def roots(D, w, x):
    """Roots (L,), sums of w/(D - root)^2 (L,) and of x/(D - root) (L,); D ascending and distinct, w > 0."""
    L, total = D.size, np.sum(w)
    root, norm, overlap = np.empty(L), np.empty(L), np.empty(L)
    zero = np.zeros(SECULAR.n_chebyshev)
    size = max(16, int(0.6 * math.sqrt(L)))
    unused = (D[0], D[0] + 1.0)  # the lowest root sums all poles directly
    below_half = D[0] > 0 and near_sums(D, w, 0.0, 0.5 * D[0], 0, L)[0] > 1.0
    if below_half and near_sums(D, w, 0.0, -0.5 * D[0], 0, L)[0] < 1.0:
        base, shift = 0.0, _root_near_zero(D, w)
    else:
        base, shift = D[0], _gap_root(D, w, 0, total, unused, 0, L, zero, zero)[1]
    root[0] = base + shift
    norm[0] = near_sums(D, w, base, shift, 0, L)[1]
    overlap[0] = near_sums(D, x, base, shift, 0, L)[0]
    for start in range(1, L, size):
        end = min(start + size, L)
        block = (D[start - 1], D[end - 1])
        width = block[1] - block[0]
        first, last = np.searchsorted(D, block[0] - width), np.searchsorted(D, block[1] + width)
        if L - (last - first) < SECULAR.min_far_poles:
            first, last = 0, L
        w1, w2, x1 = zero, zero, zero
        if last - first < L:
            w1 = far_series(D, w, block[0], block[1], 1, first, last)
            w2 = far_series(D, w, block[0], block[1], 2, first, last)
            x1 = far_series(D, x, block[0], block[1], 1, first, last)
        for j in range(start, end):
            pole, shift = _gap_root(D, w, j, total, block, first, last, w1, w2)
            root[j] = D[pole] + shift
            norm[j] = _sums(D, w, D[pole], shift, block, first, last, w1, w2)[1]
            overlap[j] = _sums(D, x, D[pole], shift, block, first, last, x1, zero)[0]
    return root, norm, overlap
