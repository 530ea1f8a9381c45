"""Trajectories against exact solutions, an independent integration and published numbers; how failures end."""

import dataclasses
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.integrate
from helpers import few
from oracles import runge_kutta, saad_solla
from scipy.linalg import expm

import overlaps as ov
from overlaps._base.signatures import undisturbed
from overlaps.flow import binding
from overlaps.flow.system import System
from overlaps.integrators.failure import Failure
from overlaps.integrators.solver import Traits


def start_of(model, **overlaps):
    K, M = model.K, model.M
    given = dict(Q=0.5 * np.eye(K), R=0.05 * np.eye(K, M), T=np.eye(M)) | overlaps
    return ov.State.from_overlaps(model, **given)


# exact trajectories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "DOP853", "RK45", "Radau", "BDF", "LSODA"])
@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
def test_linear_network_to_the_requested_tolerance(method, rtol):
    """K = M = 1: d|w - w*|^2/N = (eta^2 - 2 eta) |w - w*|^2/N + eta^2 sigma^2."""
    eta, noise = 0.6, 0.5
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=eta, noise=noise)
    start = start_of(model)
    alpha = np.array([0.0, 0.3, 2.0, 10.0])
    traj = ov.solve(model, start, alpha, method=method, rtol=rtol)
    gap = 0.5 - 2 * 0.05 + 1
    rest = eta * noise**2 / (2 - eta)
    exact = 0.5 * (rest + (gap - rest) * np.exp((eta**2 - 2 * eta) * alpha))
    assert traj.success and traj.method.startswith("DOP853" if method == "auto" else method)
    # a decaying problem forgets old errors: 5 tolerances, and 50 for the multistep codes, which control theirs loosely
    factor = 50 if method in ("BDF", "LSODA") else 5
    assert np.max(np.abs(traj.eps_g - exact)) < factor * rtol


def test_linear_network_on_any_spectrum():
    """m_l = |P_l(w - w*)|^2/N obeys dm_l = -2 eta s_l m_l + eta^2 s_l p_l sum_k s_k m_k: a matrix exponential."""
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.8, spectrum=ov.power_law(beta=0.7, L=5))
    start = model.random_start(N=50, rng=3)
    q, r, t = (x[:, 0, 0] for x in start.plain)
    s, p = model.spectrum.s, model.spectrum.p
    generator = -2 * model.eta * np.diag(s) + model.eta**2 * np.outer(s * p, s)
    alpha = np.linspace(0, 20, 6)
    exact = [s @ expm(generator * a) @ (q - 2 * r + t) / 2 for a in alpha]
    traj = ov.solve(model, start, alpha, rtol=1e-11)
    # eps_g = (Q - 2 R + T)/2 is a difference of numbers of order one: 5 rtol in absolute terms
    np.testing.assert_allclose(traj.eps_g, exact, rtol=0, atol=5e-11)


def test_second_layer_of_a_linear_network_conserves_balance():
    """Linear units are balanced: in gradient flow with eta = eta_v, v v^T - W W^T/N is conserved."""
    model = ov.committee_machine(2, 1, activation=ov.linear, v=[0.3, 0.5], eta=0.4, eta_v=0.4, gradient_flow=True)
    traj = ov.solve(model, start_of(model), np.linspace(0, 30, 7))
    balance = traj.v[:, :, None] * traj.v[:, None] - traj.Q
    np.testing.assert_allclose(balance, np.broadcast_to(balance[0], balance.shape), atol=1e-7)  # 10 rtol
    assert traj.eps_g[-1] < 1e-4


def test_weight_decay_alone_is_an_exponential():
    model = ov.committee_machine(1, 1, v=[0.0], eta=0.5, weight_decay=0.3)
    traj = ov.solve(model, start_of(model), [4.0])
    np.testing.assert_allclose(traj.Q[0], 0.5 * np.exp(-2 * 0.5 * 0.3 * 4), rtol=1e-8)
    np.testing.assert_allclose(traj.R[0], 0.05 * np.exp(-0.5 * 0.3 * 4), rtol=1e-8)


# an independent integration, published numbers ------------------------------------------------------------------------


@pytest.mark.slow
def test_erf_trajectory_agrees_with_the_printed_equations_at_fixed_step():
    """Saad and Solla's I_3 and I_4, integrated by Runge-Kutta: agreement to the oracle's own error."""
    model = ov.committee_machine(2, 2, eta=1.5)
    T = np.array([[1.0, 0.1], [0.1, 0.8]])
    start = start_of(model, R=[[0.2, 0.0], [0.1, 0.3]], T=T)

    def velocity(y):
        dQ, dR = saad_solla(y[:2], y[2:], T, model.eta)
        return np.concatenate([dQ, dR])

    y0 = np.concatenate([start.Q, start.R])
    coarse, fine = (runge_kutta(velocity, y0, 20.0, steps) for steps in (150, 300))
    final = ov.solve(model, start, [20.0], rtol=1e-11)
    got = np.concatenate([final.Q[0], final.R[0]])
    error = np.max(np.abs(fine - coarse)) / 15  # Richardson's estimate for order 4
    assert error < 1e-6
    assert np.max(np.abs(got - fine)) < 2 * error + 1e-10
    assert np.max(np.abs(got - y0)) > 0.1  # it went somewhere


