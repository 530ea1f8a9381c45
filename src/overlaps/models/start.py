"""Initial conditions: the law of the overlaps of random weights, weights with given overlaps, times, equal students."""

from dataclasses import replace

import numpy as np

from .._base import check, warn
from .state import State, gram

__all__ = ["random_start"]

# Overlaps of this size are refused: closures multiply four of them, beyond which there is no float64.
OVERFLOW = 1e70
# eta max(s) / N. Above, one step moves the top direction visibly, and SGD leaves its limit of small steps: a warning.
# Below, the error is of the order of this number.
COARSE_STEP = 0.05
# Students are equal where overlaps differ by less, relative to their norms: four roundings of a product. Larger
# differences grow as the flow says.
ROUNDING = 4 * np.finfo(float).eps
POINTS = np.array([0.1, 0.7, 1.9, 4.3])  # where the parity of an activation is read off


def random_start(model, *, N, rng, student_scale=1.0, teacher="random", students="random"):
    r"""State of random weights at input dimension N, drawn from the exact law of their overlaps.

    Students are N(0, student_scale^2), teachers N(0, 1), entry by entry. For each block, independently,

    .. math:: \begin{pmatrix} q^l & r^l \\ r^{lT} & t^l \end{pmatrix}
        = \frac1N D\, \mathcal{W}_l\, D, \qquad \mathcal{W}_l \sim \mathrm{Wishart}_{K+M}(n_l, 1)

    so no vector of length N is drawn.

    Parameters
    ----------
    model : Model
        Gives K, M and the spectrum.
    N : int
        Input dimension; the blocks n_l = p_l N must be integers.
    rng : int or numpy.random.Generator
        Seed or generator.
    student_scale : float
        Standard deviation of the student's weights, >= 0.
    teacher : {"random", "ideal"}
        "ideal" sets t^l = p_l times identity (orthonormal teachers in every block), the mean of the law.
    students : {"random", "orthonormal"}
        "orthonormal" takes a random frame in every block: q^l = student_scale^2 p_l times identity.

    Returns
    -------
    State
        With the model's second layer, checked and ready for ``solve`` and ``simulate``.

    Raises
    ------
    ValueError
        N does not split into blocks, or blocks are too small (n_l < M, n_l < K) for an ideal teacher or
        orthonormal students.

    Warns
    -----
    RuntimeWarning
        When eta max(s) / N > 0.05: a step is then no longer infinitesimal and SGD leaves the ODE.

    Notes
    -----
    Exact in law at every N; the overlaps fluctuate by O(1 / sqrt(n_l)) about their means.

    References
    ----------
    Bartlett's decomposition of the Wishart law; Worschech and Rosenow (2024), arXiv:2410.09005.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> model.random_start(N=1000, rng=1).T.shape
    (2, 2)
    """
    sizes = check.model(model).spectrum.block_sizes(N)
    scale = check.number("student_scale", student_scale, least=0)
    check.choice("teacher", teacher, ("random", "ideal"))
    check.choice("students", students, ("random", "orthonormal"))
    for name, kind, width in (("teacher", teacher, "M"), ("students", students, "K")):
        least = getattr(model, width)
        if kind != "random" and sizes.min() < least:
            raise ValueError(
                f"{name} = {kind!r} needs {width} = {least} coordinates in every block; the smallest has "
                f"{sizes.min()}. Try a larger N or {name}='random'."
            )
    rng = check.generator(rng)
    warn_coarse_step(model, N)
    K, M, L = model.K, model.M, model.spectrum.L
    joint = np.zeros((L, M + K, M + K))
    for block, n in zip(joint, sizes, strict=True):
        factor = bartlett_factor(rng, M + K, n)
        if teacher == "ideal":
            # teacher rows first: given them, students are Gaussian in their frame and Wishart outside it
            factor[:M] = np.sqrt(n) * np.eye(M, factor.shape[1])
        if students == "orthonormal":
            values, vectors = np.linalg.eigh(factor[M:] @ factor[M:].T)  # (G G^T)^(-1/2) G is a uniformly random frame
            factor[M:] = np.sqrt(n) * (vectors / np.sqrt(values)) @ vectors.T @ factor[M:]
        factor[M:] *= scale
        block[:] = factor @ factor.T / N
    return State.from_blocks(model, q=joint[:, M:, M:], r=joint[:, M:, :M], t=joint[:, :M, :M])


