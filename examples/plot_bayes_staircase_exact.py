r"""
Strong features smear the staircase, noise restores it
======================================================

Overlaps of a power-law teacher, :math:`\sigma = He_3/\sqrt 6`, by the theory with a Gaussian channel, by the exact law
of a label, and by samples of the posterior. If few features are strong, the unknown part of a label is not Gaussian,
and the steps are smeared. If the noise is large, the label is nearly Gaussian, and features are learned one by one as
the theory predicts.
"""

import sys
import warnings
from inspect import currentframe
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Two teachers, three answers
# ---------------------------
# The exact channel solves
#
# .. math:: \frac{q_i}{1-q_i} = \nu\, E_V \int dy\, \frac{(\partial p/\partial\omega_i)^2}{p}, \qquad p = p(y|V).
#
# Exact solutions and samples (Hamiltonian Monte Carlo from the teacher, bars from the spread between data sets) are
# stored; ``python examples/plot_bayes_staircase_exact.py --full`` makes them again, in some minutes.
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "bayes_staircase_exact.npz"
COMMAND = "python examples/plot_bayes_staircase_exact.py --full"
NU = 30.0  # left
GRID, FEW = np.geomspace(55, 800, 11), np.array([90.0, 230.0, 480.0])  # right


def few(channel="gaussian"):
    return ov.static.HierarchicalTeacher(beta=1.0, k=20, noise=0.3**0.5, activation={3: 1.0}, channel=channel)


def noisy(channel="gaussian"):
    return ov.static.HierarchicalTeacher(beta=0.75, k=4, noise=30**0.5, activation={3: 1.0}, channel=channel)


def sampled(teacher, nu, **options):
    """Rows (value, standard error) of eps and of all overlaps, (1 + k, 2)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # chains are short; the spread of the runs is the error
        found = ov.static.sample_posterior(teacher, nu=nu, rng=1, **options)
    print(f"nu = {nu}: {found}", flush=True)
    return np.stack([np.r_[found.eps, found.q], np.r_[found.eps_err, found.q_err]], axis=1)


def steps():
    """Overlaps of the exact channel at nu of GRID, (nu, feature)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # next to a step two potentials are equal within their errors
        return np.array([noisy("exact").solve(nu=nu, samples=16).q for nu in GRID])


def computed():
    exact = few("exact").solve(nu=NU, samples=8)
    print(exact, flush=True)
    return {
        "exact": np.r_[exact.eps, exact.q],
        "exact_err": exact.eps_err,
        "grid": steps(),
        "sampled": sampled(few(), NU, d=50, runs=6, steps=120, warmup=60),
        "points": np.array([sampled(noisy(), nu, d=32, runs=4, steps=80, warmup=40) for nu in FEW]),
    }


if "--full" in sys.argv:
    STORED.parent.mkdir(exist_ok=True)
    np.savez_compressed(STORED, command=COMMAND, **computed())
with np.load(STORED) as file:
    data = dict(file)

# %%
# Smeared steps, sharp steps
# --------------------------
# Left: :math:`v_i \sim 1/i`, k = 20, Delta = 0.3, nu = 30. The Bayes error is 14 % larger than with a Gaussian channel,
# and the sample agrees with the exact channel within its bars. Right: :math:`v_i \sim i^{-3/4}`, k = 4, Delta = 30. At
# d = 32 steps are rounded, and the steps of single data sets are shifted.
gaussian = few().solve(nu=NU)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
rank = np.arange(1, 21)
left.plot(rank, gaussian.q, "o-", color="0.5", label=rf"Gaussian channel, $\epsilon$ = {gaussian.eps:.3f}")
eps = rf"$\epsilon$ = {data['exact'][0]:.4f} $\pm$ {data['exact_err']:.4f}"
left.plot(rank, data["exact"][1:], "o-", color="C0", label=f"exact channel, {eps}")
eps = rf"$\epsilon$ = {data['sampled'][0, 0]:.3f} $\pm$ {data['sampled'][0, 1]:.3f}"
left.errorbar(rank, *data["sampled"][1:].T, fmt="s", color="C3", mfc="none", capsize=3, label=f"sampled, {eps}")
left.set(xlabel="feature $i$", ylabel="overlap $q_i$", xticks=[1, 5, 10, 15, 20], ylim=(-0.03, 1.03))
left.set_title(r"$v_i \sim 1/i$, $k = 20$, $\Delta = 0.3$, $\nu = 30$", fontsize="medium")
left.legend(frameon=False, fontsize="small")
nu = np.geomspace(GRID[0], GRID[-1], 600)
lines = np.array([noisy().solve(nu=x).q for x in nu])
for i in range(4):
    right.plot(nu, np.where(lines[:, i] > 0, lines[:, i], np.nan), f"C{i}-", lw=1)
    right.plot(GRID, data["grid"][:, i], f"C{i}x", ms=5)
    right.errorbar(FEW, *data["points"][:, 1 + i].T, fmt="s", color=f"C{i}", mfc="none", capsize=3)
for style, label in (("k-", "Gaussian channel"), ("kx", "exact channel"), ("ks", "sampled, $d = 32$")):
    right.plot([], [], style, mfc="none", label=label)
right.set(xscale="log", xlabel=r"data $\nu = n/d$", ylabel="overlap $q_i$", ylim=(-0.03, 1.03))
right.set_xticks([50, 100, 200, 400, 800], [50, 100, 200, 400, 800])
right.minorticks_off()
right.set_title(r"$v_i \sim i^{-3/4}$, $k = 4$, $\Delta = 30$; colours: features", fontsize="medium")
right.legend(frameon=False, fontsize="small", loc="upper left")
fig.savefig("bayes_staircase_exact.png", dpi=150)

# %%
# The checks
# ----------
# An overlap of the exact channel is either near zero or above the height of a step.
(eps, *q), (found, error), overlaps = data["exact"], data["sampled"][0], data["sampled"][1:]
print(f"eps: Gaussian {gaussian.eps:.4f}, exact {eps:.4f} +- {data['exact_err']:.4f}")
print(f"     sampled {found:.4f} +- {error:.4f}")
assert abs(eps - 0.1827) < 0.002 and abs(found - eps) < 4 * error < 0.03
assert gaussian.eps < eps - 0.015
print("q:", ", ".join(f"{a:.3f} (sampled {b:.3f} +- {c:.3f})" for a, (b, c) in zip(q[:8], overlaps, strict=False)))
for nu, row in zip(FEW, data["points"], strict=True):
    theory = noisy().solve(nu=nu)
    print(f"nu = {nu:g}: Gaussian eps = {theory.eps:.3f}, sampled {row[0, 0]:.3f} +- {row[0, 1]:.3f}")
    assert abs(row[0, 0] - theory.eps) < 4 * row[0, 1]
learned = data["grid"] > 0.5
assert np.all(learned | (data["grid"] < 0.1)) and np.all(np.diff(learned.sum(axis=1)) >= 0)
