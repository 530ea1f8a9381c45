r"""The zero-error solution that SGD from random weights selects, and the learning rate that halves the error first.

The selection is a law, at every N and also for N -> infinity.

Notation of :mod:`~overlaps.theory.quadratic.phases`: h = eta/(2K), c0 = 1 + 2/M, c2 = (K + 4)/(K + 2), q = u K/(K + 2).
While R is small, its fluctuations :math:`\sqrt N R` obey a linear equation with noise,

.. math:: \frac{d}{d\alpha}\sqrt N R = \omega(u)\sqrt N R + \xi, \qquad \omega(u) = 4h(c_0 - u), \qquad
   D(u) = \frac{4\eta^2q}{K^2b}\Big[(u - c_0)^2 + \frac{2u^2}{K+2} + \frac{2(M+2)}{M^2} + \sigma^2\Big],

and for random weights its start is of the size of the noise.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, hyp2f1, ndtri

from ..._base import Immutable, Rng, check, quietly
from ...dynamics import solve
from ...models import Model, State, quadratic_network
from ...models.state import of_state
from .bias import polar
from .phases import QuadraticNetwork, eta_escape, eta_solution, realisable

__all__ = ["Selection", "eta_fastest", "eta_from_paper", "half_loss_time", "selected"]


class SelectionOptions(NamedTuple):
    """Tunable numbers of the law and of the half-loss time."""

    n_draws: int = 2**15  # Points for the mean distance, whose error is 0.2 %; more: a smaller error.
    n_chunks: int = 8  # Chunks of the points, one in memory at a time.
    first_horizon: float = 100.0  # The first integration is this long, each further one ten times longer.


SELECTION = SelectionOptions()


class Selection(Immutable):
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
    shows = (
        "K={0.K}, M={0.M}, rate={0.rate:.6g}, amplitude={0.amplitude:.6g}, kappa={0.kappa:.6g}, "
        "correlation={0.correlation:.6g}"
    )

    @property
    def correlation(self):
        """Correlation between the overlaps that grow and the start's, (1 + kappa/(a^2 q0))^(-1/2)."""
        return float((1 + self.kappa / (self.amplitude**2 * self.q0)) ** -0.5)

    @cached_property
    def _distances(self):
        """``|S_end - S_0|`` at the points of a Sobol sequence."""
        from scipy.stats import qmc

        points, distances = qmc.Sobol(2 * self.K * self.M, seed=0), []
        for _ in range(SELECTION.n_chunks):
            uniform = points.random(SELECTION.n_draws // SELECTION.n_chunks)
            normal = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12)).reshape(-1, 2, self.K, self.M)
            last, first = (polar(x) for x in self._overlaps(normal[:, 0], normal[:, 1]))
            distances.append(np.linalg.norm(last - first, axis=(1, 2)))
        return np.concatenate(distances)

    def _overlaps(self, first, second):
        """Overlaps that have grown, and overlaps of the start, from independent normal matrices."""
        rho = self.correlation
        return rho * first + np.sqrt(1 - rho**2) * second, first

    @property
    def distance(self):
        """Mean of ``|S_end - S_0|``, by 2^15 fixed quasi-random draws (to 0.2 %)."""
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


