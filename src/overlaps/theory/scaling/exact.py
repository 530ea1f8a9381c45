"""Errors that are exact, at a constant learning rate, for SGD at finite N, and under schedules."""

import numpy as np

from ..._base import check
from ..._base.types import ArrayLike, Floats, Numbers
from ...models.schedule import Schedule
from ...models.spectrum import Spectrum
from .. import linear
from . import schedules
from .problem import _Problem


class _Exact(_Problem):
    """Solutions of the flow and of its recursion."""

    def error(self, alpha: ArrayLike, N_l: int | None = None) -> Floats:
        r"""Mean error at any learning rate, with the components along N_l eigenvectors trained.

        .. math:: \epsilon_g = F + \tfrac12 \sum_{l \le N_l} s_l m_l, \qquad
           \frac{dm_l}{d\alpha} = -2\eta s_l m_l
           + \frac{\eta^2}{B} s_l p_l \Big(\sum_{k \le N_l} s_k m_k + \sigma^2 + 2F\Big), \qquad
           F = \tfrac12 \sum_{l > N_l} s_l m_l(0)

        What is frozen is a constant error, and acts on what is trained as label noise of variance 2F. *Exact* for N ->
        infinity, at any eta, also where the error grows. Gradient flow without a source is
        :func:`overlaps.theory.features.error`. Derived here.

        Parameters
        ----------
        alpha : array_like
            Times >= 0; may be inf.
        N_l : int, optional
            Trained features.

        Raises
        ------
        ValueError
            Negative times, N_l outside 1..L.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> law.error([1, np.inf], N_l=16).round(9)
        array([0.01753167, 0.00476793])
        """
        N_l, B = self.trained(N_l), self.batch_size
        F = self.frozen(N_l)
        return F + linear.error(
            self._part(N_l),
            self.eta / B,
            B * check.times("alpha", alpha),
            m0=self.m0,
            noise=np.sqrt(self.noise**2 + 2 * F),
        )

    def sgd_mean(self, steps: ArrayLike, *, N: int, N_l: int | None = None) -> Floats:
        """Mean error of SGD itself at input dimension N, where eta s_1/N need not be small.

        *Exact* at any N: :func:`overlaps.theory.linear.sgd_mean`, with what is frozen as label noise.

        Parameters
        ----------
        steps : array_like of int
            Numbers of steps >= 0; alpha = steps / N.
        N : int
            Input dimension, a multiple of L.
        N_l : int, optional
            Trained features.

        Warns
        -----
        RuntimeWarning
            When eta max(s) / N > 0.05: the ODE is then not the limit of this mean.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.05)
        >>> law.sgd_mean([0, 640], N=640, N_l=16).round(6)
        array([0.5     , 0.075226])
        """
        N_l = self.trained(N_l)
        F = self.frozen(N_l)
        noise = np.sqrt(self.noise**2 + 2 * F)
        part = self._part(N_l)
        return F + linear.sgd_mean(part, self.eta, steps, N=N, noise=noise, m0=self.m0, batch_size=self.batch_size)

    def scheduled(self, alpha: ArrayLike, schedule: Schedule, *, N_l: int | None = None) -> Numbers:
        """Error at times alpha with the learning rate eta times the factors of a schedule.

        *Exact* for N -> infinity up to a relative error of 1e-6, of the integration. The same flow as
        ``ov.solve(..., schedule=schedule)``, with blocks in O(L) a step and without rounding of overlaps.

        Parameters
        ----------
        alpha : array_like
            Finite times >= 0.
        schedule : Schedule
            Factors of eta, any of :class:`overlaps.Schedule`.
        N_l : int, optional
            Trained features.

        Raises
        ------
        ValueError
            Times that are not finite; a rate at which errors grow.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> law.scheduled([1.0, 10.0], ov.Schedule.cosine(10.0)).round(6)
        array([0.017321, 0.003313])
        """
        return schedules.scheduled(self, check.times("alpha", alpha), schedule, self.trained(N_l))

    def decayed(self, alpha: ArrayLike, *, power: float, tau: float, N_l: int | None = None) -> Numbers:
        r"""Error at times alpha under the decaying rate eta (1 + alpha/tau)^-power.

        As :meth:`scheduled` with ``Schedule.power(power, scale=tau)``. Without label noise a decay only slows down, to
        g(1 - w); with it the exponent is min(w, g(1 - w)), best at w = g/(1 + g) = ``exponents.decayed``.

        Parameters
        ----------
        alpha : array_like
            Finite times >= 0.
        power : float
            Exponent w >= 0 of the decay.
        tau : float
            Time at which it sets in, > 0.
        N_l : int, optional
            Trained features.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> law.decayed([1, 10], power=0.4, tau=1.0).round(6)
        array([0.017838, 0.003684])
        """
        schedule = Schedule.power(check.number("power", power, least=0), scale=check.number("tau", tau, above=0))
        return self.scheduled(alpha, schedule, N_l=N_l)

    def annealed(self, horizon: ArrayLike, *, power: float, N_l: int | None = None) -> Numbers:
        r"""Error at the end of a run whose rate falls to zero there, eta (1 - alpha/horizon)^power.

        As :meth:`scheduled` with ``Schedule.polynomial(horizon, power)``. Without label noise the exponent is g, and
        the amplitude of the noise of the steps disappears. With label noise and eta fixed it is min(g, b, w/(1 + w)),
        so that w > beta serves; with eta tuned to the horizon ``exponents.annealed``. Derived here.

        Parameters
        ----------
        horizon : array_like
            Ends of runs, > 0; each is a run of its own.
        power : float
            Exponent w >= 0: 1 is linear, 0 a constant rate.
        N_l : int, optional
            Trained features.

        Raises
        ------
        ValueError
            A horizon that is not positive and finite, power < 0.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
        >>> law.annealed([1, 10], power=1.0).round(6)
        array([0.02328 , 0.003312])
        """
        power, ends = check.number("power", power, least=0), check.array("horizon", horizon, (...,))
        if np.any(ends <= 0):
            raise ValueError(f"horizon = {check.shown(ends.tolist())}; expected times > 0.")
        found = [self.scheduled(T, Schedule.polynomial(T, power), N_l=N_l) for T in ends.flat]
        return np.reshape(found, ends.shape)[()]

    def _part(self, N_l):
        """The spectrum as the trained components see it: nothing moves where an eigenvalue is zero."""
        return Spectrum(np.where(np.arange(self.L) < N_l, self.spectrum.s, 0.0), self.spectrum.p)
