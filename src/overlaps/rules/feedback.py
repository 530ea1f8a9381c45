"""Rules that replace the gradient by fixed feedback weights or perturbations, with exact closures."""

import numpy as np

from .._base import ArrayLike, by_name, check
from .._base.jit import jit, jit_user
from ..activations.activation import Activation
from ..activations.bound import CLOSURE
from ..activations.library import erf, named
from ..gaussian.iterated import MAX_VARIABLES as MAX_FIELDS
from ..gaussian.two_point import slope, value
from . import _rule
from .rule import Rule


@by_name("ov.rules.feedback_alignment([1.0, 1.0], [1.0, 1.0])")
def feedback_alignment(
    b: ArrayLike, v_star: ArrayLike, *, activation: Activation | str = erf, noise: float = 0.0
) -> Rule:
    r"""Direct feedback alignment: errors are fed back through fixed weights b; theta is the second layer.

    .. math:: F_k = -b_k\,g'(\lambda_k)\Delta, \qquad G_k = -g(\lambda_k)\Delta, \qquad
              \Delta = \sum_k \theta_k g(\lambda_k) - \sum_m v^*_m g(\nu_m) - \sigma\xi

    Parameters
    ----------
    b, v_star : array_like, shape (K,), (M,)
        Feedback weights, and the teacher's second layer.
    activation : Activation or str
        g of students and teachers: erf, relu, linear or quadratic.
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        Exact: the closure of the squared loss with rows times b_k / theta_k. eps_g is E[Delta_0^2]/2.

    Raises
    ------
    ValueError
        Arrays of a wrong shape, an activation without closed forms.

    Notes
    -----
    A is not symmetric, and theta_k b_k becomes positive: the forward weights align with the feedback.

    References
    ----------
    Refinetti et al. (2021), ICML, "Align, then memorise: the dynamics of learning with feedback alignment".

    Examples
    --------
    >>> import overlaps as ov
    >>> rule = ov.rules.feedback_alignment(b=[0.7, -0.5], v_star=[0.8, 0.6], noise=0.2)
    >>> model = ov.learner(rule, eta=0.8, eta_theta=0.4)
    >>> Q, R, T = [[0.5, 0.1], [0.1, 0.4]], [[0.2, 0.05], [0.1, 0.15]], [[1.0, 0.2], [0.2, 0.9]]
    >>> start = ov.State.from_overlaps(model, Q=Q, R=R, T=T)
    >>> ov.solve(model, start, [0, 6.0]).v[-1].round(3)
    array([ 0.397, -0.164])
    """
    b, v_star = check.array("b", b, ("K",), filled=True), check.array("v_star", v_star, ("M",), filled=True)
    activation, sigma, deviation, descend = squared_loss(activation, v_star, noise)
    code, K = activation.code, len(b)

    def force(lam, nu, xi, theta, S, F, G):
        delta = deviation(lam, nu, theta) - sigma * xi
        for k in range(K):
            F[k] = -b[k] * slope(code, lam[k]) * delta
            G[k] = -value(code, lam[k]) * delta

    @_rule.kernel
    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        eps_g = descend(S, w, K, eta, eta_v, sigma, second_order, A, B, C, dv)
        for k in range(K):
            back = b[k] / nonzero(w[k])
            for j in range(K):
                A[k, j] *= back
                if second_order:
                    C[k, j] *= back * (b[j] / nonzero(w[j]))
            for m in range(B.shape[1]):
                B[k, m] *= back
        return eps_g

    recipe = "feedback_alignment", tuple(b.tolist()), tuple(v_star.tolist()), activation.name, sigma
    return _with_closure(closure, force, deviation, v_star, recipe, noise="normal")


