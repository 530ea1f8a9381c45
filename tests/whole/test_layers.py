"""Architecture is a test: rooms import only rooms below them, and no file is part of a circle.

The floors are read off the diagram in docs/design.md, so that page and code cannot drift apart.  Imports inside
functions count, and those that only type checkers read: they are arrows, too.
"""

import ast
import importlib.util
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import overlaps

SCRIPT = Path(__file__).parents[2] / "docs" / "house.py"  # reads the floors and the imports, and draws them
spec = importlib.util.spec_from_file_location("house", SCRIPT)
house = importlib.util.module_from_spec(spec)
spec.loader.exec_module(house)
FLOOR, MODULES, ROOMS, SOURCE, arrows, room = (
    house.FLOOR, house.MODULES, house.ROOMS, house.SOURCE, house.arrows, house.room,
)  # fmt: skip


def test_imports_are_found():
    assert (
        "overlaps.dynamics" in arrows()["overlaps"] and "overlaps.integrators.evolve" in arrows()["overlaps.dynamics"]
    )
    assert len(arrows()) > 100 and sum(map(len, arrows().values())) > 300


def test_the_diagram_shows_the_rooms_that_are_there():
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(FLOOR) == there
    assert len(ROOMS) <= 12


def test_the_picture_shows_the_imports_of_today():
    assert house.PICTURE.read_text() == house.drawn(), "the rooms or their arrows have changed: python docs/house.py"


def test_no_circles():
    try:
        TopologicalSorter(arrows()).prepare()
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
        handed += len(node.names) if isinstance(node, ast.ImportFrom) and "_base" not in (node.module or "") else 0
    assert handed <= 15 or ".theory." in name


def test_dir_shows_the_vocabulary():
    """Of the package, and of every module that users reach from it, those of rooms that are loaded later, too."""
    rooms = [overlaps]
    for room in rooms:
        names = {name for name in dir(room) if not name.startswith("__")}
        assert names == set(room.__all__), room.__name__
        rooms += [x for name in sorted(names) if isinstance(x := getattr(room, name), ModuleType)]
    assert {overlaps.rules, overlaps.latents, overlaps.static, overlaps.theory.linear} < set(rooms)


def test_only_plotting_and_the_demo_touch_matplotlib():
    users = [p for p in SOURCE.glob("**/*.py") if re.search(r"^ *(from|import) matplotlib", p.read_text(), re.M)]
    assert {"__main__" if p.stem == "__main__" else p.parent.name for p in users} == {"plotting", "__main__"}
