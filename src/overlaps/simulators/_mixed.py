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
    """Decay of the second layers: a head's own in its own samples, that of one for all in every step."""
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
