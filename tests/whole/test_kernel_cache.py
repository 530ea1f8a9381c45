"""Compiled kernels are kept by content: names of files, edits, folders that are not as they should be."""

import errno
import importlib
import json
import math
import os
import pkgutil
import resource
import shutil
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from helpers import _shift, answer
from llvmlite.binding import Linkage
from numba import config, types
from numba.core.dispatcher import Dispatcher

import overlaps as ov
from overlaps import __main__ as command
from overlaps._base import kernel_cache, numba_internals
from overlaps._base.jit import INT, jit, jit_user, typed_namedtuple, watch
from overlaps.gaussian import elementary

SOURCE = Path(ov.__file__).parent
LEAF = "low = ((_P[0] + _P[1] * z)"  # of p(z) = asin(x) / x, z = x^2
ANGLE = "math.copysign(offset + q"  # of arctan2
FINGERPRINTS = """
import json, sys
sys.path[:0] = {tests!r}
from test_kernel_cache import prints
print(json.dumps(prints()))
"""


@cache
def kernels():
    """All kernels of the package, by module and name."""
    found = {}
    for found_module in pkgutil.walk_packages(ov.__path__, "overlaps."):
        for value in vars(importlib.import_module(found_module.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__.startswith("overlaps."):
                name = f"{value.py_func.__module__}.{value.py_func.__qualname__}"
                # symbols of machine code are made of these names: two of one name would run each other's code
                assert found.setdefault(name, value) is value, f"two kernels are called {name}"
    return found


def prints():
    return {name: kernel_cache.fingerprint(kernel).hex() for name, kernel in kernels().items()}


def called(kernel):
    """Kernels that one names, and all kernels of modules whose functions, overloaded for kernels, it names."""
    function = kernel.py_func
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Dispatcher):
            yield value
        elif isinstance(value, FunctionType) and value.__module__.startswith("overlaps."):
            yield from (x for x in vars(sys.modules[value.__module__]).values() if isinstance(x, Dispatcher))


def reaching(leaf):
    """Names of the kernels that reach a leaf through any number of calls."""
    found, size = {leaf}, 0
    while len(found) > size:
        size = len(found)
        found |= {kernel for kernel in kernels().values() if any(x in found for x in called(kernel))}
    return {name for name, kernel in kernels().items() if kernel in found}


def copied(tmp_path, *edits):
    """A copy of the sources with edits (file, old, new); its parent folder."""
    shutil.copytree(SOURCE, tmp_path / "overlaps", ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in edits:
        path = tmp_path / "overlaps" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    return tmp_path


def python(code, sources, **environment):
    env = os.environ | {"PYTHONPATH": str(sources)} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=sources)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kernel_has_a_fingerprint_of_its_own():
    """A kernel that reads a global of an unknown kind raises TypeError."""
    found = prints()
    assert len(found) > 200 and len({*found.values()}) == len(found)


@pytest.mark.slow
def test_a_fingerprint_holds_the_code_that_is_reached_and_nothing_else(tmp_path):
    """Another place, a comment and moved lines change no kernel; an edited leaf changes exactly those that reach it."""
    comment = (
        "flow/_flow.py",
        "@jit(no_reference_counting=True)\ndef triangle",
        "# a comment\n\n@jit(no_reference_counting=True)\ndef triangle",
    )
    edit = "gaussian/elementary.py", LEAF, LEAF.replace("_P[0]", "2 * _P[0]")
    here = Path(__file__).parent  # this module, and the helpers it imports
    code = FINGERPRINTS.format(tests=[str(here), str(here.parent)])
    before, after = prints(), json.loads(python(code, copied(tmp_path, comment, edit)))
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == reaching(elementary.p)
    assert {"overlaps.activations._erf.erf_closure", "overlaps.gaussian.elementary.p"} < changed
    assert not any(name.startswith("overlaps.flow.") for name in changed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_edit_of_an_imported_kernel_is_noticed(tmp_path):
    """Angles larger by a quarter, where the cache holds the closure of erf that was made before: eps_g is their sum."""
    Q, R, T = 0.7, 0.2, 0.8
    code = (
        "import overlaps as ov\n"
        "model = ov.committee_machine(1, 1, activation=ov.erf, eta=0.5)\n"
        f"print(ov.closure(model, [[{Q}]], [[{R}]], [[{T}]]).eps_g)\n"
    )
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    sines = Q / (1 + Q), T / (1 + T), R / math.sqrt((1 + Q) * (1 + T))
    q, t, r = (math.asin(x) for x in sines)
    before = (q + t - 2 * r) / math.pi  # Saad and Solla (1995)
    assert float(python(code, SOURCE.parent, **folder)) == pytest.approx(before, rel=1e-13)
    kept = {path.name for path in tmp_path.rglob("*.nbc")}
    edited = copied(tmp_path / "edited", ("gaussian/elementary.py", ANGLE, ANGLE.replace("m", "1.25 * m", 1)))
    assert float(python(code, edited, **folder)) == pytest.approx(1.25 * before, rel=1e-13)
    assert float(python(code, SOURCE.parent, **folder)) == pytest.approx(before, rel=1e-13)
    assert kept < {path.name for path in tmp_path.rglob("*.nbc")}  # side by side


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own, empty."""
    monkeypatch.setattr(kernel_cache, "folder", lambda: str(tmp_path))
    return tmp_path


def ordered(*names):
    return typed_namedtuple(NamedTuple("Pair", [(name, INT) for name in names])).type


@jit
def rate_of(pair):
    return pair.rate


def test_code_that_reads_parts_by_name_knows_their_order():
    """Else an edit that exchanges two parts of a named tuple would find code that reads the other one."""
    one, other = ordered("rate", "size"), ordered("size", "rate")
    assert str(one) == str(other)
    places = {rate_of.cache.file(sig) for x in (one, other) for sig in ((x,), (types.Tuple([x]),))}
    assert len(places) == 4


def fresh(numbers):
    """A kernel that no other test has met, with a constant."""

    def pick(i):
        return numbers[i]

    return jit(pick)


def test_a_fingerprint_knows_the_shape_of_a_constant():
    """Equal numbers in another shape are other code: x[1] is a row of three or of two."""
    numbers = np.arange(1.5, 7.5)
    prints = [kernel_cache.fingerprint(fresh(numbers.reshape(shape))) for shape in ((2, 3), (3, 2), (2, 3))]
    assert prints[0] != prints[1] and prints[0] == prints[2]


@pytest.mark.parametrize("knob", kernel_cache.CACHE.settings)
def test_a_fingerprint_knows_what_changes_machine_code(knob, monkeypatch):
    before = kernel_cache.fingerprint(fresh((0.3, 1.7)))
    assert kernel_cache.fingerprint(fresh((0.3, 1.7))) == before
    monkeypatch.setattr(config, knob, 7)
    assert kernel_cache.fingerprint(fresh((0.3, 1.7))) != before


RATE = 0.3


def shifted(shift, other=0.0):
    """A kernel that reaches two of one name."""

    def inner(c):
        return jit_user(lambda x: x + c)

    one, two = inner(shift), inner(other)
    return jit_user(lambda x: one(x) * two(x) * RATE)


def test_kernels_that_functions_make_are_made_once(monkeypatch):
    """Of equal constants, globals and kernels reached; what is read from a module of the user may change."""
    kernels = [shifted(*x) for x in ((0.5, 0.2), (0.5, 0.4), (0.7, 0.2), (0.2, 0.5))]
    assert [k(2.0) for k in kernels] == pytest.approx([0.3 * x for x in (2.5 * 2.2, 2.5 * 2.4, 2.7 * 2.2, 2.2 * 2.5)])
    assert shifted(0.5, 0.2) is kernels[0] and len({*map(id, kernels)}) == 4
    monkeypatch.setitem(globals(), "RATE", 0.9)
    assert shifted(0.5, 0.2)(2.0) == pytest.approx(0.9 * 2.5 * 2.2)
    user = ModuleType("user")
    monkeypatch.setitem(globals(), "user", user)
    for rate in (0.6, 0.8):
        user.rate = rate
        assert jit_user(lambda x: user.rate * x)(2.0) == 2 * rate  # noqa: F821


def hebbian(lam, nu, xi, theta, S, F, G):
    F[0] = RATE * nu[0]


def test_a_rule_that_is_made_again_compiles_nothing():
    def rules():
        own = ov.Rule(hebbian, K=1, M=1, name="mine", theta=(0.4,))
        return own.closure, ov.rules.feedback_alignment([0.7], [0.8]).closure

    first, before = rules(), watch.count
    assert rules() == first and watch.count == before
    assert ov.rules.feedback_alignment([0.7], [0.9]).closure is not first[1] and watch.count > before


def test_what_was_compiled_is_found(folder):
    assert answer() == (6.5, False)
    assert answer() == (6.5, True)
    (file,) = folder.iterdir()
    assert file.name.startswith("_shift-") and file.suffix == ".nbc"


def flipped(data):
    """One bit of the machine code, in a file that pickle and LLVM take as it is."""
    at = data.index(b"\x7fELF" if b"\x7fELF" in data else b"_shift") + 64
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[::-1], lambda b: b"\x80\x05N.", flipped]
)
def test_a_damaged_file_is_replaced(folder, damage):
    answer()
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert answer() == (6.5, False)
    assert answer() == (6.5, True)


def test_a_file_of_another_kernel_does_not_pass_for_this_one(folder):
    """Names hold what is in them; a renamed file is the user's doing, and what numba makes of it is no crash."""
    answer()
    (file,) = folder.iterdir()
    os.rename(file, folder / f"other-{file.name}")
    assert answer() == (6.5, False)


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_full_disk_costs_the_file_only(folder):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # bytes
    try:
        assert answer() == (6.5, False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [*folder.iterdir()] == []
    assert answer() == (6.5, False)
    assert answer() == (6.5, True)


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOMEM])
@pytest.mark.parametrize("where", ["read", "unpack"])
def test_a_sound_file_stays_whatever_happens_to_its_reader(folder, where, reason, monkeypatch):
    """It compiles what it cannot read; the next one finds the file as it was."""

    def fail(*_):
        raise OSError(reason, os.strerror(reason))

    answer()
    (file,) = folder.iterdir()
    sound = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(kernel_cache.folders, "write", lambda *_: None)
        patched.setattr(*((kernel_cache.folders, "read") if where == "read" else (numba_internals, "unpack")), fail)
        assert answer() == (6.5, False)
    assert file.read_bytes() == sound and answer() == (6.5, True)


@pytest.mark.skipif(kernel_cache.fcntl is None, reason="POSIX")
@pytest.mark.parametrize("other", ["is done", "is stopped"])
def test_who_wants_what_another_compiles_waits_a_while(other, folder, monkeypatch):
    answer()
    (file,) = folder.iterdir()
    done = file.rename(folder / "done")
    claim = kernel_cache._claim(f"{file}.lock")
    monkeypatch.setattr(
        kernel_cache, "CACHE", kernel_cache.CacheOptions(lock_timeout=0.2 if other == "is stopped" else 60)
    )
    monkeypatch.setattr(kernel_cache.waiting, "timed_out", False)

    def finish():
        os.rename(done, file)
        claim.close()

    if other == "is done":
        threading.Timer(0.2, finish).start()
    began = time.monotonic()
    assert answer() == (6.5, other == "is done")
    assert time.monotonic() - began > 0.19
    claim.close()


@pytest.mark.skipif(kernel_cache.fcntl is None, reason="POSIX")
def test_a_stopped_process_is_waited_for_once(tmp_path, monkeypatch):
    """Not for every kernel that it holds; who waited in vain still takes what nobody holds."""
    monkeypatch.setattr(kernel_cache, "CACHE", kernel_cache.CacheOptions(lock_timeout=0.2))
    monkeypatch.setattr(kernel_cache.waiting, "timed_out", False)
    held = [kernel_cache._claim(tmp_path / f"{i}") for i in range(30)]
    began = time.monotonic()
    assert not any(kernel_cache._claim(tmp_path / f"{i}") for i in range(30))
    assert 0.19 < time.monotonic() - began < 30 * 0.2
    with kernel_cache._claim(tmp_path / "free"):
        pass
    for file in held:
        file.close()


def test_another_numba_keeps_its_own(folder, monkeypatch):
    answer()
    monkeypatch.setattr(kernel_cache, "CACHE", kernel_cache.CACHE._replace(versions="another"))
    assert answer() == (6.5, False)
    assert len([*folder.iterdir()]) == 2


def test_info_and_prune(folder, capsys):
    answer()
    (read,) = folder.iterdir()
    old, notes = folder / "old-1-1.nbc", folder / "notes.txt"
    old.write_text("")
    notes.write_text("")
    for path in (old, notes):
        os.utime(path, 2 * (time.time() - 86400 * 61,))
    os.utime(read, 2 * (time.time() - 86400 * 61,))
    assert answer() == (6.5, True)  # read: young again
    command.main(["info"])
    assert f"compiled kernels in {folder}: 2 files" in capsys.readouterr().out
    command.main(["warm", "--prune"])
    assert "1 kernels removed that were not read for 60 days; 1 remain" in capsys.readouterr().out
    assert {*folder.iterdir()} == {read, notes}


# a kernel that another one calls -------------------------------------------------------------------------------------


def test_constants_and_variables_share_one_compiled_form(folder):
    """Numba would compile one for each constant of the text, True and False, 0 and 1."""
    inner = jit(_shift)
    outer = jit(lambda n, m: inner(2) + inner(n) + inner(True) + inner(m > 0))
    assert outer(4, -1) == 6.5 + 12.5 + 3.5 + 0.5
    assert [*inner.overloads] == [(types.int64,), (types.boolean,)]


def chain(length):
    """Three fresh kernels, each of which calls the one before: of some length, of a line, and for calls from Python."""
    text = "def wide(x):\n" + "    x += math.sin(0.3 * x) / (1.0 + x * x)\n" * length + "    return x"
    exec(text, names := {"math": math, "__name__": __name__})
    wide = jit(names["wide"])
    thin = jit(lambda x: wide(x) - 0.7)
    return wide, thin, jit(lambda x: 2.0 * thin(x))


def linkages(module, name):
    return {f.linkage for f in module.functions if name in f.name and not f.is_declaration}


def test_machine_code_calls_its_own_copies(folder):
    """Whatever else was compiled or loaded before; what callers are made of keeps one copy of each function."""
    wide, thin, outside = chain(60)
    assert outside(1.3) == pytest.approx(2 * (wide.py_func(1.3) - 0.7), rel=1e-14)
    (library,) = (result.library for result in outside.overloads.values())
    assert linkages(library._final_module, "wide") == {Linkage.internal}
    assert linkages(library._get_module_for_linking(), "wide") == {Linkage.linkonce_odr}


@pytest.mark.parametrize("fast_first", [False, True])
def test_helpers_of_numba_have_the_options_of_the_kernel(fast_first, folder):
    """Of integer powers, numba would make one for all kernels, with fast sums if the first one has them."""
    numba_internals.subroutines.clear()
    texts = {}
    for fast in (fast_first, not fast_first):
        kernel = jit(lambda x, n: x**n, fast=fast)
        assert kernel(1.5, 3) == 3.375
        (result,) = kernel.overloads.values()
        texts[fast] = str(result.library._get_module_for_linking())
    assert "fmul reassoc" in texts[True] and "fmul" in texts[False] and "reassoc" not in texts[False]


def test_kernels_of_one_name_are_told_apart(folder):
    """Kernels that functions make may call namesakes: what they call is part of their fingerprint."""
    assert len({kernel_cache.fingerprint(chain(length)[2]) for length in (2, 3, 2)}) == 2


def test_fields_of_a_global_named_tuple_are_part_of_the_fingerprint(folder):
    """The same values under exchanged names: a kernel that reads one by its name has another result."""

    def reads(names):
        exec("def first(x):\n    return x * OPTIONS.a", scope := {"__name__": __name__})
        scope["OPTIONS"] = NamedTuple("Options", [(name, float) for name in names])(2.0, 3.0)
        return jit(scope["first"])

    one, other, again = (reads(names) for names in ("ab", "ba", "ab"))
    assert kernel_cache.fingerprint(one) == kernel_cache.fingerprint(again) != kernel_cache.fingerprint(other)
    assert [kernel(5.0) for kernel in (one, other, again)] == [10.0, 15.0, 10.0]


@pytest.mark.parametrize("terms", [1, 60])
def test_a_called_kernel_raises_what_it_would_raise_alone(terms):
    """Values of an exception are read from constants of the callee, in code that LLVM puts into the caller or not."""
    text = 'def root(x):\n    if x < 0:\n        raise ValueError("no root of", x)\n    return math.sqrt(x)'
    text += "".join(f" + 0.0 * math.sin({i} * x) * math.cos({i} + x)" for i in range(1, terms))
    exec(text, names := {"math": math, "__name__": __name__})
    inner = jit_user(names["root"])
    outer = jit_user(lambda x: 2.0 * inner(x))
    assert outer(2.25) == 3.0
    for kernel in (outer, inner, outer):
        with pytest.raises(ValueError) as caught:
            kernel(-0.3)
        assert caught.value.args == ("no root of", -0.3)


# another numba -------------------------------------------------------------------------------------------------------

LACKS = {  # what a future numba may have renamed, or changed
    "JITCodeLibrary": "del numba.core.codegen.JITCodeLibrary",
    "global_compiler_lock": "del numba.core.compiler_lock.global_compiler_lock",
    "dumps": "del numba.core.serialize.dumps",
    "_reduce": "del CompileResult._reduce",
    "_rebuild": "del CompileResult._rebuild",
    "_nrt": "del numba.core.options.DefaultOptions._nrt",
    "an argument of _rebuild": "CompileResult._rebuild = classmethod(lambda cls, context, more, *rest, needed: None)",
    "an argument of _finalize_final_module": "numba.core.codegen.JITCodeLibrary = type('L', (JITCodeLibrary,), more)",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LACKS)
def test_without_a_name_of_numba_everything_works(name, tmp_path):
    """Also compiled; nothing is kept, no error, and ``info`` says so.  Reference counts cost time only."""
    code = f"""
import numba, numba.core.options
from numba.core.compiler import CompileResult
from numba.core.codegen import JITCodeLibrary
more = {{"_finalize_final_module": lambda self, needed: None}}
{LACKS[name]}
import overlaps as ov
from overlaps import __main__ as command
model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
start = ov.State.from_overlaps(model, Q=[[0.5]], R=[[0.2]], T=[[1.1]])
print(repr(float(ov.solve(model, start, (0, 3.0)).eps_g[-1])))
with ov.reproducible():
    print(repr(float(ov.closure(model, Q=[[0.5]], R=[[0.2]], T=[[1.1]]).eps_g)))
command.main(["info"])
"""
    env = {"NUMBA_CACHE_DIR": str(tmp_path), "OVERLAPS_JIT": "auto", "OVERLAPS_QUIET": "1"}
    one, two, *info = python(code, SOURCE.parent, **env).splitlines()
    # Q - 2 R + T over 2; the second moment of the linear student decays as 1 - 2 eta + eta^2 at K = M = 1
    assert float(two) == pytest.approx((0.5 - 0.4 + 1.1) / 2, rel=1e-14)
    assert float(one) == pytest.approx(float(two) * math.exp(3.0 * (0.5**2 - 2 * 0.5)), rel=1e-7)
    keeps = name == "_nrt"
    assert len([*tmp_path.rglob("*.nbc")]) == 0 or keeps
    assert ("is not as expected" in info[-1]) == (not keeps)


def test_what_this_numba_lacks_is_found_by_trying(folder, monkeypatch, capsys):
    """A member that changed is no error: numba compiles alone, and nothing is kept."""
    monkeypatch.setattr(numba_internals.tried, "fault", None)

    def changed(self):
        raise AttributeError("another name")

    monkeypatch.setattr(numba_internals.Library, "_get_module_for_linking", changed)
    assert answer() == answer() == (6.5, False) and [*folder.iterdir()] == []
    assert "is not as expected (AttributeError: another name)" in numba_internals.why_unsupported()
    command.main(["info"])
    assert "compiled kernels are not cached: numba" in capsys.readouterr().out
