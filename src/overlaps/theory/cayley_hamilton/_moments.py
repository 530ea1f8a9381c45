"""The flow in moments over polynomials of the eigenvalue: multiplication by s is a matrix H in place of diag(s).

With x^(j) = sum_l phi_j(s_l) x^l for the plain overlaps x = q, r, t and for x = p, and s phi_j = sum_i H_ji phi_i,

    dx^(j) = sum_i H_ji u(x)^(i) - decay,    u_r = A r + B t,    u_q = A q + q A^T + B r^T + r B^T + p C

where u is the flow of ``overlaps.flow`` at s = 1.  Packed as there, with moments in place of blocks.
"""

from ..._base.jit import jit
from ...flow import flow


@jit
def multiply(data, column, row, x, L, entries, y):
    """Fill y^(j) = sum_i H_ji x^(i), H (rows, L) sparse (CSR), in packed vectors; v, behind the moments, is copied."""
    rows = row.size - 1
    for a in range(entries):
        for j in range(rows):
            y[a * rows + j] = 0.0
            for e in range(row[j], row[j + 1]):
                y[a * rows + j] += data[e] * x[a * L + column[e]]
    for c in range(x.size - entries * L):
        y[entries * rows + c] = x[entries * L + c]


@jit
def moment_flow(y, H, p, t, closure, decay, decay_v, second_order, trains_v, ones, work, dy, drift):
    """Fill dy for given closure matrices and moments p (L,), t (M, M, L); ``ones`` (L,), ``work`` like y."""
    (data, column, row), (A, B, C, dv), L = H, closure, p.size
    K, M = B.shape
    first, entries = K * M, K * M + K * (K + 1) // 2
    flow(y, ones, p, t, A, B, C, dv, 0.0, decay_v, second_order, trains_v, work, 0.0)
    multiply(data, column, row, work, L, entries, dy)
    for c in range(first * L):
        dy[c] -= (decay + drift) * y[c]
    for c in range(first * L, entries * L):
        dy[c] -= 2 * decay * y[c]
