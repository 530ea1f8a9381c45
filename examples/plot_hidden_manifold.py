r"""
SGD on a hidden manifold follows the theory of its own weights
==============================================================

Inputs are signs of random projections of D = N/2 latents, :math:`x = \mathrm{sgn}(F c / \sqrt D)`; the teacher acts on
the latents. Two students, erf and ReLU, learn both layers, K = M = 2. SGD follows the equations of its own weights; the
overlaps of such weights scatter around the limit :math:`N \to \infty`. Goldt, Mezard, Krzakala and Zdeborova (2020),
arXiv:1909.11500; sizes and learning rates after Bae and Jeong (2024), arXiv:2405.00642. ``--full`` uses their N = 1000,
D = 500, 100,000 steps and 10 runs.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.manifold.weights import random_weights
from overlaps.results.discrepancy import log_times

# %%
# Two theories of one run
# -----------------------
# The equations start from the overlaps of the weights of the run, with the spectrum of its F (``runs.realisation(0)``),
# or from the limit (``model.limit_start``): a Marchenko-Pastur spectrum on 16 Gauss nodes, and students orthogonal to
# each other and to the teacher.
FULL = "--full" in sys.argv
N, ALPHA_MAX, RUNS = (1000, 100.0, 10) if FULL else (400, 50.0, 4)
SIZES, REPEATS = (np.array([100, 200, 400, 800, 1600]), 10) if FULL else (np.array([64, 128, 256, 512]), 6)
STUDENTS = ov.erf, ov.relu
NAMES = "Q", "R", "v"


def network(student):
    """Sign features, D = N/2, and the readouts and learning rates of the published experiments."""
    return ov.hidden_manifold(
        2, 2, activation=student, features="sign", ratio=0.5, eta=0.2, eta_v=0.2, v=[0.45, 0.55], v_star=[0.9, 0.7]
    )


def limit(model, alpha):
    return ov.solve(model, model.limit_start(P=np.eye(2), T=np.eye(2)), alpha)


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def compare(student, N, alpha_max, runs):
    """Several runs from one set of weights, their own theory, the limit, and the distances to both."""
    model = network(student)
    weights = random_weights(model, N=N, rng=1)
    sgd = ov.simulate(model, N=N, alpha=log_times(alpha_max, n=24), rng=2, runs=runs, weights=weights)
    own, ideal = ov.solve(*sgd.realisation(0, nodes=60), sgd.alpha), limit(model, sgd.alpha)
    apart = {name: [rms(sgd.mean(name) - getattr(theory, name)) for theory in (own, ideal)] for name in NAMES}
    return sgd, own, ideal, apart


# %%
# Distances of single runs
# ------------------------
# Root mean squares over log-spaced times, from both theories; each run has its own weights. Random weights in N
# dimensions overlap by :math:`1/\sqrt N`.
def distances(sizes, repeats):
    """Mean distance of Q, R, v to (own theory, limit) over runs, each with its own weights: {student: (sizes, 2)}."""
    found = {student: np.empty((len(sizes), 2)) for student in STUDENTS}
    for i, N in enumerate(sizes):
        weights = [random_weights(network(ov.erf), N=N, rng=seed) for seed in range(repeats)]
        starts = [network(ov.erf).realisation(**w._asdict(), nodes=60) for w in weights]  # the same for all students
        for student in STUDENTS:
            model = network(student)
            sgd = ov.simulate(model, N=N, alpha=log_times(10.0, n=20), rng=N, runs=repeats, weights=weights)
            own = [ov.solve(model.replace(spectrum=m.spectrum), start, sgd.alpha) for m, start in starts]
            for j, theory in enumerate((own, limit(model, sgd.alpha))):
                apart = ov.tlog_rmse(theory, sgd)
                found[student][i, j] = np.mean([apart.mean(name).mean() for name in NAMES])
    return found


# %%
# Overlaps, errors, distances
# ---------------------------
# Upper and lower row: overlaps and second layer of SGD (dots: mean over runs that share W, W* and F; bars: their
# spread) on the theory of these weights (solid) and the limit (dotted). Right: the error, and the distance of single
# runs to either curve. Both shrink like :math:`1/\sqrt N`; the one to the limit is several times larger.
def draw_overlaps(axes, student, sgd, own, ideal):
    for ax, name in zip(axes, NAMES, strict=True):
        curves, own_, ideal_ = (getattr(x, name) for x in (sgd, own, ideal))
        for c, index in enumerate(i for i in np.ndindex(curves.shape[2:]) if not (name == "Q" and i == (1, 0))):
            mean, spread = (f(curves[(..., *index)], axis=0) for f in (np.mean, np.std))
            label = rf"${name}_{{{''.join(str(i + 1) for i in index)}}}$"
            ax.errorbar(sgd.alpha[1:], mean[1:], spread[1:], fmt="o", color=f"C{c}", ms=3.5, elinewidth=1, label=label)
            ax.plot(sgd.alpha[1:], own_[(slice(1, None), *index)], f"C{c}")
            ax.plot(sgd.alpha[1:], ideal_[(slice(1, None), *index)], f"C{c}:")
        ax.set(xscale="log", xlabel=r"$\alpha$ = steps / $N$", title=rf"{student}: ${name}$")
        ax.legend(frameon=False, fontsize="small", ncols=2, handletextpad=0.1, columnspacing=0.8)


def draw_error(ax, students):
    for c, (student, (sgd, own, ideal, _)) in enumerate(students.items()):
        ax.plot(sgd.alpha[1:], sgd.mean("eps_g")[1:], f"C{c}o", ms=3.5, label=f"{student}, SGD")
        ax.plot(own.alpha[1:], own.eps_g[1:], f"C{c}", label="its own ODE")
        ax.plot(ideal.alpha[1:], ideal.eps_g[1:], f"C{c}:", label=r"$N\to\infty$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha$ = steps / $N$", title=r"error $\epsilon_g$")
    ax.legend(frameon=False, fontsize="small")


def draw_distances(ax, sizes, found):
    for c, (student, apart) in enumerate(found.items()):
        for j, (marker, text) in enumerate((("o-", "own ODE"), ("s:", r"$N\to\infty$"))):
            ax.loglog(sizes, apart[:, j], f"C{c}{marker}", ms=4.5, label=f"{student}, to {text}")
    ax.loglog(sizes, 0.35 * np.sqrt(1 / sizes), "k", lw=0.8, label=r"$\propto N^{-1/2}$")
    ax.set(xlabel="input dimension $N$", ylabel=r"rms over $\ln\alpha$", ylim=(0.003, 0.5))
    ax.set_title("distance of single runs ($Q, R, v$)")
    ax.set_xticks(sizes, [str(N) for N in sizes])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="upper center", columnspacing=1)


students = {student: compare(student, N, ALPHA_MAX, RUNS) for student in STUDENTS}
found = distances(SIZES, REPEATS)
fig, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
for row, (student, (sgd, own, ideal, _)) in zip(axes, students.items(), strict=True):
    draw_overlaps(row[:3], student, sgd, own, ideal)
draw_error(axes[0, 3], students)
draw_distances(axes[1, 3], SIZES, found)
fig.suptitle(rf"sgn features, $N$ = {N}, $D$ = {N // 2}, $\eta$ = 0.2. Dots: SGD; solid: its ODE; dotted: limit")
fig.savefig("hidden_manifold.png", dpi=150)

# %%
# The checks
# ----------
REFERENCE = {ov.erf: (0.006, 0.006, 0.003), ov.relu: (0.017, 0.007, 0.004)}  # N = 1000, three runs to alpha = 100
for student, (*_, by_name) in students.items():
    for (name, (own, ideal)), reference in zip(by_name.items(), REFERENCE[student], strict=True):
        print(
            f"{student}, {name}: rms distance of the mean run {own:.4f} to its own ODE (N = 1000, 3 runs: "
            f"{reference}), {ideal:.4f} to the limit"
        )
        assert own < 3 * reference * np.sqrt(1000 / N)
for student, d in found.items():
    slopes = np.polyfit(np.log(SIZES), np.log(d), 1)[0]
    print(f"{student}: distances {d.round(4).tolist()}, slopes {slopes.round(2)} (theory -1/2)")
    assert np.all(np.abs(slopes + 0.5) < 0.2) and np.all(d[:, 1] > 2 * d[:, 0])
