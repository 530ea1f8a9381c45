r"""
Easy first is not the best order
================================

One unit learns labels from inputs, half of which are hard: they vary in directions on which the labels do not depend.
Easy samples first give a smaller error than hard samples first, samples mixed throughout a smaller one, and the order
easy, hard, easy the smallest. Compare Saglietti, Mannelli and Saxe (2022), NeurIPS, and Mignacco and Mori (2025),
arXiv:2507.07907.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Inputs that change
# ------------------
# Labels are sgn(nu), and the teacher has no weights on the second block of inputs, which only adds variance to the
# student's field: none for easy samples, 1.5 for hard ones. A factor on its eigenvalue is a schedule; errors on easy
# and hard test sets are functions of the same overlaps.
END, HARD = 8.0, 1.5
TIMES = np.linspace(0.0, END, 161)
SPECTRUM = ov.Spectrum(s=[1.0, 1.0], p=[0.4, 0.6])
MODEL = ov.committee_machine(1, 1, teacher_activation="sign", v=[1.0], eta=1.2, spectrum=SPECTRUM)
START = ov.State.from_blocks(MODEL, q=[[[0.3]], [[0.5]]], r=[[[0.05]], [[0.0]]], t=[[[0.9]], [[0.0]]])


def mean_error(traj):
    """Mean over easy and hard test sets."""
    return (traj.classification_error([1.0, 0.0]) + traj.classification_error([1.0, HARD])) / 2


def in_order(t):
    """Easy samples, from t on hard ones, from t + 4 on easy ones again."""
    knots, values = ([0.0, END / 2], [HARD, 0.0]) if t == 0 else ([0.0, t, t + END / 2], [0.0, HARD, 0.0])
    factor = ov.Schedule(knots, values, "constant")
    return mean_error(ov.solve(MODEL, START, TIMES, schedule={"s": (None, factor)}))


# %%
# The limit of short pieces
# -------------------------
# If each sample is drawn from either kind, with shares that may change in time, the two kinds are tasks mixed in one
# step.
def mixed(shares):
    """Hard and easy samples in these shares."""
    hard, easy = (
        ov.committee_machine(
            1, 1, teacher_activation="sign", v=[1.0], eta=1.2, spectrum=ov.Spectrum(s=[1.0, u], p=SPECTRUM.p)
        )
        for u in (HARD, 0.0)
    )
    start = ov.State.from_blocks(hard, **dict(zip("qrt", START.plain, strict=True)))
    return mean_error(ov.solve(ov.Mixed([hard, easy], shares), start, TIMES))


# %%
# Errors by the order
# -------------------
# Left: four units of time with hard samples begin at t. First the student learns the direction from easy samples, then
# the irrelevant weights decay, which happens only while their inputs vary, then the direction is refined.
begins = np.linspace(0.0, END / 2, 17)
orders = [in_order(t) for t in begins]
ends = np.array([curve[-1] for curve in orders])
throughout = mixed([0.5, 0.5])

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(begins, ends, "k", lw=2)
names = {0: "hard, easy", int(np.argmin(ends)): "easy, hard, easy", 16: "easy, hard"}
for (i, name), color in zip(names.items(), ("#D55E00", "#009E73", "#0072B2"), strict=True):
    left.plot(begins[i], ends[i], "o", color=color, ms=8, label=name)
    right.plot(TIMES, orders[i], color=color, label=name)
left.axhline(throughout[-1], color="0.45", ls="--", label="mixed throughout")
right.plot(TIMES, throughout, "--", color="0.45", label="mixed throughout")
left.set(xlabel="time $t$ at which hard samples begin", ylabel="mean error of both test sets at the end")
right.set(xlabel=r"learning time $\alpha$", ylabel="mean error of both test sets", yscale="log")
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
fig.savefig("curriculum.png", dpi=150)

# %%
# The checks
# ----------
# An independent integration, which also searched for the best share on sixteen pieces of time.
pieces = [0, 0, 0, 0.35, 1, 1, 1, 1, 1, 1, 1, 0.65, 0, 0, 0, 0]
best = mixed(ov.Schedule(np.arange(16) / 2, pieces, "constant"))[-1]
print(f"hard, easy {ends[0]:.6f}; easy, hard {ends[-1]:.6f}; mixed {throughout[-1]:.6f}; easy, hard, easy {best:.6f}")
assert np.allclose([ends[0], ends[-1], throughout[-1], best], [0.102534, 0.101301, 0.099236, 0.095345], atol=2e-6)
assert max(ends.min(), best) < min(ends[0], ends[-1], throughout[-1])
