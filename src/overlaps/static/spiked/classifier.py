r"""Readouts trained with a convex loss on labels y = sign(target): the proximal fixed point.

Without a sample its prediction is Gaussian given k, z0 = C + mu1 psi s + ..., of variance S . (w q), s the part of the
target's input orthogonal to the spike. With it, z = argmin (z - z0)^2 / (2V) + l(y, z), V = S . (w v): the force on the
readout is g = (z - z0) / V = -l'(y, z), and

    Vh = kappa E[S (1 - dz/dz0) / V],   qh = kappa E[S g^2],   thh = kappa E[u g],
    psih = kappa E[mu1 s g] + Vh1 psi,   E[mu0 g] = 0,

(118), (119), (120) of Cui et al. (2024), arXiv:2402.04980. The rows answer as they do to the square loss, of which
g = (y - z0) / (1 + V): v = response(Vh), q, theta and psi = beta V1 psih by the same derivatives (ridge.py).
"""

import math

import numpy as np
from scipy.optimize import root

from ..._base import check
from ...gaussian.quadrature import RANGE, panels
from . import ridge, solving
from .losses import LOSSES
from .solutions import SpikedClassifier

PARTS = 2  # each panel in z0 is cut into these
ACCEPTED = 1e-9  # if an equation is violated by more of its terms, there is no solution
RESOLVED = 1e-7  # if rules twice as fine violate one by more, they are used
LEVELS = 5
ROUNDS, STEPS, DAMPING = 10, 25, 0.6  # damped steps; after each round of them Powell's method takes over once near
LONGEST, NEAR, CLOSE = 3.0, 0.3, 1e-2  # longer steps are cut; below NEAR Powell's method starts, below CLOSE at once
ERRORS = "wrong", "train_wrong", "test_loss", "train_loss"


class Conditions:
    """The equations at one point: features on a rule over k, rows, loss, labels, sizes."""

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

    def samples(self, unknowns, parts=PARTS):
        """Margins m0 without and m with a sample, given y and k (2, n, nodes), with what weighs them."""
        v, q, free, theta, psi = unknowns
        f, packing = self.features, self.packing
        V = ((packing.w * v) @ f.S)[:, None]
        spread = np.sqrt(np.maximum((packing.w * q) @ f.S, 1e-300))
        mean = free @ self.free + theta @ self.u
        correlation = np.clip(psi @ f.mu1 / spread, -1.0, 1.0)
        rest = np.sqrt((1 - correlation) * (1 + correlation))
        ys = np.array([1.0, -1.0])[:, None]
        center = (ys * mean)[..., None]
        bends = [np.broadcast_to(x, V.shape) for x in (np.zeros_like(V), *self.loss.kinks(V))]
        places = np.sort(np.clip((np.concatenate(bends, axis=1) - center) / spread[:, None], -RANGE, RANGE), axis=2)
        ends = np.full((*center.shape[:2], 1), RANGE)
        edges = np.concatenate([-ends, places, ends], axis=2)
        x, weight = (a.reshape(2, f.weight.size, -1) for a in panels(edges.reshape(-1, edges.shape[2]), parts))
        m0 = center + spread[:, None] * x
        m, stiff = self.loss.proximal(m0, V)
        place = correlation[:, None] * (ys[..., None] * x)
        label, linear = self.labels.averages(self.gamma * self.k[:, None] + self.rho * place, self.rho * rest[:, None])
        chance = (1 + ys[..., None] * label) / 2
        s = place * chance + rest[:, None] * ys[..., None] * linear / 2  # E[s 1(y)]
        return m0, m, stiff, (m - m0) / V * ys[..., None], weight, chance, s

    def __call__(self, x, parts=PARTS):
        """Left minus right sides of all equations."""
        v, q, free, theta, psi = unknowns = self.split(x)
        f, packing, kappa = self.features, self.packing, self.kappa
        _, _, stiff, g, weight, chance, s = self.samples(unknowns, parts)

        def given_k(values):
            return f.weight * np.einsum("yki,yki->k", weight, values)

        curvature, force = given_k(chance * stiff), given_k(chance * g)
        Vh, qh = kappa * f.S @ curvature, kappa * f.S @ given_k(chance * g * g)
        rows = self.response(Vh)
        _, u, whole, dT = ridge.costs(f, rows, self.bias, self.beta, self.d)
        T, of_psi = whole[: len(u), : len(u)], whole[len(u) :, len(u) :]
        answer = kappa * (self.u * curvature) @ self.u.T
        gap = np.linalg.solve(np.eye(len(T)) + T @ answer, theta - kappa * T @ (self.u @ force))
        thh = np.linalg.solve(T, theta)
        psih = kappa * f.mu1 @ given_k(s * g) + packing.unpack(Vh)[0] @ psi
        fields = np.concatenate([thh, psih])
        norms = -np.einsum("b,jbc,c->j", fields, dT, fields) / packing.w - rows.D @ qh
        return np.concatenate([
            packing.coordinates(v) - packing.coordinates(rows.v),
            packing.coordinates(q) - packing.coordinates(norms),
            -np.linalg.lstsq((self.free * curvature) @ self.free.T, self.free @ force, rcond=1e-13)[0],
            gap,
            psi - of_psi @ psih,
        ])  # fmt: skip

    def separated(self, loss):
        """Whether mu0 of a block separates the labels: at no cost as d -> infinity, and never far enough."""
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

    def described(self, x, model, residual, count):
        """Errors, losses and order parameters at a solution, by name."""
        v, q, free, theta, psi = unknowns = self.split(x)
        m0, m, _, _, weight, chance, _ = self.samples(unknowns)

        def mean(values):
            return float(np.einsum("k,yki,yki,yki->", self.features.weight, weight, chance, values))

        errors = mean(m0 < 0), mean(m < 0), mean(self.loss.value(m0)), mean(self.loss.value(m))
        means, theta, b0 = ridge.by_blocks(self.features, free, theta, self.bias)
        fit = ridge.RidgeFit(math.nan, math.nan, means, theta, psi, b0, v, q, True, residual, count)
        return dict(zip(ERRORS, errors, strict=True)) | solving.parts(model, fit)


