r"""Blocks of neurons: response of their rows' resolvent to the data, for any law of the rows.

Block b holds a fraction rho_b of the neurons, with spike r_b and bulk variance c_b. With g_b the resolvent's diagonal
on block b, V2 = rho g, P = diag(rho c g), M = P^(1/2) Vh1 P^(1/2), and f the R-transform of the law at -m,

    V1 = P^(1/2) f(M) P^(1/2),      rho_b = V2_b (lam + Vh2_b) + (V1 Vh1)_bb,      T = (1 - beta V1 Vh1)^-1 beta V1.

Rows uniform on the sphere have f = 1 / (1 + beta m), so that T = Gam and V1 = (1 + Gam Vh1)^-1 Gam / beta with Gam =
beta P. Orthonormal rows have f = 1: (159), (160) of Cui et al. (2024), arXiv:2402.04980, Appendix D.3. Eigenvectors of
W0 W0^T are independent of the blocks. A law maps m >= 0 (B,) to f and the divided differences (B, B) of f and h = m f.
"""

from typing import NamedTuple

import numpy as np

from .ridge import BlockPairs, Response


class BlockOptions(NamedTuple):
    """Tunable numbers of blocks of neurons."""

    # Newton's iterations for g, and for the R-transform of given eigenvalues.
    max_iterations: int = 100
    min_m: float = 1e-12  # least m of that transform, which is a limit of 0/0 at zero


BLOCKS = BlockOptions()


def directions(packing):
    """Derivatives of Vh with respect to its packed entries: X1 (J, B, B), symmetric, and X2 (J, B)."""
    J, B = packing.w.size, packing.B
    X1, X2 = np.zeros((J, B, B)), np.zeros((J, B))
    pair = np.arange(packing.pairs)
    X1[pair, packing.rows, packing.columns] = X1[pair, packing.columns, packing.rows] = 1.0
    X2[packing.pairs + np.arange(B), np.arange(B)] = 1.0
    return X1, X2


def independent(beta):
    """The law of independent rows, uniform on the sphere: f = 1 / (1 + beta m)."""

    def law(m):
        f = 1 / (1 + beta * m)
        slopes = np.outer(f, f)
        return f, -beta * slopes, slopes

    return law


def orthonormal(m):
    """The law of orthonormal rows: f = 1."""
    slopes = np.ones((m.size, m.size))
    return slopes[0], 0 * slopes, slopes


class Eigenvalues:
    """The law of rows W0 with eigenvalues D of W0 W0^T: f = <D / (s + D)> / m where <1 / (s + D)> = m."""

    def __init__(self, bulk):
        self.D, counts = np.unique(bulk, return_counts=True)
        self.weight = counts / counts.sum()

    def __call__(self, m):
        """Values f, and the divided differences of f and h = m f."""
        m = np.maximum(m, BLOCKS.min_m)
        s = np.maximum(1 / m - 1, self.weight[0] / m - self.D[0])  # lower bounds; Newton's method ascends
        for _ in range(BLOCKS.max_iterations):
            inverse = 1 / (s[:, None] + self.D)
            mean = inverse @ self.weight
            step = (1 / m - 1 / mean) * mean**2 / (inverse**2 @ self.weight)
            s = s + step
            if np.all(np.abs(step) <= 1e-15 * (np.abs(s) + self.D[-1])):
                break
        inverse = 1 / (s[:, None] + self.D)
        f = inverse @ (self.weight * self.D) / m
        pairs = self.weight * inverse[:, None] * inverse
        slope_of_h = pairs @ self.D / pairs.sum(axis=2)
        spread = np.sum(pairs * (self.D - f[:, None]) ** 2, axis=2)  # without cancellation
        return f, -spread / ((s[:, None] + f) * pairs.sum(axis=2) * m[:, None]), slope_of_h


def rows_of(law, c, beta, lam, fractions):
    """Response of blocks whose rows have this law."""
    packing, one = BlockPairs(c.size), np.eye(c.size)
    X1, X2 = directions(packing)

    def equations(g, Vh1, Vh2):
        """Left minus right sides of the equations of V2, their derivatives by log g, and the factors of V1."""
        root = np.sqrt(fractions * c * g)
        m, U = np.linalg.eigh(root[:, None] * Vh1 * root)
        f, slope_of_f, slope_of_h = law(m)
        pairs = U[:, :, None] * U[:, None, :]
        slopes = np.einsum("bij,ij,cij->bc", pairs, slope_of_h * (m[:, None] + m) / 2, pairs)
        F = g * (lam + Vh2) + U**2 @ (m * f) / fractions
        return F, np.diag(g * (lam + Vh2)) + slopes / fractions[:, None], (root, m, U, f, slope_of_f, slope_of_h)

    def response(Vh):
        Vh1, Vh2 = packing.unpack(Vh)
        g = 1 / (lam + Vh2)
        for _ in range(BLOCKS.max_iterations):
            F, slopes, _ = equations(g, Vh1, Vh2)
            step = np.linalg.solve(slopes / F[:, None], np.log(F))
            g = g * np.exp(-np.clip(step, -3.0, 3.0))
            if np.max(np.abs(step)) < 1e-15:
                break
        _, slopes, (root, m, U, f, slope_of_f, slope_of_h) = equations(g, Vh1, Vh2)
        inner = U.T @ (root[:, None] * X1 * root) @ U
        kick = g * X2 + np.einsum("bi,jik,bk->jb", U, slope_of_h * inner, U) / fractions
        dx = -np.linalg.solve(slopes, kick.T).T
        both = (dx[:, :, None] + dx[:, None, :]) / 2
        inner = inner + U.T @ (both * ((U * m) @ U.T)) @ U
        V1 = root[:, None] * ((U * f) @ U.T) * root
        dV1 = both * V1 + root[:, None] * (U @ (slope_of_f * inner) @ U.T) * root
        Y = np.linalg.inv(one - beta * V1 @ Vh1)
        T = beta * Y @ V1
        dT = beta * Y @ dV1 @ Y.T + T @ X1 @ T.T
        D = np.concatenate([dV1[:, packing.rows, packing.columns], fractions * g * dx], axis=1).T
        return Response(packing.pack(V1, fractions * g), D, T, dT)

    return response


def along_directions(response, rank):
    """The response of rows that are read out along several directions, which are equivalent for the bulk."""
    eye = np.eye(rank)

    def response_along_all(Vh):
        one = response(Vh)
        return one._replace(T=np.kron(one.T, eye), dT=np.array([np.kron(x, eye) for x in one.dT]))

    return response_along_all
