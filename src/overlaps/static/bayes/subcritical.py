"""Power-law readouts with beta < 1/2 and equal readouts: extensively many features learned at once."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ..._base import check
from ._features import correlation, entropy
from .power_law import Limit, average, continuum_gap

__all__ = ["EqualReadouts", "Phase", "SubcriticalPowerLaw"]

RANGE = 1e6  # in lam, above the onset, searched for the lower spinodal


class Phase(NamedTuple):
    """A solution: lam of the weakest feature, data alpha = n/d^2, error eps, learned fraction width = k_c/k."""

    lam: float
    alpha: float
    eps: float
    width: float


@dataclass(frozen=True, eq=False, repr=False)
class SubcriticalPowerLaw(Limit):
    r"""Power-law readouts with beta < 1/2 in the limit k = gamma d, d -> infinity.

    Parametrised by lam = lambda of the weakest feature, with x = i/k:

    .. math::
        \epsilon(\lambda) &= (1-2\beta) \int_0^1 x^{-2\beta}\,[g(1) - g(m(\lambda x^{-2\beta}))]\,dx, \\
        \alpha(\lambda) &= \frac{\gamma \lambda\,(\Delta + \epsilon(\lambda))}{1-2\beta}, \qquad
        \frac{k_c}{k} = \min\!\left(1, (\lambda/\lambda_\sigma)^{1/(2\beta)}\right)

    Parameters
    ----------
    beta : float
        Exponent of ``|v_i| ~ i^(-beta)``, 0 < beta < 1/2.
    gamma : float
        Width over input dimension, k/d > 0.
    noise : float
        Standard deviation sqrt(Delta) > 0 of the label noise.
    activation, remove, allow_degree2
        As in :class:`overlaps.static.HierarchicalTeacher`.

    Raises
    ------
    ValueError
        A parameter out of range.

    Notes
    -----
    *Asymptotic*, within the (heuristic) fixed-point equations. *Corrected* against the paper, which states a unique
    solution: it is unique only for Delta >= Delta_c(beta) (``critical_noise``). Below, two stable branches coexist
    between the spinodals, k_c/k jumps at the Maxwell point, and ``alpha_star`` is no longer the Bayes threshold.
    Necessity is exact; sufficiency is established numerically, for activations with one transition.

    References
    ----------
    "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks" (2026),
    Eqs. (44), (45), (46); the form above, Delta_c, spinodals and Maxwell point are derived here.

    Examples
    --------
    >>> import overlaps as ov
    >>> law = ov.static.SubcriticalPowerLaw(beta=0.25, gamma=1.0, noise=0.5**0.5, activation={3: 1.0})
    >>> law.unique, round(law.alpha_star, 6)
    (True, 2.477587)
    """

    beta: float
    gamma: float
    noise: float
    activation: Any
    remove: Any = None
    allow_degree2: bool = False

    def __post_init__(self):
        hint = "Use PowerLawLimit for beta >= 1/2, EqualReadouts for beta = 0."
        beta = check.number("beta", self.beta, above=0, hint=hint)
        if beta >= 0.5:
            raise ValueError(f"beta = {beta:g}; expected 0 < beta < 1/2. {hint}")
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "gamma", check.number("gamma", self.gamma, above=0, hint="gamma is k/d."))
        super().__post_init__()

    def phase(self, lam):
        """The solution whose weakest feature has signal-to-noise ratio lam > 0: lam, alpha, eps, k_c/k."""
        lam = check.number("lam", lam, above=0)
        eps = (1 - 2 * self.beta) * continuum_gap(self.channel, self.beta, lam)
        alpha = self.gamma * lam * (self.Delta + eps) / (1 - 2 * self.beta)
        return Phase(lam, alpha, eps, min(1.0, (lam / self.channel.onset) ** (1 / (2 * self.beta))))

    def potential(self, phase, alpha):
        r"""Twice the free entropy per k d of a ``phase``.

        .. math:: \int_0^1 s(q(x))\,dx - (\alpha/\gamma)\ln(\Delta+\epsilon)
        """
        least = max(phase.lam, self.channel.onset)
        price = average(self.channel, lambda x, snr: self.channel.overlaps(snr)[2], self.beta, least)
        return -phase.width * price - alpha / self.gamma * math.log(self.Delta + phase.eps)

    @cached_property
    def alpha_star(self):
        """Data at which the last feature is learned along the curve alpha(lam), (46): alpha(lambda_sigma)."""
        return self.phase(self.channel.onset).alpha

    @cached_property
    def critical_noise(self):
        r"""Least noise with a unique solution, the root of Delta_c (0 if always unique).

        .. math:: \Delta_c = \frac{1-2\beta}{2\beta} \int_0^1 x^{-2\beta} g(\phi(x))\,dx - g(1)
        """
        learned = self.channel.total - self.phase(self.channel.onset).eps  # (1 - 2 beta) times the integral
        return math.sqrt(max(0.0, learned / (2 * self.beta) - self.channel.total))

    @property
    def unique(self):
        """Whether there is one solution at every alpha."""
        return self.noise >= self.critical_noise

    @cached_property
    def spinodals(self):
        """Where the branch with all features begins and the one with few ends: two Phases, or None where unique."""
        if self.unique:
            return None
        onset, total, Delta = self.channel.onset, self.channel.total, self.Delta
        # below the onset eps = g(1) - a (lam/onset)^c with 1 + c = 1/(2 beta), so that alpha(lam) is greatest where
        # Delta + g(1) = (1 + c) a (lam/onset)^c
        a = total - self.phase(onset).eps
        upper = onset * (2 * self.beta * (Delta + total) / a) ** (2 * self.beta / (1 - 2 * self.beta))

        def alpha(u):
            return self.phase(math.exp(u)).alpha

        grid = math.log(onset) + np.linspace(0, math.log(RANGE), 400)
        i = int(np.argmin([alpha(u) for u in grid]))
        found = minimize_scalar(
            alpha, bounds=(grid[max(i - 1, 0)], grid[min(i + 1, 399)]), method="bounded", options={"xatol": 1e-10}
        )
        return self.phase(math.exp(found.x)), self.phase(upper)

    @cached_property
    def maxwell(self):
        """The Bayes-optimal transition: the two Phases of equal potential, or None where the solution is unique."""
        if self.unique:
            return None
        lower, upper = self.spinodals

        def difference(alpha):
            few, all_ = self._branches(alpha)
            return self.potential(all_, alpha) - self.potential(few, alpha)

        return self._branches(brentq(difference, lower.alpha, upper.alpha, xtol=1e-13))

    def solve(self, alpha):
        """The Bayes-optimal Phase at alpha = n/d^2 > 0."""
        alpha = check.number("alpha", alpha, above=0, hint="alpha is the number of samples over d^2.")
        if self.unique:
            return self._root(alpha, 0.0, math.inf)
        few, many = self.maxwell
        return self._branches(alpha)[0 if alpha < few.alpha else 1]

    def _branches(self, alpha):
        """The solutions with few and with many features; None where the branch does not exist."""
        lower, upper = self.spinodals
        few = self._root(alpha, 0.0, upper.lam) if alpha <= upper.alpha else None
        many = self._root(alpha, lower.lam, math.inf) if alpha >= lower.alpha else None
        return few, many

    def _root(self, alpha, low, high):
        """The phase at alpha on a rising branch low < lam < high."""
        natural = alpha * (1 - 2 * self.beta) / self.gamma  # lam (Delta + eps)
        low = max(low, natural / (self.Delta + self.channel.total) * (1 - 1e-12))
        high = min(high, natural / self.Delta)

        def excess(lam):
            return self.phase(lam).alpha - alpha

        if excess(low) >= 0 or excess(high) <= 0:  # at an end, up to rounding
            return self.phase(min((low, high), key=lambda lam: abs(excess(lam))))
        return self.phase(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))

    def __repr__(self):
        return (
            f"SubcriticalPowerLaw(beta={self.beta:g}, gamma={self.gamma:g}, noise={self.noise:g}, "
            f"activation={self.activation!r})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class EqualReadouts(Limit):
    r"""All readouts equal, v_i^2 = 1/k: one transition for all features. Data are counted as A = nu/k = alpha/gamma.

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

    Notes
    -----
    *Exact* given the (heuristic) fixed-point equations, for every k. *Corrected* against the paper: its Eq. (36) is the
    end of the uninformed branch (``uninformed_until``); the Bayes-optimal transition comes earlier, because a finite
    fraction of the features is learned at once and lowers the error that all of them see.

    References
    ----------
    "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks" (2026),
    Eq. (36); the thresholds are derived here.

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

    def data(self, q):
        r"""Data at which 0 < q < 1 is stationary, :math:`A(q) = \frac{q}{(1-q)\,g'(q)}\,(\Delta + g(1) - g(q))`."""
        q = np.asarray(q, dtype=float)
        if not np.all((q > 0) & (q < 1)):
            raise ValueError(f"q = {check.shown(q)}; expected overlaps 0 < q < 1. q = 0 is a solution at every A.")
        t = q / (1 - q)
        return np.reshape([self._data(x) for x in t.ravel()], q.shape)[()]

    def potential(self, q, A):
        """Twice the free entropy per k d, q + ln(1 - q) - A ln(Delta + g(1) - g(q)), of the shape of 0 <= q < 1."""
        q, A = np.asarray(q, dtype=float), check.number("A", A, least=0)
        if not np.all((q >= 0) & (q < 1)):
            raise ValueError(
                f"q = {check.shown(q)}; expected overlaps 0 <= q < 1. The potential is -infinity at q = 1."
            )
        return q + np.log1p(-q) - A * np.log(self.Delta + self.channel.total - self.channel.g(q))

    @property
    def informed_from(self):
        """Least A at which some q > 0 is stationary, the least of :meth:`data`, at ``informed_overlap``.

        A single feature is metastable there if that overlap is below q_sigma. The solutions of ``HierarchicalTeacher``
        have every feature at its own maximum; their branch then begins at data(q_sigma).
        """
        return self._informed[0]

    @property
    def informed_overlap(self):
        """Overlap at the beginning of the informed branch."""
        return self._informed[1] / (1 + self._informed[1])

    @cached_property
    def uninformed_until(self):
        """Largest A of the branch with q = 0 as the best of every single feature, lambda_sigma (Delta + g(1)): (36)."""
        return self.channel.onset * (self.Delta + self.channel.total)

    @property
    def threshold(self):
        """A of the Bayes-optimal transition, min_q -s(q) / ln[(Delta + g(1)) / (Delta + g(1) - g(q))]."""
        return self._transition[0]

    @property
    def overlap(self):
        """Overlap of all features just above the transition."""
        return self._transition[1] / (1 + self._transition[1])

    @cached_property
    def _informed(self):
        return self._least(self._data)

    @cached_property
    def _transition(self):
        full = self.Delta + self.channel.total
        return self._least(lambda t: entropy(t) / -math.log1p(-self._at(t)[0] / full))

    def _at(self, t):
        return correlation(self.channel.g.kind, self.channel.g.rows, t)

    def _data(self, t):
        _, dg, _, gap = self._at(t)
        return t / dg * (self.Delta + gap)

    @staticmethod
    def _least(function):
        """(least value, t) of a function over overlaps t / (1 + t)."""
        grid = np.linspace(math.log(1e-4), math.log(1e9), 600)
        i = int(np.argmin([function(math.exp(u)) for u in grid]))
        bounds = grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)]
        found = minimize_scalar(
            lambda u: function(math.exp(u)), bounds=bounds, method="bounded", options={"xatol": 1e-9}
        )
        return float(found.fun), math.exp(found.x)

    def __repr__(self):
        return f"EqualReadouts(noise={self.noise:g}, activation={self.activation!r})"
