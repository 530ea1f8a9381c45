r"""
Finite size: how SGD approaches the ODE
=======================================

Order parameters of SGD at input dimension N fluctuate around the ODE like 1/sqrt(N). The reduced simulator draws them
from their exact law at a cost per step that does not depend on N, so the law can be watched over many decades.
Left: root-mean-square distance of single runs from the ODE. Right: N times the variance over runs, which is flat.

N from 100 to 30,000 by default, to 1,000,000 with ``--full``.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.results import plotting


def main(sizes, runs):
    model = ov.committee_machine(2, 2, eta=1.0, noise=0.2)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3, 0], [0.1, 0.2]], T=np.eye(2))
    alpha = np.array([0.0, 0.5, 1.0, 2.0])
    theory = ov.solve(model, start, alpha)
    ensembles = [ov.simulate(model, N=N, alpha=alpha, rng=N, start=start, runs=runs) for N in sizes]
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plotting.approach(ensembles, theory, ax=left, color="C3")
    plotting.fluctuations(ensembles, ax=right)
    left.set_title(rf"erf, $K = M = 2$, $\eta = 1$, $\alpha \leq 2$, {runs} runs each", fontsize="medium")
    fig.savefig("finite_size.png", dpi=150)
    distance = [plotting.distance(e, theory) for e in ensembles]
    variance = [e.N * e.Q[:, -1].var(axis=0, ddof=1) for e in ensembles]
    return distance, variance


if __name__ == "__main__":
    sizes = np.rint(10 ** np.arange(2, 6.1 if "--full" in sys.argv else 4.6, 0.5)).astype(int)
    runs = 100
    distance, variance = main(sizes.tolist(), runs)
    exponent = np.polyfit(np.log(sizes), np.log(distance), 1)[0]
    print("distance from the ODE:", ", ".join(f"{d:.4g} (N = {N})" for d, N in zip(distance, sizes, strict=True)))
    print(f"fitted exponent {exponent:.3f}, theory -0.5")
    assert abs(exponent + 0.5) < 0.05
    # variances from 100 runs are known to 14 %: a factor 2 is more than four standard errors of their ratio
    spread = np.max(variance, axis=0) / np.min(variance, axis=0)
    print("N var(Q) changes over the sizes by at most a factor", spread.max().round(2))
    assert spread.max() < 2
