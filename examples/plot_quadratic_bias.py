r"""
SGD does not end in the solution closest to the start
=====================================================

The zero-error solutions of a quadratic network, :math:`R = \sqrt{K/M}\,S`, :math:`S^T S = 1`, form a manifold. For
:math:`N \to \infty` the equations converge to the solution closest to the start, if Q(0) commutes with :math:`R(0)
R(0)^T`. This does not hold for SGD at any N: random weights have :math:`R(0) \sim 1/\sqrt N`, and the noise of the
samples adds an amount of the same order while R grows. Bocchi et al. (2026), arXiv:2604.03068, state the conservation
for every start.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# The equations of infinite size
# ------------------------------
# If Q(0) commutes (for example for students of equal norm without overlaps), they conserve :math:`S = R (R^T
# R)^{-1/2}`. Otherwise S drifts while R grows, and the equations converge to another solution. K = 6, M = 3, overlaps
# 0.01 and the published learning rate. Left, their figure 3: distance to the solution closest to one start, of the run
# from this start (blue), of runs from others (grey), and of a run from its R(0) and a Q(0) that does not commute (red).
# Middle: all errors vanish. Right, their figure 4: the 18 entries of S.
K, M, ETA = 6, 3, quadratic.eta_from_paper(0.01)
ALPHA = np.r_[0, np.geomspace(10, 1e5, 161)]


def run(Q, R):
    model = ov.quadratic_network(K, M, eta=ETA)
    start = ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(M))
    return ov.solve(model, start, ALPHA, rtol=1e-10, atol=1e-14)


rng = np.random.default_rng(3)
R0, others = 0.01 * rng.standard_normal((K, M)), [0.01 * rng.standard_normal((K, M)) for _ in range(5)]
X = rng.standard_normal((K, K))
mixed = np.eye(K) + 0.1 * (X + X.T) / 2 * (1 - np.eye(K))
own, drifting, *far = run(np.eye(K), R0), run(mixed, R0), *(run(np.eye(K), R) for R in others)
closest = quadratic.closest_solution(R0)[1]

fig, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
styles = [("0.7", traj, "from other starts" if traj is far[0] else None) for traj in far]
styles += [("C3", drifting, "the same R(0), Q(0) not commuting"), ("C0", own, "from its start, Q(0) = 1")]
for color, traj, label in styles:
    axes[0].plot(ALPHA, np.linalg.norm(traj.R - closest, axis=(1, 2)), color=color, label=label)
    axes[1].plot(ALPHA, traj.eps_g, color=color)
for traj, style in ((drifting, "C3--"), (own, "C0")):
    axes[2].plot(ALPHA, quadratic.polar(traj.R).reshape(len(ALPHA), -1), style, lw=1)
axes[0].set(yscale="log", ylim=(3e-4, 8), ylabel=r"$|R - \sqrt{K/M}\,S(0)|_F$, one S(0)")
axes[1].set(yscale="log", ylabel=r"$\epsilon_g$")
axes[2].set(ylabel="entries of S", ylim=(-1, 1))
axes[0].legend(frameon=False, fontsize="small", loc="lower left")
for ax in axes:
    ax.set(xscale="log", xlabel=r"$\alpha$ = steps / $N$", xlim=ALPHA[[1, -1]])
fig.suptitle(rf"$N \to \infty$, K = {K}, M = {M}, $\eta$ = {ETA}", fontsize="medium")
fig.savefig("quadratic_bias_closest.png", dpi=150)


# %%
# The law of SGD
# --------------
# The final S is the polar factor of start plus noise, :math:`S_{\rm end} = {\rm polar}(a \sqrt N R(0) + \zeta)` with
# Gaussian :math:`\zeta` of variance :math:`\kappa` (:func:`overlaps.theory.quadratic.selected`). K = 4, M = 2, against
# learning rate, batch size and label noise; corrections of the law are of order 1/N.
def turn(eta, N, runs, alpha, R=None, **options):
    """Distances between S at time alpha and at the start, (runs,): random weights, or Q(0) = 1 and the overlaps R."""
    model = ov.quadratic_network(4, 2, eta=eta, **options)
    start = None if R is None else ov.State.from_overlaps(model, Q=np.eye(4), R=R, T=np.eye(2))
    sgd = ov.simulate(model, N=N, alpha=[0.0, alpha], rng=N, start=start, runs=runs, method="reduced")
    if model.noise == 0 and sgd.eps_g[:, -1].max() > 0.01:
        raise RuntimeError(f"some run has not learned by alpha = {alpha:g}")
    first, last = np.moveaxis(quadratic.polar(sgd.R), 1, 0)
    return np.linalg.norm(last - first, axis=(1, 2))


def mean(turns):
    return turns.mean(), turns.std(ddof=1) / np.sqrt(turns.size)


def draw_law(ax):
    """Mean distance between start and end against eta: law and SGD."""
    sets = (
        ("b = 1", {}, "C0", [(0.1, 400, 20, 250.0), (0.25, 400, 30, 120.0), (0.6, 800, 40, 60.0)]),
        ("b = 4", {"batch_size": 4}, "C2", [(0.6, 800, 20, 60.0)]),
        ("b = 1, label noise 1", {"noise": 1.0}, "C1", [(0.6, 800, 40, 70.0)]),
    )
    etas = np.array([0.03, 0.1, 0.25, 0.6, 0.8])
    found = []
    for label, options, color, points in sets:
        law = {eta: quadratic.selected(4, 2, eta=eta, **options).distance for eta in etas}
        ax.plot(etas, list(law.values()), color, label=label)
        for eta, N, runs, alpha in points:
            value, error = mean(turn(eta, N, runs, alpha, **options))
            ax.errorbar(eta, value, 2 * error, fmt="o", color=color, capsize=2, ms=4)
            found.append((f"eta = {eta}, {label}, N = {N}", value, error, law[eta]))
    ax.axhline(0, color="k", lw=0.8)
    ax.text(0.03, 0.02, r"equations of $N \to \infty$", fontsize="small")
    ax.axhline(2, color="k", lw=0.8, ls=":")
    ax.text(0.03, 1.9, r"$\sqrt{2M}$: unrelated solutions", fontsize="small")
    ax.set(xscale="log", xlabel=r"$\eta$", ylabel=r"$\langle|S_{\rm end} - S(0)|\rangle$")
    ax.set_xticks(etas, [f"{x:g}" for x in etas])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="center left")
    ax.set_title("SGD from random weights: law and runs", fontsize="medium")
    return found


# %%
# The variance behind it
# ----------------------
# Noise during the transient counts less than its value on the plateau suggests.
def stationary(law, eta):
    """The variance that noise of the plateau alone would add, and its exact size, both in units of a^2."""
    width, h, c0 = law.K, eta / (2 * law.K), 1 + 2 / law.M
    u = c0 - law.rate / (4 * h)
    q = u * width / (width + 2)
    spread = (u - c0) ** 2 + 2 * u**2 / (width + 2) + 2 * (law.M + 2) / law.M**2
    estimate = 4 * eta**2 * q / width**2 * spread / (2 * law.rate)
    return estimate / law.amplitude**2, law.kappa / law.amplitude**2


def draw_variance(ax):
    """Variance kappa / a^2 against eta, and what the noise on the plateau would give."""
    etas = np.geomspace(0.01, 0.8, 20)
    estimate, exact = np.transpose([stationary(quadratic.selected(4, 2, eta=x), x) for x in etas])
    ax.loglog(etas, exact, "C0", label=r"$\kappa/a^2$")
    ax.loglog(etas, estimate, "k:", label="noise of the plateau alone")
    ax.set(xlabel=r"$\eta$", ylabel="variance relative to that of the start")
    ax.legend(frameon=False, fontsize="small")
    ax.set_title("noise that the growing overlaps collect", fontsize="medium")
    return estimate / exact


# %%
# Against the input dimension
# ---------------------------
# From random weights the distance does not depend on N; from fixed overlaps it vanishes as :math:`1/\sqrt N`, so that
# the statement for :math:`N \to \infty` holds.
def draw_sizes(ax):
    """Mean distance against N, random weights and fixed overlaps."""
    R, sizes, found = 0.2 * np.random.default_rng(1).standard_normal((4, 2)), [200, 800, 3200], []
    for label, style, start, runs in (
        ("random weights", "C0o-", None, (60, 30, 6)),
        (r"$R(0) \sim 0.2$", "C1x--", R, (20, 8, 3)),
    ):
        values, errors = np.transpose([mean(turn(0.6, N, n, 60.0, start)) for N, n in zip(sizes, runs, strict=True)])
        ax.errorbar(sizes, values, 2 * errors, fmt=style, capsize=2, lw=1, label=label)
        found.append((values, errors))
    law = quadratic.selected(4, 2, eta=0.6).distance
    ax.axhline(law, color="C0", lw=0.8)
    ax.set(xscale="log", yscale="log", ylim=(0.03, 3), xlabel="N", ylabel=r"$\langle|S_{\rm end} - S(0)|\rangle$")
    ax.set_xticks(sizes, [str(N) for N in sizes])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    ax.set_title(r"SGD, $\eta = 0.6$", fontsize="medium")
    return law, *found


# %%
# Law, variance, sizes
# --------------------
# Left: mean distance between start and end, law (lines) and SGD (marks, two standard errors). Middle: the variance.
# Right: sizes.
fig, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
runs = draw_law(axes[0])
ratio = draw_variance(axes[1])
law, (random, random_errors), (fixed, _) = draw_sizes(axes[2])
fig.savefig("quadratic_bias.png", dpi=150)

# %%
# The checks
# ----------
# Corrections of the law are of order 1/N. From fixed overlaps the distance falls to a fourth for 16 times N.
own_gap, drifted, *apart = (np.linalg.norm(traj.R[-1] - closest) for traj in (own, drifting, *far))
print(f"distance from the closest solution at the end: {own_gap:.1e}, from Q(0) not commuting {drifted:.3f}")
print("  from other starts", ", ".join(f"{x:.2f}" for x in apart), f"; unrelated solutions {np.sqrt(2 * K):.2f}")
assert own_gap < 1e-3 and drifted > 0.02 and min(apart) > 2
assert quadratic.conserves_polar(np.eye(K), R0) and not quadratic.conserves_polar(mixed, R0)
drift = np.abs(quadratic.polar(own.R) - quadratic.polar(R0)).max()
print(f"entries of S change by at most {drift:.1e}; all errors end below {max(x.eps_g[-1] for x in far):.1e}")
assert drift < 1e-12 and all(traj.eps_g[-1] < 1e-5 for traj in (own, drifting, *far))
for label, value, error, predicted in runs:
    print(f"{label}: SGD {value:.3f} +- {error:.3f}, law {predicted:.3f}")
    assert abs(value - predicted) < 3 * error + 0.04 * predicted
print(f"noise of the plateau alone over kappa: {ratio.min():.3f} ... {ratio.max():.3f}")
assert np.all((ratio > 1) & (ratio < 1.1))
print(f"N = 200, 800, 3200: {random.round(3)} from random weights, {fixed.round(3)} from fixed overlaps")
assert np.all(np.abs(random - law) < 3 * random_errors + 0.04 * law) and 2.5 < fixed[0] / fixed[2] < 6.5
