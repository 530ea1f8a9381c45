"""Results of several tasks in a row: one record of a solution or of runs for each stage, read as one."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._base import check
from .._base.record import read_only
from ..models.stages import Stages
from .curves import Statistics, Views

__all__ = ["StagedEnsemble", "StagedTrajectory"]


def _of_parts(name, axis=None, *, doc):
    """Property that joins a curve of the parts."""
    return property(lambda self: self._joined([getattr(part, name) for part in self.parts], axis), doc=doc)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Staged(Views):
    """Base of solutions and runs of Stages: ``parts`` one after the other, of which the times in alpha are shown."""

    model: Stages
    alpha: np.ndarray
    parts: tuple
    is_ensemble: ClassVar[bool] = False
    _labels: ClassVar[str] = "from_stages"
    _picture: ClassVar[str] = "plot_stages"

    def __post_init__(self):
        self.settle(alpha=read_only(self.alpha))

    @property
    def _first(self):
        """The stage in which the result begins, of ``parts[0]``."""
        return self.model.index(self.parts[0].alpha[0])

    def _rows(self, k):
        """Records of part k that are asked for; one at a switch belongs to the stage that begins there."""
        i, alpha = self._first + k, self.parts[k].alpha
        of_stage = alpha < self.model.until[i] if i + 1 < len(self.model) else np.full(alpha.shape, True)
        return np.flatnonzero(of_stage & np.isin(alpha, self.alpha))

    def _joined(self, curves, axis=None):
        """Curves of the parts, along the records, as one array."""
        axis = int(self.is_ensemble) if axis is None else axis
        return np.concatenate([np.take(x, self._rows(k), axis) for k, x in enumerate(curves)], axis)

    @property
    def stage(self):
        """Index of the stage at each record (n,)."""
        return self._joined([np.full(part.alpha.shape, self._first + k) for k, part in enumerate(self.parts)], 0)

    Q = _of_parts("Q", doc="Covariance of the student fields (..., n, K, K).")

    @property
    def R(self):
        """Covariance of student and teacher fields (..., n, K, M)."""
        return self._joined([part.R[..., -self.model.M :] for part in self.parts])

    v = _of_parts("v", doc="Second layer in use (..., n, K).")

    eps_g = _of_parts("eps_g", doc="Generalisation error on the task of the stage at that time (..., n).")

    eta = _of_parts("eta", 0, doc="Learning rate (n,): the stage's times the factor of the schedule.")

    def error(self, i):
        """Generalisation error on the task of stage i at all times (..., n), with its own inputs and readout.

        The readout is the present one where one serves all tasks. Heads of their own: ``heads[i]`` before stage i,
        the present v during it, the one at its end afterwards (nan if that was trained before the result begins).

        Parameters
        ----------
        i : int
            Index of the stage.
        """
        i = check.index("i", i, len(self.model))
        return self._joined([self._read(i, k) for k in range(len(self.parts))])

    def _read(self, i, k):
        """Error on task i at all records of part k."""
        part, j = self.parts[k], self._first + k
        v = np.broadcast_to(self._readout(i, k), part.v.shape)
        if np.any(np.isnan(v) & ~np.isnan(part.v)):
            return np.full(v.shape[:-1], np.nan)
        M = self.model.M  # frozen students stand before them
        r, tau, T = self.model.rescaled(j, i, part.r[..., -M:], part.tau[..., -M:, -M:], part.T[..., -M:, -M:])
        return replace(part, model=self.model.models[i], v=v, r=r, tau=tau, T=T).eps_g

    def _readout(self, i, k):
        """The readout of task i during part k."""
        model, j = self.model, self._first + k
        if model.heads is None or i == j:
            return self.parts[k].v
        if i > j:
            return model.heads[i]
        if i >= self._first:
            return self.parts[i - self._first].v[..., -1:, :]
        return np.full(model.K, np.nan) if model.models[i].trains_v else model.heads[i]

    def plateaus(self):
        """Plateaus of each stage in turn, on its own task; see :meth:`overlaps.Trajectory.plateaus`."""
        return [plateau for part in self.parts if part.alpha.size > 1 for plateau in part.plateaus()]

    @property
    def success(self):
        """Whether all stages reached their end."""
        return all(part.success for part in self.parts)

    @property
    def message(self):
        """The sentence about the last stage."""
        return self.parts[-1].message

    @property
    def schedule(self):
        """Schedules of the stages, as they were given: what a stage multiplies by zero is left out there."""
        return tuple(part.schedule for part in self.parts)

    @property
    def method(self):
        """How each of the stages was computed."""
        return "; ".join(dict.fromkeys(part.method for part in self.parts))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StagedTrajectory(_Staged):
    """Solution of the order-parameter equations through several tasks; made by ``solve(stages, ...)``.

    Attributes
    ----------
    model : Stages
        The learning problem, and when.
    alpha, stage : ndarray, shape (n,)
        Learning times, and the index of the stage there; a record at a switch belongs to the stage that begins there.
    Q, R, v, eps_g, eta : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,), (n,)
        Order parameters, error on the task of the moment, learning rate.
    eps_floor : ndarray, shape (n,)
        Size of the errors of eps_g.
    parts : tuple of Trajectory
        The solution of each stage, its beginning and end among the records.
    success, message, nfev, method, schedule
        How it ended, and how it was computed.

    Notes
    -----
    As exact as a :class:`overlaps.Trajectory`.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> stages = ov.Stages(tasks, until=[5.0, 10.0])
    >>> traj = ov.solve(stages, tasks[0].random_start(N=1000, rng=1), [0.0, 5.0, 10.0])
    >>> traj.stage, bool(traj.error(0)[2] > traj.error(0)[1])
    (array([0, 1, 1]), True)
    """

    def __len__(self):
        return self.alpha.size

    eps_floor = _of_parts("eps_floor", doc="Size (n,) of the errors of eps_g.")

    @property
    def nfev(self):
        """Number of evaluations of the right-hand side."""
        return sum(part.nfev for part in self.parts)

    def __getitem__(self, n):
        """State at record ``n``, in the eigenvalues of its stage."""
        n = check.index("i", n, len(self))
        ends = np.cumsum([len(self._rows(k)) for k in range(len(self.parts))])
        k = int(np.searchsorted(ends, n, side="right"))
        return self.parts[k][int(self._rows(k)[n - ends[k]])]

    def at(self, alpha):
        """State at time alpha, to the accuracy of the solution; see :meth:`overlaps.Trajectory.at`."""
        alpha = self._covered(alpha)
        return self.parts[self.model.index(alpha) - self._first].at(alpha)

    def __repr__(self):
        state = "success" if self.success else "FAILED"
        return (
            f"{type(self).__name__}({self.model}, alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, n={len(self)}, {state})"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StagedEnsemble(Statistics, _Staged):
    """Independent runs of finite-N SGD through several tasks; made by ``simulate(stages, ...)``.

    Attributes
    ----------
    model : Stages
        The learning problem, and when.
    alpha, stage : ndarray, shape (n,)
        Recorded times, and the index of the stage there: step m uses the model of time m / N.
    Q, R, v, eps_g : ndarray, shape (runs, n, K, K), (runs, n, K, M), (runs, n, K), (runs, n)
        Order parameters of each run, error on the task of the moment.
    parts : tuple of Ensemble
        The runs in each stage, its beginning and end among the records.
    success, message, method, schedule, N
        How the runs ended, and how they were made. A stage that not all runs finished is the last one.

    Notes
    -----
    Exact at finite N, in law. At a switch the direct simulator draws new weights with exactly the overlaps that were
    reached: what follows depends on nothing else. Teachers that drift are given their stationary overlaps again.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> runs = ov.simulate(ov.Stages(tasks, until=[1.0, 2.0]), N=100, alpha=[0, 1, 2], rng=1, runs=3)
    >>> runs.error(0).shape, runs.stage, runs.start(0)
    ((3, 3), array([0, 1, 1]), State(L=1, K=1, M=2, ...))
    """

    @property
    def N(self):
        """Input dimension."""
        return self.parts[0].N

    def start(self, run=0):
        """State in which run number ``run`` began: what the ODE should be started from to be compared with it."""
        return self.parts[0].start(run)


def shown(parts, wanted):
    """The times of all stages that are shown: those ``wanted`` that were reached, or all."""
    reached = np.unique(np.concatenate([part.alpha for part in parts]))
    return reached if wanted is None else reached[np.isin(reached, wanted)]
