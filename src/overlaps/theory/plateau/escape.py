"""Times of the symmetric plateau: descent, growth rates of the differences of students, escape, length.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import zeta

from ..._base import ArrayLike, Floats, check, warn
from ...models import State
from .heights import Committee, balanced, moment, teacher_moments

__all__ = [
    "curvature", "descent_time", "escape_matrix", "escape_rates", "escape_time", "length", "second_moment",
    "wide_escape_time",
]  # fmt: skip


def curvature(T: ArrayLike, *, K: int | None = None, v: float | None = None, v_star: ArrayLike | None = None) -> Floats:
    r"""Curvature of eps_g on the plateau against differences of the students.

    Students :math:`w + \delta_k` with :math:`\sum_k \delta_k = 0` and
    :math:`\rho_{kn} = w^*_n \Sigma\,\delta_k/N` have

    .. math:: \epsilon_g = \epsilon_g^{\rm plateau} + \tfrac12 \sum_k \rho_k^T S \rho_k + O(\rho^3)

    Exact, derived here. For a symmetric teacher S is zero on (1, ..., 1) and -1/(tau eta (T2 - D2/(M - 1))) on vectors
    with sum zero, with the tau of :func:`escape_time`; this corrects [WR] (115), where the exponent is 2 alpha/tau and
    T1 in the bracket replaces ((1 + T1)/2)^2. Along the negative eigenvectors of S (M, M) differences of students grow.

    Parameters
    ----------
    T, K, v, v_star
        As in :func:`plateau`; K >= 2.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.plateau.curvature(np.eye(2)).round(6) + 0.0
    array([[-0.016437,  0.016437],
           [ 0.016437, -0.016437]])
    """
    T, K, v, v_star = setting = Committee.checked(T, K, v, v_star)
    if K < 2:
        raise ValueError(f"K = {K}; expected at least 2 students: one alone has no symmetry to break.")
    c, Q, R, _ = setting.plateau()
    one, c0 = 1 + np.diag(T), 2 / np.pi
    D = (1 + Q) * one - R**2
    # derivatives of E[F_k lambda_k], E[F_k nu_m] for students that differ, with respect to their own Q_kk, R_km
    e_T = -c0 / 2 * v_star * R * D**-1.5
    e_R = c0 * v_star * one * D**-1.5
    h0 = (
        1 / (np.sqrt(1 + 2 * Q) * (1 + Q)) - Q * (1 + 2 * Q) ** -1.5 / (1 + Q) - Q / (np.sqrt(1 + 2 * Q) * (1 + Q) ** 2)
    )
    h = -R / (np.sqrt(D) * (1 + Q) ** 2) - R * one * D**-1.5 / (2 * (1 + Q))
    e_Q = -c0 * (K * v * h0 - v_star @ h)
    cross = np.outer(c, e_R)
    return v * (np.diag(2 * e_T) + cross + cross.T + 2 * e_Q * np.outer(c, c))


def escape_matrix(
    T: ArrayLike, T2: ArrayLike, *, eta: float, K: int | None = None, v: float | None = None,
    v_star: ArrayLike | None = None,
) -> Floats:  # fmt: skip
    r"""Matrix Gamma of the symmetry breaking, :math:`d\rho_k/d\alpha = \Gamma \rho_k` for every student k.

    .. math:: \Gamma = -\eta\, T^{(2)} S

    with the curvature S of :func:`curvature` and :math:`\rho_k` as there. Exact,
    derived here. For symmetric teachers it is the growth of one variable in [WR] (14), (112), (114), at the rate
    eta g_r times the eigenvalue (113).

    Parameters
    ----------
    T, T2 : array_like, shape (M, M)
        First and second moment of the teacher (:func:`teacher_moments`).
    eta : float
        Learning rate.
    K, v, v_star
        As in :func:`plateau`; K >= 2.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.plateau.escape_matrix(np.eye(2), 3 * np.eye(2), eta=0.1).round(6)
    array([[ 0.004931, -0.004931],
           [-0.004931,  0.004931]])
    """
    eta = check.number("eta", eta, above=0)
    S = curvature(T, K=K, v=v, v_star=v_star)
    return -eta * moment("T2", T2, len(S)) @ S


def escape_rates(
    T: ArrayLike, T2: ArrayLike, *, eta: float, K: int | None = None, v: float | None = None,
    v_star: ArrayLike | None = None,
) -> Floats:  # fmt: skip
    """Growth rates of the differences of students, largest first (M,).

    Eigenvalues of :func:`escape_matrix`, real and at most M - 1 of them positive; each is (K - 1)-fold in the full
    dynamics. The largest sets the time of the escape, the smaller ones the plateaus that follow.
    Exact, derived here. eps_g leaves the plateau at twice the rate.

    Parameters
    ----------
    T, T2, eta, K, v, v_star
        As in :func:`escape_matrix`.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.plateau.escape_rates(np.eye(3), np.diag([1.0, 2.0, 3.0]), eta=0.1).round(6)
    array([ 0.003962,  0.002187, -0.      ])
    """
    eta = check.number("eta", eta, above=0)
    S = curvature(T, K=K, v=v, v_star=v_star)
    values, vectors = np.linalg.eigh(moment("T2", T2, len(S)))
    half = vectors * np.sqrt(np.maximum(values, 0.0))  # T2 = half half^T: the same eigenvalues, symmetric
    return np.linalg.eigvalsh(-eta * half.T @ S @ half)[::-1]


def escape_time(
    M: int, *, eta: float, T2: float, T1: float = 1.0, D1: float = 0.0, D2: float = 0.0, K: int | None = None,
    v: float | None = None, v_star: ArrayLike | None = None,
) -> float:  # fmt: skip
    r"""Escape time 1/gamma for a symmetric teacher, whose M - 1 rates coincide.

    .. math:: \gamma = \eta M v v_*\, \frac{2\,Y}{\pi \sqrt{X - Y}\,(X + Y)^{3/2}} \Big(T_2 - \frac{D_2}{M-1}\Big),
              \qquad X = M(1+T_1), \quad Y = T_1 + D_1

    Exact for a symmetric teacher in gradient flow ([WR] (15), (116), which have M v v* = 1). With the
    :func:`row_averages` of another teacher it is the inverse mean of its M - 1 rates, approximately. Where L is of the
    order of N those rates spread widely, and the plateau ends earlier: the largest rate falls about as 1/M, not 1/M^2.

    Parameters
    ----------
    eta : float
        Learning rate.
    T2, D2 : float
        Diagonal entry of T^(2), and sum of the others in a row.
    M, T1, D1, K, v, v_star
        As in :func:`symmetric_plateau`; M, K >= 2.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> round(plateau.escape_time(5, T2=3.0, eta=0.1), 9)
    573.071624185
    """
    eta, M = check.number("eta", eta, above=0), check.count("M", M, least=2)
    M, K, v, v_star, T1, D1 = balanced(M, K, v, v_star, T1, D1)
    if K < 2:
        raise ValueError(f"K = {K}; expected at least 2 students: one alone has no symmetry to break.")
    spread = check.number("T2", T2, above=0) - check.number("D2", D2) / (M - 1)
    if spread <= 0:
        raise ValueError(f"T2 = {T2:g} <= D2/(M - 1) = {D2 / (M - 1):g}; expected a larger T2: T^(2) is a covariance.")
    X, Y = M * (1 + T1), T1 + D1
    gain = 2 * Y / (np.pi * np.sqrt(X - Y) * (X + Y) ** 1.5)
    return float(1 / (eta * M * v * v_star * gain * spread))


def descent_time(
    state: State, *, eta: float, K: int | None = None, v: float | None = None,
    v_star: ArrayLike | None = None, excess: float = 0.1,
) -> float:  # fmt: skip
    r"""Time until equal small students have descended to the plateau, eps_g = (1 + excess) of its height.

    .. math:: \epsilon_g(\alpha) - \epsilon_g^{\rm plateau}
              = \frac{a}{2} \sum_l s_l\, c^T t^l c\; e^{-2 \eta a s_l \alpha/K}

    with :math:`-\eta a/K` the coefficient A of a student on the plateau and c its heights. On power-law spectra with as
    many eigenvalues as inputs, small eigenvalues make the descent as long as the plateau, or longer. Asymptotic:
    linearised at the plateau, without the first fast modes; derived here. The time is zero if small students start
    within the excess.

    Parameters
    ----------
    state
        As in :func:`teacher_moments`.
    eta, K, v, v_star
        As in :func:`escape_matrix`.
    excess : float
        Distance from the height, relative to it, at which the descent ends.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(3, 3, eta=0.1, normalised=True, spectrum=ov.power_law(beta=0.5, L=16))
    >>> state = model.random_start(N=4096, rng=1, teacher="ideal")
    >>> round(ov.theory.plateau.descent_time(state, eta=0.1), 1)
    164.9
    """
    eta, excess = check.number("eta", eta, above=0), check.number("excess", excess, above=0)
    setting = Committee.checked(teacher_moments(state, [1])[0], K, v, v_star)
    point, K = setting.plateau(), setting.K
    a = -setting.closure(point.Q, point.R).A[0, 0]
    weights, rates = 0.5 * a * state.s * (point.c @ state.plain[2] @ point.c), 2 * eta * a * state.s / K
    target, total = excess * point.eps_g, weights.sum()
    if point.eps_g <= 1e-12 * total:  # zero to the accuracy of the plateau
        raise ValueError("the plateau of this teacher has no height; expected M >= 2 teachers that differ.")
    if total <= target:
        return 0.0
    longest = (1 + np.log(total / target)) / rates[rates > 0].min()  # if all decayed like the slowest mode
    return brentq(lambda alpha: weights @ np.exp(-rates * alpha) - target, 0.0, longest)


def length(rate: float, *, N: int, student_scale: float, D: float = 0.0, descent: float | None = None) -> float:
    r"""Length of the plateau in alpha, from the start of the differences of students to their saturation.

    .. math:: \alpha_P - \alpha_0 = \frac1\gamma\Big(D + \tfrac12 \ln\frac{N}{\sigma_J^2}\Big)

    Heuristic ([WR] (12), (117)): differences grow from their initial size student_scale/sqrt(N) to order one at the
    rate gamma. D is -2 to 1 for L << N, up to eps_g = 0.9 of the plateau; for L ~ N it is not of order one, and
    often the descent is longer than the plateau (see the page Power-law spectra). Then the two merge, eps_g is nowhere
    flat, and a given ``descent`` raises a ``RuntimeWarning``. The worked example of [WR] halves the escape time and
    compensates with D = 2.47.

    Parameters
    ----------
    rate : float
        Escape rate gamma: the largest of :func:`escape_rates`.
    N : int
        Input dimension.
    student_scale : float
        Standard deviation of the initial student weights, > 0.
    D : float
        A number that depends on the definition of the end, and on the draw.
    descent : float, optional
        Duration of the descent to the plateau, :func:`descent_time`, to be compared with its length.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> round(plateau.length(0.01, N=1000, student_scale=0.01), 1)
    805.9
    """
    rate, N = check.number("rate", rate, above=0), check.count("N", N)
    scale = check.number("student_scale", student_scale, above=0, hint="Equal students never leave the plateau.")
    alpha = float((check.number("D", D) + 0.5 * np.log(N / scale**2)) / rate)
    if descent is not None and check.number("descent", descent, least=0) > alpha:
        warn(
            f"the descent to the plateau takes {float(descent):.4g}, longer than the plateau would last ({alpha:.4g}): "
            "it merges with the escape, and no plateau forms. Integrate the equations instead: ov.solve."
            + check.see("power_law", "Plateau and escape of erf students")
        )
    return alpha


def wide_escape_time(M: int, *, eta: float, T2: float) -> float:
    r"""Escape time of a wide committee, :math:`2\pi M^2/(\eta T^{(2)})`, for T = identity and M v v* = 1.

    Asymptotic, M -> infinity: :func:`escape_time` is 6 % longer at M = 8 and 1.2 % at M = 40.

    Parameters
    ----------
    M, eta, T2
        As in :func:`escape_time`.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> round(plateau.escape_time(40, T2=3.0, eta=0.1) / plateau.wide_escape_time(40, T2=3.0, eta=0.1), 3)
    1.012
    """
    M, eta, T2 = check.count("M", M), check.number("eta", eta, above=0), check.number("T2", T2, above=0)
    return 2 * np.pi * M**2 / (eta * T2)


def second_moment(*, beta: float, L: int) -> float:
    r"""Mean square of the power-law eigenvalues, the mean of T^(2): :math:`L\,\zeta(2+2\beta)/\zeta(1+\beta)^2`.

    Asymptotic, L -> infinity; the escape time of :func:`wide_escape_time` is then of the order M^2/(eta L).

    Parameters
    ----------
    beta, L : float, int
        Exponent > 0 and size of the spectrum, :func:`overlaps.power_law`.

    Examples
    --------
    >>> import overlaps as ov
    >>> s = ov.power_law(beta=1.0, L=1000).s
    >>> round(float(ov.theory.plateau.second_moment(beta=1.0, L=1000) / (s**2).mean()), 3)
    0.999
    """
    beta, L = check.number("beta", beta, above=0), check.count("L", L)
    return float(L * zeta(2 + 2 * beta) / zeta(1 + beta) ** 2)
