"""The benchmarks in one table: comparison of two runs, and the page that holds the last one kept."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "performance.json"


@pytest.fixture(scope="module")
def benchmarks():
    """The script ``all.py``, with its neighbours."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("all_benchmarks", ROOT / "benchmarks" / "all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "benchmarks"))


def run_of(**costs):
    """A run whose rows have these costs; seconds, which depend on the machine, tell the opposite."""
    rows = [
        {"part": "P", "name": n, "seconds": 1 / c, "cost": c, "rounds": 3, "baselines": {}, "note": ""}
        for n, c in costs.items()
    ]
    return {"machine": {}, "rows": rows}


def test_comparison_names_what_became_slower(benchmarks):
    old = run_of(same=1.0, slow=1.0, fast=1.0, gone=1.0, little=1.0)
    new = run_of(same=1.0, slow=1.3, fast=0.5, little=1.19, fresh=1.0)
    assert benchmarks.compare(new, old) == [
        "slower: P, slow: 1.30 times",
        "missing: P, gone",
        "new: P, fresh",
        "faster: P, fast: 2.00 times",
    ]
    assert benchmarks.compare(old, old) == []


def test_against_a_file(benchmarks, tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(run_of(a=1.0, b=1.0)))
    new.write_text(json.dumps(run_of(a=1.0, b=1.5)))
    assert benchmarks.main(["--read", str(new), "--against", str(old)]) == 1
    assert capsys.readouterr().out == "slower: P, b: 1.50 times\n"
    assert benchmarks.main(["--read", str(old), "--against", str(new)]) == 0
    assert "faster: P, b" in capsys.readouterr().out


def test_rows_are_ratios_within_a_round(benchmarks, monkeypatch):
    """Time that the tasks themselves tell, on a machine that slows down from round to round."""
    import timing

    clock, load = [0.0], [1.0]

    def work(seconds):
        clock[0] += seconds * load[0]

    def yardstick():
        load[0] *= 1.5
        work(0.2)

    monkeypatch.setattr(timing, "cpu", lambda: clock[0])
    monkeypatch.setattr(timing, "yardstick", yardstick)
    tasks = {"half as long": (lambda: work(3.0), 2), "twice as long": lambda: work(12.0)}
    found = timing.row("P", "three seconds each", lambda: work(6.0), tasks, per=2, budget=400.0)
    assert found["rounds"] > 3
    assert found["cost"] == pytest.approx(3.0 / 0.2, rel=1e-9)
    assert [x["ratio"] for x in found["baselines"].values()] == pytest.approx([0.5, 2.0], rel=1e-9)
    # the first call and the one that is counted, before the rounds begin
    assert found["seconds"] == pytest.approx(3.0 * 1.5**3, rel=1e-9)


def test_the_page_holds_rows_of_the_file(benchmarks):
    text, kept = (ROOT / "docs" / "performance.md").read_text(), json.loads(KEPT.read_text())
    table = text.split(benchmarks.MARKS[0])[1].split(benchmarks.MARKS[1])[0].strip()
    assert table == benchmarks.page(kept)
    names = [found["name"] for found in kept["rows"]]
    assert len({*names}) == len(names)  # a name is enough to choose a row
    assert [name for name in names if name in benchmarks.DECISIVE] == list(benchmarks.DECISIVE)
    assert benchmarks.NAMES.keys() <= {*benchmarks.DECISIVE}
    assert len([line for line in table.splitlines() if line.startswith("| ")]) == len(benchmarks.DECISIVE) + 1
    assert {module.removesuffix(".py") for module in benchmarks.MODULES} == {
        path.stem for path in (ROOT / "benchmarks").glob("*.py")
    } - {"all", "rivals", "timing"}


def test_writing_a_page_leaves_the_rest(benchmarks, tmp_path):
    page, found = tmp_path / "page.md", json.loads(KEPT.read_text())
    page.write_text(f"before\n{benchmarks.MARKS[0]}\nstale table\n{benchmarks.MARKS[1]}\nafter\n")
    benchmarks.write(found, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "stale table" not in text
    assert benchmarks.page(found) in text
