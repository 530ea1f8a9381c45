"""Feature maps of the hidden manifold: scalar functions and the three Gaussian averages in the theory."""

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from .._base import Immutable, check
from .._base.jit import jit
from ..activations import library as activations
from ..activations.activation import check_vectorised
from ..gaussian.quadrature import adaptive, trapezoid
from ..gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU, two_point

__all__ = ["FeatureMap", "FeatureStatistics", "feature_map", "statistics"]


class AverageOptions(NamedTuple):
    """Tunable numbers of the Gaussian averages of user functions."""

    # Range of integration in standard deviations. The Gaussian weight outside is below 1e-32; at half the range it
    # would be 2e-9, and twice the range costs more evaluations only.
    max_z: float = 12.0
    # Error of an integral relative to the largest one. Halved, functions with rounding errors fail more often.
    rtol: float = 1e-12


AVERAGES = AverageOptions()


class _Averages(NamedTuple):
    a: float
    b: float
    c: float


class FeatureStatistics(_Averages):
    """Gaussian averages (a, b, c) of a feature map f; ``zeta`` is the variance of its non-linear term."""

    variance: float  # c - a^2, without the rounding error of this difference for a large constant in f

    def __new__(cls, a, b, c, variance=None):
        """The triple; give ``variance`` if it is known more accurately than the difference c - a^2."""
        self = super().__new__(cls, a, b, c)
        self.variance = c - a**2 if variance is None else variance
        return self

    @property
    def zeta(self):
        """Variance of the non-linear term of f, c - a^2 - b^2 >= 0."""
        rest = self.variance - self.b**2
        # relative errors of the integrals and of rounding in f
        tol = 10 * AVERAGES.rtol + 100 * np.finfo(float).eps * abs(self.a) / math.sqrt(self.variance or 1.0)
        return float(rest) if rest > tol * self.variance else 0.0


@jit
def table(code, S):
    """E[f(U_i) f(U_j)] (N, N), E[f(U_i)], E[f'(U_i)] (N,), E[f'(U_i) f'(U_j)] for U ~ N(0, S) and the f of a code."""
    N = len(S)
    ff, mean, slope, dd = np.empty((N, N)), np.empty(N), np.empty(N), np.empty((N, N))
    for i in range(N):
        for j in range(i + 1):
            ff[i, j], dd[i, j], _, _ = two_point(code, code, S[i, i], S[j, j], S[i, j])
            ff[j, i], dd[j, i] = ff[i, j], dd[i, j]
        mean[i] = 0.5 * two_point(code, QUADRATIC, S[i, i], 1.0, 0.0)[3]  # the second derivative of x^2 is 2
        slope[i] = two_point(code, LINEAR, S[i, i], 1.0, 0.0)[1]
    return ff, mean, slope, dd


# Moments of the named maps: covariance S (N, N) of U -> E[f(U_i) f(U_j)] (N, N), E[f(U_i)] and E[f'(U_i)] (N,).


def _absolute_moments(S):
    """|x| = 2 relu(x) - x."""
    ff, mean, _, _ = table(RELU, S)
    return 4 * ff - S, 2 * mean, 0 * mean


def _sign_moments(S):
    """The derivative of |x|, and E[sign'(U)] = E|U| / var U."""
    _, mean, _, dd = table(RELU, S)
    return 4 * dd - 1, 0 * mean, 2 * mean / np.diag(S)


NAMED_MAPS: dict[str, tuple[Callable, tuple[float, ...], Callable]] = {  # f, its kinks, its moments
    "sign": (np.sign, (0.0,), _sign_moments),
    "erf": (activations.erf.g, (), lambda S: table(ERF, S)[:3]),
    "relu": (activations.relu.g, (0.0,), lambda S: table(RELU, S)[:3]),
    "linear": (activations.linear.g, (), lambda S: table(LINEAR, S)[:3]),
    "abs": (np.abs, (0.0,), _absolute_moments),
}


