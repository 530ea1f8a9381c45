"""One realisation of the hidden manifold: second moments of its inputs and the exact overlaps of given weights."""

from dataclasses import replace
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import hermite_e

from .._base import ArrayLike, check
from ..analysis.compression import compress
from ..models.spectrum import EIGENVALUE_TOL, Spectrum
from ..models.state import State
from .feature_map import feature_map, gauss_average
from .gaussian_covariates import on_modes

__all__ = ["normalise_feature_rows", "realise", "second_moments"]


class MomentOptions(NamedTuple):
    """Tunable numbers of the second moments of the inputs."""

    # Deviation of the squared length of a row of F from D, relative to D, above which the row is not normalised: an
    # error. The moments have errors of this size, so twice the value means twice the error.
    row_tol: float = 1e-6
    # Terms of the covariance of user features, a power series in the correlation of their arguments. Twice as many
    # allow stronger correlations, in twice the time.
    hermite_terms: int = 60
    # Remainder of that series above which the covariance is not computed: an error. It bounds the error of the result.
    hermite_tol: float = 1e-10


MOMENTS = MomentOptions()


def normalise_feature_rows(F):
    """Rows of F (N, D) scaled to length sqrt(D), so that every pre-activation has the variance of one latent.

    Raises
    ------
    ValueError
        A row is zero.
    """
    lengths = np.sqrt(np.mean(np.square(F), axis=1))
    if np.any(lengths == 0):
        raise ValueError(f"row {np.argmin(lengths)} of F is zero; expected rows that can be scaled to length sqrt(D).")
    return F / lengths[:, None]


def second_moments(features, F, moments="ge", latent_scale=None):
    r"""Covariance of the centred inputs, and their covariance with the latents, for a given feature matrix.

    .. math:: x = f(F c/\sqrt D) - E[f], \quad c \sim N(0, \sigma^2), \qquad
              \Omega = E[x x^T], \quad \Phi = E[x c^T]

    "exact" are these averages in closed form; "ge" is the Gaussian equivalence, with a, b, zeta of f at scale sigma,

    .. math:: \Omega = \zeta + b^2 F F^T/D, \qquad \Phi = \sigma b\, F/\sqrt D.

    The Gaussian equivalence is *asymptotic*: D -> infinity, rows of F in general position. The exact moments are exact;
    user functions have a series of 60 Hermite terms, with a remainder below 1e-10. Source: Goldt, Mezard,
    Krzakala and Zdeborova (2020), arXiv:1909.11500; Cho and Saul (2009), for the relu.

    Parameters
    ----------
    features : str, callable or FeatureMap
        As in :func:`overlaps.manifold.feature_map.feature_map`.
    F : array_like, shape (N, D)
        Feature matrix. Rows of squared length D, unless ``moments`` is "exact" and the feature map has a name.
    moments : {"ge", "exact"}
        Which second moments.
    latent_scale : float, optional
        Standard deviation sigma of a latent coordinate; by default the scale of a FeatureMap, 1 otherwise.

    Returns
    -------
    Omega, Phi : ndarray, shape (N, N), (N, D)

    Raises
    ------
    ValueError
        Rows that are not normalised but must be; correlations too strong for the series of a user function.

    Examples
    --------
    >>> import numpy as np
    >>> from overlaps.manifold.realisation import second_moments
    >>> F = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, np.sqrt(2)]])
    >>> second_moments("sign", F, "exact")[0].round(4)
    array([[ 1. ,  0. ,  0.5],
           [ 0. ,  1. , -0.5],
           [ 0.5, -0.5,  1. ]])
    """
    features = feature_map(features, scale=latent_scale)
    F = check.array("F", F, ("N", "D"))
    equivalent = _by_equivalence(features, F, moments)
    D, scale = F.shape[1], features.scale
    G = F @ F.T / D
    if equivalent:
        Omega = features.b**2 * G
        Omega[np.diag_indices(len(G))] += features.zeta
        return Omega, _linear_part(features, F)
    if features.named:
        ff, mean, slope = features.moments(scale**2 * G)
        Omega = ff - np.outer(mean, mean)
    else:
        Omega, slope = _hermite_series(features, G)
    return Omega, scale**2 * np.reshape(slope, (-1, 1)) * F / np.sqrt(D)  # Stein: E[f(U) c] = E[f'(U)] E[U c]


