"""Results: order parameters along the learning time, of one solution or of many runs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from . import _check
from ._record import Record
from .closure import generalisation_error, rounding_floor
from .evolve import evolve
from .models import Model
from .state import State, gram

__all__ = ["Ensemble", "Trajectory"]

OVERFLOW = 1e70  # overlaps of diverging runs, whose products in the closure are not numbers any more


class _Curves(Record):
    """What follows from Q, R, T, v; shared by the records of solutions and of runs."""

    model: Model
    alpha: np.ndarray
    v: np.ndarray
    T: np.ndarray
    _cache: dict
    is_ensemble: ClassVar[bool] = False

    @property
    def S(self: Any):
        """Covariance of all fields (..., n, K + M, K + M)."""
        return gram(self.Q, self.R, np.expand_dims(self.T, -3))

    @property
    def eps_g(self):
        """Generalisation error E[(yhat - y)^2] / 2 without the noise, (..., n), computed from the overlaps.

        Never negative: where the closed form, a difference of numbers of order one, comes out below zero, its true
        value is below the rounding error of the overlaps (about 1e-16) and 0 is returned.
        """
        if "eps_g" not in self._cache:
            S, v = self.S, self.v
            n = S.shape[-1]
            flat = generalisation_error(self.model, S.reshape(-1, n, n), v.reshape(-1, v.shape[-1]))
            largest = np.max(np.abs(S.reshape(-1, n * n)), axis=1)
            flat[np.isnan(flat) & (largest > OVERFLOW)] = np.inf
            flat[~np.isfinite(largest)] = np.nan  # what a run did not reach
            self._cache["eps_g"] = np.maximum(flat, 0.0).reshape(v.shape[:-1])
        return self._cache["eps_g"]

    def save(self, path):
        """Write one ``.npz`` file with the arrays, the model's parameters and the version.

        :func:`overlaps.load` reads it. The file appears complete at ``path``, or not at all.
        """
        from .files import save

        save(self, path)

    def to_xarray(self):
        """Label the arrays by alpha, run and the indices of the units; see :func:`overlaps.labelled.from_curves`.

        Needs the extra ``overlaps[xarray]``.
        """
        from .labelled import from_curves

        return from_curves(self)

    def plot(self, ax=None, **style):
        """Draw eps_g and the overlaps against alpha; see :func:`overlaps.plotting.plot`.

        Parameters
        ----------
        ax : matplotlib Axes, or pair of Axes, optional
            Where to draw: a pair for eps_g and overlaps, or one Axes for eps_g only.
        **style
            Passed to matplotlib, e.g. ``marker="o"``.

        Returns
        -------
        The axes, so that another result can be drawn on top: ``ax = traj.plot(); runs.plot(ax=ax)``.
        """
        from .plotting import plot

        return plot(self, ax=ax, **style)


class _Blocks(_Curves):
    """Q and R from the kernel's blocks."""

    q: np.ndarray
    r: np.ndarray
    tau: np.ndarray

    @property
    def Q(self):
        """Covariance of the student fields, Q = sum_l s_l q^l (..., n, K, K)."""
        return np.einsum("l,...lij->...ij", self.model.spectrum.s, self.q)

    @property
    def R(self):
        """Covariance of student and teacher fields, R = sum_l r^l (..., n, K, M)."""
        return self.r.sum(axis=-3)


