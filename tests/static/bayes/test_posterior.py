"""Posterior sampling against quadrature in two dimensions, Nishimori's identity, and the exact channel."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from overlaps.static import HierarchicalTeacher, sample_posterior
from overlaps.static.bayes.exact import standard_error
from overlaps.static.bayes.posterior import _result
from overlaps.static.bayes.sampler import Chain, Problem, chains_agree, data_set, leap

HE3 = {3: 1.0}


def equal(k, Delta=0.5, **options):
    return HierarchicalTeacher(v2=np.full(k, 1 / k), noise=Delta**0.5, activation=HE3, **options)


def problem(seed=1):
    teacher = HierarchicalTeacher(v2=[0.7, 0.3], noise=1.3, activation={3: 0.5, 4: 0.5})
    return Problem(teacher, *data_set(teacher, 5, 40, np.random.default_rng(seed)))


def test_gradient():
    here, W, h = problem(), np.random.default_rng(2).normal(size=(2, 5)), 1e-6
    found = np.zeros_like(W)
    for i in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[i] = h
        found[i] = (here.potential(W + step)[0] - here.potential(W - step)[0]) / (2 * h)
    slope = here.potential(W)[1]
    assert np.allclose(found, slope, rtol=0, atol=1e-7 * np.abs(slope).max())  # rounding of U over h


def test_time_reversal_and_order():
    here, rng = problem(), np.random.default_rng(3)
    chain = Chain(here, "teacher", rng)
    p, errors = rng.normal(size=chain.W.shape), []
    for leaps in (50, 100):
        W, end, U, slope, _ = leap(here, chain.W, p, chain.slope, 0.5 / leaps, leaps)
        back, *_ = leap(here, W, -end, slope, 0.5 / leaps, leaps)
        assert np.allclose(back, chain.W, rtol=0, atol=1e-12)
        mass = here.mass[:, None]
        errors.append(abs(U - chain.U + 0.5 * np.sum((end**2 - p**2) / mass)))
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.2)  # second order in the step


def test_steps_adapt_during_the_warm_up_alone(monkeypatch):
    """Draws of a chain whose step goes on adapting have another law."""
    sizes, step = [], Chain.step

    def told(self, leaps, time):
        accept = step(self, leaps, time)
        sizes.append(self.log_step)
        return accept

    monkeypatch.setattr(Chain, "step", told)
    with pytest.warns(RuntimeWarning, match="not well sampled"):
        sample_posterior(equal(2), d=6, nu=3.0, rng=1, steps=5, warmup=7)
    assert len(set(sizes[:7])) == 7 and len(sizes) == 12 and set(sizes[7:]) == {sizes[6]}


def test_measured_error_is_half_a_squared_distance():
    here = problem()
    W = np.random.default_rng(4).normal(size=(2, 5))
    X = np.random.default_rng(5).normal(size=(200_000, 5))
    fields = (X @ (U / np.linalg.norm(U, axis=1, keepdims=True)).T for U in (W, here.features))
    drawn, truth = (np.polynomial.polynomial.polyval(z, here.sigma) @ here.v for z in fields)
    half = 0.5 * (drawn - truth) ** 2
    assert abs(here.measure(W, 0.0)[0] - half.mean()) < 5 * half.std() / math.sqrt(half.size)


@pytest.mark.slow
def test_against_quadrature_in_two_dimensions():
    """One feature at d = 2 is an angle, whose posterior is a sum; this data set has no two distant modes."""
    teacher, rng = equal(1, 1.0), np.random.default_rng(2)
    X, y, star = data_set(teacher, 2, 12, rng)
    angle = np.linspace(0, 2 * math.pi, 4001)[:-1]
    u = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    z = X @ u.T
    U = np.sum((y[:, None] - (z**3 - 3 * z) / math.sqrt(6)) ** 2, axis=0) / 2
    p = np.exp(U.min() - U)
    expected = p @ (1 - (u @ star[0]) ** 3) / p.sum()
    found = sample_posterior(teacher, d=2, nu=6, rng=1, data=(X, y, star), chains=2, steps=500)
    assert found.converged and abs(found.eps - expected) < 4 * found.eps_err < 0.5


def test_effective_sample_size():
    """A chain x' = a x + noise has (1 - a)/(1 + a) independent draws for each of its own."""
    rng, x = np.random.default_rng(6), np.zeros((4, 20_000))
    noise = rng.normal(size=x.shape)
    for t in range(1, x.shape[1]):
        x[:, t] = 0.8 * x[:, t - 1] + noise[:, t]
    ess, rhat, sd = chains_agree(x)
    assert ess == pytest.approx(x.size / 9, rel=0.15) and rhat < 1.01  # a few percent of scatter
    assert sd == pytest.approx(1 / 0.6, rel=0.05)
    assert chains_agree(x + np.arange(4)[:, None] * 5)[1] > 1.5


