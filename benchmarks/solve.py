"""Time of whole integrations: structured BDF with many eigenvalues, against explicit steps; isotropic inputs at L = 1.

erf, beta = 1, eta = 0.1, every O(eta^2) term, one thread.  A Jacobian is one evaluation of the closure's derivatives.
"""

from time import perf_counter, process_time

import numpy as np

import overlaps as ov
from overlaps.flow.system import System
from overlaps.integrators.bdf import StructuredBDF
from overlaps.integrators.dop853 import DOP853

CASES = [(2, 512, 1e4), (2, 512, 1e9), (2, 4096, 1e12), (6, 512, 1e6)]


def setting(K, L):
    model = ov.committee_machine(K, K, eta=0.1, spectrum=ov.power_law(beta=1.0, L=L))
    return model, model.random_start(N=1000 * L, rng=1)


def structured(K, L, end, rtol):
    """Seconds, and the solver at its end."""
    model, start = setting(K, L)
    system = System(model, start)
    began = perf_counter()
    solver = StructuredBDF(system.rhs, 0.0, system.pack(start), end, rtol=rtol, atol=1e-4 * rtol)
    steps = 0
    while solver.status == "running":
        solver.step()
        steps += 1
    assert solver.status == "finished"
    return perf_counter() - began, solver, steps, system.close(solver.y)


def many_eigenvalues():
    print("structured BDF")
    print(
        f"{'K=M':>4} {'L':>5} {'alpha':>7} {'rtol':>7} {'time':>8} {'steps':>6} {'evaluations':>12} "
        f"{'Jacobians':>10} {'factorisations':>15} {'eps_g':>10}"
    )
    structured(2, 8, 10.0, 1e-4)
    for K, L, end in CASES:
        for rtol in (1e-6, 1e-8):
            time, solver, steps, eps_g = structured(K, L, end, rtol)
            print(
                f"{K:4d} {L:5d} {end:7.0e} {rtol:7.0e} {time:6.2f} s {steps:6d} {solver.nfev:12d} {solver.njev:10d} "
                f"{solver.nlu:15d} {eps_g:10.2e}"
            )


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


class OneByOne(DOP853):
    """The same steps through SciPy's class, one by one."""


def compiled(alpha=1000.0):
    """Whole calls of solve, validation and the making of the Trajectory included; CPU time."""
    print(f"\nsteps in compiled code and through SciPy, L = 1, eta = 0.2 to alpha = {alpha:g}, rtol 1e-8")
    for K in (2, 4):
        model = ov.committee_machine(K, K, eta=0.2)
        start = model.random_start(N=1000, rng=1)
        times = [np.inf, np.inf]
        for _ in range(10):
            for i, method in enumerate((OneByOne, "DOP853")):
                began = process_time()
                traj = ov.solve(model, start, [alpha], method=method)
                times[i] = min(times[i], process_time() - began)
        print(
            f"K = M = {K}: {1e3 * times[0]:.1f} ms -> {1e3 * times[1]:.1f} ms, {times[0] / times[1]:.1f} times faster, "
            f"{traj.nfev} evaluations"
        )


def main():
    many_eigenvalues()
    explicit()
    isotropic()
    compiled()


if __name__ == "__main__":
    main()
