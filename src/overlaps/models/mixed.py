"""Tasks mixed in one step: every sample belongs to one of several tasks."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, Immutable, check
from .._base.signatures import Variants
from .equations import Equations, equations_of
from .features import check_features
from .model import Model
from .schedule import N_CHECKED_TIMES, Schedule
from .start import checked_start
from .state import State


class Mixed(Variants, Immutable):
    r"""Several tasks, one of which is drawn for every sample: replay, interleaving, imbalance.

    A sample belongs to task i with probability :math:`\pi_i`, independently of its input. As in :class:`Stages`, the
    teachers of all tasks are the M units of one state, and ``v_star`` of task i selects its own. Tasks may differ in
    ``v_star``, the teachers' activation, rates, noise and eigenvalues :math:`s^i_l` of the inputs. With A, B, C of
    :func:`overlaps.closure` for each task and plain overlaps,

    .. math:: \frac{dr^l}{d\alpha} = \sum_i \pi_i s^i_l (A_i r^l + B_i t^l), \qquad
              \frac{dq^l}{d\alpha} = \sum_i \pi_i \big[ s^i_l (A_i q^l + q^l A_i^T + B_i r^{lT} + r^l B_i^T)
              + s^i_l p_l C_i/b \big]

    Parameters
    ----------
    models : sequence of Model
        The tasks, of equal K, M, activation of the students, p and basis of the spectrum, weight decay and batch size,
        without drift.
    shares : array_like or sequence of Schedule
        Their probabilities: n numbers >= 0 that sum to 1, or n schedules. For two tasks one Schedule, that of the first
        task, suffices.
    heads : array_like, shape (n, K), optional
        A separate second layer for every task, trained on the samples of this task only: v is then (n, K) in states,
        and (times, n, K) in results. By default all tasks have the same second layer, that of the start.

    Raises
    ------
    ValueError
        Models that do not agree; shares below 0, or that do not sum to 1; heads of another shape; an eigenvalue that
        vanishes in the first task only; learning rules, classes, spheres, drift, teachers of latents.

    Notes
    -----
    Supported by ``solve``, ``simulate``, ``fluctuations``, ``optimal_schedule`` and in :class:`Stages`. Overlaps q, r,
    tau are in units of the eigenvalues of ``models[0]``. eps_g is the mean :math:`\sum_i \pi_i \epsilon_i`;
    ``traj.task_error(i)`` is the error of task i at all times. Exact for N -> infinity. The flow is linear in the
    shares: it is the same for batches drawn sample by sample and for batches with b_i samples of task i.

    References
    ----------
    Lee, Mannelli and Saxe (2022), arXiv:2205.09029; Mori et al. (2024), arXiv:2409.18061, for replay.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> tasks = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
    >>> T = [[1.0, 0.4], [0.4, 1.0]]
    >>> start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=[[0.1, 0.02], [0.03, 0.08]], T=T)
    >>> traj = ov.solve(ov.Mixed(tasks, [0.7, 0.3]), start, [0.0, 30.0])
    >>> traj.task_error(0).round(4), traj.task_error(1).round(4)
    (array([0.2198, 0.0641]), array([0.2322, 0.1439]))
    """

    models: Any
    shares: Any
    heads: Any = None

    def __post_init__(self):
        if isinstance(self.models, Model) or not np.iterable(self.models) or len(list(self.models)) < 2:
            raise check.refused("models", self.models, "two models or more, one for each task.")
        models = tuple(check.model(model, f"models[{i}]") for i, model in enumerate(self.models))
        for i, model in enumerate(models):
            check_features("Mixed", model, name=f"models[{i}]")
        for i, model in enumerate(models):
            check_alike(models[0], model, i, ("weight_decay", "batch_size", "gradient_flow"))
            if np.any((models[0].spectrum.s == 0) & (model.spectrum.s > 0)):
                raise ValueError(
                    f"models[{i}].spectrum is positive where an eigenvalue of models[0] is 0, and overlaps in its "
                    "units are lost; expected the task with all variances first."
                )
        self._set(models=models)
        if self.heads is not None:
            shape = (len(models), models[0].K)
            self._set(heads=check.array("heads", self.heads, shape, "One second layer for each task."))
        shares = (self.shares,) if isinstance(self.shares, Schedule) else self.shares
        if np.iterable(shares) and any(isinstance(x, Schedule) for x in shares):
            shares = tuple(check.kind("shares", f, Schedule, "ov.Schedule([0, 20], [1, 0])") for f in shares)
            if len(shares) != len(models) and not len(shares) == 1 == len(models) - 1:
                raise ValueError(f"shares holds {len(shares)} schedules; expected one for each of {len(models)} tasks.")
        else:
            shares = check.array("shares", shares, (len(models),), "One probability for each task.")
        self._set(shares=shares)
        self.probe(0.0, self.knots[-1] if self.knots.size else 0.0)

    def __len__(self) -> int:
        return len(self.models)

    def __getattr__(self, name):
        # attributes common to all tasks: sizes, activation of students, the spectrum that sets the units of overlaps
        if name.startswith("_") or "models" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.models[0], name)

    @property
    def _static_factors(self):
        return self.models[0]._static_factors

    def _static_overlaps(self, state):
        return self.models[0]._static_overlaps(state)

    def equations(self) -> Equations:
        """The equations of the mean flow, see :meth:`overlaps.Model.equations`."""
        return equations_of(self)

    @property
    def tasks(self) -> tuple:
        """The models; every model has this attribute."""
        return self.models

    @property
    def combinations(self) -> tuple[str, ...]:
        """Names of the features that are due to mixing."""
        return ("Mixed",) if self.heads is None else ("Mixed", "heads")

    @property
    def v(self) -> Floats:
        """Second layer, or those of all tasks (n, K)."""
        return self.models[0].v if self.heads is None else self.heads

    @property
    def trains_v(self) -> bool:
        """Whether a second layer is learned."""
        return any(model.trains_v for model in self.models)

    @property
    def schedules(self) -> tuple:
        """The schedules among the shares."""
        return self.shares if isinstance(self.shares, tuple) else ()

    @property
    def knots(self) -> Floats:
        """Knots of all shares."""
        return np.unique(np.concatenate([*(f.knots for f in self.schedules), []]))

    def at(self, alpha: ArrayLike) -> Floats:
        """Shares (n, ...) at times alpha."""
        alpha = np.asarray(alpha, dtype=float)
        if not self.schedules:
            return np.multiply.outer(self.shares, np.ones_like(alpha))
        shares = np.array([f(alpha) for f in self.schedules])
        return np.concatenate([shares, 1 - shares]) if len(shares) < len(self) else shares

    def probe(self, begin: float, end: float) -> None:
        """Raise ``ValueError`` if shares are no probabilities at a time in [begin, end]."""
        times = np.unique(np.r_[np.linspace(begin, end, N_CHECKED_TIMES), self.knots])
        # largest deviation of the sum of shares from 1, that of thirds written with 12 digits
        shares, tol = self.at(times), 1e-12
        bad = ~((shares.min(axis=0) >= 0) & (np.abs(shares.sum(axis=0) - 1) <= tol))
        if np.any(bad):
            where = int(np.argmax(bad))
            raise ValueError(
                f"shares are {check.shown(shares[:, where].tolist())} at alpha = {times[where]:g}; expected numbers "
                ">= 0 whose sum is 1."
            )

    @property
    def ratios(self) -> Floats:
        """Variances (n, L) of each task relative to those of the first."""
        first = self.models[0].spectrum.s
        return np.array([np.divide(x.spectrum.s, first, out=np.ones_like(first), where=first > 0) for x in self.models])

    def of(self, i: int, v: Floats) -> Floats:
        """The second layer (..., K) of task i, from v (..., K) or (..., n, K) of a state or of records."""
        return v if self.heads is None else v[..., i, :]

    def enter(self, start: State) -> State:
        """The start, checked, with the heads of the tasks unless it has its own."""
        v = check.state(start).v
        if self.heads is not None and v.shape != self.heads.shape:
            v = self.heads
        elif self.heads is None and v.ndim > 1:
            raise ValueError(f"start: v has shape {v.shape}, a second layer for each task; expected heads= in Mixed.")
        return replace(checked_start(self.models[0], replace(start, v=self.models[0].v, model=None)), v=v, model=self)

    def __repr__(self):
        shares = self.schedules or self.shares.tolist()
        heads = "" if self.heads is None else ", own heads"
        return f"Mixed({', '.join(map(str, self.models))}; shares {check.shown(shares)}{heads})"


def check_alike(first, model, i, names=(), differ=()):
    """Raise ``ValueError`` unless a model is a task for the network of the first one, with the same eigenspaces."""
    one, other = first.spectrum, model.spectrum
    bases = [np.zeros(0) if x.basis is None else x.basis for x in (one, other)]
    differ = {name: getattr(first, name) != getattr(model, name) for name in ("K", "M", "activation", *names)} | {
        "spectrum.p": not np.array_equal(one.p, other.p),
        "spectrum.basis": not np.array_equal(bases[0], bases[1]),
        **dict(differ),
    }
    for name in (name for name, wrong in differ.items() if wrong):
        raise ValueError(
            f"models[{i}] = {model} and models[0] = {first} differ in {name}; expected one network on inputs with the "
            "same eigenspaces. Teachers of all tasks are units of every model, and v_star reads those of one."
        )
