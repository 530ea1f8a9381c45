"""The exact channel: numbers computed independently, identities of the information, solutions."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from overlaps.static import HierarchicalTeacher
from overlaps.static.bayes.exact import ExactPoints, standard_error
from overlaps.static.bayes.labels import LABELS, LabelLaw, waves
from overlaps.static.bayes.solutions import BayesSolution

HE3 = {3: 1.0}
DELTA = 0.5


def equal(k, activation=HE3, Delta=DELTA, **options):
    options = {"channel": "exact"} | options
    return HierarchicalTeacher(v2=np.full(k, 1 / k), noise=Delta**0.5, activation=activation, **options)


# information ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "k, q, h",
    [
        (1, 0.0, 0.2289757464),
        (1, 0.5, 0.4492168129),
        (1, 0.9, 1.7290482872),
        pytest.param(2, 0.0, 0.0741979, marks=pytest.mark.slow),
        (2, 0.5, 0.2440427008),
        pytest.param(2, 0.9, 1.0116719565, marks=pytest.mark.slow),
    ],
)
def test_golden_information(k, q, h):
    """Quadratures of another program, checked there in two ways."""
    found = equal(k).information(np.full(k, q), samples=2)
    assert np.allclose(found.h, h, rtol=0, atol=1e-9 if h > 0.1 else 1e-7)  # the digits given
    assert np.all(found.h_err == 0) and found.power_err == 0
    if q == 0.5:
        assert found.power == pytest.approx({1: 0.9262604426, 2: 1.0157519350}[k], abs=5e-9)  # 1e-9 apart


@pytest.mark.slow
def test_information_by_direct_sums():
    """One feature: sums of positive terms over y and the unknown part z, no Fourier transform."""
    q, h = 0.5, 0.0
    V, y, z = np.linspace(-7, 7, 71), np.linspace(-60, 60, 751), np.linspace(-8, 8, 1601)
    distance = y[:, None] - (z**3 - 3 * z) / math.sqrt(6)
    likelihood = np.exp(-(distance**2) / (2 * DELTA)) / math.sqrt(2 * math.pi * DELTA)
    for x in V:
        omega, weight = math.sqrt(q) * x, math.exp(-x * x / 2) * 0.2 / math.sqrt(2 * math.pi)
        kernel = np.exp(-((z - omega) ** 2) / (2 * (1 - q)))
        kernel /= kernel.sum()
        p, slope = likelihood @ kernel, likelihood @ (kernel * (z - omega) / (1 - q))
        h += weight * np.sum(slope[p > 1e-200] ** 2 / p[p > 1e-200]) * 0.16
    assert h == pytest.approx(equal(1).information([q]).h[0], rel=2e-5)  # labels beyond 60 are left out


@pytest.mark.slow
@pytest.mark.parametrize("activation", [HE3, {3: 0.4, 4: 0.6}], ids=str)
def test_information_is_the_slope_of_the_entropy(activation):
    """-d ln N / dq_i = h_i, two unequal features, in a direction that weighs them unequally."""
    teacher = HierarchicalTeacher(v2=[0.7, 0.3], noise=2.0, activation=activation, channel="exact")
    q, change, step = np.array([0.6, 0.3]), np.array([1.0, -3.0]), 1e-3
    up, down = (teacher.information(q + sign * step * change).power for sign in (1, -1))
    h = teacher.information(q).h
    assert h @ change == pytest.approx(-math.log(up / down) / (2 * step), abs=1e-4 * h.max())  # second order


@pytest.mark.slow
def test_power_is_below_that_of_gaussian_labels():
    for q in (0.0, 0.4, 0.9):
        exact, gaussian = (equal(1, channel=x).information([q]) for x in ("exact", "gaussian"))
        assert exact.power < gaussian.power == pytest.approx(DELTA + 1 - q**3, rel=1e-14)
        assert np.allclose(gaussian.h, 3 * q**2 / gaussian.power, rtol=1e-14) and gaussian.cross == 0


@pytest.mark.slow
def test_what_diagonal_overlaps_leave_out():
    cross = [equal(2).information([q, q]).cross for q in (0.1, 0.5, 0.8, 0.9)]
    assert np.allclose(cross, [0.683, 0.232, 0.098, 0.0564], atol=5e-4)  # the digits given
    assert equal(2, {4: 1.0}).information([0.5, 0.5]).cross == 0  # even: w -> -w
    assert 0 < equal(5).information(np.full(5, 0.8), samples=16).cross < 0.2


def test_sampled_information_tends_to_that_without_overlap():
    """At q = 0 nothing is sampled: h = v^6 81 / (Delta + 1)^3 for many features."""
    h = equal(64).information(np.zeros(64), samples=2).h[0]
    assert h == pytest.approx(4.81183e-5, rel=2e-6)  # the digits given
    assert h * 64**3 * 1.5**3 / 81 == pytest.approx(0.526, abs=5e-4)


def test_information_about_a_feature_that_is_hardly_known():
    """Grids for sampled conditionings against those of ten digits: what is small is not ripples of the transform."""
    v, q = np.array([0.8, 0.45, 0.33, 0.25]), np.array([0.78, 0.0045, 5e-4, 1e-4])
    one, two = (
        LabelLaw(equal(1).g, v, np.arange(4), 30.0, np.full(4, 0.5), 4, np.random.default_rng(1), grids)
        for grids in (None, LABELS.integrated._replace(known=6.0, step=0.25))
    )
    assert np.array_equal(one.given, two.given)
    np.testing.assert_allclose(one.information(q, 0), two.information(q, 0), rtol=1e-4)
    grown = [one.information(q * [1, x, 1, 1], 0)[1] for x in np.linspace(0.9, 1.1, 7)]
    np.testing.assert_allclose(np.diff(grown), np.mean(np.diff(grown)), rtol=0.05)  # hardly curved over a tenth


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:two solutions")  # few samples: either will do
def test_weak_overlaps_converge():
    """Extrapolated iterates stay where overlaps can be."""
    teacher = HierarchicalTeacher(beta=0.75, k=4, noise=30**0.5, activation=HE3, channel="exact")
    for nu in (108.07, 158.9, 282.9):
        found = teacher.solve(nu=nu, samples=8)
        assert found.converged and np.all(np.diff(found.q) < 0)


def test_information_in_the_order_of_the_readouts():
    here = HierarchicalTeacher(v2=[0.2, 0.5, 0.3], noise=1.0, activation=HE3, channel="exact")
    there = dataclasses.replace(here, v2=[0.5, 0.3, 0.2])
    a, b = here.information([0.3, 0.6, 0.5], samples=16), there.information([0.6, 0.5, 0.3], samples=16)
    assert np.all(np.abs(a.h[[1, 2, 0]] - b.h) < 5 * np.hypot(a.h_err[[1, 2, 0]], b.h_err) + 0.01 * b.h)
    assert np.all(a.h_err < 0.05 * a.h)


# solutions ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "k, A, numbers",
    [
        (1, 1.5, dict(q=0.323484776, eps=0.9661497766)),
        (1, 3.0, dict(q=0.7009047225, eps=0.6556683382, phi=0.079840194)),
        (1, 6.0, dict(q=0.9214804467, eps=0.2175467972)),
        (2, 1.5, dict(eps=0.9691480995)),
        (2, 3.0, dict(q=0.784114446, eps=0.5178986297, phi=-0.267801258)),
    ],
)
def test_golden_solutions(k, A, numbers):
    found = equal(k).solve(nu=A * k, samples=2)  # one and two features are integrated
    assert found.converged and found.eps_err == found.phi_err == 0 and found.note == ""
    for name, value in numbers.items():
        assert np.allclose(getattr(found, name), value, rtol=0, atol=1e-8), name
    assert np.allclose(found.q / (1 - found.q), A * k * equal(k).information(found.q).h, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "k, eps, spread",
    [(4, 0.4116, 6e-4), (8, 0.3423, 5e-4), (16, 0.3011, 5e-4), (32, 0.27718, 6e-5), (64, 0.2648, 3e-4),
     (100, 0.2601, 4e-4)],
)  # fmt: skip
def test_equal_readouts(k, eps, spread):
    found = equal(k).solve(nu=3.0 * k, rng=5)
    assert abs(found.eps - eps) < 4 * math.hypot(spread, found.eps_err) and 0 < found.eps_err < 2e-3
    assert found.converged and found.phi_err > 0
    assert found.eps > equal(k, channel="gaussian").solve(nu=3.0 * k).eps


@pytest.mark.slow
def test_power_law():
    teacher = HierarchicalTeacher(beta=1.0, k=20, noise=0.3**0.5, activation=HE3, channel="exact")
    found = teacher.solve(nu=30, samples=6)
    assert abs(found.eps - 0.1827) < 4 * math.hypot(5e-4, found.eps_err) and found.eps_err < 2e-3
    assert np.allclose(found.q[:5], [0.989, 0.955, 0.890, 0.795, 0.615], atol=0.02) and found.converged
    assert dataclasses.replace(teacher, channel="gaussian").solve(nu=30).eps < 0.17


@pytest.mark.parametrize("count", [1, 2, 16, 17, 500])
def test_waves_are_exponentials(count, rng):
    angle = rng.uniform(-3, 3, 7)
    expected = np.exp(1j * np.multiply.outer(angle, np.arange(count)))
    # both sides round angles up to 1500 to 1e-13
    np.testing.assert_allclose(waves(angle, count), expected, atol=1e-12)


def test_iteration_is_monotone():
    teacher = HierarchicalTeacher(v2=[0.6, 0.3, 0.1], noise=1.0, activation=HE3, channel="exact")
    points = ExactPoints(teacher, [0.8] * 3, 8, np.random.default_rng(1))
    for x, sign in ((np.zeros(3), 1), (np.log1p(20 * points.v2 * 3), -1)):
        for _ in range(4):
            image = points._image(20.0, x, 0)
            assert np.all(sign * (image - x) >= 0)
            x = image


def test_iterates_of_slow_maps_are_accelerated():
    """A linear map that contracts by 0.99: plain iterates are 0.13 away after 200 steps, accelerated ones are there.

    For three unknowns Anderson's acceleration is exact after four steps, as soon as it begins.
    """
    end, contraction = np.array([0.3, 1.2, 2.0]), np.array([0.5, 0.9, 0.99])
    image = lambda nu, x, replica: end + contraction * (x - end)  # noqa: E731
    x, size = ExactPoints._iterate(SimpleNamespace(_image=image, _within=lambda nu, x: x), 1.0, np.ones(3), 0)
    assert size < 1e-9
    # an iterate 1e-9 from its image is 1e-9 / (1 - 0.99) from the solution
    np.testing.assert_allclose(x, end, rtol=0, atol=1e-7)


@pytest.mark.slow
def test_solutions_are_reproducible_and_ordered():
    teacher = HierarchicalTeacher(v2=[0.6, 0.3, 0.1], noise=1.0, activation=HE3, channel="exact")
    runs = [teacher.solve(nu=20, samples=4, rng=x) for x in (1, 1, 2)]
    assert runs[0] == runs[1] and runs[0].eps != runs[2].eps
    assert runs[0].q[0] > runs[0].q[1] > runs[0].q[2] and "+-" in repr(runs[0])
    assert np.allclose(runs[0].cut([0, 3]), [1.0, runs[0].eps], atol=1e-3)  # the mean over replicas is not linear


def test_even_activation_knows_nothing_at_first():
    """No overlap is a solution, and with few data the only one."""
    teacher = equal(1, {4: 1.0}, Delta=20.0)
    assert teacher.information([0.0]).h[0] < 1e-20
    found = teacher.solve(nu=1.0)
    assert found.q[0] < 1e-9 and found.k_c == 0 and found.eps == pytest.approx(1, rel=1e-12)


@pytest.mark.slow
def test_curve():
    curve = equal(1).curve((1.5, 6.0), points=3)
    assert np.allclose(curve.eps[[0, 2]], [0.9661497766, 0.2175467972], atol=1e-8)
    assert np.allclose(curve.nu, [1.5, 3.0, 6.0]) and np.all(np.isnan(curve.s)) and curve.optimal.all()
    assert np.all(curve.eps_err == 0)


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(channel="true"), r"channel = 'true'; expected 'gaussian' or 'exact'"),
        (dict(noise=0.0), r"channel = 'exact' with noise = 0.*expected noise > 0.*Try channel='gaussian'"),
        (dict(activation=np.tanh), r"channel = 'exact' with .*expected noise > 0 and a dictionary"),
    ],
)
def test_bad_teacher(change, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalTeacher(**{"v2": [0.5, 0.5], "noise": 1.0, "activation": HE3, "channel": "exact"} | change)


def test_bad_calls():
    here = equal(2)
    with pytest.raises(ValueError, match=r"q = .*; expected overlaps 0 <= q < 1"):
        here.information([0.5, 1.0])
    with pytest.raises(ValueError, match=r"samples = 1; expected an integer >= 2"):
        here.solve(nu=1.0, samples=1)
    with pytest.raises(ValueError, match=r"has no window of a single feature"):
        here.window(0)
    with pytest.raises(ValueError, match=r"s with channel='exact'; expected an interval of nu"):
        here.curve(s=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"expected at most 262144 and 200\. Try channel='gaussian', or more noise"):
        equal(1, Delta=1e-10).solve(nu=1.0)
    with pytest.raises(ValueError, match=r"0 different readouts|201 different readouts"):
        HierarchicalTeacher(beta=1.0, k=201, noise=1.0, activation=HE3, channel="exact").information(np.zeros(201))


def test_a_cut_keeps_what_is_known_of_the_strongest_features():
    """He_3 has g(q) = q^3: overlaps of 0.5, 0.8 leave 1 - q^3 unknown; the weaker feature comes first here."""
    teacher = HierarchicalTeacher(v2=[0.3, 0.7], noise=1.0, activation=HE3, channel="exact")
    known = BayesSolution(teacher, 9.0, 0.6, np.array([0.5, 0.8]), 2, 5.0, 0.1, (), 0, True, 0.0, channel="exact")
    weak, strong = 0.3 * (1 - 0.5**3), 0.7 * (1 - 0.8**3)
    np.testing.assert_allclose(known.cut([0, 1, 2]), [1.0, strong + 0.3, strong + weak], rtol=1e-12)


def test_errors_of_few_replicas_are_those_of_student(rng):
    """Half of the interval that holds the mean with the probability of one standard deviation."""
    x = rng.standard_normal((4, 3))
    low, high = stats.t.interval(stats.norm.cdf(1) - stats.norm.cdf(-1), 3, scale=stats.sem(x))
    np.testing.assert_allclose(standard_error(x), (high - low) / 2, rtol=1e-12)


def test_potential_of_two_equal_readouts_counts_both(rng, monkeypatch):
    """Phi = 2 (q + ln(1 - q)) - nu ln(power), here at overlaps that solve nothing."""
    points, x = ExactPoints(equal(2), [0.5, 0.5], 2, rng), np.array([0.7])
    monkeypatch.setattr(points, "_iterate", lambda nu, start, replica: (start, 0.0))
    found = points._describe(0.4, x)
    assert found.phi + 0.4 * np.log(found.power) == pytest.approx(2 * (1 - np.exp(-0.7) - 0.7), rel=1e-12)


@pytest.mark.slow
def test_potential_of_equal_readouts_counts_each_of_them():
    """Phi = sum_i q_i + ln(1 - q_i) - nu ln(power); both tables, made for other overlaps, are known to 1e-4."""
    teacher = HierarchicalTeacher(v2=[0.4, 0.3, 0.3], noise=1.7, activation={3: 1.0}, channel="exact")
    found = teacher.solve(nu=30.0, selection="informed")
    power = teacher.information(found.q).power
    wanted = np.sum(found.q + np.log1p(-found.q)) - 30.0 * np.log(power)
    assert found.phi == pytest.approx(wanted, abs=30 * 2e-4) and found.q.min() > 0.5
