r"""
Errors saturate at a level that falls with the number of features
=================================================================

A linear student trains :math:`N_l` of its N weights; the others stay random. The error first follows its power law in
time, :math:`\alpha^{-\beta/(1+\beta)}`, and then saturates at a level that falls as :math:`N_l^{-\beta}`. A random
basis is worse than the eigenbasis by a factor, not by an exponent. After Worschech and Rosenow (2024),
arXiv:2410.09005, Figs. 3 (left), 15 (N = L = 256, beta = 1, eta = 0.05, student_scale = 0.01) and 16 (N = 1024). The
equation for the random basis and the factor are not in the paper, which averages over sampled rotations.
"""

import numpy as np
from matplotlib import pyplot as plt
from numba import njit

import overlaps as ov
from overlaps.theory import features
from overlaps.theory.scaling import Law

# %%
# Leading eigen-directions, and single runs of SGD
# ------------------------------------------------
# Early errors of a single run come from a few directions and fluctuate; late errors come from the frozen directions.
TRAINED = {50: "C0", 100: "C2", 150: "C1", 200: "C3"}
SETTING = {"eta": 0.05, "student_scale": 0.01}
SPECTRUM = ov.power_law(beta=1.0, L=256)


def random_basis(spectrum, rng):
    """Covariance with these eigenvalues in a Haar-random basis."""
    Q, R = np.linalg.qr(rng.standard_normal((spectrum.L, spectrum.L)))
    Q *= np.sign(np.diag(R))
    return Q * spectrum.s @ Q.T


@njit
def steps_of_sgd(rng, d, s, N_l, eta, n):
    """N steps of SGD on the first N_l differences d of student and teacher, one input a step, in the eigenbasis."""
    x = np.empty(d.size)
    for _ in range(n):
        field = 0.0
        for l in range(d.size):
            x[l] = rng.standard_normal() * s[l]
            field += d[l] * x[l]
        for l in range(N_l):
            d[l] -= eta / d.size * field * x[l]


def sgd(N_l, alpha, rng):
    """Errors of one run of SGD, from differences of the mean length in every direction."""
    s, N = SPECTRUM.s, SPECTRUM.L
    d = np.sqrt(1 + SETTING["student_scale"] ** 2) * rng.choice([-1.0, 1.0], N)
    result, done = [], 0
    for steps in np.rint(np.asarray(alpha) * N).astype(int):
        steps_of_sgd(rng, d, np.sqrt(s), N_l, SETTING["eta"], steps - done)
        done = steps
        result.append(0.5 * d**2 @ s / N)
    return np.array(result)


def eigenbasis(ax):
    """Fig. 3: sums, integrals, asymptotes, and one run of SGD for each N_l, to the floors."""
    alpha, levels, ratios = np.geomspace(0.1, 1e5, 120), {}, {}
    times, rng = np.geomspace(0.3, 1000, 14), np.random.default_rng(1)
    for N_l, colour in TRAINED.items():
        curve = features.error(SPECTRUM, alpha=alpha, N_l=N_l, **SETTING)
        integral = features.power_law_error(1.0, 256, alpha=alpha, N_l=N_l, end_terms=True, **SETTING)
        levels[N_l] = features.error(SPECTRUM, alpha=np.inf, N_l=N_l, **SETTING)
        run = sgd(N_l, times, rng)
        law = Law(1.0, L=256, **SETTING)
        ratios[N_l] = run / law.sgd_mean(np.rint(256 * times).astype(int), N=256, N_l=N_l), run[-1] / levels[N_l]
        ax.plot(times, run, "o", color=colour, ms=4, label="SGD, single runs" if N_l == 200 else None)
        ax.loglog(alpha, curve, colour, lw=3, alpha=0.5, label=f"$N_l$ = {N_l}")
        ax.loglog(alpha, integral, "k--", lw=1)
        ax.axhline(features.asymptote(1.0, 256, N_l, student_scale=0.01), color=colour, ls=":", lw=1.2)
    ax.plot([], [], "k--", lw=1, label="integrals")
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", ylim=(1e-4, 0.6), title="leading eigen-directions")
    ax.legend(frameon=False, loc="upper right", ncols=2)
    return levels, ratios


