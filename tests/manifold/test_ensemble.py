"""Records of runs on the hidden manifold: their weights, their realisations, means, files and pictures."""

import pickle

import numpy as np
import pytest
from manifolds import manifold
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.manifold.weights import random_weights


@pytest.mark.parametrize("moments", ["ge", "exact"])
def test_the_first_record_is_the_realisation(moments):
    model = manifold(features="relu", ratio=0.4, latent_scale=1.5)
    sim = ov.simulate(model, N=50, alpha=[0, 1], rng=3, runs=2, moments=moments)
    for run in range(2):
        own, start = sim.realisation(run)
        for name in ("Q", "R", "T"):
            recorded = getattr(sim, name)[run] if name == "T" else getattr(sim, name)[run, 0]
            # W starts in single precision: 6e-8 in 50 entries of order one
            np.testing.assert_allclose(recorded, getattr(start, name), atol=1e-6)
        c = ov.closure(own, sim.Q[run, 1], sim.R[run, 1], sim.T[run], sim.v[run, 1])
        assert sim.eps_g[run, 1] == pytest.approx(c.eps_g, rel=1e-12)


def test_runs_are_averaged_drawn_saved_and_labelled(tmp_path):
    model = manifold()
    runs = ov.simulate(model, N=60, alpha=[0, 1, 2], rng=1, runs=3)
    runs.save(tmp_path / "runs.npz")
    again = ov.load(tmp_path / "runs.npz")
    assert again == runs and type(again) is ov.results.ManifoldEnsemble
    assert again.realisation(1)[1] == runs.realisation(1)[1]
    np.testing.assert_allclose(runs.mean("Q"), runs.Q.mean(axis=0))
    np.testing.assert_allclose(runs.standard_error("eps_g"), runs.eps_g.std(axis=0, ddof=1) / np.sqrt(3))
    with pytest.raises(ValueError, match="name = 'q'; expected one of 'Q', 'R', 'v', 'eps_g'"):
        runs.mean("q")
    assert len(runs.plot()[0].lines) > 0
    plt.close("all")
    data = runs.to_xarray()
    assert data.R.dims == ("run", "alpha", "k", "m") and set(data.data_vars) == {"eps_g", "Q", "R", "v", "T"}
    assert repr(runs).startswith("ManifoldEnsemble(HiddenManifold(K=2") and len(pickle.loads(pickle.dumps(runs))) == 3


def test_runs_with_common_weights_share_their_memory():
    model = manifold()
    runs = ov.simulate(model, N=60, alpha=[0, 1], rng=1, runs=3, weights=random_weights(model, N=60, rng=1))
    assert runs.F.shape == (3, 60, 30) and runs.F.strides[0] == 0
    assert not np.array_equal(runs.v[0], runs.v[1])


def test_runs_share_features_where_they_are_told_to(tmp_path):
    model = manifold(ratio=0.4)
    options = dict(N=50, alpha=[0, 1], rng=1)
    alone, one, shared = (
        ov.simulate(model, runs=n, share_features=share, **options) for n, share in ((3, False), (2, True), (3, True))
    )
    assert shared.F.shape == (3, 50, 20) and shared.F.strides[0] == 0 and alone.F.strides[0] > 0
    np.testing.assert_array_equal(shared.F[2], alone.F[0])
    np.testing.assert_array_equal(shared.Q[:2], one.Q)  # whatever the number of runs
    np.testing.assert_array_equal(shared.W, alone.W)  # students and teachers of their own
    np.testing.assert_array_equal(shared.W_star, alone.W_star)
    assert len(np.unique(shared.T[:, 0, 0])) == 3 and not np.array_equal(shared.Q[1:], alone.Q[1:])
    for run in range(3):
        np.testing.assert_allclose(shared.realisation(run)[1].Q, shared.Q[run, 0], rtol=0, atol=1e-6)  # float32
    again = ov.simulate(model, runs=3, weights=[shared.weights(i) for i in range(3)], **options)
    assert again.F.strides[0] > 0  # three views are three arrays
    F = shared.F[0]
    again = ov.simulate(model, runs=3, weights=[(*shared.weights(i)[:2], F) for i in range(3)], **options)
    assert again.F.strides[0] == 0
    np.testing.assert_allclose(again.Q, shared.Q, rtol=1e-5)  # rows of F normalised a second time
    for runs in (shared, alone):
        runs.save(tmp_path / "runs.npz")
        loaded = ov.load(tmp_path / "runs.npz")
        assert loaded == runs and (loaded.F.strides[0] == 0) == (runs is shared)
    with pytest.raises(ValueError, match="share_features=True with weights="):
        ov.simulate(model, runs=3, weights=shared.weights(0), share_features=True, **options)
