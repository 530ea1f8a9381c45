"""Corrections to spiked random features: neuron-dependent features of size 1/sqrt(d), and Gaussian rows."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._base import check
from ...gaussian.quadrature import gauss_hermite, piecewise
from . import ridge as _ridge
from .averages import QUADRATURE
from .draws import derivative_of
from .features import SpikedRandomFeatures
from .solving import positive_alpha, positive_lam

__all__ = ["CorrectedPoint", "finite_batch_network", "gaussian_rows", "large_batch_network", "row_covariance"]


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
    changes by -12 to +4 % over tau = 1 to 6, alpha = 0.5 to 10, lam = 0.01 to 1. At finite alpha0:
    :func:`finite_batch_network`.

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
    kap = 2 * _third(model) * abs(model.step.h1_star) * model.step.tau
    if model.c != 1:
        raise ValueError(
            f"model = {check.shown(model)} has c = {model.c:.6g}, a step on finitely many samples; expected "
            "alpha0=math.inf. finite_batch_network solves for the network at finite alpha0."
            + check.see("spiked", "The network after a step on finitely many samples")
        )
    return dataclasses.replace(model, kap=kap)


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
    return _enlarged(model, alpha, lam, d, correlated_rows(model, lam, K))


def correlated_rows(model, lam, K):
    """Response of rows with the two features k mu1 and E[sigma'']/2, whose directions have the covariance K/d."""
    rows = _ridge.marchenko_pastur(model.c, model.beta, lam)

    def response(Vh):  # theta = beta V2 K thh in place of beta V2 c thh
        unit = rows(Vh)
        return unit._replace(T=unit.T * K / model.c, dT=unit.dT * K / model.c)

    return response


def finite_batch_network(
    model: SpikedRandomFeatures, *, alpha: float, lam: float, d: float = math.inf
) -> "CorrectedPoint":
    r"""The network after one step on finitely many samples, with the corrections to spiked random features.

    The covariance of the bulk of its rows, on the side of the inputs, depends on the samples of the step,

    .. math:: \frac{\Sigma}{d}, \qquad \Sigma = 1 + \frac{\tau^2 {\rm Var}[\sigma']}{\alpha_0}\,
              \frac{1}{n_0} \sum_{\mu \le n_0} y_\mu^2\, x_\mu x_\mu^\top,

    and the spike depends on the same samples. With :math:`N = (1 + x\Sigma)^{-1}` and :math:`x = \beta g \hat V_1`
    the response of the rows to the data is

    .. math:: V_2 = g = \frac{1}{\lambda + \hat V_2 + \hat V_1 {\rm tr}\,\Sigma N/d}, \qquad
              V_1 = g\, {\rm tr}\,\Sigma N/d, \qquad T = \beta g\, \Sigma N

    between the directions of the spike (without the penalty of V1 on itself) and of the target's component orthogonal
    to it; the covariance correlates the two. The norms of the rows are one more feature, as in
    :func:`large_batch_network`. *Asymptotic*, derived here; confirmed by simulation and not proved. Correlations of the
    norms with the samples through the third moment of sigma' - E[sigma'] are left out; their effect is smaller than
    that of the norms themselves. As alpha0 -> infinity it becomes :func:`large_batch_network`. Traces and elements of N
    follow from leave-one-out equations, which are averages over one label.

    Parameters
    ----------
    model : SpikedRandomFeatures
        Made by :meth:`SpikedRandomFeatures.after_one_step`.
    alpha, lam, d : float
        Samples n/d, ridge penalty, input dimension (as in :meth:`SpikedRandomFeatures.solve`).

    Raises
    ------
    ValueError
        Another model, several blocks, alpha, lam or d out of range.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=0.5, beta=1)
    >>> found = ov.static.finite_batch_network(model, alpha=2.0, lam=0.1)
    >>> round(found.mse, 4), round(found.change, 4)
    (0.2731, 0.0242)
    """
    return _enlarged(model, alpha, lam, d, StepRows(model, lam))


class StepRows:
    """Response of the rows after one step on n0 samples, between v, the norms, and the target orthogonal to v.

    S = (1/n0) sum y^2 x x^T enters by N = (1 + x Sigma)^{-1}, Sigma = 1 + k0 S. Leave-one-out, with b = 1/alpha0 and
    w(y) = 1 / (1 + b k0 x n y^2),

        n = tr N / d = 1 / (1 + x (1 + k0 E[y^2 w])),            theta.N theta = 1 / (1 + x (1 + k0 E[y^2 z^2 w])),
        theta.N v = theta.N theta E[y z w] / A,                 v.N v = (b n E[y^2 w] + theta.N theta E[y z w]^2) / A^2.

    The code computes (1 - N) / x, without cancellation, and derivatives by a step into the complex plane.
    """

    def __init__(self, model, lam):
        h3, step = _third(model), model.step
        self.beta, self.lam, self.gamma = model.beta, lam, model.gamma
        self.A, self.b, self.y, self.z, self.weight = _labels(model)
        self.h1, self.k0 = step.h1_star, step.tau**2 * step.vs * self.b
        self.kap = 2 * step.tau * self.A * h3
        self.rest = row_covariance(model)[1, 1] - self.kap**2  # norms, uncorrelated with the spike

    def gap(self, n, Vh):
        """A function that increases with n and is zero at n = tr N / d, followed by g, x and the weights w."""
        g = (self.beta - 1 + n) / (self.beta * (self.lam + Vh[1]))
        x = self.beta * Vh[0] * g
        w = self.weight / (1 + self.b * self.k0 * x * n * self.y**2)
        return n * (1 + x * (1 + self.k0 * (w @ self.y**2))) - 1, g, x, w

    def response_at(self, n, Vh):
        """(V1, V2) and T at this n."""
        _, g, x, w = self.gap(n, Vh)
        y, z, b, k0, A, gamma = self.y, self.z, self.b, self.k0, self.A, self.gamma
        a, e = b * k0 * n, w @ (y * z)
        trace = n * (1 + k0 * (w @ y**2))
        at_zero = 1 + k0 * (w @ (y * z) ** 2)
        theta = at_zero / (1 + x * at_zero)
        less = a * (w @ (y**3 * z))
        vv = (b * (a * (w @ y**4) + trace * (w @ y**2)) + less * (self.h1 + e) + theta * e * e) / A**2
        vt, rho = (less + theta * e) / A, math.sqrt(max(1 - gamma**2, 0.0))
        vz, zz = (((vt - gamma * vv) / rho, (theta - 2 * gamma * vt + gamma**2 * vv) / rho**2) if rho > 1e-7
                  else (0.0, trace))  # fmt: skip
        Nvv, Nvz, kap = 1 - x * vv, -x * vz, self.kap
        norm = kap**2 * (1 - x * Nvv) + self.rest
        T = self.beta * g * np.array([[vv, kap * Nvv, vz], [kap * Nvv, norm, kap * Nvz], [vz, kap * Nvz, zz]])
        return np.array([g * trace, g]), T + Vh[0] * np.outer(T[0], T[0]) / Nvv

    def __call__(self, Vh):
        lowest, tiny = max(0.0, 1 - self.beta), 1e-30
        n = brentq(lambda n: self.gap(n, Vh)[0], lowest, 1.0, xtol=1e-15, rtol=1e-15) if Vh[0] > 0 else 1.0
        slope = self.gap(n + 1j * tiny, Vh)[0].imag / tiny
        perturbed = []
        for j in range(2):
            Vh_j = Vh + 1j * tiny * (np.arange(2) == j)
            perturbed.append(self.response_at(n - 1j * self.gap(n, Vh_j)[0].imag / slope, Vh_j))
        D, dT = (np.array(x).imag / tiny for x in zip(*perturbed, strict=True))
        v, T = self.response_at(n, Vh)
        return _ridge.Response(v, D.T, T, dT)


def row_covariance(model):
    r"""Covariance, times d, of b_i and dc_i: projections of the rows on the spike, squared norms of their bulk.

    .. math::
        K_{bb} &= 1 + \frac{c-1}{h_2^*} E\Big[y^2 \Big(k + \frac{y}{\alpha_0 A}\Big)^2\Big], \qquad
        K_{bc} = \kappa + \frac{\tau^3}{\alpha_0^2} E[s^3]\, E\Big[y^3 \Big(k + \frac{y}{\alpha_0 A}\Big)\Big], \\
        K_{cc} &= \kappa^2 + \frac{4\tau^2 h_2^*}{\alpha_0} (E[s^2 z^2] - h_3^2)
                + \tau^4 \Big(\frac{E[y^4]}{\alpha_0^3} {\rm Var}\, s^2 + \frac{2 h_2^{*2}}{\alpha_0^2} E[s^2]^2\Big),
        \qquad s = \sigma'(z) - h_1, \ h_3 = E[s z^2], \ \kappa = 2\tau A h_3

    k is the projection of a fresh input; an input of the step itself has a projection larger by y/(alpha0 A).
    *Asymptotic*, d -> infinity. Spiked random features have K_bb = c and K_bc = K_cc = 0.

    Parameters
    ----------
    model : SpikedRandomFeatures
        Made by :meth:`SpikedRandomFeatures.after_one_step`, one block.

    Returns
    -------
    ndarray, shape (2, 2)
    """
    h3 = _third(model)
    step, c, gamma = model.step, model.c, model.gamma
    A, batch, y, z, weight = _labels(model)
    square, cubic, fourth = weight @ (y * z) ** 2, weight @ (y**3 * z), weight @ y**4
    h2 = gamma**2 * square + (1 - gamma**2) * step.h2_star + 2 * gamma * cubic * batch / A + fourth * (batch / A) ** 2
    z, weight = piecewise(model.student_breakpoints, QUADRATURE.step / 8)
    s = derivative_of(model.student)(z) - step.h1
    kap, tau = 2 * step.tau * A * h3, step.tau
    norms = kap**2 + 4 * tau**2 * step.h2_star * batch * (weight @ (s * z) ** 2 - h3**2)
    norms += tau**4 * batch**2 * (fourth * batch * (weight @ s**4 - step.vs**2) + 2 * (step.h2_star * step.vs) ** 2)
    both = kap + tau**3 * batch**2 * (weight @ s**3) * (gamma * cubic + fourth * batch / A)
    return np.array([[1 + (c - 1) * h2 / step.h2_star, both], [both, norms]])


def _labels(model):
    """A, 1/alpha0, and a quadrature over the noisy labels of the step: labels y, fields z along the target, weights."""
    step = model.step
    A = step.r / (step.tau * step.h1)
    z, weight = piecewise(model.breakpoints, QUADRATURE.step / 8)
    y = np.asarray(model.target(z), dtype=float)
    noise = math.sqrt(max(step.h2_star - weight @ y**2, 0.0))
    xi, p = gauss_hermite(24) if noise > 1e-9 else (np.zeros(1), np.ones(1))
    y, z, weight = np.add.outer(y, noise * xi).ravel(), np.repeat(z, xi.size), np.outer(weight, p).ravel()
    return A, (A**2 - step.h1_star**2) / step.h2_star, y, z, weight


def _single_block(model):
    supported = isinstance(model, SpikedRandomFeatures) and model.rows == "iid" and model.bulk is None
    if not supported or np.ndim(model.r) > 0:
        raise ValueError(
            f"model = {check.shown(model)}; expected a SpikedRandomFeatures of one block with independent rows."
            + check.see("spiked", "Cases not covered")
        )


def _third(model):
    """Mean third derivative of the student, E[He_3 sigma]."""
    _single_block(model)
    if model.step is None or model.r == 0:
        raise ValueError(
            f"model = {check.shown(model)} comes from no step; make it with SpikedRandomFeatures.after_one_step."
        )
    z, weight = piecewise(model.student_breakpoints, QUADRATURE.step / 8)
    return float(weight @ (model.student(z) * (z**3 - 3 * z)))


def _enlarged(model, alpha, lam, d, response):
    """Solution with the two functions k mu1 and E[sigma'']/2."""
    alpha, lam = positive_alpha(alpha), positive_lam(lam)
    unit = dataclasses.replace(model, kap=1.0).coefficients
    features = _ridge.Features(unit)
    linear = unit.k * unit.mu1
    features.u = np.array([linear, unit.u - linear])
    options = {"lam": lam, "kappa": alpha / model.beta, "beta": model.beta, "noise": model.noise, "bias": model.bias}
    base = model.solve(alpha=alpha, lam=lam, d=d)
    fit = _ridge.fit(features, response, **options, d=d)
    return CorrectedPoint(fit.mse, fit.train, fit.mse - base.mse, fit.train - base.train, tuple(fit.theta.tolist()))
