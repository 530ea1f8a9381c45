"""Quadratures for averages over a few Gaussian variables of a function with breaks on planes, and the size needed.

* One or two variables, or three if the function has breaks: iterated quadrature (``_iterated``).
* Smooth functions of three or four variables: tensor products of Gauss-Hermite nodes, good for polynomials and small
  variances.
* Smooth functions of three to eight variables: the trapezoid rule on a lattice inside a ball, good for units that
  saturate. Its error is the integrand's Fourier transform at the points of the dual lattice. The dual is therefore the
  densest lattice of its dimension: A_3, D_4, D_5, E_6, E_7, E_8.
* Functions with breaks of four to eight variables: Sobol points for all variables but one, whose axis crosses all
  planes. Integrating this one by panels makes the rest smooth.
"""

from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ._iterated import PIECEWISE, cut, nodes
from .quadrature import gauss_hermite, legendre, sobol, tensor

__all__ = ["MAX_VARIABLES", "SIZES", "cut", "discrepancy", "nodes", "rules", "settled_size"]

MAX_VARIABLES = 8


class QuadratureSizes(NamedTuple):
    """Ascending sizes of each quadrature; two successive sizes are compared to estimate the error."""

    # Nodes per panel and largest width of a panel. Breaks closer than a width enclose the same panel at all sizes, so
    # the numbers of nodes differ: with equal ones, two sizes would agree there for any function.
    panels: tuple[tuple[int, float], ...] = ((8, 3.0), (10, 3.0), (12, 3.0), (16, 3.0), (20, 1.5), (24, 0.75))
    # Nodes per panel graded towards the breaks (width 0), for two variables, because forces may have layers at breaks.
    graded: tuple[tuple[int, float], ...] = ((10, 0.0), (16, 0.0), (20, 0.0))
    # Nodes per panel and largest width for three variables, up to a million points.
    panels_3d: tuple[tuple[int, float], ...] = ((8, 3.0), (10, 3.0), (12, 3.0), (16, 3.0), (20, 3.0))
    # Gauss-Hermite nodes in each direction, by the number of variables.
    tensors: dict[int, tuple[int, int]] = {3: (24, 40), 4: (16, 24)}
    # Shortest frequency of the dual lattice and radius of the ball, for five variables or more.
    lattices: tuple[tuple[float, float], ...] = ((5, 6.0), (5.5, 6.2), (6, 6.3), (7, 6.6), (8, 7.0), (9, 7.4))
    # The same for three and four variables, where tensor products come first: to 1e-8 or better.
    fine_lattices: tuple[tuple[float, float], ...] = ((13, 8.4), (16, 8.7), (20, 9.0))
    # Binary logarithm of the number of Sobol points, and the number of scrambles, whose spread is the error.
    log2_points: int = 12
    n_scrambles: int = 4


SIZES = QuadratureSizes()


class Sizes(Sequence):
    """Quadratures of ascending size, constructed on first access: the largest take seconds and a hundred megabytes."""

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
    """Quadratures (points, weights, given, width, x, p) for ``_iterated.nodes``, and whether they are random.

    They are for d variables and have ascending sizes. Random ones are Sobol points: of all scrambles together, then of
    each one.
    """
    empty = np.zeros(0)
    if d <= 2 or (d == 3 and broken):
        one = np.zeros((1, d)), np.ones(1), 0
        sizes = SIZES.panels_3d if d == 3 else SIZES.panels + SIZES.graded if broken else SIZES.panels
        return [(*one, width, *legendre(q)) for q, width in sizes], False
    if not broken:
        kinds = [
            *(partial(_tensor, d, n) for n in SIZES.tensors.get(d, ())),
            *(partial(_lattice, d, *x) for x in _lattices(d)),
        ]
        return Sizes(len(kinds), lambda i: (*kinds[i](), d, 1.0, empty, empty)), False
    each = [sobol(d - 1, SIZES.log2_points, seed) for seed in range(SIZES.n_scrambles)]
    scrambles = []
    for given in (np.concatenate(each), *each):
        points = np.concatenate([given, np.zeros((len(given), 1))], axis=1)
        scrambles.append((points, np.full(len(points), 1 / len(points)), d - 1, 3.0, *legendre(12)))
    return scrambles, True


def _lattices(d):
    """Sizes of the lattices for d variables, of at most two million points."""
    if d < 5:
        return SIZES.fine_lattices[: 6 - d]
    return SIZES.lattices[2:] if d < 7 else SIZES.lattices[:4]


def _lattice(d, shortest, reach):
    """Points (P, d) within ``reach`` and weights (P,) of the lattice whose dual is the densest at this distance."""
    gram = 2 * np.eye(d)
    # bonds of the Dynkin diagram: a chain, and one branch
    for i, j in [*pairwise(range(d - 1)), (min(2, d - 3), d - 1)]:
        gram[i, j] = gram[j, i] = -1
    basis = 2 * np.pi * np.linalg.inv(np.linalg.cholesky(gram) * shortest / np.sqrt(2)).T  # rows, upper triangular
    points = np.zeros((1, d))
    for i, row in enumerate(basis):  # all multiples of this row for which the first i + 1 coordinates are in the ball
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
    kept = weights > PIECEWISE.min_weight
    return np.ascontiguousarray(points.T[kept]), weights[kept]


def settled_size(evaluate, count, first, goals, rounding=None):
    """(Smallest size from ``first`` on that agrees with the next one to the goals, or None; the discrepancies).

    ``evaluate(size)`` returns arrays, which are compared relative to their largest entries. Differences up to
    ``rounding``, one number for each array, are ignored.
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
