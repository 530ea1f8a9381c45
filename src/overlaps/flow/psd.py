"""Singular overlaps: students that are linear combinations of other students and of teachers.

Overlaps are Gram matrices, hence positive semi-definite (PSD); singular ones lie on the boundary of the PSD matrices.
"""

from typing import NamedTuple

import numpy as np

from .._base import check

__all__ = ["PSDProjection", "singular"]


class PSDOptions(NamedTuple):
    """Tunable numbers of the projection onto PSD matrices."""

    # Eigenvalues of correlation matrices below this count as zero: rounded overlaps of n fields have errors of a few
    # n eps. Doubled, small differences between students of the start may be removed.
    zero_tol: float = 64 * np.finfo(float).eps
    # Relative singular values of the teachers' correlations below this are omitted in the inverse, because dividing by
    # them would amplify rounding.
    teacher_rcond: float = 1e-14
    # Relative change of the norms in the perturbed second run of a singular start. Much smaller, it is lost in the
    # rounding of the first steps; much larger, it is another start.
    perturbation: float = 16 * np.finfo(float).eps
    # Smallest eigenvalue of the correlations above which a start is not checked for singular or duplicate units.
    safe_eigenvalue: float = 1e-6


PSD = PSDOptions()


class PSDProjection:
    """Projection onto the Gram matrices of students and static rows in every block.

    The exact flow conserves positive semi-definiteness.  Errors of steps and rounding make a zero eigenvalue negative,
    and an eigenvalue of -1e-16 grows wherever differences of students grow.  A gradient flow conserves the
    rank, too: with ``flat``, every block keeps the rank of the start, and eigenvalues of either sign are set to zero.

    ``reflect`` is for the perturbed second run, which begins beside the boundary to measure growth there.  Its negative
    eigenvalues are reflected, because a run that is put onto the boundary might stay there.
    """

    def __init__(self, system, flat=True, reflect=False):
        self.system, self.reflect, self.zeros = system, reflect, None
        if flat and system.model.gradient_flow and system.model.drift == 0:
            values = np.linalg.eigvalsh(_correlations(system.model.plain_overlaps(system.start))[0])
            self.zeros = np.sum(values < PSD.zero_tol, axis=1)
        # negative eigenvalue of the fields, relative to their trace, below which a step needs a check in Python
        self.slack = -1.0 if self.zeros is not None else -2 * PSD.zero_tol

    def needs_projection(self):
        """Whether the overlaps of the last evaluation may need projection: not PSD, or of another rank."""
        S = self.system.S.reshape(self.system.groups, -1, self.system.S.shape[1])
        return self.zeros is not None or bool(np.any(np.linalg.eigvalsh(_correlations(S)[0]) < 0))

    def project(self, y):
        """The packed overlaps y, made PSD in every block; norms and overlaps of teachers do not change."""
        system, model = self.system, self.system.model
        K, state = model.K, system.state(y)
        old, norms = _correlations(model.plain_overlaps(state))
        values, frame = np.linalg.eigh(old)
        corrected = np.abs(values) if self.reflect else np.maximum(values, 0.0)
        if self.zeros is not None:
            corrected[np.arange(values.shape[1]) < self.zeros[:, None]] = 0.0
        new = _correlations(frame * corrected[:, None] @ frame.mT)[0]
        # teachers keep their old overlaps; half of this correction is applied to their overlaps with students
        inverse = np.linalg.pinv(new[:, K:, K:], PSD.teacher_rcond, hermitian=True)
        new[:, :K, K:] -= new[:, :K, K:] @ inverse @ (new[:, K:, K:] - old[:, K:, K:]) / 2
        new *= norms[:, :, None] * norms[:, None]
        outside = np.any(corrected != values, axis=1)[:, None, None]
        q = np.where(outside, new[:, :K, :K], state.q)
        r = np.where(outside, new[:, :K, K:] * model._static_factors[:, None], model.rows(state))
        return system.packing.pack(*self._equal(q, r, state.v))

    def perturb(self, y):
        """The packed overlaps y with norms of students increased by a few roundings, which makes them definite."""
        q, r, v = self.system.unpack(y)
        q[:, *np.diag_indices(self.system.model.K)] *= 1 + PSD.perturbation
        return self.system.packing.pack(*self._equal(q, r, v))

    def _equal(self, q, r, v):
        duplicate_units = self.system.duplicate_units
        return (q, r, v) if duplicate_units is None else duplicate_units.copied(q, r, v)


def singular(S, K, equal=None):
    """Whether fields of students, of covariance S, are linear combinations of other fields, up to rounding.

    ``equal`` are the duplicate units of the start, or None; duplicates count as one student.
    """
    S = S.reshape(-1, S.shape[1], S.shape[1])
    if equal is None and check.positive_definite(S * (1 - PSD.safe_eigenvalue * np.eye(S.shape[1]))):
        return False  # so the eigenvalues of the correlations are above safe_eigenvalue
    Z = _correlations(S)[0]
    included = np.ones(Z.shape[1], bool)
    if equal is not None:
        # the flow keeps duplicate units equal, so that only the first of each kind matters
        included[:K] = equal.first == np.arange(K)
    Z = Z[:, included][:, :, included]
    moving = np.einsum("gii->gi", Z) > 0
    Z = Z + (~moving)[:, :, None] * np.eye(Z.shape[1])
    students = np.sum(included[:K])
    # linear dependence of the teachers alone does not concern the students
    zeros, of_teachers = (np.sum(np.linalg.eigvalsh(X) < PSD.zero_tol, axis=1) for X in (Z, Z[:, students:, students:]))
    return bool(np.any(zeros > of_teachers))


def far_from_singular(S):
    """Whether the fields of each S (b, groups n, n) are far from linearly dependent: not singular, no duplicates."""
    Z = _correlations(S.reshape(len(S), -1, S.shape[2], S.shape[2]))[0]
    return np.linalg.eigvalsh(Z)[..., 0].min(axis=1) > PSD.safe_eigenvalue


def _correlations(G):
    """Correlation matrices (..., n, n) of Gram matrices, with zeros for rows of norm zero; and the norms (..., n)."""
    norms = np.sqrt(np.maximum(np.einsum("...ii->...i", G), 0.0))
    inverse = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    return G * inverse[..., :, None] * inverse[..., None, :], norms
