"""The package where it is not at home: read-only, uncompiled, compiled twice at once, as a wheel, half imported."""

import email
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import overlaps as ov

SOURCE = Path(ov.__file__).parent
ROOT = Path(__file__).parents[2]

# at their smallest: an integrator, both simulators, stability, the closures of three families
WORK = """
import numpy as np, overlaps as ov
model = ov.committee_machine(1, 1, activation=ov.{activation}, eta=0.5, spectrum=ov.Spectrum([1.5, 0.5]))
start = ov.State.from_blocks(model, q=[[[0.2]], [[0.3]]], r=[[[0.1]], [[0.0]]], t=[[[0.5]], [[0.5]]])
traj = ov.solve(model, start, [0.0, 1.0], method="{method}")
numbers = [traj.eps_g[-1]]
if {all}:
    for method in ("direct", "reduced"):
        numbers.append(ov.simulate(model, N=20, alpha=[0, 1], rng=1, start=start, method=method).Q[0, -1, 0, 0])
    numbers.append(ov.linearise(model, traj[-1]).rate)
    numbers.append(ov.closure(ov.quadratic_network(2, 1, eta=0.1), np.eye(2), [[0.1], [0.2]], [[1.0]]).C[1, 1])
    relu = ov.committee_machine(1, 1, activation=ov.relu, eta=0.1)
    numbers.append(ov.closure(relu, [[1.0]], [[0.2]], [[1.0]]).C[0, 0])
print(*map(float, numbers))
"""


# what lies in a cache is the same for every kernel: a closure, and what it calls, take a second to compile
CLOSURE = """
import overlaps as ov
from overlaps.activations._quadratic import linear_closure
model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
print(ov.closure(model, [[0.5]], [[0.1]], [[1.0]]).eps_g)
"""
COUNTS = """
print(*(sum(counter.values()) for counter in (linear_closure.stats.cache_hits, linear_closure.stats.cache_misses)))
"""
EPS_G = 0.65  # (Q - 2 R + T) / 2

INFO = "\nfrom overlaps.__main__ import main; main(['info'])"


def work(activation="linear", method="structured", everything=False):
    return WORK.format(activation=activation, method=method, all=everything)


def python(code, cwd, **environment):
    """Standard output of a script in a fresh process; variables that are None are removed."""
    env = {name: value for name, value in (os.environ | environment).items() if value is not None}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def numbers(words):
    return np.array([float(word) for word in words])


