"""Solutions of the fixed-point equations with the exact law of a label instead of a Gaussian one."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from ..._base import check, warn
from ._features import entropy
from .branches import crossings
from .labels import Information, LabelLaw
from .solutions import BayesPoint, BayesSolution

__all__ = ["ExactPoints", "exact_information", "exact_solution"]


class ExactOptions(NamedTuple):
    """Tunable numbers of the iteration with the exact channel."""

    # Distance of an iterate from its image, max |dx|, below which Anderson's acceleration starts. Empirical.
    acceleration_start: float = 0.3
    # Past iterates that the acceleration uses.
    history: int = 4
    # Distance from the image at which the iteration ends.
    iteration_tol: float = 1e-9
    max_iterations: int = 200
    # Difference of x = -ln(1 - q) below which two solutions are the same.
    same_tol: float = 1e-6
    # Cells of the grid on which solutions of equal readouts are sought; with half as many, close pairs are missed.
    scan_cells: int = 24
    # Overlap above which a feature counts as learned.
    learned_overlap: float = 0.02
    # Conditionings are chosen at overlaps clipped to this interval.
    min_reference: float = 0.3
    max_reference: float = 0.98
    # Residual below which a solution is reported as converged.
    converged_residual: float = 1e-6


EXACT = ExactOptions()


class Solution(NamedTuple):
    """One solution in all replicas: errors, overlaps, potentials, entropy powers, largest distance from the image."""

    eps: np.ndarray
    q: np.ndarray
    phi: np.ndarray
    power: np.ndarray
    residual: float
    Q: np.ndarray | None = None  # (k, k), if overlaps between different features are included

    def point(self, nu):
        """Averages over the replicas."""
        learned = int(np.sum(self.q.mean(axis=0) > EXACT.learned_overlap))
        return BayesPoint(nu / float(self.power.mean()), float(self.eps.mean()), learned, float(self.phi.mean()))


class ExactPoints:
    r"""Overlaps that solve :math:`q_i/(1-q_i) = \nu h_i(q)`, h the Fisher information of a label.

    The iteration is monotone because h does not decrease with any overlap. It increases from q = 0 to the least
    solution, and decreases from :math:`\nu v_i^2 g'(1)/\Delta`, the value if all other features were known, to the
    greatest. The variables are x = -ln(1 - q), one for each group of equal readouts.
    """

    def __init__(self, teacher, reference, samples, rng):
        self.feature, self.Delta = teacher.feature, teacher.Delta
        values, first, self.group, self.counts = np.unique(
            -teacher.v2, return_index=True, return_inverse=True, return_counts=True
        )
        self.v2 = -values
        reference = np.clip(np.asarray(reference)[first], EXACT.min_reference, EXACT.max_reference)
        v = np.sqrt(self.v2)
        self.labels = LabelLaw(self.feature.g, v, self.group, self.Delta, reference, samples, rng)

    def solve(self, nu):
        """All solutions found, least overlaps first."""
        top = self._top(nu)
        if self.v2.size == 1:
            starts = self._scan(nu, float(top[0]))
        else:
            low, high = (self._iterate(nu, x, 0)[0] for x in (np.zeros(top.size), top))
            unique = np.allclose(low, high, rtol=0, atol=EXACT.same_tol)
            starts = [low] if unique else [low, *self._between(nu, top, low, high), high]
        return [self._describe(nu, x) for x in starts]

    def _top(self, nu):
        """Bound on every image, reached if all other features are known."""
        return np.log1p(nu * self.v2 * self.feature.slope / self.Delta)

    def _within(self, nu, x):
        """The iterate, clipped to possible overlaps."""
        return np.clip(x, 0.0, self._top(nu))

    def _image(self, nu, x, replica):
        return np.log1p(nu * self.labels.information(-np.expm1(-x), replica))

    def _scan(self, nu, top):
        """Solutions of equal readouts: all x where image - x changes sign from + to -."""

        def excess(x):
            return float(self._image(nu, np.array([x]), 0)[0]) - x

        x = np.linspace(0, top, EXACT.scan_cells + 1)
        below = np.array([excess(y) for y in x]) < 0
        return [np.array([y]) for y in crossings(excess, x, below, xtol=1e-12, rtol=1e-12)]

    def _between(self, nu, top, low, high):
        """Solutions reached from starts at which the first m features are known and the others unknown."""
        solutions: list[np.ndarray] = []
        middle = 0.5 * (low + high)
        for m in range(1, top.size):
            if any(np.sum(x > middle) == m for x in (low, high, *solutions)):
                continue
            x = self._iterate(nu, np.where(np.arange(top.size) < m, top, 0.0), 0)[0]
            if not any(np.allclose(x, y, rtol=0, atol=10 * EXACT.same_tol) for y in (low, high, *solutions)):
                solutions.append(x)
        return sorted(solutions, key=np.sum)

    def _iterate(self, nu, x, replica):
        """End (x, distance from its image) of the iteration from x; Anderson's acceleration near the end."""
        history: list[tuple] = []
        last = math.inf
        for _ in range(EXACT.max_iterations):
            image = self._image(nu, x, replica)
            size = float(np.max(np.abs(image - x)))
            if size < EXACT.iteration_tol:
                break
            near = size < min(EXACT.acceleration_start, 2 * last)
            history = [*history[-EXACT.history :], (image, image - x)] if near else []
            last, x = size, image
            if len(history) > 1:
                images, rests = (np.diff(y, axis=0).T for y in zip(*history, strict=True))
                x = image - images @ np.linalg.lstsq(rests, history[-1][1], rcond=None)[0]
                x = self._within(nu, x)
        return image, size

    def _describe(self, nu, start):
        """The solution reached from x in every replica."""
        ends = [self._iterate(nu, start, r) for r in range(self.labels.replicas)]
        t = np.expm1([x for x, _ in ends])
        gaps, prices = (np.array([[f(y) for y in row] for row in t]) for f in (self.feature.gap, entropy))
        H = np.array([self.labels.entropy(row / (1 + row), r) for r, row in enumerate(t)])
        power = np.exp(2 * H) / (2 * math.pi * math.e)
        phi = -prices @ self.counts - nu * np.log(power)
        q, residual = (t / (1 + t))[:, self.group], max(size for _, size in ends)
        return Solution(gaps @ (self.counts * self.v2), q, phi, power, residual)


