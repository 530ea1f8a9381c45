"""Latent variables of the hidden manifold: standard Gaussian, and mixtures that are almost or not at all Gaussian.

A sampler is any callable ``(rng, n, D) -> array (n, D)``; those below can be printed, compared,
pickled.
"""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import logsumexp

from .._base import ArrayLike, Floats, Immutable, Rng, check, public_dir, read_only
from ..gaussian.quadrature import midpoint

__all__ = ["gaussian", "kl_divergence", "kl_monte_carlo", "mixture", "paper", "uniform_means"]
__dir__ = public_dir(__name__)

Kind: TypeAlias = Literal["elementwise", "shared", "shared_vector"]
Standardise: TypeAlias = Literal["none", "population", "sample"]


class Gaussian(Immutable, repr=True):
    """Sampler of independent N(0, scale^2) coordinates; made by :func:`gaussian`."""

    scale: float = 1.0

    def __call__(self, rng, n, D):
        """Draw n latent vectors (n, D)."""
        c = rng.standard_normal((n, D))
        return c if self.scale == 1.0 else self.scale * c


class Mixture(Immutable, repr=True):
    """Sampler of a Gaussian mixture with unit component covariances; made by :func:`mixture`."""

    kind: str
    means: Any
    weights: Any
    standardise: str = "none"

    @property
    def mean(self):
        """Mean of a coordinate before standardisation: a number, or one per coordinate for "shared_vector" (D,)."""
        return self.weights @ self.means

    @property
    def variance(self):
        """Variance of a coordinate before standardisation, 1 + Var(mu); a number or (D,)."""
        return 1.0 + self.weights @ np.square(self.means - self.mean)

    def __call__(self, rng, n, D):
        """Draw n latent vectors (n, D)."""
        if self.kind == "shared_vector" and self.means.shape[1] != D:
            raise ValueError(
                f"means has shape {self.means.shape}, for latents of dimension {self.means.shape[1]}; this hidden "
                f"manifold has D = {D}. Draw them with uniform_means(A, m, rng=..., D={D})."
            )
        labels = rng.random((n, D) if self.kind == "elementwise" else (n, 1))
        labels = np.minimum(np.searchsorted(np.cumsum(self.weights), labels, side="right"), len(self.weights) - 1)
        c = rng.standard_normal((n, D))
        c += self.means[labels[:, 0]] if self.kind == "shared_vector" else self.means[labels]
        if self.standardise == "population":
            c -= self.mean
            c /= np.sqrt(self.variance)
        elif self.standardise == "sample":
            if D < 2:
                raise ValueError(f"D = {D}; standardising a sample over its coordinates needs D >= 2.")
            c -= c.mean(axis=1, keepdims=True)
            c /= np.sqrt(np.mean(np.square(c), axis=1, keepdims=True))
        return c


def gaussian(scale: float = 1.0) -> Any:
    """Independent Gaussian latents, c ~ N(0, scale^2 I), for which the theory is exact.

    Parameters
    ----------
    scale : float
        Standard deviation; the model's ``latent_scale`` should be the same.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.latents.gaussian()(np.random.default_rng(1), 3, 5).shape
    (3, 5)
    """
    return Gaussian(check.number("scale", scale, above=0))


