"""The right-hand side, its Jacobian J = D + F G, and the same flow in the differences of students and teachers.

* ``_flow``: the ODE of the library; ``velocity`` evaluates it in compiled steps, ``simd`` for many states at once.
* ``system``: a model on a start as an ODE, and the interface that integrators and the stability analysis use.
* ``packing``: layout of the order parameters in a vector.
* ``jacobian``, ``_newton``: the Jacobian, and the linear equations of implicit methods.
* ``differences``: the flow at late times, where eps_g is below the rounding of Q and R; ``late_transition`` decides
  when to change to it.
* ``mixed``: tasks mixed in one step, and inputs whose variances change; ``psd``: projection onto PSD matrices.
"""

from ._flow import FLOW, add, clear, copy, dot, flow, flow_for, gather, gather_groups, mix, tightening
from ._newton import correct, factorise

__all__ = [
    "FLOW", "add", "clear", "copy", "correct", "dot", "factorise", "flow", "flow_for", "gather", "gather_groups", "mix",
    "tightening",
]  # fmt: skip
