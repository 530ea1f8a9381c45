"""Jobs that fail, die, are interrupted or orphaned cost what they hit and nothing else."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from overlaps._base import parallel
from overlaps._base.parallel import in_threads, run_all, worded
from overlaps._base.search import minimum


def root(x):
    if x < 0:
        raise ArithmeticError(f"no root of {x}.")
    return x**0.5


def jobs(*values):
    return {i: partial(root, x) for i, x in enumerate(values)}


@pytest.mark.parametrize("parallel", [0, 2])
@pytest.mark.parametrize("needed", [False, True])
def test_what_finished_is_kept(parallel, needed):
    told, kept = [], {}
    pool = ThreadPoolExecutor(parallel) if parallel else None
    results, errors = run_all(jobs(4, -3, 9, -2), pool, told.append, keep=kept.__setitem__, needed=needed)
    assert results == kept == {0: 2.0, 2: 3.0} and sorted(told) == [1, 2, 3, 4]
    assert [str(error) for _, error in sorted(errors.items())] == ["no root of -3.", "no root of -2."]
    assert "in root" in errors[1].__notes__[0]  # where it happened
    said = worded("2 of 4 roots", errors, lambda i: f"is number {i}")
    assert said == "2 of 4 roots, 2 failed, the first is number 1: ArithmeticError: no root of -3."


@pytest.mark.parametrize("parallel", [0, 2])
def test_where_something_is_needed_nothing_is_an_exception(parallel):
    pool = ThreadPoolExecutor(parallel) if parallel else None
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


def test_ctrl_c_keeps_what_runs_and_begins_no_more():
    """A value that comes after it, from a thread that was under way; a second Ctrl-C waits for nothing."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, kept, presses, free = [], {}, [], threading.Event()

    def job(x):
        begun.append(x)
        for _ in range(presses[0] if x == 1 else 0):
            time.sleep(0.05)  # the other thread waits for the outcome of this one
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        if x == 1:
            free.wait(0.2 if presses[0] == 1 else 5)
        return x

    try:
        for n in (1, 2):
            begun.clear(), kept.clear(), free.clear()
            presses[:] = [n]
            with ThreadPoolExecutor(1) as pool:
                found = run_all({i: partial(job, i) for i in range(9)}, pool, keep=kept.__setitem__)
                free.set()
            assert found.results == kept == ({0: 0, 1: 1} if n == 1 else {0: 0}) and begun == [0, 1]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_ctrl_c_ends_what_can_be_ended():
    """By a word to the jobs under way, before they are waited for."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    end = threading.Event()

    def job():
        time.sleep(0.05)  # the other thread waits for the outcome of this one
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return end.wait(5)

    try:
        with ThreadPoolExecutor(1) as pool:
            assert run_all({0: job}, pool, halt=end.set).results == {0: True}
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_worker_takes_no_job_of_a_pool_that_stopped(tmp_path, monkeypatch):
    """More jobs are handed out than there are workers, and these cannot be cancelled."""
    monkeypatch.setattr(parallel, "_end_with_parent", lambda _: None)
    stop, begun = tmp_path / "stop", []
    assert parallel._on_worker(lambda: begun.append(1), stop) == (None, None) and begun == [1]
    stop.touch()
    value, error = parallel._on_worker(lambda: begun.append(2), stop)
    assert value is None and isinstance(error, KeyboardInterrupt) and begun == [1]


INTERRUPTED = """
    import os, signal, sys, threading, time
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context
    from overlaps._base.parallel import run_all

    def point(i):
        os.write(1, b"%d\\n" % i)
        time.sleep(1.0)
        return i

    if __name__ == "__main__":
        with ProcessPoolExecutor(2, mp_context=get_context(sys.argv[1])) as pool:
            list(pool.map(abs, range(4)))
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            print("kept", *sorted(run_all({i: partial(point, i) for i in range(20)}, pool).results), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_ctrl_c_keeps_what_runs_in_processes(tmp_path, start):
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    done = subprocess.run([sys.executable, script, start], capture_output=True, text=True, check=True)
    *begun, kept = done.stdout.splitlines()
    assert sorted(begun) == ["0", "1"] and kept == "kept 0 1"


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_threads_do_each_part_once(parts):
    done = []
    in_threads(done.append, parts)
    assert sorted(done) == [*range(parts)]


def test_threads_raise_what_a_part_raises():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda i: 1 / i, 2)


ORPHANED = """
    import os, sys, time
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context
    from overlaps._base.parallel import run_all

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
        parallel = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(alive, parallel))
        parent.kill()
    end = time.monotonic() + 20
    while any(map(alive, parallel)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(alive, parallel))


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
