"""From a system to records along the learning time.

``evolve`` is the engine of ``ov.solve``; ``choose`` decides for a method and says why; ``run`` steps any SciPy solver
onto the output times. ``dop853``, ``bdf`` and ``exponential`` are solver classes: a new integrator is one more class
with the interface of ``scipy.integrate.OdeSolver``, and enters ``methods``.
"""

from .evolve import Solution, evolve

__all__ = ["Solution", "evolve"]
