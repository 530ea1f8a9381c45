"""Arcsine and arctangent as polynomials, because LLVM vectorises these but not calls to the C library."""

import math

from .._base.jit import jit

# asin(x) = x p(x^2) on |x| <= 1/2; minimax polynomial of degree 12, error 1.7e-17
_P = (
    1.0, 0.16666666666664942, 0.07500000000385201, 0.044642856805998936,
    0.03038195969768514, 0.022371749733164054, 0.01735977964134998, 0.01388484282640208,
    0.012170138592391726, 0.0065293020047365695, 0.019513468251252167, -0.016187392271599134,
    0.03187962140081284,
)  # fmt: skip
# atan(x) = x a(x^2) on |x| <= tan(pi/8); minimax polynomial, error 3e-17
_A = (
    1.0, -0.3333333333332844, 0.19999999998855109, -0.14285714180976358,
    0.11111106180451504, -0.09090773074705212, 0.07689953494853126, -0.0664023391780057,
    0.05688349160721341, -0.043480520247889884, 0.021135370819421847,
)  # fmt: skip


@jit(inline=True)
def p(z):
    """asin(x) / x at z = x^2; Estrin's scheme, for short dependency chains."""
    z2 = z * z
    z4 = z2 * z2
    low = ((_P[0] + _P[1] * z) + z2 * (_P[2] + _P[3] * z)) + z4 * ((_P[4] + _P[5] * z) + z2 * (_P[6] + _P[7] * z))
    return low + z4 * z4 * (((_P[8] + _P[9] * z) + z2 * (_P[10] + _P[11] * z)) + z4 * _P[12])


@jit(inline=True)
def arctan2(y, x):
    """atan2(y, x) for x >= 0, without branches: three ranges, one division; atan2(0, 0) = 0."""
    a = abs(y)
    far = a > 2.414213562373095 * x  # tan(3 pi/8)
    middle = a > 0.41421356237309503 * x  # tan(pi/8)
    top = -x if far else (a - x if middle else a)
    bottom = a if far else (a + x if middle else x)
    offset = 0.5 * math.pi if far else (0.25 * math.pi if middle else 0.0)
    q = top / (bottom + 1e-300)
    z = q * q
    z2 = z * z
    z4 = z2 * z2
    low = ((_A[0] + _A[1] * z) + z2 * (_A[2] + _A[3] * z)) + z4 * ((_A[4] + _A[5] * z) + z2 * (_A[6] + _A[7] * z))
    return math.copysign(offset + q * (low + z4 * z4 * ((_A[8] + _A[9] * z) + z2 * _A[10])), y)
