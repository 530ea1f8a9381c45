"""Exact closures of students and teachers of different families: polynomials, piecewise linear, sums of erf.

The closures of the students alone and of the teachers alone are those of one family.  The teachers' output Y adds
two-point functions of different families to the students' G, whose Mehler sums are finite,

    E[f(a) h(b)] = sum_r S_ab^r E[f^(r)] E[h^(r)] / r!

(at the degree of a polynomial; at r = 1 for relu beside erf, which share one odd term), and in C the moments

    E[g_k' g_l' (2 G Y + Y^2)]:

- erf students: g_k' g_l' tilts the Gaussian measure (``_erf``), and Mehler sums remain;
- piecewise-linear students: moments over the orthants where fields are positive (``kink_orthants``; ``_piecewise`` for
  erf teachers);
- polynomial students: E[g_k' g_l' | two fields of Delta] is a polynomial in these, integrated over the sectors between
  the teachers' kinks; erf(z / sqrt 2) = E[sign(z + xi)] has its kink in a field with one more independent N(0, 1).
"""

import math
from typing import NamedTuple

import numpy as np

from ..gaussian.quadrature import gauss_hermite, hermite
from ..gaussian.two_point import ERF, QUADRATIC, RELU, SIGN
from ._pairs import residual_correlations
from ._piecewise import kinked_erf_square
from .bound import Bound
from .kink_orthants import loadings, plane, positive_moments
from .polynomials import Polynomial, mean_derivatives, mehler


class Parts(NamedTuple):
    """g(x) = sum_p coefficients_p x^p + kink relu(x) + sum_j amplitudes_j erf(scales_j x / sqrt 2), of one family.

    A polynomial, or a x + kink relu(x), or the sum of error functions; ``error`` bounds the distance of that sum from
    the function that it approximates.
    """

    coefficients: tuple = (0.0,)
    kink: float = 0.0
    amplitudes: tuple = ()
    scales: tuple = ()
    error: float = 0.0

    def __repr__(self):
        return "piecewise linear" if self.kink else "sum of erf" if self.amplitudes else "polynomial"

    @property
    def is_polynomial(self):
        """Whether g is a polynomial."""
        return not self.kink and not self.amplitudes

    @property
    def is_piecewise_linear(self):
        """Whether g(x) = slope x + kink relu(x)."""
        return not self.amplitudes and len(self.coefficients) <= 2 and self.coefficients[0] == 0.0

    @property
    def slope(self):
        """Coefficient of x."""
        return (*self.coefficients, 0.0)[1]

    @property
    def degree(self):
        """Degree as a polynomial on each side of the kink."""
        return max(len(self.coefficients) - 1, 1 if self.kink else 0)

    def __call__(self, x):
        """g(x) of a polynomial or piecewise-linear function."""
        return Polynomial(self.coefficients)(x) + self.kink * np.maximum(x, 0.0)

    def derivative(self, x):
        """g'(x)."""
        total = Polynomial(self.coefficients).derivative()(x) + self.kink * (np.asarray(x) > 0)
        for amplitude, scale in zip(self.amplitudes, self.scales, strict=True):
            total = total + amplitude * scale * math.sqrt(2 / math.pi) * np.exp(-0.5 * (scale * x) ** 2)
        return total


def parts_of(activation):
    """The activation as ``Parts`` if it belongs to one of the families by construction, else None."""
    if isinstance(activation.g, Polynomial):
        return Parts(activation.g.coefficients)
    mixture = activation.closed_sum
    if mixture is None or mixture.code == SIGN:
        return None
    amplitudes, scales = np.array(mixture.amplitudes), np.array(mixture.scales)
    if mixture.code == ERF:
        return Parts(amplitudes=mixture.amplitudes, scales=mixture.scales, error=mixture.error)
    if mixture.code == QUADRATIC:
        return Parts((0.0, 0.0, float(amplitudes @ scales**2)))
    if mixture.code == RELU:  # relu(-x) = relu(x) - x
        return Parts((0.0, float(amplitudes @ np.minimum(scales, 0.0))), float(amplitudes @ np.abs(scales)))
    return Parts((0.0, float(amplitudes @ scales)))


class FamiliesClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of a student and a teacher of different families; exact to rounding.

    ``students`` and ``teachers`` are the closures of one family; ``error`` is an estimate of the error of C, of first
    order in the errors of fitted sums of erf and 0 for exact functions.
    """

    def __init__(self, student, teacher, learning, students, teachers):
        super().__init__(student, teacher, learning)
        self.students, self.teachers = students, teachers
        self.kinked = bool(student.kink)
        self.orders = max(student.degree, teacher.degree) + 3

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, _, eta, eta_v, _, second_order = self.learning
        v, u = w[:K], w[K:]
        eps_g = self.students(np.ascontiguousarray(S[:K, :K]), v, A, np.empty((K, 0)), C, dv)
        nothing = np.empty((0, 0)), np.empty((0, len(u))), np.empty((0, 0)), np.empty(0)
        added = self.teachers(np.ascontiguousarray(S[K:, K:]), u, *nothing)
        variance = np.maximum(np.diag(S), 0.0)
        f = mean_derivatives(self.student, variance[:K], self.orders)
        h = mean_derivatives(self.teacher, variance[K:], self.orders)
        gh = mehler(S[:K, K:], f, h)
        A[np.diag_indices(K)] -= eta * v * (mehler(S[:K, K:], f, h, 2, 0) @ u)
        B[...] = -eta * np.outer(v, u) * mehler(S[:K, K:], f, h, 1, 1)
        dv -= eta_v * gh @ u
        added += v @ gh @ u
        if second_order:
            with np.errstate(all="ignore"):  # nan where a trial step of an integrator gives no covariance
                C += eta**2 * np.outer(v, v) * self._added_square(S, w, 2 * added)
                self.error = self._error(S, w, eps_g + added)
        return eps_g + added

    def _added_square(self, S, w, total):
        """E[g_k' g_l' (2 G Y + Y^2)] (K, K), given total = E[2 G Y + Y^2]."""
        K, student, teacher = self.learning.K, self.student, self.teacher
        if student.amplitudes:
            return tilted_square(S, w, K, student, teacher)
        if student.is_polynomial:
            return polynomial_square(S, w, K, student, teacher)
        a, b = student.slope, student.kink
        if teacher.amplitudes:
            square = kinked_erf_square(*_erf_units(S, w, K, teacher), K, a, b)
        else:
            square = positive_moments(S, w, K, a, b, teacher)
        single = np.diag(square)
        return a * a * total + a * b * (single[:, None] + single) + b * b * square

    def _error(self, S, w, eps_g):
        # |d C_kl| <= 2 eta^2 |v_k v_l| E|g_k' g_l' Delta dDelta|, with |dDelta| <= sum_c |w_c| error_c
        K = self.learning.K
        errors = np.where(np.arange(len(w)) < K, self.student.error, self.teacher.error)
        if not np.any(errors):
            return 0.0
        xi, q = gauss_hermite(40)
        slopes = self.student.derivative(np.sqrt(np.maximum(np.diag(S)[:K], 0.0))[:, None] * xi)
        steepest = np.max(np.abs(w[:K]) * (slopes**4 @ q) ** 0.25)
        return float(2 * (self.learning.eta * steepest) ** 2 * np.sqrt(2 * max(eps_g, 0.0)) * (np.abs(w) @ errors))


def _erf_units(S, w, K, teacher):
    """Covariance and weights of a network with one teacher for each error function."""
    J, M = len(teacher.scales), len(w) - K
    field = np.concatenate([np.arange(K), np.repeat(np.arange(K, len(w)), J)])
    scale = np.concatenate([np.ones(K), np.tile(teacher.scales, M)])
    amplitude = np.concatenate([np.ones(K), np.tile(teacher.amplitudes, M)])
    return S[np.ix_(field, field)] * np.outer(scale, scale), amplitude * w[field]


def tilted_square(S, w, K, student, teacher):
    """E[g_k' g_l' (2 G Y + Y^2)] of erf students: Mehler sums under the measure tilted by two slopes (``_erf``)."""
    J, orders = len(student.scales), teacher.degree + 1
    field, scale = np.repeat(np.arange(K), J), np.tile(student.scales, K)
    a, b = np.tril_indices(K * J)
    to_a, to_b = scale[a, None] * S[field[a]], scale[b, None] * S[field[b]]
    saa, sbb = scale[a] ** 2 * S[field[a], field[a]], scale[b] ** 2 * S[field[b], field[b]]
    sab = scale[a] * scale[b] * S[field[a], field[b]]
    det = 1.0 + saa + sbb + (saa * sbb - sab * sab)
    e = to_a / np.sqrt(1.0 + saa)[:, None]
    f = (to_b - (sab / (1.0 + saa))[:, None] * to_a) * np.sqrt((1.0 + saa) / det)[:, None]
    St = S - e[:, :, None] * e[:, None, :] - f[:, :, None] * f[:, None, :]
    variance = np.maximum(np.diagonal(St, axis1=1, axis2=2), 0.0)
    g = mean_derivatives(student, variance[:, :K], orders)
    h = mean_derivatives(teacher, variance[:, K:], orders)
    v, u = w[:K], w[K:]
    square = 2 * np.einsum("pkm,k,m->p", mehler(St[:, :K, K:], g, h), v, u)
    square += np.einsum("pij,i,j->p", mehler(St[:, K:, K:], h, h), u, u)
    slopes = np.tile(student.amplitudes, K) * scale
    full = np.zeros((K * J, K * J))
    full[a, b] = full[b, a] = 2 / np.pi / np.sqrt(det) * square * slopes[a] * slopes[b]
    return full.reshape(K, J, K, J).sum(axis=(1, 3))


def polynomial_square(S, w, K, student, teacher):
    """E[g_k' g_l' (2 G Y + Y^2)] of polynomial students and teachers with kinks: sum over pairs of terms of Delta."""
    J, M = max(len(teacher.scales), 1), len(w) - K
    # erf(b z / sqrt 2) = E[sign(z + xi / b)], with an independent xi in each factor.
    h, added, factors = teacher, np.zeros(J), np.ones(J)
    if teacher.amplitudes:
        h, added, factors = np.sign, np.square(teacher.scales) ** -1.0, np.sign(teacher.scales) * teacher.amplitudes
    field = np.concatenate([np.arange(K), np.repeat(np.arange(K, K + M), J)])
    variance = np.maximum(np.diag(S)[field] + np.concatenate([np.zeros(K), np.tile(added, M)]), 0.0)
    weight = np.concatenate([w[:K], np.repeat(w[K:], J) * np.tile(factors, M)])
    pairs = np.array([(c, d) for d in range(K, len(field)) for c in range(d + 1)])
    # 2^14: pairs of terms that are integrated at once, times the size of each; limits the memory
    size = max(1, 2**14 // (max(K, 1) * (student.degree + 1) ** 3))
    square = np.zeros((K, K))
    for c, d in (chunk.T for chunk in np.array_split(pairs, len(pairs) // size + 1)):
        i, j, root = field[c], field[d], np.sqrt(variance[c] * variance[d])
        correlation = np.clip(np.divide(S[i, j], root, out=np.zeros_like(root), where=root > 0.0), -1.0, 1.0)
        x, y, across, p = plane(correlation, 2 * max(student.degree - 1, 0) + student.degree + teacher.degree)
        si, sj = np.sqrt(variance[c])[:, None], np.sqrt(variance[d])[:, None]
        F = np.where(c[:, None] < K, student(si * x), h(si * x)) * h(sj * y) * p
        F *= ((2.0 - (c == d)) * weight[c] * weight[d])[:, None]
        units = (i, si), (j, sj)
        first, second = (np.divide(S[k, :K], s, out=np.zeros((len(k), K)), where=s > 0.0) for k, s in units)
        alpha, beta = loadings(first, second, correlation[:, None])
        square += _slope_products(S[:K, :K], alpha, beta, x, across, F, student)
    return square


def _slope_products(Q, alpha, beta, x, across, F, student):
    """Sum of F E[g_k' g_l' | point] over points (pairs, points); alpha, beta (pairs, K) are the students' loadings."""
    modes = max(student.degree, 1)
    xi, q = gauss_hermite(modes)
    s, rho = residual_correlations(Q - alpha[:, :, None] * alpha[:, None] - beta[:, :, None] * beta[:, None])
    mean = alpha[:, None] * x[..., None] + beta[:, None] * across[..., None]
    slopes = student.derivative(mean[..., None] + s[:, None, :, None] * xi) @ (hermite(xi, modes) * q[:, None])
    total, power = 0.0, np.ones_like(rho)
    for r in range(modes):
        y = slopes[..., r]
        total = total + np.sum(power * ((F[..., None] * y).swapaxes(1, 2) @ y), axis=0)
        power = power * rho
    return total
