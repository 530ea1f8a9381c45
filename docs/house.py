"""The house as a picture: rooms on their floors and the imports between them, as docs/images/house.svg.

    python docs/house.py

The floors are read off the diagram of docs/design.md, the arrows off the text of the modules: imports inside functions
count, and those that only type checkers read.  An arrow is left out where others lead the same way down.
"""

import ast
import functools
import re
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "overlaps"
PICTURE = HERE / "images" / "house.svg"
DIAGRAM = re.search(r"^## The house\n.*?^```text\n(.*?)^```", (HERE / "design.md").read_text(), re.M | re.S)[1]
# each line is a floor, from the roof down; rooms beside each other know nothing of each other
ROOMS = [re.findall(r"[a-z_]+", line.partition("  —")[0]) for line in reversed(DIAGRAM.splitlines())]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
WIDTH, STOREY, HEIGHT, LETTER = 1000, 74, 30, 7.2  # of the picture, a floor, a room, a letter of its name
SWEEPS = 8  # over the floors, that order their rooms


def module(path):
    """Name of the module in a file."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCE.rglob("*.py")}


def imports(name, path):
    """Modules of the package that a module imports, anywhere in its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
            continue
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
    """The room of a module."""
    return name.split(".")[1] if "." in name else "__init__"


def ways():
    """{room: rooms that it leads to}, without the arrows that others make superfluous."""
    direct = {x: set() for x in FLOOR}
    for name, below in arrows().items():
        direct[room(name)] |= {room(x) for x in below} - {room(name)}
    reached = {}
    for x in sorted(FLOOR, key=FLOOR.get):
        reached[x] = direct[x].union(*(reached[y] for y in direct[x]))
    return {x: sorted(y for y in direct[x] if not any(y in reached[z] for z in direct[x])) for x in FLOOR}


def places(below):
    """Middles of the rooms, ordered so that arrows cross little: each goes to the mean of what it is tied to."""
    tied = {x: [*below[x], *(y for y in FLOOR if x in below[y])] for x in FLOOR}
    order, middle = [list(rooms) for rooms in ROOMS], {}
    for sweep in range(SWEEPS):
        for floor, rooms in enumerate(order):
            if sweep:
                rooms.sort(key=lambda x: (sum(middle[y][0] for y in tied[x]) / max(len(tied[x]), 1), x))
            free = WIDTH - sum(size(x) for x in rooms)
            left = free / (len(rooms) + 1)
            for x in rooms:
                middle[x] = left + size(x) / 2, (len(ROOMS) - floor - 0.5) * STOREY
                left += size(x) + free / (len(rooms) + 1)
    return middle


def size(name):
    """Width of a room."""
    return LETTER * len(name) + 24


def drawn():
    """The picture, as text."""
    below, lines = ways(), []
    middle = places(below)
    for upper, lower in ((x, y) for x in FLOOR for y in below[x]):
        (x0, y0), (x1, y1) = middle[upper], middle[lower]
        y0, y1 = y0 + HEIGHT / 2, y1 - HEIGHT / 2 - 4
        bend = (y1 - y0) / 2
        curve = f"M{x0:.0f} {y0:.0f} C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"
        lines.append(f'<path d="{curve}" marker-end="url(#head)"/>')
    for name, (x, y) in middle.items():
        left, top = x - size(name) / 2, y - HEIGHT / 2
        lines.append(f'<rect x="{left:.0f}" y="{top:.0f}" width="{size(name):.0f}" height="{HEIGHT}" rx="5"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 4:.0f}">{name}</text>')
    height = STOREY * len(ROOMS)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        "<style>rect { fill: #f4f1ea; stroke: #55504a } text { font: 12px monospace; text-anchor: middle; fill: #222 }",
        "path { fill: none; stroke: #8a847b; stroke-width: 1.1 } .page { fill: #fff; stroke: none }</style>",
        '<defs><marker id="head" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="5" markerHeight="5" orient="auto">',
        '<polygon points="0,0 6,3 0,6" fill="#8a847b"/></marker></defs>',
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        *lines,
        "</svg>\n",
    ])  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(drawn())
