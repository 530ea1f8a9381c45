r"""
A second step finds the direction that the first one missed
===========================================================

A target depends on two indices, and the second is hidden: its linear part is small, but it is large once the first
index is known,

.. math:: y = \sin(\theta_1 \cdot x) + \cos(2\,\theta_1 \cdot x)\, \sin(\theta_2 \cdot x).

All neurons make the first step along one direction, nearly :math:`\theta_1`. The second step uses the residual after
the first, and rotates the spikes towards :math:`\theta_2`. The mapping of steps to spikes is derived in the
documentation; its first step is that of Cui et al. (2024), arXiv:2402.04980. ``--full`` doubles d.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Errors after no, one and two steps
# ----------------------------------
# Each step uses alpha0 d samples. Neurons with different values t of the initial readout rotate by different angles, so
# that their spikes span a plane.
Subspace = ov.static.SpikedSubspace
STEP = {"indices": 2, "alpha0": 8.0, "beta": 1.0, "readout": (0.5, 1.5)}
POINTS, ALPHAS = np.array([0.5, 1.5, 4.5]), np.geomspace(0.3, 6, 10)


def target(x, y):
    return np.sin(x) + np.cos(2 * x) * np.sin(y)


def errors_panel(ax, d, draws):
    none = Subspace(np.tanh, target, r=[[0.0]], gamma=[[0.0], [0.0]], beta=1.0)
    cases = {"no step": none}
    for name, rates in (("one step", 2.0), ("two steps", (2.0, 2.0))):
        cases[name] = Subspace.after_steps(np.tanh, target, eta_tilde=rates, **STEP)
    found = {}
    for i, (name, model) in enumerate(cases.items()):
        runs = model.simulate(alpha=POINTS, lam=0.1, d=d, draws=draws, rng=1)
        ax.plot(ALPHAS, model.curve(ALPHAS, 0.1, d=d).mse, color=f"C{i}", label=name)
        ax.errorbar(POINTS, runs.mean(), runs.error(), fmt="o", mfc="none", ms=5, color=f"C{i}")
        found[name] = model, model.curve(POINTS, 0.1, d=d).mse, runs
    ax.axhline(none.bounds().linear, color="0.5", lw=1, ls="--", label="best linear predictor")
    ax.set(xscale="log", xlabel=r"data of the readout, $\alpha = n/d$", ylabel=r"test error $E(y - \hat y)^2$")
    ax.set_title(rf"$\tilde\eta = 2$, $\alpha_0 = 8$, $\beta = 1$, $\lambda = 0.1$, d = {d}", fontsize="medium")
    ax.set_xticks(ticks := [0.3, 0.5, 1, 2, 5], [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    return found


# %%
# Contents of the spikes
# ----------------------
# The fraction of each index in the span of the spikes' directions.
def overlaps_panel(ax):
    rates, shares = np.linspace(0.25, 3, 9), {}
    for steps, style in ((1, "--"), (2, "-")):
        models = [Subspace.after_steps(np.tanh, target, eta_tilde=[x] * steps, **STEP) for x in rates]
        shares[steps] = np.array(
            [np.sum(model.gamma**2, axis=1) for model in models]
        )  # fraction of theta_j in their span
        for j in (0, 1):
            label = rf"$\theta_{j + 1}$, {'one step' if steps == 1 else 'two steps'}"
            ax.plot(rates, shares[steps][:, j], style, color=f"C{3 + j}", label=label)
    ax.set(xlabel=r"rate of the steps $\tilde\eta$", ylabel="squared projection on the spikes' directions", ylim=(0, 1))
    ax.legend(frameon=False, fontsize="small", loc="center right")
    return rates, shares


# %%
# The second index is found by the second step
# --------------------------------------------
# Left: lines: theory at the d of the draws; circles: draws of the spiked features. Right: fractions of both indices
# against the rate of the steps.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
errors = errors_panel(left, 400 if "--full" in sys.argv else 200, 8)
rates, shares = overlaps_panel(right)
fig.savefig("spiked_directions.png", dpi=150)

# %%
# The checks
# ----------
for name, (model, theory, runs) in errors.items():
    print(f"{name}: {model}\n  theory {theory.round(4)}, draws {runs.mean().round(4)} +- {runs.error().round(4)}")
    assert np.all(np.abs(runs.mean() - theory) < 5 * runs.error() + 0.03 * theory)
no, one, two = (theory for _, theory, _ in errors.values())
assert np.all(one < no) and two[-1] < one[-1]
assert np.all(shares[1][:, 1] < 0.1) and shares[2][:, 1].max() > 0.3  # theta_2 is found by the second step
