"""The code on the pages runs; messages name pages that exist; every public module is in the reference."""

import ast
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import overlaps

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]
BLOCK = re.compile(r"^```(?:python|\{code-cell\})\n(?::[^\n]*\n)*(.*?)^```", re.MULTILINE | re.DOTALL)
PRIVATE = {"overlaps.__main__"}  # the command line
# lists of names that users meet through overlaps.<name>, or not at all
INNER = {
    "integrators.simd", "gaussian.iterated", "theory.linear.data_set", "theory.cayley_hamilton.bases",
    "theory.cayley_hamilton.hierarchy", "theory.linear.flow", "theory.linear.eigenmodes", "theory.quadratic.bias",
    "theory.quadratic.landscape", "theory.quadratic.phases", "theory.quadratic.selection", "theory.plateau.escape",
    "theory.plateau.heights",
}  # fmt: skip


def code(page):
    return BLOCK.findall(page.read_text())


FIRST = {"README", "index"}  # what newcomers copy first; the rest runs when pages are built, and in the long suite


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] * (p.stem not in FIRST), id=p.stem) for p in PAGES if code(p)]
)
def test_code_on_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs")  # figures.py
    names = {"__name__": "__main__"}
    for number, block in enumerate(code(page)):
        exec(compile(block, f"{page.name}, block {number + 1}", "exec"), names)
    plt.close("all")


def calls_of_which():
    """Code spans of the second column of which.md."""
    rows = [line.split("|") for line in (ROOT / "docs" / "which.md").read_text().splitlines() if line.startswith("| ")]
    return [span for _, _, call, *_ in rows for span in re.findall("`(.*?)`", call)]


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """The names that calls of which.md use, for a curve that waits on a plateau."""
    import overlaps as ov

    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=np.diag([0.5, 0.4]), R=np.diag([0.02, 0.04]), T=np.eye(2))
    alpha, path = np.linspace(0, 150, 16), str(tmp_path_factory.mktemp("which") / "result.npz")
    traj = ov.solve(model, start, alpha)
    traj.save(path)
    learned = ov.State.from_overlaps(model, Q=np.eye(2), R=np.eye(2), T=np.eye(2))
    return {
        "ov": ov, "model": model, "start": start, "alpha": alpha, "traj": traj, "state": learned, "i": 0,
        "N": 10**5,
        "models": [model] * 2, "starts": [start] * 2, "f": lambda lam, nu, theta: lam[0] * nu[0], "path": path, "T": 2,
        "g": np.tanh, "dg": lambda x: 1 / np.cosh(x) ** 2, "X": np.random.default_rng(1).normal(size=(200, 4)),
    }  # fmt: skip


@pytest.mark.parametrize("span", calls_of_which())
def test_calls_of_which_function_do_i_want_can_be_made(span, setting):
    """Whole calls are made; of those that leave something open the function is there and takes what they name."""
    call = ast.parse(re.sub(r"=(?=[,)])", "=...", span.replace(", ...", "")), mode="eval").body
    named = isinstance(call, ast.Call)
    function = eval(ast.unparse(call.func if named else call), setting)
    open_ = named and any(isinstance(x, ast.Constant) and x.value is ... for x in ast.walk(call))
    if named and not open_ and ", ..." not in span:
        eval(span, setting)
    elif named:
        positional = [x for x in call.args if not (isinstance(x, ast.Constant) and x.value is ...)]
        inspect.signature(function).bind_partial(*positional, **{x.arg: x.value for x in call.keywords})


def test_stored_thumbnails_belong_to_scripts():
    """``docs/conf.py`` puts them into quick builds by the name of the script; the first page shows three."""
    stored = [path.name for path in (ROOT / "docs" / "images" / "thumbnails").iterdir()]
    scripts = {f"sphx_glr_{path.stem}_thumb.png" for path in (ROOT / "examples").glob("*.py")}
    assert len(stored) > 70 and set(stored) <= scripts
    assert all(Path(x).name in stored for x in re.findall(r"\S+_thumb\.png", (ROOT / "docs" / "index.md").read_text()))


