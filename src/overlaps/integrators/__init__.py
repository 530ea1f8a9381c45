"""Integration of a system along the learning time.

``evolve`` is the engine of ``ov.solve``; ``methods`` chooses a method and gives the reason; ``run`` steps any SciPy
solver onto the output times. ``dop853`` and ``bdf`` are solver classes: a new integrator is one more class with the
interface of ``scipy.integrate.OdeSolver``, and is added to ``methods``. Optional attributes are ``interpolates = True``
(dense output as good as its steps), ``by_blocks = True`` (needs the spectral basis), ``internal`` (options that are not
the user's), ``estimates_error`` (adds up the errors of eps_g), and ``kernel`` with ``compiled_steps`` (a compiled
closure, and the class that makes compiled steps with it).
"""
