#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.3"]
# ///
"""Every step of the checks, once: ``nox -l`` lists them. ``.ci/run`` calls the sessions that must pass.

Each session has an environment of its own; arguments behind ``--`` go to pytest.
"""

import re
import shutil
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2024.3"
nox.options.default_venv_backend = "uv|virtualenv"
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"
HTML = "docs/_build/html"
PYTEST = "pytest", "-q", "-n", "2", "--dist", "worksteal"


@nox.session
def lint(session):
    """Style, complexity, types and the layers of the packages."""
    session.install(".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session):
    """Quick suite on two cores; ``nox -s tests -- tests/models`` for one package."""
    session.install(".[test]")
    session.run(*PYTEST, "-m", "not slow", *session.posargs)


@nox.session(default=False)
def docs(session):
    """All pages with executed code, the gallery and the lectures; then every page in a browser."""
    session.install(".[docs,examples,notebooks,pages]")
    session.run("python", "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "docs", HTML)
    session.run("python", "docs/check_pages.py", HTML)
    session.run("python", "docs/check_explore.py")


@nox.session(default=False)
def slow(session):
    """Examples that start processes, some tests without compilation, and the long tests (``docs`` runs the pages)."""
    session.install(".[test,examples,dask,mpi,executorlib,notebooks]", "mpich")
    root = Path.cwd()
    scripts = [path for path in sorted((root / "examples").glob("*.py")) if not path.name.startswith("plot_")]
    with session.chdir(session.create_tmp()):
        for script in scripts:
            session.run("python", str(script), env={"MPLBACKEND": "agg"})
    uncompiled = "tests/activations/test_closure.py", "tests/flow/test_flow.py"
    session.run(*PYTEST, *uncompiled, "-m", "not slow", *session.posargs, env={"NUMBA_DISABLE_JIT": "1"})
    elsewhere = "examples.py", "notebooks.py", "docs.py::test_code_on_pages"  # in the session ``docs``
    left_out = [x for name in elsewhere for x in ("--deselect", f"tests/whole/test_{name}")]
    session.run(*PYTEST, "-m", "slow", *left_out, *session.posargs)


@nox.session(default=False)
def package(session):
    """Source distribution and wheel, built and checked."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", silent=True)
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("*")))


@nox.session(default=False)
def wheel(session):
    """Quick suite with the wheel that ``package`` built, without the source beside it."""
    (built,) = Path("dist").glob("*.whl")
    session.install(f"{built}[test]")
    session.run(*PYTEST, "-m", "not slow", *session.posargs)


@nox.session(default=False)
def oldest(session):
    """Quick suite with the oldest versions that ``pyproject.toml`` allows; old packages may warn of newer ones."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    pairs = (re.fullmatch(r"([\w-]+(?:\[\w+\])?)(?:>=([\d.]+))?", x).groups() for x in wanted)
    session.install(*(f"{name}~={version}.0" if version else name for name, version in pairs))  # >=1.26: 1.26.*
    session.install("--no-deps", ".")
    session.run("overlaps", "info")
    session.run(*PYTEST, "-m", "not slow", "-W", "ignore::DeprecationWarning", *session.posargs)


@nox.session(default=False)
def kernels(session):
    """What depends on numba, with its oldest version: the cache and its folder, compilation that is put off."""
    (oldest_numba,) = re.findall(r"numba>=([\d.]+)", Path("pyproject.toml").read_text())
    session.install(f"numba~={oldest_numba}.0", ".[test]")
    files = (f"tests/whole/test_{name}.py" for name in ("kernel_cache", "lazy_compilation", "accounts", "folders"))
    session.run(*PYTEST, *files, "-m", "not slow", *session.posargs)


@nox.session(default=False)
def nightly(session):
    """Quick suite with wheels of the night, and pre-releases of numba; warnings of others do not fail it."""
    session.install(".[test]")
    session.install("--pre", "--upgrade", "--extra-index-url", NIGHTLY, "numpy", "scipy", "matplotlib")
    session.install("--pre", "--upgrade", "numba")  # last, because it knows the newest NumPy that it works with
    session.run("overlaps", "info")
    session.run(*PYTEST, "-m", "not slow", "-W", "default", *session.posargs)


@nox.session(default=False)
def ci(session):
    """Everything that must pass."""
    session.run("bash", ".ci/run", external=True)


if __name__ == "__main__":
    nox.main()