def exact_information(teacher, q, samples, rng):
    """Information of a label at the overlaps q (k,), by the exact law of the label."""
    pairs, group = np.unique(np.stack([-teacher.v2, q]), axis=1, return_inverse=True)
    v, q = np.sqrt(-pairs[0]), pairs[1]
    reference = np.clip(q, EXACT.min_reference, EXACT.max_reference)
    labels = LabelLaw(teacher.feature.g, v, group.ravel(), teacher.Delta, reference, samples, rng)
    h = np.array([labels.information(q, r) for r in range(labels.replicas)])[:, labels.group]
    power = np.exp([2 * labels.entropy(q, r) for r in range(labels.replicas)]) / (2 * math.pi * math.e)
    return Information(
        h.mean(axis=0), standard_error(h), float(power.mean()), float(standard_error(power)), labels.cross(q)
    )


def standard_error(values):
    """Standard error of the mean over replicas times Student's factor for few replicas; 0 for a single one."""
    dof = len(values) - 1
    if dof == 0:
        return np.zeros(values.shape[1:])
    return stdtrit(dof, ndtr(1.0)) * np.std(values, axis=0, ddof=1) / math.sqrt(dof + 1)


def exact_solution(teacher, nu, selection, solutions):
    """A BayesSolution from all solutions found with the exact channel."""
    best = int(np.argmax([x.phi.mean() for x in solutions]))
    selected = {"bayes": best, "uninformed": 0, "informed": len(solutions) - 1}[selection]
    for other in solutions:
        gap = solutions[best].phi - other.phi
        if selection == "bayes" and other is not solutions[best] and gap.mean() < 3 * standard_error(gap):
            warn(
                f"two solutions at nu = {nu:.6g} have potentials that differ by {gap.mean():.2g}"
                f"({standard_error(gap):.1g}): eps = {solutions[best].eps.mean():.4g} was chosen, "
                f"{other.eps.mean():.4g} may be right. Try more samples."
                + check.see("bayes", "Where the equations fail")
            )
    one = solutions[selected]
    q = one.q.mean(axis=0)
    points = tuple(x.point(nu) for x in solutions)
    s, eps, k_c, phi = points[selected]
    errors = float(standard_error(one.eps)), float(standard_error(one.phi))
    good = one.residual < EXACT.converged_residual
    return BayesSolution(
        teacher, nu, eps, q, k_c, s, phi, points, selected, good, one.residual, *errors, teacher.channel, one.Q
    )
