"""From a system to records along the learning time.

``evolve`` is the engine of ``ov.solve``; ``choose`` decides for a method and says why; ``run`` steps any SciPy solver
onto the output times. ``dop853``, ``bdf`` and ``exponential`` are solver classes: a new integrator is one more class
with the interface of ``scipy.integrate.OdeSolver``, and enters ``methods``. It may say ``interpolates = True`` (dense
output as good as its steps), ``one_step = True`` (``h_abs`` and ``t_bound`` may change between steps), ``by_blocks =
True`` (needs the spectral basis), ``internal`` (options that are not the user's), ``follower`` (the solver for late
times) and ``kernel`` (a compiled closure: ``burst`` makes the steps of DOP853).
"""
