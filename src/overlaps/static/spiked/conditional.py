"""Conditional Gaussian coefficients: features and labels given the projection k of the input on the spike.

Integrals over z use the trapezoid rule, which converges exponentially for analytic functions, or Gauss-Legendre panels
between the images of the break points. A table is accepted when it agrees with one of about twice the step; a jump or
a kink that was not declared never does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base import check
from ..._base.record import Record
from ...activations.activation import Activation, check_vectorised
from ...gaussian.rules import RANGE, panels, trapezoid

__all__ = ["Coefficients", "conditional", "function_of", "kinks_of", "moments"]

STEP = 0.25  # coarsest step; 2e-14 for tanh of a unit Gaussian
TOLERANCE = 1e-8  # between two tables, the finer of which is kept: its own error is far smaller
REFINEMENTS = 5
FINER = 0.52  # ratio of successive steps; not 1/2, because nested grids alias fast oscillations in the same way
CHUNK = 2**22  # values of a function that are held at once
LARGEST = 3 * 10**7  # values in the coarsest table; the finer ones have several times more
NARROW = 1e-11  # relative width below which a smoothed jump is a jump
ODD = 1e-10  # largest even part of a function that counts as odd
GROWTH = 1e-8  # part of E[f^2] that may lie beyond 9 standard deviations
KINKED = np.sign, np.abs, np.fabs  # functions of NumPy that are not smooth at zero


@dataclass(frozen=True, eq=False, repr=False)
class Coefficients(Record):
    r"""Tables over k; made by :func:`conditional`. With B blocks, those of the features have shape (B, n).

    Attributes
    ----------
    k, weight : ndarray, shape (n,)
        Points and a rule, E[f(k)] = weight @ f(k) for k ~ N(0, 1); no weights in tables made by :meth:`at`.
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
    source: "Setting"
    step: float

    def at(self, k):
        """The same functions at any points k (m,), as a table without weights."""
        k = np.atleast_1d(check.array("k", k, ("m",) if np.ndim(k) else ()))
        return self.source.table(k, None, self.step)

    def refined(self, times):
        """The same functions on a rule over k with a finer step, by a factor FINER for each of ``times``."""
        return self.source.table(*self.source.rule(self.step * FINER**times), self.step)

    def __repr__(self):
        return f"Coefficients({self.k.size} points, {self.source!r})"


@dataclass(frozen=True)
class Setting:
    """What the tables depend on; ``step`` is relative to the scales of the functions."""

    student: Callable
    target: Callable
    r: tuple
    c: tuple
    gamma: float
    breakpoints: tuple
    student_breakpoints: tuple
    kap: float = 0.0
    blocks: bool = False

    @property
    def rho(self):
        """Part of the target's direction that is orthogonal to the spike, sqrt(1 - gamma^2)."""
        return math.sqrt((1 - self.gamma) * (1 + self.gamma))

    def table(self, k, weight, step):
        """All functions at the points k, by rules in z of this relative step."""
        shape = (-1, k.size) if self.blocks else (k.size,)
        rows = [self.features(k, r, c, step) for r, c in zip(self.r, self.c, strict=True)]
        mu0, mu1, mu2, u = (np.reshape(x, shape) for x in zip(*rows, strict=True))
        h, h1, _, rest = averages(self.target, self.gamma * k, self.rho, self.breakpoints, STEP * step)
        return Coefficients(k, weight, mu0, mu1, mu2, u, h, h1, rest + h**2 + h1**2, self, step)

    def features(self, k, r, c, step):
        """mu0, mu1, mu2^2 and u of the neurons with spike r and bulk variance c."""
        spread, dz = math.sqrt(c), spacing(c) * step
        mean, slope, curvature, rest = averages(self.student, r * k, spread, self.student_breakpoints, dz)
        return mean, slope / spread, rest, k * slope / spread + self.kap * curvature / (2 * c)

    @property
    def spacing(self):
        """Step in k of the coarsest rule."""
        dk = min(STEP, 0.4 / max(map(abs, self.r), default=1.0)) if any(self.r) else STEP
        if self.student_breakpoints and any(self.r):  # smoothed over sqrt(c) / r
            dk = min([dk] + [0.25 * math.sqrt(c) / abs(r) for r, c in zip(self.r, self.c, strict=True) if r])
        return dk

    def check_size(self):
        """Refuse spikes and bulks whose tables would take minutes."""
        size = sum((2 * RANGE) ** 2 / (self.spacing * spacing(c)) for c in self.c)
        if size > LARGEST:
            raise ValueError(
                f"r = {check.shown(self.r)}, c = {check.shown(self.c)}: the student bends so fast on the scale of "
                f"its inputs that a table takes {size:.1g} values; expected at most {LARGEST:g}, r and sqrt(c) below "
                "about 100. Try a smaller learning rate, or more samples of the step (alpha0)."
            )

    def rule(self, step) -> tuple[Any, Any]:
        """Points k and weights."""
        dk = self.spacing * step
        width = self.rho / abs(self.gamma) if self.gamma else math.inf
        if not self.breakpoints or width >= 2 * dk:
            return trapezoid(dk)
        count = math.ceil(2 * RANGE / (10 * dk))  # panels of 10 steps, those in z of 20
        edges = [np.linspace(-RANGE, RANGE, count + 1)]
        for point in np.array(self.breakpoints) / self.gamma:
            steps = max(math.ceil(-math.log2(width) / 2), 0) if width > NARROW else -1
            away = 4.0 ** np.arange(steps + 1) * width
            edges += [point - away, point + away, np.array([point])]
        inside = np.unique(np.clip(np.concatenate(edges), -RANGE, RANGE))
        nodes, weights = panels(inside[None], 1)
        return nodes[0], weights[0]


