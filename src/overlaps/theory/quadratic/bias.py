r"""The zero-error solution that a quadratic network finds.

With K >= M and orthonormal teachers, the zero-error solutions are

.. math:: W = \sqrt{K/M}\; S\, W_*, \qquad S^T S = 1_M \quad (K \times M),

so :math:`R = \sqrt{K/M}\,S` and :math:`Q = (K/M)\,SS^T`.  The one closest to the start is the polar factor of R(0), and
the equations for N -> infinity conserve S(alpha) = polar(R(alpha)) if Q(0) commutes with R(0) R(0)^T: they then end
in this solution, and in general not otherwise.
"""

from typing import NamedTuple

import numpy as np

from ..._base import ArrayLike, Floats, check
from ...models.state import gram
from .phases import realisable

__all__ = [
    "RiccatiSolution", "closest_solution", "conserves_polar", "distance", "polar", "riccati_flow", "solution_weights",
]  # fmt: skip


class BiasOptions(NamedTuple):
    """Tunable numbers of the implicit bias."""

    rank_tol: float = 1e-12  # Singular values of R below this fraction of the largest count as zero.
    # Matrices commute if their commutator is below this fraction of the product of their norms.
    commutator_tol: float = 1e-10
    max_exponent: float = 600.0  # Larger exponents of growing directions are refused, because exp overflows at 709.


BIAS = BiasOptions()


def polar(R: ArrayLike) -> Floats:
    r"""Orthonormal factor S = R (R^T R)^{-1/2} of the overlaps: the solution in the direction of R.

    Conserved by the equations for N -> infinity, at any eta and with label noise, if :func:`conserves_polar`; otherwise
    a function of time, in trajectories and in simulations: ``polar(traj.R)``. Exact. Source:
    Bocchi et al., (22) = (37). S (..., K, M) has S^T S = identity.

    Parameters
    ----------
    R : array_like, shape (..., K, M)
        Student-teacher overlaps, K >= M, of rank M; others have no solution, or several factors (``ValueError``).

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.polar([[0.3], [0.4]])
    array([[0.6],
           [0.8]])
    """
    R = check.array("R", R, (..., "K", "M"), filled=True)
    realisable(*R.shape[-2:])
    U, sizes, V = np.linalg.svd(R, full_matrices=False)
    rank = np.sum(sizes > BIAS.rank_tol * sizes[..., :1], axis=-1)
    if np.any(rank < R.shape[-1]):
        raise ValueError(
            f"R has rank {np.min(rank)}; expected M = {R.shape[-1]}: a teacher (or combination) without overlap "
            "selects no solution. Start from random R, e.g. model.random_start(N=..., rng=...)."
        )
    return U @ V


def closest_solution(R: ArrayLike) -> tuple[Floats, Floats]:
    r"""Overlaps (Q, R) of the zero-error solution closest to weights with overlaps R.

    .. math:: S = R_0 (R_0^T R_0)^{-1/2}, \qquad R = \sqrt{K/M}\,S, \qquad Q = (K/M)\,S S^T

    Closest in the Frobenius distance of the weights, whatever Q(0). Exact. The equations for N -> infinity end there if
    :func:`conserves_polar`; SGD from random starts does not, at any N: the law of its end is
    :func:`~overlaps.theory.quadratic.selected`. Source: Bocchi et al., (19), (20), (21). Q has shape (K, K), R (K, M).

    Parameters
    ----------
    R : array_like, shape (K, M)
        As in :func:`polar`, with orthonormal teachers.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> Q, R = quadratic.closest_solution([[0.3], [0.4]])
    >>> Q.round(12)
    array([[0.72, 0.96],
           [0.96, 1.28]])
    """
    S = polar(R)
    ratio = S.shape[-2] / S.shape[-1]
    return ratio * S @ np.swapaxes(S, -1, -2), np.sqrt(ratio) * S


def solution_weights(S: ArrayLike, W_star: ArrayLike) -> Floats:
    r"""Weights :math:`\sqrt{K/M}\,S W_*` (K, N) of the zero-error solution S, for given teachers.

    Exact: eps_g = 0 for any teachers. Source: Bocchi et al., (15), (16).

    Parameters
    ----------
    S : array_like, shape (K, M)
        Orthonormal columns, e.g. :func:`polar`.
    W_star : array_like, shape (M, N)
        Weights of the teacher.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.quadratic.solution_weights([[0.6], [0.8]], np.eye(1, 3)).round(4)
    array([[0.8485, 0.    , 0.    ],
           [1.1314, 0.    , 0.    ]])
    """
    S = _orthonormal(S)
    K, M = S.shape
    return np.sqrt(K / M) * S @ check.array("W_star", W_star, (M, "N"), f"S has shape {S.shape}.")


