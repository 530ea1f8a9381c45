"""Spectrum of the features after one giant step: bulk density, edges, atom at zero, outliers."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, root

from ..._base import check
from ..._base.record import Record
from ...gaussian.rules import trapezoid

__all__ = ["FeatureSpectrum", "Outlier", "feature_spectrum"]

SCAN = 400  # points, half of them evenly spaced in log x, that look for the support
SMALLEST = 1e-10  # of the scan, relative to the largest possible eigenvalue
FINER = 0.25  # step in k over that of the fixed point: the density is continued to the real axis, den is not smooth
DEPTH = 7.0  # of an interval that begins at zero: x / edge from 1 to exp(-49)
TAIL = 7.0  # of k, where the bulk has no upper edge: one sample in 4e11 is beyond
MASS = 1e-3  # error of the total mass that counts as converged; 1e-9 but for intervals that begin at zero
TOLERANCE = 1e-13  # of Newton, relative to V1 and V2


class Outlier(NamedTuple):
    """Largest eigenvalue at finite size: mean over samples and standard deviation."""

    mean: float
    sd: float


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSpectrum(Record):
    """Limiting spectrum of X^T X / p; made by :func:`feature_spectrum`.

    Attributes
    ----------
    alpha : float
        Samples over dimension, n/d.
    x, density : ndarray, shape (points,)
        Grid on the bulk, dense at the edges, and the density there; without the atom its mass is min(1, n/p).
    weight : ndarray, shape (points,)
        Masses of the grid points: averages over the bulk are ``weight @ f(x)``.
    cdf : ndarray, shape (points,)
        Fraction of eigenvalues up to x, the atom at zero included.
    edges : ndarray, shape (intervals, 2)
        Ends of the intervals that carry the bulk; the last is infinite where the features given k grow without bound
        in k, as those of polynomial students do.
    top : float
        End of the grid: the upper edge, or where all samples with ``|k| < 7`` lie below.
    atom : float
        Weight of the eigenvalue zero, max(0, 1 - n/p).
    mass : float
        Atom and integral of the density; 1 but for quadrature.
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
        """Density at any x > 0, solved there (no interpolation, no smoothing); zero outside the bulk."""
        x = np.asarray(x, dtype=float)
        if not np.all(x > 0):
            raise ValueError(f"x has the lowest value {np.min(x)}; expected x > 0. The eigenvalue 0 is the atom.")
        V2, _ = _resolvent(_Law(self.model, self.alpha), x.ravel())[1:]
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
        r"""Largest eigenvalue of X^T X / p at input dimension d: it grows like n = alpha d, beyond any bulk.

        .. math:: \lambda_{\rm out} = n E[\mu_0^2] + \kappa E[t] + E[\mu_0^2 t]/E[\mu_0^2] + o(1), \qquad
                  t(k) = c\,\mu_1^2 + \mu_2^2

        Returns
        -------
        Outlier
            Mean, and standard deviation sqrt(n Var mu0^2) over samples; None without a spike (r = 0).

        Notes
        -----
        *Asymptotic*, d -> infinity. In units of (1/n) X^T X this is p E[mu0^2], an eigenvalue of the population.
        """
        law, n = _Law(self.model, self.alpha), self.alpha * check.count("d", d)
        square, t = law.mu0**2, law.model.c * law.a + law.b
        mean = law.weight @ square
        if mean < 1e-20 * (law.weight @ t):
            return None
        value = n * mean + law.kappa * (law.weight @ t) + law.weight @ (square * t) / mean
        return Outlier(float(value), math.sqrt(n * (law.weight @ square**2 - mean**2)))

    def finite_outliers(self, reach=50.0):
        r"""Eigenvalues outside the bulk that stay finite, made by the spike's function u = k mu1: usually none.

        .. math:: 1 + \kappa\beta c\, V_2(-x) \Big( E[u^2 {\rm den}] - \frac{E[u \mu_0 {\rm den}]^2}
                  {E[\mu_0^2 {\rm den}]} \Big) = 0

        With ``kap``, u = k mu1 + kap dmu0. With orthonormal rows beta c V2 is divided by 1 - beta c V2 Vh1.

        Parameters
        ----------
        reach : float
            Largest x looked at, over the upper edge; a bulk without upper edge has nothing above it.

        Notes
        -----
        *Derived*: in most cases the left side stays close to 1.
        """
        law = _Law(self.model, self.alpha)

        def left(x):
            V1, V2, _ = _resolvent(law, np.atleast_1d(x))
            return law.determinant(V1.real, V2.real)

        ends = np.concatenate([[0.0], self.edges.ravel(), [reach * self.edges[-1, 1]]])
        found = []
        for low, high in ends.reshape(-1, 2)[: -1 if np.isinf(ends[-1]) else None]:
            if high - low > 1e-9 * high:
                x = np.geomspace(low + 1e-6 * (high - low), high - 1e-9 * high, 200)
                signs = np.diff(np.sign(left(x)))
                found += [brentq(lambda s: left(s)[0], x[i], x[i + 1]) for i in np.flatnonzero(signs)]
        return np.array(found)

    def __repr__(self):
        bulk = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in self.edges)
        return f"FeatureSpectrum(alpha={self.alpha:g}, bulk {bulk}, atom {self.atom:.4g}, mass {self.mass:.8g})"


