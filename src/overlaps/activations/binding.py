"""The one seam between functions and the rest: two activations and a rule of learning -> the closure that fits them."""

from ..gaussian.two_point import ERF, NUMERIC, RELU, SIGN
from .adaptive_closure import RuleClosure
from .bound import KernelClosure
from .classes import Classes, ClassesClosure, NumericClassesClosure, shape_of
from .families import FamiliesClosure, parts_of
from .numeric import NumericClosure, deciding, fitted_sums
from .polynomials import PolynomialClosure
from .sums import MixtureClosure, PiecewiseLinearClosure

NONE = Classes()


def bind(student, teacher, rule, classes=NONE):
    """The closure of these units, a ``Bound``: (S, w, A, B, C, dv) -> eps_g fills the arrays A, B, C, dv."""
    if classes.n_classes:
        closed = {NUMERIC, int(SIGN)}.isdisjoint((shape_of(student)[0], shape_of(teacher)[0]))
        return (ClassesClosure if closed else NumericClassesClosure)(student, teacher, rule, classes)
    if student.learning is not None:
        return RuleClosure(student.learning, rule)
    kernels = student.closed_forms
    closed_pair = kernels is not None and (teacher == student or teacher.code in kernels.teachers)
    return (KernelClosure if closed_pair else bind_numeric)(student, teacher, rule)


def bind_numeric(student, teacher, rule):
    """The closure of two activations that have no common kernel: the first that fits, quadrature where none does.

    Raises ``ValueError`` where the pair cannot be integrated at any state: kinks, or a mixture asked for a function
    that is not one.
    """
    f, f_star = student.closed_sum, teacher.closed_sum
    if teacher.code == SIGN and (f is None or f.code != ERF):
        raise ValueError(
            f"a teacher of signs with students of {student.name}; expected erf, tanh, linear or quadratic ones. "
            "Others learn by a rule: ov.Rule."
        )
    g, h, options = parts_of(student), parts_of(teacher), deciding(student, teacher)
    if g and h and g.is_piecewise_linear and h.is_piecewise_linear:
        return PiecewiseLinearClosure((g.slope, g.kink), (h.slope, h.kink), rule)
    if g and h and g.is_polynomial and h.is_polynomial:
        return PolynomialClosure(g, h, rule)
    if teacher.code == SIGN or (g and h and f and f_star and f.code != RELU):
        return MixtureClosure(f, f_star, rule)
    if g and h:
        teachers = bind_numeric(teacher, teacher, rule._replace(K=0, second_order=False))
        return FamiliesClosure(g, h, rule, bind_numeric(student, student, rule), teachers)
    if options.second_order == "mixture":
        f, f_star = fitted_sums(student, teacher, options.tolerance, asked=True)
        return MixtureClosure(f, f_star, rule)
    return NumericClosure(student, teacher, rule)
