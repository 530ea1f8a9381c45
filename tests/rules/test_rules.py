"""Rules in closed form: against printed numbers, and against the same rule by quadrature of a force written here."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import few
from scipy import stats
from scipy.special import erf, expit

import overlaps as ov

R = ov.rules
CAUCHY, NORMAL, STUDENT = stats.cauchy(scale=0.5), stats.norm(scale=0.5), stats.t(3, scale=0.6)

# A, B, C at unit rate, Q = .8, R = .5, T = 1.2 (1 for the optimal rule): an oracle that shares nothing with the library
GOLDEN = {
    "hebb": (lambda: R.hebb(0.1), 0, 0.5826924963157756, 1),
    "perceptron": (lambda: R.perceptron(0.1), -0.4460310290381928, 0.2913462481578878, 0.3636244218598319),
    "adatron": (lambda: R.adatron(0.1), -0.3636244218598319, 0.1788084516844894, 0.2014953116456208),
    "hinge": (lambda: R.hinge(0.7), -0.4458071604034777, 0.5962391818328545, 0.6616007801304069),
    "logistic": (lambda: R.logistic(), -0.2132045456225075, 0.3641828101973597, 0.2082381796412325),
    "logistic labels": (lambda: R.logistic(1.5), -0.2132045456225075, 0.2534307958124037, 0.2324422691915937),
    "least squares": (lambda: R.least_squares(0.1), -1, 0.5826924963157756, 1.217307503684224),
    "least deviations": (lambda: R.residual(CAUCHY), -0.5579109407785887, 0.5579109407785887, 1),
    "clipped normal": (lambda: R.residual(NORMAL, 0.7), -0.4687500140051517, 0.4687500140051517, 0.3329498625622209),
    "clipped Student": (lambda: R.residual(STUDENT, 0.8), -0.4692268880550101, 0.4692268880550101, 0.4341828875983538),
    "optimal": (lambda: R.optimal(), -0.5502643297932636, 0.8804229276692218, 0.9684652204361438),
}


def numbers(rule, Q=0.8, R=0.5, T=1.2, **options):
    c = ov.closure(ov.learner(rule, eta=1.0, **options), Q=[[Q]], R=[[R]], T=[[T]])
    return np.array([c.A[0, 0], c.B[0, 0], c.C[0, 0]]), c.eps_g


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_numbers(name):
    make, *known = GOLDEN[name]
    found, error = numbers(make(), T=1.0 if name == "optimal" else 1.2)
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-10)
    if name not in ("optimal", "least deviations", "clipped normal", "clipped Student"):
        assert error == pytest.approx(0.3295305273247899, abs=1e-14)


@few("s, clip", [(0.03, 0.0), (1.1, 0.0), (20.0, 0.0), (1.1, 0.5), (0.03, 0.5)], quick=4)
def test_residuals_of_a_law_with_ends(s, clip):
    """Uniform noise on [-1, 1]: a = P(|D| < 1), and with a clip the mean over xi, by sums about xi = clip."""
    T = max(1.0, s * s)
    found, _ = numbers(R.residual(stats.uniform(-1, 2), clip), T, T - s * s / 2, T)
    if clip == 0:
        known = [erf(1 / (s * np.sqrt(2))), 1.0]
    else:
        x, w = np.polynomial.legendre.leggauss(8)
        edges = np.unique(np.clip([0, *(clip + s * np.linspace(-9, 9, 37)), 1], 0, 1))
        xi = (edges[:-1, None] + np.diff(edges)[:, None] * (1 + x) / 2).ravel()
        p = (np.diff(edges)[:, None] * w / 2).ravel()
        z = xi[:, None] + s * np.linspace(-9, 9, 2001)  # D - xi, up to its sign
        density = np.exp(-(((z - xi[:, None]) / s) ** 2) / 2)
        density /= density.sum(axis=1, keepdims=True)
        known = [p @ (stats.norm.cdf((xi + clip) / s) - stats.norm.cdf((xi - clip) / s))]
        known.append(p @ np.sum(np.clip(z, -clip, clip) ** 2 * density, axis=1))
    # the sum over z errs by the square of its step, 0.009 s, at the two kinks
    np.testing.assert_allclose(found, [-known[0], *known], rtol=1e-9 if clip == 0 else 1e-5)


def hebb(lam, nu, xi, theta, S, F, G):
    F[0] = xi if nu[0] > 0 else -xi


def perceptron(lam, nu, xi, theta, S, F, G):
    if xi * nu[0] * lam[0] < 0:
        F[0] = xi if nu[0] > 0 else -xi


def adatron(lam, nu, xi, theta, S, F, G):
    if xi * nu[0] * lam[0] < 0:
        F[0] = -lam[0]


def hinge(lam, nu, xi, theta, S, F, G):
    label = 1.0 if nu[0] > 0 else -1.0
    if label * lam[0] < 0.7:
        F[0] = label


def teacher(lam, nu, xi, theta, S, F, G):
    label = 1.0 if nu[0] > 0 else -1.0
    F[0] = label / (1 + math.exp(label * lam[0]))


def chance(nu, theta, p):
    p[0] = 1 / (1 + math.exp(-1.5 * nu[0]))
    p[1] = 1 - p[0]


def labels(lam, nu, xi, theta, S, F, G):
    F[0] = xi / (1 + math.exp(xi * lam[0]))


def least_squares(lam, nu, xi, theta, S, F, G):
    F[0] = (xi if nu[0] > 0 else -xi) - lam[0]


def deviations(lam, nu, xi, theta, S, F, G):
    F[0] = -1.0 if lam[0] > nu[0] + xi else 1.0


def clipped_normal(lam, nu, xi, theta, S, F, G):
    F[0] = -min(max(lam[0] - nu[0] - xi, -0.7), 0.7)


def clipped(lam, nu, xi, theta, S, F, G):
    F[0] = -min(max(lam[0] - nu[0] - xi, -0.8), 0.8)


def optimal(lam, nu, xi, theta, S, F, G):
    J, rho = math.sqrt(S[0, 0]), S[0, 1] / math.sqrt(S[0, 0] * S[1, 1])
    width = J * math.sqrt(1 - rho * rho) / rho  # of the layer in lambda
    x = lam[0] / width if nu[0] > 0 else -lam[0] / width
    tail = math.erfc(-x / math.sqrt(2)) / 2
    hazard = math.exp(-x * x / 2) / math.sqrt(2 * math.pi) / tail if x > -30 else -x - 1 / x + 2 / x**3 - 10 / x**5
    F[0] = (width if nu[0] > 0 else -width) * hazard


NU, LAMBDA, WEDGE, FLIPS = [0, 1, 0], [1, 0, 0], [[1, 0, 0], [0, 1, 0]], ([1, -1], [0.9, 0.1])
BY_HAND = {
    "hebb": dict(force=hebb, noise=FLIPS, breaks=[NU]),
    "perceptron": dict(force=perceptron, noise=FLIPS, breaks=WEDGE),
    "adatron": dict(force=adatron, noise=FLIPS, breaks=WEDGE),
    "hinge": dict(force=hinge, breaks=[NU, [1, 0, 0.7], [1, 0, -0.7]]),
    "logistic": dict(force=teacher, breaks=[NU]),
    "logistic labels": dict(force=labels, noise=([1, -1], chance)),
    "least squares": dict(force=least_squares, noise=FLIPS, breaks=[NU]),
    "optimal": dict(force=optimal, breaks=WEDGE, uses_overlaps=True),
    "least deviations": dict(force=deviations, noise=CAUCHY, breaks=[[1, -1, -1, 0]]),
    "clipped normal": dict(force=clipped_normal, noise=NORMAL, breaks=[[1, -1, -1, 0.7], [1, -1, -1, -0.7]]),
    "clipped Student": dict(force=clipped, noise=STUDENT, breaks=[[1, -1, -1, 0.8], [1, -1, -1, -0.8]]),
}
USUAL = "hebb", "hinge", "logistic labels", "optimal"  # quick: of each kind one


@few("name", sorted(BY_HAND, key=lambda name: name not in USUAL), quick=len(USUAL))
@few("Q, r, T", [(0.8, 0.5, 1.2), (2.7, -0.9, 0.6), (1.0, 0.98, 1.0), (1.3, 1.3 * (1 - 1e-6), 1.3)], quick=1)
def test_the_same_rule_written_by_hand(name, Q, r, T):
    """Nearly aligned, too. Relative to the largest entry: A and B grow like 1 / sqrt(1 - rho^2) with rounding of P."""
    r = abs(r) if name == "optimal" else r
    mine = ov.Rule(**{"K": 1, "M": 1, **BY_HAND[name]})
    known, found = numbers(GOLDEN[name][0](), Q, r, T)[0], numbers(mine, Q, r, T)[0]
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-8 * max(1, np.max(np.abs(known))))


@pytest.mark.parametrize("name", ["hebb", "perceptron", "adatron", "hinge", "logistic", "least squares"])
def test_drift_at_exact_alignment(name):
    """Where student and teacher are one, only A + B counts: S has one direction, and any left inverse serves."""
    rule = GOLDEN[name][0]()
    known, found = (numbers(x, 1.3, 1.3, 1.3)[0] for x in (rule, replace(rule, closed=None)))
    assert found[0] + found[1] == pytest.approx(known[0] + known[1], abs=1e-9)
    assert found[2] == pytest.approx(known[2], abs=1e-9)


def test_optimal_refuses_a_student_that_points_away():
    with pytest.raises(ValueError, match=r"R = -0\.5 .* expected R > 0"):
        numbers(R.optimal(), R=-0.5)


def test_a_perceptron_needs_a_direction():
    with pytest.raises(ValueError, match="Q = 0 with the rule perceptron"):
        numbers(R.perceptron(), Q=0.0, R=0.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: R.hebb(0.5), "flip = 0.5; expected a finite number >= 0 and of size below 0.5. It is the probability"),
        (lambda: R.hinge(-1.0), "margin = -1.0; expected a finite number >= 0"),
        (lambda: R.logistic(0.0), "beta = 0.0; expected a finite number > 0"),
        (lambda: R.residual(stats.norm(loc=1.0)), "not symmetric about 0"),
        (lambda: R.residual("cauchy"), "frozen continuous distribution"),
    ],
)
def test_wrong_numbers_of_rules(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_committee_that_sees_labels_of_a_committee():
    """Logistic labels of a teacher: A and B by Stein's lemma from P = E[F z], C and the loss, on a product grid."""
    beta, Q, R_, T, eta = 2.3, 0.8, 0.5, 1.2, 0.7
    model = ov.learner(ov.rules.logistic_committee(1, 1, beta), eta=eta)
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    S = np.array([[Q, R_], [R_, T]])
    lam, nu = np.tensordot(np.linalg.cholesky(S), np.stack(np.meshgrid(x, x, indexing="ij")), 1)
    weight, out, slope = np.outer(w, w), erf(lam / np.sqrt(2)), np.sqrt(2 / np.pi) * np.exp(-(lam**2) / 2)
    right = expit(beta * erf(nu / np.sqrt(2)))  # the chance of y = 1
    F = slope * (right * expit(-out) - (1 - right) * expit(out))
    squared = slope**2 * (right * expit(-out) ** 2 + (1 - right) * expit(out) ** 2)
    A, B = eta * np.linalg.solve(S, [np.sum(weight * F * lam), np.sum(weight * F * nu)])
    loss = np.sum(weight * (right * np.log1p(np.exp(-out)) + (1 - right) * np.log1p(np.exp(out))))
    c = ov.closure(model, Q=[[Q]], R=[[R_]], T=[[T]])
    found = [c.A[0, 0], c.B[0, 0], c.C[0, 0], c.eps_g]
    np.testing.assert_allclose(
        found, [A, B, eta**2 * np.sum(weight * squared), loss], rtol=1e-6
    )  # as the rule promises


def test_node_perturbation_doubles_the_noise_of_the_gradient():
    """A, B of the squared loss, 2 C + tr(C) 1 in place of its C, from the closure of the committee."""
    at = dict(Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2], [0.1]], T=[[1.0]])
    c = ov.closure(ov.learner(R.node_perturbation([1.0, 0.5], [0.8], noise=0.2), eta=0.4), **at)
    d = ov.closure(ov.committee_machine(2, 1, v=[1.0, 0.5], v_star=[0.8], noise=0.2, eta=0.4), **at)
    np.testing.assert_allclose(c.C, 2 * d.C + np.trace(d.C) * np.eye(2), rtol=1e-12)
    np.testing.assert_allclose(c.A, d.A, rtol=1e-12)
