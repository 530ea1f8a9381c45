r"""
Sums over many coordinates depend on two moments only
=====================================================

SGD depends on the latents of a hidden manifold through sums over D coordinates: pre-activations :math:`U = F c/\sqrt D`
and teacher fields. The theory only requires these to be Gaussian with the covariance of Gaussian latents. Standardised
mixtures of two components with means :math:`\pm 3` and unit variances satisfy this if a component is drawn for every
coordinate. After Bae and Jeong (2024), arXiv:2405.00642; model of Goldt et al. (2020), arXiv:1909.11500. ``--full``
uses N = 800, D = 400, :math:`\alpha \le 30` in the last panel.
"""

import sys
import warnings

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import erf, ndtr, ndtri
from scipy.stats import binom

import overlaps as ov
from overlaps.manifold import latents
from overlaps.manifold.weights import random_weights
from overlaps.results.discrepancy import log_times

# %%
# One field
# ---------
# Its weights add up to :math:`\sqrt D`, D = 200. With a component per coordinate the field is a sum of D independent
# terms, hence nearly Gaussian. A component shared by all coordinates shifts the whole sum, which remains a mixture.
# Standardising every vector over its coordinates removes that shift.
FULL = "--full" in sys.argv
MEANS = np.array([-3.0, 3.0])
LAWS = {"elementwise": "population", "shared, population": "population", "shared, sample": "sample"}
COLOURS = dict(zip(LAWS, ("C0", "C3", "C2"), strict=True))
NAMES = "Q", "R", "v"
SHARE = MEANS[1] ** 2 / (1 + MEANS[1] ** 2)  # fraction of the variance of a coordinate due to the means


def sampler(law):
    return latents.mixture(kind=law.split(",")[0], means=MEANS, standardise=LAWS[law])


def weights_with_sum(g, D, rng):
    """Random weights (n, D) of squared length D that add up to g sqrt(D), for each of n numbers g."""
    z = rng.standard_normal((len(g), D))
    z -= z.mean(axis=1, keepdims=True)
    z *= np.sqrt((D - g**2) / np.sum(z**2, axis=1))[:, None]
    return g[:, None] / np.sqrt(D) + z


def draw_densities(ax, D=200, samples=20_000):
    rng = np.random.default_rng(1)
    w = weights_with_sum(np.ones(1), D, rng)[0]
    edges = np.linspace(-3.5, 3.5, 71)
    x = (edges[1:] + edges[:-1]) / 2
    gauss = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    distance = {}
    for law, colour in COLOURS.items():
        density = np.histogram(sampler(law)(rng, samples, D) @ w / np.sqrt(D), edges, density=True)[0]
        ax.step(x, density, colour, where="mid", label=law)
        distance[law] = np.sum(np.abs(density - gauss)) * (x[1] - x[0]) / 2  # total variation
    ax.plot(x, gauss, "k", lw=1.2, label="N(0, 1)")
    ax.set(xlabel=r"field $w\cdot c/\sqrt{D}$", ylabel="density", title=f"means $\\pm 3$, standardised, D = {D}")
    ax.set_ylim(0, 1)
    ax.legend(frameon=False, ncols=2, loc="upper center")
    return distance


# %%
# The fourth cumulant of the fields
# ---------------------------------
# It falls like 1/D, or does not fall,
#
# .. math:: \kappa_4 = \frac{3}{D}\kappa_4(c) \quad\text{(elementwise)}, \qquad
#           -6\Big(\frac{\mu^2}{1+\mu^2}\Big)^2 \quad\text{(shared, population)}, \qquad
#           -\frac{6}{D} \quad\text{(shared, sample)},
#
# averaged over normal weights (here: over 50 quantiles of their sum, which excludes rare large sums).
def cumulants(D, samples=20_000, rows=50):
    """Minus the fourth cumulant of a field, mean over weights, by law: {law: (samples, theory)}."""
    rng = np.random.default_rng(D)
    g = ndtri((np.arange(rows) + 0.5) / rows)  # quantiles of the sum of normal weights
    F = weights_with_sum(g, D, rng)
    theory = np.sum(F**4, axis=1) / D**2 * 2 * SHARE**2, 2 * SHARE**2 * g**4, 6 / (D + 1) * ((D - g**2) / (D - 1)) ** 2
    found = {}
    for law, value in zip(LAWS, theory, strict=True):
        U = sampler(law)(rng, samples, D) @ F.T / np.sqrt(D)
        U -= U.mean(axis=0)
        found[law] = np.mean(3 * np.mean(U**2, axis=0) ** 2 - np.mean(U**4, axis=0)), value.mean()
    return found


