"""The hierarchical teacher: one feature, all solutions, their selection, bad input."""

import dataclasses
import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
from helpers import few
from scipy.integrate import quad

import overlaps as ov
from overlaps.static import HierarchicalTeacher
from overlaps.static.bayes.channel import Channel
from overlaps.static.bayes.correlation import correlation_of
from overlaps.static.bayes.fixed_points import FIXED_POINTS

HE3 = {3: 1.0}
SERIES = {
    "He3": {3: 1.0},
    "He4": {4: 1.0},
    "He5": {5: 1.0},
    "He2+He3": {2: 0.5, 3: 0.5},
    "He2+3": {2: 0.3, 3: 0.7},
    "He2": {2: 0.7, 3: 0.3},
    "He3+4+5": {3: 0.5, 4: 0.3, 5: 0.2},
    "He2+He20": {2: 0.5, 20: 0.5},
}


def teacher(beta, k, Delta, activation=HE3, **options):
    return HierarchicalTeacher(beta=beta, k=k, noise=Delta**0.5, activation=activation, **options)


def channel(activation):
    return Channel(correlation_of(activation, allow_degree2=True))


def series(c, q):
    """g(q), its terms summed one by one."""
    return sum(x * q**l for l, x in c.items())


# one feature ----------------------------------------------------------------------------------------------------------

GOLDEN_JUMPS = [
    (SERIES["He3"], 1.4557767406190114, 0.6450074513345844, 1e-12),
    (SERIES["He4"], 1.9759051077604093, 0.8045218347935081, 1e-12),
    (SERIES["He5"], 2.3478183350025645, 0.8711487946080815, 1e-12),
    (SERIES["He2+He3"], 0.9640074470181922, 0.2203961239948639, 1e-11),  # nearly continuous: q is ill-conditioned
    (SERIES["He2+3"], 1.1866135651374061, 0.4665194511462161, 1e-12),
    (SERIES["He3+4+5"], 1.800899178445984, 0.7501953053552396, 1e-12),
    (ov.tanh, 60.62651581, 0.69244330053, 1e-10),  # the digits given
    (ov.relu, 225.3404958138, 0.8676710696, 1e-10),
]


