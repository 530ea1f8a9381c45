r"""
Quadratic networks: which solution is found
===========================================

The zero-error solutions R = sqrt(K/M) S, S^T S = 1, form a manifold. If Q(0) commutes with R(0) R(0)^T (students of
equal norm without overlaps, say), S = R (R^T R)^(-1/2) is conserved and SGD ends in the solution closest to its start
(left, middle: the entries of S stay put while R grows by two orders of magnitude). If it does not commute, S drifts
while R grows, and the end is another solution (right, dashed on the left).
K = 6, M = 3, overlaps 0.01. Bocchi et al. (2026), arXiv:2604.03068, state the conservation for every start.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

K, M, ETA = 6, 3, quadratic.eta_from_paper(0.1)


def run(Q, R, alpha):
    model = ov.quadratic_network(K, M, eta=ETA)
    start = ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(M))
    return ov.solve(model, start, alpha, rtol=1e-10, atol=1e-14)


def main():
    rng = np.random.default_rng(3)
    alpha = np.r_[0, np.geomspace(1, 1e4, 161)]
    R = 0.01 * rng.standard_normal((K, M))
    others = [0.01 * rng.standard_normal((K, M)) for _ in range(5)]
    X = rng.standard_normal((K, K))
    mixed = np.eye(K) + 0.1 * (X + X.T) / 2 * (1 - np.eye(K))
    commuting, other = run(np.eye(K), R, alpha), run(mixed, R, alpha)
    target = quadratic.closest_solution(R)[1]

    def gap(traj, end):
        return np.linalg.norm(traj.R - end, axis=(1, 2))

    own = gap(commuting, target)
    far = [gap(commuting, quadratic.closest_solution(r)[1]) for r in others]
    drifting = gap(other, target)
    S, S_other = quadratic.polar(commuting.R), quadratic.polar(other.R)

    fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    axes[0].plot(alpha, own, "C0", label="closest to its start, Q(0) = 1")
    axes[0].plot(alpha, drifting, "C3--", label="closest to its start, Q(0) not commuting")
    axes[0].plot(alpha, np.transpose(far), "0.7", lw=1)
    axes[0].plot([], [], "0.7", label="closest to other starts")
    axes[0].axhline(np.sqrt(2 * K), color="k", lw=0.8, ls=":")
    axes[0].text(1.2, np.sqrt(2 * K) * 1.1, r"$\sqrt{2K}$: unrelated solutions", fontsize="small")
    axes[0].set(xscale="symlog", yscale="log", ylim=(3e-4, 8), ylabel=r"$|R - \sqrt{K/M}\,S|_F$")
    axes[0].legend(frameon=False, fontsize="small", loc="lower left")
    titles = ["Q(0) = 1: conserved", "Q(0) not commuting: drifts"]
    for ax, curves, title in zip(axes[1:], (S, S_other), titles, strict=True):
        for m in range(M):
            ax.plot(alpha, curves[:, :, m], f"C{m}", lw=1.2)
        ax.set(xscale="symlog", ylabel=r"entries of $S = R\,(R^TR)^{-1/2}$", ylim=(-1, 1))
        ax.set_title(title, fontsize="medium")
    for ax in axes:
        ax.set(xlabel=r"$\alpha$ = steps / $N$", xlim=(0, alpha[-1]))
    fig.savefig("quadratic_bias.png", dpi=150)
    flags = quadratic.conserves_polar(np.eye(K), R), quadratic.conserves_polar(mixed, R)
    return own, far, drifting, np.abs(S - S[0]).max(), np.abs(S_other - S_other[0]).max(), flags


if __name__ == "__main__":
    own, far, drifting, drift, drift_other, flags = main()
    others = np.array(far)[:, -1].round(2)
    print(f"distance to the closest solution: {own[0]:.2f} -> {own[-1]:.1e}; to five others: {others}")
    print(f"drift of S: {drift:.1e} from Q(0) = 1, {drift_other:.3f} from a Q(0) that does not commute")
    assert flags == (True, False)
    assert own[-1] < 5e-3 and min(f[-1] for f in far) > 2
    assert drift < 1e-12
    assert drifting[-1] > 0.02 and drift_other > 0.01
