"""Spectrum of the features after one giant step: bulk density, edges, atom at zero, outliers."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, root

from ..._base import Immutable, check
from ...gaussian.quadrature import trapezoid
from .blocks import directions
from .model import Spiked
from .ridge import Features

__all__ = ["FeatureSpectrum", "Outlier", "feature_spectrum"]


class SpectrumOptions(NamedTuple):
    """Tunable numbers of spectra."""

    # Points that locate the support, half of them evenly spaced in log x. With fewer, narrow gaps may be missed.
    scan_points: int = 400
    # Start of the scan, relative to the largest possible eigenvalue; intervals of the support below are not found.
    min_relative_x: float = 1e-10
    # Step of the grid over k relative to that of the fixed point: on the real axis the integrand has poles nearby.
    relative_step: float = 0.25
    # An interval that begins at zero is resolved down to exp(-depth^2) = exp(-49) of its upper edge.
    depth: float = 7.0
    # |k| is cut here if there is no upper edge: the probability beyond is 1 / 4e11.
    max_k: float = 7.0
    # Largest error of the total mass of a converged spectrum. It is 1e-9 except for intervals that begin at zero.
    mass_tol: float = 1e-3
    # Step relative to V1 and V2 at which Newton's method ends.
    newton_tol: float = 1e-13


SPECTRUM = SpectrumOptions()


class Outlier(NamedTuple):
    """Largest eigenvalue at finite size: mean over samples and standard deviation."""

    mean: float
    sd: float


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSpectrum(Immutable):
    """Limiting spectrum of X^T X / p; made by :func:`feature_spectrum`.

    Attributes
    ----------
    alpha : float
        Samples over dimension, n/d.
    x, density : ndarray, shape (points,)
        Grid on the bulk, dense at the edges, and the density there; without the atom its mass is min(1, n/p).
    weight : ndarray, shape (points,)
        Masses of the grid points; averages over the bulk are ``weight @ f(x)``.
    cdf : ndarray, shape (points,)
        Fraction of eigenvalues up to x, the atom at zero included.
    edges : ndarray, shape (intervals, 2)
        Ends of the intervals of the bulk; the last is infinite if the features given k grow without bound in k, as
        those of polynomial students do.
    top : float
        End of the grid: the upper edge, or that of the bulk of samples with ``|k| < 7``.
    atom : float
        Weight of the eigenvalue zero, max(0, 1 - n/p).
    mass : float
        Atom and integral of the density; differs from 1 by the error of quadrature.
    converged : bool
        Whether Newton converged at all x and the mass is 1 within 1e-3.
    """

    model: Any
    alpha: float
    x: np.ndarray
    density: np.ndarray
    weight: np.ndarray
    cdf: np.ndarray
    edges: np.ndarray
    top: float
    atom: float
    mass: float
    converged: bool

    def density_at(self, x):
        """Density at any x > 0, without interpolation or smoothing; zero outside the bulk."""
        x = np.asarray(x, dtype=float)
        if not np.all(x > 0):
            raise ValueError(f"x has the lowest value {np.min(x)}; expected x > 0. The eigenvalue 0 is the atom.")
        law = _Law(self.model, self.alpha)
        V2 = law.trace(_resolvent(law, x.ravel())[0])
        low, high = self.edges.T
        inside = np.any((low < x[..., None]) & (x[..., None] < high), axis=-1)
        return np.where(inside, np.maximum(V2.imag.reshape(x.shape), 0) / np.pi, 0.0)

    def cdf_at(self, x):
        """Fraction of eigenvalues up to any x, by interpolation on the grid."""
        x = np.asarray(x, dtype=float)
        total = np.where(x >= 0, self.atom, 0.0)
        for (low, high), rho in zip(self.edges, self.density.reshape(len(self.edges), -1), strict=True):
            grid = _Interval(low, min(high, self.top), rho.size)
            total = total + grid.mass(rho)[1](grid.coordinate(x))
        return total

    def outlier(self, d):
        r"""Largest eigenvalue of X^T X / p at input dimension d; it grows like n = alpha d, beyond any bulk.

        .. math:: \lambda_{\rm out} = n E[\mu_0^2] + \kappa E[t] + E[\mu_0^2 t]/E[\mu_0^2] + o(1), \qquad
                  t(k) = c\,\mu_1^2 + \mu_2^2

        With several blocks mu0 is the strongest of the principal components of sqrt(rho_b) mu0_b(k). *Asymptotic*, d ->
        infinity. In units of (1/n) X^T X this is p E[mu0^2], an eigenvalue of the population.

        Returns
        -------
        Outlier
            Mean, and standard deviation sqrt(n Var mu0^2) over samples; None without a spike (r = 0).
        """
        law, n = _Law(self.model, self.alpha), self.alpha * check.count("d", d)
        mu0 = np.sqrt(law.rho)[:, None] * law.features.mu0
        mean, vectors = np.linalg.eigh((mu0 * law.weight) @ mu0.T)
        f2, total = (vectors.T @ mu0) ** 2, law.rho @ law.t
        if mean[-1] < 1e-20 * (law.weight @ total):
            return None
        value = n * mean[-1] + law.kappa * (vectors[:, -1] ** 2 @ law.t @ law.weight)
        value += law.weight @ (f2[-1] * total) / mean[-1]
        value += np.sum((f2[:-1] @ (law.weight * f2[-1])) / (mean[-1] - mean[:-1]))  # mixing with the other components
        return Outlier(float(value), math.sqrt(n * (law.weight @ f2[-1] ** 2 - mean[-1] ** 2)))

    def finite_outliers(self, reach=50.0):
        r"""Finite eigenvalues outside the bulk, due to the spike's function u = k mu1; usually there are none.

        .. math:: 1 + \kappa\beta c\, V_2(-x) \Big( E[u^2 {\rm den}] - \frac{E[u \mu_0 {\rm den}]^2}
                  {E[\mu_0^2 {\rm den}]} \Big) = 0

        With ``kap``, u = k mu1 + kap dmu0. With orthonormal rows beta c V2 is divided by 1 - beta c V2 Vh1. *Derived*
        here. In most cases the left side is close to 1.

        Parameters
        ----------
        reach : float
            Largest x of the search, over the upper edge. Above a bulk without upper edge there is nothing.
        """
        law = _Law(self.model, self.alpha)

        def left(x):
            return law.determinant(_resolvent(law, np.atleast_1d(x))[0].real)

        ends = np.concatenate([[0.0], self.edges.ravel(), [reach * self.edges[-1, 1]]])
        outliers = []
        for low, high in ends.reshape(-1, 2)[: -1 if np.isinf(ends[-1]) else None]:
            if high - low > 1e-9 * high:
                x = np.geomspace(low + 1e-6 * (high - low), high - 1e-9 * high, 200)
                signs = np.diff(np.sign(left(x)))
                outliers += [brentq(lambda s: left(s)[0], x[i], x[i + 1]) for i in np.flatnonzero(signs)]
        return np.array(outliers)

    def __repr__(self):
        bulk = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in self.edges)
        return f"FeatureSpectrum(alpha={self.alpha:g}, bulk {bulk}, atom {self.atom:.4g}, mass {self.mass:.8g})"


class _Law:
    """Equations of v = (V1, V2) at complex ridge lam, without a choice of roots, for blocks b of the neurons.

    (1 + beta c V2 Vh1) V1 = c V2,   V2_b (lam + Vh2_b) + (Vh1 V1)_bb = rho_b,   Vh = kappa E[S / (1 + S . v)]

    with diagonal matrices c and V2. Orthonormal rows do not interact, V1 = c V2; rows with given eigenvalues D of W0
    W0^T have V1 = <c D / S>, V2 = <1 / S>, S = lam + Vh2 + c D Vh1.
    """

    def __init__(self, model, alpha):
        self.model, self.kappa, self.c = model, alpha / model.beta, model.variances
        self.rho = model.block_fractions
        self.coupling = model.beta if model.rows == "iid" and model.bulk is None else 0.0
        k, weight = trapezoid(model.coefficients.source.spacing * model.coefficients.step * SPECTRUM.relative_step)
        self.unbounded = grows_with_k(model.coefficients, self.c)
        selected = np.abs(k) < SPECTRUM.max_k if self.unbounded else np.ones(k.size, bool)
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


def _newton(law, v, lam, steps=60):
    """Newton's method for all lam at once: v, and whether it converged at each lam."""
    for _ in range(steps):
        F, J = law(v, lam)
        step = np.linalg.solve(J, F.T[..., None])[..., 0].T
        v = v - step
        if np.all(np.abs(step).sum(axis=0) <= SPECTRUM.newton_tol * np.abs(v).sum(axis=0)):
            break
    # Residuals relative to the terms of each equation, because V1 and V2 differ by orders of magnitude at an edge.
    scale = np.abs(v)
    if law.D is None:
        J = law.packing.pairs
        scale[:J], scale[J:] = law.c.max() * scale[J:].max(axis=0), 1.0
    return v, np.max(np.abs(F) / scale, axis=0) < 1e-6


