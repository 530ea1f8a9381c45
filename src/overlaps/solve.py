"""Integration of the order-parameter equations."""

from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from ._base import check
from ._base.quiet import warn
from ._base.types import ArrayLike, Function
from .integrators.evolve import evolve
from .models import LowRank, Mixed, Stages
from .models.model import Model
from .models.schedule import Schedule
from .models.start import output_times
from .models.state import State
from .results.composed import LowRankTrajectory, MixedTrajectory
from .results.staged import StagedTrajectory, shown
from .results.trajectory import SummedTrajectory, Trajectory

TIGHTER = 100.0  # by which the tolerances of the second run of ``certify`` are smaller
# Relative tolerance of the second run at the least: below, steps control rounding.
LEAST = 1e-13
# Of rtol. Plateaus multiply errors of the steps, in the random settings of the tests always by less; a larger
# difference of two runs means that one of them is wrong.
FACTOR = 1000.0
# Of eps_floor, by which eps_g of two runs may differ besides: rounding adds up over the steps, and the floor is that of
# one.
FLOORS = 10.0


class Options(TypedDict, total=False):
    """Keywords of ``solve`` that do not decide what it returns, for type checkers."""

    method: str | type
    rtol: float
    atol: float | None
    progress: bool
    stop: float | Function | None
    late: bool
    schedule: Schedule | dict[str, Schedule] | None
    certify: bool
    max_step: float
    first_step: float
    min_step: float
    jac_sparsity: ArrayLike | None
    lband: int | None
    uband: int | None


Times: TypeAlias = tuple[float, float] | ArrayLike


@overload
def solve(model: LowRank, start: State, alpha: Times, **options: Unpack[Options]) -> LowRankTrajectory: ...
@overload
def solve(model: Mixed, start: State, alpha: Times, **options: Unpack[Options]) -> MixedTrajectory: ...
@overload
def solve(model: Stages, start: State, alpha: Times, **options: Unpack[Options]) -> StagedTrajectory: ...
@overload
def solve(
    model: Model, start: State, alpha: Times, *, blocks: Literal[False], **options: Unpack[Options]
) -> SummedTrajectory: ...
@overload
def solve(
    model: Model, start: State, alpha: Times, *, blocks: Literal[True] = True, **options: Unpack[Options]
) -> Trajectory: ...


