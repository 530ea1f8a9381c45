"""Arcsine and arctangent as polynomials, because LLVM vectorises these and cannot vectorise a call to the C library."""

import math

from .._base.jit import jit

# asin(x) = x p(x^2) on |x| <= 1/2; minimax polynomial of degree 12, error 1.7e-17
_P0, _P1, _P2, _P3 = 1.0, 0.16666666666664942, 0.07500000000385201, 0.044642856805998936
_P4, _P5, _P6, _P7 = 0.03038195969768514, 0.022371749733164054, 0.01735977964134998, 0.01388484282640208
_P8, _P9, _P10, _P11 = 0.012170138592391726, 0.0065293020047365695, 0.019513468251252167, -0.016187392271599134
_P12 = 0.03187962140081284
HALF_PI = 0.5 * math.pi


@jit(inline=True)
def p(z):
    """asin(x) / x at z = x^2; Estrin's scheme, for short dependency chains."""
    z2 = z * z
    z4 = z2 * z2
    low = ((_P0 + _P1 * z) + z2 * (_P2 + _P3 * z)) + z4 * ((_P4 + _P5 * z) + z2 * (_P6 + _P7 * z))
    return low + z4 * z4 * (((_P8 + _P9 * z) + z2 * (_P10 + _P11 * z)) + z4 * _P12)


# atan(x) = x p(x^2) on |x| <= tan(pi/8); minimax polynomial, error 3e-17
_A0, _A1, _A2, _A3 = 1.0, -0.3333333333332844, 0.19999999998855109, -0.14285714180976358
_A4, _A5, _A6, _A7 = 0.11111106180451504, -0.09090773074705212, 0.07689953494853126, -0.0664023391780057
_A8, _A9, _A10 = 0.05688349160721341, -0.043480520247889884, 0.021135370819421847
_TAN_PI_8 = 0.41421356237309503
_TAN_3PI_8 = 2.414213562373095


@jit(inline=True)
def arctan2(y, x):
    """atan2(y, x) for x >= 0, without branches: three ranges, one division; atan2(0, 0) = 0."""
    a = abs(y)
    far = a > _TAN_3PI_8 * x
    middle = a > _TAN_PI_8 * x
    top = -x if far else (a - x if middle else a)
    bottom = a if far else (a + x if middle else x)
    offset = HALF_PI if far else (0.5 * HALF_PI if middle else 0.0)
    q = top / (bottom + 1e-300)
    z = q * q
    z2 = z * z
    z4 = z2 * z2
    low = ((_A0 + _A1 * z) + z2 * (_A2 + _A3 * z)) + z4 * ((_A4 + _A5 * z) + z2 * (_A6 + _A7 * z))
    return math.copysign(offset + q * (low + z4 * z4 * ((_A8 + _A9 * z) + z2 * _A10)), y)