class Runs(_Curves):
    """Statistics over independent runs, the leading axis; base of the records of simulations."""

    N: int
    success: bool
    method: str
    is_ensemble: ClassVar[bool] = True
    curves: ClassVar[tuple[str, ...]] = ("Q", "R", "v", "eps_g")  # what can be averaged over runs

    def __len__(self):
        """Number of runs."""
        return len(self.v)

    def mean(self, name):
        """Mean over runs of the curve ``name``: "Q", "R", "v", "eps_g", and "q" or "r" where there are blocks."""
        return self._curve(name).mean(axis=0)

    def standard_error(self, name):
        """Standard error of :meth:`mean` of the curve ``name``; needs at least two runs."""
        if len(self) < 2:
            raise ValueError("one run has no standard error; simulate with runs >= 2.")
        return self._curve(name).std(axis=0, ddof=1) / np.sqrt(len(self))

    def quantile(self, name, q):
        """Quantiles over runs of the curve ``name`` at levels q, e.g. ``runs.quantile("eps_g", [0.16, 0.84])``."""
        levels = _check.array("q", q, (...,))
        if np.any((levels < 0) | (levels > 1)):
            raise ValueError(f"q = {_check.shown(q)}; expected levels between 0 and 1.")
        return np.quantile(self._curve(name), levels, axis=0)

    def _curve(self, name):
        if name not in self.curves:
            raise ValueError(f"name = {_check.shown(name)}; expected one of {', '.join(self.curves)}.")
        return getattr(self, name)

    def __repr__(self):
        state = "success" if self.success else "INCOMPLETE"
        return (
            f"{type(self).__name__}({self.model}, N={self.N}, runs={len(self)}, "
            f"alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, {state}, {self.method})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(_Blocks):
    """Solution of the order-parameter equations, with how it was obtained; made by :func:`overlaps.solve`.

    Attributes
    ----------
    model : Model
        What was learned.
    alpha : ndarray, shape (n,)
        Learning times, steps / N.
    Q, R, v, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,)
        Order parameters and generalisation error.
    q, r : ndarray, shape (n, L, K, K), (n, L, K, M)
        Block overlaps as in :class:`State`.
    tau, T : ndarray, shape (L, M, M), (M, M)
        Teacher constants.
    success, message, nfev, method, rtol, atol
        Whether the integration reached its end, a sentence about it, the number of evaluations of the right-hand
        side, the integrator and its tolerances.
    eps_late, floor_late : ndarray, shape (n,), or None
        With ``solve(..., late=True)``: eps_g and its ``eps_floor`` where differences were integrated, nan before.

    Notes
    -----
    Exact for N -> infinity, to the tolerances of the integration.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=0.1 * np.eye(2), T=np.eye(2))
    >>> traj = ov.solve(model, start, [0.0, 1.0, 2.0])
    >>> traj.Q.shape, traj[-1], traj.success
    ((3, 2, 2), State(L=1, K=2, M=2), True)
    """

    model: Model
    alpha: np.ndarray
    q: np.ndarray
    r: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    T: np.ndarray
    success: bool
    message: str
    nfev: int
    method: str
    rtol: float
    atol: float
    eps_late: np.ndarray | None = None
    floor_late: np.ndarray | None = None
    _cache: dict = field(default_factory=dict, compare=False)

    def __len__(self):
        return self.alpha.size

    @property
    def eps_g(self):
        """Generalisation error E[(yhat - y)^2] / 2 without the noise (n,); ``eps_floor`` is what it resolves."""
        eps_g = super().eps_g
        return eps_g if self.eps_late is None else np.where(np.isnan(self.eps_late), eps_g, self.eps_late)

    @property
    def eps_floor(self):
        """Size (n,) below which eps_g, a difference of overlaps of order one, is rounding.

        An estimate: machine precision times ``(sum_c |w_c| sqrt(E[g_c^2]))^2``, with w = (v, -v*). Where ``late`` took
        over, the differences of students and teachers stand in place of the g_c.
        """
        floor = rounding_floor(self.model, self.S, self.v)
        return floor if self.floor_late is None else np.where(np.isnan(self.floor_late), floor, self.floor_late)

    def __getitem__(self, i):
        """State at record ``i``."""
        i = _check.index("i", i, len(self))
        return State(q=self.q[i], r=self.r[i], tau=self.tau, T=self.T, v=self.v[i], s=self.model.spectrum.s)

    def at(self, alpha):
        """State at time alpha, to the accuracy of the solution.

        A recorded time gives the record; between records the equations are integrated again from the last record
        before alpha, with the same tolerances, so nothing is lost to interpolation.

        Parameters
        ----------
        alpha : float
            One time, in steps / N.

        Raises
        ------
        ValueError
            alpha is no number, or lies outside the recorded interval.
        """
        alpha = _check.number("alpha", alpha, hint="One time in each call.")
        if not self.alpha[0] <= alpha <= self.alpha[-1]:
            covered = f"[{self.alpha[0]:g}, {self.alpha[-1]:g}]"
            raise ValueError(f"alpha = {alpha:g}; this trajectory covers {covered}. Solve again up to a later time.")
        i = int(np.searchsorted(self.alpha, alpha, side="right")) - 1
        if self.alpha[i] == alpha:
            return self[i]
        late = self.eps_late
        if late is not None and not np.isnan(late[i]):
            # Q and R alone have lost the differences: go back to where they hold
            i = max(int(np.argmin(np.isnan(late))) - 1, 0)
        method = self.method.split(" ")[0]
        part = evolve(
            self.model, self[i], (self.alpha[i], float(alpha)), method=method, rtol=self.rtol, atol=self.atol,
            late=late is not None,
        )  # fmt: skip
        if not part.success:
            raise RuntimeWarning(part.message)
        return State(q=part.q[-1], r=part.r[-1], tau=self.tau, T=self.T, v=part.v[-1], s=self.model.spectrum.s)

    def __repr__(self):
        state = "success" if self.success else "FAILED"
        return (
            f"Trajectory({self.model}, alpha {self.alpha[0]:g}..{self.alpha[-1]:g}, n={len(self)}, "
            f"eps_g {self.eps_g[0]:.3g} -> {self.eps_g[-1]:.3g}, {state}, {self.method})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Runs, _Blocks):
    """Independent runs of finite-N SGD, recorded at common times; made by :func:`overlaps.simulate`.

    Attributes
    ----------
    model : Model
        What was learned.
    alpha : ndarray, shape (n,)
        Recorded times, whole steps / N.
    Q, R, v, eps_g : ndarray, shape (runs, n, K, K), (runs, n, K, M), (runs, n, K), (runs, n)
        Order parameters of each run, from its weights; eps_g is the exact error at these overlaps, not an estimate.
    q, r : ndarray, shape (runs, n, L, K, K), (runs, n, L, K, M)
        Block overlaps as in :class:`State`.
    tau, T : ndarray, shape (runs, L, M, M), (runs, M, M)
        Teacher constants of each run.
    N : int
        Input dimension.
    success, message, method
        Whether all runs reached the end, a sentence about it, the simulator.

    Notes
    -----
    Exact at finite N, in law. Overlaps differ from the ODE by O(1/sqrt(N)).

    Examples
    --------
    >>> import overlaps as ov
    >>> runs = ov.simulate(ov.committee_machine(2, 2, eta=0.5), N=100, alpha=[0, 1, 2], rng=1, runs=3)
    >>> runs.R.shape, runs.mean("eps_g").shape, runs.start(0)
    ((3, 3, 2, 2), (3,), State(L=1, K=2, M=2))
    """

    model: Model
    alpha: np.ndarray
    q: np.ndarray
    r: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    T: np.ndarray
    N: int
    success: bool
    message: str
    method: str
    _cache: dict = field(default_factory=dict, compare=False)
    curves: ClassVar[tuple[str, ...]] = (*Runs.curves, "q", "r")

    def start(self, run=0):
        """State in which run number ``run`` began: what the ODE should be started from to be compared with it."""
        return self.state(run, 0)

    def state(self, run, i):
        """State of run number ``run`` at record ``i``."""
        run, i = _check.index("run", run, len(self)), _check.index("i", i, self.alpha.size)
        return State(
            q=self.q[run, i],
            r=self.r[run, i],
            tau=self.tau[run],
            T=self.T[run],
            v=self.v[run, i],
            s=self.model.spectrum.s,
        )
