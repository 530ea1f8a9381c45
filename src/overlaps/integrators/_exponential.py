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
def slope(x, y):
    """First divided difference exp[x, y]."""
    return math.exp(y) * (math.expm1(x - y) / (x - y) if x != y else 1.0)


@jit
def divided(x, y):
    """Second divided difference exp[x, y, 0]; a series where the three are close and the quotients cancel."""
    low, high = min(x, y, 0.0), max(x, y, 0.0)
    middle = x + y - low - high
    if high - low > 0.5:
        return (slope(high, middle) - slope(middle, low)) / (high - low)
    centre = (low + high) / 2
    u, v, w = low - centre, middle - centre, high - centre
    one = two = three = 1.0  # complete homogeneous polynomials in u; u, v; u, v, w
    factorial, total = 2.0, 0.5
    for k in range(1, 13):
        one = u * one
        two = v * two + one
        three = w * three + two
        factorial *= k + 2
        total += three / factorial
    return math.exp(centre) * total


@jit
def advance_blocks(r, q, s, p, tau, a, B, C, decay, drift, h, new_r, new_q):
    """Fill new_r (K, M, L), new_q (K, K, L): the exact solution of the flow after h, the closure (a, B, C) frozen.

    With z_i = h (s_l a_i - decay), d = h drift, phi(z) = (e^z - 1)/z, and C scaled by 1/batch_size,

    r_i  <- e^{z_i-d} r_i + h phi(z_i - d) (B tau)_i
    q_ij <- e^{z_i+z_j} q_ij + X_ij + X_ji + h^2 (Y_ij + Y_ji) (B tau B^T)_ij + h s_l p_l phi(z_i+z_j) C_ij
    X_ij  = e^{z_i-d} h phi(z_j + d) (r B^T)_ij                  r before the update
    Y_ij  = exp[z_i + z_j, z_i - d, 0], a divided difference;    Y_ij + Y_ji = phi(z_i) phi(z_j) without drift
    """
    K, M, L = r.shape
    e, f, ahead, Bt = np.empty((K, L)), np.empty((K, L)), np.empty((K, L)), np.zeros((K, M, L))
    both, phi, twice = np.empty(L), np.empty(L), np.empty(L)
    for i in range(K):
        growth(s, a[i], decay - drift, h, e[i], ahead[i])
        growth(s, a[i], decay + drift, h, e[i], f[i])
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
                twice[l] = f[i, l] * f[j, l]
                if drift > 0.0:
                    z_i, z_j, d = h * (s[l] * a[i] - decay), h * (s[l] * a[j] - decay), h * drift
                    twice[l] = h * h * (divided(z_i + z_j, z_i - d) + divided(z_i + z_j, z_j - d))
            for l in range(L):
                row[l] = both[l] * q[i, j, l] + s[l] * p[l] * phi[l] * C[i, j]
            for m in range(M):
                for l in range(L):
                    row[l] += (
                        e[i, l] * ahead[j, l] * r[i, m, l] * B[j, m] + e[j, l] * ahead[i, l] * r[j, m, l] * B[i, m]
                    )
                    row[l] += twice[l] * Bt[i, m, l] * B[j, m]
            for l in range(L):
                new_q[j, i, l] = row[l]
