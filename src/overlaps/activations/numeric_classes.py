"""The closure of inputs in classes for functions without closed forms: one tensor rule over all fields."""

import numpy as np

from ..gaussian.rules import factor, widening
from ..gaussian.two_point import SIGN
from .classes import FINER, ClassesClosure

SIZES = {1: 96, 2: 64, 3: 40, 4: 24}  # nodes in each dimension, by the number of fields
# Error at a start relative to the matrices. Above, a finer rule still changes them, and the start is refused.
LIMIT = 1e-4
KINKED = "Piecewise-linear units go with each other, ov.erf and ov.quadratic."


class NumericClassesClosure(ClassesClosure):
    """The same averages for any smooth functions of at most four fields, in Python: milliseconds for each class.

    With z = mu + L u and the midpoint rule in u every average is a sum; g'' is Stein's lemma,

        E[g''_k Delta] S_kk = E[(z_k - mu_k) g'_k Delta] - sum_j S_kj w_j E[g'_k g'_j].
    """

    by_quadrature = True

    def _setup(self):
        self.parameters = np.ones(1)  # relative size of the rule
        for role, activation in (("activation", self.student), ("teacher_activation", self.teacher)):
            if activation.kinks or activation.code == SIGN:
                raise ValueError(
                    f"{role} = {activation} is not smooth, and there are no closed forms of this pair for fields that "
                    f"have means; expected smooth functions. {KINKED}"
                )

    @property
    def error(self):  # type: ignore[override]
        """Change of A, B, C, dv at the last call by a rule of half as many nodes more."""
        return 0.0 if self._last is None else self._change(*self._last)[0]

    def _change(self, S, w):
        """(largest change by a finer rule, size of the matrices)."""
        coarse, fine = (self.arrays(S, w, scale) for scale in (self.parameters, FINER * self.parameters))
        change = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(coarse, fine, strict=True))
        return float(change), max(float(np.max(np.abs(a), initial=0.0)) for a in fine)

    def check(self, S, w):
        """Raise ``ValueError`` where there are too many fields, or the integrals do not settle."""
        n = S.shape[1] - self.classes.C
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
        for c, (pi, y) in enumerate(zip(weights, labels, strict=True)):
            V = np.einsum("g,gij->ij", ratios[c], S.reshape(G, rows, rows)[:, :n, :n])
            z, p = _tensor_nodes(means[:, c], V, round(scale[0] * SIZES[n]))
            g, dg = (np.concatenate([f(z[:K]), h(z[K:])]) for f, h in self._functions)
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

    @property
    def _functions(self):
        return (self.student.g, self.teacher.g), (self.student.dg, self.teacher.dg)


def _tensor_nodes(mu, V, size):
    """Fields z (n, size^n) and weights of the tensor rule for N(mu, V)."""
    u, p = widening(size)
    n = len(mu)
    grid = np.stack([a.ravel() for a in np.meshgrid(*[u] * n, indexing="ij")])
    weight = np.ones(1)
    for _ in range(n):
        weight = np.outer(weight, p).ravel()
    return mu[:, None] + factor(np.ascontiguousarray(V)) @ grid, weight / weight.sum()
