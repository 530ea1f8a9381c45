"""Sweeps: order, workers, failures, interrupts, checkpoints; conversion to xarray."""

import ast
import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import overlaps as ov
from overlaps.sweeps import checkpoint as checkpoints

ETAS = [0.3, 0.6, 0.9]


@pytest.fixture(scope="module")
def compiled():
    """Kernels in the cache: a kernel compiled in this process may differ in the last digit from the cached one."""
    code = "import numpy as np, overlaps as ov; m = ov.committee_machine(2, 2, eta=0.5)"
    code += "; ov.solve(m, m.random_start(N=1000, rng=1), np.linspace(0, 5, 6)).eps_g"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def trajectory(eta, K):
    model = ov.committee_machine(K, 2, eta=eta)
    return ov.solve(model, model.random_start(N=1000, rng=1), np.linspace(0, 5, 6))


def noisy(eta, rng):
    model = ov.committee_machine(2, 1, eta=eta)
    return ov.simulate(model, N=50, alpha=[0, 1], rng=rng).eps_g[0, -1], rng.random()


def fails_at_2(x):
    if x == 2:
        raise ZeroDivisionError("x is two")
    return 10 * x


class Awkward(Exception):
    """Pickles, but does not unpickle: this breaks a bare process pool."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raises_awkward(x):
    if x == 1:
        raise Awkward("not", "portable")
    if x == 2:
        sys.exit(3)
    return x


def dies_at_0(x):
    if x == 0:
        time.sleep(0.3)  # the other worker has finished something by then
        os._exit(1)
    return x


def logged(x, log):
    with open(log, "a") as file:
        file.write(f"{x}\n")
    if x < 0:
        raise ValueError("negative")
    return x**2


def calls(log):
    return [float(x) for x in Path(log).read_text().split()]


# --- order, coordinates, executors -----------------------------------------------------------------------------------


def test_a_product_runs_its_last_name_fastest_and_keeps_its_coordinates():
    result = ov.sweep(lambda a, b: (a, b), {"a": [1, 2], "b": np.array([3.0, 4.0, 5.0])})
    assert result.values == [(1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)]
    assert result.points[4] == {"a": 2, "b": 4.0} and type(result.points[4]["b"]) is float
    assert result.shape == (2, 3) and result.dims == ("a", "b") and len(result) == 6
    assert result[1, 2] == result[5] == result[-1, -1] == (2, 5) and result.success
    assert result.array().shape == (2, 3, 2)
    assert repr(result).endswith("<lambda>, a[2] x b[3], success)") and "\n" not in repr(result)
    with pytest.raises(IndexError, match=r"expected 2, one for each of \('a', 'b'\)"):
        result[1, 1, 1]
    with pytest.raises(IndexError):
        result[0, 3]


def test_a_list_of_points_is_taken_as_it_is():
    result = ov.sweep(lambda a, b: a - b, [{"a": 1, "b": 2}, {"b": 5, "a": 7}])
    assert result.values == [-1, 2] and result.shape == (2,) and result.dims == ("point",)
    assert result.grid == {"a": [1, 7], "b": [2, 5]}
    fixed = ov.sweep(functools.partial(logged, log=os.devnull), {"x": [1.0, 3.0]})
    assert fixed.values == [1, 9] and fixed.function == "logged"


def test_rows_of_a_matrix_and_words_of_an_array_are_values():
    result = ov.sweep(lambda v, g: f"{g} {v @ [2, 3]}", {"v": np.array([[1, 4], [2, 7]]), "g": np.array(["a", "b"])})
    assert result.values == ["a 14", "b 14", "a 25", "b 25"]


def test_arrays_of_values():
    result = ov.sweep(lambda n, m: np.full(3, n * m), {"n": [1, 2], "m": [5]})
    np.testing.assert_array_equal(result.array(), [[[5] * 3], [[10] * 3]])
    np.testing.assert_array_equal(result.array(lambda x: x[0]), [[5], [10]])
    np.testing.assert_array_equal(result.array("size"), [[3], [3]])
    with pytest.raises(ValueError, match=r"\(1,\) at \{'n': 1\}, \(2,\) at \{'n': 2\}"):
        ov.sweep(lambda n: np.ones(n), {"n": [1, 2]}).array()
    with pytest.raises(ValueError, match="of type Model; expected numbers"):
        ov.sweep(lambda eta: ov.committee_machine(1, 1, eta=eta), {"eta": ETAS}).array()


@pytest.mark.slow
def test_loop_threads_and_processes_give_the_same(processes, compiled):
    grid = {"eta": ETAS, "K": [1, 2]}
    serial = ov.sweep(trajectory, grid)
    assert all(value == trajectory(**point) for value, point in zip(serial.values, serial.points, strict=True))
    with ThreadPoolExecutor(2) as threads:
        assert ov.sweep(trajectory, grid, executor=threads).values == serial.values
    # both sides in new processes, which load the same compiled kernels
    alone = processes.submit(ov.sweep, trajectory, grid).result()
    assert ov.sweep(trajectory, grid, executor=processes).values == alone.values
    for a, b in zip(alone.values, serial.values, strict=True):
        np.testing.assert_allclose(a.Q, b.Q, rtol=1e-12)


@pytest.mark.slow
def test_each_point_has_its_own_seed_on_every_executor(processes):
    serial = ov.sweep(noisy, {"eta": ETAS}, rng=7)
    # spawned children, exactly as simulate seeds its runs
    expected = [noisy(eta, rng) for eta, rng in zip(ETAS, np.random.default_rng(7).spawn(3), strict=True)]
    assert serial.values == expected and len(set(serial.values)) == 3
    assert ov.sweep(noisy, {"eta": ETAS}, rng=7, executor=processes).values == expected
    assert ov.sweep(noisy, {"eta": ETAS}, rng=np.random.default_rng(7)).values == expected
    assert ov.sweep(noisy, {"eta": ETAS}, rng=8).values != expected


@pytest.mark.slow
def test_progress_counts_points(processes, capsys):
    ov.sweep(abs_of, {"x": range(4)}, progress=True)
    ov.sweep(abs_of, {"x": range(4)}, progress=True, executor=processes)
    assert capsys.readouterr().err.count("4/4 points") >= 2


def test_progress_of_a_resumed_sweep_begins_with_what_is_kept(tmp_path, capsys):
    ov.sweep(abs_of, {"x": range(3)}, checkpoint=tmp_path / "points")
    ov.sweep(abs_of, {"x": range(5)}, checkpoint=tmp_path / "points", progress=True)
    said = capsys.readouterr().err
    assert "5/5 points" in said and "2/5 points" not in said


def abs_of(x):
    return abs(x)


# --- failures --------------------------------------------------------------------------------------------------------


def test_one_failed_point_does_not_lose_the_others(processes):
    for executor in (None, processes):
        with pytest.warns(RuntimeWarning, match=r"2 of 3 points.*1 failed, the first at \{'x': 2\}: Zero") as caught:
            result = ov.sweep(fails_at_2, {"x": [1, 2, 3]}, executor=executor)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert not result.success and list(result.errors) == [1] and not result.missing
        assert result.values[::2] == [10, 30] and isinstance(result.values[1], ZeroDivisionError)
        assert result.values[1] is result.errors[1]
        assert "in fails_at_2" in "".join(result.errors[1].__notes__)  # where it happened, in the worker
        np.testing.assert_array_equal(result.array(), [10, np.nan, 30])
        assert "1 failed" in repr(result)


@pytest.mark.slow
def test_exceptions_that_would_break_a_pool_do_not(processes):
    for executor in (None, processes):
        with pytest.warns(RuntimeWarning, match="Awkward: not portable"):
            result = ov.sweep(raises_awkward, {"x": range(5)}, executor=executor)
        assert list(result.errors) == [1, 2] and result.values[3:] == [3, 4]
        assert isinstance(result.errors[2], SystemExit)


@pytest.mark.slow
def test_a_dying_worker_loses_no_finished_point():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        pool.submit(abs_of, 1).result()
        with pytest.warns(RuntimeWarning, match="A worker process died"):
            result = ov.sweep(dies_at_0, {"x": [1, 2, 3, 0, *range(4, 40)]}, executor=pool)
    assert result.values[:3] == [1, 2, 3] and 3 in result.errors and not result.missing
    assert all(isinstance(error, BrokenProcessPool) for error in result.errors.values())
    assert all(i in result.errors or result.values[i] == result.points[i]["x"] for i in range(40))


def press_ctrl_c_at_2(x):
    """What solve and simulate do: catch the interrupt, return a partial result."""
    try:
        if x == 2:
            signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return "partial"
    return 10 * x


def test_ctrl_c_returns_what_is_finished(tmp_path):
    path = tmp_path / "points"
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(RuntimeWarning, match="2 of 4 points of press_ctrl_c_at_2 finished; 2 were interrupted"):
        result = ov.sweep(press_ctrl_c_at_2, {"x": [0, 1, 2, 3]}, checkpoint=path)
    assert result.values == [0, 10, None, None] and result.missing == [2, 3] and not result.success
    assert signal.getsignal(signal.SIGINT) is before
    np.testing.assert_array_equal(result.array(), [0, 10, np.nan, np.nan])
    with pytest.warns(RuntimeWarning, match="2 of 4"):  # the partial result was not kept as finished
        assert ov.sweep(press_ctrl_c_at_2, {"x": [0, 1, 2, 3]}, checkpoint=path).missing == [2, 3]


def test_ctrl_c_cancels_what_a_pool_has_not_begun():
    begun = []

    def slow(x):
        begun.append(x)
        if x == 3:
            os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread, which waits for results
        time.sleep(0.05)
        return x

    with ThreadPoolExecutor(1) as pool, pytest.warns(RuntimeWarning, match="interrupted or not begun"):
        result = ov.sweep(slow, {"x": range(100)}, executor=pool)
    assert result.values[:3] == [0, 1, 2] and len(result.missing) >= 96 and len(begun) < 10


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_resumed_sweep_computes_nothing_twice_and_retries_errors(tmp_path):
    path, log = tmp_path / "points", str(tmp_path / "log")
    grid = {"x": [1, -2, 3], "log": [log]}
    with pytest.warns(RuntimeWarning, match="1 failed"):
        ov.sweep(logged, grid, checkpoint=path)
    with pytest.warns(RuntimeWarning, match="1 failed"):
        result = ov.sweep(logged, grid, checkpoint=path)
    assert result.values[0::2] == [1, 9] and calls(log) == [1, -2, 3, -2]
    with ThreadPoolExecutor(2) as pool, pytest.warns(RuntimeWarning):  # the executor may change between the two
        assert ov.sweep(logged, grid, checkpoint=path, executor=pool).values[0::2] == [1, 9]
    assert calls(log) == [1, -2, 3, -2, -2]


@pytest.mark.parametrize("left", [1, 2, 8, 15, 40, 200])
def test_a_torn_last_line_is_ignored(tmp_path, left):
    path, log = tmp_path / "points", str(tmp_path / "log")
    grid = {"x": [1, 2, 3], "log": [log]}
    whole = ov.sweep(logged, grid, checkpoint=path)
    intact = path.read_bytes()
    ov.sweep(logged, grid, checkpoint=path)
    assert path.read_bytes() == intact
    *lines, last = intact.splitlines(keepends=True)
    path.write_bytes(intact[: -min(left, len(last) - 1)])
    assert ov.sweep(logged, grid, checkpoint=path).values == whole.values
    # without its end of line a line still checks out
    assert calls(log) == ([1, 2, 3] if left == 1 else [1, 2, 3, 3]) and path.read_bytes() == intact
    Path(log).unlink()
    path.write_bytes(b"".join(lines) + bytes(50))  # a tail of zeros, as some file systems leave after a power cut
    assert ov.sweep(logged, grid, checkpoint=path).values == whole.values
    assert calls(log) == [3] and path.read_bytes() == intact


@pytest.mark.parametrize("size", [0, 5, 100])
def test_a_sweep_killed_in_its_first_line_begins_again(tmp_path, size):
    path, log = tmp_path / "points", str(tmp_path / "log")
    grid = {"x": [1, 2, 3], "log": [log]}
    ov.sweep(logged, grid, checkpoint=path)
    intact = path.read_bytes()
    assert len(intact.splitlines()[0]) > 100
    path.write_bytes(intact[:size])
    assert ov.sweep(logged, grid, checkpoint=path).success and path.read_bytes() == intact


def test_damage_costs_the_lines_that_it_hits(tmp_path):
    """One bit anywhere: the point of this line is computed again (two, where lines run together), no other is."""
    path, log = tmp_path / "points", tmp_path / "log"
    grid = {"x": list(range(8)), "log": [str(log)]}
    whole = ov.sweep(logged, grid, checkpoint=path)
    intact = path.read_bytes()
    rng = np.random.default_rng(1)
    for at in [0, intact.index(b"\n"), len(intact) - 1, *rng.integers(len(intact), size=40).tolist()]:
        log.write_text("")
        flipped = bytes([intact[at] ^ (1 << rng.integers(8))])
        path.write_bytes(intact[:at] + flipped + intact[at + 1 :])
        torn = at == len(intact) - 1  # as a line that a killed process left
        with contextlib.nullcontext() if torn else pytest.warns(RuntimeWarning, match="1 of its points cannot be read"):
            assert ov.sweep(logged, grid, checkpoint=path).values == whole.values
        again = calls(log)
        assert 1 <= len(again) <= 2 and set(again) <= {intact[:at].count(b"\n"), intact[:at].count(b"\n") + 1}
        assert ov.sweep(logged, grid, checkpoint=path).values == whole.values and calls(log) == again
    path.write_bytes(intact.replace(b'"check": ', b'"check": 1'))
    with pytest.raises(ValueError, match="damaged from end to end.*Nothing was changed"):
        ov.sweep(logged, grid, checkpoint=path)


def test_a_checkpoint_is_text_that_says_what_it_holds(tmp_path):
    path = tmp_path / "points"
    ov.sweep(noisy, {"eta": ETAS}, rng=7, checkpoint=path)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["point"] for entry in entries] == [{"eta": eta} for eta in ETAS]
    assert {(entry["function"], entry["rng"]) for entry in entries} == {(f"{__name__}.noisy", 7)}


def test_a_sweep_may_grow(tmp_path):
    path, log = tmp_path / "points", str(tmp_path / "log")
    ov.sweep(logged, {"x": [1, 2, 3], "log": [log]}, checkpoint=path)
    result = ov.sweep(logged, {"x": [5, 3, 2, 1, 4], "log": [log]}, checkpoint=path)
    assert result.values == [25, 9, 4, 1, 16] and calls(log) == [1, 2, 3, 5, 4]
    points = [{"log": log, "x": 4}, {"log": log, "x": 6}]  # the form of the grid, and the order of names, do not matter
    assert ov.sweep(logged, points, checkpoint=path).values == [16, 36] and calls(log) == [1, 2, 3, 5, 4, 6]
    twice = ov.sweep(logged, {"x": [6, 7, 6, 1], "log": [log]}, checkpoint=path)
    assert twice.values == [36, 49, 36, 1] and calls(log) == [1, 2, 3, 5, 4, 6, 7]


def test_a_seeded_sweep_grows_as_if_computed_at_once(tmp_path):
    path = tmp_path / "points"
    first = ov.sweep(noisy, {"eta": ETAS[:2]}, rng=7, checkpoint=path)
    whole = ov.sweep(noisy, {"eta": ETAS}, rng=7, checkpoint=path)
    assert whole.values == ov.sweep(noisy, {"eta": ETAS}, rng=7).values and whole.values[:2] == first.values
    assert len(path.read_text().splitlines()) == 3
    moved = ov.sweep(noisy, {"eta": ETAS[::-1]}, rng=7, checkpoint=path)  # other seeds at the ends
    assert moved.values == ov.sweep(noisy, {"eta": ETAS[::-1]}, rng=7).values


class Opened:
    """Says when it is unpickled."""

    def __init__(self, log):
        self.log = log

    def __reduce__(self):
        return (Opened.open, (self.log,))

    @staticmethod
    def open(log):  # noqa: D102
        Path(log).write_text("opened")
        return Opened(log)


def makes_opened(log):
    return Opened(log)


def makes_another(log):
    return log


def test_nothing_is_unpickled_before_the_file_is_known_to_be_ours(tmp_path):
    path, log = tmp_path / "points", tmp_path / "log"
    ov.sweep(makes_opened, {"log": [str(log)]}, checkpoint=path)
    with pytest.raises(ValueError, match="belongs to another sweep"):
        ov.sweep(makes_another, {"log": [str(log)]}, checkpoint=path)
    other = ov.sweep(makes_opened, {"log": [str(tmp_path / "new")]}, checkpoint=path)  # values of other points
    assert other.success and not log.exists()
    assert ov.sweep(makes_opened, {"log": [str(log)]}, checkpoint=path).success and log.exists()


def full_disk(file):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "points"

    def fills_disk_at_2(x):
        if x == 2:
            monkeypatch.setattr(checkpoints.os, "fsync", full_disk)
        return 10 * x

    with pytest.warns(RuntimeWarning, match=r"No space left.*kept in memory only") as caught:
        result = ov.sweep(fills_disk_at_2, {"x": range(6)}, checkpoint=path)
    assert result.success and result.values == [0, 10, 20, 30, 40, 50] and len(caught) == 1
    monkeypatch.undo()
    assert len(path.read_text().splitlines()) == 2  # whole lines only, and the sweep goes on from them
    assert ov.sweep(fills_disk_at_2, {"x": [0, 1]}, checkpoint=path).values == [0, 10]


def test_a_half_written_line_is_taken_back(tmp_path):
    path = tmp_path / "points"
    with open(path, "a+b", buffering=0) as file:
        checkpoints._write(file, b"good")

        class Full:
            def __getattr__(self, name):
                return getattr(file, name)

            def write(self, data):
                if len(data) < 5:
                    raise OSError("disk full")
                return file.write(data[:3])

        with pytest.raises(OSError, match="disk full"):
            checkpoints._write(Full(), b"bad data")
    assert path.read_bytes() == b"good"


def test_the_checkpoint_of_another_sweep_is_refused(tmp_path):
    path = tmp_path / "points"

    def f(x, y=0, rng=None):
        return x

    def other(x, y=0, rng=None):
        return x

    def refused(match, function, grid, **options):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=match):
            ov.sweep(function, grid, checkpoint=path, **options)
        assert path.read_bytes() == before

    ov.sweep(f, {"x": [1.0, 2.0]}, checkpoint=path)
    refused(r'function is ".*\.f", now ".*\.other"', other, {"x": [1.0, 2.0]})
    refused("rng is null, now 3", f, {"x": [1.0, 2.0]}, rng=3)
    refused("function is ", functools.partial(f, y=1), {"x": [1.0, 2.0]})
    before = path.read_bytes()
    assert ov.sweep(f, {"x": np.array([2.0, 1.0])}, checkpoint=path).values == [2.0, 1.0]
    assert path.read_bytes() == before  # equal is enough

    for foreign in (b"a thesis\n", b"a thesis", b"overlaps sweep 1\n\0\0"):
        path.write_bytes(foreign)
        refused("not written by a sweep", f, {"x": [1.0, 2.0]})


def test_records_and_arrays_may_be_parameters_of_a_checkpointed_sweep(tmp_path):
    path = tmp_path / "points"
    model = ov.committee_machine(1, 1, eta=0.5)

    def error(model, alpha, x):
        return float(alpha[-1])

    for _ in range(2):
        ov.sweep(error, {"model": [model], "alpha": [np.ones(2)], "x": [np.nan]}, checkpoint=path)
    (entry,) = map(json.loads, path.read_text().splitlines())  # found again, the second time
    assert entry["point"]["model"]["what"] == str(model) and entry["point"]["x"] != entry["point"]["x"]
    other = ov.committee_machine(1, 1, eta=0.25)
    for change in ({"model": [other]}, {"alpha": [np.zeros(2)]}, {"alpha": [[1.0, 1.0]]}, {"alpha": [(1.0, 1.0)]}):
        before = len(path.read_text().splitlines())
        ov.sweep(error, {"model": [model], "alpha": [np.ones(2)], "x": [np.nan]} | change, checkpoint=path)
        assert len(path.read_text().splitlines()) == before + 1
    with pytest.raises(ValueError, match=r"function is .*eta=0.5.*now .*eta=0.25"):
        for one in (model, other):
            grid = {"alpha": [np.ones(2)], "x": [1]}
            ov.sweep(functools.partial(error, one), grid, checkpoint=tmp_path / "partial")
    fixed = functools.partial(error, model, x=1.0)
    with pytest.raises(ValueError, match="cannot be called with the names"):
        ov.sweep(fixed, {"model": [model], "alpha": [np.ones(2)]})
    with pytest.raises(ValueError, match="fixed arguments cannot be pickled"):
        ov.sweep(error, {"model": [lambda: 1], "alpha": [np.ones(2)], "x": [0]}, checkpoint=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_arrays_of_other_shapes_or_types_are_other_points(tmp_path):
    """The same bytes in each pair; the second time all of them are found, and are what they were."""
    x = np.arange(1.0, 7.0)
    arrays = [x.reshape(2, 3), x.reshape(3, 2), x, x.view(np.int64), x.reshape(1, 6)]
    calls = []

    def shape(x):
        calls.append(x)
        return len(x) + 10 * x.ndim + 100 * (x.dtype.kind == "i")

    for _ in range(2):
        found = ov.sweep(shape, {"x": arrays}, checkpoint=tmp_path / "points")
        assert list(found.values) == [22, 23, 16, 116, 21]
    assert len(calls) == 5


def test_a_value_that_does_not_pickle_is_kept_in_memory(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"at \{'x': 1\} cannot be pickled.*kept in memory only") as caught:
        result = ov.sweep(lambda x: (lambda: x) if x else x, {"x": [0, 1, 2, 0.0]}, checkpoint=tmp_path / "points")
    assert result.success and result[1]() == 1 and result[2]() == 2 and len(caught) == 1
    assert len((tmp_path / "points").read_text().splitlines()) == 2  # the others are written


@pytest.mark.slow
def test_a_second_process_is_refused(tmp_path):
    """Also after the file was read: closing a second handle of it would give up the lock."""
    path = tmp_path / "points"
    code = f"import overlaps as ov; ov.sweep(lambda x: x, {{'x': [1]}}, checkpoint={str(path)!r})"

    def run_another(x):
        return x and subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr

    ov.sweep(run_another, {"x": [0]}, checkpoint=path)
    assert "is in use by another process" in ov.sweep(run_another, {"x": [0, 1]}, checkpoint=path)[1]


KILLED = """
import sys
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import overlaps as ov