def conditional(student, target, r, c, gamma, breakpoints=(), student_breakpoints=(), *, kap=0.0):
    r"""Tables of the conditional Gaussian coefficients on a grid of k, with a quadrature rule for k ~ N(0, 1).

    .. math::
        \mu_0(k) &= E_z\,\sigma(rk + \sqrt c z), \quad \mu_1 = E_z[z\,\sigma]/\sqrt c, \quad
        \mu_2^2 = E_z\,\sigma^2 - \mu_0^2 - c\mu_1^2 \\
        h(k) &= E_z\,\sigma_*(\gamma k + \rho z), \quad h_1 = E_z[z\,\sigma_*], \quad hh = E_z\,\sigma_*^2,
        \qquad \rho = \sqrt{1-\gamma^2}

    Parameters
    ----------
    student, target : Activation or callable
        sigma and sigma_*, vectorised.
    r, c : float or sequence of float
        Spike and bulk variance of the rows; sequences for blocks of neurons.
    gamma : float
        Overlap of the spike's direction with the target's.
    breakpoints, student_breakpoints : sequence of float
        Jumps and kinks of the target and of the student; those of ``np.sign``, ``np.abs`` and piecewise-linear
        activations are known.
    kap : float
        u = k mu1 + kap dmu0 with dmu0 = E[sigma'']/2: what the norms of the rows add.

    Returns
    -------
    Coefficients

    Raises
    ------
    ValueError
        Functions that are not vectorised, that grow too fast for the Gaussian weight, or that jump or bend elsewhere.

    Notes
    -----
    *Exact* up to quadrature: two tables, of which the finer is kept, agree to 1e-8.

    References
    ----------
    Cui et al. (2024), arXiv:2402.04980, Result 3.2: the map (14) with the coefficients (15); for blocks
    (136), (137), (138).

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
    setting = Setting(student, target, spikes, variances, float(gamma), *kinks, float(kap), np.ndim(r) > 0)
    setting.check_size()
    check_growth("target", target, 1.0)
    check_growth("student", student, math.sqrt(max(x * x + y for x, y in zip(spikes, variances, strict=True))))
    coarse, step = setting.table(*setting.rule(1.0), 1.0), 1.0
    for _ in range(REFINEMENTS):
        step *= FINER
        fine = setting.table(*setting.rule(step), step)
        errors = differences(setting, coarse, fine)
        if max(errors.values()) <= TOLERANCE:
            return fine
        coarse = fine
    raise unresolved(max(errors, key=errors.__getitem__), errors)


def function_of(f, role):
    """The vectorised function of an Activation or a callable; ``role`` is the argument's name."""
    if isinstance(f, Activation):
        return f.g
    check_vectorised(role, f)
    return f


def even_part(f):
    """Largest |f(x) + f(-x)| relative to the largest |f(x)|, zero for odd functions."""
    x = np.linspace(0.0, 9.0, 400)[1:] + 0.00731
    return float(np.max(np.abs(f(x) + f(-x))) / max(np.max(np.abs(f(x))), 1e-300))


def kinks_of(f, given, name):
    """Sorted jumps and kinks: those given and those known."""
    try:
        values = np.atleast_1d(np.array(given, dtype=float))
        good = values.ndim == 1 and np.all(np.isfinite(values))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"{name} = {check.shown(given)}; expected finite numbers, the jumps and kinks, e.g. (0.0,).")
    known = f.kinks if isinstance(f, Activation) else ()
    if any((f.g if isinstance(f, Activation) else f) is g for g in KINKED):
        known = (0.0,)
    return tuple(np.unique(np.concatenate([values, known])).tolist())


def moments(f, role, points=()):
    """E[f], E[z f], E[(z^2 - 1) f] and E[f^2] of a function of z ~ N(0, 1); ``points`` are its jumps and kinks."""
    check_growth(role, f, 1.0)
    before = None
    for n in range(REFINEMENTS + 1):
        mean, slope, curvature, rest = (float(x[0]) for x in averages(f, np.zeros(1), 1.0, points, STEP * FINER**n))
        values = np.array([mean, slope, curvature, rest + mean**2 + slope**2])
        # several positions: one alone may hide a jump in the middle of a cell of both rules
        if before is not None:
            probe = [np.array(averages(f, np.linspace(0, 1, 7), 1.0, points, STEP * FINER**m)) for m in (n, n - 1)]
            error = max(relative(*probe), np.max(np.abs(values - before)) / (math.sqrt(values[3]) + values[3] + 1e-300))
            if error <= TOLERANCE:
                return tuple(values.tolist())
        before = values
    raise unresolved(role, {role: error})


