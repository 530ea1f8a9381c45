"""Samples of several inputs: closures against printed numbers, and what T tokens have in common with one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import few
from scipy.integrate import solve_ivp
from scipy.special import erf

import overlaps as ov
from overlaps.rules import _rule

R = ov.rules
ROLES = "force", "error", "chance"
PLAIN = dict(Q=[[0.5]], R=[[0.2]], T=[[1.0]])
GENERIC = dict(Q=[[0.8]], R=[[0.5]], T=[[1.2]])
TWO_UNITS = dict(Q=[[0.9, 0.2], [0.2, 0.7]], R=[[0.3], [-0.1]], T=[[1.1]])
CLOSE = [[1.0, 0.6], [0.6, 1.0]]


def pair(lam, nu, xi, theta, S, F, G):
    F[0, 0] = lam[1, 0] - lam[0, 0] ** 3 / 3
    F[1, 0] = lam[0, 0] - lam[1, 0] ** 3 / 3


def attention(lam, nu, xi, theta, S, F, G):
    T, out, y, total, totals = lam.shape[0], 0.0, 0.0, 0.0, 0.0
    for a in range(T):
        total += math.exp(lam[a, 0])
        totals += math.exp(nu[a, 0])
        out += math.exp(lam[a, 0]) * lam[a, 0]
        y += math.exp(nu[a, 0]) * nu[a, 0]
    out, y = out / total, y / totals
    for a in range(T):
        F[a, 0] = -(out - y) * math.exp(lam[a, 0]) / total * (1 + lam[a, 0] - out)


def own(lam, nu, xi, theta, S, F, G):
    """Each token learns by itself, two units with a second layer theta and noisy labels."""
    for a in range(lam.shape[0]):
        delta = theta[0] * np.tanh(lam[a, 0]) + theta[1] * lam[a, 1] - np.tanh(nu[a, 0]) - 0.3 * xi
        F[a, 0], F[a, 1] = -delta / np.cosh(lam[a, 0]) ** 2 / 2, -0.8 * delta / 2
        G[0] -= np.tanh(lam[a, 0]) * delta / 2


def alone(lam, nu, xi, theta, S, F, G):
    delta = theta[0] * np.tanh(lam[0]) + theta[1] * lam[1] - np.tanh(nu[0]) - 0.3 * xi
    F[0], F[1] = -delta / np.cosh(lam[0]) ** 2, -0.8 * delta
    G[0] = -np.tanh(lam[0]) * delta


def uneven(lam, nu, xi, theta, S, F, G):
    F[0, 0] = np.tanh(lam[0, 0] - nu[1, 0])
    F[1, 0] = 0.3 * lam[0, 0] * nu[1, 0] - lam[1, 0]


def summed(lam, nu, xi, theta, S, F, G):
    """What ``uneven`` does to one token that comes twice."""
    F[0] = np.tanh(lam[0] - nu[0]) + 0.3 * lam[0] * nu[0] - lam[0]


def exchanged(lam, nu, xi, theta, S, F, G):
    F[1, 0] = np.tanh(lam[1, 0] - nu[0, 0])
    F[0, 0] = 0.3 * lam[1, 0] * nu[0, 0] - lam[0, 0]


def idle(lam, nu, xi, theta, S, F, G):
    pass


def row(lam, nu, xi, theta, S, F, G):
    F[0] = math.tanh(lam[0])


def closure(rule, overlaps=PLAIN, eta=1.0, batch_size=1, theta=None):
    model = ov.learner(rule, eta=eta, eta_theta=1.0, theta=theta, batch_size=batch_size)
    return ov.closure(model, **overlaps)


def arrays(c):
    return np.concatenate([c.A.ravel(), c.B.ravel(), c.C.ravel(), c.dv])


def patches_flow():
    """Q and R at alpha = 2 and 6 of two patches: integrals over one patch, the other one adds noise to its labels."""
    x, p = np.polynomial.hermite_e.hermegauss(60)
    (x, y), p = np.meshgrid(x, x, indexing="ij"), np.outer(p, p) / np.sum(p) ** 2

    def velocity(t, state):
        Q, R = state
        lam, nu = np.sqrt(Q) * x, R / np.sqrt(Q) * x + np.sqrt(1 - R * R / Q) * y
        slope, delta = np.sqrt(2 / np.pi) * np.exp(-lam * lam / 2), erf(lam / np.sqrt(2)) - erf(nu / np.sqrt(2))
        C = (np.sum(p * slope**2 * delta**2) + np.sum(p * slope**2) * np.sum(p * delta**2)) / 2
        return [C - 2 * np.sum(p * slope * delta * lam), -np.sum(p * slope * delta * nu)]

    states = solve_ivp(velocity, (0, 6), [0.5, 0.2], t_eval=[2, 6], method="DOP853", rtol=1e-11, atol=1e-13).y
    return tuple(states.ravel())


# P_lambda, P_nu, C, then Q and R at alpha = 2 and 6, by tensors of Gauss-Hermite nodes and a Runge-Kutta method
GOLDEN = {
    "pair": (lambda: R.pair(0.6), 0.15, (0.1, 0.04, 0.688266666667),
             (0.571946458674, 0.632898585269, 0.207448313599, 0.205217028712)),
    "pair of independent views": (lambda: R.pair(0.0), 0.15, (-0.5, -0.2, 1.416666666667),
             (0.342854419048, 0.219352123090, 0.156313077862, 0.113001010052)),
    "attention": (lambda: R.attention(2), 0.5, (-0.178061422618, 0.461974592970, 0.6009456420),
             (0.600492464, 0.909058963, 0.601557852, 0.938279081)),
    "attention, correlated": (lambda: R.attention(2, CLOSE), 0.5, (-0.247924027111, 0.655294414635, 0.8082058980),
             (0.618999037, 0.915593867, 0.661659000, 0.948372067)),
    "patches": (lambda: R.patches("erf", 2), 1.0, (-0.100715689149, 0.300139232791, 0.1744310285), patches_flow()),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_closures(name):
    make, _, start, _ = GOLDEN[name]
    c = closure(make())
    P = np.array([c.A[0, 0], c.B[0, 0]]) @ [[0.5, 0.2], [0.2, 1.0]]
    np.testing.assert_allclose([*P, c.C[0, 0]], start, rtol=0, atol=2e-9)  # C of patches is printed to 1e-9


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x[0] == "a" else x for x in GOLDEN])
def test_golden_flows(name):
    make, eta, _, known = GOLDEN[name]
    model = ov.learner(make(), eta=eta)
    traj = ov.solve(model, ov.State.from_overlaps(model, **PLAIN), [2.0, 6.0])
    np.testing.assert_allclose([*traj.Q[:, 0, 0], *traj.R[:, 0, 0]], known, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "T, eta, at, known",
    [
        (1, 0.5, [16.0], [5.46773249, 45.45685154]),
        (4, 1.0, [8.0, 16.0], [1.44706983, 5.55795212, 3.81776140, 23.26059596]),
        (8, 1.0, [40.0], [1.04056570, 3.54635904]),
    ],
)
def test_golden_episodes(T, eta, at, known):
    model = ov.learner(R.episode(T), eta=eta)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.2]], T=[[1.0]])
    traj = ov.solve(model, start, at, rtol=1e-11)
    found = np.column_stack([traj.R[:, 0, 0], traj.Q[:, 0, 0]]).ravel()
    np.testing.assert_allclose(found, known, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_forces_by_hand_are_those_of_the_library():
    for by_hand, known in ((pair, R.pair(0.6)), (attention, R.attention(2, CLOSE))):
        rule = ov.Rule(by_hand, K=1, M=1, tokens=2, token_covariance=CLOSE, tolerance=1e-5)
        np.testing.assert_allclose(arrays(closure(rule, GENERIC)), arrays(closure(known, GENERIC)), rtol=0, atol=1e-8)


def test_recorded_errors_are_those_of_samples(rng):
    """Means over 10^5 samples, in standard errors."""
    z = rng.standard_normal((100_000, 2)) @ np.linalg.cholesky([[0.8, 0.5], [0.5, 1.2]]).T
    z = np.stack([z, 0.6 * z + 0.8 * rng.standard_normal(z.shape) @ np.linalg.cholesky([[0.8, 0.5], [0.5, 1.2]]).T], 1)
    p = np.exp(z) / np.sum(np.exp(z), axis=1, keepdims=True)
    out, y = np.sum(p * z, axis=1).T
    of_pair = (z[:, 0, 0] - z[:, 1, 0]) ** 2 / 2
    for rule, values in ((R.attention(2, CLOSE), (out - y) ** 2 / 2), (R.pair(0.6), of_pair)):
        error = np.std(values) / np.sqrt(len(values))
        assert abs(closure(rule, GENERIC).eps_g - np.mean(values)) < 4 * error


@few(
    "rule, accuracy",
    [
        (lambda: R.pair(0.4), 1e-9),
        (lambda: R.patches("erf", 2), 1e-6),  # 24 nodes in each direction
        (lambda: R.episode(2, 1, 0.3, 0.2), 1e-3),  # four fields with breaks, by Sobol points
        (lambda: R.patches("linear", 2, noise=0.4), 1e-3),  # five fields
    ],
    quick=1,
)
def test_closed_forms_are_quadratures_of_their_forces(rule, accuracy):
    rule = rule()
    known, found = closure(rule, GENERIC), closure(replace(rule, closed=None, tolerance=1e-5), GENERIC)
    np.testing.assert_allclose(arrays(found), arrays(known), rtol=0, atol=accuracy)
    assert found.eps_g == pytest.approx(known.eps_g, abs=accuracy)


@pytest.mark.slow
def test_patches_of_two_units_with_a_second_layer():
    rule = R.patches("erf", 2, 2)
    known, found = (closure(x, TWO_UNITS, theta=[0.6, -0.9]) for x in (rule, replace(rule, closed=None)))
    np.testing.assert_allclose(arrays(found), arrays(known), rtol=0, atol=1e-3)


def test_binomial_tails_of_an_episode():
    """C = E r^2 / T and B, A from the law of the number of right answers, summed over outcomes of one seen answer."""
    T, n, penalty, bonus = 5, 3, 0.4, 0.15
    c = closure(R.episode(T, n, penalty, bonus), GENERIC)
    p, square, slope = 1 - c.eps_g, 0.0, np.zeros(2)
    for seen in (0, 1):
        for others in range(T):
            chance = math.comb(T - 1, others) * p**others * (1 - p) ** (T - 1 - others)
            r = (1.0 if seen + others >= n else -penalty) + bonus * seen
            square += chance * (p if seen else 1 - p) * r**2
            slope[seen] += chance * r
    assert c.C[0, 0] == pytest.approx(square / T, rel=1e-12)
    assert c.A[0, 0] == pytest.approx((slope[1] + slope[0]) / math.sqrt(2 * math.pi * 0.8), rel=1e-12)
    assert c.B[0, 0] == pytest.approx((slope[1] - slope[0]) / math.sqrt(2 * math.pi * 1.2), rel=1e-12)


@pytest.mark.slow
def test_long_episodes_are_numbers():
    model = ov.learner(R.episode(2000, 1340), eta=1.0)
    c = ov.closure(model, **GENERIC)
    assert np.isfinite(arrays(c)).all() and c.B[0, 0] > 0
    c = ov.closure(ov.learner(R.episode(7), eta=1.0), Q=[[0.8]], R=[[0.8]], T=[[0.8]])  # all answers are right
    assert c.A[0, 0] == c.B[0, 0] == pytest.approx(1 / math.sqrt(2 * math.pi * 0.8), rel=1e-12)
    assert c.eps_g == 0 and c.C[0, 0] == pytest.approx(1 / 7, rel=1e-12)


@pytest.mark.slow
def test_independent_tokens_that_learn_alone_are_a_minibatch():
    """A, B, g are those of one input, C is half as large; that of a batch of two, where labels share no noise."""
    one, two = ov.Rule(alone, K=2, M=1), ov.Rule(own, K=2, M=1, tokens=2)
    known, found = (closure(x, TWO_UNITS, theta=[0.7, 0.4]) for x in (one, two))
    for name in ("A", "B", "dv"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=0, atol=1e-3)  # six fields
    np.testing.assert_allclose(found.C, known.C / 2, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_copies_of_a_token_are_one_token():
    copies = ov.Rule(uneven, K=1, M=1, tokens=2, token_covariance=np.ones((2, 2)), tolerance=1e-5)
    one = ov.Rule(summed, K=1, M=1)
    np.testing.assert_allclose(arrays(closure(copies, GENERIC)), arrays(closure(one, GENERIC)), rtol=0, atol=1e-6)


def test_tokens_have_no_order():
    rules = (ov.Rule(x, K=1, M=1, tokens=2, token_covariance=CLOSE, tolerance=1e-6) for x in (uneven, exchanged))
    one, other = (arrays(closure(x, GENERIC)) for x in rules)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def views(lam, nu, xi, theta, S, F, G):
    for a in range(3):
        F[a, 0] = (lam[(a + 1) % 3, 0] + lam[(a + 2) % 3, 0] - lam[a, 0] ** 3 / 3) / 3


@pytest.mark.parametrize("tolerance", [None, pytest.param(1e-5, marks=pytest.mark.slow)])
def test_lattices_of_six_fields_keep_their_tolerance(tolerance):
    """Three views of a polynomial force against Wick's theorem, A = 2 rho - Q: a difference, .2 of terms of size .8."""
    c = 0.3 * np.ones((3, 3)) + 0.7 * np.eye(3)
    found = closure(ov.Rule(views, K=1, M=1, tokens=3, token_covariance=c, tolerance=tolerance), GENERIC)
    np.testing.assert_allclose(
        [found.A[0, 0], found.B[0, 0]], [2 * 0.3 - 0.8, 0], rtol=0, atol=0.2 * (tolerance or 1e-3)
    )


