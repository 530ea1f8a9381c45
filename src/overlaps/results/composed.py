"""Results of models made of others: tasks mixed in one step, and directions that adapt a frozen student."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._base import check
from .._base.types import Floats
from ..flow.closure import rounding_floor
from ..models.frozen import LowRank
from ..models.mixed import Mixed
from ..models.state import gram
from .curves import _Blocks, _error
from .ensemble import Ensemble
from .trajectory import Trajectory

__all__ = ["LowRankEnsemble", "LowRankTrajectory", "MixedEnsemble", "MixedTrajectory"]


class _OfTasks(_Blocks):
    """Base of solutions and runs of :class:`overlaps.Mixed` tasks."""

    _picture: ClassVar[str] = "plot_stages"

    def error(self: Any, i: int) -> Floats:
        """Generalisation error on task i at all times (..., n), on its own inputs and with its own readout.

        Parameters
        ----------
        i : int
            Index of the task.
        """
        return self._of_task(check.index("i", i, len(self.model.models)))

    def plateaus(self) -> Any:
        """Refused: a saddle of a mean flow is not looked for."""
        raise ValueError("plateaus() of mixed tasks, whose saddles are not looked for; expected a single task.")

    def escape(self, *_: Any, **__: Any) -> Any:
        """Refused, as ``plateaus``."""
        return self.plateaus()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixedTrajectory(_OfTasks, Trajectory):  # type: ignore[misc]  # error is a method here
    """Solution for tasks mixed in one step; made by ``solve(ov.Mixed(...), ...)``.

    Attributes
    ----------
    model : Mixed
        The learning problem.
    eps_g : ndarray, shape (n,)
        Mean error over the tasks in their shares at that time; ``error(i)`` is the error of one task.
    v : ndarray, shape (n, K), or (n, tasks, K)
        Second layer, or those of all tasks.
    alpha, Q, R, q, r, tau, T, ...
        As in :class:`overlaps.Trajectory`, in units of the eigenvalues of the first task.

    Notes
    -----
    As exact as a :class:`overlaps.Trajectory`.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> traj = ov.solve(ov.Mixed(tasks, [0.9, 0.1]), tasks[0].random_start(N=1000, rng=1), [0.0, 30.0])
    >>> bool(traj.error(0)[1] < traj.error(1)[1])
    True
    """

    model: Mixed  # type: ignore[assignment]

    @property
    def eps_floor(self) -> Floats:
        """Size (n,) of the errors of eps_g: rounding of each task's, or what the integrator has left."""
        floor = np.zeros(len(self))
        for i, share in enumerate(self.model.at(self.alpha)):
            floor += share * rounding_floor(self.model.models[i], *self._task(i))
        return floor if self.eps_error is None else np.maximum(floor, self.eps_error * np.maximum(self.eps_g, floor))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixedEnsemble(_OfTasks, Ensemble):
    """Independent runs of SGD on tasks mixed in one step; made by ``simulate(ov.Mixed(...), ...)``.

    Attributes
    ----------
    model : Mixed
        The learning problem.
    eps_g : ndarray, shape (runs, n)
        Mean error over the tasks in their shares; ``error(i)`` is the error of one task.
    v : ndarray, shape (runs, n, K), or (runs, n, tasks, K)
        Second layer, or those of all tasks.
    alpha, Q, R, q, r, tau, T, N, ...
        As in :class:`overlaps.Ensemble`.

    Notes
    -----
    Exact at finite N, in law.

    Examples
    --------
    >>> import overlaps as ov
    >>> tasks = [ov.committee_machine(1, 2, eta=0.5, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> ov.simulate(ov.Mixed(tasks, [0.5, 0.5]), N=100, alpha=[0, 1, 2], rng=1, runs=3).error(1).shape
    (3, 3)
    """

    model: Mixed  # type: ignore[assignment]


class _Adapted(_Blocks):
    """Base of solutions and runs."""

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

    def plateaus(self):
        """Refused: a saddle of directions is not looked for."""
        raise ValueError("plateaus() of an adapted network, whose saddles are not looked for.")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LowRankTrajectory(_Adapted, Trajectory):
    """Solution for directions beside frozen weights; made by ``solve`` for what :func:`overlaps.low_rank` returns.

    Attributes
    ----------
    model : LowRank
        The model that was learned.
    Q, R, S, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K + M, K + M), (n,)
        Those of the adapted weights.
    u, a : ndarray, shape (n, rank, rank), (n, K, rank)
        Covariance of the fields of the directions, and their amplitudes.
    q, r, tau, T, v : ndarray
        The arrays of the flow: overlaps of directions with themselves, with frozen students and teachers; v is a.

    Notes
    -----
    As exact as a :class:`overlaps.Trajectory`.

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
        return np.maximum(rounding_floor(*self.network()), self.eps_error * self.eps_g)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LowRankEnsemble(_Adapted, Ensemble):
    """Independent runs of SGD in directions beside frozen weights; made by ``simulate``.

    Attributes
    ----------
    model, Q, R, S, eps_g, u, a
        As those of :class:`LowRankTrajectory`, with a leading axis of runs.

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
