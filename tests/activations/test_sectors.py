"""Sectors and wedges of the plane of two fields, where integrands have kinks."""

import numpy as np
import pytest

from overlaps.activations.kink_orthants import plane, wedge
from overlaps.gaussian.two_point import RELU, two_point


@pytest.mark.parametrize("r", [0.3, -0.8, 1 - 1e-12, -1 + 1e-12, 1.0, -1.0])
def test_sectors_integrate_what_has_kinks(r):
    x, y, _, p = plane(np.array(r), 8)
    # Wick, and the arcsine of two signs; a sector of width 1e-6 is as good as any
    found = [p.sum(), p @ (x * y), p @ (x**3 * y**3), p @ (x**8), p @ (np.sign(x) * np.sign(y))]
    expected = [1.0, r, 9 * r + 6 * r**3, 105.0, 2 / np.pi * np.arcsin(r)]
    # the arcsine near 1: a rounding of r = 1 - 1e-12 is 1e-16 / 1e-6
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10 if abs(r) != 1 and abs(r) > 0.9 else 1e-12)
    x, y, _, p = wedge(np.array(r), 4)
    value, slopes, _, _ = two_point(RELU, RELU, 1.0, 1.0, r)
    np.testing.assert_allclose([p.sum(), p @ (x * y)], [slopes, value], rtol=0, atol=1e-13)
    assert np.all(x >= 0) and np.all(y >= -1e-15)
