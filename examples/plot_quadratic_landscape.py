r"""
Only zero error has no descending direction, and it is flat
===========================================================

Every stationary point of the population error of a quadratic network has r student directions outside the teacher's
space and s inside. Only points of zero error have no descending direction; the mixed saddles (r, s > 0) have some, too.
With K > M, :math:`(N - M)(K - M)` directions at the solutions are flat to second order without being symmetries; they
make the error decay as :math:`1/\alpha^2` instead of exponentially. Hessians of :math:`\epsilon_g`: half of those of
Bocchi et al. (2026), arXiv:2604.03068.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# The map of stationary points
# ----------------------------
# Error against the fraction of descending directions, for all (r, s).
N, K, M = 40, 6, 3


def draw_map(ax):
    points = {}
    for r, s in quadratic.stationary_points(N, K, M):
        spectrum = quadratic.stationary_spectrum(N, K, M, r, s)
        points[r, s] = sum(n for x, n in spectrum if x < 0) / (K * N), quadratic.stationary_eps_g(K, M, r, s)
    for (r, s), (index, error) in points.items():
        mixed = r > 0 and s > 0
        ax.plot(index, error, "D" if mixed else "o", color="C3" if mixed else f"C{2 * (s > 0)}", ms=6)
        special = {(0, 0): "  W = 0", (K, 0): "  plateau", (0, M): "  solutions"}
        ax.annotate(f" ({r},{s})", (index, error), fontsize="x-small", va="bottom")
        ax.annotate(special.get((r, s), ""), (index, error - 0.005), fontsize="small", va="top")
    for marker, color, label in [("o", "C0", "(r, 0)"), ("o", "C2", "(0, s)"), ("D", "C3", "mixed, (r, s)")]:
        ax.plot([], [], marker, color=color, label=label)
    ax.set(xlabel="fraction of descending directions", ylabel=r"$\epsilon_g$", xlim=(-0.05, 1.2))
    ax.legend(frameon=False, loc="lower right")
    return points


# %%
# Spectra of the Hessian
# ----------------------
# At three of the points, closed form and numerical eigenvalues.
def draw_spectra(ax):
    worst = 0.0
    for i, (r, s, name) in enumerate([(K, 0, "plateau"), (2, 1, "mixed (2, 1)"), (0, M, "solutions")]):
        spectrum = quadratic.stationary_spectrum(N, K, M, r, s)
        values, counts = (np.array(x) for x in zip(*spectrum, strict=True))
        W, W_star = quadratic.stationary_point(N, K, M, r, s, rng=i)
        found = np.linalg.eigvalsh(quadratic.hessian(W, W_star))
        worst = max(worst, np.abs(found - np.repeat(values, counts)).max())
        ax.vlines(
            values, 0.8, counts, color=f"C{i}", linewidth=9 - 3 * i, label=name
        )  # thin before broad, all in place
        where, n = np.unique(found.round(6), return_counts=True)
        ax.plot(where, n, "k.", ms=5, label=None if i < 2 else "explicit Hessian")
    ax.axvline(0, color="k", lw=0.6, zorder=0)
    ax.set(yscale="log", xlabel=r"eigenvalue of the Hessian of $\epsilon_g$", ylabel="multiplicity", ylim=(0.8, 500))
    ax.legend(frameon=False)
    return worst


# %%
# The algebraic end
# -----------------
# Gradient flow and a finite rate at K > M, and the exponential end at K = M.
def draw_tail(ax):
    ratios, alpha = {}, np.geomspace(10, 1e5, 81)
    for i, (k, flow) in enumerate([(6, True), (6, False), (3, False)]):
        eta = quadratic.eta_from_paper(0.3)
        model = ov.quadratic_network(k, M, eta=eta, gradient_flow=flow)
        R = 0.1 * np.random.default_rng(0).standard_normal((k, M))
        start = ov.State.from_overlaps(model, Q=np.eye(k), R=R, T=np.eye(M))
        times = alpha if k > M else np.linspace(10, 140, 81)  # eps_g of 1e-12 and less is rounding
        traj = ov.solve(model, start, times, rtol=1e-10, atol=1e-14)
        ax.plot(times, traj.eps_g, f"C{i}", label=f"K = {k}, " + ("gradient flow" if flow else rf"$\eta = {eta:g}$"))
        if k > M:
            law = quadratic.final_descent(alpha, k, M, eta=eta, gradient_flow=flow)
            ax.plot(alpha[alpha > 50], law[alpha > 50], f"C{i}:", lw=2.5)
            ratios[flow] = traj.eps_g[-1] / law[-1]
        else:
            slope = np.polyfit(times[-20:], np.log(traj.eps_g[-20:]), 1)[0]
            ratios["rate"] = slope / quadratic.solution_rate(k, M, eta=eta)
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-11, 2))
    ax.legend(frameon=False, title="dotted: algebraic law", loc="upper right")
    return ratios


# %%
# Map, spectra, decay
# -------------------
# Left: the map. Middle: multiplicities, closed form (bars) and explicit Hessians (dots). Right: errors, and the
# algebraic law (dotted).
fig, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
points, worst, ratios = draw_map(axes[0]), draw_spectra(axes[1]), draw_tail(axes[2])
fig.suptitle(f"quadratic network, K = {K}, M = {M}, N = {N}", fontsize="medium")
fig.savefig("quadratic_landscape.png", dpi=150)

# %%
# The checks
# ----------
flat = quadratic.flat_directions(N, K, M, 0, M)
print(f"{len(points)} stationary points, {sum(r * s > 0 for r, s in points)} of them mixed; at zero error {flat}")
print(f"spectra: closed form and numerical eigenvalues differ by {worst:.1e}")
print(f"eps_g / algebraic law at alpha = 1e5: {ratios[True]:.4f} in gradient flow, {ratios[False]:.4f}")
print(f"rate of the exponential end / theory: {ratios['rate']:.4f}")
assert [p for p, (index, _) in points.items() if index == 0] == [(0, M)]
assert worst < 1e-12
assert all(abs(ratio - 1) < 0.01 for ratio in ratios.values())