def bartlett_factor(rng, P, n):
    """Random factor F with F F^T ~ Wishart_P(n, identity): lower triangular if n > P - 1, else Gaussian (P, n).

    The law needs no integer n in the first case; in the second the nearest one is rescaled to the right mean.
    """
    if n <= P - 1:
        rank = max(round(n), 1 if n > 0 else 0)
        return np.sqrt(n / max(rank, 1)) * rng.standard_normal((P, rank))
    factor = np.tril(rng.standard_normal((P, P)), -1)
    factor[np.diag_indices(P)] = np.sqrt(rng.chisquare(n - np.arange(P)))
    return factor


def overlap_factor(joint, n, block=0):
    """Rows X (d, min(d, n)) with X X^T = joint (d, d), which may be singular: vectors with these overlaps.

    From eigenvectors: nothing is divided by a small number.  Vectors are scaled to length one before, so that very
    different norms are equally precise.
    """
    norm = np.sqrt(np.maximum(np.diag(joint), 0.0))
    norm[norm == 0.0] = 1.0
    values, vectors = np.linalg.eigh(joint / np.outer(norm, norm))
    tolerance = check.PSD_TOLERANCE * len(values)
    if values[0] < -tolerance:
        raise ValueError(
            f"the overlaps of block {block} have a correlation matrix with eigenvalue {values[0]:.3g}; expected a "
            "positive semi-definite matrix. Check signs and scales, or build the start with State.from_weights."
        )
    surplus = len(values) - min(len(values), n)  # eigenvalues ascend
    if surplus and values[surplus - 1] > tolerance:
        raise ValueError(
            f"block {block} has n_l = {n} coordinates but overlaps of rank {np.sum(values > tolerance)}; no weights in "
            "this dimension have them. Use a larger N, or a start drawn at this N (model.random_start)."
        )
    # rounding errors of 0 are made 0: their roots, 1e-8, would set equal units apart
    values[values < 10 * len(values) * np.finfo(float).eps] = 0.0
    return norm[:, None] * vectors[:, surplus:] * np.sqrt(values[surplus:])


def warn_coarse_step(model, N, largest=1.0):
    """Warn once where N is known and a step, of ``largest`` times eta, is too large for the ODE to be its limit.

    The measure belongs to the squared loss: there is none for a rule.
    """
    if model.rule is not None:
        return
    step = largest * model.eta * model.spectrum.s.max() / N
    if model.n_classes:
        mean_step = largest * model.eta * np.einsum("lcc->c", model.gram).max() / N
        if mean_step > COARSE_STEP:
            warn(
                f"eta max |mu_c|^2 / N = {mean_step:.2g} > {COARSE_STEP}: one step moves the means of the fields by "
                "O(1), and the equations follow only the slow part of SGD. Use a larger N, weaker means, smaller eta."
                + check.see("mixtures", "Limits")
            )
    if step > COARSE_STEP:
        warn(
            f"eta max(s) / N = {step:.2g} > {COARSE_STEP}: one step moves the top eigen-direction by O(1), so finite-N "
            "SGD departs from the ODE. Use a larger N or a smaller eta to compare the two. At this N the mean of SGD "
            "obeys equations for linear students only (theory.linear.sgd_mean); else average runs of simulate."
            + check.see("power_law", "Linear students")
        )


def check_size(S, name):
    """Refuse overlaps S whose products are not numbers."""
    largest = np.max(np.abs(S))
    if not largest < OVERFLOW:
        raise ValueError(
            f"{name}: the largest overlap is {largest:.3g}; expected below {OVERFLOW:g}, where products of overlaps "
            "are still numbers. Check the scale of the weights."
        )


