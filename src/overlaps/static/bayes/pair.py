"""Two features with all four of their overlaps, by the exact law of a label."""

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from ..._base import check
from ...gaussian.quadrature import trapezoid
from ._polynomial import FLOOR, spread
from .exact import SAME, ExactPoints, Solution
from .labels import LARGEST

__all__ = ["Pair"]

KNOWN, REST = (5.5, 0.4), (5.5, 0.25)  # range and largest step of what is known of a field, and of what is not
BLOCK = 64  # values of what is known that are summed up together


class Pair(ExactPoints):
    r"""Overlaps Q (2, 2) of two features that solve :math:`Q (1 - Q)^{-1} = \nu G(Q)`.

    .. math:: G_{ij} = E_V \int dy\, \frac{\partial_i p\, \partial_j p}{p}, \qquad
        p(y|V) = E_\xi\, N\Big(y;\ \sum_i v_i \sigma(z_i),\ \Delta\Big), \qquad z = Q^{1/2} V + (1 - Q)^{1/2} \xi

    Labels of a grid of xi are put into bins, and the bins smoothed by the noise. Overlaps are carried as -ln(1 - Q).
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
        if self.size > LARGEST:
            raise ValueError(
                f"noise = {self.noise:g} takes {self.size} values of the label; expected at most {LARGEST}. Try more "
                "noise, or channel='gaussian'." + check.see("bayes", "When not to believe the equations")
            )
        tau = 2 * math.pi / (self.size * self.dy) * np.arange(self.size // 2 + 1)
        # a label is shared between two bins, which widens it
        self.damping = np.exp(-0.5 * (self.noise**2 - self.dy**2 / 6) * tau**2)

    def information(self, Q):
        """(G, entropy power of a label) at overlaps Q."""
        known, rest = of(np.sqrt, Q), of(np.sqrt, np.eye(2) - Q)
        step = 2 * self.noise / (self.steep * np.linalg.norm(rest, 2))  # the labels of neighbours overlap
        x, weight = trapezoid(min(REST[1], step), REST[0])
        V, probability = trapezoid(KNOWN[1], KNOWN[0])
        nodes, probability = np.stack(np.meshgrid(V, V), axis=-1).reshape(-1, 2), np.outer(probability, probability)
        probability = probability.ravel()
        if self.odd:  # V -> -V turns the label over
            half = probability.size // 2
            nodes, probability = nodes[: half + 1], np.append(2 * probability[:half], probability[half])
        nodes, probability = nodes[probability > 1e-10] @ known, probability[probability > 1e-10]
        G, H = np.zeros((2, 2)), math.log(self.dy)
        for part in np.array_split(np.arange(probability.size), math.ceil(probability.size / BLOCK)):
            bins = np.zeros((3, part.size, self.size))
            spread(nodes[part], x, weight, rest, self.v, self.sigma, self.dy, bins)
            p, *slopes = irfft(rfft(bins) * self.damping, self.size)
            p = np.where(p > FLOOR * p.max(axis=1, keepdims=True), p, np.inf)
            each = np.array([d / np.sqrt(p) for d in slopes])
            G += np.einsum("c,icy,jcy->ij", probability[part], each, each)
            p[np.isinf(p)] = 1.0
            H -= np.sum(probability[part] @ (p * np.log(p)))
        back = np.linalg.inv(rest)
        return back @ G @ back, math.exp(2 * H) / (2 * math.pi * math.e)

    def solve(self, nu):
        """The least and the greatest solution; one if they are the same."""
        ends = [self._settle(nu, x, 0) for x in (np.zeros(3), self._top(nu))]
        alone = np.allclose(ends[0][0], ends[1][0], rtol=0, atol=10 * SAME)
        return [self._solution(nu, *end) for end in (ends[1:] if alone else ends)]

    def _top(self, nu):
        return np.append(np.log1p(nu * self.largest), 0.0)

    def _image(self, nu, x, replica):
        G, _ = self.information(overlap_matrix(x))
        return of(np.log1p, nu * G)[[0, 1, 0], [0, 1, 1]]

    def _within(self, nu, x):
        """Eigenvalues that overlaps can have."""
        return of(lambda a: np.minimum(a, self._top(nu).max()), square(x))[[0, 1, 0], [0, 1, 1]]

    def _solution(self, nu, x, residual):
        Q = overlap_matrix(x)
        power = self.information(Q)[1]
        eps = self.v @ np.polynomial.polynomial.polyval(np.eye(2), self.c) @ self.v
        eps -= self.v @ np.polynomial.polynomial.polyval(Q, self.c) @ self.v
        phi = np.trace(Q) - x[:2].sum() - nu * math.log(power)
        return Solution(np.array([eps]), np.diag(Q)[None], np.array([phi]), np.array([power]), residual, Q)


def of(function, A):
    """A function of a matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(A)
    return vectors * function(np.maximum(values, 0.0)) @ vectors.T


def overlap_matrix(x):
    """Q of -ln(1 - Q)."""
    return of(lambda a: -np.expm1(-a), square(x))


def square(x):
    """[[a, c], [c, b]] of (a, b, c)."""
    return np.array([[x[0], x[2]], [x[2], x[1]]])