class _Law:
    """The two equations of (V1, V2) at complex ridge lam, free of the choice of a root of the Marchenko-Pastur law.

    V1 (1 + beta c Vh1 V2) = c V2,   V2 (lam + Vh2) + V1 Vh1 = 1,   Vh_a = kappa E[mu_a^2 / (1 + mu1^2 V1 + mu2^2 V2)]

    Orthonormal rows do not feel each other, V1 = c V2: given k the features are independent, of variance c mu1^2 +
    mu2^2, and X^T X / p is a sample covariance of weighted samples.
    """

    def __init__(self, model, alpha):
        self.model, self.kappa, c = model, alpha / model.beta, model.c
        self.orthonormal = model.rows == "orthonormal"
        self.share = 0.0 if self.orthonormal else model.beta * c
        k, weight = trapezoid(model.coefficients.source.spacing * model.coefficients.step * FINER)
        self.unbounded = grows_with_k(model.coefficients, c)
        keep = np.abs(k) < TAIL if self.unbounded else slice(None)
        self.k, self.weight = k[keep], weight[keep] / weight[keep].sum()
        table = model.coefficients.at(self.k)
        self.mu0, self.u = table.mu0, table.u
        self.a, self.b = table.mu1**2, table.mu2_squared
        moments = [self.a, self.b, self.a**2, self.a * self.b, self.b**2]
        self.once, self.twice = (
            self.kappa * self.weight[:, None] * np.transpose(m) for m in (moments[:2], moments[2:])
        )

    def __call__(self, V1, V2, lam):
        """Left minus right sides (2, m) and their Jacobian (2, 2, m)."""
        den = 1 / (1 + np.multiply.outer(V1, self.a) + np.multiply.outer(V2, self.b))
        Vh1, Vh2 = (den @ self.once).T
        e11, e12, e22 = (den**2 @ self.twice).T
        g = self.share
        F = np.array([V1 * (1 + g * Vh1 * V2) - self.model.c * V2, V2 * (lam + Vh2) + V1 * Vh1 - 1])
        J11, J12 = 1 + g * V2 * (Vh1 - V1 * e11), g * V1 * (Vh1 - V2 * e12) - self.model.c
        J21, J22 = Vh1 - V1 * e11 - V2 * e12, lam + Vh2 - V1 * e12 - V2 * e22
        return F, np.array([[J11, J12], [J21, J22]])

    @property
    def largest(self):
        """Upper bound of the bulk: the largest variances of the two parts, each as if independent of k."""
        part1 = math.sqrt(self.a.max()) * (math.sqrt(self.model.c) + math.sqrt(self.share))
        return ((part1 + math.sqrt(self.b.max())) * (1 + math.sqrt(self.kappa))) ** 2

    def determinant(self, V1, V2):
        """Determinant of the 2 x 2 system of (m, theta), over its value without theta, at real V1, V2."""
        den = self.weight / (1 + np.multiply.outer(V1, self.a) + np.multiply.outer(V2, self.b))
        uu, u0, mm = den @ self.u**2, den @ (self.u * self.mu0), den @ self.mu0**2
        shared = np.divide(u0**2, mm, out=np.zeros_like(mm), where=mm > 0)
        Gam = self.model.beta * self.model.c * V2  # theta = Gam thh; b is a part of orthonormal rows, not independent
        own = Gam * self.kappa * (den @ self.a) if self.orthonormal else 0.0
        return 1 - own + self.kappa * Gam * (uu - shared)


