"""Rules of learning in closed form, for one student and one teacher: perceptrons and robust regression."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._base import by_name, check
from ..gaussian.quadrature import legendre
from ..gaussian.tables import tabulate
from . import _perceptrons as forms
from .laws import LAWS, law_of, shown
from .rule import Rule

LABELS = np.array([1.0, -1.0])


class ResidualOptions(NamedTuple):
    """Tunable numbers of the tables of ``residual``."""

    log_range: float = 12.0  # largest |log(s / scale)| in the tables
    table_tol: float = 1e-12  # relative error of the tables; averages over a law have the rounding of a thousand terms
    graded_panels: int = 26  # beside a break, each half as long as the one before; the last is shorter than the least s


RESIDUAL = ResidualOptions()


def _closed(
    kernel, force, recipe, numbers, *, noise=None, breaks=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), error=forms.wrong,
    uses_overlaps=False,
):  # fmt: skip
    # the default of ``breaks``: planes lambda = 0 and nu = 0, on which labels jump
    shown = (f"{x:g}" if isinstance(x, float) else str(x) for x in recipe[1:] if x != ())
    name = f"{recipe[0]}({', '.join(shown)})"
    return Rule(
        force, K=1, M=1, error=error, noise=noise, breaks=breaks, uses_overlaps=uses_overlaps, name=name,
        numbers=np.array(numbers, float), closed=kernel, recipe=recipe,
    )  # fmt: skip


def _flipped(kernel, force, flip):
    p = check.number("flip", flip, least=0, below=0.5, hint="It is the probability of a wrong label.")
    return _closed(kernel, force, (kernel.__name__, p), [p], noise=(LABELS, np.array([1 - p, p])))


def hebb(flip: float = 0.0) -> Rule:
    r"""Hebb's rule, :math:`F = \sigma`, with labels sgn nu flipped with probability ``flip``.

    .. math:: A = 0, \quad B = m\sqrt{2/(\pi T)}, \quad C = 1, \quad m = 1 - 2\,\mathrm{flip}

    Parameters
    ----------
    flip : float
        Probability below 1/2 that a label is wrong.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g is the 0/1 error.

    Raises
    ------
    ValueError
        A number that is no probability below 1/2.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.hebb(flip=0.1)
    hebb(0.1)
    """
    return _flipped(forms.hebb, forms.hebb_force, flip)


def perceptron(flip: float = 0.0) -> Rule:
    r"""Rosenblatt's perceptron, :math:`F = \sigma\,[\sigma\lambda < 0]`; labels as in :func:`hebb`.

    .. math:: A = -\frac{1}{\sqrt{2\pi Q}}, \quad B = \frac{m}{\sqrt{2\pi T}}, \quad C = p + m\epsilon

    Parameters
    ----------
    flip : float
        Probability p below 1/2 that a label is wrong.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g is the 0/1 error.

    Raises
    ------
    ValueError
        A number that is no probability below 1/2. Models: a student of zero norm.

    References
    ----------
    Biehl and Riegler (1994), Europhys. Lett. 28, 525.

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.learner(ov.rules.perceptron(), eta=1.0)
    >>> start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    >>> print(round(ov.solve(model, start, [0, 1e4]).eps_g[-1] * 1e4 ** (1 / 3), 3))
    0.278
    """
    return _flipped(forms.perceptron, forms.perceptron_force, flip)


def adatron(flip: float = 0.0) -> Rule:
    r"""AdaTron, :math:`F = -\lambda\,[\sigma\lambda < 0]`; labels as in :func:`hebb`.

    .. math:: A = -(p + m\epsilon), \quad B = m\sqrt{Q/T}\,\frac{\sin\theta}{\pi}, \quad
              C = Q\Big(p + \frac m\pi(\theta - \sin\theta\cos\theta)\Big)

    Parameters
    ----------
    flip : float
        Probability p below 1/2 that a label is wrong.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g = theta/pi is the 0/1 error.

    Raises
    ------
    ValueError
        A number that is no probability below 1/2.

    References
    ----------
    Biehl and Riegler (1994), Europhys. Lett. 28, 525.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.adatron()
    adatron(0)
    """
    return _flipped(forms.adatron, forms.adatron_force, flip)


def hinge(margin: float = 1.0) -> Rule:
    r"""Hinge loss, :math:`F = \sigma\,[\sigma\lambda < \mathrm{margin}]` with labels sgn nu.

    Parameters
    ----------
    margin : float
        Distance >= 0 of samples from the boundary beyond which the loss is zero; 0 is the perceptron.

    Returns
    -------
    Rule
        With its closure in closed form (C is a bivariate normal probability), exact; eps_g is the 0/1 error.

    Raises
    ------
    ValueError
        A negative margin. Models: a student of zero norm.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.hinge(0.5)
    hinge(0.5)
    """
    k = check.number("margin", margin, least=0)
    breaks = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, k), (1.0, 0.0, -k))
    return _closed(forms.hinge, forms.hinge_force, ("hinge", k), [k], breaks=breaks)


def logistic(beta: float | None = None) -> Rule:
    r"""Logistic regression, :math:`F = \sigma\, s(-\sigma\lambda)`, :math:`s(x) = 1/(1 + e^{-x})`.

    .. math:: A = -E[s'(\lambda)], \quad B = \frac{1}{\sqrt{2\pi T}} \ \text{ or } \ \beta\,E[s'(\beta\nu)], \quad
              C = E[s(-\sigma\lambda)^2]

    Parameters
    ----------
    beta : float, optional
        Labels are 1 with probability s(beta nu); they are sgn nu by default.

    Returns
    -------
    Rule
        With A, B, C by one- and two-dimensional sums that are exact to rounding; eps_g is the 0/1 error.

    Raises
    ------
    ValueError
        A beta that is no number > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.logistic(beta=1.5)
    logistic(1.5)
    """
    if beta is None:
        noise = np.ones(1), np.ones(1)
        return _closed(forms.logistic_sign, forms.logistic_force, ("logistic",), [], noise=noise)
    beta = check.number("beta", beta, above=0)
    noise = LABELS, forms.chance_logistic
    return _closed(forms.logistic_logistic, forms.logistic_label_force, ("logistic", beta), [beta], noise=noise)


def least_squares(flip: float = 0.0) -> Rule:
    r"""Squared loss on labels, :math:`F = \sigma - \lambda`; labels as in :func:`hebb`.

    .. math:: A = -1, \quad B = m\sqrt{2/(\pi T)}, \quad C = 1 - 2BR + Q

    Parameters
    ----------
    flip : float
        Probability below 1/2 that a label is wrong.

    Returns
    -------
    Rule
        With its closure in closed form, exact; eps_g is the 0/1 error. It raises the errors of :func:`hebb`.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.least_squares()
    least_squares(0)
    """
    return _flipped(forms.least_squares, forms.least_squares_force, flip)


def optimal() -> Rule:
    r"""The optimal force for a perceptron with labels sgn nu; it depends on the overlaps.

    .. math:: F = \frac{J\sin\theta}{\rho}\,\sigma\, h\Big(\frac{\sigma\rho\lambda}{J\sin\theta}\Big),
              \qquad h = \phi/\Phi

    Returns
    -------
    Rule
        Maximises the gain of rho per sample at eta = 1, for isotropic inputs. eps_g is the 0/1 error.

    Raises
    ------
    ValueError
        Raised by models: R <= 0, where the sign of the first step is arbitrary.

    References
    ----------
    Kinouchi and Caticha (1992), J. Phys. A 25, 6243.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.rules.optimal()
    optimal()
    """
    return _closed(forms.optimal, forms.optimal_force, ("optimal",), [], uses_overlaps=True)


@by_name("ov.rules.residual(scipy.stats.cauchy(), clip=1.0)")
def residual(law: Any, clip: float = 0.0) -> Rule:
    r"""Robust regression, :math:`F = -\psi(\lambda - \nu - \xi)` with :math:`\psi` the residual clipped at +- clip.

    .. math:: -A = B = a = P(|D - \xi| < c), \quad C = E[\psi^2], \qquad D = \lambda - \nu \sim N(0, s^2)

    and with :math:`\psi = \mathrm{sgn}` for clip = 0 (least absolute deviations), a = 2 E[density of xi at D]. As the
    gradient is the residual times x, clipping it at c sqrt N is this rule.

    Parameters
    ----------
    law : frozen continuous distribution of scipy.stats
        Law of the label noise xi, symmetric about 0, such as ``scipy.stats.cauchy(scale=0.5)``, bounded or unbounded.
        The density may diverge only at the ends.
    clip : float
        c >= 0; 0 means the sign of the residual.

    Returns
    -------
    Rule
        With a and C from tables in s, computed once with errors of 1e-10; eps_g = s^2/2, without the noise.

    Raises
    ------
    ValueError
        No distribution, an asymmetric one, or one whose probabilities do not sum to 1; a negative clip.

    References
    ----------
    Marshall et al. (2025), arXiv:2406.11733 (clipping).

    Examples
    --------
    >>> import overlaps as ov
    >>> from scipy import stats
    >>> rule = ov.rules.residual(stats.cauchy(scale=0.5))
    >>> model = ov.learner(rule, eta=0.4)
    >>> print(round(ov.closure(model, Q=[[0.8]], R=[[0.5]], T=[[1.2]]).B[0, 0] / 0.4, 10))
    0.5579109408
    """
    clip = check.number("clip", clip, least=0)
    name = getattr(getattr(law, "dist", None), "name", None)
    if name is None or not hasattr(law, "pdf"):
        raise check.refused("law", law, "a frozen continuous distribution such as scipy.stats.cauchy(scale=0.5).")
    x = np.abs(law.ppf([0.6, 0.9, 0.99]))
    if not np.allclose(law.cdf(-x), law.sf(x), rtol=1e-10) or not np.allclose(law.cdf(x) + law.cdf(-x), 1, rtol=1e-10):
        raise ValueError(f"law = {name} is not symmetric about 0; expected loc = 0: ov.Rule takes any law.")
    return residual_of_recipe(name, tuple(map(float, law.args)), tuple(sorted(law.kwds.items())), clip)


@lru_cache(maxsize=64)
def residual_of_recipe(name, args, kwds, clip):
    """The rule ``residual`` of a law given by its name in scipy.stats and its parameters."""
    from scipy import stats  # imported here because it takes half a second

    law = getattr(stats, name)(*args, **dict(kwds))
    scale = float(law.ppf(0.75))
    xi, p = _graded(law_of(law), clip)

    def mean(t, i):
        s = scale * np.exp(np.where(np.abs(t) <= RESIDUAL.log_range, t, np.nan))  # nan ends the table
        return np.stack([_given(x, xi, clip)[i] @ p for x in s.ravel()]).reshape(t.shape)

    table = tabulate(
        [lambda t, i=i: mean(t, i) for i in (0, 1)], f"the mean over {shown(law)}", RESIDUAL.table_tol
    ).data
    recipe = "residual", name, args, kwds, clip
    breaks = [(1.0, -1.0, -1.0, clip), (1.0, -1.0, -1.0, -clip)][: 2 if clip else 1]
    options = {"noise": law, "breaks": breaks, "error": forms.distance}
    return _closed(forms.residual, forms.residual_force, recipe, [clip, scale, *table], **options)


def _graded(law, clip):
    """Distances (n,) of the noise from 0 and probabilities (n,), on panels that shrink towards |xi| = clip.

    There, averages over D ~ N(0, s^2) vary over a distance s.
    """
    edges = law.panels.ravel()
    inside = law.at(edges[[0, -1]])[0]
    for at in (clip, -clip)[: 2 if clip else 1]:
        if inside[0] < at < inside[1]:
            value = lambda t, at=at: law.at(np.array([t]))[0][0] - at  # noqa: E731
            t = scipy.optimize.brentq(value, edges[0], edges[-1], xtol=1e-15)
            edges = np.append(edges, t + np.outer([-1, 1], np.append(0.0, 0.5 ** np.arange(RESIDUAL.graded_panels))))
    edges = np.unique(np.clip(edges, law.panels[0, 0], law.panels[-1, 1]))
    xi, p = law._replace(panels=np.stack([edges[:-1], edges[1:]], axis=1)).nodes(LAWS.sizes - 1)
    return np.abs(xi), p / np.sum(p)


def _given(s, xi, clip):
    """(P(|D - xi| < clip), E[psi^2]) given distances xi, D ~ N(0, s^2); twice the density and 1 without a clip."""
    if clip == 0:
        return 2 * np.exp(-((xi / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi)), np.ones_like(xi)
    lower, upper = (xi - clip) / s, (xi + clip) / s
    inside = scipy.special.ndtr(-lower) - scipy.special.ndtr(-upper)
    if s > clip:  # here the terms of the form below cancel
        z, weight = legendre(40)
        density = np.exp(-((((2 * z[:, None] - 1) * clip - xi) / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi))
        square = 2 * clip * (weight * ((2 * z - 1) * clip) ** 2) @ density
    else:
        at_lower, at_upper = (np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) for x in (lower, upper))
        square = (xi**2 + s**2) * inside + s * ((xi - clip) * at_upper - (xi + clip) * at_lower)
    return inside, clip**2 * (1 - inside) + square
