"""Cost of the exact derivatives of the closure, which implicit steps and stability use, against differences."""

import numpy as np
from timing import row, show

import overlaps as ov
from overlaps.activations.bound import Bound
from overlaps.flow.binding import bind

PART = "Derivatives of the closure"


def measure(activation, K):
    """Derivatives with respect to all of Q, R, v, and what one evaluation of the closure costs."""
    rng = np.random.default_rng(K)
    model = ov.committee_machine(K, K, activation=activation, eta=0.4, noise=0.3)
    bound, n = bind(model), 2 * K
    X = rng.normal(size=(n, n + 3)) / np.sqrt(n + 3)
    S, w = X @ X.T, rng.uniform(0.5, 1.5, n) * rng.choice([-1, 1], n)
    baselines = {
        "differences": lambda: Bound._newton_derivatives(bound, S, w),
        "the closure alone": lambda: bound.arrays(S, w),
    }
    name = f"{activation.name}, K = M = {K}"
    return row(PART, name, lambda: bound.derivatives(S, w, exact=False), baselines)


def rows():
    for activation in (ov.erf, ov.linear, ov.quadratic, ov.relu):
        for K in (2, 4):
            yield measure(activation, K)


if __name__ == "__main__":
    show(rows())
