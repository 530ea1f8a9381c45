"""The one right-hand side, its Jacobian J = D + F G, and the same flow in the differences of students and teachers.

``_flow`` is the ODE of the library. ``system`` packs the order parameters into a vector and binds the closure:
integrators and the stability analysis know a system and nothing else. ``differences`` follows the flow where Q and R
no longer hold eps_g, ``handover`` says when.
"""
