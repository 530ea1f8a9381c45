"""Learning times of quadratic networks, and the learning rate that makes them short."""

import numpy as np
import pytest

import overlaps as ov
from overlaps.theory import quadratic


@pytest.mark.slow
def test_half_loss_times():
    """K = M = 3, eps = 0.01, 20 random starts. Other starts than the table's: the spread of ln|R(0)| / rate is 5 %."""
    R = 0.01 * np.random.default_rng(5).standard_normal((20, 3, 3))
    table = {0.02: 241.9, 0.10: 54.5, 0.20: 33.3, 0.24: 30.9, 0.28: 30.40, 0.36: 36.7, 0.40: 49.5}
    times = []
    for eta in table:
        model = ov.quadratic_network(3, 3, eta=quadratic.eta_from_paper(eta))
        starts = [ov.State.from_overlaps(model, Q=np.eye(3), R=r, T=np.eye(3)) for r in R]
        times.append(np.mean([quadratic.half_loss_time(model, s) for s in starts]))
    np.testing.assert_allclose(times, list(table.values()), rtol=0.05)
    assert np.argmin(times) == 4  # 0.28
    eta, best = quadratic.eta_fastest(3, 3, eps=0.01, rng=5, rtol=0.01)
    assert best <= min(times) * (1 + 1e-4) and 0.26 < eta / 2 < 0.29
    assert 0.85 < eta / quadratic.eta_escape(3, 3) < 0.97


def test_half_loss_time_of_a_diverging_run_is_infinite():
    model = ov.quadratic_network(1, 1, eta=2 * quadratic.eta_plateau(1, 1))
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.01]], T=[[1.0]])
    assert quadratic.half_loss_time(model, start, alpha_max=200.0) == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadratic.eta_fastest(2, 3, eps=0.1, rng=0), "no zero-error solution"),
        (lambda: quadratic.eta_fastest(2, 1, eps=5.0, rng=0), "not positive semi-definite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_time_of_half_the_loss_is_that_of_the_trajectory():
    """On a dense grid; a network whose loss at rest is above one half never gets there."""
    model = ov.quadratic_network(2, 1, eta=0.1, noise=0.3)
    start = ov.State.from_overlaps(model, Q=[[0.4, 0.1], [0.1, 0.3]], R=[[0.2], [0.05]], T=[[1.0]])
    alpha = np.linspace(0, 60, 6001)
    eps_g = ov.solve(model, start, alpha).eps_g
    first = alpha[np.argmax(eps_g <= eps_g[0] / 2)]
    assert first - 0.01 < quadratic.half_loss_time(model, start) <= first  # the spacing of the grid
    assert quadratic.half_loss_time(model, start, alpha_max=first / 2) == np.inf
