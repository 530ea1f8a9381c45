"""
Students turn towards wrong feedback before they learn
======================================================

In direct feedback alignment errors propagate back through fixed random weights b in place of the second layer. Two erf
students of two erf teachers first turn their second layer towards the feedback, and then learn almost like gradient
descent. Refinetti et al. (2021), ICML, "Align, then memorise: the dynamics of learning with feedback alignment".
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The same start under two rules
# ------------------------------
# The second layer is trained from zero, with the feedback (0.7, -0.5) or by gradient descent.
B, V_STAR = np.array([0.7, -0.5]), np.array([0.8, -0.6])
OVERLAPS = {"Q": [[0.5, 0.1], [0.1, 0.4]], "R": [[0.2, 0.05], [0.1, 0.15]], "T": [[1.0, 0.2], [0.2, 0.9]]}
TIMES = np.linspace(0, 60, 121)

rule = ov.rules.feedback_alignment(B, V_STAR)
model = ov.learner(rule, eta=0.8, eta_theta=0.4)
start = ov.State.from_overlaps(model, **OVERLAPS)
traj = ov.solve(model, start, TIMES)
descent = ov.committee_machine(2, 2, v=[0.0, 0.0], v_star=V_STAR, eta=0.8, eta_v=0.4)
other = ov.solve(descent, ov.State.from_overlaps(descent, **OVERLAPS), TIMES)
runs = ov.simulate(model, N=1000, alpha=TIMES[::12], rng=1, runs=8, start=start)

# %%
# First alignment, then memory
# ----------------------------
# Left: the error falls once the second layer is aligned. Right: the products :math:`v_k b_k` become positive. Dots are
# means of eight runs of SGD at N = 1000.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.semilogy(TIMES, traj.eps_g, label="feedback alignment")
left.semilogy(TIMES, other.eps_g, "--", label="gradient descent")
left.plot(runs.alpha, runs.mean("eps_g"), "o", color="C0", ms=4, label="SGD")
left.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$")
for k in range(2):
    right.plot(TIMES, traj.v[:, k] * B[k], label=rf"$v_{k + 1} b_{k + 1}$")
    right.plot(runs.alpha, runs.mean("v")[:, k] * B[k], "o", color=f"C{k}", ms=4)
right.axhline(0.0, color="0.4", lw=1)
right.set(xlabel=r"learning time $\alpha$", ylabel="alignment of second layer and feedback")
for ax in (left, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("feedback.png", dpi=150)

# %%
# The checks
# ----------
gap = np.abs(runs.mean("v")[-1] - traj.v[-1]) / runs.standard_error("v")[-1]

print(f"v b = {traj.v[-1] * B}, error {traj.eps_g[0]:.3f} -> {traj.eps_g[-1]:.2e}; SGD within {gap.max():.1f} errors")
assert np.all(traj.v[-1] * B > 0) and traj.eps_g[-1] < 0.1 * traj.eps_g[0]
assert gap.max() < 4.5
