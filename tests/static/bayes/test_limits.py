"""Laws of large width for beta > 1/2, beta < 1/2 and equal readouts, against the fixed point or another formula."""

import mpmath
import numpy as np
import pytest
from helpers import few
from scipy.integrate import quad
from scipy.special import zeta

import overlaps as ov
from overlaps.static import EqualReadouts, HierarchicalTeacher, PowerLawLimit, SubcriticalPowerLaw

HE3 = {3: 1.0}
LAM, Q = 1.4557767406190114, 0.6450074513345844


def teacher(beta, k, Delta, activation=HE3, **options):
    return HierarchicalTeacher(beta=beta, k=k, noise=Delta**0.5, activation=activation, **options)


def limit(beta, Delta, activation=HE3, **options):
    return PowerLawLimit(beta=beta, noise=Delta**0.5, activation=activation, **options)


def subcritical(beta, Delta, gamma=1.0, activation=HE3):
    return SubcriticalPowerLaw(beta=beta, gamma=gamma, noise=Delta**0.5, activation=activation)


def m(lam):
    """Overlap of He_3 in closed form."""
    lam = np.asarray(lam, dtype=float)
    return np.where(lam >= LAM, (1 + np.sqrt(1 - 4 / (3 * np.maximum(lam, LAM)))) / 2, 0.0)


def gap(lam):
    """1 - m^3 above the transition, without cancellation."""
    p = 2 / (3 * lam) / (1 + np.sqrt(1 - 4 / (3 * lam)))
    return p * (3 - 3 * p + p * p)


def slope(eps, nu):
    """Fitted exponent of an error, and its values."""
    return np.polyfit(np.log(nu), np.log([eps(x) for x in nu]), 1)[0]


# beta > 1/2 -----------------------------------------------------------------------------------------------------------

INTEGRALS = {0.6: 0.6950383644, 0.75: 0.6937166674, 1.0: 0.6922689147, 1.5: 0.6906731984, 2.0: 0.6898114509}


@pytest.mark.parametrize("beta", INTEGRALS)
def test_golden_integral(beta):
    law = limit(beta, 0.5)
    assert law.integral == pytest.approx(INTEGRALS[beta], abs=6e-11)  # the digits given
    # and in x, where the integrand is bounded, starts at 1/lambda_sigma, and is smooth but for x^(2 beta)
    direct = quad(lambda x: x ** (-2 * beta) * gap(LAM * x ** (-2 * beta)), 1e-9, 1, epsabs=1e-13, limit=200)[0]
    assert law.integral == pytest.approx(direct + 1e-9 / LAM, abs=1e-11)


@pytest.mark.parametrize(
    "beta, k_c, eps",
    [
        (0.6, 0.3104562489, 1.2869504926),
        (0.75, 0.6515280155, 1.2774672911),
        (1.0, 0.9138888153, 1.1257125808),
        (1.5, 1.0455305587, 0.9061374699),
    ],
)
def test_golden_leading_law(beta, k_c, eps):
    found = limit(beta, 0.5).leading(1.0)
    assert found == pytest.approx((eps, k_c), abs=6e-11)
    # alpha = 1 at another d: powers of d only
    scaled = limit(beta, 0.5).leading(1000.0)
    assert scaled.k_c == pytest.approx(k_c * 1000 ** (1 / (2 * beta)), rel=1e-9)
    assert scaled.eps == pytest.approx(eps * 1000 ** (1 / (2 * beta) - 1), rel=1e-9)


LEADING = {
    0.75: [0.888, 0.892, 0.910, 0.930, 0.949],
    1.0: [1.026, 1.014, 1.003, 1.0014, 1.0004],
    1.5: [0.999, 0.980, 0.989, 0.995, 0.997],
}
REFINED = {0.75: 0.99998, 1.0: 0.99984, 1.5: 0.9973}


@pytest.mark.slow
@pytest.mark.parametrize("beta", LEADING)
def test_leading_and_refined_laws_against_the_fixed_point(beta):
    """From k = d = 1e2 to 1e6, alpha = 1, Delta = 1/2: the leading law converges slowly, the refined one at once."""
    law = limit(beta, 0.5)
    eps = {d: teacher(beta, d, 0.5).solve(nu=d).eps for d in (100, 1000, 10**4, 10**5, 10**6)}
    assert np.allclose([e / law.leading(d).eps for d, e in eps.items()], LEADING[beta], atol=7e-4)  # digits given
    assert eps[10**6] / law.refined(1e6, k=10**6).eps == pytest.approx(REFINED[beta], abs=6e-5 if beta > 1 else 6e-6)
    for d, e in eps.items():  # the continuum of features: an error of the order of 1/k_c
        found = law.refined(d, k=d)
        assert e / found.eps == pytest.approx(1, abs=0.7 / found.k_c)


