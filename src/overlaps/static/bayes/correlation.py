"""Correlation function of an activation, its only property that enters the static theory."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._base import check
from ...activations.activation import Activation
from ...activations.families import parts_of
from ...gaussian.quadrature import trapezoid
from ._features import KIND, correlation

__all__ = ["Correlation", "correlation_of"]


class HermiteOptions(NamedTuple):
    """Limits of Hermite series."""

    # Degrees of a smooth activation. The error for tanh is 5e-13 of g(1); fewer degrees enlarge it.
    degrees: int = 101
    # Largest degree in a dictionary; larger ones are refused, because the tables of g grow with it.
    max_given_degree: int = 1000
    # Fraction of E[sigma^2] that may be missing beyond ``degrees``; an activation that misses more is refused.
    missing_tol: float = 1e-9


HERMITE = HermiteOptions()


@dataclass(frozen=True)
class Correlation:
    r"""Correlation function :math:`g(q) = E[\sigma(z_1)\sigma(z_2)]` of Gaussian fields with correlation q.

    .. math:: g(q) = \sum_l c_l q^l, \qquad c_l = E[\sigma\,\mathrm{He}_l]^2 / l! \ge 0

    Made by :func:`correlation_of`. Hashable: the tables of an activation are computed once.

    Parameters
    ----------
    c : tuple of float
        c_0, c_1, c_2, ...; in closed form (``kind`` 1) the scale of relu without degrees 0, 1, 2, and c_2.
    kind : int
        0 for a power series, 1 for relu.
    """

    c: tuple
    kind: int = KIND.series

    @property
    def series(self):
        """Coefficients of g, g', g'' and (g(1) - g) / (1 - q) for the kernels, (4, n)."""
        if self.kind == KIND.relu:
            return np.array([[self.c[0]], [self.c[1]], [0.0], [0.0]])
        c = np.array(self.c)
        series, l = np.zeros((4, c.size)), np.arange(c.size)
        series[0] = c
        series[1, :-1] = (l * c)[1:]
        series[2, :-2] = (l * (l - 1) * c)[2:]
        series[3, :-1] = np.cumsum(c[::-1])[::-1][1:]  # (1 - q^l) / (1 - q) = 1 + q + ... + q^(l-1)
        return series

    @property
    def exponent(self):
        """Information exponent: the lowest degree present (after the removal of degrees 0 and 1, or 0, 1 and 2)."""
        if self.kind == KIND.relu:
            return 2 if self.c[1] else 4
        return int(np.flatnonzero(self.c)[0])

    @property
    def total(self):
        """g(1), the variance of the activation."""
        return correlation(self.kind, self.series, 0.0)[3]

    @property
    def polynomial(self):
        """Coefficients of sigma = sum_l sqrt(c_l / l!) He_l, lowest power first; all signs are chosen positive."""
        c = [math.exp(0.5 * (math.log(x) - math.lgamma(l + 1))) if x else 0.0 for l, x in enumerate(self.c)]
        return np.polynomial.hermite_e.herme2poly(c)

    def __call__(self, q):
        """g(q) for 0 <= q <= 1, of the shape of q."""
        q = np.asarray(q, dtype=float)
        if np.any(~((q >= 0) & (q <= 1))):
            raise ValueError(f"q = {q!r}; expected overlaps between 0 and 1. Other values are no overlaps.")
        series = self.series
        with np.errstate(divide="ignore"):
            t = np.ravel(q / (1 - q))
        values = [self.total if math.isinf(x) else correlation(self.kind, series, x)[0] for x in t]
        return np.reshape(values, q.shape)[()]


def correlation_of(activation, *, remove=None, allow_degree2=False):
    r"""Correlation function of an activation, without the components that carry no information on single features.

    Degree 0 is a constant. Degree 1 sums to one linear direction, is learned from n ~ d samples, and carries no
    information about single features. Degree 2 sums to a matrix of extensive rank: at n ~ d^2 its features do not
    decouple, and the theory is only an *approximation* (exact for k << d with distinct readouts).

    Parameters
    ----------
    activation : Activation, callable, dict or Correlation
        relu and other piecewise-linear activations have a closed form. Smooth functions go through their Hermite series
        (trapezoid rule, 101 degrees). A dict holds the coefficients {l: c_l} of g itself.
    remove : sequence of int, optional
        Degrees taken out of a function, (0, 1, 2) by default. Degrees 0 and 1 are always removed, also from a dict.
    allow_degree2 : bool
        Accept a component of degree 2 (in a dict, or left in by ``remove=(0, 1)``).

    Returns
    -------
    Correlation

    Raises
    ------
    ValueError
        Nothing of degree 3 or more, a component of degree 2 without ``allow_degree2``, negative coefficients, or a
        Hermite series that does not converge.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.static.bayes.correlation import correlation_of
    >>> correlation_of(ov.relu).exponent, round(float(correlation_of(ov.tanh).total), 8)
    (4, 0.02741533)
    """
    if isinstance(activation, Correlation):
        return activation
    if isinstance(activation, dict):
        c = _from_dict(activation)
        removed = {0, 1, *degrees(() if remove is None else remove)}
    elif callable(activation):
        removed = {0, 1, *degrees((0, 1, 2) if remove is None else remove)}
        parts = parts_of(activation) if isinstance(activation, Activation) else None
        if parts is not None and parts.kink:  # relu(x) = x / 2 + |x| / 2
            return _piecewise_linear(activation, parts.kink, removed, allow_degree2)
        c = _hermite(activation.g if isinstance(activation, Activation) else activation)
    else:
        raise _refused(f"activation = {activation!r}; expected an Activation, a function or a dictionary.")
    c = np.array([0.0 if l in removed else x for l, x in enumerate(c)])
    c = c[: np.flatnonzero(c)[-1] + 1] if np.any(c) else c[:0]
    if c.size > 2 and c[2] > 0 and not allow_degree2:
        raise _degree2(activation, c[2])
    if c.size <= 3 and not (c.size == 3 and allow_degree2):
        raise ValueError(
            f"activation = {activation!r} has no component of degree 3 or more; expected one, because lower degrees do "
            "not distinguish features. Try ov.tanh, ov.relu or {3: 1.0}." + check.see("bayes", "Equations")
        )
    return Correlation(tuple(c.tolist()))


