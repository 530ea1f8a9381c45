"""Stages: which models agree, which stage a time belongs to, and what is refused."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov

MODEL = ov.committee_machine(2, 2, eta=1.0, v_star=[1.0, 0.0], noise=0.2)
OTHER = dataclasses.replace(MODEL, v_star=[0.0, 1.0], noise=0.0)


def test_a_switch_belongs_to_the_stage_that_begins_there():
    stages = ov.Stages([MODEL, OTHER, MODEL], until=[1.0, 2.5, 4.0])
    np.testing.assert_array_equal(stages.index([0.0, 0.9, 1.0, 2.5, 4.0]), [0, 0, 1, 2, 2])
    assert [*stages.segments(0.5, 3.0)] == [(0, 0.5, 1.0), (1, 1.0, 2.5), (2, 2.5, 3.0)]
    assert [*stages.segments(1.0, 2.5)] == [(1, 1.0, 2.5), (2, 2.5, 2.5)]
    assert len(stages) == 3 and stages == ov.Stages((MODEL, OTHER, MODEL), [1.0, 2.5, 4.0])
    assert stages != ov.Stages((MODEL, OTHER, MODEL), [1.0, 2.0, 4.0]) and not stages.trains_v


def test_an_interval_may_end_at_a_switch():
    """Its last record belongs to the stage that begins there, as that of given times does."""
    model, other = (dataclasses.replace(x, noise=0.0, v_star=[0.7, v]) for x, v in ((MODEL, 0.2), (MODEL, -0.4)))
    stages, start = ov.Stages([model, other], until=[0.4, 1.0]), model.random_start(N=100, rng=1)
    steps, times = (ov.solve(stages, start, x) for x in ((0.0, 0.4), [0.0, 0.4]))
    assert steps.alpha[-1] == 0.4 and steps.stage[-1] == times.stage[-1] == 1
    np.testing.assert_allclose(steps.eps_g[-1], times.eps_g[-1], rtol=1e-7)


def test_heads_are_the_second_layers_of_the_models():
    stages = ov.Stages([MODEL, OTHER], [1.0, 2.0], heads=[[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal([model.v for model in stages.models], stages.heads)
    state = stages.models[0].random_start(N=100, rng=1)
    np.testing.assert_array_equal(stages.enter(1, state).v, [3.0, 4.0])


def test_factors_are_left_out_where_a_stage_has_nothing_to_multiply():
    stages = ov.Stages([MODEL, OTHER], [1.0, 2.0])
    f = ov.Schedule.cosine(2.0)
    assert stages.scheduled(0, {"eta": f, "noise": f}) == {"eta": f, "noise": f}
    assert stages.scheduled(1, {"eta": f, "noise": f}) == {"eta": f} and stages.scheduled(1, f) is f
    assert "eta_v" in stages.scheduled(0, {"eta_v": f})  # zero in all stages: refused by name when it is used


LARGER = ov.committee_machine(3, 2, eta=1.0)
SPREAD = dataclasses.replace(MODEL, spectrum=ov.power_law(beta=1.0, L=3))
EMPTY = dataclasses.replace(MODEL, spectrum=ov.Spectrum(s=[1.0, 2.0, 0.0], p=SPREAD.spectrum.p))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: ov.Stages([], []), ["models = []", "sequence"]),
        (lambda: ov.Stages(MODEL, [1.0]), ["models = ", "one for each stage"]),
        (lambda: ov.Stages([MODEL, 3], [1.0, 2.0]), ["models[1] = 3"]),
        (lambda: ov.Stages([MODEL, OTHER], [1.0]), ["until", "(2,)"]),
        (lambda: ov.Stages([MODEL, OTHER], [2.0, 1.0]), ["until = [2.0, 1.0]", "increasing"]),
        (lambda: ov.Stages([MODEL, OTHER], [0.0, 1.0]), ["until", "> 0"]),
        (lambda: ov.Stages([MODEL, OTHER], [1.0, 2.0], heads=[[1.0, 1.0]]), ["heads", "(2, 2)"]),
        (lambda: ov.Stages([MODEL, LARGER], [1.0, 2.0]), ["models[1]", "differ in K"]),
        (lambda: ov.Stages([MODEL, SPREAD], [1.0, 2.0]), ["models[1]", "differ in spectrum.p"]),
        (lambda: ov.Stages([MODEL, ov.hidden_manifold(2, 2, ratio=0.5, eta=1.0)], [1, 2]), ["models[1]", "differ in"]),
        (lambda: ov.Stages([MODEL, dataclasses.replace(MODEL, activation=ov.relu)], [1, 2]), ["differ in activation"]),
        (lambda: ov.Stages([SPREAD, EMPTY], [1.0, 2.0]), ["eigenvalues 0", "r^l is lost"]),
    ],
)
def test_what_does_not_fit_together_is_refused(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value
