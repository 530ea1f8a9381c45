"""Functions without a code as tables that kernels read: polynomials of degree 11 on panels as short as they need.

A table is one array of floats: ``(reach, panels, functions)``, the first and the last panel of every bin,
the edges of the panels, then for each panel (centre, 1 / half width, coefficients of g, of g', of g'' if it is known).
Panels are halved until polynomials through Chebyshev nodes agree with the functions elsewhere to GOAL, relative to the
largest value there or at smaller arguments, which is what Gaussian averages see.  A kink ends up between two panels.
Bins are eighths of the octaves of |x|: the bits of a float say which.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.polynomial import chebyshev, polynomial

from .._base.jit import jit
from .two_point import slope, value

GOAL = 1e-13
NEEDED = 9.0  # what every function is asked for; beyond, tables go as far as LARGEST, or as PANELS suffice
LARGEST, PANELS, DEGREE = 2.0**16, 2**13, 11
LEAST = 2.0**-10  # up to there one bin; relative accuracy of odd functions is kept down to any size
# Of the size of a function on [-1, 1]: errors are relative to no less, so that zeros of the function ask for no digits.
SMALL = 1e-2
NARROW = 1e-14  # width, relative to the place, of a panel that is not halved again: there is a kink in it
PER_OCTAVE = 8
SHIFT = 52 - 3  # bits of a float below the bits that number its bin
OCTAVES = 26  # from LEAST to LARGEST
SIDE = OCTAVES * PER_OCTAVE
FIRST: int = np.float64(LEAST).view(np.int64).item() >> SHIFT
HEAD = 3
EDGES = HEAD + 2 * (2 * SIDE + 1)

NODES = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
CHECKS = np.array([-0.998, -0.93, -0.71, -0.31, 0.17, 0.55, 0.83, 0.97])
SIZE = DEGREE + 1
TO_CHEBYSHEV = 2 / SIZE * chebyshev.chebvander(NODES, DEGREE) * np.where(np.arange(SIZE) > 0, 1.0, 0.5)  # of values
TO_POWERS = np.array([np.r_[chebyshev.cheb2poly(c), np.zeros(SIZE)][:SIZE] for c in np.eye(SIZE)])
AT_CHECKS = chebyshev.chebvander(CHECKS, DEGREE).T


class Table(NamedTuple):
    """The array for kernels; its error, relative to the function's size; the functions' name, for messages."""

    data: np.ndarray
    error: float
    name: str

    @property
    def reach(self):
        """Largest |x| that the table knows."""
        return float(self.data[0])


NOTHING = np.zeros(0)  # in the place of a table, for functions with a code


@jit(fast=True)
def place(table, x):
    """Where the panel of x lies in the table, -1 beyond it; and the coordinate of x in the panel."""
    a = abs(x)
    if not a <= table[0]:
        return -1, 0.0
    b = SIDE
    if a >= LEAST:
        # exponent and first bits of the float are the number of its bin: no logarithm, no search over all panels
        e = min(int(np.float64(a).view(np.int64) >> SHIFT) - FIRST + 1, SIDE)
        b = SIDE + e if x > 0.0 else SIDE - e
    low, high = int(table[HEAD + 2 * b]), int(table[HEAD + 2 * b + 1])
    # the few panels that overlap the bin; most bins have one, and nothing is searched
    while low < high:
        middle = (low + high + 1) // 2
        if x >= table[EDGES + middle]:
            low = middle
        else:
            high = middle - 1
    at = EDGES + int(table[1]) + 1 + low * (2 + int(table[2]) * SIZE)
    return at, (x - table[at]) * table[at + 1]


@jit(fast=True)
def series(c, t):
    """sum_p c_p t^p, in an order that leaves little to wait for."""
    s = t * t
    q = s * s
    low = (c[0] + t * c[1]) + s * (c[2] + t * c[3])
    middle = (c[4] + t * c[5]) + s * (c[6] + t * c[7])
    return low + q * (middle + q * ((c[8] + t * c[9]) + s * (c[10] + t * c[11])))


@jit(fast=True)
def read(table, number, x):
    """g(x), g'(x) or g''(x), ``number`` 0, 1 or 2; nan beyond the table."""
    at, t = place(table, x)
    at += 2 + number * SIZE
    # beyond the table nan, which makes an integrator turn back before Python says why
    return series(table[at : at + SIZE], t) if at >= EDGES else np.nan


@jit(fast=True)
def read_both(table, x):
    """g(x) and g'(x); nan beyond the table."""
    at, t = place(table, x)
    if at < 0:
        return np.nan, np.nan
    return series(table[at + 2 : at + 2 + SIZE], t), series(table[at + 2 + SIZE : at + 2 + 2 * SIZE], t)


def read_array(table, x, functions):
    """Values (functions, *x.shape) of the first so many functions, nan beyond the table: ``read`` of an array."""
    panels, known = int(table[1]), int(table[2])
    edges, rows = table[EDGES : EDGES + panels + 1], table[EDGES + panels + 1 :].reshape(panels, 2 + known * SIZE)
    i = np.clip(np.searchsorted(edges, x, "right") - 1, 0, panels - 1)
    with np.errstate(invalid="ignore"):
        t = np.where(np.abs(x) <= table[0], (x - rows[i, 0]) * rows[i, 1], np.nan)
    powers = t[..., None] ** np.arange(SIZE)
    c = rows[:, 2:].reshape(panels, known, SIZE)[i, : min(functions, known)]
    values = np.moveaxis(np.einsum("...fp,...p->...f", c, powers), -1, 0)
    return values if functions <= known else np.concatenate([values, (x * values[1])[None]])


def respond(function, x):
    """g(x) and g'(x) of a function that comes as its code or as its table; kernels are compiled for each."""
    if isinstance(function, np.ndarray):
        return read_both(function, x)
    return value(function, x), slope(function, x)


