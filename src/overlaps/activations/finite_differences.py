"""Derivatives of a closure by finite differences, where it has no closed form of them."""

from typing import NamedTuple

import numpy as np


class DerivativeOptions(NamedTuple):
    """Tunable numbers of the derivatives of a closure; steps are relative to the overlaps."""

    # Sine of the angle between a kinked student and another unit below which exact derivatives are refused, because the
    # closure behaves like the angle there. Halved, derivatives are computed where they have fewer digits.
    aligned_sine: float = 1e-6
    # The same sine for Newton's iteration: below it, derivatives are those of a state moved this far from alignment.
    # The value matters little because the root is found by the velocity.
    newton_aligned_sine: float = 1e-5
    step: float = 2e-3  # for differences of closed forms; halved, rounding doubles, and truncation falls 64-fold
    # The step for closures by quadrature. Halved, their error of 1e-8 over the step doubles; doubled, the truncation
    # error of the sixth order grows 64-fold.
    quadrature_step: float = 2e-2
    min_variance: float = 1e-6  # relative to the largest; steps do not shrink with smaller variances
    min_eigenvalue: float = 1e-3  # steps do not shrink with smaller eigenvalues of the correlations
    # Largest relative difference of derivatives by two steps; above it, the closure is not smooth enough and is
    # refused.
    agreement_tol: float = 1e-5
    # Step of Newton's derivatives, for which a few digits suffice. Halved, the error of quadrature, 1e-8 over the step,
    # leaves less than four digits.
    newton_step: float = 1e-4
    sixth_order: tuple = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences: distances and coefficients


DERIVATIVES = DerivativeOptions()


def central_differences(evaluate, S, w, unknowns, steps, stencil=((1, 1 / 2),)):
    """Derivatives (d, ...) of the arrays ``evaluate(S, w)`` along S_ij, or w_i where j is None; steps of S and of w.

    ``stencil`` contains distances and coefficients, by default those of second order.
    """
    changes = []
    for i, j in unknowns:
        h, terms = steps[1] if j is None else np.broadcast_to(steps[0], S.shape)[i, j], []
        for distance, coefficient in stencil:
            for sign in (1, -1):
                Sh, wh = S.copy(), w.copy()
                if j is None:
                    wh[i] += sign * distance * h
                else:
                    Sh[i, j] = Sh[j, i] = S[i, j] + sign * distance * h
                terms.append([sign * coefficient / h * x for x in evaluate(Sh, wh)])
        changes.append([sum(array) for array in zip(*terms, strict=True)])
    return tuple(np.array(x) for x in zip(*changes, strict=True))


def unknowns(K, M):
    """Indices (i, j) of the arguments S_ij, i <= j, of a closure in their order, then (k, None) for v_k."""
    pairs = [(i, j) for i in range(K) for j in range(i, K)] + [(i, K + m) for i in range(K) for m in range(M)]
    return [*pairs, *((k, None) for k in range(K))]


def inner_steps(S):
    """Sizes (n, n) of steps of S, proportional to the least eigenvalue of the correlations of the fields."""
    norms = np.sqrt(np.maximum(np.diag(S), DERIVATIVES.min_variance * np.max(np.diag(S))))
    size = np.outer(norms, norms)
    return size * np.clip(np.linalg.eigvalsh(S / size)[0], DERIVATIVES.min_eigenvalue, 1.0)


def newton_differences(closure, S, w):
    """Derivatives to a few digits: differences around S plus a multiple of the identity, which keeps S definite."""
    step, (K, M) = DERIVATIVES.newton_step * np.trace(S) / len(S), closure.learning[:2]
    steps = step, DERIVATIVES.newton_step * max(np.abs(w[K:]).max(), 1e-300)
    return central_differences(closure.arrays, S + step * np.eye(len(S)), w, unknowns(K, M), steps)


def exact_differences(closure, S, w, sizes):
    """Differences of sixth order with steps proportional to ``sizes``, compared with those of twice the step."""
    step = DERIVATIVES.quadrature_step if closure.by_quadrature else DERIVATIVES.step
    values, learning, stencil = closure.arrays(S, w), closure.learning, DERIVATIVES.sixth_order
    arguments = unknowns(*learning[:2])
    changes, coarse = (
        central_differences(closure.arrays, S, w, arguments, (h * sizes, h), stencil) for h in (step, 2 * step)
    )
    # Rounding error of a finite difference, from terms of the size of the closure: derivatives may be exactly zero.
    unit = np.finfo(float).eps * max(learning.eta, learning.eta_v) * np.max(np.abs(w)) ** 2 / step
    both = (zip(*x, strict=True) for x in (changes, coarse))
    for (i, j), fine_u, coarse_u in zip(arguments, *both, strict=True):
        rounding = unit if j is None else unit / sizes[i, j]
        error = max(np.max(np.abs(a - b), initial=0.0) for a, b in zip(fine_u, coarse_u, strict=True))
        size = max(np.max(np.abs(x), initial=0.0) for x in (*fine_u, *values[:2]))
        if not error <= DERIVATIVES.agreement_tol * size + rounding:
            raise ValueError(
                f"finite differences of the closure, {closure!r}, do not converge: two steps differ by {error:.1e}, "
                f"expected below {DERIVATIVES.agreement_tol:.0e} of {size:.1e}. The state may lie on the boundary "
                "of possible overlaps (student = teacher); use an activation in closed form (ov.erf, ov.tanh, "
                "ov.polynomial) there."
            )
    return changes