@pytest.mark.parametrize("M, T", [(2, 1.0), (3, 1.0), (2, 0.5)])
def test_symmetric_plateau(M, T):
    """Saad and Solla (1995): eps_g = (M/pi) [asin(T/(1+T)) - M asin(T/(M(1+T)))], 0.011611 for M = 2, T = 1."""
    model = ov.committee_machine(M, M, eta=0.5, gradient_flow=True)
    # equal students stay equal, so the plateau is reached exponentially and never left
    start = start_of(model, Q=np.full((M, M), 0.4), R=np.full((M, M), 0.1), T=T * np.eye(M))
    traj = ov.solve(model, start, [400.0], rtol=1e-11)
    plateau = M / np.pi * (np.arcsin(T / (1 + T)) - M * np.arcsin(T / M / (1 + T)))
    assert traj.eps_g[0] == pytest.approx(plateau, rel=1e-8)
    if (M, T) == (2, 1.0):
        assert traj.eps_g[0] == pytest.approx(0.011611, abs=5e-7)
        assert traj.R[0, 0, 0] == pytest.approx(1 / np.sqrt(2 * 3), abs=1e-8)  # R* = 1/sqrt(M (2M - 1))


def test_small_eta_plateau_is_the_gradient_flow_one():
    model = ov.committee_machine(2, 2, eta=1e-3)
    start = start_of(model, Q=np.full((2, 2), 0.4), R=np.full((2, 2), 0.1))
    traj = ov.solve(model, start, [2e5])
    assert traj.eps_g[0] == pytest.approx(0.011611, rel=2e-3)  # corrections of order eta


