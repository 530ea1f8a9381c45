"""Rules for samples with several inputs: episodes of decisions, patches, attention, pairs of views."""

import numpy as np

from .._base import ArrayLike, by_name, check
from .._base.jit import jit_user
from ..activations.activation import Activation
from ..activations.library import erf, linear
from ..gaussian.iterated import MAX_VARIABLES as MAX_FIELDS
from ..gaussian.two_point import slope, value
from . import _perceptrons, _rule
from . import _tokens as forms
from .feedback import squared_loss
from .rule import Rule
from .validation import checked_tokens


@by_name("ov.rules.episode(4)")
def episode(T: int, at_least: int | None = None, penalty: float = 0.0, bonus: float = 0.0) -> Rule:
    r"""Reinforcement: T decisions sgn(lambda), then one reward if enough of them were right.

    .. math:: F^a = \frac{\mathrm{sgn}\,\lambda^a}{T}\,(r + \mathrm{bonus}\,[\lambda^a\nu^a > 0]), \qquad
              r = 1 \text{ if at least } n \text{ of } T \text{ answers are } \mathrm{sgn}\,\nu^a,\ -\mathrm{penalty}
              \text{ otherwise}

    .. math:: A = \frac{a + b}{\sqrt{2\pi Q}}, \quad B = \frac{a - b}{\sqrt{2\pi T^*}}, \quad
              a = E[r \mid \text{right}] + \mathrm{bonus}, \quad b = E[r \mid \text{wrong}]

    with tails of binomial distributions; the cost hardly depends on T.

    Parameters
    ----------
    T : int
        Decisions in an episode: independent inputs.
    at_least : int, optional
        The number n of right answers from which an episode is rewarded; T by default.
    penalty : float
        Amount that a failed episode costs, in units of the reward.
    bonus : float
        Reward of every right answer by itself.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g is the probability of a wrong answer.

    Raises
    ------
    ValueError
        at_least outside 1, ..., T; a negative penalty. Models: a student of zero norm.

    References
    ----------
    Patel et al. (2023), arXiv:2306.10404 (the RL perceptron).

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.episode(4), eta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    >>> print(round(ov.solve(model, start, [0, 8.0]).R[-1, 0, 0], 8))
    1.44706983
    """
    T = check.count("T", T)
    n = T if at_least is None else check.count("at_least", at_least)
    if n > T:
        raise ValueError(f"at_least = {n} of T = {T} answers; expected 1 to {T}.")
    penalty, bonus = check.number("penalty", penalty, least=0), check.number("bonus", bonus)
    given = f"{T}, at_least={n}" + f", penalty={penalty:g}" * (penalty != 0) + f", bonus={bonus:g}" * (bonus != 0)
    return Rule(
        forms.episode_force, K=1, M=1, error=_perceptrons.wrong, tokens=T, name=f"episode({given})",
        breaks=np.eye(2 * T, 2 * T + 1) if 2 * T <= MAX_FIELDS else None,
        numbers=np.array([T, n, penalty, bonus]), closed=forms.episode, recipe=("episode", T, n, penalty, bonus),
    )  # fmt: skip


@by_name("ov.rules.pair(0.5)")
def pair(rho: float) -> Rule:
    r"""Two views of one sample with correlation rho: views attract each other, and a cubic term limits the norm.

    .. math:: F^1 = \lambda^2 - (\lambda^1)^3/3, \qquad F^2 = \lambda^1 - (\lambda^2)^3/3, \qquad
              A = 2(\rho - Q), \quad B = 0

    Parameters
    ----------
    rho : float
        Correlation c_12 of the views.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g is half the mean square of the difference of the two fields.

    Raises
    ------
    ValueError
        A correlation outside [-1, 1].

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.pair(0.6), eta=0.15)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> print(round(ov.solve(model, start, [0, 6.0]).Q[-1, 0, 0], 9))
    0.632898585
    """
    rho = check.number("rho", rho, least=-1, most=1, hint="It is a correlation.")
    return Rule(
        forms.pair_force, K=1, M=1, error=forms.pair_error, tokens=2, token_covariance=[[1, rho], [rho, 1]],
        name=f"pair({rho:g})", numbers=np.array([rho]), closed=forms.pair, recipe=("pair", rho),
    )  # fmt: skip


