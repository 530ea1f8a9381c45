"""A checkpoint and the function that fills it: edits are told, and what does not matter is not; who may open it."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import pytest

import overlaps as ov
from overlaps.sweeps import checkpoint as checkpoints
from overlaps.sweeps.contents import PYTHON, changes, contents

GRID = {"x": [1.0, 2.0]}
# a script; each edit of it, and what the warning names
SCRIPT = """
import functools, math
import numpy as np, overlaps as ov
eta, table, names, act = 0.5, np.array([1.0, 2.0]), {"a": 1, "b": [2]}, ov.leaky_relu(0.1)
model = ov.committee_machine(1, 1, activation=act, eta=eta)
calls = []

def helper(x):
    "Documented."
    return x + 1  # as ever

@functools.cache
def cached(x):
    return 2 * x

def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(x):
            return factor * function(x)
        return wrapper
    return decorate

class Unit:
    def act(self, x):
        return x

@scaled(3)
def tripled(x):
    return x

def f(x, shift=1):
    calls.append(x)
    inner = [helper(y) for y in (x, x)]
    return eta * inner[0] + table.sum() + names["a"] + model.eta + cached(x) + tripled(x) + Unit().act(x) + math.pi
"""
EDITS = {
    ("return x + 1", "return x - 1"): "the code of helper",
    ("eta, table, names, act = 0.5", "eta, table, names, act = 0.7"): "the global eta, the global model",
    ("np.array([1.0, 2.0])", "np.array([1.0, 2.5])"): "the global table",
    ('"b": [2]', '"b": [3]'): "the global names",
    ("leaky_relu(0.1)", "leaky_relu(0.2)"): "the global model",
    ("return 2 * x", "return 3 * x"): "the code of cached",
    ("@scaled(3)", "@scaled(4)"): "factor in the closure of tripled",
    ("        return x\n\n@", "        return -x\n\n@"): "the code of Unit.act",
    ("shift=1", "shift=2"): "the defaults of f",
    ("eta * inner[0]", "eta * inner[1]"): "the code of f",
}
SAME = [
    ("# as ever", "# another comment\n"), ("Documented.", "Documented in other words."),
    ("calls = []", "calls = [1, 2]"), ("import functools", "# moved\n\nimport functools"),
]  # fmt: skip


def script(text, name="script"):
    """The function of a script."""
    world = {"__name__": name}
    exec(compile(text, f"/{name}.py", "exec"), world)
    return world["f"]


@pytest.mark.parametrize("edit", EDITS, ids=EDITS.get)
def test_an_edit_of_what_a_function_reaches_is_named(edit):
    assert SCRIPT.count(edit[0]) == 1
    found = changes(contents(script(SCRIPT)), contents(script(SCRIPT.replace(*edit))))
    assert ", ".join(sorted(found, key=lambda x: x.split()[-1])) == EDITS[edit]


@pytest.mark.parametrize("edit", SAME)
def test_what_changes_no_number_is_no_change(edit):
    """Comments, docstrings, moved lines, and what the function writes."""
    assert SCRIPT.count(edit[0]) == 1
    assert changes(contents(script(SCRIPT)), contents(script(SCRIPT.replace(*edit)))) == []


@pytest.mark.slow
def test_digests_are_those_of_any_process():
    """Of sets and texts, whose order hangs on the process, and of objects that are known by their address only."""
    text = SCRIPT + "a, b = {'x', 'y', 'z', 3.0}, object()\ndef g(x):\n    return f(x), a, b, x in {'u', 'v', 'w'}\n"
    path = Path(__file__).parent
    code = f"import sys, json; sys.path.insert(0, {str(path)!r}); import test_contents as t\n"
    code += "w = {'__name__': 'script'}; exec(sys.stdin.read(), w); print(json.dumps(t.contents(w['g'])))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], input=text, env=os.environ | {"PYTHONHASHSEED": seed}, text=True, check=True,
            stdout=subprocess.PIPE,
        ).stdout for seed in "12"
    ]  # fmt: skip
    assert json.loads(runs[0]) == json.loads(runs[1]) and len(json.loads(runs[0])) > 12


def test_functions_of_the_library_and_other_versions_of_python_say_nothing():
    assert contents(ov.solve) == contents(functools.partial(ov.solve, None)) == contents(abs) == {}
    one, two = (contents(script(SCRIPT.replace("eta = 0.5", x))) for x in ("eta = 0.5", "eta = 0.5"))
    two |= {PYTHON: "2.7", "the code of f": "other", "the global eta": "other"}
    assert changes(one, two) == ["the global eta"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_values_of_another_function_are_told_and_kept(tmp_path):
    path = tmp_path / "points"
    assert ov.sweep(lambda x: x + 1, GRID, checkpoint=path).values == [2, 3]
    match = r"2 of its points.*what changed is the code of .*<lambda>\. Their values are used unchanged.*another path"
    with pytest.warns(RuntimeWarning, match=match) as caught:
        assert ov.sweep(lambda x: -x, {"x": [1.0, 2.0, 3.0]}, checkpoint=path).values == [2, 3, -3]
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="2 of its points"):  # as long as they are there
        ov.sweep(lambda x: -x, {"x": [1.0, 2.0, 3.0]}, checkpoint=path)
    ov.sweep(lambda x: -x, {"x": [3.0]}, checkpoint=path)  # of now


def test_a_closure_and_a_global_that_changed_are_told(tmp_path, monkeypatch):
    def made(c):
        return lambda x: c * x

    ov.sweep(made(2), GRID, checkpoint=tmp_path / "closure")
    ov.sweep(made(2), GRID, checkpoint=tmp_path / "closure")
    with pytest.warns(RuntimeWarning, match="what changed is c in the closure of"):
        ov.sweep(made(3), GRID, checkpoint=tmp_path / "closure")
    model = ov.committee_machine(1, 1, eta=0.5)
    monkeypatch.setitem(globals(), "model", model)
    ov.sweep(at_model, GRID, checkpoint=tmp_path / "global")
    monkeypatch.setitem(globals(), "model", ov.committee_machine(1, 1, eta=0.5, noise=0.1))
    with pytest.warns(RuntimeWarning, match="what changed is the global model"):
        ov.sweep(at_model, GRID, checkpoint=tmp_path / "global")


def at_model(x):
    return dataclasses.replace(model, eta=x).noise  # noqa: F821


def test_lines_without_digests_are_read_without_a_word(tmp_path):
    """Of files from before there were any."""
    path = tmp_path / "points"
    ov.sweep(lambda x: x + 1, GRID, checkpoint=path)
    old = [{key: x for key, x in entry.items() if key not in ("contents", "check")} for entry in lines(path)]
    bodies = [json.dumps(entry)[:-1].encode() for entry in old]
    path.write_bytes(b"".join(body + checkpoints.LINE.checksum + b"%d}\n" % zlib.crc32(body) for body in bodies))
    assert ov.sweep(lambda x: -x, GRID, checkpoint=path).values == [2, 3]


def test_a_list_that_holds_itself_is_no_obstacle(tmp_path):
    endless: list = []
    endless.append(endless)
    assert ov.sweep(lambda x: len(endless), GRID, checkpoint=tmp_path / "points").values == [1, 1]


@pytest.mark.parametrize("body", ['{"overlaps sweep": 2, "function": }', '{"overlaps sweep": ' + "[" * 100_000])
def test_a_line_with_a_right_checksum_that_is_no_json_is_damaged(tmp_path, body):
    path = tmp_path / "points"
    ov.sweep(lambda x: x + 1, GRID, checkpoint=path)
    foreign = body[:-1].encode()
    path.write_bytes(path.read_bytes() + foreign + checkpoints.LINE.checksum + b"%d}\n" % zlib.crc32(foreign))
    with pytest.warns(RuntimeWarning, match="1 of its points cannot be read"):
        assert ov.sweep(lambda x: x + 1, {"x": [1.0, 2.0, 3.0]}, checkpoint=path).values == [2, 3, 4]


# --- who may open it -------------------------------------------------------------------------------------------------

needs_locks = pytest.mark.skipif(checkpoints.fcntl is None, reason="POSIX")
LOCKED = """
import fcntl, sys
with open(sys.argv[1], "a+b") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("in use")
"""


def in_use(path):
    """Whether another process finds the file locked."""
    return (
        subprocess.run([sys.executable, "-S", "-c", LOCKED, path], capture_output=True, text=True).stdout == "in use\n"
    )


@needs_locks
def test_a_checkpoint_serves_one_sweep_at_a_time_and_may_be_read_meanwhile(tmp_path):
    path = tmp_path / "points"

    def again(x):
        path.read_bytes()  # closes the file again
        with pytest.raises(ValueError, match="in use by another process, or by another sweep of this one"):
            ov.sweep(lambda x: x, GRID, checkpoint=path)
        return in_use(path)

    assert ov.sweep(again, GRID, checkpoint=path).values == [True, True]
    assert not in_use(path)


@needs_locks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_worker_does_not_hold_the_lock_of_a_sweep_that_ended(tmp_path):
    """One that was forked while the sweep ran, and lives on."""
    path, (end, begin) = tmp_path / "points", os.pipe()

    def forks(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python, for threads that other tests have left
            child = os.fork()
        if child == 0:
            os.close(begin)
            os.read(end, 1)
            os._exit(0)
        return child

    (child,) = ov.sweep(forks, {"x": [1]}, checkpoint=path).values
    assert not in_use(path)
    os.close(begin)
    os.waitpid(child, 0)
    os.close(end)
