"""Quenched pre-activation biases: coefficients in closed form, symmetries, draws, bad input."""

import numpy as np
import pytest

from overlaps.static import SpikedRandomFeatures

TWO = {"r": (0.8, 1.5), "c": (1.0, 1.3), "gamma": 0.9, "beta": 0.8, "fractions": (0.4, 0.6), "offset": (1.1, -0.6)}
POINT = {"alpha": 1.5, "lam": 0.05}


def target(x):
    return x + 0.5 * (x * x - 1)


def test_coefficients_of_the_sine():
    """E sin(rk + s + sqrt(c) z) and its like are elementary."""
    table = SpikedRandomFeatures(np.sin, np.sin, **TWO).coefficients
    for b, (r, c, s) in enumerate(zip(TWO["r"], TWO["c"], TWO["offset"], strict=True)):
        x = r * table.k + s
        assert np.allclose(table.mu0[b], np.exp(-c / 2) * np.sin(x), rtol=0, atol=1e-12)
        assert np.allclose(table.mu1[b], np.exp(-c / 2) * np.cos(x), rtol=0, atol=1e-12)
        second = (1 - np.exp(-2 * c) * np.cos(2 * x)) / 2
        rest = second - table.mu0[b] ** 2 - c * table.mu1[b] ** 2
        assert np.allclose(table.mu2_squared[b], rest, rtol=0, atol=1e-12)


def test_an_offset_is_another_student():
    """sigma(x + s) with one s for all; and an odd student is the same with both signs turned."""
    one = {"r": 1.2, "c": 1.1, "gamma": 0.9, "beta": 0.8}
    found = SpikedRandomFeatures(np.tanh, target, offset=0.7, **one).solve(**POINT, d=300)
    shifted = SpikedRandomFeatures(lambda x: np.tanh(x + 0.7), target, **one).solve(**POINT, d=300)
    assert found.mse == pytest.approx(shifted.mse, rel=1e-9) and found.theta == pytest.approx(shifted.theta, rel=1e-7)
    turned = {**TWO, "r": (-0.8, 1.5), "offset": (-1.1, -0.6)}
    pair = [SpikedRandomFeatures(np.tanh, target, **x).solve(**POINT).mse for x in (TWO, turned)]
    assert pair[0] == pytest.approx(pair[1], rel=1e-9)


def test_even_parts_of_targets_need_biases():
    """An odd student without them cannot learn x^2 - 1 along its spike, whatever the number of letters."""
    without = SpikedRandomFeatures(np.tanh, target, **{**TWO, "offset": 0.0})
    assert (
        without.bounds().lower
        > 0.49
        > 5 * SpikedRandomFeatures(np.tanh, target, **{**TWO, "gamma": 1.0}).bounds().lower
    )


@pytest.mark.parametrize("d, draws", [(100, 30), pytest.param(300, 12, marks=pytest.mark.slow)])
def test_draws(d, draws):
    """4 standard errors, and 3 % for other terms of order 1/d."""
    model = SpikedRandomFeatures(np.tanh, target, **TWO)
    theory, runs = model.solve(**POINT, d=d), model.simulate(**POINT, d=d, rng=3, draws=draws)
    for name in ("mse", "q2", "train"):
        expected = np.sum(getattr(theory, name))
        assert abs(runs.mean(name) - expected) < 4 * runs.error(name) + 0.03 * expected, name


def test_offsets_that_cannot_be():
    for bad in ("a", np.nan, (1.0, 2.0, 3.0)):
        with pytest.raises(ValueError, match="offset"):
            SpikedRandomFeatures(np.tanh, np.sin, **{**TWO, "offset": bad})
    with pytest.raises(ValueError, match="more than one spike"):
        SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=1.0, alpha0=1.0, beta=1.0, offset=0.5)
    with pytest.raises(ValueError, match="Several go with r as a sequence"):
        SpikedRandomFeatures(np.tanh, np.sin, r=1.0, gamma=1.0, beta=1.0, offset=(0.1, 0.2))
