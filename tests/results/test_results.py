"""Saving, loading, plotting; the import and the cache; the command line."""

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

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
