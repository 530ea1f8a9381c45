"""Ridge on the direction of the spike at finite d: crossover, close letters, bounds, against draws of the same size."""

import math

import numpy as np
import pytest
from helpers import few

from overlaps.static import SpikedRandomFeatures, gaussian_rows
from overlaps.static.spiked import ridge

SHAPE = {"c": 1.1, "gamma": 0.9, "beta": 0.8}
POINT = {"alpha": 1.3, "lam": 0.05}
LETTERS = {"eta_tilde": 3.0, "alpha0": 8.0, "beta": 1.0, "readout": (0.9, 1.1)}
THREE = {"r": (0.2, 0.6, 1.5), "c": (1, 1.2, 1.5), "gamma": 0.95, "beta": 0.7, "fractions": (0.5, 0.3, 0.2)}


def weak(r):
    return SpikedRandomFeatures(np.tanh, np.sin, r=r, **SHAPE)


def letters(readout=(0.9, 1.1)):
    return SpikedRandomFeatures.after_one_step(np.tanh, np.sin, **LETTERS | {"readout": readout})


CASES = {
    "weak": (lambda d: weak(0.03), POINT),
    "crossover": (lambda d: weak(d**-0.5), POINT),
    "letters": (lambda d: letters(), {"alpha": 2.0, "lam": 0.1}),
    "orthonormal": (
        lambda d: SpikedRandomFeatures(np.tanh, np.sin, rows="orthonormal", **THREE),
        {"alpha": 1.5, "lam": 0.02},
    ),
}


@few("case, d", [(case, 100) for case in CASES], quick=2)
def test_small_draws(case, d):
    agree_with_draws(case, d, 30)


@pytest.mark.slow
@pytest.mark.parametrize("d, draws", [(200, 16), (400, 10)])
@pytest.mark.parametrize("case", CASES)
def test_larger_draws(case, d, draws):
    agree_with_draws(case, d, draws)


def agree_with_draws(case, d, draws):
    """4 standard errors, and 2 % for the other terms of order 1/d, measured at d = 100 to 400."""
    make, point = CASES[case]
    model = make(d)
    theory, runs = model.solve(**point, d=d), model.simulate(**point, d=d, rng=5, draws=draws)
    for name in ("mse", "q2", "m"):
        expected, found = np.sum(getattr(theory, name)), runs.mean(name)
        assert abs(found - expected) < 4 * runs.error(name) + 0.02 * abs(expected), name
    if case != "letters":  # those errors are far from the limit's
        assert abs(runs.mean() - model.solve(**point).mse) > 8 * runs.error()


# mse at d = infinity and with the term, and simulated with its error: another program's, 10 draws each
TABLE = [
    (weak(0.001), POINT, 200, 0.150, 0.3372, 0.3366, 0.005),
    (weak(0.03), POINT, 200, 0.150, 0.3195, 0.3177, 0.006),
    (weak(0.03), POINT, 600, 0.150, 0.2924, 0.2872, 0.005),
    (weak(0.1), POINT, 600, 0.149, 0.1900, 0.1912, 0.003),
    (letters(), {"alpha": 2.0, "lam": 0.1}, 800, 0.0460, 0.0500, 0.0505, 0.0007),
]


@pytest.mark.parametrize("model, point, d, limit, expected, simulated, error", TABLE)
def test_table(model, point, d, limit, expected, simulated, error):
    found = model.solve(**point, d=d).mse
    assert found == pytest.approx(expected, abs=5.1e-5)  # four digits are given
    assert model.solve(**point).mse == pytest.approx(limit, abs=5.1e-4)
    assert abs(found - simulated) < 2 * error


def test_the_limit_is_approached_like_one_over_d():
    for model, point in ((weak(1.2), POINT), (letters(), {"alpha": 2.0, "lam": 0.1})):
        limit = model.solve(**point)
        gaps = np.array([model.solve(**point, d=d).mse - limit.mse for d in (1e6, 1e8)])
        assert gaps[0] > 0 and gaps[0] / gaps[1] == pytest.approx(100, rel=0.02)  # next order: 1 % at close letters
        assert model.solve(**point, d=math.inf) == limit


