r"""
A spike creates one eigenvalue far outside the bulk
===================================================

Eigenvalues of :math:`X^T X / p`, X the n x p features of :math:`n = \alpha d` inputs after a giant step: a bulk, an
atom at zero where n < p, and one eigenvalue far outside, which grows like n. It is the mean activation
:math:`\mu_0(k)`, the function that the spike lets the network learn. Cui et al. (2024), arXiv:2402.04980, figure 8.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov


# %%
# One matrix, and the limit
# -------------------------
# .. math:: \rho(x) = \frac1\pi\,{\rm Im}\,V_2(-x - i0), \qquad
#           \lambda_{\rm out} = n E[\mu_0^2] + O(1)
#
# The density is solved at real x without a smoothing parameter, and its edges as double roots.
def eigenvalues(model, alpha, d, rng):
    """One matrix of the model: unit rows, the spike along the first axis."""
    p, n = round(model.beta * d), round(alpha * d)
    rows = rng.standard_normal((p, d))
    rows *= np.sqrt(model.c) / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:, 0] += model.r
    X = model.student(rng.standard_normal((n, d)) @ rows.T)
    return np.linalg.eigvalsh(X.T @ X) / p


def panel(ax, model, alpha, d, rng):
    spectrum = model.spectrum(alpha=alpha)
    values = eigenvalues(model, alpha, d, rng)
    n = round(alpha * d)
    bulk = values[max(values.size - n, 0) : -1]  # zero eigenvalues where n < p, the outlier last
    top = 1.08 * spectrum.edges[-1, 1]
    counts, ends = np.histogram(bulk, bins=60, range=(0, top))
    ax.stairs(counts / values.size / np.diff(ends), ends, fill=True, color="C0", alpha=0.35, label=f"d = {d}")
    ax.plot(spectrum.x, spectrum.density, "k", lw=1.4, label=r"$d \to \infty$")
    for edge in spectrum.edges.ravel():
        ax.axvline(edge, color="C3", ls=":", lw=1)
    visible = spectrum.density[spectrum.x > 0.03 * top].max()
    ax.set(xlim=(0, top), ylim=(0, 1.6 * visible), xlabel="eigenvalue x of $X^T X/p$")
    outlier = spectrum.outlier(d)
    text = f"atom at 0: {spectrum.atom:.2g}\n" if spectrum.atom else ""
    text += rf"outlier: {values[-1]:.0f} (theory {outlier.mean:.0f} $\pm$ {outlier.sd:.0f})"
    ax.text(0.9, 0.72, text, transform=ax.transAxes, ha="right", va="top", fontsize="small")
    ax.set_title(
        rf"$\alpha = {alpha:g}$, $\beta = {model.beta:g}$, r = {model.r:.2f}, c = {model.c:.2f}", fontsize="medium"
    )
    return spectrum, values, outlier


# %%
# Bulk, atom, outlier
# -------------------
# Histograms at d = 800, densities in the limit (lines), and edges (dotted), for three widths.
d = 2000 if "--full" in sys.argv else 800
rng = np.random.default_rng(3)
fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
results = []
for ax, (alpha, alpha0, beta) in zip(axes, [(3.0, 4.0, 0.5), (1.0, 4.0, 1.0), (1.0, 4.0, 2.0)], strict=True):
    model = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=2.0, alpha0=alpha0, beta=beta)
    results.append(panel(ax, model, alpha, d, rng))
axes[0].set_ylabel(r"density $\rho(x)$")
axes[0].legend(frameon=False, loc="upper right", bbox_to_anchor=(0.93, 1))
fig.savefig("spiked_spectrum.png", dpi=150)

# %%
# The checks
# ----------
for spectrum, values, outlier in results:
    middle = np.median(values)
    at = spectrum.cdf_at(middle)
    print(
        f"{spectrum}: cdf at the sampled median {at:.4f}, "
        f"largest {values[-1]:.1f}, theory {outlier.mean:.1f} +- {outlier.sd:.1f}"
    )
    assert spectrum.converged and abs(values[-1] - outlier.mean) < 4 * outlier.sd
    assert abs(at - 0.5) < 0.03 or at == spectrum.atom
    assert abs(values[-2] / spectrum.edges[-1, 1] - 1) < 0.08
