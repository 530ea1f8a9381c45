"""
Theory draws the error bars of SGD
==================================

SGD at input dimension N scatters around the equations. The linear noise expansion predicts its mean and its standard
deviation without a simulation; on a plateau differences between runs grow, and the runs leave it at different times.
The predicted law of these times has no free parameter either.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Standard deviations of every overlap
# ------------------------------------
# ``ov.fluctuations`` takes a solution and a size, and returns means and covariances of all order parameters at all
# times. 200 runs of SGD at N = 300 determine each standard deviation to 5 %.
N, RUNS = 300, 200
model = ov.committee_machine(2, 2, eta=0.5, noise=0.1)
start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.4, 0.0], [0.1, 0.3]], T=np.eye(2))
times = np.linspace(0.0, 12.0, 25)
theory = ov.fluctuations(ov.solve(model, start, times), N)
runs = ov.simulate(model, N=N, alpha=times, rng=1, runs=RUNS, start=start)

# %%
# When runs leave the plateau
# ---------------------------
# Two students in general position stay on the plateau until the error falls below 0.0173. ``ov.theory.escape`` gives
# the distribution of that time over runs of SGD at N = 400: it is not Gaussian, because small differences grow
# exponentially.
LEVEL, SIZE = 0.0173, 400
slow = ov.committee_machine(2, 2, eta=1.5)
plateau = ov.State.from_overlaps(slow, Q=[[0.5, 0.4], [0.4, 0.5]], R=[[0.3, 0.3], [0.3, 0.3]], T=np.eye(2))
law = ov.theory.escape(slow, plateau, SIZE, LEVEL)
escapes = ov.simulate(slow, N=SIZE, alpha=np.linspace(0, 160, 321), rng=2, runs=120, start=plateau)
below = escapes.eps_g < LEVEL
left = np.where(below.any(axis=1), escapes.alpha[np.argmax(below, axis=1)], np.inf)

# %%
# Bands and runs
# --------------
# Left and middle: mean and one and two standard deviations of the expansion (lines and bands), and the runs (dots, with
# their own standard deviation). Right: the fraction of runs that have left the plateau.
fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
for ax, name, index, label in ((axes[0], "eps_g", (), r"$\epsilon_g$"), (axes[1], "R", (0, 0), "$R_{11}$")):
    mean, std = (getattr(theory, of)(name)[(slice(None), *index)] for of in ("mean", "std"))
    for width in (1, 2):
        ax.fill_between(times, mean - width * std, mean + width * std, color="C0", alpha=0.2, lw=0)
    ax.plot(times, mean, color="C0", label="mean and deviations, expansion")
    seen = (slice(None), slice(None), *index)
    ax.errorbar(
        times[::2], getattr(runs, name)[seen].mean(axis=0)[::2], runs.std(name)[(slice(None), *index)][::2],
        fmt="o", ms=3, color="C1", label=f"{RUNS} runs of SGD, N = {N}",
    )  # fmt: skip
    ax.set(xlabel=r"$\alpha$ = steps / N", ylabel=label)
axes[0].legend(frameon=False)
levels = np.linspace(0.005, 0.995, 199)
axes[2].step(np.sort(left), (np.arange(left.size) + 1) / left.size, where="post", color="C1", label="120 runs")
axes[2].plot([law.quantile(q) for q in levels], levels, color="C0", label="law of the escape")
axes[2].set(xlabel=r"$\alpha$ at which $\epsilon_g$ falls below 0.0173", ylabel="fraction of runs that left")
axes[2].legend(frameon=False)
fig.savefig("fluctuations.png", dpi=150)

# %%
# The checks
# ----------
# Deviations agree within 6 % on average over 24 times, which are correlated, and no mean leaves the prediction by four
# standard errors.
for name in ("R", "Q", "eps_g"):
    ratio = (runs.std(name) / np.where(theory.std(name) > 0, theory.std(name), np.nan))[1:]
    print(f"{name}: simulated over predicted deviation {np.nanmean(ratio):.3f}")
    assert abs(np.nanmean(ratio) - 1) < 0.06 and np.nanmax(np.abs(ratio - 1)) < 0.25
shift = (runs.mean("eps_g") - theory.mean("eps_g"))[1:] / runs.standard_error("eps_g")[1:]
assert np.abs(shift).max() < 4
print(f"escape: simulated median {np.median(left):.1f}, predicted {law.quantile(0.5):.1f}")
assert np.isfinite(left).mean() > 0.97
# the law is accurate to about 0.1 / rate at this N; the median of 120 runs has the error 1.25 std / sqrt(120)
assert abs(np.median(left) - law.quantile(0.5)) < 0.2 / law.rate + 3 * 1.25 * law.std / np.sqrt(left.size)
