"""Finite-N SGD: direct, with explicit weights, and reduced, exact in law at a cost independent of N.

A simulator is a function (model, start, N, steps, rng, tick) -> q, r, v; a new one enters ``simulate.SIMULATORS``.
"""
