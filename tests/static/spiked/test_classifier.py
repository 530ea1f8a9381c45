"""Readouts that classify: proximal maps, labels, the ridge limit, Gaussian closed forms, draws, bad input."""

import math

import numpy as np
import pytest
from helpers import few
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from overlaps.static import SpikedRandomFeatures, simulate_one_step
from overlaps.static.spiked.losses import LOSSES, SignLabels
from overlaps.static.spiked.training import convex

ONE = {"r": 1.2, "c": 1.1, "gamma": 0.9, "beta": 0.8}
TWO = {"r": (0.7, 2.5), "c": (1.0, 1.6), "gamma": 0.9, "beta": 1.0, "fractions": (0.4, 0.6)}
POINT = {"alpha": 2.0, "lam": 0.1}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("m0, V", [(-3.0, 0.4), (0.2, 2.0), (0.9, 5.0), (2.0, 0.7), (-40.0, 60.0)])
def test_proximal_maps(name, m0, V):
    """Against a minimiser; the stiffness against differences (1e-6 away from kinks)."""
    loss = LOSSES[name]
    m, stiff = loss.proximal(np.array(m0), np.array(V))
    found = minimize_scalar(
        lambda x: (x - m0) ** 2 / (2 * V) + loss.value(x), bounds=(m0 - 1, m0 + V + 1), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    assert m == pytest.approx(found.x, abs=2e-6 * (1 + V))  # the root of what a minimiser can see
    slope = np.diff(loss.proximal(m0 + np.array([-1e-6, 1e-6]), np.array(V))[0])[0] / 2e-6
    assert stiff == pytest.approx((1 - slope) / V, abs=1e-7)


def test_labels_of_a_target_with_several_zeros():
    """Averages over a Gaussian input against quadrature between the zeros of the target."""

    def target(x):
        return np.sin(x + 0.4)

    labels = SignLabels(target)
    assert np.allclose(np.sort(np.abs(labels.zeros + 0.4)) % math.pi % 3.14159, 0, atol=1e-4)
    x = np.linspace(-6, 6, 1001)
    assert np.array_equal(labels(x), np.sign(target(x)))
    for mean, spread in ((0.3, 1.1), (-1.0, 0.2)):
        ends = np.clip((np.concatenate([[-9], labels.zeros, [9]]) - mean) / spread, -9, 9)
        expected = [
            sum(quad(lambda z: z**n * np.sign(target(mean + spread * z)) * norm.pdf(z), *pair)[0]  # noqa: B023
                for pair in zip(ends[:-1], ends[1:], strict=True)) for n in (0, 1)
        ]  # fmt: skip
        assert np.allclose(labels.averages(np.array(mean), spread), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "model, d",
    [(ONE, math.inf), (ONE, 200), ({**TWO, "bias": True}, math.inf), ({**ONE, "gamma": 1.0}, 300)],
    ids=["one", "finite d", "blocks", "aligned"],
)
def test_the_square_loss_is_ridge_regression_on_the_labels(model, d):
    """Two fixed points: one in all order parameters, by a rule in the predictions, one linear but for V."""
    model = SpikedRandomFeatures(np.tanh, np.sign, **model)
    found, ridge = model.solve(**POINT, d=d, loss="square"), model.solve(**POINT, d=d)
    assert found.converged and 2 * found.test_loss == pytest.approx(ridge.mse, rel=1e-8)
    assert 2 * found.train_loss == pytest.approx(ridge.train, rel=1e-8)
    for name in ("m", "theta", "psi", "q1", "q2", "V1", "V2", "b0"):
        assert np.allclose(getattr(found, name), getattr(ridge, name), rtol=1e-8, atol=1e-9), name


@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_signs_without_a_spike(loss):
    """Without a spike prediction and target are Gaussian; their signs differ with probability acos(corr)/pi."""
    model = SpikedRandomFeatures(np.tanh, np.sign, r=0.0, c=1.1, gamma=0.6, beta=0.8)
    found, table = model.solve(**POINT, loss=loss), model.coefficients
    mu1, mu2 = table.mu1[0], table.mu2_squared[0]
    variance = mu1**2 * (found.theta**2 + found.q1) + mu2 * found.q2
    along = mu1 * (0.6 * found.theta + 0.8 * found.psi) / math.sqrt(variance)
    assert found.wrong == pytest.approx(math.acos(along) / math.pi, rel=1e-7)


@few("loss", ["logistic", "hinge"], quick=1)
@pytest.mark.parametrize(
    "model, alpha, lam, d, draws",
    [
        (ONE, 1.5, 0.05, 90, 16),
        # at beta = 1.3 the training loss of a draw is up to seven times the median: no errors from that
        pytest.param(ONE, 0.7, 0.01, 240, 24, marks=pytest.mark.slow),
        pytest.param({**TWO, "rows": "orthonormal", "beta": 0.7}, 2.0, 0.1, 240, 10, marks=pytest.mark.slow),
    ],
    ids=["one", "separable", "blocks"],
)
def test_draws(loss, model, alpha, lam, d, draws):
    """4 standard errors, and 3 % for other terms of order 1/d."""
    model = SpikedRandomFeatures(np.tanh, np.sin, **model)
    theory = model.solve(alpha=alpha, lam=lam, d=d, loss=loss)
    runs = model.simulate(alpha=alpha, lam=lam, d=d, loss=loss, rng=7, draws=draws)
    for name in ("wrong", "test_loss", "train_loss", "train_wrong", "q1", "q2", "psi"):
        expected = np.sum(getattr(theory, name))
        found, error = runs.mean(name), runs.error(name)
        assert abs(found - expected) < 4 * error + 0.03 * abs(expected), (name, found, error, expected)


def test_network_that_classifies():
    """The network after its step, and the features of its measured spike on the same labels: 20 and 10 % at d = 100."""
    step = {"eta_tilde": 2.0, "alpha0": 4.0, "beta": 0.9}
    runs = simulate_one_step(
        np.tanh, np.sin, **step, alpha=1.5, lam=0.1, d=100, rng=2, draws=8, paired=True, loss="logistic"
    )
    model = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, **step)
    theory = model.solve(alpha=1.5, lam=0.1, d=100, loss="logistic")
    assert runs.mean("wrong") == pytest.approx(theory.wrong, abs=4 * runs.error("wrong") + 0.2 * theory.wrong)
    assert runs.srf.mean("wrong") == pytest.approx(theory.wrong, abs=4 * runs.error("wrong") + 0.1 * theory.wrong)


