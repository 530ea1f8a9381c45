"""Cost of the hierarchical teacher: one solution, and a learning curve of 100 points in parametric form.

python benchmarks/bayes.py
"""

from timing import human, seconds

import overlaps as ov
from overlaps.static.bayes.channel import Channel
from overlaps.static.bayes.correlation import correlation_of

HE3 = {3: 1.0}


def teacher(k, activation=HE3, beta=0.75):
    return ov.static.HierarchicalTeacher(beta=beta, k=k, noise=0.5**0.5, activation=activation)


def main():
    print("tables of an activation, once per process")
    for name, activation in (("He_3", HE3), ("tanh", ov.tanh), ("relu", ov.relu)):
        g = correlation_of(activation)
        print(f"  {name:6s} {human(seconds(lambda: Channel(g), repeat=2)):>9s}")
    print("power-law readouts, beta = 0.75, Delta = 0.5, He_3: least time of one call")
    columns = ("solve, nu = k", "solve, k_c = k", "100 points", "per known feature")
    print(f"{'k':>9s} " + " ".join(f"{x:>18s}" for x in columns))
    for k in (100, 10_000, 1_000_000):
        here = teacher(k)
        end = 2 * here.onset * here.Delta / here.v2[-1]  # all features known
        early, late = here.solve(nu=float(k)), here.solve(nu=end)
        assert early.converged and late.converged and late.k_c == k
        one = seconds(lambda: here.solve(nu=float(k)), repeat=3)
        all_ = seconds(lambda: here.solve(nu=end), repeat=2)
        curve = here.curve((1.0, end), points=100)
        points = seconds(lambda: here.curve(s=curve.s), repeat=2)
        share = points / max(curve.k_c.sum(), 1)
        print(f"{k:9d} {human(one):>18s} {human(all_):>18s} {human(points):>18s} {human(share):>18s}")
    for name, activation in (("tanh", ov.tanh), ("relu", ov.relu)):
        here = teacher(10_000, activation)
        curve = here.curve((1.0, 1e9), points=100)
        points = seconds(lambda: here.curve(s=curve.s), repeat=2)
        print(f"{name}, k = 10000: 100 points {human(points)}, {human(points / curve.k_c.sum())} per known feature")


if __name__ == "__main__":
    main()
