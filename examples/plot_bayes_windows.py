r"""
Every transition has a window of several solutions
==================================================

Readouts :math:`v_i \sim i^{-0.1}`, k = 300, :math:`\sigma = He_3/\sqrt 6`, Delta = 0.1: features are so similar that
their transitions merge. The Bayes transition lies inside the window where solutions with and without a feature coexist.
These positions are information-theoretic; they do not predict the result of a particular algorithm.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The window, and the transition inside it
# ----------------------------------------
# The curve
#
# .. math:: \nu(s) = s\,(\Delta + \epsilon(s)), \qquad s = \nu/(\Delta + \epsilon),
#
# falls at every transition. At :math:`s_i = \lambda_\sigma/v_i^2` feature i becomes known. Solutions with this feature
# begin at the smallest nu beyond :math:`s_i`, and solutions without it end at the largest nu before :math:`s_i`.
# Bisection finds the transition of the last feature.
teacher = ov.static.HierarchicalTeacher(beta=0.1, k=300, noise=0.1**0.5, activation={3: 1.0})
window = teacher.window(299)
curve = teacher.curve((250, 700), points=400)
low, high = window  # bisection for the transition of the last feature
for _ in range(20):
    middle = 0.5 * (low + high)
    low, high = (low, middle) if teacher.solve(nu=middle).k_c == 300 else (middle, high)

# %%
# One window among three hundred
# ------------------------------
# Blue: the Bayes-optimal solution; grey: all others. The band is the window of the last feature, the line its
# transition, where potentials are equal.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for ax, x in ((left, curve.s), (right, curve.eps)):
    ax.plot(x, curve.nu, ".", color="0.75", markersize=3, label="other solutions")
    ax.plot(x[curve.optimal], curve.nu[curve.optimal], ".", color="C0", markersize=3, label="Bayes-optimal")
    ax.axhspan(*window, color="C1", alpha=0.2, label="window of the last feature")
    ax.axhline(high, color="k", linewidth=0.8, label=rf"Bayes transition, $\nu = {high:.1f}$")
left.set(xlabel=r"$s = \nu/(\Delta + \epsilon)$", ylabel=r"data $\nu = n/d$", xscale="log")
left.set_xticks([300, 1000, 3000], ["300", "1000", "3000"])
left.minorticks_off()
right.set(xlabel=r"error $\epsilon$")
left.legend(frameon=False, fontsize="small")
fig.savefig("bayes_windows.png", dpi=150)

# %%
# The checks
# ----------
transition = high
print(f"window {window[0]:.3f} to {window[1]:.3f}, Bayes transition at {transition:.3f}")
assert np.allclose(window, [364.848, 406.092], rtol=0, atol=1e-3) and window[0] < transition < window[1]
