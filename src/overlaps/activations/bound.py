"""The protocol of closures: what every closure bound to a pair of functions and the numbers of learning answers."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numba import types

from .._base import check
from .._base.jit import BOOL, CUBE, INT, MATRIX, REAL, VECTOR
from ..gaussian.tables import NO_TABLE
from ._first_order import assemble, assemble_square
from ._relu_derivatives import relu_alignment
from .finite_differences import DERIVATIVES, exact_differences, inner_steps, newton_differences

# Signature of all compiled closures:
# closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv) -> eps_g.
CLOSURE = REAL(MATRIX, VECTOR, VECTOR, INT, INT, REAL, REAL, REAL, BOOL, MATRIX, MATRIX, MATRIX, VECTOR)
SIMD_WIDTH = 32  # number of states in one SIMD batch, four registers of eight; shorter loops are dominated by start-up
BATCHED = types.void(CUBE, MATRIX, INT, VECTOR, BOOL, CUBE, MATRIX, CUBE, VECTOR, MATRIX)  # closures of ``_simd``


class LearningNumbers(NamedTuple):
    """Numbers of students K and of static units M, and the numbers of learning that a closure needs."""

    K: int
    M: int
    eta: float
    eta_v: float
    noise: float
    second_order: bool  # whether C is computed


class Bound(ABC):
    """Closure f(S, w, A, B, C, dv) -> eps_g of one student and one teacher function, which fills the arrays.

    The arguments are the covariance S (groups n, n) of the n = K + M fields, students first, and the signed second
    layers w (n,) = (v, -v*). The results are A (groups K, K), B (groups K, M), dv (K,) and, for the second order,
    C (groups K, K). Closures of one covariance have one group; otherwise its blocks stand one below the other.
    Subclasses define ``__call__``, and what differs from the answers here.

    Attributes
    ----------
    student, teacher : Any
        The pair of functions.
    learning : LearningNumbers
        Numbers of units, learning rates and noise of the model.
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
    labels : bool
        Whether the teachers give signs.
    compiled, simd : callable or None
        Kernels for one state (``CLOSURE``) and for SIMD_WIDTH states (``BATCHED``); None where compiled code cannot
        call the closure.
    parameters : ndarray
        Numbers that ``compiled`` reads beside S and w, or its workspace.
    period : int
        Number of evaluations in compiled code after which the closure needs a check in Python; 0 if it needs none.
    accuracy : float
        Absolute rounding error of the averages, below which integrators choose no atol; 0 for closed forms.
    """

    error = chance = accuracy = averaging_error = 0.0
    message = ""
    by_quadrature = by_chance = kinked = labels = False
    controls_error = True
    compiled: Any = None
    simd: Any = None
    parameters = NO_TABLE
    period = 0

    def __init__(self, student, teacher, learning):
        self.student, self.teacher, self.learning = student, teacher, learning

    def __repr__(self):
        return f"{type(self).__name__}({self.student!r}, {self.teacher!r}, K={self.learning.K})"

    @abstractmethod
    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, dv and, for the second order, C; return eps_g."""

    def change(self, **numbers):
        """Replace numbers of learning, also of the closures that this one contains."""
        self.learning = self.learning._replace(**numbers)
        for value in vars(self).values():
            if isinstance(value, Bound):
                value.change(**numbers)

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is undefined or cannot be computed accurately."""
        if self.kinked:
            check_norms(S, self.learning.K)
        if self.labels and not np.min(np.diag(S)[self.learning.K :]) > 0:
            raise ValueError(
                "a teacher of signs has a field of variance zero, T_mm = 0, and no label; expected T_mm > 0."
            )

    def arrays(self, S, w):
        """A, B, C, dv at (S, w), in new arrays."""
        values = outputs(S, self.learning.K)
        self(S, w, *values)
        return values

    def errors(self, S, w):
        """Eps_g (m,) at S (m, groups n, n) and w (m, n)."""
        values = outputs(S, self.learning.K)
        return np.array([self(S_i, w_i, *values) for S_i, w_i in zip(np.ascontiguousarray(S), w, strict=True)])

    def values(self, S, w):
        """A, B, C, dv, eps_g (m, ...) at S (m, groups n, n) and w (m, .)."""
        A, B, C, _ = outputs(S, self.learning.K, len(S))
        dv = np.zeros((len(S), w.shape[1] - B.shape[2]))
        eps_g = [self(*x) for x in zip(np.ascontiguousarray(S), w, A, B, C, dv, strict=True)]
        return A, B, C, dv, np.array(eps_g)

    def error_at(self, S, w):
        """eps_g alone."""
        return self(S, w, *outputs(S, self.learning.K))

    @property
    def gradient_rate(self):
        """Divisor of A, B that gives the gradient of eps_g, up to the sign; inf where they are no gradient."""
        return self.learning.eta

    def error_size(self, S, w):
        """Size of the cancelling terms of eps_g, for closures whose A and B are not its gradient; 0 elsewhere."""
        return 0.0

    def compiled_parameters(self):
        """The parameters for evaluations in compiled code, up to the next call in Python."""
        return self.parameters

    def no_jacobian_reason(self, S, least=DERIVATIVES.newton_aligned_sine):
        """Reason why the closure has no derivatives at S, or an empty string."""
        if self.kinked and relu_alignment(S, self.learning.K) < least:
            return "a student with a kink is aligned with another unit, where the closure has no derivatives"
        return ""

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
        return newton_differences(self, S, w)

    def _exact_derivatives(self, S, w):
        # steps of kinked units are proportional to their distance from alignment
        sizes = inner_steps(S) if self.kinked and not self.by_quadrature else np.ones_like(S)
        return exact_differences(self, S, w, sizes)

    def _first_order(self, w, gg, dd, hh, A, B, dv):
        """Fill A, B, dv from E[g_i g_j] (n, n), E[g_k' g_j'] (K, n), E[g_k'' g_j] (K, n); return eps_g."""
        return assemble(w, self.learning.K, gg, dd, hh, self.learning.eta, self.learning.eta_v, A, B, dv)

    def _second_order(self, w, square, dd, C):
        """Fill C from E[g_k' g_l' Delta_0^2] and E[g_k' g_l']."""
        assemble_square(w, self.learning.K, square, dd, self.learning.eta, self.learning.noise, C)


def outputs(S, K, *lead):
    """New arrays A, B, C, dv for the closure of K students to fill at S (..., groups n, n), with ``lead``ing axes."""
    n = S.shape[-1]
    rows = S.shape[-2] // n * K
    return np.zeros((*lead, rows, K)), np.zeros((*lead, rows, n - K)), np.zeros((*lead, rows, K)), np.zeros((*lead, K))


def check_norms(S, K):
    """Refuse students of zero norm with a kink at the origin: their gradient has no direction."""
    variances = np.diag(S)
    lowest = variances[:K].min()
    if lowest <= check.LIMITS.zero_norm * max(variances[K:].max(), 1.0):
        raise ValueError(
            f"a ReLU student has zero norm: the lowest Q_kk is {lowest:.3g}, expected > 0 (the gradient of a kinked "
            "unit has no direction there). Start from students of positive norm, e.g. student_scale=1e-3."
        )
