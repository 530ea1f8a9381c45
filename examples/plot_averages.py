r"""
An average of the weights lowers the floor; a memory that grows changes the exponent
====================================================================================

Programs evaluate averages of their weights and add momentum to their steps. If these remember of the order of N steps,
they are further vectors beside the students, with equations as exact as those of SGD.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Averages of a noisy network
# ---------------------------
# Two students of two teachers, with label noise, which soon dominates the error of SGD. Its exponential average, of
# rate 0.5, and the mean of schedule-free SGD end below. A heavy ball only delays SGD.
MODEL = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
STATE = ov.State.from_overlaps(MODEL, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
TIMES = np.linspace(0, 40, 201)
PAIRS = {
    "average": (ov.memory.average(MODEL, STATE, rate=0.5), [0, 1]),
    "heavy ball": (ov.memory.momentum(MODEL, STATE, rate=1.0), [1, 0]),
    "schedule-free": (ov.memory.schedule_free(MODEL, STATE), [1, 0]),
}
curves = {name: ov.solve(*pair, TIMES) for name, (pair, _) in PAIRS.items()}
runs = {
    name: ov.simulate(pair[0], N=500, alpha=TIMES[::20], rng=1, runs=10, start=pair[1])
    for name, (pair, _) in PAIRS.items()
}

# %%
# A memory that grows
# -------------------
# Linear units on power-law inputs. The memory forgets at the rate 4/(1 + alpha), so that its length grows like the
# time: dimension-adapted Nesterov acceleration.
L = 256
LAW = ov.committee_machine(1, 1, activation="linear", eta=1.0, spectrum=ov.power_law(beta=1.0, L=L))
ZERO = np.zeros((L, 1, 1))
BEGIN = ov.State.from_blocks(LAW, q=ZERO, r=ZERO, t=LAW.spectrum.p[:, None, None])
LATE = np.geomspace(0.3, 50, 61)
laws = {
    "SGD": ov.solve(LAW.replace(eta=0.1), BEGIN, LATE),
    "constant memory": ov.solve(*ov.memory.momentum(LAW, BEGIN, rate=1.0, direct=0.1, gain=0.1), LATE),
    "growing memory": ov.solve(
        *ov.memory.momentum(LAW, BEGIN, rate=lambda alpha: 4 / (1 + alpha), direct=0.1, gain=0.1), LATE
    ),
}

# %%
# Errors, and local exponents
# ---------------------------
# Left: equations (lines) and SGD at N = 500 (dots). Right: local exponents of the error on power-law inputs.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(TIMES, curves["average"].eps_g, "k", label="SGD")
for i, (name, (_, family)) in enumerate(PAIRS.items()):
    left.plot(TIMES, curves[name].reading_error(family), color=f"C{i}", label=name)
    error = runs[name].reading_error(family)
    left.errorbar(
        runs[name].alpha, error.mean(axis=0), 2 * error.std(axis=0, ddof=1) / np.sqrt(10), fmt="o", color=f"C{i}", ms=4
    )
left.set(yscale="log", xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$")
slopes = {name: -traj.slope() for name, traj in laws.items()}
for (name, slope), color in zip(slopes.items(), ("k", "C1", "C3"), strict=True):
    right.plot(LATE[1:-1], slope[1:-1], color=color, label=name)
right.set(xscale="log", xlabel=r"learning time $\alpha$", ylabel=r"local exponent of $\epsilon_g$", ylim=(0, 1.6))
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
fig.savefig("averages.png", dpi=150)

# %%
# The checks
# ----------
# Students learn as without their average, whose floor is lower. In the end a heavy ball is SGD. The exponent of a
# growing memory exceeds that of SGD.
plain = ov.solve(MODEL, STATE, TIMES)
assert np.allclose(curves["average"].eps_g, plain.eps_g, rtol=1e-6)
ends = {name: curves[name].reading_error(family)[-1] for name, (_, family) in PAIRS.items()}
print("errors at the end:", {name: float(f"{x:.4g}") for name, x in ends.items()}, "SGD", plain.eps_g[-1])
assert ends["average"] < 0.7 * plain.eps_g[-1] and ends["schedule-free"] < 0.7 * plain.eps_g[-1]
print("local exponents at alpha = 30:", {name: round(float(np.interp(30, LATE, x)), 3) for name, x in slopes.items()})
assert np.interp(30, LATE, slopes["growing memory"]) > 1.3 * np.interp(30, LATE, slopes["SGD"])
for name, (_, family) in PAIRS.items():
    found, expected = runs[name].reading_error(family)[:, 1:], curves[name].reading_error(family)[20::20]
    gap = np.abs(found.mean(axis=0) - expected) / (found.std(axis=0, ddof=1) / np.sqrt(10))
    assert gap.max() < 5
