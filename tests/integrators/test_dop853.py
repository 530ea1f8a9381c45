"""DOP853 with eps_g in its error control: the first-order change of eps_g, and the accuracy that follows."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.integrate
from helpers import few

import overlaps as ov
from overlaps.flow.binding import bind
from overlaps.flow.system import System
from overlaps.integrators._dop853 import rounding_error
from overlaps.integrators.dop853 import DOP853
from overlaps.integrators.solver import with_scipy

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
    [
        (1.5, ov.isotropic(), 10_000, 200.0),
        pytest.param(0.5, ov.power_law(beta=1.0, L=4), 8200, 1600.0, marks=pytest.mark.slow),
    ],
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

    assert error("DOP853") < 3  # 1.9 at most in 24 runs from starts that differ by 1e-13: other steps, other rounding
    assert error(scipy.integrate.DOP853) > 30  # Q and R alone do not control it


PAIRS = [(ov.tanh, ov.tanh), (ov.tanh, ov.linear), (ov.leaky_relu(0.2), ov.absolute)]


@pytest.mark.parametrize(("student", "teacher"), PAIRS, ids=repr)
def test_sums_of_closed_forms_are_stepped_in_compiled_code(student, teacher):
    """The sums are parameters of the kernel; SciPy's class calls the closure from Python, which quadrature tests."""
    model = ov.committee_machine(2, 1, activation=student, teacher_activation=teacher, eta=0.3, v=[1.0, 0.6])
    assert bind(model).compiled is not None
    start = model.random_start(N=1000, rng=1)
    runs = [ov.solve(model, start, [1.0, 5.0], method=method) for method in ("DOP853", scipy.integrate.DOP853)]
    # two error controls at rtol = 1e-8
    np.testing.assert_allclose(runs[0].Q, runs[1].Q, rtol=1e-7)
    np.testing.assert_allclose(runs[0].eps_g, runs[1].eps_g, rtol=1e-7)


@few("method, percent", [("RK45", 0.056), ("BDF", 0.16), ("LSODA", 0.0028), ("DOP853", 0.00068)], quick=1)
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
    runs = [
        scipy.integrate.solve_ivp(lambda t, y: -y, (0, 3), [1.0], method=method, rtol=1e-6)
        for method in (with_scipy(DOP853), scipy.integrate.DOP853)
    ]
    assert np.array_equal(runs[0].y, runs[1].y)


# steps in compiled code ----------------------------------------------------------------------------------------------


class OneByOne(DOP853):
    """The same steps, made by SciPy's class."""


SETTINGS = {
    "second layer, decay": dict(eta_v=0.2, weight_decay=(0.05, 0.02), noise=0.3),
    "relu on erf, gradient flow": dict(activation=ov.relu, teacher_activation=ov.erf, gradient_flow=True),
    "quadratic, batches": dict(activation=ov.quadratic, batch_size=4, eta=0.05),
    "spectrum": dict(spectrum=POWER_LAW, v_star=[1.0, -0.7, 0.4]),
}


