"""The one right-hand side, its Jacobian J = D + F G, and the same flow in the differences of students and teachers.

``_flow`` is the ODE of the library, ``velocity`` how compiled steps drive it. ``system`` binds the closure and states
the protocol: integrators and the stability analysis know a system and nothing else. ``packing`` knows how order
parameters lie in a vector. ``differences`` follows the flow where Q and R no longer hold eps_g, ``handover`` says when.
"""

from ._flow import FLOW, add, clear, copy, dot, flow, flow_for, gather, gather_groups, mix, tightening
from ._newton import correct, factorise, rotate, rotate_back

__all__ = [
    "FLOW", "add", "clear", "copy", "correct", "dot", "factorise", "flow", "flow_for", "gather", "gather_groups", "mix",
    "rotate", "rotate_back", "tightening",
]  # fmt: skip