@pytest.mark.parametrize("bias", [False, True])
def test_minimiser_of_the_hinge(rng, bias):
    """Against the dual problem, a quadratic one in a box: a lower bound on the primal that the minimum attains."""
    X, y = rng.standard_normal((60, 20)), np.where(rng.random(60) < 0.6, 1.0, -1.0)
    a, b0 = convex(X, y, 0.5, LOSSES["hinge"], bias)
    value = np.maximum(1 - y * (X @ a + b0), 0).sum() + 0.25 * a @ a
    Z = y[:, None] * X
    found = minimize(
        lambda t: (np.sum((Z.T @ t) ** 2) - t.sum(), 2 * Z @ (Z.T @ t) - 1), np.full(60, 0.5), jac=True,
        method="SLSQP", bounds=[(0, 1)] * 60, options={"ftol": 1e-12, "maxiter": 500},
        constraints=[{"type": "eq", "fun": lambda t: t @ y, "jac": lambda t: y}] if bias else [],
    )  # fmt: skip
    assert -found.fun <= value <= -found.fun * (1 + 2e-3)  # smoothed over 1e-3


@pytest.mark.slow
def test_labels_that_the_mean_activation_tells():
    """An aligned spike: no finite m as d -> infinity, an error that falls with d before."""
    model = SpikedRandomFeatures(np.tanh, np.sign, r=3.0, c=1.5, gamma=1.0, beta=2.0)
    found = model.solve(alpha=3.0, lam=0.01, loss="hinge")
    assert not found.converged and "mu0 separates" in found.message and math.isnan(found.wrong)
    wrong = [model.solve(alpha=3.0, lam=0.01, d=d, loss="hinge").wrong for d in (50, 400)]
    assert 0 < wrong[1] < 0.7 * wrong[0]


def test_bad_input():
    model = SpikedRandomFeatures(np.tanh, np.sin, **ONE)
    with pytest.raises(ValueError, match="loss = 'huber'"):
        model.solve(**POINT, loss="huber")
    with pytest.raises(ValueError, match="loss = 'huber'"):
        model.simulate(**POINT, d=50, rng=1, loss="huber")
    noisy = SpikedRandomFeatures(np.tanh, np.sin, noise=0.2, **ONE)
    for call in (noisy.solve, lambda **x: noisy.simulate(d=50, rng=1, **x)):
        with pytest.raises(ValueError, match=r"noise = 0.2 with loss='hinge'"):
            call(**POINT, loss="hinge")
    with pytest.raises(ValueError, match="more often than"):
        SignLabels(lambda x: np.sin(3000 * x))
