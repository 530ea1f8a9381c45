"""The scaling problem against matrix exponentials, its own SGD, sampled rotations, and direct sums."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm
from scipy.special import gamma, zeta

import overlaps as ov
from overlaps.theory import features, linear
from overlaps.theory.scaling import Law

GOLDEN = Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
MIXED = Law(0.7, 0.2, L=12, eta=0.9, noise=0.3, student_scale=0.4, batch_size=3)


def quiet(function, *args, **kwargs):
    """Call without the warning of a coarse step, which is what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


def gradient_flow(law, alpha, N_l):
    """The sum over blocks without terms of order eta^2."""
    s = law.spectrum.s
    rate = np.where(np.arange(law.L) < N_l, 2 * law.eta * s, 0.0)
    return np.array([0.5 * np.sum(s * law.m0 * np.exp(-rate * t)) for t in np.ravel(alpha)])


def test_golden_numbers():
    np.testing.assert_allclose(GOLDEN.m0[:3], [0.01951421336, 0.01287457945, 0.01009434854], rtol=1e-9)
    np.testing.assert_allclose(
        GOLDEN.exponents, [0.8, 1.6, 1.5, 0.5333333333333, 1 / 3, 0.4444444444444, 0.6153846153846], rtol=1e-12
    )
    alpha = [0, 0.1, 1, 10, np.inf]
    whole = [0.5, 0.1013843590501, 0.0173547215904, 0.0037767210951, 0.0016666666667]
    part = [0.5, 0.1013926326671, 0.0175316689760, 0.0052103788993, 0.0047679340523]
    np.testing.assert_allclose(GOLDEN.error(alpha), whole, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(GOLDEN.error(alpha, 16), part, rtol=1e-9, atol=1e-13)
    assert GOLDEN.amplitude(16) == pytest.approx(1.3211485812049, rel=1e-12)
    assert GOLDEN.amplitude(N=128) == pytest.approx(1.3885209826154, rel=1e-12)
    assert GOLDEN.random_basis(16) == pytest.approx(0.0139222178401, rel=1e-10)
    np.testing.assert_allclose(GOLDEN.window(), [0.0763795547535, 5.4498698358345], rtol=1e-9)
    np.testing.assert_allclose(GOLDEN.window(16), [0.0763795547535, 2.9092055944329], rtol=1e-9)
    found = quiet(GOLDEN.sgd_mean, [0, 128, 1280], N=128, N_l=16)
    np.testing.assert_allclose(found, [0.5, 0.0185697952755, 0.0056306198888], rtol=1e-10)


@pytest.mark.parametrize(
    "beta, source, name, floors",
    [(1.0, 0.3, "bias", (-1.6, -1.6)), (1.5, 0.85, "basis", (-3.2, -2.5)), (0.8, 1.2, "steps", (-3.2, -1.8))],
)
def test_phases_have_the_exponents_of_the_exact_errors(beta, source, name, floors):
    """Corrections are of order zeta^-b in time and N_l^(2 source - 1) in a random basis: 3 and 5 %."""
    law, wide = Law(beta, source, L=2000, eta=1.0), Law(beta, source, L=200_000, eta=1.0)
    assert law.phase.name == name and bool(law.phase.missing) == (name != "bias")
    np.testing.assert_allclose([-law.phase.features, -law.phase.random_basis], floors, rtol=1e-12)
    ends = np.array([1e3, 1e4]) / (2 * law.eta * law.spectrum.s[0])
    time = np.diff(np.log(law.error(ends))) / np.log(10)
    np.testing.assert_allclose(-time, law.phase.time, rtol=0.03)
    few = np.array([60, 120])
    for exponent, level in ((law.phase.features, wide.frozen), (law.phase.random_basis, wide.random_basis)):
        found = np.diff(np.log([level(int(n)) for n in few])) / np.log(2)
        np.testing.assert_allclose(-found, exponent, rtol=0.05)


@pytest.mark.parametrize("N_l", [1, 5, 12])
@pytest.mark.parametrize("eta", [0.9, 8.0])  # below and above the critical rate 2 B / <s>
def test_error_is_that_of_the_dense_equations(N_l, eta):
    """All 12 blocks, the frozen ones with rate zero, by a matrix exponential; the noise as one more constant entry."""
    law = dataclasses.replace(MIXED, eta=eta)
    s, p, B = law.spectrum.s, 1 / law.L, law.batch_size
    on = (np.arange(law.L) < N_l).astype(float)
    A = np.diag(-2 * eta * s * on) + eta**2 / B * np.outer(on * s * p, s)
    A = np.block([[A, (eta**2 / B * on * s * p * law.noise**2)[:, None]], [np.zeros((1, law.L + 1))]])
    times = [0.0, 0.07, 0.6, 2.0]
    dense = [0.5 * s @ (expm(t * A) @ np.append(law.m0, 1.0))[:-1] for t in times]
    np.testing.assert_allclose(law.error(times, N_l), dense, rtol=1e-12)  # rounding of expm


def test_start_has_the_source_and_a_teacher_of_variance_one():
    law = dataclasses.replace(MIXED, student_scale=0.0)
    assert law.spectrum.s @ law.m0 == pytest.approx(1.0, rel=1e-13)
    coefficients = np.sqrt(law.m0 / law.spectrum.p)
    np.testing.assert_allclose(coefficients / coefficients[0], np.arange(1.0, 13) ** -0.2, rtol=1e-13)
    assert MIXED.error(0.0) == pytest.approx((1 + 0.4**2) / 2, rel=1e-13)


def test_a_batch_is_a_change_of_rate_and_time():
    """error(alpha; eta, B) = error(B alpha; eta/B, 1), with the noise of frozen modes, too."""
    single = dataclasses.replace(MIXED, eta=MIXED.eta / 3, batch_size=1)
    alpha = np.array([0.0, 0.3, 4.0])
    np.testing.assert_allclose(MIXED.error(alpha, 7), single.error(3 * alpha, 7), rtol=1e-13)
    np.testing.assert_allclose(MIXED.terms(1.0, 7), single.terms(3.0, 7), rtol=1e-13)
    assert MIXED.critical_eta(7) == pytest.approx(3 * single.critical_eta(7), rel=1e-13)


@pytest.mark.parametrize("N_l", [3, 12])
def test_what_is_left_is_the_floor_raised_and_the_label_noise(N_l):
    F, P = MIXED.frozen(N_l), MIXED.amplitude(N_l)
    mass = 0.9 / 6 * MIXED.spectrum.s[:N_l].sum() / 12
    assert MIXED.error(np.inf, N_l) == pytest.approx(P * F + 0.3**2 * mass * P / 2, rel=1e-12)


def test_small_rates_are_the_gradient_flow_of_trained_features():
    law, t = Law(1.3, L=40, eta=1e-7, student_scale=0.2), np.array([0.0, 1e5, 1e7])
    flow = features.error(law.spectrum, law.eta, t, N_l=9, student_scale=0.2)
    np.testing.assert_allclose(law.error(t, 9), flow, rtol=1e-6)  # of order eta


def test_source_zero_is_the_linear_theory():
    law = Law(0.5, L=6, eta=0.8, student_scale=0.5)
    np.testing.assert_allclose(
        law.error([0, 0.5, 10]), linear.error(law.spectrum, 0.8, [0, 0.5, 10], student_scale=0.5), rtol=1e-13
    )


# finite N ------------------------------------------------------------------------------------------------------------


def recursion(law, N, N_l, steps):
    """Mean of SGD, one step after the other."""
    s, B, m = law.spectrum.s, law.batch_size, law.m0.copy()
    r = law.eta * s / N * (np.arange(law.L) < N_l)
    for _ in range(steps):
        m = (1 - 2 * r + (1 + 1 / B) * r**2) * m + law.eta / B * r / law.L * (s @ m + law.noise**2)
    return 0.5 * s @ m


def test_finite_size_mean_is_the_recursion_and_the_mean_of_sgd():
    """N = 24 in 12 blocks, batch 3, 5 trained: 4000 runs of NumPy's own SGD."""
    N, N_l, B, runs = 24, 5, 3, 4000
    steps = [0, 8, 40]
    found = quiet(MIXED.sgd_mean, steps, N=N, N_l=N_l)
    np.testing.assert_allclose(found, [recursion(MIXED, N, N_l, n) for n in steps], rtol=1e-11)
    rng, s = np.random.default_rng(1), np.repeat(MIXED.spectrum.s, 2)
    trained = np.repeat(np.arange(12) < N_l, 2)
    d = rng.standard_normal((runs, N)) * np.sqrt(np.repeat(MIXED.m0, 2) * N / 2)
    for n in range(1, 41):
        x = rng.standard_normal((runs, B, N)) * np.sqrt(s)
        delta = np.einsum("rbn,rn->rb", x, d) / np.sqrt(N) - MIXED.noise * rng.standard_normal((runs, B))
        d -= trained * MIXED.eta / np.sqrt(N) * np.einsum("rb,rbn->rn", delta, x) / B
        if n in steps:
            error = 0.5 * d**2 @ s / N
            assert abs(error.mean() - found[steps.index(n)]) < 4 * error.std() / np.sqrt(runs)
    assert abs(MIXED.error(40 / N, N_l) / found[-1] - 1) > 0.01  # the limit is another number


def test_amplitude_at_finite_size():
    """L = N = 1024: mean of SGD over gradient flow, in the window; P of infinite N is 4/3."""
    law = Law(1.0, L=1024, eta=0.5)
    zeta_ = np.array([600.0, 6e3, 6e4])
    steps = np.rint(zeta_ / (2 * law.eta * law.spectrum.s[0]) * 1024)
    ratio = quiet(law.sgd_mean, steps, N=1024) / gradient_flow(law, steps / 1024, 1024)
    np.testing.assert_allclose(ratio, law.amplitude(N=1024), rtol=1e-3)  # 1.4725 against 1.4718
    assert law.amplitude(N=1024) == pytest.approx(1.4718, abs=5e-5)
    assert law.amplitude() == pytest.approx(4 / 3, rel=1e-12)


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_frozen_modes_are_raised_by_the_amplitude_at_finite_size(batch_size):
    """Where the recursion of the mean of SGD rests; without label noise that is the amplitude times their error."""
    law, N, N_l = Law(0.9, 0.3, L=30, eta=0.7, batch_size=batch_size), 60, 13
    s, r = law.spectrum.s, np.where(np.arange(30) < N_l, 0.7 * law.spectrum.s / N, 0.0)
    A = np.diag(2 * r - (1 + 1 / batch_size) * r**2) - 0.7 / batch_size * np.outer(r / 30, s)
    A[N_l:] = np.eye(30)[N_l:]
    m = np.linalg.solve(A, np.where(np.arange(30) < N_l, 0.0, law.m0))
    assert 0.5 * s @ m / law.frozen(N_l) == pytest.approx(law.amplitude(N_l, N), rel=1e-10)
    assert abs(law.amplitude(N_l, N) / law.amplitude(N_l) - 1) > 1e-3


# random bases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, N_l", [(0.0, 40), (0.3, 90)])
def test_random_basis_is_the_mean_over_rotations(source, N_l):
    """Gradient flow to the end: the Schur complement of the trained coordinates."""
    law, rng, found = Law(1.0, source, L=240, eta=0.1), np.random.default_rng(2), []
    for _ in range(12):
        V, R = np.linalg.qr(rng.standard_normal((240, 240)))
        V *= np.sign(np.diag(R))
        Sigma, start = V.T * law.spectrum.s @ V, V.T * law.m0 @ V
        t, f = slice(N_l), slice(N_l, None)
        rest = Sigma[f, f] - Sigma[f, t] @ np.linalg.solve(Sigma[t, t], Sigma[t, f])
        found.append(0.5 * np.trace(rest @ start[f, f]))
    error = np.std(found) / np.sqrt(12)
    # corrections of order 1/N_l: 1.00 to 1.02 with a larger N_l, within the spread of the sampled mean at this one
    assert abs(np.mean(found) / law.random_basis(N_l) - 1) < 0.03 + 3 * error / np.mean(found)


def test_random_basis_without_source_is_the_known_one():
    law = Law(1.0, L=64, eta=0.1, student_scale=0.1)
    known = features.error_haar(law.spectrum, N_l=16, student_scale=0.1)
    assert law.random_basis(16) == pytest.approx(known, rel=1e-12)
    assert law.random_basis(64) == 0.0


@pytest.mark.parametrize("source, high", [(0.0, 0.01), (0.3, 0.07), (0.8, 0.03)])
def test_random_basis_far_below_L(source, high):
    """Power laws N_l^-gamma, and N_l^-(1 + beta) for 2 source > 1, are above the root by a few percent."""
    law, N_l, phi = Law(1.0, source, L=100_000, eta=0.1), 1000, np.pi / 2
    half = 0.5 * law.spectrum.s[0] / law.L * law.teacher_scale
    if 2 * source < 1:
        leading = half * (phi / N_l) ** (1 + 2 * source) * phi / np.sin(phi * (1 - 2 * source))
    else:
        leading = half * (phi / N_l) ** 2 * zeta(2 * source)
    assert leading / law.random_basis(N_l) - 1 == pytest.approx(high, abs=0.006)


# the window of the pure power law ------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta, source", [(1.0, 0.0), (1.0, 0.3), (0.5, 0.2)])
def test_window_ends_where_it_says(beta, source):
    law = Law(beta, source, L=4000, eta=0.5)
    g, u = law.exponents.time, law.spectrum.s[0] / law.L

    def share(N_l):
        alpha = law.window(N_l, accuracy=0.1)[1]
        z = 2 * law.eta * law.spectrum.s[0] * alpha
        power = 0.5 * u * law.teacher_scale * gamma(g) / (1 + beta) * z**-g
        return float(gradient_flow(law, alpha, law.L if N_l is None else N_l)[0]) / power

    assert share(None) == pytest.approx(0.9, abs=0.003)
    assert abs(share(300) - 1) < 0.1  # the neglected tail from 300 to 4000 counts here, with the other sign


def test_gradient_flow_of_the_continuum():
    """The sum over blocks is the integral that all asymptotics start from; by quadrature of its definition."""
    law, t = Law(1.0, 0.3, L=4000, eta=0.5), 3.0
    z = 2 * law.eta * law.spectrum.s[0] * t
    integral = quad_vec(lambda y: np.exp(-1.6 * y - z * np.exp(-2 * y)), np.log(0.5), np.log(300.5), epsrel=1e-12)[0]
    half = 0.5 * law.spectrum.s[0] / law.L * law.teacher_scale
    floor = law.terms(t, 300).floor / law.amplitude(300)
    assert half * integral + floor == pytest.approx(gradient_flow(law, t, 300)[0], rel=1e-4)  # midpoint rule at l = 1


# what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, name",
    [
        (dict(beta=0.0), "beta"),
        (dict(source=-0.5), "source"),
        (dict(eta=0.0), "eta"),
        (dict(L=0), "L"),
        (dict(noise=-1.0), "noise"),
        (dict(student_scale=np.nan), "student_scale"),
        (dict(batch_size=0), "batch_size"),
    ],
)
def test_parameters_out_of_range_are_refused(change, name):
    with pytest.raises(ValueError, match=f"^{name} = "):
        dataclasses.replace(GOLDEN, **change)


