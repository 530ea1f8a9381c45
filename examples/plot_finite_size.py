r"""
Runs of SGD close in on the equations as 1/sqrt(N)
==================================================

Order parameters of SGD at input dimension N fluctuate around the equations like :math:`1/\sqrt N`. The reduced
simulator draws them from their exact law at a cost per step that does not depend on N, so that the law can be tested
over many decades: N from 100 to 30,000 by default, to 1,000,000 with ``--full``.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.results import plotting

# %%
# One model at many sizes
# -----------------------
# All sizes have the same start and 100 runs.
sizes = np.rint(10 ** np.arange(2, 6.1 if "--full" in sys.argv else 4.6, 0.5)).astype(int).tolist()
runs = 100
model = ov.committee_machine(2, 2, eta=1.0, noise=0.2)
start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3, 0], [0.1, 0.2]], T=np.eye(2))
alpha = np.array([0.0, 0.5, 1.0, 2.0])
theory = ov.solve(model, start, alpha)
ensembles = [ov.simulate(model, N=N, alpha=alpha, rng=N, start=start, runs=runs) for N in sizes]

# %%
# Distance falls, N times the variance stays
# ------------------------------------------
# Left: root-mean-square distance of single runs from the equations. Right: N times the variance over runs, which is
# flat.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plotting.approach(ensembles, theory, ax=left, color="C3")
plotting.fluctuations(ensembles, ax=right)
left.set_title(rf"erf, $K = M = 2$, $\eta = 1$, $\alpha \leq 2$, {runs} runs each", fontsize="medium")
fig.savefig("finite_size.png", dpi=150)

# %%
# The checks
# ----------
# Variances from 100 runs have an error of 14 %: a factor of two is more than four standard errors of their ratio.
distance = [plotting.distance(e, theory) for e in ensembles]
variance = [e.N * e.Q[:, -1].var(axis=0, ddof=1) for e in ensembles]

exponent = np.polyfit(np.log(sizes), np.log(distance), 1)[0]
print("distance from the ODE:", ", ".join(f"{d:.4g} (N = {N})" for d, N in zip(distance, sizes, strict=True)))
print(f"fitted exponent {exponent:.3f}, theory -0.5")
assert abs(exponent + 0.5) < 0.05
spread = np.max(variance, axis=0) / np.min(variance, axis=0)
print("N var(Q) changes over the sizes by at most a factor", spread.max().round(2))
assert spread.max() < 2
