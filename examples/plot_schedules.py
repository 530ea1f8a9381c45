r"""
Annealing removes the noise of a constant rate
==============================================

One committee machine (erf, K = M = 2, label noise 0.3) under four learning rates: constant, steps, a cosine, and
:math:`1/\alpha`. With a constant rate the error reaches a floor of noise; with each decreasing rate it ends below this
floor.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# A schedule is one argument
# --------------------------
# ``schedule=`` multiplies the learning rate, for ``ov.solve`` and ``ov.simulate`` alike; the steps of the integrator
# end at every knot.
SCHEDULES = {
    "constant": None,
    "steps": ov.Schedule.step([15.0, 30.0], [0.3, 0.1]),
    "cosine": ov.Schedule.cosine(50.0),
    r"$1/(1 + \alpha/8)$": ov.Schedule.power(1.0, scale=8.0),
}

model = ov.committee_machine(2, 2, eta=1.5, noise=0.3)
start = ov.State.from_overlaps(model, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
alpha, sampled = np.linspace(0, 50, 201), np.linspace(0, 50, 11)

# %%
# Theory and runs on the same schedules
# -------------------------------------
# Lines are solutions of the equations, markers means over 40 networks with N = 1000 inputs, with two standard errors.
# Right: the four rates.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
worst, ends = 0.0, {}
for name, schedule in SCHEDULES.items():
    traj = ov.solve(model, start, alpha, schedule=schedule)
    runs = ov.simulate(model, N=1000, alpha=sampled, rng=1, runs=40, start=start, schedule=schedule)
    mean, error = runs.mean("eps_g")[1:], runs.standard_error("eps_g")[1:]
    theory = traj.eps_g[20::20]
    worst = max(worst, np.max(np.abs(mean - theory) / (error + 3 / runs.N * theory)))
    (line,) = left.plot(alpha, traj.eps_g, lw=2, label=name)
    left.errorbar(sampled[1:], mean, 2 * error, fmt="o", ms=4, color=line.get_color())
    right.plot(alpha, traj.eta, lw=2, label=name)
    ends[name] = traj.eps_g[-1]
left.set(yscale="log", xlabel=r"learning time $\alpha$", ylabel=r"generalisation error $\epsilon_g$")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"learning rate $\eta$")
left.legend(frameon=False)
for ax in (left, right):
    ax.grid(alpha=0.25)
fig.savefig("schedules.png", dpi=150)

# %%
# The checks
# ----------
# Theory and runs agree up to four standard errors and a bias of order 1/N.
print(f"largest distance of theory and runs: {worst:.2f} standard errors")
print(", ".join(f"{name}: {end:.4f}" for name, end in ends.items()))
assert worst < 4
assert ends["cosine"] < ends["steps"] < ends["constant"]