@pytest.mark.slow
def test_attention_over_three_tokens_has_six_digits():
    """Tolerances of 1e-3 and 1e-6 against a cubic grid of 1.6 million points, whose frequencies begin at 7.9."""
    overlaps, c, step, reach = dict(Q=[[0.7]], R=[[0.3]], T=[[0.9]]), 0.6 + 0.4 * np.eye(3), 0.8, 6.6
    one = step * np.arange(-8, 9)
    cube = np.stack(np.meshgrid(one, one, one), -1).reshape(-1, 3)
    root = np.kron(np.linalg.cholesky(c), np.linalg.cholesky([[0.7, 0.3], [0.3, 0.9]]))
    sums, norms = np.zeros(4), np.sum(cube**2, axis=1)
    for x in cube[norms <= reach**2]:
        others = cube[norms <= reach**2 - x @ x]
        u = np.concatenate([np.broadcast_to(x, others.shape), others], axis=1)
        z, weight = (u @ root.T).reshape(-1, 3, 2), np.exp(-np.sum(u * u, axis=1) / 2)
        p = np.exp(z)
        out, y = (np.sum(p * z, axis=1) / np.sum(p, axis=1)).T[..., None]
        F = -(out - y) * p[..., 0] / np.sum(p[..., 0], axis=1, keepdims=True) * (1 + z[..., 0] - out)
        P = np.einsum("n,na,naf->f", weight, F, z)
        sums += [*P, np.einsum("n,na,ab,nb", weight, F, c, F), np.sum(weight)]
    A, B = np.linalg.solve([[0.7, 0.3], [0.3, 0.9]], sums[:2] / sums[3])
    for tolerance, accuracy in ((None, 1e-3), (1e-6, 1e-6)):
        found = arrays(closure(R.attention(3, c, tolerance), overlaps))[:3]
        assert np.all(np.abs(found - [A, B, sums[2] / sums[3]]) < accuracy * np.array([1, 1, 10]))


