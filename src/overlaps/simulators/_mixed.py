"""Steps of SGD whose samples are of several tasks, or move directions: the loops of ``_sgd`` and ``_reduced``.

``which`` (steps, batch) says the task i of a sample; ``V`` (n, K) are second layers, one for each task or one for all,
``v_star`` (n, M) and ``teachers`` (n) the teachers', ``rates`` (n, steps, 4) as in ``_sgd``. ``frame`` is (teachers,
students) as in ``_reduced``, whose forces come divided by b N.
"""

from .._base.jit import jit
from . import _reduced
from ._sgd import apply_step, errors, fields


@jit
def mean_rate(rates, which, t, column):
    """Mean of a rate over the samples of step t; exact where all are equal."""
    first, rest = rates[which[t, 0], t, column], 0.0
    for b in range(which.shape[1]):
        rest += rates[which[t, b], t, column] - first
    return first + rest / which.shape[1]


@jit
def forces(lam, nu, V, v_star, xi, which, t, student, teachers, rates, N, scale, F, dv):
    """Forces F (b, K) of step t, times ``scale``; then V moves, and a head of its own forgets in its own samples."""
    batch, K = F.shape
    for b in range(batch):
        i = which[t, b]
        own, eta, eta_v = V[i if len(V) > 1 else 0], scale * rates[i, t, 0], rates[i, t, 1] / (batch * N)
        errors(lam[b], nu[b], own, v_star[i], student, teachers[i], xi[b], eta, eta_v, F[b], dv[b])
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


@jit
def direct_steps(W, factor, W_star, V, X, xi, which, v_star, student, teachers, rates, room):
    """As ``_sgd.direct_steps``; ``room`` = nu (batch, M), lam, F and dv (batch, K)."""
    nu, lam, F, dv = room
    steps, batch, N = X.shape
    for t in range(steps):
        for b in range(batch):
            fields(W_star, X[t, b], 1.0, nu[b])
            fields(W, X[t, b], factor[0], lam[b])
        forces(lam, nu, V, v_star, xi[t], which, t, student, teachers, rates, N, 1.0, F, dv)
        apply_step(W, factor, V[0], X[t], F, dv, False, mean_rate(rates, which, t, 2), 0.0)


@jit
def frame_steps(frame, V, root_s, x, xi, which, first, N, v_star, student, teachers, rates, room):
    """As ``_reduced.run_rule``, from step ``first`` on."""
    nu, lam, F, dv = room
    taught, students = frame
    scale = 1 / (len(F) * N)
    for t in range(len(which)):
        _reduced.fields(taught, students, root_s, x, first + t, nu, lam)
        forces(lam, nu, V, v_star, xi[first + t], which, t, student, teachers, rates, N, scale, F, dv)
        decay = 1 - mean_rate(rates, which, t, 2) / N
        _reduced.update(students, root_s, x, first + t, taught.shape[1], F, decay)


@jit
def low_rank_forces(a, v, v_star, mu, nu, xi, student, teacher, rates, N, scale, F, to_u, room):
    """Forces to_u = eta a^T F (b, rank) of a network with fields nu + a mu, times ``scale``; then a moves."""
    lam, dv = room
    (K, rank), batch = a.shape, len(F)
    for b in range(batch):
        for k in range(K):
            lam[k] = nu[b, k]
            for r in range(rank):
                lam[k] += a[k, r] * mu[b, r]
        errors(lam, nu[b, K:], v, v_star, student, teacher, xi[b], 1.0, 0.0, F[b], dv)
        for r in range(rank):
            to_u[b, r] = 0.0
            for k in range(K):
                to_u[b, r] += scale * rates[0] * a[k, r] * F[b, k]
    for k in range(K):
        for r in range(rank):
            a[k, r] *= 1.0 - rates[3] / N
            for b in range(batch):
                a[k, r] += rates[1] / (batch * N) * F[b, k] * mu[b, r]


@jit
def direct_low_rank(W, factor, W_star, a, X, xi, rates, v, v_star, student, teacher, room):
    """Steps in directions W (rank, N) beside static rows W_star (K + M, N), on explicit weights."""
    mu, nu, F, to_u, lam, dv = room
    steps, batch, N = X.shape
    for t in range(steps):
        for b in range(batch):
            fields(W_star, X[t, b], 1.0, nu[b])
            fields(W, X[t, b], factor[0], mu[b])
        low_rank_forces(a, v, v_star, mu, nu, xi[t], student, teacher, rates[t], N, 1.0, F, to_u, (lam, dv))
        apply_step(W, factor, v, X[t], to_u, F, False, rates[t, 2], 0.0)


@jit
def frame_low_rank(frame, a, root_s, x, xi, first, rates, N, v, v_star, student, teacher, room):
    """The same in frame coordinates, from step ``first`` on."""
    mu, nu, F, to_u, lam, dv = room
    taught, students = frame
    scale = 1 / (len(F) * N)
    for n in range(len(rates)):
        t = first + n
        _reduced.fields(taught, students, root_s, x, t, nu, mu)
        low_rank_forces(a, v, v_star, mu, nu, xi[t], student, teacher, rates[n], N, scale, F, to_u, (lam, dv))
        _reduced.update(students, root_s, x, t, taught.shape[1], to_u, 1 - rates[n, 2] / N)
