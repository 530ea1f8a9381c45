"""Resolvent of the features X^T X / p at complex ridge: equations of V1 and V2, solved by continuation."""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ...gaussian.quadrature import trapezoid
from .blocks import directions
from .ridge import Features


class ResolventOptions(NamedTuple):
    """Tunable numbers of the resolvent."""

    # Step of the grid over k relative to that of the fixed point: on the real axis the integrand has poles nearby.
    relative_step: float = 0.25
    # |k| is cut here if there is no upper edge: the probability beyond is 1 / 4e11.
    max_k: float = 7.0
    # Step relative to V1 and V2 at which Newton's method ends.
    newton_tol: float = 1e-13


RESOLVENT = ResolventOptions()


class Law:
    """Equations of v = (V1, V2) at complex ridge lam, without a choice of roots, for blocks b of the neurons.

    (1 + beta c V2 Vh1) V1 = c V2,   V2_b (lam + Vh2_b) + (Vh1 V1)_bb = rho_b,   Vh = kappa E[S / (1 + S . v)]

    with diagonal matrices c and V2. Orthonormal rows do not interact, V1 = c V2; rows with given eigenvalues D of W0
    W0^T have V1 = <c D / S>, V2 = <1 / S>, S = lam + Vh2 + c D Vh1.
    """

    def __init__(self, model, alpha):
        self.model, self.kappa, self.c = model, alpha / model.beta, model.variances
        self.rho = model.block_fractions
        self.coupling = model.beta if model.rows == "iid" and model.bulk is None else 0.0
        k, weight = trapezoid(model.coefficients.source.spacing * model.coefficients.step * RESOLVENT.relative_step)
        self.unbounded = grows_with_k(model.coefficients, self.c)
        selected = np.abs(k) < RESOLVENT.max_k if self.unbounded else np.ones(k.size, bool)
        probe = model.coefficients.at(np.array([-2.236, -1.618, -0.577, 0.577, 1.618, 2.236]))
        parity = (probe.mu0, -1), (probe.u, -1), (probe.mu1, 1), (probe.mu2_squared, 1)
        if all(np.allclose(x, sign * x[..., ::-1], rtol=1e-9, atol=1e-12) for x, sign in parity):
            selected &= k >= 0  # half the points suffice for an odd student
            weight = np.where(k > 0, 2.0, 1.0) * weight
        self.k, self.weight = k[selected], weight[selected] / weight[selected].sum()
        self.features = Features(dataclasses.replace(model.coefficients.at(self.k), weight=self.weight))
        self.packing, self.S = self.features.packing, self.features.S
        J = self.packing.pairs
        bulk = self.S[self.packing.diagonal] * self.c[:, None]
        self.t = bulk + self.S[J:]  # variances of the features of each block given k
        self.X1, self.X2 = directions(self.packing)
        moments = self.kappa * self.weight * self.S
        self.moments, self.second_moments = moments.T, (self.S[:, None] * moments).reshape(-1, self.k.size).T
        self.D: Any = None if model.bulk is None else np.unique(np.round(model.bulk, 12), return_counts=True)

    def start(self, lam):
        """Unknowns v far up in the complex plane."""
        # at large lam the features do not interact: V1 = c rho / lam, V2 = rho / lam
        leading = self.packing.pack(np.diag(self.rho * self.c), self.rho).astype(complex)
        return leading[:, None] / lam

    def trace(self, v):
        """The trace tr (X^T X / p + lam)^-1 / p."""
        return v[self.packing.pairs :].sum(axis=0)

    def denominators(self, v):
        """1 + V(k), (m, n)."""
        return 1 + (self.packing.w[:, None] * v).T @ self.S

    def matrices(self, packed):
        """(m, B, B) and (m, B) of packed (size, m)."""
        return np.einsum("jm,jbc->mbc", packed, self.X1), packed[self.packing.pairs :].T

    def __call__(self, v, lam):
        """Left minus right sides (size, m) and their Jacobian (m, size, size)."""
        size, m = v.shape
        den = 1 / self.denominators(v)
        Vh = (den @ self.moments).T
        dVh = -(den**2 @ self.second_moments).reshape(m, size, size) * self.packing.w  # derivatives by v
        Vh1, Vh2 = self.matrices(Vh)
        if self.D is not None:
            return self.of_given_rows(v, lam, Vh, dVh)
        V1, V2 = self.matrices(v)
        dVh1, dVh2 = np.einsum("mji,jbc->mibc", dVh, self.X1), np.einsum("mji,jb->mib", dVh, self.X2)
        mixed, between_rows = Vh1 @ V1, self.coupling * self.c
        F1 = V1 + between_rows[:, None] * V2[..., None] * mixed - self.c[:, None] * V2[..., None] * np.eye(self.c.size)
        dmixed = dVh1 @ V1[:, None] + Vh1[:, None] @ self.X1
        dF1 = self.X1 + between_rows[:, None] * (V2[:, None, :, None] * dmixed + self.X2[..., None] * mixed[:, None])
        dF1 = dF1 - (self.c * self.X2)[..., None] * np.eye(self.c.size)
        F2 = V2 * (lam[:, None] + Vh2) + np.einsum("mbb->mb", mixed) - self.rho
        dF2 = self.X2 * (lam[:, None] + Vh2)[:, None] + V2[:, None] * dVh2 + np.einsum("mibb->mib", dmixed)
        i, j = self.packing.rows, self.packing.columns
        F = np.concatenate([(F1[:, i, j] + F1[:, j, i]) / 2, F2], axis=1).T
        return F, np.concatenate([(dF1[..., i, j] + dF1[..., j, i]) / 2, dF2], axis=2).swapaxes(1, 2)

    def of_given_rows(self, v, lam, Vh, dVh):
        """Left minus right sides and their Jacobian for given eigenvalues of the rows."""
        values, counts = self.D
        D, fractions = self.c * values, counts / counts.sum()
        inverse = 1 / (lam[:, None] + Vh[1][:, None] + np.multiply.outer(Vh[0], D))
        moments = [inverse**2 @ (fractions * D**n) for n in range(3)]
        F = v - np.array([inverse @ (fractions * D), inverse @ fractions])
        slope = np.moveaxis(np.array([[moments[2], moments[1]], [moments[1], moments[0]]]), 2, 0)
        return F, np.eye(2) + slope @ dVh

    @property
    def largest(self):
        """Upper bound of the bulk, from the largest variances of the linear and nonlinear components over k."""
        J = self.packing.pairs
        bulk = 1 + math.sqrt(self.model.beta) if self.D is None else math.sqrt(self.D[0].max())
        # The norm of a sum is at most the sum of the norms. The bound is not tight; the scan is in log x.
        linear = np.sqrt(self.c * self.S[self.packing.diagonal].max(axis=1)).max() * bulk
        return ((linear * math.sqrt(self.c.size) + math.sqrt(self.S[J:].max())) * (1 + math.sqrt(self.kappa))) ** 2

    def determinant(self, v):
        """Determinant of the system of (m, theta), over its value without theta, at real v (size, m)."""
        den = self.weight / self.denominators(v)
        Vh1, _ = self.matrices((1 / self.denominators(v) @ self.moments).T)
        V1, V2 = self.matrices(v)
        eye, values = np.eye(self.c.size), []
        for w, h, V, g in zip(den, Vh1, V1, V2, strict=True):
            root = np.sqrt(np.abs(w)) * np.sign(w)
            f, u = self.features.means(False) * np.sqrt(np.abs(w)), self.features.u
            on_f = np.linalg.lstsq((f * np.sign(w)) @ f.T, f @ (u * root).T, rcond=1e-12)[0] if len(f) else 0.0
            left = (u * w) @ u.T - ((u * root) @ f.T @ on_f if len(f) else 0.0)
            Gam = self.model.beta * (np.diag(self.c * g) if self.D is None else V)
            rows = 0.0 if self.coupling else Gam @ h  # the projections b of such rows are not independent of the rest
            values.append(np.linalg.det(eye - rows + self.kappa * Gam @ left))
        return np.array(values)