# places ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_read_only_installation_without_any_cache_works(tmp_path):
    """As on a cluster: neither the package's folder nor the home can be written.

    Files lie where cache folders would be made, so that the test means something to the super-user, too.
    """
    copy = tmp_path / "site" / "overlaps"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [copy, *(path for path in copy.rglob("*") if path.is_dir())]
    blocked = tmp_path / "file"
    blocked.write_text("")
    for folder in folders:
        (folder / "__pycache__").write_text("")
        folder.chmod(0o555)
    before = sorted(copy.rglob("*"))
    try:
        code = CLOSURE + "print(ov.__file__, linear_closure.stats.cache_path)" + INFO
        place_only = dict(
            PYTHONPATH=str(copy.parent), NUMBA_CACHE_DIR=None, NUMBA_DISABLE_JIT="0",
            HOME=str(blocked / "home"), XDG_CACHE_HOME=str(blocked / "cache"),
        )  # fmt: skip
        found, place, cache, *words = python(code, tmp_path, **place_only)
        told = " ".join(words)
        assert "compiled kernels are not cached: no cache folder is writable" in told and "__pycache__" not in told
        assert Path(place).parent == copy and cache == "None"
        assert sorted(copy.rglob("*")) == before
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert float(found) == pytest.approx(EPS_G, rel=1e-14)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_without_compilation_the_numbers_are_the_same(tmp_path):
    for activation in ("linear", "erf"):
        plain, compiled = (
            numbers(python(work(activation, everything=True), tmp_path, NUMBA_DISABLE_JIT=switch))
            for switch in ("1", "0")
        )
        # the last digits: LLVM fuses and reorders what Python does not; 20 steps of SGD and an integration pass them on
        np.testing.assert_allclose(plain, compiled, rtol=1e-9)
        assert np.all(np.isfinite(plain)) and np.all(plain != 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_processes_may_compile_into_one_empty_cache(tmp_path):
    """What the first compile the next finds; and where nothing can be written it is compiled again."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", CLOSURE + COUNTS]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=tmp_path) for _ in range(2)]
    outputs = [process.communicate()[0].split() for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    assert ["0", "1"] in [output[1:] for output in outputs]  # one was first
    third = python(CLOSURE + COUNTS, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert third[1:] == ["1", "0"]  # found, not compiled: what the two left behind is sound
    # compiled in the process or loaded from the cache: the last digit may differ, as the documentation says
    for output in outputs:
        assert float(output[0]) == pytest.approx(float(third[0]), rel=1e-14)
    blocked = tmp_path / "file"
    blocked.write_text("")  # a file where a folder is expected: nothing can be written, whoever runs the test
    (eps_g,) = python(CLOSURE, tmp_path, NUMBA_CACHE_DIR=str(blocked / "x"))
    assert float(eps_g) == pytest.approx(float(third[0]), rel=1e-14) == pytest.approx(EPS_G, rel=1e-14)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_info_names_the_folder_in_which_kernels_are_kept(tmp_path):
    told = " ".join(python(INFO, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"), NUMBA_DISABLE_JIT="0"))
    assert f"jit on compiled kernels in {tmp_path / 'cache'}" in told
    told = " ".join(python(INFO, tmp_path, NUMBA_DISABLE_JIT="1"))
    assert told.endswith("jit off")


# the wheel ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The built wheel; with the build backend that is installed, if it is, so that no network is needed."""
    folder = tmp_path_factory.mktemp("wheel")
    here = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *here, "--wheel-dir", folder, ROOT]
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"overlaps-{ov.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for kind in ("py", "mplstyle", "bib") for path in (ROOT / "src").rglob(f"*.{kind}")]
    sources = {p.relative_to(ROOT / "src").as_posix() for p in files}
    package = {name for name in names if name.startswith("overlaps/")}
    assert package == sources | {"overlaps/py.typed"}  # no tests, no compiled kernels
    rest = {Path(name).parts[0] for name in names - package}
    assert rest == {f"overlaps-{ov.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_long_description_points_to_nothing_that_an_index_lacks(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
    text = metadata.get_payload(decode=True).decode()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "## In ten lines" in text and "## How to cite" in text
    targets = re.findall(r"\]\(([^)]*)\)", text)  # pictures and links: an index shows those of the web only
    assert [target for target in targets if not target.startswith("https://")] == [] and "<!--" not in text


@pytest.mark.slow
def test_the_source_distribution_holds_what_builds_tests_and_explains(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (path,) = tmp_path.iterdir()
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {p.relative_to(ROOT).as_posix() for folder in ("src", "tests") for p in (ROOT / folder).rglob("*.py")}
    needed = {"LICENSE", "README.md", "CITATION.cff", "hatch_build.py", "src/overlaps/py.typed", "docs/conf.py"}
    needed |= {f"src/overlaps/{style}.mplstyle" for style in ("column", "page", "dark")}
    assert names >= sources | needed
    made = ("__pycache__", ".nbi", ".nbc", "docs/_build", "docs/gallery/", "docs/lectures/", ".npy", ".ckpt")
    assert [name for name in names if any(part in name for part in made)] == []


@pytest.mark.slow
def test_the_wheel_works_without_the_repository(wheel, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = work() + "print(ov.__file__, ov.theory.quadratic.eta_solution(6, 3), len(ov.static.__all__))"
    *found, place, eta, count = python(code, tmp_path, PYTHONPATH=str(site), NUMBA_DISABLE_JIT="1")
    assert Path(place).is_relative_to(site) and eta == "1.8" and int(count) == len(ov.static.__all__)
    assert len(found) == 1


# the import -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_importing_everything_draws_and_compiles_nothing(tmp_path):
    code = """
import importlib, pkgutil, sys
import overlaps
first = {name.split(".")[0] for name in sys.modules}
print(*sorted(first & {"matplotlib", "tqdm", "xarray", "mpmath", "pandas", "distributed", "mpi4py"}), "|")
for module in pkgutil.walk_packages(overlaps.__path__, "overlaps."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
from numba.core.dispatcher import Dispatcher
kernels = {
    id(f): f for name, module in sys.modules.items() if name.startswith("overlaps") for f in vars(module).values()
    if isinstance(f, Dispatcher)
}
print(len(kernels), *(f.__name__ for f in kernels.values() if f.signatures))
"""
    heavy, kernels, *compiled = python(code, tmp_path, NUMBA_DISABLE_JIT="0")
    assert heavy == "|" and compiled == []
    assert int(kernels) > 50  # the search itself works


def test_importing_is_light(tmp_path):
    """Nothing is compiled or drawn by the import, and rooms left for later come when a name, a file or a call asks."""
    model = ov.hidden_manifold(2, 1, ratio=0.5, eta=0.2, nodes=3)
    ov.solve(model, model.random_start(N=500, rng=1), [0.0, 0.5]).save(tmp_path / "run.npz")
    code = """
import sys, overlaps as ov
here = lambda: [m for m in ("theory", "static", "landscape", "protocols", "manifold") if f"overlaps.{m}" in sys.modules]
heavy = ["matplotlib.pyplot", "tqdm", "mpmath", "hypothesis", "scipy.integrate", "scipy.special", "scipy.stats"]
print([m for m in heavy if m in sys.modules], here())
from overlaps.activations._erf import erf_closure
print(len(getattr(erf_closure, "signatures", [])))
model = ov.committee_machine(2, 2, eta=0.5)
with ov.reproducible(): ov.solve(model, model.random_start(N=1000, rng=1), [1.0])
print("scipy.integrate" in sys.modules)  # compiled steps need no class of SciPy
try: ov.simulate(ov.committee_machine(1, 1, eta=0.5), N=10, alpha=[0, 1], rng=1, latents=None)
except ValueError as error: print("belong to HiddenManifold" in str(error))
print(ov.load("run.npz").model == ov.hidden_manifold(2, 1, ratio=0.5, eta=0.2, nodes=3))
try: ov.thoery
except AttributeError as error: print("dir(overlaps)" in str(error))
"""
    assert " ".join(python(code, tmp_path)) == "[] [] 0 False True True True"
