"""1 - c J, factorised: the Newton matrix of implicit steps, at a cost linear in L."""

import numpy as np
from scipy.linalg import block_diag, lu_factor
from scipy.linalg.lapack import dgetrs as getrs  # lu_solve checks and wraps, which costs more than it does

from ._newton import add_coupling, moments, rotate, rotate_back, solve_blocks


class Rotated:
    """The parts of J in the frame where A is diagonal: overlaps, closure, and the response dA, dB, dC, ddv."""

    def __init__(self, system, y, A, B, changes):
        self.system = system
        self.a, self.V = np.linalg.eigh(A)
        self.B = self.V.T @ B
        L, K, M = system.shape
        self.r, self.q = np.empty((K, M, L)), np.empty((K, K, L))
        rotate(y, self.V, self.r, self.q)
        dA, dB, dC, self.ddv = changes
        self.dA, self.dB = self.V.T @ dA @ self.V, self.V.T @ dB
        self.dC = system.second_order * (self.V.T @ dC @ self.V)
        self.response = _flat(self.dA, self.dB, self.dC)
        spectrum = system.model.spectrum
        self.blocks = spectrum.s, spectrum.p, system.source, self.a, self.B
        # G of rotated overlaps: (dQ, dR, dv) as one vector -> g, with dQ and dR turned back
        i, j = system.packing.upper
        both = np.einsum("ik,jl->ijkl", self.V, self.V)[i, j]
        parts = [both.reshape(len(i), -1), np.kron(self.V, np.eye(M))]
        self.reading = block_diag(*parts, *[np.eye(K)] * system.model.trains_v)

    def read(self, dQ, dR, dv):
        """G: rotated dQ (..., K, K) and dR (..., K, M), and dv (..., K), to the vector g (..., d_g)."""
        return _flat(dQ, dR, *[dv] * self.system.model.trains_v) @ self.reading.T


def _flat(*parts):
    """Arrays (d, ...) side by side, (d, columns)."""
    return np.concatenate([x.reshape(len(x), -1) for x in parts], axis=1)


class NewtonMatrix:
    """1 - c J, factorised: x = P^-1 (b + c F g) with P = 1 - c D and (1 - c G P^-1 F) g = G P^-1 b."""

    def __init__(self, rotated, unit, c):
        self.rotated, self.unit, self.c = rotated, unit, c
        system = rotated.system
        _, K, M = system.shape
        RA, RB, QC = np.empty((K, K, M)), np.empty((K, M, M)), np.empty((K, K))
        QA, QB = np.empty((K, K, K)), np.empty((K, K, M))
        moments(rotated.r, rotated.q, *rotated.blocks, c, system.decay, RA, RB, QA, QB, QC)
        dA, dB = rotated.dA, rotated.dB
        dR = np.einsum("uij,ijm->uim", dA, RA) + np.einsum("uin,inm->uim", dB, RB)
        half = np.einsum("uik,ijk->uij", dA, QA) + np.einsum("uin,ijn->uij", dB, QB)
        dQ = half + half.swapaxes(1, 2) + rotated.dC * QC
        self.v_factor = 1 / (1 + c * system.decay_v)
        columns = rotated.read(dQ, dR, self.v_factor * rotated.ddv).T
        self.small = lu_factor(np.eye(len(columns)) - c * columns, overwrite_a=True, check_finite=False)

    def solve(self, b):
        """Solve (1 - c J) x = b for packed b."""
        rotated, c, system = self.rotated, self.c, self.rotated.system
        L, K, M = system.shape
        b = b / self.unit
        x_r, x_q, dR, dQ = np.empty((K, M, L)), np.empty((K, K, L)), np.empty((K, M)), np.empty((K, K))
        rotate(b, rotated.V, x_r, x_q)
        s, p, tau, a, B = rotated.blocks
        solve_blocks(x_r, x_q, s, a, B, c, system.decay, dR, dQ)
        v = self.v_factor * b[-K:]
        g = getrs(*self.small, rotated.read(dQ[None], dR[None], v[None])[0])[0]
        dA, dB, dC = np.split(g @ rotated.response, (K * K, K * K + K * M))
        dA, dB, dC = dA.reshape(K, K), dB.reshape(K, M), dC.reshape(K, K)
        add_coupling(rotated.r, rotated.q, *rotated.blocks, c, system.decay, dA, dB, dC, x_r, x_q)
        x = np.empty_like(b)
        rotate_back(x_r, x_q, rotated.V, x)
        if system.model.trains_v:
            x[-K:] = v + c * self.v_factor * (g @ rotated.ddv)
        return x * self.unit
