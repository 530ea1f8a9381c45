"""The command line."""

import os
import subprocess
import sys
from itertools import islice

import pytest

import overlaps as ov
from overlaps.__main__ import STUDENTS, _integrations, _simulations, main


def test_command_line(capsys):
    main(["info"])
    assert ov.__version__ in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([])
    assert "demo" in capsys.readouterr().err


@pytest.mark.slow
def test_warm_says_what_it_compiled_and_where(capsys, monkeypatch):
    """Two of its tasks, so that the test is short."""
    asked = []
    monkeypatch.setattr("overlaps.__main__._integrations", lambda named: list(islice(_integrations(named[:1]), 2)))
    monkeypatch.setattr("overlaps.__main__._simulations", lambda named: asked.append(named) or [])
    with pytest.raises(SystemExit):
        main(["warm", "sigmoid"])
    assert "invalid choice: 'sigmoid'" in capsys.readouterr().err
    main(["warm"])
    main(["warm", "all"])
    capsys.readouterr()
    main(["warm", "linear", "relu"])
    assert asked == [["erf"], [*STUDENTS], ["linear", "relu"]]
    told = capsys.readouterr()
    assert "2/2 tasks" in told.err
    assert "nothing to compile: all kernels were found in" in told.out or "kernels compiled in" in told.out


@pytest.mark.slow
def test_warm_ends_well_for_every_student():
    """A run of its that diverged would warn, and warnings are errors here."""
    for task in [*_integrations(STUDENTS), *_simulations(STUDENTS)]:
        task()


LONG = """
import time
from overlaps._base import jit as compiling
compiling.JIT_OPTIONS = compiling.JIT_OPTIONS._replace(message_delay=0.01)
import numpy as np
from overlaps.flow import clear, copy
copy(np.ones(2), np.ones(2))
time.sleep(0.2)
clear(np.ones(2))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_long_compilation_says_so_once_and_the_cache_keeps_it_quiet(tmp_path):
    def said(**more):
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OVERLAPS_QUIET": "0"} | more
        return subprocess.run([sys.executable, "-c", LONG], env=env, capture_output=True, text=True, check=True).stderr

    assert said(OVERLAPS_QUIET="1", NUMBA_CACHE_DIR=str(tmp_path / "other")) == ""
    first = said()
    assert first.count("compiling kernels, once per machine") == 1 and len(first.splitlines()) == 1
    assert said() == ""
