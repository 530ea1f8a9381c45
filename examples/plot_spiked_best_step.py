r"""
The best step is large, and larger with more data
=================================================

A network takes one gradient step before its readout is fitted. The rate of the step determines the strength r of the
spike, and thus how nonlinear the learned function can be, and the noise c that a step on few samples leaves in the
rows,

.. math:: r = \tau h_1 A, \qquad c = 1 + \tau^2\, {\rm Var}[\sigma']\, h_2^* / \alpha_0, \qquad
          \tau = \tilde\eta / \beta.

The best rate is a compromise. Cui et al. (2024), arXiv:2402.04980, section 4.3.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Errors against the rate
# -----------------------
# Theory, spiked random features at finite d, and the network itself, which differs from them most for large steps on
# few samples.
FULL = "--full" in sys.argv
POINT = {"alpha": 2.0, "lam": 0.1}
BETA, RATES = 1.0, np.geomspace(0.05, 12, 13)


def errors_panel(ax, d, draws):
    points, results = np.array([0.2, 0.6, 1.8, 5.4]), {}
    for i, alpha0 in enumerate((0.5, 2.0, 8.0, np.inf)):
        step = {"student": np.tanh, "target": np.sin, "alpha0": alpha0, "beta": BETA}
        best = ov.static.best_step(**step, rates=RATES, d=d, **POINT)
        models = [ov.static.SpikedRandomFeatures.after_one_step(eta_tilde=rate, **step) for rate in RATES]
        label = rf"$\alpha_0 = {alpha0:g}$" if alpha0 < np.inf else r"$\alpha_0 = \infty$"
        ax.plot(best.rates, best.errors, color=f"C{i}", label=label)
        ax.plot(RATES, [model.solve(**POINT).mse for model in models], ":", color=f"C{i}", lw=1)
        ax.plot(best.eta_tilde, best.mse, "*", color=f"C{i}", ms=13, mec="w")
        sizes = {"d": d, "rng": 1, "draws": draws, **POINT}
        for rate in points:
            model = ov.static.SpikedRandomFeatures.after_one_step(eta_tilde=rate, **step)
            features, network = model.simulate(**sizes), ov.static.simulate_one_step(eta_tilde=rate, **step, **sizes)
            ax.errorbar(rate, features.mean(), features.error(), fmt="o", ms=5, mfc="none", color=f"C{i}")
            ax.errorbar(rate * 1.05, network.mean(), network.error(), fmt="x", ms=5, color=f"C{i}")
            results[alpha0, rate] = model.solve(d=d, **POINT).mse, features, network
    ax.plot([], [], "ko", mfc="none", label=f"spiked features, d = {d}")
    ax.plot([], [], "kx", label=f"network, d = {d}")
    ax.plot([], [], "k:", lw=1, label=r"$d \to \infty$")
    ax.set(xscale="log", yscale="log", xlim=(0.04, 12), ylim=(0.006, 0.5))
    ax.set(xlabel=r"learning rate $\tilde\eta$", ylabel=r"test error $E(y - \hat y)^2$")
    ax.set_title(r"tanh learns sin, $\beta = 1$, $\alpha = 2$, $\lambda = 0.1$", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    return results


# %%
# The best rate against the data of the step
# ------------------------------------------
# ``ov.static.best_step`` finds the minimum.
def rates_panel(ax, d):
    alpha0s = np.geomspace(0.3, 100, 6)
    found = [
        ov.static.best_step(np.tanh, np.sin, alpha0=x, beta=BETA, rates=RATES[2::2], d=d, **POINT) for x in alpha0s
    ]
    ax.plot(alpha0s, [x.eta_tilde for x in found], "C4", label=r"best rate $\tilde\eta$")
    ax.plot(alpha0s, [x.model.r for x in found], "C5--", label="its spike r")
    ax.set(xscale="log", yscale="log", xlabel=r"data of the step, $\alpha_0 = n_0/d$")
    other = ax.twinx()
    other.plot(alpha0s, [x.mse for x in found], "C7", label="its test error (right)")
    other.set(yscale="log", ylabel="test error")
    for axis, ticks in ((ax, (0.3, 0.5, 1, 2, 3, 5)), (other, (0.02, 0.03, 0.05, 0.1, 0.2))):
        axis.set_yticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
    ax.set_title(f"the best rate at d = {d}", fontsize="medium")
    lines = ax.get_lines() + other.get_lines()
    ax.legend(lines, [x.get_label() for x in lines], frameon=False, fontsize="small", loc="center right")
    return found


# %%
# A minimum for every amount of data
# ----------------------------------
# Left: lines: theory at this d; dotted: :math:`d \to \infty`; stars: the best rate; circles: spiked features; crosses:
# the network. As the rate vanishes, the error tends to that of random features only at finite d. Right: the best rate
# and its error.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
d, draws = (500, 12) if FULL else (150, 4)
results, best = errors_panel(left, d, draws), rates_panel(right, d)
fig.savefig("spiked_best_step.png", dpi=150)

# %%
# The checks
# ----------
for (alpha0, rate), (theory, features, network) in results.items():
    print(
        f"alpha0 = {alpha0:4g}, rate {rate:g}: theory {theory:.4f}, features {features.mean():.4f} "
        f"+- {features.error():.4f}, network {network.mean():.4f} +- {network.error():.4f}"
    )
    assert abs(features.mean() - theory) < 5 * features.error() + 0.03 * theory
assert all(x.message == "a minimum" for x in best)
assert np.all(np.diff([x.mse for x in best]) < 0) and np.all(np.diff([x.eta_tilde for x in best]) > 0)
