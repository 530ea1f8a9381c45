"""Kernel of the posterior: residuals of all samples, and what each pulls at each field with."""

from ..._base.jit import jit
from ._adam import polynomial


@jit
def respond(Z, c, v, y):
    """Sum of squares of r = v.sigma(z) - y over the samples; every z_i of Z is replaced by r v_i sigma'(z_i)."""
    total = 0.0
    for b in range(y.size):
        r = -y[b]
        for i in range(v.size):
            value, slope = polynomial(c, Z[b, i])
            r += v[i] * value
            Z[b, i] = v[i] * slope
        total += r * r
        for i in range(v.size):
            Z[b, i] *= r
    return total
