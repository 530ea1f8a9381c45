r"""
Annealing reaches the exponent of noiseless learning
====================================================

A linear unit learns from noisy labels, on inputs with a power-law spectrum (beta = 1, 512 eigenvalues). Small
eigenvalues need many fast steps, and fast steps leave noise behind: the error of the best constant rate falls as
:math:`\alpha_f^{-\beta/(1+2\beta)}`, while the error of a rate that falls to zero at the horizon :math:`\alpha_f` falls
as :math:`\alpha_f^{-\beta/(1+\beta)}`. Derived for this library. Li et al. (2026), arXiv:2602.06797, find the same
power of :math:`1 - \alpha/\alpha_f`, 2 c - 1 at a capacity exponent c = 1 + beta; the peak does not depend on the
horizon at this source exponent, 1 - 1/c. Polynomial decay for random features: Bordelon and Mori (2026),
arXiv:2602.04774.
"""

import sys
import warnings
from inspect import currentframe
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize_scalar

import overlaps as ov

# %%
# The optimum over all rates
# --------------------------
# The rates are piecewise linear between 32 knots. ``ov.optimal_schedule`` found them in 120 iterations from the cubic.
# They are stored, and their errors are computed here; ``python examples/plot_annealing_power_law.py --search`` repeats
# the search, in 20 seconds per horizon.
HORIZONS = np.array([3.0, 10.0, 30.0, 100.0])
MODEL = ov.committee_machine(
    1, 1, activation=ov.linear, eta=1.0, noise=1.0, spectrum=ov.power_law(beta=1.0, L=512)
)  # fmt: skip
P = MODEL.spectrum.p[:, None, None]
START = ov.State.from_blocks(MODEL, q=P, r=0 * P, t=P)  # m_l(0) = 2 p_l
LEFT = 1 - np.arange(32) / 31  # fraction of the horizon left at each knot, cubed in the schedule
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "annealing_power_law.npz"
COMMAND = "python examples/plot_annealing_power_law.py --search"


def search():
    """Stored optimal rates (horizons, knots)."""
    eta = []
    for horizon in HORIZONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # upper bounds: 1e-3 above the optimum at alpha_f = 100
            knots = horizon * (1 - LEFT**3)
            best = ov.optimal_schedule(MODEL, START, horizon, knots=knots, initial=1.086 * LEFT**9, maxiter=120)
        eta.append(best.eta)
    np.savez(STORED, command=COMMAND, eta=np.array(eta))


def optimum(horizon, eta):
    """eps_g at the horizon under the stored rate."""
    return ov.schedule_gradient(MODEL, START, ov.Schedule(horizon * (1 - LEFT**3), eta), horizon)[0]


# %%
# The best constant rate, and a cubic
# -----------------------------------
# The contribution of the noise of a step decays as :math:`\tau^{-1-\chi}`, :math:`\chi = \beta / (1 + \beta)`, with the
# integral :math:`\tau` of the rate since this step, so that early noise has little effect. The optimal rate at a given
# total :math:`\tau` falls as
#
# .. math:: \eta(\alpha) \propto (1 - \alpha/\alpha_f)^{1 + 2\beta}.
def best_constant(horizon):
    """(eta, eps_g) of the best constant rate, by the closed form."""

    def error(log_eta):
        return ov.theory.linear.error(MODEL.spectrum, np.exp(log_eta), [horizon], noise=1.0)[0]

    found = minimize_scalar(error, bounds=np.log([1e-3, 1.5]), method="bounded", options={"xatol": 1e-6})
    return np.exp(found.x), found.fun


def annealed(horizon, peak=1.086, records=2):
    """Solution under the rate peak (1 - alpha / horizon)^3, a product of three straight lines."""
    line = ov.Schedule([0.0, horizon], [1.0, 0.0])
    model = MODEL.replace(eta=peak)
    times = np.linspace(0, horizon, records)
    return ov.solve(model, START, times, schedule=line * line * line, method="structured", rtol=1e-7, blocks=False)


