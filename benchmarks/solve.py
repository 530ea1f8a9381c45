"""Time of whole integrations: compiled steps against the same steps made by SciPy's classes, and against explicit ones.

erf, one thread, CPU time of whole calls of solve, validation and the making of the Trajectory included; with many
eigenvalues beta = 1, eta = 0.1, every O(eta^2) term.
"""

from time import perf_counter, process_time

import numpy as np
from scipy import integrate

import overlaps as ov
from overlaps.flow.system import System
from overlaps.integrators.bdf import StructuredBDF
from overlaps.integrators.dop853 import DOP853


class SciPyDOP853(DOP853):
    """The same steps through SciPy's class, one by one."""


class SciPyBDF(StructuredBDF):
    """The same steps through SciPy's class, one by one."""


def setting(K, L):
    model = ov.committee_machine(K, K, eta=0.1, spectrum=ov.power_law(beta=1.0, L=L))
    return model, model.random_start(N=1000 * L, rng=1)


def compare(title, model, start, alpha, methods, rounds):
    """Print times, ratio and numbers of evaluations of two methods, in turns."""
    ov.solve(model, start, alpha[:1], method=methods[1])  # compiled
    times, runs = [np.inf, np.inf], [None, None]
    for _ in range(rounds):
        for i, method in enumerate(methods):
            began = process_time()
            runs[i] = ov.solve(model, start, alpha, method=method)
            times[i] = min(times[i], process_time() - began)
    error = np.abs(runs[0].Q - runs[1].Q).max()
    print(
        f"{title}: {1e3 * times[0]:9.1f} ms -> {1e3 * times[1]:8.1f} ms, {times[0] / times[1]:5.1f} times faster; "
        f"{runs[0].nfev} -> {runs[1].nfev} evaluations, Q differs by {error:.0e}",
        flush=True,
    )


def compiled():
    print("steps in compiled code and through SciPy, rtol 1e-8: K = M, L, to alpha")
    for K in (2, 4):
        model = ov.committee_machine(K, K, eta=0.2)
        start = model.random_start(N=1000, rng=1)
        compare(f"DOP853 {K}    1 1e+03", model, start, [1000.0], (SciPyDOP853, "DOP853"), 10)
    for K, L, end in [(2, 512, 1e9), (6, 512, 1e6), (2, 4096, 1e12)]:
        alpha = np.geomspace(1.0, end, 11)
        compare(f"BDF    {K} {L:4d} {end:.0e}", *setting(K, L), alpha, (SciPyBDF, "structured"), 2)


def rounding():
    """What the control of eps_g costs where it falls below rounding, against SciPy's control of the overlaps alone."""
    model = ov.committee_machine(2, 2, eta=1.0)
    start = model.random_start(N=1000, rng=1)
    runs = [ov.solve(model, start, (0.0, 1000.0), method=method).nfev for method in (integrate.DOP853, "DOP853")]
    print(f"\nK = M = 2, L = 1, eta = 1 to alpha = 1000: {runs[0]} evaluations without eps_g, {runs[1]} with it")


def explicit(end=1e3):
    model, start = setting(2, 512)
    reference = None
    print(f"\nK = M = 2, L = 512 to alpha = {end:g}; explicit steps cost in proportion to alpha, BDF in log(alpha)")
    for method, rtol in (("DOP853", 1e-12), ("DOP853", 1e-8), ("structured", 1e-8)):
        began = perf_counter()
        traj = ov.solve(model, start, [end], method=method, rtol=rtol)
        time = perf_counter() - began
        reference = traj if reference is None else reference
        error = np.abs(traj.Q - reference.Q).max()
        print(f"{method:>12} rtol {rtol:.0e}: {time:7.2f} s, {traj.nfev:7d} evaluations, error of Q {error:.1e}")


def isotropic(alpha=1000.0, steps=100_000):
    """The target of 10 times less time than Euler's method, which others use, with an error of Q below 1e-8."""
    model = ov.committee_machine(2, 2, eta=0.2)
    start = model.random_start(N=1000, rng=1)
    exact = ov.solve(model, start, [alpha], rtol=1e-13, atol=1e-16).Q[0]
    print(f"\nK = M = 2, L = 1, eta = 0.2 to alpha = {alpha:g}")
    system = System(model, start)
    y = system.pack(start)
    began = perf_counter()
    for _ in range(steps):
        y = y + alpha / steps * system.rhs(0.0, y)
    euler = perf_counter() - began
    error = np.abs(system.state(y).Q - exact).max()
    print(f"{'Euler':>12} {steps} steps: {euler * 1e3:8.1f} ms, error of Q {error:.1e}")
    for rtol in (1e-8, 1e-9, 1e-10):
        times = []
        for _ in range(5):
            began = perf_counter()
            traj = ov.solve(model, start, [alpha], rtol=rtol)
            times.append(perf_counter() - began)
        error = np.abs(traj.Q[0] - exact).max()
        print(
            f"{traj.method.split(' ')[0]:>12} rtol {rtol:.0e}: {min(times) * 1e3:8.1f} ms, error of Q {error:.1e}, "
            f"{euler / min(times):.0f} times faster"
        )


def main():
    compiled()
    rounding()
    explicit()
    isotropic()


if __name__ == "__main__":
    main()
