"""Functions of the overlaps beside the error: its Hessian over the weights, and averages of any function of the fields.

``hessian`` needs nothing but the closure and its derivatives: whatever ``ov.linearise`` takes is served.
"""

from .averages import field_average
from .curvature import HessianSpectrum, hessian

__all__ = ["HessianSpectrum", "field_average", "hessian"]
