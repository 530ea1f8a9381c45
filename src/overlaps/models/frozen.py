"""Frozen students: as additional units of the teacher, or with trained directions added to their weights."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from .._base import ArrayLike, Immutable, by_name, check, read_only
from .._base.signatures import Variants
from ..activations.library import sign
from .equations import Equations, equations_of
from .features import check_features
from .model import Model
from .schedule import Schedule
from .start import checked_start
from .state import State, gram, of_state


class _Previous:
    """The student of the stage before, as a teacher in :class:`overlaps.Stages`."""

    def __repr__(self):
        return "ov.previous_student"

    def __reduce__(self):
        return "previous_student"  # unpickling returns the object of this module


previous_student = _Previous()


@by_name("ov.distill(model, state)")
def distill(
    model: Model, state: State, *, Q: ArrayLike | str | None = None, weight: float = 1.0
) -> tuple[Model, State]:
    r"""A new student that learns from a frozen one: distillation, self-training, weak to strong.

    Labels are :math:`(1 - a)\, y + a\, \hat y_1` with the output :math:`\hat y_1` of the student of ``state``, which is
    frozen. Its units are additional teachers. The plain overlaps and second layers are

    .. math:: T' = \begin{pmatrix} q_1 & r_1 \\ r_1^T & t \end{pmatrix}, \qquad v^{*\prime} = (a\, v_1, (1 - a)\, v^*)

    Parameters
    ----------
    model : Model
        The new student, of any K, with its rates and label noise, and the true teacher, M and ``v_star``.
    state : State
        The student that is frozen: any record of a committee machine with these teachers.
    Q : array_like, shape (K, K) or (L, K, K), or "copy", optional
        Start of the new student: covariance of its fields, for weights independent of the eigenspaces, or plain block
        overlaps; its second layer is the model's. By default orthogonal units of weight variance 1, without overlaps
        with teachers and frozen units. "copy" starts from the frozen weights and second layer.
    weight : float
        Weight a of the frozen student in the labels, between 0 and 1.

    Returns
    -------
    model : Model
        With K1 + M teachers: the frozen units first, then the true ones.
    state : State
        The start, at alpha = 0.

    Raises
    ------
    ValueError
        A state of other teachers or inputs; frozen units of another activation than the teacher's; teachers that drift,
        classes, latents, learning rules.

    Notes
    -----
    Exact for N -> infinity: the result is an ordinary committee machine, for ``solve``, ``simulate`` and all others.
    The errors relative to the true teacher and to the frozen student are functions of the same overlaps:
    ``traj.against(v_star)`` with (0, v*) or (v1, 0). For hard labels of one frozen unit use teachers of signs.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> first = ov.committee_machine(2, 2, eta=0.8, noise=0.3)
    >>> start = ov.State.from_overlaps(first, Q=np.eye(2) / 2, R=[[0.3, 0.1], [0.1, 0.2]], T=np.eye(2))
    >>> record = ov.solve(first, start, [10.0])[0]
    >>> model, begin = ov.distill(ov.committee_machine(3, 2, eta=0.8), record, Q=0.3 * np.eye(3))
    >>> traj = ov.solve(model, begin, [0.0, 30.0])
    >>> traj.R.shape, traj.against([0, 0, 1, 1]).round(4)
    ((2, 3, 4), array([0.5557, 0.0499]))
    """
    check_features("distilled", model)
    state, a = check.state(state, "state"), check.number("weight", weight, least=0, most=1)
    L, K, M, K1 = model.spectrum.L, model.K, model.M, state.K
    if (state.L, state.M) != (L, M) or state.m is not None or state.v.ndim > 1:
        raise ValueError(f"state = {state}; expected one with L = {L} and M = {M}, the teachers of the model.")
    hard = model.teacher_activation == sign
    if not hard and model.activation != model.teacher_activation:
        raise ValueError(
            f"students of {model.activation} and teachers of {model.teacher_activation}; expected one activation, "
            "because a frozen student is a teacher; or ov.sign as that of the teachers, for hard labels."
        )
    if hard and K1 > 1:
        raise ValueError(f"hard labels of a student of K = {K1} units; expected one. Others take an ov.Rule.")
    q, r, t = state.plain
    v1 = np.sign(state.v) if hard else state.v
    rows = {"t": gram(q, r, t), "r": np.zeros((L, K, K1 + M)), "v": model.v}
    if isinstance(Q, str):
        check.choice("Q", Q, ("copy",))
        if K != K1:
            raise ValueError(f"Q = 'copy' of K = {K1} units for a model of K = {K}; expected equal numbers.")
        rows |= {"q": q, "r": np.concatenate([q, r], axis=2), "v": state.v}
    else:
        s, p = model.spectrum.s, model.spectrum.p[:, None, None]
        if Q is None or check.axes("Q", Q) == 2:
            fresh = s @ model.spectrum.p * np.eye(K) if Q is None else check.array("Q", Q, (K, K))
            Q = p * fresh / (s @ model.spectrum.p)
        rows["q"] = check.array("Q", Q, (L, K, K))
    new = replace(model, v_star=np.concatenate([a * v1, (1 - a) * model.v_star]), frozen=K1 + model.frozen)
    return new, State.from_blocks(new, **rows)


def without_frozen(state: State, M: int) -> State:
    """The state with the last M of its teachers only."""
    return replace(state, r=state.r[..., -M:], tau=state.tau[..., -M:, -M:], T=state.T[-M:, -M:])


def checked_stages(models: Any, teacher: Any, students: Any) -> tuple:
    """Checked (teacher, students) of :class:`overlaps.Stages`, one entry for each stage."""
    n = len(models)
    arguments = (
        ("teacher", teacher, "None or ov.previous_student"),
        ("students", students, "None, 'copy' or Q (K, K)"),
    )
    for name, value, expected in arguments:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == n):
            raise check.refused(name, value, f"{expected} for each of {n} stages.")
    teacher, students = ((None,) * n if x is None else tuple(x) for x in (teacher, students))
    if any(x is not None and x is not previous_student for x in teacher):
        raise check.refused("teacher", teacher, f"None or ov.previous_student for each of {n} stages.")
    for i, (label, begins) in enumerate(zip(teacher, students, strict=True)):
        if (label is None) != (begins is None) or (i == 0 and label is not None):
            raise ValueError(
                f"stage {i} has teacher {label} and students {check.shown(begins)}; expected both or none, and none in "
                "stage 0: with ov.previous_student 'copy' or Q (K, K). For students of another K call ov.distill."
            )
        if label is not None:
            check_features("distilled", models[i], name=f"models[{i}]")
    K = models[0].K
    return teacher, tuple(
        x if isinstance(x, str | None) else check.array(f"students[{i}]", x, (K, K)) for i, x in enumerate(students)
    )


class LowRank(Variants, Immutable):
    """A frozen student plus trained directions; constructed by :func:`low_rank`.

    Attributes
    ----------
    model : Model
        The network whose weights are adapted.
    rank : int
        Number of directions.
    eta_a : float
        Rate of their amplitudes.
    write : ndarray, shape (rank, K), or None
        How forces reach the directions; None for the transpose of the amplitudes.
    pull : ndarray, shape (rank, rank + K + M), callable or None
        Pull on the directions by directions, frozen students and teachers, or a function of alpha.
    """

    model: Model
    rank: int
    eta_a: float
    write: Any = None
    pull: Any = None

    shows = "{0.model}, rank={0.rank}, eta_a={0.eta_a:g}{0._memory}"

    def __post_init__(self):
        check_features("low_rank", self.model)
        if self.write is not None:
            self._set(write=check.array("write", self.write, (self.rank, self.model.K)))
        if self.pull is not None and not callable(self.pull):
            self._set(pull=read_only(check.floats("pull", self.pull)))
            self.probe(0.0, 0.0)

    @property
    def combinations(self) -> tuple[str, ...]:
        """Names of the features that are due to directions."""
        return ("low_rank",) if self.pull is None else ("low_rank", "pull")

    @property
    def _memory(self):
        pull = "" if self.pull is None else ", pull(alpha)" if callable(self.pull) else ", pull"
        return ("" if self.write is None else ", write") + pull

    @property
    def schedules(self) -> tuple:
        """The schedule of the pull, at whose knots steps end."""
        rate = getattr(self.pull, "rate", None)
        return (rate,) if isinstance(rate, Schedule) else ()

    def pulled(self, alpha: float) -> Any:
        """The pull (rank, rank + K + M) at alpha."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a rate 1/alpha is inf at 0, and refused
            return np.asarray(self.pull(np.float64(alpha)), float) if callable(self.pull) else self.pull

    def probe(self, begin: float, end: float) -> None:
        """Raise ``ValueError`` if the pull is wrong at the begin, the middle or the end of an interval."""
        times = np.linspace(begin, end, 3) if callable(self.pull) else [begin] if self.pull is not None else []
        for alpha in times:
            name = f"pull({alpha:g})" if callable(self.pull) else "pull"
            shape = self.rank, self.rank + self.model.K + self.model.M
            value = check.array(name, self.pulled(alpha), shape, "Columns: directions, frozen students, teachers.")
            if np.any(value[:, self.rank :]) and self.model.spectrum.s.min() == 0:
                raise ValueError(
                    f"{name} has entries in the columns of frozen students or teachers, and an eigenvalue of the "
                    "inputs is 0, where a state has no overlaps of these; expected zeros there, or eigenvalues > 0."
                )

    def __getattr__(self, name):
        if name.startswith("_") or "model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.flow, name)

    def equations(self) -> Equations:
        """The equations of directions and amplitudes, see :meth:`overlaps.Model.equations`."""
        return equations_of(self)

    @property
    def _static_factors(self):
        return self.flow._static_factors

    def _static_overlaps(self, state):
        return self.flow._static_overlaps(state)

    @cached_property
    def flow(self) -> Model:
        """The model in which the directions are students, and frozen students and teachers are static rows."""
        base = self.model
        return replace(base, v=np.ones(self.rank), v_star=np.concatenate([-base.v, base.v_star]), eta_v=self.eta_a)

    def enter(self, start: State) -> State:
        """The start, checked; its v are the amplitudes (K, rank)."""
        start = checked_start(self.flow, start)
        check.array("v", start.v, (self.model.K, self.rank), "Amplitudes of the directions.")
        return start._with_model(self)

    def places(self, a):
        """The map (..., K + M, rank + K + M) to the network's fields from all rows, at amplitudes a (..., K, rank)."""
        a = np.asarray(a)
        n = self.model.K + self.model.M
        rest = np.broadcast_to(np.eye(n), (*a.shape[:-2], n, n))
        of_teachers = np.zeros((*a.shape[:-2], self.model.M, self.rank))
        return np.concatenate([np.concatenate([a, of_teachers], axis=-2), rest], axis=-1)


