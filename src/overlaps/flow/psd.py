"""Overlaps on the boundary of their cone: students that are sums of other students and of teachers."""

import numpy as np

__all__ = ["PSDProjection", "singular"]

# Eigenvalues of correlations below are taken for zero: rounded overlaps of n fields have errors of some n eps. Larger
# ones are differences that the start really has.
ROUNDING = 64 * np.finfo(float).eps
# Singular values of teachers' correlations below are left out of the inverse: dividing by them would multiply rounding.
TEACHERS = 1e-14
# Relative change of norms for the second run of a singular start. Below, it would be lost in the rounding of the first
# steps; above, it would be another start.
MOVE = 16 * np.finfo(float).eps


class PSDProjection:
    """The Gram matrices of students and static rows in every block, and the way back to them.

    The flow leaves no Gram matrix.  Errors of steps and rounding do where an eigenvalue is zero, and what is negative
    by 1e-16 grows wherever differences of students grow.  A gradient flow keeps the rank, too: with ``flat``, every
    block keeps the start's rank, and errors of either sign are taken away.

    A ``twin`` begins beside the boundary, to show what grows there.  It is reflected: put back onto the boundary it
    might stay, and show nothing.
    """

    def __init__(self, system, flat=True, reflect=False):
        self.system, self.reflect, self.zeros = system, reflect, None
        if flat and system.model.gradient_flow and system.model.drift == 0:
            values = np.linalg.eigvalsh(_correlations(system.model.plain_overlaps(system.start))[0])
            self.zeros = np.sum(values < ROUNDING, axis=1)
        # negative eigenvalue of the fields, relative to their trace, beyond which a step is looked at
        self.slack = -1.0 if self.zeros is not None else -2 * ROUNDING

    def left(self):
        """Whether a step may have left the cone, or its face, where the closure was evaluated last."""
        S = self.system.S.reshape(self.system.groups, -1, self.system.S.shape[1])
        return self.zeros is not None or bool(np.any(np.linalg.eigvalsh(_correlations(S)[0]) < 0))

    def project(self, y):
        """The packed overlaps y with such eigenvalues set to zero in every block; norms and teachers are kept."""
        system, model = self.system, self.system.model
        K, state = model.K, system.state(y)
        old, norms = _correlations(model.plain_overlaps(state))
        values, frame = np.linalg.eigh(old)
        kept = np.abs(values) if self.reflect else np.maximum(values, 0.0)
        if self.zeros is not None:
            kept[np.arange(values.shape[1]) < self.zeros[:, None]] = 0.0
        new = _correlations(frame * kept[:, None] @ frame.mT)[0]
        # teachers have moved as well: half of their way back is taken off their overlaps with students
        inverse = np.linalg.pinv(new[:, K:, K:], TEACHERS, hermitian=True)
        new[:, :K, K:] -= new[:, :K, K:] @ inverse @ (new[:, K:, K:] - old[:, K:, K:]) / 2
        new *= norms[:, :, None] * norms[:, None]
        outside = np.any(kept != values, axis=1)[:, None, None]
        q = np.where(outside, new[:, :K, :K], state.q)
        r = np.where(outside, new[:, :K, K:] * model._static_factors[:, None], model.rows(state))
        return system.packing.pack(*self._equal(q, r, state.v))

    def perturb(self, y):
        """The packed overlaps y with norms of students moved by some roundings, into the cone."""
        q, r, v = self.system.unpack(y)
        q[:, *np.diag_indices(self.system.model.K)] *= 1 + MOVE
        return self.system.packing.pack(*self._equal(q, r, v))

    def _equal(self, q, r, v):
        duplicate_units = self.system.duplicate_units
        return (q, r, v) if duplicate_units is None else duplicate_units.copied(q, r, v)


def singular(S, K, equal=None):
    """Whether fields of students, of covariance S, are sums of other fields, up to rounding; twins are one student."""
    Z = _correlations(S.reshape(-1, S.shape[1], S.shape[1]))[0]
    kept = np.ones(Z.shape[1], bool)
    if equal is not None:
        # twins are kept equal by the flow itself: of each kind only the first can be on the boundary
        kept[:K] = equal.first == np.arange(K)
    Z = Z[:, kept][:, :, kept]
    moving = np.einsum("gii->gi", Z) > 0
    Z = Z + (~moving)[:, :, None] * np.eye(Z.shape[1])
    students = np.sum(kept[:K])
    # zeros among the teachers alone are theirs, and no reason to watch the students
    lost, among_teachers = (np.sum(np.linalg.eigvalsh(X) < ROUNDING, axis=1) for X in (Z, Z[:, students:, students:]))
    return bool(np.any(lost > among_teachers))


def far_from_singular(S):
    """Whether no field of each S (b, groups n, n) is anywhere near a sum of others: not singular, no twins."""
    Z = _correlations(S.reshape(len(S), -1, S.shape[2], S.shape[2]))[0]
    return np.linalg.eigvalsh(Z)[..., 0].min(axis=1) > 1e-6


def _correlations(G):
    """Gram matrices (..., n, n) of rows of norm one, where rows are not zero, and their norms (..., n)."""
    norms = np.sqrt(np.maximum(np.einsum("...ii->...i", G), 0.0))
    inverse = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    return G * inverse[..., :, None] * inverse[..., None, :], norms
