"""SGD on rows of a data set: as Gaussian inputs where they are Gaussian, by sums and invariances where they are not."""

import numpy as np
import pytest

import overlaps as ov
from overlaps.simulators.direct import _RowInputs
from overlaps.simulators.rows import Rows

N, ALPHA = 30, [0.0, 1.0, 4.0]
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((6000, N)) @ (RNG.standard_normal((N, N)) + 2 * np.eye(N))
ROWS = (ROWS - ROWS.mean(axis=0)) / ROWS.std()
SPECTRUM = ov.Spectrum.from_covariance(data=ROWS)


def problem(spectrum=SPECTRUM, basis=None, **options):
    """A model and a start that is the same in the eigenvectors of any spectrum of L = N."""
    options = {"eta": 0.3, "noise": 0.1} | options
    model = ov.committee_machine(2, 1, v=[0.6, 0.5], v_star=[0.9], spectrum=spectrum, **options)
    W, W_star = np.split(np.random.default_rng(3).standard_normal((3, N)), [2])
    basis = SPECTRUM.basis if basis is None else basis
    return model, ov.State.from_weights(model, W=W @ basis.T, W_star=W_star @ basis.T)


def skewed(n):
    """Rows of unit covariance that are far from Gaussian."""
    return np.random.default_rng(4).exponential(size=(n, N)) - 1


def apart(one, other, *names):
    """The largest difference of means of two simulations, in standard errors."""
    gaps = [np.abs(one.mean(x) - other.mean(x))[1:] for x in names]
    errors = [np.hypot(one.standard_error(x), other.standard_error(x))[1:] for x in names]
    return max(np.max(gap / error) for gap, error in zip(gaps, errors, strict=True))


@pytest.mark.parametrize("options", [{}, {"batch_size": 3, "eta_v": 0.2, "weight_decay": 0.1}], ids=str)
def test_gaussian_rows_are_gaussian_inputs(options):
    """Within 3.5 standard errors, 30 numbers of 24 runs each; the error on fresh rows is eps_g."""
    model, start = problem(**options)
    common = dict(N=N, alpha=ALPHA, rng=1, start=start, runs=24)
    rows = ov.simulate(model, rows=ROWS[:3000], rows_test=ROWS[3000:], **common)
    assert rows.method == "direct"
    assert apart(rows, ov.simulate(model, method="direct", **common), "Q", "R", "eps_g", *["v"] * model.trains_v) < 3.5
    gap = np.abs(rows.test_error - rows.eps_g)
    # the same test rows for all runs; the spectrum is that of both halves, to 1 / sqrt(3000)
    assert np.all(gap <= 4 * rows.test_error_se) and np.any(gap > 0)
    assert np.all(rows.test_error_se < 0.06 * rows.test_error)


def test_the_test_error_is_that_of_the_weights():
    """Of given weights, or of those of a State: with one eigenvector in a block they are the same up to signs."""
    model, start = problem()
    W, W_star = np.split(np.random.default_rng(3).standard_normal((3, N)) @ SPECTRUM.basis.T, [2])
    common = dict(N=N, alpha=ALPHA, rng=1, rows=ROWS, keep_weights=True)
    runs = ov.simulate(model, rows_test=ROWS[:50], weights=(W, W_star), **common)
    found, v = runs.final_weights()
    same = ov.simulate(model, weights=(W, W_star), **common)
    np.testing.assert_array_equal(found, same.final_weights()[0])  # the test changes nothing
    for record, students in ((0, W), (-1, found)):
        delta = ov.erf.g(ROWS[:50] @ students.T / np.sqrt(N)) @ v - 0.9 * ov.erf.g(ROWS[:50] @ W_star[0] / np.sqrt(N))
        np.testing.assert_allclose(runs.test_error[0, record], np.mean(delta**2) / 2, rtol=1e-12)
        se = np.sqrt(np.var(delta**2 / 2, ddof=1) / 50)
        np.testing.assert_allclose(runs.test_error_se[0, record], se, rtol=1e-12)
        Q = students @ (ROWS.T @ ROWS / len(ROWS)) @ students.T / N
        np.testing.assert_allclose(runs.Q[0, record], Q, rtol=1e-10)
    drawn = ov.simulate(model, start=start, **(common | {"alpha": [0, 1e-9 + 1 / N]}))
    np.testing.assert_allclose(drawn.Q[0, 0], runs.Q[0, 0], rtol=1e-10)
    np.testing.assert_allclose(drawn.R[0, 0], runs.R[0, 0], rtol=1e-10)


