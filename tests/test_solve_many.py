"""Many trajectories at once are those of ``solve``, one by one, whatever the number of threads."""

import dataclasses
import os
import signal
import threading
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import few

import overlaps as ov
import overlaps.integrators.batch

ALPHA = np.array([0.0, 0.5, 2.0, 6.0, 15.0])
MODEL = ov.committee_machine(2, 3, eta=0.5, v=[1.0, 0.7], v_star=[0.9, 0.5, -0.4], noise=0.2)


def variants(model, **lists):
    return [
        dataclasses.replace(model, **dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)
    ]


def one_by_one(models, starts, alpha, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [ov.solve(model, start, alpha, **options) for model, start in zip(models, starts, strict=True)]


def many(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ov.solve_many(*arguments, **options)


def starts_of(models, N=1200):
    return [model.random_start(N=N, rng=i) for i, model in enumerate(models)]


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rates():
    return variants(MODEL, eta=[0.05, 0.5, 1.5, 9.0], noise=[0.0, 0.2, 0.1, 0.0], weight_decay=[0.0, 0.1, 0.0, 0.0])


def diverging():
    return variants(ov.quadratic_network(2, 1, eta=0.1), eta=[0.1, 5.0, 8.0])


def trained():
    model = dataclasses.replace(MODEL, eta_v=0.2)
    return variants(model, eta_v=[0.1, 0.4], gradient_flow=[True, False], batch_size=[1, 3])


def kinked():
    return variants(dataclasses.replace(MODEL, activation=ov.relu, teacher_activation=ov.relu), eta=[0.1, 0.3, 0.5])


def teachers():
    """Second layers of the teacher and rates of every size, on one spectrum: eight, which one thread takes by twos."""
    model = dataclasses.replace(MODEL, spectrum=ov.Spectrum([1.7, 0.3], [0.4, 0.6]))
    v_star = np.random.default_rng(5).uniform(0.3, 2.0, (8, 3))
    return variants(model, v_star=list(v_star), eta=list(np.geomspace(0.03, 1.2, 8)))


def fast():
    """Rates far from 1, with small readouts: what is stiff is eta v^2 s."""
    model = ov.committee_machine(1, 1, v=[0.1], v_star=[0.7], eta=1.0, spectrum=ov.power_law(beta=1.2, L=12))
    return variants(model, eta=[0.7, 60.0, 90.0])


def stiff():
    """The structured BDF serves the second, DOP853 the first."""
    model = dataclasses.replace(MODEL, spectrum=ov.power_law(beta=1.5, L=24))
    return variants(model, eta=[0.01, 0.5], spectrum=[model.spectrum, ov.power_law(beta=1.5, L=24)])


def python():
    soft = ov.Activation.from_function(softplus, sigmoid, name="softplus")
    return variants(ov.committee_machine(1, 1, activation=soft, eta=0.2, gradient_flow=True), eta=[0.1, 0.2])


def classes(**options):
    """Numbers of every kind that a closure of classes knows, with one group of blocks and with two."""
    pair, ratios = np.array([[1.0, -0.5], [-0.5, 0.7]]), [[1.0, 1.0], [0.5, 0.5]]
    learning = {"v": [0.6, -0.5], "eta": 0.4, "eta_v": 0.3, "noise": 0.3, "weights": [0.3, 0.7], "labels": [1, -1]}
    spectrum = ov.Spectrum([1.6, 0.4], [0.5, 0.5])
    model = ov.gaussian_mixture(2, gram=[pair, 0.5 * pair], spectrum=spectrum, ratios=ratios, **learning | options)
    lists = {
        "weights": [[0.3, 0.7], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
        "labels": [[1, -1], [1, -2], [-1, 0.5], [1, 1]],
        "gram": [model.gram, 2 * model.gram, 0.5 * model.gram[::-1], 0 * model.gram],
        "ratios": [ratios, [[1.0, 1.4], [0.5, 0.3]], [[2.0, 2.0], [0.3, 0.3]], [[0.5, 2.0], [1.0, 3.0]]],
        "eta": [0.4, 0.2, 0.3, 0.5],
        "v": [[0.6, -0.5], [0.3, 0.4], [0.6, -0.5], [1.0, 0.2]],
    }
    return variants(model, **lists)


def classes_with_teacher():
    model = ov.gaussian_mixture(2, 1, gram=[[[1.0]]], weights=[1.0], labels=[0.5], v_star=[0.7], eta=0.3)
    return variants(model, labels=[[0.5], [-1.0]], v_star=[[0.7], [0.2]])


CASES = {
    "classes": (classes, {}),
    "classes of relu units": (lambda: classes(activation=ov.relu), {"alpha": [0.0, 2.0]}),
    "classes and a teacher": (classes_with_teacher, {"stop": 0.05}),
    "classes under a schedule": (classes, {"schedule": ov.Schedule.power(0.5, scale=2.0)}),
    "rates": (rates, {}),
    "divergence": (diverging, {}),
    "divergence before the first record": (diverging, {"alpha": [50.0]}),
    "without the start": (rates, {"alpha": ALPHA[2:]}),
    "a level": (rates, {"stop": 0.1}),
    "a level met at once": (rates, {"stop": 10.0}),
    "a function": (rates, {"stop": lambda alpha, state: state.Q[0, 0] - 0.9}),
    "steps": (rates, {"max_step": 0.3, "first_step": 1e-3}),
    "rtol": (rates, {"rtol": 1e-5, "atol": 1e-7}),
    "RK45": (rates, {"method": "RK45"}),
    "trained second layer": (trained, {}),
    "kinks": (kinked, {}),
    "teachers": (teachers, {"threads": 1}),
    "fast": (fast, {"alpha": [0.0, 10.0, 2000.0]}),
    "stiff": (stiff, {"alpha": [0.0, 10.0, 2000.0]}),
    "sums of a level": (rates, {"blocks": False, "stop": 0.1}),
    "functions": (python, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_what_solve_returns_one_by_one(name):
    """To the last bit: the compiled steps are one piece of machine code, and what is not compiled goes by ``solve``."""
    make, options = CASES[name]
    models = make()
    starts = starts_of(models, 24_000 if name == "fast" else 1200)
    options = {"alpha": ALPHA} | options
    threads = options.pop("threads", 2)
    batch, reference = many(models, starts, threads=threads, **options), one_by_one(models, starts, **options)
    for i, traj in enumerate(reference):
        assert batch[i] == traj and batch[i].solver is traj.solver
        n = np.isin(batch.alpha, traj.alpha)
        kept = np.isin(traj.alpha, batch.alpha)
        assert batch.end[i] == traj.alpha[-1] and batch.success[i] == traj.success
        for curve in ("Q", "R", "v", "eps_g", *(["mean_fields"] if models[0].n_classes else [])):
            assert np.array_equal(getattr(batch, curve)[i, n], getattr(traj, curve)[kept])
            assert np.all(np.isnan(getattr(batch, curve)[i, ~n]))
    if name.startswith("divergence"):
        assert batch.success.tolist() == [True, False, False] and "diverge" in batch.message[2]
    if name in ("stiff", "fast"):
        assert batch.method[0].startswith("DOP853") and batch.method[1].startswith("StructuredBDF")


def some(rng, choices):
    return choices[rng.integers(len(choices))]


@few("seed", range(24), quick=4)
def test_every_option_means_what_it_means_to_solve(seed):
    """Any mixture of options, to the last bit, and with one eigenvalue that is not 1."""
    rng = np.random.default_rng(seed)
    K, M, g = *rng.integers(1, 4, 2), some(rng, [ov.erf, ov.relu, ov.quadratic])
    eigenvalues = some(rng, [[2.3], [0.4, 1.7], [1.9, 0.8, 0.3]])
    weights, constraint = rng.dirichlet(np.full(len(eigenvalues), 3.0)), some(rng, [None, None, "sphere"])
    model = ov.committee_machine(
        K, M, activation=g, teacher_activation=some(rng, [g, ov.linear]), spectrum=ov.Spectrum(eigenvalues, weights),
        v=rng.uniform(0.2, 1, K), v_star=rng.uniform(0.2, 1, M), eta=0.2, eta_v=some(rng, [0.0, 0.3]),
        weight_decay=some(rng, [0.0, 0.11]) if constraint is None else 0.0, constraint=constraint,
    )  # fmt: skip
    models = variants(model, eta=[0.15, 0.05], noise=[0.2, 0.3], batch_size=[1, 3], gradient_flow=[False, True])
    starts, joint = [], rng.normal(size=(2, len(eigenvalues), K + M, 9)) / 4
    for q in joint @ joint.swapaxes(-1, -2):
        starts.append(ov.State.from_blocks(model, q=q[:, :K, :K], r=q[:, :K, K:], t=q[:, K:, K:]))
    ramp = ov.Schedule([0.4, 2.2], [0.7, 1.3], some(rng, ["linear", "constant", "cosine"]))
    options = {
        "stop": some(rng, [None, 0.2, lambda alpha, state: state.Q[0, 0] - 1.1 * joint[0, 0, 0] @ joint[0, 0, 0]]),
        "blocks": some(rng, [True, False]), "rtol": some(rng, [1e-8, 1e-5]), "atol": some(rng, [None, 1e-9]),
        "schedule": some(rng, [None, ramp, {"noise": ramp, "eta": ov.Schedule.power(0.6, scale=2.0)}]),
        "method": some(rng, [*["structured"][: constraint is None], "auto", "DOP853", "RK45"]),
        "alpha": some(rng, [[0.0, 0.7, 3.1], [1.3, 3.1]]),
    }  # fmt: skip
    options |= some(rng, [{}, {"max_step": 0.31, "first_step": 2e-3}])
    batch = many(models, starts, threads=some(rng, [1, 2]), **options)
    for i, traj in enumerate(one_by_one(models, starts, **options)):
        assert batch[i] == traj
        there, kept = np.isin(batch.alpha, traj.alpha), np.isin(traj.alpha, batch.alpha)
        for curve in ("Q", "R", "v", "eps_g"):
            assert np.array_equal(getattr(batch, curve)[i, there], getattr(traj, curve)[kept])


def test_what_a_batch_of_classes_knows(tmp_path):
    models, alpha = classes(), [0.0, 1.0, 4.0]
    starts = starts_of(models)
    batch = ov.solve_many(4 * models, 4 * starts, alpha, threads=1)  # four at a time
    assert all(method.startswith("DOP853 (auto: not stiff") for method in batch.method)
    for i, traj in enumerate(one_by_one(models, starts, alpha)):
        assert batch[i] == traj
        assert np.array_equal(batch.classification_error()[i], traj.classification_error())
    batch.save(tmp_path / "batch.npz")
    assert ov.load(tmp_path / "batch.npz") == batch
    with pytest.raises(ValueError, match="blocks=False with inputs in classes"):
        ov.solve_many(models, starts, alpha, blocks=False)
    one = ov.gaussian_mixture(2, gram=np.ones((2, 1, 1)), weights=[1], labels=[1], spectrum=models[0].spectrum, eta=0.4)
    with pytest.raises(ValueError, match=r"models\[1\] has n_classes = 1, models\[0\] 2"):
        ov.solve_many([models[0], dataclasses.replace(one, eta_v=0.1)], starts[0], alpha)
    plain = ov.solve_many(MODEL, MODEL.random_start(N=100, rng=1), alpha)
    with pytest.raises(AttributeError, match="classification_error: .* have no classes"):
        plain.classification_error()
    with pytest.raises(AttributeError, match="mean_fields: .* have no classes"):
        _ = plain.mean_fields


def test_sums_over_blocks_are_those_of_the_blocks():
    """The same steps; only the order in which 24 numbers are added differs."""
    models = stiff()
    starts, alpha = starts_of(models), [0.0, 10.0, 2000.0]
    whole, summed = ov.solve_many(models, starts, alpha), ov.solve_many(models, starts, alpha, blocks=False)
    for curve in ("Q", "R", "v"):
        assert np.allclose(getattr(whole, curve), getattr(summed, curve), rtol=0, atol=1e-14)
    assert np.array_equal(whole.nfev, summed.nfev) and summed.records.nbytes < whole.records.nbytes / 15
    traj = ov.solve(models[0], starts[0], alpha, blocks=False)
    assert np.allclose(summed[0].Q, traj.Q, rtol=0, atol=1e-14) and type(summed[0]) is type(traj)


def test_threads_and_chunks_change_nothing(monkeypatch):
    models = variants(MODEL, eta=list(np.linspace(0.1, 2.0, 12)))
    start = MODEL.random_start(N=1200, rng=1)
    first = ov.solve_many(models, start, ALPHA, threads=1)
    assert ov.solve_many(models, start, ALPHA, threads=3) == first
    monkeypatch.setattr("overlaps.integrators.batch.CHUNKS", overlaps.integrators.batch.ChunkOptions(1, 1))
    assert ov.solve_many(models, start, ALPHA, threads=2) == first


def test_one_model_or_one_start_serves_all():
    starts = starts_of([MODEL] * 3)
    batch = ov.solve_many(MODEL, starts, ALPHA)
    assert len(batch) == 3 and batch == ov.solve_many([MODEL] * 3, starts, ALPHA)
    single = ov.solve_many(MODEL, starts[0], ALPHA)
    assert len(single) == 1 and single[0] == batch[0]


def test_a_batch_begins_at_the_time_of_its_starts():
    middle = ov.solve(MODEL, MODEL.random_start(N=1200, rng=1), ALPHA)[2]
    batch = ov.solve_many([MODEL] * 2, middle, ALPHA[2:])
    assert batch[0] == ov.solve(MODEL, middle, ALPHA[2:])
    with pytest.raises(ValueError, match=r"starts\[1\] belongs to alpha = 0, starts\[0\] to 2"):
        ov.solve_many(MODEL, [middle, dataclasses.replace(middle, alpha=0.0)], ALPHA[2:])


@pytest.mark.parametrize(
    "change, words",
    [
        ({"v": [1.0]}, r"models\[1\] has K = 1, models\[0\] 2"),
        ({"v_star": [1.0]}, r"models\[1\] has M = 1, models\[0\] 3"),
        ({"spectrum": ov.power_law(beta=1.0, L=2)}, r"models\[1\] has L = 2, models\[0\] 1"),
        ({"activation": ov.relu}, r"models\[1\] has activation = .*relu.*ov.sweep takes others"),
        ({"teacher_activation": ov.linear}, r"models\[1\] has teacher_activation"),
        ({"eta_v": 0.1}, r"models\[1\] has trains_v = True"),
    ],
)
def test_models_of_another_shape_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        ov.solve_many([MODEL, dataclasses.replace(MODEL, **change)], MODEL.random_start(N=1200, rng=1), ALPHA)


@pytest.mark.parametrize(
    "arguments, options, words",
    [
        ([[], None, ALPHA], {}, "models = \\[\\]; expected at least one"),
        ([[MODEL, 3], None, ALPHA], {}, r"models\[1\] = 3; expected a Model"),
        ([MODEL, [None, 3], ALPHA], {}, r"starts\[1\] = 3; expected a State"),
        ([[MODEL] * 2, [None] * 3, ALPHA], {}, "2 models and 3 starts"),
        ([MODEL, None, ALPHA], {"threads": 0}, "threads = 0"),
        ([MODEL, None, ALPHA], {"max_memory": 100.0}, r"takes? .* GB; expected below max_memory"),
        ([MODEL, None, ALPHA], {"late": True}, "solve_many does not support late=True"),
        ([MODEL, None, ALPHA], {"vectorized": True}, "no option vectorized"),
    ],
)
def test_bad_input_is_refused(arguments, options, words):
    good = MODEL.random_start(N=1200, rng=1)
    models, starts, alpha = arguments
    starts = [good if x is None else x for x in starts] if isinstance(starts, list) else good
    with pytest.raises(ValueError, match=words):
        ov.solve_many(models, starts, alpha, **options)


def test_a_start_that_does_not_fit_is_named():
    wrong = ov.committee_machine(1, 1, eta=0.1).random_start(N=100, rng=1)
    with pytest.raises(ValueError, match=r"starts\[1\]: the state has"):
        ov.solve_many(MODEL, [MODEL.random_start(N=1200, rng=1), wrong], ALPHA)
    good = MODEL.random_start(N=1200, rng=1)
    for change, words in (
        ({"r": good.r + 5.0}, r"\[\[q, r\], \[r\^T, tau\]\].* is not positive semi-definite"),
        ({"T": 1e-4 * good.T}, r"\[\[Q, R\], \[R\^T, T\]\].* is not positive semi-definite"),
        ({"q": 1e75 * good.q}, "the largest overlap is"),
    ):
        with pytest.raises(ValueError, match=rf"starts\[1\]: {words}"):
            ov.solve_many(MODEL, [good, dataclasses.replace(good, **change)], ALPHA)


def test_starts_of_other_eigenvalues_take_those_of_the_model():
    other = dataclasses.replace(MODEL, spectrum=ov.Spectrum(1.3 * MODEL.spectrum.s, MODEL.spectrum.p))
    start = other.random_start(N=1200, rng=2)
    one = ov.solve(MODEL, start, [0.0, 0.4])
    both = ov.solve_many(MODEL, [MODEL.random_start(N=1200, rng=1), start], [0.0, 0.4])
    assert np.array_equal(both[1].Q, one.Q) and np.array_equal(both[1].eps_g, one.eps_g)


def test_failures_warn_once_and_keep_what_was_computed():
    models = diverging()
    with pytest.warns(RuntimeWarning, match=r"2 of 3 trajectories did not succeed; number 1: stopped at alpha"):
        batch = ov.solve_many(models, models[0].random_start(N=1200, rng=1), ALPHA)
    assert batch.success.tolist() == [True, False, False]
    assert np.isfinite(batch.eps_g[0]).all() and np.isfinite(batch.eps_g[1, 0]) and np.isnan(batch.eps_g[1, -1])


@pytest.mark.parametrize("run_simd", [False, True])
def test_ctrl_c_returns_what_is_finished(monkeypatch, run_simd):
    """The signal arrives while long trajectories are under way; what is behind it says so."""
    model = dataclasses.replace(MODEL, eta=0.4)
    models, start = [model] * (10_000 if run_simd else 3000), model.random_start(N=1200, rng=1)
    seen, begun = [], threading.Event()
    name = "run_simd" if run_simd else "advance_batch"
    advance = getattr(overlaps.integrators.batch, name)

    def watched(*arguments):
        begun.set()
        return advance(*arguments)

    monkeypatch.setattr(f"overlaps.integrators.batch.{name}", watched)

    def press():
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where pytest runs in the background
    try:
        presser.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batch = ov.solve_many(models, start, [0.0, 2000.0], threads=2, progress=False, simd=run_simd)
        seen.append(str(caught[0].message))
    finally:
        presser.join()
        signal.signal(signal.SIGINT, previous)
    done = batch.success
    assert 0 < np.sum(~done) and f"{np.sum(~done)} of {len(models)} trajectories did not succeed" in seen[0]
    lost = int(np.flatnonzero(~done)[0])
    assert "interrupted" in batch.message[lost] and np.isnan(batch.eps_g[lost]).all()
    with pytest.raises(ValueError, match="interrupted before it was finished"):
        batch[lost]
    if done.any():
        alone = ov.solve_many([model], start, [0.0, 2000.0], simd=True)[0]
        alone = alone if run_simd else ov.solve(model, start, [0.0, 2000.0])
        assert batch[int(np.argmax(done))] == alone


def falls_silent(after):
    """A schedule that answers the questions asked before the integration, and raises during it."""
    calls = []

    def factor(alpha):
        calls.append(alpha)
        if len(calls) > after:
            raise ArithmeticError("no factor left")
        return 0.8

    return ov.Schedule.from_function(factor)


def test_a_trajectory_that_raises_costs_no_other():
    models = variants(MODEL, eta=[0.1, 0.3, 0.5])
    start = MODEL.random_start(N=1200, rng=1)
    alone = many(models[::2], start, ALPHA, threads=1)
    with pytest.warns(RuntimeWarning, match="1 of 3 trajectories did not succeed; number 1: ArithmeticError: no fac"):
        batch = ov.solve_many(models, start, ALPHA, threads=1, schedule=[None, falls_silent(300), None])
    assert batch.success.tolist() == [True, False, True]
    assert batch.message[1] == "ArithmeticError: no factor left" and np.isnan(batch.eps_g[1]).all()
    assert batch[0] == alone[0] and batch[2] == alone[1]


def test_the_start_alone_is_a_record():
    """No step is made, and no record behind the only one is written to."""
    start = MODEL.random_start(N=1200, rng=1)
    batch = ov.solve_many(variants(MODEL, eta=[0.1, 0.3]), start, [0.0])
    alone = ov.solve(dataclasses.replace(MODEL, eta=0.3), start, [0.0])
    assert np.array_equal(batch.Q[1], alone.Q) and np.array_equal(batch.eps_g[1], alone.eps_g) and batch.success.all()


def test_no_trajectory_begins_where_one_is_refused(monkeypatch):
    models = [MODEL, MODEL, dataclasses.replace(MODEL, constraint="sphere")]
    monkeypatch.setattr(overlaps.integrators.batch, "run_all", None)
    with pytest.raises(
        ValueError, match=r"method = 'structured' does not support students of fixed norm.*models\[2\] = "
    ):
        ov.solve_many(models, MODEL.random_start(N=1200, rng=1), ALPHA, method="structured")


def test_the_exception_of_all_is_raised_with_its_cause():
    start = MODEL.random_start(N=1200, rng=1)
    with pytest.raises(RuntimeError, match="no trajectory succeeded; number 0: ArithmeticError") as caught:
        ov.solve_many([MODEL] * 2, start, ALPHA, schedule=[falls_silent(300), falls_silent(300)])
    assert isinstance(caught.value.__cause__, ArithmeticError)
    with pytest.raises(ValueError, match="number 0: ValueError: stop returned nan"):
        ov.solve_many(variants(MODEL, eta=[0.3, 0.5]), start, ALPHA, stop=lambda alpha, state: np.nan)


def test_progress_counts_trajectories(capsys):
    ov.solve_many([MODEL] * 5, MODEL.random_start(N=1200, rng=1), ALPHA, progress=True)
    assert "5/5 trajectories" in capsys.readouterr().err


@pytest.mark.slow
def test_memory_stays_below_three_times_the_result():
    models = variants(MODEL, eta=list(np.linspace(0.1, 1.0, 200)))
    start, alpha = MODEL.random_start(N=1200, rng=1), np.linspace(0.0, 1.0, 101)
    ov.solve_many(models, start, alpha)  # compiles, which takes memory of its own
    tracemalloc.start()
    batch = ov.solve_many(models, start, alpha, threads=2)
    batch.eps_g  # noqa: B018
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    result = sum(getattr(batch, name).nbytes for name in ("Q", "R", "v", "eps_g"))
    assert peak < 3 * result


def test_schedules_of_a_batch_are_those_of_solve(tmp_path):
    """One for all, or one for each: cosine, stepped noise, none."""
    models = variants(MODEL, eta=[0.3, 0.5, 0.8])
    start = models[0].random_start(N=1200, rng=1)
    each = [ov.Schedule.cosine(10.0, last=0.1), {"noise": ov.Schedule.step([5.0], [0.5])}, None]
    batch = many(models, start, ALPHA, schedule=each)
    for i, (model, schedule) in enumerate(zip(models, each, strict=True)):
        assert batch[i] == ov.solve(model, start, ALPHA, schedule=schedule)
    assert np.abs(batch.eps_g / many(models, start, ALPHA).eps_g - 1)[:2, -1].min() > 1e-3
    batch.save(tmp_path / "batch.npz")
    assert ov.load(tmp_path / "batch.npz") == batch
    together = many(models, start, ALPHA, schedule=each[0], blocks=False)
    assert together[1] == ov.solve(models[1], start, ALPHA, schedule=each[0], blocks=False)
    assert together[1].eta[-1] == pytest.approx(0.05)
    alone = many(models[0], start, ALPHA, schedule=each)  # one model, three schedules
    assert len(alone) == 3 and alone[0] == batch[0]


def test_schedules_of_built_in_shapes_are_stepped_in_compiled_code(monkeypatch):
    """All five factors, jumps between output times, two layers, three eigenvalues: digits and evaluations of solve."""
    rich = ov.committee_machine(
        3, 2, eta=0.8, eta_v=0.5, noise=0.3, weight_decay=(0.05, 0.1), batch_size=2, spectrum=ov.power_law(beta=1, L=3)
    )  # fmt: skip
    models, S = variants(rich, eta=[0.3, 0.5, 0.8, 0.9]), ov.Schedule
    start = dataclasses.replace(rich.random_start(N=30_000, rng=1), alpha=0.5)
    one = {
        "eta": S.warmup(2.0) * S.step([3.3], [0.5]), "eta_v": S.step([1.7], [2.0]), "noise": S.power(0.5, scale=2.0),
        "weight_decay": S.cosine(4.0, last=0.2), "batch_size": S.step([2.5], [1.5]),
    }  # fmt: skip
    python = S.from_function(lambda alpha: 1 / (1 + alpha))
    each, times = [one, None, one, python], [1.0, 2.0, 4.0, 5.0]
    expected = [ov.solve(*x, times, schedule=f) for *x, f in zip(models, [start] * 4, each, strict=True)]
    evolve, asked = overlaps.integrators.batch.evolve, []
    monkeypatch.setattr(
        "overlaps.integrators.batch.evolve",
        lambda *x, schedule, **options: asked.append(schedule) or evolve(*x, schedule=schedule, **options),
    )
    batch = many(models, start, times, schedule=each)
    assert asked == [python]  # the only one whose steps call Python
    for i, traj in enumerate(expected):
        assert batch[i] == traj and batch.nfev[i] == traj.nfev
    stopped = many(models[:1], start, times, schedule=one, stop=float(expected[0].eps_g[1]))
    assert stopped.end[0] == pytest.approx(2.0) and asked[1:] == [one]


@pytest.mark.parametrize(
    "schedule, words",
    [
        ([None] * 4, "there are 3 models and 4 schedules"),
        ([None, 0.5, None], r"schedule\[1\] = 0.5; expected a Schedule"),
        ({"weight_decay": ov.Schedule.cosine(1.0)}, "weight_decay is 0 in the model"),
    ],
)
def test_schedules_that_are_none_are_refused_before_any_work(schedule, words):
    models = variants(MODEL, eta=[0.3, 0.5, 0.8])
    with pytest.raises(ValueError, match=words):
        ov.solve_many(models, models[0].random_start(N=1200, rng=1), ALPHA, schedule=schedule)


@pytest.mark.parametrize("method", ["DOP853", "structured", "BDF"])
def test_a_single_time_takes_any_first_step(method):
    """The start alone: no step is made."""
    start, options = MODEL.random_start(N=300, rng=1), {"first_step": 0.3, "method": method}
    found, many = ov.solve(MODEL, start, [0.0], **options), ov.solve_many([MODEL], start, [0.0], **options)
    assert found.success and found.eps_g.tolist() == many.eps_g[0].tolist() == ov.solve(MODEL, start, [0.0]).eps_g
