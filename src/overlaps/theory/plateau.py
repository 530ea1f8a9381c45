r"""The symmetric plateau of erf networks and the escape from it, for any spectrum and any teacher.

On the plateau all students are equal, :math:`w_k = \sum_n c_n w^*_n`: one student of weight K v at its fixed point. The
dynamics depends on the moments of the teacher, :math:`T^{(j)} = \sum_l s_l^j t^l`: T = T^(1) sets the heights,
T2 = T^(2) the rates of escape. Everything here is gradient flow (first order in eta), for students with equal output
weights v, and exact for N -> infinity where no approximation is named. Defaults are those of
``committee_machine(..., normalised=True)``: K = M, v = sqrt(M)/K, v* = 1/sqrt(M); the library's soft committee machine
has v = v* = 1. :func:`plateau` and :func:`symmetric_plateau` explain the parameters that functions share.

A *symmetric* teacher has equal diagonal entries T_nn = T1 and equal entries T_nm = D1/(M - 1) beside them: D1 is the
sum of a row without its diagonal entry.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, called [WR] below.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, root
from scipy.special import zeta

from .._base import ArrayLike, Floats, check, public_dir, warn
from ..activations.library import erf
from ..flow.closure import closure
from ..models import Model, State, committee_machine
from ..models.features import check_features
from ..models.state import of_state
from .cayley_hamilton.bases import order_parameters

__all__ = [
    "Heights", "curvature", "descent_time", "escape_matrix", "escape_rates", "escape_time", "length", "moments",
    "plateau", "plateau_state", "row_averages", "second_moment", "symmetric_plateau", "teacher_moments",
    "wide_escape_time",
]  # fmt: skip
__dir__ = public_dir(__name__)


class Heights(NamedTuple):
    """Heights of the symmetric plateau; made by :func:`plateau` and :func:`symmetric_plateau`.

    Attributes
    ----------
    c : ndarray, shape (M,)
        Every student is sum_n c_n w*_n.
    Q : float
        Q_kj of all pairs of students.
    R : ndarray, shape (M,)
        R_kn of all students k.
    eps_g : float
        Generalisation error.
    """

    c: np.ndarray
    Q: float
    R: np.ndarray
    eps_g: float


class Committee(NamedTuple):
    """Equal students with any teacher: covariance T (M, M) of its fields, K students of weight v, weights v* (M,)."""

    T: np.ndarray
    K: int
    v: float
    v_star: np.ndarray

    @classmethod
    def checked(cls, T, K, v, v_star):
        """From arguments of public functions."""
        T = _moment("T", T, "M")
        M = len(T)
        K, v, v_star = _layers(M, K, v, v_star)
        v_star = check.array("v_star", np.full(M, v_star) if check.axes("v_star", v_star) == 0 else v_star, (M,))
        if not np.any(v_star):
            raise ValueError("v_star is zero; expected a teacher with an output.")
        return cls(T, K, v, v_star)

    def closure(self, Q, R):
        """Closure at eta = 1 of one student that replaces all equal ones."""
        K, v, v_star = self[1:]
        one = committee_machine(1, len(self.T), activation=erf, v=[K * v], v_star=v_star, eta=1.0, gradient_flow=True)
        return closure(one, [[Q]], [R], self.T)

    def residual(self, c):
        """Velocity of the heights c, which is zero on the plateau."""
        f = self.closure(*moments(c, self.T))
        return f.A[0, 0] * c + f.B[0]

    def plateau(self):
        """The heights; the search starts at those of the nearest symmetric teacher."""
        T, v_star = self.T, self.v_star
        T1, D1 = row_averages(T)
        symmetric = _symmetric_c(len(T), max(T1, 1e-12), max(D1, -0.99 * max(T1, 1e-12)))
        end = root(self.residual, symmetric * v_star / np.mean(np.abs(v_star)), tol=1e-15)
        c = end.x
        Q, R = moments(c, T)
        error, f = np.max(np.abs(self.residual(c))), self.closure(Q, R)
        # the fixed-point equations hold to this fraction of their terms; larger: points that are no plateaus pass
        residual_tol = 1e-12
        if not error <= residual_tol * np.max(np.abs(f.B)):
            raise ValueError(
                f"no plateau of equal students was found: the residual is {error:.1e} "
                f"({' '.join(end.message.split())}). Expected teachers with output weights of one sign; check T and "
                "v_star."
            )
        return Heights(c, float(Q), R, max(f.eps_g, 0.0))  # rounding may make the difference negative


# heights --------------------------------------------------------------------------------------------------------------


def plateau(T: ArrayLike, *, K: int | None = None, v: float | None = None, v_star: ArrayLike | None = None) -> Heights:
    r"""Heights of the plateau for any teacher.

    .. math:: c\, A(Q, R) + B(Q, R) = 0, \qquad Q = c^T T c, \quad R = T c

    with the closure A (a number), B (M,) of one student of weight K v that replaces all. Exact for any blocks t^l with
    this T; if the search from the symmetric start finds none, a ``ValueError`` is raised. Replaces the approximations
    (95), (96) of [WR]; derived here.

    Parameters
    ----------
    T : array_like, shape (M, M)
        Covariance of the teacher fields, symmetric and positive semi-definite.
    K : int, optional
        Number of students; M by default.
    v : float, optional
        Output weight of every student, > 0; sqrt(M)/K by default.
    v_star : float or array_like, shape (M,), optional
        Output weights of the teacher; 1/sqrt(M) by default.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> point = ov.theory.plateau.plateau(np.eye(2))
    >>> round(point.Q, 12), point.R.round(6)  # 1/(2M - 1), 1/sqrt(M (2M - 1))
    (0.333333333333, array([0.408248, 0.408248]))
    """
    return Committee.checked(T, K, v, v_star).plateau()


def symmetric_plateau(
    M: int, *, T1: float = 1.0, D1: float = 0.0, K: int | None = None, v: float | None = None,
    v_star: float | None = None,
) -> "Heights":  # fmt: skip
    r"""Heights of the plateau for a symmetric teacher, in closed form.

    .. math:: Q = \frac{T_1 + D_1}{M(1 + T_1) - T_1 - D_1}, \qquad R = \sqrt{(T_1 + D_1)\,Q/M}, \qquad
       \frac{\pi\,\epsilon_g}{M v_*^2} = \arcsin\frac{T_1}{1+T_1} + (M-1)\arcsin\frac{D_1}{(M-1)(1+T_1)}
       - M \arcsin\frac{T_1+D_1}{M(1+T_1)}

    Source: [WR] Eqs. (13), (97) and (99), whose printed middle term depends on the convention for D.

    Parameters
    ----------
    M : int
        Number of teachers.
    T1, D1 : float
        Diagonal entry of T, and sum of the others in a row; -T1 < D1 <= (M - 1) T1, else no such teacher exists.
    K, v, v_star : optional
        As in :func:`plateau`, numbers; their products must balance, K v = M v*, as they do by default.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> round(plateau.symmetric_plateau(5).eps_g, 12)
    0.00724526452
    >>> round(plateau.symmetric_plateau(2, v=1.0, v_star=1.0).eps_g, 6)  # soft committee machine: M times as much
    0.011611
    """
    M, K, v, v_star, T1, D1 = _balanced(M, K, v, v_star, T1, D1)
    c = _symmetric_c(M, T1, D1)
    others = (M - 1) * np.arcsin(D1 / ((M - 1) * (1 + T1))) if M > 1 else 0.0
    angles = np.arcsin(T1 / (1 + T1)) + others - M * np.arcsin((T1 + D1) / (M * (1 + T1)))
    Q = (T1 + D1) / (M * (1 + T1) - T1 - D1)
    return Heights(np.full(M, c), float(Q), np.full(M, (T1 + D1) * c), float(M * v_star**2 * angles / np.pi))


def moments(c: ArrayLike, T: ArrayLike) -> tuple[Floats, Floats]:
    r"""Heights of a higher hierarchy, :math:`Q^{(j)} = c^T T^{(j)} c` and :math:`R^{(j)} = T^{(j)} c`.

    Exact, as :func:`plateau`; [WR] (98) is its average over students, with T^(l) + D^(l) in place of T^(l). Q has shape
    (...), R (..., M).

    Parameters
    ----------
    c : array_like, shape (M,)
        From :func:`plateau`.
    T : array_like, shape (..., M, M)
        Moments of the teacher, e.g. of :func:`teacher_moments`.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> plateau.moments([0.5, 0.5], [[2.0, 0.0], [0.0, 4.0]])
    (np.float64(1.5), array([1., 2.]))
    """
    c = check.array("c", c, ("M",), "One height for each teacher.")
    T = check.array("T", T, (..., c.size, c.size), f"c has shape {c.shape}.")
    R = T @ c
    return R @ c, R


def teacher_moments(state: State, orders: Sequence[int]) -> Floats:
    r"""Moments of the teacher, :math:`T^{(j)} = \sum_l s_l^j t^l`.

    Exact. For random teachers of dimension N, Var T^(j)_mn = (1 + delta_mn) <s^2j>/N; [WR] print <s^2> for every j. An
    array of shape (n, M, M).

    Parameters
    ----------
    state : State
        State with the blocks of the teacher and its eigenvalues (as of ``model.random_start`` and ``traj[-1]``).
    orders : sequence of int
        The orders j >= 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=4))
    >>> T, T2 = ov.theory.plateau.teacher_moments(model.random_start(N=400, rng=1, teacher="ideal"), [1, 2])
    >>> T2.round(6)  # the mean square eigenvalue
    array([[2.129114, 0.      ],
           [0.      , 2.129114]])
    """
    check.array("orders", orders, ("n",), "A sequence, such as [1, 2].", filled=True)
    return order_parameters(state, orders).T


def row_averages(T: ArrayLike) -> tuple[float, float]:
    """Mean diagonal entry and mean sum of the other entries of a row: (T1, D1) of the nearest symmetric teacher.

    Parameters
    ----------
    T : array_like, shape (M, M)
        A moment of the teacher.

    Examples
    --------
    >>> from overlaps.theory import plateau
    >>> plateau.row_averages([[1.0, 0.25], [0.25, 2.0]])
    (1.5, 0.25)
    """
    T = check.array("T", T, ("M", "M"))
    diagonal = np.mean(np.diag(T))
    return float(diagonal), float(np.mean(np.sum(T, axis=1)) - diagonal)


@of_state
def plateau_state(model: Model, start: State) -> State:
    r"""State on the plateau of a model, with the teacher of ``start``.

    .. math:: q^l_{kj} = c^T t^l c, \qquad r^l_{kn} = s_l (t^l c)_n

    It is a fixed point of the gradient flow; at finite eta a good guess for ``ov.fixed_point``.

    Parameters
    ----------
    model : Model
        erf students and teachers, equal v_k > 0, fixed second layer.
    start : State
        State with the blocks of the teacher.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(3, 3, eta=0.1, gradient_flow=True, spectrum=ov.power_law(beta=1.0, L=4))
    >>> state = ov.theory.plateau.plateau_state(model, model.random_start(N=400, rng=1))
    >>> bool(ov.linearise(model, state).residual < 1e-14)
    True
    """
    check_features("theory.plateau.plateau_state", model)
    codes = model.activation.code, model.teacher_activation.code  # not the names, which other activations may share
    if codes != (erf.code, erf.code) or np.ptp(model.v):
        raise ValueError(
            f"model = {model} with v = {model.v}; expected erf students and teachers (overlaps.erf itself), equal "
            "v_k > 0."
        )
    t = check.state(start).on(model).plain[2]
    T = np.tensordot(model.spectrum.s, t, axes=1)
    c = plateau(T, K=model.K, v=float(model.v[0]), v_star=model.v_star).c
    q, r = moments(c, t)
    shape = model.spectrum.L, model.K, model.K
    return State.from_blocks(
        model, q=np.broadcast_to(q[:, None, None], shape), r=np.repeat(r[:, None], model.K, 1), t=t
    )


# escape ---------------------------------------------------------------------------------------------------------------


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
    return -eta * _moment("T2", T2, len(S)) @ S


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
    values, vectors = np.linalg.eigh(_moment("T2", T2, len(S)))
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
    M, K, v, v_star, T1, D1 = _balanced(M, K, v, v_star, T1, D1)
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


# arguments ------------------------------------------------------------------------------------------------------------


def _symmetric_c(M, T1, D1):
    """C of a symmetric teacher: R/(T1 + D1)."""
    return 1 / np.sqrt(M * (M * (1 + T1) - T1 - D1))


def _layers(M, K, v, v_star):
    """K, v and v* with the defaults of ``committee_machine(..., normalised=True)``."""
    K = M if K is None else check.count("K", K)
    v = np.sqrt(M) / K if v is None else check.number("v", v, above=0, hint="One number: all v_k are equal.")
    return K, v, 1 / np.sqrt(M) if v_star is None else v_star


def _moment(name, T, M):
    """A moment of the teacher (M, M), symmetric and positive semi-definite."""
    T = check.array(name, T, (M, M))
    if len(T) == 0 or T.shape[0] != T.shape[1]:
        raise ValueError(f"{name} has shape {T.shape}; expected (M, M) with M >= 1.")
    check.symmetric(name, T)
    check.positive_semidefinite(name, T, "It is a covariance of the teachers.")
    return T


def _balanced(M, K, v, v_star, T1, D1):
    M = check.count("M", M)
    K, v, v_star = _layers(M, K, v, v_star)
    v_star = check.number("v_star", v_star, above=0, hint="One number: the teacher is symmetric; else use plateau(T).")
    if abs(K * v - M * v_star) > 1e-12 * M * v_star:
        raise ValueError(
            f"K v = {K * v:g} and M v* = {M * v_star:g}; the closed forms expect them equal. Use plateau(T, ...) and "
            "escape_rates(T, T2, ...) otherwise."
        )
    T1, D1 = check.number("T1", T1, above=0), check.number("D1", D1)
    if (M == 1 and D1) or not -T1 < D1 <= (M - 1) * T1:
        raise ValueError(
            f"D1 = {D1:g}; expected -T1 < D1 <= (M - 1) T1 = {(M - 1) * T1:g} (0 for M = 1): T is a covariance."
        )
    return M, K, v, v_star, T1, D1
