"""Gaussian integrals of linear, quadratic, relu and erf(x / sqrt 2) of fields that have means, in closed form.

relu' and erf follow from the step function theta: relu'(a) = theta(a) and erf(a / sqrt 2) = 2 E[theta(a + xi)] - 1
with xi ~ N(0, 1).  Each integral is therefore made of the density d_a of a field at zero, a conditional one-point
function of the other field there, and the probability that both are positive.  Polynomials follow from
E[f(a) h(b)] = sum_j S_ab^j / j! E[f^(j)] E[h^(j)], a sum of three terms.  For zero means these are the integrals of
``two_point``.
"""

import math
from typing import NamedTuple

import numpy as np

from .._base.jit import jit
from .two_point import ERF, QUADRATIC, RELU, SQRT_2PI, known

(X6, W6), (X12, W12), (X20, W20) = map(np.polynomial.legendre.leggauss, (6, 12, 20))


class MaxCorrelation(NamedTuple):
    """Largest |correlations| of two fields, by purpose: up to the first three, 6, 12, 20 nodes have errors of 1e-15."""

    nodes_6: float = 0.3
    nodes_12: float = 0.75
    nodes_20: float = 0.925  # above, the expansion about full correlation is used: Genz (2004)
    parallel: float = 1.0 - 2.0**-53  # correlations are clipped to this, to keep 1 - r^2 positive


MAX_CORRELATION = MaxCorrelation()


@jit(inline=True)
def phi(x):
    """Density of N(0, 1)."""
    return math.exp(-0.5 * x * x) / SQRT_2PI


