"""A closure bound to one pair of activations and one rule of learning, and its derivatives."""

from typing import Any, NamedTuple

import numpy as np
from numba import config, types

from .._base import check
from .._base.jit import BOOL, CUBE, INT, MATRIX, REAL, VECTOR, compile_once, jit
from .._base.lazy_compilation import compile_eagerly, is_compiled, is_lazy
from .._base.parallel import in_threads
from ..gaussian.tables import NOTHING
from ..gaussian.two_point import SIGN
from ._first_order import assemble, assemble_square
from ._relu_derivatives import relu_alignment

# what compiled code calls: closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv) -> eps_g
CLOSURE = REAL(MATRIX, VECTOR, INT, INT, REAL, REAL, REAL, BOOL, MATRIX, MATRIX, MATRIX, VECTOR)
SIMD_WIDTH = 32  # states side by side: four registers of eight, as shorter loops spend their time on beginning
BATCHED = types.void(CUBE, MATRIX, INT, VECTOR, BOOL, CUBE, MATRIX, CUBE, VECTOR, MATRIX)  # see ``_lanes``
ERRORS = types.void(types.FunctionType(CLOSURE), INT, INT, CUBE, MATRIX, VECTOR)
# Below this many evaluations a loop in Python costs less than handing arrays to compiled code; above, the loop is
# compiled.
FEW = 20
# Below this many students C takes less than a millisecond, and threads cost more than they save; above, they share its
# entries.
MANY = 40
# Sine of the angle between a kinked student and another unit. Below, the closure behaves like the angle and has no
# derivative: exact ones are refused. Above, they have digits.
ALIGNED = 1e-6
# The same for Newton's iteration. Below, it takes the derivatives of a state moved this far from alignment: the root is
# found by the velocity, derivatives only lead there.
NEARLY = 1e-5
STEP = 2e-3  # of finite differences, for closures in closed form without derivatives
# Step of finite differences of closures by quadrature, in units of the overlaps. Below, their error of 1e-8 over the
# step is seen; above, the sixth order misses digits.
STEP_NUMERIC = 2e-2
SMALLEST, SHORTEST = 1e-6, 1e-3  # least variance, and least distance from coplanar fields, that a step follows
# Relative difference of derivatives by two steps. Below, the finer ones are taken; above, the closure is not smooth
# enough, and the call is refused.
AGREEMENT = 1e-5
# Step where a few digits serve, as for Newton's iteration. Below, the error of quadrature (1e-8) over the step would
# leave less than four digits.
ROUGH = 1e-4
SIXTH_ORDER = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
SECOND_ORDER = ((1, 1 / 2),)


@jit
def errors_of(closure, K, teacher, S, w, eps_g):
    """Fill eps_g (n,) at S (n, K + M, K + M), w (n, K + M)."""
    M = w.shape[1] - K
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K)), np.zeros(K)
    for i in range(len(eps_g)):
        eps_g[i] = closure(S[i], w[i], K, teacher, 1.0, 1.0, 0.0, False, A, B, C, dv)


def outputs(S, K):
    """New arrays A, B, C, dv for the closure of K students to fill at S (..., groups n, n)."""
    n = S.shape[-1]
    rows = S.shape[-2] // n * K
    return np.zeros((rows, K)), np.zeros((rows, n - K)), np.zeros((rows, K)), np.zeros(K)


class LearningNumbers(NamedTuple):
    """Numbers of the learning rule for a closure; K is the number of students."""

    K: int
    eta: float
    eta_v: float
    noise: float
    second_order: bool  # whether C is wanted


