"""Several arrays in one vector."""

import numpy as np

from overlaps.gaussian.packed import matrix, packed, vector


def test_arrays_come_back_and_are_views(rng):
    arrays = [rng.normal(size=3), rng.normal(size=(2, 3)), np.empty(0), np.empty((0, 4)), rng.normal(size=(3, 1)), 5.0]
    data = packed(*arrays)
    for i, x in enumerate(arrays):
        np.testing.assert_array_equal(vector(data, i), np.ravel(x))
        np.testing.assert_array_equal(matrix(data, i), np.atleast_2d(x))
    matrix(data, 1)[1, 2] = 7.0  # kernels fill probabilities in place
    assert vector(data, 1)[5] == 7.0
