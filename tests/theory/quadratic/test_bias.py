"""Which solution is found: the conserved polar factor, the closest solution, gradient flow by another route."""

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.theory import quadratic


def starts(eps=0.01, seed=3):
    return eps * np.random.default_rng(seed).standard_normal((6, 3))


def drift(Q, R, *, T=None, alpha=400.0, **options):
    """Largest change of S(alpha) = polar(R) and the last R, K = 6, M = 3."""
    model = ov.quadratic_network(6, 3, **options)
    start = ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(3) if T is None else T)
    traj = ov.solve(model, start, np.linspace(0, alpha, 21), rtol=1e-10, atol=1e-14)
    S = quadratic.polar(traj.R)
    return np.max(np.abs(S - S[0])), traj


# closest solution -----------------------------------------------------------------------------------------------------


def test_closest_solution_has_no_error_and_is_closest():
    rng = np.random.default_rng(0)
    W_star = np.eye(3, 9)
    W = rng.standard_normal((5, 9))
    S = quadratic.polar(W @ W_star.T)
    best = quadratic.solution_weights(S, W_star)
    assert quadratic.eps_g(best, W_star) < 1e-28  # rounding, squared
    Q, R = quadratic.closest_solution(W @ W_star.T)
    np.testing.assert_allclose(best @ best.T, Q, atol=1e-14)
    np.testing.assert_allclose(best @ W_star.T, R, atol=1e-14)
    gap = np.linalg.norm(W - best)
    assert quadratic.distance(W @ W.T, W @ W_star.T, S) == pytest.approx(gap, rel=1e-13)
    for _ in range(200):  # all other solutions, near and far, are farther away
        near = S + rng.choice([1e-3, 0.1, 10.0]) * rng.standard_normal(S.shape)
        assert np.linalg.norm(W - quadratic.solution_weights(quadratic.polar(near), W_star)) > gap
    root = np.linalg.cholesky(np.linalg.inv(R.T @ R))  # S = R (R^T R)^(-1/2), the root by eigenvectors
    values, vectors = np.linalg.eigh(root @ root.T)
    np.testing.assert_allclose(R @ (vectors * np.sqrt(values)) @ vectors.T, S, atol=1e-13)


@pytest.mark.parametrize(
    "options",
    [dict(eta=0.2, gradient_flow=True), dict(eta=0.02), dict(eta=0.4), dict(eta=1.0), dict(eta=0.2, noise=0.5)],
    ids=str,
)
def test_polar_is_conserved_from_commuting_starts(options):
    R = starts()
    U, sizes, V = np.linalg.svd(R)
    commuting = (U * [0.5, 0.8, 1.0, 1.3, 0.7, 1.1]) @ U.T  # commutes with R R^T, not proportional to the identity
    alpha = 40 / options["eta"]
    for Q in (np.eye(6), (commuting + commuting.T) / 2):
        assert quadratic.conserves_polar(Q, R)
        change, traj = drift(Q, R, alpha=alpha, **options)
        # rounding of R(0) ~ 0.01, amplified by the condition of R
        assert change < 1e-13 * sizes[0] / sizes[-1] * 10
        assert np.linalg.norm(traj.R[-1] - traj.R[0]) > 0.5  # it did learn


def test_commuting_starts_end_in_the_closest_solution():
    R = starts()
    _, traj = drift(np.eye(6), R, eta=0.2, alpha=20_000.0)
    _, R_end = quadratic.closest_solution(R)
    assert np.linalg.norm(traj.R[-1] - R_end) < 2e-3  # decays as 1 / alpha
    assert np.linalg.norm(traj.R[-1] + R_end) > 4


def test_other_starts_do_not_conserve_it():
    """In proportion to the off-diagonal part; sizes as tabulated for other draws, gradient flow."""
    R, rng = starts(), np.random.default_rng(4)
    X = rng.standard_normal((6, 6))
    X = (X + X.T) / 2 * (1 - np.eye(6))
    small, large = (drift(np.eye(6) + a * X, R, eta=0.2, gradient_flow=True)[0] for a in (0.01, 0.1))
    norms = drift(np.diag(np.linspace(0.5, 1.5, 6)), R, eta=0.2, gradient_flow=True)[0]
    teacher = drift(np.eye(6), R, T=np.diag([0.7, 1.0, 1.3]), eta=0.2, gradient_flow=True)[0]
    assert 1e-3 < small < 2e-2 and 8 < large / small < 12
    assert 0.02 < norms < 0.4 and 0.1 < teacher < 1
    assert not quadratic.conserves_polar(np.eye(6) + 0.01 * X, R)
    assert not quadratic.conserves_polar(np.eye(6), R, np.diag([0.7, 1.0, 1.3]))
    assert quadratic.conserves_polar(np.eye(6), R, 2 * np.eye(3))


def test_distance_of_the_overlaps():
    """K = 6, M = 3, paper's eta = 0.1, eps = 0.01: |R(t) - end| = 2.42, 0.066, 0.011 at t = 0, 20, 60 (one draw)."""
    R = starts()
    model = ov.quadratic_network(6, 3, eta=0.2)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=np.eye(6), R=R, T=np.eye(3)), [0, 200, 600])
    gaps = np.linalg.norm(traj.R - quadratic.closest_solution(R)[1], axis=(1, 2))
    np.testing.assert_allclose(gaps, [2.42, 0.066, 0.011], rtol=0.3)  # the draw sets the escape time


# finite-N SGD ---------------------------------------------------------------------------------------------------------


