"""Exact closures of polynomial activations: Mehler's formula turns two-point integrals into finite sums.

    E[f(a) h(b)] = sum_r rho^r f_r h_r,    f_r = E_xi[he_r(xi) f(sigma_a xi)],    r <= degree.

The pair rule of ``_pairs`` with Gauss-Hermite nodes makes C exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial as poly

from ..gaussian.rules import gauss_hermite, hermite
from ._pairs import pair_square


@dataclass(frozen=True)
class Polynomial:
    """x -> sum_p coefficients_p x^p, vectorised."""

    coefficients: tuple

    def __call__(self, x):
        return poly.polyval(np.asarray(x, dtype=float), self.coefficients)

    def derivative(self):
        """The polynomial g'."""
        return Polynomial(tuple(poly.polyder(self.coefficients).tolist()))


class PolynomialClosure:
    """Closure f(S, w, A, B, C, dv) -> eps_g of two polynomial activations; exact to rounding, so ``error`` is 0."""

    error = 0.0

    def __init__(self, student, teacher, K, eta, eta_v, noise, second_order):
        self.student, self.teacher, self.K = student, teacher, K
        self.eta, self.eta_v, self.noise, self.second_order = eta, eta_v, noise, second_order
        self.degree = max(len(student.g.coefficients), len(teacher.g.coefficients)) - 1

    def __repr__(self):
        return f"PolynomialClosure(K={self.K}, degree={self.degree})"

    def __call__(self, S, w, A, B, C, dv):
        K, v = self.K, w[: self.K]
        gg, dd, hh = self._tables(S)
        H = np.outer(v, w) * dd
        H[np.diag_indices(K)] += v * (hh @ w)
        A[...], B[...], dv[...] = -self.eta * H[:, :K], -self.eta * H[:, K:], -self.eta_v * (gg[:K] @ w)
        if self.second_order:
            rule = gauss_hermite(2 * self.degree + 1)
            inner = gauss_hermite(self.degree + 1)
            square = pair_square(S, w, K, self.student, self.teacher, rule, inner, self.degree + 1)
            C[...] = self.eta**2 * np.outer(v, v) * (square + self.noise**2 * dd[:, :K])
        return 0.5 * w @ gg @ w

    def check(self, S, w):
        """Nothing can be refused: the integrals are exact."""

    def _tables(self, S):
        """E[g_i g_j] (n, n), E[g_k' g_j'] (K, n), E[g_k'' g_j] (K, n)."""
        sigma = np.sqrt(np.maximum(np.diag(S), 0.0))
        unit = np.where(sigma > 0.0, sigma, 1.0)
        rho = np.clip(S / np.outer(unit, unit), -1.0, 1.0)
        xi, q = gauss_hermite(self.degree + 1)
        projector = hermite(xi, self.degree + 1) * q[:, None]
        z = sigma[:, None] * xi
        K = self.K
        g = np.concatenate([self.student.g(z[:K]), self.teacher.g(z[K:])]) @ projector
        dg = np.concatenate([self.student.dg(z[:K]), self.teacher.dg(z[K:])]) @ projector
        d2g = self.student.d2g(z[:K]) @ projector
        powers = rho[..., None] ** np.arange(self.degree + 1)
        gg = np.einsum("ijr,ir,jr->ij", powers, g, g)
        dd = np.einsum("ijr,ir,jr->ij", powers[:K], dg[:K], dg)
        return gg, dd, np.einsum("ijr,ir,jr->ij", powers[:K], d2g, g)