def solve(
    model: Model | Stages | Mixed | LowRank,
    start: State,
    alpha: tuple[float, float] | ArrayLike,
    *,
    method: str | type = "auto",
    rtol: float = 1e-8,
    atol: float | None = None,
    progress: bool = False,
    stop: float | Function | None = None,
    late: bool = False,
    blocks: bool = True,
    schedule: Schedule | dict[str, Schedule] | None = None,
    certify: bool = False,
    **options: Any,
) -> Any:
    r"""Integrate the order parameters of one-pass SGD, exact for N -> infinity.

    .. math::
        dr^l/d\alpha &= s_l A r^l + B \tau^l \\
        dq^l/d\alpha &= s_l (A q^l + q^l A^T) + B r^{lT} + r^l B^T + s_l p_l C \\
        dv_k/d\alpha &= -\eta_v E[g(\lambda_k)\Delta]

    with A, B, C of :func:`overlaps.closure` (weight decay and minibatches as in :func:`overlaps.committee_machine`).

    Parameters
    ----------
    model : Model, Stages or Mixed
        The learning problem; several tasks in a row are :class:`Stages`, tasks mixed in one step :class:`Mixed`.
    start : State
        Initial order parameters, and the time ``start.alpha`` they belong to (0 unless it is a record).
    alpha : tuple of two floats, or array_like
        An interval (from, to), recorded at every step of the solver; or increasing output times. Time is
        alpha = steps / N and begins at the start's, ``start.alpha``: an interval begins there, no output time
        lies before it.
    method : str or OdeSolver class
        "structured" (:class:`~overlaps.integrators.bdf.StructuredBDF`: stiff problems, long times), "exponential"
        (:class:`~overlaps.integrators.exponential.ExponentialMidpoint`: moderate accuracy), any name known to
        ``scipy.integrate.solve_ivp``, or a subclass of ``scipy.integrate.OdeSolver``. "DOP853" is SciPy's with eps_g in
        its error control (:class:`~overlaps.integrators.dop853.DOP853`). "auto" takes it for short or non-stiff
        problems and "structured" otherwise, and says in the result what it took and why.
    rtol, atol : float
        Tolerances on the overlaps; atol is min(1e-12, 1e-4 rtol) by default. The default methods and "exponential"
        control the error of eps_g relative to itself as well, until rounding hides it: Q's and R's, or with
        "structured" about 5e-14 for erf and 5e-15 for linear units.
        ``Trajectory.eps_floor`` says what is left; ``late=True`` goes on. A plateau amplifies every error.
    progress : bool
        Show a progress bar.
    stop : float or callable, optional
        Stop where eps_g falls below this number, or where the number ``stop(alpha, state)`` changes sign.
    late : bool
        Follow perfectly learnable problems down to eps_g of 1e-200, below which 0.0 or rounding is returned: once every
        student has nearly learned its teacher, the overlaps of their differences are integrated in place of Q and R,
        whose rounding hides eps_g below about 1e-16 (:mod:`overlaps.flow.differences`). For erf, linear and quadratic
        units, the same on both sides, and K = M; refused are other activations (relu, tanh, ...), label noise, weight
        decay, a trained second layer and teachers of latents. Where v differs from v*, or a student learns no teacher,
        Q and R are integrated to the end. "exponential" is followed by "structured". Linear networks of several units
        learn their sum only: take K = M = 1, as in :mod:`overlaps.theory.linear`.
    blocks : bool
        Whether to keep the overlaps of every block. A record takes 8 (L (K M + K (K + 1) / 2) + K + 2) bytes while it
        is integrated and 8 (L K (K + M) + K + 2) in the result, and an interval records every step: thousands of them.
        With ``blocks=False`` it is L = 1 in both formulas, and a :class:`~overlaps.results.trajectory.SummedTrajectory`
        comes back, whose records are no starts and which has no ``at``.
    schedule : Schedule or dict, optional
        Factor on eta and eta_v along alpha; or factors by name, on "eta", "eta_v", "noise", "weight_decay" and
        "batch_size" and on "s", the variances of the inputs (:class:`Schedule`). Every method steps onto its knots.
    certify : bool
        Make a second run with tolerances 100 times smaller (rtol at least 1e-13), recorded at the same times, which is
        more work than the first, and give the differences in ``Trajectory.error``. ``success`` is False where
        they exceed 1000 rtol, of the largest overlap or of eps_g (beyond 10 ``eps_floor``): plateaus amplify errors of
        the steps, in the tests always by less than 1000, so that a larger difference means a wrong curve.
    **options
        Passed to the SciPy solver: ``max_step``, ``first_step``, and for BDF, Radau and LSODA what they have besides.

    Returns
    -------
    Trajectory, or SummedTrajectory with ``blocks=False``, or StagedTrajectory for Stages, MixedTrajectory for Mixed
        With ``success``, ``message`` and ``nfev``. A diverging, failing or interrupted integration returns the part
        that was computed with ``success=False``.

    Raises
    ------
    ValueError
        Bad input, before any integration; overlaps of 1e70 or more, whose products are no numbers.

    Warns
    -----
    RuntimeWarning
        Once, with the message, when the integration did not succeed.

    Notes
    -----
    In a gradient flow a student with a kink at the origin (relu, leaky relu, absolute value) may shrink to norm zero at
    a finite time. Its force does not vanish there but has no direction any more, so the equations end: the
    integration stops and names the student. The noise of SGD (``gradient_flow=False``) keeps norms positive.

    Kinked students that are nearly parallel amplify errors, since the flow knows their angle, the root of 1 - cos^2. A
    run that comes within an angle of 0.003 is repeated with norms moved by rtol; the change of eps_g enters
    ``eps_floor``, and a change of the overlaps above 1000 rtol ends with ``success=False`` and a sentence: the curve is
    complete, the tolerance was not met.

    A start in which students are sums of others or of teachers up to rounding (their covariance has an eigenvalue
    zero) is kept to the cone of covariances at every step, and repeated with norms moved by 4e-15.
    The change enters ``eps_floor``; one above 1e-5 of eps_g ends with ``success=False`` and a sentence: the curve is
    complete, but depends on digits that the start does not have.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0, gradient_flow=True)
    >>> start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])
    >>> traj = ov.solve(model, start, [0.0, 1.0])
    >>> bool(abs(traj.eps_g[-1] - np.exp(-2) / 2) < 1e-9)
    True
    """
    # test: tests/results/test_certified.py::test_errors_are_those_of_the_curve
    check.flag("blocks", blocks)
    controls = {"method": method, "rtol": rtol, "atol": atol, "stop": stop, "late": late, "blocks": blocks, **options}
    controls["progress"], certify = progress, check.flag("certify", certify)
    legs: Any = [(model, start, alpha, schedule)]
    parts: list[Any] = []
    if isinstance(model, Stages | Mixed | LowRank):
        for name, value, usual in (("late", late, False), ("blocks", blocks, True), ("certify", certify, False)):
            if value is not usual:
                raise ValueError(f"{name} = {check.shown(value)} with {type(model).__name__}; expected {usual}.")
    if isinstance(model, Stages):
        times, every_step = output_times(alpha, check.state(start).alpha)
        wanted = None if every_step else np.ravel(alpha)
        legs = model.in_turn(start, times, wanted, schedule, parts)
    for leg in legs:
        parts.append(_solved(*leg, **controls))
    if isinstance(model, Stages):
        traj = StagedTrajectory(model=model, alpha=shown(parts, wanted), parts=tuple(parts))
    else:
        traj = _certified(parts[0], start, options) if certify else parts[0]
    if not traj.success:
        warn(traj.message + check.see("integration", "When it does not end well"))
    return traj


