r"""
One trained direction learns what units have in common; the rest takes full rank
================================================================================

A network is frozen, and the teacher of a new task resembles its teacher. Low-rank adaptation adds trained directions to
the frozen weights, :math:`w_k = w^0_k + \sum_r a_{kr} u_r`. One direction removes nine tenths of the error. Then the
error of each rank stays on a plateau, and trained amplitudes leave it.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# The frozen network
# ------------------
# Three units have learned a teacher. The next teacher has the same norms and a correlation of 0.6 with it, unit by
# unit. The students of this state are the frozen weights.
K, NEAR = 3, 0.6
NETWORK = ov.committee_machine(K, K, eta=0.5, noise=0.1)
FROZEN = ov.State.from_overlaps(NETWORK, Q=np.eye(K), R=NEAR * np.eye(K), T=np.eye(K))
TIMES = np.linspace(0, 60, 61)
TURN = np.linalg.qr(np.array([[1.0, 0.4, -0.3], [0.5, -1.0, 0.2], [0.6, 0.3, 1.0]]))[0]


# %%
# Rank and amplitudes
# -------------------
# Directions begin at zero, along orthonormal rows of amplitudes. The amplitudes are fixed, or learn like a second
# layer.
def adapted(rank, eta_a):
    """(Model, start) of the adaptation with the first columns of TURN."""
    return ov.low_rank(NETWORK, FROZEN, a=TURN[:, :rank], X=np.zeros((rank, rank)), eta_a=eta_a)


curves = {(rank, eta_a): ov.solve(*adapted(rank, eta_a), TIMES) for rank in (1, 2, 3) for eta_a in (0.0, 0.5)}
whole = ov.solve(NETWORK, FROZEN, TIMES)
model, start = adapted(1, 0.5)
runs = ov.simulate(model, N=1000, alpha=TIMES[::10], rng=1, runs=12, start=start)

# %%
# Error on the new task
# ---------------------
# Left: fixed amplitudes (dashed), trained ones (lines), SGD (dots); black: all weights are trained. Right: the trained
# amplitudes of rank 1.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for (rank, eta_a), traj in curves.items():
    label = f"rank {rank}" if eta_a else None
    left.plot(TIMES, traj.eps_g, color=f"C{rank - 1}", ls="-" if eta_a else "--", label=label)
left.errorbar(runs.alpha, runs.mean("eps_g"), 2 * runs.standard_error("eps_g"), fmt="o", color="C0", ms=4, label="SGD")
left.plot(TIMES, whole.eps_g, "k:", label="all weights")
left.set(yscale="log", xlabel=r"learning time $\alpha$", ylabel=r"$\epsilon_g$ on the new task")
one = curves[1, 0.5]
for k in range(K):
    right.plot(TIMES, one.a[:, k, 0], color=f"C{k}", label=f"unit {k + 1}")
right.set(xlabel=r"learning time $\alpha$", ylabel="amplitude $a_{k1}$, rank 1")
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
fig.savefig("low_rank.png", dpi=150)

# %%
# The checks
# ----------
# A fixed orthogonal square matrix of amplitudes is equivalent to training all weights. A higher rank reduces the error,
# and so does learning the amplitudes.
print("errors at the end:", {key: float(f"{traj.eps_g[-1]:.4g}") for key, traj in curves.items()}, whole.eps_g[-1])
assert np.allclose(curves[3, 0.0].eps_g, whole.eps_g, rtol=1e-5)
assert all(curves[r, 0.5].eps_g[-1] < curves[r, 0.0].eps_g[-1] for r in (1, 2))
assert curves[1, 0.0].eps_g[-1] > curves[2, 0.0].eps_g[-1] > curves[3, 0.0].eps_g[-1]
gap = np.abs(runs.mean("eps_g") - one.eps_g[::10])[1:] / runs.standard_error("eps_g")[1:]
assert gap.max() < 4
