#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.3"]
# ///
"""Commands by name: ``nox -s tests``, ``nox -l`` lists them. Each session has an environment of its own."""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.3"
nox.options.default_venv_backend = "uv|virtualenv"
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"


@nox.session
def lint(session):
    """Style and types."""
    session.install(".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def tests(session):
    """Quick suite on two cores; ``nox -s tests -- -m slow`` for the long one, a path for one room."""
    session.install(".[test]")
    session.run("pytest", "-n", "2", *(session.posargs or ["-m", "not slow"]))


@nox.session(default=False)
def docs(session):
    """All pages, with executed code, gallery and lectures, then every page in a browser."""
    session.install(".[docs,examples,notebooks,pages]")
    session.run("python", "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "docs", "docs/_build/html")
    session.run("python", "docs/check_pages.py", "docs/_build/html")


@nox.session(default=False)
def package(session):
    """Source distribution and wheel, checked; the wheel passes the quick tests without the source beside it."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("*")))
    (wheel,) = Path("dist").glob("*.whl")
    session.install(f"{wheel}[test]")
    session.run("pytest", "-q", "-n", "2", "-m", "not slow", *session.posargs)


@nox.session(default=False)
def nightly(session):
    """Quick suite with wheels of the night; warnings of others do not fail it."""
    session.install(".[test]")
    session.install("--pre", "--upgrade", "--extra-index-url", NIGHTLY, "numpy", "scipy", "matplotlib")
    session.run("pytest", "-q", "-n", "2", "-m", "not slow", "-W", "default", *session.posargs)


@nox.session(default=False)
def ci(session):
    """What the project is judged by."""
    session.run("bash", ".ci/run", external=True)


if __name__ == "__main__":
    nox.main()
