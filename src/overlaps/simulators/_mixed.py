"""Steps of SGD on samples of several tasks, or of the directions of low-rank adapters: loops of ``_sgd``, ``_reduced``.

Both cases train rows W with fields lam (b, .) beside static rows with fields nu (b, .), and an array V. They differ in
V and in the tuple ``task``. For several tasks V (n, K) holds the second layers, one for each task or one for all, and
the task is (which, v_star, student, teachers, rates): ``which`` (steps, batch) is the index of the task of each sample,
``v_star`` (n, M) and ``teachers`` (n) belong to the teachers, ``rates`` (n, steps, 4) are as in ``_sgd``. For
directions V (K, rank) holds the amplitudes, and the task is (v, v_star, student, teacher, rates, to) of the network;
forces reach the directions by to (K, rank), V itself or other numbers.
``frame`` is (teachers, students) as in ``_reduced``; the forces are divided by b N there.
"""

import numpy as np
from numba.extending import overload

from .._base.jit import jit
from . import _reduced
from ._sgd import apply_step, errors, fields


@jit
def mean_rate(rates, which, t, column):
    """Mean of a rate over the samples of step t; exact if all are equal."""
    first, rest = rates[which[t, 0], t, column], 0.0
    for b in range(which.shape[1]):
        rest += rates[which[t, b], t, column] - first
    return first + rest / which.shape[1]


@jit
def task_forces(task, V, lam, nu, xi, t, N, scale, F, scratch):
    """Fill the forces F (b, K) of step t, times ``scale``, then update V; return the weight decay of the step.

    The second layer of a task decays only in proportion to the samples of that task.
    """
    (which, v_star, student, teachers, rates), (dv,), (batch, K) = task, scratch, F.shape
    for b in range(batch):
        i = which[t, b]
        v, eta, eta_v = V[i if len(V) > 1 else 0], scale * rates[i, t, 0], rates[i, t, 1] / (batch * N)
        errors(lam[b], nu[b], v, v_star[i], student, teachers[i], xi[b], eta, eta_v, F[b], dv[b])
    for i in range(len(V)):
        decay = mean_rate(rates, which, t, 3)
        if len(V) > 1:
            decay = 0.0
            for b in range(batch):
                decay += rates[i, t, 3] / batch if which[t, b] == i else 0.0
        for k in range(K):
            V[i, k] *= 1.0 - decay / N
    for b in range(batch):
        for k in range(K):
            V[which[t, b] if len(V) > 1 else 0, k] += dv[b, k]
    return mean_rate(rates, which, t, 2)


@jit
def low_rank_forces(task, a, mu, nu, xi, t, N, scale, to_u, scratch):
    """Fill to_u = eta to^T F (b, rank) of fields nu + a mu, times ``scale``, then update a; return the weight decay."""
    v, v_star, student, teacher, rates, to = task
    (lam, dv, F), (K, rank), batch = scratch, a.shape, len(to_u)
    for b in range(batch):
        for k in range(K):
            lam[k] = nu[b, k]
            for r in range(rank):
                lam[k] += a[k, r] * mu[b, r]
        errors(lam, nu[b, K:], v, v_star, student, teacher, xi[b], 1.0, 0.0, F[b], dv)
        for r in range(rank):
            to_u[b, r] = 0.0
            for k in range(K):
                to_u[b, r] += scale * rates[t, 0] * to[k, r] * F[b, k]
    for k in range(K):
        for r in range(rank):
            a[k, r] *= 1.0 - rates[t, 3] / N
            for b in range(batch):
                a[k, r] += rates[t, 1] / (batch * N) * F[b, k] * mu[b, r]
    return rates[t, 2]


def forces(task, V, lam, nu, xi, t, N, scale, F, scratch):
    """``task_forces`` or ``low_rank_forces``, by the kind of the task."""
    kind = task_forces if task[0].ndim == 2 else low_rank_forces
    return kind(task, V, lam, nu, xi, t, N, scale, F, scratch)


@overload(forces)
def _forces(task, V, lam, nu, xi, t, N, scale, F, scratch):
    kind = task_forces if task[0].ndim == 2 else low_rank_forces
    return lambda task, V, lam, nu, xi, t, N, scale, F, scratch: kind(task, V, lam, nu, xi, t, N, scale, F, scratch)


@jit
def direct_steps(W, factor, W_star, X, xi, pulls, V, task, work, scratch):
    """Steps as in ``_sgd.direct_steps``; ``work`` = nu, lam and F, one row for each sample of a batch.

    ``pulls`` (steps, rows, rows + static) are those of each step on the rows of W by these and by W_star, or empty.
    """
    nu, lam, F = work
    moved = np.empty_like(W[: pulls.shape[1]])
    steps, batch, N = X.shape
    for t in range(steps):
        for b in range(batch):
            fields(W_star, X[t, b], 1.0, nu[b])
            fields(W, X[t, b], factor[0], lam[b])
        decay = forces(task, V, lam, nu, xi[t], t, N, 1.0, F, scratch)
        apply_step(W, factor, V[0], X[t], F, F, False, decay, 0.0)
        if len(moved) > 0:
            apply_pull(W, factor[0], W_star, pulls[t], moved)


@jit
def apply_pull(W, factor, W_star, pull, moved):
    """Move the weights factor W by pull/N of all rows; ``moved`` (K, N) is a work array."""
    K, N = W.shape
    moved[:] = 0.0
    for j in range(K):
        for k in range(pull.shape[1]):
            row, weight = (W[k], pull[j, k]) if k < K else (W_star[k - K], pull[j, k] / factor)
            if weight != 0.0:
                for i in range(N):
                    moved[j, i] += weight * row[i]
    for j in range(K):
        for i in range(N):
            W[j, i] += moved[j, i] / N


@jit
def frame_steps(frame, root_s, inputs, xi, first, last, N, V, task, work, scratch):
    """Steps as in ``_reduced.run``."""
    (nu, lam, F), (teachers, students), (x, outside, roots) = work, frame, inputs
    scale, arrays = 1 / (len(F) * N), _reduced.work_arrays(len(F), students.shape[2], outside.shape[2])
    for t in range(first, last):
        _reduced.fields(teachers, students, root_s, x[t], nu, lam)
        decay = forces(task, V, lam, nu, xi[t], t - first, N, scale, F, scratch)
        _reduced.update(students, root_s, x[t], outside[t], roots, teachers.shape[1], F, 1 - decay / N, arrays)
