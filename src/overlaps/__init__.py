"""Exact learning dynamics of two-layer networks in the teacher-student setting.

Every model is an activation closure times a covariate spectrum, integrated by one right-hand side.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from . import results as results
from . import rules as rules
from ._base import Immutable, public_dir
from ._base.lazy_compilation import reproducible
from ._base.version import __version__ as __version__
from .activations import Activation, absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, sign, tanh
from .analysis import compress, compression_error, field_average, fluctuations, hessian, plateau
from .dynamics import solve, solve_many
from .flow.closure import closure
from .models import Mixed, Model, Schedule, Spectrum, Stages, State, committee_machine, isotropic, memory, power_law
from .models.biases import biased
from .models.frozen import LowRank, distill, low_rank, previous_student
from .models.learner import Learner, learner
from .models.mixture import GaussianMixture, gaussian_mixture
from .models.model import quadratic_network
from .models.random_features import random_features
from .results.citations import cite
from .results.discrepancy import tlog_rmse
from .results.files import load, save
from .results.plotting import compare, explore, style
from .rules.rule import Rule
from .simulators import simulate
from .stability import critical_eta, fixed_point, linearise
from .sweeps import sweep

# packages that are imported when one of their names is first used, and their public names
_LAZY = {
    "manifold": {
        *("HiddenManifold", "hidden_manifold", "latents"),
        *("GaussianCovariates", "gaussian_covariates", "covariates"),
    },
    "protocols": {"greedy_schedule", "optimal_schedule", "schedule_gradient"},
    "theory": set(),
    "static": set(),
}
# modules that define results, and are imported when a file contains a class that is not yet loaded, the last one first
Immutable.kinds.later += [f"{__name__}.{x}" for x in _LAZY]
Immutable.kinds.later += [f"{__name__}.theory.{x}" for x in ("cayley_hamilton", "linear", "quadratic", "scaling")]
Immutable.kinds.later += [f"{__name__}.analysis.{x}" for x in ("stationary", "minima", "escape_time")]

if TYPE_CHECKING:
    from . import static, theory
    from .manifold import covariates, latents
    from .manifold.gaussian_covariates import GaussianCovariates, gaussian_covariates
    from .manifold.model import HiddenManifold, hidden_manifold
    from .protocols import greedy_schedule, optimal_schedule, schedule_gradient
else:

    def __getattr__(name):
        for package, names in _LAZY.items():
            if name == package or name in names:
                module = import_module(f".{package}", __name__)
                return globals().setdefault(name, module if name == package else getattr(module, name))
        meant = [x for x in get_close_matches(name, [*__all__, *results.__all__], 1, 0.8)]
        expected = "".join(f"expected ov.{'' if x in __all__ else 'results.'}{x}; " for x in meant)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {expected}dir({__name__}) shows all.")


__all__ = [
    "Activation", "GaussianCovariates", "GaussianMixture", "HiddenManifold", "Learner", "LowRank", "Mixed", "Model",
    "Rule", "Schedule", "Spectrum", "Stages", "State", "absolute", "biased", "cite", "closure", "committee_machine",
    "compare", "compress", "compression_error", "covariates", "critical_eta", "distill", "erf", "explore",
    "field_average", "fixed_point", "fluctuations", "gaussian_covariates", "gaussian_mixture", "greedy_schedule",
    "hessian", "hidden_manifold", "isotropic", "latents", "leaky_relu", "learner", "linear", "linearise", "load",
    "low_rank", "memory", "optimal_schedule", "plateau", "polynomial", "power_law", "previous_student", "quadratic",
    "quadratic_network", "random_features", "relu", "reproducible", "results", "rules", "save", "schedule_gradient",
    "sign", "simulate", "solve", "solve_many", "static", "style", "sweep", "tanh", "theory", "tlog_rmse",
]  # fmt: skip
__dir__ = public_dir(__name__)
