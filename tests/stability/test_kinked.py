"""Kinked units at perfect learning: closed critical rates, growth along the flow, Monte Carlo, invariances."""

from dataclasses import replace

import numpy as np
import pytest

import overlaps as ov
from overlaps.stability.kinked import Differences

TWO = ov.Spectrum([1.6, 0.4], [0.3, 0.7])
BLOCKS = np.array([[[0.3, 0.1], [0.1, 0.25]], [[0.7, -0.05], [-0.05, 0.6]]])


def learned(model, t):
    """Student = teacher at plain teacher overlaps t (L, M, M)."""
    return ov.State.from_blocks(model, q=t, r=t, t=t)


def relu(K, **options):
    model = ov.committee_machine(K, K, activation=ov.relu, **({"eta": 0.3} | options))
    return model, learned(model, model.spectrum.p[:, None, None] * np.eye(K))


def uneven(**options):
    """Two leaky units of unequal second layers before correlated teachers, two eigenvalues."""
    model = uneven_model(**options)
    return model, learned(model, BLOCKS)


def uneven_model(**options):
    options = {"eta": 0.3, "v": [1.0, 0.5], "v_star": [1.0, 0.5], "spectrum": TWO} | options
    return ov.committee_machine(2, 2, activation=ov.leaky_relu(0.3), **options)


def by_two_equations(K):
    """Orthonormal relu units, P = a 1 + b (1 1^T - 1): where the determinant of two equations vanishes."""
    gain = np.array([
        [1 / 2 + (K - 1) / 4, (K - 1) / 2 + (K - 1) * (K - 2) / 8],
        [1 / 2 + (K - 2) / 8, 1 / 2 + (K - 2) / 2 + (K - 2) * (K - 3) / 16],
    ])  # fmt: skip
    loss = np.array([[1, (K - 1) / 2], [1 / 2, 1 + (K - 2) / 2]])
    return 1 / np.max(np.linalg.eigvals(np.linalg.solve(loss, gain)).real) if K > 1 else 2.0


@pytest.mark.parametrize("K", [1, 2, 3, 4, 6])
def test_critical_rates_of_orthonormal_relu_units(K):
    limit = ov.critical_eta(*relu(K))
    assert limit == pytest.approx(by_two_equations(K), rel=1e-12) and limit.kind == "crossing"
    assert limit.mode.eigenvalues[0] == pytest.approx(0, abs=1e-13) and "second order" in limit.message
    if K == 2:
        assert limit == pytest.approx(3 - np.sqrt(3), rel=1e-12)


def test_critical_rate_of_unequal_units():
    """Ten digits that another program printed."""
    assert ov.critical_eta(*uneven()) == pytest.approx(2.5309792559, abs=5e-11)


@pytest.mark.parametrize("make", [lambda: relu(2), lambda: relu(3), uneven], ids=["two", "three", "uneven"])
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_differences_grow_along_the_flow_as_predicted(make, factor):
    """From a distance of 1e-4; the next order is relative to the distance, and other modes die out first."""
    model, state = make()
    model = replace(model, eta=factor * float(ov.critical_eta(model, state)))
    rate = ov.linearise(model, state, count=1).rate
    t, p = state.plain[2], model.spectrum.p
    rng, K = np.random.default_rng(4), model.K
    G = rng.standard_normal((K, K))
    start = ov.State.from_blocks(model, q=t + 1e-8 * p[:, None, None] * (G @ G.T + np.eye(K)), r=t, t=t)
    traj = ov.solve(model, start, np.array([0.0, 40.0, 60.0]), rtol=1e-10)
    distance = np.trace(traj.Q - traj.R - traj.R.transpose(0, 2, 1) + state.T, axis1=1, axis2=2)
    assert np.log(distance[2] / distance[1]) / 20 == pytest.approx(rate, rel=0.02)


