"""
The more alike two tasks are, the less is forgotten
===================================================

Two erf students learn a first teacher until alpha = 30 and then a second one. With one readout for both tasks the
second overwrites the first as far as the teachers differ. With a trained readout for each task students forget most at
intermediate similarity: if the teachers differ, each student takes one task; if they are equal, the students share
both. Lee, Goldt and Saxe (2021), ICML.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# One readout for both tasks
# --------------------------
# Both teachers are units of one state. Each task is a model whose ``v_star`` selects its own teacher: two stages.
# Errors on both tasks follow from the same overlaps at all times.
SWITCH, END = 30.0, 60.0


def learn(T12, v_stars=((1.0, 0.0), (0.0, 1.0))):
    """(alpha, errors on both tasks (2, n)) of learning one task after the other."""
    tasks = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in v_stars]
    T = [[1.0, T12], [T12, 1.0]]
    start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=[[0.1, 0.02], [0.03, 0.08]], T=T)
    traj = ov.solve(ov.Stages(tasks, until=[SWITCH, END]), start, np.linspace(0, END, 241), rtol=1e-10)
    return traj.alpha, np.array([traj.task_error(0), traj.task_error(1)])


# %%
# A readout for each task
# -----------------------
# ``heads=`` gives each stage its own readout, which is trained with the first layer. For different teachers each
# student learns one of them, for equal teachers both students learn both tasks, and in between the second task reuses
# the students of the first.
def forgotten_with_heads(T12):
    """Error on the first task at the end, where each task has a readout of its own that is trained."""
    tasks = [ov.committee_machine(2, 2, eta=1.0, eta_v=2.0, v_star=v_star) for v_star in ((1.0, 0.0), (0.0, 1.0))]
    R, T = [[0.05, 0.05 * T12], [0.03 * T12, 0.03]], [[1.0, T12], [T12, 1.0]]
    start = ov.State.from_overlaps(tasks[0], Q=np.eye(2), R=R, T=T)
    stages = ov.Stages(tasks, until=[SWITCH, END], heads=[[0.3, 0.2], [0.2, 0.3]])
    return ov.solve(stages, start, [0.0, SWITCH, END]).task_error(0)[-1]


# %%
# Forgetting against similarity
# -----------------------------
# Left: what the students forget of the first task (full lines), and the change of the error on the second one
# (dashed), for teachers of overlap :math:`T_{12}`. Right: the error on the first task at the end.
curves = {T12: learn(T12) for T12 in (0.0, 0.4, 0.8, 0.95)}
similarity = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
with_heads = [forgotten_with_heads(T12) for T12 in similarity]

fig, (ax, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", width_ratios=(3, 2))
for i, (T12, (alpha, (one, two))) in enumerate(curves.items()):
    color = plt.get_cmap("viridis")(i / 3.6)
    ax.plot(alpha, one, color=color, lw=2, label=f"first task, $T_{{12}}$ = {T12:g}")
    ax.plot(alpha, two, "--", color=color, lw=1.5)
ax.axvline(SWITCH, color="0.6", lw=1)
ax.set(yscale="log", ylim=(2e-3, 0.6), xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$ on each task")
ax.set_title("full: first task, dashed: second task")
ax.legend(frameon=False, ncols=2, loc="lower center")
ax.grid(alpha=0.25)
forgotten = [one[-1] for _, (one, _) in curves.values()]
right.plot([*curves], forgotten, "o-", label="one readout")
right.plot(similarity, with_heads, "s-", label="two readouts, trained")
right.set(xlabel="overlap of the teachers", ylabel=r"$\epsilon_g$ on the first task at the end")
right.legend(frameon=False)
right.grid(alpha=0.25)
fig.savefig("forgetting.png", dpi=150)

# %%
# The checks
# ----------
# An independent integration, in which the second layer of the teacher switches at 30, gives the same errors.
one, two = curves[0.4][1]
print(f"T_12 = 0.4: {one[120]:.10f}, {two[120]:.10f} at the switch, {one[-1]:.10f}, {two[-1]:.10f} at the end")
expected = [0.008075586689, 0.2076409962, 0.2077582491, 0.008281317115]
assert np.allclose([one[120], two[120], one[-1], two[-1]], expected, rtol=1e-6)
assert all(np.diff(forgotten) < 0)
print("with readouts of their own:", *(f"{x:.4f} (T_12 = {T:g})" for x, T in zip(with_heads, similarity, strict=True)))
assert np.allclose(with_heads, [0.0075, 0.1920, 0.2151, 0.1492, 0.0768, 0.0014], atol=1e-4)  # worst in between
