"""Arcsine as a polynomial: asin(x) = x p(x^2) on |x| <= 1/2, minimax of degree 12, error 1.7e-17.

A polynomial, because LLVM vectorises it and cannot vectorise a call to the C library.
"""

import math

from .._base.jit import jit

_P = (
    1.0,
    0.16666666666664942,
    0.07500000000385201,
    0.044642856805998936,
    0.03038195969768514,
    0.022371749733164054,
    0.01735977964134998,
    0.01388484282640208,
    0.012170138592391726,
    0.0065293020047365695,
    0.019513468251252167,
    -0.016187392271599134,
    0.03187962140081284,
)
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10, _P11, _P12 = _P
HALF_PI = 0.5 * math.pi


@jit(inline=True)
def p(z):
    # Estrin's scheme: short dependency chains
    z2 = z * z
    z4 = z2 * z2
    low = ((_P0 + _P1 * z) + z2 * (_P2 + _P3 * z)) + z4 * ((_P4 + _P5 * z) + z2 * (_P6 + _P7 * z))
    return low + z4 * z4 * (((_P8 + _P9 * z) + z2 * (_P10 + _P11 * z)) + z4 * _P12)
