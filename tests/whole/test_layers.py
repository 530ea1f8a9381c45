"""Architecture is a test: rooms import only rooms below them, and no file is part of a circle.

The floors are read off the diagram in docs/design.md, so that page and code cannot drift apart.  Imports inside
functions count, and those that only type checkers read: they are arrows, too.
"""

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import overlaps

SOURCE = Path(overlaps.__file__).parent
DESIGN = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
DIAGRAM = re.search(r"^## The house\n.*?^```text\n(.*?)^```", DESIGN, re.MULTILINE | re.DOTALL)[1]
# each line is a floor, from the roof down; rooms beside each other know nothing of each other
ROOMS = [re.findall(r"[a-z_]+", line.partition("  —")[0]) for line in reversed(DIAGRAM.splitlines())]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


def module(path):
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCE.rglob("*.py")}


def imports(name, path):
    """Modules of the package that a module imports, anywhere in its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("overlaps"):
            base = node.module
        elif isinstance(node, ast.ImportFrom) and node.level:
            stem = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*stem, *([node.module] if node.module else [])])
        else:
            continue
        for alias in node.names:
            yield next((x for x in (f"{base}.{alias.name}", base) if x in MODULES), None)


@functools.cache
def arrows():
    """{module: modules of the package that it imports}."""
    return {name: {x for x in imports(name, path) if x and x != name} for name, path in MODULES.items()}


def room(name):
    return name.split(".")[1] if "." in name else "__init__"


def test_imports_are_found():
    assert "overlaps.solve" in arrows()["overlaps"] and "overlaps.integrators.evolve" in arrows()["overlaps.solve"]
    assert len(arrows()) > 100 and sum(map(len, arrows().values())) > 300


def test_the_diagram_shows_the_rooms_that_are_there():
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(FLOOR) == there
    assert len(ROOMS) <= 12


def test_no_circles():
    # solutions of spiked random features name, for type checkers, the features that import them
    spiked = {x: {"overlaps.static.spiked.features"} for x in arrows() if x.startswith("overlaps.static.spiked.")}
    try:
        TopologicalSorter({x: below - spiked.get(x, set()) for x, below in arrows().items()}).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_rooms_import_only_what_lies_below(name):
    up = {x for x in arrows()[name] if room(x) != room(name) and FLOOR[room(x)] >= FLOOR[room(name)]}
    assert not up, f"{name} imports {up}, which are not below it"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_kernels_stay_in_their_room(name):
    """_name.py is known in its own folder only."""
    folder = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    foreign = {x for x in arrows()[name] if x.rpartition(".")[2].startswith("_") and x.rpartition(".")[0] != folder}
    foreign -= {"overlaps._base"}
    assert not foreign, f"{name} imports {foreign}"


@pytest.mark.parametrize("name", sorted(x for x in MODULES if MODULES[x].name == "__init__.py" and x != "overlaps"))
def test_a_door_is_a_table_of_contents(name):
    """It says what lives in the room and hands on at most fifteen names, or all of a theory; no code."""
    text = MODULES[name].read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    if name == "overlaps.theory":  # loads its subjects when they are first used
        return
    handed = 0
    for node in tree.body[1:]:
        assert isinstance(node, ast.ImportFrom | ast.Assign), ast.unparse(node)
        handed += len(node.names) if isinstance(node, ast.ImportFrom) else 0
    assert handed <= 15 or ".theory." in name


def test_dir_shows_the_vocabulary():
    assert {name for name in dir(overlaps) if not name.startswith("__")} == set(overlaps.__all__)
    assert all(hasattr(overlaps, name) for name in overlaps.__all__)  # those of rooms that are loaded later, too


def test_only_plotting_and_the_demo_touch_matplotlib():
    users = [p for p in SOURCE.glob("**/*.py") if re.search(r"^ *(from|import) matplotlib", p.read_text(), re.M)]
    assert {"__main__" if p.stem == "__main__" else p.parent.name for p in users} == {"plotting", "__main__"}
