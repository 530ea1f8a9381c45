"""Cost of spiked random features: tables of the coefficients, one (alpha, lam) point, curves, blocks.

python benchmarks/spiked.py
"""

import numpy as np
from timing import human, seconds

import overlaps as ov
from overlaps.static.spiked.conditional import conditional


def model(r=1.2, c=1.1, gamma=0.9, target=np.sin, **options):
    return ov.static.SpikedRandomFeatures(np.tanh, target, r=r, c=c, gamma=gamma, beta=1.0, **options)


def main():
    print("tables of the coefficients, two grids compared (tanh student)")
    for r, c, gamma, target in (
        (1.2, 1.1, 0.9, np.sin),
        (4.0, 2.0, 0.9, np.sin),
        (1.2, 1.1, 0.9, np.sign),
        (1.2, 1.1, 0.999, np.sign),
        (1.2, 1.1, 1.0, np.sign),
    ):
        size = conditional(np.tanh, target, r, c, gamma).k.size
        spent = seconds(lambda: conditional(np.tanh, target, r, c, gamma))
        print(f"  r = {r:g}, c = {c:g}, gamma = {gamma:g}, {target.__name__:5s} {size:5d} points {human(spent):>9s}")
    print("one point, alpha = 1.3 (n = p in the last line)")
    here = model()
    for alpha, lam in ((1.3, 1.0), (1.3, 1e-2), (1.3, 1e-4), (1.0, 1e-6), (1.0, 1e-8)):
        found = here.solve(alpha=alpha, lam=lam)
        assert found.converged
        spent = seconds(lambda: here.solve(alpha=alpha, lam=lam))
        print(f"  lam = {lam:<7g} {found.iterations:3d} iterations {human(spent):>9s}")
    print(f"  model and point {human(seconds(lambda: model().solve(alpha=1.3, lam=0.05)))}")
    alphas = np.linspace(0.1, 4.0, 100)
    print(f"  curve, per point {human(seconds(lambda: here.curve(alphas, 0.05)) / 100)}")
    print(f"  optimal lam {human(seconds(lambda: here.optimal_lam(1.3)))}")
    print("blocks, alpha = 1.3, lam = 0.05, tables known")
    for size in (1, 2, 4, 8):
        for rows in ("iid", "orthonormal"):
            blocks = model(r=np.linspace(0.5, 2.5, size), c=np.linspace(1.0, 1.6, size), rows=rows)
            spent = seconds(lambda: blocks.solve(alpha=1.3, lam=0.05))
            print(f"  {size} blocks, {rows:11s} {human(spent):>9s}")
    omega = np.random.default_rng(1).standard_normal((1000, 1000))
    spent = seconds(lambda: np.linalg.eigh(omega @ omega.T), repeat=2)
    print(f"for comparison: the eigendecomposition that the finite-d form starts from, d = 1000: {human(spent)}")


if __name__ == "__main__":
    main()