class Bound:
    """Closure f(S, w, A, B, C, dv) -> eps_g of one student and one teacher activation, which fills the arrays.

    A subclass gives ``__call__``; what it says about itself are these attributes.

    Attributes
    ----------
    student, teacher, rule : Any, Any, Numbers
        The pair of functions, and the numbers of the model.
    error : float
        Estimate of the absolute error of the entries of C at the last call.
    chance : float
        Largest relative error of integrals by Sobol points so far, which jump as breaks pass points; 0 for others.
    controls_error : bool
        Whether eps_g is known well enough for the error control of a run.
    averaging_error : float
        Largest relative difference of A, B and eps_g of a rule by two sizes of quadrature so far.
    message : str
        Why the last refused state was refused; empty if none was.
    by_quadrature : bool
        Whether integrals are taken numerically: C may be refused, and derivatives need wide steps.
    by_chance : bool
        Whether integrals are averages over Sobol points, which limits the tolerance of a run.
    kinked : bool
        Whether g' of the student jumps at the origin.
    compiled, lanes : callable or None
        The kernels, where the closure is one that compiled code can call, for one state and for SIMD_WIDTH of them.
    parameters : ndarray
        Numbers that the kernel finds behind w (n,), see ``extended``.
    period : int
        Evaluations in compiled code after which Python is to look at the closure; 0 for any number.
    accuracy : float
        What rounding leaves of the averages, absolute: integrators take no smaller atol by themselves. 0 where nothing
        is summed over nodes.
    gradient_rate : float
        Number by which A, B are divided to give the gradient of eps_g, up to the sign; inf where they give none.
    """

    error = chance = accuracy = averaging_error = 0.0
    message = ""
    by_quadrature = by_chance = False
    controls_error = True
    kinked = False
    compiled: Any = None
    simd = None
    parameters = NOTHING
    period = 0

    def __init__(self, student, teacher, rule):
        self.student, self.teacher, self.rule = student, teacher, rule

    @property
    def gradient_rate(self):
        """The learning rate, because the loss is the error that is recorded."""
        return self.rule.eta

    def error_size(self, S, w):
        """Size of what cancels in eps_g where A and B do not give its gradient, so that differences do; 0 elsewhere."""
        return 0.0

    def __repr__(self):
        return f"{type(self).__name__}({self.student!r}, {self.teacher!r}, K={self.rule.K})"

    def __call__(self, S, w, A, B, C, dv):
        """Fill A (K, K), B (K, M), dv (K,) and, for the second order, C (K, K); return eps_g."""
        raise NotImplementedError

    def extended(self, w):
        """The array w (n,), and behind it what compiled code hands over to the kernel: its parameters, or room."""
        return np.append(w, self.parameters)

    def errors(self, S, w):
        """Eps_g (n,) at S (n, K + M, K + M) and w (n, K + M)."""
        values = outputs(S, self.rule.K)
        return np.array([self(S_i, w_i, *values) for S_i, w_i in zip(np.ascontiguousarray(S), w, strict=True)])

    def set_noise(self, noise):
        """Take another standard deviation of the label noise from here on."""
        self.rule = self.rule._replace(noise=noise)
        for part in vars(self).values():
            if isinstance(part, Bound):
                part.set_noise(noise)

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is not defined, or not known."""
        if self.kinked:
            check_norms(S, self.rule.K)
        if getattr(self.teacher, "code", None) == SIGN and not np.min(np.diag(S)[self.rule.K :]) > 0:
            raise ValueError(
                "a teacher of signs has a field of variance zero, T_mm = 0, and no label; expected T_mm > 0."
            )

    def no_jacobian_reason(self, S, least=NEARLY):
        """Why there are no derivatives at S, or an empty string."""
        if self.kinked and relu_alignment(S, self.rule.K) < least:
            return "a student with a kink is aligned with another unit, where the closure has no derivatives"
        return ""

    def arrays(self, S, w):
        """A, B, C, dv at (S, w), in new arrays."""
        values = outputs(S, self.rule.K)
        self(S, w, *values)
        return values

    def derivatives(self, S, w, *, exact):
        """Derivatives dA (d, K, K), dB (d, K, M), dC (d, K, K), ddv (d, K) along (triangle of Q, R, v) at (S, w).

        ``exact`` demands all digits and raises ``ValueError`` where there are none; otherwise a few serve, for Newton's
        iteration, taken from a state nearby if need be.
        """
        if exact and self.kinked and self.no_jacobian_reason(S, ALIGNED):
            raise ValueError(
                "a student with a kink is aligned with another unit: the closure has no derivative there (it behaves "
                "like the angle), so that the flow cannot be linearised. Expected students apart from each other and "
                "from the teachers; follow the trajectory with ov.solve instead."
            )
        return self._exact_derivatives(S, w) if exact else self._rough_derivatives(S, w)

    def _rough_derivatives(self, S, w):
        """Differences around a state a little further inside, where S keeps positive."""
        step = ROUGH * np.trace(S) / len(S)
        steps = step, ROUGH * max(np.abs(w[self.rule.K :]).max(), 1e-300)
        return central_differences(self.arrays, S + step * np.eye(len(S)), w, self._unknowns(w), steps, SECOND_ORDER)

    def _exact_derivatives(self, S, w):
        """Differences of sixth order; a second step size tells whether they can be trusted."""
        step = STEP_NUMERIC if self.by_quadrature else STEP
        values, unknowns = self.arrays(S, w), self._unknowns(w)
        sizes = self._step_sizes(S)
        changes, coarse = (
            central_differences(self.arrays, S, w, unknowns, (h * sizes, h), SIXTH_ORDER) for h in (step, 2 * step)
        )
        # rounding of a finite difference, from terms of the closure's natural size; derivatives may be exactly zero
        natural = np.finfo(float).eps * max(self.rule.eta, self.rule.eta_v) * np.max(np.abs(w)) ** 2 / step
        both = (zip(*x, strict=True) for x in (changes, coarse))
        for (i, j), fine_u, coarse_u in zip(unknowns, *both, strict=True):
            rounding = natural if j is None else natural / sizes[i, j]
            error = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(fine_u, coarse_u, strict=True))
            size = max(np.max(np.abs(x), initial=0.0) for x in (*fine_u, *values[:2]))
            if not error <= AGREEMENT * size + rounding:
                raise ValueError(
                    f"finite differences of the closure, {self!r}, do not settle: two steps differ by {error:.1e}, "
                    f"expected below {AGREEMENT:.0e} of {size:.1e}. The state may lie on the boundary of possible "
                    "overlaps (student = teacher); use an activation in closed form (ov.erf, ov.tanh, ov.polynomial) "
                    "there."
                )
        return changes

    def _step_sizes(self, S):
        """Size (n, n) of a step of S: as S_ij, and for kinked units of how far the fields are from coplanar."""
        if not self.kinked or self.by_quadrature:
            return np.ones_like(S)
        return inner_steps(S)

    def _unknowns(self, w):
        """Indices (i, j) of the arguments S_ij, i <= j, in their order, then (k, None) for v_k."""
        K, n = self.rule.K, len(w)
        pairs = [(i, j) for i in range(K) for j in range(i, K)] + [(i, m) for i in range(K) for m in range(K, n)]
        return [*pairs, *((k, None) for k in range(K))]

    def _first_order(self, w, gg, dd, hh, A, B, dv):
        """Fill A, B, dv from E[g_i g_j] (n, n), E[g_k' g_j'] (K, n), E[g_k'' g_j] (K, n); return eps_g."""
        return assemble(w, self.rule.K, gg, dd, hh, self.rule.eta, self.rule.eta_v, A, B, dv)

    def _second_order(self, w, square, dd, C):
        """Fill C from E[g_k' g_l' Delta_0^2] and E[g_k' g_l']."""
        assemble_square(w, self.rule.K, square, dd, self.rule.eta, self.rule.noise, C)


class KernelClosure(Bound):
    """The closure of a student with closed forms (``Kernels``) and a teacher that they take."""

    _threads = 1

    def __init__(self, student, teacher, rule):
        super().__init__(student, teacher, rule)
        self.kinked = bool(student.kinks)
        self._kernels, self._kernel = student.closed_forms, student.closed_forms.closure
        self.simd = self._kernels.simd if teacher == student else None
        self._arguments = rule.K, teacher.code, *rule[1:]  # kept: finding them costs a tenth of a small closure
        if rule.K >= MANY:  # every call takes milliseconds in Python
            compile_eagerly()
        if self._kernels.chunk is not None and rule.second_order and rule.K >= MANY:
            self._threads = vars(config)["NUMBA_NUM_THREADS"]
        if self._threads == 1 and hasattr(self._kernel, "compile"):  # without compilation kernels are plain functions
            self.compiled = self._kernel

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, code, eta, eta_v, noise, second_order = self._arguments
        if self._threads == 1:
            return self._kernel(S, w, K, code, eta, eta_v, noise, second_order, A, B, C, dv)
        eps_g = self._kernel(S, w, K, code, eta, eta_v, noise, False, A, B, C, dv)
        fill, m = self._kernels.chunk, self._threads
        in_threads(lambda i: fill(S, w, K, code, eta, noise, C, i, m), m)
        return eps_g

    def extended(self, w):
        """As for any closure; here it is room."""
        size = self._kernels.workspace
        return np.array(w) if size is None else np.append(w, np.zeros(size(len(w))))

    def errors(self, S, w):
        """As for any closure, in one compiled function."""
        few = self.compiled is None or len(S) < FEW
        if few or (is_lazy() and not self.compiled.overloads and not is_compiled(self.compiled, CLOSURE.args)):
            return super().errors(S, w)
        self._kernel.compile(CLOSURE.args)  # numba keeps what has a return type apart from what Python calls
        compile_once(errors_of, ERRORS)
        result = np.empty(len(S))
        errors_of(self._kernel, *self._arguments[:2], np.ascontiguousarray(S), np.ascontiguousarray(w), result)
        return result

    def set_noise(self, noise):
        """Take another standard deviation of the label noise from here on."""
        super().set_noise(noise)
        self._arguments = self.rule.K, self.teacher.code, *self.rule[1:]

    def _exact_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._exact_derivatives(S, w)
        return self._kernel_derivatives(S, w)

    def _rough_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._rough_derivatives(S, w)
        S = np.array(S)
        for nearby in (bool(self.no_jacobian_reason(S)), True):
            if nearby:  # derivatives diverge at singular S
                S[np.diag_indices(len(S))] *= 1 + NEARLY**2
            changes = self._kernel_derivatives(S, w)
            if all(np.all(np.isfinite(x)) for x in changes):
                break
        return changes

    def _kernel_derivatives(self, S, w):
        K, M = self.rule.K, len(w) - self.rule.K
        d = K * (K + 1) // 2 + K * M + K
        changes = tuple(np.zeros((d, *shape)) for shape in ((K, K), (K, M), (K, K), (K,)))
        self._kernels.derivatives(S, w, *self._arguments, *changes)
        return changes


def inner_steps(S):
    """Size (n, n) of steps of S that follow how far the fields are from coplanar."""
    norms = np.sqrt(np.maximum(np.diag(S), SMALLEST * np.max(np.diag(S))))
    size = np.outer(norms, norms)
    return size * np.clip(np.linalg.eigvalsh(S / size)[0], SHORTEST, 1.0)


def central_differences(evaluate, S, w, unknowns, steps, stencil):
    """Derivatives (d, ...) of the arrays ``evaluate(S, w)`` along S_ij, or w_i where j is None; steps of S and of w."""
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
        changes.append([sum(parts) for parts in zip(*terms, strict=True)])
    return tuple(np.array(x) for x in zip(*changes, strict=True))


def check_norms(S, K):
    """Students with a kink at the origin need a direction: their gradient has none at zero norm."""
    variances = np.diag(S)
    lowest = variances[:K].min()
    if lowest <= check.ZERO_NORM * max(variances[K:].max(), 1.0):
        raise ValueError(
            f"a ReLU student has zero norm: the lowest Q_kk is {lowest:.3g}, expected > 0 (the gradient of a kinked "
            "unit has no direction there). Start from students of positive norm, e.g. student_scale=1e-3."
        )