class FeatureMap(Immutable):
    """A function f applied to every entry of U = F c / sqrt(D), with its averages over u ~ N(0, scale^2).

    Made by :func:`feature_map`. Calling it gives f(u), without centring: the inputs of the theory are f(u) - a.

    Parameters
    ----------
    name : str
        "sign", "erf", "relu", "linear", "abs", or the name of a user function.
    function : callable
        Vectorised f(u).
    kinks : tuple of float
        Points at which f or its derivative jumps.
    scale : float
        Standard deviation of u, equal to that of one latent coordinate.
    """

    name: str
    function: Callable[..., Any]
    kinks: tuple[float, ...] = ()
    scale: float = 1.0
    statistics: FeatureStatistics = field(init=False, compare=False, repr=False)

    def __post_init__(self):
        self._set(scale=check.number("latent_scale", self.scale, above=0))
        self._set(statistics=_statistics(self))

    def __call__(self, u):
        """f(u), elementwise."""
        return self.function(u)

    a = property(lambda self: self.statistics.a, doc="Mean E[f(u)], which is subtracted from the inputs.")
    b = property(lambda self: self.statistics.b, doc="Linear part E[z f(scale z)], z ~ N(0, 1).")
    c = property(lambda self: self.statistics.c, doc="Second moment E[f(u)^2].")
    zeta = property(lambda self: self.statistics.zeta, doc="Variance of the non-linear term of f, c - a^2 - b^2.")

    @property
    def named(self):
        """Whether f is one of the built-in maps, with moments in closed form."""
        return self.name in NAMED_MAPS and self.function is NAMED_MAPS[self.name][0]

    def moments(self, S):
        """E[f(U_i) f(U_j)] (N, N), E[f(U_i)] and E[f'(U_i)] (N,) of a named map, for U ~ N(0, S)."""
        return NAMED_MAPS[self.name][2](S)

    def __repr__(self):
        return self.name


def feature_map(features, kinks=(), scale=None):
    """Feature map from a name, a function, an Activation or another feature map.

    Parameters
    ----------
    features : str, callable or FeatureMap
        "sign", "erf" (of u / sqrt(2)), "relu", "linear", "abs", or a vectorised function.
    kinks : sequence of float
        Points at which a user function, or its derivative, jumps.
    scale : float, optional
        Standard deviation of u; by default that of a FeatureMap, 1 otherwise.

    Returns
    -------
    FeatureMap

    Raises
    ------
    ValueError
        An unknown name, a function that is not vectorised or not finite, or whose averages cannot be computed.

    Examples
    --------
    >>> from overlaps.manifold.feature_map import feature_map
    >>> f = feature_map("relu")
    >>> f, round(f.b, 6), round(f.zeta, 6)
    (relu, 0.5, 0.090845)
    """
    if isinstance(features, FeatureMap):
        same = scale is None or scale == features.scale
        return features if same else FeatureMap(features.name, features.function, features.kinks, scale)
    scale = 1.0 if scale is None else scale
    kinks = tuple(check.array("kinks", np.atleast_1d(check.floats("kinks", kinks)), ("n",)).tolist())
    if isinstance(features, str):
        check.choice("features", features, NAMED_MAPS, "Or a vectorised function.")
        if kinks:
            raise ValueError(
                f"kinks = {kinks} with features = {check.shown(features)}; expected them with a user function only."
            )
        function, kinks, _ = NAMED_MAPS[features]
        return FeatureMap(features, function, kinks, scale)
    check_vectorised("features", features)
    name = getattr(features, "name", None) or getattr(features, "__name__", "function")
    return FeatureMap(str(name), features, kinks, scale)


