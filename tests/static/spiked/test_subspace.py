"""Spikes in several directions, targets of several indices: against one direction, gradient steps, ridge regression."""

import math
from functools import cache

import numpy as np
import pytest
from helpers import few
from numpy.testing import assert_allclose

import overlaps as ov
from overlaps.static import SpikedRandomFeatures, SpikedSubspace
from overlaps.static.spiked import draws as finite

NUMBERS = ("mse", "train", "m", "q1", "q2", "V1", "V2")
ONE = {"c": 1.1, "beta": 0.8, "noise": 0.2}
POINT = {"alpha": 1.3, "lam": 0.05}


def wave(x, y):
    """Smooth and bounded; its linear part in y is small, and large where x is known."""
    return np.sin(x) + np.sin(y) * np.cos(2 * x)


def staircase(x, y):
    return x + y * (x**2 - 1) / 1.5


@cache
def two(**options):
    known = {"r": [[1.0, 0.3], [0.4, 1.1]], "gamma": [[0.9, 0.1], [-0.1, 0.8]], "c": (1.0, 1.3), "beta": 0.8}
    return SpikedSubspace(np.tanh, wave, **known | {"fractions": (0.4, 0.6), "noise": 0.2} | options)


# against one direction ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [np.inf, 300])
def test_directions_without_a_spike(more, d):
    """The readout along them is zero: one direction is a special case. Both rules over k are good to 1e-12."""
    one = SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, **ONE)
    several = SpikedSubspace(np.tanh, np.sin, r=[[1.2] + [0.0] * more], gamma=[[0.9] + [0.0] * more], **ONE)
    expected, found = one.solve(**POINT, d=d), several.solve(**POINT, d=d)
    for name in NUMBERS:
        assert np.ravel(getattr(found, name)) == pytest.approx(getattr(expected, name), rel=1e-10), name
    assert_allclose(found.theta, [[expected.theta] + [0.0] * more], atol=1e-12)
    assert_allclose(np.abs(found.psi), [[expected.psi]], rtol=1e-10)
    if d == np.inf:
        assert_allclose(several.bounds(), one.bounds(), rtol=1e-10)


def test_part_of_the_target_counted_among_the_directions_or_not():
    """Theta of a direction without spike does what psi does, in any basis: the two have different equations."""
    one = SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, **ONE).solve(**POINT)
    rest, angle = math.sqrt(1 - 0.9**2), 0.7
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    for part in (0.6, 1.0):  # 1: nothing is left beside the directions
        model = SpikedSubspace(np.tanh, np.sin, r=[[1.2, 0.0]] @ turn, gamma=[[0.9, part * rest]] @ turn, **ONE)
        found = model.solve(**POINT)
        assert found.psi.shape == (1, part < 1)
        assert [found.mse, found.train] == pytest.approx([one.mse, one.train], rel=1e-10)
        assert (turn @ found.theta[0])[0] == pytest.approx(one.theta, rel=1e-8)
        length = math.hypot((turn @ found.theta[0])[1], *found.psi[0])
        assert length == pytest.approx(one.psi, rel=1e-10)


def test_an_index_that_does_not_matter_and_one_that_is_turned():
    one = SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, **ONE).solve(**POINT)
    for target, gamma in (
        (lambda x, y: np.sin(x), [[0.9], [0.0]]),
        (lambda x, y: np.sin(0.6 * x + 0.8 * y), [[0.54], [0.72]]),
        (lambda x, y, z: np.sin(0.6 * x + 0.8 * z), [[0.54], [0.0], [0.72]]),
    ):
        found = SpikedSubspace(np.tanh, target, r=[[1.2]], gamma=gamma, **ONE).solve(**POINT)
        assert [found.mse, found.train, found.q1.item()] == pytest.approx([one.mse, one.train, one.q1], rel=1e-9)


