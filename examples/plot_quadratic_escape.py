r"""
The escape time of quadratic networks grows as log N
====================================================

From random weights overlaps with the teacher begin at :math:`1/\sqrt N` and grow as :math:`\exp(\omega\alpha)`: the
time at which the loss has halved grows by :math:`1/(2\omega)` per unit of log N. SGD escapes earlier than the equations
by a constant time, because the noise of its steps adds to R while R is small. The law is due to Bocchi et al. (2026),
arXiv:2604.03068, whose learning rate is half of this one.
"""

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.theory import quadratic

# %%
# Half-loss times
# ---------------
# Times of SGD (exact in law at every N) and of the equations, averaged over starts with the overlaps of random weights.
# The rate :math:`\omega` is that of ``ov.theory.quadratic.plateau``; at small learning rates :math:`1/(2\omega) = K M /
# (8 \eta)`.
K, M = 4, 2
ETAS = {0.05: (20, [100, 400]), 0.6: (30, [200, 1000, 5000])}  # learning rate: runs of SGD, sizes N
LARGE = 10 ** np.arange(2, 9)


def starts(model, N, number, seed):
    """Orthonormal random students, orthonormal teachers; one seed is one direction at every large N."""
    rngs = np.random.default_rng(seed).spawn(number)
    return [model.random_start(N=N, rng=rng, students="orthonormal", teacher="ideal") for rng in rngs]


def halved(alpha, eps_g):
    """When each row of eps_g (runs, n) has fallen to half of its first entry, between two records."""
    ratio = eps_g / eps_g[:, :1]
    first = np.argmax(ratio < 0.5, axis=1)
    assert np.all(first > 0), "some run has not halved its loss"
    a, b = (ratio[np.arange(len(ratio)), first - n] for n in (1, 0))
    return alpha[first] - (0.5 - b) / (a - b) * np.diff(alpha)[first - 1]


def times(k, eta, N, number, seed, simulated=False):
    """Half-loss times of the equations, or of SGD, from random weights of N coordinates."""
    model = ov.quadratic_network(k, M, eta=eta)
    alpha = np.linspace(0, (np.log(N) + 6) / (2 * quadratic.plateau(k, M, eta=eta).escape), 160)
    drawn = starts(model, N, number, seed)
    if simulated:
        return halved(alpha, ov.simulate(model, N=N, alpha=alpha, rng=seed, start=drawn, runs=number).eps_g)
    return halved(alpha, ov.solve_many(model, drawn, alpha).eps_g)


def slope(N, found):
    """Slope against log N of the means of times (a list of arrays), and its standard error."""
    weights = np.log(N) - np.mean(np.log(N))
    weights /= np.sum(weights**2)
    errors = [t.std(ddof=1) / np.sqrt(len(t)) for t in found]
    return weights @ [t.mean() for t in found], np.linalg.norm(weights * errors)


def draw_sizes(ax):
    slopes = {}
    for color, (eta, (runs, small)) in zip(("C0", "C3"), ETAS.items(), strict=True):
        sgd = [times(K, eta, N, runs, N, simulated=True) for N in small]
        ode = np.array([times(K, eta, int(N), 20, 1) for N in LARGE])
        predicted, mean = 1 / (2 * quadratic.plateau(K, M, eta=eta).escape), ode.mean(axis=1)
        slopes[eta] = predicted, (mean[-1] - mean[-2]) / np.log(10), *slope(small, sgd)
        ax.plot(LARGE, mean[-1] / predicted + np.log(LARGE / LARGE[-1]), color, lw=1)
        ax.plot(LARGE, mean / predicted, color + "o", ms=5, mfc="none", label=rf"equations, $\eta$ = {eta}")
        error = [t.std(ddof=1) / np.sqrt(len(t)) / predicted for t in sgd]
        label = rf"SGD, $\eta$ = {eta}"
        ax.errorbar(small, [t.mean() / predicted for t in sgd], error, fmt=color + "s", ms=4, capsize=2, label=label)
    ax.set(
        xscale="log", xlabel="N", ylabel=r"$2\omega\,\alpha_{1/2}$", title=f"K = {K}, M = {M}; lines: slope 1 in log N"
    )
    ax.legend(frameon=False)
    return slopes


# %%
# Wide students
# -------------
# The slope against the width of the student, from the equations at two huge N. At a fixed learning rate wide students
# need a time proportional to K; at the optimal rate for their width the time is shorter by a constant factor.
def draw_widths(ax):
    measured, widths, many = {}, np.array([2, 3, 4, 6, 9, 14, 20]), np.arange(2, 25)
    suited = {k: quadratic.eta_escape(int(k), M) / 2 for k in many}
    rates = {r"$\eta$ = 0.05": dict.fromkeys(many, 0.05), r"$\eta = \eta_{\rm escape}(K)/2$": suited}
    for color, (name, rate) in zip(("C0", "C2"), rates.items(), strict=True):
        law = {k: 1 / (2 * quadratic.plateau(int(k), M, eta=rate[k]).escape) for k in many}
        pairs = [[times(int(k), rate[k], N, 3, 7).mean() for N in (10**8, 10**11)] for k in widths]
        measured[name] = np.diff(pairs)[:, 0] / np.log(1e3), np.array([law[k] for k in widths])
        ax.plot(many, list(law.values()), color, lw=1)
        ax.plot(widths, measured[name][0], color + "o", ms=5, mfc="none", label=name)
    ax.set(
        xscale="log", yscale="log", xlabel="K", ylabel=r"$d\alpha_{1/2}/d\log N$", title=r"M = 2; lines: $1/(2\omega)$"
    )
    ax.set_xticks(widths, [str(k) for k in widths])
    ax.minorticks_off()
    ax.legend(frameon=False)
    return measured


# %%
# Slopes in log N
# ---------------
# Left: times against N; straight lines have the slope :math:`1/(2\omega)`. Right: slopes against K, and
# :math:`1/(2\omega)` (lines).
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
slopes, measured = draw_sizes(left), draw_widths(right)
fig.savefig("quadratic_escape.png", dpi=150)

# %%
# The checks
# ----------
for eta, (predicted, ode, sgd, error) in slopes.items():
    print(f"eta = {eta}: 1/(2 omega) = {predicted:.2f}, equations {ode:.2f}, SGD {sgd:.2f}({error:.2f})")
    assert abs(ode / predicted - 1) < 0.01 and abs(sgd - predicted) < 3 * error
for name, (found, law) in measured.items():
    print(name, "measured / predicted slopes:", (found / law).round(4))
    assert np.all(np.abs(found / law - 1) < 0.01)
(fixed, _), (suited, _) = measured.values()
assert fixed[-1] > 9 * fixed[0] and 1 < suited[0] / suited[-1] < 3
