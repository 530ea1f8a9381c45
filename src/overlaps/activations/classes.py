"""The closure of inputs in classes, bound to one pair of activations: in closed form, or one tensor rule."""

from typing import Any, NamedTuple

import numpy as np

from ..gaussian.quadrature import factor, legendre, tensor, widening
from ..gaussian.two_point import LINEAR, NUMERIC, RELU, SIGN
from ._classes import classes_closure
from .bound import NEARLY, Bound, check_norms, outputs
from .families import parts_of

NODES = 24  # per dimension, of C of relu students
FINER = 1.5  # times as many, for the estimate of its error
SIZES = {1: 96, 2: 64, 3: 40, 4: 24}  # nodes in each dimension, by the number of fields
# Error at a start relative to the matrices. Above, a finer rule still changes them, and the start is refused.
LIMIT = 1e-4
KINKED = "Piecewise-linear units go with each other, ov.erf and ov.quadratic."


class Classes(NamedTuple):
    """Classes of inputs: probabilities (C,), labels (C,), and variances relative to the spectrum's (C, groups)."""

    weights: Any = np.empty(0)
    labels: Any = np.empty(0)
    ratios: Any = np.empty((0, 1))

    @property
    def n_classes(self) -> int:
        """Their number; 0 of inputs without."""
        return len(self.weights)


def shape_of(activation):
    """(code of f, a, b) of a function a z + b f(z) with closed forms: the code is NUMERIC for others."""
    parts = parts_of(activation) if activation.code == NUMERIC else None
    if parts is None or not parts.is_piecewise_linear:
        return activation.code, 0.0, 1.0
    return (RELU, parts.slope, parts.kink) if parts.kink else (LINEAR, 0.0, parts.slope)