@pytest.mark.slow
def test_tolerances_that_a_lattice_does_not_reach_are_refused():
    def steep(lam, nu, xi, theta, S, F, G):
        for a in range(3):
            F[a, 0] = np.tanh(12 * (lam[a, 0] - nu[(a + 1) % 3, 0]))

    with pytest.raises(ValueError, match="do not converge: sizes differ by .* expected 1e-03; declare breaks"):
        closure(ov.Rule(steep, K=1, M=1, tokens=3), GENERIC)


def right(lam, nu, theta):
    return 1.0 if lam[0] * nu[0] > 0 else 0.0


def rewarded(T, n, penalty, bonus):
    """An episode from one answer and the number xi of others that are right."""

    def force(lam, nu, xi, theta, S, F, G):
        own = lam[0] * nu[0] > 0
        F[0] = np.sign(lam[0]) * ((1.0 if xi + own >= n else -penalty) + bonus * own) / T

    def wrong(lam, nu, theta):
        return 1.0 if lam[0] * nu[0] < 0 else 0.0

    return ov.Rule(force, K=1, M=1, tokens=T, others=right, error=wrong, breaks=[[1, 0, 0], [0, 1, 0]])


def deviation(lam, nu, theta):
    return theta[0] * math.erf(lam[0] / math.sqrt(2)) - math.erf(nu[0] / math.sqrt(2))


