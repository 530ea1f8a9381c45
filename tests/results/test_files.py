"""Files: what was saved comes back, and what is damaged, foreign or another model's is refused."""

import dataclasses
import json
import os

import numpy as np
import pytest

import overlaps as ov
from overlaps.results import files


def test_load_gives_back_an_equal_object(results, tmp_path):
    for result in results:
        path = tmp_path / "result.npz"
        result.save(path)
        again = ov.load(path)
        assert again == result and again.model == result.model
        np.testing.assert_array_equal(again.eps_g, result.eps_g)
    assert [p.name for p in tmp_path.iterdir()] == ["result.npz"]
    results[0].save(tmp_path / "plain")
    assert ov.load(tmp_path / "plain.npz") == results[0]


def test_saving_is_all_or_nothing(results, tmp_path, monkeypatch):
    path = tmp_path / "result.npz"
    results[0].save(path)
    before = path.read_bytes()

    def full_disk(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="disk full"):
        results[1].save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_files_that_cannot_be_read_say_why(results, tmp_path):
    np.savez(tmp_path / "foreign.npz", x=1)
    with pytest.raises(ValueError, match="not written by overlaps"):
        ov.load(tmp_path / "foreign.npz")
    np.savez(tmp_path / "future.npz", header=json.dumps({"format": 99, "version": "9.0"}))
    with pytest.raises(ValueError, match=r"format 99 \(overlaps 9.0\)"):
        ov.load(tmp_path / "future.npz")
    model = dataclasses.replace(results[0].model, activation=dataclasses.replace(ov.erf, name="mine"))
    dataclasses.replace(results[0], model=model).save(tmp_path / "user.npz")
    with pytest.raises(ValueError, match="'mine'.*model="):
        ov.load(tmp_path / "user.npz")
    assert ov.load(tmp_path / "user.npz", model=model).model is model


@pytest.mark.parametrize("role", ["activation", "teacher_activation"])
@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("activation", [ov.leaky_relu(1 / 3), ov.polynomial([0.1, -3, 0, 1 / 7])], ids=repr)
def test_activations_with_parameters_are_in_the_file(activation, name, role, results, tmp_path):
    """All digits of the parameters, which the printed name has not."""
    activation = dataclasses.replace(activation, name=name or activation.name)
    saved = dataclasses.replace(results[0], model=dataclasses.replace(results[0].model, **{role: activation}))
    saved.save(tmp_path / "run.npz")
    found = ov.load(tmp_path / "run.npz")
    assert found == saved
    assert getattr(found.model, role)(np.pi) == activation(np.pi)


