r"""
Compute is best spent at a fixed ratio of learned and frozen modes
==================================================================

A linear student trains :math:`N_l` features of power-law data for a time :math:`\alpha`, at a cost :math:`c =
N_l\,\alpha`. Training should stop at a fixed ratio of learned and frozen modes, at the end of the power-law window,
where neither term is a power law any more. Balancing two power laws gives the correct exponent and a wrong constant.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import gamma as gamma_function

from overlaps.theory.scaling import Law

# %%
# The envelope of all curves
# --------------------------
# One curve for each :math:`N_l`; the best use of compute is their envelope, which has a closed form.
LAW = Law(1.0, 0.3, L=3000, eta=0.5)
EASY = Law(1.0, 1.5, L=3000, eta=0.5)
C = np.geomspace(1e3, 1e8, 11)


def operations(law):
    """Compute c for C = 2 eta s_1 c."""
    return C / (2 * law.eta * law.spectrum.s[0])


def envelope(ax):
    compute = operations(LAW)
    closed, exact = LAW.frontier(compute), LAW.frontier(compute, exact=True)
    fine = np.geomspace(compute[0] / 30, compute[-1] * 30, 120)
    for i, N_l in enumerate(np.geomspace(5, 2000, 10).astype(int)):
        ax.loglog(fine, LAW.error(fine / N_l, int(N_l)), color=plt.cm.viridis(i / 10), lw=1.2)
    ax.loglog(compute, exact.eps, "ko", ms=4, label="best $N_l$, exact")
    ax.loglog(compute, closed.eps, "r--", lw=1.5, label="closed form")
    rate = LAW.exponents.compute
    ax.set(xlabel=r"compute $c = N_l\,\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-6, 0.1), xlim=(fine[0], fine[-1]))
    ax.set_title(
        rf"$\beta$ = 1, $\delta$ = 0.3: $\epsilon_g \sim c^{{-{rate:.3f}}}$; $N_l$ = 5 (highest floor) to 2000"
    )
    ax.title.set_fontsize("medium")
    ax.legend(frameon=False, loc="lower left")
    return closed, exact


# %%
# The best number of features
# ---------------------------
# It grows as :math:`c^{1/(2 + \beta)}`. For an easy teacher (delta = 1.5) training must continue until the noise of the
# steps has decayed, and fewer features are optimal.
def balanced(law):
    """The N_l that minimises the sum of two pure power laws, for bias and floor."""
    g, gamma, n = law.exponents.time, law.exponents.features, np.geomspace(1, 3000, 4000)
    total = gamma_function(g) / (1 + law.beta) * (C[:, None] / n) ** -g + n**-gamma / gamma
    return n[np.argmin(total, axis=1)]


def widths(ax, closed, exact):
    easy = EASY.frontier(operations(EASY), exact=True)
    ax.loglog(C, exact.N_l, "ko", ms=4, label=r"exact, $\delta$ = 0.3")
    ax.loglog(C, closed.N_l, "r--", label="closed form")
    ax.loglog(C, balanced(LAW), "0.5", ls=":", lw=1.5, label="two power laws balanced")
    ax.loglog(C, easy.N_l, "C0s", ms=4, label=r"exact, $\delta$ = 1.5")
    ax.set(xlabel=r"$C = 2\eta s_1 c$", ylabel="best number of features $N_l$")
    ax.legend(frameon=False)
    return easy


# %%
# The frontier
# ------------
# Left: the curves, the frontier (dots), and its closed form (dashed). Right: the best :math:`N_l`, and two power laws
# balanced (dotted).
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
closed, exact = envelope(left)
easy = widths(right, closed, exact)
for ax in (left, right):
    ax.grid(alpha=0.25)
fig.savefig("scaling_frontier.png", dpi=150)

# %%
# The checks
# ----------
for i in (0, 4, 8, 10):
    print(
        f"C = {C[i]:.0e}: N_l {exact.N_l[i]:.0f}, closed {closed.N_l[i]:.1f}; "
        f"eps {exact.eps[i]:.4e}, closed / exact {closed.eps[i] / exact.eps[i]:.5f}"
    )
assert np.all(np.abs(closed.eps / exact.eps - 1) < 0.01)
slope = np.polyfit(np.log(C[4:]), np.log(exact.eps[4:]), 1)[0]
width = np.polyfit(np.log(C[4:]), np.log(exact.N_l[4:]), 1)[0]
print(f"error ~ c^{slope:.3f} (theory {-LAW.exponents.compute:.3f}), N_l ~ c^{width:.3f} (1/3)")
assert abs(slope + LAW.exponents.compute) < 0.01 and abs(width - 1 / 3) < 0.01
print(f"balancing two power laws gives {balanced(LAW)[4] / exact.N_l[4]:.2f} times the best N_l at C = 1e5")
assert balanced(LAW)[4] / exact.N_l[4] > 1.2
rate = np.polyfit(np.log(C[4:]), np.log(easy.eps[4:]), 1)[0]
print(f"delta = 1.5: error ~ c^{rate:.2f} on its way to -4/3")
assert -4 / 3 < rate < -1.2 and np.all(easy.N_l < exact.N_l)
