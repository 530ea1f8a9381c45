"""Orthant probabilities of four unit-variance Gaussian fields: P4 and the six pair orthants p_ij.

P4 = P(z_0, z_1, z_2, z_3 > 0) and p_ij = P(the other two > 0 | z_i = z_j = 0), both symmetric in the four fields.

Sums over these numbers are tiny near alignment (students close to teachers), although each term is O(1).  Rounding
errors therefore must be those of *one* slightly different correlation matrix.  For this reason all seven numbers come
from one factorisation of the matrix.  Its entries near alignment are formed from differences of correlations, which are
exact in floating point.  Its residual standard deviations are at least ``ORTHANTS.min_residual_std``, which changes
variances by 1e-30 and gives singular matrices a consistent limit.

Four row paths and three block paths lead to P4 (``_orthant_paths``).  Each is one of two canonical paths, row with
pivot 0 or block (01|23), after a relabelling of the fields that is its own inverse.
"""

import math
from typing import NamedTuple

from .._base.jit import jit
from ._orthant_paths import MIN_RHO, bernstein, block_integral, row_integral
from .elementary import arctan2


class OrthantOptions(NamedTuple):
    """Numbers of the orthant probabilities; only the second is tunable."""

    # Smallest residual standard deviation of a field given others: its square is far below rounding (1e-16) of a
    # variance.
    min_residual_std: float = 1e-15
    # Correlation above which two fields are put into one block, where their residual enters only once; empirical.
    aligned_correlation: float = 1.0 - 1e-10
    # Paths 0 to 3 are rows with that pivot; 4, 5, 6 are blocks (01|23), (02|13), (03|12).
    first_block_path: int = 4


ORTHANTS = OrthantOptions()


@jit(no_reference_counting=True)
def complement(r):
    """sqrt(1 - r^2) without cancellation."""
    return math.sqrt(max((1.0 - r) * (1.0 + r), 0.0))


@jit
def arcsine(r):
    """Arcsine of a correlation, accurate near 1."""
    return arctan2(r, complement(r))


@jit
def _pair_orthant(inner, root):
    # P2 of two fields whose partial covariance and root determinant are in the ratio inner : root
    return 0.25 + arctan2(inner, root) / (2 * math.pi)


@jit
def _relabel(path, r01, r02, r03, r12, r13, r23):
    """Six pair quantities after the relabelling that makes ``path`` canonical; applied twice it is the identity."""
    if path == 1:  # 0 <-> 1, 2 <-> 3
        return r01, r13, r12, r03, r02, r23
    if path == 2:  # 0 <-> 2, 1 <-> 3
        return r23, r02, r12, r03, r13, r01
    if path == 3:  # 0 <-> 3, 1 <-> 2
        return r23, r13, r03, r12, r02, r01
    if path == 5:  # 1 <-> 2
        return r02, r01, r03, r12, r23, r13
    if path == 6:  # 1 <-> 3
        return r03, r02, r01, r23, r13, r12
    return r01, r02, r03, r12, r13, r23


@jit
def _row_factor(r01, r02, r03, r12, r13, r23):
    """Cholesky rows (1), (r12, l22), (r13, l32, l33) of fields 1, 2, 3; pivot y = (r01, y2, y3) there; |y|^2."""
    sign = 1.0 if r12 >= 0.0 else -1.0
    # below, everything is written in differences from alignment, which are exact in floating point
    gap = sign * (1.0 - abs(r12))  # sign - r12
    l22 = max(complement(r12), ORTHANTS.min_residual_std)
    l32 = ((r23 - sign * r13) + gap * r13) / l22
    l33 = max(math.sqrt(max((1.0 - r13) * (1.0 + r13) - l32 * l32, 0.0)), ORTHANTS.min_residual_std)
    y2 = ((r02 - sign * r01) + gap * r01) / l22
    y3 = (r03 - r13 * r01 - l32 * y2) / l33
    rest = 1.0 - r01 * r01 - y2 * y2
    # keep the length of the pivot at most one, in spite of rounding or an integrator that overshoots
    if y3 * y3 > rest:
        y3 = math.copysign(math.sqrt(max(rest, 0.0)), y3)
    R2 = min(r01 * r01 + y2 * y2 + y3 * y3, 1.0)
    return l22, l32, l33, y2, y3, max(R2, 1e-12)


