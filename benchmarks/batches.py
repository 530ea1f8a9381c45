"""Many trajectories: ``solve_many`` against a loop over ``solve``, and what a second thread gains.

erf, K = M = 2, a grid of learning rates and noises, to alpha = 100 with 51 records.  What a second thread gains is wall
time, and says little where fewer than two cores are free.
"""

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
from timing import row, show

import overlaps as ov

PART = "Many trajectories"
N = 30
ALPHA = np.linspace(0.0, 100.0, 51)
MODEL = ov.committee_machine(2, 2, eta=0.5)
START = ov.State.from_overlaps(MODEL, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
MODELS = [
    dataclasses.replace(MODEL, eta=eta, noise=noise)
    for eta in np.linspace(0.1, 2, N)
    for noise in np.linspace(0, 0.5, N)
]
SOME = MODELS[::20]


def long_run(eta):
    return ov.solve(dataclasses.replace(MODEL, eta=eta), START, [5000.0]).nfev


def gain(run):
    """How many times faster two threads are than one, by the wall clock."""
    walls = {}
    for threads in (1, 2):
        began = perf_counter()
        run(threads)
        walls[threads] = perf_counter() - began
    return f"2 threads {walls[1] / walls[2]:.1f} times faster (load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores)"


def rows():
    def loop():
        return [ov.solve(model, START, ALPHA) for model in SOME]

    def many(threads=1):
        return ov.solve_many(MODELS, START, ALPHA, threads=threads)

    batch = many()
    for i, traj in enumerate(loop()):  # side by side, sums are added up in another order
        np.testing.assert_allclose(batch.eps_g[20 * i], traj.eps_g, rtol=1e-5)
    name = f"solve_many, {len(MODELS)} × (K = M = 2, to α = 100), each"
    yield row(PART, name, many, {"loop over solve": (loop, len(SOME))}, per=len(MODELS), note=gain(many), budget=2.0)

    models, alpha = [MODEL.replace(eta=eta) for eta in np.linspace(0.1, 1.0, 2000)], np.linspace(0.0, 100.0, 201)
    name = f"solve_many, {len(models)} × (K = M = 2, to α = 100, 201 records), each"
    loop = {"loop over solve": (lambda: [ov.solve(model, START, alpha) for model in models[::50]], len(models[::50]))}
    yield row(PART, name, lambda: ov.solve_many(models, START, alpha, threads=1), loop, per=len(models), budget=2.0)

    grid = {"eta": np.linspace(0.1, 0.6, 24)}

    def sweep(threads):
        with ThreadPoolExecutor(threads) as pool:
            return ov.sweep(long_run, grid, executor=pool)

    yield row(PART, "sweep of 24 × (to α = 5000), each", lambda: sweep(1), per=24, note=gain(sweep))


if __name__ == "__main__":
    show(rows())
