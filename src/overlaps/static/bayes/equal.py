"""Equal readouts: all features are learned at once."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from ..._base import ArrayLike, Numbers, check, minimum
from .branches import Jump, transitions
from .power_law import Limit


class EqualReadouts(Limit):
    r"""All readouts equal, v_i^2 = 1/k: all features are learned at once. Data are counted as A = nu/k = alpha/gamma.

    *Exact* given the (heuristic) fixed-point equations, for every k. *Corrected* against the paper: its Eq. (36) is the
    end of the uninformed branch (``uninformed_until``); the Bayes-optimal transition comes earlier, because a finite
    fraction of the features is learned at once and lowers the error, which is the noise of all of them.

    Source: "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks"
    (2026), Eq. (36); the thresholds are derived here.

    Parameters
    ----------
    noise : float
        Standard deviation sqrt(Delta) > 0 of the label noise.
    activation, remove, allow_degree2
        As in :class:`overlaps.static.HierarchicalTeacher`.

    Raises
    ------
    ValueError
        A parameter out of range.

    Examples
    --------
    >>> import overlaps as ov
    >>> law = ov.static.EqualReadouts(noise=0.5**0.5, activation={3: 1.0})
    >>> round(law.informed_from, 5), round(law.threshold, 6), round(law.overlap, 5), round(law.uninformed_until, 5)
    (1.78332, 1.926643, 0.7546, 2.18367)
    """

    noise: float
    activation: Any
    remove: Any = None
    allow_degree2: bool = False

    def data(self, q: ArrayLike) -> Numbers:
        r"""Data at which 0 < q < 1 is stationary, :math:`A(q) = \frac{q}{(1-q)\,g'(q)}\,(\Delta + g(1) - g(q))`."""
        q = check.times("q", q)
        if not np.all((q > 0) & (q < 1)):
            raise check.refused("q", q, "overlaps 0 < q < 1. q = 0 is a solution at every A.")
        t = q / (1 - q)
        return np.reshape([self._data(x) for x in t.ravel()], q.shape)[()]

    def potential(self, q: ArrayLike, A: float) -> Numbers:
        """Twice the free entropy per k d, q + ln(1 - q) - A ln(Delta + g(1) - g(q)), of the shape of 0 <= q < 1."""
        q, A = check.times("q", q), check.number("A", A, least=0)
        if not np.all((q >= 0) & (q < 1)):
            raise check.refused("q", q, "overlaps 0 <= q < 1. The potential is -infinity at q = 1.")
        return q + np.log1p(-q) - A * np.log(self.Delta + self.channel.total - self.channel.g(q))

    @property
    def informed_from(self) -> float:
        """Least A at which some q > 0 is stationary, the least of :meth:`data`, at ``informed_overlap``.

        A single feature is metastable there if that overlap is below q_sigma. The solutions of ``HierarchicalTeacher``
        have every feature at its own maximum; their branch then begins at data(q_sigma).
        """
        return self._informed[0]

    @property
    def informed_overlap(self) -> float:
        """Overlap at the beginning of the informed branch; 0 if the branch begins continuously at q = 0."""
        return self._informed[1]

    @cached_property
    def uninformed_until(self):
        """Largest A at which q = 0 is the best of every single feature, lambda_sigma (Delta + g(1)): (36)."""
        return self.channel.onset * self._full

    @cached_property
    def transitions(self):
        """All first-order transitions of the Bayes-optimal overlap: rows (A, q below, q above), ascending."""
        end = self._end
        jumps = transitions(self._climb, self._snr, math.ceil(250 * (math.log10(end) + 8)), end)
        return tuple(Jump(x.lam * self._full, x.below, x.above) for x in jumps)

    @property
    def threshold(self) -> float:
        """A above which the Bayes-optimal overlap is positive, inf_{0<q<1} -s(q)/ln[(Delta+g(1))/(Delta+g(1)-g(q))].

        The overlap jumps to ``overlap``, or grows continuously from (Delta + g(1)) / (2 c_2).
        """
        return self._first[0]

    @property
    def overlap(self) -> float:
        """Overlap of all features just above the threshold; 0 at a continuous onset."""
        return self._first[1]

    @property
    def _first(self):
        if self.transitions and self.transitions[0].below == 0:
            return self.transitions[0].lam, self.transitions[0].above
        return self._continuous, 0.0

    @property
    def _continuous(self):
        """A where q = 0 becomes unstable, infinite without a component of degree 2."""
        bend = self.channel._at(0.0)[2]
        return self._full / bend if bend > 0 else math.inf

    @cached_property
    def _informed(self):
        """(least A(q), its q), over t = q / (1 - q) from 0."""
        grid = np.linspace(math.log(1e-8), math.log(self._end), math.ceil(50 * (math.log10(self._end) + 8)))
        values = [self._data(math.exp(u)) for u in grid]
        i = int(np.argmin(values))
        if i == 0 or self._continuous <= values[i]:
            return self._continuous, 0.0
        u, least, _ = minimum(lambda u: self._data(math.exp(u)), grid, values, xatol=1e-9)
        return least, math.exp(u) / (1 + math.exp(u))

    @property
    def _end(self):
        """Largest t of the grids; beyond, g(1) - g(q) is negligible against the noise."""
        return 10 ** min(12 + max(0.0, math.log10(self.channel.total) - math.log10(self.Delta)), 300.0)

    @property
    def _full(self):
        return self.Delta + self.channel.total

    def _data(self, t):
        return self._snr(t) * self._full

    # The transitions are those of a single feature with x(q) = -D ln[1 - g(q)/D], D = Delta + g(1), in place of g and
    # lam = A/D, because the potential is s(q) + lam x(q) up to a constant.

    def _snr(self, t):
        _, dg, _, gap = self.channel._at(t)
        return float(t) / dg * ((self.Delta + gap) / self._full) if dg > 0 else math.inf

    def _climb(self, a, b):
        left, right = (self.Delta + self.channel._at(t)[3] for t in (a, b))
        climb = self.channel._climb(a, b) / left
        return self._full * (-math.log1p(-climb) if climb < 0.5 else math.log(left / right))
