"""Closures by quadrature, for pairs of activations that have no exact closure (see ``flow.binding``)."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..gaussian.packed import packed
from ..gaussian.quadrature import graded, widening
from ..gaussian.two_point import NUMERIC
from ._numeric import SQUARE, SobolMean, numeric_closure
from ._pairs import PAIR_SIZES, midpoint_quadrature, pair_square
from ._quadrature import MODES, Ladder, mixture_array, tables, tensor_square
from .bound import Bound, outputs
from .sums import MixtureClosure, fit_erf_mixture


class NumericTolerances(NamedTuple):
    """Tunable numbers of closures by quadrature."""

    # Relative difference of A, B, dv and eps_g between two successive sizes, from which the smaller size is used. Above
    # it, the next size is tried; the largest size is refused. Halved, larger sizes are used.
    first_order: float = 1e-8
    second_order: float = 1e-6  # the same for C, whose largest size is refused only above the activation's tolerance
    mixture: float = 3e-5  # largest error of an erf mixture that "auto" accepts, relative to the function
    # Standard deviations of a field within which the quadrature of C evaluates functions: 9 along each of three
    # whitened fields.
    half_width: float = 16.0


class Remedies(NamedTuple):
    """Last sentences of messages."""

    gradient_flow: str = "Without C, gradient_flow=True needs two-point integrals only."
    kink: str = (
        "Piecewise-linear functions have closed forms: use ov.relu, ov.leaky_relu(slope) or ov.absolute; "
        "otherwise smooth the kink."
    )


TOLERANCES, REMEDIES = NumericTolerances(), Remedies()


def find_kink(dg):
    """Position of a jump of g' on [-9, 9], or None.

    Bisection distinguishes a steep rise of g', which vanishes with the interval, from a jump.
    """
    x = np.linspace(-9.0, 9.0, 1802)
    rise = np.abs(np.diff(dg(x)))
    for cell in np.argsort(rise)[-3:]:
        low, high = x[cell], x[cell + 1]
        for _ in range(48):
            middle = 0.5 * (low + high)
            values = dg(np.array([low, middle, high]))
            low, high = (low, middle) if abs(values[1] - values[0]) > abs(values[2] - values[1]) else (middle, high)
        if abs(np.diff(dg(np.array([low, high])))[0]) > 1e-3 * rise[cell] > 1e-9:
            return float(high)
    return None


class NumericClosure(Bound):
    """Closure by quadrature, with ``nodes`` nodes for two-point integrals and the ``method`` for C.

    The first call raises ``ValueError`` if an integral does not converge.  Later calls, inside an integration, return
    nan, so that the integrator rejects the step and tries a shorter one, and store the reason in ``message``.
    """

    by_quadrature = True

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.kinked, self.method = bool(student.kinks), None
        for activation in (student, teacher):
            _refuse_kink(activation)
        pairs = [(activation, _exact_sum(activation)) for activation in (student, teacher)]
        self._tables = Ladder(
            partial(_first_order, learning.K, *pairs), MODES.plane_nodes,
            goal=TOLERANCES.first_order, limit=TOLERANCES.first_order,
            refusal=f"the two-point integrals of {student.name} and {teacher.name} do not converge: with {{size}} "
            "nodes they still change by {error:.1e}, expected below {limit:.0e}. Causes: a function with kinks, or too "
            f"large variances of the fields. {REMEDIES.kink}",
        )  # fmt: skip
        self._square: Any = None
        self._mixture: MixtureClosure | None = None
        self._started = False
        self._last: Any = None  # arguments and results of the last evaluation
        self._packed: tuple = (None, None, None)

    def __repr__(self):
        return f"NumericClosure({self.student!r}, {self.teacher!r}, K={self.learning.K}, method={self.method!r})"

    def _ready(self):
        """Set ``compiled`` and ``parameters`` according to the quadratures in use."""
        if self._mixture is not None:
            self.compiled, self.parameters = self._mixture.compiled, self._mixture.parameters
            return
        if not hasattr(numeric_closure, "compile"):
            return
        key = self._tables.tested, self.nodes, self._square and self._square.size
        if key[0] is self._packed[0] and key[1:] == self._packed[1:]:
            return
        method, modes, quadrature = SQUARE.none, 0, []
        if self.method == "sobol":
            method, quadrature = SQUARE.sobol, [self._square.points]
        elif self.method == "tensor":
            method, quadrature = SQUARE.tensor, [*widening(self._square.size)]
        elif self.method == "pairs":
            method, (*quadrature, modes, _) = SQUARE.pairs, midpoint_quadrature(self._square.size)
        exact = [mixture_array(_exact_sum(activation)) for activation in (self.student, self.teacher)]
        functions = self.student.table.data, self.teacher.table.data
        sizes = self.nodes, method, modes
        self.parameters = packed(sizes, self._tables.tested, *functions, *exact, *graded(self.nodes), *quadrature)
        self.compiled, self._packed = numeric_closure, key

    @property
    def nodes(self):
        """Nodes per dimension of two-point integrals."""
        return self._tables.size

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        try:
            if np.all(np.isfinite(S)):
                with np.errstate(over="ignore"):  # in functions of the user, at states that a step may reject
                    eps_g = self._evaluate(S, w, A, B, C, dv)
                self._started = True
                self._ready()
                return eps_g
        except ValueError as error:
            if not self._started:
                raise
            self.message = str(error)
        for array in (A, B, C, dv):
            array[...] = np.nan
        return np.nan

    def check(self, S, w):
        """Evaluate once at S, w; raise ``ValueError`` with the reason and a remedy if an integral is refused."""
        super().check(S, w)
        self._evaluate(S, w, *outputs(S, self.learning.K))

    def change(self, **numbers):
        """Replace numbers of learning, also of the closures that this one contains."""
        super().change(**numbers)
        self._last = None

    def _evaluate(self, S, w, A, B, C, dv):
        """The averages; those of a start, which is checked before solvers begin with it, are computed once."""
        arrays = (A, B, C, dv) if self.learning.second_order else (A, B, dv)
        if self._last is None or not all(map(np.array_equal, (S, w), self._last[:2])):
            eps_g = self._averages(S, w, A, B, C, dv)
            self._last = S.copy(), w.copy(), eps_g, [x.copy() for x in arrays]
        for array, known in zip(arrays, self._last[3], strict=True):
            array[...] = known
        return self._last[2]

    def _averages(self, S, w, A, B, C, dv):
        K, second_order = self.learning.K, self.learning.second_order
        if second_order and self.method is None:
            self._choose(len(w))
        if self._mixture is not None:
            eps_g = self._mixture(S, w, A, B, C, dv)
            self.error = self._mixture.error
            return eps_g
        if self.student.d2g is None and np.min(np.diag(S)[:K]) <= 0.0:
            raise ValueError(
                f"a student of {self.student.name} has zero norm, and the activation no second derivative; expected "
                "positive Q_kk. Give d2g, or start from students of positive norm."
            )
        self._check_table_range(S)
        gg, dd, hh = self._tables(S, w)
        eps_g = self._first_order(w, gg, dd, hh, A, B, dv)
        if second_order:
            (square,) = self._square(S, w)
            self._second_order(w, square, dd[:, :K], C)
            # The error of a table is relative to the function: |d C_kl| <= 2 eta^2 |v_k v_l| E|g_k' g_l' Delta dDelta|
            errors = np.where(np.arange(len(w)) < K, self.student.table.error, self.teacher.table.error)
            deviation = np.abs(w) @ (errors * np.sqrt(np.diag(gg))) * np.sqrt(2 * max(eps_g, 0.0))
            size = self._square.error * np.max(np.abs(square)) + 2 * np.max(np.diag(dd)) * deviation
            self.error = size * np.max(np.abs(self.learning.eta * w[:K])) ** 2
        return eps_g

    def _check_table_range(self, S):
        """Refuse variances at which quadrature nodes lie beyond the range of the table of a function."""
        K, n = self.learning.K, len(S)
        width = TOLERANCES.half_width if self.learning.second_order else MODES.half_width
        for activation, fields in ((self.student, range(K)), (self.teacher, range(K, n))):
            far = width * np.sqrt(max(0.0, *(S[i, i] for i in fields))) if _exact_sum(activation) is None else 0.0
            if far > activation.table.reach:
                raise ValueError(
                    f"{activation.name} is needed up to |x| = {far:.4g} ({width:g} standard deviations of a field), "
                    f"but can be tabulated to {activation.table.reach:.4g} only: beyond, it is not finite or "
                    "oscillates too fast. Expected smaller variances: a smaller scale of students and teachers."
                )

    def _choose(self, n):
        """Choose the method of C for n fields."""
        student, teacher, K = self.student, self.teacher, self.learning.K
        options = deciding(student, teacher)
        method = options.second_order
        if method == "auto":
            kinked = bool(student.kinks or teacher.kinks)
            fitted = None if n <= 4 or kinked else fitted_sums(student, teacher, TOLERANCES.mixture)
            method = "sobol" if kinked else "tensor" if n <= 3 else "mixture" if fitted else "pairs"
            if fitted:
                self._mixture = MixtureClosure(fitted[0], fitted[1], self.learning)
        if method == "tensor" and n > 4:
            raise ValueError(
                f'second_order="tensor" with K + M = {n} fields; expected at most 4, as the grid has n^(K + M) nodes. '
                f'Use second_order="auto", "pairs" or "sobol" in from_function. {REMEDIES.gradient_flow}'
            )
        refusal = (
            f"the matrix C of {student.name} and {teacher.name} has a relative error of {{error:.1e}} "
            f"({method}, size {{size}}); expected {{limit:.0e}}. "
            f"Raise tolerance= in from_function to accept it. {REMEDIES.gradient_flow}"
        )
        if method == "sobol":
            self._square = SobolMean(student, teacher, K, limit=options.tolerance, refusal=refusal)
        elif method != "mixture":
            sizes = MODES.tensor_nodes[n - 2] if method == "tensor" else PAIR_SIZES
            square = tensor_square if method == "tensor" else pair_square
            self._square = Ladder(
                partial(_second_order, square, K, student, teacher),
                sizes, goal=TOLERANCES.second_order, limit=options.tolerance, refusal=refusal,
            )  # fmt: skip
        self.method = method


def _first_order(K, student, teacher, size, S, w):
    return tables(S, K, student, teacher, size)


def _second_order(square, K, student, teacher, size, S, w):
    return (square(S, w, K, student, teacher, size),)


def deciding(student, teacher):
    """The activation whose second_order and tolerance are used: the student, unless only the teacher is numeric."""
    return student if student.code == NUMERIC and student.mixture is None else teacher


def _exact_sum(activation):
    mixture = activation.closed_sum
    return mixture if mixture is not None and mixture.error == 0.0 else None


def fitted_sums(student, teacher, goal, asked=False):
    """Both activations as mixtures, fitted where necessary to ``goal`` times their size; None if the fit is worse."""
    mixtures = []
    for activation in (student, teacher):
        mixture = activation.closed_sum or fit_erf_mixture(activation.g)
        error = np.inf if mixture is None else mixture.error / np.max(np.abs(activation.g(np.linspace(-9.0, 9.0, 61))))
        if error > goal:
            if asked:
                raise ValueError(
                    f'second_order="mixture" for {activation.name}, which sums of error functions fit to {error:.1e} '
                    f"of its size; expected an odd sigmoid, fitted to {goal:.0e}. "
                    f'Use second_order="auto" or raise tolerance=. {REMEDIES.gradient_flow}'
                )
            return None
        mixtures.append(mixture)
    return mixtures


def _refuse_kink(activation):
    if activation.closed_sum is None:
        kink = activation.kinks[0] if activation.kinks else find_kink(activation.dg)
        if kink is not None:
            raise ValueError(
                f"{activation.name} has a kink at x = {kink:.6g} (its derivative jumps); expected a smooth function, "
                f"since quadrature of kinks converges slowly. {REMEDIES.kink}"
            )