@by_name("ov.rules.attention(2)")
def attention(T: int, token_covariance: ArrayLike | None = None, tolerance: float | None = None) -> Rule:
    r"""One attention head over T tokens whose query, key and value are one direction; the teacher is of the same form.

    .. math:: \hat y = \sum_a p_a\,\lambda^a, \quad p = \mathrm{softmax}(\lambda), \qquad
              F^a = -(\hat y - y)\,p_a\,(1 + \lambda^a - \hat y)

    where y is the output for the teacher's fields: descent of :math:`(\hat y - y)^2/2`.

    Parameters
    ----------
    T : int
        Tokens, at most four.
    token_covariance : array_like, shape (T, T) or (L, T, T), optional
        Covariance of the tokens, or one for each eigenvalue of the spectrum; independent by default.
    tolerance : float, optional
        Relative error of the integrals, see :class:`overlaps.Rule`: by default 1e-6 for two tokens, by tensors, and
        1e-3 for more, by lattices. At Q, T* <= 1 three tokens reach 1e-6 with half a million points, four 2e-4.

    Returns
    -------
    Rule
        eps_g is the mean loss.

    Raises
    ------
    ValueError
        More tokens; a matrix that is no covariance of unit variances.

    References
    ----------
    Arnaboldi et al. (2025), arXiv:2506.02651 (the class of models).

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.attention(2, [[1, 0.6], [0.6, 1]]), eta=0.5)
    >>> print(round(ov.closure(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]]).eps_g, 6))
    0.470708
    """
    T, c = checked_tokens(check.count("T", T), token_covariance, 2, False)
    return Rule(
        forms.attention_force, K=1, M=1, error=forms.attention_error, tokens=T, token_covariance=c,
        tolerance=1e-6 if tolerance is None and T <= 2 else tolerance,
        name=f"attention({T})", recipe=("attention", T, tuple(map(tuple, c.tolist()))),
    )  # fmt: skip


@by_name('ov.rules.patches("erf", 3)')
def patches(activation: Activation | str, T: int, K: int = 1, v_star: ArrayLike = (1.0,), noise: float = 0.0) -> Rule:
    r"""Units shared by T independent patches of an input, whose responses add up; theta is the second layer.

    .. math:: \Delta = \sum_a \Big(\sum_k \theta_k g(\lambda^a_k) - \sum_m v^*_m g(\nu^a_m)\Big) - \sigma\xi, \qquad
              F^a_k = -\frac1T\,\theta_k g'(\lambda^a_k)\,\Delta, \quad G_k = -\frac1T \sum_a g(\lambda^a_k)\,\Delta

    For odd g, the other patches act on each patch as label noise: A and B are those of one patch, and T C is C of one
    patch with the noise :math:`\sigma^2 + (T - 1) E\Delta_1^2`.

    Parameters
    ----------
    activation : Activation or str
        g: erf and linear in closed form, for any T; quadratic and relu by quadrature, T (K + M) at most 8.
    T : int
        Patches.
    K : int
        Students; theta begins at ones.
    v_star : array_like, shape (M,)
        Second layer of the teacher.
    noise : float
        Standard deviation sigma of the label noise.

    Returns
    -------
    Rule
        eps_g is :math:`E\Delta_0^2/2`.

    Raises
    ------
    ValueError
        Another activation; more than eight fields where there is no closed form.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.patches(ov.erf, 2), eta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    >>> print(round(ov.solve(model, start, [0, 6.0]).R[-1, 0, 0], 6))
    0.842487
    """
    T, K, v_star = check.count("T", T, least=2), check.count("K", K), check.array("v_star", v_star, ("M",), filled=True)
    activation, sigma, deviation, descend = squared_loss(activation, v_star, noise)
    code, M = activation.code, len(v_star)

    @jit_user
    def mean(lam, nu, theta):
        delta = 0.0
        for a in range(T):
            delta += deviation(lam[a], nu[a], theta) / T
        return delta

    def force(lam, nu, xi, theta, S, F, G):
        delta = mean(lam, nu, theta) - sigma * xi / T
        for a in range(T):
            for k in range(K):
                F[a, k] = -theta[k] * slope(code, lam[a, k]) * delta
                G[k] -= value(code, lam[a, k]) * delta

    def error(lam, nu, theta):
        return (T * mean(lam, nu, theta)) ** 2 / 2

    def closure(S, w, parameters, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
        eps_g = descend(S, w, K, eta, eta_v, 0.0, False, A, B, C, dv)
        if second_order:
            descend(S, w, K, eta, eta_v, np.sqrt(sigma**2 + 2 * (T - 1) * eps_g), True, A, B, C, dv)
            C /= T
        return T * eps_g

    breaks = np.eye(T * (K + M), T * (K + M) + 1) if activation.kinks else None
    return Rule(
        force, K=K, M=M, error=error, noise="normal" if sigma else None, breaks=breaks, tokens=T,
        closed=_rule.kernel(closure) if activation in (erf, linear) else None, theta=(1.0,) * K,
        name=f"patches({activation}, {T})", recipe=("patches", activation.name, T, K, tuple(v_star.tolist()), sigma),
    )  # fmt: skip