def test_blocks_along_one_direction():
    r, c = (0.7, 2.5), (1.0, 1.6)
    for rows, beta in (("iid", 1.0), ("orthonormal", 0.6)):
        options = {"c": c, "beta": beta, "rows": rows, "fractions": (0.4, 0.6)}
        expected = SpikedRandomFeatures(np.tanh, np.sin, r=r, gamma=0.9, **options).solve(alpha=2.0, lam=0.02)
        turned = np.outer(r, [0.6, 0.8])  # in a basis of two directions
        found = SpikedSubspace(np.tanh, np.sin, r=turned, gamma=[[0.54, 0.72]], **options).solve(alpha=2.0, lam=0.02)
        for name in NUMBERS:  # V1 of orthonormal rows vanishes between blocks, up to rounding
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-15, err_msg=name)


# coefficients ---------------------------------------------------------------------------------------------------------


def test_coefficients_in_closed_form():
    """Student sin, target sin(x) cos(y) - a product of waves in k and what is orthogonal to it."""
    r, gamma, c = np.array([[1.0, 0.4], [0.3, -0.8]]), np.array([[0.8, 0.1], [-0.2, 0.7]]), np.array([1.0, 1.4])
    model = SpikedSubspace(np.sin, lambda x, y: np.sin(x) * np.cos(y), r=r, gamma=gamma, c=c, beta=1.0)
    k = np.array([[0.3, -0.5], [1.2, 0.9], [0.0, 2.0]])
    table = model.coefficients.at(k)
    waves = np.exp(-c[:, None] / 2) * np.exp(1j * r @ k.T)
    assert_allclose(table.mu0, waves.imag, atol=1e-12)
    assert_allclose(table.mu1, waves.real, atol=1e-12)
    assert_allclose(table.u.reshape(2, 2, 3), waves.real[:, None] * k.T, atol=1e-12)
    h = np.zeros(3)
    for sign in (1, -1):  # sin x cos y = (sin(x + y) + sin(x - y)) / 2
        w = np.array([1.0, sign])
        rest = w @ (np.eye(2) - gamma @ gamma.T) @ w
        h += 0.5 * math.exp(-rest / 2) * np.sin(w @ gamma @ k.T)
    assert_allclose(table.h, h, atol=1e-12)
    # E y^2 over k is that of two independent normals
    whole = model.coefficients
    second = 0.25 * (1 - math.exp(-2)) * (1 + math.exp(-2))
    assert whole.weight @ whole.hh == pytest.approx(second, rel=1e-10)
    assert whole.weight.sum() == pytest.approx(1, rel=1e-14) and whole.k.shape[1] == 2
    # and the linear parts of the target, along k and beside it, are its gradient's mean E cos x cos y = exp(-1), 0
    along = np.concatenate([(whole.weight * whole.h) @ whole.k, whole.h1 @ whole.weight])
    assert np.sum(along**2) == pytest.approx(math.exp(-2), rel=1e-10)


def test_splines_where_points_are_many(monkeypatch):
    from overlaps.static.spiked import directions

    model = two()
    table = model.coefficients
    k, weight = table.source.quadrature(table.step)
    monkeypatch.setattr(directions, "DIRECTIONS", directions.DIRECTIONS._replace(spline_points=2000))
    coarse = table.source.of_neurons(np.tanh, k, table.step)
    # cells of 0.02: 1e-2 (2e-2)^4
    assert_allclose(coarse[:2, :, ::7], [table.mu0[:, ::7], table.mu1[:, ::7] * np.sqrt(model.c)[:, None]], atol=1e-8)


@pytest.mark.slow
def test_learned_function_and_bounds():
    model = two()
    solution, table = model.solve(**POINT), model.coefficients
    features = model._levels[0]
    den = table.weight / (1 + (features.packing.w * features.packing.pack(solution.V1, solution.V2)) @ features.S)
    C = solution.C(table.k)
    assert C.shape == table.weight.shape and solution.C([0.3, 0.4]).shape == ()
    assert_allclose((table.mu0 * den) @ (table.h - C), 0, atol=1e-12)  # the fixed point's own equations
    upper = model.bounds().upper
    assert model.solve(alpha=1.3, lam=1e8).mse == pytest.approx(upper, rel=1e-6)
    curve = model.curve([0.6, 1.3], 0.05)
    assert curve.mse[1] == pytest.approx(solution.mse, rel=1e-10) and curve.theta.shape == (2, 2, 2)


