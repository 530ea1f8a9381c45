"""Schedules as functions of the learning time, and what is refused before any run."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.models.schedule import ScheduleEvaluator

S = ov.Schedule


def test_shapes_are_the_functions_they_name():
    t = np.array([0.0, 1.0, 2.5, 4.0, 7.0, 11.0])
    np.testing.assert_allclose(S([1, 4, 8], [2.0, 0.5, 1.0])(t), np.interp(t, [1, 4, 8], [2.0, 0.5, 1.0]), rtol=1e-15)
    np.testing.assert_array_equal(S([1, 4], [2.0, 0.5], "constant")(t), [2, 2, 2, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(S.step([1.0, 4.0], [2.0, 0.5])(t), [1, 2, 2, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(S.step([0.0, 4.0], [2.0, 0.5])(t), [2, 2, 2, 0.5, 0.5, 0.5])
    cosine = 0.2 + 0.8 * (1 + np.cos(np.pi * np.clip(t - 1, 0, 6) / 6)) / 2
    np.testing.assert_allclose(S.cosine(7.0, begin=1.0, last=0.2)(t), cosine, rtol=1e-14)
    np.testing.assert_allclose(
        S.power(0.5, scale=3.0, begin=2.0)(t), (1 + np.maximum(t - 2, 0) / 3) ** -0.5, rtol=1e-15
    )
    falling = 0.2 + 0.8 * np.clip((7 - t) / 6, 0, 1) ** 1.5
    np.testing.assert_allclose(S.polynomial(7.0, 1.5, begin=1.0, last=0.2)(t), falling, rtol=1e-15)
    np.testing.assert_allclose(S.polynomial(7.0)(t), S([0.0, 7.0], [1.0, 0.0])(t), rtol=1e-15)
    np.testing.assert_allclose(S.warmup(4.0, first=0.2)(t), np.minimum(0.2 + 0.2 * t, 1.0), rtol=1e-15)
    np.testing.assert_array_equal(S.constant(0.3)(t), 0.3)
    f = S.from_function(lambda a: 1 / (1 + a), knots=[3.0])
    product = f * S.step([4.0], [0.1]) * S.cosine(10.0)
    np.testing.assert_allclose(product(t), f(t) * S.step([4.0], [0.1])(t) * S.cosine(10.0)(t), rtol=1e-15)
    np.testing.assert_array_equal(product.knots, [0.0, 3.0, 4.0, 10.0])
    np.testing.assert_array_equal(product.jumps, [3.0, 4.0])
    assert isinstance(f(2.0), float) and f(np.ones((2, 3))).shape == (2, 3)


def test_equality_asks_for_kind_knots_values_and_the_same_function():
    f, g = (S.from_function(lambda a: 1.0) for _ in range(2))
    assert S.cosine(3.0) == S([0.0, 3.0], [1.0, 0.0], "cosine") != S([0.0, 3.0], [1.0, 0.0])
    assert f == f and f != g
    assert S.warmup(2.0) * S.cosine(9.0) == S.warmup(2.0) * S.cosine(9.0) != S.cosine(9.0) * S.warmup(2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        f.kind = "linear"


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: S([0, 2, 1], [1, 1, 1]), ["knots", "increasing"]),
        (lambda: S([0, 1], [1.0]), ["values has 1", "2 knots"]),
        (lambda: S([], []), ["values has 0"]),
        (lambda: S([0, 1], [1.0, -0.1]), ["values", "-0.1", ">= 0"]),
        (lambda: S([0, 1], [1.0, np.inf]), ["values", "inf"]),
        (lambda: S([0, 1], [1.0, 1.0], "cubic"), ["kind = 'cubic'"]),
        (lambda: S([0.0], [1.0], "polynomial"), ["kind = 'polynomial'", "Schedule.power, .polynomial"]),
        (lambda: S([0.0, 10.0], [1.0, 0.1], "polynomial"), ["kind = 'polynomial'", "Schedule.power, .polynomial"]),
        (lambda: S([0.0], [1.0], "power"), ["kind = 'power'; expected one of 'constant', 'linear', 'cosine'"]),
        (lambda: S([0.0], [1.0, 0.0], "power"), ["kind = 'power'"]),
        (lambda: S([0.0, 1.0], [1.0, 1.0], "product"), ["kind = 'product'"]),
        (lambda: S([0.0, 1.0], [1.0, 1.0], "function"), ["kind = 'function'"]),
        (lambda: S.power(1.0, scale=0.0), ["scale = 0"]),
        (lambda: S.polynomial(3.0, -1.0), ["exponent = -1"]),
        (lambda: S.polynomial(3.0, begin=3.0), ["begin = 3", "end = 3", "begin < end"]),
        (lambda: S.from_function(3.0), ["f = 3.0", "function of alpha"]),
        (lambda: ScheduleEvaluator(MODEL, 0.5), ["schedule = 0.5", "ov.Schedule.cosine", "batch_size"]),
        (lambda: ScheduleEvaluator(MODEL, {"eta": 0.5}), ["schedule['eta'] = 0.5"]),
        (lambda: ScheduleEvaluator(MODEL, {"rate": S.constant()}), ["'rate'", "'weight_decay'", "'eta_v'"]),
        (lambda: ScheduleEvaluator(MODEL, {"noise": S.constant()}), ["noise is 0 in the model", "noise=0.1"]),
        (lambda: ScheduleEvaluator(MODEL, {"eta_v": S.constant()}), ["eta_v is 0 in the model"]),
        (
            lambda: ScheduleEvaluator(MODEL, S.from_function(lambda a: 3 - a)).probe(0, 9),
            ["factor of eta", "at alpha = 3", ">= 0"],
        ),
        (lambda: ScheduleEvaluator(MODEL, {"batch_size": S([0, 9], [1, 0])}).probe(0, 9), ["batch_size is 0", "> 0"]),
    ],
)
def test_bad_schedules_are_refused_with_a_remedy(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value


MODEL = ov.committee_machine(2, 1, eta=0.5)


def test_factors_by_name():
    model = dataclasses.replace(MODEL, eta_v=0.1, noise=0.3, weight_decay=0.2)
    evaluator = ScheduleEvaluator(model, {"noise": S.warmup(4.0), "batch_size": S.step([1.0], [3.0])})
    np.testing.assert_allclose(evaluator.factors(2.0), [1, 1, 0.5, 1, 3])
    np.testing.assert_allclose(ScheduleEvaluator(model, S.warmup(4.0)).factors(1.0), [0.25, 0.25, 1, 1, 1])
    table = evaluator.steps(7, 3, 4)  # steps 7, 8, 9 at N = 4
    np.testing.assert_allclose(table.T, [evaluator.factors(n / 4) for n in (7, 8, 9)])
    np.testing.assert_allclose(evaluator.probe(0.0, 2.0), [1, 1, 0.5, 1, 3])
