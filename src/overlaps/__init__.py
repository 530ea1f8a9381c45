"""Exact learning dynamics of two-layer networks in the teacher-student setting.

Every model is an activation closure times a covariate spectrum, integrated by one right-hand side.
"""

# what is learned
from .activations import Activation, absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, tanh

# the closure, the solution, the simulation
from .closure import Closure, closure
from .files import load
from .models import Model, committee_machine, quadratic_network
from .simulate import simulate
from .solve import solve

# from what data, from where
from .spectrum import Spectrum, isotropic, power_law
from .state import State
from .trajectory import Ensemble, Trajectory

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Closure",
    "Ensemble",
    "Model",
    "Spectrum",
    "State",
    "Trajectory",
    "absolute",
    "closure",
    "committee_machine",
    "erf",
    "isotropic",
    "leaky_relu",
    "linear",
    "load",
    "polynomial",
    "power_law",
    "quadratic",
    "quadratic_network",
    "relu",
    "simulate",
    "solve",
    "tanh",
]
