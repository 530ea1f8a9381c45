"""Result of a simulation: independent runs of finite-N SGD."""

from typing import ClassVar

import numpy as np

from .._base import Floats, check
from ..models.features import check_features
from ..models.state import State
from ..stability.plateaus import Plateau, find
from .curves import Runs, _Blocks, first_below


class Ensemble(Runs, _Blocks, kw_only=True):
    """Independent runs of finite-N SGD, recorded at common times; made by :func:`overlaps.simulate`.

    Attributes
    ----------
    model : Model
        The learning problem.
    alpha : ndarray, shape (n,)
        Recorded times, whole steps / N.
    Q, R, v, eps_g : ndarray, shape (runs, n, K, K), (runs, n, K, M), (runs, n, K), (runs, n)
        Order parameters of each run, computed from its weights; eps_g is the exact error for these overlaps, not an
        estimate.
    q, r : ndarray, shape (runs, n, L, K, K), (runs, n, L, K, M)
        Block overlaps as in :class:`overlaps.State`.
    tau, T : ndarray, shape (runs, L, M, M), (runs, M, M)
        Teacher constants of each run.
    m, h, nu : ndarray, shape (runs, n, L, K, C), (runs, L, M, C), (runs, M, C), or None
        Overlaps with the class means, for inputs in classes; ``mean_fields`` (runs, n, K, C) are the means of the
        student fields.
    test_error, test_error_se : ndarray, shape (runs, n), or None
        E[(yhat - y)^2] / 2 without label noise, on ``rows_test`` of ``simulate``, and its standard error.
    N : int
        Input dimension.
    success, message, method
        Whether all runs reached the end, a sentence about it, and the simulator.
    schedule, eta : Schedule or dict or None, ndarray, shape (n,)
        The argument ``schedule`` of ``simulate``, and the learning rate at the records.
    step : float or None
        Length of finite steps, the argument ``step`` of ``simulate``.

    Notes
    -----
    Exact at finite N, in law. Overlaps differ from the ODE by O(1/sqrt(N)).

    Examples
    --------
    >>> import overlaps as ov
    >>> runs = ov.simulate(ov.committee_machine(2, 2, eta=0.5), N=100, alpha=[0, 1, 2], rng=1, runs=3)
    >>> runs.R.shape, runs.mean("eps_g").shape, runs.start(0)
    ((3, 3, 2, 2), (3,), State(L=1, K=2, M=2, ...))
    """

    curves: ClassVar[tuple[str, ...]] = (*Runs.curves, "q", "r", "m", "mean_fields", "biases")

    def _curve(self, name):
        check.choice("name", name, self.curves)
        if name in ("m", "mean_fields", "biases") and self.m is None:
            raise ValueError(f"name = {name!r}; expected one of Q, R, v, eps_g, q, r: these inputs have no classes.")
        return super()._curve(name)

    def plateaus(self) -> "list[Plateau]":
        """Plateaus of the mean error over the runs, at its records; see :meth:`Trajectory.plateaus`.

        The search for saddles of the equations begins at the mean overlaps; begin and end of a plateau are records.
        *Heuristic* if the runs leave at different times. Raises a ValueError for a schedule.
        """
        check_features("plateaus", self.model, self.schedule, step=self.step)
        mean, rounding = self.mean("eps_g"), np.finfo(float).eps * np.ones(self.alpha.size)
        return find(self.model, self.alpha, mean, rounding, lambda i: self._state(i, lambda x: x.mean(axis=0)))

    def escape(self, level: float | None = None) -> Floats:
        """Times (runs,) at which eps_g of each run first falls below a level; nan if it does not.

        :func:`overlaps.analysis.escape_time.escape` predicts their distribution ``law``; compare it with
        ``runs.escape(law.level)``. Between records ln eps_g is interpolated by cubics.

        Parameters
        ----------
        level : float, optional
            eps_g to fall below; half of the first plateau of :meth:`plateaus` by default.

        Raises
        ------
        ValueError
            ``level`` is missing, and the mean error has no plateau.
        """
        if level is None:
            plateaus = self.plateaus()
            if not plateaus:
                raise ValueError("escape() without a level, and the mean error of runs has no plateau; pass level=.")
            level = plateaus[0].height / 2
        level = check.number("level", level, above=0)
        return np.array([first_below(self.alpha, run, level) for run in self.eps_g])

    def _state(self, i, of_runs):
        """Return the state at record i, after the function ``of_runs`` of the overlaps of all runs (runs, ...)."""
        indices = {"q": i, "r": i, "v": i, "m": i, "tau": ..., "T": i if self.changing else ..., "h": ..., "nu": ...}
        arrays = {name: of_runs(x[:, at]) for name, at in indices.items() if (x := getattr(self, name)) is not None}
        factors = self._factors_at(self.alpha[[i]])[0] if self.changing else None
        return State(**arrays, s=self.model.spectrum.s, alpha=self.alpha[i], factors=factors, model=self.model)

    def start(self, run: int = 0) -> State:
        """State at the start of run number ``run``; the ODE to compare with the run starts from it."""
        return self.state(run, 0)

    def state(self, run: int, i: int) -> State:
        """State of run number ``run`` at record ``i``."""
        run, i = check.index("run", run, len(self)), check.index("i", i, self.alpha.size)
        return self._state(i, lambda x: x[run])
