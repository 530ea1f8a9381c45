"""Students with a custom learning rule, in place of descent of the squared loss."""

from typing import Any, Literal

import numpy as np

from .._base import ArrayLike, Floats, by_name, check
from ..rules.rule import Rule
from .model import Model, of_units
from .spectrum import Spectrum
from .state import gram


class Learner(Model):
    """Students, teachers, inputs, and a :class:`overlaps.Rule`; constructed by :func:`learner`.

    ``v``, the second layer of other models, is the parameter theta of the rule; ``eta_v`` is its rate.
    """

    def _check_data(self) -> None:
        if self.activation.learning is None or self.activation != self.teacher_activation:
            raise ValueError("a Learner has a rule in place of its activations; expected ov.learner(rule, ...).")
        rule = self.activation.learning
        if rule.by_block and len(rule.token_covariance) != self.spectrum.L:
            raise ValueError(
                f"the rule {rule!r} has token_covariance for {len(rule.token_covariance)} eigenspaces; expected "
                f"{self.spectrum.L}, those of the spectrum."
            )

    @property
    def groups(self) -> list[Any]:
        """Indices of the eigenspaces in which tokens have the same covariance, group by group."""
        rule = self.activation.learning
        if not rule.by_block:
            return super().groups
        kinds, number = rule.token_groups
        return [np.flatnonzero(number == g) for g in range(len(kinds))]

    def field_covariance(self, record: Any) -> Floats:
        """Covariances (..., groups (K + M), K + M) of all fields of one token in ``record``, stacked by group."""
        if len(self.groups) == 1:
            return super().field_covariance(record)
        times = () if record.is_state else (-3,)
        return np.concatenate([gram(Q, R, np.expand_dims(T, times)) for _, Q, R, T in self.of_groups(record)], axis=-2)

    def __repr__(self):
        return super().__repr__().replace(f"{self.activation.name}/{self.activation.name}", self.activation.name, 1)


@by_name("ov.learner(ov.rules.perceptron(), eta=0.5)")
def learner(
    rule: Rule,
    *,
    theta: ArrayLike | None = None,
    eta: float,
    eta_theta: float = 0.0,
    spectrum: Spectrum | None = None,
    weight_decay: float | tuple[float, float] = 0.0,
    batch_size: int = 1,
    gradient_flow: bool = False,
    constraint: Literal["sphere"] | None = None,
    drift: float = 0.0,
) -> Learner:
    r"""Students with any local learning rule, on Gaussian inputs.

    .. math:: w_k \mathrel{+}= \eta F_k\, x/\sqrt N, \qquad \theta_k \mathrel{+}= (\eta_\theta/N)\, G_k

    With A = E[dF/dlambda], B = E[dF/dnu], C = E[F F^T] of :class:`overlaps.Rule` the overlaps obey the same equations
    as those of every other model.

    Parameters
    ----------
    rule : Rule
        One of :mod:`overlaps.rules`, or ``ov.Rule(force, K=, M=)``.
    theta : array_like, shape (K,), optional
        Initial parameters of the rule, by default its own or zeros: a second layer, offsets, or a rate that adapts to
        the gradients. They are called ``State.v`` and ``traj.v``.
    eta, eta_theta : float
        Rates of weights and parameters.
    spectrum : Spectrum
        Covariance of x; isotropic by default.
    weight_decay, batch_size, gradient_flow, constraint, drift
        As in :func:`overlaps.committee_machine`.

    Returns
    -------
    Learner
        A Model, for ``solve``, ``simulate`` and all others.

    Raises
    ------
    ValueError
        An argument out of range; the message names it.

    Notes
    -----
    Exact for N -> infinity at fixed alpha = steps / N. A and B are the gradient of the recorded error only if the rule
    descends it. Functions that need this gradient do not support learners.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.hebb(), eta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])
    >>> print(round(ov.solve(model, start, [0, 100.0]).eps_g[-1], 5))  # arctan(sqrt(pi / 200)) / pi
    0.03969
    """
    check.kind("rule", rule, Rule, "ov.rules.perceptron(), or ov.Rule(force, K=1, M=1)")
    theta = check.array("theta", (rule.theta or np.zeros(rule.K)) if theta is None else theta, (rule.K,))
    return of_units(
        Learner, rule.K, rule.M, rule.activation, None, spectrum, theta, None, eta=eta,
        eta_v=check.number("eta_theta", eta_theta, least=0), weight_decay=weight_decay, batch_size=batch_size,
        gradient_flow=gradient_flow, constraint=constraint, drift=drift,
    )  # fmt: skip
