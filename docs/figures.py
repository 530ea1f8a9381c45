"""Figures of the guide whose code teaches nothing: cells of the pages call these and hide their own text."""

import json
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

TIMED = {  # row of the benchmarks, as the page names it: the baseline that is drawn
    "C, erf, K = M = 40": "literal port",
    "C, relu, K = M = 4": "literal port",
    "reduced, erf, K = M = 2, any N": "plain NumPy, N = 10000",
    "direct, erf, K = M = 2, N = 1000": "plain NumPy",
    "DOP853, K = M = 2, η = 0.2, to α = 1000": "scipy DOP853",
    "BDF, K = M = 2, 512 eigenvalues, to α = 1e9": "SciPy's stepping",
    "solve_many, 900 × (K = M = 2, to α = 100), each": "loop over solve",
    "Bayes-optimal curve, He₃, k = 10000, 100 points": "100 × one size",
}


def network():
    """Teacher and student on one input, with the letters of the order parameters where they belong."""
    ax = plt.figure(figsize=(6.6, 3.7)).gca()
    ax.set(xlim=(0.2, 9.6), ylim=(-0.2, 5.2), aspect="equal")
    ax.axis("off")
    inputs = np.column_stack([np.linspace(2.6, 7.4, 7), np.full(7, 0.5)])
    sides = {  # units, output, color
        "student": (np.array([[0.9, 2.6], [2.3, 2.6], [3.7, 2.6]]), (2.3, 4.3), "C0"),
        "teacher": (np.array([[6.9, 2.6], [8.5, 2.6]]), (7.7, 4.3), "C1"),
    }
    for units, output, color in sides.values():
        for unit in units:
            for x in inputs:
                ax.plot(*zip(x, unit, strict=True), color=color, lw=0.5, alpha=0.5, zorder=1)
            ax.plot(*zip(unit, output, strict=True), color=color, lw=1.2, zorder=1)
        for point in (*units, output):
            ax.add_patch(plt.Circle(point, 0.3, fc="white", ec=color, lw=1.6, zorder=2))
    for x in inputs:
        ax.add_patch(plt.Circle(x, 0.16, fc="white", ec="0.4", zorder=2))

    def text(x, y, words, **options):
        ax.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": 11, **options})

    student, teacher = (sides[name][0] for name in ("student", "teacher"))
    for k, unit in enumerate(student, 1):
        text(*unit, rf"$\lambda_{k}$")
    for m, unit in enumerate(teacher, 1):
        text(*unit, rf"$\nu_{m}$")
    text(2.3, 4.3, r"$\hat y$")
    text(7.7, 4.3, r"$y$")
    text(0.9, 3.55, r"$v_k,\ g$", color="C0")
    text(9.0, 3.55, r"$v^*_m,\ g_*$", color="C1")
    text(1.5, 1.45, r"$W$: $K \times N$", color="C0")
    text(8.5, 1.45, r"$W^*$: $M \times N$", color="C1")
    text(5, 0.02, r"inputs $x$: $N$ numbers, covariance with eigenvalues $s_l$, fractions $p_l$", fontsize=10)
    text(5, 4.3, r"$\Delta = \hat y - y$, $\quad\epsilon_g = \frac{1}{2}\,E\,\Delta^2$", fontsize=10.5)
    text(2.3, 4.9, "student", color="C0")
    text(7.7, 4.9, "teacher", color="C1")
    arrow = {"arrowstyle": "<->", "color": "0.35", "lw": 1.1, "shrinkA": 11, "shrinkB": 11}
    for first, second, bend, letter, place in (
        (student[0], student[1], -0.45, "$Q$", (1.75, 3.1)),
        (student[2], teacher[0], -0.15, "$R$", (5.3, 3.12)),
        (teacher[0], teacher[1], -0.4, "$T$", (7.7, 3.1)),
    ):
        ax.annotate("", first, second, arrowprops={**arrow, "connectionstyle": f"arc3,rad={-bend}"}, zorder=3)
        text(*place, letter, fontsize=13)


def questions():
    """Four questions, and what the answers look like."""
    axes = plt.subplots(2, 2, figsize=(6.8, 4.2))[1].ravel()
    model = ov.committee_machine(2, 2, eta=1.0)
    start = ov.State.from_overlaps(model, Q=np.diag([0.5, 0.4]), R=np.diag([0.1, 0.2]), T=np.eye(2))
    traj = ov.solve(model, start, np.linspace(0, 70, 141))
    axes[0].plot(traj.alpha, traj.R[:, [0, 0, 1, 1], [0, 1, 0, 1]])
    for plateau in traj.plateaus():
        axes[0].axvspan(*plateau.alpha, color="0.5", alpha=0.2, lw=0)
    axes[0].set_title("Where is the plateau?\ntraj.plateaus()")

    mean, std = traj.R[:, 0, 0], ov.fluctuations(traj, N=200).std("R")[:, 0, 0]
    axes[1].fill_between(traj.alpha, mean - 2 * std, mean + 2 * std, alpha=0.3, lw=0)
    axes[1].plot(traj.alpha, mean)
    axes[1].set_title("How far do runs scatter?\nov.fluctuations(traj, N)")

    noisy = ov.committee_machine(2, 2, eta=0.5, noise=0.3)
    begin = ov.State.from_overlaps(noisy, Q=0.3 * np.eye(2), R=np.diag([0.1, 0.05]), T=np.eye(2))
    best = ov.optimal_schedule(noisy, begin, horizon=100.0, knots=11)
    alpha = np.linspace(0, 100, 201)
    axes[2].plot(alpha, [best.schedule(x) for x in alpha])
    axes[2].set_title("Which rate is best?\nov.optimal_schedule(...)")

    for beta in (0.5, 1.0, 2.0):
        data = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=beta, L=64), gradient_flow=True)
        long = ov.solve(data, data.random_start(N=64_000, rng=1), np.geomspace(0.1, 1e4, 60))
        axes[3].loglog(long.alpha, long.eps_g)
    axes[3].set_title("How do power-law inputs act?\nov.power_law(beta=, L=)")
    for ax, name in zip(axes, ("$R$", "$R_{11}$", r"factor of $\eta$", r"$\epsilon_g$"), strict=True):
        ax.set_xlabel(r"$\alpha$")
        ax.set_ylabel(name)
        ax.title.set_fontsize(9)


