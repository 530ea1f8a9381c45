"""Every public object explains itself, and every example in a docstring runs and prints what it says."""

import doctest
import importlib
import inspect
import pkgutil
import re
from functools import cached_property
from typing import get_type_hints

import pytest

import overlaps

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = sorted(m.name for m in pkgutil.walk_packages(overlaps.__path__, "overlaps.") if "__main__" not in m.name)


# a quarter of a second and more: with the long tests
LONG = {
    f"overlaps.{x}" for x in (
        "results.plotting.animation", "results.plotting.sliders", "static.bayes.teacher", "static.spiked.best_step",
        "static.spiked.solving", "static.spiked.subspace", "analysis.escape_time", "analysis.stationary",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x in LONG)) for x in MODULES])
def test_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0


def test_long_examples_are_there():
    assert LONG < {*MODULES}


# what users can reach: a new name in one of these lists, or a new module of theory, enters by itself -----------------


def public_objects():
    """{dotted name: function or class}, each once."""
    theories = [m.name for m in pkgutil.iter_modules(overlaps.theory.__path__, "overlaps.theory.")]
    found = {}
    for module in map(importlib.import_module, ["overlaps", "overlaps.static", *theories]):
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                found.setdefault(thing, f"{module.__name__}.{name}")
    return {name: thing for thing, name in found.items()}


def public_methods(cls):
    """{name: function} of the methods and properties that the package defines in a class or its private bases."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("overlaps"):
            for name, thing in vars(base).items():
                if isinstance(thing, cached_property):
                    thing = thing.func
                thing = getattr(thing, "fget", getattr(thing, "__func__", thing))
                if inspect.isfunction(thing) and not name.startswith("_"):
                    found[name] = thing
    return found


OBJECTS = public_objects()
METHODS = {
    f"{name}.{method}": function
    for name, thing in OBJECTS.items()
    if inspect.isclass(thing)
    for method, function in public_methods(thing).items()
}


def arguments(thing, required=False):
    """Names of what a user passes, or has to pass."""
    parameters = inspect.signature(thing).parameters.values()
    kept = [p.name for p in parameters if not required or p.default is p.empty]
    return [name for name in kept if name not in ("self", "cls") and not name.startswith("_")]


def has_section(text, *titles):
    return any(re.search(rf"^{title}\n-+$", text, re.MULTILINE) for title in titles)


def unnamed(text, names):
    return [name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", text)]


def complaints(thing):
    """What the docstring of a function or class lacks.

    A record that a function makes may leave the parameters of its own construction, and the example, to its maker,
    which it names.
    """
    text = inspect.getdoc(thing) or ""
    if not summary(text):
        yield "a summary line that ends with a full stop"
    made = inspect.isclass(thing) and ":func:" in text
    if arguments(thing) and not made:
        if not has_section(text, "Parameters", "Attributes"):
            yield "a section Parameters"
        missing = unnamed(text, arguments(thing))
        if missing:
            yield f"the parameters {missing}"
    inside = public_methods(thing).values() if inspect.isclass(thing) else []
    if not made and not any(">>>" in (inspect.getdoc(x) or "") for x in [thing, *inside]):
        yield "an example"


def summary(text):
    """The first paragraph is one sentence, or two, on one line."""
    first = text.split("\n\n")[0].strip()
    return bool(first) and "\n" not in first and first.endswith((".", ":"))


@pytest.mark.parametrize("name", OBJECTS)
def test_public_objects_are_explained(name):
    assert not list(complaints(OBJECTS[name])), f"the docstring of {name} lacks: {', '.join(complaints(OBJECTS[name]))}"


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_explained(name):
    text = inspect.getdoc(METHODS[name]) or ""
    assert summary(text), f"{name} has no summary line"
    if not has_section(text, "Parameters") and "see :func:" not in text:
        missing = unnamed(text, arguments(METHODS[name], required=True))
        assert not missing, f"{name} does not explain {missing}"


def test_an_object_without_explanation_is_noticed():
    def bare(x):
        pass

    def half(x, y):
        """Do something.

        Parameters
        ----------
        x : float
        """

    bare.__doc__ = "do something"
    assert list(complaints(bare)) == [
        "a summary line that ends with a full stop", "a section Parameters", "the parameters ['x']", "an example",
    ]  # fmt: skip
    assert list(complaints(half)) == ["the parameters ['y']", "an example"]
    assert len(OBJECTS) > 60 and len(METHODS) > 60  # the collection itself works


def test_public_names_are_documented():
    for name in overlaps.__all__:
        thing = getattr(overlaps, name)
        assert thing.__doc__ and len(thing.__doc__) > 40, name


@pytest.mark.parametrize(
    "name", ["field_average", "compress", "plateau", "schedule_gradient", "simulate", "solve", "solve_many"]
)
def test_signatures_in_a_terminal_name_types_shortly(name):
    """A model may be of four classes: with the modules they live in, their names fill three lines."""
    verb = getattr(overlaps, name)
    assert "overlaps." not in str(inspect.signature(verb))
    assert all(not isinstance(x, str) for x in get_type_hints(verb).values())  # and they are found by those names
