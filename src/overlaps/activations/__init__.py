"""Activations, learning rules and their closures.

``library`` contains the activations, ``kernels`` the registry of their compiled closures by code, and ``binding``
chooses the closure of a pair of activations. Modules with an underscore contain kernels and are private to this
package, one for each activation. A new activation is one module of kernels and one entry in ``kernels``. Functions
without closed forms are integrated by quadrature (``numeric``).

Students may learn by a rule instead of the gradient of a loss: ``rule`` defines it, ``validation`` checks functions of
users, ``adaptive_closure`` is its closure by quadrature, and ``rules`` collects the rules of the library, some of which
are defined in ``committees``, ``feedback``, ``tokens`` and ``adaptive_rates``. A new rule is one function in one of
these modules and its name in ``rules``.
"""

from .activation import Activation
from .kernels import Kernels
from .library import absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, sign, tanh

__all__ = [
    "Activation", "Kernels", "absolute", "erf", "leaky_relu", "linear", "polynomial", "quadratic", "relu", "sign",
    "tanh",
]  # fmt: skip
