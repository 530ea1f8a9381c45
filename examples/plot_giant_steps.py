r"""
A staircase, one giant step at a time
=====================================

Steps of 2N samples each: a student meets the three directions of the target
:math:`\nu_1 + \nu_1\nu_2 + \nu_1\nu_2\nu_3` in turn, one step after the other. Larger batches need fewer steps and more
samples. Dandi et al. (2024), arXiv:2305.18270; Arnaboldi et al. (2024), arXiv:2406.02157.
"""

import math

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# A target with a staircase
# -------------------------
# The student is an erf unit with an offset, without any overlap with the teachers. The target is linear in
# :math:`\nu_1` only; each direction that is learned makes the next one visible.
STEP = 2.0  # samples / N in each step


def force(lam, nu, xi, theta, S, F, G):
    z = lam[0] + 0.5
    delta = math.erf(z / math.sqrt(2)) - nu[0] * (1 + nu[1] * (1 + nu[2]))
    F[0] = -math.sqrt(2 / math.pi) * math.exp(-z * z / 2) * delta


model = ov.learner(ov.Rule(force, K=1, M=3), eta=0.5)
start = ov.State.from_overlaps(model, Q=[[1.0]], R=np.zeros((1, 3)), T=np.eye(3))
stairs = ov.solve(model, start, (0, 5 * STEP), step=STEP)
runs = ov.simulate(model, N=1000, alpha=(0, 5 * STEP), rng=1, runs=20, start=start, step=STEP)

# %%
# Batch size against number of steps
# ----------------------------------
# The shortest way of two erf units to eps_g = 0.01 under label noise, for batches from N/2 to 64 N samples, each at the
# best of eight rates h of the mean gradient; eta is h / step.
teacher = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
begin = ov.State.from_overlaps(teacher, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
SIZES, RATES = 2.0 ** np.arange(-1, 7), np.geomspace(0.15, 1.8, 8)


def steps_to_level(step, h, limit=400):
    net = teacher.replace(eta=h / step)
    traj = ov.solve(net, begin.on(net), (0, limit * step), step=step, stop=0.01)
    return len(traj) - 1 if traj.stopped else np.inf


best = np.array([min(steps_to_level(step, h) for h in RATES) for step in SIZES])

# %%
# One direction in a step; steps against samples
# ----------------------------------------------
# Left: overlaps with the three directions; the lines join the steps of the map, points with error bars are means of 20
# runs at N = 1000. Right: each point is a batch size.
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
n, error = np.arange(6), runs.standard_error("R")[:, 0]
for m in range(3):
    left.plot(n, stairs.R[:, 0, m], color=f"C{m}", label=rf"$R_{m + 1}$")
    left.errorbar(n, runs.mean("R")[:, 0, m], error[:, m], fmt="o", ms=4, color=f"C{m}")
left.axhline(0, color="0.6", lw=0.8)
left.set(xlabel="steps of 2N samples", ylabel="overlap with a direction")
left.legend(frameon=False)
right.loglog(SIZES * best, best, "o-")
for step, count in zip(SIZES, best, strict=True):
    right.annotate(f"{step:g} N", (step * count, count), xytext=(5, 4), textcoords="offset points", fontsize="small")
right.set(xlabel="samples / N until $\\epsilon_g = 0.01$", ylabel="steps", xlim=(130, 2000), ylim=(14, 400))
for axis, ticks in ((right.xaxis, [200, 500, 1000]), (right.yaxis, [20, 50, 100, 300])):
    axis.set_ticks(ticks, [str(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
fig.savefig("giant_steps.png", dpi=150)

# %%
# The checks
# ----------
print(stairs.R[:4, 0].round(4))
for m in range(1, 3):  # nothing of direction m + 1 before step m + 1
    assert np.all(np.abs(stairs.R[: m + 1, 0, m]) < 1e-6) and abs(stairs.R[m + 1, 0, m]) > 1e-3
assert np.all(np.abs(runs.mean("R") - stairs.R)[:, 0] < 4 * error + 4 / 1000)
print(dict(zip(SIZES.tolist(), best.tolist(), strict=True)))
assert np.all(np.diff(best) < 0) and np.all(np.diff(SIZES * best) > 0)
