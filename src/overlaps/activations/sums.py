"""Activations that are sums of scaled closed-form functions, g(x) = sum_j a_j h(b_j x).

A unit with such an activation is J units of a larger network whose fields are b_j z: the kernels of the closed forms
run on the expanded covariance, and the chain rule contracts the result.  All averages, eps_g included, are those of one
function g, so eps_g and C vanish together.  The closure is exact for teachers |x| = relu(x) + relu(-x) and leaky relu,
and approximate for odd sigmoids, which are fitted by sums of error functions.  Students with kinks have separate
kernels, because the opposite fields x and -x are singular.
"""

from typing import NamedTuple

import numpy as np
import scipy

from .._base.jit import jit
from ..gaussian.packed import matrix, packed, vector
from ._erf import erf_closure, erf_workspace
from ._first_order import eps_derivatives, first_order_derivatives, readout_product
from ._piecewise import piecewise_linear_closure
from ._relu import geometry
from ._relu_derivatives import relu_square_derivatives
from .bound import Bound
from .finite_differences import central_differences, unknowns
from .kernels import CODES, KERNELS


class ScaledSum(NamedTuple):
    """g(x) = sum_j amplitudes_j h(scales_j x), h the closed-form function of the code; ``error`` bounds |g - sum|."""

    code: int
    amplitudes: tuple = (1.0,)
    scales: tuple = (1.0,)
    error: float = 0.0


class MixtureClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of a student and a teacher that are mixtures.

    ``error`` is an estimate of the error of C: a first-order bound for fitted mixtures, 0 for exact ones.  Students
    with opposite relu fields x and -x have better closures (``_piecewise``, ``families``).
    """

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.parameters = packed([student.code, teacher.code], *(f[1:3] for f in (student, teacher)))
        self.labels = teacher.code == CODES.sign
        if student.code == CODES.erf and hasattr(erf_sum_closure, "compile"):
            self.compiled = erf_sum_closure

    def __repr__(self):
        return f"MixtureClosure(K={self.learning.K}, components={len(self.student.scales)}, {len(self.teacher.scales)})"

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, _, *rest = self.learning
        *terms, S_, w_, A_, B_, C_, dv_ = expand(S, w, self.parameters, K)
        kernels = KERNELS[self.student.code]
        workspace = np.empty(0 if kernels.workspace is None else kernels.workspace(len(S_)))
        eps_g = kernels.closure(S_, w_, workspace, dv_.size, self.teacher.code, *rest, A_, B_, C_, dv_)
        contract(K, *terms, self.learning.second_order, A_, B_, C_, dv_, A, B, C, dv)
        if self.learning.second_order:
            self.error = self._error(w, eps_g)
        return eps_g

    def _error(self, w, eps_g):
        # |d C_kl| <= 2 eta^2 |v_k v_l| sup|g'|^2 E|Delta dDelta|, with |dDelta| <= sum_c |w_c| error_c
        errors = np.where(np.arange(len(w)) < self.learning.K, self.student.error, self.teacher.error)
        steepest = abs(np.dot(self.student.amplitudes, self.student.scales))
        weight = np.max(np.abs(w[: self.learning.K])) * self.learning.eta * steepest
        return 2 * weight**2 * np.sqrt(2 * max(eps_g, 0.0)) * float(np.abs(w) @ errors)


class PiecewiseLinearClosure(Bound):
    """Closure f(S, w, A, B, C, dv) -> eps_g of units a x + b relu(x), given as (a, b); exact, so ``error`` is 0."""

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.kinked = bool(student[1] != 0.0)
        self.parameters = np.repeat([student, teacher], (learning.K, learning.M), axis=0).T.ravel()
        if hasattr(piecewise_linear_closure, "compile"):
            self.compiled = piecewise_linear_closure

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, _, *rest = self.learning
        return piecewise_linear_closure(S, w, self.parameters, K, -1, *rest, A, B, C, dv)

    def _exact_derivatives(self, S, w):
        """Derivatives of relu units of weights w b and of one linear teacher y = sum_c w_c a_c z_c (``_piecewise``)."""
        K, _, eta, eta_v, noise, second_order = self.learning
        n, arguments, (a, b) = len(w), unknowns(K, len(w) - K), self.parameters.reshape(2, -1)
        if np.min(np.diag(S)) <= 0.0:  # a teacher without variance has no step to differentiate
            return super()._exact_derivatives(S, w)
        c = np.outer(a, a) + (np.outer(a, b) + np.outer(b, a)) / 2

        def linear(S, w):
            """The terms with a, the covariance with y, and the weights, all at most quadratic in each unknown."""
            H, with_output = np.outer(w, w) * c, S @ (w * a)
            wider = np.block([[S, with_output[:, None]], [with_output, w * a @ with_output]])
            return -eta * H[:K, :K], -eta * H[:K, K:], -eta_v * (c * S @ w)[:K], w @ (c * S) @ w, wider, w * b

        # Differences of a quadratic function are exact for any step.
        *rest, deps, dS, dw = central_differences(linear, S, w, arguments, (1.0, 1.0))
        dA, dB, ddv = (np.zeros(x.shape) for x in rest)
        chain, loss = np.concatenate([np.ones(len(arguments) - K), b[:K]]), np.empty(len(arguments))
        first_order_derivatives(S, w * b, K, CODES.relu, CODES.relu, eta, eta_v, dA, dB, ddv)
        eps_g = eps_derivatives(S, w * b, K, CODES.relu, CODES.relu, loss) + w @ (c * S) @ w / 2
        ddv *= b[:K]
        dA, dB, ddv = (x + (y.T * chain).T for x, y in zip(rest, (dA, dB, ddv), strict=True))
        dC = np.zeros((len(arguments), K, K))
        if second_order:
            X, dX = np.empty((n, n)), np.zeros((n * (n + 1) // 2 + 2 * n, n, n))
            relu_square_derivatives(linear(S, w)[-2], np.append(w * b, 1.0), n, K, CODES.linear, noise, X, dX)
            change = np.concatenate([dS[(slice(None), *np.triu_indices(n))], dS[:, :n, n], dw], axis=1)
            moving = np.any(change != 0, axis=0)  # excludes the overlaps of teachers, which are constant
            dX = np.tensordot(change[:, moving], dX[moving, :K, :K], 1)
            dX += np.multiply.outer(dS[:, n, n], 0.25 + geometry(S)[3][:K, :K] / (2 * np.pi))  # E[theta theta]
            dC[:] = self._with_slopes(dX, deps + 2 * chain * loss)
            readout_product(self._with_slopes(X[:K, :K], 2 * eps_g + noise**2), w, K, n, eta**2, dC)
        return dA, dB, dC, ddv

    def _with_slopes(self, X, total):
        """E[g_k' g_l' Delta^2] from X_kl = E[theta_k theta_l Delta^2], or from changes of X; total: E[Delta^2]."""
        (a, b), one = self.student, np.einsum("...kk->...k", X)
        return a * a * np.asarray(total)[..., None, None] + a * b * (one[..., None] + one[..., None, :]) + b * b * X


def fit_erf_mixture(g, J=4):
    """Mixture of J error functions close to an odd sigmoid g; None if g is no odd sigmoid.

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
        return scipy.special.erf(x[:, None] * np.exp(log_b) * np.sqrt(0.5))

    def residual(log_b):
        return columns(log_b) @ np.linalg.lstsq(columns(log_b), y, rcond=None)[0] - y

    first, tolerances = np.log(np.geomspace(0.3, 1.5, J) / half), {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-14}
    log_b = scipy.optimize.least_squares(residual, first, **tolerances).x
    amplitudes = np.linalg.lstsq(columns(log_b), y, rcond=None)[0]
    error = float(max(np.max(np.abs(residual(log_b))), abs(np.sum(amplitudes) - top)))
    return ScaledSum(CODES.erf, tuple(amplitudes.tolist()), tuple(np.exp(log_b).tolist()), error)


