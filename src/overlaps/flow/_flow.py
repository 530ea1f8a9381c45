"""The one right-hand side: overlaps -> covariance of the fields, and closure -> velocities of the overlaps.

Packed state ``y``: r (L, K, M) row-major, then the upper triangle (row by row) of q^l for each l, then v if it is
trained.  Only the triangle is stored because an antisymmetric part of q, seeded by rounding, would grow.
"""

from .._base.jit import jit


@jit
def gather(y, s, K, M, trains_v, S, w):
    """Fill the Q and R parts of S (n, n) and, when it is trained, the student part of w = (v, -v*)."""
    L = s.size
    n = K + M
    for i in range(K):
        for j in range(n):
            S[i, j] = 0.0
    position = 0
    for _ in range(L):
        for k in range(K):
            for m in range(K, n):
                S[k, m] += y[position]
                position += 1
    for block in range(L):
        for i in range(K):
            for j in range(i, K):
                S[i, j] += s[block] * y[position]
                position += 1
    for i in range(K):
        for j in range(i):
            S[i, j] = S[j, i]
        for m in range(K, n):
            S[m, i] = S[i, m]
        if trains_v:
            w[i] = y[position + i]


@jit
def flow(y, s, p, tau, A, B, C, dv, decay, decay_v, second_order, trains_v, dy):
    """Fill dy = d(r, q, v)/dalpha for given closure matrices.

    dr^l = s_l A r^l + B tau^l - decay r^l
    dq^l = s_l (A q^l + q^l A^T) + B r^lT + r^l B^T + s_l p_l second_order C - 2 decay q^l
    dv   = closure's dv - decay_v v

    ``second_order`` is 1/batch_size, or 0 for gradient flow; ``decay`` is eta kappa. In moments sum_l s_l^j (q^l, r^l)
    these are (4), (18), (92), (93) of Worschech and Rosenow (2024); for isotropic inputs (6) of Bocchi et al. (2026).
    """
    L = s.size
    K, M = B.shape
    triangle = K * (K + 1) // 2
    for block in range(L):
        r0 = block * K * M
        q0 = L * K * M + block * triangle
        for k in range(K):
            for m in range(M):
                velocity = -decay * y[r0 + k * M + m]
                for j in range(K):
                    velocity += s[block] * A[k, j] * y[r0 + j * M + m]
                for i in range(M):
                    velocity += B[k, i] * tau[block, i, m]
                dy[r0 + k * M + m] = velocity
        noise = second_order * s[block] * p[block]
        position = q0
        for i in range(K):
            for j in range(i, K):
                velocity = noise * C[i, j] - 2 * decay * y[position] if second_order > 0 else -2 * decay * y[position]
                for k in range(K):
                    # index of q_kj and q_ki in the upper triangle
                    kj = k * K - k * (k - 1) // 2 + j - k if k <= j else j * K - j * (j - 1) // 2 + k - j
                    ki = k * K - k * (k - 1) // 2 + i - k if k <= i else i * K - i * (i - 1) // 2 + k - i
                    velocity += s[block] * (A[i, k] * y[q0 + kj] + A[j, k] * y[q0 + ki])
                for m in range(M):
                    velocity += B[i, m] * y[r0 + j * M + m] + B[j, m] * y[r0 + i * M + m]
                dy[position] = velocity
                position += 1
    if trains_v:
        first = L * (K * M + triangle)
        for k in range(K):
            dy[first + k] = dv[k] - decay_v * y[first + k]
