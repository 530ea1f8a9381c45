"""SGD at finite N without simulation: the linear-noise expansion around the equations.

``noise`` knows the covariance of one step of SGD, ``unknowns`` what fluctuates and the second derivatives of its flow,
``transport`` carries covariance and mean along a path, ``expansion`` puts them together and is what users call.
"""

from .expansion import Fluctuations, fluctuations

__all__ = ["Fluctuations", "fluctuations"]
