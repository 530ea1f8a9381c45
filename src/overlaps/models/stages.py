"""Several tasks one after the other: one model for each interval of the learning time."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, Function, Immutable, check
from .._base.signatures import Variants
from .equations import Equations
from .features import check_features
from .frozen import checked_stages, distill, without_frozen
from .mixed import Mixed, check_alike
from .model import Model
from .schedule import in_model
from .state import reciprocal


class Stages(Variants, Immutable):
    r"""Several models that one network learns one after the other: curricula, continual learning.

    All tasks have the same state. Its M teacher units are the teachers of all tasks, and ``v_star`` of stage i selects
    its own (zeros for others). The error of every task is then a function of the same overlaps, at all times. Stages
    may differ in ``v_star``, the teachers' activation, rates, noise, weight decay, drift, batch size, and in the
    eigenvalues of the inputs. At a switch :math:`s_l \to s'_l` the state becomes

    .. math:: r^l \to \frac{s'_l}{s_l}\, r^l, \qquad \tau^l \to \Big(\frac{s'_l}{s_l}\Big)^2 \tau^l, \qquad
              T \to \sum_l \tau^l / s'_l .

    Parameters
    ----------
    models : sequence of Model
        One for each stage, with the same K, M, activation of the students, and p and basis of the spectrum.
    until : array_like, shape (n,)
        Increasing times at which the stages end; the first one begins at 0. The time of a switch belongs to the stage
        that begins there, the last time to the last stage.
    heads : array_like, shape (n, K), optional
        A second layer for every task: stage i begins with ``heads[i]``, and trains it if the model trains its second
        layer. By default all tasks have the same second layer.
    teacher : sequence of None or ``ov.previous_student``, optional
        With ``ov.previous_student``, the labels of the stage are the output of the student at the end of the stage
        before, frozen (:func:`distill`).
    students : sequence of None, "copy" or array_like (K, K), optional
        Students at the beginning of such a stage: a copy of the frozen ones, or new ones with this Q.

    Raises
    ------
    ValueError
        Models that do not agree; ``until`` that does not increase; heads of another shape; eigenvalues that vanish in
        some of the stages only (s_l = 0 leaves r^l undetermined).

    Notes
    -----
    ``solve`` and ``simulate`` take Stages in place of a model. Q, R and the students are continuous at a switch; v,
    eps_g and T may jump. Exact for N -> infinity, like each stage.

    References
    ----------
    Lee, Goldt and Saxe (2021), ICML, for tasks in sequence and heads of their own.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> tasks = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[30.0, 60.0])
    >>> T = [[1.0, 0.4], [0.4, 1.0]]
    >>> start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=[[0.1, 0.02], [0.03, 0.08]], T=T)
    >>> traj = ov.solve(stages, start, [30.0, 60.0])
    >>> traj.task_error(0).round(4), traj.stage
    (array([0.0081, 0.2078]), array([1, 1]))
    """

    models: Any
    until: Any
    heads: Any = None
    teacher: Any = None
    students: Any = None

    def __post_init__(self):
        if isinstance(self.models, Model) or not np.iterable(self.models) or not list(self.models):
            raise check.refused("models", self.models, "a sequence of models, one for each stage.")
        for i, model in enumerate(self.models):
            if not isinstance(model, Model | Mixed):
                raise check.refused(f"models[{i}]", model, "a Model, or a Mixed.")
        models = tuple(check_features("Stages", model, name=f"models[{i}]") for i, model in enumerate(self.models))
        until = check.array("until", self.until, (len(models),), "One end for each of the models.")
        if until[0] <= 0 or np.any(np.diff(until) <= 0):
            raise check.refused("until", until.tolist(), "increasing times > 0.")
        for i, model in enumerate(models):
            _check_goes_on(models[0], model, i)
        if self.heads is not None and any(isinstance(model, Mixed) for model in models):
            raise ValueError("heads of Stages with mixed tasks among them; expected heads= of each Mixed, or none.")
        if self.heads is not None:
            heads = check.array("heads", self.heads, (len(models), models[0].K), "One second layer for each model.")
            models = tuple(replace(model, v=v) for model, v in zip(models, heads, strict=True))
            self._set(heads=heads)
        teacher, students = checked_stages(models, self.teacher, self.students)
        self._set(models=models, until=until, teacher=teacher, students=students)

    def equations(self) -> list[Equations]:
        """The equations of each stage, see :meth:`overlaps.Model.equations`."""
        return [model.equations() for model in self.models]

    def __len__(self) -> int:
        return len(self.models)

    @property
    def combinations(self) -> tuple[str, ...]:
        """Names of features: "Stages", and "distilled" if the student of a stage is the teacher of the next."""
        return ("Stages", "distilled") if any(x is not None for x in self.teacher) else ("Stages",)

    @property
    def K(self) -> int:
        """Number of student units."""
        return self.models[0].K

    @property
    def M(self) -> int:
        """Number of teacher units, all tasks together."""
        return self.models[0].M

    @property
    def trains_v(self) -> bool:
        """Whether the second layer changes."""
        return self.heads is not None or any(model.trains_v for model in self.models)

    def index(self, alpha: ArrayLike) -> Any:
        """Stage at time alpha, or stages at an array of times."""
        stage = np.searchsorted(self.until[:-1], check.times("alpha", alpha), side="right")
        return stage if np.ndim(alpha) else int(stage)

    def begin(self, i: int) -> float:
        """The time at which stage i begins."""
        return 0.0 if i == 0 else float(self.until[i - 1])

    def segments(self, begin: float, end: float, land: Function = float) -> Any:
        """(stage, its beginning, its end) of the intervals from ``begin`` to ``end``; ``land`` rounds switches."""
        if end > self.until[-1]:
            raise ValueError(
                f"alpha = {end:g} lies beyond the last stage, which ends at {self.until[-1]:g}; expected earlier times."
            )
        for i in range(self.index(begin), self.index(end) + 1):
            last = end if i + 1 == len(self) else min(end, land(self.until[i]))
            yield i, max(begin, land(self.begin(i))), last

    def in_turn(
        self, start: Any, times: Any, wanted: Any, schedule: Any, results: list, land: Function = float
    ) -> Iterator[tuple[Model, Any, Any, Any]]:
        """(model, start, times, schedule) of the stages one by one; the caller appends each result to ``results``.

        Each stage continues from the last of ``results``, unless this one stopped before its end. ``start`` is a State
        or one for each run, at ``times[0]``; ``wanted`` are the output times, or None for all steps of the solver.
        """
        for i, first, last in self.segments(times[0], times[-1], land):
            if results:
                result = results[-1]
                if not result.success or result.alpha[-1] < first:
                    return
                start = [result.state(run, -1) for run in range(len(result))] if result.is_ensemble else result[-1]
            if results or first <= self.begin(i):  # a start inside a stage has the second layer of this stage
                several = isinstance(start, list | tuple)
                start = [self.enter(i, state) for state in start] if several else self.enter(i, start)
            model = self.models[i]
            if self.teacher[i] is not None and (results or first <= self.begin(i)):
                model, start = self._distilled(i, start)
            inside = times[(times > first) & (times < last)]
            alpha = (first, last) if wanted is None and last > first else np.unique(np.r_[first, inside, last])
            yield model, start, alpha, self.scheduled(i, schedule)

    def _distilled(self, i, start):
        """Model and start of a stage with the previous student as teacher; runs must have equal second layers."""
        states = start if isinstance(start, list | tuple) else [start]
        if any(not np.array_equal(x.v, states[0].v) for x in states):
            raise ValueError("runs differ in trained second layers, hence in labels; expected eta_v = 0, or one run.")
        pairs = [distill(self.models[i], x, Q=self.students[i]) for x in states]
        starts = [replace(state, alpha=x.alpha) for (_, state), x in zip(pairs, states, strict=True)]
        return pairs[0][0], starts if isinstance(start, list | tuple) else starts[0]

    def scheduled(self, i: int, schedule: Any) -> Any:
        """The schedule of stage i, without numbers that are zero in this stage but not in all."""
        if not isinstance(schedule, dict):
            return schedule
        anywhere = {name for model in self.models for name in schedule if in_model(model, name) > 0}
        return {x: f for x, f in schedule.items() if x not in anywhere or in_model(self.models[i], x) > 0}

    def rescaled(self, i: int, j: int, r: Floats, tau: Floats, T: Floats) -> Any:
        """Arrays r, tau, T of stage i (with any leading axes) in units of the eigenvalues of stage j."""
        old, new = self.models[i].spectrum.s, self.models[j].spectrum.s
        if np.array_equal(old, new):
            return r, tau, T
        ratio = np.divide(new, old, out=np.ones_like(old), where=old > 0)[:, None, None]
        tau = ratio**2 * tau
        return ratio * r, tau, np.tensordot(reciprocal(new), tau, (0, -3))

    def enter(self, i: int, state: Any) -> Any:
        """The state with which stage i begins, from one of the end of stage i - 1 or of stage i; None for None."""
        if state is None:
            return None
        state = without_frozen(state, self.M) if state.M > self.M else state
        v = state.v if self.heads is None else self.heads[i]
        model = self.models[i]
        if state.s is None or np.array_equal(state.s, model.spectrum.s):
            return replace(state, v=v)
        r, tau, T = self.rescaled(i - 1, i, state.r, state.tau, state.T)
        return replace(state, r=r, tau=tau, T=T, v=v, s=model.spectrum.s)

    def __repr__(self):
        ends = ", ".join(f"{model} until {end:g}" for model, end in zip(self.models, self.until, strict=True))
        return f"Stages({ends})"


def _check_goes_on(first, model, i):
    """Raise ``ValueError`` if a model cannot continue from a state of the first one."""
    (one, s), (other, other_s) = ((x.tasks[0], x.spectrum.s) for x in (first, model))
    kind = type(one) is not type(other) or (one.latent_teacher and not np.array_equal(s, other_s))
    check_alike(first, model, i, differ={"heads": first.v.shape != model.v.shape, "kind of data": kind})
    if not np.array_equal(s > 0, other_s > 0):
        raise ValueError(
            f"models[{i}].spectrum has eigenvalues 0 at other places than that of models[0]; expected the same, since "
            "r^l is lost where s_l = 0."
        )
