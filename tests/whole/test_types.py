"""Types are a promise to users: what a script sees of the library, as strict as mypy can be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parents[1] / "typed"


def checked(script, tmp_path):
    """(line, message) of everything that mypy says."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", str(tmp_path), "--config-file="]
    run = subprocess.run([*command, str(script)], capture_output=True, text=True, cwd=tmp_path)
    found = re.findall(r"^[^:\n]*\.py:(\d+): (error|note): (.*)$", run.stdout, re.MULTILINE)
    assert found, run.stdout + run.stderr
    return [(int(line), kind, text) for line, kind, text in found]


@pytest.mark.slow
def test_a_strict_script_knows_what_it_gets(tmp_path):
    script = TYPED / "user.py"
    lines = script.read_text().splitlines()
    promised = {n: line.rpartition("# ")[2] for n, line in enumerate(lines, 1) if line.startswith("reveal_type")}
    said = checked(script, tmp_path)
    assert [x for x in said if x[1] == "error"] == []
    revealed = {line: text for line, kind, text in said if text.startswith("Revealed type")}
    assert revealed.keys() == promised.keys() and len(promised) > 40
    for line, text in revealed.items():
        named = re.search(r"fallback=([\w.]+)", text) or re.search(r'"([\w.]+)', text)  # a NamedTuple comes second
        name = named[1].rpartition(".")[2]
        assert (name, lines[line - 1]) == (promised[line], lines[line - 1])


@pytest.mark.slow
def test_wrong_calls_are_found(tmp_path):
    script = TYPED / "wrong.py"
    wrong = {n for n, line in enumerate(script.read_text().splitlines(), 1) if "#" in line}
    assert {line for line, kind, _ in checked(script, tmp_path) if kind == "error"} == wrong
