"""
Theory and trajectories lose the solution at the same rate
==========================================================

:func:`overlaps.critical_eta` follows a fixed point of the flow in the learning rate until it loses stability.
Trajectories that begin beside the fixed point confirm every rate: they converge below it and leave beyond it. Quadratic
networks: Bocchi et al. (2026), arXiv:2604.03068 (no critical rates there). Saad and Solla (1995), Phys. Rev. E 52,
4225, for erf.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# The rate, and trajectories on both sides of it
# ----------------------------------------------
# Below the critical rate the fixed point is followed to the learning rate of the trajectory. Beyond it there may be no
# fixed point, and trajectories begin beside the last one. One batch of :func:`overlaps.solve_many` runs all four.
BESIDE = np.array([0.9, 0.96, 1.04, 1.1])  # learning rates in units of the critical one
KICK = 1e-3  # size of the perturbation of the weights at the start of a trajectory


def kicked(model, state, rng):
    """A state whose students differ from those of ``state`` by small random vectors."""
    K, P = model.K, model.K + model.M
    values, vectors = np.linalg.eigh(state.S)
    W = np.hstack([vectors * np.sqrt(np.maximum(values, 0.0)), np.zeros((P, P))])
    W[:K] += KICK * rng.standard_normal((K, 2 * P))
    S = W @ W.T
    return ov.State.from_overlaps(model, Q=S[:K, :K], R=S[:K, K:], T=S[K:, K:])


def critical(model):
    """Critical rate of perfect learning (with label noise: of the fixed point near it), and the fate of trajectories.

    Trajectories begin beside the fixed point. One converges if its final eps_g is closer to that of the fixed point
    than its initial eps_g.
    """
    W = np.eye(model.K, model.M) * np.sqrt(model.v_star[0] / model.v[0])  # students that are teachers, the others zero
    guess = ov.State.from_overlaps(model, Q=W @ W.T, R=W, T=np.eye(model.M))
    state = ov.fixed_point(model, guess).state
    limit = ov.critical_eta(model, state)
    models = [model.replace(eta=float(eta)) for eta in BESIDE * limit]
    states = []
    for there in models[:2]:
        for eta in np.linspace(model.eta, there.eta, 5)[1:]:  # followed from below
            state = ov.fixed_point(model.replace(eta=float(eta)), state).state
        states.append(state)
    states += [limit.mode.state] * 2  # beyond the critical rate there may be none
    starts = [kicked(x, state, np.random.default_rng(1)) for x, state in zip(models, states, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some diverge, as they should
        batch = ov.solve_many(models, starts, [0.0, 400.0 / limit])
    rest = [ov.closure(x, s.Q, s.R, s.T).eps_g for x, s in zip(models, states, strict=True)]
    excess = np.abs(batch.eps_g - np.array(rest)[:, None])
    return limit, batch.success & (excess[:, -1] < excess[:, 0])


# %%
# Width and label noise
# ---------------------
# Left: the rate at which perfect learning becomes unstable, against the width of the student, for quadratic networks,
# where it is :math:`K M / (2 (M + 2))` (dotted), and soft committee machines (erf, K = M). Right: against label noise,
# K = M = 2, where students learn the teacher up to an error that grows with the noise. Full triangles converge, open
# ones leave or diverge.
def draw(ax, x, found, color, label):
    ax.plot(x, [float(limit) for limit, _ in found], color + "-", lw=1, label=label)
    for at, (limit, learned) in zip(x, found, strict=True):
        for factor, good in zip(BESIDE, learned, strict=True):
            ax.plot(at, factor * limit, color + ("v" if factor < 1 else "^"), mfc=color if good else "none", ms=4)


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
widths, found = np.arange(1, 7), {}
for i, M in enumerate((1, 2, 3)):
    some = widths[widths >= M]
    found[f"quadratic, M = {M}"] = [critical(ov.quadratic_network(int(K), M, eta=0.05)) for K in some]
    draw(left, some, found[f"quadratic, M = {M}"], f"C{i}", f"quadratic, M = {M}")
    left.plot(some, [quadratic.eta_solution(int(K), M) for K in some], "k:", lw=2)
found["erf, M = K"] = [critical(ov.committee_machine(int(K), int(K), eta=0.5)) for K in widths[:5]]
draw(left, widths[:5], found["erf, M = K"], "C3", "erf, M = K")
left.set(xlabel="student width K", ylabel=r"$\eta_c$", yscale="log", title="perfect learning")
left.legend(frameon=False)
noises = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
for color, M in (("C0", 1), ("C1", 2)):
    label = f"quadratic, K = M = {M}"
    found[label] = [critical(ov.quadratic_network(M, M, eta=0.05, noise=sigma)) for sigma in noises]
    draw(right, noises, found[label], color, label)
right.set(xlabel="standard deviation of the label noise", ylabel=r"$\eta_c$", title="with label noise")
right.legend(frameon=False)
fig.savefig("critical_rates.png", dpi=150)

# %%
# The checks
# ----------
for label, rows in found.items():
    print(label, "eta_c:", [f"{float(limit):.6g} ({limit.kind})" for limit, _ in rows])
    for limit, learned in rows:
        assert learned.tolist() == [True, True, False, False], (label, limit, learned)
for M in (1, 2, 3):
    closed = [quadratic.eta_solution(int(K), M) for K in widths[widths >= M]]
    assert np.allclose([float(x) for x, _ in found[f"quadratic, M = {M}"]], closed, rtol=1e-6)
for M in (1, 2):
    rates = [float(x) for x, _ in found[f"quadratic, K = M = {M}"]]
    assert np.all(np.diff(rates) < 0)
