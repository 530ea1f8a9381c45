"""A closure bound to one pair of activations and the numbers of their learning, and its derivatives."""

from typing import Any, NamedTuple

import numpy as np
from numba import config, types

from .._base import check
from .._base.jit import BOOL, CUBE, INT, MATRIX, REAL, VECTOR, compile_once, jit
from .._base.lazy_compilation import compile_eagerly, is_compiled, is_lazy
from .._base.parallel import in_threads
from ..gaussian.tables import NO_TABLE
from ..gaussian.two_point import SIGN
from ._first_order import assemble, assemble_square
from ._relu_derivatives import relu_alignment

# Signature of all compiled closures:
# closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv) -> eps_g.
CLOSURE = REAL(MATRIX, VECTOR, VECTOR, INT, INT, REAL, REAL, REAL, BOOL, MATRIX, MATRIX, MATRIX, VECTOR)
SIMD_WIDTH = 32  # number of states in one SIMD batch, four registers of eight; shorter loops are dominated by start-up
BATCHED = types.void(CUBE, MATRIX, INT, VECTOR, BOOL, CUBE, MATRIX, CUBE, VECTOR, MATRIX)  # closures of ``_simd``


class DerivativeOptions(NamedTuple):
    """Tunable numbers of the derivatives of a closure; steps are relative to the overlaps."""

    # Sine of the angle between a kinked student and another unit below which exact derivatives are refused, because the
    # closure behaves like the angle there. Halved, derivatives are computed where they have fewer digits.
    aligned_sine: float = 1e-6
    # The same sine for Newton's iteration: below it, derivatives are those of a state moved this far from alignment.
    # The value matters little because the root is found by the velocity.
    newton_aligned_sine: float = 1e-5
    step: float = 2e-3  # for differences of closed forms; halved, rounding doubles, and truncation falls 64-fold
    # The step for closures by quadrature. Halved, their error of 1e-8 over the step doubles; doubled, the truncation
    # error of the sixth order grows 64-fold.
    quadrature_step: float = 2e-2
    min_variance: float = 1e-6  # relative to the largest; steps do not shrink with smaller variances
    min_eigenvalue: float = 1e-3  # steps do not shrink with smaller eigenvalues of the correlations
    # Largest relative difference of derivatives by two steps; above it, the closure is not smooth enough and is
    # refused.
    agreement_tol: float = 1e-5
    # Step of Newton's derivatives, for which a few digits suffice. Halved, the error of quadrature, 1e-8 over the step,
    # leaves less than four digits.
    newton_step: float = 1e-4
    sixth_order: tuple = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences: distances and coefficients


DERIVATIVES = DerivativeOptions()


ERRORS = types.void(types.FunctionType(CLOSURE), VECTOR, INT, INT, CUBE, MATRIX, VECTOR)  # signature of ``errors_of``


@jit
def errors_of(closure, parameters, K, teacher, S, w, eps_g):
    """Fill eps_g (n,) at S (n, K + M, K + M), w (n, K + M)."""
    M = w.shape[1] - K
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
    for i in range(len(eps_g)):
        eps_g[i] = closure(S[i], w[i], parameters, K, teacher, 1.0, 1.0, 0.0, False, A, B, C, dv)


def outputs(S, K):
    """New arrays A, B, C, dv for the closure of K students to fill at S (..., groups n, n)."""
    n = S.shape[-1]
    rows = S.shape[-2] // n * K
    return np.zeros((rows, K)), np.zeros((rows, n - K)), np.zeros((rows, K)), np.zeros(K)


class LearningNumbers(NamedTuple):
    """Numbers of students K and of static units M, and the numbers of learning that a closure needs."""

    K: int
    M: int
    eta: float
    eta_v: float
    noise: float
    second_order: bool  # whether C is computed