def _resolvent(law, x):
    """Unknowns v at lam = -x - i0, by continuation from far up in the complex plane."""
    height = 100 * (x + law.largest)
    lam = -(x + 1j * height)
    v, _ = _newton(law, law.start(lam), lam)
    # Each height is a third of the last one: two Newton steps suffice, and they stay on the branch of a resolvent.
    while np.any(height > 1e-7 * x):
        height = height / 3
        v, _ = _newton(law, v, -(x + 1j * height), 2)
    # On the real axis the density is Im V2 / pi without a smoothing width.
    v, converged = _newton(law, v, -x + 0j)
    trace = law.trace(v)
    return v, converged & (trace.imag > -1e-9 * np.abs(trace))


def _inside(law, x):
    """Whether x lies in the bulk, with v there.

    If the grid over k is too coarse for a very small density, the computed V is real. But 1 + V(k) = 0 at a real k is
    impossible outside the bulk, because the integral over k would diverge.
    """
    v, _ = _resolvent(law, x)
    den, trace = law.denominators(v.real), law.trace(v)
    return (trace.imag > 1e-6 * np.abs(trace)) | (den.min(axis=1) * den.max(axis=1) < 0), v


def _edges(law):
    """Intervals of the bulk, (m, 2): a scan brackets the edges, which are double roots of the real equations."""
    top = law.largest
    half = SPECTRUM.scan_points // 2
    # half evenly in log x for edges near zero, half evenly in x for gaps in the bulk
    x = np.unique(
        np.concatenate([np.geomspace(SPECTRUM.min_relative_x * top, top, half), np.linspace(0, top, half + 1)[1:]])
    )
    inside, v = _inside(law, x)
    edges = [0.0] if inside[0] else []
    for i in np.flatnonzero(np.diff(inside.astype(int))):
        # start at the point inside the bulk: its v is closer to the double root than any real v outside
        start = i if inside[i] else i + 1
        edges.append(_double_root(law, v[:, start].real, x[start], x[i], x[i + 1]))
    return np.reshape(edges, (-1, 2))


