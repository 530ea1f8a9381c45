r"""Blocks of neurons: response of their rows' resolvent to the data, and the merging of readout letters.

Block b holds a fraction rho_b of the neurons, with spike r_b and bulk variance c_b. With g_b the resolvent's diagonal
on block b and Gam = beta diag(rho c g), rows uniform on the sphere obey

    g_b = 1 / (lam + Vh2_b + c_b [Vh1 (1 + Gam Vh1)^-1]_bb),     V1 = (1 + Gam Vh1)^-1 Gam / beta,     theta = Gam thh,

and orthonormal rows

    g_b = 1 / (lam + Vh2_b + c_b Vh1_bb),      V1 = diag(rho c g),      theta = (1 - Gam Vh1)^-1 Gam thh.

The latter are (159), (160) of Cui et al. (2024), arXiv:2402.04980, Appendix D.3.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ..._base import check
from ...gaussian.quadrature import legendre
from .ridge import BlockPairs, Response


class BlockOptions(NamedTuple):
    """Tunable numbers of blocks of neurons."""

    # Newton's iterations for g, and for the R-transform of given eigenvalues.
    max_iterations: int = 100
    # Gauss-Legendre panels under the density of a continuous law of the readout.
    panels: int = 400
    # Probability of each tail of the law that is cut off.
    tail: float = 1e-15
    # Error of the mass of the density above which the law is refused.
    mass_tol: float = 1e-9


BLOCKS = BlockOptions()


def directions(packing):
    """Derivatives of Vh with respect to its packed entries: X1 (J, B, B), symmetric, and X2 (J, B)."""
    J, B = packing.w.size, packing.B
    X1, X2 = np.zeros((J, B, B)), np.zeros((J, B))
    pair = np.arange(packing.pairs)
    X1[pair, packing.rows, packing.columns] = X1[pair, packing.columns, packing.rows] = 1.0
    X2[packing.pairs + np.arange(B), np.arange(B)] = 1.0
    return X1, X2


def packed_rows(packing, matrices, vectors):
    """Packed (J, size) of J matrices and vectors, as columns."""
    return np.concatenate([matrices[:, packing.rows, packing.columns], vectors], axis=1).T


def iid_rows(c, beta, lam, fractions):
    """Response of blocks whose rows are independent, uniform on the sphere."""
    packing = BlockPairs(c.size)
    X1, X2 = directions(packing)
    per_neuron = beta * fractions * c
    one = np.eye(c.size)

    def diagonal(Vh1, Vh2):
        """G by Newton's method in log g, from above: the map is monotone."""
        g = 1 / (lam + Vh2)
        for _ in range(BLOCKS.max_iterations):
            N = np.linalg.solve(one + Vh1 * (per_neuron * g), Vh1)  # symmetric
            inverse = lam + Vh2 + c * np.diag(N)
            error = np.log(g * inverse)
            step = np.linalg.solve(one - (c / inverse)[:, None] * N**2 * (per_neuron * g), error)
            g = g * np.exp(-np.clip(step, -3.0, 3.0))
            if np.max(np.abs(step)) < 1e-15 or np.max(np.abs(error)) < 2e-16:
                break
        return g

    def response(Vh):
        Vh1, Vh2 = packing.unpack(Vh)
        g = diagonal(Vh1, Vh2)
        Gam = per_neuron * g
        L = np.linalg.inv(one + Vh1 * Gam)
        N = L @ Vh1
        V1 = (L.T * Gam) / beta
        kick = X2 + c * np.einsum("bc,jcd,bd->jb", L, X1, L)
        system = one - (g**2 * c)[:, None] * N**2 * per_neuron
        dg = -np.linalg.solve(system, (g**2 * kick).T).T
        dGam = per_neuron * dg
        dV1 = np.einsum("cb,jc,cd->jbd", L, dGam, L) / beta - beta * V1 @ X1 @ V1
        D = packed_rows(packing, dV1, fractions * dg)
        return Response(packing.pack(V1, fractions * g), D, np.diag(Gam), dGam[:, :, None] * one)

    return response


def orthonormal_rows(c, beta, lam, fractions):
    """Response of blocks whose rows are orthonormal; beta <= 1."""
    packing = BlockPairs(c.size)
    X1, X2 = directions(packing)
    one = np.eye(c.size)

    def response(Vh):
        Vh1, Vh2 = packing.unpack(Vh)
        g = 1 / (lam + Vh2 + c * np.diag(Vh1))
        Gam = beta * fractions * c * g
        Y = np.linalg.inv(one - Gam[:, None] * Vh1)
        T = Y * Gam
        dg = -(g**2) * (X2 + c * np.einsum("jbb->jb", X1))
        dV1 = (fractions * c * dg)[:, :, None] * one
        dT = np.einsum("bc,jc,dc->jbd", Y, beta * fractions * c * dg, Y) + T @ X1 @ T.T
        D = packed_rows(packing, dV1, fractions * dg)
        return Response(packing.pack(np.diag(fractions * c * g), fractions * g), D, T, dT)

    return response


def along_directions(response, rank):
    """The response of rows that are read out along several directions, which are equivalent for the bulk."""
    eye = np.eye(rank)

    def response_along_all(Vh):
        one = response(Vh)
        return one._replace(T=np.kron(one.T, eye), dT=np.array([np.kron(x, eye) for x in one.dT]))

    return response_along_all


