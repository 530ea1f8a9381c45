r"""
A quadratic network relaxes, waits, and escapes
===============================================

A student of six quadratic units learns a teacher of three. First the norm relaxes to a plateau, then the overlaps with
the teacher grow as :math:`\exp(\omega\alpha)`, then the error falls; the overlaps among students first decay and then
grow towards those of the teacher. Parameters of Bocchi et al. (2026), arXiv:2604.03068, Figure 1.
"""

import sys
from inspect import currentframe
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# SGD at two learning rates
# -------------------------
# N = 2000 and six runs at ten times the published rate (theirs is half of this one), and N = 10,000 and ten runs at the
# published one. The latter, 2 * 10^8 steps of the reduced simulator (exact in law at every N), are stored;
# ``python examples/plot_quadratic_dynamics.py --paper`` makes them again, in some minutes.
K, M, EPS = 6, 3, 0.05
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "quadratic_dynamics.npz"
COMMAND = "python examples/plot_quadratic_dynamics.py --paper"


def begin(slower):
    """(model, start, times): ``slower`` times below ten times the published learning rate."""
    model = ov.quadratic_network(K, M, eta=quadratic.eta_from_paper(0.1 / slower))
    R = EPS * np.random.default_rng(3).standard_normal((K, M))
    start = ov.State.from_overlaps(model, Q=np.eye(K), R=R, T=np.eye(M))
    return model, start, np.linspace(0, 200 * slower, 401)


def simulated(slower, N, runs, **options):
    """alpha, and (mean, standard error of the mean) of eps_g, R and Q over runs of SGD."""
    model, start, alpha = begin(slower)
    sgd = ov.simulate(model, N=N, alpha=alpha[::20], rng=1, start=start, runs=runs, **options)
    values = {name: getattr(sgd, name) for name in ("eps_g", "R", "Q")}
    found = {name: np.stack([x.mean(0), x.std(0, ddof=1) / np.sqrt(runs)]) for name, x in values.items()}
    return {"alpha": sgd.alpha, "N": N, "runs": runs, **found}


# %%
# Errors and overlaps
# -------------------
# Lines: the equations with every term of order :math:`\eta^2`; markers: SGD from the same overlaps, with standard
# errors of the mean; dashed: the law of the escape for this start. Top: the fast rate. Bottom: the published one.
def draw(axes, slower, sgd):
    """The equations and SGD in one row of axes; returns (trajectory, plateau, escape law)."""
    model, start, alpha = begin(slower)
    traj, plateau = ov.solve(model, start, alpha), quadratic.plateau(K, M, eta=model.eta)
    error, cross, own = axes
    error.plot(alpha, traj.eps_g, "C0", label="ODE")
    label = f"SGD, N = {sgd['N']}, {sgd['runs']} runs"
    error.errorbar(sgd["alpha"], *sgd["eps_g"], fmt="C0.", ms=4, capsize=2, label=label)
    error.axhline(plateau.eps_g, color="0.6", lw=1, zorder=0)
    error.text(alpha[-1], plateau.eps_g * 1.06, "plateau", color="0.4", ha="right")
    # the law for this start: its own sum of R^2 instead of the average K M eps^2
    law = quadratic.escape_law(alpha, K, M, eta=model.eta, eps=np.sqrt(np.mean(start.R**2)), q0=1.0)
    error.plot(alpha[law > 0.25], law[law > 0.25], "k--", lw=1, label="escape law")
    error.set(yscale="log", ylabel=r"generalisation error $\epsilon_g$", ylim=(2e-4, 1.5))
    error.set_title(rf"$\eta = {model.eta}$", fontsize="medium")
    error.legend(frameon=False)
    for k in range(K):
        for m in range(M):
            cross.plot(alpha, traj.R[:, k, m], f"C{m}", lw=1)
            cross.errorbar(sgd["alpha"], *sgd["R"][..., k, m], fmt=f"C{m}.", ms=4, lw=0.8)
    cross.set(ylabel=r"$R_{km}$, one colour per teacher unit")
    for k in range(K):
        for j in range(k, K):
            color = "C3" if j == k else "0.5"
            own.plot(alpha, traj.Q[:, k, j], color, lw=1)
            own.errorbar(sgd["alpha"], *sgd["Q"][..., k, j], fmt=".", color=color, ms=4, lw=0.8)
    own.axhline(plateau.q, color="k", lw=1, ls=":", zorder=0)
    own.set(ylabel=r"$Q_{kk}$ (red) and $Q_{kj}$ (grey)")
    return traj, plateau, law


if "--paper" in sys.argv:
    STORED.parent.mkdir(exist_ok=True)
    np.savez_compressed(STORED, command=COMMAND, **simulated(10, 10_000, 10, method="reduced"))
with np.load(STORED) as file:
    paper = dict(file)
sets = [(1, simulated(1, 2000, 6)), (10, paper)]
fig, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
found = [(*draw(row, slower, sgd), sgd) for row, (slower, sgd) in zip(axes, sets, strict=True)]
for ax in axes[1]:
    ax.set_xlabel(r"$\alpha$ = steps / $N$")
fig.suptitle(rf"quadratic network, $K = {K}$, $M = {M}$", fontsize="medium")
fig.savefig("quadratic_dynamics.png", dpi=150)

# %%
# The checks
# ----------
# Single runs differ by their escape times, 0.2 to 0.4 in units of 1/rate.
for traj, plateau, law, sgd in found:
    early = (traj.alpha > 0.075 * traj.alpha[-1]) & (plateau.eps_g - law < 0.05)
    gap = np.max(np.abs(traj.eps_g - law)[early])
    print(f"plateau: q = {plateau.q:.4f}, eps_g = {plateau.eps_g:.4f}, escape rate {plateau.escape:.4f}")
    print(f"escape law: within {gap:.4f} of the ODE until it has fallen by 0.05")
    assert early.any() and gap < 1e-2  # next order of the law
    mean, error = sgd["eps_g"]
    print(f"eps_g at alpha = {traj.alpha[-1]:g}: ODE {traj.eps_g[-1]:.4e}, SGD {mean[-1]:.4e} +- {error[-1]:.1e}")
    assert traj.eps_g[-1] < 1e-2 and abs(mean[-1] / traj.eps_g[-1] - 1) < 0.01
    # spread of the escape times: 1 / (eps sqrt(N)) in units of 1 / rate
    spread = np.abs(mean - traj.eps_g[::20]) / np.maximum(np.sqrt(sgd["runs"]) * error, 1e-4)
    print(f"SGD and ODE are at most {spread.max():.2f} standard deviations of a run apart")
    assert spread.max() < 3