@jit
def _row_rho(r01, r02, r03, r12, r13, r23):
    """Convergence parameter of the row path: next singularities are correlations of the pivot on one or two fields."""
    l22, l32, l33, y2, y3, R2 = _row_factor(r01, r02, r03, r12, r13, r23)
    S2 = max(max(r01 * r01, r02 * r02), max(r03 * r03, r01 * r01 + y2 * y2))
    t = l32 * l32 + l33 * l33
    a = l32 * y2 + l33 * y3
    S2 = max(S2, r01 * r01 + a * a / t)
    t = (1.0 - r23) * (1.0 + r23)
    a = r03 - r02 * r23
    if t > 0.0:
        S2 = max(S2, r02 * r02 + a * a / t)
    return bernstein(R2, min(S2, R2))


@jit
def _row_path(rho, r01, r02, r03, r12, r13, r23):
    """P4, p01, p02, p03, p12, p13, p23 from the row path with pivot 0."""
    l22, l32, l33, y2, y3, R2 = _row_factor(r01, r02, r03, r12, r13, r23)
    # partial covariances a_j = cov(k, l | j) and cov(pivot, k | j), from cross products of the Cholesky rows
    x = r12 * l32 - l22 * r13
    e = r01 * l22 - y2 * r12
    f1, f2, f3 = y2 * l33 - y3 * l32, y3 * r13 - r01 * l33, r01 * l32 - y2 * r13
    b1 = (l22 * y2) * (l32 * y2 + l33 * y3)
    b2 = (l22 * e) * (l33 * y3 * (l22 * l22 + r12 * r12) - x * e)
    b3 = (l32 * f3 - l33 * f2) * (l33 * (l22 * f1 - r12 * f2) + x * f3)
    a1, a2, a3 = l22 * l32, -l22 * x, l33 * l33 * r12 + l32 * x
    integral = row_integral(rho, r01, r02, r03, a1, a2, a3, b1, b2, b3, R2, l22 * l33)
    s01, s02, s03 = complement(r01), complement(r02), complement(r03)
    s12, s13, s23 = complement(r12), complement(r13), complement(r23)
    P4 = arcsine(r01) + arcsine(r02) + arcsine(r03) + arcsine(r12) + arcsine(r13) + arcsine(r23)
    P4 = 0.0625 + P4 / (8 * math.pi) + integral / (4 * math.pi * math.pi)
    # inverse of the Cholesky factor of fields 1, 2, 3, 0; its columns are normals, p_ij the angles between two of them
    i22, i33 = 1.0 / l22, 1.0 / l33
    i44 = 1.0 / max(math.sqrt(max(1.0 - R2, 0.0)), ORTHANTS.min_residual_std)
    i21, i31, i32 = -r12 * i22, x * i22 * i33, -l32 * i22 * i33
    i41, i42, i43 = -(r01 + y2 * i21 + y3 * i31) * i44, -(y2 * i22 + y3 * i32) * i44, -y3 * i33 * i44
    root = i22 * i33 * i44
    p01 = _pair_orthant(-(i32 * i33 + i42 * i43), s01 * root)
    p02 = _pair_orthant(-(i31 * i33 + i41 * i43), s02 * root)
    p03 = _pair_orthant(-(i21 * i22 + i31 * i32 + i41 * i42), s03 * root)
    p12 = _pair_orthant(-i43 * i44, s12 * root)
    p13 = _pair_orthant(-i42 * i44, s13 * root)
    p23 = _pair_orthant(-i41 * i44, s23 * root)
    return P4, p01, p02, p03, p12, p13, p23


