"""The numbers of a linear scaling problem, and what follows from them without solving anything."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._base import check
from ..._base.record import Record, read_only
from ..._base.types import Floats
from ...models.spectrum import Spectrum, power_law
from .. import features

__all__ = ["Exponents", "Phase"]


class Exponents(NamedTuple):
    r"""Exponents of the error; ``law.exponents``, see :class:`overlaps.theory.scaling.Law`.

    Attributes
    ----------
    time : float
        (beta + 2 delta)/(1 + beta): bias, in learning time.
    features : float
        beta + 2 delta: floor, in the number of trained features N_l.
    kernel : float
        (1 + 2 beta)/(1 + beta): noise of the steps, in learning time. The smaller of ``time`` and ``kernel`` rules.
    compute : float
        (beta + 2 delta)/(2 + beta): error at the best use of compute.
    width : float
        1/(2 + beta): of compute in the best N_l.
    decayed : float
        With label noise, at the best power-law decay of the learning rate, and at the best constant rate for a given
        end: g/(1 + g), g = ``time``. It is the best power of the decay, too.
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
    r"""Where a problem lies in the plane of beta and source; ``law.phase``, see :class:`overlaps.theory.scaling.Law`.

    ======= ============================ ===================== =====================
    name    where                        time                  N_l, random basis
    ======= ============================ ===================== =====================
    bias    2 delta <= 1                 bias, g               beta + 2 delta
    basis   1 < 2 delta <= 1 + beta      bias, g               1 + beta
    steps   1 + beta < 2 delta           noise of steps, 1 + b 1 + beta
    ======= ============================ ===================== =====================

    *Asymptotic*. At a border two terms share an exponent, and powers come with logarithms. Derived here.

    Attributes
    ----------
    name : {"bias", "basis", "steps"}
        What limits learning beyond the bias: nothing, the directions of features, the noise of the steps.
    time : float
        Exponent of the error in learning time, before the floor.
    features : float
        Exponent of the floor in N_l, where leading eigenvectors are trained.
    random_basis : float
        The same where directions of a random basis are trained; the smaller one, from 2 delta = 1 on.
    missing : str
        What :class:`overlaps.theory.scaling.Law` does not say in this phase; empty if nothing.

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


@dataclass(frozen=True, eq=False)
class _Problem(Record):
    """Numbers of the problem, its spectrum and start, exponents, and the learning rates at which it converges."""

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
        self.settle(beta=beta, source=source, L=check.count("L", self.L), eta=check.number("eta", self.eta, above=0))
        self.settle(noise=check.number("noise", self.noise, least=0))
        self.settle(student_scale=check.number("student_scale", self.student_scale, least=0))
        self.settle(batch_size=check.count("batch_size", self.batch_size))

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
        """Which exponents rule, with trained eigenvectors and in a random basis (:class:`Phase`)."""
        rates, twice = self.exponents, 2 * self.source
        name = "bias" if twice <= 1 else "basis" if twice <= 1 + self.beta else "steps"
        missing = "" if name == "bias" else "the error in time, at eta > 0, of features that are not eigenvectors"
        time, basis = min(rates.time, rates.kernel), min(rates.features, 1 + self.beta)
        return Phase(name, time, rates.features, basis, missing)

    def critical_eta(self, N_l: int | None = None) -> float:
        r"""Learning rate 2B / sum_{l <= N_l} p_l s_l, at and above which the error does not decay; *exact*.

        Parameters
        ----------
        N_l : int, optional
            Trained features.
        """
        N_l = self.trained(N_l)
        return float(2 * self.batch_size / (self.spectrum.p[:N_l] @ self.spectrum.s[:N_l]))

    def amplitude(self, N_l: int | None = None, N: int | None = None) -> float:
        r"""Factor by which the noise of the steps raises every slowly varying part of the error.

        .. math:: P = \Big[1 - \frac{\eta}{2B} \sum_{l \le N_l} p_l s_l\Big]^{-1}, \qquad
           P_N = \Big[1 - \frac{\eta}{2B} \sum_{l \le N_l} \frac{p_l s_l}{1 - (1 + 1/B)\,\eta s_l/2N}\Big]^{-1}

        *Asymptotic* for what varies in time, exact for the floor: P F is left of the frozen modes. Derived here.

        Parameters
        ----------
        N_l : int, optional
            Trained features.
        N : int, optional
            Input dimension, for the mean of SGD at L ~ N; infinite by default.

        Raises
        ------
        ValueError
            A learning rate at which the error does not decay.

        Examples
        --------
        >>> import overlaps as ov
        >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5)
        >>> round(law.amplitude(16), 6), round(law.amplitude(N=128), 6)
        (1.321149, 1.388521)
        """
        N_l, B = self.trained(N_l), self.batch_size
        s, p = self.spectrum.s[:N_l], self.spectrum.p[:N_l]
        left = 1.0 if N is None else 1 - (1 + 1 / B) * self.eta * s / (2 * check.count("N", N))
        mass = self.eta / (2 * B) * np.sum(p * s / left) if np.all(left > 0) else np.inf
        if mass >= 1:
            raise ValueError(
                f"eta = {self.eta:g} is too large: the error does not decay"
                + (
                    f". Expected eta < {self.critical_eta(N_l):.6g}."
                    if N is None
                    else f" at N = {N}. Try a smaller eta."
                )
            )
        return float(1 / (1 - mass))

    def trained(self, N_l: int | None) -> int:
        """N_l, checked to lie in 1..L; L for None."""
        return self.L if N_l is None else features.trained(N_l, self.L)

    def frozen(self, N_l: int) -> float:
        """Error F of the components beyond the N_l trained ones."""
        return float(0.5 * self.spectrum.s[N_l:] @ self.m0[N_l:])
