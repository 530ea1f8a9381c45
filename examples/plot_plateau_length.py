r"""
Random teachers spread the escape rates over a decade
=====================================================

Differences between students grow from :math:`\sigma_J/\sqrt N` to order one, so that the plateau lasts about

.. math:: \alpha_P = \frac1\gamma \Big(D + \tfrac12 \ln\frac{N}{\sigma_J^2}\Big),

with D of order one where L is much smaller than N. For orthonormal teachers :math:`1/\gamma \sim M^2/(\eta L)`; random
teachers with as many eigenvalues as inputs have M - 1 rates that spread over a decade, and the largest rate determines
the length. Worschech and Rosenow (2024), arXiv:2410.09005, Fig. 5 (beta = 0.25, eta = 0.01, sigma_J = 1e-6; M = 6, N =
500 and L = N = 512). ``--full`` adds trajectories of wider committees and more draws.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import plateau

# %%
# A draw, and the end of its plateau
# ----------------------------------
# If L is of the order of N, the descent to the plateau takes long because of the small eigenvalues (``descent_time``):
# D grows, and in most draws at M = 4, L = N = 512 no plateau forms.
FULL = "--full" in sys.argv
ETA, BETA, SCALE = 0.01, 0.25, 1e-6
# ends of plateaus of other random teachers
OTHERS = {25: (4e4, 7e4), 50: (2.5e4, 6e4), 100: (1e4, 2.5e4), 250: (5e3, 2.2e4), 500: (3e3, 1.4e4)}


def setting(M, L, N, seed, K=None):
    """Model, start, rates with the largest first (M - 1,), mean escape time, height; K students are drawn."""
    spectrum = ov.power_law(beta=BETA, L=L)
    model = ov.committee_machine(K or M, M, eta=ETA, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=N, rng=seed, student_scale=SCALE)
    T, T2 = plateau.teacher_moments(start, [1, 2])
    (T1, D1), (second, D2) = plateau.row_averages(T), plateau.row_averages(T2)
    mean = plateau.escape_time(M, T1=T1, D1=D1, T2=second, D2=D2, eta=ETA)
    return model, start, plateau.escape_rates(T, T2, eta=ETA)[: M - 1], mean, plateau.plateau(T).eps_g


def end_of_plateau(model, start, rate, height, ax=None, label=None):
    """Alpha at which eps_g has fallen to 0.9 of the height; the curve is drawn on ``ax``."""
    alpha = np.r_[0, np.geomspace(0.05, 30, 800) / rate]  # 0.8 % apart
    traj = ov.solve(model, start, alpha, method="structured", rtol=1e-6, blocks=False)
    assert traj.success and traj.eps_g[-1] < 0.9 * height
    behind = np.flatnonzero((traj.alpha > 3 / rate) & (traj.eps_g < 0.9 * height))[0]
    if ax is not None:
        (line,) = ax.plot(traj.alpha[1:], traj.eps_g[1:], lw=1.5, label=label)
        predicted = plateau.length(rate, N=start_size(model), student_scale=SCALE)
        ax.plot([predicted] * 2, [0.25 * height, 0.4 * height], color=line.get_color(), lw=2)
    x, y = traj.alpha[behind - 1 : behind + 1], traj.eps_g[behind - 1 : behind + 1]
    return float(np.interp(-0.9 * height, -y, x))


def start_size(model):
    """N of the two settings."""
    return 512 if model.spectrum.L == 512 else 500


def finish(ax, title):
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", title=title)
    ax.legend(frameon=False, fontsize="small", loc="lower left")


# %%
# Escape times against the width
# ------------------------------
# L = N = 512. For random teachers :math:`1/\gamma` grows only as M.
def draw_width(ax, curves):
    """Escape times against M at L = N = 512, and trajectories; exponents of the orthonormal and the random ones."""
    L, widths = 512, np.array([4, 6, 8, 12, 16, 24, 32, 40])
    spectrum = ov.power_law(beta=BETA, L=L)
    T2 = spectrum.p @ spectrum.s**2
    ideal = np.array([plateau.escape_time(M, T2=T2, eta=ETA) for M in widths])
    followed = (4, 6) + FULL * (8, 12, 16)  # where all students are drawn; for the rates alone one is enough
    drawn = {M: [setting(M, L, L, seed, K=M if M in followed else 1) for seed in range(6)] for M in widths}
    fastest = np.array([[1 / rates[0] for _, _, rates, *_ in drawn[M]] for M in widths])
    ax.plot(widths, ideal, "k-", lw=1, label="orthonormal teachers")
    ax.plot(widths, [plateau.wide_escape_time(M, T2=T2, eta=ETA) for M in widths], "k:", label=r"$2\pi M^2/(\eta T_2)$")
    ax.plot(widths, fastest, "o", color="teal", ms=4, mfc="none")
    ax.plot([], [], "o", color="teal", ms=4, mfc="none", label="random teachers, 6 draws")
    logarithm = 0.5 * np.log(L / SCALE**2)
    for M in followed:
        model, start, rates, _, height = drawn[M][0]
        tau = end_of_plateau(model, start, rates[0], height, curves, f"M = {M}") / logarithm
        ax.plot(M, tau, "x", color="firebrick", ms=8, mew=2, label="trajectory of the first draw" if M == 4 else None)
        ax.plot(M, 1 / rates[0], "o", color="teal", ms=4, label="its largest rate" if M == 4 else None)
    finish(curves, "K = M, L = N = 512")
    ax.set(xscale="log", yscale="log", xlabel="M = K", ylabel=r"escape time $1/\gamma$", title="width, L = N = 512")
    ax.set_xticks([4, 8, 16, 32], ["4", "8", "16", "32"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    typical = np.exp(np.log(fastest).mean(axis=1))
    return [np.polyfit(np.log(widths[i:]), np.log(tau[i:]), 1)[0] for i, tau in ((3, ideal), (0, typical))]


# %%
# The end of the plateau against L
# --------------------------------
# M = 6, N = 500: measured, from the largest rate, from the mean formula.
def draw_length(ax, curves):
    """End of the plateau against L, M = 6, N = 500: measured, from the largest rate, from the mean formula."""
    rows = []
    for L in (25, 50, 100, 250, 500):
        for seed in range(4 if FULL else 2):
            model, start, rates, mean, height = setting(6, L, 500, seed)
            shown = (curves, f"L = {L}") if seed == 0 else ()
            rows.append((L, end_of_plateau(model, start, rates[0], height, *shown), rates[0], mean))
    finish(curves, "K = M = 6, N = 500")
    L, end, rate, mean = np.array(rows).T
    logarithm = 0.5 * np.log(500 / SCALE**2)
    shift = 1.05 ** np.tile(np.linspace(-1, 1, 4 if FULL else 2), 5)  # draws side by side
    ax.plot(L * shift, end, "o", color="teal", label="trajectory: $0.9\\,\\epsilon_g^*$")
    ax.plot(L * shift, logarithm / rate, "+", color="k", ms=10, mew=1.5, label="largest rate, D = 0")
    ax.plot(L * shift, logarithm * mean, "_", color="firebrick", ms=10, mew=2, label="mean formula")
    ax.set(xscale="log", yscale="log", xlabel="L", ylabel=r"end of the plateau $\alpha_P$", title="M = 6, N = 500")
    ax.set_xticks([25, 50, 100, 250, 500], ["25", "50", "100", "250", "500"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small")
    return L, end, rate * end, logarithm


# %%
# The spread of all rates
# -----------------------
# It comes from the spread of the overlaps of random teachers, and vanishes as L/N.
def draw_spread(ax):
    """All rates times the mean escape time against L at N = 500, and at N = 500000; width of both."""
    spread = {}
    for N, color in ((500, "teal"), (500_000, "darkorange")):
        for L in (5, 20, 50, 100, 250, 500):
            ratios = np.array([rates * mean for _, _, rates, mean, _ in (setting(6, L, N, s, K=1) for s in range(12))])
            at = L * (0.96 if N == 500 else 1.04)
            ax.plot(np.full(ratios.size, at), ratios.ravel(), ".", color=color, ms=4)
            spread[N, L] = ratios.std()
        ax.plot([], [], "o", color=color, ms=4, label=f"N = {N}")
    ax.axhline(1, color="0.7", lw=1, zorder=0)
    ax.set(
        xscale="log", yscale="log", xlabel="L", ylabel=r"$\gamma_i\,/\,$mean formula", title="all five rates, 12 draws"
    )
    ax.legend(frameon=False, loc="lower left")
    return spread


# %%
# Errors, widths, lengths, spread
# -------------------------------
# Top: the errors; short bars mark the end of the plateau predicted from the largest rate at D = 0. Bottom left: escape
# times against M (crosses: length of trajectories divided by the logarithm). Middle: the end of the plateau against L.
# Right: all rates in units of their mean.
fig = plt.figure(figsize=(13.5, 8.2), layout="constrained")
upper, lower = fig.add_gridspec(2, 1)
by_width, by_length = (fig.add_subplot(cell) for cell in upper.subgridspec(1, 2))
axes = [fig.add_subplot(cell) for cell in lower.subgridspec(1, 3)]
power, random = draw_width(axes[0], by_width)
L, end, times, logarithm = draw_length(axes[1], by_length)
spread = draw_spread(axes[2])
fig.savefig("plateau_length.png", dpi=150)

# %%
# The checks
# ----------
print(f"escape time of orthonormal teachers ~ M^{power:.3f} for M = 12..40 (theory: 2)")
print(f"largest rate of random teachers at L = N: 1/gamma ~ M^{random:.2f}: one direction in T^(2) dominates")
assert abs(power - 2) < 0.05 and 0.6 < random < 1.5
for row in zip(L, end, times, strict=True):
    print("L = {:3.0f}: plateau left at alpha = {:6.0f} = {:4.1f} / gamma_max".format(*row))
print(f"(1/2) ln(N / sigma_J^2) = {logarithm:.1f}: D between {times.min() - logarithm:.1f} and "
      f"{times.max() - logarithm:.1f}")  # fmt: skip
assert np.all((times > 14.5) & (times < 23.5)) and np.all((times[L <= 100] > 15) & (times[L <= 100] < 19))
for n, alpha in zip(L, end, strict=True):
    low, high = OTHERS[int(n)]
    assert 0.8 * low < alpha < 1.25 * high
for (N, n), width in spread.items():
    print(f"N = {N:6d}, L = {n:3d}: standard deviation of the rates / mean formula {width:.3f}")
assert spread[500, 100] > 10 * spread[500_000, 100]
widths = [spread[500, n] for n in (5, 20, 100, 500)]
assert widths == sorted(widths)
