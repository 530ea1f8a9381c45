r"""Which zero-error solution SGD selects from random weights: a law, at every N and also for N -> infinity.

Notation of :mod:`~overlaps.theory.quadratic.phases`: h = eta/(2K), c0 = 1 + 2/M, c2 = (K + 4)/(K + 2), q = u K/(K + 2).
While R is small, its fluctuations :math:`\sqrt N R` obey a linear equation with noise,

.. math:: \frac{d}{d\alpha}\sqrt N R = \omega(u)\sqrt N R + \xi, \qquad \omega(u) = 4h(c_0 - u), \qquad
   D(u) = \frac{4\eta^2q}{K^2b}\Big[(u - c_0)^2 + \frac{2u^2}{K+2} + \frac{2(M+2)}{M^2} + \sigma^2\Big],

and random weights start it at the size of the noise.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import gammaln, hyp2f1, ndtri

from ..._base import check
from ..._base.record import Record
from ..._base.types import Rng
from .bias import polar
from .phases import QuadraticNetwork, realisable

__all__ = ["Selection", "selected"]

DRAWS, PARTS = 2**15, 8  # points for the mean distance, known to 0.2 %, and parts of them held at once


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Record):
    """Law of the solution that SGD selects; made by :func:`selected`, with the equations there.

    Attributes
    ----------
    K, M, q0 : int, int, float
        Widths, and the norm of the students at the start.
    rate : float
        Growth rate of R on the plateau, per unit alpha.
    amplitude : float
        Factor a in R = a R(0) exp(rate alpha) without noise.
    kappa : float
        Variance that the noise of all samples adds to a sqrt(N) R(0).
    """

    K: int
    M: int
    q0: float
    rate: float
    amplitude: float
    kappa: float

    @property
    def correlation(self):
        """Correlation between the overlaps that grow and the start's, (1 + kappa/(a^2 q0))^(-1/2)."""
        return float((1 + self.kappa / (self.amplitude**2 * self.q0)) ** -0.5)

    @cached_property
    def _distances(self):
        """|S_end - S_0| at the points of a Sobol sequence."""
        from scipy.stats import qmc

        points, distances = qmc.Sobol(2 * self.K * self.M, seed=0), []
        for _ in range(PARTS):
            inside = np.clip(points.random(DRAWS // PARTS), 1e-12, 1 - 1e-12)  # a coordinate may be 0
            normal = ndtri(inside).reshape(-1, 2, self.K, self.M)
            last, first = (_frames(x) for x in self._overlaps(normal[:, 0], normal[:, 1]))
            distances.append(np.linalg.norm(last - first, axis=(1, 2)))
        return np.concatenate(distances)

    def _overlaps(self, first, second):
        """Overlaps that have grown, and overlaps of the start, from independent normal matrices."""
        rho = self.correlation
        return rho * first + np.sqrt(1 - rho**2) * second, first

    @property
    def distance(self):
        """Mean of ``|S_end - S_0|``, by 2^15 fixed quasi-random draws (to 0.2 %)."""
        # test: tests/theory/quadratic/test_selection.py::test_points_give_the_closed_rms_of_one_teacher
        return float(self._distances.mean())

    @property
    def distance_std(self):
        """Standard deviation of ``|S_end - S_0|`` over runs, by the same draws."""
        return float(self._distances.std())

    @property
    def distance_rms(self):
        """Root of the mean of ``|S_end - S_0|^2``: in closed form for M = 1, by the same draws otherwise."""
        if self.M > 1:
            return float(np.sqrt(np.mean(self._distances**2)))
        K, rho = self.K, self.correlation
        ratio = np.exp(2 * gammaln((K + 1) / 2) - gammaln(K / 2) - gammaln(K / 2 + 1))
        return float(np.sqrt(2 - 2 * rho * ratio * hyp2f1(0.5, 0.5, K / 2 + 1, rho**2)))

    def sample(self, n: int, rng: Rng):
        """Pairs (S_end, S_0), each (n, K, M): polar factors of Gaussian matrices of this correlation.

        Parameters
        ----------
        n : int
            Number of pairs.
        rng : int or numpy.random.Generator
            Seed or generator.
        """
        first, second = check.generator(rng).standard_normal((2, check.count("n", n), self.K, self.M))
        last, first = self._overlaps(first, second)
        return polar(last), polar(first)

    def __repr__(self):
        return (
            f"Selection(K={self.K}, M={self.M}, rate={self.rate:.6g}, amplitude={self.amplitude:.6g}, "
            f"kappa={self.kappa:.6g}, correlation={self.correlation:.6g})"
        )


def _frames(R):
    """Polar factors of many R (n, K, M) of full rank, from the small side, which costs less than :func:`polar`."""
    values, vectors = np.linalg.eigh(np.swapaxes(R, 1, 2) @ R)
    return R @ (vectors / np.sqrt(values)[:, None]) @ np.swapaxes(vectors, 1, 2)


def selected(K: int, M: int, *, eta: float, q0: float = 1.0, noise: float = 0.0, batch_size: int = 1) -> "Selection":
    r"""Law of the zero-error solution that SGD from random weights selects, for quadratic networks.

    .. math:: \Psi(\alpha) = \exp\int_0^\alpha\omega, \quad a = \lim \Psi e^{-\omega_p\alpha}, \quad
       \kappa = a^2\int_0^\infty D\,\Psi^{-2}\,d\alpha, \qquad
       S_{\rm end} = {\rm polar}\big(a\sqrt N R(0) + \zeta\big), \quad \zeta_{km} \sim N(0, \kappa)

    The equations of N -> infinity keep S = polar(R) and end in the solution closest to the start. Random weights have
    sqrt(N) R(0) of entries N(0, q0), as large as the noise zeta that they meet: whatever N, start and end are the polar
    factors of two Gaussian matrices with the correlation rho = (1 + kappa/(a^2 q0))^(-1/2).

    Asymptotic: N -> infinity, the law does not depend on N; means over runs differ by O(1/N). SGD leaves
    the plateau earlier than the equations from the same start, by ln(1 + kappa/(a^2 q0))/(2 rate) on average. For
    eta -> 0 the distance vanishes as sqrt(eta) only, for large batches as 1/sqrt(b). Starts whose overlaps stay fixed
    as N -> infinity end closest to their start. Derived here: Bocchi et al., state the
    conservation of polar(R) for SGD.

    Parameters
    ----------
    K, M, eta, noise
        As in :func:`plateau`; K >= M, orthonormal teachers, v = 1/K, v* = 1/M.
    q0 : float
        Norm of the students at the start, Q(0) = q0 identity.
    batch_size : int
        Samples in one step.

    Raises
    ------
    ValueError
        K < M; no plateau at this eta; a start beyond the unstable norm.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> law = quadratic.selected(4, 2, eta=0.6)
    >>> round(law.rate, 10), round(law.amplitude, 8), round(law.kappa, 8)
    (0.2296693311, 0.8826135, 0.47960574)
    """
    K, M = realisable(K, M)
    net, q0 = QuadraticNetwork.checked(K, M, eta, noise), check.number("q0", q0, above=0)
    (_, _, eta, noise, _, h, c0, c2, _), b = net, check.count("batch_size", batch_size)

    def growth(u):
        """Velocity of ln u."""
        return 8 * h * (1 - u) + net.second / b * net.spread(u)

    def omega(u):
        return 4 * h * (c0 - u)

    def noise_of_steps(u):
        spread = (u - c0) ** 2 + 2 * u**2 / (K + 2) + 2 * (M + 2) / M**2 + noise**2
        return 4 * eta**2 * u * K / (K + 2) / (K**2 * b) * spread

    turning = (1 + 4 * h / b) / (4 * h * c2 / b)  # where growth is least, between stable and unstable root
    if growth(turning) >= 0:
        raise ValueError(
            f"no plateau at eta = {eta:g}, batch_size = {b}: the students' norm diverges. Expected a smaller eta."
        )
    stable, start = brentq(growth, 0.0, turning, xtol=1e-15, rtol=1e-14), q0 * (K + 2) / K
    if start > turning and growth(start) >= 0:
        raise ValueError(f"q0 = {q0:g} is beyond the unstable norm; expected a smaller q0, or a smaller eta.")
    rate = omega(stable)
    if rate <= 0:
        raise ValueError(f"R does not grow at eta = {eta:g}, noise = {noise:g}; expected smaller ones.")

    def velocity(alpha, y):
        """Velocity of ln u, ln Psi - rate alpha, kappa/a^2: its last part is added in closed form."""
        u = np.exp(y[0])
        gain = y[1] + rate * alpha
        return [growth(u), omega(u) - rate, noise_of_steps(u) * np.exp(-2 * gain)]

    slowest = -stable * (-8 * h + 16 * h**2 / b * (2 * c2 * stable - 2))
    end = 40 / min(slowest, rate)
    run = solve_ivp(velocity, (0.0, end), [np.log(start), 0.0, 0.0], method="DOP853", rtol=1e-12, atol=1e-14)
    _, gain, integral = run.y[:, -1]
    amplitude = np.exp(gain)
    integral += noise_of_steps(stable) * np.exp(-2 * (gain + rate * end)) / (2 * rate)
    return Selection(K, M, q0, float(rate), float(amplitude), float(amplitude**2 * integral))
