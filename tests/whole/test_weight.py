"""The budget of the code: what is counted, and that it stays below the ceilings of the design page."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "weight.py"
spec = importlib.util.spec_from_file_location("weight", SCRIPT)
weight = importlib.util.module_from_spec(spec)
spec.loader.exec_module(weight)

MODULE = '''"""Two lines
of a docstring."""

# a comment
TEXT = """a text

# not a comment"""


def f(a, /, b, *, c=(
    1,  # the line counts
)):
    """One."""
    # none
    return a
'''


def test_what_is_counted(tmp_path):
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "__init__.py").write_text('"""No code."""\n')
    counts = {"code lines": 7, "modules": 1, "docstring lines": 4, "longest function": 5, "longest argument list": 2}
    assert weight.measured(tmp_path) == counts


def test_the_package_is_below_its_ceilings():
    found, most = weight.measured(), weight.ceilings(weight.PAGE.read_text())
    assert found.keys() == most.keys()
    above = {name: (found[name], most[name]) for name in most if found[name] > most[name]}
    assert not above, f"(count, ceiling): {above}; shorten, or name the capability in docs/design.md"


def test_a_ceiling_is_the_sum_of_its_raises():
    page = weight.PAGE.read_text()
    with pytest.raises(SystemExit, match="add up to"):
        weight.ceilings(page.replace("| +700 |", "| +701 |"))