@overload(respond)
def _respond(function, x):
    if isinstance(function, types.Array):
        return lambda function, x: read_both(function, x)
    return lambda function, x: (value(function, x), slope(function, x))


def polynomial_table(coefficients):
    """The table of a polynomial and its derivatives: one panel without end, exact, where the degree is not too high."""
    rows = [np.array(coefficients, dtype=float)]
    while len(rows) < 3:
        rows.append(polynomial.polyder(rows[-1]))
    if len(rows[0]) > SIZE:
        return tabulate([polynomial.Polynomial(c) for c in rows], f"a polynomial of degree {len(rows[0]) - 1}")
    padded = np.array([np.r_[c, np.zeros(SIZE)][:SIZE] for c in rows])
    return Table(_packed(np.inf, np.array([-np.inf, np.inf]), np.array([[0.0, 1.0]]), padded[None]), 0.0, "polynomial")


def tabulate(functions, name, goal=GOAL):
    """The table of g, g' and perhaps g'' to a relative error; ``ValueError`` where there is none on [-9, 9]."""
    reach, left, error = 0.0, PANELS, 0.0
    panels = []
    with np.errstate(all="ignore"):  # where they are not finite, the table ends
        # a function that vanishes at zero as a difference of numbers of order one is known to their rounding only
        scale = np.array(
            [SMALL * np.nanmax(np.abs(f(NODES)), initial=0.0, where=np.isfinite(f(NODES))) for f in functions]
        )
        for inner, outer in [(0.0, LEAST), *((LEAST * 2.0**i, LEAST * 2.0 ** (i + 1)) for i in range(OCTAVES))]:
            # an octave that fails as a whole may succeed in part: the table then ends there
            for end in inner + (outer - inner) * np.array([1.0, 0.75, 0.5, 0.25, 0.125]):
                # both signs at once, outwards from zero: where a function ends or oscillates, the table ends on both
                # sides
                ring = [(-end, -inner), (inner, end)] if inner else [(-end, end)]
                halved = _halved(functions, np.array(ring), scale, left, goal)
                if halved is not None:
                    edges, rows, worst, scale = halved
                    panels.append((edges, rows))
                    reach, left, error = end, left - len(edges), max(error, worst)
                    break
            if halved is None or end < outer:
                break
    if reach < NEEDED:
        raise ValueError(
            f"{name} cannot be tabulated to {goal:g} beyond |x| = {reach:.4g}; expected functions on [-9, 9] that are "
            f"finite, free of noise, and smooth on {PANELS} intervals. Check for rapid oscillations and cancellation."
        )
    edges, rows = (np.concatenate(x) for x in zip(*panels, strict=True))
    order = np.argsort(edges[:, 0])
    edges, rows = edges[order], rows[order]
    place = np.stack([edges.mean(axis=1), 2 / np.diff(edges)[:, 0]], axis=1)
    return Table(_packed(reach, np.r_[edges[:, 0], edges[-1, 1]], place, rows), error, name)


def _halved(functions, ring, scale, budget, goal):
    """Panels (P, 2), coefficients (P, functions, size), error and scale of a ring; None where that fails."""
    done, rows, worst, largest = [], [], 0.0, scale
    while len(ring):
        middle, half = ring.mean(axis=1)[:, None], np.diff(ring) / 2
        x = middle + half * np.r_[NODES, CHECKS]
        values = np.stack([np.asarray(f(x), dtype=float) for f in functions], axis=1)
        if not np.all(np.isfinite(values)):
            return None
        # by Chebyshev modes first: powers directly from values would lose three digits
        modes = values[..., :SIZE] @ TO_CHEBYSHEV
        coefficients = modes @ TO_POWERS
        size = np.maximum(np.max(np.abs(values), axis=2), scale)
        # an argument is rounded, too
        rounding = np.abs(coefficients) @ np.arange(SIZE) * np.max(np.abs(ring), axis=1)[:, None] / half
        error = np.max(np.abs(modes @ AT_CHECKS - values[..., SIZE:]), axis=2) - 4 * np.finfo(float).eps * rounding
        good = np.all(error <= goal * size, axis=1)
        worst = max(worst, np.max(error[good] / np.maximum(size[good], 1e-300), initial=0.0))
        largest = np.maximum(largest, np.max(size, axis=0))
        # a panel as narrow as rounding holds a kink or a jump: halving it again would not end
        good |= half[:, 0] <= NARROW * np.max(np.abs(ring), axis=1)
        done.append(ring[good])
        rows.append(coefficients[good])
        ring = np.stack([ring[~good, 0], middle[~good, 0], middle[~good, 0], ring[~good, 1]], axis=1).reshape(-1, 2)
        if sum(map(len, done)) + len(ring) > budget:
            return None
    return np.concatenate(done), np.concatenate(rows), worst, largest


def _packed(reach, edges, place, rows):
    octaves = LEAST * 2.0 ** np.arange(OCTAVES)[:, None] * (1 + np.arange(PER_OCTAVE) / PER_OCTAVE)
    right = np.r_[octaves.ravel(), LARGEST]
    bins = np.r_[-right[::-1], right]
    low = np.clip(np.searchsorted(edges, bins[:-1], "right") - 1, 0, len(rows) - 1)
    high = np.clip(np.searchsorted(edges, bins[1:], "left") - 1, 0, len(rows) - 1)
    if not np.isfinite(reach):
        low, high = 0 * low, 0 * high
    header = [reach, len(rows), rows.shape[1]]
    panels = np.concatenate([place, rows.reshape(len(rows), -1)], axis=1)
    return np.concatenate([header, np.stack([low, high], axis=1).ravel(), edges, panels.ravel()])
