"""The closure of inputs in classes, bound to one pair of activations."""

from typing import Any, NamedTuple

import numpy as np

from ..gaussian.rules import legendre
from ..gaussian.two_point import LINEAR, NUMERIC, RELU
from ._classes import classes_closure
from .bound import NEARLY, Bound, check_norms, outputs
from .parts import parts_of

NODES = 24  # per dimension, of C of relu students
FINER = 1.5  # times as many, for the estimate of its error


class Classes(NamedTuple):
    """Classes of inputs: probabilities (C,), labels (C,), and variances relative to the spectrum's (C, groups)."""

    weights: Any = np.empty(0)
    labels: Any = np.empty(0)
    ratios: Any = np.empty((0, 1))

    @property
    def C(self) -> int:
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
        self._setup()

    def _setup(self):
        """Parts that differ between closed forms and quadrature."""
        self.parameters = self._numbers(NODES)
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
        centroids = np.zeros(self.classes.C)
        w = np.concatenate([w[: S.shape[1] - centroids.size], centroids, parameters])
        return classes_closure(S, w, K, self.teacher.code, eta, eta_v, noise, second_order, A, B, C, dv)

    @property
    def error(self):  # type: ignore[override]
        """Estimate of the absolute error of C at the last call: its change by a finer rule."""
        if self.shapes[0][0] != RELU or not self.rule.second_order or self._last is None:
            return 0.0
        S, w = self._last
        coarse, fine = (self.arrays(S, w, self._numbers(n))[2] for n in (NODES, round(FINER * NODES)))
        return float(np.max(np.abs(fine - coarse)))

    def arrays(self, S, w, parameters=None):
        """A, B, C, dv at (S, w), in new arrays, by the rule in use or by another one."""
        values = outputs(S, self.rule.K)
        self._fill(self.parameters if parameters is None else parameters, np.ascontiguousarray(S), w, *values)
        return values

    def fields(self, S):
        """(means (C, K + M), covariances (C, K + M, K + M)) of the fields in each class, at S of any leading axes."""
        rows, C = S.shape[-1], self.classes.C
        n = rows - C
        S = S.reshape(*S.shape[:-2], -1, rows, rows)
        means = np.swapaxes(S[..., :n, n:].sum(axis=-3), -1, -2)
        return means, np.einsum("cg,...gij->...cij", self.classes.ratios, S[..., :n, :n])

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is not defined."""
        if self.kinked:
            for V in self.fields(S)[1]:
                check_norms(np.pad(V, (0, 1)), self.rule.K)

    def obstacle(self, S, least=NEARLY):
        """Why there are no derivatives at S, or an empty string."""
        if self.groups > 1:
            return "eigenspaces whose variances differ between classes in their own ways"
        n = len(S) - self.classes.C
        return super().obstacle(np.ascontiguousarray(S[:n, :n]), least)
