"""Functions of the user: closure, curve and SGD of gelu, which has no closed forms, beside plain NumPy and erf."""

import numpy as np
from scipy.special import ndtr
from timing import row, show

import overlaps as ov
from overlaps.flow.system import System

PART = "Functions of the user (gelu)"


def gelu(x):
    return x * ndtr(x)


def gelu_slope(x):
    return ndtr(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


GELU = ov.Activation.from_function(gelu, gelu_slope)


def hermite_C(S, w, K, eta, nodes=24):
    """C of gelu students and teachers without noise, by Gauss and Hermite's rule on the whole grid of all fields."""
    x, weights = np.polynomial.hermite_e.hermegauss(nodes)
    n = len(S)
    grid = np.stack(np.meshgrid(*[x] * n, indexing="ij"), -1).reshape(-1, n)
    p = np.prod(np.meshgrid(*[weights / np.sqrt(2 * np.pi)] * n, indexing="ij"), 0).ravel()
    z = grid @ np.linalg.cholesky(S).T
    F = eta * w[:K] * gelu_slope(z[:, :K]) * (gelu(z) @ w)[:, None]
    return (F * p[:, None]).T @ F


def setting(K, activation, **options):
    model = ov.committee_machine(K, K, activation=activation, eta=0.1, **options)
    system = System(model, model.random_start(N=1000, rng=1, student_scale=0.9))
    return system, system.pack(system.start)


def closure(K):
    (system, y), (of_erf, x), (flow, z) = (
        setting(K, GELU),
        setting(K, ov.erf),
        setting(K, GELU, gradient_flow=True),
    )
    system.close(y)
    baselines = {"without C": lambda: flow.close(z), "erf": lambda: of_erf.close(x)}
    note = f"rule: {system.closure.method}"
    if K == 2:
        S, w, eta = system.S.copy(), system.w.copy(), system.model.eta
        baselines["NumPy, 24^4 nodes, C alone"] = lambda: hermite_C(S, w, K, eta)
        note += f"; NumPy's differs by {np.abs(hermite_C(S, w, K, eta) / system.C - 1).max():.0e}"
    return row(PART, f"closure, K = M = {K}, from Python", lambda: system.close(y), baselines, note=note)


def curve(gradient_flow, alpha=100.0):
    def run(activation=GELU):
        model = ov.committee_machine(2, 2, activation=activation, eta=0.5, gradient_flow=gradient_flow)
        return ov.solve(model, model.random_start(N=1000, rng=1), [alpha])

    name = f"solve, K = M = 2, to α = {alpha:g}{', gradient flow' * gradient_flow}"
    return row(PART, name, run, {"erf": lambda: run(ov.erf)}, note=f"{run().nfev} evaluations, erf {run(ov.erf).nfev}")


def steps(method, N, alpha):
    def run(activation=GELU):
        model = ov.committee_machine(2, 2, activation=activation, eta=0.1)
        return ov.simulate(model, N=N, alpha=[0, alpha], rng=1, method=method)

    return row(PART, f"{method} SGD, one step, N = {N}", run, {"erf": lambda: run(ov.erf)}, per=round(N * alpha))


def rows():
    for K in (1, 2, 3):
        yield closure(K)
    yield curve(False)
    yield curve(True)
    yield steps("reduced", 10_000, 10)
    yield steps("direct", 1000, 5)


if __name__ == "__main__":
    show(rows())
