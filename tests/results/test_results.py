"""Saving, loading, plotting; the import and the cache; the command line."""

import ast
import dataclasses
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.integrate import RK45

import overlaps as ov
from overlaps.__main__ import main
from overlaps.results import plotting

SOURCE = Path(ov.__file__).parent


@pytest.fixture
def results():
    model = ov.committee_machine(
        2, 2, eta=1.0, eta_v=0.1, noise=0.1, weight_decay=(0.1, 0.0), spectrum=ov.power_law(beta=1.0, L=2)
    )
    sim = ov.simulate(model, N=100, alpha=np.linspace(0, 5, 6), rng=1, runs=3)
    return ov.solve(model, sim.start(0), (0, 5)), sim


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


# files that were damaged or are another model's ----------------------------------------------------------------------


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


# what cannot be changed -----------------------------------------------------------------------------------------------


def test_results_are_read_only_here_and_after_a_worker(results, tmp_path):
    manifold = ov.simulate(ov.hidden_manifold(2, 2, ratio=0.5, eta=0.2), N=20, alpha=[0, 1], rng=1, runs=2)
    for result in (*results, manifold):
        result.save(tmp_path / "run.npz")
        for copy in (result, pickle.loads(pickle.dumps(result)), ov.load(tmp_path / "run.npz")):
            names = [f.name for f in dataclasses.fields(copy) if isinstance(getattr(copy, f.name), np.ndarray)]
            assert {"alpha", "v", "T"} < set(names)
            for name in (*names, "eps_g"):
                with pytest.raises(ValueError, match="read-only"):
                    getattr(copy, name)[...] = 0.0
    model = pickle.loads(pickle.dumps(results[0].model))
    with pytest.raises(ValueError, match="read-only"):
        model.v[...] = 0.0


def test_a_changed_copy_has_an_error_of_its_own(results):
    traj = results[0]
    before = traj.eps_g
    changed = dataclasses.replace(traj, v=2 * traj.v)
    expected = ov.closure(traj.model, traj.Q[-1], traj.R[-1], traj.T, 2 * traj.v[-1]).eps_g
    assert changed.eps_g[-1] == pytest.approx(expected, rel=1e-12) and changed.eps_g[-1] != before[-1]


class MyRK45(RK45):
    """A solver of the user's."""


@pytest.mark.parametrize("method", [MyRK45, "RK23", "structured", "exponential", "auto"])
def test_at_integrates_with_the_solver_of_the_trajectory(method, results, tmp_path):
    model, start = results[0].model, results[1].start(0)
    traj = ov.solve(model, start, [0.0, 1.0, 3.0], method=method, rtol=1e-6)
    exact = ov.solve(model, start, [0.0, 2.0], rtol=1e-10)[1]
    np.testing.assert_allclose(traj.at(2.0).Q, exact.Q, rtol=1e-4)
    traj.save(tmp_path / "run.npz")
    found = ov.load(tmp_path / "run.npz")
    assert found.at(1.0) == traj[1]
    if method is not MyRK45:
        assert found == traj and found.at(2.0) == traj.at(2.0)
        return
    with pytest.raises(ValueError, match=r"lies between records.*MyRK45.*solver=TheClass"):
        found.at(2.0)
    assert dataclasses.replace(found, solver=MyRK45).at(2.0) == traj.at(2.0)


def test_statistics_of_runs(results):
    _, sim = results
    np.testing.assert_allclose(sim.mean("Q"), sim.Q.mean(axis=0))
    np.testing.assert_allclose(sim.standard_error("eps_g"), sim.eps_g.std(axis=0, ddof=1) / np.sqrt(3))
    low, high = sim.quantile("R", [0.0, 1.0])
    assert np.all(low <= sim.mean("R")) and np.all(sim.mean("R") <= high)
    one = ov.simulate(sim.model, N=100, alpha=[0, 1], rng=1)
    with pytest.raises(ValueError, match="runs >= 2"):
        one.standard_error("Q")


def test_one_call_draws_labelled_axes_and_a_second_one_draws_on_top(results):
    theory, sim = results
    ax = theory.plot()
    assert len(ax) == 2 and all("alpha" in a.get_xlabel() and a.get_ylabel() for a in ax)
    lines = [len(a.lines) for a in ax]
    assert lines == [1, 3 + 4 + 2]  # Q upper triangle, R, and v because it is trained
    colors = [line.get_color() for line in ax[1].lines]
    assert sim.plot(ax=ax, marker="s") is ax
    assert [len(a.lines) for a in ax] == [2, 18]
    for a, b in zip(colors, [line.get_color() for line in ax[1].lines[9:]], strict=True):
        np.testing.assert_array_equal(a, b)  # markers in the colour of their lines
    assert len(ax[1].collections) == 9  # bands
    single = plt.figure().add_subplot()
    assert theory.plot(ax=single) is single and len(single.lines) == 1
    plt.close("all")


