"""The flow of SIMD_WIDTH states at once: ``_flow`` and ``velocity`` with one more index, the last, which is the state.

``numbers`` (7, SIMD_WIDTH) are eta, eta_v, noise^2, decay, decay_v, the factor on C, and drift: ``learning_numbers``.
"""

from typing import NamedTuple

# The fields of a typed tuple are annotated with numba's types.
# mypy: disable-error-code="valid-type"
import numpy as np
from numba import types

from .._base.jit import CUBE, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from ..activations.bound import SIMD_WIDTH
from ._flow import add, clear, copy, triangle

N_LEARNING_NUMBERS = 7


@typed_namedtuple
class SimdWork(NamedTuple):
    """Arguments and results of the closure of SIMD_WIDTH states, and work arrays.

    Shapes in the comments omit the last axis, of size SIMD_WIDTH.
    """

    S: CUBE  # (n, n) covariance of the fields
    w: MATRIX  # (n,) second layers
    s: MATRIX  # (L,)
    p: MATRIX  # (L,)
    tau: types.Array(REAL, 4, "C")  # (M, M, L)
    H: CUBE  # (n, n) mean Hessian
    gradient: MATRIX  # (n,)
    C: CUBE  # (K, K)
    eps_g: VECTOR  # ()
    Z: CUBE  # (n, n) overlaps of one block
    G: CUBE  # (K, n) the product of H and Z
    dS: CUBE  # (n, n)
    dw: MATRIX  # (n,)
    workspace: MATRIX


def learning_numbers(rates):
    """The numbers (b, 7) of rates (b, .) = eta, eta_v, noise, decay, decay_v, second_order, drift, ..."""
    numbers = np.array(rates[:, :N_LEARNING_NUMBERS])
    numbers[:, 2] **= 2
    numbers[:, 5] *= numbers[:, 0] ** 2
    return numbers


def simd_work(K, M, L, size):
    """(work, rows, numbers, y): work arrays, and views of ``rows``, the array that a new trajectory overwrites.

    ``rows`` contains S, w, s, p, tau of ``work``, then ``numbers`` (7, SIMD_WIDTH) and ``y`` (size, SIMD_WIDTH).
    """
    n, edges = K + M, np.cumsum([(K + M) ** 2, K + M, L, L, M * M * L, N_LEARNING_NUMBERS, size])
    rows, square = np.zeros((edges[-1], SIMD_WIDTH)), np.zeros((3, n, n, SIMD_WIDTH))
    S, w, s, p, tau, numbers, y = np.split(rows, edges[:-1])
    work = SimdWork(
        S.reshape(n, n, SIMD_WIDTH), w, s, p, tau.reshape(M, M, L, SIMD_WIDTH), square[0], np.zeros((n, SIMD_WIDTH)),
        np.zeros((K, K, SIMD_WIDTH)), np.zeros(SIMD_WIDTH), square[1], np.zeros((K, n, SIMD_WIDTH)), square[2],
        np.zeros((n, SIMD_WIDTH)),
        np.zeros(((n + 3) * (n + 3), SIMD_WIDTH)),
    )  # fmt: skip
    return work, rows, numbers, y


@jit(fast=True, no_reference_counting=True)
def add_product(x, y, out):
    """Add x y to ``out``."""
    for l in range(SIMD_WIDTH):
        out[l] += x[l] * y[l]


@jit(fast=True, no_reference_counting=True)
def gather(y, s, K, trains_v, S, w):
    """Fill Q and R in S, and v in w if it is trained."""
    n, L, at = len(S), len(s), 0
    for i in range(2 * K):
        k, crossed = i % K, i < K
        for j in range(K if crossed else k, n if crossed else K):
            clear(S[k, j])
            for b in range(L):
                if crossed:
                    add(1.0, y[at], S[k, j])
                else:
                    add_product(s[b], y[at], S[k, j])
                at += 1
            if k != j:
                copy(S[k, j], S[j, k])
    for k in range(K if trains_v else 0):
        copy(y[at + k], w[k])


@jit(no_reference_counting=True)
def overlaps_of_block(y, b, K, work):
    """Fill Z = (q, r; r^T, tau) of block b."""
    n, L, Z = len(work.S), len(work.s), work.Z
    M = n - K
    for k in range(K):
        for j in range(n):
            copy(y[(K * M + triangle(k, j, K) if j < K else k * M + j - K) * L + b], Z[k, j])
            if j >= K:
                copy(Z[k, j], Z[j, k])
    for i in range(K, n):
        for j in range(K, n):
            copy(work.tau[i - K, j - K, b], Z[i, j])


@jit(fast=True, no_reference_counting=True)
def flow(y, K, trains_v, work, numbers, dy):
    """As ``_flow.flow``, with the closure at learning rate one: dr = -eta G and dq follow from G = (s H_KK, H_KM) Z."""
    Z, G, C, n, L = work.Z, work.G, work.C, len(work.S), len(work.s)
    eta, eta_v, _, decay, decay_v, second, drift = numbers
    for b in range(L):
        overlaps_of_block(y, b, K, work)
        s, p = work.s[b], work.p[b]
        for k in range(K):
            for j in range(n):
                clear(G[k, j])
                for c in range(n):
                    if c == K:
                        for l in range(SIMD_WIDTH):
                            G[k, j, l] *= s[l]
                    add_product(work.H[k, c], Z[c, j], G[k, j])
        for k in range(K):
            for j in range(K, n):
                g, r, dr = G[k, j], Z[k, j], dy[(k * (n - K) + j - K) * L + b]
                for l in range(SIMD_WIDTH):
                    dr[l] = -eta[l] * g[l] - (decay[l] + drift[l]) * r[l]
            for j in range(k, K):
                g, h, q, c, dq = G[k, j], G[j, k], Z[k, j], C[k, j], dy[(K * (n - K) + triangle(k, j, K)) * L + b]
                for l in range(SIMD_WIDTH):
                    dq[l] = -eta[l] * (g[l] + h[l]) - 2.0 * decay[l] * q[l]
                for l in range(SIMD_WIDTH):
                    dq[l] += s[l] * p[l] * (second[l] * c[l] if second[l] > 0.0 else 0.0)
    at = len(y) - K
    for k in range(K if trains_v else 0):
        for l in range(SIMD_WIDTH):
            dy[at + k, l] = -eta_v[l] * work.gradient[k, l] - decay_v[l] * y[at + k, l]


@jit(fast=True, no_reference_counting=True)
def change_of_eps_g(dy, K, trains_v, work, change):
    """First-order change of eps_g by a change dy of the overlaps, at the last evaluation of the closure."""
    gather(dy, work.s, K, trains_v, work.dS, work.dw)
    clear(change)
    for i in range(K):
        for j in range(K):
            add_product(work.H[i, j], work.dS[i, j], change)
    for l in range(SIMD_WIDTH):
        change[l] *= 0.5
    for i in range(K):
        for j in range(K, len(work.S)):
            add_product(work.H[i, j], work.dS[i, j], change)
        if trains_v:
            add_product(work.gradient[i], work.dw[i], change)


@jit(fast=True, no_reference_counting=True)
def terms_of_eps_g(K, work, rate, terms):
    """Sums of absolute values: ``rate`` of H_KK, ``terms`` of the terms of H in eps_g."""
    clear(rate)
    clear(terms)
    for i in range(K):
        for j in range(len(work.S)):
            both, h, S = j < K, work.H[i, j], work.S[i, j]
            for l in range(SIMD_WIDTH):
                terms[l] += (0.5 if both else 1.0) * abs(h[l] * S[l])
                rate[l] += abs(h[l]) if both else 0.0
