r"""
A student trained with Adam beside the Bayes error
==================================================

A teacher of input dimension d and width k, readouts v_i ~ 1/i, sigma = He_3/sqrt(6), and a student of the effective
width k_c trained with Adam on n = alpha d^2 samples: random starts, and starts at the strongest features of the
teacher.

.. math:: \hat y = \sum_{j \le k_c} a_j \sigma(u_j \cdot x), \qquad \epsilon = E[(\hat y - y)^2]

Random starts end 1.5 to 3 times above the Bayes error, because some features are never found; students that start at
the teacher keep within 1.3 of it when data abound. That the gap is a constant factor is compatible with these runs and
not proven by them. The Bayes curve is the limit of large d (its derivation, the decoupling of features, is heuristic).

d = 30, k = 15 by default; d = 40, k = 20, alpha up to 32 and more seeds with ``--full``.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import overlaps as ov

DELTA = 0.2
RATES = {"random": 0.02, "teacher": 0.003}  # a high rate would throw the student out of the teacher again


def main(d, k, alphas, seeds, steps):
    teacher = ov.static.HierarchicalTeacher(beta=1.0, k=k, noise=DELTA**0.5, activation={3: 1.0})
    bayes = [teacher.solve(nu=a * d) for a in alphas]
    runs = {}
    for start in RATES:
        runs[start] = [
            [
                ov.static.train_student(
                    teacher,
                    d=d,
                    n=round(a * d * d),
                    width=b.k_c,
                    rng=seed,
                    start=start,
                    steps=steps,
                    rate=RATES[start],
                    progress=sys.stderr.isatty(),
                )
                for seed in range(seeds)
            ]
            for a, b in zip(alphas, bayes, strict=True)
        ]
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    curve = teacher.curve((0.7 * alphas[0] * d, 1.5 * alphas[-1] * d))
    left.loglog(curve.nu / d, curve.eps, "k-", label=r"Bayes, $d \to \infty$")
    for i, (start, rows) in enumerate(runs.items()):
        errors = np.array([[run.eps[-1] for run in row] for row in rows])
        shifted = np.array(alphas)[:, None] * (1 + 0.04 * (2 * i - 1)) * np.ones_like(errors)
        left.loglog(shifted, errors, "o^"[i], color=f"C{i}", alpha=0.7, markersize=5)
        left.loglog([], [], "o^"[i], color=f"C{i}", label=f"Adam, {start} start")
    left.minorticks_off()
    left.set(xticks=alphas, xticklabels=alphas)
    left.set(xlabel=r"data $\alpha = n/d^2$", ylabel=r"test error $\epsilon$ (noiseless labels)")
    left.set_title(rf"$d = {d}$, $k = {k}$, $\Delta = {DELTA}$, width $k_c$", fontsize="medium")
    left.legend(frameon=False)
    middle = len(alphas) // 2
    for i, run in enumerate(runs["random"][middle]):
        right.semilogy(
            run.steps[1:], run.eps[1:], color="C0", alpha=0.8, label="Adam, random starts" if i == 0 else None
        )
    right.axhline(bayes[middle].eps, color="k", label="Bayes")
    right.set(xlabel="steps of Adam (batches of 200)", ylabel=r"test error $\epsilon$")
    right.set_title(rf"$\alpha = {alphas[middle]}$; the rate falls to zero as a cosine", fontsize="medium")
    right.legend(frameon=False)
    fig.savefig("bayes_student.png", dpi=150)
    return bayes, runs


if __name__ == "__main__":
    full = "--full" in sys.argv
    alphas = [2, 4, 8, 16, 32] if full else [2, 4, 8, 16]
    bayes, runs = main(
        *((40, 20) if full else (30, 15)), alphas, seeds=5 if full else 3, steps=20_000 if full else 8_000
    )
    for start, rows in runs.items():
        for a, b, row in zip(alphas, bayes, rows, strict=True):
            ratios = np.array([run.eps[-1] for run in row]) / b.eps
            found = [int(np.sum(run.overlap > 0.71)) for run in row]
            print(
                f"{start:8s} alpha = {a:2d}: eps / Bayes = {np.round(ratios, 2)}, "
                f"features found {found} of k_c = {b.k_c}"
            )
            # the Bayes error is that of d -> infinity; a student at finite d may fall slightly below its curve
            assert np.all(ratios > 0.7) and np.median(ratios) < (4 if start == "random" else 2.5)
    # started at random the error still falls with the data, over the whole range by more than half the Bayes ratio
    fall = np.median([r.eps[-1] for r in runs["random"][0]]) / np.median([r.eps[-1] for r in runs["random"][-1]])
    assert fall > 0.4 * bayes[0].eps / bayes[-1].eps
