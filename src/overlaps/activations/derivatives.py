"""Derivatives of the closure with respect to its arguments (upper triangle of Q, R, v): kernels, or differences."""

import numpy as np

from ..gaussian.two_point import ERF, LINEAR, NUMERIC, QUADRATIC, RELU
from ._erf import erf_derivatives
from ._linear import linear_derivatives
from ._quadratic import quadratic_derivatives
from ._relu_derivatives import relu_alignment, relu_derivatives
from .numeric import NumericClosure

DERIVATIVES = {
    LINEAR: linear_derivatives,
    QUADRATIC: quadratic_derivatives,
    RELU: relu_derivatives,
    ERF: erf_derivatives,
}
ALIGNED = 1e-6  # sine of the angle between relu units below which their closure has no usable derivative
NEARLY = 1e-5  # the same for Newton's iteration, which is served by the derivatives of a state nearby
STEP = 2e-3  # of finite differences, for closures in closed form without derivatives
STEP_NUMERIC = 2e-2  # the same for closures by quadrature
AGREEMENT = 1e-5  # of finite differences with two steps, relative; worse is refused
ROUGH = 1e-4  # step where a few digits serve: closures by quadrature have an error of about 1e-8
SIXTH_ORDER = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
SECOND_ORDER = ((1, 1 / 2),)


def alignment_obstacle(model, S, least=NEARLY):
    """Why the closure has no derivatives at S, or an empty string."""
    if model.activation.code == RELU and relu_alignment(S, model.K) < least:
        return "a relu student is aligned with another unit, where the closure has no derivatives"
    return ""


def closure_derivatives(closure, model, S, w, *, exact):
    """Derivatives dA (d, K, K), dB (d, K, M), dC (d, K, K), ddv (d, K) of a bound closure at (S, w).

    ``exact`` demands all digits and raises ``ValueError`` where there are none; otherwise a few serve, for Newton's
    iteration, taken from a state nearby if need be.
    """
    K, M = model.K, model.M
    d = K * (K + 1) // 2 + K * M + K
    changes = tuple(np.zeros((d, *shape)) for shape in ((K, K), (K, M), (K, K), (K,)))
    student, teacher = model.activation.code, model.teacher_activation.code
    if NUMERIC in (student, teacher):
        differences = _exact_differences if exact else _rough_differences
        differences(closure, model, S, w, changes)
        return changes
    if exact and alignment_obstacle(model, S, ALIGNED):
        raise ValueError(
            "a relu student is aligned with another unit: the closure has no derivative there (it behaves like the "
            "angle), so that the flow cannot be linearised. Expected students apart from each other and from the "
            "teachers; follow the trajectory with ov.solve instead."
        )
    S = np.array(S)
    dA, dB, dC, ddv = changes
    second_order = not model.gradient_flow
    for nearby in (not exact and bool(alignment_obstacle(model, S)), not exact):
        if nearby:  # derivatives diverge at singular S
            S[np.diag_indices(K + M)] *= 1 + NEARLY**2
        DERIVATIVES[student](S, w, K, teacher, model.eta, model.eta_v, model.noise, second_order, dA, dB, dC, ddv)
        if all(np.all(np.isfinite(x)) for x in changes):
            break
    return changes


def _unknowns(K, n):
    """Indices (i, j) of the arguments S_ij, i <= j, in their order, then (k, None) for v_k."""
    pairs = [(i, j) for i in range(K) for j in range(i, K)] + [(i, m) for i in range(K) for m in range(K, n)]
    return [*pairs, *((k, None) for k in range(K))]


def _rough_differences(closure, model, S, w, changes):
    """Fill ``changes`` by central differences around a state a little further inside, where S keeps positive."""
    step = ROUGH * np.trace(S) / len(S)
    S = S + step * np.eye(len(S))
    for u, (i, j) in enumerate(_unknowns(model.K, len(S))):
        h = step if j is not None else ROUGH * max(np.abs(w[model.K :]).max(), 1e-300)
        for change, slope in zip(changes, _slope(closure, S, w, changes, i, j, h, SECOND_ORDER), strict=True):
            change[u] = slope


def _exact_differences(closure, model, S, w, changes):
    """Fill ``changes`` by central differences of sixth order; a second step size tells whether they can be trusted."""
    step = STEP_NUMERIC if isinstance(closure, NumericClosure) else STEP
    values = [np.zeros(x.shape[1:]) for x in changes]
    closure(S, w, *values)
    # what rounding of terms of the closure's natural size makes of a difference: no fault where the closure vanishes
    rounding = np.finfo(float).eps * max(model.eta, model.eta_v) * np.max(np.abs(w)) ** 2 / step
    for u, (i, j) in enumerate(_unknowns(model.K, len(S))):
        fine, coarse = (_slope(closure, S, w, changes, i, j, h, SIXTH_ORDER) for h in (step, 2 * step))
        error = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(fine, coarse, strict=True))
        size = max(np.max(np.abs(x), initial=0.0) for x in (*fine, *values[:2]))
        if not error <= AGREEMENT * size + rounding:
            raise ValueError(
                f"finite differences of the closure of {model.activation} and {model.teacher_activation} "
                "do not settle: "
                f"two steps differ by {error:.1e}, expected below {AGREEMENT:.0e} of {size:.1e}. The state may lie on "
                "the boundary of possible overlaps (student = teacher); use an activation in closed form (ov.erf, "
                "ov.tanh, ov.polynomial) there."
            )
        for change, slope in zip(changes, fine, strict=True):
            change[u] = slope


def _slope(closure, S, w, changes, i, j, h, stencil):
    """Derivative of A, B, C, dv along S_ij (or w_i if j is None)."""
    slopes = [np.zeros(x.shape[1:]) for x in changes]
    for distance, coefficient in stencil:
        for sign in (1, -1):
            Sh, wh = S.copy(), w.copy()
            if j is None:
                wh[i] += sign * distance * h
            else:
                Sh[i, j] = Sh[j, i] = S[i, j] + sign * distance * h
            values = [np.zeros(x.shape) for x in slopes]
            closure(Sh, wh, *values)
            for slope, value in zip(slopes, values, strict=True):
                slope += sign * coefficient / h * value
    return slopes
