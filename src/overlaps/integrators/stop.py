"""Stop conditions, located where they change sign."""

import inspect
import numbers

import numpy as np
import scipy

from .._base import check
from .monitors import Monitor, Stop


class Crossing(Monitor):
    """Ends a run where a number changes sign: eps_g minus a level, or a function of the user."""

    def __init__(self, system, stop, t, y):
        if callable(stop):
            _check_stop(stop)
            self.value = lambda t, y: _number_of(stop(t, system.state(y, t)), t)
        else:
            self.value = lambda t, y: system.close(y) - stop
        self.level = np.nan if callable(stop) else stop  # level of eps_g
        self.last = self._finite(t, y)
        self.met = self.last == 0 or (not callable(stop) and self.last < 0)

    def _finite(self, t, y):
        value = self.value(t, y)
        if not np.isfinite(value):
            raise ValueError(f"stop returned {value} at alpha = {t:g}; expected a finite number that changes sign.")
        return value

    def after_step(self, integrator):
        """Stop at the time of the change if the sign changed in the last step."""
        before, self.last = self.last, self._finite(integrator.t, integrator.y)
        if np.sign(before) * np.sign(self.last) > 0:  # their product may underflow
            return None
        if integrator.traits.discrete:
            at, inside = integrator.t, integrator.at
        else:
            inside = integrator.inside()
            at = self.locate(integrator.before[0], integrator.t, inside)
        return Stop(f"stop condition met at alpha = {at:.6g}.", success=True, until=at, state_at=inside)

    def locate(self, before, after, y_at):
        """Time of the sign change in (before, after]; the step is integrated again rather than interpolated."""

        def value(t):
            return self.value(t, y_at(t))

        first, last = self.value(before, y_at(before)), value(after)
        if np.sign(first) * np.sign(last) > 0:  # the sign changes only in the larger step, so the time is its end
            return after
        return scipy.optimize.brentq(value, before, after, xtol=1e-12 * max(1.0, after), rtol=1e-12)


def check_level(stop, models):
    """Refuse to stop at a level of eps_g if a model records none, because nan would count as a level that is met."""
    for model in models:
        if model.rule is not None and not model.rule.records_error and stop is not None and not callable(stop):
            raise ValueError(
                f"stop = {stop:g} is a level of eps_g, and the rule {model.rule.name!r} has no error=: eps_g is nan; "
                "expected a rule with error=, or a function stop(alpha, state)."
            )


def _check_stop(stop):
    """Refuse a function that cannot be called with (alpha, state); some have no signature."""
    try:
        signature = inspect.signature(stop)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(0.0, None)
    except TypeError as error:
        raise ValueError(
            f"stop{signature} cannot be called with (alpha, state): {error}; expected a function of both that returns "
            "a number."
        ) from None


def _number_of(value, t):
    """Value of a stop function, as a float."""
    value = value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(
            f"stop returned {check.shown(value)} at alpha = {t:g}; expected a finite number that changes sign where "
            "to stop, such as state.R[0, 0] - 0.5."
        )
    return float(value)
