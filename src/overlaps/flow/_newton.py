"""Kernels of the structured Newton solve, in the frame where A is diagonal.

A is symmetric, A = V diag(a) V^T.  With r~ = V^T r, q~ = V^T q V, B~ = V^T B (the code omits the tilde) the flow at
frozen closure is a set of scalar equations, and (1 - c D) x = b for its matrix D is a division per entry:

    x_r,im = b_r,im / d_i,                                        d_i  = 1 - c (s_l a_i - decay - drift)
    x_q,ij = (b_q,ij + c (x_r B^T + B x_r^T)_ij) / d_ij,          d_ij = 1 - c (s_l (a_i + a_j) - 2 decay)

The remainder of the Jacobian, F G, has low rank: G maps the unknown to g = (upper triangle of dQ, dR, dv), and F g is
the flow of the closure's change dA = sum_u g_u dA/dg_u, likewise dB, dC, dv.  Then

    (1 - c J) x = b:    x = P^-1 (b + c F g),    P = 1 - c D,    (1 - c G P^-1 F) g = G P^-1 b.

Cost: a packed vector has about L K (K + M) entries, and a dense matrix of that size would take minutes.  Here P is a
division, and only g couples the blocks: d_g = K (K + 1) / 2 + K M (+ K) numbers for any L.  The matrix of g needs
G P^-1 F.  A column of F is the flow of one change dA, dB, dC; its sums over blocks are the sums RA, RB, QA, QB, QC
(``moments``), the same for all columns, contracted with that change.  No column is formed, so that a factorisation
costs O(L K^2 (K + M)), as much as one velocity, and so does a solve.

Stages.  ``jacobian.Rotated``, in Python, makes ``frozen`` once for each Jacobian: it diagonalises A and rotates the
state and the derivatives of the closure into that frame.  ``factorise`` fills ``newton`` when c changes: 1 / d_i,
1 / d_ij, and the small matrix of g with its factors L U.  ``correct`` is one solve:

1. ``rotate`` rotates the right-hand side b into the frame (work arrays ``x_r``, ``x_q``);
2. ``solve_blocks`` divides, first r, because q depends on it, and sums up dR, dQ: G P^-1 b;
3. ``turn`` rotates these back to the packed order of g, ``substitute`` solves the small equations;
4. ``add_coupling`` adds P^-1 c F g, where F g is the flow of one summed change of the closure;
5. ``rotate_back`` leaves the frame.

The index of the block is the last one, as in ``_flow``: inner loops run over eigenvalues, along memory.  ``mix`` adds
several rows at once, because memory limits the speed; ``at`` are the positions of these rows.  Both halves of q and
x_q are filled, so that a row (i, j) can be read with either index first; packed vectors contain the triangle.
"""

from typing import NamedTuple

import numpy as np

from .._base.jit import CUBE, INTS, MATRIX, REAL, VECTOR, jit, typed_namedtuple
from .._base.lazy_compilation import LAZY_LIMITS
from ._flow import add, clear, copy, dot, mix, total, triangle, triangle_indices


@typed_namedtuple
class Eigenspaces(NamedTuple):
    """The numbers of D: eigenvalues s (L,), weights p, teachers tau (M, M, L), decays and drift."""

    s: VECTOR
    p: VECTOR
    tau: CUBE
    decay: REAL
    decay_v: REAL
    drift: REAL


@typed_namedtuple
class Frozen(NamedTuple):
    """J at one state, in the frame where A is diagonal; g is in packed order, outside the frame, so ddv is not rotated.

    Made in Python once for each Jacobian, read by every factorisation and every solve.
    """

    a: VECTOR  # eigenvalues of A (K,)
    V: MATRIX  # its eigenvectors, as columns
    B: MATRIX
    r: CUBE  # (K, M, L)
    q: CUBE  # (K, K, L)
    dA: CUBE  # change of the closure along each entry of g: (d_g, K, K)
    dB: CUBE
    dC: CUBE
    ddv: MATRIX  # (d_g, K), or (d_g, 0) where v is not trained


