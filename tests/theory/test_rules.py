"""Laws of learning by rules against the flow at late times, and constants that are known otherwise."""

import numpy as np
import pytest
from scipy import stats

import overlaps as ov

R, laws = ov.rules, ov.theory.rules
PLAIN = dict(Q=[[1.0]], R=[[0.2]], T=[[1.0]])


def late(rule, eta, alpha):
    """Overlaps hold the square of the angle: its digits are half of theirs."""
    model = ov.learner(rule, eta=eta)
    return ov.solve(model, ov.State.from_overlaps(model, **PLAIN), [0.0, alpha], rtol=1e-12).eps_g[-1]


@pytest.mark.parametrize(
    "rule, eta, alpha, printed, accuracy",  # what is left beyond the leading term at this time
    [
        (R.perceptron, 0.7, 1e5, 0.278069, 1e-3),
        (R.adatron, 1.0, 1e4, 1.5, 3e-4),
        (R.adatron, 1.5, 1e4, 4 / 3, 3e-4),
        (R.optimal, 1.0, 1e3, 0.883400, 5e-3),
        (R.hinge, 1.0, 1e4, 0.195435, 2e-3),
        (R.logistic, 1.0, 1e4, 0.116565, 6e-3),
    ],
)
def test_late_errors(rule, eta, alpha, printed, accuracy):
    law = laws.law(rule(), eta=eta)
    assert law.coefficient == pytest.approx(printed, rel=5e-6) and law.limit == 0
    assert late(rule(), eta, alpha) == pytest.approx(law(alpha), rel=accuracy)


def test_the_law_of_logistic_labels_at_another_rate():
    assert late(R.logistic(), 0.7, 1e4) == pytest.approx(laws.law(R.logistic(), eta=0.7)(1e4), rel=8e-3)  # as above


def test_a_margin_of_its_own():
    """The constant of k = 1/2, eta = 2 was derived with all terms of its order: without them it is 40 % larger."""
    assert laws.law(R.hinge(0.5), eta=2.0).coefficient == pytest.approx(0.23580, abs=5e-6)


@pytest.mark.parametrize("flip", [0.0, 0.13])
def test_hebb_at_all_times(flip):
    model = ov.learner(R.hebb(flip), eta=0.8)
    start = ov.State.from_overlaps(model, Q=[[0.0]], R=[[0.0]], T=[[1.7]])
    traj = ov.solve(model, start, [0.0, 10.0, 1000.0])
    np.testing.assert_allclose(traj.eps_g[1:], laws.hebb([10.0, 1000.0], flip), rtol=1e-8)
    assert laws.hebb(1e6, flip) == pytest.approx(laws.law(R.hebb(flip))(1e6), rel=1e-5)


@pytest.mark.parametrize(
    "rule, eta, alpha",
    [(R.perceptron(0.1), 0.8, 400.0), (R.adatron(0.1), 1.0, 120.0), (R.least_squares(0.1), 0.7, 60.0)],
)
def test_limits_with_noisy_labels(rule, eta, alpha):
    assert late(rule, eta, alpha) == pytest.approx(laws.law(rule, eta=eta).limit, abs=2e-6)


def test_the_noisy_adatron_of_the_page():
    assert laws.law(R.adatron(0.1), eta=1.0).limit == pytest.approx(0.207584773, abs=1e-9)


@pytest.mark.parametrize("law, clip", [(stats.cauchy(scale=0.5), 0.0), (stats.t(3, scale=0.6), 0.8)])
def test_robust_regression_ends_at_its_stationary_error(law, clip):
    model = ov.learner(R.residual(law, clip), eta=0.4)
    start = ov.State.from_overlaps(model, **PLAIN)
    traj = ov.solve(model, start, [0.0, 200.0])
    assert traj.eps_g[-1] == pytest.approx(laws.stationary_error(law, clip, eta=0.4), rel=1e-6)  # rtol of the flow


