"""Functions without a code as tables for kernels: polynomials of degree 11 on panels that are as short as necessary.

A table is one array of floats: ``(reach, panels, functions)``, the first and the last panel of every bin, the edges of
the panels, then for each panel (centre, 1 / half width, coefficients of g, of g', of g'' if it is known).  Panels are
halved until polynomials through Chebyshev nodes agree with the functions at other points to ``FIT.tol``, relative to
the largest value there or at smaller arguments, because Gaussian averages are dominated by these.  A kink ends up
between two panels.  Bins are eighths of the octaves of |x|; their number is read off the bits of the float.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.polynomial import chebyshev, polynomial

from .._base.jit import jit
from .two_point import slope, value


class FitOptions(NamedTuple):
    """Tunable numbers of the construction of a table."""

    # Relative error of the polynomials. Ten times smaller is below their rounding; ten times larger saves few panels.
    tol: float = 1e-13
    # |x| up to which every function must be tabulated: the probability beyond 9 standard deviations is 2e-19.
    required_reach: float = 9.0
    # Largest number of panels. Doubled, twice the memory (2.5 MB for three functions) for faster oscillations.
    max_panels: int = 2**13
    # Errors are relative to at least this fraction of the function's size on [-1, 1], to keep accuracy from being
    # demanded at its zeros.
    min_relative_size: float = 1e-2
    # A panel as short as this, relative to |x|, contains a kink or a jump and is not halved again.
    min_relative_width: float = 1e-14


class Layout(NamedTuple):
    """The array of a table: its bins of |x|, and the positions of its entries."""

    size: int = 12  # coefficients of one function on one panel: degree 11
    # The central bin is |x| < 2^-10; odd functions keep their relative accuracy down to any size.
    innermost: float = 2.0**-10
    octaves: int = 26  # from 2^-10 to the largest reach, 2^16
    bins_per_octave: int = 8
    bins: int = octaves * bins_per_octave  # on each side of the central one
    shift: int = 52 - 3  # bits of a float below the bits that number its bin
    first_bin: int = np.float64(innermost).view(np.int64).item() >> shift
    header: int = 3
    edges: int = header + 2 * (2 * bins + 1)  # where the edges of the panels begin


class Interpolation(NamedTuple):
    """Nodes in [-1, 1], points where the polynomials are checked, and matrices from values to coefficients."""

    nodes: np.ndarray
    checks: np.ndarray
    to_chebyshev: np.ndarray  # values at the nodes -> Chebyshev coefficients
    to_powers: np.ndarray  # Chebyshev coefficients -> powers
    at_checks: np.ndarray  # Chebyshev coefficients -> values at the checks


@cache
def _interpolation(n):
    nodes = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    checks = np.array([-0.998, -0.93, -0.71, -0.31, 0.17, 0.55, 0.83, 0.97])
    to_chebyshev = 2 / n * chebyshev.chebvander(nodes, n - 1) * np.where(np.arange(n) > 0, 1.0, 0.5)
    to_powers = np.array([np.r_[chebyshev.cheb2poly(c), np.zeros(n)][:n] for c in np.eye(n)])
    return Interpolation(nodes, checks, to_chebyshev, to_powers, chebyshev.chebvander(checks, n - 1).T)


FIT = FitOptions()
LAYOUT = Layout()
NO_TABLE = np.zeros(0)  # in place of a table, for functions with a code


class Table(NamedTuple):
    """The array for kernels; its error, relative to the function's size; the functions' name, for messages."""

    data: np.ndarray
    error: float
    name: str

    @property
    def reach(self):
        """Largest |x| in the table."""
        return float(self.data[0])


@jit(fast=True)
def panel_of(table, x):
    """Index of the panel of x in the table, or -1 outside; and the coordinate of x in the panel."""
    a = abs(x)
    if not a <= table[0]:
        return -1, 0.0
    b = LAYOUT.bins
    if a >= LAYOUT.innermost:
        # the exponent and the first bits of the float number its bin: no logarithm, no search over all panels
        e = min(int(np.float64(a).view(np.int64) >> LAYOUT.shift) - LAYOUT.first_bin + 1, LAYOUT.bins)
        b = LAYOUT.bins + e if x > 0.0 else LAYOUT.bins - e
    low, high = int(table[LAYOUT.header + 2 * b]), int(table[LAYOUT.header + 2 * b + 1])
    # bisect the panels that overlap the bin; most bins have only one
    while low < high:
        middle = (low + high + 1) // 2
        if x >= table[LAYOUT.edges + middle]:
            low = middle
        else:
            high = middle - 1
    at = LAYOUT.edges + int(table[1]) + 1 + low * (2 + int(table[2]) * LAYOUT.size)
    return at, (x - table[at]) * table[at + 1]


@jit(fast=True)
def series(c, t):
    """sum_p c_p t^p by Estrin's scheme, for short dependency chains."""
    s = t * t
    q = s * s
    low = (c[0] + t * c[1]) + s * (c[2] + t * c[3])
    middle = (c[4] + t * c[5]) + s * (c[6] + t * c[7])
    return low + q * (middle + q * ((c[8] + t * c[9]) + s * (c[10] + t * c[11])))


