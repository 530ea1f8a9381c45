"""Rules for averages over a few Gaussian variables of a function that breaks on planes, and the size that suffices.

Up to three variables: iterated (``_iterated``). Smooth functions of three or four: tensors of Gauss-Hermite nodes.
More: scrambled Sobol points for all variables, but the one that crosses all planes if there are any, which keeps the
average smooth; without planes, nodes of one variable would cost 72 times as many points and gain no digit.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from ._iterated import FAINT, cut, nodes
from .rules import gauss_hermite, legendre

__all__ = ["GRADED", "MOST", "cut", "distance", "nodes", "rules", "settle"]

ITERATED = ((8, 3.0), (10, 3.0), (12, 3.0), (16, 3.0), (16, 1.5), (16, 0.75))  # nodes and widths of panels
GRADED = (
    (10, 0.0),
    (16, 0.0),
    (20, 0.0),
)  # panels that shrink to the breaks, of two variables: forces may have layers there
CUBIC = (*ITERATED[:4], (20, 3.0))  # of three variables: a million points
TENSORS = {3: (24, 40, 60), 4: (16, 24, 32)}  # nodes in each direction
LOG2_POINTS, SCRAMBLES = {True: 12, False: 16}, 4  # of Sobol points (broken, smooth): their spread is the error
MOST = 8  # variables


@cache
def rules(d, broken):
    """The rules (points, weights, given, width, x, p) of ``_iterated.nodes`` for d variables, and whether by chance.

    Ascending sizes, or, by chance, Sobol points of all scrambles and of each one.
    """
    empty = np.zeros(0)
    if d <= 2 or (d == 3 and broken):
        one = np.zeros((1, d)), np.ones(1), 0
        sizes = CUBIC if d == 3 else ITERATED + GRADED if broken else ITERATED
        return [(*one, width, *legendre(q)) for q, width in sizes], False
    if d in TENSORS and not broken:
        return [(*_tensor(d, n), d, 1.0, empty, empty) for n in TENSORS[d]], False
    from scipy.stats import qmc  # half a second that only this rule pays

    outer = d - 1 if broken else d
    parts = [
        ndtri(qmc.Sobol(outer, seed=np.random.default_rng(seed)).random_base2(LOG2_POINTS[broken]))
        for seed in range(SCRAMBLES)
    ]
    found = []
    for given in (np.concatenate(parts), *parts):
        points = np.concatenate([given, np.zeros((len(given), d - outer))], axis=1)
        found.append((points, np.full(len(points), 1 / len(points)), outer, 3.0, *legendre(12)))
    return found, True


def _tensor(d, n):
    """Gauss-Hermite nodes (P, d) and weights (P,) in d directions."""
    u, p = gauss_hermite(n)
    weights = np.prod(np.meshgrid(*[p] * d, indexing="ij"), axis=0).ravel()
    points = np.stack(np.meshgrid(*[u] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return np.ascontiguousarray(points[weights > FAINT]), weights[weights > FAINT]


def settle(evaluate, count, first, goals, rounding=0.0):
    """(Size from ``first`` on that agrees with the next to the goals, or None; the discrepancies of each array).

    ``evaluate(size)`` gives arrays, compared relative to the largest entry of each; ``rounding`` is no difference.
    """
    before = evaluate(first)
    for size, following in pairwise(range(first, count)):
        after = evaluate(following)
        gaps = [distance(x, y, rounding) for x, y in zip(before, after, strict=True)]
        if all(gap <= goal for gap, goal in zip(gaps, goals, strict=True)):
            return size, gaps
        before = after
    return None, gaps


def distance(x, y, rounding=0.0):
    """Largest difference beyond rounding, relative to the largest entry."""
    return max(np.max(np.abs(x - y)) - rounding, 0.0) / max(np.max(np.abs(x)), np.max(np.abs(y)), 1e-300)