def draw_cumulants(ax):
    D = np.array([8, 16, 32, 64, 128])
    found = [cumulants(d) for d in D]
    values = {law: np.array([f[law] for f in found]).T for law in LAWS}
    for law, colour in COLOURS.items():
        ax.loglog(D, values[law][1], colour, label=law)
        ax.loglog(D, values[law][0], "o", color=colour, ms=5)
    ax.set(
        xlabel="latent dimension $D$", title="fourth cumulant of a field: lines theory, dots samples", ylim=(1e-2, 10)
    )
    ax.set_ylabel(r"$-\kappa_4$, mean over weights")
    ax.set_xticks(D, [str(d) for d in D])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="lower left")
    return D, values


# %%
# Two moments do not fix an average
# ---------------------------------
# Published figure S1: means over 1000 samples of sgn, erf and relu of one standardised coordinate, histograms over 4000
# repetitions. Mixtures and N(0, 1) should have the same average. Two equal components are symmetric after
# standardisation: averages of the odd functions vanish whatever their means, that of relu differs. Three components are
# not symmetric, and all averages differ. Curves are normal, with the exact mean and variance. The means of the
# components are chosen here, because the published ones are not stated.
REPEATS, SAMPLES = 4000, 1000
FUNCTIONS = {"sgn": np.sign, "erf": lambda x: erf(x / np.sqrt(2)), "relu": lambda x: np.maximum(x, 0.0)}
ONE = {"N(0, 1)": [0.0], "two components": [-3.0, 3.0], "three components": [-8.0, 3.0, 7.0]}


def exact_moments(means):
    """Mean and variance of all functions of a standardised mixture, (function, 2), and means of its components."""
    z, scale = np.linspace(-8, 8, 4001), np.sqrt(1 + np.var(means))
    m, s = (means - np.mean(means)) / scale, 1 / scale
    density = np.exp(-(z**2) / 2) / np.sum(np.exp(-(z**2) / 2))
    first = [2 * ndtr(m / s) - 1, 2 * ndtr(m / np.sqrt(1 + s**2)) - 1]
    first.append(m * ndtr(m / s) + s * np.exp(-((m / s) ** 2) / 2) / np.sqrt(2 * np.pi))
    squares = [np.mean(f(m[:, None] + s * z) ** 2 @ density) for f in FUNCTIONS.values()]
    return np.array([(x.mean(), square - x.mean() ** 2) for x, square in zip(first, squares, strict=True)])


sample_means, exact = {}, {law: exact_moments(np.array(means)) for law, means in ONE.items()}
fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for law, colour in zip(ONE, ("k", "C0", "C3"), strict=True):
    draw = latents.mixture(kind="elementwise", means=ONE[law], standardise="population")
    x = draw(np.random.default_rng(5), REPEATS, SAMPLES)
    sample_means[law] = np.array([f(x).mean(axis=1) for f in FUNCTIONS.values()])
    for ax, drawn, (mean, variance) in zip(axes, sample_means[law], exact[law], strict=True):
        ax.hist(drawn, 40, density=True, color=colour, alpha=0.3)
        sd = np.sqrt(variance / SAMPLES)
        t = mean + sd * np.linspace(-4, 4, 81)
        ax.plot(t, np.exp(-((t - mean) ** 2) / 2 / sd**2) / sd / np.sqrt(2 * np.pi), colour, label=law)
for ax, name in zip(axes, FUNCTIONS, strict=True):
    ax.set(xlabel=f"mean of {name} over {SAMPLES} samples", ylabel="density")
