r"""
Every teacher has its own height on the plateau
===============================================

On the symmetric plateau of an erf network all students are one and the same combination of the teachers, :math:`w_k =
\sum_n c_n w^*_n`, and the coefficients follow from the covariance T of the teacher fields alone. Random teachers are
neither orthonormal nor of equal norm, so that every moment has a different height for each teacher. Worschech and
Rosenow (2024), arXiv:2410.09005, Figs. 4, 17, 18, 19 (K = M = 4, N = 7000, sigma_J = 0.01, eta = 0.1, no terms of order
eta^2; beta = 0.25).
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import plateau

# %%
# Heights of all moments
# ----------------------
# With the coefficients c,
#
# .. math:: R^{(j)} = T^{(j)} c, \qquad Q^{(j)} = c^T T^{(j)} c, \qquad T^{(j)} = \sum_l s_l^j t^l.
M, ETA, BETA = 4, 0.1, 0.25
COLORS = ["midnightblue", "teal", "darkorange", "firebrick"]
IDEAL = {2: 962, 4: 755, 6: 628, 8: 542, 10: 478, 12: 429}  # escape times for orthonormal teachers


def setting(L):
    """Model, a random start (N = 7000, or the nearest multiple of L), first and second moment of its teacher."""
    spectrum = ov.power_law(beta=BETA, L=L)
    model = ov.committee_machine(M, M, eta=ETA, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=L * round(7000 / L), rng=1, student_scale=0.01)
    return model, start, *plateau.teacher_moments(start, [1, 2])


def draw_overlaps(ax, higher):
    """R^(1) with its four heights; R^(4), Q^(4), Q^(6) in units of the mean heights; the measured relative gaps."""
    model, start, T, _ = setting(10)
    s, point = model.spectrum.s, plateau.plateau(T)
    traj = ov.solve(model, start, np.linspace(0, 6000, 301))
    wait = np.searchsorted(traj.alpha, 400)
    for k in range(M):
        for n in range(M):
            ax.plot(traj.alpha, traj.R[:, k, n], color=COLORS[n], lw=1)
    for n, height in enumerate(point.R):
        ax.axhline(height, color=COLORS[n], ls="--", lw=1, label=rf"$R_{{k{n + 1}}}$ = {height:.4f}")
    ax.set(xlabel=r"$\alpha$", ylabel=r"overlaps $R_{kn}$", xlim=(0, 6000), ylim=(-0.3, 1))
    ax.set_title("four heights, L = 10")
    inset = ax.inset_axes([0.13, 0.56, 0.34, 0.4])
    for n in range(M):
        inset.plot(traj.alpha, traj.R[:, :, n], color=COLORS[n], lw=1)
        inset.axhline(point.R[n], color=COLORS[n], ls="--", lw=1)
    inset.set(xlim=(100, 900), ylim=(0.176, 0.188))
    inset.tick_params(labelsize="x-small")
    ax.legend(frameon=False, fontsize="small", loc="lower left")

    gaps = [np.max(np.abs(traj.R[wait] / point.R - 1))]
    _, r, t = traj[wait].plain
    q = traj.q
    for j, color in ((4, "teal"), (6, "firebrick")):
        Q, R = plateau.moments(point.c, np.tensordot(s**j, t, 1))
        curve = np.einsum("l,almn->amn", s**j, q) / Q
        higher.plot(traj.alpha, curve.reshape(len(curve), -1)[:, :: M + 1], color=color, lw=1)
        higher.plot([], [], color=color, label=rf"$Q^{{({j})}}_{{kk}}$ / {Q:.4g}")
        gaps += [np.max(np.abs(np.tensordot(s**j, r, 1) / R - 1)), np.max(np.abs(curve[wait] - 1))]
    R4 = plateau.moments(point.c, np.tensordot(s**4, t, 1))[1]
    curve = np.einsum("l,almn->amn", s**3, traj.r) / R4.mean()  # traj.r contains one s_l
    for n in range(M):
        higher.plot(traj.alpha, curve[:, :, n], color="darkorange", lw=0.8)
        higher.axhline(R4[n] / R4.mean(), color="k", ls="--", lw=0.8)
    higher.plot([], [], color="darkorange", label=rf"$R^{{(4)}}_{{kn}}$ / {R4.mean():.4g}")
    higher.set(xlabel=r"$\alpha$", ylabel="in units of the predicted height", xlim=(0, 2600), ylim=(0.85, 1.15))
    higher.set_title("higher moments, L = 10")
    higher.legend(frameon=False, loc="upper left", fontsize="small")
    return gaps


# %%
# The error, and the end of the plateau
# -------------------------------------
# The plateau should end at :math:`(D + \ln(N/\sigma_J^2) / 2) / \gamma` with D = 0, with the largest rate of these
# teachers or with that of symmetric teachers that have their mean overlaps, the paper's (15).
def draw_errors(ax):
    """Trajectories of eps_g for several L; (height, plateau of the curve, alpha at 0.9 of it, predictions) for each."""
    found = {}
    for L, color in zip((2, 8, 10, 12), COLORS, strict=True):
        model, start, T, T2 = setting(L)
        traj, height = ov.solve(model, start, np.linspace(0, 9000, 451)), plateau.plateau(T).eps_g
        rates = plateau.escape_rates(T, T2, eta=ETA)[0], 1 / mean_time(T, T2)
        ends = [plateau.length(rate, N=7000, student_scale=0.01) for rate in rates]
        for predicted, style in zip(ends, ("-", ":"), strict=True):
            ax.axvline(predicted, 0.0, 0.12, color=color, ls=style, lw=1.5)
        ax.plot(traj.alpha, 1e3 * traj.eps_g, color=color, label=f"L = {L}")
        ax.axhline(1e3 * height, color=color, ls="--", lw=1)
        end = traj.alpha[np.argmax((traj.alpha > 500) & (traj.eps_g < 0.9 * height))]
        found[L] = height, traj.eps_g[np.searchsorted(traj.alpha, 0.25 * end)], end, *ends
    ax.set(xlabel=r"$\alpha$", ylabel=r"$10^3\, \epsilon_g$", xlim=(0, 9000), ylim=(0, 11))
    ax.set_title("generalisation error")
    ax.plot([], [], "k-", lw=1.5, label="predicted end, D = 0")
    ax.plot([], [], "k:", lw=1.5, label="mean formula")
    ax.legend(frameon=False, loc="upper right", ncols=2, fontsize="small")
    return found


def mean_time(T, T2):
    """Escape time of symmetric teachers with these mean overlaps."""
    (T1, D1), (second, D2) = plateau.row_averages(T), plateau.row_averages(T2)
    return plateau.escape_time(M, T1=T1, D1=D1, T2=second, D2=D2, eta=ETA)


# %%
# Escape times
# ------------
# The M - 1 rates are the eigenvalues of an M x M matrix.
def draw_rates(ax):
    """Escape times for every L: all rates, the mean formula, orthonormal teachers; (mean rate x formula, ideal)."""
    found = {}
    for L in IDEAL:
        model, _, T, T2 = setting(L)
        rates = plateau.escape_rates(T, T2, eta=ETA)[: M - 1]
        mean = mean_time(T, T2)
        ideal = plateau.escape_time(M, T2=model.spectrum.p @ model.spectrum.s**2, eta=ETA)
        ax.plot([L] * (M - 1), 1 / rates, "o", color="teal", ms=5, label="1/rate, each" if L == 2 else None)
        ax.plot(L, mean, "_", color="firebrick", ms=18, mew=2, label="averaged formula" if L == 2 else None)
        found[L] = rates.mean() * mean, ideal
    ax.plot(list(found), [x[1] for x in found.values()], "k--", lw=1, label="orthonormal teachers")
    ax.set(xlabel="number of eigenvalues L", ylabel=r"escape time $1/\gamma$", ylim=(0, 1100), title="escape")
    ax.legend(frameon=False)
    return found


# %%
# Trajectories on predicted heights
# ---------------------------------
# Top: overlaps and higher moments (lines) and their heights (dashed). Bottom left: errors, and predicted ends with the
# largest rate (solid) and the mean formula (dotted). Bottom right: escape times; the closed formula passes through the
# middle of the rates.
fig, axes = plt.subplots(2, 2, figsize=(11, 7.6), layout="constrained")
gaps = draw_overlaps(axes[0, 0], axes[0, 1])
errors, rates = draw_errors(axes[1, 0]), draw_rates(axes[1, 1])
fig.savefig("plateau_heights.png", dpi=150)

# %%
# The checks
# ----------
# Errors reach 0.9 of the height earlier than predicted at D = 0; D = -1.4 fits all L.
print("largest relative gap to the heights at alpha = 400:", ", ".join(f"{g:.1e}" for g in gaps))
assert max(gaps) < 0.02  # differences of students are growing already
for L, (height, measured, end, largest, mean) in errors.items():
    print(
        f"L = {L:2d}: eps_g on the plateau {measured:.6f}, theory {height:.6f}; left at alpha = {end:.0f}, "
        f"predicted {largest:.0f} from the largest rate, {mean:.0f} from the mean formula"
    )
    assert abs(measured / height - 1) < 2e-3 and abs(height - 0.0070) < 3e-4
assert 3000 < errors[10][2] < 3900
logarithm = 0.5 * np.log(7000 / 0.01**2)
D = [logarithm * (end / largest - 1) for _, _, end, largest, _ in errors.values()]
print("D =", np.round(D, 2))
assert np.ptp(D) < 0.2 and -1.6 < np.mean(D) < -1.2
for L, (product, ideal) in rates.items():
    print(f"L = {L:2d}: mean rate x averaged formula = {product:.4f}; orthonormal teachers {ideal:.1f} ({IDEAL[L]})")
    assert abs(product - 1) < 5e-3 and abs(ideal - IDEAL[L]) < 0.6