def grows_with_k(table, c):
    """Whether the variance c mu1^2 + mu2^2 of the features given k is unbounded, so that there is no upper edge."""
    far = np.geomspace(10.0, 1e6, 400)
    with np.errstate(all="ignore"):
        tail = table.at(np.concatenate([-far, far]))
        variance = np.atleast_2d(tail.mu1) ** 2 * c[:, None] + np.atleast_2d(tail.mu2_squared)
        t = np.max(np.reshape(variance.max(axis=0), (2, -1)), axis=0)
    return bool(not np.all(np.isfinite(t)) or t[-100:].max() > 1.01 * max(t[:-100].max(), 1e-20))


def newton(law, v, lam, steps=60):
    """Newton's method for all lam at once: v, and whether it converged at each lam."""
    for _ in range(steps):
        F, J = law(v, lam)
        step = np.linalg.solve(J, F.T[..., None])[..., 0].T
        v = v - step
        if np.all(np.abs(step).sum(axis=0) <= RESOLVENT.newton_tol * np.abs(v).sum(axis=0)):
            break
    # Residuals relative to the terms of each equation, because V1 and V2 differ by orders of magnitude at an edge.
    scale = np.abs(v)
    if law.D is None:
        J = law.packing.pairs
        scale[:J], scale[J:] = law.c.max() * scale[J:].max(axis=0), 1.0
    return v, np.max(np.abs(F) / scale, axis=0) < 1e-6


def resolvent(law, x):
    """Unknowns v at lam = -x - i0, by continuation from far up in the complex plane."""
    height = 100 * (x + law.largest)
    lam = -(x + 1j * height)
    v, _ = newton(law, law.start(lam), lam)
    # Each height is a third of the last one: two Newton steps suffice, and they stay on the branch of a resolvent.
    while np.any(height > 1e-7 * x):
        height = height / 3
        v, _ = newton(law, v, -(x + 1j * height), 2)
    # On the real axis the density is Im V2 / pi without a smoothing width.
    v, converged = newton(law, v, -x + 0j)
    trace = law.trace(v)
    return v, converged & (trace.imag > -1e-9 * np.abs(trace))
