"""Slow, obvious implementations, used only as truth.  Nothing here is shared with the library."""

import math
from functools import cache, partial

import mpmath as mp
import numpy as np


def gauss_hermite(n):
    """Nodes and weights of E[f(z)], z ~ N(0, 1)."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / np.sqrt(2 * np.pi)


def expectation(f, S, n=40):
    """E[f(z)] for z ~ N(0, S), by a product Gauss-Hermite rule; f takes (dim, points)."""
    dim = len(S)
    values, vectors = np.linalg.eigh(S)
    root = vectors * np.sqrt(np.maximum(values, 0))
    x, w = gauss_hermite(n)
    grid = np.stack(np.meshgrid(*[x] * dim, indexing="ij")).reshape(dim, -1)
    weight = np.prod(np.stack(np.meshgrid(*[w] * dim, indexing="ij")).reshape(dim, -1), axis=0)
    return np.tensordot(weight, np.moveaxis(np.atleast_1d(f(root @ grid)), -1, 0), axes=1)


def random_overlaps(rng, K, M, scale=1.0):
    """Random positive definite (Q, R, T)."""
    X = rng.standard_normal((K + M, K + M + 2)) / np.sqrt(K + M + 2) * scale
    S = X @ X.T
    return S[:K, :K], S[:K, K:], S[K:, K:]


def closure_by_average(model, S, v, average):
    """A, B, C, dv, eps_g from their definitions; ``average(f)`` is E[f(z)] over N(0, S).

    A = E[F lambda^T ...] is avoided: derivatives of F are written out by the chain rule.
    """
    K, M = model.K, model.M
    g, dg, d2g = model.activation.g, model.activation.dg, model.activation.d2g
    gs, dgs = model.teacher_activation.g, model.teacher_activation.dg

    def all_moments(z):
        lam, nu = z[:K], z[K:]
        delta = v @ g(lam) - model.v_star @ gs(nu)
        F = -model.eta * v[:, None] * dg(lam) * delta
        A = -model.eta * (v[:, None] * dg(lam))[:, None] * (v[:, None] * dg(lam))[None]
        A[range(K), range(K)] -= model.eta * v[:, None] * d2g(lam) * delta
        B = model.eta * (v[:, None] * dg(lam))[:, None] * (model.v_star[:, None] * dgs(nu))[None]
        noise = model.eta**2 * model.noise**2 * (v[:, None] * dg(lam))[:, None] * (v[:, None] * dg(lam))[None]
        C = F[:, None] * F[None] + noise
        dv = -model.eta_v * g(lam) * delta
        return np.concatenate([x.reshape(-1, z.shape[1]) for x in (A, B, C, dv, delta[None] ** 2 / 2)])

    flat = average(all_moments)
    A, B, C, dv, eps = np.split(flat, np.cumsum([K * K, K * M, K * K, K]))
    return A.reshape(K, K), B.reshape(K, M), C.reshape(K, K), dv, eps[0]


def right_hand_side(model, closure, q, r, tau):
    """The flow of section 1 of the design, in plain NumPy."""
    s, p = model.spectrum.s[:, None, None], model.spectrum.p[:, None, None]
    kappa = model.weight_decay[0]
    r_t = r.swapaxes(1, 2)
    dr = s * (closure.A @ r) + closure.B @ tau - model.eta * kappa * r
    half = s * (closure.A @ q) + closure.B @ r_t
    C = 0 if model.gradient_flow else closure.C / model.batch_size
    dq = half + half.swapaxes(1, 2) + s * p * C - 2 * model.eta * kappa * q
    return dq, dr


def sgd(model, W, W_star, v, X, xi):
    """One-pass SGD exactly as the equations say it; inputs X (steps, batch, N), label noise xi (steps, batch)."""
    W, v = W.copy(), np.array(v)
    N = W.shape[1]
    kappa, kappa_v = model.weight_decay
    for batch, noise in zip(X, xi, strict=True):
        dW, dv = np.zeros_like(W), np.zeros_like(v)
        for x, z in zip(batch, noise, strict=True):
            lam, nu = W @ x / np.sqrt(N), W_star @ x / np.sqrt(N)
            delta = v @ model.activation.g(lam) - model.v_star @ model.teacher_activation.g(nu) - z
            dW -= model.eta * np.outer(v * model.activation.dg(lam) * delta, x) / np.sqrt(N) / len(batch)
            dv -= model.eta_v / N * model.activation.g(lam) * delta / len(batch)
        new = (1 - model.eta * kappa / N) * W + dW
        W = new * np.sqrt(np.sum(W**2, axis=1) / np.sum(new**2, axis=1))[:, None] if model.spherical else new
        v = (1 - model.eta_v * kappa_v / N) * v + dv
    return W, v


def erf_i3(S, a, b, c):
    """E[g'(z_a) z_b g(z_c)] for g = erf(x / sqrt(2)), as printed by Saad and Solla (1995)."""
    lam = (1 + S[a, a]) * (1 + S[c, c]) - S[a, c] ** 2
    return 2 / np.pi / np.sqrt(lam) * (S[b, c] * (1 + S[a, a]) - S[a, b] * S[a, c]) / (1 + S[a, a])


def erf_i4(S, a, b, c, d):
    """E[g'(z_a) g'(z_b) g(z_c) g(z_d)], from the same source."""
    L4 = (1 + S[a, a]) * (1 + S[b, b]) - S[a, b] ** 2
    L0 = L4 * S[c, d] - S[b, c] * S[b, d] * (1 + S[a, a]) - S[a, c] * S[a, d] * (1 + S[b, b])
    L0 += S[a, b] * S[a, c] * S[b, d] + S[a, b] * S[a, d] * S[b, c]
    L1 = L4 * (1 + S[c, c]) - S[b, c] ** 2 * (1 + S[a, a]) - S[a, c] ** 2 * (1 + S[b, b])
    L1 += 2 * S[a, b] * S[a, c] * S[b, c]
    L2 = L4 * (1 + S[d, d]) - S[b, d] ** 2 * (1 + S[a, a]) - S[a, d] ** 2 * (1 + S[b, b])
    L2 += 2 * S[a, b] * S[a, d] * S[b, d]
    return 4 / np.pi**2 / np.sqrt(L4) * np.arcsin(L0 / np.sqrt(L1 * L2))


def saad_solla(Q, R, T, eta):
    """Velocities (dQ, dR) of the soft committee machine, literally as printed by Saad and Solla (1995)."""
    K, M = R.shape
    S = np.block([[Q, R], [R.T, T]])
    i3, i4 = partial(erf_i3, S), partial(erf_i4, S)
    w = np.concatenate([np.ones(K), -np.ones(M)])
    n = K + M
    dR = [[-eta * sum(w[c] * i3(k, K + m, c) for c in range(n)) for m in range(M)] for k in range(K)]
    dQ = np.zeros((K, K))
    for k in range(K):
        for j in range(K):
            dQ[k, j] -= eta * sum(w[c] * (i3(k, j, c) + i3(j, k, c)) for c in range(n))
            dQ[k, j] += eta**2 * sum(w[c] * w[d] * i4(k, j, c, d) for c in range(n) for d in range(n))
    return dQ, np.array(dR)


def runge_kutta(f, y, alpha, steps):
    """Classical fourth-order Runge-Kutta with a fixed step."""
    h = alpha / steps
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def ridge_draw(rng, student, target, *, r, c, gamma, alpha, lam, d, noise=0.0, bias=False, rows=None):
    """One draw of the model, in coordinates v = e_0, zeta = e_1; r, c (p,). Test and training error, a, W0."""
    p, n = len(r), round(alpha * d)
    W0 = rng.standard_normal((p, d)) if rows is None else rows
    W0 = W0 / np.linalg.norm(W0, axis=1, keepdims=True)
    W = np.sqrt(c)[:, None] * W0
    W[:, 0] += r

    def sample(size):
        x = rng.standard_normal((size, d))
        y = target(gamma * x[:, 0] + math.sqrt(1 - gamma**2) * x[:, 1]) + noise * rng.standard_normal(size)
        return student(x @ W.T) / math.sqrt(p), y

    X, y = sample(n)
    mean, level = (X.mean(axis=0), y.mean()) if bias else (np.zeros(p), 0.0)
    Z = X - mean
    if p < n:
        a = np.linalg.solve(Z.T @ Z + lam * np.eye(p), Z.T @ (y - level))
    else:
        a = Z.T @ np.linalg.solve(Z @ Z.T + lam * np.eye(n), y - level)
    b0 = level - mean @ a
    X_new, y_new = sample(10_000)
    return np.mean((y_new - X_new @ a - b0) ** 2), np.mean((y - X @ a - b0) ** 2), a, W0


# orthant probabilities in mpmath; P4 from an integral over the whole matrix -------------------------------------------


@cache
def _gauss(precision):
    """48 Gauss-Legendre nodes on [-1, 1]."""
    return mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(5, precision)


def _asin_partial(kl, ik, il, jk, jl, ij):
    """Asin of the correlation of k, l given i, j."""
    d = 1 - ij * ij
    ckl = kl - (ik * il + jk * jl - ij * (ik * jl + jk * il)) / d
    ckk = 1 - (ik * ik + jk * jk - 2 * ij * ik * jk) / d
    cll = 1 - (il * il + jl * jl - 2 * ij * il * jl) / d
    return mp.atan2(ckl, mp.sqrt(ckk * cll - ckl * ckl))


@cache
def mp_orthant4(correlations):
    """P4 by Plackett's identity along the line from the identity matrix; panels graded towards the end of the line.

    With panels of ratio 1/10 the nearest singularity of each lies 0.1/0.9 panel lengths away: 48 nodes give 1e-26.
    The first singularity beyond t = 1 lies where 1 + t (P - 1) is not positive definite, at 1 / (1 - smallest
    eigenvalue): panels need not be shorter than that eigenvalue.
    """
    P = np.eye(4)
    P[np.triu_indices(4, 1)] = [float(r) for r in correlations]
    smallest = np.linalg.eigvalsh(P, UPLO="U")[0]
    decades = 30 if smallest < 1e-14 else int(np.ceil(-np.log10(smallest)))  # 1e-14: its rounding

    def rate(t):
        a, b, c, d, e, f = (t * r for r in correlations)  # 01, 02, 03, 12, 13, 23
        pairs = (
            (correlations[0], a, (f, b, c, d, e, a)),
            (correlations[1], b, (e, a, c, d, f, b)),
            (correlations[2], c, (d, a, b, e, f, c)),
            (correlations[3], d, (c, a, e, b, f, d)),
            (correlations[4], e, (b, a, d, c, f, e)),
            (correlations[5], f, (a, b, d, c, e, f)),
        )
        return sum(r / mp.sqrt(1 - rt * rt) * (mp.pi / 2 + _asin_partial(*args)) for r, rt, args in pairs if r)

    ends = [mp.mpf(0)] + [1 - mp.mpf(10) ** -k for k in range(1, decades + 1)] + [mp.mpf(1)]
    total = mp.mpf(0)
    for left, right in zip(ends[:-1], ends[1:], strict=True):
        half = (right - left) / 2
        total += half * sum(w * rate(left + half * (x + 1)) for x, w in _gauss(mp.mp.prec))
    return mp.mpf(1) / 16 + total / (4 * mp.pi**2)


def mp_orthant(S, idx):
    """Probability that the fields idx of covariance S (list of lists of mpf) are all positive."""
    r = {(i, j): S[i][j] / mp.sqrt(S[i][i] * S[j][j]) for i in idx for j in idx if i < j}
    if len(idx) == 4:
        return mp_orthant4(tuple(r.values()))
    angles = sum(mp.asin(x) for x in r.values())
    return mp.mpf(2) ** -len(idx) + angles / (2 * mp.pi) * (mp.mpf(1) / 2 if len(idx) == 3 else 1)
