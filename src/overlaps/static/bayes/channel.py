"""One feature: its overlap as a function of its signal-to-noise ratio, with all transitions."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..._base import check
from ._features import correlation, overlaps, totals
from .branches import transitions
from .correlation import Correlation

__all__ = ["Channel", "channel_of"]


class ChannelOptions(NamedTuple):
    """Grids over t = q / (1 - q)."""

    # Points and upper end of the search for transitions, from t = 1e-8. With fewer, weak transitions may be missed.
    scan_points: int = 20_000
    max_scan_t: float = 1e12
    # Nodes of the table of a branch: the cubics between them are within 1e-7; half as many, 16 times that.
    nodes: int = 4_000
    # Ends of the tables; beyond max_t, t is proportional to lam.
    min_t: float = 1e-8
    max_t: float = 1e16


CHANNEL = ChannelOptions()


class Channel:
    r"""Overlap of one feature, :math:`m(\lambda) = \mathrm{argmax}_{0 \le q < 1}\,[\lambda g(q) + q + \ln(1-q)]`.

    Stationary overlaps obey :math:`\lambda = L(t) = t / g'(q)`, t = q / (1 - q). The maximum increases along L and
    jumps where the lower convex hull bridges the curve (g(q), -q - ln(1-q)). This is Maxwell's construction; it also
    finds transitions between two non-zero overlaps. *Exact* for the scalar problem: m to rounding (a table and one
    Newton step).

    Parameters
    ----------
    g : Correlation
        Correlation function of the activation.

    Attributes
    ----------
    jumps : tuple of Jump
        First-order transitions, ascending.
    onset : float
        lambda above which q > 0: the first jump from zero, or 1/(2 c_2) where the overlap grows continuously.
    convex : bool
        Whether the gap g(1) - g(m(lambda)) is a convex function between neighbouring jumps.

    Examples
    --------
    >>> from overlaps.static.bayes.channel import Channel
    >>> from overlaps.static.bayes.correlation import correlation_of
    >>> [tuple(round(x, 6) for x in jump) for jump in Channel(correlation_of({3: 1.0})).jumps]
    [(1.455777, 0.0, 0.645007)]
    """

    def __init__(self, g: Correlation):
        self.g, self.total, self._series = g, g.total, g.series
        self.jumps = transitions(self._climb, self._snr, CHANNEL.scan_points, CHANNEL.max_scan_t)
        first = bool(self.jumps) and self.jumps[0].below == 0
        self.onset = self.jumps[0].lam if first else 1 / self._at(0.0)[2]
        self._tables = self._branches(first)

    def __call__(self, lam):
        """Overlap m(lam), of the shape of lam."""
        return self.overlaps(lam)[0]

    def overlaps(self, lam):
        """Overlap q = m(lam), gap g(1) - g(q) and price -q - ln(1 - q), without cancellation, of the shape of lam."""
        lam = check.times("lam", lam, below=np.inf)
        flat = np.ascontiguousarray(lam.ravel())
        results = np.empty((3, flat.size))
        overlaps(self.g.kind, self._series, *self._tables, np.minimum(flat, 1e304), *results)
        return tuple(x.reshape(lam.shape)[()] for x in results)

    def totals(self, s, v2, tail):
        """(eps, sum of -s(q), number of q > 0) of the features v2 (descending; tail[i] = sum v2[i:]) at lam = s v2."""
        return totals(self.g.kind, self._series, *self._tables, s, v2, tail)

    @property
    def slope(self):
        """g'(1)."""
        return self._at(CHANNEL.max_t)[1]

    def gap(self, t):
        """g(1) - g(q) at q = t / (1 + t), without cancellation."""
        return self._at(t)[3]

    def _at(self, t):
        return correlation(self.g.kind, self._series, t)

    def _snr(self, t):
        """L(t), infinite where g' vanishes by underflow."""
        slope = self._at(t)[1]
        return float(t) / slope if slope > 0 else math.inf  # NumPy's scalars would warn of overflow

    def _climb(self, a, b):
        """g(b) - g(a), t = a < b, without cancellation on either side."""
        a, b = self._at(a), self._at(b)
        return b[0] - a[0] if b[0] < 0.5 * self.total else a[3] - b[3]

    def _branches(self, first):
        """Tables of the branches between the jumps: edges (b,), then log L, log t, dlog t / dlog L, all (b, nodes)."""
        starts = [CHANNEL.min_t] * (not first) + [jump.above / (1 - jump.above) for jump in self.jumps]
        ends = [jump.below / (1 - jump.below) for jump in self.jumps[int(first) :]] + [CHANNEL.max_t]
        edges = np.array([self.onset] * (not first) + [jump.lam for jump in self.jumps])
        log_lam, log_t, slope, fall = np.empty((4, len(starts), CHANNEL.nodes))
        for b, (start, end) in enumerate(zip(starts, ends, strict=True)):
            log_t[b] = np.linspace(math.log(start), math.log(end), CHANNEL.nodes)
            for i, t in enumerate(np.exp(log_t[b])):
                _, dg, d2g, _ = self._at(t)
                log_lam[b, i] = math.log(t / dg)
                slope[b, i] = 1 / max(1 - t / (1 + t) ** 2 * d2g / dg, 1e-10)
                fall[b, i] = dg**2 * slope[b, i] / (1 + t) ** 2  # -d(g(1) - g(q)) / dlam
        self.convex = first and bool(np.all(np.diff(fall) <= 1e-9 * fall[:, 1:]))
        return edges, log_lam, log_t, slope


@lru_cache(maxsize=32)
def channel_of(g):
    """The channel of a correlation function, computed once."""
    return Channel(g)
