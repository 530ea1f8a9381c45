"""Fixed points of the flow, stable or not, by Newton's method."""

from typing import NamedTuple

import numpy as np
import scipy

from .._base import Immutable, by_name, check, warn
from ..flow.closure import check_domain
from ..flow.jacobian import jacobian_of
from ..models import Model, State
from ..models.state import of_state
from .linear import EIGENVALUES, bound, check_dense, linearise
from .symmetry import in_words


class NewtonOptions(NamedTuple):
    """Tunable numbers of Newton's method and of its message."""

    # Relative difference of overlaps below which students are equal: Newton's steps then move them together.
    equal_tol: float = 1e-12
    vanished_ratio: float = 1e-6  # Students have vanished (diverged) if squared norms change by this factor (inverse).
    # Newton's method stops when the velocity is below this fraction of its terms; smaller: it iterates on rounding.
    velocity_tol: float = 1e-14
    max_counted_size: int = 200  # Largest number of order parameters at which the message counts the growing modes.


NEWTON = NewtonOptions()


class FixedPoint(Immutable):
    """A fixed point of the flow and the accuracy reached; made by :func:`fixed_point`.

    Attributes
    ----------
    state : State
        Order parameters of the fixed point.
    residual : float
        Largest ``|dy/dalpha|`` that is left.
    converged : bool
        Whether that is below the tolerance, at overlaps of real vectors.
    iterations : int
        Newton steps taken.
    message : str
        A sentence: which students are equivalent, and how many modes grow.
    """

    state: State
    residual: float
    converged: bool
    iterations: int
    message: str

    def __repr__(self):
        word = "converged" if self.converged else "NOT converged"
        return f"FixedPoint({self.state}, {word}, residual={self.residual:.1e}, iterations={self.iterations})"


