"""Integration of a system along the learning time.

``evolve`` is the engine of ``ov.solve``; ``methods`` chooses a method and gives the reason.  ``run`` holds the records
and the loop over the steps of an ``integrator``; after each step ``monitors`` (``failure``, ``stop``) say whether to go
on.  ``dop853`` and ``bdf`` are solver classes: a new integrator is one more class with the interface of
``scipy.integrate.OdeSolver``, and is added to ``methods``.  It states what it offers beyond that interface as a
``solver.FlowSolver`` with ``solver.Traits``.
"""