def patch(lam, nu, xi, theta, S, F, G):
    """One of three patches; xi is the deviation of the others."""
    delta = theta[0] * math.erf(lam[0] / math.sqrt(2)) - math.erf(nu[0] / math.sqrt(2)) + xi
    F[0] = -theta[0] * math.sqrt(2 / math.pi) * math.exp(-(lam[0] ** 2) / 2) * delta / 3
    G[0] = -math.erf(lam[0] / math.sqrt(2)) * delta / 3


def even(lam, nu, theta):
    return 0.3 * lam[0] ** 2 - nu[0] * lam[0]


def pulled(lam, nu, xi, theta, S, F, G):
    F[0] = (0.3 * lam[0] ** 2 - nu[0] * lam[0] + xi) * (0.4 * lam[0] - nu[0])


def pulled_by_all(lam, nu, xi, theta, S, F, G):
    delta = 0.0
    for a in range(2):
        delta += 0.3 * lam[a, 0] ** 2 - nu[a, 0] * lam[a, 0]
    for a in range(2):
        F[a, 0] = delta * (0.4 * lam[a, 0] - nu[a, 0])


@few(
    "alone, whole",
    [
        (lambda: rewarded(4, 3, 0.3, 0.2), lambda: R.episode(4, 3, 0.3, 0.2)),
        (lambda: rewarded(13, 13, 0.0, 0.0), lambda: R.episode(13)),
        (lambda: ov.Rule(patch, K=1, M=1, tokens=3, others=deviation), lambda: R.patches("erf", 3)),
        # the mean of ``even`` is not zero
        (lambda: ov.Rule(pulled, K=1, M=1, tokens=2, others=even), lambda: ov.Rule(pulled_by_all, K=1, M=1, tokens=2)),
    ],
    quick=1,
)
def test_forces_that_see_a_sum_over_other_tokens(alone, whole):
    """Products of integrals over one token, against closed forms and four fields at once."""
    found, known = (closure(x(), GENERIC, eta=0.9, theta=[0.7]) for x in (alone, whole))
    np.testing.assert_allclose(arrays(found), arrays(known), rtol=0, atol=2e-8)