@of_state
@by_name("ov.fixed_point(guess)")
def fixed_point(model: Model, guess: State, *, tol: float = 1e-12, max_iterations: int = 100) -> "FixedPoint":
    r"""Find a fixed point of the flow near a guess, stable or not, by Newton's method.

    .. math:: \frac{dy}{d\alpha}(y) = 0, \qquad \text{step } \delta y = -J^+ \frac{dy}{d\alpha}

    The pseudo-inverse takes the shortest of all Newton steps: along directions that the flow conserves (J is singular
    there, and fixed points form manifolds) the guess does not change. Steps that do not reduce the velocity are halved.
    Exact up to rounding; quadratic convergence. At finite eta there are two plateaus, of equal and of merely equivalent
    students; following the second in eta by continuation may fall onto the first, the end of a trajectory does not. At
    a degenerate fixed point (one that is approached algebraically, e.g. more quadratic students than teachers)
    convergence is linear and the overlaps are accurate to about sqrt(tol).

    Source: Saad and Solla (1995), Phys. Rev. E 52, 4225; Biehl, Riegler and Wöhler (1996), J. Phys. A 29, 4769
    (plateaus).

    Parameters
    ----------
    model : Model
        The learning problem; that of the guess by default, ``fixed_point(guess)``.
    guess : State
        Start of the search. T and tau do not change, and symmetries are conserved up to rounding: from students that
        are equivalent to each other Newton's method finds a symmetric plateau, which no generic trajectory would stay
        at; from a state near student = teacher the specialised fixed point. At finite eta there are two plateaus: one
        of equal students (start with Q_kj = Q_kk), which stay equal because their noise is the same, and one of
        students that are merely equivalent, Q_kj < Q_kk by an amount of order eta, near which trajectories stay.
    tol : float
        Largest ``|dy/dalpha|`` accepted, relative to the size of the Jacobian times the largest overlap.
    max_iterations : int
        Largest number of Newton steps.

    Returns
    -------
    FixedPoint
        ``state``, ``residual`` = largest ``|dy/dalpha|``, ``converged``, ``iterations``, ``message``.

    Raises
    ------
    ValueError
        Bad input, or a closure without derivative at the guess (:func:`linearise`).

    Warns
    -----
    RuntimeWarning
        The velocity did not vanish, or the overlaps found are not positive semi-definite; ``converged`` is False. Or
        the students of the guess have vanished (quadratic students have this trivial fixed point at every learning
        rate) or grown without bound (saturated units no longer move): fixed points far from the guess.

    Examples
    --------
    The symmetric plateau of two erf students in the limit of small eta, from students with equal overlaps:

    >>> import numpy as np, overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.5, gradient_flow=True)
    >>> ones = np.ones((2, 2))
    >>> plateau = ov.fixed_point(ov.State.from_overlaps(model, Q=0.4 * ones, R=0.3 * ones, T=np.eye(2)))
    >>> plateau.state.Q[0, 0].round(12)
    np.float64(0.333333333333)
    >>> ov.linearise(plateau.state).unstable
    1
    """
    tol = check.number("tol", tol, above=0)
    max_iterations = check.count("max_iterations", max_iterations)
    system, y = bound(model, guess, "guess", "fixed_point")
    check_dense(y.size)
    y, velocity, size, iterations, reason = _newton(system, y, max_iterations)
    state, residual = system.state(y, system.start.alpha), float(np.max(np.abs(velocity)))
    message = f"largest |dy/dalpha| = {residual:.1e} after {iterations} Newton steps"
    converged = bool(residual <= tol * size)
    if not converged:
        expected = f"expected below {tol * size:.1e}" if np.isfinite(size) else "where the flow has no derivatives"
        message += (
            f", {expected}: no fixed point was found. Start nearer to one (the slowest point "
            "of a trajectory), or lower eta: plateaus can cease to exist when it is large." + reason
        )
    else:
        try:
            state = state.on(model)
            # the flow of kinked students that have vanished is undefined
            check_domain(model, model.field_covariance(state), state.v)
        except ValueError as refusal:
            converged, message = False, message + f", at overlaps that no students have: {refusal}"
    if converged:
        message += f"; {in_words(state)}{_growing_modes(model, state, y.size)}"
    caveat = _caveat(np.max(np.diag(system.start.Q)), np.max(np.diag(state.Q))) if converged else ""
    message += caveat
    if not converged or caveat:
        warn(f"fixed_point: {message.rstrip('.')}." + check.see("committee", "Plateau, specialisation, stability"))
    return FixedPoint(state, residual, converged, iterations, message)


def _growing_modes(model, state, size):
    """A phrase about the growing modes; empty where counting them would take longer than the fixed point."""
    if size > NEWTON.max_counted_size:
        return ""
    try:
        count = linearise(model, state).unstable
    except ValueError:  # aligned kinked units
        return ", growing modes unknown"
    return f", {count} growing mode{'s' * (count != 1)}"


def _caveat(guess, reached):
    """A sentence on students that have vanished, or grown without bound, from the largest squared norms."""
    if reached < NEWTON.vanished_ratio * guess:
        return (
            "; but the students of the guess have vanished (Q = 0): this is the trivial fixed point, none was found "
            "near the guess. Lower eta: plateaus can cease to exist when it is large."
        )
    if reached * NEWTON.vanished_ratio > guess:
        return (
            f"; but students have grown from Q_kk = {guess:.2g} to {reached:.2g}, where units saturate and the flow "
            "stops: none was found near the guess. Start nearer to one, or lower eta."
        )
    return ""


