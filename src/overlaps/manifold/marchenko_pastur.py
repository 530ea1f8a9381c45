"""Gauss quadrature of the Marchenko-Pastur law, the spectrum of random feature matrices in the limit of large sizes."""

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._base import check

__all__ = ["feature_eigenvalues", "mp_gauss"]


def mp_gauss(y, nodes):
    r"""Gauss quadrature of the Marchenko-Pastur law with mean one.

    .. math:: \rho(x) = \frac{\sqrt{(x_+ - x)(x - x_-)}}{2\pi y x}, \quad x_\pm = (1 \pm \sqrt y)^2, \qquad
              \sum_i w_i f(x_i) = \int \rho(x) f(x)\, dx

    Its recurrence coefficients are constant: the nodes are the eigenvalues of the tridiagonal matrix with diagonal (1,
    1 + y, 1 + y, ...) and off-diagonal sqrt(y), the weights the squared first components of the eigenvectors. Exact for
    polynomials of degree up to 2 n - 1. Source: Marchenko and Pastur (1967), Math. USSR Sb. 1, 457; Golub and Welsch
    (1969), Math. Comp. 23, 221.

    Parameters
    ----------
    y : float
        Aspect ratio, 0 < y <= 1.
    nodes : int
        Number of nodes n.

    Returns
    -------
    x, w : ndarray, shape (n,)
        Ascending nodes and weights, which sum to one.

    Raises
    ------
    ValueError
        y outside (0, 1], nodes < 1.

    Examples
    --------
    >>> from overlaps.manifold.marchenko_pastur import mp_gauss
    >>> x, w = mp_gauss(0.5, 3)
    >>> x.round(6), w.round(6)
    (array([0.328538, 1.264658, 2.406803]), array([0.448378, 0.415844, 0.135777]))
    """
    y, nodes = check.number("y", y, above=0), check.count("nodes", nodes)
    if y > 1:
        raise ValueError(f"y = {y:g}; expected 0 < y <= 1. For y > 1 take x/y with the law of 1/y, plus an atom at 0.")
    diagonal = np.full(nodes, 1 + y)
    diagonal[0] = 1.0
    x, vectors = eigh_tridiagonal(diagonal, np.full(nodes - 1, np.sqrt(y)))
    return np.maximum(x, 0.0), vectors[0] ** 2


def feature_eigenvalues(ratio, nodes):
    r"""Gauss nodes of the eigenvalues of F F^T / D, for a feature matrix F (N, D) of independent entries.

    For a ratio below one, N - D eigenvalues are zero: an atom, the first node. Exact for N -> infinity at fixed D / N,
    up to the error of the quadrature.

    Parameters
    ----------
    ratio : float
        D / N > 0.
    nodes : int
        Gauss nodes, the atom not counted.

    Returns
    -------
    mu, p : ndarray, shape (L,)
        Eigenvalues and weights; both sum p and sum p mu are one.

    Raises
    ------
    ValueError
        ratio <= 0, nodes < 1.

    Examples
    --------
    >>> from overlaps.manifold.marchenko_pastur import feature_eigenvalues
    >>> feature_eigenvalues(0.5, 1)
    (array([0., 2.]), array([0.5, 0.5]))
    """
    ratio = check.number("ratio", ratio, above=0, hint="It is D / N, latent over input dimension.")
    if ratio >= 1:
        return mp_gauss(1 / ratio, nodes)
    x, w = mp_gauss(ratio, nodes)
    return np.concatenate([[0.0], x / ratio]), np.concatenate([[1 - ratio], ratio * w])
