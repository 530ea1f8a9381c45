"""SGD at finite N without simulation: the linear-noise expansion around the equations.

``noise`` computes the covariance of one step of SGD, ``unknowns`` the fluctuating variables and the second derivatives
of their flow. ``transport`` integrates covariance and mean along a path, ``expansion`` combines these and has the
public functions.
"""

from .expansion import Fluctuations, fluctuations

__all__ = ["Fluctuations", "fluctuations"]
