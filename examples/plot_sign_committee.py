"""
A committee of signs learns by majority
=======================================

Two sign units vote, and the teacher is a perceptron. If the vote is wrong, both units are updated; a tie causes no
update. No closed form is used: the force is a few lines of code with three planes on which it jumps, and its averages
are integrated between these planes.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# A rule, and an average along its trajectory
# -------------------------------------------
# The error of the rule is the probability of a wrong vote. The probability of a tie is the mean of another function of
# the fields, which ``ov.field_average`` computes along the solution.
TIMES = np.linspace(0, 12, 25)
PLANES = [[1, 0, 0, 0], [0, 1, 0, 0]]


def tie(lam, nu, theta):
    """Whether the two units disagree."""
    return 1.0 if lam[0] * lam[1] < 0 else 0.0


model = ov.learner(ov.rules.sign_committee(2), eta=1.0)
start = ov.State.from_overlaps(model, Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])
traj = ov.solve(model, start, TIMES, rtol=1e-6)
runs = ov.simulate(model, N=1000, alpha=TIMES[::6], rng=1, runs=10, start=start)
ties = ov.field_average(traj, tie, breaks=PLANES)

# %%
# Wrong votes vanish as the units align
# -------------------------------------
# Left: probability of a wrong vote (a tie is no error), and of a tie. Right: overlaps with the teacher. Dots are means
# of ten runs of SGD at N = 1000.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(TIMES, traj.eps_g, label="wrong vote")
left.plot(TIMES, ties, label="tie")
angle = np.arccos(runs.Q[..., 0, 1] / np.sqrt(runs.Q[..., 0, 0] * runs.Q[..., 1, 1]))
left.plot(runs.alpha, np.mean(angle / np.pi, axis=0), "o", color="C1", ms=4)
for k in range(2):
    right.plot(TIMES, traj.R[:, k, 0], color=f"C{k}", label=f"$R_{k + 1}$")
    right.plot(runs.alpha, runs.mean("R")[:, k, 0], "o", color=f"C{k}", ms=4)
for ax, label in ((left, "probability"), (right, "overlap with the teacher")):
    ax.set(xlabel=r"learning time $\alpha$", ylabel=label)
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("sign_committee.png", dpi=150)

# %%
# The checks
# ----------
# The probability of a tie is the angle between the students over :math:`\pi`.
known = np.arccos(traj.Q[:, 0, 1] / np.sqrt(traj.Q[:, 0, 0] * traj.Q[:, 1, 1])) / np.pi
gap = np.abs(runs.mean("R")[-1] - traj.R[-1]) / runs.standard_error("R")[-1]

error = np.abs(ties - known).max()
print(
    f"wrong votes {traj.eps_g[0]:.3f} -> {traj.eps_g[-1]:.3f}; ties to {error:.1e}; SGD within {gap.max():.1f} errors"
)
assert traj.eps_g[-1] < 0.5 * traj.eps_g[0] and error < 1e-7 and gap.max() < 4.5
