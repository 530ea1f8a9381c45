"""Norms of the rows as one more feature: the network of a large batch, and Gaussian rows, as d -> infinity."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from ..._base import check
from ...gaussian.quadrature import piecewise
from . import ridge as _ridge
from .averages import QUADRATURE
from .features import SpikedRandomFeatures
from .solving import positive_alpha, positive_lam

__all__ = ["CorrectedPoint", "gaussian_rows", "large_batch_network"]


class CorrectedPoint(NamedTuple):
    """Test and training error with one more feature, the changes that it makes, and overlaps of the readout."""

    mse: float
    train: float
    change: float
    change_train: float
    theta: tuple


def large_batch_network(model: SpikedRandomFeatures) -> SpikedRandomFeatures:
    r"""The network after one step on infinitely many samples, including the differences of its rows' norms.

    .. math:: |w_i^1 - r\hat v|^2 = 1 + \kappa\, w_i \cdot \hat v, \qquad \kappa = 2 \tau |h_1^*| h_3, \qquad
              h_3 = E[\sigma'''], \qquad u = k\mu_1 + \kappa\, E[\sigma''(rk + z)]/2 \ \mbox{ replaces }\ k\mu_1

    *Asymptotic*: exact for the network as d -> infinity after alpha0 -> infinity; tanh learning sin (beta = 1)
    changes by -12 to +4 % over tau = 1 to 6, alpha = 0.5 to 10, lam = 0.01 to 1. An example of the gallery,
    ``plot_spiked_finite_batch``, solves for the network at finite alpha0.

    Parameters
    ----------
    model : SpikedRandomFeatures
        Made by :meth:`SpikedRandomFeatures.after_one_step` with ``alpha0=math.inf``.

    Returns
    -------
    SpikedRandomFeatures
        The same model with ``kap``.

    Raises
    ------
    ValueError
        Another model, or several blocks of neurons.

    Examples
    --------
    >>> import math, numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=math.inf, beta=1)
    >>> network = ov.static.large_batch_network(model)
    >>> round(network.solve(alpha=3, lam=0.1).mse - model.solve(alpha=3, lam=0.1).mse, 5)
    -0.0014
    """
    _single_block(model)
    if model.step is None or model.r == 0:
        raise ValueError(
            f"model = {check.shown(model)} comes from no step; make it with SpikedRandomFeatures.after_one_step."
        )
    if model.c != 1:
        raise ValueError(
            f"model = {check.shown(model)} has c = {model.c:.6g}, a step on finitely many samples; expected "
            "alpha0=math.inf." + check.see("spiked", "The network after a step on finitely many samples")
        )
    z, weight = piecewise(model.student_breakpoints, QUADRATURE.step / 8)
    h3 = float(weight @ (model.student(z) * (z**3 - 3 * z)))
    return dataclasses.replace(model, kap=2 * h3 * abs(model.step.h1_star) * model.step.tau)


def gaussian_rows(model: SpikedRandomFeatures, *, alpha: float, lam: float, d: float = math.inf) -> "CorrectedPoint":
    r"""Spiked random features whose rows have Gaussian entries instead of unit norm.

    Their squared norms c + dc_i, Var dc_i = 2c^2/d, act as one more feature with the function :math:`E[\sigma''(rk +
    \sqrt c z)]/2`. With ``kap`` their correlation with the spike is included. *Asymptotic* and exact. *Corrected*
    against Cui et al. (2024), arXiv:2402.04980, who take Gaussian and unit rows as equivalent: that holds for the
    spectrum only, or without a spike.

    Parameters
    ----------
    model : SpikedRandomFeatures
        One block of neurons, independent rows.
    alpha, lam, d : float
        Samples n/d, ridge penalty, input dimension (as in :meth:`SpikedRandomFeatures.solve`).

    Returns
    -------
    CorrectedPoint
        ``theta`` holds the readout's overlaps a.b/sqrt(p) and a.dc/sqrt(p).

    Raises
    ------
    ValueError
        Several blocks, orthonormal rows, alpha, lam or d out of range.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=20, beta=1)
    >>> [round(x, 4) for x in ov.static.gaussian_rows(model, alpha=2.3, lam=0.1).theta]
    [0.0657, -0.0456]
    """
    _single_block(model)
    tilt = np.array([1.0, model.kap])  # dc_i = kap b_i + the fluctuation of a Gaussian row
    K = model.c * np.outer(tilt, tilt) + np.diag([0.0, 2 * model.c**2])
    return with_norms(model, alpha, lam, d, K)


def with_norms(model, alpha, lam, d, K):
    """Solution with the two functions k mu1 and E[sigma'']/2, whose directions have the covariance K/d."""
    alpha, lam = positive_alpha(alpha), positive_lam(lam)
    unit = dataclasses.replace(model, kap=1.0).coefficients
    features = _ridge.Features(unit)
    linear = unit.k * unit.mu1
    features.u = np.array([linear, unit.u - linear])
    rows = _ridge.marchenko_pastur(model.c, model.beta, lam)

    def response(Vh):  # theta = beta V2 K thh in place of beta V2 c thh
        found = rows(Vh)
        return found._replace(T=found.T * K / model.c, dT=found.dT * K / model.c)

    options = {"lam": lam, "kappa": alpha / model.beta, "beta": model.beta, "noise": model.noise, "bias": model.bias}
    base = model.solve(alpha=alpha, lam=lam, d=d)
    fit = _ridge.fit(features, response, **options, d=d)
    return CorrectedPoint(fit.mse, fit.train, fit.mse - base.mse, fit.train - base.train, tuple(fit.theta.tolist()))


def _single_block(model):
    supported = isinstance(model, SpikedRandomFeatures) and model.rows == "iid" and model.bulk is None
    if not supported or np.ndim(model.r) > 0:
        raise ValueError(
            f"model = {check.shown(model)}; expected a SpikedRandomFeatures of one block with independent rows."
            + check.see("spiked", "Cases not covered")
        )
