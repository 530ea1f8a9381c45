r"""
Rounding errors of moments hide small eigenvalues
=================================================

The moments :math:`Q^{(j)} = \sum_l s_l^j q^l`, :math:`R^{(j)} = \sum_l s_l^j r^l` of the overlaps obey a chain of
equations: each level depends on the next one, and the characteristic polynomial of the covariance closes the chain at j
= L. The chain is the flow of the block overlaps in other variables. This library does not use it, because rounding
errors of powers of s exceed the contributions of small eigenvalues. Worschech and Rosenow (2024), arXiv:2410.09005:
section 3, and Fig. 18 (K = M = 4, L = 10, N = 7000, beta = 0.25).
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import cayley_hamilton, plateau
from overlaps.theory.cayley_hamilton.hierarchy import MAX_EIGENVALUES

# %%
# Four bases of the same flow
# ---------------------------
# Powers of s, the same divided by :math:`s_1`, polynomials orthonormal with respect to p, and the blocks themselves.
# The chain of orthonormal polynomials closes in the same way, with a tridiagonal matrix, and keeps full precision.
# Errors are the largest relative ones of :math:`\epsilon_g` for :math:`\alpha \le 120`, at rtol 1e-12.
BETAS = (0.25, 1.0, 1.5)
STOPPED = 2e3  # where runs that broke off are drawn
POWERS, ALL = (2, 4, 6, 8, 10, 12, 14, 16), (2, 4, 6, 8, 10, 12, 14, 16, 64)
STYLES = {"monomial": "C3o-", "scaled": "C1s--", "orthonormal": "C0^-", "spectral": "kx:"}


def errors(beta, L):
    """{basis: (largest relative error of eps_g, whether the run came to its end)}."""
    model = ov.committee_machine(2, 2, eta=0.5, normalised=True, spectrum=ov.power_law(beta=beta, L=L))
    start = model.random_start(N=200 * L, rng=1, student_scale=0.6)
    alpha, tight = np.linspace(0, 120, 13), {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
    truth = ov.solve(model, start, alpha, method="DOP853", rtol=1e-13, atol=1e-15)
    found = {}
    for basis in STYLES:
        if basis in ("monomial", "scaled") and L not in POWERS:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a run that breaks off warns
            if basis == "spectral":
                traj = ov.solve(model, start, alpha, **tight)
            else:
                traj = cayley_hamilton.solve(model, start, alpha, basis=basis, limit=L, **tight)
        gap = np.max(np.abs(traj.eps_g / truth.eps_g[: len(traj)] - 1))
        found[basis] = gap if traj.success else np.inf, traj.success
    return found


def draw_errors(ax, beta, found):
    for basis, style in STYLES.items():
        L = np.array([L for L in found if basis in found[L]])
        gap, finished = np.array([found[i][basis] for i in L]).T
        (line,) = ax.loglog(L, np.minimum(gap, STOPPED), style, ms=5, lw=1.2, label=basis, mfc="none")
        broken = L[finished == 0]
        ax.plot(broken, np.full(broken.size, STOPPED), "X", color=line.get_color(), ms=10 if basis == "monomial" else 6)
    ax.axvspan(MAX_EIGENVALUES, 80, color="0.93", zorder=0)
    ax.set(xlabel="number of eigenvalues $L$", xlim=(1.8, 72), ylim=(3e-14, 3e4), title=rf"$\beta = {beta:g}$")
    ax.set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
    ax.minorticks_off()


# %%
# The use of the levels
# ---------------------
# On the plateau all students are the same combination of the teachers. The moments :math:`T^{(j)}` of the teacher then
# determine the heights of all levels.
def plateau_run():
    """Levels Q^(j), R^(j) along a plateau, from the orthonormal hierarchy, and their heights."""
    spectrum = ov.power_law(beta=0.25, L=10)
    model = ov.committee_machine(4, 4, eta=0.1, normalised=True, spectrum=spectrum, gradient_flow=True)
    start = model.random_start(N=7000, rng=2, student_scale=0.01)
    traj = cayley_hamilton.solve(model, start, np.linspace(0, 6000, 241))
    orders = np.arange(7)
    levels = [cayley_hamilton.order_parameters(state, orders) for state in traj]
    T = levels[0].T
    heights = plateau.moments(plateau.plateau(T[1]).c, T)
    return traj, np.array([x.Q for x in levels]), np.array([x.R for x in levels]), heights


found = {beta: {L: errors(beta, L) for L in ALL} for beta in BETAS}
traj, Q, R, (Q_height, R_height) = plateau_run()

# %%
# Rounding above, heights of the plateau below
# --------------------------------------------
# Top: errors against the number L of eigenvalues; crosses mark runs that broke off, because their covariance was no
# longer positive. Bottom: levels along a plateau, and their heights (dashed).
fig, ax = plt.subplot_mosaic("aabbcc;dddeee", figsize=(11, 7), layout="constrained")
for panel, beta in zip("abc", BETAS, strict=True):
    draw_errors(ax[panel], beta, found[beta])
    if panel != "a":
        ax[panel].sharey(ax["a"])
        ax[panel].tick_params(labelleft=False)
ax["a"].set_ylabel(r"relative error of $\epsilon_g$")
ax["a"].text(18, 1e-6, "$L > 8$: powers\nof $s$ refused", color="0.35", fontsize="small")
ax["b"].text(7, STOPPED, "broke off", color="0.35", fontsize="small", ha="right", va="center")
ax["c"].legend(frameon=False, fontsize="small", loc="center right", bbox_to_anchor=(1.0, 0.55))

j = 4
for n in range(4):
    ax["d"].plot(traj.alpha, R[:, j, :, n], f"C{n}", lw=1)
    ax["d"].axhline(R_height[j, n], color=f"C{n}", ls="--", lw=1.2)
ax["d"].plot([], [], "0.3", lw=1, label="hierarchy, one colour per teacher $n$")
ax["d"].plot([], [], "0.3", ls="--", lw=1.2, label="theory of the plateau")
ax["d"].set(ylabel=rf"$R^{{({j})}}_{{kn}}$", xlim=(0, 3000), ylim=(5.4, 8.1))
ax["d"].legend(frameon=False, loc="upper left", fontsize="small")
tones = plt.colormaps["viridis"](np.linspace(0, 0.9, Q.shape[1]))
for level, tone in enumerate(tones):
    ax["e"].semilogy(traj.alpha, Q[:, level, 0, 0], color=tone, lw=1.5)
    ax["e"].hlines(Q_height[level], 0, 6000, color=tone, ls="--", lw=1)
    side = {0: "top", 1: "bottom"}.get(level, "center")
    ax["e"].text(6050, Q[-1, level, 0, 0], f"$j = {level}$", color=tone, va=side, fontsize="small")
ax["e"].set(ylabel=r"$Q^{(j)}_{11}$", xlim=(0, 6700), ylim=(0.05, None))
for panel in "de":
    ax[panel].set_xlabel(r"$\alpha$ = steps / $N$")
    ax[panel].grid(alpha=0.25)
fig.savefig("hierarchy.png", dpi=150)

# %%
# The checks
# ----------
# Orthonormal polynomials and blocks have nine correct digits at every L; powers have at most three at L = 12 or 16. The
# error of the latter depends on rounding and thus on the machine, and is mostly above 1 %.
for beta in BETAS:
    print(f"beta = {beta:g}: relative error of eps_g")
    for basis in STYLES:
        row = [found[beta][L].get(basis) for L in ALL]
        print(f"  {basis:12}", " ".join(f"{e[0]:8.1e}{' ' if e[1] else '*'}" if e else "         " for e in row))
print("   L =         ", " ".join(f"{L:8d} " for L in ALL), "  (* stopped)")
worst = max(found[beta][L][basis][0] for beta in BETAS for L in ALL for basis in ("orthonormal", "spectral"))
allowed = max(found[beta][8][basis][0] for beta in BETAS for basis in ("monomial", "scaled"))
print(f"orthonormal and spectral: at most {worst:.1e}; powers at L = 8: at most {allowed:.1e}")
assert worst < 1e-9 and allowed < 1e-5
for beta, L in ((0.25, 16), (1.0, 12), (1.5, 12)):
    assert min(found[beta][L][basis][0] for basis in ("monomial", "scaled")) > 1e-3
still = int(np.argmin(np.abs(np.gradient(np.log(traj.eps_g), traj.alpha))[:150]))
gap_Q = np.max(np.abs(Q[still].mean(axis=(1, 2)) / Q_height - 1))
gap_R = np.max(np.abs(R[still].mean(axis=1) / R_height - 1))
print(f"plateau at alpha = {traj.alpha[still]:.0f}: eps_g = {traj.eps_g[still]:.5f}")
print(f"heights of Q^(0..6), R^(0..6) against theory: within {gap_Q:.1e}, {gap_R:.1e}")
print("R^(4):", R[still, 4].mean(axis=0).round(4), "theory", R_height[4].round(4))
assert gap_Q < 0.02 and gap_R < 0.02