def test_calls_out_of_range_are_refused():
    for N_l in (0, 65):
        with pytest.raises(ValueError, match="^N_l = "):
            GOLDEN.error(1.0, N_l)
    for alpha in (0.0, np.inf):
        with pytest.raises(ValueError, match="^alpha = .*times > 0"):
            GOLDEN.terms(alpha)
    fast = dataclasses.replace(GOLDEN, eta=2.5)
    assert fast.error(3.0) > fast.error(1.0)
    for refused in (fast.amplitude, lambda: fast.terms(1.0)):
        with pytest.raises(ValueError, match="eta = 2.5 is too large"):
            refused()
    with pytest.raises(ValueError, match="at N = 64"):
        dataclasses.replace(GOLDEN, eta=1.1).amplitude(N=64)  # below 2, above what N = L = 64 bears
    assert linear.eta_critical(GOLDEN.spectrum, N=64) < 1.1
    with pytest.raises(ValueError, match="accuracy"):
        GOLDEN.window(accuracy=0.0)


def test_negative_sources_are_legal_and_hard():
    easy, hard = (Law(1.0, source, L=500, eta=0.5) for source in (0.2, -0.3))
    assert hard.exponents.time == pytest.approx(0.2)
    assert hard.error(1.0) > easy.error(1.0)


def test_the_flow_of_the_library_has_this_mean():
    """A run of solve from a start with these block distances."""
    law = Law(1.0, 0.3, L=8, eta=0.6, noise=0.2)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.6, noise=0.2, spectrum=law.spectrum)
    zero = np.zeros((8, 1, 1))
    start = ov.State.from_blocks(model, q=zero, r=zero, t=law.m0[:, None, None])
    traj = ov.solve(model, start, [0.0, 0.5, 5.0])
    np.testing.assert_allclose(traj.eps_g, law.error(traj.alpha), rtol=1e-7)


@pytest.mark.parametrize("beta, L, factor", [(0.5, 64, 1000), (1.0, 30, 100)])
def test_both_windows_end_together_where_the_law_is_lost(beta, L, factor):
    law, (first, last) = Law(beta, 0.0, L=L, eta=0.3), linear.window(beta, L, 0.3)
    end = last * (1 + 0.5 / L) ** (1 + beta)  # L + 1/2 in place of L
    np.testing.assert_allclose(law.window(accuracy=1.0), [3 * first, end], rtol=1e-12)
    np.testing.assert_allclose(law.window(accuracy=0.1)[1], end / factor, rtol=1e-12)
