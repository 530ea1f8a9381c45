"""Rules with adaptive rates, which depend on accumulated gradients theta or on the overlaps."""

import math
from dataclasses import replace

import numpy as np

from .._base import by_name, check
from ..activations.bound import CLOSURE
from . import _rule
from ._perceptrons import distance
from .rule import Rule
from .validation import uses_theta


@by_name("ov.rules.adagrad_norm(ov.rules.hebb(), b0=1.0)")
def adagrad_norm(rule: Rule, b0: float = 1.0, *, mean_eigenvalue: float = 1.0) -> Rule:
    r"""AdaGrad-Norm for a rule: the rate decreases with the sum theta of squared gradients.

    .. math:: F = F^0/\sqrt{\theta_1}, \qquad G_1 = \bar s \sum_k (F^0_k)^2

    Parameters
    ----------
    rule : Rule
        A rule without theta.
    b0 : float
        The default initial theta_1 is b0^2; ``ov.learner`` may set another one.
    mean_eigenvalue : float
        Mean eigenvalue s-bar of the inputs' covariance, ``spectrum.mean``.

    Returns
    -------
    Rule
        For ``ov.learner(..., eta_theta=1.0)``. Its closure is in closed form if that of ``rule`` is.

    Raises
    ------
    ValueError
        Numbers that are not positive; a rule with tokens or with theta.

    References
    ----------
    Collins-Woodfin et al. (2024), arXiv:2405.19585.

    Examples
    --------
    >>> import overlaps as ov
    >>> rule = ov.rules.adagrad_norm(ov.rules.logistic(), b0=0.5)
    >>> model = ov.learner(rule, eta=1.0, eta_theta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    >>> bool(ov.solve(model, start, [0, 20.0]).v[-1, 0] > 0.25)
    True
    """
    if check.kind("rule", rule, Rule, "ov.rules.logistic()").tokens > 1:
        raise ValueError(f"rule = {rule!r} has tokens = {rule.tokens}; expected one input a sample.")
    if rule.theta is not None or uses_theta(rule):
        raise ValueError(
            f"rule = {rule!r} has a theta of its own, where adagrad_norm stores the sum of squared gradients; "
            "expected a rule without one, such as ov.rules.logistic()."
        )
    start = check.number("b0", b0, above=0) ** 2
    mean, K = check.number("mean_eigenvalue", mean_eigenvalue, above=0), rule.K
    base, error, chance = rule.functions
    inner = np.append(np.zeros(K), np.array(rule.numbers, float))

    def force(lam, nu, xi, theta, S, F, G):
        base(lam, nu, xi, inner.copy(), S, F, G)
        G[:] = 0.0
        G[0] = mean * np.sum(F * F)
        F /= math.sqrt(theta[0])

    def own_error(lam, nu, theta):
        return error(lam, nu, inner.copy())

    def own_chance(nu, theta, p):
        chance(nu, inner.copy(), p)

    noise, closed = rule.noise, None
    if rule.by_chance:
        noise = noise[0], own_chance
    if rule.closed is not None:
        descent = _rule.pointer(rule.closed, CLOSURE)

        @_rule.kernel
        def closed(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
            rate = eta / math.sqrt(w[0])
            eps_g = descent(S, np.zeros(w.size), parameters, K, teacher, 1.0, 1.0, noise, True, A, B, C, dv)
            dv[:] = 0.0
            dv[0] = eta_v * mean * np.trace(C)
            A *= rate
            B *= rate
            C *= rate * rate
            return eps_g

    return replace(
        rule, force=force, error=own_error if rule.error else None, noise=noise, closed=closed,
        name=f"AdaGrad-Norm of {rule.name}", theta=(start, *[0.0] * (K - 1)), numbers=rule.numbers if closed else (),
        recipe=("adagrad_norm", rule.recipe, b0, mean) if rule.recipe else (),
    )  # fmt: skip


def line_search(noise: float = 0.0) -> Rule:
    r"""Linear regression at the rate of an exact line search, which depends on the error; for isotropic inputs.

    .. math:: F = -\eta(S)\,(\lambda - \nu - \sigma\xi), \qquad \eta(S) = \frac{2\epsilon}{2\epsilon + \sigma^2}

    Parameters
    ----------
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        For ``ov.learner(..., eta=1.0)``: the rate is then also Polyak's, with the largest decrease of eps_g = s^2/2.

    Raises
    ------
    ValueError
        A negative standard deviation.

    References
    ----------
    Collins-Woodfin et al. (2024), arXiv:2405.19585.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.line_search(noise=0.3)
    line_search
    """
    sigma = check.number("noise", noise, least=0)

    def force(lam, nu, xi, theta, S, F, G):
        square = S[0, 0] - 2 * S[0, 1] + S[1, 1]
        F[0] = -square / (square + sigma * sigma + 1e-300) * (lam[0] - nu[0] - sigma * xi)

    return Rule(force, K=1, M=1, error=distance, noise="normal", uses_overlaps=True, name="line_search",
        recipe=("line_search", sigma),
    )  # fmt: skip
