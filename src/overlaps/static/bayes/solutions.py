"""Results of Bayes-optimal learning of a wide teacher: solutions of the fixed-point equations, learning curves."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._base import Immutable, check

__all__ = ["BayesCurve", "BayesSolution", "BayesPoint"]


class BayesPoint(NamedTuple):
    """One solution of the fixed-point equations: s = nu/(Delta + eps), error, learned features, potential Phi."""

    s: float
    eps: float
    k_c: int
    phi: float


class BayesSolution(Immutable):
    """The Bayes-optimal state at one amount of data; made by :meth:`overlaps.static.HierarchicalTeacher.solve`.

    Attributes
    ----------
    nu : float
        Data, n/d.
    eps : float
        Error on noiseless labels, E[(yhat - y)^2] (no factor 1/2).
    q : ndarray, shape (k,)
        Overlaps of a posterior sample with the features, in the order of the teacher's v2.
    k_c : int
        Effective width: number of features with q > 0 (exact channel: q > 0.02).
    s, phi : float
        nu / (Delta + eps), and the potential Phi; the free entropy is Phi d/2. Exact channel: s = nu / N, the
        entropy power of a label in place of Delta + eps.
    solutions : tuple of BayesPoint
        All solutions found, largest error first.
    selected : int
        Which of them this is.
    converged : bool
        Whether the residual is below 1e-9 (1e-6 with the exact channel).
    note : str
        Warning if the Gaussian channel that the equations assume is a poor approximation, else empty.
    residual : float
        ``|eps - sum_i v_i^2 (g(1) - g(q_i))| / (Delta + g(1))``, with eps = nu/s - Delta. Exact channel: change of
        -ln(1 - q) by one more iteration, which bounds the change of q.
    eps_err, phi_err : float
        Standard errors of eps and phi; 0 where nothing was sampled.
    channel : str
        "gaussian" or "exact".
    Q : ndarray, shape (k, k), or None
        Overlaps of the features of a posterior sample with all features of the teacher; with ``overlaps="matrix"``.
    """

    teacher: Any  # a HierarchicalTeacher
    nu: float
    eps: float
    q: np.ndarray
    k_c: int
    s: float
    phi: float
    solutions: tuple
    selected: int
    converged: bool
    residual: float
    eps_err: float = 0.0
    phi_err: float = 0.0
    channel: str = "gaussian"
    Q: np.ndarray | None = None

    @property
    def note(self):
        r"""Warning if the Gaussian channel is a poor approximation, else empty.

        The criterion is :math:`\sum_i e_i^2 > 10^{-3} (\Delta + \epsilon)^2`, e_i the contribution of feature i to eps.
        *Heuristic*: with equal readouts of He_3, nu = 3 k and Delta = 1/2, eps is too small by about 30 times that
        ratio.
        """
        teacher = self.teacher
        if self.channel == "exact" or math.isinf(self.s):
            return ""
        terms = teacher.v2 * teacher.feature.overlaps(min(self.s, 1e304) * teacher.v2)[1]
        max_concentration = 1e-3  # a larger sum: eps is wrong by some percent
        if np.sum((terms / (teacher.Delta + self.eps)) ** 2) <= max_concentration:
            return ""
        return (
            f"About {self.eps**2 / np.sum(terms**2):.3g} features contribute to eps, which is "
            f"{self.eps / (teacher.Delta + self.eps):.0%} of Delta + eps: the unknown part of a label is not Gaussian, "
            "and the Bayes error differs from eps by some percent or more (in all sampled cases it was larger). eps is "
            "accurate if more features contribute (larger k, smaller beta) or the noise is larger; else try "
            "channel='exact' or sample_posterior."
        )

    def cut(self, k_s):
        r"""Error of the Bayes estimator cut to its k_s strongest features, of the shape of k_s.

        .. math:: \epsilon(k_s) = \sum_{i \le k_s} v_i^2\,(g(1) - g(q_i)) + g(1) \sum_{i > k_s} v_i^2

        Flat beyond k_c: a student wider than the effective width gains nothing. *Heuristic*: derived from the
        decoupling of the features, not part of the fixed-point equations.

        Parameters
        ----------
        k_s : array_like of int
            Widths of the student, from 0 to k.
        """
        k = self.q.size
        try:
            widths = np.asarray(k_s)
        except ValueError:  # rows of different length
            widths = np.array("")
        if not np.issubdtype(widths.dtype, np.integer) or np.any(widths < 0) or np.any(widths > k):
            raise check.refused("k_s", k_s, f"integers from 0 to k = {k}. Try np.arange({k + 1}).")
        order, feature = np.argsort(-self.teacher.v2, kind="stable"), self.teacher.feature
        v2 = self.teacher.v2[order]
        if self.channel == "exact":
            gap = np.array([feature.gap(q / (1 - q)) for q in self.q[order]])
        else:
            gap = np.zeros(k) if math.isinf(self.s) else feature.overlaps(self.s * v2)[1]
        included = np.concatenate([[0.0], np.cumsum(v2 * gap)])
        omitted = np.concatenate([np.cumsum(v2[::-1])[::-1], [0.0]])
        return (included + feature.total * omitted)[widths]

    def __repr__(self):
        others = f", {len(self.solutions)} solutions" if len(self.solutions) > 1 else ""
        error = f"+-{self.eps_err:.1g}" if self.eps_err else ""
        return f"BayesSolution(nu={self.nu:.6g}, eps={self.eps:.6g}{error}, k_c={self.k_c}/{self.q.size}{others})"


class BayesCurve(Immutable):
    """Learning curve in parametric form; made by :meth:`overlaps.static.HierarchicalTeacher.curve`.

    Attributes
    ----------
    s, nu, eps, k_c : ndarray, shape (n,)
        Parameter nu/(Delta + eps), data n/d, error, effective width. Each point solves the equations exactly; where nu
        falls as s grows, several points belong to the same nu.
    optimal : ndarray of bool, shape (n,)
        False at points that are not the Bayes-optimal solution at their nu: another solution there has a larger Phi
        (and another error). It does not depend on the other points of the curve.
    eps_err : ndarray, shape (n,)
        Standard error of eps with the exact channel (s is nan then), else 0.
    """

    teacher: Any  # a HierarchicalTeacher
    s: np.ndarray
    nu: np.ndarray
    eps: np.ndarray
    k_c: np.ndarray
    optimal: np.ndarray
    eps_err: np.ndarray

    def __len__(self):
        return self.s.size

    def __repr__(self):
        return f"BayesCurve({len(self)} points, nu {self.nu.min():.4g} to {self.nu.max():.4g})"
