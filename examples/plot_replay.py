r"""
With two tasks the best share changes in time
=============================================

Each sample belongs to the first task with probability pi (its share), and to the second task otherwise. With a small
share a task is learned slowly. The optimal share as a function of time uses first one task only, then the other task
only, then both. Compare Lee, Mannelli and Saxe (2022), arXiv:2205.09029, and Mori et al. (2024), arXiv:2409.18061, on
replay.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Two tasks, two readouts
# -----------------------
# Both tasks use the same students, and each task has its own readout, which is trained on the samples of this task.
END = 20.0
HEADS = [[0.7, 0.4], [0.3, -0.5]]
TASKS = [ov.committee_machine(2, 2, v_star=v, eta=0.8, eta_v=0.4, noise=0.2) for v in ([1.0, 0.0], [0.0, 0.8])]
OVERLAPS = {"Q": [[0.5, 0.1], [0.1, 0.4]], "R": [[0.2, 0.05], [0.1, 0.15]], "T": [[1.0, 0.3], [0.3, 0.9]]}
START = ov.State.from_overlaps(TASKS[0], **OVERLAPS)


def errors(shares, alpha=(END,)):
    """Errors on both tasks (2, n) at times alpha."""
    traj = ov.solve(ov.Mixed(TASKS, shares, heads=HEADS), START, np.array(alpha))
    return np.array([traj.task_error(0), traj.task_error(1)])


# %%
# The best share
# --------------
# The flow is linear in the share. The optimal share therefore consists of intervals at 0 or 1 and of intervals in which
# exchanging samples of the two tasks does not change the error to first order.
best = ov.optimal_schedule(ov.Mixed(TASKS, [0.5, 0.5], heads=HEADS), START, END, control="shares", knots=9)
pi = np.linspace(0.0, 1.0, 21)
ends = np.array([errors([x, 1 - x])[:, 0] for x in pi])
alpha = np.linspace(0, END, 201)
along = errors(best.schedule, alpha)

# %%
# Constant shares, and the best schedule
# --------------------------------------
# Left: errors at the end against a constant share. A task without samples is learned in part, because the teachers
# overlap. Right: the best share, and the errors under it.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
blue, red = "#0072B2", "#D55E00"
left.plot(pi, ends[:, 0], color=blue, label="first task")
left.plot(pi, ends[:, 1], color=red, label="second task")
left.plot(pi, ends.mean(axis=1), "k", lw=2, label="mean")
left.axhline(best.value, color="k", ls=":", lw=1.5, label="mean, best schedule")
left.set(yscale="log", xlabel=r"constant share $\pi$ of the first task", ylabel=rf"error at $\alpha$ = {END:g}")
right.plot(alpha, best.schedule(alpha), "k", lw=2, label=r"best share $\pi(\alpha)$")
right.plot(alpha, along[0] / along[0, 0], color=blue, label="error on the first task, relative to the start")
right.plot(alpha, along[1] / along[1, 0], color=red, label="error on the second task")
right.set(xlabel=r"learning time $\alpha$", ylim=(-0.03, 1.3))
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, loc="upper center")
fig.savefig("replay.png", dpi=150)

# %%
# The checks
# ----------
# Another program, with eight constant intervals, found a mean error of 0.015273.
print(f"best {best.value:.6f}, best constant {ends.mean(axis=1).min():.6f}, half of each {ends.mean(axis=1)[10]:.6f}")
assert best.success and best.value < 0.0154 < ends.mean(axis=1).min()
assert abs(along[:, -1].mean() / best.value - 1) < 1e-5
