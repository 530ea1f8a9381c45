"""Jobs that fail, die, are interrupted or orphaned cost what they hit and nothing else."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from overlaps._base.search import minimum
from overlaps._base.workers import run_all, worded


def root(x):
    if x < 0:
        raise ArithmeticError(f"no root of {x}.")
    return x**0.5


def jobs(*values):
    return {i: partial(root, x) for i, x in enumerate(values)}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("needed", [False, True])
def test_what_finished_is_kept(workers, needed):
    told, kept = [], {}
    pool = ThreadPoolExecutor(workers) if workers else None
    results, errors = run_all(jobs(4, -3, 9, -2), pool, told.append, keep=kept.__setitem__, needed=needed)
    assert results == kept == {0: 2.0, 2: 3.0} and sorted(told) == [1, 2, 3, 4]
    assert [str(error) for _, error in sorted(errors.items())] == ["no root of -3.", "no root of -2."]
    assert "in root" in errors[1].__notes__[0]  # where it happened
    said = worded("2 of 4 roots", errors, lambda i: f"is number {i}")
    assert said == "2 of 4 roots, 2 failed, the first is number 1: ArithmeticError: no root of -3."


@pytest.mark.parametrize("workers", [0, 2])
def test_where_something_is_needed_nothing_is_an_exception(workers):
    pool = ThreadPoolExecutor(workers) if workers else None
    with pytest.raises(ArithmeticError, match="no root of -3"):
        run_all(jobs(-3, -2), pool, needed=True)
    assert run_all(jobs(-3, -2), pool).results == {}


@pytest.mark.parametrize(("cut", "finished"), [(None, {0: 2.0}), (lambda value: value == "part", {0: 2.0, 1: "part"})])
def test_ctrl_c_keeps_a_part_where_parts_are_known(cut, finished):
    def caught():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return "part"

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where pytest runs in the background
    try:
        assert run_all({0: partial(root, 4), 1: caught, 2: partial(root, 9)}, cut=cut) == (finished, {})
    finally:
        signal.signal(signal.SIGINT, previous)


ORPHANED = """
    import os, sys, time
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context
    from overlaps._base.workers import run_all

    def point(i):
        os.write(1, b"%d\\n" % os.getpid())  # at once: two workers print at the same time
        time.sleep(60)

    if __name__ == "__main__":
        with ProcessPoolExecutor(2, mp_context=get_context(sys.argv[1])) as pool:
            run_all({i: partial(point, i) for i in range(4)}, pool)
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_killed_parent(tmp_path, start):
    script = tmp_path / "orphaned.py"
    script.write_text(textwrap.dedent(ORPHANED))
    command = [sys.executable, script, start]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(alive, workers))
        parent.kill()
    end = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(alive, workers))


def test_minimum_is_the_bottom_of_the_lowest_valley():
    """A quartic with two valleys; one that falls beyond the grid; known values are not computed again."""

    def f(x):
        calls.append(x)
        return (x - 0.3) ** 2 * (x - 2.3) ** 2 - 0.1 * x

    # by the roots of the derivative (numpy.roots)
    calls, bottom = [], 2.3122731310
    grid = [-1.0, 0.0, 0.5, 1.5, 2.0, 3.0]
    x, value, i = minimum(f, grid, xatol=1e-9)
    assert x == pytest.approx(bottom, abs=1e-6) and value == pytest.approx(f(bottom), abs=1e-12) and i == 4
    assert minimum(f, grid[:4], xatol=1e-9, ends=False)[2] == 2
    assert minimum(lambda x: -x, grid, xatol=1e-9, ends=False) == (3.0, -3.0, 5)
    assert minimum(lambda x: -x, grid, rtol=1e-9)[:2] == (3.0, -3.0)
    calls.clear()
    minimum(f, grid, [f(x) for x in grid], xatol=1e-9, ends=False)
    assert [calls.count(x) for x in grid] == [1] * len(grid)
