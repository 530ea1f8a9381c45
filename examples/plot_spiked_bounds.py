r"""
A spike bounds what its features can learn
==========================================

The features of a spike r express two functions, and two bounds follow: the upper one is the error of an infinitely
strong ridge, which fits the mean activation :math:`\mu_0(k)` alone; the lower one is the error of the best combination
of :math:`\mu_0(k)` and :math:`k\,\mu_1(k)`. Neurons that start with different readouts receive different spikes, and
two spikes span more functions than one. Cui et al. (2024), arXiv:2402.04980, figures 6 and 7.
"""

import dataclasses
import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov


# %%
# Bounds of one spike
# -------------------
# Perfect alignment, c = 1. When student and target are both error functions, both bounds vanish at :math:`r = \sqrt 2`.
def bounds_panel(ax):
    rs = np.sqrt(2) * np.geomspace(0.07, 3.6, 49)
    cases = {"tanh learns sin": (np.tanh, np.sin), "erf learns erf": (ov.erf, ov.erf)}
    best = {}
    for i, (name, (student, target)) in enumerate(cases.items()):
        models = [ov.static.SpikedRandomFeatures(student, target, r=r, gamma=1.0, beta=1.0) for r in rs]
        upper, lower = np.transpose([model.bounds()[:2] for model in models])
        ax.plot(rs, np.maximum(upper, 1e-16), color=f"C{i}", label=f"{name}: upper and lower bound")
        ax.plot(rs, np.maximum(lower, 1e-16), color=f"C{i}", ls="--")
        best[name] = ov.static.bounds_over_rate(student, target)
        if i == 0:
            for j, (alpha, beta) in enumerate(((1.0, 1.0), (30.0, 10.0), (1e4, 100.0))):
                wide = [dataclasses.replace(model, beta=beta) for model in models[2::5]]
                errors = [model.optimal_lam(alpha).mse for model in wide]
                label = rf"best ridge, $\alpha = {alpha:g}$, $\beta = {beta:g}$"
                ax.plot(rs[2::5], errors, "vo^"[j], color=plt.cm.Greys(0.9 - 0.25 * j), ms=5, label=label)
            ax.axhline(models[0].bounds().linear, color="0.6", lw=1)
            ax.text(1.0, models[0].bounds().linear * 1.3, "best linear predictor of sin", color="0.4", fontsize="small")
    ax.axvline(np.sqrt(2), color="C1", lw=0.8, ls=":")
    ax.text(np.sqrt(2) * 1.35, 3e-7, r"$r = \sqrt{2}$", color="C1")
    ax.set(xscale="log", yscale="log", ylim=(1e-7, 1), xlabel="spike r", ylabel=r"test error $E(y - \hat y)^2$")
    ax.set_title(r"$\gamma = c = 1$", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 0))
    return best


# %%
# Readouts that are not uniform
# -----------------------------
# A uniform readout and two letters t, with the same mean square. Blocks of neurons are solved without matrices of size
# p.
def letters_panel(ax, d, draws):
    alphas, points = np.geomspace(0.2, 50, 10), np.array([0.5, 2.0, 5.0])
    rate = {"eta_tilde": 3.0, "alpha0": 8.0, "beta": 1.0}
    letters = {"uniform, t = 1": (1.0,), "t = 0.5 and 1.32": (0.5, 1.75**0.5), "t = 0.2 and 1.4": (0.2, 1.96**0.5)}
    results = {}
    for i, (name, t) in enumerate(letters.items()):
        model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, readout=t, **rate)
        curve = np.array([model.optimal_lam(alpha).mse for alpha in alphas])
        ax.plot(alphas, curve, color=f"C{i}", label=name)
        lams = [min(model.optimal_lam(alpha).lam, 1e3) for alpha in points]
        runs = model.simulate(alpha=points, lam=lams, d=d, rng=1, draws=draws)
        ax.errorbar(points, runs.mean(), runs.error(), fmt="o", ms=5, mfc="none", color=f"C{i}")
        ax.axhline(model.bounds().lower, color=f"C{i}", ls="--", lw=0.8)
        results[name] = (
            model,
            np.array([model.solve(alpha=a, lam=x).mse for a, x in zip(points, lams, strict=True)]),
            runs,
        )
    ax.plot([], [], "ko", mfc="none", label=f"model at d = {d}")
    ax.plot([], [], "k--", lw=0.8, label="lower bounds")
    ax.set(
        xscale="log", yscale="log", xlabel=r"data of the readout, $\alpha = n/d$", ylabel="test error at the best ridge"
    )
    ax.set_title(
        r"initial readout $a_i = t_i/\sqrt{p}$; $\tilde\eta = 3$, $\alpha_0 = 8$, $\beta = 1$", fontsize="medium"
    )
    ticks = [0.005, 0.01, 0.02, 0.03, 0.05, 0.08]
    ax.set_yticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 0.3))
    return results


# %%
# Two functions, and more
# -----------------------
# Left: upper (full) and lower bound (dashed); the lower one is reached with unlimited data and width, slowly, as the
# points show. Right: lines: theory; circles: the model at finite d; dashed: lower bounds.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
best = bounds_panel(left)
letters = letters_panel(right, *(1000, 8) if "--full" in sys.argv else (300, 4))
fig.savefig("spiked_bounds.png", dpi=150)

# %%
# The checks
# ----------
for name, found in best.items():
    print(f"{name}: upper bound {found.upper:.3g} at r = {found.r_upper:.3f}, lower {found.lower:.3g}")
perfect = best["erf learns erf"]
assert perfect.upper < 1e-12 and abs(perfect.r_upper - np.sqrt(2)) < 1e-3
for name, (_, theory, runs) in letters.items():
    print(f"{name}: theory {theory.round(5)}, d = {runs.d}: {runs.mean().round(5)} +- {runs.error().round(5)}")
    assert np.all(np.abs(runs.mean() - theory) < np.maximum(5 * runs.error(), 0.1 * theory))
lower = [model.bounds().lower for model, _, _ in letters.values()]
print("lower bounds:", np.round(lower, 5))
assert lower[1] < lower[0] and lower[2] < lower[0]  # two spikes span more