@pytest.mark.slow
def test_steps_of_forces_that_see_a_sum():
    """The same inputs, the same steps as those of the library's force."""
    for alone, whole in (
        (rewarded(4, 3, 0.3, 0.2), R.episode(4, 3, 0.3, 0.2)),
        (ov.Rule(patch, K=1, M=1, tokens=3, others=deviation), R.patches("erf", 3)),
    ):
        models = [ov.learner(x, eta=0.9, eta_theta=0.4, theta=[0.7]) for x in (alone, whole)]
        for method in ("direct", "reduced"):
            runs = [
                ov.simulate(m, N=50, alpha=[0, 2.0], rng=1, start=ov.State.from_overlaps(m, **GENERIC), method=method)
                for m in models
            ]
            for name in ("Q", "R", "v"):
                np.testing.assert_allclose(getattr(runs[0], name), getattr(runs[1], name), rtol=1e-11)
            assert not np.allclose(runs[0].Q[0, 1], runs[0].Q[0, 0])


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(tokens=1), "others = .* with tokens = 1; expected a function others"),
        (dict(noise="normal"), "of one of several independent tokens, without noise"),
        (dict(token_covariance=CLOSE), "of one of several independent tokens"),
        (dict(others=3.0), "others = 3.0 with tokens = 2"),
        (dict(force=idle), "fills neither F nor G"),
    ],
)
def test_bad_others(options, message):
    with pytest.raises(ValueError, match=message):
        ov.Rule(**{"force": pulled, "K": 1, "M": 1, "tokens": 2, "others": even} | options)


