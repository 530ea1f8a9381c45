"""Learning times of quadratic networks from the integrated equations, and the learning rate that makes them short."""

import numpy as np

from ..._base import check
from ..._base.quiet import quietly
from ..._base.types import Rng
from ...models.model import Model, quadratic_network
from ...models.state import State
from ...solve import solve
from .phases import eta_escape, eta_solution

__all__ = ["eta_fastest", "eta_from_paper", "half_loss_time"]

PATIENCE = 100.0  # the first attempt integrates this long, each further one ten times longer


def half_loss_time(model: Model, start: State, *, alpha_max: float = 1e5) -> float:
    """Time at which eps_g has fallen to half of its initial value, by integrating the equations.

    Exact for N -> infinity, to the accuracy of :func:`overlaps.solve`.

    Parameters
    ----------
    model, start : Model, State
        The learning problem and its start; any model.
    alpha_max : float
        Where to give up.

    Returns
    -------
    float
        alpha, or inf when eps_g does not halve: it stays above, or the integration diverges.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.quadratic_network(1, 1, eta=0.1)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.1]], T=[[1.0]])
    >>> round(ov.theory.quadratic.half_loss_time(model, start), 3)
    7.184
    """
    alpha_max = check.number("alpha_max", alpha_max, above=0)
    first = solve(model, start, [0.0]).eps_g[0]
    with quietly():  # a divergence is an answer here: never
        horizon = PATIENCE
        while True:  # where to give up must not make an easy problem stiff
            end = solve(model, start, (start.alpha, min(horizon, alpha_max)), stop=first / 2)
            halved = end.success and end.eps_g[-1] <= first / 2 * (1 + 1e-6)
            if halved or not end.success or horizon >= alpha_max:
                return float(end.alpha[-1]) if halved else np.inf
            start, horizon = end.at(end.alpha[-1]), 10 * horizon


def eta_fastest(
    K: int, M: int, *, eps: float, rng: Rng, starts: int = 20, q0: float = 1.0, noise: float = 0.0, rtol: float = 1e-3
) -> tuple[float, float]:
    r"""Learning rate that minimises the half-loss time, averaged over starts R(0) ~ N(0, eps^2), Q(0) = q0 I.

    .. math:: \eta_{\rm fastest} = \arg\min_{\eta < \eta_{\rm solution}} \langle\alpha_{1/2}\rangle

    A measurement: exact integration, minimised over eta between a quarter of the lesser of :func:`eta_escape` and
    :func:`eta_solution`, and the latter. Half of the loss is not the end: near :func:`eta_solution`, where wide
    students have their minimum, the other half takes very long (:func:`eta_optimal`).

    Parameters
    ----------
    K, M : int
        Widths, K >= M.
    eps : float
        Standard deviation of the initial overlaps.
    rng : int or numpy.random.Generator
        Seed or generator of the starts; all learning rates meet the same starts.
    starts : int
        Number of starts.
    q0 : float
        Initial norm of the students.
    noise : float
        Standard deviation of the label noise.
    rtol : float
        Accuracy of the minimum, relative to the lesser of :func:`eta_escape` and :func:`eta_solution`.

    Returns
    -------
    eta, alpha : float
        The learning rate (half of it is Bocchi et al.'s) and the mean half-loss time there.

    Raises
    ------
    ValueError
        K < M; overlaps too large for q0 (no vectors have them); or a learning time that is never finite.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> eta, alpha = quadratic.eta_fastest(1, 1, eps=0.01, rng=1, starts=2)
    >>> 0.8 < eta / quadratic.eta_escape(1, 1) < 1
    True
    """
    from scipy.optimize import minimize_scalar

    limit = eta_solution(K, M)
    guess = min(eta_escape(K, M, noise=noise), limit)
    eps, q0 = check.number("eps", eps, above=0), check.number("q0", q0, above=0)
    rtol = check.number("rtol", rtol, above=0)
    R = eps * check.generator(rng).standard_normal((check.count("starts", starts), K, M))

    def mean_time(eta):
        model = quadratic_network(K, M, eta=float(eta), noise=noise)
        states = [State.from_overlaps(model, Q=q0 * np.eye(K), R=r, T=np.eye(M)) for r in R]
        time = np.mean([half_loss_time(model, state) for state in states])
        return time if np.isfinite(time) else 1e300  # an order for the minimiser, not a number

    best = minimize_scalar(mean_time, bounds=(guess / 4, limit), options={"xatol": rtol * guess})
    if best.fun >= 1e300:
        raise ValueError(f"eps_g never halves from these starts (eps = {eps:g}, q0 = {q0:g}); expected a smaller q0.")
    return float(best.x), float(best.fun)


def eta_from_paper(eta: float) -> float:
    """Learning rate of the library (loss Delta^2 / 2) for one of Bocchi et al. (loss Delta^2): twice as large.

    Their risk is then 2 eps_g, and alpha is the same. Exact: a change of units. Source: Bocchi et al. (2026),
    arXiv:2604.03068.

    Parameters
    ----------
    eta : float
        The paper's learning rate.

    Returns
    -------
    float
        The library's, 2 eta.

    Examples
    --------
    >>> from overlaps.theory import quadratic
    >>> quadratic.eta_from_paper(0.1)
    0.2
    """
    return 2 * check.number("eta", eta, above=0)
