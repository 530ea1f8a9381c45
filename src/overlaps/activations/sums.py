"""Activations that are sums of scaled closed-form functions, g(x) = sum_j a_j h(b_j x).

A unit with such an activation is J units of a larger network whose fields are b_j z: the kernels of the closed forms
run on the expanded covariance, and the chain rule contracts the result (``_sums``).
Everything, eps_g included, then belongs to one and the same function g, so eps_g and C vanish together.  Exact for
teachers |x| = relu(x) + relu(-x) and leaky relu; an approximation of odd sigmoids as sums of error functions.  Students
with kinks have kernels of their own, which never meet the opposite fields x and -x.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import erf

from ._piecewise import piecewise_linear_closure
from ._sums import contract, erf_sum_closure, expand
from .bound import Bound
from .kernels import ERF, KERNELS


class ScaledSum(NamedTuple):
    """g(x) = sum_j amplitudes_j h(scales_j x), h the closed-form function of the code; ``error`` bounds |g - sum|."""

    code: int
    amplitudes: tuple = (1.0,)
    scales: tuple = (1.0,)
    error: float = 0.0


class MixtureClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of a student and a teacher that are mixtures.

    ``error`` is an estimate of the error of C: a first-order bound for fitted mixtures, 0 for exact ones.  Students
    that need opposite relu fields x and -x have better closures (``_piecewise``, ``families``).
    """

    def __init__(self, student, teacher, rule):
        super().__init__(student, teacher, rule)
        codes, numbers = (student.code, teacher.code), (len(student.scales), len(teacher.scales))
        terms = *student.amplitudes, *student.scales, *teacher.amplitudes, *teacher.scales
        self.parameters = np.array([*codes, *numbers, *terms], dtype=float)
        if student.code == ERF and hasattr(erf_sum_closure, "compile"):
            self.compiled = erf_sum_closure

    def __repr__(self):
        return f"MixtureClosure(K={self.rule.K}, components={len(self.student.scales)}, {len(self.teacher.scales)})"

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, *rest = self.rule
        *terms, S_, w_, A_, B_, C_, dv_ = expand(S, self.extended(w), K)
        closure = KERNELS[self.student.code].closure
        eps_g = closure(S_, w_[: len(S_)], dv_.size, self.teacher.code, *rest, A_, B_, C_, dv_)
        contract(K, *terms, self.rule.second_order, A_, B_, C_, dv_, A, B, C, dv)
        if self.rule.second_order:
            self.error = self._error(w, eps_g)
        return eps_g

    def _error(self, w, eps_g):
        # |d C_kl| <= 2 eta^2 |v_k v_l| sup|g'|^2 E|Delta dDelta|, with |dDelta| <= sum_c |w_c| error_c
        errors = np.where(np.arange(len(w)) < self.rule.K, self.student.error, self.teacher.error)
        steepest = abs(np.dot(self.student.amplitudes, self.student.scales))
        weight = np.max(np.abs(w[: self.rule.K])) * self.rule.eta * steepest
        return 2 * weight**2 * np.sqrt(2 * max(eps_g, 0.0)) * float(np.abs(w) @ errors)


class PiecewiseLinearClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of units a x + b relu(x), given by (a, b); exact, so ``error`` is 0."""

    def __init__(self, student, teacher, rule):
        super().__init__(student, teacher, rule)
        self.kinked = bool(student[1] != 0.0)

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, *rest = self.rule
        a, b = np.ascontiguousarray(np.array([self.student] * K + [self.teacher] * (len(w) - K)).T)
        return piecewise_linear_closure(S, w, K, a, b, *rest, A, B, C, dv)


def fit_erf_mixture(g, J=4):
    """Mixture of J error functions close to an odd sigmoid g, or None when g is not one.

    Least squares in the J scales; the amplitudes follow linearly.  For tanh the error is 1e-5 at J = 4.
    """
    top = float(g(np.array([50.0]))[0])
    x = np.linspace(-50.0, 50.0, 2001)
    if not top or np.max(np.abs(g(x) + g(-x))) > 1e-12 * abs(top) or abs(top / g(np.array([45.0]))[0] - 1) > 1e-6:
        return None
    x = np.linspace(0.0, 50.0, 20001)
    half = x[np.argmax(np.abs(g(x)) > 0.5 * abs(top))]
    x = np.linspace(0.0, 16 * half, 801)[1:]
    y = g(x)

    def columns(log_b):
        return erf(x[:, None] * np.exp(log_b) * np.sqrt(0.5))

    def residual(log_b):
        return columns(log_b) @ np.linalg.lstsq(columns(log_b), y, rcond=None)[0] - y

    start = np.log(np.geomspace(0.3, 1.5, J) / half)
    log_b = least_squares(residual, start, xtol=1e-12, ftol=1e-12, gtol=1e-14).x
    amplitudes = np.linalg.lstsq(columns(log_b), y, rcond=None)[0]
    error = float(max(np.max(np.abs(residual(log_b))), abs(np.sum(amplitudes) - top)))
    return ScaledSum(ERF, tuple(amplitudes.tolist()), tuple(np.exp(log_b).tolist()), error)
