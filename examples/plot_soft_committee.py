r"""
Learning rate, plateau and specialisation
=========================================

A soft committee machine (erf, K = M = 2) first learns what all teacher units have in common, waits on a symmetric
plateau, and then specialises. The escape takes time of order 1/eta, but the O(eta^2) term C of

.. math:: dQ/d\alpha = A Q + Q A^T + B R^T + R B^T + C

raises the plateau: the noise of SGD keeps the students apart. Saad and Solla (1995), Phys. Rev. E 52, 4225.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

ETAS = [0.3, 0.6, 1.0, 1.5]


def main():
    alpha = np.linspace(0, 300, 601)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    heights = []
    for i, eta in enumerate(ETAS):
        model = ov.committee_machine(2, 2, eta=eta)
        start = ov.State.from_overlaps(model, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
        traj = ov.solve(model, start, alpha)
        traj.plot(ax=left, color=f"C{i}", label=rf"$\eta = {eta}$")
        right.plot(eta * alpha, traj.eps_g, color=f"C{i}", label=rf"$\eta = {eta}$")
        before = traj.eps_g > 5e-3  # the plateau is where eps_g moves least, before the decay
        heights.append(traj.eps_g[before][np.argmin(np.abs(np.gradient(traj.eps_g[before])))])
    flow = ov.committee_machine(2, 2, eta=1.0, gradient_flow=True)
    start = ov.State.from_overlaps(flow, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
    limit = ov.solve(flow, start, alpha)
    right.plot(alpha, limit.eps_g, "k--", label="gradient flow")
    symmetric = 2 / np.pi * (np.arcsin(1 / 2) - 2 * np.arcsin(1 / 4))
    right.axhline(symmetric, color="0.6", linewidth=1, zorder=0)
    right.text(1, symmetric * 0.95, "symmetric plateau, 0.0116", va="top", color="0.4")
    left.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", yscale="log", ylim=(1e-6, 1))
    right.set(xlabel=r"$\eta\,\alpha$", yscale="log", xlim=(0, 100), ylim=(1e-3, 0.2))
    right.legend(frameon=False)
    fig.savefig("soft_committee.png", dpi=150)
    return heights, symmetric, limit


if __name__ == "__main__":
    heights, symmetric, limit = main()
    print("plateau heights:", ", ".join(f"{h:.4f} (eta = {eta})" for h, eta in zip(heights, ETAS, strict=True)))
    print(f"symmetric plateau of the small-eta limit: {symmetric:.6f}")
    assert np.all(np.diff(heights) > 0) and heights[0] > symmetric
