r"""The symmetric plateau of erf networks and the escape from it, for any spectrum and any teacher.

On the plateau all students are equal, :math:`w_k = \sum_n c_n w^*_n`: one student of weight K v at its fixed point. The
dynamics depends on the moments of the teacher, :math:`T^{(j)} = \sum_l s_l^j t^l`: T = T^(1) sets the heights,
T2 = T^(2) the rates of escape. Everything here is gradient flow (first order in eta), for students with equal output
weights v, and exact for N -> infinity where no approximation is named. Defaults are those of
``committee_machine(..., normalised=True)``: K = M, v = sqrt(M)/K, v* = 1/sqrt(M); the library's soft committee machine
has v = v* = 1. :func:`plateau` and :func:`symmetric_plateau` explain the parameters that functions share.

A *symmetric* teacher has equal diagonal entries T_nn = T1 and equal entries T_nm = D1/(M - 1) beside them: D1 is the
sum of a row without its diagonal entry.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, called [WR] below.
"""

from ..._base import public_dir
from . import escape, heights
from .escape import *
from .heights import *

__all__ = [*escape.__all__, *heights.__all__]
__dir__ = public_dir(__name__)
