"""Polynomials, and the exact closure of polynomial students with polynomial teachers.

Two-point integrals are finite sums (``mehler``). The quadrature of ``_pairs`` with Gauss-Hermite nodes is exact for C.

Mehler's sums: jointly Gaussian fields a and b with covariance S_ab have, without normalising the fields,

    E[f(a) h(b)] = sum_r S_ab^r E[f^(r)(a)] E[h^(r)(b)] / r!.

The sum ends where one of the functions is a polynomial, at its degree, and for relu beside erf at r = 1: higher
derivatives have a mean only of even order for relu, only of odd order for erf.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial as poly

from ..gaussian.quadrature import gauss_hermite
from ..gaussian.tables import polynomial_table
from ._pairs import covariance, fill_pairs
from .bound import Bound


@dataclass(frozen=True)
class Polynomial:
    """x -> sum_p coefficients_p x^p, vectorised."""

    coefficients: tuple

    def __call__(self, x):
        """g(x)."""
        return poly.polyval(np.asarray(x, dtype=float), self.coefficients)

    @property
    def recipe(self):
        """Entry of a file: (function that makes the activation, its parameter)."""
        return "polynomial", self.coefficients

    def derivative(self):
        """The polynomial g'."""
        return Polynomial(tuple(poly.polyder(self.coefficients).tolist()))


class PolynomialClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of two polynomials (``Parts``); exact to rounding, so ``error`` is 0."""

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.degree = max(student.degree, teacher.degree)
        self.functions = [polynomial_table(g.coefficients).data for g in (student, teacher)]

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g. All are nan where S is not finite, so that an integrator rejects the step."""
        if not np.isfinite(S).all():
            for array in (A, B, C, dv):
                array[...] = np.nan
            return np.nan
        K = self.learning.K
        variance = np.diag(S)
        units = (self.student, variance[:K]), (self.teacher, variance[K:])
        m = np.concatenate([mean_derivatives(g, s, self.degree + 3) for g, s in units])
        gg, dd, hh = mehler(S, m, m), mehler(S[:K], m[:K], m, 1, 1), mehler(S[:K], m[:K], m, 2, 0)
        if self.learning.second_order:
            outer, inner = gauss_hermite(2 * self.degree + 1), gauss_hermite(self.degree + 1)
            square = np.empty((K, K))
            fill_pairs(covariance(S), w, K, *self.functions, *outer, *inner, self.degree + 1, False, square)
            self._second_order(w, square, dd[:, :K], C)
        return self._first_order(w, gg, dd, hh, A, B, dv)


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
