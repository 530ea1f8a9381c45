r"""
The loss sets the exponent of a perceptron
==========================================

A perceptron teaches another one, with clean labels. Hebb's rule, Rosenblatt's rule, AdaTron and the optimal rule change
the weights along the same inputs and differ in the force. The 0/1 error falls as :math:`\alpha^{-1/2}`,
:math:`\alpha^{-1/3}`, :math:`\alpha^{-1}` and :math:`\alpha^{-1}`. Biehl and Riegler (1994), Europhys. Lett. 28, 525;
Kinouchi and Caticha (1992), J. Phys. A 25, 6243.
"""

# %%
# One call for every rule
# -----------------------
# ``ov.learner`` makes a model from a rule; ``solve`` and ``simulate`` accept it like any other model.
import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

RULES = {
    "Hebb": ov.rules.hebb(),
    "perceptron": ov.rules.perceptron(),
    "AdaTron": ov.rules.adatron(),
    "optimal": ov.rules.optimal(),
}
END, SGD_END = 1e4, 100.0
times = np.geomspace(0.1, END, 60)
curves, runs = {}, {}
for i, (name, rule) in enumerate(RULES.items()):
    model = ov.learner(rule, eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    curves[name] = ov.solve(model, start, times, rtol=1e-12)
    runs[name] = ov.simulate(model, N=1000, alpha=np.r_[0, np.geomspace(1, SGD_END, 6)], rng=i, runs=6, start=start)

# %%
# A custom rule
# -------------
# A force is a function of the fields that numba compiles; ``breaks`` are the planes on which it jumps. This force is
# Rosenblatt's rule again: a step towards the teacher's answer when the student is wrong. The averages are integrated
# between the planes without a closed form, and the curve is the same.


def force(lam, nu, xi, theta, S, F, G):  # at unit rate; F and G come as zeros
    if lam[0] * nu[0] < 0:
        F[0] = np.sign(nu[0])


def error(lam, nu, theta):  # its mean is recorded as eps_g
    return 1.0 if lam[0] * nu[0] < 0 else 0.0


own = ov.learner(ov.Rule(force, K=1, M=1, error=error, breaks=[[1, 0, 0], [0, 1, 0]]), eta=1.0)
start = ov.State.from_overlaps(own, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
mine = ov.solve(own, start, times[times < SGD_END])

# %%
# Four power laws
# ---------------
# Lines are the flow, dashed lines its closed laws at late times, dots are means of six runs of SGD at N = 1000,
# and crosses are the rule written above.
fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
late = np.geomspace(20, END, 20)
for i, (name, rule) in enumerate(RULES.items()):
    ax.loglog(times, curves[name].eps_g, color=f"C{i}", lw=2, label=name)
    ax.loglog(late, ov.theory.rules.law(rule)(late), "--", color="0.3", lw=1)
    ax.plot(runs[name].alpha[1:], runs[name].mean("eps_g")[1:], "o", color=f"C{i}", ms=4)
ax.plot(mine.alpha[::4], mine.eps_g[::4], "kx", label="your own")
ax.set(xlabel=r"learning time $\alpha$", ylabel="0/1 error", ylim=(5e-5, 0.6))
ax.legend(frameon=False)
ax.grid(alpha=0.25)
fig.savefig("perceptrons.png", dpi=150)

# %%
# The checks
# ----------
# At the end each curve lies on its law, and the rule written above is Rosenblatt's.
for name, rule in RULES.items():
    ratio = curves[name].eps_g[-1] / ov.theory.rules.law(rule)(END)
    print(f"{name}: error at alpha = {END:g} over its law: {ratio:.5f}")
    assert abs(ratio - 1) < 0.01
assert np.allclose(mine.eps_g, curves["perceptron"].eps_g[: len(mine)], rtol=1e-6)
