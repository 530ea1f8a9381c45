r"""Compute-optimal training: how many features for a given number of operations c = N_l B alpha."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._base import check
from .terms import upper

__all__ = ["Frontier", "best_eta"]

GOLDEN = (5**0.5 - 1) / 2


class Frontier(NamedTuple):
    """The best use of compute; made by :func:`overlaps.theory.scaling.Law.frontier`.

    Attributes
    ----------
    N_l : ndarray
        Trained features; whole numbers where the search was exact.
    alpha : ndarray
        Learning time.
    eps : ndarray
        Error there.
    """

    N_l: np.ndarray
    alpha: np.ndarray
    eps: np.ndarray


def best_eta(exponent: float, batch_size: int = 1) -> float:
    r"""Learning rate that makes the error least at a given time, where the error falls as (eta alpha)^-exponent.

    .. math:: \epsilon \sim \frac{\eta^{-g}}{2 - \eta/B} \quad\Rightarrow\quad \eta^* = \frac{2 B g}{1 + g}

    *Asymptotic*: in the window of the power law, no label noise. At moderate times the best rate is somewhat larger.
    Derived here.

    Parameters
    ----------
    exponent : float
        That of the bias in time, ``law.exponents.time``; on the compute-optimal frontier ``law.exponents.compute``.
    batch_size : int
        Samples in one step.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.theory.scaling.best_eta(0.8), 4)
    0.8889
    """
    g = check.number("exponent", exponent, above=0)
    return 2 * check.count("batch_size", batch_size) * g / (1 + g)


def end_of_learning(beta, g):
    """The ratio x = zeta / N^(1 + beta) at which training should stop: root of a x^g (1 - e^-x) = Gamma(g + 1, x)."""
    low, high = -40.0, 4.0  # in ln x; the left side grows, the right side falls
    root = brentq(
        lambda y: np.log((1 + beta) * -np.expm1(-np.exp(y))) + g * y - np.log(upper(g + 1, np.exp(y))),
        *(low, high),
        xtol=1e-14,
    )
    return float(np.exp(root))


def closed(law, compute):
    """The optimum of bias and floor, both in their common window."""
    rates = law.exponents
    if law.noise > 0 or law.student_scale > 0 or rates.time >= rates.kernel:
        raise ValueError(
            f"{law}: the closed frontier balances bias and floor; expected noise = 0, student_scale = 0 and "
            f"2 source < 1 + beta. Try exact=True."
        )
    g, gamma, u = rates.time, rates.features, law.spectrum.s[0] / law.L
    x = end_of_learning(law.beta, g)
    C = 2 * law.eta / law.batch_size * law.spectrum.s[0] * compute
    N = (C / x) ** rates.width
    N_l = N - 0.5
    if np.any(N_l < 1) or np.any(N_l > law.L):
        raise ValueError(
            f"compute = {check.shown(compute.tolist())} asks for N_l = {N_l.min():.4g} to {N_l.max():.4g}; expected "
            f"numbers of features from 1 to L = {law.L}. Try exact=True, which stops at the ends."
        )
    f = x ** (-g * rates.width) * upper(g, x) / (1 + law.beta) + x ** (gamma * rates.width) / gamma
    P = np.reshape([law.amplitude(round(n)) for n in N_l.flat], N_l.shape)
    eps = P * u * law.teacher_scale / 2 * (C**-rates.compute * f - (law.L + 0.5) ** -gamma / gamma)
    return Frontier(N_l, compute / (law.batch_size * N), eps)


def exact(law, compute):
    """The best whole number of features by golden section in its logarithm, on the exact error."""
    found = np.array([_best(law, c) for c in compute.flat]).T.reshape(2, *compute.shape)
    return Frontier(found[0], compute / (law.batch_size * found[0]), found[1])


def _best(law, compute):
    """(N_l, error) of one amount of compute; the error has one minimum in N_l."""
    known = {}

    def error(n):
        if n not in known:
            known[n] = float(law.error(compute / (law.batch_size * n), n))
        return known[n]

    low, high = 1, law.L
    while high - low > 3:
        left = min(max(round(high * (low / high) ** GOLDEN), low + 1), high - 2)
        right = max(min(round(low * (high / low) ** GOLDEN), high - 1), left + 1)
        if error(left) < error(right):
            high = right
        else:
            low = left
    best = min(range(low, high + 1), key=error)
    return best, error(best)