def distance(Q: ArrayLike, R: ArrayLike, S: ArrayLike) -> Floats:
    r"""Distance of the weights to the zero-error solution S, :math:`|W - \sqrt{K/M}\,S W_*|_F/\sqrt N`.

    .. math:: d^2 = {\rm tr}\,Q - 2\sqrt{K/M}\;{\rm tr}(S^T R) + K

    Exact, for orthonormal teachers, (17) of Bocchi et al.; nan where the overlaps are nan (runs that ended before).

    Parameters
    ----------
    Q, R : array_like, shape (..., K, K), (..., K, M)
        Overlaps, e.g. of a trajectory.
    S : array_like, shape (K, M)
        Orthonormal columns.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> S = ov.theory.quadratic.polar([[0.3], [0.4]])
    >>> float(ov.theory.quadratic.distance(2 * S @ S.T, np.sqrt(2) * S, -S).round(12))  # the opposite: 2 sqrt(K)
    2.828427124746
    """
    S = _orthonormal(S)
    K, M = S.shape
    Q, R = check.array("Q", Q, (..., K, K), finite=False), check.array("R", R, (..., K, M), finite=False)
    squared = np.trace(Q, axis1=-2, axis2=-1) - 2 * np.sqrt(K / M) * np.sum(S * R, axis=(-2, -1)) + K
    return np.sqrt(np.maximum(squared, 0.0))


def conserves_polar(Q: ArrayLike, R: ArrayLike, T: ArrayLike | None = None) -> bool:
    """Whether the start fulfils the condition under which polar(R) is conserved: Q commutes with R R^T, and T = 1.

    Then Q, R R^T and all velocities stay diagonal in one basis, and R only grows along its own directions: the
    equations of N -> infinity end in :func:`closest_solution`, at any eta (below :func:`eta_solution`) and for gradient
    flow. Students of equal norm without overlaps, Q = q I, are the common case. The condition is sufficient; for other
    starts tried, polar(R) drifts in proportion to the off-diagonal part.

    SGD at finite N adds noise of the size 1/sqrt(N) to R. It is small beside overlaps R(0) that do not shrink with N.
    Beside overlaps of random weights, R(0) ~ 1/sqrt(N), it is not, at any N: SGD then ends elsewhere (K = 4, M = 2, eta
    = 0.6: about half as far from the closest solution as an unrelated one), nearby only for small eta or large batches.
    :func:`~overlaps.theory.quadratic.selected` is the law of its end. Exact for N -> infinity at fixed R. Bocchi et al.
    state the conservation, (48), without the condition.

    Parameters
    ----------
    Q, R : array_like, shape (K, K), (K, M)
        Initial overlaps.
    T : array_like, shape (M, M), optional
        Teacher overlaps; the identity by default. Multiples of the identity also conserve polar(R).

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> R = [[0.3], [0.4]]
    >>> ov.theory.quadratic.conserves_polar(np.eye(2), R), ov.theory.quadratic.conserves_polar(np.diag([0.5, 1.5]), R)
    (True, False)
    """
    Q, R, T = _overlaps(Q, R, T)
    realisable(*R.shape)
    P = R @ R.T
    commutator = np.linalg.norm(Q @ P - P @ Q)
    if commutator > BIAS.commutator_tol * np.linalg.norm(Q) * np.linalg.norm(P):
        return False
    return bool(np.linalg.norm(T - np.trace(T) / len(T) * np.eye(len(T))) <= BIAS.commutator_tol * np.linalg.norm(T))


class RiccatiSolution(NamedTuple):
    """Invariants of a gradient flow; made by :func:`riccati_flow`.

    Attributes
    ----------
    alpha : ndarray, shape (n,)
        Times, steps / N.
    tr_Q, tr_Q2 : ndarray, shape (n,)
        tr Q and tr Q^2.
    RtR : ndarray, shape (n, M, M)
        R^T R.
    eps_g : ndarray, shape (n,)
        Generalisation error.
    """

    alpha: np.ndarray
    tr_Q: np.ndarray
    tr_Q2: np.ndarray
    RtR: np.ndarray
    eps_g: np.ndarray