def test_crossover_is_one_direction():
    """At r << 1 features are linear in r k, and b + r 1 is one direction of variance c + r^2 d: r sqrt(d) counts."""
    curve = [weak(2 * d**-0.5).solve(**POINT, d=d).mse for d in (1e6, 1e8)]
    assert curve[0] == pytest.approx(curve[1], rel=1e-5)  # corrections of order r^2 = 4/d
    direct = weak(1e-9)
    K = np.array([[direct.c + 4.0]])  # the readout's direction has this variance over d
    rows = direct.response(POINT["lam"])

    def response(Vh):
        found = rows(Vh)
        return found._replace(T=found.T * K / direct.c, dT=found.dT * K / direct.c)

    options = {"lam": POINT["lam"], "kappa": POINT["alpha"] / direct.beta, "beta": direct.beta, "noise": 0.0}
    features = ridge.Features(direct.coefficients)
    features.spiked[:] = False  # nothing is free
    assert ridge.fit(features, response, **options).mse == pytest.approx(curve[1], rel=1e-6)


def test_no_spike_is_the_limit_of_weak_ones():
    none = weak(0.0).solve(**POINT)
    for d in (50, 1e4):
        assert weak(0.0).solve(**POINT, d=d).mse == pytest.approx(none.mse, rel=1e-13)
        assert weak(1e-9).solve(**POINT, d=d).mse == pytest.approx(none.mse, rel=1e-10)
    assert weak(1e-9).solve(**POINT).mse < 0.5 * none.mse  # infinitely many directions later


def test_letters_merge_without_a_jump():
    """Two letters that become one are one; in the limit of d their difference stays a function of its own."""
    d, point = 800, {"alpha": 2.0, "lam": 0.1}
    one = letters((1.0,)).solve(**point, d=d)
    gaps = [letters((1 - x, 1 + x)).solve(**point, d=d).mse - one.mse for x in (1e-2, 1e-3, 1e-5, 1e-8)]
    assert abs(gaps[1] / gaps[0]) == pytest.approx(0.01, rel=0.05) and np.all(np.abs(gaps[2:]) < 1e-9)
    assert letters((1 - 1e-5, 1 + 1e-5)).solve(**point).mse < one.mse - 0.005


def test_two_forms_of_the_least_objective():
    """|y - Xa|^2 + lam |a|^2 by the errors and norms, and as the integral of its derivative |a|^2 over lam."""
    model, d = letters(), 300
    lams = np.geomspace(0.5, 2.0, 41)
    points = [model.solve(alpha=2.0, lam=lam, d=d) for lam in lams]
    objective = [2.0 * x.train + lam * np.sum(x.q2) for lam, x in zip(lams, points, strict=True)]  # over p = d
    slopes = np.array([np.sum(x.q2) for x in points]) * lams  # in log lam
    step = np.log(lams[1] / lams[0])
    simpson = step / 3 * (slopes[0] + slopes[-1] + 4 * slopes[1:-1:2].sum() + 2 * slopes[2:-1:2].sum())
    assert simpson == pytest.approx(objective[-1] - objective[0], rel=1e-7)  # Simpson's rule, step^4


def test_curve_and_penalty_at_finite_size():
    model, d = letters(), 400
    curve = model.curve([0.5, 2.0], 0.1, d=d)
    assert np.array_equal(curve.d, [d, d])
    for i, alpha in enumerate((0.5, 2.0)):
        assert curve.mse[i] == pytest.approx(model.solve(alpha=alpha, lam=0.1, d=d).mse, rel=1e-10)
    best = model.optimal_lam(2.0, d=d)
    assert all(model.solve(alpha=2.0, lam=best.lam * x, d=d).mse > best.mse for x in (0.9, 1.1))
    assert best.mse > model.optimal_lam(2.0).mse
    even = SpikedRandomFeatures(np.tanh, lambda x: x * x - 1, r=1.0, gamma=1.0, beta=0.5)
    none = even.optimal_lam(1.0, d=100)
    assert none.lam == math.inf and none.mse == pytest.approx(2.0, rel=1e-9) and "nothing" in none.message


