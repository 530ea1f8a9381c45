"""Activations and the closures of gradient descent.

``library`` contains the activations, and ``kernels`` the registry of their compiled closures by code; ``flow.binding``
chooses the closure of a pair of activations. Modules with an underscore contain kernels and are private to this
package, one for each activation. A new activation is one module of kernels and one entry in ``kernels``. Functions
without closed forms are integrated by quadrature (``numeric``).
"""

from .activation import Activation
from .kernels import Kernels
from .library import absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, sign, tanh

__all__ = [
    "Activation", "Kernels", "absolute", "erf", "leaky_relu", "linear", "polynomial", "quadratic", "relu", "sign",
    "tanh",
]  # fmt: skip