def letters(readout, fractions):
    """Distinct absolute values of the initial readout's letters, ascending, and their fractions.

    An odd activation makes t and -t one letter: the signs of those readout components are flipped.
    """
    values = check.array(
        "readout", readout, ("B",), "It lists the values t_b of sqrt(p) a_i, such as (1.0,).", filled=True
    )
    fractions = checked_fractions("readout", values.size, fractions)
    distinct, index = np.unique(np.round(np.abs(values), 14), return_inverse=True)
    return distinct, np.bincount(index, weights=fractions)


class Eigenvalues:
    """The law of D, eigenvalues of W0 W0^T, by its R-transform at -m: f = <D / (s + D)> / m where <1 / (s + D)> = m."""

    def __init__(self, bulk):
        self.D, counts = np.unique(bulk, return_counts=True)
        self.weight = counts / counts.sum()

    def at(self, m):
        """Values f at positive m (B,), and the divided differences of f and h = m f."""
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


def given_rows(c, beta, lam, bulk, fractions):
    """Response of blocks of rows W0 with given eigenvalues of W0 W0^T and eigenvectors independent of the blocks.

    With P = diag(rho c g), M = P^(1/2) Vh1 P^(1/2) and f(M) by the R-transform of the eigenvalues,

        V1 = P^(1/2) f(M) P^(1/2),      rho_b = V2_b (lam + Vh2_b) + (V1 Vh1)_bb,      T = (1 - beta V1 Vh1)^-1 beta V1.

    f = 1 / (1 + beta m) for independent rows and f = 1 for orthonormal ones give the equations above.
    """
    packing, law, one = BlockPairs(c.size), Eigenvalues(bulk), np.eye(c.size)
    X1, X2 = directions(packing)

    def equations(g, Vh1, Vh2):
        """Left minus right sides of the equations of V2, their derivatives by log g, and the factors of V1."""
        root = np.sqrt(fractions * c * g)
        m, U = np.linalg.eigh(root[:, None] * Vh1 * root)
        m = np.maximum(m, 1e-12)
        f, slope_of_f, slope_of_h = law.at(m)
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
        return Response(packing.pack(V1, fractions * g), packed_rows(packing, dV1, fractions * g * dx), T, dT)

    return response


def law_of(readout):
    """The continuous law of a readout, one of SciPy's or a name; None for a sequence of letters."""
    from scipy import stats  # imported here because it takes longer than the package

    if isinstance(readout, str):
        hint = "Or a frozen law of scipy.stats, or a sequence of letters."
        name = check.choice("readout", readout, ("gaussian", "uniform"), hint)  # both with mean square one
        return stats.norm() if name == "gaussian" else stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))
    if not hasattr(readout, "rvs"):
        return None
    if not isinstance(getattr(readout, "dist", None), stats.rv_continuous):
        raise ValueError(
            f"readout = {check.shown(readout)} is a law without density; expected a frozen continuous one such as "
            "scipy.stats.norm(), or a sequence of letters with their fractions."
        )
    return readout


def gauss_letters(law, count):
    """Gauss's quadrature in t^2 / (E[t^2] + t^2) under a law of t: letters t > 0 and their weights, (count,) each.

    With an odd student, errors are averages of functions that are even and smooth in t. With a saturating student these
    functions become constant at large t.
    """
    low, high = law.ppf(BLOCKS.tail), law.isf(BLOCKS.tail)
    ends = np.unique(np.concatenate([np.linspace(low, high, BLOCKS.panels + 1), [0.0] if low < 0 < high else []]))
    x, weight = legendre(16)
    t = np.ravel(ends[:-1, None] + np.diff(ends)[:, None] * x)
    weight = np.ravel(np.diff(ends)[:, None] * weight) * law.pdf(t)
    if not abs(weight.sum() - 1) < BLOCKS.mass_tol:
        raise ValueError(
            f"readout = {check.shown(law)} has a density that a quadrature of {t.size} points cannot integrate: its "
            f"mass is {weight.sum():.6g}; expected a bounded density without heavy tails."
        )
    square = weight @ (t * t)
    x = t * t / (square + t * t)
    basis, a, b = np.sqrt(weight / weight.sum())[:, None], [], []
    for _ in range(count):  # Lanczos
        vector = x * basis[:, -1]
        a.append(vector @ basis[:, -1])
        for _ in range(2):
            vector = vector - basis @ (basis.T @ vector)
        b.append(np.linalg.norm(vector))
        basis = np.column_stack([basis, vector / b[-1]])
    nodes, vectors = eigh_tridiagonal(a, b[:-1])
    return np.sqrt(square * nodes / (1 - nodes)), vectors[0] ** 2


def checked_fractions(name, size, fractions):
    """Fractions of neurons, positive and of sum one; equal ones by default."""
    if fractions is None:
        return np.full(size, 1 / size)
    values = check.array("fractions", fractions, ("B",), hint="One for each block.")
    if values.size != size or np.any(values <= 0) or abs(values.sum() - 1) > 1e-12:
        raise check.refused("fractions", fractions, f"{size} positive numbers of sum 1, one for each entry of {name}.")
    return values / values.sum()