@pytest.mark.slow
def test_errors_between_the_bounds():
    model, rich = two(), two(beta=30.0)
    upper, lower, linear = model.bounds()
    assert lower < rich.solve(alpha=3000.0, lam=0.1).mse < lower + 0.1 * (upper - lower)
    best = model.optimal_lam(1.3)
    assert lower < best.mse <= model.solve(**POINT).mse and best.mse < upper and lower < linear


# steps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target, alpha0", [(np.sin, 1.0), (np.tanh, math.inf), (np.sin, 0.3)])
def test_the_first_step_is_one_step(target, alpha0):
    options = {"eta_tilde": 2.0, "alpha0": alpha0, "beta": 0.5, "readout": (0.5, 1.5), "noise": 0.3}
    one = SpikedRandomFeatures.after_one_step(np.tanh, target, **options)
    found = SpikedSubspace.after_steps(np.tanh, target, indices=1, **options)
    assert_allclose(found.r[:, 0], one.r, rtol=1e-9)  # a single direction, whatever the letters
    assert found.r.shape == (2, 1) and found.gamma.item() == pytest.approx(one.gamma, rel=1e-9)
    assert_allclose(found.c, one.c, rtol=1e-9)


def test_one_step_on_several_indices_leaves_one_spike():
    """Along the mean of y x: E y z = exp(-1/2) (1, 0) and (0, exp(-2) exp(-1/2)) of the two terms of wave."""
    found = SpikedSubspace.after_steps(np.tanh, wave, indices=2, eta_tilde=2.0, alpha0=math.inf, beta=1.0)
    gradient = math.exp(-0.5) * np.array([1.0, math.exp(-2)])
    assert found.r.shape == (1, 1)
    assert_allclose(found.gamma[:, 0], gradient / np.linalg.norm(gradient), rtol=1e-9)
    h1 = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=1.0, alpha0=1.0, beta=1.0).step.h1
    assert found.r.item() == pytest.approx(2 * h1 * np.linalg.norm(gradient), rel=1e-9)


def networks(rates, alpha0, t, fractions, noise, d, draws):
    """Mean change, overlaps with the target and squared norm of the rest, of networks after steps on fresh samples."""
    letter = np.repeat(np.arange(len(t)), np.rint(np.array(fractions) * d).astype(int))
    f = lambda z: staircase(z[..., 0], z[..., 1])  # noqa: E731
    setup = finite.Setup(np.tanh, f, noise, d, d, "sphere", (1,), (1.0,), 1, letter)
    found = []
    for seed in range(draws):
        W0, directions, data, *_ = finite.streams(setup, np.random.default_rng(seed))
        theta, W = np.linalg.qr(directions.standard_normal((d, 2)))[0], W0
        for rate in rates:
            W = finite.gradient_step(setup, finite.Step(round(alpha0 * d), rate, np.array(t)[letter]), W, theta, data)
        S = np.array([W[letter == b].mean(axis=0) for b in range(len(t))])
        rest = np.sum((W - S[letter]) ** 2, axis=1)
        found.append([*(S @ S.T).ravel(), *(S @ theta).ravel(), *(rest[letter == b].mean() for b in range(len(t)))])
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(2.0, 2.0), pytest.param((2.0, 2.0, 1.5), marks=pytest.mark.slow)])
def test_spikes_after_several_steps(rates):
    """Blocks of 240 and 360 rows: their mean holds 1/240 of the bulk; the rest fluctuates with 1/sqrt(d) of a draw."""
    t, fractions, noise = (0.5, 1.5), (0.4, 0.6), 0.3
    options = {"readout": t, "fractions": fractions, "noise": noise}
    model = SpikedSubspace.after_steps(np.tanh, staircase, indices=2, eta_tilde=rates, alpha0=4.0, beta=1.0, **options)
    assert model.r.shape == (2, 2)
    found = networks(rates, 4.0, t, fractions, noise, 600, 3)
    expected = [*(model.r @ model.r.T).ravel(), *(model.r @ model.gamma.T).ravel(), *model.c]
    assert_allclose(found, expected, rtol=0.07, atol=0.06)
    # the second direction is there: spikes of one direction would have a Gram matrix of determinant zero
    assert np.linalg.det(model.r @ model.r.T) > 0.03
    assert np.linalg.det(np.reshape(found[:4], (2, 2))) == pytest.approx(np.linalg.det(model.r @ model.r.T), rel=0.3)


