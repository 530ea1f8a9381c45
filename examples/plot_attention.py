r"""
Attention learns attention
==========================

A student with one head of attention over T tokens, with query, key and value in one direction, learns from a teacher of
the same kind, starting at zero overlap. A sample consists of T vectors, which may be correlated (a model of the class
of Arnaboldi et al. 2025, arXiv:2506.02651).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# An uninformed start is no plateau
# ---------------------------------
# The mean of the tokens is correlated with the teacher: at R = 0 the drift is B = 1/T, so that the overlap grows
# immediately, like alpha eta / T, at every N. Averages over two tokens use tensor quadrature, averages over four tokens
# a lattice.
TIMES, N, ETA = np.linspace(0.0, 14.0, 11), 300, 0.5
TOKENS, START = (2, 4), dict(Q=[[0.5]], R=[[0.0]], T=[[1.0]])
models = {T: ov.learner(ov.rules.attention(T, tolerance=5e-3), eta=ETA) for T in TOKENS}
starts = {T: ov.State.from_overlaps(models[T], **START) for T in TOKENS}
flows = {T: ov.solve(models[T], starts[T], TIMES, rtol=1e-3) for T in TOKENS}
runs = {T: ov.simulate(models[T], N=N, alpha=TIMES, rng=T, runs=8, start=starts[T]) for T in TOKENS}

# %%
# Runs differ in time
# -------------------
# The fluctuations of R divided by its velocity are the fluctuations of the time at which a run reaches a given overlap.
LEVEL = 0.25
early = ov.solve(models[2], starts[2], np.linspace(0.0, 2.5, 6), rtol=1e-3)
spread = ov.fluctuations(early, N=N).std("R")[:, 0, 0]
reached = np.interp(LEVEL, early.R[:, 0, 0], early.alpha)
of_time = np.interp(reached, early.alpha, spread / np.gradient(early.R[:, 0, 0], early.alpha))
many = ov.simulate(models[2], N=N, alpha=np.linspace(0.0, 5.0, 51), rng=5, runs=200, start=starts[2])
first = [np.interp(LEVEL, run, many.alpha) for run in np.maximum.accumulate(many.R[:, :, 0, 0], axis=1)]

# %%
# The use of softmax
# ------------------
# A student without softmax, with equal weights for all tokens, converges to a finite error.


def pool(lam, nu, xi, theta, S, F, G):
    """Gradient of half the squared difference between the mean token and the teacher's attention."""
    mean, y, total = np.mean(lam), 0.0, 0.0
    for a in range(nu.shape[0]):
        total += np.exp(nu[a, 0])
        y += np.exp(nu[a, 0]) * nu[a, 0]
    for a in range(nu.shape[0]):
        F[a, 0] = -(mean - y / total) / nu.shape[0]


def missed(lam, nu, theta):
    """Its error."""
    weights = np.exp(nu)
    return (np.mean(lam) - np.sum(weights * nu) / np.sum(weights)) ** 2 / 2


uniform = ov.learner(ov.Rule(pool, K=1, M=1, tokens=2, error=missed, tolerance=1e-3), eta=ETA)
pooled = ov.solve(uniform, ov.State.from_overlaps(uniform, **START), TIMES, rtol=1e-3)

# %%
# Overlap, and error with and without softmax
# -------------------------------------------
# Left: the equations and eight runs of SGD at N = 300; the bar is the predicted standard deviation of the time at which
# a run of two tokens crosses R = 1/4. Right: error with softmax, and of the mean of two tokens (dashed).
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for i, T in enumerate(TOKENS):
    left.plot(TIMES, runs[T].R[:, :, 0, 0].T, color=f"C{i}", lw=0.5, alpha=0.5)
    left.plot(TIMES, flows[T].R[:, 0, 0], color=f"C{i}", lw=2, label=f"T = {T}")
    right.semilogy(TIMES, flows[T].eps_g, color=f"C{i}", label=f"T = {T}, softmax")
right.semilogy(TIMES, pooled.eps_g, "--", color="C0", label="T = 2, mean")
left.errorbar([reached], [LEVEL], xerr=[of_time], color="k", capsize=3)
left.set(xlabel=r"learning time $\alpha$", ylabel="overlap R with the teacher")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$")
for ax in (left, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("attention.png", dpi=150)

# %%
# The checks
# ----------
# SGD follows the equations; runs spread in time as predicted; without softmax an error remains.
for T in TOKENS:
    gap = np.abs(runs[T].mean("R") - flows[T].R)[1:] / runs[T].standard_error("R")[1:]
    print(f"T = {T}: error {flows[T].eps_g[-1]:.1e}; SGD within {gap.max():.1f} standard errors")
    assert gap.max() < 6  # maximum over ten numbers of eight runs each, at N = 300
print(f"without softmax the error ends at {pooled.eps_g[-1]:.3f}")
assert pooled.eps_g[-1] > 10 * flows[2].eps_g[-1]
print(f"R = {LEVEL} at {reached:.2f} +- {of_time:.2f} in theory, {np.mean(first):.2f} +- {np.std(first):.2f} in runs")
assert abs(of_time / np.std(first) - 1) < 0.3  # 200 runs determine it to 5 %; the path is curved
