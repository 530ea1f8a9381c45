r"""
Theory predicts the line at which learning ends
===============================================

Two quadratic students learn two teachers, :math:`\hat y = \frac12 \sum_k \lambda_k^2`, at every learning rate and label
noise of a grid. Plateaus grow towards a critical rate, and beyond it trajectories diverge;
:func:`overlaps.critical_eta` computes this rate from the fixed point alone. Bocchi et al. (2026), arXiv:2604.03068, for
the network without noise: its bound is :math:`\eta_c = 1/2` here. ``--full`` makes the grid 300 x 300, in half a
minute.
"""

import sys
import warnings

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Hundreds of learning curves in one call
# ---------------------------------------
# ``ov.solve_many`` takes a list of models and integrates them together, compiled and in threads. The length of the
# plateau is the time at which :math:`\sum_{km} R_{km}^2` reaches half of its final value.
N, M = (300, 300) if "--full" in sys.argv else (40, 16)
ETAS, NOISES = np.linspace(0.1, 0.54, N), np.linspace(0.0, 1.0, M)
ALPHA = np.linspace(0.0, 200.0, 201)
MODEL = ov.quadratic_network(2, 2, eta=0.2)


def phase_diagram():
    """Length of the plateau (N, M), nan where it is not left, error at the end (N, M), and the batch."""
    start = ov.State.from_overlaps(MODEL, Q=[[0.3, 0.05], [0.05, 0.25]], R=[[0.03, 0.0], [0.0, 0.02]], T=np.eye(2))
    models = [MODEL.replace(eta=eta, noise=noise) for eta in ETAS for noise in NOISES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # trajectories beyond the line diverge
        batch = ov.solve_many(models, start, ALPHA)
    learned = np.sum(batch.R**2, axis=(-1, -2))
    there = batch.success & (learned[:, -1] > 0.1)  # on the line a bounded run may lose its overlap with the teacher
    length = np.where(there, ALPHA[np.argmax(learned > learned[:, -1:] / 2, axis=1)], np.nan)
    return length.reshape(N, M), batch.eps_g[:, -1].reshape(N, M), batch


# %%
# The line, without a trajectory
# ------------------------------
# The fixed point is followed from perfect learning in the learning rate until it loses stability or, at finite noise,
# ends in a fold. Six noises are enough for a smooth line.
def critical_line():
    """eta_c for each noise, of the fixed point followed from perfect learning."""
    perfect = ov.State.from_overlaps(MODEL, Q=np.eye(2), R=np.eye(2), T=np.eye(2))
    noisy = (MODEL.replace(noise=noise) for noise in np.linspace(0.0, 1.0, 6))
    rates = [float(ov.critical_eta(model, ov.fixed_point(model, perfect).state)) for model in noisy]
    return np.polynomial.Polynomial.fit(np.linspace(0.0, 1.0, 6) ** 2, rates, 4)(NOISES**2)


# %%
# Plateaus and errors grow towards the line
# -----------------------------------------
# Left: the plateau is as long as :math:`1/\eta`, and grows towards the edge. Right: the error at the end grows towards
# the same line. Grey cells diverge.
length, error, batch = phase_diagram()
critical = critical_line()
fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained", sharey=True)
for ax, values, label in (
    (axes[0], length, r"length of the plateau, $\alpha$"),
    (axes[1], np.maximum(error, 1e-6), rf"$\epsilon_g$ at $\alpha = {ALPHA[-1]:g}$"),
):
    image = ax.pcolormesh(ETAS, NOISES, values.T, norm="log", cmap="viridis", rasterized=True)
    ax.set_facecolor("0.9")
    ax.plot(critical, NOISES, color="crimson", lw=2, label=r"$\eta_c$ of ov.critical_eta")
    ax.set(xlabel=r"learning rate $\eta$")
    fig.colorbar(image, ax=ax, label=label)
axes[0].set_ylabel("label noise")
axes[0].legend(frameon=True, loc="upper left")
axes[1].text(0.985, 0.97, "diverges", transform=axes[1].transAxes, ha="right", va="top")
fig.savefig("phase_diagram.png", dpi=150)

# %%
# The checks
# ----------
# The edge of divergence lies on the line to 1.5 cells: beyond the line a trajectory needs time to diverge, which grows
# at the line. Plateaus end on the stable side of the line only.
cell = max(ETAS[1] - ETAS[0], 0.01)  # not finer: near the line trajectories need longer than this time
bounded = batch.success.reshape(N, M)
edges = np.array([ETAS[row].max() for row in bounded.T]) + (ETAS[1] - ETAS[0]) / 2
print(f"{len(batch)} trajectories, {int(np.sum(~batch.success))} of them diverge")
print("noise, eta_c, edge of divergence:")
for row in range(0, M, 5 if M < 50 else 20):
    print(f"{NOISES[row]:5.2f} {critical[row]:8.4f} {edges[row]:8.4f}")
assert np.all(np.abs(edges - critical) < 1.5 * cell), np.max(np.abs(edges - critical)) / cell
assert abs(critical[0] - 0.5) < 1e-3
first = ETAS < 0.2
assert np.ptp(np.log(length[first, 0] * ETAS[first])) < 0.4  # the plateau is as long as 1 / eta
# plateaus end on the stable side of the line only
inside, outside = ETAS[:, None] < critical - 2 * cell, ETAS[:, None] > critical + 1.5 * cell
assert np.isfinite(length[inside]).all() and np.isnan(length[outside]).all()