class ClassesClosure(Bound):
    """Closure of fields that have means, averaged over classes, for erf, quadratic, piecewise-linear units, any pair.

    ``S`` (groups (K + M + C), K + M + C) and ``w`` (K + M + C,) hold the centroids as further static rows; A, C
    (groups K, K) and B (groups K, M + C) lie one group below the other.
    """

    def __init__(self, student, teacher, rule, classes):
        super().__init__(student, teacher, rule)
        self.classes, self.kinked = classes, bool(student.kinks)
        self.shapes = shape_of(student), shape_of(teacher)
        self.groups = classes.ratios.shape[1]
        self._last: Any = None
        self._finer: Any = None  # parameters of a rule with more nodes, where nodes leave an error
        self._setup()

    def _setup(self):
        """Parts that differ between closed forms and quadrature."""
        self.parameters = self._numbers(NODES)
        if self.shapes[0][0] == RELU and self.rule.second_order:
            self._finer = self._numbers(round(FINER * NODES))
        if hasattr(classes_closure, "compile"):
            self.compiled = classes_closure

    def _numbers(self, nodes):
        (student, *student_line), (teacher, *teacher_line) = self.shapes
        x, p = legendre(nodes) if student == RELU else (np.empty(0), np.empty(0))
        weights, labels, ratios = map(np.ravel, self.classes)
        header = [student, teacher, weights.size, x.size, *student_line, *teacher_line]
        return np.concatenate([header, weights, labels, ratios, x, p])

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        self._last = S, w
        return self._fill(self.parameters, S, w, A, B, C, dv)

    def _fill(self, parameters, S, w, A, B, C, dv):
        K, eta, eta_v, noise, second_order = self.rule
        centroids = np.zeros(self.classes.n_classes)
        w = np.concatenate([w[: S.shape[1] - centroids.size], centroids, parameters])
        return classes_closure(S, w, K, self.teacher.code, eta, eta_v, noise, second_order, A, B, C, dv)

    @property
    def error(self):  # type: ignore[override]
        """Estimate of the absolute error of A, B, C, dv at the last call: their change by a finer rule."""
        return 0.0 if self._last is None or self._finer is None else self._change(*self._last)[0]

    def _change(self, S, w):
        """(largest change by the finer rule, size of the matrices)."""
        coarse, fine = (self.arrays(S, w, parameters) for parameters in (self.parameters, self._finer))
        change = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(coarse, fine, strict=True))
        return float(change), max(float(np.max(np.abs(a), initial=0.0)) for a in fine)

    def arrays(self, S, w, parameters=None):
        """A, B, C, dv at (S, w), in new arrays, by the rule in use or by another one."""
        values = outputs(S, self.rule.K)
        self._fill(self.parameters if parameters is None else parameters, np.ascontiguousarray(S), w, *values)
        return values

    def fields(self, S):
        """(means (C, K + M), covariances (C, K + M, K + M)) of the fields in each class, at S of any leading axes."""
        rows, C = S.shape[-1], self.classes.n_classes
        n = rows - C
        S = S.reshape(*S.shape[:-2], -1, rows, rows)
        means = np.swapaxes(S[..., :n, n:].sum(axis=-3), -1, -2)
        return means, np.einsum("cg,...gij->...cij", self.classes.ratios, S[..., :n, :n])

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is not defined."""
        if self.kinked:
            for V in self.fields(S)[1]:
                check_norms(np.pad(V, (0, 1)), self.rule.K)

    def no_jacobian_reason(self, S, least=NEARLY):
        """Why there are no derivatives at S, or an empty string."""
        if self.groups > 1:
            return "eigenspaces whose variances differ between classes in their own ways"
        n = len(S) - self.classes.n_classes
        return super().no_jacobian_reason(np.ascontiguousarray(S[:n, :n]), least)


class NumericClassesClosure(ClassesClosure):
    """The same averages for any smooth functions of at most four fields, in Python: milliseconds for each class.

    With z = mu + L u and the midpoint rule in u every average is a sum; g'' is Stein's lemma,

        E[g''_k Delta] S_kk = E[(z_k - mu_k) g'_k Delta] - sum_j S_kj w_j E[g'_k g'_j].
    """

    by_quadrature = True

    def _setup(self):
        self.parameters, self._finer = np.ones(1), np.full(1, FINER)  # relative sizes of the rule
        for role, activation in (("activation", self.student), ("teacher_activation", self.teacher)):
            if activation.kinks or activation.code == SIGN:
                raise ValueError(
                    f"{role} = {activation} is not smooth, and there are no closed forms of this pair for fields that "
                    f"have means; expected smooth functions. {KINKED}"
                )

    def check(self, S, w):
        """Raise ``ValueError`` where there are too many fields, or the integrals do not settle."""
        n = S.shape[1] - self.classes.n_classes
        names = " and ".join(dict.fromkeys([str(self.student), str(self.teacher)]))
        if n not in SIZES:
            raise ValueError(
                f"{n} fields of {names} that have means; expected at most {max(SIZES)} without closed forms, or any "
                "number of ov.erf, ov.linear, ov.quadratic, ov.relu, ov.leaky_relu."
            )
        if np.min(np.diagonal(self.fields(S)[1], axis1=1, axis2=2)[:, : self.rule.K]) <= 0:
            raise ValueError(f"a student of {names} has zero norm; expected positive Q_kk.")
        error, size = self._change(np.ascontiguousarray(S), w)
        if not error <= LIMIT * size:
            raise ValueError(
                f"averages of {names} over fields that have means do not settle: a finer rule changes them by "
                f"{error:.1e}, expected below {LIMIT:g} of {size:.1e}. Causes: kinks, or too large variances. {KINKED}"
            )

    def _fill(self, scale, S, w, A, B, C, dv):
        K, eta, eta_v, noise, second_order = self.rule
        weights, labels, ratios = self.classes
        rows, G = S.shape[1], len(S) // S.shape[1]
        n, eps_g = rows - len(weights), 0.0
        w, v, means = w[:n], w[:K], S.reshape(G, rows, rows)[:, :n, n:].sum(axis=0)
        for array in (A, B, C, dv):
            array[:] = 0.0
        grid, p = tensor(widening(round(scale[0] * SIZES[n])), n)
        p = p / p.sum()
        for c, (pi, y) in enumerate(zip(weights, labels, strict=True)):
            V = np.einsum("g,gij->ij", ratios[c], S.reshape(G, rows, rows)[:, :n, :n])
            z = means[:, c, None] + factor(np.ascontiguousarray(V)) @ grid
            g = np.concatenate([self.student.g(z[:K]), self.teacher.g(z[K:])])
            dg = np.concatenate([self.student.dg(z[:K]), self.teacher.dg(z[K:])])
            error = w @ g - y
            slope = (dg[:K] * error) @ p
            both = (dg[:K] * p) @ dg.T
            bent = ((z[:K] - means[:K, c, None]) * dg[:K] * error) @ p - (V[:K] * both) @ w
            first = v[:, None] * both * w
            first[np.diag_indices(K)] += v * bent / np.diag(V)[:K]
            dv -= eta_v * pi * (g[:K] * error) @ p
            eps_g += 0.5 * pi * (error * error) @ p
            second = (dg[:K] * (p * (error**2 + noise**2))) @ dg[:K].T if second_order else 0.0
            for i in range(G):
                weight, rows_of_group = pi * ratios[c, i], slice(i * K, (i + 1) * K)
                A[rows_of_group] -= eta * weight * first[:, :K]
                B[rows_of_group, : n - K] -= eta * weight * first[:, K:]
                B[rows_of_group, n - K + c] = -eta * pi * v * slope
                C[rows_of_group] += weight * eta**2 * np.outer(v, v) * second
        return eps_g
