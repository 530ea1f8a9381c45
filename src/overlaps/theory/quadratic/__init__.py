r"""Overparametrised quadratic networks: phases of learning, implicit bias, landscape.

Student and teacher are :math:`\hat y = \frac1K \sum_k \lambda_k^2` and :math:`y = \frac1M \sum_m \nu_m^2` on isotropic
Gaussian inputs, with orthonormal teachers (T = identity) unless a function says otherwise.  The dynamics itself, for
any T, v, v* and label noise, is ``ov.solve(ov.quadratic_network(K, M, eta=...), ...)``; this module holds what is
known about it in closed form.

Two conventions are in use:

=================  ==============================  ==================================
quantity           this library (default)          Bocchi et al. (2026)
=================  ==============================  ==================================
loss of a sample   (yhat - y)^2 / 2                (yhat - y)^2
learning rate      ``eta``                         eta / 2; see :func:`eta_from_paper`
error              ``eps_g``                       risk = 2 eps_g
gradient, Hessian  of eps_g                        of the risk, twice as large
widths             K, M                            p, p*
time               alpha = steps / N               alpha; t = eta alpha / 2
=================  ==============================  ==================================

Rates per unit alpha are the same numbers in both.

References
----------
Bocchi, Regimbeau, Lucibello, Saglietti, Cammarota (2026), arXiv:2604.03068.  Its equation (34) is wrong in two of the
terms of order eta^2; the library's closure has the right ones (``tests/theory/quadratic/test_dynamics.py`` shows both).
"""

from . import bias, landscape, phases, times
from .bias import *
from .landscape import *
from .phases import *
from .times import *

__all__ = [*bias.__all__, *landscape.__all__, *phases.__all__, *times.__all__]
