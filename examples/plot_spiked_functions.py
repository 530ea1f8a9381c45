r"""
A spike adds a curve to the straight line
=========================================

Given the projection k of the input on the spike, the readout can combine two functions, at every width,

.. math:: \mu_0(k) = E_z\,\sigma(rk + \sqrt c z), \qquad k\,\mu_1(k) = k\,E_z\,\sigma'(rk + \sqrt c z).

With growing spikes the first changes from a straight line to a step, the second to a function that vanishes at large k.
Cui et al. (2024), arXiv:2402.04980, figures 3 and 7; bounds (26), (27).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Both functions for a tanh
# -------------------------
# Spikes r from 0.1 to 5, c = 1. The part of :math:`\mu_0` that is linear in k falls to that of a jump.
K = np.linspace(-4, 4, 201)


def basis_panels(axes):
    rs = np.array([0.1, 0.5, 1.0, 2.0, 5.0])
    mu0s = []
    for i, r in enumerate(rs):
        table = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=r, gamma=1.0, beta=1.0).coefficients
        there, color = table.at(K), plt.cm.plasma(i / 5)
        axes[0].plot(K, there.mu0, color=color, label=f"r = {r:g}")
        axes[1].plot(K, K * there.mu1, color=color)
        mu0s.append(table.weight @ (table.mu0 * table.k) / np.sqrt(table.weight @ table.mu0**2))
    axes[0].set(xlabel="k", title=r"$\mu_0(k)$")
    axes[1].set(xlabel="k", title=r"$k\,\mu_1(k)$")
    axes[0].legend(frameon=False)
    return np.array(mu0s)


# %%
# Networks that reach the bounds
# ------------------------------
# A tanh learns sin at r = 1.2, perfectly aligned. The upper bound is the best multiple of :math:`\mu_0`, fitted by an
# infinitely strong ridge; the lower one the best combination of both. A readout is trained on n = 3d samples at width p
# = 2d.
def bounds_panel(ax):
    model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=1.0, beta=2.0)
    table, there = model.coefficients, model.coefficients.at(K)
    root = np.sqrt(table.weight)
    errors = []
    for names, style in ((("mu0",), "C0"), (("mu0", "u"), "C1")):
        basis = np.array([getattr(table, x) for x in names])
        x = np.linalg.lstsq((basis * root).T, table.h * root, rcond=None)[0]
        errors.append(float(table.weight @ (table.h - x @ basis) ** 2))
        kind = "upper" if len(names) == 1 else "lower"
        label = f"{kind} bound, error {errors[-1]:.4f}"
        ax.plot(K, x @ np.array([getattr(there, x) for x in names]), style, label=label)
    ax.plot(K, np.sin(K), "k", lw=1, label="target")
    solution = model.solve(alpha=3.0, lam=0.1)
    ax.plot(K[::10], solution.C(K[::10]), "o", mfc="none", color="C2", ms=4, label="learned, C(k)")
    ax.fill_between(K, -1.8, -1.8 + 0.6 * np.exp(-K * K / 2), color="0.9")
    ax.set(xlabel="k", ylim=(-1.8, 2.4), title="what realises the bounds")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    gap = float(table.weight @ (table.h - solution.C(table.k)) ** 2)
    return model.bounds(), errors, gap


# %%
# Lines, steps, and learned functions
# -----------------------------------
# Left and middle: both functions. Right: functions of the bounds, the target, and the learned function (circles).
fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
linear = basis_panels(axes)
bounds, errors, gap = bounds_panel(axes[2])
fig.savefig("spiked_functions.png", dpi=150)

# %%
# The checks
# ----------
print("part of mu0 that is linear in k:", linear.round(4))
assert (
    np.all(np.diff(linear) < 0) and linear[0] > 0.999 and np.sqrt(2 / np.pi) < linear[-1] < 0.9
)  # the linear part of a jump
print(f"bounds {bounds.upper:.6f}, {bounds.lower:.6f}; errors of the two functions {errors[0]:.6f}, {errors[1]:.6f}")
assert np.allclose(errors, bounds[:2], rtol=1e-8)
print(f"E(h - C)^2 of the trained readout: {gap:.5f}")
assert errors[1] < gap < errors[0]
