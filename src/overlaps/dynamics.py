"""Integration of the order-parameter equations: one problem, or many of one shape at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from ._base import ArrayLike, Function, check, warn
from .integrators.batch import evolve_batch
from .integrators.evolve import SECOND_RUN, evolve
from .integrators.methods import second_run
from .models import LowRank, Mixed, Model, Schedule, Stages, State
from .models.features import check_features
from .models.start import output_times
from .results import Batch, SummedTrajectory, Trajectory
from .results.composite import LowRankTrajectory, MixedTrajectory, StagedTrajectory, shown_times

# Errors that certify=True allows, in units of rtol: plateaus multiply errors of the steps, in the random settings of
# the tests always by less. A larger difference of two runs means that one of them is wrong; so does one above MOST.
FACTOR, MOST = 1000.0, 0.1
# Error of a run in units of its difference from the second one. Where a plateau amplifies rounding beyond tolerances,
# both runs err as much, and may cancel in part.
MARGIN = 2.0


class SolveOptions(TypedDict, total=False):
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
def solve(model: LowRank, start: State, alpha: Times, **options: Unpack[SolveOptions]) -> LowRankTrajectory: ...
@overload
def solve(model: Mixed, start: State, alpha: Times, **options: Unpack[SolveOptions]) -> MixedTrajectory: ...
@overload
def solve(model: Stages, start: State, alpha: Times, **options: Unpack[SolveOptions]) -> StagedTrajectory: ...
@overload
def solve(
    model: Model, start: State, alpha: Times, *, blocks: Literal[False], **options: Unpack[SolveOptions]
) -> SummedTrajectory: ...
@overload
def solve(
    model: Model, start: State, alpha: Times, *, blocks: Literal[True] = True, **options: Unpack[SolveOptions]
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
        also control the relative error of eps_g, until rounding hides it: the rounding of Q and R, or with "structured"
        about 5e-14 for erf and 5e-15 for linear units; for a :class:`~overlaps.activations.rule.Rule` where its
        averages are known to 1e-8. ``Trajectory.eps_floor`` is the error that remains; ``late=True`` goes below it. A
        plateau amplifies every error.
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
        Make a second run, recorded at the same times, which is more work than the first, and give the differences in
        ``Trajectory.error``. Its tolerances are 100 times smaller; where the method becomes no more accurate (below
        rtol 1e-9 for "structured", 1e-12 for others) it is by DOP853, or RK45 if the first is by DOP853. ``success`` is
        False where twice the differences exceed 1000 rtol, or 0.1 in any case, of the largest overlap or of the smaller
        eps_g (beyond 10 ``eps_floor``): plateaus amplify errors of the steps, in the tests always by less than 1000, so
        that a larger difference means a wrong curve. It is False, too, where no second run is affordable.
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
    The change enters ``eps_floor``; one above 1e-5 of eps_g, which neither rounding nor the errors of the steps
    explain, ends with ``success=False`` and a sentence: the curve is complete, but depends on digits that the start
    does not have.

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
    segments: Any = [(model, start, alpha, schedule)]
    parts: list[Any] = []
    check.flag("late", late)
    check_features("solve", model, schedule, late=late, blocks=blocks, stop=stop, certify=certify)
    if isinstance(model, Stages):
        times, every_step = output_times(alpha, check.state(start).alpha)
        wanted = None if every_step else np.ravel(alpha)
        segments = model.in_turn(start, times, wanted, schedule, parts)
    for segment in segments:
        parts.append(_solved(*segment, **controls))
    if isinstance(model, Stages):
        traj = StagedTrajectory(model=model, alpha=shown_times(parts, wanted), parts=tuple(parts))
    else:
        traj = _certified(parts[0], start, options) if certify else parts[0]
    if not traj.success:
        warn(traj.message + check.see("integration", "When it does not end well"))
    return traj


def _solved(model, start, alpha, schedule, **controls):
    """The solution as a record: of all blocks, or of their sums."""
    fields = vars(evolve(model, start, alpha, schedule=schedule, **controls))
    kinds: dict[type, Any] = {Mixed: MixedTrajectory, LowRank: LowRankTrajectory}
    return kinds.get(type(model), Trajectory)(**fields) if controls["blocks"] else SummedTrajectory.of(fields)


def _certified(traj, start, options):
    """The trajectory with ``error``, and without success where it missed its tolerance by more than is allowed."""
    late, names = traj.eps_late is not None, ("Q", "R", "v", "mean_fields") if traj.model.n_classes else ("Q", "R", "v")
    blocks = late or traj.model.n_classes > 0 or len(traj.model.groups) > 1 or traj.changing  # whose errors need them
    solve_again = partial(_solved, traj.model, start, traj.alpha, traj.schedule, late=late, blocks=blocks)
    other, reason = second_run(traj, start, options, solve_again)
    if other is None:
        refused = {"success": False, "message": f"{traj.message} But not certified: {reason}."}
        return replace(traj, **refused) if traj.success else traj
    n, error, allowed = len(other), {}, min(FACTOR * traj.rtol, MOST)
    for name in names:
        mine = getattr(traj, name)
        error[name] = np.full(mine.shape, np.nan)
        error[name][:n] = mine[:n] - getattr(other, name)
    # errors relative to eps_g only down to what eps_g resolves
    least, size = np.maximum(traj.eps_floor, np.finfo(float).tiny), max(1.0, np.max(np.abs(traj.S)))
    change, smaller = np.full((2, len(traj)), np.nan)
    change[:n], smaller[:n] = traj.eps_g[:n] - other.eps_g, np.minimum(traj.eps_g[:n], other.eps_g)
    error["eps_g"] = change / np.maximum(traj.eps_g, least)
    result = replace(traj, nfev=traj.nfev + other.nfev, **{f"error_{name}": x for name, x in error.items()})
    if not traj.success:
        return result
    if not other.success:
        said = f"the second run, {other.solver.__name__} at rtol {other.rtol:.1g}, {other.message}"
    else:
        overlaps = MARGIN * max(np.max(np.abs(error[name]), initial=0.0) for name in names) / size
        # what the steps say of their own errors excuses no more than they can hide: a curve that is too large says more
        hidden = np.minimum(least, np.maximum(SECOND_RUN.rounding_factor * traj.rounding, np.finfo(float).tiny))
        missed = MARGIN * np.abs(change) > allowed * smaller + SECOND_RUN.error_factor * hidden
        if overlaps <= allowed and not np.any(missed):
            return result
        at = traj.alpha[np.argmax(missed)] if np.any(missed) else None
        worst = f"of eps_g first at alpha = {at:.6g}" if overlaps <= allowed else f"{overlaps:.1g} in the overlaps"
        limit = f"{FACTOR:g} rtol" if allowed < MOST else f"{MOST:g}"
        said = f"errors exceed {limit} ({worst})"
    return replace(result, success=False, message=f"{traj.message} But not certified: {said}. Try a smaller rtol.")


def solve_many(
    models: Model | Sequence[Model],
    starts: State | Sequence[State],
    alpha: ArrayLike,
    *,
    threads: int | None = None,
    stop: float | Function | None = None,
    method: str | type = "auto",
    rtol: float = 1e-8,
    atol: float | None = None,
    blocks: bool = True,
    max_memory: float = 4e9,
    progress: bool = False,
    schedule: Schedule | dict[str, Schedule] | None | Sequence[Schedule | dict[str, Schedule] | None] = None,
    simd: bool | None = None,
    **options: Any,
) -> Batch:
    """Integrate many problems of one shape: the equations and the steps of :func:`overlaps.solve`, in threads.

    Trajectories are stepped by DOP853 in compiled code, without Python in between: side by side in the lanes of vector
    registers where that pays, else one after another in each thread.
    Problems beyond that code go through ``solve`` in the same threads, at its speed: stiff problems, other
    methods, schedules and activations of Python functions, the step in which ``stop`` is met, kinked students that are
    nearly parallel, divergence.

    Parameters
    ----------
    models : Model or sequence of Model
        The learning problem: equal K, M, L and activations, with all second layers trained or none; rates, noise,
        second layers, teachers and eigenvalues may differ, and weights, labels, means and variances of C classes.
    starts : State or sequence of State
        Initial order parameters. One model, or one start, serves all.
    alpha : array_like, shape (n,)
        Increasing output times >= 0, shared by all, with the start at alpha = 0.
    threads : int, optional
        Number of threads; all cores by default. Results do not depend on it, digit by digit.
    stop, method, rtol, atol, **options
        As in :func:`overlaps.solve`, for each trajectory; ``late`` and ``certify`` are left to it.
    blocks : bool
        Whether to keep the overlaps of every block; otherwise Q, R and v only.
    max_memory : float
        Bytes above which nothing is begun; the records take 8 b (n + 1) (L (K M + K (K + 1) / 2) + 1).
    progress : bool
        Show a progress bar over trajectories.
    schedule : Schedule or dict, or sequence of them, optional
        As in :func:`overlaps.solve`; a sequence has one for each trajectory, or None where nothing changes.
    lanes : bool, optional
        Whether trajectories are stepped side by side: erf, linear or quadratic students of teachers of their kind, at
        most 12 of both and 8 eigenvalues, and of the last two kinds 128 overlaps in all blocks. By default batches of
        at least 64 of these are; ``False`` keeps the last bit of ``solve``, ``True`` takes fewer.

    Returns
    -------
    Batch
        With ``success``, ``message`` and ``end`` of each trajectory. Ctrl-C returns what is finished, the rest with
        ``success=False``. A trajectory whose ``schedule`` or ``stop`` raises has the exception for a message.

    Raises
    ------
    ValueError
        Bad input, models that differ in shape (the first is named), or too little memory, before any integration.
    RuntimeError, ValueError
        Every trajectory raised; the exception of the first is the cause.

    Warns
    -----
    RuntimeWarning
        Once, when some integrations did not succeed.

    Notes
    -----
    A trajectory does not depend on the others, on their order or on the threads, digit by digit. Side by side, sums
    are added up in another order than in ``solve``: results agree to rounding, which a plateau amplifies (1e-13 to
    1e-8). One after another (``simd=False``) results equal those of ``solve`` to the last bit; with ``blocks=False``
    and several eigenvalues to rounding (1e-15). K, M, L, the activations and the number of trajectories decide whether
    lanes are taken, and nothing else.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500.

    Examples
    --------
    >>> import dataclasses, numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> models = [dataclasses.replace(model, noise=noise) for noise in np.linspace(0, 0.5, 20)]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), np.linspace(0, 50, 11))
    >>> batch.eps_g.shape, bool(batch.success.all()), bool(np.all(np.diff(batch.eps_g[:, -1]) > 0))
    ((20, 11), True, True)
    """
    controls: dict[str, Any] = {"stop": stop, "method": method, "rtol": rtol, "atol": atol, "blocks": blocks}
    controls |= {"progress": progress, "schedule": schedule, "simd": simd}
    solutions = evolve_batch(models, starts, alpha, threads=threads, max_memory=max_memory, **controls, **options)
    batch = Batch(**vars(solutions))
    lost = np.flatnonzero(~batch.success)
    if lost.size:
        warn(
            f"{lost.size} of {len(batch)} trajectories did not succeed; number {lost[0]}: {batch.message[lost[0]]}"
            + check.see("integration", "When it does not end well")
        )
    return batch
