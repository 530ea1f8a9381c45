"""Direct SGD: steps per second, and the share of the time that drawing the inputs takes, in both precisions."""

from time import perf_counter

import numpy as np

import overlaps as ov


def steps_per_second(model, N, steps, dtype):
    """Whole runs, start and records included."""
    options = dict(N=N, alpha=[0, steps / N], rng=1, method="direct", dtype=dtype)
    ov.simulate(model, **options)
    clock = perf_counter()
    ov.simulate(model, **options)
    return steps / (perf_counter() - clock)


def drawing_time(N, steps, dtype):
    """Seconds to draw the inputs of that many steps, in blocks as the simulator does."""
    rng = np.random.default_rng(1)
    block = max(1, 2**16 // N)
    clock = perf_counter()
    for _ in range(steps // block):
        rng.standard_normal((block, N), dtype=dtype)
    return perf_counter() - clock


def main():
    print("direct SGD, erf, one thread\n")
    print(f"{'N':>6} {'K=M':>4} {'dtype':>8} {'steps/s':>9} {'drawing':>8}")
    for N, steps in ((1000, 60_000), (10_000, 6_000)):
        for K in (2, 8):
            model = ov.committee_machine(K, K, eta=0.1, normalised=True)
            for dtype in ("float64", "float32"):
                rate = steps_per_second(model, N, steps, dtype)
                share = drawing_time(N, steps, dtype) * rate / steps
                print(f"{N:6d} {K:4d} {dtype:>8} {rate:9,.0f} {share:8.0%}")


if __name__ == "__main__":
    main()
