"""Nodes of the iterated piecewise rule: Gaussian variables one after the other, each cut where the integrand breaks.

Breaks are planes a . u = t.  The axis that is integrated first is one that crosses all of them; along it they are
points, u_d = c . u_<d + t, and where two of these meet, the rest of the integrand breaks: planes of one dimension less.
Between breaks every integrand is analytic, however close two planes are.
"""

import math

import numpy as np

from .._base.jit import jit

# Standard deviations that are integrated: 8e-18 of the probability lies beyond, below the rounding of the rest.
REACH = 8.6
# Distance of two breaks that are one. Below, a panel between them would be shorter than the rounding of its ends.
EQUAL = 1e-12
TINY = 1e-6  # length of a sum of normals that has no direction
FAINT = 1e-18  # weight of a node, of all, below which it is left out: those beyond the reach lose more
LAYERS, SHRINKING = 6, 0.15  # panels beside a break, each so much shorter than the one before
ANGLES = 48  # directions that are tried in the plane
SIGNED = 8  # planes of which all signed sums of normals are tried


@jit
def axis_across(a, m):
    """The unit vector e with the largest min_i |a_i . e| among signed sums of the unit normals a (m, d)."""
    d = a.shape[1]
    best, e = -1.0, np.zeros(d)
    # the last axis itself, where no plane asks for another
    e[d - 1] = 1.0
    if m == 0 or d == 1:
        return e
    # in the plane directions can be walked through; beyond, sums of normals with all signs lie across all of them or
    # nothing does
    for number in range(ANGLES if d == 2 else 2 ** (min(m, SIGNED) - 1)):
        trial = a[0].copy()
        if d == 2:
            trial[0], trial[1] = math.cos(math.pi * number / ANGLES), math.sin(math.pi * number / ANGLES)
        else:
            for i in range(1, min(m, SIGNED)):
                trial += a[i] * (1.0 if number >> (i - 1) & 1 else -1.0)
        size = math.sqrt(np.sum(trial * trial))
        least = np.min(np.abs(a @ trial)) / size if size > TINY else -1.0
        if least > best:
            best, e = least, trial / size
    return e


@jit
def turn(x, rows, e):
    """Reflect the first e.size entries of each row so that e becomes the last axis of these."""
    d = e.size
    v = np.copy(e)
    # Householder: the reflection that takes e to the axis; where e is the axis already, v vanishes and nothing turns
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
    """Add the plane row . u = offset, with a unit normal, or the break u = row . u + offset; return their number."""
    size = 0.0
    for j in range(d):
        size += row[j] * row[j]
    size = math.sqrt(size) if plane else 1.0
    if plane and size < EQUAL:
        return m
    for i in range(m):
        # a plane is the same with the opposite normal, a break is not
        for sign in (1.0, -1.0):
            gap = abs(sign * offset / size - t[i])
            for j in range(d):
                gap = max(gap, abs(sign * row[j] / size - a[i, j]))
            if gap < EQUAL and (plane or sign > 0):
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
    most, size = 0, m
    for _ in range(d - outermost):
        most += size
        size += size * (size - 1) // 2
    breaks, at = np.zeros((most, d)), np.zeros(most)
    starts, counts = np.zeros(d, np.int64), np.zeros(d, np.int64)
    R = np.eye(d)
    a, t, m = np.zeros((max(m, 1), d)), np.zeros(max(m, 1)), 0
    for i in range(len(planes)):
        m = insert(a, t, m, planes[i], offsets[i], d, True)
    used = 0
    for j in range(d - 1, outermost - 1, -1):
        e = axis_across(a[:m, : j + 1].copy(), m)
        turn(a, m, e)
        turn(breaks, used, e)  # of the variables before, which see this one and those that follow
        columns = R.T.copy()
        turn(columns, d, e)
        R = columns.T.copy()
        later, later_t, more = np.zeros((m + m * (m - 1) // 2 + 1, d)), np.zeros(m + m * (m - 1) // 2 + 1), 0
        present, present_t, n = breaks[used:], at[used:], 0
        row = np.zeros(d)
        for i in range(m):
            # a plane along this variable breaks a later one only
            if abs(a[i, j]) < EQUAL:
                more = insert(later, later_t, more, a[i], t[i], j, True)
            else:
                for l in range(j):
                    row[l] = -a[i, l] / a[i, j]
                n = insert(present, present_t, n, row, t[i] / a[i, j], j, False)
        for i in range(n):
            for k in range(i):
                for l in range(j):
                    # where two breaks of this variable meet, the panels between them vanish: a break of the variables
                    # outside
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
        place = at[i]
        for l in range(j):
            place += breaks[i, l] * u[l]
        if low < place < high:
            # inserted in order: there are a few breaks, too few for a sort to pay
            k = n
            while k > 1 and edges[k - 1] > place:
                edges[k] = edges[k - 1]
                k -= 1
            edges[k] = place
            n += 1
    edges[n] = high
    return n + 1


@jit(no_reference_counting=True)
def panels(edges, n, width, fine):
    """Edges of panels between n breaks, of at most this width, or, for 0, shrinking to the breaks; their number."""
    count = 1
    fine[0] = edges[0]
    for k in range(n - 1):
        length = edges[k + 1] - edges[k]
        if width > 0.0:
            parts = int(math.ceil(length / width))
            for part in range(parts):
                fine[count] = edges[k] + length / parts * (part + 1)
                count += 1
        elif length > 0.0:
            for i in range(LAYERS, -1, -1):
                fine[count] = edges[k] + 0.5 * length * SHRINKING**i
                count += 1
            for i in range(1, LAYERS + 2):
                fine[count] = edges[k + 1] - (0.5 * length * SHRINKING**i if i <= LAYERS else 0.0)
                count += 1
    return count


@jit
def continued(points, weights, j, breaks, at, width, x, p):
    """Every point (u_0, ..., u_j-1) with all nodes of u_j: the rule (x, p) on [0, 1] in each of the ``panels``."""
    d, q = points.shape[1], x.size
    most_cells = int(2 * REACH / width) + 2 + len(at) if width > 0.0 else 2 * (LAYERS + 1) * (len(at) + 1)
    most = len(points) * most_cells * q
    more, their, n = np.empty((most, d)), np.empty(most), 0
    edges, fine = np.empty(len(at) + 2), np.empty(most_cells + 1)
    for i in range(len(points)):
        count = cut(points[i], j, breaks, at, -REACH, REACH, edges)
        for k in range(panels(edges, count, width, fine) - 1):
            h = fine[k + 1] - fine[k]
            for b in range(q):
                u = fine[k] + h * x[b]
                weight = weights[i] * h * p[b] * math.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
                # points in the tails of all variables are most of the points and none of the probability
                if weight > FAINT:
                    for l in range(j):
                        more[n, l] = points[i, l]
                    more[n, j] = u
                    their[n] = weight
                    n += 1
    return more[:n], their[:n]


@jit
def nodes(planes, offsets, points, weights, given, width, x, p):
    """Points (P, d), weights (P,) and the rotation R of a rule for E f(u), u ~ N(0, 1), broken at planes . u = offsets.

    The first ``given`` coordinates come as ``points`` with ``weights``; the others are integrated one after the other.
    Nodes stand for R u.
    """
    d = points.shape[1]
    if given == d:
        return points, weights, np.eye(d)
    breaks, at, starts, counts, R = levels(planes, offsets, given)
    for j in range(given, d):
        level = slice(starts[j], starts[j] + counts[j])
        points, weights = continued(points, weights, j, breaks[level], at[level], width, x, p)
    return points, weights, R
