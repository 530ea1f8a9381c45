"""Students that teach: a frozen student as further rows of the teacher."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._base import check
from .._base.types import ArrayLike
from ..activations.library import sign
from .model import Model
from .state import State, gram


class _Previous:
    """The student of the stage before, as a teacher in :class:`overlaps.Stages`."""

    def __repr__(self):
        return "ov.previous"

    def __reduce__(self):
        return "previous"  # the one of this module, in pickles, too


previous = _Previous()


def taught(model: Model, state: State, *, Q: ArrayLike | str | None = None, weight: float = 1.0) -> tuple[Model, State]:
    r"""A new student that learns from a frozen one: distillation, self-training, weak to strong.

    Labels are :math:`(1 - a)\, y + a\, \hat y_1` with the output :math:`\hat y_1` of the student of ``state``, which
    does not learn any more. Its units are static rows beside the teachers', in each block of plain overlaps

    .. math:: T' = \begin{pmatrix} q_1 & r_1 \\ r_1^T & t \end{pmatrix}, \qquad v^{*\prime} = (a\, v_1, (1 - a)\, v^*)

    Parameters
    ----------
    model : Model
        The new student, of any K, with rates and label noise of its own, and the true teacher, M and ``v_star``.
    state : State
        A record of the student that teaches: any of a trajectory of committee machines with these teachers.
    Q : array_like, shape (K, K) or (L, K, K), or "copy", optional
        The new student's start: covariance of its fields, for weights that know nothing of the eigenspaces, or plain
        block overlaps; its second layer is the model's. By default fresh units of weight variance 1, without overlaps.
        "copy" starts from the frozen weights and second layer.
    weight : float
        The part a of the taught labels, between 0 and 1.

    Returns
    -------
    model : Model
        With K1 + M teachers: the frozen units first, then the true ones.
    state : State
        The start, at alpha = 0.

    Raises
    ------
    ValueError
        A state of other teachers or inputs; frozen units of another activation than the teacher's; classes, latents,
        rules.

    Notes
    -----
    Exact for N -> infinity: the pair is a committee machine like any other, for ``solve``, ``simulate`` and the rest.
    The error on the truth, as on the frozen student, is a function of the same overlaps: ``traj.against(v_star)`` with
    (0, v*) or (v1, 0). A teacher of signs makes hard labels of one frozen unit.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> first = ov.committee_machine(2, 2, eta=0.8, noise=0.3)
    >>> start = ov.State.from_overlaps(first, Q=np.eye(2) / 2, R=[[0.3, 0.1], [0.1, 0.2]], T=np.eye(2))
    >>> record = ov.solve(first, start, [10.0])[0]
    >>> model, begin = ov.taught(ov.committee_machine(3, 2, eta=0.8), record, Q=0.3 * np.eye(3))
    >>> traj = ov.solve(model, begin, [0.0, 30.0])
    >>> traj.R.shape, traj.against([0, 0, 1, 1]).round(4)
    ((2, 3, 4), array([0.5557, 0.0499]))
    """
    check.needs(model, "taught")
    state, a = check.state(state, "state"), check.number("weight", weight, least=0)
    L, K, M, K1 = model.spectrum.L, model.K, model.M, state.K
    if a > 1:
        raise ValueError(f"weight = {a:g}; expected a share between 0 and 1.")
    if (state.L, state.M) != (L, M) or state.m is not None or state.v.ndim > 1:
        raise ValueError(f"state = {state}; expected one with L = {L} and M = {M}, the teachers of the model.")
    hard = model.teacher_activation == sign
    if not hard and model.activation != model.teacher_activation:
        raise ValueError(
            f"students of {model.activation} and teachers of {model.teacher_activation}; expected one activation: a "
            "frozen student is a teacher, or ov.sign as the teachers', for hard labels."
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
            own = s @ model.spectrum.p * np.eye(K) if Q is None else check.array("Q", Q, (K, K))
            Q = p * own / (s @ model.spectrum.p)
        rows["q"] = check.array("Q", Q, (L, K, K))
    new = replace(model, v_star=np.concatenate([a * v1, (1 - a) * model.v_star]))
    return new, State.from_blocks(new, **rows)


def without_frozen(state: State, M: int) -> State:
    """The state with the last M of its teachers alone."""
    return replace(state, r=state.r[..., -M:], tau=state.tau[..., -M:, -M:], T=state.T[-M:, -M:])


def turned(models: Any, teacher: Any, students: Any) -> tuple:
    """Checked (teacher, students) of stages, one entry for each."""
    n = len(models)
    both = (("teacher", teacher, "None or ov.previous"), ("students", students, "None, 'copy' or Q (K, K)"))
    for name, given, expected in both:
        if given is not None and not (isinstance(given, list | tuple) and len(given) == n):
            raise ValueError(f"{name} = {check.shown(given)}; expected {expected} for each of {n} stages.")
    teacher, students = ((None,) * n if x is None else tuple(x) for x in (teacher, students))
    if any(x is not None and x is not previous for x in teacher):
        raise ValueError(f"teacher = {check.shown(teacher)}; expected None or ov.previous for each of {n} stages.")
    for i, (one, own) in enumerate(zip(teacher, students, strict=True)):
        if (one is None) != (own is None) or (i == 0 and one is not None):
            raise ValueError(
                f"stage {i} has teacher {one} and students {check.shown(own)}; expected both or none, and none at "
                "first: with ov.previous 'copy' or Q (K, K). Students of another K: chain ov.taught by hand."
            )
        if one is not None:
            check.needs(models[i], "taught", f"models[{i}]")
    K = models[0].K
    checked = (
        x if isinstance(x, str | None) else check.array(f"students[{i}]", x, (K, K)) for i, x in enumerate(students)
    )
    return teacher, tuple(checked)
