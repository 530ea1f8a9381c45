"""Ridge readouts of a model: at one point, along a curve, at the best penalty, on rules as fine as they need."""

import math
from dataclasses import fields

import numpy as np

from ..._base import check
from ..._base.search import minimum
from ..._base.types import ArrayLike
from . import ridge
from .model import Spiked
from .solutions import OptimalLam, SpikedCurve, SpikedSolution

LEVELS = 9  # rules over k, each about twice as fine as the one before
RESOLVED = 1e-10  # if the next finer rule over k changes V1, V2 by more, it is used
DECADES = np.arange(-9.0, 9.01)  # log10 of lam over the bulk's variance, scanned for the optimum


def resolved(model: Spiked, alpha, lam, d, start=None, iterations=100):
    """The fixed point; den(k) = 1/(1 + V(k)) may be far sharper than the tables, seldom more than one round."""
    kappa, rows, levels = alpha / model.beta, model.response(lam), model._levels
    options = {"lam": lam, "kappa": kappa, "beta": model.beta, "noise": model.noise, "bias": model.bias, "d": d}
    misfit = math.nan
    for n in range(LEVELS // model.spikes.shape[1]):
        found = ridge.fit(levels[n], rows, **options, start=start, iterations=iterations)
        if not found.converged:
            return found
        start, misfit = found.v, ridge.misfit(levels[n + 1], rows, kappa, found.v)
        if misfit <= RESOLVED:
            return found
    return ridge.failed(levels[0].packing, misfit, found.iterations)


def parts(model, fit):
    """Order parameters and bias of a fit, by name: numbers for one block."""
    packing = model._levels[0].packing
    (V1, V2), (q1, q2) = packing.unpack(fit.v), packing.unpack(fit.q)
    theta, psi = fit.theta, fit.psi
    if np.ndim(model.r) == 2:
        theta, psi = theta.reshape(packing.B, -1), psi.reshape(packing.B, -1)
    order = {"m": fit.m, "theta": theta, "psi": psi, "q1": q1, "q2": q2, "V1": V1, "V2": V2}
    if np.ndim(model.r) == 0:
        order = {name: float(x.item()) for name, x in order.items()}
    ended = {"b0": fit.b0, "converged": fit.converged, "residual": fit.residual, "iterations": fit.iterations}
    return order | ended


def described(model, alpha, lam, d, found):
    """A fit as the record that users hold."""
    return SpikedSolution(model, alpha, lam, d, mse=found.mse, train=found.train, **parts(model, found))


def curve(model, alphas, lam, d):
    """Solutions at several sample sizes, each started from the one before."""
    alphas = check.array("alphas", alphas, ("n",), "At least one value n/d > 0.", filled=True)
    lams = check.array("lam", lam, alphas.shape if check.axes("lam", lam) else ())
    lams = np.broadcast_to(lams, alphas.shape)
    d = dimension(model, d)
    start, points = None, []
    for alpha, one in zip(alphas.tolist(), lams.tolist(), strict=True):
        found = resolved(model, positive_alpha(alpha), positive_lam(one), d, start)
        if not found.converged and start is not None:
            found = resolved(model, alpha, one, d)
        start = found.v if found.converged else None
        points.append(described(model, alpha, one, d, found))
    stacked = {x.name: np.array([getattr(point, x.name) for point in points]) for x in fields(SpikedCurve)[1:]}
    return SpikedCurve(model, **stacked)


def optimal_lam(model, alpha, d):
    """Ridge penalty of least test error: a scan over decades, then the best stretch by SciPy."""
    alpha, d = positive_alpha(alpha), dimension(model, d)
    table = model._levels[0]
    variance = np.sum(table.S[table.packing.positive] @ table.weight)  # fluctuations given k
    logs = DECADES * math.log(10) + math.log(max(variance, 1e-300))

    near: np.ndarray | None = None

    def error(log_lam):
        nonlocal near
        found = resolved(model, alpha, math.exp(log_lam), d, near)
        if not found.converged and near is not None:
            found = resolved(model, alpha, math.exp(log_lam), d)
        near = found.v if found.converged else None
        return found.mse if math.isfinite(found.mse) else math.inf

    log_lam, mse, best = minimum(error, logs, xatol=1e-7, ends=False)
    if math.isinf(d):
        what, limit = "mu0 alone", ridge.strong_ridge(table, model.noise, model.bias)
    else:
        mean = table.weight @ table.h if model.bias else 0.0
        what, limit = "nothing", float(table.weight @ table.hh - mean**2 + model.noise**2)
    rounding = 1e-9 * limit + 1e-10 * (table.weight @ table.hh)
    if best == len(logs) - 1 or mse >= limit - rounding:
        message = f"no finite lam is better than lam -> infinity, where {what} is fitted"
        return OptimalLam(math.inf, limit, message)
    message = "minimum at a finite lam" if best else "lam -> 0 is best: this is the least lam searched"
    return OptimalLam(math.exp(log_lam), mse, message)


def dimension(model, d):
    """The checked input dimension: every block has a neuron."""
    model.neurons(d)
    return float(d)


def positive_alpha(alpha):
    """The checked sample size n/d."""
    return check.number("alpha", alpha, above=0, hint="alpha is the number of readout samples over d, n/d.")


def positive_lam(lam):
    """The checked ridge penalty."""
    return check.number("lam", lam, above=0, hint="lam is the ridge penalty of sum (y - yhat)^2 + lam |a|^2; try 1e-8.")


class Solvable(Spiked):
    """A model with readouts along a curve and at the best penalty, whatever the directions of its spikes."""

    def curve(self, alphas: ArrayLike, lam: ArrayLike, d: float = math.inf) -> SpikedCurve:
        """Solutions at several sample sizes, each started from the one before.

        Parameters
        ----------
        alphas : array_like, shape (n,)
            Samples, n/d > 0.
        lam : float or array_like, shape (n,)
            Ridge penalty > 0, common or one for each point.
        d : float
            Input dimension, as in ``solve``.

        Raises
        ------
        ValueError
            alphas or lam that are not positive, or of different lengths.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> model.curve([0.5, 1.0, 2.0], lam=0.1).mse.round(6).tolist()
        [0.096505, 0.083744, 0.068]
        """
        return curve(self, alphas, lam, d)

    def optimal_lam(self, alpha: float, d: float = math.inf) -> OptimalLam:
        """Ridge penalty of least test error, *asymptotic* as the solution: the best of 18 decades, refined by SciPy.

        Parameters
        ----------
        alpha : float
            Samples, n/d > 0.
        d : float
            Input dimension, as in ``solve``.

        Returns
        -------
        OptimalLam
            ``lam`` is infinite where no finite penalty beats the limit: there the readout uses the mean activation
            mu0 alone, and ``mse`` is the upper bound of Cui et al., eq. (26); at finite d it uses nothing.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, beta=1.0)
        >>> best = model.optimal_lam(2.0)
        >>> bool(best.mse < model.solve(alpha=2.0, lam=0.1).mse)
        True
        """
        return optimal_lam(self, alpha, d)
