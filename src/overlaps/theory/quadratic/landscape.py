r"""Population error of a quadratic network as a function of its weights, and all its stationary points.

Weights are scaled to W W^T = Q (K x N): rows of length sqrt(Q_kk), 1/sqrt(N) times those of ``State.from_weights``.
With the default second layers,

.. math:: A = \tfrac1K W^TW - \tfrac1M W_*^TW_*, \quad \epsilon_g = \tfrac12({\rm tr} A)^2 + {\rm tr} A^2, \quad
          \nabla\epsilon_g = \tfrac2K\,({\rm tr} A\; W + 2WA).
"""

from typing import NamedTuple

import numpy as np

from ..._base import ArrayLike, Floats, Rng, check

__all__ = [
    "FlatDirections", "degrees_of_freedom", "eps_g", "flat_directions", "gradient", "hessian", "solution_dimension",
    "stationary_eps_g", "stationary_point", "stationary_points", "stationary_spectrum",
]  # fmt: skip


# functions of the weights ---------------------------------------------------------------------------------------------


def eps_g(W: ArrayLike, W_star: ArrayLike, *, v: ArrayLike | None = None, v_star: ArrayLike | None = None) -> float:
    r"""Generalisation error of explicit weights, :math:`\frac12({\rm tr} A)^2 + {\rm tr} A^2`.

    Exact at every N (Wick). The risk of Bocchi et al., eq. (23), is twice this.

    Parameters
    ----------
    W, W_star : array_like, shape (K, N), (M, N)
        Weights of student and teacher, W W^T = Q; any teacher.
    v, v_star : array_like, shape (K,), (M,), optional
        Second layers; 1/K and 1/M by default. Then A = W^T diag(v) W - W_star^T diag(v_star) W_star.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.quadratic.eps_g(np.zeros((2, 5)), np.eye(1, 5))
    1.5
    """
    A = _residual(*_weights(W, W_star, v, v_star))
    return float(np.trace(A) ** 2 / 2 + np.sum(A * A))


def gradient(W: ArrayLike, W_star: ArrayLike, *, v: ArrayLike | None = None, v_star: ArrayLike | None = None) -> Floats:
    r"""Gradient of :func:`eps_g`, (K, N): row k is :math:`2v_k({\rm tr} A + 2A)\,w_k`.

    Exact; twice as large for Bocchi et al., (24).

    Parameters
    ----------
    W, W_star, v, v_star
        As in :func:`eps_g`.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.quadratic.gradient(np.eye(1, 3), np.eye(1, 3))
    array([[0., 0., 0.]])
    """
    W, W_star, v, v_star = _weights(W, W_star, v, v_star)
    A = _residual(W, W_star, v, v_star)
    return 2 * v[:, None] * (np.trace(A) * W + 2 * W @ A)


def hessian(W: ArrayLike, W_star: ArrayLike, *, v: ArrayLike | None = None, v_star: ArrayLike | None = None) -> Floats:
    r"""Hessian of :func:`eps_g`, (K N, K N): the blocks (j, k) of N x N numbers in the order of the rows of W.

    .. math:: H_{jk} = 4v_jv_k\,(Q_{jk} + w_jw_k^T + w_kw_j^T) + 2\delta_{jk}v_k\,({\rm tr} A + 2A)

    Exact; twice as large for Bocchi et al., (25) (their plateau formula lacks a sum).

    Parameters
    ----------
    W, W_star, v, v_star
        As in :func:`eps_g`.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> np.linalg.eigvalsh(ov.theory.quadratic.hessian(np.eye(1, 3), np.eye(1, 3))).round(12)
    array([ 4.,  4., 12.])
    """
    W, W_star, v, v_star = _weights(W, W_star, v, v_star)
    K, N = W.shape
    A = _residual(W, W_star, v, v_star)
    outer = np.einsum("ja,kb->jakb", W, W)
    H = 4 * (outer + outer.transpose(2, 1, 0, 3)) + 4 * np.einsum("jk,ab->jakb", W @ W.T, np.eye(N))
    H *= v[:, None, None, None] * v[:, None]
    H[range(K), :, range(K)] += 2 * v[:, None, None] * (np.trace(A) * np.eye(N) + 2 * A)
    return H.reshape(K * N, K * N)


def _residual(W, W_star, v, v_star):
    return (W.T * v) @ W - (W_star.T * v_star) @ W_star


