"""Time of the exact derivatives of the closure, and its ratio to the matrix C alone.  One thread, teacher = student."""

from importlib import import_module

import numpy as np
from timing import human, seconds

from overlaps.activations import _relu
from overlaps.gaussian import two_point as _integrals

ETA, ETA_V, NOISE = 0.4, 0.7, 0.3


def measure(name, K):
    """Seconds of one C (but for relu, which has it apart, of the closure) and of all derivatives."""
    rng = np.random.default_rng(K)
    n = 2 * K
    X = rng.normal(size=(n, n + 3)) / np.sqrt(n + 3)
    S, w = X @ X.T, rng.uniform(0.5, 1.5, n) * rng.choice([-1, 1], n)
    code = getattr(_integrals, name.upper())
    A, B, C, dv = (np.zeros(shape) for shape in ((K, K), (K, K), (K, K), (K,)))
    d = K * (K + 1) // 2 + K * K + K
    dA, dB, dC, ddv = np.zeros((d, K, K)), np.zeros((d, K, K)), np.zeros((d, K, K)), np.zeros((d, K))
    if name == "relu":
        time_C = seconds(lambda: _relu.relu_C(S, w, K, code, ETA, NOISE, C))
    else:
        kernel = getattr(import_module(f"overlaps.activations._{name}"), f"{name}_closure")
        time_C = seconds(lambda: kernel(S, w, K, code, ETA, ETA_V, NOISE, True, A, B, C, dv))
    module = import_module(f"overlaps.activations._{name}" + "_derivatives" * (name == "relu"))
    derivatives = getattr(module, f"{name}_derivatives")
    return time_C, seconds(lambda: derivatives(S, w, K, code, ETA, ETA_V, NOISE, True, dA, dB, dC, ddv))


def main():
    """Print the table."""
    print(f"{'activation':>10} {'K=M':>4} {'unknowns':>9} {'C':>10} {'derivatives':>12} {'ratio':>6}")
    for name in ("erf", "linear", "quadratic", "relu"):
        for K in (1, 2, 4, 8):
            time_C, time = measure(name, K)
            unknowns = K * (K + 1) // 2 + K * K + K
            print(f"{name:>10} {K:4d} {unknowns:9d} {human(time_C):>10} {human(time):>12} {time / time_C:6.1f}")


if __name__ == "__main__":
    main()
