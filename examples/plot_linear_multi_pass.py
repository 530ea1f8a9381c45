"""
With several passes over one sample the test error has a minimum
================================================================

One-pass SGD uses every sample once, so that training and test error are equal. With several passes over a data set of n
= a N samples they differ: the training error keeps falling, the test error has a minimum at a finite time. For linear
students both curves are known exactly, for any spectrum of the inputs (``ov.theory.linear.multi_pass``).
"""

# %%
# Isotropic inputs, noisy labels
# ------------------------------
# Data sets of a = 0.5, 1, 2 samples per direction, and unlimited fresh data. At a = 1 the test error diverges like the
# square root of time: the sample covariance has eigenvalues at zero. Points are means of SGD with replacement over four
# drawn data sets of N = 1000 at the largest ratio.
import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

multi_pass = ov.theory.linear.multi_pass
alpha = np.geomspace(0.05, 300, 200)
model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.0]])


def sgd(ratio, alpha, N=1000, seed=1):
    """Training and test error of SGD that draws samples with replacement from one data set."""
    rng = np.random.default_rng(seed)
    X, w_star, w = rng.standard_normal((int(ratio * N), N)), rng.standard_normal(N), np.zeros(N)
    w_star *= np.sqrt(N) / np.linalg.norm(w_star)
    y = X @ w_star / np.sqrt(N) + model.noise * rng.standard_normal(len(X))
    steps, seen = np.rint(alpha * N).astype(int), []
    for k, row in enumerate(rng.integers(len(X), size=steps[-1] + 1)):
        if k in steps:
            seen.append((np.mean((X @ w / np.sqrt(N) - y) ** 2) / 2, np.mean((w - w_star) ** 2) / 2))
        w += model.eta / np.sqrt(N) * (y[row] - X[row] @ w / np.sqrt(N)) * X[row]
    return np.array(seen).T


fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for ratio, colour in ((0.5, "C0"), (1.0, "C3"), (2.0, "C2"), (1e9, "k")):
    curve = multi_pass(model, start, ratio, alpha, method="sgd")
    label = f"n = {ratio:g} N" if ratio < 1e9 else "fresh data"
    ax.loglog(alpha, curve.eps_g, colour, label=label)
    ax.loglog(alpha, curve.train - (model.noise**2 / 2 if ratio == 1e9 else 0), colour, ls="--", lw=1)
recorded = np.array([0.1, 0.3, 1, 3, 10, 30])
train, test = np.mean([sgd(2.0, recorded, seed=seed) for seed in range(4)], axis=0)
ax.plot(recorded, test, "o", color="C2", ms=4, label="SGD, N = 1000")
ax.plot(recorded, train, "s", color="C2", ms=4, mfc="none")
ax.set(xlabel=r"$\alpha$ = steps / N", ylabel="error", ylim=(1e-4, 3), title="solid: test, dashed: training")
ax.legend(frameon=False, fontsize="small", loc="lower left")
fig.savefig("linear_seen_again.png", dpi=150)

# %%
# A power law: the best time to stop
# ----------------------------------
# On a power-law spectrum the curves deviate from the curve of fresh data at times that grow with a. The smallest error
# with early stopping (dots) falls with the size of the data set.
spectrum = ov.power_law(beta=1.0, L=128)
times = np.geomspace(0.05, 3e4, 160)
power = ov.committee_machine(1, 1, activation=ov.linear, spectrum=spectrum, eta=0.5, noise=0.3)
fresh = ov.State.from_blocks(
    power, q=np.zeros((128, 1, 1)), r=np.zeros((128, 1, 1)), t=np.full((128, 1, 1), 1 / 128)
)  # fmt: skip
best = {}
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for ratio, colour in ((0.25, "C4"), (0.5, "C0"), (1.0, "C3"), (2.0, "C2"), (4.0, "C1")):
    curve = multi_pass(power, fresh, ratio, times)
    i = np.argmin(curve.eps_g)
    best[ratio] = curve.eps_g[i]
    ax.loglog(times, curve.eps_g, colour, label=f"n = {ratio:g} N")
    ax.plot(times[i], curve.eps_g[i], "o", color=colour, ms=5)
ax.loglog(times, ov.theory.linear.flow_error(spectrum, 0.5, times, student_scale=0), "k", label="endless data")
ax.set(xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-3, 1), title=r"gradient flow, $s_l \sim l^{-2}$")
ax.legend(frameon=False, fontsize="small")
fig.savefig("linear_early_stopping.png", dpi=150)

# %%
# Flow, descent and SGD on the same data
# --------------------------------------
# Gradient descent with long steps reaches the same fixed point. SGD with replacement stays above it because of its
# noise, if the data cannot be fitted exactly.
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for method, style, options in (("flow", "C0-", {}), ("descent", "C1o", {"step": 0.02}), ("sgd", "C3-", {})):
    at = 0.02 / power.eta * np.unique(np.geomspace(1, 7e5, 25).astype(int)) if options else times
    curve = multi_pass(power, fresh, 2.0, at, method=method, **options)
    ax.loglog(at, curve.eps_g, style, ms=4, label=f"{method}: test")
    ax.loglog(at, curve.train, style, ms=4, alpha=0.35, mfc="none", label="training")
ax.set(xlabel=r"$\alpha$", ylabel="error", title="n = 2 N, power law")
ax.legend(frameon=False, fontsize="small", ncols=2)
fig.savefig("linear_methods.png", dpi=150)

# %%
# The checks
# ----------
# The mean of four runs lies within 10 % of the theory (one run within 15 %), and early stopping improves with the size
# of the data set.
exact = multi_pass(model, start, 2.0, recorded, method="sgd")
assert np.all(np.abs(test / exact.eps_g - 1) < 0.1) and np.all(np.abs(train / exact.train - 1) < 0.1)
assert np.all(np.diff(list(best.values())) < 0)
print("least test error:", ", ".join(f"{error:.4f} (n = {ratio:g} N)" for ratio, error in best.items()))
