"""Initial conditions: overlaps of random weights, weights with given overlaps, output times, duplicate students."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._base import check, warn
from .state import State, gram

__all__ = ["random_start"]


class StartLimits(NamedTuple):
    """Limits of the checks of a start."""

    # Overlaps of this size or larger are refused, because closures multiply four of them and float64 ends at 1e308.
    max_overlap: float = 1e70
    # eta max(s) / N above which a warning is issued. The deviation of SGD from the ODE is of this order.
    max_step: float = 0.05
    # Records of an interval, equidistant. More cost memory and, because solvers land on them, steps.
    interval_times: int = 201
    # Deviation of a time from a whole number of finite steps that is rounding: times of 10^9 steps are that accurate.
    step_rounding: float = 1e-6
    # Students are duplicates if their overlaps differ by less than this, relative to their norms: four roundings of a
    # product. Larger differences are kept, and grow by the flow.
    duplicate_tol: float = 4 * np.finfo(float).eps
    # Points at which g(-x) = +-g(x) is checked.
    parity_points: tuple[float, ...] = (0.1, 0.7, 1.9, 4.3)


LIMITS = StartLimits()


def random_start(model, *, N, rng, student_scale=1.0, teacher="random", students="random"):
    r"""State of random weights at input dimension N, drawn from the exact law of their overlaps.

    Students are N(0, student_scale^2), teachers N(0, 1), entry by entry. For each block, independently,

    .. math:: \begin{pmatrix} q^l & r^l \\ r^{lT} & t^l \end{pmatrix}
        = \frac1N D\, \mathcal{W}_l\, D, \qquad \mathcal{W}_l \sim \mathrm{Wishart}_{K+M}(n_l, 1)

    so that no vector of length N is drawn.

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
        When eta max(s) / N > 0.05: steps are then not small, and SGD deviates from the ODE.

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
            # teacher rows come first: given these, students are Gaussian in their span and Wishart outside
            factor[:M] = np.sqrt(n) * np.eye(M, factor.shape[1])
        if students == "orthonormal":
            values, vectors = np.linalg.eigh(factor[M:] @ factor[M:].T)  # (G G^T)^(-1/2) G is a uniformly random frame
            factor[M:] = np.sqrt(n) * (vectors / np.sqrt(values)) @ vectors.T @ factor[M:]
        factor[M:] *= scale
        block[:] = factor @ factor.T / N
    return State.from_blocks(model, q=joint[:, M:, M:], r=joint[:, M:, :M], t=joint[:, :M, :M])


def bartlett_factor(rng, P, n):
    """Random factor F with F F^T ~ Wishart_P(n, identity): lower triangular if n > P - 1, else Gaussian (P, n).

    In the first case n need not be an integer; in the second it is rounded, and the factor is scaled to the right mean.
    """
    if n <= P - 1:
        rank = max(round(n), 1 if n > 0 else 0)
        return np.sqrt(n / max(rank, 1)) * rng.standard_normal((P, rank))
    factor = np.tril(rng.standard_normal((P, P)), -1)
    factor[np.diag_indices(P)] = np.sqrt(rng.chisquare(n - np.arange(P)))
    return factor


def overlap_factor(joint, n, block=0):
    """Rows X (d, min(d, n)) with X X^T = joint (d, d), which may be singular: vectors with these overlaps.

    X is computed from eigenvectors, without division by small numbers.  Vectors are scaled to length one before, so
    that vectors of very different norms have the same relative accuracy.
    """
    norm = np.sqrt(np.maximum(np.diag(joint), 0.0))
    norm[norm == 0.0] = 1.0
    values, vectors = np.linalg.eigh(joint / np.outer(norm, norm))
    tolerance = check.LIMITS.psd_tol * len(values)
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
    # set rounding errors of 0 to 0, because their roots, 1e-8, would make equal units differ
    values[values < 10 * len(values) * np.finfo(float).eps] = 0.0
    return norm[:, None] * vectors[:, surplus:] * np.sqrt(values[surplus:])


