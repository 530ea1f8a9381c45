"""Conditional Gaussian coefficients: features and labels given the projection k of the input on the spike.

Integrals over z use the trapezoid rule, which converges exponentially for analytic functions, or Gauss-Legendre panels
between the images of the break points. A table is accepted when it agrees with one of about twice the step; with an
undeclared jump or kink no tables agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._base import Immutable, check
from ...gaussian.quadrature import RANGE, panels, trapezoid
from .averages import QUADRATURE, check_growth, function_of, hermite_parts, kinks_of, relative, spacing, unresolved

__all__ = ["Coefficients", "conditional"]


class TableOptions(NamedTuple):
    """Limits of the tables over k."""

    # Values in the coarsest table above which a model is refused; the finer tables have several times more.
    max_values: int = 3 * 10**7
    # Relative width of a smoothed jump below which it is treated as a jump.
    min_jump_width: float = 1e-11


TABLES = TableOptions()


class Coefficients(Immutable):
    r"""Tables over k; made by :func:`conditional`. With B blocks, functions of the features have shape (B, n).

    Attributes
    ----------
    k, weight : ndarray, shape (n,)
        Points and weights, E[f(k)] = weight @ f(k) for k ~ N(0, 1); no weights in tables made by :meth:`at`.
    mu0, mu1, mu2_squared : ndarray, shape (n,)
        Mean, linear part and remaining variance of the features.
    u : ndarray, shape (n,)
        k mu1 + kap dmu0, the function of the readout overlap theta.
    h, h1, hh : ndarray, shape (n,)
        Mean, linear part and second moment of the target.
    """

    k: np.ndarray
    weight: np.ndarray | None
    mu0: np.ndarray
    mu1: np.ndarray
    mu2_squared: np.ndarray
    u: np.ndarray
    h: np.ndarray
    h1: np.ndarray
    hh: np.ndarray
    source: Any
    step: float
    shows = "{0.k.size} points, {0.source!r}"

    def at(self, k):
        """The same functions at any points k (m,), as a table without weights."""
        k = np.atleast_1d(check.array("k", k, ("m", *self.k.shape[1:]) if check.axes("k", k) else ()))
        return self.source.table(k, None, self.step)

    def refined(self, times):
        """The same functions on a finer grid over k: the step is reduced ``times`` times."""
        return self.source.table(*self.source.quadrature(self.step * QUADRATURE.step_ratio**times), self.step)


@dataclass(frozen=True)
class OneSpike:
    """Functions and spike of the tables; a ``step`` is relative to the scales of the functions."""

    student: Callable
    target: Callable
    r: tuple
    c: tuple
    gamma: float
    breakpoints: tuple
    student_breakpoints: tuple
    kap: float = 0.0
    blocks: bool = False
    offset: tuple = (0.0,)

    @property
    def rho(self):
        """Length of the target's component orthogonal to the spike, sqrt(1 - gamma^2)."""
        return math.sqrt((1 - self.gamma) * (1 + self.gamma))

    def table(self, k, weight, step):
        """All functions at the points k, integrated over z with this relative step."""
        shape = (-1, k.size) if self.blocks else (k.size,)
        of_blocks = [self.features(k, *one, step) for one in zip(self.r, self.c, self.offset, strict=True)]
        mu0, mu1, mu2, u = (np.reshape(x, shape) for x in zip(*of_blocks, strict=True))
        h, h1, _, rest = hermite_parts(self.target, self.gamma * k, self.rho, self.breakpoints, QUADRATURE.step * step)
        return Coefficients(k, weight, mu0, mu1, mu2, u, h, h1, rest + h**2 + h1**2, self, step)

    def features(self, k, r, c, offset, step):
        """mu0, mu1, mu2^2 and u of the neurons with spike r, bulk variance c and pre-activation bias."""
        spread, dz = math.sqrt(c), spacing(c) * step
        mean, slope, curvature, rest = hermite_parts(self.student, r * k + offset, spread, self.student_breakpoints, dz)
        return mean, slope / spread, rest, k * slope / spread + self.kap * curvature / (2 * c)

    @property
    def spacing(self):
        """Step in k of the coarsest grid."""
        dk = min(QUADRATURE.step, 0.4 / max(map(abs, self.r), default=1.0)) if any(self.r) else QUADRATURE.step
        if self.student_breakpoints and any(self.r):  # smoothed over sqrt(c) / r
            dk = min([dk] + [0.25 * math.sqrt(c) / abs(r) for r, c in zip(self.r, self.c, strict=True) if r])
        return dk

    def check_size(self):
        """Refuse spikes and bulks whose tables would take minutes."""
        size = sum((2 * RANGE) ** 2 / (self.spacing * spacing(c)) for c in self.c)
        if size > TABLES.max_values:
            raise ValueError(
                f"r = {check.shown(self.r)}, c = {check.shown(self.c)}: the student varies so fast on the scale of its "
                f"inputs that a table needs {size:.1g} values; expected at most {TABLES.max_values:g}, r and sqrt(c) "
                "below about 100. Try a smaller learning rate, or more samples of the step (alpha0)."
            )

    def quadrature(self, step) -> tuple[Any, Any]:
        """Points k and weights."""
        dk = self.spacing * step
        width = self.rho / abs(self.gamma) if self.gamma else math.inf
        if not self.breakpoints or width >= 2 * dk:
            return trapezoid(dk)
        count = math.ceil(2 * RANGE / (10 * dk))  # a panel has the width of 10 steps
        edges = [np.linspace(-RANGE, RANGE, count + 1)]
        for point in np.array(self.breakpoints) / self.gamma:
            steps = max(math.ceil(-math.log2(width) / 2), 0) if width > TABLES.min_jump_width else -1
            distances = 4.0 ** np.arange(steps + 1) * width
            edges += [point - distances, point + distances, np.array([point])]
        inside = np.unique(np.clip(np.concatenate(edges), -RANGE, RANGE))
        nodes, weights = panels(inside[None], 1)
        return nodes[0], weights[0]


