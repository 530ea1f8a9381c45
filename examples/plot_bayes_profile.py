r"""
The front of learned features keeps its shape
=============================================

With readouts :math:`v_i \sim i^{-\beta}`, :math:`\beta > 1/2`, the overlaps of the first :math:`k_c` features follow
one curve for every amount of data. Below :math:`\beta = 1/2` the number of learned features is a fraction of k, and for
little noise it jumps.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Three amounts of data
# ---------------------
# In units of :math:`k_c` the profile does not change,
#
# .. math:: q_{x k_c} \to \phi(x) = m(\lambda_\sigma x^{-2\beta}),
#
# and ends in a step of height :math:`q_\sigma`: even the feature learned last has a large overlap.
HE3 = {3: 1.0}
NUS = (1e2, 1e3, 1e5)
law = ov.static.PowerLawLimit(beta=0.75, noise=0.5**0.5, activation=HE3)
teacher = ov.static.HierarchicalTeacher(beta=0.75, k=100_000, noise=0.5**0.5, activation=HE3)
fronts = [law.refined(nu, k=teacher.k).k_c for nu in NUS]
overlaps = [teacher.solve(nu=nu).q for nu in NUS]
ranks = [np.arange(1, teacher.k + 1) / k_c for k_c in fronts]

# %%
# A fraction of the features, at once
# -----------------------------------
# For :math:`\beta < 1/2` the amount of data is a function of :math:`\lambda`, the signal-to-noise ratio of the weakest
# feature. Where this function is not monotonic, the Bayes-optimal transition is the Maxwell point.
sub = ov.static.SubcriticalPowerLaw(beta=0.1, gamma=1.0, noise=0.1**0.5, activation=HE3)
lam = np.geomspace(0.6, 4, 400)
alpha = np.array([sub.phase(x).alpha for x in lam])
few, many = sub.maxwell

# %%
# One profile, and two equal areas
# --------------------------------
# Left: overlaps of 100,000 features at three amounts of data, on one curve. Right: the curve :math:`\alpha(\lambda)`;
# at the Maxwell point the shaded areas are equal.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for i, (nu, k_c, rank, q) in enumerate(zip(NUS, fronts, ranks, overlaps, strict=True)):
    shown = np.unique(np.geomspace(1, 1.3 * k_c, 45).astype(int)) - 1
    label = rf"$\nu = 10^{np.log10(nu):.0f}$, $k_c = {k_c:.0f}$"
    left.plot(rank[shown], q[shown], "os^"[i], color=f"C{i}", markersize=5, label=label)
x = np.linspace(0.005, 1, 400)
left.plot(x, law.profile(x), "k-", linewidth=1, zorder=0, label=r"$\phi(x)$")
left.plot([1, 1, 1.3], [law.profile(1.0), 0, 0], "k-", linewidth=1, zorder=0)
left.set(xlabel="rank $x = i / k_c$", ylabel="overlap $q_i$", title=r"$\beta = 0.75$, $\Delta = 0.5$")
left.legend(frameon=False)
inside = (lam >= few.lam) & (lam <= many.lam)
right.plot(np.log(lam), alpha, color="C3")
right.fill_between(np.log(lam[inside]), alpha[inside], few.alpha, color="C3", alpha=0.25, linewidth=0)
right.axhline(few.alpha, color="k", linewidth=0.8)
jump = f"Maxwell point $\\alpha$ = {few.alpha:.4f}:\n{few.width:.0%} to {many.width:.0%} of the features"
right.text(0.3, 1.0, jump)
for phase in sub.spinodals:
    right.plot(np.log(phase.lam), phase.alpha, "ko", markersize=4)
right.set(xlabel=r"$\ln\lambda$, $\lambda$ of the weakest feature", ylabel=r"data $\alpha = n/d^2$")
right.set_title(r"$\beta = 0.1$, $\Delta = 0.1 < \Delta_c = 1.156$; dots: spinodals", fontsize="medium")
fig.savefig("bayes_profile.png", dpi=150)

gaps = [
    np.max(np.abs(q - law.profile(rank))[np.abs(rank - 1) > 1 / k_c])
    for k_c, rank, q in zip(fronts, ranks, overlaps, strict=True)
]

# %%
# The checks
# ----------
print("distance from the profile:", ", ".join(f"{x:.2g} (nu = {nu:g})" for x, nu in zip(gaps, NUS, strict=True)))
assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-3
inside = np.linspace(np.log(few.lam), np.log(many.lam), 2001)
area = np.trapezoid([sub.phase(x).alpha - few.alpha for x in np.exp(inside)], inside)
print(f"alpha_M = {few.alpha:.6f}, difference of the areas {area:.1e}")
assert abs(area) < 1e-5 and abs(few.alpha - 1.277864) < 1e-6
