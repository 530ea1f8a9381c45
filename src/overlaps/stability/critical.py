"""Critical learning rates: a fixed point is followed in eta until it loses, or gains, linear stability."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from .._base import check, quietly
from ..flow.jacobian import jacobian_of
from ..flow.system import System
from ..models import Model, State
from .fixed_points import fixed_point
from .kinked import Differences, learned
from .linear import SECOND, ZERO, Linearisation, bound, check_dense, linearise

# Ratio of learning rates that are tried one after the other. Larger, two crossings could fall between two of them;
# smaller, each costs a Newton iteration.
FACTOR = 1.25
NEAR = 1.01  # the same at the start, to tell the mode that vanishes at one eta from those that vanish at all
# Relative change of a fixed point from one rate to the next. Above, or where Newton's method fails, a smaller step is
# tried: it may have met another fixed point.
FOLLOW = 0.5
# Step in log(eta). Where an even smaller one were needed, the fixed point has ended there.
END = 1e-9
# Relative change in a step of rounding size. Above, Newton's method has jumped to another fixed point; below, it is the
# same one.
JUMP = 1e-3
INFINITE = 1e3  # if students are this many times longer than teachers, the fixed point ends at infinity
AWAY = 10  # if they are this many times longer while still stable, the fixed point has run away
STEPS = 20  # Newton's method takes no more from one learning rate to the next
WORK = 500  # steps of Newton's method in all
ASIDE = 1e-6  # where the critical mode is read: at eta_c itself it mixes with those that vanish at every eta
REAL = 1e-6  # eigenvalues with an imaginary part below this share of the Jacobian are real


@dataclass(frozen=True, eq=False, repr=False)
class CriticalEta(float):
    """A learning rate, and what happens to the fixed point there; made by :func:`critical_eta`.

    It is a float, the rate: to be compared, plotted and computed with.

    Attributes
    ----------
    eta : float
        The critical learning rate; nan if none was found.
    kind : str
        "crossing": a real eigenvalue passes zero. "Hopf": a pair of complex ones does, and oscillations grow. "fold":
        the fixed point ends, by meeting another one. "infinity": it ends by moving there. "none below 3.9": it was
        followed up to that learning rate, and is stable all the way.
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