def _solved(model, start, alpha, schedule, **controls):
    """The solution as a record: of all blocks, or of their sums."""
    fields = vars(evolve(model, start, alpha, schedule=schedule, **controls))
    kinds: dict[type, Any] = {Mixed: MixedTrajectory, LowRank: LowRankTrajectory}
    kind = kinds.get(type(model), Trajectory)
    return kind(**fields) if controls["blocks"] else SummedTrajectory.of(fields)


def _certified(traj, start, options):
    """The trajectory with ``error``, and without success where it missed its tolerance by more than FACTOR."""
    late = traj.eps_late is not None
    rtol, atol = max(traj.rtol / TIGHTER, LEAST), traj.atol / TIGHTER
    blocks = late or traj.model.C > 0 or traj.changing  # whose errors need them
    controls = {"method": traj.solver, "rtol": rtol, "atol": atol, "late": late, "blocks": blocks}
    names = ("Q", "R", "v", "mean_fields") if traj.model.C else ("Q", "R", "v")
    other = _solved(traj.model, start, traj.alpha, traj.schedule, **controls, **options)
    n, error = len(other), {}
    for name in names:
        mine = getattr(traj, name)
        error[name] = np.full(mine.shape, np.nan)
        error[name][:n] = mine[:n] - getattr(other, name)
    # errors relative to eps_g only down to what eps_g resolves
    least, size = np.maximum(traj.eps_floor, np.finfo(float).tiny), max(1.0, np.max(np.abs(traj.S)))
    change, allowed = np.full(len(traj), np.nan), FACTOR * traj.rtol
    change[:n] = traj.eps_g[:n] - other.eps_g
    error["eps_g"] = change / np.maximum(traj.eps_g, least)
    result = replace(traj, nfev=traj.nfev + other.nfev, **{f"error_{name}": x for name, x in error.items()})
    if not traj.success:
        return result
    if not other.success:
        said = f"the second run, at rtol {rtol:.1g}, {other.message}"
    else:
        overlaps = max(np.max(np.abs(error[name]), initial=0.0) for name in names) / size
        missed = np.abs(change) > allowed * traj.eps_g + FLOORS * least
        if overlaps <= allowed and not np.any(missed):
            return result
        at = traj.alpha[np.argmax(missed)] if np.any(missed) else None
        worst = (
            f"those of eps_g first at alpha = {at:.6g}" if overlaps <= allowed else f"{overlaps:.1g} in the overlaps"
        )
        said = f"errors exceed {FACTOR:g} rtol ({worst})"
    return replace(result, success=False, message=f"{traj.message} But not certified: {said}. Try a smaller rtol.")
