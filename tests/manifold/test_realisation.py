"""Realisations: second moments against integrals and samples, the overlaps of given weights."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import few
from manifolds import FUNCTIONS, NAMES, average, largest_difference, limit_start, random_weights, two_by_two
from scipy.integrate import dblquad
from scipy.special import erf

import overlaps as ov
from overlaps.manifold.feature_map import FeatureMap
from overlaps.manifold.realisation import normalise_feature_rows, second_moments


def random_features(rng, N, D):
    return normalise_feature_rows(rng.standard_normal((N, D)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_exact_moments_are_two_dimensional_integrals(rng, name):
    # three rows of any length: pairs (U_i, U_j) have a covariance that dblquad can integrate quadrant by quadrant
    F, scale, f = rng.standard_normal((3, 4)), 0.8, FUNCTIONS[name]
    if name == "linear":
        F = normalise_feature_rows(F)
    Omega, Phi = second_moments(name, F, "exact", scale)
    G = scale**2 * F @ F.T / 4
    for i, j in ((0, 1), (1, 2)):
        S = G[np.ix_([i, j], [i, j])]
        inverse, norm = np.linalg.inv(S), 2 * np.pi * np.sqrt(np.linalg.det(S))

        def density(x, y, inverse=inverse, norm=norm):
            z = np.array([x, y])
            return np.exp(-z @ inverse @ z / 2) / norm

        ends = [(-10.0, 0.0), (0.0, 10.0)]
        moment = sum(
            dblquad(lambda y, x: f(x) * f(y) * density(x, y), *u, *v, epsabs=1e-9)[0] for u in ends for v in ends
        )
        means = [average(lambda z, d=d: f(d * z)) for d in np.sqrt(np.diag(S))]
        assert Omega[i, j] == pytest.approx(moment - means[0] * means[1], abs=1e-7)
    for i in range(3):
        d = np.sqrt(G[i, i])
        variance = average(lambda z, d=d: f(d * z) ** 2) - average(lambda z, d=d: f(d * z)) ** 2
        assert Omega[i, i] == pytest.approx(variance, abs=1e-11)
        # E[f(U_i) c_j] = E[U_i c_j] E[z f(d z)] / d
        slope = average(lambda z, d=d: z * f(d * z)) / d
        np.testing.assert_allclose(Phi[i], slope * scale**2 * F[i] / 2, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_gaussian_equivalence_agrees_with_the_exact_moments_to_first_order(rng, name):
    # rho = O(1/sqrt(D)) off the diagonal: what is neglected is of second order (f_2^2 rho^2 / 2) or third (odd f)
    F = random_features(rng, 40, 4000)
    exact, ge = (second_moments(name, F, moments) for moments in ("exact", "ge"))
    rho = np.max(np.abs(F @ F.T / 4000 - np.eye(40)))
    assert np.max(np.abs(exact[0] - ge[0])) < rho**2
    np.testing.assert_allclose(np.diag(exact[0]), np.diag(ge[0]), rtol=0, atol=1e-14)
    np.testing.assert_allclose(exact[1], ge[1], rtol=0, atol=1e-15)  # Stein: the linear part is all there is


def test_exact_moments_of_samples(rng):
    # latents, features, averages, all by force: 4e5 samples, entries of the error are below 5 standard errors
    N, D, scale, n = 5, 6, 1.3, 400_000
    F = random_features(rng, N, D)
    c = scale * rng.standard_normal((n, D))
    x = np.tanh(2 * c @ F.T / np.sqrt(D) + 0.5)
    Omega, Phi = second_moments(lambda u: np.tanh(2 * u + 0.5), F, "exact", scale)
    assert np.max(np.abs(np.cov(x.T) - Omega)) < 5 / np.sqrt(n)  # |x| < 1
    assert np.max(np.abs((x - x.mean(0)).T @ c / n - Phi)) < 5 * scale / np.sqrt(n)


@few("name", ["sign", "erf", "relu", "abs"], quick=1)
def test_the_hermite_series_of_a_user_function_is_the_closed_form(rng, name):
    F = random_features(rng, 12, 60)
    known = second_moments(name, F, "exact", 1.4)
    user = second_moments(FeatureMap("user", FUNCTIONS[name], (0.0,), 1.4), F, "exact")
    np.testing.assert_allclose(user[0], known[0], rtol=0, atol=1e-10)  # the remainder that the series accepts
    np.testing.assert_allclose(user[1], known[1], rtol=0, atol=1e-11)


def test_a_scale_of_the_latents_is_a_scale_of_the_argument(rng):
    # f(F c / sqrt(D)) with c ~ N(0, s^2) is f(s .) of unit latents, and E[x c^T] carries one more s
    F = random_features(rng, 8, 40)
    for moments in ("ge", "exact"):
        Omega, Phi = second_moments("erf", F, moments, 1.7)
        same, unit = second_moments(lambda u: erf(1.7 * u / np.sqrt(2)), F, moments)
        np.testing.assert_allclose(Omega, same, rtol=0, atol=1e-10)
        np.testing.assert_allclose(Phi, 1.7 * unit, rtol=0, atol=1e-11)


def test_rows_that_are_not_normalised(rng):
    F = rng.standard_normal((6, 20))
    for features, moments in (("sign", "ge"), (np.tanh, "exact")):
        with pytest.raises(ValueError, match="row . of F has squared length"):
            second_moments(features, F, moments)
    for length in (0.9, 1.1):  # one row of six
        scaled = normalise_feature_rows(F) * np.where(np.arange(6) == 4, length, 1.0)[:, None]
        with pytest.raises(ValueError, match="row 4 of F has squared length"):
            second_moments("sign", scaled)
    second_moments("relu", F, "exact")  # closed forms take any rows
    # a linear map needs no equivalence
    np.testing.assert_allclose(second_moments("linear", F)[0], F @ F.T / 20, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="row 2 of F is zero"):
        normalise_feature_rows(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]))


def test_bad_moments(rng):
    F = random_features(rng, 4, 8)
    with pytest.raises(ValueError, match="moments = 'gauss'; expected 'ge'"):
        second_moments("sign", F, "gauss")
    with pytest.raises(ValueError, match="F has shape"):
        second_moments("sign", F[0])
    alike = np.concatenate([F, F[:1]])
    with pytest.raises(ValueError, match="so alike"):
        second_moments(FeatureMap("step", np.sign, (0.0,)), alike, "exact")


@pytest.mark.parametrize("moments", ["ge", "exact"])
@pytest.mark.parametrize(("N", "D"), [(30, 12), (20, 20), (18, 30)])
@pytest.mark.parametrize("features", ["sign", "relu", "linear", np.tanh])
def test_overlaps_of_given_weights(rng, features, N, D, moments):
    weights = random_weights(rng, N, D)
    W, W_star, F = weights.values()
    if features is np.tanh and moments == "exact":  # the series of a user function needs rows in general position
        features = "erf"
    model, state = two_by_two(features, D / N, latent_scale=1.3).realisation(**weights, moments=moments)
    Omega, Phi = second_moments(features, F, moments, 1.3)
    s = model.spectrum.s[:, None, None]
    power = np.eye(N)
    for j in range(4):  # moments of the spectral measures are products of matrices
        np.testing.assert_allclose(np.sum(s**j * state.q, 0), W @ power @ W.T / N, rtol=1e-11, atol=1e-11)
        r = W @ power @ Phi @ W_star.T / np.sqrt(N * D)
        np.testing.assert_allclose(np.sum(s**j * state.r, 0), r, rtol=1e-11, atol=1e-11)
        tau = W_star @ Phi.T @ power @ Phi @ W_star.T / D
        np.testing.assert_allclose(np.sum(s**j * state.tau, 0), tau, rtol=1e-11, atol=1e-11)
        assert model.spectrum.p @ model.spectrum.s**j == pytest.approx(np.trace(power) / N, rel=1e-11)
        power = power @ Omega
    np.testing.assert_allclose(state.T, 1.3**2 * W_star @ W_star.T / D, rtol=1e-14)
    if moments == "ge":
        assert model.spectrum.L == (D + 1 if D < N else N)  # N - D zero modes of F F^T are one block
    assert model.ratio == D / N and model.nodes == 16


def test_students_in_the_image_of_the_features(rng):
    # nothing of them lies in the merged zero modes, also numerically
    weights = random_weights(rng, 40, 10)
    weights["W"] = weights["W_star"] @ weights["F"].T
    model, state = two_by_two(ratio=0.25).realisation(**weights)
    assert model.spectrum.p[-1] == pytest.approx(0.75, abs=1e-14)
    assert np.max(np.abs(state.q[-1])) < 1e-24 * np.max(state.q)
    doubled = weights | {"F": np.concatenate([weights["F"][:, :5]] * 2, axis=1)}  # F of rank 5
    model, state = two_by_two(ratio=0.25).realisation(**doubled)
    assert model.spectrum.L == 6 and model.spectrum.p[-1] == pytest.approx(35 / 40, abs=1e-14)


@pytest.mark.parametrize(
    ("features", "N", "D", "moments"),
    [("sign", 400, 200, "ge"), ("sign", 400, 200, "exact"), ("sign", 200, 300, "ge"), ("erf", 300, 150, "ge")],
)
def test_compressed_realisations(rng, features, N, D, moments):
    weights = random_weights(rng, N, D)
    model = two_by_two(features, D / N)
    full, small = (
        ov.solve(*model.realisation(**weights, moments=moments, nodes=n), [1, 3, 10, 30, 100], rtol=1e-11)
        for n in (None, 60)
    )
    assert small.model.spectrum.L == 60
    np.testing.assert_allclose(small.T, full.T, rtol=0, atol=0)
    assert largest_difference(small, full) < 1e-8  # measured: below 1e-12


def test_compression_with_a_dead_block(rng):
    # linear features: the N - D zero modes have s = 0, where only q lives; it never moves and never matters
    weights = random_weights(rng, 300, 150)
    model, start = two_by_two("linear").realisation(**weights)
    assert model.spectrum.s[-1] == 0
    small = ov.compress(model, start, 60)
    full, quick = (ov.solve(*pair, [1, 10, 30], rtol=1e-11) for pair in ((model, start), small))
    assert largest_difference(full, quick) < 1e-8
    np.testing.assert_allclose(full.q[-1, -1], start.q[-1], rtol=0, atol=0)


@pytest.mark.slow
def test_equivalent_and_exact_moments_give_one_trajectory(rng):
    # differences are of order 1/sqrt(D N) for odd features; measured 2e-4 at N = 1000, D = 500
    weights = random_weights(rng, 1000, 500)
    ge, exact = (
        ov.solve(*two_by_two().realisation(**weights, moments=m, nodes=60), [1, 10, 30]) for m in ("ge", "exact")
    )
    assert 0 < largest_difference(ge, exact) < 2e-3


def test_rows_are_normalised_on_request(rng):
    weights = random_weights(rng, 20, 10)
    crooked = weights | {"F": weights["F"] * rng.uniform(0.5, 2, (20, 1))}
    model = two_by_two()
    _, state = model.realisation(**weights, normalise_rows=False)
    _, same = model.realisation(**crooked)
    np.testing.assert_allclose(same.Q, state.Q, rtol=1e-13)
    with pytest.raises(ValueError, match="normalise_rows=True, or moments='exact'"):
        model.realisation(**crooked, normalise_rows=False)
    model.realisation(**crooked, normalise_rows=False, moments="exact")


@pytest.mark.slow
def test_realisations_approach_the_limit(rng):
    # from rows of W and W* that are exactly orthonormal what is left fluctuates as 1/sqrt(N)
    def orthonormal(n, size):
        return np.linalg.qr(rng.standard_normal((size, n)))[0].T * np.sqrt(size)

    distances = []
    for N in (100, 900):
        model = two_by_two()
        limit = ov.solve(model, model.limit_start(P=np.eye(2), T=np.eye(2)), [1, 5])
        squares = []
        for _ in range(12):
            weights = random_weights(rng, N, N // 2) | {"W": orthonormal(2, N), "W_star": orthonormal(2, N // 2)}
            one = ov.solve(*model.realisation(**weights, nodes=40), [1, 5])
            squares.append(np.mean((one.Q - limit.Q) ** 2 + (one.R - limit.R) ** 2))
        distances.append(np.sqrt(np.mean(squares)))
    # 12 runs of several overlaps know the root mean square to about 15 %; expected ratio 3
    assert 2 < distances[0] / distances[1] < 4.5
    assert distances[1] < 3 / np.sqrt(900)


@pytest.mark.parametrize("moments", ["ge", "exact"])
def test_latents_of_another_scale_are_another_map_and_teacher(rng, moments):
    # f(F c) with c = sigma c' is g(F c'), g = f(sigma .), and nu = W* c is (sigma W*) c'
    weights = random_weights(rng, 60, 30)
    model, state = two_by_two("erf", latent_scale=1.7).realisation(**weights, moments=moments)
    stretched = two_by_two(lambda u: ov.erf(1.7 * u))
    other, same = stretched.realisation(**weights | {"W_star": 1.7 * weights["W_star"]}, moments=moments)
    np.testing.assert_allclose(other.spectrum.s, model.spectrum.s, rtol=0, atol=1e-9)  # quadrature and Hermite series
    for name in ("Q", "R", "T"):
        np.testing.assert_allclose(getattr(same, name), getattr(state, name), rtol=0, atol=1e-9)


def test_realisations_are_values(rng, tmp_path):
    limit = two_by_two()
    model, start = limit.realisation(**random_weights(rng, 40, 20))
    assert replace(model, eta=0.1, nodes=5).spectrum == model.spectrum
    assert replace(model, spectrum=None) == limit
    traj = ov.solve(model, start, [0, 1])
    traj.save(tmp_path / "one.npz")
    assert ov.load(tmp_path / "one.npz") == traj
    user = two_by_two(np.tanh)
    ov.solve(user, user.random_start(N=100, rng=1), [0, 1]).save(tmp_path / "user.npz")
    with pytest.raises(ValueError, match="'function tanh'; pass load"):
        ov.load(tmp_path / "user.npz")
    assert ov.load(tmp_path / "user.npz", model=user).model == user


def test_bad_realisations(rng):
    model, weights = two_by_two(), random_weights(rng, 20, 10)
    for name, wrong in (("W", np.ones((2, 10))), ("W_star", np.ones((2, 20))), ("W", np.ones((3, 20)))):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            model.realisation(**weights | {name: wrong})
    with pytest.raises(ValueError, match="F contains nan"):
        model.realisation(**weights | {"F": np.full((20, 10), np.nan)})
    with pytest.raises(ValueError, match="ratio=0.5"):
        two_by_two(ratio=0.9).realisation(**weights)
    with pytest.raises(ValueError, match="moments = 'all'"):
        model.realisation(**weights, moments="all")
    with pytest.raises(ValueError, match="nodes = 3"):
        model.realisation(**weights, nodes=3)
    one, _ = model.realisation(**weights)
    for start in (lambda: one.random_start(N=20, rng=1), lambda: limit_start(one)):
        with pytest.raises(ValueError, match="belongs to the limit spectrum"):
            start()
