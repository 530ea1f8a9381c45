"""The iterated piecewise rule: probabilities of orthants and wedges, which are known in closed form."""

import numpy as np
import pytest
from helpers import few
from scipy.special import ndtr

from overlaps.gaussian._iterated import nodes
from overlaps.gaussian.iterated import SIZES, rules, settled_size
from overlaps.gaussian.quadrature import legendre


def fields(S, planes, offsets, q, width=3.0):
    """Fields (P, n) of covariance S and weights of the rule with these planes."""
    values, vectors = np.linalg.eigh(S)
    root, d = vectors * np.sqrt(values), len(S)
    forms = np.ascontiguousarray(np.array(planes, float) @ root)
    points, weights, R = nodes(forms, np.array(offsets, float), np.zeros((1, d)), np.ones(1), 0, width, *legendre(q))
    return points @ R @ root.T, weights


@pytest.mark.parametrize("gap, digits", [(1e-2, 1e-12), (1e-4, 1e-11), (1e-6, 1e-9)])
def test_a_narrow_wedge_has_relative_accuracy(gap, digits):
    """P(z_0 z_1 < 0) = theta / pi; the digits that are lost are those of S, an angle of sqrt(2 gap)."""
    rho = 1 - gap
    z, weights = fields(np.array([[1.3, 1.3 * rho], [1.3 * rho, 1.3]]), np.eye(2), [0, 0], 12)
    assert np.sum(weights * (z[:, 0] * z[:, 1] < 0)) == pytest.approx(np.arccos(rho) / np.pi, rel=digits)


def test_three_planes_through_the_origin():
    """The orthant probability of three fields is a sum of arcsines; a form that is not turned misses it by 1e-2."""
    S = np.array([[0.9, 0.2, 0.3], [0.2, 0.7, -0.1], [0.3, -0.1, 1.1]])
    z, weights = fields(S, np.eye(3), [0, 0, 0], 8)
    root = np.sqrt(np.diag(S))
    known = 1 / 8 + np.sum(np.arcsin((S / np.outer(root, root))[np.triu_indices(3, 1)])) / (4 * np.pi)
    assert np.sum(weights * (z > 0).all(axis=1)) == pytest.approx(known, abs=3e-8)  # 8 nodes to a panel


def test_parallel_planes_off_the_origin():
    """A slab and a half-space along another field: planes that the last variable does not cross."""
    S = np.array([[0.8, 0.5], [0.5, 1.2]])
    z, weights = fields(S, [[1, 0], [1, 0], [0, 1]], [0.4, -0.9, 0.3], 12)
    slab = np.sum(weights * ((z[:, 0] < 0.4) & (z[:, 0] > -0.9)))
    assert slab == pytest.approx(ndtr(0.4 / np.sqrt(0.8)) - ndtr(-0.9 / np.sqrt(0.8)), abs=1e-14)
    assert np.sum(weights * (z[:, 1] > 0.3)) == pytest.approx(ndtr(-0.3 / np.sqrt(1.2)), abs=1e-14)


@few("d, broken", [(2, True), (3, False), (4, False), (4, True), (5, True)], quick=3)
def test_every_rule_knows_second_moments(d, broken):
    found, chancy = rules(d, broken)
    planes = np.eye(d) if broken else np.zeros((0, d))
    points, weights, R = nodes(planes, np.zeros(len(planes)), *found[0])
    tolerance = 5e-3 if chancy else 1e-7  # 16,384 Sobol points; q = 8
    np.testing.assert_allclose((points.T * weights) @ points, np.eye(d), rtol=0, atol=tolerance)
    np.testing.assert_allclose(R @ R.T, np.eye(d), rtol=0, atol=1e-14)


def test_sizes_rise_until_they_agree():
    errors = [0.3, 0.03, 3e-5, 1e-9, 0.0]
    size, gaps = settled_size(lambda i: [np.array([1.0 + errors[i]])], 5, 1, (1e-4,))
    assert size == 2 and gaps[0] == pytest.approx(3e-5, rel=1e-3)
    assert settled_size(lambda i: [np.array([2.0 + (-1) ** i])], 5, 0, (1e-4,))[0] is None


@pytest.mark.parametrize("d", [3, 4, 5, 6, 7, 8])
def test_lattices_integrate_waves_and_powers(d):
    """E cos k u = exp(-k^2 / 2) and E u^6 = 15 along a generic direction; every size is better than the one before."""
    sizes, chancy = rules(d, False)
    lattices = [*sizes][len(SIZES.tensors.get(d, ())) :] if d < 5 else sizes
    direction = np.random.default_rng(5).standard_normal(d)
    direction, errors = direction / np.linalg.norm(direction), []
    for i in range(2):
        points, weights = lattices[i][:2]
        u = points @ direction
        errors.append([abs(weights @ np.cos(1.7 * u) * np.exp(1.7**2 / 2) - 1), abs(weights @ u**6 / 15 - 1)])
    assert not chancy and np.all(errors[1] < np.minimum(errors[0], 5e-3) + 1e-13)
    with pytest.raises(IndexError):
        sizes[len(sizes)]
