"""A batch: files, labels, pictures, trajectories without blocks."""

import dataclasses
import pickle

import numpy as np
import pytest

import overlaps as ov
from overlaps.results.trajectory import SummedTrajectory

MODEL = ov.committee_machine(2, 3, eta=0.5, v=[1.0, 0.7], eta_v=0.1, spectrum=ov.power_law(beta=1.0, L=3))
ETAS, NOISES = [0.1, 0.4], [0.0, 0.1, 0.3]


@pytest.fixture(scope="module")
def batch():
    models = [dataclasses.replace(MODEL, eta=eta, noise=noise) for eta in ETAS for noise in NOISES]
    return ov.solve_many(models, MODEL.random_start(N=1101, rng=1), [0.0, 1.0, 4.0])


@pytest.mark.parametrize("blocks", [True, False])
def test_a_file_gives_back_an_equal_batch(blocks, tmp_path, batch):
    if not blocks:
        batch = ov.solve_many(batch.models, MODEL.random_start(N=1101, rng=1), batch.alpha, blocks=False)
    batch.save(tmp_path / "batch.npz")
    again = ov.load(tmp_path / "batch.npz")
    assert again == batch and again[2] == batch[2] and again[2].solver is batch[2].solver
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert ov.load(tmp_path / "batch.npz", model=batch.models) == batch
    with pytest.raises(ValueError, match="expected the 6 models of the batch"):
        ov.load(tmp_path / "batch.npz", model=MODEL)
    with pytest.raises(ValueError, match="the model has noise = 0.0, the file 0.1"):
        ov.load(tmp_path / "batch.npz", model=[batch.models[0]] * 6)


@pytest.mark.parametrize("blocks", [True, False])
def test_each_teacher_has_an_error_of_its_own(blocks):
    """Second layers that differ: errors of the batch against closures, trajectory by trajectory."""
    v_stars = [[0.7, 0.4, -0.3], [1.6, 0.2, 0.5], [0.3, -0.8, 1.2]]
    models = [dataclasses.replace(MODEL, v_star=v_star, eta_v=0.0) for v_star in v_stars]
    found = ov.solve_many(models, MODEL.random_start(N=1101, rng=1), [0.0, 2.0], blocks=blocks)
    for i, model in enumerate(models):
        wanted = [ov.closure(model, found.Q[i, n], found.R[i, n], found.T[i], found.v[i, n]).eps_g for n in range(2)]
        np.testing.assert_allclose(found.eps_g[i], wanted, rtol=1e-12)
        np.testing.assert_allclose(found[i].eps_g, wanted, rtol=1e-12)


def test_each_trajectory_has_the_constants_and_the_schedule_of_its_own():
    """Inputs in classes with teachers whose mean fields differ from start to start, readouts and a schedule each."""
    model = ov.gaussian_mixture(
        2, 1, gram=[[[1.3]], [[0.4]]], weights=[1.0], labels=[0.5], v=[1.3, 0.6], v_star=[0.7], eta=0.3,
        spectrum=ov.Spectrum([1.6, 0.4], [0.4, 0.6]),
    )  # fmt: skip
    drawn = [model.random_start(N=1000, rng=i, student_scale=0.5) for i in range(3)]
    starts = [dataclasses.replace(start, v=[1.3 - 0.2 * i, 0.6]) for i, start in enumerate(drawn)]
    schedules = [ov.Schedule.power(0.5, scale=2.0), None, ov.Schedule.step([0.7], [0.3])]
    found = ov.solve_many(model, starts, [0.0, 0.5, 2.0], schedule=schedules)
    assert len({float(start.nu[0, 0]) for start in starts}) == 3
    for i, (start, schedule) in enumerate(zip(starts, schedules, strict=True)):
        alone = ov.solve(model, start, found.alpha, schedule=schedule)
        for name in ("Q", "mean_fields", "eps_g", "eta", "nu", "h", "tau", "T"):
            np.testing.assert_array_equal(getattr(found[i], name), getattr(alone, name), err_msg=name)
        for name in ("v", "Q", "eps_g"):
            np.testing.assert_array_equal(getattr(found, name)[i], getattr(alone, name), err_msg=name)
        assert found[i].schedule is schedule and found.v[i, 0, 0] == 1.3 - 0.2 * i


def test_labels_are_those_of_a_grid_or_of_trajectories(batch):
    pytest.importorskip("xarray")
    grid = batch.to_xarray(eta=ETAS, noise=NOISES)
    assert grid.R.dims == ("eta", "noise", "alpha", "k", "m") and grid.R.shape == (2, 3, 3, 2, 3)
    assert np.array_equal(grid.eps_g.sel(eta=0.4, noise=0.1), batch.eps_g[4])
    assert int(grid.success.sum()) == 6
    flat = batch.to_xarray(noise=NOISES * 2, eta=np.repeat(ETAS, 3))
    assert flat.Q.dims[0] == "trajectory" and float(flat.noise[4]) == 0.1
    own = batch.to_xarray()  # the numbers in which the models differ
    assert own.sizes["trajectory"] == 6 and {*own.coords} == {"eta", "noise", "alpha"}
    assert own.eta.values.tolist() == np.repeat(ETAS, 3).tolist() and own.noise.values.tolist() == NOISES * 2
    with pytest.raises(ValueError, match="for 6 trajectories; expected the axes of a grid"):
        batch.to_xarray(eta=ETAS)
    with pytest.raises(ValueError, match="rename the first"):
        batch.to_xarray(success=ETAS, noise=NOISES)


