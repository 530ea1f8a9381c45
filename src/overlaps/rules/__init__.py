"""Rules of learning, in place of the gradient of a loss, and their closures.

``rule`` defines a rule, ``validation`` checks functions of users, ``adaptive_closure`` is the closure of any rule by
quadrature. The rules of the library are in ``perceptrons``, ``committees``, ``feedback``, ``tokens`` and
``adaptive_rates``. A new rule is one function in one of these modules and its name
in ``library``.
"""

from .._base import public_dir
from .library import *
from .library import __all__ as __all__

__dir__ = public_dir(__name__)
