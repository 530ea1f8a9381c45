"""The theory against finite experiments: exact posterior sampling by Hamiltonian Monte Carlo, and students of Adam.

The decoupling of the features is heuristic; these are its only checks that do not assume it.
"""

import math

import numpy as np
import pytest

from overlaps._base.jit import jit
from overlaps.static import HierarchicalTeacher
from overlaps.static.bayes._adam import train
from overlaps.static.bayes.student import error, train_student

HE3 = {3: 1.0}


def teacher(k, Delta, beta=1.0):
    return HierarchicalTeacher(beta=beta, k=k, noise=Delta**0.5, activation=HE3)


# posterior sampling ---------------------------------------------------------------------------------------------------


def he3(z):
    return (z**3 - 3 * z) / math.sqrt(6)


@jit(fast=True)
def squares(X, y, U, v, pull):
    """Sum of (v.He_3(U x) - y)^2 / 2 over the samples, and its gradient in U; plain loops, no threads."""
    total, slope = 0.0, np.empty(v.size)
    pull[:] = 0.0
    for b in range(y.size):
        residual = -y[b]
        for j in range(v.size):
            z = 0.0
            for i in range(X.shape[1]):
                z += X[b, i] * U[j, i]
            residual += v[j] * (z * z - 3) * z / math.sqrt(6)
            slope[j] = v[j] * (z * z - 1) * 3 / math.sqrt(6)
        total += 0.5 * residual * residual
        for j in range(v.size):
            for i in range(X.shape[1]):
                pull[j, i] += residual * slope[j] * X[b, i]
    return total


def posterior_overlaps(v, d, nu, Delta, rng, steps, leaps=20):
    """Chain on the posterior of the features, started at the teacher, which is an exact sample of it.

    Features are uniform on the sphere: directions of Gaussian vectors, which are what moves.  Returns the mean overlap
    with each teacher feature and the mean of E[(yhat - y*)^2]/2 with yhat a sample, which is the Bayes error, over the
    second half of the chain.
    """
    k, n = v.size, round(nu * d)
    star = rng.normal(size=(k, d))
    X = rng.normal(size=(n, d))
    unit = star / np.linalg.norm(star, axis=1, keepdims=True)
    y = he3(X @ unit.T) @ v + math.sqrt(Delta) * rng.normal(size=n)

    pull = np.empty((k, d))

    def energy(W):
        length = np.linalg.norm(W, axis=1, keepdims=True)
        u = W / length
        total = squares(X, y, u, v, pull) / Delta
        force = (pull - np.sum(pull * u, axis=1, keepdims=True) * u) / length / Delta + W
        return total + 0.5 * np.sum(W * W), force

    W, (U, force) = star.copy(), energy(star)
    size, kept = 0.3 / math.sqrt(1 + 9 * nu * v.max() ** 2 / Delta), []
    for step in range(steps):
        p = rng.normal(size=W.shape)
        start, new, slope = 0.5 * np.sum(p * p) + U, W.copy(), force
        h = size * rng.uniform(0.7, 1.3)
        for _ in range(leaps):
            p = p - 0.5 * h * slope
            new = new + h * p
            with np.errstate(over="ignore", invalid="ignore"):  # a diverging proposal ends in nan and is refused
                high, slope = energy(new)
            p = p - 0.5 * h * slope
        accept = math.log(rng.random()) < start - high - 0.5 * np.sum(p * p)
        if accept:
            W, U, force = new, high, slope
        if step < steps // 2:
            size *= 1.05 if accept else 0.9  # settles near two accepted proposals in three
        else:
            u = W / np.linalg.norm(W, axis=1, keepdims=True)
            T, R, Q = unit @ unit.T, unit @ u.T, u @ u.T
            kept.append((np.diag(R), v @ (T**3 - 2 * R**3 + Q**3) @ v / 2))
    q, eps = (np.mean(x, axis=0) for x in zip(*kept, strict=True))
    return q, eps


