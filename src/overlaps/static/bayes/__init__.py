"""Bayes-optimal learning of teachers of extensive width: fixed points, thresholds, scaling laws.

``correlation`` turns an activation into its correlation function g, ``channel`` solves the scalar problem of one
feature, q = m(lambda), with all its transitions, and ``fixed_points`` finds every solution of the equation that couples
the features. On these stand ``teacher`` (finite k), which answers with ``solutions``, the limits ``power_law``,
``subcritical`` and ``equal``. ``labels`` has the true law of a label in place of a Gaussian one, ``exact`` its
solutions, ``pair`` solves two features with overlaps between them.
``posterior`` samples at finite size, and ``student`` trains a finite network for comparison.

A new law of readouts in the limit of many features is a subclass of ``power_law.Limit``: it lists its parameters, the
noise and the activation behind them, and finds the channel made. A new family of g is a ``kind`` of ``Correlation``
with its branch in ``_features.correlation``.
"""
