"""
Trajectories pass saddles of decreasing index
=============================================

The figure shows all stationary points of the generalisation error of a soft committee machine (erf, K = 3, M = 2).
Students may be equal, may learn the same teacher, or may cancel each other. One of the points without descending
directions is not a solution: this overparametrised machine has a local minimum.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# All stationary points
# ---------------------
# Newton's method from many starts with many symmetries finds them. The index is the number of descending directions of
# the weights. The index along a trajectory is the number of negative outliers of the Hessian.
MODEL = ov.committee_machine(3, 2, eta=1.0, gradient_flow=True)
RUNS, SMALL = 8, 0.05
ZERO = 5e-4  # where eps_g = 0 is drawn
NAMES = {0.0: "solution", 0.0014955: "local minimum", 0.0126772: "all students equal", 0.0116307: "two students equal"}
NAMES |= {0.0116108: "third student idle", 0.0301719: "two students cancel"}

points = ov.theory.stationary_points(MODEL, starts=200, rng=0)


def trajectories():
    """Random starts, followed to convergence, with the Hessian along the trajectories."""
    for seed in range(RUNS):
        start = MODEL.random_start(N=10**6, rng=seed, student_scale=SMALL, teacher="ideal")
        traj = ov.solve(MODEL, start, np.r_[0, np.geomspace(0.01, 10, 40), np.linspace(15, 1500, 200), 4000])
        yield traj, np.sum(ov.hessian(MODEL, traj).outliers < -1e-6, axis=1)


# %%
# A map of plateaus
# -----------------
# Points by error and index: the solution (green), other minima (red), saddles (blue). Grey lines are trajectories from
# small random weights, which start at a high error and end in the solution.
fig, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
ends, shift = [], np.linspace(-0.25, 0.25, RUNS)
for dy, (traj, index) in zip(shift, trajectories(), strict=True):
    ax.plot(np.maximum(traj.eps_g, ZERO), index + dy, color="0.75", linewidth=0.8, zorder=0)
    ends.append(traj.eps_g[-1])
for point in points:
    eps_g, index = max(point.eps_g, ZERO), int(np.sum(point.hessian.outliers < -1e-6))
    color = "C2" if point.eps_g < 1e-9 else "C3" if point.growing == 0 else "C0"
    ax.plot(eps_g, index, "o", color=color, markersize=9)
    name = next((text for x, text in NAMES.items() if abs(x - point.eps_g) < 1e-6), "")
    below = name == "third student idle"  # its neighbours are above
    place = (0, -16) if below else (9, 7)
    ax.annotate(name, (eps_g, index), place, textcoords="offset points", fontsize="small", color=color)
ax.set(xscale="log", xlabel=r"generalisation error $\epsilon_g$ (far left: 0)", ylabel="directions down")
ax.set_title("stationary points of a soft committee machine, erf, K = 3, M = 2")
ax.grid(alpha=0.25)
fig.savefig("stationary_points.png", dpi=150)

# %%
# The checks
# ----------
ends = np.array(ends)
for point in points:
    print(point)
minima = [point.eps_g for point in points if point.growing == 0]
nearest = np.min(np.abs(ends[:, None] - np.array(minima)), axis=1)
print(f"minima at eps_g = {np.round(minima, 7)}; trajectories end within {nearest.max():.1e} of them")
assert len(minima) == 2 and minima[0] < 1e-9 and abs(minima[1] - 0.0014955) < 1e-6
assert any(abs(point.eps_g - 0.0116108) < 1e-6 for point in points)  # the plateau of two students, the third at zero
