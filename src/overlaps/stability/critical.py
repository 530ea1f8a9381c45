"""Critical learning rates: follow a fixed point in eta until its linear stability changes."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy

from .._base import by_name, check, quietly
from ..flow.jacobian import jacobian_of
from ..flow.system import System
from ..models import Model, State
from ..models.state import of_state
from .fixed_points import fixed_point
from .kinked import Differences, learned
from .linear import EIGENVALUES, Linearisation, bound, check_dense, linearise


class ContinuationOptions(NamedTuple):
    """Tunable numbers of the continuation of a fixed point in eta."""

    # Largest ratio of successive learning rates. Larger: two crossings can fall into one step and cancel; smaller:
    # more Newton iterations.
    max_eta_ratio: float = 1.25
    # Ratio of the first three learning rates. Modes that vanish at all of them are zero modes at every eta; closer to
    # one, a mode that vanishes at one eta is counted among them.
    probe_ratio: float = 1.01
    # Largest relative change of the fixed point in a step. Larger changes are rejected and the step is shortened,
    # because Newton's method may have found another fixed point.
    max_change: float = 0.5
    # Smallest step in log(eta). If no such step succeeds, the fixed point ends there; larger: eta_c of a fold is less
    # accurate.
    min_log_step: float = 1e-9
    # Relative change across a bracket of rounding size. Larger changes are jumps to another fixed point.
    jump_tol: float = 1e-3
    infinity_ratio: float = 1e3  # Squared weights over the teachers' above which the fixed point ends at infinity.
    runaway_ratio: float = 10  # The same for a stable fixed point: above, the message reports that it diverges.
    max_newton_steps: int = 20  # Steps of Newton's method at one learning rate.
    max_total_steps: int = 500  # Steps of Newton's method in all; a fixed point that diverges takes all of them.
    # Relative distance from eta_c at which the critical mode is read; at eta_c it mixes with the zero modes.
    mode_offset: float = 1e-6
    real_tol: float = 1e-6  # Imaginary parts below this fraction of the Jacobian count as zero.


CONTINUATION = ContinuationOptions()


@dataclass(frozen=True, eq=False, repr=False)
class CriticalEta(float):
    """A learning rate, and what happens to the fixed point there; made by :func:`overlaps.critical_eta`.

    It is a float: the rate can be compared, plotted and used in formulas.

    Attributes
    ----------
    eta : float
        The critical learning rate; nan if none was found.
    kind : str
        "crossing": a real eigenvalue passes zero. "Hopf": a pair of complex ones does, and oscillations grow. "fold":
        the fixed point merges with another one and ends. "infinity": it moves to infinity. "none below 3.9": it was
        followed up to that learning rate and is stable all the way.
    state : State
        The fixed point at ``eta``; where there is none, the last one followed.
    eps_g : float
        Its generalisation error.
    mode : Linearisation
        The one eigenvalue that reaches zero, with its mode ``dq``, ``dr``, ``dv`` (``dQ``, ``dR``), read at 1e-6 of
        ``eta`` beside it: at ``eta`` it would mix with modes that vanish at every learning rate. Where there is no
        ``eta``, the slowest mode of ``state``.
    message : str
        A sentence about it.
    """

    eta: float
    kind: str
    state: State
    eps_g: float
    mode: Linearisation
    message: str

    def __new__(cls, eta, *_, **__):
        """Make the float; the fields follow."""
        return super().__new__(cls, eta)

    def __repr__(self):
        return f"CriticalEta({self.eta:.10g}, {self.kind}, eps_g={self.eps_g:.3g})"


@of_state
@by_name("ov.critical_eta(state)")
def critical_eta(model: Model, state: State, *, search: tuple[float, float] | None = None) -> "CriticalEta":
    r"""Learning rate at which a fixed point loses linear stability.

    .. math:: \max_{\lambda \ne 0} \mathrm{Re}\, \lambda(J(\eta_c)) = 0

    The noise of SGD, the term C of order eta^2, destabilises points that gradient flow would reach. From ``model.eta``
    on the learning rate is raised while the fixed point is stable, or lowered while it is not, until that changes. The
    result is exact up to rounding.

    Eigenvalues that vanish at every eta belong to manifolds of fixed points and conserved directions. They are left
    out; a fixed point that is unstable only by nonlinear terms along them counts as stable. At a pitchfork (much noise
    erases specialisation) the fixed point merges with another one, and the other one is followed. With label noise
    there is no bifurcation of perfect learning: the fixed point moves away from it and stays stable. Take the limit
    without noise there.

    Relu, leaky relu and ``|x|`` that have learned all teachers are treated in closed form, to leading order in
    their distance from the teachers (:func:`linearise`); eta_c = 3 - sqrt(3) for two orthonormal relu units. With label
    noise students stay at a distance, which diverges at the same eta_c. Source: Bocchi et al. (2026), arXiv:2604.03068
    (quadratic networks; their learning rate is half of this one).

    Parameters
    ----------
    model : Model
        The learning problem; that of the state by default, ``critical_eta(state)``. The ratio eta_v / eta is constant
        (it matters only where a pair of complex eigenvalues crosses); weight decays scale with eta as in the model.
    state : State
        A fixed point at ``model.eta``. If it is one at every eta (student = teacher without noise) it stays put,
        otherwise it is followed by :func:`fixed_point`.
    search : tuple of two floats, optional
        Range of eta; (1e-3, 1e3) times ``model.eta`` by default.

    Returns
    -------
    CriticalEta
        A float, eta_c, with ``kind``, ``state``, ``eps_g``, ``mode``, ``message``: the nearest one to ``model.eta`` in
        that direction, to about 1e-12 relative. With label noise or weight decay a fixed point can end there instead,
        by meeting an unstable one (``kind`` "fold") or by moving to infinity ("infinity"); this is found to about 1e-5
        or better. Where the fixed point is stable up to the end of the range, or diverges until 500 steps of Newton's
        method are spent (bounded students with noise, whose weights grow without a bifurcation), the rate is nan and
        ``kind`` contains the last learning rate followed.

    Raises
    ------
    ValueError
        Bad input; a gradient flow; a state that is no fixed point; a fixed point that is unstable in all of the range
        searched (plateaus are, at every eta); a closure that has no derivative at the state (:func:`linearise`).
    RuntimeError
        Stability changes between two learning rates, but the fixed point cannot be followed from one to the other.

    Examples
    --------
    A linear unit diverges above eta = 2 / <s>, <s> the mean eigenvalue of the inputs:

    >>> import overlaps as ov
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> solution = ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    >>> limit = ov.critical_eta(solution)
    >>> round(limit, 10), limit.kind
    (2.0, 'crossing')
    """
    system, y = bound(model, state, who="critical_eta")
    check_dense(y.size)
    low, high = (1e-3 * model.eta, 1e3 * model.eta) if search is None else _interval(search, model.eta)
    if learned(model, system.start):
        return _of_differences(system, y, low, high)
    branch = _Branch(model, system.start)
    sides = max(low, model.eta / CONTINUATION.probe_ratio), min(high, model.eta * CONTINUATION.probe_ratio)
    if np.prod([branch.rate(eta) for eta in sides]) < 0:
        return branch.crossing(*sides)
    stable = branch.rate(model.eta) <= 0
    ratio = CONTINUATION.max_eta_ratio
    before, factor, last = model.eta, ratio if stable else 1 / ratio, high if stable else low
    while before != last and branch.work < CONTINUATION.max_total_steps:
        after = float(np.clip(before * factor, low, high))
        rate = branch.rate(after)
        if np.isnan(rate):  # not found: shorten the step, down to the shortest one
            if abs(np.log(factor)) < CONTINUATION.min_log_step:
                return branch.end(before)
            factor **= 0.3
        elif (rate <= 0) != stable:
            return branch.crossing(before, after)
        else:
            before, factor = after, float(np.clip(factor**1.5, 1 / ratio, ratio))
    why = f"{CONTINUATION.max_total_steps} steps of Newton's method"
    why = f"the range searched, ({low:.4g}, {high:.4g})" if before == last else why
    if stable:
        return branch.no_end(before, why)
    raise ValueError(
        f"the fixed point is unstable for all eta tried in [{before:.4g}, {model.eta:.4g}], at the end of {why}; "
        "plateaus are unstable at every eta. Start at a lower eta, or widen search=(low, high)."
    )


def _of_differences(system, y, low, high):
    """Kinked units at perfect learning, which is a fixed point at every eta without noise."""
    model, start = system.model, system.start
    eta, eps_g = Differences(model, start).eta_critical(), float(system.close(y))
    if eta < low:
        raise ValueError(
            f"the fixed point is unstable for all eta in [{low:.4g}, {model.eta:.4g}]: it loses stability at "
            f"{eta:.10g}. Widen search=(low, high)."
        )
    inside = eta <= high
    limit = replace(model, eta=eta if inside else high)
    kind = "crossing" if inside else f"none below {high:.4g}"
    modes = linearise(limit, start, count=1)
    return CriticalEta(eta if inside else np.nan, kind, start, eps_g, modes, modes.message)


def _interval(search, eta):
    ends = check.array("search", search, (2,), f"Give (low, high) around model.eta = {eta:g}.")
    low, high = (check.number("search", float(x), above=0) for x in ends)
    if not low <= eta <= high:
        raise ValueError(f"search = {search}; expected low <= model.eta = {eta:g} <= high.")
    return low, high


class _Branch:
    """A fixed point as a function of eta, with the number of zero modes that it has at every eta."""

    def __init__(self, model, state):
        self.model, self.known, self.work = model, {model.eta: state}, 0
        system, y = bound(model, state)
        scale = jacobian_of(system, y).scale
        residual = np.max(np.abs(system.rhs(0.0, y)))
        if residual > 1e-8 * scale * np.max(np.abs(y)):
            raise ValueError(
                f"the state is no fixed point at eta = {model.eta:g}: largest |dy/dalpha| = {residual:.1e}. "
                "Find one with ov.fixed_point(model, state) first."
            )
        ratio = CONTINUATION.probe_ratio
        spectra = [self.eigenvalues(eta) for eta in (model.eta, model.eta / ratio, model.eta * ratio)]
        # the minimum, because one more mode vanishes at eta_c
        zero = EIGENVALUES.zero_tol * scale
        self.zeros = min(int(np.sum(np.abs(values) < zero)) for values in spectra if values.size)

    def at(self, eta):
        """The model with both learning rates scaled."""
        return replace(self.model, eta=eta, eta_v=eta / self.model.eta * self.model.eta_v)

    def state(self, eta):
        """The fixed point; None if none is found within ``max_change`` of the one at the nearest known eta."""
        if eta in self.known:
            return self.known[eta]
        model, nearest = self.at(eta), self.known[min(self.known, key=lambda rate: abs(np.log(rate / eta)))]
        with quietly():  # a failure is returned as None
            point = fixed_point(model, nearest, max_iterations=CONTINUATION.max_newton_steps)
        self.work += point.iterations + 1
        if not point.converged or self.change(nearest, point.state) > CONTINUATION.max_change:
            return None
        self.known[eta] = point.state
        return point.state

    def change(self, state, other):
        """Largest difference between two states, relative to the first."""
        pack = System(self.model, state).pack
        return np.max(np.abs(pack(other) - pack(state))) / np.max(np.abs(pack(state)))

    def eigenvalues(self, eta):
        """All of them; none if the fixed point is not found."""
        state = self.state(eta)
        return np.empty(0) if state is None else np.linalg.eigvals(jacobian_of(*bound(self.at(eta), state)).dense())

    def slowest(self, values):
        """Index of the largest real part, zero modes left out."""
        moving = np.argsort(np.abs(values))[self.zeros :]
        return moving[np.argmax(values[moving].real)]

    def rate(self, eta):
        """Largest real part in units of eta, zero modes left out; nan if the fixed point is not found."""
        values = self.eigenvalues(eta)
        return float(values[self.slowest(values)].real) / eta if values.size else np.nan

    def crossing(self, a, b):
        """The change of stability between a and b, or the end of the fixed point between them."""
        unstable = {}

        def rate(eta):
            rate = self.rate(eta)
            if np.isnan(rate):
                raise RuntimeError(
                    f"the fixed point changes its stability between eta = {a:.10g} and {b:.10g}, but cannot be "
                    f"followed to eta = {eta:.10g}. Start from one nearer to the change."
                )
            unstable[eta] = rate > 0
            return rate

        eta = float(scipy.optimize.brentq(rate, *sorted((a, b)), xtol=1e-300, rtol=1e-13))
        inside = min((x for x in unstable if unstable[x] == unstable[a]), key=lambda x: abs(x - b))
        outside = min((x for x in unstable if unstable[x] == unstable[b]), key=lambda x: abs(x - a))
        if self.change(self.known[inside], self.known[outside]) > CONTINUATION.jump_tol:
            return self.end(inside)  # the fixed point outside is another one
        rate(eta)  # stores the state at eta
        system, y = bound(self.at(eta), self.known[eta])
        values = np.linalg.eigvals(jacobian_of(system, y).dense())
        oscillates = abs(values[self.slowest(values)].imag) > CONTINUATION.real_tol * jacobian_of(system, y).scale
        offset = CONTINUATION.mode_offset
        beside = eta * (1 - offset if a < eta else 1 + offset)
        rate(beside)
        if oscillates:
            return self.result(eta, "Hopf", eta, beside, "a pair of complex eigenvalues crosses the imaginary axis")
        return self.result(eta, "crossing", eta, beside, "a real eigenvalue passes zero")

    def end(self, eta):
        """The fixed point is not found beyond eta."""
        if self.excess(eta) > CONTINUATION.infinity_ratio:
            message = f"the fixed point moves to infinity (students exceed the teachers {self.excess(eta):.1e} times)"
            return self.result(eta, "infinity", eta, eta, message)
        return self.result(eta, "fold", eta, eta, "the fixed point merges with another one, and ends")

    def no_end(self, eta, why):
        """The fixed point is stable as far as it was followed."""
        message = f"stable for all eta tried in [{self.model.eta:.4g}, {eta:.4g}], at the end of {why}"
        if self.excess(eta) > CONTINUATION.runaway_ratio:
            message += (
                f"; it diverges without a bifurcation (students exceed the teachers {self.excess(eta):.2g} times)"
            )
        return self.result(np.nan, f"none below {eta:.4g}", eta, eta, message)

    def excess(self, eta):
        """The students' squared weights in units of the teachers', or of squared labels."""
        state, v_star = self.known[eta], self.model.v_star
        labels = self.model.classes.labels
        students, targets = state.v**2 * np.diag(state.Q), np.square([*v_star * np.sqrt(np.diag(state.T)), *labels])
        return np.max(students) / max(np.max(targets), 1e-300)

    def result(self, eta, kind, followed, beside, message):
        """The CriticalEta, with the fixed point at ``followed`` and the mode at ``beside``."""
        system, y = bound(self.at(followed), self.known[followed])
        modes = linearise(self.at(beside), self.known[beside])
        i = self.slowest(modes.eigenvalues)
        names = "eigenvalues", "dq", "dr", "dv", *(() if modes.dm is None else ("dm",))
        one = {name: getattr(modes, name)[i : i + 1] for name in names}
        if not one["eigenvalues"].imag.any():
            one = {name: value.real for name, value in one.items()}
        return CriticalEta(float(eta), kind, system.start, float(system.close(y)), replace(modes, **one), message)
