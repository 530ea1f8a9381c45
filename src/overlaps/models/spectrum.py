"""Spectra of the input covariance: eigenvalues and the fraction of directions that have them."""

from fractions import Fraction
from math import lcm
from typing import Any, ClassVar

import numpy as np

from .._base import ArrayLike, Immutable, Integers, by_name, check

# Eigenvalues closer than this, relative to the largest, are merged, because the error of eigh is about N 1e-16. Ten
# times larger, eigenvalues that a model distinguishes might be merged.
EIGENVALUE_TOL = 1e-12


class Spectrum(Immutable):
    r"""Eigenvalues of the input covariance with their weights.

    .. math:: \mathrm{Cov}(x) = \sum_l s_l P_l, \qquad p_l = \mathrm{tr} P_l / N

    The right-hand side of the order parameters depends on the data only through ``s`` and ``p``.

    Parameters
    ----------
    s : array_like, shape (L,)
        Eigenvalues, >= 0.
    p : array_like, shape (L,), optional
        Weights >= 0 that sum to one; equal weights by default.
    name : str
        How the spectrum is printed.
    basis : array_like, shape (N, N), optional
        Orthonormal eigenvectors of a given covariance as columns: block l has n_l = p_l N consecutive ones, in the
        order of ``s``. Explicit weights (``State.from_weights``) are then in the original coordinates. By default the
        unit vectors.

    Raises
    ------
    ValueError
        Negative or non-finite entries, shapes that differ, weights that do not sum to one, a basis that is not
        orthonormal or does not split into blocks.

    Notes
    -----
    Exact for any covariance: only (s, p) enter the dynamics. Equal eigenvalues are not merged
    (:meth:`from_covariance` does), and s = 0 or p = 0 are allowed.

    References
    ----------
    Yoshida and Okada (2019); Goldt et al. (2020), arXiv:1909.11500, for overlaps on eigenspaces of the inputs.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.Spectrum(s=[3.0, 0.5], p=[0.2, 0.8]).mean
    1.0
    """

    s: Any  # array_like in, read-only float array once checked
    p: Any = None
    name: str = "Spectrum"
    basis: Any = None

    of_model: ClassVar[bool] = False  # whether it is computed from the parameters of a model, and changes with them

    def __post_init__(self):
        s = check.array("s", self.s, ("L",))
        p = check.array("p", np.full(s.size, 1 / max(s.size, 1)) if self.p is None else self.p, (s.size,))
        if s.size == 0:
            raise ValueError("s is empty; expected at least one eigenvalue.")
        if np.any(s < 0) or np.any(p < 0):
            raise ValueError(f"s >= 0 and p >= 0 expected; the lowest are s = {s.min():.6g}, p = {p.min():.6g}.")
        if abs(p.sum() - 1) > 1e-10:
            raise ValueError(f"the weights p sum to {p.sum():.12g}; expected 1. Try p / p.sum().")
        if not isinstance(self.name, str):
            raise check.refused("name", self.name, "a string, shown in place of the eigenvalues.")
        self._set(s=s, p=p)
        if self.basis is not None:
            basis = check.array("basis", self.basis, ("N", "N"))
            N = basis.shape[1]
            if basis.shape[0] != N or not np.allclose(basis.T @ basis, np.eye(N), rtol=0, atol=1e-8):
                raise ValueError(f"basis has shape {basis.shape}; expected N orthonormal columns of length N.")
            self._set(basis=basis)
            self.block_sizes(N)

    @classmethod
    @by_name("ov.Spectrum.from_covariance(matrix)")
    def from_covariance(
        cls,
        Sigma: ArrayLike | None = None,
        *,
        data: ArrayLike | None = None,
        shrinkage: float = 0.0,
        rank: int | None = None,
        centre: bool = True,
    ) -> "Spectrum":
        r"""Spectrum and eigenvectors of any covariance matrix, given or estimated from data.

        .. math:: \Sigma = \sum_l s_l P_l, \qquad \text{or}\quad
            \Sigma = \frac1n \sum_{\mu=1}^n (x_\mu - \bar x)(x_\mu - \bar x)^T

        Eigenvalues descend; those within 1e-12 of the largest of each other are merged into one block.

        Parameters
        ----------
        Sigma : array_like, shape (N, N)
            Symmetric and positive semi-definite. Either this or ``data``.
        data : array_like, shape (n, N)
            Samples as rows. The divisor is n: this is the covariance of inputs drawn from the rows with replacement.
            Only the covariance is used: ``solve`` and ``simulate`` take *Gaussian* inputs.
        shrinkage : float
            In [0, 1]: (1 - shrinkage) Sigma + shrinkage tr(Sigma)/N identity, for few samples.
        rank : int, optional
            Number of leading eigenvalues that are kept; the others are replaced by their mean, to conserve the trace.
        centre : bool
            Subtract the mean of the data (the theory is for centred inputs).

        Returns
        -------
        Spectrum
            With ``basis``; for this N only.

        Raises
        ------
        ValueError
            Neither or both of Sigma and data, not square, not symmetric, not positive semi-definite, nan.

        References
        ----------
        Ledoit and Wolf (2004), J. Multivar. Anal. 88, 365, for the shrinkage.

        Examples
        --------
        >>> import numpy as np, overlaps as ov
        >>> spectrum = ov.Spectrum.from_covariance([[2.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 1.5]])
        >>> spectrum.s.round(6), spectrum.p.round(6)
        (array([2.5, 1.5]), array([0.333333, 0.666667]))
        """
        if (Sigma is None) == (data is None):
            got = "neither" if data is None else "both"
            raise ValueError(f"got {got}; expected either a covariance matrix Sigma or data=, with samples as rows.")
        check.flag("centre", centre)
        Sigma = _covariance(data, centre) if Sigma is None else check.array("Sigma", Sigma, ("N", "N"))
        N = Sigma.shape[1]
        if Sigma.shape[0] != N or N == 0:
            raise ValueError(f"Sigma has shape {Sigma.shape}; expected a square matrix. Samples as rows go to data=.")
        check.symmetric("Sigma", Sigma)
        shrinkage = check.number("shrinkage", shrinkage, least=0, most=1)
        rank = N if rank is None else check.count("rank", rank, least=0)
        values, vectors = np.linalg.eigh((Sigma + Sigma.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        if values[-1] < -check.LIMITS.psd_tol * np.sum(np.abs(values)):
            raise ValueError(f"Sigma is not positive semi-definite: its lowest eigenvalue is {values[-1]:.3g}.")
        values = np.where(values > EIGENVALUE_TOL * values[0], values, 0.0)  # zero within the error of eigh
        values = (1 - shrinkage) * values + shrinkage * values.mean()
        if rank < N:
            values[rank:] = values[rank:].mean()
        edges = block_edges(values)
        s, n = np.add.reduceat(values, edges), np.diff([*edges, N])
        return cls(s / n, n / N, f"from_covariance(N={N}, L={len(n)})", vectors)

    @property
    def L(self) -> int:
        """Number of blocks."""
        return self.s.size

    @property
    def mean(self) -> float:
        """Mean eigenvalue, sum_l p_l s_l: the variance of a typical input coordinate."""
        return float(self.p @ self.s)

    def block_sizes(self, N: int) -> Integers:
        """Multiplicities n_l = p_l N as integers (L,): the x-space layout at input dimension N.

        Block l is made of n_l consecutive coordinates, in the order of ``s``.

        Raises
        ------
        ValueError
            Some p_l N is not an integer; the message names the nearest N for which all are. Or the spectrum has
            eigenvectors, which fix N.
        """
        N = check.count("N", N)
        if self.basis is not None and N != len(self.basis):
            raise ValueError(
                f"N = {N}; expected N = {len(self.basis)}, the dimension of the eigenvectors of this spectrum. "
                "Try Spectrum(spectrum.s, spectrum.p), which has none."
            )
        sizes = np.rint(self.p * N).astype(int)
        if np.allclose(sizes, self.p * N, rtol=0, atol=1e-6) and sizes.sum() == N:
            return sizes
        unit = lcm(*(Fraction(float(p)).limit_denominator(10**6).denominator for p in self.p))
        nearest = max(1, round(N / unit)) * unit
        hint = f"try N = {nearest}." if nearest < 1e9 else "nor does any near it (compressed spectra stand for none)."
        raise ValueError(f"N = {N} does not split into whole blocks n_l = p_l N; {hint}")

    def __repr__(self):
        if self.name != "Spectrum":
            return self.name
        return f"Spectrum(L={self.L}, s in [{self.s.min():.4g}, {self.s.max():.4g}], mean {self.mean:.4g})"


def _covariance(data, centre):
    """Second moments (N, N) of the rows of data (n, N), about their mean if ``centre``."""
    X = check.array("data", data, ("n", "N"))
    if len(X) < 1 + bool(centre):
        raise ValueError(f"data has shape {X.shape}; expected samples as rows, at least {1 + bool(centre)}.")
    X = X - X.mean(axis=0) if centre else X
    return X.T @ X / len(X)


def block_edges(values):
    """First index of each group of equal entries in a descending array."""
    return [0, *(1 + np.flatnonzero(-np.diff(values) > EIGENVALUE_TOL * values[0])).tolist()]


@by_name("ov.isotropic()")
def isotropic() -> "Spectrum":
    """Uncorrelated inputs of unit variance: one block, s = p = 1.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.isotropic()
    isotropic()
    """
    return Spectrum([1.0], [1.0], name="isotropic()")


@by_name("ov.power_law(beta=1.0, L=100)")
def power_law(*, beta: float, L: int) -> "Spectrum":
    r"""Power-law spectrum with L distinct eigenvalues of equal weight and mean one.

    .. math:: s_l = s_1 l^{-(1+\beta)}, \qquad s_1 = L / \sum_{k=1}^L k^{-(1+\beta)}

    Parameters
    ----------
    beta : float
        Exponent, > 0.
    L : int
        Number of distinct eigenvalues.

    Returns
    -------
    Spectrum
        Descending eigenvalues, each of weight p_l = 1/L: N is a multiple of L, n_l = N/L.

    Raises
    ------
    ValueError
        beta that is not positive, L that is no integer >= 1.

    Notes
    -----
    This is a definition, for inputs of unit mean variance. The tail is cut at l = L; see ``overlaps.theory`` for the
    limits beta -> 0 and L -> infinity.

    References
    ----------
    Worschech and Rosenow (2024), arXiv:2410.09005, Eq. (1).

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.power_law(beta=1.0, L=4).s.round(4)
    array([2.8098, 0.7024, 0.3122, 0.1756])
    """
    beta = check.number("beta", beta, above=0)
    L = check.count("L", L)
    s = np.arange(1.0, L + 1) ** -(1 + beta)
    return Spectrum(s * (L / s.sum()), name=f"power_law(beta={beta:g}, L={L})")
