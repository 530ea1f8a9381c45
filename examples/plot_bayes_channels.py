r"""
With few features the Bayes error lies above the Gaussian theory
================================================================

Equal readouts :math:`v_i^2 = 1/k`, :math:`\sigma = He_3/\sqrt 6`, nu = n/d = 3k, Delta = 1/2. The theory with a
Gaussian channel has the same error at every k; the exact law of a label gives a larger one, by 0.4/k at k = 1 and
0.86/k at k = 64, and samples of the posterior confirm it. Both theories are for :math:`d \to \infty` at fixed k.
"""

import sys
import warnings
from inspect import currentframe
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

# %%
# Samples of the posterior
# ------------------------
# Hamiltonian Monte Carlo from the teacher; bars come from the spread between data sets. The samples are stored, and
# ``python examples/plot_bayes_channels.py --full`` makes them again, in half an hour. Their chains are short: the
# script prints R-hat, effective sizes and the remaining drift away from the teacher (error zero), from which the chains
# start.
A, DELTA = 3.0, 0.5
SAMPLES = [  # k, d, data sets, draws, warm-up, leaps
    (1, 200, 10, 600, 300, 20),
    (2, 200, 8, 400, 200, 20),
    (4, 200, 10, 150, 100, 20),
    (8, 128, 6, 200, 100, 20),
    (16, 128, 6, 80, 30, 10),
    (32, 128, 5, 80, 30, 10),
    (64, 128, 4, 80, 30, 10),
    (16, 64, 6, 80, 30, 10),
    (32, 64, 6, 80, 30, 10),
    (64, 64, 4, 80, 30, 10),
]
STORED = Path(currentframe().f_code.co_filename).parent / "data" / "bayes_channels.npz"
COMMAND = "python examples/plot_bayes_channels.py --full"


def teacher(k, channel="gaussian"):
    return ov.static.HierarchicalTeacher(v2=np.full(k, 1 / k), noise=DELTA**0.5, activation={3: 1.0}, channel=channel)


def sampled(k, d, runs, steps, warmup=80, leapfrog=20):
    """(k, d, eps, standard error, R-hat, effective size, last minus first quarter of the draws, its error)."""
    options = dict(runs=runs, steps=steps, warmup=warmup, leapfrog=leapfrog)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # chains are short; the spread of the runs is the error
        found = ov.static.sample_posterior(teacher(k), d=d, nu=A * k, rng=k, **options)
    draws = found.draws[:, 0]
    drift = draws[:, -(steps // 4) :].mean(axis=1) - draws[:, : steps // 4].mean(axis=1)
    print(f"k = {k}: {found}", flush=True)
    left = drift.mean(), drift.std(ddof=1) / runs**0.5
    return k, d, found.eps, found.eps_err, found.rhat.max(), found.ess.min(), *left


if "--full" in sys.argv:
    STORED.parent.mkdir(exist_ok=True)
    pair = teacher(2, "exact").solve(nu=2 * A, selection="informed", overlaps="matrix").eps
    np.savez_compressed(STORED, command=COMMAND, pair=pair, sampled=[sampled(*row) for row in SAMPLES])
with np.load(STORED) as file:
    stored, pair = file["sampled"], float(file["pair"])

# %%
# Two channels
# ------------
# The exact channel integrates
#
# .. math:: p(y|V) = E_\xi\, N\Big(y;\ \sum_i v_i \sigma(\sqrt{q_i} V_i + \sqrt{1-q_i}\, \xi_i),\ \Delta\Big)
#
# and neglects overlaps between different features, which do not vanish for :math:`He_3`. Samples at k = 1 and 2, d = 60
# are drawn by this script.
widths = np.array([1, 2, 4, 8, 16, 32, 64])
gaussian = teacher(1).solve(nu=A, selection="informed").eps
exact = [teacher(k, "exact").solve(nu=A * k, selection="informed", samples=24) for k in widths]
live = np.array([sampled(k, 60, 5, 120) for k in (1, 2)])
eps, bars = np.array([(x.eps, x.eps_err) for x in exact]).T

# %%
# The gap falls as 1/k
# --------------------
# Samples lie within three bars of the exact channel up to k = 2. At k = 4 to 64 they lie above it, at k = 32 and 64
# further above for d = 64, because d has to be large compared with k. The cross at k = 2 includes the overlaps between
# the two features (``overlaps="matrix"``).
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
left.axhline(gaussian, color="0.4", label="Gaussian channel")
left.errorbar(widths, eps, bars, fmt="o-", color="C0", label="exact channel")
left.plot([2], [pair], "x", color="C0", ms=8, label="with overlaps of the two features")
for d, style, label in ((64, "o", "$d = 64$"), (128, "s", "$d$ = 128, 200")):
    k, found, error = stored[(stored[:, 1] == 64) == (d == 64)][:, [0, 2, 3]].T
    style = dict(fmt=style, color="C1" if d == 64 else "C3", mfc="none", capsize=3)
    left.errorbar(k, found, error, **style, label=f"posterior sampled, {label}")
    right.errorbar(k, k * (found - gaussian), k * error, **style)
left.errorbar(live[:, 0], *live[:, 2:4].T, fmt=".", color="0.6", capsize=3, zorder=0, label="live, $d = 60$")
left.set(xscale="log", xlabel="features $k$", ylabel=r"Bayes error $\epsilon$", ylim=(0, None))
left.legend(frameon=False)
right.errorbar(widths, widths * (eps - gaussian), widths * bars, fmt="o-", color="C0")
right.set(xscale="log", xlabel="features $k$", ylabel=r"$k\,(\epsilon - \epsilon_{\rm Gauss})$", ylim=(0, 2.5))
for ax in (left, right):
    ax.set_xticks(widths, widths)
    ax.minorticks_off()
fig.savefig("bayes_channels.png", dpi=150)

# %%
# The checks
# ----------
for k, x in zip(widths, exact, strict=True):
    print(f"k = {k:2d}: exact {x.eps:.4f} +- {x.eps_err:.4f}, k (exact - Gaussian) = {k * (x.eps - gaussian):.3f}")
assert 0.7 < 64 * (exact[-1].eps - gaussian) < 1.0 and abs(gaussian - 0.2511) < 2e-4
print(f"k =  2, with overlaps between the two features: {pair:.4f}")
assert 0.009 < pair - exact[1].eps < 0.011
theory = dict(zip(widths.tolist(), exact, strict=True))
for k, d, eps, bar, rhat, ess, drift, left in [*live, *stored]:
    away = (eps - theory[int(k)].eps) / np.hypot(bar, theory[int(k)].eps_err)
    print(f"k = {k:g}, d = {d:g}: sampled {eps:.4f} +- {bar:.4f}, {away:+.1f} bars from the exact channel; ", end="")
    print(f"R-hat up to {rhat:.2f}, effective size from {ess:.0f}, drift {drift:+.4f} +- {left:.4f}")
    assert abs(drift) < 4 * left and (abs(away) < 4 or d == 64)
