"""Tasks one after the other: golden numbers, chains of solutions by hand, SGD, errors of all tasks at all times."""

import dataclasses

import numpy as np
import pytest
from helpers import few

import overlaps as ov

TASKS = [ov.committee_machine(2, 2, eta=1.0, v_star=v_star) for v_star in ([1.0, 0.0], [0.0, 1.0])]
PAIR = ov.Stages(TASKS, until=[30.0, 60.0])
START = ov.State.from_overlaps(
    TASKS[0], Q=0.2 * np.eye(2), R=[[0.1, 0.02], [0.03, 0.08]], T=[[1.0, 0.4], [0.4, 1.0]]
)  # fmt: skip


@pytest.mark.parametrize("method", ["auto", "DOP853", "structured"])
def test_golden_numbers(method):
    """Of an independent integration in which the teacher's second layer is switched at 30."""
    traj = ov.solve(PAIR, START, [30.0, 60.0], method=method, rtol=1e-9)
    rtol = 1e-6 if method == "structured" else 1e-7  # it leaves about rtol in the overlaps
    np.testing.assert_allclose(traj.task_error(0), [0.008075586689, 0.2077582491], rtol=rtol)
    np.testing.assert_allclose(traj.task_error(1), [0.2076409962, 0.008281317115], rtol=rtol)
    np.testing.assert_array_equal(traj.eps_g, traj.task_error(1))
    np.testing.assert_array_equal(traj.stage, [1, 1])


# three tasks of three teachers on three eigenvalues, all that may differ
COMMON = {"eta_v": 0.5, "weight_decay": (0.05, 0.1)}
SPECTRA = [ov.Spectrum(s=s, p=[0.2, 0.3, 0.5]) for s in ([2.0, 1.0, 0.6], [0.5, 1.5, 0.9], [2.0, 1.0, 0.6])]
RICH = [
    ov.committee_machine(2, 3, eta=0.8, noise=0.3, v_star=[1.0, 0.0, 0.5], spectrum=SPECTRA[0], **COMMON),
    ov.committee_machine(
        2, 3, eta=0.5, v_star=[0.0, 1.0, 0.0], batch_size=2, teacher_activation=ov.linear, spectrum=SPECTRA[1], **COMMON
    ),
    ov.committee_machine(2, 3, eta=1.1, noise=0.1, v_star=[0.3, 0.0, 1.0], spectrum=SPECTRA[2], eta_v=0.0),
]
HEADS = np.array([[1.0, 0.6], [0.7, -0.4], [0.5, 1.2]])
UNTIL = [2.0, 5.0, 7.0]
BEGIN = RICH[0].random_start(N=30_000, rng=4, student_scale=0.7)


def by_hand(state, model, v):
    """The same plain overlaps in the eigenvalues of another model, with another second layer."""
    q, r, t = state.plain
    return dataclasses.replace(ov.State.from_blocks(model, q=q, r=r, t=t, v=v), alpha=state.alpha)


def eps_g(model, state, v):
    state = by_hand(state, model, v)
    return ov.closure(dataclasses.replace(model, v=v), state.Q, state.R, state.T).eps_g


