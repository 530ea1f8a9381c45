"""A function and its closure: the first half of "closure x spectrum".

``library`` holds the activations, ``kernels`` the registry of their compiled closures by code, ``binding`` finds the
one of a pair of activations and a rule. Files with an underscore are kernels and are known in this room only: one per
activation. A new activation is one file of kernels and one record in ``kernels``; a function without closed forms needs
neither (``numeric``).

Students may learn by a rule in place of activations: ``rule`` is its record, ``declared`` what users say of it,
``certified`` its closure with the sizes of its integrals, ``rules`` the rules of the library, whose committees are in
``committees``, ``feedback`` and ``rates``. A new rule is one function there and its name in ``rules``.
"""

from .activation import Activation
from .kernels import Kernels
from .library import absolute, erf, leaky_relu, linear, polynomial, quadratic, relu, sign, tanh

__all__ = [
    "Activation", "Kernels", "absolute", "erf", "leaky_relu", "linear", "polynomial", "quadratic", "relu", "sign",
    "tanh",
]  # fmt: skip
