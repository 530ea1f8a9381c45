"""Sums of closed-form functions, units expanded and contracted again, and the kernel of sums of erf: see ``sums``."""

import numpy as np

from .._base.jit import jit
from ._erf import erf_closure, erf_room


@jit
def expand(S, w, K):
    """Field, scale and amplitude of each term, and what a closure takes: S, w with room, A, B, C, dv of the terms.

    Behind w lie the codes of h and the numbers of terms, of students and teachers each, then a, b of a student, a, b of
    a teacher.
    """
    n = S.shape[0]
    terms = w[n:]
    J, Jt = int(terms[2]), int(terms[3])
    units, size = K * J, K * J + (n - K) * Jt
    field, scale, amplitude = np.empty(size, np.int64), np.empty(size), np.empty(size)
    S_, w_ = np.empty((size, size)), np.empty(size + erf_room(size))
    for i in range(size):
        late = i >= units
        of, j = (K + (i - units) // Jt, 2 * J + (i - units) % Jt) if late else (i // J, i % J)
        field[i], amplitude[i], scale[i] = of, terms[4 + j], terms[4 + j + (Jt if late else J)]
        # a term is a unit of its own, with the amplitude in its second layer and the scale in its field
        w_[i] = amplitude[i] * w[of]
        for k in range(i + 1):  # entry by entry, so that fields z and -z stay exactly opposite
            S_[i, k] = S_[k, i] = S[of, field[k]] * (scale[i] * scale[k])
    A, B, C = np.empty((units, units)), np.empty((units, size - units)), np.zeros((units, units))
    return field, scale, amplitude, S_, w_, A, B, C, np.empty(units)


@jit(bare=True)
def contract(K, field, scale, amplitude, second_order, A_, B_, C_, dv_, A, B, C, dv):
    """Chain rule: A_kl = sum_ij b_i b_j A'_(ki)(lj), B and C likewise, dv_k = sum_j a_j dv'_(kj)."""
    units = dv_.size
    A[:] = 0.0
    B[:] = 0.0
    dv[:] = 0.0
    if second_order:
        C[:] = 0.0
    for i in range(units):
        k = field[i]
        dv[k] += amplitude[i] * dv_[i]
        for j in range(units):
            A[k, field[j]] += scale[i] * scale[j] * A_[i, j]
            if second_order:
                C[k, field[j]] += scale[i] * scale[j] * C_[i, j]
        for j in range(units, field.size):
            B[k, field[j] - K] += scale[i] * scale[j] * B_[i, j - units]


@jit
def erf_sum_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Closure of students that are sums of erf, by compiled code: the code of their teachers lies behind w."""
    field, scale, amplitude, S_, w_, A_, B_, C_, dv_ = expand(S, w, K)
    code = int(w[S.shape[0] + 1])
    eps_g = erf_closure(S_, w_, dv_.size, code, eta, eta_v, noise, second_order, A_, B_, C_, dv_)
    contract(K, field, scale, amplitude, second_order, A_, B_, C_, dv_, A, B, C, dv)
    return eps_g
