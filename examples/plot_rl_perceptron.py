r"""
The longer an episode, the later and the better it is learned
=============================================================

The RL perceptron makes T decisions, sgn(lambda), and then receives one reward if all of them agree with the teacher. An
episode is a sample of T inputs, and the closure of its force depends on one angle. Time is counted in episodes, and T =
13 has the same computational cost as T = 1 (Patel et al. 2023, arXiv:2306.10404).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Three lengths of an episode
# ---------------------------
# Only the rule differs. Each step of SGD uses T inputs.
TIMES, N = np.r_[0.0, np.geomspace(1.0, 1000.0, 60)], 400
LENGTHS, START = (1, 4, 13), dict(Q=[[1.0]], R=[[0.5]], T=[[1.0]])
models = {T: ov.learner(ov.rules.episode(T), eta=1.0) for T in LENGTHS}
starts = {T: ov.State.from_overlaps(models[T], **START) for T in LENGTHS}
flows = {T: ov.solve(models[T], starts[T], TIMES) for T in LENGTHS}
runs = {T: ov.simulate(models[T], N=N, alpha=TIMES[::6], rng=T, runs=8, start=starts[T]) for T in LENGTHS}

# %%
# Speed against accuracy, over the learning rate
# ----------------------------------------------
# On a sphere learning ends at an angle because of the noise of the steps; :func:`overlaps.theory.rules.episode_points`
# computes this angle. With a larger rate learning ends earlier and at a larger angle. A reward for nine of thirteen
# decisions is obtained earlier than a reward for all of them.
RULES = {"4 of 4": (4, 4), "13 of 13": (13, 13), "9 of 13": (13, 9)}
RATES, GOAL = np.geomspace(0.03, 3.0, 12), 0.72


def trade(rule, eta):
    """(1 / time until the accuracy is ``GOAL``, last accuracy) of a student of length 1."""
    model = ov.learner(rule, eta=eta, constraint="sphere")
    (end,) = ov.theory.rules.episode_points(rule, eta, Q=1.0)
    path = ov.solve(model, ov.State.from_overlaps(model, **START), np.geomspace(0.1, 3e4, 400))
    reached = np.interp(GOAL, 1 - path.eps_g, path.alpha) if end.accuracy > GOAL else np.inf
    return 1 / reached, end.accuracy


trades = {name: np.array([trade(ov.rules.episode(*rule), eta) for eta in RATES]) for name, rule in RULES.items()}

# %%
# Penalties create a trap
# -----------------------
# With a penalty for failed episodes the overlap of an uninformed student falls: below the unstable angle (dashed) it
# converges to the stable one (dotted), far from the teacher.
punished = ov.rules.episode(4, penalty=1.0)
strict = ov.learner(punished, eta=1.0)
trap, watershed = ov.theory.rules.episode_points(punished)
SHIFTS = (-0.3, -0.1, -0.02, 0.02, 0.1)
falls = []
for shift in SHIFTS:
    rho = watershed.rho + shift
    begin = ov.State.from_overlaps(strict, Q=[[watershed.Q]], R=[[rho * watershed.Q**0.5]], T=[[1.0]])
    falls.append(ov.solve(strict, begin, np.linspace(0, 15, 61)))

# %%
# Long episodes are slow to begin with, and accurate in the end
# -------------------------------------------------------------
# Left: the equations and eight runs of SGD at N = 400. Middle: each curve is one rule, each point a learning rate, the
# fastest on the right. Right: five starts under a penalty.
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for i, T in enumerate(LENGTHS):
    left.semilogx(TIMES[1:], 1 - flows[T].eps_g[1:], color=f"C{i}", label=f"T = {T}")
    left.errorbar(
        runs[T].alpha[1:],
        1 - runs[T].mean("eps_g")[1:],
        runs[T].standard_error("eps_g")[1:],
        fmt="o",
        color=f"C{i}",
        ms=4,
    )
left.set(xlabel=r"learning time $\alpha$, episodes / N", ylabel="accuracy", title="all T answers right")
left.legend(frameon=False)
for name, points in trades.items():
    fast = points[:, 0] > 0
    middle.semilogx(points[fast, 0], points[fast, 1], "o-", ms=4, label=name)
middle.set(xlabel=f"1 / time to accuracy {GOAL}", ylabel="last accuracy", title="fixed length, over the learning rate")
middle.legend(frameon=False)
for shift, fall in zip(SHIFTS, falls, strict=True):
    right.plot(fall.alpha, 1 - fall.eps_g, color="C0" if shift > 0 else "C3")
right.axhline(watershed.accuracy, color="0.3", ls="--", lw=1)
right.axhline(trap.accuracy, color="0.3", ls=":", lw=1)
right.set(xlabel=r"learning time $\alpha$", ylabel="accuracy", title="4 of 4, penalty 1")
for ax in (left, middle, right):
    ax.grid(alpha=0.25)
fig.savefig("rl_perceptron.png", dpi=150)

# %%
# The checks
# ----------
# SGD follows the equations; faster learning ends at a larger error; starts on either side of the unstable angle end at
# different points.
for T in LENGTHS:
    gaps = np.abs(runs[T].mean("eps_g") - np.interp(runs[T].alpha, TIMES, flows[T].eps_g))[1:]
    errors = gaps / runs[T].standard_error("eps_g")[1:]
    print(f"T = {T}: accuracy {1 - flows[T].eps_g[-1]:.3f}; SGD within {errors.max():.1f} standard errors")
    assert errors.max() < 6  # maximum over ten numbers of eight runs each, at N = 400
for points in trades.values():
    assert np.all(np.diff(points[:, 1]) < 0)
ends = [1 - fall.eps_g[-1] for fall in falls]
print(f"penalty: trap at {trap.accuracy:.3f}, watershed at {watershed.accuracy:.3f}, ends {np.round(ends, 3)}")
assert np.all(np.array(ends)[:3] < watershed.accuracy) and np.all(np.array(ends)[3:] > watershed.accuracy)
