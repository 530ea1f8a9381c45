"""SGD on inputs in classes: against the cluster equations, and the reduced simulator against explicit weights."""

from dataclasses import replace

import numpy as np
import pytest

import overlaps as ov

PAIR = np.array([[1.0, -1.0], [-1.0, 1.0]])
TWO = ov.Spectrum([1.6, 0.4], [0.5, 0.5])


def three_classes(activation=ov.erf, **options):
    """A teacher, labels, two eigenspaces and covariances of each class: nothing is symmetric."""
    gram = [
        [[0.8, 0.3, -0.2], [0.3, 0.6, 0.1], [-0.2, 0.1, 0.5]],
        [[0.6, -0.1, 0.2], [-0.1, 0.7, 0.0], [0.2, 0.0, 0.9]],
    ]
    learning = {"eta": 0.4, "eta_v": 0.3, "noise": 0.3, "v": [0.6, -0.5], "v_star": [0.7]} | options
    model = ov.gaussian_mixture(
        2, 1, gram=gram, weights=[0.3, 0.5, 0.2], labels=[1, -1, 0.5], spectrum=TWO, activation=activation,
        ratios=[[1, 1], [0.5, 1.4], [2, 0.3]], **learning,
    )  # fmt: skip
    blocks = {
        "q": [[[0.3, 0.05], [0.05, 0.25]], [[0.2, 0.02], [0.02, 0.3]]],
        "r": [[[0.1], [-0.05]], [[0.05], [0.1]]],
        "t": [[[0.5]], [[0.45]]],
        "m": [[[0.3, 0.1, -0.2], [-0.1, 0.2, 0.1]], [[0.1, -0.2, 0.1], [0.2, 0.1, 0.2]]],
        "n": [[[0.2, 0.1, -0.3]], [[0.1, 0.2, 0.1]]],
    }
    return model, ov.State.from_blocks(model, **blocks)


def agree(theory, runs, names=("Q", "R", "mean_fields", "v"), floor=0.008):
    """The rms of mean - theory is below three standard errors of the mean, or what is left at finite N."""
    for name in names:
        gap = np.sqrt(np.mean((runs.mean(name)[1:] - getattr(theory, name)[1:]) ** 2))
        error = np.sqrt(np.mean(runs.standard_error(name)[1:] ** 2))
        assert gap < max(3 * error, floor), (name, gap, error)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_starts_are_met_exactly(method):
    model, start = three_classes()
    runs = ov.simulate(model, N=40, alpha=[0, 1], rng=1, runs=2, start=start, method=method)
    assert runs.method == method and runs.m.shape == (2, 2, 2, 2, 3)
    for name in ("q", "r", "m", "h", "nu", "T", "v"):
        assert np.allclose(getattr(runs.start(1), name), getattr(start, name), rtol=0, atol=1e-12)
    assert np.allclose(runs.eps_g[:, 0], ov.solve(model, start, [0.0]).eps_g[0])


def without_variance(n):
    """A teacher with means n (2,) in two eigenspaces without variance."""
    model = ov.gaussian_mixture(
        1, 1, weights=[1.0], labels=[0.0], gram=[[[0.3]], [[0.8]], [[0.5]]], eta=0.8,
        spectrum=ov.Spectrum([1.0, 0.0, 0.0], [0.5, 0.25, 0.25]),
    )  # fmt: skip
    blocks = {"q": [[[0.3]], [[0.2]], [[0.1]]], "r": [[[0.1]], [[0.0]], [[0.0]]], "t": [[[0.6]], [[0.4]], [[0.4]]]}
    means = {"m": [[[0.1]], [[0.1]], [[0.0]]], "n": [[[0.05]], *np.reshape(n, (2, 1, 1))]}
    return model, ov.State.from_blocks(model, **blocks, **means)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_teachers_have_their_means_where_inputs_do_not_vary(method):
    """Of which parts the mean is made there, nobody sees."""
    model, start = without_variance([0.3, 0.1])
    theory = ov.solve(model, start, [0.0, 4.0])
    runs = ov.simulate(model, N=100, alpha=[0, 4.0], rng=1, runs=16, start=start, method=method)
    agree(theory, runs, ("Q", "R", "mean_fields"), floor=0.0)
    # without the mean there the bias of the student would be learned towards 0.05 only
    other = ov.solve(model, replace(start, nu=[[0.05]]), [0.0, 4.0])
    assert np.abs(other.mean_fields - theory.mean_fields)[1] > 0.1
    same = ov.simulate(model, N=100, alpha=[0, 4.0], rng=1, start=without_variance([0.0, 0.4])[1], method=method)
    assert np.allclose(same.mean_fields[0], runs.mean_fields[0], rtol=0, atol=1e-12)


def test_a_mean_of_no_teacher_is_refused():
    """One class, without a mean where inputs do not vary: there no teacher has one."""
    model, start = without_variance([0.3, 0.1])
    flat = replace(model, gram=[[[0.3]], [[0.0]], [[0.0]]])
    with pytest.raises(ValueError, match=r"nu = \[\[0\.4.*rows of gram"):
        ov.simulate(flat, N=100, alpha=[1.0], rng=1, start=replace(start, m=[[[0.1]], [[0.0]], [[0.0]]]))


