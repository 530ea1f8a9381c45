"""Certified curves: the error that a second run finds is the error, and a missed tolerance is no success."""

import warnings

import numpy as np
import pytest
from scipy.integrate import OdeSolver

import overlaps as ov
import overlaps.dynamics
from overlaps.dynamics import CERTIFICATION

MODEL = ov.committee_machine(2, 3, eta=0.6, v_star=[1.0, 0.8, 0.5])
TIMES = np.array([1.0, 20.0, 60.0, 100.0, 150.0])


def plateau(model=MODEL, N=1000):
    return model, model.random_start(N=N, rng=2, student_scale=1e-3)


@pytest.mark.parametrize(
    "method, spectrum", [("DOP853", None), ("structured", ov.power_law(beta=1.0, L=3)), ("RK45", None)]
)
def test_errors_are_those_of_the_curve(method, spectrum):
    """Against a run at rtol 1e-12: what is left of the second run is 1 % for methods whose error follows rtol."""
    model, start = plateau(MODEL if spectrum is None else ov.committee_machine(2, 3, eta=0.4, spectrum=spectrum), 3303)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        traj = ov.solve(model, start, TIMES, method=method, rtol=1e-5, certify=True)
        exact = ov.solve(model, start, TIMES, method="DOP853", rtol=1e-12)
    assert traj.certified.Q.shape == traj.Q.shape and traj.certified.eps_g.shape == TIMES.shape
    for name in ("Q", "R", "v"):
        found, true = getattr(traj.certified, name), getattr(traj, name) - getattr(exact, name)
        assert np.abs(found - true).max() <= 0.1 * np.abs(true).max()
    true = traj.eps_g / exact.eps_g - 1
    assert np.abs(traj.certified.eps_g - true).max() < 0.1 * np.abs(true).max()
    assert np.abs(true).max() > 1e-9  # there is something to see


def test_a_curve_that_keeps_its_tolerance_is_the_same_curve():
    model, start = plateau()
    plain, traj = ov.solve(model, start, (0.0, 150.0)), ov.solve(model, start, (0.0, 150.0), certify=True)
    assert plain.certified is None and traj.success and traj.message == plain.message
    assert np.array_equal(traj.q, plain.q) and traj.nfev > 2 * plain.nfev and len(traj.certified.eps_g) == len(traj)
    worst = max(np.abs(x).max() for x in traj.certified)
    assert 1e-12 < worst < CERTIFICATION.max_amplification * traj.rtol


def test_inputs_in_classes_are_certified_without_a_teacher_too():
    for M, more in ((0, {}), (2, {"spectrum": ov.power_law(beta=1.0, L=2), "ratios": [[1.0, 2.0], [0.5, 1.0]]})):
        gram = np.array([[[1.5, -0.5], [-0.5, 1.0]]] * len(more.get("ratios", [0])))
        model = ov.gaussian_mixture(2, M, gram=gram, weights=[0.4, 0.6], labels=[1, -1], eta=0.5, **more)
        start = model.random_start(N=500, rng=1)
        fine = ov.solve(model, start, [0.0, 2.0], certify=True)
        allowed = CERTIFICATION.max_amplification * fine.rtol
        assert fine.success and 0 < np.abs(fine.certified.eps_g[1]) < allowed and fine.certified.R.shape[-1] == M
        assert fine.certified.mean_fields.shape == (2, 2, 2) and 0 < np.abs(fine.certified.mean_fields).max() < 1e-5
        with pytest.raises(ValueError, match="late=True with inputs in classes"):
            ov.solve(model, start, [0.0, 2.0], late=True)


def test_errors_of_the_means_alone_are_seen():
    """Readouts that stand still at zero: Q, R and eps_g have no errors, and the means of the fields have."""
    model = ov.gaussian_mixture(1, gram=[[[1.0]]], weights=[1.0], labels=[1], eta=0.5, v=[0.0], weight_decay=0.3)
    start = ov.State.from_overlaps(model, Q=[[1e-12]], m=[[1e-7]])
    fine = ov.solve(model, start, [0.0, 4.0], rtol=1e-3, atol=1e-12, method="RK45", certify=True)
    exact = 1e-7 * np.exp(-0.5 * 0.3 * 4.0)
    assert fine.certified.mean_fields[1, 0, 0] == pytest.approx(fine.mean_fields[1, 0, 0] - exact, rel=0.05)
    assert fine.certified.eps_g[1] == 0