def test_bounds_at_finite_size():
    rng = np.random.default_rng(2)
    for _ in range(12):
        r, c = rng.uniform(0.2, 2, 2), rng.uniform(0.8, 1.5, 2)
        options = {"gamma": rng.uniform(-1, 1), "beta": rng.uniform(0.3, 3), "fractions": (0.3, 0.7)}
        model = SpikedRandomFeatures(np.tanh, np.sin, r=r, c=c, noise=0.2, **options)
        d = float(10 ** rng.uniform(1.7, 3))
        upper, lower, linear = model.bounds(d)
        assert upper > model.bounds().upper and lower > model.bounds().lower and linear == model.bounds().linear
        for alpha, lam in ((0.5, 0.01), (3.0, 0.1), (300.0, 1.0)):
            assert lower < model.solve(alpha=alpha, lam=lam, d=d).mse
    wide = SpikedRandomFeatures(np.tanh, np.sin, r=1.2, c=1.1, gamma=0.9, beta=1.0)
    assert wide.bounds(1e12) == pytest.approx(wide.bounds(), rel=1e-9)


def test_upper_bound_is_an_error_of_neurons():
    """The readout that is constant on each block, best on average: its error over networks of 60 neurons."""
    model = SpikedRandomFeatures(np.tanh, np.sin, r=(0.7, 2.5), c=(1.0, 1.6), gamma=0.9, beta=0.6, fractions=(0.4, 0.6))
    d, rng = 100, np.random.default_rng(4)
    table, neurons = model.coefficients, np.array([24, 36])
    f = table.mu0
    noise = (np.array(model.c)[:, None] * table.mu1**2 + table.mu2_squared) @ table.weight / neurons
    m = np.linalg.solve((f * table.weight) @ f.T + np.diag(noise), f @ (table.weight * table.h))
    errors = []
    for _ in range(20):
        W0 = rng.standard_normal((60, d))
        letter = np.repeat([0, 1], neurons)
        W0 *= np.sqrt(np.array(model.c)[letter])[:, None] / np.linalg.norm(W0, axis=1, keepdims=True)
        W0[:, 0] += np.array(model.r)[letter]
        x = rng.standard_normal((10_000, d))
        y = np.sin(0.9 * x[:, 0] + math.sqrt(0.19) * x[:, 1])
        errors.append(np.mean((y - np.tanh(x @ W0.T) @ (m / neurons)[letter]) ** 2))
    error = np.std(errors) / math.sqrt(20)
    assert np.mean(errors) == pytest.approx(model.bounds(d).upper, abs=4 * error)
    assert abs(np.mean(errors) - model.bounds().upper) > 6 * error


def test_gaussian_rows_at_finite_size():
    model = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=3, alpha0=20, beta=1)
    point = {"alpha": 2.3, "lam": 0.1}
    finite, limit = gaussian_rows(model, **point, d=200), gaussian_rows(model, **point)
    assert finite.mse - finite.change == pytest.approx(model.solve(**point, d=200).mse, rel=1e-12)
    assert finite.mse > limit.mse and gaussian_rows(model, **point, d=1e12).mse == pytest.approx(limit.mse, rel=1e-9)


def test_sizes_that_cannot_be():
    three = SpikedRandomFeatures(np.tanh, np.sin, **THREE)  # the smallest block has 0.14 d neurons
    for call in (
        lambda d: three.solve(alpha=1.0, lam=0.1, d=d),
        lambda d: three.curve([1.0], 0.1, d=d),
        lambda d: three.optimal_lam(1.0, d=d),
        three.bounds,
    ):
        with pytest.raises(ValueError, match=r"d = 7 leaves 0.98 neurons .* of 3 blocks; .* d >= 8"):
            call(7)
        for bad in (0, -1.0, math.nan, "100", None):
            with pytest.raises(ValueError, match="d = "):
                call(bad)
    assert three.solve(alpha=1.0, lam=0.1, d=8).converged
    assert "d=8" in repr(three.solve(alpha=1.0, lam=0.1, d=8))
    assert "d=" not in repr(three.solve(alpha=1.0, lam=0.1))
