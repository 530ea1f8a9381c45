"""The learning rate of least test error: against a grid, draws on both sides of it, limits, bad input."""

import math

import numpy as np
import pytest

from overlaps.static import SpikedRandomFeatures, best_step, bounds_over_rate

STEP = {"alpha0": 2.0, "beta": 0.7}
POINT = {"alpha": 1.5, "lam": 0.1}


def errors(rates, d, **options):
    models = [SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=x, **STEP | options) for x in rates]
    return np.array([model.solve(**POINT, d=d).mse for model in models])


@pytest.mark.slow
def test_minimum_on_a_fine_grid():
    """A parabola through three points of a grid of 2 % has its minimum within 1 % of the error's."""
    for d, options in ((200, {}), (math.inf, {"noise": 0.3, "scaling": "p"})):
        best = best_step(np.tanh, np.sin, **STEP, **POINT, d=d, **options)
        assert best.message == "a minimum" and best.mse <= best.errors.min()
        grid = best.eta_tilde * np.array([0.96, 0.98, 1.0, 1.02, 1.04])
        around = errors(grid, d, **options)
        assert np.argmin(around) == 2 and around[2] == best.mse
        top = np.polyfit(np.log(grid / best.eta_tilde), around, 2)
        assert abs(top[1] / (2 * top[0])) < 0.01
        assert best.model.solve(**POINT, d=d).mse == best.mse


@pytest.mark.slow
def test_draws_on_both_sides():
    """At d = 100 half and twice the best rate are worse, in theory and in 30 draws; and the errors agree."""
    d, draws = 100, 30
    best = best_step(np.tanh, np.sin, **STEP, **POINT, d=d)
    rates = best.eta_tilde * np.array([0.3, 1.0, 3.0])
    theory, runs = errors(rates, d), []
    for rate in rates:
        model = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=rate, **STEP)
        runs.append(model.simulate(**POINT, d=d, rng=3, draws=draws))
    for expected, run in zip(theory, runs, strict=True):
        assert abs(run.mean() - expected) < 4 * run.error() + 0.02 * expected  # terms of order 1/d
    for side in (0, 2):  # the same rows and data
        gain = runs[side].mse - runs[1].mse
        assert gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(draws)


@pytest.mark.slow
def test_best_penalty_at_each_rate():
    rates = np.geomspace(0.5, 4.0, 3)
    best = best_step(np.tanh, np.sin, **STEP, alpha=1.5, rates=rates, d=200)
    assert best.mse < best_step(np.tanh, np.sin, **STEP, **POINT, rates=rates, d=200).mse
    assert best.model.optimal_lam(1.5, 200).lam == pytest.approx(best.lam, rel=1e-12)
    assert best.mse == pytest.approx(best.model.solve(alpha=1.5, lam=best.lam, d=200).mse, rel=1e-9)


@pytest.mark.slow
def test_strong_ridge_finds_the_rate_of_the_upper_bound():
    """As lam -> infinity the error is the upper bound, whose best spike is known; d -> infinity, perfect alignment."""
    best = best_step(np.tanh, np.sin, alpha0=math.inf, beta=0.7, alpha=1.0, lam=1e7, scaling="p")
    bound = bounds_over_rate(np.tanh, np.sin)
    assert best.eta_tilde == pytest.approx(bound.tau_upper, rel=1e-3)
    assert best.mse == pytest.approx(bound.upper, rel=1e-5)


def test_ends_are_said():
    low = best_step(np.tanh, np.sin, **STEP, **POINT, rates=[5.0, 7.0, 9.0])
    high = best_step(np.tanh, np.sin, **STEP, **POINT, rates=[0.2, 0.1, 0.3], d=100)
    assert "smallest" in low.message and low.eta_tilde == 5.0
    assert "largest" in high.message and high.eta_tilde == 0.3 and high.rates.tolist() == [0.1, 0.2, 0.3]
    assert "largest" in repr(high)


@pytest.mark.slow
def test_small_batches_want_small_steps():
    """The bulk that few samples leave is noise: at alpha0 = 0.3 the best spike is far weaker than at 30."""
    few, many = (best_step(np.tanh, np.sin, alpha0=x, beta=0.7, **POINT, d=300) for x in (0.3, 30.0))
    assert few.model.r < 0.5 * many.model.r and few.mse > 3 * many.mse


@pytest.mark.parametrize(
    "options, text",
    [
        ({"alpha0": 0}, "alpha0 = 0 is no step"),
        ({"rates": [1.0, 2.0]}, "at least 3 learning rates"),
        ({"rates": [0.0, 1.0, 2.0]}, "at least 3 learning rates > 0"),
        ({"alpha": -1.0}, "alpha = -1"),
        ({"lam": 0.0}, "lam = 0"),
        ({"d": 0.5}, "d = 0.5 leaves"),
        ({"beta": 0}, "beta = 0"),
    ],
)
def test_bad_input(options, text):
    with pytest.raises(ValueError, match=text):
        best_step(np.tanh, np.sin, **STEP | POINT | options)
