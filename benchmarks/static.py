"""Static theories: Bayes-optimal learning curves of a hierarchical teacher; spiked random features."""

import numpy as np
from timing import row, show

import overlaps as ov

PART = "Static theories"
HE3 = {3: 1.0}


def bayes(k, activation=HE3, name="He₃"):
    """100 points in parametric form, and the same points one by one by their size."""
    teacher = ov.static.HierarchicalTeacher(beta=0.75, k=k, noise=0.5**0.5, activation=activation)
    end = 2 * teacher.onset * teacher.Delta / teacher.v2[-1]  # all features known
    curve = teacher.curve((1.0, end), points=100)
    some = curve.nu[::10]
    baselines = {"100 × one size": (lambda: [teacher.solve(nu=float(nu)) for nu in some], len(some) / 100)}
    title = f"Bayes-optimal curve, {name}, k = {k}, 100 points"
    return row(PART, title, lambda: teacher.curve(s=curve.s), baselines)


def features(r=1.2, c=1.1, **options):
    return ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=r, c=c, gamma=0.9, beta=1.0, **options)


def finite(d=1000):
    """What the finite-d form starts from, and SGD runs replace: one decomposition of a matrix (d, d)."""
    omega = np.random.default_rng(1).standard_normal((d, d))
    return np.linalg.eigh(omega @ omega.T)


def rows():
    yield bayes(100)
    yield bayes(10_000)
    yield bayes(10_000, ov.relu, "relu")
    here, alphas = features(), np.linspace(0.1, 4.0, 100)
    eigen = {"one eigh, d = 1000": finite}
    yield row(
        PART,
        "features after one step (tanh, sine): model and point",
        lambda: features().solve(alpha=1.3, lam=0.05),
        eigen,
    )
    points = {"point by point": (lambda: [here.solve(alpha=alpha, lam=0.05) for alpha in alphas[::10]], 10)}
    yield row(PART, "a point of a curve", lambda: here.curve(alphas, 0.05), points, per=100)
    yield row(PART, "best ridge penalty", lambda: here.optimal_lam(1.3))
    blocks = features(np.linspace(0.5, 2.5, 4), np.linspace(1.0, 1.6, 4), rows="orthonormal")
    yield row(PART, "4 blocks, orthonormal rows: a point", lambda: blocks.solve(alpha=1.3, lam=0.05))


if __name__ == "__main__":
    show(rows())