@jit(inline=True)
def Phi(x):
    """Its distribution function."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@jit(no_reference_counting=True)
def _angle_integral(h, k, r, x, w):
    """int_0^{asin r} exp(-(h^2 - 2 h k sin t + k^2) / (2 cos^2 t)) dt by Gauss and Legendre."""
    top, hk, hs, total = math.asin(r), h * k, 0.5 * (h * h + k * k), 0.0
    for i in range(x.size):
        sine = math.sin(0.5 * top * (1.0 + x[i]))
        total += w[i] * math.exp((sine * hk - hs) / (1.0 - sine * sine))
    return 0.5 * top * total


@jit(no_reference_counting=True)
def _nearly_parallel(h, k, r):
    """P(x < h, y < k) for correlations near 1 or -1: Genz (2004), with k -> -k for negative ones."""
    # the expansion is about full correlation; for r < 0 the sign of the second field is reversed
    x, y = -h, -k if r > 0.0 else k  # P(X > x, Y > y) for correlation |r|
    xy, total = x * y, 0.0
    if abs(r) < 1.0:
        rest = (1.0 - r) * (1.0 + r)
        a = math.sqrt(rest)
        bs, c, d = (x - y) * (x - y), (4.0 - xy) / 8.0, (12.0 - xy) / 16.0
        power = -0.5 * (bs / rest + xy)
        if power > -100.0:
            total = (
                a * math.exp(power) * (1.0 - c * (bs - rest) * (1.0 - 0.2 * d * bs) / 3.0 + 0.2 * c * d * rest * rest)
            )
        if xy > -100.0:
            b = math.sqrt(bs)
            total -= math.exp(-0.5 * xy) * SQRT_2PI * Phi(-b / a) * b * (1.0 - c * bs * (1.0 - 0.2 * d * bs) / 3.0)
        a *= 0.5
        for i in range(X20.size):
            xs = (a * (X20[i] + 1.0)) ** 2
            rs = math.sqrt(1.0 - xs)
            power = -0.5 * (bs / xs + xy)
            if power > -100.0:
                # the integrand without its singular term, which was integrated in closed form above
                smooth = math.exp(-xy * (1.0 - rs) / (2.0 * (1.0 + rs))) / rs
                total += a * W20[i] * math.exp(power) * (smooth - (1.0 + c * xs * (1.0 + d * xs)))
        total = -total / (2 * math.pi)
    if r > 0.0:
        return total + Phi(-max(x, y))
    return -total + max(Phi(y) - Phi(x), 0.0)


@jit(no_reference_counting=True)
def both(h, k, r):
    """(Phi2(h, k; r), Phi2(h, k; r) - Phi(h) Phi(k)), to 1e-15."""
    Ph, Pk = Phi(h), Phi(k)
    if abs(r) > MAX_CORRELATION.nodes_20:
        P = _nearly_parallel(h, k, r)
        return P, P - Ph * Pk
    # the density varies over an angle of order sqrt(1 - r^2)
    if abs(r) < MAX_CORRELATION.nodes_6:
        c = _angle_integral(h, k, r, X6, W6)
    elif abs(r) < MAX_CORRELATION.nodes_12:
        c = _angle_integral(h, k, r, X12, W12)
    else:
        c = _angle_integral(h, k, r, X20, W20)
    c /= 2 * math.pi
    return Ph * Pk + c, c


@jit(inline=True)
def at_zero(mu, s):
    """(density at zero, P(> 0), mu / s) of a field N(mu, s); without variance (0, theta(mu), 0)."""
    if s <= 0.0:
        return 0.0, (1.0 if mu > 0.0 else (0.5 if mu == 0.0 else 0.0)), 0.0
    root = math.sqrt(s)
    return phi(mu / root) / root, Phi(mu / root), mu / s


@jit(no_reference_counting=True)
def one_point(f, mu, s):
    """E[f], E[f'], E[f''], E[f'''], E[f''''] of a field N(mu, s)."""
    if f == ERF:
        d, P, u = at_zero(mu, 1.0 + s)
        v = 1.0 / (1.0 + s)
        return 2 * P - 1, 2 * d, -2 * u * d, 2 * (u * u - v) * d, 2 * (3 * u * v - u * u * u) * d
    if f == RELU:
        d, P, u = at_zero(mu, s)
        v = 1.0 / s if s > 0.0 else 0.0
        return mu * P + s * d, P, d, -u * d, (u * u - v) * d
    if f == QUADRATIC:
        return mu * mu + s, 2 * mu, 2.0, 0.0, 0.0
    return mu, 1.0, 0.0, 0.0, 0.0


@jit(inline=True)
def _given_zero(h, k, r):
    """Standardised mean of b given a = 0, fields of unit variance, means h and k and correlation r."""
    # k - r h, without cancellation for nearly parallel fields of equal or opposite means
    left = (k - h) + h * (1.0 - r) if r > 0.0 else (k + h) - h * (1.0 + r)
    return left / math.sqrt((1.0 - r) * (1.0 + r))


@jit(no_reference_counting=True)
def _series(f, h, mu_a, mu_b, saa, sbb, sab):
    """The table of ``shifted_pair`` if one of the two functions is a polynomial of degree 2 at most."""
    f0, f1, f2, f3, f4 = one_point(f, mu_a, saa)
    h0, h1, h2, h3, h4 = one_point(h, mu_b, sbb)
    c = 0.5 * sab * sab
    return (
        f0 * h0 + sab * f1 * h1 + c * f2 * h2,
        f1 * h1 + sab * f2 * h2 + c * f3 * h3,
        f2 * h0 + sab * f3 * h1 + c * f4 * h2,
        f0 * h2 + sab * f1 * h3 + c * f2 * h4,
        f1 * h0 + sab * f2 * h1 + c * f3 * h2,
        f0 * h1 + sab * f1 * h2 + c * f2 * h3,
    )


@jit(no_reference_counting=True)
def _steps(f, h, mu_a, mu_b, saa, sbb, sab):
    """The table of ``shifted_pair`` for relu and erf."""
    sa, sb = saa + (1.0 if f == ERF else 0.0), sbb + (1.0 if h == ERF else 0.0)
    da, Pa, ra = at_zero(mu_a, sa)
    db, Pb, rb = at_zero(mu_b, sb)
    scale, least = math.sqrt(sa * sb), 1e-300  # the latter replaces variances of zero in divisions
    if scale > 0.0:
        # all terms use the same r, because they cancel for parallel fields: to 1e-16 only if r is the same in all
        r = min(max(sab / scale, -MAX_CORRELATION.parallel), MAX_CORRELATION.parallel)
        x, y = mu_a / math.sqrt(sa), mu_b / math.sqrt(sb)
        sab, rest = r * scale, math.sqrt((1.0 - r) * (1.0 + r))
        P, covariance = both(x, y, r)
        ub, root_b, ua, root_a = _given_zero(x, y, r), rest * math.sqrt(sb), _given_zero(y, x, r), rest * math.sqrt(sa)
    else:
        P, covariance = Pa * Pb, 0.0
        root_b, root_a = math.sqrt(max(sb, least)), math.sqrt(max(sa, least))
        ub, ua = mu_b / root_b, mu_a / root_a
    Qb, Qa, eb, ea = Phi(ub), Phi(ua), phi(ub), phi(ua)
    ca, cb = sab / max(sa, least), sab / max(sb, least)
    if f == ERF and h == ERF:
        return (
            (2 * Pa - 1) * (2 * Pb - 1) + 4 * covariance,
            4 * da * eb / root_b,
            -2 * da * (ra * (2 * Qb - 1) + 2 * ca * eb / root_b),
            -2 * db * (rb * (2 * Qa - 1) + 2 * cb * ea / root_a),
            2 * da * (2 * Qb - 1),
            2 * db * (2 * Qa - 1),
        )
    up_b, up_a = da * root_b * (ub * Qb + eb), db * root_a * (ua * Qa + ea)  # E[delta(a) b_+], E[a_+ delta(b)]
    left = mu_b * P + sb * db * Qa + sab * da * Qb  # E[theta(a) b_+]
    right = mu_a * P + sa * da * Qb + sab * db * Qa  # E[a_+ theta(b)]
    if f == RELU and h == RELU:
        return mu_a * left + sa * up_b + sab * P, P, up_b, up_a, left, right
    if f == RELU:
        return (
            2 * right - (mu_a * Pa + sa * da),
            2 * db * Qa,
            da * (2 * Qb - 1),
            -2 * (rb * up_a + db * cb * Qa),
            2 * P - Pa,
            2 * up_a,
        )
    return (
        2 * left - (mu_b * Pb + sb * db),
        2 * da * Qb,
        -2 * (ra * up_b + da * ca * Qb),
        db * (2 * Qa - 1),
        2 * up_b,
        2 * P - Pb,
    )


@jit(no_reference_counting=True)
def shifted_pair(f, h, mu_a, mu_b, saa, sbb, sab):
    """E[f h], E[f' h'], E[f'' h], E[f h''], E[f' h], E[f h'] of functions with codes f, h of two different fields."""
    if not known(f, h):
        return math.nan, math.nan, math.nan, math.nan, math.nan, math.nan
    if min(f, h) <= QUADRATIC:
        return _series(f, h, mu_a, mu_b, saa, sbb, sab)
    return _steps(f, h, mu_a, mu_b, saa, sbb, sab)


@jit(no_reference_counting=True)
def shifted_self(f, mu, s):
    """E[f f], E[f' f'], E[f'' f], E[f' f] of one field."""
    if f == RELU:
        d, P, _ = at_zero(mu, s)
        return (mu * mu + s) * P + mu * s * d, P, 0.0, mu * P + s * d
    gg, dd, hg, _, dg, _ = shifted_pair(f, f, mu, mu, s, s, s)
    return gg, dd, hg, dg


@jit(no_reference_counting=True)
def product(f, h, mu_a, mu_b, saa, sbb, sab):
    """E[f h]."""
    return shifted_pair(f, h, mu_a, mu_b, saa, sbb, sab)[0]