@typed_namedtuple
class Factorised(NamedTuple):
    """The factorised 1 - c J for one c: filled by ``factorise``, read by ``correct``."""

    small: MATRIX  # (d_g, d_g): factors L U of 1 - c G P^-1 F
    rows: INTS  # the row exchanges of the factorisation
    single: MATRIX  # 1 / d_i (K, L)
    pair: MATRIX  # 1 / d_ij (K (K + 1) / 2, L)


@typed_namedtuple
class Equations(NamedTuple):
    """A Newton iteration: the Jacobian, 1 - c J factorised, and work arrays for the rotated right-hand side."""

    frozen: Frozen.type
    spaces: Eigenspaces.type
    newton: Factorised.type
    x_r: CUBE  # (K, M, L)
    x_q: CUBE  # (K, K, L)


@jit(no_reference_counting=True)
def strided(at, first, step):
    """Fill at_k = first + k step, the positions of the rows of a matrix."""
    for k in range(at.size):
        at[k] = first + k * step


def _rotate(y, V, r, q):
    K, M, L = r.shape
    first = K * M * L
    full, i, _ = triangle_indices(K)
    r[:] = (V.T @ y[:first].reshape(K, M * L)).reshape(K, M, L)
    half = (V.T @ y[first : first + i.size * L].reshape(-1, L)[full].reshape(K, K * L)).reshape(K, K, L)
    q[:] = np.matmul(V.T, half)


@jit(fast=True, python=_rotate, cost=lambda y, *_: 4 * LAZY_LIMITS.numpy_call + 3e-9 * y.size)
def rotate(y, V, r, q):
    """Fill r (K, M, L) = V^T r and q (K, K, L) = V^T q V from the packed y.

    ``half`` is V^T q: rotating one side of q after the other takes K operations per entry instead of K^2.
    """
    K, M, L = r.shape
    half, at = np.zeros((K, K, L)), np.empty(K, np.int64)
    for m in range(M):
        strided(at, m * L, M * L)
        for i in range(K):
            clear(r[i, m])
            mix(V[:, i], y, at, r[i, m])
    for j in range(K):
        for k in range(K):
            at[k] = (K * M + triangle(k, j, K)) * L
        for i in range(K):
            mix(V[:, i], y, at, half[i, j])
    all_half = half.reshape(half.size)
    for i in range(K):
        strided(at, i * K * L, L)
        for j in range(i, K):
            clear(q[i, j])
            mix(V[:, j], all_half, at, q[i, j])
            copy(q[i, j], q[j, i])


def _rotate_back(r, q, V, y):
    K, M, L = r.shape
    first = K * M * L
    _, i, j = triangle_indices(K)
    y[:first] = (V @ r.reshape(K, M * L)).ravel()
    half = (V @ q.reshape(K, K * L)).reshape(K, K, L)
    y[first : first + i.size * L] = np.matmul(V, half)[i, j].ravel()


