"""Inputs and latents: the hidden manifold, whose inputs are features of latents, and any other joint covariance.

``model`` is the manifold in the limit and its spectrum, ``realisation`` the one of given weights, ``joint`` the models
of given covariances (and what a realisation calls), ``sgd`` the simulator (it tells ``simulate`` how runs are planned),
``latents`` and ``covariates`` what is drawn.
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
