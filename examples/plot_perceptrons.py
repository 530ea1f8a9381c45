r"""
Four ways to learn a perceptron
===============================

A perceptron teaches another one, with clean labels. Hebb's rule, Rosenblatt's rule, AdaTron and the optimal rule move
the weights along the same inputs; they differ in the force, and in the power law of the 0/1 error:
:math:`\alpha^{-1/2}`, :math:`\alpha^{-1/3}`, :math:`\alpha^{-1}` twice. Thick lines: the flow. Dashed: its closed
laws. Dots: SGD at N = 1000, means of six runs.

Biehl and Riegler (1994), Europhys. Lett. 28, 525; Kinouchi and Caticha (1992), J. Phys. A 25, 6243.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

END, SGD_END = 1e4, 100.0
RULES = {
    "Hebb": ov.rules.hebb(),
    "perceptron": ov.rules.perceptron(),
    "AdaTron": ov.rules.adatron(),
    "optimal": ov.rules.optimal(),
}


def main():
    fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
    times, late, ratios = np.geomspace(0.1, END, 60), np.geomspace(20, END, 20), {}
    for i, (name, rule) in enumerate(RULES.items()):
        model = ov.learner(rule, eta=1.0)
        start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
        traj = ov.solve(model, start, times, rtol=1e-12)
        law = ov.theory.rules.law(rule)
        ratios[name] = traj.eps_g[-1] / law(END)
        ax.loglog(times, traj.eps_g, color=f"C{i}", lw=2, label=name)
        ax.loglog(late, law(late), "--", color="0.3", lw=1)
        runs = ov.simulate(model, N=1000, alpha=np.r_[0, np.geomspace(1, SGD_END, 6)], rng=i, runs=6, start=start)
        ax.plot(runs.alpha[1:], runs.mean("eps_g")[1:], "o", color=f"C{i}", ms=4)
    ax.set(xlabel=r"learning time $\alpha$", ylabel="0/1 error", ylim=(5e-5, 0.6))
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
    fig.savefig("perceptrons.png", dpi=150)
    return ratios


if __name__ == "__main__":
    ratios = main()
    for name, ratio in ratios.items():
        print(f"{name}: error at alpha = {END:g} over its law: {ratio:.5f}")
        assert abs(ratio - 1) < 0.01
