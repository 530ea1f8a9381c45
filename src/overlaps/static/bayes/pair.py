"""Two features with all four of their overlaps, by the exact law of a label."""

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from ..._base import check
from ...gaussian.quadrature import trapezoid
from ._polynomial import KERNELS, bin_labels
from .exact import EXACT, ExactPoints, Solution
from .labels import LABELS

__all__ = ["Pair"]


class PairOptions(NamedTuple):
    """Grids of the Gaussian averages, in standard deviations."""

    # Known part V of a field: half width and step. eps is then good to about 1e-4.
    known_range: float = 5.5
    known_step: float = 0.4
    # Unknown part xi of a field: half width and largest step.
    unknown_range: float = 5.5
    max_unknown_step: float = 0.25
    # Points V whose histograms are held in memory at once.
    chunk: int = 64


PAIR = PairOptions()


class Pair(ExactPoints):
    r"""Overlaps Q (2, 2) of two features that solve :math:`Q (1 - Q)^{-1} = \nu G(Q)`.

    .. math:: G_{ij} = E_V \int dy\, \frac{\partial_i p\, \partial_j p}{p}, \qquad
        p(y|V) = E_\xi\, N\Big(y;\ \sum_i v_i \sigma(z_i),\ \Delta\Big), \qquad z = Q^{1/2} V + (1 - Q)^{1/2} \xi

    Labels on a grid of xi are binned, and the histogram is convolved with the noise. The variable is -ln(1 - Q).
    """

    def __init__(self, teacher):
        self.v, self.sigma, self.noise = np.sqrt(teacher.v2), teacher.g.polynomial, teacher.noise
        self.c, self.largest = np.array(teacher.g.c), teacher.v2 * teacher.feature.slope / teacher.Delta
        self.odd, self.dy = not np.any(self.c[::2]), 0.15 * teacher.noise
        z = np.linspace(0, 6, 601)
        reach = self.v.sum() * np.abs(np.polynomial.polynomial.polyval(z, self.sigma)).max()
        slope = np.abs(np.polynomial.polynomial.polyval(z[:401], np.polynomial.polynomial.polyder(self.sigma)))
        self.steep = self.v.max() * slope.max()
        self.size = 2 * next_fast_len(math.ceil((reach + 8 * self.noise) / self.dy))
        if self.size > LABELS.max_label_points:
            raise ValueError(
                f"noise = {self.noise:g} needs {self.size} values of the label; expected at most "
                f"{LABELS.max_label_points}. Try more noise, or channel='gaussian'."
                + check.see("bayes", "Where the equations fail")
            )
        tau = 2 * math.pi / (self.size * self.dy) * np.arange(self.size // 2 + 1)
        # linear binning widens the density by dy^2 / 6
        self.damping = np.exp(-0.5 * (self.noise**2 - self.dy**2 / 6) * tau**2)

    def information(self, Q):
        """(G, entropy power of a label) at overlaps Q."""
        known, rest = matrix_function(np.sqrt, Q), matrix_function(np.sqrt, np.eye(2) - Q)
        step = 2 * self.noise / (self.steep * np.linalg.norm(rest, 2))  # labels of neighbouring nodes overlap
        x, weight = trapezoid(min(PAIR.max_unknown_step, step), PAIR.unknown_range)
        V, probability = trapezoid(PAIR.known_step, PAIR.known_range)
        nodes, probability = np.stack(np.meshgrid(V, V), axis=-1).reshape(-1, 2), np.outer(probability, probability)
        probability = probability.ravel()
        if self.odd:  # V -> -V changes the sign of the label
            half = probability.size // 2
            nodes, probability = nodes[: half + 1], np.append(2 * probability[:half], probability[half])
        nodes, probability = nodes[probability > 1e-10] @ known, probability[probability > 1e-10]
        G, H = np.zeros((2, 2)), math.log(self.dy)
        for chunk in np.array_split(np.arange(probability.size), math.ceil(probability.size / PAIR.chunk)):
            bins = np.zeros((3, chunk.size, self.size))
            bin_labels(nodes[chunk], x, weight, rest, self.v, self.sigma, self.dy, bins)
            p, *slopes = irfft(rfft(bins) * self.damping, self.size)
            p = np.where(p > KERNELS.min_relative_density * p.max(axis=1, keepdims=True), p, np.inf)
            scores = np.array([d / np.sqrt(p) for d in slopes])
            G += np.einsum("c,icy,jcy->ij", probability[chunk], scores, scores)
            p[np.isinf(p)] = 1.0
            H -= np.sum(probability[chunk] @ (p * np.log(p)))
        inverse = np.linalg.inv(rest)
        return inverse @ G @ inverse, math.exp(2 * H) / (2 * math.pi * math.e)

    def solve(self, nu):
        """The least and the greatest solution; one if they are the same."""
        ends = [self._iterate(nu, x, 0) for x in (np.zeros(3), self._top(nu))]
        unique = np.allclose(ends[0][0], ends[1][0], rtol=0, atol=10 * EXACT.same_tol)
        return [self._solution(nu, *end) for end in (ends[1:] if unique else ends)]

    def _top(self, nu):
        return np.append(np.log1p(nu * self.largest), 0.0)

    def _image(self, nu, x, replica):
        G, _ = self.information(overlap_matrix(x))
        return matrix_function(np.log1p, nu * G)[[0, 1, 0], [0, 1, 1]]

    def _within(self, nu, x):
        """The iterate with its eigenvalues clipped to those of possible overlaps."""
        return matrix_function(lambda a: np.minimum(a, self._top(nu).max()), square(x))[[0, 1, 0], [0, 1, 1]]

    def _solution(self, nu, x, residual):
        Q = overlap_matrix(x)
        power = self.information(Q)[1]
        eps = self.v @ np.polynomial.polynomial.polyval(np.eye(2), self.c) @ self.v
        eps -= self.v @ np.polynomial.polynomial.polyval(Q, self.c) @ self.v
        phi = np.trace(Q) - x[:2].sum() - nu * math.log(power)
        return Solution(np.array([eps]), np.diag(Q)[None], np.array([phi]), np.array([power]), residual, Q)


def matrix_function(function, A):
    """A function of a matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(A)
    return vectors * function(np.maximum(values, 0.0)) @ vectors.T


def overlap_matrix(x):
    """Q of -ln(1 - Q)."""
    return matrix_function(lambda a: -np.expm1(-a), square(x))


def square(x):
    """[[a, c], [c, b]] of (a, b, c)."""
    return np.array([[x[0], x[2]], [x[2], x[1]]])
