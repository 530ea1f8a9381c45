"""Inputs and latents: the hidden manifold, whose inputs are features of latents, and any other joint covariance.

``model`` is the hidden manifold in the limit and its spectrum, ``realisation`` the spectrum and overlaps of given
weights, ``gaussian_covariates`` the models with given covariances (``realisation`` uses it too), ``sgd`` the simulator,
registered with ``simulators.dispatch``, ``latents`` and ``covariates`` the samplers.
"""

from . import covariates, latents
from .ensemble import CovariatesEnsemble, ManifoldEnsemble
from .gaussian_covariates import GaussianCovariates, gaussian_covariates
from .model import HiddenManifold, hidden_manifold
from .sgd import manifold_run

__all__ = [
    "CovariatesEnsemble", "GaussianCovariates", "HiddenManifold", "ManifoldEnsemble", "covariates",
    "gaussian_covariates", "hidden_manifold", "latents", "manifold_run",
]  # fmt: skip
