r"""
Learning features and refining them follow two power laws
=========================================================

Power-law readouts, :math:`v_i^2 \sim i^{-2\beta}`: while features are still being learned the Bayes error falls as
:math:`n^{1/(2\beta) - 1}`, and once all k of them are known it falls as 1/n. Both laws are
:math:`\epsilon = \Theta(k_c d/n)` with :math:`k_c` the number of learned features.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The theory of all k features, and two equations instead of k
# ------------------------------------------------------------
# ``HierarchicalTeacher`` solves k equations at each amount of data; ``PowerLawLimit.refined`` needs two, and also holds
# between the two regimes,
#
# .. math:: \epsilon \sim \nu^{1/(2\beta) - 1} \; (k_c < k), \qquad
#           \epsilon \simeq \frac{\Delta k}{\nu - k} \; (k_c = k).
BETAS = (0.75, 1.0, 1.5)
K, DELTA = 10_000, 0.5

summary = {}
for beta in BETAS:
    teacher = ov.static.HierarchicalTeacher(beta=beta, k=K, noise=DELTA**0.5, activation={3: 1.0})
    law = ov.static.PowerLawLimit(beta=beta, noise=DELTA**0.5, activation={3: 1.0})
    end = teacher.onset * DELTA / teacher.v2[-1]  # all features are known
    curve = teacher.curve((10, 300 * end), points=400)
    refined = np.array([law.refined(x, k=K).eps for x in curve.nu[::12]])
    summary[beta] = teacher, law, curve, end, refined

# %%
# Two slopes, two constants
# -------------------------
# Left: errors (thick), and the refined law (thin black). Right: in units of :math:`k_c d/n` the two regimes have two
# different constants.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for i, (beta, (teacher, law, curve, end, refined)) in enumerate(summary.items()):
    text = rf"$\beta = {beta:g}$: $\nu^{{{law.exponents[0]:.2g}}}$, then $\nu^{{-1}}$"
    left.plot(curve.nu, curve.eps, color=f"C{i}", linewidth=3, alpha=0.55, label=text)
    left.plot(curve.nu[::12], refined, "k-", linewidth=0.8, label="refined law" if i == 0 else None)
    left.plot(end, teacher.solve(nu=end).eps, "o", color=f"C{i}")
    known = curve.k_c > 0
    right.plot(curve.nu[known], (curve.eps * curve.nu)[known] / curve.k_c[known], color=f"C{i}")
    right.axhline(law.collapse[0], color=f"C{i}", linewidth=0.8, linestyle="--")
guides = [(0, 2e3, 1e5, 0.5), (1, 2e3, 1e6, 0.6), (2, 2e3, 3e7, 0.4)]
for i, low, high, factor in guides:
    law = summary[BETAS[i]][1]
    nu = np.array([low, high])
    left.plot(nu, factor * np.array([law.leading(x).eps for x in nu]), color=f"C{i}", linestyle=":")
left.set(xscale="log", yscale="log", xlabel=r"data $\nu = n/d$", ylabel=r"Bayes error $\epsilon$")
left.set_title(
    rf"$k = 10^4$, $\Delta = {DELTA}$; dots: $k_c = k$; dotted: slope of the learning phase", fontsize="medium"
)
left.legend(frameon=False)
right.axhline(DELTA, color="k", linewidth=0.8, linestyle="--")
right.text(20, DELTA * 1.03, r"refinement: $\Delta$", va="bottom")
right.set(xscale="log", xlabel=r"data $\nu = n/d$", ylabel=r"$\epsilon\, n / (k_c d)$", ylim=(0, 3))
right.set_title(r"dashed, coloured: $\Delta\lambda_\sigma[I + g(1)/(2\beta-1)]$ while learning", fontsize="medium")
fig.savefig("bayes_scaling.png", dpi=150)

# %%
# The width of the student
# ------------------------
# A student that keeps only the :math:`k_s = x k_c` strongest features follows a third power law, in its width, until it
# reaches :math:`k_c`. In units of :math:`k_c` errors at all amounts of data lie on one curve (black, derived here),
#
# .. math:: \frac{\epsilon(x)}{\epsilon(1)}
#               = \frac{I(x) + g(1)\,x^{1-2\beta} / (2\beta-1)}{I(1) + g(1) / (2\beta-1)}, \qquad
#           I(x) = \int_0^x t^{-2\beta}\,[g(1) - g(\phi(t))]\,dt.
#
# The law is *asymptotic* (a sum from :math:`k_s + 1` begins at :math:`k_s + 1/2`), and the error of such a student
# *heuristic* (``cut``).
NUS = (1e3, 1e4, 1e5)
x = np.geomspace(1e-3, 1, 400)


def law_of_width(law):
    """epsilon(x k_c) / epsilon(k_c) for k >> k_c >> 1, at the x of the grid; g(q) = q^3."""
    inner = np.geomspace(1e-7, 1, 4001)
    gap = inner ** (-2 * law.beta) * -np.expm1(3 * np.log(law.profile(inner)))
    learned = np.r_[0, np.cumsum((gap[1:] + gap[:-1]) / 2 * np.diff(inner))] + gap[0] * inner[0]
    mass = np.interp(np.log(x), np.log(inner), learned) + x ** (1 - 2 * law.beta) / (2 * law.beta - 1)
    return mass / mass[-1]


widths = {}
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for beta, color in ((1.0, "C1"), (1.5, "C2")):
    teacher = ov.static.HierarchicalTeacher(beta=beta, k=200_000, noise=DELTA**0.5, activation={3: 1.0})
    for nu, style, marker in zip(NUS, ("-", "--", ":"), "o^s", strict=True):
        result, front = widths[beta, nu] = teacher.solve(nu=nu), summary[beta][1].refined(nu, k=teacher.k)
        k_s = np.unique(np.geomspace(1, 20 * result.k_c, 60).astype(int))
        eps = result.cut(k_s)
        label = rf"$\beta = {beta:g}$, $\nu = 10^{{{np.log10(nu):.0f}}}$, $k_c = {result.k_c}$"
        left.loglog(k_s, eps, color + style, label=label)
        left.plot(result.k_c, result.eps, color + "o", ms=4)
        right.loglog((k_s + 0.5) / front.k_c, eps / front.eps, color + marker, ms=4, mfc="none")
    right.plot(np.r_[x, 20], np.r_[law_of_width(summary[beta][1]), 1], "k", lw=0.8, zorder=0)
    right.plot([], [], color + "o", mfc="none", label=rf"$\beta = {beta:g}$: slope ${1 - 2 * beta:g}$")
left.set(xlabel="width of the student $k_s$", ylabel=r"error $\epsilon(k_s)$")
left.set_title(r"$k = 2 \cdot 10^5$; dots: effective width $k_c$", fontsize="medium")
right.set(xlabel=r"$x = (k_s + 1/2) / k_c$", ylabel=r"$\epsilon(x) / \epsilon(1)$", xlim=(4e-3, 20), ylim=(0.6, 1e3))
right.set_title("black: the law, with no free parameter", fontsize="medium")
for ax in (left, right):
    ax.legend(frameon=False, fontsize="small")
fig.savefig("bayes_scaling_width.png", dpi=150)


# %%
# The checks
# ----------
# The refined law has an error of order :math:`1/k_c`. For small beta and this noise the leading law extends over less
# than two decades; therefore its slope is measured at beta = 3/2.
def slope(nu, eps):
    return np.polyfit(np.log(nu), np.log(eps), 1)[0]


for beta, (_, law, curve, end, refined) in summary.items():
    learning = (curve.nu > 1e3) & (curve.nu < 1e5)
    late = curve.nu > 30 * end
    found = slope(curve.nu[learning], curve.eps[learning]), slope(curve.nu[late], curve.eps[late])
    print(f"beta = {beta}: exponents {found[0]:.4f} and {found[1]:.4f}, theory {law.exponents}")
    nu = curve.nu[::12]
    worst = np.max(np.abs(np.log(refined / curve.eps[::12]))[law.leading(1.0).k_c * nu ** (0.5 / beta) > 20])
    print(f"  refined law: within {worst:.1%} where k_c > 20")
    assert worst < 0.03
    assert abs(found[1] + 1) < 2e-3
    if beta == 1.5:
        assert abs(found[0] / law.exponents[0] - 1) < 0.02
    assert abs(curve.eps[-1] * curve.nu[-1] / K / DELTA - 1) < 0.01, "collapse, second constant"
for (beta, nu), (result, front) in widths.items():
    k_s = np.arange(3, result.k_c)
    predicted = front.eps * np.interp((k_s + 0.5) / front.k_c, x, law_of_width(summary[beta][1]))
    apart = np.abs(result.cut(k_s) / predicted - 1).max()
    print(f"beta = {beta:g}, nu = {nu:g}: k_c = {result.k_c}, law of the width within {apart:.1%}")
    assert apart < 0.05
    assert np.allclose(result.cut([result.k_c, 10 * result.k_c]), result.eps, rtol=1e-12)
