"""
Plateaus are saddles, and the library names each of them
========================================================

Learning curves of committee machines have plateaus near saddles of the flow, where students are mixtures of several
teachers. ``traj.plateaus()`` finds each plateau: begin and end, the height of the saddle, the groups of equivalent
students, and the growing modes along which the curve leaves.
"""

# %%
# One plateau, or several
# -----------------------
# Three erf students leave one plateau together. Three relu students have two plateaus: on the second a pair has not
# specialised yet. Horizontal lines are the saddles, exact fixed points of the flow, which trajectories pass at a
# distance.
import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

cases = {
    "erf, K = M = 3": (ov.committee_machine(3, 3, eta=0.5), 1, 600),
    "relu, K = M = 3": (ov.committee_machine(3, 3, activation=ov.relu, eta=0.2), 2, 600),
    "erf, K = 2, M = 4": (ov.committee_machine(2, 4, eta=0.2), 2, 8000),
}
fig, axes = plt.subplots(2, 3, figsize=(12, 6), sharex="col", layout="constrained")
names = {}
for (title, (model, seed, end)), (top, bottom) in zip(cases.items(), axes.T, strict=True):
    traj = ov.solve(model, model.random_start(N=800, rng=seed), (0, end))
    names[title] = traj.plateaus()
    top.loglog(traj.alpha, traj.eps_g, "k")
    for i, plateau in enumerate(names[title]):
        colour = f"C{i + 1}"
        top.plot(plateau.alpha, [plateau.height] * 2, color=colour, lw=5, alpha=0.5, solid_capstyle="butt")
        top.text(
            plateau.alpha[0], plateau.height * 1.25, f"{plateau.growing} growing", color=colour, fontsize="small"
        )  # fmt: skip
        for axis in (top, bottom):
            axis.axvspan(*plateau.alpha, color=colour, alpha=0.08)
        print(f"{title}: {plateau}")
    for k in range(model.K):
        for m in range(model.M):
            bottom.semilogx(traj.alpha, traj.R[:, k, m], color=f"C{k}", lw=1)
    top.set(title=title, ylabel=r"$\epsilon_g$", xlim=(0.5, end), ylim=(traj.eps_g.max() * 1e-3, traj.eps_g.max() * 2))
    bottom.set(xlabel=r"$\alpha$ = steps / N", ylabel=r"$R_{km}$, coloured by student")
fig.savefig("plateau_by_name.png", dpi=150)

# %%
# The height and the rate against the learning rate
# -------------------------------------------------
# ``ov.plateau(model)`` finds the plateau without a trajectory. The noise of SGD raises it by an amount that grows with
# the number of units, and it has (K - 1)(M - 1) growing modes.
fig, (height, rate) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
etas = np.geomspace(0.02, 0.5, 12)
for K in (2, 3, 4, 5):
    found = [ov.plateau(ov.committee_machine(K, K, eta=eta)) for eta in etas]
    assert all(plateau.growing >= (K - 1) ** 2 for plateau in found)
    height.plot(etas, [plateau.height for plateau in found], "o-", ms=3, label=f"K = M = {K}")
    rate.loglog(etas, [plateau.rates[0] for plateau in found], "o-", ms=3)
height.set(xlabel=r"$\eta$", ylabel=r"height of the plateau, $\epsilon_g$")
height.legend(frameon=False)
rate.set(xlabel=r"$\eta$", ylabel="fastest growing rate")
rate.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
rate.minorticks_off()
fig.savefig("plateau_heights_and_rates.png", dpi=150)

# %%
# The checks
# ----------
# One plateau with four growing modes; two plateaus in sequence, the second with one slow mode.
assert [[plateau.growing for plateau in found] for found in names.values()] == [[4], [4, 1], [3, 1]]
