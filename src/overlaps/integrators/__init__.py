"""Integration of a system along the learning time.

``evolve`` is the engine of ``ov.solve``; ``methods`` chooses a method and gives the reason.  ``run`` holds the records
and the loop over the steps of an ``integrator``; after each step ``monitors`` (``failure``, ``stop``) say whether to go
on.  ``dop853`` and ``bdf`` are solver classes.  A new integrator is one more ``solver.FlowSolver``: it names the class
of ``scipy.integrate`` whose steps it takes, states by ``solver.Traits`` what it offers beyond, and is added to
``methods``.
"""
