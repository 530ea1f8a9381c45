"""Teachers that drift: how far behind them a linear unit stays."""

import numpy as np

from ..._base import check
from ..._base.types import ArrayLike, Numbers
from ...models.spectrum import Spectrum

__all__ = ["tracking_error"]


def tracking_error(
    spectrum: Spectrum,
    eta: ArrayLike,
    drift: float,
    *,
    noise: float = 0.0,
    batch_size: float = 1,
    t: ArrayLike | None = None,
) -> Numbers:
    r"""Stationary generalisation error of a linear unit behind a teacher that drifts.

    .. math::
        2 \epsilon_g = \frac{\sum_l \frac{\delta\, s_l t_l}{\eta s_l + \delta} + \kappa \sigma^2}{1 - \kappa}, \qquad
        \kappa = \frac{\eta}{2b} \sum_l p_l s_l

    Exact for N -> infinity: with :math:`r^l = \eta s_l^2 t_l/(\eta s_l + \delta)` the block distances are
    :math:`m_l = \delta t_l/(\eta s_l + \delta) + (\eta p_l/2b)(2\epsilon_g + \sigma^2)`. Slow rates lag behind, fast
    ones follow their own noise: the best one is finite even for sigma = 0. Several units as in :func:`reduce`. Derived
    here; for isotropic inputs :math:`[2\delta t/(\eta + \delta) + \eta\sigma^2]/(2(2 - \eta))` at b = 1.

    Biehl and Schwarze (1993), J. Phys. A 26, 2651, for drifting teachers.

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
        Teacher overlaps W* P_l W*^T / N of the blocks; p_l by default, those of w* ~ N(0, 1).

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
