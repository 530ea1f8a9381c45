"""Jitted inner loops of SGD on explicit weights.  Random numbers come in as arrays.

The students' weights are ``factor[0] W``: weight decay multiplies one number in double precision.  Applied to the
weights, a factor 1 - 1e-8 would be rounded away, step after step, where they are kept in single precision.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from .._base.jit import jit
from ..gaussian.tables import respond
from ._force import overlaps_of, ruled_samples


@jit(fast=True)
def fields(W, x, factor, out):
    """Fill out = factor W x / sqrt(N)."""
    N = x.size
    for k in range(W.shape[0]):
        total = x.dtype.type(0)  # single precision adds in single precision: four numbers more per instruction
        for i in range(N):
            total += W[k, i] * x[i]
        out[k] = factor * total / math.sqrt(N)


@jit(fast=True)
def add_outer(W, F, x, scale):
    """W += scale F x^T."""
    for k in range(W.shape[0]):
        # the product in double precision, rounded once: the loop then stays in the precision of the weights
        step = x.dtype.type(scale * F[k])
        for i in range(x.size):
            W[k, i] += step * x[i]


@jit(no_reference_counting=True)
def errors(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """F_k = -eta v_k g'(lambda_k) Delta and dv_k = -eta_v g(lambda_k) Delta of one sample with label noise xi.

    ``student`` and ``teacher``, here and below, are the codes of functions or their tables, or a rule for both.
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
def descents(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """The same of all samples of a step, row by row."""
    for b in range(xi.size):
        errors(lam[b], nu[b], v, v_star, student, teacher, xi[b], eta, eta_v, F[b], dv[b])


def samples(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    """Errors of the samples of a step by :func:`errors`, or the force of a rule that comes in place of the student."""
    if isinstance(student, tuple):
        ruled_samples(student, lam, nu, xi, eta, eta_v, F, dv)
    else:
        descents(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv)


@overload(samples, jit_options={"_nrt": False})
def _samples(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv):
    if isinstance(student, types.BaseTuple):
        return lambda lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv: ruled_samples(
            student, lam, nu, xi, eta, eta_v, F, dv
        )
    return lambda lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv: descents(
        lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv
    )


@jit
def direct_steps(W, factor, W_star, v, v_star, X, xi, student, teacher, rates, norms):
    """One-pass SGD: X (steps, batch, N) are the inputs, xi (steps, batch) the label noise.

    A sample of a rule with T tokens is T rows of X, one sample after the other.

    ``rates`` (steps, 4) are eta, eta_v, decay and decay_v of each step; ``norms`` are those of ``keep_norms``.
    W, factor and v change in place.
    Per step, averages over the batch, all from the old weights:
    w_k <- (1 - decay/N) w_k + F_k x / sqrt(N),     v_k <- (1 - decay_v/N) v_k - (eta_v/N) g(lambda_k) Delta.
    """
    steps, rows, N = X.shape
    K, M = W.shape[0], W_star.shape[0]
    nu, lam = np.empty((rows, M)), np.empty((rows, K))
    F, dv = np.empty((rows, K)), np.empty((xi.shape[1], K))
    for t in range(steps):
        # the teachers' fields first: they do not move within the step
        for b in range(rows):
            fields(W_star, X[t, b], 1.0, nu[b])
        overlaps_of(student, W, factor[0], W_star)
        one_step(W, factor, v, v_star, X[t], nu, xi[t], student, teacher, rates[t], norms, lam, F, dv)


@jit
def drifting_steps(W, factor, W_star, v, v_star, X, xi, student, teacher, rates, norms, keep, wander):
    """The same, and after step t the teachers move: W_star = keep W_star + wander[t]."""
    for t in range(X.shape[0]):
        direct_steps(
            W, factor, W_star, v, v_star, X[t : t + 1], xi[t : t + 1], student, teacher, rates[t : t + 1], norms
        )
        for m in range(W_star.shape[0]):
            for i in range(W_star.shape[1]):
                # after the step: sample t was labelled by the teacher of time t
                W_star[m, i] = keep * W_star[m, i] + wander[t, m, i]


@jit
def taught_steps(W, factor, v, v_star, X, nu, xi, student, teacher, rates, norms):
    """The same where the fields of the teacher are given, nu (steps, batch, M): it may act on anything."""
    K, rows = W.shape[0], X.shape[1]
    lam, F, dv = np.empty((rows, K)), np.empty((rows, K)), np.empty((xi.shape[1], K))
    for t in range(X.shape[0]):
        one_step(W, factor, v, v_star, X[t], nu[t], xi[t], student, teacher, rates[t], norms, lam, F, dv)


@jit
def one_step(W, factor, v, v_star, x, nu, xi, student, teacher, rates, norms, lam, F, dv):
    """One step of either; lam (rows, K), F (rows, K) and dv (batch, K) are room to work in."""
    eta, eta_v, decay, decay_v = rates[0], rates[1], rates[2], rates[3]
    for b in range(x.shape[0]):
        fields(W, x[b], factor[0], lam[b])
    samples(lam, nu, v, v_star, student, teacher, xi, eta, eta_v, F, dv)
    apply_step(W, factor, v, x, F, dv, eta_v > 0.0, decay, decay_v)
    keep_norms(W, norms)


@jit
def apply_step(W, factor, v, x, F, dv, trains_v, decay, decay_v):
    """The update of one step from its inputs x (rows, N), F (rows, K) and samples dv (batch, K)."""
    batch, N = dv.shape[0], x.shape[1]
    if decay > 0.0:
        # one multiplication instead of K N, and none of the rounding of W
        factor[0] *= 1.0 - decay / N
        if not 0.5 <= abs(factor[0]) <= 2.0:  # seldom: what is rounded here is rounded once in many steps
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
def keep_norms(W, norms):
    """Scale every student back to its squared norm; ``norms`` (K,) are these, or (0,) where students are free.

    The weights are scaled themselves: what single precision rounds away is seen, and made up for, in later steps.
    """
    for k in range(norms.size):
        total = 0.0
        for i in range(W.shape[1]):
            total += W[k, i] * W[k, i]
        scale = W.dtype.type(math.sqrt(norms[k] / total))
        for i in range(W.shape[1]):
            W[k, i] *= scale