def test_recorded_times_are_as_accurate_as_the_steps():
    """Eps_g at output times does not suffer from interpolation, even in the decay after the plateau."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = start_of(model, R=[[0.1, 0.0], [0.0, 0.2]])
    coarse = ov.solve(model, start, [150.0], rtol=1e-12)
    many = ov.solve(model, start, np.linspace(0, 150, 301), rtol=1e-12)
    assert many.eps_g[-1] == pytest.approx(coarse.eps_g[0], rel=1e-6)
    assert many.eps_g[-1] < 1e-8
    default = ov.solve(model, start, np.linspace(0, 150, 301))
    np.testing.assert_allclose(default.eps_g, many.eps_g, rtol=1e-4)


def test_relu_learns_its_teacher_to_the_last_digits():
    """ReLU at finite eta, where C and eps_g vanish as the students align: no warning, exponential decay to 1e-9."""
    model = ov.committee_machine(2, 2, activation=ov.relu, eta=0.2)
    start = start_of(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.1, 0], [0, 0.2]])
    traj = ov.solve(model, start, np.linspace(0, 420, 85))
    assert traj.success and traj.eps_g[-1] < 1e-9
    # near the specialised fixed point the error decays at one rate, whatever is left of it
    late = (traj.eps_g < 1e-7) & (traj.eps_g > 1e-9)
    rates = -np.diff(np.log(traj.eps_g[late])) / np.diff(traj.alpha[late])
    np.testing.assert_allclose(rates, rates[-1], rtol=0.02)
    small = ov.solve(model, start, np.linspace(0, 420, 85), rtol=1e-11)
    np.testing.assert_allclose(traj.eps_g, small.eps_g, rtol=1e-4)


# at, stop, progress, the two forms of alpha ---------------------------------------------------------------------------


def test_forms_of_alpha():
    model = ov.committee_machine(1, 1, eta=0.5)
    start = start_of(model)
    interval = ov.solve(model, dataclasses.replace(start, alpha=2.0), (2.0, 5.0))
    assert interval.alpha[0] == 2.0 and interval.alpha[-1] == 5.0 and interval[0] == start
    later = ov.solve(model, start, [1.0, 3.0])
    np.testing.assert_array_equal(later.alpha, [1.0, 3.0])
    # autonomous flow: three units of time either way
    np.testing.assert_allclose(later.Q[-1], interval.Q[-1], rtol=1e-7)
    assert ov.solve(model, start, [0.0])[0] == start


def test_time_belongs_to_the_state():
    """The same numbers and the same interval or array mean one thing: time goes on where the state stands."""
    model = ov.committee_machine(2, 1, eta=1.1, v=[1.0, 0.5])
    start = start_of(model)
    through = ov.solve(model, start, [30.0, 50.0, 60.0], rtol=1e-10)
    half = through[1]
    assert half.alpha == 50.0 and half == dataclasses.replace(half, alpha=0.0)
    for times in ((50.0, 60.0), [50.0, 60.0], [60.0], [55.0, 60.0]):
        np.testing.assert_allclose(ov.solve(model, half, times, rtol=1e-10).Q[-1], through.Q[-1], rtol=1e-9)
    assert through.at(41.0).alpha == 41.0
    seen = []
    ov.solve(model, half, (50.0, 51.0), stop=lambda alpha, state: seen.append(state.alpha - alpha) or 1.0)
    assert seen and not any(seen)
    for times, first in (((0.0, 60.0), "0"), ([40.0, 60.0], "40"), ((55.0, 60.0), "55")):
        with pytest.raises(ValueError, match=rf"at {first}; .* time 50, .*state\.replace\(alpha={first}\)"):
            ov.solve(model, half, times)
    with pytest.raises(ValueError, match=r"alpha = -1"):
        dataclasses.replace(half, alpha=-1.0)
    kept = ov.State.from_overlaps(model, Q=half.Q, R=half.R, T=half.T, alpha=50.0).on(model)
    assert kept.alpha == 50.0
    stretched = dataclasses.replace(model, spectrum=ov.power_law(beta=1.0, L=20))
    state = dataclasses.replace(stretched.random_start(N=1000, rng=1), alpha=3.0)
    assert ov.compress(stretched, state, nodes=10)[1].alpha == 3.0


def test_at_reaches_any_time_to_the_accuracy_of_the_solution():
    model = ov.committee_machine(2, 2, eta=1.5)
    start = start_of(model)
    traj = ov.solve(model, start, (0, 30), rtol=1e-10)
    there = ov.solve(model, start, [17.3], rtol=1e-12)
    np.testing.assert_allclose(traj.at(17.3).Q, there.Q[0], atol=1e-8)
    assert traj.at(traj.alpha[5]) == traj[5]
    assert traj[-1] == traj[len(traj) - 1]
    with pytest.raises(ValueError, match="covers"):
        traj.at(31.0)
    with pytest.raises(IndexError):
        traj[len(traj)]


@pytest.mark.parametrize("method", ["DOP853", "LSODA", "BDF"])
def test_stop_at_a_level_of_the_error(method):
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, gradient_flow=True)
    traj = ov.solve(model, start_of(model), (0, 100), stop=1e-3, method=method)
    exact = np.log(0.5 * (0.5 - 0.1 + 1) / 1e-3) / (2 * 0.5)  # eps_g = eps_0 exp(-2 eta alpha)
    assert traj.success and "stop" in traj.message
    # the global error at rtol 1e-8 is 1e-5 for multistep codes; d alpha = d eps_g / eps_g here
    tolerance = 1e-7 if method == "DOP853" else 1e-4
    assert traj.alpha[-1] == pytest.approx(exact, abs=tolerance)
    assert traj.eps_g[-1] == pytest.approx(1e-3, rel=1e-9)
    grid = ov.solve(model, start_of(model), np.arange(0, 50.0), stop=1e-3, method=method)
    np.testing.assert_array_equal(grid.alpha[:-1], np.arange(7.0))
    assert grid.alpha[-1] == pytest.approx(exact, abs=tolerance)


@pytest.mark.parametrize("method", ["DOP853", "RK45", "structured"])
def test_stop_after_a_first_step_that_is_given(method):
    """By the caller, or by the library, where students with a kink are parallel and their angle opens at once."""
    model = ov.committee_machine(2, 1, activation=ov.relu, eta=0.3, noise=0.4, v=[0.7, -1.2])
    parallel = ov.State.from_overlaps(model, Q=[[0.9, 0.45], [0.45, 0.225]], R=[[0.2], [0.1]], T=[[1.3]])
    generic = ov.State.from_overlaps(model, Q=[[0.9, 0.2], [0.2, 0.5]], R=[[0.2], [0.1]], T=[[1.3]])
    for start, options in ((parallel, {}), (generic, {"first_step": 1e-3})):
        traj = ov.solve(model, start, (0, 3), stop=lambda alpha, state: alpha - 0.7, method=method, **options)
        assert traj.success and traj.alpha[-1] == pytest.approx(0.7, abs=1e-11)
        there = ov.solve(model, start, [0.0, 0.7], method=method, rtol=1e-10, **options)
        assert traj.eps_g[-1] == pytest.approx(there.eps_g[-1], rel=1e-7)  # rtol is 1e-8


def test_stop_where_a_function_changes_sign():
    model = ov.committee_machine(2, 2, eta=1.5)
    traj = ov.solve(model, start_of(model), (0, 100), stop=lambda alpha, state: state.Q[0, 0] - 0.8)
    assert traj.Q[-1, 0, 0] == pytest.approx(0.8, abs=1e-10)
    assert ov.solve(model, start_of(model), (0, 1), stop=10.0).alpha.size == 1  # met at the start
    with pytest.raises(ValueError, match="stop returned nan"):
        ov.solve(model, start_of(model), (0, 1), stop=lambda alpha, state: np.nan)


def test_progress_bar_reaches_the_end(capsys):
    model = ov.committee_machine(1, 1, eta=0.5)
    ov.solve(model, start_of(model), (0, 10), progress=True)
    assert "100%" in capsys.readouterr().err


# failures -------------------------------------------------------------------------------------------------------------


@few("activation, eta", [(ov.linear, 2.5), (ov.quadratic, 2.0), (ov.polynomial([0, 0, 0, 1.0]), 0.1)], quick=2, ids=str)
def test_divergence_returns_the_computed_part(activation, eta):
    """Linear: exponential growth above eta = 2.  Quadratic and cubic: blow-up in finite time."""
    model = ov.committee_machine(1, 1, activation=activation, eta=eta)
    with pytest.warns(RuntimeWarning, match="stability limit|blow up"):
        traj = ov.solve(model, start_of(model), (0, 200), every_step=True)
    assert not traj.success
    assert f"eta = {eta:g}" in traj.message and f"alpha = {traj.alpha[-1]:.6g}" in traj.message
    assert 1 < len(traj) and traj.alpha[-1] < 200
    assert np.all(np.isfinite(traj.Q)) and np.all(np.isfinite(traj.eps_g))


def test_an_interrupted_integration_returns_what_it_has():
    model = ov.committee_machine(1, 1, eta=0.5)

    def impatient(alpha, state):
        if alpha > 3:
            raise KeyboardInterrupt
        return 1.0

    with pytest.warns(RuntimeWarning, match="interrupted"):
        traj = ov.solve(model, start_of(model), np.linspace(0, 10, 101), stop=impatient)
    assert not traj.success and 2.5 < traj.alpha[-1] <= 3.0


def test_ctrl_c_waits_for_compiled_code():
    """In numba's own Python on the way to machine code it would be a TypeError, and all that was computed lost."""
    finished, previous = [], signal.signal(signal.SIGINT, signal.default_int_handler)

    def call():
        os.kill(os.getpid(), signal.SIGINT)
        finished.append(sum(range(1000)))  # Python, in which the signal is seen

    try:
        with pytest.raises(KeyboardInterrupt):
            undisturbed(call)
        assert finished == [499500] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert undisturbed(lambda: 3) == 3
    finally:
        signal.signal(signal.SIGINT, previous)