def critical_eta(model: Model, state: State, *, search: tuple[float, float] | None = None) -> "CriticalEta":
    r"""Learning rate at which a fixed point loses linear stability.

    .. math:: \max_{\lambda \ne 0} \mathrm{Re}\, \lambda(J(\eta_c)) = 0

    The noise of SGD, the term C of order eta^2, destabilises points that gradient flow would reach. From ``model.eta``
    on the learning rate is raised while the fixed point is stable, or lowered while it is not, until that changes. The
    result is exact up to rounding.

    Eigenvalues that vanish at every eta belong to manifolds of fixed points and conserved directions and are left out;
    a fixed point that is unstable only by nonlinear terms along them counts as stable. A fixed point that merges with
    another one and hands its stability on (a pitchfork, where much noise erases specialisation) is followed onto the
    other one. With label noise there is no bifurcation of perfect learning: the fixed point moves away from it and
    stays stable. Take the limit without noise there.

    Relu, leaky relu and ``|x|`` that have learned all teachers are served in closed form, to leading order in their
    distance from the teachers (:func:`linearise`); eta_c = 3 - sqrt(3) for two orthonormal relu units. Label noise
    keeps students at a distance there, which diverges at the same eta_c. Source: Bocchi et al. (2026), arXiv:2604.03068
    (quadratic networks; their learning rate is half of this one).

    Parameters
    ----------
    model : Model
        The learning problem. The ratio eta_v / eta is kept (it matters only where a pair of complex eigenvalues
        crosses); weight decays scale with eta as they do in the model.
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
        or better. Where the fixed point is stable up to the end of the range, or runs away until 500 steps of Newton's
        method are spent (bounded students with noise, whose weights grow without a bifurcation), the rate is nan and
        ``kind`` says up to where it was followed.

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
    >>> limit = ov.critical_eta(model, solution)
    >>> round(limit, 10), limit.kind
    (2.0, 'crossing')
    """
    system, y = bound(model, state, who="critical_eta")
    check_dense(y.size)
    low, high = (1e-3 * model.eta, 1e3 * model.eta) if search is None else _interval(search, model.eta)
    if learned(model, system.start):
        return _of_differences(system, y, low, high)
    branch = _Branch(model, system.start)
    sides = max(low, model.eta / NEAR), min(high, model.eta * NEAR)
    if np.prod([branch.rate(eta) for eta in sides]) < 0:
        return branch.crossing(*sides)
    stable = branch.rate(model.eta) <= 0
    before, factor, last = model.eta, FACTOR if stable else 1 / FACTOR, high if stable else low
    while before != last and branch.work < WORK:
        after = float(np.clip(before * factor, low, high))
        rate = branch.rate(after)
        if np.isnan(rate):  # too far for one step, unless steps vanish: then the fixed point ends here
            if abs(np.log(factor)) < END:
                return branch.end(before)
            factor **= 0.3
        elif (rate <= 0) != stable:
            return branch.crossing(before, after)
        else:
            before, factor = after, float(np.clip(factor**1.5, 1 / FACTOR, FACTOR))
    why = f"the range searched, ({low:.4g}, {high:.4g})" if before == last else f"{WORK} steps of Newton's method"
    if stable:
        return branch.no_end(before, why)
    raise ValueError(
        f"the fixed point is unstable for all eta tried in [{before:.4g}, {model.eta:.4g}], at the end of {why}; "
        "plateaus are, at every eta. Start at a lower eta, or widen search=(low, high), if you know better."
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
    return CriticalEta(eta if inside else np.nan, kind, start, eps_g, linearise(limit, start, count=1), SECOND)


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
        spectra = [self.eigenvalues(eta) for eta in (model.eta, model.eta / NEAR, model.eta * NEAR)]
        # at eta_c one mode more: a mode that vanishes at some eta only is what is looked for
        self.zeros = min(int(np.sum(np.abs(values) < ZERO * scale)) for values in spectra if values.size)

    def at(self, eta):
        """The model with both learning rates scaled."""
        return replace(self.model, eta=eta, eta_v=eta / self.model.eta * self.model.eta_v)

    def state(self, eta):
        """The fixed point; None if it is not found within the fraction FOLLOW of its size at the nearest eta known."""
        if eta in self.known:
            return self.known[eta]
        model, nearest = self.at(eta), self.known[min(self.known, key=lambda rate: abs(np.log(rate / eta)))]
        with quietly():  # not found: said by None
            point = fixed_point(model, nearest, max_iterations=STEPS)
        self.work += point.iterations + 1
        if not point.converged or self.change(nearest, point.state) > FOLLOW:
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
        """Where stability changes between a and b, or where the fixed point ends on the way from a."""
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

        eta = float(brentq(rate, *sorted((a, b)), xtol=1e-300, rtol=1e-13))
        inside = min((x for x in unstable if unstable[x] == unstable[a]), key=lambda x: abs(x - b))
        outside = min((x for x in unstable if unstable[x] == unstable[b]), key=lambda x: abs(x - a))
        if self.change(self.known[inside], self.known[outside]) > JUMP:
            return self.end(inside)  # beyond lies another fixed point
        rate(eta)  # its state is known then
        system, y = bound(self.at(eta), self.known[eta])
        values = np.linalg.eigvals(jacobian_of(system, y).dense())
        oscillates = abs(values[self.slowest(values)].imag) > REAL * jacobian_of(system, y).scale
        aside = eta * (1 - ASIDE if a < eta else 1 + ASIDE)
        rate(aside)
        if oscillates:
            return self.record(eta, "Hopf", eta, aside, "a pair of complex eigenvalues crosses the imaginary axis")
        return self.record(eta, "crossing", eta, aside, "a real eigenvalue passes zero")

    def end(self, eta):
        """The fixed point is not found beyond eta."""
        if self.excess(eta) > INFINITE:
            message = f"the fixed point moves to infinity (students exceed the teachers {self.excess(eta):.1e} times)"
            return self.record(eta, "infinity", eta, eta, message)
        return self.record(eta, "fold", eta, eta, "the fixed point meets another one, and ends")

    def no_end(self, eta, why):
        """The fixed point is stable as far as it was followed."""
        message = f"stable for all eta tried in [{self.model.eta:.4g}, {eta:.4g}], at the end of {why}"
        if self.excess(eta) > AWAY:
            message += (
                f"; it runs away (students exceed the teachers {self.excess(eta):.2g} times), no bifurcation is left"
            )
        return self.record(np.nan, f"none below {eta:.4g}", eta, eta, message)

    def excess(self, eta):
        """The students' squared weights in units of the teachers', or of squared labels."""
        state, v_star = self.known[eta], self.model.v_star
        labels = self.model.classes.labels
        students, targets = state.v**2 * np.diag(state.Q), np.square([*v_star * np.sqrt(np.diag(state.T)), *labels])
        return np.max(students) / max(np.max(targets), 1e-300)

    def record(self, eta, kind, followed, aside, message):
        """The answer, with the fixed point at ``followed`` and the mode at ``aside``."""
        system, y = bound(self.at(followed), self.known[followed])
        modes = linearise(self.at(aside), self.known[aside])
        i = self.slowest(modes.eigenvalues)
        names = "eigenvalues", "dq", "dr", "dv", *(() if modes.dm is None else ("dm",))
        one = {name: getattr(modes, name)[i : i + 1] for name in names}
        if not one["eigenvalues"].imag.any():
            one = {name: value.real for name, value in one.items()}
        return CriticalEta(float(eta), kind, system.start, float(system.close(y)), replace(modes, **one), message)