def warn_coarse_step(model, N, largest=1.0):
    """Warn if a step of ``largest`` times eta at size N is too large for the ODE.

    The criterion is for the squared loss; learning rules are not checked.
    """
    if model.rule is not None:
        return
    step = largest * model.eta * model.spectrum.s.max() / N
    if model.n_classes:
        mean_step = largest * model.eta * np.einsum("lcc->c", model.gram).max() / N
        if mean_step > LIMITS.max_step:
            warn(
                f"eta max |mu_c|^2 / N = {mean_step:.2g} > {LIMITS.max_step}: one step changes the means of the fields "
                "by O(1), and the equations follow only the slow part of SGD. Use a larger N, smaller means or eta."
                + check.see("mixtures", "Limits")
            )
    if step > LIMITS.max_step:
        warn(
            f"eta max(s) / N = {step:.2g} > {LIMITS.max_step}: one step moves the top eigen-direction by O(1), so "
            "finite-N SGD departs from the ODE. Use a larger N or a smaller eta to compare the two. At this N the mean "
            "of SGD obeys equations for linear students only (theory.linear.sgd_mean); else average runs of simulate."
            + check.see("power_law", "Linear students")
        )


def check_size(S, name):
    """Raise ``ValueError`` if products of the overlaps S would overflow."""
    largest = np.max(np.abs(S))
    if not largest < LIMITS.max_overlap:
        raise ValueError(
            f"{name}: the largest overlap is {largest:.3g}; expected below {LIMITS.max_overlap:g}, where products of "
            "overlaps do not overflow. Check the scale of the weights."
        )


def checked_start(model, start, name="start"):
    """The start with the model's eigenvalues, after checking that it fits the model and that nothing overflows."""
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
    """Whether all starts pass ``checked_start`` unchanged, tested together; if not, that function raises the error."""
    pairs = [*{(id(x), id(model.spectrum)): (model, x) for model, x in zip(models, starts, strict=True)}.values()]
    for model, x in pairs:
        others = model.n_classes or model.latent_teacher or model.spherical or x.m is not None or x.s is None
        if others or x.r.shape != (model.spectrum.L, model.K, model.M):
            return False
    q, r, tau, T, s = (np.array([getattr(x, name) for _, x in pairs]) for name in ("q", "r", "tau", "T", "s"))
    S = gram(np.einsum("bl,blij->bij", s, q), r.sum(axis=1), T)
    positive = all(
        np.all(np.linalg.eigvalsh(x)[..., 0] >= -check.LIMITS.psd_tol * np.trace(x, axis1=-2, axis2=-1))
        for x in (gram(q, r, tau), S)
    )
    return (
        positive
        and np.array_equal(s, [model.spectrum.s for model, _ in pairs])
        and np.max(np.abs(S)) < LIMITS.max_overlap
    )


def norms(state):
    """Squared norms |w_k|^2 / N of the students."""
    return np.einsum("lkk->k", state.q)


def output_times(alpha, begin, every_step=False, step=None):
    """Output times with that of the start, ``begin``, first; from an interval or an array of times.

    An interval has 201 times, or its two ends with ``every_step``, where the solver adds its steps. With finite steps
    of length ``step`` it has all of them, and other times must be whole numbers of steps.
    """
    if check.flag("every_step", every_step) and not isinstance(alpha, tuple):
        raise check.refused("every_step", True, "False with an array of times; an interval (from, to) has the steps.")
    if isinstance(alpha, tuple):
        if len(alpha) != 2:
            raise ValueError(f"alpha is a tuple of length {len(alpha)}; expected (from, to), or an array of times.")
        first, last = (check.number("alpha", a, least=0) for a in alpha)
        if not last > first:
            raise ValueError(f"alpha = {alpha}; expected an interval with from < to.")
        if first != begin:
            raise ValueError(f"alpha = {alpha} begins at {first:g}; {_begins(begin, first)}")
        if step is not None:
            n = whole_steps(np.array([first, last]), step)[-1]
            return np.append(first + step * np.arange(n), last)
        return np.array([first, last]) if every_step else np.linspace(first, last, LIMITS.interval_times)
    times = np.atleast_1d(check.floats("alpha", alpha, "times >= 0"))
    times = check.array("alpha", times, ("n",), "Try np.linspace(0, 100, 201).")
    if times.size == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("alpha must be an increasing array of times >= 0 with at least one entry.")
    if times[0] < begin:
        raise ValueError(f"alpha begins at {times[0]:g}; {_begins(begin, times[0])}")
    times = times if times[0] == begin else np.concatenate([[begin], times])
    if step is not None:
        whole_steps(times, step)
    return times


def whole_steps(times, step, name="alpha"):
    """Numbers of steps (n,) from the first of increasing times (n,) to each, checked to be different whole numbers."""
    n = (times - times[0]) / step
    whole = np.rint(n).astype(np.int64)
    wrong = (np.abs(n - whole) > LIMITS.step_rounding) | (np.diff(whole, prepend=-1) == 0)
    if np.any(wrong):
        i = np.argmax(wrong)
        before, after = times[0] + step * np.floor(n[i]), times[0] + step * np.ceil(n[i])
        raise ValueError(
            f"{name} = {times[i]:g} is {n[i]:.6g} steps of {step:g} after the start at {times[0]:g}; expected a whole "
            f"number of steps, such as {before:g} or {after:g}."
        )
    return whole