def test_hubers_variance():
    assert laws.huber_variance(stats.cauchy(scale=0.5)) == pytest.approx(np.pi**2 / 16, rel=1e-9)
    assert laws.huber_variance(stats.norm(scale=0.3)) == pytest.approx(np.pi / 2 * 0.09, rel=1e-9)


def test_gain_of_clipping_normal_residuals():
    """They have the variance V = s^2 + sigma^2 whole: P(|D| < c)^2 V / E[min(|D|, c)^2], by SciPy's quadrature."""
    s, sigma, clip = 0.9, 0.6, 0.8
    V = s * s + sigma * sigma
    D = stats.norm(scale=np.sqrt(V))
    square = 2 * (D.expect(lambda x: x * x, lb=0, ub=clip) + clip**2 * D.sf(clip))
    wanted = (1 - 2 * D.sf(clip)) ** 2 * V / square
    assert laws.clipping_gain(stats.norm(scale=sigma), clip, s) == pytest.approx(wanted, rel=1e-6)  # tables


@pytest.mark.slow
def test_clipping_never_gains_with_normal_noise():
    """The values of the page; normal noise obeys the bound of Cramer and Rao."""
    clips = [0.3, 0.7, 1.5, 3.0]
    normal = [laws.clipping_gain(stats.norm(scale=0.5), c, 0.4) for c in clips]
    heavy = [laws.clipping_gain(stats.t(3, scale=0.6), c, 0.4) for c in clips]
    np.testing.assert_allclose(normal, [0.783, 0.918, 0.996, 1.000], atol=6e-4)
    np.testing.assert_allclose(heavy, [1.43, 1.58, 1.52, 1.29], atol=6e-3)
    assert max(normal) <= 1


def second(lam, nu, xi, theta, S, F, G):
    F[0] = (nu[0] ** 2 - 1) * lam[0]


def third(lam, nu, xi, theta, S, F, G):
    F[0] = (nu[0] ** 3 - 3 * nu[0]) * (lam[0] ** 2 - 1) / 2


def index(force, eta, rho, alpha):
    model = ov.learner(ov.Rule(force, K=1, M=1), eta=eta, constraint="sphere")
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[rho]], T=[[1.0]])
    return ov.solve(model, start, alpha).R[:, 0, 0]


def test_single_indices_on_the_sphere():
    np.testing.assert_allclose(index(second, 0.2, 0.2, [4.0, 12.0]), [0.590116467408, 0.800717104947], atol=1e-7)
    np.testing.assert_allclose(index(third, 0.1, 0.35, [4.0, 12.0]), [0.427939819455, 0.560072786372], atol=1e-7)
    np.testing.assert_allclose(index(third, 0.1, 0.04, [4.0, 12.0]), [0.039462224091, 0.038335989896], atol=1e-7)