BAD = [
    (dict(alpha=(3.0, 1.0)), "from < to"),
    (dict(alpha=(0.0, 1.0, 2.0)), "length 3"),
    (dict(alpha=[0.0, 2.0, 1.0]), "increasing"),
    (dict(alpha=[-1.0, 2.0]), "increasing"),
    (dict(alpha=[0.0, np.nan]), "nan"),
    (dict(alpha=[]), "increasing"),
    (dict(alpha=(0, np.inf)), "finite"),
    (dict(rtol=0.0), "rtol"),
    (dict(atol=-1.0), "atol"),
    (dict(stop=-1.0), "stop"),
    (dict(method="Euler"), "solve_ivp name"),
    (dict(method=dict), "solve_ivp name"),
]


@pytest.mark.parametrize("change, words", BAD, ids=[str(list(c.items())[0]) for c, _ in BAD])
def test_bad_arguments_are_refused_before_any_work(change, words):
    model = ov.committee_machine(1, 1, eta=0.5)
    options = dict(alpha=(0, 1)) | change
    with pytest.raises(ValueError, match=words):
        ov.solve(model, start_of(model), options.pop("alpha"), **options)


@pytest.mark.parametrize("method", ["DOP853", "structured", "RK45"])
@pytest.mark.parametrize("name", ["min_step", "jac", "system"])
def test_options_that_no_explicit_solver_knows_are_refused(method, name):
    model = ov.committee_machine(1, 1, eta=0.5)
    with pytest.raises(ValueError, match=f"has no option {name}; expected some of "):
        ov.solve(model, start_of(model), (0, 1), method=method, **{name: None})


def test_a_state_of_another_model_is_refused():
    model, other = ov.committee_machine(2, 2, eta=0.5), ov.committee_machine(1, 2, eta=0.5)
    with pytest.raises(ValueError, match="model expects"):
        ov.solve(model, start_of(other), (0, 1))


# late times ---------------------------------------------------------------------------------------------------------


def test_evaluations_before_and_after_the_handover_are_counted():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, gradient_flow=True)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.3]], T=[[1.0]])
    whole = ov.solve(model, start, [0, 3.0, 6.0, 6.1], late=True)  # the last stretch takes few
    assert np.isfinite(whole.eps_late[-1]) and whole.nfev > ov.solve(model, start, [0, 3.0, 6.0]).nfev


@pytest.mark.slow
def test_late_true_goes_on_where_rounding_hides_the_error():
    model = ov.committee_machine(2, 2, eta=0.5)
    start = start_of(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.1, 0], [0, 0.2]])
    alpha = np.linspace(0, 1300, 131)
    late = ov.solve(model, start, alpha, late=True)
    plain = ov.solve(model, start, alpha, rtol=1e-12)
    assert late.success and "differences" in late.message
    np.testing.assert_array_equal(late.alpha, alpha)
    resolved = plain.eps_g > 1e-9
    assert 30 < resolved.sum() < 60 and np.all(plain.eps_g[resolved] > 1e4 * plain.eps_floor[resolved])
    # errors of Q and R at rtol 1e-12, amplified by the plateau, are 1e-13: 1e-4 of eps_g = 1e-9
    np.testing.assert_allclose(late.eps_g[resolved], plain.eps_g[resolved], rtol=3e-4)
    assert late.eps_g[-1] < 1e-25 and np.all(np.diff(np.log(late.eps_g[5:])) < 0)
    finer = ov.solve(model, start, alpha, late=True, rtol=1e-10)
    np.testing.assert_allclose(late.eps_g, finer.eps_g, rtol=1e-5)
    np.testing.assert_allclose(late.R[-1], plain.R[-1], atol=1e-9)
    # the stored part says from where on: nan before, and at() goes through it
    assert np.isnan(late.eps_late[0]) and late.eps_late[-1] == late.eps_g[-1]
    assert 0 < late.eps_floor[-1] < 1e-10 * late.eps_g[-1]
    assert late.at(1155.0).R == pytest.approx(np.eye(2), abs=1e-8)


