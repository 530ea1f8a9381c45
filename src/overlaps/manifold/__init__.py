"""The hidden manifold: features of fewer latents, seen by the student; the teacher sees the latents.

``model`` is the setting in the limit and its spectrum, ``realisation`` that of given weights, ``sgd`` the simulator
(it tells ``simulate`` how runs are planned), ``latents`` the laws of the latent variables.
"""

from .ensemble import ManifoldEnsemble
from .model import HiddenManifold, hidden_manifold
from .sgd import manifold_run

__all__ = ["HiddenManifold", "ManifoldEnsemble", "hidden_manifold", "manifold_run"]
