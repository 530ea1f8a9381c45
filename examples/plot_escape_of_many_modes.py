"""
Many modes leave a plateau together at a random time, and theory gives its law
==============================================================================

K = M = 3 and 4 erf students leave their plateau along 4 and 9 directions at one rate. SGD at finite N leaves like the
equations from a start that is displaced at random along all these directions; one covariance matrix describes the noise
of the whole transient. The figure compares this law with the times of 400 runs; ``--full`` simulates these again, in
minutes.
"""

# %%
# The law
# -------
# ``ov.theory.escape`` follows 1024 such starts until the error falls below half of the plateau. The mean grows like
# :math:`\ln N/(2\lambda)`, the width hardly changes with N.
import sys
from inspect import currentframe
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

SIZES, STUDENTS = (250, 1000), (3, 4)
MODELS = {K: ov.committee_machine(K, K, eta=0.5) for K in STUDENTS}
laws = {(K, N): ov.theory.escape(MODELS[K], "random", N) for K in STUDENTS for N in SIZES}
for key, law in laws.items():
    print(*key, law)

# %%
# The runs
# --------
# Reduced SGD is exact in law; ``runs.escape(level)`` gives the times at which single runs fall below the level. Each
# chunk of 25 runs has its own seed, so that this script can repeat a few runs exactly.
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "escape_of_many_modes.npz"
END, CHUNK, CHUNKS = {3: 480.0, 4: 440.0}, 25, 16


def simulated(K, N, chunk, runs=CHUNK):
    """Times of the first runs of a chunk."""
    alpha, rng = np.arange(0.0, END[K] + 1, 2.0), np.random.default_rng([K, N, chunk])
    return ov.simulate(MODELS[K], N=N, alpha=alpha, rng=rng, runs=runs, method="reduced").escape(laws[K, N].level)


if "--full" in sys.argv:
    every = {f"{K}_{N}": np.concatenate([simulated(K, N, i) for i in range(CHUNKS)]) for K, N in laws}
    np.savez_compressed(STORED, **every)
with np.load(STORED) as stored:
    times = {(K, N): stored[f"{K}_{N}"] for K, N in laws}
again = simulated(3, 1000, 0, runs=3)

# %%
# Their distributions
# -------------------
# Lines are the law, steps the runs. The law is slightly late, by a fraction of 1/rate that vanishes as N grows.
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
for ax, K in zip(axes, STUDENTS, strict=True):
    for N, colour in zip(SIZES, ("#0072B2", "#D55E00"), strict=True):
        law, runs = laws[K, N], np.sort(times[K, N])
        ax.plot(law.times, np.linspace(0, 1, law.times.size), color=colour, label=f"law, N = {N}")
        ax.step(runs, np.arange(1, runs.size + 1) / runs.size, color=colour, alpha=0.4, lw=3, label=f"{runs.size} runs")
    ax.set(title=f"K = M = {K}: {law.modes} growing modes", xlabel=r"escape time $\alpha$ = steps / N", xlim=(100, 460))
    ax.legend(frameon=False, loc="lower right")
axes[0].set_ylabel("fraction of runs that have left")
fig.savefig("escape_of_many_modes.png", dpi=150)

# %%
# The checks
# ----------
# The repeated runs equal the stored ones; means and deciles agree to a few standard errors and a tenth of the growth
# time.
assert np.allclose(again, times[3, 1000][:3], rtol=1e-3)
LEVELS = np.arange(0.1, 0.91, 0.1)
for (K, N), law in laws.items():
    runs = times[K, N]
    error = np.std(runs) / np.sqrt(runs.size) + law.std / np.sqrt(law.times.size)
    draws = np.random.default_rng(1).choice(runs, (400, runs.size))
    spread = np.quantile(draws, LEVELS, axis=1).std(axis=1)
    gaps = (law.quantile(LEVELS) - np.quantile(runs, LEVELS)) / spread
    print(f"K = {K}, N = {N}: {law.mean:.1f} against {runs.mean():.1f}({error:.1f}); deciles", np.round(gaps, 1))
    assert law.modes == (K - 1) ** 2 and abs(law.mean - runs.mean()) < 2 * error + 0.1 / law.rate
    assert np.all(np.abs(gaps) * spread < 2 * spread + 0.1 / law.rate)
