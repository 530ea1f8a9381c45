"""Results of tasks mixed in one step: the records of solutions and runs, with the error on each task."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._base import check
from .._base.types import Floats
from ..flow.closure import rounding_floor
from ..models.mixed import Mixed
from .curves import _Blocks
from .ensemble import Ensemble
from .trajectory import Trajectory

__all__ = ["MixedEnsemble", "MixedTrajectory"]


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
