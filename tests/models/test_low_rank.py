"""Directions beside a frozen student: an independent program, identities, spectra, SGD, bad input."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov

TIGHT = {"rtol": 1e-11, "atol": 1e-13}
MODEL = ov.committee_machine(2, 2, eta=0.8, noise=0.2)
STATE = ov.State.from_overlaps(
    MODEL, Q=[[0.8, 0.1], [0.1, 0.7]], R=[[0.5, 0.1], [0.15, 0.45]], T=[[1, 0.2], [0.2, 0.9]]
)
G = [[0.1, -0.05, 0.3, 0.2]]


def network():
    """K = 2, M = 3, two eigenvalues, decay, batches, second layers that differ; directions with all overlaps."""
    spectrum = ov.Spectrum(s=[0.5, 1.7], p=[0.4, 0.6])
    model = ov.committee_machine(2, 3, v=[0.7, -0.4], v_star=[0.6, -0.3, 0.5], eta=0.9, noise=0.2, spectrum=spectrum,
                                 weight_decay=(0.05, 0.1), batch_size=2)  # fmt: skip
    X = np.random.default_rng(5).standard_normal((2, 7, 12)) / 4
    joint = X @ X.swapaxes(1, 2)
    state = ov.State.from_blocks(model, q=joint[:, 2:4, 2:4], r=joint[:, 2:4, 4:], t=joint[:, 4:, 4:])
    return model, state, {"X": joint[:, :2, :2], "G": joint[:, :2, 2:], "a": [[0.4, -0.3], [0.2, 0.5]]}


def test_an_independent_program():
    traj = ov.solve(*ov.low_rank(MODEL, STATE, a=[[0.2], [-0.1]], X=[[1.0]], G=G, eta_a=0.5), [5.0, 20.0], **TIGHT)
    assert traj.u[1, 0, 0] == pytest.approx(1.968294995246, abs=1e-9)
    static = [-0.307466742029, -0.245060412273, 0.616689648746, 0.590911048592]
    assert np.allclose(traj.r[1, 0, 0], static, atol=1e-9)
    assert np.allclose(traj.a[1, :, 0], [0.559906454222, 0.336077693046], atol=1e-9)
    assert np.allclose(traj.eps_g, [0.152195443359, 0.016112362560], atol=1e-9)
    fixed = ov.solve(*ov.low_rank(MODEL, STATE, a=[[0.8], [0.6]], X=[[1.0]], G=G), [5.0, 20.0], **TIGHT)
    assert np.allclose(fixed.eps_g, [0.037962495135, 0.022990335033], atol=1e-9)
    assert np.allclose(fixed.a, [[0.8], [0.6]], atol=0) and np.all(fixed.eps_floor < 1e-10)


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_orthogonal_amplitudes_of_full_rank_are_the_training_of_all_weights(angle):
    """On a spectrum, with batches; an invertible matrix is another metric."""
    model, state, _ = network()
    model = dataclasses.replace(model, weight_decay=0.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    whole = ov.solve(model, state, [0.0, 2.0, 6.0], **TIGHT)
    traj = ov.solve(*ov.low_rank(model, state, a=turn, X=np.zeros((2, 2))), [0.0, 2.0, 6.0], **TIGHT)
    for name in ("Q", "R", "eps_g", "S"):
        assert np.allclose(getattr(traj, name), getattr(whole, name), atol=1e-10)
    other = ov.solve(*ov.low_rank(model, state, a=[[1.0, 0.4], [0.0, 0.7]], X=np.zeros((2, 2))), [6.0])
    assert np.abs(other.Q - whole.Q[2]).max() > 1e-3


def test_scales_of_directions_and_amplitudes_are_rates():
    """Directions c u with amplitudes a/c are the same learning with eta c^2 and eta_a / c^2."""
    c = 1.7
    model, state, begin = network()
    model = dataclasses.replace(model, weight_decay=0.0)
    one = ov.solve(*ov.low_rank(model, state, **begin, eta_a=0.6), [0.0, 3.0], **TIGHT)
    faster = dataclasses.replace(model, eta=c**2 * model.eta)
    scaled = {"X": c**2 * begin["X"], "G": c * begin["G"], "a": np.array(begin["a"]) / c}
    other = ov.solve(*ov.low_rank(faster, state, **scaled, eta_a=0.6 / c**2), [0.0, 3.0], **TIGHT)
    assert np.allclose(other.Q, one.Q, atol=1e-10) and np.allclose(other.a * c, one.a, atol=1e-10)


def test_without_amplitudes_nothing_is_changed_at_first():
    """The first step moves a only, which then lets u move."""
    traj = ov.solve(*ov.low_rank(MODEL, STATE, a=np.zeros((2, 1)), X=[[1.0]], G=G, eta_a=0.5), [0.0, 1e-3, 5.0])
    assert traj.eps_g[0] == pytest.approx(ov.closure(MODEL, STATE.Q, STATE.R, STATE.T).eps_g, rel=1e-13)
    assert abs(traj.u[1, 0, 0] - 1) < 1e-6 < np.abs(traj.a[1]).max() and traj.eps_g[2] < traj.eps_g[0]


def test_schedules():
    """Rates as a change of time without noise of SGD; inputs that change as weights of other scale."""
    model, state, begin = network()
    model = dataclasses.replace(model, gradient_flow=True)
    pair = ov.low_rank(model, state, **begin, eta_a=0.6)
    slow = ov.solve(*pair, [4.0], schedule=ov.Schedule.constant(0.5), **TIGHT)
    assert np.allclose(slow.Q, ov.solve(*pair, [2.0], **TIGHT).Q, atol=1e-10)
    inputs = ov.solve(*pair, [0.0, 2.0], schedule={"s": (None, ov.Schedule([0, 2], [1.0, 0.4]))}, **TIGHT)
    assert inputs.success and np.allclose(inputs.S[0], ov.solve(*pair, [0.0]).S[0], atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["direct", "reduced"])
@pytest.mark.parametrize("eta_a", [0.0, 0.6])
def test_simulators(method, eta_a):
    """Within three standard errors; two directions, L = 2, batches, decay."""
    model, state, begin = network()
    adapted, start = ov.low_rank(model, state, **begin, eta_a=eta_a)
    traj = ov.solve(adapted, start, [0.0, 1.0, 3.0])
    runs = ov.simulate(adapted, N=400, alpha=traj.alpha, rng=3, runs=30, start=start, method=method)
    for name in ("Q", "R", "u", "a", "eps_g"):
        values, expected = getattr(runs, name)[:, 1:], getattr(traj, name)[1:]
        error = values.std(axis=0, ddof=1) / np.sqrt(30)
        assert np.all(np.abs(values.mean(axis=0) - expected) < 3 * error + 1e-14)


def test_bad_input():
    for options, message in (
        ({"a": [[0.2]], "X": [[1.0]]}, "a has shape"),
        ({"a": [[0.2], [0.1]], "X": np.eye(2)}, "X has shape"),
        ({"a": [[0.2], [0.1]], "X": [[1.0]], "G": [[0.1, 0.2]]}, "G has shape"),
        ({"a": [[0.2], [0.1]], "X": [[0.1]], "G": [[0.1, 0.1, 0.9, 0.2]]}, "not positive semi-definite"),
        ({"a": [[0.2], [0.1]], "X": [[1.0]], "eta_a": -1.0}, "eta_a"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.low_rank(MODEL, STATE, **options)
    with pytest.raises(ValueError, match="Expected eta_v = 0"):
        ov.low_rank(dataclasses.replace(MODEL, eta_v=0.1), STATE, a=[[0.2], [0.1]], X=[[1.0]])
    two = dataclasses.replace(MODEL, spectrum=ov.Spectrum([1.6, 0.4], [0.5, 0.5]))
    with pytest.raises(ValueError, match="G has shape"):
        ov.low_rank(two, two.random_start(N=90, rng=1), a=[[0.2], [0.1]], X=[[1.0]], G=[[0.1, 0.1, 0.2, 0.2]])
    model, start = ov.low_rank(MODEL, STATE, a=[[0.2], [0.1]], X=[[1.0]])
    for call, message in (
        (
            lambda: ov.solve(model, start, [1.0], method="structured"),
            "'structured' does not support trained directions",
        ),
        (lambda: ov.solve(model, start, [1.0], late=True), "late=True with"),
        (lambda: ov.fixed_point(model, start), "fixed_point does not support trained directions"),
        (lambda: ov.simulate(model, N=100, alpha=[1.0], rng=1), "that ov.low_rank returns"),
        (lambda: ov.solve(model, STATE, [1.0]), "the model expects"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_files_labels_and_tables(tmp_path):
    """Results come back equal, on a spectrum; rank 2 beside K = 2, M = 3."""
    network_, state, begin = network()
    model, start = ov.low_rank(network_, state, **begin, eta_a=0.6)
    traj = ov.solve(model, start, [0.0, 1.0, 2.0])
    runs = ov.simulate(model, N=60, alpha=traj.alpha, rng=1, runs=2, start=start)
    kept = ov.simulate(model, N=60, alpha=traj.alpha, rng=1, runs=2, start=start, keep_weights=True)
    directions, a = kept.final_weights(1)
    assert directions.shape == (2, 60) and np.array_equal(a, kept.a[1, -1])
    for result in (traj, runs):
        result.save(tmp_path / "result.npz")
        for given in (None, model):
            again = ov.load(tmp_path / "result.npz", model=given)
            assert again == result and np.array_equal(again.eps_g, result.eps_g) and again.model == model
        data, table = result.to_xarray(), result.to_pandas()
        assert data.a.dims[-2:] == ("k", "g") and data.u.dims[-2:] == ("g", "g2") and data.R.shape == result.R.shape
        assert ov.results.labelled.model_of(data) == model
        assert np.array_equal(table["a_12"], result.a[..., 0, 1].ravel())
        assert np.array_equal(table["u_12"], result.u[..., 0, 1].ravel())
        assert np.array_equal(table["R_23"], result.R[..., 1, 2].ravel())
    for wrong in (network_, ov.low_rank(network_, state, **begin, eta_a=0.5)[0]):
        with pytest.raises(ValueError, match="expected the LowRank that was saved"):
            ov.load(tmp_path / "result.npz", model=wrong)


@pytest.mark.slow
def test_pictures_are_those_of_the_network():
    import matplotlib

    matplotlib.use("agg")
    traj = ov.solve(*ov.low_rank(MODEL, STATE, a=[[0.2], [-0.1]], X=[[1.0]], eta_a=0.5), [0.0, 1.0, 2.0])
    axes = traj.plot()
    drawn = [line.get_ydata() for line in axes[1].get_lines()]
    assert any(np.array_equal(y, traj.R[:, 0, 0]) for y in drawn) and any(
        np.array_equal(y, traj.Q[:, 1, 1]) for y in drawn
    )
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("s", [1.0, 2.3])
def test_covariances_of_fields_are_those_of_the_start(s):
    """Q = a X a^T + a G_0 + (a G_0)^T + Q_0 and R = a G_* + R_0, whatever the variance of the inputs."""
    network = ov.committee_machine(2, 2, eta=0.8, spectrum=ov.Spectrum([s]))
    Q0, R0, T = (
        np.array([[0.5, 0.1], [0.1, 0.7]]),
        np.array([[0.3, 0.1], [-0.1, 0.2]]),
        np.array([[1.1, 0.2], [0.2, 0.9]]),
    )
    state = ov.State.from_overlaps(network, Q=Q0, R=R0, T=T)
    a, X, G = np.array([[0.8], [-0.6]]), np.array([[0.7]]), np.array([[0.05, -0.1, 0.2, 0.15]])
    model, start = ov.low_rank(network, state, a=a, X=X, G=G, eta_a=0.3)
    traj = ov.solve(model, start, [0.0, 0.1])
    np.testing.assert_allclose(traj.Q[0], a @ X @ a.T + a @ G[:, :2] + (a @ G[:, :2]).T + Q0, rtol=1e-12)
    np.testing.assert_allclose(traj.R[0], a @ G[:, 2:] + R0, rtol=1e-12)


def test_directions_that_know_no_eigenspace_are_spread_over_all():
    """As random vectors are: their plain overlaps are the shares of the directions times one matrix."""
    s, p, X = np.array([2.1, 0.6, 0.3]), np.array([0.2, 0.5, 0.3]), np.array([[0.7, 0.2], [0.2, 0.9]])
    network = dataclasses.replace(MODEL, spectrum=ov.Spectrum(s, p))
    own = p[:, None, None] * np.eye(2)
    state = ov.State.from_blocks(network, q=own, r=0 * own, t=own)
    _, start = ov.low_rank(network, state, a=[[0.8, 0.1], [-0.6, 0.4]], X=X)
    np.testing.assert_allclose(start.q, np.multiply.outer(p / (s @ p), X), rtol=1e-14)


def test_a_decay_that_is_switched_off_is_none():
    """Of weights and of amplitudes: a schedule scales both."""
    ends = []
    for decay, schedule in ((0.0, None), ((0.3, 0.4), {"weight_decay": ov.Schedule.constant(0.0)})):
        network = dataclasses.replace(MODEL, weight_decay=decay)
        model, start = ov.low_rank(network, STATE, a=[[0.8], [-0.6]], X=[[0.7]], eta_a=0.3)
        ends.append(ov.solve(model, start, [2.0], schedule=schedule, **TIGHT))
    np.testing.assert_allclose(ends[1].S, ends[0].S, rtol=1e-10)
    np.testing.assert_allclose(ends[1].a, ends[0].a, rtol=1e-10)
