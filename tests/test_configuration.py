"""One run, described in a file: the same numbers as the calls it stands for, and an answer to every wrong key."""

import dataclasses
import functools
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import overlaps as ov
from overlaps.__main__ import main
from overlaps.configuration import TEMPLATE, read, run, schema

EXAMPLE = Path(__file__).parents[1] / "examples" / "run.toml"
MODEL = "[model]\nK = 2\nM = 1\neta = 0.5\nv = [1.0, 0.5]\n"
START = '[start]\nkind = "overlaps"\nQ = [[0.5, 0.1], [0.1, 0.4]]\nR = [[0.2], [0.1]]\nT = [[1.5]]\n'
SOLVE = "[solve]\nalpha = [0.0, 0.5, 1.0]\n"


def written(tmp_path, text):
    path = tmp_path / "try.toml"
    path.write_text(text)
    return path


def test_a_run_is_the_calls_it_stands_for(tmp_path):
    simulate = "[simulate]\nN = 20\nrng = 3\nruns = 2\nalpha = { from = 0.0, to = 1.0, n = 3 }\n"
    schedule = "[schedule]\nknots = [0.0, 1.0]\nvalues = [1.0, 0.5]\n"
    made = run(written(tmp_path, MODEL + schedule + START + SOLVE + simulate), progress=False)
    model = ov.committee_machine(2, 1, eta=0.5, v=[1.0, 0.5])
    start = ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], R=[[0.2], [0.1]], T=[[1.5]])
    options = {"schedule": ov.Schedule([0.0, 1.0], [1.0, 0.5])}
    assert made["trajectory"] == ov.solve(model, start, [0.0, 0.5, 1.0], **options)
    assert made["runs"] == ov.simulate(model, N=20, alpha=[0, 0.5, 1], rng=3, runs=2, start=start, **options)
    folder = tmp_path / "try"
    assert ov.load(folder / "trajectory.npz") == made["trajectory"] and ov.load(folder / "runs.npz") == made["runs"]
    assert (folder / "config.toml").read_text() == (tmp_path / "try.toml").read_text()
    assert (folder / "figure.png").stat().st_size > 10_000
    assert f"overlaps {ov.__version__}" in (folder / "versions.txt").read_text()


def test_the_example_is_read_as_it_says():
    config = read(EXAMPLE)
    model = ov.committee_machine(2, 2, normalised=True, eta=1.0, spectrum=ov.power_law(beta=1.0, L=20))
    assert config["model"] == model
    assert config["start"] == model.random_start(N=1000, rng=4, student_scale=0.5)
    assert config["solve"]["alpha"] == (0.0, 200.0) and config["solve"]["rtol"] == 1e-8
    assert np.allclose(config["simulate"]["alpha"], np.linspace(0, 200, 21))
    assert config["folder"] == EXAMPLE.parent / "overlaps-run"


def test_models_of_every_kind(tmp_path):
    manifold = '[model]\nkind = "hidden_manifold"\nK = 2\nM = 1\nfeatures = "sign"\nratio = 0.5\nnodes = 3\neta = 0.2\n'
    limit = '[start]\nkind = "limit"\nP = [[1.0, 0.0], [0.0, 0.5]]\nT = [[1.0]]\nalignment = [[0.1], [0.2]]\n'
    config = read(written(tmp_path, manifold + limit + SOLVE))
    model = ov.hidden_manifold(2, 1, features="sign", ratio=0.5, nodes=3, eta=0.2)
    assert config["model"] == model
    assert config["start"] == model.limit_start(P=[[1, 0], [0, 0.5]], T=[[1.0]], alignment=[[0.1], [0.2]])
    quadratic = '[model]\nkind = "quadratic_network"\nK = 2\nM = 1\neta = 0.2\nnoise = 0.1\n[start]\nN = 50\nrng = 1\n'
    assert read(written(tmp_path, quadratic + SOLVE))["model"] == ov.quadratic_network(2, 1, eta=0.2, noise=0.1)
    kinks = (
        MODEL + "activation = { leaky_relu = 0.1 }\nteacher_activation = { polynomial = [0, 0, 1] }\n" + START + SOLVE
    )
    assert read(written(tmp_path, kinks))["model"] == dataclasses.replace(
        read(written(tmp_path, MODEL + START + SOLVE))["model"],
        activation=ov.leaky_relu(0.1),
        teacher_activation=ov.polynomial([0, 0, 1]),
    )