def mixture(
    *, kind: Kind, means: ArrayLike, weights: ArrayLike | None = None, standardise: Standardise = "none"
) -> "Mixture":
    r"""Mixture of Gaussians with unit covariances, c = mu_k + z with z ~ N(0, I) and k drawn with probability p_k.

    ============= ============================================ ============
    kind          component                                    means
    ============= ============================================ ============
    elementwise   drawn for every coordinate of every sample   (m,) numbers
    shared        drawn per sample, mean mu_k (1, ..., 1)      (m,) numbers
    shared_vector drawn per sample, mean vector mu_k           (m, D)
    ============= ============================================ ============

    Standardised *independent* coordinates (elementwise) follow the Gaussian theory for any means: sums over D
    coordinates obey the central limit theorem. A component shared by all coordinates leaves an eigenvalue of order D
    in their covariance and the fields stay mixtures; "shared" follows the theory only when standardised by "sample",
    which removes the common shift from each vector.

    For any law of the latents, :func:`overlaps.simulate` records the overlaps and ``eps_g`` of Gaussian latents;
    ``test_error`` is measured on samples of the law. Source: Goldt et al. (2020), arXiv:1909.11500, for the model; Bae
    and Jeong (2024), arXiv:2405.00642, (17), (19).

    Parameters
    ----------
    kind : {"elementwise", "shared", "shared_vector"}
        Which coordinates have the same component.
    means : array_like, shape (m,) or (m, D)
        Component means; :func:`uniform_means` draws them.
    weights : array_like, shape (m,), optional
        Probabilities p_k, equal by default.
    standardise : {"none", "population", "sample"}
        "population": every coordinate by mean and variance of the mixture. "sample": every latent vector by mean and
        variance over its own D coordinates.

    Returns
    -------
    Mixture
        A sampler, with the ``mean`` and ``variance`` of a coordinate before standardisation.

    Raises
    ------
    ValueError
        Unknown kind or standardisation, means of the wrong shape, weights that are negative or do not sum to one.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> draw = ov.latents.mixture(kind="shared", means=[-3.0, 3.0], standardise="sample")
    >>> c = draw(np.random.default_rng(1), 4, 100)
    >>> bool(np.allclose(c.mean(axis=1), 0) and np.allclose(c.var(axis=1), 1))
    True
    """
    check.choice("kind", kind, get_args(Kind))
    check.choice("standardise", standardise, get_args(Standardise))
    shape = ("m", "D") if kind == "shared_vector" else ("m",)
    means = check.array("means", means, shape, f"One row or number per component of kind {kind!r}.")
    return Mixture(kind, means, _probabilities(weights, len(means)), standardise)


def paper(means: ArrayLike, *, weights: ArrayLike | None = None, standardised: bool = True) -> "Mixture":
    """The sampler that reproduces all claims of the published mixture study: "shared", standardised by "sample".

    The source does not specify its sampler; "elementwise" is the better test of universality.

    Parameters
    ----------
    means, weights : array_like, shape (m,)
        As in :func:`mixture`.
    standardised : bool
        False for the mixture without standardisation.

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.latents.paper([-1.0, 2.0]).standardise
    'sample'
    """
    check.flag("standardised", standardised)
    return mixture(kind="shared", means=means, weights=weights, standardise="sample" if standardised else "none")


def uniform_means(A: float, m: int, *, rng: Rng, D: int | None = None) -> Floats:
    """Means of m components, independent and uniform in [-A, A): (m,), or vectors (m, D) for "shared_vector".

    Examples
    --------
    >>> import overlaps as ov
    >>> ov.latents.uniform_means(3.0, 2, rng=1).shape, ov.latents.uniform_means(3.0, 2, rng=1, D=500).shape
    ((2,), (2, 500))
    """
    A, m = check.number("A", A, least=0), check.count("m", m)
    return check.generator(rng).uniform(-A, A, m if D is None else (m, check.count("D", D)))


def kl_divergence(
    means: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    kind: Literal["elementwise", "shared"] = "elementwise",
    D: int = 1,
) -> float:
    r"""Kullback-Leibler divergence of a mixture (not standardised, unit covariances) from N(0, I).

    .. math:: \mathrm{KL} = E\Big[\log \sum_k p_k \exp(\mu_k \cdot c - |\mu_k|^2/2)\Big]

    If each coordinate has its own component ("elementwise") this is D times the divergence of one coordinate; if all
    have one component ("shared") it is the divergence of one coordinate with means sqrt(D) mu. Exact, by quadrature to
    about 12 digits.

    Parameters
    ----------
    means : array_like, shape (m,)
        Component means.
    weights : array_like, shape (m,), optional
        Probabilities, equal by default.
    kind : {"elementwise", "shared"}
        As in :func:`mixture`; for vectors of means see :func:`kl_monte_carlo`.
    D : int
        Dimension of the latents.

    Raises
    ------
    ValueError
        Another kind, or weights that do not sum to one.

    Examples
    --------
    >>> import overlaps as ov
    >>> round(ov.latents.kl_divergence([1.5]), 12)  # |mu|^2 / 2
    1.125
    >>> round(ov.latents.kl_divergence([0.4, -0.7], kind="shared", D=20), 6)
    2.576063
    """
    check.choice("kind", kind, ("elementwise", "shared"), "For mean vectors use kl_monte_carlo.")
    means, D = check.array("means", means, ("m",)), check.count("D", D)
    weights = _probabilities(weights, len(means))
    if kind == "elementwise":
        return D * _kl_line(means, weights)
    return _kl_line(np.sqrt(D) * means, weights)


