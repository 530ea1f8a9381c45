r"""
Faster rates raise the plateau
==============================

A soft committee machine (erf, K = M = 2) first learns what all teacher units have in common, stays on a symmetric
plateau, and then specialises. At a larger learning rate the plateau ends earlier and is higher, because the noise of
SGD keeps the students apart. Saad and Solla (1995), Phys. Rev. E 52, 4225.
"""

# %%
# Four learning curves and their plateaus
# ---------------------------------------
# A model, a start, and one call for each learning rate: the solution contains every term of order :math:`\eta^2`. All
# curves begin at the same overlaps, which are nearly equal for the two teachers. ``traj.plateaus()`` finds the plateau
# of a curve: the height of the saddle, the times, and the rate of the mode along which the curve leaves.
import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

alpha = np.linspace(0, 300, 601)
overlaps = {"Q": [[0.5, 0], [0, 0.4]], "R": [[0.02, 0], [0, 0.03]], "T": np.eye(2)}
curves, plateaus = {}, {}
for eta in (0.3, 0.6, 1.0, 1.5):
    model = ov.committee_machine(2, 2, eta=eta)
    curves[eta] = ov.solve(model, ov.State.from_overlaps(model, **overlaps), alpha)
    plateaus[eta] = curves[eta].plateaus()[0]
    print(f"eta = {eta}: {plateaus[eta]}")

# %%
# Noise lifts the plateau
# -----------------------
# Left, against the number of steps: large rates leave first. Right, against :math:`\eta\alpha`: without the noise of
# SGD all curves would be the dashed one, which is gradient flow. The term :math:`C \sim \eta^2` of
#
# .. math:: dQ/d\alpha = A Q + Q A^T + B R^T + R B^T + C
#
# lifts the plateau above its height at small rates, which is known in closed form (grey line).
flow = ov.committee_machine(2, 2, eta=1.0, gradient_flow=True)
limit = ov.solve(flow, ov.State.from_overlaps(flow, **overlaps), alpha)
symmetric = 2 / np.pi * (np.arcsin(1 / 2) - 2 * np.arcsin(1 / 4))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for eta, traj in curves.items():
    traj.plot(ax=left, label=rf"$\eta = {eta}$")
    right.semilogy(eta * alpha, traj.eps_g, label=rf"$\eta = {eta}$")
right.plot(alpha, limit.eps_g, "k--", label="gradient flow")
right.axhline(symmetric, color="0.6", linewidth=1, zorder=0)
right.text(1, symmetric * 0.95, f"symmetric plateau, {symmetric:.4f}", va="top", color="0.4")
left.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", yscale="log", ylim=(1e-6, 1))
right.set(xlabel=r"$\eta\,\alpha$", xlim=(0, 100), ylim=(1e-3, 0.2))
right.legend(frameon=False)
fig.savefig("soft_committee.png", dpi=150)

# %%
# The checks
# ----------
# The plateau rises with the rate, from the closed form on, and is left earlier.
heights = [plateau.height for plateau in plateaus.values()]
ends = [plateau.alpha[1] for plateau in plateaus.values()]
assert np.all(np.diff(heights) > 0) and symmetric < heights[0] < 1.2 * symmetric
assert np.all(np.diff(ends) < 0)
