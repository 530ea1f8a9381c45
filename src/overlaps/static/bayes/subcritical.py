"""Power-law readouts with beta < 1/2: extensively many features learned at once."""

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._base import check, minimum
from .power_law import Limit, continuum_gap, rank_integral

__all__ = ["SubcriticalPhase", "SubcriticalPowerLaw"]


class SubcriticalOptions(NamedTuple):
    """Tunable numbers of the search for spinodals."""

    # Factor in lam above the last transition up to which the lower spinodal is searched.
    max_lam_factor: float = 1e16
    # Relative error of integrals over the features; smaller differences are rounding.
    rounding: float = 1e-13


SUBCRITICAL = SubcriticalOptions()


class SubcriticalPhase(NamedTuple):
    """A solution: lam of the weakest feature, data alpha = n/d^2, error eps, learned fraction width = k_c/k."""

    lam: float
    alpha: float
    eps: float
    width: float


class SubcriticalPowerLaw(Limit):
    r"""Power-law readouts with beta < 1/2 in the limit k = gamma d, d -> infinity.

    Parametrised by lam = lambda of the weakest feature, with x = i/k:

    .. math::
        \epsilon(\lambda) &= (1-2\beta) \int_0^1 x^{-2\beta}\,[g(1) - g(m(\lambda x^{-2\beta}))]\,dx, \\
        \alpha(\lambda) &= \frac{\gamma \lambda\,(\Delta + \epsilon(\lambda))}{1-2\beta}, \qquad
        \frac{k_c}{k} = \min\!\left(1, (\lambda/\lambda_\sigma)^{1/(2\beta)}\right)

    *Asymptotic*, within the (heuristic) fixed-point equations. *Corrected* against the paper, which states a unique
    solution: it is unique only for Delta >= Delta_c(beta) (``critical_noise``). Below, stable branches coexist between
    spinodals, the error jumps at Maxwell points, and ``alpha_star`` is no longer the Bayes threshold.
    Both directions are exact: alpha(lam) rises where Delta exceeds the bracket of ``critical_noise``, and only there.

    Source: "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks"
    (2026), Eqs. (44), (45), (46); the form above, Delta_c, spinodals and Maxwell point are derived here.

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
        self._set(beta=beta, gamma=check.number("gamma", self.gamma, above=0, hint="gamma is k/d."))
        super().__post_init__()

    def phase(self, lam: float) -> "SubcriticalPhase":
        """The solution whose weakest feature has signal-to-noise ratio lam > 0: lam, alpha, eps, k_c/k."""
        lam = check.number("lam", lam, above=0, below=np.inf)
        eps = (1 - 2 * self.beta) * continuum_gap(self.channel, self.beta, lam)
        alpha = self.gamma * lam * (self.Delta + eps) / (1 - 2 * self.beta)
        return SubcriticalPhase(lam, alpha, eps, min(1.0, lam / self.channel.onset) ** (1 / (2 * self.beta)))

    def potential(self, phase: "SubcriticalPhase", alpha: float) -> float:
        r"""Twice the free entropy per k d of a ``phase``.

        .. math:: \int_0^1 s(q(x))\,dx - (\alpha/\gamma)\ln(\Delta+\epsilon)
        """
        least = max(phase.lam, self.channel.onset)
        price = rank_integral(self.channel, lambda x, snr: self.channel.overlaps(snr)[2], self.beta, least)
        return -phase.width * price - alpha / self.gamma * math.log(self.Delta + phase.eps)

    @cached_property
    def alpha_star(self):
        """Data at which the last feature is learned along the curve alpha(lam), (46): alpha(lambda_sigma)."""
        return self.phase(self.channel.onset).alpha

    @cached_property
    def critical_noise(self):
        r"""Least noise with a unique solution, the root of Delta_c (0 if always unique).

        .. math:: \Delta_c = \sup_\lambda \frac{(1-2\beta)\,[g(1) - g(m(\lambda^-))] - \epsilon(\lambda)}{2\beta}
        """
        return math.sqrt(max(0.0, self._curve[1].max()))

    def _fall(self, lam):
        """The noise Delta below which alpha(lam) falls at this lam."""
        # lam eps' = (1 - 2 beta) (eps - gap) / (2 beta), by parts
        gap = self.channel.overlaps(lam)[1]
        return ((1 - 2 * self.beta) * gap - self.phase(lam).eps) / (2 * self.beta)

    @cached_property
    def _curve(self):
        """(lam, ``_fall`` there), ascending: a grid, both sides of every transition, and the local maxima."""
        onset, jumps = self.channel.onset, [jump.lam for jump in self.channel.jumps]
        last, factor = max([onset, *jumps]), (1 - 2 * self.beta) / (2 * self.beta)
        # alpha rises below onset / e for every beta, and above ``end`` because Delta exceeds a bound of _fall
        end = 10 * last
        while factor * self.channel.overlaps(end)[1] > self.Delta and end < SUBCRITICAL.max_lam_factor * last:
            end *= 10
        far = np.geomspace(10 * last, end, round(8 * math.log10(end / last)))
        sides = [*np.nextafter(jumps, 0), *jumps]
        lam = np.unique(np.concatenate([np.geomspace(0.3 * onset, 10 * last, 300), far, [onset], sides]))
        fall = np.array([self._fall(x) for x in lam])
        peaks = [
            minimum(lambda x: -self._fall(x), lam[i - 1 : i + 2], -fall[i - 1 : i + 2], xatol=1e-5)[0]
            for i in range(1, lam.size - 1)
            if fall[i - 1] < fall[i] > max(fall[i + 1], SUBCRITICAL.rounding / (self.beta * lam[i]))
            and not np.isin(lam[i - 1 : i + 2], sides).any()
        ]
        order = np.argsort(lam := np.concatenate([lam, peaks]))
        return lam[order], np.concatenate([fall, [self._fall(x) for x in peaks]])[order]

    @property
    def unique(self) -> bool:
        """Whether there is one solution at every alpha."""
        return len(self._rising) == 1

    @cached_property
    def _rising(self):
        """Intervals (from, to) of lam on which alpha(lam) rises: the stable branches, with few features first."""
        lam, fall = self._curve
        # eps and the gap, both 1/lam at large lam, cancel: their difference has an error of rounding / lam
        rising = fall - self.Delta <= SUBCRITICAL.rounding / (self.beta * lam)
        edges = []
        for i in np.flatnonzero(rising[:-1] != rising[1:]):
            a, b = lam[i], lam[i + 1]
            between = b > np.nextafter(a, b) and (fall[i] - self.Delta) * (fall[i + 1] - self.Delta) < 0
            edges.append(
                brentq(lambda x: self._fall(x) - self.Delta, a, b, xtol=1e-14, rtol=1e-14) if between else float(b)
            )
        return tuple(zip([0.0, *edges[1::2]], [*edges[::2], math.inf], strict=True))

    @property
    def spinodals(self) -> "tuple[SubcriticalPhase, SubcriticalPhase] | None":
        """Where the second branch of :attr:`maxwell` begins and the first ends: two phases, or None where unique."""
        if self.unique:
            return None
        few, many = (next(x for x in self._rising if x[0] <= phase.lam <= x[1]) for phase in self.maxwell)
        return self.phase(many[0]), self.phase(few[1])

    @cached_property
    def transitions(self):
        """All Bayes-optimal transitions: pairs of phases of equal potential, in the order of alpha; () where unique."""
        exchanges, branch = [], 0
        while branch < len(self._rising) - 1:
            candidates = [(self._exchange(branch, j), j) for j in range(branch + 1, len(self._rising))]
            # default: the two branches overlap by less than rounding
            default = self.phase(self._rising[branch + 1][0]).alpha, branch + 1
            alpha, following = min((x for x in candidates if x[0] is not None), key=lambda x: x[0], default=default)
            exchanges.append((self._root(alpha, *self._rising[branch]), self._root(alpha, *self._rising[following])))
            branch = following
        return tuple(exchanges)

    @property
    def maxwell(self) -> Any:
        """The Bayes-optimal transition with the largest jump of eps; None if the solution is unique."""
        return max(self.transitions, key=lambda pair: pair[0].eps - pair[1].eps, default=None)

    def _exchange(self, i, j):
        """Data at which branch j takes over from branch i; None if it does not."""
        first, second = self._rising[i], self._rising[j]
        low, high = self.phase(second[0]).alpha, self.phase(first[1]).alpha
        if j < len(self._rising) - 1:
            high = min(high, self.phase(second[1]).alpha)

        def difference(alpha):
            few, many = self._root(alpha, *first), self._root(alpha, *second)
            return self.potential(many, alpha) - self.potential(few, alpha)

        if not low < high or difference(low) >= 0 or difference(high) <= 0:
            return None
        return brentq(difference, low, high, xtol=1e-14)

    def solve(self, alpha: float) -> "SubcriticalPhase":
        """The Bayes-optimal phase at alpha = n/d^2 > 0: the solution of largest potential on all branches."""
        return max(self.solutions(alpha), key=lambda phase: self.potential(phase, alpha))

    def solutions(self, alpha: float) -> "tuple[SubcriticalPhase, ...]":
        """All stable phases at alpha = n/d^2 > 0, largest error first."""
        alpha = check.number("alpha", alpha, above=0, hint="alpha is the number of samples over d^2.")
        phases = []
        for low, high in self._rising:
            begins = low == 0 or self.phase(low).alpha <= alpha * (1 + SUBCRITICAL.rounding)
            if begins and (math.isinf(high) or alpha * (1 - SUBCRITICAL.rounding) <= self.phase(high).alpha):
                phases.append(self._root(alpha, low, high))
        return tuple(phases)

    def _root(self, alpha, low, high):
        """The phase at alpha on a rising branch low < lam < high."""
        product = alpha * (1 - 2 * self.beta) / self.gamma  # lam (Delta + eps)
        low = max(low, product / (self.Delta + self.channel.total) * (1 - 1e-12))
        high = min(high, product / self.Delta)

        def excess(u):
            return self.phase(math.exp(u)).alpha / alpha - 1

        low, high = math.log(low), math.log(high)
        if excess(low) >= 0 or excess(high) <= 0:  # at an end, up to rounding
            return self.phase(math.exp(min((low, high), key=lambda u: abs(excess(u)))))
        # worst case of brentq, 50^2 steps: at the critical noise alpha(lam) is constant to rounding
        return self.phase(math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=2500)))
