"""Kernel of the exponential step: blocks at frozen closure."""

import math

import numpy as np

from .._base.jit import jit


@jit(inline=True)
def _phi(z):
    """(e^z - 1) / z."""
    return math.expm1(z) / z if z != 0.0 else 1.0


@jit
def advance_blocks(r, q, s, p, tau, a, B, C, decay, h, new_r, new_q):
    """Fill new_r, new_q: the exact solution of the flow after h, the closure (a, B, C) frozen.

    With z_i = h (s_l a_i - decay), phi(z) = (e^z - 1)/z, and C scaled by 1/batch_size,

    r_i  <- e^{z_i} r_i + h phi(z_i) (B tau)_i
    q_ij <- e^{z_i+z_j} q_ij + X_ij + X_ji + h^2 phi(z_i) phi(z_j) (B tau B^T)_ij + h s_l p_l phi(z_i+z_j) C_ij
    X_ij  = e^{z_i} h phi(z_j) (r B^T)_ij                        r before the update
    """
    L, K, M = r.shape
    z, e, f, Bt = np.empty(K), np.empty(K), np.empty(K), np.empty((K, M))
    for block in range(L):
        sl = s[block]
        for i in range(K):
            z[i] = h * (sl * a[i] - decay)
            e[i], f[i] = math.exp(z[i]), h * _phi(z[i])
            for m in range(M):
                Bt[i, m] = 0.0
                for n in range(M):
                    Bt[i, m] += B[i, n] * tau[block, n, m]
                new_r[block, i, m] = e[i] * r[block, i, m] + f[i] * Bt[i, m]
        for i in range(K):
            for j in range(i, K):
                total = e[i] * e[j] * q[block, i, j] + h * sl * p[block] * _phi(z[i] + z[j]) * C[i, j]
                for m in range(M):
                    total += e[i] * f[j] * r[block, i, m] * B[j, m] + e[j] * f[i] * r[block, j, m] * B[i, m]
                    total += f[i] * f[j] * Bt[i, m] * B[j, m]
                new_q[block, i, j] = new_q[block, j, i] = total
