"""Any force: its closure by quadrature, and what is refused before any step."""

import dataclasses
import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

import overlaps as ov

ROOT2 = math.sqrt(2)
THREE = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])


def phase(lam, nu, xi, theta, S, F, G):
    F[0] = -2 * lam[0] * (lam[0] ** 2 - nu[0] ** 2)


def quartic(lam, nu, theta):
    return (lam[0] ** 2 - nu[0] ** 2) ** 2 / 2


def offset(lam, nu, xi, theta, S, F, G):
    delta = math.erf((lam[0] + theta[0]) / ROOT2) - math.erf((nu[0] + 0.7) / ROOT2)
    slope = math.sqrt(2 / math.pi) * math.exp(-((lam[0] + theta[0]) ** 2) / 2)
    F[0] = G[0] = -slope * delta


def signs(lam, nu, xi, theta, S, F, G):
    y, vote = np.sign(nu[0]), np.sign(lam[0]) + np.sign(lam[1])
    for k in range(2):
        if y * vote < 0 and y * lam[k] < 0:
            F[k] = y


def dropout(lam, nu, xi, theta, S, F, G):
    mask, out = int(xi), 0.0
    for k in range(2):
        out += (mask >> k & 1) / 0.8 * math.erf(lam[k] / ROOT2)
    for k in range(2):
        slope = math.sqrt(2 / math.pi) * math.exp(-(lam[k] ** 2) / 2)
        F[k] = -(mask >> k & 1) / 0.8 * slope * (out - math.erf(nu[0] / ROOT2))


def noisy(lam, nu, xi, theta, S, F, G):
    F[0] = -(lam[0] - nu[0] - 0.3 * xi)
    G[0] = F[0] ** 2


def step(lam, nu, xi, theta, S, F, G):
    F[0] = np.sign(nu[0]) if lam[0] * nu[0] < 0 else 0.0


def squared(lam, nu, xi, theta, S, F, G):
    F[0] = -(lam[0] - nu[0] - xi)


SIGNS = dict(force=signs, K=2, M=1, breaks=[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])


