"""The closure of inputs in classes, bound to one pair of activations: in closed form, or by a tensor quadrature."""

from typing import Any, NamedTuple

import numpy as np

from ..gaussian.packed import packed
from ..gaussian.quadrature import factor, legendre, tensor, widening
from ..gaussian.two_point import LINEAR, NUMERIC, RELU, SIGN
from ._classes import classes_closure
from .bound import Bound, check_norms, outputs
from .families import parts_of
from .finite_differences import DERIVATIVES


class ClassOptions(NamedTuple):
    """Tunable numbers of the averages over fields that have means."""

    relu_nodes: int = 24  # per dimension, of the integrals in C of relu students
    refinement: float = 1.5  # factor on the number of nodes in the estimate of the error
    tensor_nodes: tuple[int, ...] = (96, 64, 40, 24)  # per dimension, for 1, 2, 3 and 4 fields
    # Largest error of the tensor quadrature at a start, relative to the matrices. Above it, the start is refused.
    quadrature_tol: float = 1e-4


AVERAGES = ClassOptions()


class Classes(NamedTuple):
    """Probabilities (n_classes,), labels (n_classes,), variances relative to the spectrum's (n_classes, groups)."""

    weights: Any = np.empty(0)
    labels: Any = np.empty(0)
    ratios: Any = np.empty((0, 1))

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for inputs without classes."""
        return len(self.weights)


NO_CLASSES = Classes()


def shape_of(activation):
    """(Code of f, a, b) of a function a z + b f(z) with closed forms; the code of other functions is NUMERIC."""
    parts = parts_of(activation) if activation.code == NUMERIC else None
    if parts is None or not parts.is_piecewise_linear:
        return activation.code, 0.0, 1.0
    return (RELU, parts.slope, parts.kink) if parts.kink else (LINEAR, 0.0, parts.slope)


class ClassesClosure(Bound):
    """Closure of fields that have means, averaged over classes, for erf, quadratic, piecewise-linear units, any pair.

    ``S`` (groups n, n) and ``w`` (n,), n = K + M + n_classes, hold the centroids as further static rows. The blocks of
    A, C (groups K, K) and B (groups K, M + n_classes) are stacked, one group below the other.
    """

    def __init__(self, student, teacher, learning, classes):
        super().__init__(student, teacher, learning)
        self.classes, self.kinked = classes, bool(student.kinks)
        self.shapes = shape_of(student), shape_of(teacher)
        self.groups = classes.ratios.shape[1]
        self._last: Any = None
        self._finer: Any = None  # parameters of a quadrature with more nodes; None for closed forms
        self._setup()

    def _setup(self):
        """Set the parameters and the compiled kernel."""
        self.parameters = self._numbers(AVERAGES.relu_nodes)
        if self.shapes[0][0] == RELU and self.learning.second_order:
            self._finer = self._numbers(round(AVERAGES.refinement * AVERAGES.relu_nodes))
        if hasattr(classes_closure, "compile"):
            self.compiled = classes_closure

    def _numbers(self, nodes):
        return packed(self.shapes, *self.classes, *(legendre(nodes) if self.shapes[0][0] == RELU else ()))

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        self._last = S, w
        return self._fill(self.parameters, S, w, A, B, C, dv)

    def _fill(self, parameters, S, w, A, B, C, dv):
        K, _, eta, eta_v, noise, second_order = self.learning
        return classes_closure(S, w, parameters, K, self.teacher.code, eta, eta_v, noise, second_order, A, B, C, dv)

    @property
    def error(self):  # type: ignore[override]
        """Estimate of the absolute error of A, B, C, dv at the last call: their change with more nodes."""
        return 0.0 if self._last is None or self._finer is None else self._change(*self._last)[0]

    def _change(self, S, w):
        """(Largest change of the matrices with more nodes, their largest entry)."""
        coarse, fine = (self.arrays(S, w, parameters) for parameters in (self.parameters, self._finer))
        change = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(coarse, fine, strict=True))
        return float(change), max(float(np.max(np.abs(a), initial=0.0)) for a in fine)

    def arrays(self, S, w, parameters=None):
        """A, B, C, dv at (S, w), in new arrays, with the parameters in use or other ones."""
        values = outputs(S, self.learning.K)
        self._fill(self.parameters if parameters is None else parameters, np.ascontiguousarray(S), w, *values)
        return values

    def fields(self, S):
        """(Means (n_classes, K + M), covariances (n_classes, K + M, K + M)) of the fields, at S of any leading axes."""
        rows = S.shape[-1]
        n = rows - self.classes.n_classes
        S = S.reshape(*S.shape[:-2], -1, rows, rows)
        means = np.swapaxes(S[..., :n, n:].sum(axis=-3), -1, -2)
        return means, np.einsum("cg,...gij->...cij", self.classes.ratios, S[..., :n, :n])

    def check(self, S, w):
        """Raise ``ValueError`` where the closure is undefined."""
        if self.kinked:
            for V in self.fields(S)[1]:
                check_norms(np.pad(V, (0, 1)), self.learning.K)

    def no_jacobian_reason(self, S, least=DERIVATIVES.newton_aligned_sine):
        """Reason why the closure has no derivatives at S, or an empty string."""
        if self.groups > 1:
            return "eigenspaces whose variances differ between classes in their own ways"
        n = len(S) - self.classes.n_classes
        return super().no_jacobian_reason(np.ascontiguousarray(S[:n, :n]), least)


class NumericClassesClosure(ClassesClosure):
    """Averages over classes for any smooth functions of at most four fields, in Python: milliseconds for each class.

    With z = mu + L u and the midpoint rule in u every average is a sum. Averages of g'' follow from Stein's lemma,

        E[g''_k Delta] S_kk = E[(z_k - mu_k) g'_k Delta] - sum_j S_kj w_j E[g'_k g'_j].
    """

    by_quadrature = True
    _kink_remedy = "Piecewise-linear units can be combined with each other, ov.erf and ov.quadratic."

    def _setup(self):
        # Factors on the numbers of nodes.
        self.parameters, self._finer = np.ones(1), np.full(1, AVERAGES.refinement)
        for role, activation in (("activation", self.student), ("teacher_activation", self.teacher)):
            if activation.kinks or activation.code == SIGN:
                raise ValueError(
                    f"{role} = {activation} is not smooth, and there are no closed forms of this pair for fields that "
                    f"have means; expected smooth functions. {self._kink_remedy}"
                )

    def check(self, S, w):
        """Raise ``ValueError`` where there are too many fields, or the integrals do not converge."""
        n = S.shape[1] - self.classes.n_classes
        names = " and ".join(dict.fromkeys([str(self.student), str(self.teacher)]))
        if n > len(AVERAGES.tensor_nodes):
            raise ValueError(
                f"{n} fields of {names} that have means; expected at most {len(AVERAGES.tensor_nodes)} without closed "
                "forms, or any number of ov.erf, ov.linear, ov.quadratic, ov.relu, ov.leaky_relu."
            )
        if np.min(np.diagonal(self.fields(S)[1], axis1=1, axis2=2)[:, : self.learning.K]) <= 0:
            raise ValueError(f"a student of {names} has zero norm; expected positive Q_kk.")
        error, size = self._change(np.ascontiguousarray(S), w)
        if not error <= AVERAGES.quadrature_tol * size:
            raise ValueError(
                f"averages of {names} over fields that have means do not converge: more nodes change them by "
                f"{error:.1e}, expected below {AVERAGES.quadrature_tol:g} of {size:.1e}. Causes: kinks, or too large "
                f"variances. {self._kink_remedy}"
            )

    def _fill(self, scale, S, w, A, B, C, dv):
        K, _, eta, eta_v, noise, second_order = self.learning
        weights, labels, ratios = self.classes
        rows, G = S.shape[1], len(S) // S.shape[1]
        n, eps_g = rows - len(weights), 0.0
        w, v, means = w[:n], w[:K], S.reshape(G, rows, rows)[:, :n, n:].sum(axis=0)
        for array in (A, B, C, dv):
            array[:] = 0.0
        grid, p = tensor(widening(round(scale[0] * AVERAGES.tensor_nodes[n - 1])), n)
        p = p / p.sum()
        for c, (pi, y) in enumerate(zip(weights, labels, strict=True)):
            V = np.einsum("g,gij->ij", ratios[c], S.reshape(G, rows, rows)[:, :n, :n])
            z = means[:, c, None] + factor(np.ascontiguousarray(V)) @ grid
            g = np.concatenate([self.student.g(z[:K]), self.teacher.g(z[K:])])
            dg = np.concatenate([self.student.dg(z[:K]), self.teacher.dg(z[K:])])
            error = w @ g - y
            slope = (dg[:K] * error) @ p
            both = (dg[:K] * p) @ dg.T
            curvature = ((z[:K] - means[:K, c, None]) * dg[:K] * error) @ p - (V[:K] * both) @ w
            first = v[:, None] * both * w
            first[np.diag_indices(K)] += v * curvature / np.diag(V)[:K]
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
