"""Classification errors against sampled fields, closed cases, and Bayes."""

import numpy as np
import pytest
from helpers import few
from scipy.stats import norm

import overlaps as ov
from overlaps.activations.classification import misclassified
from overlaps.flow.binding import bind

PAIR = np.array([[1.0, -1.0], [-1.0, 1.0]])


def clusters(K, activation, v, Q, m, distance=1.5):
    """Two classes of other probabilities and covariances."""
    model = ov.gaussian_mixture(
        K, gram=distance**2 * PAIR[None], weights=[0.4, 0.6], labels=[1, -0.5], v=v, activation=activation, eta=0.1,
        ratios=[[1.0], [0.6]],
    )  # fmt: skip
    return model, ov.State.from_overlaps(model, Q=Q, m=np.outer(m, [1, -1]))


def sampled(model, state, n=400_000):
    rng, total = np.random.default_rng(1), 0.0
    for pi, y, ratio, mean in zip(model.weights, model.labels, model.ratios[:, 0], state.m[0].T, strict=True):
        z = mean + rng.standard_normal((n, model.K)) @ np.linalg.cholesky(ratio * state.Q).T
        out = np.sign(y * (model.activation.g(z) @ state.v))
        total += pi * np.mean((1 - out) / 2)
    return total


def found(model, state):
    value, error = misclassified(bind(model), model.field_covariance(state)[None], state.v[None])
    return float(value[0]), float(error[0])


V = {1: [[0.6], [-0.4]], 2: [[0.6, 0.4], [0.6, -0.4], [-0.3, -0.5], [-0.2, 0.7]], 3: [[0.6, -0.4, 0.3]]}
Q = np.array([[0.9, 0.3, 0.1], [0.3, 0.7, -0.2], [0.1, -0.2, 0.6]])
M = np.array([0.5, -0.4, 0.6])


@pytest.mark.parametrize("activation", [ov.erf, ov.relu, ov.linear, ov.quadratic, ov.leaky_relu(0.3)], ids=str)
@few("K", [1, 2, 3], quick=1)
def test_against_samples(activation, K):
    for v in V[K]:
        model, state = clusters(K, activation, v, Q[:K, :K], M[:K])
        value, error = found(model, state)
        assert abs(value - sampled(model, state)) < 4 * np.hypot(0.5 / np.sqrt(400_000), error) + 1e-12
        assert error < 1e-3


@pytest.mark.parametrize("activation", [ov.tanh, ov.leaky_relu(-0.5), ov.polynomial([-0.5, 0.3, 1.0])], ids=str)
def test_one_unit_without_a_formula(activation):
    """Tanh has the sign of its field, a leaky unit of negative slope is positive, a polynomial has any."""
    model, state = clusters(1, activation, [0.6], Q[:1, :1], M[:1])
    value, error = found(model, state)
    assert abs(value - sampled(model, state)) < 4 * np.hypot(0.5 / np.sqrt(400_000), error) + 1e-12


def test_two_equal_erf_units_are_one():
    """V singular: both fields are the same."""
    one, two = (
        found(*clusters(K, ov.erf, v, 0.8 * np.ones((K, K)), 0.5 * np.ones(K)))
        for K, v in ((1, [1.0]), (2, [0.4, 0.6]))
    )
    assert two[0] == pytest.approx(one[0], abs=1e-12)


def test_no_network_beats_bayes():
    d = 2.5
    gram = d**2 * np.kron(np.eye(2), PAIR)[None]
    model = ov.gaussian_mixture(
        2, gram=gram, weights=[0.25] * 4, labels=[1, 1, -1, -1], v=[1.0, -1.0], activation=ov.quadratic, eta=0.1
    )
    bayes = 2 * norm.cdf(d / np.sqrt(2)) * norm.cdf(-d / np.sqrt(2))
    # w_1 along e_1, w_2 along e_2: the sign of x_1^2 - x_2^2 is the Bayes rule
    best = ov.State.from_overlaps(model, Q=np.eye(2), m=d * np.array([[1, -1, 0, 0], [0, 0, 1, -1]]))
    value, error = found(model, best)
    assert value == pytest.approx(bayes, abs=4 * error) and error < 1e-3
    tilted = ov.State.from_overlaps(
        model, Q=np.eye(2) + 0.1 * (1 - np.eye(2)), m=d * np.array([[0.9, -0.9, 0.1, -0.1], [0, 0, 1, -1]])
    )
    assert found(model, tilted)[0] > bayes


def test_errors_name_what_came():
    model = ov.gaussian_mixture(1, gram=PAIR[None], weights=[0.5, 0.5], labels=[1, 0], eta=0.1)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=[[1.0]], m=[[0.1, -0.1]]), [0.0])
    with pytest.raises(ValueError, match="labels of both signs"):
        traj.classification_error()
    machine = ov.committee_machine(2, 1, eta=0.1)
    traj = ov.solve(machine, machine.random_start(N=100, rng=1), [0.0])
    with pytest.raises(ValueError, match="expected K = M = 1"):
        traj.classification_error()
