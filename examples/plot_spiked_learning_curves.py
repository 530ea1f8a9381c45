r"""
A giant step breaks the bound of linear predictors
==================================================

A two-layer network of width :math:`p = \beta d` takes one gradient step of rate :math:`\eta = \tilde\eta d` on
:math:`n_0 = \alpha_0 d` samples; its readout is then fitted by ridge regression on :math:`n = \alpha d` fresh samples.
With more data of the step its spike is better aligned with the target, and the error falls further below that of the
best linear predictor. Cui et al. (2024), arXiv:2402.04980, figures 2 and 5. ``--full`` draws more and larger networks.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Theory, features, and the network
# ---------------------------------
# .. math:: \hat y = \frac{1}{\sqrt p} \sum_i \hat a_i \tanh(w_i \cdot x), \qquad y = \sin(\theta \cdot x)
#
# Spiked random features in the limit and at finite d, and the network itself, which differs from them by a few per
# cent, most for small :math:`\alpha_0`.
LAM = 0.1


def left_panel(ax, d, draws):
    alphas, points = np.geomspace(0.15, 5, 40), np.array([0.2, 0.5, 1.0, 2.0, 4.0])
    rates = {"student": np.tanh, "target": np.sin, "eta_tilde": 3.0, "beta": 1.0}
    results = {}
    for i, alpha0 in enumerate((0.5, 2.0, 8.0, np.inf)):
        model = ov.static.SpikedRandomFeatures.after_one_step(**rates, alpha0=alpha0)
        label = rf"$\alpha_0 = {alpha0:g}$" if alpha0 < np.inf else r"$\alpha_0 = \infty$"
        ax.plot(alphas, model.curve(alphas, LAM).mse, color=f"C{i}", label=f"{label}, r = {model.r:.2f}")
        sizes = {"alpha": points, "lam": LAM, "d": d, "draws": draws, "rng": 1}
        features = model.simulate(**sizes)
        network = ov.static.simulate_one_step(**rates, alpha0=alpha0, **sizes)
        ax.errorbar(points, features.mean(), features.error(), fmt="o", ms=5, mfc="none", color=f"C{i}")
        ax.errorbar(points * 1.04, network.mean(), network.error(), fmt="x", ms=5, color=f"C{i}")
        results[alpha0] = model.curve(points, LAM).mse, features, network
    random = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=0.0, gamma=0.0, beta=1.0)
    ax.plot(alphas, random.curve(alphas, LAM).mse, "k:", lw=1.2, label="no step: random features")
    ax.axhline(random.bounds().linear, color="0.5", lw=1, ls="--")
    ax.text(
        4.8,
        random.bounds().linear * 1.05,
        "best linear predictor",
        ha="right",
        va="bottom",
        color="0.4",
        fontsize="small",
    )
    ax.plot([], [], "ko", mfc="none", label=f"spiked features, d = {d}")
    ax.plot([], [], "kx", label=f"network, d = {d}")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=r"data of the readout, $\alpha = n/d$",
        ylabel=r"test error $E(y - \hat y)^2$",
    )
    ax.set(xlim=(0.15, 5), ylim=(0.004, 0.6))
    ax.set_title(r"tanh learns sin, $\tilde\eta = 3$, $\beta = 1$, $\lambda = 0.1$", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left", ncols=2)
    ticks = [0.2, 0.5, 1, 2, 5]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    return results


# %%
# The width
# ---------
# At the same rate narrower networks have larger spikes (proportional to :math:`\tilde\eta/\beta`), and wider ones fit
# better.
def right_panel(ax):
    alphas, errors = np.geomspace(0.1, 20, 12), {}
    for i, beta in enumerate((0.25, 0.5, 1.0, 2.0, 4.0)):
        model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=2.0, alpha0=4.0, beta=beta)
        curve = [model.optimal_lam(alpha).mse for alpha in alphas]
        ax.plot(alphas, curve, color=plt.cm.viridis(i / 4.5), label=rf"$\beta = {beta:g}$, r = {model.r:.2f}")
        errors[beta] = model, np.array(curve)
    ax.set(
        xscale="log", yscale="log", xlabel=r"data of the readout, $\alpha = n/d$", ylabel="test error at the best ridge"
    )
    ax.set_title(r"width $\beta = p/d$, at $\tilde\eta = 2$, $\alpha_0 = 4$", fontsize="medium")
    ticks = [0.06, 0.08, 0.1, 0.12, 0.14]
    ax.set_yticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    return errors


# %%
# Error against data
# ------------------
# Left: lines: :math:`d \to \infty`; circles: features; crosses: the network. Right: widths.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
curves = left_panel(left, *(800, 8) if "--full" in sys.argv else (300, 4))
widths = right_panel(right)
fig.savefig("spiked_learning_curves.png", dpi=150)

# %%
# The checks
# ----------
# The program published with the paper stores errors of its network (tanh learns tanh, rate 1, :math:`\alpha_0 = 0.5`,
# :math:`\lambda = 0.01`, d = 2000, three draws), known to three digits.
notebook = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.tanh, eta_tilde=1.0, alpha0=0.5, beta=1.0)
for alpha, stored in ((1.6, 0.2057), (3.0, 0.1424)):
    mse = notebook.solve(alpha=alpha, lam=0.01).mse
    print(f"stored by the published program at alpha = {alpha}: {stored}, theory {mse:.4f}")
    assert abs(mse / stored - 1) < 0.015
for alpha0, (theory, features, network) in curves.items():
    gaps = features.mean() / theory - 1, network.mean() / theory - 1
    print(f"alpha0 = {alpha0:4g}: theory {np.round(theory, 4)}")
    print(f"               features off by {np.round(100 * gaps[0], 1)} %, network by {np.round(100 * gaps[1], 1)} %")
    assert np.all(np.abs(gaps[0]) * theory < np.maximum(5 * features.error(), 0.06 * theory))
    assert np.all(np.abs(gaps[1]) * theory < np.maximum(5 * network.error(), 0.15 * theory))
falling = [curves[a][0][-1] for a in curves]
assert np.all(np.diff(falling) < 0) and falling[-1] < 0.0645
for beta, (model, errors) in widths.items():
    bounds = model.bounds()
    print(f"beta = {beta:g}: error {errors[-1]:.4f} at alpha = 20, bounds {bounds.lower:.4f} to {bounds.upper:.4f}")
    assert np.all((bounds.lower < errors) & (errors <= bounds.upper * (1 + 1e-9)))
at_the_end = [errors[-1] for _, errors in widths.values()]
assert np.all(np.diff(at_the_end[:4]) < 0) and at_the_end[4] > at_the_end[3]  # at beta = 4 the spike is half as large
