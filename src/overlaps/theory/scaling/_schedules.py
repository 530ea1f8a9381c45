"""Steps of the exponential trapezoidal rule for a diagonal decay and a common source."""

import math

import numpy as np

from ..._base.jit import jit


@jit
def integrate(s, weight, y, steps, right, left, extra):
    """Sum of y_l at all nodes of dy_l/dtheta = -2 s_l y_l + weight_l q, q = rate (sum_l y_l + extra); y is overwritten.

    ``steps`` in theta; ``right`` and ``left`` are the rates just after and just before each node.
    """
    total, gain = np.empty(steps.size + 1), np.empty(s.size)
    total[0] = y.sum()
    for i in range(steps.size):
        h, new, feedback = steps[i], 0.0, 0.0
        old = h * right[i] * (total[i] + extra)
        for l in range(s.size):
            x = 2 * h * s[l]
            if x < 1e-3:
                phi1 = 1 - x / 2 + x**2 / 6 - x**3 / 24
                phi2 = 0.5 - x / 6 + x**2 / 24 - x**3 / 120
                decay = 1 - x * phi1
            else:
                decay = math.exp(-x)
                phi1 = (1 - decay) / x
                phi2 = (1 - phi1) / x
            y[l] = decay * y[l] + old * weight[l] * (phi1 - phi2)
            gain[l] = h * left[i + 1] * weight[l] * phi2
            new += y[l]
            feedback += gain[l]
        total[i + 1] = (new + feedback * extra) / (1 - feedback)
        for l in range(s.size):
            y[l] += gain[l] * (total[i + 1] + extra)
    return total
