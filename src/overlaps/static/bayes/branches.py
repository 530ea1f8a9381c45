"""Branches of a curve data(parameter): roots where it rises, lists of solutions, and Maxwell's construction."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, isotonic_regression, root

from ._features import entropy

__all__ = ["Jump"]


class BranchOptions(NamedTuple):
    """Tolerances of solutions and transitions."""

    # Relative distance below which two solutions are the same; roots are found to 1e-15.
    same_rtol: float = 1e-11
    # A relative fall of L(t) below this may be rounding and gives no transition; weaker transitions are not found.
    min_fall: float = 1e-12


BRANCHES = BranchOptions()


class Jump(NamedTuple):
    """A first-order transition: signal-to-noise ratio, overlap below, overlap above."""

    lam: float
    below: float
    above: float


def crossings(f, x, above, **tolerances):
    """Roots of f, one in each cell of the ascending x where ``above`` (n,) becomes true."""
    return [brentq(f, x[i], x[i + 1], **tolerances) for i in np.flatnonzero(~above[:-1] & above[1:])]


def overlapping(intervals):
    """Groups of intervals (low, high, ...), ascending in low, that overlap."""
    groups: list[list] = []
    end = -math.inf
    for interval in intervals:
        if interval[0] > end:
            groups.append([])
        groups[-1].append(interval)
        end = max(end, interval[1])
    return groups


def merge(first, second):
    """Union of two lists of solutions, ascending; solutions that agree are listed once."""
    result: list[float] = []
    for s in sorted([*first, *second]):
        if not result or s > result[-1] * (1 + BRANCHES.same_rtol):
            result.append(s)
    return result


def transitions(climb, snr, points, end):
    """First-order transitions of the argmax over q of lam x(q) + q + ln(1 - q), for an increasing x(q), x(0) = 0.

    Transitions are bridges of the convex hull of (x, -q - ln(1 - q)) over t = q / (1 - q) = 0 and a grid from 1e-8 to
    ``end``; each is polished. Bridges over increasing L(t) are rounding errors and are dropped.

    Parameters
    ----------
    climb : callable
        x(b) - x(a) between two values a < b of t.
    snr : callable
        L(t) = t / x'(q), the lam at which t is stationary.
    """
    t = np.concatenate([[0.0], np.geomspace(1e-8, end, points)])
    widths = np.array([climb(a, b) for a, b in itertools.pairwise(t)])
    price = np.array([entropy(x) for x in t])
    snr_values = np.array([snr(x) for x in t[1:]])
    jumps = []
    for i, j in bridges(widths, np.diff(price)):
        inside = snr_values[max(i - 1, 0) : j]
        if np.any(inside < (1 - BRANCHES.min_fall) * np.maximum.accumulate(inside)):
            jumps.append(from_zero(climb, snr, t, j) if i == 0 else between(climb, snr, t[i], t[j]))
    return tuple(jumps)


def from_zero(climb, snr, t, j):
    """The transition from q = 0 to a q near node j."""

    def excess(u):  # increases through 0 at the minimum of -s/x
        y = math.exp(u)
        return math.log(snr(y) * climb(0.0, y) / entropy(y))

    above = math.exp(brentq(excess, math.log(t[j - 1]), math.log(t[j + 1]), xtol=1e-15, rtol=1e-15))
    return Jump(entropy(above) / climb(0.0, above), 0.0, above / (1 + above))


def between(climb, snr, below, above):
    """The transition between two positive overlaps, near the given t."""

    def conditions(u):
        a, b = np.exp(u)
        lam = snr(a)
        return [math.log(snr(b) / lam), lam * climb(a, b) - entropy(b) + entropy(a)]

    a, b = np.exp(root(conditions, np.log([below, above]), tol=1e-15).x)
    return Jump(snr(a), float(a / (1 + a)), float(b / (1 + b)))


def bridges(widths, heights):
    """Maxwell's construction: the intervals (i, j) of a curve that its lower convex hull bridges, j > i + 1.

    The curve is given by its steps, widths >= 0 and heights > 0. Neighbours are merged until heights / widths ascend.
    Steps are added up because differences of coordinates would cancel.
    """
    edges = isotonic_regression(widths / heights, weights=heights, increasing=False).blocks.tolist()
    return [(i, j) for i, j in itertools.pairwise(edges) if j > i + 1]