def test_errors_of_a_few_replicas():
    """The mean of Gaussian numbers lies within its error in 68 of 100 cases, however few there are."""
    rng = np.random.default_rng(7)
    for replicas in (2, 4, 10):
        values = rng.normal(size=(replicas, 20_000))
        assert np.mean(abs(values.mean(axis=0)) < standard_error(values)) == pytest.approx(
            0.6827, abs=0.015
        )  # 4 sd of a count
    assert np.array_equal(standard_error(values[:1]), np.zeros(20_000))


@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # now and then
@pytest.mark.parametrize("between", [0.0, 0.2])
def test_errors_of_a_few_data_sets(between):
    """Two data sets of mean zero, chains x' = x/2 + noise: draws and spread together, not less than 68 of 100."""
    rng, inside, repeats = np.random.default_rng(8), 0, 150
    for _ in range(repeats):
        x = lfilter([1.0], [1.0, -0.5], rng.normal(size=(2, 1, 200, 2)), axis=2)
        x += between * rng.normal(size=(2, 1, 1, 2))
        found = _result(1, 1, x, list(x), [True], True, "")
        inside += (abs(found.eps) < found.eps_err) + (abs(found.noise) < found.noise_err)
    share, sd = inside / (2 * repeats), math.sqrt(0.68 * 0.32 / (2 * repeats))
    assert 0.68 - 3 * sd < share < 0.9  # the spread of two alone gives 0.50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # the spread of the data sets is the error
def test_the_start_is_forgotten():
    """From the teacher the residuals are right at once, but the error begins at zero; both starts end at the same."""
    options = dict(d=3, nu=10, rng=5, runs=20)
    early = sample_posterior(equal(1, 1.0), steps=4, warmup=0, leapfrog=1, **options)
    late, other = (
        sample_posterior(equal(1, 1.0), steps=60, warmup=60, start=x, **options) for x in ("teacher", "random")
    )
    assert early.eps < 0.2 * late.eps and abs(early.noise - 1) < 4 * early.noise_err
    assert abs(other.eps - late.eps) < 4 * math.hypot(other.eps_err, late.eps_err)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # short
def test_reproducible_and_random_starts():
    runs = [sample_posterior(equal(1, 1.0), d=6, nu=30, rng=s, runs=2, steps=120, start="random") for s in (1, 1, 2)]
    assert runs[0] == runs[1] and not np.array_equal(runs[0].draws, runs[2].draws)
    assert runs[0].draws.shape == (2, 1, 120) and repr(runs[0]).startswith("PosteriorSample(d=6, n=180, 2 runs x 1")
    assert abs(runs[0].q[0]) > 0.9 and runs[0].success  # so many data are found from anywhere


@pytest.mark.slow
def test_no_information():
    """Much noise: draws are those of the prior, eps = g(1), q = 0."""
    found = sample_posterior(equal(1, 1e6), d=8, nu=5, rng=3, chains=2, steps=400)
    assert abs(found.eps - 1) < 4 * found.eps_err + 1e-3 and abs(found.q[0]) < 4 * found.q_err[0] + 1e-3