@pytest.mark.slow
def test_late_true_with_stop_and_steps():
    model = ov.committee_machine(1, 1, eta=1.0)
    for stop in (1e-30, 1e-190):  # the product of two errors of 1e-190 is below the range of float64
        traj = ov.solve(model, start_of(model), (0, 1e4), late=True, stop=stop)
        assert traj.success and traj.eps_g[-1] == pytest.approx(stop, rel=1e-9)
        assert np.all(np.diff(traj.alpha) > 0)
    stiff = ov.committee_machine(1, 1, eta=0.2, spectrum=ov.power_law(beta=1.0, L=32))
    begin = stiff.random_start(N=3200, rng=1)
    traj = ov.solve(stiff, begin, [0, 1e3, 4e4], late=True)
    assert traj.success and traj.method.startswith("StructuredBDF") and 0 < traj.eps_g[-1] < 1e-20


@pytest.mark.parametrize("method", ["DOP853", pytest.param("structured", marks=pytest.mark.slow)])
def test_late_true_turns_the_frame_of_quadratic_units(method):
    """Learned up to a rotation, they end away from any fixed frame: eps_g decays on, at a rate of the linearised flow.

    At finite eta eps_g is linear in the slowest D, whose rate is an eigenvalue (-0.0644586) of the Jacobian.
    """
    spectrum = ov.power_law(beta=0.5, L=2)
    model = ov.committee_machine(2, 2, activation=ov.quadratic, eta=0.02, spectrum=spectrum)
    start = model.random_start(N=100, rng=1)
    t = start.plain[2]
    rates = ov.linearise(model, ov.State.from_blocks(model, q=t, r=t, t=t)).eigenvalues.real
    alpha = np.arange(800.0, 1301.0, 100.0)
    traj = ov.solve(model, start, alpha, method=method, late=True, rtol=1e-9)
    assert traj.success and 1e-37 < traj.eps_g[-1] < 1e-35
    assert np.all(traj.eps_floor < 1e-4 * traj.eps_g)
    measured = np.diff(np.log(traj.eps_g)) / 100
    nearest = rates[np.argmin(np.abs(rates - measured[-1]))]
    # faster modes are left: 8e-5 relative at alpha = 800, 1e-5 at the end
    np.testing.assert_allclose(measured, nearest, rtol=2e-4)


@pytest.mark.parametrize(
    "options", [dict(activation=ov.relu), dict(noise=0.1), dict(eta_v=0.1), dict(weight_decay=0.1)]
)
def test_late_true_is_refused_where_it_has_no_meaning(options):
    model = ov.committee_machine(1, 1, eta=0.5, **options)
    with pytest.raises(ValueError, match="late=True (cannot follow|with .* is not supported)"):
        ov.solve(model, start_of(model), (0, 1), late=True)


def test_late_true_is_refused_for_linear_units_that_share_what_they_learn():
    model = ov.committee_machine(2, 2, activation=ov.linear, eta=0.5)
    with pytest.raises(ValueError, match="learn their sum only"):
        ov.solve(model, start_of(model, Q=np.eye(2), R=0.9 * np.eye(2)), (0, 1), late=True)


@pytest.mark.slow
def test_the_floor_is_the_size_of_the_rounding_errors():
    """Eps_g of nearly perfect students from Q and R against its leading order, T delta^2 E[g'^2] / 2 per student."""
    model = ov.committee_machine(2, 2, eta=0.5)
    rng = np.random.default_rng(0)
    errors = []
    for delta in 10.0 ** -rng.uniform(6, 9, 300):
        Q = (1 - delta) ** 2 * np.eye(2)
        exact = 2 * delta**2 * 2 / np.pi / np.sqrt(3) / 2  # E[g'(nu)^2 nu^2] = (2/pi) 3^(-3/2); corrections O(delta^3)
        exact /= 3
        traj = ov.solve(model, start_of(model, Q=Q, R=(1 - delta) * np.eye(2)), [0.0])
        raw = ov.closure(model, traj.Q[0], traj.R[0], traj.T).eps_g
        errors.append((raw - exact) / traj.eps_floor[0])
    assert 0.02 < np.abs(errors).max() < 5


def test_the_floor_sums_amplitudes_before_it_squares():
    """Output weights of three students and two teachers: the errors of all products of two units count, (sum)^2."""
    v, v_star = np.array([1.0, -0.4, 0.7]), np.array([0.9, 1.3])
    model = ov.committee_machine(3, 2, v=v, v_star=v_star, eta=0.2)
    Q, T = np.diag([0.5, 2.0, 0.1]), np.diag([1.0, 3.0])
    traj = ov.solve(model, start_of(model, Q=Q, R=np.zeros((3, 2)), T=T), [0.0], method="DOP853")
    variance = np.concatenate([np.diag(Q), np.diag(T)])
    size = np.sqrt(2 / np.pi * np.arcsin(variance / (1 + variance)))  # E[erf(x / sqrt 2)^2]
    expected = np.finfo(float).eps * np.sum(np.abs(np.concatenate([v, v_star])) * size) ** 2
    # quadrature with 40 nodes of erf, whose width is of the order of the field's
    assert traj.eps_floor[0] / expected == pytest.approx(1, rel=1e-3)