# %%
# Coordinates of a random basis
# -----------------------------
# One random basis, and the limit of large N, which is the root of a scalar equation. Dots: mean of 16 runs of SGD on
# the same samples.
@njit
def steps_on(x, d, N_l, eta):
    """SGD on the first N_l of all differences d (runs, N), one row of x a step."""
    for i in range(len(x)):
        for k in range(len(d)):
            d[k, :N_l] -= eta / x.shape[1] * np.dot(d[k], x[i]) * x[i, :N_l]


def sgd_in_basis(Sigma, alpha, rng, runs=16):
    """Mean errors {N_l: (n,)} of runs of SGD on inputs of this covariance."""
    N, root, done = len(Sigma), np.linalg.cholesky(Sigma), 0
    start = np.sqrt(1 + SETTING["student_scale"] ** 2) * rng.choice([-1.0, 1.0], (runs, N))
    d, errors = {N_l: start.copy() for N_l in TRAINED}, {N_l: [] for N_l in TRAINED}
    for steps in np.rint(alpha * N).astype(int):
        x = rng.standard_normal((steps - done, N)) @ root.T
        for N_l, differences in d.items():
            steps_on(x, differences, N_l, SETTING["eta"])
            errors[N_l].append(0.5 * np.mean(np.sum(differences @ Sigma * differences, axis=1)) / N)
        done = steps
    return errors


def haar_basis(ax):
    """Fig. 15: one random basis and the limit of large N."""
    alpha, levels, times = np.geomspace(0.1, 1e5, 60), {}, np.geomspace(0.3, 200, 10)
    Sigma = random_basis(SPECTRUM, np.random.default_rng(2))
    runs = sgd_in_basis(Sigma, times, np.random.default_rng(3))
    for N_l, colour in TRAINED.items():
        mean = features.error_covariance(Sigma, alpha=times, N_l=N_l, **SETTING)
        ax.plot(times, runs[N_l], "o", color=colour, ms=4)
        curve = features.error_covariance(Sigma, alpha=np.append(alpha, np.inf), N_l=N_l, **SETTING)
        limit = features.error_haar(SPECTRUM, N_l=N_l, student_scale=0.01)
        levels[N_l] = curve[-1], limit, runs[N_l] / mean
        ax.loglog(alpha, curve[:-1], colour, lw=2, label=f"$N_l$ = {N_l}")
        ax.axhline(limit, color=colour, ls=":", lw=1.2)
    ax.set(xlabel=r"$\alpha$ = steps / $N$", ylabel=r"$\epsilon_g$", ylim=(1e-4, 0.6), title="random basis")
    ax.legend(frameon=False, loc="upper right", title="one basis; dotted: limit; dots: SGD")
    return levels


