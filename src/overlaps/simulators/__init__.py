"""Finite-N SGD: direct, with explicit weights, and reduced, exact in law at a cost independent of N.

A simulator is a function (model, start, N, steps, rng, tick) -> q, r, v; add a new one to ``dispatch.SIMULATORS``.
Models whose data are not Gaussian inputs with a spectrum register with ``dispatch.specify``, as ``manifold/sgd.py``
does.
"""

from .runs import simulate

__all__ = ["simulate"]
