"""Edges of the bulk of a feature spectrum: a scan of the real axis, and double roots of the real equations."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import root

from .resolvent import resolvent


class EdgeOptions(NamedTuple):
    """Tunable numbers of the scan."""

    # Points that locate the support, half of them evenly spaced in log x. With fewer, narrow gaps may be missed.
    scan_points: int = 400
    # Start of the scan, relative to the largest possible eigenvalue; intervals of the support below are not found.
    min_relative_x: float = 1e-10


EDGES = EdgeOptions()


def inside(law, x):
    """Whether x lies in the bulk, with v there.

    If the grid over k is too coarse for a very small density, the computed V is real. But 1 + V(k) = 0 at a real k is
    impossible outside the bulk, because the integral over k would diverge.
    """
    v, _ = resolvent(law, x)
    den, trace = law.denominators(v.real), law.trace(v)
    return (trace.imag > 1e-6 * np.abs(trace)) | (den.min(axis=1) * den.max(axis=1) < 0), v


def bulk_edges(law):
    """Intervals of the bulk, (m, 2): a scan brackets the edges, which are double roots of the real equations."""
    top = law.largest
    half = EDGES.scan_points // 2
    # half evenly in log x for edges near zero, half evenly in x for gaps in the bulk
    x = np.unique(
        np.concatenate([np.geomspace(EDGES.min_relative_x * top, top, half), np.linspace(0, top, half + 1)[1:]])
    )
    in_bulk, v = inside(law, x)
    edges = [0.0] if in_bulk[0] else []
    for i in np.flatnonzero(np.diff(in_bulk.astype(int))):
        # start at the point inside the bulk: its v is closer to the double root than any real v outside
        start = i if in_bulk[i] else i + 1
        edges.append(double_root(law, v[:, start].real, x[start], x[i], x[i + 1]))
    return np.reshape(edges, (-1, 2))


def double_root(law, v, x, low, high):
    """Edge between low and high: F = 0 and det J = 0 in real (v, x), all of them in units of their start."""
    scale, rising = np.append(v, x), x == high
    with np.errstate(all="ignore"):  # fails next to a pole; the bracket is then bisected
        edge = root_near(law, v, scale) * x
    if low * (1 - 1e-9) <= edge <= high * (1 + 1e-9):
        sides, _ = inside(law, edge + np.array([-1e-3, 1e-3]) * (high - low))
        if sides[1] != sides[0] and sides[1] == rising:  # double roots of several blocks may lie within the bulk
            return edge
    for _ in range(60):  # bisection, if the scan is too coarse for Newton's method
        middle = (low + high) / 2
        low, high = (low, middle) if inside(law, np.array([middle]))[0][0] == rising else (middle, high)
        if high - low < 1e-12 * high:
            break
    return (low + high) / 2


def root_near(law, v, scale):
    """Position x of the double root found from the start ``scale`` = (v, x), in units of the start."""
    x = scale[-1]
    size = np.abs(law(v[:, None], np.array([-x]))[1][0] * v).max(axis=1)  # size of the terms of each equation

    def equations(s):
        *v_s, x_s = s * scale
        F, J = law(np.array(v_s)[:, None], np.array([-x_s]))
        return np.append(F[:, 0] / size, np.linalg.det(J[0] * v / size[:, None]))

    return root(equations, np.ones(scale.size), tol=1e-13).x[-1]