def plateaus():
    """Draw curves of students that begin equal up to a difference: the error, and the difference itself."""
    model = ov.committee_machine(2, 2, eta=0.5)
    saddle = ov.plateau(model)
    left, right = plt.figure(figsize=(7.2, 3.3), layout="constrained").subplots(1, 2)
    for begin in (0.1, 0.01, 0.001):
        R = 0.05 + begin / 2 * np.array([[1, -1], [-1, 1]])
        start = ov.State.from_overlaps(model, Q=0.02 * np.eye(2), R=R, T=np.eye(2))
        traj = ov.solve(model, start, (0, 350))
        left.semilogy(traj.alpha, traj.eps_g, label=f"difference {begin:g} at the start")
        right.semilogy(traj.alpha, traj.R[:, 0, 0] - traj.R[:, 0, 1])
    left.axhline(saddle.height, color="0.5", ls="--", lw=1)
    alpha, rate = np.array([40, 170]), saddle.rates[0]
    right.semilogy(alpha, 1.6e-3 * np.exp((alpha - 40) * rate), "--", color="0.5", lw=1.5)
    right.text(120, 0.01, rf"slope $\lambda$ = {rate:.3f}", color="0.5")
    left.set(xlabel=r"$\alpha$", ylabel=r"$\epsilon_g$", ylim=(1e-4, 5))
    right.set(xlabel=r"$\alpha$", ylabel=r"difference of the students, $R_{11} - R_{12}$", ylim=(5e-4, 3))
    left.legend(loc="upper right", fontsize=8)


def times():
    """A floating bar from our time to the baseline's, for rows of the kept benchmarks."""
    file = Path(__file__).parents[1] / "benchmarks" / "results" / "performance.json"
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    ax = plt.figure(figsize=(7.4, 3.5)).gca()
    for place, (name, baseline) in enumerate(reversed(TIMED.items())):
        ours, ratio = rows[name]["seconds"], rows[name]["baselines"][baseline]["ratio"]
        ax.barh(place, ours * (ratio - 1), left=ours, height=0.55, color="C0", alpha=0.35)
        ax.plot(ours, place, "o", color="C0", label="overlaps" if place == 0 else None)
        ax.plot(ours * ratio, place, "|", color="k", ms=12, mew=2, label="baseline" if place == 0 else None)
        ax.text(ours * ratio * 1.25, place, f"{ratio:.3g}× {baseline}", va="center", fontsize=8)
    ax.set_yticks(range(len(TIMED)), list(reversed(TIMED)), fontsize=8)
    ax.set(xscale="log", xlabel="seconds (CPU)", xlim=(1e-7, 2e3))
    ax.legend(loc="upper left", fontsize=8)


def misprint():
    """Equation (6) of Worschech and Rosenow (2024): eigenvalues as printed, A_1 + eta U, and with eta U / 2."""
    spectrum, eta, alpha = ov.power_law(beta=1.0, L=32), 0.6, np.linspace(0, 60, 61)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=eta, spectrum=spectrum)
    s, p = spectrum.s, spectrum.p
    for factor, label in ((2, "as printed"), (1, "correct")):
        modes, basis = np.linalg.eig(eta**2 * factor * np.outer(p * s, s) - 2 * eta * np.diag(s))
        error = s @ (basis * np.linalg.solve(basis, p)) @ np.exp(np.outer(modes, alpha))
        plt.semilogy(alpha, error.real, "C1--" if factor == 2 else "C0", label=label)
    runs = ov.simulate(model, N=3200, alpha=alpha[::4], rng=1, runs=8, student_scale=1e-6)
    plt.semilogy(runs.alpha, 2 * runs.mean("eps_g"), "k.", label="SGD, N = 3200")
    plt.gca().set(xlabel=r"$\alpha$", ylabel=r"$2\epsilon_g$, linear student, $\eta = 0.6$")
    plt.legend()


def features():
    """Features against features, and against functions: filled where they work together."""
    from overlaps.models.features import FEATURES, FUNCTIONS, applies, supported

    names = [*FEATURES]
    columns = [*names, *FUNCTIONS]
    table = np.array([[x in names or applies(name, x) for x in columns] for name in names])
    table &= np.array([[name == x or supported(name, x) for x in columns] for name in names])
    fig = plt.figure(figsize=(9.0, 7.4), layout="constrained")
    axes = fig.subplots(1, 2, width_ratios=[len(names), len(FUNCTIONS)])
    parts = (table[:, : len(names)], names, "C0"), (table[:, len(names) :], [*FUNCTIONS], "C1")
    for ax, (part, labels, color) in zip(axes, parts, strict=True):
        y, x = np.nonzero(part)
        ax.scatter(x, y, s=16, marker="s", color=color)
        ax.set(xlim=(-0.7, len(labels) - 0.3), ylim=(len(names) - 0.3, -0.7))
        ax.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), names if ax is axes[0] else [], fontsize=7)
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
    axes[0].set_title("features with features", fontsize=9)
    axes[1].set_title("features with functions", fontsize=9)
    return fig
