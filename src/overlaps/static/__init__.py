"""Static theories: what a given amount of data determines, whatever the algorithm (fixed points, no dynamics)."""

from .._base import public_dir
from .bayes.equal import EqualReadouts
from .bayes.posterior import sample_posterior
from .bayes.power_law import PowerLawLimit
from .bayes.student import train_student
from .bayes.subcritical import SubcriticalPowerLaw
from .bayes.teacher import HierarchicalTeacher
from .spiked.best_step import best_step
from .spiked.bounds import bounds_over_rate
from .spiked.features import SpikedRandomFeatures
from .spiked.row_norms import gaussian_rows, large_batch_network
from .spiked.simulation import simulate_one_step, simulate_srf
from .spiked.subspace import SpikedSubspace

__all__ = [
    "EqualReadouts", "HierarchicalTeacher", "PowerLawLimit", "SpikedRandomFeatures", "SpikedSubspace",
    "SubcriticalPowerLaw", "best_step", "bounds_over_rate", "gaussian_rows", "large_batch_network",
    "sample_posterior", "simulate_one_step", "simulate_srf", "train_student",
]  # fmt: skip
__dir__ = public_dir(__name__)
