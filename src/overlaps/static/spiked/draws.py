"""One draw of the one-step experiment at finite size: rows, gradient step, spikes, trained readout."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...gaussian.quadrature import midpoint
from .training import in_chunks, readout_overlaps, readouts


class DrawOptions(NamedTuple):
    """Tunable numbers of simulations at finite size."""

    # Midpoint rule of Gaussian averages: second order at a jump in the origin, exponential for smooth functions.
    nodes: int = 20_000
    half_width: int = 10
    # Names of the laws of the initial rows.
    initial_rows: tuple[str, ...] = ("sphere", "gaussian", "orthonormal")
    # Hermite orders of the population gradient. Rows overlap by s ~ 1/sqrt(d), and s^6 / 6! is negligible.
    hermite_orders: int = 6


DRAWS = DrawOptions()


class Setup(NamedTuple):
    """Common to all draws: functions, sizes, and the points (n, lam) of the readout."""

    student: Callable
    target: Callable
    noise: float
    d: int
    p: int
    rows: str
    n: tuple
    lam: tuple
    test: int
    letter: Any  # (p,) block of each neuron
    bias: bool = False
    offset: Any = 0.0  # bias of each neuron's pre-activation, in the readout
    loss: str | None = None  # loss of a classifying readout with labels sign(target); the step uses the target itself


class Step(NamedTuple):
    """The giant step: n0 samples (0: the population gradient), tau = eta_tilde/beta, initial readout t / sqrt(p)."""

    n0: int
    tau: float
    t: Any  # (p,)
    continuous: bool = False  # letters of a law, one for each neuron: the spike is t_i times one vector


def streams(setup, child):
    """Rows W0, and generators of directions and of the data of step, readout and test, the same for all options."""
    weights, *others = child.spawn(5)
    return initial_rows(setup.rows, setup.p, setup.d, weights), *others


def initial_rows(kind, p, d, rng):
    """Rows of W0, from the same normals for all laws, so that runs of one seed can be compared in pairs."""
    W = rng.standard_normal((p, d))
    if not isinstance(kind, str):
        return rows_of_spectrum(W, kind, rng)
    if kind == "gaussian":
        return W / math.sqrt(d)
    if kind == "orthonormal":
        return np.linalg.qr(W.T)[0].T
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def rows_of_spectrum(W, eigenvalues, rng):
    """Unit rows whose Gram matrix has the given eigenvalues and Haar eigenvectors.

    The norms of random rows would fluctuate by 1/sqrt(p), which changes the results with a spike. At most p - 1 plane
    rotations make them one.
    """
    p, d = W.shape
    size = min(p, d)
    values = np.sort(np.quantile(eigenvalues, (np.arange(p) + 0.5) / p, method="inverted_cdf"))[::-1][:size]
    left, right = (np.linalg.qr(x)[0] for x in (rng.standard_normal((p, size)), W.T[:, :size]))
    W = (left * np.sqrt(values * p / values.sum())) @ right.T
    long, short = ([i for i in range(p) if (W[i] @ W[i] > 1) == sign] for sign in (True, False))
    while long and short:
        i, j = long[-1], short[-1]
        a, b, ab = W[i] @ W[i] - 1, W[j] @ W[j] - 1, W[i] @ W[j]
        t = a / (ab + math.copysign(math.sqrt(ab * ab - a * b), ab))
        cos = 1 / math.sqrt(1 + t * t)
        W[i], W[j] = cos * (W[i] - t * W[j]), cos * (t * W[i] + W[j])  # norm of row i: one
        long.pop()
        if W[j] @ W[j] > 1:
            long.append(short.pop())
    return W


def unit(rng, d):
    """A random direction, uniform on the sphere (d,)."""
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v)


def derivative_of(f):
    """Derivative of the student: given, or by central differences (error 1e-10, far below sampling)."""
    return getattr(f, "dg", None) or (lambda z, h=1e-5: (f(z + h) - f(z - h)) / (2 * h))


def gradient_step(setup, step, W, theta, rng):
    """W + tau t_i (1/n0) sum_mu (y - f(x)) sigma'(w_i.x) x, with f(x) = (1/p) sum_i t_i sigma(w_i.x)."""
    if step.n0 == 0:
        return W + step.tau * step.t[:, None] * population_gradient(setup, step, W, theta)
    gradient, derivative = np.zeros_like(W), derivative_of(setup.student)
    for x, y in in_chunks(setup, theta, step.n0, rng):
        z = x @ W.T
        gap = y - setup.student(z) @ step.t / setup.p
        gradient += (gap[:, None] * derivative(z)).T @ x
    return W + step.tau * step.t[:, None] * gradient / step.n0


def population_gradient(setup, step, W, theta):
    """E[(y - f(x)) sigma'(w_i.x) x] for unit rows, no two of them parallel."""
    on_u, on_w = pair_gradient(setup.target, setup.student, W @ theta)
    of_rows, of_own = pair_gradient(setup.student, setup.student, W @ W.T)
    z, weight = midpoint(DRAWS.nodes, DRAWS.half_width)
    np.fill_diagonal(of_rows, weight @ (setup.student(z) * derivative_of(setup.student)(z) * z))
    np.fill_diagonal(of_own, 0.0)
    return on_u[:, None] * theta + (on_w - of_own @ step.t / setup.p)[:, None] * W - (of_rows * step.t) @ W / setup.p