def test_escape_times():
    """Two starts differ by the time from one to the other; the third index blows up at the predicted time."""
    times = [laws.escape(2, 0.3, rho) for rho in (1e-3, 2e-3)]
    assert index(second, 0.3, 1e-3, [times[0] - times[1]])[0] == pytest.approx(2e-3, rel=1e-4)
    assert laws.escape(3, 0.1, 0.04) == np.inf and laws.escape(3, 0.1, 0.06) < np.inf


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: laws.law(R.adatron(), eta=3.0), "eta = 3; expected below 3"),
        (lambda: laws.law(R.least_squares(), eta=2.0), "eta = 2; expected below 2"),
        (lambda: laws.law(R.logistic(1.0)), "expected one with a law"),
        (lambda: laws.escape(4, 0.1, 0.1), "k = 4; expected 2 or 3"),
        (lambda: laws.clipping_gain(stats.cauchy(), 1.0, 0.4), "expected a finite one"),
    ],
)
def test_what_has_no_law(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("rule, eta", [(R.episode(4, penalty=1.0), 0.6), (R.episode(6, penalty=0.9), 1.3)])
def test_fixed_points_of_episodes_are_those_of_the_flow(rule, eta):
    """By Newton's method on the overlaps, rates by what becomes of a small change; a teacher of another length."""
    model, points = ov.learner(rule, eta=eta), laws.episode_points(rule, eta)
    assert [x.stable for x in points] == [True, False]
    for x in points:
        guess = ov.State.from_overlaps(model, Q=[[1.02 * x.Q]], R=[[x.rho * np.sqrt(1.3 * x.Q)]], T=[[1.3]])
        state = ov.fixed_point(model, guess).state
        assert state.Q[0, 0] == pytest.approx(x.Q, rel=1e-8)
        assert state.R[0, 0] == pytest.approx(x.rho * np.sqrt(1.3 * x.Q), rel=1e-8)
        moved = state.R[0, 0] + 1e-5  # what the flow makes of it is a sum of two exponentials
        near = ov.State.from_overlaps(model, Q=state.Q, R=[[moved]], T=[[1.3]])
        path = ov.solve(model, near, [0.0, 0.2, 0.4], rtol=1e-12, atol=1e-14)
        y = path.Q[:, 0, 0] - state.Q[0, 0]
        one, other = np.exp(0.2 * x.rates.real)
        assert y[2] - (one + other) * y[1] + one * other * y[0] == pytest.approx(0, abs=1e-4 * np.abs(y).max())
    assert points[0].accuracy == pytest.approx(1 - np.arccos(points[0].rho) / np.pi, rel=1e-12)


@pytest.mark.slow
def test_the_hard_phase_of_episodes():
    """On either side of the unstable point SGD falls back into the trap, or learns: runs at N = 2000, and the flow."""
    rule, eta = R.episode(4, penalty=1.0), 0.3
    model, (trap, watershed) = ov.learner(rule, eta=eta), laws.episode_points(rule, eta)
    for shift, learns in ((-0.2, False), (0.2, True)):
        rho = watershed.rho + shift
        start = ov.State.from_overlaps(model, Q=[[watershed.Q]], R=[[rho * np.sqrt(watershed.Q)]], T=[[1.0]])
        runs = ov.simulate(model, N=2000, alpha=[0.0, 10.0], rng=3, start=start, runs=8)
        accuracy = 1 - runs.mean("eps_g")[1]
        known = 1 - ov.solve(model, start, [0.0, 10.0]).eps_g[-1]
        assert abs(accuracy - known) < 4.5 * runs.standard_error("eps_g")[1]
        assert accuracy > watershed.accuracy + 0.1 if learns else abs(accuracy - trap.accuracy) < 0.02


def test_fixed_points_of_episodes_on_the_sphere():
    rule, eta = R.episode(5, 4, penalty=0.4), 0.8
    model = ov.learner(rule, eta=eta, constraint="sphere")
    (point,) = laws.episode_points(rule, eta, Q=0.7)
    state = ov.State.from_overlaps(model, Q=[[0.7]], R=[[point.rho * np.sqrt(0.7 * 1.3)]], T=[[1.3]])
    np.testing.assert_allclose(ov.solve(model, state, [0.0, 20.0]).R[-1], state.R, rtol=1e-8)
    moved = ov.State.from_overlaps(model, Q=[[0.7]], R=state.R + 1e-4, T=[[1.3]])
    path = ov.solve(model, moved, [0.0, 2.0], rtol=1e-12)
    decay = np.log((path.R[1] - state.R) / (path.R[0] - state.R)) / 2
    assert decay[0, 0] == pytest.approx(point.rates[0], rel=1e-3)  # of the size of the change


def test_rewards_alone_have_no_fixed_point():
    assert laws.episode_points(R.episode(3)) == []
    with pytest.raises(ValueError, match=r"rule = pair\(0.3\); expected ov.rules.episode"):
        laws.episode_points(R.pair(0.3))
