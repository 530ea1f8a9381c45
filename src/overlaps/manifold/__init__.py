"""The hidden manifold: features of fewer latents, seen by the student; the teacher sees the latents.

``model`` is the setting in the limit and its spectrum, ``realisation`` that of given weights, ``sgd`` the simulator,
``latents`` the laws of the latent variables.
"""

from .ensemble import ManifoldEnsemble
from .model import HiddenManifold, hidden_manifold

__all__ = ["HiddenManifold", "ManifoldEnsemble", "hidden_manifold"]