def selected(K: int, M: int, *, eta: float, q0: float = 1.0, noise: float = 0.0, batch_size: int = 1) -> "Selection":
    r"""Law of the zero-error solution that SGD from random weights selects, for quadratic networks.

    .. math:: \Psi(\alpha) = \exp\int_0^\alpha\omega, \quad a = \lim \Psi e^{-\omega_p\alpha}, \quad
       \kappa = a^2\int_0^\infty D\,\Psi^{-2}\,d\alpha, \qquad
       S_{\rm end} = {\rm polar}\big(a\sqrt N R(0) + \zeta\big), \quad \zeta_{km} \sim N(0, \kappa)

    The equations of N -> infinity conserve S = polar(R) and end in the solution closest to the start. For random
    weights the entries of sqrt(N) R(0) are N(0, q0), as large as the noise zeta: at any N, start and end are the polar
    factors of two Gaussian matrices with the correlation rho = (1 + kappa/(a^2 q0))^(-1/2).

    Asymptotic: N -> infinity, the law does not depend on N; means over runs differ by O(1/N). SGD leaves
    the plateau earlier than the equations from the same start, by ln(1 + kappa/(a^2 q0))/(2 rate) on average. For
    eta -> 0 the distance vanishes as sqrt(eta) only, for large batches as 1/sqrt(b). Starts whose overlaps stay fixed
    as N -> infinity end closest to their start. Derived here: Bocchi et al. state the conservation of polar(R) for SGD.

    Parameters
    ----------
    K, M, eta, noise
        As in :func:`plateau`; K >= M, orthonormal teachers, v = 1/K, v* = 1/M.
    q0 : float
        Norm of the students at the start, Q(0) = q0 identity, below the unstable one (:func:`escape_amplitude`).
    batch_size : int
        Samples in one step.

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
    stable, _, start = net.norms_from(q0, b)

    def growth(u):
        """Velocity of ln u."""
        return 8 * h * (1 - u) + net.second / b * net.spread(u)

    def omega(u):
        return 4 * h * (c0 - u)

    def noise_of_steps(u):
        spread = (u - c0) ** 2 + 2 * u**2 / (K + 2) + 2 * (M + 2) / M**2 + noise**2
        return 4 * eta**2 * u * K / (K + 2) / (K**2 * b) * spread

    rate = omega(stable)
    if rate <= 0:
        raise ValueError(f"R does not grow at eta = {eta:g}, noise = {noise:g}; expected smaller ones.")

    def velocity(alpha, y):
        """Velocity of ln u, ln Psi - rate alpha, kappa/a^2; the integral beyond ``end`` is added in closed form."""
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


@of_state
def half_loss_time(model: Model, start: State, *, alpha_max: float = 1e5) -> float:
    """Time at which eps_g has fallen to half of its initial value, by integrating the equations.

    Exact for N -> infinity, to the accuracy of :func:`overlaps.solve`. The time is inf if eps_g does not halve before
    ``alpha_max``, or if the integration diverges.

    Parameters
    ----------
    model, start : Model, State
        The learning problem and its start; any model.
    alpha_max : float
        Largest time of the integration.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.quadratic_network(1, 1, eta=0.1)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.1]], T=[[1.0]])
    >>> round(ov.theory.quadratic.half_loss_time(model, start), 3)
    7.184
    """
    alpha_max = check.number("alpha_max", alpha_max, above=0)
    first = solve(model, start, [0.0]).eps_g[0]
    with quietly():  # a divergence means that the time is inf
        horizon = SELECTION.first_horizon
        while True:  # growing horizons, because a large alpha_max would make an easy problem stiff
            end = solve(model, start, (start.alpha, min(horizon, alpha_max)), stop=first / 2)
            halved = end.success and end.eps_g[-1] <= first / 2 * (1 + 1e-6)
            if halved or not end.success or horizon >= alpha_max:
                return float(end.alpha[-1]) if halved else np.inf
            start, horizon = end.at(end.alpha[-1]), 10 * horizon


def eta_fastest(
    K: int, M: int, *, eps: float, rng: Rng, starts: int = 20, q0: float = 1.0, noise: float = 0.0, rtol: float = 1e-3
) -> tuple[float, float]:
    r"""Learning rate that minimises the half-loss time, averaged over starts R(0) ~ N(0, eps^2), Q(0) = q0 I.

    .. math:: \eta_{\rm fastest} = \arg\min_{\eta < \eta_{\rm solution}} \langle\alpha_{1/2}\rangle

    Numerical: exact integration, minimised over eta between a quarter of the lesser of :func:`eta_escape` and
    :func:`eta_solution`, and the latter. Half of the loss is not the end: near :func:`eta_solution`, where wide
    students have their minimum, the other half takes very long (:func:`eta_optimal`). Returns the learning rate (half
    of it is that of Bocchi et al.) and the mean half-loss time there.

    Parameters
    ----------
    K, M, q0, noise
        As in :func:`selected`.
    eps : float
        Standard deviation of the initial overlaps; ``ValueError`` if no vectors of norm q0 have them, or if no learning
        rate halves the loss.
    rng : int or numpy.random.Generator
        Seed or generator of the starts, which are the same for all learning rates.
    starts : int
        Number of starts.
    rtol : float
        Accuracy of the minimum, relative to the lesser of :func:`eta_escape` and :func:`eta_solution`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> eta, alpha = quadratic.eta_fastest(1, 1, eps=0.01, rng=1, starts=2)
    >>> 0.8 < eta / quadratic.eta_escape(1, 1) < 1
    True
    """
    limit = eta_solution(K, M)
    guess = min(eta_escape(K, M, noise=noise), limit)
    eps, q0 = check.number("eps", eps, above=0), check.number("q0", q0, above=0)
    rtol = check.number("rtol", rtol, above=0)
    R = eps * check.generator(rng).standard_normal((check.count("starts", starts), K, M))

    def mean_time(eta):
        model = quadratic_network(K, M, eta=float(eta), noise=noise)
        states = [State.from_overlaps(model, Q=q0 * np.eye(K), R=r, T=np.eye(M)) for r in R]
        time = np.mean([half_loss_time(model, state) for state in states])
        return time if np.isfinite(time) else 1e300  # finite, for the minimiser

    best = minimize_scalar(mean_time, bounds=(guess / 4, limit), options={"xatol": rtol * guess})
    if best.fun >= 1e300:
        raise ValueError(f"eps_g never halves from these starts (eps = {eps:g}, q0 = {q0:g}); expected a smaller q0.")
    return float(best.x), float(best.fun)


def eta_from_paper(eta: float) -> float:
    """Learning rate of the library (loss Delta^2 / 2) for one of Bocchi et al. (loss Delta^2): twice as large.

    Their risk is then 2 eps_g, and alpha is the same. Exact: a change of units.

    Parameters
    ----------
    eta : float
        The paper's learning rate.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.eta_from_paper(0.1)
    0.2
    """
    return 2 * check.number("eta", eta, above=0)