@of_state
@by_name("ov.low_rank(state, a=a, X=X)")
def low_rank(
    model: Model, state: State, *, a: ArrayLike, X: ArrayLike, G: ArrayLike | None = None, eta_a: float = 0.0,
    write: ArrayLike | None = None, pull: ArrayLike | Callable[[float], ArrayLike] | None = None,
) -> tuple[LowRank, State]:  # fmt: skip
    r"""A frozen student plus trained directions, :math:`w_k = w^0_k + \sum_r a_{kr} u_r`, which may have a memory.

    The directions learn with the model's eta, the amplitudes are fixed or learn like a second layer,

    .. math:: u_r \mathrel{+}= \sum_k a_{kr} F_k\, x/\sqrt N, \qquad
              a_{kr} \mathrel{+}= \frac{\eta_a}{\eta N} F_k\, u_r \cdot x/\sqrt N

    so that with A, B, C of the network at :math:`Q = a X a^T + a G_0 + (a G_0)^T + Q_0`, :math:`R = a G_* + R_0`,

    .. math:: A_u = a^T A a, \quad B_u = a^T [A\; B], \quad C_u = a^T C a, \quad
              \frac{da}{d\alpha} = \frac{\eta_a}{\eta} \big[ A (a X + G_0^T) + B G_*^T \big]

    With ``write`` b, forces reach the directions by b instead of :math:`a^T`: :math:`A_u = b A a`,
    :math:`B_u = b\, [A\; B]`, :math:`C_u = b C b^T`. A ``pull`` (D, E) moves the directions at every step along
    themselves and along static rows z, the frozen students and teachers. Averages and momentum need no more
    (``ov.memory``):

    .. math:: u_r \mathrel{+}= \frac1N \Big[\sum_i D_{ri} u_i + \sum_m E_{rm} z_m\Big], \qquad
              \dot r^l \mathrel{+}= D r^l + E \tau^l/s_l, \quad
              \dot q^l \mathrel{+}= D q^l + q^l D^T + (E r^{lT} + r^l E^T)/s_l

    Parameters
    ----------
    model : Model
        The network, with the rate of the directions; its second layer is fixed. By default the model of the state.
    state : State
        The frozen student and the teachers: any record of a committee machine of these sizes.
    a : array_like, shape (K, rank)
        Amplitudes at the start.
    X : array_like, shape (rank, rank) or (L, rank, rank)
        Covariance of the directions' fields, for directions independent of the eigenspaces; or plain overlaps.
    G : array_like, shape (rank, K + M) or (L, rank, K + M), optional
        Covariance of the directions' fields with those of frozen students and teachers; zeros by default. For L > 1
        plain overlaps.
    eta_a : float
        Rate of the amplitudes; 0 keeps them fixed.
    write : array_like, shape (rank, K), optional
        Weights b with which the forces of the K units reach the directions; the transpose of a by default.
    pull : array_like, shape (rank, rank + K + M), or callable, optional
        Pull (D, E) per unit alpha, or a function of alpha (a float) that returns one. Columns are directions, frozen
        students, teachers. A schedule on eta does not multiply it.

    Returns
    -------
    model : LowRank
        For ``solve`` and ``simulate``.
    state : State
        The start, at alpha = 0; its v are the amplitudes.

    Raises
    ------
    ValueError
        Wrong shapes, overlaps that no real vectors have, a second layer that is trained, teachers that drift, classes,
        latents, learning rules. A pull that is not finite, or on static rows if an eigenvalue of the inputs is 0.

    Notes
    -----
    Exact for N -> infinity, for every spectrum, activation and schedule. ``traj.reading_error(a)`` is the error of
    other networks that read the directions, such as averages. ``traj.Q``, ``traj.R``, ``traj.eps_g`` are
    those of the adapted weights, ``traj.u`` (n, rank, rank) and ``traj.a`` (n, K, rank) those of the directions. With
    rank K, a fixed orthogonal a and u = 0 at the start, this is the training of all weights; another invertible a
    corresponds to another metric. A weight decay acts on the directions, not on the frozen weights beside them.
    ``simulate`` of a pull is direct.

    References
    ----------
    Hu et al. (2021), arXiv:2106.09685.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> network = ov.committee_machine(2, 2, eta=0.8)
    >>> state = ov.State.from_overlaps(network, Q=np.eye(2) / 2, R=[[0.3, 0.1], [0.1, 0.2]], T=np.eye(2))
    >>> model, start = ov.low_rank(network, state, a=[[0.8], [0.6]], X=[[1.0]], eta_a=0.5)
    >>> traj = ov.solve(model, start, [0.0, 20.0])
    >>> traj.Q.shape, traj.a.shape, bool(traj.eps_g[1] < traj.eps_g[0])
    ((2, 2, 2), (2, 2, 1), True)
    """
    return directions(model, state, a, X, G, eta_a, write, pull)


