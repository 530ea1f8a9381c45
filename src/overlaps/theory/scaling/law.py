"""One linear scaling problem: its numbers, and its theory as methods."""

from dataclasses import KW_ONLY
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gamma

from ..._base import ArrayLike, Floats, Immutable, Numbers, check, read_only, warn
from ...models import Schedule, Spectrum, power_law
from .. import features, linear
from . import schedules
from .terms import Frontier, Terms, closed_frontier, exact_frontier, four_terms


class Exponents(NamedTuple):
    r"""Exponents of the error; ``law.exponents``, see :class:`overlaps.theory.scaling.Law`.

    Attributes
    ----------
    time : float
        (beta + 2 delta)/(1 + beta): bias, in learning time.
    features : float
        beta + 2 delta: floor, in the number of trained features N_l.
    kernel : float
        (1 + 2 beta)/(1 + beta): noise of the steps, in learning time. The smaller of ``time`` and ``kernel`` dominates.
    compute : float
        (beta + 2 delta)/(2 + beta): error at the best use of compute.
    width : float
        1/(2 + beta): of compute in the best N_l.
    decayed : float
        With label noise, at the best power-law decay of the learning rate, and at the best constant rate for a given
        end: g/(1 + g), g = ``time``. The best power of the decay has the same value.
    annealed : float
        With label noise, annealed from the best rate for a given horizon: g/(1 + g - b), b = beta/(1 + beta), if g > b,
        else g.

    Examples
    --------
    >>> import overlaps as ov
    >>> rates = ov.theory.scaling.Law(1.0, 0.25, L=100, eta=0.1).exponents
    >>> rates.time, rates.features, rates.kernel, rates.compute, round(rates.annealed, 3)
    (0.75, 1.5, 1.5, 0.5, 0.6)
    """

    time: float
    features: float
    kernel: float
    compute: float
    width: float
    decayed: float
    annealed: float


class Phase(NamedTuple):
    r"""Position of a problem in the plane of beta and source; ``law.phase``, see :class:`overlaps.theory.scaling.Law`.

    ======= ============================ ===================== =====================
    name    where                        time                  N_l, random basis
    ======= ============================ ===================== =====================
    bias    2 delta <= 1                 bias, g               beta + 2 delta
    basis   1 < 2 delta <= 1 + beta      bias, g               1 + beta
    steps   1 + beta < 2 delta           noise of steps, 1 + b 1 + beta
    ======= ============================ ===================== =====================

    *Asymptotic*. At a border two terms have the same exponent, and powers have logarithmic factors. Derived here.

    Attributes
    ----------
    name : {"bias", "basis", "steps"}
        The second limit of learning after the bias: none, the directions of features, the noise of the steps.
    time : float
        Exponent of the error in learning time, before the floor.
    features : float
        Exponent of the floor in N_l, where leading eigenvectors are trained.
    random_basis : float
        The same where directions of a random basis are trained; the smaller one, from 2 delta = 1 on.
    missing : str
        Terms that :class:`overlaps.theory.scaling.Law` leaves out in this phase; empty if none.

    Examples
    --------
    >>> import overlaps as ov
    >>> [ov.theory.scaling.Law(1.0, delta, L=9, eta=0.1).phase[:4] for delta in (0.25, 0.75, 1.25)]
    [('bias', 0.75, 1.5, 1.5), ('basis', 1.25, 2.5, 2.0), ('steps', 1.5, 3.5, 2.0)]
    """

    name: str
    time: float
    features: float
    random_basis: float
    missing: str


