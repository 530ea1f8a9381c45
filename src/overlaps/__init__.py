"""Exact learning dynamics of two-layer networks in the teacher-student setting.

Every model is an activation closure times a covariate spectrum, integrated by one right-hand side.
"""

from importlib import import_module
from typing import TYPE_CHECKING

# what is learned
from ._base.record import Record
from ._base.version import __version__ as __version__
from .activations import rules
from .activations.activation import Activation
from .activations.library import absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, sign, tanh
from .activations.rule import Rule
from .compression import compress, compression_error
from .finite_size import Fluctuations, fluctuations

# the closure, the solution, the simulation
from .flow.closure import Closure, closure
from .models.frozen import LowRank, low_rank, previous, taught
from .models.learner import Learner, learner
from .models.mixed import Mixed
from .models.mixture import GaussianMixture, gaussian_mixture
from .models.model import Model, committee_machine, quadratic_network

# from where, and what changes on the way
from .models.schedule import Schedule

# from what data
from .models.spectrum import Spectrum, isotropic, power_law
from .models.stages import Stages
from .models.state import State
from .results import discrepancy as discrepancy
from .results.batch import Batch
from .results.discrepancy import Discrepancy, tlog_rmse
from .results.ensemble import Ensemble
from .results.files import load, save
from .results.plotting import compare, explore, style
from .results.trajectory import Trajectory
from .simulators.runs import simulate
from .solve import solve
from .solve_many import solve_many

# where the flow stops, and whether it stays
from .stability.critical import CriticalEta, critical_eta
from .stability.fixed_points import FixedPoint, fixed_point
from .stability.linear import Linearisation, linearise
from .stability.plateaus import Plateau
from .sweeps.grid import Sweep, sweep
from .symmetric_path import plateau

# rooms that are loaded when one of their names is first used, and these names
_LATER = {
    "manifold": {
        *("HiddenManifold", "hidden_manifold", "ManifoldEnsemble", "latents"),
        *("GaussianCovariates", "gaussian_covariates", "CovariatesEnsemble", "covariates"),
    },
    "landscape": {"HessianSpectrum", "average", "hessian"},
    "protocols": {"OptimalSchedule", "greedy_schedule", "optimal_schedule", "schedule_gradient"},
    "theory": set(),
    "static": set(),
}
_RECORDS = (
    *_LATER,
    *(f"theory.{x}" for x in ("cayley_hamilton", "linear", "quadratic", "scaling", "stationary", "escape_time")),
)
Record.kinds.later += [f"{__name__}.{room}" for room in _RECORDS]  # the last first

if TYPE_CHECKING:
    from . import static, theory
    from .landscape import HessianSpectrum, average, hessian
    from .manifold import (
        CovariatesEnsemble,
        GaussianCovariates,
        HiddenManifold,
        ManifoldEnsemble,
        covariates,
        gaussian_covariates,
        hidden_manifold,
        latents,
    )  # fmt: skip
    from .protocols import OptimalSchedule, greedy_schedule, optimal_schedule, schedule_gradient
else:

    def __getattr__(name):
        for room, names in _LATER.items():
            if name == room or name in names:
                module = import_module(f".{room}", __name__)
                return globals().setdefault(name, module if name == room else getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; dir({__name__}) shows those it has.")


__all__ = [
    "Activation", "Batch", "Closure", "CovariatesEnsemble", "CriticalEta", "Discrepancy", "Ensemble", "FixedPoint",
    "Fluctuations", "GaussianCovariates", "GaussianMixture", "HessianSpectrum", "HiddenManifold", "Learner",
    "Linearisation", "LowRank", "ManifoldEnsemble", "Mixed", "Model", "OptimalSchedule", "Plateau", "Rule", "Schedule",
    "Spectrum", "Stages", "State", "Sweep", "Trajectory", "absolute", "average", "closure", "committee_machine",
    "compare", "compress", "compression_error", "covariates", "critical_eta", "erf", "explore", "fixed_point",
    "fluctuations", "gaussian_covariates", "gaussian_mixture", "greedy_schedule", "hessian", "hidden_manifold",
    "isotropic", "latents", "leaky_relu", "learner", "linear", "linearise", "load", "low_rank", "optimal_schedule",
    "polynomial", "plateau", "power_law", "previous", "quadratic", "quadratic_network", "relu", "rules", "save",
    "schedule_gradient", "sign", "simulate", "solve", "solve_many", "static", "style", "sweep", "tanh", "taught",
    "theory", "tlog_rmse",
]  # fmt: skip


def __dir__():
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
