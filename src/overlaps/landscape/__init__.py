"""The population error as a landscape over the weights: its Hessian along a trajectory, read off the overlaps.

``hessian`` needs nothing but the closure and its derivatives: whatever ``ov.linearise`` takes is served.
"""

from .hessian import HessianSpectrum, hessian

__all__ = ["HessianSpectrum", "hessian"]
