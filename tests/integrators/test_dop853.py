"""DOP853 with eps_g in its error control: the first-order change of eps_g, and the accuracy that follows."""

import numpy as np
import pytest
import scipy.integrate

import overlaps as ov
from overlaps.flow.system import System

POWER_LAW = ov.power_law(beta=1.0, L=3)


@pytest.mark.parametrize("options", [{}, {"eta_v": 0.2}, {"activation": ov.relu}, {"spectrum": POWER_LAW}])
def test_change_of_eps_g_is_its_differential(options, rng):
    """A, B and dv are the gradient of eps_g: against central differences of the closed form."""
    model = ov.committee_machine(2, 3, eta=0.7, v=[1.0, 0.6], **options)
    start = model.random_start(N=3000, rng=rng)
    system = System(model, start)
    y = system.pack(start)
    dy = rng.standard_normal(y.size)
    h = 1e-5
    expected = (system.close(y + h * dy) - system.close(y - h * dy)) / (2 * h)
    system.close(y)
    # the central difference errs by h^2 and by 1e-16 / h
    assert system.change_of_eps_g(dy) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    "eta, spectrum, N, last",
    [(1.5, ov.isotropic(), 10_000, 200.0), (0.5, ov.power_law(beta=1.0, L=4), 8200, 1600.0)],
)
def test_eps_g_keeps_rtol_as_it_falls(eta, spectrum, N, last):
    """Eps_g falls to 1e-8; the reference follows the differences of students and teachers, which hold any eps_g."""
    model = ov.committee_machine(2, 2, eta=eta, spectrum=spectrum)
    start = model.random_start(N=N, rng=2)
    alpha = np.linspace(0.0, last, 9)
    reference = ov.solve(model, start, alpha, method=scipy.integrate.DOP853, rtol=1e-13, late=True, max_step=1.0)
    assert reference.eps_g[-1] < 1e-7

    # What cancels in eps_g are products of four functions of size E[g^2]^(1/2) = 3^(-1/2).  Rounding of Q and R adds up
    # for as long as the slowest mode remembers: starts that differ by 1e-16 scatter by half of this number.
    rounding = np.finfo(float).eps * (4 / np.sqrt(3)) ** 2

    def error(method):
        traj = ov.solve(model, start, alpha, method=method)
        return np.max(np.abs(traj.eps_g - reference.eps_g) / (1e-8 * reference.eps_g + rounding))

    assert error("DOP853") < 3  # 1.8 at most in 160 runs from starts that differ by 1e-13: other steps, other rounding
    assert error(scipy.integrate.DOP853) > 30  # Q and R alone do not control it


@pytest.mark.parametrize("method, percent", [("RK45", 0.056), ("BDF", 0.16), ("LSODA", 0.0028), ("DOP853", 0.00068)])
def test_what_error_control_of_the_overlaps_alone_leaves(method, percent):
    """The numbers of the documentation: SciPy's solvers at rtol 1e-6, atol 1e-9 in a decay after a plateau."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.1, 0], [0, 0.2]], T=np.eye(2))
    exact = ov.solve(model, start, [150.0], rtol=1e-12, late=True).eps_g[0]
    assert exact == pytest.approx(5.64e-9, rel=1e-3, abs=0)
    tolerances = dict(rtol=1e-6, atol=1e-9)
    traj = ov.solve(
        model, start, [30.0, 60.0, 90.0, 120.0, 150.0], method=getattr(scipy.integrate, method), **tolerances
    )
    # other versions of SciPy may choose other steps
    assert 0.3 < 100 * abs(traj.eps_g[-1] / exact - 1) / percent < 3
    ours = ov.solve(model, start, [30.0, 60.0, 90.0, 120.0, 150.0], **tolerances)
    assert abs(ours.eps_g[-1] / exact - 1) < 2e-6


def test_other_equations_are_left_to_scipy():
    """Without overlaps there is no eps_g: the same steps as SciPy's."""
    from overlaps.integrators.dop853 import DOP853

    runs = [
        scipy.integrate.solve_ivp(lambda t, y: -y, (0, 3), [1.0], method=method, rtol=1e-6)
        for method in (DOP853, scipy.integrate.DOP853)
    ]
    assert np.array_equal(runs[0].y, runs[1].y)
