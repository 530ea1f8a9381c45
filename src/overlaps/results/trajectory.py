"""Result of an integration: order parameters along the learning time."""

from typing import Any, NamedTuple

import numpy as np

from .._base import Floats, check
from ..flow.binding import bind
from ..flow.closure import rounding_floor
from ..integrators.evolve import evolve
from ..integrators.solver import traits_of
from ..models.features import check_features
from ..models.state import State
from ..stability.plateaus import Plateau, find
from .curves import _Blocks, _Curves


class PlateauGrid(NamedTuple):
    """Times at which a search for plateaus solves again, geometric in alpha."""

    # First time, as a fraction of the interval. A plateau that ends earlier is too short to be visible on the curve.
    first: float = 1e-4
    max_numbers: float = 2e7  # overlaps at all times; with many blocks there are fewer times, within the next bounds
    min_times: int = 200
    max_times: int = 1000


class EpsErrorModel(NamedTuple):
    """Constants of the estimate ``eps_floor``."""

    # Rounding of the overlaps adds up as a random walk: the rounding of eps_g is multiplied by 0.2 sqrt(nfev). The
    # factor is empirical; halved, runs differ by more than their estimates; doubled, estimates exceed the differences.
    random_walk: float = 0.2
    # Error of eps_g in units of the tolerances, for methods that do not accumulate it; the tolerances bound only the
    # error of a single step. Halved: more errors exceed the estimate; doubled: the estimate is less sharp.
    per_tolerance: float = 10.0


PLATEAU_GRID = PlateauGrid()
EPS_ERROR = EpsErrorModel()


class Errors(NamedTuple):
    """Errors of a solution at its records; see :attr:`Trajectory.certified`."""

    Q: Any
    R: Any
    v: Any
    eps_g: Any


class ClassErrors(NamedTuple):
    """Errors of a solution for inputs in classes; those of the means of the fields are added."""

    Q: Any
    R: Any
    v: Any
    eps_g: Any
    mean_fields: Any


