"""Choice of the closure for a model: for its student, its teacher and the numbers of learning."""

from ..activations.bound import LearningNumbers
from ..activations.classes import NO_CLASSES, ClassesClosure, NumericClassesClosure, shape_of
from ..activations.families import FamiliesClosure, parts_of
from ..activations.kernel_closure import KernelClosure
from ..activations.numeric import NumericClosure, deciding, fitted_sums
from ..activations.polynomials import PolynomialClosure
from ..activations.sums import MixtureClosure, PiecewiseLinearClosure
from ..gaussian.two_point import ERF, NUMERIC, RELU, SIGN
from ..rules.adaptive_closure import RuleClosure


def bind(model, second_order=None):
    """The model's closure, a ``Bound``: (S, w, A, B, C, dv) -> eps_g fills the arrays A, B, C, dv."""
    if second_order is None:
        second_order = not model.gradient_flow
    learning = LearningNumbers(model.K, model.second_layers.size, model.eta, model.eta_v, model.noise, second_order)
    return bind_units(model.activation, model.teacher_activation, learning, model.classes)


def bind_units(student, teacher, learning, classes=NO_CLASSES):
    """The closure of a student and a teacher, averaged over the classes of inputs."""
    if classes.n_classes:
        closed = {NUMERIC, int(SIGN)}.isdisjoint((shape_of(student)[0], shape_of(teacher)[0]))
        return (ClassesClosure if closed else NumericClassesClosure)(student, teacher, learning, classes)
    if student.learning is not None:
        return RuleClosure(student.learning, learning)
    kernels = student.closed_forms
    closed_pair = kernels is not None and (teacher == student or teacher.code in kernels.teachers)
    return (KernelClosure if closed_pair else bind_numeric)(student, teacher, learning)


def bind_numeric(student, teacher, learning):
    """The closure of two activations that have no common kernel: an exact one if there is one, else quadrature.

    Raises ``ValueError`` where the pair cannot be integrated at any state: because of kinks, or because
    second_order="mixture" does not fit the function.
    """
    f, f_star = student.closed_sum, teacher.closed_sum
    if teacher.code == SIGN and (f is None or f.code != ERF):
        raise ValueError(
            f"a teacher of signs with students of {student.name}; expected erf, tanh, linear or quadratic ones. "
            "Others learn by a rule: ov.Rule."
        )
    g, h, options = parts_of(student), parts_of(teacher), deciding(student, teacher)
    if g and h and g.is_piecewise_linear and h.is_piecewise_linear:
        return PiecewiseLinearClosure((g.slope, g.kink), (h.slope, h.kink), learning)
    if g and h and g.is_polynomial and h.is_polynomial:
        return PolynomialClosure(g, h, learning)
    if teacher.code == SIGN or (g and h and f and f_star and f.code != RELU):
        return MixtureClosure(f, f_star, learning)
    if g and h:
        teachers = bind_numeric(teacher, teacher, learning._replace(K=0, second_order=False))
        return FamiliesClosure(g, h, learning, bind_numeric(student, student, learning._replace(M=0)), teachers)
    if options.second_order == "mixture":
        f, f_star = fitted_sums(student, teacher, options.tolerance, asked=True)
        return MixtureClosure(f, f_star, learning)
    return NumericClosure(student, teacher, learning)
