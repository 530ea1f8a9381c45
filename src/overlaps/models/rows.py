"""Static rows: what does not learn and is seen by students, teachers and, for inputs in classes, their centroids.

A centroid mu_c is one more row sqrt(N) mu_c beside the teachers, whose overlaps with the students are the means of
their fields.  In the arrays of the flow, rows [r, m] (L, K, M + C) and sources [[tau, h], [h^T, G]], teachers carry the
eigenvalue of their block and centroids do not; then the one right-hand side serves both.
"""

import numpy as np

from .state import gram


def second_layers(model):
    """Second layers of static rows (M + C,) as the closure takes them: -v* of teachers, 0 of centroids."""
    return -model.v_star if model.classes is None else np.append(-model.v_star, np.zeros(model.labels.size))


def factors(model):
    """What static rows carry in each block (L, M + C): the eigenvalue, or 1."""
    s = model.spectrum.s[:, None]
    classes = 0 if model.classes is None else model.labels.size
    return np.concatenate([np.tile(s, model.M), np.ones((s.size, classes))], axis=1)


def rows(record):
    """Overlaps of students and static rows (..., L, K, M + C)."""
    return record.r if record.m is None else np.concatenate([record.r, record.m], axis=-1)


def source(model, record):
    """Overlaps of static rows with each other (..., L, M + C, M + C)."""
    return record.tau if record.m is None else gram(record.tau, record.h, model.gram)


def parted(model, joint):
    """The parts r and m of overlaps with static rows (..., M + C), by name."""
    return {"r": joint} if model.classes is None else {"r": joint[..., : model.M], "m": joint[..., model.M :]}


def plain(model, state):
    """Plain overlaps (L, K + M + C, K + M + C) of students and static rows in each block."""
    factor = factors(model)
    with np.errstate(divide="ignore"):
        inverse = np.where(factor > 0, 1 / factor, 0.0)
    return gram(state.q, rows(state) * inverse[:, None], source(model, state) * inverse[:, None] * inverse[..., None])


def seen(model, record):
    """What the closure sees of a state or of records: covariances of all fields, and their means.

    Without classes (..., K + M, K + M).  With them (..., groups n, n), n = K + M + C: for each group of blocks the
    covariance and, in the rows and columns of the centroids, the means.  The corner is what makes it a Gram matrix.
    """
    if model.classes is None:
        return record.S
    T = record.T if record.is_state else np.expand_dims(record.T, -3)
    nu = record.nu if record.is_state else np.expand_dims(record.nu, -3)
    s, parts = model.spectrum.s, []
    inverse = 1 / np.maximum(s, 1e-9 * s.max())
    for blocks in model.groups:
        Q = np.einsum("l,...lij->...ij", s[blocks], record.q[..., blocks, :, :])
        R, m = record.r[..., blocks, :, :].sum(axis=-3), record.m[..., blocks, :, :].sum(axis=-3)
        corner = np.tensordot(inverse[blocks], model.gram[blocks], axes=1)
        own_T, own_nu = T, nu
        if len(model.groups) > 1:
            own_T = np.einsum("l,...lij->...ij", inverse[blocks], record.tau[..., blocks, :, :])
            own_nu = np.einsum("l,...lij->...ij", inverse[blocks], record.h[..., blocks, :, :])
            own_T, own_nu = (x if record.is_state else np.expand_dims(x, -3) for x in (own_T, own_nu))
        fields = gram(Q, R, own_T)
        means = np.concatenate([m, np.broadcast_to(own_nu, (*m.shape[:-2], *own_nu.shape[-2:]))], axis=-2)
        parts.append(gram(fields, means, corner))
    return np.concatenate(parts, axis=-2)