@jit(fast=True)
def read(table, number, x):
    """g(x), g'(x) or g''(x), ``number`` 0, 1 or 2; nan outside the table."""
    at, t = panel_of(table, x)
    at += 2 + number * LAYOUT.size
    # nan outside the table: an integrator rejects the step, and its caller raises with the reason
    return series(table[at : at + LAYOUT.size], t) if at >= LAYOUT.edges else np.nan


@jit(fast=True)
def read_both(table, x):
    """g(x) and g'(x); nan outside the table."""
    at, t = panel_of(table, x)
    if at < 0:
        return np.nan, np.nan
    first, second, end = at + 2, at + 2 + LAYOUT.size, at + 2 + 2 * LAYOUT.size
    return series(table[first:second], t), series(table[second:end], t)


def read_array(table, x, functions):
    """Values (functions, *x.shape) of the first ``functions`` of g, g', g'', nan outside the table, as by ``read``."""
    panels, tabulated, size, begin = int(table[1]), int(table[2]), LAYOUT.size, LAYOUT.edges
    edges, rows = np.split(table[begin:], [panels + 1])
    rows = rows.reshape(panels, 2 + tabulated * size)
    i = np.clip(np.searchsorted(edges, x, "right") - 1, 0, panels - 1)
    with np.errstate(invalid="ignore"):
        t = np.where(np.abs(x) <= table[0], (x - rows[i, 0]) * rows[i, 1], np.nan)
    powers = t[..., None] ** np.arange(size)
    c = rows[:, 2:].reshape(panels, tabulated, size)[i, : min(functions, tabulated)]
    values = np.moveaxis(np.einsum("...fp,...p->...f", c, powers), -1, 0)
    return values if functions <= tabulated else np.concatenate([values, (x * values[1])[None]])


def respond(function, x):
    """g(x) and g'(x) of a function given by its code or its table; kernels are compiled separately for the two."""
    if isinstance(function, np.ndarray):
        return read_both(function, x)
    return value(function, x), slope(function, x)


@overload(respond)
def _respond(function, x):
    if isinstance(function, types.Array):
        return lambda function, x: read_both(function, x)
    return lambda function, x: (value(function, x), slope(function, x))


def polynomial_table(coefficients):
    """The table of a polynomial and its derivatives: one infinite panel, exact, up to degree 11; else ``tabulate``."""
    rows = [np.array(coefficients, dtype=float)]
    while len(rows) < 3:
        rows.append(polynomial.polyder(rows[-1]))
    size = LAYOUT.size
    if len(rows[0]) > size:
        return tabulate([polynomial.Polynomial(c) for c in rows], f"a polynomial of degree {len(rows[0]) - 1}")
    padded = np.array([np.r_[c, np.zeros(size)][:size] for c in rows])
    return Table(_packed(np.inf, np.array([-np.inf, np.inf]), np.array([[0.0, 1.0]]), padded[None]), 0.0, "polynomial")


