r"""
SGD leaves the equations when one step moves the top direction
==============================================================

The equations are the limit of SGD for :math:`\eta \max(s)/N \to 0`. With as many eigenvalues as inputs, L = N, a
power-law spectrum has :math:`\max(s)/N = 1/\zeta(1 + \beta)`, which is not small: one step moves the top direction by a
finite amount, however large N. The mean of SGD then obeys another recursion, which is exact at any N. Worschech and
Rosenow (2024), arXiv:2410.09005, Fig. 2, right.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import brentq
from scipy.special import zeta

import overlaps as ov
from overlaps.theory import linear

warnings.filterwarnings("ignore", message="eta max")  # the subject of this example: steps too large for the ODE


# %%
# A small learning rate
# ---------------------
# Sum, integral, power law, recursion and SGD from w = 0 agree at beta = 0.75, eta = 0.1, N = L = 256, as in the paper.
def run_sgd(spectrum, eta, N, alpha, runs):
    """Errors (runs, n) of SGD from w = 0, with teachers of the mean length in every block."""
    model = ov.committee_machine(1, 1, activation=ov.linear, spectrum=spectrum, eta=eta)
    t = spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=0 * t, r=0 * t, t=t)
    return ov.simulate(model, N=N, alpha=alpha, rng=1, runs=runs, start=start).eps_g


def small_learning_rate(ax):
    beta, N, eta, scale = 0.75, 256, 0.1, 0.0
    spectrum, alpha = ov.power_law(beta=beta, L=N), np.geomspace(0.02, 1e3, 60)
    steps = np.unique(np.rint(alpha * N))
    recursion = linear.sgd_mean(spectrum, eta, steps, N=N, student_scale=scale)
    recorded = np.concatenate([[0], np.geomspace(0.05, 50, 16)])
    runs = run_sgd(spectrum, eta, N, recorded, 8)
    ax.loglog(alpha, linear.flow_error(spectrum, eta, alpha, student_scale=scale), "C0", lw=3, alpha=0.5, label="sum")
    integral = linear.integral_error(beta, N, eta, alpha, student_scale=scale)
    ax.loglog(alpha, integral, "k--", lw=1.2, label="integral")
    power = linear.power_law_error(beta, N, eta, alpha, student_scale=scale)
    ax.loglog(alpha, power, "k:", lw=1.2, label=r"power law, $\beta/(1+\beta)$ = 3/7")
    ax.loglog(steps / N, recursion, "C3", lw=1.2, label="mean of SGD (recursion)")
    ax.loglog(recorded[1:], runs.mean(0)[1:], "C3o", ms=4, label="SGD, 8 runs")
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", ylim=(1e-3, 1))
    ax.set_title(r"$\eta$ = 0.1, $\beta$ = 0.75, $N = L = 256$")
    ax.legend(frameon=False, loc="lower left")
    return [window_slope(beta, L, eta) for L in (N, 100_000)]


def window_slope(beta, L, eta):
    """Fitted slope in the decade above 10 times the beginning of the window."""
    alpha = linear.window(beta, L, eta)[0] * np.geomspace(10, 100, 20)
    curve = linear.flow_error(ov.power_law(beta=beta, L=L), eta, alpha)
    return np.polyfit(np.log(alpha), np.log(curve), 1)[0]


# %%
# Larger ones
# -----------
# SGD follows the recursion and not the equations.
def large_learning_rates(ax):
    N, alpha = 64, np.concatenate([[0], np.geomspace(0.1, 10, 10)])
    spectrum, distances = ov.power_law(beta=1.0, L=N), {}
    fine = np.unique(np.rint(np.geomspace(0.05, 40, 60) * N))
    for eta, colour in ((0.1, "C0"), (0.4, "C2"), (0.7, "C3")):
        runs = run_sgd(spectrum, eta, N, alpha, 100)
        mean, error = runs.mean(0), runs.std(0) / np.sqrt(len(runs))
        steps = np.rint(alpha * N)
        recursion = linear.sgd_mean(spectrum, eta, steps, N=N, student_scale=0.0)
        ax.loglog(
            fine / N, linear.sgd_mean(spectrum, eta, fine, N=N, student_scale=0.0), colour, label=rf"$\eta$ = {eta:g}"
        )
        ax.loglog(fine / N, linear.error(spectrum, eta, fine / N, student_scale=0.0), colour, ls="--", lw=1.2)
        ax.errorbar(alpha[1:], mean[1:], error[1:], fmt="o", color=colour, ms=4, capsize=2)
        deviation = (mean - recursion)[1:] / error[1:]
        distances[eta] = (
            np.sqrt(np.mean(deviation**2)),
            recursion[-1] / linear.error(spectrum, eta, alpha[-1], student_scale=0.0),
        )
    ax.plot([], [], "k-", label="mean of SGD (recursion)")
    ax.plot([], [], "k--", label="ODE")
    ax.plot([], [], "ko", ms=4, label="SGD, 100 runs")
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", ylim=(1.2e-3, 0.7))
    ax.set_title(rf"$\beta$ = 1, $N = L = {N}$")
    ax.legend(frameon=False, loc="lower left")
    return distances


# %%
# The critical learning rate
# --------------------------
# Its limit is 2 only if L stays finite. For L = N the limit is the root of a scalar equation.
def critical_learning_rates(ax):
    sizes, limits = 2 ** np.arange(2, 15), {}
    for beta, colour in ((0.3, "C0"), (0.75, "C2"), (1.0, "C1"), (1.5, "C3")):
        values = [linear.eta_critical(ov.power_law(beta=beta, L=N), N=int(N)) for N in sizes]
        ax.semilogx(sizes, values, "o-", color=colour, ms=4, label=rf"$\beta$ = {beta:g}, $L = N$")
        limits[beta] = values[-1]
    fixed = ov.power_law(beta=1.0, L=4)
    values = [linear.eta_critical(fixed, N=int(N)) for N in sizes]
    ax.semilogx(sizes, values, "s--", color="C1", ms=4, label=r"$\beta$ = 1, $L = 4$")
    ax.axhline(2, color="k", lw=0.8, ls=":")
    ax.set(xlabel=r"input dimension $N$", ylabel=r"critical learning rate $\eta_c$", ylim=(0, 2.1))
    ax.set_title(r"ODE: $\eta_c = 2$")
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.0))
    return limits, values[-1]


def limit_of_eta_critical(beta):
    """L = N -> infinity: x_l = s_l/N = l^-(1+beta) / zeta(1+beta), and 1 = (eta/2) sum_l x_l / (1 - eta x_l)."""
    x = np.arange(1.0, 10**6) ** -(1 + beta) / zeta(1 + beta)
    return brentq(lambda eta: eta / 2 * np.sum(x / (1 - eta * x)) - 1, 1e-3, 0.999 / x[0])


# %%
# Agreement, departure, and where learning ends
# ---------------------------------------------
# Left: eta = 0.1. Middle: larger rates. Right: the critical learning rate against N.
fig, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
slopes = small_learning_rate(axes[0])
distances = large_learning_rates(axes[1])
limits, fixed = critical_learning_rates(axes[2])
fig.savefig("linear_finite_size.png", dpi=150)

# %%
# The checks
# ----------
print(f"slope in the window: L = 256 {slopes[0]:.3f}, L = 1e5 {slopes[1]:.4f}; theory {-0.75 / 1.75:.4f}")
assert abs(slopes[1] + 0.75 / 1.75) < 0.01 and abs(slopes[0] + 0.75 / 1.75) < 0.1
for eta, (deviation, ratio) in distances.items():
    print(f"eta = {eta:g}: SGD is {deviation:.2f} standard errors from its mean; mean / ODE = {ratio:.2f} at the end")
    assert deviation < 3
assert distances[0.7][1] > 1.3
for beta in (0.75, 1.0, 1.5):
    print(f"beta = {beta:g}: eta_c(N = L = {2**14}) = {limits[beta]:.4f}; limit {limit_of_eta_critical(beta):.4f}")
    assert abs(limits[beta] / limit_of_eta_critical(beta) - 1) < 0.01
print(f"L = 4: eta_c = {fixed:.4f}")
assert abs(fixed - 2) < 1e-3