def error(eta):
    model = ov.committee_machine(2, 2, eta=eta)
    start = ov.State.from_overlaps(model, Q=[[0.5, 0], [0, 0.4]], R=[[0.02, 0], [0, 0.03]], T=np.eye(2))
    value = ov.solve(model, start, np.linspace(0, 3000, 50)).eps_g.mean()
    with open(sys.argv[2], "a") as file:
        file.write(repr(eta) + "\\n")
    return value

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        result = ov.sweep(error, {"eta": np.linspace(0.05, 1.0, 100)}, executor=pool, checkpoint=sys.argv[1])
    assert result.success
    np.save(sys.argv[3], result.array())
    np.save(sys.argv[4], ov.sweep(error, result.grid).array())
"""


@pytest.mark.slow
def test_a_sweep_killed_twice_ends_complete_and_identical(tmp_path, compiled):
    """100 learning rates on two processes, SIGKILL twice; what was finished is never computed again."""
    script, points, log = tmp_path / "sweep.py", tmp_path / "points", tmp_path / "log"
    script.write_text(KILLED)
    command = [sys.executable, script, points, log, tmp_path / "result.npy", tmp_path / "serial.npy"]
    finished: list[set] = []
    logged: list[int] = []

    def start():
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)

    for least in (20, 60):
        process = start()
        while process.poll() is None and len(finished_points(points)) < least:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.wait()
        process.stderr.close()
        with contextlib.suppress(ProcessLookupError):  # workers outlive a killed parent
            os.killpg(process.pid, signal.SIGKILL)
        finished.append(finished_points(points))
        logged.append(len(calls(log)))
        assert least <= len(finished[-1]) < 100
    process = start()
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr

    result, serial = np.load(tmp_path / "result.npy"), np.load(tmp_path / "serial.npy")
    np.testing.assert_array_equal(result, serial)
    assert result.shape == (100,) and np.all(np.isfinite(result)) and len(set(result)) == 100
    order = calls(log)[:-100]  # the last 100 are the serial sweep's
    second, third = order[logged[0] : logged[1]], order[logged[1] :]
    # exactly what was not in the file is computed, once; a point under way at a kill is in neither and comes again
    assert sorted(third) == sorted(set(np.linspace(0.05, 1.0, 100).tolist()) - finished[1])
    assert len(set(second)) == len(second) and not finished[0] & set(second)
    assert finished[0] < finished[1] <= finished[0] | set(second)


def finished_points(path):
    """Learning rates in a checkpoint, read while it is written."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return {json.loads(line)["point"]["eta"] for line in lines if line.endswith("\n")}


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "arguments"),
    [
        ("function = 3; expected a callable", (3, {"x": [1]})),
        ("neither may be empty", (abs, {})),
        ("neither may be empty", (abs, [])),
        ("neither may be empty", (abs, 3)),
        (
            "the product of 20 lists as points; expected at most 1000000",
            (abs, {f"x{i}": range(100) for i in range(20)}),
        ),
        (
            r"100 x 100 x 101 points; expected at most 1000000.*several sweeps",
            (abs, dict(a=range(100), b=range(100), c=range(101))),
        ),
        (r"grid\['x'\] is empty", (fails_at_2, {"x": []})),
        (r"grid\['x'\] = 0.5; expected a list.*Try \[0.5\]", (fails_at_2, {"x": 0.5})),
        (r"grid\['x'\] = 'erf'; expected a list", (fails_at_2, {"x": "erf"})),
        (r"grid\['x'\] = array\(1.\)", (fails_at_2, {"x": np.array(1.0)})),
        ("the name 1; expected names", (fails_at_2, {1: [1]})),
        (r"grid\[1\] has the names \['y'\]; expected \['x'\]", (fails_at_2, [{"x": 1}, {"y": 1}])),
        (r"fails_at_2\(x\) cannot be called with the names \['z'\]", (fails_at_2, {"z": [1]})),
        ("Pass a seed to the sweep: rng=1", (noisy, {"eta": ETAS})),
    ],
)
def test_bad_input_is_refused_before_any_work(match, arguments):
    with pytest.raises(ValueError, match=match):
        ov.sweep(*arguments)