@jit
def _block_factor(f, h, c00, c01, c10, c11):
    """Cross block [c] = [[1, 0], [f, sf]] m [[1, 0], [h, sh]]^T (m00 = c00), det m, and its squared singular values."""
    sf, sh = max(complement(f), ORTHANTS.min_residual_std), max(complement(h), ORTHANTS.min_residual_std)
    sign_f, sign_h = 1.0 if f >= 0.0 else -1.0, 1.0 if h >= 0.0 else -1.0
    gap_f, gap_h = sign_f * (1.0 - abs(f)), sign_h * (1.0 - abs(h))
    d10, d01 = c10 - sign_f * c00, c01 - sign_h * c00
    d11 = (c11 - sign_f * c01) - sign_h * d10
    m10, m01 = (d10 + gap_f * c00) / sf, (d01 + gap_h * c00) / sh
    m11 = (d11 + gap_f * d01 + gap_h * d10 + gap_f * gap_h * c00) / (sf * sh)
    trace = c00 * c00 + m01 * m01 + m10 * m10 + m11 * m11
    det = c00 * m11 - m01 * m10
    L1 = 0.5 * (trace + math.sqrt(max(trace * trace - 4.0 * det * det, 0.0)))
    # squared canonical correlations lie in [0, 1]; the lower bound avoids a division by zero for independent blocks
    L1 = min(max(L1, 1e-12), 1.0)
    return sf, sh, m01, m10, m11, det, L1, min(det * det / L1, 1.0)


@jit
def _block_rho(r01, r02, r03, r12, r13, r23):
    """Convergence parameter of the block path: next singularities are L2 and correlations of one field on a pair."""
    sf, sh, m01, m10, m11, _, L1, L2 = _block_factor(r01, r23, r02, r03, r12, r13)
    S2 = max(max(r02 * r02 + m01 * m01, r02 * r02 + m10 * m10), L2)
    S2 = max(S2, r12 * r12 + (r01 * m01 + sf * m11) ** 2)
    S2 = max(S2, r03 * r03 + (r23 * m10 + sh * m11) ** 2)
    return bernstein(L1, min(S2, L1))


@jit
def _block_path(rho, f, c00, c01, c10, c11, h):
    """P4, p01, p02, p03, p12, p13, p23 from the block path (01|23); f = r01, h = r23, c_xy = r_{x, 2 + y}."""
    sf, sh, m01, m10, m11, det, L1, L2 = _block_factor(f, h, c00, c01, c10, c11)
    m00 = c00
    n01, n10 = sh * m10 - h * m11, sf * m01 - f * m11
    n11 = sf * sh * m00 - h * sf * m01 - f * sh * m10 + f * h * m11
    integral = block_integral(rho, c00, c01, c10, c11, m11, n01, n10, n11, det, L1, L2)
    P4 = _pair_orthant(f, sf) * _pair_orthant(h, sh) + integral / (4 * math.pi * math.pi)
    # fields = V (unit vectors), V = [[Lf, 0], [Lh m^T, Lh N]] with N N^T = 1 - m^T m; columns of the inverse of V
    k11 = max(math.sqrt(max(1.0 - m00 * m00 - m10 * m10, 0.0)), ORTHANTS.min_residual_std)
    k21 = -(m00 * m01 + m10 * m11) / k11
    k22 = max(math.sqrt(max(1.0 - m01 * m01 - m11 * m11 - k21 * k21, 0.0)), ORTHANTS.min_residual_std)
    i11, i22 = 1.0 / k11, 1.0 / k22
    i21 = -k21 * i11 * i22
    w00, w01 = i11 * m00, i11 * m10
    w10, w11 = i21 * m00 + i22 * m01, i21 * m10 + i22 * m11
    isf, ish = 1.0 / sf, 1.0 / sh
    x0_1, x1_1 = -f * isf, isf  # column of field 0: (1, x0_1, x0_2, x0_3), field 1: (0, x1_1, x1_2, x1_3), ...
    x0_2, x0_3 = -(w00 + w01 * x0_1), -(w10 + w11 * x0_1)
    x1_2, x1_3 = -w01 * isf, -w11 * isf
    x2_2, x2_3 = i11, i21 - i22 * h * ish
    x3_3 = i22 * ish
    root = isf * ish * i11 * i22
    p01 = _pair_orthant(-x2_3 * x3_3, sf * root)
    p02 = _pair_orthant(-x1_3 * x3_3, complement(c00) * root)
    p03 = _pair_orthant(-(x1_2 * x2_2 + x1_3 * x2_3), complement(c01) * root)
    p12 = _pair_orthant(-x0_3 * x3_3, complement(c10) * root)
    p13 = _pair_orthant(-(x0_2 * x2_2 + x0_3 * x2_3), complement(c11) * root)
    p23 = _pair_orthant(-(x0_1 * x1_1 + x0_2 * x1_2 + x0_3 * x1_3), sh * root)
    return P4, p01, p02, p03, p12, p13, p23


