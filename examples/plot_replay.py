r"""
Two tasks at once: how much of each, and when
=============================================

Every sample is of the first task with probability pi, of the second one otherwise (``ov.Mixed``); the students are
shared, and each task has a readout of its own that is trained in its own samples. Left: errors at the end against a
constant share. Little of a task teaches little of it, and also a task that is never seen is learned in part, where the
teachers overlap. Right: the best share as a function of time (``optimal_schedule(..., control="shares")``). The flow is
linear in the share, so that the optimum is made of pieces at 0 and 1 and of arcs on which exchanging samples gains
nothing: the second task first, then the first, then both. The order of the mixture's samples within N steps does not
matter. Compare Lee, Mannelli and Saxe (2022), arXiv:2205.09029, and Mori et al. (2024), arXiv:2409.18061.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

END = 20.0
HEADS = [[0.7, 0.4], [0.3, -0.5]]
TASKS = [ov.committee_machine(2, 2, v_star=v, eta=0.8, eta_v=0.4, noise=0.2) for v in ([1.0, 0.0], [0.0, 0.8])]
START = ov.State.from_overlaps(
    TASKS[0], Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2, 0.05], [0.1, 0.15]], T=[[1, 0.3], [0.3, 0.9]]
)


def errors(shares, alpha=(END,)):
    """Errors on both tasks (2, n) at times alpha."""
    traj = ov.solve(ov.Mixed(TASKS, shares, heads=HEADS), START, np.array(alpha))
    return np.array([traj.error(0), traj.error(1)])


def best(knots=9):
    """The best share of the first task, on so many knots."""
    return ov.optimal_schedule(ov.Mixed(TASKS, [0.5, 0.5], heads=HEADS), START, END, control="shares", knots=knots)


def main():
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    pi = np.linspace(0.0, 1.0, 21)
    ends = np.array([errors([x, 1 - x])[:, 0] for x in pi])
    for curve, label, color in zip(ends.T, ("first task", "second task"), ("#0072B2", "#D55E00"), strict=True):
        left.plot(pi, curve, color=color, label=label)
    left.plot(pi, ends.mean(axis=1), "k", lw=2, label="mean")
    found = best()
    left.axhline(found.value, color="k", ls=":", lw=1.5, label="mean, best schedule")
    left.set(yscale="log", xlabel=r"constant share $\pi$ of the first task", ylabel=rf"error at $\alpha$ = {END:g}")
    left.legend(frameon=False)
    alpha = np.linspace(0, END, 201)
    right.plot(alpha, found.schedule(alpha), "k", lw=2, label=r"best share $\pi(\alpha)$")
    for curve, label, color in zip(errors(found.schedule, alpha), "12", ("#0072B2", "#D55E00"), strict=True):
        right.plot(alpha, curve / curve[0], color=color, label=f"error on task {label}, relative to the start")
    right.set(xlabel=r"learning time $\alpha$", ylim=(-0.03, 1.25))
    right.legend(frameon=False, loc="upper center", ncols=1)
    for ax in (left, right):
        ax.grid(alpha=0.25)
    fig.savefig("replay.png", dpi=150)

    assert found.success and found.value < 0.0154 < ends.mean(axis=1).min()
    assert errors([0.5, 0.5])[:, 0].mean() < errors([0.9, 0.1])[:, 0].mean()


if __name__ == "__main__":
    main()
