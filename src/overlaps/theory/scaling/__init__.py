r"""Scaling laws of linear students from two exponents: four terms, trained features, compute, schedules, and fits.

:class:`Law` contains the numbers of one problem; its methods are its theory.  Eigenvalues fall as
:math:`l^{-(1+\beta)}` and the teacher's coefficients along the eigenvectors as :math:`l^{-\delta}`, ``source`` delta.
:func:`fit` measures the exponent of any curve, computed, simulated or read from a file, and the window in which it
holds.  Written for K = M = 1; any other linear committee is the same with the learning rate and the distances of
:func:`overlaps.theory.linear.reduce`.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, is source = 0, N_l trained features, gradient flow.  Everything else is
derived here.
"""

from ..._base import public_dir
from .law import Exponents, Law, Phase
from .terms import Frontier, Terms, best_eta
from .windows import Fit, fit

__all__ = ["Exponents", "Fit", "Frontier", "Law", "Phase", "Terms", "best_eta", "fit"]
__dir__ = public_dir(__name__)
