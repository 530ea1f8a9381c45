"""Power-law readouts ``|v_i| ~ i^(-beta)``: the continuum of features and the scaling laws of beta > 1/2."""

import math
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import zeta

from ..._base import ArrayLike, Numbers, check
from ...gaussian.quadrature import legendre
from .teacher import Teacher, power_law_readouts

__all__ = ["Limit", "PowerLawLimit", "ScalingLaw", "continuum_gap", "rank_integral"]


def rank_integral(channel, function, beta, lam):
    r"""The integral :math:`\int_0^1 f(x, \lambda x^{-2\beta}) dx`, by Gauss panels in z = -ln x.

    ``function(x, lam)`` is vectorised; lam >= the onset.
    """
    max_z = 45.0  # the rest of the ranks, e^-45 of them, is rounding
    end = min(max_z, 600 / (2 * beta))
    jumps = [math.log(jump.lam / lam) / (2 * beta) for jump in channel.jumps if jump.lam > lam]
    edges = np.union1d(np.linspace(0, end, math.ceil(2 * end * max(1, 2 * beta))), [z for z in jumps if z < end])
    width, (nodes, weights) = np.diff(edges)[:, None], legendre(16)
    z = edges[:-1, None] + width * nodes
    return float(np.sum(width * weights * np.exp(-z) * function(np.exp(-z), lam * np.exp(2 * beta * z))))


def continuum_gap(channel, beta, lam):
    r""":math:`E(\lambda) = \int_0^1 x^{-2\beta}\,[g(1) - g(m(\lambda x^{-2\beta}))]\,dx`, weakest feature lam.

    Features beyond x_c are not learned; their integral is analytic, so that beta >= 1/2 needs no cutoff in x.
    """
    least = max(lam, channel.onset)
    edge = min(1.0, lam / channel.onset) ** (1 / (2 * beta))
    learned = rank_integral(channel, lambda x, snr: x ** (-2 * beta) * channel.overlaps(snr)[1], beta, least)
    power = 1 - 2 * beta
    left = -math.log(edge) if power == 0 else -math.expm1(power * math.log(edge)) / power
    return edge**power * learned + channel.total * left


class Limit(Teacher):
    """Base of noisy teachers in the limit of many features."""

    @property
    def channel(self) -> Any:
        """The scalar problem of one feature."""
        return self.feature

    def __post_init__(self: Any) -> None:
        hint = "The laws of the noiseless teacher are another regime; HierarchicalTeacher solves noise=0."
        self._set(noise=check.number("noise", self.noise, above=0, hint=hint))
        self.channel.onset  # noqa: B018 - computed here so that a bad activation is refused here

    def __repr__(self: Any) -> str:
        numbers = "".join(f"{f.name}={getattr(self, f.name):g}, " for f in fields(self)[:-3])
        return f"{type(self).__name__}({numbers}activation={self.activation!r})"


class ScalingLaw(NamedTuple):
    """Error and effective width (not rounded; a value beyond k means that all features are learned)."""

    eps: float
    k_c: float


