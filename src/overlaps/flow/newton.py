"""1 - c J, factorised: the Newton matrix of implicit steps, at a cost linear in L."""

import numpy as np

from ._newton import correct, factorise, rotate


class Rotated:
    """J in the frame where A is diagonal, as arrays that the kernels of ``_newton`` take."""

    def __init__(self, system, y, A, B, changes):
        L, K, M = self.shape = system.shape
        a, V = np.linalg.eigh(A)
        V = np.ascontiguousarray(V)
        r, q = np.empty((K, M, L)), np.empty((K, K, L))
        rotate(y, V, r, q)
        dA, dB, dC, ddv = changes
        turned = V.T @ dA @ V, V.T @ dB, system.second_order * (V.T @ dC @ V)
        ddv = np.ascontiguousarray(ddv[:, : K * system.model.trains_v])
        self.frozen = a, V, V.T @ B, r, q, *turned, ddv
        decays = system.decay, system.decay_v, system.model.drift
        self.spectrum = system.s, system.p, np.array(system.source), *decays

    def room(self):
        """Arrays for a factorised 1 - c J."""
        (L, K, _), d = self.shape, len(self.frozen[-1])
        return np.empty((d, d)), np.empty(d, np.int64), np.empty((K, L)), np.empty((K * (K + 1) // 2, L))


class NewtonMatrix:
    """1 - c J, factorised, in units of the overlaps' size."""

    def __init__(self, rotated, unit, c):
        self.rotated, self.unit, self.c = rotated, unit, float(c)
        self.newton = rotated.room()
        factorise(rotated.frozen, rotated.spectrum, self.c, self.newton)

    def solve(self, b):
        """Solve (1 - c J) x = b for packed b."""
        rotated = self.rotated
        L, K, M = rotated.shape
        b = np.ascontiguousarray(b / self.unit)
        x = np.empty_like(b)
        x_r, x_q = np.empty((K, M, L)), np.empty((K, K, L))
        correct(rotated.frozen, rotated.spectrum, self.c, self.newton, b, x_r, x_q, x)
        return x * self.unit
