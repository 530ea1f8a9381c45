"""Functions of the user: closure, curve and SGD of gelu, which has no closed forms, beside erf, which has."""

import numpy as np
from scipy.special import ndtr
from timing import human, seconds

import overlaps as ov
from overlaps.flow.system import System


def gelu(x):
    return x * ndtr(x)


def gelu_slope(x):
    return ndtr(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


GELU = ov.Activation.from_function(gelu, gelu_slope)


def closure(K, activation, gradient_flow):
    """Seconds of one evaluation from Python, and the rule of C."""
    model = ov.committee_machine(K, K, activation=activation, eta=0.1, gradient_flow=gradient_flow)
    system = System(model, model.random_start(N=1000, rng=1, student_scale=0.9))
    y = system.pack(system.start)
    return seconds(lambda: system.close(y), repeat=3), getattr(system.closure, "method", None)


def curve(activation, gradient_flow, alpha=100.0):
    """Seconds and evaluations of solve, K = M = 2."""
    model = ov.committee_machine(2, 2, activation=activation, eta=0.5, gradient_flow=gradient_flow)
    start = model.random_start(N=1000, rng=1)
    return seconds(lambda: ov.solve(model, start, [alpha]), repeat=2), ov.solve(model, start, [alpha]).nfev


def steps_per_second(activation, method, N, alpha):
    """A whole run, start and records included."""
    model = ov.committee_machine(2, 2, activation=activation, eta=0.1)
    return N * alpha / seconds(lambda: ov.simulate(model, N=N, alpha=[0, alpha], rng=1, method=method), repeat=3)


def main():
    print("gelu by quadrature and tables; one evaluation of the closure, as Python calls it")
    print(f"{'K=M':>4} {'with C':>10} {'rule':>8} {'without':>10} {'erf with C':>11}")
    for K in (1, 2, 3, 4):
        (with_C, rule), (without, _), (erf, _) = (
            closure(K, GELU, False),
            closure(K, GELU, True),
            closure(K, ov.erf, False),
        )
        print(f"{K:4d} {human(with_C):>10} {rule:>8} {human(without):>10} {human(erf):>11}")
    for gradient_flow in (False, True):
        time, evaluations = curve(GELU, gradient_flow)
        print(f"to alpha = 100, K = M = 2, gradient_flow={gradient_flow}: {human(time)}, {evaluations} evaluations")
    for method, N, alpha in (("reduced", 10_000, 10), ("direct", 1000, 20)):
        user, erf = (steps_per_second(activation, method, N, alpha) for activation in (GELU, ov.erf))
        print(f"{method} SGD, K = M = 2, N = {N}: {user:,.0f} steps/s, {user / erf:.2f} of erf's")


if __name__ == "__main__":
    main()
