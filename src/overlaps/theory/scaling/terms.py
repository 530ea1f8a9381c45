r"""The four terms of the error of a linear student at any learning rate: bias, floor, noise of the steps, label noise.

They follow from the renewal equation of the error, eps = eps_0 + k * eps, with eps_0 the error of gradient flow and

.. math:: k(\alpha) = \frac{\eta^2}{B} \sum_{l \le N_l} p_l s_l^2 e^{-2\eta s_l\alpha} \sim \alpha^{-(1+b)} , \qquad
   \int_0^\infty k = \hat k = \frac{\eta}{2B} \sum_{l \le N_l} p_l s_l , \qquad P = \frac{1}{1-\hat k} .

The integral of the kernel is finite, so that slow terms of eps_0 are multiplied by P. Balancing bias and floor
gives the compute-optimal number of features for c = N_l B alpha operations.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gamma, gammaincc, rgamma, zeta

from ..._base import check


class Terms(NamedTuple):
    """Terms of the error for many eigenvalues; made by :func:`overlaps.theory.scaling.Law.terms`.

    Attributes
    ----------
    bias : ndarray
        Trained modes, as in gradient flow.
    floor : ndarray
        Frozen modes; constant in time.
    sgd : ndarray
        Noise of the steps beyond the amplitude of bias and floor; may be negative.
    noise : ndarray
        Label noise.
    """

    bias: np.ndarray
    floor: np.ndarray
    sgd: np.ndarray
    noise: np.ndarray


def upper(g, x):
    """The incomplete gamma function from x to infinity, g > 0."""
    return gamma(g) * gammaincc(g, x)


def four_terms(law, alpha, N_l):
    """The four terms at checked times; amplitude(N_l) has to be finite."""
    a, b, B = 1 + law.beta, law.beta / (1 + law.beta), law.batch_size
    u, P = law.spectrum.s[0] / law.L, law.amplitude(N_l)
    z, end = 2 * law.eta * law.spectrum.s[0] * alpha, N_l + 0.5
    x = z * end**-a
    mass = 1 - 1 / P  # integral of the kernel
    kernel = law.eta**2 / B * u**2 * law.L * z ** -(1 + b) * upper(1 + b, x) / a
    tail0 = law.eta / (2 * B) * u * z**-b / a
    tail = tail0 * upper(b, x)
    # Sources closer to 1/2 are interpolated, because two contributions have poles there that cancel. Smaller: rounding
    # of the poles; larger: error of the interpolation.
    pole_distance = 0.02
    flow = frozen = steps = 0.0
    for source, n in ((law.source, law.teacher_scale), (0.0, law.student_scale**2)):
        rate = law.beta + 2 * source
        e0 = 0.5 * u * n * z ** -(rate / a) * upper(rate / a, x) / a
        F0 = 0.5 * u * n * (end**-rate - (law.L + 0.5) ** -rate) / rate
        offset = (source - 0.5) / pole_distance
        if abs(offset) < 1:  # linear interpolation in the source
            ends = ((i, _early(law, 0.5 + i * pole_distance, n, z, kernel, tail0)) for i in (-1, 1))
            early = sum((1 + i * offset) / 2 * value for i, value in ends)
        else:
            early = _early(law, source, n, z, kernel, tail0)
        flow, frozen = flow + e0, frozen + F0
        steps = steps + early + e0 * (tail0 * gamma(b) - tail) - tail * F0
    noise = 0.5 * law.noise**2 * (mass * P - P**2 * tail)
    return Terms(P * flow, P * frozen + 0 * z, P**2 * steps, noise)


def _early(law, source, n, z, kernel, tail0):
    """Kernel times the regularised integral of gradient flow, plus the convolution of the two power laws.

    From g = 1 + b on the convolution is smaller than the neglected terms, and its next pole, at g = 2, does not cancel.
    """
    a, b = 1 + law.beta, law.beta / (1 + law.beta)
    g = (law.beta + 2 * source) / a
    integral = n * zeta(2 * source) / (4 * law.eta * law.L)
    if g >= 1 + b:
        return integral * kernel
    both = gamma(1 + b) * gamma(-b) * gamma(1 - g) * rgamma(1 - b - g)
    return integral * kernel + 0.5 * law.spectrum.s[0] / law.L * n * gamma(g) / a * z**-g * tail0 * both


# compute --------------------------------------------------------------------------------------------------------------


class Frontier(NamedTuple):
    """The best use of compute; made by :func:`overlaps.theory.scaling.Law.frontier`.

    Attributes
    ----------
    N_l : ndarray
        Trained features; whole numbers where the search was exact.
    alpha : ndarray
        Learning time.
    eps : ndarray
        Error there.
    """

    N_l: np.ndarray
    alpha: np.ndarray
    eps: np.ndarray


def best_eta(exponent: float, batch_size: int = 1) -> float:
    r"""Learning rate that minimises the error at a given time, where the error falls as (eta alpha)^-exponent.

    .. math:: \epsilon \sim \frac{\eta^{-g}}{2 - \eta/B} \quad\Rightarrow\quad \eta^* = \frac{2 B g}{1 + g}

    *Asymptotic*: in the window of the power law, no label noise. At moderate times the best rate is somewhat larger.
    Derived here.

    Parameters
    ----------
    exponent : float
        Exponent of the bias in time, ``law.exponents.time``; on the compute-optimal frontier ``law.exponents.compute``.
    batch_size : int
        Samples in one step.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.theory.scaling.best_eta(0.8), 4)
    0.8889
    """
    g = check.number("exponent", exponent, above=0)
    return 2 * check.count("batch_size", batch_size) * g / (1 + g)


def end_of_learning(beta, g):
    """The ratio x = zeta / N^(1 + beta) at which training should stop: root of a x^g (1 - e^-x) = Gamma(g + 1, x)."""

    def excess(y):  # in ln x: the left side grows, the right side falls
        return np.log((1 + beta) * -np.expm1(-np.exp(y))) + g * y - np.log(upper(g + 1, np.exp(y)))

    return float(np.exp(brentq(excess, -40.0, 4.0, xtol=1e-14)))


def closed_frontier(law, compute):
    """The Frontier of bias and floor in their common window."""
    rates = law.exponents
    if law.noise > 0 or law.student_scale > 0 or rates.time >= rates.kernel:
        raise ValueError(
            f"{law}: the closed frontier balances bias and floor; expected noise = 0, student_scale = 0 and "
            f"2 source < 1 + beta. Try exact=True."
        )
    g, gamma, u = rates.time, rates.features, law.spectrum.s[0] / law.L
    x = end_of_learning(law.beta, g)
    C = 2 * law.eta / law.batch_size * law.spectrum.s[0] * compute
    N = (C / x) ** rates.width
    N_l = N - 0.5
    if np.any(N_l < 1) or np.any(N_l > law.L):
        raise ValueError(
            f"compute = {check.shown(compute.tolist())} needs N_l = {N_l.min():.4g} to {N_l.max():.4g}; expected "
            f"numbers of features from 1 to L = {law.L}. Try exact=True, which stops at the ends."
        )
    f = x ** (-g * rates.width) * upper(g, x) / (1 + law.beta) + x ** (gamma * rates.width) / gamma
    P = np.reshape([law.amplitude(round(n)) for n in N_l.flat], N_l.shape)
    eps = P * u * law.teacher_scale / 2 * (C**-rates.compute * f - (law.L + 0.5) ** -gamma / gamma)
    return Frontier(N_l, compute / (law.batch_size * N), eps)


def exact_frontier(law, compute):
    """The best whole number of features by golden section in its logarithm, on the exact error."""
    optima = np.array([_best(law, c) for c in compute.flat]).T.reshape(2, *compute.shape)
    return Frontier(optima[0], compute / (law.batch_size * optima[0]), optima[1])


def _best(law, compute):
    """(N_l, error) of one amount of compute; the error has one minimum in N_l."""

    @cache
    def error(n):
        return float(law.error(compute / (law.batch_size * n), n))

    low, high, golden_ratio = 1, law.L, (5**0.5 - 1) / 2
    while high - low > 3:
        left = min(max(round(high * (low / high) ** golden_ratio), low + 1), high - 2)
        right = max(min(round(low * (high / low) ** golden_ratio), high - 1), left + 1)
        if error(left) < error(right):
            high = right
        else:
            low = left
    best = min(range(low, high + 1), key=error)
    return best, error(best)
