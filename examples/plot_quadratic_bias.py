r"""
Quadratic networks: which solution is found
===========================================

The zero-error solutions R = sqrt(K/M) S, S^T S = 1, form a manifold. If Q(0) commutes with R(0) R(0)^T (students of
equal norm without overlaps, say), the equations for N -> infinity conserve S = R (R^T R)^(-1/2) and end in the solution
closest to the start (top left; right: the entries of S stay put while R grows by two orders of magnitude). If it does
not commute, S drifts while R grows, and the end is another solution (dashed). K = 6, M = 3, overlaps 0.01. Bottom left:
the error from this start and from five others, all of which end in some solution.

Bottom right: SGD, K = 4, M = 2. From random weights, R(0) ~ 1/sqrt(N), the noise of the samples adds to R an amount of
the same order before R has grown: S turns by an angle that depends on eta and *not* on N (circles), so that SGD does
not end in the solution closest to its start however large N is. It does, as N -> infinity, from overlaps that do not
shrink with N (crosses, ~ 1/sqrt(N)). Bocchi et al. (2026), arXiv:2604.03068, state the conservation for every start.
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


def turn(eta, N, runs, alpha, R=None):
    """|S - S(0)| of SGD at time alpha, (runs,): random weights, or Q(0) = 1 and the overlaps R."""
    model = ov.quadratic_network(4, 2, eta=eta)
    start = None if R is None else ov.State.from_overlaps(model, Q=np.eye(4), R=R, T=np.eye(2))
    sgd = ov.simulate(model, N=N, alpha=[0.0, alpha], rng=N, start=start, runs=runs, method="reduced")
    assert sgd.eps_g[:, -1].max() < 0.01  # all have learned
    first, last = np.moveaxis(quadratic.polar(sgd.R), 1, 0)
    return np.linalg.norm(last - first, axis=(1, 2))


def draw_sgd(ax):
    """Mean turn of S against N, with its standard error."""
    R = 0.2 * np.random.default_rng(1).standard_normal((4, 2))
    sets = {
        "random weights, $\\eta = 0.6$": [turn(0.6, N, n, 60.0) for N, n in ((200, 40), (800, 20), (3200, 10))],
        "random weights, $\\eta = 0.1$": [turn(0.1, N, n, 250.0) for N, n in ((200, 20), (800, 10))],
        "$R(0) \\sim 0.2$, $\\eta = 0.6$": [turn(0.6, N, n, 60.0, R) for N, n in ((200, 20), (800, 10), (3200, 5))],
    }
    for (label, turns), style in zip(sets.items(), ("C0o-", "C2o-", "C1x--"), strict=True):
        error = [t.std() / np.sqrt(t.size) for t in turns]
        sizes = [200, 800, 3200][: len(turns)]
        ax.errorbar(sizes, [t.mean() for t in turns], error, fmt=style, capsize=2, lw=1, label=label)
    ax.axhline(2, color="k", lw=0.8, ls=":")
    ax.text(180, 2.1, r"$\sqrt{2M}$: unrelated solutions", fontsize="small")
    ax.set(xscale="log", yscale="log", ylim=(0.03, 3), xlabel="N", ylabel=r"$|S_{\rm end} - S(0)|$, mean over runs")
    ax.set_xticks([200, 800, 3200], ["200", "800", "3200"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    ax.set_title("SGD", fontsize="medium")
    return [[t.mean() for t in turns] for turns in sets.values()]


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

    fig, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    axes = axes.ravel()
    axes[0].plot(alpha, own, "C0", label="closest to its start, Q(0) = 1")
    axes[0].plot(alpha, drifting, "C3--", label="closest to its start, Q(0) not commuting")
    axes[0].plot(alpha, np.transpose(far), "0.7", lw=1)
    axes[0].plot([], [], "0.7", label="closest to other starts")
    axes[0].axhline(np.sqrt(2 * K), color="k", lw=0.8, ls=":")
    axes[0].text(1.2, np.sqrt(2 * K) * 1.1, r"$\sqrt{2K}$: unrelated solutions", fontsize="small")
    axes[0].set(yscale="log", ylim=(3e-4, 8), ylabel=r"$|R - \sqrt{K/M}\,S(0)|_F$")
    axes[0].legend(frameon=False, fontsize="small", loc="lower left")
    axes[0].set_title(r"$N \to \infty$", fontsize="medium")
    for m in range(M):
        axes[1].plot(alpha, S[:, :, m], f"C{m}", lw=1.2)
        axes[1].plot(alpha, S_other[:, :, m], f"C{m}--", lw=0.8)
    axes[1].set(ylabel=r"entries of $S = R\,(R^TR)^{-1/2}$", ylim=(-1, 1))
    axes[1].set_title(r"$N \to \infty$; dashed: Q(0) not commuting", fontsize="medium")
    for ax in axes[:2]:
        ax.set(xscale="symlog", xlabel=r"$\alpha$ = steps / $N$", xlim=(0, alpha[-1]))
    errors = [commuting.eps_g, *(run(np.eye(K), r, alpha).eps_g for r in others)]
    law = quadratic.final_descent(alpha[alpha > 300], K, M, eta=ETA)
    axes[2].loglog(alpha[1:], np.transpose(errors[1:])[1:], "0.7", lw=1)
    axes[2].loglog(alpha[1:], errors[0][1:], "C0", label="start of the blue line above")
    axes[2].loglog(alpha[alpha > 300], law, "k:", lw=2, label="algebraic end")
    axes[2].set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$")
    axes[2].set_title("all starts find a solution", fontsize="medium")
    axes[2].legend(frameon=False, fontsize="small", loc="lower left")
    sgd = draw_sgd(axes[3])
    fig.savefig("quadratic_bias.png", dpi=150)
    flags = quadratic.conserves_polar(np.eye(K), R), quadratic.conserves_polar(mixed, R)
    return own, far, drifting, np.abs(S - S[0]).max(), np.abs(S_other - S_other[0]).max(), flags, sgd, (errors, law)


if __name__ == "__main__":
    own, far, drifting, drift, drift_other, flags, (random, slow, fixed), (errors, law) = main()
    others = np.array(far)[:, -1].round(2)
    print(f"distance to the closest solution: {own[0]:.2f} -> {own[-1]:.1e}; to five others: {others}")
    print(f"drift of S: {drift:.1e} from Q(0) = 1, {drift_other:.3f} from a Q(0) that does not commute")
    assert flags == (True, False)
    assert own[-1] < 5e-3 and min(f[-1] for f in far) > 2
    assert drift < 1e-12
    ends = np.array([x[-1] for x in errors]) / law[-1]
    print("eps_g in the end / algebraic law:", ends.round(3))
    assert np.all(np.abs(ends - 1) < 0.04)  # the law counts from alpha = 0, these from their escape at about 100
    assert drifting[-1] > 0.02 and drift_other > 0.01
    print("SGD, |S_end - S(0)|: random weights, eta = 0.6", np.round(random, 2), "eta = 0.1", np.round(slow, 2))
    print("SGD, |S_end - S(0)|: fixed overlaps, eta = 0.6", np.round(fixed, 3))
    # runs scatter by 0.4 (eta = 0.6) and 0.25: four standard errors of 10 runs; 16 times N is a fourth of the distance
    assert all(0.5 < x < 1.5 for x in random) and all(0.15 < x < 0.75 for x in slow)
    assert 2.5 < fixed[0] / fixed[2] < 6.5