class Law(Immutable, repr=True):
    r"""Scaling law of a linear student: capacity and source exponent, size, learning rate, noise.

    .. math:: s_l = s_1 l^{-(1+\beta)}, \quad p_l = \frac1L, \quad \langle s\rangle = 1, \qquad
       m_l(0) = t_l + \sigma_J^2 p_l, \quad t_l \propto l^{-2\delta}, \quad \sum_l s_l t_l = 1

    Each method is marked exact or asymptotic; N -> infinity at fixed alpha = steps / N unless N is an argument.
    ``N_l`` is everywhere the number of leading eigenvalues whose directions are trained, L by default; results have the
    shape of the times ``alpha`` >= 0. A number out of range raises a ``ValueError`` that names it; so does, for
    :meth:`amplitude`, :meth:`terms` and schedules, a learning rate at which the error does not decay. Source: Worschech
    and Rosenow (2024), arXiv:2410.09005, Eq. (1), for the spectrum; the source is derived here.

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.
    source : float
        Exponent delta of the teacher's coefficients along the eigenvectors; beta + 2 delta > 0. 0 is a teacher that is
        independent of the inputs (Worschech and Rosenow), positive ones are easier.
    L : int
        Number of eigenvalues.
    eta : float
        Learning rate of SGD (effective one, see :func:`overlaps.theory.linear.reduce`).
    noise : float
        Standard deviation sigma of the label noise.
    student_scale : float
        Standard deviation sigma_J of the initial weights, 0 by default: random students are a component with
        source = 0, which dominates late whenever the source is positive.
    batch_size : int
        Samples in one step. The error depends on eta/B and B alpha only: at a fixed number of samples a batch changes
        only the noise of the step.

    Examples
    --------
    >>> import overlaps as ov
    >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
    >>> law.error([0, 0.1, 1, 10]).round(7)
    array([0.5      , 0.1013844, 0.0173547, 0.0037767])
    >>> law.exponents.time, round(law.exponents.compute, 4)
    (0.8, 0.5333)
    >>> [round(float(x), 6) for x in law.terms(1.0, 16)]  # bias, floor, noise of the steps, label noise
    [0.012287, 0.003164, 0.000586, 0.001494]
    >>> law.scheduled([1.0, 10.0], ov.Schedule.cosine(10.0)).round(6), law.annealed(10.0, power=1.0).round(6)
    (array([0.017321, 0.003313]), np.float64(0.003312))
    >>> round(law.amplitude(16), 6), round(law.random_basis(16), 8), [round(x, 4) for x in law.window()]
    (1.321149, 0.01392222, [0.0764, 5.4499])
    """

    beta: float
    source: float = 0.0
    _: KW_ONLY
    L: int
    eta: float
    noise: float = 0.0
    student_scale: float = 0.0
    batch_size: int = 1

    def __post_init__(self):
        beta, source = check.number("beta", self.beta, above=0), check.number("source", self.source)
        if beta + 2 * source <= 0:
            raise ValueError(
                f"source = {source:g}; expected beta + 2 source > 0, a teacher whose output has a variance for L -> "
                f"infinity: source > {-beta / 2:g}."
            )
        self._set(beta=beta, source=source, L=check.count("L", self.L), eta=check.number("eta", self.eta, above=0))
        self._set(noise=check.number("noise", self.noise, least=0))
        self._set(student_scale=check.number("student_scale", self.student_scale, least=0))
        self._set(batch_size=check.count("batch_size", self.batch_size))

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues and weights: :func:`overlaps.power_law`."""
        return power_law(beta=self.beta, L=self.L)

    @cached_property
    def teacher_scale(self) -> float:
        """The factor n in t_l = p_l n l^(-2 source), for an output of variance one."""
        l = np.arange(1.0, self.L + 1)
        return float(np.sum(l ** -(1 + self.beta)) / np.sum(l ** -(1 + self.beta + 2 * self.source)))

    @cached_property
    def m0(self) -> Floats:
        """Block distances of the start (L,)."""
        teacher = self.teacher_scale * np.arange(1.0, self.L + 1) ** (-2 * self.source)
        return read_only(self.spectrum.p * (teacher + self.student_scale**2))

    @property
    def exponents(self) -> Exponents:
        """Exponents of time, features, kernel, compute, width, and under label noise (:class:`Exponents`)."""
        rate, a = self.beta + 2 * self.source, 1 + self.beta
        g, b = rate / a, self.beta / a
        annealed = g / (1 + g - b) if g > b else g
        return Exponents(g, rate, 1 + b, rate / (1 + a), 1 / (1 + a), g / (1 + g), annealed)

    @property
    def phase(self) -> Phase:
        """Dominant exponents, with trained eigenvectors and in a random basis (:class:`Phase`)."""
        rates, twice = self.exponents, 2 * self.source
        name = "bias" if twice <= 1 else "basis" if twice <= 1 + self.beta else "steps"
        missing = "" if name == "bias" else "the error in time, at eta > 0, of features that are not eigenvectors"
        time, basis = min(rates.time, rates.kernel), min(rates.features, 1 + self.beta)
        return Phase(name, time, rates.features, basis, missing)

    def critical_eta(self, N_l: int | None = None) -> float:
        r"""Learning rate 2B / sum_{l <= N_l} p_l s_l, at and above which the error does not decay; *exact*."""
        N_l = self.trained(N_l)
        return float(2 * self.batch_size / (self.spectrum.p[:N_l] @ self.spectrum.s[:N_l]))

    def amplitude(self, N_l: int | None = None, N: int | None = None) -> float:
        r"""Factor by which the noise of the steps raises every slowly varying term of the error.

        .. math:: P = \Big[1 - \frac{\eta}{2B} \sum_{l \le N_l} p_l s_l\Big]^{-1}, \qquad
           P_N = \Big[1 - \frac{\eta}{2B} \sum_{l \le N_l} \frac{p_l s_l}{1 - (1 + 1/B)\,\eta s_l/2N}\Big]^{-1}

        *Asymptotic* for what varies in time, exact for the floor: P F remains of the frozen modes. P_N belongs to the
        mean of SGD at input dimension ``N``, for L ~ N. Derived here.
        """
        N_l, B = self.trained(N_l), self.batch_size
        s, p = self.spectrum.s[:N_l], self.spectrum.p[:N_l]
        left = 1.0 if N is None else 1 - (1 + 1 / B) * self.eta * s / (2 * check.count("N", N))
        mass = self.eta / (2 * B) * np.sum(p * s / left) if np.all(left > 0) else np.inf
        if mass >= 1:
            hint = f". Expected eta < {self.critical_eta(N_l):.6g}."
            hint = hint if N is None else f" at N = {N}. Try a smaller eta."
            raise ValueError(f"eta = {self.eta:g} is too large: the error does not decay{hint}")
        return float(1 / (1 - mass))

    def trained(self, N_l: int | None) -> int:
        """N_l, checked to lie in 1..L; L for None."""
        return self.L if N_l is None else features.trained(N_l, self.L)

    def frozen(self, N_l: int) -> float:
        """Error F of the components beyond the N_l trained ones."""
        return float(0.5 * self.spectrum.s[N_l:] @ self.m0[N_l:])

    def _features(self, N_l):
        """(error of frozen features, spectrum with zeros in their place, start and noise as options)."""
        N_l = self.trained(N_l)
        F, s = self.frozen(N_l), np.where(np.arange(self.L) < N_l, self.spectrum.s, 0.0)
        return F, Spectrum(s, self.spectrum.p), {"m0": self.m0, "noise": np.sqrt(self.noise**2 + 2 * F)}

    # exact: at a constant rate, for SGD at finite N, under schedules --------------------------------------------------

    def error(self, alpha: ArrayLike, N_l: int | None = None) -> Floats:
        r"""Mean error at any learning rate, with the components along N_l eigenvectors trained.

        .. math:: \epsilon_g = F + \tfrac12 \sum_{l \le N_l} s_l m_l, \qquad
           \frac{dm_l}{d\alpha} = -2\eta s_l m_l
           + \frac{\eta^2}{B} s_l p_l \Big(\sum_{k \le N_l} s_k m_k + \sigma^2 + 2F\Big), \qquad
           F = \tfrac12 \sum_{l > N_l} s_l m_l(0)

        Frozen components are a constant error, and act on the trained ones as label noise of variance 2F. *Exact* for N
        -> infinity, at any eta, also where the error grows; alpha may be inf. Gradient flow without a source is
        :func:`overlaps.theory.features.error`. Derived here.
        """
        (F, spectrum, options), B = self._features(N_l), self.batch_size
        return F + linear.error(spectrum, self.eta / B, B * check.times("alpha", alpha), **options)

    def sgd_mean(self, steps: ArrayLike, *, N: int, N_l: int | None = None) -> Floats:
        """Mean error of SGD itself at input dimension N, where eta s_1/N need not be small.

        *Exact* at any N, a multiple of L: :func:`overlaps.theory.linear.sgd_mean` (see there for ``steps`` and the
        warning), with the frozen components as label noise.
        """
        F, spectrum, options = self._features(N_l)
        return F + linear.sgd_mean(spectrum, self.eta, steps, N=N, batch_size=self.batch_size, **options)

    def scheduled(self, alpha: ArrayLike, schedule: Schedule, *, N_l: int | None = None) -> Numbers:
        """Error at finite times alpha with the learning rate eta times the factors of a :class:`overlaps.Schedule`.

        *Exact* for N -> infinity up to a relative error of 1e-6, of the integration. The same flow as
        ``ov.solve(..., schedule=schedule)``, with blocks in O(L) a step and without rounding of overlaps.
        """
        return schedules.scheduled(self, check.times("alpha", alpha), schedule, self.trained(N_l))

    def decayed(self, alpha: ArrayLike, *, power: float, tau: float, N_l: int | None = None) -> Numbers:
        r"""Error at finite times alpha under a rate that decays from the time tau on, eta (1 + alpha/tau)^-power.

        As :meth:`scheduled` with ``Schedule.power(power, scale=tau)``, for a power w >= 0 and tau > 0. Without label
        noise a decay only slows learning, to g(1 - w); with it the exponent is min(w, g(1 - w)), best at
        w = g/(1 + g) = ``exponents.decayed``.
        """
        schedule = Schedule.power(check.number("power", power, least=0), scale=check.number("tau", tau, above=0))
        return self.scheduled(alpha, schedule, N_l=N_l)

    def annealed(self, horizon: ArrayLike, *, power: float, N_l: int | None = None) -> Numbers:
        r"""Error at the end of a run whose rate falls to zero there, eta (1 - alpha/horizon)^power.

        As :meth:`scheduled` with ``Schedule.polynomial(horizon, power)``; each horizon > 0 is a run of its own, and the
        power w >= 0 is 1 for a linear decay, 0 for a constant rate. Without label noise the exponent is g, and the
        amplitude of the noise of the steps disappears. With label noise and eta fixed it is min(g, b, w/(1 + w)), so
        that w > beta suffices; with eta tuned to the horizon ``exponents.annealed``. Derived here.
        """
        power, ends = check.number("power", power, least=0), check.array("horizon", horizon, (...,))
        if np.any(ends <= 0):
            raise check.refused("horizon", ends.tolist(), "times > 0.")
        errors = [self.scheduled(T, Schedule.polynomial(T, power), N_l=N_l) for T in ends.flat]
        return np.reshape(errors, ends.shape)[()]

    # asymptotic: many eigenvalues -------------------------------------------------------------------------------------

    def terms(self, alpha: ArrayLike, N_l: int | None = None) -> Terms:
        r"""Bias, floor, noise of the steps and label noise, each in closed form for many eigenvalues.

        .. math:: \epsilon_g \simeq P e_0 + P F_0 + P^2\,[\,c + E_0 k - \tau F_0\,]
           + \tfrac{\sigma^2}2\,[\,\hat k P - P^2 \tau\,]

        .. math:: e_0 = \frac{s_1 n}{2L}\,\frac{\zeta^{-g}\,\Gamma(g, x)}{1+\beta}, \quad
           F_0 = \frac{s_1 n}{2L}\,\frac{(N_l+\frac12)^{-\gamma} - (L+\frac12)^{-\gamma}}{\gamma}, \quad
           k = \frac{\eta^2 s_1^2}{BL}\,\frac{\zeta^{-(1+b)}\,\Gamma(1+b, x)}{1+\beta}, \quad
           \tau = \frac{\eta s_1}{2BL}\,\frac{\zeta^{-b}\,\Gamma(b, x)}{1+\beta}

        with zeta = 2 eta s_1 alpha, x = zeta (N_l + 1/2)^-(1 + beta), gamma = beta + 2 delta, g = gamma/(1 + beta),
        b = beta/(1 + beta), E_0 = n zeta_R(2 delta)/(4 eta L) with Riemann's zeta function, and c, the convolution of
        the two power laws.

        *Asymptotic*: zeta > 10 or so, many eigenvalues; relative corrections of order zeta^(-2 b), slow for small beta,
        and where beta + 2 delta is near zero. Times alpha > 0 with zeta < 1, before the power laws begin, raise
        a ``RuntimeWarning``. Dominant terms: the bias where g < 1 + b, that is 2 delta < 1 + beta, else the noise
        of the steps, and then the source no longer matters; the floor from x = 1 on; label noise late. Derived here.
        """
        times = check.times("alpha", alpha)
        if not np.all((times > 0) & np.isfinite(times)):
            raise check.refused("alpha", times.tolist(), "finite times > 0. Else use error.")
        first = 1 / (2 * self.eta * self.spectrum.s[0])
        if np.any(times < first):
            warn(
                f"alpha = {times.min():.3g} lies before the power laws begin, where 2 eta s_1 alpha = 1, at "
                f"{first:.3g}: the terms do not hold there. error(alpha) is exact."
                + check.see("scaling_laws", "Four terms")
            )
        return four_terms(self, times, self.trained(N_l))

    def asymptote(self, alpha: ArrayLike, N_l: int | None = None) -> Floats:
        """Sum of the four :meth:`terms` at times alpha > 0.

        *Asymptotic*. At zeta = 1000, beta = 1, eta = 1, L = 4000 within 0.3 % of :meth:`error` for sources from 0 to 1.
        """
        return sum(self.terms(alpha, N_l), start=np.zeros(()))

    def window(self, N_l: int | None = None, accuracy: float = 0.1) -> tuple[float, float]:
        r"""First and last time between which gradient flow follows its pure power law to a given accuracy.

        .. math:: 3 < 2\eta s_1\alpha < x (N_l + \tfrac12)^{1+\beta}, \qquad
           x = \big(\Gamma(1+g)\,q\big)^{1/g} \ (N_l = L), \quad
           x = \big((1+g)\,\Gamma(g)\,q\big)^{1/(1+g)} \ (N_l \ll L)

        *Asymptotic*; the first alpha is a rule of thumb, at the last one the relative distance from the law is
        q = ``accuracy``. With N_l << L the window is longer: frozen modes and those not yet learned look alike to first
        order. The bounds hold for the source; random students have the window of source 0. They are inner bounds:
        :func:`overlaps.theory.linear.window` is the whole range in order of magnitude, from
        :math:`2\eta s_1\alpha = 1` to q = 1, where the law ends.
        """
        N_l, q = self.trained(N_l), check.number("accuracy", accuracy, above=0)
        g = self.exponents.time
        x = (q * gamma(1 + g)) ** (1 / g) if N_l == self.L else (q * (1 + g) * gamma(g)) ** (1 / (1 + g))
        unit = 1 / (2 * self.eta * self.spectrum.s[0])
        return float(3 * unit), float(x * (N_l + 0.5) ** (1 + self.beta) * unit)

    def random_basis(self, N_l: int) -> float:
        r"""Error that is left when N_l directions of a random (Haar) basis are trained, in gradient flow.

        .. math:: F_H = \tfrac12 \sum_l m_l(0)\, \frac{\xi s_l}{s_l + \xi}, \qquad \sum_k \frac{s_k}{s_k + \xi} = N_l

        *Asymptotic*: N_l -> infinity at fixed N_l/L. For 1 << N_l << L it falls as N_l^-(beta + 2 delta), and as
        N_l^-(1 + beta) where 2 delta > 1: there the directions are the limit, not the teacher.
        :func:`overlaps.theory.features.error_haar` is source = 0. Derived here.
        """
        N_l = self.trained(N_l)
        if N_l == self.L:
            return 0.0
        s, xi = self.spectrum.s, features.haar_root(self.spectrum, N_l / self.L)
        return float(0.5 * self.m0 @ (xi * s / (s + xi)))

    def frontier(self, compute: ArrayLike, exact: bool = False) -> Frontier:
        r"""The best number of features for a given compute c = N_l B alpha, the learning time, and the error.

        .. math:: N = \Big(\frac{2\eta s_1 c}{B\, x}\Big)^{1/(2+\beta)}, \quad N_l = N - \tfrac12, \qquad
           \epsilon \simeq P\,\frac{s_1 n}{2L} \Big[ f \Big(\frac{2\eta s_1 c}B\Big)^{-\gamma/(2+\beta)}
           - \frac{(L+\frac12)^{-\gamma}}{\gamma}\Big]

        .. math:: (1+\beta)\, x^g (1 - e^{-x}) = \Gamma(g+1, x), \qquad
           f = \frac{x^{-g/(2+\beta)}\,\Gamma(g, x)}{1+\beta} + \frac{x^{\gamma/(2+\beta)}}{\gamma}

        Training stops at a fixed x = zeta/N^(1 + beta), at the end of the window, where neither term is a power law:
        a balance of two power laws gives the right exponents and wrong constants. *Asymptotic*: N_l ~ c^(1/(2 + beta)),
        eps ~ c^(-(beta + 2 delta)/(2 + beta)), corrections of order N_l^-beta. With ``exact`` it is *exact* if the
        error has one minimum in N_l, as in all cases tried (not proved); the minimum may be at the ends 1 and L. For
        2 delta > 1 + beta the noise of the steps has to decay first, N_l is smaller than the closed form, and exponents
        approach their limit logarithmically. In the closed form N_l is not rounded, and c = (N_l + 1/2) B alpha; label
        noise, random students, 2 delta >= 1 + beta and an N_l outside 1..L raise a ``ValueError`` there. Derived here.

        Parameters
        ----------
        compute : array_like
            Numbers of operations over N, c = N_l B alpha, > 0.
        exact : bool
            Search the whole N_l of least :meth:`error`, for any learning rate, source, and noise.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=400, eta=0.5)
        >>> closed, exact = law.frontier([4.0, 400.0]), law.frontier([4.0, 400.0], exact=True)
        >>> closed.N_l.round(2), exact.N_l, (exact.eps / closed.eps).round(4)
        (array([10.7 , 51.51]), array([11., 51.]), array([0.9968, 1.0002]))
        """
        compute = check.array("compute", compute, (...,))
        if np.any(compute <= 0):
            raise check.refused("compute", compute.tolist(), "numbers > 0.")
        return (exact_frontier if check.flag("exact", exact) else closed_frontier)(self, compute)
