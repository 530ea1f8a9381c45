"""Averages of test functions over the fields, along a trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import ArrayLike, by_name, check
from ..activations.bound import LearningNumbers, outputs
from ..models.features import check_features
from ..models.model import Model
from ..models.state import OfModel
from ..rules.adaptive_closure import RuleClosure
from ..rules.rule import Rule


@by_name("ov.field_average(traj, f)")
def field_average(
    states: Any, f: Callable[..., float], *, model: Model | None = None, breaks: ArrayLike | None = None
) -> np.ndarray:
    r"""Mean of a function of the fields at every record, :math:`E f(\lambda, \nu; \theta)`.

    Parameters
    ----------
    states : Trajectory or State
        A trajectory, or one state.
    f : callable
        ``f(lam, nu, theta) -> float`` of the fields lam (K,), nu (M,), and theta (K,), the second layer or the
        parameters of a rule. Compiled by numba, as the force of :class:`overlaps.Rule`.
    model : Model, optional
        Model that defines the fields; that of the states by default.
    breaks : array_like, shape (m, K + M + 1), optional
        Planes c . (lam, nu) = t across which f jumps or kinks, as in :class:`overlaps.Rule`.

    Returns
    -------
    ndarray, shape (n,)
        One for each record; of shape (1,) for a State.

    Raises
    ------
    ValueError
        A function that numba cannot compile; more than eight fields; an average that does not converge to 1e-8 (1e-3
        for four fields with breaks, and for more than four), most often because a break is not declared.

    Notes
    -----
    Exact to the tolerance; computed from the records, after the integration.

    Examples
    --------
    The 0/1 error of linear regression used as a classifier:

    >>> import overlaps as ov
    >>> def wrong(lam, nu, theta):
    ...     return 1.0 if lam[0] * nu[0] < 0 else 0.0
    >>> model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.0]], T=[[1.0]])
    >>> traj = ov.solve(model, start, [0.0, 1.0])
    >>> ov.field_average(traj, wrong, breaks=[[1, 0, 0], [0, 1, 0]]).round(4)
    array([0.5   , 0.3479])
    """
    has_model = isinstance(states, OfModel)
    if not has_model or states.is_ensemble or (states.model is None and model is None):
        raise check.refused("states", states, "a Trajectory, or a State of a model; runs have no single curve.")
    model = check_features("field_average", states.model if model is None else model, states.schedule)
    if not callable(f):
        raise check.refused("f", f, "a function f(lam, nu, theta).")
    v = np.atleast_2d(states.v)
    S = np.array(states.S).reshape(len(v), *(2 * (model.K + model.M,)))
    rule = Rule(_idle, K=model.K, M=model.M, error=f, breaks=breaks, name=getattr(f, "__name__", "f"))
    bound = RuleClosure(rule, LearningNumbers(model.K, model.M, 1.0, 1.0, 0.0, False))
    arrays, means = outputs(S, model.K), []
    for fields, readout in zip(S, v, strict=True):
        w = np.append(readout, np.ones(model.M))
        bound.check(fields, w)
        means.append(bound(fields, w, *arrays))
    return np.array(means)


def _idle(lam, nu, xi, theta, S, F, G):
    F[0] = lam[0]
