"""Feature maps: Gaussian averages against quadrature, second moments against sampling, quadrature and rescaling."""

import pickle

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import erf

import overlaps as ov
from overlaps.manifold.feature_map import FeatureMap, feature_map, statistics
from overlaps.manifold.realisation import normalise_feature_rows, second_moments

FUNCTIONS = {
    "sign": np.sign,
    "erf": lambda u: erf(u / np.sqrt(2)),
    "relu": lambda u: np.maximum(u, 0.0),
    "linear": lambda u: 1.0 * u,
    "abs": np.abs,
}
NAMES = list(FUNCTIONS)


def average(h):
    """E[h(z)], z ~ N(0, 1), with the origin as an edge."""

    def integrand(z):
        return h(z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    return quad(integrand, -12, 0, epsabs=1e-13)[0] + quad(integrand, 0, 12, epsabs=1e-13)[0]


def random_features(rng, N, D):
    return normalise_feature_rows(rng.standard_normal((N, D)))


@pytest.mark.parametrize("scale", [1.0, 0.6, 2.5])
@pytest.mark.parametrize("name", NAMES)
def test_named_averages_are_the_integrals(name, scale):
    f = FUNCTIONS[name]
    a, b, c = statistics(name, scale=scale)
    assert a == pytest.approx(average(lambda z: f(scale * z)), abs=1e-12)  # quad: 1e-13 on each half
    assert b == pytest.approx(average(lambda z: z * f(scale * z)), abs=1e-12)
    assert c == pytest.approx(average(lambda z: f(scale * z) ** 2), abs=1e-11)


@pytest.mark.parametrize(
    ("name", "zeta"),
    [
        ("sign", 1 - 2 / np.pi),
        ("erf", 1 / 3 - 1 / np.pi),
        ("relu", 1 / 4 - 1 / (2 * np.pi)),
        ("linear", 0),
        ("abs", 1 - 2 / np.pi),
    ],
)
def test_what_is_not_linear_in_the_features(name, zeta):
    assert feature_map(name).zeta == pytest.approx(zeta, abs=1e-15)


def test_a_user_function_by_quadrature():
    a, b, c = statistics(np.tanh)
    assert a == pytest.approx(0, abs=1e-14)
    assert (b, c) == pytest.approx((0.6057055096, 0.3942944904), abs=1e-10)  # 30-digit integration, ten digits kept
    # Stein: E[u tanh(u)] = E[1 - tanh(u)^2]
    assert b == pytest.approx(1 - c, abs=1e-12)


@pytest.mark.parametrize("kinks", [(), (0.3,)])
def test_a_jump_is_found_and_a_named_one_used(kinks):
    a, b, c = statistics(lambda u: np.where(u > 0.3, 1.0, -1.0), kinks=kinks, scale=0.5)
    tail = 0.5 * (1 - erf(0.6 / np.sqrt(2)))  # P(u > 0.3)
    assert a == pytest.approx(2 * tail - 1, abs=1e-11)
    assert b == pytest.approx(2 * np.exp(-(0.6**2) / 2) / np.sqrt(2 * np.pi), abs=1e-11)
    assert c == pytest.approx(1, abs=1e-11)


def test_activations_are_feature_maps_too():
    assert feature_map(ov.leaky_relu(0.2)).name == "leaky_relu(0.2)"
    assert statistics(ov.leaky_relu(0.2)).b == pytest.approx(0.6, abs=1e-12)
    assert statistics(ov.relu) == pytest.approx(statistics("relu"), abs=1e-12)


def test_feature_maps_are_values():
    f = feature_map("relu", scale=0.5)
    assert pickle.loads(pickle.dumps(f)) == f != feature_map("relu")
    assert f(np.array([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert feature_map(f, scale=1.0) == feature_map("relu")
    assert feature_map(lambda u: u).zeta == 0.0  # rounding is not a non-linear part


@pytest.mark.parametrize("shift", [3.0, -3e5, 1e9])
@pytest.mark.parametrize("f", [np.sign, lambda u: np.tanh(3 * u - 1)])
def test_a_constant_does_not_hide_what_is_not_linear(f, shift):
    # zeta and b do not know the mean; f itself is rounded to eps |shift|
    plain, moved = statistics(f, kinks=[0.0]), statistics(lambda u: f(u) + shift, kinks=[0.0])
    rounding = 1e-11 + 10 * np.finfo(float).eps * abs(shift)
    assert moved.a == pytest.approx(plain.a + shift, rel=1e-14)
    assert (moved.b, moved.zeta) == pytest.approx((plain.b, plain.zeta), abs=rounding)
    assert pickle.loads(pickle.dumps(moved)).zeta == moved.zeta
    assert statistics(lambda u: 2 * u + shift).zeta == 0.0  # rounding is not a non-linear part


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ("sgn", {}, "expected one of sign, erf, relu, linear, abs"),
        (3.0, {}, "function"),
        (lambda u: float(np.sum(u)), {}, "shape"),
        (lambda u: np.ones_like(u), {}, "is constant"),
        (lambda u: np.full_like(u, 3e5), {}, "is constant"),
        (lambda u: u * np.exp(u * u / 4), {}, "grow too fast"),  # E f^2 is infinite
        ("sign", {"kinks": [0.0]}, "kinks"),
        ("sign", {"scale": 0.0}, "latent_scale = 0.0"),
        (np.tanh, {"kinks": [np.nan]}, "kinks contains nan"),
    ],
)
def test_bad_features(features, options, message):
    with pytest.raises(ValueError, match=message):
        statistics(features, **options)


# second moments ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["sign", "erf", "relu", "abs"])
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
