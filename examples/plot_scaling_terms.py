r"""
Four terms make one learning curve
==================================

A linear student whose inputs have eigenvalues :math:`l^{-(1+\beta)}` and whose teacher has coefficients
:math:`l^{-\delta}` along the eigenvectors. The bias falls with the exponent :math:`g = (\beta + 2\delta)/(1 + \beta)`,
the noise of the steps with :math:`(1 + 2\beta)/(1 + \beta)` for every source. For easy teachers the noise dominates
late, and the exponent is 3/2 for all of them.
"""

import numpy as np
from matplotlib import pyplot as plt

from overlaps.theory.scaling import Law, fit

# %%
# Four sources
# ------------
# Exact learning curves for teachers from hard (delta = 0) to easy (1.5).
BETA, L, ETA = 1.0, 4000, 0.5
SOURCES = {0.0: "C0", 0.3: "C2", 1.0: "C1", 1.5: "C3"}
NAMES = {"bias": "bias", "floor": "frozen features", "sgd": "noise of the steps", "noise": "label noise"}


def slope(law):
    """Of the exact curve between zeta = 2 eta s_1 alpha = 1e3 and 1e4."""
    ends = np.array([1e3, 1e4]) / (2 * law.eta * law.spectrum.s[0])
    return np.diff(np.log(law.error(ends)))[0] / np.log(10)


def curves(ax):
    zeta, slopes, ratios = np.geomspace(1, 1e6, 60), {}, {}
    for source, colour in SOURCES.items():
        law = Law(BETA, source, L=L, eta=ETA)
        alpha = zeta / (2 * law.eta * law.spectrum.s[0])
        exact, closed = law.error(alpha), law.asymptote(alpha)
        slopes[source] = slope(law)
        ratios[source] = np.interp(3.0, np.log10(zeta), closed / exact)
        g = min(law.exponents.time, law.exponents.kernel)
        ax.loglog(zeta, exact, colour, lw=4, alpha=0.45, label=rf"$\delta$ = {source:g}: exponent {g:g}")
        ax.loglog(zeta[zeta > 10], closed[zeta > 10], "k--", lw=1)
    ax.set(xlabel=r"$\zeta = 2\eta s_1\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-11, 1), title=rf"$\beta$ = {BETA:g}")
    ax.legend(frameon=False, loc="lower left")
    return slopes, ratios


# %%
# One curve taken apart
# ---------------------
# 300 trained features and label noise: bias, frozen features, noise of the steps, label noise.
def anatomy(ax):
    law, N_l = Law(BETA, 0.3, L=L, eta=ETA, noise=0.003), 300
    zeta = np.geomspace(3, 1e7, 80)
    alpha = zeta / (2 * law.eta * law.spectrum.s[0])
    exact, terms = law.error(alpha, N_l), law.terms(alpha, N_l)
    ax.loglog(zeta, exact, "0.6", lw=4, label="exact error")
    ax.loglog(zeta, sum(terms), "k--", lw=1, label="sum of four terms")
    for (name, label), colour in zip(NAMES.items(), ("C0", "C1", "C3", "C2"), strict=True):
        ax.loglog(zeta, np.maximum(getattr(terms, name), 1e-30), colour, label=label)
    first, last = (2 * law.eta * law.spectrum.s[0] * t for t in law.window(N_l))
    ax.axvspan(first, last, color="C0", alpha=0.08, lw=0)
    ax.set(
        xlabel=r"$\zeta = 2\eta s_1\alpha$", ylim=(1e-7, 0.3), title=r"$\delta$ = 0.3, $N_l$ = 300, $\sigma$ = 0.003"
    )
    ax.legend(frameon=False, fontsize="small")
    last = law.error(np.inf, N_l)
    above = exact > 1.5 * last
    return np.max(np.abs(sum(terms) / exact - 1)[zeta > 100]), fit(alpha[above], exact[above] - last)


# %%
# Exponents saturate, and terms take over
# ---------------------------------------
# Left: exact curves (coloured) and closed forms (dashed). Right: one curve and its four terms; the band is the
# power-law window.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
slopes, ratios = curves(left)
worst, fitted = anatomy(right)
for ax in (left, right):
    ax.grid(alpha=0.25)
fig.savefig("scaling_terms.png", dpi=150)

# %%
# The checks
# ----------
for source, found in slopes.items():
    print(f"delta = {source:g}: slope {found:.3f} at zeta = 1e3 to 1e4; closed form / exact {ratios[source]:.4f}")
    assert abs(ratios[source] - 1) < 0.005
assert abs(slopes[1.0] + 1.500) < 0.005 and abs(slopes[1.5] + 1.541) < 0.005  # both tend to -3/2
print(f"four terms against the exact error with 300 features, zeta > 100: within {100 * worst:.2f} %")
assert worst < 0.01
print(f"exponent fitted above the floor: {fitted.exponent:.3f}({1000 * fitted.error:.0f}), clean: {fitted.clean}")