def kl_monte_carlo(
    means: ArrayLike, weights: ArrayLike | None = None, *, rng: Rng, samples: int = 2**16
) -> tuple[float, float]:
    r"""Kullback-Leibler divergence from N(0, I) of a mixture with vectors of means, estimated.

    .. math:: \mathrm{KL} = \sum_k p_k \Big( \frac{|\mu_k|^2}{2} + E_z\Big[\log \sum_j p_j
              e^{-|\mu_j - \mu_k|^2/2 + (\mu_j - \mu_k) \cdot z}\Big] \Big), \qquad z \sim N(0, I)

    Unbiased. Only projections onto the span of the means enter, so the cost does not depend on D.

    Parameters
    ----------
    means : array_like, shape (m, D)
        Component means.
    weights : array_like, shape (m,), optional
        Probabilities, equal by default.
    rng : int or numpy.random.Generator
        Seed or generator.
    samples : int
        Samples of every component.

    Returns
    -------
    value, error : float
        The estimate and its standard error. For separated clusters the logarithm is log p_k up to
        exp(-separation^2 / 8), so the result is ``sum_k p_k |mu_k|^2 / 2 - H(p)`` without noise.

    Raises
    ------
    ValueError
        Means that are not a matrix, or weights that do not sum to one.

    Examples
    --------
    >>> import overlaps as ov
    >>> value, error = ov.latents.kl_monte_carlo([[20.0, 0.0], [0.0, 20.0]], rng=1)
    >>> round(value, 6), error < 1e-9  # 200 - log 2
    (199.306853, True)
    """
    means, samples = check.array("means", means, ("m", "D")), check.count("samples", samples, least=2)
    weights = _probabilities(weights, len(means))
    rng = check.generator(rng)
    gaps = np.linalg.qr(means.T)[1].T  # the means in coordinates of their span: same lengths and angles
    value = variance = 0.0
    for mu, p in zip(gaps, weights, strict=True):
        shifts = gaps - mu
        z = rng.standard_normal((samples, gaps.shape[1]))
        log_ratio = logsumexp(z @ shifts.T - np.sum(shifts**2, axis=1) / 2, axis=1, b=weights)
        value += p * (np.sum(mu**2) / 2 + log_ratio.mean())
        variance += p**2 * log_ratio.var(ddof=1) / samples
    return float(value), float(np.sqrt(variance))


def _kl_line(means, weights):
    """KL divergence from N(0, 1) in one dimension, by quadrature around every component."""
    # The second derivative of log-sum-exp is concentrated within 1/|mu_j - mu_k|. It matters only within 9 of mu_k, so
    # a step of 1/64 resolves it.
    z, p = midpoint(64 * 18)
    means, weights = means[weights > 0], weights[weights > 0]
    shifts = means - means[:, None]
    exponent = shifts[:, None, :] * z[:, None] - shifts[:, None, :] ** 2 / 2
    log_ratio = np.log(np.exp(exponent) @ weights)  # the exponent is at most z^2 / 2, and 0 for the component itself
    return float(weights @ (means**2 / 2 + log_ratio @ p))


def _probabilities(weights, m):
    """Checked probabilities (m,)."""
    if m == 0:
        raise ValueError("means is empty; expected at least one component.")
    weights = np.full(m, 1 / m) if weights is None else check.array("weights", weights, (m,), f"means has m = {m}.")
    if np.any(weights < 0) or abs(weights.sum() - 1) > 1e-10:
        raise ValueError(
            f"weights = {weights}, with sum {weights.sum():.12g}; expected probabilities >= 0 that sum to one. "
            "Try weights / sum(weights)."
        )
    return read_only(weights)
