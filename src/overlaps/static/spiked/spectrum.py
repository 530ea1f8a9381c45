"""Spectrum of the features after one giant step: bulk density, edges, atom at zero, outliers."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._base import Immutable, check
from .edges import bulk_edges
from .model import Spiked
from .resolvent import Law, resolvent

__all__ = ["FeatureSpectrum", "Outlier", "feature_spectrum"]


class SpectrumOptions(NamedTuple):
    """Tunable numbers of spectra."""

    # An interval that begins at zero is resolved down to exp(-depth^2) = exp(-49) of its upper edge.
    depth: float = 7.0
    # Largest error of the total mass of a converged spectrum. It is 1e-9 except for intervals that begin at zero.
    mass_tol: float = 1e-3


SPECTRUM = SpectrumOptions()


class Outlier(NamedTuple):
    """Largest eigenvalue at finite size: mean over samples and standard deviation."""

    mean: float
    sd: float


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
        law = Law(self.model, self.alpha)
        V2 = law.trace(resolvent(law, x.ravel())[0])
        low, high = self.edges.T
        inside = np.any((low < x[..., None]) & (x[..., None] < high), axis=-1)
        return np.where(inside, np.maximum(V2.imag.reshape(x.shape), 0) / np.pi, 0.0)

    def cdf_at(self, x):
        """Fraction of eigenvalues up to any x, by interpolation on the grid."""
        x = np.asarray(x, dtype=float)
        total = np.where(x >= 0, self.atom, 0.0)
        for (low, high), rho in zip(self.edges, self.density.reshape(len(self.edges), -1), strict=True):
            grid = Interval(low, min(high, self.top), rho.size)
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
        law, n = Law(self.model, self.alpha), self.alpha * check.count("d", d)
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
        law = Law(self.model, self.alpha)

        def left(x):
            return law.determinant(resolvent(law, np.atleast_1d(x))[0].real)

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


class Interval:
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
    law = Law(model, alpha)
    edges = bulk_edges(law)
    grids = [Interval(low, high, points) for low, high in edges]
    x = np.concatenate([grid.x for grid in grids])
    v, converged = resolvent(law, x)
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
