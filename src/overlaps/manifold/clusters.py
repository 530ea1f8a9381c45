"""Sign features of latents from a mixture: a mixture of inputs in classes, with a teacher of the latents."""

from dataclasses import fields

import numpy as np
from scipy.special import ndtr

from .._base import check
from ..models.mixture import GaussianMixture
from ..models.model import Model
from ..models.spectrum import MERGE, Spectrum
from ..models.state import State
from .joint import on_modes
from .latents import Mixture
from .realisation import check_ratio, normalise_feature_rows

__all__ = ["class_moments", "realise_clusters"]

COMMON = 1e-8  # largest difference of the covariances of two classes that counts as none
NODES = 64  # of Gauss and Legendre over the angle asin(r): 6e-16 for |r| < 0.999


def class_moments(h, r):
    """Mean (N,) and covariance (N, N) of sign(h + z) for z ~ N(0, r) of unit variances."""
    angle = np.arcsin(np.clip(r, -1.0, 1.0))
    np.fill_diagonal(angle, 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    squares, product = np.add.outer(h**2, h**2), np.outer(h, h)
    found = np.zeros_like(angle)
    for x, w in zip((nodes + 1) / 2, weights / 2, strict=True):  # d Phi2 / d angle (Plackett)
        t = x * angle
        found += w * np.exp(-(squares - 2 * product * np.sin(t)) / (2 * np.cos(t) ** 2))
    mean = 2 * ndtr(h) - 1
    Omega = 4 * angle * found / (2 * np.pi)
    Omega[np.diag_indices(len(h))] = 1 - mean**2
    return mean, Omega


def realise_clusters(model, *, W, W_star, F, latents, v=None):
    """Model and state of explicit weights; see :meth:`overlaps.HiddenManifold.cluster_realisation`."""
    check.kind("latents", latents, Mixture, "ov.latents.mixture(kind='shared', means=[-1, 1])")
    if model.features.name != "sign" or not model.features.named:
        raise ValueError(f"features = {model.features}; expected 'sign', whose moments about any mean are known.")
    if latents.kind == "elementwise" or latents.standardise == "sample":
        raise ValueError(
            f"latents = {latents!r} have no classes of Gaussian latents; expected kind = 'shared' or 'shared_vector', "
            "and standardise = 'none' or 'population'. Where components are drawn for each coordinate the Gaussian "
            "theory holds: use realisation."
        )
    F = check.array("F", F, ("N", "D"))
    N, D = F.shape
    W, W_star = check.array("W", W, (model.K, N)), check.array("W_star", W_star, (model.M, D))
    check_ratio(model, F)
    F = normalise_feature_rows(F)
    shift, s = np.reshape(latents.means, (len(latents.weights), -1)), 1.0
    if latents.standardise == "population":
        shift, s = (shift - latents.mean) / np.sqrt(latents.variance), 1 / np.sqrt(latents.variance)
    if np.ptp(s) > 0:
        raise ValueError("the standardised latents have variances of their own in each coordinate; expected one.")
    s = float(np.ravel(s)[0])
    gamma = np.broadcast_to(shift, (len(shift), D))
    G, h = F @ F.T / D, gamma @ F.T / np.sqrt(D) / s
    means, Omegas = zip(*(class_moments(x, G) for x in h), strict=True)
    gap = max(np.max(np.abs(x - Omegas[0])) for x in Omegas)
    slopes = 2 * np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi) / s  # E f'(beta + s u)
    if gap > COMMON or np.ptp(slopes, axis=0).max() > COMMON:
        raise ValueError(
            f"the covariances of the classes differ by {gap:.2g}; expected one for all, as that of two components of "
            "equal weight, standardised by the population, which x -> -x exchanges. Use runs.test_error."
        )
    Phi, xbar = s**2 * slopes[0][:, None] * F / np.sqrt(D), np.array(means)
    values, U = np.linalg.eigh(Omegas[0])
    values = np.where(values > MERGE * values[-1], values, 0.0)
    # class means stand beside the students: their overlaps are m, h and the Gram matrix of the classes
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