def _double_root(law, v, x, low, high):
    """Edge between low and high: F = 0 and det J = 0 in real (v, x), all of them in units of their start."""
    scale, rising = np.append(v, x), x == high
    with np.errstate(all="ignore"):  # fails next to a pole; the bracket is then bisected
        edge = _root(law, v, scale) * x
    if low * (1 - 1e-9) <= edge <= high * (1 + 1e-9):
        sides, _ = _inside(law, edge + np.array([-1e-3, 1e-3]) * (high - low))
        if sides[1] != sides[0] and sides[1] == rising:  # double roots of several blocks may lie within the bulk
            return edge
    for _ in range(60):  # bisection, if the scan is too coarse for Newton's method
        middle = (low + high) / 2
        low, high = (low, middle) if _inside(law, np.array([middle]))[0][0] == rising else (middle, high)
        if high - low < 1e-12 * high:
            break
    return (low + high) / 2


def _root(law, v, scale):
    """Position x of the double root found from the start ``scale`` = (v, x), in units of the start."""
    x = scale[-1]
    size = np.abs(law(v[:, None], np.array([-x]))[1][0] * v).max(axis=1)  # size of the terms of each equation

    def equations(s):
        *v_s, x_s = s * scale
        F, J = law(np.array(v_s)[:, None], np.array([-x_s]))
        return np.append(F[:, 0] / size, np.linalg.det(J[0] * v / size[:, None]))

    return root(equations, np.ones(scale.size), tol=1e-13).x[-1]


