"""What solutions and runs have in common: arrays that cannot be changed, errors, statistics."""

import dataclasses
import pickle

import numpy as np
import pytest

import overlaps as ov


def test_results_are_read_only_here_and_after_a_worker(results, tmp_path):
    manifold = ov.simulate(ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2), N=20, alpha=[0, 1], rng=1, runs=2)
    for result in (*results, manifold):
        result.save(tmp_path / "run.npz")
        for copy in (result, pickle.loads(pickle.dumps(result)), ov.load(tmp_path / "run.npz")):
            names = [f.name for f in dataclasses.fields(copy) if isinstance(getattr(copy, f.name), np.ndarray)]
            assert {"alpha", "v", "T"} < set(names)
            for name in (*names, "eps_g"):
                with pytest.raises(ValueError, match="read-only"):
                    getattr(copy, name)[...] = 0.0
    model = pickle.loads(pickle.dumps(results[0].model))
    with pytest.raises(ValueError, match="read-only"):
        model.v[...] = 0.0


def test_a_changed_copy_has_an_error_of_its_own(results):
    traj = results[0]
    before = traj.eps_g
    changed = dataclasses.replace(traj, v=2 * traj.v)
    expected = ov.closure(traj.model, traj.Q[-1], traj.R[-1], traj.T, 2 * traj.v[-1]).eps_g
    assert changed.eps_g[-1] == pytest.approx(expected, rel=1e-12) and changed.eps_g[-1] != before[-1]


def test_statistics_of_runs(results):
    _, sim = results
    np.testing.assert_allclose(sim.mean("Q"), sim.Q.mean(axis=0))
    np.testing.assert_allclose(sim.standard_error("eps_g"), sim.eps_g.std(axis=0, ddof=1) / np.sqrt(3))
    low, high = sim.quantile("R", [0.0, 1.0])
    assert np.all(low <= sim.mean("R")) and np.all(sim.mean("R") <= high)
    one = ov.simulate(sim.model, N=100, alpha=[0, 1], rng=1)
    with pytest.raises(ValueError, match="runs >= 2"):
        one.standard_error("Q")
