"""Two-point Gaussian integrals of linear, quadratic, relu, erf(x / sqrt 2) and sign, in closed form.

Every pair of functions f, h and every pair of jointly Gaussian fields (a, b) with variances ``saa``, ``sbb`` and
covariance ``sab`` has four numbers, and :func:`two_point` is their table::

    E[f(a) h(b)]     E[f'(a) h'(b)]     E[f''(a) h(b)]     E[f(a) h''(b)]

Kernels take functions as integer codes, which cost nothing at run time: a jitted function as an argument would be
compiled again in every process.  The codes are NumPy integers because numba compiles a kernel anew for each literal int
that it is called with, which makes nothing faster.
"""

import math
from math import pi

import numpy as np

from .._base.jit import jit
from .elementary import p

LINEAR, QUADRATIC, RELU, ERF, SIGN = CODES = np.arange(5)
NUMERIC = -1  # a user function: its integrals are computed by quadrature, outside these kernels

# Determinant of two fields, relative to the product of their variances, below which it is rounding: the fields of signs
# then count as parallel. Ten times larger, an angle of 1e-7 would count as none.
PARALLEL_TOL = 1e-15
SQRT_2PI = math.sqrt(2 * pi)


@jit(inline=True)
def known(f, h):
    """Whether the table contains both functions."""
    return min(f, h) >= LINEAR and max(f, h) <= SIGN


@jit(inline=True)
def value(code, x):
    """g(x); nan for an unknown code, here and in all kernels."""
    if code == ERF:
        return math.erf(x * math.sqrt(0.5))
    if code == RELU:
        return max(x, 0.0)
    if code == QUADRATIC:
        return x * x
    if code == SIGN:
        return 0.0 if x == 0.0 else math.copysign(1.0, x)
    return x if code == LINEAR else math.nan


@jit(inline=True)
def slope(code, x):
    """g'(x), where relu'(0) = 0 and sign'(x) = 0 everywhere."""
    if code == ERF:
        return math.sqrt(2 / pi) * math.exp(-0.5 * x * x)
    if code == RELU:
        return 1.0 if x > 0.0 else 0.0
    if code == QUADRATIC:
        return 2.0 * x
    if code == SIGN:
        return 0.0
    return 1.0 if code == LINEAR else math.nan


@jit(inline=True)
def _erf_erf(saa, sbb, sab):
    # Saad and Solla (1995).  root^2 = (1 + saa)(1 + sbb) - sab^2, written so that nothing cancels for a = b.  The
    # bracket is not clipped at 0, to keep the closure differentiable where fields coincide.
    al, bl = 1.0 + saa, 1.0 + sbb
    root = math.sqrt(1.0 + saa + sbb + (saa * sbb - sab * sab))
    c = 2 / (pi * root)
    if 2.0 * abs(sab) <= min(al, bl):
        x = sab / math.sqrt(al * bl)
        angle = x * p(x * x)  # the arcsine, without a call to the C library
    else:
        angle = math.atan2(sab, root)
    return 2 / pi * angle, c, -c * sab / al, -c * sab / bl


@jit(inline=True)
def _relu_relu(saa, sbb, sab):
    # Arc-cosine kernels, Cho and Saul (2009); relu'' is a delta function.  A field of zero variance contributes 0.
    s = math.sqrt(max(saa * sbb - sab * sab, 0.0))
    angle = pi - math.atan2(s, sab)
    daa = s / (2 * pi * saa) if saa > 0.0 else 0.0
    dbb = s / (2 * pi * sbb) if sbb > 0.0 else 0.0
    return (s + sab * angle) / (2 * pi), angle / (2 * pi), daa, dbb


@jit(inline=True)
def _sign(h, saa, sbb, sab):
    # sign(x) is the limit e -> 0 of erf(x / sqrt(2 e)): for the sign, 1 + S becomes e + S.
    if h == QUADRATIC:
        return 0.0, 0.0, 0.0, 0.0
    if h < ERF:  # see erf in ``_ordered``
        c = (1.0 if h == LINEAR else 0.5) * math.sqrt(2 / (pi * saa))
        return c * sab, c, -c * sab / saa, 0.0
    bl = 1.0 + sbb if h == ERF else sbb
    det = (saa if h == ERF else 0.0) + (saa * sbb - sab * sab)
    if det <= PARALLEL_TOL * saa * bl:  # signs of parallel fields do not change
        return math.copysign(1.0, sab), 0.0, 0.0, 0.0
    root = math.sqrt(det)
    c = 2 / (pi * root)
    return 2 / pi * math.atan2(sab, root), c, -c * sab / saa, -c * sab / bl