axes[0].legend(frameon=False, loc="upper center")
fig.savefig("mixtures_mechanism_averages.png", dpi=150)


# %%
# Many coordinates do
# -------------------
# sgn, relu, erf of a sum of D coordinates, for a skewed standardised mixture (weights 0.3, 0.7), exact. They approach
# the Gaussian values like :math:`1/\sqrt D` (odd functions, through the skewness) or 1/D (relu).
def averages(D, p=0.3):
    """Gaps E f(U) - E f(z), f = sgn, erf(u / sqrt 2), relu; U sums D standardised coordinates, p on the mean -3."""
    sigma = np.sqrt(1 + 4 * p * (1 - p) * MEANS[1] ** 2)
    n = np.arange(D + 1)  # coordinates in the first component
    weight = binom.pmf(n, D, p)
    m, s = 2 * MEANS[0] * (n - D * p) / np.sqrt(D) / sigma, 1 / sigma  # U is normal given n
    relu = m * ndtr(m / s) + s * np.exp(-((m / s) ** 2) / 2) / np.sqrt(2 * np.pi)
    gaps = 2 * ndtr(m / s) - 1, 2 * ndtr(m / np.sqrt(1 + s**2)) - 1, relu - 1 / np.sqrt(2 * np.pi)
    return [float(weight @ gap) for gap in gaps]


def draw_averages(ax):
    D = np.unique(np.geomspace(1, 1000, 40).astype(int))
    gaps = np.abs([averages(d) for d in D])
    for gap, colour, name in zip(gaps.T, ("C0", "C1", "C2"), ("sgn", "erf", "relu"), strict=True):
        ax.loglog(D, gap, colour, label=name)
        ax.axhline(gap[0], color=colour, ls="--", lw=1)
    ax.plot([], [], "k--", lw=1, label="shared component")
    ax.set(xlabel="number of coordinates $D$", ylabel=r"$|E f(U) - E f(z)|$", title="averages of nonlinear functions")
    ax.legend(frameon=False, loc="lower left")
    large = D > 30
    return gaps[0], [np.polyfit(np.log(D[large]), np.log(gap[large]), 1)[0] for gap in gaps.T]


# %%
# Centred and not standardised
# ----------------------------
# Means :math:`\pm A`, elementwise. For large D only the variance :math:`1 + A^2` matters, so that the theory with
# ``latent_scale=sqrt(1 + A**2)`` holds, for the true error as well (``runs.test_error``).
def corrected(student, A, N, alpha_max, runs):
    """Rms distance (scale, name) of the mean run on means +-A from the theories at scale 1 and at that of the law.

    The last one is that of the error on fresh samples of the run's own latents from the theory's eps_g.
    """
    law = latents.mixture(kind="elementwise", means=[-A, A])
    found = []
    for scale in (1.0, np.sqrt(law.variance)):
        model = ov.hidden_manifold(
            2, 2, activation=student, features="sign", ratio=0.5, eta=0.2, eta_v=0.2, v=[0.45, 0.55],
            v_star=[0.9, 0.7], latent_scale=scale,
        )  # fmt: skip
        weights = random_weights(model, N=N, rng=1)
        times = log_times(alpha_max, n=15)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # at scale 1 the latents are not those of the model
            sgd = ov.simulate(model, N=N, alpha=times, rng=2, runs=runs, weights=weights, latents=law, test=512)
        theory = ov.solve(*sgd.realisation(0, nodes=60), sgd.alpha)
        pairs = [(sgd.mean(name), getattr(theory, name)) for name in NAMES] + [(sgd.mean("test_error"), theory.eps_g)]
        found.append([np.sqrt(np.mean((run - curve) ** 2)) for run, curve in pairs])
    return found


