"""Nodes of iterated piecewise quadrature over Gaussian variables.

The integrand breaks (has a kink or a jump) on planes a . u = t.  The variables are integrated one after the other, each
split at the breaks.  The first axis crosses all planes, so that each plane is a point on it, u_d = c . u_<d + t.  Where
two of these points coincide, the result of the first integral breaks: on planes of one dimension less.  Between breaks
every integrand is analytic, however close two planes are.
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit


class PiecewiseOptions(NamedTuple):
    """Tunable numbers of the iterated piecewise quadrature."""

    # Half width of the range of each variable. The probability outside is 8e-18, below rounding; halved, 2e-5 is lost.
    reach: float = 8.6
    # Breaks closer than this are merged, because a panel between them would be as short as the rounding of its ends.
    break_tol: float = 1e-12
    # A sum of unit normals shorter than this has no direction that rounding leaves intact, and is not tried as an axis.
    min_axis_length: float = 1e-6
    # Nodes with a smaller weight are dropped: together they weigh less than the probability outside the range.
    min_weight: float = 1e-18
    # Graded panels at each break, and the ratio of their lengths. Fewer or longer ones miss layers at the break.
    n_layers: int = 6
    layer_ratio: float = 0.15
    # Directions tried for the axis in two dimensions. Halved: the best axis may be missed by 4 degrees instead of 2.
    n_directions: int = 48
    # Planes whose signed sums of normals are all tried; doubled, 2^15 sums instead of 2^7.
    max_signed_planes: int = 8


PIECEWISE = PiecewiseOptions()


@jit
def axis_across(a, m):
    """The unit vector e with the largest min_i |a_i . e| among signed sums of the unit normals a (m, d)."""
    d = a.shape[1]
    best, e = -1.0, np.zeros(d)
    e[d - 1] = 1.0  # the default, if there are no planes
    if m == 0 or d == 1:
        return e
    # In two dimensions scan all directions; in more, try sums of the normals with all signs.
    for number in range(PIECEWISE.n_directions if d == 2 else 2 ** (min(m, PIECEWISE.max_signed_planes) - 1)):
        trial = a[0].copy()
        if d == 2:
            angle = math.pi * number / PIECEWISE.n_directions
            trial[0], trial[1] = math.cos(angle), math.sin(angle)
        else:
            for i in range(1, min(m, PIECEWISE.max_signed_planes)):
                trial += a[i] * (1.0 if number >> (i - 1) & 1 else -1.0)
        size = math.sqrt(np.sum(trial * trial))
        least = np.min(np.abs(a @ trial)) / size if size > PIECEWISE.min_axis_length else -1.0
        if least > best:
            best, e = least, trial / size
    return e


@jit
def turn(x, rows, e):
    """Reflect the first e.size entries of each row so that e becomes the last axis of these (Householder)."""
    d = e.size
    v = np.copy(e)
    # v = 0 if e is the last axis already
    v[d - 1] -= 1.0
    size = 0.0
    for j in range(d):
        size += v[j] * v[j]
    if size < 1e-300:
        return
    for i in range(rows):
        product = 0.0
        for j in range(d):
            product += x[i, j] * v[j]
        for j in range(d):
            x[i, j] -= 2.0 * product / size * v[j]


@jit
def insert(a, t, m, row, offset, d, plane):
    """Add the plane row . u = offset, normalised, or the break u = row . u + offset; return the new number of them.

    Rows that are present already are not added again.
    """
    size = 0.0
    for j in range(d):
        size += row[j] * row[j]
    size = math.sqrt(size) if plane else 1.0
    if plane and size < PIECEWISE.break_tol:
        return m
    for i in range(m):
        # the opposite normal gives the same plane, but another break
        for sign in (1.0, -1.0):
            gap = abs(sign * offset / size - t[i])
            for j in range(d):
                gap = max(gap, abs(sign * row[j] / size - a[i, j]))
            if gap < PIECEWISE.break_tol and (plane or sign > 0):
                return m
    for j in range(d):
        a[m, j] = row[j] / size
    t[m] = offset / size
    return m + 1


@jit
def levels(planes, offsets, outermost):
    """Breaks of each variable from the last to number ``outermost``, and the rotation R (d, d), u -> R u.

    Row i belongs to variable j where ``starts[j]`` <= i < ``starts[j] + counts[j]``: u_j = breaks[i, :j] . u + at[i].
    """
    m, d = planes.shape
    max_breaks, size = 0, m
    for _ in range(d - outermost):
        max_breaks += size
        size += size * (size - 1) // 2
    breaks, at = np.zeros((max_breaks, d)), np.zeros(max_breaks)
    starts, counts = np.zeros(d, np.int64), np.zeros(d, np.int64)
    R = np.eye(d)
    a, t, m = np.zeros((max(m, 1), d)), np.zeros(max(m, 1)), 0
    for i in range(len(planes)):
        m = insert(a, t, m, planes[i], offsets[i], d, True)
    used = 0
    for j in range(d - 1, outermost - 1, -1):
        e = axis_across(a[:m, : j + 1].copy(), m)
        turn(a, m, e)
        turn(breaks, used, e)  # breaks of the variables before depend on this one and those that follow
        columns = R.T.copy()
        turn(columns, d, e)
        R = columns.T.copy()
        later, later_t, more = np.zeros((m + m * (m - 1) // 2 + 1, d)), np.zeros(m + m * (m - 1) // 2 + 1), 0
        present, present_t, n = breaks[used:], at[used:], 0
        row = np.zeros(d)
        for i in range(m):
            # a plane parallel to this axis is a break of a later variable only
            if abs(a[i, j]) < PIECEWISE.break_tol:
                more = insert(later, later_t, more, a[i], t[i], j, True)
            else:
                for l in range(j):
                    row[l] = -a[i, l] / a[i, j]
                n = insert(present, present_t, n, row, t[i] / a[i, j], j, False)
        for i in range(n):
            for k in range(i):
                for l in range(j):
                    # where two breaks of this variable coincide, its integral has a break in the later variables
                    row[l] = present[i, l] - present[k, l]
                more = insert(later, later_t, more, row, present_t[k] - present_t[i], j, True)
        starts[j], counts[j] = used, n
        used += n
        a, t, m = later, later_t, more
    return breaks, at, starts, counts, R


@jit
def cut(u, j, breaks, at, low, high, edges):
    """Fill ``edges`` with the sorted breaks of variable j at the point u, between the ends; return their number."""
    n = 1
    edges[0] = low
    for i in range(len(at)):
        position = at[i]
        for l in range(j):
            position += breaks[i, l] * u[l]
        if low < position < high:
            # insertion sort, because there are only a few breaks
            k = n
            while k > 1 and edges[k - 1] > position:
                edges[k] = edges[k - 1]
                k -= 1
            edges[k] = position
            n += 1
    edges[n] = high
    return n + 1


@jit(no_reference_counting=True)
def panels(edges, n, width, fine):
    """Fill ``fine`` with edges of panels between n breaks; return their number.

    Panels are equal and at most ``width`` long, or graded towards both breaks if ``width`` is 0.
    """
    count = 1
    fine[0] = edges[0]
    for k in range(n - 1):
        length = edges[k + 1] - edges[k]
        if width > 0.0:
            pieces = int(math.ceil(length / width))
            for i in range(pieces):
                fine[count] = edges[k] + length / pieces * (i + 1)
                count += 1
        elif length > 0.0:
            layers = PIECEWISE.n_layers
            for i in range(layers, -1, -1):
                fine[count] = edges[k] + 0.5 * length * PIECEWISE.layer_ratio**i
                count += 1
            for i in range(1, layers + 2):
                fine[count] = edges[k + 1] - (0.5 * length * PIECEWISE.layer_ratio**i if i <= layers else 0.0)
                count += 1
    return count


@jit
def continued(points, weights, j, breaks, at, width, x, p):
    """Extend every point (u_0, ..., u_j-1) by all nodes of u_j: the quadrature (x, p) on [0, 1] in each panel."""
    d, q, reach = points.shape[1], x.size, PIECEWISE.reach
    max_panels = int(2 * reach / width) + 2 + len(at) if width > 0.0 else 2 * (PIECEWISE.n_layers + 1) * (len(at) + 1)
    max_points = len(points) * max_panels * q
    extended, new_weights, n = np.empty((max_points, d)), np.empty(max_points), 0
    edges, fine = np.empty(len(at) + 2), np.empty(max_panels + 1)
    for i in range(len(points)):
        count = cut(points[i], j, breaks, at, -reach, reach, edges)
        for k in range(panels(edges, count, width, fine) - 1):
            h = fine[k + 1] - fine[k]
            for b in range(q):
                u = fine[k] + h * x[b]
                weight = weights[i] * h * p[b] * math.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
                # most points lie in the tails of all variables, where there is no probability
                if weight > PIECEWISE.min_weight:
                    for l in range(j):
                        extended[n, l] = points[i, l]
                    extended[n, j] = u
                    new_weights[n] = weight
                    n += 1
    return extended[:n], new_weights[:n]


@jit
def nodes(planes, offsets, points, weights, given, width, x, p):
    """Points (P, d), weights (P,) and rotation R of a quadrature for E f(u), u ~ N(0, 1).

    f has breaks at planes . u = offsets.  The first ``given`` coordinates are ``points`` with ``weights``; the others
    are integrated one after the other.  Evaluate f at R times each point.
    """
    d = points.shape[1]
    if given == d:
        return points, weights, np.eye(d)
    breaks, at, starts, counts, R = levels(planes, offsets, given)
    for j in range(given, d):
        level = slice(starts[j], starts[j] + counts[j])
        points, weights = continued(points, weights, j, breaks[level], at[level], width, x, p)
    return points, weights, R