@pytest.mark.slow
def test_averages_of_slopes_by_monte_carlo():
    """G and H of three correlated units against 1e6 samples: five standard errors, at most 1/2 1e-3 each."""
    T = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.2], [-0.3, 0.2, 1.1]])
    v = np.array([0.8, -1.2, 0.5])
    model = ov.committee_machine(3, 3, activation=ov.leaky_relu(-0.4), eta=0.1, v=v, v_star=v)
    differences = Differences(model, learned(model, T[None]))
    nu = np.random.default_rng(1).multivariate_normal(np.zeros(3), T, 1_000_000, method="cholesky")
    slopes = v * np.where(nu > 0, 1.0, -0.4)
    np.testing.assert_allclose(differences.G, slopes.T @ slopes / len(nu), atol=5e-3)
    pairs = np.einsum("nk,nl->nkl", slopes, slopes).reshape(len(nu), 9)
    np.testing.assert_allclose(differences.four.reshape(9, 9), pairs.T @ pairs / len(nu), atol=5e-3 * 1.2**4)


def test_invariances():
    """Split eigenvalues, minibatches, units of the inputs, of single units, an order of the units, label noise."""
    model, state = uneven()
    limit = float(ov.critical_eta(model, state))
    mean = TWO.mean
    split = ov.Spectrum([1.6, 0.4, 0.4, 0.0], [0.3, 0.2, 0.4, 0.1])
    other = uneven_model(spectrum=split)
    t = np.array([BLOCKS[0], 0.4 * BLOCKS[1], 0.6 * BLOCKS[1], 0.2 * np.eye(2)])
    assert ov.critical_eta(other, learned(other, t)) == pytest.approx(limit * mean / split.mean, rel=1e-12)
    other, state_b = uneven(batch_size=7)
    assert ov.critical_eta(other, state_b) == pytest.approx(7 * limit, rel=1e-12)
    slow = replace(model, eta=other.eta / 7)
    rates = (ov.linearise(x, state_b).eigenvalues for x in (other, slow))
    np.testing.assert_allclose(next(rates), 7 * next(rates), rtol=0, atol=1e-12)  # seven samples take seven steps
    other, noisy = uneven(noise=0.4, eta_v=0.2)
    assert ov.critical_eta(other, noisy) == pytest.approx(limit, rel=1e-12)
    # students w_1, w_2 = c times the teachers in the other order: the same functions; rates are those of v_k^2
    c, order = 1.7, [1, 0]
    other = uneven_model(v=[0.5 / c, 1.0 / c])
    q, r = c**2 * BLOCKS[:, order][:, :, order], c * BLOCKS[:, order]
    scaled = ov.State.from_blocks(other, q=q, r=r, t=BLOCKS)
    assert ov.critical_eta(other, scaled) == pytest.approx(c**2 * limit, rel=1e-12)


def test_modes_at_perfect_learning():
    """One relu unit: dP = (-eta + eta^2/2) P, with s p of a block in the noise; gradient flow has no noise."""
    model, state = relu(1, eta=0.7)
    modes = ov.linearise(model, state)
    assert modes.eigenvalues == pytest.approx([-0.7 + 0.7**2 / 2], rel=1e-13)
    assert modes.dq.shape == (1, 1, 1, 1) and not modes.dr.any() and "second order" in modes.message
    flow, state = uneven(gradient_flow=True)
    values = ov.linearise(flow, state).eigenvalues
    G = np.linalg.eigvalsh(Differences(flow, state).G)
    pairs = [G[0] * 2, G[0] + G[1], G[1] * 2]
    np.testing.assert_allclose(np.sort(values), np.sort([-0.3 * s * x for s in TWO.s for x in pairs]), rtol=1e-12)


def test_states_that_are_not_perfect_learning_are_refused_as_before():
    model, state = relu(2)
    swapped = ov.State.from_overlaps(model, Q=[[1.0, 1.0], [1.0, 1.0]], R=[[1.0, 0.0], [1.0, 0.0]], T=np.eye(2))
    decayed = replace(model, weight_decay=0.1)
    for m, s in ((model, swapped), (decayed, decayed_state(decayed))):
        with pytest.raises(ValueError, match="kink"):
            ov.linearise(m, s)
    with pytest.raises(ValueError, match="unstable for all eta.*search"):
        ov.critical_eta(replace(model, eta=1.5), state, search=(1.4, 2.0))
    assert ov.critical_eta(model, state, search=(0.1, 1.0)).kind == "none below 1"
    with pytest.raises(ValueError, match="count"):
        ov.linearise(model, state, count=4)


def decayed_state(model):
    return learned(model, np.eye(2)[None])
