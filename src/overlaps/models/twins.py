"""Students that begin equal: the flow on the overlaps of such a start."""

from dataclasses import replace

import numpy as np

# Students are equal where overlaps differ by less, relative to their norms: four roundings of a product. Larger
# differences grow as the flow says.
ROUNDING = 4 * np.finfo(float).eps
POINTS = np.array([0.1, 0.7, 1.9, 4.3])  # where the parity of an activation is read off


class Twins:
    """Students that are equal to the ``first`` (K,) of their kind, up to a ``sign`` (K,) that the activation ignores.

    Equal students stay equal, but rounding parts them, into a difference whose squared norm may be negative, and the
    flow amplifies it.  With A, B, C, dv averaged over equal students the difference has no velocity.
    """

    def __init__(self, first, sign, sign_v):
        same = first == first[:, None]
        self.first, self.sign, self.sign_v = first, sign, sign_v
        self.P, self.P_v = (same * np.outer(x, x) / np.sum(same, axis=1) for x in (sign, sign_v))

    def average(self, A, B, C, dv):
        """Closure, or changes of it along leading axes, averaged."""
        return self.P @ A @ self.P, self.P @ B, self.P @ C @ self.P, dv @ self.P_v

    def copied(self, q, r, v):
        """Overlaps of students, each exactly as the first of its kind."""
        i, sign = self.first, self.sign
        parts = q[..., i[:, None], i] * np.outer(sign, sign), r[..., i, :] * sign[:, None], v[..., i] * self.sign_v
        return tuple(map(np.ascontiguousarray, parts))

    def settled(self, model, start):
        """The start, with equal students equal to the last digit."""
        q, r, v = self.copied(start.q, model.rows(start), start.v)
        return replace(start, q=q, v=v, **model.split_rows(r))

    @property
    def message(self):
        """A sentence about them."""
        kinds = [np.flatnonzero(self.first == i).tolist() for i in np.unique(self.first)]
        return f" Equal students stay equal: {', '.join(str(kind) for kind in kinds if len(kind) > 1)}."


def twins(model, start):
    """The equal students of a start, or None: those whose overlaps differ by rounding, with equal second layers."""
    if model.rule is not None:  # a rule need not treat its units alike
        return None
    K, q = model.K, start.q
    norms = np.einsum("lkk->lk", q)
    same = np.abs(np.abs(q) - norms[:, None]) <= ROUNDING * norms[:, None]  # |q_ij| = q_jj in every block
    # both ways: |q_ij| = q_ii and = q_jj; one alone holds for parallel students of other lengths
    same = np.triu((same & same.swapaxes(1, 2)).all(axis=0), 1)
    if not same.any():
        return None
    g, first, sign, sign_v = model.activation.g, np.arange(K), np.ones(K), np.ones(K)
    # g(-x) = +-g(x): then w_j = -w_i is the same unit too, with v_j = +-v_i
    parities = [(-1.0, p) for p in (1.0, -1.0) if np.allclose(g(-POINTS), p * g(POINTS), rtol=1e-14, atol=0)]
    for i, j in np.argwhere(same):
        for s, s_v in ((1.0, 1.0), *parities):
            if first[i] == i and first[j] == j and start.v[j] == s_v * start.v[i] and _equal(model, start, i, j, s):
                first[j], sign[j], sign_v[j] = i, s, s_v
    return Twins(first, sign, sign_v) if len({*first}) < K else None


def _equal(model, start, i, j, s):
    """Whether w_j = s w_i in every block, of students whose overlap is the product of their norms up to its sign."""
    scale, r = np.sqrt(start.q[:, i, i, None] * np.einsum("lmm->lm", model.source(start))), model.rows(start)
    aligned = np.all(s * start.q[:, i, j] >= 0)
    return aligned and np.all(np.abs(r[:, j] - s * r[:, i]) <= ROUNDING * scale)
