"""Direct SGD and SGD on the hidden manifold, against plain NumPy and PyTorch; reduced SGD, which needs no weights.

Whole runs, start and records included; times are those of one step.  Plain NumPy draws one sample at a time, as short
programs do.
"""

import numpy as np
from rivals import steps as rival_steps
from scipy.special import erf
from timing import row, show

import overlaps as ov
from overlaps.manifold.weights import random_weights

PART = "SGD, one step"


def learn(W, W_star, v, v_star, eta, lam, nu, x):
    """One step of SGD of erf units on one sample with the given fields."""
    N = len(x)
    delta = v @ erf(lam / np.sqrt(2)) - v_star @ erf(nu / np.sqrt(2))
    slope = np.sqrt(2 / np.pi) * np.exp(-0.5 * lam**2)
    W -= eta / np.sqrt(N) * np.outer(delta * v * slope, x)


def plain(K, N, steps):
    rng = np.random.default_rng(1)
    W, W_star, v = rng.standard_normal((K, N)), rng.standard_normal((K, N)), np.full(K, 1 / K)
    for _ in range(steps):
        x = rng.standard_normal(N)
        learn(W, W_star, v, v, 0.1, W @ x / np.sqrt(N), W_star @ x / np.sqrt(N), x)
    return W


def plain_manifold(N, D, steps):
    rng = np.random.default_rng(1)
    F, W, W_star, v = (rng.standard_normal(shape) for shape in ((N, D), (2, N), (2, D), 2))
    for _ in range(steps):
        c = rng.standard_normal(D)
        x = np.sign(F @ c / np.sqrt(D))
        learn(W, W_star, v, v, 0.1, W @ x / np.sqrt(N), W_star @ c / np.sqrt(D), x)
    return W


def direct(K, N, steps):
    model = ov.committee_machine(K, K, eta=0.1, normalised=True)

    def run(dtype="float64"):
        ov.simulate(model, N=N, alpha=[0, steps / N], rng=1, method="direct", dtype=dtype)

    few = max(20, steps // 50)
    baselines = {"plain NumPy": (lambda: plain(K, N, few), few), "float32": lambda: run("float32")}
    baselines |= rival_steps(K, N, few)
    return row(PART, f"direct, erf, K = M = {K}, N = {N}", run, baselines, per=steps)


def reduced(K, activation=ov.erf, steps=200_000):
    """Its cost does not depend on N."""
    model = ov.committee_machine(K, K, activation=activation, eta=0.1, noise=0.1, normalised=True)
    N = 10_000
    return row(
        PART,
        f"reduced, {activation.name}, K = M = {K}, any N",
        lambda: ov.simulate(model, N=N, alpha=[0, steps / N], rng=1, method="reduced"),
        {"plain NumPy, N = 10000": (lambda: plain(K, N, 50), 50)},
        per=steps,
    )


def batches(b, steps):
    """A step of b samples, without records."""
    model = ov.committee_machine(2, 2, eta=0.1, noise=0.1, normalised=True, batch_size=b)
    start = model.random_start(N=10_000, rng=1)

    def run(method="reduced", N=10_000, steps=steps):
        ov.simulate(model, N=N, alpha=[0, steps / N], rng=1, start=start, method=method)

    few = max(2, steps // 50)
    baselines = {"direct, N = 1000": (lambda: run("direct", 1000, few), few)}
    return row(PART, f"reduced, erf, K = M = 2, batches of {b}", run, baselines, per=steps)


def records(n=2000):
    """A record after every step."""
    model = ov.committee_machine(2, 2, eta=0.1, noise=0.1, normalised=True)
    alpha = np.arange(n + 1) / 10_000
    name = "reduced, erf, K = M = 2, a step and its record"
    return row(PART, name, lambda: ov.simulate(model, N=10_000, alpha=alpha, rng=1, method="reduced"), per=n)


def manifold(N=1000, D=500, steps=10_000):
    model = ov.hidden_manifold(
        2, 2, features="sign", ratio=D / N, v=[0.45, 0.55], v_star=[0.9, 0.7], eta=0.2, eta_v=0.2
    )
    weights = random_weights(model, N=N, rng=1)

    def run(dtype="float64"):
        ov.simulate(model, N=N, alpha=(0, steps / N), rng=1, weights=weights, dtype=dtype, test=0)

    baselines = {"plain NumPy": (lambda: plain_manifold(N, D, 200), 200), "float32": lambda: run("float32")}
    return row(PART, f"hidden manifold, N = {N}, D = {D}, sign", run, baselines, per=steps)


def rows():
    yield direct(2, 1000, 20_000)
    yield direct(8, 1000, 10_000)
    yield direct(2, 10_000, 2000)
    yield reduced(2)
    yield reduced(8)
    yield reduced(2, ov.relu)
    yield batches(10, 10_000)
    yield batches(100, 1000)
    yield batches(1000, 100)
    yield records()
    yield manifold()


if __name__ == "__main__":
    show(rows())