def riccati_flow(Q: ArrayLike, R: ArrayLike, alpha: ArrayLike, *, eta: float, rtol: float = 1e-10) -> "RiccatiSolution":
    r"""Gradient flow from any Q(0), in closed form up to one scalar function of time.

    With t = eta alpha / 2, c = 8/(K M) and the growth :math:`b(t) = \frac4K\int_0^t (1 - {\rm tr}\,Q/K)`,

    .. math:: V(t) &= e^{2b}\,[Q_0 + (e^{2ct}-1)\,R_0R_0^T], \qquad Z(t) = 1 + \tfrac{16}{K^2}\int_0^t V \\
              {\rm tr}\,Q^n &= {\rm tr}\,(Z^{-1}V)^n, \qquad R^TR = e^{2b+2ct}\,R_0^T Z^{-1} R_0

    Exact for eta -> 0 at fixed eta alpha; derived here. Three scalars are integrated (b and the integrals of e^{2b} and
    e^{2b+2ct}), whatever K and M.

    Parameters
    ----------
    Q, R : array_like, shape (K, K), (K, M)
        Initial overlaps with orthonormal teachers; any K and M, also K < M.
    alpha : array_like, shape (n,)
        Increasing times >= 0, up to which exp(2ct) does not overflow.
    eta : float
        Learning rate; only eta alpha matters.
    rtol : float
        Accuracy of the integration of b.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.quadratic.riccati_flow(np.eye(2), [[0.1], [0.2]], [0.0, 200.0], eta=0.1).eps_g.round(4)
    array([1.45e+00, 1.00e-04])
    """
    from scipy.integrate import solve_ivp

    eta, rtol = check.number("eta", eta, above=0), check.number("rtol", rtol, above=0)
    Q, R, _ = _overlaps(Q, R, None)
    K, M = R.shape
    alpha = check.array("alpha", alpha, ("n",))
    if alpha.size == 0 or alpha[0] < 0 or np.any(np.diff(alpha) <= 0):
        raise ValueError("alpha is not an increasing array of times >= 0.")
    t = eta * alpha / 2
    c = 8 / (K * M)
    if 2 * c * t[-1] > BIAS.max_exponent:
        raise ValueError(f"eta alpha = {2 * t[-1]:g} overflows exp(2ct); expected at most {BIAS.max_exponent / c:g}.")
    values, vectors = np.linalg.eigh(Q - R @ R.T)
    rest = vectors * np.sqrt(np.maximum(values, 0.0))  # the students' components orthogonal to the teacher

    def whitened(t, y):
        """X with X^T X ~ Z^{-1} V: columns [components along the teacher, orthogonal components]."""
        from scipy.linalg import qr

        b, J1, J2 = y
        V = np.exp(b) * np.concatenate([np.exp(c * t) * R, rest], axis=1)
        if t == 0:
            return V
        # Z = A^T A with rows A = [weight V^T, 1], so X follows from the orthonormal factor of A without an inverse;
        # pivoting keeps short rows accurate beside those that grow as exp(ct)
        weight = 4 / K * np.sqrt(np.repeat([J2, J1], [M, K]))
        frame, _, _ = qr(np.concatenate([(V * weight).T, np.eye(K)]), mode="economic", pivoting=True)
        return frame[: M + K].T / weight

    def velocity(t, y):
        db = 4 / K * (1 - np.sum(whitened(t, y) ** 2) / K)
        return [db, 1 - 2 * db * y[1], 1 - 2 * (db + c) * y[2]]  # integrals in units of their integrand

    run = solve_ivp(velocity, (0.0, max(t[-1], 1e-300)), np.zeros(3), method="DOP853", t_eval=t, rtol=rtol, atol=rtol)
    X = np.array([whitened(t_i, y) for t_i, y in zip(t, run.y.T, strict=True)])
    G = X @ np.swapaxes(X, 1, 2)  # similar to Q
    tr_Q, tr_Q2 = np.trace(G, axis1=1, axis2=2), np.sum(G**2, axis=(1, 2))
    RtR = np.swapaxes(X[:, :, :M], 1, 2) @ X[:, :, :M]
    error = (1 - tr_Q / K) ** 2 + 2 * tr_Q2 / K**2 - 4 * np.trace(RtR, axis1=1, axis2=2) / (K * M) + 2 / M
    return RiccatiSolution(alpha, tr_Q, tr_Q2, RtR, np.maximum(error, 0.0) / 2)


def _orthonormal(S):
    """S (K, M) with S^T S = 1."""
    S = check.array("S", S, ("K", "M"), filled=True)
    _, M = realisable(*S.shape)
    gap = np.max(np.abs(S.T @ S - np.eye(M)))
    if gap > check.LIMITS.psd_tol:
        raise ValueError(f"S^T S differs from the identity by {gap:.3g}; expected orthonormal columns: S = polar(R).")
    return S


def _overlaps(Q, R, T):
    """Checked Q (K, K), R (K, M), T (M, M) of real vectors."""
    R = check.array("R", R, ("K", "M"))
    K, M = R.shape
    Q = check.array("Q", Q, (K, K), f"R has shape {R.shape}.")
    T = check.array("T", np.eye(M) if T is None else T, (M, M), f"R has shape {R.shape}.")
    for name, value in (("Q", Q), ("T", T)):
        check.symmetric(name, value)
    check.positive_semidefinite("[[Q, R], [R^T, T]]", gram(Q, R, T), "Overlaps of real vectors always are.")
    return Q, R, T
