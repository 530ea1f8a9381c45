"""Forces of learning rules. The compiled steps take a rule as a tuple in place of an activation.

rule = (values, p, force, chance, theta, S, s, G): values of a noise whose probabilities p depend on the teacher, two
first-class functions (numba warns if they come first), theta followed by the numbers of the rule, the overlaps S, the
eigenvalue s of each coordinate (empty if the force does not read overlaps), and a work array G. No function here
allocates an array, because counting the references of such a tuple takes as long as a step.
"""

import math

from numba import types
from numba.extending import overload

from .._base.jit import jit
from ..rules.laws import proper


@jit(no_reference_counting=True)
def apply_force(rule, lam, nu, xi, eta, eta_v, F, dv):
    """F = eta F^a_k (T K,) and dv = eta_theta G_k (K,) of one sample, from the concatenated fields of its T tokens."""
    values, p, force, chance, theta, S, s, G = rule
    if values.size > 0:  # xi is uniform
        chance(nu, theta, p)
        i = 0
        while i < values.size - 1 and xi >= p[i]:
            xi -= p[i]
            i += 1
        xi = values[i] if proper(p) else math.nan  # nan ends the run as diverged
    F[:], G[:] = 0.0, 0.0
    force(lam, nu, xi, theta, S, F, G)
    for k in range(F.size):
        F[k] *= eta
    for k in range(dv.size):
        dv[k] = eta_v * G[k]


@jit(no_reference_counting=True)
def apply_forces(rule, lam, nu, xi, eta, eta_v, F, dv):
    """``apply_force`` for all samples of a step: sample i has row i of xi and dv and T rows of lam, nu and F."""
    T = lam.shape[0] // xi.size
    for i in range(xi.size):
        lam_i, F_i = lam[i * T : (i + 1) * T], F[i * T : (i + 1) * T]
        nu_i = nu[i * T : (i + 1) * T]
        apply_force(
            rule, lam_i.reshape(lam_i.size), nu_i.reshape(nu_i.size), xi[i], eta, eta_v, F_i.reshape(F_i.size), dv[i]
        )


@jit(no_reference_counting=True)
def fill_overlaps(rule, W, factor, W_star):
    """Fill S with the overlaps of the weights, if the force reads overlaps; teachers may drift."""
    S, s = rule[5], rule[6]
    if s.size == 0:
        return
    K, N = W.shape
    for a in range(len(S)):
        for b in range(a + 1):
            total = 0.0
            for i in range(N):
                left = W[a, i] * factor if a < K else W_star[a - K, i]
                total += s[i] * left * (W[b, i] * factor if b < K else W_star[b - K, i])
            S[a, b] = S[b, a] = total / N


@jit(no_reference_counting=True)
def fill_overlaps_of_frame(rule, teachers, students):
    """Fill S from coordinates in frames, if the force reads overlaps."""
    S, s = rule[5], rule[6]
    if s.size == 0:
        return
    K, rows = students.shape[2], teachers.shape[1]
    for a in range(len(S)):
        for b in range(a + 1):
            total = 0.0
            for e in range(len(s)):
                for j in range(rows if a >= K else students.shape[1]):
                    left = students[e, j, a] if a < K else teachers[e, j, a - K]
                    total += s[e] * left * (students[e, j, b] if b < K else teachers[e, j, b - K])
            S[a, b] = S[b, a] = total


def update_overlaps(student, *units):
    """Fill S of a rule from weights (W, factor, W_star) or frames (teachers, students); no effect for an activation."""
    if isinstance(student, tuple):
        (fill_overlaps if len(units) == 3 else fill_overlaps_of_frame)(student, *units)


@overload(update_overlaps, jit_options={"_nrt": False})
def _update_overlaps(student, *units):
    fill = fill_overlaps if len(units) == 3 else fill_overlaps_of_frame
    if isinstance(student, types.BaseTuple):
        return lambda student, *units: fill(student, *units)
    return lambda student, *units: None
