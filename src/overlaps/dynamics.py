"""Integration of the order-parameter equations: one problem, or a batch of problems of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from ._base import ArrayLike, Function, by_name, check, warn
from .integrators.batch import evolve_batch
from .integrators.evolve import SECOND_RUN, evolve
from .integrators.finite_steps import checked_step
from .integrators.methods import second_run
from .models import LowRank, Mixed, Model, Schedule, Stages, State
from .models.features import check_features
from .models.start import on_switches, output_times
from .models.state import of_state
from .results import Batch, SummedTrajectory, Trajectory
from .results.composite import LowRankTrajectory, MixedTrajectory, StagedTrajectory, shown_times


class CertificationLimits(NamedTuple):
    """Relative errors that ``certify=True`` accepts."""

    # Accepted error in units of rtol. Plateaus amplify the errors of steps, by less than this in all tests with random
    # settings. Halved: correct curves with long plateaus may fail; doubled: wrong curves pass with larger errors.
    max_amplification: float = 1000.0
    max_error: float = 0.1  # accepted error at any rtol; only rtol above 1e-4 reaches it
    # Error of a run, in units of its difference from the second run. Where a plateau amplifies rounding beyond the
    # tolerances, both errors are equally large and may partly cancel. Halved: such a cancellation passes; doubled:
    # correct curves fail more often.
    difference_factor: float = 2.0


CERTIFICATION = CertificationLimits()


class SolveOptions(TypedDict, total=False):
    """Keywords of ``solve`` on which the type of its result does not depend, for type checkers."""

    method: str | type
    rtol: float
    atol: float | None
    progress: bool
    stop: float | Function | None
    late: bool
    schedule: Schedule | dict[str, Schedule] | None
    certify: bool
    every_step: bool
    step: float | None
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
@overload
def solve(start: State, alpha: Times, /, *, blocks: Literal[False], **o: Unpack[SolveOptions]) -> SummedTrajectory: ...
@overload
def solve(
    start: State, alpha: Times, /, *, blocks: Literal[True] = True, **options: Unpack[SolveOptions]
) -> Trajectory: ...


@of_state
@by_name("ov.solve(model, start, (0, 100))")
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
    every_step: bool = False,
    step: float | None = None,
    **options: Any,
) -> Trajectory | SummedTrajectory | StagedTrajectory:
    r"""Integrate the order parameters of one-pass SGD, exact for N -> infinity.

    .. math::
        dr^l/d\alpha &= s_l A r^l + B \tau^l \\
        dq^l/d\alpha &= s_l (A q^l + q^l A^T) + B r^{lT} + r^l B^T + s_l p_l C \\
        dv_k/d\alpha &= -\eta_v E[g(\lambda_k)\Delta]

    with A, B, C of :func:`overlaps.closure` (weight decay and minibatches as in :func:`overlaps.committee_machine`).

    Parameters
    ----------
    model : Model, Stages, Mixed or LowRank
        The learning problem: one task, tasks in sequence (:class:`Stages`), tasks mixed in each step (:class:`Mixed`),
        or directions that adapt a frozen student (:func:`overlaps.low_rank`). By default the model of the start:
        ``solve(traj[-1], (100, 200))`` continues a curve.
    start : State
        Initial order parameters at time ``start.alpha``, which is 0 unless the state is a record of a solution.
    alpha : tuple of two floats, or array_like
        Learning time, steps / N. A tuple (from, to) is an interval, recorded at 201 equidistant times. An array is a
        list of increasing output times. An interval begins at ``start.alpha``; output times are not earlier.
    method : str or OdeSolver class
        The integrator:

        - "auto": "DOP853" for short or non-stiff problems and where the closure has no Jacobian, "structured"
          otherwise; ``Trajectory.method`` names the choice and its reason.
        - "DOP853": SciPy's method, with eps_g in its error control (:class:`~overlaps.integrators.dop853.DOP853`).
        - "structured": for stiff problems and long times (:class:`~overlaps.integrators.bdf.StructuredBDF`).
        - any other name that :func:`scipy.integrate.solve_ivp` accepts, or a subclass of
          :class:`scipy.integrate.OdeSolver`.
    rtol, atol : float
        Tolerances on the overlaps; atol is min(1e-12, 1e-4 rtol) by default. The first three methods also control the
        relative error of eps_g, down to rounding: that of Q and R, or with "structured" about 5e-14 for erf and 5e-15
        for linear units. For a :class:`~overlaps.activations.rule.Rule` they do so if its averages are accurate to
        1e-8. ``Trajectory.eps_floor`` estimates the remaining error of eps_g; ``late=True`` resolves smaller values.
        A plateau amplifies every error.
    progress : bool
        Show a progress bar.
    stop : float or callable, optional
        Stop where eps_g falls below this number, or where the number ``stop(alpha, state)`` changes sign.
    late : bool
        Resolve eps_g of perfectly learnable problems down to 1e-200; smaller values are returned as 0.0 or rounding.
        Rounding of Q and R hides eps_g below about 1e-16. Once every student has nearly learned its teacher, the
        overlaps of the differences of students and teachers are therefore integrated in place of Q and R
        (:mod:`overlaps.flow.differences`). If v differs from v*, or a student learns no teacher, Q and R are integrated
        to the end.

        Supported: erf, linear and quadratic units, the same on both sides, and K = M. Refused: other activations
        (relu, tanh, ...), label noise, weight decay, a trained second layer and teachers of latents. Linear networks
        with several units learn only the sum of their units; use K = M = 1, as in :mod:`overlaps.theory.linear`.
    blocks : bool
        Whether to return the overlaps of every block. A record takes 8 (L (K M + K (K + 1) / 2) + K + 2) bytes during
        the integration and 8 (L K (K + M) + K + 2) bytes in the result; with ``every_step=True`` there may be
        thousands of records. With ``blocks=False``, L is 1 in both formulas and the result is a
        :class:`~overlaps.results.trajectory.SummedTrajectory`: its records cannot start another solution, and ``at``
        is not available.
    schedule : Schedule or dict, optional
        Factor on eta and eta_v as a function of alpha (:class:`Schedule`); or a dict of such factors, on "eta",
        "eta_v", "noise", "weight_decay", "batch_size" and "s" (the variances of the inputs). Steps end at the knots.
    certify : bool
        Integrate a second time and return the differences in ``Trajectory.certified``. The second run is recorded at
        the same times and takes more work than the first: its tolerances are 100 times smaller. Where the method does
        not become more accurate (below rtol 1e-9 for "structured", 1e-12 for others), the second run uses DOP853, or
        RK45 if the first one used DOP853.

        ``success`` is False if twice a difference exceeds min(1000 rtol, 0.1) times the largest overlap, or for eps_g
        that fraction of the smaller of both values plus 10 ``eps_floor``. Plateaus amplify the errors of steps, by less
        than 1000 in all tests, so a larger difference indicates a wrong curve. ``success`` is also False if a second
        run is not affordable.
    every_step : bool
        Record an interval (from, to) at every step of the solver, in place of 201 equidistant times.
    step : float, optional
        Finite steps, each a batch of ``step`` N samples: their gradients at the old weights are added, and alpha
        advances by ``step``. In place of the flow the overlaps follow an exact map of the same A, B, C,

        .. math:: r^l &\mathrel{+}= \Delta\alpha\, \dot r^l \\
            q^l &\mathrel{+}= \Delta\alpha\, \dot q^l
            + \Delta\alpha^2 \big[ (s_l A q^l + B r^{lT}) s_l A^T + \dot r^l B^T \big]

        with the velocities of the flow and :math:`\Delta\alpha` = step. The rate of a mean gradient is eta step. Times
        are whole numbers of steps from the start; an interval has all of them, ``stop`` ends at one, and a schedule
        gives the factor at the beginning of each. With ``gradient_flow=True`` it is gradient descent on the population
        loss. The nodes of a hidden manifold give the first nodes - 1 steps exactly. ``method`` and the tolerances are
        not available.
    **options
        Passed to the SciPy solver: ``max_step`` and ``first_step``; for BDF, Radau and LSODA also their own options.

    Returns
    -------
    Trajectory
        With ``success``, ``message`` and ``nfev``. An integration that diverges, fails or is interrupted returns the
        records computed so far, with ``success=False``. The result is a SummedTrajectory with ``blocks=False``, a
        StagedTrajectory for Stages, a MixedTrajectory for Mixed and a LowRankTrajectory for LowRank.

    Raises
    ------
    ValueError
        Invalid arguments, before any integration; overlaps of 1e70 or more, whose products overflow.

    Warns
    -----
    RuntimeWarning
        Once, with the message, if the integration did not succeed.

    Notes
    -----
    In a gradient flow, the norm of a student with a kink at the origin (relu, leaky relu, absolute value) may reach
    zero at a finite time. The force does not vanish there, but its direction is undefined, so the equations end: the
    integration stops, and the message names the student. The noise of SGD (``gradient_flow=False``) keeps norms
    positive.

    Kinked students that are nearly parallel amplify errors: the flow depends on the angle between them, and the
    overlaps determine only its cosine. If an angle falls below 0.003, the run is repeated with norms perturbed by rtol.
    The change of eps_g enters ``eps_floor``. If an overlap changes by more than 1000 rtol, ``success`` is False and the
    message gives the reason: the curve is complete, but the tolerance was not met.

    If students of the start are linear combinations of other students or of teachers up to rounding (the covariance of
    the fields has an eigenvalue zero), every step is projected onto the covariance matrices, and the run is repeated
    with norms perturbed by 4e-15. The change of eps_g enters ``eps_floor``. If it exceeds 1e-5 of eps_g, and neither
    rounding nor the errors of steps explain it, ``success`` is False and the message gives the reason: the curve is
    complete, but depends on digits beyond the precision of the start.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500.
    Finite steps: Dandi et al. (2024), arXiv:2305.18270; Bordelon and Pehlevan (2022), arXiv:2106.02713.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=1.0, gradient_flow=True)
    >>> start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])
    >>> traj = ov.solve(model, start, [0.0, 1.0])
    >>> bool(abs(traj.eps_g[-1] - np.exp(-2) / 2) < 1e-9)
    True
    """
    check.flag("blocks", blocks)
    controls = {"method": method, "rtol": rtol, "atol": atol, "stop": stop, "late": late, "blocks": blocks, **options}
    controls |= {"progress": progress, "every_step": check.flag("every_step", every_step)}
    certify = check.flag("certify", certify)
    if step is not None:
        controls["step"] = step = checked_step(step, method=method, rtol=rtol, atol=atol, **options)
    segments: Any = [(model, start, alpha, schedule)]
    results: list[Any] = []
    check.flag("late", late)
    check_features("solve", model, schedule, late=late, blocks=blocks, stop=stop, certify=certify, step=step)
    if isinstance(model, Stages):
        times = output_times(alpha, check.state(start).alpha, every_step, step)
        if step is not None:
            times = on_switches(times, step, model.until)
        requested = None if every_step else times if isinstance(alpha, tuple) else times[-np.size(alpha) :]
        segments = model.in_turn(start, times, requested, schedule, results)
    for segment in segments:
        if isinstance(model, Stages):  # a stage of length zero is an array
            controls["every_step"] = every_step and isinstance(segment[2], tuple)
        results.append(_solved(*segment, **controls))
    if isinstance(model, Stages):
        if requested is not None and results[-1].stopped:
            requested = np.append(requested, results[-1].alpha[-1])
        traj = StagedTrajectory(model=model, alpha=shown_times(results, requested), parts=tuple(results))
    else:
        traj = _certified(results[0], start, options) if certify else results[0]
    if not traj.success:
        warn(traj.message + check.see("integration", "Failed runs"))
    return traj


def _solved(model, start, alpha, schedule, **controls):
    """Solve and return the result with all blocks, or with their sums."""
    fields = vars(evolve(model, start, alpha, schedule=schedule, **controls))
    kinds: dict[type, Any] = {Mixed: MixedTrajectory, LowRank: LowRankTrajectory}
    return kinds.get(type(model), Trajectory)(**fields) if controls["blocks"] else SummedTrajectory.of(fields)


def _certified(traj, start, options):
    """Return the trajectory with ``certified``; ``success`` is False if an error exceeds ``CERTIFICATION``."""
    late, names = traj.eps_late is not None, ("Q", "R", "v", "mean_fields") if traj.model.n_classes else ("Q", "R", "v")
    # these errors cannot be computed from sums over blocks
    blocks = late or traj.model.n_classes > 0 or len(traj.model.groups) > 1 or traj.changing
    solve_again = partial(_solved, traj.model, start, traj.alpha, traj.schedule, late=late, blocks=blocks)
    other, reason = second_run(traj, start, options, solve_again)
    if other is None:
        refused = {"success": False, "message": f"{traj.message} But not certified: {reason}."}
        return replace(traj, **refused) if traj.success else traj
    limits = CERTIFICATION
    n, error, allowed = len(other), {}, min(limits.max_amplification * traj.rtol, limits.max_error)
    for name in names:
        first = getattr(traj, name)
        error[name] = np.full(first.shape, np.nan)
        error[name][:n] = first[:n] - getattr(other, name)
    # errors of eps_g are relative to eps_g, or to eps_floor if that is larger
    floor, size = np.maximum(traj.eps_floor, np.finfo(float).tiny), max(1.0, np.max(np.abs(traj.S)))
    change, smaller = np.full((2, len(traj)), np.nan)
    change[:n], smaller[:n] = traj.eps_g[:n] - other.eps_g, np.minimum(traj.eps_g[:n], other.eps_g)
    error["eps_g"] = change / np.maximum(traj.eps_g, floor)
    result = replace(traj, nfev=traj.nfev + other.nfev, **{f"error_{name}": x for name, x in error.items()})
    if not traj.success:
        return result
    if not other.success:
        reason = f"the second run, {other.solver.__name__} at rtol {other.rtol:.1g}, {other.message}"
    else:
        overlaps = limits.difference_factor * max(np.max(np.abs(error[name]), initial=0.0) for name in names) / size
        # The tolerance includes eps_floor only up to a multiple of rounding: the errors of steps that eps_floor also
        # contains are large on a curve that is too large, and would hide its error.
        hidden = np.minimum(floor, np.maximum(SECOND_RUN.rounding_factor * traj.rounding, np.finfo(float).tiny))
        missed = limits.difference_factor * np.abs(change) > allowed * smaller + SECOND_RUN.error_factor * hidden
        if overlaps <= allowed and not np.any(missed):
            return result
        at = traj.alpha[np.argmax(missed)] if np.any(missed) else None
        worst = f"of eps_g first at alpha = {at:.6g}" if overlaps <= allowed else f"{overlaps:.1g} in the overlaps"
        limit = f"{limits.max_amplification:g} rtol" if allowed < limits.max_error else f"{limits.max_error:g}"
        reason = f"errors exceed {limit} ({worst})"
    return replace(result, success=False, message=f"{traj.message} But not certified: {reason}. Try a smaller rtol.")


@by_name("ov.solve_many(models, starts, [0.0, 10.0])")
def solve_many(
    models: Model | Sequence[Model],
    starts: State | Sequence[State],
    alpha: Times,
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
    step: float | None = None,
    **options: Any,
) -> Batch:
    """Integrate a batch of problems of one shape in threads: the equations and the steps of :func:`overlaps.solve`.

    Trajectories are integrated by DOP853 in compiled code, several at once in vector registers (SIMD) where that is
    faster, otherwise one after another in each thread. Other problems are integrated by ``solve`` in the same threads,
    at the speed of ``solve``: stiff problems, other methods, finite steps, schedules and activations that are Python
    functions, the step in which ``stop`` is met, kinked students that are nearly parallel, divergence.

    Parameters
    ----------
    models : Model or sequence of Model
        The learning problems, b in number. They have the same K, M, L and activations, and all or none of the second
        layers are trained. Rates, noise, second layers, teachers and eigenvalues may differ, and so may the weights,
        labels, means and variances of C classes.
    starts : State or sequence of State
        Initial order parameters. A single model or a single start is used for all trajectories.
    alpha : tuple of two floats, or array_like, shape (n,)
        Output times as in :func:`overlaps.solve`, common to all trajectories.
    threads : int, optional
        Number of threads; all cores by default. Results do not depend on it, to the last bit.
    stop, method, rtol, atol, step, **options
        As in :func:`overlaps.solve`, for each trajectory; ``late`` and ``certify`` are available there only.
    blocks : bool
        Whether to return the overlaps of every block; otherwise only Q, R and v.
    max_memory : float
        Limit in bytes above which the call is refused. The records take 8 b (n + 1) (L (K M + K (K + 1) / 2) + 1).
    progress : bool
        Show a progress bar over trajectories.
    schedule : Schedule or dict, or sequence of them, optional
        As in :func:`overlaps.solve`; a sequence has one entry for each trajectory, None for constant rates.
    simd : bool, optional
        Whether to integrate several trajectories at once in vector registers. Supported: erf, linear or quadratic
        units, the same on both sides, with K + M <= 12 and L <= 8, and for linear and quadratic units at most 128
        overlaps in all blocks. By default such batches use it from 64 trajectories on; ``True`` uses it for smaller
        batches, too. With ``False`` results equal those of ``solve`` to the last bit.

    Returns
    -------
    Batch
        With ``success``, ``message`` and ``end`` of each trajectory. Ctrl-C returns the finished trajectories, the
        others with ``success=False``. If a ``schedule`` or ``stop`` raises, the exception is the message of its
        trajectory.

    Raises
    ------
    ValueError
        Invalid arguments, models of different shapes (the message names the first), or more than ``max_memory``,
        before any integration.
    RuntimeError, ValueError
        Every trajectory raised; the exception of the first is the cause.

    Warns
    -----
    RuntimeWarning
        Once, if some integrations did not succeed.

    Notes
    -----
    A trajectory does not depend on the other trajectories, on their order or on the number of threads, to the last
    bit. With SIMD, sums are added up in another order than in ``solve``: results agree to rounding, which a plateau
    amplifies (1e-13 to 1e-8). Without (``simd=False``), results equal those of ``solve`` to the last bit; with
    ``blocks=False`` and several eigenvalues, to rounding (1e-15). Only K, M, L, the activations and the number of
    trajectories determine the default of ``simd``.

    References
    ----------
    Saad and Solla (1995), Phys. Rev. E 52, 4225; Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5)
    >>> models = [model.replace(noise=noise) for noise in np.linspace(0, 0.5, 20)]
    >>> batch = ov.solve_many(models, model.random_start(N=1000, rng=1), np.linspace(0, 50, 11))
    >>> batch.eps_g.shape, bool(batch.success.all()), bool(np.all(np.diff(batch.eps_g[:, -1]) > 0))
    ((20, 11), True, True)
    """
    controls: dict[str, Any] = {"stop": stop, "method": method, "rtol": rtol, "atol": atol, "blocks": blocks}
    controls |= {"progress": progress, "schedule": schedule, "simd": simd, "step": step}
    solutions = evolve_batch(models, starts, alpha, threads=threads, max_memory=max_memory, **controls, **options)
    batch = Batch(**vars(solutions))
    failed = np.flatnonzero(~batch.success)
    if failed.size:
        first = failed[0]
        warn(
            f"{failed.size} of {len(batch)} trajectories did not succeed; number {first}: {batch.message[first]}"
            + check.see("integration", "Failed runs")
        )
    return batch