def on_switches(times, step, until):
    """Times (n,) of finite steps; those that are the end of a stage up to rounding are that end."""
    until, times = until[(until > times[0]) & (until < times[-1])], times.copy()
    switches, n = whole_steps(np.append(times[0], until), step, "until")[1:], whole_steps(times, step)
    for switch, end in zip(switches, until, strict=True):
        times[n == switch] = end
    return times


def _begins(begin, first):
    return (
        f"the start belongs to time {begin:g}, expected later times, and intervals that begin there. To move the "
        f"start: state.replace(alpha={first:g})."
    )


# duplicate students ---------------------------------------------------------------------------------------------------


class DuplicateUnits:
    """Students that equal the ``first`` (K,) of their kind, up to a ``sign`` (K,) that does not change the output.

    Equal students stay equal in the exact flow.  Rounding makes them differ, the squared norm of the difference may be
    negative, and the flow amplifies it.  Therefore A, B, C, dv are averaged over equal students.
    """

    def __init__(self, first, sign, sign_v):
        same = first == first[:, None]
        self.first, self.sign, self.sign_v = first, sign, sign_v
        self.P, self.P_v = (same * np.outer(x, x) / np.sum(same, axis=1) for x in (sign, sign_v))

    def average(self, A, B, C, dv):
        """Closure, or changes of it along leading axes, averaged."""
        return self.P @ A @ self.P, self.P @ B, self.P @ C @ self.P, dv @ self.P_v

    def copied(self, q, r, v):
        """Overlaps with those of each student copied from the first of its kind."""
        i, sign = self.first, self.sign
        copies = q[..., i[:, None], i] * np.outer(sign, sign), r[..., i, :] * sign[:, None], v[..., i] * self.sign_v
        return tuple(map(np.ascontiguousarray, copies))

    def equalised(self, model, start):
        """The start with exactly equal duplicates."""
        q, r, v = self.copied(start.q, model.rows(start), start.v)
        return replace(start, q=q, v=v, **model.split_rows(r))

    @property
    def message(self):
        """A sentence that lists the groups of equal students."""
        kinds = [np.flatnonzero(self.first == i).tolist() for i in np.unique(self.first)]
        return f" Equal students stay equal: {', '.join(str(kind) for kind in kinds if len(kind) > 1)}."


def has_parity(g, p):
    """Whether g(-x) = p g(x)."""
    x = np.array(LIMITS.parity_points)
    return np.allclose(g(-x), p * g(x), rtol=1e-14, atol=0)


def duplicate_units(model, start):
    """The duplicate students of a start, or None: their overlaps differ by rounding, their second layers are equal."""
    if model.rule is not None:  # a learning rule may treat its units differently
        return None
    K, q = model.K, start.q
    norms = np.einsum("lkk->lk", q)
    equal = np.abs(np.abs(q) - norms[:, None]) <= LIMITS.duplicate_tol * norms[:, None]  # |q_ij| = q_jj in every block
    # require |q_ij| = q_ii and = q_jj, because one alone also holds for parallel students of different norms
    equal = np.triu((equal & equal.swapaxes(1, 2)).all(axis=0), 1)
    if not equal.any():
        return None
    g, first, sign, sign_v = model.activation.g, np.arange(K), np.ones(K), np.ones(K)
    # if g(-x) = +-g(x), w_j = -w_i is a duplicate, too, with v_j = +-v_i
    parities = [(-1.0, p) for p in (1.0, -1.0) if has_parity(g, p)]
    for i, j in np.argwhere(equal):
        for s, s_v in ((1.0, 1.0), *parities):
            if first[i] == i and first[j] == j and start.v[j] == s_v * start.v[i] and _equal(model, start, i, j, s):
                first[j], sign[j], sign_v[j] = i, s, s_v
    return DuplicateUnits(first, sign, sign_v) if len({*first}) < K else None


def _equal(model, start, i, j, s):
    """Whether w_j = s w_i in every block, for students whose overlap is the product of their norms up to its sign."""
    scale, r = np.sqrt(start.q[:, i, i, None] * np.einsum("lmm->lm", model._static_overlaps(start))), model.rows(start)
    aligned = np.all(s * start.q[:, i, j] >= 0)
    return aligned and np.all(np.abs(r[:, j] - s * r[:, i]) <= LIMITS.duplicate_tol * scale)