def directions(model, state, a, X, G=None, eta_a=0.0, write=None, pull=None, begin=0.0):
    """Return the pair of :func:`low_rank`, for a start at the time ``begin``."""
    check_features("low_rank", model)
    state, K, M, L = checked_start(model, state, "state"), model.K, model.M, model.spectrum.L
    if state.v.ndim > 1:
        raise ValueError(f"state: v has shape {state.v.shape}, a second layer for each task; expected one, (K,).")
    a = check.array("a", a, (K, "rank"))
    rank, s, p = a.shape[1], model.spectrum.s[:, None, None], model.spectrum.p[:, None, None]
    if check.axes("X", X) == 2:
        X = p * check.array("X", X, (rank, rank)) / np.sum(s * p)
    G = np.zeros((L, rank, K + M)) if G is None else G
    if L == 1 and check.axes("G", G) == 2:
        G = check.array("G", G, (rank, K + M))[None] / s
    X, G = check.array("X", X, (L, rank, rank)), check.array("G", G, (L, rank, K + M), "Plain overlaps.")
    adapted = LowRank(replace(model, v=state.v), rank, check.number("eta_a", eta_a, least=0), write, pull)
    if callable(pull):
        adapted.probe(begin, begin + 1)
    return adapted, adapted.enter(State(q=X, r=s * G, tau=s**2 * gram(*state.plain), T=state.S, v=a, alpha=begin))
