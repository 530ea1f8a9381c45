"""Distance of simulated runs from a theory: the root mean square over logarithmically spaced times."""

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from .._base import ArrayLike, Floats, Immutable, by_name, check
from .trajectory import SummedTrajectory, Trajectory


class LogGrid(NamedTuple):
    """Default times of a comparison, equidistant in log(alpha)."""

    first: float = 0.1  # first time, or the end if that is earlier
    n: int = 60  # number of times


LOG_GRID = LogGrid()


class Discrepancy(Immutable, repr=True):
    """Distances of runs from the theory, entry by entry; made by :func:`overlaps.tlog_rmse`.

    Attributes
    ----------
    Q, R, v, eps_g : ndarray, shape (runs, K, K), (runs, K, M), (runs, K), (runs,)
        Distance of every entry of every run.
    alpha : ndarray, shape (n,)
        Times at which the two were compared.
    """

    Q: Any
    R: Any
    v: Any
    eps_g: Any
    alpha: Any
    _curves: ClassVar = "Q", "R", "v", "eps_g"  # names of the distances

    def mean(self, name: str) -> Floats:
        """Mean over the entries of ``name``, "Q", "R", "v" or "eps_g", for each run (runs,); 0 without entries."""
        values = getattr(self, name)
        values = values.reshape(len(values), -1)
        return values.sum(axis=1) / max(values.shape[1], 1)

    def __repr__(self):
        means = ", ".join(f"{name} {self.mean(name).mean():.3g}" for name in self._curves)
        return f"Discrepancy(runs={len(self.v)}, n={self.alpha.size}, mean over entries and runs: {means})"


def log_times(alpha_max, *, first=LOG_GRID.first, n=LOG_GRID.n):
    """Times for :func:`tlog_rmse`: 0 (the start), then n times between ``first`` and alpha_max, equidistant in log.

    Examples
    --------
    >>> from overlaps.results import discrepancy
    >>> discrepancy.log_times(10.0, n=3)
    array([ 0. ,  0.1,  1. , 10. ])
    """
    first, n = check.number("first", first, above=0), check.count("n", n, least=2)
    alpha_max = check.number("alpha_max", alpha_max, above=first)
    return np.concatenate([[0.0], np.geomspace(first, alpha_max, n)])


@by_name("ov.tlog_rmse(traj, runs)")
def tlog_rmse(
    theory: Any, simulation: Any, *, times: ArrayLike | None = None, variant: Literal["rmse", "printed_abs"] = "rmse"
) -> "Discrepancy":
    r"""Root-mean-square distance of runs from the theory over log-spaced times (tLog-RMSE), entry by entry.

    .. math:: \mathrm{tLogRMSE}(x) = \Big(\frac1n \sum_{i=1}^n (x(\alpha_i) - \hat x(\alpha_i))^2\Big)^{1/2}

    Parameters
    ----------
    theory : Trajectory or list of Trajectory
        One for all runs, or one for each run, started from the overlaps of that run. They are recorded at the times of
        the simulation.
    simulation : Ensemble or ManifoldEnsemble
        The runs.
    times : array_like, shape (n,), optional
        Times of the comparison, by default 60 times in [0.1, alpha_max], equidistant in log; never the start. Each is
        replaced by the nearest recorded time, and no record counts twice. A simulation recorded at :func:`log_times`
        is compared at all its records.
    variant : {"rmse", "printed_abs"}
        "printed_abs" is mean_i sqrt(abs(x^2 - xhat^2)), only for comparison with published tables: the formula printed
        there has the root of a difference of squares inside the mean. It is not a distance, and large near x = 0.

    Returns
    -------
    Discrepancy
        ``Q, R, v, eps_g`` with a leading run axis, and ``mean(name)`` over entries.

    Raises
    ------
    ValueError
        The records are at different times; the number of theories is neither one nor the number of runs; times are out
        of range.

    References
    ----------
    Bae and Jeong (2024), arXiv:2405.00642, (18), corrected, and its mean over entries (20).

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.results import discrepancy
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> runs = ov.simulate(model, N=2000, alpha=discrepancy.log_times(10), rng=1, runs=2)
    >>> theory = [ov.solve(model, runs.start(i), runs.alpha) for i in range(2)]
    >>> distance = ov.tlog_rmse(theory, runs)
    >>> distance.Q.shape, bool(distance.mean("Q").max() < 0.05)
    ((2, 2, 2), True)
    """
    check.choice("variant", variant, ("rmse", "printed_abs"))
    if not getattr(simulation, "is_ensemble", False):
        raise check.refused("simulation", simulation, "the runs that overlaps.simulate made.")
    theories = list(theory) if isinstance(theory, list | tuple) else [theory]
    for t in theories:
        if isinstance(t, SummedTrajectory):
            continue
        check.kind("theory", t, Trajectory, "ov.solve(model, runs.start(0), runs.alpha), or a list of them")
    if len(theories) not in (1, len(simulation)):
        raise ValueError(
            f"theory has {len(theories)} trajectories; expected one, or one for each of {len(simulation)}."
        )
    alpha = simulation.alpha
    for t in theories:
        if t.alpha.shape != alpha.shape or not np.allclose(t.alpha, alpha, rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"the theory is recorded at {t.alpha.size} times up to {t.alpha[-1]:g}, the simulation at {alpha.size} "
                f"up to {alpha[-1]:g}; expected the same. Pass simulation.alpha to solve."
            )
    index = _compared(alpha, times)

    def distance(name):
        x, y = np.stack([getattr(t, name)[index] for t in theories]), getattr(simulation, name)[:, index]
        if variant == "printed_abs":
            return np.mean(np.sqrt(np.abs(x**2 - y**2)), axis=1)
        return np.sqrt(np.mean((x - y) ** 2, axis=1))

    return Discrepancy(**{name: distance(name) for name in Discrepancy._curves}, alpha=alpha[index])


def _compared(alpha, times):
    """Return the indices of the records nearest to the times, without repetition and without alpha = 0."""
    later = np.flatnonzero(alpha > 0)
    if later.size == 0:
        raise ValueError(f"the runs are recorded at alpha = {alpha} only; expected a time after the start.")
    if times is None:
        times = np.geomspace(min(LOG_GRID.first, alpha[-1]), alpha[-1], LOG_GRID.n)
    times = check.array("times", times, ("n",))
    if times.size == 0 or times.min() <= 0 or times.max() > alpha[-1] * (1 + 1e-9):
        raise ValueError(f"times = {times}; expected times in (0, {alpha[-1]:g}], the end of the simulation.")
    return np.unique(later[np.argmin(np.abs(alpha[later] - times[:, None]), axis=1)])
