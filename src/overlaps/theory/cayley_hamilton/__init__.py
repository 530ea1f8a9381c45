r"""The hierarchy of order parameters, closed by the Cayley-Hamilton theorem.

Worschech and Rosenow (2024) follow the moments :math:`Q^{(j)}, R^{(j)}` of the overlaps in powers of the covariance.
The flow of each depends on the next one, and the characteristic polynomial of the covariance closes the chain at
j = L. It is the flow of :func:`overlaps.solve` in other variables: an exact change of basis, and in float64 an
ill-conditioned one. This module implements it for comparison and for teaching, together with a well-conditioned basis
(:func:`polynomial_basis`).

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, section 3; the hierarchy itself: Yoshida and Okada (2019).
"""

from ..._base import public_dir
from . import bases, hierarchy
from .bases import *
from .hierarchy import *

__all__ = [*bases.__all__, *hierarchy.__all__]
__dir__ = public_dir(__name__)
