"""Static theories: what a given amount of data determines, whatever the algorithm (fixed points, no dynamics)."""

from .asymptotics import PowerLawLimit
from .hierarchical import HierarchicalTeacher
from .subcritical import EqualReadouts, SubcriticalPowerLaw

__all__ = ["EqualReadouts", "HierarchicalTeacher", "PowerLawLimit", "SubcriticalPowerLaw"]
