"""The right-hand side: overlaps -> covariance of the fields, and closure -> velocities of the overlaps.

Packed state ``y`` (``packing``): r (K, M, L), then the upper triangle (row by row) of q (K (K + 1) / 2, L), then v if
it is trained.  The index of the block is the last one: inner loops run over blocks and become vector instructions.
Only the triangle is stored, because an antisymmetric error of q, seeded by rounding, would grow.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types

from .._base.jit import BOOL, CUBE, MATRIX, REAL, VECTOR, jit, unsigned_index
from .._base.lazy_compilation import LAZY_LIMITS


class KernelChoice(NamedTuple):
    """Sizes at which ``flow`` changes between its kernels; they affect the speed only."""

    # Blocks from which loops over blocks are inner loops; fewer are too short for vector instructions.
    min_blocks: int = 4
    # Students from which, with fewer blocks, products of matrices over units are faster than loops over blocks.
    min_units: int = 20


KERNEL_CHOICE = KernelChoice()
# Signature of the kernels of ``flow``, which integrators take as first-class functions.
FLOW = types.void(VECTOR, VECTOR, VECTOR, CUBE, MATRIX, MATRIX, MATRIX, VECTOR, REAL, REAL, REAL, BOOL, VECTOR, REAL)
# Value of ``decay`` for students on spheres: a decay of its own keeps the norm of each student (``keep_norms``).
SPHERE = -1.0


@jit(no_reference_counting=True)
def triangle(i, j, K):
    """Index of the entry ij in an upper triangle (K, K) stored row by row."""
    return i * K - i * (i - 1) // 2 + j - i if i <= j else j * K - j * (j - 1) // 2 + i - j


@jit(no_reference_counting=True, python=lambda x, y: np.copyto(y, x))
def copy(x, y):
    """Fill y with x; ``y[:] = x`` takes seconds to compile, because of the message of an error that cannot occur."""
    for l in range(y.size):
        y[l] = x[l]


@jit(no_reference_counting=True, python=lambda y: y.fill(0.0))
def clear(y):
    """Fill y with zeros."""
    for l in range(y.size):
        y[l] = 0.0


def _add(c, x, y):
    y += c * x


@jit(no_reference_counting=True, python=_add)
def add(c, x, y):
    """Add c x to y."""
    for l in range(y.size):
        y[l] += c * x[l]


def _mix(c, x, at, out):
    for factor, first in zip(c.tolist(), at.tolist(), strict=True):
        out += factor * x[first : first + out.size]


@jit(fast=True, no_reference_counting=True, python=_mix)
def mix(c, x, at, out):
    """Add sum_k c_k x[at_k : at_k + L] to ``out`` (L,): four rows at a time, because memory limits the speed."""
    n, L, k = at.size, out.size, 0
    while k + 4 <= n:
        x0, x1, x2, x3 = x[at[k] :], x[at[k + 1] :], x[at[k + 2] :], x[at[k + 3] :]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        for l in range(L):
            out[l] += (c0 * x0[l] + c1 * x1[l]) + (c2 * x2[l] + c3 * x3[l])
        k += 4
    if k + 2 <= n:
        x0, x1, c0, c1 = x[at[k] :], x[at[k + 1] :], c[k], c[k + 1]
        for l in range(L):
            out[l] += c0 * x0[l] + c1 * x1[l]
        k += 2
    if k < n:
        x0, c0 = x[at[k] :], c[k]
        for l in range(L):
            out[l] += c0 * x0[l]


@jit(fast=True, no_reference_counting=True, python=lambda x: x.sum())
def total(x):
    """sum_l x_l."""
    result = 0.0
    for l in range(x.size):
        result += x[l]
    return result


@jit(fast=True, no_reference_counting=True, python=lambda x, y: x @ y)
def dot(x, y):
    """sum_l x_l y_l."""
    result = 0.0
    for l in range(x.size):
        result += x[l] * y[l]
    return result


@jit(no_reference_counting=True, cost=lambda y, s, K, M, *_: LAZY_LIMITS.numpy_call * K * (K + M))
def gather(y, s, K, M, trains_v, S, w):
    """Fill Q and R in S (n, n) and, if it is trained, v in w = (v, -v*)."""
    L = s.size
    position = 0
    for k in range(K):
        for m in range(K, K + M):
            S[k, m] = S[m, k] = y[position] if L == 1 else total(y[position : position + L])
            position += L
    for i in range(K):
        for j in range(i, K):
            S[i, j] = S[j, i] = s[0] * y[position] if L == 1 else dot(s, y[position : position + L])
            position += L
    if trains_v:
        for k in range(K):
            w[k] = y[position + k]


@jit(
    inline=True,
    cost=lambda y, s, p, K, M, *_: LAZY_LIMITS.numpy_call * K * (K + M) * (1 if p.size == s.size else s.size),
)
def gather_groups(y, s, p, K, M, trains_v, S, w):
    """As :func:`gather`; for several groups of blocks S is (groups n, n), one matrix below the other: ``group_of``."""
    if p.size == s.size:
        gather(y, s, K, M, trains_v, S, w)
    else:
        gather_several(y, s, p, K, M, trains_v, S, w)


@jit(no_reference_counting=True)
def gather_several(y, s, p, K, M, trains_v, S, w):
    """:func:`gather_groups` for two groups or more."""
    L, n, position = s.size, K + M, 0
    for k in range(K):
        for m in range(K, n):
            for at in range(0, S.shape[0], n):
                S[at + k, m] = S[at + m, k] = 0.0
            for l in range(L):
                # blocks of one group need not be neighbours: add each entry to the matrix of its group
                S[group_of(l, p) * n + k, m] += y[position]
                position += 1
            for at in range(0, S.shape[0], n):
                S[at + m, k] = S[at + k, m]
    for i in range(K):
        for j in range(i, K):
            for at in range(0, S.shape[0], n):
                S[at + i, j] = 0.0
            for l in range(L):
                S[group_of(l, p) * n + i, j] += s[l] * y[position]
                position += 1
            for at in range(0, S.shape[0], n):
                S[at + j, i] = S[at + i, j]
    if trains_v:
        for k in range(K):
            w[k] = y[position + k]


@jit(no_reference_counting=True)
def group_of(l, p):
    """The group of block l, stored behind the weights p (L,); A, B, C of the groups are stacked one below the other."""
    return int(p[p.size // 2 + l])


@jit(fast=True)
def keep_norms(y, L, K, M, dy):
    """Subtract mu_k r_k from dr_k and (mu_i + mu_j) q_ij from dq_ij, with the mu that conserves every sum_l q^l_kk.

    This is w_k <- w_k |w_k before| / |w_k| after each step. For N -> infinity the factor is 1 - mu_k / N, to which the
    squared norm of a step, C, contributes in the same order as its component along w_k.
    """
    at, mu = K * M * L, np.empty(K)
    for k in range(K):
        rate = norm = 0.0
        for l in range(at, at + L):
            rate += dy[l]
            norm += y[l]
        # choose mu so that rate - 2 mu norm = 0; the plain sum, without s, is |w_k|^2 / N
        mu[k] = rate / (2 * norm)
        at += (K - k) * L
    at = 0
    for k in range(K):
        for _ in range(M * L):
            # r_k has the factor of one student, q_ij those of both
            dy[at] -= mu[k] * y[at]
            at += 1
    for i in range(K):
        for j in range(i, K):
            for _ in range(L):
                dy[at] -= (mu[i] + mu[j]) * y[at]
                at += 1


@jit(no_reference_counting=True)
def finish(y, L, K, M, dv, decay, decay_v, trains_v, dy):
    """Last stage of all kernels of the flow: the norms of students on spheres, and the second layer."""
    # SPHERE: dy was computed without decay; the multipliers follow from it
    if decay < 0.0:
        keep_norms(y, L, K, M, dy)
    if trains_v:
        v = L * (K * M + K * (K + 1) // 2)
        for k in range(K):
            dy[v + k] = dv[k] - decay_v * y[v + k]


def _seconds(y, s, p, tau, A, B, *_):
    """Estimated time of a kernel that loops over blocks, without compilation."""
    M, K = B.shape[1], A.shape[1]
    return LAZY_LIMITS.operation * s.size * K * (M * (K + M + 3) + (K + 1) * (K + M + 3))


@jit(inline=True)
def flow_of_block(l, y, s, p, tau, A, B, C, kappa, second_order, dy, drift):
    """Fill the velocities of block l."""
    l, L, K, M, one = (
        unsigned_index(l),
        unsigned_index(s.size),
        unsigned_index(len(B)),
        unsigned_index(B.shape[1]),
        unsigned_index(1),
    )
    row, at = M * L, l  # in y
    for k in range(K):
        for m in range(M):
            d, jm = 0.0, m * L + l
            for j in range(K):
                d += A[k, j] * y[jm]
                jm += row
            # drift of the teachers reduces r and not q
            d = s[l] * d - (kappa + drift) * y[at]
            for i in range(M):
                d += B[k, i] * tau[i, m, l]
            dy[at] = d
            at += L
    q = at
    for i in range(K):
        for j in range(i, K):
            d, ki, kj = 0.0, q + i * L, q + j * L
            # ki, kj go down a column of the triangle to its diagonal, from there along the row
            for k in range(K):
                d += A[i, k] * y[kj]
                d += A[j, k] * y[ki]
                ki += (K - one - k) * L if k < i else L
                kj += (K - one - k) * L if k < j else L
            noise = second_order * C[i, j] if second_order > 0 else 0.0
            d = s[l] * (d + p[l] * noise) - 2 * kappa * y[at]
            im, jm = i * row + l, j * row + l
            for m in range(M):
                d += B[i, m] * y[jm]
                d += B[j, m] * y[im]
                im += L
                jm += L
            dy[at] = d
            at += L


@jit(no_reference_counting=True, cost=_seconds)
def flow_of_few(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    """:func:`flow` block by block, with sums in the same order: faster for few blocks."""
    for l in range(s.size):
        flow_of_block(l, y, s, p, tau, A, B, C, max(decay, 0.0), second_order, dy, drift)
    finish(y, s.size, B.shape[0], B.shape[1], dv, decay, decay_v, trains_v, dy)


@jit(no_reference_counting=True, cost=_seconds)
def flow_of_groups(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    """:func:`flow` with own A, B, C for each group of blocks, stacked one below the other: ``group_of``."""
    K = A.shape[1]
    for l in range(s.size):
        at = group_of(l, p) * K
        matrices = A[at : at + K], B[at : at + K], C[at : at + K]
        flow_of_block(l, y, s, p, tau, matrices[0], matrices[1], matrices[2], max(decay, 0.0), second_order, dy, drift)
    finish(y, s.size, K, B.shape[1], dv, decay, decay_v, trains_v, dy)


@jit(fast=True, cost=lambda y, s, p, tau, A, B, *_: LAZY_LIMITS.numpy_call * len(A) * (8 + 2 * (len(A) + B.shape[1])))
def flow_of_units(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    """:func:`flow` as products of matrices, row by row: faster for many units and few blocks."""
    L, kappa = s.size, max(decay, 0.0)
    K, M = B.shape
    first, all_tau = K * M * L, tau.reshape(tau.size)
    to_r, to_q = np.empty(K, np.int64), np.empty(K, np.int64)
    to_tau, to_turned = np.empty(M, np.int64), np.empty(M, np.int64)
    q, turned, h = np.empty(K * K * L), np.empty(M * K * L), np.empty(K * K * L)
    for m in range(M):
        to_tau[m], to_turned[m] = m * M * L, m * K * L
    for i in range(K):
        to_r[i], to_q[i] = i * M * L, i * K * L
        for j in range(K):
            at = first + triangle(i, j, K) * L
            # expand the triangle in y to a full matrix
            copy(y[at : at + L], q[to_q[i] + j * L : to_q[i] + (j + 1) * L])
        for m in range(M):
            at, to = to_r[i] + m * L, to_turned[m] + i * L
            # r^T, so that the product B r^T runs along memory
            copy(y[at : at + L], turned[to : to + L])
    for i in range(K):
        row, half = dy[to_r[i] : to_r[i] + M * L], h[to_q[i] : to_q[i] + K * L]
        clear(row)
        clear(half)
        mix(A[i], y, to_r, row)
        mix(A[i], q, to_q, half)
        for l in range(L):
            # the inner loop is over units, because there are few eigenvalues
            for m in range(l, M * L, L):
                row[m] = s[l] * row[m] - (kappa + drift) * y[to_r[i] + m]
            for j in range(l, K * L, L):
                half[j] *= s[l]
        mix(B[i], all_tau, to_tau, row)
        mix(B[i], turned, to_turned, half)
    at = first
    for i in range(K):
        for j in range(i, K):
            noise = second_order * C[i, j] if second_order > 0 else 0.0
            for l in range(L):
                dy[at] = h[to_q[i] + j * L + l] + h[to_q[j] + i * L + l] + s[l] * p[l] * noise - 2 * kappa * y[at]
                at += 1
    finish(y, L, K, M, dv, decay, decay_v, trains_v, dy)


@cache
def triangle_indices(K):
    """Indices into the stored triangle for each entry of a full matrix (K, K); row and column of each stored entry."""
    i, j = np.triu_indices(K)
    full = np.empty((K, K), np.int64)
    full[i, j] = full[j, i] = np.arange(i.size)
    return full, i, j


def _flow_of_many(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    L, kappa = s.size, max(decay, 0.0)
    K, M = B.shape
    full, i, j = triangle_indices(K)
    first = K * M * L
    r, q = y[:first].reshape(K, M, L), y[first : first + i.size * L].reshape(-1, L)
    d = (A @ r.reshape(K, M * L)).reshape(K, M, L)
    d *= s
    d -= (kappa + drift) * r
    d += (B @ tau.reshape(M, M * L)).reshape(K, M, L)
    dy[:first] = d.ravel()
    h = (A @ q[full].reshape(K, K * L)).reshape(K, K, L)
    h *= s
    h += np.matmul(B, r)
    d = h[i, j] + h[j, i]
    if second_order > 0:
        d += (second_order * C[i, j])[:, None] * (s * p)
    if kappa > 0.0:
        d -= 2 * kappa * q
    dy[first : first + i.size * L] = d.ravel()
    finish(y, L, K, M, dv, decay, decay_v, trains_v, dy)


@jit(no_reference_counting=True, python=_flow_of_many, cost=lambda y, *_: 12 * LAZY_LIMITS.numpy_call + 3e-9 * y.size)
def flow_of_many(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    """:func:`flow` with inner loops over blocks."""
    L, kappa = s.size, max(decay, 0.0)
    K, M = B.shape
    first = K * M * L
    for k in range(K):
        for m in range(M):
            at = (k * M + m) * L
            d, values = dy[at : at + L], y[at : at + L]
            clear(d)
            for j in range(K):
                add(A[k, j], y[(j * M + m) * L : (j * M + m + 1) * L], d)
            for l in range(L):
                d[l] = s[l] * d[l] - (kappa + drift) * values[l]
            for i in range(M):
                add(B[k, i], tau[i, m], d)
    position = first
    for i in range(K):
        for j in range(i, K):
            d, values = dy[position : position + L], y[position : position + L]
            clear(d)
            for k in range(K):
                kj, ki = first + triangle(k, j, K) * L, first + triangle(k, i, K) * L
                add(A[i, k], y[kj : kj + L], d)
                add(A[j, k], y[ki : ki + L], d)
            noise = second_order * C[i, j] if second_order > 0 else 0.0
            for l in range(L):
                d[l] = s[l] * (d[l] + p[l] * noise) - 2 * kappa * values[l]
            for m in range(M):
                add(B[i, m], y[(j * M + m) * L : (j * M + m + 1) * L], d)
                add(B[j, m], y[(i * M + m) * L : (i * M + m + 1) * L], d)
            position += L
    finish(y, L, K, M, dv, decay, decay_v, trains_v, dy)


@jit(no_reference_counting=True, cost=_seconds)
def flow(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift):
    """Fill dy = d(r, q, v)/dalpha at the closure matrices A, B, C, dv; tau is (M, M, L).

    dr^l = s_l A r^l + B tau^l - (decay + drift) r^l
    dq^l = s_l (A q^l + q^l A^T) + B r^lT + r^l B^T + s_l p_l second_order C - 2 decay q^l
    dv   = closure's dv - decay_v v

    ``second_order`` is 1/batch_size, or 0 for gradient flow; ``decay`` is eta kappa, or SPHERE (``keep_norms``);
    ``drift`` is the rate delta of the teachers. In moments sum_l s_l^j (q^l, r^l)
    these are (4), (18), (92), (93) of Worschech and Rosenow (2024); for isotropic inputs (6) of Bocchi et al. (2026).
    """
    # for Python and tests; integrators take one kernel from ``flow_for`` and compile it alone
    if s.size < KERNEL_CHOICE.min_blocks and len(A) >= KERNEL_CHOICE.min_units:
        flow_of_units(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift)
    elif s.size < KERNEL_CHOICE.min_blocks:
        flow_of_few(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift)
    else:
        flow_of_many(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy, drift)


def flow_for(L, K, groups=1):
    """The kernel that ``flow`` calls for L blocks and K students; the others need not be compiled."""
    if groups > 1:
        return flow_of_groups
    if L >= KERNEL_CHOICE.min_blocks:
        return flow_of_many
    return flow_of_units if K >= KERNEL_CHOICE.min_units else flow_of_few


@jit(no_reference_counting=True, cost=lambda eps_g, S, A, B, *_: 3 * LAZY_LIMITS.operation * (A.size + B.size))
def tightening(eps_g, S, A, B, eta, sensitive, size):
    """Factor on tolerances: 1 down to eps_g = ``sensitive`` in units of its gradient times the overlaps, then falling.

    If A and B are no gradient of eps_g (eta = inf), ``size`` replaces these units; for size = 0 the response of eps_g
    to errors is unknown, and the factor is 1.
    """
    K, terms = A.shape[0], 0.0
    if eta == np.inf:
        return min(max(eps_g, 0.0) / (sensitive * size), 1.0) ** 1.2 if size > 0.0 else 1.0
    for i in range(K):
        for j in range(K):
            terms += 0.5 * abs(A[i, j] * S[i, j])
        for m in range(B.shape[1]):
            terms += abs(B[i, m] * S[i, K + m])
    # the exponent above 1 makes the tolerance fall faster than eps_g, so that the relative error falls, too
    return min(max(eps_g, 0.0) / max(sensitive * terms / eta, 1e-300), 1.0) ** 1.2