def degrees(remove):
    """Checked degrees to remove, one or several."""
    degrees_given = np.iterable(remove) and not isinstance(remove, str | bytes)
    try:
        return tuple(check.count("remove", l, 0) for l in (remove if degrees_given else (remove,)))
    except ValueError:
        raise check.refused("remove", remove, "degrees >= 0. The default is (0, 1, 2).") from None


def _refused(problem):
    given = "The dictionary {l: c_l} of g(x) = sum_l c_l x^l, e.g. {3: 1.0} for He_3 / sqrt(6), works"
    return ValueError(f"{problem} {given} for any activation.")


def _degree2(activation, c2):
    return ValueError(
        f"activation = {activation!r} has a component of degree 2 (c_2 = {c2:.3g}); expected none, because "
        "its features do not decouple at n ~ d^2. Remove it with remove=(0, 1, 2), or accept the approximation with "
        "allow_degree2=True." + check.see("bayes", "Equations")
    )


def _from_dict(coefficients):
    try:
        given = {check.count("l", l, 0): check.number("c_l", x, least=0) for l, x in coefficients.items()}
    except ValueError:
        given = {HERMITE.max_given_degree + 1: 0.0}
    if max(given, default=0) > HERMITE.max_given_degree:
        raise ValueError(
            f"activation = {coefficients!r}; expected {{l: c_l}} with degrees l from 0 to {HERMITE.max_given_degree} "
            "and finite c_l >= 0. c_l is the square of the coefficient of He_l / sqrt(l!) in the activation."
        )
    c = np.zeros(max(given, default=0) + 1)
    c[list(given)] = list(given.values())
    return c


def _piecewise_linear(activation, scale, removed, allow_degree2):
    if removed - {0, 1, 2}:
        raise _refused(
            f"remove = {tuple(sorted(removed))}; expected degrees 0, 1, 2 for a piecewise-linear activation, whose "
            "closed form contains all others."
        )
    c2 = 0.0 if 2 in removed else scale**2 / (4 * math.pi)
    if c2 and not allow_degree2:
        raise _degree2(activation, c2)
    return Correlation((scale**2, c2), KIND.relu)


def _hermite(sigma):
    """c_0, c_1, ... of a smooth function by the trapezoid rule, to rounding for functions analytic in a strip."""
    z, weight = trapezoid(0.01, 18.0)
    try:
        values = np.asarray(sigma(z), dtype=float) + np.zeros_like(z)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"activation = {sigma!r} fails on an array: {error}. Expected a vectorised function; try np.vectorize."
        ) from error
    root = np.sqrt(weight)  # multiplied before squaring, which would overflow
    values = values * root
    if values.shape != z.shape or not np.all(np.isfinite(values)):
        raise _refused(f"activation = {sigma!r} is not finite on [-18, 18]; expected a finite function there.")
    total = values @ values
    c, before, h = np.empty(HERMITE.degrees + 1), np.zeros_like(z), root
    for l in range(HERMITE.degrees + 1):
        c[l] = (values @ h) ** 2
        before, h = h, (z * h - math.sqrt(l) * before) / math.sqrt(l + 1)
    if abs(total - c.sum()) > HERMITE.missing_tol * total:
        raise _refused(
            f"activation = {sigma!r}: its Hermite series misses {abs(total - c.sum()) / total:.1e} of E[sigma^2] after "
            f"degree {HERMITE.degrees}; expected a smooth function, below {HERMITE.missing_tol:g}. Piecewise-linear "
            "functions are ov.relu, ov.leaky_relu, ov.absolute."
        )
    c[c < 1e-24 * total] = 0.0  # squares of rounding errors would change the information exponent
    return tuple(c.tolist())