# %%
# Levels and the factor between both bases
# ----------------------------------------
# For :math:`1 \ll N_l \ll N` the factor is :math:`\beta (\phi / \sin \phi)^{1 + \beta}`,
# :math:`\phi = \pi/(1 + \beta)`.
def levels_against_features(ax, ratios):
    """Fig. 16 and the factor between the two bases."""
    N, N_l, slopes = 1024, np.unique(np.geomspace(10, 900, 16).astype(int)), {}
    rng = np.random.default_rng(3)
    for beta, colour in ((0.3, "C0"), (0.75, "C2"), (1.0, "C1"), (1.5, "C3")):
        spectrum = ov.power_law(beta=beta, L=N)
        eigen = features.asymptote(beta, N, N_l)
        haar = np.array([features.error_haar(spectrum, N_l=int(n)) for n in N_l])
        ax.loglog(N_l, eigen, colour, label=rf"$\beta$ = {beta:g}")
        ax.loglog(N_l, haar, colour, ls="--")
        large = ov.power_law(beta=beta, L=50_000)
        far = np.array([features.error_haar(large, N_l=int(n)) for n in N_l])
        ratios.semilogx(N_l, far / features.asymptote(beta, 50_000, N_l), colour, label=rf"$\beta$ = {beta:g}")
        ratios.axhline(features.haar_ratio(beta), color=colour, ls=":", lw=1.2)
        slopes[beta] = slope(ov.power_law(beta=beta, L=10**6))
    spectrum = ov.power_law(beta=1.0, L=N)
    Sigma = random_basis(spectrum, rng)
    sampled = {n: float(features.error_covariance(Sigma, 0.05, np.inf, N_l=n)) for n in (20, 80, 320)}
    ax.plot(list(sampled), list(sampled.values()), "ko", ms=4, label="one random basis")
    ax.plot([], [], "k-", label="eigenbasis")
    ax.plot([], [], "k--", label="random basis, limit")
    ax.set(xlabel="trained features $N_l$", ylabel=r"$\epsilon_\infty$", title=f"$N$ = {N}")
    ax.legend(frameon=False, loc="lower left", fontsize="small")
    ratios.set(xlabel="trained features $N_l$", ylabel="random basis / eigenbasis", ylim=(1, 3.6))
    ratios.set_title(r"$N$ = 50000; dotted: $\beta\,(\phi/\sin\phi)^{1+\beta}$")
    ratios.legend(frameon=False, loc="upper left", ncols=4, fontsize="small", columnspacing=1.0)
    return slopes, {n: value / features.error_haar(spectrum, N_l=n) for n, value in sampled.items()}


def slope(spectrum, low=60, high=300):
    """Exponent in the number of features of a random basis, far below N."""
    levels = [features.error_haar(spectrum, N_l=n) for n in (low, high)]
    return np.log(levels[1] / levels[0]) / np.log(high / low)


# %%
# Time and features
# -----------------
# Top: learning curves in the eigenbasis and in a random one. Bottom: levels at infinite time, and the factor.
fig, axes = plt.subplots(2, 2, figsize=(10.5, 8), layout="constrained")
levels, ratios = eigenbasis(axes[0, 0])
haar = haar_basis(axes[0, 1])
slopes, sampled = levels_against_features(axes[1, 0], axes[1, 1])
fig.savefig("feature_scaling.png", dpi=150)

# %%
# The checks
# ----------
for N_l in TRAINED:
    one, limit, ratio = haar[N_l]
    frozen = 0.5 * (1 + SETTING["student_scale"] ** 2) * np.sum(SPECTRUM.p[N_l:] * SPECTRUM.s[N_l:])  # (71)
    print(
        f"N_l = {N_l}: eigenbasis {levels[N_l]:.3e}, from the power law "
        f"{features.asymptote(1.0, 256, N_l, student_scale=0.01):.3e}; random basis {one:.3e}, limit {limit:.3e}"
    )
    assert abs(levels[N_l] / frozen - 1) < 1e-12 and abs(one / limit - 1) < 0.05
    assert 2.5 < limit / levels[N_l] < 2.9
    print(f"  SGD / gradient flow in the random basis {ratio.min():.2f} to {ratio.max():.2f}")
    assert np.all(np.abs(ratio - 1) < 0.25)  # 16 runs on the same samples
for N_l, (ratio, last) in ratios.items():
    print(f"N_l = {N_l}: SGD / its mean {ratio.min():.2f} to {ratio.max():.2f}; / floor at alpha = 1000 {last:.2f}")
    assert np.all(np.abs(ratio - 1) < 0.35) and abs(np.mean(ratio) - 1) < 0.15
assert 1 < ratios[50][1] < 1.2 < ratios[200][1]
print("one random basis / limit at N = 1024:", {n: round(x, 3) for n, x in sampled.items()})
assert all(abs(x - 1) < 0.1 for x in sampled.values())
for beta, found in slopes.items():
    print(f"beta = {beta:g}: exponent in N_l of a random basis {found:.3f}; theory {-features.exponent(beta):.3f}")
    assert abs(found + beta) < 0.03