def checked_features(model, F, normalise_rows, N="N"):
    """Features (N, D) with the shape checked against the model; with normalised rows if ``normalise_rows``."""
    F = check.array("F", F, (N, "D"))
    N, D = F.shape
    if abs(D - model.ratio * N) >= 1:
        raise ValueError(
            f"F has shape (N, D) = {(N, D)}; expected D near ratio N = {model.ratio * N:g}. "
            f"Use hidden_manifold(..., ratio={D / N:g})."
        )
    return normalise_feature_rows(F) if check.flag("normalise_rows", normalise_rows) else F


def checked_weights(model, W, W_star, F, normalise_rows=True):
    """Students, teachers and features with shapes checked against each other and the model."""
    N, D = check.array("F", F, ("N", "D")).shape
    W, W_star = check.array("W", W, (model.K, N)), check.array("W_star", W_star, (model.M, D))
    return W, W_star, checked_features(model, F, normalise_rows)


def input_means(features, F):
    """Means (N,) of the inputs f(U) before centring; rows of F (N, D) may have any length for named maps."""
    # relu and |u| are the only named maps with a mean, and they are homogeneous; user maps have rows of length sqrt(D)
    return features.a * (np.sqrt(np.mean(np.square(F), axis=1)) if features.named else np.ones(len(F)))


def _linear_part(features, F):
    """E[x c^T] for normalised rows, the same for both kinds of moments."""
    return features.scale * features.b * F / np.sqrt(F.shape[1])


def _by_equivalence(features, F, moments):
    """Whether ``moments`` are those of the Gaussian equivalence, after checking that they apply to F."""
    check.choice("moments", moments, ("ge", "exact"), "'ge' is the Gaussian equivalence.")
    if features.zeta == 0:
        return True  # exact for linear maps, with rows of any length
    if moments == "ge" or not features.named:
        squares = np.mean(np.square(F), axis=1)
        worst = np.argmax(np.abs(squares - 1))
        if abs(squares[worst] - 1) > MOMENTS.row_tol:
            raise ValueError(
                f"row {worst} of F has squared length {squares[worst]:.6g} D; expected rows normalised to D, which "
                "the Gaussian equivalence assumes. Use normalise_rows=True, or moments='exact' with a named feature "
                "map."
            )
    return moments == "ge"


def _hermite_series(features, G):
    """Covariance sum_k f_k^2 rho^k (Mehler), f_k the Hermite coefficients of f, and E[f']; rows have unit variance."""
    d, terms = np.sqrt(np.diag(G)), MOMENTS.hermite_terms
    norm = np.sqrt([float(factorial(k)) for k in range(1, terms + 1)])
    f_k = gauss_average(features, lambda z, f: f * hermite_e.hermevander(z, terms)[..., 1:].ravel() / norm)
    variance = features.c - features.a**2
    off = np.clip(G / np.outer(d, d), -1.0, 1.0)  # correlations of different pre-activations
    np.fill_diagonal(off, 0.0)
    remainder = max(variance - f_k @ f_k, 0.0) * np.max(np.abs(off), initial=0.0) ** (terms + 1)
    if remainder > MOMENTS.hermite_tol:
        raise ValueError(
            f"two rows of F are so alike (correlation {np.max(np.abs(off)):.4g}) that {terms} Hermite terms of "
            f"features = {features.name} leave {remainder:.1e} of their covariance; use moments='ge' or another F."
        )
    Omega = off * np.polynomial.polynomial.polyval(off, f_k**2)
    np.fill_diagonal(Omega, variance)
    return Omega, features.b / features.scale