def test_at_goes_back_to_where_the_overlaps_hold_the_differences():
    """At rtol = 1e-3 the differences err by 1e-3 of themselves; Q and R, integrated on from a late record, by 1e-8."""
    model = ov.committee_machine(1, 1, eta=1.0, spectrum=ov.power_law(beta=0.5, L=1))
    start = model.random_start(N=50, rng=1)
    options = dict(late=True, method="structured", rtol=1e-3)
    late = ov.solve(model, start, [0.0, 60.0, 120.0], **options)
    assert np.isnan(late.eps_late[0]) and np.all(late.eps_g[1:] < 2e-8)
    # the same steps from the same record
    np.testing.assert_allclose(late.at(63.0).R, ov.solve(model, start, [63.0], **options).R[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["structured", "DOP853"])
def test_the_floor_knows_the_error_of_the_integrator(method):
    """Linear unit on an almost flat spectrum, against the exact solution: rounding is far below the error."""
    spectrum = ov.power_law(beta=0.1, L=32)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=spectrum)
    start = model.random_start(N=3200, rng=3)
    q, r, t = (x[:, 0, 0] for x in start.plain)
    s, p = spectrum.s, spectrum.p
    generator = -2 * model.eta * np.diag(s) + model.eta**2 * np.outer(s * p, s)
    alpha = np.array([3.0, 10.0, 20.0])
    exact = np.array([s @ expm(generator * a) @ (q - 2 * r + t) / 2 for a in alpha])
    traj = ov.solve(model, start, alpha, method=method, rtol=1e-4)
    error = np.abs(traj.eps_g - exact)
    assert np.all(error > 1e-12)  # rounding would be 1e-15
    # it may be too large, by errors that the flow forgets; never much too small
    assert np.all(traj.eps_floor > 0.7 * error) and np.all(traj.eps_floor < 0.1 * exact)


# students that are nearly parallel -----------------------------------------------------------------------------------


def bundle(angle, activation, eta=0.1, gradient_flow=False):
    """Four students that differ by an angle, two teachers; kinked units unless the activation says otherwise."""
    rng = np.random.default_rng(0)
    model = ov.committee_machine(4, 2, activation=activation, eta=eta, gradient_flow=gradient_flow)
    w = rng.standard_normal(12)
    W, W_star = w + angle * rng.standard_normal((4, 12)), rng.standard_normal((2, 12))
    return model, ov.State.from_weights(model, W=W, W_star=W_star)


def test_nearly_parallel_kinked_students_do_not_meet_a_small_tolerance():
    """Angles of 1e-7 are a difference of 1e-14 of overlaps: said, with an error that covers the one that was made.

    The solution is a smooth function of the angle: 4e-5, 2e-5 and 1e-5, which float64 resolves, give it at 1e-7.
    A first step as long as usual would leave 1e-4 at rtol = 1e-6, as its estimates of errors do not see the angle.
    """
    exact = []
    for angle in (4e-5, 2e-5, 1e-5):
        with pytest.warns(RuntimeWarning, match="tolerance is not met"):  # that of 1e-12: 1e-8 is
            traj = ov.solve(*bundle(angle, ov.leaky_relu(-0.5)), [20.0], rtol=1e-12)
        assert traj.eps_floor[-1] < 1e-8
        exact.append(traj.eps_g[-1])
    limit = np.polyval(np.polyfit([4e-5, 2e-5, 1e-5], exact, 2), 1e-7)
    for rtol in (1e-6, 1e-8):
        model, start = bundle(1e-7, ov.leaky_relu(-0.5))
        if rtol == 1e-8:
            with pytest.warns(RuntimeWarning, match="nearly parallel at alpha = 0 .*tolerance is not met"):
                traj = ov.solve(model, start, [20.0], rtol=rtol)
            assert not traj.success and traj.alpha[-1] == 20.0
        else:
            traj = ov.solve(model, start, [20.0], rtol=rtol)
        error = abs(traj.eps_g[-1] - limit)
        assert error < 1e-7 * limit  # of overlaps whose differences of 1e-14 have two digits, and of the fit
        assert error < traj.eps_floor[-1] < 0.01 * limit


def test_angles_that_are_resolved_and_smooth_units_are_no_trouble():
    for angle, activation in ((1e-2, ov.leaky_relu(-0.5)), (1e-7, ov.erf)):
        model, start = bundle(angle, activation)
        traj = ov.solve(model, start, [20.0])
        finer = ov.solve(model, start, [20.0], rtol=1e-12)
        assert traj.success and traj.message == "reached alpha = 20."
        np.testing.assert_allclose(traj.Q, finer.Q, atol=1e-6)  # 100 rtol: angles of 0.01 amplify, 1 / (2 angle)


