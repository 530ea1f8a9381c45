"""The best learning rate of a linear unit in closed form."""

import numpy as np

from ..._base import check
from ..._base.types import ArrayLike, Numbers

__all__ = ["optimal_error", "optimal_eta"]

ITERATIONS = 60  # of Newton's method, which converges from above within ten


def _distance(alpha, m0, noise, batch_size):
    alpha = check.times("alpha", alpha)
    m0, noise = check.number("m0", m0, above=0), check.number("noise", noise, least=0)
    batch = check.number("batch_size", batch_size, above=0)
    if noise == 0:
        return m0 * np.exp(-batch * alpha), noise, batch
    x0 = noise**2 / m0
    c = batch * alpha + x0 + np.log(x0)  # x + ln x
    x = np.where(c > 1, c, np.exp(np.minimum(c, 1.0)))
    for _ in range(ITERATIONS):
        new = x * (1 + c - np.log(x)) / (1 + x)
        done, x = np.all(np.abs(new - x) <= 1e-15 * x), new
        if done:
            break
    return noise**2 / x, noise, batch


def optimal_error(alpha: ArrayLike, *, m0: float, noise: float, batch_size: float = 1) -> Numbers:
    r"""Least generalisation error of one linear unit on isotropic inputs at time alpha, over all learning rates.

    .. math::
        \epsilon_g = m/2, \qquad m' = -2\eta m + \eta^2 (m + \sigma^2)/b, \qquad
        m = \frac{\sigma^2}{x}, \quad x + \ln x = b\alpha + x_0 + \ln x_0, \quad x_0 = \sigma^2/m_0

    Exact: one variable and a flow that keeps the order of its solutions, so that the greedy rate :func:`optimal_eta` is
    globally optimal. It falls as sigma^2 / (2 b alpha); the best constant rate loses a logarithm. Several units:
    :func:`reduce`. Derived here; the Hamilton-Jacobi-Bellman equation holds for its value function.

    Parameters
    ----------
    alpha : array_like
        Times >= 0.
    m0 : float
        Q - 2 R + T at the start.
    noise : float
        Standard deviation of the label noise.
    batch_size : float
        Samples in one step.

    Raises
    ------
    ValueError
        Negative times or noise, m0 <= 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> float(2 * ov.theory.linear.optimal_error(10.0, m0=0.9, noise=0.5).round(9))
    0.035488252
    """
    return _distance(alpha, m0, noise, batch_size)[0] / 2


def optimal_eta(alpha: ArrayLike, *, m0: float, noise: float, batch_size: float = 1) -> Numbers:
    r"""The learning rate that leads to :func:`optimal_error` at every time.

    .. math:: \eta^*(\alpha) = \frac{b\, m}{m + \sigma^2} \to \frac1\alpha

    Exact. Without noise it is the constant b.

    Parameters
    ----------
    alpha, m0, noise, batch_size
        As in :func:`optimal_error`.

    Returns
    -------
    ndarray or float
        eta, of the shape of alpha.

    Examples
    --------
    >>> import overlaps as ov
    >>> float(ov.theory.linear.optimal_eta(1000.0, m0=0.9, noise=0.5).round(9))
    0.001006951
    """
    m, noise, batch = _distance(alpha, m0, noise, batch_size)
    return batch * m / (m + noise**2)