class Solved(_Curves, kw_only=True):
    """Base of all solutions: method and tolerances, and estimates of the errors of eps_g."""

    nfev: int
    rtol: float
    atol: float
    eps_late: np.ndarray | None = None
    floor_late: np.ndarray | None = None
    solver: type | None = None
    eps_error: np.ndarray | None = None
    error_Q: np.ndarray | None = None
    error_R: np.ndarray | None = None
    error_v: np.ndarray | None = None
    error_eps_g: np.ndarray | None = None
    error_mean_fields: np.ndarray | None = None

    @property
    def eps_g(self) -> Floats:
        """Generalisation error E[(yhat - y)^2] / 2 without the noise (n,); ``eps_floor`` is its resolution."""
        eps_g = super().eps_g
        return eps_g if self.eps_late is None else np.where(np.isnan(self.eps_late), eps_g, self.eps_late)

    @property
    def eps_floor(self) -> Floats:
        """Size (n,) of the errors of eps_g: the larger of rounding and the error of the integration.

        Rounding: machine precision times ``(sum_c |w_c| sqrt(E[g_c^2]))^2``, with w = (v, -v*), times max(1,
        0.2 sqrt(nfev)), because the rounding of overlaps adds up along a run. Where ``late`` integrates differences,
        the differences of students and teachers replace the g_c, and the last factor is 1. For a learning rule with an
        error of its own, it is the change of this error by the rounding of the overlaps.

        Integration: eps_g times ``eps_error``, the sum over all steps of the relative first-order change of eps_g by
        the error estimate of the step, and for a learning rule the error of its averages. The three methods of this
        library accumulate it. For other methods, and for rules whose averages are less accurate than 1e-8, machine
        precision above is replaced by 10 rtol (or atol). If students with a kink are nearly parallel, the change of
        eps_g under a change of their norms by rtol is added.

        The estimate is mostly an upper bound, because the dynamics damps errors of learned directions. It does not
        include the amplification of errors during the escape from a plateau.
        """
        floor = self._floor(self._rounding)
        return floor if self.floor_late is None else np.where(np.isnan(self.floor_late), floor, self.floor_late)

    @property
    def rounding(self) -> Floats:
        """Size (n,) of the errors of eps_g by rounding alone, a contribution to ``eps_floor``."""
        floor = self._accumulated(self._rounding)
        return floor if self.floor_late is None else np.where(np.isnan(self.floor_late), floor, self.floor_late)

    @property
    def _rounding(self) -> Floats:
        """Rounding (n,) of one evaluation of eps_g."""
        return rounding_floor(self.model, self.model.field_covariance(self), self.v)

    @property
    def _accumulates_error(self):
        """Whether the solver accumulates the errors of eps_g by its steps."""
        accurate = self.model.rule is None or bind(self.model).controls_error
        return accurate and traits_of(self.solver).estimates_error

    def _accumulated(self, rounding):
        """Return the rounding of eps_g accumulated along the run."""
        return rounding * max(1.0, EPS_ERROR.random_walk * np.sqrt(self.nfev))

    def _floor(self, rounding):
        """Return the size (n,) of the errors of eps_g, given the rounding of one evaluation."""
        total = self._accumulated(rounding)
        if not self._accumulates_error:
            tolerance = EPS_ERROR.per_tolerance * max(self.rtol, self.atol)
            total = np.maximum(total, rounding * (tolerance / np.finfo(float).eps))
        return total if self.eps_error is None else np.maximum(total, self.eps_error * np.maximum(self.eps_g, rounding))

    @property
    def certified(self) -> "Errors | ClassErrors | None":
        """The certificate: errors of Q, R, v and, relative to it, eps_g at each record, or None.

        Made by ``solve(..., certify=True)``: the differences from a second run with smaller tolerances, or by another
        method, as a named tuple of arrays with the shapes of Q, R, v and eps_g (and ``mean_fields``, for inputs in
        classes). In contrast to ``eps_floor`` they include the amplification of the errors of steps by a plateau.
        Where eps_g is below ``eps_floor``, its error is relative to ``eps_floor``. After the end of the second run
        they are nan.
        """
        errors = self.error_Q, self.error_R, self.error_v, self.error_eps_g
        if self.error_mean_fields is not None:
            return ClassErrors(*errors, self.error_mean_fields)
        return None if self.error_Q is None else Errors(*errors)


