"""Kernels of the structured Newton solve and of the exponential step, in the frame where A is diagonal.

A is symmetric, A = V diag(a) V^T.  With r~ = V^T r, q~ = V^T q V, B~ = V^T B (the tilde is left out in the code) the
flow at frozen closure is a set of scalar equations, and (1 - c D) x = b for its matrix D is a division per entry:

    x_r,im = b_r,im / d_i,                                        d_i  = 1 - c (s_l a_i - decay)
    x_q,ij = (b_q,ij + c (x_r B^T + B x_r^T)_ij) / d_ij,          d_ij = 1 - c (s_l (a_i + a_j) - 2 decay)

The rest of the Jacobian, F G, has low rank: G reads g = (upper triangle of dQ, dR, dv) off the unknown, and F g is the
flow of the closure's change dA = sum_u g_u dA/dg_u, likewise dB, dC, dv.
"""

import numpy as np

from .._base.jit import jit


@jit
def rotate(y, V, L, K, M, r, q):
    """Fill r (L, K, M) = V^T r and q (L, K, K) = V^T q V from the packed y."""
    full, half = np.empty((K, K)), np.empty((K, K))
    position = L * K * M
    for block in range(L):
        first = block * K * M
        for i in range(K):
            for m in range(M):
                r[block, i, m] = 0.0
                for k in range(K):
                    r[block, i, m] += V[k, i] * y[first + k * M + m]
            for j in range(i, K):
                full[i, j] = full[j, i] = y[position]
                position += 1
        for i in range(K):
            for j in range(K):
                half[i, j] = 0.0
                for k in range(K):
                    half[i, j] += V[k, i] * full[k, j]
        for i in range(K):
            for j in range(i, K):
                total = 0.0
                for k in range(K):
                    total += half[i, k] * V[k, j]
                q[block, i, j] = q[block, j, i] = total


@jit
def rotate_back(r, q, V, y):
    """Fill the r and q parts of the packed y: the inverse of :func:`rotate`."""
    L, K, M = r.shape
    half = np.empty((K, K))
    position = L * K * M
    for block in range(L):
        first = block * K * M
        for i in range(K):
            for m in range(M):
                total = 0.0
                for k in range(K):
                    total += V[i, k] * r[block, k, m]
                y[first + i * M + m] = total
            for j in range(K):
                half[i, j] = 0.0
                for k in range(K):
                    half[i, j] += V[i, k] * q[block, k, j]
        for i in range(K):
            for j in range(i, K):
                y[position] = 0.0
                for k in range(K):
                    y[position] += half[i, k] * V[j, k]
                position += 1


@jit
def moments(r, q, s, p, tau, a, B, c, decay, RA, RB, QA, QB, QC):
    """Fill the sums over blocks that G (1 - c D)^-1 F is made of; they do not depend on the column of F.

    dR_im = sum_j dA_ij RA_ijm + sum_n dB_in RB_inm
    dQ_ij = h_ij + h_ji + dC_ij QC_ij,   h_ij = sum_k dA_ik QA_ijk + sum_n dB_in QB_ijn
    """
    L, K, M = r.shape
    for array in (RA, RB, QA, QB):
        array[:] = 0.0
    QC[:] = 0.0
    rB, tauB = np.empty((K, K)), np.empty((M, K))
    for block in range(L):
        sl = s[block]
        for j in range(K):
            for i in range(K):
                rB[i, j] = 0.0
                for m in range(M):
                    rB[i, j] += r[block, i, m] * B[j, m]
            for n in range(M):
                tauB[n, j] = 0.0
                for m in range(M):
                    tauB[n, j] += tau[block, n, m] * B[j, m]
        for i in range(K):
            di = 1.0 / (1.0 - c * (sl * a[i] - decay))
            for m in range(M):
                for j in range(K):
                    RA[i, j, m] += sl * di * r[block, j, m]
                for n in range(M):
                    RB[i, n, m] += di * tau[block, n, m]
            for j in range(K):
                dij = sl / (1.0 - c * (sl * (a[i] + a[j]) - 2 * decay))
                QC[i, j] += dij * sl * p[block]
                for k in range(K):
                    QA[i, j, k] += dij * sl * (q[block, k, j] + c * di * rB[k, j])
                for n in range(M):
                    QB[i, j, n] += dij * (r[block, j, n] + c * di * tauB[n, j])


@jit
def solve_blocks(x_r, x_q, s, a, B, c, decay, dR, dQ):
    """Overwrite x by (1 - c D)^-1 x; fill dR = sum_l x_r (K, M), dQ = sum_l s_l x_q (K, K)."""
    L, K, M = x_r.shape
    dR[:] = 0.0
    dQ[:] = 0.0
    for block in range(L):
        sl = s[block]
        for i in range(K):
            di = 1.0 / (1.0 - c * (sl * a[i] - decay))
            for m in range(M):
                x_r[block, i, m] *= di
                dR[i, m] += x_r[block, i, m]
        for i in range(K):
            for j in range(i, K):
                total = 0.0
                for m in range(M):
                    total += x_r[block, i, m] * B[j, m] + B[i, m] * x_r[block, j, m]
                total = (x_q[block, i, j] + c * total) / (1.0 - c * (sl * (a[i] + a[j]) - 2 * decay))
                x_q[block, i, j] = x_q[block, j, i] = total
                dQ[i, j] += sl * total
    for i in range(K):
        for j in range(i):
            dQ[i, j] = dQ[j, i]


@jit
def add_coupling(r, q, s, p, tau, a, B, c, decay, dA, dB, dC, x_r, x_q):
    """Add c (1 - c D)^-1 F g to x; dA, dB, dC is the change of the closure along g."""
    L, K, M = r.shape
    added = np.empty((K, M))
    for block in range(L):
        sl = s[block]
        for i in range(K):
            di = c / (1.0 - c * (sl * a[i] - decay))
            for m in range(M):
                velocity = 0.0
                for k in range(K):
                    velocity += sl * dA[i, k] * r[block, k, m]
                for n in range(M):
                    velocity += dB[i, n] * tau[block, n, m]
                added[i, m] = di * velocity
                x_r[block, i, m] += added[i, m]
        for i in range(K):
            for j in range(i, K):
                velocity = sl * p[block] * dC[i, j]
                for k in range(K):
                    velocity += sl * (dA[i, k] * q[block, k, j] + dA[j, k] * q[block, k, i])
                for m in range(M):
                    velocity += dB[i, m] * r[block, j, m] + dB[j, m] * r[block, i, m]
                    velocity += B[i, m] * added[j, m] + B[j, m] * added[i, m]
                x_q[block, i, j] += c * velocity / (1.0 - c * (sl * (a[i] + a[j]) - 2 * decay))
                x_q[block, j, i] = x_q[block, i, j]