@pytest.mark.slow
@pytest.mark.parametrize("lam, expected", [(3.0, (0.872, 0.337)), (6.0, (0.941, 0.167))])
def test_one_feature_against_posterior_sampling(lam, expected):
    """Many samples and Delta = 60, so that the channel of one feature is Gaussian; d = 60."""
    here = teacher(1, 60.0)
    q = here.m(lam)
    eps = 1 - q**3
    assert (q, eps) == pytest.approx(expected, abs=2e-3)  # the theory's digits as given, eps from a rounded q
    runs = [
        posterior_overlaps(np.ones(1), 60, lam * (60 + eps), 60.0, np.random.default_rng(seed), steps=300)
        for seed in range(3)
    ]
    # single runs scatter by 0.005 in q and 5 % in eps
    assert np.mean([run[0] for run in runs]) == pytest.approx(q, abs=0.01)
    assert np.mean([run[1] for run in runs]) == pytest.approx(eps, rel=0.1)


@pytest.mark.slow
def test_equal_readouts_against_posterior_sampling():
    """Width d/2, Delta = 1/2, A = 5, d = 60: single runs give q = 0.947 and eps = 0.142, below and above the limit."""
    d, k = 60, 30
    v = np.full(k, k**-0.5)
    theory = HierarchicalTeacher(v2=v**2, noise=0.5**0.5, activation=HE3).solve(nu=5.0 * k)
    q, eps = posterior_overlaps(v, d, 5.0 * k, 0.5, np.random.default_rng(1), steps=120)
    assert theory.q[0] == pytest.approx(0.9564, abs=1e-3) and theory.eps == pytest.approx(0.125, abs=1e-3)
    assert q.mean() == pytest.approx(theory.q[0], abs=0.015)
    assert eps == pytest.approx(theory.eps, rel=0.2)


@pytest.mark.slow
def test_sampled_error_approaches_the_theory():
    """Equal readouts, A = 3: the distance from the limit shrinks as d doubles."""
    ratios = []
    for d in (40, 80):
        v = np.full(d // 2, (d // 2) ** -0.5)
        theory = HierarchicalTeacher(v2=v**2, noise=0.5**0.5, activation=HE3).solve(nu=1.5 * d)
        q, eps = posterior_overlaps(v, d, 1.5 * d, 0.5, np.random.default_rng(2), steps=100)
        assert theory.eps == pytest.approx(0.251, abs=1e-3) and theory.q[0] == pytest.approx(0.908, abs=1e-3)
        ratios.append(eps / theory.eps)
    assert 1 < ratios[1] < ratios[0] < 1.8 and ratios[1] < 1.4


# students of Adam -----------------------------------------------------------------------------------------------------


def test_gradient_of_one_step():
    """One step of Adam moves every parameter against the sign of its gradient, here by finite differences."""
    rng = np.random.default_rng(3)
    X, y, c = rng.normal(size=(50, 4)), rng.normal(size=50), np.array([0.0, -3.0, 0.0, 1.0])
    U, a = rng.normal(size=(3, 4)), rng.normal(size=3)
    U /= np.linalg.norm(U, axis=1, keepdims=True)

    def loss(parameters):
        z = X @ parameters[3:].reshape(3, 4).T
        return 0.5 * np.mean(((z**3 - 3 * z) @ parameters[:3] - y) ** 2)

    start, h = np.concatenate([a, U.ravel()]), 1e-6
    gradient = np.array([(loss(start + h * e) - loss(start - h * e)) / (2 * h) for e in np.eye(15)])
    moments_U, moments_a = np.zeros((2, 3, 4)), np.zeros((2, 3))
    old = a.copy()
    assert train(X, y, np.arange(50)[None], c, U, a, moments_U, moments_a, 0, 10**9, 1e-9) == 1
    # the first moments hold a tenth of the gradient, before the features return to the sphere
    found = 10 * np.concatenate([moments_a[0], moments_U[0].ravel()])
    assert np.allclose(found, gradient, rtol=1e-6, atol=1e-7)
    assert np.array_equal(np.sign(old - a), np.sign(gradient[:3]))
    assert np.allclose(np.linalg.norm(U, axis=1), 1, rtol=1e-15)


def test_error_in_closed_form_is_a_test_error():
    rng = np.random.default_rng(4)
    star, U = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, 3, 5)))
    v, a = rng.normal(size=(2, 3))
    X = rng.normal(size=(400_000, 5))

    def network(W, w):
        z = X @ W.T
        return (z**3 - 3 * z) / math.sqrt(6) @ w

    squares = (network(star, v) - network(U, a)) ** 2
    spread = squares.std() / math.sqrt(squares.size)
    assert abs(error(np.array([0, 0, 0, 1.0]), star, v, U, a) - squares.mean()) < 5 * spread


