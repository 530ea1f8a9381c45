"""Static theories: what a given amount of data determines, whatever the algorithm (fixed points, no dynamics)."""

from .asymptotics import PowerLawLimit
from .hierarchical import HierarchicalTeacher
from .network_correction import gaussian_rows, large_batch_network, partial_network
from .simulation import simulate_one_step, simulate_srf
from .spiked import SpikedRandomFeatures
from .spiked_bounds import bounds_over_rate
from .spiked_spectrum import feature_spectrum
from .subcritical import EqualReadouts, SubcriticalPowerLaw

__all__ = [
    "EqualReadouts",
    "HierarchicalTeacher",
    "PowerLawLimit",
    "SpikedRandomFeatures",
    "SubcriticalPowerLaw",
    "bounds_over_rate",
    "feature_spectrum",
    "gaussian_rows",
    "large_batch_network",
    "partial_network",
    "simulate_one_step",
    "simulate_srf",
]