constant = np.array([best_constant(horizon) for horizon in HORIZONS])
falling = np.array([annealed(horizon).eps_g[-1] for horizon in HORIZONS])
if "--search" in sys.argv:
    search()
rates = np.load(STORED)["eta"]
best = np.array([optimum(horizon, eta) for horizon, eta in zip(HORIZONS, rates, strict=True)])

# %%
# Errors at the horizon, rates, learning curves
# ---------------------------------------------
# Left: exponents 0.35 and 0.53 between horizons of 3 and 30 (theory 1/3 and 1/2), because the power-law window is
# finite. The optimum (diamonds) is 5 to 8 % below. Middle: the optimal rates nearly collapse onto one curve, which
# falls more slowly than the cubic, the limit of much longer windows. Right: at the fast rate the error first falls
# quickly and then stays at a noise level; when the rate falls, the error falls far below that of the best constant
# rate.
whole = annealed(HORIZONS[-1], records=201)
later = whole.alpha[1:]
error = ov.theory.linear.error(MODEL.spectrum, constant[-1, 0], later, noise=1.0)
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
left.loglog(HORIZONS, constant[:, 1], "o-", label="best constant rate")
left.loglog(HORIZONS, falling, "s-", label=r"$\eta \propto (1 - \alpha/\alpha_f)^3$")
left.loglog(HORIZONS, best, "d-", ms=4, label="optimum")
for horizon, eta in zip(HORIZONS, rates, strict=True):
    middle.plot(1 - LEFT**3, eta, label=rf"$\alpha_f$ = {horizon:g}")
x = np.linspace(0, 1, 101)
middle.plot(x, 1.086 * (1 - x) ** 3, "k--", lw=1, label=r"1.086 $(1 - \alpha/\alpha_f)^3$")
middle.set(xlabel=r"$\alpha/\alpha_f$", ylabel=r"$\eta$", title="optimal rates")
for curve, exponent in ((constant[:, 1], 1 / 3), (falling, 1 / 2)):
    left.loglog(HORIZONS, curve[0] * (HORIZONS / 3) ** -exponent, ":", color="0.6", zorder=0)
left.set(xlabel=r"horizon $\alpha_f$", ylabel=r"$\epsilon_g$ at the horizon", title="dotted: exponents 1/3 and 1/2")
right.loglog(later, error, label=rf"$\eta$ = {constant[-1, 0]:.3f}")
right.loglog(later, whole.eps_g[1:], label=r"$\eta = 1.086\,(1 - \alpha/100)^3$")
right.set(xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$", title="on the way to the longest horizon")
for ax in (left, middle, right):
    ax.legend(frameon=False)
    ax.grid(alpha=0.25)
fig.savefig("annealing_power_law.png", dpi=150)

# %%
# The checks
# ----------
for horizon, (eta, error), annealing, least in zip(HORIZONS, constant, falling, best, strict=True):
    print(f"alpha_f = {horizon:g}: constant {error:.7f} (eta = {eta:.4f})")
    print(f"    annealed {annealing:.5f}, best {least:.7f}")
# an independent program found the first; the second is a Runge-Kutta integration of the m_l with 20000 equal steps
assert np.allclose(constant[:, 1], [0.0646063, 0.0424700, 0.0289142, 0.0188797], rtol=1e-5)
assert np.isclose(falling[0], 0.03734376, rtol=1e-5)
# the optima of the independent code: upper bounds, as these are
assert np.allclose(best, [0.0342150, 0.0186007, 0.0104165, 0.0052729], rtol=2e-3) and np.all(best < falling)
assert np.all(np.abs(best / falling - 0.933) < 0.02)
slopes = [np.log(curve[0] / curve[2]) / np.log(10) for curve in (constant[:, 1], falling)]
print(f"exponents between 3 and 30: {slopes[0]:.3f}, {slopes[1]:.3f}")
assert abs(slopes[0] - 0.35) < 0.01 and abs(slopes[1] - 0.52) < 0.02
