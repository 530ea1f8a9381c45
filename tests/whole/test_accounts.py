"""When a path is compiled: accounts of runs without compilation, what is missing, and what later processes find."""

import os
import subprocess
import sys
from itertools import chain, combinations

import pytest

from overlaps._base import accounts, kernel_cache, lazy_compilation
from overlaps._base.accounts import Account
from overlaps._base.jit import REAL, jit
from overlaps._base.lazy_compilation import COMPILATION, OTHER_COMPILATION


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of kernels, and a process in which nothing has been spent."""
    monkeypatch.setattr(kernel_cache, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(lazy_compilation, "LAZY_LIMITS", lazy_compilation.LazyLimits(max_ratio=1.0))
    renew(monkeypatch)
    return tmp_path


def renew(monkeypatch):
    """Forget accounts as a new process does, which reads those on the disk."""
    monkeypatch.setattr(accounts, "_spent", {})
    monkeypatch.setattr(accounts, "_stored", {})


def path(*factors):
    """Fresh kernels that no process has compiled, with their signatures."""

    def multiply(factor):
        exec("def scaled(x):\n    return FACTOR * x", names := {"FACTOR": factor, "__name__": __name__})
        return jit(names["scaled"])

    return [(multiply(factor), (REAL,)) for factor in factors]


def test_an_account_is_that_of_a_path(folder):
    """Steps along one path compile nothing else; a path with other kernels, or edited ones, has its own."""
    mine, other = Account(path(0.3, 0.7)), Account(path(0.3, 0.8))
    mine.add(2 * OTHER_COMPILATION - 0.5)
    assert not mine.pays() and not Account(path(0.3, 0.7)).pays()
    assert mine.pays(ahead=0.5)
    mine.add(2 * OTHER_COMPILATION)
    assert mine.pays() and not other.pays() and not Account(path(0.3, 0.8)).pays(ahead=1.9 * OTHER_COMPILATION)


def test_the_seconds_of_kernels_are_those_since_the_step_before(folder, monkeypatch):
    monkeypatch.setattr(lazy_compilation.time_spent, "seconds", 7.0)  # of what was called outside of runs
    account = Account(path(0.4))
    monkeypatch.setattr(lazy_compilation.time_spent, "seconds", 7.25)
    account.add(0.5)
    account.add(0.125)
    assert accounts._spent == {account.path: 0.875}


def test_the_limit_is_what_is_missing(folder):
    """Of two kernels one is on the disk, then both."""
    kernels = path(0.45, 0.55)
    assert Account(kernels).limit == 2 * OTHER_COMPILATION
    kernels[0][0].compile((REAL,))
    assert Account(path(0.45, 0.55)).limit == OTHER_COMPILATION
    kernels[1][0].compile((REAL,))
    assert Account(path(0.45, 0.55)).limit == 0.0 and Account(path(0.45, 0.55)).pays()


def test_later_processes_go_on(folder, monkeypatch):
    """Until the path is compiled; what was spent is written each second and at the end of a process."""
    first = Account(path(0.2))
    first.add(0.75)
    assert accounts.account_files() == []
    first.add(0.5)
    (file,) = accounts.account_files()
    assert file.read_text() == "1.250"
    first.add(0.5)
    accounts._store_all()
    assert file.read_text() == "1.750"
    renew(monkeypatch)
    second = Account(path(0.2))
    assert not second.pays(ahead=1.2) and second.pays(ahead=1.3)
    assert accounts.account_files() == []
    renew(monkeypatch)
    assert not Account(path(0.2)).pays(ahead=2.9)


@pytest.mark.parametrize("contents", [b"", b"\xff\x00", b"many", b"-1e9", b"nan"])
def test_a_file_without_a_number_counts_as_none(contents, folder, monkeypatch):
    Account(path(0.1)).add(1.5)
    (file,) = accounts.account_files()
    file.write_bytes(contents)
    renew(monkeypatch)
    account = Account(path(0.1))
    assert not account.pays(ahead=2.9) and account.pays(ahead=3.0)


def test_without_a_folder_accounts_are_those_of_the_process(folder, monkeypatch):
    monkeypatch.setattr(kernel_cache, "folder", lambda: None)
    Account(path(0.6)).add(2.0)
    assert not Account(path(0.6)).pays(ahead=0.9) and Account(path(0.6)).pays(ahead=1.1)
    assert accounts.account_files() == []


# the rule against the better choice in hindsight ---------------------------------------------------------------------

UNITS = {
    "dop853": COMPILATION["_dop853.advance"],
    "bdf": COMPILATION["_bdf.advance"] + COMPILATION["_bdf.newton_iteration"],
    "few": COMPILATION["_flow.flow_of_few"], "many": COMPILATION["_flow.flow_of_many"],
    "erf": COMPILATION["_erf.erf_closure"], "relu": COMPILATION["_relu.relu_closure"],
}  # fmt: skip
# a call to alpha = 100, or 1e5 and 1e9 for power laws of 64 and 512 eigenvalues: CPU seconds without compilation, with
# it, as estimated, and what is compiled; measured on one machine
CURVES = {
    "erf": (0.095, 0.002, 0.087, ("dop853", "few", "erf")),
    "erf8": (0.446, 0.017, 0.465, ("dop853", "few", "erf")),
    "relu": (0.2, 0.003, 0.224, ("dop853", "few", "relu")),
    "power 64": (2.3, 0.05, 2.45, ("bdf", "many", "erf")),
    "power 512": (3.4, 0.21, 2.81, ("bdf", "many", "erf")),
}
SESSIONS = [
    *([["erf"] * n] for n in (1, 30, 100, 600, 5000)), *([["power 512"] * n] for n in (1, 2, 4, 7, 20)),
    *([["erf8"] * n] for n in (3, 10, 60)), [["erf"] * 40 + ["relu"]], [["erf"] * 100 + ["relu"] * 3 + ["power 64"]],
    [["erf"] * 10 + ["relu"] * 10 + ["power 64"] * 2 + ["erf8"] * 10], [["erf"] * 5 + ["relu"] * 3 + ["power 64"]],
    [["erf"] * 20 + ["relu"] * 5 + ["power 64"]] * 6, [["power 512"] * 4] * 15, [["erf"] * 8] * 60,
]  # fmt: skip


def session_seconds(processes, compiles):
    """Seconds of processes one after the other; ``compiles(name, missing, spent)`` is asked before each curve."""
    compiled, total, spent = set(), 0.0, {}
    for name in chain(*processes):
        without, with_it, estimate, needed = CURVES[name]
        missing = [unit for unit in needed if unit not in compiled]
        if missing and compiles(name, missing, spent.get(needed, 0.0)):
            total += sum(UNITS[unit] for unit in missing)
            compiled.update(missing)
            missing = []
        total += without if missing else with_it
        spent[needed] = spent.get(needed, 0.0) + (estimate if missing else 0.0)
    return total


def by_account(name, missing, spent):
    return spent >= lazy_compilation.LAZY_LIMITS.max_ratio * sum(UNITS[unit] for unit in missing)


@pytest.mark.parametrize("processes", SESSIONS)
def test_the_rule_costs_at_most_twice_and_a_half_of_the_better_choice(processes):
    """Of all sets of curves that could be compiled at their first call; one account is kept for all processes."""
    names = sorted({*chain(*processes)})
    choices = chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))
    best = min(session_seconds(processes, lambda name, *_, chosen=chosen: name in chosen) for chosen in choices)
    assert session_seconds(processes, by_account) < 2.5 * best


CURVES_OF_ERF = """
import numpy as np, overlaps as ov
from overlaps._base import jit as compiling
from time import process_time
def curve(activation, end):
    m = ov.committee_machine(2, 2, activation=activation, eta=0.5)
    s = ov.State.from_overlaps(m, Q=[[.5, .0], [.0, .4]], R=[[.1, .02], [.03, .12]], T=np.eye(2))
    return ov.solve(m, s, (0, end)).success
assert all(curve(ov.erf, 100.0 + 1e-3 * i) for i in range({n}))
before = compiling.watch.count
assert curve(ov.relu, 100.0)
print(before, compiling.watch.count - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n", [25, 40])
def test_many_curves_of_one_kind_compile_nothing_of_another(n, tmp_path):
    """With an empty folder; 25 curves of erf are estimated below the limit of their path, 40 are above it."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OVERLAPS_JIT": "auto", "OVERLAPS_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CURVES_OF_ERF.replace("{n}", str(n))], capture_output=True, text=True, env=env
    )
    of_erf, of_relu = (int(word) for word in done.stdout.split())
    assert (of_erf == 0) == (n == 25) and of_relu == 0, done.stderr
    assert len([*tmp_path.rglob("*.spent")]) == (2 if n == 25 else 1)  # the account of a compiled path ends
