r"""
Larger and better aligned spikes learn from less data
=====================================================

Test errors of tanh networks after a gradient step against the data :math:`n = \alpha d` of their readout. The error is
smaller for more data of the step, a larger spike and better alignment. Without a spike random features learn at best a
straight line. Cui et al. (2024), arXiv:2402.04980, figures 2, 4, 5 and 6; losses (118), (119), (120). ``--full``
doubles d and uses four times as many draws.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Theory and draws
# ----------------
# Lines are theory as :math:`d \to \infty`, dotted lines theory at the d of the draws, points draws with standard
# errors.
POINTS, ALPHAS = np.array([0.4, 1.2, 3.6]), np.geomspace(0.25, 5, 15)
Spiked = ov.static.SpikedRandomFeatures


def compare(ax, cases, sizes, lam, points=POINTS):
    """Theory and draws of the models in ``cases``: a list of name, theory at the points, runs."""
    found = []
    for i, (name, model, network) in enumerate(cases):
        ax.plot(ALPHAS, model.curve(ALPHAS, lam).mse, color=f"C{i}", label=name)
        ax.plot(ALPHAS, model.curve(ALPHAS, lam, d=sizes["d"]).mse, ":", lw=1, color=f"C{i}")
        runs = model.simulate(alpha=points, lam=lam, **sizes) if network is None else network(points)
        form = {"fmt": "o", "mfc": "none"} if network is None else {"fmt": "x"}
        ax.errorbar(points, runs.mean(), runs.error(), ms=5, color=f"C{i}", **form)
        found.append((name, model.curve(points, lam, d=sizes["d"]).mse, runs.mean(), runs.error(), network is None))
    ax.set_ylabel(r"$E(y - \hat y)^2$")
    return found


def decorate(ax):
    """Logarithmic axes with plain numbers."""
    low, high = ax.get_ylim()
    ax.set(xscale="log", yscale="log", ylim=(max(low, ax.dataLim.y0 * 0.9), high))
    for axis, ends in ((ax.xaxis, (0.2, 6)), (ax.yaxis, ax.get_ylim())):
        ticks = [
            x for e in (-2, -1, 0) for m in (1, 1.5, 2, 3, 5, 7) if ends[0] < (x := round(m * 10.0**e, 3)) < ends[1]
        ]
        axis.set_ticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")


# %%
# Steps, spikes, alignments, widths, rows
# ---------------------------------------
# Crosses are the network itself, which differs more from the spiked features for few samples of the step. The two
# groups of neurons have two values of the initial readout, on orthonormal and on independent rows.
def panels(axes, sizes):
    step = {"student": np.tanh, "beta": 1.0}
    cases = []
    for alpha0 in (0.5, 2.0, 8.0):
        rate = {**step, "target": np.tanh, "eta_tilde": 3.0, "alpha0": alpha0}

        def network(points, rate=rate):
            return ov.static.simulate_one_step(**rate, alpha=points, lam=0.1, **sizes)

        cases.append((rf"$\alpha_0 = {alpha0:g}$", Spiked.after_one_step(**rate), network))
    found = [compare(axes[0], cases, sizes, 0.1)]
    axes[0].axhline(cases[0][1].bounds().linear, color="0.5", lw=1, ls="--")
    axes[0].set_title("after a step; target tanh", fontsize="medium")
    cases = [(f"r = {r:g}", Spiked(np.tanh, np.sin, r=r, gamma=0.9, beta=1.0), None) for r in (0.0, 0.3, 1.0, 2.0)]
    found.append(compare(axes[1], cases, sizes, 0.1))
    axes[1].axhline(cases[0][1].bounds().linear, color="0.5", lw=1, ls="--")
    axes[1].set_title(r"spikes; target sin, $\gamma = 0.9$", fontsize="medium")
    cases = [
        (rf"$\gamma = {g:g}$", Spiked(np.tanh, np.sin, r=1.2, gamma=g, beta=1.0), None) for g in (0.3, 0.7, 0.9, 1.0)
    ]
    found.append(compare(axes[2], cases, sizes, 0.1))
    axes[2].set_title("alignments; target sin, r = 1.2", fontsize="medium")
    rate = {"eta_tilde": 2.0, "alpha0": 4.0}
    cases = [
        (rf"$\beta = {b:g}$", Spiked.after_one_step(np.tanh, np.sin, beta=b, **rate), None) for b in (0.5, 1.0, 2.0)
    ]
    found.append(compare(axes[3], cases, sizes, 0.1))
    axes[3].set_title("widths after a step", fontsize="medium")
    blocks = {"r": (0.7, 2.5), "c": (1.0, 1.6), "gamma": 0.9, "beta": 0.8}
    cases = [(rows, Spiked(np.tanh, np.sin, rows=rows, **blocks), None) for rows in ("iid", "orthonormal")]
    found.append(compare(axes[4], cases, sizes, 0.02))
    axes[4].set_title("two blocks; rows of the bulk", fontsize="medium")
    return found


# %%
# Losses
# ------
# The fraction of wrong signs of classifiers trained with three losses.
def losses_panel(ax, sizes):
    model, found = Spiked(np.tanh, np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8), []
    for i, loss in enumerate(("square", "logistic", "hinge")):
        options = {"lam": 0.1, "loss": loss}
        ax.plot(ALPHAS[::2], [model.solve(alpha=a, **options).wrong for a in ALPHAS[::2]], color=f"C{i}", label=loss)
        runs = model.simulate(alpha=POINTS, **options, **sizes)
        ax.errorbar(POINTS, runs.mean("wrong"), runs.error("wrong"), fmt="o", mfc="none", ms=5, color=f"C{i}")
        theory = np.array([model.solve(alpha=a, d=sizes["d"], **options).wrong for a in POINTS])
        found.append((loss, theory, runs.mean("wrong"), runs.error("wrong"), True))
    ax.set(ylabel="wrong signs", ylim=(0.08, 0.24))
    ax.set_title(r"labels sign(sin); $\lambda = 0.1$", fontsize="medium")
    return found


# %%
# Six ways to change the error
# ----------------------------
# Top: data of the step, spike, alignment. Bottom: networks of width :math:`\beta d` after the same step, rows, losses.
fig, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
sizes = {"d": 240, "draws": 20, "rng": 2} if "--full" in sys.argv else {"d": 120, "draws": 5, "rng": 2}
found = [*panels(axes.ravel(), sizes), losses_panel(axes[1, 2], sizes)]
for ax in axes.ravel():
    decorate(ax)
for ax in axes[1]:
    ax.set(xlabel=r"data of the readout, $\alpha = n/d$")
fig.savefig("spiked_errors.png", dpi=150)

# %%
# The checks
# ----------
for panel in found:
    for name, theory, mean, error, model in panel:
        print(f"{name:>16}: theory {theory.round(4)}, draws {mean.round(4)} +- {error.round(4)}")
        allowed = 5 * error + (0.06 if model else 0.3) * theory
        assert np.all(np.abs(mean - theory) < allowed)
falling = [np.all(np.diff([x[1] for x in panel], axis=0) < 0) for panel in found[:3]]
assert all(falling)  # more data of the step, larger spikes, better alignment
