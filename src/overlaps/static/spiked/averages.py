"""Gaussian averages of one scalar function with jumps and kinks, to a tolerance within which two rules agree."""

import math

import numpy as np

from ..._base import check
from ...activations.activation import Activation, check_vectorised
from ...gaussian.quadrature import RANGE, panels, trapezoid

__all__ = ["function_of", "hermite_moments", "kinks_of"]

STEP = 0.25  # coarsest step; its error is 2e-14 for tanh of a unit Gaussian
TOLERANCE = 1e-8  # two tables that differ by less are good: the finer is kept, its own error is far smaller
REFINEMENTS = 5
FINER = 0.52  # ratio of successive steps; not 1/2, because nested grids alias fast oscillations in the same way
CHUNK = 2**22  # values of a function that are held at once
ODD = 1e-10  # a function with a smaller even part counts as odd
GROWTH = 1e-8  # a function with more of E[f^2] beyond 9 standard deviations is refused
KINKED = np.sign, np.abs, np.fabs  # functions of NumPy that are not smooth at zero


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
    values = np.atleast_1d(check.floats(name, given, "finite numbers, the jumps and kinks, e.g. (0.0,)"))
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise check.refused(name, given, "finite numbers, the jumps and kinks, e.g. (0.0,).")
    known = f.kinks if isinstance(f, Activation) else ()
    if any((f.g if isinstance(f, Activation) else f) is g for g in KINKED):
        known = (0.0,)
    return tuple(np.unique(np.concatenate([values, known])).tolist())


def hermite_moments(f, role, points=()):
    """E[f], E[z f], E[(z^2 - 1) f] and E[f^2] of a function of z ~ N(0, 1); ``points`` are its jumps and kinks."""
    check_growth(role, f, 1.0)
    before = None
    for n in range(REFINEMENTS + 1):
        mean, slope, curvature, rest = (
            float(x[0]) for x in hermite_parts(f, np.zeros(1), 1.0, points, STEP * FINER**n)
        )
        values = np.array([mean, slope, curvature, rest + mean**2 + slope**2])
        # several positions: one alone may hide a jump in the middle of a cell of both rules
        if before is not None:
            probe = [np.array(hermite_parts(f, np.linspace(0, 1, 7), 1.0, points, STEP * FINER**m)) for m in (n, n - 1)]
            error = max(relative(*probe), np.max(np.abs(values - before)) / (math.sqrt(values[3]) + values[3] + 1e-300))
            if error <= TOLERANCE:
                return tuple(values.tolist())
        before = values
    raise unresolved(role, {role: error})


def spacing(c):
    """Step in z of the coarsest rule, for neurons of bulk variance c."""
    return min(STEP, 0.4 / math.sqrt(c))


def hermite_parts(f, mean, spread, points, step):
    """E[f], E[z f], E[(z^2 - 1) f] and E[(f - E[f] - z E[z f])^2] of f(mean + spread z), of the shape (n,) of mean."""
    if spread == 0:
        return f(mean), np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
    rows = max(1, int(CHUNK * step / (2 * RANGE * (1 + len(points)))))
    if mean.size > rows:
        parts = [hermite_parts(f, mean[i : i + rows], spread, points, step) for i in range(0, mean.size, rows)]
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
        beyond = np.sum(square[np.abs(z) > 9]) / max(np.sum(square), 1e-300)
    if not beyond <= GROWTH:
        fault = "is not finite" if not np.isfinite(beyond) else f"has {beyond:.1e} of its E[f^2] beyond 9 sigma"
        raise ValueError(
            f"{role} grows too fast: at inputs N(0, {scale:.3g}^2) it {fault}; expected less than {GROWTH:g}. "
            f"Try a {role} that grows at most like a low power, or smaller r and c."
        )


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
