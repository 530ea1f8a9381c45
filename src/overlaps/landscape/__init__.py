"""Functions of the overlaps: the Hessian of the error over the weights, and averages of any function of the fields.

``hessian`` needs only the closure and its derivatives, and accepts every model that ``ov.linearise`` accepts.
"""

from .averages import field_average
from .curvature import HessianSpectrum, hessian

__all__ = ["HessianSpectrum", "field_average", "hessian"]
