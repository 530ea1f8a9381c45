"""Weight of the package: counts of ``src/overlaps`` beside the ceilings of the table in ``docs/design.md``.

    python .ci/weight.py            print both; fail where a count is above its ceiling
    python .ci/weight.py --write    write the counts of today into the table

A line of code is neither empty nor a comment nor part of a docstring; functions are measured without docstrings.
A new capability raises a ceiling in the commit that brings it, by a row of its own in the table of raises.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.md"
ROW = re.compile(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
RAISE = re.compile(r"^\| \+?(\d+) \| ([^|]+) \|$", re.MULTILINE)


def counted(source):
    """Lines of code and of docstrings; length without the docstring and arguments by position of every function."""
    code = {n for n, line in enumerate(source.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    doc, functions = set(), []
    for x in ast.walk(ast.parse(source)):
        if isinstance(x, ast.Expr) and isinstance(getattr(x.value, "value", None), str):
            doc.update(range(x.lineno, x.end_lineno + 1))
        elif isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", None), str):
            code.update(range(x.lineno, x.end_lineno + 1))
        elif isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef):
            text, given = ast.get_docstring(x, clean=False) or "", x.args
            arguments = len(given.posonlyargs) + len(given.args)
            functions.append((x.end_lineno - x.lineno + 1 - len(text.splitlines()), arguments))
    return len(code - doc), len(doc), functions


def measured(package=ROOT / "src" / "overlaps"):
    """The counts, by their names in the table."""
    files = [counted(path.read_text(encoding="utf8")) for path in sorted(package.rglob("*.py"))]
    code, doc, functions = zip(*files, strict=True)
    lengths, arguments = zip(*(x for several in functions for x in several), strict=True)
    found = {"code lines": sum(code), "modules": sum(map(bool, code)), "docstring lines": sum(doc)}
    return found | {"longest function": max(lengths), "longest argument list": max(arguments)}


def ceilings(page):
    """Ceilings by name; that of code lines is the sum of its raises."""
    section = page[page.index("## Weight") :]
    found = {name: int(most) for name, _, most in ROW.findall(section)}
    raised = sum(int(n) for n, _ in RAISE.findall(section))
    if raised != found["code lines"]:
        raise SystemExit(f"docs/design.md: the raises add up to {raised}, the ceiling is {found['code lines']}")
    return found


def main():
    """Print the table; write it if asked to; the exit status is 1 where something is above its ceiling."""
    page, found = PAGE.read_text(encoding="utf8"), measured()
    most = ceilings(page)
    if "--write" in sys.argv:
        PAGE.write_text(ROW.sub(lambda row: f"| {row[1]} | {found[row[1]]} | {row[3]} |", page), encoding="utf8")
    for name, ceiling in most.items():
        print(f"{name:22} {found[name]:6} {ceiling:6}{'   ABOVE ITS CEILING' * (found[name] > ceiling)}")
    return any(found[name] > ceiling for name, ceiling in most.items())


if __name__ == "__main__":
    sys.exit(main())
