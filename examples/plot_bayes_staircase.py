r"""
Features are learned one by one
===============================

A wide teacher :math:`y = \sum_i v_i \sigma(w_i \cdot x/\sqrt d)` + noise with readouts :math:`v_i \sim 1/i` is
learned Bayes-optimally from n = nu d samples. Feature i stays unknown until its signal-to-noise ratio passes a
threshold, and then its overlap jumps.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Twenty features at 500 amounts of data
# --------------------------------------
# The overlaps solve
#
# .. math:: q_i = m\left(\frac{\nu v_i^2}{\Delta + \epsilon}\right), \qquad \epsilon = \sum_i v_i^2\,(g(1) - g(q_i)),
#
# for :math:`\sigma = He_3/\sqrt 6`; the effective width :math:`k_c` counts the learned features.
K = 20

teacher = ov.static.HierarchicalTeacher(beta=1.0, k=K, noise=0.3**0.5, activation={3: 1.0})  # sigma = He_3 / sqrt(6)
nu = np.geomspace(1.5, 1500, 500)
results = [teacher.solve(nu=x) for x in nu]
q, k_c = np.array([x.q for x in results]), np.array([x.k_c for x in results])

# %%
# A staircase of overlaps
# -----------------------
# Left: overlaps, and the effective width (dashed). Right: the error of a student that keeps only the :math:`k_s`
# strongest features; the error does not decrease beyond :math:`k_c` (dots).
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
tones = plt.colormaps["viridis"](np.linspace(0, 0.92, K))
for i in range(K):
    known = q[:, i] > 0
    left.plot(nu[known], q[known, i], color=tones[i])
    left.plot([nu[known][0]] * 2, [0, q[known, i][0]], color=tones[i], linewidth=0.8)
left.axhline(teacher.thresholds[0].above, color="0.7", linewidth=0.8, zorder=0)
left.text(1.5, teacher.thresholds[0].above + 0.01, r"$q_\sigma$", color="0.4")
left.set(xscale="log", ylim=(0, 1), xlabel=r"data $\nu = n/d$", ylabel="overlap $q_i$ with feature $i$")
scale = plt.cm.ScalarMappable(plt.Normalize(1, K), plt.matplotlib.colors.ListedColormap(tones))
fig.colorbar(scale, ax=left, label="feature $i$", ticks=[1, 5, 10, 15, 20])
width = left.twinx()
width.plot(nu, k_c, "k--", linewidth=1)
width.set(ylim=(0, K), yticks=range(0, K + 1, 5), ylabel="effective width $k_c$, dashed")

k_s = np.arange(K + 1)
for i, x in enumerate((5, 20, 80, 320, 1280)):
    result = teacher.solve(nu=x)
    right.plot(k_s, result.cut(k_s), color=f"C{i}", label=rf"$\nu = {x}$")
    right.plot(result.k_c, result.eps, "o", color=f"C{i}")
right.set(yscale="log", xticks=range(0, K + 1, 5), xlabel="width of the student $k_s$", ylabel=r"error $\epsilon(k_s)$")
right.set_title("dots: effective width $k_c$", fontsize="medium")
right.legend(frameon=False)
fig.savefig("bayes_staircase.png", dpi=150)

# %%
# The checks
# ----------
# The strongest feature comes first, no overlap lies between zero and :math:`q_\sigma`, and each transition lies in the
# window where the equations have two solutions.
first = [nu[np.argmax(q[:, i] > 0)] for i in range(K)]
print("feature is learned at nu =", ", ".join(f"{x:.3g}" for x in first))
assert np.all(np.diff(first) >= 0) and np.all(np.diff(k_c) >= 0)
assert q[q > 0].min() >= teacher.thresholds[0].above
for i, x in enumerate(first):
    low, high = teacher.window(i)
    assert low * 0.985 < x < high * 1.015, "one step of nu is 1.4 %"