@pytest.mark.parametrize("replace", [True, False])
def test_scaled_and_rotated_rows_give_the_same_run(replace):
    """X -> c X O with eta / c^2, weights W O / c: fields, errors and eps_g are the same, Q of the plain blocks not."""
    c, O = 1.7, np.linalg.qr(np.random.default_rng(5).standard_normal((N, N)))[0]  # noqa: E741
    X = skewed(400) * np.sqrt(SPECTRUM.s) @ SPECTRUM.basis.T
    turned = ov.Spectrum(SPECTRUM.s, SPECTRUM.p, basis=O.T @ SPECTRUM.basis)
    scaled = ov.Spectrum(c**2 * SPECTRUM.s, SPECTRUM.p, basis=SPECTRUM.basis)
    common = dict(N=N, alpha=ALPHA, rng=2, replace=replace)
    model, start = problem()
    found = ov.simulate(model, start=start, rows=X, rows_test=X[:99], **common)
    model, start = problem(turned, turned.basis)
    other = ov.simulate(model, start=start, rows=X @ O, rows_test=X[:99] @ O, **common)
    model, start = problem(scaled, SPECTRUM.basis / c, eta=0.3 / c**2)
    third = ov.simulate(model, start=start, rows=c * X, rows_test=c * X[:99], **common)
    for runs in (other, third):
        for name in ("Q", "R", "test_error", "test_error_se"):
            np.testing.assert_allclose(getattr(runs, name), getattr(found, name), rtol=1e-10)  # rounding in 96 steps


def test_without_replacement_all_rows_are_summed():
    """Linear student from zero: w = eta / N sum (w*.x) x to first order in eta, so that q^l = (eta n s_l / N)^2 t^l."""
    X, eta = skewed(60), 1e-7
    X -= X.mean(axis=0)
    spectrum = ov.Spectrum.from_covariance(data=X)
    model = ov.committee_machine(1, 1, activation="linear", eta=eta, spectrum=spectrum)
    W_star = np.random.default_rng(6).standard_normal((1, N))
    start = ov.State.from_weights(model, W=np.zeros((1, N)), W_star=W_star)
    common = dict(N=N, rng=1, start=start, rows=X, replace=False)
    runs = ov.simulate(model, alpha=[0, 60 / N], **common)
    expected = (eta * 60 * spectrum.s / N) ** 2 * start.plain[2][:, 0, 0]
    np.testing.assert_allclose(runs.q[0, -1, :, 0, 0], expected, rtol=1e-4)  # 60 max(s) eta / N = 1e-6
    with pytest.raises(ValueError, match="a run takes 61 of 60 rows without replacement; expected a smaller"):
        ov.simulate(model, alpha=[0, 61 / N], **common)
    schedule = {"batch_size": ov.Schedule.step([10 / N], [2.0])}
    ov.simulate(model, alpha=[0, 35 / N], schedule=schedule, **common)
    with pytest.raises(ValueError, match="a run takes 62 of 60 rows"):
        ov.simulate(model, alpha=[0, 36 / N], schedule=schedule, **common)


def test_rows_that_a_change_of_batch_leaves_come_again():
    X, model = np.arange(60.0)[:, None], ov.committee_machine(1, 1, eta=0.1)
    inputs = _RowInputs(
        Rows(X, None, False, None), model, np.array([1]), np.random.default_rng(1), "float64", np.zeros((0, 1))
    )
    taken = [inputs.take(7, False, 1)[0], inputs.take(20, True, 2)[0], inputs.take(2, True, 3)[0]]
    taken.append(inputs.take(100, True, 1)[0])
    assert [x.shape[:2] for x in taken] == [(7, 1), (20, 2), (2, 3), (7, 1)]
    np.testing.assert_array_equal(np.sort(np.concatenate([x.ravel() for x in taken])), X[:, 0])


def test_rows_that_no_simulation_takes_are_refused():
    model, start = problem()
    rule = ov.learner(ov.rules.perceptron(), eta=0.3, spectrum=SPECTRUM)
    for learns, options, message in (
        (model, {"rows": ROWS[:, :5]}, r"rows has shape \(6000, 5\); expected at least two samples as rows"),
        (model, {"rows": ROWS, "rows_test": ROWS[:1]}, r"rows_test has shape \(1, 30\)"),
        (model, {"rows_test": ROWS}, "without rows=; expected rows=X"),
        (model, {"weights": (ROWS[:2], ROWS[:1])}, "without rows=; expected rows=X"),
        (model, {"rows": ROWS, "weights": ROWS}, r"expected a pair \(W, W_star\)"),
        (model, {"rows": ROWS, "weights": (ROWS[:2], ROWS[:2])}, r"W_star is of shape \(2, 30\)|W_star has shape"),
        (model, {"rows": ROWS, "weights": (ROWS[:2], ROWS[:1]), "start": start}, "expected one of them"),
        (model, {"rows": ROWS, "replace": 1}, "replace"),
        (model, {"rows": ROWS, "method": "reduced"}, "rows= with method = 'reduced', which has no inputs"),
        (rule, {"rows": ROWS, "rows_test": ROWS}, "rows_test= measures the squared error"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.simulate(learns, N=N, alpha=[0, 1], rng=1, **options)
    with pytest.raises(ValueError, match="not tested on other samples; simulate with .* rows_test="):
        ov.simulate(model, N=N, alpha=[0, 1], rng=1, rows=ROWS).mean("test_error")


def test_rows_with_other_moments_give_a_warning():
    model, start = problem()
    with pytest.warns(RuntimeWarning, match=r"rows have E\[x\^2\] = .*subtract it from the rows, too"):
        ov.simulate(model, N=N, alpha=[0, 1 / N], rng=1, start=start, rows=ROWS + 0.5)
