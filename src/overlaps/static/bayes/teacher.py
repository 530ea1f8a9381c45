"""Bayes-optimal learning of a wide teacher whose features differ in strength."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._base import check
from ..._base.record import Record
from .channel import channel_of
from .correlation import correlation_of
from .fixed_points import FixedPoints
from .solutions import BayesCurve, BayesSolution, FixedPoint

__all__ = ["HierarchicalTeacher", "power_law_readouts"]

SELECTIONS = ("bayes", "uninformed", "informed")


class Teacher(Record):
    """What all teachers share: the noise, and the scalar problem of one feature."""

    noise: float
    activation: Any
    remove: Any
    allow_degree2: bool

    @cached_property
    def channel(self):
        """The scalar problem of one feature; shared by all teachers with this activation."""
        return channel_of(correlation_of(self.activation, remove=self.remove, allow_degree2=self.allow_degree2))

    @property
    def Delta(self):
        """Variance of the label noise."""
        return self.noise**2


@dataclass(frozen=True, eq=False, repr=False)
class HierarchicalTeacher(Teacher):
    r"""Teacher of width k ~ d with readouts of different strength, learned Bayes-optimally from n ~ d^2 noisy samples.

    .. math::
        y &= \sum_{i \le k} v_i\, \sigma(w_i \cdot x/\sqrt d) + \sqrt\Delta\, z, \qquad \sum_i v_i^2 = 1, \\
        q_i &= m\!\left(\frac{\nu v_i^2}{\Delta + \epsilon}\right), \qquad
        \epsilon = \sum_i v_i^2\,(g(1) - g(q_i)), \qquad
        m(\lambda) = \mathop{\rm argmax}_{0 \le q < 1}\, [\lambda g(q) + q + \ln(1 - q)]

    nu = n/d is the amount of data, g the correlation function of sigma (degrees 0, 1, 2 removed), q_i the overlap of a
    posterior sample with feature i. A feature is learned in a sharp transition; k_c counts those learned.

    Parameters
    ----------
    v2 : array_like, shape (k,), optional
        Squared readouts v_i^2 > 0, of sum one.
    beta, k : float, int, optional
        Instead of v2: the power law v_i^2 = i^(-2 beta) / sum_j j^(-2 beta), i <= k.
    noise : float
        Standard deviation sqrt(Delta) of the label noise, >= 0.
    activation : Activation, callable or dict
        sigma, or the coefficients {l: c_l} of g(x) = sum_l c_l x^l ({3: 1.0} is He_3/sqrt(6)).
    remove : sequence of int, optional
        Hermite degrees taken out of a function; (0, 1, 2) by default, 0 and 1 always.
    allow_degree2 : bool
        Accept a component of degree 2, for which the theory is an approximation only.
    normalise : bool
        Divide v2 by its sum.

    Raises
    ------
    ValueError
        Readouts that are not positive or do not sum to one, negative noise, an activation without components of degree
        three or more, or with a component of degree two that was not asked for.

    Notes
    -----
    *Heuristic*: the equations follow from the decoupling of the features (leave-one-out; no proof) for d -> infinity
    with k/d and n/d^2 fixed, and a Gaussian output channel (many features, or Delta >> 1). *Exact* given them: every
    solution is found to rounding, and among several the one of largest potential

    .. math:: \Phi = \sum_i [q_i + \ln(1-q_i)] - \nu \ln(\Delta + \epsilon)

    is Bayes-optimal. *Corrected* against the paper: solutions are not unique in general. Around every transition lies
    a window of width lambda_sigma g(q_sigma) in nu with two solutions (irrelevant for d -> infinity), and groups of
    similar readouts have macroscopic ones.

    References
    ----------
    "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks" (2026). The
    potential, the selection and the parametric form nu(s) = s (Delta + eps(s)) are derived here.

    Examples
    --------
    >>> import overlaps as ov
    >>> teacher = ov.static.HierarchicalTeacher(beta=1.0, k=200, noise=0.4**0.5, activation={3: 1.0})
    >>> teacher.solve(nu=300)
    BayesSolution(nu=300, eps=0.0585488, k_c=16/200)
    """

    v2: Any = None
    beta: float | None = None
    k: Any = None
    noise: float = 0.0
    activation: Any = None
    remove: Any = None
    allow_degree2: bool = False
    normalise: bool = False

    def __post_init__(self):
        noise = check.number("noise", self.noise, least=0, hint="noise is a standard deviation, the root of Delta.")
        v2 = self._readouts()
        remove = None if self.remove is None else tuple(np.atleast_1d(self.remove).tolist())
        self.settle(noise=noise, v2=v2, k=v2.size, remove=remove)
        self.channel.onset  # noqa: B018 - built now, so that a bad activation is refused here

    @cached_property
    def _order(self):
        return np.argsort(-self.v2, kind="stable")

    @cached_property
    def _points(self):
        descending = self.v2[self._order]
        return FixedPoints(self.channel, descending, np.cumsum(descending[::-1])[::-1].copy(), self.Delta)

    def _readouts(self):
        if self.beta is not None:
            law = power_law_readouts(self.beta, self.k)
            if self.v2 is None or np.array_equal(self.v2, law):
                return law
        if self.v2 is None or self.beta is not None:
            came = "neither v2 nor beta" if self.v2 is None else "v2 beside another power law"
            raise ValueError(
                f"{came}; expected v2=..., or beta=... with k=... In dataclasses.replace, reset the other with v2=None."
            )
        v2 = check.array("v2", self.v2, ("k",))
        if v2.size == 0 or np.any(v2 <= 0):
            raise ValueError(
                f"v2 has {np.sum(v2 <= 0)} entries <= 0 among {v2.size}; expected v_i^2 > 0. Drop the zeros."
            )
        if self.k is not None and self.k != v2.size:
            raise ValueError(
                f"k = {check.shown(self.k)}, but v2 has {v2.size} entries; expected k to be left out with v2."
            )
        if not self.normalise and abs(v2.sum() - 1) > 1e-10:
            raise ValueError(
                f"v2 sums to {v2.sum():.12g}; expected 1. Try normalise=True (and check the noise's scale)."
            )
        v2 = v2 / v2.sum()
        v2.setflags(write=False)
        return v2

    @property
    def g(self):
        """Correlation function of the activation."""
        return self.channel.g

    @property
    def information_exponent(self):
        """Lowest Hermite degree of the activation once degrees 0, 1 (and 2) are removed."""
        return self.g.exponent

    @property
    def thresholds(self):
        """First-order transitions of one feature: rows (lambda, q below, q above), empty when all is continuous."""
        return self.channel.jumps

    @property
    def onset(self):
        """Signal-to-noise ratio lambda above which a feature is learned, by a jump or continuously."""
        return self.channel.onset

    def m(self, lam):
        r"""Overlap of a feature with signal-to-noise ratio lam, :math:`m(\lambda)`, of the shape of lam."""
        return self.channel(lam)

    def solve(self, *, nu, selection="bayes"):
        """Overlaps and Bayes error at nu = n/d.

        Parameters
        ----------
        nu : float
            Data, n/d > 0.
        selection : {"bayes", "uninformed", "informed"}
            Which of several solutions: that of largest potential, of largest error (each feature at its own best,
            as few known as possible; no algorithm), or of smallest error.

        Returns
        -------
        BayesSolution

        Raises
        ------
        ValueError
            nu that is not positive or too large to be resolved, or an unknown selection.

        Notes
        -----
        Without noise and for nu > k the teacher is learned perfectly: eps = 0, s = phi = infinity; errors below 1e-304
        are 0, too. With more than 2000 transitions between the least and the largest solution, neighbouring ones far
        from the best are not listed.
        """
        nu = check.number("nu", nu, above=0, hint="nu is the number of samples over the input dimension, n/d.")
        check.choice("selection", selection, SELECTIONS, "Try 'bayes'.")
        roots = self._points.solve(nu)
        solutions = tuple(self._describe(s, nu) for s in roots)
        best = int(np.argmax([point.phi for point in solutions]))
        selected = {"bayes": best, "uninformed": 0, "informed": len(solutions) - 1}[selection]
        s, eps, k_c, phi = solutions[selected]
        q = np.empty(self.k)
        q[self._order] = 1.0 if math.isinf(s) else self.m(s * self.v2[self._order])
        residual = abs(nu / s - self.Delta - eps) / (self.Delta + self.g.total) if 0 < s < math.inf else 0.0
        return BayesSolution(self, nu, eps, q, k_c, s, phi, solutions, selected, residual < 1e-9, residual)

    def _describe(self, s, nu):
        if math.isinf(s):
            return FixedPoint(s, 0.0, self.k, self._points.potential(s, nu))
        eps, _, k_c = self._totals(s)
        return FixedPoint(s, eps, k_c, self._points.potential(s, nu))

    def _totals(self, s):
        return self.channel.totals(s, self._points.v2, self._points.tail)

    def curve(self, nu=None, *, s=None, points=200):
        r"""Learning curve in its exact parametric form, :math:`\nu(s) = s\,(\Delta + \epsilon(s))`; no root is sought.

        Parameters
        ----------
        nu : pair of float, optional
            Interval of n/d to cover, with points evenly spaced in log s.
        s : array_like, shape (n,), optional
            Instead: increasing values s > 0 of the parameter nu / (Delta + eps).
        points : int
            Number of points of the interval.

        Returns
        -------
        BayesCurve

        Raises
        ------
        ValueError
            An interval that is not 0 < from < to, or s that does not increase.

        Examples
        --------
        >>> import overlaps as ov
        >>> teacher = ov.static.HierarchicalTeacher(beta=1.0, k=200, noise=0.5, activation={3: 1.0})
        >>> curve = teacher.curve((10, 1e6), points=50)
        >>> curve, int(curve.k_c[-1])
        (BayesCurve(50 points, nu 10 to 1e+06), 200)
        """
        s = self._grid(nu, points) if s is None else check.array("s", s, ("n",))
        if s.size == 0 or s[0] <= 0 or np.any(np.diff(s) <= 0):
            raise ValueError(
                "s does not increase from a positive value; expected 0 < s_1 < s_2 < ... Try np.geomspace."
            )
        eps, _, k_c = np.transpose([self._totals(x) for x in s])
        values = s * (self.Delta + eps)
        return BayesCurve(self, s, values, eps, k_c.astype(int), self._points.optimal(s, eps))

    def _grid(self, nu, points):
        ends = check.array("nu", (1.0, 1.0) if nu is None else nu, (2,), hint="nu is an interval (from, to).")
        if not 0 < ends[0] < ends[1]:
            raise ValueError(
                f"nu = {check.shown(nu)}; expected an interval 0 < from < to of n/d, e.g. curve((1.0, 1e6)), or s=..."
            )
        check.count("points", points, least=2)
        low, high = (self.solve(nu=x, selection=side).s for x, side in zip(ends, SELECTIONS[1:], strict=True))
        if math.isinf(high):
            raise ValueError(
                f"nu = {check.shown(nu)} reaches beyond k = {self.k} without noise, where eps = 0 exactly; expected "
                "nu <= k. Shorten the interval or add noise."
            )
        return np.geomspace(low, high, points)

    def window(self, feature):
        r"""Interval of nu where one solution knows the feature, by its first transition, and another does not.

        .. math:: \Big[\min_{s > s_i} \nu(s),\ \max_{s < s_i} \nu(s)\Big], \qquad s_i = \lambda_\sigma / v_i^2

        Parameters
        ----------
        feature : int
            Index into v2, from 0.

        Returns
        -------
        tuple of float
            Where the solutions with the feature begin and where those without it end; the width is
            lambda_sigma g(q_sigma) for a single feature, that times their number for a group of equal readouts, and
            more where the windows of similar readouts merge.

        Notes
        -----
        *Exact* given the fixed-point equations. The Bayes-optimal transition lies between the two ends. Both are
        information-theoretic: at the upper end no solution is left in which every other feature sits at its own best
        and this one is unknown. That says nothing about what an algorithm finds.
        """
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < self.k:
            raise ValueError(
                f"feature = {check.shown(feature)}; expected an integer from 0 to {self.k - 1}, an index into v2."
            )
        return self._points.window(float(self.onset / self.v2[feature]))

    def __repr__(self):
        readouts = f"beta={self.beta:g}, k={self.k}" if self.beta is not None else f"k={self.k}"
        return f"HierarchicalTeacher({readouts}, noise={self.noise:g}, activation={self.activation!r})"


def power_law_readouts(beta, k):
    """Squared readouts v_i^2 = i^(-2 beta) / sum_j j^(-2 beta), i = 1 ... k, read-only."""
    beta = check.number("beta", beta, least=0, hint="beta is the exponent of |v_i| ~ i^(-beta).")
    weights = np.arange(1.0, check.count("k", k) + 1) ** (-2 * beta)
    v2 = weights / weights.sum()
    v2.setflags(write=False)
    return v2
