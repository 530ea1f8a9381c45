"""Gaussian averages of one scalar function with jumps and kinks; the error is estimated from two quadratures."""

import math
from typing import NamedTuple

import numpy as np

from ..._base import check
from ...activations.activation import Activation, check_vectorised
from ...gaussian.quadrature import RANGE, panels, trapezoid

__all__ = ["function_of", "hermite_moments", "kinks_of"]


class QuadratureOptions(NamedTuple):
    """Tunable numbers of the adaptive Gaussian quadrature."""

    # Coarsest step, in standard deviations; its error is 2e-14 for tanh of a unit Gaussian, and grows fast with it.
    step: float = 0.25
    # Ratio of successive steps. Not 1/2, because nested grids alias fast oscillations in the same way.
    step_ratio: float = 0.52
    max_refinements: int = 5
    # Difference of two successive tables at which the finer one is accepted; its own error is far smaller.
    tol: float = 1e-8
    # Values of a function in memory at once.
    chunk: int = 2**22
    # A function whose even part is smaller, relative to its maximum, counts as odd.
    odd_tol: float = 1e-10
    # A function with a larger fraction of E[f^2] beyond 9 standard deviations is refused.
    growth_tol: float = 1e-8


QUADRATURE = QuadratureOptions()


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
    """Sorted jumps and kinks: those given and those of known functions."""
    values = np.atleast_1d(check.floats(name, given, "finite numbers, the jumps and kinks, e.g. (0.0,)"))
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise check.refused(name, given, "finite numbers, the jumps and kinks, e.g. (0.0,).")
    known = f.kinks if isinstance(f, Activation) else ()
    kinked = np.sign, np.abs, np.fabs  # functions of NumPy that are not smooth at zero
    if any((f.g if isinstance(f, Activation) else f) is g for g in kinked):
        known = (0.0,)
    return tuple(np.unique(np.concatenate([values, known])).tolist())


def hermite_moments(f, role, points=()):
    """E[f], E[z f], E[(z^2 - 1) f] and E[f^2] of a function of z ~ N(0, 1); ``points`` are its jumps and kinks."""
    check_growth(role, f, 1.0)
    before = None
    for n in range(QUADRATURE.max_refinements + 1):
        mean, slope, curvature, rest = (
            float(x[0]) for x in hermite_parts(f, np.zeros(1), 1.0, points, QUADRATURE.step * QUADRATURE.step_ratio**n)
        )
        values = np.array([mean, slope, curvature, rest + mean**2 + slope**2])
        # several means: with a single one, a jump may lie in the middle of a cell of both grids
        if before is not None:
            steps = [QUADRATURE.step * QUADRATURE.step_ratio**m for m in (n, n - 1)]
            probe = [np.array(hermite_parts(f, np.linspace(0, 1, 7), 1.0, points, step)) for step in steps]
            error = max(relative(*probe), np.max(np.abs(values - before)) / (math.sqrt(values[3]) + values[3] + 1e-300))
            if error <= QUADRATURE.tol:
                return tuple(values.tolist())
        before = values
    raise unresolved(role, {role: error})


def spacing(c):
    """Step in z of the coarsest grid, for neurons of bulk variance c."""
    return min(QUADRATURE.step, 0.4 / math.sqrt(c))


def hermite_parts(f, mean, spread, points, step):
    """E[f], E[z f], E[(z^2 - 1) f] and E[(f - E[f] - z E[z f])^2] of f(mean + spread z), of the shape (n,) of mean."""
    if spread == 0:
        return f(mean), np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
    size = max(1, int(QUADRATURE.chunk * step / (2 * RANGE * (1 + len(points)))))
    if mean.size > size:
        chunks = [hermite_parts(f, mean[i : i + size], spread, points, step) for i in range(0, mean.size, size)]
        return tuple(np.concatenate(x) for x in zip(*chunks, strict=True))
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
        values = values - first[:, None] - slope[:, None] * z  # subtracted before squaring, to avoid cancellation
        return first, slope, curvature, np.einsum(product, values * values, weight, optimize=True)


def check_growth(role, f, scale):
    """Refuse functions whose square has weight beyond the range of the grids."""
    z, weight = trapezoid(QUADRATURE.step / 4)
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.asarray(f(scale * z), dtype=float) ** 2 * weight
        beyond = np.sum(square[np.abs(z) > 9]) / max(np.sum(square), 1e-300)
    if not beyond <= QUADRATURE.growth_tol:
        fault = "is not finite" if not np.isfinite(beyond) else f"has {beyond:.1e} of its E[f^2] beyond 9 sigma"
        raise ValueError(
            f"{role} grows too fast: at inputs N(0, {scale:.3g}^2) it {fault}; expected less than "
            f"{QUADRATURE.growth_tol:g}. Try a {role} that grows at most like a low power, or smaller r and c."
        )


def relative(a, b):
    """Largest difference, over the largest entry where that exceeds one."""
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1.0))


def unresolved(role, errors):
    """Error with the name of the argument for the jumps and kinks of the student or target."""
    name = "breakpoints" if role == "target" else "student_breakpoints"
    return ValueError(
        f"{role} is not smooth: two quadrature rules differ by {errors[role]:.1e} (relative), expected "
        f"{QUADRATURE.tol:g}. Name its jumps and kinks in {name}=(t_1, ...), e.g. {name}=(0.0,)."
    )
