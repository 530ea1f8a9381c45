r"""
AdaGrad finds its rate on a power-law spectrum
==============================================

Labels follow a logistic teacher, inputs have eigenvalues :math:`l^{-1-\beta}`, :math:`\beta = 1/2`. AdaGrad-Norm
divides the rate by the root of all squared gradients so far: it begins like runs with a large rate, and then falls as
the noise of the labels requires. Collins-Woodfin et al. (2024), arXiv:2405.19585.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Three constant rates and one that adapts
# ----------------------------------------
# The sum of squared gradients is a parameter :math:`\theta` of the rule, with its own equation.
SPECTRUM = ov.power_law(beta=0.5, L=40)
N, BETA, RATE = 2000, 3.0, 2.0
times = np.r_[0, np.geomspace(0.1, 300, 50)]
logistic = ov.rules.logistic(beta=BETA)
constant = {}
for eta in (0.1, 1.0, 10.0):
    model = ov.learner(logistic, eta=eta, spectrum=SPECTRUM)
    start = model.random_start(N=N, rng=3)
    constant[eta] = ov.solve(model, start, times)
rule = ov.rules.adagrad_norm(logistic, b0=0.5, mean_eigenvalue=SPECTRUM.mean)
model = ov.learner(rule, eta=RATE, eta_theta=1.0, spectrum=SPECTRUM)
start = ov.State(q=start.q, r=start.r, tau=start.tau, T=start.T, v=[0.25])
traj = ov.solve(model, start, times)
runs = ov.simulate(model, N=N, alpha=times[:41:5], rng=1, runs=6, start=start)

# %%
# Fast first, then ever slower
# ----------------------------
# Left: 0/1 error of three constant rates, and of AdaGrad-Norm. Right: its rate :math:`\eta/\sqrt\theta`. Dots are means
# of six runs of SGD at N = 2000.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for eta, curve in constant.items():
    left.loglog(times[1:], curve.eps_g[1:], label=rf"$\eta$ = {eta:g}")
left.loglog(times[1:], traj.eps_g[1:], color="k", lw=2, label="AdaGrad-Norm")
left.plot(runs.alpha[1:], runs.mean("eps_g")[1:], "o", color="k", ms=4)
right.semilogx(times[1:], RATE / np.sqrt(traj.v[1:, 0]), color="k", label="flow")
right.plot(runs.alpha[1:], np.mean(RATE / np.sqrt(runs.v[:, 1:, 0]), axis=0), "o", color="k", ms=4, label="SGD")
left.set(xlabel=r"learning time $\alpha$", ylabel="0/1 error")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"rate $\eta/\sqrt{\theta}$")
for ax in (left, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("logistic_power_law.png", dpi=150)

# %%
# The checks
# ----------
gap = abs(runs.mean("v")[-1, 0] - traj.v[len(times[:41]) - 1, 0]) / runs.standard_error("v")[-1, 0]
print(f"0/1 error {traj.eps_g[0]:.3f} -> {traj.eps_g[-1]:.3f}; theta of SGD within {gap:.1f} standard errors")
assert traj.eps_g[-1] < 0.5 * traj.eps_g[0] and np.all(np.diff(traj.v[:, 0]) > 0)
assert gap < 5
