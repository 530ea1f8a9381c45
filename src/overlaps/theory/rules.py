"""Closed forms for learning rules: late errors of perceptrons, robust regression, clipping, single indices on spheres.

Isotropic inputs, one student and one teacher, alpha = steps / N. Numbers out of range, rules without such a law and
divergent learning rates raise a ``ValueError`` that names them.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from .._base import ArrayLike, Numbers, check, public_dir
from ..flow.closure import closure
from ..models.learner import learner
from ..models.state import State
from ..rules import residual
from ..rules.rule import Rule
from ..stability.linear import linearise

__all__ = [
    "LateLaw", "StationaryAngle", "clipping_gain", "episode_points", "escape", "hebb", "huber_variance", "law",
    "stationary_error",
]  # fmt: skip
__dir__ = public_dir(__name__)


class LateLaw(NamedTuple):
    """Late 0/1 error of a rule, limit + coefficient alpha^exponent, made by :func:`law`.

    Attributes
    ----------
    limit : float
        Limit for alpha -> infinity.
    coefficient, exponent : float
        The leading term where the limit is zero; 0 otherwise.
    """

    limit: float
    coefficient: float
    exponent: float

    def __call__(self, alpha: ArrayLike) -> Numbers:
        """The error at late times ``alpha``."""
        alpha = check.times("alpha", alpha)
        return self.limit + (self.coefficient * alpha**self.exponent if self.coefficient else 0.0 * alpha)


def hebb(alpha: ArrayLike, flip: float = 0.0) -> Numbers:
    r"""0/1 error of Hebb's rule from zero weights, at all times.

    .. math:: \epsilon = \frac1\pi \arctan\Big(\frac1m \sqrt{\frac{\pi}{2\alpha}}\Big), \qquad m = 1 - 2\,\mathrm{flip}

    Exact at any eta. Source: Biehl and Riegler (1994), Europhys. Lett. 28, 525.

    Parameters
    ----------
    alpha : array_like
        Times > 0.
    flip : float
        Probability of a wrong label.

    Examples
    --------
    >>> import overlaps as ov
    >>> print(round(ov.theory.rules.hebb(100.0), 5))
    0.03969
    """
    m = 1 - 2 * check.number("flip", flip, least=0)
    return np.arctan(np.sqrt(np.pi / (2 * check.times("alpha", alpha))) / m) / np.pi


def law(rule: Rule, eta: float = 1.0) -> LateLaw:
    r"""Late 0/1 error of a rule in closed form.

    *Asymptotic*: the leading term for late times where labels are clean, and the limit where they are not. Without
    flips: Hebb :math:`(2\pi\alpha)^{-1/2}`; perceptron :math:`\frac1\pi (2/3)^{1/3} \alpha^{-1/3}`; AdaTron
    :math:`1/(\eta (1 - \eta/3)\alpha)`, least at eta = 3/2; optimal 0.8834/alpha. Margins and logistic losses make the
    norm J grow like :math:`\alpha^{1/3}` while J theta tends to t, the root of an equation in eta. Noisy perceptrons
    end at :math:`\rho = 1 - 2p` at any eta. Derived from the flow. Sources: Biehl and Riegler (1994), Europhys.
    Lett. 28, 525, for the exponents of Hebb, perceptron, AdaTron; Kinouchi and Caticha (1992), J. Phys. A 25, 6243;
    Barkai, Seung and Sompolinsky (1995), NIPS 7.

    Parameters
    ----------
    rule : Rule
        hebb, perceptron, adatron, least_squares (with flips), hinge, logistic() or optimal() of :mod:`overlaps.rules`.
    eta : float
        Learning rate; below 3 for AdaTron, 2 for least squares.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.rules.law(ov.rules.adatron(), eta=1.5).coefficient
    1.3333333333333333
    """
    check.kind("rule", rule, Rule, "ov.rules.perceptron()")
    eta, (name, *parameters) = check.number("eta", eta, above=0), rule.recipe or (None,)
    p = parameters[0] if name in ("hebb", "perceptron", "adatron", "least_squares") else 0.0
    m = 1 - 2 * p
    if name == "hebb":
        return LateLaw(0.0, 1 / (m * np.sqrt(2 * np.pi)), -0.5)
    if name == "perceptron":
        return LateLaw(float(np.arccos(m) / np.pi), 0.0, 0.0) if p else LateLaw(0.0, (2 / 3) ** (1 / 3) / np.pi, -1 / 3)
    if name == "adatron":
        if not eta < 3:
            raise ValueError(f"eta = {eta:g}; expected below 3, where AdaTron no longer converges.")
        return LateLaw(_noisy_adatron(p, m, eta), 0.0, 0.0) if p else LateLaw(0.0, 1 / (eta * (1 - eta / 3)), -1.0)
    if name == "least_squares":
        if not eta < 2:
            raise ValueError(f"eta = {eta:g}; expected below 2, where the norm no longer converges.")
        b = m * np.sqrt(2 / np.pi)
        Q = (2 * b * b + eta * (1 - 2 * b * b)) / (2 - eta)
        return LateLaw(float(np.arccos(b / np.sqrt(Q)) / np.pi), 0.0, 0.0)
    if name == "optimal":
        mean = quad(lambda x: np.exp(-x * x - log_ndtr(x)) / (2 * np.pi), -40, 40, epsabs=1e-14)[0]
        return LateLaw(0.0, np.sqrt(2 / np.pi) / mean, -1.0)
    if name == "hinge":
        return _with_margin(parameters[0], eta)
    if name == "logistic" and not parameters:
        return _logistic(eta)
    raise ValueError(f"rule = {rule!r}; expected one with a law: hebb, perceptron, adatron, least_squares, hinge, "
                     "logistic() or optimal() of ov.rules. Solve to late times instead.")  # fmt: skip


def _noisy_adatron(p, m, eta):
    """The stationary angle / pi of an AdaTron with flipped labels."""

    def turning(x):
        slack = x - np.sin(x) * np.cos(x)
        return m * np.sin(x) ** 3 / np.pi - eta / 2 * np.cos(x) * (p + m * slack / np.pi)

    return float(brentq(turning, 1e-9, np.pi / 2, xtol=1e-15) / np.pi)


def _with_margin(k, eta):
    """The law with J theta -> t, the root of 2 t^2 = eta (k + t h(k / t)), h = phi / Phi."""

    def h(x):
        return np.exp(-x * x / 2 - log_ndtr(x)) / np.sqrt(2 * np.pi)

    t = brentq(lambda t: 2 * t * t - eta * (k + t * h(k / t)), 1e-9, 10 * (eta + np.sqrt(eta * k) + 1), xtol=1e-15)
    growth = ndtr(k / t) * (t * t + k * k) + k * t * np.exp(-((k / t) ** 2) / 2) / np.sqrt(2 * np.pi)
    return LateLaw(0.0, t / np.pi * (np.sqrt(2 * np.pi) / (3 * eta * growth)) ** (1 / 3), -1 / 3)


def _logistic(eta):
    """The law with J theta -> t, the root of 2 t^2 = eta c(t), c the second moment of the force near the boundary."""

    def c(t):
        x_max = 60.0  # limit of the integral over the logistic function, whose tail is e^-x
        return 2 * quad(lambda x: ndtr(x / t) / (1 + np.exp(x)) ** 2, -x_max, x_max, epsabs=1e-13, limit=200)[0]

    t = brentq(lambda t: 2 * t * t - eta * c(t), 1e-3, 10 * (eta + 1), xtol=1e-14)
    return LateLaw(0.0, t / np.pi * (np.sqrt(2 * np.pi) / (3 * eta * (t * t / 2 + np.pi**2 / 6))) ** (1 / 3), -1 / 3)


def _moments(law, clip, s):
    """(a, E[psi^2]) of robust regression where lambda - nu has the standard deviation s."""
    c = closure(learner(residual(law, clip), eta=1.0), Q=[[s * s]], R=[[0.0]], T=[[0.0]])
    return c.B[0, 0], c.C[0, 0]


def huber_variance(law: Any, clip: float = 0.0) -> float:
    r"""Huber's asymptotic variance of robust regression, :math:`V = E[\psi^2]/a^2` at s = 0.

    *Asymptotic*: the limit of alpha s^2 at rates 1/(a(0) alpha). Source: Huber (1964), Ann. Math. Statist. 35, 73.

    Parameters
    ----------
    law : frozen continuous distribution of scipy.stats
        Distribution of the label noise, symmetric.
    clip : float
        Where residuals are clipped (:func:`overlaps.rules.residual`); 0 for their sign, V = 1/(4 density(0)^2).

    Examples
    --------
    >>> import overlaps as ov
    >>> from scipy import stats
    >>> print(round(ov.theory.rules.huber_variance(stats.cauchy(scale=0.5)), 5))  # pi^2 / 16
    0.61685
    """
    a, square = _moments(law, clip, 0.0)
    return float(square / a**2)


def stationary_error(law: Any, clip: float = 0.0, *, eta: float) -> float:
    r"""Stationary error s^2/2 of robust regression at a constant rate, where :math:`2 a(s) s^2 = \eta E[\psi^2](s)`.

    Exact.

    Parameters
    ----------
    law, clip
        As in :func:`huber_variance`.
    eta : float
        Learning rate.

    Examples
    --------
    >>> import overlaps as ov
    >>> from scipy import stats
    >>> print(round(ov.theory.rules.stationary_error(stats.cauchy(scale=0.5), eta=0.4), 4))
    0.1182
    """
    eta = check.number("eta", eta, above=0)

    def gain(log_s):
        a, square = _moments(law, clip, np.exp(log_s))
        return np.log(2 * a) + 2 * log_s - np.log(eta * square)

    return float(np.exp(2 * brentq(gain, -11.0, 11.0, xtol=1e-13)) / 2)


def clipping_gain(law: Any, clip: float, s: float) -> float:
    r"""Gain of clipped residuals in the rate of decrease of the error, :math:`a^2 E[\Delta^2]/E[\psi^2]`.

    Ratio of the largest decreases at the best rates, exact; at most 1 for normal noise. Source: Marshall et al. (2025),
    arXiv:2406.11733.

    Parameters
    ----------
    law, clip
        As in :func:`huber_variance`; the law has a variance.
    s : float
        Standard deviation of lambda - nu: eps_g = s^2/2.

    Examples
    --------
    >>> import overlaps as ov
    >>> from scipy import stats
    >>> print(round(ov.theory.rules.clipping_gain(stats.t(3, scale=0.6), clip=0.7, s=0.4), 2))
    1.58
    """
    a, square = _moments(law, check.number("clip", clip, least=0), check.number("s", s, above=0))
    variance = float(law.var())
    if not np.isfinite(variance):
        raise ValueError(f"law has the variance {variance}; expected a finite one: without a clip there is no descent.")
    return float(a**2 * (s * s + variance) / square)


def escape(k: int, eta: float, rho0: float) -> float:
    r"""Time in which a single index escapes from a small overlap, on the sphere with correlation loss.

    .. math:: \dot\rho = \eta k \rho^{k-1}(1 - \rho^2) - \tfrac12 \eta^2 \rho C

    with links he_k, orthonormal Hermite polynomials, F = he_k(nu) he_k'(lambda). *Asymptotic* for small rho0. For k = 2
    the overlap grows at the rate 2 eta - eta^2, and the time is ln(1/rho0)/(2 eta - eta^2) up to a constant; for k = 3
    the time is :math:`(2/(3\eta^2)) \ln(1/(1 - \eta/(2\rho_0)))`, inf below :math:`\rho_c = \eta/2`, where the overlap
    falls back. Source: Ben Arous, Gheissari and Jagannath (2021), JMLR 22, for the information exponent.

    Parameters
    ----------
    k : int
        Information exponent, 2 or 3.
    eta, rho0 : float
        Learning rate, below 2 for k = 2; overlap at the start, of order N^(-1/2) for random weights.

    Examples
    --------
    >>> import overlaps as ov
    >>> print(round(ov.theory.rules.escape(3, eta=0.01, rho0=0.1), 1), ov.theory.rules.escape(3, eta=0.1, rho0=0.04))
    342.0 inf
    """
    eta, rho0 = check.number("eta", eta, above=0), check.number("rho0", rho0, above=0)
    if check.count("k", k) not in (2, 3):
        raise check.refused("k", k, "2 or 3.")
    if k == 2:
        if not eta < 2:
            raise ValueError(f"eta = {eta:g}; expected below 2, where the overlap no longer grows.")
        return float(np.log(1 / rho0) / (2 * eta - eta**2))
    return float("inf") if rho0 <= eta / 2 else float(-2 / (3 * eta**2) * np.log1p(-eta / (2 * rho0)))


class StationaryAngle(NamedTuple):
    """A direction and length at which learning from episodes stops, made by :func:`episode_points`.

    Attributes
    ----------
    rho : float
        Cosine of the angle between student and teacher, R / sqrt(Q T*).
    Q : float
        Squared length of the student.
    accuracy : float
        Probability 1 - arccos(rho)/pi of a right answer.
    rates : ndarray
        Eigenvalues of the flow there, two, or the one of the angle on the sphere; largest real part first.
    stable : bool
        Whether all of them have a negative real part.
    """

    rho: float
    Q: float
    accuracy: float
    rates: np.ndarray
    stable: bool


def episode_points(rule: Rule, eta: float = 1.0, *, Q: float | None = None) -> list[StationaryAngle]:
    r"""Fixed points of reinforcement learning with penalties, and their stability.

    .. math:: \dot\rho = \frac{\eta}{J}\Big((1 - \rho^2)B - \frac{\eta\rho C}{2J}\Big), \qquad
              \dot J = \eta(A + \rho B) + \frac{\eta^2 C}{2J}, \qquad J = \sqrt Q

    with A, B, C of :func:`overlaps.rules.episode` at Q = T* = 1. Free students rest where :math:`\rho A + B = 0`
    and A < 0, at any eta, at a length proportional to eta; without penalty there is no such point. The points are in
    ascending order of rho; exact, except that pairs closer than a hundredth of the angle are missed. Where a stable one
    lies below an unstable one, an uninformed student is trapped: the hard phase. Source: Patel et al. (2023),
    arXiv:2306.10404.

    Parameters
    ----------
    rule : Rule
        ``ov.rules.episode(T, at_least, penalty)``.
    eta : float
        Learning rate.
    Q : float, optional
        Squared length of the students of ``constraint="sphere"``; free by default.

    Examples
    --------
    >>> import overlaps as ov
    >>> [(round(x.rho, 3), x.stable) for x in ov.theory.rules.episode_points(ov.rules.episode(4, penalty=1.0))]
    [(0.236, True), (0.688, False)]
    """
    if not check.kind("rule", rule, Rule, "ov.rules.episode(4, penalty=0.5)").recipe[:1] == ("episode",):
        raise ValueError(f"rule = {rule!r}; expected ov.rules.episode(T, at_least, penalty).")
    eta, unit = check.number("eta", eta, above=0), learner(rule, eta=1.0)
    model, points = learner(rule, eta=eta, constraint=None if Q is None else "sphere"), []
    J = None if Q is None else np.sqrt(check.number("Q", Q, above=0))

    def velocity(angle):
        """(velocity of rho up to a factor, A, C) of a student of length 1 at this angle."""
        c, rho = closure(unit, Q=[[1.0]], R=[[np.cos(angle)]], T=[[1.0]]), np.cos(angle)
        A, B, C = c.A[0, 0], c.B[0, 0], c.C[0, 0]
        return rho * A + B if J is None else np.sin(angle) ** 2 * B - eta * rho * C / (2 * J), A, C

    n = 400  # angles between which the velocity changes sign; fewer: close pairs of fixed points are missed
    angles = np.pi * (np.arange(n) + 0.5) / n
    for i in np.flatnonzero(np.diff(np.sign([velocity(x)[0] for x in angles])))[::-1]:
        x = brentq(lambda x: velocity(x)[0], angles[i], angles[i + 1], xtol=1e-15)
        _, A, C = velocity(x)
        if J is None and A >= 0:
            continue
        norm = J or -eta * C / (2 * A * np.sin(x) ** 2)
        state = State.from_overlaps(model, Q=[[norm * norm]], R=[[norm * np.cos(x)]], T=[[1.0]])
        rates = linearise(model, state).eigenvalues
        rates = rates if J is None else rates[np.abs(rates).argsort()[1:]]  # the other one is 0: Q is constant
        points.append(StationaryAngle(float(np.cos(x)), norm * norm, 1 - x / np.pi, rates, bool(rates[0].real < 0)))
    return points