class _Interval:
    """Points on one interval of the bulk, x(s) with 0 < s < 1, in which density dx/ds is smooth.

    A soft edge is a square root, in x and in log x. An interval that begins at zero is covered down to exp(-depth^2) of
    its end: the density may diverge there, as x^(-1/2) if n = p, or extend over decades if samples of large k have
    small features.
    """

    def __init__(self, low, high, points):
        self.low, self.high = low, high
        self.s = (np.arange(points) + 0.5) / points
        if low > 0:
            # Chebyshev's substitution in log x makes square-root edges at both ends smooth
            half = np.log(high / low) / 2
            self.x = np.sqrt(low * high) * np.exp(-half * np.cos(np.pi * self.s))
            self.slope = np.pi * half * np.sin(np.pi * self.s) * self.x
        else:
            # x = high exp(-v^2): even a density like x^(-1/2) at zero is smooth in s
            v = SPECTRUM.depth * (1 - self.s)
            self.x = high * np.exp(-v * v)
            self.slope = 2 * SPECTRUM.depth * v * self.x

    def coordinate(self, x):
        x = np.clip(x, self.low, self.high)
        if self.low > 0:
            return np.arccos(np.clip(np.log(self.low * self.high / x**2) / np.log(self.high / self.low), -1, 1)) / np.pi
        return np.clip(1 - np.sqrt(np.log(self.high / np.maximum(x, 1e-300))) / SPECTRUM.depth, 0, 1)

    def mass(self, density):
        """Total mass (midpoint rule) and the mass below s."""
        from scipy.interpolate import CubicSpline  # here, because it is a tenth of the import time

        values = density * self.slope
        total = values.mean()
        primitive = CubicSpline(self.s, values).antiderivative()
        start, size = primitive(0.0), primitive(1.0) - primitive(0.0)
        return total, lambda s: total * (primitive(s) - start) / size


def feature_spectrum(model: Spiked, *, alpha: float, points: int = 400) -> FeatureSpectrum:
    r"""Limiting eigenvalue density of X^T X / p, X the n x p features, after one giant step.

    .. math:: \frac1p {\rm tr}\,(X^\top X/p + \lambda)^{-1} \to V_2(\lambda), \qquad
              \rho(x) = \frac1\pi\,{\rm Im}\, V_2(-x - i0)

    *Asymptotic*, d -> infinity. The equations of V1 and V2 are solved at real x by Newton's method with continuation
    from the complex plane; there is no smoothing parameter. Edges are double roots of the real equations. If the bulk
    has no upper edge, single samples of large k make its tail, whose density is less accurate; ``mass`` measures the
    error. Source: Cui et al. (2024), arXiv:2402.04980, Appendix F, (189), (190); their outlier (191) is p E[mu0^2] in
    units of the covariance, here with the next order (:meth:`FeatureSpectrum.outlier`).

    Parameters
    ----------
    model : SpikedRandomFeatures
        Features; gamma, target and noise have no effect.
    alpha : float
        Samples over dimension, n/d. In units of the covariance (1/n) X^T X all x are multiplied by p/n.
    points : int
        Size of the grid on each interval of the bulk.

    Raises
    ------
    ValueError
        alpha that is not positive.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, c=1.1, beta=1.0)
    >>> model.spectrum(alpha=1.5, points=100)
    FeatureSpectrum(alpha=1.5, bulk [0.004364, 2.422], atom 0, mass 1)
    """
    alpha = check.number("alpha", alpha, above=0, hint="alpha is the number of samples over the dimension, n/d.")
    points = check.count("points", points, least=16)
    check.record("model", model, "SpikedRandomFeatures")
    if model.bulk is not None and np.ndim(model.r):
        raise ValueError(
            f"bulk = {check.shown(model.bulk)} with several blocks; expected one, or rows='iid' or 'orthonormal': "
            "given rows are implemented for one block." + check.see("spiked", "Cases not covered")
        )
    law = _Law(model, alpha)
    edges = _edges(law)
    grids = [_Interval(low, high, points) for low, high in edges]
    x = np.concatenate([grid.x for grid in grids])
    v, converged = _resolvent(law, x)
    density = np.maximum(law.trace(v).imag, 0.0) / np.pi
    atom = max(0.0, 1 - law.kappa)
    cdf, total = [], atom
    for grid, rho in zip(grids, density.reshape(-1, points), strict=True):
        mass, below = grid.mass(rho)
        cdf.append(total + below(grid.s))
        total = total + float(mass)
    good = bool(np.all(converged)) and abs(total - 1) < SPECTRUM.mass_tol
    weight = density * np.concatenate([grid.slope for grid in grids]) / points
    top = float(edges[-1, 1])
    if law.unbounded:
        edges[-1, 1] = math.inf
    return FeatureSpectrum(model, alpha, x, density, weight, np.concatenate(cdf), edges, top, atom, total, good)