@few(
    "activation, Delta",
    [({2: 0.5, 3: 0.5}, 0.5), ({3: 0.5, 4: 0.3, 5: 0.2}, 0.5), ({2: 0.5, 20: 0.5}, 0.5), (ov.relu, 0.5 * 0.011267585)],
    ids=str,
    quick=2,
)
def test_refined_law_of_other_activations(activation, Delta):
    """Noise in proportion to g(1): with Delta = 1/2, relu (g(1) = 0.011) has learned 48 features and 1/k_c = 2e-2."""
    d = 10**5
    options = {"allow_degree2": isinstance(activation, dict) and 2 in activation}
    exact = teacher(0.75, d, Delta, activation, **options).solve(nu=d)
    assert limit(0.75, Delta, activation, **options).refined(d, k=d).eps == pytest.approx(exact.eps, rel=2e-4)
    assert exact.k_c > 900


@pytest.mark.parametrize(
    "beta, k, Delta, nu",
    [
        (1.5, 10**4, 0.5, 1e4),
        pytest.param(1.0, 10**6, 5, 1e4, marks=pytest.mark.slow),
        pytest.param(0.75, 10**6, 5, 1e3, marks=pytest.mark.slow),
    ],
)
def test_exponent_of_the_learning_phase(beta, k, Delta, nu):
    here = teacher(beta, k, Delta)
    found = slope(lambda x: here.solve(nu=x).eps, np.geomspace(nu, 100 * nu, 9))
    expected, _ = limit(beta, Delta).exponents
    assert expected == 1 / (2 * beta) - 1
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("beta", [0.75, 1.0, 1.5])
def test_exponent_of_the_refinement_phase(beta):
    here, law = teacher(beta, 1000, 0.5), limit(beta, 0.5)
    nu = 100 * here.onset * 0.5 / here.v2[-1] * np.geomspace(1, 100, 9)  # all features far above their transition
    assert slope(lambda x: here.solve(nu=x).eps, nu) == pytest.approx(-1, rel=1e-3)
    assert slope(lambda x: law.refined(x, k=1000).eps, nu) == pytest.approx(-1, rel=1e-3)
    assert here.solve(nu=nu[-1]).eps == pytest.approx(0.5 * 1000 / (nu[-1] - 1000), rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("low", [300, 1000, 10_000])
def test_exponent_between_the_laws(low):
    """At beta = 0.75, Delta = 1/2, k = 1e4 neither law holds over two decades; the refined form does."""
    here, law = teacher(0.75, 10**4, 0.5), limit(0.75, 0.5)
    nu = np.geomspace(low, 100 * low, 60)
    found = slope(lambda x: here.solve(nu=x).eps, nu)
    assert found == pytest.approx(slope(lambda x: law.refined(x, k=10**4).eps, nu), rel=5e-3)
    assert -0.75 < found < -0.38  # not -1/3


def test_exponent_given_for_the_crossover():
    here = teacher(0.75, 10**4, 0.5)
    assert slope(lambda x: here.solve(nu=x).eps, np.geomspace(100, 1e4, 60)) == pytest.approx(-0.38, abs=5e-3)


def test_crossover_slopes():
    """Width 1000, beta = 0.75: local slopes of the fixed point from -0.39 to -0.52 while k_c grows to 0.3 k."""
    here = teacher(0.75, 1000, 0.5)
    nu = np.geomspace(100, 1.05e4, 8)
    results = [here.solve(nu=x) for x in nu]
    local = np.diff(np.log([x.eps for x in results])) / np.diff(np.log(nu))
    assert results[-1].k_c == pytest.approx(300, rel=0.1)
    assert local[0] == pytest.approx(-0.39, abs=0.03) and local[-1] == pytest.approx(-0.52, abs=0.03)


def test_both_regimes_and_the_collapse():
    """Width 1000, nu from 10 to 1e13: eps nu / k_c goes from one constant to the other."""
    here, law = teacher(1.5, 1000, 0.5), limit(1.5, 0.5)
    learning, refinement = law.collapse
    assert refinement == pytest.approx(0.5, rel=1e-15)
    early, late = here.solve(nu=1e4), here.solve(nu=1e13)
    assert early.eps * 1e4 / early.k_c == pytest.approx(learning, rel=0.03)  # k_c = 22 is an integer
    assert late.eps * 1e13 / late.k_c == pytest.approx(refinement, rel=2e-3)
    wide = teacher(1.0, 1000, 0.5).solve(nu=1e10)
    assert wide.eps * 1e10 / wide.k_c == pytest.approx(0.5, rel=1e-3)


def test_collapse_constants():
    ratios = [np.divide(*limit(beta, 0.5).collapse) for beta in (0.6, 0.75, 1.0, 1.5, 2.0)]
    assert np.allclose(ratios, [8.3, 3.92, 2.46, 1.73, 1.49], atol=0.01)
    # C = eps nu / k_c with the leading law itself
    for beta in (0.6, 1.0):
        law = limit(beta, 0.3)
        point = law.leading(123.0)
        assert point.eps * 123.0 / point.k_c == pytest.approx(law.collapse[0], rel=1e-12)


def test_profile_of_the_front():
    here, law = teacher(0.75, 10**5, 0.5), limit(0.75, 0.5)
    result = here.solve(nu=1e5)
    k_c = law.refined(1e5, k=10**5).k_c
    rank = np.arange(1, 10**5 + 1) / k_c
    away = np.abs(rank - 1) > 0.01  # the jump itself moves by 1/k_c
    assert np.max(np.abs(result.q - law.profile(rank))[away]) < 1e-3
    assert np.allclose(law.profile([0.5, 1.01]), [m(LAM * 0.5**-1.5), 0], atol=1e-12)


def test_refined_law_at_and_around_one_half():
    """The formula has a removable pole at beta = 1/2 and serves below it too."""
    for beta in (0.3, 0.5, 0.5 + 1e-9):
        exact = teacher(beta, 10**5, 0.5).solve(nu=1e5)
        assert limit(beta, 0.5).refined(1e5, k=10**5).eps == pytest.approx(exact.eps, rel=3e-3)


# beta < 1/2 -----------------------------------------------------------------------------------------------------------


def test_golden_subcritical():
    law = subcritical(0.25, 0.5)
    assert law.alpha_star == pytest.approx(2.4775866315, abs=6e-11)
    for lam, eps, alpha in [
        (0.5, 0.7770777914, 1.2770777914),
        (1.0, 0.5541555828, 2.1083111656),
        (3.0, 0.1671374974, 2 * 3.0 * (0.5 + 0.1671374974)),  # alpha follows from eps, here to 4e-10
    ]:
        found = law.phase(lam)
        assert found.eps == pytest.approx(eps, abs=6e-11) and found.alpha == pytest.approx(alpha, abs=4e-10)
        assert law.solve(alpha).eps == pytest.approx(eps, abs=1e-9)


@pytest.mark.parametrize("beta", [0.1, 0.25, 0.4])
def test_alpha_star_by_the_papers_formula(beta):
    """(46) integrated in u = x^(1-2 beta) by QUADPACK, with m in closed form."""
    power = -2 * beta / (1 - 2 * beta)
    learned = quad(lambda u: m(LAM * u**power) ** 3, 0, 1, epsabs=1e-13, limit=400)[0] / (1 - 2 * beta)
    expected = 2.0 * LAM * (1.5 / (1 - 2 * beta) - learned)
    assert subcritical(beta, 0.5, gamma=2.0).alpha_star == pytest.approx(expected, rel=1e-9)


def test_subcritical_limit_of_the_fixed_point():
    """At half of alpha*, k = d = 1e3, 1e4, 1e5: eps approaches the limit."""
    law = subcritical(0.25, 0.5)
    alpha = law.alpha_star / 2
    eps = [teacher(0.25, d, 0.5).solve(nu=alpha * d).eps for d in (1000, 10**4, 10**5)]
    assert np.allclose(eps, [0.8006, 0.7901, 0.7867], atol=1e-4)
    assert law.solve(alpha).eps == pytest.approx(0.7851, abs=1e-4)
    gaps = np.array(eps) - law.solve(alpha).eps  # z_k differs from its integral by zeta(2 beta) / k^(1-2 beta)
    assert np.allclose(gaps[:-1] / gaps[1:], 10**0.5, rtol=0.05)


CRITICAL = {
    0.02: 6.620,
    0.05: 2.543,
    0.1: 1.1563,
    0.15: 0.6840,
    0.2: 0.4440,
    0.25: 0.2981,
    0.3: 0.1998,
    0.35: 0.1290,
    0.4: 0.0755,
    0.45: 0.0337,
}


@pytest.mark.slow
@pytest.mark.parametrize("beta", CRITICAL)
def test_critical_noise(beta):
    found = subcritical(beta, 1.0).critical_noise ** 2
    assert found == pytest.approx(CRITICAL[beta], abs=6e-4 if beta < 0.1 else 6e-5)
    # alpha(lam) is monotone just above Delta_c and not just below
    lam = np.union1d(np.geomspace(0.3, 6.0, 60), LAM * np.geomspace(0.97, 1.03, 121))
    for factor, monotone in ((0.95, False), (1.01, True)):
        law = subcritical(beta, factor * found)
        alpha = [law.phase(x).alpha for x in lam]
        assert bool(np.all(np.diff(alpha) > 0)) is monotone
        assert bool(law.unique) is monotone and (law.maxwell is None) is monotone


@pytest.mark.slow
@pytest.mark.parametrize(
    "beta, Delta, spinodals, maxwell",
    [(0.1, 0.1, (1.21692, 1.35334), 1.277864), (0.25, 0.05, (1.16739, 1.23642), 1.203706)],
)
def test_spinodals_and_maxwell_point(beta, Delta, spinodals, maxwell):
    law = subcritical(beta, Delta)
    assert [x.alpha for x in law.spinodals] == pytest.approx(spinodals, abs=1e-5)  # digits given, cut
    few, many = law.maxwell
    assert few.alpha == pytest.approx(maxwell, abs=6e-7) and many.alpha == pytest.approx(maxwell, abs=6e-7)
    if beta == 0.1:
        assert (few.eps, many.eps, few.width) == pytest.approx((0.8915, 0.3768, 0.178), abs=5e-4)
    else:
        assert (few.eps, many.eps) == pytest.approx((0.5604, 0.2583), abs=6e-5)
    assert many.width == 1
    # equal areas: the integral of alpha - alpha_M over ln lam between the branches is zero, without any potential
    area = quad(lambda u: law.phase(np.exp(u)).alpha - few.alpha, np.log(few.lam), np.log(many.lam), limit=200)[0]
    assert abs(area) < 1e-7
    assert law.solve(0.99 * maxwell).width < 1 and law.solve(1.01 * maxwell).width == 1


@few("beta, Delta", [(0.1, 0.1), (0.25, 0.05)], quick=1)
@pytest.mark.parametrize("k", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_selection_flips_at_the_maxwell_point(beta, Delta, k):
    """Finite k: readouts come from the continuum, v_i^2 ~ the mean of x^(-2 beta) over the cell of feature i."""
    law = subcritical(beta, Delta)
    edges = np.linspace(0, 1, k + 1) ** (1 - 2 * beta)
    here = HierarchicalTeacher(v2=np.diff(edges), noise=Delta**0.5, activation=HE3, normalise=True)
    alpha = law.maxwell[0].alpha
    assert here.solve(nu=0.99 * alpha * k).k_c < k / 2
    assert here.solve(nu=1.01 * alpha * k).k_c == k


# several transitions of one feature: He_3 + He_60 --------------------------------------------------------------------

TWO = {3: 0.5, 60: 0.5}
JUMPS = 2.911553481, 5.692006107


@pytest.fixture(scope="module")
def two():
    return subcritical(0.1, 0.25, activation=TWO)


def brute(law, lam, points=4001):
    """(alpha, eps) at lam, by the midpoint rule in u = x^(1 - 2 beta) and the argmax over a grid of overlaps."""
    q = 1 - np.geomspace(1, 1e-4, 3000)
    g, s = 0.5 * q**3 + 0.5 * q**60, q + np.log1p(-q)
    x = ((np.arange(points) + 0.5) / points) ** (1 / (1 - 2 * law.beta))
    best = np.array([np.argmax(snr * g + s) for snr in lam * x ** (-2 * law.beta)])
    eps = np.mean(1 - g[best])
    return law.gamma * lam * (law.Delta + eps) / (1 - 2 * law.beta), eps


def test_phase_with_two_transitions_by_brute_force(two):
    assert [jump.lam for jump in two.channel.jumps] == pytest.approx(JUMPS, abs=6e-10)
    for lam in (2.0, 4.0, 8.0):  # 4001 features, 3000 overlaps: steps of eps at the jumps are 1/4001
        assert two.phase(lam)[1:3] == pytest.approx(brute(two, lam), rel=1e-3)


@pytest.mark.slow
def test_critical_noise_looks_at_every_transition(two):
    found = two.critical_noise**2
    assert found == pytest.approx(1.8507726717, abs=6e-11)
    lam = np.geomspace(1.0, 30.0, 150)
    for Delta, monotone in ((0.25, False), (1.80, False), (1.8508, True), (3.0, True)):
        law = subcritical(0.1, Delta, activation=TWO)
        alpha = [law.phase(x).alpha for x in np.union1d(lam, JUMPS[1] * np.linspace(0.99, 1.001, 12))]
        assert bool(np.all(np.diff(alpha) > 0)) is monotone is law.unique


@pytest.mark.slow
def test_maxwell_point_of_the_second_transition(two):
    lower, upper = two.spinodals
    assert lower.alpha == pytest.approx(2.992327, abs=6e-7)
    top = [two.phase(x).alpha for x in np.linspace(4.26, 4.28, 81)]
    assert upper.alpha == pytest.approx(max(top), abs=2e-7)  # 4.216706; the grid misses its top by 1e-8
    few, many = two.maxwell
    assert few.alpha == pytest.approx(3.7158337, abs=6e-8) == many.alpha and two.transitions == (two.maxwell,)
    # equal areas, with nodes at the kinks
    edges = np.log([few.lam, JUMPS[1], many.lam])
    area = sum(
        quad(lambda u: two.phase(np.exp(u)).alpha - few.alpha, a, b, epsabs=1e-9)[0]
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    )
    assert abs(area) < 1e-7
    best = two.solve(3.75)
    assert (best.eps, best.lam) == pytest.approx((0.1057087309, 8.4338666), rel=1e-8)
    assert two.potential(best, 3.75) == pytest.approx(-0.6938097, abs=6e-8)
    other = two.solutions(3.75)[0]
    assert (other.eps, other.lam) == pytest.approx((0.7288250, 3.0648991), abs=6e-8)
    assert two.potential(other, 3.75) == pytest.approx(-0.7284480, abs=6e-8)


@pytest.mark.slow
@pytest.mark.parametrize("below", [1e-6, 1e-10, 1e-13, 0.0])
def test_noise_just_below_the_critical(below):
    """The window closes like the cube of its distance: nothing but rounding is left of it, and nothing fails."""
    edge = subcritical(0.25, 1.0).critical_noise
    law = SubcriticalPowerLaw(beta=0.25, gamma=1.0, noise=edge * (1 - below), activation=HE3)
    data = law.alpha_star if law.unique else law.maxwell[0].alpha
    assert data == pytest.approx(law.alpha_star, rel=1e-5)
    for alpha in data * (1 + np.array([-1e-3, -1e-14, 0.0, 1e-14, 1e-3])):
        assert law.solve(alpha).alpha == pytest.approx(alpha, rel=1e-12)


@pytest.mark.slow
def test_two_transitions_one_after_the_other():
    """Three branches at beta = 0.02: finite k in the same order, readouts from the cells of the continuum."""
    law, k = subcritical(0.02, 1.0, gamma=2.0, activation=TWO), 300
    assert len(law.transitions) == 2 and law.maxwell == law.transitions[1]
    edges = np.linspace(0, 1, k + 1) ** 0.96
    here = HierarchicalTeacher(v2=np.diff(edges), noise=1.0, activation=TWO, normalise=True)
    for less, more in law.transitions:
        assert less.alpha == pytest.approx(more.alpha, rel=1e-12) and less.lam < more.lam
        for factor, phase in ((0.98, less), (1.02, more)):  # nu = alpha d and k = 2 d
            assert here.solve(nu=factor * less.alpha * k / 2).eps == pytest.approx(phase.eps, abs=0.05)
            assert law.solve(factor * less.alpha).eps == pytest.approx(phase.eps, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_potential_is_that_of_many_features(gamma):
    """Phi/k of k = 4000 readouts from the cells of the continuum, nu/k = alpha/gamma."""
    law, k, alpha = subcritical(0.25, 0.1, gamma=gamma), 4000, 1.5 * gamma
    phase = law.solve(alpha)
    v2 = np.diff(np.linspace(0, 1, k + 1) ** 0.5)
    found = HierarchicalTeacher(v2=v2, noise=0.1**0.5, activation=HE3, normalise=True).solve(nu=alpha * k / gamma)
    assert phase.eps == pytest.approx(found.eps, abs=1e-3)
    assert law.potential(phase, alpha) == pytest.approx(found.phi / k, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("Delta", [1e-4, 1e-12, 1e-200])
def test_subcritical_with_tiny_noise(Delta):
    """The learned branch begins near alpha = gamma: eps = k/lam at large lam, as for any number of parameters."""
    law = subcritical(0.2, Delta, gamma=2.0)
    assert not law.unique and 2.0 <= law.spinodals[0].alpha < 2.0 + 50 * Delta**0.5 + 1e-9
    found = law.solve(4.0)
    assert found.eps == pytest.approx(Delta * 2.0 / (4.0 - 2.0), rel=10 * Delta**0.5 + 1e-9)


# equal readouts -------------------------------------------------------------------------------------------------------

EQUAL = [
    (0.01, 1.03493, 1.0821371620, 0.95728, 1.47033),
    (0.1, 1.20137, 1.2812401959, 0.85788, 1.60135),
    (0.5, 1.78332, 1.9266430843, 0.75460, 2.18367),
    (1.0, 2.46789, 2.6768819411, 0.71602, 2.91155),
    (10.0, 14.4955, 15.8127940054, 0.65507, 16.01354),
]


@pytest.mark.parametrize("Delta, informed, bayes, overlap, uninformed", EQUAL)
def test_golden_equal_readouts(Delta, informed, bayes, overlap, uninformed):
    law = EqualReadouts(noise=Delta**0.5, activation=HE3)
    assert law.threshold == pytest.approx(bayes, abs=6e-11)
    digits = (law.informed_from, law.overlap, law.uninformed_until)
    assert digits == pytest.approx((informed, overlap, uninformed), abs=6e-5 if Delta == 10 else 6e-6)
    assert law.informed_from < law.threshold < law.uninformed_until


@pytest.mark.parametrize("Delta", [0.1, 0.5])
def test_equal_readouts_against_the_fixed_point(Delta):
    """The general solver finds the same windows and switches at the same place, for any k."""
    law = EqualReadouts(noise=Delta**0.5, activation=HE3)
    for k in (3, 100):
        here = HierarchicalTeacher(v2=np.full(k, 1 / k), noise=Delta**0.5, activation=HE3)
        # every feature at its own best: q >= q_sigma
        begin = law.data(max(law.informed_overlap, Q))
        marks = [begin, law.threshold, law.uninformed_until]
        before = [here.solve(nu=k * A * (1 - 1e-4)) for A in marks]
        after = [here.solve(nu=k * A * (1 + 1e-4)) for A in marks]
        assert [x.k_c for x in before] == [0, 0, k] and [x.k_c for x in after] == [0, k, k]
        # one solution, then an unlearned and a learned one, then one again
        assert [len(x.solutions) for x in before] == [1, 2, 2] and [len(x.solutions) for x in after] == [2, 2, 1]
        assert after[1].q[0] == pytest.approx(law.overlap, abs=1e-3)
        assert here.window(0)[0] == pytest.approx(k * begin, rel=1e-12)
        assert here.window(0)[1] == pytest.approx(k * law.uninformed_until, rel=1e-12)


EXTREME = [
    ({2: 1.0}, 100.0, 50.5, 0.0),
    (HE3, 1e-12, 1.00463937127, 1 - 7.1849e-11),
    (HE3, 1e-16, 1.00327419317, 1 - 1.0181e-14),
    ({100: 1.0}, 0.49, 6.32216276655, 0.998971675),
    ({100: 1.0}, 1.0, 9.76844695499, 0.998693840),
]


@pytest.mark.slow
@pytest.mark.parametrize("activation, Delta, threshold, overlap", EXTREME, ids=str)
def test_extreme_equal_readouts(activation, Delta, threshold, overlap):
    law = EqualReadouts(noise=Delta**0.5, activation=activation, allow_degree2=True)
    assert law.threshold == pytest.approx(threshold, rel=6e-12)
    assert 1 - law.overlap == pytest.approx(1 - overlap, rel=1e-4, abs=2e-16)  # 1 - q is known to the spacing at 1
    if law.overlap == 0:
        assert law.transitions == () and (law.informed_from, law.informed_overlap) == (threshold, 0)
    # nowhere less, and nearly as little on a grid
    (degree,), noise = activation, mpmath.mpf(Delta)
    with mpmath.workdps(250):  # q^100 at small q

        def data(p):
            q = 1 - mpmath.mpf(p)
            return -(q + mpmath.log(p)) / mpmath.log((noise + 1) / (noise + 1 - q**degree))

        least = min(data(p) for p in np.geomspace(1e-18, 0.99, 2000))
        assert float(least) == pytest.approx(law.threshold, rel=1e-2 if degree == 2 else 3e-4)
        assert least > law.threshold * (1 - 1e-13)


@pytest.mark.parametrize("Delta", [1.0, 10.0])
def test_equal_readouts_jump_twice(Delta):
    law = EqualReadouts(noise=Delta**0.5, activation=TWO)
    q = 1 - np.geomspace(1, 1e-4, 20_000)
    first, second = law.transitions
    assert law.threshold == first.lam and law.overlap == first.above
    for A, below, above in law.transitions:
        for factor, overlap in ((1 - 1e-5, below), (1 + 1e-5, above)):
            assert q[np.argmax(law.potential(q, factor * A))] == pytest.approx(overlap, abs=2e-3)
        assert law.potential(below, A) == pytest.approx(law.potential(above, A), rel=1e-12)


def test_potential_of_equal_readouts():
    law = EqualReadouts(noise=0.5**0.5, activation=HE3)
    q = np.linspace(0, 0.999, 5000)
    phi = law.potential(q, law.threshold)
    assert phi.max() == pytest.approx(law.potential(0.0, law.threshold), abs=1e-6)  # the grid
    middle = 0.5 * (q[1:] + q[:-1])
    below = np.diff(law.potential(q, 2.0)) > 0  # rises where the data needed for q are less than 2
    assert np.mean(below == (law.data(middle) < 2.0)) > 0.999


def test_bad_limits():
    for bad, message in [
        (lambda: limit(1.0, 0.0), r"noise = 0\.0; expected a finite number > 0\..*HierarchicalTeacher solves noise=0"),
        (lambda: limit(0.0, 0.5), r"beta = 0\.0; expected a finite number > 0"),
        (lambda: limit(0.4, 0.5).leading(1.0), r"beta = 0\.4; expected beta > 1/2.*Use refined"),
        (lambda: limit(1.0, 0.5).profile([0.0]), r"expected ranks x = i / k_c > 0"),
        (lambda: limit(1.0, 0.5).refined(-1.0, k=3), r"nu = -1\.0; expected a finite number > 0"),
        (lambda: limit(1.0, 0.5, {2: 1.0}), r"degree 2"),
        (lambda: subcritical(0.5, 0.5), r"beta = 0\.5; expected 0 < beta < 1/2\. Use PowerLawLimit"),
        (lambda: subcritical(0.2, 0.5, gamma=0.0), r"gamma = 0\.0; expected a finite number > 0\. gamma is k/d"),
        (lambda: subcritical(0.2, 0.5).solve(0.0), r"alpha = 0\.0; expected a finite number > 0"),
        (lambda: EqualReadouts(noise=0.5, activation=HE3).data(1.0), r"expected overlaps 0 < q < 1"),
        (lambda: EqualReadouts(noise=-1.0, activation=HE3), r"noise = -1\.0; expected"),
    ]:
        with pytest.raises(ValueError, match=message):
            bad()


def test_records():
    law = limit(1.0, 0.25)
    assert repr(law) == "PowerLawLimit(beta=1, noise=0.5, activation={3: 1.0})" and law == limit(1.0, 0.25)
    assert repr(subcritical(0.2, 0.25)) == "SubcriticalPowerLaw(beta=0.2, gamma=1, noise=0.5, activation={3: 1.0})"
    assert repr(EqualReadouts(noise=0.5, activation=HE3)) == "EqualReadouts(noise=0.5, activation={3: 1.0})"
    assert law == PowerLawLimit(1.0, 0.5, HE3) and EqualReadouts(noise=0.5, activation=HE3) == EqualReadouts(0.5, HE3)
    assert subcritical(0.2, 0.25) == SubcriticalPowerLaw(0.2, 1.0, 0.5, HE3)
    assert law.leading(1.0).k_c == pytest.approx((1 / (LAM * zeta(2) * 0.25)) ** 0.5, rel=1e-12)
