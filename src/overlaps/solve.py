"""Integration of the order-parameter equations."""

import warnings

import numpy as np

from . import _check
from ._choose import choose_method
from ._integrals import LINEAR
from ._progress import bar
from ._system import System
from .closure import check_domain
from .differences import DifferenceSystem
from .exponential import ExponentialMidpoint
from .handover import can_hand_over, unfit
from .integrate import check_options, integrate, solver_class
from .structured import StructuredBDF
from .trajectory import Trajectory

__all__ = ["solve"]


def solve(
    model, start, alpha, *, method="auto", rtol=1e-8, atol=None, progress=False, stop=None, late=False, **options
):
    r"""Integrate the order parameters of one-pass SGD, exact for N -> infinity.

    .. math::
        dr^l/d\alpha &= s_l A r^l + B \tau^l \\
        dq^l/d\alpha &= s_l (A q^l + q^l A^T) + B r^{lT} + r^l B^T + s_l p_l C \\
        dv_k/d\alpha &= -\eta_v E[g(\lambda_k)\Delta]

    with A, B, C of :func:`overlaps.closure` (weight decay and minibatches as in :func:`overlaps.committee_machine`).

    Parameters
    ----------
    model : Model
        What is learned and how.
    start : State
        Initial order parameters.
    alpha : tuple of two floats, or array_like
        An interval (from, to), recorded at every step of the solver; or increasing output times >= 0, with the start
        at alpha = 0. Time is alpha = steps / N.
    method : str or OdeSolver class
        "structured" (:class:`~overlaps.structured.StructuredBDF`: stiff problems, long times), "exponential"
        (:class:`~overlaps.exponential.ExponentialMidpoint`: moderate accuracy), any name known to
        ``scipy.integrate.solve_ivp``, or a subclass of ``scipy.integrate.OdeSolver``. "DOP853" is SciPy's with eps_g in
        its error control (:class:`~overlaps.explicit.DOP853`). "auto" takes it for short or non-stiff problems and
        "structured" otherwise, and says in the result what it took and why.
    rtol, atol : float
        Tolerances on the overlaps; atol is min(1e-12, 1e-4 rtol) by default. With the default methods eps_g is as
        accurate, relative to itself, until rounding hides it: that of Q and R (``Trajectory.eps_floor``), or about
        1e-14 with "structured" (``late=True`` goes on). A plateau amplifies every error.
    progress : bool
        Show a progress bar.
    stop : float or callable, optional
        Stop where eps_g falls below this number, or where the number ``stop(alpha, state)`` changes sign.
    late : bool
        Follow perfectly learnable problems (erf, linear, quadratic; K = M) to any eps_g: once every student has nearly
        learned its teacher, the overlaps of their differences are integrated in place of Q and R, whose rounding hides
        eps_g below about 1e-16. See :mod:`overlaps.differences`. "exponential" is followed by "structured". Linear
        networks of several units learn their sum only: take K = M = 1, as in :mod:`overlaps.theory.linear`.
    **options
        Passed to the SciPy solver: ``max_step``, ``first_step``, and for BDF, Radau and LSODA what they have besides.

    Returns
    -------
    Trajectory
        With ``success``, ``message`` and ``nfev``. A diverging, failing or interrupted integration returns the part
        that was computed with ``success=False``.

    Raises
    ------
    ValueError
        Bad input, before any integration.

    Warns
    -----
    RuntimeWarning
        Once, with the message, when the integration did not succeed.

    Notes
    -----
    In a gradient flow a student with a kink at the origin (relu, leaky relu, absolute value) may shrink to norm zero at
    a finite time. Its force does not vanish there but has no direction any more, so the equations end: the
    integration stops and names the student. The noise of SGD (``gradient_flow=False``) keeps norms positive.

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
    _check.model(model)
    start = _check.state(start).on(model)
    rtol, atol, stop = checked_controls(rtol, atol, stop)
    times, every_step = output_times(alpha)
    check_domain(model, start.S, start.v)
    system = System(model, start)
    automatic = isinstance(method, str) and method == "auto"
    chosen, why = choose_method(system, times[-1] - times[0], rtol) if automatic else (method, "")
    solver = solver_class(chosen)
    check_options(solver, options)
    common = {"every_step": every_step, "stop": stop, "options": {"rtol": rtol, "atol": atol, **options}}
    with bar(progress, times[-1], "alpha") as tick:
        leave = _learned(system) if _check.flag("late", late) else None
        run = integrate(system, system.pack(start), times, method=solver, leave=leave, tick=tick, **common)
        q, r, v = system.unpack(np.array(run.y))
        eps_late = floor_late = None
        if run.left:
            run, q, r, v, eps_late, floor_late = _follow_differences(
                system, run, (q, r, v), times, solver, tick, common
            )
    run.message += _closure_note(system.closure)
    if not run.success:
        warnings.warn(run.message, RuntimeWarning, stacklevel=2)
    first = first_record(run, alpha)
    return Trajectory(
        model=model,
        alpha=np.array(run.alpha[first:]),
        q=q[first:],
        r=r[first:],
        v=v[first:],
        tau=start.tau,
        T=start.T,
        success=run.success,
        message=run.message,
        nfev=run.nfev,
        method=solver.__name__ + why,
        rtol=rtol,
        atol=atol,
        eps_late=None if eps_late is None else eps_late[first:],
        floor_late=None if floor_late is None else floor_late[first:],
    )


def _learned(system):
    """Test whether every student has nearly learned its teacher, at a packed state."""

    def leave(y):
        return can_hand_over(system.model, system.state(y))[0] is not None

    reason = unfit(system.model, system.start)
    if not reason and system.model.activation.code == LINEAR and system.model.K > 1:
        reason = "linear units learn their sum only, their differences stay; expected K = M = 1, see theory.linear"
    if reason:
        raise ValueError(f"late=True cannot follow this problem to the end: {reason}. Leave late out.")
    return leave


def _follow_differences(system, run, arrays, times, solver, tick, common):
    """Go on from the end of ``run`` in the differences of students and teachers; all parts joined."""
    late = DifferenceSystem(system.model, system.state(run.y[-1]))
    y = late.pack(late.start)
    # the error of the exponential step is measured in Q and R
    solver = StructuredBDF if solver is ExponentialMidpoint else solver
    alpha, eps_late = run.alpha, np.full((2, len(run.alpha)), np.nan)
    note = f" From alpha = {alpha[-1]:.6g} on in the differences of students and teachers ({solver.__name__})."
    while run.left:
        at = alpha[-1]
        remaining = np.r_[at, times[times > at]]
        part = integrate(late, y, remaining, method=solver, leave=late.drifted(y), tick=tick, **common)
        part.nfev += run.nfev
        packed = np.array(part.y)
        # the handover itself is a record only if it was asked for
        kept = len(alpha) if common["every_step"] or at in times else len(alpha) - 1
        alpha = alpha[:kept] + part.alpha[1:]
        arrays = [np.concatenate([a[:kept], b[1:]]) for a, b in zip(arrays, late.unpack(packed), strict=True)]
        late_part = np.array([late.eps_g(packed), late.eps_floor(packed)])
        eps_late = np.concatenate([eps_late[:, :kept], late_part[:, 1:]], axis=1)
        late, y = late.realigned(packed[-1])
        run = part
    run.alpha, run.message = alpha, run.message + note
    return run, *arrays, *eps_late


def _closure_note(closure):
    """What a numerically integrated closure has to say about itself."""
    note = f" {closure.message}" if getattr(closure, "message", "") else ""
    error = getattr(closure, "error", 0.0)
    return note + (f" Estimated error of C at the end: {error:.1e}." if error > 0 else "")


def checked_controls(rtol, atol, stop):
    """Tolerances and stop condition as ``integrate`` takes them."""
    rtol = _check.number("rtol", rtol, above=0)
    if rtol >= 1:
        raise ValueError(f"rtol = {rtol:g}; expected a relative error below 1, such as 1e-8.")
    atol = min(1e-12, 1e-4 * rtol) if atol is None else _check.number("atol", atol, above=0)
    if stop is not None and not callable(stop):
        stop = _check.number("stop", stop, above=0, hint="A number means: stop where eps_g falls below it.")
    return rtol, atol, stop


def first_record(run, alpha):
    """Index of the first record to keep: the start only where it was asked for, or where nothing else was reached."""
    asked = isinstance(alpha, tuple) or np.ravel(alpha)[0] == 0
    return int(not asked and len(run.alpha) > 1)


def output_times(alpha):
    """(times with the start first, whether every step is recorded) of an interval or an array of output times."""
    if isinstance(alpha, tuple):
        if len(alpha) != 2:
            raise ValueError(f"alpha is a tuple of length {len(alpha)}; expected (from, to), or an array of times.")
        first, last = (_check.number("alpha", a, least=0) for a in alpha)
        if not last > first:
            raise ValueError(f"alpha = {alpha}; expected an interval with from < to.")
        return np.array([first, last]), True
    times = _check.array("alpha", np.atleast_1d(alpha), ("n",), "Try np.linspace(0, 100, 201).")
    if times.size == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError("alpha must be an increasing array of times >= 0 with at least one entry.")
    return (times if times[0] == 0 else np.concatenate([[0.0], times])), False
