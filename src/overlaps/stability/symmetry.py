"""Permutation symmetries of the students, and states averaged over them."""

from dataclasses import replace

import numpy as np

from ..models.start import has_parity

OVERLAP_TOL = 1e-8  # Relative difference below which overlaps are equal; fixed points are accurate to about 1e-12.


def equal_readouts(v):
    """Labels (K,) of the students: equal where the second layers are."""
    return np.unique(np.round(v / max(np.max(np.abs(v)), 1e-300), 12), return_inverse=True)[1]


def is_even(model):
    """Whether units ignore the sign of their field; False for learning rules, whose parity is unknown."""
    return model.rule is None and has_parity(model.activation.g, 1.0)


def averaged(model, state, groups):
    """The state averaged over all permutations of the students inside each group, given by labels (K,).

    Students of an even activation are averaged over their signs, too; their overlaps with teachers are then zero.
    """
    kinds = [np.flatnonzero(groups == label) for label in np.unique(groups)]
    even, v = is_even(model), np.array(state.v)
    for i in kinds:
        v[i] = v[i].mean()
    q, r = mean_overlaps(state.q, model.rows(state), kinds, [even and i.size > 1 for i in kinds])
    return replace(state, q=q, v=v, **model.split_rows(r))


def mean_overlaps(q, r, kinds, mirrored):
    """Overlaps q (L, K, K), r (L, K, M) averaged over permutations inside each of the ``kinds``, arrays of students.

    Students of a ``mirrored`` kind are averaged over signs, too, each one independently.
    """
    mean_q, mean_r = np.array(q), np.array(r)
    for i, signs_i in zip(kinds, mirrored, strict=True):
        n = i.size
        # the average over the signs of w of an even unit is zero
        mean_r[:, i] = 0.0 if signs_i else r[:, i].mean(axis=1, keepdims=True)
        for j, signs_j in zip(kinds, mirrored, strict=True):
            total = q[:, i[:, None], j].sum(axis=(1, 2))
            norms = np.einsum("lkk->l", q[:, i[:, None], i])
            # the diagonal of a kind is a separate orbit of the permutations, with a separate mean
            mean = (total - norms) / max(n * (n - 1), 1) if j is i else total / (n * j.size)
            mean_q[:, i[:, None], j] = 0.0 if signs_i or signs_j else mean[:, None, None]
            if j is i:
                mean_q[:, i, i] = norms[:, None] / n
    return mean_q, mean_r


def partitions(state):
    """Labels (K,) of groups of students, from all in one to each for itself, by the distance of their overlaps."""
    from scipy.cluster.hierarchy import fcluster, linkage  # a slow import, which most processes do not need

    labels = equal_readouts(state.v)
    cuts = [labels]
    if len(labels) > 2:
        # single linkage: the cuts of the tree at all heights give all symmetries that the students may have had
        tree = linkage(np.column_stack([np.diag(state.Q), state.R]), method="single")
        for count in range(2, len(labels)):
            cut = fcluster(tree, count, criterion="maxclust")
            cuts.append(np.unique(np.column_stack([labels, cut]), axis=0, return_inverse=True)[1].ravel())
    return cuts


def equivalent(state):
    """Groups of students that may be permuted without a change of the overlaps; lists of indices."""
    left, groups = list(range(len(state.v))), []
    while left:
        first = left.pop(0)
        # pair exchanges suffice, because they generate all permutations of a group
        group = [first, *(j for j in left if _exchange(state, first, j))]
        left = [j for j in left if j not in group]
        groups.append(group)
    return groups


def _exchange(state, i, j):
    order = np.arange(len(state.v))
    order[[i, j]] = j, i
    q, scale = state.q, np.max(np.abs(state.q))
    r = state.r if state.m is None else np.concatenate([state.r, state.m], axis=-1)
    same = np.max(np.abs(q[:, order][:, :, order] - q)) <= OVERLAP_TOL * scale
    same &= np.max(np.abs(r[:, order] - r)) <= OVERLAP_TOL * max(np.max(np.abs(r)), scale)
    return bool(same and abs(state.v[i] - state.v[j]) <= OVERLAP_TOL * np.max(np.abs(state.v)))


def in_words(state):
    """A phrase about the symmetry of the students: which ones are equal, which ones are only equivalent."""
    phrases = []
    for group in equivalent(state):
        if len(group) > 1:
            i, j = group[:2]
            equal = abs(state.Q[i, j] - state.Q[i, i]) <= OVERLAP_TOL * state.Q[i, i]
            who = "all students" if len(group) == len(state.v) else "students " + ", ".join(map(str, group))
            phrases.append(f"{who} {'equal' if equal else 'equivalent'}")
    if len(state.v) == 1:
        learned = np.max(np.abs(state.R), initial=0.0) > OVERLAP_TOL * np.max(np.abs(state.Q))
        return "one student" if learned else "one student, R = 0"
    return "; ".join(phrases) or "no two students equivalent"