def grows_with_k(table, c):
    """Whether the variance c mu1^2 + mu2^2 of the features given k has no bound: then the bulk has no upper edge."""
    far = np.geomspace(10.0, 1e6, 400)
    with np.errstate(all="ignore"):
        there = table.at(np.concatenate([-far, far]))
        t = np.max(np.reshape(c * there.mu1**2 + there.mu2_squared, (2, -1)), axis=0)
    return bool(not np.all(np.isfinite(t)) or t[-100:].max() > 1.01 * max(t[:-100].max(), 1e-20))


def _newton(law, V1, V2, lam, steps=60):
    """Newton for all lam at once; (V1, V2, converged)."""
    for _ in range(steps):
        F, J = law(V1, V2, lam)
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        step1, step2 = (J[1, 1] * F[0] - J[0, 1] * F[1]) / det, (J[0, 0] * F[1] - J[1, 0] * F[0]) / det
        V1, V2 = V1 - step1, V2 - step2
        settled = np.abs(step1) + np.abs(step2) <= TOLERANCE * (np.abs(V1) + np.abs(V2))
        if np.all(settled):
            break
    return V1, V2, np.maximum(np.abs(F[0]) / np.abs(V2), np.abs(F[1])) < 1e-6


def _resolvent(law, x):
    """V1, V2 at lam = -x - i0, followed from far up in the complex plane, where both are c/lam and 1/lam."""
    height = 100 * (x + law.largest)
    lam = -(x + 1j * height)
    V1, V2, _ = _newton(law, law.model.c / lam, 1 / lam, lam)
    while np.any(height > 1e-7 * x):
        height = height / 3
        V1, V2, _ = _newton(law, V1, V2, -(x + 1j * height), 4)
    V1, V2, converged = _newton(law, V1, V2, -x + 0j)
    return V1, V2, converged & (V2.imag > -1e-9 * np.abs(V2))


def _inside(law, x):
    """Whether x lies in the bulk, with V1 and V2 there.

    Where the rule over k is too coarse for a very small density, V comes out real. But 1 + V(k) = 0 at a real k is
    impossible outside the bulk: the integral over k would diverge.
    """
    V1, V2, _ = _resolvent(law, x)
    one = 1 + np.multiply.outer(V1.real, law.a) + np.multiply.outer(V2.real, law.b)
    return (V2.imag > 1e-6 * np.abs(V2)) | (one.min(axis=1) * one.max(axis=1) < 0), V1, V2


def _edges(law):
    """Intervals of the bulk, (m, 2): bracketed by a scan, then a double root of the real equations."""
    top = law.largest
    half = SCAN // 2
    x = np.unique(np.concatenate([np.geomspace(SMALLEST * top, top, half), np.linspace(0, top, half + 1)[1:]]))
    inside, V1, V2 = _inside(law, x)
    edges = [0.0] if inside[0] else []
    for i in np.flatnonzero(np.diff(inside.astype(int))):
        near = i if inside[i] else i + 1
        edges.append(_double_root(law, V1[near].real, V2[near].real, x[near], x[i], x[i + 1]))
    return np.reshape(edges, (-1, 2))


def _double_root(law, V1, V2, x, low, high):
    """Edge between low and high: F = 0 and det J = 0 in real (V1, V2, x), with all three scaled to one."""
    scale = np.array([V1, V2, x])

    def equations(s):
        v1, v2, at = s * scale
        F, J = law(np.array([v1]), np.array([v2]), -at)
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        return np.array([F[0, 0] / (abs(V1) + law.model.c * abs(V2)), F[1, 0], det[0] * abs(V2)])

    solution = root(equations, np.ones(3), tol=1e-13)
    edge = solution.x[2] * x
    if low * (1 - 1e-9) <= edge <= high * (1 + 1e-9):
        return edge
    for _ in range(60):  # a scan too coarse for Newton: halve the bracket
        middle = (low + high) / 2
        low, high = (low, middle) if _inside(law, np.array([middle]))[0][0] == (x == high) else (middle, high)
    return (low + high) / 2