@pytest.mark.parametrize("method", ["DOP853", "structured"])
@pytest.mark.parametrize("heads", [None, HEADS], ids=["one readout", "heads"])
def test_three_stages_against_solutions_one_after_the_other(heads, method):
    stages, times = ov.Stages(RICH, UNTIL, heads), np.array([0.0, 1.0, 2.0, 3.5, 5.0, 6.0, 7.0])
    options = {"method": method, "rtol": 1e-9}
    traj = ov.solve(stages, BEGIN, times, **options)
    np.testing.assert_array_equal(traj.stage, [0, 0, 1, 1, 2, 2, 2])
    state, used, chain, ends = BEGIN, BEGIN.v, {}, {}
    for i, (model, end) in enumerate(zip(RICH, UNTIL, strict=True)):
        state = by_hand(state, model, used if heads is None else heads[i])
        segment = ov.solve(
            model, state, np.unique(np.r_[state.alpha, times[(times > state.alpha) & (times <= end)]]), **options
        )
        chain |= {segment.alpha[n]: (i, segment[n]) for n in range(len(segment))}
        state = segment[-1]
        used = ends[i] = state.v
    if heads is not None:  # a record at a switch shows the head of the stage that begins there
        chain = {t: (traj.stage[n], s if t not in UNTIL[:2] else dataclasses.replace(s, v=heads[traj.stage[n]]))
                 for n, (t, (_, s)) in enumerate(sorted(chain.items()))}  # fmt: skip
    for n, alpha in enumerate(times):
        i, expected = chain[alpha]
        own = traj[n]
        np.testing.assert_allclose(own.plain[0], expected.plain[0], atol=1e-12)
        np.testing.assert_allclose(own.plain[1], expected.plain[1], atol=1e-12)
        np.testing.assert_allclose(traj.v[n], expected.v, atol=1e-12)
        np.testing.assert_allclose(traj.Q[n], by_hand(expected, RICH[traj.stage[n]], expected.v).Q, atol=1e-12)
        np.testing.assert_allclose(own.T, own.on(RICH[traj.stage[n]]).T, atol=1e-14)
        for task, model in enumerate(RICH):
            if heads is None or task == traj.stage[n]:
                v = expected.v
            else:
                v = heads[task] if task > traj.stage[n] else ends[task]
            assert traj.task_error(task)[n] == pytest.approx(eps_g(model, expected, v), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(traj.eps_g, [traj.task_error(i)[n] for n, i in enumerate(traj.stage)], rtol=1e-12)
    np.testing.assert_array_equal(traj.eta, [0.8, 0.8, 0.5, 0.5, 1.1, 1.1, 1.1])


def test_records_go_on_and_times_between_them():
    stages = ov.Stages(RICH, UNTIL, HEADS)
    exact = ov.solve(stages, BEGIN, [3.0, 6.5], rtol=1e-11)
    every = ov.solve(stages, BEGIN, (0.0, 7.0), rtol=1e-9, every_step=True)
    assert np.all(np.diff(every.alpha) > 0) and every.alpha[[0, -1]].tolist() == [0.0, 7.0]
    for n, alpha in enumerate([3.0, 6.5]):
        found = every.at(alpha)
        np.testing.assert_allclose(found.q, exact[n].q, atol=1e-8)
        np.testing.assert_allclose(found.r, exact[n].r, atol=1e-8)
    for begin in (every.at(3.0), every.at(5.0)):  # inside a stage, and at a switch
        onward = ov.solve(stages, begin, [6.5], rtol=1e-9)
        np.testing.assert_allclose(onward.Q, exact.Q[1:], atol=1e-8)
        assert onward.task_error(2) == pytest.approx(exact.task_error(2)[1], rel=1e-6)
    assert np.isnan(onward.task_error(0)).all()  # its head was trained before: what it became is not in the start
    with pytest.raises(ValueError, match="covers \\[0, 7\\]"):
        every.at(7.5)
    stopped = ov.solve(PAIR, START, (0.0, 60.0), stop=lambda alpha, state: state.R[1, 1] - 0.4)
    assert 30 < stopped.alpha[-1] < 60 and stopped.success and stopped[-1].R[1, 1] == pytest.approx(0.4, abs=1e-9)
    once = ov.solve(PAIR, START, [0.0])
    assert once.stage.tolist() == [0] and once.task_error(-1) == once.task_error(1)
    with pytest.raises(IndexError, match="i = 2"):
        once.task_error(2)


def test_schedules_run_over_all_stages():
    f = ov.Schedule.step([1.0, 4.0], [0.5, 2.0])
    schedule = {"eta": f, "noise": ov.Schedule.constant(2.0)}  # the second stage has no noise
    traj = ov.solve(ov.Stages(RICH, UNTIL), BEGIN, [0.5, 2.0, 4.5, 6.0], schedule=schedule, rtol=1e-9)
    np.testing.assert_allclose(traj.eta, np.array([0.8, 0.5, 0.5, 1.1]) * [1.0, 0.5, 2.0, 2.0])
    noise_factor = [dataclasses.replace(model, noise=2 * model.noise) for model in RICH]
    pieces = [noise_factor[0], noise_factor[0], noise_factor[1], noise_factor[1], noise_factor[2]]
    scheduled = [dataclasses.replace(m, eta=m.eta * u) for m, u in zip(pieces, [1, 0.5, 0.5, 2, 2], strict=True)]
    other = ov.solve(ov.Stages(scheduled, [1.0, 2.0, 4.0, 5.0, 7.0]), BEGIN, [6.0], rtol=1e-9)
    # eta_v stays where a dict does not name it
    np.testing.assert_allclose(traj[3].q, other[0].q, atol=1e-9)
    with pytest.raises(ValueError, match="eta_v is 0 in the model"):
        ov.solve(PAIR, START, [1.0], schedule={"eta_v": f})


@few("method, N, runs", [("reduced", 800, 24), ("direct", 100, 16)], quick=1)
def test_mean_over_runs_agrees_with_the_flow(method, N, runs):
    stages = ov.Stages(RICH, UNTIL, HEADS)
    theory = ov.solve(stages, BEGIN, [0.0, 1.0, 2.0, 4.0, 5.0, 7.0])
    found = ov.simulate(stages, N=N, alpha=theory.alpha, rng=2, runs=runs, start=BEGIN, method=method)
    np.testing.assert_array_equal(found.stage, theory.stage)
    assert found.method == method and len(found) == runs
    for name in ("Q", "R", "v"):
        gap = np.abs(found.mean(name) - getattr(theory, name))
        # fluctuations over runs, and the O(1/N) bias of overlaps of order one
        assert np.all(gap < 4.5 * found.standard_error(name) + 3 / N), name
    for task in range(3):
        errors = found.task_error(task)
        gap = np.abs(errors.mean(axis=0) - theory.task_error(task))
        assert np.all(gap < 4.5 * errors.std(axis=0, ddof=1) / np.sqrt(runs) + 3 / N)


def test_runs_begin_and_switch_at_whole_steps():
    stages = ov.Stages(TASKS, until=[1.005, 2.0])
    runs = ov.simulate(stages, N=100, alpha=[0.5, 1.0, 1.01, 1.5], rng=1, runs=2)
    np.testing.assert_array_equal(runs.stage, [0, 0, 1, 1])  # step 101 is the first that does not lie before 1.005
    assert runs.parts[1].alpha[0] == 1.01
    more = ov.simulate(stages, N=100, alpha=[0.5, 1.0, 1.01, 1.5], rng=1, runs=3)
    np.testing.assert_array_equal(more.Q[:2], runs.Q)
    later = dataclasses.replace(START, alpha=0.123)  # between two steps
    assert ov.simulate(stages, N=100, alpha=[0.5, 1.5], rng=1, start=later).stage.tolist() == [0, 1]
    interval = ov.simulate(stages, N=100, alpha=(0.0, 2.0), rng=1)
    assert interval.alpha.size == 201 and interval.alpha[-1] == 2.0


def test_runs_that_begin_after_their_first_stage_have_errors_of_all():
    """The readout of a stage before the start was trained, and is not known: nan at every run and time."""
    stages = ov.Stages([dataclasses.replace(task, eta_v=0.3) for task in TASKS], [1.0, 3.0], heads=[[1, 0.6], [0.7, 1]])
    start = dataclasses.replace(START, alpha=1.5)
    runs = ov.simulate(stages, N=60, alpha=[1.5, 2.0, 2.5], rng=1, start=start, runs=2)
    assert runs.task_error(0).shape == runs.task_error(1).shape == (2, 3)
    assert np.all(np.isnan(runs.task_error(0))) and np.array_equal(runs.task_error(1), runs.eps_g)


def test_a_stage_that_fails_is_the_last():
    stages = ov.Stages(
        [TASKS[0], dataclasses.replace(TASKS[1], activation=ov.erf, eta=1.0, v_star=[0.0, 1e80])], [1, 2]
    )
    with pytest.warns(RuntimeWarning, match="stopped at alpha = 1"):
        traj = ov.solve(stages, START, [0.5, 1.5, 2.0])
    assert not traj.success and traj.alpha.tolist() == [0.5] and traj.stage.tolist() == [0]


def test_files_and_pictures(tmp_path):
    stages = ov.Stages(RICH, UNTIL, HEADS)
    schedule = {"noise": ov.Schedule.step([3.0], [2.0])}
    traj = ov.solve(stages, BEGIN, [0.0, 3.0, 7.0], schedule=schedule)
    runs = ov.simulate(ov.Stages(TASKS, [1.0, 2.0]), N=50, alpha=[0.0, 2.0], rng=1, runs=2)
    for result in (traj, runs):
        result.save(tmp_path / "result")
        found = ov.load(tmp_path / "result.npz")
        assert found == result and found.task_error(0).tolist() == result.task_error(0).tolist()
        axes = result.plot(marker="x")
        assert len(axes[0].get_lines()) >= len(result.model)
    assert ov.load(tmp_path / "result.npz", model=runs.model) == runs
    with pytest.raises(ValueError, match="v_star"):
        ov.load(tmp_path / "result.npz", model=ov.Stages(TASKS[::-1], [1.0, 2.0]))
    with pytest.raises(ValueError, match="expected the Stages that were saved"):
        ov.load(tmp_path / "result.npz", model=TASKS[0])


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: ov.solve(PAIR, START, [61.0]), ["alpha = 61", "ends at 60"]),
        (lambda: ov.solve(PAIR, START, [1.0], late=True), ["late=True with tasks in a row (ov.Stages)"]),
        (lambda: ov.solve(PAIR, START, [1.0], certify=True), ["certify=True with tasks in a row (ov.Stages)"]),
        (lambda: ov.solve(PAIR, START, [1.0], blocks=False), ["blocks=False with tasks in a row (ov.Stages)"]),
        (lambda: ov.simulate(PAIR, N=100, alpha=[61.0], rng=1), ["alpha = 61", "ends at 60"]),
        (lambda: ov.linearise(PAIR, START), ["model = Stages"]),
    ],
)
def test_what_stages_cannot_do_is_refused_by_name(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value


def test_hidden_manifolds_are_solved_but_not_simulated():
    model = ov.hidden_manifold(2, 2, ratio=0.5, eta=0.4, v_star=[1.0, 0.0])
    stages = ov.Stages([model, dataclasses.replace(model, v_star=[0.0, 1.0])], [1.0, 2.0])
    start = model.random_start(N=100, rng=1)
    traj = ov.solve(stages, start, [2.0])
    middle = ov.solve(model, start, [1.0])[0]
    np.testing.assert_allclose(traj.Q, ov.solve(stages.models[1], middle, [2.0]).Q, rtol=1e-9)
    with pytest.raises(ValueError, match="overlaps do not determine the weights"):
        ov.simulate(stages, N=100, alpha=[1.0], rng=1)


def test_labelled_arrays_and_tables_know_stages_and_tasks():
    """Solutions and runs; the stages come back from the attributes, heads and all."""
    pytest.importorskip("xarray")
    times, stages = np.array([0.0, 1.0, 2.0, 3.5, 7.0]), ov.Stages(RICH, UNTIL, HEADS)
    start = ov.State.from_overlaps(TASKS[0], Q=np.eye(2), R=np.eye(2) / 4, T=np.eye(2))
    halves = ov.Stages(TASKS, until=[2.0, 7.0])
    for result in (
        ov.solve(stages, BEGIN, times),
        ov.simulate(halves, N=100, alpha=times, rng=1, runs=3, start=start),
    ):
        data, table = result.to_xarray(), result.to_pandas()
        assert ov.results.labelled.model_of(data) == result.model
        np.testing.assert_array_equal(data.stage, result.stage)
        for i in range(len(result.model)):
            np.testing.assert_array_equal(data.error.sel(task=i), result.task_error(i))
            np.testing.assert_array_equal(table[f"error_{i + 1}"], result.task_error(i).ravel())
        np.testing.assert_array_equal(data.R.sel(alpha=3.5), np.take(result.R, 3, -3))
        np.testing.assert_array_equal(table["stage"][: times.size], result.stage)
        assert data.eta.dims == ("alpha",) and set(data.data_vars) == {"eps_g", "Q", "R", "v", "eta", "error"}
