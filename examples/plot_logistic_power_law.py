r"""
Logistic regression on a power-law spectrum
===========================================

Labels follow a logistic teacher, inputs have eigenvalues :math:`l^{-1-\beta}`, :math:`\beta = 1/2`. AdaGrad-Norm
divides the rate by the root of all squared gradients so far: it begins like the fast runs, and falls as the noise of
the labels asks. Left: 0/1 error at three constant rates, and of AdaGrad-Norm. Right: its rate
:math:`\eta/\sqrt\theta`. Dots: SGD at N = 2000, means of six runs.

Collins-Woodfin et al. (2024), arXiv:2405.19585.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

SPECTRUM = ov.power_law(beta=0.5, L=40)
N, BETA = 2000, 3.0
TIMES = np.r_[0, np.geomspace(0.1, 300, 50)]


def main():
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    logistic = ov.rules.logistic(beta=BETA)
    start = None
    for i, eta in enumerate((0.1, 1.0, 10.0)):
        model = ov.learner(logistic, eta=eta, spectrum=SPECTRUM)
        start = model.random_start(N=N, rng=3) if start is None else start
        traj = ov.solve(model, start, TIMES)
        left.loglog(TIMES[1:], traj.eps_g[1:], color=f"C{i}", label=rf"$\eta$ = {eta:g}")
    rule = ov.rules.adagrad_norm(logistic, b0=0.5, mean_eigenvalue=SPECTRUM.mean)
    model = ov.learner(rule, eta=2.0, eta_theta=1.0, spectrum=SPECTRUM)
    start = ov.State(q=start.q, r=start.r, tau=start.tau, T=start.T, v=[0.25])
    traj = ov.solve(model, start, TIMES)
    left.loglog(TIMES[1:], traj.eps_g[1:], color="k", lw=2, label="AdaGrad-Norm")
    rate = 2.0 / np.sqrt(traj.v[:, 0])
    runs = ov.simulate(model, N=N, alpha=TIMES[:41:5], rng=1, runs=6, start=start)
    left.plot(runs.alpha[1:], runs.mean("eps_g")[1:], "o", color="k", ms=4)
    right.semilogx(TIMES[1:], rate[1:], color="k", label="flow")
    right.plot(runs.alpha[1:], np.mean(2.0 / np.sqrt(runs.v[:, 1:, 0]), axis=0), "o", color="k", ms=4, label="SGD")
    left.set(xlabel=r"learning time $\alpha$", ylabel="0/1 error")
    right.set(xlabel=r"learning time $\alpha$", ylabel=r"rate $\eta/\sqrt{\theta}$")
    for ax in (left, right):
        ax.legend(frameon=False)
        ax.grid(alpha=0.25)
    fig.savefig("logistic_power_law.png", dpi=150)
    gap = abs(runs.mean("v")[-1, 0] - traj.v[len(TIMES[:41]) - 1, 0]) / runs.standard_error("v")[-1, 0]
    return traj, gap


if __name__ == "__main__":
    traj, gap = main()
    print(f"0/1 error {traj.eps_g[0]:.3f} -> {traj.eps_g[-1]:.3f}; theta of SGD within {gap:.1f} standard errors")
    assert traj.eps_g[-1] < 0.5 * traj.eps_g[0] and np.all(np.diff(traj.v[:, 0]) > 0)
    assert gap < 5
