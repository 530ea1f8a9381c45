"""1 - c J, factorised: the Newton matrix of implicit steps, at a cost linear in L."""

import numpy as np

from ._newton import Eigenspaces, Factorised, Frozen, correct, factorise, rotate
from ._newton import Equations as Equations


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
        ddv = np.ascontiguousarray(ddv[:, : system.dv.size * system.model.trains_v])
        self.frozen = Frozen(a, V, V.T @ B, r, q, *turned, ddv)
        self.spaces = Eigenspaces(
            system.s, system.p, np.array(system.source), system.decay, system.decay_v, system.model.drift
        )

    def workspace(self):
        """Arrays for a factorised 1 - c J, and for a right-hand side in this frame."""
        (L, K, M), d = self.shape, len(self.frozen.ddv)
        pairs = np.empty((K * (K + 1) // 2, L))
        newton = Factorised(np.empty((d, d)), np.empty(d, np.int64), np.empty((K, L)), pairs)
        return newton, np.empty((K, M, L)), np.empty((K, K, L))


class NewtonMatrix:
    """1 - c J, factorised, in units of the overlaps' size."""

    def __init__(self, rotated, unit, c):
        self.unit, self.c = unit, float(c)
        self.equations = Equations(rotated.frozen, rotated.spaces, *rotated.workspace())
        factorise(self.equations, self.c)

    def solve(self, b):
        """Solve (1 - c J) x = b for packed b."""
        b = np.ascontiguousarray(b / self.unit)
        x = np.empty_like(b)
        correct(self.equations, self.c, b, x)
        return x * self.unit
