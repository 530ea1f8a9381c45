"""Random features after one giant gradient step: test error, bounds, spectrum, simulation.

``averages`` has Gaussian averages of one function, ``one_step`` spike and bulk after the step, ``conditional`` the
functions of features and labels given the projection k on the spike, ``ridge`` the fixed point of the readout on them.
``model`` is the ground: fields, blocks, tables and rows of both models. ``features`` is the one that users hold; it
hands on to ``solving`` (points, curves, the best penalty; records in ``solutions``), ``classifier`` (convex
``losses``), ``bounds``, ``spectrum`` and ``simulation``; ``network_correction`` has what it omits of the
network and gives it back, ``best_step`` the best learning rate. ``subspace`` is the model of spikes in several
directions, whose tables and giant steps are in ``directions``.

New rows of the bulk are a response, ``response(Vh) -> ridge.Response``, as ``marchenko_pastur`` or those of ``blocks``.
A new loss is an entry of ``losses.LOSSES``.
A new quantity of the readout is computed in ``ridge.fit`` and is a field of ``SpikedSolution``; curves have it by that.
"""