@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # short
def test_interruption_keeps_the_draws():
    def stop(done):
        if done == 150:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="Interrupted; the draws made are kept"):
        found = sample_posterior(equal(1, 1.0), d=6, nu=20, rng=1, warmup=50, progress=stop)
    assert not found.success and np.sum(np.isfinite(found.draws)) == 100


def test_short_chains_are_called_so():
    with pytest.warns(RuntimeWarning, match=r"not well sampled: R-hat up to .*Try more steps"):
        assert not sample_posterior(equal(1), d=6, nu=6, rng=1, steps=10, warmup=10).converged


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # chains begin in equilibrium
def test_nishimori():
    """E |y - f_W(X)|^2 / n = Delta at every d."""
    found = sample_posterior(equal(3), d=30, nu=9, rng=7, runs=24, steps=60, warmup=40, leapfrog=10)
    assert abs(found.noise - 0.5) < 4 * found.noise_err < 0.06


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # the spread of ten data sets is the error
@pytest.mark.parametrize("k, A, d, eps", [(1, 6.0, 100, 0.2175468), (2, 3.0, 100, 0.5178986), (1, 3.0, 60, 0.6556683)])
def test_sampled_errors_are_those_of_the_exact_channel(k, A, d, eps):
    """Ten data sets; the limits are those of test_exact.py."""
    found = sample_posterior(equal(k), d=d, nu=A * k, rng=8, runs=10, steps=300, warmup=100, leapfrog=10)
    assert abs(found.eps - eps) < 4 * found.eps_err < 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # the spread of the data sets is the error
@pytest.mark.parametrize("k, d, eps", [(4, 60, 0.4116), (8, 80, 0.3423)])
def test_sampled_errors_of_several_features(k, d, eps):
    """Limits for d -> infinity by the exact channel, see test_exact.py."""
    found = sample_posterior(equal(k), d=d, nu=3.0 * k, rng=k, runs=6, steps=150, warmup=80, leapfrog=10)
    assert abs(found.eps - eps) < 4 * found.eps_err < 0.15
    assert abs(found.noise - 0.5) < 4 * found.noise_err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The posterior is not well sampled")  # the spread of the data sets is the error
def test_sampled_power_law():
    """Twenty features at d = 50: error and strong features as by the exact channel, not as by the Gaussian one."""
    teacher = HierarchicalTeacher(beta=1.0, k=20, noise=0.3**0.5, activation=HE3)
    found = sample_posterior(teacher, d=50, nu=30, rng=4, runs=6, steps=120, warmup=60, leapfrog=10)
    assert abs(found.eps - 0.1827) < 4 * found.eps_err < 0.04
    exact = np.array([0.989, 0.955, 0.890])  # digits of the solution
    assert np.all(np.abs(found.q[:3] - exact) < 4 * found.q_err[:3] + 5e-4)
    assert teacher.solve(nu=30).eps < 0.163


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(teacher=None), r"teacher = None; expected a HierarchicalTeacher with noise > 0"),
        (dict(d=0), r"d = 0; expected an integer >= 1"),
        (dict(nu=0.0), r"nu = 0\.0; expected a finite number > 0"),
        (dict(start="warm"), r"start = 'warm'; expected 'teacher' or 'random'"),
        (dict(data=1), r"expected data=\(X, y, features\) and runs=1"),
        (dict(data=(np.ones((4, 2)), np.ones(4), np.ones((1, 2)))), r"norms other than 1; expected unit vectors"),
        (dict(data=(np.ones((4, 3)), np.ones(4), np.ones((1, 2)))), r"data X has shape \(4, 3\); expected \(4, 2\)"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        sample_posterior(**{"teacher": equal(1), "d": 2, "nu": 2.0, "rng": 1} | change)
