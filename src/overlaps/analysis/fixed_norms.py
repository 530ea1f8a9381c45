r"""Students of fixed norm at finite N: what scaling them after each step does at order 1/N.

A step y + u/N without the constraint is followed by a factor :math:`(1 + 2 a_k/N)^{-1/2}` for each student, with
:math:`a_k = n_k(u)/(2 n_k)` the relative growth of its norm :math:`n_k = \sum_l q^l_{kk}`. An overlap that contains
student k :math:`W_k` times is multiplied by the product of the factors,

.. math:: 1 - \frac{m}{N} + \frac{1}{N^2}\Big(\sum_k W_k a_k^2 + \frac{m^2}{2}\Big), \qquad m = \sum_k W_k a_k .

The first order projects every increment, and so the covariance of a step: norms have no noise. The second one adds to
the mean. ``sphere``, here, is that of :class:`overlaps.flow.jacobian.Jacobian`, with W (K, n) and ``reads`` (K, n) of
the norms.
"""

import numpy as np


def mean_of_scaling(sphere, moments):
    """Mean (n,) of the terms of order 1/N^2 of one step, from E[u u^T] (n, n) of increments without the constraint."""
    growth, W = sphere.reads / (2 * sphere.norms[:, None]), sphere.W
    with_growth = moments @ growth.T
    squares = growth @ with_growth
    of_factors = W.T @ np.diag(squares) + np.einsum("ke,kl,le->e", W, squares, W) / 2
    return sphere.y * of_factors - np.einsum("ke,ek->e", W, with_growth)


def second_derivative(sphere, second, J, Sigma):
    """Second derivative (n,) of the flow on spheres, contracted with the covariance Sigma (d, d).

    From that of the flow without the constraint, ``second`` (n,), and the Jacobian J (n, d) of that flow; the first n
    of the d variables are the packed overlaps.
    """
    n = len(second)
    with_mu = sphere.multipliers(J, np.eye(*J.shape)) @ Sigma[:, :n]  # covariances of mu and y
    of_mu = (sphere.reads @ second / 2 - 2 * np.sum(sphere.reads * with_mu, axis=1)) / sphere.norms
    return second - sphere.W.T @ of_mu * sphere.y - 2 * np.sum(sphere.W * with_mu, axis=0)