@jit
def expand(S, w, parameters, K):
    """Field, scale and amplitude of each term, and the arguments of a closure of the terms: S, w, A, B, C, dv.

    The arrays in the parameters are the codes of h of students and teachers, (a, b) of a student, (a, b) of a teacher.
    """
    n, students, teachers = S.shape[0], matrix(parameters, 1), matrix(parameters, 2)
    J, Jt = students.shape[1], teachers.shape[1]
    units, size = K * J, K * J + (n - K) * Jt
    field, scale, amplitude = np.empty(size, np.int64), np.empty(size), np.empty(size)
    S_, w_ = np.empty((size, size)), np.empty(size)
    for i in range(size):
        if i < units:
            unit, j = i // J, i % J
            amplitude[i], scale[i] = students[0, j], students[1, j]
        else:
            unit, j = K + (i - units) // Jt, (i - units) % Jt
            amplitude[i], scale[i] = teachers[0, j], teachers[1, j]
        field[i] = unit
        # Each term is a unit, with the amplitude in its second layer and the scale in its field.
        w_[i] = amplitude[i] * w[unit]
        for k in range(i + 1):  # the product of scales first, so that the fields z and -z stay exactly opposite
            S_[i, k] = S_[k, i] = S[unit, field[k]] * (scale[i] * scale[k])
    A, B, C = np.empty((units, units)), np.empty((units, size - units)), np.zeros((units, units))
    return field, scale, amplitude, S_, w_, A, B, C, np.empty(units)


@jit(no_reference_counting=True)
def contract(K, field, scale, amplitude, second_order, A_, B_, C_, dv_, A, B, C, dv):
    """Chain rule: A_kl = sum_ij b_i b_j A'_(ki)(lj), B and C likewise, dv_k = sum_j a_j dv'_(kj)."""
    units = dv_.size
    A[:] = 0.0
    B[:] = 0.0
    dv[:] = 0.0
    if second_order:
        C[:] = 0.0
    for i in range(units):
        k = field[i]
        dv[k] += amplitude[i] * dv_[i]
        for j in range(units):
            A[k, field[j]] += scale[i] * scale[j] * A_[i, j]
            if second_order:
                C[k, field[j]] += scale[i] * scale[j] * C_[i, j]
        for j in range(units, field.size):
            B[k, field[j] - K] += scale[i] * scale[j] * B_[i, j - units]


@jit
def erf_sum_closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Compiled closure of students that are sums of erf; the parameters are those of ``expand``."""
    field, scale, amplitude, S_, w_, A_, B_, C_, dv_ = expand(S, w, parameters, K)
    code, workspace = int(vector(parameters, 0)[1]), np.empty(erf_workspace(w_.size))
    eps_g = erf_closure(S_, w_, workspace, dv_.size, code, eta, eta_v, noise, second_order, A_, B_, C_, dv_)
    contract(K, field, scale, amplitude, second_order, A_, B_, C_, dv_, A, B, C, dv)
    return eps_g
