r"""
Large rates raise the error of a linear student and keep its exponent
=====================================================================

For linear activation the whole learning curve is known at any learning rate: a sum of exponentials whose rates
:math:`\mu_j` solve a secular equation and interlace with the eigenvalues :math:`s_j` of the inputs. Inside the
power-law window a large rate raises the error by the factor :math:`2/(2-\eta)` and does not change the exponent. After
Worschech and Rosenow (2024), arXiv:2410.09005, Figs. 2 (left) and 10 to 13 (there beta = 0.1 and 1), all at several
beta and eta; factor, threshold and best rate are not in the paper. All curves are the limit :math:`N \to \infty`: the
example on finite size shows SGD at L = N.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar

import overlaps as ov
from overlaps.theory import linear

# %%
# The curves, and their ratio to gradient flow
# --------------------------------------------
# L = 128 for the curves; L = 2048 for the ratio, in the window for beta = 1.
ETAS = (0.1, 0.5, 1.0, 1.5)
COLOURS = ("C0", "C2", "C1", "C3")


def learning_curve(ax):
    """Fig. 2 left (beta = 1, eta = 1) and Fig. 13: L = 128, student_scale = 1."""
    for beta, colour in ((0.3, "C0"), (1.0, "C1"), (1.5, "C3")):
        spectrum = ov.power_law(beta=beta, L=128)
        alpha = np.geomspace(1e-2, 30 / spectrum.s[-1], 200)
        for eta, style in ((1.0, "-"), (0.1, "-.")):
            label = rf"exact, $\beta$ = {beta:g}" if eta == 1 else None
            ax.loglog(eta * alpha, linear.error(spectrum, eta, alpha), colour, ls=style, lw=2, label=label)
        flow = linear.flow_error(spectrum, 1.0, alpha)
        ax.loglog(alpha, flow, "k--", lw=1, label=r"order $\eta$ only" if beta == 1 else None)
        ax.loglog(alpha, 2 * flow, "k:", lw=1, label=r"times $2/(2-\eta)$" if beta == 1 else None)
    ax.set(xlabel=r"$\eta\alpha$", ylabel=r"$\epsilon_g$", xlim=(1e-2, 1e4), ylim=(1e-6, 5))
    ax.set_title(r"L = 128, $\eta$ = 1; dash-dotted: 0.1")
    ax.legend(frameon=False, loc="lower left", fontsize="small")


def amplitude(ax):
    """Ratio to gradient flow at L = 2048: in the window for beta = 1, and the curves for beta = 0.3 beside it."""
    measured = []
    zeta = np.append(np.geomspace(1e-1, 3e6, 120), 1e4)
    for beta, style in ((1.0, "-"), (0.3, "--")):
        spectrum = ov.power_law(beta=beta, L=2048)
        for eta, colour in zip(ETAS, COLOURS, strict=True):
            alpha = zeta / (2 * eta * spectrum.s[0])
            ratio = linear.error(spectrum, eta, alpha) / linear.flow_error(spectrum, eta, alpha)
            ax.semilogx(zeta[:-1], ratio[:-1], colour, ls=style, label=rf"$\eta$ = {eta:g}" if beta == 1 else None)
            if beta == 1:
                ax.axhline(linear.amplitude(spectrum, eta), color=colour, ls=":", lw=1.2)
                measured.append(ratio[-1])
    ax.set(xlabel=r"$2\eta s_1\alpha$", ylabel="exact / gradient flow", ylim=(0.8, 8), yscale="log")
    ax.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    ax.minorticks_off()
    ax.set_title(r"L = 2048, $\beta$ = 1; dashed: 0.3")
    ax.legend(frameon=False, loc="upper left", title=r"dotted: $2/(2-\eta)$", ncols=2)
    return measured


# %%
# Amplitudes and rates of the modes
# ---------------------------------
# Each rate lies between two eigenvalues: 0 to 1 in units of their distance.
def mode_panels(amplitudes, gaps):
    """Figs. 10 to 12 at beta = 1 and 0.1: amplitudes, and where each rate lies between its two eigenvalues."""
    L, inside = 500, {}
    j = np.arange(1, L + 1)
    for beta, style in ((1.0, "-"), (0.1, "--")):
        spectrum = ov.power_law(beta=beta, L=L)
        lower = np.append(spectrum.s[1:], 0.0)
        amplitudes.loglog(j, spectrum.s, "k:", label=r"$s_j$, the limit $\eta\to 0$" if beta == 1 else None)
        for eta, colour in zip(ETAS, COLOURS, strict=True):
            mu, c = linear.modes(spectrum, eta)
            label = rf"$\eta$ = {eta:g}" if beta == 1 else None
            amplitudes.loglog(j, c * L, colour, ls=style, label=label)
            inside[beta, eta] = (spectrum.s - mu) / (spectrum.s - lower)
            gaps.semilogx(j, inside[beta, eta], colour, ls=style, label=label)
    amplitudes.set(xlabel="mode j", ylabel=r"amplitude $L\,c_j$", title=r"L = 500, $\beta$ = 1; dashed: 0.1")
    gaps.set(xlabel="mode j", ylabel=r"$(s_j - \mu_j)/(s_j - s_{j+1})$", ylim=(0, 1), title="rates interlace: 0 to 1")
    amplitudes.legend(frameon=False)
    gaps.legend(frameon=False, loc="upper center")
    return inside


# %%
# Where the slowest mode stops
# ----------------------------
# At :math:`\eta_c = 2`, for every spectrum of mean one.
def threshold(ax):
    """The slowest rate against the learning rate."""
    etas, slowest = np.linspace(0.02, 2.2, 56), {}
    for beta, L, style in ((1.0, 10, "C0-"), (1.0, 500, "C3-"), (0.3, 500, "C2--")):
        spectrum = ov.power_law(beta=beta, L=L)
        ratio = [linear.modes(spectrum, eta).mu[-1] / spectrum.s[-1] for eta in etas]
        slowest[beta, L] = linear.modes(spectrum, 2.0).mu[-1]
        ax.plot(etas, ratio, style, label=rf"$\beta$ = {beta:g}, L = {L}")
    ax.axhline(0, color="k", lw=0.8)
    ax.axvline(2, color="k", lw=0.8, ls=":")
    ax.set(xlabel=r"learning rate $\eta$", ylabel=r"slowest rate $\mu_L / s_L$", ylim=(-1.2, 1.1))
    ax.set_title(r"$\eta_c = 2$ for every spectrum")
    ax.legend(frameon=False, loc="lower left")
    return slowest


# %%
# The best rate at fixed alpha
# ----------------------------
# :math:`2\beta / (1 + 2\beta)`, where :math:`\eta^{-\beta/(1+\beta)}\, 2/(2 - \eta)` has its minimum. At small beta the
# curve at any finite L is steeper than its power law, which favours larger rates.
def best_learning_rate(ax):
    """Error at fixed alpha, inside the window of all three spectra, against eta."""
    etas, fine, best = np.linspace(0.05, 1.9, 19), np.linspace(0.05, 1.9, 150), {}
    for beta, colour in ((0.5, "C2"), (1.0, "C1"), (1.5, "C3")):
        spectrum = ov.power_law(beta=beta, L=3000)
        error = np.array([linear.error(spectrum, eta, 0.05) for eta in etas])
        curve = PchipInterpolator(etas, np.log(error))
        found = minimize_scalar(
            lambda eta, spectrum=spectrum: linear.error(spectrum, eta, 0.05),
            bounds=etas[np.clip(np.argmin(error) + np.array([-1, 1]), 0, 18)],
            method="bounded",
            options={"xatol": 0.01},
        )
        best[beta] = found.x
        ax.semilogy(fine, np.exp(curve(fine)), colour, label=rf"$\beta$ = {beta:g}")
        ax.axvline(2 * beta / (1 + 2 * beta), color=colour, ls=":", lw=1.2)
        ax.plot(best[beta], found.fun, "o", color=colour, ms=5)
    ax.set(xlabel=r"learning rate $\eta$", ylabel=r"$\epsilon_g(\alpha = 0.05)$")
    ax.set_title(r"L = 3000; dotted: best $\eta = 2\beta/(1 + 2\beta)$")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.5, 1.0))
    return best


# %%
# Six panels
# ----------
# Top: curves, ratio to gradient flow, error against the rate. Bottom: amplitudes, rates, and the slowest rate.
fig, axes = plt.subplots(2, 3, figsize=(13, 7.4), layout="constrained")
learning_curve(axes[0, 0])
measured = amplitude(axes[0, 1])
best = best_learning_rate(axes[0, 2])
inside = mode_panels(axes[1, 0], axes[1, 1])
slowest = threshold(axes[1, 2])
fig.savefig("linear_large_eta.png", dpi=150)

# %%
# The checks
# ----------
for eta, ratio in zip(ETAS, measured, strict=True):
    print(f"eta = {eta:g}: exact / gradient flow = {ratio:.5f} in the window, theory {2 / (2 - eta):.5f}")
    assert abs(ratio * (2 - eta) / 2 - 1) < 2e-3
assert all(np.all((x > 0) & (x < 1)) for x in inside.values())
for (beta, L), mu in slowest.items():
    print(f"beta = {beta:g}, L = {L}: slowest rate at eta = 2 is {mu:.1e}")
    assert abs(mu) < 1e-12
for beta, eta in best.items():
    print(f"beta = {beta:g}: best learning rate {eta:.3f}, theory {2 * beta / (1 + 2 * beta):.3f}")
    assert abs(eta - 2 * beta / (1 + 2 * beta)) < (0.1 if beta < 1 else 0.05)