def closure(rule, theta=None, **overlaps):
    overlaps = overlaps or dict(Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    return ov.closure(ov.learner(rule, eta=1.0, eta_theta=1.0, theta=theta), **overlaps)


@pytest.mark.slow
def test_phase_retrieval():
    c = closure(ov.Rule(phase, K=1, M=1, error=quartic))
    np.testing.assert_allclose([c.A[0, 0], c.B[0, 0], c.C[0, 0]], [-2.4, 2, 21.312], rtol=1e-10)
    assert c.eps_g == pytest.approx((3 * 0.64 - 2 * (0.96 + 0.5) + 3 * 1.44) / 2, rel=1e-10)  # by Wick's theorem


def test_offset():
    c = closure(ov.Rule(offset, K=1, M=1), theta=[0.3])
    known = [-0.31500907711461, 0.293948905532211, 0.137466986037221, 0.128866326137187]
    np.testing.assert_allclose([c.A[0, 0], c.B[0, 0], c.C[0, 0], c.dv[0]], known, rtol=0, atol=1e-8)


def test_committee_of_signs():
    c = closure(ov.Rule(**SIGNS), **THREE)
    np.testing.assert_allclose(c.A, np.tile([-0.238013330947681, -0.18519776877109], (2, 1)), rtol=0, atol=1e-8)
    np.testing.assert_allclose(c.B, np.full((2, 1), 0.227369449449699), rtol=0, atol=1e-8)
    np.testing.assert_allclose(c.C, np.full((2, 2), 0.259971574823363), rtol=0, atol=1e-8)


def test_dropout():
    masks = [0, 1, 2, 3], [0.04, 0.16, 0.16, 0.64]
    c = closure(ov.Rule(dropout, K=2, M=1, noise=masks), **THREE)
    A = [[-0.263677952882694, -0.356438642875029], [-0.356438642875029, -0.240377565307209]]
    np.testing.assert_allclose(c.A, A, rtol=0, atol=1e-8)
    np.testing.assert_allclose(c.B[:, 0], [0.322364952670246, 0.337407804539884], rtol=0, atol=1e-8)
    np.testing.assert_allclose(c.C[np.triu_indices(2)], [0.468127211, 0.342687356037, 0.452659153], rtol=0, atol=1e-8)


def test_normal_noise_is_one_more_field():
    """Linear regression: A, B = -1, 1, and C = s^2 + sigma^2."""
    c = closure(ov.Rule(noisy, K=1, M=1, noise="normal"))
    known = [-1, 1, 0.8 - 1 + 1.2 + 0.09, 0.8 - 1 + 1.2 + 0.09]
    np.testing.assert_allclose([c.A[0, 0], c.B[0, 0], c.C[0, 0], c.dv[0]], known, rtol=1e-8)


@pytest.mark.slow
def test_scale_of_a_force_is_that_of_eta():
    scaled = njit(lambda lam, nu, xi, theta, S, F, G: _tripled(lam, nu, xi, theta, S, F, G))
    one = ov.closure(ov.learner(ov.Rule(step, K=1, M=1, breaks=WEDGE), eta=0.6), Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    other = ov.Rule(scaled, K=1, M=1, breaks=WEDGE)
    other = ov.closure(ov.learner(other, eta=0.2), Q=[[0.8]], R=[[0.5]], T=[[1.2]])
    for x, y in ((one.A, other.A), (one.B, other.B), (one.C, other.C)):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@njit
def _tripled(lam, nu, xi, theta, S, F, G):
    F[0] = 3 * np.sign(nu[0]) if lam[0] * nu[0] < 0 else 0.0


def always(nu, theta, p):
    p[:] = [0.5, 0.1, 0.4]


@pytest.mark.parametrize(
    "one, other",
    [
        (([1.0, -1.0], [0.9, 0.1]), ([1.0, -1.0, 1.0], [0.5, 0.1, 0.4])),
        pytest.param(([1.0, -1.0], [0.9, 0.1]), ([1.0, -1.0, 1.0], always), marks=pytest.mark.slow),
        pytest.param("normal", stats.norm(), marks=pytest.mark.slow),
    ],
)
def test_noise_may_be_merged_or_split(one, other):
    """Values that come twice, a chance that does not depend on the teacher, and the normal law by name or by scipy."""
    c, d = (closure(ov.Rule(noisy, K=1, M=1, noise=law)) for law in (one, other))
    for name in ("A", "B", "C", "dv"):
        np.testing.assert_allclose(getattr(c, name), getattr(d, name), rtol=1e-9)


@njit
def two_units(lam, nu, theta, F, first, second):
    F[first] = 0.7 * np.tanh(nu[0] - lam[first]) + 0.2 * lam[second] * nu[1]
    F[second] = -0.4 * lam[second] + theta[second] * nu[1] + (1.3 if nu[0] > 0.2 else 0.1) * np.sin(lam[first])


@pytest.mark.slow
def test_units_may_be_numbered_in_any_order():
    """Students, teachers, their breaks and theta together."""

    def one(lam, nu, xi, theta, S, F, G):
        two_units(lam, nu, theta, F, 0, 1)

    def other(lam, nu, xi, theta, S, F, G):
        two_units(lam, nu[::-1].copy(), theta, F, 1, 0)

    Q, r, T = (
        np.array([[0.9, 0.2], [0.2, 0.7]]),
        np.array([[0.3, 0.1], [-0.1, 0.4]]),
        np.array([[1.1, 0.3], [0.3, 0.8]]),
    )
    options = dict(K=2, M=2, tolerance=1e-2)
    c = closure(ov.Rule(one, breaks=[[0, 0, 1, 0, 0.2]], **options), theta=[0.6, -0.9], Q=Q, R=r, T=T)
    d = closure(
        ov.Rule(other, breaks=[[0, 0, 0, 1, 0.2]], **options),
        theta=[-0.9, 0.6], Q=Q[::-1, ::-1], R=r[::-1, ::-1], T=T[::-1, ::-1],
    )  # fmt: skip
    for name in ("A", "B", "C"):  # four fields with breaks, by Sobol points: 1e-3 of the largest entry
        np.testing.assert_allclose(getattr(d, name)[::-1, ::-1], getattr(c, name), rtol=0, atol=3e-3)


@pytest.mark.parametrize("noise", ["normal", stats.t(5)], ids=["normal", "t"])
def test_a_plane_that_does_not_see_the_noise_may_leave_it_out(noise):
    short = [[0.7, -0.3, 0.4, 0.2], [0.0, 0.6, -0.9, -0.5]]
    one, other = (ov.Rule(squared, K=2, M=1, noise=noise, breaks=x) for x in (short, np.insert(short, 3, 0.0, axis=1)))
    np.testing.assert_array_equal(one.breaks, other.breaks)


WEDGE = [[1, 0, 0], [0, 1, 0]]


def not_compilable(lam, nu, xi, theta, S, F, G):
    F[0] = open("file")


def idle(lam, nu, xi, theta, S, F, G):
    pass


def undefined(lam, nu, xi, theta, S, F, G):
    F[0] = math.sqrt(lam[0])


def wrong_chance(nu, theta, p):
    p[0] = p[1] = 0.7


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(force="hebb"), "force = 'hebb'; expected a function force"),
        (dict(force=not_compilable), "numba cannot compile force .* Expected force"),
        (dict(force=idle), "fills neither F nor G"),
        (dict(force=undefined), "expected finite numbers"),
        (dict(breaks=[[1, 0]]), r"breaks has shape \(1, 2\); expected rows \(c, t\) of length 3"),
        (dict(breaks=[[1, 0, 0], [0, 0, 0.3]]), r"breaks\[1\] .* has no coefficients"),
        (dict(noise=([1, -1], [0.8, 0.3])), "expected probabilities >= 0 that sum to 1"),
        (dict(noise=([1, -1], [1.2, -0.2])), "expected probabilities >= 0 that sum to 1"),
        (dict(noise=([1, -1], wrong_chance)), "chance fills .* expected probabilities"),
        (dict(noise="gauss"), "noise = 'gauss'; expected None, 'normal'"),
        (dict(noise=([1, -1], [1.0])), "probabilities has shape"),
        (dict(K=5, M=4), r"K \+ M = 9 fields; expected at most 8"),
        (dict(error=3.0), "error = 3.0; expected a function"),
        (dict(tolerance=0.0), "tolerance = 0.0; expected a finite number > 0"),
    ],
)
def test_bad_rules(options, message):
    with pytest.raises(ValueError, match=message):
        ov.Rule(**{"force": step, "K": 1, "M": 1, **options})