class _Interval:
    """Points on one interval of the bulk, x(s) with 0 < s < 1, in which density dx/ds is smooth.

    A soft edge is a square root, in x and in log x. An interval that begins at zero is covered down to exp(-DEPTH^2):
    the density may diverge there, as x^(-1/2) where n = p, or spread over decades where samples of large k have small
    features.
    """

    def __init__(self, low, high, points):
        self.low, self.high = low, high
        self.s = (np.arange(points) + 0.5) / points
        if low > 0:
            half = np.log(high / low) / 2
            self.x = np.sqrt(low * high) * np.exp(-half * np.cos(np.pi * self.s))
            self.slope = np.pi * half * np.sin(np.pi * self.s) * self.x
        else:
            v = DEPTH * (1 - self.s)
            self.x = high * np.exp(-v * v)
            self.slope = 2 * DEPTH * v * self.x

    def coordinate(self, x):
        x = np.clip(x, self.low, self.high)
        if self.low > 0:
            return np.arccos(np.clip(np.log(self.low * self.high / x**2) / np.log(self.high / self.low), -1, 1)) / np.pi
        return np.clip(1 - np.sqrt(np.log(self.high / np.maximum(x, 1e-300))) / DEPTH, 0, 1)

    def mass(self, density):
        """Total mass (midpoint rule) and the mass below s."""
        from scipy.interpolate import CubicSpline  # here, for it makes up a tenth of the import of the package

        values = density * self.slope
        total = values.mean()
        primitive = CubicSpline(self.s, values).antiderivative()
        start, size = primitive(0.0), primitive(1.0) - primitive(0.0)
        return total, lambda s: total * (primitive(s) - start) / size


def feature_spectrum(model, *, alpha, points=400):
    r"""Limiting eigenvalue density of X^T X / p, X the n x p features, after one giant step.

    .. math:: \frac1p {\rm tr}\,(X^\top X/p + \lambda)^{-1} \to V_2(\lambda), \qquad
              \rho(x) = \frac1\pi\,{\rm Im}\, V_2(-x - i0)

    Parameters
    ----------
    model : SpikedRandomFeatures
        One block of neurons; gamma, target and noise do not matter.
    alpha : float
        Samples over dimension, n/d. In units of the covariance (1/n) X^T X all x are multiplied by p/n.
    points : int
        Size of the grid on each interval of the bulk.

    Returns
    -------
    FeatureSpectrum

    Raises
    ------
    ValueError
        alpha that is not positive, a model with several blocks.

    Notes
    -----
    *Asymptotic*, d -> infinity. The equations of V1 and V2 are solved at real x by Newton's method, followed from the
    complex plane: no smoothing parameter. Edges are double roots of the real equations. Where the bulk has no upper
    edge, single samples of large k make its tail, whose density is resolved worse: ``mass`` tells how well.

    References
    ----------
    Cui et al. (2024), arXiv:2402.04980, Appendix F, (189), (190); their outlier (191) is p E[mu0^2] in units of the
    covariance, here with the next order (:meth:`FeatureSpectrum.outlier`).

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, c=1.1, beta=1.0)
    >>> ov.static.feature_spectrum(model, alpha=1.5, points=100)
    FeatureSpectrum(alpha=1.5, bulk [0.004364, 2.422], atom 0, mass 1)
    """
    alpha = check.number("alpha", alpha, above=0, hint="alpha is the number of samples over the dimension, n/d.")
    points = check.count("points", points, least=16)
    if np.ndim(check.spiked_features(model).r) > 0:
        raise ValueError(f"a model of {np.size(model.r)} blocks has no spectrum here; expected a SpikedRandomFeatures.")
    law = _Law(model, alpha)
    edges = _edges(law)
    grids = [_Interval(low, high, points) for low, high in edges]
    x = np.concatenate([grid.x for grid in grids])
    _, V2, converged = _resolvent(law, x)
    density = np.maximum(V2.imag, 0.0) / np.pi
    atom = max(0.0, 1 - law.kappa)
    cdf, total = [], atom
    for grid, rho in zip(grids, density.reshape(-1, points), strict=True):
        mass, below = grid.mass(rho)
        cdf.append(total + below(grid.s))
        total = total + float(mass)
    good = bool(np.all(converged)) and abs(total - 1) < MASS
    weight = density * np.concatenate([grid.slope for grid in grids]) / points
    top = float(edges[-1, 1])
    if law.unbounded:
        edges[-1, 1] = math.inf
    return FeatureSpectrum(model, alpha, x, density, weight, np.concatenate(cdf), edges, top, atom, total, good)
