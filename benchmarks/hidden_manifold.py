"""SGD on the hidden manifold: steps per second of whole runs, and where the time goes, in both precisions."""

from time import perf_counter

import numpy as np
from timing import seconds

import overlaps as ov
from overlaps.manifold.weights import random_weights
from overlaps.simulators.direct import advance

N, D, BLOCK, STEPS = 1000, 500, 1024, 40_000
LATENTS = {
    "normal": ov.latents.gaussian(),
    "elementwise": ov.latents.mixture(kind="elementwise", means=[-3.0, 3.0], standardise="population"),
    "shared": ov.latents.paper([-3.0, 3.0]),
}


def steps_per_second(model, weights, law, dtype):
    """A whole run with 201 records, everything included, the best of three."""
    options = dict(N=N, alpha=(0, STEPS / N), rng=1, weights=weights, latents=law, dtype=dtype, test=0)
    times = []
    for _ in range(3):
        clock = perf_counter()
        ov.simulate(model, **options)
        times.append(perf_counter() - clock)
    return STEPS / min(times)


def shares(model, weights, law, dtype):
    """Microseconds per sample of drawing latents, the matrix product, the feature map and the updates."""
    rng = np.random.default_rng(1)
    c = law(rng, BLOCK, D)
    F, W = (weights.F / np.sqrt(D)).astype(dtype), weights.W.astype(dtype)
    U = c.astype(dtype) @ F.T
    X = model.features(U).reshape(BLOCK, 1, N)
    nu, xi, v = (c @ weights.W_star.T / np.sqrt(D)).reshape(BLOCK, 1, -1), np.zeros((BLOCK, 1)), np.array(model.v)
    parts = {
        "latents": lambda: law(rng, BLOCK, D),
        "product": lambda: c.astype(dtype) @ F.T,
        "features": lambda: model.features(U),
        "updates": lambda: advance(model, W, np.ones(1), v, X, nu, xi),
    }
    return {name: 1e6 * seconds(part, repeat=3) / BLOCK for name, part in parts.items()}


def main():
    model = ov.hidden_manifold(
        2, 2, features="sign", ratio=D / N, v=[0.45, 0.55], v_star=[0.9, 0.7], eta=0.2, eta_v=0.2
    )
    weights = random_weights(model, N=N, rng=1)
    print(f"SGD on the hidden manifold, N = {N}, D = {D}, K = M = 2, sign features, blocks of {BLOCK}\n")
    heads = ("latents", "product", "features", "updates")
    print(f"{'latents':>12} {'dtype':>8} {'steps/s':>9}  " + " ".join(f"{h:>9}" for h in heads) + "  us")
    for name, law in LATENTS.items():
        for dtype in ("float32", "float64"):
            rate, parts = steps_per_second(model, weights, law, dtype), shares(model, weights, law, dtype)
            times = " ".join(f"{parts[h]:9.2f}" for h in heads)
            print(f"{name:>12} {dtype:>8} {rate:9,.0f}  {times}")


if __name__ == "__main__":
    main()
