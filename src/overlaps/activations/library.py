"""Activations of the library: erf, relu, linear, quadratic, |x|, tanh, sign, leaky relu, polynomials."""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from .._base import ArrayLike, by_name, check
from .activation import Activation
from .kernels import CODES
from .polynomials import Polynomial
from .sums import ScaledSum

__all__ = ["absolute", "erf", "leaky_relu", "linear", "polynomial", "quadratic", "relu", "sign", "tanh"]


@by_name("ov.polynomial([0, 0, 1])")
def polynomial(coefficients: ArrayLike) -> Activation:
    r"""Polynomial activation :math:`g(x) = \sum_p c_p x^p`, with exact integrals.

    Parameters
    ----------
    coefficients : sequence of float
        c_0, c_1, ..., lowest power first.

    Returns
    -------
    Activation

    Raises
    ------
    ValueError
        No coefficients, or coefficients that are not finite numbers.

    Notes
    -----
    Exact with every activation but those of :meth:`Activation.from_function`, as student and as teacher.

    Examples
    --------
    >>> import overlaps as ov
    >>> hermite = ov.polynomial([0, -3, 0, 1])
    >>> hermite, float(hermite(2.0))
    (polynomial(0, -3, 0, 1), 2.0)
    """
    values = check.floats("coefficients", coefficients, "finite numbers c_0, c_1, ..., e.g. [0, -3, 0, 1]")
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise check.refused(
            "coefficients", coefficients, "finite numbers c_0, c_1, ..., lowest power first, e.g. [0, -3, 0, 1]."
        )
    g = Polynomial(tuple(values.tolist()))
    name = f"polynomial({', '.join(f'{c:g}' for c in values)})"
    return Activation(name, g, g.derivative(), g.derivative().derivative())


@dataclass(frozen=True)
class Hinge:
    """``above`` where x > 0 and ``below`` elsewhere; times x if ``linear``."""

    above: float
    below: float
    linear: bool

    def __call__(self, x):
        slope = np.where(np.asarray(x) > 0, self.above, self.below)
        return slope * x if self.linear else slope

    @property
    def recipe(self):
        """Entry of a file: (function that makes the activation, its parameter)."""
        return "leaky_relu", self.below


@by_name("ov.leaky_relu(0.1)")
def leaky_relu(slope: float = 0.01) -> Activation:
    r"""Leaky relu, :math:`g(x) = x` for x > 0 and slope x otherwise, with closed-form integrals.

    Parameters
    ----------
    slope : float
        Slope on the negative side; 0 is relu, 1 is linear, -1 is the absolute value.

    Returns
    -------
    Activation

    Raises
    ------
    ValueError
        A slope that is not a finite number.

    Notes
    -----
    Exact: g(x) = relu(x) - slope relu(-x), two relu units with opposite fields.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.leaky_relu(0.5)(np.array([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """
    slope = check.number("slope", slope, hint="Try leaky_relu(0.01).")
    return _piecewise_linear(f"leaky_relu({slope:g})", slope)


def _piecewise_linear(name, slope):
    mixture = ScaledSum(CODES.relu, (1.0, -slope), (1.0, -1.0)) if slope else ScaledSum(CODES.relu)
    kinks = (0.0,) if slope != 1 else ()
    return Activation(name, Hinge(1.0, slope, True), Hinge(1.0, slope, False), mixture=mixture, kinks=kinks)


def _erf_g(x):
    return scipy.special.erf(np.asarray(x) / np.sqrt(2))


def _erf_dg(x):
    return np.sqrt(2 / np.pi) * np.exp(-0.5 * np.square(x))


def _erf_d2g(x):
    return -np.asarray(x) * _erf_dg(x)


def _relu_g(x):
    return np.maximum(x, 0.0)


def _relu_dg(x):
    return np.where(np.asarray(x) > 0, 1.0, 0.0)


def _zero(x):
    return np.zeros_like(x, dtype=float)


def _tanh_dg(x):
    return 1.0 - np.tanh(x) ** 2


def _tanh_d2g(x):
    return -2.0 * np.tanh(x) * _tanh_dg(x)


erf = Activation("erf", _erf_g, _erf_dg, _erf_d2g, code=CODES.erf)
relu = Activation("relu", _relu_g, _relu_dg, code=CODES.relu, kinks=(0.0,))
linear = replace(polynomial([0.0, 1.0]), name="linear", code=CODES.linear)
quadratic = replace(polynomial([0.0, 0.0, 1.0]), name="quadratic", code=CODES.quadratic)
absolute = _piecewise_linear("absolute", -1.0)
sign = Activation("sign", np.sign, _zero, code=CODES.sign)  # for teachers only: students of signs have no gradient

# Four error functions, largest error 1.0e-5, from fit_erf_mixture(np.tanh). With partners in closed form all integrals,
# eps_g included, are those of the mixture, so that eps_g and C vanish together.
_mixture = ScaledSum(
    CODES.erf, amplitudes=(0.06408680688398291, 0.3753243319717593, 0.4543916506908248, 0.10619341521887926),
    scales=(0.6467694009992874, 0.954672149160683, 1.400011554309177, 2.046282088063843), error=1.0035436933314434e-05,
)  # fmt: skip
tanh = Activation("tanh", np.tanh, _tanh_dg, _tanh_d2g, mixture=_mixture)

NAMED = {x.name: x for x in (erf, relu, tanh, linear, quadratic, absolute, sign)}


def named(role, value, example="or ov.Activation.from_function(g, dg)"):
    """An activation, given as itself or by its name."""
    if isinstance(value, str) and value in NAMED:
        return NAMED[value]
    if not isinstance(value, Activation):
        names = ", ".join(map(repr, NAMED))
        raise check.refused(role, value, f"one of {names}, ov.leaky_relu(0.1), {example}.")
    return value
