"""Kernels of one feature and of all of them: correlation function, stationary overlap, sums over features.

The variable is t = q / (1 - q), because 1 - q = 1 / (1 + t) then keeps its relative precision when q -> 1.
A correlation function is a code and four lists of coefficients (``Correlation.series``). The coefficients are positive,
so that no sum cancels.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base.jit import jit


class Kinds(NamedTuple):
    """Codes of the families of correlation functions."""

    series: int = 0
    relu: int = 1


KIND = Kinds()


@jit
def correlation(kind, series, t):
    """(g, g', g'', g(1) - g) at q = t / (1 + t)."""
    q, p = t / (1 + t), 1 / (1 + t)
    if kind == KIND.relu:
        return relu_correlation(series, q, p)
    g, dg, d2g, gap = 0.0, 0.0, 0.0, 0.0
    for i in range(series.shape[1] - 1, -1, -1):
        g = g * q + series[0, i]
        dg = dg * q + series[1, i]
        d2g = d2g * q + series[2, i]
        gap = gap * q + series[3, i]
    return g, dg, d2g, p * gap


@jit
def relu_correlation(series, q, p):
    """The same for scale * (relu without degrees 0, 1, 2) + c_2 q^2, in closed form; p = 1 - q."""
    scale, c2 = series[0, 0] / (2 * math.pi), series[1, 0]
    theta = 2 * math.asin(math.sqrt(0.5 * p))  # q = cos(theta)
    sine = math.sqrt(p * (1 + q))
    if q < 0.5:  # arcsin(q) - q and its integral, by their series
        term, g, dg = 0.5 * q**3, 0.0, 0.0  # term: q^(2j+1) binom(2j, j) / 4^j
        for j in range(1, 26):
            dg += term / (2 * j + 1)
            g += term * q / ((2 * j + 1) * (2 * j + 2))
            term *= q * q * (2 * j + 1) / (2 * j + 2)
    else:
        dg = 0.5 * math.pi - theta - q
        g = q * (0.5 * math.pi - theta) + sine - 1 - 0.5 * q * q
    if theta < 0.5:  # theta cos(theta) - sin(theta), by its series
        bend, power = 0.0, theta
        for j in range(1, 8):
            power *= -theta * theta / (2 * j * (2 * j + 1))
            bend += 2 * j * power
    else:
        bend = theta * q - sine
    gap = 0.5 * math.pi * p + bend - 0.5 * p * (1 + q)
    d2g = q * q / (sine * (1 + sine))
    return scale * g + c2 * q * q, scale * dg + 2 * c2 * q, scale * d2g + 2 * c2, scale * gap + c2 * p * (1 + q)


@jit
def entropy(t):
    """-s(q) = -q - ln(1 - q) >= 0, the price of the overlap q = t / (1 + t)."""
    if t > 0.02:
        return math.log1p(t) - t / (1 + t)
    total, power = 0.0, -t
    for n in range(2, 12):
        power *= -t
        total += power * (n - 1) / n
    return total


@jit
def stationary(kind, series, edges, log_lam, log_t, slope, lam):
    """Stationary t of the branch that holds the maximum at this lam; 0 below the onset.

    ``edges[b]`` is the lam where branch b begins. Entries b of the tables are log lam, log t and dlog t / dlog lam at
    its nodes. A cubic through two nodes is within 1e-7; one Newton step for log L(t) = log lam polishes it. Between a
    continuous onset and the first node, t is proportional to lam - onset.
    """
    b = np.searchsorted(edges, lam, side="right") - 1
    if b < 0:
        return 0.0
    x, n = math.log(lam), log_lam.shape[1]
    first = math.exp(log_t[b, 0])
    max_onset_t = 1e-7  # tables of continuous onsets begin below it, at 1e-8; only these branches continue to t = 0
    if b == 0 and first < max_onset_t:
        t = (lam / edges[0] - 1) * slope[0, 0] * first
        if t < first:
            return t
    if x >= log_lam[b, n - 1]:
        u, low, high = log_t[b, n - 1] + x - log_lam[b, n - 1], log_t[b, n - 1], np.inf
    else:
        j = max(np.searchsorted(log_lam[b], x, side="right"), 1)
        i = j - 1
        low, high = log_t[b, i], log_t[b, j]
        h = log_lam[b, j] - log_lam[b, i]
        z = max((x - log_lam[b, i]) / h, 0.0)
        u = (1 + 2 * z) * (1 - z) ** 2 * low + z * z * (3 - 2 * z) * high
        u += h * z * (1 - z) * ((1 - z) * slope[b, i] - z * slope[b, j])
    t = math.exp(min(max(u, low), high))
    _, dg, d2g, _ = correlation(kind, series, t)
    rise = 1 - t / (1 + t) ** 2 * d2g / dg  # dlog L / dlog t
    if rise > 0:  # it vanishes at a continuous onset that is nearly discontinuous
        u += (x - math.log(t / dg)) / rise
        t = math.exp(min(max(u, low), high))
    return t


@jit
def overlaps(kind, series, edges, log_lam, log_t, slope, lam, q, gap, price):
    """Overlap q = m(lam), gap g(1) - g(q) and price -s(q) of every entry of lam."""
    for i in range(lam.size):
        t = stationary(kind, series, edges, log_lam, log_t, slope, lam[i])
        q[i] = t / (1 + t)
        gap[i] = correlation(kind, series, t)[3]
        price[i] = entropy(t)


@jit
def totals(kind, series, edges, log_lam, log_t, slope, s, v2, tail):
    """(sum v^2 (g(1) - g(q)), sum -s(q), number of q > 0) at q = m(s v^2); v2 descends, tail[i] = sum v2[i:]."""
    eps, price = 0.0, 0.0
    for i in range(v2.size):
        t = stationary(kind, series, edges, log_lam, log_t, slope, s * v2[i])
        if t == 0.0:  # weaker features are not learned either
            return eps + tail[i] * correlation(kind, series, 0.0)[3], price, i
        eps += v2[i] * correlation(kind, series, t)[3]
        price += entropy(t)
    return eps, price, v2.size
