r"""
Two tasks, one after the other
==============================

Two erf students learn a first teacher until alpha = 30 and then a second one; both teachers are units of one state, and
each task is a model whose ``v_star`` reads its own: two stages. Errors on both tasks follow from the same overlaps, at
all times: what the students forget of the first task (full lines), and what it has taught them about the second one
(dashed), for teachers of overlap T_12. One readout serves both tasks, so the second overwrites the first as far as the
teachers differ: forgetting is worst for teachers that have nothing in common. Lee, Goldt and Saxe (2021), ICML, give
every task a trained readout of its own (``heads=``). Then students divide the tasks where the teachers are different,
share them where these are equal, and forget most in between, at intermediate similarity (right).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

SWITCH, END = 30.0, 60.0


def learn(T12, v_stars=((1.0, 0.0), (0.0, 1.0))):
    """(alpha, errors on both tasks (2, n)) of learning one task after the other."""
    tasks = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in v_stars]
    T = [[1.0, T12], [T12, 1.0]]
    start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=[[0.1, 0.02], [0.03, 0.08]], T=T)
    traj = ov.solve(ov.Stages(tasks, until=[SWITCH, END]), start, np.linspace(0, END, 241), rtol=1e-10)
    return traj.alpha, np.array([traj.error(0), traj.error(1)])


def forgotten_with_heads(T12):
    """Error on the first task at the end, where each task has a readout of its own that is trained."""
    tasks = [ov.committee_machine(2, 2, eta=1.0, eta_v=1.0, v_star=v_star) for v_star in ((1.0, 0.0), (0.0, 1.0))]
    R, T = [[0.05, 0.05 * T12], [0.03 * T12, 0.03]], [[1.0, T12], [T12, 1.0]]
    start = ov.State.from_overlaps(tasks[0], Q=0.2 * np.eye(2), R=R, T=T)
    stages = ov.Stages(tasks, until=[SWITCH, END], heads=[[0.5, 0.3], [0.3, 0.5]])
    return ov.solve(stages, start, [0.0, SWITCH, END]).error(0)[-1]


def main():
    fig, (ax, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", width_ratios=(3, 2))
    found = {}
    for i, T12 in enumerate((0.0, 0.4, 0.8, 0.95)):
        alpha, (one, two) = learn(T12)
        color = plt.get_cmap("viridis")(i / 3.6)
        ax.plot(alpha, one, color=color, lw=2, label=f"first task, $T_{{12}}$ = {T12:g}")
        ax.plot(alpha, two, "--", color=color, lw=1.5)
        found[T12] = one, two
    ax.axvline(SWITCH, color="0.6", lw=1)
    ax.set(yscale="log", ylim=(2e-3, 0.6), xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$ on each task")
    ax.set_title("full: first task, dashed: second task")
    ax.legend(frameon=False, ncols=2, loc="lower center")
    ax.grid(alpha=0.25)
    similarity = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.99])
    right.plot([*found], [one[-1] for one, _ in found.values()], "o-", label="one readout")
    right.plot(similarity, [forgotten_with_heads(T12) for T12 in similarity], "s-", label="two readouts, trained")
    right.set(xlabel="overlap of the teachers", ylabel=r"$\epsilon_g$ on the first task at the end")
    right.legend(frameon=False)
    right.grid(alpha=0.25)
    fig.savefig("forgetting.png", dpi=150)
    return found


if __name__ == "__main__":
    found = main()
    one, two = found[0.4]
    print(f"T_12 = 0.4: {one[120]:.10f}, {two[120]:.10f} at the switch, {one[-1]:.10f}, {two[-1]:.10f} at the end")
    # an independent integration with the second layer of the teacher switched at 30
    expected = [0.008075586689, 0.2076409962, 0.2077582491, 0.008281317115]
    assert np.allclose([one[120], two[120], one[-1], two[-1]], expected, rtol=1e-6)
    forgotten = [x[0][-1] for x in found.values()]
    assert all(np.diff(forgotten) < 0)
    with_heads = [forgotten_with_heads(T12) for T12 in (0.0, 0.4, 0.99)]
    print("with readouts of their own, at T_12 = 0, 0.4, 0.99:", *(f"{x:.4f}" for x in with_heads))
    assert with_heads[1] > 1.5 * max(with_heads[0], with_heads[2])  # worst in between
