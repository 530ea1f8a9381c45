"""
Features with equal readouts are learned all at once
====================================================

When all readouts are equal, :math:`v_i^2 = 1/k`, a learned feature lowers the effective noise for all others, and all
features are learned together. Two solutions coexist between A = nu/k = 1.78 and 2.18 (Delta = 0.5), and the transition
lies before the end of the uninformed branch. Between these points the data determine the features, but they are hard to
find.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The larger potential is Bayes-optimal
# -------------------------------------
# ``EqualReadouts`` has closed forms of both branches, with the potential
#
# .. math:: \Phi/k = q + \ln(1-q) - A \ln(\Delta + g(1) - g(q)).
#
# ``HierarchicalTeacher`` solves the equations of 100 features at each amount of data.
HE3, DELTA, K = {3: 1.0}, 0.5, 100

law = ov.static.EqualReadouts(noise=DELTA**0.5, activation=HE3)
teacher = ov.static.HierarchicalTeacher(v2=np.full(K, 1 / K), noise=DELTA**0.5, activation=HE3)
A = np.linspace(1.4, 2.6, 121)
results = [teacher.solve(nu=K * x) for x in A]

# %%
# Branches, potential, and phase diagram
# --------------------------------------
# Left: the overlap jumps at A = 1.927, before the uninformed branch ends at
# :math:`\lambda_\sigma(\Delta + g(1)) = 2.184`. Middle: the potential below, at and beyond the transition. Right: the
# three thresholds against the noise.
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.2), layout="constrained")
q = np.linspace(0.36, 0.97, 600)
data = law.data(q)
stable = q >= law.informed_overlap
left.plot(data[stable], q[stable], color="C0", label="informed branch")
left.plot(data[~stable], q[~stable], color="C0", linestyle=":", label="unstable")
left.plot([1.4, law.uninformed_until], [0, 0], color="C1", linewidth=2.5, label="uninformed branch", clip_on=False)
left.plot(A[::3], [x.q[0] for x in results[::3]], "ko", markersize=3.5, label=f"Bayes, $k = {K}$", clip_on=False)
marks = {"spinodal": law.informed_from, "Bayes": law.threshold, "uninformed": law.uninformed_until}
for name, x in marks.items():
    left.axvline(x, color="0.6", linewidth=0.8, zorder=0)
    left.text(x, 1.01, f"{name}\n{x:.3f}", ha="center", va="bottom", fontsize="small")
left.set(xlim=(1.4, 2.6), ylim=(0, 1), xlabel=r"data $A = n / (k d)$", ylabel="overlap $q$ of every feature")
left.legend(frameon=False, loc="lower right", fontsize="small", bbox_to_anchor=(1.0, 0.02))

grid = np.linspace(0, 0.93, 400)
for i, x in enumerate((1.7, law.threshold, 2.1)):
    phi = law.potential(grid, x)
    middle.plot(grid, phi - phi[0], color=f"C{i + 2}", label=f"$A = {x:.3f}$")
middle.axhline(0, color="0.7", linewidth=0.8, zorder=0)
middle.set(ylim=(-0.25, 0.25), xlabel="overlap $q$", ylabel=r"potential $[\Phi(q) - \Phi(0)]/k$")
middle.legend(frameon=False)

Deltas = np.geomspace(0.01, 10, 40)
laws = [ov.static.EqualReadouts(noise=D**0.5, activation=HE3) for D in Deltas]
total = 1 + Deltas
for name, color in (("informed_from", "C0"), ("threshold", "k"), ("uninformed_until", "C1")):
    right.plot(Deltas, [getattr(x, name) for x in laws] / total, color=color, label=name.replace("_", " "))
right.set(xscale="log", xlabel=r"noise variance $\Delta$", ylabel=r"$A / (\Delta + g(1))$")
right.legend(frameon=False)
fig.savefig("bayes_equal_readouts.png", dpi=150)

# %%
# The checks
# ----------
jump = A[np.argmax([x.k_c > 0 for x in results])]
print(f"Bayes transition: {law.threshold:.10f} (formula), between {jump - 0.01:.3f} and {jump:.3f} (k = {K})")
assert abs(law.threshold - 1.9266430843) < 1e-9 and jump - 0.01 <= law.threshold <= jump
assert all(x.informed_from < x.threshold < x.uninformed_until for x in laws)
two = [x for x, r in zip(A, results, strict=True) if len(r.solutions) == 2]
assert law.informed_from < two[0] and two[-1] < law.uninformed_until
