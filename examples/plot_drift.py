"""
Behind a moving teacher the best rate is finite
===============================================

A teacher wanders at rate delta, and a student follows. Slow learning lags behind, fast learning adds noise: the
stationary error is smallest at a finite rate. The closed form was derived for this library; for drifting teachers see
Biehl and Schwarze (1993), J. Phys. A 26, 2651.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# One linear unit in the long run
# -------------------------------
# ``drift=`` is the rate at which the teacher changes. The flow is integrated to :math:`\alpha = 600`, where it is
# stationary.
NOISE, SWITCH, END = 0.2, 60.0, 150.0
ETAS = np.geomspace(0.02, 1.6, 200)


def late(eta, drift):
    """eps_g of the flow of a linear unit at alpha = 600."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=eta, noise=NOISE, drift=drift)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.5]], T=[[1.0]])
    return ov.solve(model, start, [600.0], rtol=1e-10).eps_g[0]


# %%
# Two erf students whose teachers begin to move
# ---------------------------------------------
# Two stages: teachers stand still until :math:`\alpha = 60` and are learned to an error of 1e-3 or less, then they
# move.
def followers(eta, drift=0.02):
    """Two erf students whose teachers begin to move: (stages, start, solution)."""
    still = ov.committee_machine(2, 2, eta=eta)
    stages = ov.Stages([still, still.replace(drift=drift)], until=[SWITCH, END])
    start = ov.State.from_overlaps(still, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
    return stages, start, ov.solve(stages, start, np.linspace(0, END, 301))


# %%
# Lag and noise balance
# ---------------------
# Left: the closed form (lines), the flow (crosses), and the best rate (triangles). Right: the error rises to where
# learning and drift balance; dots are means of four runs of SGD at N = 400.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
worst, balance = 0.0, {}
for i, drift in enumerate((0.01, 0.05, 0.2)):
    curve = ov.theory.linear.tracking_error(ov.isotropic(), ETAS, drift, noise=NOISE)
    left.loglog(ETAS, curve, color=f"C{i}", label=rf"$\delta$ = {drift:g}")
    left.plot(ETAS[curve.argmin()], curve.min(), "v", color=f"C{i}")
    for eta in (0.03, 0.1, 0.3, 1.0):
        exact = (2 * drift / (eta + drift) + eta * NOISE**2) / (2 * (2 - eta))
        found = late(eta, drift)
        worst = max(worst, abs(found / exact - 1))
        left.plot(eta, found, "x", color=f"C{i}")
for i, eta in enumerate((1.2, 1.4, 1.6)):
    stages, start, traj = followers(eta)
    right.semilogy(traj.alpha, traj.eps_g, color=f"C{i}", label=rf"$\eta$ = {eta:g}")
    balance[eta] = traj.eps_g[traj.alpha == SWITCH][0], traj.eps_g[-1]
runs = ov.simulate(stages, N=400, alpha=np.linspace(50, END, 11), rng=1, runs=4, start=start)
right.plot(runs.alpha, runs.mean("eps_g"), "o", color=f"C{i}", ms=4)
right.axvline(SWITCH, color="0.6", lw=1)
left.set(xlabel=r"learning rate $\eta$", ylabel=r"stationary $\epsilon_g$", title="one linear unit")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$", title="two erf students, teachers move from 60 on")
right.set_ylim(1e-5, 0.3)
for ax in (left, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("drift.png", dpi=150)

# %%
# The checks
# ----------
print(f"stationary error of a linear unit: flow and closed form agree to {worst:.1e}")
assert worst < 1e-6
for eta, (before, after) in balance.items():
    print(f"eta = {eta:g}: {before:.1e} when the teachers start to move, {after:.4f} at the end")
    assert before < 1e-3 and after > 10 * before
measured, error = runs.mean("eps_g")[-1], runs.standard_error("eps_g")[-1]
print(f"SGD: {measured:.4f} +- {error:.4f}")
assert abs(measured - after) < 4.5 * error + 3 / 400
