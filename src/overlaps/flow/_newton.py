"""Kernels of the structured Newton solve, in the frame where A is diagonal.

A is symmetric, A = V diag(a) V^T.  With r~ = V^T r, q~ = V^T q V, B~ = V^T B (the tilde is left out in the code) the
flow at frozen closure is a set of scalar equations, and (1 - c D) x = b for its matrix D is a division per entry:

    x_r,im = b_r,im / d_i,                                        d_i  = 1 - c (s_l a_i - decay)
    x_q,ij = (b_q,ij + c (x_r B^T + B x_r^T)_ij) / d_ij,          d_ij = 1 - c (s_l (a_i + a_j) - 2 decay)

The rest of the Jacobian, F G, has low rank: G reads g = (upper triangle of dQ, dR, dv) off the unknown, and F g is the
flow of the closure's change dA = sum_u g_u dA/dg_u, likewise dB, dC, dv.  Blocks run fastest, as in ``_flow``.
"""

import numpy as np

from .._base.jit import jit
from ._flow import add, dot, total, triangle


@jit
def rotate(y, V, r, q):
    """Fill r (K, M, L) = V^T r and q (K, K, L) = V^T q V from the packed y."""
    K, M, L = r.shape
    half = np.zeros((K, K, L))
    first = K * M * L
    r[:] = 0.0
    for k in range(K):
        for m in range(M):
            row = y[(k * M + m) * L : (k * M + m + 1) * L]
            for i in range(K):
                add(V[k, i], row, r[i, m])
        for j in range(K):
            kj = first + triangle(k, j, K) * L
            for i in range(K):
                add(V[k, i], y[kj : kj + L], half[i, j])
    for i in range(K):
        for j in range(i, K):
            q[i, j] = 0.0
            for k in range(K):
                add(V[k, j], half[i, k], q[i, j])
            q[j, i] = q[i, j]


@jit
def rotate_back(r, q, V, y):
    """Fill the r and q parts of the packed y: the inverse of :func:`rotate`."""
    K, M, L = r.shape
    half = np.zeros((K, K, L))
    for i in range(K):
        for m in range(M):
            row = y[(i * M + m) * L : (i * M + m + 1) * L]
            row[:] = 0.0
            for k in range(K):
                add(V[i, k], r[k, m], row)
        for j in range(K):
            for k in range(K):
                add(V[i, k], q[k, j], half[i, j])
    position = K * M * L
    for i in range(K):
        for j in range(i, K):
            row = y[position : position + L]
            row[:] = 0.0
            for k in range(K):
                add(V[j, k], half[i, k], row)
            position += L


@jit
def divisors(s, a, c, decay, d):
    """Fill d = 1 / (1 - c (s_l a - decay))."""
    for l in range(s.size):
        d[l] = 1.0 / (1.0 - c * (s[l] * a - decay))


@jit
def moments(r, q, s, p, tau, a, B, c, decay, RA, RB, QA, QB, QC):
    """Fill the sums over blocks that G (1 - c D)^-1 F is made of; they do not depend on the column of F.

    dR_im = sum_j dA_ij RA_ijm + sum_n dB_in RB_inm
    dQ_ij = h_ij + h_ji + dC_ij QC_ij,   h_ij = sum_k dA_ik QA_ijk + sum_n dB_in QB_ijn
    """
    K, M, L = r.shape
    rB, tauB = np.zeros((K, K, L)), np.zeros((M, K, L))
    for j in range(K):
        for m in range(M):
            for i in range(K):
                add(B[j, m], r[i, m], rB[i, j])
            for n in range(M):
                add(B[j, m], tau[n, m], tauB[n, j])
    di, dij, x = np.empty(L), np.empty(L), np.empty(L)
    for i in range(K):
        divisors(s, a[i], c, decay, di)
        for l in range(L):
            x[l] = s[l] * di[l]
        for m in range(M):
            for j in range(K):
                RA[i, j, m] = dot(x, r[j, m])
            for n in range(M):
                RB[i, n, m] = dot(di, tau[n, m])
        for j in range(K):
            divisors(s, a[i] + a[j], c, 2 * decay, dij)
            for l in range(L):
                dij[l] *= s[l]
                x[l] = dij[l] * s[l]
            QC[i, j] = dot(x, p)
            for k in range(K):
                QA[i, j, k] = dot(x, q[k, j])
            for n in range(M):
                QB[i, j, n] = dot(dij, r[j, n])
            for l in range(L):
                x[l] *= c * di[l]
                dij[l] *= c * di[l]
            for k in range(K):
                QA[i, j, k] += dot(x, rB[k, j])
            for n in range(M):
                QB[i, j, n] += dot(dij, tauB[n, j])


@jit
def solve_blocks(x_r, x_q, s, a, B, c, decay, dR, dQ):
    """Overwrite x by (1 - c D)^-1 x; fill dR = sum_l x_r (K, M), dQ = sum_l s_l x_q (K, K)."""
    K, M, L = x_r.shape
    d = np.empty(L)
    for i in range(K):
        divisors(s, a[i], c, decay, d)
        for m in range(M):
            row = x_r[i, m]
            for l in range(L):
                row[l] *= d[l]
            dR[i, m] = total(row)
    for i in range(K):
        for j in range(i, K):
            row = x_q[i, j]
            for m in range(M):
                add(c * B[j, m], x_r[i, m], row)
                add(c * B[i, m], x_r[j, m], row)
            divisors(s, a[i] + a[j], c, 2 * decay, d)
            for l in range(L):
                row[l] *= d[l]
            dQ[i, j] = dQ[j, i] = dot(s, row)
            x_q[j, i] = row


@jit
def add_coupling(r, q, s, p, tau, a, B, c, decay, dA, dB, dC, x_r, x_q):
    """Add c (1 - c D)^-1 F g to x; dA, dB, dC is the change of the closure along g."""
    K, M, L = r.shape
    added, d, velocity = np.zeros((K, M, L)), np.empty(L), np.empty(L)
    for i in range(K):
        divisors(s, a[i], c, decay, d)
        for m in range(M):
            row = added[i, m]
            for k in range(K):
                add(dA[i, k], r[k, m], row)
            for l in range(L):
                row[l] *= s[l]
            for n in range(M):
                add(dB[i, n], tau[n, m], row)
            for l in range(L):
                row[l] *= c * d[l]
            add(1.0, row, x_r[i, m])
    for i in range(K):
        for j in range(i, K):
            velocity[:] = 0.0
            add(dC[i, j], p, velocity)
            for k in range(K):
                add(dA[i, k], q[k, j], velocity)
                add(dA[j, k], q[k, i], velocity)
            for l in range(L):
                velocity[l] *= s[l]
            for m in range(M):
                add(dB[i, m], r[j, m], velocity)
                add(dB[j, m], r[i, m], velocity)
                add(B[i, m], added[j, m], velocity)
                add(B[j, m], added[i, m], velocity)
            divisors(s, a[i] + a[j], c, 2 * decay, d)
            for l in range(L):
                x_q[i, j, l] += c * velocity[l] * d[l]
            x_q[j, i] = x_q[i, j]