@jit(fast=True, python=_rotate_back)
def rotate_back(r, q, V, y):
    """Fill r and q in the packed y: the inverse of :func:`rotate`, for the triangle of V q V^T only."""
    K, M, L = r.shape
    half, at = np.zeros((K, K, L)), np.empty(K, np.int64)
    all_r, all_q, all_half = r.reshape(r.size), q.reshape(q.size), half.reshape(half.size)
    clear(y[: L * (K * M + K * (K + 1) // 2)])
    for m in range(M):
        strided(at, m * L, M * L)
        for i in range(K):
            mix(V[i], all_r, at, y[at[i] : at[i] + L])
    for j in range(K):
        strided(at, j * L, K * L)
        for i in range(K):
            mix(V[i], all_q, at, half[i, j])
    position = K * M * L
    for i in range(K):
        strided(at, i * K * L, L)
        for j in range(i, K):
            mix(V[j], all_half, at, y[position : position + L])
            position += L


def _divide(s, a, c, decay, drift, single, pair):
    _, i, j = triangle_indices(a.size)
    single[:] = 1.0 / (1.0 - c * (a[:, None] * s - decay - drift))
    pair[:] = 1.0 / (1.0 - c * ((a[i] + a[j])[:, None] * s - 2 * decay))


@jit(fast=True, python=_divide)
def divide(s, a, c, decay, drift, single, pair):
    """Fill single (K, L) = 1 / d_i and pair (K (K + 1) / 2, L) = 1 / d_ij.

    All d exceed 1 if A contracts, because c > 0 and a_i < 0.  For growing directions, a_i > 0, the error control of the
    integrator must keep c s a_i below 1.
    """
    K, u = a.size, 0
    for i in range(K):
        for l in range(s.size):
            single[i, l] = 1.0 / (1.0 - c * (s[l] * a[i] - decay - drift))
        for j in range(i, K):
            for l in range(s.size):
                pair[u, l] = 1.0 / (1.0 - c * (s[l] * (a[i] + a[j]) - 2 * decay))
            u += 1


def _moments(r, q, s, p, tau, B, c, single, pair, RA, RB, QA, QB, QC):
    K, M, L = r.shape
    full = triangle_indices(K)[0]
    rB = np.matmul(B, r)
    tauB = np.matmul(B, tau)
    sd = s * single
    RA[:] = (sd @ r.reshape(K * M, L).T).reshape(K, K, M)
    RB[:] = (single @ tau.reshape(M * M, L).T).reshape(K, M, M)
    sij = pair[full] * s
    x = sij * s
    QC[:] = x @ p
    QA[:] = np.einsum("ijl,kjl->ijk", x, q)
    QB[:] = np.einsum("ijl,jnl->ijn", sij, r)
    factor = c * single[:, None]
    x *= factor
    sij *= factor
    QA += np.einsum("ijl,kjl->ijk", x, rB)
    QB += np.einsum("ijl,njl->ijn", sij, tauB)


@jit(fast=True, python=_moments)
def moments(r, q, s, p, tau, B, c, single, pair, RA, RB, QA, QB, QC):
    """Fill the sums over blocks in G (1 - c D)^-1 F; they do not depend on the column of F.

    dR_im = sum_j dA_ij RA_ijm + sum_n dB_in RB_inm
    dQ_ij = h_ij + h_ji + dC_ij QC_ij,   h_ij = sum_k dA_ik QA_ijk + sum_n dB_in QB_ijn

    Each is a sum over l of entries of the state with s, 1 / d_i and 1 / d_ij; rB and tauB stand for the effect of r
    on q.
    """
    K, M, L = r.shape
    # r depends on the closure, and q on r: B r and B tau are the second terms of QA and QB
    rB, tauB = np.zeros((K, K, L)), np.zeros((M, K, L))
    for j in range(K):
        for m in range(M):
            for i in range(K):
                add(B[j, m], r[i, m], rB[i, j])
            for n in range(M):
                add(B[j, m], tau[n, m], tauB[n, j])
    sij, x = np.empty(L), np.empty(L)
    for i in range(K):
        di = single[i]
        for l in range(L):
            x[l] = s[l] * di[l]
        for m in range(M):
            for j in range(K):
                RA[i, j, m] = dot(x, r[j, m])
            for n in range(M):
                RB[i, n, m] = dot(di, tau[n, m])
        for j in range(K):
            dij = pair[triangle(i, j, K)]
            for l in range(L):
                sij[l] = dij[l] * s[l]
                x[l] = sij[l] * s[l]
            QC[i, j] = dot(x, p)
            for k in range(K):
                QA[i, j, k] = dot(x, q[k, j])
            for n in range(M):
                QB[i, j, n] = dot(sij, r[j, n])
            for l in range(L):
                # below, the effect through r: divided by d_i and by d_ij
                x[l] *= c * di[l]
                sij[l] *= c * di[l]
            for k in range(K):
                QA[i, j, k] += dot(x, rB[k, j])
            for n in range(M):
                QB[i, j, n] += dot(sij, tauB[n, j])


def _solve_blocks(x_r, x_q, s, B, c, single, pair, dR, dQ):
    x_r *= single[:, None]
    dR[:] = x_r.sum(axis=2)
    g = np.matmul(B, x_r)
    x_q += c * (g + g.transpose(1, 0, 2))
    x_q *= pair[triangle_indices(len(x_q))[0]]
    dQ[:] = x_q @ s


@jit(fast=True, python=_solve_blocks)
def solve_blocks(x_r, x_q, s, B, c, single, pair, dR, dQ):
    """Overwrite x by (1 - c D)^-1 x; fill dR = sum_l x_r (K, M), dQ = sum_l s_l x_q (K, K).

    x_r is solved first, because c (x_r B^T + B x_r^T) is added to the right-hand side of x_q.
    """
    K, M, L = x_r.shape
    for i in range(K):
        for m in range(M):
            row, d = x_r[i, m], single[i]
            for l in range(L):
                row[l] *= d[l]
            dR[i, m] = total(row)
    all_r, at, factors, u = x_r.reshape(x_r.size), np.empty(2 * M, np.int64), np.empty(2 * M), 0
    for i in range(K):
        for j in range(i, K):
            row, d = x_q[i, j], pair[u]
            # coupling of q to r, which is solved already: the block matrix is lower triangular in (r, q)
            pairs(i, j, c, B, L, at, factors)
            mix(factors, all_r, at, row)
            for l in range(L):
                row[l] *= d[l]
            dQ[i, j] = dQ[j, i] = dot(s, row)
            copy(row, x_q[j, i])
            u += 1


@jit(no_reference_counting=True)
def pairs(i, j, c, B, L, at, factors):
    """Rows of (x B^T + B x^T)_ij c: their positions in an array x (K, M, L), and their factors.

    The entry ij is then one call of ``mix`` over 2 M rows. B may be any (K, M) matrix, also dA with q (K, K, L).
    """
    M = B.shape[1]
    for m in range(M):
        at[m], at[M + m] = (i * M + m) * L, (j * M + m) * L
        factors[m], factors[M + m] = c * B[j, m], c * B[i, m]


def _add_coupling(r, q, s, p, tau, B, c, single, pair, dA, dB, dC, x_r, x_q):
    K, M, L = r.shape
    added = (dA @ r.reshape(K, M * L)).reshape(K, M, L)
    added *= s
    added += (dB @ tau.reshape(M, M * L)).reshape(K, M, L)
    added *= c * single[:, None]
    x_r += added
    g = np.matmul(dA, q)
    g *= s
    g += np.matmul(dB, r)
    g += np.matmul(B, added)
    g = g + g.transpose(1, 0, 2)
    g += dC[:, :, None] * (p * s)
    g *= pair[triangle_indices(K)[0]]
    x_q += c * g


@jit(fast=True, python=_add_coupling)
def add_coupling(r, q, s, p, tau, B, c, single, pair, dA, dB, dC, x_r, x_q):
    """Add c (1 - c D)^-1 F g to x; dA, dB, dC is the change of the closure along g.

    ``added`` is the change of x_r, c (s dA r + dB tau) / d_i.  The change of x_q is s (dA q + q dA^T + dC p) + dB r^T +
    r dB^T plus B ``added``^T and its transpose, because q depends on r in D.
    """
    K, M, L = r.shape
    added, velocity = np.zeros((K, M, L)), np.empty(L)
    all_r, all_q, all_tau = r.reshape(r.size), q.reshape(q.size), tau.reshape(tau.size)
    at, mt, u = np.empty(K, np.int64), np.empty(M, np.int64), 0
    qt, rt = np.empty(2 * K, np.int64), np.empty(2 * M, np.int64)
    of_q, of_r = np.empty(2 * K), np.empty(2 * M)
    for m in range(M):
        strided(at, m * L, M * L)
        strided(mt, m * L, M * L)
        for i in range(K):
            row, d, x = added[i, m], single[i], x_r[i, m]
            # s dA r + dB tau: the eigenvalues multiply the first term only
            mix(dA[i], all_r, at, row)
            for l in range(L):
                row[l] *= s[l]
            mix(dB[i], all_tau, mt, row)
            for l in range(L):
                row[l] *= c * d[l]
                x[l] += row[l]
    for i in range(K):
        for j in range(i, K):
            for l in range(L):
                # dA q and dC p have the factor s; dB r and B added follow without it
                velocity[l] = dC[i, j] * p[l]
            pairs(i, j, 1.0, dA, L, qt, of_q)
            mix(of_q, all_q, qt, velocity)
            for l in range(L):
                velocity[l] *= s[l]
            pairs(i, j, 1.0, dB, L, rt, of_r)
            mix(of_r, all_r, rt, velocity)
            pairs(i, j, 1.0, B, L, rt, of_r)
            mix(of_r, added.reshape(added.size), rt, velocity)
            row, d = x_q[i, j], pair[u]
            for l in range(L):
                row[l] += c * velocity[l] * d[l]
            copy(row, x_q[j, i])
            u += 1


@jit(no_reference_counting=True)
def turn(V, dR, dQ, dv, g):
    """Fill g = (triangle of Q, R, v) from rotated dR (K, M) and dQ (K, K), and dv (K or 0).

    g is in packed order and outside the frame, as the closure takes it: dQ = V dQ~ V^T, dR = V dR~.
    """
    K, M = dR.shape
    u = 0
    for i in range(K):
        for j in range(i, K):
            g[u] = 0.0
            for k in range(K):
                for n in range(K):
                    g[u] += V[i, k] * V[j, n] * dQ[k, n]
            u += 1
    for i in range(K):
        for m in range(M):
            g[u] = 0.0
            for k in range(K):
                g[u] += V[i, k] * dR[k, m]
            u += 1
    for k in range(dv.size):
        g[u + k] = dv[k]


@jit(no_reference_counting=True)
def decompose(a, rows):
    """Overwrite a (n, n) by its factors L U, and fill ``rows`` with the row exchanges.

    Gaussian elimination with partial pivoting; n = d_g is 7 to a few hundred, too small for LAPACK to pay in a kernel.
    """
    n = rows.size
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[best, k]):
                best = i
        rows[k] = best
        if best != k:
            for j in range(n):
                a[k, j], a[best, j] = a[best, j], a[k, j]
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            add(-a[i, k], a[k, k + 1 :], a[i, k + 1 :])


@jit(no_reference_counting=True)
def substitute(a, rows, x):
    """Overwrite x (n,) by the solution of L U x, with the factors and exchanges of ``decompose``."""
    n = rows.size
    # all exchanges first, because the factors are in exchanged order
    for k in range(n):
        x[k], x[rows[k]] = x[rows[k]], x[k]
    for k in range(n):
        x[k] -= dot(a[k, :k], x[:k])
    for k in range(n - 1, -1, -1):
        x[k] = (x[k] - dot(a[k, k + 1 :], x[k + 1 :])) / a[k, k]


@jit(cost=lambda equations, *_: 30 * LAZY_LIMITS.numpy_call + 10 * LAZY_LIMITS.numpy_call * equations.frozen.dA.size)
def factorise(equations, c):
    """Fill ``equations.newton`` for 1 - c J.

    Column u of the small matrix is the effect on g of the change u of the closure, from the sums of ``moments``.
    """
    frozen, spaces, newton = equations.frozen, equations.spaces, equations.newton
    V, r, dA, dB, dC, ddv = frozen.V, frozen.r, frozen.dA, frozen.dB, frozen.dC, frozen.ddv
    s, decay_v = spaces.s, spaces.decay_v
    small, rows, single, pair = newton.small, newton.rows, newton.single, newton.pair
    K, M = frozen.B.shape
    divide(s, frozen.a, c, spaces.decay, spaces.drift, single, pair)
    RA, RB, QC = np.empty((K, K, M)), np.empty((K, M, M)), np.empty((K, K))
    QA, QB = np.empty((K, K, K)), np.empty((K, K, M))
    moments(r, frozen.q, s, spaces.p, spaces.tau, frozen.B, c, single, pair, RA, RB, QA, QB, QC)
    dR, dQ, dv, g = np.empty((K, M)), np.empty((K, K)), np.empty(ddv.shape[1]), np.empty(rows.size)
    for u in range(rows.size):
        for i in range(K):
            for m in range(M):
                dR[i, m] = dot(dA[u, i], RA[i, :, m]) + dot(dB[u, i], RB[i, :, m])
            for j in range(K):
                dQ[i, j] = dC[u, i, j] * QC[i, j] + dot(dA[u, i], QA[i, j]) + dot(dB[u, i], QB[i, j])
                dQ[i, j] += dot(dA[u, j], QA[j, i]) + dot(dB[u, j], QB[j, i])
        for k in range(dv.size):
            # v couples to the closure only: its row of 1 - c D is the number 1 + c decay_v
            dv[k] = ddv[u, k] / (1.0 + c * decay_v)
        turn(V, dR, dQ, dv, g)
        for i in range(rows.size):
            small[i, u] = (1.0 if i == u else 0.0) - c * g[i]
    decompose(small, rows)


@jit(
    cost=lambda equations, *_: (
        30 * LAZY_LIMITS.numpy_call
        + 4 * LAZY_LIMITS.numpy_call * equations.newton.rows.size * len(equations.frozen.a)
        + 2e-8 * equations.x_r.size
    )
)
def correct(equations, c, b, x):
    """Fill x = (1 - c J)^-1 b, packed both.

    These are the five stages listed in the module's documentation; v belongs to no block: it is divided by
    1 + c decay_v, and the change of the closure is added to it directly.
    """
    frozen, spaces, newton = equations.frozen, equations.spaces, equations.newton
    V, B, dA, dB, dC, ddv = frozen.V, frozen.B, frozen.dA, frozen.dB, frozen.dC, frozen.ddv
    x_r, x_q, rows, decay_v = equations.x_r, equations.x_q, newton.rows, spaces.decay_v
    K, M = B.shape
    rotate(b, V, x_r, x_q)
    dR, dQ, g = np.empty((K, M)), np.empty((K, K)), np.empty(rows.size)
    solve_blocks(x_r, x_q, spaces.s, B, c, newton.single, newton.pair, dR, dQ)
    v = np.empty(ddv.shape[1])
    for k in range(v.size):
        v[k] = b[b.size - v.size + k] / (1.0 + c * decay_v)
    turn(V, dR, dQ, v, g)
    substitute(newton.small, rows, g)
    # F g is the flow of one change of the closure: sum dA, dB, dC over g before the loops over blocks
    A1, B1, C1 = np.zeros((K, K)), np.zeros((K, M)), np.zeros((K, K))
    for u in range(rows.size):
        for i in range(K):
            add(g[u], dA[u, i], A1[i])
            add(g[u], dB[u, i], B1[i])
            add(g[u], dC[u, i], C1[i])
        add(c / (1.0 + c * decay_v) * g[u], ddv[u], v)
    add_coupling(
        frozen.r, frozen.q, spaces.s, spaces.p, spaces.tau, B, c, newton.single, newton.pair, A1, B1, C1, x_r, x_q
    )
    rotate_back(x_r, x_q, V, x)
    copy(v, x[x.size - v.size :])