def test_a_picture_has_a_line_for_each_trajectory(batch):
    from matplotlib import pyplot as plt

    ax = batch.plot()
    segments = ax.collections[0].get_segments()
    assert len(segments) == 6 and np.array_equal(segments[5][:, 1], batch.eps_g[5])
    assert batch.plot(ax=ax) is ax and "epsilon_g" in ax.get_ylabel()
    plt.close("all")


def test_one_line_says_what_it_is_and_indices_are_checked(batch):
    assert repr(batch).startswith("Batch(6 x Model(K=2, M=3") and repr(batch).endswith("n=3, success)")
    assert batch[-1] == batch[5] and len(batch) == 6
    with pytest.raises(IndexError, match="i = 6"):
        batch[6]


def test_sums_are_kept_without_blocks(batch):
    """Q, R, v and eps_g are those of the blocks; what needs blocks is refused with a reason."""
    model, start = batch.models[1], MODEL.random_start(N=1101, rng=1)
    for alpha in ((0.0, 4.0), [1.0, 4.0]):
        whole, summed = ov.solve(model, start, alpha), ov.solve(model, start, alpha, blocks=False)
        assert isinstance(summed, SummedTrajectory) and summed.nfev == whole.nfev
        for name in ("alpha", "Q", "R", "v", "eps_g", "eps_floor"):
            assert np.allclose(getattr(summed, name), getattr(whole, name), rtol=1e-13, atol=1e-15)
    for call in (lambda: summed[0], lambda: summed.at(2.0)):
        with pytest.raises(ValueError, match=r"keeps Q, R, v only \(blocks=False\)"):
            call()
    with pytest.raises(AttributeError, match="the overlaps of every block"):
        summed.q  # noqa: B018
    with pytest.raises(ValueError, match="late=True with a trained second layer"):
        ov.solve(MODEL, start, alpha, blocks=False, late=True)


def test_sums_are_saved_labelled_and_drawn(tmp_path):
    from matplotlib import pyplot as plt

    summed = ov.solve(MODEL, MODEL.random_start(N=1101, rng=1), (0, 2), blocks=False)
    summed.save(tmp_path / "run.npz")
    assert ov.load(tmp_path / "run.npz") == summed
    assert len(summed.plot()) == 2
    plt.close("all")
    runs = ov.simulate(MODEL, N=1101, alpha=[0, 1, 2], rng=1, runs=2)
    distance = ov.tlog_rmse(ov.solve(MODEL, runs.start(0), runs.alpha, blocks=False), runs)
    whole = ov.tlog_rmse(ov.solve(MODEL, runs.start(0), runs.alpha), runs)
    assert np.allclose(distance.Q, whole.Q, rtol=0, atol=1e-13)
    pytest.importorskip("xarray")
    assert "q" not in summed.to_xarray() and summed.to_xarray().Q.dims == ("alpha", "k", "k2")


@pytest.mark.parametrize("method", ["DOP853", pytest.param("structured", marks=pytest.mark.slow)])
def test_blocks_are_not_held_during_the_run(method):
    """Every step of a spectrum of 256 eigenvalues: what is held at most is far less than the blocks of all records."""
    import tracemalloc

    model = ov.committee_machine(2, 2, eta=0.05, spectrum=ov.power_law(beta=0.3, L=256))
    start = model.random_start(N=25600, rng=1)
    ov.solve(model, start, (0, 1), method=method, blocks=False)
    peaks = []
    for blocks in (True, False):
        tracemalloc.start()
        traj = ov.solve(model, start, (0.0, 300.0), method=method, blocks=blocks, every_step=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    whole = len(traj) * 256 * 7 * 8
    assert len(traj) > 100 and peaks[0] > whole
    held = 8 * 10**6 if method == "DOP853" else 10**6  # of compiled steps, between two looks
    assert peaks[1] < 0.2 * whole + held


def test_kinked_students_that_are_nearly_parallel_are_checked_without_blocks():
    model = ov.committee_machine(2, 1, activation=ov.relu, eta=0.2, spectrum=ov.power_law(beta=1.0, L=2))
    state = model.random_start(N=1000, rng=1)
    q = state.q.copy()
    q[:, 1, :], q[:, :, 1] = q[:, 0, :], q[:, :, 0]
    q[:, 1, 1] *= 1 + 1e-9
    r = np.stack([state.r[:, 0], state.r[:, 0] * (1 + 1e-10)], axis=1)
    close = dataclasses.replace(state, q=q, r=r)
    whole, summed = (ov.solve(model, close, [0.0, 1.0, 3.0], blocks=blocks, rtol=1e-6) for blocks in (True, False))
    assert summed.message == whole.message and summed.nfev == whole.nfev
    assert np.allclose(summed.eps_error, whole.eps_error, rtol=1e-3)


def test_a_table_names_the_numbers_in_which_the_models_differ(batch):
    table = batch.to_pandas()
    assert list(table.columns[:5]) == ["trajectory", "eta", "noise", "alpha", "eps_g"] and len(table) == 18
    square = table[table.alpha == 4.0].pivot(index="eta", columns="noise", values="eps_g")
    np.testing.assert_array_equal(square.to_numpy(), batch.eps_g[:, 2].reshape(2, 3))
    np.testing.assert_array_equal(table[table.trajectory == 4]["R_23"], batch.R[4, :, 1, 2])
    decays = [MODEL.replace(weight_decay=pair) for pair in ((0.1, 0.0), (0.1, 0.2))]
    more = ov.solve_many(decays, MODEL.random_start(N=1101, rng=1), [1.0]).to_pandas()
    assert "weight_decay" not in more and more["weight_decay_v"].tolist() == [0.0, 0.2]
