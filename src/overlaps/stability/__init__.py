"""Fixed points of the flow, their linear stability, and critical learning rates."""

from .critical import CriticalEta, critical_eta
from .fixed_points import FixedPoint, fixed_point
from .linear import Linearisation, linearise

__all__ = ["CriticalEta", "FixedPoint", "Linearisation", "critical_eta", "fixed_point", "linearise"]