def test_class_means_have_one_dimension(rng):
    means, labels = rng.normal(size=(3, 12)), [1, -1, 0.5]
    model = ov.gaussian_mixture(2, 1, means=means, labels=labels, weights=[0.3, 0.5, 0.2], eta=0.02)
    start = model.random_start(N=12, rng=1)
    with pytest.raises(ValueError, match="N = 13; the class means have N = 12 coordinates"):
        ov.simulate(model, N=13, alpha=[0, 1], rng=1, start=start)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_sgd_follows_the_cluster_equations(method):
    model, start = three_classes()
    alpha = [0, 0.5, 2]
    runs = ov.simulate(model, N=400, alpha=alpha, rng=1, runs=8, start=start, method=method)
    agree(ov.solve(model, start, runs.alpha), runs, floor=0.0)


def test_sgd_from_random_weights_with_given_means():
    rng = np.random.default_rng(1)
    means = rng.standard_normal((2, 200)) / 12
    model = ov.gaussian_mixture(2, means=means, weights=[0.4, 0.6], labels=[1, -1], v=[0.6, 0.4], eta=0.5, spectrum=TWO)
    runs = ov.simulate(model, N=200, alpha=[0, 1, 3], rng=2, runs=6)
    assert runs.method == "reduced" and np.std(runs.mean_fields[:, 0]) < 0.3  # O(N^-1/2)
    theory = np.mean([ov.solve(model, runs.start(i), runs.alpha).eps_g for i in range(6)], axis=0)
    assert np.all(np.abs(runs.mean("eps_g") - theory) < 4 * runs.standard_error("eps_g") + 0.02)


def test_kept_weights_lie_beside_the_given_means():
    """In the coordinates of the means, with eigenvectors of the covariance that are not the axes."""
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    spectrum = ov.Spectrum([1.6, 0.4], [0.5, 0.5], basis=basis)
    means = rng.standard_normal((3, 30)) / 5
    model = ov.gaussian_mixture(
        2, 1, means=means, weights=[0.3, 0.3, 0.4], labels=[0, 1, -1], spectrum=spectrum, eta=0.3, v_star=[0.7]
    )
    runs = ov.simulate(model, N=30, alpha=[0, 1], rng=1, keep_weights=True)
    assert np.allclose(runs.final_W[0] @ means.T / np.sqrt(30), runs.mean_fields[0, -1], rtol=0, atol=1e-12)
    start = model.random_start(N=30, rng=3)
    again = ov.simulate(model, N=30, alpha=[0, 1], rng=1, start=start, method="direct").start()
    for name in ("q", "r", "m", "h"):
        assert np.allclose(getattr(again, name), getattr(start, name), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_simulators_have_one_law():
    """Means and variances after a few steps at a small N, where nothing self-averages; batches, and relu."""
    model, start = three_classes(ov.relu, batch_size=2)
    n = 400
    one, two = (
        ov.simulate(model, N=20, alpha=[0, 0.5], rng=i, runs=n, start=start, method=method)
        for i, method in enumerate(("direct", "reduced"))
    )
    for name in ("Q", "R", "mean_fields", "v"):
        a, b = one._curve(name)[:, 1], two._curve(name)[:, 1]
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / n)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 5 * error), name
        assert np.all(np.abs(np.log(a.var(axis=0) / b.var(axis=0))) < 0.8), name  # heavy tails: 5 x 2 / sqrt(n) x 1.5


@pytest.mark.slow
@pytest.mark.parametrize("activation", [ov.relu, ov.quadratic, ov.linear], ids=str)
def test_sgd_of_other_units(activation):
    model, start = three_classes(activation, eta=0.1, eta_v=0.05)
    runs = ov.simulate(model, N=1000, alpha=[0, 0.5, 2, 5], rng=3, runs=8, start=start)
    agree(ov.solve(model, start, runs.alpha), runs)


def test_label_noise_under_a_schedule_leaves_labels():
    """A factor on the noise scales the noise and not the labels."""
    model, start = three_classes()
    quiet = ov.simulate(replace(model, noise=0.0), N=40, alpha=[0, 1], rng=1, start=start, method="direct")
    muted = {"noise": ov.Schedule.constant(0.0)}
    runs = ov.simulate(model, N=40, alpha=[0, 1], rng=1, start=start, method="direct", schedule=muted)
    assert np.allclose(runs.m, quiet.m, rtol=0, atol=1e-12)


def test_strong_means_are_warned_of():
    model = ov.gaussian_mixture(1, gram=50 * PAIR[None], weights=[0.5, 0.5], labels=[1, -1], eta=0.5)
    with pytest.warns(RuntimeWarning, match="mu_c"):
        model.random_start(N=100, rng=1)


@pytest.mark.slow
def test_classification_error_of_runs_is_that_of_the_equations():
    """Relu, classes of other variances: 60 runs tell the mean to 1.6e-4, and finite N adds less than 0.05 / N."""
    pair = 2.25 * PAIR[None]
    learning = {"activation": ov.relu, "eta": 0.4, "eta_v": 0.2, "v": [0.6, -0.5]}
    model = ov.gaussian_mixture(2, gram=pair, weights=[0.4, 0.6], labels=[1, -1], ratios=[[0.5], [1.5]], **learning)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], m=[[0.3, -0.3], [-0.1, 0.1]])
    theory = ov.solve(model, start, [0, 20]).classification_error()[-1]
    runs = ov.simulate(model, N=250, alpha=[0, 20], rng=1, runs=60, start=start).classification_error()[:, -1]
    assert abs(runs.mean() - theory) < 4 * runs.std(ddof=1) / np.sqrt(60) + 0.05 / 250
