"""Result of an integration: order parameters along the learning time."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._base import Floats, Immutable, check
from ..flow.closure import bind, rounding_floor
from ..integrators.evolve import evolve
from ..models.features import check_features
from ..models.state import State
from ..stability.plateaus import Plateau, find
from .curves import _Blocks, _Curves

EARLY = 1e-4  # of the time covered: a plateau that ends before lasts too short to be seen on the curve
# Overlaps kept in a search for plateaus: with many blocks it looks at fewer times, within these bounds.
NUMBERS, COUNTS = 2e7, (200, 1000)
# Rounding of eps_g by one evaluation's overlaps, in units of that of its terms: half a digit in some of them.
# It adds up like a walk at random. Below, runs differ by more than they say; above, they say more than is lost.
WALK = 0.2
# Errors of eps_g by a method that does not add them up, in units of its tolerances: they bound the errors of one step.
UNACCOUNTED = 10.0


class Errors(NamedTuple):
    """Errors of a solution at its records; see :attr:`Trajectory.error`."""

    Q: Any
    R: Any
    v: Any
    eps_g: Any


class ClassErrors(NamedTuple):
    """As ``Errors``, and of the means of the fields, for inputs in classes."""

    Q: Any
    R: Any
    v: Any
    eps_g: Any
    mean_fields: Any


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Solved(_Curves):
    """Parts of all solutions beside their overlaps: how they were obtained, and how far eps_g can be trusted."""

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
        """Generalisation error E[(yhat - y)^2] / 2 without the noise (n,); ``eps_floor`` is what it resolves."""
        eps_g = super().eps_g
        return eps_g if self.eps_late is None else np.where(np.isnan(self.eps_late), eps_g, self.eps_late)

    @property
    def eps_floor(self) -> Floats:
        """Size (n,) of the errors of eps_g: rounding, or what the integrator has left, whichever is larger.

        Rounding: machine precision times ``(sum_c |w_c| sqrt(E[g_c^2]))^2``, with w = (v, -v*), and times the root of
        ``nfev`` over 5, if that is larger: roundings of overlaps add up along a run. Where ``late`` took over, the
        differences of students and teachers stand in place of the g_c, and nothing is added. For the error of a rule,
        its change by the rounding of the overlaps.
        Integration: eps_g times ``eps_error``, the sum over the steps of the first-order change of eps_g by each step's
        error estimate, relative to eps_g, and of a rule the error of its averages. The three methods of this library
        add it up; for others, and for rules whose averages are known to less than 1e-8, 10 rtol (or atol) takes the
        place of machine precision above. Where students with a kink are nearly parallel, the change of eps_g by a
        change of their norms by rtol is added.

        An estimate, mostly from above: errors of what has been learned are forgotten. The amplification of errors by
        the escape from a plateau is not in it.
        """
        # test: tests/results/test_trajectory.py::test_two_methods_differ_by_no_more_than_their_floors
        floor = self._floor(self._rounding)
        return floor if self.floor_late is None else np.where(np.isnan(self.floor_late), floor, self.floor_late)

    @property
    def rounding(self) -> Floats:
        """Size (n,) of the errors of eps_g by rounding alone, a part of ``eps_floor``."""
        floor = self._added_up(self._rounding)
        return floor if self.floor_late is None else np.where(np.isnan(self.floor_late), floor, self.floor_late)

    @property
    def _rounding(self) -> Floats:
        """Rounding (n,) of one evaluation of eps_g."""
        return rounding_floor(self.model, self.model.field_covariance(self), self.v)

    @property
    def _accounted(self):
        """Whether the solver adds up what its steps leave in eps_g."""
        known = getattr(self.model, "rule", None) is None or bind(self.model).controls_error
        return known and getattr(self.solver, "estimates_error", False)

    def _added_up(self, rounding):
        """Roundings of overlaps add up along a run."""
        return rounding * max(1.0, WALK * np.sqrt(self.nfev))

    def _floor(self, rounding):
        """Size (n,) of the errors of eps_g, given the rounding of one evaluation."""
        total = self._added_up(rounding)
        if not self._accounted:
            total = np.maximum(total, rounding * (UNACCOUNTED * max(self.rtol, self.atol) / np.finfo(float).eps))
        return total if self.eps_error is None else np.maximum(total, self.eps_error * np.maximum(self.eps_g, rounding))

    @property
    def error(self) -> "Errors | ClassErrors | None":
        """Errors of Q, R, v and, relative to it, eps_g at each record, or None; made by ``solve(..., certify=True)``.

        Differences from a second run with smaller tolerances, or by another method, a named tuple of arrays with the
        shapes of Q, R, v and eps_g (and ``mean_fields``, for inputs in classes): they show what a plateau has made of
        the errors of the steps, which ``eps_floor`` does not. Where eps_g is below ``eps_floor``, its error is relative
        to that; nan where the second run did not come.
        """
        # test: tests/results/test_certified.py::test_errors_are_those_of_the_curve
        parts = self.error_Q, self.error_R, self.error_v, self.error_eps_g
        if self.error_mean_fields is not None:
            return ClassErrors(*parts, self.error_mean_fields)
        return None if self.error_Q is None else Errors(*parts)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trajectory(Solved, _Blocks):
    """Solution of the order-parameter equations, with how it was obtained; made by :func:`overlaps.solve`.

    Attributes
    ----------
    model : Model
        The learning problem.
    alpha : ndarray, shape (n,)
        Learning times, steps / N.
    Q, R, v, eps_g : ndarray, shape (n, K, K), (n, K, M), (n, K), (n,)
        Order parameters and generalisation error.
    q, r : ndarray, shape (n, L, K, K), (n, L, K, M)
        Block overlaps as in :class:`State`.
    tau, T : ndarray, shape (L, M, M), (M, M)
        Teacher constants.
    m, h, nu : ndarray, shape (n, L, K, C), (L, M, C), (M, C), or None
        Overlaps with the class means of inputs in classes, as in :class:`State`; ``mean_fields`` (n, K, C) are the
        means of the student fields.
    success, message, nfev, method, rtol, atol
        Whether the integration reached its end, a sentence about it, the number of evaluations of the right-hand
        side, the integrator and its tolerances.
    solver : class or None
        The integrator as ``solve`` takes it, a subclass of ``scipy.integrate.OdeSolver`` (None where a file could not
        keep it).
    eps_late, floor_late : ndarray, shape (n,), or None
        With ``solve(..., late=True)``: eps_g and its ``eps_floor`` where differences were integrated, nan before.
    eps_error : ndarray, shape (n,), or None
        Error of eps_g, relative to it, by the integrator's own account; see ``eps_floor``.
    schedule, eta : Schedule or dict or None, ndarray, shape (n,)
        The schedule as it was given, and the learning rate at the records.
    error_Q, error_R, error_v, error_eps_g, error_mean_fields : ndarray or None
        With ``solve(..., certify=True)`` the parts of ``error``.

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
        """Law of the time at which SGD at input dimension N leaves the plateau, from this curve's first record on.

        See :func:`overlaps.theory.escape_time.escape`; times count from that record.

        Parameters
        ----------
        N : int
            Input dimension.
        level : float, optional
            eps_g to fall below; half of the plateau by default.
        **options
            ``points``, ``rng``.

        Returns
        -------
        EscapeLaw

        Raises
        ------
        ValueError
            As :func:`overlaps.theory.escape_time.escape`; a schedule, under which the plateau moves.
        """
        check_features("theory.escape", self.model, self.schedule)
        return Immutable.kinds["EscapeLaw"].of(self, N, level, **options)

    def plateaus(self) -> "list[Plateau]":
        r"""Plateaus on which this curve waits, in the order of time.

        A plateau is a slow passage, :math:`|d\ln\epsilon_g/d\ln\alpha| < 1/2`, near a saddle of the flow: a fixed point
        with growing modes, which Newton's method finds from the record and from its averages over groups of students.

        Returns
        -------
        list of Plateau
            Each with ``alpha`` = (begin, end), ``height``, ``state``, ``rates``, ``growing`` and ``escape``; it prints
            as a sentence. Empty where the curve does not wait.

        Raises
        ------
        ValueError
            A single record; a schedule, under which fixed points move; a solver of the user's that a file could
            not hold.

        Notes
        -----
        The saddle and its rates are *exact* to rounding; begin and end, where eps_g is near the height (up to a fifth),
        and the choice of what counts as waiting are *conventions*. Between records the equations are solved again, on
        1000 times that are geometric in alpha, so that sparse records do not hide a plateau.

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
        check_features("plateaus", self.model, self.schedule)
        since = self.alpha[-1] - self.alpha[0]
        if not since > 0:
            raise ValueError("plateaus() of a single record; solve over an interval, such as (0, 500).")
        if self.solver is None:
            raise ValueError(f"plateaus() solves again, and the file could not hold the solver ({self.method}).")
        model = self.model
        count = int(np.clip(NUMBERS / (model.spectrum.L * model.K * (model.K + model.M)), *COUNTS))
        times = self.alpha[0] + since * np.append(0.0, np.geomspace(EARLY, 1.0, count))
        times[-1] = self.alpha[-1]
        curve = Trajectory(**vars(evolve(model, self[0], times, method=self.solver, rtol=self.rtol, atol=self.atol)))
        return find(model, curve.alpha, curve.eps_g, curve.eps_floor, curve.__getitem__)

    def _state(self, alpha, record, i):
        moving = {name: getattr(record, name)[i] for name in ("q", "r", "v")}
        moving["m"] = None if record.m is None else record.m[i]
        constant = {name: getattr(self, name) for name in ("tau", "T", "h", "nu")}
        if self.changing:
            constant |= {"T": record.T[i], "factors": self._factors_at([alpha])[0]}
        return State(**moving, **constant, s=self.model.spectrum.s, alpha=alpha)

    def at(self, alpha: float) -> State:
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
            alpha is no number, or lies outside the recorded interval; or it lies between records and the solver is a
            class of the user's that was not kept: a file holds names of SciPy's and of this library's solvers only.
        """
        alpha = self._covered(alpha)
        i = int(np.searchsorted(self.alpha, alpha, side="right")) - 1
        if self.alpha[i] == alpha:
            return self[i]
        late = self.eps_late
        if late is not None and not np.isnan(late[i]):
            # Q and R alone have lost the differences: go back to where they hold
            i = max(int(np.argmin(np.isnan(late))) - 1, 0)
        if self.solver is None:
            raise ValueError(
                f"alpha = {alpha:g} lies between records, and the solver ({self.method}) is a class that the file "
                "could not hold; expected a recorded time. Try dataclasses.replace(traj, solver=TheClass).at(alpha)."
            )
        part = evolve(
            self.model, self[i], (self.alpha[i], float(alpha)), method=self.solver, rtol=self.rtol, atol=self.atol,
            late=late is not None, schedule=self.schedule,
        )  # fmt: skip
        if not part.success:
            raise RuntimeWarning(part.message)
        return self._state(alpha, part, -1)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SummedTrajectory(Solved):
    """Solution without the overlaps of its blocks; made by ``solve(..., blocks=False)``.

    Attributes
    ----------
    model, alpha, v, eps_g, T, success, message, nfev, method, rtol, atol, solver, eps_error, eps_floor, schedule, eta
        As in :class:`Trajectory`.
    Q, R : ndarray, shape (n, K, K), (n, K, M)
        Covariances of the fields; together with v the only arrays that are kept: 8 n (K^2 + K M + K) bytes, whatever L.

    Notes
    -----
    As exact as a :class:`Trajectory`.  Sums do not determine the blocks, so a record is no start of another run.

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
        """Make it of the fields of a solution whose blocks have been summed."""
        Q, R = (solution[name][:, 0] for name in "qr")
        return cls(Q=Q, R=R, **{name: x for name, x in solution.items() if name in cls.__dataclass_fields__})

    def __getitem__(self, i):
        """Refused: sums over blocks are no state."""
        raise _no_blocks(f"traj[{i}] is a state, with the overlaps of every block")

    def plateaus(self):
        """Refused: a saddle is looked for in the overlaps of every block."""
        return check_features("plateaus", self.model, self.schedule, blocks=False)

    def escape(self, N, level=None, **options):
        """Refused: the law of the escape begins with the overlaps of every block."""
        return check_features("theory.escape", self.model, self.schedule, blocks=False)

    def at(self, alpha):
        """Refused: to integrate again from a record needs its blocks."""
        raise _no_blocks(f"alpha = {check.shown(alpha)}: between records the equations are integrated again")

    def __getattr__(self, name):
        if name in ("q", "r", "tau"):
            raise _no_blocks(f"{name} holds the overlaps of every block", AttributeError)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _no_blocks(what, kind=ValueError):
    return kind(
        f"{what}, and this trajectory keeps Q, R, v only (blocks=False). Solve with blocks=True, or record the time "
        "that matters."
    )