@jit
def _choose_path(r01, r02, r03, r12, r13, r23):
    """Path and its convergence parameter: the first good row path, else the best of all seven.

    A pair that is aligned to rounding is put inside a block, where its residual enters only once.
    """
    s0 = r01 * r01 + r02 * r02 + r03 * r03
    s1 = r01 * r01 + r12 * r12 + r13 * r13
    s2 = r02 * r02 + r12 * r12 + r23 * r23
    s3 = r03 * r03 + r13 * r13 + r23 * r23
    first = 0 if s0 <= min(s1, min(s2, s3)) else (1 if s1 <= min(s2, s3) else (2 if s2 <= s3 else 3))
    best, path = -1.0, first
    for i in range(4):
        pivot = (first + i) % 4
        q01, q02, q03, q12, q13, q23 = _relabel(pivot, r01, r02, r03, r12, r13, r23)
        rho = _row_rho(q01, q02, q03, q12, q13, q23)
        if rho > best:
            best, path = rho, pivot
        if rho > MIN_RHO.nodes_16:
            break
    largest = max(max(abs(r01), abs(r23)), max(max(abs(r02), abs(r13)), max(abs(r03), abs(r12))))
    aligned = largest > ORTHANTS.aligned_correlation
    if best > MIN_RHO.nodes_16 and not aligned:
        return path, best
    if aligned:
        best = 0.0
    for block in range(ORTHANTS.first_block_path, ORTHANTS.first_block_path + 3):
        q01, q02, q03, q12, q13, q23 = _relabel(block, r01, r02, r03, r12, r13, r23)
        rho = _block_rho(q01, q02, q03, q12, q13, q23)
        if rho > best and (not aligned or max(abs(q01), abs(q23)) > ORTHANTS.aligned_correlation):
            best, path = rho, block
    return path, best


@jit
def orthants(r01, r02, r03, r12, r13, r23):
    """P4, p01, p02, p03, p12, p13, p23 of four fields with these correlations."""
    path, rho = _choose_path(r01, r02, r03, r12, r13, r23)
    q01, q02, q03, q12, q13, q23 = _relabel(path, r01, r02, r03, r12, r13, r23)
    if path < ORTHANTS.first_block_path:
        P4, p01, p02, p03, p12, p13, p23 = _row_path(rho, q01, q02, q03, q12, q13, q23)
    else:
        P4, p01, p02, p03, p12, p13, p23 = _block_path(rho, q01, q02, q03, q12, q13, q23)
    p01, p02, p03, p12, p13, p23 = _relabel(path, p01, p02, p03, p12, p13, p23)
    return P4, p01, p02, p03, p12, p13, p23
