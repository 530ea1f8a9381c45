r"""
The power law holds between the first and the last eigenvalue
=============================================================

In gradient flow every eigen-direction of the inputs relaxes by itself, and the error is a sum of exponentials. With a
power-law spectrum it is close to an integral, the integral to a power law :math:`\alpha^{-\beta/(1+\beta)}`, between
the times at which the largest and the smallest eigenvalue are learned. After Worschech and Rosenow (2024),
arXiv:2410.09005, Figs. 7 to 9.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import gamma, gammaincc

import overlaps as ov
from overlaps.theory import linear

# %%
# Sum, integral, and a strict bound
# ---------------------------------
# Figs. 7 and 8, N = 128, beta = 0.5: the integral alone, with the end terms of the trapezoidal rule, and with its
# bound.
ETA = 0.01
ZETA = r"$\zeta = 2\eta s_1\alpha$"


def approximations(ax):
    """Figs. 7 and 8: N = 128, beta = 0.5."""
    beta, L = 0.5, 128
    alpha = linear.window(beta, L, ETA)[0] * np.geomspace(1e-2, 30, 200)
    zeta = alpha / linear.window(beta, L, ETA)[0]
    total = linear.flow_error(ov.power_law(beta=beta, L=L), ETA, alpha)
    integral = linear.integral_error(beta, L, ETA, alpha)
    ends = linear.integral_error(beta, L, ETA, alpha, end_terms=True)
    bound = linear.integral_bound(beta, L)
    ax.loglog(zeta, total, "C0", lw=3, alpha=0.5, label="sum")
    ax.loglog(zeta, integral, "k--", label="integral")
    ax.loglog(zeta, ends, "C2", lw=1.2, label="integral + end terms")
    ax.loglog(zeta, integral + bound, "C3:", lw=1.5, label="integral + upper bound")
    ax.set(xlabel=ZETA, ylabel=r"$\epsilon_g$", title=rf"$L$ = {L}, $\beta$ = {beta:g}")
    ax.legend(frameon=False, loc="lower left")
    return np.max((total - integral) / bound)


# %%
# Errors of both integrals
# ------------------------
# They depend on :math:`\zeta = 2 \eta s_1 \alpha` only.
def relative_errors(ax):
    L, found = 1024, {}
    for beta, colour in ((0.01, "C0"), (0.5, "C2"), (1.0, "C1"), (1.5, "C3")):
        zeta = np.append(np.geomspace(0.1, 100, 300), [1.0, 3.0])
        alpha = zeta * linear.window(beta, L, ETA)[0]
        total = linear.flow_error(ov.power_law(beta=beta, L=L), ETA, alpha)
        plain = linear.integral_error(beta, L, ETA, alpha) / total - 1
        ends = linear.integral_error(beta, L, ETA, alpha, end_terms=True) / total - 1
        ax.semilogx(zeta[:-2], 100 * plain[:-2], colour, label=rf"$\beta$ = {beta:g}")
        ax.semilogx(zeta[:-2], 100 * ends[:-2], colour, ls="--")
        found[beta] = plain[-2], plain[-1], ends[-2], ends[-1]
    ax.axhline(0, color="k", lw=0.8)
    ax.plot([], [], "k-", label="integral")
    ax.plot([], [], "k--", label="with end terms")
    ax.set(xlabel=ZETA, ylabel="error in %", ylim=(-45, 15), title=f"$L$ = {L}")
    ax.legend(frameon=False, loc="lower right", ncols=2)
    return found


# %%
# The window
# ----------
# Fig. 9, and a larger L beside it: the integral, its first gamma function, its power law.
def window(ax):
    """Fig. 9, and a larger L beside it."""
    beta, ratios = 1.0, {}
    for L, colour in ((128, "C0"), (10_000, "C1")):
        first, last = linear.window(beta, L, ETA)
        zeta = np.geomspace(0.1, 5 * last / first, 200)
        b, scale = linear.exponent(beta), ov.power_law(beta=beta, L=L).s[0] / L
        total = linear.flow_error(ov.power_law(beta=beta, L=L), ETA, zeta * first)
        one_gamma = scale * zeta**-b / (1 + beta) * gamma(b) * gammaincc(b, zeta / L ** (1 + beta))
        ax.loglog(zeta, total, colour, lw=3, alpha=0.5, label=f"sum, L = {L}")
        ax.loglog(zeta, one_gamma, colour, ls="--", label="first gamma function" if L > 1000 else None)
        ax.axvline(last / first, color=colour, ls=":", lw=1.2)
        ratios[L] = linear.power_law_error(beta, L, ETA, last) / total[np.argmin(np.abs(zeta - last / first))]
        if L > 1000:
            ax.loglog(zeta, linear.power_law_error(beta, L, ETA, zeta * first), "k:", label=r"power law $\zeta^{-1/2}$")
    ax.axvline(1, color="k", ls=":", lw=1.2)
    ax.set(xlabel=ZETA, ylabel=r"$\epsilon_g$", ylim=(1e-6, 3), title=rf"$\beta$ = {beta:g}; dotted: the window")
    ax.legend(loc="lower left", framealpha=1, edgecolor="none")
    return ratios


# %%
# The local exponent
# ------------------
# The plateau at :math:`\beta/(1+\beta)` needs many eigenvalues; with few of them the decay is exponential.
def local_exponent(ax):
    beta, flat = 1.0, {}
    for L, colour in ((1, "0.6"), (10, "C0"), (100, "C2"), (1000, "C1"), (100_000, "C3")):
        spectrum = ov.power_law(beta=beta, L=L)
        zeta = np.geomspace(0.1, 30 * L ** (1 + beta), 160)
        error = linear.flow_error(spectrum, ETA, zeta / (2 * ETA * spectrum.s[0]))
        slope = -np.gradient(np.log(error), np.log(zeta))
        ax.semilogx(zeta, slope, color=colour, label=f"L = {L}")
        near = np.sum((zeta > 3) & (np.abs(slope - linear.exponent(beta)) < 0.05))
        flat[L] = near * np.log10(zeta[1] / zeta[0])
    ax.axhline(linear.exponent(beta), color="k", ls=":", lw=1.2)
    ax.set(xlabel=ZETA, ylabel=r"$-d\ln\epsilon_g/d\ln\alpha$", ylim=(0, 2), xlim=(0.1, 1e11))
    ax.set_title(r"local exponent, $\beta$ = 1; dotted: $\beta/(1+\beta)$")
    ax.legend(frameon=False, loc="lower right", ncols=2)
    return flat


# %%
# Four views of one sum
# ---------------------
# Top: approximations and their relative errors. Bottom: the window, and the local exponent.
fig, axes = plt.subplots(2, 2, figsize=(10.5, 8), layout="constrained")
used, errors = approximations(axes[0, 0]), relative_errors(axes[0, 1])
ratios, flat = window(axes[1, 0]), local_exponent(axes[1, 1])
fig.savefig("linear_window.png", dpi=150)

# %%
# The checks
# ----------
first = linear.window(0.5, 128, 1e-5)[0]
print(f"zeta = 1 at alpha = {first:.1f} for eta = 1e-5, beta = 0.5, L = 128; caption of Fig. 7: about 950")
assert abs(first / 950 - 1) < 5e-3
print(f"sum minus integral reaches {used:.3f} of its bound")
assert 0.95 < used <= 1
for beta, (one, three, ends_one, ends_three) in errors.items():
    print(
        f"beta = {beta:g}: integral {100 * one:.1f} % at zeta = 1, {100 * three:.1f} % at 3; "
        f"with end terms {100 * ends_one:.1f} %, {100 * ends_three:.1f} %"
    )
    assert -0.31 < one < -0.02 and abs(three) < 0.015 and abs(ends_one) < 0.02 and 0 < ends_three < 0.09
for L, ratio in ratios.items():
    print(f"L = {L}: at the end of the window the power law is {ratio:.1f} times too high")
    assert 4 < ratio < 7
print("decades with an exponent within 0.05 of 1/2:", {L: round(float(x), 1) for L, x in flat.items()})
assert flat[10] < 1 < flat[100] < flat[1000] < flat[100_000] and flat[100_000] > 5
