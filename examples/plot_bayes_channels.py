r"""
Few features: the Gaussian channel, the exact one, and the posterior itself
===========================================================================

Equal readouts v_i^2 = 1/k, sigma = He_3/sqrt(6), nu = n/d = 3k, Delta = 1/2. The theory with a Gaussian channel has the
same error at every k; the exact law of a label,

.. math:: p(y|V) = E_\xi\, N\Big(y;\ \sum_i v_i \sigma(\sqrt{q_i} V_i + \sqrt{1-q_i}\, \xi_i),\ \Delta\Big),

gives a larger one, by 0.4/k at k = 1 and 0.86/k at k = 64. Samples of the posterior at d = 60 (Hamiltonian Monte Carlo
from the teacher, bars from the spread between data sets) agree with it; the two theories are for d -> infinity.
"""

import sys
import warnings

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

A, DELTA = 3.0, 0.5


def teacher(k, channel="gaussian"):
    return ov.static.HierarchicalTeacher(v2=np.full(k, 1 / k), noise=DELTA**0.5, activation={3: 1.0}, channel=channel)


def main(runs):
    widths = np.array([1, 2, 4, 16, 64])
    gaussian = teacher(1).solve(nu=A, selection="informed").eps
    exact = [teacher(k, "exact").solve(nu=A * k, selection="informed") for k in widths]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # chains are short; the spread of the runs is the error
        sampled = [
            ov.static.sample_posterior(teacher(k), d=60, nu=A * k, rng=k, runs=runs, steps=150, warmup=80)
            for k in (1, 2)
        ]
    eps, bars = np.array([(x.eps, x.eps_err) for x in exact]).T
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    left.axhline(gaussian, color="0.4", label="Gaussian channel")
    left.errorbar(widths, eps, bars, fmt="o-", color="C0", label="exact channel")
    left.errorbar(
        [1, 2], [x.eps for x in sampled], [x.eps_err for x in sampled], fmt="s", color="C3", capsize=3,
        label="posterior sampled, $d = 60$",
    )  # fmt: skip
    left.set(xscale="log", xlabel="features $k$", ylabel=r"Bayes error $\epsilon$", ylim=(0, None))
    left.legend(frameon=False)
    right.errorbar(widths, widths * (eps - gaussian), widths * bars, fmt="o-", color="C0")
    right.set(xscale="log", xlabel="features $k$", ylabel=r"$k\,(\epsilon - \epsilon_{\rm Gauss})$", ylim=(0, 1))
    for ax in (left, right):
        ax.set_xticks(widths, widths)
        ax.minorticks_off()
    fig.savefig("bayes_channels.png", dpi=150)
    return widths, gaussian, exact, sampled


if __name__ == "__main__":
    widths, gaussian, exact, sampled = main(runs=30 if "--full" in sys.argv else 5)
    for k, x in zip(widths, exact, strict=True):
        print(f"k = {k:2d}: exact {x.eps:.4f} +- {x.eps_err:.4f}, k (exact - Gaussian) = {k * (x.eps - gaussian):.3f}")
    assert 0.7 < 64 * (exact[-1].eps - gaussian) < 1.0 and abs(gaussian - 0.2511) < 2e-4
    for x, y in zip(sampled, exact, strict=False):
        print(f"sampled {x.eps:.3f} +- {x.eps_err:.3f}, exact {y.eps:.3f}")
        assert abs(x.eps - y.eps) < 4 * x.eps_err