@by_name("ov.rules.node_perturbation([1.0, 1.0], [1.0, 1.0])")
def node_perturbation(
    v: ArrayLike, v_star: ArrayLike, *, activation: Activation | str = erf, noise: float = 0.0
) -> Rule:
    r"""Node perturbation: units learn from the effect of small changes of their fields; theta is the second layer.

    .. math:: F_k = \zeta_k \sum_j \zeta_j F^0_j, \qquad F^0_k = -\theta_k\,g'(\lambda_k)\Delta, \qquad
              G_k = -g(\lambda_k)\Delta

    with :math:`\Delta` as in :func:`feedback_alignment` and :math:`\zeta_k` of mean 0 and variance 1, independent for
    each sample. The sum is the limit of the loss at fields :math:`\lambda + \delta\zeta` minus the loss at
    :math:`\lambda`, over :math:`-\delta`, for small :math:`\delta`.

    Parameters
    ----------
    v, v_star : array_like, shape (K,), (M,)
        Second layers of students (the initial theta) and teachers.
    activation : Activation or str
        g of students and teachers: erf, relu, linear or quadratic.
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        Exact: A and B of gradient descent, and 2 C + tr(C) 1 in place of its C. eps_g is E[Delta_0^2]/2.

    Raises
    ------
    ValueError
        Arrays of a wrong shape, an activation without closed forms, more than six students.

    Notes
    -----
    zeta_k is 0 with probability 2/3 and +- sqrt 3 with probability 1/6 each. Its moments up to the fifth, on which the
    flow depends, are those of a normal variable.

    Examples
    --------
    >>> import overlaps as ov
    >>> rule = ov.rules.node_perturbation([1.0, 0.5], [0.8], noise=0.2)
    >>> model, descent = ov.learner(rule, eta=0.4), ov.committee_machine(2, 1, v=[1.0, 0.5], v_star=[0.8], eta=0.4)
    >>> at = dict(Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2], [0.1]], T=[[1.0]])
    >>> print((ov.closure(model, **at).A / ov.closure(descent, **at).A).round(6))
    [[1. 1.]
     [1. 1.]]
    """
    v, v_star = check.array("v", v, ("K",), filled=True), check.array("v_star", v_star, ("M",), filled=True)
    if len(v) > 6:
        raise ValueError(f"v has {len(v)} entries; expected at most 6: every unit has a perturbation of its own.")
    activation, sigma, deviation, descend = squared_loss(activation, v_star, noise)
    code, K = activation.code, len(v)
    points, chances = np.array([-1.0, 0.0, 1.0]) * np.sqrt(3), np.array([1 / 6, 2 / 3, 1 / 6])  # law of zeta_k

    def force(lam, nu, xi, theta, S, F, G):
        which = int(xi)
        delta, change = deviation(lam, nu, theta) - sigma * (2 * (which % 2) - 1), 0.0
        which //= 2
        for k in range(K):
            F[k] = points[which // 3**k % 3]
            change -= F[k] * theta[k] * slope(code, lam[k]) * delta
            G[k] = -value(code, lam[k]) * delta
        for k in range(K):
            F[k] *= change

    @_rule.kernel
    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        eps_g = descend(S, w, K, eta, eta_v, sigma, second_order, A, B, C, dv)
        if second_order:
            trace = 0.0
            for k in range(K):
                trace += C[k, k]
            for k in range(K):
                for j in range(K):
                    C[k, j] = 2.0 * C[k, j] + (trace if j == k else 0.0)
        return eps_g

    each = np.arange(2 * 3**K)
    noise = each.astype(float), np.prod([chances[each // 2 // 3**k % 3] for k in range(K)], axis=0) / 2
    recipe = "node_perturbation", tuple(v.tolist()), tuple(v_star.tolist()), activation.name, sigma
    return _with_closure(closure, force, deviation, v_star, recipe, noise=noise, theta=recipe[1])


@jit(inline=True)
def nonzero(v):
    """A second layer, or a tiny number in place of 0: rows of the closure are proportional to it."""
    tiny = 1e-100  # with a square that is not 0
    return v if abs(v) > tiny else tiny


def squared_loss(activation, v_star, noise):
    """(Activation, sigma, compiled Delta without noise, compiled closure of gradient descent) of a squared loss."""
    activation, sigma = named("activation", activation), check.number("noise", noise, least=0)
    forms, code, M = activation.closed_forms, activation.code, len(v_star)
    if forms is None or code < 0:
        raise ValueError(f"activation = {activation}; expected ov.erf, ov.relu, ov.linear or ov.quadratic.")
    descent, size = _rule.pointer(forms.closure, CLOSURE), 0 if forms.workspace is None else forms.workspace(MAX_FIELDS)

    @jit_user
    def deviation(lam, nu, theta):
        delta = 0.0
        for k in range(lam.size):
            delta += theta[k] * value(code, lam[k])
        for m in range(M):
            delta -= v_star[m] * value(code, nu[m])
        return delta

    @jit_user
    def descend(S, w, K, eta, eta_v, sigma, second_order, A, B, C, dv):
        layers = np.empty(K + M)
        for k in range(K):
            layers[k] = nonzero(w[k])
        for m in range(M):
            layers[K + m] = -v_star[m]
        return descent(S, layers, np.empty(size), K, code, eta, eta_v, sigma, second_order, A, B, C, dv)

    return activation, sigma, deviation, descend


def _with_closure(closure, force, deviation, v_star, recipe, **options):
    """The rule of a force with its closure in closed form."""

    def error(lam, nu, theta):
        return deviation(lam, nu, theta) ** 2 / 2

    return Rule(force, K=len(recipe[1]), M=len(v_star), error=error, name=recipe[0].replace("_", " "), closed=closure,
        recipe=recipe, **options,
    )  # fmt: skip
