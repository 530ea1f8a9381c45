"""Results of a batch of integrations at common times."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._base import ArrayLike, Floats, Immutable, Integers, check, read_only
from .._base.signatures import Listed
from ..flow.binding import bind
from ..flow.packing import Packing
from ..models.schedule import Schedule
from ..models.state import gram
from ..stability.plateaus import Plateau
from . import files, labelled, plotting
from .trajectory import SummedTrajectory, Trajectory


class Batch(Listed, Immutable, kw_only=True):
    """Solutions of many problems of one shape at common times; made by :func:`overlaps.solve_many`.

    Attributes
    ----------
    models : tuple of Model
        The b learning problems.
    alpha : ndarray, shape (n,)
        Output times, steps / N.
    Q, R, v, eps_g : ndarray, shape (b, n, K, K), (b, n, K, M), (b, n, K), (b, n)
        Order parameters and generalisation error; nan after the end of a trajectory.
    success, end, nfev : ndarray, shape (b,)
        Whether each integration reached its end or met its stop condition, the time of its last record (where it
        stopped), and its evaluations of the right-hand side.
    status : ndarray, shape (b,)
        As ``Trajectory.status``: 0 at the last time, 1 where ``stop`` was met, -1 before.
    message, method, solver : tuple
        For each trajectory: a sentence about its end, the integrator as in ``Trajectory.method``, and its class.
    rtol, atol, blocks
        Tolerances, and whether the overlaps of every block are stored.
    records, ends : ndarray, shape (b, n, size + 1), (b, size + 1)
        Packed overlaps, or with ``blocks=False`` their sums over blocks, at the output times and at the end, followed
        by ``Trajectory.eps_error``. They take 8 b (n + 1) (size + 1) bytes, with size = L (K M + K (K + 1) / 2), plus
        K if v is trained (L = 1 with ``blocks=False``); for inputs in classes M + C replaces M.
    start_v, tau, T : ndarray, shape (b, K), (b, L, M, M), (b, M, M)
        Second layers at the start, and teacher constants.
    h, nu : ndarray, shape (b, L, M, C), (b, M, C), or None
        Overlaps of teachers and class means, for inputs in classes; ``mean_fields`` (b, n, K, C) are the means of the
        student fields.
    schedule : Schedule, dict, tuple of them, or None
        The argument of ``solve_many``: one for all trajectories, or one for each.
    step : float or None
        Length of finite steps, as in :class:`Trajectory`.

    Notes
    -----
    Exact for N -> infinity, to the tolerances of the integration. ``batch[i]`` is the :class:`Trajectory` (or
    :class:`~overlaps.results.trajectory.SummedTrajectory`) that ``ov.solve`` returns for problem i.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> models = [model.replace(eta=eta) for eta in (0.2, 0.5, 1.0)]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), [0, 5, 10])
    >>> batch.Q.shape, batch.eps_g.shape, batch[2] == ov.solve(models[2], batch[2][0], [0, 5, 10])
    ((3, 3, 2, 2), (3, 3), True)
    """

    models: tuple
    alpha: np.ndarray
    records: np.ndarray
    ends: np.ndarray
    end: np.ndarray
    start_v: np.ndarray
    tau: np.ndarray
    T: np.ndarray
    success: np.ndarray
    message: tuple
    nfev: np.ndarray
    method: tuple
    solver: tuple
    rtol: float
    atol: float
    blocks: bool
    schedule: Schedule | dict | tuple | None = None
    step: float | None = None
    h: np.ndarray | None = None
    nu: np.ndarray | None = None
    _hides: ClassVar[tuple[str, ...]] = "ends", "records", "solver", "start_v"
    is_ensemble: ClassVar[bool] = False

    def __post_init__(self):
        self._set(**{x: read_only(a) for x, a in vars(self).items() if isinstance(a, np.ndarray)})

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self.models)

    @property
    def status(self) -> Integers:
        """How each integration ended (b,): 0 at the last time, 1 where ``stop`` was met, -1 before."""
        return np.where(self.success, self.end < self.alpha[-1], -1)

    @property
    def _packing(self):
        first = self.models[0]
        packing = Packing(first.spectrum.L, first.K, first.second_layers.size, first.trains_v)
        return packing if self.blocks else packing.summed

    def _sums(self, records, eigenvalues):
        """Return Q, and R followed by the means of the fields, of packed records (b, n, size + 1)."""
        q, r, _ = self._packing.unpack(records[..., :-1])
        if self.blocks:
            return np.einsum("bl,bnlij->bnij", eigenvalues, q), r.sum(axis=-3)
        return q[:, :, 0], r[:, :, 0]

    @property
    def _eigenvalues(self):
        return np.array([model.spectrum.s for model in self.models])

    @property
    def Q(self) -> Floats:
        """Covariance of the student fields (b, n, K, K)."""
        return self._sums(self.records, self._eigenvalues)[0]

    @property
    def R(self) -> Floats:
        """Covariance of student and teacher fields (b, n, K, M)."""
        return self._sums(self.records, self._eigenvalues)[1][..., : self.models[0].M]

    @property
    def mean_fields(self) -> Floats:
        """Means of the student fields in each class (b, n, K, C); only for inputs in classes."""
        self._check_classes("mean_fields")
        return self._sums(self.records, self._eigenvalues)[1][..., self.models[0].M :]

    @property
    def v(self) -> Floats:
        """Second layers of the students (b, n, K)."""
        K = self.models[0].K
        if self.models[0].trains_v:
            return self.records[..., -1 - K : -1]
        return np.where(np.isnan(self.records[..., :1]), np.nan, self.start_v[:, None])

    @cached_property
    def eps_g(self) -> Floats:
        """Generalisation error E[(yhat - y)^2] / 2 without the noise (b, n)."""
        if self.models[0].n_classes:
            return self._curve_of_each(lambda traj: traj.eps_g)
        result, first, eigenvalues = np.full(self.records.shape[:2], np.nan), self.models[0], self._eigenvalues
        closure, v, v_star = bind(first, second_order=False), self.v, np.array([x.v_star for x in self.models])
        # Chunks of trajectories, because the covariances of ten thousand would take gigabytes. The covariances of one
        # chunk have at most this many numbers. Halved: equally fast; doubled: twice the memory.
        max_numbers = 10**5
        size = max(max_numbers // (self.alpha.size * max(self.records.shape[2], (first.K + first.M) ** 2)), 1)
        for i in range(0, len(self), size):
            chunk = slice(i, i + size)
            Q, R = self._sums(self.records[chunk], eigenvalues[chunk])
            S = gram(Q, R, self.T[chunk, None])
            w = np.concatenate([v[chunk], np.broadcast_to(-v_star[chunk, None], (*Q.shape[:2], first.M))], axis=-1)
            reached = np.isfinite(Q[..., 0, 0])
            result[chunk][reached] = np.maximum(closure.errors(S[reached], w[reached]), 0.0)
        return read_only(result)

    def classification_error(self) -> Floats:
        """Probability (b, n) that the output has the wrong sign, as :meth:`Trajectory.classification_error`.

        Raises
        ------
        ValueError
            The model has a teacher, or a label is zero.
        AttributeError
            The inputs have no classes.
        """
        self._check_classes("classification_error")
        return self._curve_of_each(lambda traj: traj.classification_error())

    def _check_classes(self, name):
        if not self.models[0].n_classes:
            raise AttributeError(f"{name}: the inputs of these models have no classes; see ov.gaussian_mixture.")

    def _curve_of_each(self, curve):
        """A curve of every trajectory at the output times (b, n)."""
        reached = np.isfinite(self.records[..., 0])
        result = np.full(reached.shape, np.nan)
        for i in np.flatnonzero(reached.any(axis=1)):
            result[i, reached[i]] = curve(self[int(i)])[: reached[i].sum()]
        return read_only(result)

    def plateaus(self) -> "list[list[Plateau]]":
        """Plateaus of every trajectory, see :meth:`Trajectory.plateaus`; none if the integration did not begin."""
        return [[] if np.isnan(end[0]) else self[i].plateaus() for i, end in enumerate(self.ends)]

    def escape(self, N: int, level: float | None = None, **options: Any) -> list:
        """Distributions of the escape time of SGD at input dimension N; see :meth:`Trajectory.escape`.

        Parameters
        ----------
        N : int
            Input dimension.
        level : float, optional
            The escape is the time at which eps_g falls below it; by default half of the plateau of each trajectory.
        **options
            ``points``, ``rng``.

        Returns
        -------
        list of EscapeLaw
        """
        return [self[i].escape(N, level, **options) for i in range(len(self))]

    def __iter__(self) -> Iterator[SummedTrajectory | Trajectory]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> SummedTrajectory | Trajectory:
        """Trajectory number ``i``, as ``ov.solve`` returns it."""
        i = check.index("i", i, len(self))
        if np.isnan(self.ends[i, 0]):
            raise ValueError(f"batch[{i}]: {self.message[i]}")
        reached = ~np.isnan(self.records[i, :, 0])
        alpha, records = self.alpha[reached], self.records[i, reached]
        if not alpha.size or self.end[i] != alpha[-1]:  # it stopped between output times, or before the first
            alpha, records = np.append(alpha, self.end[i]), np.vstack([records, self.ends[i]])
        q, r, v = self._packing.unpack(records[:, :-1])
        model = self.models[i]
        v = v if model.trains_v else np.broadcast_to(self.start_v[i], (len(records), model.K))
        common: dict[str, Any] = {
            "model": model, "alpha": alpha, "v": v, "T": self.T[i], "success": bool(self.success[i]),
            "stopped": bool(self.status[i] == 1),
            "message": self.message[i], "nfev": int(self.nfev[i]), "method": self.method[i], "rtol": self.rtol,
            "atol": self.atol, "solver": self.solver[i], "eps_error": records[:, -1],
            "schedule": self.schedule[i] if isinstance(self.schedule, tuple) else self.schedule, "step": self.step,
        }  # fmt: skip
        if self.h is not None and self.nu is not None:
            common |= {"h": self.h[i], "nu": self.nu[i]}
        if self.blocks:
            return Trajectory(q=q, tau=self.tau[i], **model.split_rows(r), **common)
        return SummedTrajectory(Q=q[:, 0], R=r[:, 0], **common)

    save = files.save
    plot = plotting.plot_batch
    to_pandas = labelled.frame_of_batch

    def to_xarray(self, **coords: ArrayLike) -> Any:
        """Return a labelled dataset; see :func:`overlaps.results.labelled.from_batch`."""
        return labelled.from_batch(self, coords)

    def __repr__(self):
        n = int(np.sum(self.success))
        state = "success" if n == len(self) else f"{n} of {len(self)} succeeded"
        return f"Batch({len(self)} x {self.models[0]}, n={self.alpha.size}, {state})"
