"""What schedules, stages and drift cost, beside the same problem without them: time, evaluations, steps of SGD."""

import dataclasses
from time import process_time

import numpy as np

import overlaps as ov

ROUNDS = 15
MODEL = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
START = ov.State.from_overlaps(MODEL, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
WIDE = ov.committee_machine(2, 2, eta=1.0, noise=0.1, spectrum=ov.power_law(beta=1.0, L=64))
END = 400.0


def cpu(call):
    begin = process_time()
    result = call()
    return process_time() - begin, result


def interleaved(calls):
    """Least CPU time of each call, and its result, in rounds that take all of them in turn."""
    results = {name: call() for name, call in calls.items()}
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], cpu(call)[0])
    return best, results


def main():
    f = ov.Schedule.cosine(END, last=0.1)
    halves = ov.Stages([MODEL, dataclasses.replace(MODEL, noise=0.2)], until=[END / 2, END])
    moving = dataclasses.replace(MODEL, drift=0.05)
    wide = WIDE.random_start(N=6400, rng=1)
    sgd = {"N": 1000, "alpha": [20.0], "rng": 1, "start": START}
    cases = {
        "constant": lambda: ov.solve(MODEL, START, [END], method="DOP853"),
        "factor of one": lambda: ov.solve(MODEL, START, [END], method="DOP853", schedule=ov.Schedule.constant()),
        "cosine": lambda: ov.solve(MODEL, START, [END], method="DOP853", schedule=f),
        "two stages": lambda: ov.solve(halves, START, [END], method="DOP853"),
        "drift": lambda: ov.solve(moving, START, [END], method="DOP853"),
        "constant, BDF, L = 64": lambda: ov.solve(WIDE, wide, [END], method="structured"),
        "cosine, BDF, L = 64": lambda: ov.solve(WIDE, wide, [END], method="structured", schedule=f),
        "reduced SGD": lambda: ov.simulate(MODEL, **sgd),
        "reduced SGD, cosine": lambda: ov.simulate(MODEL, schedule=f, **sgd),
    }
    best, results = interleaved(cases)
    print(f"K = M = 2, erf, to alpha = {END:g}; SGD: 20000 steps; CPU time, least of {ROUNDS} rounds\n")
    print(f"{'':>24} {'time':>10} {'evaluations':>12} {'per evaluation':>16}")
    for name, seconds in best.items():
        nfev = getattr(results[name], "nfev", 0)
        each = f"{1e6 * seconds / nfev:13.2f} us" if nfev else ""
        print(f"{name:>24} {1e3 * seconds:7.2f} ms {nfev or '':>12} {each:>16}")
    print(f"\nfactor of one / constant: {best['factor of one'] / best['constant']:.2f} in time")
    print(f"SGD with a schedule: {best['reduced SGD'] / best['reduced SGD, cosine']:.2f} of the speed without")


if __name__ == "__main__":
    main()
