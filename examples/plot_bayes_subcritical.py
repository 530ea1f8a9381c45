r"""
Slowly decaying readouts are learned in bulk, with a jump at little noise
=========================================================================

Readouts :math:`v_i \sim i^{-\beta}`, :math:`\beta < 1/2`, :math:`k = \gamma d`: no single feature stands out, and a
finite fraction :math:`k_c/k` is learned at once. Above a noise :math:`\Delta_c(\beta)` error and width are
continuous; below, the width jumps at the Maxwell point.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The limit of many features, and 3000 of them
# --------------------------------------------
# For :math:`k \to \infty` everything is explicit in lambda, the signal-to-noise ratio of the weakest feature,
#
# .. math:: \epsilon(\lambda) = (1-2\beta) \int_0^1 x^{-2\beta}\, [g(1) - g(m(\lambda x^{-2\beta}))]\, dx, \qquad
#           \alpha = \frac{\gamma\lambda\,(\Delta + \epsilon)}{1-2\beta}, \qquad
#           \frac{k_c}{k} = \min\Big[1, \Big(\frac{\lambda}{\lambda_\sigma}\Big)^{1/(2\beta)}\Big].
#
# 3000 features are solved exactly; they differ from the limit by order :math:`k^{2\beta - 1}`, because the sum over
# readouts differs from an integral.
HE3, K = {3: 1.0}, 3000
alpha = np.geomspace(0.3, 12, 60)
some = slice(2, None, 5)
found = []
for beta, Delta in [(0.1, 0.1), (0.25, 0.05), (0.25, 0.5), (0.35, 0.5)]:
    law = ov.static.SubcriticalPowerLaw(beta=beta, gamma=1.0, noise=Delta**0.5, activation=HE3)
    teacher = ov.static.HierarchicalTeacher(beta=beta, k=K, noise=Delta**0.5, activation=HE3)
    found.append((law, [law.solve(a) for a in alpha], [teacher.solve(nu=a * K) for a in alpha[some]]))

# %%
# Error and width
# ---------------
# Lines: the limit, with the Bayes-optimal branch where there are several; dots: k = 3000. The first two settings lie
# below :math:`\Delta_c`, and their width jumps.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for i, (law, limit, finite) in enumerate(found):
    label = rf"$\beta = {law.beta}$, $\Delta = {law.noise**2:.2g}$" + (" $< \\Delta_c$" if not law.unique else "")
    left.loglog(alpha, [x.eps for x in limit], f"C{i}", label=label)
    left.loglog(alpha[some], [x.eps for x in finite], f"C{i}o", ms=4)
    right.semilogx(alpha, [x.width for x in limit], f"C{i}")
    right.semilogx(alpha[some], [x.k_c / K for x in finite], f"C{i}o", ms=4)
left.set(xlabel=r"data $\alpha = n/d^2$", ylabel=r"Bayes error $\epsilon$")
right.set(xlabel=r"data $\alpha = n/d^2$", ylabel="learned fraction $k_c/k$", ylim=(-0.03, 1.03))
left.legend(frameon=False, fontsize="small")
fig.savefig("bayes_subcritical.png", dpi=150)

# %%
# The checks
# ----------
for law, limit, finite in found:
    eps = max(abs(x.eps - y.eps) for x, y in zip(limit[some], finite, strict=True))
    width = max(abs(x.width - y.k_c / K) for x, y in zip(limit[some], finite, strict=True))
    print(f"{law}: finite k and limit differ by at most {eps:.4f} in eps, {width:.4f} in k_c/k")
    assert max(eps, width / 2) < K ** (2 * law.beta - 1)
    if not law.unique:
        few, many = law.maxwell
        print(f"  at alpha = {few.alpha:.4f} the learned fraction jumps from {few.width:.3f} to {many.width:.3f}")
        assert many.width - few.width > 0.3
