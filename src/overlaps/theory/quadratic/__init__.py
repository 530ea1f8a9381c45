r"""Overparametrised quadratic networks: phases of learning, implicit bias, landscape.

Student and teacher are :math:`\hat y = \frac1K \sum_k \lambda_k^2` and :math:`y = \frac1M \sum_m \nu_m^2` on isotropic
Gaussian inputs, with orthonormal teachers (T = identity) unless stated otherwise.  The dynamics itself, for any
T, v, v* and label noise, is ``ov.solve(ov.quadratic_network(K, M, eta=...), ...)``; this module has its closed forms.

The paper's loss (yhat - y)^2 is twice ours, and so are its risk, gradients and Hessians, while its learning rate is
half of ours (:func:`eta_from_paper`): rates per unit alpha are the same numbers.

References
----------
Bocchi, Regimbeau, Lucibello, Saglietti, Cammarota (2026), arXiv:2604.03068.  Its equation (34) is wrong in two of the
terms of order eta^2; the library's closure has the right ones (``tests/theory/quadratic/test_dynamics.py`` shows both).
"""

from ..._base import public_dir
from . import bias, landscape, phases, selection
from .bias import *
from .landscape import *
from .phases import *
from .selection import *

__all__ = [*bias.__all__, *landscape.__all__, *phases.__all__, *selection.__all__]
__dir__ = public_dir(__name__)