@pytest.fixture
def drawn():
    """Results with K != M, a trained second layer and runs whose quantiles are no mirror images of each other."""
    model = ov.committee_machine(2, 3, eta=1.0, eta_v=0.3, v=[0.5, 1.5], v_star=[1.0, 0.5, 2.0])
    start = ov.State.from_overlaps(
        model, Q=[[0.5, 0.1], [0.1, 0.3]], R=[[0.1, 0.2, 0.0], [0.05, -0.1, 0.3]], T=np.diag([1.0, 0.8, 0.6])
    )
    times = np.linspace(0, 3, 4)
    yield ov.solve(model, start, times), ov.simulate(model, N=50, alpha=times, rng=1, start=start, runs=5)
    plt.close("all")


def curves_of(result):
    """What has to be drawn, by its label."""
    Q, R, v = result.Q, result.R, result.v
    return (
        {f"$Q_{{{i + 1}{j + 1}}}$": Q[..., i, j] for i in range(2) for j in range(i, 2)}
        | {f"$R_{{{k + 1}{m + 1}}}$": R[..., k, m] for k in range(2) for m in range(3)}
        | {f"$v_{{{k + 1}}}$": v[..., k] for k in range(2)}
    )


def test_every_line_is_its_own_curve(drawn):
    """Student index before teacher index, each number as it is."""
    theory, sim = drawn
    axes = theory.plot()
    np.testing.assert_array_equal(axes[0].lines[0].get_xydata(), np.transpose([theory.alpha, theory.eps_g]))
    assert axes[0].lines[0].get_label().startswith("ODE") and "generalisation error" in axes[0].get_ylabel()
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == list(curves_of(theory))
    for line, (label, curve) in zip(axes[1].lines, curves_of(theory).items(), strict=True):
        assert line.get_label() == label
        np.testing.assert_array_equal(line.get_xydata(), np.transpose([theory.alpha, curve]))
    sim.plot(ax=axes)
    assert axes[0].lines[1].get_label() == "SGD, N = 50"
    runs = [sim.eps_g, *curves_of(sim).values()]
    for line, curve in zip([axes[0].lines[1], *axes[1].lines[11:]], runs, strict=True):
        np.testing.assert_allclose(line.get_xydata(), np.transpose([sim.alpha, curve.mean(axis=0)]), rtol=1e-14)


def test_bands_lie_between_their_quantiles(drawn):
    sim = drawn[1]
    axes = sim.plot()
    bands = [*axes[0].collections, *axes[1].collections]
    for band, curve in zip(bands, [sim.eps_g, *curves_of(sim).values()], strict=True):
        corners = band.get_paths()[0].vertices
        for i, alpha in enumerate(sim.alpha):
            heights = corners[corners[:, 0] == alpha, 1]
            ends = np.sort(curve[:, i])
            # five runs: the levels 0.16 and 0.84 lie 0.64 steps from the lowest and highest run
            low, high = ends[0] + 0.64 * (ends[1] - ends[0]), ends[-1] - 0.64 * (ends[-1] - ends[-2])
            assert heights.min() == pytest.approx(low, abs=1e-12) and heights.max() == pytest.approx(high, abs=1e-12)


def test_many_curves_share_one_label_for_each_family():
    model = ov.committee_machine(3, 4, eta=0.5)
    axes = ov.solve(model, model.random_start(N=100, rng=1), [0.0, 1.0]).plot()
    labels = [text.get_text() for text in axes[1].get_legend().get_texts()]
    assert labels == [f"$Q_{{{i}{j}}}$" for i, j in ("11", "12", "13", "22", "23", "33")] + ["$R$"]
    plt.close("all")