def realise(
    model: Any, *, W: ArrayLike, W_star: ArrayLike, F: ArrayLike, moments: str = "ge", normalise_rows: bool = True,
    nodes: int | None = None, v: ArrayLike | None = None,
) -> tuple[Any, State]:  # fmt: skip
    r"""Model and state of explicit weights, teachers and features, for a comparison with a single run.

    With the eigenvectors :math:`U_l` of the input covariance :math:`\Omega`, :math:`\Phi = E[x c^T]`,

    .. math:: q^l = a_l a_l^T, \quad r^l = a_l h_l^T, \quad \tau^l = h_l h_l^T, \qquad
              a_l = W U_l/\sqrt N, \quad h_l = W_* \Phi^T U_l/\sqrt D

    and equal eigenvalues are merged, e.g. the N - D eigenvalues of directions without latents. The overlaps are exact.
    The theory has Gaussian inputs with these second moments, which is *asymptotic* in D.

    Parameters
    ----------
    W : array_like, shape (K, N)
        Student weights.
    W_star : array_like, shape (M, D)
        Teacher weights on the latents.
    F : array_like, shape (N, D)
        Feature matrix, D / N near the model's ``ratio``.
    moments : {"ge", "exact"}
        Second moments of the inputs, see :func:`overlaps.manifold.realisation.second_moments`.
    normalise_rows : bool
        Scale the rows of F to squared length D first, as in the theory (the simulation must do the same).
    nodes : int, optional
        Compress the spectrum to this many eigenvalues by :func:`overlaps.compress`; 60 leave an error of 1e-8 for
        K = M = 2 and alpha <= 100.
    v : array_like, shape (K,), optional
        Second layer; the model's by default.

    Returns
    -------
    model : HiddenManifold
        The same model with the spectrum and ratio of this realisation.
    state : State
        The overlaps of the weights.

    Raises
    ------
    ValueError
        Shapes that do not agree with each other or with the model, rows of F that are not normalised but must be.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> rng = np.random.default_rng(1)
    >>> model = ov.hidden_manifold(2, 1, features="erf", ratio=0.5, eta=0.2)
    >>> W, W_star, F = (rng.standard_normal(shape) for shape in ((2, 60), (1, 30), (60, 30)))
    >>> one, start = model.realisation(W=W, W_star=W_star, F=F)
    >>> one.spectrum, start
    (realisation(erf, N=60, D=30, ge), State(L=31, K=2, M=1, ...))
    """
    W, W_star, F = checked_weights(model, W, W_star, F, normalise_rows)
    N, D = F.shape
    s, U, Phi, rest = _eigenmodes(model.features, F, moments)
    s, p, q, r, tau = on_modes(s, U, rest, W, W_star @ Phi.T * np.sqrt(N / D))
    spectrum = Spectrum(s, p, f"realisation({model.features}, N={N}, D={D}, {moments})")
    model = replace(model, spectrum=spectrum, ratio=D / N)
    T = model.latent_scale**2 * (W_star @ W_star.T) / D
    v = model.v if v is None else check.array("v", v, (model.K,))
    state = State(q=q, r=r, tau=tau, T=T, v=v).on(model)
    return (model, state) if nodes is None else compress(model, state, nodes)


def _eigenmodes(features, F, moments):
    """(eigenvalues (n,), eigenvectors (N, n), Phi, eigenvalue of all other directions) of the input covariance."""
    N, D = F.shape
    if D < N and _by_equivalence(features, F, moments):  # D x D instead of N x N
        mu, psi = np.linalg.eigh(F.T @ F / D)
        with_variance = mu > EIGENVALUE_TOL * mu[-1]
        U = F @ psi[:, with_variance] / np.sqrt(D * mu[with_variance])
        return features.zeta + features.b**2 * mu[with_variance], U, _linear_part(features, F), features.zeta
    Omega, Phi = second_moments(features, F, moments)
    s, U = np.linalg.eigh(Omega)
    return np.where(s > EIGENVALUE_TOL * s[-1], s, 0.0), U, Phi, 0.0  # smaller ones are rounding errors of eigh
