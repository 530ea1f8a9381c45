r"""
The best rate is moderate on the plateau and falls after it
===========================================================

Two erf students of two teachers, label noise 0.1, from students with nearly equal overlaps with both teachers (R =
0.001). The rate that leaves the smallest error at alpha = 200 is moderate on the symmetric plateau and falls like
:math:`1/\alpha` once the students have specialised. Computed for this library; for optimal rates at a given time see
Saad and Rattray (1997), Phys. Rev. Lett. 79, 2578.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The optimum, the best constant rate, and the greedy one
# -------------------------------------------------------
# ``ov.optimal_schedule`` minimises the error at the horizon over all knots of the rate, with gradients from the adjoint
# equations. The greedy rate maximises the decrease of the error at each time.
HORIZON = 200.0

model = ov.committee_machine(2, 2, eta=1.0, noise=0.1)
start = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=1e-3 * np.eye(2), T=np.eye(2))
best = ov.optimal_schedule(model, start, HORIZON, knots=21, tol=1e-5)
schedules = {
    "optimum": best.schedule,
    f"best constant, {best.constant[0]:.2f}": ov.Schedule.constant(best.constant[0] / model.eta),
    "greedy": ov.greedy_schedule(model, start, HORIZON, knots=81),
}

# %%
# The greedy rate never leaves the plateau
# ----------------------------------------
# The best constant rate cannot be moderate first and small later. The greedy rate falls on the plateau, where a step
# mainly adds noise to the error, and the students never specialise.
alpha = np.linspace(0, HORIZON, 401)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
ends = []
for name, schedule in schedules.items():
    traj = ov.solve(model, start, alpha, schedule=schedule)
    left.plot(alpha, traj.eps_g, lw=2, label=name)
    right.plot(alpha, traj.eta, lw=2, label=name)
    ends.append(traj.eps_g[-1])
left.set(yscale="log", xlabel=r"learning time $\alpha$", ylabel=r"generalisation error $\epsilon_g$")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"learning rate $\eta$")
left.legend(frameon=False)
for ax in (left, right):
    ax.grid(alpha=0.25)
fig.savefig("optimal_schedule.png", dpi=150)

# %%
# The checks
# ----------
# The optimum is better than the best constant rate by more than a factor of ten.
(optimum, constant, greedy) = ends
print(f"{best.message} eps_g at {HORIZON:g}: {optimum:.4g}, constant {constant:.4g}, greedy {greedy:.4g}")
assert abs(optimum / best.value - 1) < 1e-5 and abs(constant / best.constant[1] - 1) < 1e-5
assert constant / optimum > 10 and greedy > 0.014
