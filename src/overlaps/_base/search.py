"""Minimum of a function of one variable: the lowest point of a grid, refined by bounded minimisation."""

import numpy as np
import scipy


def minimum(f, grid, values=None, *, xatol=0.0, rtol=0.0, ends=True):
    """(x, f(x), index of the lowest of the ascending grid): the minimum between the neighbours of that point.

    ``values`` is f(grid) if it is known; x has the absolute tolerance ``xatol`` + ``rtol`` |x|.
    Without ``ends`` a lowest point at an end of the grid is not refined, because the function may fall beyond it.
    """
    values = [f(x) for x in grid] if values is None else values
    i, last = int(np.nanargmin(values)), len(grid) - 1
    lowest, bounds = (float(values[i]), float(grid[i])), (grid[max(i - 1, 0)], grid[min(i + 1, last)])
    if bounds[0] < bounds[1] and (ends or 0 < i < last):
        refined = scipy.optimize.minimize_scalar(f, bounds=bounds, options={"xatol": xatol + rtol * abs(grid[i])})
        lowest = min(lowest, (float(refined.fun), float(refined.x)))
    return lowest[1], lowest[0], i
