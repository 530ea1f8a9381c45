"""Exact learning dynamics of two-layer networks in the teacher-student setting.

Every model is an activation closure times a covariate spectrum, integrated by one right-hand side.
"""

# laws of latent variables; what is known in closed form, loaded when first used; fixed points
from . import latents, static, theory

# what is learned
from ._version import __version__ as __version__
from .activations import Activation, absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, tanh

# the closure, the solution, the simulation
from .closure import Closure, closure
from .compress import compress, compression_error
from .discrepancy import Discrepancy, tlog_rmse
from .files import load
from .hidden_manifold import HiddenManifold, hidden_manifold
from .manifold_ensemble import ManifoldEnsemble
from .models import Model, committee_machine, quadratic_network
from .simulate import simulate
from .solve import solve

# from what data
from .spectrum import Spectrum, isotropic, power_law

# where the flow stops, and whether it stays
from .stability import FixedPoint, Linearisation, critical_eta, fixed_point, linearise

# from where
from .state import State
from .sweep import Sweep, sweep
from .trajectory import Ensemble, Trajectory

__all__ = [
    "Activation",
    "Closure",
    "Discrepancy",
    "Ensemble",
    "FixedPoint",
    "HiddenManifold",
    "Linearisation",
    "ManifoldEnsemble",
    "Model",
    "Spectrum",
    "State",
    "Sweep",
    "Trajectory",
    "absolute",
    "closure",
    "committee_machine",
    "compress",
    "compression_error",
    "critical_eta",
    "erf",
    "fixed_point",
    "hidden_manifold",
    "isotropic",
    "latents",
    "leaky_relu",
    "linear",
    "linearise",
    "load",
    "polynomial",
    "power_law",
    "quadratic",
    "quadratic_network",
    "relu",
    "simulate",
    "solve",
    "static",
    "sweep",
    "tanh",
    "theory",
    "tlog_rmse",
]
