"""The three families of functions whose Gaussian integrals are known: polynomials, piecewise linear, sums of erf."""

import math
from typing import NamedTuple

import numpy as np

from ..gaussian.two_point import ERF, QUADRATIC, RELU, SIGN
from .polynomials import Polynomial


class Parts(NamedTuple):
    """g(x) = sum_p coefficients_p x^p + kink relu(x) + sum_j amplitudes_j erf(scales_j x / sqrt 2), of one family.

    A polynomial, or a x + kink relu(x), or the sum of error functions; ``error`` bounds the distance of that sum from
    the function for which it stands.
    """

    coefficients: tuple = (0.0,)
    kink: float = 0.0
    amplitudes: tuple = ()
    scales: tuple = ()
    error: float = 0.0

    @property
    def family(self):
        """The family of g, in words."""
        return "piecewise linear" if self.kink else "sum of erf" if self.amplitudes else "polynomial"

    @property
    def is_polynomial(self):
        """Whether g is a polynomial."""
        return not self.kink and not self.amplitudes

    @property
    def is_piecewise_linear(self):
        """Whether g(x) = slope x + kink relu(x)."""
        return not self.amplitudes and len(self.coefficients) <= 2 and self.coefficients[0] == 0.0

    @property
    def slope(self):
        """Coefficient of x."""
        return (*self.coefficients, 0.0)[1]

    @property
    def degree(self):
        """Degree as a polynomial on each side of the kink."""
        return max(len(self.coefficients) - 1, 1 if self.kink else 0)

    def __call__(self, x):
        """g(x) of a polynomial or piecewise-linear function."""
        return Polynomial(self.coefficients)(x) + self.kink * np.maximum(x, 0.0)

    def derivative(self, x):
        """g'(x)."""
        total = Polynomial(self.coefficients).derivative()(x) + self.kink * (np.asarray(x) > 0)
        for amplitude, scale in zip(self.amplitudes, self.scales, strict=True):
            total = total + amplitude * scale * math.sqrt(2 / math.pi) * np.exp(-0.5 * (scale * x) ** 2)
        return total


def parts_of(activation):
    """The activation as ``Parts``, if it belongs to one of the families by construction, else None."""
    if isinstance(activation.g, Polynomial):
        return Parts(activation.g.coefficients)
    mixture = activation.closed_sum
    if mixture is None or mixture.code == SIGN:
        return None
    amplitudes, scales = np.array(mixture.amplitudes), np.array(mixture.scales)
    if mixture.code == ERF:
        return Parts(amplitudes=mixture.amplitudes, scales=mixture.scales, error=mixture.error)
    if mixture.code == QUADRATIC:
        return Parts((0.0, 0.0, float(amplitudes @ scales**2)))
    if mixture.code == RELU:  # relu(-x) = relu(x) - x
        return Parts((0.0, float(amplitudes @ np.minimum(scales, 0.0))), float(amplitudes @ np.abs(scales)))
    return Parts((0.0, float(amplitudes @ scales)))