def pair_gradient(f, student, s):
    """(a, b) in E[f(nu) sigma'(lam) x] = a u + b w for nu = u.x, lam = w.x, unit vectors with overlap s = u.w."""
    z, weight = midpoint(DRAWS.nodes, DRAWS.half_width)
    values, slopes = np.asarray(f(z), dtype=float), derivative_of(student)(z)

    def mean(F, G):  # E[F(nu) G(lam)], Mehler's series
        modes = [np.polynomial.hermite_e.hermeval(z, one) * weight for one in np.eye(DRAWS.hermite_orders)]
        return np.polynomial.polynomial.polyval(
            s, [(He @ F) * (He @ G) / math.factorial(n) for n, He in enumerate(modes)]
        )

    on_u, on_w = mean(values * z, slopes), mean(values, slopes * z)
    rest = 1 - np.where(np.abs(s) < 0.9, s * s, 0.0)  # the diagonal of W W^T, replaced by the caller
    return (on_u - s * on_w) / rest, (on_w - s * on_u) / rest


def measure(setup, step, change, W, theta):
    """Spikes (p, d), bulk and its variance (p,) of the neurons; r, gamma (of the strongest spike) and c of the blocks.

    A block's spike is its mean change. With a continuous law there is one spike for all letters; r and c are those of
    the letter 1.
    """
    if step.continuous:
        square = step.t @ step.t
        spikes = step.t[:, None] * (step.t @ change / square)
        bulk = W - spikes
        r = np.linalg.norm(spikes[:1], axis=1) / abs(step.t[0])
        c = np.array([1 + (np.sum(bulk**2) - setup.p) / square])
        variance = 1 + step.t**2 * (c - 1)
    else:
        groups = [setup.letter == b for b in range(setup.letter.max() + 1)]
        means = np.array([change[group].mean(axis=0) for group in groups])
        spikes = means[setup.letter]
        bulk, r = W - spikes, np.linalg.norm(means, axis=1)
        c = np.array([np.mean(np.sum(bulk[group] ** 2, axis=1)) for group in groups])
        variance = c[setup.letter]
    strongest = strongest_of(spikes)
    return spikes, bulk, variance, {"r": r, "gamma": strongest @ theta / np.linalg.norm(strongest), "c": c}


def strongest_of(spikes):
    """The longest of some vectors."""
    return spikes[np.argmax(np.linalg.norm(spikes, axis=1))]


def network_draw(setup, step, paired, child):
    """One network; with ``paired`` also the sRF model with its measured spikes and c, on the same rows and data."""
    W0, directions, step_rng, train_rng, test_rng = streams(setup, child)
    theta = unit(directions, setup.d)
    W = gradient_step(setup, step, W0, theta, step_rng)
    spikes, bulk, variance, measured = measure(setup, step, W - W0, W, theta)
    partner = None
    if paired:
        bulk0 = np.sqrt(variance)[:, None] * W0
        partner = measured | _trained(setup, spikes, bulk0, theta, *copy.deepcopy((train_rng, test_rng)))
    return measured | _trained(setup, spikes, bulk, theta, train_rng, test_rng), partner


def srf_draw(setup, r, gamma, c, kap, child):
    """One draw of the sRF model with parameters r, c of each block (arrays) and gamma; |row|^2 = c + kap row.v."""
    W0, directions, _, train_rng, test_rng = streams(setup, child)
    v = unit(directions, setup.d)
    across = unit(directions, setup.d)
    across -= (across @ v) * v
    theta = gamma * v + math.sqrt(max(1 - gamma**2, 0.0)) * across / np.linalg.norm(across)
    bulk = np.sqrt(c)[setup.letter][:, None] * W0
    if kap:
        bulk *= np.sqrt(np.maximum(1 + kap * (bulk @ v) / c[setup.letter], 0.0))[:, None]
    measured = _trained(setup, r[setup.letter][:, None] * v, bulk, theta, train_rng, test_rng, v)
    return {"r": r, "gamma": gamma, "c": c} | measured, None


def subspace_draw(setup, r, gamma, c, H, child):
    """One draw of features with spikes r (B, R) along v, target directions gamma v + H zeta (m, d)."""
    W0, directions, _, train_rng, test_rng = streams(setup, child)
    R = r.shape[1]
    axes = np.linalg.qr(directions.standard_normal((setup.d, R + H.shape[1])))[0].T
    v, zeta = axes[:R], axes[R:]
    bulk = np.sqrt(c)[setup.letter][:, None] * W0
    A, measured = readouts(setup, r[setup.letter] @ v + bulk, (gamma @ v + H @ zeta).T, train_rng, test_rng)
    return {"r": r, "gamma": gamma, "c": c} | measured | readout_overlaps(A, bulk, v, zeta), None


def _trained(setup, spikes, bulk, theta, train_rng, test_rng, v=None):
    A, measured = readouts(setup, spikes + bulk, theta, train_rng, test_rng)
    spike = strongest_of(spikes) if v is None else v
    norm = np.linalg.norm(spike)
    v = spike / norm if norm > 0 else theta
    across = theta - (theta @ v) * v
    size = np.linalg.norm(across)
    zeta = across[None] / size if size > 1e-7 else np.zeros((0, setup.d))  # gamma = 1: no direction, psi = 0
    return measured | readout_overlaps(A, bulk, v[None], zeta)
