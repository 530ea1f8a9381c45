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
    assert again == runs and type(again) is ov.ManifoldEnsemble and again.realisation(1)[1] == runs.realisation(1)[1]
    np.testing.assert_allclose(runs.mean("Q"), runs.Q.mean(axis=0))
    np.testing.assert_allclose(runs.standard_error("eps_g"), runs.eps_g.std(axis=0, ddof=1) / np.sqrt(3))
    with pytest.raises(ValueError, match="name = 'q'; expected one of Q, R, v, eps_g"):
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