def test_a_start_outside_of_the_numbers_is_refused():
    for activation in (ov.erf, ov.relu):
        model = ov.committee_machine(1, 1, activation=activation, eta=0.5)
        with pytest.raises(ValueError, match="largest overlap is 1e\\+100"):
            ov.solve(model, start_of(model, Q=[[1e100]]), (0, 1))


# students whose norm vanishes ----------------------------------------------------------------------------------------


def shrinking(**options):
    """|x| students of negative weight beside an |x| teacher: their best norm is zero."""
    options = dict(activation=ov.absolute, v=[-1.0], eta=0.3, gradient_flow=True) | options
    model = ov.committee_machine(1, 1, **options)
    return model, ov.State.from_overlaps(model, Q=[[0.25]], R=[[0.0]], T=[[1.0]])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["DOP853", scipy.integrate.DOP853, "RK45", "structured", "LSODA"])
def test_a_norm_that_vanishes_ends_a_gradient_flow(method):
    """Exact: with R = 0, u = sqrt(Q) obeys u' = -eta (u + 2/pi), and reaches zero at log(1 + pi u_0/2) / eta."""
    model, start = shrinking()
    with pytest.warns(RuntimeWarning, match="student 0 has shrunk to norm zero"):
        traj = ov.solve(model, start, (0.0, 10.0), method=method, every_step=True)
    assert not traj.success and traj.nfev < 5000
    end = np.log(1 + np.pi / 4) / model.eta
    # it stops at u = 1e-6, 5e-6 before the end, at the beginning of a step that may be ten times as long
    assert traj.alpha[-1] == pytest.approx(end, abs=1e-4)
    u = (0.5 + 2 / np.pi) * np.exp(-model.eta * traj.alpha) - 2 / np.pi
    np.testing.assert_allclose(np.sqrt(traj.Q[:, 0, 0]), u, atol=1e-7)


def test_a_smaller_atol_follows_a_norm_further_down():
    model, start = shrinking()
    with pytest.warns(RuntimeWarning, match="norm zero"):
        deep = ov.solve(model, start, (0.0, 10.0), atol=1e-20, every_step=True)
    assert not deep.success and deep.Q[-1, 0, 0] < 1e-15


@pytest.mark.parametrize("method", ["DOP853", "structured"])
def test_the_noise_of_sgd_keeps_norms_positive(method):
    """Q' contains C > 0: the same start goes on for ever, with a norm of order eta."""
    model, start = shrinking(gradient_flow=False)
    traj = ov.solve(model, start, (0.0, 50.0), method=method)
    assert traj.success and traj.nfev < 10_000
    # at small Q, Q' = -2 eta (2/pi) sqrt(Q) + C with C = eta^2 E[nu^2]: at rest sqrt(Q) = eta pi / 4, less as Q counts
    assert 0.5 < np.sqrt(traj.Q[-1, 0, 0]) / (model.eta * np.pi / 4) < 1


@pytest.mark.parametrize("method", ["DOP853", "structured"])
@pytest.mark.parametrize("student, teacher", [(ov.relu, ov.absolute), (ov.leaky_relu(0.3), ov.absolute)])
def test_a_small_student_does_not_stall_the_others(method, student, teacher):
    """Starts of norm 1e-3 with output weights of the wrong sign: refused their direction soon, in few evaluations."""
    model = ov.committee_machine(
        2, 1, activation=student, teacher_activation=teacher, v=[-0.48, -0.40], eta=0.3, gradient_flow=True
    )
    q = 1e-6 * np.array([[1.0, 0.2], [0.2, 0.5]])
    start = ov.State.from_overlaps(model, Q=q, R=[[1e-4], [2e-4]], T=[[1.0]])
    with pytest.warns(RuntimeWarning, match="student 1 has shrunk to norm zero.*gradient_flow=False"):
        traj = ov.solve(model, start, (0.0, 2.0), method=method)
    assert 0 < traj.alpha[-1] < 0.1 and traj.nfev < 3000
    assert np.all(np.diagonal(traj.Q, axis1=1, axis2=2) > 0)


@pytest.mark.parametrize("size, sentence", [(1.0, "lost positivity"), (1e6, "the overlaps diverge")])
def test_what_grows_without_bound_is_said_to_diverge(size, sentence):
    """Rounding of a diverging run may leave no covariance before the overlaps are large enough to stop it."""
    model = ov.committee_machine(2, 1, eta=0.5)
    system = System(model, ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.5], [0.5]], T=[[1.0]]))
    y = size * np.array([1.0, 1.0, 1.0, 0.0, 1.0]) * [1.0, 1.0, 1e-3, 1.0, 1e-3]  # R above what Q and T allow
    failure = Failure(system, {"rtol": 1e-8, "atol": 1e-12}, system.pack(system.start))
    assert sentence in failure.reason(SimpleNamespace(t=0.0, y=y, failure=None, traits=Traits(adjustable=True)))


