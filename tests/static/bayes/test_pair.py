"""Two features with overlaps between them: the information matrix, solutions, and the posterior sampled."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import logm

from overlaps.static import HierarchicalTeacher
from overlaps.static.bayes.pair import Pair
from overlaps.static.bayes.sampler import Chain, Problem, data_set

HE3 = {3: 1.0}


def equal(Delta=0.5, **options):
    return HierarchicalTeacher(v2=[0.5, 0.5], noise=Delta**0.5, activation=HE3, channel="exact", **options)


@pytest.mark.slow
@pytest.mark.parametrize("activation", [{3: 0.4, 4: 0.6}, {4: 1.0}], ids=str)
def test_information_without_overlap_is_that_of_the_fourier_transform(activation):
    teacher = HierarchicalTeacher(v2=[0.7, 0.3], noise=2.0, activation=activation, channel="exact")
    expected = teacher.information([0.6, 0.3])
    G, power = Pair(teacher).information(np.diag([0.6, 0.3]))
    np.testing.assert_allclose(np.diag(G), expected.h, rtol=2e-4)  # bins and steps: 7e-5
    assert power == pytest.approx(expected.power, rel=1e-4)
    assert G[0, 1] / math.sqrt(G[0, 0] * G[1, 1]) == pytest.approx(expected.cross, abs=1e-4)


def test_information_of_golden_quadratures():
    G, power = Pair(equal()).information(0.5 * np.eye(2))
    np.testing.assert_allclose(np.diag(G), 0.2440427008, rtol=2e-5)  # bins and steps: 1e-6, and 2e-5 in the power
    assert G[0, 1] == pytest.approx(0.232 * G[0, 0], rel=2e-3) and power == pytest.approx(1.0157519350, rel=5e-5)


@pytest.mark.slow
def test_information_is_the_slope_of_the_entropy():
    """-d ln N = sum_ij G_ij dQ_ij, also between different features."""
    pair = Pair(HierarchicalTeacher(v2=[0.7, 0.3], noise=1.5, activation=HE3, channel="exact"))
    Q = np.array([[0.6, 0.15], [0.15, 0.4]])
    G, step = pair.information(Q)[0], 0.03
    for change in ([[1, 0], [0, 0]], [[0, 1], [1, 0]]):
        up, down = (pair.information(Q + sign * step * np.array(change))[1] for sign in (1, -1))
        assert np.sum(G * change) == pytest.approx(-math.log(up / down) / (2 * step), rel=5e-3)  # second order; bins


@pytest.mark.parametrize("apart, solutions", [(1e-4, 2), (0.0, 1)])
def test_the_least_and_the_greatest_solution_differ_however_little(apart, solutions):
    ends = np.array([0.3, 0.02, 0.7]), np.array([0.3 + apart, 0.02, 0.7])
    pair = SimpleNamespace(
        _iterate=lambda nu, x, replica: (ends[int(np.any(x))], 0.0),
        _top=lambda nu: np.array([0.9, 0.8, 0.0]),
        _solution=lambda nu, x, residual: x[0],
    )
    assert Pair.solve(pair, 3.7) == [ends[0][0], ends[1][0]][-solutions:]


def test_potential_is_a_trace_a_determinant_and_an_entropy_power():
    teacher, nu, q = (
        HierarchicalTeacher(v2=[0.7, 0.3], noise=3.0, activation=HE3, channel="exact"),
        3.7,
        [0.6, 0.15, 0.4],
    )
    pair, Q = Pair(teacher), np.array([[q[0], q[1]], [q[1], q[2]]])
    found = pair._solution(nu, -logm(np.eye(2) - Q)[[0, 1, 0], [0, 1, 1]], 0.0)
    np.testing.assert_allclose(found.Q, Q, rtol=1e-12)
    phi = np.trace(Q) + np.log(np.linalg.det(np.eye(2) - Q)) - nu * np.log(found.power[0])
    assert found.phi[0] == pytest.approx(phi, rel=1e-12)


@pytest.mark.slow
def test_solutions():
    """Numbers of another program, in the basis of sum and difference; overlaps between features raise the error."""
    found = equal().solve(nu=6.0, overlaps="matrix", selection="informed")
    np.testing.assert_allclose(found.Q, [[0.7789, 0.0217], [0.0217, 0.7789]], atol=2e-4)
    assert found.eps == pytest.approx(0.5275, abs=2e-4) and found.converged
    assert found.eps > 0.5178987 + 0.009 and found.phi > -0.2678013 + 0.007  # diagonal; a maximum over more
    np.testing.assert_array_equal(found.q, np.diag(found.Q))
    few = equal().solve(nu=1.0, overlaps="matrix")  # only the sum of both features is known
    np.testing.assert_allclose(few.Q, 0.0700, atol=2e-4)
    assert len(few.solutions) == 1 and few.eps == pytest.approx(1 - 2 * 0.07**3, abs=1e-5)


@pytest.mark.slow
def test_overlaps_between_features_are_there():
    """Few data: their sum is known, their difference not; diagonal overlaps would say 0.186 and 0. d = 50."""
    teacher, rows = dataclasses.replace(equal(), channel="gaussian"), []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        problem = Problem(teacher, *data_set(teacher, 50, 100, rng))
        chain, overlaps = Chain(problem, "teacher", rng), []
        for t in range(240):
            chain.step(20, t if t < 40 else None)
            if t >= 140:
                overlaps.append(chain.W / np.linalg.norm(chain.W, axis=1, keepdims=True) @ problem.features.T)
        Q = np.mean(overlaps, axis=0)
        rows.append([np.trace(Q) / 2, (Q.sum() - np.trace(Q)) / 2])
    own, other = np.transpose(rows)
    errors = [x.std(ddof=1) / math.sqrt(len(x)) for x in (own, other)]
    expected, alone = 0.13384, 0.18615
    Q, q = np.full((2, 2), expected), np.full(2, alone)
    np.testing.assert_allclose(Q @ np.linalg.inv(np.eye(2) - Q), 2 * Pair(equal()).information(Q)[0], rtol=1e-3)
    np.testing.assert_allclose(q / (1 - q), 2 * equal().information(q).h, rtol=1e-4)
    assert abs(own.mean() - expected) < 4 * errors[0] < 0.13 and abs(other.mean() - expected) < 4 * errors[1]
    assert other.mean() > 4 * errors[1]


@pytest.mark.parametrize("change", [dict(v2=[0.5, 0.3, 0.2]), dict(channel="gaussian")])
def test_only_for_two_features_of_the_exact_channel(change):
    with pytest.raises(
        ValueError, match=r"overlaps = 'matrix' with k = \d, channel = '.*'; expected k = 2 and channel='exact'"
    ):
        dataclasses.replace(equal(), **({"k": None} | change)).solve(nu=1.0, overlaps="matrix")
