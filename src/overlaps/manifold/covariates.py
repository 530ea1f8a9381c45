"""Covariances of inputs and latents from samples, and samplers of both, for :func:`overlaps.gaussian_covariates`.

A sampler is any callable ``(rng, n) -> (X, C)`` with arrays (n, N) and (n, D); those below can be
compared and pickled.
"""

from typing import Any

import numpy as np

from .._base import ArrayLike, Floats, Immutable, check, public_dir

__all__ = ["from_data", "gaussian", "rows"]
__dir__ = public_dir(__name__)


class Rows(Immutable):
    """Sampler that draws rows of a data set with replacement; made by :func:`rows`."""

    X: Any
    C: Any

    def __call__(self, rng, n):
        """Draw n samples X (n, N), C (n, D)."""
        drawn = rng.integers(len(self.X), size=n)
        return self.X[drawn], self.C[drawn]

    def __repr__(self):
        return f"rows(n={len(self.X)}, N={self.X.shape[1]}, D={self.C.shape[1]})"


class JointGaussian(Immutable):
    """Sampler of centred Gaussian pairs; made by :func:`gaussian`."""

    root: Any  # (N + D, rank) of the joint covariance
    N: int

    def __call__(self, rng, n):
        """Draw n samples X (n, N), C (n, D)."""
        both = rng.standard_normal((n, self.root.shape[1])) @ self.root.T
        return both[:, : self.N], both[:, self.N :]

    def __repr__(self):
        return f"gaussian(N={self.N}, D={len(self.root) - self.N})"


def from_data(X: ArrayLike, C: ArrayLike | None = None, *, centre: bool = True) -> "tuple[Floats, Floats, Floats]":
    r"""Covariances of inputs and latents, estimated from samples.

    .. math:: \Omega = \frac1n X^T X, \qquad \Phi = \frac1n X^T C, \qquad \Psi = \frac1n C^T C

    Exact for the data as a population. As estimates of another one they are sample covariances: at n of the order of N
    their eigenvalues spread.

    Parameters
    ----------
    X : array_like, shape (n, N)
        Inputs as rows.
    C : array_like, shape (n, D), optional
        Inputs of the teacher for the same samples; X by default. If the field nu of one teacher is known, take it as C
        with D = M = 1 and W_star = [[1]]. Real labels are no Gaussian field and must not be used as C.
    centre : bool
        Subtract the means, as the theory needs. False is for data that are already centred.

    Returns
    -------
    Omega, Phi, Psi : ndarray, shape (N, N), (N, D), (D, D)
        With divisor n: the covariances of inputs drawn from the rows with replacement, :func:`rows`.

    Raises
    ------
    ValueError
        Shapes that differ, nan, no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.manifold import covariates
    >>> Omega, Phi, Psi = covariates.from_data([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]], [[0.0], [2.0], [1.0]])
    >>> Omega.round(4).tolist(), Phi.ravel().round(4).tolist(), Psi.round(4).tolist()
    ([[0.6667, 0.0], [0.0, 2.0]], [0.6667, 0.0], [[0.6667]])
    """
    X, C = _centred(X, C, centre)
    n = len(X)
    return X.T @ X / n, X.T @ C / n, C.T @ C / n


def rows(X: ArrayLike, C: ArrayLike | None = None, *, centre: bool = True) -> Rows:
    """Sampler of the rows of a data set, drawn with replacement: ``simulate(..., samples=rows(X, C))``.

    Parameters
    ----------
    X, C, centre
        As in :func:`from_data`, whose covariances are exactly those of this sampler.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.manifold import covariates
    >>> X, C = covariates.rows([[1.0, 0.0], [3.0, 0.0]])(np.random.default_rng(1), 5)
    >>> X.shape, np.unique(X[:, 0])
    ((5, 2), array([-1.,  1.]))
    """
    return Rows(*_centred(X, C, centre))


def gaussian(Omega: ArrayLike, Phi: ArrayLike, Psi: ArrayLike) -> JointGaussian:
    """Sampler of centred Gaussian pairs (x, c) with these covariances, as :func:`overlaps.gaussian_covariates` takes.

    Parameters
    ----------
    Omega, Phi, Psi : array_like, shape (N, N), (N, D), (D, D)
        Covariances of the inputs, of inputs and latents, of the latents.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.manifold import covariates
    >>> X, C = covariates.gaussian([[2.0]], [[1.0]], [[0.5]])(np.random.default_rng(1), 4)
    >>> np.allclose(X, 2 * C)  # of correlation one
    True
    """
    Omega, Phi, Psi = checked_blocks(Omega, Phi, Psi)
    values, vectors = np.linalg.eigh(np.block([[Omega, Phi], [Phi.T, Psi]]))
    positive = values > 1e-15 * values[-1]
    return JointGaussian(vectors[:, positive] * np.sqrt(values[positive]), len(Omega))


def checked_blocks(Omega, Phi, Psi):
    """Arrays of the joint covariance of inputs and latents, with checked shapes."""
    Omega = check.array("Omega", Omega, ("N", "N"))
    if Omega.shape[0] != Omega.shape[1] or not Omega.size:
        raise ValueError(f"Omega has shape {Omega.shape}; expected a square matrix.")
    Phi = check.array("Phi", Phi, (len(Omega), "D"), f"Omega has shape {Omega.shape}.", filled=True)
    return Omega, Phi, check.array("Psi", Psi, (Phi.shape[1],) * 2, f"Phi has shape {Phi.shape}.")


def _centred(X, C, centre):
    """Inputs and latents of the same samples, centred."""
    X = check.array("X", X, ("n", "N"))
    C = X if C is None else check.array("C", C, (len(X), "D"), f"X has shape {X.shape}.")
    if 0 in (*X.shape, *C.shape):
        raise ValueError(f"X and C have shapes {X.shape} and {C.shape}; expected samples as rows.")
    return (X - X.mean(axis=0), C - C.mean(axis=0)) if check.flag("centre", centre) else (X, C)
