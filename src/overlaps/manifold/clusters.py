"""Features of latents from a mixture: inputs in classes, with a teacher that acts on the latents."""

import math
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from .._base import check
from ..gaussian import quadrature
from ..models import Model, State
from ..models.mixture import GaussianMixture
from ..models.spectrum import EIGENVALUE_TOL, Spectrum
from .gaussian_covariates import on_modes
from .latents import Mixture
from .realisation import checked_weights

__all__ = ["class_moments", "realise_clusters"]


class ClusterOptions(NamedTuple):
    """Tunable numbers of the moments of inputs in classes."""

    # Largest relative difference between the covariances of two classes. Larger differences raise an error; halving or
    # doubling it changes nothing for odd features, whose covariances agree up to rounding.
    covariance_tol: float = 1e-8
    # Mehler's series ends where its remainder, relative to the variances, is below this. A tenth: one term in thirteen
    # more.
    series_tol: float = 1e-13
    # Largest number of terms: enough for correlations up to 0.94. Twice as many: up to 0.97, in twice the time.
    max_terms: int = 500


CLUSTERS = ClusterOptions()


def class_moments(features, beta, s, G):
    """Means and slopes E f' (N,), covariance (N, N) of f(beta + s u) for u ~ N(0, G) of unit variances.

    Mehler's series in the correlations: with c_r(i) = E[he_r(u) f(beta_i + s u)], orthonormal he_r, the covariance is
    the sum of G_ij^r c_r(i) c_r(j) over r > 0; the terms after r are below abs(G_ij)^(r + 1) times the standard
    deviations.
    """
    N, R = len(beta), quadrature.RANGE
    largest = np.max(np.abs(G - np.eye(N)))
    terms = 1 if largest == 0 else math.ceil(math.log(CLUSTERS.series_tol) / math.log(min(largest, 1 - 1e-12)))
    if terms > CLUSTERS.max_terms:
        bound = CLUSTERS.series_tol ** (1 / CLUSTERS.max_terms)
        raise ValueError(
            f"two rows of F have a correlation of {largest:.3g}; expected below {bound:.2g}, because the series of the "
            "covariances of inputs in classes converges slowly above. Take more latents, or leave out one of the rows."
        )
    inner = (np.array(features.kinks, dtype=float) - beta[:, None]) / s
    edges = np.hstack([np.full((N, 1), -R), np.clip(np.sort(inner, axis=1), -R, R), np.full((N, 1), R)])
    u, weight = quadrature.panels(edges, 16)
    values = weight * features(beta[:, None] + s * u)
    mean = np.sum(values, axis=1)
    Omega, power = np.zeros((N, N)), np.ones((N, N))
    before, he, slope = np.zeros_like(u), np.ones_like(u), None
    for r in range(1, terms + 1):
        before, he = he, (u * he - math.sqrt(r - 1) * before) / math.sqrt(r)
        c = np.sum(he * values, axis=1)
        slope = c / s if slope is None else slope
        power *= G
        Omega += power * np.outer(c, c)
    Omega[np.diag_indices(N)] = np.sum(weight * (features(beta[:, None] + s * u) - mean[:, None]) ** 2, axis=1)
    return mean, slope, Omega


def realise_clusters(model, *, W, W_star, F, latents, v=None):
    """Model and state of explicit weights; see :meth:`overlaps.HiddenManifold.cluster_realisation`."""
    check.kind("latents", latents, Mixture, "ov.latents.mixture(kind='shared', means=[-1, 1])")
    if latents.kind == "elementwise" or latents.standardise == "sample":
        raise ValueError(
            f"latents = {latents!r} have no classes of Gaussian latents; expected kind = 'shared' or 'shared_vector', "
            "and standardise = 'none' or 'population'. If components are drawn for each coordinate the Gaussian "
            "theory holds: use realisation."
        )
    W, W_star, F = checked_weights(model, W, W_star, F)
    N, D = F.shape
    shift, s = np.reshape(latents.means, (len(latents.weights), -1)), 1.0
    if latents.standardise == "population":
        shift, s = (shift - latents.mean) / np.sqrt(latents.variance), 1 / np.sqrt(latents.variance)
    if np.ptp(s) > 0:
        raise ValueError("the standardised latents have different variances in different coordinates; expected one.")
    s = float(np.ravel(s)[0])
    gamma = np.broadcast_to(shift, (len(shift), D))
    G, beta = F @ F.T / D, gamma @ F.T / np.sqrt(D)
    means, slopes, Omegas = zip(*(class_moments(model.features, x, s, G) for x in beta), strict=True)
    gap = max(np.max(np.abs(x - Omegas[0])) for x in Omegas)
    if max(gap, np.ptp(slopes, axis=0).max()) > CLUSTERS.covariance_tol * max(1.0, np.max(np.abs(Omegas[0]))):
        raise ValueError(
            f"the covariances of the classes differ by {gap:.2g}; expected one for all: an odd feature map (this one "
            f"is {model.features}) of two components of equal weight, standardised by the population, which x -> -x "
            "exchanges, or a linear one. Use runs.test_error."
        )
    Phi, xbar = s**2 * slopes[0][:, None] * F / np.sqrt(D), np.array(means) - model.features.a
    values, U = np.linalg.eigh(Omegas[0])
    values = np.where(values > EIGENVALUE_TOL * values[-1], values, 0.0)
    # class means as rows below the students: their overlaps are m, h and the Gram matrix of the classes
    rows = np.concatenate([W, np.sqrt(N) * xbar])
    eigenvalues, p, q, r, tau = on_modes(values, U, 0.0, rows, W_star @ Phi.T * np.sqrt(N / D))
    K = model.K
    common = {f.name: getattr(model, f.name) for f in fields(Model)}
    common["spectrum"] = Spectrum(eigenvalues, p, f"cluster_realisation({model.features}, N={N}, D={D})")
    mixture = GaussianMixture(
        **common, weights=latents.weights, labels=np.zeros(len(xbar)), gram=q[:, K:, K:], latent=True
    )
    state = State(
        q=q[:, :K, :K], r=r[:, :K], tau=tau, T=s**2 * W_star @ W_star.T / D,
        v=model.v if v is None else check.array("v", v, (K,)),
        m=q[:, :K, K:], h=r[:, K:].swapaxes(1, 2), nu=W_star @ gamma.T / np.sqrt(D),
    )  # fmt: skip
    return mixture, state.on(mixture)
