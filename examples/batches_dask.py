"""
A Dask cluster integrates ten thousand trajectories in batches
==============================================================

A trajectory of two erf students takes about a millisecond, less than its transfer to a worker: each task is therefore a
batch. ``ov.solve_many`` integrates a batch in compiled code, and ``ov.sweep`` sends the batches. The results agree with
one call for all trajectories: to the last bit if all processes load compiled kernels from the cache, to rounding (5e-13
here) if one of them has just compiled its own.

The figure shows the time at which eps_g falls below 0.005 against learning rate and noise. The cluster is local, with
two workers of one thread; on a real cluster set ``threads`` to the number of cores of a worker. Without ``--full``
there are 400 trajectories. Needs ``pip install "overlaps[dask]"``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The pool
# --------
# Change this line for another machine.
N, SIZE = (100, 1000) if "--full" in sys.argv else (20, 100)
ETAS, NOISES, ALPHA = np.linspace(0.2, 3.0, N), np.linspace(0.0, 0.1, N), np.linspace(0.0, 600.0, 301)
MODEL = ov.committee_machine(2, 2, eta=0.5)
GRID = [(eta, noise) for eta in ETAS for noise in NOISES]


def make_pool():
    from dask.distributed import Client

    return Client(n_workers=2, threads_per_worker=1, dashboard_address=None).get_executor()


# %%
# A batch for a worker
# --------------------
# One compiled call integrates all of its trajectories.
def errors(first):
    """eps_g (SIZE, n) of the batch that begins at point number ``first``; workers return small arrays."""
    start = ov.State.from_overlaps(MODEL, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
    models = [MODEL.replace(eta=eta, noise=noise) for eta, noise in GRID[first : first + SIZE]]
    return np.array(ov.solve_many(models, start, ALPHA, threads=1).eps_g)


def sweep(pool=None):
    return ov.sweep(errors, {"first": list(range(0, len(GRID), SIZE))}, executor=pool)


# %%
# The picture
# -----------
# The time of convergence is shortest at a finite rate. With more noise fewer rates converge (the others are grey).
def times(result):
    learned = result.array().reshape(N, N, -1) < 5e-3
    return np.where(learned.any(axis=-1), ALPHA[np.argmax(learned, axis=-1)], np.nan)


def draw(result):
    fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    image = ax.pcolormesh(ETAS, NOISES, times(result).T, norm="log")
    fig.colorbar(image, ax=ax, label=r"$\alpha$ at which $\epsilon_g < 0.005$")
    ax.set(xlabel=r"$\eta$", ylabel="label noise", facecolor="0.9")
    return fig


# %%
# The sweep, and the checks
# -------------------------
# The number of workers does not change the results, except for rounding errors far below rtol = 1e-8.
if __name__ == "__main__":
    with make_pool() as pool:
        result = sweep(pool)
    print(result, "in this process" if pool is None else f"on {type(pool).__name__}")
    draw(result).savefig(f"{Path(__file__).stem}.png", dpi=150)
    found = times(result)
    best = np.unravel_index(np.nanargmin(found), found.shape)
    print(f"fastest at eta = {ETAS[best[0]]:.2f}: alpha = {found[best]:g}")
    assert result.success and 0 < best[0] < N - 1 and found[0, 0] > 3 * found[best]
    np.testing.assert_allclose(result.values[1], errors(SIZE), rtol=0, atol=1e-10)