def turn(N, runs, alpha=60.0, start=None, seed=1):
    """|S(alpha) - S(0)| of SGD, (runs,): K = 4, M = 2, eta = 0.6; from random weights, or from one State."""
    model = ov.quadratic_network(4, 2, eta=0.6)
    sgd = ov.simulate(model, N=N, alpha=[0.0, alpha], rng=seed, start=start, runs=runs, method="reduced")
    assert sgd.eps_g[:, -1].max() < 0.01 * sgd.eps_g[:, 0].min()  # it did learn
    first, last = np.moveaxis(quadratic.polar(sgd.R), 1, 0)
    return np.linalg.norm(last - first, axis=(1, 2))


@pytest.mark.parametrize("N", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_sgd_from_random_starts_does_not_end_in_the_closest_solution(N):
    """0.95 from it at every N (unrelated: 2), runs scatter by 0.4; the equations of N -> infinity would stay there."""
    gap = turn(N, 30)
    assert abs(gap.mean() - 0.95) < 4 * 0.4 / np.sqrt(30)
    model = ov.quadratic_network(4, 2, eta=0.6)
    R = np.random.default_rng(N).standard_normal((4, 2)) / np.sqrt(N)
    start = ov.State.from_overlaps(model, Q=np.eye(4), R=R, T=np.eye(2))
    S = quadratic.polar(ov.solve(model, start, [0.0, 60.0], rtol=1e-10, atol=1e-14).R)
    assert np.linalg.norm(S[1] - S[0]) < 1e-10


@pytest.mark.slow
def test_sgd_from_fixed_overlaps_ends_there_for_large_N():
    """The distance falls as 1/sqrt(N): a fourth at 16 N, with 8 to 10 % of error from 12 and 24 runs each."""
    model = ov.quadratic_network(4, 2, eta=0.6)
    R = 0.2 * np.random.default_rng(1).standard_normal((4, 2))
    start = ov.State.from_overlaps(model, Q=np.eye(4), R=R, T=np.eye(2))
    small, large = turn(100, 24, 40.0, start).mean(), turn(1600, 12, 40.0, start).mean()
    assert 2.5 < small / large < 6.0 and large < 0.25


# gradient flow by the Riccati solution --------------------------------------------------------------------------------


@few("K, M, eps, length", [(2, 3, 0.1, 40.0), (6, 3, 0.1, 40.0), (6, 3, 1e-3, 500.0)])
def test_riccati_solution(K, M, eps, length):
    """Also for students narrower than the teacher, which keep an error."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((K, 2 * K))
    R = eps * rng.standard_normal((K, M))
    Q = X @ X.T / (2 * K) + 0.2 * np.eye(K)
    model = ov.quadratic_network(K, M, eta=2.0, gradient_flow=True)
    alpha = np.linspace(0, length, 9)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=Q, R=R, T=np.eye(M)), alpha, rtol=1e-11, atol=1e-15)
    exact = quadratic.riccati_flow(Q, R, alpha, eta=2.0, rtol=1e-11)
    RtR = np.swapaxes(traj.R, 1, 2) @ traj.R
    tr_Q2 = np.sum(traj.Q**2, axis=(1, 2))
    # errors of b are multiplied by the growth of the escape
    for ours, theirs in [(RtR, exact.RtR), (traj.eps_g, exact.eps_g), (tr_Q2, exact.tr_Q2)]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-9)
    np.testing.assert_allclose(np.trace(traj.Q, axis1=1, axis2=2), exact.tr_Q, atol=2e-9)
    rest = quadratic.stationary_eps_g(K, M, 0, K) if K < M else 0.0
    assert abs(exact.eps_g[-1] - rest) < 1e-2 * (exact.eps_g[0] - rest)


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: quadratic.polar(np.ones((2, 3))), "K = 2 < M = 3: no zero-error solution exists"),
        (lambda: quadratic.polar(np.ones((3, 2))), "R has rank 1; expected M = 2"),
        (lambda: quadratic.polar(np.zeros((3, 2))), "R has rank 0"),
        (lambda: quadratic.polar([1.0]), "expected \\(..., K, M\\)"),
        (lambda: quadratic.closest_solution(np.full((2, 1), np.nan)), "nan"),
        (lambda: quadratic.solution_weights(np.ones((2, 1)), np.eye(1, 4)), "expected orthonormal columns"),
        (lambda: quadratic.distance(np.eye(2), np.ones((2, 2)), [[1.0], [0.0]]), "R has shape"),
        (lambda: quadratic.conserves_polar(-np.eye(2), [[0.1], [0.1]]), "not positive semi-definite"),
        (lambda: quadratic.conserves_polar(np.eye(2), [[2.0], [0.1]]), "not positive semi-definite"),
        (lambda: quadratic.riccati_flow(np.diag([1, -1.0]), [[0.1], [0.1]], [1.0], eta=1), "not positive semi"),
        (lambda: quadratic.riccati_flow(np.eye(2), [[0.1], [0.1]], [1.0, 1.0], eta=1), "increasing array"),
        (lambda: quadratic.riccati_flow(np.eye(2), [[0.1], [0.1]], [1e9], eta=1), "overflows"),
        (lambda: quadratic.riccati_flow(np.eye(2), np.ones((2, 3)), [1.0], eta=1), "not positive semi"),
        (lambda: quadratic.conserves_polar(np.eye(2), 0.1 * np.ones((2, 3))), "no zero-error solution"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_start_that_no_vectors_have_is_refused():
    model = ov.quadratic_network(2, 1, eta=0.1)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.9], [0.9]], T=[[1.0]])
