r"""
A student's labels beside the true ones teach better than either
================================================================

A first student learned from noisy labels; a second, larger one learns from mixtures of the true labels and of the first
student's output. The labels of the frozen student contain no noise, but its errors. The best weight of these labels
falls with time.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The teacher of the second generation
# ------------------------------------
# Two units learn from noisy labels. At the end they are frozen, and become further units of the teacher.
NOISE = 0.6
FIRST = ov.committee_machine(2, 2, eta=0.4, noise=NOISE)
Q, R, T = [[0.5, 0.1], [0.1, 0.4]], [[0.2, 0.05], [0.1, 0.15]], [[1.0, 0.2], [0.2, 0.9]]
START = ov.State.from_overlaps(FIRST, Q=Q, R=R, T=T)
RECORD = ov.solve(FIRST, START, [60.0])[0]
TIMES = np.array([0.0, 5.0, 10.0, 20.0, 40.0, 80.0])


# %%
# Labels of both
# --------------
# The noise of the true labels enters with their weight. Errors on the truth, and on the frozen student, are functions
# of the same overlaps.
def second(weight):
    """Errors on the truth and on the frozen student at TIMES, for this weight of the frozen student's labels."""
    model = ov.committee_machine(3, 2, v=[0.7, 0.6, 0.5], eta=0.4, eta_v=0.3, noise=(1 - weight) * NOISE)
    start = 0.3 * np.eye(3) + [[0, 0.05, 0], [0.05, 0.1, 0.02], [0, 0.02, 0.05]]
    traj = ov.solve(*ov.distill(model, RECORD, Q=start, weight=weight), TIMES)
    return traj.against([0, 0, 1, 1]), traj.against([*RECORD.v, 0, 0])


weights = np.linspace(0.0, 1.0, 21)
truth, frozen = np.array([second(a) for a in weights]).swapaxes(0, 1)

# %%
# Error on the truth against the weight
# -------------------------------------
# Left: at several times, with the minima. Right: errors with respect to the truth and to the frozen student, for the
# latter's labels alone.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for i, color in zip(range(1, TIMES.size), plt.get_cmap("viridis")(np.linspace(0, 0.85, TIMES.size - 1)), strict=True):
    left.plot(weights, truth[:, i], color=color, label=rf"$\alpha$ = {TIMES[i]:g}")
    best = int(np.argmin(truth[:, i]))
    left.plot(weights[best], truth[best, i], "o", color=color)
own = ov.closure(FIRST, RECORD.Q, RECORD.R, RECORD.T).eps_g
left.axhline(own, color="0.5", ls="--", lw=1, label="the first student")
left.set(yscale="log", xlabel="weight of the frozen student's label", ylabel="error on the truth")
right.plot(TIMES, truth[-1], "o-", color="#0072B2", label="frozen student's labels: error on the truth")
right.plot(TIMES, frozen[-1], "o--", color="#0072B2", label="on the frozen student")
right.plot(TIMES, truth[0], "o-", color="#D55E00", label="true labels: error on the truth")
right.axhline(own, color="0.5", ls="--", lw=1, label="the first student")
right.set(yscale="log", xlabel=r"learning time $\alpha$ of the second student", ylabel="error")
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
fig.savefig("distillation.png", dpi=150)

# %%
# The checks
# ----------
# With the labels of the frozen student alone the second student reproduces the first one. A mixture is better than
# either label.
print("best weights:", *(f"{weights[np.argmin(x)]:.2f} at {t:g}" for x, t in zip(truth.T[1:], TIMES[1:], strict=True)))
assert frozen[-1, -1] < 0.2 * frozen[0, -1] and abs(truth[-1, -1] / own - 1) < 0.3
assert all(x.min() < 0.97 * min(x[0], x[-1]) for x in truth.T[1:])
