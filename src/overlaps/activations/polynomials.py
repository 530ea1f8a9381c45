"""Polynomials, and the exact closure of polynomial students with polynomial teachers.

Two-point integrals are finite sums (``mehler``); the pair rule of ``_pairs`` with Gauss-Hermite nodes makes C exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial as poly

from ..gaussian.rules import gauss_hermite
from ..gaussian.tables import polynomial_table
from ._pairs import covariance, fill_pairs
from .bound import Bound
from .mehler import mean_derivatives, mehler


@dataclass(frozen=True)
class Polynomial:
    """x -> sum_p coefficients_p x^p, vectorised."""

    coefficients: tuple

    def __call__(self, x):
        """g(x)."""
        return poly.polyval(np.asarray(x, dtype=float), self.coefficients)

    @property
    def recipe(self):
        """Record for a file: (the function that makes the activation, its parameter)."""
        return "polynomial", self.coefficients

    def derivative(self):
        """The polynomial g'."""
        return Polynomial(tuple(poly.polyder(self.coefficients).tolist()))


class PolynomialClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of two polynomials (``Parts``); exact to rounding, so ``error`` is 0."""

    def __init__(self, student, teacher, rule):
        super().__init__(student, teacher, rule)
        self.degree = max(student.degree, teacher.degree)
        self.functions = [polynomial_table(g.coefficients).data for g in (student, teacher)]

    def __repr__(self):
        return f"PolynomialClosure(K={self.rule.K}, degree={self.degree})"

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g: all nan for the overlaps of a step too far, as in compiled closures."""
        if not np.isfinite(S).all():
            for each in (A, B, C, dv):
                each[...] = np.nan
            return np.nan
        K = self.rule.K
        variance = np.diag(S)
        parts = (self.student, variance[:K]), (self.teacher, variance[K:])
        m = np.concatenate([mean_derivatives(g, s, self.degree + 3) for g, s in parts])
        gg, dd, hh = mehler(S, m, m), mehler(S[:K], m[:K], m, 1, 1), mehler(S[:K], m[:K], m, 2, 0)
        if self.rule.second_order:
            outer, inner = gauss_hermite(2 * self.degree + 1), gauss_hermite(self.degree + 1)
            square = np.empty((K, K))
            fill_pairs(covariance(S), w, K, *self.functions, *outer, *inner, self.degree + 1, False, square)
            self._second_order(w, square, dd[:, :K], C)
        return self._first_order(w, gg, dd, hh, A, B, dv)
