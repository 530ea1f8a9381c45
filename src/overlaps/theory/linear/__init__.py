r"""Linear students, g(x) = x, on any spectrum: exact learning curves, scaling laws, finite-N SGD.

Only one vector matters, the sum of the students, :math:`\sum_k v_k w_k`, which learns :math:`\sum_m v^*_m w^*_m`.  All
functions are written for K = M = 1 and v = v* = 1, with weights w* ~ N(0, 1) and w ~ N(0, student_scale^2).  Any other
linear model is the same with

==================  ====================================  =======================
quantity            general K, M, v, v*                   ``normalised=True``
==================  ====================================  =======================
``eta``             eta sum_k v_k^2                       eta M / K
initial distance    sigma_J^2 sum_k v_k^2 + sum_m v*_m^2  1 + sigma_J^2 M / K
==================  ====================================  =======================

:func:`reduce` does this for a given model and start.  Exact: :func:`modes`, :func:`error`, :func:`limit_error`,
:func:`eta_critical`, :func:`sgd_mean`.  Gradient flow: :func:`flow_error`, :func:`flow_overlaps`.  Power-law spectra in
gradient flow: :func:`integral_error`, :func:`integral_bound`, :func:`power_law_error`, :func:`window`,
:func:`exponent`; a finite learning rate multiplies them by :func:`amplitude`.  The best learning rate under label
noise: :func:`optimal_error`, :func:`optimal_eta`.  A drifting teacher: :func:`tracking_error`.  Several passes over a
finite data set: :func:`multi_pass`.

The ODE is the limit of SGD for eta max(s)/N -> 0.  With L ~ N that ratio is finite: use :func:`sgd_mean`.  Numbers
out of range raise a ``ValueError`` that names them.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005.  The docstrings list misprints, which are corrected.
"""

from ..._base import public_dir
from . import data_set, eigenmodes, flow
from .data_set import *
from .eigenmodes import *
from .flow import *

__all__ = [*data_set.__all__, *flow.__all__, *eigenmodes.__all__]
__dir__ = public_dir(__name__)
