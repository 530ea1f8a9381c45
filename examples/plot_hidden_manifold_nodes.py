r"""
Sixteen eigenvalues represent a continuum
=========================================

The theory of a hidden manifold is an integral over the eigenvalues of the input covariance, and a few nodes replace N
eigenvalues: in the limit :math:`N \to \infty` the nodes of Gauss quadrature with the Marchenko-Pastur law, for one
realisation the nodes of a block Gauss quadrature of its overlaps. Errors fall geometrically with the number of nodes.
Goldt, Mezard, Krzakala and Zdeborova (2020), arXiv:1909.11500. ``--full`` uses N = 800, D = 400 instead of 400, 200.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.manifold.marchenko_pastur import mp_gauss
from overlaps.manifold.weights import random_weights

# %%
# In the limit
# ------------
# The eigenvalues follow the Marchenko-Pastur law, with an atom for D < N; its Gauss quadrature is known. Errors are the
# largest differences in Q, R, v from 160 nodes up to :math:`\alpha`, K = M = 2, both layers trained at rate 0.2.
N = 800 if "--full" in sys.argv else 400
TIMES = np.array([1.0, 3.0, 10.0, 20.0, 30.0, 50.0, 70.0, 100.0])
SETUPS = [  # features, D/N, student, alignment with the teacher, colour
    ("sign", 0.5, ov.erf, 0.1, "C0"),
    ("sign", 0.5, ov.relu, 0.1, "C1"),
    ("sign", 0.1, ov.erf, 0.02, "C2"),  # eigenvalues up to 115: less alignment is possible
    ("erf", 0.5, ov.erf, 0.1, "C4"),
    ("linear", 0.5, ov.erf, 0.1, "C3"),
]
NODES = [2, 3, 4, 6, 8, 10, 12, 16, 20, 24]
EXACT = 160


def network(features, ratio, student, **options):
    return ov.hidden_manifold(
        2, 2, activation=student, features=features, ratio=ratio, eta=0.2, eta_v=0.2, v=[0.45, 0.55],
        v_star=[0.9, 0.7], **options,
    )  # fmt: skip


def difference(a, b, until):
    seen = a.alpha <= until
    return max(float(np.abs(getattr(a, x) - getattr(b, x))[seen].max()) for x in ("Q", "R", "v"))


def limit_trajectory(features, ratio, student, alignment, nodes):
    model = network(features, ratio, student, nodes=nodes)
    start = model.limit_start(
        P=[[1, 0.05], [0.05, 1.1]], T=[[1.05, 0.03], [0.03, 0.95]], alignment=alignment * np.eye(2)
    )
    return ov.solve(model, start, TIMES, rtol=1e-11)


def node_errors():
    """Errors by setup, for alpha <= 10 and alpha <= 100: {(features, ratio, student): (nodes, 2)}."""
    errors = {}
    for *setup, _ in SETUPS:
        exact = limit_trajectory(*setup, EXACT)
        found = [limit_trajectory(*setup, n) for n in NODES]
        errors[tuple(setup[:3])] = np.array([[difference(t, exact, until) for until in (10, 100)] for t in found])
    return errors


# %%
# For one realisation
# -------------------
# Every eigenvalue has random overlaps. Summing neighbours in bins with equal numbers of eigenvalues converges like a
# power of the number of bins; block Gauss quadrature of the overlaps (``ov.compress``) converges geometrically. Errors
# are differences from the solution with all eigenvalues.
def binned(model, state, bins):
    """Spectrum and overlaps summed in bins with equal numbers of eigenvalues; the atom is a bin of its own."""
    s, p = model.spectrum.s, model.spectrum.p
    atom = np.argmax(p)
    others = np.delete(np.arange(s.size), atom)
    groups = [np.array([atom]), *np.array_split(others, bins - 1)]
    weights = np.array([p[g].sum() for g in groups])
    q, r, tau = (np.stack([getattr(state, x)[g].sum(axis=0) for g in groups]) for x in ("q", "r", "tau"))
    centre = np.array([p[g] @ s[g] for g in groups]) / weights
    order = np.argsort(-centre)
    small = model.replace(spectrum=ov.Spectrum(centre[order], weights[order] / weights.sum()))
    return small, ov.State(q=q[order], r=r[order], tau=tau[order], T=state.T, v=state.v).on(small)


def realisation_errors(student, N, sizes, bins):
    model = network("sign", 0.5, student)
    own, start = model.realisation(**random_weights(model, N=N, rng=1)._asdict())
    exact = ov.solve(own, start, TIMES, rtol=1e-11)

    def error(pair):
        return difference(ov.solve(*pair, TIMES, rtol=1e-11), exact, 100)

    return (
        [error(ov.compress(own, start, n)) for n in sizes],
        [error(binned(own, start, n)) for n in bins],
        own.spectrum,
    )


# %%
# Geometric convergence
# ---------------------
# Left: density, histogram of one feature matrix, nodes. Middle: the limit; 16 nodes, the default, have an error of 1e-9
# for :math:`\alpha \le 100` with sgn features. Linear features need more nodes, because the required resolution grows
# with :math:`\sqrt{s\alpha}`. Right: one realisation; 60 nodes have an error of 1e-8.
def draw_spectrum(ax, spectrum, features):
    y, top = 0.5, (1 + np.sqrt(0.5)) ** 2
    x = np.linspace((1 - np.sqrt(y)) ** 2, top, 400)
    density = np.sqrt(np.maximum((top - x) * (x - x[0]), 0)) / (2 * np.pi * y * x)
    seen = np.arange(spectrum.L) != np.argmax(spectrum.p)  # without the atom
    s = features.zeta + features.b**2 * x / y
    ax.hist(spectrum.s[seen], 30, density=True, color="0.85", label=f"one $F$, {seen.sum()} eigenvalues")
    ax.plot(s, density * y / features.b**2, "k", label="Marchenko-Pastur")
    ax.set(
        xlabel=r"eigenvalue $s = \zeta + b^2\mu$", ylabel="density", title=r"sgn features, $D/N$ = 0.5", ylim=(0, 0.8)
    )
    nodes, weights = mp_gauss(y, 16)
    right = ax.twinx()
    lines = right.stem(features.zeta + features.b**2 * nodes / y, weights, "C3", basefmt=" ", label="16 nodes, weights")
    lines.markerline.set_markersize(4)
    right.axvline(features.zeta, color="C0", ls="--", label=r"atom at $\zeta$, weight $1 - D/N$")
    right.set_ylim(0, 0.25)
    right.set_ylabel("weight of a node", color="C3")
    right.tick_params(axis="y", colors="C3")
    handles = [sum(parts, []) for parts in zip(*(a.get_legend_handles_labels() for a in (ax, right)), strict=True)]
    ax.legend(*handles, frameon=False)


def draw_nodes(ax, errors):
    for (*setup, _, colour), error in zip(SETUPS, errors.values(), strict=True):
        ax.semilogy(NODES, error[:, 0], colour, ls="--", lw=1)
        ax.semilogy(NODES, error[:, 1], f"{colour}", marker="o", ms=4, label=f"{setup[0]}, {setup[1]:g}, {setup[2]}")
    ax.plot([], [], "k-", label=r"$\alpha \leq 100$")
    ax.plot([], [], "k--", lw=1, label=r"$\alpha \leq 10$")
    ax.axvline(16, ymax=0.76, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="Gauss nodes", ylabel="largest error of $Q, R, v$", title="the limit: features, $D/N$, student")
    ax.set(ylim=(1e-14, 10))
    ax.legend(frameon=False, ncols=2, loc="upper right", fontsize="small")


def draw_realisation(ax, N, results, sizes, bins):
    for c, (student, (gauss, summed, _)) in enumerate(results.items()):
        ax.loglog(bins, summed, f"C{c}s:", ms=4, label=f"{student}, quantile bins")
        ax.loglog(sizes, gauss, f"C{c}o-", ms=4, label=f"{student}, block Gauss")
    ax.set(xlabel="number of eigenvalues", ylabel="largest error of $Q, R, v$", ylim=(1e-14, 10))
    ax.set_xticks(bins, [str(b) for b in bins])
    ax.minorticks_off()
    ax.set_title(rf"one realisation, $N$ = {N}, $\alpha \leq 100$")
    ax.legend(frameon=False, loc="lower left")


sizes, bins = [5, 10, 15, 20, 30, 40, 50, 60, 80], [8, 16, 32, 64, 128]
results = {student: realisation_errors(student, N, sizes, bins) for student in (ov.erf, ov.relu)}
errors = node_errors()
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
draw_spectrum(left, results[ov.erf][2], network("sign", 0.5, ov.erf).features)
draw_nodes(middle, errors)
draw_realisation(right, N, results, sizes, bins)
fig.savefig("hidden_manifold_nodes.png", dpi=150)

# %%
# The checks
# ----------
for (features, ratio, student), error in errors.items():
    four, eight, sixteen = (error[NODES.index(n)] for n in (4, 8, 16))
    print(f"{features}, D/N = {ratio:g}, {student}: errors to alpha = 10, 100 with 4, 8, 16 nodes:", end=" ")
    print(", ".join(f"{e[0]:.0e} {e[1]:.0e}" for e in (four, eight, sixteen)))
    assert sixteen[0] < 1e-9 and sixteen[1] < (1e-9 if features != "linear" else 1e-7)
    assert four[1] > 1e4 * sixteen[1]
for student, (gauss, summed, _) in results.items():
    gauss, summed = dict(zip(sizes, gauss, strict=True)), dict(zip(bins, summed, strict=True))
    print(f"{student}, block Gauss:", ", ".join(f"{n}: {e:.0e}" for n, e in gauss.items()))
    print(f"{student}, quantile bins:", ", ".join(f"{n}: {e:.0e}" for n, e in summed.items()))
    assert gauss[60] < 1e-8 and summed[64] > 1e-4
