"""
How long a single-index target hides
====================================

A unit on the sphere learns a target of one direction, the Hermite polynomial He_k, from a random start, whose overlap
with the teacher is of order 1/sqrt(N). The information exponent k decides how long nothing seems to happen: a time of
order ln N for k = 2, and N^(k/2 - 1) for k > 2. At k = 3 the noise of large steps keeps the student at the equator.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Escape from the equator
# -----------------------
# The teacher has the student's activation, and both have norm one. The escape is the time at which R = 1/2. In the
# limit of small rates it depends on eta alpha alone.
HERMITE = {2: ov.polynomial([-1.0, 0.0, 1.0]), 3: ov.polynomial([0.0, -3.0, 0.0, 1.0])}
SIZES, FRACTION = np.array([100, 300, 1000, 3000, 10_000]), 0.25  # rate, relative to the threshold of He3


def unit(k, eta, **options):
    return ov.committee_machine(1, 1, activation=HERMITE[k], eta=eta, constraint="sphere", **options)


def start(model, R):
    return ov.State.from_overlaps(model, Q=[[1.0]], R=[[R]], T=[[1.0]])


def escape(k, R0):
    """Time eta alpha at which gradient flow from the overlap R0 reaches R = 1/2."""
    model = unit(k, 1.0, gradient_flow=True)
    end = 1.0 / R0 if k == 3 else 3 * np.log(1 / R0)
    return ov.solve(model, start(model, R0), (0.0, end), stop=lambda alpha, state: state.R[0, 0] - 0.5).alpha[-1]


flow = {k: np.array([escape(k, N**-0.5) for N in SIZES]) for k in HERMITE}


def escape_of_sgd(k, N, runs=12):
    """Mean and standard error of eta alpha at which runs of SGD reach R = 1/2, and the same by the equations."""
    eta = FRACTION * N**-0.5 / 96
    model = unit(k, eta)
    times = np.linspace(0, 4 * escape(k, N**-0.5) / eta, 400)
    sgd = ov.simulate(model, N=N, alpha=times, rng=k, runs=runs, start=start(model, N**-0.5))
    first = np.argmax(sgd.R[:, :, 0, 0] > 0.5, axis=1)
    theory = ov.solve(model, start(model, N**-0.5), (0.0, times[-1]), stop=lambda alpha, x: x.R[0, 0] - 0.5)
    escaped = eta * times[first[first > 0]]
    return escaped.mean(), escaped.std() / np.sqrt(escaped.size), eta * theory.alpha[-1], escaped.size


runs = {(k, N): escape_of_sgd(k, N) for k in HERMITE for N in (100, 300)}

# %%
# The threshold of the rate
# -------------------------
# For small R and He3, dR/dalpha = 18 eta R^2 - 1728 eta^2 R: signal against the noise of the steps, which the sphere
# turns into a force towards the equator. Learning from R0 needs eta < R0 / 96.
RATIOS = np.array([0.5, 0.8, 0.9, 0.97, 1.03, 1.1, 1.3])
ENDS = {
    R0: np.array(
        [
            ov.solve(m, start(m, R0), [0.0, 20 / (m.eta * R0)]).R[-1, 0, 0]
            for m in (unit(3, x * R0 / 96) for x in RATIOS)
        ]
    )
    for R0 in (0.03, 0.1)
}

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for k, color in ((2, "C0"), (3, "C1")):
    left.loglog(SIZES, flow[k], "o-", color=color, label=f"He$_{k}$, gradient flow")
    points = [(N, *runs[k, N]) for N in (100, 300)]
    left.errorbar(
        [x[0] for x in points], [x[1] for x in points], [x[2] for x in points], fmt="s", color=color, mfc="w",
        label=f"He$_{k}$, SGD",
    )  # fmt: skip
left.loglog(SIZES, flow[3][0] * np.sqrt(SIZES / SIZES[0]), "k:", label=r"$\sqrt{N}$")
left.set(xlabel="N", ylabel=r"$\eta\alpha$ until $R = 1/2$, from $R_0 = N^{-1/2}$")
left.legend(fontsize="small")
for R0, ends in ENDS.items():
    right.plot(RATIOS, ends, "o-", label=f"$R_0 = {R0:g}$")
right.axvline(1, color="k", ls=":")
right.set(xlabel=r"$96\,\eta / R_0$", ylabel="R at the end, He$_3$")
right.legend()
fig.savefig("single_index.png", dpi=150)

# %%
# The checks
# ----------
slope = np.diff(np.log(flow[3]))[-1] / np.diff(np.log(SIZES))[-1]  # at the largest sizes
print(f"He3: escape ~ N^{slope:.3f}; He2: {np.diff(flow[2]) / np.diff(np.log(SIZES))} per ln N, expected 1/8")
assert abs(slope - 0.5) < 0.02
assert np.allclose(np.diff(flow[2]) / np.diff(np.log(SIZES)), 1 / 8, rtol=0.02)
for (k, N), (mean, error, theory, count) in runs.items():
    assert k == 3 or abs(mean / theory - 1) < 0.05
    print(f"He{k}, N = {N}: SGD {mean:.3g} +- {error:.2g} ({count} runs), equations {theory:.3g}")
assert all(np.all((ends > 0.99) == (RATIOS < 1)) for ends in ENDS.values())
