r"""Deterministic equivalents of a sample covariance: companion transform, contour integrals, Laplace transforms.

The rows of X, n = N/c, have the covariance :math:`\Sigma = \{s_l, p_l\}`, and :math:`\hat S = X^TX/n`.  The companion
transform m(z) solves

.. math:: z = -\frac1m + c\sum_l \frac{p_l s_l}{1 + m s_l}, \qquad D_l(z) = \frac{1}{1 + m(z) s_l},

and in eigenspace l the resolvent :math:`(z - \hat S)^{-1}` has the mean :math:`D_l(z)/z`.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


class ContourOptions(NamedTuple):
    """Tunable numbers of the contours."""

    # Parameters of Talbot's contour for inverse Laplace transforms: n nodes leave an error of 3.9^-n.
    talbot: tuple[float, float, float, float] = (0.5017, 0.6407, 0.6122, 0.2645)
    # Imaginary half width of the ellipse in log z. Wider: (1 - h z)^k grows on it; narrower: more nodes are needed.
    half_width: float = 0.8
    # Largest number of substeps between two nodes (a power of two); Newton's method fails where more are needed.
    max_substeps: int = 64


CONTOUR = ContourOptions()


def edge(s, p, c):
    """Largest eigenvalue of the sample covariance: z at the negative root of dz/dm nearest to zero."""
    s, p = s[p * s > 0], p[p * s > 0]
    low = -1 / s.max()

    def slope(m):
        return 1 - c * np.sum(p * (m * s / (1 + m * s)) ** 2)

    root = brentq(slope, low * (1 - 1e-15), low * 1e-12 / (1 + c), xtol=abs(low) * 1e-15)
    return float(-1 / root + c * np.sum(p * s / (1 + root * s)))


def companion(s, p, c, path):
    """m(z) at the nodes z (n, ...) of paths outside the spectrum; each begins on, or near, the negative axis.

    m is real on the negative axis, where bisection finds it.  Newton's iteration continues it from node to node; where
    it fails, the path between two nodes is divided.  The right root is the one whose Im m has the sign of Im z.
    """
    z = -np.abs(path[0])
    m, where, transform = _on_negative_axis(s, p, c, z), z.astype(complex), np.empty(path.shape, dtype=complex)
    for k, target in enumerate(path):
        # divide a step that fails into two, four, ... substeps: analytic continuation succeeds if these are short
        for cuts in 2 ** np.arange(1 + int(np.log2(CONTOUR.max_substeps))):
            trial, good = m, True
            for fraction in np.arange(1, cuts + 1) / cuts:
                trial, good = _newton(s, p, c, where + fraction * (target - where), trial)
                if not good:
                    break
            if good:
                break
        else:
            raise ValueError(
                "the companion transform was not found: the contour comes too close to the spectrum, at a distance "
                "that falls as 1/alpha. Try a smaller alpha."
            )
        m, where = trial, target
        transform[k] = m
    return transform


def _on_negative_axis(s, p, c, z):
    """Find m > 0 at real z < 0, of any shape: z(m) grows between 1/(c <s> - z) and -1/z."""
    roots = [
        brentq(lambda m, y=y: -1 / m + c * np.sum(p * s / (1 + m * s)) - y, 1 / (c * (p @ s) - y), -1 / y, rtol=1e-14)
        for y in z.flat
    ]
    return np.array(roots).reshape(z.shape).astype(complex)


def _newton(s, p, c, z, m):
    """(m(z) by Newton's iteration for all entries at once, whether all have converged to the right root)."""
    with np.errstate(all="ignore"):  # divergence is detected below; the caller repeats the step in substeps
        for _ in range(30):
            D = 1 / (1 + m[..., None] * s)
            change = (-1 / m + c * (D @ (p * s)) - z) / (1 / m**2 - c * (D**2 @ (p * s**2)))
            m = m - change
            if np.all(np.abs(change) <= 1e-15 * np.abs(m)):
                break
    # other roots of the equation have Im m of the wrong sign
    good = np.abs(change) <= 1e-12 * np.abs(m)
    return m, bool(np.all(good & (m.imag * z.imag >= 0) & np.isfinite(m)))


def resolvent(s, p, c, z):
    """Means (L, *z.shape) of 1/(S - z) in each eigenspace, on paths as :func:`companion` takes them."""
    return -1 / (z * (1 + np.multiply.outer(s, companion(s, p, c, z))))


class Contour:
    """Closed contour around the spectrum of the sample covariance and zero, with the two kernels on it.

    An ellipse in log((z + 2 delta)/(1 - z/last)) whose foci lie at z = 0 and at the edge.  Functions that grow by a
    factor e^(1/2) at -delta, and halfway between the edge and ``last``, stay of order one on it; ``last`` may be
    infinite.  The contour is symmetric: ``z`` (n,) are the nodes of the upper half.
    """

    def __init__(self, s, p, c, largest, delta, last, n):
        delta = min(delta, largest)
        ends = np.log(np.array([2 * delta, (largest + 2 * delta) / (1 - largest / last)]))
        axis = np.hypot((ends[1] - ends[0]) / 2, CONTOUR.half_width)
        angle = np.pi * (n - np.arange(n) - 0.5) / n  # starting at the negative axis
        point = np.exp(ends.mean() + axis * np.cos(angle) + 1j * CONTOUR.half_width * np.sin(angle))
        self.z = (point - 2 * delta) / (1 + point / last)
        self.s, self.p, self.c = s, p, c
        self.m = companion(s, p, c, self.z)
        self.D = 1 / (1 + np.multiply.outer(self.m, s))
        speed = (-axis * np.sin(angle) + 1j * CONTOUR.half_width * np.cos(angle)) * point
        speed *= (1 + 2 * delta / last) / (1 + point / last) ** 2
        self.weight = speed / (2j * n) / self.z

    def single(self, weights):
        """Coefficients (n,) for :meth:`integral`: sum_l weights_l D_l(z)/z times the weights of the nodes."""
        return self.weight * (self.D @ weights)

    def integral(self, coefficients, h):
        """Mean of the function h of the sample covariance."""
        return 2 * float((coefficients @ h).real)

    def kernel(self, o):
        """Two kernels (n, n), with a node and with a conjugate node, of the overlaps o_l = w P_l w'/N in Sigma."""
        kernels = []
        for D, m, weight in ((self.D, self.m, self.weight), (self.D.conj(), self.m.conj(), self.weight.conj())):
            coupling = self.c * np.multiply.outer(self.m, m) * ((self.D * (self.p * self.s**2)) @ D.T)
            kernel = ((self.D * (self.s * o)) @ D.T) / (1 - coupling)
            kernels.append(self.weight[:, None] * weight * kernel)
        return kernels

    def double(self, kernels, f, g):
        """Mean of w f Sigma g w'/N, with the kernels of the overlaps of w and w'."""
        same, conjugate = kernels
        return 2 * float((f @ same @ g + f @ conjugate @ g.conj()).real)


def from_laplace(times, n):
    """Nodes omega (n/2, times) in the upper half plane and weights whose sum inverts a Laplace transform at times > 0.

    The contour surrounds the negative axis, where the transforms of decaying functions have their singularities.
    """
    a, b, c, d = CONTOUR.talbot
    theta = np.pi * (np.arange(n // 2) + 0.5) * 2 / n
    shape = a * theta / np.tan(b * theta) - c + 1j * d * theta
    speed = a / np.tan(b * theta) - a * b * theta / np.sin(b * theta) ** 2 + 1j * d
    omega = np.multiply.outer(n * shape, 1 / times)
    return omega, np.multiply.outer(-2j * np.exp(n * shape) * speed, 1 / times)
