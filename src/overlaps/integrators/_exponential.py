"""Kernel of the exponential step: the flow at frozen closure has an exact solution in the frame where A is diagonal."""

import math

import numpy as np

from .._base.jit import jit


@jit
def growth(s, a, decay, h, e, f):
    """Fill e = exp(z) and f = h (e^z - 1)/z at z = h (s_l a - decay)."""
    for l in range(s.size):
        z = h * (s[l] * a - decay)
        e[l] = math.exp(z)
        f[l] = h * math.expm1(z) / z if z != 0.0 else h


@jit
def advance_blocks(r, q, s, p, tau, a, B, C, decay, h, new_r, new_q):
    """Fill new_r (K, M, L), new_q (K, K, L): the exact solution of the flow after h, the closure (a, B, C) frozen.

    With z_i = h (s_l a_i - decay), phi(z) = (e^z - 1)/z, and C scaled by 1/batch_size,

    r_i  <- e^{z_i} r_i + h phi(z_i) (B tau)_i
    q_ij <- e^{z_i+z_j} q_ij + X_ij + X_ji + h^2 phi(z_i) phi(z_j) (B tau B^T)_ij + h s_l p_l phi(z_i+z_j) C_ij
    X_ij  = e^{z_i} h phi(z_j) (r B^T)_ij                        r before the update
    """
    K, M, L = r.shape
    e, f, Bt = np.empty((K, L)), np.empty((K, L)), np.zeros((K, M, L))
    both, phi = np.empty(L), np.empty(L)
    for i in range(K):
        growth(s, a[i], decay, h, e[i], f[i])
        for m in range(M):
            for n in range(M):
                for l in range(L):
                    Bt[i, m, l] += B[i, n] * tau[n, m, l]
            for l in range(L):
                new_r[i, m, l] = e[i, l] * r[i, m, l] + f[i, l] * Bt[i, m, l]
    for i in range(K):
        for j in range(i, K):
            growth(s, a[i] + a[j], 2 * decay, h, both, phi)
            row = new_q[i, j]
            for l in range(L):
                row[l] = both[l] * q[i, j, l] + s[l] * p[l] * phi[l] * C[i, j]
            for m in range(M):
                for l in range(L):
                    row[l] += e[i, l] * f[j, l] * r[i, m, l] * B[j, m] + e[j, l] * f[i, l] * r[j, m, l] * B[i, m]
                    row[l] += f[i, l] * f[j, l] * Bt[i, m, l] * B[j, m]
            new_q[j, i] = row
