"""Results of composite models: tasks in sequence, tasks mixed in each step, directions that adapt a frozen student.

A result of Stages contains one result for each stage; its curves join those of the stages.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, check, read_only
from ..flow.closure import rounding_floor
from ..models import LowRank, Mixed, Stages
from ..models.state import gram
from . import labelled
from .curves import Statistics, Views, _Blocks, _error
from .ensemble import Ensemble
from .trajectory import Trajectory

__all__ = [
    "LowRankEnsemble", "LowRankTrajectory", "MixedEnsemble", "MixedTrajectory", "StagedEnsemble", "StagedTrajectory",
]  # fmt: skip


def _joined_curve(name, axis=None, *, doc):
    """Return a property that joins a curve of all stages."""
    return property(lambda self: self._joined([getattr(result, name) for result in self.parts], axis), doc=doc)


class _Staged(Views, kw_only=True):
    """Base of solutions and runs of Stages: ``parts`` are the results of the stages, shown at the times in alpha."""

    model: Stages
    alpha: np.ndarray
    parts: tuple
    to_xarray = labelled.from_stages

    def __post_init__(self):
        self._set(alpha=read_only(self.alpha))

    @property
    def _first(self):
        """Index of the stage of ``parts[0]``, in which the result begins."""
        return self.model.index(self.parts[0].alpha[0])

    def _shown(self, k):
        """Return the shown records of ``parts[k]``; a record at a switch belongs to the stage that begins there."""
        i, alpha = self._first + k, self.parts[k].alpha
        of_stage = alpha < self.model.until[i] if i + 1 < len(self.model) else np.full(alpha.shape, True)
        return np.flatnonzero(of_stage & np.isin(alpha, self.alpha))

    def _joined(self, curves, axis=None):
        """Join the curves of all stages, along the records, to one array."""
        axis = int(self.is_ensemble) if axis is None else axis
        return np.concatenate([np.take(x, self._shown(k), axis) for k, x in enumerate(curves)], axis)

    @property
    def stage(self):
        """Index of the stage at each record (n,)."""
        return self._joined([np.full(result.alpha.shape, self._first + k) for k, result in enumerate(self.parts)], 0)

    Q = _joined_curve("Q", doc="Covariance of the student fields (..., n, K, K).")

    @property
    def R(self):
        """Covariance of student and teacher fields (..., n, K, M)."""
        return self._joined([result.R[..., -self.model.M :] for result in self.parts])

    v = _joined_curve("v", doc="Second layer in use (..., n, K).")

    eps_g = _joined_curve("eps_g", doc="Generalisation error on the task of the stage at that time (..., n).")

    eta = _joined_curve("eta", 0, doc="Learning rate (n,): that of the stage, times the factor of the schedule.")

    def task_error(self, i: int, j: int | None = None) -> Floats:
        """Generalisation error on the task of stage i at all times (..., n), with its own inputs and readout.

        If all tasks share one readout, the current one is used. If each task has its own head, it is ``heads[i]``
        before stage i, the current v during it, and v at its end afterwards; nan if the result begins after the stage
        and the stage trained its head.

        Parameters
        ----------
        i : int
            Index of the stage.
        j : int, optional
            Index of the task, of a stage of :class:`overlaps.Mixed` tasks.

        Raises
        ------
        ValueError
            A stage of mixed tasks without j, or another one with it.
        """
        i = check.index("i", i, len(self.model))
        model = self.model.models[i]
        if (j is None) == (len(model.tasks) > 1):
            expected = f"task_error({i}, j), one of its {len(model.tasks)} tasks" if j is None else f"task_error({i})"
            raise ValueError(f"j = {j} for stage {i}, {check.shown(model)}; expected {expected}.")
        return self._error_on(i, None if j is None else check.index("j", j, len(model.tasks)))

    def _error_on(self, i, task=None):
        """Return the error on one task of stage i, or on all, weighted by their shares, at all times."""
        return self._joined([self._stage_error(i, k, task) for k in range(len(self.parts))])

    def _stage_error(self, i, k, task):
        """Return ``_error_on`` at all records of ``parts[k]``."""
        result, j = self.parts[k], self._first + k
        v = np.broadcast_to(self._readout(i, k), result.v.shape)
        if np.any(np.isnan(v) & ~np.isnan(result.v)):
            return np.full(v.shape[:-1], np.nan)
        M = self.model.M  # the teachers are the last M entries, after the frozen students
        r, tau, T = self.model.rescaled(j, i, result.r[..., -M:], result.tau[..., -M:, -M:], result.T[..., -M:, -M:])
        result = replace(result, model=self.model.models[i], v=v, r=r, tau=tau, T=T)
        return result.eps_g if task is None else result._of_task(task)

    def _readout(self, i, k):
        """Return the readout of task i at the records of ``parts[k]``."""
        model, j = self.model, self._first + k
        if model.heads is None or i == j:
            return self.parts[k].v
        if i > j:
            return model.heads[i]
        if i >= self._first:
            return self.parts[i - self._first].v[..., -1:, :]
        return np.full(model.K, np.nan) if model.models[i].trains_v else model.heads[i]

    def plateaus(self):
        """Plateaus of all stages in order, each on its own task; see :meth:`overlaps.results.Trajectory.plateaus`."""
        return [plateau for result in self.parts if result.alpha.size > 1 for plateau in result.plateaus()]

    @property
    def success(self):
        """Whether all stages reached their end."""
        return all(result.success for result in self.parts)

    @property
    def stopped(self):
        """Whether the condition ``stop`` was met before the last time."""
        return self.parts[-1].stopped

    @property
    def message(self):
        """Message of the last stage."""
        return self.parts[-1].message

    @property
    def schedule(self):
        """Schedules of the stages; factors on rates that are zero in a stage are left out."""
        return tuple(result.schedule for result in self.parts)

    @property
    def method(self):
        """Methods of the stages."""
        return "; ".join(dict.fromkeys(result.method for result in self.parts))


class StagedTrajectory(_Staged, kw_only=True):
    """Solution of the order-parameter equations through several tasks; made by ``solve(stages, ...)``.

    Attributes
    ----------
    model : Stages
        The learning problems, and the times at which they end.
    alpha, stage : ndarray, shape (n,)
        Learning times, and the index of the stage; a record at a switch belongs to the stage that begins there.
    Q, R, v, eps_g, eta : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,), (n,)
        Order parameters, error on the task of the stage, learning rate.
    eps_floor : ndarray, shape (n,)
        Size of the errors of eps_g.
    parts : tuple of Trajectory
        The solution of each stage; its records include its beginning and its end.
    success, message, nfev, method, schedule
        How the integration ended, and how it was computed.

    Notes
    -----
    As exact as a :class:`overlaps.results.Trajectory`.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[5.0, 10.0])
    >>> traj = ov.solve(stages, tasks[0].random_start(N=1000, rng=1), [0.0, 5.0, 10.0])
    >>> traj.stage, bool(traj.task_error(0)[2] > traj.task_error(0)[1])
    (array([0, 1, 1]), True)
    """

    eps_floor = _joined_curve("eps_floor", doc="Size (n,) of the errors of eps_g.")

    @property
    def nfev(self):
        """Number of evaluations of the right-hand side."""
        return sum(result.nfev for result in self.parts)

    def __getitem__(self, n):
        """State at record ``n``, in units of the eigenvalues of its stage."""
        n = check.index("i", n, len(self))
        ends = np.cumsum([len(self._shown(k)) for k in range(len(self.parts))])
        k = int(np.searchsorted(ends, n, side="right"))
        return self.parts[k][int(self._shown(k)[n - ends[k]])]

    def at(self, alpha):
        """State at time alpha, to the accuracy of the solution; see :meth:`overlaps.results.Trajectory.at`."""
        alpha = self._covered(alpha)
        return self.parts[self.model.index(alpha) - self._first].at(alpha)


class StagedEnsemble(Statistics, _Staged, kw_only=True):
    """Independent runs of finite-N SGD through several tasks; made by ``simulate(stages, ...)``.

    Attributes
    ----------
    model : Stages
        The learning problems, and the times at which they end.
    alpha, stage : ndarray, shape (n,)
        Recorded times, and the index of the stage: step m uses the model of time m / N.
    Q, R, v, eps_g : ndarray, shape (runs, n, K, K), (runs, n, K, M), (runs, n, K), (runs, n)
        Order parameters of each run, error on the task of the stage.
    parts : tuple of Ensemble
        The runs in each stage; their records include its beginning and its end.
    success, message, method, schedule, N
        How the runs ended, and how they were computed. A stage that not all runs finished is the last one.

    Notes
    -----
    Exact at finite N, in law. At a switch the direct simulator draws new weights with exactly the same overlaps,
    because the later dynamics depends only on these. Drifting teachers get their stationary overlaps again.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> runs = ov.simulate(ov.Stages(tasks, until=[1.0, 2.0]), N=100, alpha=[0, 1, 2], rng=1, runs=3)
    >>> runs.task_error(0).shape, runs.stage, runs.start(0)
    ((3, 3), array([0, 1, 1]), State(L=1, K=1, M=2, ...))
    """

    @property
    def N(self):
        """Input dimension."""
        return self.parts[0].N

    def start(self, run=0):
        """State at the start of run number ``run``; the ODE to compare with the run starts from it."""
        return self.parts[0].start(run)


def shown_times(results, requested):
    """Return the times of all stages: the ``requested`` ones that were reached, or all."""
    reached = np.unique(np.concatenate([result.alpha for result in results]))
    return reached if requested is None else reached[np.isin(reached, requested)]


class _OfTasks(_Blocks):
    """Base of solutions and runs of :class:`overlaps.Mixed` tasks."""

    def task_error(self: Any, i: int) -> Floats:
        """Generalisation error on task i at all times (..., n), on its own inputs and with its own readout.

        Parameters
        ----------
        i : int
            Index of the task.
        """
        return self._error_on(check.index("i", i, len(self.model.models)))

    _error_on = _Blocks._of_task


class MixedTrajectory(_OfTasks, Trajectory, kw_only=True):
    """Solution for tasks mixed in one step; made by ``solve(ov.Mixed(...), ...)``.

    Attributes
    ----------
    model : Mixed
        The learning problem.
    eps_g : ndarray, shape (n,)
        Mean error over the tasks, weighted by their shares at that time; ``task_error(i)`` is the error on one task.
    v : ndarray, shape (n, K), or (n, tasks, K)
        Second layer, or those of all tasks.
    alpha, Q, R, q, r, tau, T, ...
        As in :class:`overlaps.results.Trajectory`, in units of the eigenvalues of the first task.

    Notes
    -----
    As exact as a :class:`overlaps.results.Trajectory`.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> traj = ov.solve(ov.Mixed(tasks, [0.9, 0.1]), tasks[0].random_start(N=1000, rng=1), [0.0, 30.0])
    >>> bool(traj.task_error(0)[1] < traj.task_error(1)[1])
    True
    """

    model: Mixed  # type: ignore[assignment]

    @property
    def eps_floor(self) -> Floats:
        """Size (n,) of the errors of eps_g: rounding of the errors on the tasks, or the error of the integration."""
        floor = np.zeros(len(self))
        for i, fraction in enumerate(self.model.at(self.alpha)):
            floor += fraction * rounding_floor(self.model.models[i], *self._task(i))
        return self._floor(floor)


class MixedEnsemble(_OfTasks, Ensemble, kw_only=True):
    """Independent runs of SGD on tasks mixed in one step; made by ``simulate(ov.Mixed(...), ...)``.

    Attributes
    ----------
    model : Mixed
        The learning problem.
    eps_g : ndarray, shape (runs, n)
        Mean error over the tasks, weighted by their shares; ``task_error(i)`` is the error on one task.
    v : ndarray, shape (runs, n, K), or (runs, n, tasks, K)
        Second layer, or those of all tasks.
    alpha, Q, R, q, r, tau, T, N, ...
        As in :class:`overlaps.results.Ensemble`.

    Notes
    -----
    Exact at finite N, in law.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> ov.simulate(ov.Mixed(tasks, [0.5, 0.5]), N=100, alpha=[0, 1, 2], rng=1, runs=3).task_error(1).shape
    (3, 3)
    """

    model: Mixed  # type: ignore[assignment]


class _Adapted(_Blocks):
    """Base of solutions and runs of directions that adapt a frozen student."""

    @property
    def a(self):
        """Amplitudes (..., n, K, rank)."""
        return self.v

    @property
    def u(self):
        """Covariance of the fields of the directions (..., n, rank, rank)."""
        return super().Q

    @property
    def S(self):
        """Covariance of the adapted students and the teachers (..., n, K + M, K + M)."""
        P, T = self.model.places(self.v), self.T if self.changing else np.expand_dims(self.T, -3)  # type: ignore[attr-defined]
        return P @ gram(super().Q, super().R, T) @ np.swapaxes(P, -1, -2)

    @property
    def Q(self):
        """Covariance of the adapted students (..., n, K, K)."""
        K = self.v.shape[-2]
        return self.S[..., :K, :K]

    @property
    def R(self):
        """Covariance of the adapted students and the teachers (..., n, K, M)."""
        K = self.v.shape[-2]
        return self.S[..., :K, K:]

    def network(self) -> tuple:
        """The adapted network: model, covariance of its fields, second layer (..., n, K) at each record."""
        base: Any = self.model.model  # type: ignore[attr-defined]
        return base, self.S, np.broadcast_to(base.v, self.v.shape[:-1])

    @property
    def eps_g(self):
        """Generalisation error of the adapted network (..., n)."""
        return _error(*self.network())

    def reading_error(self, a: ArrayLike) -> Floats:
        """Generalisation error (..., n) of another network that reads the directions, such as their average.

        Parameters
        ----------
        a : array_like, shape (K, rank) or (rank / K,)
            Amplitudes in place of the model's; or one number for each family of K directions (``ov.memory``).

        Raises
        ------
        ValueError
            Another shape, or nan.

        Notes
        -----
        The steps of ``solve`` control the errors of the overlaps and of ``eps_g``, and this error through the overlaps.
        """
        K, rank = self.v.shape[-2:]
        if check.axes("a", a) == 1:
            hint = f"One number for each family of K = {K} directions; or amplitudes ({K}, {rank})."
            a = np.kron(check.array("a", a, (rank // K,), hint), np.eye(K))
        a = check.array("a", a, (K, rank))
        return _error(*replace(self, v=np.broadcast_to(a, self.v.shape)).network())


class LowRankTrajectory(_Adapted, Trajectory, kw_only=True):
    """Solution for directions that adapt frozen weights (:func:`overlaps.low_rank`); made by ``solve``.

    Attributes
    ----------
    model : LowRank
        The learning problem.
    Q, R, S, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K + M, K + M), (n,)
        Order parameters, covariance of all fields and error of the adapted weights.
    u, a : ndarray, shape (n, rank, rank), (n, K, rank)
        Covariance of the fields of the directions, and their amplitudes.
    q, r, tau, T, v : ndarray
        The variables of the flow: overlaps of the directions with each other, and with frozen students and teachers;
        v is a. A state ``traj[i]`` contains these, and its Q is ``traj.u[i]``.

    Notes
    -----
    As exact as a :class:`overlaps.results.Trajectory`.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(1, 1, eta=0.5)
    >>> state = ov.State.from_overlaps(network, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> traj = ov.solve(*ov.low_rank(network, state, a=[[1.0]], X=[[0.0]]), [0.0, 5.0])
    >>> bool(abs(traj.eps_g[1] - ov.solve(network, state, [5.0]).eps_g[0]) < 1e-8)
    True
    """

    model: LowRank  # type: ignore[assignment]

    @property
    def eps_floor(self):
        """Size (n,) of the errors of eps_g."""
        return self._floor(rounding_floor(*self.network()))


class LowRankEnsemble(_Adapted, Ensemble, kw_only=True):
    """Independent runs of SGD in directions that adapt frozen weights; made by ``simulate``.

    Attributes
    ----------
    model, Q, R, S, eps_g, u, a
        As in :class:`LowRankTrajectory`, with a leading axis of runs.

    Notes
    -----
    Exact at finite N, in law.

    Examples
    --------
    >>> import overlaps as ov
    >>> network = ov.committee_machine(1, 1, eta=0.5)
    >>> state = ov.State.from_overlaps(network, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> model, start = ov.low_rank(network, state, a=[[1.0]], X=[[1.0]])
    >>> ov.simulate(model, N=50, alpha=[0, 1], rng=1, runs=2, start=start).Q.shape
    (2, 2, 1, 1)
    """

    model: LowRank  # type: ignore[assignment]