def tabulate(functions, name, tol=FIT.tol):
    """The table of g, g' and perhaps g'' to a relative error; ``ValueError`` if it does not reach [-9, 9]."""
    reach, left, error = 0.0, FIT.max_panels, 0.0
    panels, first, nodes = [], LAYOUT.innermost, _interpolation(LAYOUT.size).nodes
    with np.errstate(all="ignore"):  # the table ends where a function is not finite
        # a function that vanishes at zero as a difference of numbers of order one is accurate to their rounding only
        sizes = [np.nanmax(np.abs(f(nodes)), initial=0.0, where=np.isfinite(f(nodes))) for f in functions]
        scale = np.array([FIT.min_relative_size * size for size in sizes])
        octaves = [(0.0, first), *((first * 2.0**i, first * 2.0 ** (i + 1)) for i in range(LAYOUT.octaves))]
        for inner, outer in octaves:
            # if the whole octave fails, its inner fraction may succeed: the table then ends there
            for end in inner + (outer - inner) * np.array([1.0, 0.75, 0.5, 0.25, 0.125]):
                # both signs at once, outwards from zero: the table is symmetric, and ends on both sides
                ring = [(-end, -inner), (inner, end)] if inner else [(-end, end)]
                halved = _halved(functions, np.array(ring), scale, left, tol)
                if halved is not None:
                    edges, rows, worst, scale = halved
                    panels.append((edges, rows))
                    reach, left, error = end, left - len(edges), max(error, worst)
                    break
            if halved is None or end < outer:
                break
    if reach < FIT.required_reach:
        raise ValueError(
            f"{name} cannot be tabulated to {tol:g} beyond |x| = {reach:.4g}; expected functions on [-9, 9] that are "
            f"finite, free of noise, and smooth on {FIT.max_panels} intervals. Check for rapid oscillations and "
            "cancellation."
        )
    edges, rows = (np.concatenate(x) for x in zip(*panels, strict=True))
    order = np.argsort(edges[:, 0])
    edges, rows = edges[order], rows[order]
    scaling = np.stack([edges.mean(axis=1), 2 / np.diff(edges)[:, 0]], axis=1)
    return Table(_packed(reach, np.r_[edges[:, 0], edges[-1, 1]], scaling, rows), error, name)


def _halved(functions, ring, scale, max_panels, tol):
    """Panels (P, 2), coefficients (P, functions, size), error and scale on a ring of intervals; None on failure."""
    done, rows, worst, largest = [], [], 0.0, scale
    n, (nodes, checks, to_chebyshev, to_powers, at_checks) = LAYOUT.size, _interpolation(LAYOUT.size)
    while len(ring):
        middle, half = ring.mean(axis=1)[:, None], np.diff(ring) / 2
        x = middle + half * np.r_[nodes, checks]
        values = np.stack([np.asarray(f(x), dtype=float) for f in functions], axis=1)
        if not np.all(np.isfinite(values)):
            return None
        # Chebyshev coefficients first, because powers directly from values would lose three digits
        modes = values[..., :n] @ to_chebyshev
        coefficients = modes @ to_powers
        size = np.maximum(np.max(np.abs(values), axis=2), scale)
        # the effect of rounding of the argument is not an error of the polynomial
        rounding = np.abs(coefficients) @ np.arange(n) * np.max(np.abs(ring), axis=1)[:, None] / half
        error = np.max(np.abs(modes @ at_checks - values[..., n:]), axis=2) - 4 * np.finfo(float).eps * rounding
        good = np.all(error <= tol * size, axis=1)
        worst = max(worst, np.max(error[good] / np.maximum(size[good], 1e-300), initial=0.0))
        largest = np.maximum(largest, np.max(size, axis=0))
        # a panel as narrow as rounding contains a kink or a jump, at which halving would never end
        good |= half[:, 0] <= FIT.min_relative_width * np.max(np.abs(ring), axis=1)
        done.append(ring[good])
        rows.append(coefficients[good])
        ring = np.stack([ring[~good, 0], middle[~good, 0], middle[~good, 0], ring[~good, 1]], axis=1).reshape(-1, 2)
        if sum(map(len, done)) + len(ring) > max_panels:
            return None
    return np.concatenate(done), np.concatenate(rows), worst, largest


def _packed(reach, edges, scaling, rows):
    """The array of a table, of panels with (centre, 1 / half width) ``scaling`` and coefficients ``rows``."""
    fractions = 1 + np.arange(LAYOUT.bins_per_octave) / LAYOUT.bins_per_octave
    octaves = LAYOUT.innermost * 2.0 ** np.arange(LAYOUT.octaves)[:, None] * fractions
    right = np.r_[octaves.ravel(), LAYOUT.innermost * 2.0**LAYOUT.octaves]
    bins = np.r_[-right[::-1], right]
    low = np.clip(np.searchsorted(edges, bins[:-1], "right") - 1, 0, len(rows) - 1)
    high = np.clip(np.searchsorted(edges, bins[1:], "left") - 1, 0, len(rows) - 1)
    if not np.isfinite(reach):
        low, high = 0 * low, 0 * high
    header = [reach, len(rows), rows.shape[1]]
    panels = np.concatenate([scaling, rows.reshape(len(rows), -1)], axis=1)
    return np.concatenate([header, np.stack([low, high], axis=1).ravel(), edges, panels.ravel()])
