"""
Every spectrum ends on the same floor of label noise
====================================================

Noisy labels keep an erf committee from its teacher. Summed over the eigenvalues of the inputs, the equations of a fixed
point contain the spectrum only through the teacher's overlaps T and the mean eigenvalue, so that the final error is the
same for every spectrum, even if the time to reach it differs. Derived for this library; isotropic inputs at small eta:
Goldt et al. (2020), arXiv:1906.08632.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import late_time

# %%
# As many students as teachers
# ----------------------------
# K = M = 2 from small students, to the floor
#
# .. math:: \epsilon_\infty \to \frac{\eta\sigma^2}{2\pi\sqrt3} \qquad (K = M,\ \eta \to 0).
ETA, NOISE = 0.5, 0.05
SPECTRA = {"isotropic": ov.isotropic(), r"$\beta$ = 1, L = 16": ov.power_law(beta=1.0, L=16),
           r"$\beta$ = 1, L = 256": ov.power_law(beta=1.0, L=256)}  # fmt: skip


def approach(ax):
    """Errors of K = M = 2 for three spectra; {name: (last error, closed form over error at late times)}."""
    alpha, found = np.concatenate([[0], np.geomspace(1, 3e6, 121)]), {}
    for (name, spectrum), color in zip(SPECTRA.items(), ("midnightblue", "teal", "firebrick"), strict=True):
        model = ov.committee_machine(2, 2, eta=ETA, noise=NOISE, normalised=True, spectrum=spectrum)
        start = model.random_start(N=256 * 32, rng=2, student_scale=0.1, teacher="ideal")
        traj = ov.solve(model, start, alpha, method="structured", rtol=1e-7)
        late = int(np.argmax((traj.eps_g < 0.001) & (alpha > 10)))
        x, y = late_time.differences(traj[late])
        closed = late_time.first_order(alpha[late:] - alpha[late], spectrum, 2, eta=ETA, noise=NOISE, x=x, y=y)
        ax.loglog(alpha[1:], traj.eps_g[1:], color=color, lw=2, label=name)
        if spectrum.L == 256:
            ax.loglog(alpha[late:], closed, "k--", lw=1, label="closed form")
        found[name] = traj.eps_g[-1], closed / traj.eps_g[late:]
    floor = late_time.noise_floor(2, eta=ETA, noise=NOISE)
    ax.axhline(floor, color="0.5", ls=":", label=r"floor $\epsilon_\infty$")
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", xlim=(1, 3e6), title="K = M = 2")
    ax.legend(frameon=False)
    return found, floor


# %%
# Superfluous students
# --------------------
# One teacher. The norm of a single superfluous student stays near zero, and its noise adds to the floor. For two this
# state is unstable: their norms grow with opposite signs, to values where g' and therefore the noise is smaller.
def superfluous(ax):
    """Errors of 2 or 3 students of one teacher over the floor with superfluous norms zero; norm of the third one."""
    alpha, found = np.geomspace(1, 1e6, 121), {}
    for K, color in ((2, "teal"), (3, "firebrick")):
        model = ov.committee_machine(K, 1, eta=0.2, noise=0.3)
        off = np.arange(K) > 0
        Q = np.diag(np.where(off, 1e-3, 1.0)) + 1e-4 * np.outer(off, off)
        traj = ov.solve(model, ov.State.from_overlaps(model, Q=Q, R=np.eye(K, 1), T=[[1.0]]), alpha)
        floor = 0.2 * 0.3**2 / (2 * np.pi) * (K - 1 + 3**-0.5)
        ax.loglog(alpha, traj.eps_g, color=color, lw=2, label=f"K = {K}")
        ax.axhline(floor, color=color, ls="--", lw=1)
        found[K] = traj.eps_g[[60, 80, 100, 120]] / floor
    norm = ax.twinx()
    norm.loglog(alpha, traj.Q[:, 1, 1], color="firebrick", ls=":", lw=1.5)
    norm.set_ylabel(r"$Q_{22}$ at K = 3 (dotted)")
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", xlim=(1, 1e6), title="M = 1, superfluous students")
    ax.legend(frameon=False, loc="center", bbox_to_anchor=(0.72, 0.2))
    return found


# %%
# One floor, and students that go below theirs
# --------------------------------------------
# Left: with power-law spectra the error approaches the floor as a power law (dashed: closed form of late times, with
# the floor). Right: with two superfluous students the error keeps falling below the floor of students of norm zero
# (dashed); dotted: norm of one of them.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
found, floor = approach(left)
extra = superfluous(right)
fig.savefig("late_noise.png", dpi=150)

# %%
# The checks
# ----------
for name, (end, ratio) in found.items():
    print(f"{name}: eps_g at the end / floor = {end / floor:.4f}; closed form / eps_g {ratio.min():.3f} to "
          f"{ratio.max():.3f}")  # fmt: skip
    assert abs(end / floor - 1) < 0.002  # sigma^2 = 0.0025 to first order
assert abs(ratio - 1).max() < 0.1  # ratio of the last spectrum, with 256 eigenvalues
assert np.ptp([end for end, _ in found.values()]) < 1e-6 * floor
for K, ratio in extra.items():
    print(f"K = {K}: eps_g over the floor at alpha = 1e3, 1e4, 1e5, 1e6:", ratio.round(3))
assert np.ptp(extra[2]) < 1e-5 and extra[3][0] > 2 * extra[3][2]
