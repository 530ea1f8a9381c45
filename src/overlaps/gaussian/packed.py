"""Several arrays in one vector of floats: the parameters of closures that compiled code takes as functions.

Such functions have one signature, whereas tuples of arrays would give each closure a signature of its own.  The vector
begins with the position and the shape of each array; fields of a NamedTuple of numbers are the names of the arrays.
"""

import numpy as np

from .._base.jit import jit


def packed(*arrays):
    """One vector of these arrays, of one dimension or two."""
    matrices = [np.atleast_2d(np.asarray(x, dtype=float)) for x in arrays]
    ends = 3 * len(matrices) + np.cumsum([x.size for x in matrices])
    heads = [(end - x.size, *x.shape) for end, x in zip(ends, matrices, strict=True)]
    return np.concatenate([np.ravel(heads), *map(np.ravel, matrices)])


@jit(inline=True)
def vector(data, i):
    """View of the array of this number, row by row."""
    at, size = int(data[3 * i]), int(data[3 * i + 1]) * int(data[3 * i + 2])
    return data[at : at + size]


@jit(inline=True)
def matrix(data, i):
    """View of the array of this number, of two dimensions."""
    return vector(data, i).reshape(int(data[3 * i + 1]), int(data[3 * i + 2]))