def test_error_bars_are_those_of_a_variance(drawn):
    model, start = drawn[1].model, drawn[1].start(0)
    sims = [ov.simulate(model, N=N, alpha=[0, 2], rng=N, start=start, runs=runs) for N, runs in ((90, 3), (30, 6))]
    ax = plotting.fluctuations(sims)
    assert [container.get_label() for container in ax.containers] == list(curves_of(drawn[0]))
    for container, one, other in zip(ax.containers, *(curves_of(sim).values() for sim in sims), strict=True):
        line, _, (bars,) = container.lines
        variances = [30 * other[:, -1].var(ddof=1), 90 * one[:, -1].var(ddof=1)]
        np.testing.assert_allclose(line.get_xydata(), np.transpose([[30, 90], variances]), rtol=1e-12)
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        # a variance from n samples of a Gaussian has the relative standard deviation sqrt(2 / (n - 1))
        np.testing.assert_allclose(lengths, [2 * (2 / 5) ** 0.5 * variances[0], 2 * variances[1]], rtol=1e-12)


def test_log_axes_where_they_help():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    start = ov.State.from_overlaps(model, Q=[[1.0]], R=[[0.0]], T=[[1.0]])
    decay = ov.solve(model, start, np.linspace(0, 20, 50)).plot()
    assert decay[0].get_yscale() == "log" and decay[0].get_xscale() == "linear"
    early = ov.solve(model, start, np.logspace(-3, 1, 50)).plot()
    assert early[0].get_xscale() == "log"
    flat = ov.solve(model, start, np.linspace(0, 1, 50)).plot()
    assert flat[0].get_yscale() == "linear"
    plt.close("all")


def test_finite_size_plots():
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, noise=0.5)
    start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.0]])
    sims = [ov.simulate(model, N=N, alpha=[0, 1, 2], rng=N, start=start, runs=20) for N in (400, 100)]
    theory = ov.solve(model, start, [0, 1, 2])
    ax = plotting.fluctuations(sims)
    N, scaled = ax.containers[0].lines[0].get_data()
    np.testing.assert_array_equal(N, [100, 400])  # sorted
    assert scaled[1] == pytest.approx(400 * sims[0].Q[:, -1, 0, 0].var(ddof=1))
    ax = plotting.approach(sims, theory)
    sizes, gaps = ax.lines[0].get_data()
    by_hand = np.concatenate([(sims[1].Q - theory.Q)[:, 1:].ravel(), (sims[1].R - theory.R)[:, 1:].ravel()])
    assert gaps[0] == pytest.approx(np.sqrt(np.mean(by_hand**2)))
    guide = ax.lines[1].get_ydata()
    assert guide[0] / guide[1] == pytest.approx(2.0)  # sqrt(400 / 100)
    with pytest.raises(ValueError, match="solve it on their alpha"):
        plotting.approach(sims, ov.solve(model, start, [0, 1.5]))
    with pytest.raises(ValueError, match="runs >= 2"):
        plotting.fluctuations([ov.simulate(model, N=100, alpha=[0, 1], rng=1)])
    plt.close("all")


# layers ---------------------------------------------------------------------------------------------------------------


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield ("." if node.level else "") + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_plotting_and_the_demo_touch_matplotlib():
    users = {p.name for p in SOURCE.glob("**/*.py") if any(i.startswith("matplotlib") for i in imports(p))}
    assert users <= {"plotting.py", "__main__.py"}


def test_importing_is_light():
    """Nothing is compiled or drawn by the import."""
    code = (
        "import sys, overlaps; "
        "heavy = [m for m in ('matplotlib.pyplot', 'tqdm', 'mpmath', 'hypothesis') if m in sys.modules]; "
        "from overlaps.activations._erf import erf_closure; "
        "print(heavy, len(getattr(erf_closure, 'signatures', [])))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[] 0"


CACHE = """
import numpy as np, overlaps as ov
from overlaps.activations._erf import erf_closure
model = ov.committee_machine(1, 1, eta=0.5)
print(ov.closure(model, [[1.0]], [[0.5]], [[1.0]]).eps_g)
print(sum(erf_closure.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_kernels_are_found_in_the_cache_and_work_without_one(tmp_path):
    def run(**environment):
        env = {**os.environ, **environment}
        return subprocess.run([sys.executable, "-c", CACHE], capture_output=True, text=True, check=True, env=env).stdout

    first, second = run(NUMBA_CACHE_DIR=str(tmp_path)).split(), run(NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("0", "1")
    blocked = tmp_path / "file"
    blocked.write_text("")  # a file where a folder is expected: nothing can be written, whoever runs the test
    assert run(NUMBA_CACHE_DIR=str(blocked / "x")).split()[0] == first[0]


def test_public_names_are_documented():
    for name in ov.__all__:
        thing = getattr(ov, name)
        assert thing.__doc__ and len(thing.__doc__) > 40, name


def test_command_line(capsys):
    main(["info"])
    assert ov.__version__ in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([])
    assert "demo" in capsys.readouterr().err