class Trajectory(Solved, _Blocks, kw_only=True):
    """Solution of the order-parameter equations; made by :func:`overlaps.solve`.

    Attributes
    ----------
    model : Model
        The learning problem.
    alpha : ndarray, shape (n,)
        Learning times, steps / N.
    Q, R, v, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,)
        Order parameters and generalisation error.
    q, r : ndarray, shape (n, L, K, K), (n, L, K, M)
        Block overlaps as in :class:`overlaps.State`.
    tau, T : ndarray, shape (L, M, M), (M, M)
        Teacher constants.
    m, h, nu : ndarray, shape (n, L, K, C), (L, M, C), (M, C), or None
        Overlaps with the class means of inputs in classes, as in :class:`overlaps.State`; ``mean_fields`` (n, K, C) are
        the means of the student fields.
    success, status, message, nfev, method, rtol, atol
        Whether the integration reached its end; 0 at the last time, 1 where ``stop`` was met, -1 before; a sentence
        about it, the number of evaluations of the right-hand side, the integrator and its tolerances.
    stopped : bool
        Whether the condition ``stop`` was met before the last time.
    solver : class or None
        The class of the integrator, as ``solve`` accepts it; None if a file could not contain it.
    eps_late, floor_late : ndarray, shape (n,), or None
        With ``solve(..., late=True)``: eps_g and its ``eps_floor`` where differences were integrated, nan before.
    eps_error : ndarray, shape (n,), or None
        Relative error of eps_g that the integrator has accumulated; see ``eps_floor``.
    schedule, eta : Schedule or dict or None, ndarray, shape (n,)
        The argument ``schedule`` of ``solve``, and the learning rate at the records.
    step : float or None
        Length of finite steps, the argument ``step`` of ``solve``; None for the flow.
    error_Q, error_R, error_v, error_eps_g, error_mean_fields : ndarray or None
        With ``solve(..., certify=True)``: the fields of ``certified``.

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
    ((3, 2, 2), State(L=1, K=2, M=2, alpha=..., ...), True)
    """

    def __getitem__(self, i: int) -> State:
        """State at record ``i``."""
        i = check.index("i", i, len(self))
        return self._state(self.alpha[i], self, i)

    def escape(self, N: int, level: float | None = None, **options: Any) -> Any:
        """Distribution of the time at which SGD at input dimension N leaves the plateau.

        SGD starts from the first record of this curve, and times count from that record. See
        :func:`overlaps.analysis.escape_time.escape`.

        Parameters
        ----------
        N : int
            Input dimension.
        level : float, optional
            The escape is the time at which eps_g falls below it; half of the plateau by default.
        **options
            ``points``, ``rng``.

        Returns
        -------
        EscapeLaw

        Raises
        ------
        ValueError
            As :func:`overlaps.analysis.escape_time.escape`; also for a schedule, because it moves the plateau.
        """
        check_features("theory.escape", self.model, self.schedule, step=self.step)
        from ..analysis.escape_time import EscapeLaw  # analysis imports results

        return EscapeLaw.of(self, N, level, **options)

    def plateaus(self) -> "list[Plateau]":
        r"""Plateaus of this curve, in the order of time.

        A plateau is a slow passage, :math:`|d\ln\epsilon_g/d\ln\alpha| < 1/2`, near a saddle of the flow: a fixed point
        with growing modes, which Newton's method finds from the record and from its averages over groups of students.

        Returns
        -------
        list of Plateau
            Each with ``alpha`` = (begin, end), ``height``, ``state``, ``rates``, ``growing`` and ``escape``; it prints
            as a sentence. Empty for a curve without plateaus.

        Raises
        ------
        ValueError
            The curve has a single record; there is a schedule, which moves fixed points; the solver is a class of the
            user that a file could not contain.

        Notes
        -----
        The saddle and its rates are *exact* to rounding. The begin and the end of a plateau, where eps_g is within a
        fifth of the height, and the criterion of slowness are *conventions*. The equations are solved again at up to
        1000 times, geometric in alpha, so that sparse records do not hide a plateau.

        References
        ----------
        Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769.

        Examples
        --------
        >>> import overlaps as ov
        >>> model = ov.committee_machine(3, 3, eta=0.5)
        >>> traj = ov.solve(model, model.random_start(N=800, rng=1), (0, 600))
        >>> traj.plateaus()
        [plateau at eps_g = 0.0311598 from alpha = ...: all students equivalent; 4 growing modes, the fastest at ...]
        """
        check_features("plateaus", self.model, self.schedule, step=self.step)
        duration = self.alpha[-1] - self.alpha[0]
        if not duration > 0:
            raise ValueError("plateaus() of a single record; solve over an interval, such as (0, 500).")
        if self.solver is None:
            raise ValueError(f"plateaus() solves again, and the file could not contain the solver ({self.method}).")
        model, grid = self.model, PLATEAU_GRID
        n_overlaps = model.spectrum.L * model.K * (model.K + model.M)
        n_times = int(np.clip(grid.max_numbers / n_overlaps, grid.min_times, grid.max_times))
        times = self.alpha[0] + duration * np.append(0.0, np.geomspace(grid.first, 1.0, n_times))
        times[-1] = self.alpha[-1]
        curve = Trajectory(**vars(evolve(model, self[0], times, method=self.solver, rtol=self.rtol, atol=self.atol)))
        return find(model, curve.alpha, curve.eps_g, curve.eps_floor, curve.__getitem__)

    def _state(self, alpha, solution, i):
        variables = {name: getattr(solution, name)[i] for name in ("q", "r", "v")}
        variables["m"] = None if solution.m is None else solution.m[i]
        constants = {name: getattr(self, name) for name in ("tau", "T", "h", "nu")}
        if self.changing:
            constants |= {"T": solution.T[i], "factors": self._factors_at([alpha])[0]}
        return State(**variables, **constants, s=self.model.spectrum.s, alpha=alpha, model=self.model)

    def at(self, alpha: float) -> State:
        """State at time alpha, to the accuracy of the solution.

        A recorded time returns the record. Between records the equations are integrated again from the last record
        before alpha, with the same tolerances; nothing is interpolated. Finite steps are made again, whole ones.

        Parameters
        ----------
        alpha : float
            One time, in steps / N.

        Raises
        ------
        ValueError
            alpha is not a number, outside the recorded interval, or not a whole number of finite steps; or it is
            between records, and the solver is a class of the user: a file contains only names of solvers of SciPy and
            of this library.
        """
        alpha = self._covered(alpha)
        i = int(np.searchsorted(self.alpha, alpha, side="right")) - 1
        if self.alpha[i] == alpha:
            return self[i]
        late = self.eps_late
        if late is not None and not np.isnan(late[i]):
            # Q and R do not resolve the differences here, so start from the last record before they were needed
            i = max(int(np.argmin(np.isnan(late))) - 1, 0)
        controls = {"method": self.solver, "rtol": self.rtol, "atol": self.atol}
        if self.step is not None:
            controls = {"step": self.step}
        elif self.solver is None:
            raise ValueError(
                f"alpha = {alpha:g} lies between records, and the solver ({self.method}) is a class that the file "
                "could not contain; expected a recorded time. Try dataclasses.replace(traj, solver=TheClass).at(alpha)."
            )
        solution = evolve(
            self.model, self[i], [float(alpha)], late=late is not None, schedule=self.schedule, **controls
        )
        if not solution.success:
            raise RuntimeWarning(solution.message)
        return self._state(alpha, solution, -1)