@jit(inline=True)
def _ordered(f, h, saa, sbb, sab):
    """The table for code f >= code h."""
    if f == SIGN:
        return _sign(h, saa, sbb, sab)
    if f == ERF:
        if h == ERF:
            return _erf_erf(saa, sbb, sab)
        if h == QUADRATIC:
            return 0.0, 0.0, 0.0, 0.0
        # The odd part of relu is x / 2, so relu acts as half a linear function; E[erf(a) delta(b)] = 0 by symmetry.
        al = 1.0 + saa
        c = (1.0 if h == LINEAR else 0.5) * math.sqrt(2 / (pi * al))
        return c * sab, c, -c * sab / al, 0.0
    if f == RELU:
        if h == RELU:
            return _relu_relu(saa, sbb, sab)
        if h == LINEAR:
            return 0.5 * sab, 0.5, 0.0, 0.0
        if saa <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        root = math.sqrt(saa)
        explained = sab * sab / saa
        c = 1.0 / SQRT_2PI
        return c * root * (sbb + explained), 2 * c * sab / root, c * (sbb - explained) / root, 2 * c * root
    if f == QUADRATIC:
        if h == QUADRATIC:
            return saa * sbb + 2 * sab * sab, 4 * sab, 2 * sbb, 2 * saa
        return 0.0, 0.0, 0.0, 0.0
    return sab, 1.0, 0.0, 0.0


@jit(no_reference_counting=True)
def two_point(f, h, saa, sbb, sab):
    """E[f h], E[f' h'], E[f'' h], E[f h''] for functions with codes f, h of fields with the given covariance."""
    if not known(f, h):
        return math.nan, math.nan, math.nan, math.nan
    turned = f < h
    if turned:
        f, h, saa, sbb = h, f, sbb, saa
    gg, dd, hh, ff = _ordered(f, h, saa, sbb, sab)
    return (gg, dd, ff, hh) if turned else (gg, dd, hh, ff)


@jit(inline=True)
def _ordered_derivatives(f, h, saa, sbb, sab):
    """The table of :func:`two_point_derivatives` for code f >= code h."""
    if f == SIGN and h == ERF:
        be, lam = 1.0 + sbb, saa + (saa * sbb - sab * sab)
        c = 2 / (pi * lam * math.sqrt(lam))
        return c * sab, -c * be, -c * saa, c * sab * (2 * lam / saa + be) / saa, c * sab * (2 * lam / be + saa) / be
    if f == SIGN and h == LINEAR:
        c = math.sqrt(2 / (pi * saa)) / saa
        return 0.0, -c, 0.0, 3 * c * sab / saa, 0.0
    if f == ERF:
        al = 1.0 + saa
        if h == ERF:
            be = 1.0 + sbb
            lam = 1.0 + saa + sbb + (saa * sbb - sab * sab)
            c = 2 / (pi * lam * math.sqrt(lam))
            return c * sab, -c * be, -c * al, c * sab * (2 * lam / al + be) / al, c * sab * (2 * lam / be + al) / be
        if h == QUADRATIC:
            return 0.0, 0.0, 0.0, 0.0, 0.0
        c = (1.0 if h == LINEAR else 0.5) * math.sqrt(2 / (pi * al)) / al  # relu acts as half a linear function
        return 0.0, -c, 0.0, 3 * c * sab / al, 0.0
    if f == RELU and h == RELU:
        s = math.sqrt(max(saa * sbb - sab * sab, 0.0))
        c = 1 / (2 * pi * s)
        maa = c * (sbb - 2 * s * s / saa) / saa
        return c, -c * sab / saa, -c * sab / sbb, maa, c * (saa - 2 * s * s / sbb) / sbb
    if f == RELU and h == QUADRATIC and saa > 0.0:
        c = 1.0 / (SQRT_2PI * math.sqrt(saa))
        return 2 * c, -2 * c * sab / saa, 0.0, c * (3 * sab * sab / saa - sbb) / saa, 0.0
    return (4.0 if f == QUADRATIC and h == QUADRATIC else 0.0), 0.0, 0.0, 0.0, 0.0


@jit(no_reference_counting=True)
def two_point_derivatives(f, h, saa, sbb, sab):
    """E[f'' h''], E[f''' h'], E[f' h'''], E[f'''' h], E[f h''''] of functions with codes f, h.

    By Price's theorem these are all derivatives of the table ``two_point``: p = E[f' h'] has dp/dsab = E[f'' h''],
    dp/dsaa = E[f''' h'] / 2; q = E[f'' h] has dq/dsab = E[f''' h'], dq/dsaa = E[f'''' h] / 2, dq/dsbb = E[f'' h''] / 2.
    """
    if not known(f, h):
        return math.nan, math.nan, math.nan, math.nan, math.nan
    turned = f < h
    if turned:
        f, h, saa, sbb = h, f, sbb, saa
    m22, m31, m13, m40, m04 = _ordered_derivatives(f, h, saa, sbb, sab)
    return (m22, m13, m31, m04, m40) if turned else (m22, m31, m13, m40, m04)


@jit(inline=True)
def same_field(f, s):
    """3 E[f''^2] + 4 E[f''' f'] + E[f'''' f] = 2 d^2 E[f^2] / ds^2 for one field of variance s."""
    if f == RELU:  # E[relu^2] = s / 2; the single terms are infinite
        return 0.0
    m22, m31, _, m40, _ = two_point_derivatives(f, f, s, s, s)
    return 3 * m22 + 4 * m31 + m40
