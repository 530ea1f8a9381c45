"""Learners of samples with several inputs in what exists: batches, schedules, spheres, stages, files, fixed points."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.flow.binding import bind

R = ov.rules
TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
BLOCKS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])
RULES = {
    "episode": lambda: R.episode(5, 4, penalty=0.3, bonus=0.1),
    "pair": lambda: R.pair(0.6),
    "patches": lambda: R.patches("erf", 3, noise=0.2),
    "attention": lambda: R.attention(2, [[1.0, 0.3], [0.3, 1.0]]),
}


def model_and_start(rule, **options):
    model = ov.learner(rule, spectrum=TWO, **{"eta": 0.4, **options})
    return model, ov.State.from_blocks(model, **BLOCKS)


@few("name", RULES, quick=2)
def test_files_and_pickles_know_them_by_name(name, tmp_path):
    rule = RULES[name]()
    model, start = model_and_start(rule)
    assert pickle.loads(pickle.dumps(model)).rule == rule
    traj = ov.solve(model, start, [0.0, 0.2], rtol=1e-4)
    traj.save(tmp_path / "run.npz")
    loaded = ov.load(tmp_path / "run.npz")
    assert loaded.model.rule == rule and loaded == traj
    np.testing.assert_array_equal(loaded.model.rule.token_covariance, rule.token_covariance)


@pytest.mark.parametrize("name", ["episode", "pair", "patches"])
def test_many_schedules_stages_and_blocks(name):
    model, start = model_and_start(RULES[name]())
    known = ov.solve(model, start, [0.0, 1.0, 2.0])
    other = replace(model, eta=0.7)
    many = ov.solve_many([model, other], start, [0.0, 2.0])
    np.testing.assert_array_equal(many.Q[0, -1], ov.solve(model, start, [0.0, 2.0]).Q[-1])
    half = ov.solve(model, start, [2.0], schedule=ov.Schedule.step([1.0], [0.5]))
    middle = ov.solve(replace(model, eta=0.2), known[1], [2.0])
    np.testing.assert_allclose(half.Q[-1], middle.Q[-1], rtol=1e-7)
    split = ov.learner(model.rule, spectrum=ov.Spectrum(s=[1.6, 1.6, 0.4], p=[0.2, 0.3, 0.5]), eta=0.4)
    parts = {k: [np.multiply(0.4, x[0]), np.multiply(0.6, x[0]), x[1]] for k, x in BLOCKS.items()}
    finer = ov.solve(split, ov.State.from_blocks(split, **parts), [2.0])
    np.testing.assert_allclose(finer.eps_g[-1], known.eps_g[-1], rtol=1e-7)


def test_a_sphere_and_a_gradient_flow():
    model = ov.learner(R.episode(4), eta=0.4, constraint="sphere", batch_size=3)
    start = ov.State.from_overlaps(model, Q=[[0.7]], R=[[0.2]], T=[[1.2]])
    traj = ov.solve(model, start, [0.0, 3.0])
    np.testing.assert_allclose(traj.Q[1], traj.Q[0], rtol=1e-9)
    assert traj.R[1] > traj.R[0]
    descent, begin = model_and_start(R.pair(0.6), gradient_flow=True)
    np.testing.assert_allclose(ov.solve(descent, begin, [200.0]).Q[-1], 0.6, rtol=1e-6)  # A = 2 (rho - Q) = 0


def test_averages_along_a_trajectory_see_one_token():
    model, start = model_and_start(R.episode(6))
    traj = ov.solve(model, start, [0.0, 1.0])

    def wrong(lam, nu, theta):
        return 1.0 if lam[0] * nu[0] < 0 else 0.0

    np.testing.assert_allclose(ov.field_average(traj, wrong, breaks=[[1, 0, 0], [0, 1, 0]]), traj.eps_g, atol=1e-8)


def test_fixed_point_of_two_views():
    """C balances the drift: 2 (2 Q A) + eta C = 0 without an overlap with the teacher; rates by differences."""
    model = ov.learner(R.pair(0.6), eta=0.2)
    guess = ov.State.from_overlaps(model, Q=[[0.7]], R=[[0.01]], T=[[1.0]])
    point = ov.fixed_point(model, guess).state
    c = ov.closure(model, Q=point.Q, R=point.R, T=point.T)
    assert 2 * c.A[0, 0] * point.Q[0, 0] + c.C[0, 0] == pytest.approx(0, abs=1e-10)
    assert abs(point.R[0, 0]) < 1e-8


def test_theories_refuse_them_as_other_rules():
    model, start = model_and_start(R.pair(0.6))
    for call in (
        ov.hessian,
        lambda m, s: ov.optimal_schedule(m, s, 2.0),
        lambda m, s: ov.solve(m, s, [1.0], late=True),
    ):
        with pytest.raises(ValueError, match="a rule of learning in place of a squared loss|late=True with a rule"):
            call(model, start)


def drawn_to_overlaps(lam, nu, xi, theta, S, F, G):
    """A force on two tokens that reads S, theta and their sizes."""
    for a in range(lam.shape[0]):
        for k in range(theta.size):
            F[a, k] = (nu[a, 0] - lam[a, k]) * (0.5 + S[k, S.shape[0] - 1]) + 0.1 * theta[k] * lam[1 - a, k]
            G[k] += lam[a, k] * nu[a, 0]


def test_a_covariance_for_each_eigenspace_shows_the_force_one_token():
    """Equal covariances in all eigenspaces are one: the same closure, where the force reads S, theta and G."""
    c, S, w, found = np.array([[1.0, 0.4], [0.4, 1.0]]), np.array([[0.5, 0.2], [0.2, 1.0]]), np.array([0.2, 0.0]), []
    for covariance in (c, np.array([c, c])):
        rule = ov.Rule(drawn_to_overlaps, K=1, M=1, tokens=2, token_covariance=covariance)
        bound = bind(ov.learner(rule, spectrum=TWO, eta=0.4, eta_theta=0.3))
        bound.check(S, w)
        found.append(np.concatenate([x.ravel() for x in bound.arrays(S, w)]))
    assert found[0][-1] > 0.01
    np.testing.assert_allclose(*found, rtol=1e-9)  # quadratures at other nodes, to 1e-8 of the largest at worst


def test_equal_covariances_in_all_eigenspaces_are_one_covariance():
    """Two students, each with a theta that learns at its own rate: the sums over tokens keep students apart."""

    def force(lam, nu, xi, theta, S, F, G):
        for t in range(lam.shape[0]):
            for k in range(2):
                F[t, k] = (k + 1.0) * (nu[t, 0] - theta[k] * lam[t, k]) / 2
                G[k] += (0.5 - 0.8 * k) * (nu[t, 0] - theta[k] * lam[t, k]) * lam[t, k] / 2

    between = np.array([[1.0, 0.4], [0.4, 1.0]])
    Q, R_ = np.array([[[0.5, 0.1], [0.1, 0.4]], [[0.3, 0.0], [0.0, 0.2]]]), [[[0.1], [0.2]], [[0.05], [0.1]]]
    found = []
    for covariance in (between, [between, between]):
        rule = ov.Rule(force, K=2, M=1, tokens=2, token_covariance=covariance)
        model = ov.learner(rule, theta=[0.7, 1.2], eta=0.3, eta_theta=0.2, spectrum=TWO)
        start = ov.State.from_blocks(model, q=Q, r=R_, t=BLOCKS["t"])
        found.append(ov.solve(model, start, [0.0, 2.0], rtol=1e-6))
    one, both = found
    for name in ("Q", "R", "v"):
        np.testing.assert_allclose(getattr(both, name), getattr(one, name), rtol=1e-6, atol=1e-9)
    assert one.v[-1, 0] < one.v[0, 0] - 0.01 and one.v[-1, 1] > one.v[0, 1] + 0.01  # in opposite directions
