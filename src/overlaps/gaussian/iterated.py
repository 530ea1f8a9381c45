"""Rules for averages over a few Gaussian variables of a function that breaks on planes, and the size that suffices.

Up to two variables, three if the function breaks: iterated (``_iterated``). Smooth functions of three or four: tensors
of Gauss-Hermite nodes, good for polynomials and small variances. Of three to eight: the trapezoid rule on a lattice,
inside a ball, good for units that saturate. Its error is the integrand's Fourier transform at the points of the dual
lattice, so the dual is the densest there is: A_3, D_4, D_5, E_6, E_7, E_8. Functions that break: Sobol points for all
variables but the one that crosses all planes, which keeps the average smooth.
"""

from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise

import numpy as np

from ._iterated import FAINT, cut, nodes
from .quadrature import gauss_hermite, legendre, sobol, tensor

__all__ = ["GRADED", "MOST", "cut", "discrepancy", "nodes", "rules", "settled_size"]

# Nodes and widths of panels. Between breaks closer than a width panels are the same at all sizes, so numbers of nodes
# differ: with equal ones, two sizes would agree there whatever the function does.
ITERATED = ((8, 3.0), (10, 3.0), (12, 3.0), (16, 3.0), (20, 1.5), (24, 0.75))
GRADED = tuple((q, 0.0) for q in (10, 16, 20))  # shrinking to the breaks of two variables: forces may have layers
CUBIC = (*ITERATED[:4], (20, 3.0))  # of three variables: a million points
TENSORS = {3: (24, 40), 4: (16, 24)}  # nodes in each direction
BALLS = ((5, 6.0), (5.5, 6.2), (6, 6.3), (7, 6.6), (8, 7.0), (9, 7.4))  # lattices: shortest frequency, radius
CLOSE = ((13, 8.4), (16, 8.7), (20, 9.0))  # where tensors do not suffice, to 1e-8 or better
LATTICES = {3: CLOSE, 4: CLOSE[:2], 5: BALLS[2:], 6: BALLS[2:], 7: BALLS[:4], 8: BALLS[:4]}  # up to two million points
LOG2_POINTS, SCRAMBLES = 12, 4  # of Sobol points: their spread is the error
MOST = 8  # variables


class Sizes(Sequence):
    """Rules of ascending size, each made when it is asked for: the largest take seconds and a hundred megabytes."""

    def __init__(self, count, make):
        self.number, self.make = count, cache(make)

    def __len__(self):
        return self.number

    def __getitem__(self, i):
        if not 0 <= i < self.number:
            raise IndexError(i)
        return self.make(i)


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
    if not broken:
        kinds = [
            *(partial(_tensor, d, n) for n in TENSORS.get(d, ())),
            *(partial(_lattice, d, *x) for x in LATTICES[d]),
        ]
        return Sizes(len(kinds), lambda i: (*kinds[i](), d, 1.0, empty, empty)), False
    parts = [sobol(d - 1, LOG2_POINTS, seed) for seed in range(SCRAMBLES)]
    scrambles = []
    for given in (np.concatenate(parts), *parts):
        points = np.concatenate([given, np.zeros((len(given), 1))], axis=1)
        scrambles.append((points, np.full(len(points), 1 / len(points)), d - 1, 3.0, *legendre(12)))
    return scrambles, True


def _lattice(d, shortest, reach):
    """Points (P, d) within ``reach`` and weights (P,) of the lattice whose dual is the densest at this distance."""
    gram = 2 * np.eye(d)
    for i, j in [*pairwise(range(d - 1)), (min(2, d - 3), d - 1)]:  # bonds: a chain, and one more that leaves it
        gram[i, j] = gram[j, i] = -1
    basis = 2 * np.pi * np.linalg.inv(np.linalg.cholesky(gram) * shortest / np.sqrt(2)).T  # rows, upper triangular
    points = np.zeros((1, d))
    for i, row in enumerate(basis):  # all multiples of this row that leave the first i + 1 coordinates in the ball
        half_width = np.sqrt(reach**2 - np.sum(points[:, :i] ** 2, axis=1))
        first, last = np.ceil((-half_width - points[:, i]) / row[i]), np.floor((half_width - points[:, i]) / row[i])
        counts = np.maximum(last - first + 1, 0).astype(int)
        which = np.repeat(np.arange(len(points)), counts)
        multiples = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + first[which]
        points = points[which] + multiples[:, None] * row
    weights = np.exp(-np.sum(points**2, axis=1) / 2)
    return points, weights / np.sum(weights)


def _tensor(d, n):
    """Gauss-Hermite nodes (P, d) and weights (P,) in d directions."""
    points, weights = tensor(gauss_hermite(n), d)
    return np.ascontiguousarray(points.T[weights > FAINT]), weights[weights > FAINT]


def settled_size(evaluate, count, first, goals, rounding=None):
    """(Size from ``first`` on that agrees with the next to the goals, or None; the discrepancies of each array).

    ``evaluate(size)`` gives arrays, compared relative to the largest entry of each; ``rounding`` of each is no
    difference.
    """
    before, rounding = evaluate(first), rounding or [0.0] * len(goals)
    for size, following in pairwise(range(first, count)):
        after = evaluate(following)
        gaps = [discrepancy(*both) for both in zip(before, after, rounding, strict=True)]
        if np.all(np.less_equal(gaps, goals)):
            return size, gaps
        before = after
    return None, gaps


def discrepancy(x, y, rounding=0.0):
    """Largest difference beyond rounding, relative to the largest entry."""
    return max(np.max(np.abs(x - y)) - rounding, 0.0) / max(np.max(np.abs(x)), np.max(np.abs(y)), 1e-300)