@pytest.mark.parametrize("alpha", [(0.0, 20.0), np.linspace(3.0, 20.0, 40), [20.0]], ids=["steps", "times", "end"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_compiled_steps_are_those_of_scipy(setting, alpha):
    model = ov.committee_machine(2, 3, **{"eta": 0.3} | SETTINGS[setting])
    start = model.random_start(N=300, rng=5)
    expected, found = (ov.solve(model, start, alpha, method=method) for method in (OneByOne, "DOP853"))
    assert found.success and found.message == expected.message and found.nfev == expected.nfev
    # sums in another order, at errors that choose the steps; rtol is 1e-8
    np.testing.assert_allclose(found.alpha, expected.alpha, rtol=1e-6)
    for name in ("q", "r", "v"):
        np.testing.assert_allclose(getattr(found, name)[-1], getattr(expected, name)[-1], rtol=0, atol=1e-12)
    assert found.eps_error[-1] == pytest.approx(expected.eps_error[-1], rel=1e-3, abs=0)


def test_first_step_and_longest_step_are_taken():
    model = ov.committee_machine(2, 3, eta=0.3)
    start = model.random_start(N=300, rng=5)
    traj = ov.solve(model, start, (0.0, 3.0), method="DOP853", max_step=0.1, first_step=0.01, every_step=True)
    steps = np.diff(traj.alpha)
    assert steps[0] == pytest.approx(0.01, rel=1e-12) and steps.max() < 0.1 + 1e-12 and steps[5:-1].min() > 0.09


def test_errors_of_eps_g_that_rounding_hides_cost_few_steps():
    """At eta = 1, eps_g falls below rounding at alpha = 450: what is left of it is within the floor that is stated."""
    model = ov.committee_machine(2, 2, eta=1.0)
    start = model.random_start(N=1000, rng=1)
    plain, ours = (
        ov.solve(model, start, (0.0, 1000.0), method=m, every_step=True) for m in (scipy.integrate.DOP853, "DOP853")
    )
    rounding = (ours.alpha > 500) & (ours.alpha < 1000)
    # in twenty starts one record in 90 lies above, by up to 1.9: what is stated is relative to eps_g, noise here
    beyond = ours.eps_g[rounding] / ours.eps_floor[rounding]
    assert beyond.max() < 4 and np.mean(beyond > 1) < 0.1
    assert plain.eps_g[plain.alpha > 500].max() > 1e-11  # what Q and R alone control
    counts = [
        [ov.solve(model, start, [end], method=m).nfev for end in (500.0, 1000.0)]
        for m in (scipy.integrate.DOP853, "DOP853")
    ]
    (before, after), (ours_before, ours_after) = counts
    # 1.7 to 2.0 times, as the rounding of a processor and a start have it, rejected steps counted; 12 without the floor
    assert ours_after - ours_before < 3 * (after - before)


def test_rounding_of_eps_g_is_that_of_all_groups_of_blocks(rng):
    """In any order, and a group without weights adds nothing; terms of equal groups add up."""
    S, A, B = rng.standard_normal((5, 5)), rng.standard_normal((2, 2)), rng.standard_normal((2, 3))

    def of(*factors):
        parts = (np.concatenate([f * x for f in factors]) for x in (S, A, B))
        return rounding_error(1e3, 1.0, *parts, 0.5)

    one = of(1.0)
    assert one > 2 * np.finfo(float).eps  # the part of the velocities decides
    assert of(0.0, 1.0) == pytest.approx(one, rel=1e-14) == of(1.0, 0.0)
    assert of(1.0, 1.0) == pytest.approx(4 * one, rel=1e-12)  # rate times terms


def test_a_key_that_is_pressed_ends_compiled_steps():
    model = ov.committee_machine(2, 2, eta=0.2)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=np.full((2, 2), 0.1), T=np.eye(2))

    def press(*_):
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, press)
    try:
        ov.solve(model, start, (0.0, 1.0), every_step=True)  # compiled
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.warns(RuntimeWarning, match="interrupted; the last recorded point is alpha"):
            traj = ov.solve(model, start, (0.0, 1e9), method="DOP853", every_step=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert not traj.success and len(traj) > 1000 and 10 < traj.alpha[-1] < 1e9


def test_replaced_steps_are_not_compiled():
    """A subclass that controls its error otherwise is stepped by its own methods."""
    calls = []

    class Watched(DOP853):
        def _estimate_error_norm(self, K, h, scale):
            calls.append(h)
            return super()._estimate_error_norm(K, h, scale)

    model = ov.committee_machine(2, 2, eta=0.2)
    traj = ov.solve(model, model.random_start(N=1000, rng=1), (0.0, 10.0), method=Watched, every_step=True)
    assert len(traj) - 1 <= len(calls) <= traj.nfev / 12


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    script = """
import numpy as np, overlaps as ov
from overlaps.integrators._dop853 import advance
model = ov.committee_machine(2, 2, eta=0.2)
ov.solve(model, model.random_start(N=100, rng=1), np.linspace(0, 1, 3), method="DOP853")
assert advance.signatures
print(sum(advance.stats.cache_misses.values()), sum(advance.stats.cache_hits.values()))
"""
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(2)]
    assert runs[1].stdout.split() == ["0", "1"], runs[1].stderr
