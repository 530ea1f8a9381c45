r"""
Every second-order term counts, over eleven decades
===================================================

The equations of ReLU students at a finite learning rate, with all terms of order :math:`\eta^2`, agree with SGD. With
4096 power-law eigenvalues the error decays as :math:`\alpha^{-\beta/(1+\beta)}`, and exponentially at the end, over
eleven decades of time; the structured integrator needs a few seconds.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import overlaps as ov

# %%
# ReLU at a finite rate
# ---------------------
# K = M = 2, both layers of the student are trained. All terms are in closed form; SGD starts from the same overlaps.
relu = ov.committee_machine(2, 2, activation=ov.relu, eta=0.3, eta_v=0.1, v=[0.6, 1.2])
start = relu.random_start(N=4000, rng=3)
alpha = np.geomspace(0.1, 300.0, 25)
theory = ov.solve(relu, start, (0.0, 300.0), every_step=True)
flow = ov.solve(
    ov.committee_machine(2, 2, activation=ov.relu, eta=0.3, eta_v=0.1, v=[0.6, 1.2], gradient_flow=True),
    start,
    (0.0, 300.0),
    every_step=True,
)
runs = ov.simulate(relu, N=4000, alpha=alpha, rng=4, start=start, runs=5)

mean, error = runs.eps_g.mean(axis=0), runs.eps_g.std(axis=0, ddof=1) / np.sqrt(5)

# %%
# Power-law inputs
# ----------------
# Erf students and 4096 eigenvalues :math:`s_l \sim l^{-(1+\beta)}`, to :math:`\alpha = 10^9`.
curves = {}
for beta in (1.0, 1.5):
    model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=beta, L=4096))
    begin = time.perf_counter()
    traj = ov.solve(model, model.random_start(N=4_096_000, rng=1), (0.0, 1e9), every_step=True)
    print(f"beta = {beta}: {traj.method}, {traj.nfev} evaluations, {time.perf_counter() - begin:.1f} s")
    assert traj.success and traj.alpha[-1] == 1e9
    shown = (traj.alpha > 1e-2) & (traj.eps_g > 1e-12)

    exponent = -beta / (1 + beta)
    times = np.geomspace(1e1, 1e3, 20)
    eps_g = np.exp(np.interp(np.log(times), np.log(traj.alpha[shown]), np.log(traj.eps_g[shown])))
    slope = np.polyfit(np.log(times), np.log(eps_g), 1)[0]
    print(f"    slope {slope:.3f} over alpha = 10 to 1000; -beta/(1 + beta) = {exponent:.3f}")
    assert abs(slope - exponent) < 0.1 * abs(exponent)
    curves[beta] = traj.alpha[shown], traj.eps_g[shown], 2 * eps_g[0] * (times / times[0]) ** exponent

# %%
# Every term on the left, eleven decades on the right
# ----------------------------------------------------
# Left: full equations, gradient flow (dashed), and SGD at N = 4000. Right: the errors, and power laws (dashed).
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
left.loglog(theory.alpha[1:], theory.eps_g[1:], color="C0", label="ODE, every $O(\\eta^2)$ term")
left.loglog(flow.alpha[1:], flow.eps_g[1:], color="0.6", ls="--", label="ODE without them")
left.errorbar(alpha, mean, error, fmt="o", ms=4, color="C1", label="SGD, N = 4000, 5 runs")
left.set(xlabel=r"$\alpha$ = steps / N", ylabel=r"$\epsilon_g$", title="ReLU, K = M = 2, $\\eta$ = 0.3, both layers")
left.legend(frameon=False)
for (beta, (taken, eps_g, law)), color in zip(curves.items(), ("C0", "C3"), strict=True):
    right.loglog(taken, eps_g, color=color, label=rf"$\beta$ = {beta}")
    right.loglog(times, law, color=color, ls="--", lw=1)
right.set(xlabel=r"$\alpha$ = steps / N", ylabel=r"$\epsilon_g$", xlim=(1e-2, 1e9), ylim=(1e-12, 1))
right.set_title("Power-law inputs, L = 4096, $\\eta$ = 0.1")
right.legend(frameon=False)
fig.savefig("overview.png", dpi=150)

# %%
# The checks
# ----------
# SGD agrees with the full equations within five standard errors of the mean and the finite-size bias.
at = ov.solve(relu, start, runs.alpha).eps_g
assert np.all(np.abs(mean - at) < 5 * error + 10 * at / 4000), ((mean - at) / error).round(1)
