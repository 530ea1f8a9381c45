"""Bayes-optimal learning of a wide teacher whose features differ in strength."""

import math
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..._base import ArrayLike, Floats, Immutable, Numbers, Rng, check, read_only
from .channel import channel_of
from .correlation import correlation_of, degrees
from .exact import ExactPoints, exact_information, exact_solution
from .fixed_points import FixedPoints
from .labels import Information
from .pair import Pair
from .solutions import BayesCurve, BayesPoint, BayesSolution

__all__ = ["HierarchicalTeacher", "power_law_readouts"]

Choice: TypeAlias = Literal["bayes", "uninformed", "informed"]
Shape: TypeAlias = Literal["diagonal", "matrix"]


class Teacher(Immutable):
    """Base of all teachers: the noise, and the scalar problem of one feature."""

    @cached_property
    def feature(self: Any):
        """The scalar problem of one feature; computed once for all teachers with this activation."""
        return channel_of(correlation_of(self.activation, remove=self.remove, allow_degree2=self.allow_degree2))

    @property
    def Delta(self: Any) -> float:
        """Variance of the label noise."""
        return self.noise**2


class HierarchicalTeacher(Teacher):
    r"""Teacher of width k ~ d with readouts of different strength, learned Bayes-optimally from n ~ d^2 noisy samples.

    .. math::
        y &= \sum_{i \le k} v_i\, \sigma(w_i \cdot x/\sqrt d) + \sqrt\Delta\, z, \qquad \sum_i v_i^2 = 1, \\
        q_i &= m\!\left(\frac{\nu v_i^2}{\Delta + \epsilon}\right), \qquad
        \epsilon = \sum_i v_i^2\,(g(1) - g(q_i)), \qquad
        m(\lambda) = \mathop{\rm argmax}_{0 \le q < 1}\, [\lambda g(q) + q + \ln(1 - q)]

    nu = n/d is the amount of data, g the correlation function of sigma (degrees 0, 1, 2 removed), q_i the overlap of a
    posterior sample with feature i. A feature is learned in a sharp transition; k_c counts those learned.

    Source: "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks"
    (2026). The potential, the selection, the parametric form nu(s) = s (Delta + eps(s)) and the exact channel are
    derived here; for the replica-symmetric formula of generalised linear models see Barbier et al. (2019),
    arXiv:1708.03395.

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
    channel : {"gaussian", "exact"}
        Law of a label given the known parts of the fields: Gaussian, or exact (needs a dict and noise > 0).

    Raises
    ------
    ValueError
        Readouts that are not positive or do not sum to one, negative noise, an activation without components of degree
        three or more, or with a component of degree two without ``allow_degree2``, an exact channel for a function or
        without noise.

    Notes
    -----
    *Heuristic*: the equations follow from the decoupling of the features (leave-one-out; no proof) for d -> infinity
    with k/d and n/d^2 fixed, and a Gaussian output channel (many features, or Delta >> 1). *Exact* given them: every
    solution is found to rounding, and among several the one of largest potential

    .. math:: \Phi = \sum_i [q_i + \ln(1-q_i)] - \nu \ln(\Delta + \epsilon)

    is Bayes-optimal. *Corrected* against the paper: solutions are not unique in general. Around every transition lies
    a window of width lambda_sigma g(q_sigma) in nu with two solutions (irrelevant for d -> infinity), and groups of
    similar readouts have macroscopic ones.

    ``channel="exact"`` is the replica-symmetric theory of generalised linear models at fixed k, d -> infinity,

    .. math:: \frac{q_i}{1-q_i} = \nu h_i(q), \qquad h_i = E_V \int dy\, \frac{(\partial p/\partial\omega_i)^2}{p},
        \qquad \Phi = \sum_i [q_i + \ln(1-q_i)] - \nu \ln N(q),

    p(y|V) the density of a label given the known parts omega_i = sqrt(q_i) V_i of the fields, N its entropy power; the
    Gaussian channel is N = Delta + eps. Overlaps of posterior samples between different features are taken to be zero:
    *exact* for even sigma. For odd sigma the sum of all features is the first to leave q = 0, so that solutions of
    small overlap at k >= 2 are no predictions; ``information(q).cross`` measures what is left out. All Hermite
    coefficients of sigma are >= 0, and v_i > 0. :attr:`m`, :attr:`thresholds`, :attr:`onset` and :meth:`window` are
    those of the Gaussian channel.

    Examples
    --------
    >>> import overlaps as ov
    >>> teacher = ov.static.HierarchicalTeacher(beta=1.0, k=200, noise=0.4**0.5, activation={3: 1.0})
    >>> teacher.solve(nu=300)
    BayesSolution(nu=300, eps=0.0585488, k_c=16/200)
    >>> few = ov.static.HierarchicalTeacher(v2=[0.5, 0.5], noise=0.5**0.5, activation={3: 1.0}, channel="exact")
    >>> round(few.information([0.5, 0.5]).power, 8)
    1.01575194
    """

    v2: Any = None
    beta: float | None = None
    k: Any = None
    noise: float = 0.0
    activation: Any = None
    remove: Any = None
    allow_degree2: bool = False
    normalise: bool = False
    channel: str = "gaussian"

    def __post_init__(self):
        check.choice("channel", self.channel, ("gaussian", "exact"))
        hint = "noise is a standard deviation, the root of Delta."
        noise = check.number("noise", self.noise, least=0, below=1e154, hint=hint)
        v2 = self._readouts()
        remove = None if self.remove is None else degrees(self.remove)
        self._set(noise=noise, v2=v2, k=v2.size, remove=remove)
        self.feature.onset  # noqa: B018 - computed here so that a bad activation is refused here
        if self.channel == "exact" and not (self.noise > 0 and isinstance(self.activation, dict)):
            raise ValueError(
                f"channel = 'exact' with noise = {self.noise:g}, activation = {check.shown(self.activation)}; expected "
                "noise > 0 and a dictionary of Hermite components such as {3: 1.0}. Try channel='gaussian'."
                + check.see("bayes", "Where the equations fail")
            )

    @cached_property
    def _order(self):
        return np.argsort(-self.v2, kind="stable")

    @cached_property
    def _points(self):
        descending = self.v2[self._order]
        return FixedPoints(self.feature, descending, np.cumsum(descending[::-1])[::-1].copy(), self.Delta)

    def _readouts(self):
        if self.beta is not None:
            law = power_law_readouts(self.beta, self.k)
            if self.v2 is None or np.array_equal(self.v2, law):
                return law
        if self.v2 is None or self.beta is not None:
            given = "neither v2 nor beta" if self.v2 is None else "v2 beside another power law"
            raise ValueError(
                f"{given}; expected v2=..., or beta=... with k=... In dataclasses.replace reset the other with v2=None."
            )
        v2 = check.array("v2", self.v2, ("k",))
        if v2.size == 0 or np.any(v2 <= 0):
            raise ValueError(
                f"v2 has {np.sum(v2 <= 0)} entries <= 0 among {v2.size}; expected v_i^2 > 0. Drop the zeros."
            )
        if self.k is not None and check.count("k", self.k) != v2.size:
            raise check.refused("k", self.k, "k to be left out with v2.", after=f", but v2 has {v2.size} entries")
        if not check.flag("normalise", self.normalise) and abs(v2.sum() - 1) > 1e-10:
            raise ValueError(
                f"v2 sums to {v2.sum():.12g}; expected 1. Try normalise=True (and check the noise's scale)."
            )
        return read_only(v2 / v2.sum())

    @property
    def g(self) -> Any:
        """Correlation function of the activation."""
        return self.feature.g

    @property
    def information_exponent(self) -> int:
        """Lowest Hermite degree of the activation once degrees 0, 1 (and 2) are removed."""
        return self.g.exponent

    @property
    def thresholds(self) -> Floats:
        """First-order transitions of one feature, an array of (lambda, q below, q above); empty if continuous."""
        return self.feature.jumps

    @property
    def onset(self) -> float:
        """Signal-to-noise ratio lambda above which a feature is learned, by a jump or continuously."""
        return self.feature.onset

    def m(self, lam: ArrayLike) -> Numbers:
        r"""Overlap of a feature with signal-to-noise ratio lam, :math:`m(\lambda)`, of the shape of lam."""
        return self.feature(lam)

    def solve(
        self,
        *,
        nu: float,
        selection: Choice = "bayes",
        overlaps: Shape = "diagonal",
        samples: int = 64,
        rng: Rng = 0,
    ) -> BayesSolution:
        """Overlaps and Bayes error at nu = n/d.

        Exact channel: the least and the greatest solution are limits of a monotone iteration; between them solutions
        are sought on a grid (equal readouts) or from starts at which the first m features are known. Some may be
        missed.

        Without noise and for nu > k the teacher is learned perfectly: eps = 0, s = phi = infinity; errors below 1e-304
        are 0, too. With more than 2000 transitions between the least and the largest solution, neighbouring ones far
        from the best are not listed.

        Parameters
        ----------
        nu : float
            Data, n/d > 0.
        selection : {"bayes", "uninformed", "informed"}
            Which of several solutions: that of largest potential, of largest error (each feature at its own best, as
            few known as possible; no algorithm), or of smallest error.
        overlaps : {"diagonal", "matrix"}
            Exact channel of two features: "matrix" includes the overlaps between different features, which odd
            activations have, and finds Q with Q (1 - Q)^-1 = nu G(Q), eps to about 1e-4, in some seconds.
        samples : int
            Exact channel with k >= 3: samples of the known parts of the other features in each of four replicas; the
            spread of the replicas is the error bar. One and two features are integrated.
        rng : int or numpy.random.Generator
            Seed of these samples.

        Raises
        ------
        ValueError
            nu that is not positive or too large to be resolved; an unknown selection; an exact channel with too little
            noise or too many different readouts; ``overlaps="matrix"`` without the exact channel of two features.

        Warns
        -----
        RuntimeWarning
            The potentials of two solutions of the exact channel are closer than three error bars.
        """
        hint = "nu is the number of samples over the input dimension, n/d."
        nu = check.number("nu", nu, above=0, below=np.inf, hint=hint)
        check.choice("selection", selection, get_args(Choice), "Try 'bayes'.")
        matrix = check.choice("overlaps", overlaps, get_args(Shape)) == "matrix"
        if matrix and (self.k, self.channel) != (2, "exact"):
            raise ValueError(
                f"overlaps = 'matrix' with k = {self.k}, channel = {self.channel!r}; expected k = 2 and "
                "channel='exact'. Try sample_posterior." + check.see("bayes", "Where the equations fail")
            )
        samples, rng = check.count("samples", samples, least=2), check.generator(rng)
        if self.channel == "exact":
            informed = self.m(self._points.solve(nu)[-1] * self.v2)
            points = Pair(self) if matrix else ExactPoints(self, informed, samples, rng)
            return exact_solution(self, nu, selection, points.solve(nu))
        roots = self._points.solve(nu)
        solutions = tuple(self._describe(s, nu) for s in roots)
        best = int(np.argmax([point.phi for point in solutions]))
        selected = {"bayes": best, "uninformed": 0, "informed": len(solutions) - 1}[selection]
        s, eps, k_c, phi = solutions[selected]
        q = np.empty(self.k)
        q[self._order] = 1.0 if math.isinf(s) else self.m(s * self.v2[self._order])
        residual = abs(nu / s - self.Delta - eps) / (self.Delta + self.g.total) if 0 < s < math.inf else 0.0
        return BayesSolution(self, nu, eps, q, k_c, s, phi, solutions, selected, residual < 1e-9, residual)

    def information(self, q: ArrayLike, *, samples: int = 64, rng: Rng = 0) -> Information:
        """Information of a label about the features when all are known up to overlaps q.

        Parameters
        ----------
        q : array_like, shape (k,)
            Overlaps 0 <= q < 1, in the order of v2.
        samples, rng
            As in :meth:`solve`.

        Returns
        -------
        Information
            Solutions have q_i / (1 - q_i) = nu h_i. Gaussian channel: h_i = v_i^2 g'(q_i) / (Delta + eps), the entropy
            power is Delta + eps, and the errors and ``cross`` are 0.

        Raises
        ------
        ValueError
            Overlaps out of range, or as in :meth:`solve`.
        """
        q = check.array("q", q, (self.k,))
        if np.any((q < 0) | (q >= 1)):
            raise check.refused("q", q, "overlaps 0 <= q < 1. At q = 1 everything is learned.")
        samples, rng = check.count("samples", samples, least=2), check.generator(rng)
        if self.channel == "exact":
            return exact_information(self, q, samples, rng)
        _, slope, _, gap = np.transpose([self.feature._at(x) for x in q / (1 - q)])
        power = self.Delta + self.v2 @ gap
        return Information(self.v2 * slope / power, np.zeros(self.k), float(power), 0.0, 0.0)

    def _describe(self, s, nu):
        eps, _, k_c = (0.0, None, self.k) if math.isinf(s) else self._totals(s)
        return BayesPoint(s, eps, k_c, self._points.potential(s, nu))

    def _totals(self, s):
        return self.feature.totals(s, self._points.v2, self._points.tail)

    def curve(
        self,
        nu: tuple[float, float] | None = None,
        *,
        s: ArrayLike | None = None,
        points: int = 200,
        samples: int = 64,
        rng: Rng = 0,
    ) -> BayesCurve:
        r"""Learning curve in its exact parametric form :math:`\nu(s) = s\,(\Delta + \epsilon(s))`, without root search.

        Parameters
        ----------
        nu : pair of float, optional
            Interval of n/d to cover, with points evenly spaced in log s (exact channel: in log nu).
        s : array_like, shape (n,), optional
            Instead: increasing values s > 0 of the parameter nu / (Delta + eps).
        points : int
            Number of points of the interval.
        samples, rng
            As in :meth:`solve`: with the exact channel each point is one solution, the Bayes-optimal one.

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
        if self.channel == "exact":
            return self._exact_curve(nu, s, points, samples, rng)
        s = self._grid(nu, points) if s is None else check.array("s", s, ("n",))
        if s.size == 0 or s[0] <= 0 or np.any(np.diff(s) <= 0):
            raise ValueError(
                "s does not increase from a positive value; expected 0 < s_1 < s_2 < ... Try np.geomspace."
            )
        eps, _, k_c = np.transpose([self._totals(x) for x in s])
        values = s * (self.Delta + eps)
        return BayesCurve(self, s, values, eps, k_c.astype(int), self._points.optimal(s, eps), np.zeros(s.size))

    def _exact_curve(self, nu, s, points, samples, rng):
        if s is not None:
            raise ValueError(
                "s with channel='exact'; expected an interval of nu. s parametrises Gaussian channels only."
            )
        low, high = self._interval(nu, points)
        seeds = check.generator(rng).spawn(points)
        grid = np.geomspace(low, high, points)
        solutions = [self.solve(nu=x, samples=samples, rng=seed) for x, seed in zip(grid, seeds, strict=True)]
        eps, k_c, eps_err = np.transpose([(x.eps, x.k_c, x.eps_err) for x in solutions])
        return BayesCurve(
            self, np.full(points, np.nan), grid, eps, k_c.astype(int), np.ones(points, dtype=bool), eps_err
        )

    def _interval(self, nu, points):
        ends = check.array("nu", (1.0, 1.0) if nu is None else nu, (2,), hint="nu is an interval (from, to).")
        if not 0 < ends[0] < ends[1]:
            raise check.refused("nu", nu, "an interval 0 < from < to of n/d, e.g. curve((1.0, 1e6)), or s=...")
        check.count("points", points, least=2)
        return ends

    def _grid(self, nu, points):
        ends = self._interval(nu, points)
        low, high = (self.solve(nu=x, selection=side).s for x, side in zip(ends, get_args(Choice)[1:], strict=True))
        if math.isinf(high):
            raise ValueError(
                f"nu = {check.shown(nu)} reaches beyond k = {self.k} without noise, where eps = 0 exactly; expected "
                "nu <= k. Shorten the interval or add noise."
            )
        return np.geomspace(low, high, points)

    def window(self, feature: int) -> tuple[float, float]:
        r"""Interval of nu in which one solution has learned the feature (first transition) and another has not.

        .. math:: \Big[\min_{s > s_i} \nu(s),\ \max_{s < s_i} \nu(s)\Big], \qquad s_i = \lambda_\sigma / v_i^2

        *Exact* given the fixed-point equations. The Bayes-optimal transition lies between the two ends. Both are
        information-theoretic: beyond the upper end there is no solution in which every other feature is at its own best
        and this one is unknown. Algorithms may need more data.

        Parameters
        ----------
        feature : int
            Index into v2, from 0.

        Returns
        -------
        tuple of float
            Beginning of the solutions with the feature and end of those without it. The width is lambda_sigma
            g(q_sigma) for a single feature, that times their number for a group of equal readouts, and more if the
            windows of similar readouts merge.
        """
        feature = check.scalar(feature)
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < self.k:
            raise check.refused("feature", feature, f"an integer from 0 to {self.k - 1}, an index into v2.")
        if self.channel == "exact":
            raise ValueError(
                "channel = 'exact' has no window of a single feature: its transitions are smeared; expected "
                "channel='gaussian'. Compare solve(selection='uninformed') with 'informed'."
            )
        return self._points.window(float(self.onset / self.v2[feature]))

    def __repr__(self):
        readouts = f"beta={self.beta:g}, k={self.k}" if self.beta is not None else f"k={self.k}"
        exact = ", channel='exact'" if self.channel == "exact" else ""
        return f"HierarchicalTeacher({readouts}, noise={self.noise:g}, activation={self.activation!r}{exact})"


def power_law_readouts(beta, k):
    """Squared readouts v_i^2 = i^(-2 beta) / sum_j j^(-2 beta), i = 1 ... k, read-only."""
    beta = check.number("beta", beta, least=0, hint="beta is the exponent of |v_i| ~ i^(-beta).")
    weights = np.arange(1.0, check.count("k", k) + 1) ** (-2 * beta)
    return read_only(weights / weights.sum())
