"""Quenched pre-activation biases: coefficients in closed form, symmetries, draws, bad input."""

import numpy as np
import pytest
from helpers import few
from scipy.optimize import minimize_scalar

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


# a bias trained with the readout


def test_learned_bias_of_draws():
    """The bias of least training objective of each draw, p (kappa train + lam q2): mean within 4 standard errors.

    Draws scatter by a few per cent at d = 200; the objective itself is met to 3 %.
    """
    model = SpikedRandomFeatures(np.tanh, target, r=1.2, c=1.1, gamma=0.9, beta=0.6)
    d, alpha, lam = 200, 3.0, 0.3
    theory = model.learn_offset(alpha=alpha, lam=lam, d=d, offsets=np.linspace(-3, 0, 16))
    assert theory.message == "the least of the objective"
    p, n, found = 120, 600, []
    for rng in np.random.default_rng(4).spawn(12):
        v = np.eye(d)[0]
        W = rng.standard_normal((p, d))
        W = model.r * v + np.sqrt(model.c) * W / np.linalg.norm(W, axis=1, keepdims=True)
        x = rng.standard_normal((n, d))
        y = target(0.9 * x[:, 0] + np.sqrt(1 - 0.81) * x[:, 1])

        def objective(s, pre=x @ W.T, y=y):
            X = np.tanh(pre + s) / np.sqrt(p)
            a = np.linalg.solve(X.T @ X + lam * np.eye(p), X.T @ y)
            return (np.sum((y - X @ a) ** 2) + lam * a @ a) / p

        least = minimize_scalar(objective, bounds=(theory.offset - 0.8, theory.offset + 0.8), method="bounded")
        found.append((least.x, least.fun))
    for values, expected in zip(np.transpose(found), (theory.offset, theory.objective), strict=True):
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 4 * error + 0.03 * abs(expected), (values.mean(), error, expected)


def test_bound_of_a_bias_that_makes_the_target():
    """A sine with the right bias is the target, (132) vanishes there; without it the bound is that of `bounds`."""

    def shifted(x):
        return np.sin(1.3 * x + 0.8)

    model = SpikedRandomFeatures(np.sin, shifted, r=1.3, gamma=1.0, beta=1.0, bias=True)
    found = model.learn_offset(alpha=2.0, lam=0.1, offsets=np.linspace(0, 1.5, 7))
    assert found.lower < 1e-9 < 1e-4 < model.bounds().lower
    assert found.offset_lower == pytest.approx(0.8, abs=1e-3)
    nearby = [model.learn_offset(alpha=2.0, lam=0.1, offsets=found.offset + np.array(x)) for x in ([-0.1, 0, 0.1],)]
    assert nearby[0].offset == pytest.approx(found.offset, abs=1e-4)


@pytest.mark.slow
def test_learned_biases_of_classifiers():
    """The bias of least logistic objective, refined beyond the biases given."""
    model = SpikedRandomFeatures(np.tanh, target, r=1.2, gamma=0.9, beta=0.6)
    found = model.learn_offset(alpha=2.0, lam=0.1, d=300, loss="logistic", offsets=[-2.0, -1.0, 0.0])
    s = found.solution
    assert found.objective == pytest.approx(s.train_loss * 2.0 / 0.6 + 0.05 * s.q2, rel=1e-12)
    assert s.model.offset == found.offset and found.objective <= np.nanmin(found.objectives)


@few("loss, share", [(None, 1.0), ("logistic", 0.5)], quick=1)
def test_objectives_of_biases_are_those_of_their_solutions(loss, share):
    """Training error, or loss, of n samples and the penalty of p weights; the loss has its least at an end."""
    model = SpikedRandomFeatures(np.tanh, target, r=1.2, gamma=0.9, beta=0.6)
    found = model.learn_offset(alpha=2.3, lam=0.4, loss=loss, offsets=[-0.5, -0.3, -0.2])
    end = found.solution
    train = end.train if loss is None else end.train_loss
    assert found.objective == pytest.approx(train * 2.3 / 0.6 + share * 0.4 * np.sum(end.q2), rel=1e-10)


def test_learned_biases_that_cannot_be():
    """An objective that falls to the end says so; two biases are too few."""
    model = SpikedRandomFeatures(np.tanh, target, r=1.2, gamma=0.9, beta=0.6)
    assert "still falls" in model.learn_offset(alpha=3.0, lam=0.3, offsets=[-0.3, -0.2, -0.1]).message
    with pytest.raises(ValueError, match="at least 3 biases"):
        model.learn_offset(alpha=2.0, lam=0.1, offsets=[0.0, 1.0])


def test_the_objective_of_a_learned_bias_of_classifiers():
    """The mean loss of the samples for each neuron, and half the ridge penalty of the readout."""
    target = lambda x: x + 0.5 * (x * x - 1)  # noqa: E731
    model = SpikedRandomFeatures(np.tanh, target, r=1.2, c=1.1, gamma=0.9, beta=0.8)
    found = model.learn_offset(alpha=1.7, lam=0.6, loss="logistic", offsets=[-0.6, 0.1, 0.5])
    wanted = 1.7 / 0.8 * found.solution.train_loss + 0.3 * np.sum(found.solution.q2)
    assert found.objective == pytest.approx(wanted, rel=1e-12)
