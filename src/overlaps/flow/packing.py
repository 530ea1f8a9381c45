"""Layout of the order parameters in one vector; outside the kernels no other module depends on it."""

from functools import cache

import numpy as np

upper_triangle = cache(np.triu_indices)


class Packing:
    """Layout of y = r (K, M, L), the upper triangle of q (K (K + 1) / 2, L), and v (K,) where it is trained.

    The index of the block is the last one.  ``entries`` is the number of rows of length L, ``size`` the length of the
    vector, ``upper`` the indices of the triangle.  The arguments of the closure are g = (triangle of Q, R, v), in this
    order.  ``readouts`` is the size of v, if each task has its own.
    """

    def __init__(self, L, K, M, trains_v, readouts=None):
        self.shape = L, K, M
        self.trains_v, self.readouts = trains_v, readouts or K
        self.upper = upper_triangle(K)
        self.triangle, self.crossed = K * (K + 1) // 2, K * M
        self.entries = self.triangle + self.crossed
        self.size = L * self.entries + self.readouts * trains_v

    def pack(self, q, r, v=()):
        """Block overlaps q (L, K, K), r (L, K, M) and v -> y."""
        rows = [r.reshape(len(r), -1).T.ravel(), q[:, *self.upper].T.ravel()]
        return np.concatenate([*rows, np.ravel(v)] if self.trains_v else rows)

    def unpack(self, y):
        """Arrays q (..., L, K, K), r (..., L, K, M) and v (..., K or 0) of y (..., size)."""
        L, K, M = self.shape
        lead = y.shape[:-1]
        blocks, v = y[..., : L * self.entries], y[..., L * self.entries :]
        rows = np.swapaxes(blocks.reshape(*lead, self.entries, L), -1, -2)
        q = np.empty((*lead, L, K, K), dtype=y.dtype)
        i, j = self.upper
        q[..., i, j] = q[..., j, i] = rows[..., self.crossed :]
        return q, np.ascontiguousarray(rows[..., : self.crossed]).reshape(*lead, L, K, M), v

    @property
    def summed(self):
        """Layout of the sums over blocks (Q, R, v): that of one block."""
        return Packing(1, *self.shape[1:], self.trains_v, self.readouts)

    def sums(self, y, s):
        """Y (size,) -> Q, R, v in the layout ``summed``; blocks are added in the order of the compiled loops."""
        L = len(s)
        rows = y[: L * self.entries].reshape(self.entries, L).copy()
        rows[self.crossed :] *= s
        return np.concatenate([np.cumsum(rows, axis=1)[:, -1], y[L * self.entries :]])

    def reading(self, s):
        """The matrix G (d_g, size) with g = G y, for eigenvalues s (L,)."""
        L, d = len(s), self.entries + self.size - len(s) * self.entries
        G = np.zeros((d, self.size))
        G[: self.triangle, L * self.crossed : L * self.entries] = np.kron(np.eye(self.triangle), s)
        G[self.triangle : self.entries, : L * self.crossed] = np.kron(np.eye(self.crossed), np.ones(L))
        G[self.entries :, L * self.entries :] = np.eye(d - self.entries)
        return G
