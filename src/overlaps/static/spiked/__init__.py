"""Random features after one giant gradient step: test error, bounds, spectrum, simulation.

``averages`` has Gaussian averages of one function, ``one_step`` spike and bulk after the step, ``conditional`` the
functions of features and labels given the projection k on the spike, ``ridge`` the fixed point of the readout on them.
``model`` is the base of both models: fields, tables, ``blocks`` of neurons and ``letters`` of their readout.
``features`` is the public model; its methods are in ``solving`` (points, curves, the best penalty; results in
``solutions``), ``classifier`` (convex ``losses``), ``bounds``, ``spectrum`` (its equations in ``resolvent``, its
``edges``) and ``simulation`` (one of its ``draws``, the ``training`` of a readout). ``row_norms`` adds the effects of
the norms of the rows to this model, and ``best_step`` finds the best learning rate. ``subspace`` is the model of spikes
in several directions; its tables and giant steps are in ``directions``.

To add a law of the bulk's rows, write its R-transform beside ``blocks.independent``. To add a loss, add an entry to
``losses.LOSSES``. To add a quantity of the readout, compute it in ``ridge.fit`` and make it a field of
``SpikedSolution``; curves then contain it.
"""
