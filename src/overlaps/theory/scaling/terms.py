r"""The four terms of the error of a linear student at any learning rate: bias, floor, noise of the steps, label noise.

They follow from the renewal equation of the error, eps = eps_0 + k * eps, with eps_0 that of gradient flow and

.. math:: k(\alpha) = \frac{\eta^2}{B} \sum_{l \le N_l} p_l s_l^2 e^{-2\eta s_l\alpha} \sim \alpha^{-(1+b)} , \qquad
   \int_0^\infty k = \hat k = \frac{\eta}{2B} \sum_{l \le N_l} p_l s_l , \qquad P = \frac{1}{1-\hat k} .

The kernel decays fast enough to have a mass, so that slow parts of eps_0 are multiplied by P.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gamma, gammaincc, rgamma, zeta

__all__ = ["Terms"]

POLE = 0.02  # of the source, around 1/2: two contributions have poles there, which cancel up to what x has cut off


class Terms(NamedTuple):
    """Parts of the error for many eigenvalues; made by :func:`overlaps.theory.scaling.Law.terms`.

    Attributes
    ----------
    bias : ndarray
        Trained modes, as in gradient flow.
    floor : ndarray
        Frozen modes; constant in time.
    sgd : ndarray
        What the noise of the steps adds beyond the amplitude of bias and floor; may be negative.
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


def terms(law, alpha, N_l):
    """The four terms at checked times; amplitude(N_l) has to be finite."""
    a, b, B = 1 + law.beta, law.beta / (1 + law.beta), law.batch_size
    u, P = law.spectrum.s[0] / law.L, law.amplitude(N_l)
    z, end = 2 * law.eta * law.spectrum.s[0] * alpha, N_l + 0.5
    x = z * end**-a
    mass = 1 - 1 / P  # of the kernel
    kernel = law.eta**2 / B * u**2 * law.L * z ** -(1 + b) * upper(1 + b, x) / a
    tail0 = law.eta / (2 * B) * u * z**-b / a
    tail = tail0 * upper(b, x)
    flow = frozen = steps = 0.0
    for source, n in ((law.source, law.teacher_scale), (0.0, law.student_scale**2)):
        rate = law.beta + 2 * source
        e0 = 0.5 * u * n * z ** -(rate / a) * upper(rate / a, x) / a
        F0 = 0.5 * u * n * (end**-rate - (law.L + 0.5) ** -rate) / rate
        side = (source - 0.5) / POLE
        if abs(side) < 1:  # linear in the source between both sides
            early = sum((1 + i * side) / 2 * _early(law, 0.5 + i * POLE, n, z, kernel, tail0) for i in (-1, 1))
        else:
            early = _early(law, source, n, z, kernel, tail0)
        flow, frozen = flow + e0, frozen + F0
        steps = steps + early + e0 * (tail0 * gamma(b) - tail) - tail * F0
    noise = 0.5 * law.noise**2 * (mass * P - P**2 * tail)
    return Terms(P * flow, P * frozen + 0 * z, P**2 * steps, noise)


def _early(law, source, n, z, kernel, tail0):
    """Kernel after the regularised integral of gradient flow, and the convolution of the two power laws.

    From g = 1 + b on the convolution is smaller than what is neglected, and its next pole, at g = 2, has no partner.
    """
    a, b = 1 + law.beta, law.beta / (1 + law.beta)
    g = (law.beta + 2 * source) / a
    integral = n * zeta(2 * source) / (4 * law.eta * law.L)
    if g >= 1 + b:
        return integral * kernel
    both = gamma(1 + b) * gamma(-b) * gamma(1 - g) * rgamma(1 - b - g)
    return integral * kernel + 0.5 * law.spectrum.s[0] / law.L * n * gamma(g) / a * z**-g * tail0 * both
