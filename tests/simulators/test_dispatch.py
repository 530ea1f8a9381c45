"""Specifications of runs: models of a user's class, other models, and options that simulate does not have."""

import dataclasses
from functools import partial

import numpy as np
import pytest

import overlaps as ov
from overlaps.simulators.direct import direct_run
from overlaps.simulators.dispatch import SimulationSpec, ensemble, specify


class Dimmed(ov.Model):
    """Linear units whose inputs come through a device, x -> gain x, for students and teachers."""

    gain: float = 1.0


@specify.register
def specify_dimmed(model: Dimmed, N, children, start, method, student_scale, dtype, *, offset=0.0):
    bright = dataclasses.replace(model, eta=model.eta * model.gain**2)  # what the device takes from a linear unit
    run = partial(brightened, bright=bright, offset=offset)
    return SimulationSpec("dimmed", run, [start.on(model)] * len(children), ensemble)


def brightened(model, *arguments, bright, offset):
    q, r, v = direct_run(bright, *arguments)
    return q, r, v + offset


def test_a_model_from_outside_brings_its_plan(tmp_path):
    """Its simulator, its option and its record; and a file knows its kind."""
    options = dict(activation=ov.linear, v=[0.5, 1.5], v_star=[1.0, 0.5, 2.0], spectrum=ov.power_law(beta=1.0, L=2))
    plain = ov.committee_machine(2, 3, eta=0.1, **options)
    fields = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
    own = Dimmed(**fields | {"eta": 0.4}, gain=0.5)
    rest = dict(N=50, alpha=[0.0, 1.0, 2.0], rng=2, start=plain.random_start(N=50, rng=1))
    expected = ov.simulate(plain, method="direct", **rest)
    runs = ov.simulate(own, offset=0.125, **rest)
    assert runs.method == "dimmed" and runs.model is own
    np.testing.assert_allclose(runs.q, expected.q, rtol=1e-14)
    np.testing.assert_array_equal(runs.v, expected.v + 0.125)
    runs.save(tmp_path / "runs.npz")
    assert ov.load(tmp_path / "runs.npz") == runs == ov.load(tmp_path / "runs.npz", model=own)
    with pytest.raises(ValueError, match="expected the Dimmed that was saved"):
        ov.load(tmp_path / "runs.npz", model=plain)
    with pytest.raises(ValueError, match=r"gain = 0.25, the file 0.5"):
        ov.load(tmp_path / "runs.npz", model=dataclasses.replace(own, gain=0.25))


def test_options_that_a_model_has_not_are_refused_with_those_it_has():
    models = ov.committee_machine(1, 1, eta=0.5), ov.hidden_manifold(1, 1, ratio=0.5, nodes=3, eta=0.5)
    rest = dict(N=20, alpha=(0, 1), rng=1)
    with pytest.raises(
        ValueError, match="latents, center belong to HiddenManifold; expected for a Model: rows, rows_test"
    ):
        ov.simulate(models[0], latents=len, center=True, **rest)
    with pytest.raises(ValueError, match="offset belong to Dimmed; expected for a HiddenManifold: weights, latents"):
        ov.simulate(models[1], offset=0.0, **rest)
    for model in models:
        with pytest.raises(TypeError, match=r"no option run; expected for a .*: "):
            ov.simulate(model, run=3, **rest)
