r"""Overparametrised quadratic networks: phases of learning, implicit bias, landscape.

Student and teacher are :math:`\hat y = \frac1K \sum_k \lambda_k^2` and :math:`y = \frac1M \sum_m \nu_m^2` on isotropic
Gaussian inputs, with orthonormal teachers (T = identity) unless a function says otherwise.  The dynamics itself, for
any T, v, v* and label noise, is ``ov.solve(ov.quadratic_network(K, M, eta=...), ...)``; this module holds what is
known about it in closed form.

Two conventions are in use:

=================  ==============================  ==================================
quantity           this library (default)          Bocchi et al. (2026)
=================  ==============================  ==================================
loss of a sample   (yhat - y)^2 / 2                (yhat - y)^2
learning rate      ``eta``                         eta / 2; see :func:`eta_from_paper`
error              ``eps_g``                       risk = 2 eps_g
gradient, Hessian  of eps_g                        of the risk, twice as large
widths             K, M                            p, p*
time               alpha = steps / N               alpha; t = eta alpha / 2
=================  ==============================  ==================================

Rates per unit alpha are the same numbers in both.

References
----------
Bocchi, Regimbeau, Lucibello, Saglietti, Cammarota (2026), arXiv:2604.03068.  Its equation (34) is wrong in two of the
terms of order eta^2; the library's closure has the right ones (``tests/theory/quadratic/test_dynamics.py`` shows both).
"""

from .bias import RiccatiSolution, closest_solution, conserves_polar, distance, polar, riccati_flow, solution_weights
from .landscape import (
    FlatDirections,
    degrees_of_freedom,
    eps_g,
    flat_directions,
    gradient,
    hessian,
    solution_dimension,
    stationary_eps_g,
    stationary_point,
    stationary_points,
    stationary_spectrum,
)
from .phases import (
    Plateau,
    escape_amplitude,
    escape_law,
    eta_descent,
    eta_escape,
    eta_optimal,
    eta_plateau,
    eta_solution,
    final_descent,
    noise_floor,
    plateau,
    solution_rate,
)
from .times import eta_fastest, eta_from_paper, half_loss_time

__all__ = [
    "FlatDirections",
    "Plateau",
    "RiccatiSolution",
    "closest_solution",
    "conserves_polar",
    "degrees_of_freedom",
    "distance",
    "eps_g",
    "escape_amplitude",
    "escape_law",
    "eta_descent",
    "eta_escape",
    "eta_fastest",
    "eta_from_paper",
    "eta_optimal",
    "eta_plateau",
    "eta_solution",
    "final_descent",
    "flat_directions",
    "gradient",
    "riccati_flow",
    "half_loss_time",
    "hessian",
    "noise_floor",
    "plateau",
    "polar",
    "solution_dimension",
    "solution_rate",
    "solution_weights",
    "stationary_eps_g",
    "stationary_point",
    "stationary_points",
    "stationary_spectrum",
]
