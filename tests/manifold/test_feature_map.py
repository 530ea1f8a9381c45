"""Feature maps: Gaussian averages against quadrature."""

import pickle

import numpy as np
import pytest
from manifolds import FUNCTIONS, NAMES, average
from scipy.special import erf

import overlaps as ov
from overlaps.manifold.feature_map import feature_map, statistics


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
    assert moved.c == pytest.approx(plain.c + 2 * shift * plain.a + shift**2, rel=1e-12)
    assert pickle.loads(pickle.dumps(moved)).zeta == moved.zeta
    assert statistics(lambda u: 2 * u + shift).zeta == 0.0  # rounding is not a non-linear part


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ("sgn", {}, "expected one of .sign., .erf., .relu., .linear., .abs."),
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