def test_a_user_function_is_not_taken_for_a_built_in_one(results, tmp_path):
    """A function that someone called erf: the name is not enough to load it."""
    mine = ov.Activation.from_function(np.tanh, lambda x: 1 - np.tanh(x) ** 2, name="erf")
    saved = dataclasses.replace(results[0], model=dataclasses.replace(results[0].model, activation=mine))
    saved.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="'function erf'.*model="):
        ov.load(tmp_path / "run.npz")
    assert ov.load(tmp_path / "run.npz", model=saved.model) == saved


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o027, 0o640)])
def test_files_have_the_permissions_of_any_new_file(results, tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        results[0].save(tmp_path / "run.npz")
    finally:
        os.umask(before)
    assert (tmp_path / "run.npz").stat().st_mode & 0o777 == mode
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def contents(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


@pytest.mark.parametrize("which", [0, 1])
def test_damaged_bytes_are_a_sentence_or_do_not_matter(results, tmp_path, which):
    """One bit anywhere, or any end cut off: a ValueError that names the file, or the same result."""
    path, broken = tmp_path / "run.npz", tmp_path / "broken.npz"
    results[which].save(path)
    intact, rng = path.read_bytes(), np.random.default_rng(1)
    damaged = [intact[:at] for at in range(0, len(intact), len(intact) // 40)]
    for at in rng.integers(len(intact), size=200).tolist():
        damaged.append(intact[:at] + bytes([intact[at] ^ (1 << rng.integers(8))]) + intact[at + 1 :])
    refused = 0
    for data in damaged:
        broken.write_bytes(data)
        try:
            assert ov.load(broken) == results[which]  # a bit of a date, say
        except ValueError as error:
            refused += 1
            assert str(error).startswith(str(broken)) and "damaged" in str(error) and "\n" not in str(error)
    assert refused > len(damaged) / 2


def edited_head(**changes):
    def edit(data):
        head = json.loads(str(data["header"]))
        for name, value in changes.items():
            *parts, last = name.split("__")
            place = head
            for part in parts:
                place = place[part]
            place[last] = value
            if value is None:
                del place[last]
        return data | {"header": json.dumps(head)}

    return edit


def without(name):
    return lambda data: {x: a for x, a in data.items() if x != name}


EDITS = {
    "other shape": (lambda d: d | {"q": d["q"][:, :1]}, r"q is of shape \(\d+, 1, 2, 2\)"),
    "another number of times": (lambda d: d | {"v": d["v"][1:]}, "v is of shape|q is of shape"),
    "teachers of another size": (lambda d: d | {"T": np.eye(3)}, r"T is of shape \(3, 3\)"),
    "one number": (lambda d: d | {"v": np.array(1.0)}, "damaged"),
    "integers": (lambda d: d | {"T": np.eye(2, dtype=int)}, "T is of shape .* type int"),
    "nan": (lambda d: d | {"r": d["r"] * np.nan}, "r contains nan"),
    "times": (lambda d: d | {"alpha": d["alpha"][::-1]}, "alpha does not increase"),
    "no blocks": (without("q"), "'q'"),
    "no second layer": (without("model.v"), "no entry 'model.v'"),
    "no entry that older files lack": (without("eps_error"), "no entry 'eps_error'"),
    "no weights": (without("spectrum.p"), "no entry 'spectrum.p'"),
    "a rate below zero": (edited_head(model__eta=-1.0), "eta = -1"),
    "no rate": (edited_head(model__eta=None), "'eta'"),
    "no model": (edited_head(model=None), "no entry 'model'"),
    "no result": (edited_head(result=None), "no entry 'result'"),
    "no tolerance": (edited_head(result__rtol=None), "'rtol'"),
    "a tolerance in words": (edited_head(result__rtol="small"), "rtol = 'small'"),
    "an unknown field": (edited_head(result__mine=1), "mine"),
    "an unknown kind": (edited_head(kind="Thesis"), "no entry 'Thesis'"),
    "another kind": (edited_head(kind="State"), "damaged"),
    "no format": (edited_head(format=None), "header is damaged.*no entry 'format'"),
    "a header that is none": (lambda d: d | {"header": "[1, 2"}, "header is damaged"),
    "a header of another type": (lambda d: d | {"header": "3"}, "header is damaged"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_files_are_damaged_files(name, results, tmp_path):
    edit, words = EDITS[name]
    path = tmp_path / "run.npz"
    results[0].save(path)
    np.savez(path, **edit(contents(path)))
    with pytest.raises(ValueError, match=words) as caught:
        ov.load(path)
    assert str(path) in str(caught.value) and "damaged" in str(caught.value)


def test_runs_that_ended_early_may_hold_nan_and_no_others(results, tmp_path):
    path = tmp_path / "run.npz"
    q = results[1].q.copy()
    q[1, 3:] = np.nan
    cut = dataclasses.replace(results[1], q=q)
    cut.save(path)
    with pytest.raises(ValueError, match="q contains nan"):
        ov.load(path)
    cut = dataclasses.replace(cut, success=False)
    cut.save(path)
    assert ov.load(path) == cut


WRONG = {
    "eta": dict(eta=0.5),
    "noise": dict(noise=0.0),
    "weight_decay": dict(weight_decay=(0.0, 0.1)),
    "batch_size": dict(batch_size=2),
    "gradient_flow": dict(gradient_flow=True),
    "model.v": dict(v=[1.0, 1.0, 1.0]),
    "model.v_star": dict(v_star=[1.0, 2.0]),
    "spectrum.s": dict(spectrum=ov.power_law(beta=0.9, L=2)),
    "spectrum.p": dict(spectrum=ov.Spectrum(ov.power_law(beta=1.0, L=2).s, [0.25, 0.75])),
    "spectrum.basis": dict(spectrum=ov.Spectrum(ov.power_law(beta=1.0, L=2).s, basis=np.eye(2))),
    "activation": dict(activation=ov.relu),
    "teacher_activation": dict(teacher_activation=ov.relu),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_is_not_the_one_saved_is_refused(name, results, tmp_path):
    path = tmp_path / "run.npz"
    results[0].save(path)
    model = results[0].model
    assert ov.load(path, model=dataclasses.replace(model)) == results[0]
    with pytest.raises(ValueError, match=rf"{name} = .*the file .*expected the model that was saved"):
        ov.load(path, model=dataclasses.replace(model, **WRONG[name]))


def test_what_is_no_model_and_functions_of_the_same_name_are_refused(results, tmp_path):
    path = tmp_path / "run.npz"
    mine = ov.Activation.from_function(np.tanh, lambda x: 1 - np.tanh(x) ** 2, name="mine")
    other = ov.Activation.from_function(np.sin, np.cos, name="mine")
    models = [dataclasses.replace(results[0].model, activation=g, eta_v=0.0) for g in (mine, other)]
    dataclasses.replace(results[0], model=models[0]).save(path)
    assert ov.load(path, model=models[0]).model == models[0]
    with pytest.raises(ValueError, match="the activation of the model is not that of the file"):
        ov.load(path, model=models[1])
    with pytest.raises(ValueError, match="model = 3; expected a Model"):
        ov.load(path, model=3)
    with pytest.raises(ValueError, match="expected the Model that was saved"):
        ov.load(path, model=ov.hidden_manifold(2, 2, ratio=0.5, eta=1.0))


def test_files_of_runs_on_the_hidden_manifold(tmp_path):
    path = tmp_path / "run.npz"
    model = ov.hidden_manifold(2, 1, features="sign", ratio=0.5, nodes=4, eta=0.2)
    runs = ov.simulate(model, N=20, alpha=[0, 1], rng=1, runs=3)
    runs.save(path)
    assert ov.load(path) == runs == ov.load(path, model=model)
    with pytest.raises(ValueError, match="nodes = 5, the file 4"):
        ov.load(path, model=dataclasses.replace(model, nodes=5))
    np.savez(path, **contents(path) | {"F": runs.F[:, :, 1:]})
    with pytest.raises(ValueError, match="is damaged: .* is of shape"):
        ov.load(path)
    tested = ov.simulate(model, N=20, alpha=[0, 1], rng=1, runs=3, test=10)
    tested.save(path)
    assert ov.load(path) == tested != runs


def test_files_without_kinds_are_known_by_what_they_hold(tmp_path):
    """Those of the first release: a hidden manifold by its numbers, its limit spectrum by the name."""
    model = ov.hidden_manifold(2, 1, features="sign", ratio=0.5, nodes=4, eta=0.2)
    traj = ov.solve(model, model.random_start(N=100, rng=1), [0, 1])
    traj.save(tmp_path / "run.npz")
    np.savez(tmp_path / "run.npz", **edited_head(kinds=None)(contents(tmp_path / "run.npz")))
    found = ov.load(tmp_path / "run.npz")
    assert found == traj and type(found.model) is type(model)
    assert dataclasses.replace(found.model, nodes=5) == dataclasses.replace(model, nodes=5)


def test_a_label_does_not_make_a_spectrum_that_of_the_limit(tmp_path):
    """The user's spectrum stays, whatever it is called; that of the limit follows its parameters."""
    limit = ov.hidden_manifold(2, 1, features="sign", ratio=0.5, nodes=4, eta=0.2)
    called = ov.Spectrum([2.0, 0.5], [0.2, 0.8], name=limit.spectrum.name)
    model = dataclasses.replace(limit, spectrum=called)
    np.testing.assert_array_equal(model.spectrum.s, [2.0, 0.5])
    with pytest.raises(ValueError, match="belongs to the limit spectrum"):
        model.random_start(N=100, rng=1)
    half = np.full((2, 2, 2), 0.5) + 0.1 * np.eye(2)
    start = ov.State(q=half, r=np.zeros((2, 2, 1)), tau=np.full((2, 1, 1), 0.1), T=[[1.0]], v=[1.0, 1.0])
    traj = ov.solve(model, start, [0, 1])
    traj.save(tmp_path / "run.npz")
    assert ov.load(tmp_path / "run.npz") == traj
    other = dataclasses.replace(limit, spectrum=ov.Spectrum(limit.spectrum.s, limit.spectrum.p, name="mine"))
    assert dataclasses.replace(other, nodes=5).spectrum is other.spectrum != limit.spectrum
    renamed = dataclasses.replace(limit, spectrum=dataclasses.replace(limit.spectrum, name="renamed"))
    assert dataclasses.replace(renamed, nodes=5) == dataclasses.replace(limit, nodes=5)


def test_schedules_are_kept_by_recipe(tmp_path):
    model = ov.committee_machine(2, 1, eta=0.5, noise=0.2)
    start = model.random_start(N=100, rng=1)
    f = ov.Schedule.warmup(1.0) * ov.Schedule.power(0.5, scale=2.0)
    mine = ov.Schedule.from_function(lambda a: 1 / (1 + a), knots=[0.5])
    for schedule in (f, {"eta": f, "noise": ov.Schedule.step([1.0], [0.3])}, {"eta": mine * f}):
        for result in (
            ov.solve(model, start, (0, 2), schedule=schedule),
            ov.simulate(model, N=100, alpha=[0, 1, 2], rng=1, runs=2, schedule=schedule),
        ):
            result.save(tmp_path / "run.npz")
            if isinstance(schedule, dict) and schedule["eta"] is not f:
                with pytest.raises(ValueError, match=r"user function.*load\(path, schedule=\.\.\.\)"):
                    ov.load(tmp_path / "run.npz")
                with pytest.raises(ValueError, match="not the one that was saved"):
                    ov.load(tmp_path / "run.npz", schedule=mine)
                same = ov.load(tmp_path / "run.npz", schedule=schedule)
            else:
                same = ov.load(tmp_path / "run.npz")
            assert same == result and same.schedule == schedule
            np.testing.assert_array_equal(same.eta, result.eta)


def test_states_and_fixed_points_are_kept_whole(tmp_path):
    model = ov.committee_machine(2, 1, eta=0.5, v=[1.0, 0.5], spectrum=ov.power_law(beta=1.0, L=3), gradient_flow=True)
    start = dataclasses.replace(model.random_start(N=300, rng=1), alpha=2.5)
    point = ov.fixed_point(model, ov.solve(model, start, [60.0])[-1])
    for record in (start, point, dataclasses.replace(start, s=None)):
        ov.save(record, tmp_path / "one.npz")
        again = ov.load(tmp_path / "one.npz")
        assert again == record and type(again) is type(record)
    assert ov.load(tmp_path / "one.npz").alpha == 2.5  # equality does not ask for the time
    with pytest.raises(ValueError, match="result = Model.*expected a Trajectory"):
        ov.save(model, tmp_path / "model.npz")
    ov.save(start, tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz") as data:
        damaged = {name: data[name][..., :1] if name == "q" else data[name] for name in data.files}
    np.savez(tmp_path / "one.npz", **damaged)
    with pytest.raises(ValueError, match="one.npz is damaged"):
        ov.load(tmp_path / "one.npz")


@pytest.fixture(params=[ov.erf, "sine"], ids=str)
def small(request):
    """A record of fluctuations that nothing computed, around a curve of a known and of a user's function."""
    mine = dataclasses.replace(ov.erf, name="sine") if request.param == "sine" else ov.erf
    model = ov.committee_machine(1, 1, eta=0.5, activation=mine)
    traj = ov.solve(model, ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.1]]), [0, 0.5, 1.0])
    arrays = (np.ones((3, *shape)) for shape in ((2, 2), (2,), (2,), ()))
    return ov.results.Fluctuations(traj, 300, "fixed", *arrays, 0.01)


def test_fluctuations_are_kept_whole(small, tmp_path):
    """With the trajectory; arrays of other lengths are damage."""
    path, own = tmp_path / "fluct.npz", small.model.activation.name == "sine"
    small.save(path)
    given = {"model": small.model} if own else {}
    found = ov.load(path, **given)
    assert found == small and found.trajectory == small.trajectory and found.at_N(600).N == 600
    if own:
        with pytest.raises(ValueError, match="'sine'.*model="):
            ov.load(path)
    ov.save(dataclasses.replace(small, bends=np.ones(2)), path)
    with pytest.raises(ValueError, match=r"is damaged: bends is of shape \(2,\)"):
        ov.load(path, **given)


def test_what_has_a_model_and_no_file_is_refused(tmp_path):
    """It had been written, and no load could read it."""
    model = ov.committee_machine(1, 1, eta=0.5)
    state = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.1]])
    for result in (ov.linearise(model, state), ov.hessian(model, state), ov.Stages([model, model], [1.0, 2.0])):
        with pytest.raises(ValueError, match="expected a Trajectory, a Batch, an Ensemble, Fluctuations, a Sweep"):
            ov.save(result, tmp_path / "result.npz")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["x.csv", "x.JSON", "x.h5", "run.v1.pkl"])
def test_endings_of_other_formats_are_refused(name, tmp_path):
    state = ov.committee_machine(1, 1, eta=0.5).random_start(N=50, rng=1)
    with pytest.raises(ValueError, match="expected a name that ends in .npz; for tables there are to_pandas"):
        ov.save(state, tmp_path / name)
    assert not [*tmp_path.iterdir()]
    ov.save(state, tmp_path / "run_eta0.5")
    assert [x.name for x in tmp_path.iterdir()] == ["run_eta0.5.npz"]


@pytest.mark.parametrize("place", ["header", "result"])
def test_headers_of_endless_depth_are_damaged(place, results, tmp_path):
    path = tmp_path / "deep.npz"
    if place == "header":
        np.savez(path, header="[" * 200_000)
    else:  # about as deep as JSON is read
        ov.save(ov.sweep(lambda x: x, {"x": [1]}), path)
        head = json.loads(str(contents(path)["header"]))
        text = json.dumps(head).replace('{"plain": 1}', '{"list": [' * 480 + '{"plain": 1}' + "]}" * 480)
        np.savez(path, header=text)
    with pytest.raises(ValueError, match="damaged") as caught:
        ov.load(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 300


def test_arrays_that_no_result_has_are_not_read(results, tmp_path, monkeypatch):
    """A file of a megabyte may hold two gigabytes of zeros; and no array is read before the format is known."""
    path, read = tmp_path / "run.npz", []
    results[0].save(path)
    data = contents(path) | {"mine": np.zeros(3), "parts0/q": np.zeros(3), "models": np.zeros(3)}
    np.savez(path, **data)
    real = np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda self, name: read.append(name) or real(self, name))
    assert ov.load(path) == results[0]
    assert read[0] == "header" and len(read) == len(set(read)) and not {"mine", "parts0/q", "models"} & {*read}
    np.savez(path, **data | {"header": json.dumps({"format": 99, "version": "9.0"})})
    read.clear()
    with pytest.raises(ValueError, match="format 99"):
        ov.load(path)
    assert read == ["header"]


def test_a_header_that_fills_the_memory_is_damaged(results, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    results[0].save(path)
    monkeypatch.setattr(files, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ValueError, match="a header of more than 100 bytes"):
        ov.load(path)
