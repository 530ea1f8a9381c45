"""The theory against finite experiments: the posterior sampled, and students of Adam.

The decoupling of the features is heuristic; these are its only checks that do not assume it. That the sampler is right
is seen in test_posterior.py, against quadrature and identities.
"""

import math

import numpy as np
import pytest

from overlaps.static import HierarchicalTeacher, sample_posterior
from overlaps.static.bayes._polynomial import train
from overlaps.static.bayes.student import error_of_student, train_student

HE3 = {3: 1.0}


def teacher(k, Delta, beta=1.0):
    return HierarchicalTeacher(beta=beta, k=k, noise=Delta**0.5, activation=HE3)


def equal(k):
    return HierarchicalTeacher(v2=np.full(k, 1 / k), noise=0.5**0.5, activation=HE3)


# posterior sampling ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # the spread of three data sets is seen below
@pytest.mark.parametrize("lam, expected", [(3.0, (0.872, 0.337)), (6.0, (0.941, 0.167))])
def test_one_feature_against_posterior_sampling(lam, expected):
    """Many samples and Delta = 60, so that the channel of one feature is Gaussian; d = 60."""
    here = teacher(1, 60.0)
    q = here.m(lam)
    eps = 1 - q**3
    assert (q, eps) == pytest.approx(expected, abs=2e-3)  # the theory's digits as given, eps from a rounded q
    found = sample_posterior(here, d=60, nu=lam * (60 + eps), rng=1, runs=3, steps=150, warmup=50, leapfrog=6)
    assert found.ess.sum() > 90
    # single runs scatter by 0.005 in q and 5 % in eps
    assert found.q[0] == pytest.approx(q, abs=0.01)
    assert found.eps == pytest.approx(eps, rel=0.1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # short
def test_equal_readouts_against_posterior_sampling():
    """Width d/2, Delta = 1/2, A = 5, d = 60: single runs give q = 0.947 and eps = 0.142, below and above the limit."""
    here = equal(30)
    theory = here.solve(nu=5.0 * 30)
    found = sample_posterior(here, d=60, nu=5.0 * 30, rng=1, steps=60, warmup=60, leapfrog=10)
    assert theory.q[0] == pytest.approx(0.9564, abs=1e-3) and theory.eps == pytest.approx(0.125, abs=1e-3)
    assert found.q.mean() == pytest.approx(theory.q[0], abs=0.015)
    assert found.eps == pytest.approx(theory.eps, rel=0.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # short
def test_sampled_error_approaches_the_theory():
    """Equal readouts, A = 3: the distance from the limit shrinks as d doubles."""
    ratios = []
    for d in (40, 80):
        here = equal(d // 2)
        theory = here.solve(nu=1.5 * d)
        found = sample_posterior(here, d=d, nu=1.5 * d, rng=2, steps=50, warmup=50, leapfrog=10)
        assert theory.eps == pytest.approx(0.251, abs=1e-3) and theory.q[0] == pytest.approx(0.908, abs=1e-3)
        ratios.append(found.eps / theory.eps)
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
    assert train(X, y, np.arange(50)[None], c, U, a, moments_U, moments_a, 0, 10**9, 1e-9, 1.0) == 1
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
    assert abs(error_of_student(np.array([0, 0, 0, 1.0]), star, v, U, a) - squares.mean()) < 5 * spread


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


def test_fixed_readouts_are_those_of_the_teacher():
    here = teacher(6, 0.2)
    for start in ("random", "teacher"):
        run = train_student(here, d=12, n=600, width=4, rng=7, start=start, readouts="fixed", steps=200)
        np.testing.assert_array_equal(run.a, np.sqrt(here.v2[:4]))
    free = train_student(here, d=12, n=600, width=4, rng=7, start="teacher", steps=200)
    assert np.all(free.a != np.sqrt(here.v2[:4])) and free.eps[0] == run.eps[0] and free.eps[-1] != run.eps[-1]


@pytest.mark.slow
@pytest.mark.parametrize("alpha, found", [(2, 8), (8, 16)])
def test_students_from_random_starts(alpha, found):
    """The published size: a constant factor of about two above the Bayes error, one to three features stuck."""
    here = teacher(20, 0.2)
    bayes = here.solve(nu=40 * alpha)
    runs = [
        train_student(here, d=40, n=1600 * alpha, width=bayes.k_c, rng=seed, steps=8_000, rate=0.02)
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
        (dict(start="warm"), r"start = 'warm'; expected 'random' or 'teacher'"),
        (dict(readouts="free"), r"readouts = 'free'; expected 'trained' or 'fixed'"),
        (dict(start="teacher", width=4), r"with width = 4; expected width <= k = 3.*Try start='random' with readouts="),
        (dict(readouts="fixed", width=4), r"readouts = 'fixed' with width = 4; expected width <= k = 3"),
    ],
)
def test_bad_student(change, message):
    with pytest.raises(ValueError, match=message):
        train_student(teacher(3, 0.2), **{"d": 8, "n": 100, "width": 3, "rng": 1} | change)


def test_student_needs_a_polynomial():
    here = HierarchicalTeacher(beta=1.0, k=3, noise=0.3, activation=np.tanh)
    with pytest.raises(ValueError, match=r"expected a HierarchicalTeacher whose activation is a dictionary"):
        train_student(here, d=8, n=100, width=3, rng=1)


def test_untrained_students_are_as_wrong_as_a_second_teacher():
    """In 500 dimensions features overlap by 1/22, whose cube is nothing: g(1) (sum v_i^2 + sum a_j^2) = 2 is left."""
    teacher = HierarchicalTeacher(v2=[0.7, 0.3], noise=0.5, activation={3: 1.0})
    run = train_student(teacher, d=500, n=20, width=5, rng=1, steps=1)
    assert run.eps[0] == pytest.approx(2.0, abs=1e-2)
