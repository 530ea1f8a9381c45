r"""
Few features: the Gaussian channel, the exact one, and the posterior itself
===========================================================================

Equal readouts v_i^2 = 1/k, sigma = He_3/sqrt(6), nu = n/d = 3k, Delta = 1/2. The theory with a Gaussian channel has the
same error at every k; the exact law of a label,

.. math:: p(y|V) = E_\xi\, N\Big(y;\ \sum_i v_i \sigma(\sqrt{q_i} V_i + \sqrt{1-q_i}\, \xi_i),\ \Delta\Big),

gives a larger one, by 0.4/k at k = 1 and 0.86/k at k = 64. Samples of the posterior (Hamiltonian Monte Carlo from the
teacher, bars from the spread between data sets) agree with it; both theories are for d -> infinity at fixed k.

The samples are stored; ``python examples/plot_bayes_channels.py --full`` makes them again, in some minutes. Those at
k = 1 and 2, d = 60 are drawn live.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

A, DELTA = 3.0, 0.5
SAMPLES = [
    (1, 200, 6, 120),
    (2, 200, 6, 120),
    (4, 120, 6, 120),
    (8, 100, 3, 80),
]  # k, d, data sets, draws
STORED = Path(__file__).parent / "data" / "bayes_channels.npz"
COMMAND = "python examples/plot_bayes_channels.py --full"


def teacher(k, channel="gaussian"):
    return ov.static.HierarchicalTeacher(v2=np.full(k, 1 / k), noise=DELTA**0.5, activation={3: 1.0}, channel=channel)


def sampled(k, d, runs, steps):
    """(k, d, eps, standard error) of the posterior."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # chains are short; the spread of the runs is the error
        found = ov.static.sample_posterior(teacher(k), d=d, nu=A * k, rng=k, runs=runs, steps=steps, warmup=80)
    print(f"k = {k}: {found}", flush=True)
    return k, d, found.eps, found.eps_err


def main():
    if "--full" in sys.argv:
        STORED.parent.mkdir(exist_ok=True)
        np.savez_compressed(STORED, command=COMMAND, sampled=[sampled(*row) for row in SAMPLES])
    with np.load(STORED) as file:
        stored = file["sampled"]
    widths = np.array([1, 2, 4, 8, 16, 32, 64])
    gaussian = teacher(1).solve(nu=A, selection="informed").eps
    exact = [teacher(k, "exact").solve(nu=A * k, selection="informed", samples=48) for k in widths]
    live = np.array([sampled(k, 60, 5, 150) for k in (1, 2)])
    eps, bars = np.array([(x.eps, x.eps_err) for x in exact]).T

    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    left.axhline(gaussian, color="0.4", label="Gaussian channel")
    left.errorbar(widths, eps, bars, fmt="o-", color="C0", label="exact channel")
    k, _, found, error = stored.T
    left.errorbar(
        k, found, error, fmt="s", color="C3", mfc="none", capsize=3, label="posterior sampled, $d$ = 100 to 200"
    )
    right.errorbar(k, k * (found - gaussian), k * error, fmt="s", color="C3", mfc="none", capsize=3)
    left.errorbar(live[:, 0], *live[:, 2:].T, fmt=".", color="0.6", capsize=3, zorder=0, label="live, $d = 60$")
    left.set(xscale="log", xlabel="features $k$", ylabel=r"Bayes error $\epsilon$", ylim=(0, None))
    left.legend(frameon=False)
    right.errorbar(widths, widths * (eps - gaussian), widths * bars, fmt="o-", color="C0")
    right.set(xscale="log", xlabel="features $k$", ylabel=r"$k\,(\epsilon - \epsilon_{\rm Gauss})$", ylim=(0, 1.5))
    for ax in (left, right):
        ax.set_xticks(widths, widths)
        ax.minorticks_off()
    fig.savefig("bayes_channels.png", dpi=150)
    return widths, gaussian, exact, stored, live


if __name__ == "__main__":
    widths, gaussian, exact, stored, live = main()
    for k, x in zip(widths, exact, strict=True):
        print(f"k = {k:2d}: exact {x.eps:.4f} +- {x.eps_err:.4f}, k (exact - Gaussian) = {k * (x.eps - gaussian):.3f}")
    assert 0.7 < 64 * (exact[-1].eps - gaussian) < 1.0 and abs(gaussian - 0.2511) < 2e-4
    theory = dict(zip(widths.tolist(), exact, strict=True))
    for k, d, eps, bar in [*live, *stored]:
        away = (eps - theory[int(k)].eps) / np.hypot(bar, theory[int(k)].eps_err)
        print(f"k = {k:g}, d = {d:g}: sampled {eps:.3f} +- {bar:.3f}, {away:+.1f} bars from the exact channel")
        assert abs(away) < 4
