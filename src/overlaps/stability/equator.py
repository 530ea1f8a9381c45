"""The equator: one student without overlap with any teacher, R = 0, where a target hides by its symmetry or its degree.

Near R = 0 the signal is of order R^(k-1), with k the information exponent of the target: for k = 2 a linear mode, which
may grow, and for k > 2 nothing to first order.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..flow.jacobian import jacobian
from ..flow.system import System


class EquatorOptions(NamedTuple):
    """Tunable numbers of the equator."""

    # Velocity, relative to eta times the largest overlap, below which overlaps are at rest. Smaller: the quadrature of
    # learning rules moves them; larger: targets whose linear part is as small count as hidden.
    rest_tol: float = 1e-6
    # Rate, in units of eta, above which a mode of R grows. Smaller: differences of rules grow.
    growth_tol: float = 1e-6


EQUATOR = EquatorOptions()


def on_equator(model, state):
    """The state with R = 0 if one student stays there under the flow, otherwise None; several students have none."""
    if model.K > 1:
        return None
    equator = replace(state, r=np.zeros_like(state.r))
    return equator if np.all(_at_rest(model, equator)[1]) else None


def hidden_reason(model, equator):
    """Why a student that rests on the equator is not drawn away to first order; empty if it moves, or is drawn away."""
    if not all(map(np.all, _at_rest(model, equator))) or _grows(model, equator):
        return ""
    if not model.gradient_flow and _grows(replace(model, gradient_flow=True), equator):
        return (
            f"R = 0 is stable: at eta = {model.eta:g} the noise of the steps is stronger than the signal, which draws "
            "the student away at smaller eta"
        )
    return (
        "no overlap grows to first order at R = 0: the information exponent of the target is 3 or more, and the time "
        "that SGD stays there is no multiple of ln N. Expected an exponent of 2; start from model.random_start(N=, "
        "rng=), by ov.solve, or ov.simulate with method='reduced'"
    )


def _at_rest(model, state):
    """Whether the entries of q, r (and v) have velocity zero."""
    system = System(model, state)
    limit = EQUATOR.rest_tol * model.eta * np.max(np.abs(system.S))
    return [np.abs(x) <= limit for x in system.unpack(system.rhs(0.0, system.pack(state)))[:2]]


def _grows(model, equator):
    """Whether a mode of R grows at R = 0, where Q does not change to first order in R."""
    system = System(model, equator)
    of_r = slice(equator.r.size)
    rates = np.linalg.eigvals(jacobian(system, system.pack(equator))[of_r, of_r]).real
    return np.max(rates) > EQUATOR.growth_tol * model.eta
