"""Many trajectories: ``solve_many`` against a loop over ``solve``, and what a second thread gains.

erf, K = M = 2, a grid of learning rates and noises, to alpha = 100 with 51 records.  Ratios of CPU time hardly depend
on other work on the machine; those of wall time do: where fewer than two cores are free, they say little.
"""

import dataclasses
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, process_time

import numpy as np

import overlaps as ov

N = 100 if "--full" in sys.argv else 30
ALPHA = np.linspace(0.0, 100.0, 51)
MODEL = ov.committee_machine(2, 2, eta=0.5)
START = ov.State.from_overlaps(MODEL, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
MODELS = [
    dataclasses.replace(MODEL, eta=eta, noise=noise)
    for eta in np.linspace(0.1, 2, N)
    for noise in np.linspace(0, 0.5, N)
]


def timed(call):
    """(result, CPU seconds, wall seconds)."""
    wall, cpu = perf_counter(), process_time()
    result = call()
    return result, process_time() - cpu, perf_counter() - wall


def long_run(eta):
    return ov.solve(dataclasses.replace(MODEL, eta=eta), START, [5000.0]).nfev


def main():
    ov.solve_many(MODELS[:3], START, ALPHA)
    some = MODELS[:: len(MODELS) // 90]
    loop, of_loop, _ = timed(lambda: [ov.solve(model, START, ALPHA) for model in some])
    print(f"loop over solve: {1e3 * of_loop / len(some):.2f} ms of CPU time each, {len(some)} of {len(MODELS)}")
    walls = []
    for threads in (1, 2):
        batch, cpu, wall = timed(lambda threads=threads: ov.solve_many(MODELS, START, ALPHA, threads=threads))
        walls.append(wall)
        each = 1e3 * cpu / len(MODELS)
        print(
            f"solve_many, {threads} threads: {each:.2f} ms of CPU time each "
            f"({1e3 * of_loop / len(some) / each:.1f} times less), {wall:.2f} s of wall time, "
            f"{cpu / wall:.2f} cores busy"
        )
    assert all(batch[i * (len(MODELS) // 90)] == traj for i, traj in enumerate(loop))
    print(
        f"a second thread: {walls[0] / walls[1]:.2f} times faster ({os.getloadavg()[0]:.1f} processes on the machine)"
    )
    grid, walls = {"eta": np.linspace(0.1, 0.6, 24)}, []
    for threads in (1, 2):
        with ThreadPoolExecutor(threads) as pool:
            _, cpu, wall = timed(lambda pool=pool: ov.sweep(long_run, grid, executor=pool))
        walls.append(wall)
        print(f"sweep to alpha = 5000, {threads} threads: {wall:.2f} s of wall time, {cpu / wall:.2f} cores busy")
    print(f"a second thread: {walls[0] / walls[1]:.2f} times faster")


if __name__ == "__main__":
    main()
