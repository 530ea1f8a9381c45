"""Samples of a rule of learning, which comes as a tuple in the place of an activation; steps are compiled for each.

rule = (values, p, force, chance, theta, S, s, G): values of a noise whose probabilities p depend on the teacher,
first-class functions (not in front, where numba warns of them), theta with the numbers of the rule behind it, the
overlaps and, where the force reads them, the eigenvalue of each coordinate; and room. None makes an array: counting the
references of such a tuple takes as long as a step.
"""

import math

from numba import types
from numba.extending import overload

from .._base.jit import jit
from ..activations.laws import proper


@jit(no_reference_counting=True)
def ruled(rule, lam, nu, xi, eta, eta_v, F, dv):
    """F = eta F^a_k (T K,) and dv = eta_theta G_k (K,) of one sample, from the fields of its T tokens in a row."""
    values, p, force, chance, theta, S, s, G = rule
    if values.size > 0:  # xi is uniform
        chance(nu, theta, p)
        i = 0
        while i < values.size - 1 and xi >= p[i]:
            xi -= p[i]
            i += 1
        xi = values[i] if proper(p) else math.nan  # the run ends as one that diverges
    F[:], G[:] = 0.0, 0.0
    force(lam, nu, xi, theta, S, F, G)
    for k in range(F.size):
        F[k] *= eta
    for k in range(dv.size):
        dv[k] = eta_v * G[k]


@jit(no_reference_counting=True)
def ruled_samples(rule, lam, nu, xi, eta, eta_v, F, dv):
    """The same of all samples of a step, row by row of xi and dv; T rows of lam, nu and F belong to each."""
    T = lam.shape[0] // xi.size
    for i in range(xi.size):
        lam_i, F_i = lam[i * T : (i + 1) * T], F[i * T : (i + 1) * T]
        nu_i = nu[i * T : (i + 1) * T]
        ruled(rule, lam_i.reshape(lam_i.size), nu_i.reshape(nu_i.size), xi[i], eta, eta_v, F_i.reshape(F_i.size), dv[i])


@jit(no_reference_counting=True)
def weigh(rule, W, factor, W_star):
    """The overlaps of the weights, where the force reads them; teachers may drift."""
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
def weigh_frame(rule, teachers, students):
    """The same from coordinates in frames."""
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


def overlaps_of(student, *units):
    """Of a rule, by weights (W, factor, W_star) or frames (teachers, students); nothing for an activation."""
    if isinstance(student, tuple):
        (weigh if len(units) == 3 else weigh_frame)(student, *units)


@overload(overlaps_of, jit_options={"_nrt": False})
def _overlaps_of(student, *units):
    kind = weigh if len(units) == 3 else weigh_frame
    if isinstance(student, types.BaseTuple):
        return lambda student, *units: kind(student, *units)
    return lambda student, *units: None
