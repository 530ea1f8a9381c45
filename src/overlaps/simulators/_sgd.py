"""Jitted inner loops of SGD on explicit weights.  Random numbers are passed as arrays.

The students' weights are ``factor[0] W``: weight decay multiplies one number in double precision, because a factor
1 - 1e-8 would have no effect on weights in single precision.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from .._base.jit import jit
from ..gaussian.tables import respond
from ._force import apply_forces, update_overlaps


@jit(fast=True)
def fields(W, x, factor, out):
    """Fill out = factor W x / sqrt(N)."""
    N = x.size
    for k in range(W.shape[0]):
        total = x.dtype.type(0)  # sum in the precision of x: single precision adds more numbers per instruction
        for i in range(N):
            total += W[k, i] * x[i]
        out[k] = factor * total / math.sqrt(N)


@jit(fast=True)
def add_outer(W, F, x, scale):
    """W += scale F x^T."""
    for k in range(W.shape[0]):
        # the product in double precision, rounded once, so that the loop runs in the precision of the weights
        step = x.dtype.type(scale * F[k])
        for i in range(x.size):
            W[k, i] += step * x[i]


@jit(no_reference_counting=True)
def errors(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """F_k = -eta v_k g'(lambda_k) Delta and dv_k = -eta_v g(lambda_k) Delta of one sample with label noise xi.

    ``student`` and ``teacher``, here and below, are codes of functions or their tables. For a learning rule ``student``
    is the tuple of ``_force``.
    """
    delta = -xi
    for k in range(v.size):
        dv[k], F[k] = respond(student, lam[k])
        delta += v[k] * dv[k]
    for m in range(v_star.size):
        delta -= v_star[m] * respond(teacher, nu[m])[0]
    for k in range(v.size):
        F[k] *= -eta * v[k] * delta
        dv[k] *= -eta_v * delta


@jit(no_reference_counting=True)
def errors_of_samples(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """``errors`` for each sample of a step."""
    for b in range(xi.size):
        errors(lam[b], nu[b], v, v_star, student, teacher, xi[b], eta, eta_v, F[b], dv[b])


def increments(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """Fill F and dv for the samples of a step, by :func:`errors` or by the force of a learning rule."""
    if isinstance(student, tuple):
        apply_forces(student, lam, nu, xi, eta, eta_v, F, dv)
    else:
        errors_of_samples(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv)


@overload(increments, jit_options={"_nrt": False})
def _increments(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    if isinstance(student, types.BaseTuple):
        return lambda lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv: apply_forces(
            student, lam, nu, xi, eta, eta_v, F, dv
        )
    return lambda lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv: errors_of_samples(
        lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv
    )


@jit
def direct_steps(W, factor, W_star, v, v_star, X, xi, student, teacher, rates, norms):
    """One-pass SGD: X (steps, batch, N) are the inputs, xi (steps, batch) the label noise.

    For a learning rule with T tokens each sample is T consecutive rows of X.

    ``rates`` (steps, 4) are eta, eta_v, decay and decay_v of each step; ``norms`` are as in ``restore_norms``.
    W, factor and v change in place.
    One step, with F_k, g and Delta of the old weights averaged over the batch:
    w_k <- (1 - decay/N) w_k + F_k x / sqrt(N),     v_k <- (1 - decay_v/N) v_k - (eta_v/N) g(lambda_k) Delta.
    """
    steps, rows, N = X.shape
    K, M = W.shape[0], W_star.shape[0]
    nu, lam = np.empty((rows, M)), np.empty((rows, K))
    F, dv = np.empty((rows, K)), np.empty((xi.shape[1], K))
    for t in range(steps):
        for b in range(rows):
            fields(W_star, X[t, b], 1.0, nu[b])
        update_overlaps(student, W, factor[0], W_star)
        one_step(W, factor, v, v_star, X[t], nu, xi[t], student, teacher, rates[t], norms, lam, F, dv)


@jit
def drifting_steps(W, factor, W_star, v, v_star, X, xi, student, teacher, rates, norms, persistence, drift):
    """``direct_steps``, with W_star = persistence W_star + drift[t] after step t."""
    for t in range(X.shape[0]):
        direct_steps(
            W, factor, W_star, v, v_star, X[t : t + 1], xi[t : t + 1], student, teacher, rates[t : t + 1], norms
        )
        for m in range(W_star.shape[0]):
            for i in range(W_star.shape[1]):
                # after the step, because the teacher of time t labels sample t
                W_star[m, i] = persistence * W_star[m, i] + drift[t, m, i]


@jit
def steps_with_teacher_fields(W, factor, v, v_star, X, nu, xi, student, teacher, rates, norms):
    """``direct_steps`` with given teacher fields nu (steps, batch, M), of a teacher that acts on any variables."""
    K, rows = W.shape[0], X.shape[1]
    lam, F, dv = np.empty((rows, K)), np.empty((rows, K)), np.empty((xi.shape[1], K))
    for t in range(X.shape[0]):
        one_step(W, factor, v, v_star, X[t], nu[t], xi[t], student, teacher, rates[t], norms, lam, F, dv)


@jit
def one_step(W, factor, v, v_star, x, nu, xi, student, teacher, rates, norms, lam, F, dv):
    """One step; lam (rows, K), F (rows, K) and dv (batch, K) are work arrays."""
    eta, eta_v, decay, decay_v = rates[0], rates[1], rates[2], rates[3]
    for b in range(x.shape[0]):
        fields(W, x[b], factor[0], lam[b])
    increments(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv)
    apply_step(W, factor, v, x, F, dv, eta_v > 0.0, decay, decay_v)
    restore_norms(W, norms)


@jit
def apply_step(W, factor, v, x, F, dv, trains_v, decay, decay_v):
    """The update of one step from its inputs x (rows, N), F (rows, K) and samples dv (batch, K)."""
    batch, N = dv.shape[0], x.shape[1]
    if decay > 0.0:
        # one multiplication instead of K N, and no rounding of W
        factor[0] *= 1.0 - decay / N
        if not 0.5 <= abs(factor[0]) <= 2.0:  # seldom, so that W is rounded once in many steps
            for k in range(W.shape[0]):
                for i in range(N):
                    W[k, i] *= factor[0]
            factor[0] = 1.0
    for b in range(x.shape[0]):
        add_outer(W, F[b], x[b], 1.0 / (factor[0] * batch * math.sqrt(N)))
    if trains_v:
        for k in range(v.size):
            v[k] *= 1.0 - decay_v / N
        for b in range(batch):
            for k in range(v.size):
                v[k] += dv[b, k] / (batch * N)


@jit(fast=True)
def restore_norms(W, norms):
    """Scale every student to its squared norm ``norms`` (K,); ``norms`` (0,) leaves the students as they are.

    This scales W and not ``factor``, so that later steps correct the rounding errors of single precision.
    """
    for k in range(norms.size):
        total = 0.0
        for i in range(W.shape[1]):
            total += W[k, i] * W[k, i]
        scale = W.dtype.type(math.sqrt(norms[k] / total))
        for i in range(W.shape[1]):
            W[k, i] *= scale