def test_pages_have_code():
    assert sum(len(code(page)) for page in PAGES) > 25  # the pattern finds what is there


@cache
def sources():
    """{path: nodes of its syntax tree} of the files that warn, or name a page."""
    texts = {x: x.read_text() for x in Path(overlaps.__file__).parent.rglob("*.py")}
    return {x: [*ast.walk(ast.parse(text))] for x, text in texts.items() if re.search(r"\b(warn|see)\(", text)}


def calls_of(name, nodes):
    """Calls of a function by its name, as it is written."""
    last = name.rpartition(".")[2]
    found = [x for x in nodes if isinstance(x, ast.Call) and last in (getattr(x.func, a, "") for a in ("attr", "id"))]
    return [x for x in found if ast.unparse(x.func) == name]


def test_pages_that_messages_name_exist():
    """Errors and warnings end in ``check.see(page, section)``: a heading of that page, up to a bracket."""
    calls = [
        (path, [argument.value for argument in node.args])
        for path, nodes in sources().items()
        for node in calls_of("check.see", nodes)
        if len(node.args) == 2
    ]
    assert len(calls) > 10
    for path, (page, section) in calls:
        headings = re.findall(r"^#+ (.*?)(?: \*\(.*)?$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
        assert section in headings, f"{path}: docs/{page}.md has no section {section!r}"


def test_every_warning_names_its_page():
    """What is warned of is explained: the function that warns calls ``check.see``, too."""
    functions = [
        (path, node)
        for path, nodes in sources().items()
        if path.name != "signatures.py"  # which passes on what others say
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        if calls_of("warnings.warn", ast.walk(node)) or calls_of("warn", ast.walk(node))
    ]
    assert len(functions) > 10
    assert [f"{path}: {node.name}" for path, node in functions if not calls_of("check.see", ast.walk(node))] == []


@pytest.mark.parametrize("paper, last", [("WR24", 122), ("B26", 48)])
def test_every_equation_of_a_paper_is_found_once_by_its_number(paper, last):
    section = (ROOT / "docs" / "papers.md").read_text().split(f"### Equations of {paper}\n")[1].split("\n#")[0]
    numbers = re.findall(r"\((\d+)\)(?:–\((\d+)\))?", section)  # (3), (4)–(7)
    assert sorted(n for a, b in numbers for n in range(int(a), int(b or a) + 1)) == list(range(1, last + 1))


def test_every_name_of_the_vocabulary_has_one_page():
    """The tables of docs/api make a page for each entry; activations that need no call stand there themselves."""
    tables = "\n".join(p.read_text() for p in (ROOT / "docs" / "api").glob("*.md"))
    modules = {"static", "theory", "rules", "results", "latents", "covariates", "memory"}
    for name in set(overlaps.__all__) - modules:
        described = re.findall(rf"^(?:   |\.\. py:data:: ){name}$", tables, re.MULTILINE)
        assert len(described) == 1, f"{name} is described {len(described)} times in docs/api"
    for name in overlaps.results.__all__:
        described = re.findall(rf"^   (?:\w+\.)*{name}$|^\.\. autoclass:: .*\.{name}$", tables, re.MULTILINE)
        assert len(described) == 1, f"{name} is described {len(described)} times in docs/api"


def test_every_public_module_is_in_the_reference():
    text = "\n".join(p.read_text() for p in (ROOT / "docs").glob("api*/*.md")) + (ROOT / "docs" / "api.md").read_text()
    modules = [m.name for m in pkgutil.walk_packages(overlaps.__path__, "overlaps.")]
    # modules whose names are all in the package's vocabulary, or among its rules, are described there
    known = {*overlaps.__all__, *overlaps.results.__all__, *overlaps.rules.__all__}
    for name in modules:
        short = name.removeprefix("overlaps.")
        if "._" in name or short in INNER or name in PRIVATE:
            continue
        module = __import__(name, fromlist=["_"])
        names = set(getattr(module, "__all__", []))
        assert names <= known or short in text, f"{name} is missing in docs/api"