def test_bad_seeds_and_executors_are_refused(processes):
    with pytest.raises(ValueError, match=r"and rng.*It takes no seed"):
        ov.sweep(fails_at_2, {"x": [1]}, rng=1)
    with pytest.raises(ValueError, match="rng = -1; expected a seed"):
        ov.sweep(noisy, {"eta": ETAS}, rng=-1)
    with pytest.raises(ValueError, match="both in the grid and as the seed"):
        ov.sweep(noisy, {"eta": ETAS, "rng": [1]}, rng=1)
    with pytest.raises(ValueError, match=r"executor = 4; expected .* client.get_executor\(\)"):
        ov.sweep(abs_of, {"x": [1]}, executor=4)
    with pytest.raises(ValueError, match="<lambda> and its arguments cannot be sent.*functools.partial"):
        ov.sweep(lambda x: x, {"x": [1]}, executor=processes)


# --- xarray ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def model():
    return ov.committee_machine(2, 3, eta=0.5, spectrum=ov.power_law(beta=1.0, L=2))


def test_trajectory_and_ensemble_to_xarray(model, tmp_path):
    traj = ov.solve(model, model.random_start(N=100, rng=1), np.linspace(0, 2, 5))
    runs = ov.simulate(model, N=100, alpha=[0, 1], rng=1, runs=4)
    for result, lead in ((traj, ()), (runs, ("run",))):
        data = result.to_xarray()
        dims = {"eps_g": (), "Q": ("k", "k2"), "R": ("k", "m"), "v": ("k",)}
        dims |= {"q": ("block", "k", "k2"), "r": ("block", "k", "m")}
        for name, letters in dims.items():
            assert data[name].dims == (*lead, "alpha", *letters)
            np.testing.assert_array_equal(data[name], getattr(result, name))
        assert data.tau.dims == (*lead, "block", "m", "m2") and data.T.dims == (*lead, "m", "m2")
        assert data.sizes["k"] == 2 and data.sizes["m"] == 3 and data.sizes["block"] == 2
        np.testing.assert_array_equal(data.alpha, result.alpha)
        np.testing.assert_array_equal(data.s, model.spectrum.s)
        assert data.attrs["model"] == str(model) and data.attrs["success"] == 1
        assert all(data[name].attrs["long_name"] for name in data.variables)
        data.to_netcdf(tmp_path / "data.nc", engine="scipy")  # every attribute can be written
        with xr.open_dataset(tmp_path / "data.nc", engine="scipy") as again:
            xr.testing.assert_identical(again.load(), data)
    assert runs.to_xarray().attrs["N"] == 100
    np.testing.assert_array_equal(data.eps_g.mean("run"), runs.mean("eps_g"))


