"""Whole integrations: solve against SciPy's stepping of the same method, SciPy's own integrators and Euler's method.

Times of solve include validation and the making of the Trajectory.  With many eigenvalues beta = 1, eta = 0.1, every
O(eta^2) term.
"""

import numpy as np
from rivals import curves
from scipy import integrate
from timing import row, show

import overlaps as ov
from overlaps._base.jit import jit
from overlaps.activations._erf import erf_closure, erf_workspace
from overlaps.flow import flow, gather
from overlaps.flow.system import System
from overlaps.gaussian.two_point import ERF
from overlaps.integrators.bdf import StructuredBDF
from overlaps.integrators.dop853 import DOP853

PART = "Integration"


class SciPyDOP853(DOP853):
    """The same steps through SciPy's class, one by one."""


class SciPyBDF(StructuredBDF):
    """The same steps through SciPy's class, one by one."""


@jit
def euler_steps(y, one, tau, S, w, work, A, B, C, dv, dy, eta, h, steps):
    """Euler's method with fixed steps, in compiled code."""
    K, M = B.shape
    for _ in range(steps):
        gather(y, one, K, M, False, S, w)
        erf_closure(S, w, work, K, ERF, eta, 0.0, 0.0, True, A, B, C, dv)
        flow(y, one, one, tau, A, B, C, dv, 0.0, 0.0, 1.0, False, dy, 0.0)
        for i in range(y.size):
            y[i] += h * dy[i]


def euler(model, start, alpha, h=0.01):
    """Final overlaps; h = 0.01 is what published programs take."""
    system = System(model, start)
    y, one = system.pack(start), np.ones(1)
    work = np.zeros(erf_workspace(model.K + model.M))
    room = system.S, system.w, work, system.A, system.B, system.C, system.dv, np.empty_like(y)
    euler_steps(y, one, system.source, *room, model.eta, h, round(alpha / h))
    return system.state(y).Q


def recorded(end, n):
    """A curve with records, against one without and against programs of other libraries; errors in units of rtol."""
    model = ov.committee_machine(2, 2, eta=0.2)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0], [0, 0.4]], R=[[0.1, 0.02], [0.03, 0.12]], T=np.eye(2))
    alpha = np.linspace(0.0, end, n) if n > 1 else [end]

    def run(alpha=alpha, rtol=1e-8):
        return ov.solve(model, start, alpha, rtol=rtol)

    baselines, note = {"one record": lambda: run([end])} if n > 1 else {}, ""
    if n > 1:
        baselines |= curves(start, model.eta, alpha)
        found, exact = run(), run(rtol=1e-12)
        overlaps = max(np.abs(getattr(found, x) - getattr(exact, x)).max() for x in "QR") / np.abs(exact.S).max()
        above = exact.eps_g > 10 * np.maximum(found.eps_floor, exact.eps_floor)
        error = np.abs(found.eps_g / exact.eps_g - 1)[above].max()
        note = (
            f"{found.nfev} evaluations; errors of Q and R {overlaps / 1e-8:.2g} rtol, of eps_g {error / 1e-8:.2g} rtol"
        )
    name = f"solve, K = M = 2, η = 0.2, to α = {end:g}, {n} record{'s' * (n > 1)}"
    return row(PART, name, run, baselines, note=note)


def isotropic(K, alpha=1000.0):
    """One eigenvalue: the curve most people want."""
    model = ov.committee_machine(K, K, eta=0.2)
    start = model.random_start(N=1000, rng=1)

    def run(method="DOP853", **options):
        return ov.solve(model, start, [alpha], method=method, **options)

    exact, found = run(rtol=1e-13, atol=1e-16).Q[0], run()
    baselines = {
        "SciPy's stepping": lambda: run(SciPyDOP853),
        "scipy DOP853": lambda: run(integrate.DOP853),
        "scipy LSODA": lambda: run(integrate.LSODA),
        "compiled Euler, 0.01": lambda: euler(model, start, alpha),
    }
    error = {name: np.abs(Q - exact).max() for name, Q in (("", found.Q[0]), ("E", euler(model, start, alpha)))}
    note = f"{found.nfev} evaluations; error of Q {error['']:.0e}, Euler's {error['E']:.0e}"
    return row(PART, f"DOP853, K = M = {K}, η = 0.2, to α = {alpha:g}", run, baselines, note=note)


def rounding(alpha=1000.0):
    """What the control of eps_g costs where it falls below rounding, against control of the overlaps alone."""
    model = ov.committee_machine(2, 2, eta=1.0)
    start = model.random_start(N=1000, rng=1)

    def run(method="DOP853"):
        return ov.solve(model, start, [alpha], method=method)

    counts = run().nfev, run(integrate.DOP853).nfev
    note = f"{counts[0]} evaluations, {counts[1]} without eps_g in the norm"
    baselines = {"SciPy's stepping": lambda: run(SciPyDOP853), "scipy DOP853": lambda: run(integrate.DOP853)}
    return row(PART, f"DOP853, K = M = 2, η = 1, to α = {alpha:g}", run, baselines, note=note)


def spectrum(K, L, end, others=(), once=False):
    """Many eigenvalues."""
    model = ov.committee_machine(K, K, eta=0.1, spectrum=ov.power_law(beta=1.0, L=L))
    start = model.random_start(N=1000 * L, rng=1)
    alpha = np.geomspace(1.0, end, 11) if end > 1e3 else [end]

    def run(method="structured"):
        return ov.solve(model, start, alpha, method=method)

    baselines = {name: lambda method=method: run(method) for name, method in others}
    name = f"BDF, K = M = {K}, {L} eigenvalues, to α = {end:.0e}".replace("e+0", "e").replace("e+", "e")
    return row(PART, name, run, baselines, note=f"{run().nfev} evaluations", once=once)


def many_units(K=200, alpha=100.0):
    model = ov.committee_machine(K, K, eta=1.0, normalised=True, gradient_flow=True)
    start = model.random_start(N=10 * K, rng=1)
    nfev = []
    ov.solve(model, start, [0.1])  # compiled
    name = f"DOP853, K = M = {K}, gradient flow, to α = {alpha:g}"
    found = row(PART, name, lambda: nfev.append(ov.solve(model, start, [alpha]).nfev), once=True)
    return {**found, "note": f"{nfev[-1]} evaluations"}


def rows():
    for end, n in ((1e-3, 1), (100.0, 51), (100.0, 1000), (1000.0, 1000)):
        yield recorded(end, n)
    yield isotropic(2)
    yield isotropic(4)
    yield rounding()
    stepping = ("SciPy's stepping", SciPyBDF)
    yield spectrum(2, 16, 1e3, [stepping, ("DOP853", "DOP853"), ("scipy BDF", integrate.BDF)])
    yield spectrum(2, 512, 1e3, [stepping, ("DOP853", "DOP853")])
    yield spectrum(2, 512, 1e9, [stepping])
    yield spectrum(6, 512, 1e6, [stepping], once=True)
    yield spectrum(2, 4096, 1e12, [stepping], once=True)
    yield many_units()


if __name__ == "__main__":
    show(rows())