class PowerLawLimit(Limit):
    r"""Laws of large k and d for power-law readouts :math:`v_i^2 = i^{-2\beta}/z_k`.

    *Asymptotic*, within the (heuristic) fixed-point equations of ``HierarchicalTeacher``; lambda_sigma stands for the
    onset where the overlap grows continuously.

    Source: "Sharp feature-learning transitions and Bayes-optimal neural scaling laws in extensive-width networks"
    (2026), Eqs. (39), (41), (42); the refined form and the collapse constants are derived here.

    Parameters
    ----------
    beta : float
        Exponent > 0; the leading law needs beta > 1/2.
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
    >>> law = ov.static.PowerLawLimit(beta=1.0, noise=0.5**0.5, activation={3: 1.0})
    >>> law.leading(1.0)
    ScalingLaw(eps=1.12571..., k_c=0.91388...)
    """

    beta: float
    noise: float
    activation: Any
    remove: Any = None
    allow_degree2: bool = False

    def __post_init__(self):
        hint = "beta is the exponent of |v_i| ~ i^(-beta)."
        self._set(beta=check.number("beta", self.beta, above=0, hint=hint))
        super().__post_init__()

    def profile(self, x: ArrayLike) -> Numbers:
        r"""Overlaps behind the front, :math:`q_{x k_c} \to \phi(x) = m(\lambda_\sigma x^{-2\beta})` (39), for x > 0.

        *Asymptotic*: k_c -> infinity.
        """
        x = check.times("x", x)
        if not np.all(x > 0):
            raise check.refused("x", x, "ranks x = i / k_c > 0. Start the grid above zero.")
        return self.channel(self.channel.onset * x ** (-2 * self.beta))

    @cached_property
    def integral(self):
        r"""Error of the learned features, :math:`I(\beta) = \int_0^1 x^{-2\beta}\,(g(1) - g(\phi(x)))\,dx`."""
        return continuum_gap(self.channel, self.beta, self.channel.onset)

    @property
    def exponents(self) -> tuple[float, float]:
        r"""Slopes of ln eps against ln n: :math:`1/(2\beta) - 1` while features are learned, -1 in the refinement."""
        return 1 / (2 * self._above_half()) - 1, -1.0

    @property
    def collapse(self) -> tuple[float, float]:
        r"""Plateaus of eps nu / k_c: learning, refinement.

        .. math:: C = \Delta \lambda_\sigma [I + g(1)/(2\beta - 1)] \quad\text{and}\quad C = \Delta

        *Corrected*: eps = Theta(k_c d/n) is not an equality; its two regimes have different constants.
        """
        return self.Delta * self.channel.onset * self._mass(), self.Delta

    def leading(self, nu: ArrayLike) -> Any:
        r"""Error and effective width for d -> infinity in the learning phase, k_c << k.

        .. math::
            k_c = \left(\frac{\nu}{\lambda_\sigma \zeta(2\beta) \Delta}\right)^{1/(2\beta)}, \qquad
            \epsilon = \frac{k_c^{1-2\beta}}{\zeta(2\beta)} \left[I + \frac{g(1)}{2\beta - 1}\right]

        *Asymptotic* (41), (42); corrections are of relative order d^(1/(2 beta) - 1) and 1/k_c: slow near beta = 1/2.
        """
        nu = check.number("nu", nu, above=0)
        total = zeta(2 * self._above_half())
        k_c = (nu / (self.channel.onset * total * self.Delta)) ** (1 / (2 * self.beta))
        return ScalingLaw(float(k_c ** (1 - 2 * self.beta) / total * self._mass()), float(k_c))

    def refined(self, nu: ArrayLike, *, k: int) -> Any:
        r"""The same at finite k and without neglecting eps against Delta, in both phases and for every beta.

        .. math::
            k_c^{2\beta} = \frac{\nu}{\lambda_\sigma z_k (\Delta + \epsilon)}, \qquad
            z_k\, \epsilon = k_c^{1-2\beta} I + g(1) \frac{k_c^{1-2\beta} - k^{1-2\beta}}{2\beta - 1}

        Beyond k_c = k the second equation becomes :math:`k^{1-2\beta} E(\lambda_k)/z_k`, lambda_k of the weakest
        feature, and eps -> Delta k/(nu - k). *Asymptotic*, derived here: features become a continuum, the error is of
        order 1/k_c.
        """
        nu, k = check.number("nu", nu, above=0), check.count("k", k)
        weakest = float(power_law_readouts(self.beta, k)[-1])  # k^(-2 beta) / z_k

        def eps(lam):
            return k * weakest * continuum_gap(self.channel, self.beta, lam)

        def excess(u):
            lam = math.exp(u)
            return math.log(lam * (self.Delta + eps(lam)) / (nu * weakest))

        low = high = math.log(nu * weakest / self.Delta)  # there eps >= 0 makes the excess >= 0
        while excess(low) > 0:
            low -= 1.0
        lam = math.exp(brentq(excess, low, high, xtol=1e-13)) if low < high else math.exp(low)
        return ScalingLaw(eps(lam), k * (lam / self.channel.onset) ** (1 / (2 * self.beta)))

    def _above_half(self):
        if self.beta <= 0.5:
            raise ValueError(
                f"beta = {self.beta:g}; expected beta > 1/2, below which k_c grows with k. Use refined(nu, k=...) or "
                "SubcriticalPowerLaw." + check.see("bayes", "Scaling laws")
            )
        return self.beta

    def _mass(self):
        return self.integral + self.channel.total / (2 * self._above_half() - 1)
