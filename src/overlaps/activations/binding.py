"""The one seam between functions and the rest: two activations and a rule of learning -> the closure that fits them."""

from .bound import KernelClosure
from .certified import RuleClosure
from .classes import Classes
from .numeric import bind_numeric
from .numeric_classes import bind_classes

NONE = Classes()


def bind(student, teacher, rule, classes=NONE):
    """The closure of these units, a ``Bound``: (S, w, A, B, C, dv) -> eps_g fills the arrays A, B, C, dv."""
    if classes.C:
        return bind_classes(student, teacher, rule, classes)
    if student.learning is not None:
        return RuleClosure(student.learning, rule)
    kernels = student.closed_forms
    own = kernels is not None and (teacher == student or teacher.code in kernels.teachers)
    return (KernelClosure if own else bind_numeric)(student, teacher, rule)