def test_times_and_schedules(tmp_path):
    text = MODEL + START + "[solve]\nalpha = { from = 0.1, to = 10.0, n = 3, log = true }\n"
    text += "[schedule.noise]\nknots = [0.0, 1.0]\nvalues = [1.0, 0.0]\n"
    solve = read(written(tmp_path, text))["solve"]
    assert np.allclose(solve["alpha"], [0.1, 1.0, 10.0])
    assert solve["schedule"] == {"noise": ov.Schedule([0.0, 1.0], [1.0, 0.0])}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            MODEL.replace("eta", "Eta") + START + SOLVE,
            r"\[model\] has the key 'Eta'.*drift, eta, eta_v",
        ),
        (MODEL + "[begin]\nN = 2\n" + SOLVE, "the file has the key 'begin'.*model, output, schedule, simulate"),
        (MODEL + START, r"no table \[solve\]"),
        (START + SOLVE, r"no table \[model\]"),
        (MODEL.replace("eta = 0.5\n", "") + START + SOLVE, r"\[model\]: .*eta"),
        (MODEL + 'kind = "perceptron"\n' + START + SOLVE, "kind of .model. = 'perceptron'; expected one of 'committee"),
        (MODEL + 'activation = "gelu"\n' + START + SOLVE, "activation = 'gelu'; expected one of 'erf'.*script"),
        (MODEL + START.replace("T = [[1.5]]\n", "") + SOLVE, r"\[start\]: .*T"),
        (MODEL + '[start]\nkind = "limit"\n' + SOLVE, "only manifolds have a limit"),
        (MODEL + START + "[solve]\nrtol = 1e-6\n", "has no alpha"),
        (MODEL + START + "[solve]\nalpha = { from = 0.0, to = 1.0 }\n", "has no 'n'"),
        (MODEL + START + "[solve]\nalpha = { from = 0.0, to = 1.0, n = 3, log = true }\n", "expected from > 0"),
        (MODEL + START + SOLVE + "start = 3\n", r"\[solve\] has the key 'start'"),
        (MODEL + START + SOLVE + "[spectrum]\nbeta = 1.0\n", r"\[spectrum\]: .*L"),
        ("solve = 3\n" + MODEL + START, r"solve = 3; expected a table, \[solve\]"),
        ("[model\n", "is no TOML"),
        (
            MODEL.replace("K = 2", "K = 1000000000") + START + SOLVE,
            r"K = 1000000000 of \[model\]; expected at most 10000",
        ),
        (MODEL.replace("K = 2", f"K = {'9' * 5000}") + START + SOLVE, "is no TOML: Exceeds the limit"),
        (MODEL + "[spectrum]\nbeta = 1.0\nL = 1000000000000\n" + START + SOLVE, "L = 1000000000000 of"),
        (MODEL + START + "[simulate]\nruns = 10000000000\n", "runs = 10000000000 of"),
        (MODEL + START + "[solve]\nalpha = " + "[" * 100_000, "nested"),
        (MODEL + START + "[solve]\nalpha = " + "{a = " * 3000, "nested"),
    ],
)
def test_what_is_not_known_is_named_before_anything_runs(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        run(written(tmp_path, text), progress=False)
    assert not (tmp_path / "try").exists()


KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": int | float}


def follows(value, schema):
    """Whether a value follows a JSON schema, of the few keywords that the one of the library has."""
    if "anyOf" in schema:
        return any(follows(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return False
    if kind != "object":
        return True
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    return all(
        follows(x, known[name]) if name in known else others is not False and follows(x, others)
        for name, x in value.items()
    ) and {*schema.get("required", [])} <= {*value}


GOOD = [
    EXAMPLE.read_text(),
    TEMPLATE,
    MODEL + START + SOLVE,
    MODEL + "weight_decay = [0.1, 0.2]\nactivation = { leaky_relu = 0.1 }\n" + START + SOLVE + "every_step = false\n",
    MODEL + START + "[solve]\nalpha = { from = 0.1, to = 10.0, n = 3, log = true }\nmethod = 'DOP853'\n",
    MODEL + START + SOLVE + "[schedule.noise]\nknots = [0.0, 1.0]\nvalues = [1.0, 0.0]\n",
    MODEL + START + SOLVE + "[schedule]\nknots = [0.0, 1.0]\nvalues = [1.0, 0.5]\n",
    '[model]\nkind = "quadratic_network"\nK = 2\nM = 1\neta = 0.2\nnoise = 0.1\n[start]\nN = 50\nrng = 1\n' + SOLVE,
    '[model]\nkind = "hidden_manifold"\nK = 1\nM = 1\nratio = 0.5\nnodes = 3\neta = 0.2\n'
    '[start]\nkind = "limit"\nP = [[1.0]]\nT = [[1.0]]\nalignment = [[0.1]]\n' + SOLVE,
]
BAD = [
    MODEL.replace("eta", "Eta") + START + SOLVE,
    MODEL.replace("0.5\n", '"0.5"\n', 1) + START + SOLVE,
    MODEL.replace("K = 2", "K = 2.0") + START + SOLVE,
    MODEL + 'kind = "perceptron"\n' + START + SOLVE,
    MODEL + "gradient_flow = 1\n" + START + SOLVE,
    MODEL + START + "[solve]\nrtol = 1e-6\n",
    MODEL + START + "[solve]\nalpha = { from = 0.0, to = 1.0 }\n",
    MODEL + START + SOLVE + "start = 3\n",
    MODEL + START + SOLVE + "blocks = 1\n",
    MODEL + START + SOLVE + "[output]\nfolder = 3\n",
    MODEL + START + SOLVE + "[begin]\nN = 2\n",
    "solve = 3\n" + MODEL + START,
    START + SOLVE,
]


@pytest.mark.parametrize("text", GOOD)
def test_the_schema_takes_what_the_reader_takes(tmp_path, text):
    assert follows(tomllib.loads(text), schema()) and read(written(tmp_path, text))


@pytest.mark.parametrize("text", BAD)
def test_the_schema_refuses_only_what_the_run_refuses(tmp_path, text):
    assert not follows(tomllib.loads(text), schema())
    with pytest.raises(ValueError, match="."):
        run(written(tmp_path, text), progress=False)


def test_a_key_of_another_library_is_translated(tmp_path):
    for text, words in (
        (MODEL.replace("eta", "lr") + START + SOLVE, r"\[model\] has the key 'lr'; expected eta="),
        (MODEL + START + SOLVE + "noise = 0.1\n", r"\[solve\] has the key 'noise'; noise is a number of the model"),
    ):
        with pytest.raises(ValueError, match=words):
            read(written(tmp_path, text))


def test_init_and_schema_are_printed(tmp_path, capsys):
    main(["init"])
    config = read(written(tmp_path, capsys.readouterr().out))
    assert config["model"] == ov.committee_machine(2, 2, eta=0.5) and config["solve"] == {"alpha": (0.0, 300.0)}
    main(["schema"])
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.slow
def test_results_of_another_configuration_are_kept(tmp_path):
    path = written(tmp_path, MODEL + START + SOLVE)
    first = run(path, progress=False)["trajectory"]
    assert run(path, progress=False)["trajectory"] == first  # the same one may be run again
    written(tmp_path, MODEL.replace("0.5", "0.6") + START + SOLVE)
    with pytest.raises(ValueError, match="contains the results of another configuration"):
        run(path, progress=False)
    assert ov.load(tmp_path / "try" / "trajectory.npz") == first


def test_on_the_command_line(tmp_path, capsys):
    path = written(tmp_path, MODEL + START + SOLVE)
    main(["run", str(path)])
    told = capsys.readouterr().out
    assert "reached alpha = 1" in told and "trajectory.npz" in told
    path.write_text("[model]\n")
    with pytest.raises(SystemExit) as end:
        main(["run", str(path)])
    assert end.value.code == 2 and "no table [solve]" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["run", str(tmp_path / "nowhere.toml")])
    assert end.value.code == 2 and "nowhere.toml" in capsys.readouterr().err


def test_version_and_help(capsys):
    for option, said in ("--version", f"overlaps {ov.__version__}\n"), ("--help", "python -m overlaps run run.toml"):
        with pytest.raises(SystemExit):
            main([option])
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, words",
    [
        ("alpha = [0.0, 1.0]\n[output]\nfolder = 3", "folder = 3 of .output.; expected the name"),
        ("alpha = [0.0, 1.0]\n[output]\nfolder = 'run.toml'", "is a file; expected a folder"),
        ("alpha = {from = 0.0, to = 1.0, n = 1000000000000}", "n = 1000000000000 times"),
    ],
)
def test_outputs_that_are_none_are_refused(tmp_path, text, words):
    path = tmp_path / "run.toml"
    path.write_text(f"[model]\nK = 1\nM = 1\neta = 0.5\n[start]\nN = 1000\nrng = 1\n[solve]\n{text}")
    with pytest.raises(ValueError, match=words):
        read(path)


def test_what_fills_the_memory_is_refused_in_words(tmp_path, monkeypatch):
    @functools.wraps(ov.solve)  # with its arguments
    def full(*_, **__):
        raise MemoryError("Unable to allocate 14.6 TiB")

    path = written(tmp_path, MODEL + START + SOLVE)
    monkeypatch.setattr(ov, "solve", full)
    with pytest.raises(
        ValueError, match="more memory than is available: Unable to allocate 14.6 TiB. Try smaller sizes"
    ):
        run(path, progress=False)


def tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", ["../victim", "{tmp}/victim", "..", ".", "inner/../../victim", "link", "link/new"])
def test_a_folder_beyond_that_of_the_file_is_refused(tmp_path, folder):
    """A file that came from somebody else replaces nobody's figure."""
    victim, own = tmp_path / "victim", tmp_path / "own"
    victim.mkdir()
    own.mkdir()
    (victim / "figure.png").write_text("mine")
    (own / "link").symlink_to(victim)
    output = f"[output]\nfolder = '{folder.format(tmp=tmp_path)}'\n"
    path, before = written(own, MODEL + START + SOLVE + output), tree(tmp_path)
    with pytest.raises(ValueError, match="expected the name of a folder below that of the file"):
        run(path, progress=False)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("what", ["figure", "link", "empty", "below"])
def test_a_folder_with_other_files_is_refused(tmp_path, what):
    """Also one of the same configuration, where a figure would be written through a link."""
    path, folder, victim = written(tmp_path, MODEL + START + SOLVE), tmp_path / "try", tmp_path / "figure.png"
    folder.mkdir()
    victim.write_text("mine")
    if what == "figure":
        (folder / "figure.png").write_text("mine")
    if what == "link":
        (folder / "config.toml").write_bytes(path.read_bytes())
        (folder / "figure.png").symlink_to(victim)
    if what == "below":
        path = written(tmp_path, path.read_text() + "[output]\nfolder = 'deeper/still'\n")
    if what in ("empty", "below"):
        assert run(path, progress=False)["folder"] == (folder if what == "empty" else tmp_path / "deeper" / "still")
        return
    before = tree(tmp_path)
    with pytest.raises(
        ValueError, match="contains other files" if what == "figure" else "contains the link figure.png"
    ):
        run(path, progress=False)
    assert tree(tmp_path) == before