def test_an_undeclared_jump_is_refused_with_the_declaration_that_is_missing():
    with pytest.raises(ValueError, match=r"do not converge: sizes differ by .* declare breaks=\[...\]"):
        closure(ov.Rule(step, K=1, M=1))
    with pytest.raises(ValueError, match="do not converge"):
        closure(ov.Rule(**{**SIGNS, "breaks": SIGNS["breaks"][:2]}), **THREE)


def test_a_force_of_infinite_variance_is_refused():
    with pytest.raises(ValueError, match=r"second moment .* expected a bounded force: clip="):
        closure(ov.Rule(squared, K=1, M=1, noise=stats.cauchy(scale=0.5)))


def test_theta_of_the_wrong_length():
    with pytest.raises(ValueError, match=r"theta has shape \(2,\); expected \(1,\)"):
        ov.learner(ov.rules.hebb(), eta=1.0, theta=[0.1, 0.2])


def test_more_fields_by_one_exact_variable():
    """Four fields with breaks, by Sobol points, against three whose closure is exact: an idle teacher."""

    def with_idle(lam, nu, xi, theta, S, F, G):
        y, vote = np.sign(nu[0]), np.sign(lam[0]) + np.sign(lam[1])
        for k in range(2):
            if y * vote < 0 and y * lam[k] < 0:
                F[k] = y

    breaks = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    overlaps = dict(Q=THREE["Q"], R=[[0.3, 0.1], [-0.1, 0.2]], T=[[1.1, 0.15], [0.15, 0.8]])
    found = closure(ov.Rule(with_idle, K=2, M=2, breaks=breaks), **overlaps)
    known = closure(ov.Rule(**SIGNS), **THREE)
    np.testing.assert_allclose(found.A, known.A, rtol=0, atol=1e-3)  # of 16,384 points
    np.testing.assert_allclose(found.C, known.C, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found.B, np.column_stack([known.B, [0, 0]]), rtol=0, atol=1e-3)


def test_equal_rules_are_known_to_the_same_precision():
    """What a cache or a file takes for the same rule has the same numbers."""
    one, other = (ov.rules.logistic_committee(1, 1, beta=1.3) for _ in range(2))
    assert one == other and one != dataclasses.replace(other, tolerance=1e-4)
    assert one != ov.rules.logistic_committee(1, 1, beta=1.4)