def test_a_missed_tolerance_is_no_success():
    """SciPy's RK45 does not look at eps_g, which falls to 1e-8."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.1, 0], [0, 0.2]], T=np.eye(2))
    with pytest.warns(
        RuntimeWarning, match=r"reached alpha = 150. But not certified: errors exceed 1000 rtol .of eps_g first at"
    ):
        traj = ov.solve(model, start, [30.0, 90.0, 150.0], method="RK45", rtol=1e-8, atol=1e-8, certify=True)
    assert not traj.success and len(traj) == 3 and np.abs(traj.certified.eps_g).max() > 1e-5
    assert ov.solve(model, start, [30.0, 90.0, 150.0], certify=True).success


def test_a_run_that_ends_early_is_certified_as_far_as_it_goes():
    model, start = plateau()
    stopped = ov.solve(model, start, [1.0, 500.0], stop=0.02, certify=True)
    assert stopped.success and "stop condition met" in stopped.message and np.isfinite(stopped.certified.eps_g).all()
    fast = ov.quadratic_network(2, 1, eta=5.0)
    with pytest.warns(RuntimeWarning, match="diverge"):
        blown = ov.solve(fast, fast.random_start(N=1000, rng=1), (0, 50), certify=True)
    assert not blown.success and blown.certified.Q.shape == blown.Q.shape


def test_late_times_and_sums_are_certified():
    model = ov.committee_machine(1, 1, eta=1.0)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.3]], T=[[1.0]])
    late = ov.solve(model, start, [0, 20, 300], late=True, certify=True)
    assert late.success and late.eps_g[-1] < 1e-20 and 0 < np.abs(late.certified.eps_g[-1]) < 1e-5
    summed = ov.solve(*plateau(), TIMES, blocks=False, certify=True)
    whole = ov.solve(*plateau(), TIMES, certify=True)
    assert np.allclose(summed.certified.Q, whole.certified.Q, rtol=0, atol=1e-14)


def test_files_hold_the_errors(tmp_path):
    traj = ov.solve(*plateau(), TIMES, certify=True)
    traj.save(tmp_path / "run.npz")
    again = ov.load(tmp_path / "run.npz")
    assert again == traj and np.array_equal(again.certified.eps_g, traj.certified.eps_g)
    with pytest.raises(ValueError, match="certify = 1; expected True or False"):
        ov.solve(*plateau(), TIMES, certify=1)


@pytest.mark.parametrize("method, rtol", [("structured", 1e-12), ("structured", 1e-9), ("DOP853", 2e-13)])
def test_the_second_run_is_another_one_where_tolerances_cannot_be_tightened(method, rtol):
    """BDF makes the same steps at any rtol below 1e-10; the error is that against a method of its own."""
    model, start = plateau()
    traj = ov.solve(model, start, TIMES, method=method, rtol=rtol, certify=True)
    exact = ov.solve(model, start, TIMES, method="RK45" if method == "DOP853" else "DOP853", rtol=1e-13)
    true = traj.eps_g / exact.eps_g - 1
    assert traj.success and np.abs(traj.certified.eps_g[1:]).min() > 0
    # a tenth for a second run at 1e-10, which is a tenth of the first one's; rounding of both besides
    assert np.abs(traj.certified.eps_g - true).max() < 0.2 * np.abs(true).max() + 1e-12


def test_what_no_second_run_can_measure_is_not_certified():
    """An explicit method would need 1e11 evaluations."""
    model = ov.committee_machine(1, 1, eta=0.5, activation=ov.linear, spectrum=ov.power_law(beta=1.0, L=20))
    start = model.random_start(N=10_000, rng=1)
    with pytest.warns(RuntimeWarning, match=r"But not certified: StructuredBDF becomes no more accurate below rtol"):
        traj = ov.solve(model, start, [1e3, 1e12], rtol=1e-10, certify=True)
    assert not traj.success and traj.certified is None and len(traj) == 2
    assert ov.solve(model, start, [1e3, 1e12], rtol=2e-9, certify=True).success


class FixedSteps(OdeSolver):
    """Midpoint steps of a length of its own, whatever the tolerances."""

    def __init__(self, fun, t0, y0, t_bound, **options):
        super().__init__(fun, t0, y0, t_bound, vectorized=False)

    def _step_impl(self):
        h = min(0.25, self.t_bound - self.t)
        self.y = self.y + h * self.fun(self.t + h / 2, self.y + h / 2 * self.fun(self.t, self.y))
        self.t += h
        return True, None


def test_a_solver_without_tolerances_is_compared_with_another():
    model, start = plateau()
    with pytest.warns(RuntimeWarning, match="not certified: errors exceed 1000 rtol"):
        traj = ov.solve(model, start, [1.0, 20.0], method=FixedSteps, certify=True)
    exact = ov.solve(model, start, [1.0, 20.0], rtol=1e-12)
    np.testing.assert_allclose(traj.certified.Q, traj.Q - exact.Q, rtol=1e-3, atol=1e-9)
    # at a fixed point equal runs of different methods are no sign of one run
    model = ov.committee_machine(1, 1, eta=0.5)
    learned = ov.State.from_overlaps(model, Q=[[1.0]], R=[[1.0]], T=[[1.0]])
    assert ov.solve(model, learned, [1.0, 2.0], certify=True).success


@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_a_curve_that_is_too_large_is_not_certified(rtol):
    """The plateau is left at alpha = 250, and at rtol 1e-3 not at all: eps_g = 0.05 where it is 1e-7."""
    model = ov.committee_machine(2, 2, eta=1.8)
    start = ov.State.from_overlaps(model, Q=np.diag([0.3, 0.4]), R=[[1e-11, 2e-11], [0, 1e-11]], T=np.eye(2))
    with pytest.warns(RuntimeWarning, match=r"errors exceed 0.1"):
        traj = ov.solve(model, start, [100.0, 300.0, 481.0], rtol=rtol, certify=True)
    assert not traj.success and traj.eps_g[-1] > 1e5 * ov.solve(model, start, [481.0], rtol=1e-10).eps_g[0]


@pytest.mark.slow  # compiles a rule; the choice of the second run is that of the tests above
def test_averages_over_sobol_points_limit_the_tolerance_of_both_runs():
    """There rtol is 1e-4 at least: the second run is by another method."""
    model = ov.learner(ov.rules.sign_committee(3), eta=1.0)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(3), R=[[0.1], [0.2], [0.3]], T=[[1.0]])
    traj = ov.solve(model, start, [0.5], certify=True)
    assert traj.success and traj.rtol == 1e-4 and 0 < np.abs(traj.certified.Q).max() < 1e-3


def test_twice_the_difference_must_be_allowed(monkeypatch):
    """Both runs may err as much as each other, as where a plateau amplifies rounding; they are then as likely apart.

    At rtol 1e-5, where differences are a thousand times what eps_floor excuses.
    """
    model, start = plateau()
    monkeypatch.setattr(overlaps.dynamics, "CERTIFICATION", CERTIFICATION._replace(max_amplification=1e300))
    known = ov.solve(model, start, TIMES, rtol=1e-5, certify=True)
    size = max(1.0, np.abs(known.S).max())
    largest = max(*(np.abs(x).max() / size for x in known.certified[:3]), np.abs(known.certified.eps_g).max())
    for factor, success in ((1.5, False), (2.5, True)):
        limits = CERTIFICATION._replace(max_amplification=factor * largest / known.rtol)
        monkeypatch.setattr(overlaps.dynamics, "CERTIFICATION", limits)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert ov.solve(model, start, TIMES, rtol=1e-5, certify=True).success == success
