"""Ridge readouts of a model: at one point, along a curve, at the best penalty, on rules as fine as they need."""

import math
from dataclasses import fields

import numpy as np

from ..._base import check
from ..._base.search import minimum
from . import blocks, ridge
from .solutions import OptimalLam, Readout, SpikedCurve, SpikedSolution

LEVELS = 9  # rules over k, each about twice as fine as the one before
RESOLVED = 1e-10  # relative change of V1, V2 by the next finer rule over k that is allowed
DECADES = np.arange(-9.0, 9.01)  # of lam, relative to the bulk's variance, in the search for its optimum


class Levels:
    """Tables and features on finer and finer rules over k, made when a sharp fixed point asks for them."""

    def __init__(self, table):
        self.tables, self.features = [table], [ridge.Features(table)]

    def __getitem__(self, n):
        while len(self.features) <= n:
            self.tables.append(self.tables[0].refined(len(self.tables)))
            self.features.append(ridge.Features(self.tables[-1]))
        return self.features[n]


def response(model, lam):
    """How the resolvent of the model's rows answers to the data."""
    c, fractions = np.atleast_1d(model.c), np.ones(1) if model.fractions is None else model.fractions
    if model.bulk is not None:
        return blocks.given_rows(c, model.beta, lam, model.bulk, fractions)
    if np.ndim(model.r) == 0 and model.rows == "iid":
        return ridge.marchenko_pastur(model.c, model.beta, lam)
    rows = blocks.iid_rows if model.rows == "iid" else blocks.orthonormal_rows
    found = rows(c, model.beta, lam, fractions)
    return found if np.ndim(model.r) < 2 else blocks.along(found, model.r.shape[1])


def fit(model, alpha, lam, d, start=None, iterations=100):
    """The fixed point; den(k) = 1/(1 + V(k)) may be far sharper than the tables, seldom more than one round."""
    kappa, rows, levels = alpha / model.beta, response(model, lam), model._levels
    options = {"lam": lam, "kappa": kappa, "beta": model.beta, "noise": model.noise, "bias": model.bias, "d": d}
    misfit = math.nan
    for n in range(LEVELS // rank(model)):
        found = ridge.fit(levels[n], rows, **options, start=start, iterations=iterations)
        if not found.converged:
            return found
        start, misfit = found.v, ridge.misfit(levels[n + 1], rows, kappa, found.v)
        if misfit <= RESOLVED:
            return found
    return ridge.failed(levels[0].packing, misfit, found.iterations)


def rank(model):
    """Directions of the spikes."""
    return model.r.shape[1] if np.ndim(model.r) == 2 else 1


def parts(model, m, theta, psi, v, q) -> tuple:
    """Order parameters m, theta, psi, q1, q2, V1, V2 of a fit: numbers for one block."""
    packing = model._levels[0].packing
    (V1, V2), (q1, q2) = packing.unpack(v), packing.unpack(q)
    if np.ndim(model.r) == 2:
        theta, psi = theta.reshape(packing.B, -1), psi.reshape(packing.B, -1)
    several = m, theta, psi, q1, q2, V1, V2
    return tuple(float(x.item()) for x in several) if np.ndim(model.r) == 0 else several


def described(model, alpha, lam, d, found):
    """A fit as the record that users hold."""
    order = parts(model, found.m, found.theta, found.psi, found.v, found.q)
    end: tuple = found.b0, found.converged, found.residual, found.iterations
    return SpikedSolution(model, alpha, lam, d, found.mse, found.train, *order, *end)


def curve(model, alphas, lam, d):
    """Solutions at several sample sizes, each started from the one before."""
    alphas = check.array("alphas", alphas, ("n",))
    lams = check.array("lam", lam, alphas.shape if np.ndim(lam) else ())
    lams = np.broadcast_to(lams, alphas.shape)
    if alphas.size == 0:
        raise ValueError("alphas is empty; expected at least one value n/d > 0.")
    d = dimension(model, d)
    start, points = None, []
    for alpha, one in zip(alphas.tolist(), lams.tolist(), strict=True):
        found = fit(model, positive_alpha(alpha), positive_lam(one), d, start)
        if not found.converged and start is not None:
            found = fit(model, alpha, one, d)
        start = found.v if found.converged else None
        points.append(described(model, alpha, one, d, found))
    stacked = {x.name: np.array([getattr(point, x.name) for point in points]) for x in fields(Readout)[1:]}
    return SpikedCurve(model, **stacked)


def optimal_lam(model, alpha, d):
    """Ridge penalty of least test error: a scan over decades, then the best stretch by SciPy."""
    alpha, d = positive_alpha(alpha), dimension(model, d)
    table = model._levels[0]
    variance = np.sum(table.S[table.packing.positive] @ table.weight)  # of what fluctuates given k
    logs = DECADES * math.log(10) + math.log(max(variance, 1e-300))

    near = None

    def error(log_lam):
        nonlocal near
        found = fit(model, alpha, math.exp(log_lam), d, near)
        if not found.converged and near is not None:
            found = fit(model, alpha, math.exp(log_lam), d)
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
    blocks.neurons(model, d)
    return float(d)


def positive_alpha(alpha):
    """The checked sample size n/d."""
    return check.number("alpha", alpha, above=0, hint="alpha is the number of readout samples over d, n/d.")


def positive_lam(lam):
    """The checked ridge penalty."""
    return check.number("lam", lam, above=0, hint="lam is the ridge penalty of sum (y - yhat)^2 + lam |a|^2; try 1e-8.")
