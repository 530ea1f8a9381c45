r"""
Annealing beats every decay against label noise
===============================================

A linear student on power-law data (beta = 1, teacher delta = 1/2) whose labels are noisy. With a constant learning rate
the error reaches a floor. With a decaying rate :math:`(1 + \alpha/\tau)^{-w}` it keeps falling, and :math:`w = g/(1+g)`
is optimal at all times. With an annealed rate, :math:`(1 - \alpha/T)^3`, which is zero at a given horizon T, the error
is smaller still.
"""

import dataclasses

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize_scalar

from overlaps.theory.scaling import Law

# %%
# Constant, decaying, annealed
# ----------------------------
# Every annealed error is the end of a separate run; the best starting rate for each horizon reaches the exponent
# :math:`\gamma/(1 + \gamma)`, :math:`\gamma = \beta + 2\delta`.
LAW = Law(1.0, 0.5, L=3000, eta=0.5, noise=0.5)
UNIT = 1 / (2 * LAW.eta * LAW.spectrum.s[0])  # alpha for zeta = 1
TAU = 1 / LAW.spectrum.s[0]
ENDS = np.array([1e5, 1e6])


def slope(values, times):
    return np.log(values[-1] / values[0]) / np.log(times[-1] / times[0])


def tuned(horizon):
    """Error of annealing from the best rate for this horizon."""

    def end(ln_eta):
        return dataclasses.replace(LAW, eta=np.exp(ln_eta)).annealed(horizon, power=3.0)

    return minimize_scalar(end, bounds=(-3.5, 0.0), method="bounded", options={"xatol": 0.4}).fun


def curves(ax):
    zeta, slopes = np.geomspace(10, 1e6, 61), {}
    runs = {"constant rate": LAW.error(UNIT * zeta)}
    for power in (0.25, 0.5, 0.75):
        runs[f"decay, $w$ = {power:g}"] = LAW.decayed(UNIT * zeta, power=power, tau=TAU)
    for (name, values), colour in zip(runs.items(), ("0.4", "C1", "C0", "C3"), strict=True):
        ax.loglog(zeta, values, colour, lw=2, label=name)
        slopes[name] = slope(values[-11:], zeta[-11:])
    horizons = np.geomspace(1e2, 1e6, 5)
    annealed = LAW.annealed(UNIT * horizons, power=3.0)
    few = horizons[[2, 3]]
    best = np.array([tuned(UNIT * T) for T in few])
    ax.loglog(horizons, annealed, "C2o", ms=5, mfc="none", label="annealed to zero at the end")
    ax.loglog(few, best, "kD", ms=4, label="annealed from the best rate")
    slopes["annealed"], slopes["tuned"] = slope(annealed[-2:], horizons[-2:]), slope(best[-2:], few[-2:])
    ax.set(xlabel=r"$\zeta = 2\eta s_1\alpha$", ylabel=r"$\epsilon_g$", title=r"label noise $\sigma$ = 0.5")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    return slopes


# %%
# Exponents
# ---------
# Decays have :math:`\min(w, g(1 - w))`, annealing at a fixed rate :math:`\min(g, b, w/(1+w))`.
def exponents(ax, slopes):
    """Measured and predicted exponents; those of the other panel are drawn again."""
    g, b = LAW.exponents.time, LAW.exponents.kernel - 1
    laws = {
        "C0": (lambda w: np.minimum(w, g * (1 - w)), r"decay: $\min(w, g(1 - w))$", [0.1, 0.4, 0.6]),
        "C2": (
            lambda w: np.minimum(min(g, b), w / (1 + w)),
            r"annealing: $\min(g, b, w/(1 + w))$",
            [0.25, 0.5, 2.0],
        ),
    }
    found = {("C0", w): -slopes[f"decay, $w$ = {w:g}"] for w in (0.25, 0.5, 0.75)} | {("C2", 3.0): -slopes["annealed"]}
    for colour, (law, label, powers) in laws.items():
        fine = np.linspace(0.0, 1.0 if colour == "C0" else 3.2, 200)
        ax.plot(fine, law(fine), colour, label=label)
        for w in powers:
            values = (
                LAW.decayed(UNIT * ENDS, power=w, tau=TAU) if colour == "C0" else LAW.annealed(UNIT * ENDS, power=w)
            )
            found[colour, w] = -slope(values, ENDS)
        for (of, w), measured in found.items():
            if of == colour:
                found[of, w] = measured, law(w)
                ax.plot(w, measured, colour, marker="o", ms=5)
    ax.set(xlabel="power $w$ of the schedule", ylabel="exponent of the error", ylim=(0, 0.75))
    ax.set_title(r"lines: theory; markers: $\zeta = 10^5$ to $10^6$")
    ax.legend(frameon=False)
    return found


# %%
# Schedules and their exponents
# -----------------------------
# Left: errors; circles and diamonds are ends of annealed runs, from a fixed and from the best rate. Right: exponents
# between :math:`\zeta = 10^5` and :math:`10^6` against the power of the schedule.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
slopes = curves(left)
found = exponents(right, slopes)
for ax in (left, right):
    ax.grid(alpha=0.25)
fig.savefig("scaling_schedules.png", dpi=150)

# %%
# The checks
# ----------
print(", ".join(f"{name}: {value:.3f}" for name, value in slopes.items()))
assert abs(slopes["constant rate"]) < 0.02  # its floor
assert abs(slopes["decay, $w$ = 0.5"] + 0.504) < 0.005  # theory 1/2
assert abs(slopes["decay, $w$ = 0.25"] + 0.25) < 0.02 and abs(slopes["decay, $w$ = 0.75"] + 0.25) < 0.02
assert abs(slopes["annealed"] + 0.5) < 0.02 and abs(slopes["tuned"] + LAW.exponents.annealed) < 0.03
for (colour, w), (measured, theory) in found.items():
    print(f"{'decay' if colour == 'C0' else 'annealing'}, w = {w:g}: {measured:.3f}, theory {theory:.3f}")
    assert abs(measured - theory) < (0.02 if w in (0.25, 0.5, 0.75, 3.0) else 0.06)  # other exponents are reached late