@pytest.mark.slow
def test_forces_that_are_not_linear_in_the_sum_are_refused():
    def curved(lam, nu, xi, theta, S, F, G):
        F[0] = lam[0] * xi**2

    with pytest.raises(ValueError, match="not linear in xi, its sum over the other tokens: second differences are"):
        ov.Rule(curved, K=1, M=1, tokens=3, others=even)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(token_covariance=[[1.0, 1.2], [1.2, 1.0]]),
            "token_covariance is not positive semi-definite: its lowest eigenvalue is -0.2",
        ),
        (dict(token_covariance=[[1.0, 0.2], [0.3, 1.0]]), "token_covariance is not symmetric"),
        (dict(token_covariance=[[2.0, 0.6], [0.6, 1.0]]), "token_covariance has the diagonal .* expected ones"),
        (dict(token_covariance=np.ones((3, 3))), r"token_covariance has shape \(3, 3\); expected \(2, 2\)"),
        (dict(token_covariance=[CLOSE, [[1.0, 1.2], [1.2, 1.0]]]), "token_covariance is not positive semi-definite"),
        (dict(token_covariance=np.ones((2, 3, 3))), r"token_covariance has shape \(2, 3, 3\); expected \(L, 2, 2\)"),
        (dict(tokens=5), r"tokens = 5 with K \+ M = 2: T \(K \+ M\) = 10 fields; expected at most 8"),
        (dict(tokens=0), "tokens = 0; expected an integer >= 1"),
        (dict(force=idle), "fills neither F nor G"),
        (dict(force=row), r"numba cannot compile force .* Expected force\(lam \(T, K\)"),
        (dict(breaks=[[1, 0, 0]]), r"breaks has shape \(1, 3\); expected rows \(c, t\) of length 5"),
    ],
)
def test_bad_tokens(options, message):
    with pytest.raises(ValueError, match=message):
        ov.Rule(**{"force": pair, "K": 1, "M": 1, "tokens": 2, **options})


TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
APART = [[[1.0, 0.7], [0.7, 1.0]], [[1.0, -0.3], [-0.3, 1.0]]]
BLOCKS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])


def swapped(lam, nu, xi, theta, S, F, G):
    """Views that attract, drawn to what the other one says."""
    F[0, 0] = lam[1, 0] - 0.8 * lam[0, 0] + 0.5 * nu[1, 0]
    F[1, 0] = lam[0, 0] - 0.8 * lam[1, 0] + 0.5 * nu[0, 0]


def difference(lam, nu, theta):
    return (lam[0, 0] - lam[1, 0]) ** 2 / 2