def checked_start(model, start, name="start"):
    """The start with the model's eigenvalues, if it is one of this model and its overlaps can be multiplied."""
    model = check.model(model)
    start = check.state(start, name).on(model)
    check_size(start.S, name)
    if model.spherical and np.any(norms(start) <= 0):
        raise ValueError(
            f"{name}: squared norms sum_l q^l_kk = {check.shown(norms(start).tolist())} with constraint = 'sphere'; "
            "expected all above 0: a student without weights has no direction to keep."
        )
    return start


def all_fit(models, starts):
    """Whether all starts fit their models as they are, by one look; else ``checked_start`` says what is wrong."""
    pairs = [*{(id(x), id(model.spectrum)): (model, x) for model, x in zip(models, starts, strict=True)}.values()]
    for model, x in pairs:
        others = model.n_classes or model.latent_teacher or model.spherical or x.m is not None or x.s is None
        if others or x.r.shape != (model.spectrum.L, model.K, model.M):
            return False
    q, r, tau, T, s = (np.array([getattr(x, name) for _, x in pairs]) for name in ("q", "r", "tau", "T", "s"))
    S = gram(np.einsum("bl,blij->bij", s, q), r.sum(axis=1), T)
    positive = all(
        np.all(np.linalg.eigvalsh(x)[..., 0] >= -check.PSD_TOLERANCE * np.trace(x, axis1=-2, axis2=-1))
        for x in (gram(q, r, tau), S)
    )
    return positive and np.array_equal(s, [model.spectrum.s for model, _ in pairs]) and np.max(np.abs(S)) < OVERFLOW


def norms(state):
    """Squared norms |w_k|^2 / N of the students."""
    return np.einsum("lkk->k", state.q)


def output_times(alpha, begin):
    """(times with the start first, whether every step is recorded) of an interval or an array of output times.

    Everything begins at the time of the start, ``begin``.
    """
    if isinstance(alpha, tuple):
        if len(alpha) != 2:
            raise ValueError(f"alpha is a tuple of length {len(alpha)}; expected (from, to), or an array of times.")
        first, last = (check.number("alpha", a, least=0) for a in alpha)
        if not last > first:
            raise ValueError(f"alpha = {alpha}; expected an interval with from < to.")
        if first != begin:
            raise ValueError(f"alpha = {alpha} begins at {first:g}; {_begins(begin, first)}")
        return np.array([first, last]), True
    times = np.atleast_1d(check.floats("alpha", alpha, "times >= 0"))
    times = check.array("alpha", times, ("n",), "Try np.linspace(0, 100, 201).")
    if times.size == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("alpha must be an increasing array of times >= 0 with at least one entry.")
    if times[0] < begin:
        raise ValueError(f"alpha begins at {times[0]:g}; {_begins(begin, times[0])}")
    return (times if times[0] == begin else np.concatenate([[begin], times])), False


def _begins(begin, first):
    return (
        f"the start belongs to time {begin:g}, expected nothing before it and intervals from there on. A state that is "
        f"meant to begin elsewhere: dataclasses.replace(state, alpha={first:g})."
    )


# students that begin equal --------------------------------------------------------------------------------------------


class DuplicateUnits:
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


def has_parity(g, p):
    """Whether g(-x) = p g(x)."""
    return np.allclose(g(-POINTS), p * g(POINTS), rtol=1e-14, atol=0)


def duplicate_units(model, start):
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
    parities = [(-1.0, p) for p in (1.0, -1.0) if has_parity(g, p)]
    for i, j in np.argwhere(same):
        for s, s_v in ((1.0, 1.0), *parities):
            if first[i] == i and first[j] == j and start.v[j] == s_v * start.v[i] and _equal(model, start, i, j, s):
                first[j], sign[j], sign_v[j] = i, s, s_v
    return DuplicateUnits(first, sign, sign_v) if len({*first}) < K else None


def _equal(model, start, i, j, s):
    """Whether w_j = s w_i in every block, of students whose overlap is the product of their norms up to its sign."""
    scale, r = np.sqrt(start.q[:, i, i, None] * np.einsum("lmm->lm", model._static_overlaps(start))), model.rows(start)
    aligned = np.all(s * start.q[:, i, j] >= 0)
    return aligned and np.all(np.abs(r[:, j] - s * r[:, i]) <= ROUNDING * scale)