@pytest.mark.parametrize("activation, lam, q, tolerance", GOLDEN_JUMPS, ids=lambda x: str(x)[:24])
def test_golden_thresholds(activation, lam, q, tolerance):
    (jump,) = channel(activation).jumps
    assert jump.below == 0
    assert np.allclose([jump.lam, jump.above], [lam, q], rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", ["He3", "He4", "He5", "He2+He3", "He2+3", "He3+4+5"])
def test_thresholds_against_40_digits(name):
    c = SERIES[name]
    (jump,) = channel(c).jumps
    with mpmath.workdps(40):
        exact = {l: mpmath.mpf(x) for l, x in c.items()}

        def tangent(q):
            slope = sum(l * x * q ** (l - 1) for l, x in exact.items())
            return series(exact, q) * q / (1 - q) + (q + mpmath.log(1 - q)) * slope

        q = mpmath.findroot(tangent, mpmath.mpf(jump.above))
        lam = -(q + mpmath.log(1 - q)) / series(exact, q)
    # lam is a minimum over q and sees rounding once; q sees it divided by the curvature there
    assert abs(jump.lam / lam - 1) < 1e-13
    assert abs(jump.above / q - 1) < (1e-11 if name == "He2+He3" else 1e-13)


def test_continuous_onset_and_a_later_jump():
    continuous = channel(SERIES["He2"])
    assert continuous.jumps == () and continuous.onset == pytest.approx(1 / 1.4, rel=1e-15)
    (jump,) = channel(SERIES["He2+He20"]).jumps
    assert channel(SERIES["He2+He20"]).onset == pytest.approx(1.0, rel=1e-15)
    assert np.allclose(jump, [4.0624, 0.7781, 0.9519], atol=5e-5)  # the digits given


def test_jump_between_two_overlaps_has_equal_maxima():
    c = SERIES["He2+He20"]
    (jump,) = channel(c).jumps

    def height(q):
        return jump.lam * series(c, q) + q + math.log1p(-q)

    assert abs(height(jump.below) - height(jump.above)) < 1e-13
    for q in (jump.below, jump.above):  # and both are stationary
        slope = sum(l * x * q ** (l - 1) for l, x in c.items())
        assert jump.lam * slope == pytest.approx(q / (1 - q), rel=1e-12)


def test_tricritical_point():
    # first order where c_3/c_2 > 2/3, for c_2 + c_3 = 1 above c_3 = 0.4
    assert channel({2: 0.61, 3: 0.39}).jumps == () == channel({2: 1.0, 3: 2 / 3}).jumps
    (jump,) = channel({2: 0.59, 3: 0.41}).jumps
    assert jump.below == 0 and 0 < jump.above < 0.1 and jump.lam < 1 / (2 * 0.59)


@pytest.mark.parametrize("name", ["He3", "He4", "He2+He3", "He2", "He3+4+5", "He2+He20"])
def test_m_against_brute_force(name):
    c = SERIES[name]
    grid = np.linspace(0, 1, 100_001)[:-1]
    g, s = series(c, grid), grid + np.log1p(-grid)
    lam = np.geomspace(0.3, 30.0, 301)
    best = np.array([grid[np.argmax(x * g + s)] for x in lam])
    assert np.max(np.abs(channel(c)(lam) - best)) < 1.01e-5  # one step of the grid


def test_m_in_closed_form():
    lam = np.geomspace(1.46, 1e9, 500)
    assert np.allclose(channel(HE3)(lam), (1 + np.sqrt(1 - 4 / (3 * lam))) / 2, rtol=1e-14, atol=0)
    spiked = channel({2: 0.7})
    lam = np.geomspace(0.72, 1e9, 500)
    # t = (lam - lam_0)/lam_0 at the continuous onset: the rounding of lam weighs 1/t
    assert np.allclose(spiked(lam), 1 - 1 / (1.4 * lam), rtol=1e-13, atol=0)
    quartic, lam = channel({4: 1.0}), np.geomspace(1.98, 1e3, 100)
    q = quartic(lam)
    assert np.allclose(4 * lam * q**2 * (1 - q), 1, rtol=1e-10)  # 1 - q loses digits at large lam


@pytest.mark.slow
@pytest.mark.parametrize("c3", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("above", [0.0, 1e-14, 1e-12, 1e-9, 0.9e-8, 1.1e-8, 1e-6, 1e-3])
def test_continuous_onset_starts_at_zero(c3, above):
    """c_2 + c_3 = 1 as far as the tricritical ratio 2/3 allows; the root for the very lam in 50 digits."""
    c2 = 1 / (1 + 0.66 * c3)
    here = channel({2: c2, 3: 0.66 * c3 * c2} if c3 else {2: c2})
    lam = float(here.onset * (1 + above))
    with mpmath.workdps(50):
        exact, a, b = mpmath.mpf(lam), 2 * mpmath.mpf(c2), 3 * mpmath.mpf(0.66 * c3 * c2)
        # lam (a q + b q^2) = q / (1 - q): b q^2 + (a - b) q + 1 / lam - a = 0
        linear, constant = a - b, 1 / exact - a
        q = -2 * constant / (linear + mpmath.sqrt(linear**2 - 4 * b * constant)) if constant < 0 else mpmath.mpf(0)
    # onset is 1/(2 c_2) to rounding, and lam counts from there; the slope of q is 1 / (1 - 1.5 c_3/c_2) = 1 to 9
    assert float(here(lam)) == pytest.approx(float(q), rel=3e-8, abs=5e-15)
    assert here(here.onset) == 0 == here(np.nextafter(here.onset, 0))


@pytest.mark.parametrize("activation", [HE3, {3: 0.5, 4: 0.3, 5: 0.2}, {2: 0.5, 20: 0.5}], ids=str)
def test_gap_keeps_relative_precision(activation):
    """Against 40 digits, up to 1 - q = 1e-10."""
    lam = np.concatenate([np.geomspace(1.01, 4.0, 8), np.geomspace(4.1, 1e10, 12)])
    here = channel(activation)
    lam = lam[lam > here.onset * 1.005]
    q, gap, _ = here.overlaps(lam)
    with mpmath.workdps(40):
        for x, start, found in zip(lam, q, gap, strict=True):

            def stationary(p, x=x):
                return x * sum(l * c * (1 - p) ** (l - 1) for l, c in activation.items()) * p - (1 - p)

            p = mpmath.findroot(stationary, mpmath.mpf(max(1 - start, 1 / x / 30)))
            exact = sum(c * (1 - (1 - p) ** l) for l, c in activation.items())
            assert abs(found / exact - 1) < 1e-12


@pytest.mark.parametrize("activation", [HE3, {4: 1.0}, ov.tanh, {3: 0.5, 4: 0.3, 5: 0.2}], ids=str)
def test_gap_at_large_lam_is_universal(activation):
    here = channel(activation)
    for lam in (1e4 / here.total, 1e6 / here.total):
        assert here.overlaps(lam)[1] * lam == pytest.approx(1, abs=50 / (lam * here.total))


# correlation functions ------------------------------------------------------------------------------------------------


def test_tanh_and_relu_numbers():
    tanh, relu = correlation_of(ov.tanh), correlation_of(ov.relu)
    assert tanh.total == pytest.approx(0.0274153260, abs=1e-10) and tanh.c[3] == pytest.approx(0.0220335996, abs=1e-10)
    assert channel(ov.tanh).onset * tanh.total == pytest.approx(1.6620957, abs=5e-8)
    assert relu.total == pytest.approx(0.01126758536, abs=1e-11)
    assert (tanh.exponent, relu.exponent) == (3, 4)


def test_correlation_of_a_function_is_its_gaussian_average():
    """E[sigma sigma] by nested quadrature, for a function that is neither odd nor even."""

    def sigma(x):
        return np.tanh(x + 0.5)

    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    q = 0.6
    pair = sigma(q * nodes[:, None] + math.sqrt(1 - q * q) * nodes) @ weights
    he = [np.ones_like(nodes), nodes, (nodes**2 - 1) / math.sqrt(2)]
    low = [(weights @ (sigma(nodes) * h)) ** 2 for h in he]
    expected = weights @ (sigma(nodes) * pair) - sum(c * q**l for l, c in enumerate(low))
    assert correlation_of(sigma)(q) == pytest.approx(expected, abs=1e-9)  # Gauss-Hermite sees the poles of tanh


@pytest.mark.parametrize("q", [0.0, 1e-3, 0.3, 0.4999, 0.5001, 0.9, 0.999, 1.0])
def test_relu_closed_form_against_its_integral(q):
    # g'(q) = correlation of the step function without its degrees 0 and 1, (arcsin q - q) / (2 pi)
    expected = quad(lambda y: (math.asin(y) - y) / (2 * math.pi), 0, q, epsabs=1e-16)[0]
    assert correlation_of(ov.relu)(q) == pytest.approx(expected, rel=1e-10, abs=1e-16)
    assert correlation_of(ov.absolute)(q) == pytest.approx(4 * expected, rel=1e-10, abs=1e-16)


def test_relu_kernel_against_40_digits():
    from overlaps.static.bayes._features import correlation

    g = correlation_of(ov.leaky_relu(0.5), remove=(0, 1), allow_degree2=True)
    with mpmath.workdps(40):
        for t in (1e-3, 0.1, 0.99, 1.01, 7.0, 8.5, 1e4, 1e9):
            q = mpmath.mpf(t) / (1 + mpmath.mpf(t))

            def exact(x):  # a quarter of relu, with its degree 2
                return (x * mpmath.asin(x) + mpmath.sqrt(1 - x * x) - 1) / (8 * mpmath.pi)

            found = correlation(g.kind, g.series, t)
            expected = [*(mpmath.diff(exact, q, n, h=mpmath.mpf(10) ** -16) for n in range(3)), exact(1) - exact(q)]
            assert np.allclose(found, np.array(expected, dtype=float), rtol=1e-9, atol=0)
            assert abs(found[3] / expected[3] - 1) < 1e-12  # the gap feeds eps and is exact to rounding


def test_degrees_are_removed():
    assert correlation_of({0: 3.0, 1: 2.0, 3: 0.5}).c == (0, 0, 0, 0.5)
    he3 = ov.polynomial([0, -3, 0, 1])
    assert np.allclose(correlation_of(he3).c, (0, 0, 0, 6), atol=1e-12)  # He_3 has norm 3!
    assert correlation_of(lambda x: x + x**2 + x**3 - 3 * x).exponent == 3
    both = correlation_of(lambda x: x**2 + x**3, remove=(0, 1), allow_degree2=True)
    assert both.exponent == 2 and both.c[2] == pytest.approx(2, rel=1e-12)


# solutions ------------------------------------------------------------------------------------------------------------

GOLDEN_ERRORS = [
    (1.0, 200, 300, 0.4, 0.05854876406216519, 16, 1),
    (0.75, 10000, 10000, 0.5, 0.053935870723288204, 283, 1),
    (1.5, 1000, 1000, 0.5, 0.00888316951411161, 10, 1),
    (0.25, 1000, 1500, 0.5, 0.7410271268796695, 180, 1),
    (1.0, 50, 5000, 0.2, 0.00202068892619664, 50, 1),
    (0.3, 400, 900, 0.5, 0.475900365014697, 211, 2),
    (0.15, 1000, 1300, 0.1, 0.34774575103013616, 1000, 3),
]


@pytest.mark.parametrize("beta, k, nu, Delta, eps, k_c, solutions", GOLDEN_ERRORS)
def test_golden_errors(beta, k, nu, Delta, eps, k_c, solutions):
    result = teacher(beta, k, Delta).solve(nu=nu)
    assert result.eps == pytest.approx(eps, rel=1e-12)  # sums of up to 1e4 terms
    assert result.k_c == k_c and len(result.solutions) == solutions
    assert result.converged and result.residual < 1e-13


@pytest.mark.slow
def test_golden_other_solutions():
    two = teacher(0.3, 400, 0.5).solve(nu=900)
    assert [x.k_c for x in two.solutions] == [210, 211]
    assert two.solutions[0].eps == pytest.approx(0.476470574559994, rel=1e-12)
    three = teacher(0.15, 1000, 0.1).solve(nu=1300)
    assert np.allclose([x.eps for x in three.solutions[:2]], [0.762957, 0.762583], atol=5e-7)
    uninformed = teacher(0.15, 1000, 0.1).solve(nu=1300, selection="uninformed")
    assert uninformed.eps == three.solutions[0].eps and uninformed.selected == 0
    assert teacher(0.3, 400, 0.5).solve(nu=900, selection="informed").k_c == 211


def test_solutions_obey_the_equations_term_by_term():
    """The equations feature by feature in a loop, m in closed form."""
    here = teacher(0.15, 1000, 0.1)
    for point in here.solve(nu=1300).solutions:
        eps = phi = 0.0
        for v2 in here.v2:
            lam = 1300 * v2 / (0.1 + point.eps)
            q = (1 + math.sqrt(1 - 4 / (3 * lam))) / 2 if lam > 1.4557767406190114 else 0.0
            eps += v2 * (1 - q**3)
            phi += q + math.log1p(-q)
        assert eps == pytest.approx(point.eps, rel=1e-11)
        assert phi - 1300 * math.log(0.1 + eps) == pytest.approx(point.phi, rel=1e-11)


@pytest.mark.parametrize("selection", ["uninformed", "bayes", "informed"])
def test_a_solution_is_what_its_information_says(selection):
    """q_i / (1 - q_i) = nu h_i at every solution, with features that are known and others that are not."""
    problem, nu = teacher(0.7, 9, 0.4, {3: 0.6, 4: 0.4}), 14.0
    found = problem.solve(nu=nu, selection=selection)
    known = problem.information(found.q)
    np.testing.assert_allclose(found.q / (1 - found.q), nu * known.h, rtol=1e-9, atol=1e-12)
    assert known.power == pytest.approx(0.4 + found.eps, rel=1e-9) and 0 < found.k_c < 9


@pytest.mark.slow
def test_selection_against_the_largest_potential():
    """Two features: the free entropy on a grid of 1500^2 overlaps, also where there are several solutions."""
    v2, Delta = np.array([0.52, 0.48]), 0.1
    here = HierarchicalTeacher(v2=v2, noise=Delta**0.5, activation=HE3)
    q = 1 - np.geomspace(1, 1e-3, 1500)
    s = q + np.log1p(-q)
    eps = v2[0] * (1 - q[:, None] ** 3) + v2[1] * (1 - q**3)
    several = 0
    for nu in np.linspace(2.0, 3.4, 60):
        phi = s[:, None] + s - nu * np.log(Delta + eps)
        best = np.unravel_index(np.argmax(phi), phi.shape)
        found = here.solve(nu=nu)
        several += len(found.solutions) > 1
        # the grid misses the maximum by its step 1 - q -> 0.995 (1 - q), or one step of 5e-3 at q near 0
        assert np.allclose(found.q, q[list(best)], atol=5e-3)
        assert found.phi >= phi.max() - 1e-12
    assert several >= 4


def test_window_of_one_feature():
    """Width lambda_sigma g(q_sigma), and the Bayes transition inside: 27.5249 for the fifth of twenty features."""
    here = teacher(1.0, 20, 0.3)
    low, high = here.window(4)
    (jump,) = here.thresholds
    assert high - low == pytest.approx(jump.lam * jump.above**3, abs=4e-11)
    assert (low, high) == pytest.approx((27.3332, 27.7238), abs=5e-5)
    counts = {nu: here.solve(nu=nu) for nu in (27.33, 27.34, 27.5248, 27.5250, 27.72, 27.73)}
    assert [len(x.solutions) for x in counts.values()] == [1, 2, 2, 2, 2, 1]
    assert [x.k_c for x in counts.values()] == [4, 4, 4, 5, 5, 5]


WINDOWS = [
    (0.1, 300, 0.1, 299, 364.8479208097, 406.0922792770),
    (0.1, 300, 0.1, 200, 364.8479208097, 406.0922792770),
    (0.1, 300, 0.1, 100, 364.8479208097, 403.8211404867),
    (0.1, 300, 0.1, 20, 335.9061193887, 336.2967704167),
    (1.0, 20, 0.3, 4, 27.3331615992, 27.7238126273),
]


@pytest.mark.slow
@pytest.mark.parametrize("beta, k, Delta, feature, begin, end", WINDOWS)
def test_windows_of_similar_readouts(beta, k, Delta, feature, begin, end):
    """The digits given, and the solutions themselves: who knows the feature just inside and just outside."""
    here = teacher(beta, k, Delta)
    low, high = here.window(feature)
    assert (low, high) == pytest.approx((begin, end), abs=6e-11)
    known = [
        [here.solve(nu=nu, selection=side).q[feature] > 0 for side in ("uninformed", "informed")]
        for nu in (low * (1 - 1e-9), low * (1 + 1e-9), high * (1 - 1e-9), high * (1 + 1e-9))
    ]
    assert known == [[False, False], [False, True], [False, True], [True, True]]


def test_window_without_noise_ends_in_the_perfect_solution():
    here = HierarchicalTeacher(v2=np.full(20, 0.05), noise=0.0, activation=HE3)
    assert here.window(3) == pytest.approx((20.0, 20 * here.onset), rel=1e-13)


def test_readouts_in_any_order():
    v2 = np.array([0.1, 0.4, 0.2, 0.3])
    mixed = HierarchicalTeacher(v2=v2, noise=0.5, activation=HE3).solve(nu=8.0)
    ordered = HierarchicalTeacher(v2=np.sort(v2)[::-1], noise=0.5, activation=HE3).solve(nu=8.0)
    assert np.allclose(mixed.q[[1, 3, 2, 0]], ordered.q, rtol=1e-14) and mixed.k_c == 4  # sums in another order


def test_no_noise():
    """Perfect where nu > k, below a finite error, the limit of small noise."""
    here = teacher(1.0, 20, 0.0)
    perfect = here.solve(nu=20.5)
    assert (perfect.eps, perfect.k_c, perfect.residual) == (0, 20, 0) and np.all(perfect.q == 1)
    assert np.isinf(perfect.phi) and perfect.converged
    assert np.allclose(perfect.cut([0, 1, 20]), [1, 1 - here.v2[0], 0], atol=1e-15)
    for nu in (5.0, 15.0, 19.5):
        quiet = teacher(1.0, 20, 1e-9).solve(nu=nu)
        assert here.solve(nu=nu).eps == pytest.approx(quiet.eps, rel=1e-6)  # eps moves by about Delta


def test_no_noise_keeps_the_uninformed_solution():
    here = HierarchicalTeacher(v2=np.full(20, 0.05), noise=0.0, activation=HE3)
    both = here.solve(nu=25.0)
    assert both.eps == 0 and both.solutions[0].eps == pytest.approx(1, rel=1e-14)
    assert here.solve(nu=25.0, selection="uninformed").k_c == 0


@pytest.mark.parametrize("activation", [HE3, {2: 1.0}, {2: 0.5, 20: 0.5}, ov.relu], ids=str)
@pytest.mark.parametrize("noise", [1e-150, 1e-80, 1e-8, 0.7])
def test_beyond_all_tables(activation, noise):
    """All features far above their transitions: gap = 1/lam for every activation, and eps = Delta k/(nu - k)."""
    here = HierarchicalTeacher(beta=1.0, k=4, noise=noise, activation=activation, allow_degree2=True)
    for nu in (4.5, 50.0, 1e15, 1e300):
        found = here.solve(nu=nu, selection="informed")
        expected = here.Delta * 4 / (nu - 4)
        assert found.converged and math.isfinite(found.phi)
        # corrections are of relative order lam^(-1/2) for relu, 1/lam else; below 1e-300 the error is zero
        if here.Delta / here.g.total / (nu - 4) < 1e-12:
            assert found.k_c == 4
            assert found.eps == pytest.approx(expected, rel=2e-5 if activation is ov.relu else 1e-9, abs=1e-299)


def test_beyond_all_tables_in_given_digits():
    assert teacher(1.0, 4, 1e-12).solve(nu=50).eps == pytest.approx(8.6956521739e-14, rel=5e-11)
    assert HierarchicalTeacher(beta=1.0, k=4, noise=0.7, activation=HE3).solve(nu=1e15).eps == pytest.approx(1.96e-15)


def test_potential_beyond_the_largest_float():
    """At s = 1e600 the potential continues that of larger noise, -sum ln t_i + k - nu ln Delta, t_i = lam_i g'(1)."""
    nu, small = 1e300, teacher(1.0, 4, 1e-200)
    found = HierarchicalTeacher(beta=1.0, k=4, noise=1e-150, activation=HE3).solve(nu=nu)
    assert found.phi == pytest.approx(300 * math.log(10) * nu, rel=1e-12) and found.eps == 0
    nu = 1e90  # t_i = 3e290, still a float
    found = small.solve(nu=nu)
    log_t = np.log(3 * small.v2) + math.log(nu) - math.log(small.Delta)
    assert found.phi == pytest.approx(np.sum(1 - log_t) - nu * math.log(small.Delta), rel=1e-12)


@pytest.mark.parametrize("nu", [1e-300, 1.0, 3.9, 4.0, 1e10, 1e300])
def test_huge_noise(nu):
    found = HierarchicalTeacher(beta=1.0, k=4, noise=1e150, activation=HE3).solve(nu=nu)
    assert (found.eps, found.k_c, found.converged) == (pytest.approx(1, rel=1e-14), 0, True)


@pytest.mark.parametrize("nu", [0.5, 2.0, 3.9, 4.0])
def test_tiny_noise_is_no_noise(nu):
    """Up to nu = k the error does not vanish with the noise."""
    quiet, tiny = teacher(1.0, 4, 0.0).solve(nu=nu), HierarchicalTeacher(beta=1.0, k=4, noise=1e-150, activation=HE3)
    assert quiet.eps == pytest.approx(tiny.solve(nu=nu).eps, rel=1e-12) and quiet.converged and quiet.eps > 0.1


def test_no_noise_and_as_many_samples_as_parameters():
    """At nu = k: for He_3 nu(s) approaches k from above, and perfect learning begins beyond; for He_2 it ends there."""
    here = teacher(1.0, 20, 0.0)
    found = here.solve(nu=20.0)
    assert found.eps == pytest.approx(teacher(1.0, 20, 1e-12).solve(nu=20.0).eps, rel=1e-6) and found.eps > 0.04
    square = teacher(1.0, 4, 0.0, {2: 1.0}, allow_degree2=True)
    assert square.solve(nu=4.0).eps < 1e-12  # lam beyond 1e12, as good as perfect
    errors = [teacher(1.0, 4, x, {2: 1.0}, allow_degree2=True).solve(nu=4.0).eps for x in (1e-6, 1e-8, 1e-10)]
    assert np.allclose(np.divide(errors[:-1], errors[1:]), 10, rtol=0.02)  # sqrt(Delta)


def test_thinned_transitions_are_looked_at_again(monkeypatch):
    """Windows of neighbours overlap; a scan coarser than they are still ends at the best of the neighbours."""
    here, data = teacher(0.4, 400, 0.05), [514.5, 514.86, 517.81, 519.0]
    full = [here.solve(nu=nu) for nu in data]
    assert all(len(x.solutions) > 1 for x in full)
    few = FIXED_POINTS._replace(max_transitions=20, scan_points=20)
    monkeypatch.setattr("overlaps.static.bayes.fixed_points.FIXED_POINTS", few)
    thin = [here.solve(nu=nu) for nu in data]
    assert [x.k_c for x in thin] == [x.k_c for x in full]
    assert np.allclose([x.eps for x in thin], [x.eps for x in full], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("nu, k_c", [(1e4, 280), (1e8, 138_000), (3e9, 1_000_000)])
def test_a_million_features(nu, k_c):
    result = teacher(0.75, 10**6, 0.5).solve(nu=nu)
    assert result.converged and result.k_c == pytest.approx(k_c, rel=0.02)


@pytest.mark.slow
def test_many_transitions_in_reach():
    """Little noise at beta < 1/2: some ten thousand transitions between the extreme solutions."""
    here = teacher(0.15, 20_000, 0.1)
    few, many = here.solve(nu=24_000), here.solve(nu=28_000)
    assert few.converged and many.converged and few.k_c < 10_000 and many.k_c == 20_000
    for result in (few, many):
        assert result.phi == max(x.phi for x in result.solutions)


# curves ---------------------------------------------------------------------------------------------------------------


def test_curve_is_made_of_solutions():
    here = teacher(1.0, 100, 0.3)
    curve = here.curve((5.0, 1e5), points=40)
    assert len(curve) == 40 and np.all(np.diff(curve.eps) <= 0)
    for nu, eps, k_c in zip(curve.nu, curve.eps, curve.k_c, strict=True):
        close = [x for x in here.solve(nu=nu).solutions if x.eps == pytest.approx(eps, rel=1e-10)]
        assert close and close[0].k_c == k_c


def test_curve_marks_what_is_not_optimal():
    """Equal readouts: exactly the points between the two solutions at the Bayes transition are left out."""
    k = 50
    here = HierarchicalTeacher(v2=np.full(k, 1 / k), noise=0.5**0.5, activation=HE3)
    curve = here.curve(s=np.geomspace(0.5, 10, 501) * k)
    law = ov.static.EqualReadouts(noise=0.5**0.5, activation=HE3)
    edge = law.data(law.overlap)
    assert curve.nu[curve.optimal & (curve.k_c == 0)].max() / k == pytest.approx(edge, rel=7e-3)  # one step of s
    assert curve.nu[curve.optimal & (curve.k_c == k)].min() / k == pytest.approx(edge, rel=7e-3)


def test_hundred_points_at_ten_thousand_features():
    curve = teacher(1.0, 10_000, 0.5).curve((1, 1e9), points=100)
    assert curve.k_c[0] == 0 and curve.k_c[-1] == 10_000


@few("interval", [(1, 1e9), (10, 1e10)], quick=1)
def test_a_curve_costs_few_sums_over_features(monkeypatch, interval):
    """Whether a point is optimal is seen from its neighbours and the next transitions, without all solutions there."""
    here = teacher(1.0, 10_000, 0.5)
    sums, totals = [], Channel.totals
    monkeypatch.setattr(Channel, "totals", lambda self, s, *rest: sums.append(s) or totals(self, s, *rest))
    curve = here.curve(s=here.curve(interval, points=100).s)
    sums.clear()
    here.curve(s=curve.s)
    costly = np.asarray(sums) * here.v2[1000] > here.onset  # with more than a thousand features known
    assert costly.sum() < 5 * np.sum(curve.k_c > 1000)


@pytest.mark.parametrize("activation", [{3: 1.0}, {3: 0.5, 60: 0.5}, ov.tanh, ov.relu], ids=str)
def test_error_of_a_feature_is_convex_between_its_transitions(activation):
    """Chords lie above the curve; by what the midpoint exceeds it, to rounding."""
    one = teacher(1.0, 2, 0.5, activation).feature
    edges = [*(jump.lam for jump in one.jumps), 1e6]
    assert one.convex
    for low, high in itertools.pairwise(edges):
        lam = np.geomspace(low * (1 + 1e-12), high * (1 - 1e-12), 400)
        gap = one.overlaps(lam)[1]
        assert np.all(one.overlaps(0.5 * (lam[1:] + lam[:-1]))[1] <= 0.5 * (gap[1:] + gap[:-1]) + 1e-15)


def test_continuous_onset_bends_the_error_down():
    """Around the onset the error is flat, then falls: no chord is trusted, all points are looked at in full."""
    here = HierarchicalTeacher(beta=1.0, k=5, noise=0.5, activation={2: 1.0}, allow_degree2=True)
    assert not here.feature.convex
    curve = here.curve((0.1, 100), points=30)
    assert curve.optimal.all()
    for nu, eps in zip(curve.nu, curve.eps, strict=True):
        assert here.solve(nu=nu).eps == pytest.approx(eps, abs=1e-7)


@pytest.mark.parametrize("points", [30, 193, pytest.param(1000, marks=pytest.mark.slow)])
@few("beta, k, Delta, interval", [(1.0, 20, 0.3, (2, 300)), (0.15, 30, 0.1, (10, 75))], quick=1)
def test_optimal_is_a_property_of_the_point(beta, k, Delta, interval, points):
    here = teacher(beta, k, Delta)
    curve = here.curve(interval, points=points)
    expected = [abs(here.solve(nu=nu).eps - eps) < 1e-7 for nu, eps in zip(curve.nu, curve.eps, strict=True)]
    assert np.array_equal(curve.optimal, expected) and (points < 100 or 0 < np.sum(~curve.optimal) < points)
    alone = [here.curve(s=[s]).optimal[0] for s in curve.s[::7]]  # no neighbour to compare with
    assert np.array_equal(alone, curve.optimal[::7])


def test_cut_student():
    """Error against the width of the student: a loop, its two ends, and flat beyond k_c."""
    here = teacher(1.0, 50, 0.2)
    result = here.solve(nu=120)
    errors = result.cut(np.arange(51))
    for k_s in (0, 3, 17, 50):
        loop = sum(v2 * (1 - (q**3 if i < k_s else 0)) for i, (v2, q) in enumerate(zip(here.v2, result.q, strict=True)))
        assert errors[k_s] == pytest.approx(loop, rel=1e-12)
    assert errors[0] == pytest.approx(1, rel=1e-14) and errors[-1] == pytest.approx(result.eps, rel=1e-13)
    assert np.all(np.diff(errors[: result.k_c + 1]) < 0) and np.ptp(errors[result.k_c :]) < 1e-15
    for bad in ([51], [1.0], "3", [[1], [2, 3]], None):
        with pytest.raises(ValueError, match="expected integers from 0 to k = 50"):
            result.cut(bad)


def test_cut_takes_the_strongest_features_wherever_they_stand():
    v2 = np.array([0.1, 0.4, 0.2, 0.3])
    result = HierarchicalTeacher(v2=v2, noise=0.5, activation=HE3).solve(nu=5.0)
    parts = v2 * (1 - result.q**3)
    assert result.cut(1) == pytest.approx(parts[1] + 0.6, rel=1e-12)
    assert result.cut([2, 3]) == pytest.approx([parts[[1, 3]].sum() + 0.3, parts[1:].sum() + 0.1], rel=1e-12)


EXACT = {1: 0.655668338, 2: 0.517898630, 8: 0.3423, 32: 0.27718, 100: 0.2601}  # the channel of k features integrated


@pytest.mark.parametrize("k", EXACT)
def test_note_where_the_channel_is_not_gaussian(k):
    """Equal readouts, nu = 3 k, Delta = 1/2: the error of the Gaussian channel is 3.5/k, and the note says when."""
    found = HierarchicalTeacher(v2=np.full(k, 1 / k), noise=0.5**0.5, activation=HE3).solve(nu=3.0 * k)
    assert abs(EXACT[k] / found.eps - 1) > 0.03
    assert found.note.startswith(f"About {k} features contribute to eps, which is 33% of Delta + eps: ")


def test_no_note_where_it_is():
    assert HierarchicalTeacher(v2=np.full(200, 1 / 200), noise=0.5**0.5, activation=HE3).solve(nu=600).note == ""
    assert teacher(1.0, 1, 60.0).solve(nu=180).note == ""  # agrees with sampling: the noise hides the feature
    assert teacher(1.0, 20, 0.3).solve(nu=30).note.startswith("About 13.1 features contribute to eps, which is 35%")
    assert teacher(1.0, 20, 0.0).solve(nu=21).note == "" != teacher(1.0, 20, 0.0).solve(nu=15).note


# records and bad input ------------------------------------------------------------------------------------------------


def test_records():
    here = teacher(1.0, 5, 0.25)
    assert repr(here) == "HierarchicalTeacher(beta=1, k=5, noise=0.5, activation={3: 1.0})"
    assert (here.noise, here.Delta, here.information_exponent, here.onset) == (0.5, 0.25, 3, here.thresholds[0].lam)
    assert here == teacher(1.0, 5, 0.25) and here != teacher(1.0, 5, 0.26)
    assert pickle.loads(pickle.dumps(here)) == here
    assert dataclasses.replace(here, noise=1.0).Delta == 1
    assert dataclasses.replace(here, beta=2.0, v2=None).v2[0] > here.v2[0]
    assert np.array_equal(here.m(np.array([[0.0, 1.0], [2.0, 3.0]])), here.m([0, 1, 2, 3]).reshape(2, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        here.noise = 1.0
    scaled = HierarchicalTeacher(v2=[2.0, 6.0], noise=0.5, activation=HE3, normalise=True)
    assert np.array_equal(scaled.v2, [0.25, 0.75])


BAD = [
    (dict(v2=[0.5, 0.4]), r"v2 sums to 0\.9; expected 1\. Try normalise=True"),
    (dict(v2=[1.5, -0.5]), r"v2 has 1 entries <= 0 among 2; expected v_i\^2 > 0"),
    (dict(v2=[[1.0]]), r"v2 has shape \(1, 1\); expected \(k,\)"),
    (dict(v2=[0.5, 0.5], k=3), r"k = 3, but v2 has 2 entries; expected k to be left out"),
    (dict(v2=[0.5, 0.5], beta=1.0, k=2), r"v2 beside another power law; expected v2=..., or beta=..."),
    (dict(), r"neither v2 nor beta; expected v2"),
    (dict(beta=1.0), r"k = None; expected an integer >= 1"),
    (dict(beta=-1.0, k=3), r"beta = -1\.0; expected a finite number >= 0"),
    (dict(beta=1.0, k=3, noise=-0.1), r"noise = -0\.1; expected a finite number >= 0\. noise is a standard deviation"),
    (dict(beta=1.0, k=3, activation=None), r"activation = None; expected an Activation, a function or a dictionary"),
    (dict(beta=1.0, k=3, activation=ov.linear), r"linear has no component of degree 3 or more; expected one.*Try"),
    (dict(beta=1.0, k=3, activation=ov.quadratic), r"quadratic has no component of degree 3 or more"),
    (dict(beta=1.0, k=3, activation=ov.leaky_relu(1.0)), r"has no component of degree 3 or more"),
    (dict(beta=1.0, k=3, activation={1: 1.0}), r"has no component of degree 3 or more"),
    (dict(beta=1.0, k=3, activation={}), r"has no component of degree 3 or more"),
    (dict(beta=1.0, k=3, activation={2: 0.5, 3: 0.5}), r"degree 2 \(c_2 = 0\.5\); expected none.*allow_degree2=True"),
    (dict(beta=1.0, k=3, activation=ov.relu, remove=(0, 1)), r"degree 2 .*expected none"),
    (dict(beta=1.0, k=3, activation={3: -1.0}), r"expected {l: c_l} with degrees l from 0 to 1000 and finite c_l >= 0"),
    (dict(beta=1.0, k=3, activation=ov.relu, remove=(0, 1, 2, 4)), r"expected degrees 0, 1, 2 for a piecewise-linear"),
    (dict(beta=1.0, k=3, activation=np.sign), r"series misses .* expected a smooth function.*Piecewise-linear"),
    (dict(beta=1.0, k=3, activation=math.tanh), r"fails on an array.*Expected a vectorised function; try np.vectorize"),
    (dict(beta=1.0, k=3, activation=np.exp, remove=(-1,)), r"expected degrees >= 0\. The default is \(0, 1, 2\)"),
]


@pytest.mark.parametrize("change, message", BAD, ids=lambda x: str(x)[:40])
def test_bad_teacher(change, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalTeacher(**{"noise": 0.5, "activation": HE3} | change)


@pytest.mark.parametrize("nu", [0.0, -1.0, np.nan, np.inf, "1"])
def test_bad_nu(nu):
    with pytest.raises(ValueError, match=r"nu = .*; expected a finite number > 0\. nu is the number of samples"):
        teacher(1.0, 5, 0.3).solve(nu=nu)


def test_bad_calls():
    here = teacher(1.0, 5, 0.3)
    with pytest.raises(ValueError, match=r"selection = 'best'; expected one of 'bayes', 'uninformed', 'informed'"):
        here.solve(nu=1.0, selection="best")
    for bad in ([1.0, -1.0], np.nan, "x", [[1.0], [1.0, 2.0]], None, 1j, {}):
        with pytest.raises(ValueError, match=r"^lam .*; expected lam >= 0"):
            here.m(bad)
    with pytest.raises(ValueError, match=r"feature = 5; expected an integer from 0 to 4"):
        here.window(5)
    with pytest.raises(ValueError, match=r"nu = \(2, 1\); expected an interval 0 < from < to"):
        here.curve((2, 1))
    with pytest.raises(ValueError, match=r"s does not increase from a positive value; expected"):
        here.curve(s=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"beyond k = 5 without noise.*expected nu <= k"):
        teacher(1.0, 5, 0.0).curve((1, 10))


def test_data_without_end():
    """Each of three features costs Delta / nu: eps = 3 Delta / nu, in the range of float64 and at its end."""
    teacher = HierarchicalTeacher(v2=[0.7, 0.25, 0.05], noise=0.3, activation=HE3)
    for nu in (1e12, 1e300):
        assert teacher.solve(nu=nu).eps == pytest.approx(3 * 0.09 / nu, rel=1e-9, abs=0)


def test_labels_in_other_units_have_errors_in_these():
    """Feature and noise times sqrt(a): the same overlaps; a student without features knows nothing."""
    a, v2, nu = 1.7, [0.5, 0.2, 0.3], np.array([2.0, 5.0, 9.0])
    one, other = (
        HierarchicalTeacher(v2=v2, noise=0.6 * np.sqrt(b), activation={3: 0.4 * b, 4: 0.6 * b}) for b in (1.0, a)
    )
    for x in nu:
        f, g = one.solve(nu=x), other.solve(nu=x)
        np.testing.assert_allclose(g.q, f.q, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(g.eps, a * f.eps, rtol=1e-9)
        np.testing.assert_allclose(g.cut(np.arange(4)), a * f.cut(np.arange(4)), rtol=1e-9)
        assert g.cut(0) == pytest.approx(a, rel=1e-12) and g.cut(3) == pytest.approx(g.eps, rel=1e-9)
