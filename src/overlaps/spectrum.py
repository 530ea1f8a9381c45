"""Spectra of the input covariance: eigenvalues and the fraction of directions that have them."""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from . import _check
from ._record import Record

__all__ = ["Spectrum", "isotropic", "power_law"]


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Record):
    r"""Eigenvalues of the input covariance with their weights.

    .. math:: \mathrm{Cov}(x) = \sum_l s_l P_l, \qquad p_l = \mathrm{tr} P_l / N

    The right-hand side of the order parameters sees the data through ``s`` and ``p`` and through nothing else.

    Parameters
    ----------
    s : array_like, shape (L,)
        Eigenvalues, >= 0.
    p : array_like, shape (L,), optional
        Weights >= 0 that sum to one; equal weights by default.

    Raises
    ------
    ValueError
        Negative or non-finite entries, shapes that differ, weights that do not sum to one.

    Notes
    -----
    Eigenvalues are kept as given: equal ones are not merged, and s = 0 or p = 0 are legal.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.Spectrum(s=[3.0, 0.5], p=[0.2, 0.8]).mean
    1.0
    """

    s: Any  # array_like in, read-only float array once checked
    p: Any = None
    name: str = "Spectrum"

    def __post_init__(self):
        s = _check.array("s", self.s, ("L",))
        p = _check.array("p", np.full(s.size, 1 / max(s.size, 1)) if self.p is None else self.p, (s.size,))
        if s.size == 0:
            raise ValueError("s is empty; expected at least one eigenvalue.")
        if np.any(s < 0) or np.any(p < 0):
            raise ValueError(f"s >= 0 and p >= 0 expected; the lowest are s = {s.min():.6g}, p = {p.min():.6g}.")
        if abs(p.sum() - 1) > 1e-10:
            raise ValueError(f"the weights p sum to {p.sum():.12g}; expected 1. Try p / p.sum().")
        object.__setattr__(self, "s", s)
        object.__setattr__(self, "p", p)

    @property
    def L(self):
        """Number of blocks."""
        return self.s.size

    @property
    def mean(self):
        """Mean eigenvalue, sum_l p_l s_l: the variance of a typical input coordinate."""
        return float(self.p @ self.s)

    def block_sizes(self, N):
        """Multiplicities n_l = p_l N as integers (L,): the x-space layout at input dimension N.

        Block l is made of n_l consecutive coordinates, in the order of ``s``.

        Raises
        ------
        ValueError
            Some p_l N is not an integer; the message names the nearest N for which all are.
        """
        N = _check.count("N", N)
        sizes = np.rint(self.p * N).astype(int)
        if np.allclose(sizes, self.p * N, rtol=0, atol=1e-6) and sizes.sum() == N:
            return sizes
        unit = lcm(*(Fraction(float(p)).limit_denominator(10**6).denominator for p in self.p))
        nearest = max(1, round(N / unit)) * unit
        raise ValueError(f"N = {N} does not split into whole blocks n_l = p_l N; try N = {nearest}.")

    def __repr__(self):
        if self.name != "Spectrum":
            return self.name
        return f"Spectrum(L={self.L}, s in [{self.s.min():.4g}, {self.s.max():.4g}], mean {self.mean:.4g})"


def isotropic():
    """Uncorrelated inputs of unit variance: one block, s = p = 1.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.isotropic()
    isotropic()
    """
    return Spectrum([1.0], [1.0], name="isotropic()")


def power_law(*, beta, L):
    r"""Power-law spectrum with L distinct eigenvalues of equal weight and mean one.

    .. math:: s_l = s_1 l^{-(1+\beta)}, \qquad s_1 = L / \sum_{k=1}^L k^{-(1+\beta)}

    Parameters
    ----------
    beta : float
        Exponent, > 0.
    L : int
        Number of distinct eigenvalues.

    References
    ----------
    Worschech and Rosenow (2024), arXiv:2410.09005, Eq. (1).

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.power_law(beta=1.0, L=4).s.round(4)
    array([2.8098, 0.7024, 0.3122, 0.1756])
    """
    beta = _check.number("beta", beta, above=0)
    L = _check.count("L", L)
    s = np.arange(1.0, L + 1) ** -(1 + beta)
    return Spectrum(s * (L / s.sum()), name=f"power_law(beta={beta:g}, L={L})")