def _weights(W, W_star, v, v_star):
    W = check.array("W", W, ("K", "N"))
    W_star = check.array("W_star", W_star, ("M", W.shape[1]), f"W has shape {W.shape}.")
    K, M = len(W), len(W_star)
    v = np.full(K, 1 / K) if v is None else check.array("v", v, (K,))
    v_star = np.full(M, 1 / M) if v_star is None else check.array("v_star", v_star, (M,))
    return W, W_star, v, v_star


# stationary points ----------------------------------------------------------------------------------------------------


def stationary_points(N: int, K: int, M: int) -> list[tuple[int, int]]:
    """All types (r, s) of stationary points: r student directions outside the teacher's space, s within it.

    r + s <= K, s <= M, r <= N - M, and r = 0 if s = M: (0, 0) is W = 0, (K, 0) the plateau, (0, min(K, M)) the minimum,
    all others are saddles. Exact: the list is complete for the default second layers and orthonormal teachers. Derived
    here; Bocchi et al. leave out the mixed ones with r > 0 and s > 0.

    Parameters
    ----------
    N, K, M : int
        Input dimension, widths of student and teacher, N >= M.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.stationary_points(10, 2, 1)
    [(0, 0), (0, 1), (1, 0), (2, 0)]
    """
    N, K, M = _sizes(N, K, M)
    return [(r, s) for r in range(min(K, N - M) + 1) for s in range(min(K - r, M) + 1) if r == 0 or s < M]


def stationary_point(N: int, K: int, M: int, r: int, s: int, *, rng: Rng | None = None) -> tuple[Floats, Floats]:
    r"""Weights W (K, N) and W_star (M, N) of student and teacher at a stationary point of :func:`eps_g`.

    .. math:: W = O_K\,{\rm diag}(\sqrt g)\,O_N^T, \qquad g_2 = K\frac{1-s/M}{2+r+s}, \quad g_1 = g_2 + \frac KM

    with orthonormal columns O_K (K, r+s), and O_N (N, r+s): r directions orthogonal to the teacher (g2), s in its space
    (g1). The rows of W_star are orthonormal. Exact; derived here. Bocchi et al., (26), (28), (30), have (r, 0) and
    (0, s).

    Parameters
    ----------
    N, K, M
        As in :func:`stationary_points`.
    r, s : int
        Type of the point, one of :func:`stationary_points`.
    rng : int or numpy.random.Generator, optional
        Random O_K and O_N; along the coordinate axes by default.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> W, W_star = quadratic.stationary_point(10, 3, 2, 1, 1, rng=0)
    >>> bool(abs(quadratic.gradient(W, W_star)).max() < 1e-14)
    True
    """
    N, K, M, r, s = _point(N, K, M, r, s)
    rows, columns, within = np.eye(K), np.eye(N), np.eye(M)
    if rng is not None:
        rng = check.generator(rng)
        rows, columns, within = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (K, N, M))
    g1, g2, _ = _norms(K, M, r, s)
    directions = np.hstack([columns[:, :M] @ within[:, :s], columns[:, M : M + r]])
    scale = np.sqrt(np.r_[np.full(s, g1), np.full(r, g2)])
    return (rows[:, : r + s] * scale) @ directions.T, columns[:, :M].T.copy()


def stationary_eps_g(K: int, M: int, r: int, s: int) -> float:
    r"""Generalisation error at a stationary point, :math:`(1-\frac sM)\big[\frac{1-s/M}{2+r+s} + \frac1M\big]`.

    Zero at s = M; for K < M the minimum is (0, K), the least error of a narrow student. Exact; derived here. The risk
    of Bocchi et al. is twice this.

    Parameters
    ----------
    K, M, r, s
        As in :func:`stationary_point`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.stationary_eps_g(6, 3, 0, 3), round(quadratic.stationary_eps_g(6, 3, 6, 0), 6)
    (0.0, 0.458333)
    """
    K, M = check.count("K", K), check.count("M", M)
    _, K, M, r, s = _point(M + K, K, M, r, s)
    return (1 - s / M) * ((1 - s / M) / (2 + r + s) + 1 / M)


