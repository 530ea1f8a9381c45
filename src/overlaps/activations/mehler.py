"""Two-point Gaussian integrals as finite sums over mean derivatives.

Jointly Gaussian fields a and b with covariance S_ab have (Mehler, without normalising the fields)

    E[f(a) h(b)] = sum_r S_ab^r E[f^(r)(a)] E[h^(r)(b)] / r!.

The sum ends where one of the functions is a polynomial, at its degree, and for relu beside erf at r = 1: higher
derivatives have a mean only of even order for relu, only of odd order for erf.
"""

import math

import numpy as np


def mean_derivatives(g, variance, orders):
    """E[g^(r)(z)], r < orders, for z ~ N(0, variance); a last axis of length ``orders``."""
    v = np.asarray(variance, dtype=float)
    m = np.zeros((*v.shape, orders))
    for p, c in enumerate(g.coefficients):
        for j in range(p // 2 + 1):
            if p - 2 * j < orders:
                m[..., p - 2 * j] += c * math.factorial(p) / (2**j * math.factorial(j)) * v**j
    if g.kink:
        sigma = np.sqrt(np.maximum(v, 0.0))
        m[..., 0] += g.kink * sigma / math.sqrt(2 * math.pi)
        m[..., 1] += 0.5 * g.kink
        per = np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > 0.0)
        for j in range((orders - 1) // 2):  # derivatives of the density at 0
            c = (-1) ** j * math.factorial(2 * j) / (2**j * math.factorial(j)) / math.sqrt(2 * math.pi)
            m[..., 2 * j + 2] += g.kink * c * per ** (2 * j + 1)
    for amplitude, scale in zip(g.amplitudes, g.scales, strict=True):
        t = scale / np.sqrt(2 * (1 + scale * scale * v))
        for q in range(orders // 2):
            c = 2 / math.sqrt(math.pi) * (-1) ** q * math.factorial(2 * q) / math.factorial(q)
            m[..., 2 * q + 1] += amplitude * c * t ** (2 * q + 1)
    return m


def mehler(S, f, h, i=0, j=0):
    """E[f^(i)(a) h^(j)(b)] for covariances S (..., k, m), from the mean derivatives f (..., k, :) and h (..., m, :)."""
    total, power = 0.0, np.ones_like(S)
    for r in range(f.shape[-1] - max(i, j)):
        total = total + power * f[..., :, None, r + i] * h[..., None, :, r + j] / math.factorial(r)
        power = power * S
    return total