def test_aligned_kinked_units_are_named_where_the_step_size_vanishes():
    options = dict(Q=np.ones((2, 2)), R=[[0.5], [0.5]], T=[[1.0]])
    for activation, named in ((ov.relu, True), (ov.erf, False)):
        model = ov.committee_machine(2, 1, activation=activation, eta=0.5)
        system = System(model, ov.State.from_overlaps(model, **options))
        y = system.pack(system.start)
        # explicit: the problem may be stiff for it
        step = SimpleNamespace(t=0.0, y=y, failure="Required step size is too small.", traits=Traits(one_step=True))
        sentence = Failure(system, {"rtol": 1e-8, "atol": 1e-12}, y).reason(step)
        assert ("aligned with another unit" in sentence and "try method='DOP853'" in sentence) == named
        assert ("method='structured'" in sentence) != named


@pytest.mark.parametrize("v, shrinks", [(1.1, True), (-0.9, False)])
def test_a_step_that_vanishes_beside_a_vanishing_norm_names_both_its_student_and_its_end(v, shrinks):
    """Long before: a thousandth of the teacher's norm is left. The end is the one that smaller steps come to."""
    model = ov.committee_machine(
        2, 1, activation=ov.relu, v=[0.8, v], v_star=[-1.8], eta=0.75, spectrum=ov.Spectrum([0.8], [1.0]),
        gradient_flow=True,
    )  # fmt: skip
    small = 7e-4
    start = ov.State.from_overlaps(
        model, Q=[[0.05, 0.06 * small], [0.06 * small, small**2]], R=[[-0.14], [-0.8 * small]], T=[[0.9]]
    )
    system = System(model, start)
    y = system.pack(start)
    step = SimpleNamespace(t=2.3, y=y, failure="Required step size is too small.", traits=Traits(one_step=True))
    sentence = Failure(system, {"rtol": 1e-8, "atol": 1e-12}, y).reason(step)
    assert ("student 1 has shrunk to norm zero" in sentence) == shrinks
    if shrinks:
        with pytest.warns(RuntimeWarning, match="student 1 has shrunk to norm zero"):
            end = 2.3 + ov.solve(model, start, (0.0, 1.0), method="DOP853").alpha[-1]
        # at constant speed; it changes while the student turns on its way
        assert float(sentence.split("0 near alpha = ")[1].split(")")[0]) - 2.3 == pytest.approx(end - 2.3, rel=0.2)


@pytest.mark.parametrize("schedule", [None, ov.Schedule.cosine(30.0)])
def test_a_solve_binds_its_closure_once(monkeypatch, schedule):
    made, bind = [], binding.bind_units
    monkeypatch.setattr(binding, "bind_units", lambda *x: made.append(x) or bind(*x))
    model = ov.committee_machine(2, 3, eta=0.4, v=[0.7, 1.2], activation=ov.tanh)
    assert ov.solve(model, model.random_start(N=500, rng=1), [0.3, 1.1], schedule=schedule).success
    assert len(made) == 1


# the equator ----------------------------------------------------------------------------------------------------------


def phase_retrieval(R, Q=1.0, v_star=1.0):
    model = ov.committee_machine(1, 1, activation=ov.quadratic, eta=0.04, v_star=[v_star], constraint="sphere")
    return model, ov.State.from_overlaps(model, Q=[[Q]], R=[[R]], T=[[1.0]])


@pytest.mark.parametrize("R, alpha", [(0.0, (0, 50)), (0.0, [50.0]), (1e-10, (0, 50)), (3e-9, (0, 48))])
def test_a_run_without_overlaps_says_so(R, alpha):
    """R grows at the rate .1216, and a last record, half a percent of the interval, may have more than 1e-6."""
    model, start = phase_retrieval(R)
    traj = ov.solve(model, start, alpha)
    assert traj.success and traj.message.count("R stays at 0 up to alpha = ") == 1
    assert "start from random weights, R of order 1/sqrt(N), by model.random_start(N=, rng=)" in traj.message


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("n", [2, 128])
def test_batches_say_so_too(n, blocks):
    """One after another, and side by side in SIMD registers."""
    model = ov.committee_machine(1, 1, activation=ov.quadratic, eta=0.04)
    starts = [ov.State.from_overlaps(model, Q=[[1.0]], R=[[R]], T=[[1.0]]) for R in (0.0, 0.03)] * (n // 2)
    batch = ov.solve_many(model, starts, (0, 50), blocks=blocks)
    alone = [ov.solve(model, start, (0, 50), blocks=blocks).message for start in starts[:2]]
    assert list(batch.message) == alone * (n // 2) and "R stays" in alone[0] and "R stays" not in alone[1]


def test_other_runs_do_not():
    """Random weights, growth from 1e-8 in good time, a last record alone, no time at all, a teacher of no weight."""
    long = dict(alpha=(0, 200))
    for R, v_star, run in ((0.03, 1.0, long), (1e-8, 1.0, long), (1e-8, 1.0, dict(alpha=[200.0])), (0.0, 0.0, long),
                           (0.0, 1.0, dict(alpha=[0.0]))):  # fmt: skip
        assert "R stays" not in ov.solve(*phase_retrieval(R, v_star=v_star), **run).message
    odd = ov.committee_machine(2, 2, eta=0.5)  # teachers draw such students away at once
    traj = ov.solve(odd, ov.State.from_overlaps(odd, Q=0.1 * np.eye(2), R=np.zeros((2, 2)), T=np.eye(2)), (0, 10))
    assert traj.message == "reached alpha = 10."