def statistics(features, kinks=(), scale=1.0):
    r"""Averages of a feature map over Gaussian pre-activations.

    .. math:: a = E[f(u)], \quad b = E[z f(\sigma z)], \quad c = E[f(u)^2], \qquad
              u = \sigma z,\ z \sim N(0, 1)

    Exact for the named maps; other functions by adaptive quadrature to 1e-12.

    The theory is for **centred** inputs, x = f(U) - a. Uncentred inputs have a mean vector of squared norm a^2 N: the
    mean of a student's field then jumps by a^2 F_k, of order one, in every step. This noise does not average out, and
    no closed equation in alpha = steps / N describes it. A smaller learning rate does not remove it. Source:
    Goldt, Mezard, Krzakala and Zdeborova (2020), Phys. Rev. X 10, 041044, arXiv:1909.11500; Bae and Jeong (2024),
    arXiv:2405.00642, (12) = (S13).

    Parameters
    ----------
    features : str, callable or FeatureMap
        As in :func:`feature_map`.
    kinks : sequence of float
        Points at which a user function, or its derivative, jumps: edges of the panels of integration.
    scale : float
        Standard deviation sigma of u; 1 for standard latents.

    Returns
    -------
    FeatureStatistics
        ``(a, b, c)``, with ``zeta`` = c - a^2 - b^2.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.manifold.feature_map import statistics
    >>> statistics("erf").c, round(statistics(np.tanh).b, 10)
    (0.333333..., 0.6057055096)
    """
    return feature_map(features, kinks, scale).statistics


def _statistics(features):
    """(a, b, c) of a feature map: closed forms for named maps, integrals for user functions."""
    s = features.scale
    if features.named:
        c, a, slope = (x.item() for x in features.moments(np.array([[s * s]])))
        return FeatureStatistics(a, s * slope, c)  # Stein: E[z f(s z)] = s E[f'(s z)]
    a0, size = _offset_and_unit(features)

    def moments(z, f):
        f = (f - a0) / size
        return np.array([f, z * f, f * f])

    noise = 10 * np.finfo(float).eps * abs(a0) / size
    mean, slope, second = (float(x) for x in gauss_average(features, moments, noise))
    a, b, variance = a0 + size * mean, size * slope, size**2 * (second - mean**2)
    c = variance + a * a if a0 else size**2 * second
    ends = np.asarray(features.function(s * AVERAGES.max_z * np.array([-1.0, 1.0])), dtype=float) - a0
    edge = float(np.max(ends**2)) * np.exp(-0.5 * AVERAGES.max_z**2) / np.sqrt(2 * np.pi)
    if not edge <= AVERAGES.rtol * (variance if a0 else c):
        raise ValueError(
            f"features = {features.name} grow too fast: E[f(u)^2] at u ~ N(0, {s:g}^2) has a density of {edge / c:.1e} "
            f"(relative) at {AVERAGES.max_z:g} standard deviations, expected less than {AVERAGES.rtol:g}. Try a "
            "function that grows at most like a low power, or a smaller latent_scale."
        )
    if second - mean**2 <= 10 * AVERAGES.rtol * second:
        raise ValueError(f"features = {features.name} is constant; expected a function that varies.")
    return FeatureStatistics(a, b, c, variance)


def _offset_and_unit(features):
    """A constant to subtract from f, and a unit: estimates of mean and spread if the mean is larger, else 0 and 1."""
    z, weight = trapezoid(AVERAGES.max_z / 500, AVERAGES.max_z)
    with np.errstate(all="ignore"):  # ``_statistics`` raises an error for functions that grow too fast
        f = np.asarray(features.function(features.scale * z), dtype=float)
        mean = weight @ f
        size = np.sqrt(weight @ (f - mean) ** 2)
    return (float(mean), float(size)) if 3 * size < abs(mean) < 1e14 * size else (0.0, 1.0)


def gauss_average(features, moments, noise=1e-200) -> Any:
    """E[moments(z, f(scale z))], z ~ N(0, 1), by adaptive quadrature; ``noise`` is the rounding error in f."""
    s = features.scale
    value, failure_reason = adaptive(
        lambda z: moments(z, float(features.function(np.array([s * z]))[0])),
        [k / s for k in features.kinks], AVERAGES.max_z, relative=AVERAGES.rtol, absolute=noise,
    )  # fmt: skip
    if failure_reason:
        raise ValueError(
            f"the Gaussian averages of features = {features.name} do not converge: {failure_reason} Expected a "
            "function with few jumps; name them in kinks=, e.g. kinks=[0.0]."
        )
    return value
