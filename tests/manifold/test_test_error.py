"""What fresh samples say of runs on the hidden manifold: their error, and whether the closed forms hold."""

import dataclasses

import numpy as np
import pytest
from helpers import few
from manifolds import manifold
from matplotlib import pyplot as plt

import overlaps as ov
from overlaps.manifold import latents, test_error
from overlaps.manifold.weights import random_weights


@pytest.mark.filterwarnings("ignore:at alpha")  # the other warning is the subject of another test
def test_the_error_on_fresh_samples_is_the_obvious_average(rng):
    """At the start, where the weights are known, on a law that is no mixture of this library: heavy tails, a shift."""
    N, D, n = 60, 30, 40_000
    model = manifold(ov.relu, features="relu", noise=0.4)
    W, W_star, F = weights = random_weights(model, N=N, rng=rng)

    def law(rng, n, D):
        return 0.3 + 0.8 * rng.standard_t(8, (n, D))

    with pytest.warns(RuntimeWarning, match="change the moments of the fields by up to"):
        runs = ov.simulate(model, N=N, alpha=[0, 0.5], rng=1, runs=2, weights=weights, latents=law, test=6000, chunk=77)
    c = law(rng, n, D)
    x = np.maximum(c @ F.T / np.sqrt(D), 0) - 1 / np.sqrt(2 * np.pi)
    delta = np.maximum(x @ W.T / np.sqrt(N), 0) @ model.v - np.maximum(c @ W_star.T / np.sqrt(D), 0) @ model.v_star
    truth, scatter = np.mean(delta**2 / 2), np.std(delta**2 / 2)
    assert np.all(np.abs(runs.test_error[:, 0] - truth) < 4 * scatter / np.sqrt(6000))
    np.testing.assert_allclose(runs.test_error_se[:, 0], scatter / np.sqrt(6000), rtol=0.2)  # tails: 5 % a set
    assert runs.test_error[0, 0] != runs.test_error[1, 0]  # a set for every run


def test_the_standard_error_is_the_spread_of_errors_of_many_sets(rng):
    """400 sets of 50 samples: a standard deviation is known to 3.5 %, the mean square of the errors to less."""
    model = manifold()
    weights = random_weights(model, N=40, rng=rng)
    samples = test_error.feature_samples(model, weights, latents.gaussian())
    one = np.array(model.v)[None]
    mean, se = np.array(
        [test_error.sample_error(model, samples, weights.W[None], one, 50, 50, rng) for _ in range(400)]
    ).T[0]
    assert np.sqrt(np.mean(se**2)) == pytest.approx(mean.std(ddof=1), rel=0.14)


def test_few_samples_of_the_right_law_deviate_by_their_scatter_alone(rng):
    """Second moments of 60 samples are off by 20 %, which says nothing; 2.25 times the variance is more, and does."""
    S, W = np.array([[0.7, 0.2], [0.2, 1.3]]), np.array([[np.sqrt(2), 0.0]])

    def law(scale):
        root = scale * np.linalg.cholesky(S)
        return lambda rng, n: np.split((rng.standard_normal((n, 2)) @ root.T)[:, [0, 0, 1]], [2], axis=1)

    assert test_error.field_deviation(law(1.0), W, S, 60, 25, rng) == 0.0
    assert test_error.field_deviation(law(1.5), W, S, 4000, 999, rng) == pytest.approx(1.25, rel=0.15)  # errors of 0.05


def test_errors_of_many_runs_are_told_apart_better_than_those_of_one():
    """A gap of two standard errors of one run is eight of the mean of sixteen."""
    gap, se = np.array([0.3, 0.5]), 0.05 * np.ones((16, 2))
    eps_g, error = np.tile(gap, (16, 1)), np.tile(gap + 0.1, (16, 1))
    test_error.warn_of_errors(np.array([0.0, 2.0]), eps_g[:1], error[:1], se[:1])  # a warning would fail the test
    with pytest.warns(RuntimeWarning, match=r"test_error = 0.6 \+- 0.01, but eps_g = 0.5"):
        test_error.warn_of_errors(np.array([0.0, 2.0]), eps_g, error, se)


@few("student", [ov.erf, dataclasses.replace(ov.erf, name="mine", code=-1)], quick=1, ids=["erf", "user"])
def test_gaussian_latents_have_the_error_of_the_closed_form(student):
    model = manifold(student)
    options = dict(N=200, alpha=[0, 2, 4], rng=2, runs=2)
    runs = ov.simulate(model, test=3000, **options)
    assert np.all(np.abs(runs.test_error - runs.eps_g) < 4 * runs.test_error_se)
    assert np.all(runs.test_error_se < 0.03 * runs.test_error)
    untested = ov.simulate(model, **options)
    assert untested.test_error is None and np.array_equal(untested.Q, runs.Q)  # the runs do not know of the test
    with pytest.raises(ValueError, match="simulate with test=4096"):
        untested.mean("test_error")


@pytest.mark.parametrize("kind, standardise", [("elementwise", "population"), ("shared", "sample")])
def test_mixtures_that_follow_the_theory_are_passed_in_silence(kind, standardise):
    law = latents.mixture(kind=kind, means=[-3.0, 2.0], standardise=standardise)
    runs = ov.simulate(manifold(), N=200, alpha=[0, 20], rng=3, latents=law)  # a warning would fail the test
    assert np.all(np.abs(runs.test_error - runs.eps_g) < 5 * runs.test_error_se)


@pytest.mark.slow
def test_mixtures_that_do_not_are_named_with_both_errors(tmp_path):
    """One component for all coordinates: the closed form reads failure where the network succeeds."""
    law = latents.mixture(kind="shared", means=[-3.0, 3.0], standardise="population")
    with pytest.warns(RuntimeWarning) as record:
        runs = ov.simulate(manifold(), N=100, alpha=[0, 20], rng=3, runs=2, latents=law)
    first, second = (str(warning.message) for warning in record)
    assert "Mixture(kind='shared'" in first and "change the moments of the fields by up to" in first
    measured, closed = runs.mean("test_error")[-1], runs.mean("eps_g")[-1]
    assert f"test_error = {measured:.3g}" in second and f"eps_g = {closed:.3g}" in second
    assert record[0].filename == record[1].filename == __file__
    assert measured < 0.2 * closed
    runs.save(tmp_path / "runs.npz")
    assert ov.load(tmp_path / "runs.npz") == runs
    data = runs.to_xarray()
    assert data.test_error.dims == ("run", "alpha") and np.array_equal(data.test_error_se, runs.test_error_se)
    assert [line.get_label() for line in runs.plot()[0].lines][1] == "error on fresh samples"
    plt.close("all")
