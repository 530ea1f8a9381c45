"""What schedules, stages and drift cost, beside the same problem without them."""

import dataclasses

import numpy as np
from timing import row, show

import overlaps as ov

PART = "Schedules, stages, drift"
MODEL = ov.committee_machine(2, 2, eta=1.0, noise=0.3)
START = ov.State.from_overlaps(MODEL, Q=np.eye(2) / 2, R=[[0.3, 0.05], [0.1, 0.2]], T=np.eye(2))
WIDE = ov.committee_machine(2, 2, eta=1.0, noise=0.1, spectrum=ov.power_law(beta=1.0, L=64))
END = 400.0


def rows():
    cosine = ov.Schedule.cosine(END, last=0.1)
    halves = ov.Stages([MODEL, dataclasses.replace(MODEL, noise=0.2)], until=[END / 2, END])
    wide = WIDE.random_start(N=6400, rng=1)

    def few(model=MODEL, **options):
        return ov.solve(model, START, [END], method="DOP853", **options)

    def many(**options):
        return ov.solve(WIDE, wide, [END], method="structured", **options)

    noises = [dataclasses.replace(MODEL, noise=noise) for noise in np.linspace(0.1, 0.3, 20)]

    def batch(**options):
        return ov.solve_many(noises, START, [END], method="DOP853", threads=1, **options)

    def sgd(**options):
        return ov.simulate(MODEL, N=1000, alpha=[20.0], rng=1, start=START, **options)

    cases = {
        f"factor of one, K = M = 2, to α = {END:g}": (few, {"schedule": ov.Schedule.constant()}),
        "cosine": (few, {"schedule": cosine}),
        "two stages": (few, {"model": halves}),
        "drift": (few, {"model": dataclasses.replace(MODEL, drift=0.05)}),
        "cosine, BDF, 64 eigenvalues": (many, {"schedule": cosine}),
        "cosine, solve_many, 20 trajectories": (batch, {"schedule": cosine}),
        "cosine, reduced SGD, 20000 steps": (sgd, {"schedule": cosine}),
    }
    for name, (run, options) in cases.items():
        counts = [int(np.sum(getattr(found, "nfev", 0))) for found in (run(**options), run())]
        note = f"{counts[0]} evaluations, without {counts[1]}" if all(counts) else ""
        baselines = {"without": run}
        yield row(PART, name, lambda run=run, options=options: run(**options), baselines, note=note)


if __name__ == "__main__":
    show(rows())
