"""Exponents of curves whose exponent is known."""

import numpy as np
import pytest

import overlaps as ov
from overlaps.theory.scaling import Law, fit

ALPHA = np.geomspace(0.5, 5e3, 200)


def test_a_power_law_is_found_as_it_is():
    found = fit(ALPHA, 3 * ALPHA**-0.7)
    assert found.clean and found.error < 1e-9
    assert (found.exponent, found.amplitude) == pytest.approx((0.7, 3.0), rel=1e-9)
    assert found.window == pytest.approx((0.5, 5e3), rel=1e-9)
    assert fit(ALPHA, ALPHA**0.4).exponent == pytest.approx(-0.4)  # curves may rise


@pytest.mark.parametrize(
    "beta, source, exponent",
    [(1.0, 0.0, 0.5), (1.0, 0.3, 0.8), (1.0, 0.26, 0.76)],
)
def test_exact_curves(beta, source, exponent):
    """The true exponent lies within the error, which stays below a tenth of it."""
    law = Law(beta, source, L=4000, eta=0.5)
    alpha = np.geomspace(1, 1e7, 150) / law.spectrum.s[0]
    found = fit(alpha, law.error(alpha))
    assert found.clean and abs(found.exponent - exponent) < found.error < 0.1 * exponent
    first, last = law.window()
    assert found.window[0] < 30 * first and 0.1 * last < found.window[1] < 10 * last


def test_a_curve_without_power_law_is_not_clean():
    """With beta = 0.3 and L = 1000 no window: the number says that it is no law."""
    law = Law(0.3, L=1000, eta=0.5)
    alpha = np.geomspace(1, 1e6, 150) / law.spectrum.s[0]
    found = fit(alpha, law.error(alpha))
    assert not found.clean and found.error > 0.05 * found.exponent
    assert not fit(ALPHA, np.exp(-ALPHA / 100)).clean


def test_the_window_leaves_out_what_comes_before_and_after():
    """A transient, a law, a floor: both ends are less steep, which a parabola alone takes for straight (0.564(16))."""
    alpha = np.geomspace(1e-3, 1e7, 400)
    eps = 2 * (alpha + 1) ** -0.6 + 1e-4
    found = fit(alpha, eps)
    assert found.clean and 3 < found.window[0] and found.window[1] < 1e6
    assert abs(found.exponent - 0.6) < found.error < 0.04
    assert fit(alpha[200:], eps[200:] - 1e-4).exponent == pytest.approx(0.6, abs=0.001)  # floor known and subtracted


def test_error_bars_cover_the_truth():
    """5 % of independent noise: the truth lies within one error bar in at least 68 % of 100 curves."""
    rng, inside = np.random.default_rng(3), 0
    for _ in range(100):
        found = fit(ALPHA, ALPHA**-0.7 * np.exp(0.05 * rng.standard_normal(200)))
        inside += abs(found.exponent - 0.7) < found.error
        assert found.error < 0.05 and found.clean
    assert inside >= 68


def test_columns_of_a_file(tmp_path):
    """What a training run leaves behind, read with np.loadtxt."""
    steps = np.unique(np.geomspace(10, 1e6, 80).astype(int))
    np.savetxt(tmp_path / "log.txt", np.transpose([steps, 5.0 * steps**-0.25]), header="step loss")
    found = fit(*np.loadtxt(tmp_path / "log.txt", unpack=True))
    assert found.clean and found.exponent == pytest.approx(0.25, rel=1e-6)


def test_a_simulation_and_a_trajectory():
    law = Law(1.0, 0.3, L=100, eta=0.3)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.3, spectrum=law.spectrum)
    zero = np.zeros((100, 1, 1))
    start = ov.State.from_blocks(model, q=zero, r=zero, t=law.m0[:, None, None])
    alpha = np.append(0, np.geomspace(0.03, 10, 40))
    traj = ov.solve(model, start, alpha)
    found = fit(traj.alpha[1:], traj.eps_g[1:])
    assert found.clean and abs(found.exponent - 0.8) < 2 * found.error
    runs = ov.simulate(model, N=400, alpha=alpha, rng=1, start=start, runs=4, method="direct")
    noisy = fit(runs.alpha[1:], runs.mean("eps_g")[1:])
    assert abs(noisy.exponent - found.exponent) < 2 * (noisy.error + found.error)


def test_a_flat_curve_has_exponent_zero():
    found = fit(ALPHA, np.full(200, 0.3))
    assert found.clean and abs(found.exponent) < 1e-12 and found.amplitude == pytest.approx(0.3)


def test_units_do_not_matter():
    rng = np.random.default_rng(4)
    eps = ALPHA**-0.3 * np.exp(0.01 * rng.standard_normal(200))
    one, two = fit(ALPHA, eps), fit(1e6 * ALPHA, 1e-3 * eps)
    assert two.exponent == pytest.approx(one.exponent, rel=1e-9) and two.error == pytest.approx(one.error, rel=1e-6)


@pytest.mark.parametrize(
    "alpha, eps, says",
    [
        (ALPHA[:7], ALPHA[:7], "at least 8"),
        (ALPHA, ALPHA[1:], "as many of both"),
        (np.append(0.0, ALPHA), np.ones(201), "Leave out the start"),
        (ALPHA[::-1], ALPHA, "does not increase"),
        (ALPHA, ALPHA - 1.0, "expected errors > 0"),
        (ALPHA, np.where(ALPHA > 1, np.nan, 1.0), "nan"),
        (ALPHA[:20], ALPHA[:20], "decades"),
    ],
)
def test_what_is_refused(alpha, eps, says):
    with pytest.raises(ValueError, match=says):
        fit(alpha, eps)
