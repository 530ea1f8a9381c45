"""Questions about a curve or a state: plateaus, escape, fluctuations at finite size, curvature, fewer eigenspaces.

``generic_plateau`` finds the plateau of a generic start, ``stationary`` all stationary points. ``linear_noise`` is the
linear-noise expansion of SGD around the equations: ``noise_covariance`` computes the covariance of one step,
``unknowns`` the fluctuating variables and second derivatives of their flow, ``transport`` integrates covariance and
mean along the curve; ``escape_time`` uses them. ``curvature`` is the Hessian of the error over the weights,
``averages`` integrates functions of the fields, and ``compression`` replaces many eigenspaces by few.
"""

from .averages import field_average
from .compression import compress, compression_error
from .curvature import HessianSpectrum, hessian
from .generic_plateau import plateau
from .linear_noise import Fluctuations, fluctuations

__all__ = [
    "Fluctuations", "HessianSpectrum", "compress", "compression_error", "field_average", "fluctuations", "hessian",
    "plateau",
]  # fmt: skip
