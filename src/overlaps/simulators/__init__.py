"""Finite-N SGD: direct, with explicit weights, and reduced, exact in law at a cost independent of N.

A simulator is a function (model, start, N, steps, rng, tick) -> q, r, v; a new one enters ``plan.SIMULATORS``. Data of
another kind than inputs with a spectrum bring a ``plan`` of their own, as the hidden manifold does in its room.
"""

from .runs import simulate

__all__ = ["simulate"]