def stationary_spectrum(N: int, K: int, M: int, r: int, s: int) -> list[tuple[float, int]]:
    """Distinct eigenvalues of the Hessian of :func:`eps_g` at a stationary point, in increasing order.

    Pairs (eigenvalue, multiplicity); the multiplicities sum to K N. Exact; derived here for all (r, s). Eigenvalues of
    the risk of Bocchi et al. are twice as large; their tabula rasa, plateau, zero-error and all-aligned cases are (0,
    0), (K, 0), (0, M) and (0, 1); (29) is a ratio of numbers at the plateau.

    Parameters
    ----------
    N, K, M, r, s
        As in :func:`stationary_point`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.stationary_spectrum(5, 2, 1, 0, 1)
    [(0.0, 5), (2.0, 4), (6.0, 1)]
    """
    N, K, M, r, s = _point(N, K, M, r, s)
    n, rest = r + s, N - M - r  # occupied directions; directions of neither teacher nor student
    g1, g2, a = _norms(K, M, r, s)
    pairs = [
        (0.0, (K - n) * n + r * rest + s * (M - s) + n * (n - 1) // 2),
        (2 / K * (a - 2 / M), (K - n) * (M - s)),
        (2 * a / K, (K - n) * rest),
        (4 / (K * M), s * rest),
        (-4 / (K * M), r * (M - s)),
        (8 * g2 / K**2, r * (r - 1) // 2 + max(r - 1, 0)),
        (8 * g1 / K**2, s * (s - 1) // 2 + max(s - 1, 0)),
        (4 * (g1 + g2) / K**2, r * s),
    ]
    # the norms of the r and of the s directions, coupled through tr A; one of them may be absent
    cross = np.sqrt(r * s * g1 * g2)
    coupled = np.array([[(2 + r) * g2, cross], [cross, (2 + s) * g1]])
    present = [i for i, count in enumerate((r, s)) if count]
    pairs += [(4 / K**2 * x, 1) for x in np.linalg.eigvalsh(coupled[np.ix_(present, present)])]
    return _merged(pairs, scale=8 / K)


class FlatDirections(NamedTuple):
    """Zero eigenvalues of the Hessian at a stationary point, by their cause; made by :func:`flat_directions`.

    Attributes
    ----------
    rotations : int
        Tangent to W -> O W: student units exchanged continuously, at exactly the same error.
    choices : int
        Tangent to other choices of the r + s directions in input space, at exactly the same error.
    overparametrisation : int
        Flat to second order only: unused student directions against unused input directions where the error is zero.
        They make the end of learning algebraic.
    """

    rotations: int
    choices: int
    overparametrisation: int


def flat_directions(N: int, K: int, M: int, r: int, s: int) -> "FlatDirections":
    """Number of zero eigenvalues of the Hessian, split into symmetry and overparametrisation.

    At a zero-error point (0, M) with K >= M, ``rotations`` is the dimension K M - M(M + 1)/2 of the manifold of
    solutions, of which M(M - 1)/2 remain at K = M, and ``overparametrisation`` is (N - M)(K - M). Exact; derived here.

    Parameters
    ----------
    N, K, M, r, s
        As in :func:`stationary_point`.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.flat_directions(12, 4, 2, 0, 2)
    FlatDirections(rotations=5, choices=0, overparametrisation=20)
    """
    N, K, M, r, s = _point(N, K, M, r, s)
    n = r + s
    rotations = (K - n) * n + n * (n - 1) // 2
    return FlatDirections(rotations, r * (N - M - r) + s * (M - s), (K - n) * (N - M) if s == M else 0)


def degrees_of_freedom(N: int, K: int) -> int:
    """Parameters of the function that a student computes, the dimension of the set of W^T W.

    N K - K(K - 1)/2 for K <= N, all N(N + 1)/2 of a symmetric matrix for K >= N. Exact; Bocchi et al.

    Parameters
    ----------
    N, K : int
        Input dimension and width of the student.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.degrees_of_freedom(10, 3)
    27
    """
    N, K = check.count("N", N), check.count("K", K)
    return N * K - K * (K - 1) // 2 if K <= N else N * (N + 1) // 2


def solution_dimension(
    N: int, K: int, M: int, *, v: ArrayLike | None = None, v_star: ArrayLike | None = None, T: ArrayLike | None = None
) -> int:
    r"""Dimension of the manifold of zero-error weights, :math:`W^T D W = W^{*T} D^* W^*` with D = diag(v).

    .. math:: Km - \frac{m(m+1)}2 + k\,(N + K - 2m - k) - \frac{k(k+1)}2

    m is the rank of the teacher's form and (a, b) its numbers of positive and negative eigenvalues, those of v* where
    teachers are linearly independent; :math:`k = \min(K_+ - a, K_- - b, N - m)` with the numbers :math:`K_\pm` of
    positive and negative v. The first two terms are the rotations (boosts, where v has both signs) of one solution. The
    others are students outside the teacher's space that cancel each other, totally isotropic subspaces of dimension k;
    there are none where v has one sign, and T, v then do not matter. Exact; without a zero-error solution a
    ``ValueError``. For v, v* > 0 and T = 1 Bocchi et al.; derived here otherwise. If the manifold has several
    components, the dimension is that of the largest.

    Parameters
    ----------
    N, K, M : int
        Input dimension, widths of student and teacher.
    v, v_star : array_like, shape (K,), (M,), optional
        Second layers without zeros; positive by default.
    T : array_like, shape (M, M), optional
        Teacher overlaps; linearly independent teachers (as many as fit into N dimensions) by default. Needed where
        M > N and v* has both signs.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.solution_dimension(12, 4, 2)
    5
    >>> quadratic.solution_dimension(12, 4, 2, v=[1, 1, 1, -1], v_star=[1, 0.5])  # one pair that cancels
    15
    """
    N, K, M = (check.count(name, x) for name, x in (("N", N), ("K", K), ("M", M)))
    v, v_star = _signs("v", v, K), _signs("v_star", v_star, M)
    if T is not None:
        T = check.array("T", T, (M, M))
        check.symmetric("T", T)
        values, vectors = np.linalg.eigh(T)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        form = np.linalg.eigvalsh(root.T @ (v_star[:, None] * root))
        rank_tol = 1e-10  # eigenvalues of the teacher's form below this fraction of the largest count as zero
        form = form[np.abs(form) > rank_tol * np.abs(form).max()]
    elif M > N and np.ptp(np.sign(v_star)):
        raise ValueError(f"M = {M} > N = {N} with v_star of both signs; expected T, the overlaps of the teachers.")
    else:
        form = v_star[:N]
    plus, minus = (int(np.sum(s * v > 0) - np.sum(s * form > 0)) for s in (1, -1))
    m = form.size
    if min(plus, minus) < 0 or m > N:
        raise ValueError(
            f"no zero-error solution exists: {np.sum(v > 0)} of K = {K} v are positive, {np.sum(form > 0)} of {m} "
            f"eigenvalues of the teacher's form, in N = {N} dimensions; expected as many students of either sign."
        )
    k = min(plus, minus, N - m)
    return K * m - m * (m + 1) // 2 + k * (N + K - 2 * m - k) - k * (k + 1) // 2


def _signs(name, values, n):
    """A second layer without zeros."""
    values = np.ones(n) if values is None else check.array(name, values, (n,))
    if not np.all(values):
        raise check.refused(name, values.tolist(), "no zeros: leave such units out.")
    return values


def _norms(K, M, r, s):
    """Squared lengths (g1, g2) on teacher and other directions, and a = tr A."""
    u = (1 - s / M) / (2 + r + s)
    return K * (u + 1 / M), K * u, -2 * u


def _merged(pairs, scale):
    """Pairs (eigenvalue, multiplicity) in order, equal eigenvalues joined, absent ones left out."""
    merged: list[tuple[float, int]] = []
    for value, count in sorted(pairs):
        if count and merged and value - merged[-1][0] < 1e-12 * scale:
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        elif count:
            merged.append((float(value) + 0.0, count))  # no minus zero
    return merged


def _sizes(N, K, M):
    N, K, M = check.count("N", N), check.count("K", K), check.count("M", M)
    if N < M:
        raise ValueError(f"N = {N} < M = {M}; expected N >= M, so that the teachers can be orthonormal.")
    return N, K, M


def _point(N, K, M, r, s):
    N, K, M = _sizes(N, K, M)
    r, s = check.count("r", r, least=0), check.count("s", s, least=0)
    if r + s > K or s > M or r > N - M or (r > 0 and s == M):
        raise ValueError(
            f"(r, s) = ({r}, {s}) is no stationary point of (N, K, M) = ({N}, {K}, {M}); expected r + s <= K, s <= M, "
            "r <= N - M, and r = 0 if s = M. stationary_points(N, K, M) lists them."
        )
    return N, K, M, r, s