def _newton(system, y, max_iterations):
    """Damped Newton steps of least norm, until the velocity is rounding or the closure has no derivative.

    Returns (y, velocity, size of its terms, number of steps, why the steps ended early or "").
    """
    tied, frozen = _tied_entries(system), _frozen_entries(system)
    free, copies = np.unique(tied, return_inverse=True)
    inverse = _inverse(system.source)
    y = possible(system, y, inverse)[tied]
    reason = ""
    for iteration in range(max_iterations + 1):
        velocity = system.rhs(0.0, y)
        try:
            derivative = jacobian_of(system, y)
        except ValueError as refusal:
            if iteration == 0:  # no derivative at the guess itself
                raise
            reason = f" Newton's steps ended where {refusal}"
            break
        speed, size = np.linalg.norm(velocity[free]), derivative.scale * np.max(np.abs(y), initial=1e-300)
        if iteration == max_iterations or speed <= NEWTON.velocity_tol * size:
            break
        J, dense = np.zeros((free.size, free.size)), derivative.dense()
        dense[:, frozen] = 0.0
        np.add.at(J.T, copies, dense[free].T)  # tied students move together
        if not np.all(np.isfinite(J)):
            reason = " Newton's steps ended where overlaps leave the range of floating-point numbers."
            break
        sphere, target = derivative.sphere, velocity[free]
        if sphere is not None:  # steps tangent to the spheres: the norms stay
            norms = np.zeros((len(sphere.norms), free.size))
            np.add.at(norms.T, copies, sphere.reads.T)
            J, target = np.vstack([J, derivative.scale * norms]), np.r_[target, np.zeros(len(norms))]
        step = -scipy.linalg.lstsq(J, target, cond=EIGENVALUES.zero_tol)[0][copies]
        step[frozen] = 0.0
        for damping in 0.5 ** np.arange(20):
            trial = possible(system, y + damping * step, inverse)[tied]
            trial = trial if sphere is None else sphere.back(trial)
            if np.linalg.norm(system.rhs(0.0, trial)[free]) < (1 - 0.25 * damping) * speed:
                break
        else:
            break
        y = trial
    return y, velocity, size, iteration, reason


def _tied_entries(system):
    """Index (n,) of the packed entry that stands for each entry, where equal students are one student.

    Equal students stay equal under the flow.  Their overlaps lie on the boundary of the overlaps of real vectors;
    Newton steps that change them one by one leave it.
    """
    start = system.start
    rows = np.concatenate([start.q, start.r] + ([] if start.m is None else [start.m]), axis=2)
    if system.model.trains_v or np.ptp(start.v):
        rows = np.concatenate([rows, np.tile(start.v[:, None], (start.L, 1, 1))], axis=2)
    apart = np.max(np.abs(rows[:, :, None] - rows[:, None]), axis=(0, 3))
    first = np.argmax(apart <= NEWTON.equal_tol * np.max(np.abs(rows), initial=0.0), axis=1)
    q, r, v = system.unpack(np.arange(system.pack(start).size, dtype=float))
    v = v[first] if system.model.trains_v else []
    return system.packing.pack(q[:, first[:, None], first], r[:, first], v).astype(int)


def _frozen_entries(system):
    """Indices of r, and of q without class means, in eigenspaces without variance: they have no velocity."""
    q, r, _ = system.unpack(np.arange(system.pack(system.start).size, dtype=float))
    still = system.model.spectrum.s == 0
    entries = [r[still, :, : system.model.M], *([] if system.model.n_classes else [q[still]])]
    return np.concatenate([x.astype(int).ravel() for x in entries])


def possible(system, y, inverse=None):
    """The nearest overlaps of real vectors at the same r: negative eigenvalues of q - r tau^+ r^T are set to zero.

    Solutions without noise (student = teacher) lie on this boundary, which Newton steps overshoot.
    """
    q, r, v = system.unpack(y)
    explained = r @ (_inverse(system.source) if inverse is None else inverse) @ r.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(q - explained)
    if np.all(values >= 0):
        return y
    q = explained + (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    return system.packing.pack(q, r, v)


def _inverse(source):
    """tau^+ of each block, from the overlaps tau of the teachers, blocks last."""
    return np.linalg.pinv(np.moveaxis(source, -1, 0), rcond=1e-12, hermitian=True)