def learners(*covariances, spectrum=TWO, eta=0.3):
    rules = [ov.Rule(swapped, K=1, M=1, tokens=2, token_covariance=c, error=difference) for c in covariances]
    return [ov.learner(rule, eta=eta, spectrum=spectrum) for rule in rules]


@pytest.mark.slow
def test_tokens_with_a_covariance_for_each_eigenspace():
    """A linear force, whose flow is two lines: A^l = 2 (c_l - .8), B^l = c_l, C^l = sum_ab c^l_ab E[F^a F^b]."""
    (model,), s, c, eta = learners(APART), np.array([1.6, 0.4]), np.array([0.7, -0.3]), 0.3
    start = ov.State.from_blocks(model, **BLOCKS)

    def velocity(alpha, y):
        q, r, t = y[:2], y[2:], np.array([0.5, 0.6])  # plain
        own = np.array([s @ q, s @ r, s @ t])
        other = np.array([s @ (c * q), s @ (c * r), s @ (c * t)])
        # F^1 = lam^2 - .8 lam^1 + .5 nu^2
        square = 1.64 * own[0] - 1.6 * other[0] + own[1] - 0.8 * other[1] + 0.25 * own[2]
        cross = 1.64 * other[0] - 1.6 * own[0] + other[1] - 0.8 * own[1] + 0.25 * other[2]
        A, B, C = 2 * (c - 0.8), c, 2 * (square + c * cross)
        dq = 2 * eta * s * (A * q + B * r) + eta**2 * s * 0.5 * C
        return np.concatenate([dq, eta * s * (A * r + B * t)])

    known = solve_ivp(velocity, (0, 3), [0.5, 0.3, 0.1, 0.05], method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    traj = ov.solve(model, start, [0.0, 3.0], rtol=1e-10)
    np.testing.assert_allclose(traj.q[1, :, 0, 0], known[:2], rtol=0, atol=1e-8)
    np.testing.assert_allclose(traj.r[1, :, 0, 0] / s, known[2:], rtol=0, atol=1e-8)
    np.testing.assert_allclose(traj.eps_g[1], s @ ((1 - c) * known[:2]), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_equal_covariances_of_all_eigenspaces_are_one():
    three = ov.Spectrum(s=[1.6, 0.4, 0.9], p=[0.5, 0.3, 0.2])
    q, r, t = np.array([[0.5, 0.3, 0.1], [0.1, 0.05, 0.0], [0.5, 0.6, 0.2]])[..., None, None]
    one, all_ = learners(CLOSE, [CLOSE] * 3, spectrum=three)
    start = ov.State.from_blocks(one, q=q, r=r, t=t)
    for name in ("q", "r", "eps_g"):
        x, y = (getattr(ov.solve(m, start.on(m), [0.0, 1.0]), name) for m in (one, all_))
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)  # steps and rounding of 10^5 nodes


def test_bad_rules_of_tokens():
    with pytest.raises(ValueError, match="at_least = 5 of T = 4 answers; expected 1 to 4"):
        R.episode(4, at_least=5)
    with pytest.raises(ValueError, match="rho = 1.2; expected a finite number >= -1 and <= 1. It is a correlation"):
        R.pair(1.2)
    with pytest.raises(ValueError, match="activation = tanh; expected ov.erf"):
        R.patches("tanh", 2)
    with pytest.raises(ValueError, match="tokens = 5 with .* expected at most 8"):
        R.attention(5)
    with pytest.raises(ValueError, match="has tokens = 2; expected one input a sample"):
        R.adagrad_norm(R.pair(0.3))
    with pytest.raises(ValueError, match="needs a direction of the student"):
        closure(R.episode(3), dict(Q=[[0.0]], R=[[0.0]], T=[[1.0]]))


@pytest.mark.slow
def test_what_covariances_of_eigenspaces_do_not_know():
    with pytest.raises(ValueError, match="has token_covariance for 2 eigenspaces; expected 1, those of the spectrum"):
        learners(APART, spectrum=None)
    (model,) = learners(APART)
    start = ov.State.from_blocks(model, **BLOCKS)
    for call, message in (
        (lambda: ov.closure(model, **GENERIC), "closure does not support a token_covariance for each eigenspace"),
        (
            lambda: ov.solve(model, start, [1.0], method="structured"),
            "does not support a token_covariance for each eigenspace",
        ),
        (
            lambda: ov.solve(model, start, [1.0], schedule={"s": ov.Schedule.constant(0.5)}),
            "a schedule on s with a token_covariance",
        ),
        (lambda: ov.solve(model, start, [1.0], blocks=False), "blocks=False with a token_covariance"),
        (lambda: ov.compress(model, start, 1), "does not support a token_covariance for each eigenspace"),
        (
            lambda: ov.fluctuations(ov.solve(model, start, [0.0, 0.1]), 100),
            "fluctuations does not support a token_covariance",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_tokens_know_neither_classes_nor_latents():
    activation = R.attention(2).activation
    with pytest.raises(ValueError, match="inputs in classes with a rule of learning"):
        ov.gaussian_mixture(
            1, 1, weights=[0.5, 0.5], labels=[1, -1], gram=np.eye(2)[None], activation=activation, eta=0.5
        )
    with pytest.raises(ValueError, match=r"inputs in classes with a rule of learning"):
        ov.gaussian_mixture(1, 1, weights=[1.0], labels=[1], gram=np.eye(1)[None], activation=activation, eta=0.5)
    with pytest.raises(ValueError, match="a teacher of latents with a rule of learning"):
        ov.hidden_manifold(1, 1, ratio=0.5, activation=activation, eta=0.5)


def test_the_force_of_patches_is_the_slope_of_its_error():
    """F^a_k = -(1/T) d error / d lam^a_k, G_k = -(1/T) d error / d theta_k, by differences; unlike numbers of units."""
    T, K, h = 2, 2, 1e-5
    rule, rng = R.patches(ov.erf, T, K=K, v_star=[0.8]), np.random.default_rng(3)
    lam, nu, theta = rng.normal(size=(T, K)), rng.normal(size=(T, 1)), rng.normal(size=K)
    F, G = np.zeros((T, K)), np.zeros(K)
    rule.force(lam, nu, 0.0, theta, np.eye(3), F, G)

    def slope(x):
        result = np.zeros(x.shape)
        for i in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                x[i] += sign * h
                ends.append(rule.error(lam, nu, theta))
                x[i] -= sign * h
            result[i] = (ends[0] - ends[1]) / (2 * h)
        return result

    # differences err by h^2, 1e-10, and by rounding over h
    np.testing.assert_allclose(F, -slope(lam) / T, rtol=0, atol=1e-8)
    np.testing.assert_allclose(G, -slope(theta) / T, rtol=0, atol=1e-8)


def test_functions_of_tokens_see_rows_as_tables():
    """Three tokens of two students and one teacher: unlike numbers, which a wrong shape would mix up."""
    lam, nu, seen = np.arange(6.0), np.arange(10.0, 13.0), []

    def force(lam, nu, xi, theta, S, F, G):
        seen.extend([lam.copy(), nu.copy()])
        F[:] = lam + nu

    flats = [_rule.flat(role, force if role == "force" else lambda *x: seen.extend(x), 3, 2, 1) for role in ROLES]
    whole, error, chance = (getattr(f, "py_func", f) for f in flats)
    F = np.zeros(6)
    whole(lam, nu, 0.0, np.zeros(2), np.eye(3), F, np.zeros(2))
    np.testing.assert_array_equal(F, [10, 11, 13, 14, 16, 17])
    error(lam, nu, 0.0)
    chance(nu, 0.0, 0.0)
    shapes = [np.shape(x) for x in seen]
    assert shapes == [(3, 2), (3, 1), (3, 2), (3, 1), (), (3, 1), (), ()]
