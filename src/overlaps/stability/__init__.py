"""Where the flow stops, and whether it stays: fixed points, their linear stability, critical learning rates."""

from .critical import CriticalEta, critical_eta
from .fixed_points import FixedPoint, fixed_point
from .linear import Linearisation, linearise

__all__ = ["CriticalEta", "FixedPoint", "Linearisation", "critical_eta", "fixed_point", "linearise"]
