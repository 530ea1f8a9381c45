"""The best learning rate of a linear unit in closed form, and how far it stays behind a teacher that drifts."""

import numpy as np

from ..._base import check
from ..._base.types import ArrayLike, Numbers
from ...models.spectrum import Spectrum

__all__ = ["optimal_error", "optimal_eta", "tracking_error"]

ITERATIONS = 60  # most steps of Newton's method, which converges from above within ten


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


def tracking_error(
    spectrum: Spectrum, eta: ArrayLike, drift: float, *, noise: float = 0.0, batch_size: float = 1,
    t: ArrayLike | None = None,
) -> Numbers:  # fmt: skip
    r"""Stationary generalisation error of a linear unit behind a teacher that drifts.

    .. math::
        2 \epsilon_g = \frac{\sum_l \frac{\delta\, s_l t_l}{\eta s_l + \delta} + \kappa \sigma^2}{1 - \kappa}, \qquad
        \kappa = \frac{\eta}{2b} \sum_l p_l s_l

    Exact for N -> infinity: with :math:`r^l = \eta s_l^2 t_l/(\eta s_l + \delta)` the block distances are
    :math:`m_l = \delta t_l/(\eta s_l + \delta) + (\eta p_l/2b)(2\epsilon_g + \sigma^2)`. Slow rates lag behind, fast
    ones follow their own noise: the best one is finite even for sigma = 0. Several units as in :func:`reduce`. Derived
    here; for isotropic inputs :math:`[2\delta t/(\eta + \delta) + \eta\sigma^2]/(2(2 - \eta))` at b = 1.

    Source: Biehl and Schwarze (1993), J. Phys. A 26, 2651, for drifting teachers.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvalues and weights.
    eta : array_like
        Learning rates, 0 < eta < 2 b / sum_l p_l s_l.
    drift : float
        Rate delta of the drift, as in :func:`overlaps.committee_machine`.
    noise : float
        Standard deviation of the label noise.
    batch_size : float
        Samples in one step.
    t : array_like, shape (L,), optional
        Teacher overlaps W* P_l W*^T / N of the blocks; p_l by default, as for w* ~ N(0, 1).

    Raises
    ------
    ValueError
        A rate at which nothing is stationary; drift <= 0, negative noise, t of another shape.

    Examples
    --------
    >>> import overlaps as ov
    >>> float(ov.theory.linear.tracking_error(ov.isotropic(), 0.5, 0.05).round(10))
    0.0606060606
    """
    s, p = check.spectrum(spectrum).s, spectrum.p
    drift, noise = check.number("drift", drift, above=0), check.number("noise", noise, least=0)
    batch = check.number("batch_size", batch_size, above=0)
    t = p if t is None else check.array("t", t, s.shape)
    rates = check.array("eta", eta, (...,))
    most = 2 * batch / float(p @ s)
    if np.any(rates <= 0) or np.any(rates >= most):
        raise ValueError(f"eta = {check.shown(eta)}; expected 0 < eta < {most:g}, where the error is stationary.")
    kappa = rates / most
    lag = (drift * s * t / (rates[..., None] * s + drift)).sum(axis=-1)
    return ((lag + kappa * noise**2) / (1 - kappa) / 2)[()]
