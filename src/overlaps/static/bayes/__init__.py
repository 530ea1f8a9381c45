"""Bayes-optimal learning of teachers of extensive width: fixed points, thresholds, scaling laws.

``correlation`` turns an activation into its correlation function g, ``channel`` solves the scalar problem of one
feature, q = m(lambda), with all its transitions, and ``fixed_points`` finds every solution of the equation that couples
the features. They are used by ``teacher`` (finite k), whose results are in ``solutions``, and by the limits
``power_law``, ``subcritical`` and ``equal``. ``labels`` has the true law of a label in place of a Gaussian one,
``exact`` the solutions with it, and ``pair`` solves for two features with overlaps between them.
``posterior`` samples at finite size (``sampler``), and ``student`` trains a finite network for comparison.

To add a law of readouts in the limit of many features, derive a class from ``power_law.Limit``: its fields are the
law's parameters, followed by the noise and the activation; ``channel`` is inherited. To add a family of g, add a
``kind`` of ``Correlation`` and its branch in ``_features.correlation``.
"""