def conditional(student, target, r, c, gamma, breakpoints=(), student_breakpoints=(), *, kap=0.0, offset=0.0):
    r"""Tables of the conditional Gaussian coefficients on a grid of k, with a quadrature rule for k ~ N(0, 1).

    .. math::
        \mu_0(k) &= E_z\,\sigma(rk + \sqrt c z), \quad \mu_1 = E_z[z\,\sigma]/\sqrt c, \quad
        \mu_2^2 = E_z\,\sigma^2 - \mu_0^2 - c\mu_1^2 \\
        h(k) &= E_z\,\sigma_*(\gamma k + \rho z), \quad h_1 = E_z[z\,\sigma_*], \quad hh = E_z\,\sigma_*^2,
        \qquad \rho = \sqrt{1-\gamma^2}

    *Exact* up to quadrature: the table agrees with a coarser one to 1e-8. Source: Cui et al. (2024),
    arXiv:2402.04980, Result 3.2: the map (14) with the coefficients (15); for blocks (136), (137), (138).

    Parameters
    ----------
    student, target : Activation or callable
        sigma and sigma_*, vectorised.
    r, c : float or sequence of float
        Spike and bulk variance of the rows; sequences for blocks of neurons.
    gamma : float
        Overlap of the spike's direction with the target's.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks of the target and of the student. Those of ``np.sign``, ``np.abs`` and piecewise-linear
        activations are known.
    offset : float or sequence of float
        Pre-activation bias: sigma(rk + offset + sqrt(c) z) in place of sigma(rk + sqrt(c) z).
    kap : float
        Weight of the norms of the rows: u = k mu1 + kap dmu0 with dmu0 = E[sigma'']/2.

    Returns
    -------
    Coefficients

    Raises
    ------
    ValueError
        Functions that are not vectorised, grow too fast for the Gaussian weight, or have undeclared jumps or kinks.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.static.spiked.conditional import conditional
    >>> table = conditional(np.sin, np.sin, r=1.2, c=1.0, gamma=0.9)
    >>> bool(np.allclose(table.mu0, np.exp(-0.5) * np.sin(1.2 * table.k), rtol=0, atol=1e-14))
    True
    >>> bool(np.isclose(table.weight @ table.hh, (1 - np.exp(-2)) / 2, rtol=1e-13))
    True
    """
    kinks = kinks_of(target, breakpoints, "breakpoints"), kinks_of(student, student_breakpoints, "student_breakpoints")
    student, target = function_of(student, "student"), function_of(target, "target")
    spikes, variances = (tuple(np.atleast_1d(x).astype(float).tolist()) for x in (r, c))
    offsets = tuple(np.broadcast_to(np.asarray(offset, dtype=float), len(spikes)).tolist())
    spike = OneSpike(student, target, spikes, variances, float(gamma), *kinks, float(kap), np.ndim(r) > 0, offsets)
    spike.check_size()
    check_growth("target", target, 1.0)
    offset, scale = max(map(abs, offsets)), math.sqrt(max(x * x + y for x, y in zip(spikes, variances, strict=True)))
    check_growth("student", lambda x: student(x + offset), scale)
    coarse, step = spike.table(*spike.quadrature(1.0), 1.0), 1.0
    for _ in range(QUADRATURE.max_refinements):
        step *= QUADRATURE.step_ratio
        fine = spike.table(*spike.quadrature(step), step)
        errors = discrepancies(spike, coarse, fine)
        if max(errors.values()) <= QUADRATURE.tol:
            return fine
        coarse = fine
    raise unresolved(max(errors, key=errors.__getitem__), errors)