def spacing(c):
    """Step in z of the coarsest rule, for neurons of bulk variance c."""
    return min(STEP, 0.4 / math.sqrt(c))


def averages(f, mean, spread, points, step):
    """E[f], E[z f], E[(z^2 - 1) f] and E[(f - E[f] - z E[z f])^2] of f(mean + spread z), of the shape (n,) of mean."""
    if spread == 0:
        return f(mean), np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
    rows = max(1, int(CHUNK * step / (2 * RANGE * (1 + len(points)))))
    if mean.size > rows:
        parts = [averages(f, mean[i : i + rows], spread, points, step) for i in range(0, mean.size, rows)]
        return tuple(np.concatenate(x) for x in zip(*parts, strict=True))
    if points:
        images = np.clip((np.array(points) - mean[:, None]) / spread, -RANGE, RANGE)
        ends = np.full((mean.size, 1), RANGE)
        z, weight = panels(np.hstack([-ends, images, ends]), math.ceil(2 * RANGE / (20 * step)))
        product = "ij,ij->i"
    else:
        z, weight = trapezoid(step)
        product = "ij,j->i"
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(f(mean[:, None] + spread * z), dtype=float)
        first, slope, curvature = (
            np.einsum(product, values, weight * x, optimize=True) for x in (np.ones_like(z), z, z * z - 1)
        )
        values = values - first[:, None] - slope[:, None] * z  # no cancellation in what is left
        return first, slope, curvature, np.einsum(product, values * values, weight, optimize=True)


def check_growth(role, f, scale):
    """Refuse functions whose square has weight beyond the range of the rules."""
    z, weight = trapezoid(STEP / 4)
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.asarray(f(scale * z), dtype=float) ** 2 * weight
        share = np.sum(square[np.abs(z) > 9]) / max(np.sum(square), 1e-300)
    if not share <= GROWTH:
        found = "is not finite" if not np.isfinite(share) else f"has {share:.1e} of its E[f^2] beyond 9 sigma"
        raise ValueError(
            f"{role} grows too fast: at inputs N(0, {scale:.3g}^2) it {found}; expected less than {GROWTH:g}. "
            f"Try a {role} that grows at most like a low power, or smaller r and c."
        )


def differences(setting, coarse, fine):
    """Differences of two tables relative to the size of the functions, by the argument at fault."""
    probe = np.array([-2.71, -1.618, -0.577, 0.0113, 0.3181, 0.9159, 1.2021, 2.2360, 3.1416])
    tables = [(setting.table(probe, None, table.step), table) for table in (coarse, fine)]
    features, labels = zip(*(summary(*pair) for pair in tables), strict=True)
    return {"student": relative(*features), "target": relative(*labels)}


def summary(probe, table):
    """Values at a few points and averages over k: of what needs the features only, and of what needs the target too."""
    second = table.mu0**2 + np.reshape(table.mu1, np.shape(table.mu0)) ** 2 + table.mu2_squared
    size = np.sqrt(np.sum(second @ table.weight)) or 1.0
    features = {x: np.atleast_2d(getattr(table, x)) / size for x in ("mu0", "mu1", "u")}
    mu2 = np.atleast_2d(table.mu2_squared) / size**2
    t = np.reshape(table.source.c, (-1, 1)) * features["mu1"] ** 2 + mu2  # variance of the features given k
    den = table.weight / (1 + 1e3 * np.sum(t, axis=0))  # as sharp as the fixed point makes it
    generic = table.weight * np.cos(table.k - 0.7)  # without the symmetries that hide errors
    values = [np.ravel(getattr(probe, x)) / size for x in features] + [np.ravel(probe.mu2_squared) / size**2]
    values += [average for x in features.values() for average in (x @ generic, x**2 @ den)] + [mu2 @ generic]
    scale = np.sqrt(table.weight @ table.hh) or 1.0
    h, h1, hh = table.h / scale, table.h1 / scale, table.hh / scale**2
    labels = [probe.h / scale, probe.h1 / scale, probe.hh / scale**2]
    labels += [np.array([h @ generic, h**2 @ den, h1 @ generic, h1**2 @ den, hh @ generic])]
    return np.concatenate(values), np.concatenate(labels)


def relative(a, b):
    """Largest difference, over the largest entry where that exceeds one."""
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1.0))


def unresolved(role, errors):
    """Error that names the argument in which the jumps and kinks of the student or target belong."""
    name = "breakpoints" if role == "target" else "student_breakpoints"
    return ValueError(
        f"{role} is not smooth: two quadrature rules differ by {errors[role]:.1e} (relative), expected {TOLERANCE:g}. "
        f"Name its jumps and kinks in {name}=(t_1, ...), e.g. {name}=(0.0,)."
    )
