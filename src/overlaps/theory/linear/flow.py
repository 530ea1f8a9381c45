r"""Linear students in gradient flow (small learning rate): sums, integrals, the power law and its window.

Every block relaxes by itself, m_l(alpha) = m_l(0) exp(-2 eta s_l alpha).  With a power-law spectrum the sum over blocks
is close to an integral, and falls like :math:`\alpha^{-\beta/(1+\beta)}` once
:math:`\zeta = 2\eta s_1\alpha > 1`, until the smallest eigenvalue is learned.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

import numpy as np
from scipy.special import gamma, gammainc, gammaincc, zeta

from ..._base import ArrayLike, Floats, check
from ...models.spectrum import Spectrum, power_law
from .eigenmodes import linear_unit, start_blocks

__all__ = ["exponent", "flow_error", "flow_overlaps", "integral_bound", "integral_error", "power_law_error", "window"]


def flow_error(
    spectrum: Spectrum, eta: float, alpha: ArrayLike, *, student_scale: float = 1.0, m0: ArrayLike | None = None
) -> Floats:
    r"""Mean generalisation error of a linear student in gradient flow.

    .. math:: \epsilon_{\rm flow} = \frac{1+\sigma_J^2}{2} \sum_l p_l s_l\, e^{-2\eta s_l\alpha}
       \qquad \Big(\text{in general } \tfrac12 \sum_l s_l m_l(0)\, e^{-2\eta s_l\alpha}\Big)

    *Asymptotic*: the terms of order eta^2 are dropped. In the power-law window the exact error is higher by
    :func:`overlaps.theory.linear.amplitude`. Source: [WR], Eq. (8) = (47) = (66) = (67).

    Parameters
    ----------
    spectrum, eta, alpha, student_scale, m0
        As in :func:`overlaps.theory.linear.error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.linear.flow_error(ov.power_law(beta=0.5, L=6), 0.8, [0, 0.5, 10], student_scale=0.5).round(10)
    array([0.625     , 0.18662272, 0.00099552])
    """
    alpha = check.times("alpha", alpha)
    model = linear_unit(spectrum, eta)
    start = start_blocks(model.spectrum, student_scale, m0)
    return decay_sum(2 * model.eta * model.spectrum.s, 0.5 * model.spectrum.s * start, alpha)


def flow_overlaps(
    spectrum: Spectrum, eta: float, alpha: ArrayLike, *, student_scale: float = 1.0
) -> tuple[Floats, Floats]:
    r"""Mean overlaps R and Q of a linear student (K = M = 1) in gradient flow.

    .. math:: R = \langle s\rangle - \sum_l p_l s_l e^{-\eta s_l \alpha}, \qquad
       Q = \langle s\rangle + (1+\sigma_J^2) \sum_l p_l s_l e^{-2\eta s_l\alpha} - 2 \sum_l p_l s_l e^{-\eta s_l\alpha}

    R is *exact* at any learning rate; Q is *asymptotic*, without the terms of order eta^2. Exactly, Q = 2 eps_g + 2R -
    <s>. Source: [WR], Eq. (7); R is (38) = (64), Q is (46) = (65). R and Q have the shape of alpha.

    Parameters
    ----------
    spectrum, eta, alpha, student_scale
        As in :func:`overlaps.theory.linear.error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> R, Q = ov.theory.linear.flow_overlaps(ov.isotropic(), 0.5, [0.0, 1e3])
    >>> R, Q
    (array([0., 1.]), array([1., 1.]))
    """
    alpha = check.times("alpha", alpha)
    model = linear_unit(spectrum, eta)
    scale = check.number("student_scale", student_scale, least=0)
    s, weight = model.spectrum.s, model.spectrum.p * model.spectrum.s
    slow, fast = decay_sum(model.eta * s, weight, alpha), decay_sum(2 * model.eta * s, weight, alpha)
    return weight.sum() - slow, weight.sum() + (1 + scale**2) * fast - 2 * slow


def integral_error(
    beta: float, L: int, eta: float, alpha: ArrayLike, *, student_scale: float = 1.0, end_terms: bool = False,
    last: int | None = None,
) -> Floats:  # fmt: skip
    r"""The sum of :func:`flow_error` as an integral over l, in incomplete gamma functions.

    .. math:: \epsilon \simeq \frac{(1+\sigma_J^2)\, s_1}{2L}\, \frac{\zeta^{-b}}{1+\beta}
       \Big[\Gamma\Big(b, \frac{\zeta}{L^{1+\beta}}\Big) - \Gamma(b, \zeta)\Big],
       \qquad b = \frac{\beta}{1+\beta}, \quad \zeta = 2\eta s_1 \alpha

    *Asymptotic* in l; :func:`integral_bound` bounds the error. For 0.3 <= beta <= 1 and L >= 128 the integral is 7 to
    21 % low at zeta = 1, 1 % at 3, and within 0.9 % from 10 to the end of the window; with ``end_terms`` within 1 % at
    zeta = 1, 0.6 to 4 % high at 3, within 0.2 % from 10 on. Large beta is worse: 2 % from 10 on at beta = 2. Source:
    [WR], Eq. (9) = (50); (52) drops the second gamma function. End terms: the Euler-Maclaurin formula (48), the first
    of them (49).

    Parameters
    ----------
    beta, L : float, int
        Exponent > 0 and size of the spectrum, :func:`overlaps.power_law`.
    eta, alpha, student_scale
        As in :func:`overlaps.theory.linear.error`.
    end_terms : bool
        Add the end terms of the trapezoidal rule, half of the first and of the last summand.
    last : int, optional
        Stop the sum after this many eigenvalues (the trained ones of :mod:`overlaps.theory.features`); L by default.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.linear.integral_error(0.5, 6, 0.8, [0.5, 10], student_scale=0.5).round(10)
    array([0.17005675, 0.0006337 ])
    """
    z, s, scale = power_law_units(beta, L, eta, alpha, student_scale)
    n = L if last is None else check.count("last", last)
    if n > L:
        raise ValueError(f"last = {n}; expected at most L = {L}.")
    b = exponent(beta)
    low = z * n ** -(1.0 + beta)
    # avoid cancellation: use the regularised functions that are not close to one
    difference = np.where(low > b, gammaincc(b, low) - gammaincc(b, z), gammainc(b, z) - gammainc(b, low))
    with np.errstate(divide="ignore", invalid="ignore"):
        integral = gamma(b) * z**-b / (1 + beta) * difference
    integral = np.where(z > 0, integral, -np.expm1(-beta * np.log(n)) / beta)
    ends = 0.5 * (np.exp(-z) + n ** -(1.0 + beta) * np.exp(-low)) if check.flag("end_terms", end_terms) else 0.0
    return (scale * (integral + ends))[()]


def integral_bound(beta: float, L: int, *, student_scale: float = 1.0, printed: bool = False) -> float:
    r"""Upper bound of :func:`flow_error` minus :func:`integral_error` at any time.

    .. math:: \frac{(1+\sigma_J^2)\, s_1}{2L} \Big[\tfrac12 L^{-(1+\beta)} + \zeta(1+\beta) - \frac1\beta\Big]

    Reached at alpha = 0, up to 3e-4 of the prefactor (L >= 16); later the difference is smaller. The paper's bound for
    2 eta s_1 alpha > 1, half of the first summand, is an estimate only: the difference exceeds it by 1.5 % (beta = 0.3)
    to 11 % (beta = 2) just there, and by any factor later. ``integral_error(..., end_terms=True)`` contains it. Source:
    [WR], between (48) and (49); the sharper form is derived here.

    Parameters
    ----------
    beta, L, student_scale
        As in :func:`integral_error`.
    printed : bool
        The bound as printed, L^-(1+beta) without the factor 1/2.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.theory.linear.integral_bound(0.5, 128), 4)
    0.2515
    """
    _, s, scale = power_law_units(beta, L, 1.0, 0.0, student_scale)
    end = 1 if check.flag("printed", printed) else 0.5
    return float(scale * (end * L ** -(1.0 + beta) + zeta(1 + beta) - 1 / beta))


def power_law_error(beta: float, L: int, eta: float, alpha: ArrayLike, *, student_scale: float = 1.0) -> Floats:
    r"""Power law of the error inside its window.

    .. math:: \epsilon \simeq \frac{(1+\sigma_J^2)\, s_1}{2L}\,
       \frac{\Gamma(b)}{1+\beta}\, (2\eta s_1\alpha)^{-b}, \qquad b = \frac{\beta}{1+\beta}

    *Asymptotic*: inside :func:`window`, of a large L and not too small beta. At the upper end it is 4 to 5 times too
    large, at a tenth of it 30 to 45 %, at a hundredth 7 to 11 % (1 <= beta <= 1.5, L >= 128; worse for smaller beta,
    and beta = 0.01 never shows its exponent). Source: [WR], Eq. (53), from (50) with (51).

    Parameters
    ----------
    beta, L, eta, alpha, student_scale
        As in :func:`integral_error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> early, late = ov.theory.linear.power_law_error(1.0, 1000, 0.1, [1.0, 100.0])
    >>> round(float(early / late), 10)  # exponent 1/2
    10.0
    """
    z, _, scale = power_law_units(beta, L, eta, alpha, student_scale)
    b = exponent(beta)
    with np.errstate(divide="ignore"):
        return (scale * gamma(b) / (1 + beta) * z**-b)[()]


def window(beta: float, L: int, eta: float) -> tuple[float, float]:
    r"""First and last time between which the error follows the power law, in order of magnitude.

    .. math:: 1 < 2\eta s_1\alpha < \Gamma\Big(\frac{2\beta+1}{1+\beta}\Big)^{(1+\beta)/\beta} L^{1+\beta}

    Outer bounds: from the time of the first mode to the time at which, to first order, the correction for finite L is
    as large as the law. :meth:`overlaps.theory.scaling.Law.window` bounds the law to an accuracy q; with
    source 0 and q = 1 it ends here up to L + 1/2 in place of L, and with q = 0.1 earlier by a factor of
    10^((1+beta)/beta), 1000 at beta = 1/2. The law is accurate at the lower end only, see :func:`power_law_error`.
    Source: [WR], below Eq. (52).

    Parameters
    ----------
    beta, L, eta
        As in :func:`integral_error`.

    Examples
    --------
    >>> import overlaps as ov
    >>> first, last = ov.theory.linear.window(1.0, 100, 0.1)
    >>> round(first, 4), round(last / first)
    (0.0817, 7854)
    """
    _, s, _ = power_law_units(beta, L, eta, 0.0, 0.0)
    first = 1 / (2 * eta * s[0])
    return float(first), float(first * gamma((2 * beta + 1) / (1 + beta)) ** ((1 + beta) / beta) * L ** (1.0 + beta))


def exponent(beta: float) -> float:
    r"""Exponent of the power law in time, :math:`\epsilon_g \sim \alpha^{-\beta/(1+\beta)}`.

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.theory.linear.exponent(1.0)
    0.5
    """
    beta = check.number("beta", beta, above=0)
    return beta / (1 + beta)


def decay_sum(rate, weight, alpha):
    """sum_l weight_l exp(-rate_l alpha), of the shape of alpha; constant for rate 0, also at alpha = inf."""
    rate, weight, rest = rate[rate > 0], weight[rate > 0], weight[rate <= 0].sum()
    return np.reshape([weight @ np.exp(-rate * t) + rest for t in alpha.flat], alpha.shape)[()]


def power_law_units(beta, L, eta, alpha, student_scale):
    """Checked arguments as zeta = 2 eta s_1 alpha, the eigenvalues, and the prefactor (1 + sigma_J^2) s_1 / (2 L)."""
    s = power_law(beta=beta, L=L).s
    eta = check.number("eta", eta, above=0)
    scale = check.number("student_scale", student_scale, least=0)
    return 2 * eta * s[0] * check.times("alpha", alpha), s, 0.5 * (1 + scale**2) * s[0] / L