def test_student_runs_are_seeded_and_start_where_told():
    here = teacher(6, 0.2)
    first, again = (train_student(here, d=12, n=600, width=4, rng=7, steps=200) for _ in range(2))
    assert first == again and repr(first).startswith("StudentRun(d=12, n=600, width=4, eps=")
    told = train_student(here, d=12, n=600, width=4, rng=7, steps=200, start="teacher")
    # unit features and the teacher's readouts: what is missing are the last two features, up to their overlaps
    assert told.eps[0] == pytest.approx(here.v2[4:].sum(), rel=0.5) and first.eps[0] > 3 * told.eps[0]
    assert np.all(told.overlap <= 1 + 1e-12) and first.steps[-1] == 200


def test_student_beside_the_bayes_error():
    """One small run from the teacher: all features are kept, and the error is near that of Bayes."""
    here = teacher(6, 0.2)
    bayes = here.solve(nu=20 * 16)
    run = train_student(here, d=20, n=16 * 400, width=6, rng=2, start="teacher", steps=6000, rate=0.02)
    assert bayes.k_c == 6 and np.all(run.overlap > 0.9)
    assert 0.6 < run.eps[-1] / bayes.eps < 1.8  # 1.05 to 1.15 at d = 40 and alpha >= 16


@pytest.mark.slow
@pytest.mark.parametrize("alpha, found", [(2, 8), (8, 16)])
def test_students_from_random_starts(alpha, found):
    """The published size: a constant factor of about two above the Bayes error, one to three features stuck."""
    here = teacher(20, 0.2)
    bayes = here.solve(nu=40 * alpha)
    runs = [
        train_student(here, d=40, n=1600 * alpha, width=bayes.k_c, rng=seed, steps=20_000, rate=0.02)
        for seed in range(3)
    ]
    ratios = np.array([run.eps[-1] for run in runs]) / bayes.eps
    assert np.all(ratios > 1) and 1.2 < np.median(ratios) < 2.8
    assert np.median([np.sum(run.overlap > 0.71) for run in runs]) >= found


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(d=0), r"d = 0; expected an integer >= 1"),
        (dict(width=2.5), r"width = 2\.5; expected an integer"),
        (dict(rate=0.0), r"rate = 0\.0; expected a finite number > 0"),
        (dict(start="warm"), r"start = 'warm'; expected 'random', or 'teacher' with width <= k = 3"),
        (dict(start="teacher", width=4), r"expected 'random', or 'teacher' with width <= k = 3\. Try start='random'"),
    ],
)
def test_bad_student(change, message):
    with pytest.raises(ValueError, match=message):
        train_student(teacher(3, 0.2), **{"d": 8, "n": 100, "width": 3, "rng": 1} | change)


def test_student_needs_a_polynomial():
    here = HierarchicalTeacher(beta=1.0, k=3, noise=0.3, activation=np.tanh)
    with pytest.raises(ValueError, match=r"expected a HierarchicalTeacher whose activation is a dictionary"):
        train_student(here, d=8, n=100, width=3, rng=1)