# ridge regression -----------------------------------------------------------------------------------------------------


@few("rows", ["orthonormal", "iid"], quick=1)
def test_draws_scale_with_the_argument_of_the_student(rows):
    """Spikes and bulk a times larger under a student of x / a: the same features, draw by draw."""
    a, point, known = 1.6, {"alpha": 1.3, "lam": 0.05, "d": 40}, {"gamma": [[0.9, 0.1], [-0.1, 0.8]], "beta": 0.8}
    r, c = np.array([[1.0, 0.3], [0.4, 1.1]]), np.array([1.0, 1.3])
    one, other = (
        SpikedSubspace(f, wave, r=b * r, c=tuple(b * b * c), fractions=(0.4, 0.6), noise=0.2, rows=rows, **known)
        for f, b in ((np.tanh, 1.0), (lambda x: np.tanh(x / a), a))
    )
    x, y = (model.simulate(**point, rng=1, draws=2) for model in (one, other))
    for name in ("mse", "train", "m", "q2"):
        assert_allclose(y.mean(name), x.mean(name), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["iid", "orthonormal"])
@pytest.mark.parametrize(
    "d, draws",
    [(100, 24), pytest.param(200, 30, marks=pytest.mark.slow), pytest.param(400, 16, marks=pytest.mark.slow)],
)
def test_draws(rows, d, draws):
    """4 standard errors and 2 % for terms of order 1/d. At d = 400: 0.5116(41), 0.4270(32), theory 0.5183, 0.4269."""
    model = two(rows=rows)
    theory = model.curve([0.6, 2.0], 0.05, d=d)
    runs = model.simulate(alpha=[0.6, 2.0], lam=0.05, d=d, rng=1, draws=draws)
    for name in ("mse", "train", "q2", "m"):
        expected = getattr(theory, name).reshape(2, -1).sum(axis=1)
        allowed = 4 * runs.error(name) + 0.02 * np.abs(expected)
        assert np.all(np.abs(runs.mean(name) - expected) < allowed), (name, runs.mean(name), expected)
    for name in ("theta", "psi"):
        expected = getattr(theory, name)[:, :, 0].sum(axis=1)
        assert np.all(np.abs(runs.mean(name) - expected) < 4 * runs.error(name) + 0.01), name


@pytest.mark.slow
def test_three_directions_and_three_indices():
    """Draws at d = 150: 4 standard errors, and 4 % of terms of order 1/d."""
    target = lambda x, y, z: np.sin(x) + np.sin(y) * np.cos(2 * z)  # noqa: E731
    r, gamma = [[1.0, 0.3, 0.0], [0.4, 1.1, 0.3], [0.0, 0.5, 0.9]], np.eye(3)
    model = SpikedSubspace(np.tanh, target, r=r, gamma=gamma, beta=0.8)
    theory = model.solve(alpha=2.0, lam=0.1, d=150)
    runs = model.simulate(alpha=2.0, lam=0.1, d=150, rng=1, draws=20)
    assert theory.psi.shape == (3, 0) and theory.theta.shape == (3, 3)
    assert abs(runs.mean() - theory.mse) < 4 * runs.error() + 0.04 * theory.mse


