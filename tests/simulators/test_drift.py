"""SGD behind teachers that drift: agreement with the flow, the law of the drift, and its own random numbers."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.simulators.direct import _TeacherDrift

MODEL = ov.committee_machine(
    2, 2, eta=1.0, noise=0.3, drift=0.3, spectrum=ov.Spectrum(s=[1.5, 0.5], p=[0.4, 0.6]), batch_size=2
)
START = MODEL.random_start(N=200, rng=3)


@pytest.mark.slow
def test_mean_over_runs_agrees_with_the_flow():
    theory = ov.solve(MODEL, START, [1.0, 4.0])
    runs = ov.simulate(MODEL, N=100, alpha=theory.alpha, rng=1, runs=60, start=START)
    assert runs.method == "direct"
    for name in ("q", "r"):
        gap = np.abs(runs.mean(name) - getattr(theory, name))
        # fluctuations over runs, and the O(1/N) bias of overlaps of order one
        assert np.all(gap < 4.5 * runs.standard_error(name) + 3 / 100), name
    still = ov.solve(dataclasses.replace(MODEL, drift=0.0), START, [4.0])
    gap = np.abs(runs.mean("R")[1] - still.R[0])
    assert np.any(gap > 4.5 * runs.standard_error("R")[1] + 3 / 100)  # what the drift does is not within the errors


def test_teachers_wander_with_their_own_overlaps():
    sizes = MODEL.spectrum.block_sizes(100)
    own = _TeacherDrift(MODEL, START, sizes, np.random.default_rng(1), "float64")
    steps = own.take(3000)
    blocks = np.split(steps, np.cumsum(sizes)[:-1], axis=2)
    for part, t in zip(blocks, START.plain[2], strict=True):
        found = np.einsum("tmi,tni->mn", part, part) / len(part) / 100
        # 2 delta / N of t^l; a mean over 3000 n_l normals
        np.testing.assert_allclose(found, 0.6 / 100 * t, rtol=0, atol=0.03 * 0.6 / 100 * np.trace(t))
    np.testing.assert_allclose(own.persistence**2 + 0.6 / 100, 1.0, rtol=1e-15)


OPTIONS = {"N": 50, "rng": 1, "start": MODEL.random_start(N=50, rng=2), "runs": 2}


def test_records_do_not_matter():
    few = ov.simulate(MODEL, alpha=[2.0], **OPTIONS)
    many = ov.simulate(MODEL, alpha=np.linspace(0.5, 2.0, 7), **OPTIONS)
    np.testing.assert_array_equal(many.r[:, -1], few.r[:, -1])


@pytest.mark.slow
def test_single_precision():
    single = ov.simulate(MODEL, alpha=[2.0], dtype="float32", **OPTIONS)
    assert np.isfinite(single.r).all()