def draw_correction(ax, N, alpha_max, runs):
    strengths = np.array([0.5, 1.0, 2.0])
    found = {s: np.array([corrected(s, A, N, alpha_max, runs) for A in strengths]) for s in (ov.erf, ov.relu)}
    for student, marker in zip(found, "os", strict=True):
        for n, name in (0, "$Q$"), (1, "$R$"), (3, "true error"):
            ax.loglog(strengths, found[student][:, 0, n], f"C{n}{marker}--", ms=4, mfc="white", lw=1)
            ax.loglog(strengths, found[student][:, 1, n], f"C{n}{marker}-", ms=4, label=f"{student}, {name}")
    ax.plot([], [], "k--", lw=1, label="theory for N(0, 1)")
    ax.plot([], [], "k-", label=r"theory at $\sigma^2 = 1 + A^2$")
    ax.set(xlabel="A (means $\\pm A$, not standardised)", ylabel="rms distance of the mean run", ylim=(1e-3, 20))
    ax.set_title(f"second-moment correction, N = {N}")
    ax.set_xticks(strengths, [f"{A:g}" for A in strengths])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="upper left")
    return strengths, found


# %%
# Fields, cumulants, averages, correction
# ---------------------------------------
# Top: density of one field, and cumulants. Bottom left: averages, and those of a shared component at any D (dashed,
# equal weights of sum :math:`\sqrt D`). Bottom right: theory at the scale of the mixture (solid) and for N(0, 1)
# (dashed).
fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
distance, (D, cumulant) = draw_densities(axes[0, 0]), draw_cumulants(axes[0, 1])
gaps, slopes = draw_averages(axes[1, 0])
strengths, found = draw_correction(axes[1, 1], *(800, 30.0, 4) if FULL else (400, 20.0, 2))
fig.savefig("mixtures_mechanism.png", dpi=150)

# %%
# The checks
# ----------
REFERENCE = {  # N = 800, alpha <= 30: (A, theory for N(0, 1), theory at the scale of the mixture), Q, R, v
    ov.erf: ((1, (0.043, 0.023, 0.026), (0.005, 0.003, 0.003)), (2, (0.087, 0.046, 0.049), (0.005, 0.005, 0.004))),
    ov.relu: ((1, (0.16, 0.068, 0.075), (0.014, 0.011, 0.005)), (2, (0.58, 0.19, 0.20), (0.024, 0.021, 0.005))),
}
print("total variation from N(0, 1):", {law: round(float(x), 3) for law, x in distance.items()})
assert distance["elementwise"] < 0.04 and distance["shared, sample"] < 0.04 and distance["shared, population"] > 0.2
for law, (measured, theory) in cumulant.items():
    print(f"-kappa_4, {law}: {measured.round(3)}; theory {theory.round(3)}; D = {D}")
    assert np.all(np.abs(measured - theory) < 0.05 * theory + 0.02)  # 20,000 samples, shared by 50 weights
for law, drawn in sample_means.items():
    mean, variance = exact[law].T
    print(f"{law}: averages of sgn, erf, relu {mean.round(4)}, sampled {drawn.mean(axis=1).round(4)}", end="")
    print(
        f"; gaps to N(0, 1) {np.abs((mean - exact['N(0, 1)'][:, 0]) / np.sqrt(variance / SAMPLES)).round(1)} deviations"
    )
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 4 * np.sqrt(variance / SAMPLES / REPEATS))
    assert np.allclose(drawn.std(axis=1), np.sqrt(variance / SAMPLES), rtol=0.05)  # 4000 repetitions: 1.1 %
gauss, two, three = (exact[law][:, 0] for law in ONE)
assert np.allclose(two[:2], 0, atol=1e-15) and two[2] > 1.1 * gauss[2] and np.all(np.abs(three - gauss) > 0.02)
print(f"gaps of the averages of sgn, erf, relu for one coordinate: {gaps.round(3)}; slopes {np.round(slopes, 2)}")
assert np.allclose(slopes, [-0.5, -0.5, -1], atol=0.1)
for student, rows in REFERENCE.items():
    for A, naive, right in rows:
        ours = found[student][list(strengths).index(A)]
        print(f"{student}, A = {A}: Q, R, v and the true error off by {ours[0].round(3)},", end=" ")
        print(f"corrected {ours[1].round(3)}; at N = 800: {naive}, {right}")
        assert np.all(ours[1, :3] < 0.5 * ours[0, :3])
        assert A == 1 or ours[1, 3] < 0.3 * ours[0, 3]  # 512 samples of each run: 4 %
