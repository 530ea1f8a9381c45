r"""Readouts trained with a convex loss on labels y = sign(target): the proximal fixed point.

The prediction for a sample by a readout trained without it is Gaussian given k, z0 = C + mu1 psi s + ..., of variance
S . (w q); s is the component of the target's input orthogonal to the spike. With the sample, the prediction is
z = argmin (z - z0)^2 / (2V) + l(y, z), V = S . (w v). The force on the readout is g = (z - z0) / V = -l'(y, z), and

    Vh = kappa E[S (1 - dz/dz0) / V],   qh = kappa E[S g^2],   thh = kappa E[u g],
    psih = kappa E[mu1 s g] + Vh1 psi,   E[mu0 g] = 0,

(118), (119), (120) of Cui et al. (2024), arXiv:2402.04980. The response of the rows is that to the square loss, where
g = (y - z0) / (1 + V): v = response(Vh); q, theta and psi = beta V1 psih follow from the same derivatives (ridge.py).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import root

from ..._base import check
from ...gaussian.quadrature import RANGE, panels
from . import ridge, solving
from .losses import CLASSIFIER_ERRORS, LOSSES
from .solutions import SpikedClassifier


class ClassifierOptions(NamedTuple):
    """Tunable numbers of the proximal fixed point."""

    # Gauss-Legendre panels into which each smooth interval of z0 is divided.
    panels: int = 2
    # Residual of an equation, relative to its terms, above which there is no solution.
    residual_tol: float = 1e-9
    # Residual on quadratures twice as fine above which these are used.
    resolution_tol: float = 1e-7
    # Number of quadratures, each twice as fine as the one before.
    max_levels: int = 5
    # Rounds of damped iterations, each ending early if the residual is below powell_residual.
    rounds: int = 10
    iterations: int = 25
    # First damping and its ratio from round to round. Smaller values converge from more starts, but more slowly.
    damping: float = 0.6
    damping_ratio: float = 0.7
    # Longer steps, in the largest component, are shortened to this length.
    max_step: float = 3.0
    # After a round with a residual below this, Powell's method is tried.
    max_powell_residual: float = 0.3
    # Below this residual Powell's method starts at once.
    powell_residual: float = 1e-2


CLASSIFIER = ClassifierOptions()


class Conditions:
    """The equations at one point: features on a grid over k, rows, loss, labels, sizes."""

    def __init__(self, features, k, gamma, response, loss, labels, kappa, beta, bias, d):
        self.features, self.k, self.gamma = features, k, gamma
        self.rho = math.sqrt((1 - gamma) * (1 + gamma))
        self.response, self.loss, self.labels = response, loss, labels
        self.kappa, self.beta, self.bias, self.d = kappa, beta, bias, d
        self.packing = features.packing
        at_zero = response(np.zeros(self.packing.w.size))
        self.free, self.u, _, _ = ridge.costs(features, at_zero, bias, beta, d)
        self.sizes = np.cumsum([self.packing.w.size] * 2 + [len(self.free), len(self.u)])

    def split(self, x):
        """The unknowns v, q, coefficients of the free functions, theta, psi of the vector x."""
        v, q, free, theta, psi = np.split(x, self.sizes)
        return self.packing.values(v), self.packing.values(q), free, theta, psi

    def join(self, v, q, free, theta, psi):
        """The vector of these unknowns."""
        return np.concatenate([self.packing.coordinates(v), self.packing.coordinates(q), free, theta, psi])

    def samples(self, unknowns, n_panels=CLASSIFIER.panels):
        """Margins m0 without and m with a sample, stiffness and force, given y and k (2, n, nodes), and weights."""
        v, q, free, theta, psi = unknowns
        f, packing = self.features, self.packing
        V = ((packing.w * v) @ f.S)[:, None]
        spread = np.sqrt(np.maximum((packing.w * q) @ f.S, 1e-300))
        mean = free @ self.free + theta @ self.u
        correlation = np.clip(psi @ f.mu1 / spread, -1.0, 1.0)
        rest = np.sqrt((1 - correlation) * (1 + correlation))
        ys = np.array([1.0, -1.0])[:, None]
        center = (ys * mean)[..., None]
        kinks = [np.broadcast_to(x, V.shape) for x in (np.zeros_like(V), *self.loss.kinks(V))]
        inner = np.sort(np.clip((np.concatenate(kinks, axis=1) - center) / spread[:, None], -RANGE, RANGE), axis=2)
        ends = np.full((*center.shape[:2], 1), RANGE)
        edges = np.concatenate([-ends, inner, ends], axis=2)
        x, weight = (a.reshape(2, f.weight.size, -1) for a in panels(edges.reshape(-1, edges.shape[2]), n_panels))
        m0 = center + spread[:, None] * x
        m, stiffness = self.loss.proximal(m0, V)
        mean_s = correlation[:, None] * (ys[..., None] * x)
        label, linear = self.labels.averages(self.gamma * self.k[:, None] + self.rho * mean_s, self.rho * rest[:, None])
        probability = (1 + ys[..., None] * label) / 2
        s = mean_s * probability + rest[:, None] * ys[..., None] * linear / 2  # E[s 1(y)]
        return m0, m, stiffness, (m - m0) / V * ys[..., None], weight, probability, s

    def __call__(self, x, n_panels=CLASSIFIER.panels):
        """Left minus right sides of all equations."""
        v, q, free, theta, psi = unknowns = self.split(x)
        f, packing, kappa = self.features, self.packing, self.kappa
        _, _, stiffness, g, weight, probability, s = self.samples(unknowns, n_panels)

        def given_k(values):
            return f.weight * np.einsum("yki,yki->k", weight, values)

        curvature, force = given_k(probability * stiffness), given_k(probability * g)
        Vh, qh = kappa * f.S @ curvature, kappa * f.S @ given_k(probability * g * g)
        rows = self.response(Vh)
        _, u, T_all, dT = ridge.costs(f, rows, self.bias, self.beta, self.d)
        T, T_psi = T_all[: len(u), : len(u)], T_all[len(u) :, len(u) :]
        hessian = kappa * (self.u * curvature) @ self.u.T
        gap = np.linalg.solve(np.eye(len(T)) + T @ hessian, theta - kappa * T @ (self.u @ force))
        thh = np.linalg.solve(T, theta)
        psih = kappa * f.mu1 @ given_k(s * g) + packing.unpack(Vh)[0] @ psi
        fields = np.concatenate([thh, psih])
        norms = -np.einsum("b,jbc,c->j", fields, dT, fields) / packing.w - rows.D @ qh
        return np.concatenate([
            packing.coordinates(v) - packing.coordinates(rows.v),
            packing.coordinates(q) - packing.coordinates(norms),
            -np.linalg.lstsq((self.free * curvature) @ self.free.T, self.free @ force, rcond=1e-13)[0],
            gap,
            psi - T_psi @ psih,
        ])  # fmt: skip

    def separated(self, loss):
        """Whether mu0 of a block separates the labels; its coefficient has no cost and diverges as d -> infinity."""
        if loss == "square" or self.rho > 0 or not math.isinf(self.d):
            return False
        signs = np.sign(self.features.h * self.features.mu0[self.features.spiked])
        return bool(np.any(np.all(signs >= 0, axis=1) | np.all(signs <= 0, axis=1)))

    def start(self, lam, noise=0.0):
        """Unknowns of ridge regression on the labels."""
        options = {"lam": lam, "kappa": self.kappa, "beta": self.beta, "noise": noise, "bias": self.bias}
        fit = ridge.fit(self.features, self.response, **options, d=self.d)
        free, theta = np.append(fit.m[self.features.spiked], [fit.b0] * self.bias), fit.theta
        if len(self.u) > len(theta):
            free, theta = np.full(int(self.bias), fit.b0), np.concatenate([fit.m, theta])
        return self.join(fit.v, fit.q, free, theta, fit.psi)

    def results(self, x, model, residual, count):
        """Errors, losses and order parameters at a solution, by name."""
        v, q, free, theta, psi = unknowns = self.split(x)
        m0, m, _, _, weight, probability, _ = self.samples(unknowns)

        def mean(values):
            return float(np.einsum("k,yki,yki,yki->", self.features.weight, weight, probability, values))

        errors = mean(m0 < 0), mean(m < 0), mean(self.loss.value(m0)), mean(self.loss.value(m))
        means, theta, b0 = ridge.by_blocks(self.features, free, theta, self.bias)
        fit = ridge.RidgeFit(math.nan, math.nan, means, theta, psi, b0, v, q, True, residual, count)
        return dict(zip(CLASSIFIER_ERRORS, errors, strict=True)) | solving.order_parameters(model, fit)


def solve_from(problem, x, options=CLASSIFIER):
    """A solution found from x, its largest residual, and the number of evaluations of the equations.

    Damped iteration approached the solution from all starts that were tried; Powell's method then converges.
    """
    damping, count, size = options.damping, 0, math.inf
    for _ in range(options.rounds):
        for _ in range(options.iterations):
            F, count = problem(x), count + 1
            size = float(np.max(np.abs(F)))
            if not math.isfinite(size):
                return x, math.nan, count
            step = damping * F
            x = x - step * min(1.0, options.max_step / max(np.max(np.abs(step)), 1e-300))
            if size < options.powell_residual:
                break
        if size < options.max_powell_residual:
            end = root(problem, x, options={"xtol": 1e-13, "maxfev": 80})
            count += end.nfev
            size = float(np.max(np.abs(end.fun)))
            if size < options.residual_tol:
                return end.x, size, count
        damping *= options.damping_ratio
    return x, size, count


def classify(model, alpha, lam, d, loss):
    """The result of a readout trained with this loss on labels sign(target)."""
    check.choice("loss", loss, LOSSES, "Convex losses of the margin; without loss= it is ridge regression.")
    if model.noise:
        raise ValueError(
            f"noise = {check.shown(model.noise)} with loss={loss!r}; expected 0: the labels are the signs of the "
            "target, and noise in front of the sign is not part of the theory."
            + check.see("spiked", "Cases not covered")
        )
    labels, levels = model._labelled
    kappa, rows, x = alpha / model.beta, model.response(lam), None
    options = model.gamma, rows, LOSSES[loss], labels, kappa, model.beta, model.bias, d

    def problem(n):
        return Conditions(levels[n], levels.tables[n].k, *options)

    count = 0
    with np.errstate(all="ignore"):
        equations = problem(0)
        x, residual = equations.start(lam), math.nan
        for n in range(0 if equations.separated(loss) else CLASSIFIER.max_levels):
            x, residual, evaluations = solve_from(equations, x)
            count += evaluations
            if not residual < CLASSIFIER.residual_tol:
                break
            finer = problem(n + 1)
            if np.max(np.abs(finer(x, 2 * CLASSIFIER.panels))) < CLASSIFIER.resolution_tol:
                return SpikedClassifier(model, alpha, lam, d, **equations.results(x, model, residual, count), loss=loss)
            equations = finer
    message = f"no solution found: the equations hold to {residual:.2g}"
    if equations.separated(loss):
        message = "the mean activation mu0 separates the labels: no finite m as d -> infinity. Give a finite d."
    failure = ridge.failed(equations.packing, residual, count)
    nan_results = dict.fromkeys(CLASSIFIER_ERRORS, math.nan) | solving.order_parameters(model, failure)
    return SpikedClassifier(model, alpha, lam, d, **nan_results, loss=loss, message=message)
