"""Architecture is a test: no module is part of a circle of imports.

Imports inside functions count: they are arrows, too.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import overlaps

SOURCE = Path(overlaps.__file__).parent


def module(path):
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCE.rglob("*.py")}


def imports(name, path):
    """Modules of the package that a module imports, anywhere in its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            stem = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*stem, *([node.module] if node.module else [])])
            for alias in node.names:
                yield next((x for x in (f"{base}.{alias.name}", base) if x in MODULES), None)


ARROWS = {name: {x for x in imports(name, path) if x and x != name} for name, path in MODULES.items()}


def test_imports_are_found():
    assert "overlaps.solve" in ARROWS["overlaps"] and "overlaps.integrators.evolve" in ARROWS["overlaps.solve"]


def test_no_circles():
    try:
        TopologicalSorter(ARROWS).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))
