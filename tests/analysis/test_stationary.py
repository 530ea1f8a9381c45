"""The search for fixed points against the complete list of quadratic networks, and against gradients of weights."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import few
from scipy.optimize import least_squares

import overlaps as ov
from overlaps.analysis.stationary import StationaryPoint
from overlaps.theory import quadratic, stationary_points


@pytest.mark.slow
@pytest.mark.parametrize(("K", "M"), [(2, 2), *(x for x in ((2, 1), (1, 2), (3, 2)))])
def test_all_types_of_quadratic_networks(K, M):
    """Every (r, s) of the closed list and nothing else, with index, rate of escape and dimension."""
    N = 30
    model = ov.quadratic_network(K, M, eta=1.0, gradient_flow=True)
    found = stationary_points(model, starts=150, rng=1)
    types = sorted(quadratic.stationary_points(N, K, M), key=lambda rs: quadratic.stationary_eps_g(K, M, *rs))
    np.testing.assert_allclose(
        [x.eps_g for x in found], [quadratic.stationary_eps_g(K, M, *x) for x in types], atol=1e-7
    )
    for point, (r, s) in zip(found, types, strict=True):
        spectrum = quadratic.stationary_spectrum(N, K, M, r, s)
        assert point.hessian.negative(N) == sum(count for value, count in spectrum if value < -1e-9)
        assert point.dimension == dimension(N, K, M, r, s)
        # R grows like the weights; the square of a student that is zero, off the teachers, grows twice as fast
        lowest, off = min(value for value, _ in spectrum), -4 / K * (1 - s / M) / (2 + r + s) * (r + s < K)
        np.testing.assert_allclose(point.rate, max(-lowest, -2 * off, 0.0), atol=1e-6)


KINDS = [
    (2, 1, None),
    (1, 2, None),
    (2, 2, None),
    (3, 2, None),
    (3, 3, None),
    (4, 2, [(0, 2)]),
    (6, 4, [(0, 1), (6, 0)]),
]


@few(("K", "M", "types"), KINDS, quick=3, ids=[f"{K}-{M}" for K, M, _ in KINDS])
def test_exact_points_are_told_apart(K, M, types):
    """From their weights: all types, and two of equal error; each with its index and the dimension of its manifold."""
    N, model = 30, ov.quadratic_network(K, M, eta=1.0, gradient_flow=True)
    types = types or quadratic.stationary_points(N, K, M)
    weights = [quadratic.stationary_point(N, K, M, *x, rng=4) for x in types]
    starts = [ov.State.from_weights(model, W=W * np.sqrt(N), W_star=W_star * np.sqrt(N)) for W, W_star in weights]
    found = stationary_points(model, starts=starts)
    spectra = [quadratic.stationary_spectrum(N, K, M, *x) for x in types]
    index = [sum(count for value, count in spectrum if value < -1e-9) for spectrum in spectra]
    known = zip((dimension(N, K, M, *x) for x in types), index, strict=True)
    assert sorted((x.dimension, x.hessian.negative(N)) for x in found) == sorted(known)


def dimension(N, K, M, r, s):
    """Of the manifold in the overlaps: they do not see how students off the teachers turn, alone or together."""
    flat = quadratic.flat_directions(N, K, M, r, s)
    return flat.rotations + flat.choices - r * (N - M - r) - r * (r - 1) // 2


def arcsine_error(W, W_star):
    """eps_g of erf students and teachers, Saad and Solla (1995), from weights with W W^T = Q."""
    fields = np.concatenate([W, W_star])
    S, w = fields @ fields.T, np.repeat([1.0, -1.0], [len(W), len(W_star)])
    norm = np.sqrt(1 + np.diag(S))
    return w @ np.arcsin(S / np.outer(norm, norm)) @ w / np.pi


@pytest.mark.slow
@pytest.mark.parametrize(("K", "M", "least"), [(2, 2, 2), (3, 2, 7)])
def test_gradients_of_weights_vanish(K, M, least):
    """Weights with the overlaps found: the gradient by differences, and the error a step downhill along its mode."""
    found = stationary_points(ov.committee_machine(K, M, eta=1.0, gradient_flow=True), starts=150, rng=2)
    assert len(found) >= least and found[0].eps_g < 1e-12 and found[0].growing == 0
    for point in found:
        n, h = K + M, 1e-4
        values, vectors = np.linalg.eigh(point.state.S)
        X = vectors * np.sqrt(np.maximum(values, 0.0))  # the frame that the block of the Hessian is in
        W, W_star = X[:K], X[K:]
        steps = h * np.eye(K * n).reshape(-1, K, n)
        gradient = [(arcsine_error(W + d, W_star) - arcsine_error(W - d, W_star)) / (2 * h) for d in steps]
        assert np.max(np.abs(gradient)) < 1e-6  # overlaps to 1e-12: weights to its root where students are dependent
        np.testing.assert_allclose(arcsine_error(W, W_star), point.eps_g, atol=1e-14)
        if point.growing:  # the lowest eigenvalue by a second difference along its vector, in this same frame
            block = ov.hessian(ov.committee_machine(K, M, eta=1.0), point.state).block
            value, vector = (x[..., 0] for x in np.linalg.eigh(block))
            step = 1e-3 * vector.reshape(K, n)
            curvature = arcsine_error(W + step, W_star) + arcsine_error(W - step, W_star) - 2 * point.eps_g
            np.testing.assert_allclose(curvature / 1e-6, value, atol=1e-6)
            assert value < 0


@pytest.mark.slow
def test_finite_rates_split_the_plateau():
    """Equal students and merely equivalent ones; at vanishing rate they are one (Saad and Solla 1995)."""
    gaps = []
    for eta in (0.5, 0.25):
        points = stationary_points(ov.committee_machine(2, 2, eta=eta), starts=60, rng=3)
        plateaus = [x for x in points if 0.01 < x.eps_g < 0.02]
        assert len(plateaus) == 2 and plateaus[0].growing < plateaus[1].growing
        Q = plateaus[0].state.Q
        gaps.append(Q[0, 0] - Q[0, 1])
    assert 1.5 < gaps[0] / gaps[1] < 2.5  # of order eta


def test_starts_of_ones_own_and_other_teachers():
    model, T = ov.committee_machine(2, 2, eta=1.0, gradient_flow=True), np.array([[1.0, 0.3], [0.3, 0.8]])
    start = ov.State.from_overlaps(model, Q=np.eye(2), R=0.1 * np.array([[1, 0.5], [0.2, 0.7]]), T=T)
    trajectory = ov.solve(model, start, np.linspace(0, 1500, 40))
    found = stationary_points(model, T=T, starts=[trajectory[i] for i in range(len(trajectory.alpha))])
    assert found[0].eps_g < 1e-9 and found[0].growing == 0 and sum(x.found for x in found) > 10
    np.testing.assert_array_equal(found[0].state.T, T)


def test_one_student_on_a_sphere():
    """eps_g = 2 (1 - R^2) of quadratic units: perfect or blind, whatever the norms of the starts."""
    model = ov.quadratic_network(1, 1, eta=1.0, gradient_flow=True, constraint="sphere")
    learned, blind = stationary_points(model, starts=20)
    assert learned.eps_g < 1e-12 and learned.growing == 0
    assert blind.eps_g == pytest.approx(2, abs=1e-12) and blind.growing == 1
    assert blind.rate == pytest.approx(4, rel=1e-9)  # dR/dalpha = 4 R (1 - R^2)
    assert all(x.state.Q[0, 0] == pytest.approx(1, rel=1e-12) and x.flat == x.dimension == 0 for x in (learned, blind))


@pytest.mark.slow
def test_all_points_on_spheres():
    """Two erf students of norm one: gradients along the spheres vanish, and a search over weights finds no others."""
    model = ov.committee_machine(2, 2, eta=1.0, gradient_flow=True, constraint="sphere")
    points = stationary_points(model, starts=60)
    for point in points:
        np.testing.assert_allclose(np.diag(point.state.Q), 1.0, rtol=1e-12)
    W_star, h, rng, found = np.eye(2, 3), 1e-5, np.random.default_rng(1), []

    def slope(weights):
        """Gradient of eps_g of the normalised weights, and their norms."""
        W, steps = weights.reshape(2, 3), h * np.eye(6).reshape(-1, 2, 3)
        units = [[x / np.linalg.norm(x, axis=1, keepdims=True) for x in (W + s, W - s)] for s in steps]
        gradient = [(arcsine_error(a, W_star) - arcsine_error(b, W_star)) / (2 * h) for a, b in units]
        return np.r_[gradient, np.linalg.norm(W, axis=1) - 1]

    for _ in range(12):
        end = least_squares(slope, rng.standard_normal(6), xtol=1e-12, ftol=1e-12, gtol=1e-12)
        if np.max(np.abs(end.fun)) < 1e-8:
            found.append(arcsine_error(end.x.reshape(2, 3), W_star))
    assert len(found) > 5
    for eps_g in found:
        assert min(abs(eps_g - point.eps_g) for point in points) < 1e-6  # gradients known to h^2
    kinds = {int(np.argmin([abs(eps_g - point.eps_g) for point in points])) for eps_g in found}
    assert len(kinds) >= 3


def relu_hessian(W, W_star):
    """Hessian (K D, K D) of eps_g over explicit weights, v = v* = 1, by the derivatives of E[g(a) g(b)] in two vectors.

    As in Safran and Shamir (2018), arXiv:1712.08968; where vectors are aligned the limit of theta -> 0 or pi.
    """
    (K, D), units = W.shape, np.vstack([W, W_star])
    signs, lengths = np.r_[np.ones(K), -np.ones(len(W_star))], np.linalg.norm(units, axis=1)
    H = np.zeros((K, D, K, D))
    for i in range(K):
        H[i, :, i] += np.eye(D) / 2
        for j in range(len(units)):
            if j == i:
                continue
            a, b = units[i] / lengths[i], units[j] / lengths[j]
            cos = np.clip(a @ b, -1, 1)
            sin = np.sqrt(1 - cos**2) if 1 - cos**2 > 1e-12 else 0.0
            theta = np.arccos(cos) if sin else np.pi * (cos < 0)
            from_a, from_b = ((b - cos * a) / sin, (a - cos * b) / sin) if sin else np.zeros((2, D))
            own = np.eye(D) - np.outer(a, a) + np.outer(from_a, from_a)
            H[i, :, i] += signs[j] * sin * lengths[j] / (2 * np.pi * lengths[i]) * own
            if j < K:
                H[i, :, j] += ((np.pi - theta) * np.eye(D) + np.outer(from_b, b) + np.outer(from_a, a)).T / (2 * np.pi)
    return H.reshape(K * D, K * D)


@pytest.mark.slow
def test_aligned_relu_students_are_classified_by_the_hessian_over_weights():
    found = stationary_points(ov.committee_machine(2, 2, activation=ov.relu, eta=1.0, gradient_flow=True), starts=100)
    plateau = [x for x in found if x.growing == 1]
    assert len(plateau) == 1 and plateau[0].rate > 0 and plateau[0].descending > 0  # students apart from each other
    aligned = [x for x in found if x.growing == -1]
    assert len(aligned) > 1 and all("no rates" in repr(x) for x in aligned)
    assert [x.descending == 0 for x in aligned] == [x.eps_g < 1e-12 for x in aligned]
    for point in found:
        S, D = point.state.S, 6  # two dimensions beyond the K + M of the outliers
        values, vectors = np.linalg.eigh(S)
        units = np.hstack([vectors * np.sqrt(np.maximum(values, 0.0)), np.zeros((4, D - 4))])
        expected = np.linalg.eigvalsh(relu_hessian(units[:2], units[2:]))
        values = np.sort(np.r_[point.hessian.outliers, np.tile(point.hessian.bulk.ravel(), D - 4)])
        # aligned students are turned by 1e-4, seen from lengths down to 0.04
        np.testing.assert_allclose(values, expected, rtol=0, atol=3e-3 if point.growing < 0 else 1e-7)


def test_weak_descents_count_where_eigenvalues_are_known():
    """Below 1e-3 of the largest, too, unless aligned students have been set apart to find them."""
    values = SimpleNamespace(outliers=np.array([1.3, -1e-5, 1e-5]), bulk=np.array([[-0.2, 0.7]]))
    point = StationaryPoint(None, 0.1, np.array([0.3]), 2, 1, values, 3)
    assert point.descending == 2 and dataclasses.replace(point, flat=-1).descending == 1


def test_what_is_refused():
    with pytest.raises(ValueError, match="several eigenvalues of the inputs"):
        stationary_points(ov.committee_machine(1, 1, eta=1.0, spectrum=ov.power_law(beta=1.0, L=2)))
    with pytest.raises(ValueError, match="starts"):
        stationary_points(ov.committee_machine(1, 1, eta=1.0), starts=0)