@pytest.mark.slow
def test_network_after_two_steps():
    """The network itself, by steps of gradient descent and ridge regression; its features leave out some per cent."""
    d, t, fractions = 400, (0.5, 1.5), (0.4, 0.6)
    options = {"indices": 2, "eta_tilde": (1.5, 1.5), "alpha0": 8.0, "beta": 1.0}
    model = SpikedSubspace.after_steps(np.tanh, wave, readout=t, fractions=fractions, **options)
    f = lambda z: wave(z[..., 0], z[..., 1])  # noqa: E731
    letter = np.repeat([0, 1], [160, 240])
    setup = finite.Setup(np.tanh, f, 0.0, d, d, "sphere", (2 * d,), (0.1,), 4000, letter)
    errors = []
    for seed in range(8):
        W, directions, data, train, test = finite.streams(setup, np.random.default_rng(seed))
        theta = np.linalg.qr(directions.standard_normal((d, 2)))[0]
        for _ in range(2):
            W = finite.gradient_step(setup, finite.Step(8 * d, 1.5, np.array(t)[letter]), W, theta, data)
        errors.append(finite.readouts(setup, W, theta, train, test)[1]["mse"][0])
    expected = model.solve(alpha=2.0, lam=0.1, d=d).mse
    assert abs(np.mean(errors) - expected) < 4 * np.std(errors) / math.sqrt(8) + 0.06 * expected
    # two steps beat one by far more
    one = SpikedSubspace.after_steps(np.tanh, wave, **options | {"eta_tilde": 1.5}, readout=t, fractions=fractions)
    assert expected < 0.95 * one.solve(alpha=2.0, lam=0.1, d=d).mse


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"r": np.ones((2, 4)), "gamma": np.zeros((1, 4))}, "r has 4 directions.*expected 1 to 3"),
        ({"gamma": np.full((4, 2), 0.1)}, "gamma 4 indices"),
        ({"gamma": [[0.9, 0.1], [0.5, 0.9]]}, "singular value"),
        ({"gamma": [[0.9], [0.1]]}, "gamma has shape"),
        ({"r": [1.0, 2.0]}, "r has shape"),
        ({"r": [[1.0, 0.3], [-1.0, -0.3]], "c": 1.0}, "equal blocks up to a sign"),
        ({"c": (1.0, -1.0)}, "variances > 0"),
        ({"c": (1.0, 1.0, 1.0)}, "c has shape"),
        ({"fractions": (0.5, 0.6)}, "fractions"),
        ({"beta": 0}, "beta = 0"),
        ({"beta": 1.5, "rows": "orthonormal"}, "beta <= 1"),
        ({"rows": "gaussian"}, "rows = 'gaussian'"),
        ({"noise": -1.0}, "noise"),
    ],
)
def test_bad_models(options, message):
    with pytest.raises(ValueError, match=message):
        two.__wrapped__(**options)


@pytest.mark.parametrize(
    "target, message",
    [
        (lambda x, y: x * y + 1, "target has the mean 1"),
        (lambda x, y: np.sign(x + y), "target: .*smooth"),
        (lambda x, y: np.exp(x * x / 4.2) * y, "target grows too fast"),
        (3, "target = 3"),
    ],
)
def test_bad_targets(target, message):
    with pytest.raises(ValueError, match=message):
        SpikedSubspace(np.tanh, target, r=[[1.0]], gamma=[[0.6], [0.6]], beta=1.0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"indices": 4}, "indices = 4; expected at most 3"),
        ({"readout": (0.3, 0.7, 1.0, 1.3)}, "readout leaves spikes in 4 directions"),
        ({"readout": "gaussian"}, "expected letters"),
        ({"student": np.cos}, "not odd"),
        ({"student": ov.leaky_relu(-1.0)}, "odd"),
        ({"eta_tilde": (1.0, 2.0), "alpha0": (1.0, 2.0, 3.0)}, "one of each a step"),
        ({"eta_tilde": 0.0}, "leaves no spike"),
        ({"alpha0": -1.0}, "alpha0"),
        ({"scaling": "n"}, "scaling"),
    ],
)
def test_bad_steps(options, message):
    good = {"student": np.tanh, "target": wave, "indices": 2, "eta_tilde": (1.0, 1.0), "alpha0": 4.0, "beta": 1.0}
    arguments = good | options
    student, target = arguments.pop("student"), arguments.pop("target")
    with pytest.raises(ValueError, match=message):
        SpikedSubspace.after_steps(student, target, **arguments)


def test_record():
    shown = "SpikedSubspace(r=[[1.0, 0.3], [0.4, 1.1]], gamma=[[0.9, 0.1], [-0.1, 0.8]], c=[1.0, 1.3], beta=0.8)"
    assert repr(two()) == shown