def solved(problem, x):
    """A solution from x, its largest residual, and how often the equations were evaluated.

    Damped iteration comes near from anywhere that was tried; Powell's method then finds all digits.
    """
    damping, count, size = DAMPING, 0, math.inf
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            F, count = problem(x), count + 1
            size = float(np.max(np.abs(F)))
            if not math.isfinite(size):
                return x, math.nan, count
            step = damping * F
            x = x - step * min(1.0, LONGEST / max(np.max(np.abs(step)), 1e-300))
            if size < CLOSE:
                break
        if size < NEAR:
            end = root(problem, x, options={"xtol": 1e-13, "maxfev": 80})
            count += end.nfev
            size = float(np.max(np.abs(end.fun)))
            if size < ACCEPTED:
                return end.x, size, count
        damping *= 0.7
    return x, size, count


def classify(model, alpha, lam, d, loss):
    """The record of a readout trained with this loss on labels sign(target)."""
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
        for n in range(0 if equations.separated(loss) else LEVELS):
            x, residual, used = solved(equations, x)
            count += used
            if not residual < ACCEPTED:
                break
            finer = problem(n + 1)
            if np.max(np.abs(finer(x, 2 * PARTS))) < RESOLVED:
                return SpikedClassifier(
                    model, alpha, lam, d, **equations.described(x, model, residual, count), loss=loss
                )
            equations = finer
    message = f"no solution found: the equations hold to {residual:.2g}"
    if equations.separated(loss):
        message = "the mean activation mu0 alone tells the labels: no finite m as d -> infinity. Give a finite d."
    nothing = dict.fromkeys(ERRORS, math.nan) | solving.parts(model, ridge.failed(equations.packing, residual, count))
    return SpikedClassifier(model, alpha, lam, d, **nothing, loss=loss, message=message)