def discrepancies(spike, coarse, fine):
    """Differences of two tables relative to the size of the functions, for student and target."""
    probe = np.array([-2.71, -1.618, -0.577, 0.0113, 0.3181, 0.9159, 1.2021, 2.2360, 3.1416])
    tables = [(spike.table(probe, None, table.step), table) for table in (coarse, fine)]
    features, labels = zip(*(summary(*pair) for pair in tables), strict=True)
    return {"student": relative(*features), "target": relative(*labels)}


def summary(probe, table):
    """Values at a few points and averages over k, of the features and of the target."""
    second = table.mu0**2 + np.reshape(table.mu1, np.shape(table.mu0)) ** 2 + table.mu2_squared
    size = np.sqrt(np.sum(second @ table.weight)) or 1.0
    features = {x: np.atleast_2d(getattr(table, x)) / size for x in ("mu0", "mu1", "u")}
    mu2 = np.atleast_2d(table.mu2_squared) / size**2
    t = np.reshape(table.source.c, (-1, 1)) * features["mu1"] ** 2 + mu2  # variance of the features given k
    den = table.weight / (1 + 1e3 * np.sum(t, axis=0))  # a typical 1 / (1 + V(k)) of the fixed point
    generic = table.weight * np.cos(table.k - 0.7)  # not even, because symmetry may hide errors
    values = [np.ravel(getattr(probe, x)) / size for x in features] + [np.ravel(probe.mu2_squared) / size**2]
    values += [average for x in features.values() for average in (x @ generic, x**2 @ den)] + [mu2 @ generic]
    scale = np.sqrt(table.weight @ table.hh) or 1.0
    h, h1, hh = table.h / scale, table.h1 / scale, table.hh / scale**2
    labels = [probe.h / scale, probe.h1 / scale, probe.hh / scale**2]
    labels += [np.array([h @ generic, h**2 @ den, h1 @ generic, h1**2 @ den, hh @ generic])]
    return np.concatenate(values), np.concatenate(labels)