class Bound:
    """Closure f(S, w, A, B, C, dv) -> eps_g of one student and one teacher activation, which fills the arrays.

    Subclasses define ``__call__`` and set these attributes where they differ from the defaults.

    Attributes
    ----------
    student, teacher : Any
        The pair of functions.
    learning : LearningNumbers
        Number of students, learning rates and noise of the model.
    error : float
        Estimate of the absolute error of the entries of C at the last call.
    chance : float
        Largest relative error so far of integrals by Sobol points, which jump as breaks pass points; 0 for others.
    controls_error : bool
        Whether eps_g is accurate enough for the error control of a run.
    averaging_error : float
        Largest relative difference so far of A, B and eps_g of a rule between two sizes of quadrature.
    message : str
        Reason why the last refused state was refused; empty if none was.
    by_quadrature : bool
        Whether integrals are computed numerically: C may be refused, and derivatives need wide steps.
    by_chance : bool
        Whether integrals are averages over Sobol points, which limits the tolerance of a run.
    kinked : bool
        Whether g' of the student jumps at the origin.
    compiled, simd : callable or None
        Kernels for one state and for SIMD_WIDTH states; None where compiled code cannot call the closure.
    parameters : ndarray
        Numbers that ``compiled`` reads beside S and w, or its workspace.
    period : int
        Number of evaluations in compiled code after which the closure needs a check in Python; 0 if it needs none.
    accuracy : float
        Absolute rounding error of the averages, below which integrators choose no atol; 0 for closed forms.
    gradient_rate : float
        Divisor of A, B that gives the gradient of eps_g, up to the sign; inf where they are no gradient.
    """

    error = chance = accuracy = averaging_error = 0.0
    message = ""
    by_quadrature = by_chance = False
    controls_error = True
    kinked = False
    compiled: Any = None
    simd = None
    parameters = NO_TABLE
    period = 0

    def __init__(self, student, teacher, learning):
        self.student, self.teacher, self.learning = student, teacher, learning

    @property
    def gradient_rate(self):
        """The learning rate, because the recorded error is the loss."""
        return self.learning.eta

    def error_size(self, S, w):
        """Size of the cancelling terms of eps_g, for closures whose A and B are not its gradient; 0 elsewhere."""
        return 0.0

    def __repr__(self):
        return f"{type(self).__name__}({self.student!r}, {self.teacher!r}, K={self.learning.K})"

    def __call__(self, S, w, A, B, C, dv):
        """Fill A (K, K), B (K, M), dv (K,) and, for the second order, C (K, K); return eps_g."""
        raise NotImplementedError

    def compiled_parameters(self):
        """The parameters for evaluations in compiled code, up to the next call in Python."""
        return self.parameters

    def errors(self, S, w):
        """Eps_g (n,) at S (n, K + M, K + M) and w (n, K + M)."""
        values = outputs(S, self.learning.K)
        return np.array([self(S_i, w_i, *values) for S_i, w_i in zip(np.ascontiguousarray(S), w, strict=True)])

    def set_noise(self, noise):
        """Replace the standard deviation of the label noise, also of the closures that this one contains."""
        self.learning = self.learning._replace(noise=noise)
        for value in vars(self).values():
            if isinstance(value, Bound):
                value.set_noise(noise)

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is undefined or cannot be computed accurately."""
        if self.kinked:
            check_norms(S, self.learning.K)
        if getattr(self.teacher, "code", None) == SIGN and not np.min(np.diag(S)[self.learning.K :]) > 0:
            raise ValueError(
                "a teacher of signs has a field of variance zero, T_mm = 0, and no label; expected T_mm > 0."
            )

    def no_jacobian_reason(self, S, least=DERIVATIVES.newton_aligned_sine):
        """Reason why the closure has no derivatives at S, or an empty string."""
        if self.kinked and relu_alignment(S, self.learning.K) < least:
            return "a student with a kink is aligned with another unit, where the closure has no derivatives"
        return ""

    def arrays(self, S, w):
        """A, B, C, dv at (S, w), in new arrays."""
        values = outputs(S, self.learning.K)
        self(S, w, *values)
        return values

    def derivatives(self, S, w, *, exact):
        """Derivatives dA (d, K, K), dB (d, K, M), dC (d, K, K), ddv (d, K) along (triangle of Q, R, v) at (S, w).

        With ``exact``, all digits are required, and ``ValueError`` is raised where the closure has no derivatives.
        Otherwise a few digits suffice, as in Newton's iteration, and a nearby state may replace S.
        """
        if exact and self.kinked and self.no_jacobian_reason(S, DERIVATIVES.aligned_sine):
            raise ValueError(
                "a student with a kink is aligned with another unit: the closure has no derivative there (it behaves "
                "like the angle), so that the flow cannot be linearised. Expected students apart from each other and "
                "from the teachers; follow the trajectory with ov.solve instead."
            )
        return self._exact_derivatives(S, w) if exact else self._newton_derivatives(S, w)

    def _newton_derivatives(self, S, w):
        """Differences around S plus a multiple of the identity, so that S stays positive definite."""
        step = DERIVATIVES.newton_step * np.trace(S) / len(S)
        steps = step, DERIVATIVES.newton_step * max(np.abs(w[self.learning.K :]).max(), 1e-300)
        return central_differences(self.arrays, S + step * np.eye(len(S)), w, self._unknowns(w), steps)

    def _exact_derivatives(self, S, w):
        """Differences of sixth order, compared with those of twice the step."""
        step = DERIVATIVES.quadrature_step if self.by_quadrature else DERIVATIVES.step
        values, unknowns = self.arrays(S, w), self._unknowns(w)
        sizes, stencil = self._step_sizes(S), DERIVATIVES.sixth_order
        changes, coarse = (
            central_differences(self.arrays, S, w, unknowns, (h * sizes, h), stencil) for h in (step, 2 * step)
        )
        # Rounding error of a finite difference, from terms of the size of the closure: derivatives may be exactly zero.
        unit = np.finfo(float).eps * max(self.learning.eta, self.learning.eta_v) * np.max(np.abs(w)) ** 2 / step
        both = (zip(*x, strict=True) for x in (changes, coarse))
        for (i, j), fine_u, coarse_u in zip(unknowns, *both, strict=True):
            rounding = unit if j is None else unit / sizes[i, j]
            error = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(fine_u, coarse_u, strict=True))
            size = max(np.max(np.abs(x), initial=0.0) for x in (*fine_u, *values[:2]))
            if not error <= DERIVATIVES.agreement_tol * size + rounding:
                raise ValueError(
                    f"finite differences of the closure, {self!r}, do not converge: two steps differ by {error:.1e}, "
                    f"expected below {DERIVATIVES.agreement_tol:.0e} of {size:.1e}. The state may lie on the boundary "
                    "of possible overlaps (student = teacher); use an activation in closed form (ov.erf, ov.tanh, "
                    "ov.polynomial) there."
                )
        return changes

    def _step_sizes(self, S):
        """Sizes (n, n) of steps of S: one, and for kinked units proportional to their distance from alignment."""
        if not self.kinked or self.by_quadrature:
            return np.ones_like(S)
        return inner_steps(S)

    def _unknowns(self, w):
        """Indices (i, j) of the arguments S_ij, i <= j, in their order, then (k, None) for v_k."""
        K, n = self.learning.K, len(w)
        pairs = [(i, j) for i in range(K) for j in range(i, K)] + [(i, m) for i in range(K) for m in range(K, n)]
        return [*pairs, *((k, None) for k in range(K))]

    def _first_order(self, w, gg, dd, hh, A, B, dv):
        """Fill A, B, dv from E[g_i g_j] (n, n), E[g_k' g_j'] (K, n), E[g_k'' g_j] (K, n); return eps_g."""
        return assemble(w, self.learning.K, gg, dd, hh, self.learning.eta, self.learning.eta_v, A, B, dv)

    def _second_order(self, w, square, dd, C):
        """Fill C from E[g_k' g_l' Delta_0^2] and E[g_k' g_l']."""
        assemble_square(w, self.learning.K, square, dd, self.learning.eta, self.learning.noise, C)


class KernelClosure(Bound):
    """The closure of a student with closed forms (``Kernels``) and a teacher that they accept."""

    compiled_loop_from = 20  # evaluations from which a compiled loop is faster than one in Python; empirical
    # Number of students from which threads fill C. With fewer, C takes less than a millisecond, and threads cost more
    # than they save.
    threads_from = 40
    _threads = 1

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.kinked = bool(student.kinks)
        self._kernels, self._kernel = student.closed_forms, student.closed_forms.closure
        self.simd = self._kernels.simd if teacher == student else None
        # Stored because collecting the arguments takes a tenth of the time of a small closure.
        self._arguments = learning.K, teacher.code, *learning[2:]
        if self._kernels.workspace is not None:
            self.parameters = np.zeros(self._kernels.workspace(learning.K + learning.M))
        if learning.K >= self.threads_from:  # every call takes milliseconds in Python
            compile_eagerly()
        if self._kernels.chunk is not None and learning.second_order and learning.K >= self.threads_from:
            self._threads = vars(config)["NUMBA_NUM_THREADS"]
        # Kernels are plain functions where numba is disabled.
        if self._threads == 1 and hasattr(self._kernel, "compile"):
            self.compiled = self._kernel

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, code, eta, eta_v, noise, second_order = self._arguments
        if self._threads == 1:
            return self._kernel(S, w, self.parameters, K, code, eta, eta_v, noise, second_order, A, B, C, dv)
        eps_g = self._kernel(S, w, self.parameters, K, code, eta, eta_v, noise, False, A, B, C, dv)
        fill, m = self._kernels.chunk, self._threads
        in_threads(lambda i: fill(S, w, K, code, eta, noise, C, i, m), m)
        return eps_g

    def errors(self, S, w):
        """Eps_g (n,) at S (n, K + M, K + M) and w (n, K + M), in one compiled function."""
        few = self.compiled is None or len(S) < self.compiled_loop_from
        if few or (is_lazy() and not self.compiled.overloads and not is_compiled(self.compiled, CLOSURE.args)):
            return super().errors(S, w)
        self._kernel.compile(CLOSURE.args)  # with a return type: numba compiles this separately from calls by Python
        compile_once(errors_of, ERRORS)
        result, S, w = np.empty(len(S)), np.ascontiguousarray(S), np.ascontiguousarray(w)
        errors_of(self._kernel, self.parameters, *self._arguments[:2], S, w, result)
        return result

    def set_noise(self, noise):
        """Replace the standard deviation of the label noise."""
        super().set_noise(noise)
        self._arguments = self.learning.K, self.teacher.code, *self.learning[2:]

    def _exact_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._exact_derivatives(S, w)
        return self._kernel_derivatives(S, w)

    def _newton_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._newton_derivatives(S, w)
        S = np.array(S)
        for nearby in (bool(self.no_jacobian_reason(S)), True):
            if nearby:  # derivatives diverge at singular S
                S[np.diag_indices(len(S))] *= 1 + DERIVATIVES.newton_aligned_sine**2
            changes = self._kernel_derivatives(S, w)
            if all(np.all(np.isfinite(x)) for x in changes):
                break
        return changes

    def _kernel_derivatives(self, S, w):
        K, M = self.learning.K, len(w) - self.learning.K
        d = K * (K + 1) // 2 + K * M + K
        changes = tuple(np.zeros((d, *shape)) for shape in ((K, K), (K, M), (K, K), (K,)))
        self._kernels.derivatives(S, w, *self._arguments, *changes)
        return changes


def inner_steps(S):
    """Sizes (n, n) of steps of S, proportional to the least eigenvalue of the correlations of the fields."""
    norms = np.sqrt(np.maximum(np.diag(S), DERIVATIVES.min_variance * np.max(np.diag(S))))
    size = np.outer(norms, norms)
    return size * np.clip(np.linalg.eigvalsh(S / size)[0], DERIVATIVES.min_eigenvalue, 1.0)


def central_differences(evaluate, S, w, unknowns, steps, stencil=((1, 1 / 2),)):
    """Derivatives (d, ...) of the arrays ``evaluate(S, w)`` along S_ij, or w_i where j is None; steps of S and of w.

    ``stencil`` contains distances and coefficients, by default those of second order.
    """
    changes = []
    for i, j in unknowns:
        h, terms = steps[1] if j is None else np.broadcast_to(steps[0], S.shape)[i, j], []
        for distance, coefficient in stencil:
            for sign in (1, -1):
                Sh, wh = S.copy(), w.copy()
                if j is None:
                    wh[i] += sign * distance * h
                else:
                    Sh[i, j] = Sh[j, i] = S[i, j] + sign * distance * h
                terms.append([sign * coefficient / h * x for x in evaluate(Sh, wh)])
        changes.append([sum(array) for array in zip(*terms, strict=True)])
    return tuple(np.array(x) for x in zip(*changes, strict=True))


def check_norms(S, K):
    """Refuse students of zero norm with a kink at the origin: their gradient has no direction."""
    variances = np.diag(S)
    lowest = variances[:K].min()
    if lowest <= check.LIMITS.zero_norm * max(variances[K:].max(), 1.0):
        raise ValueError(
            f"a ReLU student has zero norm: the lowest Q_kk is {lowest:.3g}, expected > 0 (the gradient of a kinked "
            "unit has no direction there). Start from students of positive norm, e.g. student_scale=1e-3."
        )
