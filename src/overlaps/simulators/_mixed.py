"""Steps of SGD whose samples are of several tasks: the loops of ``_sgd`` and ``_reduced`` with numbers of each sample.

``which`` (steps, batch) says the task i of a sample; ``V`` (n, K) are second layers, one for each task or one for all,
``v_star`` (n, M) and ``teachers`` (n) the teachers', ``rates`` (n, steps, 4) as in ``_sgd``.
"""

from .._base.jit import jit
from ..gaussian.tables import respond
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
def forget(V, rates, which, t, N):
    """Decay of the second layers: a head's own in its own samples, a shared one in every step."""
    for i in range(len(V)):
        decay = mean_rate(rates, which, t, 3)
        if len(V) > 1:
            decay = 0.0
            for b in range(which.shape[1]):
                decay += rates[i, t, 3] / which.shape[1] if which[t, b] == i else 0.0
        for k in range(V.shape[1]):
            V[i, k] *= 1.0 - decay / N


@jit
def direct_steps(W, factor, W_star, V, v_star, X, xi, which, student, teachers, rates, room):
    """As ``_sgd.direct_steps``; ``room`` = nu (batch, M), lam, F and dv (batch, K)."""
    nu, lam, F, dv = room
    steps, batch, N = X.shape
    for t in range(steps):
        for b in range(batch):
            fields(W_star, X[t, b], 1.0, nu[b])
        for b in range(batch):
            fields(W, X[t, b], factor[0], lam[b])
        for b in range(batch):
            i = which[t, b]
            own, eta, eta_v = V[i if len(V) > 1 else 0], rates[i, t, 0], rates[i, t, 1]
            errors(lam[b], nu[b], own, v_star[i], student, teachers[i], xi[t, b], eta, eta_v, F[b], dv[b])
        apply_step(W, factor, V[0], X[t], F, dv, False, mean_rate(rates, which, t, 2), 0.0)
        forget(V, rates, which, t, N)
        for b in range(batch):
            own = V[which[t, b] if len(V) > 1 else 0]
            for k in range(own.size):
                own[k] += dv[b, k] / (batch * N)


@jit
def frame_steps(frame, V, root_s, v_star, student, teachers, rates, N, x, noise, which, first, room):
    """As ``_reduced.run``, from step ``first`` on; ``frame`` = (teachers, students), ``room`` = nu, lam, F, g."""
    nu, lam, F, g = room
    taught, students = frame
    steps, b = which.shape
    K, M, rows = V.shape[1], v_star.shape[1], taught.shape[1]
    for n in range(steps):
        t = first + n
        _reduced.fields(taught, students, root_s, x, t, nu, lam)
        for s in range(b):
            i, delta = which[n, s], -noise[t, s]
            own, eta = V[i if len(V) > 1 else 0], rates[i, n, 0] / (b * N)
            for m in range(M):
                delta -= v_star[i, m] * respond(teachers[i], nu[s, m])[0]
            for k in range(K):
                g[s, k], F[s, k] = respond(student, lam[s, k])
                delta += own[k] * g[s, k]
            for k in range(K):
                F[s, k] = -eta * own[k] * F[s, k] * delta
                g[s, k] *= delta
        forget(V, rates, which, n, N)
        for s in range(b):
            i = which[n, s]
            for k in range(K):
                V[i if len(V) > 1 else 0, k] -= rates[i, n, 1] / (b * N) * g[s, k]
        _reduced.update(students, root_s, x, t, rows, F, 1 - mean_rate(rates, which, n, 2) / N)


@jit
def pull_directions(a, v, v_star, mu, nu, xi, student, teacher, eta, F, to_u, room):
    """Forces F (b, K) of a network with fields nu + a mu at unit rate, and to_u = eta a^T F of its directions."""
    lam, dv = room
    K, rank = a.shape
    for b in range(len(F)):
        for k in range(K):
            lam[k] = nu[b, k]
            for r in range(rank):
                lam[k] += a[k, r] * mu[b, r]
        errors(lam, nu[b, K:], v, v_star, student, teacher, xi[b], 1.0, 0.0, F[b], dv)
        for r in range(rank):
            to_u[b, r] = 0.0
            for k in range(K):
                to_u[b, r] += eta * a[k, r] * F[b, k]


@jit
def move_amplitudes(a, F, mu, eta_a, decay):
    """Amplitudes a <- decay a + eta_a sum_b F_b mu_b^T."""
    for k in range(a.shape[0]):
        for r in range(a.shape[1]):
            a[k, r] *= decay
            for b in range(len(F)):
                a[k, r] += eta_a * F[b, k] * mu[b, r]


@jit
def direct_low_rank(W, factor, W_star, a, v, v_star, X, xi, student, teacher, rates, room):
    """Steps in directions W (rank, N) beside static rows W_star (K + M, N), on explicit weights."""
    mu, nu, F, to_u, lam, dv = room
    steps, batch, N = X.shape
    for t in range(steps):
        for b in range(batch):
            fields(W_star, X[t, b], 1.0, nu[b])
        for b in range(batch):
            fields(W, X[t, b], factor[0], mu[b])
        pull_directions(a, v, v_star, mu, nu, xi[t], student, teacher, rates[t, 0], F, to_u, (lam, dv))
        apply_step(W, factor, v, X[t], to_u, F, False, rates[t, 2], 0.0)
        move_amplitudes(a, F, mu, rates[t, 1] / (batch * N), 1.0 - rates[t, 3] / N)


@jit
def frame_low_rank(frame, a, v, v_star, root_s, x, xi, first, student, teacher, rates, N, room):
    """The same in frame coordinates, from step ``first`` on."""
    mu, nu, F, to_u, lam, dv = room
    taught, students = frame
    b = len(F)
    for n in range(len(rates)):
        t = first + n
        _reduced.fields(taught, students, root_s, x, t, nu, mu)
        pull_directions(a, v, v_star, mu, nu, xi[t], student, teacher, rates[n, 0] / (b * N), F, to_u, (lam, dv))
        _reduced.update(students, root_s, x, t, taught.shape[1], to_u, 1 - rates[n, 2] / N)
        move_amplitudes(a, F, mu, rates[n, 1] / (b * N), 1.0 - rates[n, 3] / N)
