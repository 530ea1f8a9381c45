"""Orthant probabilities of four fields against mpmath, sums over all signs, relabelling and conditioning."""

import mpmath as mp
import numpy as np
import pytest
from oracles import mp_orthant4

from overlaps.gaussian import orthants

FOUR_FIELDS = np.array(
    [[1, 0.25, 0.5, -0.125], [0.25, 1, 0.375, 0.25], [0.5, 0.375, 1.5, 0.125], [-0.125, 0.25, 0.125, 0.75]]
)


def off_diagonal(P):
    return P[np.triu_indices(4, 1)]


def orthant4(P):
    """Probability that four fields with correlation matrix P are all positive."""
    return orthants.orthants(*off_diagonal(P))[0]


def test_orthant_golden():
    sigma = np.sqrt(np.diag(FOUR_FIELDS))
    assert orthant4(FOUR_FIELDS / np.outer(sigma, sigma)) == pytest.approx(0.114742194080134, rel=1e-12)


def correlations(rng, family):
    X = rng.normal(size=(4, 60 if family == "weak" else 4))
    if family == "two pairs":
        X[2:] = X[:2] + 1e-2 * X[2:]
    elif family == "common":
        X += 5.0 * X[0]
    elif family == "plane":
        X[:, 2:] *= 1e-3
    P = X @ X.T
    return np.clip(P / np.sqrt(np.outer(np.diag(P), np.diag(P))), -1.0, 1.0)


FAMILIES = ["weak", "generic", "two pairs", "common", "plane"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_orthant4_against_60_digits(family):
    P = correlations(np.random.default_rng(12), family)
    with mp.workdps(60):
        expected = mp_orthant4(tuple(mp.mpf(r) for r in off_diagonal(P)))
    # fields almost in a plane amplify the rounding of P by their inverse distance from it, 1e3
    assert orthant4(P) == pytest.approx(float(expected), abs=1e-13 if family == "plane" else 1e-15)


@pytest.mark.parametrize("family", [*FAMILIES, "exact plane"])
def test_sixteen_orthants_sum_to_one(family):
    rng = np.random.default_rng(13)
    for _ in range(50):
        P = correlations(rng, "plane" if family == "exact plane" else family)
        if family == "exact plane":
            phi = rng.uniform(0, 2 * np.pi, 4)
            P = np.cos(phi[:, None] - phi)
        total = 0.0
        for signs in np.ndindex(2, 2, 2, 2):
            sign = 1.0 - 2.0 * np.array(signs)
            total += orthant4(P * np.outer(sign, sign))
        assert total == pytest.approx(1.0, abs=1e-14)  # errors of neighbouring orthants compensate


def test_orthants_do_not_depend_on_the_order_of_fields():
    rng = np.random.default_rng(14)
    paths = set()
    for family in ("generic", "two pairs"):
        for _ in range(40):
            P = correlations(rng, family)
            table = np.zeros((4, 4))
            table[np.triu_indices(4, 1)] = orthants.orthants(*off_diagonal(P))[1:]
            table += table.T
            order = rng.permutation(4)
            moved = P[np.ix_(order, order)]
            paths.add(orthants._choose_path(*off_diagonal(moved))[0])
            P4, *pairs = orthants.orthants(*off_diagonal(moved))
            assert P4 == pytest.approx(orthant4(P), abs=1e-14)
            # p_ij is an arcsine of a quotient of determinants, of size 1e-4 and more in these families
            np.testing.assert_allclose(pairs, off_diagonal(table[np.ix_(order, order)]), atol=1e-12)
    assert paths == set(range(7))  # every path and every relabelling was met


def test_pair_orthants_are_conditional_probabilities():
    P = correlations(np.random.default_rng(15), "generic")
    found = orthants.orthants(*off_diagonal(P))[1:]
    for p, (i, j) in zip(found, zip(*np.triu_indices(4, 1), strict=True), strict=True):
        rest = [k for k in range(4) if k not in (i, j)]
        given = (
            P[np.ix_(rest, rest)]
            - P[np.ix_(rest, [i, j])] @ np.linalg.solve(P[np.ix_([i, j], [i, j])], P[[i, j]])[:, rest]
        )
        rho = given[0, 1] / np.sqrt(given[0, 0] * given[1, 1])
        assert p == pytest.approx(0.25 + np.arcsin(rho) / (2 * np.pi), abs=1e-13)
