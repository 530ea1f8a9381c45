"""Imports and public names; ``lint-imports`` checks the layers of the packages (``pyproject.toml``)."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import overlaps

SOURCE = Path(overlaps.__file__).parent


def module(path):
    """Name of the module in a file."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCE.rglob("*.py")}


def imported(name):
    """Modules of the package that a module imports, also inside functions and for type checkers only."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base


IMPORTS = {name: {x for x in imported(name) if x in MODULES and x != name} for name in MODULES}


def test_imports_are_found():
    assert {"overlaps.dynamics"} < IMPORTS["overlaps"] and "overlaps.integrators.evolve" in IMPORTS["overlaps.dynamics"]
    assert len(IMPORTS) > 100 and sum(map(len, IMPORTS.values())) > 300


def test_no_circles():
    """Apart from the one import of ``pyproject.toml`` that happens when a method is called."""
    IMPORTS["overlaps.results.trajectory"].remove("overlaps.analysis.escape_time")
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_kernels_are_imported_in_their_own_package_only(name):
    """``_name.py`` is private to its folder."""
    folder = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    foreign = {x for x in IMPORTS[name] if x.rpartition(".")[2].startswith("_") and x.rpartition(".")[0] != folder}
    assert not foreign - {"overlaps._base"}, f"{name} imports {foreign}"


@pytest.mark.parametrize("name", sorted(x for x in MODULES if MODULES[x].name == "__init__.py" and x != "overlaps"))
def test_an_init_module_is_a_table_of_contents(name):
    """It describes its package and exports at most fifteen names, or all of a theory; it holds no code."""
    tree = ast.parse(MODULES[name].read_text())
    assert ast.get_docstring(tree)
    if name == "overlaps.theory":  # loads its subjects when they are first used
        return
    exported = 0
    for node in tree.body[1:]:
        assert isinstance(node, ast.ImportFrom | ast.Assign), ast.unparse(node)
        exported += len(node.names) if isinstance(node, ast.ImportFrom) and "_base" not in (node.module or "") else 0
    assert exported <= 15 or ".theory." in name


def test_dir_shows_the_public_names():
    """``dir`` of the package, and of every module that users reach from it, also of those that are loaded later."""
    modules = [overlaps]
    for found in modules:
        names = {name for name in dir(found) if not name.startswith("__")}
        assert names == set(found.__all__), found.__name__
        modules += [x for name in sorted(names) if isinstance(x := getattr(found, name), ModuleType)]
    assert {overlaps.rules, overlaps.latents, overlaps.static, overlaps.theory.linear} < set(modules)


def test_only_plotting_and_the_demo_touch_matplotlib():
    users = [p for p in SOURCE.glob("**/*.py") if re.search(r"^ *(from|import) matplotlib", p.read_text(), re.M)]
    assert {"__main__" if p.stem == "__main__" else p.parent.name for p in users} == {"plotting", "__main__"}
