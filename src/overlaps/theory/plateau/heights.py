"""Heights of the symmetric plateau: of any teacher, of a symmetric one in closed form, and as a state.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import root

from ..._base import ArrayLike, Floats, check
from ...activations.library import erf
from ...flow.closure import closure
from ...models import Model, State, committee_machine
from ...models.features import check_features
from ...models.state import of_state
from ..cayley_hamilton.bases import order_parameters

__all__ = [
    "Heights", "moments", "plateau", "plateau_state", "row_averages", "symmetric_plateau", "teacher_moments",
]  # fmt: skip


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
        T = moment("T", T, "M")
        M = len(T)
        K, v, v_star = layers(M, K, v, v_star)
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
        symmetric = symmetric_c(len(T), max(T1, 1e-12), max(D1, -0.99 * max(T1, 1e-12)))
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
    M, K, v, v_star, T1, D1 = balanced(M, K, v, v_star, T1, D1)
    c = symmetric_c(M, T1, D1)
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


def symmetric_c(M, T1, D1):
    """C of a symmetric teacher: R/(T1 + D1)."""
    return 1 / np.sqrt(M * (M * (1 + T1) - T1 - D1))


def layers(M, K, v, v_star):
    """K, v and v* with the defaults of ``committee_machine(..., normalised=True)``."""
    K = M if K is None else check.count("K", K)
    v = np.sqrt(M) / K if v is None else check.number("v", v, above=0, hint="One number: all v_k are equal.")
    return K, v, 1 / np.sqrt(M) if v_star is None else v_star


def moment(name, T, M):
    """A moment of the teacher (M, M), symmetric and positive semi-definite."""
    T = check.array(name, T, (M, M))
    if len(T) == 0 or T.shape[0] != T.shape[1]:
        raise ValueError(f"{name} has shape {T.shape}; expected (M, M) with M >= 1.")
    check.symmetric(name, T)
    check.positive_semidefinite(name, T, "It is a covariance of the teachers.")
    return T


def balanced(M, K, v, v_star, T1, D1):
    """Checked numbers of a symmetric teacher, and of students whose output balances its own."""
    M = check.count("M", M)
    K, v, v_star = layers(M, K, v, v_star)
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