class SummedTrajectory(Solved, kw_only=True):
    """Solution without the overlaps of its blocks; made by ``solve(..., blocks=False)``.

    Attributes
    ----------
    model, alpha, v, eps_g, T, success, message, nfev, method, rtol, atol, solver, eps_error, eps_floor, schedule, eta
        As in :class:`Trajectory`.
    Q, R : ndarray, shape (n, K, K), (n, K, M)
        Covariances of the fields. Only these and v are stored: 8 n (K^2 + K M + K) bytes for any L.

    Notes
    -----
    As exact as a :class:`Trajectory`.  Sums do not determine the blocks, so a record cannot start another run.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5, spectrum=ov.power_law(beta=1.0, L=64))
    >>> traj = ov.solve(model, model.random_start(N=6400, rng=1), (0, 100), blocks=False)
    >>> traj.Q.shape[1:], traj.success
    ((2, 2), True)
    """

    Q: np.ndarray
    R: np.ndarray

    @classmethod
    def of(cls, solution: dict[str, Any]) -> "SummedTrajectory":
        """Construct it from the fields of a solution with sums over blocks."""
        Q, R = (solution[name][:, 0] for name in "qr")
        return cls(Q=Q, R=R, **{name: x for name, x in solution.items() if name in cls.__dataclass_fields__})

    def __getitem__(self, i):
        """Not available: a state requires the overlaps of every block."""
        raise _no_blocks(f"traj[{i}] is a state, with the overlaps of every block")

    def plateaus(self):
        """Not available: the search for saddles requires the overlaps of every block."""
        return check_features("plateaus", self.model, self.schedule, blocks=False)

    def escape(self, N, level=None, **options):
        """Not available: the distribution of escape times requires the overlaps of every block."""
        return check_features("theory.escape", self.model, self.schedule, blocks=False)

    def at(self, alpha):
        """Not available: integrating again from a record requires the overlaps of every block."""
        raise _no_blocks(f"alpha = {check.shown(alpha)}: between records the equations are integrated again")

    def __getattr__(self, name):
        if name in ("q", "r", "tau"):
            raise _no_blocks(f"{name} contains the overlaps of every block", AttributeError)
        return super().__getattr__(name)  # type: ignore[misc]  # not declared for checkers


def _no_blocks(statement, kind=ValueError):
    return kind(
        f"{statement}, and this trajectory keeps Q, R, v only (blocks=False). Solve with blocks=True, or record the "
        "time in question."
    )