def test_sweep_of_numbers_to_xarray():
    result = ov.sweep(lambda x, name: x * len(name), {"x": [1.0, 2.0], "name": ["a", "bb", "ccc"]})
    data = result.to_xarray()
    assert data.value.dims == ("x", "name") and "error" not in data
    assert float(data.value.sel(x=2, name="ccc")) == 6
    data = ov.sweep(lambda x: {"square": x**2, "pair": [x, -x]}, [{"x": 2}, {"x": 5}]).to_xarray()
    assert data.square.dims == ("point",) and data.x.dims == ("point",) and list(data.x) == [2, 5]
    assert data.pair.dims == ("point", "pair_dim_0") and data.pair.values.tolist() == [[2, -2], [5, -5]]
    with pytest.warns(RuntimeWarning):
        data = ov.sweep(fails_at_2, {"x": [1, 2, 3]}).to_xarray()
    np.testing.assert_array_equal(data.value, [10, np.nan, 30])
    assert data.error.values.tolist() == ["", "ZeroDivisionError: x is two", ""]
    data = ov.sweep(lambda g: g(1.0), {"g": [ov.relu, ov.quadratic]}).to_xarray()
    assert data.g.values.tolist() == ["relu", "quadratic"]


def test_tables_carry_the_parameters_of_each_point():
    pytest.importorskip("pandas")
    table = ov.sweep(
        lambda x, name: {"n": x * len(name), "half": x / 2}, {"x": [3, 5], "name": ["a", "bb"]}
    ).to_pandas()
    assert list(table.columns) == ["x", "name", "n", "half"] and table.n.tolist() == [3, 6, 5, 10]
    with pytest.warns(RuntimeWarning):
        table = ov.sweep(fails_at_2, {"x": [1, 2, 3]}).to_pandas()
    np.testing.assert_array_equal(table.value, [10, np.nan, 30])
    assert table.x.tolist() == [1, 2, 3] and table.error.tolist() == ["", "ZeroDivisionError: x is two", ""]

    def solved(eta, runs):
        model = ov.committee_machine(2, 1, eta=eta)
        return ov.simulate(model, N=30, alpha=[0, 1, 2], rng=1, runs=runs)

    result = ov.sweep(solved, {"eta": [0.3, 0.7], "runs": [2, 3]})
    table = result.to_pandas()
    assert len(table) == 2 * (2 + 3) * 3
    row = table[(table.eta == 0.7) & (table.runs == 3) & (table.run == 2) & (table.alpha == 1)]
    assert row.R_21.item() == result[1, 1].R[2, 1, 1, 0]
    with pytest.raises(ValueError, match=r"value at \{'x': 2\} is list; expected numbers.*to_xarray"):
        ov.sweep(lambda x: [x, x], {"x": [2, 3]}).to_pandas()
    with pytest.raises(ValueError, match=r"\['n'\] are parameters of the grid and columns"):
        ov.sweep(lambda n: {"n": n}, {"n": [2, 3]}).to_pandas()


def test_sweep_of_trajectories_to_xarray():
    grid = {"eta": ETAS, "beta": [0.5, 1.0]}

    def solved(eta, beta, stop=None):
        model = ov.committee_machine(2, 2, eta=eta, spectrum=ov.power_law(beta=beta, L=3))
        return ov.solve(model, model.random_start(N=300, rng=1), np.linspace(0, 5, 6)[: 4 if eta == 0.6 else 6])

    result = ov.sweep(solved, grid)
    data = result.to_xarray()
    assert data.R.dims == ("eta", "beta", "alpha", "k", "m") and data.R.shape == (3, 2, 6, 2, 2)
    np.testing.assert_array_equal(data.eps_g.sel(eta=0.9, beta=1.0), result[2, 1].eps_g)
    short = data.eps_g.sel(eta=0.6, beta=0.5)  # ended early: filled up
    np.testing.assert_array_equal(short, [*result[1, 0].eps_g, np.nan, np.nan])
    assert data.s.dims == ("eta", "beta", "block")  # every point has its own spectrum
    np.testing.assert_array_equal(data.s.sel(eta=0.3, beta=0.5), result[0, 0].model.spectrum.s)


def test_values_that_fit_in_no_dataset_say_why():
    def solved(eta):
        model = ov.committee_machine(1, 1, eta=eta)
        return ov.solve(model, model.random_start(N=100, rng=1), (0, 5), every_step=True)

    with pytest.raises(ValueError, match="recorded at different times; pass the same times"):
        ov.sweep(solved, {"eta": ETAS}).to_xarray()
    with pytest.raises(ValueError, match="differ in shape"):
        ov.sweep(trajectory, {"eta": [0.5], "K": [1, 2]}).to_xarray()
    with pytest.raises(ValueError, match=r"\['alpha'\] are parameters of the grid and names in the values"):
        ov.sweep(lambda alpha: trajectory(0.5, 1), {"alpha": [1, 2]}).to_xarray()
    with pytest.raises(ValueError, match="value is of type str; expected numbers"):
        ov.sweep(str, [{"object": 1}]).to_xarray()
    with pytest.raises(ValueError, match="different variables"):
        ov.sweep(lambda x: {x: 1}, {"x": ["a", "b"]}).to_xarray()


def test_without_xarray_the_message_names_the_extra(model, monkeypatch):
    traj = ov.solve(model, model.random_start(N=100, rng=1), [0, 1])
    result = ov.sweep(fails_at_2, {"x": [1]})
    monkeypatch.setitem(sys.modules, "xarray", None)  # import xarray now raises ImportError
    for convert in (traj.to_xarray, result.to_xarray):
        with pytest.raises(ImportError, match=r'pip install "overlaps\[xarray\]"'):
            convert()


# --- examples --------------------------------------------------------------------------------------------------------


def test_the_sweep_examples_differ_in_making_the_pool_only():
    scripts = sorted((Path(__file__).parents[2] / "examples").glob("sweep_*.py"))
    rests, pools = set(), set()
    for script in scripts:
        _, *body = ast.parse(script.read_text()).body  # without the docstring
        pool = next(node for node in body if getattr(node, "name", "") == "make_pool")
        rest = [node for node in body if node is not pool and getattr(node, "module", "") != "contextlib"]
        rests.add("\n".join(map(ast.unparse, rest)))
        pools.add(ast.unparse(pool.body[-1]))
    assert len(scripts) == len(pools) == 4 and len(rests) == 1
